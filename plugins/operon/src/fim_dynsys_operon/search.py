"""Genetic programming: right-hand sides of one state on the front of accuracy and length."""

from collections.abc import Sequence

import numpy as np
import pyoperon
import sympy
from pyoperon.sklearn import SymbolicRegressor

from fim_dynsys.fields.expressions import parse

_DIGITS = 12  # with which constants are handed over
_LOCAL_STEPS = 5  # of Levenberg-Marquardt on the constants of each individual


def front(
    states: np.ndarray,
    slopes: np.ndarray,
    symbols: Sequence[sympy.Symbol],
    vocabulary: str,
    *,
    max_length: int,
    population_size: int,
    generations: int,
    seed: int,
    max_seconds: int | None,
) -> list[sympy.Expr]:
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
    """
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
