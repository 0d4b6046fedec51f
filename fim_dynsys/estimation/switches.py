"""Right-hand sides that switch: signs and choices, as they are integrated."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from fim_dynsys.estimation.programs import TIME
from fim_dynsys.estimation.sizes import size_of

if TYPE_CHECKING:
    from sympy import Expr

_STEEP = 1e-4  # of the size of what switches: the width of a smooth step
_FLAT = 20.0  # widths beyond which a hyperbolic tangent is 1 in double precision
_SAME = 1e-9  # relative: two values that agree where they meet
_LOOKED_AT = 5  # random points at which that is seen


class Switching:
    """How expressions that switch are integrated.

    A rate that jumps where a state, or a parameter that is estimated, passes a threshold would leave the
    sensitivities without what they gain there: such jumps become hyperbolic tangents that rise within a
    ten-thousandth of the size of what is compared. Beyond twenty such widths both sides are as they were.
    What is continuous stays as it is: ``abs``, ``min``, ``max``, choices whose values agree where they meet,
    of which sensitivities gain nothing. What switches by the time, by inputs and known numbers alone stays,
    too.

    Parameters
    ----------
    inputs : sequence of str
        Names of the inputs.
    known : mapping
        Parameters that are known numbers.
    sized : mapping
        Sizes of all names.

    References
    ----------
    E. Hairer, S. P. Nørsett, G. Wanner, Solving Ordinary Differential Equations I (1993), section II.6.
    """

    def __init__(self, inputs: Sequence[str], known: Mapping[str, float], sized: Mapping[str, float]) -> None:
        self.exact = {*inputs, *known, TIME}
        self.sized = sized

    def smoothed(self, equations: "Sequence[Expr]") -> "tuple[Expr, ...]":
        """Equations without jumps that depend on what is computed or estimated."""
        import sympy

        def sign(argument: "Expr") -> "Expr":
            return sympy.sign(argument) if self._stays(argument) else self._step(argument)

        found = []
        for expression in equations:
            # from the inside out, so that choices within choices are found in what holds them
            chosen = expression.replace(lambda own: isinstance(own, sympy.Piecewise), self._choice)
            found.append(chosen.replace(sympy.sign, sign))
        return tuple(found)

    def _stays(self, argument: "Expr") -> bool:
        return {s.name for s in argument.free_symbols} <= self.exact

    def _width(self, argument: "Expr") -> float:
        return _STEEP * size_of(argument, self.sized)

    def _step(self, argument: "Expr") -> "Expr":
        """A sign that rises from -1 to 1."""
        import sympy

        return sympy.tanh(argument / self._width(argument))

    def _choice(self, choice: "Expr") -> "Expr":
        import sympy

        result = choice.args[-1][0]
        for value, condition in reversed(choice.args[:-1]):
            # where it is not below zero, the condition holds
            argument = _margin(condition)
            if self._stays(argument) or _meet(value, result, condition):
                result = sympy.Piecewise((value, condition), (result, True))
                continue
            width = self._width(argument)
            share = (1 + sympy.tanh(argument / width)) / 2
            result = sympy.Piecewise(
                (value, argument > _FLAT * width),
                (result, argument < -_FLAT * width),
                (share * value + (1 - share) * result, True),
            )
        return result


def _margin(condition: Any) -> "Expr":
    """What is positive where a condition holds, and negative where it does not."""
    import sympy

    name = type(condition).__name__
    if name in ("And", "Or"):
        join = sympy.Min if name == "And" else sympy.Max
        return join(*(_margin(part) for part in condition.args))
    if name == "Not":
        return -_margin(condition.args[0])
    return condition.gts - condition.lts


def _meet(one: "Expr", other: "Expr", condition: Any) -> bool:
    """Whether two values agree wherever a comparison is an equality, as far as can be seen."""
    import sympy

    if not condition.is_Relational:
        return False
    between = condition.gts - condition.lts
    linear = [s for s in sorted(between.free_symbols, key=str) if not between.diff(s).has(s)]
    if not linear or between.has(sympy.Piecewise, sympy.Min, sympy.Max, sympy.Abs, sympy.sign):
        return False
    symbol = linear[0]
    slope = between.diff(symbol)
    at = -(between - slope * symbol).expand() / slope
    at = at.xreplace({symbol: sympy.Integer(0)})
    a, b = one.subs(symbol, at), other.subs(symbol, at)
    others = sorted((a.free_symbols | b.free_symbols), key=str)
    rng = np.random.default_rng(0)
    for _ in range(_LOOKED_AT):
        point = {s: sympy.Float(v) for s, v in zip(others, rng.uniform(0.5, 2.0, len(others)), strict=True)}
        values = [_number(e.subs(point)) for e in (a, b)]
        if not abs(values[0] - values[1]) <= _SAME * (abs(values[0]) + abs(values[1])):
            return False
    return True


def _number(expression: "Expr") -> float:
    """A real number; NaN for what is none."""
    found = expression.evalf()
    return float(found) if found.is_number and found.is_real and found.is_finite else np.nan


def switch_times(equations: "Sequence[Expr]", known: Mapping[str, float]) -> tuple[float, ...]:
    """Times at which equations switch by the time alone, where that is compared with numbers."""
    import sympy

    clock = sympy.Symbol(TIME, real=True)
    found: set[float] = set()
    for own in _compared(equations, known):
        slope = own.diff(clock) if own.free_symbols == {clock} else None
        if slope is not None and slope.is_number and slope != 0:
            found.add(float(-own.xreplace({clock: sympy.Integer(0)}) / slope))
    return tuple(sorted(found))


def timing(equations: "Sequence[Expr]", known: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Parameters that say when equations switch: their values for time 0, and growth by unit of time."""
    import sympy

    clock = sympy.Symbol(TIME, real=True)
    found: dict[str, tuple[float, float]] = {}
    for own in _compared(equations, known):
        others = own.free_symbols - {clock}
        if len(others) != 1:
            continue
        (other,) = others
        slope, share = own.diff(clock), own.diff(other)
        if slope.is_number and share.is_number and slope * share != 0:
            begins = -own.xreplace({clock: sympy.Integer(0), other: sympy.Integer(0)}) / share
            found[str(other)] = float(begins), float(-slope / share)
    return found


def _compared(equations: "Sequence[Expr]", known: Mapping[str, float]) -> "list[Expr]":
    """What changes its sign where equations switch."""
    import sympy

    numbers = {sympy.Symbol(name, real=True): sympy.Float(value) for name, value in known.items()}
    compared = []
    for expression in equations:
        compared += [c.gts - c.lts for c in expression.atoms(sympy.core.relational.Relational)]
        compared += [s.args[0] for s in expression.atoms(sympy.sign, sympy.Abs)]
        compared += [a - b for own in expression.atoms(sympy.Min, sympy.Max) for a, b in pairwise(own.args)]
    return [argument.xreplace(numbers) for argument in compared]
