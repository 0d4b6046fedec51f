"""Shortlists of many contexts' candidates, what a selector sees of them, and how it ranks them, as tensors.

Batched twins of `fim_dynsys.regression.selection`, for contexts of one trajectory.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from fim_dynsys.models.fim_ode.batched.candidates import BOUND, Candidates, Origin
from fim_dynsys.models.fim_ode.batched.observations import STEP_LIMIT, Scaled
from fim_dynsys.models.fim_ode.batched.pool import Opinion
from fim_dynsys.models.fim_ode.batched.rollout import rollouts, step_grid
from fim_dynsys.models.fim_ode.columns import MonomialTable
from fim_dynsys.regression.criteria import VARIANCE_FLOOR

SHORTLIST = 24
PER_SUPPORT, UNFITTED = 2, 4
N_CHOICE_FEATURES = 63
CLIP = 5.0
"""Those of `fim_dynsys.regression.selection` and of `choice`, which need more than torch; a test compares."""

_POINTS, _SOBOL_POINTS = 48, 64
_STARTS, _SAMPLES = 8, 48
_PLAUSIBLE, _LEAST_LEFT, _MOST_LEFT = 4, 1e-3, 1e4
_ESCAPE, _FAR = 1e3, 30.0


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
    last = number.argsort(dim=1, stable=True)[:, -2:]  # of one origin those of the larger scores
    return torch.zeros_like(finite).scatter(1, last, number.gather(1, last) >= 0)


@torch.no_grad()
def features(
    table: MonomialTable, contexts: Scaled, candidates: Candidates, opinion: Opinion | None = None
) -> Tensor:
    """What a selector sees of each candidate of a shortlist: (B, C, `N_CHOICE_FEATURES`), 0 in padding.

    Parameters
    ----------
    table : MonomialTable
        Terms of the candidates.
    contexts : Scaled
        Data.
    candidates : Candidates
        A shortlist, best first.
    opinion : Opinion, optional
        Of the operator.
    """
    parts = [
        _fit(contexts, candidates),
        _structure(table, candidates),
        _opinion(candidates, opinion),
        _fields(table, contexts, candidates, opinion),
        _motion(table, contexts, candidates),
        _context(contexts, candidates),
        _starts(table, contexts, candidates),
    ]
    values = torch.cat(parts, -1)
    values = torch.where(values.isfinite(), values, _FAR).clamp(-_FAR, _FAR)
    return torch.where(candidates.present[..., None], values, 0.0)


def _least(values: Tensor, present: Tensor) -> Tensor:
    """Smallest of the present ones (B, 1) of values (B, C)."""
    return torch.where(present, values, torch.inf).amin(1, keepdim=True)


def _median(values: Tensor, present: Tensor) -> Tensor:
    """Median over the last axis of values (..., C), of those present (..., C), at least one."""
    ordered = torch.where(present, values, torch.inf).sort(-1).values
    count = present.sum(-1, keepdim=True).expand(*values.shape[:-1], 1)
    return 0.5 * (ordered.gather(-1, (count - 1) // 2) + ordered.gather(-1, count // 2))[..., 0]


def _fit(contexts: Scaled, candidates: Candidates) -> Tensor:
    """How well each explains the samples, absolutely and beside the others (B, C, 11)."""
    n, present = contexts.n[:, None], candidates.present
    scores = torch.where(present, candidates.score, torch.inf)
    signal = contexts.signal_variance[:, None]
    floored = torch.maximum(candidates.variance, VARIANCE_FLOOR * signal)
    deviance = n * floored.clamp(min=1e-300).log().sum(-1)
    noise = torch.maximum(contexts.level[:, None] ** 2, VARIANCE_FLOOR * signal)
    ratio = 0.5 * (floored / noise).log()
    share = 0.5 * (floored / signal.clamp(min=1e-300)).log()
    fitted = candidates.log_information.isfinite() & present
    evidence = deviance + torch.where(fitted, candidates.log_information, 0.0)
    least = _least(deviance, present)
    best = torch.where(fitted.any(1, keepdim=True), _least(evidence, fitted), least)
    behind, worse = scores - _least(scores, present), deviance - least
    columns = [
        torch.log1p(behind),
        (behind / n).clamp(max=3.0),
        torch.log1p(worse),
        (worse / n).clamp(max=3.0),
        scores.argsort(dim=1, stable=True).argsort(dim=1).to(scores.dtype) / 10.0,
        ratio.mean(-1),
        ratio.amax(-1),
        share.mean(-1),
        share.amax(-1),
        fitted.to(scores.dtype),
        torch.where(fitted, torch.asinh(evidence - best), 0.0),
    ]
    return torch.stack(columns, -1)


def _structure(table: MonomialTable, candidates: Candidates) -> Tensor:
    """What terms each has and where it comes from (B, C, 15)."""
    d = candidates.coefficients.shape[3]
    support = candidates.coefficients != 0
    terms = support.sum(3).to(candidates.score.dtype)  # (B, C, m)
    degree = table.exponents.sum(1)
    crossing = (table.exponents > 0).sum(1) > 1
    count = terms.sum(2)
    size = candidates.coefficients.abs().flatten(2)
    has, some = support.flatten(2), count > 0
    largest = torch.where(has, size, 0.0).amax(2)
    smallest = torch.where(has, size, torch.inf).amin(2)
    fewest = _least(count / d, candidates.present)
    columns = [
        count / d,
        torch.log1p(count),
        *(terms[..., degree == k].sum(2) / d for k in range(4)),
        terms[..., crossing].sum(2) / d,
        support.any(2).to(count.dtype).mean(2),
        torch.where(some, (largest + 1e-6).log(), -5.0),
        torch.where(some, (smallest + 1e-6).log(), -5.0),
        candidates.refined,
        candidates.origin >= Origin.SOLVE,
        candidates.origin == Origin.STRUCTURE,
        candidates.origin == Origin.REST,
        count / d - fewest,
    ]
    return torch.stack([column.to(count.dtype) for column in columns], -1)


def _opinion(candidates: Candidates, opinion: Opinion | None) -> Tensor:
    """How far each is from the operator's last solve, in its standard deviations (B, C, 5)."""
    coefficients = candidates.coefficients
    if opinion is None:
        return coefficients.new_zeros(*coefficients.shape[:2], 5)
    mean, deviation = opinion.solves[:, -1:], opinion.variance[:, None].sqrt() + 1e-12
    z = ((coefficients - mean).abs() / deviation).clamp(max=1e3)
    sure, has = mean.abs() / deviation > 2.0, coefficients != 0
    d = coefficients.shape[3]
    columns = [
        torch.ones_like(candidates.score),
        torch.log1p(z.mean((2, 3))),
        torch.log1p(z.amax((2, 3))),
        (sure & ~has).sum((2, 3)).to(z.dtype) / d,
        (~sure & has).sum((2, 3)).to(z.dtype) / d,
    ]
    return torch.stack(columns, -1)


