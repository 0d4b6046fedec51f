"""From expressions to terms of a dictionary: a monomial times one textbook function of one or two states."""

import math
from collections.abc import Sequence

import numpy as np
import sympy
from sympy.simplify.fu import TR8

from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.terms import Term
from fim_dynsys.search.functions.families import INNER, SECOND, SHIFT, Function
from fim_dynsys_operon.sums import split

Row = tuple[Term, tuple[int, ...]]
"""A term, and the slots of its function whose numbers are to be fitted."""

_NONE = Function(Kind.MONOMIAL, 0)  # no function: a monomial alone
_WHOLE = 1e-6  # exponents so near a whole number are it
_HIGHEST = 8  # power of a state


def translated(
    expression: sympy.Expr, symbols: Sequence[sympy.Symbol], positive: np.ndarray
) -> list[Row] | None:
    """The terms of an expanded expression, without their coefficients; None where one of them cannot be said.

    Parameters
    ----------
    expression : sympy.Expr
        Of the symbols and numbers.
    symbols : sequence of sympy.Symbol
        The states.
    positive : bool array (d,)
        Whether each state is so at all samples: roots and powers that are not whole are of such states.
    """
    terms = split(TR8(expression) if expression.has(sympy.sin, sympy.cos) else expression)
    rows: dict[Term | tuple, Row] = {}
    for term in terms or ():
        said = _of_product(term, tuple(symbols), positive)
        if said is None:
            return None
        for powers, function, free in said:
            row: Row = (([*powers], *function), free)
            rows[(*powers, *function)] = row
    return None if terms is None else list(rows.values())


def _of_product(
    term: sympy.Expr, symbols: tuple[sympy.Symbol, ...], positive: np.ndarray
) -> list[tuple[tuple[int, ...], Function, tuple[int, ...]]] | None:
    powers = [0] * len(symbols)
    functions = []
    for factor in sympy.Mul.make_args(term):
        base, exponent = factor.as_base_exp()
        if factor.is_number:
            continue
        if base in symbols and exponent.is_number and exponent > 0 and _whole(exponent) is not None:
            powers[symbols.index(base)] += _whole(exponent) or 0
        else:
            functions.append(factor)
    if len(functions) > 1 or max(powers) > _HIGHEST:
        return None
    if not functions:
        return [((*powers,), _NONE, ())]
    found = _of_function(functions[0], symbols, positive)
    return None if found is None else [_joined(powers, function, free) for function, free in found]


def _joined(
    powers: list[int], function: Function, free: tuple[int, ...]
) -> tuple[tuple[int, ...], Function, tuple[int, ...]]:
    """A monomial and a function, ``x / (1 + k x)`` as one of the two."""
    exponents, kind, coordinate = list(powers), function.kind, function.coordinate
    order = 1 if kind == Kind.RECIPROCAL else round(function.second)
    alone = function.partner < 0
    if alone and kind in (Kind.RECIPROCAL, Kind.INHIBITION) and exponents[coordinate] >= order:
        exponents[coordinate] -= order
        function = function._replace(kind=Kind.HILL if kind == Kind.RECIPROCAL else Kind.SATURATION)
    return (*exponents,), function, free


def _of_function(
    factor: sympy.Expr, symbols: tuple[sympy.Symbol, ...], positive: np.ndarray
) -> list[tuple[Function, tuple[int, ...]]] | None:
    """Functions of which the factor is a linear combination, and their free slots."""
    if isinstance(factor, sympy.exp):
        return _gaussian(factor.args[0], symbols) or _of_sum(Kind.EXP, factor.args[0], symbols)
    if isinstance(factor, sympy.sin | sympy.cos):
        found = _of_sum(Kind.SIN, factor.args[0], symbols)
        if found is None:
            return None
        function, free = found[0]
        kinds = (Kind.SIN, Kind.COS) if factor.args[0].as_coeff_Add()[0] else _KINDS[factor.func]
        return [(function._replace(kind=kind), free) for kind in kinds]
    if isinstance(factor, sympy.tanh):
        return _sigmoid(factor.args[0], symbols)
    if isinstance(factor, sympy.log):
        return _logarithm(factor.args[0], symbols)
    base, exponent = factor.as_base_exp()
    if not exponent.is_number or not exponent.is_real:
        return None
    if base in symbols:
        coordinate, whole = symbols.index(base), _whole(exponent)
        if whole is None and not positive[coordinate]:
            return None
        given = whole is not None or _whole(6 * exponent) is not None
        free = () if given else (SECOND,)
        return [(Function(Kind.POWER, coordinate, 1.0, float(exponent if whole is None else whole)), free)]
    order = _whole(-exponent)
    if order not in (1, 2) or not base.is_Add:
        return None
    if order == 1 and base.has(sympy.exp):
        return _logistic(base, symbols)
    return _reciprocal(base, order, symbols, positive)


_KINDS = {sympy.sin: (Kind.SIN,), sympy.cos: (Kind.COS,)}


def _linear(
    argument: sympy.Expr, symbols: tuple[sympy.Symbol, ...]
) -> tuple[list[tuple[int, float]], float] | None:
    """Factors of one or two states, and the shift, of an argument that is linear in them."""
    shift, rest = argument.as_coeff_Add()
    factors = []
    for part in sympy.Add.make_args(rest):
        factor, symbol = part.as_coeff_Mul()
        if symbol not in symbols or not factor.is_real:
            return None
        factors.append((symbols.index(symbol), float(factor)))
    return (sorted(factors), float(shift)) if len(factors) <= 2 and shift.is_real else None


