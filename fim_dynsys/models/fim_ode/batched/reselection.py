"""Structures of many contexts chosen anew about the paths of good fits, as tensors.

Batched twin of `fim_dynsys.regression.reselection.reselect`. Paths, responses, fits and pruning are tensors
of all contexts; subsets are chosen on the host, by the original's compiled loops, for one context after the
other. A context's fits take their turns one after the other as in the original, so that what one has met is
not fitted again by the next; the contexts take theirs together.
"""

import numpy as np
import torch
from torch import Tensor

from fim_dynsys.models.fim_ode.batched.candidates import (
    BOUND,
    Candidates,
    distinct_structures,
    first_of_kind,
    judge,
    unfolded,
    unmet,
)
from fim_dynsys.models.fim_ode.batched.horizon import follows
from fim_dynsys.models.fim_ode.batched.observations import Scaled
from fim_dynsys.models.fim_ode.batched.pruning import (
    MAX_TERMS,
    Effort,
    assumed_variance,
    refine_and_prune,
    samples_of,
)
from fim_dynsys.models.fim_ode.batched.refinement import Response, path_response
from fim_dynsys.models.fim_ode.batched.rollout import rollouts, sparse_terms
from fim_dynsys.models.fim_ode.columns import MonomialTable
from fim_dynsys.regression.reselection import (
    FITS,
    LEAST_LEFT,
    MOST_COEFFICIENTS,
    PRICES,
    ROUNDS,
    chosen_subsets,
)


@torch.no_grad()
def reselect(table: MonomialTable, contexts: Scaled, found: Candidates, effort: Effort) -> Candidates:
    """Structures selected about the paths of each context's best fits, fitted and pruned; see the original.

    Parameters
    ----------
    table : MonomialTable
        Terms of all candidates; with more than `MOST_COEFFICIENTS` coefficients nothing is tried.
    contexts : Scaled
        Data; nothing is tried for those that are not whole.
    found : Candidates
        Judged, best first.
    effort : Effort
        How the work is done.

    Returns
    -------
    Candidates
        All new structures met, judged by integration.
    """
    fitted = found.without(~found.refined).ranked().trimmed()
    good = _good(contexts, fitted)
    if len(table.exponents) * contexts.dim > MOST_COEFFICIENTS:
        good = good.without(good.present)
    known = [fitted]
    for best in good.each():
        active = best.present[:, 0]
        for _ in range(ROUNDS):
            index = active.nonzero()[:, 0]
            if not len(index):
                break
            seen = Candidates.join(*known).of_contexts(index)
            new = _about(table, contexts.take(index), best.of_contexts(index), seen, effort)
            known.append(new.among(len(active), index))
            ahead = Candidates.join(best, known[-1]).ranked().first(1)
            active, best = (ahead.score < best.score)[:, 0], ahead
    return Candidates.join(fitted.first(0), *known[1:])


def _good(contexts: Scaled, fitted: Candidates) -> Candidates:
    """The best `FITS` distinct structures that follow the data."""
    stray = ~follows(contexts, fitted.variance) | ~contexts.whole[:, None]
    good = fitted.without(stray)
    return good.without(~distinct_structures(good, FITS)).ranked().first(FITS)


def _about(
    table: MonomialTable, contexts: Scaled, best: Candidates, seen: Candidates, effort: Effort
) -> Candidates:
    """New structures about the path of one candidate (B, 1) of each context, fitted, pruned and judged."""
    paths = rollouts(table, best.coefficients, best.start, contexts.grid, BOUND)[:, 0]
    chosen = suggested(table, contexts, best.coefficients[:, 0], best.variance[:, 0], paths, effort)
    support = chosen != 0
    owner, number = unmet(seen, support, support.flatten(2).any(2)).nonzero().unbind(1)
    if not len(owner):
        return best.first(0)
    met = refine_and_prune(
        table,
        contexts,
        owner,
        chosen[owner, number],
        best.variance[owner, 0],
        effort,
        (1,),
        paths[owner],
    )
    new = unfolded(owner, len(paths), met, best.origin[owner].expand_as(met.present))
    return judge(table, contexts, _without_repeated(new, met.present.shape[1]).ranked().trimmed())


def _without_repeated(met: Candidates, slots: int) -> Candidates:
    """What fits of so many slots each met, without fits whose structure an earlier one has met."""
    support = met.coefficients != 0
    for head in range(slots, support.shape[1], slots):
        again = torch.zeros_like(met.present)
        again[:, head : head + slots] = ~first_of_kind(support, met.present)[:, head, None]
        met = met.without(again)
    return met


def suggested(
    table: MonomialTable,
    contexts: Scaled,
    coefficients: Tensor,
    variance: Tensor,
    paths: Tensor,
    effort: Effort,
) -> Tensor:
    """Coefficients (B, P, m, d) of subsets that are chosen about one path of each context.

    The host waits for each block, whose equations are copied to it at once, and chooses the subsets of one
    context after the other.

    Parameters
    ----------
    table, contexts
        See `reselect`.
    coefficients, variance, paths : Tensor
        Of one candidate of each context: (B, m, d), residual variances (B, d), integrated states (B, N, d).
    effort : Effort
        Blocks have room for as many coefficients as those of fits.

    Returns
    -------
    Tensor
        One of each of `PRICES`, 0 where nothing is suggested.
    """
    everyone = torch.arange(len(paths), device=paths.device)
    most = len(paths) if effort.block is None else effort.block * MAX_TERMS // coefficients[0].numel()
    parts = []
    for index in everyone.split(max(most, 1)):
        own = coefficients[index]
        about = response(table, contexts, index, own, variance[index], paths[index])
        noise = contexts.noise_variance[index] / assumed_variance(contexts, index, variance[index])
        parts.append(_subsets(about, own, contexts.n[index], LEAST_LEFT * noise.mean(-1)))
    return torch.cat(parts)


def response(
    table: MonomialTable,
    contexts: Scaled,
    owner: Tensor,
    coefficients: Tensor,
    variance: Tensor,
    paths: Tensor,
) -> Response:
    """How the misfits of candidates of contexts `owner` (E,) depend on all m d coefficients about paths.

    Takes coefficients (E, m, d), residual variances (E, d) and integrated paths (E, N, d).
    """
    terms = sparse_terms(torch.ones_like(coefficients, dtype=torch.bool), coefficients[0].numel())
    samples = samples_of(contexts, owner, assumed_variance(contexts, owner, variance))
    return path_response(table, samples, terms, coefficients.flatten(1), paths)


def _subsets(about: Response, coefficients: Tensor, n: Tensor, least: Tensor) -> Tensor:
    """What `chosen_subsets` gives for each response about coefficients (E, m, d); n and least are (E,)."""
    now = coefficients.flatten(1)
    single = [own.to(now)[:, None].expand_as(now) for own in (about.misfit, n, least)]
    columns = torch.stack([about.score, now, *single], 2)
    equations = torch.cat([about.information, columns], 2).cpu().numpy()
    chosen = np.zeros((len(now), len(PRICES), *coefficients.shape[1:]))
    for own, given, shape in zip(chosen, equations, coefficients, strict=True):
        score, at, (misfit, *_), (count, *_), (floor, *_) = given[:, -5:].T
        if np.isfinite(given).all():
            at = at.reshape(shape.shape)
            found = chosen_subsets(given[:, :-5], score, misfit, at, int(count), floor)
            own[: len(found)] = found
    return torch.as_tensor(chosen).to(coefficients)
