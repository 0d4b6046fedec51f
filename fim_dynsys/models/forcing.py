"""Explicit time: forcing of given frequencies, or of one that the observations are searched for."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fim_dynsys.errors import DataWarning, warn
from fim_dynsys.fields.forced import waves, with_waves
from fim_dynsys.regression.observed import SPLINE, complete_samples
from fim_dynsys.search.problem import Search
from fim_dynsys.trajectories.container import Trajectories

_OVERSAMPLED = 8  # frequencies for each turn more in the longest record
_PER_TURN = 6  # samples at the highest frequency
_LEAST = 1.0  # turns in the longest record


def forced(
    who: str, trajectories: Trajectories, forcing: Mapping[str, Any] | None, time: bool
) -> Trajectories:
    """Trajectories with the sines and cosines of a forcing as inputs.

    Parameters
    ----------
    who : str
        For errors.
    trajectories : Trajectories
        Without inputs.
    forcing : mapping or None
        ``{"omega": 2.0}`` or several angular frequencies in a list, in radians by unit of time.
    time : bool
        Whether one is searched for, see `find_omega`, where none is given.

    Raises
    ------
    ValueError
        For other keys, frequencies that are not positive, and inputs besides.

    Warns
    -----
    DataWarning
        Where none is found; the trajectories are then returned as they are.
    """
    if trajectories.input_names:
        raise ValueError(
            f"{who}.fit: expected forcing or inputs u, got both; give sin and cos of omega t as inputs beside "
            f"{', '.join(trajectories.input_names)}."
        )
    if forcing is None:
        omega = find_omega(trajectories, who)
        if omega is None:
            warn(
                f"{who}.fit: no periodic forcing explains the slopes better than the states alone; time has "
                "no effect.",
                DataWarning,
            )
            return trajectories
        return with_waves(trajectories, [omega])
    if not isinstance(forcing, Mapping) or set(forcing) != {"omega"}:
        raise ValueError(f"{who}.fit: expected forcing={{'omega': number or list}}, got {forcing!r}.")
    omegas = np.atleast_1d(np.asarray(forcing["omega"], dtype=np.float64))
    if omegas.ndim != 1 or not len(omegas) or not (np.isfinite(omegas) & (omegas > 0)).all():
        raise ValueError(f"{who}.fit: expected positive angular frequencies omega, got {forcing['omega']!r}.")
    if len(np.unique(omegas)) < len(omegas):
        raise ValueError(f"{who}.fit: expected different omega, got {omegas.tolist()}.")
    return with_waves(trajectories, omegas.tolist())


def find_omega(trajectories: Trajectories, who: str) -> float | None:
    """The angular frequency of a sine that best explains what the states leave of the slopes.

    Slopes of smoothing splines are regressed on the monomials of the states and, for each frequency of a fine
    grid from one turn of the longest record to a sixth of the sampling rate, on its sine and cosine; the best
    is refined by a parabola through its neighbours.

    Parameters
    ----------
    trajectories : Trajectories
        Observations.
    who : str
        For errors.

    Returns
    -------
    float or None
        To six digits; None where the sine does not pay for its three numbers by BIC.

    References
    ----------
    N. R. Lomb, Least-squares frequency analysis of unequally spaced data, Astrophys. Space Sci. 39 (1976)
    447, for a model with other columns.
    """
    samples = complete_samples(trajectories, who, 5)
    search = Search.polynomial(samples)
    seen = search.observations
    columns = search.dictionary.evaluate(np.concatenate(seen.path))
    slopes = np.concatenate([own for _, own in seen.smoothed(SPLINE)])
    times = np.concatenate(
        [
            samples[k][0][first] + t * seen.time_unit
            for (t, _), (k, first) in zip(seen.samples, seen.origin, strict=True)
        ]
    )
    basis, _ = np.linalg.qr(columns / np.linalg.norm(columns, axis=0))
    left = slopes - basis @ (basis.T @ slopes)
    total = np.sum(left**2, axis=0)
    left = left / np.sqrt(np.where(total > 0, total, 1.0))
    span = max(t[-1] - t[0] for t, _ in samples)
    gap = float(np.median(np.concatenate([np.diff(t) for t, _ in samples])))
    step = 2.0 * np.pi / span / _OVERSAMPLED
    omegas = np.arange(2.0 * np.pi * _LEAST / span, 2.0 * np.pi / (_PER_TURN * gap), step)
    if len(omegas) < 3:
        return None
    gains = np.array([_gain(basis, left, waves([omega], times)) for omega in omegas])
    best = int(np.clip(np.argmax(gains), 1, len(omegas) - 2))
    before, at, after = gains[best - 1 : best + 2]
    bend = before - 2.0 * at + after
    shift = 0.5 * (before - after) / bend if bend < 0 else 0.0
    n, d = left.shape
    # of the states, at least one must be explained so much better; smoothed slopes are no independent samples
    free = n / max(_correlated(left), 1.0)
    explained = float(np.clip(at, 0.0, 1.0 - 1e-12))
    if -free * math.log1p(-explained) < 3.0 * math.log(max(free, 2.0)) + 2.0 * math.log(len(omegas) * d):
        return None
    return float(f"{omegas[best] + np.clip(shift, -1.0, 1.0) * step:.6g}")


def _gain(basis: np.ndarray, left: np.ndarray, columns: np.ndarray) -> float:
    """Largest share of what is left of a state's slopes that columns explain."""
    own, _ = np.linalg.qr(columns - basis @ (basis.T @ columns))
    return float(np.max(np.sum((own.T @ left) ** 2, axis=0)))


def _correlated(left: np.ndarray) -> float:
    """Samples for one independent one, by the lag-one correlation of what is left."""
    share = float(np.max(np.sum(left[1:] * left[:-1], axis=0)))
    share = min(max(share, 0.0), 0.98)
    return (1.0 + share) / (1.0 - share)
