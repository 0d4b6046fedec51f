"""Candidate fields of many contexts at once, as tensors on any device.

Batched twin of what `fim_dynsys.models.fim_ode.choice.consider` does for one context: sparse regressions of
smoothed slopes; the best structures among them fitted to the trajectories and stripped of terms that do not
pay; the operator's solves, and the structures that its last one suggests, fitted and stripped likewise; all
integrated over the observation times and scored by BIC; a shortlist for the selector. Everything is float64.

Left out: contexts of several trajectories, and those that the original cuts at long gaps (`Scaled.whole`
tells); dictionaries with functions; other smoothers than the three of `regressed_smoothers`; priors of the
parameters; the descriptions of the sparse fits (`Origin` keeps the kinds). Of candidates with equal
coefficients the original tells two apart whose zeros differ in sign; here they are one.

It was run on CPUs only. The host waits for the device a few times a batch, to learn sizes; `Effort.compact`
adds a count in each iteration.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from fim_dynsys.models.fim_ode.columns import MonomialTable
from fim_dynsys.models.fim_ode.flows import rollouts, step_grid
from fim_dynsys.models.fim_ode.pruning import MAX_TERMS, Effort, bic, refine_and_prune
from fim_dynsys.models.fim_ode.regressions import backward_path, stlsq
from fim_dynsys.models.fim_ode.scaling import STEP_LIMIT, Scaled
from fim_dynsys.models.fim_ode.smoothers import Smoothed, constant_velocity, tricube_cubic

STLSQ_SETTINGS = ((0.01, False), (0.03, False), (0.1, False), (0.1, True), (0.5, True))
BACKWARD_TOLERANCES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
STRUCTURES = 6
RATIOS = (1.0, 2.0, 4.0)
SHORTLIST = 24
PER_SUPPORT, UNFITTED = 2, 4
"""Those of `fim_dynsys.regression`, whose own files need more than torch and numpy; a test compares them."""

DEFAULT_EFFORT = Effort()

_RIDGE = 0.05
_BOUND = 1e6


class Origin:
    """Where a candidate comes from, as a number: solve k of the operator is `SOLVE` + k."""

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

    def ranked(self) -> "Candidates":
        """Best first, padding last."""
        order = self.score.argsort(dim=1, stable=True)
        absent = (~self.present).to(torch.uint8).gather(1, order)
        return self.take(order.gather(1, absent.argsort(dim=1, stable=True)))

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
    ranked = judge(table, contexts, propose(table, contexts, smoothed, effort.compact))
    improved = _fitted(table, contexts, ranked, _structures(ranked), ranked.origin, effort)
    ranked = Candidates.join(ranked, judge(table, contexts, improved)).ranked()
    if opinion is not None:
        said = judge(table, contexts, _solves(contexts, opinion))
        suggested, new = _suggested(contexts, opinion, said, ranked)
        kind = torch.full_like(suggested.origin, Origin.STRUCTURE)
        fitted = judge(table, contexts, _fitted(table, contexts, suggested, new, kind, effort))
        ranked = Candidates.join(ranked, Candidates.join(said, fitted).ranked())
    return distinct(ranked)


def judge(table: MonomialTable, contexts: Scaled, candidates: Candidates) -> Candidates:
    """Every candidate integrated from its start over the observation times and scored by BIC, best first."""
    grid = step_grid(contexts.t, contexts.mask, STEP_LIMIT)
    paths = rollouts(table, candidates.coefficients, candidates.start, grid, _BOUND)
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
    regressed = Candidates.unscored(values, starts, Origin.REGRESSED, usable & _first_of_kind(values, usable))
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


def _first_of_kind(values: Tensor, present: Tensor) -> Tensor:
    """Whether a candidate (B, C) is the first present one with its values (B, C, ...).

    Values are compared by one combination of them, in which different ones agree by an accident of 1e-15.
    """
    flat = values.flatten(2).double()
    number = torch.arange(1, flat.shape[2] + 1, dtype=torch.float64, device=flat.device)
    key = (flat * torch.sin(number * number)).sum(2)
    same = (key[:, :, None] == key[:, None]) & present[:, None]
    before = torch.ones(*same.shape[1:], dtype=torch.bool, device=same.device).tril(-1)
    return ~(same & before).any(2)


def distinct(candidates: Candidates) -> Candidates:
    """Candidates with coefficients of their own, best first."""
    ranked = candidates.ranked()
    kept = ranked.present & _first_of_kind(ranked.coefficients.float(), ranked.present)
    return ranked.without(~kept).ranked()


# --- fits ---


def _structures(ranked: Candidates) -> Tensor:
    """Which candidates (B, C) are fitted: the best of the first `STRUCTURES` supports."""
    support = ranked.coefficients != 0
    count = support.sum((2, 3))
    fit = ranked.present & (count > 0) & (count <= MAX_TERMS) & ranked.score.isfinite()
    first = fit & _first_of_kind(support, fit)
    return first & (first.cumsum(1) <= STRUCTURES)


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
    most, slots = int(chosen.sum(1).max()), met.present.shape[1]
    place = (chosen.cumsum(1) - 1)[owner, number]

    def spread(values: Tensor) -> Tensor:
        room = values.new_zeros(len(chosen), most, *values.shape[1:])
        room[owner, place] = values
        return room.flatten(1, 2)

    kind = spread(origin[owner, number][:, None].expand(-1, slots))
    unscored = Candidates.unscored(spread(met.coefficients), spread(met.start), kind, spread(met.present))
    fitted = unscored._replace(refined=unscored.present, log_information=spread(met.log_information))
    return fitted._replace(present=fitted.present & fitted.finite)


def _solves(contexts: Scaled, opinion: Opinion) -> Candidates:
    """The operator's solves from the smoothed starts."""
    solves = opinion.solves
    count = solves.shape[1]
    start = contexts.start[:, None].expand(-1, count, -1)
    origin = Origin.SOLVE + torch.arange(count, device=solves.device)
    return Candidates.unscored(solves, start, origin, solves.isfinite().flatten(2).all(2))


