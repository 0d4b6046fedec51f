"""Candidates judged over short horizons: for chaotic data that no candidate follows from start to end."""

from itertools import pairwise

import numpy as np

from fim_dynsys.regression.candidates import STEP_LIMIT, propose, score
from fim_dynsys.regression.pruning import refine_and_prune
from fim_dynsys.regression.rollout import rollout

_HORIZON = 1.0  # time in which the state travels one standard deviation
_TERMS_PER_STATE = 25
_UNEXPLAINED = 0.5


def follows(observations, candidate):
    """Whether an integrated candidate explains half of the variance of the samples at least."""
    return candidate.variance is not None and bool(
        np.mean(candidate.variance / observations.signal_variance) < _UNEXPLAINED
    )


def short_horizon_hypotheses(observations, dictionary, structures, smoothers):
    """Sparse regressions ranked by how well each predicts one unit of time ahead, the best fitted likewise.

    Trajectories are cut into windows of about one unit of time. A candidate is integrated over each from its
    smoothed first state; the best structures are fitted with a free start in every window, and pruned.

    Parameters
    ----------
    observations : Observations
        Data.
    dictionary : Dictionary
        Monomials.
    structures : int
        Number of structures that are fitted.
    smoothers : sequence of Smoother
        Whose slopes are regressed.

    Returns
    -------
    list of Candidate
        Scored by the BIC of their windows, best first: on the nodes of its fit where a candidate was fitted.
    """
    windows = _windows(observations)
    count = max(len(windows[0]) // len(observations.samples), 1)
    ranked = _judged(
        observations,
        dictionary,
        propose(observations, dictionary, range(1, dictionary.degree + 1), smoothers),
        windows,
    )
    met, seen = [], set()
    for candidate in ranked:
        structure, terms = candidate.support.tobytes(), np.count_nonzero(candidate.support)
        if len(seen) == structures or not np.isfinite(candidate.score):
            break
        if structure not in seen and 0 < terms <= _TERMS_PER_STATE * observations.dim:
            seen.add(structure)
            met += refine_and_prune(observations, dictionary, candidate, observations.path, (count,))
    met = [c for c in met if c.is_finite]
    return sorted(ranked + met, key=lambda c: c.score)


def _windows(observations):
    """Padded windows: smoothed first states (W, d), times (W, m), samples and weights (W, m, d)."""
    parts = []
    for (t, z), path, weights in zip(
        observations.samples, observations.path, observations.weights, strict=True
    ):
        count = max(min(round(t[-1] / _HORIZON), len(t) // 2), 1)
        bounds = np.round(np.linspace(0, len(t), count + 1)).astype(int)
        parts += [(path[a], t[a:b] - t[a], z[a:b], weights[a:b]) for a, b in pairwise(bounds)]
    longest = max(len(t) for _, t, _, _ in parts)

    def padded(arrays, mode):
        return np.stack(
            [np.pad(a, [(0, longest - len(a)), *[(0, 0)] * (a.ndim - 1)], mode=mode) for a in arrays]
        )

    starts, times, samples, weights = zip(*parts, strict=True)
    return np.stack(starts), padded(times, "edge"), padded(samples, "edge"), padded(weights, "constant")


def _judged(observations, dictionary, candidates, windows):
    starts, times, samples, weights = windows
    scored = []
    for candidate in candidates:
        path = rollout(dictionary, candidate.coefficients[None], starts[None], times, STEP_LIMIT)[0]
        squares = np.where(weights > 0, weights * (path - samples) ** 2, 0.0)
        scored.append(score(observations, candidate, squares.sum(axis=(0, 1)) / observations.n))
    return sorted(scored, key=lambda c: c.score)
