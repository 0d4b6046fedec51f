"""Bifurcations by their defining equations: nothing here is shared with the package.

Those of equilibria are solved to thirty digits by mpmath, those of cycles by shooting with scipy.
"""

from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np
import sympy
from scipy.integrate import solve_ivp
from scipy.optimize import root

_DIGITS = 30
_RTOL = 1e-12
_NAMES = ("x", "y", "z", "w")

Jacobian = Callable[..., mpmath.matrix]
"""``jacobian(*states, *parameters)``."""


def solved(entry: dict[str, Any], kind: str, start: Sequence[float]) -> list[mpmath.mpf]:
    """Solve for states and parameters of a bifurcation of equilibria.

    Parameters
    ----------
    entry : dict
        A system as in ``reference.toml``, of at most four states.
    kind : str
        ``LP`` or ``HB`` in p; ``CP``, ``BT`` or, of three states, ``ZH`` in p and q.
    start : sequence of float
        A guess: states, then parameters.

    Returns
    -------
    list of mpf
        States, then parameters.
    """
    d = len(entry["rates"])
    field, jacobian = _functions(entry, len(start) - d, "mpmath")

    def vanishing(*u: mpmath.mpf) -> list[mpmath.mpf]:
        return [*field(*u), *(condition(jacobian, u, d) for condition in CONDITIONS[kind])]

    with mpmath.workdps(_DIGITS):
        return list(mpmath.findroot(vanishing, [mpmath.mpf(value) for value in start]))


def solved_cycle(entry: dict[str, Any], kind: str, start: Sequence[float]) -> np.ndarray:
    """Solve for a bifurcation of cycles: the state of largest x, the period, p.

    Parameters
    ----------
    entry : dict
        A system as in ``reference.toml``.
    kind : str
        ``LPC`` or ``PD``.
    start : sequence of float
        A guess: states, period, p.

    Returns
    -------
    ndarray (d + 2,)
    """
    d = len(entry["rates"])
    field, jacobian = _functions(entry, 1, "numpy")

    def rates(t: float, both: np.ndarray, p: float) -> np.ndarray:
        x, flow = both[:d], both[d:].reshape(d, d)
        return np.concatenate([np.ravel(field(*x, p)), (np.asarray(jacobian(*x, p)) @ flow).ravel()])

    def vanishing(u: np.ndarray) -> np.ndarray:
        x, period, p = u[:d], u[d], u[d + 1]
        first = np.concatenate([x, np.eye(d).ravel()])
        last = solve_ivp(rates, (0.0, period), first, "DOP853", args=(p,), rtol=_RTOL, atol=_RTOL).y[:, -1]
        monodromy = last[d:].reshape(d, d)
        if kind == "PD":
            condition = np.linalg.det(monodromy + np.eye(d))
        else:  # the multiplier 1 is a double one: the slope of the characteristic polynomial
            condition = np.polyval(np.polyder(np.poly(monodromy)), 1.0)
        return np.array([*(last[:d] - x), np.ravel(field(*x, p))[0], condition])

    found = root(vanishing, start, tol=1e-11)
    return found.x


def _functions(entry: dict[str, Any], n_parameters: int, kind: str) -> tuple[Callable, Callable]:
    """Field and Jacobian of states and parameters."""
    d = len(entry["rates"])
    unknown = sympy.symbols([*_NAMES[:d], *"pq"[:n_parameters]])
    rates = sympy.Matrix([sympy.sympify(text, rational=True) for text in entry["rates"]])
    field, jacobian = (
        sympy.lambdify(unknown, matrix, kind) for matrix in (rates, rates.jacobian(unknown[:d]))
    )
    return field, jacobian


def _zero(jacobian: Jacobian, u: Sequence[mpmath.mpf], d: int) -> mpmath.mpf:
    """The determinant: an eigenvalue is zero."""
    return mpmath.det(jacobian(*u))


def _trace(jacobian: Jacobian, u: Sequence[mpmath.mpf], d: int) -> mpmath.mpf:
    """The trace: where an eigenvalue is zero, the two others are opposite, or the other one is zero too."""
    matrix = jacobian(*u)
    return mpmath.fsum(matrix[i, i] for i in range(d))


def _flat(jacobian: Jacobian, u: Sequence[mpmath.mpf], d: int) -> mpmath.mpf:
    """Derivative of the determinant along the null vector; of two states at most."""
    matrix = jacobian(*u)
    null = [mpmath.mpf(1)] if d == 1 else [matrix[0, 1], -matrix[0, 0]]

    def along(step: mpmath.mpf) -> mpmath.mpf:
        return mpmath.det(jacobian(*(x + step * v for x, v in zip(u, null, strict=False)), *u[d:]))

    return mpmath.diff(along, 0)


def _pair(jacobian: Jacobian, u: Sequence[mpmath.mpf], d: int) -> mpmath.mpf:
    """Hurwitz' determinant of order d - 1: two eigenvalues are opposite."""
    matrix = jacobian(*u)
    power, sums = mpmath.eye(d), []
    for _ in range(d):
        power = power * matrix
        sums.append(mpmath.fsum(power[i, i] for i in range(d)))
    a = [mpmath.mpf(1)]  # of the characteristic polynomial, by Newton's identities
    for k in range(1, d + 1):
        a.append(-mpmath.fsum(a[k - i] * sums[i - 1] for i in range(1, k + 1)) / k)
    places = [[2 * j + 1 - i for j in range(d - 1)] for i in range(d - 1)]
    return mpmath.det(mpmath.matrix([[a[k] if 0 <= k <= d else 0 for k in row] for row in places]))


CONDITIONS: dict[str, tuple[Callable[[Jacobian, Sequence[mpmath.mpf], int], mpmath.mpf], ...]] = {
    "LP": (_zero,),
    "HB": (_pair,),
    "CP": (_zero, _flat),
    "BT": (_zero, _trace),
    "ZH": (_zero, _trace),
}
"""What vanishes beside the field."""