def _of_sum(
    kind: Kind, argument: sympy.Expr, symbols: tuple[sympy.Symbol, ...]
) -> list[tuple[Function, tuple[int, ...]]] | None:
    """A function of one or two states, whatever the shift of its argument."""
    linear = _linear(argument, symbols)
    if linear is None:
        return None
    (first, inner), *other = linear[0]
    if other:
        return [(Function(kind, first, inner, other[0][1], other[0][0]), (INNER, SECOND))]
    return [(Function(kind, first, inner), (INNER,))]


def _gaussian(
    argument: sympy.Expr, symbols: tuple[sympy.Symbol, ...]
) -> list[tuple[Function, tuple[int, ...]]] | None:
    """``exp`` of a square of one state with a negative factor."""
    states = argument.free_symbols & set(symbols)
    if len(states) != 1 or not argument.is_polynomial(*states):
        return None
    (state,) = states
    square, factor, *_ = (float(value) for value in sympy.Poly(argument, state).all_coeffs())
    if sympy.degree(argument, state) != 2 or square >= 0.0:
        return None
    inner = math.sqrt(-square)
    shift = -0.5 * factor / inner
    function = Function(Kind.GAUSSIAN, symbols.index(state), inner, shift)
    return [(function, (INNER, SECOND) if shift else (INNER,))]


def _sigmoid(
    argument: sympy.Expr, symbols: tuple[sympy.Symbol, ...]
) -> list[tuple[Function, tuple[int, ...]]] | None:
    linear, found = _linear(argument, symbols), _of_sum(Kind.TANH, argument, symbols)
    if linear is None or found is None or not linear[1]:
        return found
    (function, free), slot = found[0], SECOND if len(linear[0]) == 1 else SHIFT
    return [(function.with_number(slot, linear[1]), (*free, slot))]


def _logarithm(
    argument: sympy.Expr, symbols: tuple[sympy.Symbol, ...]
) -> list[tuple[Function, tuple[int, ...]]] | None:
    """``log(a x + b)``, as a constant and ``log(x + b / a)``."""
    linear = _linear(argument, symbols)
    if linear is None or len(linear[0]) == 2:
        return None
    ((coordinate, inner),), shift = linear
    function = Function(Kind.LOG, coordinate, math.copysign(1.0, inner), shift / abs(inner))
    return [(_NONE, ()), (function, (SECOND,) if shift else ())]


def _logistic(
    base: sympy.Expr, symbols: tuple[sympy.Symbol, ...]
) -> list[tuple[Function, tuple[int, ...]]] | None:
    """``1 / (p + q exp(u))`` with ``p, q`` of one sign, as a constant and a tanh."""
    constant, rest = base.as_coeff_Add()
    factor, exponential = sympy.powsimp(rest, combine="exp").as_coeff_Mul()
    if not isinstance(exponential, sympy.exp) or not constant * factor > 0:
        return None
    shift = sympy.log(factor / constant)
    found = _sigmoid((exponential.args[0] + shift) / 2, symbols)
    return None if found is None else [(_NONE, ()), *found]


def _reciprocal(
    base: sympy.Expr, order: int, symbols: tuple[sympy.Symbol, ...], positive: np.ndarray
) -> list[tuple[Function, tuple[int, ...]]] | None:
    """One over a polynomial of one state with a constant, or of two that are added to it."""
    if not base.is_polynomial(*symbols):
        return None
    terms = {powers: float(value) for powers, value in sympy.Poly(base, *symbols).terms() if value != 0}
    constant = terms.pop((0,) * len(symbols), 0.0)
    if constant == 0.0:
        return None
    by_state = [
        (next(k for k, p in enumerate(powers) if p), sum(powers), v / constant) for powers, v in terms.items()
    ]
    mixed = any(sum(p > 0 for p in powers) > 1 for powers in terms)
    by_state.sort()
    shapes = [(c, p) for c, p, _ in by_state]
    if mixed or not 1 <= len(by_state) <= 2:
        return None
    coordinate, power, inner = by_state[0]
    if len(by_state) == 2:
        other, _, second = by_state[1]
        if order == 1 and shapes == [(coordinate, 1), (coordinate, 2)]:
            shape = second / inner**2
            if abs(4.0 * shape - 1.0) < _WHOLE:
                return [(Function(Kind.SQUARED_RECIPROCAL, coordinate, 0.5 * inner), (INNER,))]
            return [(Function(Kind.QUADRATIC_RECIPROCAL, coordinate, inner, shape), (INNER, SECOND))]
        if order == 1 and other != coordinate and [p for _, p in shapes] == [1, 1]:
            return [(Function(Kind.RECIPROCAL, coordinate, inner, second, other), (INNER, SECOND))]
        return None
    if power == 1:
        kind = Kind.RECIPROCAL if order == 1 else Kind.SQUARED_RECIPROCAL
        return [(Function(kind, coordinate, inner), (INNER,))]
    if order == 2 or inner < 0.0 or (power % 2 and not positive[coordinate]):
        return None
    return [(Function(Kind.INHIBITION, coordinate, inner ** (1.0 / power), float(power)), (INNER,))]


def _whole(number: sympy.Expr) -> int | None:
    value = float(number)
    return round(value) if abs(value - round(value)) < _WHOLE else None
