"""Local cubic fits in Gaussian windows, compiled: the inner loops of `smoothing.local_cubic`."""

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled, inlined

_ROWS = 16  # evaluation times taken together: the compiler makes vectors of loops over them


@compiled
def _first_not_below(t: np.ndarray, value: float) -> int:
    """Place of the first of increasing times that is not below a value; numba's own is slow to compile."""
    low, high = 0, len(t)
    while low < high:
        middle = (low + high) // 2
        if t[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def neighbour_distances(t: np.ndarray, s: np.ndarray, rank: int) -> np.ndarray:
    """Distance from each time of ``s`` (k,) to its ``rank``-th nearest in increasing ``t`` (n,)."""
    n = len(t)
    rank = min(rank, n)
    out = np.empty(len(s))
    for k in range(len(s)):
        place = _first_not_below(t, s[k])
        nearest = np.inf
        # the `rank` nearest are consecutive: the best run has the smallest larger end
        for first in range(max(place - rank, 0), min(place, n - rank) + 1):
            nearest = min(nearest, max(abs(t[first] - s[k]), abs(t[first + rank - 1] - s[k])))
        out[k] = nearest
    return out


@compiled
def window_fits(
    t: np.ndarray, x: np.ndarray, s: np.ndarray, h: np.ndarray, reach: float, ridge: float
) -> tuple[np.ndarray, np.ndarray]:
    """Values and slopes of cubics fitted in windows round given times.

    Parameters
    ----------
    t : array (n,)
        Increasing times.
    x : array (n, d)
        Samples.
    s : array (k,)
        Increasing evaluation times.
    h : array (W, k)
        Standard deviations of the windows, positive.
    reach : float
        Windows are cut at so many standard deviations.
    ridge : float
        Added to each normal matrix, times its mean diagonal.

    Returns
    -------
    values, slopes : arrays (W, k, d)
    """
    n, d = x.shape
    widths, k = h.shape
    values, slopes = np.empty((widths, k, d)), np.empty((widths, k, d))
    centre, inverse = np.empty(_ROWS), np.empty(_ROWS)
    products, moments, targets = np.empty((4, _ROWS)), np.empty((7, _ROWS)), np.empty((d, 4, _ROWS))
    own, factor, cubic = np.empty(7), np.empty((4, 4)), np.empty(4)
    for w in range(widths):
        for first in range(0, k, _ROWS):
            count = min(_ROWS, k - first)
            low, high = np.inf, -np.inf
            for r in range(_ROWS):
                row = first + min(r, count - 1)
                centre[r], inverse[r] = s[row], 1.0 / h[w, row]
                low = min(low, s[row] - reach * h[w, row])
                high = max(high, s[row] + reach * h[w, row])
            for r in range(_ROWS):
                for power in range(7):
                    moments[power, r] = 0.0
                for i in range(d):
                    for power in range(4):
                        targets[i, power, r] = 0.0
            for j in range(_first_not_below(t, low), n):
                if t[j] > high:
                    break
                _add_moments(t[j], centre, inverse, reach, products, moments)
                for i in range(d):
                    sample = x[j, i]
                    for power in range(4):
                        for r in range(_ROWS):
                            targets[i, power, r] += products[power, r] * sample
            for r in range(count):
                for power in range(7):
                    own[power] = moments[power, r]
                _factorise(own, ridge, factor)
                for i in range(d):
                    for power in range(4):
                        cubic[power] = targets[i, power, r]
                    _solve(factor, cubic)
                    values[w, first + r, i] = cubic[0]
                    slopes[w, first + r, i] = cubic[1] * inverse[r]
    return values, slopes


@inlined
def _add_moments(
    time: float,
    centre: np.ndarray,
    inverse: np.ndarray,
    reach: float,
    products: np.ndarray,
    moments: np.ndarray,
) -> None:
    """Add one time's ``w u^p``, p = 0..6, to the moments of all rows; keep those of p = 0..3.

    The weight ``w = exp(-u^2 / 2)`` is the Taylor series of degree 6 at 1/1024 of its exponent, squared ten
    times: relative error below 1e-13 where w > 1e-4 and 5e-11 at a reach of 9, in arithmetic that compiles to
    vector instructions.
    """
    for r in range(_ROWS):
        u = (time - centre[r]) * inverse[r]
        u2 = u * u
        z = u2 * (-0.5 / 1024.0)
        e = 1.0 / 120.0 + z * (1.0 / 720.0)
        e = 1.0 + z * (1.0 + z * (0.5 + z * (1.0 / 6.0 + z * (1.0 / 24.0 + z * e))))
        e *= e
        e *= e
        e *= e
        e *= e
        e *= e
        e *= e
        e *= e
        e *= e
        e *= e
        e *= e
        w = e if abs(u) <= reach else 0.0
        w1, w2 = w * u, w * u2
        w3, w4 = w1 * u2, w2 * u2
        products[0, r] = w
        products[1, r] = w1
        products[2, r] = w2
        products[3, r] = w3
        moments[0, r] += w
        moments[1, r] += w1
        moments[2, r] += w2
        moments[3, r] += w3
        moments[4, r] += w4
        moments[5, r] += w3 * u2
        moments[6, r] += w4 * u2


@inlined
def _factorise(m: np.ndarray, ridge: float, factor: np.ndarray) -> None:
    """L D L^T of the 4 x 4 Hankel matrix of moments 0..6 with a ridge: below the diagonal of ``factor`` L,
    on it 1 / D.

    Explicit inverses lose all digits where two samples must do for four coefficients.
    """
    extra = ridge * (m[0] + m[2] + m[4] + m[6]) / 4.0
    for i in range(4):
        for j in range(i + 1):
            value = m[i + j] + (extra if i == j else 0.0)
            for k in range(j):
                value -= factor[i, k] * factor[j, k] / factor[k, k]
            factor[i, j] = 1.0 / value if i == j else value * factor[j, j]


@inlined
def _solve(factor: np.ndarray, right: np.ndarray) -> None:
    """Solve in place for the coefficients (4,)."""
    for i in range(1, 4):
        for k in range(i):
            right[i] -= factor[i, k] * right[k]
    for i in range(3, -1, -1):
        right[i] *= factor[i, i]
        for k in range(i + 1, 4):
            right[i] -= factor[k, i] * right[k]
