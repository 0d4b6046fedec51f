"""A trust region within bounds: Fisher scoring damped after Levenberg and Marquardt."""

import enum
from dataclasses import dataclass

import numpy as np

from fim_dynsys.estimation.objective import Evaluation, Objective
from fim_dynsys.regression.kernels import likelihood

NEAR, FAR = 1e-3, 0.3
"""First damping, in unit curvatures: far from a minimum, full steps end where nothing has effect."""

_DECREMENT = 1e-9  # log-likelihood units that one more step promises: converged


_EDGES = 3  # searches at most along edges of where paths exist
_HAIR = 1e-6  # of a coordinate, or of 1: the objective beyond is asked for


class Outcome(enum.Enum):
    """How a search ended."""

    CONVERGED = "converged"
    STALLED = "stalled"
    MAX_ITERATIONS = "out of iterations"
    FAILED = "no finite start"
    BROKEN = "whole paths cannot be integrated"


_OUTCOMES = {
    likelihood.CONVERGED: Outcome.CONVERGED,
    likelihood.STALLED: Outcome.STALLED,
    likelihood.MAX_ITERATIONS: Outcome.MAX_ITERATIONS,
    likelihood.FAILED: Outcome.FAILED,
}


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
    rtol : float
        Tolerance of the integration.
    """

    theta: np.ndarray
    evaluation: Evaluation
    outcome: Outcome
    iterations: int
    rtol: float

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
    damping: float = NEAR,
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
    damping : float
        Of the first step, in unit curvatures: `NEAR` a minimum, or `FAR` from it.

    References
    ----------
    J. J. Moré, The Levenberg-Marquardt algorithm: implementation and theory, in Numerical Analysis, ed. G. A.
    Watson (1978) 105 (scaling); H. B. Nielsen, Damping parameter in Marquardt's method, report
    IMM-REP-1999-05 (damping).
    """
    start = objective.space.inside(np.asarray(theta, dtype=float))
    held = np.zeros(len(start), dtype=bool) if held is None else held
    found, evaluation, ended, iterations = objective.searched(
        start, rtol, max_iterations, held, decrement, damping
    )
    for _ in range(_EDGES):
        if _OUTCOMES[ended] is not Outcome.STALLED:
            break
        edge = _at_edge(objective, found, evaluation.gradient, rtol) & ~held
        if not edge.any():
            break
        found, evaluation, ended, more = objective.searched(
            found, rtol, max_iterations, held | edge, decrement, damping
        )
        iterations += more
        if (edge & ~_at_edge(objective, found, evaluation.gradient, rtol)).any():  # it is pushed back inside
            found, evaluation, ended, more = objective.searched(
                found, rtol, max_iterations, held, decrement, damping
            )
            iterations += more
    outcome = _OUTCOMES[ended]
    if outcome is Outcome.STALLED and objective.is_exact(evaluation):
        outcome = Outcome.CONVERGED  # gradients of absolute residuals do not vanish there
    return Descent(found, evaluation, outcome, iterations, rtol)


def _at_edge(objective: Objective, theta: np.ndarray, gradient: np.ndarray, rtol: float) -> np.ndarray:
    """Which coordinates (n,) the data would have where no path exists, as a level below 0 under a root."""
    steps = -np.sign(gradient) * _HAIR * np.maximum(np.abs(theta), 1.0)
    beyond = objective.space.inside(theta + np.diag(steps))
    return (steps != 0.0) & np.isinf(objective.values(beyond, rtol))
