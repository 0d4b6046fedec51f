"""Batched adaptive integration of vector fields, with a step size and a status for each trajectory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from fim_dynsys.deadline import time_limit
from fim_dynsys.errors import SimulationWarning, check_number, check_positive, real_array, warn
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.simulation.batch import BatchedSolver
from fim_dynsys.simulation.events import EventDetector, Events
from fim_dynsys.simulation.pairs import PAIRS, pair
from fim_dynsys.simulation.problem import (
    FAILURES,
    SMALLEST_RTOL,
    InitialValueProblem,
    Outcome,
    Progress,
    RequestedTimes,
    Status,
)
from fim_dynsys.simulation.stiff import STIFF, integrate_one_by_one
from fim_dynsys.threads import on_one_thread
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.ordering import by_labels


class FittedModel(Protocol):
    """A model with the field it has inferred."""

    @property
    def field_(self) -> VectorField:
        """The inferred field."""


AUTO = "auto"
"""Method that begins explicitly, and goes on with an implicit one where a field is stiff."""

_FLOOR = 1e-3  # of rtol and the length scale: states that are small beside others count, too

_WITHIN = 10.0  # absolute tolerances: a state that stays below has no correct digit after a few steps
_ROUNDED = 1e-14  # of the largest state: what rounding leaves of a state that is zero

OneField = VectorField | FittedModel
Fields = OneField | EnsembleField | Sequence[OneField]
_Arranged = tuple[Sequence[VectorField], np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]


@on_one_thread
def simulate(
    field: Fields,
    x0: ArrayLike,
    t: ArrayLike | Sequence[ArrayLike],
    rtol: float = 1e-7,
    atol: ArrayLike | None = None,
    events: Events = None,
    method: str = AUTO,
    max_steps: int = 100_000,
    max_step: float = np.inf,
    escape: float = 1e6,
    progress: Progress | None = None,
    max_seconds: float | None = None,
) -> Trajectories:
    """Integrate a field, or several, from initial states and report the states at given times.

    All trajectories advance together, one field call per stage, yet each has its own step size and ends on
    its own: a failing one neither delays nor changes the others.

    Parameters
    ----------
    field : VectorField or fitted model, sequence of them, or EnsembleField
        One field for all trajectories; or n fields, field i for initial state i; or an ensemble, whose
        members each integrate all initial states (members one after the other along ``trajectory``, with
        a coordinate ``member``). A fitted model stands for its ``field_``.
    x0 : array_like (d,) or (n, d)
        Initial states, at the first time.
    t : array_like (m,) or (n, m), or list of n arrays
        Times at which states are wanted, strictly increasing or strictly decreasing (then the field is
        integrated backwards); shared, or per trajectory. NaN at the end of a row is padding.
    rtol : float
        Relative tolerance of the local error.
    atol : float or array_like (d,) or (n, d), optional
        Absolute tolerance; default rtol times the field's length scale, or times the largest coordinate of
        the initial state where the field has none; a thousandth of that with method "auto". A state of a
        field with a formula whose rate vanishes wherever it is zero, as that of a population, has a relative
        tolerance alone: it cannot change its sign.
    events : callable or sequence of callable, optional
        ``g(t (n,), x (n, d)) -> (n,)``; a sign change of g within a step is located on the dense output by
        bisection. As in scipy, ``g.direction`` > 0 or < 0 counts only changes to positive or to negative,
        and ``g.terminal`` may be False, True or the number of occurrences after which to stop; unlike in
        scipy it is True unless set. A zero at the very start does not count, and two changes within one
        step cancel out (set `max_step`).
    method : {"auto", "dop853", "rk45", "radau", "lsoda"}
        The explicit pairs 8(5,3) and 5(4) of Dormand and Prince run batched; the two stiff methods are
        scipy's, one trajectory after the other, with the field's Jacobian. "auto" is dop853 and goes on with
        radau where steps are limited by stability.
    max_steps : int
        Largest number of attempted steps per trajectory. Under the explicit pairs one ends sooner that, by
        its latest 5,000 steps, would need a hundred times as many.
    max_step : float
        Largest step in time.
    escape : float
        A trajectory ends when a coordinate exceeds this multiple of the length scale (or of the initial
        state, if that is larger).
    progress : callable, optional
        Called now and then with the fraction of the work done, between 0 and 1.
    max_seconds : float, optional
        Time on the clock after which the trajectories still under way end (status ``OUT_OF_TIME``); default
        no limit.

    Returns
    -------
    Trajectories
        All requested times. After a failure or a terminal event the states are NaN. Coordinates per
        trajectory: ``status`` (values of `Status`) and ``t_stop``, the last time reached. With events, the
        dataset also holds ``x_stop(trajectory, state)`` and every located occurrence in order of time:
        ``event_time(trajectory, occurrence)``, ``event_index(trajectory, occurrence)`` (which event; -1
        pads) and ``event_state(trajectory, occurrence, state)``.

    Raises
    ------
    ValueError
        If shapes do not fit, values are not finite, times are not strictly monotonic, or an option is
        unknown.
    TypeError
        If ``field`` is not a field.

    Warns
    -----
    SimulationWarning
        Once, if any trajectory failed; and if states stay as small as the default absolute tolerance.

    References
    ----------
    E. Hairer, S. P. Norsett, G. Wanner: Solving Ordinary Differential Equations I, 2nd ed., Springer 1993,
    sections II.4 (step size control, starting step), II.5 and II.6 (pairs and their dense output).
    E. Hairer, G. Wanner: Solving Ordinary Differential Equations II, 2nd ed., Springer 1996, section IV.2
    (detection of stiffness).

    See Also
    --------
    VectorFieldModel.simulate : In pysindy's form.
    fim_dynsys.plot.time_series : Draws the result.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> field = fim_dynsys.SymbolicField(["-0.5*x0"])
    >>> path = fim_dynsys.simulate(field, [3.0], np.linspace(0, 2, 3))
    >>> path.x[0, :, 0].round(4)
    array([3.    , 1.8196, 1.1036])
    >>> fim_dynsys.Status(path.status[0]).name
    'SUCCESS'
    """
    check_number("simulate", "rtol", rtol, SMALLEST_RTOL)
    check_number("simulate", "max_steps", max_steps, 1.0)
    check_positive("simulate", infinite=True, max_step=max_step, escape=escape)
    fields, x0, t, which, member = _arranged(field, x0, t)
    if member is not None and atol is not None and np.ndim(atol) == 2:
        atol = np.tile(np.asarray(atol), (len(fields), 1))
    with time_limit("simulate", max_seconds):
        solution = integrate(
            fields,
            x0,
            t,
            which=which,
            rtol=rtol,
            atol=atol,
            events=events,
            method=method,
            max_steps=max_steps,
            max_step=max_step,
            escape=escape,
            progress=progress,
        )
    if atol is None:
        _warn_of_tiny_states(solution, fields[0])
    failed = Counter(Status(s).name for s in solution.status if s in FAILURES)
    if failed:
        reasons = ", ".join(f"{name} {count}" for name, count in sorted(failed.items()))
        warn(
            f"simulate: {failed.total()} of {len(x0)} trajectories stopped early ({reasons}); "
            "their later states are NaN, see status and t_stop.",
            SimulationWarning,
        )
    return _as_trajectories(solution, fields[0], member, events)


@dataclass(frozen=True)
class Solution:
    """Plain arrays of an integration.

    Attributes
    ----------
    t : ndarray (n, m)
        Requested times, NaN in padding.
    x : ndarray (n, m, d)
        States there, NaN after the stop.
    status : ndarray (n,) of int8
        Values of `Status`.
    t_stop : ndarray (n,)
        Last time reached.
    x_stop : ndarray (n, d)
        State there.
    n_steps : ndarray (n,) of int
        Attempted steps.
    occurrences : tuple of (int, float, int, ndarray (d,))
        Trajectory, time, index and state of every located event.
    atol : ndarray (n, d)
        Absolute tolerances.
    """

    t: np.ndarray
    x: np.ndarray
    status: np.ndarray
    t_stop: np.ndarray
    x_stop: np.ndarray
    n_steps: np.ndarray
    occurrences: tuple
    atol: np.ndarray


def integrate(
    fields: Sequence[VectorField],
    x0: np.ndarray,
    t: ArrayLike,
    *,
    which: np.ndarray | None = None,
    rtol: float = 1e-7,
    atol: ArrayLike | None = None,
    events: Events = None,
    method: str = "dop853",
    max_steps: int = 100_000,
    max_step: float = np.inf,
    escape: float = 1e6,
    progress: Progress | None = None,
    until: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Solution:
    """As `simulate`, for callers that want plain arrays and no warning.

    Parameters
    ----------
    fields : sequence of VectorField
        Fields of one kind.
    x0 : ndarray (n, d)
        Initial states.
    t : ndarray (m,) or (n, m)
        Times.
    which : ndarray (n,) of int, optional
        Number of the field of each trajectory; default the only field, or one each.
    rtol, atol, events, method, max_steps, max_step, escape, progress
        As for `simulate`.
    until : callable, optional
        ``until(x (n, d)) -> (n,)`` of bool: a trajectory ends like at an event with the first step at the end
        of which it is true; nothing is located. For explicit methods.

    Returns
    -------
    Solution

    Raises
    ------
    ValueError
        As `simulate`, and for `until` with an implicit method.
    """
    if not isinstance(method, str) or method not in (AUTO, *PAIRS, *STIFF):
        raise ValueError(f"simulate: expected method among {[AUTO, *PAIRS, *STIFF]}, got {method!r}.")
    if until is not None and method not in PAIRS:
        raise ValueError(f"integrate: expected a method among {[*PAIRS]} with until, got {method!r}.")
    times = RequestedTimes.of(t, len(x0))
    floor = _FLOOR if method == AUTO else 1.0
    problem = InitialValueProblem.of(fields, x0, times, which, rtol, atol, escape, max_steps, max_step, floor)
    detector = EventDetector.of(events, len(x0))
    if method in STIFF:
        outcome = Outcome(problem)
        integrate_one_by_one(problem, method, detector, outcome, range(len(x0)), progress)
    else:
        automatic = method == AUTO
        run = BatchedSolver(problem, pair("dop853" if automatic else method), detector, until, automatic)
        run.finish(progress)
        outcome = run.outcome
        if outcome.stiff.any():
            rows = np.flatnonzero(outcome.stiff)
            integrate_one_by_one(problem, "radau", detector, outcome, rows, progress)
    outcome.blank_unreached(times)
    return Solution(
        times.per_trajectory(len(x0)),
        outcome.x,
        outcome.status,
        times.at(outcome.s_stop),
        outcome.x_stop,
        outcome.n_steps,
        tuple(detector.occurrences),
        problem.atol,
    )


def _arranged(field: Fields, x0: ArrayLike, t: ArrayLike | Sequence[ArrayLike]) -> _Arranged:
    """Fields, initial states ``(n, d)``, times, number of the field, and member (or None) per trajectory."""
    members = isinstance(field, EnsembleField)
    given = field if isinstance(field, list | tuple | EnsembleField) else [field]
    fields = [_field_of(item) for item in given]
    if not len(fields):
        raise ValueError("simulate: expected at least one field, got none.")
    if isinstance(x0, Trajectories):
        raise ValueError(
            f"simulate: expected initial states (d,) or (n, d), got a record of {len(x0)} trajectories; pass "
            "x0.x[:, 0] for their first samples."
        )
    x0 = by_labels("simulate", "states", x0, fields[0].state_names)
    x0, t = np.atleast_2d(real_array(x0, "simulate", "x0")), _padded_times(t)
    rows = {len(x0), len(t) if t.ndim == 2 else 1, 1 if members else len(fields)} - {1}
    if len(rows) > 1:
        raise ValueError(
            f"simulate: expected as many initial states as fields and rows of times (or one), got {len(x0)} "
            f"states, {len(fields)} fields and times of shape {t.shape}."
        )
    n = max(rows, default=1)
    x0 = np.broadcast_to(x0, (n, x0.shape[-1])) if x0.ndim == 2 else x0
    if not members:
        return fields, x0, t, None, None
    member = np.repeat(np.arange(len(fields)), n)
    per_trajectory = t.ndim == 2 and len(t) == n
    return (
        fields,
        np.tile(x0, (len(fields), 1)),
        np.tile(t, (len(fields), 1)) if per_trajectory else t,
        member,
        member,
    )


def _field_of(item: object) -> VectorField:
    field = item if isinstance(item, VectorField) else getattr(item, "field_", None)
    if not isinstance(field, VectorField):
        raise TypeError(
            f"simulate: expected a VectorField, a fitted model, a list of them or an EnsembleField, got "
            f"{type(item).__name__}; wrap a function in CallableField, fit a model first."
        )
    return field


def _padded_times(t: ArrayLike | Sequence[ArrayLike]) -> np.ndarray:
    """Times as one array; a list of arrays of different lengths is padded with NaN."""
    if isinstance(t, list | tuple):
        rows = [real_array(row, "simulate", "t").ravel() for row in t]
    if isinstance(t, list | tuple) and len({row.size for row in rows}) > 1:
        t = np.full((len(rows), max(map(len, rows))), np.nan)
        for padded, row in zip(t, rows, strict=True):
            padded[: len(row)] = row
    return real_array(t, "simulate", "t")


def _warn_of_tiny_states(solution: Solution, field: VectorField) -> None:
    """Say which states stay within the default absolute tolerance, so that nothing of them is accurate.

    Those that start at zero are left out: they are zero, or their partners are named.
    """
    start, largest = np.abs(solution.x[:, 0]), np.nanmax(np.abs(solution.x), axis=1)
    rounding = _ROUNDED * largest.max(axis=1, keepdims=True)
    tiny = (start > rounding) & (largest <= _WITHIN * solution.atol)
    if tiny.any():
        names = ", ".join(np.array(field.state_names)[tiny.any(axis=0)])
        warn(
            f"simulate: {names} may be wrong: values of at most {largest[tiny].max():.2g} are within the "
            f"absolute tolerance of {solution.atol[tiny].max():.2g}, which suits the largest state; pass "
            "atol with a value for each state.",
            SimulationWarning,
        )


def _as_trajectories(
    solution: Solution, field: VectorField, member: np.ndarray | None, events: Events
) -> Trajectories:
    n_obs = np.isfinite(solution.t).sum(axis=1)
    coords = {"status": solution.status, "t_stop": solution.t_stop}
    if member is not None:
        coords["member"] = member
    simulated = Trajectories.from_arrays(
        [x[:n] for x, n in zip(solution.x, n_obs, strict=True)],
        [t[:n] for t, n in zip(solution.t, n_obs, strict=True)],
        state_names=field.state_names,
        coords=coords,
        units=_units(field),
    )
    return simulated if events is None else _with_occurrences(simulated, solution)


def _units(field: VectorField) -> dict[str, str] | None:
    if field.context is None:
        return None
    known = {"t", *field.state_names}
    return {name: unit for name, unit in field.context.units.items() if name in known}


def _with_occurrences(simulated: Trajectories, solution: Solution) -> Trajectories:
    n, _, d = solution.x.shape
    counts = np.bincount([row for row, *_ in solution.occurrences], minlength=n)
    times = np.full((n, counts.max()), np.nan)
    index = np.full(times.shape, -1)
    states = np.full((*times.shape, d), np.nan)
    filled = np.zeros(n, dtype=int)
    for row, t, event, state in solution.occurrences:
        place = row, filled[row]
        times[place], index[place], states[place] = t, event, state
        filled[row] += 1
    by_state = ("trajectory", "occurrence", "state")
    return Trajectories(
        simulated.dataset.assign(
            x_stop=xr.Variable(("trajectory", "state"), solution.x_stop),
            event_time=xr.Variable(by_state[:2], times),
            event_index=xr.Variable(by_state[:2], index),
            event_state=xr.Variable(by_state, states),
        )
    )
