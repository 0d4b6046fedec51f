"""Estimation problems: equations, runs in which something was measured, and what is known of the numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fim_dynsys.estimation.experiments import Event, Experiment, Experiments, InputCurve
from fim_dynsys.estimation.objective import Objective, Observable
from fim_dynsys.estimation.parameters import Parameter, ParameterSpace, Prior
from fim_dynsys.estimation.programs import Program, program

if TYPE_CHECKING:
    from sympy import Expr


@dataclass(frozen=True, eq=False)
class Run:
    """What happened in one experiment, and what was measured.

    Attributes
    ----------
    times : array (K,)
        Increasing times of the samples.
    begin : float
        When the states are those of `first`.
    first : tuple of sympy.Expr or None
        States then, in parameters; None where one is to be estimated.
    events : tuple of Event
        Sudden changes.
    inputs : InputCurve
        Of all times.
    rows, kinds, values, errors : arrays (N,)
        Sample, observable, value and, where known, standard deviation of each measurement, else NaN.
    overrides : dict
        What parameters are in this run: numbers, or names of estimated ones.
    guess : array (d,)
        First states to start the search from, NaN where there is none.
    measured : array (d,)
        The same without those that the user named.
    first_bounds, first_priors : dict
        Bounds and priors of estimated first states, by state.
    switches : tuple of float
        When the equations switch: steps of the integration end there.
    """

    times: np.ndarray
    begin: float
    first: "tuple[Expr | None, ...]"
    events: tuple[Event, ...]
    inputs: InputCurve
    rows: np.ndarray
    kinds: np.ndarray
    values: np.ndarray
    errors: np.ndarray
    overrides: Mapping[str, float | str] = field(default_factory=dict)
    guess: np.ndarray = field(default_factory=lambda: np.zeros(0))
    measured: np.ndarray = field(default_factory=lambda: np.zeros(0))
    first_bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    first_priors: Mapping[str, Prior] = field(default_factory=dict)
    switches: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Problem:
    """What is estimated from which runs.

    Attributes
    ----------
    states, inputs : tuple of str
        Names.
    equations : tuple of sympy.Expr
        Right-hand sides in ``t`` and the names of states, inputs and parameters.
    observables : tuple of Observable
        How each is measured.
    seen : tuple of sympy.Expr
        Their expectations, and scales of their errors.
    names : tuple of str
        All parameters.
    fixed : dict
        Those that are known.
    parameters : tuple of Parameter
        Estimated ones, starts of runs apart.
    runs : tuple of Run
        All.
    sizes : array (d,)
        Natural sizes of the states.
    of_errors : frozenset of str
        Parameters of the errors' scales alone.
    """

    states: tuple[str, ...]
    inputs: tuple[str, ...]
    equations: "tuple[Expr, ...]"
    observables: tuple[Observable, ...]
    seen: "tuple[Expr, ...]"
    names: tuple[str, ...]
    fixed: Mapping[str, float]
    parameters: tuple[Parameter, ...]
    runs: tuple[Run, ...]
    sizes: np.ndarray
    of_errors: frozenset[str] = frozenset()

    @cached_property
    def _local(self) -> tuple[str, ...]:
        """All parameters, and first states."""
        return (*self.names, *(f"{state}(0)" for state in self.states))

    @cached_property
    def rates(self) -> Program:
        """Right-hand sides."""
        return program(self.equations, self.states, self.inputs, self._local)

    @cached_property
    def observed(self) -> Program:
        """What is expected of the observables."""
        return program(self.seen, self.states, self.inputs, self._local)

    @property
    def has_named_starts(self) -> bool:
        """Whether the user named where a number, or a first state, begins."""
        return any(p.otherwise is not None for p in self.space.parameters)

    def first_name(self, state: int, run: int) -> str:
        """Name of an estimated first state."""
        number = f"[{run}]" if len(self.runs) > 1 else ""
        return f"{self.states[state]}(0){number}"

    @cached_property
    def space(self) -> ParameterSpace:
        """Estimated parameters, and then the estimated first states of each run."""
        found = list(self.parameters)
        for k, run in enumerate(self.runs):
            for i, first in enumerate(run.first):
                if first is None:
                    low, high = run.first_bounds.get(self.states[i], (-np.inf, np.inf))
                    prior = run.first_priors.get(self.states[i])
                    guess = run.guess[i] if len(run.guess) else np.nan
                    start = float(guess) if np.isfinite(guess) else None
                    size = float(self.sizes[i])
                    own = Parameter(self.first_name(i, k), low, high, size=size, prior=prior, start=start)
                    seen = run.measured[i] if len(run.measured) else guess
                    if not np.array_equal(seen, guess, equal_nan=True):
                        other = replace(own, start=float(seen) if np.isfinite(seen) else None)
                        own = replace(own, otherwise=other)
                    found.append(own)
        return ParameterSpace(found)

    @cached_property
    def objective(self) -> Objective:
        """Minus the logarithm of likelihood and prior."""
        import sympy

        place_of = {name: k for k, name in enumerate(self.space.names)}
        experiments = []
        for number, run in enumerate(self.runs):
            fixed, place = np.zeros(len(self._local)), np.full(len(self._local), -1, dtype=np.int64)
            for k, name in enumerate(self.names):
                value = run.overrides.get(name, self.fixed.get(name, name))
                if isinstance(value, str) and value in place_of:
                    place[k] = place_of[value]
                else:
                    fixed[k] = self.fixed[value] if isinstance(value, str) else value
            first = []
            for i, given in enumerate(run.first):  # numbers are parameters: all runs share one program
                k = len(self.names) + i
                if given is None:
                    place[k] = place_of[self.first_name(i, number)]
                elif given.is_number:
                    fixed[k] = float(given)
                own = given is None or given.is_number
                first.append(sympy.Symbol(self._local[k], real=True) if own else given)
            measured = (run.rows, run.kinds, run.values, run.errors)
            experiments.append(
                Experiment.of(
                    run.times,
                    run.begin,
                    first,
                    run.events,
                    run.inputs,
                    fixed,
                    place,
                    measured,
                    run.switches,
                )
            )
        together = Experiments(self.rates, self.observed, self._local, experiments)
        return Objective(together, self.observables, self.space)

    @cached_property
    def errors_are_estimated(self) -> np.ndarray:
        """Of which measurements (N,) the size of the errors is estimated, by themselves or as a parameter."""
        own = self.of_errors & set(self.space.names)
        named = [
            o.scale_at >= 0 and any(s.name in own for s in self.seen[o.scale_at].free_symbols)
            for o in self.observables
        ]
        return self.objective.estimated | np.array(named, dtype=bool)[self.objective.kinds]

    @property
    def n_of_paths(self) -> int:
        """The number of estimated numbers beside those that are scales of errors alone."""
        return sum(name not in self.of_errors for name in self.space.names)

    def is_saturated(self, n_held: int = 0) -> bool:
        """Whether nothing tells the size of the errors, none of which is known.

        Then there are no more measurements and priors than estimated numbers; ``n_held`` of these are known.
        """
        free = self.n_of_paths - n_held
        return bool(free > 0 and self.errors_are_estimated.all()) and (
            self.objective.n + self.space.n_priors <= free
        )

    def with_runs(self, runs: Sequence[Run]) -> "Problem":
        """The same with other runs."""
        return replace(self, runs=tuple(runs))


def piece(run: Run, first_row: int, last_row: int, start: np.ndarray, estimated: bool) -> Run:
    """A part of a run, from one sample to another, from states of its own.

    Parameters
    ----------
    run : Run
        Of which.
    first_row, last_row : int
        Samples, both of them part of it.
    start : array (d,)
        States at the first.
    estimated : bool
        Whether these are estimated, or known.
    """
    import sympy

    chosen = (run.rows >= first_row) & (run.rows <= last_row)
    known = tuple(None if estimated else sympy.Float(float(v)) for v in start)
    return replace(
        run,
        times=run.times[first_row : last_row + 1],
        begin=float(run.times[first_row]),
        first=known,
        rows=run.rows[chosen] - first_row,
        kinds=run.kinds[chosen],
        values=run.values[chosen],
        errors=run.errors[chosen],
        guess=start,
        measured=start,
        first_bounds=run.first_bounds if first_row == 0 else {},
        first_priors=run.first_priors if first_row == 0 else {},
    )
