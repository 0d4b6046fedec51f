"""Curves of bifurcations of cycles over two parameters: folds, doublings, tori, cycles of one long period."""

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from fim_dynsys.analyze.bifurcation.cycle_branches import joined
from fim_dynsys.analyze.bifurcation.two_parameters import BifurcationCurve, CodimensionTwo, System
from fim_dynsys.analyze.tracing.branches import BifurcationKind, Branch
from fim_dynsys.analyze.tracing.collocation import CycleInfo, Cycles, critical_pair, turning
from fim_dynsys.analyze.tracing.curve import BranchEnd, Jumped, Linear, Point, Spend, Trace, trace
from fim_dynsys.analyze.tracing.equations import Equations

_FOLD, _DOUBLING, _TORUS = (
    BifurcationKind.CYCLE_FOLD,
    BifurcationKind.PERIOD_DOUBLING,
    BifurcationKind.NEIMARK_SACKER,
)
OF_CYCLES = (_FOLD, _DOUBLING, _TORUS, BifurcationKind.HOMOCLINIC)
"""The kinds of curves that `follow_curve` follows."""

_STEP = (
    1e-5  # along null vectors of length one: errors of 1e-10 in what is differenced, of 1e-7 left by rounding
)
_BY_PARAMETER = np.finfo(float).eps ** 0.2  # of a range, for differences of fourth order
_CORRECTIONS = 15  # of Newton's method, which is quadratic near the end
_START = 1e-9  # Newton step, scaled, of a cycle to start from


def follow_curve(
    system: System,
    kind: BifurcationKind,
    branch: Branch,
    number: int,
    q: float,
    spend: Spend,
    max_points: int,
) -> BifurcationCurve | None:
    """The curve through a bifurcation of cycles over two parameters, in both directions.

    Parameters
    ----------
    system : System
        The plane and its units.
    kind : BifurcationKind
        ``LPC``, ``PD``, ``NS``, or ``HOM`` for cycles of the period that the given one has.
    branch : Branch
        Of cycles at the second parameter's value `q`.
    number : int
        Which of its points to start from.
    q : float
        Value of the second parameter.
    spend : callable
        ``spend(n) -> bool`` notes n Newton iterations and tells whether the budget allows more.
    max_points : int
        Largest number of points in each direction.

    Returns
    -------
    BifurcationCurve or None
        None where Newton's method finds no such bifurcation near the given point.

    References
    ----------
    Yu. A. Kuznetsov, Elements of Applied Bifurcation Theory, 3rd ed., Springer 2004, section 10.3 (minimally
    extended systems); W. Govaerts, Numerical Methods for Bifurcations of Dynamical Equilibria, SIAM 2000,
    section 3 (bordering).
    """
    problem = _CycleCurve(system, kind, branch, number)
    try:
        starts = problem.starts(branch, number, q)
    except Jumped:
        return None
    again = copy(problem)
    ahead, behind = problem.traced(starts[0], spend, max_points), Trace([])
    if ahead.end is not BranchEnd.CLOSED:
        behind = again.traced(starts[1], spend, max_points)
    points, events = joined(behind, ahead) if behind.points else (ahead.points, ahead.events)
    infos = [point.info for point in points]
    long = kind is BifurcationKind.HOMOCLINIC
    return BifurcationCurve(
        kind=kind,
        p=np.array([info.p for info in infos]),
        q=np.array([info.q for info in infos]),
        x=np.array([info.orbit[np.argmax(info.orbit[:, 0])] for info in infos]),
        eigenvalues=np.array([info.multipliers for info in infos]).astype(complex),
        lyapunov_coefficient=None,
        residual=np.array([info.residual for info in infos]),
        points=tuple(event for _, event in events),
        ends=((behind if behind.points else ahead).end, ahead.end),
        period=np.array([info.period for info in infos]),
        error=np.array([problem.shift(point) for point in points]) if long else None,
    )


@dataclass(frozen=True, eq=False)
class _CurveInfo(CycleInfo):
    """Beside, the directions (2, N) that leave the equations of cycles zero, of length one."""

    nulls: np.ndarray | None = None


