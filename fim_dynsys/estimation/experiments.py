"""Experiments: what happens in one run, and what was measured in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fim_dynsys.estimation.programs import Program, program
from fim_dynsys.regression.kernels import explicit, implicit
from fim_dynsys.regression.kernels.likelihood import follow_run
from fim_dynsys.regression.kernels.paths import DONE

if TYPE_CHECKING:
    from sympy import Expr

_BESIDE = 4.0  # units of rounding of the time, between a switch and the steps beside it

TABLES = (explicit.TABLE, implicit.TABLE)
"""Of both methods of integration."""


@dataclass(frozen=True)
class Event:
    """A sudden change of a state at a known time.

    Attributes
    ----------
    time : float
        When; a sample at the same time is taken before it.
    state : int
        Which.
    share, value : sympy.Expr
        In parameters: the share of the state that remains, and what is added to it.
    """

    time: float
    state: int
    share: "Expr"
    value: "Expr"


@dataclass(frozen=True, eq=False)
class InputCurve:
    """Inputs as pieces of cubics.

    Attributes
    ----------
    starts : array (P,)
        Where each piece begins; the first holds before, too.
    cubics : array (P, 4, m)
        Coefficients of powers of the time since then.
    """

    starts: np.ndarray
    cubics: np.ndarray

    @classmethod
    def none(cls) -> "InputCurve":
        """No inputs."""
        return cls(np.zeros(1), np.zeros((1, 4, 0)))

    def held_since(self, begin: float) -> "InputCurve":
        """The same, constant from an earlier time on."""
        before = np.zeros((1, *self.cubics.shape[1:]))
        before[0, 0] = self.cubics[0, 0]
        return InputCurve(
            np.append(begin, self.starts), np.ascontiguousarray(np.concatenate([before, self.cubics]))
        )

    def __call__(self, t: np.ndarray) -> np.ndarray:
        """Values (n, m) at times (n,)."""
        which = np.clip(np.searchsorted(self.starts, t, side="right") - 1, 0, None)
        s = (t - self.starts[which])[:, None]
        c = self.cubics[which]
        return c[:, 0] + s * (c[:, 1] + s * (c[:, 2] + s * c[:, 3]))


@dataclass(frozen=True, eq=False)
class Experiment:
    """One run.

    Attributes
    ----------
    times : array (K,)
        Increasing times at which the path is kept.
    stops, record, piece, first_event : arrays
        As `fim_dynsys.regression.kernels.paths.follow` takes them.
    events : tuple of Event
        Those that happen, in order.
    inputs : InputCurve
        Of all times.
    first : tuple of sympy.Expr
        States at the first stop, in the parameters.
    fixed : array (q,)
        Values of the parameters that are not estimated.
    place : int array (q,)
        The estimated number that each parameter is, -1 for none.
    rows, kinds : int arrays (N,)
        Sample and observable of each measurement.
    values, errors : arrays (N,)
        What was measured; standard deviations where they are known, else NaN.
    """

    times: np.ndarray
    stops: np.ndarray
    record: np.ndarray
    piece: np.ndarray
    first_event: np.ndarray
    events: tuple[Event, ...]
    inputs: InputCurve
    first: "tuple[Expr, ...]"
    fixed: np.ndarray
    place: np.ndarray
    rows: np.ndarray
    kinds: np.ndarray
    values: np.ndarray
    errors: np.ndarray

    @classmethod
    def of(
        cls,
        times: np.ndarray,
        begin: float,
        first: "Sequence[Expr]",
        events: Sequence[Event],
        inputs: InputCurve,
        fixed: np.ndarray,
        place: np.ndarray,
        measured: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
        switches: Sequence[float] = (),
    ) -> "Experiment":
        """An experiment from a time at which the states are known functions of the parameters.

        Parameters
        ----------
        times : array (K,)
            Of the samples, none before ``begin``.
        begin : float
            When it begins.
        first : sequence of sympy.Expr
            States then, in the parameters.
        events : sequence of Event
            Those before it begins do not happen.
        inputs : InputCurve
            Of all times.
        fixed, place
            See above.
        measured : arrays (N,)
            Rows, kinds, values and errors.
        switches : sequence of float
            Other times that the equations switch at.
        """
        last = max([begin, *times[-1:]])
        happen = sorted((e for e in events if begin <= e.time <= last), key=lambda e: e.time)
        # Steps end before a switch and go on behind it: all their stages lie on one side.
        apart, at = _BESIDE * np.spacing(max(abs(begin), abs(last))), np.array(switches)
        breaks = np.concatenate([inputs.starts, at - apart, at + apart])
        breaks = breaks[(breaks > begin) & (breaks < last)]
        stops = np.unique(np.concatenate([[begin], times, breaks, [e.time for e in happen]]))
        record = np.full(len(stops), -1)
        record[np.searchsorted(stops, times)] = np.arange(len(times))
        piece = np.clip(np.searchsorted(inputs.starts, stops, side="right") - 1, 0, None)
        first_event = np.searchsorted([e.time for e in happen], np.append(stops, np.inf), side="left")
        return cls(
            times,
            stops,
            record,
            piece,
            first_event,
            tuple(happen),
            inputs,
            tuple(first),
            fixed,
            place,
            *measured,
        )


@dataclass(frozen=True, eq=False)
class Path:
    """A computed path.

    Attributes
    ----------
    complete : bool
        Whether the end was reached.
    states : array (K, d)
        At the times of the samples.
    values : array (K, k)
        Of the observables there.
    tangent : array (K, k, n)
        Their derivatives by the parameters of ``columns``.
    columns : int array (n,)
        Estimated numbers that the derivatives are by.
    """

    complete: bool
    states: np.ndarray
    values: np.ndarray
    tangent: np.ndarray
    columns: np.ndarray


def machine(own: Program) -> tuple:
    """A program as the kernels take it."""
    return own.code, own.sizes, own.registers.copy(), own.values_at, own.by_state, own.by_parameter


def bounds_of(parts: Sequence[Sequence | np.ndarray]) -> np.ndarray:
    """Where each of several parts that are joined begins, and where the last one ends."""
    return np.cumsum([0, *map(len, parts)])


class Experiments:
    """Experiments side by side, as the kernels take them.

    Parameters
    ----------
    rates, seen : Program
        Right-hand sides, and observables.
    parameters : sequence of str
        All parameters.
    experiments : sequence of Experiment
        One or more.

    Attributes
    ----------
    programs, runs : tuple
        What the kernels take: the rates, observables and first states; and what each run has of its own.
    columns : list of int arrays (n,)
        Estimated numbers that each experiment depends on.
    """

    def __init__(
        self, rates: Program, seen: Program, parameters: Sequence[str], experiments: Sequence[Experiment]
    ) -> None:
        self.experiments = tuple(experiments)
        given: dict[Expr, int] = {}  # each expression once: the runs have most of them in common
        first = [[given.setdefault(f, len(given)) for f in e.first] for e in experiments]
        events = [event for e in experiments for event in e.events]
        shares = [given.setdefault(event.share, len(given)) for event in events]
        amounts = [given.setdefault(event.value, len(given)) for event in events]
        begun = program(tuple(given), (), (), tuple(parameters))
        self.programs = (machine(rates), machine(seen), machine(begun))
        self.columns, column = [], []
        for e in experiments:
            columns, own = np.unique(e.place[e.place >= 0], return_inverse=True)
            self.columns.append(columns)
            column.append(np.full(len(e.place), -1))
            column[-1][e.place >= 0] = own
        curves = {id(e.inputs): e.inputs for e in experiments}
        ends = dict(zip(curves, np.cumsum([len(c.starts) for c in curves.values()]), strict=True))
        curve_first = [[ends[id(e.inputs)] - len(e.inputs.starts), ends[id(e.inputs)]] for e in experiments]
        self.runs = (
            np.array([e.place for e in experiments], dtype=np.int64),
            np.array([e.fixed for e in experiments], dtype=float),
            np.array(column, dtype=np.int64),
            np.array(first, dtype=np.int64).reshape(len(experiments), -1),
            bounds_of([e.stops for e in experiments]),
            np.concatenate([e.stops for e in experiments]),
            np.concatenate([e.record for e in experiments]),
            np.concatenate([e.piece for e in experiments]),
            np.concatenate([e.first_event for e in experiments]),
            bounds_of([e.events for e in experiments]),
            np.array([event.state for event in events], dtype=np.int64),
            np.array(shares, dtype=np.int64),
            np.array(amounts, dtype=np.int64),
            np.array(curve_first, dtype=np.int64),
            np.concatenate([c.cubics for c in curves.values()]),
            np.concatenate([c.starts for c in curves.values()]),
            bounds_of([e.times for e in experiments]),
            np.concatenate([e.times for e in experiments]),
            np.concatenate([e.inputs(e.times) for e in experiments]),
        )

    def path(self, e: int, natural: np.ndarray, rtol: float, sensitivities: bool = True) -> Path:
        """The path of an experiment at estimated numbers in their own units.

        Parameters
        ----------
        e : int
            Which experiment.
        natural : array
            Estimated numbers.
        rtol : float
            Relative tolerance; see `fim_dynsys.regression.kernels.explicit.scales`.
        sensitivities : bool
            Whether derivatives are wanted.
        """
        columns = self.columns[e] if sensitivities else self.columns[e][:0]
        samples, d = len(self.experiments[e].times), self.programs[0][1][0]
        k, n = len(self.programs[1][3]), len(columns)
        states, slopes = np.full((samples, d), np.nan), np.zeros((samples, d, n))
        values, tangent = np.full((samples, k), np.nan), np.empty((samples, k, n))
        counts = np.zeros(3, dtype=np.int64)
        ended = follow_run(
            self.programs, TABLES, self.runs, e, natural, rtol, states, slopes, values, tangent, counts
        )
        return Path(ended == DONE, states, values, tangent, columns)
