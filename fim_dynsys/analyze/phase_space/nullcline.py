"""Nullclines: the curves of a plane on which one state stands still, each branch a line of its own.

A little above five hundred lines: the result, and the lines from a grid to their ends, are read together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import cast

import numpy as np
from contourpy import LineType, contour_generator

from fim_dynsys.analyze.equilibria.newton import Meter
from fim_dynsys.analyze.phase_space.between import Plane, finer_axes
from fim_dynsys.analyze.phase_space.crossings import Crossing, asymptotes, rays_by_signs, turns, untangled
from fim_dynsys.analyze.results import (
    SUPPORTED,
    Effort,
    FieldLike,
    RegionLike,
    Result,
    StateLike,
    Table,
    Variables,
    labels,
    resolve_region,
    scales_within,
    unwrap,
    with_steps,
)
from fim_dynsys.deadline import time_limit
from fim_dynsys.errors import check_whole
from fim_dynsys.fields.base import VectorField
from fim_dynsys.regions import Region
from fim_dynsys.threads import on_one_thread

# Where the grid's first node lies before the region, in cells: no node falls on its edge or on its axes of
# symmetry, where fields tend to vanish exactly and signs would say nothing.
_OFFSET = 0.4119
_NEWTON_STEPS = 6  # from within a cell Newton's method takes four to rounding
_POLISHED = 1e-9  # of the speed, as of a zero of the whole field (`newton.ROOT_RESIDUAL`)
_CORNER = 0.4  # radians by which a line turns from one cell to the next where a crossing is looked for
_REACH = 3.0  # cells: no further away
_RING, _RING_RADIUS = 360, 2.0  # points on a circle round where more than two lines may cross, in cells
_FLAT = 1e-3  # share that lower orders have in what the component is on the circle
# Whether the grid is fine enough is probed along so many lines each way, at so many places in random order:
# evenly spaced ones would miss what the grid misses.
_PROBES, _PLACES = 3, 2048
_MOST_CELLS = 8192  # along a side
_HALVINGS = 52  # of two cells: to the last digit


class NullclineStatus(StrEnum):
    """How a branch ends."""

    CLOSED = "closed"
    TO_EDGE = "to the edge"
    """Both ends lie on the boundary of the region."""
    INSIDE = "ends inside"
    """An end lies in the region: the field is not defined beyond, or the branch meets another one."""


@dataclass(frozen=True, eq=False, repr=False)
class Nullclines(Result):
    """Nullclines of each state in a plane.

    Attributes
    ----------
    branches : list of list of ndarray (m, d)
        For each state, the polylines on which its rate of change vanishes.
    residual : list of list of float
        The largest rate along each, in units of its speed.
    support : list of list of ndarray (m,)
        Support by the data along each.
    status : list of list of NullclineStatus
        How each ends.
    vanishing : list of bool
        Whether a state stands still everywhere in the plane; it then has no lines.
    states : tuple of str
        The two states that span the plane.
    at : ndarray (d,) or None
        Where the plane lies in the other states; None in two dimensions.
    region : Region
        Box whose section is shown.
    resolution : (int, int)
        Cells of the grid along each of the two states.
    resolved : bool
        Whether neither the field's second differences nor probes between the grid's nodes leave room for a
        sign change that the grid does not show, and the budget reached for all; if False, lines are missing.
        What varies within a cell and not at all beyond it shows in neither; see `cell`.
    touching : list of bool
        Whether a component touches zero between nodes without a change of sign, as a square does: such lines
        are not traced, and `resolved` is False.
    """

    drawn_by = "fim_dynsys.plot.objects:nullclines"

    branches: list[list[np.ndarray]]
    residual: list[list[float]]
    support: list[list[np.ndarray]]
    status: list[list[NullclineStatus]]
    vanishing: list[bool]
    states: tuple[str, str]
    at: np.ndarray | None
    region: Region
    resolution: tuple[int, int]
    resolved: bool
    touching: list[bool] = field(default_factory=list)

    @property
    def cell(self) -> tuple[float, float]:
        """Size of a cell along both states: structures that are narrower may be missed."""
        pair = [self.state_names.index(name) for name in self.states]
        size = self.region.size[pair] / self.resolution
        return float(size[0]), float(size[1])

    def _each(self) -> Iterator[tuple[str, np.ndarray, float, np.ndarray, NullclineStatus]]:
        """State, line, residual, support and status of each branch."""
        for parts in zip(
            self.state_names, self.branches, self.residual, self.support, self.status, strict=True
        ):
            name, *lists = parts
            for branch in zip(*lists, strict=True):
                yield name, *branch

    def _rows(self) -> Table:
        columns = ["d/dt = 0", "points", "from", "to", "status", "residual", "supported share"]
        pair = [self.state_names.index(name) for name in self.states]
        rows = [
            [name, len(line), line[0, pair], line[-1, pair], status, residual, np.mean(support >= SUPPORTED)]
            for name, line, residual, support, status in self._each()
        ]
        return columns, rows

    def _headline(self) -> str:
        lines = ", ".join(
            f"{len(b)} of {name}" for name, b in zip(self.state_names, self.branches, strict=True)
        )
        where = (
            ""
            if self.at is None
            else f" through {dict(zip(self.state_names, self.at.tolist(), strict=True))}"
        )
        return f"Nullclines ({lines}) in the plane of {' and '.join(self.states)}{where}, {self.region}"

    def _notes(self) -> list[str]:
        still = [name for name, zero in zip(self.state_names, self.vanishing, strict=True) if zero]
        cells = f"searched on {self.resolution[0]:,} x {self.resolution[1]:,} cells"
        seen = (
            "second differences and probes between them show nothing finer"
            if self.resolved
            else "there is finer structure, or the budget did not reach: lines are missing"
        )
        narrow = " x ".join(f"{size:.2g} ({name})" for size, name in zip(self.cell, self.states, strict=True))
        touched = [name for name, touches in zip(self.state_names, self.touching, strict=False) if touches]
        if touched:
            seen = f"{', '.join(touched)} touches zero without a change of sign: such lines are not traced"
        seen += f"; what lies within {narrow} may be missed"
        return [f"{name} stands still everywhere" for name in still] + [f"{cells}; {seen}", str(self.effort)]

    def _variables(self) -> Variables:
        each = list(self._each())
        sizes = [len(line) for _, line, *_ in each]
        empty = np.empty((0, len(self.state_names)))
        of = np.array([self.state_names.index(name) for name, *_ in each], dtype=int)
        point = ("point",)
        return {
            "x": (("point", "state"), np.concatenate([empty, *(line for _, line, *_ in each)])),
            "branch": (point, np.repeat(np.arange(len(each)), sizes)),
            "of_state": (point, np.repeat(of, sizes)),
            "resolution": (("plane",), np.array(self.resolution)),
            "resolved": ((), np.array(self.resolved)),
            "support": (point, np.concatenate([np.empty(0), *(s for *_, s, _ in each)])),
        }


@on_one_thread
def nullclines(
    field: FieldLike,
    region: RegionLike | None = None,
    *,
    states: Sequence[int | str] | None = None,
    at: StateLike | None = None,
    resolution: int = 128,
    budget: int = 1_000_000,
    max_seconds: float | None = None,
) -> Nullclines:
    """Find the curves in a plane on which the rate of change of one state vanishes.

    Sign changes on a grid give the lines, Newton's method puts their points onto the zeros, and where two
    branches cross each goes on straight. The grid is refined along a state where probes between its nodes
    find more sign changes than the nodes show. A curve along which a rate only touches zero changes no sign
    and is not found, nor is a closed one smaller than a cell.

    Parameters
    ----------
    field : VectorField or fitted model
        What to analyse; of two states or more.
    region : Region, dict or pairs, optional
        Where; default the box of the field's data widened by 10 % on each side.
    states : pair of str or int, optional
        The states that span the plane; needed from three dimensions on.
    at : array_like (d,) or dict, optional
        A point of the plane; needed from three dimensions on. Its values of `states` do not matter. States
        that a dict does not name are at the centre of the region.
    resolution : int
        Cells of the grid along each side, at least.
    budget : int
        Largest number of points at which the field or its Jacobian is evaluated.
    max_seconds : float, optional
        Time on the clock after which the search ends with what it has; default no limit.

    Returns
    -------
    Nullclines

    Raises
    ------
    TypeError, ValueError
        For something that has no field, a region that does not fit, a plane that is not given or unknown, or
        a budget that does not reach for the grid.

    See Also
    --------
    fixed_points : Where they cross.

    Examples
    --------
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze
    >>> box = fim_dynsys.Region([-3, -3], [3, 3])
    >>> vdp = fim_dynsys.SymbolicField(["x1", "mu*(1 - x0**2)*x1 - x0"], {"mu": 1.0}, region=box)
    >>> found = analyze.nullclines(vdp)
    >>> found.state_names
    ('x0', 'x1')
    """
    field = unwrap(field, "nullclines")
    region = resolve_region(field, region, "nullclines")
    plane = Plane.given(field, region, states, at)
    check_whole("nullclines", 2, resolution=resolution)
    check_whole("nullclines", (resolution + 2) ** 2, budget=budget)
    scales = scales_within(field, region)
    meter, speed = Meter(with_steps(field, scales), budget), scales.speed
    with time_limit("nullclines", max_seconds):
        cells, resolved, probes = _cells(meter, plane, resolution)
        axes, values = _on_grid(meter, plane, cells)
        hidden, touching = finer_axes(meter, plane, axes, values, speed)
        hidden |= _unseen(probes, axes, values)
        while hidden.any():
            finer = np.where(hidden, 2 * cells, cells)
            if finer.max() > _MOST_CELLS or not meter.spares(int(2 * np.prod(finer + 2))):
                resolved = False
                break
            cells = finer
            axes, values = _on_grid(meter, plane, cells)
            hidden, touching = finer_axes(meter, plane, axes, values, speed)
            hidden |= _unseen(probes, axes, values)
        curves = [_Curve(meter, plane, k, cells, speed[k]) for k in range(field.dim)]
        lines = [curve.lines(axes, values[:, :, k]) for k, curve in enumerate(curves)]
    whole = [[plane.embed(line) for line in of_state] for of_state in lines]
    return Nullclines(
        branches=whole,
        residual=[
            [_residual(field, line, k, speed[k]) for line in lines_of_state]
            for k, lines_of_state in enumerate(whole)
        ],
        support=[[field.support(line) for line in lines_of_state] for lines_of_state in whole],
        status=[[_status(plane, line) for line in lines_of_state] for lines_of_state in lines],
        vanishing=[bool((values[:, :, k] == 0).all()) for k in range(field.dim)],
        states=(field.state_names[plane.pair[0]], field.state_names[plane.pair[1]]),
        at=None if field.dim == 2 else plane.at,
        region=region,
        resolution=(int(cells[0]), int(cells[1])),
        resolved=resolved and not meter.exhausted and not touching.any(),
        touching=touching.tolist(),
        effort=Effort(values[:, :, 0].size, _NEWTON_STEPS, meter.points, budget, meter.exhausted),
        **labels(field, region),
    )


def _on_grid(meter: Meter, plane: "Plane", cells: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Coordinates of the nodes along both states, and the field there, (n1, n0, d)."""
    axes = [
        low + (np.arange(n + 2) - _OFFSET) * h
        for low, n, h in zip(plane.low, cells, plane.size / cells, strict=True)
    ]
    nodes = np.stack(np.meshgrid(*axes), axis=-1)
    return axes, meter.rhs(plane.embed(nodes.reshape(-1, 2))).reshape(*nodes.shape[:2], -1)


