"""Long records: structures are sought in a part of them, and what is found is fitted to all."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fim_dynsys.regression.observed import Observations
from fim_dynsys.regression.windows import in_windows, split_at
from fim_dynsys.search.candidates import Candidate, judge, no_motion
from fim_dynsys.search.comparison import (
    LEAST_LENGTH,
    LONGER,
    PREDICTED,
    SHORTEST,
    Level,
    level_of,
    residual_variance,
    staying,
)
from fim_dynsys.search.pool import Pool, distinct
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import refine

SEARCHED = 2000
"""Samples among which the structures of long records are sought."""

_LONG = 2  # times as many samples: fewer are all searched
_STRETCHES, _STRETCH = 4, 50.0  # of which the part consists; units of time in one at least
_CHOSEN = 16.0  # units of time of windows over which terms are chosen first
_RISE = 1.01  # of the residual variance, beyond which windows are too long
_ITERATIONS = 30  # where a path grows fast, small gaps between its nodes close slowly
_FUNCTIONS = 6  # structures with functions that are fitted to all samples


def part_of(observations: Observations) -> Observations | None:
    """Evenly spaced stretches of a long record, about `SEARCHED` samples in all; None where it is not long.

    Nor where so few samples would be less than two stretches: what a record shows only once is not left out.
    """
    if observations.n <= _LONG * SEARCHED:
        return None
    units = SEARCHED / observations.n * sum(t[-1] for t, _ in observations.samples)
    if units < 2.0 * _STRETCH:
        return None
    stretches = in_windows(observations, max(units / _STRETCHES, _STRETCH))
    count = max(round(SEARCHED / observations.n * len(stretches.samples)), 2)
    places = np.unique(np.linspace(0, len(stretches.samples) - 1, count).round().astype(int))
    return replace(stretches.only(places), cut=None)


def restricted(pool: Pool, part: Observations) -> Pool:
    """The pool before a search, of a part of its samples."""
    besides = [replace(candidate, start=part.start) for candidate in pool.besides]
    return replace(pool, search=replace(pool.search, observations=part), besides=judge(part, besides))


def fitted_to_all(pool: Pool, found: Pool) -> Pool | None:
    """What was found in a part of the samples, fitted to all.

    The preferred structure is fitted over ever longer windows, for as long as what is left of the samples
    hardly rises; over the longest such windows, or whole records, terms are pruned and chosen again.

    Parameters
    ----------
    pool : Pool
        All samples, before the search.
    found : Pool
        Of a part of them.

    Returns
    -------
    Pool or None
        None where no structure of the part can be fitted to all samples; or where one follows the whole part
        but lacks something, and only whole records tell which others do better.
    """
    search = pool.search
    begun = _structures([found.preferred, *found.candidates], 1)
    level = _level(search, begun[0]) if begun else None
    if level is None:
        return None
    seen = level.search
    cut = seen.observations.cut is not None
    if cut and not found.in_windows and (level.is_lacking or level.length < PREDICTED):
        return None
    candidates = judge(seen.observations, [no_motion(seen), *level.candidates])
    return replace(
        pool,
        search=seen,
        candidates=distinct(staying(seen, candidates) if cut else candidates),
        functions=_with_functions(seen.observations, found.functions, level.fits[0][1]),
        besides=[],
        lacking=cut and level.is_lacking,
    )


def _structures(candidates: Sequence[Candidate], count: int) -> list[Candidate]:
    """The first so many of different structures that move and have a score."""
    kept: dict[bytes, Candidate] = {}
    for candidate in candidates:
        if candidate.is_finite and np.isfinite(candidate.score) and candidate.support.any():
            kept.setdefault(candidate.structure, candidate)
    return list(kept.values())[:count]


def _level(search: Search, candidate: Candidate) -> Level | None:
    """Fits over long windows that leave hardly more than over short ones; None where none succeeds.

    Terms are pruned and chosen again over windows of medium length, which a wrong field still follows, and
    over half the longest over which a fit succeeds, unless that is of whole records: there all fits do.
    """
    seen = search.observations
    begun = candidate, np.concatenate(seen.path)
    climbed = _climbed(seen, begun, SHORTEST, _CHOSEN)
    level = level_of(search, climbed[-1].length, [climbed[-1].begun], fits=1, rounds=1) if climbed else None
    if level is None:
        return None
    longer = _climbed(seen, level.fits[0], level.length, np.inf)
    if longer:
        last = longer[-1] if longer[-1].whole else longer[max(len(longer) - 2, 0)]
        level = level_of(search, last.length, [last.begun], fits=1, rounds=1) or level
    if level.is_lacking and level.length < LEAST_LENGTH:
        level = level_of(search, LEAST_LENGTH, level.fits, fits=1, rounds=1) or level
    return level


@dataclass(frozen=True)
class _Fit:
    """A candidate fitted over windows of a length, and its states (N, d) at all samples.

    ``whole`` where no piece was cut into windows.
    """

    length: float
    candidate: Candidate
    nodes: np.ndarray
    whole: bool

    @property
    def begun(self) -> tuple[Candidate, np.ndarray]:
        """What fits over other windows begin with."""
        return self.candidate, self.nodes


def _climbed(
    observations: Observations, begun: tuple[Candidate, np.ndarray], length: float, most: float
) -> list[_Fit]:
    """Fits over ever longer windows up to a length, for as long as hardly more is left."""
    fits: list[_Fit] = []
    least = np.inf
    while length <= most:
        seen = in_windows(observations, length)
        begun = _fitted(seen, *begun)
        left = residual_variance(seen, begun[0]) if np.isfinite(begun[0].score) else np.inf
        if not (np.isfinite(left) and left <= _RISE * least):
            break
        fits.append(_Fit(length, *begun, seen.cut is None))
        if seen.cut is None:
            break
        least, length = min(least, left), LONGER * length
    return fits


def _with_functions(
    observations: Observations, candidates: Sequence[Candidate], nodes: np.ndarray
) -> list[Candidate]:
    """The best structures with functions fitted from states (N, d), and judged by integration."""
    fits = [_fitted(observations, candidate, nodes)[0] for candidate in _structures(candidates, _FUNCTIONS)]
    return judge(observations, [fit for fit in fits if np.isfinite(fit.parameters).all()])


def _fitted(
    observations: Observations, candidate: Candidate, nodes: np.ndarray
) -> tuple[Candidate, np.ndarray]:
    """A candidate fitted from states (N, d) at all samples, and its own states there."""
    paths = split_at(observations, nodes)
    begun = replace(candidate, start=np.stack([path[0] for path in paths]))
    fitted, fit = refine(observations, begun, paths, (1,), _ITERATIONS)
    return fitted, np.concatenate(fit.paths)
