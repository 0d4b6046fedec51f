"""Textbook functions of one number that terms are made of, with derivatives of any order."""

import math
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sympy import Expr


class Kind(IntEnum):
    """Function ``g`` that multiplies a term's monomial.

    Its argument is ``u = inner * x[coordinate] + second * x[partner] + shift``, where the term has no partner
    ``inner * x[coordinate] + second``. In kinds with a shape, ``u = inner * x[coordinate]`` and ``second`` is
    that shape ``s``.
    """

    MONOMIAL = 0
    """``1``: the term is its monomial."""
    SIN = 1
    """``sin(u)``."""
    COS = 2
    """``cos(u)``."""
    EXP = 3
    """``exp(u)``."""
    HILL = 4
    """``u / (1 + u)``, saturation of order one (pole at ``u = -1``)."""
    HILL2 = 5
    """``u^2 / (1 + u^2)``, saturation of order two."""
    TANH = 6
    """``tanh(u)``."""
    LOG = 7
    """``log(u)``, nan for negative ``u``."""
    POWER = 8
    """``u^s``, nan for negative ``u`` unless ``s`` is an integer."""
    SATURATION = 9
    """``|u|^s / (1 + |u|^s)``, Hill's function of any order."""
    INHIBITION = 10
    """``1 / (1 + |u|^s)``, its complement."""
    QUADRATIC_RECIPROCAL = 11
    """``1 / (1 + u + s u^2)``; times ``x``, inhibition by excess (Haldane)."""
    RECIPROCAL = 12
    """``1 / (1 + u)`` (pole at ``u = -1``)."""
    SQUARED_RECIPROCAL = 13
    """``1 / (1 + u)^2``."""
    ABSOLUTE = 14
    """``|u|``; its slope at 0 counts as 0."""
    INVERSE = 15
    """``1 / u``."""
    GAUSSIAN = 16
    """``exp(-u^2)``."""
    ARRHENIUS = 17
    """``exp(-1 / u)``, 0 at 0."""
    SIN_SQUARE = 18
    """``sin(u^2)``."""
    COS_SQUARE = 19
    """``cos(u^2)``."""
    LOG_SQUARE = 20
    """``log(1 + u^2)``."""


SHAPED = frozenset({Kind.POWER, Kind.SATURATION, Kind.INHIBITION, Kind.QUADRATIC_RECIPROCAL})
"""Kinds whose ``second`` is a shape."""

COMPOSED = frozenset({Kind.ARRHENIUS, Kind.SIN_SQUARE, Kind.COS_SQUARE, Kind.LOG_SQUARE})
"""Functions of a square or a reciprocal, tried where no others explain noise-free samples."""

_WRITTEN = {
    Kind.ARRHENIUS: "exp(-1/{})",
    Kind.SIN_SQUARE: "sin({}^2)",
    Kind.COS_SQUARE: "cos({}^2)",
    Kind.LOG_SQUARE: "log(1 + {}^2)",
}


def derivative(kind: Kind, u: np.ndarray, order: int, shape: np.ndarray | None = None) -> np.ndarray:
    """``order``-th derivative of ``g`` by ``u``.

    Parameters
    ----------
    kind : Kind
        Not ``MONOMIAL``.
    u : array
        Arguments.
    order : int
        0 gives the value.
    shape : array, broadcastable to u
        Of the kinds in `SHAPED`.

    Returns
    -------
    array of the shape of u
    """
    if kind in SHAPED:
        assert shape is not None
        return _SHAPED_DERIVATIVES[kind](u, order, shape)
    return _DERIVATIVES[kind](u, order)


