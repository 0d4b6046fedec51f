"""The peak of a posterior and the evidence about it: Laplace's approximation, quadrature."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from fim_dynsys.comparison.likelihoods import Likelihood
from fim_dynsys.comparison.posteriors import Posterior
from fim_dynsys.comparison.priors import JointPrior

_STEP = 0.1  # of a posterior width: second differences err by a thousandth of what is not quadratic
_NEWTON_STEPS, _WIDTH_STEPS = 50, 12  # steps to the mode; to the width along each parameter
_LONGEST = 3.0  # widths in one step
_CONVERGED = 1e-8  # gain of log posterior


class NoPeakError(ValueError):
    """There is no peak of a posterior near a place.

    Attributes
    ----------
    place : array (q,)
        Which.
    """

    def __init__(self, place: np.ndarray) -> None:
        super().__init__(
            f"Peak.near: expected a peak of the posterior, got none near {place}: some direction has no "
            "curvature, or the prior ends there; sample it (method='nested') or give other priors."
        )
        self.place = place


@dataclass(frozen=True)
class Peak:
    """The highest point of a posterior and its curvature there.

    Attributes
    ----------
    mode : array (q,)
        Where it is.
    axes : array (q, q)
        Columns are independent directions of one standard deviation of the normal approximation.
    log_height : float
        Log of likelihood times prior.
    calls : int
        Likelihoods evaluated.
    """

    mode: np.ndarray
    axes: np.ndarray
    log_height: float
    calls: int

    @property
    def log_evidence(self) -> float:
        """Laplace's approximation: the volume under the normal density of this height and these axes."""
        return self.log_height + 0.5 * len(self.mode) * np.log(2.0 * np.pi) + np.linalg.slogdet(self.axes)[1]

    @classmethod
    def near(cls, likelihood: Likelihood, prior: JointPrior, start: np.ndarray) -> Self:
        """Climb from a start by Newton's method with differences.

        Parameters
        ----------
        likelihood : callable
            ``theta (q,) -> float``.
        prior : JointPrior
            Of the parameters.
        start : array (q,)
            Where likelihood and prior are finite.

        Returns
        -------
        Peak

        Raises
        ------
        NoPeakError
            If the posterior has no peak near the start.
        """
        calls = 0

        def log_posterior(theta: np.ndarray) -> float:
            nonlocal calls
            calls += 1
            density = prior.log_density(theta)
            return float(likelihood(theta) + density) if np.isfinite(density) else -np.inf

        theta = np.array(start, dtype=float)
        width = _widths(log_posterior, theta)
        for _ in range(_NEWTON_STEPS):
            value, gradient, hessian = _derivatives(log_posterior, theta, _STEP * width)
            if not (np.isfinite(gradient).all() and np.isfinite(hessian).all()):
                break
            curvature, vectors = np.linalg.eigh(-hessian)
            # uphill whatever the signs of the curvatures
            step = vectors @ (vectors.T @ gradient / np.maximum(np.abs(curvature), 1e-12))
            step *= min(1.0, _LONGEST / max(np.abs(step).max(), 1e-300))
            while log_posterior(theta + width * step) < value and np.abs(step).max() > 1e-6:
                step *= 0.5
            theta = theta + width * step
            if abs(gradient @ step) < _CONVERGED:
                break
        value, _, hessian = _derivatives(log_posterior, theta, _STEP * width)
        if not np.isfinite(hessian).all() or not (np.linalg.eigvalsh(-hessian) > 0).all():
            raise NoPeakError(theta)
        curvature, vectors = np.linalg.eigh(-hessian)
        return cls(theta, width[:, None] * vectors / np.sqrt(curvature), float(value), calls)


