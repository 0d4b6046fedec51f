"""Structures that noise-free samples suggest, each with its neighbour: terms by regression, and functions."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from fim_dynsys.fields.terms import Dictionary, union
from fim_dynsys.regression.kernels.subsets import improve_subset, search_subset
from fim_dynsys.regression.precise import COARSE, FINE, RESOLVED, Field, Precise
from fim_dynsys.regression.sparse import smallest_subset
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.exact.models import NOISELESS, packed_field
from fim_dynsys.search.exact.regressed import regressed
from fim_dynsys.search.functions.combination import monomials
from fim_dynsys.search.functions.exploration import Exploration
from fim_dynsys.search.functions.families import Bundle, families, powers
from fim_dynsys.search.functions.regressions import Integrals, Piece
from fim_dynsys.search.origins import Origin, Stage
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import MAX_TERMS
from fim_dynsys.search.state_equations import StateEquation

_STEPS = 6  # of Newton's method
_RANK = 1e-9  # of unit columns: directions that the samples determine less are left where they are
_REGRESSED = (1e-6, 1e-3)  # likewise, of slopes
_LEVELS = (1.0, 1e2, 1e4, 1e6)  # factors of the least variance at which subsets are chosen
_TOLERANCES = (1e2, 1e4)  # likewise, of functions
_QUADRATURE = 0.1  # longest step, in units of time
_FINEST = 8  # steps from one sample to the next
_UNIT, _LEAST = 0.01, 1e-8  # of what a path misses: its own error; of the signal, likewise
_SECANTS, _BESIDE, _FAR = 4, 1.01, 0.5  # steps towards a number, the first, and how far it is sought


def starts(search: Search) -> Iterator[Candidate]:
    """Polynomials that Newton's steps start from: regressions of smoothed slopes."""
    states, slopes = (np.concatenate(part) for part in zip(*search.observations.splines, strict=True))
    columns = search.dictionary.evaluate(states)
    for tolerance in _REGRESSED:
        values = _least_squares(columns, slopes, tolerance)
        yield Candidate(values, search.observations.start, search.dictionary, Origin(Stage.NEIGHBOURS))


def over(dictionary: Dictionary, item: Candidate) -> Candidate:
    """A polynomial item over more monomials than its own."""
    wide, (_, rows) = union([dictionary, item.dictionary])
    coefficients = np.zeros((len(wide), wide.dim))
    coefficients[rows] = item.coefficients
    return replace(item, coefficients=coefficients, dictionary=wide)


def newton(precise: Precise, item: Candidate) -> tuple[Candidate, float]:
    """All coefficients of an item's terms by least squares from each sample to the next.

    From one sample to the next a field is nearly linear in its coefficients: a few steps do.

    Returns
    -------
    item : Candidate
        Its numbers inside functions are those given.
    misses : float
        Root mean square of what it misses, in standard deviations of the coordinates.
    """
    now = best = item.coefficients
    misses = np.inf
    for _ in range(_STEPS):
        missed, by_terms = _about(precise, item, now, min(max(misses * misses, FINE), COARSE))
        rms = float(np.sqrt(np.mean(missed**2)))
        if not rms < misses:
            break
        settled = rms > 0.5 * misses
        best, misses = now, rms
        if settled or not np.isfinite(by_terms).all():
            break
        now = best + _least_squares(by_terms, missed).reshape(best.shape)
    return replace(item, coefficients=best), misses


def subsets(precise: Precise, item: Candidate) -> Iterator[Candidate]:
    """Structures that the samples suggest about an item, at several levels of what is missed.

    About one of few terms the search begins with these.
    """
    now = item.coefficients.ravel()
    missed, columns = _about(precise, item, item.coefficients, FINE)
    if not (np.isfinite(missed).all() and np.isfinite(columns).all()):
        return
    target = missed + columns @ now
    size = _sizes(columns)
    scaled = np.column_stack([columns / size, target])
    equations = scaled.T @ scaled
    n = len(target)
    rest = missed - columns @ _least_squares(columns, missed)
    rounding = float(np.mean(precise.resolution**2 / precise.signal))
    least = max(float(rest @ rest) / n, rounding, RESOLVED**2)
    penalty = np.full(len(now), math.log(n))
    degree = np.repeat(item.dictionary.exponents.sum(axis=1), precise.data.dim)
    seen = set()
    for level in _LEVELS:
        if least * level * n > 0.1 * equations[-1, -1]:
            return
        units = equations / (least * level)
        if np.count_nonzero(now) > MAX_TERMS:
            active, _ = search_subset(units, penalty, n, MAX_TERMS)
        else:
            active, _ = improve_subset(units, penalty, n, MAX_TERMS, now != 0.0)
        of_few = [
            _of_few(equations, active, precise.data.dim, least * level * n, cost) for cost in (None, degree)
        ]
        for kept in (active, *of_few):
            if kept.any() and kept.tobytes() not in seen:
                seen.add(kept.tobytes())
                values = np.zeros_like(now)
                values[kept] = _least_squares(columns[:, kept], target)
                values = values.reshape(item.coefficients.shape)
                yield replace(item, coefficients=values).in_use()


