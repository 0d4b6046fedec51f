"""Candidates judged and fitted over short horizons: for chaotic data, which few follow from start to end."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from fim_dynsys.regression.observed import Observations, padded_curves
from fim_dynsys.regression.refinement import TrajectoryFit
from fim_dynsys.regression.rollout import rollout
from fim_dynsys.regression.smoothing import Smoother
from fim_dynsys.search.candidates import Candidate, judge, score
from fim_dynsys.search.problem import Search
from fim_dynsys.search.proposals import propose
from fim_dynsys.search.pruning import (
    ITERATIONS,
    distinct_structures,
    most_terms,
    pruned,
    refine,
)

_HORIZON = 1.0  # time in which the state travels one standard deviation
_TERMS_PER_STATE = 25  # most terms of a structure that is fitted
_UNEXPLAINED = 0.5  # of the variance of the motion: above, a candidate explains nothing
_STILL = 1e-12  # of the mean square: a coordinate of less variance does not move
_SAMPLES_PER_UNIT = 6  # of time: smoothed noise has one or two
_NOISE_ALONE = 2.0  # times the noise variance
_LEAST = 4  # samples in a window: a start takes as much from the data as one of them tells
_MERGED = 3  # windows at a time
_MERGED_FITS = 3  # best fits over windows that are merged
_LAST_ITERATIONS = 30  # small gaps between the nodes of a chaotic path grow large where it is integrated


def follows(observations: Observations, candidate: Candidate) -> bool:
    """Whether an integrated candidate explains half of the variance of the samples at least."""
    if candidate.variance is None:
        return False
    moving = np.maximum(observations.signal_variance, _STILL)
    return bool(np.mean(candidate.variance / moving) < _UNEXPLAINED)


def resolves_motion(observations: Observations) -> bool:
    """Whether the smoothed paths are most of the samples' variance, and samples are many in each turn.

    That tells a long record of motion from noise, of which a smoother leaves little, or all.
    """
    moving = np.maximum(observations.signal_variance, _STILL)
    smooth = np.var(np.concatenate(observations.path), axis=0)
    units = sum(t[-1] for t, _ in observations.samples)
    return bool(np.mean(smooth / moving) > _UNEXPLAINED and observations.n > _SAMPLES_PER_UNIT * units > 0.0)


def explains(observations: Observations, candidate: Candidate) -> bool:
    """Whether what an integrated candidate leaves of the samples is hardly more than their noise."""
    return candidate.variance is not None and bool(
        np.mean(candidate.variance / observations.noise_variance) < _NOISE_ALONE
    )


def fit_in_windows(
    search: Search, candidates: list[Candidate], structures: int
) -> tuple[list[Candidate], list[tuple[Candidate, TrajectoryFit]]]:
    """The structures that predict best one unit of time ahead, fitted with a free start in every window.

    Parameters
    ----------
    search : Search
        Data and terms.
    candidates : list of Candidate
        Where structures and starts are taken from; scores are not used.
    structures : int
        Number of structures that are fitted and pruned.

    Returns
    -------
    fitted : list of Candidate
        All that were fitted.
    fits : list of (Candidate, TrajectoryFit)
        What remains of each structure, best BIC first.
    """
    count = window_count(search.observations)
    fitted, fits = [], {}
    ranked = _judged(search, candidates)
    for candidate in distinct_structures(ranked, structures, most_terms(search.observations.dim)):
        found, best, fit = pruned(search.observations, candidate, search.observations.path, (count,))
        fitted += found
        fits[best.support.tobytes()] = best, fit
    return fitted, sorted(fits.values(), key=lambda fit: fit[0].score)


def merged(
    observations: Observations, candidates: list[Candidate], fits: list[tuple[Candidate, TrajectoryFit]]
) -> list[Candidate]:
    """Fits of `fit_in_windows` with ever fewer windows, until one is left; all that was found, best first.

    A wrong structure, and a right one with coefficients that are a little off, leave a chaotic path equally
    soon: integrated from start to end they cannot be distinguished, nor is a fit in few pieces likely to find
    the way. So the best fits are fitted again with a third as many windows each time.
    """
    candidates = list(candidates)
    for best, fit in fits[:_MERGED_FITS]:
        remaining = window_count(observations)
        while remaining > 1 and np.isfinite(best.score):
            remaining = max(remaining // _MERGED, 1)
            steps = _LAST_ITERATIONS if remaining == 1 else ITERATIONS
            best, fit = refine(observations, best, fit.paths, (remaining,), steps)
            candidates.append(best)
    return judge(observations, [c for c in candidates if c.is_finite])


def gather_windowed(search: Search, structures: int, smoothers: Sequence[Smoother]) -> list[Candidate]:
    """Sparse regressions ranked by how well each predicts one unit of time ahead, the best fitted likewise.

    Trajectories are cut into windows of about one unit of time. A candidate is integrated over each from its
    smoothed first state; the best structures are fitted with a free start in every window, and pruned.

    Parameters
    ----------
    search : Search
        Data and terms.
    structures : int
        Number of structures that are fitted.
    smoothers : sequence of Smoother
        Whose slopes are regressed.

    Returns
    -------
    list of Candidate
        Scored by the BIC of their windows, best first: on the nodes of its fit where a candidate was fitted.
    """
    count = window_count(search.observations)
    ranked = _judged(search, propose(search, range(1, search.dictionary.degree + 1), smoothers))
    candidates = []
    for candidate in distinct_structures(ranked, structures, _TERMS_PER_STATE * search.observations.dim):
        candidates += pruned(search.observations, candidate, search.observations.path, (count,))[0]
    candidates = [c for c in candidates if c.is_finite]
    return sorted(ranked + candidates, key=lambda c: c.score)


def refine_over_windows(observations: Observations, candidate: Candidate) -> Candidate:
    """The candidate's coefficients fitted to the trajectories with a free start in every window."""
    return refine(observations, candidate, observations.path, (window_count(observations),))[0]


