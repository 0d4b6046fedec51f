"""bifurcation_curves: bifurcations of equilibria and cycles over two parameters, and where they meet.

A little above five hundred lines: a curve of each kind, the events on it, and how they lead to further
curves.
"""

import abc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.analyze.bifurcation.arclength import continuation
from fim_dynsys.analyze.bifurcation.cycle_branches import follow_cycles
from fim_dynsys.analyze.bifurcation.cycle_curves import OF_CYCLES, follow_curve
from fim_dynsys.analyze.bifurcation.normal_forms import (
    cusp_coefficient,
    double_zero_coefficients,
    first_lyapunov_coefficient,
)
from fim_dynsys.analyze.bifurcation.two_parameters import (
    BifurcationCurve,
    BifurcationCurves,
    CodimensionTwo,
    System,
)
from fim_dynsys.analyze.cycles.periodic import LimitCycles
from fim_dynsys.analyze.results import PATIENCE, Effort, RegionLike, progress_bar, resolve_region
from fim_dynsys.analyze.tracing.branches import Bifurcation, BifurcationKind, Branch
from fim_dynsys.analyze.tracing.curve import (
    BranchEnd,
    Jumped,
    Linear,
    Point,
    Problem,
    Trace,
    corrected,
    dense_linear,
    trace,
)
from fim_dynsys.analyze.tracing.equations import Equations
from fim_dynsys.deadline import out_of_time, time_limit
from fim_dynsys.errors import check_flags, check_number, check_whole, real_array
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.plane import FieldPlane
from fim_dynsys.threads import on_one_thread

if TYPE_CHECKING:
    from tqdm import tqdm

_FOLD, _HOPF = BifurcationKind.FOLD, BifurcationKind.HOPF
_START = 1e-9  # largest scaled residual of a point to start from
_CORRECTIONS = 20  # of Newton's method, which is quadratic near the end
_SLOW = 1e-6  # scaled squared frequency below which the Lyapunov coefficient has lost its digits
_FIRST_STEP = 1e-2  # from a double zero, where the frequency vanishes
_BESIDE = 0.04  # scaled distance from a point of codimension two of the Hopf points whose cycles are followed
_BRIEF = 80  # points of such a branch of cycles
_STANDS = 1e-6  # share of the range within which cycles of one period stand for homoclinic orbits