def sympy_form(kind: Kind, u: "Expr", shape: "Expr | None" = None) -> "Expr":
    """``g(u)`` as a sympy expression, built structurally (no text is parsed).

    Parameters
    ----------
    kind : Kind
        Not ``MONOMIAL``.
    u, shape : sympy.Expr
        Argument and shape.

    Returns
    -------
    sympy.Expr
    """
    import sympy

    forms = {
        Kind.SIN: lambda: sympy.sin(u),
        Kind.COS: lambda: sympy.cos(u),
        Kind.EXP: lambda: sympy.exp(u),
        Kind.HILL: lambda: u / (1 + u),
        Kind.HILL2: lambda: u**2 / (1 + u**2),
        Kind.TANH: lambda: sympy.tanh(u),
        Kind.LOG: lambda: sympy.log(u),
        Kind.POWER: lambda: u**shape,
        Kind.SATURATION: lambda: sympy.Abs(u) ** shape / (1 + sympy.Abs(u) ** shape),
        Kind.INHIBITION: lambda: 1 / (1 + sympy.Abs(u) ** shape),
        Kind.QUADRATIC_RECIPROCAL: lambda: 1 / (1 + u + shape * u**2),
        Kind.RECIPROCAL: lambda: 1 / (1 + u),
        Kind.SQUARED_RECIPROCAL: lambda: (1 + u) ** -2,
        Kind.ABSOLUTE: lambda: sympy.Abs(u),
        Kind.INVERSE: lambda: 1 / u,
        Kind.GAUSSIAN: lambda: sympy.exp(-(u**2)),
        Kind.ARRHENIUS: lambda: sympy.exp(-1 / u),
        Kind.SIN_SQUARE: lambda: sympy.sin(u**2),
        Kind.COS_SQUARE: lambda: sympy.cos(u**2),
        Kind.LOG_SQUARE: lambda: sympy.log(1 + u**2),
    }
    return forms[kind]()


def function_name(kind: Kind, u: str, shape: str = "") -> str:
    """How ``g`` of an argument called ``u`` is printed: ``sin(2 x1)``, ``x0^0.5``, ``saturation(x0, 2)``.

    Parameters
    ----------
    kind : Kind
        Not ``MONOMIAL``.
    u : str
        Name of the argument.
    shape : str
        As it is printed; of the kinds in `SHAPED`.

    Returns
    -------
    str
    """
    if kind == Kind.POWER:
        return f"{u}^{shape}" if " " not in u else f"({u})^{shape}"
    if kind in SHAPED:
        return f"{kind.name.lower()}({u}, {shape})"
    if kind == Kind.ABSOLUTE:
        return f"|{u}|"
    if kind in _WRITTEN:
        return _WRITTEN[kind].format(f"({u})" if " " in u else u)
    return f"{kind.name.lower()}({u})"


# ---------------------------------------------------------------------- derivatives


def _absolute(u: np.ndarray, order: int) -> np.ndarray:
    if order == 0:
        return np.abs(u)
    return np.sign(u) if order == 1 else np.zeros_like(u)


def _tanh(u: np.ndarray, order: int) -> np.ndarray:
    """A polynomial in tanh, since tanh' = 1 - tanh^2."""
    polynomial = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(order):
        polynomial = polynomial.deriv() * np.polynomial.Polynomial([1.0, 0.0, -1.0])
    return polynomial(np.tanh(u))


def _gaussian(u: np.ndarray, order: int) -> np.ndarray:
    """By Hermite's polynomials (DLMF 18.5.5)."""
    return (-1.0) ** order * np.polynomial.hermite.Hermite.basis(order)(u) * np.exp(-u * u)


def _arrhenius(u: np.ndarray, order: int) -> np.ndarray:
    """A polynomial in v = 1 / u times exp(-v), since v' = -v^2; all vanish at 0, as from above."""
    polynomial, square = np.polynomial.Polynomial([1.0]), np.polynomial.Polynomial([0.0, 0.0, 1.0])
    for _ in range(order):
        polynomial = square * (polynomial - polynomial.deriv())
    v = 1.0 / np.where(u == 0.0, np.inf, u)
    return np.where(u == 0.0, 0.0, polynomial(v) * np.exp(-v))


def _wave_of_square(u: np.ndarray, order: int, phase: float) -> np.ndarray:
    """Of sin(u^2 + phase): polynomials times it and its quarter turn, which pass into each other."""
    inner = np.polynomial.Polynomial([0.0, 2.0])
    sine, cosine = np.polynomial.Polynomial([1.0]), np.polynomial.Polynomial([0.0])
    for _ in range(order):
        sine, cosine = sine.deriv() - inner * cosine, cosine.deriv() + inner * sine
    return sine(u) * np.sin(u * u + phase) + cosine(u) * np.cos(u * u + phase)


def _log_square(u: np.ndarray, order: int) -> np.ndarray:
    """Of log(1 + u^2) = 2 Re log(u - i)."""
    if order == 0:
        return np.log1p(u * u)
    return 2.0 * (-1.0) ** (order - 1) * math.factorial(order - 1) * np.real((u - 1j) ** -float(order))


