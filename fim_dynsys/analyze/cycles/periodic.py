"""Limit cycles: shooting from near returns of simulated trajectories, with Floquet multipliers and checks."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from fim_dynsys.analyze.cycles.charts import Chart, charts
from fim_dynsys.analyze.cycles.planar import contradictions, search_beside, search_rays
from fim_dynsys.analyze.cycles.search import (
    MEMBERS,
    ROUNDS,
    SAME_PERIOD,
    SAMPLES,
    Cycle,
    CycleKind,
    Search,
    SeedEnd,
)
from fim_dynsys.analyze.jumps import described, discontinuities_within
from fim_dynsys.analyze.levels import LevelLike, LevelSet, level_set
from fim_dynsys.analyze.results import (
    SUPPORTED,
    Effort,
    FieldLike,
    RegionLike,
    Result,
    Table,
    Variables,
    progress_bar,
    resolve_region,
    state_labels,
    unwrap,
)
from fim_dynsys.analyze.tangent import CountedField
from fim_dynsys.deadline import time_limit
from fim_dynsys.errors import check_whole
from fim_dynsys.fields.base import VectorField
from fim_dynsys.regions import Region
from fim_dynsys.threads import on_one_thread
from fim_dynsys.wording import counted

_MARGIN = 1.0  # a trajectory may leave the region by this share of its size on each side, and come back
# A return nearer than this share of the loop's size is worth a correction. In the plane nothing else can come
# near.
_CLOSEST = {2: 0.1}
_CLOSEST_IN_SPACE = 0.03  # the same share: in space a chaotic trajectory comes near all the time
_SAME = 1e-3  # distance of equal orbits in different coordinates, relative to their size


class CycleStatus(StrEnum):
    """Where a periodic orbit lies."""

    SUPPORTED = "supported"
    """Inside the region, and supported all the way."""
    UNSUPPORTED = "unsupported"
    """Inside the region, but partly where the field is unsupported."""
    LEAVES_REGION = "leaves region"
    """Partly outside the region."""
    CONTRADICTED = "contradicted"
    """In the plane, nested with another between which a third must lie that was not found."""


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
    seed_ends : dict of SeedEnd and int
        What became of the paths from the starting points, forwards and backwards in time.
    refused : int
        Orbits that closed but failed the checks of their multipliers, and are not listed.
    from_data : bool
        Whether the field was inferred from data, so that periods have errors that are not given here.
    jumps : str
        Where the field jumps along an orbit, in words. Multipliers then come from neighbours of it, and
        `liouville_error` is NaN.
    sliding : ndarray (n,) of bool
        Whether an orbit slides along a jump for part of the time, as of a block that sticks to a belt. It is
        reached in finite time: its multiplier is 0.
    held_at : str
        Where paths slid along jumps, or ran out of steps at them, in words.
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
    seed_ends: Mapping[SeedEnd, int]
    refused: int = 0
    from_data: bool = False
    jumps: str = ""
    sliding: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=bool))
    held_at: str = ""

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
                f"Centres stand for families of closed orbits, of which at most {MEMBERS} are listed."
            )
        if (self.status == CycleStatus.CONTRADICTED).any():
            notes.append(
                "Between contradicted cycles lies another that was not found, or one of them is none."
            )
        if self.refused:
            closed = counted(self.refused, "closed orbit")
            notes.append(f"{closed} refused: their multipliers contradict the divergence along them.")
        if self.jumps:
            notes.append(f"{self.jumps}: multipliers by neighbouring orbits, which cross it too")
        if self.sliding.any():
            count = counted(int(self.sliding.sum()), "cycle")
            notes.append(f"{count} with sliding along {self.held_at}: multiplier 0, reached in finite time.")
        elif self.held_at:
            notes.append(
                f"Paths slide along jumps of the field, {self.held_at}: cycles that do so are found in the "
                "plane alone, where a jump is at one value of a state."
            )
        if self.from_data and len(self):
            notes.append(
                "No standard errors: analyze.cycle_bands(model) gives intervals of periods and multipliers "
                "over drawn fields."
            )
        if self.seed_ends:
            ends = ", ".join(f"{self.seed_ends[end]:,} {end}" for end in SeedEnd if self.seed_ends.get(end))
            notes.append(f"Paths, forwards and backwards: {ends}.")
            notes.append("Cycles that no path comes near may be missing; no claim of completeness.")
        return notes

    def _variables(self) -> Variables:
        n, d = self.x.shape
        orbits = np.array(self.orbits).reshape(n, SAMPLES + 1, d)
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
            "sliding": (("cycle",), self.sliding),
            "seeds_ended": (("seed_end",), np.array([self.seed_ends.get(end, 0) for end in SeedEnd])),
            "seed_end": (("seed_end",), np.array([str(end) for end in SeedEnd])),
        }


@on_one_thread
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

    In the plane, return maps on a ray from each equilibrium and beside each cycle show further ones, and
    cycles that contradict each other are marked. States whose rates vanish where they are zero, as
    populations do, are followed as logarithms: cycles near heteroclinic loops fall to 1e-15 and below.
    Orbits whose multipliers contradict the divergence along them are refused and counted.

    Parameters
    ----------
    field : VectorField or fitted model
        The field under analysis.
    region : Region, dict or pairs, optional
        Where to search; default the data's box widened by 10 % on each side.
    n_seeds : int
        Number of starting points.
    budget : int
        Number of field evaluations after which no further round is begun. No path takes more than an even
        share of it: one that runs into a pole ends alone.
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

    See Also
    --------
    fixed_points : Where the flow stands still.
    poincare : A section of one trajectory.

    Examples
    --------
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze
    >>> box = fim_dynsys.Region([-3, -3], [3, 3])
    >>> vdp = fim_dynsys.SymbolicField(["x1", "mu*(1 - x0**2)*x1 - x0"], {"mu": 1.0}, region=box)
    >>> cycles = analyze.limit_cycles(vdp)
    >>> cycles.period.round(3)
    array([6.663])
    >>> cycles.kind[0].name
    'STABLE'
    """
    field = unwrap(field, "limit_cycles")
    box = resolve_region(field, region, "limit_cycles")
    check_whole("limit_cycles", 1, n_seeds=n_seeds, budget=budget)
    check_whole("limit_cycles", 0, seed=seed, n_saddles=n_saddles)
    sums, on_level = level_set(field, box, level, "limit_cycles")
    along, inside = (field, box) if on_level is None else (on_level.field(field, box), on_level.region(box))
    with time_limit("limit_cycles", max_seconds):
        found = search_cycles(along, inside, n_seeds, budget, seed, progress=progress, n_saddles=n_saddles)
    return (
        replace(found, conserved=sums.names) if on_level is None else _embedded(found, on_level, field, box)
    )


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
        fit_problems=field.fit_info.problems,
        from_data=field.context is not None,
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
    metered = CountedField(field, region)
    found: list[Cycle] = []
    against: list[Cycle] = []
    ends: Counter[SeedEnd] = Counter()
    iterations = refused = 0
    exhausted = False
    if field.dim > 1:
        seeds = region.sobol(n_seeds, seed)
        directions = (1, -1) if backwards or field.dim == 2 else (1,)
        with progress_bar(progress, len(directions) * ROUNDS * n_seeds, "cycles", "flights") as bar:
            grazed = True
            for chart in charts(metered, region, _MARGIN):
                if not grazed:
                    break  # nothing comes near the faces where states vanish
                search = Search(chart, metered, budget, closest, n_saddles)
                own = chart.coordinates(seeds[chart.holds(seeds)])
                if field.dim == 2:
                    search.run_sliding()
                    search_rays(search)
                for direction in directions:
                    done = bar.n
                    search.run(own, direction, bar)
                    bar.update(done + ROUNDS * len(own) - bar.n)
                    if direction > 0:
                        search.run_implicit()  # before stiff paths backwards in time take all that is left
                if field.dim == 2:
                    search_beside(search)
                    against += [cycle for pair in contradictions(search) for cycle in pair]
                found = [*(cycle for cycle in found if not _again(cycle, search.found)), *search.found]
                grazed = field.dim == 2 or (grazed and (search.grazed or bool(chart.signs.any())))
                ends += search.ends
                iterations, refused = iterations + search.iterations, refused + search.refused
                exhausted |= search.exhausted
    held_at = _held_at(metered, region, search.chart, ends) if field.dim > 1 else ""
    effort = Effort(n_seeds if field.dim > 1 else 0, iterations, metered.points, budget, exhausted)
    return _result(field, region, found, against, ends, refused, effort, held_at)


