"""Multiple shooting: integration over intervals, linearised and condensed to starts and parameters."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fim_dynsys.regression.inputs import at
from fim_dynsys.regression.kernels.shooting import eliminate_starts, gauss_newton_step, linearised
from fim_dynsys.regression.rollout import runge_kutta
from fim_dynsys.trajectories.container import Trajectories

PACE_LIMIT = 0.15  # default step in units of the time in which the state travels one standard deviation
DAMPING = (1e-4, 1e8)  # first Levenberg-Marquardt factor, and the one at which a stage gives up


@dataclass(frozen=True)
class Data:
    """All trajectories behind one another: sample ``first[k]`` starts trajectory ``k``."""

    times: np.ndarray
    values: np.ndarray
    weights: np.ndarray
    first: np.ndarray  # (T + 1,), the last entry is the number of samples

    @classmethod
    def of(
        cls,
        trajectories: Trajectories | Sequence[tuple[np.ndarray, np.ndarray]],
        weights: Sequence[np.ndarray] | None,
    ) -> "Data":
        pairs = trajectories.arrays() if isinstance(trajectories, Trajectories) else list(trajectories)
        times = [np.asarray(t, float) for t, _ in pairs]
        values = [np.asarray(x, float) for _, x in pairs]
        given = [np.ones_like(x) for x in values]
        if weights is not None:
            given = [np.asarray(w, float) for w in weights]
        for t, x, w in zip(times, values, given, strict=True):
            if x.ndim != 2 or len(t) != len(x) or w.shape != x.shape or len(t) < 2:
                raise ValueError(
                    "fit_trajectory: expected times (n,), states (n, d) and weights (n, d) with n >= 2, "
                    f"got {t.shape}, {x.shape} and {w.shape}."
                )
        first = np.concatenate([[0], np.cumsum([len(t) for t in times])])
        stacked = np.concatenate(values)
        known = np.where(np.isfinite(stacked), np.concatenate(given), 0.0)
        return cls(np.concatenate(times), stacked, known, first)

    @property
    def dim(self) -> int:
        return self.values.shape[1]

    def split(self, path: np.ndarray) -> list[np.ndarray]:
        """One array per trajectory."""
        return np.split(path, self.first[1:-1])

    def filled(self) -> np.ndarray:
        """Observations with missing values interpolated in time."""
        out = self.values.copy()
        for a, b in pairwise(self.first):
            for column in out[a:b].T:
                seen = np.isfinite(column)
                column[:] = (
                    np.interp(self.times[a:b], self.times[a:b][seen], column[seen]) if seen.any() else 0
                )
        return out

    def residuals(self, path: np.ndarray) -> np.ndarray:
        """Observed minus path, 0 where missing."""
        return np.where(self.weights > 0, self.values - path, 0.0)

    def misfit(self, path: np.ndarray) -> float:
        total = float(np.sum(self.weights * self.residuals(path) ** 2))
        return total if np.isfinite(path).all() and np.isfinite(total) else np.inf

    def stays_near(self, path: np.ndarray) -> bool:
        """Whether a path explains more than half of the weighted variance within the trajectories."""
        means = np.empty_like(path)
        for a, b in pairwise(self.first):
            w, x = self.weights[a:b], np.where(self.weights[a:b] > 0, self.values[a:b], 0.0)
            means[a:b] = np.sum(w * x, axis=0) / np.maximum(w.sum(axis=0), 1e-300)
        return self.misfit(path) < 0.5 * self.misfit(means)

    def segments(self, count: int) -> "Segments":
        """``count`` segments per trajectory."""
        bounds = self.first
        if count > 1:
            parts = []
            for a, b in pairwise(self.first):
                pieces = max(1, min(count, (b - a) // 2))
                parts.append(a + np.round(np.linspace(0, b - a, pieces + 1)[:-1]).astype(int))
            bounds = np.concatenate([*parts, self.first[-1:]])
        heads = np.searchsorted(bounds, self.first[:-1])
        return Segments(bounds, heads, self.weights.mean(axis=0) * np.diff(bounds).mean())


def tangent_maps(
    rhs: Callable, jac_x: Callable, jac_p: Callable, curves: np.ndarray | None = None
) -> Callable:
    """The ``interval_maps`` of `fit_trajectory` from a right-hand side and its derivatives.

    With ``curves`` (N, 4, m), the inputs in each interval, all three are given them behind the states.
    """

    def maps(
        p: np.ndarray, nodes: np.ndarray, steps: np.ndarray, counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        x = nodes[:-1].copy()
        n, d = x.shape
        tangent = np.zeros((n, d, d + len(p)))
        tangent[:, range(d), range(d)] = 1.0
        for k in range(int(counts.max())):
            rows = slice(None) if k < counts.min() else np.flatnonzero(counts > k)
            intervals = None if curves is None else (curves[rows], k, counts[rows])
            x[rows], tangent[rows] = step(p, x[rows], tangent[rows], steps[rows], intervals)
        return x, tangent

    def step(
        p: np.ndarray, x: np.ndarray, tangent: np.ndarray, h: np.ndarray, inputs: tuple | None
    ) -> tuple[np.ndarray, np.ndarray]:
        d = x.shape[1]
        h1, h2 = h[:, None], h[:, None, None]

        def stage(z: np.ndarray, dz: np.ndarray, part: float) -> tuple[np.ndarray, np.ndarray]:
            if inputs is not None:
                cubics, k, counts = inputs
                z = np.concatenate([z, at(cubics, (k + part) / counts)], axis=1)
            slope = jac_x(z, p) @ dz
            slope[:, :, d:] += jac_p(z, p)
            return rhs(z, p), slope

        k1, s1 = stage(x, tangent, 0.0)
        k2, s2 = stage(x + 0.5 * h1 * k1, tangent + 0.5 * h2 * s1, 0.5)
        k3, s3 = stage(x + 0.5 * h1 * k2, tangent + 0.5 * h2 * s2, 0.5)
        k4, s4 = stage(x + h1 * k3, tangent + h2 * s3, 1.0)
        return (
            x + h1 / 6.0 * (k1 + 2.0 * (k2 + k3) + k4),
            tangent + h2 / 6.0 * (s1 + 2.0 * (s2 + s3) + s4),
        )

    return maps


class Segments(NamedTuple):
    bounds: np.ndarray  # (S + 1,) first sample of each segment, and the number of samples
    heads: np.ndarray  # (T,) segments that trajectories start with
    gap_weight: np.ndarray  # (d,) of the gaps between intervals


@dataclass(frozen=True)
class Linearisation:
    """Normal equations of one linearisation; segment starts are eliminated later."""

    merit: float
    sensitivities: np.ndarray  # (n, d, d + q + 1): by segment start, by parameters, closing of gaps
    bounds: np.ndarray
    normal: np.ndarray  # (segments, d + q, d + q)
    moment: np.ndarray  # (segments, d + q)


class Shooting:
    def __init__(
        self,
        rhs: Callable | None,
        interval_maps: Callable,
        data: Data,
        parameter_prior: tuple[np.ndarray, np.ndarray],
        start_prior: tuple[np.ndarray, np.ndarray],
        max_step: float | np.ndarray,
        finer: Callable | None = None,
    ) -> None:
        self.rhs, self.data, self.finer = rhs, data, finer
        self.interval_maps = interval_maps
        self.prior, self.prior_mean = parameter_prior
        self.has_prior = bool(self.prior.any())
        self.rest = np.zeros(len(self.prior))
        # Writable and in C's order, here and where kernels are called: each other kind is compiled anew.
        self.pull, self.expected_starts = (np.array(part, np.float64, order="C") for part in start_prior)
        self.heads = data.first[:-1]
        self.breaks = data.first[1:-1] - 1  # intervals between trajectories
        times = np.diff(data.times)
        times[self.breaks] = 0.0
        self.lengths = times
        self.least = np.maximum(np.ceil(times / max_step - 1e-9), 1).astype(np.int64)
        self.counts = self.least
        self.steps = times / self.counts
        self.adapted: tuple[np.ndarray, np.ndarray] | None = None  # parameters and nodes of the counts

    def adapt(self, p: np.ndarray, nodes: np.ndarray) -> bool:
        """Take as many steps as the field needs from the nodes on, and whether these are more than before.

        The merit jumps where counts change, so that they are the same within the iterations of a stage.
        """
        if self.finer is None or not (np.isfinite(p).all() and np.isfinite(nodes).all()):
            return False
        if self.adapted is not None and self.adapted[0] is p and self.adapted[1] is nodes:
            return False  # a stage begins where the one before it ended
        self.adapted = p, nodes
        needed = self.finer(p, nodes, self.lengths, self.least)
        counts = np.maximum(self.counts, needed)
        if (counts == self.counts).all():
            return False
        self.counts, self.steps = counts, self.lengths / counts
        return True

    @property
    def refined(self) -> bool:
        """Whether steps are shorter than the pace of the data asks for."""
        return bool((self.counts > self.least).any())

    def prior_cost(self, p: np.ndarray, starts: np.ndarray) -> float:
        """What the priors of parameters and initial states add to the misfit."""
        away = starts - self.expected_starts
        cost = np.vdot(self.pull * away, away)
        if self.has_prior:
            change = p - self.prior_mean
            cost = change @ self.prior @ change + cost
        return float(cost)

    def integrate(self, p: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Path from the starts, trajectory by trajectory; nan after overflow."""
        rhs = self.rhs
        if rhs is None:
            raise ValueError("fit_trajectory: expected rhs where paths are integrated, got None; give it.")
        path = np.full(self.data.values.shape, np.nan)
        for start, (a, b) in zip(starts, pairwise(self.data.first), strict=True):
            path[a] = start
            x = np.array(start)[None]
            for j in range(a, b - 1):
                for _ in range(self.counts[j]):
                    x = runge_kutta(lambda z: rhs(z, p), x, self.steps[j])
                if not np.isfinite(x).all():
                    break
                path[j + 1] = x[0]
        return path

    def linearise(self, p: np.ndarray, nodes: np.ndarray, segments: Segments) -> Linearisation:
        data = self.data
        maps = self.interval_maps(p, nodes, self.steps, self.counts)
        placed = segments.bounds, segments.heads, segments.gap_weight
        merit, sensitivities, normal, moment = linearised(
            maps,
            np.ascontiguousarray(nodes),
            np.ascontiguousarray(data.values),
            np.ascontiguousarray(data.weights),
            placed,
            (self.pull, self.expected_starts),
        )
        merit += self.prior_cost(p, nodes[self.heads])
        merit = merit if math.isfinite(merit) else np.inf
        return Linearisation(merit, sensitivities, segments.bounds, normal, moment)

    def _eliminated(
        self, linear: Linearisation, damping: float, p: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Normal equations of the parameters alone, prior included, and what the starts follow from."""
        total, right, solved = eliminate_starts(linear.normal, linear.moment, self.data.dim, damping)
        return total + self.prior, right - self.prior @ (p - self.prior_mean), solved

    def step(
        self, linear: Linearisation, p: np.ndarray, nodes: np.ndarray, damping: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Parameters and nodes after one damped Gauss-Newton step."""
        change, update = gauss_newton_step(
            linear.normal,
            linear.moment,
            linear.sensitivities,
            linear.bounds,
            self.prior,
            self.prior @ (self.prior_mean - p) if self.has_prior else self.rest,
            damping,
        )
        return p + change, nodes + update

    def information(self, linear: Linearisation) -> np.ndarray:
        if not np.isfinite(linear.merit):
            return self.prior
        return self._eliminated(linear, 0.0, self.prior_mean)[0]
