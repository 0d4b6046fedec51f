"""Cycles by orthogonal collocation: equations, multipliers, the mesh, and bifurcations along a branch.

A little above five hundred lines: it is one discretisation, its linear algebra, mesh and tests.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import comb
from typing import Any, Self

import numpy as np

from fim_dynsys.analyze.tracing.branches import Bifurcation, BifurcationKind
from fim_dynsys.analyze.tracing.condensation import Condensed, Flow, composed, fewest_segments
from fim_dynsys.analyze.tracing.curve import (
    BranchEnd,
    Jumped,
    Linear,
    Point,
    Problem,
    passed,
)
from fim_dynsys.analyze.tracing.equations import Equations
from fim_dynsys.analyze.tracing.polynomials import DEGREE, gauss, lagrange, midway
from fim_dynsys.analyze.tracing.return_map import ReturnMap, doubling_coefficient, torus_coefficient

_INTERVALS = 30  # to begin with; doubled where the trivial multiplier asks for it
MOST_INTERVALS = 120  # two doublings: errors at the mesh points are then 1 / 65,536 of the first
_FINE = 1e-7  # |mu_trivial - 1| above which the mesh is refined
_WORST_DEFECT = 1e-2  # at which a branch is given up
_WORST_MULTIPLIER = 1e-3  # |mu_trivial - 1| at which a branch of three or more states is given up
_LONGEST = 50.0  # multiple of the first period at which a cycle is taken to approach a homoclinic one
UNEVEN = 2.0  # largest ratio of an interval's error measure to the mean before the mesh is adapted
_EVEN_PART = 0.2  # of the mesh density
_SMALLEST = 1e-4  # scaled amplitude at which a branch has come back to an equilibrium
_UPRIGHT = 1e-10  # slope of the branch in p that is taken for none, as in families of a centre
_STANDS = 1e-7  # slope in p of a branch on which it stands still as far as cycles are known
_FAMILY = 1e-3  # |log |mu|| below which cycles on an upright branch are one of a family
_NEUTRAL = 1e-9  # |log mu| in the plane that is taken for none, likewise
_LOCATED = 1e-7  # of the test function at a branch point, which does not vanish on a jump between branches
_FAR = 0.5  # distance from +1 of multipliers at both ends of a step in which none passes it
_LARGEST_FORM = 1e6  # normal form in units of the cycle's size beyond which differences have lost it
_CRITICAL = 1e-2  # distance from +1 or -1, or of a product from 1, of the multipliers of a bifurcation


@dataclass(frozen=True, eq=False)
class Crossing:
    """Where another branch of cycles begins: unknowns on a mesh, that branch's direction and first cycle."""

    kind: BifurcationKind
    mesh: np.ndarray
    u: np.ndarray
    direction: np.ndarray
    info: "CycleInfo"


@dataclass(frozen=True, eq=False)
class CycleInfo:
    """A cycle in units of the field, and how well it is resolved.

    ``phases`` are the shares of the period at the orbit's states, ``residual`` is the defect between
    collocation points, ``closeness`` |mu_trivial - 1|, ``log_multiplier`` the logarithm of the other
    multiplier in the plane, None in space; ``q`` a second parameter.
    """

    multipliers: np.ndarray
    n_unstable: int
    residual: float
    closeness: float
    phases: np.ndarray
    orbit: np.ndarray
    period: float
    p: float
    q: float = np.nan
    log_multiplier: float | None = None

    def twice(self) -> "CycleInfo":
        """The same cycle gone round twice, at its period doubling: the critical multiplier is at +1."""
        multipliers = self.multipliers**2
        critical = 1 + int(np.argmin(np.abs(self.multipliers[1:] + 1.0)))
        return replace(
            self,
            multipliers=multipliers,
            n_unstable=int(np.count_nonzero(np.abs(np.delete(multipliers, critical)[1:]) > 1.0)),
            phases=np.concatenate([self.phases, 1.0 + self.phases[1:]]) / 2.0,
            orbit=np.concatenate([self.orbit, self.orbit[1:]]),
            period=2.0 * self.period,
        )


