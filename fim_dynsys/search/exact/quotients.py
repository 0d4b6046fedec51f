"""Right-hand sides that are quotients, read off clean samples by regressions linear in both parts."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.terms import Dictionary, union
from fim_dynsys.regression.sparse import subset_residuals, subsets_of
from fim_dynsys.search.functions.exploration import products
from fim_dynsys.search.functions.families import INNER, SECOND, Bundle, powers
from fim_dynsys.search.functions.regressions import Integrals
from fim_dynsys.search.sides import Side

_ORDERS = (2, 3, 4, 6, 8)  # of Hill's functions
_OF_PAIRS = ((1, 1), (2, 2), (3, 3), (4, 4), (1, 2), (2, 1))  # of factors; 1 is Michaelis and Menten's
_RESOLVED = 4.0  # times the variance of what is no misfit: what is less counts as nothing
_FOUND, _SHARED = 1e2, 1e4  # likewise: of a side that needs nothing else, and of one that others may share
_PRODUCTS_UP_TO = 3  # states
_MOST_TERMS = 5  # beside the denominator
_MOST_SUBSETS, _MOST_SELECTED = 2500, 6000  # that are tried of one size
_EQUAL = 1e-3  # of a number: what another differs by that is the same one
_FITTED = 8  # of them
_ROUNDS, _DIFFERENCE = 3, 1e-5  # of a fit of numbers; steps of differences
_NEAR = 1e8  # times what is left of squares: numbers may be off
_ROUNDING = 1e-12  # of squares, by normal equations
_RANK = 1e-13  # of unit columns
_TRIED, _KEPT = 6, 3  # denominators and right-hand sides of each state
_PLAIN = {1: 3}  # degree of monomials beside the quotient and above it, by number of states; or 2


@dataclass(frozen=True)
class _Form:
    """Denominators ``1 + sum_k b_k m_k(x)`` of one kind, and the functions they are written with.

    Attributes
    ----------
    monomials : Dictionary
        The ``m_k``.
    bundle : callable
        From the ``b_k`` to functions; None where these are none of the kind.
    """

    monomials: Dictionary
    bundle: Callable[[np.ndarray], Bundle | None]


@dataclass(frozen=True)
class _Terms:
    """Terms and the numbers inside them that are free: (term, slot)."""

    terms: Dictionary
    free: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of_functions(cls, sides: Sequence[Side]) -> "_Terms":
        """Terms of sides that have functions."""
        out = cls(sides[0].terms.subset(slice(0)))
        for side in sides:
            out += cls(side.terms, side.free).subset(np.flatnonzero(side.terms.kind))
        return out

    @classmethod
    def of_bundle(cls, bundle: Bundle, dim: int) -> "_Terms":
        """Products of a bundle's functions and its monomials."""
        functions, multiples = bundle.dictionary(dim), bundle.multiples(dim)
        free = [(m * len(functions) + k, slot) for m in range(len(multiples)) for k, slot, _ in bundle.free]
        return cls(products(multiples, functions), tuple(free))

    def subset(self, kept: np.ndarray) -> "_Terms":
        """Some of them."""
        place = {int(term): k for k, term in enumerate(kept)}
        return _Terms(self.terms.subset(kept), tuple((place[t], slot) for t, slot in self.free if t in place))

    def __add__(self, other: "_Terms") -> "_Terms":
        moved = tuple((term + len(self.terms), slot) for term, slot in other.free)
        return _Terms(self.terms + other.terms, self.free + moved)

    def times(self, exponents: np.ndarray) -> Dictionary:
        """The terms times a monomial."""
        return replace(self.terms, exponents=self.terms.exponents + exponents)


