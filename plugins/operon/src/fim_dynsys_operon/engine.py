"""Genetic programming by Operon: right-hand sides of one state."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fim_dynsys.fields.expressions import parse

if TYPE_CHECKING:
    from sympy import Expr, Symbol

_DIGITS = 12  # with which constants are handed over
_LOCAL_STEPS = 5  # of Levenberg-Marquardt on the constants of each individual


@dataclass(frozen=True)
class GeneticEffort:
    """Amounts of genetic programming, for each state.

    Attributes
    ----------
    vocabularies : tuple of str
        Operon's functions in each search; those that occur together in textbooks.
    max_length : int
        Largest number of nodes of an expression.
    population_size, generations : int
        Of each search.
    kept : int
        Right-hand sides of each state that are fitted to noisy trajectories.
    """

    vocabularies: tuple[str, ...]
    max_length: int
    population_size: int
    generations: int
    kept: int

    @property
    def searches(self) -> int:
        """Of each state."""
        return len(self.vocabularies)


GENETIC = GeneticEffort(
    ("add,sub,mul,div", "add,sub,mul,div,exp", "add,sub,mul,sin,cos,tanh"),
    max_length=30,
    population_size=1000,
    generations=70,
    kept=8,
)
"""Of `auto` where minutes are allowed."""


def front(
    states: np.ndarray,
    slopes: np.ndarray,
    symbols: "Sequence[Symbol]",
    vocabulary: str,
    *,
    max_length: int,
    population_size: int,
    generations: int,
    seed: int,
    max_seconds: int | None,
) -> "list[Expr]":
    """Expressions of slopes (n,) in states (n, d) that no other is both shorter and better than.

    NSGA-II over R2 and length.

    Parameters
    ----------
    states, slopes : arrays (n, d), (n,)
        Samples.
    symbols : sequence of sympy.Symbol
        What the columns of the states are called in the expressions.
    vocabulary : str
        Operon's names of functions, separated by commas.
    max_length, population_size, generations : int
        Operon's settings.
    seed : int
        Equal seeds give equal expressions, as long as time does not run out.
    max_seconds : int, optional
        After which Operon stops.

    References
    ----------
    B. Burlacu, G. Kronberger, M. Kommenda, Operon C++: an efficient genetic programming framework for
    symbolic regression, GECCO 2020 companion, 1562.
    """
    import pyoperon
    from pyoperon.sklearn import SymbolicRegressor

    regressor = SymbolicRegressor(
        allowed_symbols=f"{vocabulary},constant,variable",
        objectives=["r2", "length"],
        optimizer_iterations=_LOCAL_STEPS,
        max_length=max_length,
        population_size=population_size,
        generations=generations,
        random_state=seed,
        max_time=max_seconds,
        n_threads=1,
    ).fit(states, slopes)
    # Operon names the columns X1, X2, ...
    known = {f"X{k + 1}": symbol for k, symbol in enumerate(symbols)}
    found = sorted(regressor.pareto_front_, key=lambda member: member["length"])
    texts = [pyoperon.InfixFormatter.Format(m["tree"], regressor.variables_, _DIGITS) for m in found]
    return [parse(text, known) for text in texts]