class Cycles(Problem):
    """Cycles x(tau), period T and parameter, tau in [0, 1], as piecewise polynomials.

    Unknowns are the scaled states at N m nodes, log T and the scaled parameter.
    """

    degree = DEGREE
    tail = 2  # unknowns that are no states
    rest: np.ndarray  # unknowns where a branch is born, and its direction there
    direction: np.ndarray
    located_to = 1e-10
    may_close = False
    straddles = True
    turn = 0.35  # shapes turn fast where an orbit has steep flanks, and Newton's method minds little

    def __init__(self, equations: Equations, mesh: np.ndarray) -> None:
        self.equations = equations
        self.d = equations.family.dim
        self.mesh = mesh
        self.longest = np.inf
        self.crossings: list[Crossing] = []
        self._weigh()

    @classmethod
    def crossing(cls, equations: Equations, crossing: Crossing) -> Self:
        """The problem of cycles near a place where a branch of them begins."""
        self = cls(equations, crossing.mesh)
        self.rest = crossing.u
        self.direction = crossing.direction / np.sqrt(self.product(crossing.direction, crossing.direction))
        self.limit_period(crossing.u[-2])
        self.refer_to(crossing.u)
        return self

    @classmethod
    def born_at(cls, equations: Equations, hopf: Bifurcation) -> Self:
        """The problem of cycles near a Hopf point."""
        assert hopf.period is not None  # Hopf points have that of the cycles born
        self = cls(equations, np.linspace(0.0, 1.0, _INTERVALS + 1))
        start = equations.scaled(hopf.x, hopf.p)
        angle = 2.0 * np.pi * self.nodes()
        q = self._critical(equations.jacobian(start), 2.0 * np.pi * equations.time / hopf.period)
        circle = np.real(q * np.exp(1j * angle)[:, None])
        log_period = np.log(hopf.period / equations.time)
        self.limit_period(log_period)
        self.rest = np.concatenate([np.tile(start[:-1], len(circle)), [log_period, start[-1]]])
        self.direction = np.concatenate([circle.ravel(), [0.0, 0.0]])
        self.direction /= np.sqrt(self.product(self.direction, self.direction))
        self.refer_to(self.direction)
        return self

    def limit_period(self, log_first: float) -> None:
        """End the branch where the period is too long a multiple of the first one."""
        self.longest = log_first + np.log(_LONGEST)

    def _weigh(self) -> None:
        n = DEGREE * (len(self.mesh) - 1)
        self.metric = np.append(np.full(n * self.d, 1.0 / n), np.ones(self.tail))

    def start(self, hopf: Bifurcation) -> Point:
        """The Hopf point as a cycle of no size; equations are singular there, so nothing is tested."""
        assert hopf.period is not None
        multipliers = np.exp(hopf.eigenvalues * hopf.period)
        on_circle = np.argsort(np.abs(np.abs(multipliers) - 1.0))[:2]
        others = np.delete(multipliers, on_circle)
        phases = np.append(self.nodes(), 1.0)
        orbit = np.tile(hopf.x, (len(phases), 1))
        n_unstable = int(np.count_nonzero(np.abs(others) > 1.0))
        info = CycleInfo(multipliers, n_unstable, 0.0, 0.0, phases, orbit, hopf.period, hopf.p)
        return Point(self.rest, self.direction, {}, info)

    @staticmethod
    def _critical(jac: np.ndarray, omega: float) -> np.ndarray:
        values, vectors = np.linalg.eig(jac)
        return vectors[:, np.argmin(np.abs(values - 1j * omega))]

    # ---------------------------------------------------------------- representation

    def nodes(self) -> np.ndarray:
        """Times of the N m independent nodes."""
        inner = np.arange(DEGREE) / DEGREE
        return (self.mesh[:-1, None] + np.diff(self.mesh)[:, None] * inner).ravel()

    def pieces(self, u: np.ndarray) -> np.ndarray:
        """States at all nodes of each interval, both ends included, (N, m + 1, d)."""
        x = u[: -self.tail].reshape(-1, DEGREE, self.d)
        return np.concatenate([x, np.roll(x[:, :1], -1, axis=0)], axis=1)

    def refer_to(self, u: np.ndarray) -> None:
        """Fix the phase by the cycle u: the integral of <x, u'> is to stay what it is for x = u."""
        values, slopes, weights = gauss()
        rates = np.einsum("ck,jkd->jcd", slopes, self.pieces(u))
        # The interval's length cancels: slopes are by its own time, weights by the whole.
        by_node = np.einsum("c,ck,jcd->jkd", weights, values, rates)
        row = by_node[:, :-1].copy()
        row[:, 0] += np.roll(by_node[:, -1], 1, axis=0)
        self.phase = row.ravel()
        self.phase_value = float(self.phase @ u[: -self.tail])
        self.shape = self._deviation(u)

    def _states(self, u: np.ndarray) -> np.ndarray:
        """Scaled states (N m, d) at the nodes."""
        return u[: -self.tail].reshape(-1, self.d)

    def _deviation(self, u: np.ndarray) -> np.ndarray:
        """States (N m, d) minus their mean over the nodes."""
        x = self._states(u)
        return x - x.mean(axis=0)

    def centre(self, u: np.ndarray) -> np.ndarray:
        """Scaled mean state over the nodes, and the scaled parameter."""
        return np.append(self._states(u).mean(axis=0), u[-1])

    # ---------------------------------------------------------------- the field along a cycle

    def _unscaled(self, u: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, float]:
        """States (..., d) and the parameter in units of the field."""
        return self.equations.unscaled(states, u[-1])

    def _rates(self, u: np.ndarray, states: np.ndarray) -> np.ndarray:
        """Scaled field (n, d) at scaled states, for the cycle's parameter."""
        return self.equations.field(states, u[-1])

    def _batch(self, u: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Scaled field (n, d), Jacobian (n, d, d) and derivatives by the parameters (n, d, tail - 1)."""
        f, jac, by_p = self.equations.batch(states, u[-1])
        return f, jac, by_p[:, :, None]

    # ---------------------------------------------------------------- linear algebra

    def linearise(self, u: np.ndarray, row: np.ndarray) -> Linear:
        reduced = self._condense(u)
        border, offset = reduced.row(row)
        bordered = np.vstack([reduced.matrix, border])

        def newton(c: float) -> np.ndarray:
            return reduced.expanded(np.linalg.solve(bordered, np.append(reduced.load, c - offset)), 1.0)

        def null() -> np.ndarray:
            zeros = np.append(np.zeros(len(reduced.load)), 1.0)
            return reduced.expanded(np.linalg.solve(bordered, zeros), 0.0)

        return Linear(newton, null, lambda: np.linalg.slogdet(bordered)[0], reduced.flow)

    def _condense(self, u: np.ndarray) -> Condensed:
        """Condensed equations: interior nodes, then some left ends of intervals, are eliminated.

        What remains are the left ends of the segments and the tail, as in multiple shooting. Segments are
        so short that nothing grows by more than `_GROWTH` over one, at best `_SEGMENTS` of them.
        """
        d, tail = self.d, self.tail
        residual, by_left, by_inner, by_tail, divergence = self._collocated(u)
        right = np.concatenate([by_left, by_tail, residual[:, :, None]], axis=2)
        inner = -np.linalg.solve(by_inner, right)  # inner nodes = inner @ (left end, tail, 1)
        n_segments = fewest_segments(inner[:, -d:, :d])
        left, across = composed(inner[:, -d:].reshape(n_segments, -1, d, d + tail + 1))
        n = n_segments * d
        matrix = np.zeros((n + 1, n + tail))
        blocks = matrix[:n, :n].reshape(n_segments, d, n_segments, d)
        index = np.arange(n_segments)
        blocks[index, :, (index + 1) % n_segments] = np.eye(d)
        blocks[index, :, index] -= across[:, :, :d]
        matrix[:n, n:] = -across[:, :, d : d + tail].reshape(n, tail)
        flow = Flow(inner[:, -d:, :d], divergence)
        reduced = Condensed(matrix, np.append(across[:, :, -1].ravel(), 0.0), inner, left, tail, flow)
        matrix[n], offset = reduced.row(np.append(self.phase, np.zeros(tail)))
        phase_defect = float(self.phase @ u[:-tail]) - self.phase_value
        reduced.load[n] = -phase_defect - offset
        return reduced

    def _collocated(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
        """Residual (N, m d) at the Gauss points, derivatives by nodes and tail, divergence once round."""
        d = self.d
        values, slopes, _ = gauss()
        pieces = self.pieces(u)
        n = len(pieces)
        period = np.exp(u[-self.tail])
        states = np.einsum("ck,jkd->jcd", values, pieces)
        f, jac, by_p = self._batch(u, states.reshape(-1, d))
        f, by_p = f.reshape(n, DEGREE, d), by_p.reshape(n, DEGREE * d, -1)
        h = np.diff(self.mesh)[:, None, None]
        residual = np.einsum("ck,jkd->jcd", slopes, pieces) - h * period * f
        by_left, by_inner, divergence = self._by_nodes(jac, float(period))
        flat = (n, DEGREE * d)
        by_tail = np.concatenate([(-h * period * f).reshape(flat)[:, :, None], -h * period * by_p], axis=2)
        return residual.reshape(flat), by_left, by_inner, by_tail, divergence

    def _by_nodes(self, jac: np.ndarray, period: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Derivatives (N, m d, d), (N, m d, m d) by left ends and nodes behind, divergence once round."""
        values, slopes, weights = gauss()
        d, n = self.d, len(self.mesh) - 1
        jac = jac.reshape(n, DEGREE, d, d)
        h = np.diff(self.mesh)[:, None, None]
        derivative = -(h[..., None, None] * period) * np.einsum("ck,jcab->jcakb", values, jac)
        derivative += np.einsum("ck,ab->cakb", slopes, np.eye(d))
        blocks = derivative.reshape(n, DEGREE * d, DEGREE + 1, d)
        traces = np.trace(jac, axis1=2, axis2=3)
        return (
            blocks[:, :, 0],
            blocks[:, :, 1:].reshape(n, DEGREE * d, DEGREE * d),
            float(period * np.sum(np.diff(self.mesh) * (traces @ weights))),
        )

    def _flow(self, u: np.ndarray, jacobians: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Flow:
        """Transfers at unknowns that need solve nothing; scaled Jacobians by unknowns and states."""
        states = np.einsum("ck,jkd->jcd", gauss()[0], self.pieces(u)).reshape(-1, self.d)
        by_left, by_inner, divergence = self._by_nodes(jacobians(u, states), float(np.exp(u[-self.tail])))
        return Flow(-np.linalg.solve(by_inner, by_left)[:, -self.d :], divergence)

    # ---------------------------------------------------------------- what a point is

    def observe(self, u: np.ndarray, tangent: np.ndarray, linear: Linear) -> Point:
        info = self._info(u, linear.info)
        multipliers, logarithm = info.multipliers, info.log_multiplier
        others = multipliers[1:]
        # The size locates where branches cross, the determinant's sign tells this from a fold.
        size = abs(turning(multipliers)) if logarithm is None else abs(logarithm)
        tests = {"branch": linear.orientation(self.metric * tangent) * size}
        if logarithm is not None:
            # Where cycles explode, p stands still to all digits; the multiplier still tells the turn.
            tests["fold"] = logarithm
            return Point(u, tangent, tests, info)
        tests["fold"] = tangent[-1] if abs(tangent[-1]) > _UPRIGHT else 0.0
        tests["doubling"] = float(np.prod(1.0 + others).real)
        pairs = np.multiply.outer(others, others)[np.triu_indices(len(others), 1)]
        tests["torus"] = float(np.prod(1.0 - pairs).real)
        return Point(u, tangent, tests, info)

    def _info(self, u: np.ndarray, flow: Flow) -> CycleInfo:
        multipliers, closeness, logarithm = self._multipliers(flow, u)
        nodes = self._states(u)
        orbit, p = self._unscaled(u, np.vstack([nodes, nodes[:1]]))
        return CycleInfo(
            multipliers,
            int(np.count_nonzero(np.abs(multipliers[1:]) > 1.0)),
            self.defect(u),
            closeness,
            np.append(self.nodes(), 1.0),
            orbit,
            float(np.exp(u[-self.tail]) * self.equations.time),
            p,
            log_multiplier=logarithm,
        )

    def _multipliers(self, flow: Flow, u: np.ndarray) -> tuple[np.ndarray, float, float | None]:
        """Multipliers (d,), trivial one first, |mu_trivial - 1|, and in the plane the other one's logarithm.

        In the plane they are 1 and the exponential of the divergence's integral, which loses no digits,
        whereas eigenvalues do where the flow expands and contracts strongly on the way (canards).
        """
        if self.d == 2:
            with np.errstate(over="ignore"):
                multipliers = np.array([1.0, np.exp(flow.divergence)])
            return multipliers, self._mismatch(flow.transfers, u), flow.divergence
        multipliers = flow.multipliers()
        order = np.argsort(np.abs(multipliers - 1.0))
        closeness = float(np.abs(multipliers[order[0]] - 1.0))
        return np.concatenate([multipliers[order[:1]], np.delete(multipliers, order[0])]), closeness, None

    def _mismatch(self, transfers: np.ndarray, u: np.ndarray) -> float:
        """|log mu_trivial| from how each interval carries the flow's direction to the next."""
        flow = self._rates(u, self.pieces(u)[:, 0])
        after = np.roll(flow, -1, axis=0)
        carried = np.einsum("ja,jab,jb->j", after, transfers, flow) / np.sum(after**2, axis=1)
        with np.errstate(all="ignore"):
            error = float(np.abs(np.sum(np.log(np.abs(carried)))))
        return error if np.isfinite(error) else np.inf

    def defect(self, u: np.ndarray) -> float:
        """Largest defect of the differential equation midway between nodes, relative to the largest rate."""
        pieces, period = self.pieces(u), np.exp(u[-self.tail])
        values, slopes = midway()
        states = np.einsum("ck,jkd->jcd", values, pieces)
        rates = np.einsum("ck,jkd->jcd", slopes, pieces) / np.diff(self.mesh)[:, None, None]
        f = period * self._rates(u, states.reshape(-1, self.d)).reshape(states.shape)
        return float(np.abs(rates - f).max() / np.abs(f).max())

    def passes(self, start: Point, here: Point, there: Point) -> bool:
        # Meshes differ: cycles are compared by their means and deviations, periods and parameters.
        return passed(*(self._summary(point) for point in (start, here, there)))

    def _summary(self, point: Point) -> np.ndarray:
        info, u = point.info, point.u
        weights = np.convolve(np.diff(info.phases), [0.5, 0.5])
        states = (info.orbit - self.equations.centre) / self.equations.length
        mean = weights @ states
        spread = np.sqrt(weights @ (states - mean) ** 2)
        return np.concatenate([mean, spread, u[-self.tail :]])

    def margins(self, point: Point) -> dict[BranchEnd, float]:
        equations, u = self.equations, point.u
        nodes = self._states(u)
        _, p = equations.unscaled(nodes, u[-1])
        overlap = np.sum(self._deviation(u) * self.shape) / np.sqrt(np.sum(self.shape**2) * len(nodes))
        return {
            BranchEnd.P_RANGE: equations.room_in_range(p),
            BranchEnd.REGION: equations.room_in_region(nodes),
            BranchEnd.PERIOD: self.longest - u[-2],
            BranchEnd.HOPF: float(overlap) - _SMALLEST,
            BranchEnd.ACCURACY: self._reliability(point.info),
        } | self.equations.room_in_support(nodes, u[-1])

    def _reliability(self, info: CycleInfo) -> float:
        multiplier = 1.0 if self.d == 2 else 1.0 - info.closeness / _WORST_MULTIPLIER
        return min(1.0 - info.residual / _WORST_DEFECT, multiplier)

    def possible(self, changed: set[str], before: Point, after: Point) -> set[str]:
        if before.info.n_unstable == after.info.n_unstable:
            # A torus takes two multipliers through the unit circle; neutral saddles, and the rounding of
            # products of large multipliers, none.
            changed = changed - {"torus"}
        # Towards a homoclinic orbit p stands still, and the sign of its change is rounding.
        if self.d == 2 or not changed & {"fold", "branch"}:
            return changed
        multipliers = [point.info.multipliers for point in (before, after)]
        far = min(np.abs(values[1:] - 1.0).min() for values in multipliers) > _FAR
        first, last = map(turning, multipliers)
        return changed - {"fold", "branch"} if far and first * last > 0 else changed

    def identify(
        self, changed: set[str], before: Point, located: Point, fine: bool
    ) -> list[tuple[Point, Any]]:
        kinds = []
        others = located.info.multipliers[1:]
        if changed & {"branch", "fold"} and self._turns(before, located):
            if "branch" in changed and not (fine or abs(located.tests["branch"]) < _LOCATED):
                raise Jumped
            if "branch" in changed:
                self.crossings.append(self._branch_point(located))
            kinds.append(BifurcationKind.BRANCH_POINT if "branch" in changed else BifurcationKind.CYCLE_FOLD)
        elif "branch" in changed and not fine:
            raise Jumped
        if "doubling" in changed and np.abs(others + 1.0).min() < _CRITICAL:
            kinds.append(BifurcationKind.PERIOD_DOUBLING)
            self.crossings.append(self._doubling(located))
        if "torus" in changed and self._is_torus(located.info.multipliers):
            kinds.append(BifurcationKind.NEIMARK_SACKER)
        info = replace(located.info, n_unstable=before.info.n_unstable)
        return [(replace(located, info=info), self._event(kind, located.info)) for kind in kinds]

    def _doubling(self, located: Point) -> Crossing:
        """Cycles of twice the period, which begin along the direction that changes sign once round."""
        u = located.u
        flow = self.linearise(u, self.metric * located.tangent).info
        lefts = [np.linalg.svd(flow.monodromy() + np.eye(self.d))[2][-1]]
        for step in flow.transfers:
            lefts.append(step @ lefts[-1])
        # Once round the direction has changed its sign, but for rounding.
        ends = np.array([*lefts[:-1], -lefts[0]])
        share = (np.arange(DEGREE) / DEGREE)[:, None]
        across = (ends[:-1, None] * (1.0 - share) + ends[1:, None] * share).ravel()
        return Crossing(
            BifurcationKind.PERIOD_DOUBLING,
            np.concatenate([self.mesh, 1.0 + self.mesh[1:]]) / 2.0,
            np.concatenate([u[:-2], u[:-2], [u[-2] + np.log(2.0), u[-1]]]),
            np.concatenate([across, -across, [0.0, 0.0]]),
            located.info.twice(),
        )

    def _branch_point(self, located: Point) -> Crossing:
        """The branch that crosses, along the null vector across the known one."""
        reduced = self._condense(located.u)
        first, second = (reduced.expanded(v, 0.0) for v in np.linalg.svd(reduced.matrix)[2][-2:])
        known = located.tangent
        direction = first * self.product(second, known) - second * self.product(first, known)
        return Crossing(BifurcationKind.BRANCH_POINT, self.mesh, located.u, direction, located.info)

    @staticmethod
    def _turns(before: Point, located: Point) -> bool:
        """Whether a multiplier passes +1, beyond its error; in a family at one parameter value none does."""
        logarithm = before.info.log_multiplier
        if max(abs(before.tangent[-1]), abs(located.tangent[-1])) < _STANDS:
            # Canard explosions stand upright as well, but their multipliers are far from 1.
            others = before.info.multipliers[1:]
            off = np.abs(np.log(np.abs(others))).min() if logarithm is None else abs(logarithm)
            if off < _FAMILY:
                return False
        if logarithm is None:
            return bool(np.abs(located.info.multipliers[1:] - 1.0).min() < _CRITICAL)
        error = max(_NEUTRAL, 10.0 * max(before.info.closeness, located.info.closeness))
        return abs(logarithm) > error and abs(located.info.log_multiplier) < _CRITICAL

    @staticmethod
    def _is_torus(multipliers: np.ndarray) -> bool:
        """Whether the pair with a product nearest to 1 is on the circle, not two reciprocal real numbers."""
        i, j = critical_pair(multipliers)
        return abs(multipliers[i].imag) > 1e-6 and abs(multipliers[i] * multipliers[j] - 1.0) < _CRITICAL

    def _event(self, kind: BifurcationKind, info: CycleInfo) -> Bifurcation:
        orbit = info.orbit
        support = self.equations.support(orbit, info.p)
        x = orbit[np.argmax(orbit[:, 0])]
        form = self._normal_form(kind, info)
        return Bifurcation(
            kind, info.p, x, info.residual, info.multipliers, support, info.period, normal_form=form
        )

    def _normal_form(self, kind: BifurcationKind, info: CycleInfo) -> float | None:
        if kind not in (BifurcationKind.PERIOD_DOUBLING, BifurcationKind.NEIMARK_SACKER):
            return None
        equations, orbit = self.equations, info.orbit
        size = float((np.ptp(orbit, axis=0) / equations.length).max())
        field = equations.family.at(info.p)
        mapping = ReturnMap(field, orbit[0], info.period, size, equations.length)
        if kind is BifurcationKind.PERIOD_DOUBLING:
            form = doubling_coefficient(mapping)
        else:
            form = torus_coefficient(mapping, info.multipliers[critical_pair(info.multipliers)[0]])
        return form if np.isfinite(form) and abs(form) < _LARGEST_FORM else None

    # ---------------------------------------------------------------- mesh

    def refreshed(self, point: Point) -> Point:
        density = self.density(point.u)
        share = density * np.diff(self.mesh)
        finer = point.info.closeness > _FINE and len(share) < MOST_INTERVALS
        if finer or share.max() > UNEVEN * share.mean():
            point = self.moved(point, share, len(share) * (2 if finer else 1))
        self.refer_to(point.u)
        return point

    def density(self, u: np.ndarray) -> np.ndarray:
        """Root of the (m + 1)-th derivative per interval, which mesh widths are to be inverse to."""
        h = np.diff(self.mesh)
        signs = [(-1.0) ** (DEGREE - k) * comb(DEGREE, k) for k in range(DEGREE + 1)]
        highest = np.einsum("k,jkd->jd", signs, self.pieces(u)) * (DEGREE / h[:, None]) ** DEGREE
        distance = (h + np.roll(h, -1)) / 2.0
        jumps = np.linalg.norm(np.roll(highest, -1, axis=0) - highest, axis=1) / distance
        density = ((jumps + np.roll(jumps, 1)) / 2.0) ** (1.0 / (DEGREE + 1))
        # No interval grows beyond a few times the mean one, however straight the orbit is there.
        return density + _EVEN_PART * np.sum(density * h)

    def moved(self, point: Point, share: np.ndarray, n: int) -> Point:
        """The same cycle on a mesh of n intervals that spreads the error measure evenly."""
        heights = np.concatenate([[0.0], np.cumsum(share)])
        old = self.mesh
        pieces, tangents = self.pieces(point.u), self.pieces(point.tangent)
        self.mesh = np.interp(np.linspace(0.0, heights[-1], n + 1), heights, old)
        self.mesh[0], self.mesh[-1] = 0.0, 1.0
        self._weigh()
        times = self.nodes()
        states, directions = (self.at(times, old, part).ravel() for part in (pieces, tangents))
        u = np.concatenate([states, point.u[-self.tail :]])
        tangent = np.concatenate([directions, point.tangent[-self.tail :]])
        return replace(point, u=u, tangent=tangent / np.sqrt(self.product(tangent, tangent)))

    @staticmethod
    def at(times: np.ndarray, mesh: np.ndarray, pieces: np.ndarray) -> np.ndarray:
        """States (n, d) at shares of the period of what is given by its nodes on each interval."""
        h = np.diff(mesh)
        interval = np.clip(np.searchsorted(mesh, times, side="right") - 1, 0, len(h) - 1)
        basis = lagrange((times - mesh[interval]) / h[interval])
        return np.einsum("nk,nkd->nd", basis, pieces[interval])


def turning(multipliers: np.ndarray) -> float:
    """Sum over the multipliers of the product of 1 - mu over all others.

    It is the derivative at 1 of the characteristic polynomial. As one multiplier is 1, it vanishes where
    another one is, and is smooth there, which the two multipliers by themselves are not.
    """
    rest = [np.delete(1.0 - multipliers, i) for i in range(len(multipliers))]
    return float(np.sum(np.prod(rest, axis=1)).real)


def critical_pair(multipliers: np.ndarray) -> tuple[int, int]:
    """Numbers of the two multipliers, the first and trivial one left out, whose product is nearest to 1."""
    others = multipliers[1:]
    products = np.multiply.outer(others, others) + np.diag(np.full(len(others), np.inf))
    i, j = np.unravel_index(np.argmin(np.abs(products - 1.0)), products.shape)
    return int(i) + 1, int(j) + 1
