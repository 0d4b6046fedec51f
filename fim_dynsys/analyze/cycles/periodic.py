"""Limit cycles: shooting from near returns of simulated trajectories, with Floquet multipliers and checks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from fim_dynsys.analyze.cycles.returns import Flight, Return, fly, hermite, near_return
from fim_dynsys.analyze.cycles.shooting import (
    Floquet,
    Orbit,
    correct_orbit,
    floquet,
    refined,
    shooting_matrix,
    trace_orbit,
)
from fim_dynsys.analyze.cycles.stiff import stiff_multipliers, stiff_orbit, stiff_states
from fim_dynsys.analyze.levels import LevelLike, LevelSet, level_set
from fim_dynsys.analyze.results import (
    SUPPORTED,
    Effort,
    FieldLike,
    RegionLike,
    Result,
    Table,
    Variables,
    counted,
    labels,
    progress_bar,
    resolve_region,
    state_labels,
    unwrap,
)
from fim_dynsys.analyze.tangent import CountedField
from fim_dynsys.deadline import out_of_time, time_limit
from fim_dynsys.errors import check_whole
from fim_dynsys.fields.base import VectorField
from fim_dynsys.regions import Region
from fim_dynsys.simulation.solution import integrate

if TYPE_CHECKING:
    from tqdm import tqdm

_NODES = 16  # of a guess; where a segment contracts too much `refined` doubles them
_SAMPLES = 512  # a multiple of the nodes: orbits look smooth, cubics between samples are good to 1e-9
_FIRST_WINDOW = 25.0  # time scales; doubled from round to round
_ROUNDS = 12  # windows up to 4,000 times the first: the budget or the length of the path ends it before
_LONGEST_PATH = 150.0  # a trajectory so many times as long as its extent, some 60 loops, has had its chance
_MARGIN = 1.0  # a trajectory may leave the region by this share of its size on each side, and come back
# A return nearer than this share of the loop's size is worth a correction. In the plane nothing else can come
# near; in space a chaotic trajectory does so all the time.
_CLOSEST = {2: 0.1}
_CLOSEST_IN_SPACE = 0.03
_BETTER = 0.1  # after a failure, a trajectory must return so much closer before it is tried again
_FAILURES, _CLOSEST_THEN = 10, 1e-3  # after so many failures in all, any trajectory must
_SMALLEST = 1e-4  # in length scales: smaller loops are those of a focus that has not come to rest
_SAME = 1e-3  # distance of equal orbits, relative to their size
_SAME_PERIOD = 1e-5  # orbits are closed to 1e-8, their periods known a little worse
_NEUTRAL = 1e-5  # |log |mu|| below this is the unit circle
_SENSITIVITY = 1e3  # change of |log |mu|| per change of the orbit, a generous bound
_NULL = 1e-7  # singular value, relative to the largest, that marks a closed neighbour
_SIDESTEP = 0.02  # distance of the neighbour that is tried, relative to the orbit's size
_MEMBERS = 5  # orbits of families that are listed
_STIFF_SEEDS = 8  # each takes up to a second
_IN_VAIN = 2  # such states in a row that lead to nothing new
_STIFF_SHARE = 0.5  # of trajectories held down by stability at which explicit steps are given up


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


class CycleStatus(StrEnum):
    """Where a periodic orbit lies."""

    SUPPORTED = "supported"
    """Inside the region, and backed by data all the way."""
    UNSUPPORTED = "unsupported"
    """Inside the region, but partly where no data back the field."""
    LEAVES_REGION = "leaves region"
    """Partly outside the region."""


@dataclass(frozen=True, eq=False, repr=False)
class LimitCycles(Result):
    """Periodic orbits, stable ones first, then by period.

    Attributes
    ----------
    x : ndarray (n, d)
        A point of each orbit.
    period : ndarray (n,)
        Periods.
    multipliers : ndarray (n, d) of complex
        Floquet multipliers: the trivial one, then by falling modulus; 0 where one underflows. On a level set
        of k conserved sums the d - k ones along it.
    log_moduli : ndarray (n, d)
        Logarithms of their moduli, finite where a multiplier underflows.
    stable : ndarray (n,) of bool
        Whether neighbours are attracted.
    kind : ndarray (n,) of CycleKind
        Kinds.
    orbits : list of ndarray (513, d)
        States at equal intervals of time once round, the last close to the first.
    residual : ndarray (n,)
        Closure error: largest mismatch between the segments of the orbit, relative to the length scale.
    trivial_error : ndarray (n,)
        |mu - 1| of the multiplier along the flow.
    liouville_error : ndarray (n,)
        Difference between the sum of `log_moduli` and the integral of the divergence over a period.
    support : ndarray (n,)
        Smallest support along each orbit.
    status : ndarray (n,) of CycleStatus
        Where each lies.
    region : Region
        Where was searched.
    """

    drawn_by = "fim_dynsys.plot.objects:limit_cycles"

    x: np.ndarray
    period: np.ndarray
    multipliers: np.ndarray
    log_moduli: np.ndarray
    stable: np.ndarray
    kind: np.ndarray
    orbits: list
    residual: np.ndarray
    trivial_error: np.ndarray
    liouville_error: np.ndarray
    support: np.ndarray
    status: np.ndarray
    region: Region

    def __len__(self) -> int:
        return len(self.period)

    def _headline(self) -> str:
        return f"{counted(len(self), 'periodic orbit')} in {self.region}"

    def _rows(self) -> Table:
        columns = ["period", "kind", "multipliers", "through", "closure", "|mu1 - 1|", "Liouville", "support"]
        values = zip(
            self.period,
            self.kind,
            self.multipliers[:, 1:],
            self.x,
            self.residual,
            self.trivial_error,
            self.liouville_error,
            self.support,
            self.status,
            strict=True,
        )
        return [*columns, "status"], [list(row) for row in values]

    def _notes(self) -> list[str]:
        notes = super()._notes()
        if (self.kind == CycleKind.CENTRE).any():
            notes.append(
                f"Centres stand for families of closed orbits, of which at most {_MEMBERS} are listed."
            )
        return notes

    def _variables(self) -> Variables:
        n, d = self.x.shape
        orbits = np.array(self.orbits).reshape(n, _SAMPLES + 1, d)
        variables = {
            name: (("cycle",), getattr(self, name))
            for name in ("period", "stable", "residual", "trivial_error", "liouville_error", "support")
        }
        texts = {name: (("cycle",), getattr(self, name).astype(object)) for name in ("kind", "status")}
        return {
            "x": (("cycle", "state"), self.x),
            "multipliers": (("cycle", "mode"), self.multipliers),
            "log_moduli": (("cycle", "mode"), self.log_moduli),
            "orbits": (("cycle", "phase", "state"), orbits),
            **variables,
            **texts,
        }


def limit_cycles(
    field: FieldLike,
    region: RegionLike | None = None,
    n_seeds: int = 64,
    budget: int = 5_000_000,
    seed: int = 0,
    progress: bool | None = None,
    n_saddles: int = 8,
    level: LevelLike | None = None,
    max_seconds: float | None = None,
) -> LimitCycles:
    """Search a region for periodic orbits.

    Trajectories are simulated from Sobol points over windows of growing length, backwards in time as well,
    which turns what repels into what attracts. Each one that comes back near its own end gives a guess, which
    Newton's method on multiple shooting corrects. Stable orbits are found where a trajectory ends on them,
    and those that repel from all sides likewise; in space, orbits of saddle type only where a
    trajectory happens to pass close by, so that of the infinitely many in a chaotic attractor some are
    listed at best. An orbit is kept if any of it lies in the region.

    Parameters
    ----------
    field : VectorField or fitted model
        The field under analysis.
    region : Region, dict or pairs, optional
        Where to search; default the data's box widened by 10 % on each side.
    n_seeds : int
        Number of starting points.
    budget : int
        Number of field evaluations after which no further round is begun.
    seed : int
        Seed of the Sobol sequence.
    progress : bool, optional
        Whether to show how far the work is; by default on a terminal only.
    n_saddles : int
        Orbits of saddle type after which no more are sought. A chaotic attractor holds infinitely many; those
        near which trajectories return to themselves are found.
    level : dict or array_like (d,), optional
        Where the field conserves linear sums of its states, the level set on which orbits are sought, as for
        `fixed_points`.
    max_seconds : float, optional
        Time on the clock after which the search ends with what it has; default no limit.

    Returns
    -------
    LimitCycles
        Empty for a field on the line, which has none.

    Raises
    ------
    ValueError
        If there is no region to search, or it has another dimension.
    TypeError
        If `field` has no vector field in the space of the observations.

    References
    ----------
    R. Seydel: Practical Bifurcation and Stability Analysis, 3rd ed., Springer 2010, chapter 7.
    """
    field = unwrap(field, "limit_cycles")
    box = resolve_region(field, region, "limit_cycles")
    check_whole("limit_cycles", 1, n_seeds=n_seeds, budget=budget)
    check_whole("limit_cycles", 0, seed=seed, n_saddles=n_saddles)
    _, on_level = level_set(field, box, level, "limit_cycles")
    along, inside = (field, box) if on_level is None else (on_level.field(field, box), on_level.region(box))
    with time_limit("limit_cycles", max_seconds):
        found = search_cycles(along, inside, n_seeds, budget, seed, progress=progress, n_saddles=n_saddles)
    return found if on_level is None else _embedded(found, on_level, field, box)


def _embedded(found: LimitCycles, level: LevelSet, field: VectorField, region: Region) -> LimitCycles:
    """Orbits found in the coordinates of a level set as those of all states; those that meet the region."""
    orbits = [level.states(orbit) for orbit in found.orbits]
    met = np.array([bool(region.contains(orbit).any()) for orbit in orbits], dtype=bool)
    status = found.status.copy()
    for i, orbit in enumerate(orbits):
        if not region.contains(orbit).all():
            status[i] = CycleStatus.LEAVES_REGION
    names, units = state_labels(field)
    rows = {
        name: value[met]
        for name, value in vars(found).items()
        if isinstance(value, np.ndarray) and name not in ("x", "status")
    }
    return replace(
        found,
        x=level.states(found.x)[met],
        status=status[met],
        orbits=[orbit for orbit, kept in zip(orbits, met, strict=True) if kept],
        region=region,
        state_names=names,
        units=units,
        conserved=level.text,
        **rows,
    )


def search_cycles(
    field: VectorField,
    region: Region,
    n_seeds: int,
    budget: int,
    seed: int = 0,
    closest_in_space: float = _CLOSEST_IN_SPACE,
    progress: bool | None = False,
    n_saddles: int = 8,
    backwards: bool = True,
) -> LimitCycles:
    """As `limit_cycles`, with more options.

    Parameters
    ----------
    field : VectorField
        The field.
    region : Region
        Where to search.
    n_seeds, budget, seed : int
        As for `limit_cycles`.
    closest_in_space : float
        Relative gap of a return, from three dimensions on, that is worth a correction. A small one leaves
        out nearly all orbits of saddle type, and the time they take.
    progress : bool or None
        As for `limit_cycles`.
    n_saddles : int
        As for `limit_cycles`.
    backwards : bool
        Whether to look for repelling orbits in space; in the plane they are looked for always.

    Returns
    -------
    LimitCycles
    """
    closest = _CLOSEST.get(field.dim, closest_in_space)
    search = _Search(CountedField(field, region), region, budget, closest, n_saddles)
    if field.dim > 1:
        seeds = region.sobol(n_seeds, seed)
        directions = (1, -1) if backwards or field.dim == 2 else (1,)
        with progress_bar(progress, len(directions) * _ROUNDS * n_seeds, "cycles", "flights") as bar:
            for number, direction in enumerate(directions, 1):
                search.run(seeds, direction, bar)
                bar.update(number * _ROUNDS * n_seeds - bar.n)
        search.run_implicit(search.stiff[:_STIFF_SEEDS])
    effort = Effort(
        n_seeds if field.dim > 1 else 0, search.iterations, search.field.points, budget, search.exhausted
    )
    return _result(field, region, search.found, effort)


@dataclass(frozen=True, eq=False)
class _Cycle:
    """A corrected orbit and what is known of it."""

    orbit: Orbit
    floquet: Floquet
    samples: np.ndarray
    size: float
    kind: CycleKind


class _Search:
    """What has been found so far, and what it took."""

    def __init__(
        self, field: CountedField, region: Region, budget: int, closest: float, n_saddles: int
    ) -> None:
        self.n_saddles = n_saddles
        self.field, self.region, self.budget = field, region, budget
        self.length = field.scales.length
        self.box = region.widened(_MARGIN)
        self.closest = closest
        self.found: list[_Cycle] = []
        self.iterations = 0
        self.failures = 0
        self.exhausted = False
        self.stiff: list[np.ndarray] = []

    def run(self, x: np.ndarray, direction: int, bar: "tqdm") -> None:
        """Follow states through windows of growing length and correct every new return."""
        needed = np.full(len(x), self.closest)
        window = _FIRST_WINDOW * self.field.scales.time
        for round_ in range(_ROUNDS):
            if not len(x) or not self._affords():
                return
            n_before = len(x)
            steps = max(100, (self.budget - self.field.points) // (12 * len(x)))
            flight = fly(self.field, x, direction, window, self.box, steps)
            if direction > 0 and len(flight.ends):
                held = stiff_states(self.field, flight.ends, flight.stride, self.field.scales)
                self.stiff += list(flight.ends[held])
                if held.mean() > _STIFF_SHARE:
                    return
            self.exhausted |= flight.out_of_steps
            needed = needed[flight.rows]
            going = np.ones(len(flight.rows), dtype=bool)
            for i in range(len(flight.rows)):
                going[i], needed[i] = self._follow(flight, i, direction, needed[i])
                bar.update()
            # trajectories that have ended make no more flights
            x, needed = flight.x[going, -1], needed[going]
            bar.update((_ROUNDS - round_ - 1) * (n_before - len(x)) + n_before - len(flight.rows))
            window *= 2

    def run_implicit(self, x: Sequence[np.ndarray]) -> None:
        """Follow states with an implicit integrator, to stable orbits of a stiff field."""
        in_vain = 0
        for start in x:
            if not self._affords() or in_vain >= _IN_VAIN:
                return
            in_vain += 1
            outcome = stiff_orbit(self.field, start, self.box, self.field.scales, _SAMPLES)
            if outcome is None:
                continue
            orbit, samples = outcome
            size = _size(samples, self.length)
            slowest = samples[np.linalg.norm(self.field(samples) / self.length, axis=1).argmin()]
            new = all(
                _distance(cycle, slowest, self.length) > _SAME * size
                or abs(cycle.orbit.period - orbit.period) > _SAME_PERIOD * orbit.period
                for cycle in self.found
            )
            known = stiff_multipliers(orbit)
            if new and size > _SMALLEST and (known.log_moduli[1:] < -_NEUTRAL).all():
                self.found.append(_Cycle(orbit, known, samples, size, CycleKind.STABLE))
                in_vain = 0

    def _affords(self) -> bool:
        self.exhausted |= self.field.points >= self.budget or out_of_time()
        return not self.exhausted

    def _follow(self, flight: Flight, i: int, direction: int, needed: float) -> tuple[bool, float]:
        """Whether trajectory i is worth following further, and how closely it must return next time."""
        end = flight.x[i, -1]
        distances = [_distance(cycle, end, self.length) for cycle in self.found]
        if any(distance < _SAME * cycle.size for distance, cycle in zip(distances, self.found, strict=True)):
            return False, needed
        going = flight.path_length(i, self.length) < _LONGEST_PATH
        if self.failures >= _FAILURES:
            needed = min(needed, _CLOSEST_THEN)
        back = near_return(flight.x[i], flight.velocity[i], flight.step, self.length, needed)
        if back is None or back.size < _SMALLEST or not self._affords():
            return going, needed
        if self._listed(CycleKind.CENTRE) >= _MEMBERS and back.gap < _SAME_PERIOD:
            return False, needed
        if self._listed(CycleKind.SADDLE) >= self.n_saddles or self._approaches(back, distances):
            return going, needed
        orbit = self._correct(back, direction)
        if orbit is not None:
            self._keep(orbit)
            return False, needed
        self.failures += 1
        return going, _BETTER * back.gap

    def _listed(self, kind: CycleKind) -> int:
        return sum(cycle.kind is kind for cycle in self.found)

    def _approaches(self, back: Return, distances: Sequence[float]) -> bool:
        """Whether a return may well be one to a known orbit: it is about as close as it is to itself."""
        return any(
            distance < 3 * back.gap * back.size and abs(back.period - cycle.orbit.period) < 0.1 * back.period
            for distance, cycle in zip(distances, self.found, strict=True)
        )

    def _correct(self, back: Return, direction: int) -> Orbit | None:
        t = direction * np.linspace(0.0, back.period, _NODES + 1)
        x = integrate([self.field], back.x[None], t, rtol=1e-6).x[0]
        nodes = x[:-1] if direction > 0 else x[:0:-1]
        if not np.isfinite(nodes).all():
            return None
        orbit = self._counted(correct_orbit(self.field, nodes, back.period, self.length, 12))
        # A guess near a focus may shrink to the equilibrium, which closes too.
        if not orbit.converged or _size(orbit.nodes, self.length) < max(_SMALLEST, 0.2 * back.size):
            return None
        return orbit

    def _counted(self, orbit: Orbit) -> Orbit:
        self.iterations += orbit.iterations
        return orbit

    def _keep(self, orbit: Orbit) -> None:
        orbit = self._once_round(orbit)
        samples = trace_orbit(self.field, orbit, _SAMPLES)
        size = _size(samples, self.length)
        if not self.region.contains(samples).any():
            return
        for cycle in self.found:
            same_period = abs(cycle.orbit.period - orbit.period) < _SAME_PERIOD * orbit.period
            if same_period and _distance(cycle, orbit.x, self.length) < _SAME * size:
                return
        before = orbit.iterations
        orbit = refined(self.field, orbit)
        self.iterations += orbit.iterations - before
        known = floquet(self.field, orbit)
        self.found.append(_Cycle(orbit, known, samples, size, self._kind(orbit, known, size)))

    def _once_round(self, orbit: Orbit) -> Orbit:
        """The same orbit with its least period, where Newton's method went round several times."""
        samples = trace_orbit(self.field, orbit, _SAMPLES)
        for k in range(8, 1, -1):
            nodes = _resampled(self.field, samples, orbit.period, np.arange(_NODES + 1) / (_NODES * k))
            if _size(nodes[[0, -1]], self.length) > _SAME * _size(samples, self.length):
                continue
            shorter = self._counted(correct_orbit(self.field, nodes[:-1], orbit.period / k, self.length))
            if shorter.converged and abs(k * shorter.period - orbit.period) < _SAME_PERIOD * orbit.period:
                return shorter
        return orbit

    def _kind(self, orbit: Orbit, known: Floquet, size: float) -> CycleKind:
        logs = known.log_moduli[1:]
        # Newton's last step tells how well the orbit is known: poorly where it is degenerate.
        if (np.abs(logs) < max(_NEUTRAL, _SENSITIVITY * orbit.step)).any():
            return CycleKind.CENTRE if self._has_neighbours(orbit, size) else CycleKind.DEGENERATE
        if (logs < 0).all():
            return CycleKind.STABLE
        return CycleKind.UNSTABLE if (logs > 0).all() else CycleKind.SADDLE

    def _has_neighbours(self, orbit: Orbit, size: float) -> bool:
        """Whether closed orbits lie on both sides along the null vector of the shooting equations."""
        normal = self.field(orbit.nodes[0]) / self.length
        matrix = shooting_matrix(orbit.shot, normal / np.linalg.norm(normal), self.length)
        matrix[:, -1] *= orbit.period
        _, singular, directions = np.linalg.svd(matrix)
        if singular[-1] > _NULL * singular[0]:
            return False
        m, d = orbit.nodes.shape
        sideways = directions[-1] / np.abs(directions[-1, :-1]).max() * _SIDESTEP * size
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


