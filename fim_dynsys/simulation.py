"""Batched adaptive integration of vector fields, with a step size and a status for each trajectory."""

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import xarray as xr
from scipy.integrate import DOP853, LSODA, RK45, Radau

from fim_dynsys.errors import SimulationWarning
from fim_dynsys.field import EnsembleField, VectorField
from fim_dynsys.trajectories import Trajectories

_EPS = np.finfo(float).eps
_SMALLEST_RTOL = 100 * _EPS
_PENDING_AT_MOST = 200_000
_BISECTIONS = 54


class Status(IntEnum):
    """How the integration of one trajectory ended."""

    SUCCESS = 0
    """Reached the last requested time."""
    MAX_STEPS = 1
    """Used up its steps."""
    NON_FINITE = 2
    """The field is NaN or infinite just ahead."""
    STEP_TOO_SMALL = 3
    """The tolerances cannot be met with steps that still advance time."""
    LEFT_BOUNDS = 4
    """Went further out than the allowed multiple of the length scale."""
    EVENT = 5
    """Stopped by a terminal event."""


FAILURES = frozenset({Status.MAX_STEPS, Status.NON_FINITE, Status.STEP_TOO_SMALL, Status.LEFT_BOUNDS})
"""The statuses that mean that requested times were not reached for want of a solution."""


