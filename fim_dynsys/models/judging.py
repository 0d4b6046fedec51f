"""Paths by which fits are judged, scored and warned of: one integrator for all of these."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from fim_dynsys.analyze.results import share_bar
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.models.driving import as_in_data, driven_path, driven_stretches
from fim_dynsys.regression.following import followed
from fim_dynsys.simulation.problem import Status, kept_signs
from fim_dynsys.simulation.solution import AUTO, integrate

RTOL = 1e-7
"""Relative error of a step; the absolute one is a millionth of that of a standard deviation."""

_FLOOR, _COARSE = 1e-6, 1e-3  # the latter where inputs may jump at unknown times, which steps have to find
_ESCAPE = 1e6  # standard deviations: what goes farther has left all bounds
_STEPS, _STEPS_PER_SAMPLE = 20_000, 20  # at most

_REASONS = {
    Status.MAX_STEPS: "more steps are needed than are allowed",
    Status.NON_FINITE: "the field is not finite there",
    Status.STEP_TOO_SMALL: "the field has a pole there, or jumps",
    Status.LEFT_BOUNDS: "it has left all bounds",
}


class Judged(NamedTuple):
    """Paths over several stretches, and how they ended."""

    paths: list[np.ndarray]  # (n, d) of each, nan behind an early end
    status: np.ndarray  # (S,) by `Status`
    reached: np.ndarray  # (S,) last times

    def ending(self, which: int, end: float) -> str | None:
        """Why a path ended before ``end``, its last time; None where it did not."""
        status = Status(int(self.status[which]))
        if status == Status.SUCCESS:
            return None
        return f"its path ends at {self.reached[which]:.4g} of {end:.4g}: {_REASONS[status]}"


def driven(
    field: DrivenField, start: np.ndarray, t: np.ndarray, u: Callable[[float], np.ndarray] | np.ndarray
) -> tuple[np.ndarray, str | None]:
    """The path (n, d) from one state at increasing times, and why it ended early; None where it did not.

    Parameters
    ----------
    field : DrivenField
        With inputs.
    start : array (d,)
        State at the first time.
    t : array (n,)
        Times.
    u : callable or array (n, m)
        Inputs as a function of time, which is evaluated wherever a step needs it, or at the times.
    """
    if not callable(u):
        found = judged(field, [start], [t], [between(field, t, u)])
        return found.paths[0], found.ending(0, float(t[-1] - t[0]))
    length, bound = _sizes(field, start[None])
    path, status, reached = driven_path(field, start, t, u, (RTOL, _COARSE * RTOL * length, bound))
    found = Judged([path], np.array([status]), np.array([reached - t[0]]))
    return path, found.ending(0, float(t[-1] - t[0]))


def _sizes(field: VectorField, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Length scales (d,) of the states, and bounds that no path comes back from."""
    largest = np.abs(starts).max(axis=0)
    length = field.frame.length
    length = np.full(field.dim, largest.max() or 1.0) if length is None else length
    return length, _ESCAPE * np.maximum(length, largest)


def between(field: VectorField, t: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Inputs (n, m) between times (n,), as the data of a field have them: cubics (n - 1, 4, m)."""
    return as_in_data(field, t, u).cubics


def judged(
    field: VectorField,
    starts: Sequence[np.ndarray],
    times: Sequence[np.ndarray],
    inputs: Sequence[np.ndarray] | None = None,
    progress: bool | None = False,
) -> Judged:
    """Paths of a field from states, to tolerances, by an implicit method where it is stiff.

    Parameters
    ----------
    field : VectorField
        A sum of terms is integrated by compiled code.
    starts : sequence of arrays (d,)
        State at the first time of each stretch.
    times : sequence of arrays (n,)
        Increasing.
    inputs : sequence of arrays (n - 1, 4, m), optional
        Between these times, for a field with inputs: cubics of the fraction of each interval. Those of a part
        of a record are a part of its own: what inputs do is not recognised from few samples.
    progress : bool or None
        Whether a bar is shown after two seconds, None for on a terminal only; of fields without inputs that
        are no sums of terms.

    Returns
    -------
    Judged
    """
    first, longest = np.stack(starts), max(map(len, times))
    steps = _STEPS + _STEPS_PER_SAMPLE * longest
    terms = field.extended if isinstance(field, DrivenField) else field
    length, bound = _sizes(field, first)
    if isinstance(terms, DictionaryField):
        kept = kept_signs([terms])[0, : field.dim]
        found = followed(
            terms.dictionary,
            terms.coefficients[:, : field.dim],
            starts,
            [t - t[0] for t in times],
            rtol=RTOL,
            atol=np.where(kept, 1e-100, _FLOOR) * RTOL * length,
            bound=bound,
            max_steps=steps,
            inputs=inputs if isinstance(field, DrivenField) else None,
        )
        return Judged(found.paths, found.status, found.reached)
    if isinstance(field, DrivenField):
        assert inputs is not None
        tolerance = RTOL, _FLOOR * RTOL * length, bound
        return Judged(*driven_stretches(field, starts, times, inputs, tolerance))
    grid = np.full((len(times), longest), np.nan)
    for row, t in zip(grid, times, strict=True):
        row[: len(t)] = t - t[0]
    with np.errstate(all="ignore"), share_bar(progress, "paths") as report_share:
        solution = integrate(
            [field],
            first,
            grid,
            rtol=max(RTOL, field._accuracy),
            method=AUTO,
            max_steps=steps,
            escape=_ESCAPE,
            progress=report_share,
        )
    paths = [x[: len(t)] for x, t in zip(solution.x, times, strict=True)]
    return Judged(paths, solution.status, solution.t_stop)
