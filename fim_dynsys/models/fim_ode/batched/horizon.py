"""Candidates of many contexts judged and fitted over short horizons, as tensors.

Batched twins of `explains` and `merged_hypotheses` of `fim_dynsys.regression.horizon`, for contexts of one
trajectory. Contexts differ in their number of windows.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from fim_dynsys.models.fim_ode.batched.candidates import (
    BOUND,
    Candidates,
    Origin,
    distinct_structures,
    first_of_kind,
    judge,
    places,
    unfolded,
)
from fim_dynsys.models.fim_ode.batched.observations import STEP_LIMIT, Scaled
from fim_dynsys.models.fim_ode.batched.pruning import (
    ITERATIONS,
    Effort,
    Met,
    Refined,
    bic,
    pruned,
    refine,
    slot,
)
from fim_dynsys.models.fim_ode.batched.refinement import Segments, bounds_of
from fim_dynsys.models.fim_ode.batched.rollout import rollouts, step_grid
from fim_dynsys.models.fim_ode.columns import MonomialTable

HORIZON, UNEXPLAINED, STILL, NOISE_ALONE = 1.0, 0.5, 1e-12, 2.0
MERGED, MERGED_FITS, LAST_ITERATIONS = 3, 3, 30
"""Those of `fim_dynsys.regression.horizon`, which needs more than torch and numpy; a test compares them."""

_AT_ONCE = 2**24  # coefficients of all candidates in all windows of one integration


class Windows(NamedTuple):
    """W windows of about one unit of time of B contexts, padding at the end."""

    owner: Tensor  # (W,) the context of each
    start: Tensor  # (W, d) smoothed first states
    t: Tensor  # (W, L)
    z: Tensor  # (W, L, d)
    weights: Tensor  # (W, L, d), 0 in padding
    mask: Tensor  # (W, L)


def follows(contexts: Scaled, variance: Tensor) -> Tensor:
    """Whether integrated candidates with residual variances (B, C, d) explain half of the samples' (B, C)."""
    return (variance / contexts.signal_variance.clamp(min=STILL)[:, None]).mean(-1) < UNEXPLAINED


def explains(contexts: Scaled, variance: Tensor) -> Tensor:
    """Whether what is left (B, d) of the samples of each context is hardly more than their noise (B,)."""
    return (variance / contexts.noise_variance).mean(-1) < NOISE_ALONE


@torch.no_grad()
def merged_hypotheses(
    table: MonomialTable, contexts: Scaled, candidates: Candidates, structures: int, effort: Effort
) -> Candidates:
    """Structures fitted with a free start in every window of about one unit of time, which are then merged.

    See the original. All that was met on the way, integrated in one piece, best first.

    Parameters
    ----------
    table : MonomialTable
        Terms of the candidates.
    contexts : Scaled
        Data.
    candidates : Candidates
        Where structures and starts are taken from; scores are not used.
    structures : int
        Number of structures that are fitted for each context.
    effort : Effort
        How the work is done.
    """
    count = window_counts(contexts)
    ranked = judged(table, contexts, candidates, windows(contexts, count))
    owner, number = distinct_structures(ranked, structures).nonzero().unbind(1)
    if not len(owner):
        return ranked.take(owner.new_zeros(len(count), 0))
    given, origin = ranked.coefficients[owner, number], ranked.origin[owner, number]
    variance = ranked.variance[owner, number]
    met, best = pruned(table, contexts, owner, given, variance, effort, (count[owner],))
    slots = torch.arange(met.present.shape[1], device=owner.device)
    parts = [unfolded(owner, len(count), met, _origins(origin[:, None], slots > 0))]
    fewer = (best.coefficients != 0).sum((1, 2)) < (given != 0).sum((1, 2))
    chosen = best_distinct(owner, best, count)
    if len(chosen):
        own, kind = owner[chosen], _origins(origin, fewer)[chosen, None]
        merged = merge(table, contexts, own, best.take(chosen), count[own], effort)
        parts.append(unfolded(own, len(count), merged, kind.expand_as(merged.present)))
    return judge(table, contexts, Candidates.join(*parts))


def _origins(origin: Tensor, fewer: Tensor) -> Tensor:
    """Origins of fits that have all terms of their candidates or fewer."""
    return origin + (fewer & (origin >= Origin.SOLVE))


# --- windows ---


