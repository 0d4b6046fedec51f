"""Scores of predicted trajectories, fields and intervals."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

_SMALLEST_SUM_OF_SQUARES = 1e-15  # about a mean: below, a coordinate does not vary
_DIRECTIONS, _QUANTILES = 128, 500  # random projections; points of each distribution that are compared
_BANDS = 128  # of frequencies: single ones scatter by as much as they are


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


def attractor_distance(truth: ArrayLike, prediction: ArrayLike, kind: str = "states") -> float:
    """Distance between two attractors, each given by states along an orbit; 0 for the same.

    Paths on a chaotic attractor part, however good the model; where they spend their time should not.

    Parameters
    ----------
    truth : array_like (n, d) or (n,)
        States along the true orbit, after its transient; finite.
    prediction : array_like (m, d) or (m,)
        Along the other one.
    kind : {"states", "spectra"}
        ``states``: sliced Wasserstein distance of the two distributions, in standard deviations of the truth:
        the mean over 128 directions of the area between both distribution functions. ``spectra``: Hellinger
        distance of the normalised power spectra, from 0 to 1, mean over states; both sampled at one interval
        and cut to one length.

    Returns
    -------
    float
        Infinite if the prediction is not finite everywhere, so that a failure ranks last; for ``spectra`` 1.

    Raises
    ------
    ValueError
        If numbers of states differ, nothing is given, the truth is not finite or at rest, or for another
        kind.

    References
    ----------
    N. Bonneel, J. Rabin, G. Peyre, H. Pfister, Sliced and Radon Wasserstein barycenters of measures, J. Math.
    Imaging Vis. 51 (2015) 22.
    J. M. Mikhaeil, Z. Monfared, D. Durstewitz, On the difficulty of learning chaotic dynamics with RNNs,
    NeurIPS 2022, appendix (Hellinger distance of smoothed power spectra).
    """
    truth, prediction = (np.asarray(x, dtype=float) for x in (truth, prediction))
    truth, prediction = (x.reshape(len(x), -1) if x.ndim else x for x in (truth, prediction))
    if truth.ndim != 2 or prediction.shape[1:] != truth.shape[1:] or not (truth.size and prediction.size):
        raise ValueError(
            "attractor_distance: expected states (n, d) and (m, d), got shapes "
            f"{truth.shape} and {prediction.shape}."
        )
    if kind not in ("states", "spectra"):
        raise ValueError(f"attractor_distance: expected states or spectra as kind, got {kind!r}.")
    unit = truth.std(axis=0)
    if not np.isfinite(truth).all() or not (unit > 0).any():
        raise ValueError("attractor_distance: expected a finite truth that moves, got another.")
    if not np.isfinite(prediction).all():
        return float("inf") if kind == "states" else 1.0
    moving = unit > 0
    a, b = (((x - truth.mean(axis=0)) / np.where(moving, unit, 1.0))[:, moving] for x in (truth, prediction))
    return _sliced_wasserstein(a, b) if kind == "states" else _hellinger(a, b)


def _sliced_wasserstein(a: np.ndarray, b: np.ndarray) -> float:
    n = _DIRECTIONS if a.shape[1] > 1 else 1
    directions = np.random.default_rng(0).standard_normal((a.shape[1], n))
    directions /= np.linalg.norm(directions, axis=0)
    shares = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    with np.errstate(over="ignore"):
        apart = np.quantile(a @ directions, shares, axis=0) - np.quantile(b @ directions, shares, axis=0)
    return float(np.abs(apart).mean())


def _hellinger(a: np.ndarray, b: np.ndarray) -> float:
    n = min(len(a), len(b))
    roots = []
    for x in (a[:n], b[:n]):
        power = np.abs(np.fft.rfft(x - x.mean(axis=0), axis=0)) ** 2
        width = max(1, len(power) // _BANDS)
        bands = np.add.reduceat(power, np.arange(0, len(power), width), axis=0)
        total = bands.sum(axis=0)
        roots.append(np.sqrt(bands / np.where(total > 0, total, 1.0)))
    return float(np.mean(np.sqrt(np.maximum(0.0, np.sum((roots[0] - roots[1]) ** 2, axis=0) / 2.0))))


def _paired(caller: str, truth: ArrayLike, prediction: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    truth, prediction = np.asarray(truth, dtype=float), np.asarray(prediction, dtype=float)
    if truth.shape != prediction.shape or truth.ndim not in (1, 2) or truth.size == 0:
        raise ValueError(
            f"{caller}: expected truth and prediction of one shape (n, d), got {truth.shape} and "
            f"{prediction.shape}."
        )
    if not np.isfinite(truth).all():
        raise ValueError(
            f"{caller}: expected a finite truth, got {np.sum(~np.isfinite(truth))} other values."
        )
    return truth.reshape(len(truth), -1), prediction.reshape(len(truth), -1)


def _cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    sizes = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosine = np.vecdot(a, b) / np.where(sizes > 0, sizes, 1.0)
    return np.where((a == 0).all(axis=1) & (b == 0).all(axis=1), 1.0, cosine)


def _intervals(
    caller: str, y: ArrayLike, lower: ArrayLike, upper: ArrayLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    y = np.asarray(y, dtype=float)
    lower, upper = (np.broadcast_to(np.asarray(end, dtype=float), y.shape) for end in (lower, upper))
    if y.size == 0 or not (lower <= upper).all():
        raise ValueError(f"{caller}: expected observations and intervals with lower <= upper, got others.")
    return y, lower, upper
