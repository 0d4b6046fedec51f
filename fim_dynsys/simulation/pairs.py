"""Embedded explicit Runge-Kutta pairs with their dense output."""

import runpy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy


class RungeKuttaPair:
    """An embedded explicit pair as weights on the columns ``[x, h f_1, ..., h f_s, h f(x_new), extra ...]``.

    Parameters
    ----------
    a : ndarray (s, s)
        Weights of the stages.
    b : ndarray (s,)
        Weights of the result.
    error : ndarray (k, s + 1)
        Weights of the error estimates.
    extra : ndarray (e, s + 1 + e)
        Weights of further stages that only the dense output needs.
    dense : ndarray (p, s + 1 + e)
        Weights of the p nested coefficients of the dense output, outermost first.
    order : int
        Order of the error estimate plus one: the local error falls like h^order.
    stability : float
        Product of the step and a negative rate up to which steps are stable.
    alternating : bool
        Whether the dense output is nested in theta and 1 - theta by turns rather than in theta.
    """

    def __init__(
        self,
        a: np.ndarray,
        b: np.ndarray,
        error: np.ndarray,
        extra: np.ndarray,
        dense: np.ndarray,
        order: int,
        stability: float,
        alternating: bool = False,
    ):
        self.n_stages = len(b)
        self.stages = [np.append(1.0, a[i, :i]) for i in range(1, len(b))]
        self.result = np.append(1.0, b)
        self.error = np.pad(error, ((0, 0), (1, 0)))[:, None, None, :]
        self.extra = [np.append(1.0, row[: len(b) + 1 + i]) for i, row in enumerate(extra)]
        self.dense = np.pad(dense, ((0, 0), (1, 0)))
        self.order = order
        self.stability = stability
        self.alternating = alternating

    def error_norm(self, squares: np.ndarray, d: int) -> np.ndarray:
        """Norm of the scaled error per row from the sums of squares ``(k, n)`` of the k estimates."""
        if len(squares) == 1:
            return np.sqrt(squares[0] / d)
        # Hairer's combination of the fifth and third order estimates; the tiny number keeps 0/0 at 0.
        return squares[0] / np.sqrt((squares[0] + 0.01 * squares[1]) * d + 1e-300)

    def step_factor(self, error: np.ndarray) -> np.ndarray:
        """Ratio of the best next step to the one that made this error, before limits."""
        if self.order == 8:
            return 0.9 / np.sqrt(np.sqrt(np.sqrt(error)))
        return 0.9 * error ** (-1.0 / self.order)


@cache
def dop853_table() -> dict[str, Any]:
    """Weights of Hairer's 8(5,3) pair: A, B, C, E3, E5 and D as scipy's table names them.

    Read without the rest of `scipy.integrate`: every first fit needs it, and importing that package takes
    a quarter of a second.
    """
    return runpy.run_path(str(Path(scipy.__file__).parent / "integrate" / "_ivp" / "dop853_coefficients.py"))


def _dormand_prince_853() -> RungeKuttaPair:
    """Hairer's 8(5,3) pair with its seventh-order dense output."""
    table = dop853_table()
    s, weights = table["N_STAGES"], table["B"]
    extra = table["A"][s + 1 :]
    n_columns = s + 1 + len(extra)
    increment = np.append(weights, np.zeros(n_columns - s))
    old, new = np.eye(n_columns)[0], np.eye(n_columns)[s]
    nested = np.vstack([increment, old - increment, 2 * increment - new - old, table["D"]])
    return RungeKuttaPair(
        table["A"][:s, :s],
        weights,
        np.array([table["E5"], table["E3"]]),
        extra,
        nested,
        order=8,
        stability=6.1,
        alternating=True,
    )


def _dormand_prince_54() -> RungeKuttaPair:
    """The 5(4) pair with its fourth-order dense output, from the weights in scipy's class."""
    from scipy.integrate import RK45  # deferred: only those who ask for this pair need it

    return RungeKuttaPair(RK45.A, RK45.B, RK45.E[None], np.empty((0, 0)), RK45.P.T, order=5, stability=3.25)


_MAKERS = {"dop853": _dormand_prince_853, "rk45": _dormand_prince_54}
PAIRS = tuple(_MAKERS)


@cache
def pair(name: str) -> RungeKuttaPair:
    """The pair of a name among `PAIRS`."""
    return _MAKERS[name]()


class DenseOutput:
    """Interpolants of r steps.

    Parameters
    ----------
    pair : RungeKuttaPair
        The pair that took the steps.
    columns : ndarray (r, d, s + 2)
        State and scaled stages of each step.
    rhs : callable
        Right-hand side for these r rows.
    h : ndarray (r, 1)
        Signed steps.
    """

    def __init__(
        self,
        pair: RungeKuttaPair,
        columns: np.ndarray,
        rhs: Callable[[np.ndarray], np.ndarray],
        h: np.ndarray,
    ):
        r, d, known = columns.shape
        full = np.empty((r, d, known + len(pair.extra)))
        full[:, :, :known] = columns
        for i, weights in enumerate(pair.extra):
            stage = np.vecdot(full[:, :, : known + i], weights)
            np.multiply(rhs(stage), h, out=full[:, :, known + i])
        self.x = columns[:, :, 0]
        self.coefficients = np.vecdot(full, pair.dense[:, None, None, :])
        self.alternating = pair.alternating

    def __call__(self, theta: np.ndarray, which: np.ndarray | slice = slice(None)) -> np.ndarray:
        """States at fractions theta ``(n,)`` of the steps number ``which``, by default one by one."""
        theta = theta[:, None]
        factors = (theta, 1.0 - theta if self.alternating else theta)
        last = len(self.coefficients) - 1
        value = self.coefficients[last][which] * factors[last % 2]
        for i in range(last - 1, -1, -1):
            value = (value + self.coefficients[i][which]) * factors[i % 2]
        return value + self.x[which]
