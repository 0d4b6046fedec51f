"""Smoothed observations: how near a point is to them, and how large and fast they are."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.trajectories.container import Trajectories

# Of the squared length scale: a flat direction is stretched tenfold at most.
_SMALLEST_WHITENED_VARIANCE = 1e-2
_SMOOTHING_WINDOWS = (5, 9, 17, 33)  # samples; the window of least leave-one-out error serves
# Of the field's speed: the uncertainty up to which a posterior counts as knowing the field. And of the length
# scale: how far off the data's box, inside which it is calibrated.
_TOLERANCE = 0.1


class Smoothed(NamedTuple):
    """Smoothed observations.

    Attributes
    ----------
    states : tuple of ndarray (n_k, d)
        The path of each trajectory, where all states are known.
    slopes : ndarray (N, d)
        Rates of change at all of these states, in their order.
    span : float
        The longest time a trajectory was observed for.
    """

    states: tuple[np.ndarray, ...]
    slopes: np.ndarray
    span: float


class Nearness:
    """Support from the whitened distance to a cloud of smoothed observations."""

    def __init__(self, paths: Sequence[np.ndarray], length: np.ndarray):
        points = np.concatenate(paths)
        self._centre = points.mean(axis=0)
        standard = (points - self._centre) / length
        variance, axes = np.linalg.eigh(standard.T @ standard / len(points))
        # A direction in which the data hardly vary is stretched at most tenfold: it may hold noise alone.
        self._whiten = axes / np.sqrt(np.maximum(variance, _SMALLEST_WHITENED_VARIANCE)) / length[:, None]
        from scipy.spatial import cKDTree  # deferred: support is asked for after a fit, if at all

        self._tree = cKDTree((points - self._centre) @ self._whiten)
        steps = np.concatenate(
            [np.linalg.norm(np.diff(path @ self._whiten, axis=0), axis=1) for path in paths]
        )
        if not len(steps) and len(points) > 1:
            steps = self._tree.query(self._tree.data, k=2)[0][:, 1]
        spacing = np.quantile(steps, 0.95) if len(steps) else 0.0
        # Points that all coincide leave no spacing to measure by: a hundredth of the length scale serves.
        self._spacing = spacing if spacing > 1e-12 else 1e-2

    def __call__(self, x: np.ndarray) -> np.ndarray:
        out = np.where(np.isfinite(x).all(axis=1), 0.0, np.nan)
        whitened = (x - self._centre) @ self._whiten
        finite = np.isfinite(whitened).all(axis=1)  # too far to measure else
        distance, _ = self._tree.query(whitened[finite])
        out[finite] = np.exp(-np.maximum(0.0, distance / self._spacing - 1.0))
        return out


def support_of_posterior(
    scale: np.ndarray, speed: np.ndarray, outside: np.ndarray, length: np.ndarray
) -> np.ndarray:
    """Support from how well a posterior determines a field.

    Parameters
    ----------
    scale : ndarray (n, d)
        Standard deviations of the field at points.
    speed : ndarray (d,)
        Its speed along the data.
    outside : ndarray (n, d)
        How far the points are outside the box of the data.
    length : ndarray (d,)
        Length scale of the data.

    Returns
    -------
    ndarray (n,)
        ``exp(-max(0, u - 1))``, u the largest scale by speed, and the distance from the box by length, in
        units of a tenth.
    """
    doubt = np.max(scale / speed, axis=1) + np.linalg.norm(outside / length, axis=1)
    return np.exp(-np.maximum(0.0, doubt / _TOLERANCE - 1.0))


def smoothed(context: Trajectories) -> Smoothed:
    """Smooth each coordinate of each trajectory by itself."""
    paths, rates, span = [], [], 0.0
    for t, x in context.arrays():
        columns = [_smooth_coordinate(t, column) for column in x.T]
        values, slopes = (np.stack(part, axis=1) for part in zip(*columns, strict=True))
        inside = np.isfinite(values).all(axis=1)
        if inside.any():
            paths.append(values[inside])
            rates.append(slopes[inside])
            span = max(span, t[-1] - t[0])
    if not paths:
        observed = context.x.reshape(-1, context.dim)
        return Smoothed((np.nanmean(observed, axis=0)[None],), np.zeros((1, context.dim)), span)
    return Smoothed(tuple(paths), np.concatenate(rates), span)


def _smooth_coordinate(t: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Value and slope of one coordinate at all its times; NaN outside its first and last observation.

    Local quadratics in time (Cleveland 1979, J. Am. Stat. Assoc. 74:829) with the window of 5, 9, 17 or 33
    observations whose leave-one-out error is least; below five observations, straight lines between them.
    """
    seen = np.isfinite(y)
    t_seen, y_seen = t[seen], y[seen]
    if len(y_seen) < _SMOOTHING_WINDOWS[0]:
        return _straight_lines(t, t_seen, y_seen)
    scores = []
    for window in (w for w in _SMOOTHING_WINDOWS if w <= len(y_seen)):
        value, _, weights, index = _local_quadratic(t_seen, y_seen, t_seen, window)
        leverage = weights[index == np.arange(len(t_seen))[:, None]]
        scores.append((np.mean(((y_seen - value) / np.maximum(1.0 - leverage, 1e-6)) ** 2), window))
    value, slope, _, _ = _local_quadratic(t_seen, y_seen, t, min(scores)[1])
    outside = (t < t_seen[0]) | (t > t_seen[-1])
    return np.where(outside, np.nan, value), np.where(outside, np.nan, slope)


