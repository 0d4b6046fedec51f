"""Textbook families of functions beyond monomials, with starts for the numbers inside them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import NamedTuple

import numpy as np

from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.terms import NUMBERS, Dictionary
from fim_dynsys.search.origins import named
from fim_dynsys.trajectories.container import Trajectories

INNER, SECOND, SHIFT = range(len(NUMBERS))
# Exponents of `powers`, which are not fitted: of forces at a distance, and of flows, surfaces and bubbles.
_INVERSE, _HALF = (-1.0, -2.0, -3.0, -4.0, -5.0), (-2.5, -2.0, -1.5, -1.0, -0.5, 0.5, 1.5)


class Group(Enum):
    """Functions that occur together."""

    TRIGONOMETRIC = "angles and waves"
    ALGEBRAIC = "rational functions, powers and logarithms"
    EXPONENTIAL = "growth, decay and sigmoids"


_GROUPS = {
    Kind.SIN: Group.TRIGONOMETRIC,
    Kind.COS: Group.TRIGONOMETRIC,
    Kind.EXP: Group.EXPONENTIAL,
    Kind.TANH: Group.EXPONENTIAL,
    Kind.GAUSSIAN: Group.EXPONENTIAL,
    Kind.ARRHENIUS: Group.EXPONENTIAL,
    Kind.SIN_SQUARE: Group.TRIGONOMETRIC,
    Kind.COS_SQUARE: Group.TRIGONOMETRIC,
}


class Function(NamedTuple):
    """A function without a monomial, see `Kind`."""

    kind: Kind
    coordinate: int
    inner: float = 1.0
    second: float = 0.0
    partner: int = -1
    shift: float = 0.0

    def with_number(self, slot: int, value: float) -> "Function":
        """The same function with another number in a slot."""
        return Function(**{**self._asdict(), NUMBERS[slot]: value})


@dataclass(frozen=True)
class Bundle:
    """Functions that a field is allowed to use together, all times monomials.

    Attributes
    ----------
    name : str
        Family and coordinates.
    functions : tuple of Function
    free : tuple of (function, slot, number)
        Which numbers are fitted: slot `INNER`, `SECOND` or `SHIFT` of a function is one of the bundle's
        numbers, which functions may share.
    degree : int
        Largest total degree of the monomials.
    apart : bool
        Whether the monomials are of other coordinates than the functions', whose multiples are among them.
    """

    name: str
    functions: tuple[Function, ...]
    free: tuple[tuple[int, int, int], ...] = ()
    degree: int = 1
    apart: bool = False

    @property
    def group(self) -> Group:
        """The group of the first function."""
        return _GROUPS.get(self.functions[0].kind, Group.ALGEBRAIC)

    @property
    def numbers(self) -> np.ndarray:
        """Values of the free numbers (k,)."""
        out = np.zeros(1 + max((number for *_, number in self.free), default=-1))
        for function, slot, number in self.free:
            out[number] = getattr(self.functions[function], NUMBERS[slot])
        return out

    def at(self, numbers: Sequence[float] | np.ndarray) -> "Bundle":
        """The same bundle with other values of the free numbers."""
        functions = list(self.functions)
        for function, slot, number in self.free:
            functions[function] = functions[function].with_number(slot, float(numbers[number]))
        return replace(self, functions=tuple(functions))

    def dictionary(self, dim: int) -> Dictionary:
        """The functions as terms without monomials."""
        kind, coordinate, inner, second, partner, shift = zip(*self.functions, strict=True)
        return _functions(dim, kind, coordinate, partner).with_numbers(inner, second, shift)

    def multiples(self, dim: int) -> Dictionary:
        """The monomials that the functions may have as factors."""
        used = {function.coordinate for function in self.functions} if self.apart else ()
        return _monomials(dim, self.degree, frozenset(used))

    def __add__(self, other: "Bundle") -> "Bundle":
        """Both together, their numbers apart."""
        functions, numbers = len(self.functions), len(self.numbers)
        free = tuple((f + functions, slot, k + numbers) for f, slot, k in other.free)
        return Bundle(
            f"{self.name} and {other.name}",
            self.functions + other.functions,
            self.free + free,
            max(self.degree, other.degree),
            self.apart and other.apart,
        )


@cache
def _functions(
    dim: int, kind: tuple[int, ...], coordinate: tuple[int, ...], partner: tuple[int, ...]
) -> Dictionary:
    """Functions without monomials, whatever their numbers."""
    return Dictionary(np.zeros((len(kind), dim), int), kind, coordinate, partner=partner)


@cache
def _monomials(dim: int, degree: int, without: frozenset[int]) -> Dictionary:
    """All monomials up to a degree in which some coordinates do not occur."""
    every = Dictionary.polynomial(dim, degree)
    return every.subset(np.flatnonzero(~every.exponents[:, sorted(without)].any(axis=1)))


_RADIANS = dict.fromkeys(("", "1", "rad", "radian", "radians"), 1.0)
_RADIANS |= dict.fromkeys(("deg", "degree", "degrees", "°"), np.pi / 180.0)


def radians_per_unit(trajectories: Trajectories) -> np.ndarray:
    """Radians (d,) in the unit of each state: 1 where it has none, nan where that is none of angles."""
    units = [trajectories.units.get(name, "") for name in trajectories.state_names]
    return np.array([_RADIANS.get(unit.strip(), np.nan) for unit in units])


def families(angle: np.ndarray, n_inputs: int = 0) -> list[list[Bundle]]:
    """Bundles for every coordinate, from the textbooks of mechanics, chemistry and biology.

    Numbers start at several multiples of each state's root mean square; angles have frequencies 1 and 2,
    too. Sources: S. H. Strogatz, Nonlinear Dynamics and Chaos; J. D. Murray,
    Mathematical Biology I (rational and saturating rates, ch. 1-6); E. Beltrami, Mathematics for Dynamic
    Modeling (exponential and power laws).

    Parameters
    ----------
    angle : array (d,)
        Root mean square of each state, the unit of the arguments, in radians; nan where it is no angle.
    n_inputs : int
        Of these, the last ones. Families of all states at once leave them out.

    Returns
    -------
    list of lists of Bundle
        One list per family, of its starts.
    """
    dim = len(angle)
    out = []
    for c in range(dim):
        out += _of_one_coordinate(c, angle[c])
        for e in range(c + 1, dim):
            difference = tuple(Function(kind, c, -angle[c], angle[e], e) for kind in (Kind.SIN, Kind.COS))
            out.append([Bundle(f"difference of angles {named(c)}, {named(e)}", difference, degree=0)])
    states = angle[: dim - n_inputs]
    out += _rings(states) if len(states) > 1 else []
    return [
        starts for starts in out if not any(np.isnan((f.inner, f.second)).any() for f in starts[0].functions)
    ]


def _complements(
    name: str, kinds: tuple[Kind, ...], c: int, inner: float, second: float = 0.0, fixed: bool = False
) -> Bundle:
    """A function and its complement with shared numbers."""
    functions = tuple(Function(kind, c, inner, second) for kind in kinds)
    return Bundle(f"{name} {named(c)}", functions, () if fixed else ((0, INNER, 0), (1, INNER, 0)))


def _single(
    name: str,
    kind: Kind,
    c: int,
    inner: float,
    second: float = 0.0,
    slots: tuple[int, ...] = (INNER,),
    degree: int = 1,
) -> Bundle:
    free = tuple((0, slot, k) for k, slot in enumerate(slots))
    return Bundle(f"{name} {named(c)}", (Function(kind, c, inner, second),), free, degree)


def hill(c: int, order: int, inner: float, degree: int = 1) -> Bundle:
    """Hill's function of coordinate ``c``, and its complement; of order 1, Michaelis and Menten's."""
    kinds = (Kind.HILL, Kind.RECIPROCAL) if order == 1 else (Kind.SATURATION, Kind.INHIBITION)
    name = "saturation" if order == 1 else f"Hill {order}"
    complements = _complements(name, kinds, c, inner, 0.0 if order == 1 else float(order))
    return replace(complements, degree=degree)


def powers(dim: int) -> list[list[Bundle]]:
    """Inverse and half powers of each coordinate, as `families`: attraction at a distance, outflow, bubbles.

    Any of them together times monomials of the other coordinates: many terms, for noise-free data.
    """
    out = []
    for c in range(dim):
        for name, exponents in (("inverse", _INVERSE), ("half", _HALF)):
            functions = tuple(Function(Kind.POWER, c, 1.0, p) for p in exponents)
            out.append([Bundle(f"{name} powers {named(c)}", functions, degree=2, apart=True)])
    return out


def _of_one_coordinate(c: int, angle: float) -> list[list[Bundle]]:
    waves = (Kind.SIN, Kind.COS)
    out = [
        [_complements("angle", waves, c, angle, fixed=True)],
        [_complements("double angle", waves, c, 2.0 * angle, fixed=True)],
        [_complements("wave", waves, c, k) for k in (0.7, 1.5, 3.0)],
        [hill(c, 1, k) for k in (0.1, 0.3, 1.0, 3.0, 10.0)],
        [_single("growth", Kind.EXP, c, k) for k in (0.3, 1.0, 3.0)],
        [_single("decay", Kind.EXP, c, -k) for k in (0.3, 1.0, 3.0)],
        [_single("logarithm", Kind.LOG, c, 1.0, slots=())],
        [_single("negative power", Kind.POWER, c, 1.0, p, (SECOND,), 2) for p in (-2.5, -1.5, -0.7)],
        [_single("broken power", Kind.POWER, c, 1.0, p, (SECOND,), 2) for p in (0.5, 1.5)],
        [
            _single("sigmoid", Kind.TANH, c, k, -k * b, (INNER, SECOND))
            for k in (1.0, 3.0, 8.0)
            for b in (-1.0, -0.5, 0.0, 0.5, 1.0)
        ],
        [_single("kink", Kind.ABSOLUTE, c, 1.0, -b, (SECOND,), 0) for b in (-1.0, -0.5, 0.0, 0.5, 1.0)],
        [_kinks(c, b) for b in (0.3, 0.6, 1.0)],
        [_single("inverse square", Kind.SQUARED_RECIPROCAL, c, k) for k in (-0.5, 0.5, 2.0)],
    ]
    for order in (2, 3, 4, 8):
        out.append([hill(c, order, k) for k in (0.5, 1.0, 2.0)])
    return out


def _kinks(c: int, place: float) -> Bundle:
    """Kinks on both sides of 0 of coordinate ``c``, as in Chua's circuit."""
    functions = Function(Kind.ABSOLUTE, c, 1.0, place), Function(Kind.ABSOLUTE, c, -1.0, place)
    return Bundle(f"two kinks {named(c)}", functions, ((0, SECOND, 0), (1, SECOND, 0)), 0)


