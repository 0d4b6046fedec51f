"""Inputs between their samples: cubics by which integrations follow them."""

import numpy as np


def cubics(t: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Akima's interpolation of values (n, m) at increasing times (n,): array (n - 1, 4, m).

    ``[k, j]`` is the coefficient of the j-th power of the fraction of interval k that has gone by. A step
    stays a step without overshooting; smooth inputs are followed to third order; two samples, by a line.

    References
    ----------
    H. Akima, A new method of interpolation and smooth curve fitting based on local procedures, J. ACM 17
    (1970) 589, eq. 1 and 8-9.
    """
    gaps = np.diff(t)[:, None]
    secants = np.diff(u, axis=0) / gaps
    if len(secants) == 1:
        slopes = np.repeat(secants, 2, axis=0)
    else:
        before = [2.0 * secants[0] - secants[1]]
        before.insert(0, 2.0 * before[0] - secants[0])
        after = [2.0 * secants[-1] - secants[-2]]
        after.append(2.0 * after[0] - secants[-1])
        secants = np.concatenate([before, secants, after])
        bends = np.abs(np.diff(secants, axis=0))
        left, right = bends[2:], bends[:-2]  # each weighs the secant of the other side
        total = left + right
        flat = total <= 1e-9 * total.max(initial=0.0)
        weight = np.where(flat, 0.5, left / np.where(flat, 1.0, total))
        slopes = weight * secants[1:-2] + (1.0 - weight) * secants[2:-1]
    rise, first, last = np.diff(u, axis=0), slopes[:-1] * gaps, slopes[1:] * gaps
    return np.stack([u[:-1], first, 3.0 * rise - 2.0 * first - last, first + last - 2.0 * rise], axis=1)


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
