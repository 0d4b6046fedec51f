"""Trajectory fits to numerical precision: a method of order eight, steps by their errors."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from fim_dynsys.regression.kernels.precise import precise_maps
from fim_dynsys.regression.kernels.shooting import condense
from fim_dynsys.regression.observed import STEP_LIMIT, Observations
from fim_dynsys.regression.refinement import FitStatus, TrajectoryFit
from fim_dynsys.regression.shooting import Data, Shooting
from fim_dynsys.simulation.pairs import dop853_table

RESOLVED = 2e-10
"""Of a coordinate's standard deviation: what is smaller counts as rounding."""

FINE, COARSE = 1e-11, 1e-7
"""Errors of integration from one sample to the next, in standard deviations of the coordinates."""

_FINEST = 64  # steps from one sample to the next
_ITERATIONS = 15  # of Gauss-Newton
_DECREASE = 1e-3  # of the log density, or relative of the merit: below, a fit has settled
_DAMPING = (1e-6, 1e2)  # first; the one at which the fit ends
_HELD = 1e-8  # of what a sample weighs: by so much starts are held near the first ones
_FREEDOM = 2.0  # of Student's distribution: most errors of integration are small beside the largest
_AT_PEAK = (  # logarithm of its density there
    math.lgamma(0.5 * (_FREEDOM + 1.0)) - math.lgamma(0.5 * _FREEDOM) - 0.5 * math.log(_FREEDOM * math.pi)
)
_HALVED, _SCALED = 4, 30  # halvings of a step that does not improve; rounds of the scale of what is missed
_SINGLE = 2.0**-24  # half a unit in the last place of single precision
_DECIMALS = 10  # to which samples may have been rounded

Terms = tuple[np.ndarray, ...]
Field = Callable[[np.ndarray], tuple[Terms, np.ndarray, np.ndarray, np.ndarray, np.ndarray]]
"""From parameters to terms, rows, columns, coefficients and free numbers, as `precise_maps` takes them."""


@cache
def _method() -> np.ndarray:
    """Hairer's method of order eight with twelve stages: their weights, then those of the result."""
    table = dop853_table()
    s = table["N_STAGES"]
    return np.ascontiguousarray(np.vstack([table["A"][:s, :s], table["B"][None]]))


