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
_RTOL, _MAX_STEPS = 1e-6, 2_000  # of a step; of one short prediction


def residuals(field: VectorField, data: Trajectories) -> tuple[float, float]:
    """Root mean square errors of predictions eight samples ahead, over the noise and the data's deviation.

    Predictions start from smoothed observations. For the true field the first ratio is a little above one, as
    the smoothed start has an error too.

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
    errors = np.concatenate([_errors(field, *pair) for pair in pairs])
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


def _errors(field: VectorField, t: np.ndarray, x: np.ndarray, path: np.ndarray) -> np.ndarray:
    """Errors (n, d) of all predictions along one trajectory; infinite where one fails."""
    window = min(_WINDOW, len(t) - 1)
    start = np.unique(np.append(np.arange(0, len(t) - window, window), len(t) - 1 - window))
    index = start[:, None] + np.arange(window + 1)
    times = t[index] - t[start][:, None]
    found = integrate([field], path[start], times, rtol=_RTOL, max_steps=_MAX_STEPS).x[:, 1:]
    errors = found - x[index[:, 1:]]
    return np.where(np.isfinite(errors), errors, np.inf).reshape(-1, x.shape[1])
