"""Multiple shooting: every trajectory in segments that are all solved in one batch.

References
----------
H. G. Bock and K. J. Plitt, A multiple shooting algorithm for direct solution of optimal control problems,
IFAC Proceedings Volumes 17 (1984), section 2.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
import torch
from torch import Tensor

from fim_dynsys_common.data import Batch


@dataclass(frozen=True, eq=False)
class Segments:
    """S segments of up to W intervals; a segment's last sample is the first of the one that follows.

    Attributes
    ----------
    trajectory : Tensor of int (S,)
        Which trajectory each belongs to.
    samples : Tensor of int (S, W + 1)
        Samples in each; the last repeats in the padding.
    times : Tensor (S, W + 1)
        Their times from the start of the segment, for `rollout.rk4`.
    own : Tensor of bool (S, W + 1)
        Each sample of a trajectory in one segment only: a segment's end is the next one's own.
    linked : Tensor of int (J,)
        Segments that another follows; it is the next in order.
    is_first : Tensor of bool (S,)
        Whether it starts a trajectory.
    """

    trajectory: Tensor
    samples: Tensor
    times: Tensor
    own: Tensor
    linked: Tensor
    is_first: Tensor

    @classmethod
    def of(cls, batch: Batch, intervals: int | None = None) -> Self:
        """Segments of at most `intervals` gaps between samples, of almost equal number; None: whole ones."""
        trajectory: list[int] = []
        bounds: list[tuple[int, int]] = []
        linked: list[int] = []
        is_first: list[bool] = []
        for k, n in enumerate(batch.n_obs):
            pieces = 1 if intervals is None else max(-(-(n - 1) // intervals), 1)
            edges = np.round(np.linspace(0, n - 1, pieces + 1)).astype(int)
            linked += [len(bounds) + i for i in range(pieces - 1)]
            is_first += [True] + [False] * (pieces - 1)
            bounds += list(pairwise(edges))
            trajectory += [k] * pieces
        first, last = np.array(bounds).T
        columns = first[:, None] + np.arange((last - first).max() + 1)
        own = columns < last[:, None]
        ends = np.ones(len(bounds), dtype=bool)
        ends[linked] = False
        own |= ends[:, None] & (columns == last[:, None])
        which = torch.tensor(trajectory)
        samples = torch.tensor(np.minimum(columns, last[:, None]))
        times = batch.t[which[:, None], samples]
        return cls(
            trajectory=which,
            samples=samples,
            times=times - times[:, :1],
            own=torch.tensor(own),
            linked=torch.tensor(linked, dtype=torch.long),
            is_first=torch.tensor(is_first),
        )

    def __len__(self) -> int:
        return len(self.trajectory)

    def gather(self, values: Tensor) -> Tensor:
        """Values (K, L, ...) at the samples of each segment, (S, W + 1, ...)."""
        return values[self.trajectory[:, None], self.samples]

    def starts(self, values: Tensor) -> Tensor:
        """Values (K, L, ...) at the first sample of each segment, (S, ...)."""
        return values[self.trajectory, self.samples[:, 0]]

    def jumps(self, paths: Tensor, starts: Tensor) -> Tensor:
        """From the end (in paths (..., S, W + 1, d)) of a segment to the start (..., S, d) of the next.

        Returns
        -------
        Tensor (..., J, d)
            Zero where the path is continuous.
        """
        return starts[..., self.linked + 1, :] - paths[..., self.linked, -1, :]
