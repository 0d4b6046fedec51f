"""Coordinates in which cycles are sought: the states, or logarithms of those that keep their signs."""

from dataclasses import dataclass

import numpy as np

from fim_dynsys.analyze.cycles.sliding import Sliding
from fim_dynsys.analyze.results import has_exact_jacobian
from fim_dynsys.analyze.tangent import CountedField
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.frame import Scales
from fim_dynsys.regions import Region

_POINTS = 32  # of a face at which the rate across it is looked at
_THIN = 1e-150  # distance from a face, by the box: what is smooth there still has a rate of growth
_FASTEST = 1e6  # rate of growth at a face, by the field's own rate
_NEAR = 0.1  # of its size: a box that begins so close to a face is one of positive states
_LOWEST = -600.0  # logarithm of a state, by its size: exp(-745) is the smallest number there is
# Multiples of the length at which a path ends; in logarithms the box decides.
_ESCAPE = {False: 100.0, True: 1000.0}


@dataclass(frozen=True, eq=False)
class Chart:
    """One set of coordinates: the states themselves, those of fixed sign as logarithms of their size.

    Cycles on which a state falls to 1e-15 and comes back are as smooth as others in its logarithm, and there
    errors are relative to the state. Periods and Floquet multipliers do not depend on coordinates.

    Attributes
    ----------
    field : VectorField
        The field in these coordinates.
    region, box : Region
        Where is searched, and how far paths may leave it, in terms of the states.
    signs : ndarray (d,)
        Sign of each state that is a logarithm here, 0 for the others.
    keeps : ndarray (d,) of bool
        States that could be logarithms and are not.
    sliding : Sliding
        Where paths slide along jumps of the field.
    """

    field: VectorField
    region: Region
    box: Region
    signs: np.ndarray
    keeps: np.ndarray
    sliding: Sliding

    @property
    def length(self) -> np.ndarray:
        """Unit of each coordinate."""
        return self.field.scales.length

    @property
    def escape(self) -> float:
        """Multiple of the length at which integrations end."""
        return _ESCAPE[bool(self.signs.any())]

    def states(self, z: np.ndarray) -> np.ndarray:
        """States ``(..., d)`` at coordinates."""
        if not self.signs.any():
            return z
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where(self.signs == 0, z, self.signs * np.exp(z))

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Coordinates ``(..., d)`` of states of the right signs."""
        if not self.signs.any():
            return x
        return np.where(self.signs == 0, x, np.log(np.where(self.signs == 0, 1.0, self.signs * x)))

    def holds(self, x: np.ndarray) -> np.ndarray:
        """Which of the states ``(..., d)`` have these signs."""
        return np.all((self.signs == 0) | (self.signs * x > 0), axis=-1)

    def inside(self, z: np.ndarray) -> np.ndarray:
        """Which coordinates ``(..., d)`` paths may come to."""
        inside = np.asarray(self.box.contains(self.states(z)))
        if self.signs.any():
            inside &= np.all((self.signs == 0) | (z > _LOWEST), axis=-1)
        return inside

    def ends(self, z: np.ndarray, direction: int) -> np.ndarray:
        """At which coordinates ``(n, d)`` paths end: outside, or next to a jump along which they slide."""
        ends = ~self.inside(z)
        return ends | self.sliding.holds(self.states(z), direction) if self.sliding else ends


class LogarithmicField(VectorField):
    """A field in the logarithms of states of fixed sign.

    Parameters
    ----------
    inner : VectorField
        The field.
    signs : ndarray (d,)
        Sign of each state that is replaced by the logarithm of its size, 0 for the others.
    exact : bool
        Whether the field's Jacobian is exact; one by differences is no good where states are tiny, and is
        taken in the logarithms instead.
    """

    def __init__(self, inner: VectorField, signs: np.ndarray, exact: bool) -> None:
        length = np.where(signs == 0, inner.scales.length, 1.0)  # a uniform state's logarithm has deviation 1
        time = inner.scales.time
        super().__init__(inner.dim, scales=Scales(length, length / time, time))
        self._inner, self._signs, self._plain, self._exact = inner, signs, signs == 0, exact

    def _states(self, z: np.ndarray) -> np.ndarray:
        return np.where(self._plain, z, self._signs * np.exp(z))

    def _rhs(self, z: np.ndarray) -> np.ndarray:
        x = self._states(z)
        return self._inner._rhs(x) / np.where(self._plain, 1.0, x)

    def _jac(self, z: np.ndarray) -> np.ndarray:
        if not self._exact:
            return super()._jac(z)
        x = self._states(z)
        unit = np.where(self._plain, 1.0, x)
        jac = self._inner._jac(x) * (unit[:, None, :] / unit[:, :, None])
        growth = np.where(self._plain, 0.0, self._inner._rhs(x) / unit)
        return jac - growth[:, :, None] * np.eye(self.dim)


def charts(field: CountedField, region: Region, margin: float) -> list[Chart]:
    """The coordinates to search in: one chart, or one for each combination of signs that the region has.

    A state keeps its sign where its rate vanishes on the face where it is zero, as in population models. A
    state whose rate there is not zero, or which the region keeps away from zero, is not transformed.

    Parameters
    ----------
    field : CountedField
        The field.
    region : Region
        Where is searched.
    margin : float
        Share of the region's size by which paths may leave it on each side.

    Returns
    -------
    list of Chart
        The states themselves, from three dimensions on; logarithms, with most of the region first.
    """
    box = region.widened(margin)
    keeps = keep_signs(field, region)
    sliding = Sliding(field, region)
    plain = Chart(field, region, box, np.zeros(field.dim, dtype=int), keeps, sliding)
    if not keeps.any():
        return [plain]
    # In the plane no cycle lies in a face; in space the cycle of two species is one where a third is zero.
    found = [] if field.dim == 2 else [plain]
    exact = has_exact_jacobian(field.inner)
    x = region.sobol(256)
    signs = np.where(keeps, np.sign(x).astype(int), 0)
    kinds, counts = np.unique(signs, axis=0, return_counts=True)
    for kind in kinds[np.argsort(-counts, kind="stable")]:
        logarithmic = LogarithmicField(field, kind, exact)
        found.append(Chart(logarithmic, region, box, kind, np.zeros(field.dim, dtype=bool), sliding))
    return found


def keep_signs(field: VectorField, region: Region) -> np.ndarray:
    """Which states keep their signs because their rates vanish where they are zero, (d,) of bool."""
    points, time = region.sobol(_POINTS), field.scales.time
    keeps = np.zeros(field.dim, dtype=bool)
    for i in range(field.dim):
        low, high = region.low[i], region.high[i]
        if low > _NEAR * region.size[i] or high < -_NEAR * region.size[i]:
            continue
        sides = [sign for sign, reach in ((1.0, high), (-1.0, -low)) if reach > 0]
        x = np.concatenate([points] * len(sides))
        x[:, i] = np.repeat(sides, len(points)) * _THIN * region.size[i]
        rate = field(x)[:, i]
        known = np.isfinite(rate)
        with np.errstate(all="ignore"):  # in a region of hardly any size x rounds to 0
            growth = np.abs(rate[known] / x[known, i]) * time
        keeps[i] = known.mean() > 0.5 and bool((growth < _FASTEST).all())
    return keeps
