"""How measurements scatter about states, as given equations were fitted with it: what a saved model holds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fim_dynsys.estimation.objective import Errors
from fim_dynsys.estimation.problem import Problem
from fim_dynsys.estimation.programs import TIME

SCATTER = "scatter"
"""Where a report has it."""


def written(
    problem: Problem, columns: Sequence[str], numbers: Mapping[str, float], levels: np.ndarray
) -> dict[str, list[Any]]:
    """Kind and scale of the errors of each state that was measured itself, unless all have one size.

    Parameters
    ----------
    problem : Problem
        That was fitted.
    columns : sequence of str
        What the columns of the data are.
    numbers : mapping
        Parameters, scales of errors among them.
    levels : ndarray (k,)
        Estimated scales of the columns, of logarithms where these scatter.
    """
    import sympy

    values = {sympy.Symbol(name, real=True): sympy.Float(float(value)) for name, value in numbers.items()}
    places = {sympy.Symbol(name, real=True): sympy.Symbol(f"x{i}") for i, name in enumerate(problem.states)}
    found: dict[str, list[Any]] = {}
    for column, level, own in zip(columns, levels, problem.observables, strict=False):
        if column not in problem.states:
            continue
        scale: Any = float(level)
        if own.scale_at >= 0:
            expression = problem.seen[own.scale_at].xreplace(values)
            if {s.name for s in expression.free_symbols} & {*problem.inputs, TIME}:
                continue
            scale = str(expression.xreplace(places))
        elif own.errors is Errors.NORMAL:
            continue
        found[column] = [own.errors.value, scale]
    return found


def deviations(report: Mapping[str, Any], names: Sequence[str], x: np.ndarray) -> np.ndarray:
    """Standard deviations of measurements about states (..., d); NaN where all have one size."""
    found = np.full(x.shape, np.nan)
    for j, (kind, scale) in _entries(report, names):
        size = np.abs(x[..., j])
        if kind is Errors.POISSON:
            found[..., j] = np.sqrt(np.maximum(size, 1.0))  # as wide where less than one is expected
        else:
            own = _at(scale, x) * (np.sqrt(2.0) if kind.is_laplace else 1.0)
            found[..., j] = own * size if kind.of_logarithm else np.abs(own)
    return found


def scattered(
    report: Mapping[str, Any], names: Sequence[str], x: np.ndarray, normal: np.ndarray, level: np.ndarray
) -> np.ndarray:
    """Measurements of states (..., d) by standard normal numbers; of those of one size with these levels."""
    own = deviations(report, names, x)
    measured = x + np.where(np.isfinite(own), own, level) * normal
    for j, (kind, scale) in _entries(report, names):
        if kind is Errors.POISSON:
            measured[..., j] = np.maximum(measured[..., j], 0.0)
            continue
        off = _at(scale, x) * (_laplace(normal[..., j]) if kind.is_laplace else normal[..., j])
        measured[..., j] = x[..., j] * np.exp(off) if kind.of_logarithm else x[..., j] + off
    return measured


def _laplace(normal: np.ndarray) -> np.ndarray:
    """Numbers of Laplace's distribution of scale 1, by standard normal ones."""
    from scipy.special import log_ndtr

    return -np.sign(normal) * (np.log(2.0) + log_ndtr(-np.abs(normal)))


def _entries(report: Mapping[str, Any], names: Sequence[str]) -> list[tuple[int, tuple[Errors, Any]]]:
    given = report.get(SCATTER, {})
    return [(list(names).index(name), (Errors(kind), scale)) for name, (kind, scale) in given.items()]


def _at(scale: str | float, x: np.ndarray) -> np.ndarray:
    if not isinstance(scale, str):
        return np.full(x.shape[:-1], scale)
    import sympy

    places = sympy.symbols(f"x:{x.shape[-1]}")
    evaluate = sympy.lambdify(places, sympy.sympify(scale), "numpy")
    return np.broadcast_to(np.asarray(evaluate(*np.moveaxis(x, -1, 0)), dtype=float), x.shape[:-1])
