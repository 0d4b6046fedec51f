"""Second minima of a fit, beyond a ridge in the direction that the data determine least."""

import numpy as np

from fim_dynsys.estimation.descent import Outcome, descend
from fim_dynsys.estimation.fits import SAME, Fit, coarse_tolerance, joined, same_place
from fim_dynsys.estimation.summary import at_bounds, covariance_at

_CORRELATED = 0.05  # least eigenvalue of the correlations from which on numbers replace each other
_AWAY = (3.0, 5.0, 8.0, 13.0, 21.0)  # standard errors: a second minimum was 7 to 14 away
_FARTHEST = 2.3  # of a logarithm, a factor of ten; as many times a number that has none
_FLAT = 0.25  # of the rise of a parabola, below which a second minimum may be near
_HELD, _FREE = 30, 200  # iterations


def with_valley_followed(fit: Fit) -> Fit:
    """A fit of whole runs, with searches from beyond the ridges of its valley.

    Where numbers replace each other, the objective has a long valley, in which there may be a second minimum
    that starts from afar rarely lead to. The number with the largest part in it is held ever farther away,
    the others being fitted; where the objective falls again or hardly rises, a search begins.
    """
    along = _weakest(fit)
    if along is None:
        return fit
    begun = [theta for side in (-1.0, 1.0) if (theta := _beyond(fit, *along, side)) is not None]
    rtol = coarse_tolerance(fit.problem)
    searches = [descend(fit.problem.objective, theta, rtol, _FREE) for theta in begun]
    back = [same_place(s.theta[None], fit.descent.theta)[0] or not np.isfinite(s.value) for s in searches]
    new = [k for k, is_back in enumerate(back) if not is_back]  # the others say nothing new of the best one
    return joined(fit, [begun[k] for k in new], [searches[k] for k in new])


def _beyond(fit: Fit, number: int, direction: np.ndarray, side: float) -> np.ndarray | None:
    """Coordinates (q,) on one side of a minimum that may belong to another one; None where there are none."""
    space, objective, start = fit.space, fit.problem.objective, fit.descent
    size = 1.0 if space.log[number] else max(1.0, abs(start.theta[number]))
    held = np.arange(len(start.theta)) == number
    rtol, now, last = coarse_tolerance(fit.problem), start, 0.0
    for steps in _AWAY:
        theta, before = now.theta + side * (steps - last) * direction, now
        far = abs(steps * direction[number]) > _FARTHEST * size
        if far or not space.low[number] <= theta[number] <= space.high[number]:
            return None
        now, last = descend(objective, theta, rtol, _HELD, held), steps
        if not np.isfinite(now.value):
            return None
        if now.value < max(before.value - SAME, start.value + _FLAT * 0.5 * steps**2):
            return now.theta
    return None


def _weakest(fit: Fit) -> tuple[int, np.ndarray] | None:
    """The number with the largest part in the weakest direction, and how all (q,) move with its error.

    None where no numbers replace each other.
    """
    if fit.descent.outcome is not Outcome.CONVERGED:
        return None
    free = np.flatnonzero(~at_bounds(fit))
    slope = fit.space.slope(fit.descent.theta)[free]
    covariance = covariance_at(fit)[0][np.ix_(free, free)] / slope / slope[:, None]
    errors = np.sqrt(np.diagonal(covariance))
    if len(free) < 2 or not (np.isfinite(errors) & (errors > 0)).all():
        return None
    values, axes = np.linalg.eigh(covariance / errors / errors[:, None])
    if values[0] > _CORRELATED:
        return None
    number = int(np.argmax(np.abs(axes[:, -1])))
    direction = np.zeros(len(fit.descent.theta))
    direction[free] = covariance[number] / errors[number]
    return int(free[number]), direction
