"""Candidates compared over windows that the best of them can predict, where none follows the whole record.

Beyond its horizon of predictability even the true field, with coefficients a little off, leaves twice the
variance of the samples; no motion leaves it once. Over shorter windows, each with a free start for every
candidate, the one that does not move included, all are judged by what they predict.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fim_dynsys.regression.observed import Observations
from fim_dynsys.regression.refinement import TrajectoryFit
from fim_dynsys.regression.windows import in_windows, split_at
from fim_dynsys.search.candidates import Candidate, judge, no_motion
from fim_dynsys.search.horizon import explains, fit_in_windows, follows, merged
from fim_dynsys.search.pool import Pool, distinct
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import pruned, refine
from fim_dynsys.search.reselection import reselect

LONGER, SHORTEST = 2, 2.0
"""Times, from one length of windows to the next; the first, in units of time."""

_RISE = 1.1  # of the residual variance, beyond which windows are too long
_ITERATIONS = 30  # small gaps between the nodes of a chaotic path grow large where it is integrated
_CLIMBED = 3  # structures that are fitted again over longer windows
_RESELECTED, _RESELECTIONS = 2, 2  # fits about whose windows terms are chosen again, and how often
_EXPLAINED = 1.3  # noise variances left: more is a model that lacks something
LEAST_LENGTH = 20.0
"""Units over which such a model is compared: over short windows many terms mimic any."""

PREDICTED = 10.0
"""Units of time that another choice must predict to replace one that follows the record."""

_LEFT_BOUNDS = 30.0  # root mean squares from which a path has left the data


def compared(pool: Pool, structures: int) -> Pool:
    """Candidates over whole records, or over windows where none of them explains the samples.

    The best structures are fitted over windows of about one unit of time, then over ever longer ones, each
    twice as long, terms pruned and chosen again on the way, for as long as what is left of the samples hardly
    rises; over the longest such windows all are compared.

    Parameters
    ----------
    pool : Pool
        Candidates integrated over whole records.
    structures : int
        Number of structures that are fitted over short windows.

    Returns
    -------
    Pool
        Over windows where no candidate follows whole records, or a choice over windows explains them; over
        whole records where the pool says so, to which those fits are then merged.
    """
    search, found = pool.search, pool.candidates
    if not structures or explains(search.observations, found[0]):
        return pool
    fitted, fits = fit_in_windows(search, found, structures)
    pool = pool.adding(merged(search.observations, fitted, fits))
    level = None if explains(search.observations, pool.candidates[0]) else _climbed(search, fits)
    if level is None:
        return pool
    pool = pool.adding(_in_one_piece(search.observations, level))
    best = pool.candidates[0]
    if pool.whole or explains(search.observations, best):
        return pool
    lacking = level.is_lacking
    if lacking and level.length < LEAST_LENGTH:
        level = level_of(search, LEAST_LENGTH, level.fits) or level
    if level.search.observations.cut is None:
        return pool
    if follows(search.observations, best) and (lacking or level.length < PREDICTED):
        return pool
    seen = level.search
    candidates = distinct(staying(search, judge(seen.observations, [no_motion(seen), *level.candidates])))
    return replace(pool, search=seen, candidates=candidates, lacking=lacking)


@dataclass(frozen=True)
class Level:
    """Fits over windows of one length.

    Attributes
    ----------
    search : Search
        Over the windows.
    length : float
        Of the windows.
    fits : list of (Candidate, nodes (N, d))
        Of different structures, best BIC first.
    candidates : list of Candidate
        All that was fitted over them.
    """

    search: Search
    length: float
    fits: list[tuple[Candidate, np.ndarray]]
    candidates: list[Candidate]

    @property
    def residual_variance(self) -> float:
        """See `residual_variance`, of the best."""
        return residual_variance(self.search.observations, self.fits[0][0])

    @property
    def is_lacking(self) -> bool:
        """Whether the best leaves clearly more than noise."""
        return self.residual_variance > _EXPLAINED


def residual_variance(windows: Observations, candidate: Candidate) -> float:
    """Residual variance of a fit over that of the noise, free numbers and starts accounted for."""
    assert candidate.variance is not None
    spent = candidate.n_parameters / windows.dim + len(windows.samples)
    ratio = float(np.mean(candidate.variance / windows.noise_variance))
    n = windows.n_values / windows.dim
    return ratio * n / max(n - spent, 1.0) if np.isfinite(ratio) else np.inf


def _climbed(search: Search, fits: list[tuple[Candidate, TrajectoryFit]]) -> Level | None:
    """The longest windows over which what is left hardly rises; None where nothing predicts short ones."""
    begun = [(best, np.concatenate(fit.paths)) for best, fit in fits]
    length = SHORTEST
    level = level_of(search, length, begun)
    if level is None:
        return None
    least = level.residual_variance
    while level.search.observations.cut is not None:
        length *= LONGER
        longer = level_of(search, length, level.fits)
        if longer is None or longer.residual_variance > _RISE * least:
            return level
        level, least = longer, min(least, longer.residual_variance)
    return level


def _in_one_piece(observations: Observations, level: Level) -> list[Candidate]:
    """Fits over windows, fitted again to whole records."""
    if level.search.observations.cut is None:
        return level.candidates
    candidates = []
    for candidate, nodes in level.fits:
        paths, count = split_at(observations, nodes), len(level.search.observations.samples)
        best = candidate
        while count > 1 and np.isfinite(best.score):
            count //= LONGER
            best, fit = refine(observations, best, paths, (max(count // len(paths), 1),), _ITERATIONS)
            paths = fit.paths
            candidates.append(best)
    return judge(observations, [c for c in candidates if c.is_finite])


def level_of(
    search: Search,
    length: float,
    begun: Sequence[tuple[Candidate, np.ndarray]],
    fits: int = _RESELECTED,
    rounds: int = _RESELECTIONS,
) -> Level | None:
    """The first structures fitted and pruned over windows of a length, terms chosen again about the best.

    None where none has a finite BIC. ``fits`` and ``rounds`` as for `reselect`.
    """
    windowed = replace(search, observations=in_windows(search.observations, length))
    candidates: list[Candidate] = []
    for candidate, nodes in begun[:_CLIMBED]:
        paths = split_at(windowed.observations, nodes)
        start = np.stack([path[0] for path in paths])
        candidates += pruned(windowed.observations, replace(candidate, start=start), paths, (1,))[0]
    judged = judge(windowed.observations, [c for c in candidates if c.is_finite])
    chosen = reselect(windowed, judged, fits, rounds)
    ranked = sorted([*judged, *chosen], key=lambda c: c.score)
    kept: list[tuple[Candidate, np.ndarray]] = []
    seen: set[bytes] = set()
    for candidate in ranked:
        key = candidate.support.tobytes()
        if key in seen or not np.isfinite(candidate.score) or not candidate.support.any():
            continue
        seen.add(key)
        kept.append((candidate, np.concatenate(candidate.paths(windowed.observations))))
        if len(kept) == _CLIMBED:
            break
    return Level(windowed, length, kept, ranked) if kept else None


def refine_through(observations: Observations, candidate: Candidate) -> Candidate:
    """A candidate fitted over short windows, then over ever longer ones up to those observed."""
    longest = max(t[-1] for t, _ in observations.samples)
    nodes, length = np.concatenate(observations.path), SHORTEST
    while True:
        seen = observations if length >= longest else in_windows(observations, length)
        paths = split_at(seen, nodes)
        begun = replace(candidate, start=np.stack([path[0] for path in paths]))
        candidate, fit = refine(seen, begun, paths, (1,))
        nodes = np.concatenate(fit.paths)
        if length >= longest or not np.isfinite(candidate.score):
            return candidate
        length *= LONGER


def staying(search: Search, candidates: list[Candidate]) -> list[Candidate]:
    """Without fields whose paths leave the data for good within the time observed, where others stay.

    Others that are fitted: that no motion stays says nothing for it.
    """
    fields = np.stack([c.coefficients for c in candidates])
    starts = np.broadcast_to(search.observations.start, (len(fields), *search.observations.start.shape))
    farthest = np.abs(search.paths(fields, starts)).max(axis=(1, 2, 3))
    stays = farthest < _LEFT_BOUNDS  # what is not finite has left
    moves = np.array([c.support.any() for c in candidates])
    if not (stays & moves).any():
        return candidates
    return [c for c, kept in zip(candidates, stays | ~moves, strict=True) if kept]
