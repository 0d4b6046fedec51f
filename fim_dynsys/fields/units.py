"""Units of states and time: read from text, and what they say of the numbers in equations."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Self

from fim_dynsys.fields.expressions import parse
from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.terms import Dictionary

if TYPE_CHECKING:
    from sympy import Expr, Symbol

_PREFIXED = {
    "m": "meter",
    "g": "gram",
    "s": "second",
    "A": "ampere",
    "K": "kelvin",
    "mol": "mole",
    "cd": "candela",
    "N": "newton",
    "J": "joule",
    "W": "watt",
    "Pa": "pascal",
    "Hz": "hertz",
    "C": "coulomb",
    "V": "volt",
    "Ohm": "ohm",
    "F": "farad",
    "S": "siemens",
    "T": "tesla",
    "H": "henry",
    "Wb": "weber",
    "rad": "radian",
    "L": "liter",
    "l": "liter",
    "M": "mole/liter",
    "eV": "electronvolt",
    "bar": "bar",
}
"""Symbols that take prefixes, in the names of sympy.physics.units."""

_ALONE = {
    **dict.fromkeys(("min", "minute", "minutes"), "minute"),
    **dict.fromkeys(("h", "hr", "hour", "hours"), "hour"),
    **dict.fromkeys(("d", "day", "days"), "day"),
    **dict.fromkeys(("week", "weeks"), "7*day"),
    **dict.fromkeys(("a", "yr", "year", "years"), "year"),
    **dict.fromkeys(("sec", "second", "seconds"), "second"),
    **dict.fromkeys(("radian", "radians"), "radian"),
    **dict.fromkeys(("deg", "degree", "degrees"), "degree"),
    "percent": "percent",
}
_PREFIXES = {"k": 3, "h": 2, "d": -1, "c": -2, "m": -3, "u": -6, "n": -9, "p": -12, "f": -15}
_PREFIXES |= {"M": 6, "G": 9, "T": 12}
_BASE = ("meter", "kilogram", "second", "ampere", "kelvin", "mole", "candela", "radian")

_WRITTEN = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻µμ·⋅", "0123456789-uu**", strict=True))
_WRITTEN |= {"\u03a9": "Ohm", "\u2126": "Ohm", "°": "deg", "%": "percent"}
_POWER = re.compile(r"\b([^\W\d]+)\s*(?:\^|\*\*)?\s*\(?([-+]?\d+)\)?(?![.\d])")
_BESIDE = re.compile(r"(?<=[\w)])\s+(?=[\w(])")
_NONE = frozenset({"1", "-", "dimensionless", "unitless"})


@cache
def read_unit(text: str) -> "Expr | None":
    """A unit as a product of powers of the symbols in it.

    Symbols are those of the SI with prefixes, of usual times, angles and volumes; other names, such as
    ``individuals``, are units of their own. ``m/s^2``, ``m s-2`` and ``m·s⁻²`` are the same.

    Parameters
    ----------
    text : str
        As in `Trajectories.units`.

    Returns
    -------
    sympy.Expr or None
        In positive symbols; 1 for ``1``, ``-`` and ``dimensionless``. None for what cannot be read, nothing
        included.

    Examples
    --------
    >>> read_unit("m s-2") == read_unit("m/s^2")
    True
    >>> read_unit("arbitrary (a.u.)") is None
    True
    """
    if not text.strip():
        return None
    import sympy

    if text.strip() in _NONE:
        return sympy.Integer(1)
    written = "".join(_WRITTEN.get(sign, sign) for sign in text.strip())
    written = _BESIDE.sub("*", _POWER.sub(_power, written))
    names = {name: sympy.Symbol(name, positive=True) for name in re.findall(r"[^\W\d]\w*", written)}
    try:
        found = parse(written, names)
    except ValueError:
        return None
    return found if all(base.is_Symbol or base.is_Rational for base in found.as_powers_dict()) else None


def _power(match: re.Match[str]) -> str:
    name, exponent = match.groups()
    explicit = any(sign in match[0] for sign in "^*+-")
    return f"{name}**({exponent})" if explicit or _quantity(name) is not None else match[0]


@cache
def _quantity(name: str) -> "Expr | None":
    """A known symbol in base units and radians."""
    import sympy
    from sympy.physics import units

    scale, own = sympy.Integer(1), _ALONE.get(name) or _PREFIXED.get(name)
    if own is None and name[:1] in _PREFIXES and name[1:] in _PREFIXED:
        scale, own = sympy.Integer(10) ** _PREFIXES[name[0]], _PREFIXED[name[1:]]
    if own is None:
        return None
    known = {part: getattr(units, part) for part in re.findall("[a-z]+", own)}
    value = parse(own, known)
    return scale * units.convert_to(value, [getattr(units, base) for base in _BASE])


def pure_number(unit: "Expr") -> float | None:
    """What a unit is as a number, ``cm/m`` .01 and ``rad`` 1; None where it is none."""
    from sympy.physics import units

    known = {symbol: _quantity(symbol.name) for symbol in unit.free_symbols}
    value = unit.xreplace({symbol: base for symbol, base in known.items() if base is not None})
    value = value.subs(units.radian, 1)
    return float(value) if value.is_number and not value.has(units.Quantity) else None


def base_exponents(unit: "Expr") -> dict[str, float]:
    """Exponents of base units by name, other than 0; the decadic logarithm of the number by ""."""
    import sympy
    from sympy.physics import units

    known = {symbol: _quantity(symbol.name) for symbol in unit.free_symbols}
    value = unit.xreplace({symbol: base for symbol, base in known.items() if base is not None})
    powers = sympy.expand_power_base(value.subs(units.radian, 1)).as_powers_dict()
    numbers = sum(float(power * sympy.log(base, 10)) for base, power in powers.items() if base.is_number)
    found = {str(base): float(power) for base, power in powers.items() if not base.is_number}
    return found | {"": float(numbers)}


def unit_text(unit: "Expr") -> str:
    """A unit as it is written beside a number, ``m/s^2`` or ``1/(mM s)``; empty for a pure number."""
    factor, rest = unit.as_coeff_Mul()
    powers = sorted(
        (symbol.name, exponent) for symbol, exponent in rest.as_powers_dict().items() if rest != 1
    )
    above = [_with_exponent(name, exponent) for name, exponent in powers if exponent > 0]
    below = [_with_exponent(name, -exponent) for name, exponent in powers if exponent < 0]
    if factor != 1:
        above.insert(0, f"{float(factor):g}")
    under = f"({' '.join(below)})" if len(below) > 1 else " ".join(below)
    return f"{' '.join(above) or '1'}/{under}" if below else " ".join(above)


def _with_exponent(name: str, exponent: "Expr") -> str:
    if exponent == 1:
        return name
    return f"{name}^{exponent}" if exponent.is_Integer else f"{name}^{float(exponent):.3g}"


def _of_expression(expression: "Expr", known: "Mapping[Expr, Expr | None]") -> "Expr | None":
    """The unit of an expression in symbols of known units; None where one, or a number's, is not known."""
    import sympy

    if expression.is_number:
        return sympy.Integer(1)
    if expression.is_Symbol:
        return known.get(expression)
    if expression.is_Add or isinstance(expression, sympy.Abs | sympy.Min | sympy.Max):
        # a number beside states has their unit; one before a state may have any
        parts = [part for part in expression.args if not part.is_number]
        if any(part.as_coeff_Mul()[0].is_Float for part in parts):
            return None
        units = {_of_expression(part, known) for part in parts}
        return units.pop() if len(units) == 1 else None
    if expression.is_Mul:
        found = [_of_expression(factor, known) for factor in expression.args]
        return None if any(unit is None for unit in found) else sympy.Mul(*found)
    if expression.is_Pow and expression.exp.is_number:
        unit = _of_expression(expression.base, known)
        return None if unit is None else unit**expression.exp
    return None if expression.is_Piecewise else sympy.Integer(1)  # functions and powers are pure numbers


