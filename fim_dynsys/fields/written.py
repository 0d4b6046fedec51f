"""Right-hand sides of dictionary fields as people write them: signs, fractions, no factors of one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fim_dynsys.fields.functions import SHAPED, Kind
from fim_dynsys.fields.notation import Notation, Signed, TextNotation, is_one, ordered
from fim_dynsys.fields.terms import Dictionary

# Numbers that differ by less are the same but for rounding; a term below this share of what it is the
# difference of has cancelled.
_ROUNDING = 1e-10

_CALLS = {
    Kind.SIN: "sin",
    Kind.COS: "cos",
    Kind.EXP: "exp",
    Kind.TANH: "tanh",
    Kind.LOG: "log",
    Kind.ABSOLUTE: "abs",
}


@dataclass(frozen=True)
class Monomial:
    """A number, its standard error, and the powers of states it multiplies."""

    value: float
    error: float
    powers: tuple[int, ...]


Polynomial = tuple[Monomial, ...]


@dataclass(frozen=True)
class Function:
    """A factor that is no monomial, by its kind and its argument ``inside``.

    `numbers` are the shape ``s`` and its error, where the kind has one, and a scale ``K`` of the argument and
    its error.
    """

    kind: Kind
    inside: Polynomial
    shape: tuple[float, float] = (0.0, 0.0)
    scale: tuple[float, float] = (1.0, 0.0)


@dataclass(frozen=True)
class Fraction:
    """``sum of monomials * function / denominator^power``; each of the latter may be missing."""

    above: Polynomial
    function: Function | None = None
    below: Polynomial | None = None
    power: int = 1


def right_hand_side(
    dictionary: Dictionary,
    coefficients: np.ndarray,
    errors: np.ndarray | None = None,
    inner_errors: np.ndarray | None = None,
) -> list[Fraction]:
    """One right-hand side as fractions, terms with equal denominators in one.

    Parameters
    ----------
    dictionary : Dictionary
        The terms.
    coefficients : array (m,)
        One for each term; terms with coefficient 0 are left out.
    errors : array (m,), optional
        Standard errors of the coefficients.
    inner_errors : array (m, 3), optional
        Standard errors of the dictionary's `numbers`.

    Returns
    -------
    list of Fraction
    """
    gathered: list[Fraction] = []
    for row in np.flatnonzero(coefficients).tolist():
        off = np.zeros(3) if inner_errors is None or errors is None else inner_errors[row]
        error = 0.0 if errors is None else float(errors[row])
        fraction = _fraction(dictionary, row, Monomial(float(coefficients[row]), error, ()), off.tolist())
        same = [
            k
            for k, other in enumerate(gathered)
            if fraction.below is not None and replace(fraction, above=()) == replace(other, above=())
        ]
        if same:
            gathered[same[0]] = replace(fraction, above=gathered[same[0]].above + fraction.above)
        else:
            gathered.append(fraction)
    return gathered if errors is not None else _over_one_denominator(gathered)


def written(fractions: Sequence[Fraction], notation: Notation) -> Any:
    """A right-hand side in a notation."""
    return notation.total([_written_fraction(fraction, notation) for fraction in fractions])


# ---------------------------------------------------------------------- from terms to fractions


def _fraction(dictionary: Dictionary, row: int, factor: Monomial, errors: list[float]) -> Fraction:
    powers, kind, coordinate, inner, second, partner, shift = dictionary.row(row)
    d = len(powers)

    def state(index: int, exponent: int = 1) -> tuple[int, ...]:
        return tuple(exponent if k == index else 0 for k in range(d))

    above = (replace(factor, powers=tuple(powers)),)
    if kind == Kind.MONOMIAL:
        return Fraction(above)
    one, nothing = Monomial(1.0, 0.0, state(0, 0)), state(0, 0)
    linear = [Monomial(inner, errors[0], state(coordinate))]
    added, off = (shift, errors[2]) if partner >= 0 else (second, errors[1])
    if kind in SHAPED:
        added, off = 0.0, 0.0
    elif partner >= 0:
        linear.append(Monomial(second, errors[1], state(partner)))
    plain = len(linear) == 1 and not added and not off
    u: Polynomial = (*linear, *([Monomial(added, off, nothing)] if added or off else []))
    from_one: Polynomial = (Monomial(1.0 + added, off, nothing), *linear)
    # the value of the state at which inner * x is 1
    half = (1.0 / inner, errors[0] / inner**2) if inner else (0.0, 0.0)

    def times(power: int) -> Polynomial:
        return (replace(above[0], powers=tuple(np.add(powers, state(coordinate, power)).tolist())),)

    if kind == Kind.HILL and plain and inner:
        return Fraction(times(1), below=(Monomial(*half, nothing), Monomial(1.0, 0.0, state(coordinate))))
    if kind == Kind.HILL2 and plain and inner:
        square = Monomial(half[0] ** 2, 2.0 * abs(half[0]) * half[1], nothing)
        return Fraction(times(2), below=(square, Monomial(1.0, 0.0, state(coordinate, 2))))
    if kind == Kind.RECIPROCAL:
        return Fraction(above, below=from_one)
    if kind == Kind.SQUARED_RECIPROCAL:
        return Fraction(above, below=from_one, power=2)
    if kind == Kind.INVERSE:
        if u[0].value < 0.0 and plain:
            above, u = (_negative(above[0]),), (_negative(u[0]),)
        return Fraction(above, below=u)
    if kind == Kind.QUADRATIC_RECIPROCAL and not any(errors):
        square = Monomial(second * inner**2, 0.0, state(coordinate, 2))
        return Fraction(above, below=(one, *linear, square))
    return Fraction(above, Function(kind, u, (second, errors[1]), half if plain and inner else (1.0, 0.0)))


def _negative(monomial: Monomial) -> Monomial:
    return replace(monomial, value=-monomial.value)


def _over_one_denominator(fractions: list[Fraction]) -> list[Fraction]:
    """The sum over a common denominator where that is shorter: of one denominator and a polynomial."""
    split = [
        k
        for k, fraction in enumerate(fractions)
        if fraction.below and fraction.function is None and fraction.power == 1
    ]
    if not split:
        return fractions
    below = fractions[split[0]].below
    assert below is not None
    factors = [_ratio(below, fractions[k].below) for k in split]
    if any(factor is None for factor in factors):
        return fractions
    sums: dict[tuple[int, ...], list[float]] = {}
    for k, factor in zip(split, factors, strict=True):
        assert factor is not None
        for part in fractions[k].above:
            sums.setdefault(part.powers, []).append(factor * part.value)
    together = Fraction(_summed(sums), below=below)
    plain = [fraction for fraction in fractions if fraction.below is None and fraction.function is None]
    rest = [fraction for fraction in fractions if fraction.below is None and fraction.function is not None]
    rest += [
        fraction for k, fraction in enumerate(fractions) if fraction.below is not None and k not in split
    ]
    for fraction in plain:
        for part in fraction.above:
            for unit in below:
                powers = tuple(a + b for a, b in zip(part.powers, unit.powers, strict=True))
                sums.setdefault(powers, []).append(part.value * unit.value)
    whole = Fraction(_summed(sums), below=below)
    choices = [fractions, [*plain, together, *rest], [whole, *rest]]
    names = TextNotation([f"x{k}" for k in range(len(below[0].powers))], 3)
    return min(choices, key=lambda choice: len(written(choice, names)))


def _ratio(below: Polynomial, other: Polynomial | None) -> float | None:
    """What `other` is multiplied with to become `below`; None where nothing does that."""
    mine, its = ({part.powers: part.value for part in terms or ()} for terms in (below, other))
    if set(mine) != set(its):
        return None
    ratios = [mine[powers] / its[powers] if its[powers] else np.nan for powers in mine]
    same = np.ptp(ratios) <= _ROUNDING * np.abs(ratios[0])
    return float(ratios[0]) if same else None


def _summed(sums: dict[tuple[int, ...], list[float]]) -> Polynomial:
    """Sums of parts with equal powers, without those that have cancelled, sorted by degree."""
    kept = [
        Monomial(sum(parts), 0.0, powers)
        for powers, parts in sums.items()
        if abs(sum(parts)) > _ROUNDING * max(map(abs, parts))
    ]
    return tuple(sorted(kept, key=lambda part: (sum(part.powers), [-p for p in part.powers])))


# ---------------------------------------------------------------------- from fractions to a notation


def _written_fraction(fraction: Fraction, notation: Notation) -> Signed:
    parts = [_signed(part, notation) for part in fraction.above]
    negative = len(parts) == 1 and parts[0][0]
    above = parts[0][1] if negative else notation.total(parts)
    below: list[Any] = []
    if fraction.below is not None:
        whole = notation.total(ordered(_signed(part, notation) for part in fraction.below))
        below.append(whole if fraction.power == 1 else notation.power(whole, notation.number(fraction.power)))
    if fraction.function is not None:
        times, over = _written_function(fraction.function, notation)
        above = _times(above, [times] if times is not None else [], notation)
        below += [over] if over is not None else []
    return negative, notation.fraction(above, notation.product(below)) if below else above


def _signed(part: Monomial, notation: Notation) -> Signed:
    return part.value < 0.0, _times(
        notation.number(abs(part.value), part.error), list(_powers(part.powers, notation)), notation
    )


def _times(number: Any, factors: list[Any], notation: Notation) -> Any:
    """A product that leaves out a factor of 1."""
    kept = factors if factors and is_one(number) else [number, *factors]
    return notation.product(kept)


def _powers(powers: Sequence[int], notation: Notation) -> Iterator[Any]:
    for index, exponent in enumerate(powers):
        if exponent:
            name = notation.name(index)
            yield name if exponent == 1 else notation.power(name, notation.number(exponent))


def _written_function(function: Function, notation: Notation) -> tuple[Any | None, Any | None]:
    """What stands above and what below the line."""
    one, two = notation.number(1.0), notation.number(2.0)
    u = notation.total([_signed(part, notation) for part in function.inside])

    def plus_one(part: Any) -> Any:
        return notation.total([(False, one), (False, part)])

    if function.kind in _CALLS:
        return notation.call(_CALLS[function.kind], u), None
    if function.kind == Kind.POWER:
        size = notation.number(abs(function.shape[0]), function.shape[1])
        power = u if is_one(size) else notation.power(u, size)
        return (None, power) if function.shape[0] < 0.0 else (power, None)
    if function.kind in (Kind.SATURATION, Kind.INHIBITION):
        whole = function.shape[0] % 2.0 == 0.0 and not function.shape[1]  # even powers have no sign
        scaled = function.kind == Kind.SATURATION and function.scale[0] > 0.0
        inside = (replace(function.inside[0], value=1.0, error=0.0),) if scaled else function.inside
        base = notation.total([_signed(part, notation) for part in inside])
        base = base if whole else notation.call("abs", base)
        negative, size = function.shape[0] < 0.0, notation.number(abs(function.shape[0]), function.shape[1])

        def raised(part: Any) -> Any:
            power = part if is_one(size) else notation.power(part, size)
            return notation.fraction(one, power) if negative else power

        if function.kind == Kind.INHIBITION:
            return None, plus_one(raised(base))
        if not scaled:
            return raised(base), plus_one(raised(base))
        scale = raised(notation.number(*function.scale))
        return raised(base), notation.total([(False, scale), (False, raised(base))])
    if function.kind == Kind.QUADRATIC_RECIPROCAL:
        square = _times(
            notation.number(abs(function.shape[0]), function.shape[1]), [notation.power(u, two)], notation
        )
        parts = [(False, one), *(_signed(part, notation) for part in function.inside)]
        return None, notation.total([*parts, (function.shape[0] < 0.0, square)])
    if function.kind == Kind.HILL:
        return u, plus_one(u)
    if function.kind == Kind.ARRHENIUS:
        if len(function.inside) == 1:
            index = next(k for k, power in enumerate(function.inside[0].powers) if power)
            over = notation.fraction(
                notation.number(abs(function.scale[0]), function.scale[1]), notation.name(index)
            )
            return notation.call("exp", notation.total([(function.scale[0] > 0.0, over)])), None
        return notation.call("exp", notation.total([(True, notation.fraction(one, u))])), None
    square = _square(function.inside, notation)
    if function.kind == Kind.HILL2:
        return square, plus_one(square)
    if function.kind == Kind.GAUSSIAN:
        return notation.call("exp", notation.total([(True, square)])), None
    if function.kind == Kind.LOG_SQUARE:
        return notation.call("log", plus_one(square)), None
    return notation.call("sin" if function.kind == Kind.SIN_SQUARE else "cos", square), None


def _square(inside: Polynomial, notation: Notation) -> Any:
    """The square of an argument; of a multiple of one state as a multiple of its square."""
    if len(inside) > 1:
        u = notation.total([_signed(part, notation) for part in inside])
        return notation.power(u, notation.number(2.0))
    (argument,) = inside
    powers = tuple(2 * power for power in argument.powers)
    return _signed(Monomial(argument.value**2, 2.0 * abs(argument.value) * argument.error, powers), notation)[
        1
    ]
