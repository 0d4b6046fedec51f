"""The search for periodic orbits in one set of coordinates: flights, near returns, corrections, checks."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from fim_dynsys.analyze.cycles.across import floquet_across, jumps_along
from fim_dynsys.analyze.cycles.charts import Chart
from fim_dynsys.analyze.cycles.returns import (
    SMALLEST,
    Flight,
    FlightEnd,
    Return,
    fly,
    hermite,
    near_return,
)
from fim_dynsys.analyze.cycles.shooting import (
    Floquet,
    Orbit,
    Shot,
    correct_orbit,
    floquet,
    refined,
    shooting_matrix,
    trace_orbit,
)
from fim_dynsys.analyze.cycles.stiff import closed_guess, stiff_multipliers, stiff_orbit, stiff_states
from fim_dynsys.analyze.jumps import Discontinuity
from fim_dynsys.analyze.tangent import STAGES, CountedField
from fim_dynsys.deadline import out_of_time
from fim_dynsys.fields.base import VectorField
from fim_dynsys.simulation.solution import integrate

if TYPE_CHECKING:
    from tqdm import tqdm

_NODES = 16  # of a guess; where a segment contracts too much `refined` doubles them
SAMPLES = 512
"""Intervals of a listed orbit: a multiple of the nodes; cubics between samples are good to 1e-9."""
_FIRST_WINDOW = 25.0  # time scales; doubled from round to round
ROUNDS = 12
"""Windows up to 4,000 times the first: the budget or the length of the path ends it before."""
_LONGEST_PATH = 150.0  # a trajectory so many times as long as its extent, some 60 loops, has had its chance
# Steps of one trajectory in one window. A loop of a relaxation oscillation takes some 500 of them; a path
# that slides along a jump or grazes a pole would take all there are, one row at a time.
_MOST_STEPS = 6_000
_STEPS_AT_FIRST = 2_000  # in the first window, twice that in the second
# Steps of one period at 1e-6 from which implicit ones are cheaper: a smooth loop takes a hundred.
_STIFF_STEPS = 500
_FEWEST_STEPS = 100  # of a window that is begun, when the budget runs out
_AT_REST = 1e-6  # distance from an attracting equilibrium, in lengths
_BETTER = 0.1  # after a failure, a trajectory must return so much closer before it is tried again
_FAILURES, _CLOSEST_THEN = 10, 1e-3  # after so many failures in all, any trajectory must
_FAILURES_AT_JUMPS = 1  # the same of a field with jumps, of which Newton's method sees nothing
_TRIVIAL_ACROSS = 1e-2  # |mu - 1| along the flow beyond which neighbours of an orbit across jumps say nothing
_SAME = 1e-3  # distance from a cycle, relative to its size, from which a path goes nowhere else
# Distance of equal orbits, relative to their size: they are closed to 1e-8 and known a little worse, by the
# slope of the return map less one, which is small where two cycles are close.
_EQUAL, _EQUAL_AT_MOST = 1e-6, 1e-3
SAME_PERIOD = 1e-5
"""Relative difference of equal periods: orbits are closed to 1e-8, their periods known a little worse."""
_NEUTRAL = 1e-5  # |log |mu|| below this is the unit circle
_SENSITIVITY = 1e3  # change of |log |mu|| per change of the orbit, a generous bound
_NULL = 1e-7  # singular value, relative to the largest, that marks a closed neighbour
_SIDESTEPS = (0.02, 0.002)  # distance of the neighbour that is tried, relative to the orbit's size
MEMBERS = 5
"""Orbits of families that are listed."""
_FINELY = 129  # points between a sample and its neighbours
_CLOSING = 1e-3  # relative gap of a return that the members of a family show after some loops
_STIFF_SEEDS = 8  # each takes up to a second
_IN_VAIN = 2  # such states in a row that lead to nothing new
_STIFF_SHARE = 0.5  # of trajectories held down by stability at which explicit steps are given up
# Errors of the multiplier 1 and, relative to the logarithms of all, of Liouville's formula that an orbit may
# have: below 1e-6 mostly, 3e-3 where a planar orbit contracts by exp(-6000), of order 1 where closure is an
# accident of tolerances.
_TRIVIAL, _LIOUVILLE = 2e-2, 1e-3
_GRAZING = 1e-3  # size of a state that keeps its sign, by its length, from which its logarithm is looked at


class CycleKind(StrEnum):
    """What a periodic orbit is, by its Floquet multipliers besides the one that is always 1."""

    STABLE = "stable"
    UNSTABLE = "unstable"
    """All of them outside the unit circle."""
    SADDLE = "saddle"
    """Some inside, some outside."""
    CENTRE = "centre"
    """One of a family of closed orbits, as round a centre; not a limit cycle."""
    DEGENERATE = "degenerate"
    """A multiplier on the unit circle without a family: nonlinear terms decide."""


class SeedEnd(StrEnum):
    """What became of the path from a starting point, forwards or backwards in time."""

    CYCLE = "on cycles"
    """It led to a periodic orbit, a new one or one known already."""
    REST = "at rest"
    LEFT = "left the region"
    """By more than the region's own size."""
    SINGULAR = "at poles or jumps"
    """Steps shrank to nothing, or the field is not finite."""
    SLIDING = "sliding along jumps"
    """It came to a jump of the field that holds it from both sides."""
    OUT_OF_STEPS = "out of steps"
    """It took more steps than one path may."""
    WANDERED = "elsewhere"
    """It neither closed nor came to rest, as on chaotic sets, tori and heteroclinic loops."""
    CUT_SHORT = "cut short"
    """The budget or the time was up."""


