"""Evidence in closed form: coefficients that enter linearly, their terms integrated along smoothed data."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import CubicHermiteSpline

from fim_dynsys.comparison.likelihoods import NoiseLevel
from fim_dynsys.comparison.posteriors import Posterior
from fim_dynsys.regression.expression_fits import ExpressionProblem
from fim_dynsys.regression.observed import Observations

_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(3)  # per interval: as exact as the path's cubics
_NOISE_ITERATIONS = 30  # of the noise level's fixed point; each leaves about q / n of the error
_TAIL, _LEVELS = 8.0, 33  # widths and nodes of the integral over the noise level
_DRAWS = 1000  # of the posterior


def log_evidence_of_line(
    design: np.ndarray, target: np.ndarray, noise: ArrayLike, prior_precision: np.ndarray
) -> float:
    """Closed form: evidence of coefficients of a linear regression under a normal prior about 0.

    Parameters
    ----------
    design : array (n, q)
        Regressors.
    target : array (n,)
        What is explained.
    noise : float or array (n,)
        Standard deviation of the target's errors.
    prior_precision : array (q,)
        Of the coefficients.

    Returns
    -------
    float

    References
    ----------
    C. M. Bishop, Pattern Recognition and Machine Learning (2006), eq. 3.86.
    """
    noise = np.broadcast_to(np.asarray(noise, dtype=float), target.shape)
    mean, total = _conditional(design, target, noise, prior_precision)
    misfit = np.sum(((target - design @ mean) / noise) ** 2) + prior_precision @ mean**2
    determinants = np.sum(np.log(prior_precision)) - np.linalg.slogdet(total)[1]
    constant = np.sum(np.log(noise)) + 0.5 * len(target) * np.log(2.0 * np.pi)
    return float(0.5 * (determinants - misfit) - constant)


def _conditional(
    design: np.ndarray, target: np.ndarray, noise: np.ndarray, prior_precision: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean (q,) and precision (q, q) of the coefficients at a noise level."""
    a = design / noise[:, None]
    total = np.diag(prior_precision) + a.T @ a
    return np.linalg.solve(total, a.T @ (target / noise)), total


