"""Zeros and minima of |f| from many starting points at once, and the counting of what that costs."""

from dataclasses import dataclass, replace

import numpy as np

from fim_dynsys.analyze.results import has_exact_jacobian
from fim_dynsys.analyze.settled import RUNGS, SHRINKING, with_step
from fim_dynsys.deadline import out_of_time
from fim_dynsys.fields.base import DIFFERENCE, VectorField
from fim_dynsys.fields.frame import Scales
from fim_dynsys.regions import Region

# A simple zero is reached to rounding: |f| some 1e-15 of the field's speed. What is left of |f| at a zero of
# higher order is far less, but there the step to go stays large: x^5 leaves 1e-6 of a length after 60 rounds.
ROOT_RESIDUAL = 1e-9
_ROOT_STEP = 1e-4  # of a length
# A field computed with rounding noise of 1e-7 stalls earlier; its simple zeros are known as well as this.
_NOISY_RESIDUAL = 1e-6  # of the field's speed
_NOISY_STEP = 1e-6  # of a length
# A start is given up that in so many rounds has not lowered |f|^2 by a tenth: near a zero of any order p,
# where x goes to (1 - 1/p) x, it falls to a seventh or less in one round; at a minimum of |f| not at all.
_PATIENCE = 8  # rounds
_PROGRESS = 0.9  # of |f|^2 so many rounds ago
# Below this, a step that does not lower |f| shows that rounding decides.
_STALLED = 1e-12
# Half of each reaches a zero at a tenth of a millionth of the region: 2^-24.
_FULL_STEPS = 32
_MINIMUM_STEP = 1e-5  # of a length: minima of |f| are polished until the step to go is less
_MINIMUM_REACH = 0.1  # of a length, from their start
_MINIMUM_ROUNDS = 8  # steps towards a minimum of |f|, which must be near
# A step of Newton's method up to so many times as long as those of differences lowers |f|^2 as they foretell,
# give or take a half; else they reach beyond a bend, and become shorter.
_NEAR, _FORETOLD = 8.0, 0.5
_SHORTENED = 2  # rungs of four at once: 16 times
_DIFFERENCE = 1e-4  # of a length; central differences of the gradient are then good to about 1e-8
_TO_EDGE = 40  # halvings of a step beyond the edge of the field's domain, which end at the edge
# Factor, and how often: differences for the Jacobian shrink until all of their points are inside the domain;
# those from the edge itself go inwards.
_SHRINKING, _SHRINKS = 1 / 32, 16
_FROM_EDGE = 1e-8  # of the length scale, for slopes from inside the domain: half the digits
# Beyond this many scales the field counts as infinite; squares of what is below do not overflow.
_HUGE = 1e100
# Singular values below this share of the largest carry rounding errors alone.
_SMALLEST_SINGULAR = 1e-12


