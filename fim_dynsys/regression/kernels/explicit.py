"""Explicit steps of order 5 with an error estimate of order 4, and exact sensitivities."""

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled
from fim_dynsys.regression.kernels.programs import evaluate, linearise, load, tangents

_SMALL_STATE = 1e-3  # of its largest value: below, the error is not relative to the value itself
_ROUNDING = 1e-16  # of the largest of all states: what sums of states lose

# J. R. Dormand, P. J. Prince, J. Comput. Appl. Math. 6 (1980) 19: RK5(4)7M; nodes, matrix, error weights
TABLE = np.array(
    [
        [0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1],
        [0, 0, 0, 0, 0, 0, 0],
        [1 / 5, 0, 0, 0, 0, 0, 0],
        [3 / 40, 9 / 40, 0, 0, 0, 0, 0],
        [44 / 45, -56 / 15, 32 / 9, 0, 0, 0, 0],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0, 0],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0, 0],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0],
        [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40],
    ]
)
"""An argument of the kernels, whose loops are not to be unrolled."""


@compiled
def norm(error: np.ndarray, scale: np.ndarray) -> float:
    """Root mean square of errors (d,) in units of those tolerated (d,)."""
    total = 0.0
    for i in range(len(scale)):
        ratio = error[i] / scale[i]
        total += ratio * ratio
    return np.sqrt(total / len(scale))


@compiled
def scales(
    x: np.ndarray, y: np.ndarray, largest: np.ndarray, rtol: float, atol: np.ndarray, scale: np.ndarray
) -> None:
    """Tolerated errors (d,) of a step from x to y, where ``largest`` (d,) are the largest values so far.

    They are relative to each state, to a thousandth of its largest value where that is more.
    """
    d, top = len(x), 0.0
    for i in range(d):
        top = max(top, largest[i])
    for i in range(d):
        size = max(abs(x[i]), abs(y[i]), _SMALL_STATE * largest[i])
        scale[i] = rtol * size + _ROUNDING * top + atol[i]


@compiled
def explicit_step(
    machine: tuple,
    table: np.ndarray,
    t: float,
    step: float,
    x: np.ndarray,
    curve: np.ndarray,
    since: float,
    k: np.ndarray,
    stages: np.ndarray,
    error: np.ndarray,
) -> bool:
    """One step; False where a stage is not finite.

    Parameters
    ----------
    machine, table
        See `load` and `TABLE`.
    t, step : float
        Time and step.
    x : array (d,)
        State.
    curve, since
        Cubics of the inputs, and the time since their start.
    k : array (7, d)
        Rates at the stages, the first of them given.
    stages : array (7, d)
        Output: states at the stages, the last is the next state.
    error : array (d,)
        Output.
    """
    d = len(x)
    for i in range(d):
        stages[0, i] = x[i]
    for a in range(1, 7):
        for i in range(d):
            total = 0.0
            for b in range(a):
                total += table[1 + a, b] * k[b, i]
            stages[a, i] = x[i] + step * total
        reached = table[0, a] * step
        load(machine, t + reached, stages[a], curve, since + reached)
        if not evaluate(machine, k[a]):
            return False
    for i in range(d):
        total = 0.0
        for a in range(7):
            total += table[8, a] * k[a, i]
        error[i] = step * total
    return True


@compiled
def explicit_slopes(
    machine: tuple,
    table: np.ndarray,
    t: float,
    step: float,
    stages: np.ndarray,
    curve: np.ndarray,
    since: float,
    column: np.ndarray,
    s: np.ndarray,
    own: np.ndarray,
    moved: np.ndarray,
    jac: np.ndarray,
    rates: np.ndarray,
) -> None:
    """Sensitivities (d, n) after an accepted step, in place; the other arrays are room to work in."""
    d, n = s.shape
    for a in range(6):
        for i in range(d):
            for c in range(n):
                moved[i, c] = s[i, c]
            for b in range(a):
                factor = step * table[1 + a, b]
                if factor != 0.0:
                    for c in range(n):
                        moved[i, c] += factor * own[b, i, c]
        reached = table[0, a] * step
        load(machine, t + reached, stages[a], curve, since + reached)
        linearise(machine, rates, jac)
        tangents(machine, jac, moved, column, own[a])
    for a in range(6):
        factor = step * table[7, a]
        for i in range(d):
            for c in range(n):
                s[i, c] += factor * own[a, i, c]
