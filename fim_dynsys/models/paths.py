"""Simulated paths against observed ones: what a score of a field means for predictions."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fim_dynsys.errors import check_positive
from fim_dynsys.fields.base import VectorField
from fim_dynsys.models.judging import between, judged
from fim_dynsys.trajectories.container import Trajectories


class Window(NamedTuple):
    """Observations that a field is to predict from the first of them."""

    t: np.ndarray  # (n,)
    x: np.ndarray  # (n, d), NaN where missing
    inputs: np.ndarray  # (n - 1, 4, m) cubics between the times


def windows_of(
    caller: str, field: VectorField, trajectories: Trajectories, horizon: float | None
) -> list[Window]:
    """Each trajectory as one window, or cut into windows of a duration, each from a complete sample on.

    Parameters
    ----------
    caller : str
        Names the caller in errors.
    field : VectorField
        That is to predict them.
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
        check_positive(caller, infinite=True, horizon=horizon)
    found = []
    for (t, x), u in zip(trajectories.arrays(), trajectories.input_arrays(), strict=True):
        complete, inputs = np.isfinite(x).all(axis=1), between(field, t, u)
        first = 0
        while first < len(t) and complete[first:].any():
            first += int(np.argmax(complete[first:]))
            last = len(t)
            if horizon is not None:
                last = int(np.searchsorted(t, t[first] + horizon * (1.0 + 1e-9), side="right"))
            if last - first >= 2:
                found.append(Window(t[first:last], x[first:last], inputs[first : last - 1]))
            # the last sample of a window is the first of the next: no gap is left out
            first = max(last - 1, first + 1) if last < len(t) else len(t)
    if not found:
        raise ValueError(
            f"{caller}: expected a trajectory with two samples within the horizon, the first of them "
            f"complete, got none with horizon {horizon}; give more samples, or a longer horizon."
        )
    return found


def predicted(
    field: VectorField,
    windows: Sequence[Window],
    progress: bool | None = False,
    starts: Sequence[np.ndarray] | None = None,
) -> list[np.ndarray]:
    """Paths (n, d) of the field from ``starts``, by default the first sample of each window.

    They are NaN from where the field fails. With `progress`, None for on a terminal only, a bar is shown
    after two seconds.
    """
    first = [window.x[0] for window in windows] if starts is None else starts
    return judged(field, first, [w.t for w in windows], [w.inputs for w in windows], progress).paths


def _starts(field: VectorField, windows: Sequence[Window]) -> list[np.ndarray]:
    """First states: the fitted ones of records that the field was fitted to, else the first samples."""
    info, context = field.fit_info, field.context
    known = []
    fitted = info.initial_states
    if context is not None and fitted is not None and np.shape(fitted) == (len(context), field.dim):
        known = [(t, x, start) for (t, x), start in zip(context.arrays(), fitted, strict=True)]
    return [
        next(
            (s for t, x, s in known if np.array_equal(t, w.t) and np.array_equal(x, w.x, equal_nan=True)),
            w.x[0],
        )
        for w in windows
    ]


def path_score(
    caller: str,
    field: VectorField,
    trajectories: Trajectories,
    horizon: float | None,
    progress: bool | None = False,
) -> float:
    """R2 of simulated against observed paths, the mean over the states that vary.

    Every window is simulated from its first sample, which is not counted; from the fitted start where the
    field was fitted to this very record, so that the score is what `FitInfo.path_r2` says. Sums of squares
    are those of all windows together, the total about the mean of each state. Velocities that were not
    observed are not counted.

    Parameters
    ----------
    caller : str
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
    windows = windows_of(caller, field, trajectories, horizon)
    counted = np.isin(field.state_names, field.fit_info.inference.positions or field.state_names)
    observed = np.concatenate([window.x[1:] for window in windows])
    paths = np.concatenate(
        [path[1:] for path in predicted(field, windows, progress, _starts(field, windows))]
    )
    observed = np.where(np.isfinite(observed).any(axis=0), observed, 0.0)  # never seen: it does not vary
    with np.errstate(all="ignore"):  # what overflows is judged below
        about = observed - np.nanmean(observed, axis=0)
        total = np.nansum(about**2, axis=0)
        varies = counted & (total > (1e-12 * np.nanmax(np.abs(observed), axis=0)) ** 2)
        squares = np.nansum((paths - observed) ** 2, axis=0)
    if not varies.any():
        raise ValueError(f"{caller}: expected observations of which a state varies, got constant ones.")
    if not np.isfinite(paths).all():
        return -np.inf
    if not (np.isfinite(total).all() and np.isfinite(squares).all()):
        raise ValueError(
            f"{caller}: expected states whose squares are ordinary floating-point numbers, got larger ones; "
            "change the units."
        )
    return float(np.mean(1.0 - squares[varies] / total[varies]))
