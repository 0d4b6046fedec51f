"""Structures near good ones: terms added where the residuals ask for them, and pruned again."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fim_dynsys.regression.refinement import TrajectoryFit, expected_gains
from fim_dynsys.search.candidates import Candidate, judge
from fim_dynsys.search.origins import Stage
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import assumed_variance, refine, refine_and_prune, response

_TRIED = 4  # terms in each round
_SMALL = 1e-9  # coefficient of an added term at first, so that it counts as one


def grow(search: Search, candidate: Candidate, rounds: int = 3, tried: int = _TRIED) -> list[Candidate]:
    """Add the terms that promise most to a fitted candidate, fit and prune, for as long as BIC falls.

    Parameters
    ----------
    search : Search
        Data and terms.
    candidate : Candidate
        Where to start.
    rounds : int
        Largest number of terms added.
    tried : int
        Terms tried in each round.

    Returns
    -------
    list of Candidate
        All structures met, judged by integration, best first.
    """
    best, fit = refine(search, candidate, search.observations.path)
    candidates = [best]
    for _ in range(rounds):
        if not np.isfinite(best.score):
            break
        gains = _gains(search, best, fit)
        order = np.argsort(gains)[::-1][:tried]
        found = []
        for k in order[gains[order] > 0.0]:
            found += _fitted(search, best, int(k), fit.paths)
        candidates += found
        better = min(found, key=lambda c: c.score, default=best)
        if better.score >= best.score:
            break
        best, fit = refine(search, better, fit.paths, (1,))
    return judge(search, [c for c in candidates if c.is_finite])


def _gains(search: Search, candidate: Candidate, fit: TrajectoryFit) -> np.ndarray:
    assumed = assumed_variance(search.observations, candidate)
    information, score, _ = response(search, candidate, assumed, fit.paths, fit.initial_states)
    return expected_gains(information, score, _in_use(candidate))


def _in_use(candidate: Candidate) -> np.ndarray:
    """Which coefficients, row by row, or free numbers are not zero."""
    known = candidate.restriction
    return candidate.support.ravel() if known is None else known.numbers(candidate.coefficients) != 0.0


def _fitted(search: Search, start: Candidate, added: int, paths: Sequence[np.ndarray]) -> list[Candidate]:
    """Fits of a structure with one coefficient, or free number, more and of what remains of it."""
    origin = start.origin if start.origin.passed(Stage.GROWTH) else start.origin.then(Stage.GROWTH)
    known = start.restriction
    # a number of exactly zero would not count as a term
    if known is None:
        small = start.coefficients.copy()
        small.flat[added] = _SMALL
    else:
        numbers = known.numbers(start.coefficients)
        numbers[added] = _SMALL if known.high[added] > 0.0 else -_SMALL
        small = known.coefficients(numbers)
    return refine_and_prune(search, replace(start, coefficients=small, origin=origin), paths, (1,))
