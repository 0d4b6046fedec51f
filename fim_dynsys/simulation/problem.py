"""What is to be integrated, how accurately, and what has come of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.errors import real_array
from fim_dynsys.fields.base import StackedRates, VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.symbolic import SymbolicField

SMALLEST_RTOL = 100 * np.finfo(float).eps  # below, steps are rounding
_PROBES = 3  # points of each coordinate plane at which a rate that vanishes in it is zero
_LEAST = 1e-100  # of the absolute tolerance otherwise: states that keep their sign have a relative one


Progress = Callable[[float], object]
"""Called with the fraction of the work done."""


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
    OUT_OF_TIME = 6
    """The time allowed on the clock was up."""


FAILURES = frozenset(Status) - {Status.SUCCESS, Status.EVENT}
"""The statuses that mean that requested times were not reached for want of a solution."""
SPENT = frozenset({Status.MAX_STEPS, Status.OUT_OF_TIME})
"""The failures for want of steps or of time: a larger budget would go on."""


@dataclass(frozen=True)
class RequestedTimes:
    """Requested times as durations since the start, which always grow; the field does not know the time."""

    t: np.ndarray  # (1 or n, m), NaN in padding
    start: np.ndarray  # (1 or n,)
    sign: np.ndarray  # (1 or n,), -1 where time runs backwards
    grid: np.ndarray  # (1 or n, m), durations, infinite in padding
    end: np.ndarray  # (1 or n,)

    @classmethod
    def of(cls, t: ArrayLike, n: int) -> Self:
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

    def per_trajectory(self, n: int) -> np.ndarray:
        return np.broadcast_to(self.t, (n, self.t.shape[1]))

    def at(self, s: np.ndarray, rows: slice | Sequence[int] | np.ndarray = slice(None)) -> np.ndarray:
        """Times after durations s of all trajectories, or of the given ones."""
        if len(self.start) == 1:
            return self.start + self.sign * s
        return self.start[rows] + self.sign[rows] * s

    def requested(self, rows: np.ndarray, sample: np.ndarray) -> np.ndarray:
        """Durations until these samples of these trajectories."""
        return self.grid[0 if len(self.grid) == 1 else rows, sample]

    def reached(self, s: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """How many requested times lie at or before s, for the given trajectories."""
        if len(self.grid) == 1:
            return np.searchsorted(self.grid[0], s, side="right")
        return (self.grid[rows] <= s[:, None]).sum(axis=1)


@dataclass(frozen=True)
class InitialValueProblem:
    """What is to be integrated, and how accurately."""

    fields: tuple[VectorField, ...]
    which: np.ndarray  # (n,), number of the field of each trajectory
    stacked: StackedRates | None
    x0: np.ndarray
    times: RequestedTimes
    rtol: float
    atol: np.ndarray  # (n, d)
    limit: np.ndarray  # (n, d)
    max_steps: int
    max_step: float

    @classmethod
    def of(
        cls,
        fields: Sequence[VectorField],
        x0: ArrayLike,
        times: RequestedTimes,
        which: np.ndarray | None,
        rtol: float,
        atol: ArrayLike | None,
        escape: float,
        max_steps: int,
        max_step: float,
        floor: float = 1.0,
    ) -> Self:
        fields = tuple(fields)
        x0 = _checked_states(x0, fields[0].dim)
        which = _checked_numbers(which, fields, len(x0))
        length, unknown = _lengths(fields, which, x0)
        limit = escape * np.maximum(np.maximum(length, np.abs(x0)), unknown)
        kinds = {type(f) for f in fields}
        kind = kinds.pop() if len(kinds) == 1 else VectorField
        stacked = kind.stack(fields) if len(fields) > 1 else None
        if atol is None:
            kept = kept_signs(fields, stacked)[which]
            absolute = np.where(kept, _LEAST, floor) * rtol * length
        else:
            absolute = np.broadcast_to(_checked_atol(atol, x0.shape), x0.shape)
        return cls(fields, which, stacked, x0, times, rtol, absolute, limit, int(max_steps), float(max_step))

    def rhs(self, rows: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """The right-hand side for these trajectories, ``(len(rows), d) -> (len(rows), d)``."""
        if self.stacked is None:
            return self.fields[0]._rhs
        stacked, which = self.stacked, self.which[rows]
        return lambda x: stacked(x, which)


def _checked_states(x0: ArrayLike, dim: int) -> np.ndarray:
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


def _checked_numbers(which: np.ndarray | None, fields: Sequence[VectorField], n: int) -> np.ndarray:
    if which is None:
        if len(fields) not in (1, n):
            raise ValueError(f"simulate: expected one field or {n}, one per state, got {len(fields)}.")
        return np.zeros(n, dtype=int) if len(fields) == 1 else np.arange(n)
    return np.asarray(which)


def _checked_atol(atol: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    atol = real_array(atol, "simulate", "atol")
    if atol.shape not in ((), shape[1:], shape) or not ((atol >= 0) & (atol < np.inf)).all():
        raise ValueError(
            f"simulate: expected a finite atol >= 0, one number, {shape[1]} or {shape}, got {atol}."
        )
    return atol


def kept_signs(fields: Sequence[VectorField], stacked: StackedRates | None = None) -> np.ndarray:
    """States (fields, d) that never change their sign: whose rates vanish wherever they are zero.

    That is seen at a few points of each coordinate plane, and so costs one evaluation. None of fields without
    a formula, whose functions may be defined elsewhere alone.
    """
    n, d = len(fields), fields[0].dim
    if not isinstance(fields[0], DictionaryField | SymbolicField):
        return np.zeros((n, d), dtype=bool)
    which = np.repeat(np.arange(n), d * _PROBES)
    length = np.array([np.ones(d) if f.frame.length is None else f.frame.length for f in fields])
    points = np.random.default_rng(0).uniform(0.3, 3.0, (n, d, _PROBES, d)) * length[:, None, None]
    points[:, np.arange(d), :, np.arange(d)] = 0.0
    flat = points.reshape(-1, d)
    with np.errstate(all="ignore"):
        rates = fields[0]._rhs(flat) if stacked is None else stacked(flat, which)
    diagonal = np.asarray(rates).reshape(n, d, _PROBES, d)[:, np.arange(d), :, np.arange(d)]
    return (diagonal == 0.0).all(axis=-1).T


def _lengths(
    fields: Sequence[VectorField], which: np.ndarray, x0: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Length scale per trajectory and state ``(n, d)``, and 1 where no field knows it, else 0, ``(n, 1)``."""
    known = [f.frame.length for f in fields]
    largest = np.abs(x0).max(axis=1, keepdims=True)
    widths = np.where(largest > 0, largest, 1.0) * np.ones(x0.shape[1])
    unknown = np.array([length is None for length in known], dtype=float)[which][:, None]
    given = np.array([np.ones(x0.shape[1]) if length is None else length for length in known])[which]
    return np.where(unknown > 0, widths, given), unknown


class Outcome:
    """What is known of each trajectory so far."""

    def __init__(self, problem: InitialValueProblem):
        n, d = problem.x0.shape
        self.x = np.full((n, problem.times.grid.shape[1], d), np.nan)
        self.x[:, 0] = problem.x0
        self.status = np.zeros(n, dtype=np.int8)
        self.s_stop = np.zeros(n)
        self.x_stop = problem.x0.copy()
        self.n_steps = np.zeros(n, dtype=int)
        self.stiff = np.zeros(n, dtype=bool)  # left to an implicit method

    def blank_unreached(self, times: RequestedTimes) -> None:
        """Leave no state behind one that could not be evaluated, or behind the stop."""
        n, m, _ = self.x.shape
        grid = np.broadcast_to(times.grid, (n, m))
        wrong = ~np.isfinite(self.x).all(axis=2) & (grid <= self.s_stop[:, None])
        for row in np.flatnonzero(wrong.any(axis=1)):
            last = int(np.argmax(wrong[row])) - 1
            self.status[row], self.s_stop[row] = Status.NON_FINITE, grid[row, last]
            self.x_stop[row] = self.x[row, last]
        self.x[grid > self.s_stop[:, None]] = np.nan
