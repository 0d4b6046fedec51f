"""What users know of the numbers of equations, and whether that fits together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from fim_dynsys.errors import check_number
from fim_dynsys.estimation.parameters import Prior
from fim_dynsys.fields.expressions import FUNCTIONS, parse, warn_of_both_ways

if TYPE_CHECKING:
    from sympy import Expr, Symbol

Words = Mapping[str, Any]
_LEAST_DEVIATION = 1e-300  # of a prior: positive


@dataclass(frozen=True)
class Known:
    """What is known beside the equations, in the words of `fim_dynsys.models.equations.EquationsModel`.

    Attributes
    ----------
    bounds, fixed, scale, priors, start, initial, events, noise, hold : mapping or None
        By name.
    t0 : float, list or None
        When the states are those of ``initial``.
    doses : list or None
        ``(time, state, amount)``.
    """

    bounds: Words | None = None
    fixed: Words | None = None
    scale: Any = None
    priors: Words | None = None
    start: Words | None = None
    initial: Any = None
    t0: Any = None
    doses: Any = None
    events: Any = None
    noise: Any = None
    hold: Any = None


class Reader:
    """Texts and numbers as expressions in the names of states, inputs and parameters."""

    def __init__(self, caller: str, states: Sequence[str], inputs: Sequence[str]) -> None:
        import sympy

        self.caller, self.states, self.inputs = caller, tuple(states), tuple(inputs)
        names = [*states, *inputs]
        symbols = [sympy.Symbol(name, real=True) for name in names]
        self.named = dict(zip(names, symbols, strict=True))
        self.by_place = {f"x{k}": s for k, s in enumerate(symbols) if f"x{k}" not in names}
        self.symbols = self.by_place | self.named
        self.used: set[str] = set()  # names in what was read
        self.tied: dict[Symbol, Expr] = {}  # what replaces parameters

    def __call__(self, value: Any) -> "Expr":
        """An expression of a text, a number or a sympy expression."""
        import sympy

        if isinstance(value, sympy.Expr):
            found = value.xreplace(
                {s: self.named.get(s.name, sympy.Symbol(s.name, real=True)) for s in value.free_symbols}
            )
        elif isinstance(value, str):
            found = parse(value, self.named)
        else:
            return sympy.Float(check_number(self.caller, "a value", value))
        new = {s.name for s in found.free_symbols} - self.used
        self.used |= new
        if new & {*self.by_place, *self.named}:
            warn_of_both_ways(self.caller, self.used, list(self.named))
        found = found.xreplace({sympy.Symbol(name, real=True): s for name, s in self.by_place.items()})
        return found.xreplace(self.tied)


def is_number(value: Any) -> bool:
    """Whether a value is neither text nor an expression."""
    return not isinstance(value, str) and not hasattr(value, "free_symbols")


def is_pair(value: Any) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a list or a tuple."""
    return isinstance(value, Sequence) and not isinstance(value, str)


def pair(caller: str, name: str, given: Any) -> tuple[float, float]:
    """Bounds as two numbers, infinite for None.

    Raises
    ------
    ValueError
        Where these are no numbers, or in the wrong order.
    """
    if not is_pair(given) or len(given) != 2:
        raise ValueError(
            f"{caller}: expected bounds of {name} as (low, high), None or infinity for none, got {given!r}."
        )
    ends = [
        end if given[k] is None else float(given[k])
        for k, end in enumerate((-np.inf, np.inf))
        if given[k] is None or not (isinstance(given[k], bool | str) or np.isnan(float(given[k])))
    ]
    if len(ends) < 2 or not ends[0] < ends[1]:
        raise ValueError(f"{caller}: expected bounds of {name} as numbers low < high, got {given!r}.")
    return ends[0], ends[1]


def read_prior(caller: str, name: str, given: Any) -> Prior | None:
    """A prior from its words; None for None.

    Raises
    ------
    ValueError
        For other words, or a deviation or median that is not positive.
    """
    if given is None:
        return None
    if not is_pair(given) or len(given) != 3 or given[0] not in ("normal", "lognormal"):
        raise ValueError(
            f"{caller}: expected the prior of {name} as ('normal', mean, deviation) or ('lognormal', median, "
            f"deviation of the logarithm), got {given!r}."
        )
    middle = check_number(caller, f"the prior's middle of {name}", given[1])
    deviation = check_number(caller, f"the prior's deviation of {name}", given[2], low=_LEAST_DEVIATION)
    if given[0] == "normal":
        return Prior(middle, deviation)
    if middle <= 0:
        raise ValueError(f"{caller}: expected a positive median of {name}, got {middle!r}.")
    return Prior(float(np.log(middle)), deviation, True)


