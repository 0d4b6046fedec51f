"""Sliding along jumps of a field, as of a block that sticks to a belt: where it happens, and cycles with it.

Where a field jumps at one value of a state and points towards that value from both sides, paths stay on it.
They move by the mean of both sides that has no component across (Filippov). In the plane a path leaves where
one side turns away, so that all that slide to the same end go on as one.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicHermiteSpline

from fim_dynsys.analyze.jumps import discontinuities
from fim_dynsys.deadline import out_of_time
from fim_dynsys.fields.base import VectorField
from fim_dynsys.regions import Region
from fim_dynsys.simulation.problem import Status
from fim_dynsys.simulation.solution import integrate

_LINES = 8  # along each axis, on which jumps are looked for
_MOST_SURFACES = 8  # more are those of a field of steps
_ALIKE = 1e-9  # of a state's range, by which the places of one jump may differ
_BESIDE = 1e-12  # of a state's range, and some roundings: so far from the jump its sides are evaluated
_NEAR = 1e-3  # of a state's range: so near a jump that attracts, a path is taken to slide soon
_GRID = 512  # places on a line of the plane at which is looked whether both sides attract
_HALVINGS = 50  # of an interval of it
_RTOL = 1e-11  # as of other listed orbits
_LONGEST = 1e4  # time scales until the next jump
_STEPS = 3_000  # until then: some twenty loops, after which a path settles on one side
_HITS = 64  # jumps crossed between two slides
_LOOK = 1e-6  # time scales after leaving a jump, at which the side that turned away must lead away
_SHORTEST = 1e-9  # of the period: what slides for less grazes the jump


class Surface(NamedTuple):
    """A jump of the field where a state has one value."""

    state: int
    value: float


@dataclass(frozen=True, eq=False)
class SlidingOrbit:
    """A closed orbit of the plane that slides for part of the time.

    Attributes
    ----------
    period : float
        Period.
    samples : ndarray (n + 1, 2)
        States at equal intervals of time, the first repeated, from where it leaves a jump.
    gap : ndarray (2,)
        What the last of them lacks to the first.
    """

    period: float
    samples: np.ndarray
    gap: np.ndarray


class _Run(NamedTuple):
    """An interval of a jump's line that attracts from both sides."""

    surface: int
    sides: np.ndarray
    low: float
    high: float


class _Exit(NamedTuple):
    """An end of such an interval at which one side turns away."""

    run: _Run
    place: float
    sides: np.ndarray


class _Leg(NamedTuple):
    """A part of an orbit on one side of all jumps, or on one of them."""

    duration: float
    start: np.ndarray
    sides: np.ndarray | None  # None while it slides
    slide: CubicHermiteSpline | None
    surface: int