@on_one_thread
@np.errstate(all="ignore")  # what overflows is judged by what comes of it
def bifurcation_curves(
    plane: FieldPlane,
    x0: ArrayLike | LimitCycles,
    p_range: tuple[float, float],
    q_range: tuple[float, float],
    region: RegionLike | None = None,
    *,
    p0: float | None = None,
    q0: float | None = None,
    cycles: bool = False,
    max_points: int = 500,
    budget: int = 50_000_000,
    progress: bool | None = None,
    max_seconds: float | None = None,
) -> BifurcationCurves:
    """Follow the bifurcations of equilibria, and of cycles, over two parameters.

    Equilibria are followed over the first parameter from the one near `x0`; from each fold and Hopf point on
    them a curve is followed over both, in both directions, until it leaves the ranges or the region, closes,
    or, for Hopf points, ends at a Bogdanov-Takens point. From Bogdanov-Takens points the other curve through
    them is followed as well. Points of codimension two are solved for: cusps, Bogdanov-Takens, generalised
    Hopf, zero-Hopf and double Hopf points.

    With `cycles`, those born at the Hopf points of the first diagram are followed over the first parameter,
    and from their folds, period doublings and torus points curves over both. Cycles whose period grows
    without bounds stand for homoclinic orbits, followed at one long period, with a bound of the error this
    makes. The folds of cycles that begin at generalised Hopf points and the homoclinic orbits that begin at
    Bogdanov-Takens points are followed too.

    Parameters
    ----------
    plane : FieldPlane
        The fields.
    x0 : array_like (d,) or (k, d), or LimitCycles
        Guesses of an equilibrium, one or several; or cycles found at `p0` and `q0`, with `cycles`.
    p_range, q_range : (float, float)
        Ranges of the parameters.
    region : Region, dict or sequence of pairs, optional
        Box in which curves are followed; default the plane's, else none.
    p0, q0 : float, optional
        Values at which `x0` is a guess; default the first of `p_range`, and the first of `q_range`.
    cycles : bool
        Whether to follow cycles and their bifurcations, each point of which takes some 30,000 evaluations.
    max_points : int
        Largest number of points of a curve and direction.
    budget : int
        Largest number of points at which the field or its Jacobian is evaluated.
    progress : bool, optional
        Whether a bar with the time that the budget leaves is shown after two seconds; default on a terminal.
    max_seconds : float, optional
        Time on the clock after which the search ends with what it has; default no limit.

    Returns
    -------
    BifurcationCurves

    Raises
    ------
    TypeError
        If `plane` is no FieldPlane.
    ValueError
        If a range is empty, or there is no equilibrium near `x0`.

    References
    ----------
    Yu. A. Kuznetsov, Elements of Applied Bifurcation Theory, 3rd ed., Springer 2004, sections 8.7 (normal
    forms) and 10.3 (curves of codimension one, test functions).

    See Also
    --------
    continuation : Over one parameter.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze
    >>> cusp = fim_dynsys.SymbolicField(["h + r*x0 - x0**3"], {"h": 0.0, "r": 1.0})
    >>> found = analyze.bifurcation_curves(
    ...     cusp.plane(["h", "r"]), [1.0], (-1.0, 1.0), (-1.0, 2.0), p0=0.0, q0=1.0
    ... )
    >>> sorted({curve.kind.name for curve in found.curves})
    ['FOLD']
    """
    if not isinstance(plane, FieldPlane):
        raise TypeError(
            f"bifurcation_curves: expected a FieldPlane, got {type(plane).__name__}; make one with "
            "FieldPlane.from_callable, or field.plane(['a', 'b']) of a SymbolicField."
        )
    for name, ends in (("p_range", p_range), ("q_range", q_range)):
        values = real_array(ends, "bifurcation_curves", name)
        if values.shape != (2,) or not np.isfinite(values).all() or values[0] == values[1]:
            raise ValueError(f"bifurcation_curves: expected {name} as two different numbers, got {ends!r}.")
    check_whole("bifurcation_curves", 1, max_points=max_points, budget=budget)
    check_flags("bifurcation_curves", cycles=cycles)
    q0 = check_number("bifurcation_curves", "q0", float(q_range[0]) if q0 is None else q0)
    if not min(q_range) <= q0 <= max(q_range):
        raise ValueError(f"bifurcation_curves: expected q0 within {tuple(map(float, q_range))}, got {q0:g}.")
    with time_limit("bifurcation_curves", max_seconds):
        return _curves_from(plane, x0, p_range, q_range, q0, region, p0, cycles, max_points, budget, progress)


def _curves_from(
    plane: FieldPlane,
    x0: ArrayLike | LimitCycles,
    p_range: tuple[float, float],
    q_range: tuple[float, float],
    q0: float,
    region: RegionLike | None,
    p0: float | None,
    cycles: bool,
    max_points: int,
    budget: int,
    progress: bool | None,
) -> BifurcationCurves:
    """The curves that begin at the bifurcations met over the first parameter."""
    example = plane.at(p_range[0], q0)
    box = example.region if region is None else resolve_region(example, region, "bifurcation_curves")
    diagram = continuation(
        plane.family(q0), x0, p_range, box, p0=p0, cycles=cycles, budget=budget, progress=progress
    )
    if diagram.conserved:
        raise ValueError(
            f"bifurcation_curves: expected a plane of fields without conserved sums, got one that conserves "
            f"{', '.join(diagram.conserved)}; express a state by the others, or use continuation."
        )
    system = System(plane, p_range, q_range, box, diagram.equilibria or diagram.cycles)
    begun = [event for event in diagram.bifurcations if event.kind in (_FOLD, _HOPF)]
    left = budget - diagram.effort.points
    with progress_bar(progress, left, "bifurcation curves", "points at most", PATIENCE) as bar:
        explorer = _Explorer(system, max_points, left, bar)
        for event in begun:
            explorer.explore(event.kind, event.x, event.p, q0)
        if cycles:
            explorer.explore_cycles(diagram.cycles, q0)
            explorer.explore_births()
    spent = diagram.effort.points + system.points
    return BifurcationCurves(
        state_names=tuple(example.state_names),
        units={},
        effort=Effort(len(diagram.bifurcations), explorer.iterations, spent, budget, explorer.exhausted),
        parameters=plane.parameters,
        p_range=diagram.p_range,
        q_range=(float(min(q_range)), float(max(q_range))),
        curves=tuple(explorer.curves),
        q0=q0,
        branch_points=tuple(e.p for e in diagram.bifurcations if e.kind is BifurcationKind.BRANCH_POINT),
    )


