"""isochrons: the phase at which each state of a plane joins a stable oscillation."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline

from fim_dynsys.analyze.cycles.adjoint import PhaseMap, adjoint_response
from fim_dynsys.analyze.cycles.periodic import LimitCycles, check_stable, limit_cycles
from fim_dynsys.analyze.cycles.shooting import lengths_of, shoot
from fim_dynsys.analyze.results import (
    Effort,
    FieldLike,
    RegionLike,
    Result,
    StateLike,
    Table,
    Variables,
    check_result,
    held_state,
    labels,
    resolve_region,
    unwrap,
)
from fim_dynsys.analyze.tangent import CountedField
from fim_dynsys.deadline import time_limit
from fim_dynsys.errors import check_whole
from fim_dynsys.fields.base import VectorField
from fim_dynsys.threads import on_one_thread

_NODES = 64  # of the cycle, between which its linearisation is carried
_BLOCK = 1024  # states followed together: fast ones do not wait for all slow ones
_FIRST_BLOCK = 16  # states by which it is seen how many evaluations one takes
_POINTS_OF_A_PERIOD = 2_500  # evaluations of a state on average, at most; textbook cycles take 1,000


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Isochrons(Result):
    """Asymptotic phases on a grid; made by `isochrons`.

    Attributes
    ----------
    phase : ndarray (n, n)
        Share of the period in [0, 1), 0 at the point ``cycles.x``; the first axis is that of the first
        coordinate. NaN where the cycle is not reached in time.
    axes : tuple of ndarray (n,)
        Values of the coordinates.
    coordinates : tuple of int
        Numbers of the states that vary.
    at : ndarray (d,)
        Values of the others.
    orbit : ndarray (k, d)
        The cycle at equal times.
    period : float
        Its period.
    """

    drawn_by = "fim_dynsys.plot.phases:isochrons"

    phase: np.ndarray
    axes: tuple[np.ndarray, np.ndarray]
    coordinates: tuple[int, int]
    at: np.ndarray
    orbit: np.ndarray
    period: float

    def _headline(self) -> str:
        known = np.isfinite(self.phase).mean()
        states = f"{known:.1%} of {self.phase.size:,} states"
        return f"Phases of {states} that join a cycle of period {self.period:.5g}"

    def _rows(self) -> Table:
        names = [self.state_names[i] for i in self.coordinates]
        rows = [[name, axis[0], axis[-1], len(axis)] for name, axis in zip(names, self.axes, strict=True)]
        return ["state", "from", "to", "points"], rows

    def _variables(self) -> Variables:
        return {
            "phase": (("axis0", "axis1"), self.phase),
            "axis0": (("axis0",), self.axes[0]),
            "axis1": (("axis1",), self.axes[1]),
            "coordinates": (("plane",), np.array(self.coordinates)),
            "at": (("state",), self.at),
            "orbit": (("point", "state"), self.orbit),
            "period": ((), np.array(self.period)),
        }


@on_one_thread
def isochrons(
    field: FieldLike,
    region: RegionLike | None = None,
    *,
    cycles: LimitCycles | None = None,
    which: int = 0,
    resolution: int = 64,
    coordinates: Sequence[int | str] | None = None,
    at: StateLike | None = None,
    seed: int = 0,
    progress: bool | None = None,
    max_seconds: float | None = None,
) -> Isochrons:
    """Find the phase at which each state of a grid joins a stable cycle: lines of equal phase are isochrons.

    States are followed for whole periods until they are on the cycle, where the phase is read by its
    gradient. A shift from one state to another changes the phase by the difference.

    Parameters
    ----------
    field : VectorField or fitted model
        The field under analysis.
    region : Region, dict or pairs, optional
        The box of the grid; default the data's box widened by 10 % on each side.
    cycles : LimitCycles, optional
        Those of the field, where they are known already; default `limit_cycles` of it.
    which : int
        Number of the cycle among them, a stable one.
    resolution : int
        Grid points along each coordinate.
    coordinates : pair of int or str, optional
        States that vary over the grid; default the first two.
    at : array_like (d,) or dict, optional
        Values of the other states; default, and of those that a dict does not name, the mean over the cycle.
    seed : int
        Of the search for cycles.
    progress : bool, optional
        Whether to show how far that search is; by default on a terminal only.
    max_seconds : float, optional
        Time on the clock after which it ends with what it has; default no limit.

    Returns
    -------
    Isochrons

    Raises
    ------
    ValueError
        If there is no such cycle, it is not stable, or an option does not fit.
    TypeError
        If `field` has no vector field in the space of the observations.

    See Also
    --------
    phase_response : The gradient of the phase on the cycle, with bands.

    References
    ----------
    A. T. Winfree: Patterns of phase compromise in biological cycles, J. Math. Biology 1 (1974) 73.

    Examples
    --------
    >>> import numpy as np
    >>> from fim_dynsys import CallableField
    >>> def clock(x):
    ...     turned = np.stack([-x[:, 1], x[:, 0]], axis=1)
    ...     return x * (1 - np.sum(x**2, axis=1, keepdims=True)) + turned
    >>> found = isochrons(CallableField(clock, 2), [(-2, 2), (-2, 2)], resolution=8)
    >>> found.phase.shape
    (8, 8)
    """
    field = unwrap(field, "isochrons")
    box = resolve_region(field, region, "isochrons")
    check_whole("isochrons", 2, resolution=resolution)
    check_whole("isochrons", 0, which=which, seed=seed)
    names = list(field.state_names)
    given = (0, 1) if coordinates is None else tuple(coordinates)
    numbers = [names.index(c) if isinstance(c, str) and c in names else c for c in given]
    plane = [int(i) for i in numbers if isinstance(i, int | np.integer) and 0 <= i < field.dim]
    if len(set(plane)) != 2 or len(numbers) != 2:
        raise ValueError(f"isochrons: expected two different states among {names!r}, got {given!r}.")
    if cycles is not None:
        check_result("isochrons", "cycles", cycles, (LimitCycles,), "limit_cycles")
    with time_limit("isochrons", max_seconds):
        if cycles is None:
            cycles = limit_cycles(field, box, seed=seed, progress=progress)
        check_stable("isochrons", cycles, which)
        orbit = cycles.orbits[which]
        middle = held_state("isochrons", at, orbit[:-1].mean(axis=0), field.state_names)
        axes = tuple(np.linspace(box.low[i], box.high[i], resolution) for i in plane)
        grid = np.tile(middle, (resolution**2, 1))
        grid[:, plane] = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
        metered = CountedField(field, box)
        phases = phase_map(metered, cycles, which)
        budget = len(grid) * phases.turns * _POINTS_OF_A_PERIOD
        values, exhausted = _within_budget(phases, metered, grid, budget)
    spent = cycles.effort
    return Isochrons(
        phase=values.reshape(resolution, resolution),
        axes=(axes[0], axes[1]),
        coordinates=(plane[0], plane[1]),
        at=middle,
        orbit=orbit,
        period=float(cycles.period[which]),
        effort=Effort(
            spent.seeds + len(grid),
            spent.iterations,
            spent.points + metered.points,
            spent.budget + budget,
            spent.exhausted or exhausted,
        ),
        **labels(field, box),
    )


def _within_budget(
    phases: PhaseMap, metered: CountedField, grid: np.ndarray, budget: int
) -> tuple[np.ndarray, bool]:
    """Phases of states (n, d), NaN for those that the budget does not reach, and whether there are any."""
    values, done, size, begun = np.full(len(grid), np.nan), 0, _FIRST_BLOCK, metered.points
    while done < len(grid) and size > 0:
        values[done : done + size] = phases.phases(grid[done : done + size])
        done += size
        spent = max(metered.points - begun, 1)
        size = min(_BLOCK, int((budget - spent) / (spent / done)))
    return values, done < len(grid)


def phase_map(field: VectorField, cycles: LimitCycles, which: int) -> PhaseMap:
    """The map from states to phases of one stable cycle.

    Parameters
    ----------
    field : VectorField
        The field.
    cycles : LimitCycles
        Its cycles.
    which : int
        Number of a stable one.
    """
    orbit, period = cycles.orbits[which], float(cycles.period[which])
    closed = np.concatenate([orbit[:-1], orbit[:1]])
    nodes = CubicSpline(np.linspace(0.0, 1.0, len(closed)), closed, bc_type="periodic")(
        np.arange(_NODES) / _NODES
    )
    length = lengths_of(orbit, cycles.region.size)
    response = adjoint_response(shoot(field, nodes, period, length), field(nodes), length, period)
    share = np.arange(_NODES + 1) / _NODES
    fine = CubicSpline(share, np.concatenate([response, response[:1]]), bc_type="periodic")
    slowest = float(cycles.log_moduli[which, 1:].max())
    return PhaseMap(field, closed, fine(np.linspace(0.0, 1.0, len(closed))), length, period, slowest)