def _corners(contexts: Scaled) -> tuple[Tensor, Tensor]:
    """Lowest and highest states (B, d)."""
    inside = contexts.mask[..., None]
    low = torch.where(inside, contexts.z, torch.inf).amin(1)
    return low, torch.where(inside, contexts.z, -torch.inf).amax(1)


def _sobol(dim: int, n: int, like: Tensor) -> Tensor:
    return SobolEngine(dim).draw(n, dtype=torch.float64).to(like)


def _along_path(contexts: Scaled) -> tuple[Tensor, Tensor]:
    """At most `_POINTS` smoothed states (B, P, d), evenly from first to last, and which there are (B, P)."""
    last = contexts.n[:, None] - 1
    count = (last + 1).clamp(max=_POINTS)
    place = torch.arange(_POINTS, device=last.device)
    index = (place * (last.double() / (count - 1))).long()
    index = torch.where(place >= count - 1, last, index)
    points = contexts.spline.states.gather(1, index[..., None].expand(-1, -1, contexts.dim))
    return points, place < count


def _fields(
    table: MonomialTable, contexts: Scaled, candidates: Candidates, opinion: Opinion | None
) -> Tensor:
    """Distances between the fields on the smoothed path and in a widened box (B, C, 10)."""
    low, high = _corners(contexts)
    margin = 0.5 * (high - low)
    unit = _sobol(contexts.dim, _SOBOL_POINTS, low)[:_POINTS]
    box = (low - margin)[:, None] + unit * (high - low + 2.0 * margin)[:, None]
    path, seen = _along_path(contexts)
    columns = []
    for points, used in ((path, seen), (box, torch.ones_like(seen))):
        columns += _distances(table(points), used, candidates, opinion)
    return torch.stack(columns, -1)