class _CycleCurve(Cycles):
    """Cycles with two parameters on which one function of them vanishes.

    Unknowns end with log T and the two scaled parameters. The equations of cycles leave two directions; what
    distinguishes the curve, a smooth function of the transfer matrices, is differenced along these only.
    """

    tail = 3
    located_to = 1e-9
    may_close = True
    converged = 1e-9

    def __init__(self, system: System, kind: BifurcationKind, branch: Branch, number: int) -> None:
        assert branch.phases is not None
        equations = Equations(system.plane.family(system.q_first), system.p_range, system.region)
        equations.centre, equations.length = system.centre[:-2], system.size[:-2]
        equations.reach, equations.unit, equations.time = equations.length, system.unit, system.time
        self.system, self.kind = system, kind
        self.along = np.zeros(2)
        super().__init__(equations, branch.phases[number][:: self.degree])

    def starts(self, branch: Branch, number: int, q: float) -> tuple[Point, Point]:
        """The curve's point near a bifurcation on a branch, for both directions.

        Raises
        ------
        Jumped
            If Newton's method does not converge.
        """
        assert branch.orbits is not None and branch.period is not None
        system, orbit = self.system, branch.orbits[number]
        states = (orbit[:-1] - self.equations.centre) / self.equations.length
        parameters = system.scaled(orbit[0], float(branch.p[number]), q)[-2:]
        log_period = np.log(branch.period[number] / self.equations.time)
        u = np.concatenate([states.ravel(), [log_period], parameters])
        self.log_period = float(log_period)
        self.refer_to(u)
        row = np.append(np.zeros(len(u) - 1), 1.0)
        for _ in range(_CORRECTIONS):
            step = self._curve(u, row).least()
            u = u + step
            size = np.sqrt(self.product(step, step))
            if not size < 1.0:
                raise Jumped
            if size < _START:
                break
        else:
            raise Jumped
        linear = self._curve(u, row)
        tangent, self.along = linear.tangent(), self._onward(linear.nulls)
        points = [self.observe(u, way, linear.linear()) for way in (tangent, -tangent)]
        return points[0], points[1]

    def traced(self, start: Point, spend: Spend, max_points: int) -> Trace:
        """The curve in one direction; curves of tori end at resonances."""
        result = trace(self, start, spend, max_points)
        if result.end is BranchEnd.RESONANCE:
            last = result.points[-1]
            name = "R1" if self._cosine(last.info) > 0 else "R2"
            events = self.identify({name}, last, last, fine=True)
            result.events += [(len(result.points) - 1, event) for _, event in events]
        return result

    # ---------------------------------------------------------------- the field along a cycle

    def _unscaled(self, u: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, float]:
        return self.equations.unscaled(states, 0.0)[0], self._parameters(u)[0]

    def _parameters(self, u: np.ndarray) -> tuple[float, float]:
        p, q = self.system.centre[-2:] + self.system.size[-2:] * u[-2:]
        return float(p), float(q)

    def _rates(self, u: np.ndarray, states: np.ndarray) -> np.ndarray:
        x, _ = self._unscaled(u, states)
        self._count(len(x))
        return self.system.plane.at(*self._parameters(u))(x) * (self.equations.time / self.equations.length)

    def _jacobians(self, u: np.ndarray, states: np.ndarray) -> np.ndarray:
        x, _ = self._unscaled(u, states)
        self._count(len(x))
        length = self.equations.length
        scale = self.equations.time * length / length[:, None]
        return self.system.at(*self._parameters(u)).jacobian(x) * scale

    def _batch(self, u: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        by_parameters = []
        for direction in np.eye(len(u))[-2:]:
            f = [self._rates(u + k * _BY_PARAMETER * direction, states) for k in (1, -1, 2, -2)]
            by_parameters.append((8.0 * (f[0] - f[1]) - (f[2] - f[3])) / (12.0 * _BY_PARAMETER))
        return self._rates(u, states), self._jacobians(u, states), np.stack(by_parameters, axis=2)

    def _count(self, n: int) -> None:
        self.equations.points += n
        self.system.points += n

    # ---------------------------------------------------------------- the curve

    def linearise(self, u: np.ndarray, row: np.ndarray) -> Linear:
        return self._curve(u, row).linear()

    def _curve(self, u: np.ndarray, row: np.ndarray) -> "_Bordered":
        reduced = self._condense(u)
        n = len(reduced.load)
        across, triangle = np.linalg.qr(reduced.matrix.T, mode="complete")
        least = across[:, :n] @ solve_triangular(triangle[:n], reduced.load, trans="T")
        nulls = np.array([reduced.expanded(across[:, n + i], 0.0) for i in range(2)])
        nulls /= np.sqrt((self.metric * nulls**2).sum(axis=1))[:, None]
        return _Bordered(self, u, row, reduced.expanded(least, 1.0), nulls, reduced.flow)

    def vanishing(self, u: np.ndarray) -> float:
        """What is zero on the curve."""
        if self.kind is BifurcationKind.HOMOCLINIC:
            return float(u[-3]) - self.log_period
        flow = self._flow(u, self._jacobians)
        # In the plane, and of tori in space, Liouville's formula keeps digits that eigenvalues lose.
        if self.d == (2 if self.kind is _FOLD else 3) and self.kind is not _DOUBLING:
            return flow.divergence
        multipliers = flow.multipliers()
        if self.kind is _FOLD:
            return turning(multipliers)
        if self.kind is _DOUBLING:
            return float(np.prod(1.0 + multipliers).real)
        rows, columns = np.triu_indices(self.d, 1)
        return float(np.prod(1.0 - multipliers[rows] * multipliers[columns]).real)

    def observe(self, u: np.ndarray, tangent: np.ndarray, linear: Linear) -> Point:
        flow, nulls = linear.info
        known = self._info(u, flow)
        info = _CurveInfo(**{**vars(known), "q": self._parameters(u)[1]}, nulls=nulls)
        return Point(u, tangent, self._tests(info, nulls, tangent), info)

    def _tests(self, info: CycleInfo, nulls: np.ndarray, tangent: np.ndarray) -> dict[str, float]:
        others, tests = info.multipliers[1:], {}
        if self.kind is _FOLD:
            tests["CPC"] = float(tangent[-2:] @ self._onward(nulls))
        if self.d == 2 or self.kind is BifurcationKind.HOMOCLINIC:
            return tests
        if self.kind is _FOLD:
            rest = np.delete(others, np.argmin(np.abs(others - 1.0)))
            tests |= {"R1": float(np.prod(1.0 - rest).real), "LPPD": float(np.prod(1.0 + rest).real)}
        elif self.kind is _DOUBLING:
            rest = np.delete(others, np.argmin(np.abs(others + 1.0)))
            tests |= {"R2": float(np.prod(1.0 + rest).real), "LPPD": float(np.prod(1.0 - rest).real)}
        else:
            cosine = self._cosine(info)
            tests |= {"R3": cosine + 0.5, "R4": cosine}
        return tests

    def _onward(self, nulls: np.ndarray) -> np.ndarray:
        """The direction of the parameters along a curve of folds, turned like the one before."""
        onward = np.linalg.svd(nulls[:, -2:])[2][0]
        return onward if onward @ self.along >= 0 else -onward

    @staticmethod
    def _cosine(info: CycleInfo) -> float:
        """Half the sum of the pair of multipliers on the circle; beyond 1 and -1, of two real ones."""
        i, j = critical_pair(info.multipliers)
        return float((info.multipliers[i] + info.multipliers[j]).real) / 2.0

    def refreshed(self, point: Point) -> Point:
        if self.kind is _FOLD:
            self.along = self._onward(point.info.nulls)
        return super().refreshed(point)

    def margins(self, point: Point) -> dict[BranchEnd, float]:
        margins = super().margins(point)
        margins[BranchEnd.P_RANGE] = float(np.minimum(point.u[-2:], 1.0 - point.u[-2:]).min())
        if self.kind is _TORUS:
            margins[BranchEnd.RESONANCE] = 1.0 - abs(self._cosine(point.info))
        return margins

    def identify(
        self, changed: set[str], before: Point, located: Point, fine: bool
    ) -> list[tuple[Point, CodimensionTwo]]:
        info = located.info
        x = info.orbit[np.argmax(info.orbit[:, 0])]
        known = (info.p, info.q, x, info.multipliers, info.residual)
        return [
            (located, CodimensionTwo(BifurcationKind(name), *known, period=info.period))
            for name in sorted(changed)
        ]

    def shift(self, point: Point) -> float:
        """Bound of the scaled distance to cycles of infinite period: half of |d(p, q) / d log T|, across.

        By the scalings it is |d(p, q) / d log T| over lambda T at a homoclinic orbit, over 2 at a SNIC.
        """
        nulls, along = point.info.nulls[:, -3:], point.tangent[-2:] / np.linalg.norm(point.tangent[-2:])
        longer = np.linalg.lstsq(nulls[:, :1].T, np.ones(1), rcond=None)[0] @ nulls
        return float(abs(longer[1] * along[1] - longer[2] * along[0])) / 2.0


@dataclass(frozen=True)
class _Bordered:
    """Equations of a curve of cycles at u: a correction and two directions that leave them zero."""

    problem: _CycleCurve
    u: np.ndarray
    row: np.ndarray
    correction: np.ndarray
    nulls: np.ndarray
    flow: Any

    def slopes(self) -> np.ndarray:
        """Derivatives (2,) of what is to vanish along the directions."""
        value, h = self.problem.vanishing, _STEP
        return np.array([(value(self.u + h * v) - value(self.u - h * v)) / (2.0 * h) for v in self.nulls])

    def least(self) -> np.ndarray:
        """The shortest step that solves the linearised equations."""
        slopes, value = self.slopes(), self.problem.vanishing(self.u + self.correction)
        return self.correction - (value / (slopes @ slopes)) * slopes @ self.nulls

    def tangent(self) -> np.ndarray:
        """The direction of the curve, of length one."""
        slopes = self.slopes()
        tangent = np.array([-slopes[1], slopes[0]]) @ self.nulls
        return tangent / np.sqrt(self.problem.product(tangent, tangent))

    def linear(self) -> Linear:
        """As what curves are traced with."""

        def newton(c: float) -> np.ndarray:
            with np.errstate(all="ignore"):
                value = self.problem.vanishing(self.u + self.correction)
                matrix = np.stack([self.nulls @ self.row, self.slopes()])
                load = [c - self.row @ self.correction, -value]
            if not (np.isfinite(matrix).all() and np.isfinite(load).all()):
                return np.full(len(self.u), np.nan)
            return self.correction + np.linalg.lstsq(matrix, load, rcond=None)[0] @ self.nulls

        return Linear(newton, self.tangent, lambda: 1.0, (self.flow, self.nulls))
