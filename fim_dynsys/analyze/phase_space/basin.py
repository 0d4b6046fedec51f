"""Basins of attraction: where the trajectories from a grid and from a random sample of states end.

Some seven hundred lines: the image, the labels and the search for attractors share one state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from fim_dynsys.analyze.cycles.periodic import search_cycles
from fim_dynsys.analyze.cycles.returns import ESCAPE
from fim_dynsys.analyze.equilibria.kinds import Kind
from fim_dynsys.analyze.equilibria.points import fixed_points
from fim_dynsys.analyze.equilibria.result import FixedPoints, PointStatus
from fim_dynsys.analyze.levels import LevelLike, LevelSet, level_set
from fim_dynsys.analyze.phase_space.capture import (
    QUARTERS,
    Attractor,
    AttractorKind,
    Cells,
    RecurrentSet,
    Sink,
    Trap,
    Tube,
    recurrent_sets,
)
from fim_dynsys.analyze.phase_space.weak import WeakSink, weak_sink
from fim_dynsys.analyze.results import (
    SUPPORTED,
    Effort,
    FieldLike,
    RegionLike,
    Result,
    StateLike,
    Table,
    Variables,
    held_state,
    progress_bar,
    resolve_region,
    state_labels,
    unwrap,
)
from fim_dynsys.analyze.settled import settled_jacobian
from fim_dynsys.analyze.tangent import STAGES, CountedField
from fim_dynsys.deadline import out_of_time, time_limit
from fim_dynsys.errors import check_flags, check_positive, check_whole
from fim_dynsys.fields.base import VectorField
from fim_dynsys.regions import Region
from fim_dynsys.simulation.problem import Status
from fim_dynsys.simulation.solution import integrate
from fim_dynsys.threads import on_one_thread
from fim_dynsys.wording import counted

_RTOL = 1e-6  # labels change at the boundaries alone, by far less than a pixel
_MARGIN = 1.0  # a trajectory may leave the region by this share of its size on each side, and come back
# Time scales. Short at first where arrival shows at a window's end alone, as most trajectories are soon in a
# trap; long later, as each start costs steps.
_WINDOW, _GROWTH, _LONGEST_WINDOW = 4.0, 1.5, 50.0
_LONGEST = 500.0  # time scales: what contracts at a hundredth of the field's rate has lost e^-5
_LONGEST_DECAYS = 20.0  # of the slowest sink or cycle, if that is longer, up to thirty times as long
_LONGEST_TURNS = 20.0  # periods of the slowest cycle, if that is longer
_SAMPLES = 8  # of a window
# Steps that one trajectory may take in a window: per time scale, of which smooth fields need ten and stiff
# ones fifty, and in all. One that slides along a jump or grazes a pole would take all there are.
_STEPS_PER_UNIT, _FEW_STEPS = 100, 1000
_LASTING = 20.0  # time scales that a trajectory must stay in a recurrent set's cells
_BLOCK = 4096  # rows integrated together: their stages fit the processor's cache
_RECURRENT_AFTER = 100.0  # time scales
_RECURRENT_WINDOWS = (200.0, 1000.0)  # the second only where the first shows nothing, as on a slow torus
_DECAYS_SEEN = 3.0  # decay times of the slowest sink or cycle that such a window lasts, up to ten times
# Time scales, within `t_max`, for which the paths of a recurrent set are followed on unless the user gave
# `t_max`: of twenty paths in transient chaos with a mean life of 5000, seven leave.
_FOLLOWED = 2000.0
_RECURRENT_SAMPLES = 10  # per time scale
_RECURRENT_ROWS = 32  # trajectories that have arrived nowhere, in which recurrent sets are sought
_SECOND_LOOKS = 3  # windows more after which sets that differ are taken to be several
_STILL = 1e-3  # lengths in a time scale: slower is at rest, or on its way there
_SLOWEST = 1e-9  # rate, by that of the field, at which a fixed point attracts: no slower one does so in time
_POINT_BUDGET = 200_000  # field evaluations for the fixed points
_OVERSAMPLED = (1, 8, 64, 512)  # times as many points as are wanted, of a box in which few states are real
# Stable cycles alone are wanted, to which trajectories come as close as one likes.
_CYCLE_SEEDS, _CYCLE_BUDGET, _CYCLE_GAP = 32, 1_000_000, 1e-3


class BasinLabel(IntEnum):
    """What a label below zero says of a trajectory; the others are numbers of attractors."""

    LEFT_REGION = -1
    """It went further from the region than the region's own size; or a grid point of a level set has states
    outside the region."""
    LEFT_SUPPORT = -2
    """It came where the field is unsupported, and `stay_supported` was set."""
    UNDECIDED = -3
    """It reached no known attractor in the time allowed, or could not be followed; the notes say why."""


@dataclass(frozen=True, eq=False, repr=False)
class Basins(Result):
    """Basins of attraction on a plane section of a region.

    Attributes
    ----------
    labels : ndarray (n, n) or (n,) of int
        Number of the attractor that each grid point leads to, or a `BasinLabel`; the first axis is that of
        the first coordinate.
    axes : tuple of ndarray (n,)
        Values of the coordinates.
    coordinates : tuple of int
        Numbers of the states that vary.
    at : ndarray (d,)
        Values of the others.
    attractors : tuple of Attractor
        What the labels count.
    support : ndarray, as labels
        Smallest support sampled along each trajectory.
    fractions : ndarray (k + 3,)
        Share of the region's volume that leads to each attractor, and then to the three special labels, so
        that ``fractions[label]`` is right for these too.
    errors : ndarray (k + 3,)
        Binomial standard errors of the shares, never zero.
    n_sample : int
        Number of states behind the shares.
    region : Region
        The region.
    out_of_steps : int
        Number of states whose trajectories took more steps than one may, as along a jump of the field; they
        are undecided.
    t_max : float
        Time after which trajectories were undecided.
    slowest_return : float
        Longest of the times in which small disturbances of the fixed points and cycles decay by e.
    followed : float
        Time for which paths of the recurrent sets were followed, in which they left these for no other
        attractor; 0 where there is no such set. Transient chaos that lasts longer looks the same.
    transient : int
        Number of recurrent sets that proved transient, as their own paths left them; they are no attractors.
    reasons : tuple of str
        Why states may be undecided however long they are followed.
    weak : tuple of int
        Numbers of fixed points whose linear part is neutral, and to which paths wind in, as simulated.
    """

    drawn_by = "fim_dynsys.plot.basin:basin_image"

    labels: np.ndarray
    axes: tuple
    coordinates: tuple
    at: np.ndarray
    attractors: tuple
    support: np.ndarray
    fractions: np.ndarray
    errors: np.ndarray
    n_sample: int
    region: Region
    out_of_steps: int = 0
    t_max: float = np.inf
    slowest_return: float = 0.0
    followed: float = 0.0
    transient: int = 0
    reasons: tuple[str, ...] = ()
    weak: tuple[int, ...] = ()

    def _notes(self) -> list[str]:
        notes = super()._notes()
        if self.out_of_steps:
            states = counted(self.out_of_steps, "trajectory", "trajectories")
            notes.append(f"{states} out of steps, as along jumps or at poles: undecided.")
        if self.followed:
            notes.append(
                f"A recurrent set may be transient beyond the time followed, {self.followed:.3g}; "
                "a longer t_max follows it on."
            )
        if self.transient:
            sets = counted(self.transient, "recurrent set")
            notes.append(f"{sets} proved transient: trajectories left for other attractors or the region.")
        slow = "attracts more slowly than at any rate: its linear part is neutral, and paths wind in"
        notes += [f"Attractor {number} {slow}." for number in self.weak]
        undecided = self.fractions[BasinLabel.UNDECIDED] or (self.labels == BasinLabel.UNDECIDED).any()
        notes += [f"Undecided: {reason}." for reason in self.reasons if undecided]
        early = self.t_max < 0.99 * _LONGEST_DECAYS * self.slowest_return  # 0.99: rounding of the default
        if undecided and not self.effort.exhausted and (self.transient or early):
            slow = f"disturbances decay by e in up to {self.slowest_return:.3g}"
            why = "trajectories still wander" if self.transient else slow
            notes.append(f"Undecided after a time of {self.t_max:.3g}: {why}; a longer t_max decides more.")
        return notes

    def _headline(self) -> str:
        return f"Basins of {counted(len(self.attractors), 'attractor')} in {self.region}"

    def _rows(self) -> Table:
        columns = ["label", "ends", "at", "support", "share", "+-", "of image", "of it supported"]
        rows = []
        for i, attractor in enumerate(self.attractors):
            rows.append([i, attractor.kind, attractor.points[0], attractor.support, *self._shares(i)])
        for label in BasinLabel:
            if self.fractions[label] or (self.labels == label).any():
                rows.append([int(label), label, "", "", *self._shares(label)])
        return columns, rows

    def _shares(self, label: int) -> list:
        here = self.labels == label
        backed = f"{np.mean(self.support[here] >= SUPPORTED):.0%}" if here.any() else ""
        return [self.fractions[label], self.errors[label], f"{here.mean():.1%}", backed]

    def _variables(self) -> Variables:
        names = tuple(f"axis{i}" for i in range(len(self.axes)))
        points = np.concatenate([a.points for a in self.attractors] or [np.empty((0, len(self.at)))])
        counts = [len(a.points) for a in self.attractors]
        outcome = [*range(len(counts)), *sorted(BasinLabel)]
        return {
            "label": (names, self.labels),
            "support": (names, self.support),
            **{name: ((name,), axis) for name, axis in zip(names, self.axes, strict=True)},
            "coordinates": (("plane",), np.array(self.coordinates)),
            "at": (("state",), self.at),
            "attractor_point": (("point", "state"), points),
            "attractor_of_point": (("point",), np.repeat(np.arange(len(counts)), counts)),
            "attractor_kind": (("attractor",), np.array([a.kind for a in self.attractors], dtype=object)),
            "attractor_support": (("attractor",), np.array([a.support for a in self.attractors])),
            "outcome": (("outcome",), np.array(outcome, dtype=int)),
            "fraction": (("outcome",), self.fractions),
            "fraction_error": (("outcome",), self.errors),
        }


@on_one_thread
def basins(
    field: FieldLike,
    region: RegionLike | None = None,
    resolution: int = 200,
    coordinates: Sequence[int | str] | None = None,
    at: StateLike | None = None,
    n_sample: int = 1024,
    t_max: float | None = None,
    stay_supported: bool = False,
    budget: int = 500_000_000,
    seed: int = 0,
    progress: bool | None = None,
    max_seconds: float | None = None,
    level: LevelLike | None = None,
) -> Basins:
    """Label the states of a grid, and a Sobol sample of the region, by the attractor they lead to.

    Attractors are the stable fixed points and cycles found in the region, and sets to which the trajectories
    of the sample that reach none of these keep coming back (seen from the cells they visit). Trajectories of
    such a set are followed on; it is transient, and no attractor, where one leaves it. A trajectory has
    arrived once it is in a sink's trapping ellipsoid, in a thin tube round a cycle, or stays in a recurrent
    set's cells; it is given up when it has left the region by more than its size. Labels follow the field
    wherever it leads; `support` is that of the field there.

    Parameters
    ----------
    field : VectorField or fitted model
        The field under analysis.
    region : Region, dict or pairs, optional
        Where to look; default the data's box widened by 10 % on each side.
    resolution : int
        Grid points along each coordinate.
    coordinates : pair of int or str, optional
        States that vary over the image; default the first two (the only one on the line).
    at : array_like (d,) or dict, optional
        Values of the other states; default, and of those that a dict does not name, the centre of the region.
    n_sample : int
        Number of states of the sample, a power of two for best balance.
    t_max : float, optional
        Time after which a trajectory is undecided; default 500 time scales of the field, or 20 periods or
        decay times of its slowest cycle or stable fixed point if that is longer. Trajectories of a recurrent
        set are followed as long, by default for 2000 time scales more at most.
    stay_supported : bool
        Whether to end trajectories, with a label of their own, where the field is unsupported (support below
        0.5, sampled eight times a window).
    budget : int
        Number of field evaluations after which what is left is undecided.
    seed : int
        Seed of the Sobol sequences.
    progress : bool, optional
        Whether to show how far the work is; by default on a terminal only.
    max_seconds : float, optional
        Time on the clock after which what is left is undecided.
    level : dict or array_like (d,), optional
        Where the field conserves linear sums of its states, the level set that grid and sample lie on, as for
        `fixed_points`; `coordinates` are then some of its own, by default the first two.

    Returns
    -------
    Basins

    Raises
    ------
    ValueError
        If there is no region, or an option does not fit.
    TypeError
        If `field` has no vector field in the space of the observations.

    References
    ----------
    G. Datseris, A. Wagemakers: Effortless estimation of basins of attraction, Chaos 32 (2022) 023104, for
    the recurrence of cells.

    See Also
    --------
    basin_probabilities : Under uncertainty.
    manifolds : Their boundaries.

    Examples
    --------
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze
    >>> box = fim_dynsys.Region([-2, -2], [2, 2])
    >>> wells = fim_dynsys.SymbolicField(["x1", "x0 - x0**3 - 0.5*x1"], region=box)
    >>> found = analyze.basins(wells, resolution=30, n_sample=100)
    >>> len(found.attractors)
    2
    """
    field = unwrap(field, "basins")
    region = resolve_region(field, region, "basins")
    asked, at = _section(field, region, coordinates, at)
    check_whole("basins", 2, resolution=resolution)
    check_whole("basins", 1, n_sample=n_sample, budget=budget)
    check_whole("basins", 0, seed=seed)
    check_positive("basins", t_max=1.0 if t_max is None else t_max)
    check_flags("basins", stay_supported=stay_supported)
    options = t_max, stay_supported, budget, max_seconds, progress
    sums, on_level = level_set(field, region, level, "basins", keep=asked)
    if on_level is None:
        found = _labelled(field, region, resolution, asked, at, region.sobol(n_sample, seed), None, options)
        return replace(found, conserved=sums.names, fit_problems=field.fit_info.problems)
    places = [int(np.flatnonzero(on_level.independent == i)[0]) for i in asked if i in on_level.independent]
    if coordinates is not None and len(places) < min(2, len(on_level.independent)):
        raise ValueError(
            f"basins: expected coordinates on the level set of {', '.join(sums.names)}, got {coordinates}; "
            f"choose among {list(on_level.names)}."
        )
    places = places or [0]
    inside = on_level.region(region)
    sample = _sampled(on_level, region, inside, n_sample, seed)
    along = on_level.field(field, region)
    where = on_level, region
    found = _labelled(
        along, inside, resolution, tuple(places), at[on_level.independent], sample, where, options
    )
    names, units = state_labels(field)
    return replace(
        found,
        coordinates=tuple(int(on_level.independent[i]) for i in places),
        at=on_level.states(found.at),
        attractors=tuple(replace(a, points=on_level.states(a.points)) for a in found.attractors),
        region=region,
        state_names=names,
        units=units,
        conserved=on_level.text,
        fit_problems=field.fit_info.problems,
    )


def _sampled(level: LevelSet, region: Region, inside: Region, n: int, seed: int) -> np.ndarray:
    """Coordinates (n, d - k) of Sobol points on a level set whose states lie in a region."""
    for times in _OVERSAMPLED:
        z = inside.sobol(times * n, seed)
        z = z[level.inside(level.states(z), region)]
        if len(z) >= n:
            return z[:n]
    if len(z):
        return z
    raise ValueError(
        f"basins: expected a level set that meets the region, got {', '.join(level.text)} and {region}; "
        "pass another level or region."
    )


def _labelled(
    field: VectorField,
    region: Region,
    resolution: int,
    coordinates: tuple[int, ...],
    at: np.ndarray,
    sample: np.ndarray,
    where: tuple[LevelSet, Region] | None,
    options: tuple[float | None, bool, int, float | None, bool | None],
) -> Basins:
    """Label a grid and a sample; on a level set, grid points with states outside the region stay out."""
    t_max, stay_supported, budget, max_seconds, progress = options
    n_sample = len(sample)
    axes = tuple(np.linspace(region.low[i], region.high[i], resolution) for i in coordinates)
    grid = np.tile(at, (resolution ** len(axes), 1))
    grid[:, coordinates] = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    with time_limit("basins", max_seconds):
        run = Labelling(field, region, t_max, stay_supported, budget, n_sample + len(grid), progress)
        sampled, _ = run.label(sample, explore=True)
        if where is None:
            painted, support = run.label(grid)
        else:
            met = where[0].inside(where[0].states(grid), where[1])
            painted, support = np.full(len(grid), int(BasinLabel.LEFT_REGION)), field.support(grid)
            if met.any():
                painted[met], support[met] = run.label(grid[met])
        run.bar.close()
    counts = np.array([np.sum(sampled == label) for label in [*range(len(run.attractors)), -3, -2, -1]])
    # One imagined success and failure each keep the error of a share of 0 or 1 from being 0.
    smoothed = (counts + 1) / (n_sample + 2)
    return Basins(
        labels=painted.reshape((resolution,) * len(axes)),
        axes=axes,
        coordinates=coordinates,
        at=at,
        attractors=tuple(run.attractors),
        support=support.reshape((resolution,) * len(axes)),
        fractions=counts / n_sample,
        errors=np.sqrt(smoothed * (1 - smoothed) / (n_sample + 2)),
        n_sample=n_sample,
        region=region,
        out_of_steps=run.out_of_steps,
        t_max=run.t_max,
        slowest_return=max((time for time in run.return_times.values() if time < np.inf), default=0.0),
        weak=run.weak,
        followed=run.followed,
        transient=run.transient,
        reasons=(*run.undecided(), *_outside_domain(field, np.concatenate([sample, grid]))),
        effort=Effort(n_sample + len(grid), 0, run.field.points, budget, run.exhausted),
        state_names=tuple(field.state_names),
        units=state_labels(field)[1],
    )


def _outside_domain(field: VectorField, x: np.ndarray) -> list[str]:
    """That the field is undefined at some of the states (n, d), in words."""
    with np.errstate(all="ignore"):
        undefined = int((~np.isfinite(field(x)).all(axis=1)).sum())
    return [f"the field is undefined at {undefined} of {len(x)} states"] if undefined else []


def _section(
    field: VectorField, region: Region, coordinates: Sequence[int | str] | None, at: StateLike | None
) -> tuple[tuple[int, ...], np.ndarray]:
    names = list(field.state_names)
    if not isinstance(coordinates, Sequence | np.ndarray | None):
        raise ValueError(f"basins: expected coordinates as states or their numbers, got {coordinates!r}.")
    given = tuple(range(min(2, field.dim))) if coordinates is None else tuple(coordinates)
    numbers = tuple(names.index(c) if isinstance(c, str) and c in names else c for c in given)
    valid = all(isinstance(c, int | np.integer) and 0 <= c < field.dim for c in numbers)
    if not valid or len(set(numbers)) != min(2, field.dim):
        raise ValueError(
            f"basins: expected {min(2, field.dim)} different states among {names} or their numbers as "
            f"coordinates, got {given}."
        )
    return tuple(int(c) for c in numbers), held_state("basins", at, region.centre, names)


class _Slow(NamedTuple):
    """What trajectories wind into or onto."""

    trap: Sink | Tube
    rate: float
    period: float  # 0 of a sink


class Labelling:
    """Attractors known so far, and the labelling of states by them.

    `return_times` holds the time in which small disturbances decay by e, by number of the attractor.
    """

    def __init__(
        self,
        field: VectorField,
        region: Region,
        t_max: float | None,
        stay_supported: bool,
        budget: int,
        n_rows: int,
        progress: bool | None,
    ) -> None:
        self.field = CountedField(field, region)
        self.region, self.box = region, region.widened(_MARGIN)
        self.unit = self.field.scales.time
        self.stay_supported, self.budget = stay_supported, budget
        self.has_data = field.context is not None
        self.exhausted = False
        self.out_of_steps = self.undefined = 0
        self.open_ends: list[np.ndarray] = []
        self.attractors: list[Attractor] = []
        self.traps: list[Trap] = []
        self.sinks: list[Sink | WeakSink] = []
        self.weak: tuple[int, ...] = ()
        self.slow: list[_Slow] = []
        self.return_times: dict[int, float] = {}
        self.followed, self.transient = 0.0, 0
        self.reasons: list[str] = []
        slowest = self._find_attractors()
        slow = np.inf if self.weak else _LONGEST_DECAYS / self._slowest_rate()
        decays = min(slow, 30.0 * _LONGEST * self.unit)
        longest = max(_LONGEST * self.unit, _LONGEST_TURNS * slowest, decays)
        self.t_max = longest if t_max is None else float(t_max)
        self.follow_for = _FOLLOWED * self.unit if t_max is None else self.t_max
        self.bar = progress_bar(progress, n_rows, "basins", "states")

    def _find_attractors(self) -> float:
        """Set traps for the stable fixed points and cycles; returns the longest period."""
        field, region = self.field.inner, self.region
        points = fixed_points(field, region, budget=min(_POINT_BUDGET, self.budget), n_draws=0)
        affordable = min(_CYCLE_BUDGET, self.budget)
        cycles = search_cycles(
            field, region, _CYCLE_SEEDS, affordable, closest_in_space=_CYCLE_GAP, backwards=False
        )
        self.field.points += points.effort.points + cycles.effort.points
        roots = points.x[points.is_root]
        slowest = points.eigenvalues[points.is_root].real.max(axis=1, initial=-np.inf)
        # at the edge of the field's domain there are no rates on both sides, and so no trap
        smooth = np.isfinite(field.jacobian(roots)).all(axis=(1, 2))
        attracting = smooth & (slowest * self.unit < -_SLOWEST)
        at_zero = points.is_root & (points.kind == Kind.DEGENERATE)
        if (points.status == PointStatus.NOT_ISOLATED).any():
            self.reasons.append("fixed points that lie side by side, a continuum, are no attractors here")
        elif at_zero.any():
            degenerate = counted(int(at_zero.sum()), "degenerate fixed point")
            self.reasons.append(f"{degenerate} may attract, but more slowly than at any rate")
        if points.without_derivatives.any():
            self.reasons.append("fixed points without derivatives of the field on all sides may attract")
        # by differences, terms like |v| v leave tiny rates of either sign
        for i in np.flatnonzero(attracting & ~self._find_weak(roots, points)):
            sink = Sink(self.field, roots[i], np.delete(roots, i, axis=0), region)
            self.return_times[len(self.attractors)] = float(-1.0 / slowest[i])
            self._add(AttractorKind.FIXED_POINT, roots[i : i + 1], sink)
            self.sinks.append(sink)
            self.slow.append(_Slow(sink, float(-slowest[i]), 0.0))
        for i in np.flatnonzero(cycles.stable):
            others = [roots, *(orbit for j, orbit in enumerate(cycles.orbits) if j != i)]
            orbit = cycles.orbits[i]
            tube = Tube(orbit, np.concatenate(others), self.field.scales.length)
            decay = -float(cycles.log_moduli[i, 1:].max())
            period = float(cycles.period[i])
            self.return_times[len(self.attractors)] = period / decay
            self.slow.append(_Slow(tube, decay / period, period))
            self._add(AttractorKind.CYCLE, orbit, tube)
        return cycles.period[cycles.stable].max(initial=0.0)

    def _find_weak(self, roots: np.ndarray, points: FixedPoints) -> np.ndarray:
        """Set traps for foci that are neutral to precision and attract; tells which roots these are."""
        length, found = self.field.scales.length, np.zeros(len(roots), dtype=bool)
        open_kinds = np.isin(points.kind[points.is_root], (Kind.CENTRE_LIKE, Kind.INDETERMINATE))
        for i in np.flatnonzero(open_kinds & (self.field.dim == 2)):
            gaps = np.linalg.norm((np.delete(roots, i, axis=0) - roots[i]) / length, axis=1)
            room = 0.5 * min(gaps.min(initial=np.inf), float((self.region.size / length).min()))
            jac = settled_jacobian(self.field, roots[i], length)
            sink = weak_sink(self.field, roots[i], jac, length, room)
            if sink is not None:
                found[i] = True
                self.weak += (len(self.attractors),)
                self.return_times[len(self.attractors)] = np.inf
                self._add(AttractorKind.FIXED_POINT, roots[i : i + 1], sink)
                self.sinks.append(sink)
        return found

    def _slowest_rate(self) -> float:
        return min((slow.rate for slow in self.slow), default=np.inf)

    def _add(self, kind: AttractorKind, points: np.ndarray, trap: Trap) -> None:
        self.attractors.append(Attractor(kind, points, float(self.field.support(points).min())))
        self.traps.append(trap)

    def label(self, x: np.ndarray, explore: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Labels and smallest supports (n,) of states ``(n, d)``; with `explore`, new sets are sought."""
        found, support = np.full(len(x), BasinLabel.UNDECIDED, dtype=np.int64), np.ones(len(x))
        elapsed, window = 0.0, self._first_window()
        # Scattered, so that what the budget or the clock leaves known is the whole image, not its first rows.
        rows = np.random.default_rng(0).permutation(len(x)) if len(x) > _BLOCK else np.arange(len(x))
        rows = rows[self._arrived(x[rows, None], window, rows, found, support)]
        x = x[rows]
        self.bar.update(len(found) - len(rows))
        while len(rows) and elapsed < self.t_max and self._affords():
            if explore and elapsed >= _RECURRENT_AFTER * self.unit:
                self._explore(x)
                explore = False
            rows, x = self._follow(rows, x, window, found, support)
            elapsed += window
            window = min(_GROWTH * window, _LONGEST_WINDOW * self.unit)
        self.bar.update(len(rows))
        if not self.exhausted:
            self.open_ends.append(x)
        return found, support

    def undecided(self) -> list[str]:
        """Why trajectories are undecided that were followed to their end, in words."""
        reasons = list(self.reasons)
        if self.undefined:
            states = counted(self.undefined, "trajectory", "trajectories")
            reasons.append(f"{states} came where the field is undefined")
        x = np.concatenate([np.empty((0, self.field.dim)), *self.open_ends])
        rate = np.linalg.norm(self.field(x) / self.field.scales.length, axis=1) * self.unit
        still, outside = rate < _STILL, ~np.asarray(self.region.contains(x))
        named = [
            (still & outside, "came to rest outside the region"),
            (still & ~outside, "hardly move at the end, as beside saddles or what attracts slowly"),
            (~still, "still move after the time allowed"),
        ]
        for rows, end in named:
            if rows.any() and (still[rows].all() or not reasons):
                states = counted(int(rows.sum()), "trajectory", "trajectories")
                place = ", ".join(f"{value:.4g}" for value in x[rows][0])
                reasons.append(f"{states} {end}, as at ({place})")
        return reasons

    def _follow(
        self, rows: np.ndarray, x: np.ndarray, window: float, found: np.ndarray, support: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Follow rows from their states (n, d) for a window; returns those that go on, and their states."""
        kept = []
        for start in range(0, len(rows), _BLOCK):
            block = slice(start, start + _BLOCK)
            if not self._affords():
                kept.append((rows[start:], x[start:]))
                break
            path, going = self._fly(x[block], window)
            going &= self._arrived(path, window, rows[block], found, support)
            kept.append((rows[block][going], path[going, -1]))
            self.bar.update(np.count_nonzero(~going))
        rows, x = (np.concatenate(parts) for parts in zip(*kept, strict=True))
        return rows, x

    def _affords(self) -> bool:
        self.exhausted |= self.field.points >= self.budget or out_of_time()
        return not self.exhausted

    def _fly(self, x: np.ndarray, window: float) -> tuple[np.ndarray, np.ndarray]:
        """Samples ``(n, s, d)`` of one window, and which trajectories can be followed further."""
        affordable, most = (self.budget - self.field.points) // (STAGES * len(x)), self._most_steps(window)
        steps = max(10, min(affordable, most))
        t = np.linspace(0.0, window, (_SAMPLES if self._samples() else 1) + 1)
        solution = integrate(
            [self.field], x, t, rtol=_RTOL, escape=ESCAPE, max_steps=steps, until=self._ended
        )
        # What the budget allowed to all ends too early for those that go on when others have arrived.
        short = (solution.status == Status.MAX_STEPS) & (solution.n_steps >= steps) & (affordable < most)
        short |= solution.status == Status.OUT_OF_TIME
        self.out_of_steps += int(((solution.status == Status.MAX_STEPS) & ~short).sum())
        self.undefined += int((solution.status == Status.NON_FINITE).sum())
        # Where one was not followed to the end, its last state stands for the rest.
        path = np.where(np.isfinite(solution.x), solution.x, solution.x_stop[:, None])[:, 1:]
        return path, short | np.isin(solution.status, (Status.SUCCESS, Status.EVENT))

    def _most_steps(self, window: float) -> int:
        return int(_FEW_STEPS + _STEPS_PER_UNIT * window / self.unit)

    def _ended(self, x: np.ndarray) -> np.ndarray:
        """Which of the states (n, d) are in a sink's trap or have left, as far as a state alone can tell."""
        ended = ~self.box.contains(x)
        for sink in self.sinks:
            ended |= sink.holds(x[:, None])
        return ended

    def _samples(self) -> bool:
        """Whether states within a window matter, and not its last one alone."""
        return self.has_data or any(isinstance(trap, Cells) for trap in self.traps)

    def _first_window(self) -> float:
        """Short, unless arrival ends the integration anyway."""
        if self.has_data or len(self.sinks) < len(self.traps):
            return _WINDOW * self.unit
        return max(_WINDOW * self.unit, min(_LONGEST_WINDOW * self.unit, self.t_max))

    def _arrived(
        self, path: np.ndarray, window: float, rows: np.ndarray, found: np.ndarray, support: np.ndarray
    ) -> np.ndarray:
        """Write down the labels of trajectories that have ended; tells which go on."""
        if self.has_data:
            support[rows] = np.minimum(support[rows], self.field.support(path).min(axis=1))
        label = np.full(len(rows), BasinLabel.UNDECIDED, dtype=np.int64)
        for number, (attractor, trap) in enumerate(zip(self.attractors, self.traps, strict=True)):
            if attractor.kind is not AttractorKind.RECURRENT or window >= _LASTING * self.unit:
                label[(label == BasinLabel.UNDECIDED) & trap.holds(path)] = number
        label[~self.box.contains(path[:, -1])] = BasinLabel.LEFT_REGION
        if self.stay_supported:
            label[support[rows] < SUPPORTED] = BasinLabel.LEFT_SUPPORT
        found[rows] = label
        return label == BasinLabel.UNDECIDED

    def _winds_in(self, path: np.ndarray, window: float) -> bool:
        """Whether a path is on its way to a slow sink or cycle, which looks recurrent."""
        length = window * self.unit
        return any(
            slow.trap.winds_in(path, slow.rate * length)
            for slow in self.slow
            if QUARTERS * slow.period <= length
        )

    def _explore(self, x: np.ndarray) -> None:
        """Add the recurrent sets of some trajectories that have arrived nowhere."""
        some = x[:: max(1, len(x) // _RECURRENT_ROWS)]
        slowest = _DECAYS_SEEN / (self._slowest_rate() * self.unit)
        for shortest in _RECURRENT_WINDOWS:
            window = max(shortest, min(slowest, 10.0 * shortest))
            paths, elapsed = self._open_paths(some, window), _RECURRENT_AFTER + window
            sets, closed = recurrent_sets(self.field, self.region, paths)
            # In the plane, paths that are neither at rest nor on a cycle are long orbits of the same family.
            family = closed == len(some) or (self.field.dim == 2 and 3 * closed >= len(some))
            sets = [] if family else sets
            latest = paths
            for _ in range(_SECOND_LOOKS if len(sets) > 1 else 0):
                # One of several may be a long way into a sink, or away from a cycle that repels.
                latest = self._open_paths(latest[:, -1], window)
                later, _ = recurrent_sets(self.field, self.region, latest)
                if not later or len(later) >= len(sets):
                    break
                sets, paths, elapsed = later, latest, elapsed + window
            for found in self._lasting(sets, paths, elapsed * self.unit):
                self._add(AttractorKind.RECURRENT, found.points, found.cells)
            if family:
                # None contracts: they go round in families of closed orbits, however long one waits.
                self.t_max = min(self.t_max, _RECURRENT_AFTER * self.unit)
                self.reasons.append("trajectories go round in families of closed orbits")
            if sets or closed or not len(paths):
                return

    def _lasting(self, sets: list[RecurrentSet], paths: np.ndarray, elapsed: float) -> list[RecurrentSet]:
        """Follow the paths of recurrent sets on; the sets that these leave for no other attractor."""
        if not sets:
            return []
        rows = np.concatenate([found.members for found in sets])
        typical, owner = np.zeros(len(paths), dtype=bool), np.zeros(len(paths), dtype=int)
        for number, found in enumerate(sets):
            typical[found.members], owner[found.members] = found.typical, number
        everything, x = rows, paths[rows, -1]
        gone, left = np.zeros(len(paths), dtype=bool), np.zeros(len(sets), dtype=bool)
        window, counts = _LONGEST_WINDOW * self.unit, (self.out_of_steps, self.undefined)
        end = min(self.t_max, elapsed + self.follow_for)
        while len(rows) and elapsed < end and self._affords():
            path, going = self._fly(x, window)
            ended = ~self.box.contains(path[:, -1])
            for trap in self.traps:
                ended |= trap.holds(path)
            gone[rows[ended]] = True
            left |= [bool((gone & typical)[s.members].any() or gone[s.members].all()) for s in sets]
            going &= ~ended & ~left[owner[rows]]
            rows, x = rows[going], path[going, -1]
            elapsed += window
        self.out_of_steps, self.undefined = counts  # of states of the image and the sample
        self.transient += int(left.sum())
        if left.all():
            return []
        self.followed = elapsed
        staying = everything[~gone[everything] & ~left[owner[everything]]]
        if gone[everything].any():
            # Cells of those alone that stayed: others were on their way through them.
            return recurrent_sets(self.field, self.region, paths[np.sort(staying)])[0]
        return sets

    def _open_paths(self, x: np.ndarray, window: float) -> np.ndarray:
        """Paths (n, s, d) over a window, in time scales, of those states that do not arrive or leave."""
        t = np.linspace(0.0, window * self.unit, int(_RECURRENT_SAMPLES * window) + 1)
        most = self._most_steps(window * self.unit)
        paths = integrate([self.field], x, t, rtol=_RTOL, escape=ESCAPE, max_steps=most).x
        going = np.asarray(self.box.contains(paths).all(axis=1))
        for trap in self.traps:
            going[going] &= ~trap.holds(paths[going])
        winding = [self._winds_in(path, window) for path in paths[going]]
        going[going] = ~np.array(winding, dtype=bool)
        return paths[going]
