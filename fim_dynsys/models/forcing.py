"""Explicit time: forcing of given frequencies, or of one that the observations are searched for."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fim_dynsys.errors import DataWarning, real_array, warn
from fim_dynsys.fields.forced import waves, with_waves
from fim_dynsys.regression.inputs import Inputs
from fim_dynsys.regression.observed import complete_samples
from fim_dynsys.regression.smoothing import TIME_AWARE
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.horizon import gather_windowed, refine_over_windows
from fim_dynsys.search.problem import Search
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.holding import Hold

_OVERSAMPLED = 8  # frequencies for each turn more in the longest record
_PER_TURN = 6  # samples at the highest frequency
_PRICE = 3.0  # numbers of a forcing, in those of the BIC: frequency, and the choice among many
_NEAR = 0.5  # radians at the end of the longest record: where frequencies are compared first
_NARROWED = 3  # times the search for a frequency is narrowed, each by the same factor
_STRUCTURES = 2  # that are fitted


def forced(
    caller: str, trajectories: Trajectories, forcing: Mapping[str, Any] | None, time: bool
) -> Trajectories:
    """Trajectories with the sines and cosines of a forcing as inputs.

    Parameters
    ----------
    caller : str
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
            f"{caller}.fit: expected forcing or inputs u, got both; give sin and cos of omega t as inputs "
            f"beside {', '.join(trajectories.input_names)}."
        )
    if forcing is None:
        omega = find_omega(trajectories, caller)
        if omega is None:
            low, high = _searched(trajectories.arrays())
            among = (
                f"of angular frequency {low:.3g} to {high:.3g}" if low < high else "that so few samples show"
            )
            warn(
                f"{caller}.fit: no periodic forcing {among} explains the slopes better than the states "
                "alone; time has no effect.",
                DataWarning,
            )
            return trajectories
        return with_waves(trajectories, [omega])
    if not isinstance(forcing, Mapping) or set(forcing) != {"omega"}:
        raise ValueError(f"{caller}.fit: expected forcing={{'omega': number or list}}, got {forcing!r}.")
    omegas = np.atleast_1d(real_array(forcing["omega"], f"{caller}.fit", "omega"))
    if omegas.ndim != 1 or not len(omegas) or not (np.isfinite(omegas) & (omegas > 0)).all():
        raise ValueError(
            f"{caller}.fit: expected positive angular frequencies omega, got {forcing['omega']!r}."
        )
    if len(np.unique(omegas)) < len(omegas):
        raise ValueError(f"{caller}.fit: expected different omega, got {omegas.tolist()}.")
    return with_waves(trajectories, omegas.tolist())


def find_omega(trajectories: Trajectories, caller: str) -> float | None:
    """The angular frequency of a sine that explains what the states leave of the slopes.

    Slopes of smoothing splines are regressed on the monomials of the states and, for each frequency of a fine
    grid from one turn of the longest record to a sixth of the sampling rate, on its sine and cosine. The best
    frequency is kept where the best sparse field with it, fitted to the trajectories over short windows, has
    the smaller BIC than the best without; by the BIC of its fits nearby it is then narrowed down.

    Parameters
    ----------
    trajectories : Trajectories
        Observations.
    caller : str
        For errors.

    Returns
    -------
    float or None
        To six digits; None where there is none.

    References
    ----------
    N. R. Lomb, Least-squares frequency analysis of unequally spaced data, Astrophys. Space Sci. 39 (1976)
    447, for a model with other columns.
    """
    samples = complete_samples(trajectories, caller, 5)
    alone = Search.polynomial(samples)
    omega = _strongest(alone, samples)
    if omega is None:
        return None
    best = _best(_search(samples, omega))
    if not best.score + _PRICE * math.log(alone.observations.n) < _best(alone).score:
        return None
    width = _NEAR / max(t[-1] - t[0] for t, _ in samples)
    for _ in range(_NARROWED):
        scores = []
        for shift in (-width, 0.0, width):
            search = _search(samples, omega + shift)
            scores.append(refine_over_windows(search.observations, best).score)
        bend = scores[0] - 2.0 * scores[1] + scores[2]
        if not (np.isfinite(bend) and bend > 0):
            break
        omega += width * float(np.clip(0.5 * (scores[0] - scores[2]) / bend, -1.0, 1.0))
        width *= 0.3
    return float(f"{omega:.6g}")


def _searched(samples: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float]:
    """The lowest and the highest angular frequency that is looked for."""
    span = max(t[-1] - t[0] for t, _ in samples)
    gap = float(np.median(np.concatenate([np.diff(t) for t, _ in samples])))
    return 2.0 * np.pi / span, 2.0 * np.pi / (_PER_TURN * gap)


def _search(samples: Sequence[tuple[np.ndarray, np.ndarray]], omega: float) -> Search:
    return Search.polynomial(samples, inputs=Inputs([waves([omega], t) for t, _ in samples], Hold.SMOOTH))


def _best(search: Search) -> Candidate:
    """The best of a short search, judged over windows, for a forced record may well be chaotic."""
    return gather_windowed(search, _STRUCTURES, TIME_AWARE)[0]


def _strongest(search: Search, samples: Sequence[tuple[np.ndarray, np.ndarray]]) -> float | None:
    """The frequency whose sine and cosine explain the largest share of what is left of a state's slopes."""
    seen = search.observations
    columns = search.dictionary.evaluate(np.concatenate(seen.path))
    slopes = np.concatenate([rates for _, rates in seen.splines])
    pieces = zip(seen.samples, seen.origin, strict=True)
    times = np.concatenate([samples[k][0][first] + t * seen.time_unit for (t, _), (k, first) in pieces])
    basis, _ = np.linalg.qr(columns / np.linalg.norm(columns, axis=0))
    residual = slopes - basis @ (basis.T @ slopes)
    size = np.linalg.norm(residual, axis=0)
    residual = residual / np.where(size > 0, size, 1.0)
    turn, highest = _searched(samples)
    omegas = np.arange(turn, highest, turn / _OVERSAMPLED)
    gains = []
    for omega in omegas:
        pair = waves([omega], times)
        directions, _ = np.linalg.qr(pair - basis @ (basis.T @ pair))
        gains.append(float(np.max(np.sum((directions.T @ residual) ** 2, axis=0))))
    return float(omegas[np.argmax(gains)]) if gains else None
