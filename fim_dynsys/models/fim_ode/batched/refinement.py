"""Many sparse polynomial fields fitted to trajectories at once, as tensors on any device.

Batched twin of `fim_dynsys.regression.refinement.fit_trajectory` with ``check=False``, for one trajectory and
one field per element: lifted multiple shooting with exact sensitivities between all nodes at once, gaps and
segment starts eliminated, steps of Gauss and Newton damped as Levenberg and Marquardt do. Elements are frozen
one by one as they meet the stopping rules. Priors of the starts are taken, priors of the parameters and time
limits are not. Times, states and results are float64.

Within the iterations nothing waits for the device but the search for elements that are still at work, which
``compact`` switches off.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from fim_dynsys.models.fim_ode.batched.rollout import Grid, Terms, grid_of, interval_maps
from fim_dynsys.models.fim_ode.columns import MonomialTable

DAMPING = (1e-4, 1e8)
"""First Levenberg-Marquardt factor, and the one at which a stage gives up."""

DECREASE = 1e-5
"""Relative decrease of the merit below which a stage has converged."""

_SMALLEST_PIVOT = 1e-15
_SIMILAR = 64  # samples: elements of a block differ by less than that, where there are enough


Segments = tuple[int | Tensor, ...]
"""Numbers of segments with a free start in each stage: one for all E fits, or one for each (E,)."""


class Samples(NamedTuple):
    """What E fields are fitted to, each element one trajectory."""

    values: Tensor  # (E, N, d) observed states, 0 in padding
    weights: Tensor  # (E, N, d) inverse variances, 0 in padding
    count: Tensor  # (E,) samples, which come first
    start: Tensor  # (E, d) expected first states
    pull: Tensor  # (E, d) and their precisions
    steps: Tensor  # (E, N) Runge-Kutta steps behind each sample, see `Grid`
    counts: Tensor  # (E, N) and their numbers

    def take(self, index: Tensor) -> "Samples":
        """Some of the elements, which may repeat."""
        return Samples(*(part[index] for part in self))

    def shortened(self, length: int) -> "Samples":
        """Without padding behind the first so many samples."""
        cut = {name: getattr(self, name)[:, :length] for name in ("values", "weights", "steps", "counts")}
        return self._replace(**cut)


class Fits(NamedTuple):
    """Results of E fits; see `fim_dynsys.regression.refinement.TrajectoryFit`."""

    parameters: Tensor  # (E, q)
    paths: Tensor  # (E, N, d) nodes, without meaning in padding
    misfit: Tensor  # (E,) inf where a fit diverged
    information: Tensor  # (E, q, q)
    iterations: Tensor  # (E,)

    def padded(self, q: int, length: int) -> "Fits":
        """With room for q parameters and so many samples."""
        more, longer = q - self.parameters.shape[1], length - self.paths.shape[1]
        return self._replace(
            parameters=pad(self.parameters, (0, more)),
            paths=pad(self.paths, (0, 0, 0, longer)),
            information=pad(self.information, (0, more, 0, more)),
        )


class Response(NamedTuple):
    """How misfits of E paths depend on all parameters, to second order; the starts are free."""

    information: Tensor  # (E, q, q) half the second derivatives (Gauss-Newton)
    score: Tensor  # (E, q) minus half the first derivatives
    misfit: Tensor  # (E,) with the priors of the starts; inf where it is not finite


class Layout(NamedTuple):
    """Samples by segments: at most L samples in each of S segments."""

    place: Tensor  # (E, N) where each sample is among the S L slots
    steps: Grid  # of the S L slots
    values: Tensor  # (E, S, L, d)
    weights: Tensor  # (E, S, L, d), 0 in empty slots
    follows: Tensor  # (E, S, L) bool, whether a slot has one before it in its segment
    typical: Tensor  # (E, d) weights of the gaps between them
    start: Tensor  # (E, d)
    pull: Tensor  # (E, d)

    def take(self, index: Tensor) -> "Layout":
        """Some of the elements."""
        return Layout(*(part.take(index) if isinstance(part, Grid) else part[index] for part in self))


class Linear(NamedTuple):
    """Normal equations of one linearisation; segment starts are eliminated later."""

    merit: Tensor  # (E,) inf where anything is not finite
    sensitivities: Tensor  # (E, S, L d, d + q + 1) by segment start, by parameters, closing of gaps
    normal: Tensor  # (E, S, d + q, d + q)
    moment: Tensor  # (E, S, d + q)


class _Iterate(NamedTuple):
    """Where the elements are, and their linearisations there."""

    parameters: Tensor  # (E, q)
    nodes: Tensor  # (E, S, L, d)
    linear: Linear
    damping: Tensor  # (E,)
    used: Tensor  # (E,) iterations

    def tensors(self) -> list[Tensor]:
        return [self.parameters, self.nodes, *self.linear, self.damping, self.used]

    @staticmethod
    def of(tensors: list[Tensor]) -> "_Iterate":
        return _Iterate(*tensors[:2], Linear(*tensors[2:-2]), *tensors[-2:])


@torch.no_grad()
def fit_trajectories(
    table: MonomialTable,
    samples: Samples,
    terms: Terms,
    parameters: Tensor,
    paths: Tensor,
    segments: Segments = (5, 1),
    max_iterations: int = 8,
    compact: bool = True,
    block: int | None = None,
) -> Fits:
    """Fit the parameters and first states of E fields.

    Parameters
    ----------
    table : MonomialTable
        Terms of all fields.
    samples : Samples
        What is fitted.
    terms : Terms
        Which coefficients are parameters.
    parameters : Tensor
        Where to start (E, q), 0 in padding.
    paths : Tensor
        States (E, N, d) to linearise about first.
    segments : tuple of int or Tensor (E,)
        Number of segments with a free start in each stage, at most half the number of samples.
    max_iterations : int
        Largest number of steps of a stage.
    compact : bool
        Leave out elements that have converged: less work, but the host must count them.
    block : int, optional
        Number of elements fitted at once, those of similar size together; default all. On a CPU 16 stay in
        the cache.
    """
    if block is None or len(parameters) <= block:
        return _fitted(table, samples, terms, parameters, paths, segments, max_iterations, compact)
    size = terms.present.sum(1)
    q = parameters.shape[1]
    alike = torch.zeros_like(size)  # segments of a block have room for the longest, and blocks for the most
    for own in segments:
        alike = alike * (samples.values.shape[1] + 1) + own
    alike = alike * (samples.values.shape[1] // _SIMILAR + 1) + samples.count // _SIMILAR
    order = (alike * (q + 1) + size).argsort()
    parts = []
    for index in order.split(block):
        width, length = int(size[index].max()), int(samples.count[index].max())
        own = Terms(*(part[index, :width] for part in terms))
        some = samples.take(index).shortened(length)
        fit = _fitted(
            table,
            some,
            own,
            parameters[index, :width],
            paths[index, :length],
            segments_of(segments, index),
            max_iterations,
            compact,
        )
        parts.append(fit.padded(q, paths.shape[1]))
    back = order.argsort()
    return Fits(*(torch.cat(part)[back] for part in zip(*parts, strict=True)))


def segments_of(segments: Segments, index: Tensor) -> Segments:
    """Those of some of the fits."""
    return tuple(own if isinstance(own, int) else own[index] for own in segments)


def _fitted(
    table: MonomialTable,
    samples: Samples,
    terms: Terms,
    parameters: Tensor,
    paths: Tensor,
    segments: Segments,
    max_iterations: int,
    compact: bool,
) -> Fits:
    """`fit_trajectories` of all elements at once."""
    iterations = torch.zeros(len(parameters), dtype=torch.long, device=parameters.device)
    for count in segments:
        layout, slots = segmented(samples, count)
        nodes = _rows(paths, slots).view_as(layout.values)
        now = _stage(table, layout, terms, parameters, nodes, max_iterations, compact)
        parameters, iterations = now.parameters, iterations + now.used
        paths = _rows(now.nodes.flatten(1, 2), layout.place)
    away = paths[:, 0] - samples.start
    merit = now.linear.merit
    total, _ = _parameters_alone(now.linear, paths.shape[-1])
    information = torch.where(merit.isfinite()[:, None, None], total, 0.0)
    return Fits(parameters, paths, merit - (samples.pull * away**2).sum(-1), information, iterations)


def path_response(
    table: MonomialTable, samples: Samples, terms: Terms, parameters: Tensor, paths: Tensor
) -> Response:
    """Response of the misfit about parameters (E, q) and the paths (E, N, d) integrated with them."""
    layout, slots = segmented(samples, 1)
    nodes = _rows(paths, slots).view_as(layout.values)
    linear = linearise(table, layout, terms, parameters, nodes)
    return Response(*_parameters_alone(linear, paths.shape[-1]), linear.merit)


def _parameters_alone(linear: Linear, d: int) -> tuple[Tensor, Tensor]:
    """Normal matrices (E, q, q) and right-hand sides (E, q) of the parameters, nothing damped."""
    total, right, _ = eliminate_starts(linear.normal, linear.moment, d, torch.zeros_like(linear.merit))
    return total, right


def segmented(samples: Samples, segments: int | Tensor) -> tuple[Layout, Tensor]:
    """Samples in segments of nearly equal numbers, and which sample (E, S L) each slot holds."""
    n = samples.count[:, None]
    pieces = (samples.count // 2).clamp(max=segments).clamp(min=1)
    bounds = bounds_of(samples.count, pieces)
    pieces = pieces[:, None]
    length = int((bounds[:, 1:] - bounds[:, :-1]).max())
    slot = bounds[:, :-1, None] + torch.arange(length, device=n.device)  # (E, S, L)
    inside, last = slot < bounds[:, 1:, None], slot + 1 >= bounds[:, 1:, None]
    slots = torch.minimum(slot, n[..., None] - 1).flatten(1)
    weights = torch.where(inside[..., None], _rows(samples.weights, slots).view(*slot.shape, -1), 0.0)
    typical = samples.weights.sum(1) / pieces
    follows = inside & (slot > bounds[:, :-1, None])
    empty = last.flatten(1)
    grid = grid_of(
        torch.where(empty, 0.0, samples.steps.gather(1, slots)),
        torch.where(empty, 0, samples.counts.gather(1, slots)),
    )
    sample = torch.arange(samples.values.shape[1], device=n.device).expand(len(n), -1)
    segment = (sample[..., None] >= bounds[:, None, 1:-1]).sum(-1)
    place = segment * length + (sample - bounds.gather(1, segment)).clamp(0, length - 1)
    values = _rows(samples.values, slots).view_as(weights)
    return Layout(place, grid, values, weights, follows, typical, samples.start, samples.pull), slots


def bounds_of(count: Tensor, pieces: Tensor) -> Tensor:
    """First samples (E, S + 1) of nearly equal pieces (E,) of `count` samples (E,), empty behind the last."""
    number = torch.arange(int(pieces.max()) + 1, device=count.device)
    each = count / pieces.double()
    return torch.round(torch.minimum(number, pieces[:, None]) * each[:, None]).long()


def _rows(values: Tensor, index: Tensor) -> Tensor:
    """Rows (E, k, d) of values (E, N, d)."""
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[2]))


def _stage(
    table: MonomialTable,
    layout: Layout,
    terms: Terms,
    parameters: Tensor,
    nodes: Tensor,
    max_iterations: int,
    compact: bool,
) -> _Iterate:
    """Levenberg-Marquardt steps until every element has met a stopping rule."""
    linear = linearise(table, layout, terms, parameters, nodes)
    damping = torch.full_like(linear.merit, DAMPING[0])
    now = _Iterate(parameters, nodes, linear, damping, torch.zeros_like(damping, dtype=torch.long))
    active = linear.merit.isfinite()
    found, index = None, torch.arange(len(active), device=active.device)
    for _ in range(max_iterations):
        if compact and not active.all():
            found = _kept(found, index, now)
            alive = active.nonzero()[:, 0]
            index, active = index[alive], active[alive]
            layout, terms = layout.take(alive), terms.take(alive)
            now = _Iterate.of([part[alive] for part in now.tensors()])
            if not len(alive):
                break
        now, active = _advance(table, layout, terms, now, active)
    return now if found is None else _kept(found, index, now)


def _kept(found: _Iterate | None, index: Tensor, now: _Iterate) -> _Iterate:
    """All elements, with those at `index` as they are now."""
    if found is None:
        return now
    pairs = zip(found.tensors(), now.tensors(), strict=True)
    return _Iterate.of([old.index_copy(0, index, new) for old, new in pairs])


def _advance(
    table: MonomialTable, layout: Layout, terms: Terms, now: _Iterate, active: Tensor
) -> tuple[_Iterate, Tensor]:
    """One damped step of the active elements, and which of them go on."""
    merit = now.linear.merit
    change, moved = gauss_newton_step(now.linear, now.nodes.shape[-1], now.damping)
    parameters, nodes = now.parameters + change, now.nodes + moved.view_as(now.nodes)
    trial = linearise(table, layout, terms, parameters, nodes)
    lower = trial.merit <= merit
    done = torch.where(lower, merit - trial.merit <= DECREASE * merit, trial.merit <= merit * (1.0 + 1e-9))
    raised = torch.where(done, now.damping, 10.0 * now.damping)
    damping = torch.where(lower, (0.1 * now.damping).clamp(min=1e-12), raised)
    new = _Iterate(parameters, nodes, trial, damping, now.used)
    accepted = lower & active

    def chosen(after: Tensor, before: Tensor) -> Tensor:
        return torch.where(accepted.view(-1, *[1] * (after.ndim - 1)), after, before)

    pairs = zip(new.tensors()[:-2], now.tensors()[:-2], strict=True)
    kept = [chosen(*pair) for pair in pairs]
    damping = torch.where(active, damping, now.damping)
    return _Iterate.of([*kept, damping, now.used + active]), active & ~done & (damping <= DAMPING[1])


def linearise(
    table: MonomialTable, layout: Layout, terms: Terms, parameters: Tensor, nodes: Tensor
) -> Linear:
    """Normal equations about parameters (E, q) and nodes (E, S, L, d), and the merit to lower."""
    d = nodes.shape[-1]
    maps = interval_maps(table, terms, terms.coefficients(parameters), nodes.flatten(1, 2), layout.steps)
    gaps = maps.ends.transpose(1, 2).view_as(nodes)[:, :, :-1] - nodes[:, :, 1:]
    gaps = torch.where(layout.follows[:, :, 1:, None], gaps, 0.0)
    z = _condensed(maps.by_start, maps.by_parameter, gaps)
    residuals = torch.where(layout.weights > 0, layout.values - nodes, 0.0)
    away = layout.start - nodes[:, 0, 0]
    merit = (layout.weights * residuals**2).sum((1, 2, 3))
    merit = merit + (layout.typical * (gaps**2).sum((1, 2)) + layout.pull * away**2).sum(-1)
    columns = torch.cat([z[..., :-1], residuals.flatten(2)[..., None] - z[..., -1:]], -1)
    products = columns.transpose(-1, -2) @ (layout.weights.flatten(2)[..., None] * columns)
    normal, moment = products[..., :-1, :-1].clone(), products[..., :-1, -1].clone()
    normal.diagonal(dim1=-2, dim2=-1)[:, 0, :d] += layout.pull
    moment[:, 0, :d] += layout.pull * away
    finite = normal.isfinite().flatten(1).all(1)
    return Linear(torch.where(finite & merit.isfinite(), merit, torch.inf), z, normal, moment)


def _condensed(by_start: Tensor, by_parameter: Tensor, gaps: Tensor) -> Tensor:
    """Sensitivities (E, S, L d, d + q + 1) of all nodes, chained from each segment's start."""
    e, s, below, d = gaps.shape
    q = by_parameter.shape[2]
    along = (4, 0, 3, 1, 2)  # time first
    start = by_start.view(e, d, d, s, below + 1).permute(along)[:-1].reshape(below, e * s, d, d)
    added = by_start.new_empty(below, e, s, d, d + q + 1)
    added[..., :d] = 0.0
    added[..., d:-1] = by_parameter.view(e, d, q, s, below + 1).permute(along)[:-1]
    added[..., -1] = gaps.permute(2, 0, 1, 3)
    added = added.view(below, e * s, d, -1)
    z = added.new_empty(below + 1, e * s, d, d + q + 1)
    z[0] = torch.eye(d, d + q + 1, dtype=z.dtype, device=z.device)
    for k in range(below):
        torch.baddbmm(added[k], start[k], z[k], out=z[k + 1])
    return z.view(below + 1, e, s, d, -1).permute(1, 2, 0, 3, 4).reshape(e, s, (below + 1) * d, -1)


