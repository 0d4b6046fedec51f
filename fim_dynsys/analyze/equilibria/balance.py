"""Whether zeros were missed: their indices against the degree of the field on the region's boundary."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

import numpy as np

from fim_dynsys.analyze.equilibria.newton import Meter
from fim_dynsys.analyze.equilibria.topology import degree
from fim_dynsys.fields.frame import Scales
from fim_dynsys.regions import Region

# The boundary may not pass through a zero: faces are moved that are closer to one than this share of the
# size, twice as much as zeros of second order are known to.
_TOO_CLOSE = 2e-6
# Shares of the size by which these are moved, as little as can be first: beyond an edge at 0 a rate with a
# small half-saturation has a pole.
_MARGINS = (0.0, 1e-5, -1e-5, 1e-3, -1e-3, 4e-3, -4e-3, 1.6e-2, -1.6e-2)
# A search for what was missed halves the box this often: to 1/64 of a side, 1/16 in three dimensions.
_HALVINGS = {1: 12, 2: 6, 3: 4}
_SEEDS_PER_BOX = 12  # and with more boxes than that per dimension the whole region is in doubt, not parts
# Not exactly half, so that symmetric fields do not have their zeros on the cut.
_CUT = 0.4871
# Half the side of the box round a zero of higher order, in lengths: far beyond where rounding decides the
# sign of f (1e-5 for third order), and small against what else there is.
_LOCAL = 1e-3


UNDEFINED = "field undefined on the boundary"
"""Why indices are not compared where the field has values on a part of the boundary only."""

NO_DEGREE = "the field vanishes or is not finite on the boundary"
"""Why they are not where no box near the region has a degree."""


class IndexCheck(StrEnum):
    """Whether the indices of the zeros found add up to the degree of the field on the boundary."""

    BALANCED = "balanced"
    MISMATCH = "mismatch"
    NOT_RUN = "not_run"


@dataclass(frozen=True)
class Balance:
    """Outcome of the check.

    Attributes
    ----------
    check : IndexCheck
        The verdict.
    boundary : int or None
        Degree of the field on the boundary of `box`; None where it was not computed.
    found : int or None
        Sum of the indices of the zeros found in `box`; None where one of them has no index.
    box : Region
        The region, moved outwards or inwards a little where zeros lie on its edge.
    reason : str
        Why the check was not run, or which jumps and poles a mismatch may come from; else empty.
    narrowed : bool
        Whether the box is narrower than the region.
    """

    check: IndexCheck
    boundary: int | None
    found: int | None
    box: Region
    reason: str = ""
    narrowed: bool = False


class Checker:
    """Compares zeros with the field's degree, within the budget of a search.

    Parameters
    ----------
    meter : Meter
        The field.
    region : Region
        Where zeros were sought.
    scales : Scales
        Units of state and field.
    """

    def __init__(self, meter: Meter, region: Region, scales: Scales) -> None:
        self.meter, self.region, self.scales = meter, region, scales
        self.undefined = False  # whether a zero lies on the edge of the field's domain

    def balance(self, x: np.ndarray, index: np.ndarray) -> Balance:
        """Check the zeros at `x` (n, d) with their indices (n,), NaN where one is unknown.

        Zeros beside the region count as well where the boundary is moved.
        """
        if self.region.dim not in _HALVINGS:
            return self._not_run("only in one to three dimensions")
        if self.undefined:
            return self._not_run(UNDEFINED)
        for box in self._boxes(x):
            found = index[box.contains(x)].sum() if len(x) else 0.0
            if np.isnan(found):
                why = "zeros are not isolated, or the index of one is not known"
                return self._not_run("the budget is used up" if self.meter.exhausted else why)
            undefined, self.meter.undefined = self.meter.undefined, False
            boundary = self.degree(box)
            at_boundary, self.meter.undefined = self.meter.undefined, undefined | self.meter.undefined
            if at_boundary:
                return self._not_run(UNDEFINED)
            if boundary is not None:
                check = IndexCheck.BALANCED if boundary == found else IndexCheck.MISMATCH
                narrowed = bool((box.size < self.region.size).any())
                return Balance(check, boundary, int(found), box, narrowed=narrowed)
        if self.meter.exhausted:
            return self._not_run("the budget is used up")
        return self._not_run(NO_DEGREE)

    def _boxes(self, x: np.ndarray) -> Iterator[Region]:
        """The region with faces moved, first those that are close to zeros (n, d), then all of them."""
        near = _distances(x, self.region) < _TOO_CLOSE
        for faces in (near, np.ones_like(near)):
            for margin in _MARGINS[int(faces is not near) :]:
                low, high = margin * self.region.size * faces
                box = Region(self.region.low - low, self.region.high + high, self.region.names)
                if _distances(x, box).min(initial=np.inf) >= _TOO_CLOSE:
                    yield box
                if not faces.any():
                    break

    def _not_run(self, reason: str) -> Balance:
        return Balance(IndexCheck.NOT_RUN, None, None, self.region, reason)

    def degree(self, box: Region) -> int | None:
        """Degree on the boundary of a box; None where it is not defined or the budget runs out."""
        try:
            return degree(self._affordable, box)
        except _Unaffordable:
            return None

    def _affordable(self, x: np.ndarray) -> np.ndarray:
        if not self.meter.affords(len(x)):
            raise _Unaffordable
        return self.meter.rhs(x) / self.scales.speed

    def local_index(self, x: np.ndarray, others: np.ndarray) -> float:
        """Index of one isolated zero from the degree on a small box round it; NaN where that fails."""
        if len(x) not in _HALVINGS:
            return np.nan
        gaps = np.abs(others - x) / self.scales.length
        reach = min(_LOCAL, 0.3 * gaps.max(axis=1).min()) if len(others) else _LOCAL
        half = reach * self.scales.length
        value = self.degree(Region(x - half, x + half))
        return np.nan if value is None else float(value)

    def where_missed(self, box: Region, x: np.ndarray, index: np.ndarray, seed: int) -> np.ndarray:
        """Starting points where zeros were missed, (n, d).

        The box is halved again and again, and only those parts are kept whose own boundary contradicts the
        zeros found in them (or passes too close to a zero to tell).
        """
        boxes, points = [box], []
        for depth in range(_HALVINGS[box.dim]):
            boxes = [part for whole in boxes for part in _halves(whole) if self._contradicts(part, x, index)]
            points += [part.sobol(_SEEDS_PER_BOX, seed + depth) for part in boxes]
            if len(boxes) > _SEEDS_PER_BOX * box.dim:
                break
        return np.concatenate(points) if points else np.empty((0, box.dim))

    def _contradicts(self, box: Region, x: np.ndarray, index: np.ndarray) -> bool:
        inside = index[box.contains(x)].sum()
        return self.degree(box) != inside


class _Unaffordable(Exception):
    """The budget does not reach for the next points of the boundary."""


def _distances(x: np.ndarray, box: Region) -> np.ndarray:
    """Smallest distance of points (n, d) to each face, lower ones first, as a share of the size, (2, d)."""
    unit = (x - box.low) / box.size
    beyond = np.maximum(0.0, np.maximum(-unit, unit - 1.0))
    d = box.dim
    aside = np.where(np.eye(d, dtype=bool), 0.0, beyond[:, None, :]).max(axis=2)  # along the other states
    sides = np.abs([unit, unit - 1.0])
    return np.maximum(sides, aside).min(axis=1, initial=np.inf)


def _halves(box: Region) -> Iterator[Region]:
    cut = box.low + _CUT * box.size
    for part in product((False, True), repeat=box.dim):
        upper = np.array(part)
        yield Region(np.where(upper, cut, box.low), np.where(upper, box.high, cut), box.names)