class Meter:
    """A field that counts the points it is evaluated at and never exceeds a budget.

    Parameters
    ----------
    field : VectorField
        The field.
    budget : int
        Largest number of points, values and Jacobians together.
    """

    def __init__(self, field: VectorField, budget: int) -> None:
        self.field = field
        self.budget = budget
        self.points = 0
        self.exhausted = False
        self.undefined = False

    def affords(self, n: int) -> bool:
        """Whether n more points are within budget and time; if not, the search is marked as exhausted."""
        affordable = self.points + n <= self.budget and not out_of_time()
        self.exhausted |= not affordable
        return affordable

    def spares(self, n: int) -> bool:
        """Whether n more points are within budget and time; if not, nothing is lost."""
        return self.points + n <= self.budget and not out_of_time()

    def rhs(self, x: np.ndarray) -> np.ndarray:
        """Field at rows ``(n, d)``, counted."""
        self.points += len(x)
        with np.errstate(all="ignore"):  # a search may step where the field overflows, and sees that it did
            f = self.field(x)
        self.undefined |= bool(np.isnan(f).any())
        return f

    def jacobian(self, x: np.ndarray, power: np.ndarray | None = None) -> np.ndarray:
        """Jacobian at rows ``(n, d)``, counted.

        Where powers (n,) are given, differenced with the usual steps by 4 to these.
        """
        self.points += len(x)
        if power is not None and power.any():
            jac = np.empty((*x.shape, x.shape[1]))
            for own in np.unique(power):
                jac[power == own] = with_step(self.field, x[power == own], int(own))
            return jac
        with np.errstate(all="ignore"):
            return self.field.jacobian(x)

    def jacobian_beside(self, x: np.ndarray, length: np.ndarray, step: float | None = None) -> np.ndarray:
        """Jacobian at rows ``(n, d)`` at or near the edge of the field's domain, by differences inside it.

        Parameters
        ----------
        x : ndarray (n, d)
            States at which the field is finite.
        length : ndarray (d,)
            Unit of each state, for the steps.
        step : float, optional
            Of differences from the edge itself, in lengths.

        Returns
        -------
        ndarray (n, d, d)
            NaN where the field is not finite on either side of a row.
        """
        n, d = x.shape
        jac, centre = np.full((n, d, d), np.nan), self.rhs(x)
        inwards = _FROM_EDGE if step is None else step
        for axis in range(d):
            way = np.zeros(d)
            way[axis] = length[axis]
            # As far as rounding allows: a difference must be some 1e-8 of the state itself.
            shares = _DIFFERENCE * _SHRINKING ** np.arange(_SHRINKS)
            for share in shares:
                undefined = np.flatnonzero(~np.isfinite(jac[:, :, axis]).all(axis=1))
                undefined = undefined[share * length[axis] > 1e-8 * np.abs(x[undefined, axis])]
                if not len(undefined):
                    break
                ends = self.rhs(np.concatenate([x[undefined] + share * way, x[undefined] - share * way]))
                jac[undefined, :, axis] = (ends[: len(undefined)] - ends[len(undefined) :]) / (
                    2.0 * share * length[axis]
                )
            undefined = np.flatnonzero(~np.isfinite(jac[:, :, axis]).all(axis=1))
            for sign in (1.0, -1.0):
                slope = (self.rhs(x[undefined] + sign * inwards * way) - centre[undefined]) / (
                    sign * inwards * length[axis]
                )
                inside = np.isfinite(slope).all(axis=1)
                jac[undefined[inside], :, axis] = slope[inside]
        return jac


REFINED_ROWS = ("x", "residual", "step", "slope", "origin")
"""What `Refined` holds for each starting point."""


@dataclass(frozen=True, eq=False)
class Refined:
    """Where the starting points ended; lengths and residuals in units of the scales.

    Attributes
    ----------
    x : ndarray (n, d)
        Last iterate of each start at which the field was finite.
    residual : ndarray (n,)
        |f| / speed, Euclidean norm over the states.
    step : ndarray (n,)
        Length of the Newton step still to go.
    slope : ndarray (n,)
        Smallest singular value of the scaled Jacobian, by the largest where that exceeds 1.
    origin : ndarray (n,) of int
        Which start each came from.
    iterations : int
        Rounds of the slowest row.
    non_finite : int
        Starts that were left out because the field is not finite there, or beyond 1e100 of its scales.
    """

    x: np.ndarray
    residual: np.ndarray
    step: np.ndarray
    slope: np.ndarray
    origin: np.ndarray
    iterations: int = 0
    non_finite: int = 0

    @property
    def is_root(self) -> np.ndarray:
        """Whether f vanishes there up to rounding, (n,)."""
        exact = (self.residual <= ROOT_RESIDUAL) & (self.step <= _ROOT_STEP)
        return exact | ((self.residual <= _NOISY_RESIDUAL) & (self.step <= _NOISY_STEP))

    @property
    def in_valley(self) -> np.ndarray:
        """Whether |f| is as good as zero and a zero still far off, (n,)."""
        return (self.residual <= _NOISY_RESIDUAL) & ~self.is_root

    def __getitem__(self, rows: np.ndarray) -> "Refined":
        return replace(self, **{name: getattr(self, name)[rows] for name in REFINED_ROWS})


