"""Stable and unstable manifolds of saddles: branches along single real eigenvalues, even in arclength."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from fim_dynsys.analyze.equilibria.kinds import Kind
from fim_dynsys.analyze.equilibria.points import fixed_points
from fim_dynsys.analyze.equilibria.result import FixedPoints
from fim_dynsys.analyze.results import (
    SUPPORTED,
    Effort,
    FieldLike,
    RegionLike,
    Result,
    Table,
    Variables,
    check_result,
    labels,
    resolve_region,
    share_bar,
    unwrap,
)
from fim_dynsys.analyze.settled import settled_jacobian
from fim_dynsys.analyze.tangent import STAGES, CountedField
from fim_dynsys.deadline import time_limit
from fim_dynsys.errors import check_positive, check_whole
from fim_dynsys.fields.base import VectorField
from fim_dynsys.regions import Region
from fim_dynsys.simulation.problem import SPENT, Status
from fim_dynsys.simulation.solution import integrate
from fim_dynsys.threads import on_one_thread
from fim_dynsys.wording import counted

_POINT_BUDGET = 200_000  # of the search for saddles
_RTOL = 1e-9  # the cube of `_LAUNCH`: as good as the start
_LAUNCH = 1e-3  # distance from the saddle in length scales; the expansion leaves an error of its cube
_REST = 1e-4  # a branch has arrived where the field is slower than this, in length per time scale
_NEAR = 1e-2  # then it ends at a fixed point that lies so close, in length scales
_SPACING = 1 / 200  # of the region's diagonal
_LONGEST = 20.0  # diagonals: a branch that winds round a cycle shows some ten turns
_MARGIN = 0.5  # of the region's size: a branch may leave it and come back


class ManifoldEnd(StrEnum):
    """Where a branch of a manifold ends."""

    FIXED_POINT = "fixed point"
    """It tends to a fixed point."""
    REST = "at rest"
    """The field becomes as slow as near a fixed point, but none is known there."""
    REGION = "left region"
    """It leaves the region by half of its size."""
    LENGTH = "length"
    """It is as long as was asked for: it winds round a cycle, say."""
    FAILED = "failed"
    """The integration could not be carried on."""


@dataclass(frozen=True, eq=False)
class ManifoldBranch:
    """One branch of a manifold of a saddle.

    Attributes
    ----------
    path : ndarray (m, d)
        From the saddle on, evenly spaced in arclength (with states in units of their length scales).
    stable : bool
        Whether it belongs to the stable manifold.
    origin : int
        Number of the saddle among the fixed points.
    eigenvalue : float
        That of the saddle along the branch.
    end : ManifoldEnd
        Why it ends.
    limit : int
        Number of the fixed point it tends to, or -1.
    residual : float
        Angle, in radians, between the field and the branch where it is launched.
    support : ndarray (m,)
        Support of the field along it.
    """

    path: np.ndarray
    stable: bool
    origin: int
    eigenvalue: float
    end: ManifoldEnd
    limit: int
    residual: float
    support: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Manifolds(Result):
    """One-dimensional stable and unstable manifolds of the saddles in a region.

    Attributes
    ----------
    branches : tuple of ManifoldBranch
        Saddle by saddle, two branches a manifold.
    fixed_points : FixedPoints
        The fixed points that `origin` and `limit` of the branches count.
    skipped : int
        Manifolds of more than one dimension, or along complex eigenvalues, that were left out.
    rough : int
        Fixed points whose manifolds were left out as the field has no derivatives beside them.
    """

    drawn_by = "fim_dynsys.plot.objects:manifolds"

    branches: tuple
    fixed_points: FixedPoints
    skipped: int
    rough: int = 0

    def __len__(self) -> int:
        return len(self.branches)

    @property
    def separatrices(self) -> tuple[ManifoldBranch, ...]:
        """The stable branches, which in the plane separate basins of attraction."""
        return tuple(branch for branch in self.branches if branch.stable)

    def _headline(self) -> str:
        branches = counted(len(self), "branch", "branches")
        return f"{branches} of manifolds of saddles in {self.fixed_points.region}"

    def _rows(self) -> Table:
        columns = ["saddle", "manifold", "eigenvalue", "ends", "at", "points", "residual", "supported"]
        rows = [
            [
                self.fixed_points.x[branch.origin],
                "stable" if branch.stable else "unstable",
                branch.eigenvalue,
                branch.end,
                branch.path[-1],
                len(branch.path),
                branch.residual,
                f"{np.mean(branch.support >= SUPPORTED):.0%}",
            ]
            for branch in self.branches
        ]
        return columns, rows

    def _notes(self) -> list[str]:
        were = "was" if self.skipped == 1 else "were"
        left_out = f"{counted(self.skipped, 'manifold')} of more than one dimension {were} left out"
        points = counted(self.rough, "fixed point")
        rough = f"manifolds of {points} left out: the field has no derivatives on all sides of it"
        notes = [*([left_out] if self.skipped else []), *([rough] if self.rough else [])]
        return [*notes, *super()._notes()]

    def _variables(self) -> Variables:
        n, d = len(self), len(self.state_names)
        longest = max((len(branch.path) for branch in self.branches), default=0)
        path = np.full((n, longest, d), np.nan)
        support = np.full((n, longest), np.nan)
        for i, branch in enumerate(self.branches):
            path[i, : len(branch.path)] = branch.path
            support[i, : len(branch.path)] = branch.support
        columns = {
            name: (("branch",), np.array([getattr(branch, name) for branch in self.branches]))
            for name in ("stable", "origin", "eigenvalue", "limit", "residual")
        }
        ends = np.array([branch.end for branch in self.branches], dtype=object)
        lengths = np.array([len(branch.path) for branch in self.branches], dtype=int)
        return {
            "path": (("branch", "point", "state"), path),
            "support": (("branch", "point"), support),
            "n_points": (("branch",), lengths),
            "end": (("branch",), ends),
            **columns,
        }


@on_one_thread
def manifolds(
    field: FieldLike,
    region: RegionLike | None = None,
    found: FixedPoints | None = None,
    spacing: float | None = None,
    longest: float | None = None,
    budget: int = 2_000_000,
    progress: bool | None = None,
    max_seconds: float | None = None,
) -> Manifolds:
    """Trace the stable and unstable manifolds of saddles as curves.

    A manifold is a curve where the saddle has a single eigenvalue on that side, which is then real: in the
    plane always, in space on one side mostly. Each branch starts on the second-order expansion of the
    manifold and is integrated away from the saddle at unit speed, backwards in time if stable, which draws
    errors back onto it. In the plane, stable branches are the separatrices between basins.

    Parameters
    ----------
    field : VectorField or fitted model
        The field under analysis.
    region : Region, dict or pairs, optional
        Where saddles are sought; default the data's box widened by 10 % on each side. Branches are followed
        half its size beyond.
    found : FixedPoints, optional
        Fixed points if they are known already; by default they are sought.
    spacing : float, optional
        Distance of neighbouring points, with states in units of their length scales; default a two-hundredth
        of the region's diagonal.
    longest : float, optional
        Length at which a branch ends in any case, likewise; default 20 diagonals.
    budget : int
        Number of field evaluations for all branches together.
    progress : bool, optional
        Whether bars with the time left are shown after two seconds; default on a terminal.
    max_seconds : float, optional
        Time on the clock after which the search ends with what it has; default no limit.

    Returns
    -------
    Manifolds

    Raises
    ------
    ValueError
        If there is no region, or an option is not positive.
    TypeError
        If `field` has no vector field in the space of the observations.

    References
    ----------
    B. Krauskopf et al.: A survey of methods for computing (un)stable manifolds of vector fields, Int. J.
    Bifurcation and Chaos 15 (2005) 763, section 1.

    See Also
    --------
    basins : What they separate.
    manifold_bands : Under uncertainty.

    Examples
    --------
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze
    >>> box = fim_dynsys.Region([-2, -2], [2, 2])
    >>> wells = fim_dynsys.SymbolicField(["x1", "x0 - x0**3 - 0.5*x1"], region=box)
    >>> found = analyze.manifolds(wells)
    >>> len(found.branches)
    4
    """
    field = unwrap(field, "manifolds")
    region = resolve_region(field, region, "manifolds")
    check_whole("manifolds", 1, budget=budget)
    check_positive("manifolds", spacing=1.0 if spacing is None else spacing)
    check_positive("manifolds", longest=1.0 if longest is None else longest)
    if found is not None:
        check_result("manifolds", "found", found, (FixedPoints,), "fixed_points")
    with time_limit("manifolds", max_seconds):
        if found is None:
            found = fixed_points(field, region, budget=max(1, min(_POINT_BUDGET, budget)))
        return _followed(field, region, found, spacing, longest, budget, progress)


def _followed(
    field: VectorField,
    region: Region,
    found: FixedPoints,
    spacing: float | None,
    longest: float | None,
    budget: int,
    progress: bool | None,
) -> Manifolds:
    """The manifolds of known fixed points."""
    metered = CountedField(field, region)
    diagonal = float(np.linalg.norm(region.size / metered.scales.length))
    spacing = _SPACING * diagonal if spacing is None else float(spacing)
    longest = _LONGEST * diagonal if longest is None else float(longest)
    if not spacing < longest:
        raise ValueError(f"manifolds: expected 0 < spacing < longest, got {spacing} and {longest}.")
    launches, skipped, rough = _launches(metered, found)
    # Rounding must not leave a last multiple of the spacing that is the end once more.
    t = np.append(np.arange(0.0, longest * (1.0 - 1e-9), spacing), longest)
    steps = max(1, budget // (STAGES * max(1, len(launches))))
    branches: list[ManifoldBranch] = []
    exhausted = False
    for stable in (True, False):
        rows = [launch for launch in launches if launch.stable is stable]
        if rows:
            traced, out_of_steps = _traced(metered, rows, found, region, t, steps, progress)
            branches, exhausted = branches + traced, exhausted or out_of_steps
    branches.sort(key=lambda branch: branch.origin)
    return Manifolds(
        branches=tuple(branches),
        fixed_points=found,
        skipped=skipped,
        rough=rough,
        effort=Effort(len(launches), 0, metered.points, budget, exhausted),
        **labels(field),
    )


@dataclass(frozen=True, eq=False)
class _Launch:
    """Where a branch starts."""

    x: np.ndarray
    stable: bool
    origin: int
    eigenvalue: float
    residual: float


def _launches(field: VectorField, found: FixedPoints) -> tuple[list[_Launch], int, int]:
    """The starts of all branches, how many manifolds are no curves, how many points have no derivatives."""
    launches: list[_Launch] = []
    skipped, rough = 0, int(found.without_derivatives.sum())
    hyperbolic = (Kind.SADDLE, Kind.SADDLE_FOCUS, Kind.INDETERMINATE)
    signs = np.sign(found.eigenvalues.real)
    mixed = (signs.min(axis=1, initial=1) < 0) & (signs.max(axis=1, initial=-1) > 0)
    for i in (i for i, kind in enumerate(found.kind) if mixed[i] and kind in hyperbolic):
        jac = settled_jacobian(field, found.x[i], field.scales.length)
        if not np.isfinite(jac).all():
            rough += 1
            continue
        values, vectors = np.linalg.eig(jac)
        for stable in (True, False):
            chosen = np.flatnonzero((values.real < 0) == stable)
            if len(chosen) > 1:
                skipped += 1
                continue
            pair = list(
                _launch_pair(
                    field, found.x[i], jac, i, stable, values[chosen[0]].real, vectors[:, chosen[0]].real
                )
            )
            usable = [launch for launch in pair if np.isfinite([*launch.x, launch.residual]).all()]
            launches, rough = launches + usable, rough + (len(usable) < len(pair))
    return launches, skipped, rough


def _launch_pair(
    field: VectorField,
    x: np.ndarray,
    jac: np.ndarray,
    origin: int,
    stable: bool,
    eigenvalue: float,
    vector: np.ndarray,
) -> Iterator[_Launch]:
    """Both starts on the expansion ``x + s v + s^2 w`` with (2 lambda - J) w = D^2 f [v, v] / 2."""
    length = field.scales.length
    vector = vector / np.linalg.norm(vector / length)
    curvature = field.directional(x, vector, vector) / 2
    bend = np.linalg.solve(2 * eigenvalue * np.eye(field.dim) - jac, curvature)
    for s in (_LAUNCH, -_LAUNCH):
        start = x + s * vector + s**2 * bend
        along = s * eigenvalue * (vector + 2 * s * bend) / length
        f = field(start) / length
        cosine = np.clip(f @ along / (np.linalg.norm(f) * np.linalg.norm(along)), -1.0, 1.0)
        yield _Launch(start, stable, origin, float(eigenvalue), float(np.arccos(cosine)))


# -------------------------------------------------------------------- tracing


class _UnitSpeed(VectorField):
    """A field at unit speed in lengths, or slower where it is itself close to rest; backwards if asked."""

    def __init__(self, field: VectorField, backwards: bool) -> None:
        super().__init__(field.dim, scales=field.scales)
        self._field = field
        self._sign = -1.0 if backwards else 1.0
        self._rest = _REST / field.scales.time

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        f = self._field._rhs(x)
        speed = np.linalg.norm(f / self.scales.length, axis=1, keepdims=True)
        return self._sign * f / np.sqrt(speed**2 + self._rest**2)


class _ComesToRest:
    """The event of the field becoming slow."""

    direction = -1

    def __init__(self, field: VectorField) -> None:
        self.field, self.rest = field, _REST / field.scales.time

    def __call__(self, t: np.ndarray, x: np.ndarray) -> np.ndarray:
        return np.linalg.norm(self.field(x) / self.field.scales.length, axis=1) - self.rest


class _Leaves:
    """The event of leaving a box."""

    direction = -1

    def __init__(self, box: Region) -> None:
        self.box = box

    def __call__(self, t: np.ndarray, x: np.ndarray) -> np.ndarray:
        return np.minimum(x - self.box.low, self.box.high - x).min(axis=1)


def _traced(
    field: VectorField,
    launches: Sequence[_Launch],
    found: FixedPoints,
    region: Region,
    t: np.ndarray,
    steps: int,
    progress: bool | None,
) -> tuple[list[ManifoldBranch], bool]:
    """Branches of one kind, and whether any ran out of steps."""
    stable = launches[0].stable
    with share_bar(progress, f"{'' if stable else 'un'}stable manifolds") as report_share:
        solution = integrate(
            [_UnitSpeed(field, stable)],
            np.array([launch.x for launch in launches]),
            t,
            rtol=_RTOL,
            events=(_ComesToRest(field), _Leaves(region.widened(_MARGIN))),
            max_step=10 * (t[1] - t[0]),
            max_steps=steps,
            progress=report_share,
        )
    events = {row: event for row, _, event, _ in solution.occurrences}
    branches = []
    for row, launch in enumerate(launches):
        status = solution.status[row]
        end, limit = _end(field, status, events.get(row), solution.x_stop[row], found)
        known = np.isfinite(solution.x[row]).all(axis=1)
        last = found.x[limit] if limit >= 0 else solution.x_stop[row]
        path = np.concatenate([found.x[[launch.origin]], solution.x[row, known], last[None]])
        branches.append(
            ManifoldBranch(
                path=path,
                stable=stable,
                origin=launch.origin,
                eigenvalue=launch.eigenvalue,
                end=end,
                limit=limit,
                residual=launch.residual,
                support=field.support(path),
            )
        )
    return branches, bool(np.isin(solution.status, list(SPENT)).any())


def _end(
    field: VectorField, status: int, event: int | None, x: np.ndarray, found: FixedPoints
) -> tuple[ManifoldEnd, int]:
    """Why a branch ended at x, and the fixed point it tends to or -1."""
    if status == Status.SUCCESS:
        return ManifoldEnd.LENGTH, -1
    if status != Status.EVENT:
        return ManifoldEnd.FAILED, -1
    if event == 1:
        return ManifoldEnd.REGION, -1
    distance = np.linalg.norm((found.x - x) / field.scales.length, axis=1)
    nearest = int(np.argmin(distance))
    if distance[nearest] < _NEAR:
        return ManifoldEnd.FIXED_POINT, nearest
    return ManifoldEnd.REST, -1
