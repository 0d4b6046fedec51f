"""Smoothed states and slopes of many contexts at once, as tensors.

Batched twins of three smoothers of `fim_dynsys.regression.smoothing`, those that candidates are made from at
inference. They take padded contexts of one trajectory each: times (B, N), observed first and in order where
the mask (B, N) is true, states (B, N, d), float64. Unlike the originals they take at most 1000 samples, no
weights of samples, and no samples so near to each other that these would be averaged.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

GCV_PROBES, GCV_PENALTIES = 16, 24
"""Sign vectors and penalties of the generalised cross-validation."""

MANY = 1000
"""Largest number of samples."""

NEAREST = 1e-4 / 3
"""Smallest gap in units of the span."""

_RIDGE = 1e-9
_BLOCK = 2**22  # elements of a temporary of the local fits


class Smoothed(NamedTuple):
    """States and slopes (B, N, d), 0 in padding."""

    states: Tensor
    slopes: Tensor


def last_time(t: Tensor, mask: Tensor) -> Tensor:
    """Last observed times (B,)."""
    return t.gather(1, mask.sum(1, keepdim=True) - 1)[:, 0]


def tricube_cubic(t: Tensor, x: Tensor, mask: Tensor, half_width: Tensor) -> Smoothed:
    """Local cubic fits with tricube windows of half widths (B,), wider where they would hold few samples."""
    if t.shape[1] > MANY:
        raise ValueError(
            f"tricube_cubic: expected contexts with room for at most {MANY} samples, got {t.shape[1]}; give "
            "fewer, or smooth them one by one with fim_dynsys.regression.smoothing."
        )
    at_once = max(1, _BLOCK // t.shape[1] ** 2)
    parts = zip(*(part.split(at_once) for part in (t, x, mask, half_width)), strict=True)
    states, slopes = zip(*(_windowed_cubic(*part) for part in parts), strict=True)
    return Smoothed(torch.cat(states), torch.cat(slopes))


def _windowed_cubic(t: Tensor, x: Tensor, mask: Tensor, half_width: Tensor) -> Smoothed:
    apart = t[:, None] - t[:, :, None]  # from each time to all others
    distance = torch.where(mask[:, None], apart.abs(), torch.inf)
    h = torch.maximum(half_width[:, None], 1.01 * distance.kthvalue(6, dim=-1).values)[..., None]
    u = torch.where(mask[:, None], apart / h, 1.0)
    weight = (1.0 - u.abs() ** 3).clamp(min=0.0) ** 3
    sums, targets = [], []
    for power in range(7):
        sums.append(weight.sum(-1))
        if power < 4:
            targets.append(weight @ x)
        weight = weight * u
    normal = torch.stack([torch.stack(sums[i : i + 4], -1) for i in range(4)], -2)
    ridge = _RIDGE * normal.diagonal(dim1=-2, dim2=-1).sum(-1) / 4.0
    eye = torch.eye(4, dtype=t.dtype, device=t.device)
    # windows of padding hold nothing
    normal = torch.where(mask[..., None, None], normal + ridge[..., None, None] * eye, eye)
    c = torch.linalg.solve(normal, torch.stack(targets, -2))
    inside = mask[..., None]
    return Smoothed(torch.where(inside, c[..., 0, :], 0.0), torch.where(inside, c[..., 1, :] / h, 0.0))


def constant_velocity(t: Tensor, x: Tensor, mask: Tensor, bandwidth: Tensor) -> Smoothed:
    """Smoothing splines of one bandwidth (B,) each, see the original."""
    count = mask.sum(1)
    penalty = bandwidth**4 * (count - 1) / (last_time(t, mask) - t[:, 0])
    values, second = _splines(t, x, count, penalty[:, None])
    return _with_slopes(t, values[:, 0], second[:, 0], mask)


def gcv_spline(t: Tensor, x: Tensor, mask: Tensor) -> Smoothed:
    """Smoothing splines with penalties by generalised cross-validation, one for each coordinate."""
    n, d = x.shape[1:]
    count, span = mask.sum(1), last_time(t, mask) - t[:, 0]
    gap = span / (count - 1)
    probes = torch.from_numpy(np.random.default_rng(0).choice([-1.0, 1.0], size=(n, GCV_PROBES))).to(x)
    probes = torch.where(mask[..., None], probes, 0.0)
    # bandwidths from half a mean gap to a third of the span, evenly in the logarithm
    place = torch.linspace(0.0, 1.0, GCV_PENALTIES, dtype=t.dtype, device=t.device)
    bandwidths = 0.5 * gap[:, None] * (span / 1.5 / gap)[:, None] ** place
    y = torch.cat([torch.where(mask[..., None], x, 0.0), probes], -1)
    values, second = _splines(t, y, count, bandwidths**4 / gap[:, None])
    trace = (probes[:, None] * values[..., d:]).sum(2).mean(-1)  # (B, penalties)
    left = ((y[:, None, :, :d] - values[..., :d]) ** 2).sum(2)
    scores = left / (1.0 - trace / count[:, None]).clamp(min=1e-6)[..., None] ** 2
    best = scores.argmin(1)[:, None, None].expand(-1, 1, n, -1)
    values, second = (part[..., :d].gather(1, best)[:, 0] for part in (values, second))
    return _with_slopes(t, values, second, mask)


def _gaps(t: Tensor, count: Tensor) -> Tensor:
    """Gaps (B, N - 1), 1 in padding."""
    place = torch.arange(1, t.shape[1], device=t.device)
    return torch.where(place < count[:, None], t[:, 1:] - t[:, :-1], 1.0)


def _splines(t: Tensor, y: Tensor, count: Tensor, penalty: Tensor) -> tuple[Tensor, Tensor]:
    """Values and second derivatives (B, P, N, k) of splines of y (B, N, k) with penalties (B, P)."""
    h = _gaps(t, count)
    a, c = 1.0 / h[:, :-1], 1.0 / h[:, 1:]
    b = -(a + c)
    inner = torch.arange(a.shape[1], device=t.device) < count[:, None] - 2
    zero = torch.zeros_like(a)
    diagonal = (h[:, :-1] + h[:, 1:]) / 3.0, a * a + b * b + c * c
    first = pad(h[:, 1:-1] / 6.0, (1, 0)), pad(b[:, :-1] * a[:, 1:] + c[:, :-1] * b[:, 1:], (1, 0))
    second = zero, pad(c[:, :-2] * a[:, 2:], (2, 0))
    bands = [
        torch.where(inner[..., None], curvature[..., None] + penalty[:, None] * roughness[..., None], other)
        for (curvature, roughness), other in ((second, 0.0), (first, 0.0), (diagonal, 1.0))
    ]
    load = a[..., None] * y[:, :-2] + b[..., None] * y[:, 1:-1] + c[..., None] * y[:, 2:]
    load = torch.where(inner[..., None], load, 0.0)
    found = _pentadiagonal([band.transpose(0, 1) for band in bands], load.transpose(0, 1)[:, :, None])
    found = found.permute(1, 2, 0, 3)  # (B, P, N - 2, k)
    a, b, c = (part[:, None, :, None] for part in (a, b, c))
    pull = pad(a * found, (0, 0, 0, 2)) + pad(b * found, (0, 0, 1, 1)) + pad(c * found, (0, 0, 2, 0))
    return y[:, None] - penalty[..., None, None] * pull, pad(found, (0, 0, 1, 1))


def _pentadiagonal(bands: list[Tensor], right: Tensor) -> Tensor:
    """Solutions (n, B, P, k) of systems with bands (n, B, P) and right-hand sides (n, B, 1, k).

    Twin of `fim_dynsys.regression.kernels.solve_pentadiagonal`, whose order of bands it takes.
    """
    second, first, diagonal = bands
    n = len(diagonal)
    pivots: list[Tensor] = []
    ones: list[Tensor] = []
    twos: list[Tensor] = []
    out = right.new_empty(n, *diagonal.shape[1:], right.shape[-1])
    for i in range(n):
        value, off = diagonal[i], first[i]
        one = two = torch.zeros_like(value)
        if i > 1:
            two = second[i] / pivots[i - 2]
            off = off - second[i] * ones[i - 1]
            value = value - two * second[i]
        if i > 0:
            one = off / pivots[i - 1]
            value = value - one * off
        pivots.append(value)
        ones.append(one)
        twos.append(two)
        out[i] = right[i]
        if i > 0:
            out[i].addcmul_(one[..., None], out[i - 1], value=-1.0)
        if i > 1:
            out[i].addcmul_(two[..., None], out[i - 2], value=-1.0)
    for i in range(n - 1, -1, -1):
        out[i] /= pivots[i][..., None]
        if i + 1 < n:
            out[i].addcmul_(ones[i + 1][..., None], out[i + 1], value=-1.0)
        if i + 2 < n:
            out[i].addcmul_(twos[i + 2][..., None], out[i + 2], value=-1.0)
    return out


def _with_slopes(t: Tensor, values: Tensor, second: Tensor, mask: Tensor) -> Smoothed:
    """Splines (B, N, d) and their first derivatives at the samples."""
    count = mask.sum(1)
    h = _gaps(t, count)[..., None]
    chord = (values[:, 1:] - values[:, :-1]) / h
    left = pad(chord - h * (2.0 * second[:, :-1] + second[:, 1:]) / 6.0, (0, 0, 0, 1))
    end = pad(chord + h * (second[:, :-1] + 2.0 * second[:, 1:]) / 6.0, (0, 0, 1, 0))
    place = torch.arange(t.shape[1], device=t.device)
    last = (place == count[:, None] - 1)[..., None]
    inside = mask[..., None]
    return Smoothed(torch.where(inside, values, 0.0), torch.where(inside, torch.where(last, end, left), 0.0))
