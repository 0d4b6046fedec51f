"""Implicit steps for stiff systems: Radau IIA of order 5, with exact sensitivities."""

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled
from fim_dynsys.regression.kernels.explicit import norm, scales
from fim_dynsys.regression.kernels.programs import evaluate, linearise, load, tangents

# E. Hairer, G. Wanner, Solving ordinary differential equations II, section IV.8: Radau IIA of order 5
_ROOT = 6.0**0.5
NODES = np.array([(4 - _ROOT) / 10, (4 + _ROOT) / 10, 1.0])
MATRIX = np.array(
    [
        [(88 - 7 * _ROOT) / 360, (296 - 169 * _ROOT) / 1800, (-2 + 3 * _ROOT) / 225],
        [(296 + 169 * _ROOT) / 1800, (88 + 7 * _ROOT) / 360, (-2 - 3 * _ROOT) / 225],
        [(16 - _ROOT) / 36, (16 + _ROOT) / 36, 1 / 9],
    ]
)
ERROR = np.array([-13 - 7 * _ROOT, -13 + 7 * _ROOT, -1.0]) / 3.0
RATE = 3.0 + 3.0 ** (2 / 3) - 3.0 ** (1 / 3)  # real eigenvalue of the inverse matrix of the method
TABLE = np.vstack([NODES, MATRIX, ERROR])
"""Nodes, matrix and error weights: an argument of the kernels, whose loops are not to be unrolled."""
ITERATIONS = 10  # of Newton's method
_CLOSE = 1e-3  # of the tolerated error, left by them


@compiled
def factorise(a: np.ndarray, n: int, pivots: np.ndarray) -> bool:
    """LU factors of ``a`` (n, n) in place, rows exchanged as ``pivots`` says; False where it is singular."""
    for k in range(n):
        best, row = abs(a[k, k]), k
        for i in range(k + 1, n):
            if abs(a[i, k]) > best:
                best, row = abs(a[i, k]), i
        if not best > 0.0 or not np.isfinite(best):
            return False
        pivots[k] = row
        if row != k:
            for j in range(n):
                a[k, j], a[row, j] = a[row, j], a[k, j]
        inverse = 1.0 / a[k, k]
        for i in range(k + 1, n):
            factor = a[i, k] * inverse
            if factor != 0.0:
                for j in range(k + 1, n):
                    a[i, j] -= factor * a[k, j]
            a[i, k] = factor
    return True


@compiled
def solve(a: np.ndarray, n: int, pivots: np.ndarray, b: np.ndarray, columns: int) -> None:
    """Solve with the factors of `factorise` for ``columns`` right-hand sides ``b`` (n, ...), in place."""
    for k in range(n):
        row = pivots[k]
        if row != k:
            for j in range(columns):
                b[k, j], b[row, j] = b[row, j], b[k, j]
    for k in range(n):
        for i in range(k + 1, n):
            factor = a[i, k]
            if factor != 0.0:
                for j in range(columns):
                    b[i, j] -= factor * b[k, j]
    for k in range(n - 1, -1, -1):
        inverse = 1.0 / a[k, k]
        for j in range(columns):
            b[k, j] *= inverse
        for i in range(k):
            factor = a[i, k]
            if factor != 0.0:
                for j in range(columns):
                    b[i, j] -= factor * b[k, j]