@dataclass(frozen=True, eq=False)
class _Probe:
    """A line along a state at a value of the other one, and sign changes of each component (d,) on it."""

    axis: int
    across: float
    changes: np.ndarray


def _unseen(probes: Sequence[_Probe], axes: Sequence[np.ndarray], values: np.ndarray) -> np.ndarray:
    """Along which states (2,) a probe changed its sign more often than the nodes on both sides of it."""
    unseen = np.zeros(2, dtype=bool)
    for probe in probes:
        across = axes[1 - probe.axis]
        near = np.clip(np.searchsorted(across, probe.across) + np.array([-1, 0]), 0, len(across) - 1)
        signs = np.sign(np.take(values, near, axis=probe.axis))  # the first axis is that of the second state
        shown = _changes(signs if probe.axis == 0 else np.swapaxes(signs, 0, 1)).max(axis=0)
        unseen[probe.axis] |= bool((shown < probe.changes).any())
    return unseen


def _cells(meter: Meter, plane: Plane, resolution: int) -> tuple[np.ndarray, bool, list[_Probe]]:
    """Cells along both states (2,), whether they show all sign changes along the probes, and these."""
    cells, resolved = np.full(2, resolution), True
    probes: list[_Probe] = []
    if not meter.affords(2 * _PROBES * _PLACES + (resolution + 2) ** 2):
        return cells, False, probes
    rng = np.random.default_rng(0)
    for axis in range(2):
        along = (np.arange(_PLACES) + rng.uniform(size=_PLACES)) / _PLACES
        across = (np.arange(_PROBES) + rng.uniform(size=_PROBES)) / _PROBES
        unit = np.stack(np.broadcast_arrays(along, across[:, None]), axis=-1)[:, :, :: 1 - 2 * axis]
        x = plane.embed((plane.low + unit * plane.size).reshape(-1, 2))
        signs = np.sign(meter.rhs(x)).reshape(_PROBES, _PLACES, -1)
        wanted, known = _needed(signs, resolution)
        places = plane.low[1 - axis] + across * plane.size[1 - axis]
        probes += [_Probe(axis, float(at), n) for at, n in zip(places, _changes(signs), strict=True)]
        while cells[axis] < wanted and meter.affords(2 * int((2 * cells[axis] + 2) * (cells[1 - axis] + 2))):
            cells[axis] *= 2
        resolved &= known and bool(cells[axis] >= wanted)
    return cells, resolved, probes