@dataclass(frozen=True)
class _Info:
    """An equilibrium's Jacobian (scaled), how well the equations hold, of Hopf points their coefficient."""

    jac: np.ndarray
    by_states: np.ndarray
    residual: float
    lyapunov: float = np.nan


class _CurveProblem(Problem):
    """What curves of folds and of Hopf points have in common: unknowns begin with v (d,) and end with z."""

    kind: BifurcationKind
    guess: np.ndarray
    located_to = 1e-9
    may_close = True
    turn = 0.12
    parameters = 2
    converged = 1e-9  # differences of differenced Jacobians allow no more

    def __init__(self, system: System, n: int) -> None:
        self.system, self.d = system, system.d
        self.metric = np.ones(n)

    def z(self, u: np.ndarray) -> np.ndarray:
        """The point (d + 2,) of unknowns."""
        return u[-self.d - 2 :]

    @abc.abstractmethod
    def equations(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, _Info]:
        """Residual (n - 1,), its derivatives (n - 1, n) and what is known beside."""

    def linearise(self, u: np.ndarray, row: np.ndarray) -> Linear:
        return dense_linear(*self.equations(u), row)

    def started(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Unknowns nearby that solve the equations, and the direction of the curve.

        Raises
        ------
        Jumped
            If Newton's method does not converge.
        """
        for _ in range(_CORRECTIONS):
            value, matrix, _ = self.equations(u)
            step = np.linalg.lstsq(matrix, -value, rcond=None)[0]
            u = u + step
            if np.abs(step).max() < self.converged / 100.0:
                break
        value, matrix, _ = self.equations(u)
        if not np.abs(value).max() < _START:
            raise Jumped
        return u, np.linalg.svd(matrix)[2][-1]

    def start(self, u: np.ndarray, tangent: np.ndarray) -> Point:
        """A solution as the first point of a trace."""
        return self.observe(u, tangent, self.linearise(u, tangent))

    def margins(self, point: Point) -> dict[BranchEnd, float]:
        return self.system.room(self.z(point.u))

    def identify(
        self, changed: set[str], before: Point, located: Point, fine: bool
    ) -> list[tuple[Point, CodimensionTwo]]:
        x, p, q = self.system.unscaled(self.z(located.u))
        values = np.linalg.eigvals(located.info.jac) / self.system.time
        found = []
        for name in sorted(changed):
            kind = BifurcationKind(name)
            if kind is BifurcationKind.ZERO_HOPF and not self._oscillates(values):
                continue
            if kind is BifurcationKind.DOUBLE_HOPF and np.count_nonzero(np.abs(values.imag) > 0) < 4:
                continue
            if kind is BifurcationKind.GENERALIZED_HOPF and not _vanishes(before, located):
                continue
            coefficients = _coefficients(kind, self.system.at(p, q), x)
            residual = located.info.residual
            found.append((located, CodimensionTwo(kind, p, q, x, values, residual, coefficients)))
        return found

    @staticmethod
    def _oscillates(values: np.ndarray) -> bool:
        """Whether the pair of eigenvalues nearest the imaginary axis, but for one, is complex."""
        order = np.argsort(np.abs(values.real))
        return bool((np.abs(values[order[:3]].imag) > 0).sum() >= 2)


class _Folds(_CurveProblem):
    """f = 0, J v = 0, |v| = 1: unknowns (v, x, p, q)."""

    kind = _FOLD

    def __init__(self, system: System, z: np.ndarray) -> None:
        super().__init__(system, 2 * system.d + 2)
        left, _, right = np.linalg.svd(system.jacobians(z, np.zeros((1, system.d)))[0])
        self.reference, self.left = right[-1], left[:, -1]
        self.guess = np.concatenate([self.reference, z])

    def equations(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, _Info]:
        d, v = self.d, u[: self.d]
        f, jac, by_parameters, changes = self.system.derivatives(self.z(u))
        matrix = np.zeros((2 * d + 1, 2 * d + 2))
        matrix[:d, d : 2 * d], matrix[:d, 2 * d :] = jac, by_parameters
        matrix[d : 2 * d, :d], matrix[d : 2 * d, d:] = jac, (changes @ v).T
        matrix[-1, :d] = self.reference
        value = np.concatenate([f, jac @ v, [v @ self.reference - 1.0]])
        return value, matrix, _Info(jac, changes[:d], float(np.abs(value).max()))

    def observe(self, u: np.ndarray, tangent: np.ndarray, linear: Linear) -> Point:
        info, v = linear.info, u[: self.d]
        left = np.linalg.svd(info.jac)[0][:, -1]
        left = left if left @ self.left > 0 else -left
        tests = {"CP": float(left @ (info.by_states @ v).T @ v)}
        if self.d > 1:
            tests["BT"] = float(left @ v)
        if self.d > 2:
            tests["ZH"] = _pair_sums(np.linalg.eigvals(info.jac), 1)
        return Point(u, tangent, tests, info)

    def refreshed(self, point: Point) -> Point:
        u, v = point.u.copy(), point.u[: self.d]
        left = np.linalg.svd(point.info.jac)[0][:, -1]
        self.left = left if left @ self.left > 0 else -left
        u[: self.d] = self.reference = v / np.linalg.norm(v)
        return replace(point, u=u)


class _Hopfs(_CurveProblem):
    """f = 0, (J^2 + k) v = 0, |v| = 1, <c, v> = 0: unknowns (v, k, x, p, q), k the squared frequency."""

    kind = _HOPF

    def __init__(self, system: System, z: np.ndarray) -> None:
        super().__init__(system, 2 * system.d + 3)
        jac = system.jacobians(z, np.zeros((1, system.d)))[0]
        values, vectors = np.linalg.eig(jac)
        critical = np.argmin(np.abs(values.real) - 1e-6 * values.imag)
        if abs(values[critical].imag) > np.sqrt(_SLOW):
            v, k = vectors[:, critical].real, values[critical].imag ** 2
            across = vectors[:, critical].imag
        else:  # a double zero: with its null vector as v, folds would solve the equations too
            across, k = np.linalg.svd(jac)[2][-1], 0.0
            v = np.linalg.lstsq(jac, across, rcond=1e-4)[0]
            v -= (v @ across) * across
        self.lyapunov = 1.0
        self._refer_to(v, across)
        self.guess = np.concatenate([self.reference, [k], z])

    def _refer_to(self, v: np.ndarray, across: np.ndarray) -> None:
        self.reference = v / np.linalg.norm(v)
        across = across - (across @ self.reference) * self.reference
        self.across = across / np.linalg.norm(across)

    def equations(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, _Info]:
        d, v, k = self.d, u[: self.d], u[self.d]
        f, jac, by_parameters, changes = self.system.derivatives(self.z(u))
        square = jac @ jac + k * np.eye(d)
        matrix = np.zeros((2 * d + 2, 2 * d + 3))
        matrix[:d, d + 1 : 2 * d + 1], matrix[:d, 2 * d + 1 :] = jac, by_parameters
        matrix[d : 2 * d, :d], matrix[d : 2 * d, d] = square, v
        matrix[d : 2 * d, d + 1 :] = (changes @ (jac @ v) + (changes @ v) @ jac.T).T
        matrix[-2, :d], matrix[-1, :d] = self.reference, self.across
        value = np.concatenate([f, square @ v, [v @ self.reference - 1.0, v @ self.across]])
        return value, matrix, _Info(jac, changes[:d], float(np.abs(value).max()))

    def observe(self, u: np.ndarray, tangent: np.ndarray, linear: Linear) -> Point:
        values = np.linalg.eigvals(linear.info.jac)
        critical = np.argsort(np.abs(values**2 + u[self.d]))[:2]
        others = np.delete(values, critical)
        lyapunov, product = self.coefficient(u), float(np.prod(others).real)
        # The coefficient has a pole at zero-Hopf points, where the product vanishes.
        tests = {"GH": lyapunov * product}
        if len(others):
            tests["ZH"] = product
        if len(others) > 1:
            tests["HH"] = _pair_sums(others, 0)
        return Point(u, tangent, tests, replace(linear.info, lyapunov=lyapunov))

    def coefficient(self, u: np.ndarray) -> float:
        """First Lyapunov coefficient; near a double zero, where it loses its digits, the latest one."""
        if u[self.d] < _SLOW:
            return self.lyapunov
        x, p, q = self.system.unscaled(self.z(u))
        return first_lyapunov_coefficient(self.system.at(p, q), x)

    def margins(self, point: Point) -> dict[BranchEnd, float]:
        return super().margins(point) | {BranchEnd.DOUBLE_ZERO: float(point.u[self.d])}

    def refreshed(self, point: Point) -> Point:
        u, v = point.u.copy(), point.u[: self.d]
        self.lyapunov = point.info.lyapunov
        self._refer_to(v, point.info.jac @ v)
        u[: self.d] = self.reference
        return replace(point, u=u)


class _Explorer:
    """Follows curves from bifurcations, and from the double zeros on them."""

    def __init__(self, system: System, max_points: int, budget: int, bar: "tqdm") -> None:
        self.system, self.max_points, self.budget, self.bar = system, max_points, budget, bar
        self.iterations = 0
        self.exhausted = False
        self.curves: list[BifurcationCurve] = []
        self.passed: dict[BifurcationKind, list[np.ndarray]] = {_FOLD: [], _HOPF: []}
        self.passed |= {kind: [] for kind in OF_CYCLES}

    def spend(self, iterations: int) -> bool:
        """Note Newton iterations; tells whether budget and time allow more."""
        self.iterations += iterations
        self.bar.update(self.system.points - self.bar.n)
        self.exhausted |= self.system.points >= self.budget or out_of_time()
        return not self.exhausted

    def explore(self, kind: BifurcationKind, x: np.ndarray, p: float, q: float) -> None:
        """Follow the curve through a bifurcation, and the others through the double zeros met."""
        waiting = [(kind, self.system.scaled(x, p, q))]
        while waiting:
            kind, z = waiting.pop()
            if any(_on(z, curve) for curve in self.passed[kind]):
                continue
            curve = self._follow(kind, z)
            if curve is None:
                continue
            self.curves.append(curve)
            other = _HOPF if kind is _FOLD else _FOLD
            zeros = [point for point in curve.points if point.kind is BifurcationKind.BOGDANOV_TAKENS]
            waiting += [(other, self.system.scaled(point.x, point.p, point.q)) for point in zeros]

    def explore_cycles(self, branches: Sequence[Branch], q: float) -> None:
        """Follow the curves through what happens on branches of cycles at one second parameter."""
        for branch in branches:
            assert branch.period is not None
            for kind, number in _happenings(branch, self.system.size[-2]):
                place = self._places(kind, branch.p[[number]], np.array([q]), branch.period[[number]])[0]
                if any(_on(place, curve) for curve in self.passed[kind]):
                    continue
                curve = follow_curve(self.system, kind, branch, number, q, self.spend, self.max_points)
                if curve is not None and curve.period is not None:
                    self.curves.append(curve)
                    self.passed[kind].append(self._places(kind, curve.p, curve.q, curve.period))

    def explore_births(self) -> None:
        """Follow what begins at points of codimension two on the curves of Hopf points."""
        for curve in [curve for curve in self.curves if curve.kind is _HOPF]:
            for point in curve.points:
                if point.kind in (BifurcationKind.GENERALIZED_HOPF, BifurcationKind.BOGDANOV_TAKENS):
                    for number in _beside(curve, point, self.system.size[-2:]):
                        self._explore_birth(curve, number)

    def _explore_birth(self, curve: BifurcationCurve, number: int) -> None:
        """Follow the cycles born at one Hopf point over the first parameter, and what happens to them."""
        system, values, q = self.system, curve.eigenvalues[number], float(curve.q[number])
        omega = np.abs(values.imag[np.argsort(np.abs(values.real))[:2]]).max()
        x, p = curve.x[number], float(curve.p[number])
        hopf = Bifurcation(_HOPF, p, x, 0.0, values, 1.0, 2.0 * np.pi / float(omega))
        equations = Equations(system.plane.family(q), system.p_range, system.region, [x])
        equations = equations.fitted(curve.x) or equations
        branches = follow_cycles(equations, [hopf], self.spend, _BRIEF, self.budget)
        system.points += equations.points
        self.explore_cycles(branches, q)

    def _places(self, kind: BifurcationKind, p: np.ndarray, q: np.ndarray, period: np.ndarray) -> np.ndarray:
        """Scaled parameters and, where it means something, logarithms of periods, (n, 3)."""
        parameters = (np.column_stack([p, q]) - self.system.centre[-2:]) / self.system.size[-2:]
        long = kind is BifurcationKind.HOMOCLINIC
        return np.column_stack([parameters, 0.0 * p if long else np.log(period / self.system.time)])

    def _follow(self, kind: BifurcationKind, z: np.ndarray) -> BifurcationCurve | None:
        problem = self._problem(kind, z)
        try:
            u, tangent = problem.started(problem.guess)
        except Jumped:
            return None
        if kind is _HOPF and u[self.system.d] < _SLOW:
            return self._from_double_zero(problem, u, tangent)
        ahead, behind = self._traced(problem, u, tangent), Trace([])
        ends = ahead.end, ahead.end
        if ahead.end is not BranchEnd.CLOSED:
            problem = self._problem(kind, z)
            behind = self._traced(problem, u, -tangent)
            ends = behind.end, ahead.end
        points = [*behind.points[:0:-1], *ahead.points]
        events = [event for _, event in [*reversed(behind.events), *ahead.events]]
        return self._curve(problem, points, events, ends)

    def _problem(self, kind: BifurcationKind, z: np.ndarray) -> _CurveProblem:
        return _Folds(self.system, z) if kind is _FOLD else _Hopfs(self.system, z)

    def _from_double_zero(
        self, problem: _CurveProblem, u: np.ndarray, tangent: np.ndarray
    ) -> BifurcationCurve | None:
        """The curve of Hopf points that begins at a double zero, in the direction of real frequencies."""
        start = problem.start(u, tangent)
        ways = [replace(start, tangent=sign * start.tangent) for sign in (1.0, -1.0)]
        starts = [corrected(problem, way, _FIRST_STEP, self.spend) for way in ways]
        rising = [outcome for outcome in starts if outcome is not None and outcome[0].u[self.system.d] > 0]
        if not rising:
            return None
        outcome = max(rising, key=lambda outcome: outcome[0].u[self.system.d])
        ahead = trace(problem, problem.refreshed(outcome[0]), self.spend, self.max_points)
        first = problem.identify({"BT"}, start, start, fine=True)
        events = [event for _, event in [*first, *ahead.events]]
        return self._curve(problem, [start, *ahead.points], events, (BranchEnd.DOUBLE_ZERO, ahead.end))

    def _traced(self, problem: _CurveProblem, u: np.ndarray, tangent: np.ndarray) -> Trace:
        start = problem.start(u, tangent)
        if any(margin < -1e-9 for margin in problem.margins(start).values()):
            return Trace([start], [], BranchEnd.P_RANGE)
        result = trace(problem, start, self.spend, self.max_points)
        if result.end is BranchEnd.DOUBLE_ZERO and len(result.points) > 1:
            last = result.points[-1]
            result.events += [
                (len(result.points) - 1, event)
                for _, event in problem.identify({"BT"}, last, last, fine=True)
            ]
        return result

    def _curve(
        self,
        problem: _CurveProblem,
        points: list[Point],
        events: list[CodimensionTwo],
        ends: tuple[BranchEnd, BranchEnd],
    ) -> BifurcationCurve:
        values = [self.system.unscaled(problem.z(point.u)) for point in points]
        spectra = [np.linalg.eigvals(point.info.jac) / self.system.time for point in points]
        hopf = problem.kind is _HOPF
        self.passed[problem.kind].append(np.array([problem.z(point.u) for point in points]))
        return BifurcationCurve(
            kind=problem.kind,
            p=np.array([p for _, p, _ in values]),
            q=np.array([q for _, _, q in values]),
            x=np.array([x for x, _, _ in values]),
            eigenvalues=np.array(spectra).astype(complex),
            lyapunov_coefficient=np.array([point.info.lyapunov for point in points]) if hopf else None,
            residual=np.array([point.info.residual for point in points]),
            points=tuple(events),
            ends=ends,
        )


def _happenings(branch: Branch, width: float) -> Iterator[tuple[BifurcationKind, int]]:
    """Bifurcations on a branch of cycles, and ends with long periods, by the numbers of their points."""
    assert branch.period is not None
    for event in branch.bifurcations:
        if event.kind in OF_CYCLES:
            yield event.kind, int(np.argmax((branch.p == event.p) & (branch.period == event.period)))
    for limit in branch.limits:
        if limit is not None:
            near = np.flatnonzero(np.abs(branch.p - limit.p) < _STANDS * width)
            long = near[np.argmin(branch.period[near])] if len(near) else np.argmax(branch.period)
            yield BifurcationKind.HOMOCLINIC, int(long)


def _beside(curve: BifurcationCurve, point: CodimensionTwo, size: np.ndarray) -> list[int]:
    """Numbers of the curve's nearest points on both sides of one on it that are some distance away."""
    away = np.linalg.norm((np.column_stack([curve.p, curve.q]) - [point.p, point.q]) / size, axis=1)
    at, far = int(np.argmin(away)), np.flatnonzero(away > _BESIDE)
    sides = (far[far < at][-1:], far[far > at][:1])
    return [int(side[0]) for side in sides if len(side)]


def _vanishes(before: Point, located: Point) -> bool:
    """Whether the Lyapunov coefficient changes sign by a zero, not by a pole, as at a resonance."""
    return abs(located.tests["GH"]) < abs(before.tests["GH"])


def _coefficients(kind: BifurcationKind, field: VectorField, x: np.ndarray) -> dict[str, float]:
    if kind is BifurcationKind.CUSP:
        return {"c": cusp_coefficient(field, x)}
    if kind is BifurcationKind.BOGDANOV_TAKENS:
        a, b = double_zero_coefficients(field, x)
        return {"a": a, "b": b}
    return {}


def _pair_sums(values: np.ndarray, n_zero: int) -> float:
    """Product of the sums of pairs of eigenvalues, those nearest zero left out."""
    values = values[np.argsort(np.abs(values))[n_zero:]]
    rows, columns = np.triu_indices(len(values), 1)
    return float(np.prod((values[rows] + values[columns]) / np.abs(values).max()).real)


def _on(z: np.ndarray, curve: np.ndarray) -> bool:
    """Whether a point lies on a polyline, up to the sagitta of the steps."""
    start, way = curve[:-1], np.diff(curve, axis=0)
    if not len(way):
        return False
    square = np.maximum((way**2).sum(axis=1), 1e-300)
    share = np.clip(((z - start) * way).sum(axis=1) / square, 0.0, 1.0)
    miss = np.linalg.norm(z - start - share[:, None] * way, axis=1)
    return bool((miss < 2e-3 * max(1.0, float(np.linalg.norm(z)))).any())
