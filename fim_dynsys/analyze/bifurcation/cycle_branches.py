"""Branches of cycles: from Hopf points, from known cycles, and from where others begin on them."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from fim_dynsys.analyze.bifurcation.homoclinic import long_period
from fim_dynsys.analyze.cycles.periodic import search_cycles
from fim_dynsys.analyze.tracing.branches import Bifurcation, BifurcationKind, Branch, BranchKind
from fim_dynsys.analyze.tracing.closed import settled
from fim_dynsys.analyze.tracing.collocation import Crossing, Cycles
from fim_dynsys.analyze.tracing.curve import BranchEnd, Point, Spend, Trace, trace
from fim_dynsys.analyze.tracing.equations import Equations
from fim_dynsys.regions import Region

_NEIGHBOUR = 0.05  # scaled distance in which two Hopf points are the same
# Of periods, means and deviations of equal cycles, in scaled units: cubics through 20 nodes leave 1e-5.
# And how much more than its neighbours on the branch a cycle may differ from one of them.
_EQUAL, _JUMP = 1e-4, 2.0
_CURVE, _ON_CURVE = 512, 0.02  # points of a cycle, and distance from them by its size of a point on it
_IMPLICIT_RTOL = 1e-8  # of a step: linear pieces between steps are then a guess good enough on a stiff cycle
_BEYOND = 0.01  # of the parameter range, from an end that is not resolved to where cycles are searched for
_SEEDS, _SEARCH_BUDGET = 16, 500_000  # paths of one search beyond such an end, and points of the field for it
# An explosion that used the budget up: change of the parameter over the latest points, by its range.
_UPRIGHT, _LATEST = 1e-6, 10
_SAME = 1e-5  # scaled distance in which two branch points of cycles are, solved for on two meshes


def follow_cycles(
    equations: Equations,
    hopf_points: Sequence[Bifurcation],
    spend: Spend,
    max_points: int,
    budget: int,
    doublings: int = 0,
) -> list[Branch]:
    """Branches of cycles from Hopf points.

    Parameters
    ----------
    equations : Equations
        The family and its units.
    hopf_points : list of Bifurcation
        Where they begin.
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
        One per Hopf point, or one per two where a branch leads from one to another; behind each those that
        begin on it, at period doublings and at branch points.

    References
    ----------
    E. J. Doedel, H. B. Keller, J. P. Kernevez, Numerical analysis and control of bifurcation problems (II):
    bifurcation in infinite dimensions, Int. J. Bifurcation and Chaos 1 (1991) 745, sections 2-4 (collocation,
    phase condition); U. Ascher, R. M. M. Mattheij, R. D. Russell, Numerical Solution of Boundary Value
    Problems, SIAM 1995, sections 5.6 (condensation) and 9.2 (meshes).
    """
    followed: list[Branch] = []
    done: list[np.ndarray] = []
    for number, hopf in enumerate(hopf_points):
        ceiling = equations.points + (budget - equations.points) // (len(hopf_points) - number)

        def within_share(n: int, ceiling: int = ceiling) -> bool:
            return spend(n) and equations.points < ceiling

        place = equations.scaled(hopf.x, hopf.p)
        if any(np.linalg.norm(place - other) < _NEIGHBOUR for other in done):
            continue
        problem = Cycles.born_at(equations, hopf)
        traced = trace(problem, problem.start(hopf), within_share, max_points)
        if traced.end is BranchEnd.HOPF:
            done.append(problem.centre(traced.points[-1].u))
        followed.append(_branch(problem, traced.points, traced.events, (BranchEnd.HOPF, traced.end)))
        followed += _Switches(equations, within_share, max_points).followed(problem, doublings)
    return followed


def follow_orbit(
    equations: Equations,
    times: np.ndarray,
    states: np.ndarray,
    p: float,
    spend: Spend,
    max_points: int,
    doublings: int = 0,
) -> list[Branch]:
    """The branch through a cycle known at one parameter value, in both directions, and those on it.

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
    known = settled(equations, times, states, p)
    if known is None:  # samples at equal times may miss the jumps of a relaxation oscillation
        known = settled(equations, *_followed_implicitly(equations, times, states, p), p)
    if known is None:
        return []
    problem, u, linear = known
    problem.limit_period(u[-2])
    problem.refer_to(u)
    problem.may_close = True
    null = linear.null()
    tangent = null / np.sqrt(problem.product(null, null))
    onward, back = (problem.observe(u, way, linear) for way in (tangent, -tangent))
    branch = _both_ways(problem, onward, back, spend, max_points)
    return [branch, *_Switches(equations, spend, max_points).followed(problem, doublings)]


