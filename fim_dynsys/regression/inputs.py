"""Inputs between their samples: cubics by which integrations follow them."""

from typing import NamedTuple

import numpy as np

_FEW = 8  # samples


class Curves(NamedTuple):
    """Inputs between their samples."""

    cubics: np.ndarray  # (n - 1, 4, m) coefficients of powers of the fraction of each interval gone by
    error: np.ndarray  # (m,) by how much they may be off, root mean square


def curves(t: np.ndarray, u: np.ndarray) -> Curves:
    """Interpolation of values (n, m) at increasing times (n,).

    A cubic spline, or Akima's cubics where these predict every second sample better from the others, as of
    steps, at which a spline overshoots; lines where there are fewer than eight samples. The error is that at
    the samples left out, times 2^-3 for the wider gaps.

    References
    ----------
    H. Akima, A new method of interpolation and smooth curve fitting based on local procedures, J. ACM 17
    (1970) 589.
    """
    if len(t) < _FEW or not u.shape[1]:
        rise = np.diff(u, axis=0)
        lines = np.stack([u[:-1], rise, np.zeros_like(rise), np.zeros_like(rise)], axis=1)
        return Curves(lines, np.zeros(u.shape[1]))
    from scipy.interpolate import Akima1DInterpolator, CubicSpline  # deferred: fits without inputs need none

    kinds = (CubicSpline, Akima1DInterpolator)
    left = np.stack([u[1:-1:2] - kind(t[::2], u[::2])(t[1:-1:2]) for kind in kinds])
    errors = np.sqrt(np.nanmean(left**2, axis=1))
    gaps = np.diff(t)[:, None, None]
    found = [kind(t, u).c.transpose(1, 0, 2)[:, ::-1] * gaps ** np.arange(4)[:, None] for kind in kinds]
    better = errors[1] < errors[0]
    return Curves(np.ascontiguousarray(np.where(better, found[1], found[0])), errors.min(axis=0) / 8.0)


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