def window_count(observations: Observations) -> int:
    """Windows of about one unit of time in a piece, on average."""
    return max(sum(map(_count, observations.samples)) // len(observations.samples), 1)


def _count(piece: tuple[np.ndarray, np.ndarray]) -> int:
    """Windows of about one unit of time in a piece, of four samples at least."""
    t, _ = piece
    return max(min(round(t[-1] / _HORIZON), len(t) // _LEAST), 1)


def _windows(observations: Observations) -> tuple[np.ndarray, ...]:
    """Padded windows: smoothed first states (W, d), times (W, m), samples and weights (W, m, d).

    Behind these longest steps and inputs between the samples.
    """
    parts = []
    seen = observations
    for (t, z), path, weights, curves, limits in zip(
        seen.samples, seen.path, seen.weights, seen.curves, seen.limits, strict=True
    ):
        bounds = np.round(np.linspace(0, len(t), _count((t, z)) + 1)).astype(int)
        parts += [
            (
                path[a],
                t[a:b] - t[a],
                z[a:b],
                weights[a:b],
                curves[a : b - 1],
                np.append(limits[a : b - 1], 1.0),
            )
            for a, b in pairwise(bounds)
        ]
    longest = max(len(part[1]) for part in parts)

    def padded(arrays: Iterable[np.ndarray], mode: Literal["edge", "constant"]) -> np.ndarray:
        return np.stack(
            [np.pad(a, [(0, longest - len(a)), *[(0, 0)] * (a.ndim - 1)], mode=mode) for a in arrays]
        )

    starts, times, samples, weights, inputs, steps = zip(*parts, strict=True)
    padding = padded(times, "edge"), padded(samples, "edge"), padded(weights, "constant")
    longest_steps = padded(steps, "edge")[:, :-1]
    return np.stack(starts), *padding, longest_steps, padded_curves(inputs)


def _judged(search: Search, candidates: list[Candidate]) -> list[Candidate]:
    starts, times, samples, weights, limits, inputs = _windows(search.observations)
    fields = np.stack([candidate.coefficients for candidate in candidates])
    each = np.broadcast_to(starts, (len(fields), *starts.shape))
    scored = []
    driven = inputs if search.observations.n_inputs else None
    allowed = search.observations.allowed
    paths = rollout(search.dictionary, fields, each, times, limits, inputs=driven, allowed=allowed)
    for candidate, path in zip(candidates, paths, strict=True):
        squares = np.where(weights > 0, weights * (path - samples) ** 2, 0.0)
        scored.append(
            score(search.observations, candidate, squares.sum(axis=(0, 1)) / search.observations.counts)
        )
    return sorted(scored, key=lambda c: c.score)