class Sliding:
    """The jumps of a field at single values of its states.

    Parameters
    ----------
    field : VectorField
        The field.
    region : Region
        Where jumps are looked for.
    """

    def __init__(self, field: VectorField, region: Region) -> None:
        self.field, self.size = field, region.size
        self.surfaces = _surfaces(field, region)

    def __bool__(self) -> bool:
        return bool(self.surfaces)

    def named(self, state_names: Sequence[str]) -> str:
        """Jumps in words, such as ``v = 0.2``."""
        return ", ".join(
            f"{state_names[i]} = {0.0 if abs(value) < _ALIKE * self.size[i] else value:.6g}"
            for i, value in self.surfaces
        )

    def holds(self, x: np.ndarray, direction: int) -> np.ndarray:
        """Which states (n, d) are next to a jump that attracts from both sides, forwards or backwards."""
        held = np.zeros(len(x), dtype=bool)
        for surface in self.surfaces:
            i, value = surface
            near = np.flatnonzero(np.abs(x[:, i] - value) < _NEAR * self.size[i])
            if len(near):
                up, down = (self._beside(x[near], surface, side)[:, i] for side in (1, -1))
                held[near] |= (direction * up < 0) & (direction * down > 0)
        return held

    def _beside(self, x: np.ndarray, surface: Surface, side: int) -> np.ndarray:
        """Rates (n, d) on one side of a jump."""
        x = x.copy()
        x[:, surface.state] = self._edge_of(surface, side)
        with np.errstate(all="ignore"):
            return np.asarray(self.field(x))

    def _edge_of(self, surface: Surface, side: int) -> float:
        """The value of the state just beside a jump."""
        i, value = surface
        return value + side * max(_BESIDE * float(self.size[i]), 8.0 * float(np.spacing(abs(value))))

    # ------------------------------------------------------------------ cycles in the plane

    def cycles(self, box: Region, n_samples: int) -> list[SlidingOrbit]:
        """All closed orbits of the plane that slide, from the ends of all intervals that attract.

        Parameters
        ----------
        box : Region
            Where paths may go.
        n_samples : int
            Intervals of time of an orbit.

        Returns
        -------
        list of SlidingOrbit
        """
        runs = [run for k in range(len(self.surfaces)) for run in self._runs(k, box)]
        exits = [found for run in runs for found in self._exits(run)]
        ways = [self._onwards(start, runs, exits, box) for start in exits]
        found, seen = [], set()
        for first in range(len(exits)):
            chain: list[int] = []
            number: int | None = first
            while number is not None and number not in seen:
                seen.add(number)
                chain.append(number)
                number = ways[number][0]
            if number in chain:
                legs = [leg for k in chain[chain.index(number) :] for leg in ways[k][1]]
                orbit = self._orbit(legs, n_samples)
                found += [] if orbit is None else [orbit]
        return found

    def _rates(self, x: np.ndarray, sides: np.ndarray) -> np.ndarray:
        """Rates (n, 2) on given sides of all jumps, continued beyond them by what they are next to them."""
        x = np.array(x)
        for surface, side in zip(self.surfaces, sides, strict=True):
            i, edge = surface.state, self._edge_of(surface, side)
            x[:, i] = np.maximum(x[:, i], edge) if side > 0 else np.minimum(x[:, i], edge)
        with np.errstate(all="ignore"):
            return np.asarray(self.field(x))

    def _on_line(self, surface: int, place: np.ndarray, sides: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rates (n, 2) at places of a jump's line, on its upper and its lower side."""
        i, value = self.surfaces[surface]
        x = np.full((len(place), 2), value)
        x[:, 1 - i] = place
        up, down = sides.copy(), sides.copy()
        up[surface], down[surface] = 1, -1
        return self._rates(x, up), self._rates(x, down)

    def _attracts(self, surface: int, place: np.ndarray, sides: np.ndarray) -> np.ndarray:
        up, down = self._on_line(surface, place, sides)
        i = self.surfaces[surface].state
        return np.asarray((up[:, i] < 0) & (down[:, i] > 0))

    def _velocity(self, run: _Run, place: np.ndarray) -> np.ndarray:
        """Speed along the line while sliding: of the mean of both sides that does not leave it."""
        up, down = self._on_line(run.surface, place, run.sides)
        i = self.surfaces[run.surface].state
        share = down[:, i] / (down[:, i] - up[:, i])
        return np.asarray(share * up[:, 1 - i] + (1.0 - share) * down[:, 1 - i])

    def _runs(self, surface: int, box: Region) -> list[_Run]:
        """The intervals of a jump's line that attract from both sides, cut where other jumps cross it."""
        i, value = self.surfaces[surface]
        j = 1 - i
        cuts = sorted(other.value for other in self.surfaces if other.state == j)
        ends = [box.low[j], *(cut for cut in cuts if box.low[j] < cut < box.high[j]), box.high[j]]
        found = []
        for low, high in itertools.pairwise(ends):
            middle = (low + high) / 2.0
            here = np.array([value, middle] if i == 0 else [middle, value])
            sides = np.array([1 if here[other.state] > other.value else -1 for other in self.surfaces])
            grid = np.linspace(low, high, _GRID + 1)[1:-1]
            attracts = self._attracts(surface, grid, sides)
            changes = np.flatnonzero(attracts[:-1] != attracts[1:])
            edges = [self._edge(surface, grid[k], grid[k + 1], sides) for k in changes]
            edges = [*([grid[0]] if attracts[0] else []), *edges, *([grid[-1]] if attracts[-1] else [])]
            found += [_Run(surface, sides, *pair) for pair in zip(edges[::2], edges[1::2], strict=True)]
        return found

    def _edge(self, surface: int, low: float, high: float, sides: np.ndarray) -> float:
        """The last place between two that still attracts; one of them does."""
        at_low = self._attracts(surface, np.array([low]), sides)[0]
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            if self._attracts(surface, np.array([middle]), sides)[0] == at_low:
                low = middle
            else:
                high = middle
        return low if at_low else high

    def _exits(self, run: _Run) -> list[_Exit]:
        """The ends of an interval towards which paths slide and at which one side turns away."""
        found = []
        i = self.surfaces[run.surface].state
        width = run.high - run.low
        for place, outwards in ((run.low, -1), (run.high, 1)):
            if not self._velocity(run, np.array([place]))[0] * outwards > 0:
                continue
            beyond = np.array([place + outwards * 1e-9 * width])
            up, down = (rates[0, i] for rates in self._on_line(run.surface, beyond, run.sides))
            if (up < 0) == (down > 0):
                continue  # both turn away at once, or the interval ends at another jump
            sides = run.sides.copy()
            sides[run.surface] = -1 if up < 0 else 1
            x = self._state(run.surface, place)
            rates = self._rates(x[None], sides)
            later = x + _LOOK * self.field.scales.time * rates
            if self._rates(later, sides)[0, i] * sides[run.surface] > 0:
                found.append(_Exit(run, place, sides))
        return found

    def _state(self, surface: int, place: float) -> np.ndarray:
        i, value = self.surfaces[surface]
        return np.array([value, place] if i == 0 else [place, value])

    def _onwards(
        self, start: _Exit, runs: Sequence[_Run], exits: Sequence[_Exit], box: Region
    ) -> tuple[int | None, list[_Leg]]:
        """The exit that the path from one comes to next, and the way there; None where it does not."""
        x, sides = self._state(start.run.surface, start.place), start.sides
        legs: list[_Leg] = []
        for _ in range(_HITS):
            hit = None if out_of_time() else self._next_jump(x, sides, box)
            if hit is None:
                return None, legs
            duration, there, surface = hit
            legs.append(_Leg(duration, x, sides, None, surface))
            x = there
            i = self.surfaces[surface].state
            place = x[1 - i]
            holding = [run for run in runs if run.surface == surface and run.low <= place <= run.high]
            if holding:
                return self._slide(holding[0], place, exits, legs)
            other = sides.copy()
            other[surface] *= -1
            if not self._rates(x[None], other)[0, i] * other[surface] > 0:
                return None, legs
            sides = other
        return None, legs

    def _next_jump(
        self, x: np.ndarray, sides: np.ndarray, box: Region
    ) -> tuple[float, np.ndarray, int] | None:
        """When, where and at which jump a path on given sides meets one; None where it does not."""
        events = []
        for (i, value), side in zip(self.surfaces, sides, strict=True):

            def distance(t: np.ndarray, z: np.ndarray, i: int = i, value: float = value) -> np.ndarray:
                return z[:, i] - value

            distance.direction = -side  # type: ignore[attr-defined]
            events.append(distance)
        solution = integrate(
            [_OneSided(self, sides)],
            x[None],
            np.array([0.0, _LONGEST * self.field.scales.time]),
            rtol=_RTOL,
            atol=_RTOL * self.size,
            events=events,
            max_steps=_STEPS,
            until=lambda z: ~np.asarray(box.contains(z)),
        )
        if solution.status[0] != Status.EVENT or not solution.occurrences:
            return None
        _, time, number, state = solution.occurrences[-1]
        return float(time), np.asarray(state), int(number)

    def _slide(
        self, run: _Run, place: float, exits: Sequence[_Exit], legs: list[_Leg]
    ) -> tuple[int | None, list[_Leg]]:
        """The end of an interval that a path slides to from a place; None where it comes to rest before."""
        direction = np.sign(self._velocity(run, np.array([place]))[0])
        for number, goal in enumerate(exits):
            if goal.run is not run or (goal.place - place) * direction <= 0:
                continue
            knots = np.linspace(place, goal.place, _GRID + 1)
            speed = self._velocity(run, knots)
            if not (speed * direction > 0).all():
                return None, legs
            # Gauss's two points on each interval: an error of the fourth power of 1 / 512
            middle, half = (knots[:-1] + knots[1:]) / 2.0, np.diff(knots) / 2.0
            inner = [self._velocity(run, middle + sign * half / np.sqrt(3.0)) for sign in (-1.0, 1.0)]
            times = np.concatenate([[0.0], np.cumsum(half / inner[0] + half / inner[1])])
            slide = CubicHermiteSpline(times, knots, speed)
            start = self._state(run.surface, place)
            legs.append(_Leg(float(times[-1]), start, None, slide, run.surface))
            return number, legs
        return None, legs

    def _orbit(self, legs: Sequence[_Leg], n_samples: int) -> SlidingOrbit | None:
        """Samples of a closed chain of legs; None for one that merely grazes a jump."""
        period = sum(leg.duration for leg in legs)
        if sum(leg.duration for leg in legs if leg.slide is not None) < _SHORTEST * period:
            return None
        wanted = period * np.arange(n_samples) / n_samples
        samples, begun = [], 0.0
        for leg in legs:
            t = wanted[(wanted >= begun) & (wanted < begun + leg.duration)] - begun
            if leg.slide is not None:
                samples.append(np.array([self._state(leg.surface, s) for s in leg.slide(t)]).reshape(-1, 2))
            else:
                assert leg.sides is not None
                times = np.concatenate([[-1e-12 * period], t]) if len(t) else t
                path = integrate(
                    [_OneSided(self, leg.sides)], leg.start[None], times, rtol=_RTOL, atol=_RTOL * self.size
                )
                samples.append(path.x[0, 1:])
            begun += leg.duration
        last = legs[-1]
        assert last.slide is not None
        end = self._state(last.surface, float(last.slide(last.duration)))
        return SlidingOrbit(period, np.concatenate([*samples, legs[0].start[None]]), end - legs[0].start)


class _OneSided(VectorField):
    """A field on given sides of its jumps, continued beyond them."""

    def __init__(self, sliding: Sliding, sides: np.ndarray) -> None:
        super().__init__(2, scales=sliding.field.scales)
        self._sliding, self._sides = sliding, sides

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        return self._sliding._rates(x, self._sides)


def _surfaces(field: VectorField, region: Region) -> list[Surface]:
    """Jumps at single values of a state, found on lines along its axis."""
    points = region.sobol(_LINES)
    found: list[Surface] = []
    speed = field.scales.speed
    for i in range(field.dim):
        starts, ends = points.copy(), points.copy()
        starts[:, i], ends[:, i] = region.low[i], region.high[i]
        places = [jump.x for jump in discontinuities(field, starts, ends, speed) if not jump.pole]
        x = np.array(sorted(places, key=lambda place: place[i])).reshape(-1, field.dim)
        for group in np.split(x, np.flatnonzero(np.diff(x[:, i]) > _ALIKE * region.size[i]) + 1):
            if len(group) > 1 and np.ptp(group / region.size, axis=0).max() > _ALIKE:  # on several lines
                found.append(Surface(i, float(np.median(group[:, i]))))
    return found if len(found) <= _MOST_SURFACES else []
