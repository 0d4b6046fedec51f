"""continuation: equilibria of a family over its parameter, their bifurcations and the cycles born there.

Longer than five hundred lines: the result and the walk that makes it, from equilibria to cycles, are read
together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from fim_dynsys.analyze.bifurcation.circles import circle_from
from fim_dynsys.analyze.bifurcation.cycle_branches import (
    follow_beyond,
    follow_cycles,
    follow_orbit,
    passes_through,
)
from fim_dynsys.analyze.bifurcation.normal_forms import (
    at_kink,
    crossing_tangent,
    has_double_zero,
    on_continuum,
    smooth_lyapunov_coefficient,
    solve_branch_point,
    solve_fold,
    solve_hopf,
)
from fim_dynsys.analyze.bifurcation.on_levels import reduced
from fim_dynsys.analyze.cycles.periodic import LimitCycles
from fim_dynsys.analyze.lengths import SizedFamily, with_lengths
from fim_dynsys.analyze.levels import LevelLike
from fim_dynsys.analyze.results import (
    Effort,
    FieldLike,
    RegionLike,
    has_exact_jacobian,
    progress_bar,
    resolve_region,
    unwrap,
)
from fim_dynsys.analyze.tracing.branches import (
    Bifurcation,
    BifurcationKind,
    Branch,
    BranchKind,
    Continuation,
)
from fim_dynsys.analyze.tracing.curve import (
    BranchEnd,
    Jumped,
    Linear,
    Point,
    Problem,
    Trace,
    corrected,
    dense_linear,
    events_between,
    limit_between,
    trace,
)
from fim_dynsys.analyze.tracing.equations import ROOT, Equations
from fim_dynsys.deadline import out_of_time, time_limit
from fim_dynsys.errors import check_flags, check_whole, real_array
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.family import FieldFamily
from fim_dynsys.regions import Region
from fim_dynsys.threads import on_one_thread

if TYPE_CHECKING:
    from tqdm import tqdm

EXACT = 1e-8
"""Largest scaled imperfection of a branch point that is called one."""

_BIRTHS = (BifurcationKind.HOPF, BifurcationKind.GENERALIZED_HOPF)  # of cycles
# Solved for from two branches, a branch point differs by its imperfection at most, `EXACT`.
_SAME_POINT = 1e-5
_LANDED = 1e-9  # share of the least real part of eigenvalues that is left after a step onto a bifurcation
_TURNS = 1e-3  # of the largest eigenvalue: the imaginary part of one that is not rounding
_BOTH_VANISH = 1e-6  # eigenvalues, times the time scale of the field, of which two vanish at once
_SHORTER = 0.8  # of steps: a point within those of a kink stays so
_LATEST, _STUCK = 20, 1e-2  # points within so many lengths: steps no longer lead on
_OF_STATE = 1e-3  # of a state: differences have no shorter steps, see `VectorField`
_SMOOTH = 1e-7  # in units of the region: that near are points of two steps where there is no kink
_KINK = 1e-4  # share of the usual steps at a kink: it leaves an error of 1e-7 lengths, rounding one of 1e-9
_VANISHING = 1e-7  # scaled Lyapunov coefficient, or smallest distance |Re lambda|, that is taken for zero
_FOLLOWED = 0.8  # of the budget for branches of cycles from Hopf points; the rest for what explosions end
# Of the range: so far beyond its ends, and half of it beside a start, test functions are more than rounding.
_BESIDE = 1e-3
_ROUNDING = 1e-8  # of two eigenvalues: so far a sum of opposite ones may be off by differences of the field
_EDGE = 1e-9  # of the range: what is solved for as near to an end lies on it
_FIRST_POINTS = 6  # of a branch, which tell one from a continuum of equilibria at a single parameter value
# Eigenvalue near an end, or at a start, that may vanish there: at a fold a rounding of 1e-12 leaves its root.
_SINGULAR = 1e-5
_NEAR = 0.1  # share of a branch's median distance |Re lambda| below which a minimum is a near miss


@on_one_thread
def continuation(
    family: FieldFamily | FieldLike,
    x0: ArrayLike | LimitCycles,
    p_range: tuple[float, float],
    region: RegionLike | None = None,
    *,
    p0: ArrayLike | None = None,
    cycles: bool = True,
    doublings: int = 0,
    stay_supported: bool = False,
    max_points: int = 1000,
    budget: int = 10_000_000,
    progress: bool | None = None,
    level: LevelLike | None = None,
    over: str | None = None,
    max_seconds: float | None = None,
) -> Continuation:
    """Follow equilibria of a family over its parameter, round folds and through branch points.

    The equilibrium near `x0` is followed in both directions by pseudo-arclength continuation with adaptive
    steps. Folds, Hopf points and branch points are solved for exactly; at branch points the crossing branch
    is followed too; from Hopf points the cycles born there. Branches that are not connected to the start are
    not found: give one `x0` for each.

    Parameters
    ----------
    family : FieldFamily, or VectorField or fitted model
        A smooth family; a single field with `over`.
    x0 : array_like (d,) or (k, d), or LimitCycles
        Guesses of an equilibrium, one or several; or cycles found at `p0`, whose branches alone are followed.
    p_range : (float, float)
        Range of the parameter; the start comes first.
    region : Region, dict or sequence of pairs, optional
        Box in which branches are followed; default the family's, else none.
    p0 : float or array_like (k,), optional
        Parameter value at which `x0` is a guess, one for all or one each; default the first of `p_range`.
    cycles : bool
        Whether to follow cycles from Hopf points.
    doublings : int
        How many times to go on from period doublings to cycles of twice the period.
    stay_supported : bool
        Whether branches end where the field is unsupported (support below 0.5).
    max_points : int
        Largest number of points of a branch and direction.
    budget : int
        Largest number of points at which the field is evaluated, in all.
    progress : bool, optional
        Whether to show how far the work is; by default on a terminal only.
    level : dict or array_like (d,), optional
        Where the family conserves linear sums of its states, the level set on which branches are followed:
        totals such as ``{"S+I+R": 1}``, or a state on it; default that of `x0`.
    over : str, optional
        A sum that a single field conserves, such as ``"S+I+R"``: its total is the parameter, with `p_range`
        as its range. The other sums have the totals of `level` or `x0`.
    max_seconds : float, optional
        Time on the clock after which the search ends with what it has; default no limit.

    Returns
    -------
    Continuation

    Raises
    ------
    TypeError
        If `family` is no FieldFamily.
    ValueError
        If the family is not smooth, the range is empty, there is no equilibrium near `x0`, or a sum is not
        conserved.

    References
    ----------
    H. B. Keller, Numerical solution of bifurcation and nonlinear eigenvalue problems, in P. Rabinowitz (ed.),
    Applications of Bifurcation Theory, Academic Press 1977, section 4 (pseudo-arclength).

    See Also
    --------
    bifurcation_curves : Over two parameters.
    fim_dynsys.plot.bifurcation_diagram : Draws the branches.

    Examples
    --------
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze
    >>> family = fim_dynsys.SymbolicField(["mu - x0**2"], {"mu": 1.0}).family("mu")
    >>> found = analyze.continuation(family, [1.0], (-1.0, 1.0), p0=1.0)
    >>> [(b.kind.name, abs(round(b.p, 6))) for branch in found.branches for b in branch.bifurcations][:1]
    [('FOLD', 0.0)]
    """
    check_whole("continuation", 1, max_points=max_points, budget=budget)
    check_whole("continuation", 0, doublings=doublings)
    check_flags("continuation", cycles=cycles, stay_supported=stay_supported)
    followed = unwrap(family, "continuation") if over is not None else family
    ends = real_array(p_range, "continuation", "p_range")
    if isinstance(followed, FieldFamily | VectorField) and ends.shape == (2,) and np.isfinite(ends).all():
        known_ends = float(ends[0]), float(ends[1])
        on_level = reduced(followed, x0, known_ends, region, level, over)
        if on_level is not None:
            return on_level.embedded(
                continuation(
                    on_level.family,
                    on_level.x0,
                    p_range,
                    on_level.region,
                    p0=p0,
                    cycles=cycles,
                    doublings=doublings,
                    stay_supported=stay_supported,
                    max_points=max_points,
                    budget=budget,
                    progress=progress,
                    max_seconds=max_seconds,
                )
            )
    if not isinstance(family, FieldFamily):
        raise _no_family(family)
    orbits = list(x0.orbits) if isinstance(x0, LimitCycles) else None
    guesses = x0.x if isinstance(x0, LimitCycles) else x0
    starts, p_range, p0, region = _checked(family, guesses, p_range, p0, region)
    equations = Equations(family, p_range, region, starts)
    equations.supported_only = stay_supported
    bar = progress_bar(progress, budget, "continuation", "points at most")
    with time_limit("continuation", max_seconds), bar:
        if orbits is not None and isinstance(x0, LimitCycles):
            known = list(zip(x0.period, orbits, p0, strict=True))
            return _through_cycles(equations, known, max_points, budget, bar, doublings)
        roots = [equations.root(start, p) for start, p in zip(starts, p0, strict=True)]
        return follow(equations, roots, cycles, max_points, budget, bar, doublings)


def _through_cycles(
    equations: Equations,
    known: list[tuple[float, np.ndarray, float]],
    max_points: int,
    budget: int,
    bar: tqdm,
    doublings: int,
) -> Continuation:
    """The branches through cycles, each given by its period, states at equal times, and its parameter."""
    explorer = _Explorer(equations, max_points, budget, bar)
    branches: list[Branch] = []
    for period, orbit, p in known:
        times = np.linspace(0.0, period, len(orbit))
        if any(passes_through(equations, branch, times, orbit, p) for branch in branches):
            continue
        found = follow_orbit(equations, times, orbit, p, explorer.spend, max_points, doublings)
        if not found:
            raise ValueError(
                f"continuation: expected cycles of the family at {equations.family.parameter} = {p:g}, found "
                f"none near that of period {period:g}; pass p0, the value at which they were found."
            )
        branches += found
    branches += follow_beyond(equations, branches, explorer.spend, max_points, doublings)
    return explorer.result(branches, len(known))


def follow(
    equations: Equations,
    roots: Sequence[np.ndarray],
    cycles: bool = True,
    max_points: int = 1000,
    budget: int = 10_000_000,
    bar: tqdm | None = None,
    doublings: int = 0,
) -> Continuation:
    """Follow the branches through known equilibria; see `continuation`.

    Parameters
    ----------
    equations : Equations
        The family, its range and region.
    roots : sequence of ndarray (d + 1,)
        Scaled equilibria; those on a branch already followed are left out.
    cycles, max_points, budget
        As for `continuation`.
    bar : tqdm, optional
        Counts the points at which the field is evaluated.
    doublings : int
        As for `continuation`.

    Returns
    -------
    Continuation
    """
    explorer = _Explorer(equations, max_points, budget, bar)
    for root in roots:
        explorer.explore(root)
    explorer = explorer.in_fitting_units().beyond_the_ends()
    spent, equations = equations, explorer.equations
    branches = list(explorer.branches)
    if cycles:
        births = [b for branch in branches for b in branch.bifurcations if b.kind in _BIRTHS]
        share = int(_FOLLOWED * budget)
        branches += follow_cycles(equations, births, explorer.spend, max_points, share, doublings)
        branches += follow_beyond(equations, branches, explorer.spend, max_points, doublings)
    spent.points = equations.points
    return explorer.result(branches, len(roots))


@dataclass(frozen=True)
class _Info:
    """What is known of an equilibrium: eigenvalues (d,) in units of the field, instability, residual."""

    eigenvalues: np.ndarray
    n_unstable: int
    residual: float


def _product_of_sums(values: np.ndarray) -> float:
    """Of eigenvalues in pairs, which changes its sign at a Hopf bifurcation; 0 where a sum is rounding.

    Along a family of centres all sums of a pair are: their signs say nothing.
    """
    i, j = np.triu_indices(len(values), 1)
    sums, sizes = values[i] + values[j], np.abs(values[i]) + np.abs(values[j])
    if (np.abs(sums) <= _ROUNDING * sizes).any():
        return 0.0
    return float(np.prod(sums / np.abs(values).max()).real)


class _Curve(Problem):
    """The curve of equilibria, and the test functions on it."""

    located_to = 1e-4
    may_close = True
    turn = 0.12  # 7 degrees: a half circle takes 26 steps
    parameters = 1

    def __init__(self, equations: Equations, beyond: float = 0.0) -> None:
        self.equations, self.beyond = equations, beyond
        self.metric = np.ones(equations.family.dim + 1)

    def linearise(self, u: np.ndarray, row: np.ndarray) -> Linear:
        f, matrix = self.equations.values(u), self.equations.matrix(u)
        return dense_linear(f, matrix, (f, matrix[:, :-1]), row)

    def start(self, u: np.ndarray, tangent: np.ndarray, crossed: bool = False) -> Point:
        """A root as the first point of a trace; where branches cross, turns and determinants are rounding."""
        tangent = tangent / np.linalg.norm(tangent)
        point = self.observe(u, tangent, self.linearise(u, tangent))
        known = {name: value for name, value in point.tests.items() if name == "hopf"}
        return replace(point, tests=known) if crossed else point

    def observe(self, u: np.ndarray, tangent: np.ndarray, linear: Linear) -> Point:
        f, jac = linear.info
        values = np.linalg.eigvals(jac)
        info = _Info(
            values / self.equations.time, int(np.count_nonzero(values.real > 0)), float(np.abs(f).max())
        )
        tests = {"fold": tangent[-1], "branch": linear.orientation(tangent)}
        if len(values) > 1:
            tests["hopf"] = _product_of_sums(values)
        return Point(u, tangent, tests, info)

    def margins(self, point: Point) -> dict[BranchEnd, float]:
        _, p = self.equations.unscaled(point.u[:-1], point.u[-1])
        return {
            BranchEnd.P_RANGE: self.equations.room_in_range(p) + self.beyond,
            BranchEnd.REGION: self.equations.room_in_region(point.u[:-1]),
        } | self.equations.room_in_support(point.u[:-1], point.u[-1])

    def landed(self, before: Point, after: Point) -> bool:
        least, near = (float(np.abs(own.info.eigenvalues.real).min()) for own in (before, after))
        return near < _LANDED * least

    def suspicious(self, before: Point, after: Point) -> bool:
        change = abs(after.info.n_unstable - before.info.n_unstable)
        return change > 1 and not before.tests["hopf"] * after.tests["hopf"] < 0

    def identify(
        self, changed: set[str], before: Point, located: Point, fine: bool
    ) -> list[tuple[Point, Bifurcation]]:
        near = 10 * float(np.linalg.norm(located.u - before.u)) + 1e-3
        distance = np.abs(located.info.eigenvalues.real).min() * self.equations.time
        try:
            if "branch" in changed:
                here = self._branch_point(located, before, near)
                if "hopf" not in changed or not _has_pair(here[1].eigenvalues):
                    return [here]
                return [here, self._event(located, before, here[0].u, BifurcationKind.DEGENERATE, distance)]
            found = [self._fold(located, before, near)] if "fold" in changed else []
            if "hopf" in changed and not any(b.kind is BifurcationKind.BOGDANOV_TAKENS for _, b in found):
                found += self._hopf(located, before, near)
            if changed:
                return found
        except (FloatingPointError, np.linalg.LinAlgError):
            if not fine:
                raise Jumped from None
        return [self._event(located, before, located.u, BifurcationKind.DEGENERATE, distance)]

    def _branch_point(self, located: Point, before: Point, near: float) -> tuple[Point, Bifurcation]:
        u, residual = self._solved(solve_branch_point, located.u)
        _demand(residual < EXACT and np.linalg.norm(u - located.u) < near)
        # So near, any direction between the branches solves the linear equations: the way there tells which.
        way, length = u - before.u, float(np.linalg.norm(u - before.u))
        located = replace(located, tangent=way / length if length > _SAME_POINT else before.tangent)
        return self._event(located, before, u, BifurcationKind.BRANCH_POINT, residual)

    def _fold(self, located: Point, before: Point, near: float) -> tuple[Point, Bifurcation]:
        u, residual = self._solved(solve_fold, located.u)
        _demand(np.linalg.norm(u - located.u) < near)
        twice = has_double_zero(self.equations.jacobian(u))
        kind = BifurcationKind.BOGDANOV_TAKENS if twice else BifurcationKind.FOLD
        return self._event(located, before, u, kind, residual)

    def _solved(
        self, solve: Callable[[Equations, np.ndarray], tuple[np.ndarray, float]], u: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """A point where the Jacobian is singular; at a kink of a field that is differenced, the kink itself.

        Differences find it off by a share of their steps, which two sizes of these tell.
        """
        found, residual = solve(self.equations, u)
        x, p = self.equations.unscaled(found[:-1], found[-1])
        if has_exact_jacobian(self.equations.family.at(p)):
            return found, residual
        try:
            whole, part = (solve(self._with_steps(x, p, share), found)[0] for share in (1.0, _SHORTER))
        except FloatingPointError:
            return found, residual
        if np.linalg.norm(whole - part) < _SMOOTH:
            return found, residual
        kink = (part - _SHORTER * whole) / (1.0 - _SHORTER)
        rest = float(np.abs(self.equations.values(kink)).max())
        return (kink, rest) if rest < EXACT else (found, residual)

    def _with_steps(self, x: np.ndarray, p: float, share: float) -> Equations:
        """The equations, differenced with steps that are a share of the usual ones near a state."""
        fine, equations = copy(self.equations), self.equations
        known = equations.differentiable.at(p).frame.length
        lengths = share * (equations.unit if known is None else np.maximum(known, _OF_STATE * np.abs(x)))
        fine.differentiable = SizedFamily(
            equations.family, lambda field: with_lengths(field, lengths), equations.width
        )
        return fine

    def _hopf(self, located: Point, before: Point, near: float) -> list[tuple[Point, Bifurcation]]:
        values = located.info.eigenvalues * self.equations.time
        sums = np.abs(np.add.outer(values, values)) + np.diag(np.full(len(values), np.inf))
        i, j = np.unravel_index(np.argmin(sums), sums.shape)
        if abs(values[i].imag) < 1e-6 * np.abs(values).max():
            # Two opposite real eigenvalues, a saddle, to which nothing happens; unless both vanish.
            others = np.abs(before.info.eigenvalues).max() * self.equations.time
            _demand(abs(values[i]) > max(1e-2 * others, _BOTH_VANISH))
            return []
        eigenvalue = values[i] if values[i].imag > 0 else values[j]
        u, omega, residual = solve_hopf(self.equations, located.u, eigenvalue)
        _demand(np.linalg.norm(u - located.u) < near)
        x, p = self.equations.unscaled(u[:-1], u[-1])
        lengths = self.equations.unit
        coefficient = smooth_lyapunov_coefficient(self.equations.differentiable.at(p), x, lengths)
        if coefficient is None:  # a kink: the Jacobian is known as well as its steps are short
            u, omega, residual = solve_hopf(self._with_steps(x, p, _KINK), u, eigenvalue)
        vanishes = coefficient is not None and abs(coefficient) * np.mean(lengths) ** 2 < _VANISHING
        return [
            self._event(
                located,
                before,
                u,
                BifurcationKind.GENERALIZED_HOPF if vanishes else BifurcationKind.HOPF,
                residual,
                period=2.0 * np.pi / omega * self.equations.time,
                lyapunov_coefficient=coefficient,
            )
        ]

    def _event(
        self,
        located: Point,
        before: Point,
        u: np.ndarray,
        kind: BifurcationKind,
        residual: float,
        **more: float | None,
    ) -> tuple[Point, Bifurcation]:
        row = self.metric * before.tangent
        exact = self.observe(u, located.tangent, self.linearise(u, row))
        x, p = self.equations.unscaled(u[:-1], u[-1])
        info = replace(exact.info, n_unstable=before.info.n_unstable)
        support = self.equations.support(x, p)
        event = Bifurcation(kind, p, x, float(residual), info.eigenvalues, support, **more)
        return replace(exact, info=info), event


def _has_pair(eigenvalues: np.ndarray) -> bool:
    """Whether there are imaginary ones."""
    size = float(np.abs(eigenvalues).max())
    imaginary = (np.abs(eigenvalues.real) < _BOTH_VANISH * size) & (eigenvalues.imag > _TURNS * size)
    return bool(imaginary.any())


def _demand(condition: bool | np.bool_) -> None:
    if not condition:
        raise FloatingPointError("converged elsewhere")


class _Explorer:
    """Follows branches of equilibria from starts and from the branch points on the way.

    They are followed beyond the ends of the range by a share of it, and cut there.
    """

    def __init__(
        self, equations: Equations, max_points: int, budget: int, bar: tqdm | None, beyond: float = 0.0
    ) -> None:
        self.bar = bar
        self.equations, self.curve, self.within = equations, _Curve(equations, beyond), _Curve(equations)
        self.max_points, self.budget = max_points, budget
        self.iterations = 0
        self.roots: list[np.ndarray] = []
        self.branches: list[Branch] = []
        # Branch points, each with the tangents followed there.
        self.crossings: list[tuple[np.ndarray, list[np.ndarray]]] = []
        self.curves: list[np.ndarray] = []

    def spend(self, iterations: int) -> bool:
        """Note Newton iterations; tells whether budget and time allow more."""
        self.iterations += iterations
        if self.bar is not None:
            self.bar.update(self.equations.points - self.bar.n)
        return self.equations.points < self.budget and not out_of_time()

    def result(self, branches: Sequence[Branch], n_starts: int) -> Continuation:
        """Branches and the effort behind them."""
        equations = self.equations
        return Continuation(
            state_names=equations.family.state_names,
            units={},
            effort=Effort(
                seeds=n_starts,
                iterations=self.iterations,
                points=equations.points,
                budget=self.budget,
                exhausted=any({BranchEnd.POINTS, BranchEnd.BUDGET} & {*branch.ends} for branch in branches),
            ),
            parameter=equations.family.parameter,
            p_range=(equations.low, equations.high),
            branches=tuple(branches),
        )

    def explore(self, u: np.ndarray) -> None:
        """Follow the branch through a root, and those that cross it."""
        self.roots.append(u)
        if any(_lies_on(u, curve) for curve in self.curves):
            return
        tangent = np.linalg.svd(self.equations.matrix(u))[2][-1]
        done = len(self.crossings)
        self._follow(u, tangent if tangent[-1] >= 0 else -tangent)
        while done < len(self.crossings):
            u, tangents = self.crossings[done]
            across = crossing_tangent(self.equations, u, tangents[0])
            if across is not None and not any(_parallel(across, known) for known in tangents):
                tangents.append(across)
                self._follow(u, across, crossed=True)
            done += 1

    def in_fitting_units(self) -> _Explorer:
        """Itself, or one that followed the same in units of the states, where these stay small."""
        states = [branch.x for branch in self.branches]
        equations = self.equations.fitted(np.concatenate(states)) if states and self.spend(0) else None
        if equations is None:
            return self
        other = self._another(equations)
        places = [self.equations.unscaled(u[:-1], u[-1]) for u in self.roots]
        try:
            for x, p in places:
                other.explore(equations.root(x, p))
        except ValueError:  # in these units it is no equilibrium
            return self._instead_of(other)
        return other

    def beyond_the_ends(self) -> _Explorer:
        """Itself, or one that followed the branches across what may happen at a start or an end of the range.

        There, test functions are rounding, and a step may find no point to land on.
        """
        fastest = max((float(np.abs(b.eigenvalues).max()) for b in self.branches), default=0.0)
        if not self.spend(0) or not self._misses(fastest):
            return self
        other = self._another(copy(self.equations), _BESIDE)
        try:
            for u in self.roots:
                other.explore(other._beside(u, fastest))
        except (ValueError, ArithmeticError):  # the family is not defined beyond
            return self._instead_of(other)
        stuck, before = (
            sum(branch.ends.count(BranchEnd.STEP) for branch in explorer.branches)
            for explorer in (other, self)
        )
        return other if other.branches and stuck <= before else self._instead_of(other)

    def _another(self, equations: Equations, beyond: float = 0.0) -> _Explorer:
        other = _Explorer(equations, self.max_points, self.budget, self.bar, beyond)
        other.iterations = self.iterations
        return other

    def _instead_of(self, other: _Explorer) -> _Explorer:
        """Itself, with the effort of another one added."""
        self.iterations, self.equations.points = other.iterations, other.equations.points
        return self

    def _misses(self, fastest: float) -> bool:
        """Whether a bifurcation at a start or at an end of the range may have been missed."""
        if any(self._is_singular(u, fastest) for u in self.roots):
            return True
        for branch in self.branches:
            for k, end in zip((0, -1), branch.ends, strict=True):
                landed = self.equations.room_in_range(branch.p[k]) < _EDGE
                vanishes = np.abs(branch.eigenvalues[k].real).min() <= _SINGULAR * fastest
                if end is BranchEnd.P_RANGE and (vanishes or not landed):
                    return True
        return False

    def _is_singular(self, u: np.ndarray, fastest: float) -> bool:
        values = np.linalg.eigvals(self.equations.jacobian(u)).real / self.equations.time
        return bool(np.abs(values).min() <= _SINGULAR * fastest)

    def _beside(self, u: np.ndarray, fastest: float) -> np.ndarray:
        """A root a little away from one at which an eigenvalue may vanish; else the same."""
        if not self._is_singular(u, fastest):
            return u
        _, sizes, directions = np.linalg.svd(self.equations.matrix(u))
        found = []
        for way in (1.0, -1.0):
            if sizes[-1] > _SINGULAR * fastest * self.equations.time:
                start = self.curve.start(u, way * directions[-1])
                outcome = corrected(self.curve, start, _BESIDE / 2.0, self.spend)
                found += [] if outcome is None else [outcome[0].u]
            else:  # branches cross: each of them will do
                x, p = self.equations.unscaled(u[:-1], u[-1] + way * _BESIDE / 2.0)
                other, residual = self.equations.find_root(x, p)
                near = np.linalg.norm(other - u) < np.sqrt(_BESIDE) * max(1.0, float(np.linalg.norm(u)))
                found += [other] if residual < ROOT and near else []
        return max(found, key=self._room, default=u)

    def _room(self, u: np.ndarray) -> float:
        return self.equations.room_in_range(self.equations.unscaled(u[:-1], u[-1])[1])

    def _follow(self, u: np.ndarray, tangent: np.ndarray, crossed: bool = False) -> None:
        if crossed:
            first = trace(self.curve, self.curve.start(u, tangent, crossed), self.spend, _FIRST_POINTS)
            if all(abs(point.u[-1] - u[-1]) < _EDGE for point in first.points) and len(first.points) > 1:
                return self._add(first.points, [], (BranchEnd.CONTINUUM, BranchEnd.CONTINUUM))
        ahead = trace(self.curve, self.curve.start(u, tangent, crossed), self.spend, self.max_points)
        points, events, end = ahead.points, ahead.events, ahead.end
        ends = end, end
        if end is not BranchEnd.CLOSED:
            behind = trace(self.curve, self.curve.start(u, -tangent, crossed), self.spend, self.max_points)
            shift = len(behind.points) - 1
            events = [(shift - i, event) for i, event in reversed(behind.events)] + [
                (shift + i, event) for i, event in events
            ]
            points = [_turned(point) for point in behind.points[:0:-1]] + points
            ends = behind.end, end
        ends = self._explained(ends[0], points), self._explained(ends[1], points[::-1])
        points, events = self._with_near_misses(points, events)
        if self.curve.beyond == 0.0:
            self._add(points, events, ends)
            return
        for piece in self._pieces(points, events, ends):
            self._add(*piece)

    def _pieces(
        self, points: list[Point], events: list[tuple[int, Bifurcation]], ends: tuple[BranchEnd, BranchEnd]
    ) -> Iterator[tuple[list[Point], list[tuple[int, Bifurcation]], tuple[BranchEnd, BranchEnd]]]:
        """Pieces of a branch within the range of the parameter, from edge to edge."""
        inside = [self._room(point.u) > -_EDGE for point in points]
        points = [self._on_edge(point) for point in points]
        known = [(i, replace(event, p=self._snapped(event.p))) for i, event in events]
        known = [(i, event) for i, event in known if self.equations.room_in_range(event.p) >= 0]
        steps = np.flatnonzero(np.diff([False, *inside, False]))
        for first, last in zip(steps[::2], steps[1::2] - 1, strict=True):
            piece, shift = points[first : last + 1], int(first)
            if first > 0:
                edge = self._edge(_turned(points[first]), _turned(points[first - 1]))
                piece, shift = [*map(_turned, edge), *piece], shift - len(edge)
            if last < len(points) - 1:
                piece = [*piece, *self._edge(points[last], points[last + 1])]
            # What is solved for between two points is noted at one of them, here at the one within.
            kept = [
                (min(max(i, first), last) - shift, event) for i, event in known if first - 1 <= i <= last + 1
            ]
            # The rest of a branch that only touches the range is known from the one it touches.
            if len(piece) > 1 or any(self._crossing_at(piece[i]) is None for i, _ in kept):
                yield (
                    piece,
                    kept,
                    (
                        BranchEnd.P_RANGE if first > 0 else ends[0],
                        BranchEnd.P_RANGE if last < len(points) - 1 else ends[1],
                    ),
                )

    def _snapped(self, p: float) -> float:
        """The parameter value, or the end of the range where it is as near as can be told."""
        equations = self.equations
        nearer = min((equations.low, equations.high), key=lambda end: abs(end - p))
        return nearer if abs(equations.room_in_range(p)) <= _EDGE else p

    def _on_edge(self, point: Point) -> Point:
        """The point, at an end of the range where it is as near as can be told."""
        if abs(self._room(point.u)) > _EDGE:
            return point
        u = point.u.copy()
        u[-1] = np.round(u[-1])  # the ends are 0 and 1
        return replace(point, u=u)

    def _edge(self, here: Point, there: Point) -> list[Point]:
        """The point at an end of the range between one within and one beyond; none where `here` is."""
        edge = here if self._room(here.u) < _EDGE else limit_between(self.within, here, there, self.spend)
        return [] if edge is here else [edge]

    def _add(
        self, points: list[Point], events: list[tuple[int, Bifurcation]], ends: tuple[BranchEnd, BranchEnd]
    ) -> None:
        """Note a branch, its bifurcations and what they are."""
        events = [(i, event) for i, event in events if self._is_new(points[i], event)]
        self.curves.append(np.array([point.u for point in points]))
        circles = {
            i: circle_from(self.equations, points[i].u, points[i].info.n_unstable)
            for i, event in events
            if event.kind is BifurcationKind.DEGENERATE
        }
        named = [
            event
            if (circle := circles.get(i)) is None
            else replace(event, kind=BifurcationKind.CIRCLE, normal_form=circle.coefficient)
            for i, event in events
        ]
        self.branches.append(self._branch(points, named, ends))
        self.branches += [circle.branch for circle in circles.values() if circle is not None]

    def _explained(self, end: BranchEnd, points: Sequence[Point]) -> BranchEnd:
        """The end of a branch, by its points from there, where only short steps converge.

        That is a continuum, or a kink, or a bend that is as sharp for the steps.
        """
        last = points[0].u
        if end is BranchEnd.STEP and on_continuum(self.equations, last):
            return BranchEnd.CONTINUUM
        latest = np.array([point.u for point in points[:_LATEST]])
        stuck = end is BranchEnd.STEP or (end is BranchEnd.POINTS and np.ptp(latest, axis=0).max() < _STUCK)
        return BranchEnd.KINK if stuck and at_kink(self.equations, last) else end

    def _is_new(self, point: Point, event: Bifurcation) -> bool:
        """Whether an event is no branch point known from another branch; its tangents are noted."""
        if event.kind is not BifurcationKind.BRANCH_POINT:
            return True
        tangents = self._crossing_at(point)
        if tangents is not None:
            tangents.append(point.tangent)
            return False
        self.crossings.append((point.u, [point.tangent]))
        return True

    def _crossing_at(self, point: Point) -> list[np.ndarray] | None:
        """The tangents followed at the known branch point that a point is; None if it is none."""
        for u, tangents in self.crossings:
            if np.linalg.norm(u - point.u) < _SAME_POINT * max(1.0, float(np.linalg.norm(u))):
                return tangents
        return None

    def _with_near_misses(
        self, points: list[Point], events: list[tuple[int, Bifurcation]]
    ) -> tuple[list[Point], list[tuple[int, Bifurcation]]]:
        """Points and events of a branch with what minima of the distance |Re lambda| tell beside.

        A small one is a near miss; where the eigenvalue passes the axis and comes back within the two steps,
        two bifurcations.
        """
        distance = np.array([_distance(point) for point in points])
        at: dict[int, tuple[Bifurcation, ...]] = dict.fromkeys((i for i, _ in events), ())
        taken = {*at, *(k for k, point in enumerate(points) if self._crossing_at(point) is not None)}
        whole = Trace()
        for i, event in events:
            at[i] = (*at[i], event)
        for k, point in enumerate(points):
            around = points[max(k - 1, 0) : k + 2]
            steady = len({other.info.n_unstable for other in around}) == 1
            small = (
                0 < k < len(points) - 1
                and distance[k] < min(distance[k - 1], distance[k + 1], _NEAR * np.median(distance))
                and steady
                and not taken & {k - 1, k, k + 1}
            )
            for there, missed in self._near_miss(*around) if small else [(point, None)]:
                whole.points.append(there)
                whole.events += [(len(whole.points) - 1, missed)] if missed is not None else []
            whole.events += [(len(whole.points) - 1, known) for known in at.get(k, ())]
        return whole.points, whole.events

    def _near_miss(
        self, before: Point, middle: Point, after: Point
    ) -> list[tuple[Point, Bifurcation | None]]:
        """What takes the place of a point of least distance between its neighbours."""
        closest = self._closest(before, middle, after)
        if closest.info.n_unstable != before.info.n_unstable:
            try:
                pair = [
                    *events_between(self.curve, before, closest, self.spend),
                    (closest, None),
                    *events_between(self.curve, closest, after, self.spend),
                ]
            except Jumped:
                pair = []
            if len(pair) == 3:
                return pair
        x, p = self.equations.unscaled(closest.u[:-1], closest.u[-1])
        support = self.equations.support(x, p)
        residual = _distance(closest) * self.equations.time
        event = Bifurcation(self._touch(closest, before), p, x, residual, closest.info.eigenvalues, support)
        return [(middle, event)]

    def _touch(self, closest: Point, before: Point) -> BifurcationKind:
        """What a minimum of the distance is: a near miss, or where it vanishes, something degenerate."""
        scaled = np.sort(np.abs(closest.info.eigenvalues))
        if scaled[0] > _VANISHING * max(scaled[-1], 1.0 / self.equations.time):
            return BifurcationKind.NEAR_MISS
        smallest = np.linalg.svd(self.equations.matrix(closest.u), compute_uv=False)[-1]
        regular = smallest > np.sqrt(_VANISHING) * np.linalg.norm(self.equations.matrix(before.u))
        return BifurcationKind.CUSP if regular else BifurcationKind.DEGENERATE

    def _closest(self, before: Point, middle: Point, after: Point) -> Point:
        """The point of least distance between two neighbours of a minimum, negative beyond the axis."""
        reach = float(before.tangent @ (after.u - before.u))

        def signed(point: Point) -> float:
            beyond = point.info.n_unstable != before.info.n_unstable
            return -_distance(point) if beyond else _distance(point)

        def distance(sigma: float) -> float:
            outcome = corrected(self.curve, before, sigma, self.spend)
            return np.inf if outcome is None else signed(outcome[0])

        best = minimize_scalar(distance, bounds=(0.0, reach), method="bounded", options={"xatol": 1e-9}).x
        outcome = corrected(self.curve, before, best, self.spend)
        return middle if outcome is None or signed(outcome[0]) > signed(middle) else outcome[0]

    def _branch(
        self, points: list[Point], events: list[Bifurcation], ends: tuple[BranchEnd, BranchEnd]
    ) -> Branch:
        states = [self.equations.unscaled(point.u[:-1], point.u[-1]) for point in points]
        return Branch(
            kind=BranchKind.EQUILIBRIA,
            p=np.array([p for _, p in states]),
            x=np.array([x for x, _ in states]),
            n_unstable=np.array([point.info.n_unstable for point in points]),
            eigenvalues=np.array([point.info.eigenvalues for point in points]).astype(complex),
            residual=np.array([point.info.residual for point in points]),
            support=np.array([self.equations.support(x, p) for x, p in states]),
            bifurcations=tuple(events),
            ends=ends,
        )


def _turned(point: Point) -> Point:
    return replace(point, tangent=-point.tangent)


def _distance(point: Point) -> float:
    return float(np.abs(point.info.eigenvalues.real).min())


def _parallel(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two directions span an angle of less than 15 degrees."""
    return abs(a @ b) > 0.966 * np.linalg.norm(a) * np.linalg.norm(b)


