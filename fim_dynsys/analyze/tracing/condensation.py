"""Condensation: collocation equations without inner nodes and without most ends of intervals."""

from dataclasses import dataclass

import numpy as np

from fim_dynsys.analyze.multipliers import product_eigenvalues
from fim_dynsys.analyze.tracing.polynomials import DEGREE

_SEGMENTS = 15  # what the condensed matrix keeps at least; divides the number of intervals
_GROWTH = 1e4  # of a perturbation over a segment at most: rounding then stays below convergence


@dataclass(frozen=True)
class Flow:
    """Transfer matrices (N, d, d) over the intervals, and the integral of the divergence over a period."""

    transfers: np.ndarray
    divergence: float

    def multipliers(self) -> np.ndarray:
        """Eigenvalues (d,) of the product, which is formed only as far as nothing grows beyond `_GROWTH`."""
        grown = np.cumsum(np.maximum(0.0, np.log(np.linalg.norm(self.transfers, 2, axis=(1, 2)))))
        run = np.floor(grown / np.log(_GROWTH))
        starts = np.flatnonzero(np.diff(run, prepend=-1.0))
        if len(starts) == 1:
            return np.linalg.eigvals(self.monodromy())
        runs = np.split(self.transfers, starts[1:])
        return product_eigenvalues(np.array([_product(part) for part in runs]))[0]

    def monodromy(self) -> np.ndarray:
        """Their product (d, d)."""
        return _product(self.transfers)


def _product(steps: np.ndarray) -> np.ndarray:
    product = np.eye(steps.shape[1])
    for step in steps:
        product = step @ product
    return product


@dataclass
class Condensed:
    """Linearised equations without what was eliminated: over the ends of segments, and the tail.

    ``matrix (n + 1, n + tail)`` times what remains is to be ``load (n + 1,)``; ``inner (N, m d, .)`` gives
    the nodes inside intervals by their left ends, ``left (segments, g, d, .)`` these by those of segments.
    """

    matrix: np.ndarray
    load: np.ndarray
    inner: np.ndarray
    left: np.ndarray
    tail: int
    flow: Flow

    def row(self, border: np.ndarray) -> tuple[np.ndarray, float]:
        """A row over all unknowns as one over what remains, and what the residual adds."""
        d = self.left.shape[2]
        by_node = border[: -self.tail].reshape(-1, DEGREE, d)
        # Inner nodes of an interval: its nodes 1..m-1; node m is the next interval's left end.
        by_inner = by_node[:, 1:].reshape(len(by_node), -1)
        by_left = np.einsum("ji,jia->ja", by_inner, self.inner[:, : (DEGREE - 1) * d])
        rest = by_left[:, d:].sum(axis=0) + np.append(border[-self.tail :], 0.0)
        at_left = (by_node[:, 0] + by_left[:, :d]).reshape(len(self.left), -1, d)
        by_segment = np.einsum("sgi,sgia->sa", at_left, self.left)
        whole = np.concatenate([by_segment[:, :d].ravel(), by_segment[:, d:].sum(axis=0) + rest])
        return whole[:-1], float(whole[-1])

    def expanded(self, reduced: np.ndarray, load: float) -> np.ndarray:
        """All unknowns from what remains; `load` is 1 with the residual and 0 without."""
        d = self.left.shape[2]
        rest = np.append(reduced[-self.tail :], load)
        ends = reduced[: -self.tail].reshape(len(self.left), d)
        lefts = (np.einsum("sgia,sa->sgi", self.left[..., :d], ends) + self.left[..., d:] @ rest).reshape(
            -1, d
        )
        inside = self.inner[:, : (DEGREE - 1) * d]
        inners = np.einsum("jia,ja->ji", inside[:, :, :d], lefts) + inside[:, :, d:] @ rest
        states = np.concatenate([lefts[:, None], inners.reshape(-1, DEGREE - 1, d)], axis=1)
        return np.concatenate([states.ravel(), reduced[-self.tail :]])


def fewest_segments(transfers: np.ndarray) -> int:
    """Into how many segments intervals with these transfers (N, d, d) may be joined, see `_GROWTH`."""
    growth = np.maximum(0.0, np.log(np.linalg.norm(transfers, axis=(1, 2))))
    n = _SEGMENTS
    while n < len(growth) and growth.reshape(n, -1).sum(axis=1).max() > np.log(_GROWTH):
        n *= 2
    return n


def composed(steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Affine maps along segments, from those over single intervals.

    Parameters
    ----------
    steps : ndarray (segments, g, d, d + tail + 1)
        ``next = step @ (x, tail, 1)`` over each of a segment's g intervals.

    Returns
    -------
    left : ndarray (segments, g, d, d + tail + 1)
        Maps from the segment's first point to the left end of each interval.
    across : ndarray (segments, d, d + tail + 1)
        Maps over whole segments.
    """
    d = steps.shape[2]
    here = np.zeros_like(steps[:, 0])
    here[:, :, :d] = np.eye(d)
    left = np.empty_like(steps)
    for k in range(steps.shape[1]):
        left[:, k] = here
        here = steps[:, k, :, :d] @ here
        here[:, :, d:] += steps[:, k, :, d:]
    return left, here
