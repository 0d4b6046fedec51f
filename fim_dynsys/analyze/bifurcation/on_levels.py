"""Families on a level set of their conserved sums, over their own parameter or over a total."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.analyze.conserved import ConservedSums, as_given, conserved_by, conserved_sums, read_sum
from fim_dynsys.analyze.cycles.periodic import LimitCycles
from fim_dynsys.analyze.levels import LevelLike, LevelSet, level_set
from fim_dynsys.analyze.results import RegionLike, has_exact_jacobian, region_of
from fim_dynsys.analyze.tracing.branches import Bifurcation, Branch, Continuation
from fim_dynsys.errors import real_array
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.family import FieldFamily
from fim_dynsys.fields.frame import Scales
from fim_dynsys.regions import Region

_SHARES = (0.0, 0.38, 1.0)  # of the parameter range, at which a sum must be conserved
_SAME_LEVEL = 1e-6  # of the largest total, by which several starts may miss one level


@dataclass(frozen=True, eq=False)
class Reduced:
    """A continuation on a level set: what is followed there, and how its states become those of the family.

    Attributes
    ----------
    family : FieldFamily
        In the coordinates of the level set.
    x0 : ndarray (k, d - n) or LimitCycles
        Starts in these.
    region : Region or None
        Likewise.
    states : callable
        ``states(z, p)``, states (..., d) of coordinates (..., d - n) at a value of the parameter.
    state_names : tuple of str
        Of the d states.
    conserved : tuple of str
        What the result says of the sums.
    """

    family: FieldFamily
    x0: ArrayLike | LimitCycles
    region: Region | None
    states: Callable[[np.ndarray, float], np.ndarray]
    state_names: tuple[str, ...]
    conserved: tuple[str, ...]

    def embedded(self, found: Continuation) -> Continuation:
        """The same branches in all states."""
        branches = tuple(self._branch(branch) for branch in found.branches)
        return replace(found, branches=branches, state_names=self.state_names, conserved=self.conserved)

    def _branch(self, branch: Branch) -> Branch:
        orbits, limits = branch.orbits, []
        if orbits is not None:
            pairs = zip(orbits, branch.p, strict=True)
            orbits = tuple(self.states(orbit, float(p)) for orbit, p in pairs)
        for limit, p in zip(branch.limits, branch.p[[0, -1]].tolist(), strict=True):
            limits.append(None if limit is None else replace(limit, x=self.states(limit.x, p)))
        points = zip(branch.x, branch.p, strict=True)
        return replace(
            branch,
            x=np.array([self.states(x, float(p)) for x, p in points]),
            orbits=orbits,
            limits=(limits[0], limits[1]),
            bifurcations=tuple(map(self._event, branch.bifurcations)),
        )

    def _event(self, event: Bifurcation) -> Bifurcation:
        return replace(event, x=self.states(event.x, event.p))


def reduced(
    family: FieldFamily | VectorField,
    x0: ArrayLike | LimitCycles,
    p_range: tuple[float, float],
    region: RegionLike | None,
    level: LevelLike | None,
    over: str | None,
) -> Reduced | None:
    """A continuation on the level set of the family's conserved sums; None for a family without any.

    Parameters
    ----------
    family : FieldFamily, or VectorField with `over`
        What is followed.
    x0, p_range, region
        As for `continuation`; the level is that of `x0` where none is given.
    level : dict, array_like or None
        As for `fixed_points`.
    over : str or None
        The sum whose total is the parameter.

    Raises
    ------
    ValueError
        For a level of sums that are not conserved, or starts on several levels.
    """
    names, dim = family.state_names, family.dim
    known = x0.x if isinstance(x0, LimitCycles) else x0
    starts = np.atleast_2d(real_array(known, "continuation", "x0"))
    if starts.ndim != 2 or starts.shape[1] != dim or not len(starts) or not np.isfinite(starts).all():
        return None  # the caller's checks say what is wrong
    box = family.region if region is None else region_of(names, region, "continuation")
    around = _around(starts, names) if box is None else box
    sums = _sums(family, around, p_range)
    if not len(sums) and level is None and over is None:
        return None
    example = family if isinstance(family, VectorField) else family.at(float(p_range[0]))
    if over is not None:
        row = read_sum(over, names, "continuation")
        if not sums.contain(row):
            conserved = f"among combinations of {', '.join(sums.names)}" if len(sums) else "but it has none"
            raise ValueError(
                f"continuation: expected over as a sum that the field conserves, {conserved}, got {over!r}."
            )
        given = {over: float(p_range[0])} | (dict(level) if isinstance(level, Mapping) else {})
        sums = as_given(sums, given, "continuation")
    totals = sums.totals(starts if not isinstance(level, list | tuple | np.ndarray) else np.atleast_2d(level))
    note = "that of x0" if level is None else ""
    if isinstance(level, Mapping) or (level is not None and over is None):
        own = {over: float(p_range[0]), **level} if over is not None and isinstance(level, Mapping) else level
        if isinstance(own, Mapping) and len(own) < len(sums):  # what is not given is that of x0
            remaining = [name for name in as_given(sums, own, "continuation").names[len(own) :]]
            rows = [read_sum(name, names, "continuation") for name in remaining]
            own = dict(own) | {
                name: float(starts[0] @ row) for name, row in zip(remaining, rows, strict=True)
            }
        sums, on = level_set(example, around, own, "continuation", sums=sums)
        assert on is not None  # a level was given
    else:
        checked = totals[:, 1:] if over is not None else totals
        if np.ptp(checked, axis=0).max(initial=0.0) > _SAME_LEVEL * np.abs(checked).max(initial=1.0):
            raise ValueError(
                f"continuation: expected starts on one level of {', '.join(sums.names)}, got totals from "
                f"{checked.min(axis=0).tolist()} to {checked.max(axis=0).tolist()}; pass level=, or follow "
                "them one by one."
            )
        on = LevelSet.of(sums, totals[0], note=note)
    inside = None if box is None else on.region(box)
    if isinstance(x0, LimitCycles):
        start: ArrayLike | LimitCycles = replace(
            x0,
            x=on.coordinates(x0.x),
            orbits=[on.coordinates(orbit) for orbit in x0.orbits],
            state_names=on.names,
        )
    else:
        start = on.coordinates(starts)
    if over is None:
        assert isinstance(family, FieldFamily)  # as the caller has checked
        return Reduced(
            LevelFamily(family, on, inside), start, inside, lambda z, p: on.states(z), names, on.text
        )
    assert isinstance(family, VectorField)
    along = TotalFamily(family, on, over, inside)
    return Reduced(along, start, inside, along.states, names, (sums.names[0], *on.text[1:]))


def _sums(family: FieldFamily | VectorField, box: Region, p_range: tuple[float, float]) -> ConservedSums:
    if isinstance(family, VectorField):
        return conserved_sums(family, box)
    values = [p_range[0] + share * (p_range[1] - p_range[0]) for share in _SHARES]
    if not (family.smooth and np.isfinite(values).all()):
        return ConservedSums(np.empty((0, family.dim)), family.state_names, np.ones(family.dim))

    return conserved_by([family.at(p) for p in values], family.state_names, box)


def _around(starts: np.ndarray, names: tuple[str, ...]) -> Region:
    """A box round starts, for a family that knows of none: beyond them by the largest state."""
    reach = float(np.abs(starts).max()) or 1.0
    return Region(starts.min(axis=0) - reach, starts.max(axis=0) + reach, names)


class LevelFamily(FieldFamily):
    """A family on a level set, in its coordinates.

    Parameters
    ----------
    family : FieldFamily
        A smooth one.
    level : LevelSet
        Of sums that it conserves at every value of its parameter.
    region : Region or None
        Box of the coordinates.
    """

    def __init__(self, family: FieldFamily, level: LevelSet, region: Region | None) -> None:
        super().__init__(
            len(level.independent),
            family.parameter,
            state_names=level.names,
            region=region,
            scales=_kept(family.scales, level),
        )
        self._family, self._level, self.knows_dp = family, level, family.knows_dp

    def support(self, x: ArrayLike, p: float) -> np.ndarray:
        """Support (...) by data at coordinates (..., d - k)."""
        return self._family.support(self._level.states(np.asarray(x)), p)

    def _at(self, p: float) -> VectorField:
        return self._level.field(self._family.at(p))

    def _dp(self, x: np.ndarray, p: float) -> np.ndarray:
        return self._family.dp(self._level.states(x), p)[:, self._level.independent]


class TotalFamily(FieldFamily):
    """A field on its level sets; the parameter is the total of the first sum.

    Parameters
    ----------
    field : VectorField
        A field that conserves the sums.
    level : LevelSet
        Gives the totals of the other sums.
    name : str
        Of the parameter.
    region : Region or None
        Box of the coordinates.
    """

    def __init__(self, field: VectorField, level: LevelSet, name: str, region: Region | None) -> None:
        scales = field.scales if field.frame.length is not None else None
        super().__init__(
            len(level.independent),
            name,
            state_names=level.names,
            region=region,
            scales=_kept(scales, level),
        )
        self._field, self._level = field, level
        self.knows_dp = field.frame.length is not None or has_exact_jacobian(field)

    def states(self, z: np.ndarray, p: float) -> np.ndarray:
        """States (..., d) of coordinates (..., d - k) where the total is p."""
        return self._on(p).states(z)

    def _on(self, p: float) -> LevelSet:
        return self._level.at(np.concatenate([[p], self._level.totals[1:]]))

    def _at(self, p: float) -> VectorField:
        return self._on(p).field(self._field)

    def _dp(self, x: np.ndarray, p: float) -> np.ndarray:
        jac = self._field.jacobian(self.states(x, p))[:, self._level.independent]
        return jac @ self._level.by_totals[:, 0]


def _kept(scales: Scales | None, level: LevelSet) -> Scales | None:
    if scales is None:
        return None
    return Scales(scales.length[level.independent], scales.speed[level.independent], scales.time)