def _held_at(field: CountedField, region: Region, chart: Chart, ends: Counter[SeedEnd]) -> str:
    """Where paths slid along jumps, in words; of other jumps, where they ran out of steps at these."""
    if chart.sliding:
        return chart.sliding.named(field.state_names) if ends[SeedEnd.SLIDING] else ""
    if not ends[SeedEnd.OUT_OF_STEPS] + ends[SeedEnd.SINGULAR]:
        return ""
    jumps = [jump for jump in discontinuities_within(field, region, field.scales.speed) if not jump.pole]
    return described(jumps, field.state_names, region.size) if jumps else ""


def _again(cycle: Cycle, others: Sequence[Cycle]) -> bool:
    """Whether an orbit was found once more in other coordinates, where it is known better."""
    x = cycle.chart.states(cycle.orbit.x)
    return any(
        abs(other.orbit.period - cycle.orbit.period) < SAME_PERIOD * cycle.orbit.period
        and bool(other.chart.holds(x))
        and other.distance(other.chart.coordinates(x)) < _SAME * other.size
        for other in others
    )


def _result(
    field: VectorField,
    region: Region,
    found: Sequence[Cycle],
    against: Sequence[Cycle],
    ends: Counter[SeedEnd],
    refused: int,
    effort: Effort,
    held_at: str,
) -> LimitCycles:
    found = sorted(found, key=lambda cycle: (cycle.kind is not CycleKind.STABLE, cycle.orbit.period))
    d = field.dim
    orbits = [cycle.chart.states(cycle.samples) for cycle in found]
    support = np.array([field.support(orbit).min() for orbit in orbits])
    jumps = [jump for cycle in found for jump in cycle.jumps]
    status = np.empty(len(found), dtype=object)
    for i, cycle in enumerate(found):
        if cycle in against:
            status[i] = CycleStatus.CONTRADICTED
        elif not region.contains(orbits[i]).all():
            status[i] = CycleStatus.LEAVES_REGION
        else:
            supported = support[i] >= SUPPORTED
            status[i] = CycleStatus.SUPPORTED if supported else CycleStatus.UNSUPPORTED
    kind = np.array([cycle.kind for cycle in found], dtype=object)
    names, units = state_labels(field)
    return LimitCycles(
        x=np.array([cycle.chart.states(cycle.orbit.x) for cycle in found]).reshape(-1, d),
        period=np.array([cycle.orbit.period for cycle in found]),
        multipliers=np.array([cycle.floquet.multipliers for cycle in found], dtype=complex).reshape(-1, d),
        log_moduli=np.array([cycle.floquet.log_moduli for cycle in found]).reshape(-1, d),
        stable=np.array([value is CycleKind.STABLE for value in kind], dtype=bool),
        kind=kind,
        orbits=orbits,
        residual=np.array([cycle.orbit.residual for cycle in found]),
        trivial_error=np.array([cycle.floquet.trivial_error for cycle in found]),
        liouville_error=np.array([cycle.floquet.liouville_error for cycle in found]),
        support=support,
        status=status,
        region=region,
        seed_ends=dict(ends),
        refused=refused,
        from_data=field.context is not None,
        jumps=described(jumps, field.state_names, region.size) if jumps else "",
        sliding=np.array([cycle.slides for cycle in found], dtype=bool),
        held_at=held_at,
        effort=effort,
        state_names=names,
        units=units,
        fit_problems=tuple(field.fit_info.problems),
    )


def check_stable(caller: str, cycles: LimitCycles, which: int) -> None:
    """A ValueError that names the caller where no stable cycle has this number: others have no phase."""
    if not (which < len(cycles) and cycles.stable[which]):
        raise ValueError(
            f"{caller}: expected the number of a stable cycle, got {which}; of {len(cycles)} found in "
            f"{cycles.region}, {int(cycles.stable.sum())} are stable."
        )
