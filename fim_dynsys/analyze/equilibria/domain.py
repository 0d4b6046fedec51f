"""Zeros on the edge of what a field is defined on, where a state cannot go further: faces x_i = const."""

from collections.abc import Iterator

import numpy as np

from fim_dynsys.analyze.equilibria.newton import ROOT_RESIDUAL, Meter, refine
from fim_dynsys.analyze.equilibria.seeding import candidate_cells
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.frame import Scales
from fim_dynsys.regions import Region

_PROBES = 12  # states from which the edge is looked for along each axis, both ways
_FEWEST = 3  # of them that must meet an edge
_HALVINGS = 60  # of a step to the edge: to the last digit
_FLAT = 1e-9  # of the region's size, by which edges met at several places may differ if they are one face
_SEEDS = 32  # starts on a face for each of its states
_INSIDE = 1e-20  # lengths from an edge at 0 at which a field is evaluated that has no value there, as x log x
_DEEPEST = 4  # states up to which edges of edges are searched


def zeros_on_faces(meter: Meter, region: Region, scales: Scales, seed: int = 0) -> np.ndarray:
    """Zeros (n, d) on the faces beyond which a field is undefined, edges and corners of faces included.

    Parameters
    ----------
    meter : Meter
        The field; what is evaluated counts.
    region : Region
        Where to search.
    scales : Scales
        Units of state and field.
    seed : int
        Of the starting points.
    """
    d = region.dim
    found = [np.empty((0, d))]
    if d > _DEEPEST:
        return found[0]
    for axis, place in _faces(meter, region, scales, seed):
        found.append(_zeros_on(meter, region, scales, seed, axis, place))
    return np.concatenate(found)


def _faces(meter: Meter, region: Region, scales: Scales, seed: int) -> Iterator[tuple[int, float]]:
    """Axes and places of the faces beyond which the field is undefined."""
    x = region.sobol(_PROBES, seed)
    if not meter.affords(_PROBES):
        return
    x = x[np.isfinite(meter.rhs(x)).all(axis=1)]
    around = region.widened(0.1)
    for axis in range(region.dim):
        for end in (around.low[axis], around.high[axis]):
            if not meter.affords((_HALVINGS + 1) * len(x)):
                return
            out = x.copy()
            out[:, axis] = end
            beyond = np.isnan(meter.rhs(out)).any(axis=1)
            if beyond.sum() < _FEWEST:
                continue
            inside, outside = x[beyond], out[beyond]
            for _ in range(_HALVINGS):
                middle = (inside + outside) / 2.0
                defined = ~np.isnan(meter.rhs(middle)).any(axis=1)[:, None]
                inside, outside = np.where(defined, middle, inside), np.where(defined, outside, middle)
            places = inside[:, axis]
            place = float(np.median(places))
            if np.ptp(places) <= _FLAT * region.size[axis]:
                yield axis, 0.0 if abs(place) <= _FLAT * region.size[axis] else place


def _zeros_on(meter: Meter, region: Region, scales: Scales, seed: int, axis: int, place: float) -> np.ndarray:
    """Zeros (n, d) on one face within the region."""
    d, size = region.dim, region.size[axis]
    nothing = np.empty((0, d))
    if not region.low[axis] - _FLAT * size <= place <= region.high[axis] + _FLAT * size:
        return nothing
    inwards = np.sign(region.centre[axis] - place) or 1.0
    step = _INSIDE * scales.length[axis] if place == 0.0 else 4.0 * np.spacing(abs(place))
    probe = region.sobol(_PROBES, seed)
    for at in (place, place + inwards * step):
        probe[:, axis] = at
        if np.isfinite(meter.rhs(probe)).all(axis=1).any():
            break
    else:
        return nothing
    others = np.delete(np.arange(d), axis)
    if not len(others):
        x = np.array([[at]])
    else:
        face = _Face(meter.field, axis, at)
        box = Region(region.low[others], region.high[others])
        remaining = Scales(scales.length[others], scales.speed[others], scales.time)
        counter = Meter(face, max(0, meter.budget - meter.points))
        starts = np.concatenate([box.sobol(_SEEDS * len(others), seed), candidate_cells(counter, box)])
        ended = refine(counter, starts, remaining, box)
        z = ended.x[ended.is_root]
        z = np.concatenate([z, zeros_on_faces(counter, box, remaining, seed)]) if counter.undefined else z
        meter.points += counter.points
        meter.exhausted |= counter.exhausted
        x = np.insert(_distinct(z, remaining.length), axis, at, axis=1)
    x = x[: max(0, meter.budget - meter.points)]
    residual = np.abs(meter.rhs(x) / scales.speed)
    x = x[(residual <= ROOT_RESIDUAL).all(axis=1)]
    x[:, axis] = np.where(np.isfinite(meter.rhs(_moved(x, axis, place))).all(axis=1), place, x[:, axis])
    return x


def _moved(x: np.ndarray, axis: int, place: float) -> np.ndarray:
    moved = x.copy()
    moved[:, axis] = place
    return moved


def _distinct(x: np.ndarray, length: np.ndarray) -> np.ndarray:
    kept: list[int] = []
    for i in range(len(x)):
        if not any(np.abs((x[i] - x[k]) / length).max() <= 1e-6 for k in kept):
            kept.append(i)
    return x[kept]


class _Face(VectorField):
    """The other components of a field on a face, at its other states."""

    def __init__(self, field: VectorField, axis: int, at: float) -> None:
        super().__init__(field.dim - 1)
        self._field, self._axis, self._at = field, axis, at

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        return np.delete(self._field._rhs(np.insert(x, self._axis, self._at, axis=1)), self._axis, axis=1)
