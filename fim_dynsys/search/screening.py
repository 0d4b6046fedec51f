"""Models of many states, where each equation has few neighbours: terms are screened for each state alone."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.kernels.subsets import search_subset
from fim_dynsys.regression.observed import Observations
from fim_dynsys.regression.sparse import subset_residuals, subsets_of
from fim_dynsys.search.candidates import Candidate, judge, log_alike
from fim_dynsys.search.functions.regressions import Integrals, follow, smooth
from fim_dynsys.search.origins import Origin, Stage
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import pruned

FEWEST_STATES, FEWEST_SAMPLES = 7, 50
"""Where it is worth it: with fewer states dictionaries have degree 3, fewer samples tell nothing apart."""

_DEGREE, _MOST_MONOMIALS = 2, 500  # of the monomials; as many of which regressions are still fast
_LARGEST = 2e7  # numbers in the regressions of all states
_MOST_TERMS = 8  # of an equation
_PATHS = 3  # about which terms are chosen, each that of the fit before
_EXHAUSTIVE = 3  # terms: all subsets of so many are compared, of those that are linear or hold the state
_SEGMENTS = 6  # with free starts
_FLOORS = (1.0, 1.5)  # of the noise variance: less is not worth lowering, for paths have errors too
_HIGHER = 6.0  # of the criterion, which terms of the second degree must gain together


def screened(search: Search) -> tuple[Search, list[Candidate]]:
    """A search that has the monomials which some equation seems to need, and models of these.

    The integral of ``x_i' = f_i(x)`` along a path is a linear regression for each state i alone, from which
    subsets of monomials up to degree 2 are chosen: first along the smoothed samples, then along the path of
    the best fit to the trajectories. A term costs the logarithm of the number of samples and twice that
    of the number of its like (extended BIC): of what holds the state itself there is little, of products of
    two others much.

    Source: J. Chen and Z. Chen, Biometrika 95 (2008) 759 (extended BIC); H. Schaeffer and S. G. McCalla,
    Phys. Rev. E 96 (2017) 023302 (sparse regressions in integral form).

    Parameters
    ----------
    search : Search
        Among polynomials, without inputs or knowledge.

    Returns
    -------
    search : Search
        The same with more monomials where its own are of degree 1.
    models : list of Candidate
        Of it, fitted and judged, as found; none below `FEWEST_STATES` or `FEWEST_SAMPLES`, nor beyond
        thirty states or some hundred MB (20 states of 4,300 samples).
    """
    seen = search.observations
    monomials = math.comb(seen.dim + _DEGREE, _DEGREE)
    small = monomials <= _MOST_MONOMIALS and monomials * seen.dim * seen.n <= _LARGEST
    if seen.dim < FEWEST_STATES or seen.n < FEWEST_SAMPLES or not small:
        return search, []
    terms = Dictionary.polynomial(seen.dim, _DEGREE)
    tried: set[bytes] = set()
    models = [model for floor in _FLOORS for model in _models(seen, terms, floor, tried)]
    kept = terms.exponents.sum(axis=1) <= search.dictionary.degree
    for model in models:
        kept |= model.support.any(axis=1)
    wider = replace(search, dictionary=terms.subset(np.flatnonzero(kept)))
    return wider, [
        replace(model, coefficients=model.coefficients[kept], dictionary=wider.dictionary) for model in models
    ]


def _models(seen: Observations, terms: Dictionary, floor: float, tried: set[bytes]) -> Iterator[Candidate]:
    """Fitted models of all terms, each chosen about the path of the one before for as long as they improve.

    Structures that were tried are not fitted again.
    """
    pieces, paths, start, best = smooth(seen), seen.path, seen.start, math.inf
    for _ in range(_PATHS):
        values = _chosen(Integrals(seen, pieces, seen.noise_variance, _SEGMENTS), terms, seen.n, floor)
        structure = (values != 0.0).tobytes()
        if structure in tried:
            return
        tried.add(structure)
        used = np.flatnonzero(values.any(axis=1))
        first = Candidate(values[used], start, terms.subset(used), Origin(Stage.SCREENING))
        candidates = judge(seen, [model for model in pruned(seen, first, paths)[0] if model.is_finite])
        for model in candidates:
            wide = np.zeros_like(values)
            wide[used] = model.coefficients
            yield replace(model, coefficients=wide, dictionary=terms)
        followed = follow(seen, candidates[0]) if candidates and candidates[0].score < best else None
        if followed is None:
            return
        pieces, start, best = followed, candidates[0].start, candidates[0].score
        paths = [piece.path[::2][piece.observed] for piece in pieces]


def _chosen(regressions: Integrals, terms: Dictionary, n: int, floor: float) -> np.ndarray:
    """Coefficients (m, d) of the terms chosen for each state."""
    degree = terms.exponents.sum(axis=1)
    prices = math.log(n) + 2.0 * log_alike(terms, terms.dim)
    values = np.zeros((len(terms), terms.dim))
    columns = regressions.columns(terms, Dictionary.polynomial(terms.dim, 0))
    for state, (columns_of_state, target) in enumerate(zip(columns, regressions.targets, strict=True)):
        price = np.ascontiguousarray(prices[:, state])
        size = np.linalg.norm(columns_of_state, axis=0)
        unit = np.column_stack([columns_of_state / np.where(size > 0.0, size, 1.0), target])
        equations = unit.T @ unit / floor
        linear = search_subset(equations, np.where(degree < _DEGREE, price, np.inf), n, _MOST_TERMS)
        every = search_subset(equations, price, n, _MOST_TERMS)
        near = np.flatnonzero((degree < _DEGREE) | (terms.exponents[:, state] > 0))
        few = _fewest(equations, price, near, n)
        active, _ = min(linear, few, (every[0], every[1] + _HIGHER), key=lambda found: found[1])
        values[active, state] = np.linalg.lstsq(columns_of_state[:, active], target, rcond=None)[0]
    return values


def _fewest(equations: np.ndarray, price: np.ndarray, near: np.ndarray, n: int) -> tuple[np.ndarray, float]:
    """The best of all small subsets of some terms, and its criterion, as `search_subset` has it."""
    nearby = equations[np.ix_([*near, -1], [*near, -1])]
    best, lowest = np.zeros(0, dtype=np.intp), math.inf
    for size in range(1, _EXHAUSTIVE + 1):
        subsets = subsets_of(len(near), size)
        missed = np.maximum(subset_residuals(nearby, subsets) / n, 1.0)
        criteria = n * np.log(missed) + price[near][subsets].sum(axis=1)
        row = int(np.argmin(criteria))
        if criteria[row] < lowest:
            best, lowest = near[subsets[row]], float(criteria[row])
    active = np.zeros(len(price), dtype=bool)
    active[best] = True
    return active, lowest
