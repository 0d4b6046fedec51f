"""Candidate fields of many contexts as tensors: what they hold, sparse regressions, and BIC by integration.

Batched twins of parts of `fim_dynsys.regression.candidates` and `pruning`.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from fim_dynsys.models.fim_ode.batched.observations import Scaled
from fim_dynsys.models.fim_ode.batched.pruning import MAX_TERMS, Met, bic
from fim_dynsys.models.fim_ode.batched.rollout import rollouts
from fim_dynsys.models.fim_ode.batched.smoothing import Smoothed
from fim_dynsys.models.fim_ode.batched.sparse import backward_path, stlsq
from fim_dynsys.models.fim_ode.columns import MonomialTable

STLSQ_SETTINGS = ((0.01, False), (0.03, False), (0.1, False), (0.1, True), (0.5, True))
BACKWARD_TOLERANCES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""Those of `fim_dynsys.regression`, whose own files need more than torch and numpy; a test compares them."""

BOUND = 1e6
"""A candidate that leaves ``|x| <= BOUND`` is given up."""

_RIDGE = 0.05


class Origin:
    """Where a candidate comes from, as a number.

    Solve k of the operator is `SOLVE` + 2 k, one more where terms of it were dropped.
    """

    REST, REGRESSED, STRUCTURE, SOLVE = range(4)


class Candidates(NamedTuple):
    """C candidates of each of B contexts; see `fim_dynsys.regression.candidates.Candidate`."""

    coefficients: Tensor  # (B, C, m, d)
    start: Tensor  # (B, C, d)
    score: Tensor  # (B, C) inf where there is none
    variance: Tensor  # (B, C, d)
    refined: Tensor  # (B, C) bool
    log_information: Tensor  # (B, C) nan where not fitted
    origin: Tensor  # (B, C) see `Origin`
    present: Tensor  # (B, C) bool, false in padding

    @staticmethod
    def unscored(coefficients: Tensor, start: Tensor, origin: int | Tensor, present: Tensor) -> "Candidates":
        """Candidates that are not fitted."""
        nothing = torch.full(present.shape, torch.nan, dtype=start.dtype, device=start.device)
        unknown = torch.full_like(nothing, torch.inf)
        kind = torch.zeros_like(present, dtype=torch.long) + origin
        variance = torch.full_like(start, torch.inf)
        return Candidates(
            coefficients, start, unknown, variance, torch.zeros_like(present), nothing, kind, present
        )

    def take(self, order: Tensor) -> "Candidates":
        """Candidates (B, K) of each context."""
        rows = torch.arange(len(order), device=order.device)[:, None]
        return Candidates(*(part[rows, order] for part in self))

    def first(self, count: int) -> "Candidates":
        """So many of each context, or all."""
        return Candidates(*(part[:, :count] for part in self))

    def each(self) -> "list[Candidates]":
        """One (B, 1) of each context after the other."""
        numbers = range(self.present.shape[1])
        return [Candidates(*(part[:, k : k + 1] for part in self)) for k in numbers]

    def of_contexts(self, index: Tensor) -> "Candidates":
        """Those of some of the contexts."""
        return Candidates(*(part[index] for part in self))

    def among(self, size: int, index: Tensor) -> "Candidates":
        """Of `size` contexts, of which those at `index` have these candidates and the others none."""
        room = (part.new_zeros(size, *part.shape[1:]).index_copy(0, index, part) for part in self)
        spread = Candidates(*room)
        return spread.without(~spread.present)

    def ranked(self) -> "Candidates":
        """Best first, padding last."""
        order = self.score.argsort(dim=1, stable=True)
        absent = (~self.present).to(torch.uint8).gather(1, order)
        return self.take(order.gather(1, absent.argsort(dim=1, stable=True)))

    def trimmed(self) -> "Candidates":
        """Ranked ones without room that no context needs; the host waits to learn how much that is."""
        return self.first(int(self.present.sum(1).max()))

    def without(self, absent: Tensor) -> "Candidates":
        """Some (B, C) turned into padding."""
        present = self.present & ~absent
        return self._replace(present=present, score=torch.where(present, self.score, torch.inf))

    @staticmethod
    def join(*parts: "Candidates") -> "Candidates":
        """All candidates of some parts."""
        return Candidates(*(torch.cat(part, 1) for part in zip(*parts, strict=True)))

    @property
    def finite(self) -> Tensor:
        """Whether the coefficients and initial states (B, C) are numbers."""
        return self.coefficients.isfinite().flatten(2).all(2) & self.start.isfinite().all(2)


def judge(table: MonomialTable, contexts: Scaled, candidates: Candidates) -> Candidates:
    """Every candidate integrated from its start over the observation times and scored by BIC, best first."""
    paths = rollouts(table, candidates.coefficients, candidates.start, contexts.grid, BOUND)
    variance = contexts.residual_variance(paths)
    active = (candidates.coefficients != 0).sum((2, 3))
    score = bic(variance, contexts.n[:, None], active, contexts.signal_variance[:, None])
    score = torch.where(candidates.present, score, torch.inf)
    return candidates._replace(score=score, variance=variance).ranked()


# --- sparse regressions ---


