"""Pseudo-arclength continuation of a curve G(u) = 0 with one unknown more than equations.

A little above five hundred lines: one algorithm, its steps, corrections and events.
"""

import abc
import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import brentq

Spend = Callable[[int], bool]
"""``spend(n)`` notes n Newton iterations and tells whether the budget allows more."""

_CONVERGED = 1e-11  # Newton step that is not taken any more, unless the problem states another
_MAX_ITERATIONS = 8  # quadratic from a good guess; a step that takes more is better halved
_SMALLEST_STEP = 1e-7  # 10,000 times the convergence: below it, tangents are rounding
_LARGEST_STEP = 0.04  # a range, which is 1 wide, has then 25 points or more
_LARGEST_SHARE = 0.1  # of a parameter's range in a step, however large the states
_FIRST_STEP = 0.01  # of arclength, in units of the region and the parameter's range
_SHORTENED = 0.93  # of a step that landed on an event, which is taken instead
_SHORT_STEP = 1e-4  # below it, what cannot be separated is reported as it is
_LARGEST_TURN = 3.0  # times the turn that a step is meant to make
_REACHED = 1e-12  # distance to which limits are located
_VAGUE = 1e-2  # share of a step to which the end of what is resolved is located
_STRADDLES = (1e-5, 1e-4, 1e-3)  # shares of a step on both sides of a branch point; errors are their squares


class BranchEnd(enum.StrEnum):
    """Why a branch ends where it does."""

    P_RANGE = "edge of the parameter range"
    REGION = "edge of the region"
    SUPPORT = "boundary of the support by data"
    CLOSED = "closed loop"
    HOPF = "shrinks to an equilibrium"
    DOUBLING = "period doubling"
    DOUBLE_ZERO = "Bogdanov-Takens point"
    RESONANCE = "resonance 1:1 or 1:2"
    PERIOD = "period grows beyond the limit"
    ACCURACY = "cycle no longer resolved"
    STEP = "steps became too small"
    CONTINUUM = "equilibria form a continuum"
    CIRCLE = "circle of equilibria shrinks to a point"
    KINK = "kink or sharp bend of the field"
    POINTS = "limit of points reached"
    BUDGET = "budget used up"


@dataclass(frozen=True)
class Linear:
    """The equations at u, linearised and bordered by one row.

    Attributes
    ----------
    newton : callable
        ``newton(c) -> (n,)``, the step that solves the linearised equations and moves by c along the row.
    null : callable
        ``null() -> (n,)``, the direction that leaves the equations zero and moves by 1 along the row: the
        tangent, unscaled.
    sign : callable
        ``sign() -> float``, that of the bordered matrix's determinant.
    info : object
        What the problem can tell of u beside.
    """

    newton: Callable
    null: Callable
    sign: Callable
    info: Any

    def orientation(self, tangent: np.ndarray) -> float:
        """Sign of the determinant when bordered by a multiple of `tangent` in the metric, not by the row."""
        return self.sign() if float(np.dot(self.null(), tangent)) > 0 else -self.sign()


def dense_linear(value: np.ndarray, matrix: np.ndarray, info: object, row: np.ndarray) -> Linear:
    """Equations with a dense matrix, linearised.

    Parameters
    ----------
    value : ndarray (n - 1,)
        What is to vanish.
    matrix : ndarray (n - 1, n)
        Its derivatives.
    info : object
        What the problem can tell beside.
    row : ndarray (n,)
        The border.

    Returns
    -------
    Linear
    """
    bordered = np.vstack([matrix, row])

    def newton(c: float) -> np.ndarray:
        try:
            return np.linalg.solve(bordered, np.append(-value, c))
        except np.linalg.LinAlgError:
            return np.full(len(row), np.nan)

    def null() -> np.ndarray:
        try:
            return np.linalg.solve(bordered, np.append(np.zeros(len(value)), 1.0))
        except np.linalg.LinAlgError:
            # Exactly on a branch point: any of its directions will do.
            return np.linalg.svd(matrix)[2][-1]

    return Linear(newton, null, lambda: np.linalg.slogdet(bordered)[0], info)


