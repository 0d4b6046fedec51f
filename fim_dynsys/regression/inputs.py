"""Inputs between their samples: cubics by which integrations follow them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fim_dynsys.trajectories.holding import Hold

_FEW = 8  # samples
_HELD = 0.5  # of the gaps between samples: an input that stays exactly the same in so many has plateaus
_DIRECT = 0.8  # of its changes that lead from one plateau to the next at once: it jumps
_FEW_LEVELS = 3  # different values, and each four times in the mean: a switch
_SUDDEN = 8.0  # times the change in the gaps beside it, and in most gaps: noise alone reaches half of that
_CLOSE = 0.2  # of the usual gap
_ROUNDING = 1e-9  # of scaled inputs, by which a curve through samples may miss them
_UNPREDICTED = 0.7  # of its standard deviation by which neighbours miss a sample: no curve goes through these


class Inputs(NamedTuple):
    """Inputs at the samples of several records."""

    values: Sequence[np.ndarray]  # (n, m) each
    hold: Hold = Hold.AUTO


class Curves(NamedTuple):
    """Inputs between their samples."""

    cubics: np.ndarray  # (n - 1, 4, m) coefficients of powers of the fraction of each interval gone by
    error: np.ndarray  # (m,) by how much they may be off, root mean square
    hold: tuple[Hold, ...]  # (m,) what was taken for each of them
    sure: np.ndarray  # (m,) bool: given, or plain to see


def curves(t: np.ndarray, u: np.ndarray, hold: Hold = Hold.AUTO) -> Curves:
    """Interpolation of values (n, m) at increasing times (n,).

    Smooth inputs follow a cubic spline, or Akima's cubics where these predict every second sample better from
    the others; lines where there are fewer than eight samples. The error is that at the samples left out,
    times 2^-3 for the wider gaps. Inputs that are held, or go along lines, have no error.

    ``Hold.AUTO`` takes as held what has two or three values, or jumps from plateau to plateau; as lines what
    has plateaus with ramps between them. It is not sure where neighbours tell nothing of a sample, or where
    an input changes suddenly that is smooth elsewhere.

    References
    ----------
    H. Akima, A new method of interpolation and smooth curve fitting based on local procedures, J. ACM 17
    (1970) 589.
    """
    n_inputs = u.shape[1]
    rise = np.diff(u, axis=0)
    nothing = np.zeros_like(rise)
    held = np.stack([u[:-1], nothing, nothing, nothing], axis=1)
    lines = np.stack([u[:-1], rise, nothing, nothing], axis=1)
    if hold in (Hold.PREVIOUS, Hold.LINEAR) or not n_inputs:
        chosen = held if hold == Hold.PREVIOUS else lines
        return Curves(chosen, np.zeros(n_inputs), (hold,) * n_inputs, np.ones(n_inputs, dtype=bool))
    kinds = held_as(t, u, hold)
    found, error, sure = lines, np.zeros(n_inputs), np.ones(n_inputs, dtype=bool)
    smooth = np.array([kind == Hold.SMOOTH for kind in kinds])
    if len(t) >= _FEW and smooth.any():
        found, error = _splines(t, u)
        found = np.where(smooth, found, lines)
        error = np.where(smooth, error, 0.0)
        # nothing predicts its samples: it may as well be held, or go along lines
        predicted = 8.0 * error <= _UNPREDICTED * np.std(u, axis=0)
        sure = ~smooth | (hold == Hold.SMOOTH) | (predicted & ~_leaps(t, u))
    found = np.where([kind == Hold.PREVIOUS for kind in kinds], held, found)
    return Curves(np.ascontiguousarray(found), error, kinds, sure)


def kinks(t: np.ndarray, u: np.ndarray, hold: Hold = Hold.AUTO) -> np.ndarray:
    """Samples (n,) at which inputs (n, m) jump, and rates of states with them."""
    jumps = np.array([kind == Hold.PREVIOUS for kind in held_as(t, u, hold)], dtype=bool)
    changed = (np.diff(u, axis=0, prepend=u[:1]) != 0.0) & jumps
    return changed.any(axis=1)


def jumps(cubics: np.ndarray) -> np.ndarray:
    """Samples (n,) at which cubics (n - 1, 4, m) between them jump."""
    ends, begins = cubics.sum(axis=1)[:-1], cubics[1:, 0]
    apart = np.abs(ends - begins) > _ROUNDING * (1.0 + np.abs(begins))
    return np.pad(apart.any(axis=1), 1)


def held_as(t: np.ndarray, u: np.ndarray, hold: Hold) -> tuple[Hold, ...]:
    """What each of the inputs (n, m) does between its samples, recognised where that is left open."""
    return tuple(_recognised(t, column) if hold == Hold.AUTO else hold for column in u.T)


def _splines(t: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cubics (n - 1, 4, m) through samples and errors (m,), by the better of two interpolations for each."""
    from scipy.interpolate import Akima1DInterpolator, CubicSpline  # deferred: fits without inputs need none

    kinds = (CubicSpline, Akima1DInterpolator)
    missed = np.stack([u[1:-1:2] - kind(t[::2], u[::2])(t[1:-1:2]) for kind in kinds])
    errors = np.sqrt(np.nanmean(missed**2, axis=1))
    gaps = np.diff(t)[:, None, None]
    found = [kind(t, u).c.transpose(1, 0, 2)[:, ::-1] * gaps ** np.arange(4)[:, None] for kind in kinds]
    return np.where(errors[1] < errors[0], found[1], found[0]), errors.min(axis=0) / 8.0


