"""Equilibria and cycles of single fields, followed over the parameter values at which they were measured."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fim_dynsys.analyze.cycles.periodic import limit_cycles
from fim_dynsys.analyze.equilibria.points import fixed_points
from fim_dynsys.analyze.matching import assigned
from fim_dynsys.analyze.tracing.branches import BranchKind
from fim_dynsys.fields.base import VectorField
from fim_dynsys.regions import Region

_FARTHEST = 0.25  # share of the region's diagonal that an object may move from one value to the next
_LONGEST_GAP = 2  # values at which an object may be missed before another one is taken to begin


@dataclass(frozen=True, eq=False)
class Track:
    """One object, found in the fields of n parameter values; no value between is claimed.

    Attributes
    ----------
    kind : BranchKind
        Equilibrium or cycle.
    index : ndarray (n,) of int
        Positions of its values among all measured ones: a missing one is a value at which it was not found.
    p : ndarray (n,)
    x : ndarray (n, d)
        Equilibria; for cycles the points where the first state is largest.
    low, high : ndarray (n, d)
        Smallest and largest value of each state, over a cycle.
    n_unstable : ndarray (n,) of int
        Unstable directions.
    support : ndarray (n,)
        Support of the field there; the least along a cycle.
    """

    kind: BranchKind
    index: np.ndarray
    p: np.ndarray
    x: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n_unstable: np.ndarray
    support: np.ndarray

    def __len__(self) -> int:
        return len(self.p)


@dataclass(frozen=True, eq=False)
class _Found:
    """An object of one field."""

    x: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n_unstable: int
    support: float


def follow_objects(p: np.ndarray, fields: Sequence[VectorField], region: Region, cycles: bool) -> list[Track]:
    """Objects found in each field, matched from each parameter value to the next.

    Parameters
    ----------
    p : ndarray (K,)
        Parameter values.
    fields : sequence of K VectorField
        The field at each.
    region : Region
        Where to search.
    cycles : bool
        Whether to search for cycles too.

    Returns
    -------
    list of Track
        Equilibria first, longest tracks first.
    """
    tracks = _tracks(BranchKind.EQUILIBRIA, p, [_equilibria(field, region) for field in fields], region)
    if cycles and region.dim > 1:
        tracks += _tracks(BranchKind.CYCLES, p, [_cycles(field, region) for field in fields], region)
    return tracks


def _equilibria(field: VectorField, region: Region) -> list[_Found]:
    points = fixed_points(field, region, n_draws=0)
    return [
        _Found(points.x[i], points.x[i], points.x[i], int((points.eigenvalues[i].real > 0).sum()), support)
        for i, support in enumerate(points.support)
        if points.is_root[i]
    ]


def _cycles(field: VectorField, region: Region) -> list[_Found]:
    cycles = limit_cycles(field, region)
    return [
        _Found(
            orbit[np.argmax(orbit[:, 0])],
            orbit.min(axis=0),
            orbit.max(axis=0),
            int((np.abs(cycles.multipliers[i, 1:]) > 1).sum()),
            cycles.support[i],
        )
        for i, orbit in enumerate(cycles.orbits)
    ]


def _tracks(
    kind: BranchKind, p: np.ndarray, found: Sequence[Sequence[_Found]], region: Region
) -> list[Track]:
    """Chains of objects, each matched with those last seen at most `_LONGEST_GAP` values before."""
    chains: list[list[tuple[int, _Found]]] = []
    limit = _FARTHEST * np.sqrt(2 * region.dim)
    for k, objects in enumerate(found):
        alive = [chain for chain in chains if k - chain[-1][0] <= _LONGEST_GAP + 1]
        pairs = assigned(
            _features([chain[-1][1] for chain in alive], region), _features(objects, region), limit
        )
        for i, j in pairs:
            alive[i].append((k, objects[j]))
        taken = {j for _, j in pairs}
        chains += [[(k, entry)] for j, entry in enumerate(objects) if j not in taken]
    return [_track(kind, p, chain) for chain in sorted(chains, key=len, reverse=True)]


def _features(objects: Sequence[_Found], region: Region) -> np.ndarray:
    """Extent of each object in units of the region, (n, 2 d)."""
    rows = [np.concatenate([(o.low - region.low), (o.high - region.low)]) for o in objects]
    return np.array(rows).reshape(-1, 2 * region.dim) / np.tile(region.size, 2)


def _track(kind: BranchKind, p: np.ndarray, chain: Sequence[tuple[int, _Found]]) -> Track:
    index = np.array([k for k, _ in chain])
    columns = {
        name: np.array([getattr(entry, name) for _, entry in chain])
        for name in ("x", "low", "high", "n_unstable", "support")
    }
    return Track(kind, index, p[index], **columns)