def eliminate_starts(
    normal: Tensor, moment: Tensor, d: int, damping: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Normal equations of the parameters alone, as `fim_dynsys.regression.kernels.eliminate_starts`.

    Takes `Linear.normal`, `Linear.moment`, the number of coordinates and damping (E,); gives matrices
    (E, q, q), right-hand sides (E, q) and ``solved`` (E, S, d, q + 1).
    """
    starts = normal[..., :d, :d].clone()
    diagonal = starts.diagonal(dim1=-2, dim2=-1)
    largest = diagonal.amax(-1, keepdim=True).clamp(min=1e-300)
    diagonal.copy_(diagonal * (1.0 + damping[:, None, None]) + 1e-12 * largest)
    solved = solve_spd(starts, torch.cat([normal[..., :d, d:], moment[..., :d, None]], -1))
    owed = normal[..., d:, :d] @ solved
    total = (normal[..., d:, d:] - owed[..., :-1]).sum(1)
    return total, (moment[..., d:] - owed[..., -1]).sum(1), solved


def gauss_newton_step(linear: Linear, d: int, damping: Tensor) -> tuple[Tensor, Tensor]:
    """Changes of parameters (E, q) and nodes (E, S, L d) by one damped step.

    Twin of `fim_dynsys.regression.kernels.gauss_newton_step` without a prior of the parameters.
    """
    total, right, solved = eliminate_starts(linear.normal, linear.moment, d, damping)
    matrix = total.clone()
    size = linear.normal.diagonal(dim1=-2, dim2=-1)[..., d:].sum(1)
    matrix.diagonal(dim1=-2, dim2=-1).add_(damping[:, None] * size)
    change = solve_spd(matrix, right[..., None])
    starts = solved[..., -1:] - solved[..., :-1] @ change[:, None]
    own = change[:, None].expand(-1, starts.shape[1], -1, -1)
    both = torch.cat([starts, own, torch.ones_like(starts[..., :1, :])], -2)
    return change[..., 0], (linear.sensitivities @ both)[..., 0]


def solve_spd(matrix: Tensor, right: Tensor) -> Tensor:
    """Solutions (..., m, k) by Cholesky on a unit diagonal plus 1e-13.

    What that addition does not make positive are directions the data do not determine: they stay at rest.
    """
    m = matrix.shape[-1]
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    scale = torch.where(diagonal > 0, diagonal, 1.0).rsqrt()
    left = matrix * scale[..., :, None] * scale[..., None, :]
    left.diagonal(dim1=-2, dim2=-1).add_(1e-13)
    lower = torch.zeros_like(left)
    for i in range(m):
        pivot = left[..., i, i, None]
        # a direction at rest is taken out of the system: a column of zeros
        column = torch.where(pivot > _SMALLEST_PIVOT, left[..., i:, i] * pivot.rsqrt(), 0.0)
        lower[..., i:, i] = column
        left[..., i + 1 :, i + 1 :] -= column[..., 1:, None] * column[..., None, 1:]
    moving = lower.diagonal(dim1=-2, dim2=-1) > 0
    lower = torch.where(moving[..., None], lower, 0.0)
    lower.diagonal(dim1=-2, dim2=-1)[~moving] = 1.0
    right = torch.where(moving[..., None], right * scale[..., None], 0.0)
    forward = torch.linalg.solve_triangular(lower, right, upper=False)
    return torch.linalg.solve_triangular(lower.mT, forward, upper=True) * scale[..., None]