@dataclass(frozen=True)
class IntegralRegression:
    """Observations as starts plus integrals of terms along the smoothed data: linear in the coefficients.

    What the path's errors do to the integrals is left out, so that evidences are those of the trajectories
    only where the terms do not depend on the state.

    Attributes
    ----------
    design : array (n, q + P d)
        Integrals of the terms from the start of each piece, then an indicator of each piece and state.
    target : array (n,)
        Observations less the integrals of what has no coefficient.
    relative : array (n,)
        Standard deviations of the observations, relative to their state's noise level.
    state : int array (n,)
        Of each observation.
    """

    design: np.ndarray
    target: np.ndarray
    relative: np.ndarray
    state: np.ndarray

    @classmethod
    def of(cls, problem: ExpressionProblem, observations: Observations, noise: NoiseLevel) -> Self:
        """Regression of the observations on the terms of right-hand sides.

        Parameters
        ----------
        problem : ExpressionProblem
            Linear in all its parameters.
        observations : Observations
            Data.
        noise : NoiseLevel
            Of the observations.
        """
        q, d, scale, unit = len(problem.names), observations.dim, observations.scale, observations.time_unit
        n_pieces = len(observations.samples)
        rows = []
        for k, ((t, z), (states, slopes), weights) in enumerate(
            zip(observations.samples, observations.splines, noise.weights(observations), strict=True)
        ):
            gaps = np.diff(t)
            nodes = t[:-1, None] + 0.5 * gaps[:, None] * (1.0 + _NODES)
            x = CubicHermiteSpline(t, states, slopes)(nodes.ravel()) * scale
            zero = np.zeros(q)
            values = np.concatenate([problem.rhs(x, zero)[..., None], problem.jac_p(x, zero)], axis=2)
            steps = np.einsum("njdq,j,n->ndq", values.reshape(*nodes.shape, d, q + 1), _NODE_WEIGHTS, gaps)
            integrals = np.concatenate([np.zeros((1, d, q + 1)), 0.5 * unit * np.cumsum(steps, axis=0)])
            starts = np.zeros((len(t), d, n_pieces, d))
            starts[:, np.arange(d), k, np.arange(d)] = 1.0
            design = np.concatenate([integrals[..., 1:], starts.reshape(len(t), d, -1)], axis=2)
            relative = weights**-0.5
            state = np.broadcast_to(np.arange(d), z.shape)
            rows.append((design, z * scale - integrals[..., 0], relative, state))
        design, target, relative, state = (np.concatenate(parts) for parts in zip(*rows, strict=True))
        return cls(design.reshape(target.size, -1), target.ravel(), relative.ravel(), state.ravel())

    def posterior(
        self, centre: np.ndarray, spread: np.ndarray, noise: NoiseLevel, seed: int = 0
    ) -> Posterior:
        """Evidence and draws under normal priors.

        The noise level, where unknown, is integrated over state by state, the other states' being at their
        best values: exact for one state, or where no two states share a coefficient. Draws are for the best
        levels.

        Parameters
        ----------
        centre, spread : arrays (q + P d,)
            Means and standard deviations of the priors.
        noise : NoiseLevel
            In the units of the data.
        seed : int
            Of the draws.

        Returns
        -------
        Posterior
            Without an error, which that of the smoothed path decides.
        """
        precision, target = 1.0 / spread**2, self.target - self.design @ centre
        calls = 0

        def log_evidence(level: np.ndarray) -> float:
            nonlocal calls
            calls += 1
            return log_evidence_of_line(self.design, target, self.relative * level[self.state], precision)

        level = self._best_level(target, precision, noise)
        top = value = log_evidence(level)
        for k in np.flatnonzero(noise.low < noise.high):
            width = _TAIL / np.sqrt(2.0 * np.sum(self.state == k))
            first, last = np.log([noise.low[k], noise.high[k]])
            ends = np.clip(np.log(level[k]) + np.array([-width, width]), first, last)
            grid = np.linspace(ends[0], ends[1], _LEVELS)
            along = [log_evidence(np.where(np.arange(len(level)) == k, np.exp(g), level)) for g in grid]
            mass = np.trapezoid(np.exp(np.array(along) - top), grid)
            value += float(np.log(mass / (last - first)))
        scale = self.relative * level[self.state]
        mean, total = _conditional(self.design, target, scale, precision)
        normal = np.random.default_rng(seed).standard_normal((_DRAWS, len(mean)))
        draws = mean + np.linalg.solve(np.linalg.cholesky(total).T, normal.T).T
        squares = ((target - draws @ self.design.T) / self.relative) ** 2
        by_state = np.stack([squares[:, self.state == k].sum(axis=1) for k in range(len(level))], axis=1)
        n, constant = len(target) // len(level), np.sum(np.log(self.relative))
        values = np.array([noise.log_likelihood(row, n) for row in by_state]) - constant
        return Posterior.of_draws(value, centre + draws, values, calls, seed)

    def _best_level(self, target: np.ndarray, precision: np.ndarray, noise: NoiseLevel) -> np.ndarray:
        """Noise levels (d,) of largest evidence, by expectation maximisation."""
        level = np.sqrt(noise.low * noise.high)
        if (noise.low == noise.high).all():
            return level
        for _ in range(_NOISE_ITERATIONS):
            scale = self.relative * level[self.state]
            mean, total = _conditional(self.design, target, scale, precision)
            # the spread of a prediction that the coefficients' own uncertainty leaves
            leverage = np.einsum("nq,nq->n", self.design, np.linalg.solve(total, self.design.T).T)
            squares = ((target - self.design @ mean) ** 2 + leverage) / self.relative**2
            level = np.sqrt(np.bincount(self.state, squares) / np.bincount(self.state))
            level = np.clip(level, noise.low, noise.high)
        return level