def _suggested(
    contexts: Scaled, opinion: Opinion, said: Candidates, known: Candidates
) -> tuple[Candidates, Tensor]:
    """Candidates (B, 3) of the terms that the last solve is sure of, and which of them are to be fitted."""
    last = Origin.SOLVE + opinion.solves.shape[1] - 1
    at = (said.origin == last).to(torch.uint8).argmax(1, keepdim=True)
    solve = said.take(at.expand(-1, len(RATIOS)))
    ratios = torch.tensor(RATIOS, dtype=opinion.variance.dtype, device=opinion.variance.device)
    support = solve.coefficients.abs() > ratios[:, None, None] * opinion.variance[:, None].sqrt()
    count = support.sum((2, 3))
    allowed = (count > 0) & (count <= MAX_TERMS) & solve.present
    suggested = solve._replace(coefficients=torch.where(support, solve.coefficients, 0.0))
    both = torch.cat([known.coefficients != 0, support], 1)
    new = _first_of_kind(both, torch.cat([known.refined & known.present, allowed], 1))
    return suggested, allowed & new[:, known.present.shape[1] :]


# --- shortlist ---


def shortlist(candidates: Candidates, size: int = SHORTLIST) -> Candidates:
    """The candidates worth a closer look; see `fim_dynsys.regression.selection.shortlist`."""
    ranked = candidates.ranked()
    finite = ranked.present & ranked.score.isfinite()
    first = torch.arange(finite.shape[1], device=finite.device) == 0
    finite = torch.where(finite.any(1, keepdim=True), finite, ranked.present & first)
    solves = _last_solves(ranked, finite)
    support = (ranked.coefficients != 0).flatten(2)
    kept, room = torch.zeros_like(finite), size - solves.sum(1)
    unfitted = torch.zeros_like(room)
    for c in range(finite.shape[1]):
        same = (support[:, :c] == support[:, c, None]).all(2) & kept[:, :c]
        fits = finite[:, c] & ~solves[:, c] & (same.sum(1) < PER_SUPPORT) & (kept.sum(1) < room)
        kept[:, c] = fits & (ranked.refined[:, c] | (unfitted < UNFITTED))
        unfitted = unfitted + (kept[:, c] & ~ranked.refined[:, c])
    chosen = kept | solves
    short = ranked.without(~chosen).ranked()
    most = int(chosen.sum(1).max())
    return Candidates(*(part[:, :most] for part in short))


def _last_solves(ranked: Candidates, finite: Tensor) -> Tensor:
    """The last two solves (B, C) of the operator among the finite candidates."""
    number = torch.where(finite & (ranked.origin >= Origin.SOLVE), ranked.origin, -1)
    last = number.argsort(dim=1, descending=True)[:, :2]
    return torch.zeros_like(finite).scatter(1, last, number.gather(1, last) >= 0)
