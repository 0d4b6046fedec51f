"""Curves of several fields compared: how far others lie from one, point by point."""

from collections.abc import Sequence

import numpy as np


def distances(path: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Distance of each point of a path (m, d) from the polyline through the rows of another (n, d)."""
    start, step = other[:-1], np.diff(other, axis=0)
    square = np.maximum(np.sum(step**2, axis=1), np.finfo(float).tiny)
    away = path[:, None] - start
    share = np.clip(np.sum(away * step, axis=2) / square, 0.0, 1.0)
    return np.linalg.norm(away - share[:, :, None] * step, axis=2).min(axis=1)


def nearest(path: np.ndarray, others: Sequence[np.ndarray], limit: float) -> np.ndarray:
    """Distances (m,) from the curve that follows a path most closely; NaN where none is within the limit.

    The first half of the path decides, since ends part ways.
    """
    candidates = [distances(path, other) for other in others if len(other) > 1]
    if not candidates:
        return np.full(len(path), np.nan)
    best = min(candidates, key=lambda found: found[: max(1, len(found) // 2)].mean())
    if best[: max(1, len(best) // 2)].mean() > limit:
        return np.full(len(path), np.nan)
    return np.where(best <= limit, best, np.nan)
