"""Experiments: what happens in one run, and what was measured in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fim_dynsys.estimation.programs import Program, program
from fim_dynsys.regression.kernels import explicit, implicit
from fim_dynsys.regression.kernels.paths import DONE, follow, observe

if TYPE_CHECKING:
    from sympy import Expr

_TABLES = (explicit.TABLE, implicit.TABLE)
_STEPS = 20_000  # of one path, beside twice its stops: hopeless parameters are to fail soon


@dataclass(frozen=True)
class Event:
    """A sudden change of a state at a known time.

    Attributes
    ----------
    time : float
        When; a sample at the same time is taken before it.
    state : int
        Which.
    value : sympy.Expr
        Amount, in parameters.
    sets : bool
        Whether the state is set to the value; else raised by it.
    """

    time: float
    state: int
    value: "Expr"
    sets: bool = False


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
    stops, record, piece, first_event, event_state, event_sets : arrays
        As `fim_dynsys.regression.kernels.paths.follow` takes them.
    inputs : InputCurve
        Of all times.
    at_samples : array (K, 4, m)
        Inputs at the times, as `observe` takes them.
    given : Program
        First states, and amounts of the events, in the parameters.
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
    event_state: np.ndarray
    event_sets: np.ndarray
    inputs: InputCurve
    at_samples: np.ndarray
    given: Program
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
        parameters: Sequence[str],
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
        parameters, fixed, place
            Names of all, and see above.
        measured : arrays (N,)
            Rows, kinds, values and errors.
        switches : sequence of float
            Other times that steps end at.
        """
        happen = sorted((e for e in events if e.time >= begin), key=lambda e: e.time)
        last = max([begin, *times])
        happen = [e for e in happen if e.time <= last]
        breaks = np.concatenate([inputs.starts, switches])
        breaks = breaks[(breaks > begin) & (breaks < last)]
        stops = np.unique(np.concatenate([[begin], times, breaks, [e.time for e in happen]]))
        record = np.full(len(stops), -1)
        record[np.searchsorted(stops, times)] = np.arange(len(times))
        piece = np.clip(np.searchsorted(inputs.starts, stops, side="right") - 1, 0, None)
        first_event = np.searchsorted([e.time for e in happen], np.append(stops, np.inf), side="left")
        rows = np.zeros((len(times), 4, inputs.cubics.shape[2]))
        rows[:, 0] = inputs(times)
        given = program((*first, *(e.value for e in happen)), (), (), tuple(parameters))
        return cls(
            times,
            stops,
            record.astype(np.int64),
            piece.astype(np.int64),
            first_event.astype(np.int64),
            np.array([e.state for e in happen], dtype=np.int64),
            np.array([e.sets for e in happen], dtype=bool),
            inputs,
            rows,
            given,
            fixed,
            place,
            *measured,
        )

    @cached_property
    def sensitivities(self) -> tuple[np.ndarray, np.ndarray]:
        """Estimated numbers (n,) that derivatives are by; which of these each parameter is, -1 for none."""
        columns, own = np.unique(self.place[self.place >= 0], return_inverse=True)
        column = np.full(len(self.place), -1)
        column[self.place >= 0] = own
        return columns, column

    def parameters(self, natural: np.ndarray) -> np.ndarray:
        """All parameters (q,) at estimated ones in their own units."""
        return np.where(self.place >= 0, natural[self.place], self.fixed) if len(natural) else self.fixed


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
    state_slopes : array (K, d, n)
        Derivatives of the states.
    counts : array (3,)
        Explicit, implicit and rejected steps.
    """

    complete: bool
    states: np.ndarray
    values: np.ndarray
    tangent: np.ndarray
    columns: np.ndarray
    state_slopes: np.ndarray
    counts: np.ndarray


def machine(own: Program, parameters: np.ndarray) -> tuple:
    """A program as the kernels take it, with values (q,) of its parameters."""
    r = own.registers.copy()
    first = 1 + own.n_states + own.n_inputs
    r[first : first + own.n_parameters] = parameters
    return own.code, own.sizes, r, own.values_at, own.by_state, own.by_parameter


def follow_experiment(
    rates: Program,
    seen: Program,
    experiment: Experiment,
    natural: np.ndarray,
    rtol: float,
    sensitivities: bool = True,
) -> Path:
    """The path of an experiment at estimated parameters in their own units.

    Parameters
    ----------
    rates, seen : Program
        Right-hand sides, and observables.
    experiment : Experiment
        What happens.
    natural : array
        Estimated parameters.
    rtol : float
        Relative tolerance; see `fim_dynsys.regression.kernels.explicit.scales`.
    sensitivities : bool
        Whether derivatives are wanted.
    """
    p = experiment.parameters(natural)
    columns, column = experiment.sensitivities
    if not sensitivities:
        columns, column = columns[:0], np.full(len(p), -1)
    n, d, k = len(columns), rates.n_states, len(seen.values_at)
    count = len(experiment.given.values_at)
    begun, by = np.empty((1, count)), np.empty((1, count, n))
    still, nothing = np.zeros((1, 0)), np.zeros((1, 4, 0))
    start = machine(experiment.given, p)
    observe(start, column, np.zeros(1), nothing, still, np.zeros((1, 0, n)), begun, by)
    states = np.full((len(experiment.times), d), np.nan)
    slopes = np.zeros((len(experiment.times), d, n))
    counts = np.zeros(3, dtype=np.int64)
    ended = follow(
        machine(rates, p),
        _TABLES,
        column,
        begun[0, :d].copy(),
        by[0, :d].copy(),
        experiment.stops,
        experiment.record,
        experiment.piece,
        experiment.inputs.cubics,
        experiment.inputs.starts,
        experiment.first_event,
        experiment.event_state,
        experiment.event_sets,
        begun[0, d:].copy(),
        by[0, d:].copy(),
        rtol,
        np.full(d, 1e-300),
        _STEPS + 2 * len(experiment.stops),
        states,
        slopes,
        counts,
    )
    values = np.full((len(experiment.times), k), np.nan)
    tangent = np.empty((len(experiment.times), k, n))
    observe(
        machine(seen, p), column, experiment.times, experiment.at_samples, states, slopes, values, tangent
    )
    return Path(ended == DONE, states, values, tangent, columns, slopes, counts)