def _of_few(
    equations: np.ndarray, active: np.ndarray, dim: int, most: float, cost: np.ndarray | None = None
) -> np.ndarray:
    """A subset of no more terms in any coordinate that misses no more than ``most``, or the same.

    Of several such the one that misses least, or of the smallest cost. On one orbit terms may be tied by what
    it conserves: exchanges of a term or two do not find the way from one form of a right-hand side to
    another, all subsets of few terms do.
    """
    active = active.copy()
    for coordinate in range(dim):
        terms = np.arange(coordinate, len(active), dim)
        others = np.flatnonzero(active & (np.arange(len(active)) % dim != coordinate))
        index = np.append(terms, len(active))
        crossed = equations[np.ix_(others, index)]
        known = equations[np.ix_(others, others)]
        misses = equations[np.ix_(index, index)] - crossed.T @ np.linalg.lstsq(known, crossed, rcond=1e-12)[0]
        prices = None if cost is None else cost[terms]
        subset = smallest_subset(misses, most, int(active[terms].sum()), prices)
        if subset is not None:
            active[terms] = subset[0]
    return active


def _about(
    precise: Precise, item: Candidate, coefficients: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Gaps of all coefficients of an item's terms and their derivatives."""
    field = _linear_field(item)
    with np.errstate(all="ignore"):
        steps = precise.steps(field, coefficients.ravel(), tolerance)
        return precise.gaps(field, coefficients.ravel(), steps)


def _linear_field(item: Candidate) -> Field:
    """The item's arrays by all of its coefficients, the numbers inside its functions given."""
    given = replace(item, free=np.zeros((0, 3), dtype=np.intp))
    return packed_field(given, np.ones(item.coefficients.shape, dtype=bool))


def _sizes(columns: np.ndarray) -> np.ndarray:
    size = np.sqrt(np.einsum("ij,ij->j", columns, columns))
    return np.where(size > 0, size, 1.0)


def _least_squares(columns: np.ndarray, target: np.ndarray, rank: float = _RANK) -> np.ndarray:
    size = _sizes(columns)
    values = np.linalg.lstsq(columns / size, target, rcond=rank)[0]
    return values / (size if target.ndim == 1 else size[:, None])


def widened(search: Search, item: Candidate) -> Candidate:
    """The item over all monomials, and its functions alone and times each coordinate."""
    terms = item.dictionary
    functions = terms.subset(np.flatnonzero(terms.kind > 0))
    multiples = [
        replace(functions, exponents=np.tile(power, (len(functions), 1)))
        for power in np.eye(terms.dim + 1, terms.dim, k=-1, dtype=int)
    ]
    wide, (_, rows, *_others) = union([search.dictionary, terms, *multiples])
    coefficients = np.zeros((len(wide), terms.dim))
    coefficients[rows] = item.coefficients
    free, inside = set(), [wide.function(k) for k in range(len(wide))]
    for term, slot, label in item.labelled:
        same = terms.function(term)
        free |= {(k, slot, label) for k, function in enumerate(inside) if function == same}
    labels = tuple(sorted({label for *_, label in free}))
    table = [(term, slot, labels.index(label)) for term, slot, label in sorted(free)]
    rows = np.array(table, dtype=np.intp).reshape(-1, 3)
    return replace(item, coefficients=coefficients, dictionary=wide, free=rows, labels=labels)


def tuned(precise: Precise, search: Search, item: Candidate) -> Candidate:
    """The item with the numbers inside its functions that leave least where all terms about them are free.

    Fitted together with few terms that are not the right ones, numbers are off; among all terms what is left
    falls to the digits at the right number alone, in proportion to the distance from it.
    """

    def misses(number: float, k: int) -> float:
        parameters = item.parameters
        parameters[k] = number
        missed = newton(precise, widened(search, item.with_parameters(parameters)))[1]
        return missed if math.isfinite(missed) else math.inf

    count = len(item.parameters)
    for k in range(count - len(item.labels), count):
        now = float(item.parameters[k])
        seen = [(misses(number, k), number) for number in (now, now * _BESIDE)]
        for _ in range(_SECANTS):
            (low, a), (high, b) = sorted(seen)[:2]
            if not (RESOLVED < low < high < math.inf):
                break
            for sign in (-1.0, 1.0):  # both on one side of the right number, or it is between them
                number = (high * a + sign * low * b) / (high + sign * low)
                if abs(number - now) < _FAR * abs(now):
                    seen.append((misses(number, k), number))
        parameters = item.parameters
        parameters[k] = min(seen)[1]
        item = item.with_parameters(parameters)
    return item


def with_functions(
    precise: Precise, search: Search, dense: Candidate, misses: float, most: int
) -> Iterator[Candidate]:
    """Structures with functions that fit along the paths of a dense polynomial between the samples.

    Parameters
    ----------
    precise, search
        The samples.
    dense : Candidate
        From `newton`, on monomials.
    misses : float
        What it misses.
    most : int
        Number of structures whose numbers are fitted.
    """
    exploration, tried = _explored(precise, search, dense, misses)
    chosen = [s for family in tried for start in family for s in exploration.select(start, _TOLERANCES)]
    by_tolerance = [
        sorted((s for s in chosen if s.tolerance == tolerance), key=lambda s: s.criterion)
        for tolerance in _TOLERANCES
    ]
    in_turn = (s for group in itertools.zip_longest(*by_tolerance) for s in group if s is not None)
    for selection in itertools.islice(in_turn, most):
        settled = exploration.settle(selection)
        yield exploration.model(settled)
        if settled.tolerance != _TOLERANCES[0]:
            for finer in exploration.select(settled.bundle, _TOLERANCES[:1]):
                yield exploration.model(finer)


def of_few_terms(
    precise: Precise, search: Search, dense: Candidate, misses: float, most: int
) -> Iterator[Candidate]:
    """Structures of one state with few terms and one number, sought wherever it may be.

    On a short orbit of one state many terms do alike, and no start tells which: all subsets are tried.
    Arguments as for `with_functions`, ``most`` the number of terms; best first.
    """
    if dense.dictionary.dim > 1 or most < 1:
        return
    exploration, tried = _explored(precise, search, dense, misses)
    ones = [family for family in tried if len(family[0].numbers) == 1]
    found = [selection for family in ones for selection in exploration.scan(family, _TOLERANCES[0], most)]
    for selection in sorted(found, key=lambda s: s.criterion):
        yield exploration.model(selection)


def right_hand_sides(
    precise: Precise,
    search: Search,
    dense: Candidate,
    misses: float,
    composed: bool = False,
    with_sums: bool = True,
) -> list[list[StateEquation]]:
    """Right-hand sides (d,) of single states, see `regressed`. Arguments as for `with_functions`."""
    integrals = _integrals(precise, search, dense, misses)
    return regressed(integrals, composed, with_sums, simulated=misses < NOISELESS)


def _explored(
    precise: Precise, search: Search, dense: Candidate, misses: float
) -> tuple[Exploration, list[list[Bundle]]]:
    integrals = _integrals(precise, search, dense, misses)
    tried = families(search.observations.angle) + powers(search.observations.dim)
    return Exploration(integrals, monomials(search), dense, len(tried), few=True), tried


def _integrals(precise: Precise, search: Search, dense: Candidate, misses: float) -> Integrals:
    observations = search.observations
    pieces = _between(precise, dense, observations.samples)
    unit = max(_UNIT * misses, _LEAST) ** 2 * precise.signal + precise.resolution**2
    return Integrals(observations, pieces, unit, observations.n)


def _between(
    precise: Precise, dense: Candidate, samples: Sequence[tuple[np.ndarray, np.ndarray]]
) -> list[Piece]:
    longest = max(float(np.diff(t).max()) for t, _ in samples)
    steps = min(max(math.ceil(longest / _QUADRATURE), 2), _FINEST)
    steps = _FINEST if dense.dictionary.dim == 1 else steps  # a state alone tells terms apart by little
    coefficients = dense.coefficients
    field = _linear_field(dense)
    with np.errstate(all="ignore"):
        paths = precise.between(field, coefficients.ravel(), steps)
    return [
        Piece(path, lengths, steps * np.arange(len(t)), np.zeros((0, 4, 0)))
        for (path, lengths), (t, _) in zip(paths, samples, strict=True)
    ]
