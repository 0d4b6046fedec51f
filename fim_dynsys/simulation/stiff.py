"""Stiff fields: one trajectory after the other under scipy's implicit solvers."""

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fim_dynsys.deadline import out_of_time
from fim_dynsys.simulation.events import EventDetector
from fim_dynsys.simulation.problem import InitialValueProblem, Outcome, Progress, Status

if TYPE_CHECKING:
    from scipy.integrate import OdeSolver

STIFF = {"radau": "Radau", "lsoda": "LSODA"}  # by their names in scipy.integrate


def integrate_one_by_one(
    problem: InitialValueProblem,
    method: str,
    detector: EventDetector,
    outcome: Outcome,
    rows: Sequence[int] | np.ndarray,
    progress: Progress | None,
) -> None:
    """Trajectories ``rows``, one after the other, from where they are, by the solver of a name in `STIFF`."""
    from scipy import integrate  # deferred, for inferring a sum of terms needs no solver

    solver_class = getattr(integrate, STIFF[method])
    for done, row in enumerate(rows):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            # LSODA words its failures as warnings; the status says it.
            warnings.filterwarnings("ignore", category=UserWarning, module="scipy.integrate")
            _Single(problem, row, outcome, detector).finish(solver_class)
        if progress is not None:
            progress((done + 1) / len(rows))


class _Single:
    """One trajectory under a solver of scipy."""

    def __init__(self, problem: InitialValueProblem, row: int, outcome: Outcome, detector: EventDetector):
        self.problem, self.row, self.outcome, self.detector = problem, row, outcome, detector
        self.field = problem.fields[problem.which[row]]
        times = problem.times
        self.sign = times.sign[0 if len(times.sign) == 1 else row]
        self.end = times.end[0 if len(times.end) == 1 else row]
        self.begun = float(outcome.s_stop[row])
        self.sampled = int(times.reached(np.array([self.begun]), np.array([row]))[0])

    def finish(self, solver_class: "type[OdeSolver]") -> None:
        """Integrate to the end and write down the outcome."""
        outcome, row, x0 = self.outcome, self.row, self.outcome.x_stop[self.row].copy()
        if self.end <= 0:
            return
        if not np.isfinite(self._rhs(0.0, x0)).all():
            outcome.status[row] = Status.NON_FINITE
            return
        self.g = self.detector.values(self._time(np.array([self.begun])), x0[None])
        try:
            solver = solver_class(
                self._rhs,
                self.begun,
                x0,
                self.end,
                rtol=self.problem.rtol,
                atol=self.problem.atol[row],
                jac=self._jac,
                max_step=self.problem.max_step,
            )
            status = None
            while status is None:
                outcome.n_steps[row] += 1
                status = self._step(solver)
        except FloatingPointError:
            status = Status.NON_FINITE
        except ValueError as error:
            if "infs or NaNs" not in str(error):  # what scipy's factorisation says of an overflow
                raise
            status = Status.NON_FINITE
        outcome.status[row] = status

    def _rhs(self, s: float, x: np.ndarray) -> np.ndarray:
        return self.sign * self.field._rhs(x[None])[0]

    def _jac(self, s: float, x: np.ndarray) -> np.ndarray:
        jac = self.sign * self.field._jac(x[None])[0]
        if not np.isfinite(jac).all():
            raise FloatingPointError
        return jac

    def _time(self, s: np.ndarray) -> np.ndarray:
        return self.problem.times.at(s, [self.row])

    def _step(self, solver: "OdeSolver") -> Status | None:
        """One step of the solver; the status if it was the last, else None."""
        solver.step()
        if solver.status == "failed" or not np.isfinite(solver.y).all():
            finite = np.isfinite(solver.y).all() and np.isfinite(self._rhs(solver.t, solver.y)).all()
            return Status.STEP_TOO_SMALL if finite else Status.NON_FINITE
        return self._accept(solver)

    def _accept(self, solver: "OdeSolver") -> Status | None:
        outcome, row = self.outcome, self.row
        dense, s, x = solver.dense_output(), solver.t, solver.y
        hit = self._cross(solver.t_old, s, dense, x) if self.detector.events else None
        s, x = hit or (s, x)
        times = self.problem.times
        upto = int(times.reached(np.array([s]), np.array([row]))[0])
        if upto > self.sampled:
            samples = np.arange(self.sampled, upto)
            outcome.x[row, samples] = dense(times.requested(np.full(len(samples), row), samples)).T
            self.sampled = upto
        outcome.s_stop[row], outcome.x_stop[row] = s, x
        if hit:
            return Status.EVENT
        if solver.status == "finished":
            return Status.SUCCESS
        if (np.abs(x) > self.problem.limit[row]).any():
            return Status.LEFT_BOUNDS
        if out_of_time():
            return Status.OUT_OF_TIME
        return Status.MAX_STEPS if outcome.n_steps[row] >= self.problem.max_steps else None

    def _cross(
        self, s_old: float, s_new: float, dense: Callable[[np.ndarray], np.ndarray], x_new: np.ndarray
    ) -> tuple[float, np.ndarray] | None:
        """Locate events within the step; duration and state at the first terminal one, or None."""
        detector, step = self.detector, s_new - s_old
        g_new = detector.values(self._time(np.array([s_new])), x_new[None])
        found = []
        for event in np.flatnonzero(detector.changes(self.g, g_new)[:, 0]):
            theta, states = detector.locate(
                int(event),
                lambda theta: dense(s_old + theta * step).T,
                lambda theta: self._time(s_old + theta * step),
                self.g[event],
            )
            found.append((theta[0], event, states[0]))
        self.g = g_new
        for theta, event, state in sorted(found, key=lambda entry: entry[:2]):
            s = s_old + theta * step
            if detector.note(self.row, self._time(s)[0], int(event), state):
                return s, state
        return None
