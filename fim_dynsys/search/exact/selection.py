"""Right-hand sides of few terms, chosen by regressions along paths between noise-free samples."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.kernels.subsets import residuals_of
from fim_dynsys.regression.sparse import subsets_that_leave_least
from fim_dynsys.search.exact.models import KNEE_OF_SIMULATIONS
from fim_dynsys.search.functions.exploration import difference
from fim_dynsys.search.functions.families import Bundle
from fim_dynsys.search.functions.regressions import Integrals
from fim_dynsys.search.state_equations import StateEquation

_RESOLVED = 4.0  # times the variance of what is no misfit: what is less counts as nothing
_MOST_TERMS = 5  # of a right-hand side, beside those given
_MOST_SELECTED = 9000  # subsets that are tried of one size: three of 35 terms
_FITTED = 8  # of them
_FOUND = 1e2  # times the variance of what is no misfit: a side that needs nothing else
_NUMBER_FITS, _DIFFERENCE = 3, 1e-5  # of a fit of numbers; steps of differences
_GAIN = 0.1  # of a round, in BIC: less ends a fit of numbers
_PARTS = (1.0, 0.2)  # of a step that are tried
_NEAR = 1e8  # times what is left of squares: numbers may be off
_ROUNDING = 1e-12  # of squares, by normal equations
RANK = 1e-13
"""Of unit columns: directions that the samples determine less."""


@dataclass(frozen=True)
class Terms:
    """Terms and the numbers inside them that are free: (term, slot)."""

    terms: Dictionary
    free: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of_functions(cls, sides: Sequence[StateEquation]) -> "Terms":
        """Terms of sides that have functions."""
        out = cls(sides[0].terms.subset(slice(0)))
        for side in sides:
            out += cls(side.terms, side.free).subset(np.flatnonzero(side.terms.kind))
        return out

    @classmethod
    def of_bundle(cls, bundle: Bundle, dim: int) -> "Terms":
        """Products of a bundle's functions and its monomials."""
        functions, multiples = bundle.dictionary(dim), bundle.multiples(dim)
        free = [(m * len(functions) + k, slot) for m in range(len(multiples)) for k, slot, _ in bundle.free]
        return cls(multiples.times(functions), tuple(free))

    def subset(self, kept: np.ndarray) -> "Terms":
        """Some of them."""
        place = {int(term): k for k, term in enumerate(kept)}
        return Terms(self.terms.subset(kept), tuple((place[t], slot) for t, slot in self.free if t in place))

    def __add__(self, other: "Terms") -> "Terms":
        moved = tuple((term + len(self.terms), slot) for term, slot in other.free)
        return Terms(self.terms + other.terms, self.free + moved)

    def times(self, exponents: np.ndarray) -> Dictionary:
        """The terms times a monomial."""
        return replace(self.terms, exponents=self.terms.exponents + exponents)


def columns_of(
    regressions: Integrals, terms: Dictionary, states: Sequence[int] | None = None
) -> list[np.ndarray]:
    """Integrals (n, m) of terms for some states; default: each."""
    return regressions.columns(terms, Dictionary.polynomial(terms.dim, 0), states)


