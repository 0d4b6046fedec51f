"""Polynomials on one interval of a mesh, by their values at evenly spaced nodes."""

from functools import cache

import numpy as np

DEGREE = 4
"""Of the polynomials; with as many Gauss points, errors at the ends of intervals fall as h^8."""


def lagrange(s: np.ndarray) -> np.ndarray:
    """Values (n, m + 1) at s in [0, 1] of the Lagrange polynomials of the nodes k / m."""
    return np.vander(np.atleast_1d(s), DEGREE + 1, increasing=True) @ _lagrange_coefficients()


@cache
def _lagrange_coefficients() -> np.ndarray:
    """Monomial coefficients (power, node)."""
    nodes = np.arange(DEGREE + 1) / DEGREE
    return np.linalg.inv(np.vander(nodes, increasing=True))


@cache
def gauss() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values and slopes of the Lagrange polynomials at the Gauss points of [0, 1], and the weights there."""
    points, weights = np.polynomial.legendre.leggauss(DEGREE)
    points = (points + 1.0) / 2.0
    return lagrange(points), _lagrange_slopes(points), weights / 2.0


@cache
def midway() -> tuple[np.ndarray, np.ndarray]:
    """Values and slopes of the Lagrange polynomials midway between the nodes."""
    points = (np.arange(DEGREE) + 0.5) / DEGREE
    return lagrange(points), _lagrange_slopes(points)


def _lagrange_slopes(s: np.ndarray) -> np.ndarray:
    powers = np.arange(1, DEGREE + 1)
    return (s[:, None] ** (powers - 1) * powers) @ _lagrange_coefficients()[1:]
