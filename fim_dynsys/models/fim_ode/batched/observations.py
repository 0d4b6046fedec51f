"""Many contexts in units of their size and pace, with what candidates of each are judged by, as tensors.

Batched twin of `fim_dynsys.regression.candidates.observe` for contexts of one trajectory without long gaps.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fim_dynsys.models.fim_ode.batched.rollout import Grid, step_grid
from fim_dynsys.models.fim_ode.batched.smoothing import NEAREST, Smoothed, gcv_spline, last_time
from fim_dynsys.regression.criteria import (
    ADDITIVE_SHARES,
    INTERPOLATION_SHARES,
    UNEVEN,
    VARIANCE_FLOOR,
)

STEP_LIMIT = 0.15
"""Longest Runge-Kutta step in units of the time in which the state travels one standard deviation."""

STEPS_PER_GAP = 64
"""Contexts with a gap of more than so many steps are left to the search that cuts them."""

FEWEST = 12
"""Least number of samples."""


@dataclass(frozen=True)
class Scaled:
    """B contexts of one dimension in scaled units; see `fim_dynsys.regression.candidates.Observations`.

    Attributes
    ----------
    t : Tensor (B, N)
        Times from 0; padding repeats the last.
    z : Tensor (B, N, d)
        States, 0 in padding.
    mask : Tensor (B, N)
        bool, observed samples come first.
    weights : Tensor (B, N, d)
        Inverse relative variances, 0 in padding.
    spline : Smoothed
        The samples smoothed by the spline that trajectory fits start from.
    scale : Tensor (B, d)
        Root mean square of each state, ``x = scale * z``.
    time_unit : Tensor (B,)
    level, share : Tensor (B, d)
        Of the noise law.
    whole : Tensor (B,)
        bool, whether a context has neither gaps that a search would cut at nor samples that a spline would
        average: the others are not what these tensors hold.
    """

    t: Tensor
    z: Tensor
    mask: Tensor
    weights: Tensor
    spline: Smoothed
    scale: Tensor
    time_unit: Tensor
    level: Tensor
    share: Tensor
    whole: Tensor

    @cached_property
    def n(self) -> Tensor:
        """Number of samples (B,)."""
        return self.mask.sum(1)

    @cached_property
    def span(self) -> Tensor:
        """Observed times (B,)."""
        return last_time(self.t, self.mask)

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.z.shape[2]

    @cached_property
    def start(self) -> Tensor:
        """Smoothed first states (B, d)."""
        return self.spline.states[:, 0]

    @cached_property
    def start_variance(self) -> Tensor:
        """Variances (B, d) of `start`."""
        return 0.5 * self.level**2 + (3e-3) ** 2 * self.signal_variance

    @cached_property
    def signal_variance(self) -> Tensor:
        """Weighted variances (B, d) of the states about their means."""
        mean = (self.weights * self.z).sum(1) / self.weights.sum(1)
        return (self.weights * (self.z - mean[:, None]) ** 2).sum(1) / self.n[:, None]

    @cached_property
    def noise_variance(self) -> Tensor:
        """Variances (B, d) of the noise, or of what counts as none; positive."""
        return torch.maximum(self.level**2, VARIANCE_FLOOR * self.signal_variance).clamp(min=1e-300)

    @cached_property
    def grid(self) -> Grid:
        """Runge-Kutta steps between the samples."""
        return step_grid(self.t, self.mask, STEP_LIMIT)

    def residual_variance(self, paths: Tensor) -> Tensor:
        """Weighted mean squared residuals (B, C, d) of paths (B, C, N, d)."""
        weights = self.weights[:, None]
        squares = torch.where(weights > 0, weights * (paths - self.z[:, None]) ** 2, 0.0)
        return squares.sum(2) / self.n[:, None, None]

    def take(self, index: Tensor) -> "Scaled":
        """Some of the contexts."""
        parts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        own = {k: Smoothed(*(p[index] for p in v)) if k == "spline" else v[index] for k, v in parts.items()}
        return Scaled(**own)


def scaled(t: Tensor, x: Tensor, mask: Tensor) -> Scaled:
    """Scale padded contexts and estimate their noise.

    Parameters
    ----------
    t : Tensor
        Increasing times (B, N), padding at the end.
    x : Tensor
        States (B, N, d).
    mask : Tensor
        (B, N) bool, true where a sample is observed, at least `FEWEST` of each context.
    """
    fewest = int(mask.sum(1).min())
    if fewest < FEWEST:
        raise ValueError(
            f"scaled: expected at least {FEWEST} samples in each context, got {fewest}; leave out contexts "
            "with so few."
        )
    t, inside = t.double(), mask[..., None]
    x = torch.where(inside, x.double(), 0.0)
    count = mask.sum(1)[:, None]
    size = _positive(x.abs().amax(1))
    scale = _positive(size * ((x / size[:, None]) ** 2).sum(1).div(count).sqrt())
    longest = last_time(t, mask) - t[:, 0]
    t = (torch.where(mask, t, last_time(t, mask)[:, None]) - t[:, :1]) / longest[:, None]
    z = x / scale[:, None]
    level, share, rms = _noise_law(t, z, mask)
    spline = gcv_spline(t, z, mask)
    unit = _time_unit(t, spline, mask, level)
    gaps = t[:, 1:] - t[:, :-1]
    longest_gap = STEPS_PER_GAP * STEP_LIMIT * (1.0 + 1e-9) * unit
    whole = (torch.where(mask[:, 1:], gaps, 1.0) >= NEAREST).all(1) & (gaps <= longest_gap[:, None]).all(1)
    relative = share[:, None] + (1.0 - share[:, None]) * (spline.states / rms[:, None]) ** 2
    spline = Smoothed(spline.states, unit[:, None, None] * spline.slopes)
    weights = torch.where(inside, 1.0 / relative, 0.0)
    return Scaled(t / unit[:, None], z, mask, weights, spline, scale, unit * longest, level, share, whole)


def _positive(size: Tensor) -> Tensor:
    return torch.where(size > 0, size, 1.0)


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over samples of values (B, N, ...)."""
    shape = (*mask.shape, *[1] * (values.ndim - 2))
    count = mask.sum(1).view(-1, *[1] * (values.ndim - 2))
    return torch.where(mask.view(shape), values, 0.0).sum(1) / count


