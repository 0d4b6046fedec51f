"""Blocks of the observed data that are kept from a fit, to choose by."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

FOLDS = 5  # of cross-validation: a fifth of the data is held out at a time
_FEWEST = 12  # samples: below, blocks are too few to choose by


def held_out_blocks(lengths: Sequence[int], block: int, folds: int = FOLDS) -> list[list[np.ndarray]]:
    """Masks of the samples that each fold holds out.

    Stretches of samples are cut into blocks of almost equal number; blocks go round the folds, except for the
    first and the last of a stretch, without which its path would be extrapolated.

    Parameters
    ----------
    lengths : sequence of int (K)
        Samples of each stretch.
    block : int
        Samples in a block, about; fewer where there would be less than three blocks to a fold, or four to a
        stretch.
    folds : int
        Number of masks.

    Returns
    -------
    list (folds) of lists (K) of bool arrays (n_k,)
        True where held out.

    Raises
    ------
    ValueError
        Where the samples are too few.
    """
    block = max(1, min(block, sum(lengths) // (3 * folds), int(np.median(lengths)) // 4))
    masks = [[np.zeros(n, dtype=bool) for n in lengths] for _ in range(folds)]
    count = 0
    for k, n in enumerate(lengths):
        edges = np.round(np.linspace(0, n, max(1, round(n / block)) + 1)).astype(int)
        for a, b in pairwise(edges[1:-1]):
            masks[count % folds][k][a:b] = True
            count += 1
    if count < folds or sum(lengths) < _FEWEST:
        raise ValueError(
            f"finetune: expected at least {_FEWEST} samples, in stretches long enough to hold {folds} blocks "
            f"out of, got {sum(lengths)} in {len(lengths)} stretches; give more samples."
        )
    return masks


def of_blocks(values: np.ndarray, mask: np.ndarray) -> list[float]:
    """Mean of values (n,) over each run of True in a mask (n,)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return [float(values[a:b].mean()) for a, b in edges.reshape(-1, 2)]