def simulate(
    field,
    x0,
    t,
    rtol=1e-7,
    atol=None,
    events=None,
    method="dop853",
    max_steps=100_000,
    max_step=np.inf,
    escape=1e6,
    progress=None,
):
    """Integrate a field, or several, from initial states and report the states at given times.

    All trajectories advance together, one field call per stage, yet each has its own step size and ends on
    its own: a failing one neither delays nor changes the others.

    Parameters
    ----------
    field : VectorField, EnsembleField, or sequence of VectorField
        One field for all trajectories; or n fields, field i for initial state i; or an ensemble, whose
        members each integrate all initial states (members one after the other along ``trajectory``, with
        a coordinate ``member``).
    x0 : array_like (d,) or (n, d)
        Initial states, at the first time.
    t : array_like (m,) or (n, m), or list of n arrays
        Times at which states are wanted, strictly increasing or strictly decreasing (then the field is
        integrated backwards); shared, or per trajectory. NaN at the end of a row is padding.
    rtol : float
        Relative tolerance of the local error.
    atol : float or array_like (d,), optional
        Absolute tolerance; default rtol times the field's length scale, or times the largest coordinate of
        the initial state where the field has none.
    events : callable or sequence of callable, optional
        ``g(t (n,), x (n, d)) -> (n,)``; a sign change of g within a step is located on the dense output by
        bisection. As in scipy, ``g.direction`` > 0 or < 0 counts only changes to positive or to negative,
        and ``g.terminal`` may be False, True or the number of occurrences after which to stop; unlike in
        scipy it is True unless set. A zero at the very start does not count, and two changes within one
        step cancel out (set `max_step`).
    method : {"dop853", "rk45", "radau", "lsoda"}
        The explicit pairs 8(5,3) and 5(4) of Dormand and Prince run batched; the two stiff methods are
        scipy's, one trajectory after the other, with the field's Jacobian.
    max_steps : int
        Largest number of attempted steps per trajectory.
    max_step : float
        Largest step in time.
    escape : float
        A trajectory ends when a coordinate exceeds this multiple of the length scale (or of the initial
        state, if that is larger).
    progress : callable, optional
        Called now and then with the fraction of the work done, between 0 and 1.

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
        Once, if any trajectory failed.

    References
    ----------
    E. Hairer, S. P. Norsett, G. Wanner: Solving Ordinary Differential Equations I, 2nd ed., Springer 1993,
    sections II.4 (step size control, starting step), II.5 and II.6 (pairs and their dense output).
    """
    fields, x0, t, which, member = _arranged(field, x0, t)
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
    failed = Counter(Status(s).name for s in solution.status if s in FAILURES)
    if failed:
        reasons = ", ".join(f"{name} {count}" for name, count in sorted(failed.items()))
        warnings.warn(
            f"simulate: {failed.total()} of {len(x0)} trajectories stopped early ({reasons}); "
            "their later states are NaN, see status and t_stop.",
            SimulationWarning,
            stacklevel=2,
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
    """

    t: np.ndarray
    x: np.ndarray
    status: np.ndarray
    t_stop: np.ndarray
    x_stop: np.ndarray
    n_steps: np.ndarray
    occurrences: tuple


def integrate(
    fields,
    x0,
    t,
    *,
    which=None,
    rtol=1e-7,
    atol=None,
    events=None,
    method="dop853",
    max_steps=100_000,
    max_step=np.inf,
    escape=1e6,
    progress=None,
):
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

    Returns
    -------
    Solution
    """
    clock = _Clock.of(t, len(x0))
    problem = _Problem.of(fields, x0, clock, which, rtol, atol, escape, max_steps, max_step)
    watch = _Watch.of(events, len(x0))
    if method in _PAIRS:
        run = _Batch(problem, _PAIRS[method], watch)
        run.finish(progress)
        outcome = run.outcome
    elif method in _STIFF:
        outcome = _integrate_one_by_one(problem, _STIFF[method], watch, progress)
    else:
        raise ValueError(f"simulate: expected method among {[*_PAIRS, *_STIFF]}, got {method!r}.")
    outcome.blank_unreached(clock)
    return Solution(
        clock.times(len(x0)),
        outcome.x,
        outcome.status,
        clock.at(outcome.s_stop),
        outcome.x_stop,
        outcome.n_steps,
        tuple(watch.occurrences),
    )


# -------------------------------------------------------------------- the problem


@dataclass(frozen=True)
class _Clock:
    """Requested times as durations since the start, which always grow; the field does not know the time."""

    t: np.ndarray  # (1 or n, m), NaN in padding
    start: np.ndarray  # (1 or n,)
    sign: np.ndarray  # (1 or n,), -1 where time runs backwards
    grid: np.ndarray  # (1 or n, m), durations, infinite in padding
    end: np.ndarray  # (1 or n,)

    @classmethod
    def of(cls, t, n):
        t = np.asarray(t)
        if t.dtype.kind not in "iuf" or t.ndim not in (1, 2) or t.size == 0:
            raise ValueError(
                f"simulate: expected times (m,) or (n, m), got shape {t.shape} of dtype {t.dtype}."
            )
        t = np.atleast_2d(t.astype(float))
        if len(t) not in (1, n):
            raise ValueError(f"simulate: expected times for {n} trajectories, got {len(t)} rows.")
        start = t[:, 0]
        padding = np.isnan(t)
        if np.isinf(t).any() or padding[:, 0].any() or (padding[:, :-1] & ~padding[:, 1:]).any():
            raise ValueError(f"simulate: expected finite times (NaN at the end of a row only), got {t}.")
        sign = np.where(t[:, min(1, t.shape[1] - 1)] < start, -1.0, 1.0)
        grid = np.where(padding, np.inf, (t - start[:, None]) * sign[:, None])
        wrong = np.flatnonzero(((grid[:, 1:] <= grid[:, :-1]) & ~padding[:, 1:]).any(axis=1))
        if len(wrong):
            raise ValueError(
                f"simulate: expected strictly increasing or strictly decreasing times, got {t[wrong[0]]}."
            )
        end = np.where(padding, -np.inf, grid).max(axis=1)
        return cls(t, start, sign, grid, end)

    def times(self, n):
        return np.broadcast_to(self.t, (n, self.t.shape[1]))

    def at(self, s, rows=slice(None)):
        """Times after durations s of all trajectories, or of the given ones."""
        if len(self.start) == 1:
            return self.start + self.sign * s
        return self.start[rows] + self.sign[rows] * s

    def requested(self, rows, sample):
        """Durations until these samples of these trajectories."""
        return self.grid[0 if len(self.grid) == 1 else rows, sample]

    def reached(self, s, rows):
        """How many requested times lie at or before s, for the given trajectories."""
        if len(self.grid) == 1:
            return np.searchsorted(self.grid[0], s, side="right")
        return (self.grid[rows] <= s[:, None]).sum(axis=1)


@dataclass(frozen=True)
class _Problem:
    """What is to be integrated, and how accurately."""

    fields: tuple
    which: np.ndarray  # (n,), number of the field of each trajectory
    stacked: Callable | None
    x0: np.ndarray
    clock: _Clock
    rtol: float
    atol: np.ndarray  # (n, d)
    limit: np.ndarray  # (n, d)
    max_steps: int
    max_step: float

    @classmethod
    def of(cls, fields, x0, clock, which, rtol, atol, escape, max_steps, max_step):
        fields = tuple(fields)
        x0 = _checked_states(x0, fields[0].dim)
        if not rtol >= _SMALLEST_RTOL:
            raise ValueError(f"simulate: expected rtol >= {_SMALLEST_RTOL:.1e}, got {rtol}.")
        if not (max_steps >= 1 and max_step > 0 and escape > 0):
            options = f"{max_steps}, {max_step}, {escape}"
            raise ValueError(f"simulate: expected positive max_steps, max_step and escape, got {options}.")
        which = _checked_numbers(which, fields, len(x0))
        length, unknown = _lengths(fields, which, x0)
        limit = escape * np.maximum(np.maximum(length, np.abs(x0)), unknown)
        atol = np.broadcast_to(rtol * length if atol is None else _checked_atol(atol, x0.shape[1]), x0.shape)
        kinds = {type(f) for f in fields}
        kind = kinds.pop() if len(kinds) == 1 else VectorField
        stacked = kind.stack(fields) if len(fields) > 1 else None
        return cls(fields, which, stacked, x0, clock, rtol, atol, limit, int(max_steps), float(max_step))

    def rhs(self, rows):
        """The right-hand side for these trajectories, ``(len(rows), d) -> (len(rows), d)``."""
        if self.stacked is None:
            return self.fields[0]._rhs
        which = self.which[rows]
        return lambda x: self.stacked(x, which)


def _checked_states(x0, dim):
    x0 = np.asarray(x0)
    if x0.dtype.kind not in "iuf" or x0.ndim != 2 or x0.shape[1] != dim or len(x0) == 0:
        raise ValueError(
            f"simulate: expected initial states of shape ({dim},) or (n, {dim}), got {x0.shape} of "
            f"dtype {x0.dtype}."
        )
    wrong = np.flatnonzero(~np.isfinite(x0).all(axis=1))
    if len(wrong):
        raise ValueError(f"simulate: expected finite initial states, got {x0[wrong[0]]} in row {wrong[0]}.")
    return x0.astype(float)


def _checked_numbers(which, fields, n):
    if which is None:
        if len(fields) not in (1, n):
            raise ValueError(f"simulate: expected one field or {n}, one per state, got {len(fields)}.")
        return np.zeros(n, dtype=int) if len(fields) == 1 else np.arange(n)
    return np.asarray(which)


def _checked_atol(atol, dim):
    atol = np.asarray(atol, dtype=float)
    if atol.shape not in ((), (dim,)) or not (atol >= 0).all():
        raise ValueError(f"simulate: expected atol >= 0, one number or {dim}, got {atol}.")
    return atol


def _lengths(fields, which, x0):
    """Length scale per trajectory and state ``(n, d)``, and 1 where no field knows it, else 0, ``(n, 1)``."""
    known = [f.length_scale for f in fields]
    largest = np.abs(x0).max(axis=1, keepdims=True)
    own = np.where(largest > 0, largest, 1.0) * np.ones(x0.shape[1])
    unknown = np.array([length is None for length in known], dtype=float)[which][:, None]
    given = np.array([np.ones(x0.shape[1]) if length is None else length for length in known])[which]
    return np.where(unknown > 0, own, given), unknown


class _Outcome:
    """What is known of each trajectory so far."""

    def __init__(self, problem):
        n, d = problem.x0.shape
        self.x = np.full((n, problem.clock.grid.shape[1], d), np.nan)
        self.x[:, 0] = problem.x0
        self.status = np.zeros(n, dtype=np.int8)
        self.s_stop = np.zeros(n)
        self.x_stop = problem.x0.copy()
        self.n_steps = np.zeros(n, dtype=int)

    def blank_unreached(self, clock):
        """Leave no state behind one that could not be evaluated, or behind the stop."""
        n, m, _ = self.x.shape
        grid = np.broadcast_to(clock.grid, (n, m))
        wrong = ~np.isfinite(self.x).all(axis=2) & (grid <= self.s_stop[:, None])
        for row in np.flatnonzero(wrong.any(axis=1)):
            last = int(np.argmax(wrong[row])) - 1
            self.status[row], self.s_stop[row] = Status.NON_FINITE, grid[row, last]
            self.x_stop[row] = self.x[row, last]
        self.x[grid > self.s_stop[:, None]] = np.nan


# -------------------------------------------------------------------- explicit pairs


class _Pair:
    """An embedded explicit pair as weights on the columns ``[x, h f_1, ..., h f_s, h f(x_new), extra ...]``.

    Parameters
    ----------
    a : ndarray (s, s)
        Weights of the stages.
    b : ndarray (s,)
        Weights of the result.
    error : ndarray (k, s + 1)
        Weights of the error estimates.
    extra : ndarray (e, s + 1 + e)
        Weights of further stages that only the dense output needs.
    dense : ndarray (p, s + 1 + e)
        Weights of the p nested coefficients of the dense output, outermost first.
    order : int
        Order of the error estimate plus one: the local error falls like h^order.
    alternating : bool
        Whether the dense output is nested in theta and 1 - theta by turns rather than in theta.
    """

    def __init__(self, a, b, error, extra, dense, order, alternating=False):
        self.n_stages = len(b)
        self.stages = [np.append(1.0, a[i, :i]) for i in range(1, len(b))]
        self.result = np.append(1.0, b)
        self.error = np.pad(error, ((0, 0), (1, 0)))[:, None, None, :]
        self.extra = [np.append(1.0, row[: len(b) + 1 + i]) for i, row in enumerate(extra)]
        self.dense = np.pad(dense, ((0, 0), (1, 0)))
        self.order = order
        self.alternating = alternating

    def error_norm(self, squares, d):
        """Norm of the scaled error per row from the sums of squares ``(k, n)`` of the k estimates."""
        if len(squares) == 1:
            return np.sqrt(squares[0] / d)
        # Hairer's combination of the fifth and third order estimates; the tiny number keeps 0/0 at 0.
        return squares[0] / np.sqrt((squares[0] + 0.01 * squares[1]) * d + 1e-300)

    def step_factor(self, error):
        """Ratio of the best next step to the one that made this error, before limits."""
        if self.order == 8:
            return 0.9 / np.sqrt(np.sqrt(np.sqrt(error)))
        return 0.9 * error ** (-1.0 / self.order)


def _dormand_prince_853():
    """Hairer's 8(5,3) pair with its seventh-order dense output, from the weights in scipy's class."""
    s = DOP853.n_stages
    n_columns = s + 1 + len(DOP853.A_EXTRA)
    increment = np.append(DOP853.B, np.zeros(n_columns - s))
    old, new = np.eye(n_columns)[0], np.eye(n_columns)[s]
    nested = np.vstack([increment, old - increment, 2 * increment - new - old, DOP853.D])
    return _Pair(
        DOP853.A[:s, :s],
        DOP853.B,
        np.array([DOP853.E5, DOP853.E3]),
        DOP853.A_EXTRA,
        nested,
        order=8,
        alternating=True,
    )


def _dormand_prince_54():
    """The 5(4) pair with its fourth-order dense output, from the weights in scipy's class."""
    return _Pair(RK45.A, RK45.B, RK45.E[None], np.empty((0, 0)), RK45.P.T, order=5)


_PAIRS = {"dop853": _dormand_prince_853(), "rk45": _dormand_prince_54()}


class _DenseOutput:
    """Interpolants of r steps.

    Parameters
    ----------
    pair : _Pair
        The pair that took the steps.
    columns : ndarray (r, d, s + 2)
        State and scaled stages of each step.
    rhs : callable
        Right-hand side for these r rows.
    h : ndarray (r, 1)
        Signed steps.
    """

    def __init__(self, pair, columns, rhs, h):
        r, d, known = columns.shape
        full = np.empty((r, d, known + len(pair.extra)))
        full[:, :, :known] = columns
        for i, weights in enumerate(pair.extra):
            stage = np.vecdot(full[:, :, : known + i], weights)
            np.multiply(rhs(stage), h, out=full[:, :, known + i])
        self.x = columns[:, :, 0]
        self.coefficients = np.vecdot(full, pair.dense[:, None, None, :])
        self.alternating = pair.alternating

    def __call__(self, theta, which=slice(None)):
        """States at fractions theta ``(n,)`` of the steps number ``which``, by default one by one."""
        theta = theta[:, None]
        factors = (theta, 1.0 - theta if self.alternating else theta)
        last = len(self.coefficients) - 1
        value = self.coefficients[last][which] * factors[last % 2]
        for i in range(last - 1, -1, -1):
            value = (value + self.coefficients[i][which]) * factors[i % 2]
        return value + self.x[which]


# -------------------------------------------------------------------- the batch


class _Batch:
    """Trajectories that are still under way; row i of every array belongs to trajectory ``rows[i]``.

    Sums over stages are `numpy.vecdot`, one inner product per number, so that the result for a row does not
    depend on which other rows are present.
    """

    _PER_ROW = ("rows", "x", "f", "s", "h", "end", "sign", "shift", "atol", "limit", "sampled", "growth")

    _PER_ROW = ("rows", "x", "f", "s", "h", "end", "sign", "shift", "atol", "limit", "sampled", "growth")

    def __init__(self, problem, pair, watch):
        self.problem, self.pair, self.watch = problem, pair, watch
        self.outcome = _Outcome(problem)
        n = len(problem.x0)
        self.rows = np.arange(n)
        self.x = problem.x0.copy()
        self.s = np.zeros(n)
        self.end = np.broadcast_to(problem.clock.end, (n,)).copy()
        self.sign = np.broadcast_to(problem.clock.sign, (n,)).copy()
        self.shift = np.broadcast_to(np.abs(problem.clock.start), (n,)).copy()
        self.atol = np.broadcast_to(problem.atol, self.x.shape).copy()
        self.limit = problem.limit.copy()
        self.sampled = np.ones(n, dtype=int)
        self.growth = np.full(n, 10.0)
        self.segments, self.n_pending = [], 0
        self.n_iterations = 0
        with np.errstate(all="ignore"):
            self._allocate()
            self.f = np.array(self.rhs(self.x.copy()), dtype=float)
            self.h = self._first_step()
            self.g = watch.values(problem.clock.at(self.s, self.rows), self.x)
            status = np.where(np.isfinite(self.f).all(axis=1), -1, Status.NON_FINITE)
            status[self.end <= 0] = Status.SUCCESS
            if (status >= 0).any():
                self._leave(status)

    def finish(self, progress=None):
        """Integrate until no trajectory is under way."""
        total = self.problem.clock.end.mean()
        with np.errstate(all="ignore"):
            while len(self.rows):
                self._step()
                if progress is not None and self.n_iterations % 50 == 0:
                    done = self.outcome.s_stop.sum() + self.s.sum()
                    progress(min(1.0, done / (total * len(self.outcome.status))) if total else 1.0)
            self._write_samples()
        if progress is not None:
            progress(1.0)

    def _allocate(self):
        n, d = self.x.shape
        s = self.pair.n_stages
        self.rhs = self.problem.rhs(self.rows)
        self.columns = np.empty((n, d, s + 2))
        flat = self.columns.reshape(n * d, s + 2)
        self.stage = np.empty((n, d))
        self.flat_stage = self.stage.reshape(n * d)
        self.plan = [
            (flat[:, : len(weights)], weights, self.columns[:, :, len(weights)])
            for weights in (*self.pair.stages, self.pair.result)
        ]

    def _first_step(self):
        """Starting step per trajectory (Hairer, Norsett and Wanner, section II.4)."""
        rtol = self.problem.rtol
        scale = self.atol + rtol * np.abs(self.x)
        slope = _rms(self.f / scale)
        # The time in which the state changes by its own size makes everything else free of units.
        unit = np.minimum(1.0 / (rtol * slope), self.end)
        h = 0.01 * unit
        probe = self.x + (self.sign * h)[:, None] * self.f
        curvature = _rms((np.asarray(self.rhs(probe)) - self.f) / scale) / h
        steepest = np.maximum(slope * unit, curvature * unit**2)
        better = unit * (0.01 / steepest) ** (1.0 / self.pair.order)
        best = np.minimum(100 * h, better)
        # A field that is not finite at the probe gives no estimate; the step control then starts from h.
        return np.minimum(np.where(np.isfinite(best), best, h), self.problem.max_step)

    def _step(self):
        """Attempt one step with every trajectory."""
        count_nonzero = np.count_nonzero
        self.n_iterations += 1
        left = self.end - self.s
        h = np.minimum(self.h, left)
        x_new, f_new = self._stages((h * self.sign)[:, None])
        reach = np.abs(x_new)
        error = self._error(reach)
        factor = np.minimum(self.pair.step_factor(error), self.growth)
        accepted = error <= 1.0
        s_new = np.where(h < left, self.s + h, self.end)
        hit = None if self.g is None else self._cross(accepted, x_new, s_new, h)
        self._record(accepted, s_new, h)
        # count_nonzero takes a sixth of the time of any and all, which shows with one trajectory.
        n_rejected = len(h) - count_nonzero(accepted)
        if n_rejected == 0:
            self.x, self.f, self.s = x_new, f_new, s_new
            self.h = np.minimum(h * np.maximum(factor, 0.2), self.problem.max_step)
            self.growth.fill(10.0)
        else:
            factor = np.where(error < np.inf, np.maximum(factor, 0.2), 0.1)
            self._advance_some(accepted, x_new, f_new, s_new, h * factor)
        outside, there = reach > self.limit, self.s >= self.end
        last = self.n_iterations >= self.problem.max_steps
        n_hit = 0 if hit is None else count_nonzero(hit)
        if last or n_rejected or n_hit or count_nonzero(there) or count_nonzero(outside):
            self._end_some(accepted, error, outside.any(axis=1), there, hit, last)

    def _error(self, reach):
        """Norm of the local error per row, relative to the tolerances."""
        scale = np.maximum(np.abs(self.x), reach)
        scale *= self.problem.rtol
        scale += self.atol
        estimates = np.vecdot(self.columns, self.pair.error)
        estimates /= scale
        return self.pair.error_norm(np.vecdot(estimates, estimates), self.x.shape[1])

    def _advance_some(self, accepted, x_new, f_new, s_new, h):
        """Take over the accepted rows; a rejected one may not lengthen its step next time."""
        np.copyto(self.x, x_new, where=accepted[:, None])
        np.copyto(self.f, f_new, where=accepted[:, None])
        self.s = np.where(accepted, s_new, self.s)
        self.h = np.minimum(h, self.problem.max_step)
        self.growth = np.where(accepted, 10.0, 1.0)

    def _end_some(self, accepted, error, outside, there, hit, last):
        """Find out which rows have ended, why, and let them leave."""
        status = np.full(len(self.rows), -1, dtype=np.int8)
        stuck = ~accepted & (self.h <= 4 * _EPS * np.maximum(self.s, self.shift))
        status[stuck] = np.where(error[stuck] < np.inf, Status.STEP_TOO_SMALL, Status.NON_FINITE)
        status[accepted & outside] = Status.LEFT_BOUNDS
        status[there] = Status.SUCCESS
        if hit is not None:
            status[hit] = Status.EVENT
        if last:
            status[status < 0] = Status.MAX_STEPS
        if (status >= 0).any():
            self._leave(status)

    def _leave(self, status):
        """Write down the rows whose status is not -1, and go on with the others."""
        gone, keep = status >= 0, status < 0
        rows = self.rows[gone]
        self.outcome.status[rows] = status[gone]
        self.outcome.s_stop[rows] = self.s[gone]
        self.outcome.x_stop[rows] = self.x[gone]
        self.outcome.n_steps[rows] = self.n_iterations
        for name in self._PER_ROW:
            setattr(self, name, getattr(self, name)[keep])
        if self.g is not None:
            self.g = self.g[:, keep]
        self._allocate()

    def _cross(self, accepted, x_new, s_new, h):
        """Locate events within the step and cut s_new and x_new back to terminal ones; which rows end?"""
        clock, watch = self.problem.clock, self.watch
        g_new = watch.values(clock.at(s_new, self.rows), x_new)
        changed = watch.changes(self.g, g_new) & accepted
        found = []
        for event in np.flatnonzero(changed.any(axis=1)):
            i = np.flatnonzero(changed[event])
            rows, s, step = self.rows[i], self.s[i], h[i]
            signed = (step * self.sign[i])[:, None]
            dense = _DenseOutput(self.pair, self.columns[i], self.problem.rhs(rows), signed)
            theta, states = watch.locate(
                event,
                dense,
                lambda theta, s=s, step=step, rows=rows: clock.at(s + theta * step, rows),
                self.g[event, i],
            )
            found += [(k, theta[j], event, states[j]) for j, k in enumerate(i)]
        self.g = np.where(accepted, g_new, self.g)
        hit = np.zeros(len(self.rows), dtype=bool)
        for k, theta, event, state in sorted(found, key=lambda entry: entry[:3]):
            if not hit[k]:
                s = self.s[k] + theta * h[k]
                row = self.rows[k]
                hit[k] = watch.note(row, clock.at(s, [row])[0], event, state)
                if hit[k]:
                    s_new[k], x_new[k] = s, state
        return hit

    def _record(self, accepted, s_new, h):
        """Keep the stages of steps within which states are wanted; these are computed later, together."""
        upto = self.problem.clock.reached(s_new, self.rows)
        wanted = accepted & (upto > self.sampled)
        n_wanted = np.count_nonzero(wanted)
        if n_wanted == 0:
            return
        segment = (self.rows, self.s, h, self.sign, self.columns, self.sampled, upto)
        if n_wanted < len(wanted):
            segment = tuple(part[wanted] for part in segment)
        else:
            segment = (*segment[:4], self.columns.copy(), *segment[5:])
        self.segments.append(segment)
        self.n_pending += n_wanted + int(np.add.reduce(segment[6] - segment[5]))
        self.sampled = np.where(wanted, upto, self.sampled)
        if self.n_pending > _PENDING_AT_MOST:
            self._write_samples()

    def _write_samples(self):
        """Compute the states wanted within the steps kept so far, with one field call per extra stage."""
        if not self.segments:
            return
        parts = zip(*self.segments, strict=True)
        rows, s, h, sign, columns, first, upto = (np.concatenate(part) for part in parts)
        dense = _DenseOutput(self.pair, columns, self.problem.rhs(rows), (h * sign)[:, None])
        count = upto - first
        segment = np.repeat(np.arange(len(rows)), count)
        sample = np.arange(len(segment)) + (first - np.cumsum(count) + count)[segment]
        rows = rows[segment]
        theta = (self.problem.clock.requested(rows, sample) - s[segment]) / h[segment]
        self.outcome.x[rows, sample] = dense(theta, segment)
        self.segments, self.n_pending = [], 0

    def _stages(self, h):
        """Fill the columns for signed steps h ``(n, 1)``; returns the new state and the field there."""
        vecdot, multiply, rhs, stage, flat = np.vecdot, np.multiply, self.rhs, self.stage, self.flat_stage
        self.columns[:, :, 0] = self.x
        multiply(self.f, h, out=self.columns[:, :, 1])
        for known, weights, column in self.plan[:-1]:
            vecdot(known, weights, out=flat)
            multiply(rhs(stage), h, out=column)
        known, weights, column = self.plan[-1]
        vecdot(known, weights, out=flat)
        x_new = stage.copy()
        f_new = np.array(rhs(stage), dtype=float)
        multiply(f_new, h, out=column)
        return x_new, f_new


def _rms(x):
    return np.sqrt(np.vecdot(x, x) / x.shape[1])


# -------------------------------------------------------------------- events


class _Watch:
    """The events, what they have seen, and when they stop a trajectory."""

    def __init__(self, events, n):
        self.events = events
        self.direction = np.array([float(getattr(g, "direction", 0)) for g in events])[:, None]
        self.allowed = [int(getattr(g, "terminal", True)) for g in events]
        self.counts = np.zeros((len(events), n), dtype=int)
        self.occurrences = []

    @classmethod
    def of(cls, events, n):
        events = () if events is None else (events,) if callable(events) else tuple(events)
        for g in events:
            if not callable(g):
                raise TypeError(f"simulate: expected functions g(t, x) as events, got {g!r}.")
        return cls(events, n)

    def values(self, t, x):
        """All event functions ``(E, n)``, or None if there are no events."""
        if not self.events:
            return None
        return np.array([self._value(g, t, x) for g in self.events])

    def changes(self, old, new):
        """Where a sign change that counts took place, ``(E, n)``."""
        rising = (old < 0) & (new >= 0) & (self.direction >= 0)
        return rising | ((old > 0) & (new <= 0) & (self.direction <= 0))

    def locate(self, event, state_at, time_at, before):
        """Bisect for a sign change of one event on r steps at once: theta ``(r,)`` and states ``(r, d)``."""
        low, high = np.zeros(len(before)), np.ones(len(before))
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            value = self._value(self.events[event], time_at(middle), state_at(middle))
            earlier = value * np.sign(before) > 0
            low, high = np.where(earlier, middle, low), np.where(earlier, high, middle)
        return high, state_at(high)

    def note(self, row, t, event, state):
        """Write down an occurrence; tells whether it ends the trajectory."""
        self.occurrences.append((int(row), float(t), int(event), state))
        self.counts[event, row] += 1
        return self.counts[event, row] == self.allowed[event]

    @staticmethod
    def _value(g, t, x):
        value = np.asarray(g(t, x), dtype=float)
        if value.shape != t.shape:
            raise ValueError(f"simulate: expected an event to return shape {t.shape}, got {value.shape}.")
        return value


# -------------------------------------------------------------------- stiff methods


_STIFF = {"radau": Radau, "lsoda": LSODA}


def _integrate_one_by_one(problem, solver_class, watch, progress):
    """One trajectory after the other with a solver of scipy."""
    outcome = _Outcome(problem)
    n = len(problem.x0)
    for row in range(n):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            # LSODA words its failures as warnings; the status says it.
            warnings.filterwarnings("ignore", category=UserWarning, module="scipy.integrate")
            _Single(problem, row, outcome, watch).finish(solver_class)
        if progress is not None:
            progress((row + 1) / n)
    return outcome


class _Single:
    """One trajectory under a solver of scipy."""

    def __init__(self, problem, row, outcome, watch):
        self.problem, self.row, self.outcome, self.watch = problem, row, outcome, watch
        self.field = problem.fields[problem.which[row]]
        clock = problem.clock
        self.sign = clock.sign[0 if len(clock.sign) == 1 else row]
        self.end = clock.end[0 if len(clock.end) == 1 else row]
        self.sampled = 1

    def finish(self, solver_class):
        """Integrate to the end and write down the outcome."""
        outcome, row, x0 = self.outcome, self.row, self.problem.x0[self.row]
        if self.end <= 0:
            return
        if not np.isfinite(self._rhs(0.0, x0)).all():
            outcome.status[row] = Status.NON_FINITE
            return
        solver = solver_class(
            self._rhs,
            0.0,
            x0,
            self.end,
            rtol=self.problem.rtol,
            atol=self.problem.atol[row],
            jac=self._jac,
            max_step=self.problem.max_step,
        )
        self.g = self.watch.values(self._time(np.zeros(1)), x0[None])
        status = None
        while status is None:
            outcome.n_steps[row] += 1
            status = self._step(solver)
        outcome.status[row] = status

    def _rhs(self, s, x):
        return self.sign * self.field._rhs(x[None])[0]

    def _jac(self, s, x):
        jac = self.sign * self.field._jac(x[None])[0]
        if not np.isfinite(jac).all():
            raise FloatingPointError
        return jac

    def _time(self, s):
        return self.problem.clock.at(s, [self.row])

    def _step(self, solver):
        """One step of the solver; the status if it was the last, else None."""
        try:
            solver.step()
        except FloatingPointError:
            return Status.NON_FINITE
        if solver.status == "failed" or not np.isfinite(solver.y).all():
            finite = np.isfinite(solver.y).all() and np.isfinite(self._rhs(solver.t, solver.y)).all()
            return Status.STEP_TOO_SMALL if finite else Status.NON_FINITE
        return self._accept(solver)

    def _accept(self, solver):
        outcome, row = self.outcome, self.row
        dense, s, x = solver.dense_output(), solver.t, solver.y
        hit = self._cross(solver.t_old, s, dense, x) if self.g is not None else None
        s, x = hit or (s, x)
        clock = self.problem.clock
        upto = int(clock.reached(np.array([s]), [row])[0])
        if upto > self.sampled:
            samples = np.arange(self.sampled, upto)
            outcome.x[row, samples] = dense(clock.requested(np.full(len(samples), row), samples)).T
            self.sampled = upto
        outcome.s_stop[row], outcome.x_stop[row] = s, x
        if hit:
            return Status.EVENT
        if solver.status == "finished":
            return Status.SUCCESS
        if (np.abs(x) > self.problem.limit[row]).any():
            return Status.LEFT_BOUNDS
        return Status.MAX_STEPS if outcome.n_steps[row] >= self.problem.max_steps else None

    def _cross(self, s_old, s_new, dense, x_new):
        """Locate events within the step; duration and state at the first terminal one, or None."""
        watch, step = self.watch, s_new - s_old
        g_new = watch.values(self._time(np.array([s_new])), x_new[None])
        found = []
        for event in np.flatnonzero(watch.changes(self.g, g_new)[:, 0]):
            theta, states = watch.locate(
                event,
                lambda theta: dense(s_old + theta * step).T,
                lambda theta: self._time(s_old + theta * step),
                self.g[event],
            )
            found.append((theta[0], event, states[0]))
        self.g = g_new
        for theta, event, state in sorted(found, key=lambda entry: entry[:2]):
            s = s_old + theta * step
            if watch.note(self.row, self._time(s)[0], event, state):
                return s, state
        return None


# -------------------------------------------------------------------- in and out


def _arranged(field, x0, t):
    """Fields, initial states ``(n, d)``, times, number of the field, and member (or None) per trajectory."""
    members = isinstance(field, EnsembleField)
    fields = [field] if isinstance(field, VectorField) else field
    if not isinstance(fields, list | tuple | EnsembleField) or not all(
        isinstance(f, VectorField) for f in fields
    ):
        raise TypeError(
            f"simulate: expected a VectorField, a list of them or an EnsembleField, got "
            f"{type(field).__name__}; wrap a function in CallableField, pass a fitted model's field_."
        )
    if not len(fields):
        raise ValueError("simulate: expected at least one field, got none.")
    x0, t = np.atleast_2d(np.asarray(x0)), _padded_times(t)
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


def _padded_times(t):
    """Times as one array; a list of arrays of different lengths is padded with NaN."""
    if isinstance(t, list | tuple) and len({np.size(row) for row in t}) > 1:
        rows = [np.asarray(row, dtype=float).ravel() for row in t]
        t = np.full((len(rows), max(map(len, rows))), np.nan)
        for padded, row in zip(t, rows, strict=True):
            padded[: len(row)] = row
    return np.asarray(t)


def _as_trajectories(solution, field, member, events):
    n_obs = np.isfinite(solution.t).sum(axis=1)
    coords = {"status": solution.status, "t_stop": solution.t_stop}
    if member is not None:
        coords["member"] = member
    simulated = Trajectories.from_arrays(
        [x[:n] for x, n in zip(solution.x, n_obs, strict=True)],
        [t[:n] for t, n in zip(solution.t, n_obs, strict=True)],
        state_names=field.state_names,
        coords=coords,
        units=None if field.context is None else _units(field),
    )
    return simulated if events is None else _with_occurrences(simulated, solution)


def _units(field):
    known = {"t", *field.state_names}
    return {name: unit for name, unit in field.context.units.items() if name in known}


def _with_occurrences(simulated, solution):
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
