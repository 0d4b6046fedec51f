"""Structures chosen again where the data are linear in all coefficients: about the paths of good fits."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fim_dynsys.regression.kernels.subsets import improve_subset
from fim_dynsys.regression.sparse import solve_supports
from fim_dynsys.search.candidates import Candidate, judge, log_alike
from fim_dynsys.search.horizon import follows
from fim_dynsys.search.origins import Stage
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import (
    MAX_TERMS,
    assumed_variance,
    distinct_structures,
    pruned,
    response,
)

PRICES = ((0.5, 0.25), (0.8, 0.5), (1.0, 1.0))
"""Prices of a term at which subsets are chosen: of the BIC's, and of that of its choice among its like."""

FITS, ROUNDS = 4, 3  # by default: of `fim-ode` and `symbolic`, whose other stages take as long
MOST_COEFFICIENTS = 600
"""Dictionaries with more coefficients than that are not searched: the cost grows with their square."""

LEAST_VARIANCE = 0.1
"""Of the noise variance, which may be overestimated: subsets that would leave less are not better for it."""


def reselect(
    search: Search, found: list[Candidate], fits: int = FITS, rounds: int = ROUNDS
) -> list[Candidate]:
    """Structures selected about the paths of the best fits, fitted and pruned.

    About the path of a fit, what is observed is linear in all coefficients, those that the fit does not have
    included. Terms are chosen there by a tabu search at several prices, which are lower for terms that have
    few like them (`log_alike`), fitted to the trajectories and pruned; where that has a smaller BIC, once
    more about its own path. Regressions of slopes see noise and smoothing in every slope; a response sees the
    noise of the samples only.

    Parameters
    ----------
    search : Search
        Data and terms.
    found : list of Candidate
        Judged, best first.
    fits : int
        Number of structures taken: the first that were fitted and follow the data.
    rounds : int
        Largest number of times that terms are chosen again from each.

    Returns
    -------
    list of Candidate
        All new structures found, judged by integration.

    References
    ----------
    A. Miller, Subset Selection in Regression, 2nd ed. (2002), sect. 3.4-3.5, on the linearisation of
    H. G. Bock (1983) that trajectory fits step along.
    """
    if len(search.dictionary) * search.observations.dim > MOST_COEFFICIENTS:
        return []
    fitted = [c for c in found if c.refined]
    seen = {c.support.tobytes() for c in fitted}
    good = [c for c in fitted if follows(search.observations, c)]
    candidates = []
    for best in distinct_structures(good, fits, MAX_TERMS):
        for _ in range(rounds):
            new = _about(search, best, seen)
            candidates += new
            better = min(new, key=lambda c: c.score, default=best)
            if better.score >= best.score:
                break
            best = better
    return candidates


def _about(search: Search, candidate: Candidate, seen: set[bytes]) -> list[Candidate]:
    """New structures chosen about one candidate's path, fitted, pruned and judged."""
    observations, paths = search.observations, candidate.paths(search.observations)
    if not np.isfinite(np.concatenate(paths)).all():
        return []
    candidates = []
    for chosen in chosen_subsets(*_response(search, candidate, paths)):
        known = candidate.restriction
        coefficients = chosen if known is None else known.clipped(known.coefficients(chosen[:, 0]))
        support = coefficients != 0.0
        if support.tobytes() in seen or not chosen.any():
            continue
        origin = candidate.origin.then(Stage.RESELECTION)
        start = replace(candidate, coefficients=coefficients, origin=origin)
        found = pruned(observations, start, paths, (1,))[0]
        seen.update(c.support.tobytes() for c in found)
        candidates += [c for c in found if c.is_finite]
    return judge(observations, candidates)


def _response(
    search: Search, candidate: Candidate, paths: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray, float, np.ndarray, np.ndarray, int, float]:
    """What `chosen_subsets` takes, about a candidate's paths."""
    observations = search.observations
    assumed = assumed_variance(observations, candidate)
    about = response(observations, candidate, assumed, paths)
    least = LEAST_VARIANCE * float(np.mean(observations.noise_variance / assumed))
    alike = 2.0 * log_alike(search.dictionary, observations.dim)
    if candidate.restriction is not None:
        numbers, alike = (
            candidate.restriction.numbers(values)[:, None] for values in (candidate.coefficients, alike)
        )
        return *about, numbers, alike, observations.n_values, least
    return *about, candidate.coefficients, alike, observations.n_values // observations.dim, least


def chosen_subsets(
    information: np.ndarray,
    score: np.ndarray,
    misfit: float,
    coefficients: np.ndarray,
    alike: np.ndarray,
    n: int,
    least: float,
) -> list[np.ndarray]:
    """Coefficients (m, d) of the subsets that a linearised fit suggests, one for each of `PRICES`.

    Parameters
    ----------
    information, score : arrays (m d, m d), (m d,)
        Half the second derivatives of the misfit by all coefficients, and minus half the first.
    misfit : float
        Weighted sum of squares of the fit; nothing is suggested where it is not finite.
    coefficients : array (m, d)
        What it is linearised about, whose subset each search begins with.
    alike : array (m, d)
        Price of the choice of each, `log_alike` twice.
    n : int
        Number of samples.
    least : float
        Mean weighted square below which a misfit is not worth lowering.

    Returns
    -------
    list of array (m, d)
    """
    now, samples = coefficients.ravel(), n * coefficients.shape[1]
    moment = information @ now + score
    total = misfit + now @ (moment + score)
    equations = np.block([[information, moment[:, None]], [moment[None], np.array([[total]])]])
    if not np.isfinite(equations).all():
        return []
    equations /= least
    found = []
    for price, choice in PRICES:
        penalty = price * math.log(samples) + choice * alike.ravel()
        active, _ = improve_subset(equations, penalty, samples, MAX_TERMS, now != 0.0)
        found.append(solve_supports(information, moment, active).reshape(coefficients.shape))
    return found
