"""Right-hand sides with free constants, in the units of the data."""

from collections.abc import Sequence

import numpy as np
import sympy

from fim_dynsys_operon.sums import RightHandSide, numbers


def with_parameters(
    sides: Sequence[RightHandSide],
    symbols: Sequence[sympy.Symbol],
    scale: np.ndarray,
    time_unit: float,
    prefix: str,
) -> tuple[tuple[sympy.Expr, ...], dict[str, float]]:
    """Right-hand sides in the units of the data, numbers replaced by parameters, and these numbers.

    Parameters
    ----------
    sides : sequence of RightHandSide
        One for each state.
    symbols : sequence of sympy.Symbol
        The states.
    scale : array (d,)
        Units of the states.
    time_unit : float
        Unit of time.
    prefix : str
        Parameters are called prefix0, prefix1, ...
    """
    units = {s: s / float(unit) for s, unit in zip(symbols, scale, strict=True)}
    values: dict[str, float] = {}
    whole = []
    for side, unit in zip(sides, scale, strict=True):
        total = sympy.Integer(0)
        for coefficient, term in zip(side.coefficients, side.terms, strict=True):
            factor, rest = sympy.sympify(term.xreplace(units)).as_coeff_Mul()
            name = f"{prefix}{len(values)}"
            values[name] = float(coefficient * factor * unit / time_unit)
            for value in numbers(rest):
                inner = f"{prefix}{len(values)}"
                rest = rest.xreplace({value: sympy.Symbol(inner, real=True)})
                values[inner] = float(value)
            total += sympy.Symbol(name, real=True) * rest
        whole.append(total)
    return tuple(whole), values