def resolution(samples: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Standard deviation (d,) of the rounding of samples: of single precision, to decimals, or none.

    Parameters
    ----------
    samples : list of (t (n,), x (n, d))
        As they were given.
    """
    out = []
    for x in np.concatenate([x for _, x in samples]).T:
        size = float(np.sqrt(np.mean(x**2)))
        step = 0.0
        if np.array_equal(x, x.astype(np.float32)):
            step = 2.0 * _SINGLE * size
        for decimals in range(_DECIMALS):
            if np.allclose(x, np.round(x, decimals), rtol=4e-16, atol=0.0):
                step = max(step, 10.0**-decimals)
                break
        out.append(step / np.sqrt(12.0))
    return np.array(out)


@dataclass(frozen=True)
class GapFit:
    """Parameters fitted to what a field misses from each sample to the next.

    Attributes
    ----------
    parameters : array (q,)
        Fitted.
    missed, slopes : arrays (N, d), (N d, q)
        What is missed, in standard deviations of the coordinates, and minus its derivatives.
    weights : array (N, d)
        Of the squares of what is missed: inverse variances where it is large no outlier.
    log_density : float
        Mean over the intervals of the logarithm of the density of what is missed.
    """

    parameters: np.ndarray
    missed: np.ndarray
    slopes: np.ndarray
    weights: np.ndarray
    log_density: float

    @property
    def information(self) -> np.ndarray:
        """Half the second derivatives (q, q) of the weighted sum of squares."""
        weighed = self.slopes * self.weights.ravel()[:, None]
        return weighed.T @ self.slopes

    @property
    def standardised(self) -> np.ndarray:
        """What is missed (N, d), times the root of its weight."""
        return np.sqrt(self.weights) * self.missed

    def step(self) -> np.ndarray | None:
        """To the smallest weighted sum of squares (q,), linearised; None where numbers are not finite."""
        slopes = self.slopes * np.sqrt(self.weights.ravel())[:, None]
        if not (np.isfinite(self.log_density) and np.isfinite(slopes).all()):
            return None
        return np.linalg.lstsq(slopes, self.standardised.ravel())[0]


@dataclass(frozen=True)
class Precise:
    """Noise-free observations, to be fitted to numerical precision.

    Attributes
    ----------
    observations : Observations
        Data, in units of their size and pace.
    resolution : array (d,)
        Standard deviations of their rounding, in the same units.
    data : Data
        The samples with weights in units of the signal's variance.
    """

    observations: Observations
    resolution: np.ndarray
    data: Data

    @classmethod
    def of(cls, observations: Observations, resolution: np.ndarray) -> "Precise":
        """From observations and the `resolution` of their samples as they were given."""
        data = Data.of(observations.samples, observations.weights_over(_positive(observations)))
        return cls(observations, resolution / observations.scale, data)

    @property
    def signal(self) -> np.ndarray:
        """Variance (d,) of the samples, positive."""
        return _positive(self.observations)

    def _intervals(self) -> np.ndarray:
        """Lengths (N - 1,) of the intervals between samples; 0 between trajectories."""
        lengths = np.diff(self.data.times)
        lengths[self.data.first[1:-1] - 1] = 0.0
        return lengths

    def steps(self, field: Field, p: np.ndarray, tolerance: float = FINE) -> np.ndarray:
        """Longest steps (N - 1,) by which one field keeps the tolerance from every sample to the next."""
        lengths = self._intervals()
        counts = np.maximum(np.ceil(lengths / STEP_LIMIT), 1).astype(np.int64)
        for _ in range(2):
            ends = [self._ends(field, p, self.data.values, lengths, n) for n in (counts, 2 * counts)]
            error = np.max(np.abs(ends[1] - ends[0]) / np.sqrt(self.signal), axis=1)
            error = np.where(np.isfinite(error), error, np.inf)
            if (error <= tolerance).all():
                break
            finer = np.minimum(np.ceil((error / tolerance) ** (1.0 / 8.0)), 8.0)
            counts = np.minimum(counts * np.maximum(finer, 1).astype(np.int64), _FINEST)
        return np.where(lengths > 0.0, lengths, 1.0) / counts

    def _ends(
        self, field: Field, p: np.ndarray, nodes: np.ndarray, lengths: np.ndarray, counts: np.ndarray
    ) -> np.ndarray:
        return precise_maps(*field(p), nodes, lengths / counts, counts, _method(), False)[0]

    def gaps(self, field: Field, p: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What a field misses from each sample to the next (r,), and its derivatives (r, q), weighted.

        In units of each coordinate's standard deviation.
        """
        lengths = self._intervals()
        counts = np.maximum(np.ceil(lengths / steps - 1e-9), 1).astype(np.int64)
        z, d = self.data.values, self.data.dim
        ends, tangents = precise_maps(*field(p), z, lengths / counts, counts, _method(), True)
        inside = lengths > 0.0
        root = np.sqrt(np.minimum(self.data.weights[1:], self.data.weights[:-1]))[inside]
        missed = (z[1:] - ends)[inside] * root
        return missed.ravel(), (tangents[inside, :, d:] * root[:, :, None]).reshape(missed.size, -1)

    def fit_gaps(self, field: Field, p: np.ndarray) -> GapFit | None:
        """Parameters fitted from each sample to the next, where errors stay in all samples that follow.

        So do those of whoever integrated the samples, most of them small, a few large: what is missed has
        Student's distribution, in each coordinate with a scale of its own. None where that diverges.

        References
        ----------
        K. L. Lange, R. J. A. Little, J. M. G. Taylor, J. Am. Stat. Assoc. 84, 881 (1989): scales and weights.
        """
        steps = self.steps(field, p)
        best = self._gap_fit(field, p, steps)
        for _ in range(_ITERATIONS):
            step, before = best.step(), best.log_density
            if step is None:
                return None
            for _ in range(_HALVED):
                trial = self._gap_fit(field, best.parameters + step, steps)
                if trial.log_density > before:
                    best = trial
                    break
                step = 0.5 * step
            if not best.log_density > before + _DECREASE:
                break
        return best

    def _gap_fit(self, field: Field, p: np.ndarray, steps: np.ndarray) -> GapFit:
        """What is missed, and its weights at the most probable scales."""
        missed, slopes = self.gaps(field, p, steps)
        missed = missed.reshape(-1, self.data.dim)
        scale = np.maximum(np.sqrt(np.mean(missed**2, axis=0)), RESOLVED)
        for _ in range(_SCALED):
            weights = (_FREEDOM + 1.0) / (_FREEDOM + (missed / scale) ** 2)
            scale = np.maximum(np.sqrt(np.mean(weights * missed**2, axis=0)), RESOLVED)
        weights = (_FREEDOM + 1.0) / (_FREEDOM + (missed / scale) ** 2) / scale**2
        tails = 0.5 * (_FREEDOM + 1.0) * np.log1p((missed / scale) ** 2 / _FREEDOM) + np.log(scale)
        return GapFit(p, missed, slopes, weights, float(np.mean(np.sum(_AT_PEAK - tails, axis=1))))

    def between(self, field: Field, p: np.ndarray, steps: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """A field's paths from each sample to the next, bent so that they meet it.

        Returns
        -------
        list of (path (2 F + 1, d), lengths (F,)), one per trajectory
            At the ends and middles of ``steps`` steps in each interval.
        """
        lengths = self._intervals()
        count = 2 * steps
        once = np.ones(len(lengths), dtype=np.int64)
        x = self.data.values
        states = [x[:-1]]
        for _ in range(count):
            nodes = np.concatenate([states[-1], states[-1][-1:]])
            states.append(self._ends(field, p, nodes, lengths / count, once))
        missed = x[1:] - states[-1]
        bent = np.stack([state + missed * (k / count) for k, state in enumerate(states[:-1])], axis=1)
        out = []
        for a, b in zip(self.data.first[:-1], self.data.first[1:], strict=True):
            path = np.concatenate([bent[a : b - 1].reshape(-1, self.data.dim), x[b - 1 : b]])
            out.append((path, np.repeat(lengths[a : b - 1] / steps, steps)))
        return out

    def fit(
        self, field: Field, p: np.ndarray, steps: np.ndarray, nodes: np.ndarray | None = None
    ) -> tuple[TrajectoryFit, np.ndarray]:
        """Parameters and starts fitted to the trajectories, from the samples themselves or from given nodes.

        Returns
        -------
        fit : TrajectoryFit
            Its weights are those of `data`.
        error : array (d,)
            Root mean square of what its integration errs by along the paths, in the units of the samples.
        """
        method = _method()

        def maps(p: np.ndarray, nodes: np.ndarray, steps: np.ndarray, counts: np.ndarray) -> tuple:
            return precise_maps(*field(p), nodes, steps, counts, method, True)

        data, q = self.data, len(p)
        starts = data.values[data.first[:-1]]
        pull = np.broadcast_to(_HELD / self.signal, starts.shape)
        prior = np.zeros((q, q)), p
        with np.errstate(all="ignore"):
            problem = Shooting(None, maps, data, prior, (pull, starts), steps)
            nodes = data.values.copy() if nodes is None else nodes
            segments = data.segments(1)
            linear = problem.linearise(p, nodes, segments)
            damping, status, used = _DAMPING[0], FitStatus.MAX_ITERATIONS, 0
            least = 0.01 * RESOLVED**2 * data.values.size
            while used < _ITERATIONS and np.isfinite(linear.merit):
                used += 1
                p_new, nodes_new = problem.step(linear, p, nodes, damping)
                trial = problem.linearise(p_new, nodes_new, segments)
                if trial.merit <= linear.merit:
                    done = linear.merit - trial.merit <= _DECREASE * linear.merit or trial.merit < least
                    p, nodes, linear = p_new, nodes_new, trial
                    damping = max(damping * 0.1, 1e-14)
                    if done:
                        status = FitStatus.CONVERGED
                        break
                    continue
                damping *= 30.0
                if damping > _DAMPING[1] or trial.merit <= linear.merit * (1.0 + 1e-9):
                    status = FitStatus.STALLED
                    break
            misfit = linear.merit - problem.prior_cost(p, nodes[data.first[:-1]])
            error = (
                self._error(field, p, nodes, problem) if np.isfinite(misfit) else np.full(data.dim, np.inf)
            )
            fit = TrajectoryFit(
                p,
                nodes[data.first[:-1]],
                misfit,
                data.split(nodes),
                problem.information(linear),
                status,
                used,
            )
        return fit, error

    def _error(self, field: Field, p: np.ndarray, nodes: np.ndarray, problem: Shooting) -> np.ndarray:
        """What twice as many steps change along the paths (d,), root mean square."""
        once, _ = ends_and_tangents = problem.interval_maps(p, nodes, problem.steps, problem.counts)
        lengths = problem.steps * problem.counts
        off = self._ends(field, p, nodes, lengths, 2 * problem.counts) - once
        none = np.zeros_like(nodes)
        moved = condense(ends_and_tangents[1], off, none, none, self.data.segments(1).bounds)[0][:, :, -1]
        return np.sqrt(np.mean(moved**2, axis=0))

    def residual_variances(self, fit: TrajectoryFit) -> np.ndarray:
        """Weighted residual variance (d,) of a fit in the units of the samples; gaps count as misfit."""
        residuals = self.data.values - np.concatenate(fit.paths)
        on_nodes = np.mean(self.data.weights * residuals**2, axis=0)
        gaps = max(fit.misfit / len(residuals) - float(on_nodes.sum()), 0.0)
        return (on_nodes + gaps) * self.signal


def _positive(observations: Observations) -> np.ndarray:
    return np.maximum(observations.signal_variance, 1e-300)