def _distances(
    columns: Tensor, used: Tensor, candidates: Candidates, opinion: Opinion | None
) -> list[Tensor]:
    """Five features (B, C) of the fields with these columns (B, P, m) at the points used (B, P)."""
    present = candidates.present
    count = used.sum(1)[:, None] * candidates.coefficients.shape[3]
    values = torch.where(used[:, None, :, None], columns[:, None] @ candidates.coefficients, 0.0)

    def size_of(difference: Tensor) -> Tensor:
        return difference.abs().sum((-2, -1)) / count

    size = size_of(values) + 1e-9
    apart = torch.stack([size_of(values - values[:, c, None]) for c in range(values.shape[1])], 2)
    apart = (apart / (0.5 * (size[:, :, None] + size[:, None])) + 1e-4).log()
    typical = _median(size, present)[:, None]
    found = [apart[:, :, 0], _median(apart, present[:, None].expand_as(apart)), (size / typical).log()]
    if opinion is None:
        return [*found, torch.zeros_like(size), torch.zeros_like(size)]
    said = torch.where(used[..., None], columns @ opinion.solves[:, -1], 0.0)[:, None]
    gap, usual = size_of(values - said), size_of(said)
    return [*found, (gap / (0.5 * (size + usual)) + 1e-4).log(), (size / usual).log()]


def _motion(table: MonomialTable, contexts: Scaled, candidates: Candidates) -> Tensor:
    """How each moves from elsewhere in the data's box, for as long as was observed (B, C, 6)."""
    b, c, _, d = candidates.coefficients.shape
    low, high = _corners(contexts)
    middle, half = 0.5 * (low + high), 0.5 * (high - low) + 1e-9
    unit = _sobol(d, _STARTS, low)
    reach = torch.linspace(0.6, 1.5, _STARTS, dtype=low.dtype, device=low.device)[:, None]
    starts = middle[:, None] + (2.0 * unit - 1.0) * half[:, None] * reach
    place = torch.arange(_SAMPLES, dtype=low.dtype, device=low.device)
    t = place * (contexts.span / (_SAMPLES - 1))[:, None]
    grid = step_grid(t, torch.ones_like(t, dtype=torch.bool), 2.0 * STEP_LIMIT)
    each = candidates.coefficients.repeat_interleave(_STARTS, 1)
    paths = rollouts(table, each, starts.repeat(1, c, 1), grid, _ESCAPE).view(b, c, _STARTS, _SAMPLES, d)
    inside = paths.isfinite()
    gone = ~inside[:, :, :, -1].all(-1)
    wide = half[:, None, None, None]
    extent = (paths - middle[:, None, None, None]).abs() / wide
    farthest = (torch.where(inside, extent, 0.0).amax((3, 4)) + 1e-3).log()
    farthest = torch.where(gone, math.log(_ESCAPE), farthest)
    moved = (paths[:, :, :, -1] - paths[:, :, :, -2]).abs().amax(3) / half.amax(1)[:, None, None]
    settled = torch.where(gone, 0.0, (moved + 1e-4).log())
    apart = (paths - paths[:, :1]).abs() / wide
    apart = torch.where(apart.isfinite(), apart.clamp(max=5.0), 5.0).mean((3, 4))
    columns = [
        gone.to(low.dtype).mean(2),
        farthest.mean(2),
        farthest.amax(2),
        settled.mean(2) / 5.0,
        apart.mean(2),
        _median(apart, torch.ones_like(apart, dtype=torch.bool)),
    ]
    return torch.stack(columns, -1)


def _context(contexts: Scaled, candidates: Candidates) -> Tensor:
    """What is the same for all candidates of a context (B, C, 8)."""
    noise = contexts.level / contexts.signal_variance.clamp(min=1e-300).sqrt()
    n = contexts.n.to(noise.dtype)
    gaps = torch.where(contexts.mask[:, 1:], contexts.t[:, 1:] - contexts.t[:, :-1], 0.0)
    mean = gaps.sum(1) / (n - 1)
    row = [
        torch.full_like(n, contexts.dim),
        n.log() - 5.0,
        0.5 * ((noise**2).mean(1) + 1e-10).log(),
        contexts.share.mean(1),
        contexts.span.log(),
        mean.log(),
        ((gaps**2).sum(1) / (n - 1) / mean**2).log(),
        candidates.present.sum(1).to(n.dtype) / 10.0,
    ]
    return torch.stack(row, -1)[:, None].expand(-1, candidates.present.shape[1], -1)


