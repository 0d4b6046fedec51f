"""Sparse regression from normal matrices, many problems at once."""

import itertools
import math
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.regression.kernels.elimination import eliminate
from fim_dynsys.regression.kernels.subsets import best_subsets

FEW = 4
"""Regressors, all subsets of which are tried."""

_RIDGE = 1e-13  # of unit columns
_MOST_SUBSETS = 2000  # of one size: larger sizes are not tried
_JITTER = 1e-14  # of the scaled diagonal: as small as the rounding errors of the normal matrix itself


def normal_equations(
    columns: np.ndarray, targets: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Normal matrices of regressing each target on the columns.

    Parameters
    ----------
    columns : array (..., n, m)
        Terms at the samples.
    targets : array (..., n, d)
        Slopes, or whatever is explained.
    weights : array (..., n, d), optional
        Row weights for each target.

    Returns
    -------
    gram : array (..., d, m, m)
        Matrix of inner products of the columns.
    moment : array (..., d, m)
        Inner products of the columns with the targets.
    total : array (..., d)
        Sum of squares of the targets.
    """
    rows = np.swapaxes(columns, -1, -2)[..., None, :, :]
    y = np.swapaxes(targets, -1, -2)[..., None]
    if weights is None:
        gram = rows @ columns[..., None, :, :]
        gram = np.broadcast_to(gram, (*y.shape[:-2], *gram.shape[-2:]))
        return gram, (rows @ y)[..., 0], np.sum(targets**2, axis=-2)
    w = np.swapaxes(weights, -1, -2)[..., None, :]
    weighted = rows * w
    gram = weighted @ columns[..., None, :, :]
    return gram, (weighted @ y)[..., 0], np.sum(weights * targets**2, axis=-2)


def solve_supports(
    gram: np.ndarray, moment: np.ndarray, support: np.ndarray, ridge: float | np.ndarray = 0.0
) -> np.ndarray:
    """Ridge regression restricted to supports.

    Parameters
    ----------
    gram : array (..., m, m)
        Normal matrices.
    moment : array (..., m)
        Right-hand sides.
    support : bool array (..., m)
        Terms that may be non-zero.
    ridge : float or array (...)
        Added to the diagonal.

    Returns
    -------
    array (..., m)
        Zero outside the support.
    """
    ridge = np.asarray(ridge, dtype=np.float64)[..., None]
    diagonal = np.diagonal(gram, axis1=-2, axis2=-1) + ridge
    used = support & (diagonal > 0)
    scale = np.where(used, 1.0 / np.sqrt(np.where(used, diagonal, 1.0)), 0.0)
    matrix = gram * scale[..., :, None] * scale[..., None, :]
    m = matrix.shape[-1]
    matrix[..., range(m), range(m)] = 1.0 + _JITTER
    return scale * np.linalg.solve(matrix, (scale * moment)[..., None])[..., 0]


def stlsq(
    gram: np.ndarray,
    moment: np.ndarray,
    threshold: float | np.ndarray = 0.1,
    alpha: float | np.ndarray = 0.05,
    normalize_columns: bool | np.ndarray = False,
    max_iter: int = 20,
) -> np.ndarray:
    """Sequentially thresholded least squares, equal to ``pysindy.STLSQ`` to rounding.

    Brunton, Proctor & Kutz 2016 (PNAS 113, 3932): alternate a ridge regression on the support with dropping
    the coefficients below the threshold, then refit the support without ridge.

    Parameters
    ----------
    gram : array (..., m, m)
        Normal matrices.
    moment : array (..., m)
        Right-hand sides.
    threshold, alpha : float or array (...)
        Smallest coefficient kept, and ridge.
    normalize_columns : bool or array (...)
        Whether threshold and ridge refer to columns of unit norm.
    max_iter : int
        Largest number of ridge regressions.

    Returns
    -------
    array (..., m)
    """
    batch = np.broadcast_shapes(
        gram.shape[:-2], moment.shape[:-1], np.shape(threshold), np.shape(alpha), np.shape(normalize_columns)
    )
    m = gram.shape[-1]
    norms = np.sqrt(np.diagonal(gram, axis1=-2, axis2=-1))
    norms = np.where(np.asarray(normalize_columns)[..., None] & (norms > 0), norms, 1.0)
    gram = np.broadcast_to(gram / (norms[..., :, None] * norms[..., None, :]), (*batch, m, m)).reshape(
        -1, m, m
    )
    moment = np.broadcast_to(moment / norms, (*batch, m)).reshape(-1, m)
    threshold, alpha = (np.broadcast_to(v, batch).reshape(-1) for v in (threshold, alpha))
    coefficients = np.zeros((len(moment), m))
    support = np.ones((len(moment), m), dtype=bool)
    busy = np.arange(len(moment))
    for _ in range(max_iter):
        c = solve_supports(gram[busy], moment[busy], support[busy], alpha[busy])
        kept = support[busy] & (np.abs(c) >= threshold[busy, None])
        coefficients[busy] = np.where(kept, c, 0.0)
        changed = (kept != support[busy]).any(axis=1) & kept.any(axis=1)
        support[busy] = kept
        busy = busy[changed]
        if not len(busy):
            break
    support = np.abs(coefficients) > 1e-14
    return solve_supports(gram, moment, support).reshape(*batch, m) / norms


def backward_elimination(gram: np.ndarray, moment: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Order in which least squares gives up its terms, the cheapest one first.

    Dropping term ``j`` raises the residual sum of squares by ``c_j^2 / (G^-1)_jj`` (Miller 2002, Subset
    Selection in Regression, sect. 3.3); the inverse is updated after each drop.

    Parameters
    ----------
    gram : array (..., m, m)
        Normal matrices.
    moment : array (..., m)
        Right-hand sides.

    Returns
    -------
    order : int array (..., m)
        Terms, first dropped first.
    costs : array (..., m)
        Rise of the residual sum of squares at each drop.
    """
    batch, m = moment.shape[:-1], moment.shape[-1]
    count = math.prod(batch)  # not -1, which numpy cannot infer when no terms are left
    gram = np.broadcast_to(gram, (*batch, m, m)).reshape(count, m, m)
    moment = moment.reshape(count, m)
    diagonal = np.diagonal(gram, axis1=1, axis2=2)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = gram * scale[:, :, None] * scale[:, None, :]
    scaled[:, range(m), range(m)] = 1.0 + _JITTER
    inverse = np.linalg.inv(scaled)
    c = (inverse @ (scale * moment)[..., None])[..., 0]
    order, costs = eliminate(inverse, c)
    return order.reshape(*batch, m), costs.reshape(*batch, m)


def backward_path(gram: np.ndarray, moment: np.ndarray, tolerances: ArrayLike) -> np.ndarray:
    """Backward elimination stopped at several tolerances, each support refitted.

    Parameters
    ----------
    gram : array (..., m, m)
        Normal matrices.
    moment : array (..., m)
        Right-hand sides.
    tolerances : array (T,) or (..., T)
        Terms are dropped until the next drop would raise the residual sum of squares by more than this.

    Returns
    -------
    array (..., T, m)
        Coefficients.
    """
    order, costs = backward_elimination(gram, moment)
    tolerances = np.broadcast_to(tolerances, (*moment.shape[:-1], np.shape(tolerances)[-1]))
    # a drop counts as affordable only if all earlier ones were
    worst = np.maximum.accumulate(costs, axis=-1)
    dropped = worst[..., None, :] <= tolerances[..., :, None]
    support = np.ones(dropped.shape, dtype=bool)
    np.put_along_axis(support, np.broadcast_to(order[..., None, :], dropped.shape), ~dropped, axis=-1)
    shape = (*dropped.shape[:-1],)
    m = gram.shape[-1]
    return solve_supports(
        np.broadcast_to(gram[..., None, :, :], (*shape, m, m)),
        np.broadcast_to(moment[..., None, :], (*shape, m)),
        support,
    )


def smallest_subset(
    equations: np.ndarray, most: float, largest: int, cost: np.ndarray | None = None
) -> tuple[np.ndarray, float] | None:
    """Fewest regressors that leave no more than ``most``, of all subsets of up to four.

    Exchanges of a term or two do not find the way from one form of a right-hand side to another where many
    regressors do alike; all subsets do.

    Parameters
    ----------
    equations : array (m + 1, m + 1)
        Normal equations of columns of about unit norm, the target last.
    most : float
        Largest residual sum of squares.
    largest : int
        Largest number of regressors. Sizes of which there are more than 2000 subsets are not tried.
    cost : array (m,), optional
        Of as few that leave so little, those with the smallest sum of it; default those that leave least.

    Returns
    -------
    subset : bool array (m,)
    residual_variances : float
        Residual sum of squares. None in place of both where no subset leaves so little.
    """
    m = len(equations) - 1
    for size in range(1, min(largest, FEW, m) + 1):
        if math.comb(m, size) > _MOST_SUBSETS:
            return None
        subsets, residual_variances = subsets_that_leave_least(
            equations, size, np.zeros(m) if cost is None else cost, most, of_equal=True
        )
        if residual_variances[0] <= most:
            subset = np.zeros(m, dtype=bool)
            subset[subsets[0]] = True
            return subset, max(float(residual_variances[0]), 0.0)
    return None


def subsets_that_leave_least(
    equations: np.ndarray, size: int, cost: np.ndarray, floor: float, of_equal: bool = False, most: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """The ``most`` best subsets (k, size) of a size, and their residual sums of squares (k,).

    Below the floor the smallest sum of ``cost`` (m,) decides, then, if ``of_equal``, what is left.
    """
    regular = equations.copy()
    regular[range(len(cost)), range(len(cost))] += _RIDGE
    return best_subsets(regular, size, cost.astype(float), floor, of_equal, most)


def subset_residuals(equations: np.ndarray, subsets: np.ndarray) -> np.ndarray:
    """Residual sums of squares (k,) of subsets (k, size) of the regressors of some normal equations."""
    gram = equations[subsets[:, :, None], subsets[:, None, :]] + _RIDGE * np.eye(subsets.shape[1])
    moment = equations[subsets, -1]
    values = np.linalg.solve(gram, moment[..., None])[..., 0]
    fitted = np.einsum("ci,cij,cj->c", values, gram, values)
    return equations[-1, -1] - 2.0 * np.einsum("ci,ci->c", values, moment) + fitted


@cache
def subsets_of(m: int, size: int) -> np.ndarray:
    """All subsets (k, size) of so many of m."""
    return np.array(list(itertools.combinations(range(m), size)))