def _hill2(u: np.ndarray, order: int) -> np.ndarray:
    """Of u^2/(1+u^2) = 1 - Im 1/(u - i)."""
    if order == 0:
        return 1.0 - 1.0 / (1.0 + u * u)
    return -((-1.0) ** order) * math.factorial(order) * np.imag((u - 1j) ** -(order + 1.0))


def _hill(u: np.ndarray, order: int) -> np.ndarray:
    """Of u/(1+u) = 1 - 1/(1 + u)."""
    if order == 0:
        return u / (1.0 + u)
    return -((-1.0) ** order) * math.factorial(order) / (1.0 + u) ** (order + 1)


def _log(u: np.ndarray, order: int) -> np.ndarray:
    if order == 0:
        return np.log(u)
    return (-1.0) ** (order - 1) * math.factorial(order - 1) / u**order


def _power(u: np.ndarray, order: int, shape: np.ndarray) -> np.ndarray:
    factor = np.ones_like(shape)
    for k in range(order):
        factor = factor * (shape - k)
    # a vanishing factor ends the series of an integer exponent, at u = 0 too
    return np.where(factor == 0.0, 0.0, factor * u ** (shape - order))


def _reciprocal_series(first: np.ndarray, rest: list[np.ndarray]) -> list[np.ndarray]:
    """Taylor coefficients of 1/w from those of w: ``first``, then the list ``rest``."""
    series = [1.0 / first]
    for k in range(1, len(rest) + 1):
        series.append(-series[0] * sum(rest[j - 1] * series[k - j] for j in range(1, k + 1)))
    return series


def _inhibition(u: np.ndarray, order: int, shape: np.ndarray) -> np.ndarray:
    size, sign = np.abs(u), np.where(u < 0.0, -1.0, 1.0)
    rest = [_power(size, k, shape) * sign**k / math.factorial(k) for k in range(1, order + 1)]
    return math.factorial(order) * _reciprocal_series(1.0 + size**shape, rest)[order]


def _saturation(u: np.ndarray, order: int, shape: np.ndarray) -> np.ndarray:
    return (1.0 if order == 0 else 0.0) - _inhibition(u, order, shape)


def _quadratic_reciprocal(u: np.ndarray, order: int, shape: np.ndarray) -> np.ndarray:
    rest = [1.0 + 2.0 * shape * u, shape + 0.0 * u] + [0.0 * u] * max(order - 2, 0)
    return math.factorial(order) * _reciprocal_series(1.0 + u + shape * u * u, rest)[order]


_DERIVATIVES = {
    Kind.SIN: lambda u, order: np.sin(u + order * (np.pi / 2.0)) if order else np.sin(u),
    Kind.COS: lambda u, order: np.cos(u + order * (np.pi / 2.0)) if order else np.cos(u),
    Kind.EXP: lambda u, order: np.exp(u),
    Kind.HILL: _hill,
    Kind.HILL2: _hill2,
    Kind.TANH: _tanh,
    Kind.LOG: _log,
    Kind.RECIPROCAL: lambda u, order: (-1.0) ** order * math.factorial(order) / (1.0 + u) ** (order + 1),
    Kind.SQUARED_RECIPROCAL: lambda u, order: (
        (-1.0) ** order * math.factorial(order + 1) / (1.0 + u) ** (order + 2)
    ),
    Kind.ABSOLUTE: _absolute,
    Kind.INVERSE: lambda u, order: (-1.0) ** order * math.factorial(order) / u ** (order + 1),
    Kind.GAUSSIAN: _gaussian,
    Kind.ARRHENIUS: _arrhenius,
    Kind.SIN_SQUARE: lambda u, order: _wave_of_square(u, order, 0.0),
    Kind.COS_SQUARE: lambda u, order: _wave_of_square(u, order, np.pi / 2.0),
    Kind.LOG_SQUARE: _log_square,
}
_SHAPED_DERIVATIVES = {
    Kind.POWER: _power,
    Kind.SATURATION: _saturation,
    Kind.INHIBITION: _inhibition,
    Kind.QUADRATIC_RECIPROCAL: _quadratic_reciprocal,
}
