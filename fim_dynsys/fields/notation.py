"""Three ways to write the same formula: text, LaTeX and sympy expressions."""

import abc
import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fim_dynsys.fields.equation_text import measured_text, number_text

if TYPE_CHECKING:
    from sympy import Expr

Signed = tuple[bool, Any]
"""Whether a part of a sum is subtracted, and the part."""

_SUM, _PRODUCT, _ATOM = range(3)  # what binds least comes first
_LATEX_NAMES = {f"a{name}": rf"\arc{name}" for name in ("sin", "cos", "tan")} | {
    "sign": r"\operatorname{sign}"
}
_SYMPY_NAMES = {"abs": "Abs", "min": "Min", "max": "Max"}
_LATEX_SIGNS = {"<=": r"\le", ">=": r"\ge"}
_WHOLE = 2.0**53  # up to which floating-point numbers hold every whole number


class Notation(Protocol):
    """What a formula is built with; its parts are of one type that only the notation knows."""

    def name(self, index: int) -> Any:
        """A state or an input by its place."""

    def number(self, value: float, error: float = 0.0) -> Any:
        """A number that is not negative, and its standard error where that is not zero."""

    def product(self, factors: Sequence[Any]) -> Any:
        """Factors, one or more."""

    def fraction(self, above: Any, below: Any) -> Any:
        """A quotient."""

    def power(self, base: Any, exponent: Any) -> Any:
        """A base to an exponent that is not negative."""

    def call(self, function: str, *arguments: Any) -> Any:
        """A function by its usual name: sin, exp, log, abs, min and so on."""

    def total(self, parts: Iterable[Signed]) -> Any:
        """A sum of signed parts; 0 where there are none."""


class _Written(str):
    """Text that knows how tightly it binds."""

    __slots__ = ("rank",)
    rank: int

    def __new__(cls, text: str, rank: int = _ATOM) -> "_Written":
        """Text and its rank."""
        made = super().__new__(cls, text)
        made.rank = rank
        return made


def is_one(number: Any) -> bool:
    """Whether a number of any notation is written as 1, so that a product may leave it out."""
    return number == "1" if isinstance(number, str) else number == 1


def ordered(parts: Iterable[Signed]) -> list[Signed]:
    """The same sum, begun with a part that is added where there is one."""
    return sorted(parts, key=lambda part: part[0])


class _WrittenNotation(abc.ABC):
    """What is the same in notations that are text: names, products and sums."""

    def __init__(self, names: Sequence[str], digits: int):
        self._names, self._digits = tuple(names), digits

    def name(self, index: int) -> _Written:
        """A state or an input by its place."""
        return _Written(self._names[index])

    def product(self, factors: Sequence[_Written]) -> _Written:
        """Factors beside each other."""
        if len(factors) == 1:
            return factors[0]
        return _Written(" ".join(self._inside(factor, _PRODUCT) for factor in factors), _PRODUCT)

    def total(self, parts: Iterable[Signed]) -> _Written:
        """A sum with its signs."""
        return _joined_sum(parts, self._inside)

    @staticmethod
    @abc.abstractmethod
    def _inside(part: _Written, rank: int) -> str:
        """A part as it stands in one of a rank, in parentheses where it is of a lower one."""


class TextNotation(_WrittenNotation):
    """As one writes in a line: ``0.5 x0 + 2 x0^2 x1 / (1.5 + x0) - sin(2 x1)``.

    Parameters
    ----------
    names : sequence of str
        Of states and inputs.
    digits : int
        Significant digits of numbers; zeros at the end are left out.
    """

    def number(self, value: float, error: float = 0.0) -> _Written:
        """A number and its error, in parentheses."""
        if error:
            return _Written(f"({measured_text(value, error, self._digits)})")
        return _Written(short_number(value, self._digits))

    def fraction(self, above: _Written, below: _Written) -> _Written:
        """A quotient in one line."""
        return _Written(f"{self._inside(above, _PRODUCT)} / {self._inside(below, _ATOM)}", _PRODUCT)

    def power(self, base: _Written, exponent: _Written) -> _Written:
        """A power, its base in parentheses unless it is one name or number."""
        return _Written(f"{self._inside(base, _ATOM)}^{self._inside(exponent, _ATOM)}")

    def call(self, function: str, *arguments: _Written) -> _Written:
        """A function of its arguments."""
        listed = ", ".join(arguments)
        return _Written(f"|{listed}|" if function == "abs" else f"{function}({listed})")

    def compare(self, sign: str, left: _Written, right: _Written) -> _Written:
        """A comparison by ``<``, ``<=``, ``>`` or ``>=``."""
        return _Written(f"{left} {sign} {right}", _SUM)

    def joined(self, word: str, conditions: Sequence[str]) -> _Written:
        """Conditions by "and" or "or"."""
        return _Written(f" {word} ".join(f"({own})" for own in conditions))

    def choice(self, pairs: Sequence[tuple[_Written, str]], otherwise: _Written) -> _Written:
        """Values by their conditions, the first that holds, in the words of Python."""
        listed = "".join(f"{value} if {condition} else " for value, condition in pairs)
        return _Written(f"({listed}{otherwise})")

    @staticmethod
    def _inside(part: _Written, rank: int) -> str:
        return part if part.rank >= rank else f"({part})"


