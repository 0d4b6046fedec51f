"""Many trajectories under an explicit pair, each with its own step."""

from collections.abc import Callable
from functools import partial

import numpy as np

from fim_dynsys.deadline import out_of_time
from fim_dynsys.simulation.events import EventDetector
from fim_dynsys.simulation.pairs import DenseOutput, RungeKuttaPair
from fim_dynsys.simulation.problem import InitialValueProblem, Outcome, Progress, Status

_EPS = np.finfo(float).eps
_PENDING_AT_MOST = 200_000  # steps and states that wait to be computed together
_WATCHED = 5_000  # steps after which, and so on, the pace of each trajectory is looked at
_HOPELESS = 100  # times the steps allowed: one that would need more ends at once
_LOOKED_AT = 10  # steps after which, and so on, it is seen whether stability limits them
_STIFF_AFTER = 5  # times in a row that it does


class BatchedSolver:
    """Trajectories that are still under way; row i of every array belongs to trajectory ``rows[i]``.

    Sums over stages are `numpy.vecdot`, one inner product per number, so that the result for a row does not
    depend on which other rows are present.
    """

    _PER_ROW = (
        "rows",
        "x",
        "f",
        "s",
        "h",
        "end",
        "sign",
        "shift",
        "atol",
        "limit",
        "sampled",
        "growth",
        "seen",
        "limited",
    )

    def __init__(
        self,
        problem: InitialValueProblem,
        pair: RungeKuttaPair,
        detector: EventDetector,
        until: Callable[[np.ndarray], np.ndarray] | None = None,
        leaves_stiff: bool = False,
    ):
        self.problem, self.pair, self.detector, self.until = problem, pair, detector, until
        self.leaves_stiff = leaves_stiff
        self.outcome = Outcome(problem)
        n = len(problem.x0)
        self.rows = np.arange(n)
        self.x = problem.x0.copy()
        self.s = np.zeros(n)
        self.end = np.broadcast_to(problem.times.end, (n,)).copy()
        self.sign = np.broadcast_to(problem.times.sign, (n,)).copy()
        self.shift = np.broadcast_to(np.abs(problem.times.start), (n,)).copy()
        self.atol = np.broadcast_to(problem.atol, self.x.shape).copy()
        self.limit = problem.limit.copy()
        self.sampled = np.ones(n, dtype=int)
        self.seen = np.zeros(n)
        self.limited = np.zeros(n, dtype=int)
        self.growth = np.full(n, 10.0)
        self.segments: list[tuple[np.ndarray, ...]] = []
        self.n_pending = 0
        self.n_iterations = 0
        with np.errstate(all="ignore"):
            self._allocate()
            self.f = np.array(self.rhs(self.x.copy()), dtype=float)
            self.h = self._first_step()
            self.g = detector.values(problem.times.at(self.s, self.rows), self.x)
            status = np.where(np.isfinite(self.f).all(axis=1), -1, Status.NON_FINITE)
            status[self.end <= 0] = Status.SUCCESS
            if (status >= 0).any():
                self._leave(status)

    def finish(self, progress: Progress | None = None) -> None:
        """Integrate until no trajectory is under way."""
        total = self.problem.times.end.mean()
        with np.errstate(all="ignore"):
            while len(self.rows):
                if out_of_time():
                    self._leave(np.full(len(self.rows), Status.OUT_OF_TIME))
                    break
                self._step()
                if progress is not None and self.n_iterations % 50 == 0:
                    done = self.outcome.s_stop.sum() + self.s.sum()
                    progress(min(1.0, done / (total * len(self.outcome.status))) if total else 1.0)
            self._write_samples()
        if progress is not None:
            progress(1.0)

    def _allocate(self) -> None:
        n, d = self.x.shape
        s = self.pair.n_stages
        self.rhs = self.problem.rhs(self.rows)
        self.columns = np.empty((n, d, s + 2))
        flat = self.columns.reshape(n * d, s + 2)
        self.stage = np.empty((n, d))
        self.flat_stage = self.stage.reshape(n * d)
        self.plan = [
            (flat[:, : len(weights)], weights, self.columns[:, :, len(weights)])
            for weights in (*self.pair.stages, self.pair.result)
        ]

    def _first_step(self) -> np.ndarray:
        """Starting step per trajectory (Hairer, Norsett and Wanner, section II.4)."""
        rtol = self.problem.rtol
        scale = self.atol + rtol * np.abs(self.x)
        slope = _rms(self.f / scale)
        # The time in which the state changes by its own size makes everything else free of units.
        unit = np.minimum(1.0 / (rtol * slope), self.end)
        h = 0.01 * unit
        probe = self.x + (self.sign * h)[:, None] * self.f
        curvature = _rms((np.asarray(self.rhs(probe)) - self.f) / scale) / h
        steepest = np.maximum(slope * unit, curvature * unit**2)
        better = unit * (0.01 / steepest) ** (1.0 / self.pair.order)
        best = np.minimum(100 * h, better)
        # A field that is not finite at the probe gives no estimate; the step control then starts from h.
        return np.minimum(np.where(np.isfinite(best), best, h), self.problem.max_step)

    def _step(self) -> None:
        """Attempt one step with every trajectory."""
        count_nonzero = np.count_nonzero
        self.n_iterations += 1
        remaining = self.end - self.s
        h = np.minimum(self.h, remaining)
        x_new, f_new = self._stages((h * self.sign)[:, None])
        reach = np.abs(x_new)
        error = self._error(reach)
        if self.leaves_stiff and self.n_iterations % _LOOKED_AT == 0:
            self._look_for_stiffness(x_new)
        factor = np.minimum(self.pair.step_factor(error), self.growth)
        accepted = error <= 1.0
        s_new = np.where(h < remaining, self.s + h, self.end)
        hit = self._cross(accepted, x_new, s_new, h) if self.detector.events else None
        if self.until is not None:
            done = accepted & self.until(x_new)
            hit = done if hit is None else hit | done
        self._record(accepted, s_new, h)
        # count_nonzero takes a sixth of the time of any and all, which shows with one trajectory.
        n_rejected = len(h) - count_nonzero(accepted)
        if n_rejected == 0:
            self.x, self.f, self.s = x_new, f_new, s_new
            self.h = np.minimum(h * np.maximum(factor, 0.2), self.problem.max_step)
            self.growth.fill(10.0)
        else:
            factor = np.where(error < np.inf, np.maximum(factor, 0.2), 0.1)
            self._advance_some(accepted, x_new, f_new, s_new, h * factor)
        outside, there = reach > self.limit, self.s >= self.end
        stiff = self.limited >= _STIFF_AFTER
        spent = self._spent() | stiff if count_nonzero(stiff) else self._spent()
        n_hit = 0 if hit is None else count_nonzero(hit)
        if count_nonzero(spent) or n_rejected or n_hit or count_nonzero(there) or count_nonzero(outside):
            self._end_some(accepted, error, outside.any(axis=1), there, hit, spent)

    def _look_for_stiffness(self, x_new: np.ndarray) -> None:
        """Count how often in a row a step is as long as stability allows; Hairer and Wanner, section IV.2."""
        last = self.pair.stages[-1]
        stage = np.vecdot(self.columns[:, :, : len(last)], last)
        up = self.columns[:, :, len(last) + 1] - self.columns[:, :, len(last)]
        moved = x_new - stage
        limited = np.vecdot(up, moved) < -self.pair.stability * np.vecdot(moved, moved)  # it decays as fast
        self.limited = np.where(limited, self.limited + 1, 0)

    def _spent(self) -> bool | np.ndarray:
        """Whether trajectories have used up their steps, or would by far at the pace of the latest ones."""
        if self.n_iterations >= self.problem.max_steps or self.n_iterations % _WATCHED:
            return self.n_iterations >= self.problem.max_steps
        needed = _WATCHED * (self.end - self.s) / (self.s - self.seen)
        self.seen = self.s
        return needed > _HOPELESS * self.problem.max_steps

    def _error(self, reach: np.ndarray) -> np.ndarray:
        """Norm of the local error per row, relative to the tolerances."""
        scale = np.maximum(np.abs(self.x), reach)
        scale *= self.problem.rtol
        scale += self.atol
        estimates = np.vecdot(self.columns, self.pair.error)
        estimates /= scale
        return self.pair.error_norm(np.vecdot(estimates, estimates), self.x.shape[1])

    def _advance_some(
        self, accepted: np.ndarray, x_new: np.ndarray, f_new: np.ndarray, s_new: np.ndarray, h: np.ndarray
    ) -> None:
        """Take over the accepted rows; a rejected one may not lengthen its step next time."""
        np.copyto(self.x, x_new, where=accepted[:, None])
        np.copyto(self.f, f_new, where=accepted[:, None])
        self.s = np.where(accepted, s_new, self.s)
        self.h = np.minimum(h, self.problem.max_step)
        self.growth = np.where(accepted, 10.0, 1.0)

    def _end_some(
        self,
        accepted: np.ndarray,
        error: np.ndarray,
        outside: np.ndarray,
        there: np.ndarray,
        hit: np.ndarray | None,
        spent: bool | np.ndarray,
    ) -> None:
        """Find out which rows have ended, why, and let them leave."""
        status = np.full(len(self.rows), -1, dtype=np.int8)
        stuck = ~accepted & (self.h <= 4 * _EPS * np.maximum(self.s, self.shift))
        status[stuck] = np.where(error[stuck] < np.inf, Status.STEP_TOO_SMALL, Status.NON_FINITE)
        status[accepted & outside] = Status.LEFT_BOUNDS
        status[there] = Status.SUCCESS
        if hit is not None:
            status[hit] = Status.EVENT
        spent = (status < 0) & spent
        status[spent] = Status.MAX_STEPS
        self.outcome.stiff[self.rows[spent & (self.limited >= _STIFF_AFTER)]] = True
        if (status >= 0).any():
            self._leave(status)

    def _leave(self, status: np.ndarray) -> None:
        """Write down the rows whose status is not -1, and go on with the others."""
        gone, keep = status >= 0, status < 0
        rows = self.rows[gone]
        self.outcome.status[rows] = status[gone]
        self.outcome.s_stop[rows] = self.s[gone]
        self.outcome.x_stop[rows] = self.x[gone]
        self.outcome.n_steps[rows] = self.n_iterations
        for name in self._PER_ROW:
            setattr(self, name, getattr(self, name)[keep])
        self.g = self.g[:, keep]
        self._allocate()

    def _cross(self, accepted: np.ndarray, x_new: np.ndarray, s_new: np.ndarray, h: np.ndarray) -> np.ndarray:
        """Locate events within the step and cut s_new and x_new back to terminal ones; which rows end?"""
        times, detector = self.problem.times, self.detector
        g_new = detector.values(times.at(s_new, self.rows), x_new)
        changed = detector.changes(self.g, g_new) & accepted
        found = []
        for event in np.flatnonzero(changed.any(axis=1)):
            i = np.flatnonzero(changed[event])
            rows, s, step = self.rows[i], self.s[i], h[i]
            signed = (step * self.sign[i])[:, None]
            dense = DenseOutput(self.pair, self.columns[i], self.problem.rhs(rows), signed)
            theta, states = detector.locate(
                int(event),
                dense,
                partial(self._times_within, s, step, rows),
                self.g[event, i],
            )
            found += [(k, theta[j], event, states[j]) for j, k in enumerate(i)]
        self.g = np.where(accepted, g_new, self.g)
        hit = np.zeros(len(self.rows), dtype=bool)
        for k, theta, event, state in sorted(found, key=lambda entry: entry[:3]):
            if not hit[k]:
                s = self.s[k] + theta * h[k]
                row = self.rows[k]
                hit[k] = detector.note(row, times.at(s, [row])[0], int(event), state)
                if hit[k]:
                    s_new[k], x_new[k] = s, state
        return hit

    def _times_within(
        self, s: np.ndarray, step: np.ndarray, rows: np.ndarray, theta: np.ndarray
    ) -> np.ndarray:
        return self.problem.times.at(s + theta * step, rows)

    def _record(self, accepted: np.ndarray, s_new: np.ndarray, h: np.ndarray) -> None:
        """Keep the stages of steps within which states are wanted; these are computed later, together."""
        upto = self.problem.times.reached(s_new, self.rows)
        wanted = accepted & (upto > self.sampled)
        n_wanted = np.count_nonzero(wanted)
        if n_wanted == 0:
            return
        segment: tuple[np.ndarray, ...]
        segment = (self.rows, self.s, h, self.sign, self.columns, self.sampled, upto)
        if n_wanted < len(wanted):
            segment = tuple(part[wanted] for part in segment)
        else:
            segment = (*segment[:4], self.columns.copy(), *segment[5:])
        self.segments.append(segment)
        self.n_pending += int(n_wanted) + int(np.add.reduce(segment[6] - segment[5]))
        self.sampled = np.where(wanted, upto, self.sampled)
        if self.n_pending > _PENDING_AT_MOST:
            self._write_samples()

    def _write_samples(self) -> None:
        """Compute the states wanted within the steps kept so far, with one field call per extra stage."""
        if not self.segments:
            return
        parts = zip(*self.segments, strict=True)
        rows, s, h, sign, columns, first, upto = (np.concatenate(part) for part in parts)
        dense = DenseOutput(self.pair, columns, self.problem.rhs(rows), (h * sign)[:, None])
        count = upto - first
        segment = np.repeat(np.arange(len(rows)), count)
        sample = np.arange(len(segment)) + (first - np.cumsum(count) + count)[segment]
        rows = rows[segment]
        theta = (self.problem.times.requested(rows, sample) - s[segment]) / h[segment]
        self.outcome.x[rows, sample] = dense(theta, segment)
        self.segments, self.n_pending = [], 0

    def _stages(self, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Fill the columns for signed steps h ``(n, 1)``; returns the new state and the field there."""
        vecdot, multiply, rhs, stage, flat = np.vecdot, np.multiply, self.rhs, self.stage, self.flat_stage
        self.columns[:, :, 0] = self.x
        multiply(self.f, h, out=self.columns[:, :, 1])
        for known, weights, column in self.plan[:-1]:
            vecdot(known, weights, out=flat)
            multiply(rhs(stage), h, out=column)
        known, weights, column = self.plan[-1]
        vecdot(known, weights, out=flat)
        x_new = stage.copy()
        f_new = np.array(rhs(stage), dtype=float)
        multiply(f_new, h, out=column)
        return x_new, f_new


def _rms(x: np.ndarray) -> np.ndarray:
    return np.sqrt(np.vecdot(x, x) / x.shape[1])