@compiled
def implicit_step(
    machine: tuple,
    table: np.ndarray,
    t: float,
    step: float,
    x: np.ndarray,
    f0: np.ndarray,
    jac: np.ndarray,
    curve: np.ndarray,
    since: float,
    largest: np.ndarray,
    rtol: float,
    atol: np.ndarray,
    z: np.ndarray,
    y: np.ndarray,
) -> tuple[float, int]:
    """One step by simplified Newton iterations: the error, in units of the tolerated one, and iterations.

    An infinite error where they do not converge.

    Parameters
    ----------
    machine, table
        See `load` and `TABLE`.
    t, step : float
        Time and step.
    x, f0, jac : arrays (d,), (d,), (d, d)
        State, rates and Jacobian there.
    curve, since
        Cubics of the inputs, and the time since their start.
    largest, rtol, atol
        See `scales`.
    z, y : arrays (3 d, 1), (d,)
        Output: increments of the stages, and the next state.
    """
    d = len(x)
    m = 3 * d
    big, pivots = np.empty((m, m)), np.empty(m, np.int64)
    dz, fz, scale = np.empty((m, 1)), np.empty((3, d)), np.empty(d)
    for a in range(3):
        for b in range(3):
            factor = -step * table[1 + a, b]
            for i in range(d):
                for j in range(d):
                    big[a * d + i, b * d + j] = factor * jac[i, j]
    for i in range(m):
        big[i, i] += 1.0
        z[i, 0] = 0.0
    if not factorise(big, m, pivots):
        return np.inf, 0
    scales(x, x, largest, rtol, atol, scale)
    before, used, converged = 0.0, 0, False
    while used < ITERATIONS and not converged:
        for a in range(3):
            for i in range(d):
                y[i] = x[i] + z[a * d + i, 0]
            reached = table[0, a] * step
            load(machine, t + reached, y, curve, since + reached)
            if not evaluate(machine, fz[a]):
                return np.inf, used
        for a in range(3):
            for i in range(d):
                total = 0.0
                for b in range(3):
                    total += table[1 + a, b] * fz[b, i]
                dz[a * d + i, 0] = step * total - z[a * d + i, 0]
        solve(big, m, pivots, dz, 1)
        size = 0.0
        for i in range(m):
            z[i, 0] += dz[i, 0]
            ratio = dz[i, 0] / scale[i % d]
            size += ratio * ratio
        size = np.sqrt(size / m)
        used += 1
        if not np.isfinite(size):
            return np.inf, used
        if size < _CLOSE * _CLOSE:
            converged = True
        elif used > 1:
            ratio = size / before
            if ratio >= 1.0:
                return np.inf, used
            converged = ratio / (1.0 - ratio) * size < _CLOSE
        before = size
    if not converged:
        return np.inf, used
    small, error, rest = np.empty((d, d)), np.empty((d, 1)), np.empty(d)
    for i in range(d):
        for j in range(d):
            small[i, j] = -jac[i, j]
        small[i, i] += RATE / step
        total = 0.0
        for a in range(3):
            total += table[4, a] * z[a * d + i, 0]
        rest[i] = total / step
        error[i, 0] = f0[i] + rest[i]
        y[i] = x[i] + z[2 * d + i, 0]
    if not factorise(small, d, pivots):
        return np.inf, used
    solve(small, d, pivots, error, 1)
    scales(x, y, largest, rtol, atol, scale)
    size = norm(error[:, 0], scale)
    if size > 1.0:  # filtered once more: the first estimate is too large where the system is stiff
        for i in range(d):
            error[i, 0] += x[i]
        load(machine, t, error[:, 0], curve, since)
        if not evaluate(machine, fz[0]):
            return np.inf, used
        for i in range(d):
            error[i, 0] = fz[0, i] + rest[i]
        solve(small, d, pivots, error, 1)
        size = norm(error[:, 0], scale)
    return size, used


@compiled
def implicit_slopes(
    machine: tuple,
    table: np.ndarray,
    t: float,
    step: float,
    x: np.ndarray,
    z: np.ndarray,
    curve: np.ndarray,
    since: float,
    column: np.ndarray,
    s: np.ndarray,
    f0: np.ndarray,
    jac: np.ndarray,
) -> bool:
    """Sensitivities (d, n) after an accepted step, in place; rates and Jacobian at its end.

    The linear system has the exact Jacobians at the stages. False where it is singular.
    """
    d, n = s.shape
    m = 3 * d
    big, pivots = np.empty((m, m)), np.empty(m, np.int64)
    y, along, w = np.empty(d), np.zeros((3, d, n)), np.empty((m, n))
    for b in range(3):
        for i in range(d):
            y[i] = x[i] + z[b * d + i, 0]
        reached = table[0, b] * step
        load(machine, t + reached, y, curve, since + reached)
        linearise(machine, f0, jac)
        tangents(machine, jac, s, column, along[b])
        for a in range(3):
            factor = -step * table[1 + a, b]
            for i in range(d):
                for j in range(d):
                    big[a * d + i, b * d + j] = factor * jac[i, j]
    if n == 0:
        return True
    for a in range(3):
        for i in range(d):
            big[a * d + i, a * d + i] += 1.0
            for c in range(n):
                total = 0.0
                for b in range(3):
                    total += table[1 + a, b] * along[b, i, c]
                w[a * d + i, c] = step * total
    if not factorise(big, m, pivots):
        return False
    solve(big, m, pivots, w, n)
    for i in range(d):
        for c in range(n):
            s[i, c] += w[2 * d + i, c]
    return True
