"""Draws of the parameters from the likelihood, for intervals of whatever depends on them."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from fim_dynsys.errors import FitWarning, warn
from fim_dynsys.estimation.fits import Fit

_WALKERS = 20  # walks at most: each begins elsewhere
_LEARNT = 20  # steps of each walk before its first draw is kept, by which draws forget where they begin
_THINNED = 8  # steps for each draw that is kept after that
_SHARES = (1.0, 0.3, 0.1)  # of Newton steps, in turn: whole ones forget, short ones follow bent densities
_WIDE = 10.0  # sizes: the longest standard deviation of a step, where nothing is determined
_DEAF = 1e-8  # least curvature, in sizes: the density is flat along what has no effect at all
_BEYOND = 3.0  # log-likelihood units more than twice what a normal density says: no place to begin
_NEARER = 0.6  # of the way from the fit: where to begin instead
_TOLERANCE = 1e-6  # of the integration


class _Density:
    """What is drawn from: likelihood and prior times the root of the determinant of their curvature.

    Parameters
    ----------
    fit : Fit
        A fit that converged.
    """

    def __init__(self, fit: Fit) -> None:
        self.objective, self.space = fit.problem.objective, fit.space
        theta, q = fit.descent.theta, len(fit.space)
        information = np.diagonal(fit.descent.evaluation.curvature)
        alone = 1.0 / np.sqrt(np.maximum(information, 1e-12))  # a number near 0 is known no better than that
        self.size = np.where(self.space.log, 1.0, np.maximum(np.abs(theta), alone))
        count = int(self.objective.estimated.sum())
        # The curvature at the best scale rises as its square falls: what is left of the likelihood with the
        # scale integrated out is as that of q fewer samples.
        self.power = max(count - q, 1) / count if count else 1.0


@dataclass(frozen=True, eq=False)
class _Place:
    """Coordinates (q,), the logarithm of the density there, and where a Newton step leads.

    Steps to ``centre`` have the covariance of ``root @ root.T``; ``inverse`` is that of the root.
    """

    theta: np.ndarray
    height: float
    centre: np.ndarray
    root: np.ndarray
    inverse: np.ndarray
    log_volume: float

    @classmethod
    def at(cls, density: _Density, theta: np.ndarray) -> Self | None:
        """The place; None beyond the bounds and where no path is finite."""
        if not ((theta >= density.space.low) & (theta <= density.space.high)).all():
            return None
        found = density.objective(theta, _TOLERANCE)
        if not np.isfinite(found.value) or not np.isfinite(found.curvature).all():
            return None
        size, power = density.size, density.power
        values, vectors = np.linalg.eigh(found.curvature * size * size[:, None])
        height = -power * found.value + 0.5 * float(np.sum(np.log(np.maximum(values, _DEAF))))
        deviations = 1.0 / np.sqrt(power * np.maximum(values, 0.0) + 1.0 / _WIDE**2)
        root = size[:, None] * vectors * deviations
        centre = theta - root @ (root.T @ (power * found.gradient))
        inverse = (vectors / deviations).T / size
        return cls(theta, height, centre, root, inverse, float(np.sum(np.log(deviations))))

    def ahead(self, share: float) -> np.ndarray:
        """A share of the way to the centre."""
        return self.theta + share * (self.centre - self.theta)

    def log_chance(self, theta: np.ndarray, share: float, width: float) -> float:
        """Logarithm of the density, up to a constant, with which a step leads to coordinates (q,)."""
        off = self.inverse @ (theta - self.ahead(share)) / width
        return -0.5 * float(off @ off) - self.log_volume


def draw_parameters(fit: Fit, n: int, seed: int) -> np.ndarray:
    """Values (n, q) of the estimated numbers in proportion to their likelihood and prior, within the bounds.

    The density is likelihood and prior times the root of the determinant of their expected curvature (the
    invariant prior of Jeffreys): the same in logarithms and natural values, and finite where the likelihood
    levels off, as profiles and standard errors are. Walks begin at draws of the normal approximation about
    the fit. Their steps are shares of Newton steps with noise, kept after Metropolis and Hastings: nearly all
    where the density is normal, however many parameters there are. Scales of errors are at their best.

    Parameters
    ----------
    fit : Fit
        A fit that converged.
    n : int
        Draws.
    seed : int
        Equal seeds give equal draws.

    Warns
    -----
    FitWarning
        Where nothing tells the size of the errors.

    References
    ----------
    J. Martin, L. C. Wilcox, C. Burstedde, O. Ghattas, A stochastic Newton MCMC method for large-scale
    statistical inverse problems, SIAM J. Sci. Comput. 34 (2012) A1460. H. Jeffreys, An invariant form for the
    prior probability in estimation problems, Proc. R. Soc. A 186 (1946) 453.
    """
    if fit.problem.is_saturated():
        warn(
            "ensemble: nothing tells the size of the errors, as many numbers are estimated as were measured: "
            "draws are alike, whatever the parameters may be; pass sigma to fit, or measure more.",
            FitWarning,
        )
    density, rng = _Density(fit), np.random.default_rng(seed)
    best = _Place.at(density, fit.descent.theta) if len(fit.space) else None
    if best is None:  # nothing was estimated, or nothing else is finite
        return np.tile(fit.natural, (n, 1))
    walkers = min(n, _WALKERS)
    kept: list[np.ndarray] = []
    for walker in range(walkers):
        place = _begun(density, best, rng)
        own = len(range(walker, n, walkers))
        for step in range(_LEARNT + _THINNED * (own - 1)):
            place = _moved(density, place, _SHARES[step % len(_SHARES)], rng)
            if step >= _LEARNT - 1 and (step - _LEARNT + 1) % _THINNED == 0:
                kept.append(place.theta)
    return np.array([density.space.natural(theta) for theta in kept])


def _begun(density: _Density, best: _Place, rng: np.random.Generator) -> _Place:
    """A draw of the normal approximation, nearer to the fit where that is no approximation."""
    space, drawn = density.space, rng.standard_normal(len(best.theta))
    for _ in range(20):
        theta = best.theta + best.root @ drawn
        theta = np.where(theta < space.low, 2.0 * space.low - theta, theta)  # bounds are mirrors
        theta = np.where(theta > space.high, 2.0 * space.high - theta, theta)
        found = _Place.at(density, theta)
        if found is not None and best.height - found.height < float(drawn @ drawn) + _BEYOND:
            return found
        drawn = _NEARER * drawn
    return best


def _moved(density: _Density, place: _Place, share: float, rng: np.random.Generator) -> _Place:
    """The next place of a walk, after a share of a Newton step with the noise that keeps a normal density."""
    width = float(np.sqrt(1.0 - (1.0 - share) ** 2))
    trial = place.ahead(share) + width * (place.root @ rng.standard_normal(len(place.theta)))
    found, chance = _Place.at(density, trial), rng.random()
    if found is None:
        return place
    rise = found.height - place.height
    rise += found.log_chance(place.theta, share, width) - place.log_chance(trial, share, width)
    return found if chance < np.exp(min(rise, 0.0)) else place
