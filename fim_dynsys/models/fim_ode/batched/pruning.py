"""Many candidates fitted to their trajectories and stripped of terms that do not pay, as tensors.

Batched twin of `fim_dynsys.regression.pruning.refine_and_prune` for contexts of one trajectory.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from fim_dynsys.models.fim_ode.batched.observations import Scaled
from fim_dynsys.models.fim_ode.batched.refinement import (
    Fits,
    Samples,
    Segments,
    fit_trajectories,
    segments_of,
)
from fim_dynsys.models.fim_ode.batched.rollout import Terms, sparse_terms
from fim_dynsys.models.fim_ode.batched.sparse import backward_elimination, solve_supports
from fim_dynsys.models.fim_ode.columns import MonomialTable
from fim_dynsys.regression.criteria import VARIANCE_FLOOR

ROUNDS = 8
"""Largest number of times that terms are dropped."""

ITERATIONS = 8
"""Largest number of steps of a stage of a fit."""

MAX_TERMS = 30
"""Structures with more coefficients are not fitted."""

CANCELLED = 1e-10
"""Share of an information's diagonal added to it: what eliminating the starts leaves to rounding is less."""


@dataclass(frozen=True)
class Effort:
    """How the work is laid out; the results are the same.

    Attributes
    ----------
    compact : bool
        Leave out what has converged: less work, but the host must count it. Without it nothing within the
        iterations waits for the device.
    block : int or None
        Number of fits done at once, None for all. On a CPU 16 stay in the cache.
    """

    compact: bool = True
    block: int | None = 16


class Refined(NamedTuple):
    """E fitted candidates, scored on the nodes of their fits."""

    coefficients: Tensor  # (E, m, d)
    start: Tensor  # (E, d)
    variance: Tensor  # (E, d) weighted residual variances
    score: Tensor  # (E,) BIC
    log_information: Tensor  # (E,)
    parameters: Tensor  # (E, q)
    place: Tensor  # (E, q) which coefficients they are, see `Terms`
    present: Tensor  # (E, q)
    paths: Tensor  # (E, N, d)
    misfit: Tensor  # (E,)
    information: Tensor  # (E, q, q)

    def take(self, index: Tensor) -> "Refined":
        """Some of them."""
        return Refined(*(part[index] for part in self))

    def replaced(self, index: Tensor, better: Tensor, new: "Refined") -> "Refined":
        """With the better ones of `new` at `index`."""
        parts = []
        for old, own in zip(self, new, strict=True):
            chosen = torch.where(better.view(-1, *[1] * (own.ndim - 1)), own, old[index])
            parts.append(old.index_copy(0, index, chosen))
        return Refined(*parts)


class Met(NamedTuple):
    """All structures that E candidates came by, in R + 1 slots each."""

    coefficients: Tensor  # (E, R + 1, m, d)
    start: Tensor  # (E, R + 1, d)
    log_information: Tensor  # (E, R + 1)
    score: Tensor  # (E, R + 1) BIC on the nodes of the fits
    present: Tensor  # (E, R + 1) bool

    @staticmethod
    def of(slots: "list[Met]") -> "Met":
        """From one slot after the other, see `slot`."""
        return Met(*(torch.stack(part, 1) for part in zip(*slots, strict=True)))


def bic(variance: Tensor, n: Tensor, active: Tensor, signal: Tensor) -> Tensor:
    """Twin of `fim_dynsys.regression.criteria.bic` for one start each: variances (..., d), the rest (...)."""
    d = variance.shape[-1]
    floored = torch.maximum(variance, VARIANCE_FLOOR * signal).clamp(min=1e-300)
    count = n.to(variance.dtype)
    penalty = (active + d) * (d * count).clamp(min=2.0).log()
    value = count * floored.log().sum(-1) + penalty
    return torch.where(variance.isfinite().all(-1), value, torch.inf)


def assumed_variance(contexts: Scaled, owner: Tensor, variance: Tensor) -> Tensor:
    """Variances (E, d) to weigh coordinates by, from those of candidates of contexts `owner` (E,)."""
    signal, low = contexts.signal_variance[owner], contexts.noise_variance[owner]
    given = torch.where(variance.isfinite(), variance, signal)
    return torch.minimum(torch.maximum(given, low), torch.maximum(0.3 * signal, low))


