"""Where a search for zeros starts: evenly, at the data, and in cells where all components may vanish."""

from itertools import product

import numpy as np

from fim_dynsys.analyze.equilibria.newton import Meter
from fim_dynsys.regions import Region
from fim_dynsys.trajectories.container import Trajectories

# Cells along a side of the grid on which signs are looked at, and how often those that qualify are halved.
# From four dimensions on a grid is too coarse to tell, or too large: these take 257, 1,089 and 2,197 points.
_CELLS = {1: (256, 3), 2: (32, 2), 3: (12, 1)}
_MOST_CELLS = 600  # each is a start, and its halving takes 3^d points: at most 16,200 in space
_SEEDS = (64, 256)  # Sobol points per dimension: with cells to start from besides, and without
_TRIED = 8  # points at which a state of 0 must be at rest: fewer rates vanish by chance
_MOST_DATA = 64  # as many as Sobol points in one dimension: data must not take the search over


def starting_points(meter: Meter, region: Region, n_seeds: int | None, seed: int) -> np.ndarray:
    """Points from which all zeros of a field in a region should be reached.

    Parameters
    ----------
    meter : Meter
        The field.
    region : Region
        Where to search.
    n_seeds : int or None
        Number of scrambled Sobol points; None for 64 per dimension, from four dimensions on 256.
    seed : int
        Of their scrambling.

    Returns
    -------
    ndarray (n, d)
        Those of `even_points`, up to 64 observed states, and the centres of the cells of `candidate_cells`.
    """
    count = _SEEDS[region.dim > 3] * region.dim if n_seeds is None else n_seeds
    even = even_points(meter, region, count, seed)
    return np.concatenate([even, _observed(meter.field.context, region), candidate_cells(meter, region)])


def even_points(meter: Meter, region: Region, n: int, seed: int) -> np.ndarray:
    """Scrambled Sobol points (n, d), and as many more with some states at 0 where these stay there.

    A species that is absent remains so. Newton's method keeps such states at 0, and finds equilibria there
    that attract few other starts: of 64 in six dimensions, 45 in a box of three times their size.
    """
    even = region.sobol(n, seed)
    absorbing = _absorbing(meter, region)
    if not absorbing.any():
        return even
    chosen = np.random.default_rng(seed).random(even.shape) < 0.5
    return np.concatenate([even, np.where(chosen & absorbing, 0.0, even)])


def _absorbing(meter: Meter, region: Region) -> np.ndarray:
    """Which states (d,) stay at 0 once they are there, at all of a few points that were tried."""
    d = region.dim
    possible = (region.low <= 0.0) & (region.high >= 0.0)
    if not possible.any() or not meter.affords(_TRIED * d):
        return np.zeros(d, dtype=bool)
    x = np.tile(region.sobol(_TRIED, 0), (d, 1, 1))
    x[np.arange(d), :, np.arange(d)] = 0.0
    rates = meter.rhs(x.reshape(-1, d)).reshape(d, _TRIED, d)
    return possible & (rates[np.arange(d), :, np.arange(d)] == 0.0).all(axis=1)


def _observed(context: Trajectories | None, region: Region) -> np.ndarray:
    if context is None:
        return np.empty((0, region.dim))
    x = np.asarray(context.x).reshape(-1, region.dim)
    x = x[region.contains(x)]
    return x[:: max(1, -(-len(x) // _MOST_DATA))]


def candidate_cells(meter: Meter, region: Region) -> np.ndarray:
    """Centres of small cells in which every component of the field may vanish.

    A grid cell qualifies if each component takes both signs on its corners, or comes so close to 0 that its
    curvature (second differences on the grid) lets it. Those cells are halved, and tested again.

    Parameters
    ----------
    meter : Meter
        The field.
    region : Region
        Where to look.

    Returns
    -------
    ndarray (n, d)
        At most 600, spread over those found; none from four dimensions on, or where the budget is short.
    """
    d = region.dim
    if d not in _CELLS:
        return np.empty((0, d))
    n, halvings = _CELLS[d]
    if not meter.affords((n + 1) ** d):
        return np.empty((0, d))
    low, slack = _qualifying(meter.rhs(region.grid(n + 1)).reshape(*[n + 1] * d, d), d)
    size = region.size / n
    low = region.low + low * size
    for _ in range(halvings):
        keep = slice(None, None, max(1, -(-len(low) // _MOST_CELLS)))
        low, slack, size = low[keep], slack[keep] / 4.0, size / 2.0
        if not len(low) or not meter.affords(3**d * len(low)):
            break
        low, slack = _halved(meter, low, slack, size)
    low = low[:: max(1, -(-len(low) // _MOST_CELLS))]
    return np.clip(low + size / 2, region.low, region.high)


def _qualifying(f: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices (m, d) of grid cells in which all components may vanish, and their slack (m, d)."""
    curved = np.asarray(sum(_bend(f, axis) for axis in range(d))) / 8.0
    least, most, bend = f, f, curved
    for axis in range(d):
        before, after = [slice(None)] * axis, [slice(None)] * (d - axis)
        lower, upper = (*before, slice(None, -1), *after), (*before, slice(1, None), *after)
        least, most = np.fmin(least[lower], least[upper]), np.fmax(most[lower], most[upper])
        bend = np.fmax(bend[lower], bend[upper])
    chosen = np.argwhere(((least <= bend) & (most >= -bend)).all(axis=-1))
    return chosen.astype(float), bend[tuple(chosen.T)]


def _bend(f: np.ndarray, axis: int) -> np.ndarray:
    """Second differences along an axis; at its ends those next to them, where f is not finite 0."""
    with np.errstate(invalid="ignore"):
        second = np.abs(np.diff(f, n=2, axis=axis))
    second = np.where(np.isfinite(second), second, 0.0)
    return np.concatenate(
        [np.take(second, [0], axis=axis), second, np.take(second, [-1], axis=axis)], axis=axis
    )


def _halved(
    meter: Meter, low: np.ndarray, slack: np.ndarray, size: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Those of the 2^d halves of each cell that qualify, by their lower corners, and their slack."""
    d = low.shape[1]
    lattice = np.array(list(product(range(3), repeat=d)))
    f = meter.rhs((low[:, None] + lattice * size).reshape(-1, d)).reshape(len(low), *[3] * d, d)
    corners, slacks = [], []
    for part in product(range(2), repeat=d):
        values = f[(slice(None), *(slice(k, k + 2) for k in part))].reshape(len(low), -1, d)
        least, most = np.fmin.reduce(values, axis=1), np.fmax.reduce(values, axis=1)
        chosen = ((least <= slack) & (most >= -slack)).all(axis=1)
        corners.append((low + np.array(part) * size)[chosen])
        slacks.append(slack[chosen])
    return np.concatenate(corners), np.concatenate(slacks)