def _rings(angle: np.ndarray) -> list[list[Bundle]]:
    """One function of the same kind for each coordinate: rings of genes, networks, coupled oscillators."""
    dim = len(angle)
    out = []

    def ring(
        name: str,
        kind: Kind,
        inner: Sequence[float],
        second: float = 0.0,
        degree: int = 0,
        fixed: bool = False,
    ) -> Bundle:
        functions = tuple(Function(kind, c, inner[c], second) for c in range(dim))
        free = () if fixed else tuple((c, INNER, c) for c in range(dim))
        return Bundle(name, functions, free, degree)

    for kind in (Kind.INHIBITION, Kind.SATURATION):
        for order in (2, 3, 4, 8):
            name = f"{kind.name.lower()} {order} of each"
            out.append([ring(name, kind, [k] * dim, float(order)) for k in (1.0, 2.0)])
    out.append([ring("saturation of each", Kind.HILL, [k] * dim, degree=1) for k in (1.0, 3.0)])
    out.append([ring("root of each", Kind.POWER, [1.0] * dim, 0.5, fixed=True)])
    out.append([ring("tanh of each", Kind.TANH, [k] * dim) for k in (1.0, 3.0)])
    out.append([ring("sine of each", Kind.SIN, list(angle), fixed=True)])
    if dim > 2:
        pairs = [(c, e) for c in range(dim) for e in range(c + 1, dim)]
        functions = tuple(Function(Kind.SIN, c, -angle[c], angle[e], e) for c, e in pairs)
        out.append([Bundle("differences of all angles", functions, degree=0)])
    return out