def window_counts(contexts: Scaled) -> Tensor:
    """Number of windows (B,) of about one unit of time, with two samples each or more."""
    whole = torch.round(contexts.span / HORIZON).long()
    return torch.minimum(whole, contexts.n // 2).clamp(min=1)


def windows(contexts: Scaled, count: Tensor) -> Windows:
    """So many windows (B,) of each context, one context after the other."""
    bounds = bounds_of(contexts.n, count)
    owner, number = (bounds[:, 1:] > bounds[:, :-1]).nonzero().unbind(1)
    first, size = bounds[owner, number], (bounds[:, 1:] - bounds[:, :-1])[owner, number]
    place = torch.arange(int(size.max()), device=size.device)
    mask = place < size[:, None]
    sample, row = first[:, None] + torch.minimum(place, size[:, None] - 1), owner[:, None]
    times = contexts.t[row, sample]
    weights = torch.where(mask[..., None], contexts.weights[row, sample], 0.0)
    start = contexts.spline.states[owner, first]
    return Windows(owner, start, times - times[:, :1], contexts.z[row, sample], weights, mask)


def judged(table: MonomialTable, contexts: Scaled, candidates: Candidates, cut: Windows) -> Candidates:
    """Every candidate integrated over each window from its smoothed first state and scored, best first."""
    present = candidates.present
    squares = contexts.z.new_zeros(*present.shape, contexts.dim)
    at_once = max(1, _AT_ONCE // candidates.coefficients[0].numel())
    for own in torch.arange(len(cut.owner), device=present.device).split(at_once):
        part = Windows(*(values[own] for values in cut))
        squares.index_add_(0, part.owner, _window_squares(table, candidates, part))
    variance = squares / contexts.n[:, None, None]
    active = (candidates.coefficients != 0).sum((2, 3))
    score = bic(variance, contexts.n[:, None], active, contexts.signal_variance[:, None])
    score = torch.where(present, score, torch.inf)
    return candidates._replace(score=score, variance=variance).ranked()


def _window_squares(table: MonomialTable, candidates: Candidates, cut: Windows) -> Tensor:
    """Weighted sums of squared residuals (W, C, d) of each context's candidates over its windows."""
    values = candidates.coefficients[cut.owner]
    starts = cut.start[:, None].expand(-1, values.shape[1], -1)
    paths = rollouts(table, values, starts, step_grid(cut.t, cut.mask, STEP_LIMIT), BOUND)
    weights = cut.weights[:, None]
    return torch.where(weights > 0, weights * (paths - cut.z[:, None]) ** 2, 0.0).sum(2)


# --- merging ---


def best_distinct(owner: Tensor, best: Refined, count: Tensor) -> Tensor:
    """Which of the fits (E,) of contexts `owner` are merged: a few of each context's best structures.

    Of equal structures the last fit counts. Contexts with one window have nothing to merge: `count` (B,).
    """
    place = places(owner)
    room = owner.new_full((len(count), int(place.max()) + 1), -1)
    room[owner, place] = torch.arange(len(owner), device=owner.device)
    present, at = room >= 0, room.clamp(min=0)
    support = best.coefficients[at] != 0
    last = first_of_kind(support.flip(1), present.flip(1)).flip(1)
    score = torch.where(present & last & (count > 1)[:, None], best.score[at], torch.inf)
    lowest, order = score.sort(dim=1, stable=True)
    return room.gather(1, order)[:, :MERGED_FITS][lowest[:, :MERGED_FITS].isfinite()]


def merge(
    table: MonomialTable, contexts: Scaled, owner: Tensor, best: Refined, count: Tensor, effort: Effort
) -> Met:
    """Fits (E,) of two windows (E,) or more each again with a third as many, until one is left.

    The last fits, over one window each, are done together.
    """
    left, met = (count // MERGED).clamp(min=1), []

    def refitted(index: Tensor, segments: Segments, iterations: int) -> Refined:
        now, own = best.take(index), owner[index]
        fits = refine(
            table,
            contexts,
            own,
            now.coefficients,
            now.variance,
            now.paths,
            segments,
            effort,
            max_iterations=iterations,
        )
        everyone = torch.ones_like(index, dtype=torch.bool)
        met.append(slot(len(owner), index, everyone, fits))
        return best.replaced(index, everyone, fits)

    while len(index := (best.score.isfinite() & (left > 1)).nonzero()[:, 0]):
        best = refitted(index, (left[index],), ITERATIONS)
        left = left.index_copy(0, index, (left[index] // MERGED).clamp(min=1))
    index = best.score.isfinite().nonzero()[:, 0]
    if len(index):
        refitted(index, (1,), LAST_ITERATIONS)
    return Met.of(met)
