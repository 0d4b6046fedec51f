"""Likelihood profiles: the best fit at each value of a parameter, and the intervals that they give."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fim_dynsys.estimation.descent import descend
from fim_dynsys.estimation.fits import TOLERANCE, Fit

LEVELS = (0.68, 0.9, 0.95)
"""Shares of repetitions in which an interval is to hold the truth."""

_POINTS = 60  # of each side at most
_FIRST = 0.3  # standard errors, of the first step
_RISE = 0.4  # log-likelihood units that a step is to add
_LONGEST = 2.0  # of a step, in logarithms
_FARTHEST = 20.0  # the same, from the best fit and the natural size: no interval ends beyond
_ITERATIONS = 30  # from the neighbouring point of the profile
_LOWER = 1e-2  # log-likelihood units: a better minimum than the fit


@dataclass(frozen=True, eq=False)
class Profile:
    """The best objective at each value of one parameter.

    Attributes
    ----------
    name : str
        Of the parameter.
    values : array (p,)
        Increasing values, in its own units.
    rises : array (p,)
        How much the objective, minus the log-likelihood, is above that of the fit.
    others : array (p, q)
        All estimated numbers there, in their own units.
    best : float
        Value of the fit.
    intervals : dict of float to (low, high)
        By level. An end is open where the profile does not rise enough: it is the bound, 0 for a number that
        is positive, or infinite where there is none.
    thresholds : dict of float to float
        Rise at which each interval ends.
    lower : float
        By how much the profile met a better minimum than the fit; 0 where it met none.
    bounds : (float, float)
        Where open ends are.
    """

    name: str
    values: np.ndarray
    rises: np.ndarray
    others: np.ndarray
    best: float
    intervals: dict[float, tuple[float, float]]
    thresholds: dict[float, float]
    lower: float
    bounds: tuple[float, float] = (-np.inf, np.inf)

    @property
    def is_open(self) -> tuple[bool, bool]:
        """Whether the widest interval has no lower end, and no upper one."""
        low, high = self.intervals[max(self.intervals)]
        return low == self.bounds[0], high == self.bounds[1]

    def __repr__(self) -> str:
        rows = [f"profile of {self.name}, best {self.best:.4g}"]
        for level, (low, high) in sorted(self.intervals.items()):
            ends = [f"{v:.4g}" for v in (low, high)]
            for side, bound in enumerate(self.bounds):
                if (low, high)[side] == bound:
                    ends[side] = "open" if np.isinf(bound) else f"open ({bound:.4g})"
            rows.append(f"  {100 * level:.0f} %: {ends[0]} to {ends[1]}")
        if self.lower:
            rows.append(
                f"  the profile met a minimum that is better by {self.lower:.2g} log-likelihood units"
            )
        return "\n".join(rows)


def thresholds(fit: Fit, levels: tuple[float, ...] = LEVELS) -> dict[float, float]:
    """Rises of the objective at which intervals end.

    Half a quantile of chi squared; where the scales of the errors are estimated, that of Student's t, by
    which the profile of a linear model is exact. Infinite where nothing tells the size of the errors.

    References
    ----------
    D. M. Bates, D. G. Watts, Nonlinear regression analysis and its applications (1988), section 6.1.
    """
    from scipy.stats import chi2, t

    n = int(fit.problem.errors_are_estimated.sum())
    free = n - fit.problem.n_of_paths
    if fit.problem.is_saturated():
        return dict.fromkeys(levels, np.inf)
    if n and free > 0:
        return {v: 0.5 * n * float(np.log1p(t.ppf(0.5 + 0.5 * v, free) ** 2 / free)) for v in levels}
    return {v: 0.5 * float(chi2.ppf(v, 1)) for v in levels}


def checked_levels(caller: str, levels: float | Sequence[float]) -> tuple[float, ...]:
    """Levels of intervals, of one number too.

    Raises
    ------
    ValueError
        Unless there are some, all of them between 0 and 1.
    """
    try:
        found = tuple(map(float, np.atleast_1d(np.asarray(levels, dtype=float))))
    except (TypeError, ValueError):
        found = ()
    if not found or not all(0.0 < level < 1.0 for level in found):
        raise ValueError(
            f"{caller}: expected levels between 0 and 1, such as [0.68, 0.95], got {levels!r}; give per cent "
            "as shares."
        )
    return found


def profile(fit: Fit, name: str, levels: float | Sequence[float] = LEVELS) -> Profile:
    """The profile of one estimated number.

    Parameters
    ----------
    fit : Fit
        A fit that converged.
    name : str
        Of the number.
    levels : float or sequence of float
        Of the intervals, each between 0 and 1.

    Raises
    ------
    ValueError
        For a name that was not estimated, and for other levels.

    References
    ----------
    A. Raue et al., Structural and practical identifiability analysis of partially observed dynamical models
    by exploiting the profile likelihood, Bioinformatics 25 (2009) 1923.
    """
    space = fit.space
    if name not in space.names:
        raise ValueError(f"profile: expected one of {', '.join(space.names)}, got {name!r}.")
    k = space.names.index(name)
    limits = thresholds(fit, checked_levels("profile", levels))
    top = max(limits.values())
    below, above = (profile_side(fit, k, sign, top) for sign in (-1.0, 1.0))
    thetas = np.array(
        [*(theta for theta, _ in below[::-1]), fit.descent.theta, *(theta for theta, _ in above)]
    )
    rises = np.array([*(rise for _, rise in below[::-1]), 0.0, *(rise for _, rise in above)])
    at = len(below)
    bounds = (float(space.natural_low[k]), float(space.natural_high[k]))
    bounds = (max(bounds[0], 0.0), bounds[1]) if space.log[k] else bounds
    intervals = {}
    for level, limit in limits.items():
        ends = list(bounds)
        for number, side in enumerate((slice(at, None, -1), slice(at, None))):
            coordinate = _end(thetas[side, k], rises[side], limit)
            if np.isfinite(coordinate):
                theta = fit.descent.theta.copy()
                theta[k] = coordinate
                ends[number] = float(space.natural(theta)[k])
        intervals[level] = (ends[0], ends[1])
    others = np.array([space.natural(theta) for theta in thetas])
    lower = -float(min(rises.min(), 0.0))
    return Profile(
        name,
        others[:, k],
        rises,
        others,
        float(fit.natural[k]),
        intervals,
        limits,
        lower if lower > _LOWER else 0.0,
        bounds,
    )


def profile_side(fit: Fit, k: int, sign: float, top: float) -> list[tuple[np.ndarray, float]]:
    """Coordinates and rises of one side of a number's profile, away from the fit, until these exceed ``top``.

    Parameters
    ----------
    fit : Fit
        Where it begins.
    k : int
        Of the number.
    sign : float
        -1 for smaller values, 1 for larger ones.
    top : float
        Log-likelihood units.
    """
    objective, space = fit.problem.objective, fit.space
    best = fit.descent.value
    held = np.zeros(len(space), dtype=bool)
    held[k] = True
    bound = space.high[k] if sign > 0 else space.low[k]
    now, before = fit.descent, None
    step = _FIRST * _error(fit, k)
    found: list[tuple[np.ndarray, float]] = []
    rise = 0.0
    while len(found) < _POINTS:
        here = abs(now.theta[k])
        size = 1.0 if space.log[k] else max(here, 1e-3)
        step = min(step, _longest(now.theta[k], sign, space.log[k]))
        at = now.theta[k] + sign * step
        at = min(at, bound) if sign > 0 else max(at, bound)
        if at == now.theta[k] or not np.isfinite(at) or _is_beyond(fit, k, at):
            break
        start = _ahead(fit, now.theta, None if before is None else before.theta, k, at)
        trial = descend(objective, start, TOLERANCE, _ITERATIONS, held, decrement=1e-5)
        gained = trial.value - best - rise
        if not np.isfinite(trial.value) or (gained > 4.0 * _RISE and step > 1e-3 * min(_error(fit, k), size)):
            step *= 0.4
            if step < 1e-6 * max(here, 1.0):
                break
            continue
        before, now, rise = now, trial, trial.value - best
        found.append((trial.theta, rise))
        if rise > top:
            break
        step *= float(np.clip(_RISE / max(gained, 1e-9), 0.5, 2.0))
    return found


def _longest(now: float, sign: float, log: bool) -> float:
    """The longest step from a coordinate; towards 0 from beyond the natural size it is a factor."""
    if log:
        return _LONGEST
    return abs(now) * (1.0 - np.exp(-_LONGEST)) if now * sign < -1.0 else np.inf


def _ahead(fit: Fit, now: np.ndarray, before: np.ndarray | None, k: int, at: float) -> np.ndarray:
    """Coordinates (q,) to begin from at the next value: of those that a ridge may lead to, the best."""
    plain = now.copy()
    plain[k] = at
    if before is None or now[k] == before[k]:
        return plain
    share = (at - now[k]) / (now[k] - before[k])
    straight = now + share * (now - before)
    straight[k] = at
    tried = [plain, straight]
    with np.errstate(all="ignore"):
        power = share if fit.space.log[k] else np.log(at / now[k]) / np.log(now[k] / before[k])
        ratios = np.where(fit.space.log, 1.0, now / before)
        bent = np.where(ratios > 0.0, now * np.maximum(ratios, 1e-300) ** power, straight)
    bent = np.where(fit.space.log, straight, bent)
    bent[k] = at
    if np.isfinite(bent).all():
        tried.append(bent)
    starts = fit.space.inside(np.array(tried))
    values = fit.problem.objective.values(starts, TOLERANCE)
    return starts[int(np.argmin(np.where(np.isfinite(values), values, np.inf)))]


def _error(fit: Fit, k: int) -> float:
    """Standard error of a coordinate, at most its size."""
    matrix = fit.descent.evaluation.curvature
    size = 1.0 if fit.space.log[k] else max(abs(fit.descent.theta[k]), 1e-3)
    scale = np.sqrt(np.maximum(np.diagonal(matrix), 1e-300))
    inverse = np.linalg.pinv(matrix / scale / scale[:, None], rcond=1e-12, hermitian=True)
    error = float(np.sqrt(max(inverse[k, k], 0.0)) / scale[k])
    return min(error, size) if np.isfinite(error) and error > 0 else 0.1 * size


def _is_beyond(fit: Fit, k: int, at: float) -> bool:
    """Whether a coordinate is so far from the fit that no interval ends there."""
    best, log = fit.descent.theta[k], fit.space.log[k]
    if not log:
        return abs(at - best) > 1e6 * max(abs(best), 1.0)
    low, high = sorted((best, float(np.log(fit.space.size[k]))))
    return at < low - _FARTHEST or at > high + _FARTHEST


def _end(coordinates: np.ndarray, rises: np.ndarray, limit: float) -> float:
    """Where a side first rises beyond a limit; infinite where it does not."""
    beyond = np.flatnonzero(rises > limit)
    if not len(beyond):
        return np.inf
    j = int(beyond[0])
    # a profile is about a parabola: its root is about a line
    a, b = np.sqrt(np.maximum(rises[j - 1 : j + 1], 0.0))
    share = (np.sqrt(limit) - a) / (b - a) if b > a else 1.0
    return float(coordinates[j - 1] + share * (coordinates[j] - coordinates[j - 1]))
