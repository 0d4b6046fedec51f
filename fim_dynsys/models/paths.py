"""Simulated paths against observed ones: what a score of a field means to who predicts with it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fim_dynsys.analyze.results import share_bar
from fim_dynsys.errors import check_positive
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.models.driving import driven_stretches
from fim_dynsys.simulation.solution import integrate
from fim_dynsys.trajectories.container import Trajectories

_STEP = 0.25  # of the median gap between samples: steps under inputs, which change from sample to sample
_RTOL = 1e-6


class Window(NamedTuple):
    """Observations that a field is to predict from the first of them."""

    t: np.ndarray  # (n,)
    x: np.ndarray  # (n, d), NaN where missing
    u: np.ndarray  # (n, m) inputs


def windows_of(who: str, trajectories: Trajectories, horizon: float | None) -> list[Window]:
    """Each trajectory as one window, or cut into windows of a duration, each from a complete sample on.

    Parameters
    ----------
    who : str
        Names the caller in errors.
    trajectories : Trajectories
        Observations.
    horizon : float or None
        Longest duration of a window, in the unit of time; None for whole trajectories.

    Returns
    -------
    list of Window
        Of two samples at least.

    Raises
    ------
    ValueError
        Where the horizon is not positive, or no window has two samples.
    """
    if horizon is not None:
        check_positive(who, infinite=True, horizon=horizon)
    found = []
    for (t, x), u in zip(trajectories.arrays(), trajectories.input_arrays(), strict=True):
        complete = np.isfinite(x).all(axis=1)
        first = 0
        while first < len(t) and complete[first:].any():
            first += int(np.argmax(complete[first:]))
            last = len(t)
            if horizon is not None:
                last = int(np.searchsorted(t, t[first] + horizon * (1.0 + 1e-9), side="right"))
            if last - first >= 2:
                found.append(Window(t[first:last], x[first:last], u[first:last]))
            # the last sample of a window is the first of the next: no gap is left out
            first = max(last - 1, first + 1) if last < len(t) else len(t)
    if not found:
        raise ValueError(
            f"{who}: expected a trajectory with two samples within the horizon, the first of them complete, "
            f"got none with horizon {horizon}; give more samples, or a longer horizon."
        )
    return found


def predicted(
    field: VectorField, windows: Sequence[Window], progress: bool | None = False
) -> list[np.ndarray]:
    """Paths (n, d) of the field from the first sample of each window; NaN from where it fails.

    With `progress`, None for on a terminal only, a bar is shown after two seconds.
    """
    starts = [window.x[0] for window in windows]
    if isinstance(field, DrivenField):
        step = _STEP * float(np.median(np.concatenate([np.diff(window.t) for window in windows])))
        return driven_stretches(field, starts, [w.t for w in windows], [w.u for w in windows], step)
    times = np.full((len(windows), max(len(window.t) for window in windows)), np.nan)
    for row, window in zip(times, windows, strict=True):
        row[: len(window.t)] = window.t - window.t[0]
    with np.errstate(all="ignore"), share_bar(progress, "paths") as told:
        paths = integrate([field], np.stack(starts), times, rtol=_RTOL, progress=told).x
    return [path[: len(window.t)] for path, window in zip(paths, windows, strict=True)]


def path_score(
    who: str,
    field: VectorField,
    trajectories: Trajectories,
    horizon: float | None,
    progress: bool | None = False,
) -> float:
    """R2 of simulated against observed paths, the mean over the states that vary.

    Every window is simulated from its first sample, which is not counted. Sums of squares are those of all
    windows together, the total about the mean of each state.

    Parameters
    ----------
    who : str
        Names the caller in errors.
    field : VectorField
        With inputs, where the trajectories have them.
    trajectories : Trajectories
        Observations; missing coordinates are left out.
    horizon : float or None
        See `windows_of`.
    progress : bool or None
        See `predicted`.

    Returns
    -------
    float
        At most 1; minus infinity where a path ends before its window does.

    Raises
    ------
    ValueError
        As `windows_of`, or where no state varies.
    """
    windows = windows_of(who, trajectories, horizon)
    observed = np.concatenate([window.x[1:] for window in windows])
    paths = np.concatenate([path[1:] for path in predicted(field, windows, progress)])
    observed = np.where(np.isfinite(observed).any(axis=0), observed, 0.0)  # never seen: it does not vary
    with np.errstate(all="ignore"):  # what overflows is judged below
        about = observed - np.nanmean(observed, axis=0)
        total = np.nansum(about**2, axis=0)
        varies = total > (1e-12 * np.nanmax(np.abs(observed), axis=0)) ** 2
        left = np.nansum((paths - observed) ** 2, axis=0)
    if not varies.any():
        raise ValueError(f"{who}: expected observations of which a state varies, got constant ones.")
    if not np.isfinite(paths).all():
        return -np.inf
    if not (np.isfinite(total).all() and np.isfinite(left).all()):
        raise ValueError(
            f"{who}: expected states whose squares are ordinary floating-point numbers, got larger ones; "
            "change the units."
        )
    return float(np.mean(1.0 - left[varies] / total[varies]))
