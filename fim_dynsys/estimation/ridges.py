"""Draws of the parameters about the profile of one of them, where the likelihood is no normal density."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fim_dynsys.estimation.fits import Fit
from fim_dynsys.estimation.profiles import profile_side, thresholds
from fim_dynsys.estimation.summary import at_bounds, covariance_at

_ROUGH = 0.3  # sizes, or units of a logarithm: numbers with larger errors are drawn along their profiles
_MOST = 3  # numbers, those of the largest errors: each costs a profile
_FELL = 4.0  # log-likelihood units below the best, about the ends of a 99.5 % interval: steps lead farther
_TOLERANCE = 1e-6  # of the integration
_DEEP = 30.0  # log-likelihood units below the largest density, where nothing is ever drawn
_LEAST = 1e-300  # information, and shares: not 0
_ROUNDING = 1e-12  # of sums of squares: thousands of rounding errors
_DEAF = 1e-6  # of the wide density's information, 1e-8 in sizes: where the density is flat


@dataclass(frozen=True, eq=False)
class Ridge:
    """A density about a profile: its number has the marginal one, the others are normal about their best.

    With the invariant prior, the marginal density of a number is the likelihood along its profile over its
    standard error there, as far as the others are normal.

    Attributes
    ----------
    number : int
        Whose profile it is.
    at : array (p,)
        Its increasing coordinates.
    path : callable
        Best coordinates (q,) at one of these, and between them.
    heights, masses : arrays (p,), (p - 1,)
        Logarithms of the density at the coordinates; shares between them.
    roots : array (p, q - 1, q - 1)
        Of the covariances of the others.
    is_open : (bool, bool)
        Whether the likelihood does not bound the number below, and above, by 95 % intervals.
    """

    number: int
    at: np.ndarray
    path: Any
    heights: np.ndarray
    masses: np.ndarray
    roots: np.ndarray
    is_open: tuple[bool, bool]

    @classmethod
    def of(cls, fit: Fit, number: int, power: float, precision: np.ndarray) -> Self | None:
        """The density about a profile; None where it has a single point.

        Parameters
        ----------
        fit : Fit
            A fit that converged.
        number : int
            Whose profile it is.
        power : float
            Of the likelihood.
        precision : array (q,)
            Of wide normal densities about the fit, which hold numbers that nothing else determines.
        """
        from scipy.interpolate import PchipInterpolator

        below, above = (profile_side(fit, number, sign, _FELL) for sign in (-1.0, 1.0))
        thetas = [theta for theta, _ in below[::-1]] + [fit.descent.theta] + [theta for theta, _ in above]
        kept, heights, roots, values_of = [], [], [], []
        others = np.arange(len(fit.space)) != number
        for theta in thetas:
            found = fit.problem.objective(theta, _TOLERANCE)
            if not np.isfinite(found.value) or not np.isfinite(found.curvature).all():
                continue
            scale = 1.0 / np.sqrt(np.maximum(power * np.diagonal(found.curvature) + precision, _LEAST))
            information = power * found.curvature * scale * scale[:, None]
            within = information[np.ix_(others, others)]
            values, axes = np.linalg.eigh(within)
            along = axes.T @ information[others, number] / np.sqrt(np.maximum(values, _ROUNDING))
            values, axes = np.linalg.eigh(within + np.diag((precision * scale**2)[others]))
            root = axes / np.sqrt(np.maximum(values, _ROUNDING))
            alone = float(information[number, number] - along @ along) / scale[number] ** 2
            alone = max(alone, _DEAF * precision[number])
            off = theta - fit.descent.theta
            kept.append(theta)
            values_of.append(found.value)
            roots.append(scale[others][:, None] * root)
            heights.append(
                0.5 * np.log(alone) - power * found.value - 0.5 * float(np.sum(precision * off**2))
            )
        if len(kept) < 2:
            return None
        rises, (limit,) = np.array(values_of) - min(values_of), thresholds(fit, (0.95,)).values()
        held = [kept[0][number] <= fit.space.low[number], kept[-1][number] >= fit.space.high[number]]
        low, high = (bool(rises[end] < limit) and not held[end] for end in (0, -1))
        likely = np.array(heights) - np.max(heights) > -_DEEP
        first, last = np.flatnonzero(likely)[[0, -1]]
        chosen = slice(max(first - 1, 0), last + 2)
        path, height = np.array(kept)[chosen], np.array(heights)[chosen] - np.max(heights)
        height = np.maximum(height, -_DEEP)
        at = path[:, number]
        return cls(
            number,
            at,
            PchipInterpolator(at, path),
            height,
            _masses(at, height),
            np.array(roots)[chosen],
            (low, high),
        )

    def drawn(self, rng: np.random.Generator, share: float) -> np.ndarray:
        """Coordinates (q,) whose number is at a share of its distribution."""
        sums = np.cumsum(self.masses)
        j = min(int(np.searchsorted(sums, share)), len(self.masses) - 1)
        within = np.clip((share - (sums[j] - self.masses[j])) / max(self.masses[j], _LEAST), 0.0, 1.0)
        rise = self.heights[j + 1] - self.heights[j]
        part = within if abs(rise) < 1e-6 else np.log1p(within * np.expm1(rise)) / rise
        coordinate = self.at[j] + part * (self.at[j + 1] - self.at[j])
        theta = np.array(self.path(coordinate))
        others = np.arange(len(theta)) != self.number
        root = self.roots[self._nearest(coordinate)]
        theta[others] += root @ rng.standard_normal(root.shape[1])
        return theta

    def log_chance(self, theta: np.ndarray) -> float:
        """Logarithm of the density at coordinates (q,), up to a constant; minus infinity off the profile."""
        coordinate = float(theta[self.number])
        if not self.at[0] <= coordinate <= self.at[-1]:
            return -np.inf
        root = self.roots[self._nearest(coordinate)]
        others = np.arange(len(theta)) != self.number
        off = np.linalg.solve(root, (theta - self.path(coordinate))[others])
        volume = float(np.linalg.slogdet(root)[1])
        return float(np.interp(coordinate, self.at, self.heights)) - 0.5 * float(off @ off) - volume

    def _nearest(self, coordinate: float) -> int:
        return int(np.argmin(np.abs(self.at - coordinate)))


def _masses(at: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Shares (p - 1,) of a density between coordinates (p,) whose logarithm is linear there."""
    rise = np.diff(heights)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(np.abs(rise) < 1e-6, 1.0, np.expm1(rise) / rise)
    found = np.diff(at) * np.exp(heights[:-1]) * mean
    return found / found.sum()


def roughest(fit: Fit) -> list[int]:
    """Numbers whose errors are so large that they may not be normal, or that a bound holds; the worst first.

    Parameters
    ----------
    fit : Fit
        A fit that converged.
    """
    theta, slope = fit.descent.theta, fit.space.slope(fit.descent.theta)
    covariance, vague = covariance_at(fit)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(np.maximum(np.diagonal(covariance), 0.0)) / np.abs(slope)
        error = np.where(fit.space.log, error, error / np.abs(theta))
    error = np.where(vague | at_bounds(fit) | np.isnan(error), np.inf, error)
    worst = np.argsort(-error, kind="stable")[:_MOST]
    return [int(k) for k in worst if error[k] > _ROUGH]