_ENDS = {
    FlightEnd.REST: SeedEnd.REST,
    FlightEnd.LEFT: SeedEnd.LEFT,
    FlightEnd.SINGULAR: SeedEnd.SINGULAR,
    FlightEnd.SLIDING: SeedEnd.SLIDING,
    FlightEnd.OUT_OF_STEPS: SeedEnd.OUT_OF_STEPS,
    FlightEnd.OUT_OF_TIME: SeedEnd.CUT_SHORT,
}


@dataclass(frozen=True, eq=False)
class Cycle:
    """A corrected orbit and what is known of it, in the coordinates of its chart."""

    chart: Chart
    orbit: Orbit
    floquet: Floquet
    samples: np.ndarray
    size: float
    kind: CycleKind
    jumps: Sequence[Discontinuity] = ()
    slides: bool = False

    def distance(self, z: np.ndarray) -> np.ndarray:
        """Distance of points ``(..., d)`` from the orbit's samples across the flow, in lengths; ``(...)``."""
        samples = (self.samples - self.orbit.x) / self.chart.length
        z = (z - self.orbit.x) / self.chart.length
        squares = np.sum(samples**2, axis=1) - 2.0 * z @ samples.T  # less z**2
        i = np.argmin(squares, axis=-1)
        along = samples[np.minimum(i + 1, SAMPLES)] - samples[np.maximum(i - 1, 0)]
        along = along / np.linalg.norm(along, axis=-1, keepdims=True)
        away = samples[i] - z
        return np.linalg.norm(away - np.sum(away * along, axis=-1, keepdims=True) * along, axis=-1)

    def distance_finely(self, z: np.ndarray) -> float:
        """The same from cubics between the samples nearest the point, good to 1e-8 of the orbit's size."""
        nearest = int(np.argmin(np.sum(((self.samples - z) / self.chart.length) ** 2, axis=1)))
        phase = (nearest + np.linspace(-1.0, 1.0, _FINELY)) / SAMPLES % 1.0
        near = _resampled(self.chart.field, self.samples, self.orbit.period, phase)
        away = (near - z) / self.chart.length
        i = int(np.clip(np.argmin(np.sum(away**2, axis=1)), 1, _FINELY - 2))
        along = away[i + 1] - away[i - 1]
        along = along / np.linalg.norm(along)
        return float(np.linalg.norm(away[i] - (away[i] @ along) * along))

    @property
    def width(self) -> float:
        """Distance within which another corrected orbit is this one, in lengths."""
        slope = float(np.abs(np.expm1(self.floquet.log_moduli[1:])).min(initial=1.0))
        return self.size * min(_EQUAL_AT_MOST, _EQUAL / min(1.0, max(slope, 1e-300)))