def samples_of(contexts: Scaled, owner: Tensor, assumed: Tensor) -> Samples:
    """What candidates of contexts `owner` (E,) are fitted to, with these variances (E, d)."""
    return Samples(
        contexts.z[owner],
        contexts.weights[owner] / assumed[:, None],
        contexts.n[owner],
        contexts.start[owner],
        1.0 / contexts.start_variance[owner],
        contexts.grid.steps[owner],
        contexts.grid.counts[owner],
    )


def refine(
    table: MonomialTable,
    contexts: Scaled,
    owner: Tensor,
    coefficients: Tensor,
    variance: Tensor,
    paths: Tensor,
    segments: Segments = (5, 1),
    effort: Effort = Effort(),
    size: int = MAX_TERMS,
    max_iterations: int = ITERATIONS,
) -> Refined:
    """Fit coefficients and starts to the trajectories, the terms kept.

    Parameters
    ----------
    table : MonomialTable
        Terms.
    contexts : Scaled
        Data.
    owner : Tensor
        Which context each of E candidates is of.
    coefficients : Tensor
        Where to start (E, m, d).
    variance : Tensor
        Residual variances (E, d) of the candidates, inf where unknown.
    paths : Tensor
        States (E, N, d) to linearise about first.
    segments : tuple of int or Tensor (E,)
        Stages of free starts, see `fit_trajectories`.
    effort : Effort
        How it is done.
    size : int
        Room for parameters.
    max_iterations : int
        Largest number of steps of a stage.
    """
    terms = sparse_terms(coefficients != 0, size)
    assumed = assumed_variance(contexts, owner, variance)
    samples = samples_of(contexts, owner, assumed)
    start = terms.parameters(coefficients)
    fit = fit_trajectories(
        table, samples, terms, start, paths, segments, max_iterations, effort.compact, effort.block
    )
    return _scored(contexts, owner, terms, assumed, fit)


def _scored(contexts: Scaled, owner: Tensor, terms: Terms, assumed: Tensor, fit: Fits) -> Refined:
    n, signal = contexts.n[owner], contexts.signal_variance[owner]
    weights = contexts.weights[owner]
    squares = torch.where(weights > 0, weights * (fit.paths - contexts.z[owner]) ** 2, 0.0)
    variance = squares.sum(1) / n[:, None]
    # gaps that the iterations left open count as misfit
    on_nodes = n * (variance / assumed).sum(-1)
    variance = variance * (fit.misfit / on_nodes.clamp(min=1e-300)).clamp(min=1.0)[:, None]
    coefficients = terms.coefficients(fit.parameters)
    active = (coefficients != 0).sum((1, 2))
    eye = torch.eye(fit.information.shape[-1], dtype=variance.dtype, device=variance.device)
    return Refined(
        coefficients,
        fit.paths[:, 0],
        variance,
        bic(variance, n, active, signal),
        torch.linalg.slogdet(fit.information + eye).logabsdet,
        fit.parameters,
        terms.place,
        terms.present,
        fit.paths,
        fit.misfit,
        fit.information,
    )


def droppable(contexts: Scaled, owner: Tensor, found: Refined) -> tuple[Tensor, Tensor]:
    """Parameters (E, q), the cheapest first, and how many (E,) cost more BIC than they explain."""
    d = found.coefficients.shape[-1]
    total = (d * contexts.n[owner]).to(found.misfit.dtype)
    # the weights may overrate the noise by now: one common factor is enough for the comparison
    factor = (total / found.misfit.clamp(min=1e-300)).clamp(1e-6, 1.0)
    information = _regular(found) * factor[:, None, None]
    moment = (information @ found.parameters[..., None])[..., 0]
    order, costs = backward_elimination(information, moment, found.present)
    gain = torch.cumsum(total.clamp(min=2.0).log()[:, None] - costs, -1)
    count = found.present.sum(1)
    inside = torch.arange(gain.shape[1], device=gain.device) < count[:, None] - 1
    best, last = torch.where(inside, gain, -torch.inf).max(-1)
    usable = (best > 0.0) & found.information.isfinite().flatten(1).all(1)
    return order, torch.where(usable, last + 1, 0)


