"""Stretches of one context that are integrated together."""

from collections.abc import Callable
from typing import NamedTuple, Self

import torch
from torch import Tensor

_BOUND = 1e2  # standard deviations: a path that leaves them stands still and gives no gradient
_LONG_GAP = 2.0  # median gaps, beyond which a gap takes more Runge-Kutta steps


class Rollouts(NamedTuple):
    """S starts with up to W samples after each, in normalised units.

    Attributes
    ----------
    starts : Tensor (S, d)
    gaps : Tensor (S, W)
        Times between samples; 0 in the padding.
    counts : tuple of int (W)
        Runge-Kutta steps in each column of gaps.
    targets : Tensor (S, W, d)
    fitted, held_out : Tensor (S, W)
        Weights of the samples that are learnt from and of those that are kept from it; the rows of `fitted`
        add to 1, all of `held_out` too.
    """

    starts: Tensor
    gaps: Tensor
    counts: tuple[int, ...]
    targets: Tensor
    fitted: Tensor
    held_out: Tensor

    @classmethod
    def of(
        cls,
        t: list[Tensor],
        z: list[Tensor],
        path: list[Tensor],
        held_out: list[Tensor],
        window: int | None,
    ) -> Self:
        """Rollouts of trajectories.

        Parameters
        ----------
        t : list of Tensor (n,)
            Normalised times.
        z : list of Tensor (n, d)
            Normalised states, the targets.
        path : list of Tensor (n, d)
            States to start from; those held out are never read.
        held_out : list of bool Tensor (n,)
            Samples that are not learnt from, never the first; a start among them moves to the one before.
        window : int or None
            Samples that a start is followed for: as many starts, at equal distances, that neighbouring
            stretches overlap by half. None: one start for each trajectory, its first sample.
        """
        where = []
        for k, (times, kept) in enumerate(zip(t, held_out, strict=True)):
            n = len(times)
            length = n - 1 if window is None else min(window, n - 1)
            count = 1 if window is None else max(1, 2 * n // window)
            firsts = torch.linspace(0, n - 1 - length, count).floor().long().unique().tolist()
            for first in firsts:
                begin = next(i for i in range(first, -1, -1) if not kept[i])
                where.append((k, begin, first + length - begin))
        width = max(length for _, _, length in where)
        starts = torch.stack([path[k][first] for k, first, _ in where])
        gaps, fitted, out = (starts.new_zeros(len(where), width) for _ in range(3))
        targets = starts.new_zeros(len(where), width, starts.shape[1])
        for row, (k, first, length) in enumerate(where):
            after = slice(first + 1, first + 1 + length)
            gaps[row, :length] = t[k][first : first + 1 + length].diff()
            targets[row, :length] = z[k][after]
            fitted[row, :length] = (~held_out[k][after]).to(fitted)
            out[row, :length] = held_out[k][after].to(out)
        longest = gaps.amax(0) / (_LONG_GAP * gaps[gaps > 0].median())
        counts = longest.ceil().clamp(min=1).long().tolist()
        fitted = fitted / fitted.sum(1, keepdim=True).clamp(min=1)
        return cls(starts, gaps, tuple(counts), targets, fitted, out / out.sum().clamp(min=1))

    def paths(self, rate: Callable[[Tensor], Tensor], starts: Tensor) -> Tensor:
        """States (S, W, d) at all samples after the starts (S, d), by the classical Runge-Kutta method."""
        x, path = starts, []
        for gap, count in zip(self.gaps.T, self.counts, strict=True):
            h = (gap / count)[:, None]
            for _ in range(count):
                k1 = rate(x)
                k2 = rate(x + 0.5 * h * k1)
                k3 = rate(x + 0.5 * h * k2)
                k4 = rate(x + h * k3)
                x = (x + (h / 6.0) * (k1 + 2.0 * (k2 + k3) + k4)).clamp(-_BOUND, _BOUND)
            path.append(x)
        return torch.stack(path, dim=1)

    def losses(self, paths: Tensor) -> tuple[Tensor, Tensor]:
        """Sum over starts of the mean absolute error along each, and the mean error of what is held out."""
        error = (paths - self.targets).abs().sum(-1)
        return (self.fitted * error).sum(), (self.held_out * error).sum()
