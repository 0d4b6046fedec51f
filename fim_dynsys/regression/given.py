"""Right-hand sides as given, of whose states not all need to be observed, and their fit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from fim_dynsys.fields.symbolic import parameter_names, read_expressions
from fim_dynsys.regression.criteria import Noise
from fim_dynsys.regression.expression_fits import ExpressionProblem, slope_guesses
from fim_dynsys.regression.hidden import HiddenFit, HiddenProblem, fit_hidden
from fim_dynsys.regression.observed import Observations
from fim_dynsys.regression.thinning import MANY
from fim_dynsys.trajectories.container import Trajectories

if TYPE_CHECKING:
    from sympy import Expr, Symbol

Expressions = Sequence[str] | Mapping[str, str]
"""Right-hand sides in the order of the states, or by their names."""


@dataclass(frozen=True)
class Given:
    """Right-hand sides, and what was observed of their states.

    Attributes
    ----------
    states, inputs : tuple of str
        Names.
    expressions : tuple of sympy.Expr
        One for each state.
    observed : tuple of str
        What the columns of the data are.
    """

    states: tuple[str, ...]
    inputs: tuple[str, ...]
    expressions: "tuple[Expr, ...]"
    observed: tuple[str, ...]

    @classmethod
    def of(
        cls,
        caller: str,
        given: Expressions,
        states: Sequence[str],
        inputs: Sequence[str],
        observed: Sequence[str],
    ) -> Self:
        """As read; a ValueError that names ``caller`` unless there is one right-hand side for each state."""
        texts = in_order(caller, given, states)
        _, expressions = read_expressions(texts, [*states, *inputs])
        return cls(tuple(states), tuple(inputs), expressions, tuple(observed)).checked(caller)

    def checked(self, caller: str) -> Self:
        """This; a ValueError that names ``caller`` where something observed is no function of the states."""
        for text, seen in zip(self.observed, self.seen, strict=True):
            if not set(self.state_symbols) & seen.free_symbols:
                raise ValueError(
                    f"{caller}: expected observed expressions of the states {', '.join(self.states)}, got "
                    f"{text!r}, which holds none."
                )
        return self

    @cached_property
    def _read(self) -> "tuple[tuple[Symbol, ...], tuple[Expr, ...]]":
        return read_expressions(self.observed, [*self.states, *self.inputs])

    @property
    def state_symbols(self) -> "tuple[Symbol, ...]":
        """The states, as in the expressions."""
        return self._read[0][: len(self.states)]

    @property
    def input_symbols(self) -> "tuple[Symbol, ...]":
        """The inputs, as in the expressions."""
        return self._read[0][len(self.states) :]

    @property
    def seen(self) -> "tuple[Expr, ...]":
        """What was observed, in the states, inputs and parameters."""
        return self._read[1]

    @cached_property
    def direct(self) -> np.ndarray:
        """The state that each column of the data is (m,), -1 where it is none."""
        states = self.state_symbols
        return np.array([states.index(e) if e in states else -1 for e in self.seen])

    @property
    def full(self) -> bool:
        """Whether all states were observed, as they are and in their order."""
        return self.direct.tolist() == list(range(len(self.states)))

    @cached_property
    def names(self) -> list[str]:
        """The parameters, sorted."""
        return parameter_names([*self.expressions, *self.seen], self._read[0])

    @cached_property
    def rates(self) -> ExpressionProblem:
        """The right-hand sides as functions."""
        return ExpressionProblem(self.expressions, self.state_symbols, self.input_symbols, self.names)

    def problem(self, observations: Observations, noise: Noise) -> HiddenProblem:
        """What is fitted."""
        seen = ExpressionProblem(self.seen, self.state_symbols, self.input_symbols, self.names)
        return HiddenProblem(self.rates, seen, observations, self.direct, noise)

    def fit(
        self,
        caller: str,
        trajectories: Trajectories,
        observations: Observations,
        noise: Noise,
        start: Mapping[str, float] | None = None,
    ) -> HiddenFit:
        """Parameters and all states, observed or not, by all trajectories together.

        Parameters
        ----------
        caller : str
            Named in errors.
        trajectories : Trajectories
            What was observed: the complete samples of trajectories of two or more.
        observations : Observations
            The same, scaled.
        noise : Noise
            What is assumed of the errors of the observations.
        start : mapping of str to float, optional
            Where parameters, and states that were not observed, start.

        Raises
        ------
        ValueError
            For more samples than are fitted one by one, or as `fit_hidden`.
        """
        if int(np.sum(trajectories.n_obs)) > MANY:
            raise ValueError(
                f"{caller}: expected at most {MANY} samples with inputs, counts or hidden states, got more; "
                "leave some out."
            )
        problem, known = self.problem(observations, noise), dict(start or {})
        guesses = None
        if self.full:
            path = np.concatenate(observations.path) * observations.scale
            guesses = [(path.copy(), p) for p in slope_guesses(problem.rates, observations, known, 0)]
        return fit_hidden(problem, guesses, known, self.states)

    def states_of(
        self, paths: Sequence[np.ndarray], trajectories: Trajectories, observations: Observations
    ) -> Trajectories:
        """Fitted states (n, d) of each piece at the samples, NaN at those between gaps that were left out.

        Parameters
        ----------
        paths : list of arrays (n, d)
            As fitted.
        trajectories, observations
            As for `fit`.
        """
        pairs = trajectories.arrays()
        found = [np.full((len(t), len(self.states)), np.nan) for t, _ in pairs]
        for (trajectory, sample), path in zip(observations.origin, paths, strict=True):
            found[trajectory][sample : sample + len(path)] = path
        return Trajectories.from_arrays(
            found,
            [t for t, _ in pairs],
            state_names=self.states,
            coords=trajectories.coords,
            u=trajectories.input_arrays() if self.inputs else None,
            input_names=trajectories.input_names if self.inputs else None,
        ).with_hold(trajectories.hold)

    def expected(self, parameters: Mapping[str, float]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """What is expected of the observations (n, m) at states (n, d) and inputs (n, k)."""
        problem = ExpressionProblem(self.seen, self._read[0], (), self.names)
        values = np.array([parameters[name] for name in self.names])
        return lambda x, u: problem.rhs(np.concatenate([x, u], axis=1), values)


def in_order(caller: str, given: Expressions, states: Sequence[str]) -> list[str]:
    """The right-hand sides, one for each state, in the order of the states.

    Raises
    ------
    ValueError
        Where they are those of other states, or more or fewer.
    """
    if isinstance(given, str) or not isinstance(given, Mapping | Sequence):
        raise ValueError(f"{caller}: expected a list of expressions or a dict by state, got {given!r}.")
    if isinstance(given, Mapping) and set(given) != set(states):
        raise ValueError(
            f"{caller}: expected expressions of the states {', '.join(states)}, got those of "
            f"{', '.join(given)}; with observed=[...] not all need to be in the data."
        )
    texts = [given[name] for name in states] if isinstance(given, Mapping) else list(given)
    if len(texts) != len(states):
        raise ValueError(
            f"{caller}: expected {len(states)} expressions, one per state ({', '.join(states)}), got "
            f"{len(texts)}."
        )
    return texts
