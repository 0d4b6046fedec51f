"""Normal forms of period doublings and torus points, from derivatives of the return map."""

from collections.abc import Sequence

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.simulation.solution import integrate

_STEP = 0.005  # of the cycle's size: third derivatives are then known to 1e-4, by either error
_RTOL = 1e-12  # of a step: third derivatives are differences of what is integrated
_OFF = 0.02  # distance of an eigenvalue of the return map by differences from the multiplier it stands for
_LANDINGS = 3  # Newton steps onto the section; each is as accurate as the step before is small
_OFFSETS = np.arange(-3, 4)
_FIRST = np.array([-1, 9, -45, 0, 45, -9, 1]) / 60.0  # central differences of orders 6, 6 and 4
_SECOND = np.array([2, -27, 270, -490, 270, -27, 2]) / 180.0  # central differences of order six
_THIRD = np.array([1, -8, 13, 0, -13, 8, -1]) / 8.0  # central differences of order four


class ReturnMap:
    """Returns of neighbours of a cycle to the hyperplane across it, in units of the cycle's size.

    Parameters
    ----------
    field : VectorField
        The field.
    x : ndarray (d,)
        A point of the cycle.
    period : float
        Its period.
    size : float
        Its size in length scales.
    length : ndarray (d,)
        Length scales.
    """

    def __init__(
        self, field: VectorField, x: np.ndarray, period: float, size: float, length: np.ndarray
    ) -> None:
        self.field, self.x, self.period, self.unit = field, x, period, size * length
        flow = field(x) / length
        self.normal = flow / np.linalg.norm(flow)
        self.basis = np.linalg.svd(self.normal[None])[2][1:]  # (d - 1, d)

    def __call__(self, y: np.ndarray) -> np.ndarray:
        """Returns (n, d - 1) of points (n, d - 1) of the section."""
        x = integrate([self.field], self.x + (y @ self.basis) * self.unit, [0.0, self.period], rtol=_RTOL).x
        x = x[:, -1]
        with np.errstate(all="ignore"):  # what cannot be followed is NaN
            for _ in range(_LANDINGS):
                gap = (self.x - x) / self.unit @ self.normal
                x = _runge_kutta(self.field, x, gap / (self.field(x) / self.unit @ self.normal))
            return (x - self.x) / self.unit @ self.basis.T

    def along(self, directions: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
        """First, second and third derivatives (3, n, d - 1) along directions."""
        v = np.array(directions)
        sizes = np.linalg.norm(v, axis=1)
        units = v / np.where(sizes > 0, sizes, 1.0)[:, None]
        points = _STEP * _OFFSETS[None, :, None] * units[:, None]
        values = self(points.reshape(-1, v.shape[1])).reshape(points.shape)
        stencils = np.array([weights / _STEP**k for k, weights in enumerate((_FIRST, _SECOND, _THIRD), 1)])
        powers = sizes ** np.arange(1, 4)[:, None]
        return np.einsum("ko,noi->kni", stencils, values) * powers[:, :, None]

    def second(self, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """Second derivatives (n, d - 1) along pairs of directions."""
        sizes = np.array([[np.linalg.norm(v) or 1.0 for v in pair] for pair in pairs])
        units = [(u / a, v / b) for (u, v), (a, b) in zip(pairs, sizes, strict=True)]
        directions = [u + sign * v for u, v in units for sign in (1.0, -1.0)]
        squares = self.along(directions)[1].reshape(len(pairs), 2, -1)
        return (squares[:, 0] - squares[:, 1]) / 4.0 * sizes.prod(axis=1)[:, None]

    def critical(self, multiplier: complex) -> tuple[np.ndarray, complex, np.ndarray, np.ndarray] | None:
        """Jacobian, its eigenvalue nearest a multiplier, and the vectors of that.

        These are q with |q| = 1 and the adjoint one with <adjoint, q> = 1. None where neighbours cannot be
        followed, or part so fast that their returns say nothing of derivatives.
        """
        jac = self.along(np.eye(len(self.basis)))[0].T
        if not np.isfinite(jac).all():
            return None
        values, vectors = np.linalg.eig(jac)
        k = int(np.argmin(np.abs(values - multiplier)))
        if abs(values[k] - multiplier) > _OFF:
            return None  # the flow expands so much that neighbours are no differences any more
        left_values, left = np.linalg.eig(jac.T)
        adjoint = left[:, np.argmin(np.abs(left_values - np.conj(values[k])))]
        q = vectors[:, k]
        return jac, complex(values[k]), q, adjoint / np.conj(adjoint.conj() @ q)


def doubling_coefficient(mapping: ReturnMap) -> float:
    """Coefficient c of a period doubling, w -> -w + c w^3: positive where the doubled cycles are stable.

    Parameters
    ----------
    mapping : ReturnMap
        Of the cycle with a multiplier -1.

    Returns
    -------
    float
        In units of 1 / size^2; NaN where neighbours cannot be followed.

    References
    ----------
    Yu. A. Kuznetsov, Elements of Applied Bifurcation Theory, 3rd ed., Springer 2004, eq. 5.41.
    """
    critical = mapping.critical(-1.0)
    if critical is None:
        return np.nan
    jac, _, q, adjoint = critical
    q, adjoint = q.real, adjoint.real
    _, (square,), (cube,) = mapping.along([q])
    (mixed,) = mapping.second([(q, np.linalg.solve(np.eye(len(jac)) - jac, square))])
    return float(adjoint @ (cube / 6.0 + mixed / 2.0))


def torus_coefficient(mapping: ReturnMap, multiplier: complex) -> float:
    """Coefficient d of a torus point, w -> exp(i a) w (1 + d |w|^2): negative where the torus is stable.

    Parameters
    ----------
    mapping : ReturnMap
        Of the cycle with a pair of multipliers on the unit circle.
    multiplier : complex
        One of the pair.

    Returns
    -------
    float
        Real part, in units of 1 / size^2, for an eigenvector of length one; NaN where neighbours cannot be
        followed.

    References
    ----------
    Yu. A. Kuznetsov, Elements of Applied Bifurcation Theory, 3rd ed., Springer 2004, eq. 5.74.
    """
    critical = mapping.critical(multiplier)
    if critical is None:
        return np.nan
    jac, value, q, adjoint = critical
    eye = np.eye(len(jac))
    a, b = q.real, q.imag
    _, squares, cubes = mapping.along([a, b, a + b, a - b])
    square = squares[0] - squares[1] + 0.5j * (squares[2] - squares[3])
    cube_a = cubes[0] + (cubes[2] + cubes[3] - 2.0 * cubes[0]) / 6.0
    cube_b = cubes[1] + (cubes[2] - cubes[3] - 2.0 * cubes[1]) / 6.0
    mean = np.linalg.solve(eye - jac, squares[0] + squares[1])
    twice = np.linalg.solve(value**2 * eye - jac, square)
    am, bm, ar, ai, br, bi = mapping.second(
        [(a, mean), (b, mean), (a, twice.real), (a, twice.imag), (b, twice.real), (b, twice.imag)]
    )
    total = cube_a + 1j * cube_b + 2.0 * (am + 1j * bm) + ar + bi + 1j * (ai - br)
    return float(np.real((adjoint.conj() @ total) / value) / 2.0)


def _runge_kutta(field: VectorField, x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """States after short times (n,), one for each."""
    t = t[:, None]
    k1 = field(x)
    k2 = field(x + t / 2.0 * k1)
    k3 = field(x + t / 2.0 * k2)
    return x + t / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + field(x + t * k3))