def quotients(regressions: Integrals) -> list[list[Side]]:
    """Right-hand sides (d,), best first, of regressions along paths between clean samples.

    ``x' = Q(x) / P(x)`` is linear in both polynomials as ``x' = Q(x) - (P(x) - 1) x'`` where ``P(0) = 1``,
    and its integral needs no slopes: that of a monomial times ``x'`` is one over ``x``. Denominators found so
    are written as the functions of `Kind`, about which terms are selected anew; of all subsets of few terms,
    since on a short orbit many do alike. No number is sought by trial. Powers, square roots and logarithms,
    which have no numbers, are tried in the same way.

    What is found for one state may be a term of another: what leaves one enters another.

    Source: K. Kaheman, J. N. Kutz and S. L. Brunton, SINDy-PI, Proc. R. Soc. A 476 (2020) 20200279.

    Parameters
    ----------
    regressions : Integrals
        Of clean samples, in units of what is no misfit.

    Returns
    -------
    d lists of Side
        Scored by BIC.
    """
    dim = len(regressions.targets)
    plain = _Terms(Dictionary.polynomial(dim, _PLAIN.get(dim, 2)))
    prepared = [_Prepared.of(regressions, form, plain) for form in _forms(dim)]
    sides = [_of_state(regressions, state, prepared, plain) for state in range(dim)]
    for state, target in enumerate(regressions.targets):
        best = [own[0] for k, own in enumerate(sides) if k != state and own]
        shared = [side for side in best if side.score < len(target) * math.log(_SHARED)]
        resolved = any(side.score < len(target) * math.log(_FOUND) for side in sides[state])
        if shared and not resolved:
            known = plain + _Terms.of_functions(shared)
            anew = [_Prepared.of(regressions, own.form, known) for own in prepared]
            own = _of_state(regressions, state, anew, known)
            sides[state] = sorted([*own, *sides[state]], key=lambda side: side.score)[:_KEPT]
    return _shared_numbers(sides)


def _shared_numbers(sides: list[list[Side]]) -> list[list[Side]]:
    """The sides with equal numbers in place of nearly equal ones inside the same function of a state."""
    known: dict[tuple[int, int, int, int], list[float]] = {}
    out = []
    for own in sides:
        out.append([_with_known_numbers(side, known) for side in own])
        for term, slot in out[-1][0].free if own else ():
            key, number = _number(out[-1][0], term, slot)
            known.setdefault(key, []).append(number)
    return out


def _number(side: Side, term: int, slot: int) -> tuple[tuple[int, int, int, int], float]:
    """What a number is inside of, and its value."""
    terms = side.terms
    key = int(terms.kind[term]), int(terms.coordinate[term]), int(terms.partner[term]), slot
    return key, float((terms.inner, terms.second)[slot][term])


def _with_known_numbers(side: Side, known: dict[tuple[int, int, int, int], list[float]]) -> Side:
    for key, number in [_number(side, term, slot) for term, slot in side.free]:
        close = [other for other in known.get(key, ()) if abs(other - number) < _EQUAL * abs(number)]
        side = _with_number(side, number, close[0]) if close else side
    return side


@dataclass(frozen=True)
class _Prepared:
    """The columns of a form's numerators, with their degrees, and of its denominator, for each state."""

    form: _Form
    degrees: np.ndarray
    above: list[np.ndarray]
    below: list[np.ndarray]

    @classmethod
    def of(cls, regressions: Integrals, form: _Form, plain: _Terms) -> "_Prepared":
        """About some terms."""
        multiplied = [plain.times(powers) for powers in form.monomials.exponents]
        numerators = union([plain.terms, *multiplied])[0]
        above, below = _columns(regressions, numerators), regressions.against(form.monomials)
        return cls(form, numerators.exponents.sum(axis=1), above, below)

    def regressed(self, state: int, target: np.ndarray) -> tuple[float, np.ndarray]:
        """Least criterion with the whole denominator, and its coefficients; inf where there are poles."""
        columns = np.column_stack([self.above[state], -self.below[state]])
        count, size = self.below[state].shape[1], np.linalg.norm(columns, axis=0)
        if not (np.isfinite(columns).all() and (size > 0.0).all()):
            return math.inf, np.zeros(0)
        held = np.arange(len(size) - count, len(size))
        degrees = np.append(self.degrees, np.zeros(count, dtype=np.int64))
        fits = _fewest(columns / size, target, held, degrees, _MOST_SUBSETS)
        criterion, active = min(fits, key=lambda fit: fit[0])
        values = np.linalg.lstsq(columns[:, active] / size[active], target, rcond=_RANK)[0]
        return criterion, values[-count:] / size[held]


def _of_state(regressions: Integrals, state: int, prepared: Sequence[_Prepared], plain: _Terms) -> list[Side]:
    """Sides of one state, best first; a polynomial where it is better."""
    dim, target = len(regressions.targets), regressions.targets[state]
    denominators = []
    for one in prepared:
        criterion, values = one.regressed(state, target)
        bundle = one.form.bundle(values) if math.isfinite(criterion) else None
        if bundle is not None:
            denominators.append((criterion, _Terms.of_bundle(bundle, dim)))
    sides: dict[bytes, Side] = {}
    ordered = sorted(denominators, key=lambda pair: pair[0])[:_TRIED]
    given = [_Terms.of_bundle(bundle, dim) for bundle in _given(dim)]
    for every in [plain, *(plain + terms for terms in given), *(plain + terms for _, terms in ordered)]:
        side = _selected(regressions, state, every)
        if side is not None:
            sides.setdefault(side.structure, side)
    return sorted(sides.values(), key=lambda side: side.score)[:_KEPT]