def _starts(table: MonomialTable, contexts: Scaled, candidates: Candidates) -> Tensor:
    """How well each still explains the samples from other plausible starts than its own (B, C, 8)."""
    b, c, _, d = candidates.coefficients.shape
    unit = torch.special.ndtri(_sobol(d, 8, contexts.t)[1 : _PLAUSIBLE + 1])
    away = torch.cat([torch.zeros_like(unit[:1]), unit]) * contexts.start_variance.sqrt()[:, None]
    starts = contexts.start[:, None] + away
    each = candidates.coefficients.repeat_interleave(_PLAUSIBLE + 1, 1)
    grid = step_grid(contexts.t, contexts.mask, 2.0 * STEP_LIMIT)
    paths = rollouts(table, each, starts.repeat(1, c, 1), grid, BOUND)
    allowed = (contexts.level**2 + 2.0 * contexts.start_variance).clamp(min=1e-300)[:, None]
    left = (contexts.residual_variance(paths) / allowed).mean(-1).view(b, c, -1)
    left = torch.where(left.isfinite(), left.clamp(_LEAST_LEFT, _MOST_LEFT), _MOST_LEFT).log()
    own = (candidates.variance / allowed).mean(-1).clamp(_LEAST_LEFT, _MOST_LEFT).log()
    mean, worst = left.mean(2), left.amax(2)
    moved = (candidates.start - contexts.start[:, None]) ** 2 / contexts.start_variance[:, None]
    columns = [
        mean,
        worst,
        mean - own,
        worst - own,
        mean - _least(mean, candidates.present),
        worst - _least(worst, candidates.present),
        (left < 1.0).to(mean.dtype).mean(2),
        (moved.mean(2).sqrt() + 1e-2).log(),
    ]
    return torch.stack(columns, -1)


@dataclass(frozen=True)
class TensorSelector:
    """The networks of a `fim_dynsys.regression.selection.Selector` on some device."""

    members: list[dict[str, Tensor]]
    centre: Tensor
    spread: Tensor

    @classmethod
    def of(cls, selector, device: torch.device) -> "TensorSelector":
        """From a `Selector`."""

        def tensor(values) -> Tensor:
            return torch.as_tensor(values, dtype=torch.float64, device=device)

        members = [{name: tensor(values) for name, values in own.items()} for own in selector.members]
        return cls(members, tensor(selector.centre), tensor(selector.spread))

    def logits(self, values: Tensor, present: Tensor) -> Tensor:
        """Numbers (B, C) by which candidates with features (B, C, F) are ranked, -inf for those absent."""
        x = ((values - self.centre) / self.spread).clamp(-CLIP, CLIP)
        mean = torch.stack([_forward(member, x, present) for member in self.members]).mean(0)
        return mean.masked_fill(~present, -torch.inf)


def _forward(w: dict[str, Tensor], x: Tensor, present: Tensor) -> Tensor:
    hidden = _gelu(x @ w["in"] + w["in_bias"])
    hidden = _gelu(hidden @ w["own"] + w["own_bias"])
    for mix, pool in (("mix", "pool"), ("mix2", "pool2")):
        pooled = _pooled(hidden, present)[:, None]
        hidden = hidden + _gelu(hidden @ w[mix] + pooled @ w[pool] + w[f"{mix}_bias"])
    return (hidden @ w["out"])[..., 0]


def _pooled(hidden: Tensor, present: Tensor) -> Tensor:
    kept = present[..., None]
    mean = torch.where(kept, hidden, 0.0).sum(1) / kept.sum(1)
    return torch.cat([mean, torch.where(kept, hidden, -torch.inf).amax(1), hidden[:, 0]], -1)


def _gelu(x: Tensor) -> Tensor:
    return torch.nn.functional.gelu(x, approximate="tanh")
