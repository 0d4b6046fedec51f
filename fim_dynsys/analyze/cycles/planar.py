"""Cycles in the plane by return maps on lines: rays from equilibria, and lines across known cycles."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fim_dynsys.analyze.cycles.search import Cycle, CycleKind, Search
from fim_dynsys.analyze.equilibria.points import fixed_points
from fim_dynsys.analyze.equilibria.result import PointStatus
from fim_dynsys.simulation.problem import Status
from fim_dynsys.simulation.solution import integrate

_POINT_BUDGET = 20_000  # field evaluations for the equilibria, a tenth of what finding all of them may take
_RAY = 20  # starts on a ray, evenly spaced in the logarithm of the distance, as cycles are of any size
_SHORTEST = 1e-3  # of the ray's length: the nearest start
_NEARER = 0.03  # of the nearest start, for cycles inside of it
_TELLS = 1e-6  # real part of an eigenvalue, by its modulus, that tells how a focus turns
_TURNS = 1.2  # of a focus: what is near it has come round by then
_BESIDE = 12  # starts on either side of a cycle, likewise
_NEAREST, _FARTHEST = 1e-4, 0.3  # of its size
_BETWEEN = 60  # starts, evenly spaced, between two cycles that cannot be neighbours
_FINER, _SUBDIVISIONS = 10, 2  # starts within a bracket, and how many times at most
_RTOL = 1e-7  # displacements are then known to as much
_CLOSED = 1e-5  # displacement by the distance that is none: that of a family of closed orbits
_SAMPLES = 250  # of the first window, of which one before and one after a crossing show it
_FIRST, _WINDOWS = 25.0, 7  # time scales, and windows of that length in which a path comes back
_PERIODS, _TWICE = 1.1, 2  # of a known cycle, and windows of that length, for a return beside it
_STEPS = 2_000  # in a window: more are those of stiff corners, where explicit steps are of no use
_FEWEST_STEPS = 10  # of a window that is begun, when the budget runs out
# Logarithm of the multiplier below which a cycle draws all around it onto itself in part of a turn: a second
# one beside it would be a canard, and a return map tells nothing of it.
_FLAT = -200.0
# Displacement, by the distance of two starts, below which it is no jump where closer ones show no change of
# sign: that is lost in the error of the integration.
_FLAT_MAP = 0.1
_STEEP_MAP = 1.5  # the same above which it may well be one: onto what attracts, it is 1 at most
_TIMES = 0.2  # relative difference of the times of return on both sides of a cycle: more is a jump of the map
_ATTRACTS = 1e-3  # rate towards an equilibrium, by the field's own, that linear terms decide
_REST = 1e-6  # speed, by that of the field, of a trajectory at rest


class _Bracket(NamedTuple):
    """Two starts on a line between which a trajectory closes."""

    low: float
    high: float
    closes: float  # where the line through both displacements is zero
    time: float  # once round from there
    attracts: bool
    flat: bool  # whether the displacement there is small for the distance of the two
    plain: bool  # whether one cycle lies there for sure that attracts, and no jump of the return map


@dataclass(frozen=True, eq=False)
class _Line:
    """A line in the plane with the trajectories that start on it and come back."""

    search: Search
    origin: np.ndarray
    along: np.ndarray  # direction, of length 1 in units of length
    positive: bool  # whether only the half with s > 0 belongs to it

    def states(self, s: np.ndarray) -> np.ndarray:
        return self.origin + s[:, None] * self.along * self.search.length

    def returns(self, s: np.ndarray, window: float, windows: int) -> tuple[np.ndarray, np.ndarray]:
        """Where trajectories cross the line again in the direction in which they left, and after what time.

        NaN for those that do not within so many windows of time. Starts outside the region have one.
        """
        search, length = self.search, self.search.length
        normal = np.array([-self.along[1], self.along[0]])
        back, times = np.full(len(s), np.nan), np.full(len(s), np.nan)
        z = self.states(s)
        sense = np.sign(search.field(z) / length @ normal)
        rows = np.flatnonzero((np.abs(sense) == 1) & search.chart.inside(z))
        waits = search.chart.region.contains(search.chart.states(z))
        z, t = z[rows], np.linspace(0.0, window, _SAMPLES + 1)
        for number in range(windows):
            if not len(rows) or not search.affords():
                break
            solution = integrate(
                [search.field],
                z,
                t,
                rtol=_RTOL,
                max_steps=search.affordable_steps(len(z), _FEWEST_STEPS, _STEPS),
                escape=search.chart.escape,
                until=lambda z: search.chart.ends(z, 1),
            )
            away = (solution.x - self.origin) / length
            height, place = away @ normal * sense[rows, None], away @ self.along
            crosses = (height[:, :-1] < 0) & (height[:, 1:] >= 0)
            crosses[:, 0] &= number > 0  # at the very start rounding decides the side
            if self.positive:
                crosses &= place[:, :-1] + place[:, 1:] > 0
            here = np.flatnonzero(crosses.any(axis=1))
            k = crosses[here].argmax(axis=1)
            before, after = height[here, k], height[here, k + 1]
            spent = (before / (before - after))[:, None] * np.array([0.0, t[1]])
            if len(here):
                # From the sample on, the step to the line itself and one of Newton's method.
                x = integrate([search.field], solution.x[here, k], spent, rtol=_RTOL).x_stop
                flow, off = search.field(x) / length, (x - self.origin) / length
                late = (off @ normal) / (flow @ normal)
                back[rows[here]] = off @ self.along - late * (flow @ self.along)
                times[rows[here]] = number * window + k * t[1] + spent[:, 1] - late
            going = (solution.status == Status.SUCCESS) & ~crosses.any(axis=1)
            speed = np.linalg.norm(search.field(solution.x_stop) / search.field.scales.speed, axis=1)
            going &= (speed > _REST) & waits[rows]
            rows, z = rows[going], solution.x_stop[going]
        return back, times

    def brackets(self, s: np.ndarray, window: float, windows: int, inmost: float = 0.0) -> list[_Bracket]:
        """Neighbouring starts between which a trajectory closes.

        On a ray, `inmost` is the sign of displacements next to its end, from which that of the nearest start
        may differ.
        """
        back, times = self.returns(s, window, windows)
        known = np.flatnonzero(np.isfinite(back))
        s, back, times = s[known], back[known], times[known]
        moved = back - s
        # On a line through a cycle the displacement by the distance does not change its sign there.
        outwards = np.sign(moved * s)
        closed = np.abs(moved) < _CLOSED * np.abs(s)
        found = []
        if len(s) and outwards[0] * inmost < 0 and not closed[0]:
            found += self.brackets(s[0] * np.geomspace(_NEARER, 1.0, _RAY), window, windows)
        for i in range(len(s) - 1):
            if outwards[i] * outwards[i + 1] < 0 and s[i] * s[i + 1] > 0 and not closed[i : i + 2].all():
                nearer = i if abs(s[i]) < abs(s[i + 1]) else i + 1
                share = float(moved[i] / (moved[i] - moved[i + 1]))
                time = float(times[i] + share * (times[i + 1] - times[i]))
                even = bool(abs(times[i] - times[i + 1]) < _TIMES * time)
                if not even and abs(s[i + 1] - s[i]) < _TIMES * abs(s[i]):
                    continue
                low, high = float(s[i]), float(s[i + 1])
                slope = float(np.abs(moved[i : i + 2]).max() / abs(high - low))
                found.append(
                    _Bracket(
                        low,
                        high,
                        low + share * (high - low),
                        time,
                        bool(outwards[nearer] > 0),
                        slope < _FLAT_MAP,
                        even and outwards[nearer] > 0 and _FLAT_MAP <= slope < _STEEP_MAP,
                    )
                )
        return found

    def look(self, s: np.ndarray, window: float, windows: int, size: float, inmost: float = 0.0) -> bool:
        """Search the line for cycles that are not known; whether one was found."""
        before = len(self.search.found)
        for bracket in self.brackets(s, window, windows, inmost):
            self._find_within(bracket, size)
        return len(self.search.found) > before

    def _find_within(self, bracket: _Bracket, size: float) -> None:
        """Correct the cycle that crosses the line between two starts, from closer by where that is needed."""
        if bracket.plain and not self._is_crossed(bracket):
            self._guess(bracket, size)
        if not bracket.flat and self._is_crossed(bracket):
            return
        for _ in range(_SUBDIVISIONS):
            ends = np.linspace(bracket.low, bracket.high, _FINER)
            finer = self.brackets(ends, _PERIODS * bracket.time, _TWICE)
            if not finer:
                break
            bracket = finer[0]
        # Without a finer one the displacement jumps, as where a path is caught by something else.
        if (finer or bracket.flat) and not self._is_crossed(bracket):
            self._guess(bracket, size)

    def _guess(self, bracket: _Bracket, size: float) -> None:
        z = self.states(np.array([bracket.closes]))[0]
        smallest = min(size, abs(bracket.low))
        self.search.try_guess(z, bracket.time, smallest, 1 if bracket.attracts else -1)

    def _is_crossed(self, bracket: _Bracket) -> bool:
        """Whether a known cycle crosses the line between the starts of a bracket."""
        normal = np.array([-self.along[1], self.along[0]])
        for cycle in self.search.found:
            # The first once more: where it lies on the line, rounding decides on which side the last one is.
            samples = np.concatenate([cycle.samples, cycle.samples[:1]])
            away = (samples - self.origin) / self.search.length
            height, place = away @ normal, away @ self.along
            k = np.flatnonzero((height[:-1] < 0) != (height[1:] < 0))
            at = place[k] + height[k] / (height[k] - height[k + 1]) * (place[k + 1] - place[k])
            if ((at > bracket.low) & (at < bracket.high)).any():
                return True
        return False


def search_rays(search: Search) -> None:
    """Look for cycles on a ray from each equilibrium: every cycle encloses one, and crosses its ray.

    Parameters
    ----------
    search : Search
        In the plane; what is found is added.
    """
    chart, region = search.chart, search.chart.region
    budget = max(1, min(_POINT_BUDGET, search.budget - search.counted.points))
    points = fixed_points(search.counted.inner, region, budget=budget, slow=0.0, n_draws=0)
    search.counted.points += points.effort.points
    isolated = np.array([status is not PointStatus.NOT_ISOLATED for status in points.status], dtype=bool)
    # Stable ones attract, unstable ones backwards in time; nothing is known of kinds on the axis.
    rates = points.eigenvalues[isolated].real * search.field.scales.time
    for direction in (1, -1):
        attracts = (direction * rates < -_ATTRACTS).all(axis=1)
        search.nodes[direction] = points.x[isolated][attracts & points.is_root[isolated]]
    # One of index -1, a saddle, is enclosed only together with others.
    enclosed_alone = isolated & chart.holds(points.x) & ~(points.index == -1)
    along = np.array([1.0, 0.0])
    for z, values in zip(
        chart.coordinates(points.x[enclosed_alone]), points.eigenvalues[enclosed_alone], strict=True
    ):
        line = _Line(search, z, along, positive=True)
        end = chart.coordinates(np.where(chart.signs < 0, chart.box.low, chart.box.high))[0]
        reach = (end - z[0]) / search.length[0]
        if reach > 0 and search.affords():
            s = reach * np.geomspace(_SHORTEST, 1.0, _RAY)
            window, inmost = _FIRST * search.field.scales.time, 0.0
            if values.imag.any():
                window = max(window, _TURNS * 2.0 * np.pi / float(np.abs(values.imag).max()))
                inmost = float(
                    np.sign(values[0].real) * (np.abs(values[0].real) > _TELLS * np.abs(values[0]))
                )
            line.look(s, window, _WINDOWS, np.inf, inmost)


def search_beside(search: Search) -> None:
    """Look for further cycles close to those that are known.

    Parameters
    ----------
    search : Search
        In the plane; what is found is added.
    """
    done: list[Cycle] = []
    while search.affords():
        remaining = [cycle for cycle in search.found if cycle not in done and _is_limit(cycle)]
        if not remaining:
            return
        cycle = remaining[0]
        done.append(cycle)
        if cycle.floquet.log_moduli[1:].max() < _FLAT:
            continue
        line = _across(search, cycle)
        s = cycle.size * np.geomspace(_NEAREST, _FARTHEST, _BESIDE)
        line.look(np.concatenate([-s[::-1], s]), _PERIODS * cycle.orbit.period, _TWICE, cycle.size)


def contradictions(search: Search, equilibria: np.ndarray | None = None) -> list[tuple[Cycle, Cycle]]:
    """Nested pairs of cycles between which a third must lie and none is found, however closely one looks.

    Between two neighbouring cycles that both attract what lies between, or both repel it, there is another
    cycle or an equilibrium.

    Parameters
    ----------
    search : Search
        In the plane; what is found is added.
    equilibria : ndarray (n, 2), optional
        The equilibria, in coordinates of the chart; sought by default.

    Returns
    -------
    list of (Cycle, Cycle)
        Outer and inner one.
    """
    if equilibria is None:
        equilibria = _equilibria(search) if _neighbours(search.found) else np.empty((0, 2))
    open_pairs = []
    for outer, inner in _neighbours(search.found):
        if outer.kind is not inner.kind or _between(outer, inner, equilibria):
            continue
        line = _across(search, inner)
        s = 3.0 * outer.distance(inner.orbit.x) * np.linspace(1e-3, 1.0, _BETWEEN)
        if not line.look(np.concatenate([-s[::-1], s]), _PERIODS * outer.orbit.period, _TWICE, inner.size):
            open_pairs.append((outer, inner))
    return open_pairs


def _equilibria(search: Search) -> np.ndarray:
    points = fixed_points(
        search.counted.inner, search.chart.region, budget=_POINT_BUDGET, slow=0.0, n_draws=0
    )
    search.counted.points += points.effort.points
    return search.chart.coordinates(points.x[points.is_root & search.chart.holds(points.x)])


def _is_limit(cycle: Cycle) -> bool:
    return cycle.kind in (CycleKind.STABLE, CycleKind.UNSTABLE)


def _across(search: Search, cycle: Cycle) -> _Line:
    """The line across a cycle, neither where it is slow, as near saddles, nor on a jump."""
    flow = search.field(cycle.samples) / search.length
    i = int(np.argsort(np.linalg.norm(flow, axis=1))[len(flow) // 2])
    normal = np.array([-flow[i, 1], flow[i, 0]]) / np.linalg.norm(flow[i])
    return _Line(search, cycle.samples[i], normal, positive=False)


def _neighbours(found: Sequence[Cycle]) -> list[tuple[Cycle, Cycle]]:
    """Pairs of limit cycles, outer and inner, with none between them."""
    limits = [cycle for cycle in found if _is_limit(cycle)]
    holds = {
        (i, j): bool(enclosed(limits[i].samples, limits[j].orbit.x[None])[0])
        for i, j in itertools.permutations(range(len(limits)), 2)
    }
    return [
        (limits[i], limits[j])
        for (i, j), inside in holds.items()
        if inside and not any(holds.get((i, k)) and holds.get((k, j)) for k in range(len(limits)))
    ]


def _between(outer: Cycle, inner: Cycle, points: np.ndarray) -> bool:
    """Whether an equilibrium lies between two nested cycles."""
    return bool((enclosed(outer.samples, points) & ~enclosed(inner.samples, points)).any())


def enclosed(loop: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Which points (n, 2) a closed polygon (k, 2) goes round, (n,) of bool.

    Parameters
    ----------
    loop : ndarray (k, 2)
        Corners, the last equal to the first.
    points : ndarray (n, 2)
        Points.
    """
    (x0, y0), (x1, y1) = loop[:-1].T, loop[1:].T
    x, y = points[:, :1], points[:, 1:]
    crosses = (y0 > y) != (y1 > y)
    with np.errstate(all="ignore"):
        at = x0 + (y - y0) / (y1 - y0) * (x1 - x0)
    return np.asarray((crosses & (x < at)).sum(axis=1) % 2 == 1)