def fewest(
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
    design = np.ascontiguousarray(triangle.T)
    found = []
    for terms in range(1, min(_MOST_TERMS, len(rest)) + 1):
        if math.comb(len(rest), terms) > most:
            break
        subsets, _ = subsets_that_leave_least(equations, terms, degrees[rest], rounding, most=_FITTED)
        unexplained = residuals_of(design[:-1], design[-1], subsets, RANK)
        fits = [
            (_criterion(left, n, terms + len(held)), np.append(rest[subset], held))
            for left, subset in zip(unexplained.tolist(), subsets, strict=True)
        ]
        found.append(min(fits, key=lambda fit: (round(fit[0], 6), degrees[fit[1]].sum())))
    return found


def _criterion(unexplained: float, n: int, parameters: int) -> float:
    """BIC of ``n`` samples of which a sum of squares is left."""
    return n * math.log(max(unexplained / n, _RESOLVED)) + parameters * math.log(n)


def at_the_knee(criterion: float, n: int, parameters: int) -> float:
    """A BIC of ``n`` samples in which a parameter more must lower what is left by a factor.

    Where samples err by their integration, what is left is smooth, and terms that are not there follow it.
    """
    return criterion + parameters * (2.0 * n * math.log(KNEE_OF_SIMULATIONS) - math.log(n))


def selected(regressions: Integrals, state: int, every: Terms) -> StateEquation | None:
    """The side of few terms with the smallest BIC; None where there are poles.

    Numbers inside functions are given, and fitted where fewer terms would do with nearly the same ones.
    """
    sides = of_each_size(regressions, state, every)
    if not sides:
        return None
    best = min(sides, key=lambda side: side.score)
    near = [side for side in sides if len(side.terms) < len(best.terms) and side.free]
    near = [
        side for side in near if side.score < best.score + len(regressions.targets[state]) * math.log(_NEAR)
    ]
    return min([best, *(tuned(regressions, state, side) for side in near)], key=lambda side: side.score)


def of_each_size(regressions: Integrals, state: int, every: Terms) -> list[StateEquation]:
    """Of each small number of terms the side that leaves least; none where there are poles."""
    (columns,), target = columns_of(regressions, every.terms, [state]), regressions.targets[state]
    size = np.linalg.norm(columns, axis=0)
    if not (np.isfinite(columns).all() and (size > 0.0).all()):
        return []
    degrees = every.terms.exponents.sum(axis=1) + (every.terms.kind > 0)
    fits = fewest(columns / size, target, np.zeros(0, dtype=np.intp), degrees, _MOST_SELECTED)
    return [side_of(regressions, state, every.subset(active)) for _, active in fits]


def side_of(regressions: Integrals, state: int, terms: Terms) -> StateEquation:
    """Terms with coefficients by least squares."""
    return _regressed(regressions, state, terms)[0]


def is_found(regressions: Integrals, state: int, *sides: StateEquation) -> bool:
    """Whether any of some sides leaves so little that no other is needed."""
    enough = len(regressions.targets[state]) * math.log(_FOUND)
    return any(side.score < enough for side in sides)


def _regressed(
    regressions: Integrals, state: int, terms: Terms
) -> tuple[StateEquation, np.ndarray, np.ndarray]:
    """Terms with coefficients by least squares, what they leave, and their columns."""
    (columns,), target = columns_of(regressions, terms.terms, [state]), regressions.targets[state]
    size = np.linalg.norm(columns, axis=0)
    size[~(size > 0.0)] = 1.0
    values = np.linalg.lstsq(columns / size, target, rcond=RANK)[0] / size
    residual, side = target - columns @ values, StateEquation(terms.terms, values, terms.free)
    score = _criterion(float(residual @ residual), len(residual), len(values) + len(_numbers(side)))
    return replace(side, score=score), residual, columns


def _numbers(side: StateEquation) -> list[float]:
    """The different free numbers inside functions."""
    return list(dict.fromkeys(number_in(side, term, slot)[1] for term, slot in side.free))


def tuned(
    regressions: Integrals, state: int, side: StateEquation, rounds: int = _NUMBER_FITS
) -> StateEquation:
    """The side with its numbers fitted (Golub and Pereyra's variable projection, in Kaufman's form)."""
    _, residual, columns = _regressed(regressions, state, Terms(side.terms, side.free))
    for _ in range(rounds):
        basis = np.linalg.qr(columns)[0]
        numbers = _numbers(side)
        slopes = []
        for number in numbers:
            step = difference(number, _DIFFERENCE)
            rows = sorted({t for t, slot in side.free if number_in(side, t, slot)[1] == number})
            moved = with_numbers(side, {number: number + step}).terms.subset(np.array(rows))
            change = columns_of(regressions, moved, [state])[0] - columns[:, rows]
            slope = change @ side.coefficients[rows] / step
            slopes.append(slope - basis @ (basis.T @ slope))
        steps = np.linalg.lstsq(np.column_stack(slopes), residual, rcond=RANK)[0].tolist()
        for part in _PARTS:
            now = {number: number + part * step for number, step in zip(numbers, steps, strict=True)}
            trial = with_numbers(side, now)
            new, *rest = _regressed(regressions, state, Terms(trial.terms, trial.free))
            if new.score < side.score:
                break
        else:
            break
        gained = side.score - new.score
        side, (residual, columns) = new, rest
        if gained < _GAIN:
            break
    return side


def with_numbers(side: StateEquation, numbers: Mapping[float, float]) -> StateEquation:
    """The side with other values in place of numbers inside its functions."""
    inside = [part.copy() for part in side.terms.numbers]
    for term, slot in side.free:
        inside[slot][term] = numbers.get(inside[slot][term], inside[slot][term])
    return replace(side, terms=side.terms.with_numbers(*inside))


def number_in(side: StateEquation, term: int, slot: int) -> tuple[tuple[int, int, int, int], float]:
    """What a number is inside of, and its value."""
    terms = side.terms
    key = int(terms.kind[term]), int(terms.coordinate[term]), int(terms.partner[term]), slot
    return key, float(terms.numbers[slot][term])
