"""Compiled smoothing splines."""

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled


@compiled
def group_starts(t: np.ndarray, shortest: float) -> np.ndarray:
    """First of the increasing times (n,), then the next that is later by ``shortest`` or more, and so on."""
    first, n = np.empty(len(t), np.intp), 0
    for k in range(len(t)):
        if n == 0 or t[k] >= t[first[n - 1]] + shortest:
            first[n] = k
            n += 1
    return first[:n].copy()


@compiled
def solve_pentadiagonal(bands: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solution (n, k) of a positive definite system of bandwidth two.

    Parameters
    ----------
    bands : array (3, n)
        Second and first superdiagonal, and diagonal, as `scipy.linalg.solveh_banded` takes them.
    right : array (n, k)
        Right-hand sides.

    Raises
    ------
    ValueError
        If the matrix is not positive definite to rounding.
    """
    n, k = right.shape
    diagonal, first, second = np.empty(n), np.zeros(n), np.zeros(n)  # L D L^T, subdiagonals of L
    out = right.copy()
    for i in range(n):
        value = bands[2, i]
        if i > 0:
            off = bands[1, i]
            if i > 1:
                second[i] = bands[0, i] / diagonal[i - 2]
                off -= second[i] * diagonal[i - 2] * first[i - 1]
                value -= second[i] * second[i] * diagonal[i - 2]
            first[i] = off / diagonal[i - 1]
            value -= first[i] * first[i] * diagonal[i - 1]
        if not value > 0.0:
            raise ValueError("solve_pentadiagonal: expected a positive definite matrix.")
        diagonal[i] = value
        for c in range(k):
            if i > 0:
                out[i, c] -= first[i] * out[i - 1, c]
            if i > 1:
                out[i, c] -= second[i] * out[i - 2, c]
    for i in range(n - 1, -1, -1):
        for c in range(k):
            out[i, c] /= diagonal[i]
            if i + 1 < n:
                out[i, c] -= first[i + 1] * out[i + 1, c]
            if i + 2 < n:
                out[i, c] -= second[i + 2] * out[i + 2, c]
    return out


@compiled
def spline_fit(
    differences: tuple[np.ndarray, np.ndarray, np.ndarray],
    curvature: np.ndarray,
    roughness: np.ndarray,
    inverse_weights: np.ndarray,
    y: np.ndarray,
    penalty: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Values and second derivatives (n, k) of natural smoothing splines at their knots.

    Parameters
    ----------
    differences : tuple of three arrays (n - 2,)
        Weights of a knot's left neighbour, of itself and of its right neighbour in its second difference.
    curvature, roughness : arrays (3, n - 2)
        Bands whose sum, the second times ``penalty``, is the system's matrix; see `solve_pentadiagonal`.
    inverse_weights : array (n,)
        Noise variances.
    y : array (n, k)
        Data, one spline per column.
    penalty : float
        Of the squared second derivatives.

    References
    ----------
    P. J. Green, B. W. Silverman, Nonparametric Regression and Generalized Linear Models (1994), sect. 2.3.3.
    """
    (n, k), (left, middle, right) = y.shape, differences
    load = np.empty((n - 2, k))
    for i in range(n - 2):
        for c in range(k):
            load[i, c] = left[i] * y[i, c] + middle[i] * y[i + 1, c] + right[i] * y[i + 2, c]
    inner = solve_pentadiagonal(curvature + penalty * roughness, load)
    values, second, pull = np.empty((n, k)), np.zeros((n, k)), np.zeros((n, k))
    for i in range(n - 3, -1, -1):
        for c in range(k):
            second[i + 1, c] = inner[i, c]
            pull[i, c] += left[i] * inner[i, c]
            pull[i + 1, c] += middle[i] * inner[i, c]
            pull[i + 2, c] += right[i] * inner[i, c]
    for i in range(n):
        for c in range(k):
            values[i, c] = y[i, c] - penalty * inverse_weights[i] * pull[i, c]
    return values, second