class Search:
    """What has been found so far in one chart, and what it took.

    Parameters
    ----------
    chart : Chart
        Coordinates and region.
    counted : CountedField
        The field whose evaluations count.
    budget : int
        Number of them after which nothing new is begun.
    closest : float
        Relative gap of a return that is worth a correction.
    n_saddles : int
        Orbits of saddle type after which no more are sought.
    """

    def __init__(
        self, chart: Chart, counted: CountedField, budget: int, closest: float, n_saddles: int
    ) -> None:
        self.chart, self.counted, self.budget = chart, counted, budget
        self.field, self.length = chart.field, chart.length
        self.closest, self.n_saddles = closest, n_saddles
        self.found: list[Cycle] = []
        self.met: list[Cycle] = []  # and those not listed: outside the region, or refused across jumps
        self.ends: Counter[SeedEnd] = Counter()
        self.iterations = self.failures = self.refused = 0
        self.exhausted = self.grazed = False
        self.stiff: list[np.ndarray] = []
        self.nodes: dict[int, np.ndarray] = {}

    def affords(self) -> bool:
        """Whether budget and time allow more."""
        self.exhausted |= self.counted.points >= self.budget or out_of_time()
        return not self.exhausted

    def affordable_steps(self, n_paths: int, fewest: int, most: int) -> int:
        """Steps of each of so many paths for which the budget is left, within limits."""
        return int(np.clip((self.budget - self.counted.points) // (STAGES * n_paths), fewest, most))

    def run(self, x: np.ndarray, direction: int, bar: "tqdm") -> None:
        """Follow coordinates through windows of growing length and correct every new return."""
        needed = np.full(len(x), self.closest)
        window = _FIRST_WINDOW * self.field.scales.time
        for round_ in range(ROUNDS):
            if not len(x):
                return
            if not self.affords():
                self.ends[SeedEnd.CUT_SHORT] += len(x)
                return
            n_before = len(x)
            most = min(_MOST_STEPS, _STEPS_AT_FIRST * 2**round_)
            steps = self.affordable_steps(len(x), _FEWEST_STEPS, most)
            flight = fly(self.chart, x, direction, window, steps)
            self.ends.update(_ENDS[end] for end in flight.ends if end in _ENDS)
            if direction > 0 and len(flight.stopped):
                held = stiff_states(self.field, flight.stopped, flight.stride)
                self.stiff += list(flight.stopped[held])
                if held.mean() > _STIFF_SHARE:
                    self.ends[SeedEnd.WANDERED] += len(flight.rows)
                    return
            low = np.abs(flight.x[:, :, self.chart.keeps]) < _GRAZING * self.length[self.chart.keeps]
            self.grazed |= bool(low.any())
            needed = needed[flight.rows]
            going = ~self._at_rest(flight.x[:, -1], direction)
            self.ends[SeedEnd.REST] += int((~going).sum())
            distances = np.empty((0, len(going)))
            for i in np.flatnonzero(going).tolist():
                newer = [cycle.distance(flight.x[:, -1]) for cycle in self.met[len(distances) :]]
                distances = np.concatenate([distances, np.reshape(newer, (-1, len(going)))])
                going[i], needed[i] = self._follow(flight, i, direction, needed[i], distances[:, i])
                bar.update()
            # trajectories that have ended make no more flights
            x, needed = flight.x[going, -1], needed[going]
            bar.update((ROUNDS - round_ - 1) * (n_before - len(x)) + n_before - len(flight.rows))
            window *= 2
        self.ends[SeedEnd.WANDERED] += len(x)

    def run_sliding(self) -> None:
        """List the cycles of the plane that slide along jumps; what slides to one place goes on as one."""
        for slid in self.chart.sliding.cycles(self.chart.box, SAMPLES):
            samples, d = self.chart.coordinates(slid.samples), self.field.dim
            if not self.chart.region.contains(slid.samples).any():
                continue
            nodes = samples[: -1 : SAMPLES // _NODES]
            shot = Shot(np.zeros_like(nodes), np.zeros((len(nodes), d, d)), self.field(nodes), np.nan, False)
            gap = float(np.abs(slid.gap / self.counted.scales.length).max())
            orbit = Orbit(nodes[0], slid.period, nodes, gap, True, 0.0, 0, shot, self.length)
            known = Floquet(np.array([1.0, 0.0], dtype=complex), np.array([0.0, -np.inf]), 0.0, np.nan)
            size = _size(samples, self.length)
            cycle = Cycle(self.chart, orbit, known, samples, size, CycleKind.STABLE, slides=True)
            self._list(cycle)

    def run_implicit(self) -> None:
        """Follow states at which explicit steps are held down with an implicit integrator."""
        in_vain = 0
        for start in self.stiff[:_STIFF_SEEDS]:
            if not self.affords() or in_vain >= _IN_VAIN:
                return
            in_vain += 1
            outcome = stiff_orbit(self.field, start, self.chart.inside, self.field.scales, SAMPLES)
            if outcome is None:
                continue
            in_vain = 0 if self._keep_stiff(*outcome) else in_vain

    def _keep_stiff(self, orbit: Orbit, samples: np.ndarray) -> bool:
        """List a stable orbit by collocation if it is new and passes its checks; whether it was listed."""
        size = _size(samples, self.length)
        slowest = samples[np.linalg.norm(self.field(samples) / self.length, axis=1).argmin()]
        new = all(
            cycle.distance(slowest) > _SAME * size
            or abs(cycle.orbit.period - orbit.period) > SAME_PERIOD * orbit.period
            for cycle in self.found
        )
        known = stiff_multipliers(orbit)
        new = new and size > SMALLEST and bool((known.log_moduli[1:] < -_NEUTRAL).all())
        if new and passes(known):
            jumps = jumps_along(self.counted, self.chart.states(samples))
            self._list(Cycle(self.chart, orbit, known, samples, size, CycleKind.STABLE, jumps))
            return True
        self.refused += new
        return False

    def try_guess(self, z: np.ndarray, period: float, size: float, direction: int) -> bool:
        """Correct a guess of a closed orbit; whether it led to one, known or new."""
        t = direction * np.linspace(0.0, period, _NODES + 1)
        path = integrate([self.field], z[None], t, rtol=1e-6, escape=self.chart.escape, max_steps=_MOST_STEPS)
        if direction > 0 and path.n_steps[0] > _STIFF_STEPS:
            outcome = stiff_orbit(self.field, z, self.chart.inside, self.field.scales, SAMPLES)
            if outcome is not None:
                self._keep_stiff(*outcome)
                return True
        nodes = path.x[0, :-1] if direction > 0 else path.x[0, :0:-1]
        orbit = self._correct(nodes, period, size) if np.isfinite(nodes).all() else None
        if orbit is not None:
            self._keep(orbit)
        return orbit is not None

    def _at_rest(self, z: np.ndarray, direction: int) -> np.ndarray:
        """Which paths ``(n, d)`` have come so close to a known node or focus that they end there."""
        rest = np.zeros(len(z), dtype=bool)
        size = self.counted.scales.length
        for x in self.nodes.get(direction, ()):
            rest |= np.linalg.norm((self.chart.states(z) - x) / size, axis=1) < _AT_REST
        return rest

    def _follow(
        self, flight: Flight, i: int, direction: int, needed: float, distances: np.ndarray
    ) -> tuple[bool, float]:
        """Whether trajectory i is worth following further, and how closely it must return next time."""
        if any(distance < _SAME * cycle.size for distance, cycle in zip(distances, self.met, strict=True)):
            self.ends[SeedEnd.CYCLE] += 1
            return False, needed
        going = flight.path_length(i, self.length) < _LONGEST_PATH
        if self.failures >= (_FAILURES_AT_JUMPS if self.chart.sliding else _FAILURES):
            needed = min(needed, _CLOSEST_THEN)
        back = near_return(flight.x[i], flight.velocity[i], flight.step, self.length, needed)
        if back is not None and self._listed_of_families() >= MEMBERS and back.gap < _CLOSING:
            self.ends[SeedEnd.CYCLE] += 1
            return False, needed
        promising = back is not None and back.size >= SMALLEST and self.affords()
        promising = promising and self._listed(CycleKind.SADDLE) < max(1, self.n_saddles)
        if back is None or not promising or self._approaches(back, distances):
            self.ends[SeedEnd.WANDERED] += not going
            return going, needed
        if self.try_guess(back.x, back.period, back.size, direction):
            self.ends[SeedEnd.CYCLE] += 1
            return False, needed
        self.failures += 1
        self.ends[SeedEnd.WANDERED] += not going
        return going, _BETTER * back.gap

    def _listed(self, kind: CycleKind) -> int:
        return sum(cycle.kind is kind for cycle in self.found)

    def _listed_of_families(self) -> int:
        return self._listed(CycleKind.CENTRE)

    def _approaches(self, back: Return, distances: np.ndarray) -> bool:
        """Whether a return may well be one to a known orbit: it is about as close as it is to itself."""
        return any(
            distance < 3 * back.gap * back.size and abs(back.period - cycle.orbit.period) < 0.1 * back.period
            for distance, cycle in zip(distances, self.met, strict=True)
        )

    def _correct(self, nodes: np.ndarray, period: float, size: float) -> Orbit | None:
        orbit = self._counted(correct_orbit(self.field, nodes, period, self.length, 12))
        # A guess near a focus may shrink to the equilibrium, which closes too.
        if not orbit.converged or _size(orbit.nodes, self.length) < max(SMALLEST, 0.2 * size):
            return None
        return orbit

    def _counted(self, orbit: Orbit) -> Orbit:
        self.iterations += orbit.iterations
        return orbit

    def _keep(self, orbit: Orbit) -> None:
        """List an orbit that is new, lies in the region at least partly, and passes its checks."""
        orbit, samples = self._once_round(orbit)
        if not self.chart.region.contains(self.chart.states(samples)).any():
            self._pass_over(orbit, samples)
            return
        for cycle in self.found:
            same_period = abs(cycle.orbit.period - orbit.period) < SAME_PERIOD * orbit.period
            if same_period and cycle.distance_finely(orbit.x) < cycle.width:
                return
        before = orbit.iterations
        orbit = refined(self.field, orbit)
        self.iterations += orbit.iterations - before
        known = floquet(self.field, orbit)
        jumps = jumps_along(self.counted, self.chart.states(samples))  # in logarithms all rates are steep
        if jumps:
            known = floquet_across(self.field, samples, orbit.period)
            if not known.trivial_error < _TRIVIAL_ACROSS:
                self._pass_over(orbit, samples)
                self.refused += 1
                return
        elif not passes(known):
            guess = closed_guess(self.field, orbit.period, samples, self.field.scales, SAMPLES)
            if guess is None or not passes(stiff_multipliers(guess[0])):
                self.refused += 1
                return
            (orbit, samples), known = guess, stiff_multipliers(guess[0])
        size = _size(samples, self.length)
        kind = self._kind(orbit, known, size)
        if kind is not CycleKind.CENTRE or self._listed_of_families() < MEMBERS:
            self._list(Cycle(self.chart, orbit, known, samples, size, kind, jumps))

    def _list(self, cycle: Cycle) -> None:
        self.found.append(cycle)
        self.met.append(cycle)

    def _pass_over(self, orbit: Orbit, samples: np.ndarray) -> None:
        """Remember an orbit that is not listed, so that no other path towards it is corrected."""
        unknown = Floquet(
            np.full(self.field.dim, np.nan + 0j), np.full(self.field.dim, np.nan), np.nan, np.nan
        )
        size = _size(samples, self.length)
        self.met.append(Cycle(self.chart, orbit, unknown, samples, size, CycleKind.DEGENERATE))

    def _once_round(self, orbit: Orbit) -> tuple[Orbit, np.ndarray]:
        """The same orbit with its least period, where Newton's method went round several times; samples."""
        samples = trace_orbit(self.field, orbit, SAMPLES)
        for k in range(8, 1, -1):
            nodes = _resampled(self.field, samples, orbit.period, np.arange(_NODES + 1) / (_NODES * k))
            if _size(nodes[[0, -1]], self.length) > _SAME * _size(samples, self.length):
                continue
            shorter = self._counted(correct_orbit(self.field, nodes[:-1], orbit.period / k, self.length))
            if shorter.converged and abs(k * shorter.period - orbit.period) < SAME_PERIOD * orbit.period:
                return shorter, trace_orbit(self.field, shorter, SAMPLES)
        return orbit, samples

    def _kind(self, orbit: Orbit, known: Floquet, size: float) -> CycleKind:
        logs = known.log_moduli[1:]
        # Newton's next step tells how well the orbit is known: poorly where it is degenerate.
        if (np.abs(logs) < max(_NEUTRAL, _SENSITIVITY * orbit.step)).any():
            family = any(self._has_neighbours(orbit, step * size) for step in _SIDESTEPS)
            return CycleKind.CENTRE if family else CycleKind.DEGENERATE
        if (logs < 0).all():
            return CycleKind.STABLE
        return CycleKind.UNSTABLE if (logs > 0).all() else CycleKind.SADDLE

    def _has_neighbours(self, orbit: Orbit, away: float) -> bool:
        """Whether closed orbits lie on both sides along the null vector of the shooting equations."""
        normal = self.field(orbit.nodes[0]) / self.length
        matrix = shooting_matrix(orbit.shot, normal / np.linalg.norm(normal), self.length)
        matrix[:, -1] *= orbit.period
        _, singular, directions = np.linalg.svd(matrix)
        if singular[-1] > _NULL * singular[0]:
            return False
        m, d = orbit.nodes.shape
        sideways = directions[-1] / np.abs(directions[-1, :-1]).max() * away
        moves = sideways[:-1].reshape(m, d)
        for sign in (1.0, -1.0):
            nodes = orbit.nodes + sign * moves * self.length
            period = orbit.period * (1 + sign * m * sideways[-1])
            if not period > 0:
                return False
            other = self._counted(correct_orbit(self.field, nodes, period, self.length))
            moved = sign * np.sum((other.nodes - orbit.nodes) / self.length * moves) / np.sum(moves**2)
            if not (other.converged and moved > 0.5):
                return False
        return True


def passes(known: Floquet) -> bool:
    """Whether multipliers are consistent: one is 1, and all agree with the divergence."""
    logs = np.abs(known.log_moduli).sum()
    return known.trivial_error <= _TRIVIAL and known.liouville_error <= _LIOUVILLE * (1.0 + logs)


def _size(x: np.ndarray, length: np.ndarray) -> float:
    """Largest extent of points along any coordinate, in lengths."""
    return float((np.ptp(x, axis=0) / length).max())


def _resampled(field: VectorField, samples: np.ndarray, period: float, phase: np.ndarray) -> np.ndarray:
    """States at phases in [0, 1] of an orbit, by cubics between its samples."""
    step = period / SAMPLES
    place = np.minimum((phase * SAMPLES).astype(int), SAMPLES - 1)
    ends = samples[place], samples[place + 1]
    slopes = (step * field(x) for x in ends)
    return hermite((phase * SAMPLES - place)[:, None], *ends, *slopes)