def _lies_on(u: np.ndarray, curve: np.ndarray) -> bool:
    """Whether a point lies on a polyline, up to the sagitta of the steps."""
    start, way = curve[:-1], np.diff(curve, axis=0)
    square = np.maximum((way**2).sum(axis=1), 1e-300)
    share = np.clip(((u - start) * way).sum(axis=1) / square, 0.0, 1.0)
    miss = np.linalg.norm(u - start - share[:, None] * way, axis=1)
    return bool((miss < 2e-3 * max(1.0, float(np.linalg.norm(u)))).any())


def _no_family(given: object) -> TypeError:
    return TypeError(
        f"continuation: expected a FieldFamily, got {type(given).__name__}; make one with "
        "FieldFamily.from_callable or FieldFamily.from_fields, or of a SymbolicField with parameters by "
        "field.family(name); or pass over='S+I+R' to follow a field over the total of a conserved sum."
    )


def _checked(
    family: FieldFamily,
    x0: ArrayLike,
    p_range: tuple[float, float],
    p0: ArrayLike | None,
    region: RegionLike | None,
) -> tuple[np.ndarray, tuple[float, float], np.ndarray, Region | None]:
    if not family.smooth:
        raise ValueError(
            f"continuation: expected a family that is smooth in {family.parameter}, got one without "
            "interpolation; pass interpolate='spline' to FieldFamily.from_fields, or use "
            "bifurcations_from_data."
        )
    starts = np.atleast_2d(real_array(x0, "continuation", "x0"))
    if starts.ndim != 2 or starts.shape[1] != family.dim or not np.isfinite(starts).all():
        raise ValueError(
            f"continuation: expected finite x0 of shape ({family.dim},) or (k, {family.dim}), got {x0!r}."
        )
    ends = real_array(p_range, "continuation", "p_range")
    if ends.shape != (2,) or not np.isfinite(ends).all() or ends[0] == ends[1]:
        raise ValueError(f"continuation: expected p_range as two different numbers, got {p_range!r}.")
    p0 = real_array(ends[0] if p0 is None else p0, "continuation", "p0")
    if p0.shape not in ((), (len(starts),)) or not ((p0 >= ends.min()) & (p0 <= ends.max())).all():
        raise ValueError(
            f"continuation: expected p0 inside {tuple(ends.tolist())}, one or {len(starts)}, got "
            f"{p0.tolist()}."
        )
    p0 = np.broadcast_to(p0, len(starts))
    region = family.region if region is None else resolve_region(family.at(ends[0]), region, "continuation")
    return starts, (float(ends[0]), float(ends[1])), p0, region