def _straight_lines(t: np.ndarray, t_seen: np.ndarray, y_seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if len(y_seen) < 2:
        value = np.full(len(t), np.nan)
        value[np.isin(t, t_seen)] = y_seen
        return value, np.zeros(len(t))
    value = np.interp(t, t_seen, y_seen, left=np.nan, right=np.nan)
    segment = np.clip(np.searchsorted(t_seen, t, side="right") - 1, 0, len(t_seen) - 2)
    slope = (np.diff(y_seen) / np.diff(t_seen))[segment]
    return value, np.where(np.isfinite(value), slope, np.nan)


def _local_quadratic(
    t_seen: np.ndarray, y_seen: np.ndarray, t: np.ndarray, window: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Value and slope at times t (n,) of tricube-weighted quadratics through `window` observations.

    Further the weights (n, window) of these observations in the value, and their numbers (n, window).
    """
    n = len(t_seen)
    first = np.clip(np.searchsorted(t_seen, t) - window // 2, 0, n - window)
    index = first[:, None] + np.arange(window)
    u = t_seen[index] - t[:, None]
    reach = np.abs(u).max(axis=1, keepdims=True) * (1.0 + 1.0 / window)
    u = u / reach
    weight = (1.0 - np.abs(u) ** 3) ** 3
    basis = np.stack([np.ones_like(u), u, u**2], axis=2)
    weighted = basis * weight[:, :, None]
    normal = np.einsum("nwa,nwb->nab", weighted, basis)
    # Nearly coincident times leave curvature undetermined; a tiny ridge on it then gives a straight line.
    normal[:, 2, 2] += 1e-10 * window
    operator = np.linalg.solve(normal, weighted.transpose(0, 2, 1))
    coefficients = np.einsum("naw,nw->na", operator, y_seen[index])
    return coefficients[:, 0], coefficients[:, 1] / reach[:, 0], operator[:, 0], index


def spread(x: np.ndarray) -> np.ndarray:
    """Standard deviation per column over finite entries; a constant column gets a positive stand-in."""
    seen = np.isfinite(x)
    count = np.maximum(seen.sum(axis=0), 1)
    x = np.where(seen, x, 0.0)
    _, exponent = np.frexp(np.abs(x).max(axis=0, initial=0.0))
    x = np.ldexp(x, -exponent)  # exact; so that squares neither overflow nor vanish
    mean = x.sum(axis=0) / count
    sd = np.ldexp(np.sqrt((np.where(seen, x - mean, 0.0) ** 2).sum(axis=0) / count), exponent)
    mean = np.ldexp(mean, exponent)
    varies = sd > 1e-12 * np.abs(mean)
    other = sd[varies].mean() if varies.any() else 1.0
    return np.where(varies, sd, np.where(mean != 0, np.abs(mean), other))


def frozen(values: ArrayLike) -> np.ndarray:
    """As a read-only array of float64; an array of that type is itself made read-only."""
    array = np.asarray(values, dtype=float)
    array.setflags(write=False)
    return array