@dataclass(frozen=True)
class Units:
    """Units of the coordinates and of time.

    Attributes
    ----------
    states : tuple of sympy.Expr or None
        One for each coordinate; None where it is not known.
    time : sympy.Expr or None
        Of time.
    """

    states: "tuple[Expr | None, ...]"
    time: "Expr | None"

    @classmethod
    def of(cls, given: Mapping[str, str], names: Sequence[str]) -> Self:
        """From `Trajectories.units` and the names of the coordinates."""
        return cls(tuple(read_unit(given.get(name, "")) for name in names), read_unit(given.get("t", "")))

    def has_dimension(self, coordinate: int) -> bool:
        """Whether the unit of a coordinate is known, and no number."""
        unit = self.states[coordinate]
        return unit is not None and pure_number(unit) is None

    def of_coefficients(self, dictionary: Dictionary) -> list[list[str]]:
        """What a coefficient of each term (m) in each equation (d) is measured in, as text.

        Functions are pure numbers, logarithms also, and so are the arguments of all but powers. Empty where
        a unit that it takes is not known, and for a pure number.
        """
        terms = [self._of_term(dictionary, row) for row in range(len(dictionary))]
        return [[self._text(state, term) for state in self.states] for term in terms]

    def of_factors(self, terms: "Sequence[Expr]", symbols: "Sequence[Symbol]") -> list[list[str]]:
        """As `of_coefficients`, for terms (m) that are expressions in symbols of the coordinates.

        Empty also where a number inside a term may have a unit.
        """
        known = dict(zip(symbols, self.states, strict=True))
        units = [_of_expression(term, known) for term in terms]
        return [[self._text(state, unit) for state in self.states] for unit in units]

    def _text(self, state: "Expr | None", term: "Expr | None") -> str:
        if state is None or term is None or self.time is None:
            return ""
        return unit_text(state / self.time / term)

    def _of_term(self, d: Dictionary, row: int) -> "Expr | None":
        import sympy

        powers = d.exponents[row].astype(float)
        if d.kind[row] == Kind.POWER:  # its factor inside is 1
            powers[d.coordinate[row]] += d.second[row]
        found = sympy.Integer(1)
        for unit, power in zip(self.states, powers.tolist(), strict=True):
            if power and unit is None:
                return None
            if power and unit is not None:
                found *= unit ** (int(power) if power.is_integer() else power)
        return found

    def of_numbers_inside(self, dictionary: Dictionary) -> list[str]:
        """What the factor of the state in each function (m) is measured in, as text.

        Empty for monomials, powers and other functions of the state without a factor, and where the unit is
        not known or a pure number.
        """
        out = []
        for row, coordinate in enumerate(dictionary.coordinate):
            unit, kind = self.states[coordinate], dictionary.kind[row]
            bare = kind == Kind.LOG and dictionary.inner[row] == 1.0
            has = kind not in (Kind.MONOMIAL, Kind.POWER) and not bare and unit is not None
            out.append(unit_text(1 / unit) if has else "")
        return out

    def rates(self, coordinate: int) -> dict[int, float]:
        """Coordinates whose unit is that of the rate of another: one of them in its units is so many.

        As for velocities in cm/s beside a position in m, of which one is .01.
        """
        unit, found = self.states[coordinate], dict[int, float]()
        if unit is None or self.time is None or pure_number(self.time) is not None:
            return found
        for other, state in enumerate(self.states):
            factor = None if state is None else pure_number(state * self.time / unit)
            if factor is not None:
                found[other] = factor
        return found
