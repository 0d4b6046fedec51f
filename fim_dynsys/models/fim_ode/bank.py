"""A bank of local cubic fits in torch: states and slopes of trajectories at several bandwidths."""

from functools import reduce
from math import exp
from operator import add

import torch
from torch import Tensor
from torch.nn.functional import pad, threshold

_BLOCK = 2**16  # elements of a temporary: small enough to stay in cache
_WINDOW_SPAN = 9.0  # windows are cut at 9 of their units, where weight times the sixth power is 1e-12
_SMALLEST_WEIGHT = exp(-0.5 * _WINDOW_SPAN**2)


def _first_rows(m: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """First two rows of the inverse of the 4 x 4 Hankel matrix of moments 0..6 with a ridge, by L D L^T.

    Explicit inverses of its blocks lose all digits where two samples must do for four coefficients.
    """
    ridge = 1e-9 * (m[0] + m[2] + m[4] + m[6]) / 4
    lower: dict[tuple[int, int], Tensor] = {}  # L below the diagonal, 1 / D on it
    for i in range(4):
        times_d: list[Tensor] = []  # row i of L D
        for j in range(i + 1):
            value = m[i + j] + ridge if i == j else m[i + j]
            for k in range(j):
                value = value - times_d[k] * lower[j, k]
            times_d.append(value)
            lower[i, j] = value.reciprocal() if i == j else value * lower[j, j]
    return _solve_unit(lower, 0), _solve_unit(lower, 1)


def _solve_unit(lower: dict[tuple[int, int], Tensor], row: int) -> list[Tensor]:
    """Solution for the right-hand side that is 1 in one row and 0 in the others."""
    forward = {row: torch.ones_like(lower[0, 0])}
    for i in range(row + 1, 4):
        forward[i] = -reduce(add, (lower[i, k] * forward[k] for k in range(row, i)))
    out: dict[int, Tensor] = {}
    for i in range(3, -1, -1):
        value = forward[i] * lower[i, i] if i >= row else torch.zeros_like(lower[0, 0])
        for k in range(i + 1, 4):
            value = value - lower[k, i] * out[k]
        out[i] = value
    return [out[i] for i in range(4)]


def _window_widths(t: Tensor, mask: Tensor, widths: tuple[float, ...]) -> Tensor:
    """Bandwidths (B, W, L): `widths` mean gaps, at least half the distance to the fifth neighbour."""
    count = mask.sum(-1)
    big = torch.finfo(t.dtype).max
    first = torch.where(mask, t, big).amin(-1)
    last = torch.where(mask, t, -big).amax(-1)
    gap = (last - first) / (count - 1).clamp(min=1)
    # times are sorted: the five nearest are a run of five, of which the farther end counts
    padded = pad(torch.where(mask, t, big), (4, 4), value=big)
    runs = padded.unfold(-1, 5, 1)  # (B, L + 4, 5)
    length = t.shape[-1]
    ends = [
        torch.maximum((t - runs[..., o : o + length, 0]).abs(), (runs[..., o : o + length, 4] - t).abs())
        for o in range(5)
    ]
    farthest = torch.maximum(t - first[..., None], last[..., None] - t)
    fifth = torch.where((count < 5)[..., None], farthest, torch.stack(ends).amin(0))
    base = torch.as_tensor(widths, dtype=t.dtype, device=t.device)[:, None] * gap[..., None, None]
    return torch.maximum(base, 0.5 * fifth[..., None, :]).clamp(min=torch.finfo(t.dtype).tiny ** 0.5)


def _window_sums(t: Tensor, x: Tensor, mask: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of w u^p for p = 0..6, (B, W, L, 7), and of w u^p x for p = 0..3, (B, W, L, 4, d)."""
    length = t.shape[1]
    weight = None if bool(mask.all()) else mask.to(x.dtype)[:, None, None]
    far = torch.where(mask, t, torch.finfo(t.dtype).max)
    place = torch.arange(length, device=t.device)
    reach = torch.where(mask[:, None], _WINDOW_SPAN * h, 0.0)
    ahead = torch.searchsorted(far, (t[:, None] + reach).flatten(1), right=True).view(h.shape) - place
    behind = place - torch.searchsorted(far, (t[:, None] - reach).flatten(1)).view(h.shape)
    halves = torch.where(mask[:, None], torch.maximum(ahead, behind), 0).amax((0, 2)).tolist()
    ones_and_x = torch.cat([torch.ones_like(x[..., :1]), x], -1).transpose(1, 2)[:, None]
    inverse = h.reciprocal()
    moments, targets, first = [], [], 0
    while first < len(halves):  # bandwidths of similar reach are taken together
        last = first + 1
        while last < len(halves) and halves[last] <= 3.1 * halves[first]:
            last += 1
        half = max(halves[first:last])
        sums = []
        for rows in _row_blocks(length, half, len(h) * (last - first)):
            columns = slice(max(rows.start - half, 0), rows.stop + half)
            u = (t[:, None, columns] - t[:, rows, None])[:, None] * inverse[:, first:last, rows, None]
            near = None if weight is None else weight[..., columns]
            sums.append(_moments(u, near, ones_and_x[..., columns]))
        moments.append(torch.cat([s[0] for s in sums], 2))
        targets.append(torch.cat([s[1] for s in sums], 2))
        first = last
    return torch.cat(moments, 1), torch.cat(targets, 1)


def _row_blocks(length: int, half: int, depth: int) -> list[slice]:
    """Blocks of evaluation times such that `depth` blocks with their windows stay near `_BLOCK` elements."""
    size = 16
    while size < length and 2 * size * depth * min(2 * size + 2 * half, length) <= _BLOCK:
        size *= 2
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


def _moments(u: Tensor, weight: Tensor | None, ones_and_x: Tensor) -> tuple[Tensor, Tensor]:
    """Sums over the last axis of w u^p for p = 0..6, and of w u^p x for p = 0..3."""
    kernel = threshold((u * u).mul_(-0.5).exp_(), _SMALLEST_WEIGHT, 0.0)
    if weight is not None:
        kernel *= weight
    products, sums = [], []
    for power in range(7):
        if power < 4:  # the narrow factor to the left: four times as fast in the library behind
            products.append(ones_and_x @ kernel.transpose(-1, -2))
        else:
            sums.append(kernel.sum(-1))
        if power < 6:
            kernel *= u
    low = torch.stack(products, -1)  # (B, W', 1 + d, rows, 4)
    return torch.cat([low[:, :, 0], torch.stack(sums, -1)], -1), low[:, :, 1:].permute(0, 1, 3, 4, 2)


@torch.no_grad()
def smoothing_bank(t: Tensor, x: Tensor, mask: Tensor, widths: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    """Local cubic fits at every observation, one level per bandwidth, then the raw samples.

    Parameters
    ----------
    t : Tensor
        Sorted times (B, L), padding at the end.
    x : Tensor
        Observations (B, L, d).
    mask : Tensor
        (B, L) bool, True where observed.
    widths : tuple of float
        Bandwidths in mean gaps.

    Returns
    -------
    states, slopes : (B, W + 1, L, d) tensors; the raw level takes the slopes of the narrowest window.
        Zero where unobserved. Equal to `fim_dynsys.regression.smoothing.smoothing_bank`.
    """
    h = _window_widths(t, mask, widths)
    moments, targets = _window_sums(t, x, mask, h)
    value, slope = _first_rows(list(moments.unbind(-1)))
    states = (torch.stack(value, -1)[..., None, :] @ targets).squeeze(-2)
    slopes = (torch.stack(slope, -1)[..., None, :] @ targets).squeeze(-2) / h[..., None]
    states = torch.cat([states, x[:, None]], 1)
    slopes = torch.cat([slopes, slopes[:, :1]], 1)
    observed = mask[:, None, :, None]
    return torch.where(observed, states, 0.0), torch.where(observed, slopes, 0.0)