def _followed_implicitly(
    equations: Equations, times: np.ndarray, states: np.ndarray, p: float
) -> tuple[np.ndarray, np.ndarray]:
    """Times and states of a stable cycle at the steps of an implicit integrator, from where it is slowest."""
    from scipy.integrate import solve_ivp  # deferred, as most cycles need none

    field, length = equations.differentiable.at(p), equations.length
    slowest = states[np.linalg.norm(field(states) / length, axis=1).argmin()]
    with np.errstate(all="ignore"):
        path = solve_ivp(
            lambda t, y: field(y * length) / length,
            (0.0, float(times[-1] - times[0])),
            slowest / length,
            method="LSODA",
            rtol=_IMPLICIT_RTOL,
            atol=1e-3 * _IMPLICIT_RTOL,
            jac=lambda t, y: field.jacobian(y * length) * (length / length[:, None]),
        )
    return (path.t, path.y.T * length) if path.success else (times, states)


def follow_beyond(
    equations: Equations,
    branches: Sequence[Branch],
    spend: Spend,
    max_points: int,
    doublings: int = 0,
) -> list[Branch]:
    """Branches of the large cycles beyond an explosion in which a branch of cycles ends.

    Beside such an end stable cycles are searched for, and those on no known branch begin one.

    Parameters
    ----------
    equations : Equations
        The family and its units.
    branches : sequence of Branch
        What was followed.
    spend, max_points, doublings
        As for `follow_cycles`.

    Returns
    -------
    list of Branch
    """
    known = [branch for branch in branches if branch.orbits is not None]
    upright = _UPRIGHT * (equations.high - equations.low)
    lost = []
    for branch in known:
        for place, limit in enumerate(branch.limits):
            end, latest = branch.ends[place], branch.p[-_LATEST:] if place else branch.p[:_LATEST]
            stuck = end in (BranchEnd.POINTS, BranchEnd.BUDGET) and np.ptp(latest) < upright
            if (end is BranchEnd.ACCURACY or stuck) and limit is None:
                lost.append(float(branch.p[-place]))
    found: list[Branch] = []
    box = _box_around(equations, known) if lost and equations.region is None else equations.region
    for p in (
        value + side * _BEYOND * (equations.high - equations.low) for value in lost for side in (-1.0, 1.0)
    ):
        if box is None or equations.room_in_range(p) < 0 or not spend(0):
            continue
        cycles = search_cycles(equations.family.at(p), box, _SEEDS, _SEARCH_BUDGET, n_saddles=1)
        equations.points += cycles.effort.points
        for i in np.flatnonzero(cycles.stable):
            period, orbit = float(cycles.period[i]), cycles.orbits[i]
            times = np.linspace(0.0, period, len(orbit))
            if not any(passes_through(equations, branch, times, orbit, p) for branch in [*known, *found]):
                found += follow_orbit(equations, times, orbit, p, spend, max_points, doublings)
    return found


def _box_around(equations: Equations, branches: Sequence[Branch]) -> Region:
    """The box of all cycles of some branches, with as much around it again."""
    low = np.min([branch.low.min(axis=0) for branch in branches], axis=0)
    high = np.max([branch.high.max(axis=0) for branch in branches], axis=0)
    return Region(low, high, equations.family.state_names).widened(1.0)


def passes_through(
    equations: Equations, branch: Branch, times: np.ndarray, states: np.ndarray, p: float
) -> bool:
    """Whether a branch of cycles passes through a cycle, as an isola does through two at one parameter value.

    Parameters
    ----------
    equations : Equations
        The family and its units.
    branch : Branch
        Of cycles.
    times, states : ndarray (k,), (k, d)
        The cycle over one period, the last state close to the first.
    p : float
        Its parameter value.

    Returns
    -------
    bool
    """
    if branch.orbits is None or branch.phases is None or branch.period is None:
        return False
    cycle, ahead = _Shape.of(times, states, equations), branch.p - p
    for i in np.flatnonzero(ahead[:-1] * ahead[1:] <= 0):
        near = int(i) if abs(ahead[i]) < abs(ahead[i + 1]) else int(i) + 1
        known = settled(equations, branch.phases[near] * branch.period[near], branch.orbits[near], p)
        if known is None:
            continue
        problem, u, linear = known
        info = problem.observe(u, linear.null(), linear).info
        here = _Shape.of(info.phases * info.period, info.orbit, equations)
        ends = [
            _Shape.of(branch.phases[k] * branch.period[k], branch.orbits[k], equations) for k in (i, i + 1)
        ]
        # Newton's method may have gone elsewhere: what lies on the branch is about as its neighbours are.
        jumped = here.differs(ends[near - i]) > _JUMP * ends[0].differs(ends[1]) + _EQUAL
        if not jumped and here.differs(cycle) < _EQUAL and here.distance(cycle.curve[0]) < _ON_CURVE:
            return True
    return False