def _columns(regressions: Integrals, terms: Dictionary) -> list[np.ndarray]:
    return regressions.columns(terms, Dictionary.polynomial(terms.dim, 0))


def _fewest(
    columns: np.ndarray, target: np.ndarray, held: np.ndarray, degrees: np.ndarray, most: int
) -> list[tuple[float, np.ndarray]]:
    """The subset of columns of each small size that leaves least, with its BIC; those held last in all.

    Subsets are compared by normal equations, whose rounding is that of squares; the best are fitted. Of those
    that leave nothing, on an orbit that conserves something, the one of the lowest degrees.
    """
    n, rest = len(target), np.setdiff1d(np.arange(columns.shape[1]), held)
    ordered = np.column_stack([columns[:, held], columns[:, rest], target])
    triangle = np.linalg.qr(ordered)[1][len(held) :, len(held) :]
    equations = triangle.T @ triangle
    rounding = max(n * _RESOLVED, _ROUNDING * equations[-1, -1])
    found = []
    for terms in range(1, min(_MOST_TERMS, len(rest)) + 1):
        if math.comb(len(rest), terms) > most:
            break
        every = subsets_of(len(rest), terms)
        missed = np.maximum(subset_residuals(equations, every), rounding)
        fits = []
        for row in np.lexsort((degrees[rest][every].sum(axis=1), missed))[:_FITTED]:
            own = triangle[:, every[row]]
            left = triangle[:, -1] - own @ np.linalg.lstsq(own, triangle[:, -1], rcond=_RANK)[0]
            fits.append((_criterion(left, n, terms + len(held)), np.append(rest[every[row]], held)))
        found.append(min(fits, key=lambda fit: (round(fit[0], 6), degrees[fit[1]].sum())))
    return found


def _criterion(left: np.ndarray, n: int, parameters: int) -> float:
    """BIC of ``n`` samples."""
    return n * math.log(max(left @ left / n, _RESOLVED)) + parameters * math.log(n)


def _selected(regressions: Integrals, state: int, every: _Terms) -> Side | None:
    """The side of few terms with the smallest BIC; None where there are poles.

    Numbers inside functions are given, and fitted where fewer terms would do with nearly the same ones.
    """
    columns, target = _columns(regressions, every.terms)[state], regressions.targets[state]
    size = np.linalg.norm(columns, axis=0)
    if not (np.isfinite(columns).all() and (size > 0.0).all()):
        return None
    degrees = every.terms.exponents.sum(axis=1) + (every.terms.kind > 0)
    fits = _fewest(columns / size, target, np.zeros(0, dtype=np.intp), degrees, _MOST_SELECTED)
    sides = [_side(regressions, state, every.subset(active)) for _, active in fits]
    best = min(sides, key=lambda side: side.score)
    near = [side for side in sides if len(side.terms) < len(best.terms) and side.free]
    near = [side for side in near if side.score < best.score + len(target) * math.log(_NEAR)]
    return min([best, *(_tuned(regressions, state, side) for side in near)], key=lambda side: side.score)


def _side(regressions: Integrals, state: int, terms: _Terms) -> Side:
    """Terms with coefficients by least squares."""
    values, left, _ = _regressed(regressions, state, terms.terms)
    side = Side(terms.terms, values, terms.free)
    return replace(side, score=_criterion(left, len(left), len(values) + len(_numbers(side))))


