"""Draws of the parameters from the likelihood, for intervals of whatever depends on them."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from fim_dynsys.errors import FitWarning, warn
from fim_dynsys.estimation.fits import Fit
from fim_dynsys.estimation.objective import Evaluation
from fim_dynsys.estimation.profiles import profile_side
from fim_dynsys.estimation.ridges import Ridge, roughest
from fim_dynsys.estimation.summary import covariance_at

_WALKERS = 20  # walks at most: each begins elsewhere
_LEARNT = 20  # steps of each walk before its first draw is kept, by which draws forget where they begin
_THINNED = 8  # steps for each draw that is kept after that
_SHARES = (1.0, 0.3, 0.1)  # of Newton steps, in turn: whole ones forget, short ones follow bent densities
_WIDE = 10.0  # sizes: the standard deviation of what nothing determines, and so the longest of a step
_DEAF = 1e-8  # least curvature, in sizes: the density is flat along what has no effect at all
_BEYOND = 3.0  # log-likelihood units more than twice what a normal density says: no place to begin
_NEARER = 0.6  # of the way from the fit: where to begin instead
_FAR = 8.0  # log-likelihood units below the fit: no place to begin about a profile
_TOLERANCE = 1e-6  # of the integration
_FELL = 2.0  # log-likelihood units below the best, about the end of a 95 % interval: no walk begins beyond
_ROSE = 1.0  # by which the logarithm of the density is larger elsewhere, for walks to begin there


class _Density:
    """What is drawn from: likelihood and prior times the root of the determinant of their curvature.

    Parameters
    ----------
    fit : Fit
        A fit that converged.
    """

    def __init__(self, fit: Fit) -> None:
        self.objective, self.space = fit.problem.objective, fit.space
        theta = fit.descent.theta
        self.middle = theta
        self.size = _sizes(fit, theta, fit.descent.evaluation.curvature)
        # a number near 0 may be as large as its natural size, 1
        self.precision = 1.0 / (_WIDE * np.maximum(self.size, 1.0)) ** 2
        self.power = _power(fit)


def _power(fit: Fit) -> float:
    """Share of the log-likelihood that is left with the scales of the errors integrated out.

    The curvature at the best scale rises as its square falls: that is as of q fewer samples.
    """
    count = int(fit.problem.objective.estimated.sum())
    return max(count - len(fit.space), 1) / count if count else 1.0


def _sizes(fit: Fit, theta: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """Sizes (q,) of coordinates about a place; a number near 0 is known no better than its curvature says."""
    alone = 1.0 / np.sqrt(np.maximum(np.diagonal(curvature), 1e-12))
    return np.where(fit.space.log, 1.0, np.maximum(np.abs(theta), alone))


def _log_volume(curvature: np.ndarray, size: np.ndarray) -> float:
    """Logarithm of the root of the determinant of a curvature (q, q) in sizes (q,)."""
    values = np.linalg.eigvalsh(curvature * size * size[:, None])
    return 0.5 * float(np.sum(np.log(np.maximum(values, _DEAF))))


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
        off = theta - density.middle
        height = -power * found.value - 0.5 * float(np.sum(density.precision * off**2))
        height += 0.5 * float(np.sum(np.log(np.maximum(values, _DEAF))))
        deviations = 1.0 / np.sqrt(power * np.maximum(values, 0.0) + 1.0 / _WIDE**2)
        root = size[:, None] * vectors * deviations
        centre = theta - root @ (root.T @ (power * found.gradient + density.precision * off))
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
    levels off, as profiles and standard errors are. Scales of errors are at their best.

    Walks begin at draws of the normal approximation about the fit, or, where the fit has run away along a
    flat end of the likelihood, about the place along its profiles where the density is largest. Where errors
    are large, walks begin along profiles. Steps are shares of Newton steps with noise, and draws about these
    profiles, kept after Metropolis and Hastings: nearly all where the density is normal, however many
    parameters there are.

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
        Where nothing tells the size of the errors, or the data do not bound a number: quantiles of its
        draws depend on the invariant prior then.

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
    fit = _brought_back(fit)
    density, rng = _Density(fit), np.random.default_rng(seed)
    best = _Place.at(density, fit.descent.theta) if len(fit.space) else None
    if best is None:  # nothing was estimated, or nothing else is finite
        return np.tile(fit.natural, (n, 1))
    found = [Ridge.of(fit, k, density.power, density.precision) for k in roughest(fit)]
    ridges = [ridge for ridge in found if ridge is not None]
    ends = [
        f"{fit.space.names[ridge.number]} {side}"
        for ridge in ridges
        for side, is_open in zip(("below", "above"), ridge.is_open, strict=True)
        if is_open and ridge.number < len(fit.problem.parameters)  # fields have no first states
    ]
    if ends:
        warn(
            f"ensemble: the data do not bound {', '.join(ends)}; quantiles of the draws are no confidence "
            "intervals of these, use profile(name).",
            FitWarning,
        )
    walkers = min(n, _WALKERS)
    shares = (rng.permutation(walkers) + rng.random(walkers)) / walkers if ridges else np.zeros(walkers)
    kinds: list[float | Ridge] = [*_SHARES, *ridges]
    kept: list[np.ndarray] = []
    for walker in range(walkers):
        ridge = ridges[walker % len(ridges)] if ridges else None
        place = (
            _begun(density, best, rng) if ridge is None else _along(density, best, ridge, shares[walker], rng)
        )
        own = len(range(walker, n, walkers))
        for step in range(_LEARNT + _THINNED * (own - 1)):
            kind = kinds[step % len(kinds)]
            if isinstance(kind, Ridge):
                place = _jumped(density, place, kind, rng)
            else:
                place = _moved(density, place, kind, rng)
            if step >= _LEARNT - 1 and (step - _LEARNT + 1) % _THINNED == 0:
                kept.append(place.theta)
    return np.array([density.space.natural(theta) for theta in kept])


def _brought_back(fit: Fit) -> Fit:
    """The fit, or the place along the profiles of undetermined numbers where the density is largest."""
    if not len(fit.space):
        return fit
    objective, power = fit.problem.objective, _power(fit)

    def height(theta: np.ndarray, found: Evaluation) -> float:
        if not np.isfinite(found.value) or not np.isfinite(found.curvature).all():
            return -np.inf
        return _log_volume(found.curvature, _sizes(fit, theta, found.curvature)) - power * found.value

    for k in np.flatnonzero(covariance_at(fit)[1]):
        begun = fit
        best = height(begun.descent.theta, begun.descent.evaluation) + _ROSE
        for theta, _ in [step for sign in (-1.0, 1.0) for step in profile_side(begun, int(k), sign, _FELL)]:
            found = objective(theta, _TOLERANCE)
            if (own := height(theta, found)) > best:
                best, fit = own, replace(fit, descent=replace(fit.descent, theta=theta, evaluation=found))
    return fit


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


def _along(density: _Density, best: _Place, ridge: Ridge, share: float, rng: np.random.Generator) -> _Place:
    """A draw about a profile, or the fit where none is finite."""
    for _ in range(20):
        found = _Place.at(density, ridge.drawn(rng, share))
        if found is not None and found.height > best.height - _FAR:
            return found
        share = rng.random()
    return best


def _jumped(density: _Density, place: _Place, ridge: Ridge, rng: np.random.Generator) -> _Place:
    """The next place of a walk, by a draw about a profile that does not depend on where it is."""
    trial, chance = ridge.drawn(rng, rng.random()), rng.random()
    found = _Place.at(density, trial)
    if found is None:
        return place
    rise = found.height - place.height + ridge.log_chance(place.theta) - ridge.log_chance(trial)
    return found if chance < np.exp(min(rise, 0.0)) else place


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