@dataclass(frozen=True, eq=False)
class _Shape:
    """What tells cycles apart however they are sampled: period, means, deviations, and the curve itself."""

    numbers: np.ndarray  # (1 + 2 d,)
    curve: np.ndarray  # (n, d), scaled, at equal times

    @classmethod
    def of(cls, times: np.ndarray, states: np.ndarray, equations: Equations) -> "_Shape":
        scaled = (states - equations.centre) / equations.length
        period = float(times[-1] - times[0])
        closed = np.vstack([scaled[:-1], scaled[:1]])
        phases = np.linspace(times[0], times[-1], _CURVE, endpoint=False)
        curve = CubicSpline(times, closed, bc_type="periodic")(phases)
        return cls(np.concatenate([[np.log(period)], curve.mean(axis=0), curve.std(axis=0)]), curve)

    def differs(self, other: "_Shape") -> float:
        return float(np.abs(self.numbers - other.numbers).max())

    def distance(self, state: np.ndarray) -> float:
        return float(np.linalg.norm(self.curve - state, axis=1).min() / np.ptp(self.curve, axis=0).max())


def _both_ways(problem: Cycles, onward: Point, back: Point, spend: Spend, max_points: int) -> Branch:
    """The branch through a cycle, ahead and behind; once round if it closes."""
    again = copy(problem)
    ahead = trace(problem, onward, spend, max_points)
    if ahead.end is BranchEnd.CLOSED:
        return _branch(problem, ahead.points, ahead.events, (ahead.end, ahead.end))
    behind = trace(again, back, spend, max_points)
    return _branch(problem, *joined(behind, ahead), (behind.end, ahead.end))


def joined(behind: Trace, ahead: Trace) -> tuple[list[Point], list[tuple[int, Any]]]:
    """Points and events of two traces from one point, as those of one."""
    shift = len(behind.points) - 1
    events = [(shift - i, event) for i, event in reversed(behind.events)]
    events += [(shift + i, event) for i, event in ahead.events]
    return [*behind.points[:0:-1], *ahead.points], events


class _Switches:
    """Follows the branches that begin on others: at period doublings, and at branch points."""

    def __init__(self, equations: Equations, spend: Spend, max_points: int) -> None:
        self.equations, self.spend, self.max_points = equations, spend, max_points
        self.passed: list[np.ndarray] = []  # branch points, (period, parameter)

    def followed(self, problem: Cycles, depth: int) -> list[Branch]:
        """Branches that begin on the one just traced, and on those; doublings to a depth."""
        branches: list[Branch] = []
        for crossing in problem.crossings:
            doubling = crossing.kind is BifurcationKind.PERIOD_DOUBLING
            if depth < 1 if doubling else self._known(crossing):
                continue
            other = Cycles.crossing(self.equations, crossing)
            start = Point(other.rest, other.direction, {}, crossing.info)
            if doubling:  # the other way round begin the same cycles, half a period later
                traced = trace(other, start, self.spend, self.max_points)
                ends = (BranchEnd.DOUBLING, traced.end)
                branches.append(_branch(other, traced.points, traced.events, ends))
            else:
                back = replace(start, tangent=-start.tangent)
                branches.append(_both_ways(other, start, back, self.spend, self.max_points))
            branches += self.followed(other, depth - doubling)
        return branches

    def _known(self, crossing: Crossing) -> bool:
        place = crossing.u[-2:]
        if any(np.abs(place - other).max() < _SAME for other in self.passed):
            return True
        self.passed.append(place)
        return False


def _branch(
    problem: Cycles,
    points: Sequence[Point],
    events: Sequence[tuple[int, Bifurcation]],
    ends: tuple[BranchEnd, BranchEnd],
) -> Branch:
    infos = [point.info for point in points]
    support = problem.equations.support
    branch = Branch(
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
        phases=tuple(info.phases for info in infos),
    )
    first, last = (long_period(problem.equations, branch, end) for end in (0, -1))
    return replace(branch, limits=(first, last))
