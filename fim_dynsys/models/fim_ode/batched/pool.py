"""Candidate fields of many contexts at once, as tensors on any device.

Batched twin of what `fim_dynsys.models.fim_ode.choice.consider` does for one context: sparse regressions of
smoothed slopes; the best structures among them fitted to the trajectories and stripped of terms that do not
pay; the operator's solves, and the structures that its last one suggests, fitted and stripped likewise; all
integrated over the observation times and scored by BIC; terms chosen anew about the paths of the best fits;
fits over windows where the best leaves more than noise. Everything is float64.

Left out: contexts of several trajectories, and those that the original cuts at long gaps (`Scaled.whole`
tells); dictionaries with functions; other smoothers than the three of `regressed_smoothers`; priors of the
parameters; the descriptions of the sparse fits (`Origin` keeps the kinds). Of candidates with equal
coefficients the original tells two apart whose zeros differ in sign; here they are one.

No GPU has run it yet; tests run it on an emulated one, which refuses what CUDA would. The host waits for the
device 150 to 400 times a batch, whatever its size: to learn sizes, and, with `Effort.compact`, which elements
are still at work. Subsets of terms about paths are chosen on the host, see `reselection.py`.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from fim_dynsys.models.fim_ode.batched.candidates import (
    Candidates,
    Origin,
    distinct_structures,
    first_of_kind,
    judge,
    propose,
    unfolded,
    unmet,
)
from fim_dynsys.models.fim_ode.batched.horizon import explains, merged_hypotheses
from fim_dynsys.models.fim_ode.batched.observations import Scaled
from fim_dynsys.models.fim_ode.batched.pruning import MAX_TERMS, Effort, refine_and_prune
from fim_dynsys.models.fim_ode.batched.reselection import reselect
from fim_dynsys.models.fim_ode.batched.smoothing import Smoothed, constant_velocity, tricube_cubic
from fim_dynsys.models.fim_ode.columns import MonomialTable
from fim_dynsys.regression.pool import RATIOS, STRUCTURES, WINDOWED

DEFAULT_EFFORT = Effort()


class Opinion(NamedTuple):
    """What the operator says of the coefficients, in scaled units."""

    solves: Tensor  # (B, S, m, d), the last is the best
    variance: Tensor  # (B, m, d)

    def take(self, index: Tensor) -> "Opinion":
        """That on some of the contexts."""
        return Opinion(self.solves[index], self.variance[index])


def scaled_opinion(contexts: Scaled, table: MonomialTable, solves: Tensor, variance: Tensor) -> Opinion:
    """From coefficients (B, S, m, d) and variances (B, m, d) in the units of the data."""
    powers = (contexts.scale[:, None] ** table.exponents.to(contexts.scale.dtype)).prod(-1)  # (B, m)
    factor = powers[..., None] * (contexts.time_unit[:, None] / contexts.scale)[:, None]
    return Opinion(solves * factor[:, None], variance * factor**2)


def regressed_smoothers(contexts: Scaled) -> list[Smoothed]:
    """The smoothed states and slopes whose regressions are considered at inference."""
    t, z, mask, span = contexts.t, contexts.z, contexts.mask, contexts.span
    narrow, velocity = tricube_cubic(t, z, mask, 0.05 * span), constant_velocity(t, z, mask, 0.01 * span)
    return [narrow, velocity, contexts.spline]


@torch.no_grad()
def hypotheses(
    table: MonomialTable,
    contexts: Scaled,
    smoothed: list[Smoothed],
    opinion: Opinion | None = None,
    effort: Effort = DEFAULT_EFFORT,
) -> Candidates:
    """Candidates worth choosing from, best first; see `fim_dynsys.regression.pool.hypotheses`.

    Parameters
    ----------
    table : MonomialTable
        Terms of all candidates.
    contexts : Scaled
        Data.
    smoothed : list of Smoothed
        States and slopes that are regressed, as `regressed_smoothers` gives them.
    opinion : Opinion, optional
        Of the operator.
    effort : Effort
        How the work is done.
    """
    proposed = propose(table, contexts, smoothed, effort.compact)
    ranked = judge(table, contexts, proposed)
    chosen = distinct_structures(ranked, STRUCTURES)
    improved = _fitted(table, contexts, ranked, chosen, ranked.origin, effort)
    ranked = Candidates.join(ranked, judge(table, contexts, improved)).ranked()
    if opinion is not None:
        solves = _solves(contexts, opinion)
        said = judge(table, contexts, solves)
        suggested, new = _suggested(contexts, opinion, said, ranked)
        kind = torch.full_like(suggested.origin, Origin.STRUCTURE)
        fitted = judge(table, contexts, _fitted(table, contexts, suggested, new, kind, effort))
        ranked = Candidates.join(ranked, Candidates.join(said, fitted).ranked())
        proposed = Candidates.join(proposed, solves)
    found = distinct(ranked)
    found = distinct(Candidates.join(found, reselect(table, contexts, found, effort)))
    return _with_merged(table, contexts, proposed, found, effort)


def _with_merged(
    table: MonomialTable, contexts: Scaled, proposed: Candidates, found: Candidates, effort: Effort
) -> Candidates:
    """The candidates found, with fits over windows of those contexts whose best leaves more than noise."""
    index = (contexts.whole & ~explains(contexts, found.variance[:, 0])).nonzero()[:, 0]
    if not len(index):
        return found
    own = contexts.take(index), proposed.of_contexts(index)
    merged = merged_hypotheses(table, *own, WINDOWED, effort)
    return distinct(Candidates.join(found, merged.among(len(contexts.whole), index)))


def distinct(candidates: Candidates) -> Candidates:
    """Candidates with coefficients of their own, best first."""
    ranked = candidates.ranked()
    kept = ranked.present & first_of_kind(ranked.coefficients.float(), ranked.present)
    return ranked.without(~kept).ranked()


# --- fits ---


def _fitted(
    table: MonomialTable,
    contexts: Scaled,
    candidates: Candidates,
    chosen: Tensor,
    origin: Tensor,
    effort: Effort,
) -> Candidates:
    """All structures met from the chosen candidates (B, C), with these origins (B, C)."""
    owner, number = chosen.nonzero().unbind(1)
    if not len(owner):
        return candidates.take(owner.new_zeros(len(chosen), 0))
    coefficients = candidates.coefficients[owner, number]
    variance = candidates.variance[owner, number]
    met = refine_and_prune(table, contexts, owner, coefficients, variance, effort)
    kind = origin[owner, number][:, None].expand_as(met.present)
    return unfolded(owner, len(chosen), met, kind)


def _solves(contexts: Scaled, opinion: Opinion) -> Candidates:
    """The operator's solves from the smoothed starts."""
    solves = opinion.solves
    count = solves.shape[1]
    start = contexts.start[:, None].expand(-1, count, -1)
    origin = Origin.SOLVE + 2 * torch.arange(count, device=solves.device)
    return Candidates.unscored(solves, start, origin, solves.isfinite().flatten(2).all(2))


def _suggested(
    contexts: Scaled, opinion: Opinion, said: Candidates, known: Candidates
) -> tuple[Candidates, Tensor]:
    """Candidates (B, 3) of the terms that the last solve is sure of, and which of them are to be fitted."""
    last = Origin.SOLVE + 2 * (opinion.solves.shape[1] - 1)
    at = (said.origin == last).to(torch.uint8).argmax(1, keepdim=True)
    solve = said.take(at.expand(-1, len(RATIOS)))
    ratios = torch.tensor(RATIOS, dtype=opinion.variance.dtype, device=opinion.variance.device)
    support = solve.coefficients.abs() > ratios[:, None, None] * opinion.variance[:, None].sqrt()
    count = support.sum((2, 3))
    allowed = (count > 0) & (count <= MAX_TERMS) & solve.present
    suggested = solve._replace(coefficients=torch.where(support, solve.coefficients, 0.0))
    return suggested, unmet(known, support, allowed)
