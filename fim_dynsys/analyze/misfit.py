"""Whether a field fits the data it was inferred from: residuals of short predictions against the noise."""

from collections.abc import Sequence

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.support import smoothed
from fim_dynsys.simulation.solution import integrate
from fim_dynsys.trajectories.container import Trajectories

FITS = 2.0
"""Residual over noise up to which a field fits its data."""
SMALL = 0.05
"""Residual, in standard deviations of the data, that widens nothing: the fields' own scatter says it."""

_WINDOW = 8  # samples predicted from one smoothed state: long enough for an error of the field to show
# Noise has fourth differences of variance 70, a smooth curve nearly none; less than a thousandth of the
# data's own deviation is no noise that matters.
_ORDER, _GAIN, _LEAST = 4, 70.0, 1e-3
_FITTING_STEPS = 6  # of a start: three to come near, three for bends
_DIFFERENCE = 1e-2  # of the noise: derivatives of a path by its start are then good to 1 %
_RTOL, _MAX_STEPS = 1e-6, 2_000  # of a step; of one short prediction


def residuals(field: VectorField, data: Trajectories) -> tuple[float, float]:
    """Root mean square errors of predictions eight samples ahead, over the noise and the data's deviation.

    Predictions start from smoothed observations, or where these miss, from the start that fits best. For the
    true field the first ratio is about one.

    Parameters
    ----------
    field : VectorField
        The field.
    data : Trajectories
        What it was inferred from; trajectories with missing values are passed over.

    Returns
    -------
    over_noise, over_deviation : float
        Infinite where the field cannot be followed; NaN without a trajectory of six complete samples.
    """
    pairs = [
        (t, x, path)
        for (t, x), path in zip(data.arrays(), _paths(data), strict=True)
        if len(path) == len(t) > _ORDER + 1
    ]
    if not pairs:
        return np.nan, np.nan
    observed = [x for _, x, _ in pairs]
    deviation = np.concatenate(observed).std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    noise = np.maximum(_noise(observed, [path for *_, path in pairs]), _LEAST * deviation)
    errors = np.concatenate([_errors(field, *pair, noise) for pair in pairs])
    with np.errstate(over="ignore"):
        over_noise, over_deviation = (
            float(np.sqrt(np.mean((errors / unit) ** 2))) for unit in (noise, deviation)
        )
    return over_noise, over_deviation


def _paths(data: Trajectories) -> Sequence[np.ndarray]:
    """Smoothed states of each trajectory; fewer than its samples where values are missing."""
    return [smoothed(data[[k]]).states[0] for k in range(len(data))]


def _noise(observed: Sequence[np.ndarray], paths: Sequence[np.ndarray]) -> np.ndarray:
    """Standard deviation (d,): by fourth differences, or of what smoothing takes away if that is less."""
    rough = np.concatenate([np.diff(x, n=_ORDER, axis=0) for x in observed])
    residuals = np.concatenate([x - path for x, path in zip(observed, paths, strict=True)])
    by_difference = np.sqrt(np.mean(rough**2, axis=0) / _GAIN)
    by_smoothing = np.sqrt(
        2.0 * np.mean(residuals**2, axis=0)
    )  # half of the noise or more is left on the path
    return np.minimum(by_difference, by_smoothing)


def _errors(
    field: VectorField, t: np.ndarray, x: np.ndarray, path: np.ndarray, noise: np.ndarray
) -> np.ndarray:
    """Errors (n, d) of all predictions along one trajectory; infinite where one fails.

    Where a prediction misses by more than the noise, its start is fitted to the samples of its window: what
    smoothing leaves of a sparse record is no error of the field.
    """
    window = min(_WINDOW, len(t) - 1)
    first = np.unique(np.append(np.arange(0, len(t) - window, window), len(t) - 1 - window))
    index = first[:, None] + np.arange(window + 1)
    windows = _Windows(field, t[index] - t[first][:, None], x[index], noise)
    start = path[first]
    errors = windows.errors(start)
    size = _sizes(errors[:, 1:])
    rows = np.flatnonzero(size > 1.0)
    if len(rows):
        fitted = windows.fitted(start, errors, rows)
        # as many numbers are left as before: those of the start are fitted
        fitted *= np.sqrt((window + 1) / window)
        better = _sizes(fitted) < size[rows]
        spread = np.sqrt(np.mean(fitted**2, axis=1, keepdims=True))
        errors[rows[better], 1:] = spread[better]
    return (errors[:, 1:] * noise).reshape(-1, x.shape[1])


def _sizes(errors: np.ndarray) -> np.ndarray:
    """Root mean square (m,) of the errors (m, k, d) of each window."""
    with np.errstate(over="ignore"):
        return np.sqrt(np.mean(errors**2, axis=(1, 2)))


class _Windows:
    """Short stretches of one trajectory, each followed from a start of its own."""

    def __init__(self, field: VectorField, times: np.ndarray, x: np.ndarray, noise: np.ndarray) -> None:
        self.field, self.times, self.x, self.noise = field, times, x, noise

    def errors(self, start: np.ndarray, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Errors (m, k, d) over the noise; infinite where a path ends."""
        found = integrate([self.field], start, self.times[rows], rtol=_RTOL, max_steps=_MAX_STEPS).x
        with np.errstate(invalid="ignore"):
            errors = (found - self.x[rows]) / self.noise
        return np.where(np.isfinite(errors), errors, np.inf)

    def fitted(self, start: np.ndarray, errors: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Errors (m, k, d) of some windows with starts fitted by the method of Levenberg and Marquardt."""
        start, errors = start[rows], errors[rows]
        m, k, d = errors.shape
        damping = np.ones(m)
        for _ in range(_FITTING_STEPS):
            shifted = (start[:, None] + _DIFFERENCE * self.noise * np.eye(d)).reshape(-1, d)
            moved = self.errors(shifted, np.repeat(rows, d)).reshape(m, d, k * d)
            with np.errstate(invalid="ignore"):
                slopes = (moved - errors.reshape(m, 1, -1)) / _DIFFERENCE
            going = np.isfinite(slopes).all(axis=(1, 2))
            slopes = np.where(going[:, None, None], slopes, 0.0)
            residual = np.where(going[:, None], errors.reshape(m, -1), 0.0)
            normal = slopes @ np.swapaxes(slopes, 1, 2)
            normal += damping[:, None, None] * np.eye(d)
            step = np.linalg.solve(normal, slopes @ residual[:, :, None])[:, :, 0]
            tried = start - step * self.noise
            there = self.errors(tried, rows)
            better = going & (_sizes(there) < _sizes(errors))
            start[better], errors[better] = tried[better], there[better]
            damping = np.where(better, damping / 10.0, damping * 10.0)
        return errors
