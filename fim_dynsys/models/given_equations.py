"""Given equations with inputs, with states that were not observed, or of counts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.symbolic import DrivenExpressions, SymbolicField, parameter_names, read_expressions
from fim_dynsys.regression.criteria import Noise
from fim_dynsys.regression.expression_fits import ExpressionProblem, slope_guesses
from fim_dynsys.regression.hidden import HiddenFit, HiddenProblem, fit_hidden
from fim_dynsys.regression.observed import Observations
from fim_dynsys.regression.thinning import MANY
from fim_dynsys.trajectories.container import Trajectories

if TYPE_CHECKING:
    from sympy import Expr

Expressions = Sequence[str] | Mapping[str, str]
"""Right-hand sides in the order of the states, or by their names."""


class Observed(NamedTuple):
    """What the columns of the data are, and the names of the states of the equations."""

    columns: tuple[str, ...]
    states: tuple[str, ...]


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
        who: str,
        given: Expressions,
        states: Sequence[str],
        inputs: Sequence[str],
        observed: Sequence[str],
    ) -> "Given":
        """As read; a ValueError that names ``who`` where there is not one right-hand side for each state."""
        texts = in_order(who, given, states)
        _, expressions = read_expressions(texts, [*states, *inputs])
        return cls(tuple(states), tuple(inputs), expressions, tuple(observed))

    @cached_property
    def _read(self) -> "tuple[tuple, tuple[Expr, ...]]":
        return read_expressions(self.observed, [*self.states, *self.inputs])

    @cached_property
    def names(self) -> list[str]:
        """The parameters, sorted."""
        symbols, seen = self._read
        return parameter_names([*self.expressions, *seen], symbols)

    def problem(self, observations: Observations, noise: Noise) -> HiddenProblem:
        """What is fitted."""
        d = len(self.states)
        symbols, seen = self._read
        states, inputs = symbols[:d], symbols[d:]
        return HiddenProblem(
            ExpressionProblem(self.expressions, states, inputs, self.names),
            ExpressionProblem(seen, states, inputs, self.names),
            observations,
            np.array([states.index(e) if e in states else -1 for e in seen]),
            noise,
        )

    def expected(self, parameters: Mapping[str, float]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """What is expected of the observations (n, m) at states (n, d) and inputs (n, k)."""
        symbols, seen = self._read
        own = ExpressionProblem(seen, symbols, (), self.names)
        values = np.array([parameters[name] for name in self.names])
        return lambda x, u: own.rhs(np.concatenate([x, u], axis=1), values)


def in_order(who: str, given: Expressions, states: Sequence[str]) -> list[str]:
    """The right-hand sides, one for each state, in the order of the states.

    Raises
    ------
    ValueError
        Where they are those of other states, or more or fewer.
    """
    if isinstance(given, str) or not isinstance(given, Mapping | Sequence):
        raise ValueError(f"{who}: expected a list of expressions or a dict by state, got {given!r}.")
    if isinstance(given, Mapping) and set(given) != set(states):
        raise ValueError(
            f"{who}: expected expressions of the states {', '.join(states)}, got those of "
            f"{', '.join(given)}; with observed=[...] not all need to be in the data."
        )
    texts = [given[name] for name in states] if isinstance(given, Mapping) else list(given)
    if len(texts) != len(states):
        raise ValueError(
            f"{who}: expected {len(states)} expressions, one per state ({', '.join(states)}), got "
            f"{len(texts)}."
        )
    return texts


def fitted_in_part(
    given: Given,
    trajectories: Trajectories,
    observations: Observations,
    noise: Noise,
    start: Mapping[str, float] | None,
) -> SymbolicField | DrivenExpressions:
    """Parameters and states by all trajectories together.

    Parameters
    ----------
    given : Given
        Right-hand sides.
    trajectories : Trajectories
        What was observed: the complete samples of trajectories of two or more.
    observations : Observations
        The same, scaled.
    noise : Noise
        What is assumed of their errors.
    start : mapping of str to float, optional
        Where parameters, and states that were not observed, start.

    Returns
    -------
    SymbolicField or DrivenExpressions
        Its context has the observed states, and the fitted ones where none were.
    """
    if int(np.sum(trajectories.n_obs)) > MANY:
        raise ValueError(
            f"SymbolicModel.fit: expected at most {MANY} samples with inputs, counts or hidden "
            "states, got more; leave some out."
        )
    problem, known = given.problem(observations, noise), dict(start or {})
    full = problem.direct.tolist() == list(range(len(given.states)))
    guesses = None
    if full:
        path = np.concatenate(observations.path) * observations.scale
        guesses = [(path.copy(), p) for p in slope_guesses(problem.rates, observations, known, 0)]
    fit = fit_hidden(problem, guesses, known, given.states)
    states = _states(given, trajectories, observations, fit)
    own_names = parameter_names(given.expressions, given._read[0])
    rows = [given.names.index(name) for name in own_names]
    parameters = {name: fit.parameters[name] for name in own_names}
    report = {
        "chosen": "given expressions",
        "score": fit.score,
        "status": fit.status.value,
        "covariance": fit.covariance[np.ix_(rows, rows)].tolist(),
        "noise": noise.value,
        "observed": list(given.observed),
        "observation_parameters": {n: v for n, v in fit.parameters.items() if n not in own_names},
        "observation_noise": observations.noise_level.tolist(),
        "undetermined": list(fit.undetermined),
        "start_errors": fit.start_errors.tolist(),
    }
    if fit.undetermined:
        report["note"] = f"the data do not determine {', '.join(fit.undetermined)}"
    starts = np.stack([x[0] for _, x in states.arrays()])
    info = FitInfo(
        initial_states=starts if np.isfinite(starts).all() else None,
        noise_level=observations.noise_level if full else None,
        report=report,
    )
    covariance = fit.covariance[np.ix_(rows, rows)]
    context = trajectories if full else states
    if given.inputs:
        return DrivenExpressions(
            given.expressions,
            parameters,
            covariance,
            input_names=given.inputs,
            context=context,
            fit_info=info,
        )
    return SymbolicField(given.expressions, parameters, covariance, context=context, fit_info=info)


def _states(
    given: Given, trajectories: Trajectories, observations: Observations, fit: HiddenFit
) -> Trajectories:
    """The fitted states at the samples, NaN at those between gaps that were left out."""
    pairs = trajectories.arrays()
    found = [np.full((len(t), len(given.states)), np.nan) for t, _ in pairs]
    for (trajectory, sample), path in zip(observations.origin, fit.paths, strict=True):
        found[trajectory][sample : sample + len(path)] = path
    return Trajectories.from_arrays(
        found,
        [t for t, _ in pairs],
        state_names=given.states,
        coords=trajectories.coords,
        u=trajectories.input_arrays() if given.inputs else None,
        input_names=given.inputs or None,
    )