def _median(values: Tensor, mask: Tensor) -> Tensor:
    """Median (B,) over samples of values (B, N)."""
    ordered = torch.where(mask, values, torch.inf).sort(1).values
    count = mask.sum(1, keepdim=True)
    return 0.5 * (ordered.gather(1, (count - 1) // 2) + ordered.gather(1, count // 2))[:, 0]


def _noise_law(t: Tensor, z: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Level, share and root mean square (B, d); see `fim_dynsys.regression.criteria.noise_law`."""
    rms = _positive(_mean(z**2, mask).sqrt())
    seen = mask[:, 4:]
    residuals, errors = _pseudo_residuals(t, z)
    n = z.shape[1]
    local = torch.stack([z[:, k : n - 4 + k] ** 2 for k in range(5)]).mean(0)
    squares = torch.where(seen, errors**2, 0.0)
    squares = squares / _mean(squares[..., None], seen)
    uneven = squares.amax(1) >= UNEVEN * torch.where(seen, squares, torch.inf).amin(1)
    share, interpolation = torch.cartesian_prod(
        torch.tensor(INTERPOLATION_SHARES, dtype=z.dtype, device=z.device),
        torch.tensor(ADDITIVE_SHARES, dtype=z.dtype, device=z.device),
    ).unbind(1)[::-1]
    # (B, n - 4, laws, d)
    relative = share[:, None] + (1.0 - share[:, None]) * (local / rms[:, None] ** 2)[:, :, None]
    relative = relative + (interpolation * squares[..., None])[..., None]
    level2 = _mean(residuals[:, :, None] ** 2 / relative, seen)
    count = seen.sum(1)[:, None, None]
    deviance = count * torch.log(level2.clamp(min=1e-300))
    deviance = deviance + torch.where(seen[..., None, None], relative.log(), 0.0).sum(1)
    cost = torch.where(uneven[:, None], count[:, 0].log(), torch.inf)
    deviance = deviance + torch.where(interpolation > 0, cost, 0.0)[..., None]
    best = deviance.argmin(1, keepdim=True)
    return level2.gather(1, best)[:, 0].sqrt(), share[best[:, 0]], rms


def _pseudo_residuals(t: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """Samples less the cubic through their neighbours (B, N - 4, d), and what adds to them (B, N - 4).

    Without meaning next to padding.
    """
    n = t.shape[1]
    neighbours = (0, 1, 3, 4)
    nodes = torch.stack([t[:, k : n - 4 + k] for k in neighbours], -1) - t[:, 2 : n - 2, None]
    lagrange = []
    for i in range(4):
        others = torch.stack([nodes[..., j] for j in range(4) if j != i], -1)
        apart = nodes[..., i, None] - others
        lagrange.append((-others / torch.where(apart != 0, apart, 1.0)).prod(-1))
    lagrange = torch.stack(lagrange, -1)
    values = torch.stack([z[:, k : n - 4 + k] for k in neighbours], -2)
    interpolated = (lagrange[..., None] * values).sum(-2)
    unit = (1.0 + (lagrange**2).sum(-1)).sqrt()
    return (z[:, 2 : n - 2] - interpolated) / unit[..., None], nodes.prod(-1) / unit


def _time_unit(t: Tensor, spline: Smoothed, mask: Tensor, level: Tensor) -> Tensor:
    """Times (B,) in which the states travel one standard deviation, on times from 0 to 1."""
    mean = _mean(spline.states, mask)
    spread = _mean((spline.states - mean[:, None]) ** 2, mask)
    gaps = t[:, 1:] - t[:, :-1]
    shortest = _median(gaps, mask[:, 1:]) / (STEPS_PER_GAP * STEP_LIMIT)
    squares = (spline.slopes**2).mean(-1)
    typical = _median(squares, mask)
    noise = torch.maximum(level**2, VARIANCE_FLOOR * spread).mean(-1)
    known = _precision(gaps, mask, torch.where(typical > 0, noise / _positive(typical), 0.0))
    speed = _mean(known * squares, mask) / _mean(known, mask)
    spread = spread.mean(-1)
    moving = (speed > 0) & (spread > 0)
    pace = torch.maximum((spread / _positive(speed)).sqrt(), shortest)
    return torch.where(moving, pace, 1.0)


def _precision(gaps: Tensor, mask: Tensor, squared_delay: Tensor) -> Tensor:
    """Relative precision (B, N) of differences; see the original in `fim_dynsys.regression.candidates`."""
    far = torch.where(mask[:, 1:], gaps, torch.inf)
    ends = torch.nn.functional.pad(far, (1, 1), value=torch.inf)
    smallest = torch.minimum(ends[:, :-1], ends[:, 1:])
    # the ends have the stencil of their neighbours
    place, last = torch.arange(mask.shape[1], device=gaps.device), mask.sum(1, keepdim=True) - 1
    smallest = torch.where(place == 0, smallest[:, 1:2], smallest)
    smallest = torch.where(place == last, smallest.gather(1, last - 1), smallest)
    usual = _median(smallest, mask)[:, None]
    delay = (squared_delay.sqrt()[:, None] / usual).clamp(max=1e100)
    ratio = smallest / usual
    return ((1.0 + delay**2) * (ratio / torch.hypot(ratio, delay)) ** 2).clamp(max=1.0)
