"""Branches of cycles by orthogonal collocation, from Hopf points on, and the bifurcations on them."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from math import comb
from typing import Self

import numpy as np

from fim_dynsys.analyze.bifurcation.branches import Bifurcation, BifurcationKind, Branch, BranchKind
from fim_dynsys.analyze.bifurcation.equations import Equations
from fim_dynsys.analyze.bifurcation.tracing import (
    BranchEnd,
    Jumped,
    Linear,
    Point,
    Problem,
    Spend,
    trace,
)

_DEGREE = 4  # of the piecewise polynomials; errors at the mesh points fall as h^8
_INTERVALS = 30  # to begin with; doubled where the trivial multiplier asks for it
_SEGMENTS = 15  # what the condensed matrix keeps at least; divides the number of intervals
_GROWTH = 1e4  # of a perturbation over a segment at most: rounding then stays below convergence
_MOST_INTERVALS = 120  # two doublings: errors at the mesh points are then 1 / 65,536 of the first
_FINE = 1e-7  # |mu_trivial - 1| above which the mesh is refined
_WORST_DEFECT = 1e-2  # at which a branch is given up
_WORST_MULTIPLIER = 1e-3  # |mu_trivial - 1| at which a branch of three or more states is given up
_LONGEST = 50.0  # multiple of the first period at which a cycle is taken to approach a homoclinic one
_UNEVEN = 2.0  # largest ratio of an interval's error measure to the mean before the mesh is adapted
_EVEN_PART = 0.2  # of the mesh density
_SMALLEST = 1e-4  # scaled amplitude at which a branch has come back to an equilibrium
_UPRIGHT = 1e-10  # slope of the branch in p that is taken for none, as in families of a centre
_NEUTRAL = 1e-9  # |log mu| in the plane that is taken for none, likewise
_CORRECTIONS = 25  # Newton steps from a guess on one mesh
_ADAPTIONS = 12  # of the mesh to one orbit
_FINEST = 960  # intervals that one stiff orbit may take
_SETTLED = 1e-9  # relative change of the period from mesh to mesh at which an orbit is as good as it gets
_SETTLED_COARSELY = 1e-6  # for a cycle that a branch begins with
_CRITICAL = 1e-2  # distance from +1 or -1, or of a product from 1, of the multipliers of a bifurcation
_BIRTHS = (BifurcationKind.HOPF, BifurcationKind.GENERALIZED_HOPF)
_NEIGHBOUR = 0.05  # scaled distance in which two Hopf points are the same


def follow_cycles(
    equations: Equations,
    branches: Sequence[Branch],
    spend: Spend,
    max_points: int,
    budget: int,
    doublings: int = 0,
) -> list[Branch]:
    """Branches of cycles from the Hopf points of branches of equilibria.

    Parameters
    ----------
    equations : Equations
        The family and its units.
    branches : list of Branch
        Of equilibria.
    spend : callable
        ``spend(n) -> bool`` notes Newton iterations and tells whether the budget allows more.
    max_points : int
        Largest number of points of a branch.
    budget : int
        Number of field points of which each branch may use its share of what is left.
    doublings : int
        How many times branches are followed from period doublings onto cycles of twice the period.

    Returns
    -------
    list of Branch
        One per Hopf point, or one per two where a branch leads from one to another; behind each those of
        doubled cycles.

    References
    ----------
    E. J. Doedel, H. B. Keller, J. P. Kernevez, Numerical analysis and control of bifurcation problems (II):
    bifurcation in infinite dimensions, Int. J. Bifurcation and Chaos 1 (1991) 745, sections 2-4 (collocation,
    phase condition); U. Ascher, R. M. M. Mattheij, R. D. Russell, Numerical Solution of Boundary Value
    Problems, SIAM 1995, sections 5.6 (condensation) and 9.2 (meshes).
    """
    hopf_points = [b for branch in branches for b in branch.bifurcations if b.kind in _BIRTHS]
    followed: list[Branch] = []
    done: list[np.ndarray] = []
    for number, hopf in enumerate(hopf_points):
        ceiling = equations.points + (budget - equations.points) // (len(hopf_points) - number)

        def within_share(n: int, ceiling: int = ceiling) -> bool:
            return spend(n) and equations.points < ceiling

        place = equations.scaled(hopf.x, hopf.p)
        if any(np.linalg.norm(place - other) < _NEIGHBOUR for other in done):
            continue
        problem = _Cycles.born_at(equations, hopf)
        traced = trace(problem, problem.start(hopf), within_share, max_points)
        if traced.end is BranchEnd.HOPF:
            done.append(problem.centre(traced.points[-1].u))
        followed.append(_branch(problem, traced.points, traced.events, (BranchEnd.HOPF, traced.end)))
        followed += _cascade(problem, within_share, max_points, doublings)
    return followed


def _cascade(problem: "_Cycles", spend: Spend, max_points: int, depth: int) -> list[Branch]:
    """Branches of doubled cycles from the period doublings met, and from those on them."""
    branches: list[Branch] = []
    for doubling in problem.doublings if depth > 0 else ():
        doubled = _Cycles.doubled(problem.equations, doubling)
        start = Point(doubled.rest, doubled.direction, {}, doubling.info)
        traced = trace(doubled, start, spend, max_points)
        ends = (BranchEnd.DOUBLING, traced.end)
        branches.append(_branch(doubled, traced.points, traced.events, ends))
        branches += _cascade(doubled, spend, max_points, depth - 1)
    return branches


def follow_orbit(
    equations: Equations,
    times: np.ndarray,
    states: np.ndarray,
    p: float,
    spend: Spend,
    max_points: int,
    doublings: int = 0,
) -> list[Branch]:
    """The branch through a cycle known at one parameter value, in both directions, and doubled ones.

    Parameters
    ----------
    equations : Equations
        The family and its units.
    times, states : ndarray (k,), (k, d)
        The cycle over one period, the last state close to the first.
    p : float
        Parameter value.
    spend, max_points, doublings
        As for `follow_cycles`.

    Returns
    -------
    list of Branch
        Empty where Newton's method finds no cycle near the given one.
    """
    settled = _settled(equations, times, states, p, _SETTLED_COARSELY, _MOST_INTERVALS)
    if settled is None:
        return []
    problem, u, linear = settled
    problem.longest = u[-2] + np.log(_LONGEST)
    problem._refer_to(u)
    null = linear.null()
    tangent = null / np.sqrt(problem.product(null, null))
    start = problem.observe(u, tangent, linear)
    again = copy(problem)
    ahead = trace(problem, start, spend, max_points)
    behind = trace(again, replace(start, tangent=-tangent), spend, max_points)
    shift = len(behind.points) - 1
    events = [(shift - i, event) for i, event in reversed(behind.events)]
    events += [(shift + i, event) for i, event in ahead.events]
    points = [*behind.points[:0:-1], *ahead.points]
    branch = _branch(problem, points, events, (behind.end, ahead.end))
    return [branch, *_cascade(problem, spend, max_points, doublings)]


@dataclass(frozen=True)
class _Doubling:
    """A cycle at a period doubling: unknowns on a mesh, and the direction (N, d) that changes sign."""

    u: np.ndarray
    mesh: np.ndarray
    lefts: np.ndarray
    info: "_Info"


@dataclass(frozen=True)
class _Flow:
    """Transfer matrices (N, d, d) over the intervals, and the integral of the divergence over a period."""

    transfers: np.ndarray
    divergence: float


@dataclass(frozen=True)
class _Info:
    """A cycle in units of the field, and how well it is resolved.

    ``residual`` is the defect between collocation points, ``closeness`` |mu_trivial - 1|;
    ``log_multiplier`` the logarithm of the other multiplier in the plane, None in space.
    """

    multipliers: np.ndarray
    n_unstable: int
    residual: float
    closeness: float
    orbit: np.ndarray
    period: float
    p: float
    log_multiplier: float | None = None


class _Cycles(Problem):
    """Cycles x(tau), period T and parameter, tau in [0, 1], as piecewise polynomials.

    Unknowns are the scaled states at N m nodes, log T and the scaled parameter.
    """

    rest: np.ndarray  # unknowns where a branch is born, and its direction there
    direction: np.ndarray
    located_to = 1e-10
    may_close = False
    turn = 0.35  # shapes turn fast where an orbit has steep flanks, and Newton's method minds little

    def __init__(self, equations: Equations, mesh: np.ndarray) -> None:
        self.equations = equations
        self.d = equations.family.dim
        self.mesh = mesh
        self.longest = np.inf
        self.doublings: list[_Doubling] = []
        self._weigh()

    @classmethod
    def doubled(cls, equations: Equations, doubling: _Doubling) -> Self:
        """The problem of cycles of twice the period near a period doubling."""
        self = cls(equations, np.concatenate([doubling.mesh, 1.0 + doubling.mesh[1:]]) / 2.0)
        states = doubling.u[:-2]
        self.rest = np.concatenate([states, states, [doubling.u[-2] + np.log(2.0), doubling.u[-1]]])
        lefts = np.concatenate([doubling.lefts, -doubling.lefts[:1]])
        share = (np.arange(_DEGREE) / _DEGREE)[:, None]
        across = lefts[:-1, None] * (1.0 - share) + lefts[1:, None] * share
        self.direction = np.concatenate([across.ravel(), -across.ravel(), [0.0, 0.0]])
        self.direction /= np.sqrt(self.product(self.direction, self.direction))
        self.longest = self.rest[-2] + np.log(_LONGEST)
        self._refer_to(self.rest)
        return self

    @classmethod
    def born_at(cls, equations: Equations, hopf: Bifurcation) -> Self:
        """The problem of cycles near a Hopf point."""
        assert hopf.period is not None  # Hopf points have that of the cycles born
        self = cls(equations, np.linspace(0.0, 1.0, _INTERVALS + 1))
        start = equations.scaled(hopf.x, hopf.p)
        angle = 2.0 * np.pi * self._nodes()
        q = self._critical(equations.jacobian(start), 2.0 * np.pi * equations.time / hopf.period)
        circle = np.real(q * np.exp(1j * angle)[:, None])
        log_period = np.log(hopf.period / equations.time)
        self.longest = log_period + np.log(_LONGEST)
        self.rest = np.concatenate([np.tile(start[:-1], len(circle)), [log_period, start[-1]]])
        self.direction = np.concatenate([circle.ravel(), [0.0, 0.0]])
        self.direction /= np.sqrt(self.product(self.direction, self.direction))
        self._refer_to(self.direction)
        return self

    def _weigh(self) -> None:
        n = _DEGREE * (len(self.mesh) - 1)
        self.metric = np.append(np.full(n * self.d, 1.0 / n), [1.0, 1.0])

    def start(self, hopf: Bifurcation) -> Point:
        """The Hopf point as a cycle of no size; equations are singular there, so nothing is tested."""
        assert hopf.period is not None
        multipliers = np.exp(hopf.eigenvalues * hopf.period)
        on_circle = np.argsort(np.abs(np.abs(multipliers) - 1.0))[:2]
        others = np.delete(multipliers, on_circle)
        orbit = np.tile(hopf.x, (len(self._nodes()) + 1, 1))
        info = _Info(
            multipliers, int(np.count_nonzero(np.abs(others) > 1.0)), 0.0, 0.0, orbit, hopf.period, hopf.p
        )
        return Point(self.rest, self.direction, {}, info)

    @staticmethod
    def _critical(jac: np.ndarray, omega: float) -> np.ndarray:
        values, vectors = np.linalg.eig(jac)
        return vectors[:, np.argmin(np.abs(values - 1j * omega))]

    # ---------------------------------------------------------------- representation

    def _nodes(self) -> np.ndarray:
        """Times of the N m independent nodes."""
        inner = np.arange(_DEGREE) / _DEGREE
        return (self.mesh[:-1, None] + np.diff(self.mesh)[:, None] * inner).ravel()

    def _pieces(self, u: np.ndarray) -> np.ndarray:
        """States at all nodes of each interval, both ends included, (N, m + 1, d)."""
        x = u[:-2].reshape(-1, _DEGREE, self.d)
        return np.concatenate([x, np.roll(x[:, :1], -1, axis=0)], axis=1)

    def _refer_to(self, u: np.ndarray) -> None:
        """Fix the phase by the cycle u: the integral of <x, u'> is to stay what it is for x = u."""
        values, slopes, weights = _gauss()
        rates = np.einsum("ck,jkd->jcd", slopes, self._pieces(u))
        # The interval's length cancels: slopes are by its own time, weights by the whole.
        by_node = np.einsum("c,ck,jcd->jkd", weights, values, rates)
        row = by_node[:, :-1].copy()
        row[:, 0] += np.roll(by_node[:, -1], 1, axis=0)
        self.phase = row.ravel()
        self.phase_value = float(self.phase @ u[:-2])
        self.shape = self._deviation(u)

    def _deviation(self, u: np.ndarray) -> np.ndarray:
        """States (N m, d) minus their mean over the nodes."""
        x = u[:-2].reshape(-1, self.d)
        return x - x.mean(axis=0)

    def centre(self, u: np.ndarray) -> np.ndarray:
        """Scaled mean state over the nodes, and the scaled parameter."""
        return np.append(u[:-2].reshape(-1, self.d).mean(axis=0), u[-1])

    # ---------------------------------------------------------------- linear algebra

    def linearise(self, u: np.ndarray, row: np.ndarray) -> Linear:
        """Condensed Newton matrix: interior nodes, then some left ends of intervals, are eliminated.

        What remains are the left ends of the segments, log T and p, as in multiple shooting. Segments are
        so short that nothing grows by more than `_GROWTH` over one, at best `_SEGMENTS` of them.
        """
        d = self.d
        residual, by_left, by_inner, by_period, by_p, divergence = self._collocated(u)
        right = np.concatenate(
            [by_left, by_period[:, :, None], by_p[:, :, None], residual[:, :, None]], axis=2
        )
        inner = -np.linalg.solve(by_inner, right)  # inner nodes = inner @ (left end, log T, p, 1)
        n_segments = _fewest_segments(inner[:, -d:, :d])
        left, across = _composed(inner[:, -d:].reshape(n_segments, -1, d, d + 3))
        borders = [
            self._condensed_row(border, inner, left) for border in (np.append(self.phase, [0.0, 0.0]), row)
        ]
        n = n_segments * d
        condensed = np.zeros((n + 2, n + 2))
        blocks = condensed[:n, :n].reshape(n_segments, d, n_segments, d)
        index = np.arange(n_segments)
        blocks[index, :, (index + 1) % n_segments] = np.eye(d)
        blocks[index, :, index] -= across[:, :, :d]
        condensed[:n, -2:] = -across[:, :, d : d + 2].reshape(n, 2)
        condensed[n:] = [border[:-1] for border in borders]
        phase_defect = float(self.phase @ u[:-2]) - self.phase_value

        def newton(c: float) -> np.ndarray:
            load = [-phase_defect - borders[0][-1], c - borders[1][-1]]
            reduced = np.linalg.solve(condensed, np.append(across[:, :, -1].ravel(), load))
            return self._expanded(reduced, inner, left, 1.0)

        def null() -> np.ndarray:
            reduced = np.linalg.solve(condensed, np.append(np.zeros(n + 1), 1.0))
            return self._expanded(reduced, inner, left, 0.0)

        flow = _Flow(inner[:, -d:, :d], divergence)
        return Linear(newton, null, lambda: np.linalg.slogdet(condensed)[0], flow)

    def _collocated(
        self, u: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
        """Residual (N, m d) at the Gauss points, derivatives by nodes, log T and p, divergence once round."""
        equations, d = self.equations, self.d
        values, slopes, weights = _gauss()
        pieces = self._pieces(u)
        n = len(pieces)
        period = np.exp(u[-2])
        states = np.einsum("ck,jkd->jcd", values, pieces)
        f, jac, by_p = equations.batch(states.reshape(-1, d), u[-1])
        f, by_p = f.reshape(n, _DEGREE, d), by_p.reshape(n, _DEGREE, d)
        jac = jac.reshape(n, _DEGREE, d, d)
        h = np.diff(self.mesh)[:, None, None]
        residual = np.einsum("ck,jkd->jcd", slopes, pieces) - h * period * f
        derivative = -(h[..., None, None] * period) * np.einsum("ck,jcab->jcakb", values, jac)
        derivative += np.einsum("ck,ab->cakb", slopes, np.eye(d))
        blocks = derivative.reshape(n, _DEGREE * d, _DEGREE + 1, d)
        flat = (n, _DEGREE * d)
        traces = np.trace(jac, axis1=2, axis2=3)
        return (
            residual.reshape(flat),
            blocks[:, :, 0],
            blocks[:, :, 1:].reshape(n, _DEGREE * d, _DEGREE * d),
            (-h * period * f).reshape(flat),
            (-h * period * by_p).reshape(flat),
            float(period * np.sum(np.diff(self.mesh) * (traces @ weights))),
        )

    def _condensed_row(self, border: np.ndarray, inner: np.ndarray, left: np.ndarray) -> np.ndarray:
        """A row over all unknowns as one over segment ends, log T and p, and what the residual adds."""
        d = self.d
        by_node = border[:-2].reshape(-1, _DEGREE, d)
        # Inner nodes of an interval: its nodes 1..m-1; node m is the next interval's left end.
        by_inner = by_node[:, 1:].reshape(len(by_node), -1)
        by_left = np.einsum("ji,jia->ja", by_inner, inner[:, : (_DEGREE - 1) * d])
        rest = by_left[:, d:].sum(axis=0) + np.append(border[-2:], 0.0)
        at_left = (by_node[:, 0] + by_left[:, :d]).reshape(len(left), -1, d)
        by_segment = np.einsum("sgi,sgia->sa", at_left, left)
        return np.concatenate([by_segment[:, :d].ravel(), by_segment[:, d:].sum(axis=0) + rest])

    def _expanded(self, reduced: np.ndarray, inner: np.ndarray, left: np.ndarray, load: float) -> np.ndarray:
        """All unknowns from segment ends, log T and p; `load` is 1 with the residual and 0 without."""
        d = self.d
        rest = np.append(reduced[-2:], load)
        ends = reduced[:-2].reshape(len(left), d)
        lefts = (np.einsum("sgia,sa->sgi", left[..., :d], ends) + left[..., d:] @ rest).reshape(-1, d)
        inside = inner[:, : (_DEGREE - 1) * d]
        inners = np.einsum("jia,ja->ji", inside[:, :, :d], lefts) + inside[:, :, d:] @ rest
        states = np.concatenate([lefts[:, None], inners.reshape(-1, _DEGREE - 1, d)], axis=1)
        return np.concatenate([states.ravel(), reduced[-2:]])

    # ---------------------------------------------------------------- what a point is

    def observe(self, u: np.ndarray, tangent: np.ndarray, linear: Linear) -> Point:
        multipliers, closeness, logarithm = self._multipliers(linear.info, u)
        others = multipliers[1:]
        nodes = u[:-2].reshape(-1, self.d)
        orbit, p = self.equations.unscaled(np.vstack([nodes, nodes[:1]]), u[-1])
        info = _Info(
            multipliers,
            int(np.count_nonzero(np.abs(others) > 1.0)),
            self._defect(u),
            closeness,
            orbit,
            float(np.exp(u[-2]) * self.equations.time),
            p,
            logarithm,
        )
        tests = {"branch": linear.orientation(self.metric * tangent)}
        if logarithm is not None:
            # Where cycles explode, p stands still to all digits; the multiplier still tells the turn.
            tests["fold"] = logarithm
            return Point(u, tangent, tests, info)
        tests["fold"] = tangent[-1] if abs(tangent[-1]) > _UPRIGHT else 0.0
        tests["doubling"] = float(np.prod(1.0 + others).real)
        pairs = np.multiply.outer(others, others)[np.triu_indices(len(others), 1)]
        tests["torus"] = float(np.prod(1.0 - pairs).real)
        return Point(u, tangent, tests, info)

    def _multipliers(self, flow: _Flow, u: np.ndarray) -> tuple[np.ndarray, float, float | None]:
        """Multipliers (d,), trivial one first, |mu_trivial - 1|, and in the plane the other one's logarithm.

        In the plane they are 1 and the exponential of the divergence's integral, which loses no digits,
        whereas eigenvalues do where the flow expands and contracts strongly on the way (canards).
        """
        if self.d == 2:
            with np.errstate(over="ignore"):
                multipliers = np.array([1.0, np.exp(flow.divergence)])
            return multipliers, self._mismatch(flow.transfers, u), flow.divergence
        monodromy = np.eye(flow.transfers.shape[1])
        for step in flow.transfers:
            monodromy = step @ monodromy
        multipliers = np.linalg.eigvals(monodromy)
        order = np.argsort(np.abs(multipliers - 1.0))
        closeness = float(np.abs(multipliers[order[0]] - 1.0))
        return np.concatenate([multipliers[order[:1]], np.delete(multipliers, order[0])]), closeness, None

    def _mismatch(self, transfers: np.ndarray, u: np.ndarray) -> float:
        """|log mu_trivial| from how each interval carries the flow's direction to the next."""
        flow = self.equations.field(u[:-2].reshape(-1, _DEGREE, self.d)[:, 0], u[-1])
        after = np.roll(flow, -1, axis=0)
        carried = np.einsum("ja,jab,jb->j", after, transfers, flow) / np.sum(after**2, axis=1)
        with np.errstate(all="ignore"):
            error = float(np.abs(np.sum(np.log(np.abs(carried)))))
        return error if np.isfinite(error) else np.inf

    def _defect(self, u: np.ndarray) -> float:
        """Largest defect of the differential equation midway between nodes, relative to the largest rate."""
        pieces, period = self._pieces(u), np.exp(u[-2])
        values, slopes = _midway()
        states = np.einsum("ck,jkd->jcd", values, pieces)
        rates = np.einsum("ck,jkd->jcd", slopes, pieces) / np.diff(self.mesh)[:, None, None]
        f = period * self.equations.field(states.reshape(-1, self.d), u[-1]).reshape(states.shape)
        return float(np.abs(rates - f).max() / np.abs(f).max())

    def margins(self, point: Point) -> dict[BranchEnd, float]:
        equations, u = self.equations, point.u
        nodes = u[:-2].reshape(-1, self.d)
        _, p = equations.unscaled(nodes, u[-1])
        overlap = np.sum(self._deviation(u) * self.shape) / np.sqrt(np.sum(self.shape**2) * len(nodes))
        return {
            BranchEnd.P_RANGE: equations.room_in_range(p),
            BranchEnd.REGION: equations.room_in_region(nodes),
            BranchEnd.PERIOD: self.longest - u[-2],
            BranchEnd.HOPF: float(overlap) - _SMALLEST,
            BranchEnd.ACCURACY: self._reliability(point.info),
        }

    def _reliability(self, info: _Info) -> float:
        multiplier = 1.0 if self.d == 2 else 1.0 - info.closeness / _WORST_MULTIPLIER
        return min(1.0 - info.residual / _WORST_DEFECT, multiplier)

    def identify(
        self, changed: set[str], before: Point, located: Point, fine: bool
    ) -> list[tuple[Point, Bifurcation]]:
        kinds = []
        others = located.info.multipliers[1:]
        if changed & {"branch", "fold"} and self._turns(before, located):
            if "branch" in changed and not fine:
                raise Jumped
            kinds.append(BifurcationKind.BRANCH_POINT if "branch" in changed else BifurcationKind.CYCLE_FOLD)
        elif "branch" in changed and not fine:
            raise Jumped
        if "doubling" in changed and np.abs(others + 1.0).min() < _CRITICAL:
            kinds.append(BifurcationKind.PERIOD_DOUBLING)
            self.doublings.append(self._doubling(located))
        if "torus" in changed and self._is_torus(located.info.multipliers):
            kinds.append(BifurcationKind.NEIMARK_SACKER)
        info = replace(located.info, n_unstable=before.info.n_unstable)
        return [(replace(located, info=info), self._event(kind, located.info)) for kind in kinds]

    def _doubling(self, located: Point) -> _Doubling:
        flow = self.linearise(located.u, self.metric * located.tangent).info
        monodromy = np.eye(self.d)
        for step in flow.transfers:
            monodromy = step @ monodromy
        lefts = [np.linalg.svd(monodromy + np.eye(self.d))[2][-1]]
        for step in flow.transfers[:-1]:
            lefts.append(step @ lefts[-1])
        return _Doubling(located.u, self.mesh, np.array(lefts), located.info)

    @staticmethod
    def _turns(before: Point, located: Point) -> bool:
        """Whether a multiplier passes +1, beyond its error."""
        logarithm = before.info.log_multiplier
        if logarithm is None:
            return bool(np.abs(located.info.multipliers[1:] - 1.0).min() < _CRITICAL)
        error = max(_NEUTRAL, 10.0 * max(before.info.closeness, located.info.closeness))
        return abs(logarithm) > error and abs(located.info.log_multiplier) < _CRITICAL

    @staticmethod
    def _is_torus(multipliers: np.ndarray) -> bool:
        """Whether the pair with a product nearest to 1 is on the circle, not two reciprocal real numbers."""
        others = multipliers[1:]
        products = np.multiply.outer(others, others) + np.diag(np.full(len(others), np.inf))
        i, _ = np.unravel_index(np.argmin(np.abs(products - 1.0)), products.shape)
        return abs(others[i].imag) > 1e-6 and np.abs(products - 1.0).min() < _CRITICAL

    def _event(self, kind: BifurcationKind, info: _Info) -> Bifurcation:
        orbit = info.orbit
        support = self.equations.support(orbit, info.p)
        x = orbit[np.argmax(orbit[:, 0])]
        return Bifurcation(kind, info.p, x, info.residual, info.multipliers, support, period=info.period)

    # ---------------------------------------------------------------- mesh

    def refreshed(self, point: Point) -> Point:
        density = self._density(point.u)
        share = density * np.diff(self.mesh)
        finer = point.info.closeness > _FINE and len(share) < _MOST_INTERVALS
        if finer or share.max() > _UNEVEN * share.mean():
            point = self._moved(point, share, len(share) * (2 if finer else 1))
        self._refer_to(point.u)
        return point

    def _density(self, u: np.ndarray) -> np.ndarray:
        """Root of the (m + 1)-th derivative per interval, which mesh widths are to be inverse to."""
        h = np.diff(self.mesh)
        signs = [(-1.0) ** (_DEGREE - k) * comb(_DEGREE, k) for k in range(_DEGREE + 1)]
        highest = np.einsum("k,jkd->jd", signs, self._pieces(u)) * (_DEGREE / h[:, None]) ** _DEGREE
        distance = (h + np.roll(h, -1)) / 2.0
        jumps = np.linalg.norm(np.roll(highest, -1, axis=0) - highest, axis=1) / distance
        density = ((jumps + np.roll(jumps, 1)) / 2.0) ** (1.0 / (_DEGREE + 1))
        # No interval grows beyond a few times the mean one, however straight the orbit is there.
        return density + _EVEN_PART * np.sum(density * h)

    def _moved(self, point: Point, share: np.ndarray, n: int) -> Point:
        """The same cycle on a mesh of n intervals that spreads the error measure evenly."""
        heights = np.concatenate([[0.0], np.cumsum(share)])
        old = self.mesh
        pieces, tangents = self._pieces(point.u), self._pieces(point.tangent)
        self.mesh = np.interp(np.linspace(0.0, heights[-1], n + 1), heights, old)
        self.mesh[0], self.mesh[-1] = 0.0, 1.0
        self._weigh()
        times = self._nodes()
        states, directions = (self._at(times, old, part).ravel() for part in (pieces, tangents))
        u = np.concatenate([states, point.u[-2:]])
        tangent = np.concatenate([directions, point.tangent[-2:]])
        return replace(point, u=u, tangent=tangent / np.sqrt(self.product(tangent, tangent)))

    @staticmethod
    def _at(times: np.ndarray, mesh: np.ndarray, pieces: np.ndarray) -> np.ndarray:
        """States (n, d) at shares of the period of what is given by its nodes on each interval."""
        h = np.diff(mesh)
        interval = np.clip(np.searchsorted(mesh, times, side="right") - 1, 0, len(h) - 1)
        basis = _lagrange((times - mesh[interval]) / h[interval])
        return np.einsum("nk,nkd->nd", basis, pieces[interval])


@dataclass(frozen=True)
class ClosedOrbit:
    """A periodic orbit by collocation.

    Attributes
    ----------
    period : float
        Period.
    mesh : ndarray (N + 1,)
        Ends of the intervals as shares of the period.
    nodes : ndarray (N, d)
        States at their left ends.
    transfers : ndarray (N, d, d)
        Derivatives of the states at right ends by those at left ends, both in units of the length scale.
    divergence : float
        Integral of the field's divergence over a period.
    residual : float
        Largest defect of the differential equation between collocation points, by the largest rate.
    samples : ndarray (n + 1, d)
        States at equal times once round.
    """

    period: float
    mesh: np.ndarray
    nodes: np.ndarray
    transfers: np.ndarray
    divergence: float
    residual: float
    samples: np.ndarray


def closed_orbit(
    equations: Equations, times: np.ndarray, states: np.ndarray, p: float, n_samples: int = 512
) -> ClosedOrbit | None:
    """Correct a guess of a cycle at one parameter value on meshes adapted to it, however stiff it is.

    Parameters
    ----------
    equations : Equations
        The family and its units.
    times : ndarray (k,)
        Rising, over one period; the steps of an implicit integrator show where the orbit is steep.
    states : ndarray (k, d)
        States there, the last close to the first.
    p : float
        Parameter value.
    n_samples : int
        Number of equal intervals of time at whose ends states are given back.

    Returns
    -------
    ClosedOrbit or None
        None where Newton's method does not converge.
    """
    settled = _settled(equations, times, states, p, _SETTLED, _FINEST)
    if settled is None:
        return None
    problem, u, linear = settled
    where = float(u[-1])
    pieces = problem._pieces(u)
    samples = problem._at(np.linspace(0.0, 1.0, n_samples + 1), problem.mesh, pieces)
    return ClosedOrbit(
        period=float(np.exp(u[-2]) * equations.time),
        mesh=problem.mesh,
        nodes=equations.unscaled(pieces[:, 0], where)[0],
        transfers=linear.info.transfers,
        divergence=linear.info.divergence,
        residual=problem._defect(u),
        samples=equations.unscaled(samples, where)[0],
    )


def _settled(
    equations: Equations, times: np.ndarray, states: np.ndarray, p: float, closely: float, finest: int
) -> tuple[_Cycles, np.ndarray, Linear] | None:
    """A corrected cycle at one parameter value on a mesh adapted to it; see `closed_orbit`."""
    period = times[-1] - times[0]
    phase = (times - times[0]) / period
    index = np.linspace(0.0, len(phase) - 1.0, min(finest, 4 * _MOST_INTERVALS) + 1)
    problem = _Cycles(equations, np.interp(index, np.arange(len(phase)), phase))
    nodes = problem._nodes()
    scaled = (states - equations.centre) / equations.length
    guess = np.column_stack([np.interp(nodes, phase, column) for column in scaled.T])
    where = equations.scaled(states[0], p)[-1]
    u = np.concatenate([guess.ravel(), [np.log(period / equations.time), where]])
    row = np.append(np.zeros(len(u) - 1), 1.0)
    before = np.inf
    for _ in range(_ADAPTIONS):
        problem._refer_to(u)
        for _ in range(_CORRECTIONS):
            delta = problem.linearise(u, row).newton(0.0)
            size = np.sqrt(problem.product(delta, delta))
            if not np.isfinite(size):
                return None
            u = u + delta * min(1.0, 0.5 / size)
            if size < 1e-10 * max(1.0, np.sqrt(problem.product(u, u))):
                break
        else:
            return None
        settled = abs(u[-2] - before) < closely
        before = u[-2]
        linear = problem.linearise(u, row)
        if settled:
            break
        share = problem._density(u) * np.diff(problem.mesh)
        finer = len(share) < finest and share.max() < _UNEVEN * share.mean()
        point = problem._moved(Point(u, row, {}, None), share, len(share) * (2 if finer else 1))
        u, row = point.u, np.append(np.zeros(len(point.u) - 1), 1.0)
    else:
        linear = problem.linearise(u, row)
    return problem, u, linear


def _branch(
    problem: _Cycles,
    points: Sequence[Point],
    events: Sequence[tuple[int, Bifurcation]],
    ends: tuple[BranchEnd, BranchEnd],
) -> Branch:
    infos = [point.info for point in points]
    support = problem.equations.support
    return Branch(
        kind=BranchKind.CYCLES,
        p=np.array([info.p for info in infos]),
        x=np.array([info.orbit[np.argmax(info.orbit[:, 0])] for info in infos]),
        n_unstable=np.array([info.n_unstable for info in infos]),
        eigenvalues=np.array([info.multipliers for info in infos]).astype(complex),
        residual=np.array([info.residual for info in infos]),
        support=np.array([support(info.orbit, info.p) for info in infos]),
        bifurcations=tuple(event for _, event in events),
        ends=ends,
        period=np.array([info.period for info in infos]),
        orbits=tuple(info.orbit for info in infos),
    )


def _fewest_segments(transfers: np.ndarray) -> int:
    """Into how many segments intervals with these transfers (N, d, d) may be joined, see `_GROWTH`."""
    growth = np.maximum(0.0, np.log(np.linalg.norm(transfers, axis=(1, 2))))
    n = _SEGMENTS
    while n < len(growth) and growth.reshape(n, -1).sum(axis=1).max() > np.log(_GROWTH):
        n *= 2
    return n


def _composed(steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Affine maps along segments, from those over single intervals.

    Parameters
    ----------
    steps : ndarray (segments, g, d, d + 3)
        ``next = step @ (x, log T, p, 1)`` over each of a segment's g intervals.

    Returns
    -------
    left : ndarray (segments, g, d, d + 3)
        Maps from the segment's first point to the left end of each interval.
    across : ndarray (segments, d, d + 3)
        Maps over whole segments.
    """
    d = steps.shape[2]
    here = np.zeros((len(steps), d, d + 3))
    here[:, :, :d] = np.eye(d)
    left = np.empty_like(steps)
    for k in range(steps.shape[1]):
        left[:, k] = here
        here = steps[:, k, :, :d] @ here
        here[:, :, d:] += steps[:, k, :, d:]
    return left, here


# ---------------------------------------------------------------------- polynomials on one interval


def _lagrange(s: np.ndarray) -> np.ndarray:
    """Values (n, m + 1) at s in [0, 1] of the Lagrange polynomials of the nodes k / m."""
    return np.vander(np.atleast_1d(s), _DEGREE + 1, increasing=True) @ _lagrange_coefficients()


@cache
def _lagrange_coefficients() -> np.ndarray:
    """Monomial coefficients (power, node)."""
    nodes = np.arange(_DEGREE + 1) / _DEGREE
    return np.linalg.inv(np.vander(nodes, increasing=True))


@cache
def _gauss() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values and slopes of the Lagrange polynomials at the Gauss points of [0, 1], and the weights there."""
    points, weights = np.polynomial.legendre.leggauss(_DEGREE)
    points = (points + 1.0) / 2.0
    return _lagrange(points), _lagrange_slopes(points), weights / 2.0


@cache
def _midway() -> tuple[np.ndarray, np.ndarray]:
    """Values and slopes of the Lagrange polynomials midway between the nodes."""
    points = (np.arange(_DEGREE) + 0.5) / _DEGREE
    return _lagrange(points), _lagrange_slopes(points)


def _lagrange_slopes(s: np.ndarray) -> np.ndarray:
    powers = np.arange(1, _DEGREE + 1)
    return (s[:, None] ** (powers - 1) * powers) @ _lagrange_coefficients()[1:]