@dataclass(frozen=True)
class Point:
    """A point of the curve.

    Attributes
    ----------
    u : ndarray (n,)
        Scaled unknowns.
    tangent : ndarray (n,)
        Unit tangent in the problem's metric, in the direction of travel.
    tests : dict of str to float
        Test functions: a sign change between points is an event to be located.
    info : object
        What the problem observed.
    """

    u: np.ndarray
    tangent: np.ndarray
    tests: dict[str, float]
    info: Any


class Problem(abc.ABC):
    """Equations with one unknown more than there are, in unknowns of order one.

    Attributes
    ----------
    metric : ndarray (n,)
        Weights of the inner product.
    located_to : float
        Share of a step to which zeros of test functions are located; coarse where `identify` polishes.
    may_close : bool
        Whether curves can come back to their start.
    straddles : bool
        Whether zeros that Newton's method does not reach are interpolated between points on both sides.
    turn : float
        Radians that the tangent is meant to turn in a step.
    parameters : int
        How many of the last unknowns are parameters, of which steps are short also where states are large.
    converged : float
        Newton step, relative to the unknowns, that is not taken any more.
    """

    metric: np.ndarray
    located_to: float
    may_close: bool
    straddles: bool = False
    turn: float
    parameters: int = 0
    converged: float = _CONVERGED

    @abc.abstractmethod
    def linearise(self, u: np.ndarray, row: np.ndarray) -> Linear:
        """Linearise at u, bordered by ``row`` (n,), which already contains the metric."""

    @abc.abstractmethod
    def observe(self, u: np.ndarray, tangent: np.ndarray, linear: Linear) -> Point:
        """Evaluate the test functions at a point of the curve."""

    @abc.abstractmethod
    def margins(self, point: Point) -> dict[BranchEnd, float]:
        """How far a point is from each limit, negative beyond; what the curve may not cross."""

    @abc.abstractmethod
    def identify(
        self, changed: set[str], before: Point, located: Point, fine: bool
    ) -> list[tuple[Point, Any]]:
        """What happens at a located sign change.

        Parameters
        ----------
        changed : set of str
            Test functions that change sign; none where the step is `suspicious` though it is short.
        before : Point
            Last point before it.
        located : Point
            Where they do.
        fine : bool
            Whether steps can hardly become smaller.

        Returns
        -------
        list
            Events as (Point, object).

        Raises
        ------
        Jumped
            If the sign change only shows that the step led to another branch.
        """

    def landed(self, before: Point, after: Point) -> bool:
        """Whether a step ends on an event itself, where test functions are rounding."""
        return False

    def suspicious(self, before: Point, after: Point) -> bool:
        """Whether more happened between two points than sign changes of test functions tell."""
        return False

    def possible(self, changed: set[str], before: Point, after: Point) -> set[str]:
        """Those sign changes of test functions between two points that can be more than rounding."""
        return changed

    def passes(self, start: Point, here: Point, there: Point) -> bool:
        """Whether the step from here to there passes the start in its direction of travel."""
        onward = self.product(there.tangent, start.tangent) > 0.9
        return onward and passed(start.u, here.u, there.u, self.metric)

    def refreshed(self, point: Point) -> Point:
        """The same point after changes of the discretisation."""
        return point

    def product(self, a: np.ndarray, b: np.ndarray) -> float:
        """Inner product in the problem's metric."""
        return float(np.dot(self.metric * a, b))


def passed(start: np.ndarray, here: np.ndarray, there: np.ndarray, metric: np.ndarray | float = 1.0) -> bool:
    """Whether the straight way from here to there leads closely past a start, all (n,)."""
    way = there - here
    length = float(np.dot(metric * way, way))
    share = float(np.dot(metric * way, start - here)) / length
    miss = start - here - share * way
    return 0 < share <= 1 and float(np.dot(metric * miss, miss)) < 1e-2 * length