def laplace(likelihood: Likelihood, peak: Peak, n_draws: int = 1000, seed: int = 0) -> Posterior:
    """Evidence by a normal approximation about the posterior's mode: exact where the model is linear.

    Parameters
    ----------
    likelihood : callable
        ``theta (q,) -> float``.
    peak : Peak
        Of the posterior.
    n_draws : int
        Draws of the approximation.
    seed : int
        Of the draws.

    Returns
    -------
    Posterior
        Without an error: that of the approximation is not known.

    References
    ----------
    L. Tierney, J. B. Kadane, Accurate approximations for posterior moments and marginal densities, JASA 81
    (1986) 82.
    """
    draws = peak.mode + np.random.default_rng(seed).standard_normal((n_draws, len(peak.mode))) @ peak.axes.T
    values = np.array([likelihood(draw) for draw in draws])
    return Posterior.of_draws(peak.log_evidence, draws, values, peak.calls + n_draws, seed)


def quadrature(likelihood: Likelihood, prior: JointPrior, peak: Peak, nodes: int = 9) -> float:
    """Evidence by Gauss-Hermite quadrature about a peak: as good as the posterior is near to one smooth hill.

    Parameters
    ----------
    likelihood : callable
        ``theta (q,) -> float``.
    prior : JointPrior
        Of the parameters.
    peak : Peak
        Of the posterior.
    nodes : int
        For each of the q directions; ``nodes**q`` likelihoods are evaluated.

    Returns
    -------
    float
        Log evidence.

    References
    ----------
    J. C. Naylor, A. F. M. Smith, Applications of a method for the efficient computation of posterior
    distributions, Applied Statistics 31 (1982) 214.
    """
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    q = len(peak.mode)
    grid = np.stack([g.ravel() for g in np.meshgrid(*[x] * q, indexing="ij")], axis=1)
    log_w = sum(g.ravel() for g in np.meshgrid(*[np.log(w)] * q, indexing="ij"))
    points = peak.mode + grid @ peak.axes.T
    values = np.array([likelihood(point) for point in points]) + prior.log_density(points)
    terms = values + 0.5 * np.sum(grid**2, axis=1) + log_w
    top = terms.max()
    return float(top + np.log(np.sum(np.exp(terms - top))) + np.linalg.slogdet(peak.axes)[1])


def _widths(log_posterior: Likelihood, theta: np.ndarray) -> np.ndarray:
    """For each parameter, the distance over which the log posterior changes by about one half."""
    value, width = log_posterior(theta), 1e-3 * np.maximum(np.abs(theta), 1e-3)
    for k in range(len(theta)):
        for _ in range(_WIDTH_STEPS):
            move = np.where(np.arange(len(theta)) == k, width[k], 0.0)
            bend = abs(log_posterior(theta + move) - 2.0 * value + log_posterior(theta - move))
            factor = np.clip(1.0 / np.sqrt(bend), 0.1, 10.0) if np.isfinite(bend) and bend > 0 else 0.1
            width[k] *= factor
            if 0.7 < factor < 1.4:
                break
    return width


def _derivatives(fn: Likelihood, theta: np.ndarray, step: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Value, gradient and Hessian by central differences, in units of ``step / _STEP``."""
    q, value = len(theta), fn(theta)
    moves = np.diag(step)
    ahead, behind = (np.array([fn(theta + sign * move) for move in moves]) for sign in (1, -1))
    with np.errstate(invalid="ignore"):  # -inf - -inf beyond the prior's ends; the caller looks
        gradient = (ahead - behind) / (2.0 * _STEP)
        hessian = np.diag(ahead - 2.0 * value + behind) / _STEP**2
    for i in range(q):
        for j in range(i):
            both, neither = fn(theta + moves[i] + moves[j]), fn(theta - moves[i] - moves[j])
            with np.errstate(invalid="ignore"):
                mixed = both + neither - ahead[i] - behind[i] - ahead[j] - behind[j] + 2.0 * value
            hessian[i, j] = hessian[j, i] = 0.5 * mixed / _STEP**2
    return value, gradient, hessian