class LatexNotation(_WrittenNotation):
    """As LaTeX.

    Parameters
    ----------
    names : sequence of str
        Of states and inputs, as LaTeX.
    digits : int
        As of `TextNotation`.
    """

    def number(self, value: float, error: float = 0.0) -> _Written:
        """A number and its error, in parentheses."""
        text = measured_text(value, error, self._digits) if error else short_number(value, self._digits)
        text = re.sub(r"e([+-]?)0*(\d+)", _power_of_ten, text).replace("±", r"\pm")
        return _Written(f"({text})" if error else text)

    def fraction(self, above: _Written, below: _Written) -> _Written:
        """A quotient over two lines."""
        return _Written(rf"\frac{{{above}}}{{{below}}}", _PRODUCT)

    def power(self, base: _Written, exponent: _Written) -> _Written:
        """A power, its base in parentheses unless it is one name or number."""
        return _Written(f"{self._inside(base, _ATOM)}^{{{exponent}}}")

    def call(self, function: str, *arguments: _Written) -> _Written:
        """A function of its arguments."""
        argument = ", ".join(arguments)
        if function == "abs":
            return _Written(rf"\left|{argument}\right|")
        if function == "sqrt":
            return _Written(rf"\sqrt{{{argument}}}")
        if function == "exp":
            return _Written(f"e^{{{argument}}}")
        name = _LATEX_NAMES.get(function, rf"\{function}")
        return _Written(rf"{name}\left({argument}\right)")

    def compare(self, sign: str, left: _Written, right: _Written) -> _Written:
        """A comparison by ``<``, ``<=``, ``>`` or ``>=``."""
        return _Written(f"{left} {_LATEX_SIGNS.get(sign, sign)} {right}", _SUM)

    def joined(self, word: str, conditions: Sequence[str]) -> _Written:
        """Conditions by "and" or "or"."""
        return _Written(rf" \text{{ {word} }} ".join(rf"\left({own}\right)" for own in conditions))

    def choice(self, pairs: Sequence[tuple[_Written, str]], otherwise: _Written) -> _Written:
        """Values by their conditions, the first that holds."""
        rows = [rf"{value} & \text{{if }} {condition}" for value, condition in pairs]
        rows.append(rf"{otherwise} & \text{{otherwise}}")
        return _Written(r"\begin{cases}" + r" \\ ".join(rows) + r"\end{cases}")

    @staticmethod
    def _inside(part: _Written, rank: int) -> str:
        return part if part.rank >= rank else rf"\left({part}\right)"


class SympyNotation:
    """As sympy expressions, with numbers as they are; whole ones as integers.

    Parameters
    ----------
    symbols : sequence of sympy.Expr
        Of states and inputs.
    """

    def __init__(self, symbols: "Sequence[Expr]"):
        self._symbols = tuple(symbols)

    def name(self, index: int) -> "Expr":
        """A state or an input by its place."""
        return self._symbols[index]

    def number(self, value: float, error: float = 0.0) -> "Expr":
        """A number; its error is not shown."""
        import sympy

        whole = abs(value) < _WHOLE and value == int(value)
        return sympy.Integer(int(value)) if whole else sympy.Float(float(value))

    def product(self, factors: "Sequence[Expr]") -> "Expr":
        """Factors."""
        return math.prod(factors[1:], start=factors[0])

    def fraction(self, above: "Expr", below: "Expr") -> "Expr":
        """A quotient."""
        return above / below

    def power(self, base: "Expr", exponent: "Expr") -> "Expr":
        """A power."""
        return base**exponent

    def call(self, function: str, *arguments: "Expr") -> "Expr":
        """A function of its arguments."""
        import sympy

        return getattr(sympy, _SYMPY_NAMES.get(function, function))(*arguments)

    def total(self, parts: Iterable[Signed]) -> "Expr":
        """A sum."""
        import sympy

        return sympy.Add(*(-part if negative else part for negative, part in parts))


def short_number(value: float, digits: int) -> str:
    """A number with so many significant digits at most: ``0.5``, ``28``, ``2.5e-09``."""
    text = number_text(value, digits).strip()
    mantissa, e, exponent = text.partition("e")
    return (mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa) + e + exponent


def plain_sum(coefficients: np.ndarray, names: Sequence[str], precision: int = 3) -> str:
    """One right-hand side of terms that are known by their names: ``0.5 + x0 - 2 sin(1 x0)``.

    Parameters
    ----------
    coefficients : array (m,)
        One for each name; terms with coefficient 0 are left out.
    names : sequence of str
        Names of the terms, ``1`` for a constant.
    precision : int
        Significant digits.

    Returns
    -------
    str
    """
    notation = TextNotation((), precision)
    parts = []
    for i in np.flatnonzero(coefficients).tolist():
        factors = [notation.number(abs(coefficients[i])), _Written(names[i], _PRODUCT)]
        kept = [factor for factor in factors if not is_one(factor)] or factors[:1]
        parts.append((bool(coefficients[i] < 0), notation.product(kept)))
    return str(notation.total(parts))


def _joined_sum(parts: Iterable[Signed], inside: Any) -> _Written:
    parts = list(parts)
    if not parts:
        return _Written("0")
    text = ""
    for k, (negative, part) in enumerate(parts):
        sign = (" - " if negative else " + ") if k else ("-" if negative else "")
        text += sign + inside(part, _PRODUCT if negative else _SUM)
    single = len(parts) == 1 and not parts[0][0]
    return parts[0][1] if single else _Written(text, _SUM)


def _power_of_ten(found: "re.Match[str]") -> str:
    return rf" \cdot 10^{{{found[1].replace('+', '')}{found[2]}}}"