class Jumped(Exception):
    """A step led to another branch."""


@dataclass
class Trace:
    """A traced piece of a curve.

    Attributes
    ----------
    points : list of Point
        In the order of travel; located events are among them.
    events : list of (int, object)
        Position in `points`, and what was identified there.
    end : BranchEnd
        Why it stopped.
    """

    points: list = field(default_factory=list)
    events: list = field(default_factory=list)
    end: BranchEnd = BranchEnd.BUDGET


def trace(problem: Problem, start: Point, spend: Spend, max_points: int) -> Trace:
    """Follow a curve from one of its points until a limit, the start, or the end of the budget.

    The step is adapted so that the tangent turns by what the problem states, and halved where Newton's method
    does not converge, the tangent turns by more than three times that, or a sign change turns out to be a
    jump.

    Parameters
    ----------
    problem : Problem
        The equations.
    start : Point
        The first point of the trace, with the direction of travel.
    spend : callable
        ``spend(n) -> bool`` notes n Newton iterations and tells whether the budget allows more.
    max_points : int
        Largest number of points.

    Returns
    -------
    Trace
    """
    return _Tracer(problem, spend, max_points).run(start)


def corrected(
    problem: Problem, here: Point, sigma: float, spend: Callable[[int], object]
) -> tuple[Point, int] | None:
    """Find the point of the curve at a distance along the tangent of another one.

    Parameters
    ----------
    problem : Problem
        The equations.
    here : Point
        A point of the curve.
    sigma : float
        Distance along its tangent.
    spend : callable
        ``spend(n)`` notes n Newton iterations.

    Returns
    -------
    (Point, int) or None
        The point and the iterations it took; None where Newton's method leads elsewhere or nowhere.
    """
    u = here.u + sigma * here.tangent
    row = problem.metric * here.tangent
    target = float(np.dot(row, here.u)) + sigma
    previous = np.inf
    for iteration in range(1, _MAX_ITERATIONS + 1):
        spend(1)
        try:
            delta = problem.linearise(u, row).newton(target - float(np.dot(row, u)))
        except np.linalg.LinAlgError:  # several curves are one here, as of cycles round a centre
            return None
        size = np.sqrt(problem.product(delta, delta))
        # A first correction longer than the step, or growing ones, lead somewhere else.
        if not size < min(previous, max(sigma, problem.converged)):
            return None
        u = u + delta
        # Steps shrink quadratically: what the next one would be follows from the last two.
        following = size * min(1.0, size / previous) ** 2 if iteration > 1 else size
        previous = size
        if following < problem.converged * max(1.0, np.sqrt(problem.product(u, u))):
            try:
                return _observed(problem, here, u, row), iteration
            except np.linalg.LinAlgError:  # derivatives are not finite: the field is not smooth there
                return None
    return None


def events_between(problem: Problem, here: Point, there: Point, spend: Spend) -> list[tuple[Point, Any]]:
    """Events between two points of a curve, in order.

    Parameters
    ----------
    problem : Problem
        The equations.
    here, there : Point
        In the direction of travel.
    spend : callable
        Notes Newton iterations.

    Returns
    -------
    list
        As `Problem.identify` returns them.

    Raises
    ------
    Jumped
        If a sign change is none.
    """
    return _Tracer(problem, spend, 0)._events(here, there, _SHORT_STEP)


def limit_between(problem: Problem, here: Point, there: Point, spend: Spend) -> Point:
    """The point where a curve reaches a limit between a point within and one beyond, both on it.

    Parameters
    ----------
    problem : Problem
        The equations.
    here, there : Point
        In the direction of travel.
    spend : callable
        Notes Newton iterations.

    Returns
    -------
    Point
        Itself `here` where none is found.
    """
    reached = _Tracer(problem, spend, 0)._limit(here, there)
    return here if reached is None else reached[0]


