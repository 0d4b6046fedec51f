"""Planar cubic fields whose zeros are known: random ones solved by elimination, and products of lines."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eig

from fim_dynsys.fields.callable import CallableField
from fim_dynsys.regions import Region

POWERS = np.array([(i, j) for i in range(4) for j in range(4 - i)])
BOX = Region([-2.0, -2.0], [2.0, 2.0])
ZEROS = 9  # of two cubics in the complex plane, by Bezout's theorem


@dataclass(frozen=True, eq=False)
class Cubic:
    """A planar cubic field and its real zeros.

    Attributes
    ----------
    coefficients : ndarray (2, 10)
        By component and monomial x^i y^j, in the order of `POWERS`.
    zeros : ndarray (n, 2)
        All real zeros in the plane.
    """

    coefficients: np.ndarray
    zeros: np.ndarray

    def field(self) -> CallableField:
        """Return the field with its exact Jacobian and no region of its own."""
        return CallableField(
            lambda x: _values(self.coefficients, x), 2, jac=lambda x: _jacobian(self.coefficients, x)
        )


def random_cubic(number: int) -> Cubic | None:
    """Return the cubic with independent standard normal coefficients of this number.

    None where fewer than nine distinct complex zeros were found, so that the list may not be complete.
    """
    coefficients = np.random.default_rng([17, number]).normal(size=(2, len(POWERS)))
    zeros = complex_zeros(coefficients)
    if len(zeros) != ZEROS:
        return None
    return Cubic(coefficients, zeros[np.abs(zeros.imag).max(axis=1) < 1e-7].real)


def lines_cubic(number: int) -> Cubic:
    """Return a cubic with nine real zeros: mixtures of two products of three lines, where these cross."""
    rng = np.random.default_rng([18, number])
    angle, offset = rng.uniform(0, 2 * np.pi, size=(2, 3)), rng.uniform(-1.2, 1.2, size=(2, 3))
    lines = np.stack([np.cos(angle), np.sin(angle), -offset], axis=-1)
    products = np.array([_product(three) for three in lines])
    zeros = [np.linalg.solve([a[:2], b[:2]], [-a[2], -b[2]]) for a in lines[0] for b in lines[1]]
    return Cubic(rng.normal(size=(2, 2)) @ products, np.array(zeros))


def _product(lines: np.ndarray) -> np.ndarray:
    """Coefficients of the product of three lines a x + b y + c."""
    total = np.zeros((4, 4))
    total[0, 0] = 1.0
    for a, b, c in lines:
        total = c * total + a * np.roll(total, 1, axis=0) + b * np.roll(total, 1, axis=1)
    return total[tuple(POWERS.T)]


def complex_zeros(coefficients: np.ndarray) -> np.ndarray:
    """Return the distinct common zeros ``(n, 2)`` of two cubics in complex x and y.

    Sylvester's matrix in x is a cubic polynomial in y; it is singular at the zeros, which makes them
    eigenvalues of a pencil. They are then polished by Newton's method.
    """
    sylvester = np.zeros((4, 6, 6))
    for component in range(2):
        for (i, j), value in zip(POWERS, coefficients[component], strict=True):
            for shift in range(3):
                sylvester[j, 3 * component + shift, shift + 3 - i] += value
    a, b = np.zeros((18, 18)), np.eye(18)
    a[:12, 6:] = np.eye(12)
    a[12:] = -np.concatenate(sylvester[:3], axis=1)
    b[12:, 12:] = sylvester[3]
    with np.errstate(all="ignore"):
        y, vectors = eig(a, b)
        x = vectors[4] / vectors[5]  # the null vector holds the powers x^5 ... 1
        z = np.stack([x, y], axis=1)
        z = z[np.isfinite(z).all(axis=1) & (np.abs(z).max(axis=1) < 1e6)]
        for _ in range(20):
            z = z - np.linalg.solve(_jacobian(coefficients, z), _values(coefficients, z)[:, :, None])[:, :, 0]
        size = np.abs(_monomials(z)) @ np.abs(coefficients).T
        z = z[(np.abs(_values(coefficients, z)) < 1e-11 * size).all(axis=1)]
    distinct = []
    for point in z:
        if all(np.abs(point - other).max() > 1e-7 * (1 + np.abs(point).max()) for other in distinct):
            distinct.append(point)
    return np.array(distinct).reshape(-1, 2)


def _monomials(x: np.ndarray) -> np.ndarray:
    return np.stack([x[:, 0] ** i * x[:, 1] ** j for i, j in POWERS], axis=1)


def _values(coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
    return _monomials(x) @ coefficients.T


def _jacobian(coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
    by_x = np.stack([i * x[:, 0] ** max(i - 1, 0) * x[:, 1] ** j for i, j in POWERS], axis=1)
    by_y = np.stack([j * x[:, 0] ** i * x[:, 1] ** max(j - 1, 0) for i, j in POWERS], axis=1)
    return np.stack([by_x @ coefficients.T, by_y @ coefficients.T], axis=2)
