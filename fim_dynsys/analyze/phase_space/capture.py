"""When a trajectory has arrived: ellipsoids round sinks, tubes round cycles, cells of recurrent sets."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from scipy.linalg import solve_continuous_lyapunov
from scipy.spatial import cKDTree

from fim_dynsys.analyze.settled import settled_jacobian
from fim_dynsys.fields.base import VectorField
from fim_dynsys.regions import Region

_DIRECTIONS = 128  # per dimension: in the plane one for each 1.4 degrees on average
_SHELLS = 24  # from 1e-4 of the widest radius on, each 1.5 times the one before
_SAFETY = 0.7  # of the radius up to which the sampled field points inwards
_TUBE = 0.02  # of a cycle's size
_ALOOF = 0.1  # of its distance from the nearest other object
_TUBE_POINTS = 2000  # a loop is three sizes long: spaced by 0.0016 of it, a twelfth of the tube's radius
# Cells per side of the region: few enough that some thousand samples visit most cells of an attractor twice.
_CELLS = {1: 1000, 2: 40, 3: 20}
_CELLS_IN_MANY_DIMENSIONS = 10  # per side
_FEWEST_CELLS = 8  # fewer are those of a trajectory that goes to rest
_REVISITED = 0.9  # share of the visits in either half of the time that go to cells visited in the other
_CONTRACTION = 1e-3  # least mean contraction of volumes, per time scale, on what attracts
_INSIDE = 0.8  # share of a window's samples in cells of a recurrent set: a few cells are never visited before
_SHARED = 0.2  # share of the visits of one trajectory to cells of the other, in the same set
QUARTERS = 4
"""Parts of a path, from each to the next of which one that winds into a sink or onto a cycle comes closer."""
_AS_LINEAR = 0.1  # of the decay that the linearised field predicts, which it shows at least
_TYPICAL = 0.6  # share of the others' visits to cells of a path that goes all over the set: one lobe is half
_KEPT = 1000  # points of a set at least: a picture shows its shape


class AttractorKind(StrEnum):
    """What attracts."""

    FIXED_POINT = "fixed point"
    CYCLE = "cycle"
    RECURRENT = "recurrent set"
    """Neither: trajectories keep coming back to the same cells of the region, as on a chaotic attractor."""


@dataclass(frozen=True, eq=False)
class Attractor:
    """Something that trajectories end on.

    Attributes
    ----------
    kind : AttractorKind
        What it is.
    points : ndarray (k, d)
        The fixed point, the cycle at equal times, or a sample of the recurrent set.
    support : float
        Least support of the field on it.
    """

    kind: AttractorKind
    points: np.ndarray
    support: float


class Trap(Protocol):
    """Where trajectories stay."""

    def holds(self, path: np.ndarray) -> np.ndarray:
        """Which of the paths ``(n, s, d)`` have arrived, (n,) of bool."""
        ...


class Sink:
    """An ellipsoid round a stable fixed point that sampled trajectories only enter.

    Its shape is that of the quadratic Lyapunov function of the linearised field. Its size is the largest at
    which that function still falls along the field at all sampled points inside, less a margin, and such
    that no other fixed point lies in it.

    Parameters
    ----------
    field : VectorField
        The field.
    x : ndarray (d,)
        The fixed point; all eigenvalues have negative real parts.
    others : ndarray (m, d)
        The other fixed points.
    region : Region
        The ellipsoid is not larger than this box.
    """

    def __init__(self, field: VectorField, x: np.ndarray, others: np.ndarray, region: Region) -> None:
        self.x, self.length = x, field.scales.length
        d = len(x)
        jac = settled_jacobian(field, x, self.length) * (self.length / self.length[:, None])
        shape = solve_continuous_lyapunov(jac.T, -np.eye(d))
        self.root = np.linalg.cholesky((shape + shape.T) / 2)
        directions = np.random.default_rng(0).standard_normal((_DIRECTIONS * d, d))
        # Points of the unit ellipsoid, y with |root' y| = 1, moved outwards shell by shell.
        unit = np.linalg.solve(self.root.T, (directions / np.linalg.norm(directions, axis=1)[:, None]).T).T
        widest = np.linalg.norm(region.size / self.length) / np.linalg.norm(unit, axis=1).max()
        self.radius = widest
        if len(others):
            self.radius = min(widest, self._height(others).min())
        for radius in self.radius * np.geomspace(1e-4, 1.0, _SHELLS):
            y = radius * unit
            outwards = np.sum(
                (y @ self.root) * (field(x + y * self.length) / self.length @ self.root), axis=1
            )
            if not (outwards < 0).all():
                self.radius = radius / (1e4 ** (1 / (_SHELLS - 1)))
                break
        self.radius *= _SAFETY

    def winds_in(self, path: np.ndarray, decay: float) -> bool:
        """Whether one path ``(s, d)`` comes closer all the time, about as fast as the linearised field does.

        Parameters
        ----------
        path : ndarray (s, d)
            States at equal times.
        decay : float
            Logarithm of the decay over the whole path that the slowest eigenvalue predicts, positive.

        Returns
        -------
        bool
        """
        return _comes_closer(self._height(path), decay)

    def _height(self, x: np.ndarray) -> np.ndarray:
        """Square root of the Lyapunov function at states ``(n, d)``, (n,)."""
        return np.linalg.norm((x - self.x) / self.length @ self.root, axis=1)

    def holds(self, path: np.ndarray) -> np.ndarray:
        """Which of the paths ``(n, s, d)`` end inside, (n,) of bool."""
        return self._height(path[:, -1]) < self.radius


class Tube:
    """A tube round a stable cycle, thin against its size and its distance from other objects.

    Parameters
    ----------
    points : ndarray (k, d)
        The cycle at equal times.
    others : ndarray (m, d)
        Points of other objects.
    length : ndarray (d,)
        Unit of each state.
    """

    def __init__(self, points: np.ndarray, others: np.ndarray, length: np.ndarray) -> None:
        self.length = length
        points = _evenly_spaced(points / length, _TUBE_POINTS)
        self.tree = cKDTree(points)
        self.radius = _TUBE * float(np.ptp(points, axis=0).max())
        if len(others):
            self.radius = min(self.radius, _ALOOF * float(self.tree.query(others / length)[0].min()))
        # Points of the tube may be so far from the next of the cycle's points.
        self.reach = np.hypot(self.radius, np.linalg.norm(points[1] - points[0]) / 2)

    def holds(self, path: np.ndarray) -> np.ndarray:
        """Which of the paths ``(n, s, d)`` end inside, (n,) of bool."""
        distance, _ = self.tree.query(path[:, -1] / self.length, distance_upper_bound=self.reach)
        return np.isfinite(distance)

    def winds_in(self, path: np.ndarray, decay: float) -> bool:
        """Whether one path ``(s, d)`` comes closer from turn to turn, as `Sink.winds_in`.

        Parameters
        ----------
        path : ndarray (s, d)
            States at equal times, over some turns for each of the `QUARTERS`.
        decay : float
            Logarithm of the decay over the whole path that the slowest multiplier predicts, positive.

        Returns
        -------
        bool
        """
        return _comes_closer(self.tree.query(path / self.length)[0], decay)


class Cells:
    """The cells of a region that a recurrent set visits.

    Parameters
    ----------
    region : Region
        Divided into equal cells.
    visited : ndarray of int
        Numbers of cells, in any shape and order.
    """

    def __init__(self, region: Region, visited: np.ndarray) -> None:
        self.region, self.visited = region, np.unique(visited)

    def holds(self, path: np.ndarray) -> np.ndarray:
        """Which of the paths ``(n, s, d)`` run inside, (n,) of bool."""
        inside = np.isin(cell_numbers(self.region, path), self.visited)
        return inside.mean(axis=1) >= _INSIDE


@dataclass(frozen=True, eq=False)
class RecurrentSet:
    """Cells that some paths keep coming back to.

    Attributes
    ----------
    points : ndarray (k, d)
        Sampled points.
    cells : Cells
        The cells.
    members : ndarray (m,) of int
        Numbers of the paths.
    typical : ndarray (m,) of bool
        Which of them go all over the set. Others may share some of its cells on their way elsewhere.
    """

    points: np.ndarray
    cells: Cells
    members: np.ndarray
    typical: np.ndarray


def cell_numbers(region: Region, x: np.ndarray) -> np.ndarray:
    """Numbers of the cells that states ``(..., d)`` lie in, up to two sizes beyond the region."""
    d = x.shape[-1]
    cells = _CELLS.get(d, _CELLS_IN_MANY_DIMENSIONS)
    place = np.clip(np.floor((x - region.low) / region.size * cells), -2 * cells, 3 * cells) + 2 * cells
    return place.astype(np.int64) @ (5 * cells + 1) ** np.arange(d, dtype=np.int64)


def recurrent_sets(field: VectorField, region: Region, paths: np.ndarray) -> tuple[list[RecurrentSet], int]:
    """Group trajectories that keep coming back to the same cells, and contract volumes as they go.

    Parameters
    ----------
    field : VectorField
        The field.
    region : Region
        Divided into cells.
    paths : ndarray (n, s, d)
        Trajectories, the transient cut off.

    Returns
    -------
    sets : list of RecurrentSet
        One for each group.
    closed : int
        Number of trajectories that come back but do not contract, as in a family of closed orbits.
    """
    numbers = cell_numbers(region, paths)
    back = [i for i in range(len(paths)) if _comes_back(numbers[i])]
    attracted = [i for i in back if _contracts(field, paths[i])]
    groups: list[list[int]] = []
    for i in attracted:
        kin = [group for group in groups if any(_overlap(numbers[i], numbers[j]) for j in group)]
        groups = [group for group in groups if group not in kin]
        groups.append([i, *(j for group in kin for j in group)])
    sets = []
    for group in groups:
        members = np.sort(group)
        points = paths[members].reshape(-1, paths.shape[2])
        some, cells = points[:: max(1, len(points) // _KEPT)], Cells(region, numbers[members])
        sets.append(RecurrentSet(some, cells, members, _typical(numbers[members], cells)))
    return sets, len(back) - len(attracted)


def _typical(numbers: np.ndarray, cells: Cells) -> np.ndarray:
    """Which of the trajectories ``(m, s)`` of a set visit the cells in which the others mostly are."""
    places = np.searchsorted(cells.visited, numbers)
    visits = np.stack([np.bincount(place, minlength=len(cells.visited)) for place in places])
    others = visits.sum(axis=0) - visits
    return np.where(visits > 0, others, 0).sum(axis=1) >= _TYPICAL * others.sum(axis=1)


def _comes_closer(distance: np.ndarray, decay: float) -> bool:
    """Whether distances ``(s,)`` at equal times fall all the time, and by a tenth of the decay at least."""
    furthest = np.array([part.max() for part in np.array_split(distance, QUARTERS)])
    share = (QUARTERS - 1) / QUARTERS * _AS_LINEAR
    return bool((np.diff(furthest) < 0).all() and furthest[-1] < furthest[0] * np.exp(-share * decay))


def _comes_back(numbers: np.ndarray) -> bool:
    """Whether both halves of a trajectory visit the same cells, and enough of them."""
    early, late = np.array_split(numbers, 2)
    enough = len(np.unique(late)) >= _FEWEST_CELLS
    return enough and min(np.isin(late, early).mean(), np.isin(early, late).mean()) >= _REVISITED


def _contracts(field: VectorField, path: np.ndarray) -> bool:
    """Whether volumes shrink on average along a trajectory: in a family of closed orbits they do not."""
    divergence = np.trace(field.jacobian(path), axis1=1, axis2=2)
    return divergence.mean() * field.scales.time < -_CONTRACTION


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two trajectories share cells for at least half of the time."""
    return max(np.isin(a, b).mean(), np.isin(b, a).mean()) >= _SHARED


def _evenly_spaced(points: np.ndarray, n: int) -> np.ndarray:
    """Points ``(n, d)`` evenly spaced along the chain of given ones."""
    place = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1)))
    wanted = np.linspace(0.0, place[-1], n)
    return np.stack([np.interp(wanted, place, column) for column in points.T], axis=1)