def propose(
    table: MonomialTable, contexts: Scaled, smoothed: list[Smoothed], compact: bool = True
) -> Candidates:
    """No motion, and sparse fits of smoothed slopes on the terms of each degree, without duplicates."""
    gram, moment, total = _equations(table, contexts, smoothed)
    b, k, _, m = moment.shape
    degree, n = table.exponents.sum(1), contexts.n
    found, present = [], []
    for largest in range(1, int(degree[-1]) + 1):
        inside = int((degree <= largest).sum())  # terms are listed by degree
        fits = _sparse_fits(gram[..., :inside, :inside], moment[..., :inside], total, compact)
        found.append(torch.nn.functional.pad(fits.transpose(-1, -2), (0, 0, 0, m - inside)))
        enough = torch.ones_like(n, dtype=torch.bool) if largest == 1 else 2 * inside <= n
        present.append(enough[:, None, None].expand(b, k, fits.shape[2]))
    values = torch.cat(found, 2).flatten(1, 2)  # (B, smoothers x fits, m, d)
    each = values.shape[1] // k
    starts = torch.stack([own.states[:, 0] for own in smoothed], 1).repeat_interleave(each, 1)
    usable = torch.cat(present, 2).flatten(1) & values.isfinite().flatten(2).all(2)
    regressed = Candidates.unscored(values, starts, Origin.REGRESSED, usable & first_of_kind(values, usable))
    return Candidates.join(_at_rest(contexts, m), regressed)


def _at_rest(contexts: Scaled, m: int) -> Candidates:
    mean = contexts.z.sum(1) / contexts.n[:, None]
    values = mean.new_zeros(len(mean), 1, m, contexts.dim)
    return Candidates.unscored(values, mean[:, None], Origin.REST, torch.ones_like(contexts.whole)[:, None])


def _equations(
    table: MonomialTable, contexts: Scaled, smoothed: list[Smoothed]
) -> tuple[Tensor, Tensor, Tensor]:
    """Normal matrices (B, K, d, m, m), right-hand sides (B, K, d, m) and sums of squares (B, K, d)."""
    columns = torch.stack([table(own.states) for own in smoothed], 1)
    columns = torch.where(contexts.mask[:, None, :, None], columns, 0.0)
    slopes = torch.stack([own.slopes for own in smoothed], 1)
    gram = columns.mT @ columns
    d = contexts.dim
    return gram[:, :, None].expand(-1, -1, d, -1, -1), slopes.mT @ columns, (slopes**2).sum(2)


def _sparse_fits(gram: Tensor, moment: Tensor, total: Tensor, compact: bool) -> Tensor:
    """Coefficients (B, K, settings, d, m) of every setting."""
    where = {"dtype": total.dtype, "device": total.device}
    threshold = torch.tensor([s for s, _ in STLSQ_SETTINGS], **where)[:, None]
    unit = torch.tensor([u for _, u in STLSQ_SETTINGS], device=total.device)[:, None]
    b, k, d, m = moment.shape
    count = len(STLSQ_SETTINGS)
    shape = (b, k, count, d)
    smallest = torch.where(unit, threshold * total[:, :, None].sqrt(), threshold).expand(shape)
    thresholded = stlsq(
        gram[:, :, None].expand(*shape, m, m).reshape(-1, m, m),
        moment[:, :, None].expand(*shape, m).reshape(-1, m),
        smallest.reshape(-1),
        _RIDGE,
        unit.expand(shape).reshape(-1),
        compact,
    )
    tolerances = total[..., None] * torch.tensor(BACKWARD_TOLERANCES, **where)
    backward = backward_path(gram, moment, tolerances).transpose(2, 3)
    return torch.cat([thresholded.view(*shape, m), backward], 2)


def first_of_kind(values: Tensor, present: Tensor) -> Tensor:
    """Whether a candidate (B, C) is the first present one with its values (B, C, ...).

    Values are compared by one combination of them, in which different ones agree by an accident of 1e-15.
    """
    flat = values.flatten(2).double()
    number = torch.arange(1, flat.shape[2] + 1, dtype=torch.float64, device=flat.device)
    key = (flat * torch.sin(number * number)).sum(2)
    same = (key[:, :, None] == key[:, None]) & present[:, None]
    before = torch.ones(*same.shape[1:], dtype=torch.bool, device=same.device).tril(-1)
    return ~(same & before).any(2)


def distinct_structures(ranked: Candidates, count: int) -> Tensor:
    """Which candidates (B, C) are the best of the first so many supports that can be fitted."""
    support = ranked.coefficients != 0
    terms = support.sum((2, 3))
    fit = ranked.present & (terms > 0) & (terms <= MAX_TERMS) & ranked.score.isfinite()
    first = fit & first_of_kind(support, fit)
    return first & (first.cumsum(1) <= count)


def unmet(known: Candidates, support: Tensor, allowed: Tensor) -> Tensor:
    """Which allowed (B, K) structures `support` (B, K, m, d) are new: not fitted, and not one before."""
    both = torch.cat([known.coefficients != 0, support], 1)
    new = first_of_kind(both, torch.cat([known.refined & known.present, allowed], 1))
    return allowed & new[:, known.present.shape[1] :]


def places(owner: Tensor) -> Tensor:
    """Places (E,) of fits among those of their context, from the contexts (E,) in order."""
    return torch.arange(len(owner), device=owner.device) - torch.searchsorted(owner, owner)


def unfolded(owner: Tensor, size: int, met: Met, origin: Tensor) -> Candidates:
    """What the fits of E candidates met, not yet judged, as candidates of each of `size` contexts.

    Takes which context each fit is of (E,), in order, and the origins (E, R + 1) of what was met.
    """
    place = places(owner)
    most = int(place.max()) + 1

    def spread(values: Tensor) -> Tensor:
        room = values.new_zeros(size, most, *values.shape[1:])
        room[owner, place] = values
        return room.flatten(1, 2)

    values, starts, present = (spread(part) for part in (met.coefficients, met.start, met.present))
    unscored = Candidates.unscored(values, starts, spread(origin), present)
    fitted = unscored._replace(refined=present, log_information=spread(met.log_information))
    return fitted._replace(present=present & fitted.finite)