def refine(meter: Meter, x: np.ndarray, scales: Scales, box: Region, max_iterations: int = 60) -> Refined:
    """Drive |f| down from each row of `x` by damped Newton steps that stay in a box.

    Steps are those of Levenberg and Marquardt with the damping proportional to |f|^2, hence quadratic at a
    simple zero, and end in a minimum of |f| where there is no zero. Starts at which the field is not finite
    are left out.

    Parameters
    ----------
    meter : Meter
        The field.
    x : ndarray (n, d)
        Starting points.
    scales : Scales
        Units of state and field.
    box : Region
        Iterates are kept inside.
    max_iterations : int
        Rounds; one evaluation of the field and of its Jacobian each.

    Returns
    -------
    Refined

    References
    ----------
    Yamashita and Fukushima, Computing Suppl. 15 (2001) 239: damping |f|^2. Nielsen, IMM-REP-1999-05,
    eq. (2.4): change of the damping by the gain ratio.
    """
    rows = _Rows.start(meter, x, scales, box)
    iterations = 0
    while iterations < max_iterations and rows.active.any() and meter.affords(2 * int(rows.active.sum())):
        rows.advance()
        iterations += 1
        if iterations % _PATIENCE == 0:
            rows.give_up()
    return rows.ended(iterations)


class _Rows:
    """The state of the iteration: points, values, decomposed Jacobians, damping."""

    def __init__(
        self,
        meter: Meter,
        x: np.ndarray,
        f: np.ndarray,
        origin: np.ndarray,
        non_finite: int,
        scales: Scales,
        box: Region,
    ) -> None:
        n, d = x.shape
        self.origin, self.non_finite = origin, non_finite
        self.meter, self.scales, self.box = meter, scales, box
        self.x, self.f = x, f
        self.u, self.s, self.vt = np.zeros((n, d, d)), np.zeros((n, d)), np.zeros((n, d, d))
        self.active = np.ones(n, dtype=bool)
        self.moved = np.ones(n, dtype=bool)  # since the Jacobian was computed
        self.known = np.zeros(n, dtype=bool)  # whether the Jacobian is finite
        self.damping, self.growth = np.full(n, 1e-2), np.full(n, 2.0)
        self.earlier = np.einsum("nd,nd->n", f, f)
        self.differenced = not has_exact_jacobian(meter.field)
        self.power = np.zeros(n, dtype=int)  # of the steps of differences

    @classmethod
    def start(cls, meter: Meter, x: np.ndarray, scales: Scales, box: Region) -> "_Rows":
        x = np.clip(x, box.low, box.high)
        x = x[: max(0, meter.budget - meter.points)] if not meter.affords(len(x)) else x
        f = meter.rhs(x) / scales.speed
        finite = (np.abs(f) < _HUGE).all(axis=1)
        return cls(meter, x[finite], f[finite], np.flatnonzero(finite), int((~finite).sum()), scales, box)

    def decompose(self, rows: np.ndarray) -> None:
        rows = rows[self.moved[rows]]
        if not len(rows):
            return
        by_scale = self.scales.length / self.scales.speed[:, None]
        jac = self.meter.jacobian(self.x[rows], self.power[rows]) * by_scale
        finite = (np.abs(jac) < _HUGE).all(axis=(1, 2))
        if not finite.all() and self.meter.affords(int((~finite).sum()) * 2 * _SHRINKS * len(by_scale)):
            beside = self.meter.jacobian_beside(self.x[rows[~finite]], self.scales.length)
            jac[~finite] = beside * by_scale
            finite = (np.abs(jac) < _HUGE).all(axis=(1, 2))
        self.known[rows] = finite
        self.active[rows[~finite]] = False
        rows = rows[finite]
        self.u[rows], self.s[rows], self.vt[rows] = np.linalg.svd(jac[finite])
        self.moved[rows] = False

    def advance(self) -> None:
        self.decompose(np.flatnonzero(self.active))
        rows = np.flatnonzero(self.active)
        f, s = self.f[rows], self.s[rows]
        size2 = np.einsum("nd,nd->n", f, f)
        mu = (self.damping[rows] * np.minimum(1.0, size2) * s[:, 0] ** 2)[:, None]
        along = np.einsum("nij,ni->nj", self.u[rows], f)
        damped = s**2 + mu  # 0 where nothing can be gained along a direction
        inverse = np.divide(s, damped, where=damped > 0, out=np.zeros_like(s))
        step = -np.einsum("nij,ni->nj", self.vt[rows], inverse * along)
        trial = np.clip(self.x[rows] + step * self.scales.length, self.box.low, self.box.high)
        f_trial = self.meter.rhs(trial) / self.scales.speed
        outside = np.isnan(f_trial).any(axis=1)
        if outside.any():
            self._to_edge(rows[outside], trial, f_trial, np.flatnonzero(outside))
        with np.errstate(over="ignore", invalid="ignore"):
            trial2 = np.einsum("nd,nd->n", f_trial, f_trial)
        better = trial2 < size2  # never where the field is not finite
        predicted = np.einsum("nd,nd->n", along**2, inverse * s * (2.0 - inverse * s))
        gain = (size2 - trial2) / np.where(predicted > 0, predicted, 1.0)
        self._adapt(rows, better, gain)
        if self.differenced:
            self._shorten(rows, step, gain, size2)
        moved = np.abs(trial - self.x[rows]) / self.scales.length
        rounding = 4.0 * np.finfo(float).eps * (1.0 + np.abs(self.x[rows]) / self.scales.length)
        stalled = ~better & (size2 <= _STALLED**2)
        self.active[rows[(moved <= rounding).all(axis=1) | stalled]] = False
        rows, trial, f_trial = rows[better], trial[better], f_trial[better]
        self.x[rows], self.f[rows], self.moved[rows] = trial, f_trial, True
        self.active[rows[(f_trial == 0).all(axis=1)]] = False

    def _shorten(self, rows: np.ndarray, step: np.ndarray, gain: np.ndarray, size2: np.ndarray) -> None:
        """Difference with shorter steps where short steps of Newton's method do not do as foretold."""
        near = np.abs(step).max(axis=1) <= _NEAR * DIFFERENCE * SHRINKING ** self.power[rows]
        off = ~(np.abs(gain - 1.0) <= _FORETOLD) & near & (size2 > ROOT_RESIDUAL**2)
        rows = rows[off & (self.power[rows] + _SHORTENED < RUNGS)]
        self.power[rows] += _SHORTENED
        self.moved[rows] = True
        self.damping[rows], self.growth[rows] = 1e-2, 2.0

    def _to_edge(self, rows: np.ndarray, trial: np.ndarray, f_trial: np.ndarray, places: np.ndarray) -> None:
        """Shorten steps that leave the field's domain to its edge, where the field is still finite."""
        start, way = self.x[rows], trial[places] - self.x[rows]
        low, high = np.zeros(len(rows)), np.ones(len(rows))
        for _ in range(_TO_EDGE):
            if not self.meter.affords(len(rows)):
                return
            middle = (low + high) / 2.0
            x = start + middle[:, None] * way
            f = self.meter.rhs(x) / self.scales.speed
            inside = np.isfinite(f).all(axis=1)
            low, high = np.where(inside, middle, low), np.where(inside, high, middle)
            trial[places[inside]], f_trial[places[inside]] = x[inside], f[inside]

    def give_up(self) -> None:
        now = np.einsum("nd,nd->n", self.f, self.f)
        self.active &= now <= _PROGRESS * self.earlier
        self.earlier = now

    def _adapt(self, rows: np.ndarray, better: np.ndarray, gain: np.ndarray) -> None:
        gain = np.clip(np.where(better, gain, 0.0), 0.0, 1.0)
        down = np.maximum(0.1, 1.0 - (2.0 * gain - 1.0) ** 3)
        self.damping[rows] *= np.where(better, down, self.growth[rows])
        self.growth[rows] = np.where(better, 2.0, 2.0 * self.growth[rows])

    def ended(self, iterations: int) -> Refined:
        stale = np.flatnonzero(self.moved)
        self.decompose(stale[: self.meter.budget - self.meter.points] if stale.size else stale)
        keep = self.known & ~self.moved
        f, u, s = self.f[keep], self.u[keep], self.s[keep]
        along = np.abs(np.einsum("nij,ni->nj", u, f))
        with np.errstate(
            divide="ignore"
        ):  # no step ends in a zero where the Jacobian vanishes and f does not
            steps = np.divide(along, np.maximum(s, _SMALLEST_SINGULAR * s[:, :1]), where=along > 0, out=0 * s)
        return Refined(
            self.x[keep],
            np.linalg.norm(f, axis=1),
            np.linalg.norm(steps, axis=1),
            s[:, -1] / np.maximum(1.0, s[:, 0]),
            self.origin[keep],
            iterations,
            self.non_finite,
        )


