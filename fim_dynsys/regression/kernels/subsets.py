"""Sparse subsets of regressors from normal equations, by additions, drops and exchanges."""

import math

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled

_COLLINEAR = 1e-9  # of a column's norm must be left by the others, or rounding decides its coefficient
_EXCHANGES = 50


@compiled
def sweep(a: np.ndarray, k: int) -> None:
    """Sweep a symmetric matrix on pivot ``k`` in place; a second time undoes it.

    With the normal equations of a regression, the target last, sweeping the pivots of a subset leaves the
    residual sum of squares at the end of the diagonal (Goodnight 1979, Am. Stat. 33, 149).
    """
    n = len(a)
    pivot = a[k, k]
    column = a[:, k].copy()
    for i in range(n):
        factor = column[i] / pivot
        if i != k and factor != 0.0:
            for j in range(n):
                a[i, j] -= factor * column[j]
    sign = 1.0 if pivot > 0.0 else -1.0
    for i in range(n):
        a[i, k] = sign * column[i] / pivot
        a[k, i] = a[i, k]
    a[k, k] = -1.0 / pivot


@compiled
def _misfit(rss: float, n: int) -> float:
    return n * math.log(max(rss / n, 1.0))


@compiled
def _best_change(
    a: np.ndarray, size: np.ndarray, active: np.ndarray, penalty: np.ndarray, n: int, adding: bool
) -> tuple[float, int]:
    """Least misfit plus change of penalty by one addition or drop, and which; inf and -1 where none is."""
    m = len(size)
    low, at = np.inf, -1
    for j in range(m):
        if active[j] == adding or (adding and not a[j, j] > _COLLINEAR * size[j]):
            continue
        value = _misfit(a[m, m] - a[j, m] * a[j, m] / a[j, j], n) + (penalty[j] if adding else -penalty[j])
        if value < low:
            low, at = value, j
    return low, at


@compiled
def _toggle(a: np.ndarray, active: np.ndarray, penalty: np.ndarray, k: int) -> float:
    """Add or drop regressor ``k``; returns the change of the penalty."""
    sweep(a, k)
    active[k] = not active[k]
    return penalty[k] if active[k] else -penalty[k]


@compiled
def _path(
    a: np.ndarray, size: np.ndarray, active: np.ndarray, penalty: np.ndarray, n: int, most: int
) -> np.ndarray:
    """Additions up to ``most`` regressors, then drops down to none; the best subset on the way."""
    m = len(size)
    cost, count = 0.0, 0
    best, best_active = _misfit(a[m, m], n), active.copy()
    adding = True
    while adding or count > 0:
        _, at = _best_change(a, size, active, penalty, n, adding)
        if adding and (at < 0 or count == most):
            adding = False
            continue
        cost += _toggle(a, active, penalty, at)
        count += 1 if adding else -1
        value = _misfit(a[m, m], n) + cost
        if value < best:
            best, best_active = value, active.copy()
    return best_active


@compiled
def _exchange(
    a: np.ndarray, size: np.ndarray, active: np.ndarray, penalty: np.ndarray, n: int, cost: float, now: float
) -> tuple[float, bool]:
    """Drop one or two regressors and add one, if that lowers the criterion; returns cost and success."""
    for k in range(len(size)):
        if not active[k]:
            continue
        changed = cost + _toggle(a, active, penalty, k)
        low, at = _best_change(a, size, active, penalty, n, True)
        if at >= 0 and at != k and low + changed < now - 1e-6:
            return changed + _toggle(a, active, penalty, at), True
        _, second = _best_change(a, size, active, penalty, n, False)
        if second >= 0:
            fewer = changed + _toggle(a, active, penalty, second)
            low, at = _best_change(a, size, active, penalty, n, True)
            if at >= 0 and at != k and at != second and low + fewer < now - 1e-6:
                return fewer + _toggle(a, active, penalty, at), True
            _toggle(a, active, penalty, second)
        _toggle(a, active, penalty, k)
    return cost, False


@compiled
def search_subset(equations: np.ndarray, penalty: np.ndarray, n: int, most: int) -> tuple[np.ndarray, float]:
    """Subset of regressors with a small criterion ``n log(max(rss / n, 1)) + sum of its penalties``.

    The best subset on the forward and backward path, then additions, drops and exchanges of one or two
    regressors by one for as long as they lower the criterion.

    Parameters
    ----------
    equations : array (m + 1, m + 1)
        Normal matrix of regressors and target, the target last, in units of the noise: residuals below 1 per
        sample are not worth lowering.
    penalty : array (m,)
        Cost of each regressor; infinite for those that may not be used.
    n : int
        Number of samples.
    most : int
        Largest size of a subset.

    Returns
    -------
    active : bool array (m,)
    criterion : float

    References
    ----------
    A. Miller, Subset Selection in Regression, 2nd ed. (2002), sect. 3.2-3.5 (forward selection, backward
    elimination, sequential replacement).
    """
    m = len(penalty)
    size = np.empty(m)
    for j in range(m):
        size[j] = equations[j, j]
    chosen = _path(equations.copy(), size, np.zeros(m, np.bool_), penalty, n, most)
    a, active = equations.copy(), np.zeros(m, np.bool_)
    cost = 0.0
    for j in range(m):
        if chosen[j]:
            cost += _toggle(a, active, penalty, j)
    for _ in range(_EXCHANGES):
        now = _misfit(a[m, m], n) + cost
        count = 0
        for j in range(m):
            count += active[j]
        moved = False
        for adding in (True, False):
            low, at = _best_change(a, size, active, penalty, n, adding)
            if at >= 0 and low + cost < now - 1e-6 and (count < most or not adding):
                cost += _toggle(a, active, penalty, at)
                moved = True
                break
        if not moved:
            cost, moved = _exchange(a, size, active, penalty, n, cost, now)
        if not moved:
            break
    return active, _misfit(a[m, m], n) + cost
