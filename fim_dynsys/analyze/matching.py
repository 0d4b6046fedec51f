"""Which objects of one result are those of another: assignment by distance."""

import numpy as np
from scipy.optimize import linear_sum_assignment


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