def _needed(signs: np.ndarray, resolution: int) -> tuple[int, bool]:
    """The fewest cells, doubled from `resolution` on, that show the changes of signs (lines, places, k)."""
    every = _changes(signs)
    wanted = resolution
    while wanted < _PLACES and (_changes(signs[:, :: max(1, _PLACES // wanted)]) < every).any():
        wanted *= 2
    # Were half of the places too few to see all changes, these would be too.
    return wanted, not (_changes(signs[:, ::2]) < every).any()


def _changes(signs: np.ndarray) -> np.ndarray:
    """Number of sign changes along each line, (lines, k); where f is not finite there is none."""
    with np.errstate(invalid="ignore"):
        return (signs[:, 1:] * signs[:, :-1] < 0).sum(axis=1)


def _residual(field: VectorField, line: np.ndarray, k: int, speed: float) -> float:
    return float(np.abs(field(line)[:, k]).max() / speed)


def _status(plane: Plane, line: np.ndarray) -> NullclineStatus:
    if len(line) > 2 and np.array_equal(line[0], line[-1]):
        return NullclineStatus.CLOSED
    ends = (line[[0, -1]] - plane.low) / plane.size
    at_edge = np.minimum(ends, 1 - ends).min(axis=1) < 1e-6
    return NullclineStatus.TO_EDGE if at_edge.all() else NullclineStatus.INSIDE


class _Curve:
    """The zero set of one component in a plane, in units of the grid's cells."""

    def __init__(self, meter: Meter, plane: Plane, k: int, cells: np.ndarray, speed: float) -> None:
        self.meter, self.plane, self.k, self.speed = meter, plane, k, speed
        self.cell = plane.size / cells

    def lines(self, axes: Sequence[np.ndarray], values: np.ndarray) -> list[np.ndarray]:
        z = np.ma.masked_invalid(values)
        contours = contour_generator(axes[0], axes[1], z, line_type=LineType.Separate).lines(0.0)
        drawn = cast(list[np.ndarray], contours)  # what lines are with `LineType.Separate`
        pieces = [piece / self.cell for line in drawn for piece in self.polished(line)]
        whole = untangled(pieces, self.crossings(pieces))
        return [part for line in whole for part in self.clipped(line * self.cell)]

    def crossings(self, lines: Sequence[np.ndarray]) -> list[Crossing]:
        """Points (in cells) at which two branches cross, with the two directions they have there.

        The component and its gradient vanish there. Sought by Newton's method on the gradient from the points
        at which a line turns sharply, since lines drawn by signs alone bend away from a crossing.
        """
        corners = [line[turns(line) > _CORNER] for line in lines if len(line) > 2]
        x = np.concatenate([np.empty((0, 2)), *corners])
        start = x
        for _ in range(_NEWTON_STEPS):
            if not len(x) or not self.meter.affords(3 * len(x)):
                return []
            gradient, curvature = self._second_order(x)
            regular = np.isfinite(curvature).all(axis=(1, 2)) & np.isfinite(gradient).all(axis=1)
            regular[regular] &= np.linalg.det(curvature[regular]) < 0  # else no two lines meet
            x, start = x[regular], start[regular]
            step = -np.linalg.solve(curvature[regular], gradient[regular][:, :, None])[:, :, 0]
            near = np.linalg.norm(x + step - start, axis=1) < _REACH
            x, start, curvature = (x + step)[near], start[near], curvature[regular][near]
        f = self.meter.rhs(self.plane.embed(x * self.cell))[:, self.k]
        found = self._flat(start=np.concatenate([np.empty((0, 2)), *corners]))
        for point, h in zip(
            x[np.abs(f) <= _POLISHED * self.speed],
            curvature[np.abs(f) <= _POLISHED * self.speed],
            strict=True,
        ):
            apart = (0.1 if len(rays) == 4 else _REACH for _, rays in found)
            if all(
                np.linalg.norm(point - other) >= gap for (other, _), gap in zip(found, apart, strict=True)
            ):
                found.append((point, asymptotes(h)))
        return found

    def _flat(self, start: np.ndarray) -> list[Crossing]:
        """Points near the given ones (in cells) at which the second derivatives vanish too: more lines cross.

        Doubled steps of Newton's method on the gradient converge there as single ones do elsewhere; the rays
        are where the component changes sign on a circle.
        """
        x = start
        for _ in range(_NEWTON_STEPS):
            if not len(x) or not self.meter.affords(3 * len(x)):
                return []
            gradient, curvature = self._second_order(x)
            good = np.isfinite(curvature).all(axis=(1, 2)) & np.isfinite(gradient).all(axis=1)
            x, start, gradient, curvature = x[good], start[good], gradient[good], curvature[good]
            step = -2.0 * (np.linalg.pinv(curvature) @ gradient[:, :, None])[:, :, 0]
            near = np.linalg.norm(x + step - start, axis=1) < _REACH
            x, start = (x + step)[near], start[near]
        angles = 2.0 * np.pi * (np.arange(_RING) + 0.5) / _RING
        ring = _RING_RADIUS * np.column_stack([np.cos(angles), np.sin(angles)])
        found: list[Crossing] = []
        for point in x:
            known = any(np.linalg.norm(point - other) < _REACH for other, _ in found)
            if known or not self.meter.affords(_RING + 3):
                continue
            gradient, curvature = self._second_order(point[None])
            values = self.meter.rhs(self.plane.embed((point + ring) * self.cell))[:, self.k]
            lower = max(np.abs(gradient).max() * _RING_RADIUS, np.abs(curvature).max() * _RING_RADIUS**2)
            if np.isfinite(values).all() and lower < _FLAT * np.abs(values).max():
                rays = rays_by_signs(values, angles)
                found += [] if rays is None else [(point, rays)]
        return found

    def _second_order(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient (n, 2) and second derivatives (n, 2, 2) of the component, by cells."""
        whole = self.plane.embed(x * self.cell)
        axes = np.zeros((2, whole.shape[1]))
        axes[[0, 1], list(self.plane.pair)] = self.cell
        gradient = self.meter.jacobian(whole)[:, self.k] @ axes.T
        second = [[self.meter.field.directional(whole, u, v)[:, self.k] for u in axes] for v in axes]
        self.meter.points += 2 * len(x)
        return gradient, np.moveaxis(np.array(second), 2, 0)

    def polished(self, line: np.ndarray) -> list[np.ndarray]:
        """Points moved onto the zero set, and the line cut where there is none: at a pole, at a jump."""
        closed = len(line) > 2 and np.array_equal(line[0], line[-1])
        x, start = line.copy(), line
        for _ in range(_NEWTON_STEPS):
            if not self.meter.affords(2 * len(x)):
                break
            whole = self.plane.embed(x)
            f = self.meter.rhs(whole)[:, self.k]
            slope = self.meter.jacobian(whole)[:, self.k][:, list(self.plane.pair)] * self.cell
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                move = -(f / (slope**2).sum(axis=1))[:, None] * slope * self.cell
            x = np.where(f[:, None] == 0, x, x + move)
            if not np.abs(move / self.cell).max(initial=0.0) > 1e-12:
                break
        moved = np.linalg.norm((x - start) / self.cell, axis=1)
        with np.errstate(invalid="ignore"):
            f = np.abs(self.meter.field(self.plane.embed(x))[:, self.k])
            good = (moved < 1.5) & (f <= _POLISHED * self.speed)
        x, good = self.bracketed(start, x, good)
        if good.all():
            x[-1] = x[0] if closed else x[-1]
            return [_without_repeats(x)]
        runs = np.split(np.arange(len(x)), np.flatnonzero(np.diff(good)) + 1)
        return [_without_repeats(x[run]) for run in runs if good[run[0]] and len(run) > 1]

    def bracketed(self, start: np.ndarray, x: np.ndarray, good: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points from which Newton's method went astray, by bisection; none at jumps and poles."""
        lost = np.flatnonzero(~good)
        if not len(lost) or not self.meter.spares(4 * (_HALVINGS + 1) * len(lost)):
            return x, good
        x, good = x.copy(), good.copy()
        for axis in (0, 1):
            lost = np.flatnonzero(~good)
            # A drawn point lies on an edge of a cell, between the two nodes at its ends.
            low, high = start[lost].copy(), start[lost].copy()
            corner, cell = self.plane.low[axis] - _OFFSET * self.cell[axis], self.cell[axis]
            low[:, axis] = corner + np.floor((low[:, axis] - corner) / cell) * cell
            high[:, axis] = low[:, axis] + cell
            at_low, at_high = (self.meter.rhs(self.plane.embed(end))[:, self.k] for end in (low, high))
            with np.errstate(invalid="ignore"):
                apart = at_low * at_high < 0
            lost, low, high, at_low = lost[apart], low[apart], high[apart], at_low[apart]
            for _ in range(_HALVINGS):
                middle = (low + high) / 2.0
                f = self.meter.rhs(self.plane.embed(middle))[:, self.k]
                same = f * at_low > 0
                low, high = np.where(same[:, None], middle, low), np.where(same[:, None], high, middle)
            f = np.abs(self.meter.rhs(self.plane.embed(low))[:, self.k])
            found = f <= _POLISHED * self.speed
            x[lost[found]], good[lost[found]] = low[found], True
        return x, good

    def clipped(self, line: np.ndarray) -> list[np.ndarray]:
        """The parts of a line inside the region, with ends on its boundary."""
        low, high = self.plane.low, self.plane.low + self.plane.size
        slack = 1e-9 * self.plane.size
        inside = ((line >= low - slack) & (line <= high + slack)).all(axis=1)
        if inside.all():
            return [line] if len(line) > 1 else []
        if np.array_equal(line[0], line[-1]):
            first = int(np.argmin(inside))  # a closed line is opened where it is outside
            line = np.concatenate([line[first:-1], line[: first + 1]])
            inside = np.concatenate([inside[first:-1], inside[: first + 1]])
        parts = []
        for run in np.split(np.arange(len(line)), np.flatnonzero(np.diff(inside)) + 1):
            if inside[run[0]]:
                before = [self.crossing(line[run[0]], line[run[0] - 1])] if run[0] > 0 else []
                after = [self.crossing(line[run[-1]], line[run[-1] + 1])] if run[-1] + 1 < len(line) else []
                parts.append(_without_repeats(np.array([*before, *line[run], *after])))
        return [part for part in parts if len(part) > 1]

    def crossing(self, inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
        """Where the zero set leaves the region between two points: on the face, by bisection along it."""
        low, high = self.plane.low, self.plane.low + self.plane.size
        step = outside - inside
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(
                step > 0, (high - inside) / step, np.where(step < 0, (low - inside) / step, np.inf)
            )
        axis = int(np.argmin(share))
        point = inside + np.clip(share[axis], 0.0, 1.0) * step
        point[axis] = high[axis] if step[axis] > 0 else low[axis]
        return self.on_face(point, axis)

    def on_face(self, point: np.ndarray, axis: int) -> np.ndarray:
        """A point moved along a face onto the zero set by Newton's method; left where that leads too far."""
        other = 1 - axis
        x = point.copy()
        for _ in range(_NEWTON_STEPS):
            if not self.meter.affords(2):
                return point
            whole = self.plane.embed(x[None])
            f = self.meter.rhs(whole)[0, self.k]
            slope = self.meter.jacobian(whole)[0, self.k, self.plane.pair[other]]
            if f == 0 or slope == 0:
                break
            x[other] -= f / slope
        near = abs(x[other] - point[other]) < self.cell[other]
        return np.clip(x, self.plane.low, self.plane.low + self.plane.size) if near else point


def _without_repeats(line: np.ndarray) -> np.ndarray:
    """A line without points that coincide with their predecessor."""
    keep = np.concatenate([[True], (np.diff(line, axis=0) != 0).any(axis=1)])
    return line[keep]
