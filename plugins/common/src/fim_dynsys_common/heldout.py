"""Contiguous blocks of the training data that are kept from the fit, to choose by."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def held_out_blocks(n_obs: Sequence[int], folds: int = 5, blocks: int = 1) -> Tensor:
    """Masks of the samples that each fold holds out.

    Each trajectory is cut into ``1 + folds * blocks`` contiguous blocks of almost equal number, of two
    samples at least (into two blocks, where it has fewer than four). The first is never held out, since it
    carries the initial state; the others go round the folds, from trajectory to trajectory one fold on.

    Parameters
    ----------
    n_obs : sequence of K ints
        Samples of each trajectory.
    folds : int
        Masks wanted.
    blocks : int
        Blocks that a fold holds out of each trajectory.

    Returns
    -------
    Tensor of bool (F, K, max(n_obs))
        True where held out. F is `folds`, less those for which the trajectories are too short.

    Raises
    ------
    ValueError
        Where no trajectory has two samples.
    """
    masks = np.zeros((folds, len(n_obs), max(n_obs)), dtype=bool)
    for k, n in enumerate(n_obs):
        pieces = min(1 + folds * blocks, max(n // 2, 2), n)
        edges = np.round(np.linspace(0, n, pieces + 1)).astype(int)
        for piece in range(1, pieces):
            masks[(piece - 1 + k) % folds, k, edges[piece] : edges[piece + 1]] = True
    used = masks.any(axis=(1, 2))
    if not used.any():
        raise ValueError(
            f"held_out_blocks: expected a trajectory of at least 2 samples, got {max(n_obs)} at most."
        )
    return torch.tensor(masks[used])