def _regressed(
    regressions: Integrals, state: int, terms: Dictionary
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coefficients, what they leave, and the columns."""
    columns, target = _columns(regressions, terms)[state], regressions.targets[state]
    size = np.linalg.norm(columns, axis=0)
    size[~(size > 0.0)] = 1.0
    values = np.linalg.lstsq(columns / size, target, rcond=_RANK)[0] / size
    return values, target - columns @ values, columns


def _numbers(side: Side) -> list[float]:
    """The different free numbers inside functions."""
    return list(dict.fromkeys(_number(side, term, slot)[1] for term, slot in side.free))


def _tuned(regressions: Integrals, state: int, side: Side) -> Side:
    """The side with its numbers fitted (Golub and Pereyra's variable projection, in Kaufman's form)."""
    for _ in range(_ROUNDS):
        values, left, columns = _regressed(regressions, state, side.terms)
        basis = np.linalg.qr(columns)[0]
        numbers = _numbers(side)
        slopes = []
        for number in numbers:
            step = _DIFFERENCE * abs(number)
            moved = _columns(regressions, _with_number(side, number, number + step).terms)[state]
            change = (moved - columns) @ values / step
            slopes.append(change - basis @ (basis.T @ change))
        steps = np.linalg.lstsq(np.column_stack(slopes), left, rcond=_RANK)[0]
        trial = side
        for number, step in zip(numbers, steps.tolist(), strict=True):
            trial = _with_number(trial, number, number + step)
        new = _side(regressions, state, _Terms(trial.terms, trial.free))
        if not new.score < side.score:
            break
        side = new
    return side


def _with_number(side: Side, number: float, value: float) -> Side:
    inner, second = side.terms.inner.copy(), side.terms.second.copy()
    for term, slot in side.free:
        if _number(side, term, slot)[1] == number:
            (inner, second)[slot][term] = value
    return replace(side, terms=replace(side.terms, inner=inner, second=second))


def _given(dim: int) -> Iterator[Bundle]:
    """Functions without free numbers: powers of a state, square roots of all of them, logarithms."""
    yield from (starts[0] for starts in powers(dim))
    for c in range(dim):
        yield Bundle(f"logarithm x{c}", ((Kind.LOG, c, 1.0, 0.0, -1),))
    yield Bundle("square roots", tuple((Kind.POWER, c, 1.0, 0.5, -1) for c in range(dim)))


def _forms(dim: int) -> Iterator[_Form]:
    """Denominators of one state, of two, and products of two of one."""
    unit, degree = np.eye(dim, dtype=np.int64), _PLAIN.get(dim, 2)
    for c in range(dim):
        for order in (1, *_ORDERS):
            yield _Form(Dictionary(order * unit[[c]]), _single(c, order, degree))
        yield _Form(Dictionary(np.stack([unit[c], 2 * unit[c]])), _quadratic(c, degree))
    for c, e in itertools.combinations(range(dim), 2):
        yield _Form(Dictionary(unit[[c, e]]), _linear_in_two(c, e, degree))
        for p, q in _OF_PAIRS if dim <= _PRODUCTS_UP_TO else ():
            exponents = np.stack([p * unit[c], q * unit[e], p * unit[c] + q * unit[e]])
            yield _Form(Dictionary(exponents), _product(_single(c, p, degree), _single(e, q, degree)))


def _single(c: int, order: int, degree: int) -> Callable[[np.ndarray], Bundle | None]:
    kinds = (Kind.HILL, Kind.RECIPROCAL) if order == 1 else (Kind.SATURATION, Kind.INHIBITION)
    shape = 0.0 if order == 1 else float(order)

    def bundle(b: np.ndarray) -> Bundle | None:
        if order > 1 and not b[0] > 0.0:
            return None
        inner = float(b[0]) if order == 1 else float(b[0] ** (1.0 / order))
        functions = tuple((kind, c, inner, shape, -1) for kind in kinds)
        return Bundle(f"quotient x{c}", functions, ((0, INNER, 0), (1, INNER, 0)), degree)

    return bundle


def _quadratic(c: int, degree: int) -> Callable[[np.ndarray], Bundle | None]:
    def bundle(b: np.ndarray) -> Bundle | None:
        if b[0] == 0.0:
            return None
        function = (Kind.QUADRATIC_RECIPROCAL, c, float(b[0]), float(b[1] / b[0] ** 2), -1)
        return Bundle(f"quotient x{c}", (function,), ((0, INNER, 0), (0, SECOND, 1)), degree)

    return bundle


def _linear_in_two(c: int, e: int, degree: int) -> Callable[[np.ndarray], Bundle | None]:
    def bundle(b: np.ndarray) -> Bundle:
        function = (Kind.RECIPROCAL, c, float(b[0]), float(b[1]), e)
        return Bundle(f"quotient x{c}, x{e}", (function,), ((0, INNER, 0), (0, SECOND, 1)), degree)

    return bundle


def _product(
    first: Callable[[np.ndarray], Bundle | None], second: Callable[[np.ndarray], Bundle | None]
) -> Callable[[np.ndarray], Bundle | None]:
    def bundle(b: np.ndarray) -> Bundle | None:
        one, other = first(b[:1]), second(b[1:2])
        return None if one is None or other is None else one + other

    return bundle
