"""Scores of predicted trajectories, fields and intervals."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

_SMALLEST_SUM_OF_SQUARES = 1e-15


def r2_score(truth: ArrayLike, prediction: ArrayLike) -> float:
    """Variance-weighted coefficient of determination over all states.

    ``1 - sum_i SS_res,i / sum_i SS_tot,i``, which is the mean of the R2 of each state weighted with its
    variance (and, unlike scikit-learn's, counts errors in a state that does not vary). If no state varies
    (every SS_tot,i <= 1e-15), the plain mean of ``1 - SS_res,i / (SS_tot,i + 1e-15)``.

    Parameters
    ----------
    truth : array_like (n, d) or (n,)
        True states at n times; finite.
    prediction : array_like, shape of truth
        Predicted states.

    Returns
    -------
    float
        At most 1; NaN if the prediction is not finite everywhere.

    Raises
    ------
    ValueError
        If shapes differ, nothing is given, or the truth is not finite.
    """
    truth, prediction = _paired("r2_score", truth, prediction)
    if not np.isfinite(prediction).all():
        return float("nan")
    with np.errstate(over="ignore"):
        residual = np.sum((truth - prediction) ** 2, axis=0)
    total = np.sum((truth - truth.mean(axis=0)) ** 2, axis=0)
    if not (total > _SMALLEST_SUM_OF_SQUARES).any():
        return float(np.mean(1.0 - residual / (total + _SMALLEST_SUM_OF_SQUARES)))
    return float(1.0 - residual.sum() / total.sum())


def mse(truth: ArrayLike, prediction: ArrayLike) -> float:
    """Mean squared error over times and states.

    Parameters
    ----------
    truth : array_like (n, d) or (n,)
        True states; finite.
    prediction : array_like, shape of truth
        Predicted states.

    Returns
    -------
    float
        Infinite if the prediction is not finite everywhere, so that a failure ranks last.

    Raises
    ------
    ValueError
        As for `r2_score`.
    """
    truth, prediction = _paired("mse", truth, prediction)
    if not np.isfinite(prediction).all():
        return float("inf")
    with np.errstate(over="ignore"):
        return float(np.mean((truth - prediction) ** 2))


def field_error(
    field: Callable[[np.ndarray], ArrayLike],
    truth_field: Callable[[np.ndarray], ArrayLike],
    x: ArrayLike,
    kind: str = "relative_mae",
) -> float:
    """Distance between a field and the true one at given points.

    Parameters
    ----------
    field, truth_field : VectorField
        Any callables ``(n, d) -> (n, d)`` will do.
    x : array_like (n, d)
        Points.
    kind : {"relative_mae", "relative_rmse", "cosine"}
        ``relative_mae``: mean over states of mean absolute error divided by mean absolute true rate.
        ``relative_rmse``: the same with root mean squares. ``cosine``: mean over points of 1 minus the
        cosine of the angle between both vectors, from 0 (parallel) to 2 (opposite); points where one of
        them is exactly zero count 0 if both are, else 1.

    Returns
    -------
    float
        NaN if the field is not finite at a point.

    Raises
    ------
    ValueError
        For another kind, shapes that differ, a truth that is not finite, or, for the relative kinds, a
        state whose true rate is zero at all points.
    """
    x = np.asarray(x, dtype=float)
    true, found = _paired("field_error", truth_field(x), field(x))
    if kind not in ("relative_mae", "relative_rmse", "cosine"):
        raise ValueError(
            f"field_error: expected relative_mae, relative_rmse or cosine as kind, got {kind!r}."
        )
    if not np.isfinite(found).all():
        return float("nan")
    if kind == "cosine":
        return float(np.mean(1.0 - _cosine(true, found)))
    power = 1 if kind == "relative_mae" else 2
    size = np.mean(np.abs(true) ** power, axis=0)
    if not size.all():
        still = np.flatnonzero(size == 0).tolist()
        raise ValueError(f"field_error: expected a truth that moves every state, got rate 0 for {still}.")
    return float(np.mean((np.mean(np.abs(found - true) ** power, axis=0) / size) ** (1.0 / power)))


def interval_score(y: ArrayLike, lower: ArrayLike, upper: ArrayLike, alpha: float) -> float:
    """Interval score of central (1 - alpha) prediction intervals; less is better.

    Width plus ``2 / alpha`` times the distance by which an observation falls outside: equation 43 of
    T. Gneiting and A. E. Raftery, J. Am. Stat. Assoc. 102 (2007) 359-378.

    Parameters
    ----------
    y : array_like (...)
        Observations.
    lower, upper : array_like, broadcastable to y
        Ends of the intervals.
    alpha : float
        Nominal probability of falling outside, between 0 and 1.

    Returns
    -------
    float
        Mean over all observations.

    Raises
    ------
    ValueError
        If an interval has lower > upper, or alpha is not between 0 and 1.
    """
    y, lower, upper = _intervals("interval_score", y, lower, upper)
    if not 0 < alpha < 1:
        raise ValueError(f"interval_score: expected 0 < alpha < 1, got {alpha}.")
    outside = np.maximum(lower - y, 0.0) + np.maximum(y - upper, 0.0)
    return float(np.mean(upper - lower + 2.0 / alpha * outside))


def coverage(y: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> float:
    """Fraction of observations within their closed intervals.

    Parameters
    ----------
    y : array_like (...)
        Observations.
    lower, upper : array_like, broadcastable to y
        Ends of the intervals.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        If an interval has lower > upper.
    """
    y, lower, upper = _intervals("coverage", y, lower, upper)
    return float(np.mean((lower <= y) & (y <= upper)))


def _paired(who: str, truth: ArrayLike, prediction: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    truth, prediction = np.asarray(truth, dtype=float), np.asarray(prediction, dtype=float)
    if truth.shape != prediction.shape or truth.ndim not in (1, 2) or truth.size == 0:
        raise ValueError(
            f"{who}: expected truth and prediction of one shape (n, d), got {truth.shape} and "
            f"{prediction.shape}."
        )
    if not np.isfinite(truth).all():
        raise ValueError(f"{who}: expected a finite truth, got {np.sum(~np.isfinite(truth))} other values.")
    return truth.reshape(len(truth), -1), prediction.reshape(len(truth), -1)


def _cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    sizes = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosine = np.vecdot(a, b) / np.where(sizes > 0, sizes, 1.0)
    return np.where((a == 0).all(axis=1) & (b == 0).all(axis=1), 1.0, cosine)


def _intervals(
    who: str, y: ArrayLike, lower: ArrayLike, upper: ArrayLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    y = np.asarray(y, dtype=float)
    lower, upper = (np.broadcast_to(np.asarray(end, dtype=float), y.shape) for end in (lower, upper))
    if y.size == 0 or not (lower <= upper).all():
        raise ValueError(f"{who}: expected observations and intervals with lower <= upper, got others.")
    return y, lower, upper