def _regular(found: Refined) -> Tensor:
    """Information (E, q, q) that terms which are equal along the path leave regular."""
    information = found.information.clone()
    information.diagonal(dim1=-2, dim2=-1).mul_(1.0 + CANCELLED)
    return information


def without(found: Refined, dropped: Tensor) -> Tensor:
    """Coefficients (E, m, d) without the parameters `dropped` (E, q), which the others make up for."""
    information = _regular(found)
    moment = (information @ found.parameters[..., None])[..., 0]
    values = solve_supports(information, moment, found.present & ~dropped)
    flat = torch.zeros_like(found.coefficients).flatten(1)
    return flat.scatter_add(1, found.place, values * found.present).view_as(found.coefficients)


def refine_and_prune(
    table: MonomialTable,
    contexts: Scaled,
    owner: Tensor,
    coefficients: Tensor,
    variance: Tensor,
    effort: Effort = Effort(),
    segments: Segments = (5, 1),
    paths: Tensor | None = None,
) -> Met:
    """Refine, drop the terms whose Wald statistics do not pay their share of the BIC, and repeat.

    Parameters are those of `refine`; paths are the smoothed states where none are given. With
    ``effort.compact`` the candidates that have nothing to drop are left out of later rounds.
    """
    return pruned(table, contexts, owner, coefficients, variance, effort, segments, paths)[0]


def pruned(
    table: MonomialTable,
    contexts: Scaled,
    owner: Tensor,
    coefficients: Tensor,
    variance: Tensor,
    effort: Effort = Effort(),
    segments: Segments = (5, 1),
    paths: Tensor | None = None,
) -> tuple[Met, Refined]:
    """As `refine_and_prune`: all structures met, and the best of each candidate."""
    paths = contexts.spline.states[owner] if paths is None else paths
    best = refine(table, contexts, owner, coefficients, variance, paths, segments, effort)
    everyone = torch.arange(len(owner), device=owner.device)
    alive = best.score.isfinite()
    met = [slot(len(owner), everyone, torch.ones_like(alive), best)]
    order, limit = droppable(contexts, owner, best)
    share = torch.ones_like(best.score)
    for _ in range(ROUNDS):
        count = torch.maximum((share * limit).long(), limit.clamp(max=1))
        alive = alive & (count > 0)
        index = alive.nonzero()[:, 0] if effort.compact else everyone
        if not len(index):
            break
        now, own, taken = best.take(index), owner[index], count[index]
        first = torch.arange(order.shape[1], device=order.device) < taken[:, None]
        # places behind the last parameter repeat others
        dropped = torch.zeros_like(order[index]).scatter_add(1, order[index], first.long()) > 0
        trial = refine(
            table,
            contexts,
            own,
            without(now, dropped),
            now.variance,
            now.paths,
            segments_of(segments[-1:], index),
            effort,
            size=order.shape[1],
        )
        met.append(slot(len(owner), index, alive[index], trial))
        better = (trial.score < now.score) & alive[index]
        best = best.replaced(index, better, trial)
        again, room = droppable(contexts, own, best.take(index))
        order = order.index_copy(0, index, torch.where(better[:, None], again, order[index]))
        limit = limit.index_copy(0, index, torch.where(better, room, limit[index]))
        share = share.index_copy(0, index, torch.where(better, 1.0, 0.5 * share[index]))
        alive = alive.index_copy(0, index, alive[index] & (better | (taken > 1)))
    return Met.of(met), best


def slot(size: int, index: Tensor, present: Tensor, found: Refined) -> Met:
    """What was found at `index` among `size` candidates."""

    def spread(values: Tensor) -> Tensor:
        return values.new_zeros(size, *values.shape[1:]).index_copy(0, index, values)

    own = found.coefficients, found.start, found.log_information, found.score, present
    return Met(*map(spread, own))
