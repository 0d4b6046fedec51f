"""Paths of dictionary fields with error control: what fits, warnings and scores are judged by."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.kernels.adaptive import follow
from fim_dynsys.simulation.pairs import dop853_table


class Followed(NamedTuple):
    """Paths over several stretches."""

    paths: list[np.ndarray]  # (n, d) of each, nan from where it was given up
    status: np.ndarray  # (S,) by `fim_dynsys.simulation.problem.Status`
    reached: np.ndarray  # (S,) last time that was reached


def followed(
    terms: Dictionary,
    coefficients: np.ndarray,
    starts: Sequence[np.ndarray],
    times: Sequence[np.ndarray],
    *,
    rtol: float,
    atol: np.ndarray,
    bound: np.ndarray,
    max_steps: int,
    inputs: Sequence[np.ndarray] | None = None,
) -> Followed:
    """Paths of one field from several starts, to tolerances, explicit or implicit as it is stiff or not.

    Parameters
    ----------
    terms : Dictionary
        Of states and, behind them, inputs.
    coefficients : array (m, d)
        Of the terms.
    starts : sequence of arrays (d,)
        State at the first time of each stretch.
    times : sequence of arrays (n,)
        Increasing.
    rtol : float
        Relative error of a step.
    atol : array (d,)
        Absolute error of a step, positive.
    bound : array (d,)
        A path that leaves it is given up.
    max_steps : int
        Of each stretch, rejected ones counted.
    inputs : sequence of arrays (n - 1, 4, k), optional
        Cubics of the fraction of each interval.

    Returns
    -------
    Followed

    References
    ----------
    E. Hairer, S. P. Norsett, G. Wanner: Solving Ordinary Differential Equations I, 2nd ed., Springer 1993,
    section II.5; E. Hairer, G. Wanner: Solving Ordinary Differential Equations II, 2nd ed., Springer 1996,
    sections IV.2 (detection of stiffness) and IV.8 (Radau IIA).
    """
    lengths = [len(t) for t in times]
    first = np.concatenate([[0], np.cumsum(lengths)])
    n_inputs = 0 if inputs is None else inputs[0].shape[2]
    curves = np.zeros((int(first[-1]), 4, n_inputs))
    for begin, curve in zip(first, inputs or (), strict=False):
        curves[begin : begin + len(curve)] = curve
    path, status, reached = follow(
        terms.packed,
        np.array(coefficients, dtype=np.float64, order="C"),
        np.array(starts, dtype=np.float64, order="C"),
        first,
        np.concatenate(times).astype(np.float64),
        curves,
        (float(rtol), np.array(atol, dtype=np.float64), np.array(bound, dtype=np.float64), int(max_steps)),
        _explicit(),
        _implicit(),
    )
    return Followed(np.split(path, first[1:-1]), status, reached)


@cache
def _explicit() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hairer's pair 8(5,3): weights of the stages, of the result, and of its two errors."""
    table = dop853_table()
    s = table["N_STAGES"]
    errors = np.stack([table["E5"][:s], table["E3"][:s]])
    return np.ascontiguousarray(table["A"][:s, :s]), np.ascontiguousarray(table["B"]), errors


@cache
def _implicit() -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Radau IIA of three stages: collocation at the Radau points, and Hairer's estimate of its error.

    The estimate is that of scipy's class: the difference to a method of order three whose extra stage is at
    the start, with the real eigenvalue of the inverse matrix as its weight.
    """
    root = np.sqrt(6.0)
    at = np.array([(4.0 - root) / 10.0, (4.0 + root) / 10.0, 1.0])
    powers = np.arange(1, 4)
    stages = (at[:, None] ** powers / powers) @ np.linalg.inv(at[:, None] ** (powers - 1))
    estimate = np.array([-13.0 - 7.0 * root, -13.0 + 7.0 * root, -1.0]) / 3.0
    eigenvalues = np.linalg.eigvals(np.linalg.inv(stages))
    return stages, at, estimate, float(eigenvalues[np.abs(eigenvalues.imag) < 1e-9][0].real)