def _size(x: np.ndarray, length: np.ndarray) -> float:
    """Largest extent of points along any state, in length scales."""
    return float((np.ptp(x, axis=0) / length).max())


def _distance(cycle: _Cycle, x: np.ndarray, length: np.ndarray) -> float:
    """Distance of a point from an orbit's samples across the flow, in length scales."""
    away = (cycle.samples - x) / length
    i = int(np.argmin(np.sum(away**2, axis=1)))
    along = (cycle.samples[min(i + 1, _SAMPLES)] - cycle.samples[max(i - 1, 0)]) / length
    along = along / np.linalg.norm(along)
    return float(np.linalg.norm(away[i] - (away[i] @ along) * along))


def _resampled(field: VectorField, samples: np.ndarray, period: float, phase: np.ndarray) -> np.ndarray:
    """States at phases in [0, 1] of an orbit, by cubics between its samples."""
    step = period / _SAMPLES
    place = np.minimum((phase * _SAMPLES).astype(int), _SAMPLES - 1)
    ends = samples[place], samples[place + 1]
    slopes = (step * field(x) for x in ends)
    return hermite((phase * _SAMPLES - place)[:, None], *ends, *slopes)


def _result(field: VectorField, region: Region, found: Sequence[_Cycle], effort: Effort) -> LimitCycles:
    found = sorted(found, key=lambda cycle: (cycle.kind is not CycleKind.STABLE, cycle.orbit.period))
    d = field.dim
    support = np.array([field.support(cycle.samples).min() for cycle in found])
    status = np.empty(len(found), dtype=object)
    for i, cycle in enumerate(found):
        if not region.contains(cycle.samples).all():
            status[i] = CycleStatus.LEAVES_REGION
        else:
            supported = support[i] >= SUPPORTED
            status[i] = CycleStatus.SUPPORTED if supported else CycleStatus.UNSUPPORTED
    kind = np.array([cycle.kind for cycle in found], dtype=object)
    return LimitCycles(
        x=np.array([cycle.orbit.x for cycle in found]).reshape(-1, d),
        period=np.array([cycle.orbit.period for cycle in found]),
        multipliers=np.array([cycle.floquet.multipliers for cycle in found], dtype=complex).reshape(-1, d),
        log_moduli=np.array([cycle.floquet.log_moduli for cycle in found]).reshape(-1, d),
        stable=np.array([value is CycleKind.STABLE for value in kind], dtype=bool),
        kind=kind,
        orbits=[cycle.samples for cycle in found],
        residual=np.array([cycle.orbit.residual for cycle in found]),
        trivial_error=np.array([cycle.floquet.trivial_error for cycle in found]),
        liouville_error=np.array([cycle.floquet.liouville_error for cycle in found]),
        support=support,
        status=status,
        region=region,
        effort=effort,
        **labels(field, region),
    )
