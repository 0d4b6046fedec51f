"""Genetic programming per state, structures chosen and constants fitted on the trajectories."""

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import sympy

from fim_dynsys.analyze.results import progress_bar
from fim_dynsys.errors import FitError
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.symbolic import SymbolicField, parameter_names
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.regression.expression_fits import ExpressionFit, fit_expressions
from fim_dynsys.regression.observed import Observations, complete_samples, observe
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys_operon.engine import front
from fim_dynsys_operon.sums import RightHandSide, matched, split, structure
from fim_dynsys_operon.terms import with_parameters

_MOST_SAMPLES = 500  # that genetic programming sees, evenly spaced among all
_SEARCH_SHARE = 0.6  # of the time, for genetic programming; the rest is for fits


class Operon(VectorFieldModel):
    """Symbolic regression by genetic programming: Operon on smoothed slopes, one state at a time.

    Of each front of accuracy and length, every member is expanded into terms and thinned by matching
    integrals. The best few of each state are combined, and the constants of each combination are fitted to
    the trajectories; the one of the smallest BIC is the answer.

    Parameters
    ----------
    symbols : str
        Functions of a first search, by Operon's names.
    functions : str
        Further ones that a second search has besides; empty for no second search.
    max_length : int
        Largest number of nodes of an expression.
    population_size, generations : int
        Of each search.
    candidates : int
        Structures of each state that are fitted to the trajectories.
    seed : int
        Of the genetic programming.
    max_seconds : float, optional
        Wall-clock time after which the best so far is the answer; None for no limit.
    progress : bool, optional
        Whether to show a progress bar; default on a terminal.

    References
    ----------
    B. Burlacu, G. Kronberger, M. Kommenda, Operon C++: an efficient genetic programming framework for
    symbolic regression, GECCO 2020 companion, 1562.
    """

    name = "operon"
    version = "1"
    min_observations = 10

    def __init__(
        self,
        symbols: str = "add,sub,mul",
        functions: str = "div,sin,exp",
        max_length: int = 30,
        population_size: int = 500,
        generations: int = 50,
        candidates: int = 3,
        seed: int = 0,
        max_seconds: float | None = 300.0,
        progress: bool | None = None,
    ) -> None:
        self.symbols = symbols
        self.functions = functions
        self.max_length = max_length
        self.population_size = population_size
        self.generations = generations
        self.candidates = candidates
        self.seed = seed
        self.max_seconds = max_seconds
        self.progress = progress

    def infer(self, trajectories: Trajectories) -> VectorField:
        """Search each state, then fit the constants of the best combinations to all trajectories."""
        end = math.inf if self.max_seconds is None else time.perf_counter() + self.max_seconds
        observations = observe(complete_samples(trajectories, self._caller, self.min_observations))
        symbols = sympy.symbols([f"x{i}" for i in range(trajectories.dim)], real=True)
        sides = self._searched(observations, symbols, end)
        fitted = self._chosen(sides, observations, symbols, trajectories.state_names, end)
        return self._field(*fitted, observations, trajectories)

    # ------------------------------------------------------------------ search

    def _searched(
        self, observations: Observations, symbols: Sequence[sympy.Symbol], end: float
    ) -> list[list[RightHandSide]]:
        """The best few right-hand sides of each state."""
        states, slopes = (np.concatenate(part) for part in zip(*observations.splines, strict=True))
        rows = np.unique(np.linspace(0, len(states) - 1, _MOST_SAMPLES).astype(int))
        still = RightHandSide((), (), math.inf)
        found: list[dict[str, RightHandSide]] = [{} for _ in symbols]
        vocabularies = [self.symbols, *([f"{self.symbols},{self.functions}"] if self.functions else [])]
        left = len(vocabularies) * len(symbols)
        search_end = (
            end - (1.0 - _SEARCH_SHARE) * max(end - time.perf_counter(), 0.0) if end < math.inf else end
        )
        with progress_bar(self.progress, left, self._caller, "searches") as bar:
            for vocabulary in vocabularies:
                for i in range(len(symbols)):
                    now = time.perf_counter()
                    share = (search_end - now) / left
                    left -= 1
                    bar.update()
                    # Operon counts whole seconds
                    if end - now < 1.0 or (share < 1.0 and found[i]):
                        continue
                    expressions = front(
                        states[rows],
                        slopes[rows, i],
                        symbols,
                        vocabulary,
                        max_length=self.max_length,
                        population_size=self.population_size,
                        generations=self.generations,
                        seed=self.seed,
                        max_seconds=None if math.isinf(share) else max(int(share), 1),
                    )
                    for expression in expressions:
                        terms = split(expression)
                        side = None if terms is None else matched(terms, symbols, i, observations)
                        if side is not None:
                            known = found[i].get(structure(side), still)
                            found[i][structure(side)] = min(side, known, key=lambda s: s.score)
        if not all(found):
            raise FitError(
                f"{self._caller}: expected a right-hand side for each of {len(symbols)} states, got them for "
                f"{sum(map(bool, found))} within {self.max_seconds} s; allow more time (max_seconds) or give "
                "more samples."
            )
        return [sorted(sides.values(), key=lambda s: s.score)[: self.candidates] for sides in found]

    # ------------------------------------------------------------------ choice

    def _chosen(
        self,
        sides: list[list[RightHandSide]],
        observations: Observations,
        symbols: Sequence[sympy.Symbol],
        names: Sequence[str],
        end: float,
    ) -> tuple[ExpressionFit, tuple[sympy.Expr, ...], int]:
        """The combination of smallest BIC: the best sides, then one of them replaced at a time."""
        prefix = "c"
        while any(name.startswith(prefix) for name in names):
            prefix += "c"
        best: tuple[ExpressionFit, tuple[sympy.Expr, ...]] | None = None
        current, tried = [of_state[0] for of_state in sides], 0
        changes = [(i, side) for i, of_state in enumerate(sides) for side in of_state[1:]]
        with progress_bar(self.progress, 1 + len(changes), self._caller, "fits") as bar:
            for i, side in [(0, sides[0][0]), *changes]:
                left = end - time.perf_counter()
                if best is not None and left <= 0.0:
                    break
                tried += 1
                combination = [*current[:i], side, *current[i + 1 :]]
                expressions, start = with_parameters(
                    combination, symbols, observations.scale, observations.time_unit, prefix
                )
                fit = self._fit(expressions, symbols, observations, start, left)
                if fit is not None and (best is None or fit.score < best[0].score):
                    best, current = (fit, expressions), combination
                bar.update()
        if best is None:
            raise FitError(
                f"{self._caller}: expected right-hand sides that follow the trajectories, got {tried} "
                "combinations that diverge; give more samples, or other symbols."
            )
        return *best, tried

    def _fit(
        self,
        expressions: tuple[sympy.Expr, ...],
        symbols: Sequence[sympy.Symbol],
        observations: Observations,
        start: dict[str, float],
        seconds: float,
    ) -> ExpressionFit | None:
        limit = None if math.isinf(seconds) else max(seconds, 0.0)
        try:
            fit = fit_expressions(expressions, tuple(symbols), observations, start, time_limit=limit)
        except ValueError:  # nowhere finite on the data
            return None
        finite = np.isfinite(list(fit.parameters.values())).all() and math.isfinite(fit.score)
        return fit if finite else None

    # ------------------------------------------------------------------ the field

    def _field(
        self,
        fit: ExpressionFit,
        expressions: tuple[sympy.Expr, ...],
        tried: int,
        observations: Observations,
        trajectories: Trajectories,
    ) -> SymbolicField:
        complete = len(observations.first) == len(trajectories)
        starts = observations.initial_states(fit.starts) * observations.scale
        info = FitInfo(
            initial_states=starts if complete else None,
            noise_level=observations.noise_level,
            report={"score": fit.score, "status": fit.status.value, "combinations": tried},
        )
        return SymbolicField(expressions, fit.parameters, context=trajectories, fit_info=info)

    def _refit_member(self, field: VectorField, context: Trajectories) -> VectorField:
        """The constants fitted anew, the structure kept."""
        assert isinstance(field, SymbolicField)
        observations = observe(complete_samples(context, self._caller, 2))
        symbols = sympy.symbols([f"x{i}" for i in range(field.dim)], real=True)
        expressions = tuple(field.expressions)
        start = {name: field.parameters[name] for name in parameter_names(expressions, symbols)}
        fit = self._fit(expressions, symbols, observations, start, math.inf)
        if fit is None:
            raise FitError(
                f"{self._caller}.ensemble: expected a resample that the structure can be fitted to, got one "
                "where it diverges; fit to more samples."
            )
        return self._field(fit, expressions, 1, observations, context)

    def _symbolic_field(self) -> Any:
        return self._fitted_field()