def _recognised(t: np.ndarray, u: np.ndarray) -> Hold:
    """What one input (n,) does between its samples."""
    change = np.diff(u) != 0.0
    if len(u) < 3 or not change.any():
        return Hold.SMOOTH
    if len(np.unique(u)) <= min(_FEW_LEVELS, len(u) // 4):
        return Hold.PREVIOUS
    if np.mean(~change) < _HELD:
        return Hold.SMOOTH
    inner = np.flatnonzero(change[1:-1]) + 1
    direct = ~change[inner - 1] & ~change[inner + 1]
    return Hold.PREVIOUS if not len(inner) or direct.mean() >= _DIRECT else Hold.LINEAR


def _leaps(t: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Whether each input (n, m) changes somewhere by far more than just before, just after and mostly.

    A step between two samples close to each other is known well enough.
    """
    gaps = np.diff(t)[:, None]
    speed = np.abs(np.diff(u, axis=0)) / gaps
    usual = np.maximum(np.maximum(speed[:-2], speed[2:]), np.median(speed, axis=0))
    wide = gaps[1:-1] > _CLOSE * np.median(gaps)
    return (wide & (speed[1:-1] > _SUDDEN * usual)).any(axis=0)


def at(curves: np.ndarray, fraction: float | np.ndarray) -> np.ndarray:
    """Values (n, m) of cubics (n, 4, m) at fractions () or (n,) of their intervals."""
    s = np.asarray(fraction, dtype=np.float64)[..., None]
    return curves[:, 0] + s * (curves[:, 1] + s * (curves[:, 2] + s * curves[:, 3]))


def divided(curves: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """The same curves over equal parts of their intervals, ``parts`` (n,) of each: array (sum, 4, m)."""
    width = np.repeat(1.0 / parts, parts)[:, None]
    first = np.concatenate([[0], np.cumsum(parts)[:-1]])
    s = (np.arange(int(parts.sum())) - np.repeat(first, parts))[:, None] * width
    whole = np.repeat(curves, parts, axis=0)
    slope = whole[:, 1] + s * (2.0 * whole[:, 2] + 3.0 * s * whole[:, 3])
    bend = whole[:, 2] + 3.0 * s * whole[:, 3]
    value = whole[:, 0] + s * (whole[:, 1] + s * (whole[:, 2] + s * whole[:, 3]))
    return np.stack([value, slope * width, bend * width**2, whole[:, 3] * width**3], axis=1)
