"""Which objects of one result are those of another: assignment by distance."""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from fim_dynsys.regions import Region


def assigned(a: np.ndarray, b: np.ndarray, limit: float) -> list[tuple[int, int]]:
    """Match rows of `a` with rows of `b` so that the sum of distances is least.

    Parameters
    ----------
    a : ndarray (m, f)
        Features, in units in which distances are comparable.
    b : ndarray (n, f)
        Features of the others.
    limit : float
        Largest distance of a match. Pairs beyond it are left apart, at the cost of the limit each.

    Returns
    -------
    list of (int, int)
        Matched rows.

    References
    ----------
    H. W. Kuhn, The Hungarian method for the assignment problem, Naval Research Logistics Quarterly 2 (1955)
    83.
    """
    distance = np.linalg.norm(a[:, None] - b[None], axis=2)
    rows, columns = linear_sum_assignment(np.minimum(distance, limit))
    return [(int(i), int(j)) for i, j in zip(rows, columns, strict=True) if distance[i, j] < limit]


def extents(sets: Sequence[np.ndarray], region: Region) -> np.ndarray:
    """Lowest and highest corner of sets of states (n, d) in units of the region, (k, 2 d)."""
    ends = [(np.min(x, axis=0), np.max(x, axis=0)) for x in sets]
    corners = (np.array(ends).reshape(-1, 2, region.dim) - region.low) / region.size
    return corners.reshape(-1, 2 * region.dim)
