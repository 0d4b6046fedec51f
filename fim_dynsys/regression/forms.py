"""Normal equations of three forms of one regression along a smoothed path.

The forms are: derivative, ``v = C(x) c``; integral over the whole trajectory with a free start,
``x(t) = x0 + (integral of C) c``; and integral over segments, each with a free start. Integrals take the
trapezoid with the Hermite end correction, of fourth order in the step.
"""

from collections.abc import Sequence

import numpy as np

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.kernels.forms import normal_equations_of_forms

_RIDGE = 1e-7  # of the fit whose residuals are measured, relative to the mean diagonal


def normal_forms(
    dictionary: Dictionary,
    t: np.ndarray,
    x: np.ndarray,
    path: np.ndarray,
    velocity: np.ndarray,
    weights: np.ndarray,
    counts: Sequence[int],
    segments: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Normal equations of the three forms, each over its residual variance.

    Parameters
    ----------
    dictionary : Dictionary
        Monomials, closed under division, and after them any terms with functions.
    t : array (n,)
        Times of all trajectories behind one another.
    x : array (n, d)
        Samples: targets of the integral forms.
    path, velocity : arrays (n, d)
        Smoothed states, along which the columns are evaluated, and slopes: targets of the derivative form.
    weights : array (n, d)
        Of the rows.
    counts : sequence of int
        Samples of each trajectory.
    segments : int
        Free starts of each trajectory in the third form.

    Returns
    -------
    power : array (m,)
        Root mean square of each column on the path: the unit of the coefficients.
    grams, moments : arrays (d, 3, m, m), (d, 3, m)
        Over the residual variance of a lightly regularised fit, floored at 1e-9 of the targets' squares.
    """
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
    starts = [f - (-np.arange(segments) * c // segments) for f, c in zip(first, counts, strict=False)]
    bounds = np.concatenate([*starts, first[-1:]]).astype(np.intp)
    parent, factor = dictionary.packed[:2]
    along = t, x, path, velocity, weights, *_functions(dictionary, path, velocity)
    arrays = [np.ascontiguousarray(a, dtype=np.float64) for a in along]
    power, grams, moments, totals = normal_equations_of_forms(first, bounds, parent, factor, *arrays)
    m = len(power)
    ridge = _RIDGE * (np.trace(grams, axis1=2, axis2=3)[..., None, None] / m + 1e-30) * np.eye(m)
    solution = np.linalg.solve(grams + ridge, moments[..., None])[..., 0]
    fitted = (grams @ solution[..., None])[..., 0]
    residual = totals + np.sum(solution * (fitted - 2 * moments), axis=-1)
    freedom = np.maximum(len(x) - len(counts) * np.array([0, 1, segments]) - m, 4.0)
    variance = (np.maximum(residual, 0.0) + 1e-9 * totals + 1e-30) / freedom
    return power, grams / variance[..., None, None], moments / variance[..., None]


def _functions(
    dictionary: Dictionary, path: np.ndarray, velocity: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Terms with functions (n, p) along a path, and their rates."""
    if dictionary.is_polynomial:
        none = np.empty((len(path), 0))
        return none, none
    special = dictionary.subset(np.flatnonzero(dictionary.kind))
    return special.evaluate(path), (special.gradient(path) * velocity[:, None]).sum(2)