def full_steps(meter: Meter, x: np.ndarray, box: Region, scales: Scales) -> np.ndarray:
    """Where undamped Newton steps from rows (n, d) end that stay in a box, (m, d).

    Where one rate is far faster than the others, |f| is that of the fast one: steps that have to lower it
    creep along a curved valley, on which full steps, which do not depend on the units of f, go ahead.
    """
    for _ in range(_FULL_STEPS):
        if not len(x) or not meter.affords(2 * len(x)):
            break
        f, jac = meter.rhs(x), meter.jacobian(x)
        finite = np.isfinite(f).all(axis=1) & np.isfinite(jac).all(axis=(1, 2))
        x, f, jac = x[finite], f[finite], jac[finite] / scales.speed[:, None]
        steps = np.linalg.pinv(jac, rcond=0.0) @ (f / scales.speed)[:, :, None]
        x = np.clip(x - steps[:, :, 0], box.low, box.high)
    return x


def minima(meter: Meter, x: np.ndarray, scales: Scales) -> np.ndarray:
    """Local minima of |f| near given points, by Newton's method on the gradient of |f|^2.

    Parameters
    ----------
    meter : Meter
        The field.
    x : ndarray (n, d)
        Where Levenberg-Marquardt iterations ended; they come near a minimum at a linear rate only.
    scales : Scales
        Units of state and field.

    Returns
    -------
    ndarray (m, d)
        Those of the minima that are strict (positive definite second derivatives) and within a tenth of a
        length of their start.
    """
    start, n, d = x, *x.shape
    cost = 2 * (2 * d + 1)
    settled = np.zeros(n, dtype=bool)
    for _ in range(_MINIMUM_ROUNDS):
        if settled.all() or not meter.affords(cost * n):
            break
        gradient, curvature = _second_order(meter, x, scales)
        convex = np.isfinite(curvature).all(axis=(1, 2)) & np.isfinite(gradient).all(axis=1)
        least = np.linalg.eigvalsh(np.where(convex[:, None, None], curvature, -np.eye(d)))[:, 0]
        convex &= least > np.sqrt(np.finfo(float).eps) * np.abs(curvature).max(axis=(1, 2), initial=0.0)
        x, start, gradient, curvature = x[convex], start[convex], gradient[convex], curvature[convex]
        step = -np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0]
        near = np.linalg.norm((x - start) / scales.length + step, axis=1) <= _MINIMUM_REACH
        x, start, step = x[near] + step[near] * scales.length, start[near], step[near]
        settled, n = np.linalg.norm(step, axis=1) <= _MINIMUM_STEP, len(x)
    return x[settled]


def _second_order(meter: Meter, x: np.ndarray, scales: Scales) -> tuple[np.ndarray, np.ndarray]:
    """Gradient (n, d) and second derivatives (n, d, d) of |f|^2 / 2 in units of the scales."""
    n, d = x.shape
    shifts = _DIFFERENCE * np.concatenate([np.zeros((1, d)), np.eye(d), -np.eye(d)])
    points = (x[:, None] + shifts * scales.length).reshape(-1, d)
    f = meter.rhs(points) / scales.speed
    jac = meter.jacobian(points) * (scales.length / scales.speed[:, None])
    with np.errstate(invalid="ignore", over="ignore"):
        gradient = np.einsum("nij,ni->nj", jac, f).reshape(n, 2 * d + 1, d)
        curvature = (gradient[:, 1 : d + 1] - gradient[:, d + 1 :]) / (2 * _DIFFERENCE)
    return gradient[:, 0], (curvature + np.swapaxes(curvature, 1, 2)) / 2