def tie(read: Reader, fixed: Words | None) -> None:
    """Let a reader replace each parameter that is an expression in others, these replaced too.

    Raises
    ------
    ValueError
        Where parameters depend on each other in a circle.
    """
    import sympy

    found = {
        sympy.Symbol(str(name), real=True): read(value)
        for name, value in dict(fixed or {}).items()
        if not is_number(value)
    }
    for _ in found:
        found = {symbol: e.xreplace(found) for symbol, e in found.items()}
    read.tied = found
    circle = sorted(s.name for s, e in found.items() if e.free_symbols & set(found))
    if circle:
        raise ValueError(
            f"{read.caller}: expected fixed expressions in other parameters, got {', '.join(circle)}, which "
            "depend on each other in a circle."
        )


def fixed_numbers(caller: str, fixed: Words | None) -> dict[str, float]:
    """Parameters that are known numbers."""
    return {
        str(name): check_number(caller, f"the fixed value of {name}", value)
        for name, value in dict(fixed or {}).items()
        if is_number(value)
    }


def check_names(read: Reader, known: Known, names: Sequence[str]) -> None:
    """Hold what is said of parameters and first states to the names that there are.

    Parameters
    ----------
    read : Reader
        Which has read all expressions.
    known : Known
        What is said.
    names : sequence of str
        Parameters that remain.

    Raises
    ------
    ValueError
        Where something is said of a name that is nowhere, or of a parameter that a number or an expression
        fixes; or where a parameter has the name of a function.
    """
    caller, tied = read.caller, {s.name for s in read.tied}
    function = sorted(set(names) & set(FUNCTIONS))
    if function:
        raise ValueError(
            f"{caller}: expected functions with arguments, such as {function[0]}(x), got {function[0]} alone."
        )
    bounds = known.bounds if isinstance(known.bounds, Mapping) else {}
    numbers = fixed_numbers(caller, known.fixed)
    for name, value in numbers.items():
        low, high = pair(caller, name, bounds.get(name, (None, None)))
        if not low <= value <= high:
            raise ValueError(
                f"{caller}: expected a fixed {name} within its bounds ({low:g}, {high:g}), got {value:g}."
            )
    for what in ("bounds", "fixed", "scale", "priors", "start"):
        given = getattr(known, what)
        if given is not None and not isinstance(given, Mapping) and what != "scale":
            raise ValueError(f"{caller}: expected {what} as a dict by name, got {given!r}.")
        if not isinstance(given, Mapping):
            continue
        others = {*read.states} if what in ("bounds", "start", "priors") else set()
        possible = set(names) | others | (tied & read.used if what == "fixed" else tied)
        unknown = sorted(set(map(str, given)) - possible)
        if unknown:
            kind = "starts of parameters or states" if what == "start" else what
            raise ValueError(
                f"{caller}: expected {kind} among {', '.join([*names, *sorted(others)])}, got {unknown}."
            )
        idle = sorted(set(map(str, given)) & set(numbers)) if what in ("priors", "start") else []
        if idle:
            raise ValueError(
                f"{caller}: expected {what} of parameters that are estimated, got that of {idle[0]}, which "
                f"fixed makes {numbers[idle[0]]:g}; leave one out."
            )
        both = sorted(set(map(str, given)) & tied) if what != "fixed" else []
        if both:
            raise ValueError(
                f"{caller}: expected {what} of parameters that are estimated, got that of {both[0]}, which "
                f"fixed makes {dict(known.fixed or {})[both[0]]!r}; say it of the parameters in there."
            )


def check_first_states(caller: str, known: Known, states: Sequence[str], initial: Sequence[Words]) -> None:
    """Hold what is said of first states to those that are given.

    Raises
    ------
    ValueError
        Where a first state is known, and a start or a prior is given too, or bounds that it is beyond.
    """
    for state in states:
        values = [own.get(state) for own in initial]
        settled = [v for v in values if v is not None and not is_pair(v)]
        if len(settled) == len(values):
            for what in ("start", "priors"):
                if state in dict(getattr(known, what) or {}):
                    raise ValueError(
                        f"{caller}: expected {what} of states that are estimated, got that of {state}, which "
                        f"is {settled[0]!r} by initial."
                    )
        if state not in dict(known.bounds or {}):
            continue
        low, high = pair(caller, state, dict(known.bounds or {})[state])
        for value in settled:
            if not is_number(value):
                raise ValueError(
                    f"{caller}: expected no bounds of {state}, which is {value!r} by initial; bound the "
                    "parameters in there."
                )
            if not low <= float(value) <= high:
                raise ValueError(
                    f"{caller}: expected a first {state} within its bounds ({low:g}, {high:g}), got "
                    f"{value!r}."
                )


def common_bounds(
    caller: str, name: str, one: tuple[float, float], other: tuple[float, float]
) -> tuple[float, float]:
    """What two pairs of bounds leave.

    Raises
    ------
    ValueError
        Where that is nothing.
    """
    low, high = max(one[0], other[0]), min(one[1], other[1])
    if not low < high:
        raise ValueError(f"{caller}: expected bounds of {name} that overlap, got {one} and {other}.")
    return low, high