def _observed(problem: Problem, here: Point, u: np.ndarray, row: np.ndarray) -> Point:
    linear = problem.linearise(u, row)
    null = linear.null()
    tangent = null / np.sqrt(problem.product(null, null))
    tangent = tangent if problem.product(tangent, here.tangent) > 0 else -tangent
    return problem.observe(u, tangent, linear)


class _Tracer:
    def __init__(self, problem: Problem, spend: Spend, max_points: int) -> None:
        self.problem = problem
        self.spend = spend
        self.max_points = max_points
        self.within_budget = True

    def run(self, start: Point) -> Trace:
        result = Trace([start])
        here, step = start, _FIRST_STEP
        while len(result.points) < self.max_points and self.within_budget:
            if step < _SMALLEST_STEP:
                result.end = BranchEnd.STEP
                return result
            advance = self._advance(here, step)
            if advance is None:
                step /= 2
                continue
            there, iterations = advance
            if self.problem.landed(here, there):
                there, iterations = self._advance(here, _SHORTENED * step) or advance
            limit = self._limit(here, there)
            if limit is not None:
                there = limit[0]
            try:
                found = self._events(here, there, step) if there is not here else []
            except Jumped:
                step /= 2
                continue
            closes = (
                limit is None
                and self.problem.may_close
                and len(result.points) + len(found) > 3
                and self.problem.passes(start, here, there)
            )
            if closes:  # what lies beyond the start has been met at first
                found = [(point, e) for point, e in found if not self.problem.passes(start, here, point)]
            for point, event in found:
                result.points.append(point)
                result.events.append((len(result.points) - 1, event))
            if there is not here:
                result.points.append(there)
            if limit is not None:
                result.end = limit[1]
                return result
            if closes:
                result.points[-1] = start
                result.end = BranchEnd.CLOSED
                return result
            step = self._next_step(step, here, there, iterations)
            here = self.problem.refreshed(there)
        result.end = BranchEnd.POINTS if self.within_budget else BranchEnd.BUDGET
        return result

    # ---------------------------------------------------------------- one step

    def _advance(self, here: Point, step: float) -> tuple[Point, int] | None:
        """The point at this arclength and the iterations it took; None if the step is too long."""
        outcome = self._at(here, step)
        if outcome is None:
            return None
        there, iterations = outcome
        turn = np.arccos(np.clip(self.problem.product(here.tangent, there.tangent), -1.0, 1.0))
        fine = step < 8 * _SMALLEST_STEP
        if turn > _LARGEST_TURN * self.problem.turn or (not fine and self.problem.suspicious(here, there)):
            return None
        return there, iterations

    def _at(self, here: Point, sigma: float) -> tuple[Point, int] | None:
        return corrected(self.problem, here, sigma, self._spent)

    def _spent(self, iterations: int) -> None:
        self.within_budget = self.spend(iterations)

    def _next_step(self, step: float, here: Point, there: Point, iterations: int) -> float:
        turn = np.arccos(np.clip(self.problem.product(here.tangent, there.tangent), -1.0, 1.0))
        factor = np.clip(self.problem.turn / max(turn, 1e-6), 0.5, 1.5) * (0.7 if iterations > 4 else 1.0)
        size = np.sqrt(self.problem.product(there.u, there.u))
        ways = np.abs(there.tangent[len(there.tangent) - self.problem.parameters :])
        share = _LARGEST_SHARE / max(float(ways.max(initial=0.0)), 1e-300)
        return min(step * factor, _LARGEST_STEP * max(1.0, size), share)

    # ---------------------------------------------------------------- events and ends

    def _events(self, here: Point, there: Point, step: float) -> list[tuple[Point, Any]]:
        """Events between two points, in order; Jumped where a sign change is none."""
        changed = {name for name, value in here.tests.items() if (value < 0) != (there.tests[name] < 0)}
        if not changed:
            # Reached with short steps only: longer ones are not accepted in the first place.
            suspicious = self.problem.suspicious(here, there)
            return self.problem.identify(set(), here, there, fine=True) if suspicious else []
        changed = self.problem.possible(changed, here, there)
        reach = self.problem.product(here.tangent, there.u - here.u)
        fine = step < _SHORT_STEP
        located = [(self._zero(here, there, reach, name, fine), name) for name in sorted(changed)]
        located.sort(key=lambda entry: entry[0][0])
        found = []
        while located:
            (sigma, point), _ = located[0]
            # Test functions that vanish at one point tell of one event.
            close = 10 * self.problem.located_to * reach
            same = {name for (other, _), name in located if abs(other - sigma) <= close}
            located = [entry for entry in located if entry[1] not in same]
            found += self.problem.identify(same, here, point, fine=fine)
        return found

    def _zero(self, here: Point, there: Point, reach: float, name: str, fine: bool) -> tuple[float, Point]:
        """Arclength from `here`, and point, where a test function vanishes; after a fine step, its end."""
        known = {0.0: here, reach: there}
        latest = 0.0

        def value(sigma: float) -> float:
            nonlocal latest
            latest = sigma
            return self._known(here, known, sigma).tests[name]

        tolerance = self.problem.located_to * reach
        try:
            sigma = brentq(value, 0.0, reach, xtol=max(tolerance, 1e-14), rtol=1e-14)
        except Jumped:
            between = self._straddled(here, known, latest, reach, name) if self.problem.straddles else None
            if between is not None:
                return between
            if not fine:
                raise
            sigma = reach
        return sigma, self._known(here, known, sigma)

    def _straddled(
        self, here: Point, known: dict[float, Point], sigma: float, reach: float, name: str
    ) -> tuple[float, Point] | None:
        """Where a test function vanishes between points beside a place that Newton's method misses."""
        for share in _STRADDLES:
            try:
                ends = [self._known(here, known, sigma + sign * share * reach) for sign in (-1.0, 1.0)]
            except Jumped:
                continue
            low, high = (end.tests[name] for end in ends)
            if (low < 0) != (high < 0):
                weight = low / (low - high)
                u = (1.0 - weight) * ends[0].u + weight * ends[1].u
                row = self.problem.metric * here.tangent
                return sigma + (2.0 * weight - 1.0) * share * reach, _observed(self.problem, here, u, row)
        return None

    def _known(self, here: Point, known: dict[float, Point], sigma: float) -> Point:
        if sigma not in known:
            outcome = self._at(here, sigma)
            if outcome is None:
                raise Jumped
            known[sigma] = outcome[0]
        return known[sigma]

    def _limit(self, here: Point, there: Point) -> tuple[Point, BranchEnd] | None:
        """The point at which a limit is reached between two points, and which; None if none is."""
        before, after = self.problem.margins(here), self.problem.margins(there)
        crossed = [end for end, margin in after.items() if margin < 0]
        if not crossed:
            return None
        if any(before[end] <= 0 for end in crossed):
            return here, next(end for end in crossed if before[end] <= 0)
        reach = self.problem.product(here.tangent, there.u - here.u)
        known = {0.0: here, reach: there}
        # Where accuracy is lost is no place: rounding decides it.
        vague = crossed == [BranchEnd.ACCURACY]

        def smallest(sigma: float) -> float:
            return min(self.problem.margins(self._known(here, known, sigma))[end] for end in crossed)

        try:
            sigma = brentq(smallest, 0.0, reach, xtol=_VAGUE * reach if vague else _REACHED, rtol=1e-14)
        except Jumped:
            return here, crossed[0]
        if vague:
            sigma = max(s for s in known if smallest(s) >= 0)
        point = self._known(here, known, sigma)
        margins = self.problem.margins(point)
        return point, min(crossed, key=lambda end: abs(margins[end]))
