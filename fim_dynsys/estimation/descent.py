"""A trust region within bounds: Fisher scoring damped after Levenberg and Marquardt."""

import enum
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dposv

from fim_dynsys.estimation.objective import Evaluation, Objective

# Of unit curvatures; beyond, steps are rounding.
_FIRST_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 1e-3, 1e-12, 1e12
_SUFFICIENT = 1e-4  # of the predicted decrease
_DECREMENT = 1e-9  # log-likelihood units that one more step promises: converged
_ROUGH = 1e-3  # promised by an undamped step where rounding leaves no better point
_LONGEST = 3.0  # of a step, in coordinates that are logarithms


class Outcome(enum.Enum):
    """How a search ended."""

    CONVERGED = "converged"
    STALLED = "stalled"
    MAX_ITERATIONS = "out of iterations"
    FAILED = "no finite start"
    BROKEN = "whole paths cannot be integrated"


@dataclass(frozen=True, eq=False)
class Descent:
    """A search from one start.

    Attributes
    ----------
    theta : array (n,)
        Where it ended.
    evaluation : Evaluation
        The objective there.
    outcome : Outcome
        How it ended.
    iterations : int
        Steps tried.
    """

    theta: np.ndarray
    evaluation: Evaluation
    outcome: Outcome
    iterations: int

    @property
    def value(self) -> float:
        """The objective."""
        return self.evaluation.value


def descend(
    objective: Objective,
    theta: np.ndarray,
    rtol: float,
    max_iterations: int,
    held: np.ndarray | None = None,
    decrement: float = _DECREMENT,
) -> Descent:
    """The nearest minimum within the bounds.

    Parameters
    ----------
    objective : Objective
        What is minimised.
    theta : array (n,)
        Start; moved into the bounds.
    rtol : float
        Tolerance of the integration.
    max_iterations : int
        Steps at most.
    held : bool array (n,), optional
        Coordinates that stay.
    decrement : float
        Decrease, in units of the log-likelihood, that no step is made for.

    References
    ----------
    J. J. Moré, The Levenberg-Marquardt algorithm: implementation and theory, in Numerical Analysis, ed. G. A.
    Watson (1978) 105 (scaling); H. B. Nielsen, Damping parameter in Marquardt's method, report
    IMM-REP-1999-05 (damping).
    """
    space = objective.space
    theta = space.inside(np.asarray(theta, dtype=float))
    now = objective(theta, rtol)
    if not np.isfinite(now.value):
        return Descent(theta, now, Outcome.FAILED, 0)
    damping, growth = _FIRST_DAMPING, 2.0
    size = np.diagonal(now.curvature).copy()
    longest = np.where(space.log, _LONGEST, np.inf)
    for iteration in range(max_iterations):
        free = _free(theta, now.gradient, space.low, space.high)
        if held is not None:
            free &= ~held
        if not free.any():
            return Descent(theta, now, Outcome.CONVERGED, iteration)
        size = np.maximum(size, np.diagonal(now.curvature))
        scale = np.where(size > 0, size, 1.0)
        step = _step(now, free, damping * scale)
        if step is None:
            damping *= 10.0
            if damping > _MOST_DAMPING:
                return Descent(theta, now, Outcome.STALLED, iteration)
            continue
        over = np.max(np.abs(step) / longest, initial=0.0)
        step = step / max(over, 1.0)
        trial = space.inside(theta + step)
        moved = trial - theta
        promised = -(now.gradient @ moved + 0.5 * moved @ now.curvature @ moved)
        if promised <= decrement and damping <= 1e-2:
            return Descent(theta, now, Outcome.CONVERGED, iteration)
        found = objective(trial, rtol) if promised > 0 else None
        gain = -np.inf if found is None else (now.value - found.value) / promised
        if found is not None and gain > _SUFFICIENT:
            theta, now = trial, found
            damping = max(damping * max(1.0 / 3.0, 1.0 - (2.0 * min(gain, 1.5) - 1.0) ** 3), _LEAST_DAMPING)
            growth = 2.0
            continue
        damping, growth = damping * growth, growth * 2.0
        if damping > _MOST_DAMPING or not np.any(trial != theta) or promised < 1e-13 * abs(now.value):
            near = _promised(now, free) < _ROUGH
            return Descent(theta, now, Outcome.CONVERGED if near else Outcome.STALLED, iteration)
    near = _promised(now, _free(theta, now.gradient, space.low, space.high)) < decrement
    return Descent(theta, now, Outcome.CONVERGED if near else Outcome.MAX_ITERATIONS, max_iterations)


def _free(theta: np.ndarray, gradient: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Coordinates that are not pushed against a bound."""
    return ~(((theta <= low) & (gradient > 0)) | ((theta >= high) & (gradient < 0)))


def _step(now: Evaluation, free: np.ndarray, damping: np.ndarray) -> np.ndarray | None:
    """The damped step of free coordinates; None where the matrix is not positive definite."""
    rows = np.flatnonzero(free)
    matrix = now.curvature[np.ix_(rows, rows)] if len(rows) < len(free) else now.curvature.copy()
    matrix.flat[:: len(rows) + 1] += damping[rows]
    root = np.sqrt(matrix.diagonal())
    if not (root > 0).all():
        return None
    _, found, failed = dposv(matrix / root / root[:, None], now.gradient[rows] / root)
    if failed:
        return None
    step = np.zeros(len(free))
    step[rows] = -found / root
    return step if np.isfinite(step).all() else None


def _promised(now: Evaluation, free: np.ndarray) -> float:
    """Decrease that a hardly damped step promises."""
    size = np.diagonal(now.curvature)
    step = _step(now, free, 1e-8 * np.where(size > 0, size, 1.0))
    return np.inf if step is None else float(-0.5 * now.gradient @ step)
