"""Coefficients as polynomials in a parameter, pooled over fits by how well each one's data determine them."""

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre

_LARGEST_DEGREE, _LARGEST_IN_TWO = 4, 3  # of polynomials in one parameter; in two
# Of the mean eigenvalue of a Gram matrix: what no data determine follows the fits, equally weighted.
_RIDGE = 1e-6


@dataclass(frozen=True, eq=False)
class PolynomialCurve:
    """Coefficients C(p) = sum_b L_b(z) values[b], L_b the Legendre polynomials and z in [-1, 1].

    Attributes
    ----------
    low, high : float
        Parameter values at z = -1 and 1.
    values : ndarray (degree + 1, M, c)
    """

    low: float
    high: float
    values: np.ndarray

    @property
    def degree(self) -> int:
        """Degree in p."""
        return len(self.values) - 1

    def __call__(self, p: float, order: int = 0) -> np.ndarray:
        """C(p), or its derivative of the given order, (M, c)."""
        slope = 2.0 / (self.high - self.low)
        z = slope * (p - self.low) - 1.0
        values = legendre.legder(self.values, order) if order else self.values
        return np.asarray(legendre.legval(z, values) * slope**order)


@dataclass(frozen=True, eq=False)
class PolynomialSurface:
    """Coefficients C(p, q), sums of products of Legendre polynomials of total degree up to `degree`.

    Attributes
    ----------
    low, high : ndarray (2,)
        Values of the parameters at -1 and 1.
    degree : int
    values : ndarray (n, M, c)
    """

    low: np.ndarray
    high: np.ndarray
    degree: int
    values: np.ndarray

    def __call__(self, p: float, q: float) -> np.ndarray:
        """C(p, q), (M, c)."""
        z = 2.0 * (np.array([p, q]) - self.low) / (self.high - self.low) - 1.0
        return np.tensordot(_design(z[None], self.degree)[0], self.values, 1)


def _design(z: np.ndarray, degree: int) -> np.ndarray:
    """Legendre polynomials at values (K,), or their products of this total degree at (K, 2)."""
    if z.ndim == 1:
        return legendre.legvander(z, degree)
    a, b = (legendre.legvander(column, degree) for column in z.T)
    return np.stack([a[:, i] * b[:, j] for i in range(degree + 1) for j in range(degree + 1 - i)], axis=1)


class PooledRegression:
    """Least squares of fits C_k at parameter values p_k on polynomials in p.

    Minimised is ``sum_k w_k |C(p_k) - C_k|^2`` in the norm of the k-th Gram matrix, that is the squared
    difference between the two fields summed over the k-th fit's own data: what its data do not determine is
    left to the others.

    Parameters
    ----------
    p : ndarray (K,) or (K, 2)
        Values of one parameter, or of two.
    grams : ndarray (K, M, M)
        Inner products of the M terms over the data of each fit.
    fits : ndarray (K, M, c)
        Coefficients of each fit, c to a term; the c columns are fitted independently of each other.
    unit : ndarray (c,)
        Size of the columns' values, by which they count when the degree is chosen.

    Raises
    ------
    ValueError
        If all inner products are zero.
    """

    def __init__(self, p: np.ndarray, grams: np.ndarray, fits: np.ndarray, unit: np.ndarray):
        if not grams.any():
            raise ValueError(
                "from_fields: expected fields that do not vanish and are defined at each other's data, got no"
                " such place; pass interpolate='spline'."
            )
        size = np.sqrt(np.einsum("kmm->m", grams) / len(p))
        self._size = np.where(size > 0, size, 1.0)
        self._grams = grams / np.outer(self._size, self._size)
        ridge = _RIDGE * np.einsum("kmm->", self._grams) / self._grams.shape[0] / self._grams.shape[1]
        self._grams = self._grams + ridge * np.eye(self._grams.shape[1])
        self._fits = fits * self._size[:, None] / unit
        self._unit = unit
        self.p = p
        self._z = 2.0 * (p - p.min(axis=0)) / np.ptp(p, axis=0) - 1.0

    def curve(self, weights: np.ndarray | None = None) -> PolynomialCurve:
        """Fit the curve of the degree that predicts left-out values of p best.

        Parameters
        ----------
        weights : ndarray (K,), optional
            How often each fit counts; default once.

        Returns
        -------
        PolynomialCurve
        """
        weights = np.ones(len(self.p)) if weights is None else np.asarray(weights, dtype=float)
        known = int(np.count_nonzero(weights))
        # One value more than coefficients, so that each can be left out.
        degrees = range(1, min(_LARGEST_DEGREE, known - 2) + 1) if known > 2 else [known - 1]
        fitted = [self._fitted(weights, degree) for degree in degrees]
        values, _ = min(fitted, key=lambda entry: entry[1])
        return PolynomialCurve(self.p.min(), self.p.max(), values / self._size[:, None] * self._unit)

    def variance(self, gradient: np.ndarray, at: float | None = None) -> float:
        """Variance of a number that depends on the coefficients of `curve`, to first order.

        The fits' errors are taken as independent from value to value, of the size that the residuals have.

        Parameters
        ----------
        gradient : ndarray (degree + 1, M, c)
            Derivative of the number by `PolynomialCurve.values`.
        at : float, optional
            As if there were one more fit at this value, as well determined as those at its neighbours.

        Returns
        -------
        float
        """
        n, m, c = gradient.shape
        basis = _design(self._z, n - 1)
        normal = np.einsum("kb,ka,kmn->bman", basis, basis, self._grams, optimize=True).reshape(n * m, n * m)
        moments = np.einsum("kb,kmc->bmc", basis, self._grams @ self._fits).reshape(n * m, c)
        values = np.linalg.solve(normal, moments).reshape(n, m, c)
        residual = np.einsum("kb,bmc->kmc", basis, values) - self._fits
        size = np.einsum("kmc,kmn,knc->c", residual, self._grams, residual, optimize=True)
        size /= max(1, len(self.p) - n) * m
        if at is not None:
            z = 2.0 * (at - self.p.min()) / np.ptp(self.p) - 1.0
            more = _design(np.array([z]), n - 1)[0]
            right = int(np.clip(np.searchsorted(self._z, z), 1, len(self._z) - 1))
            share = np.clip((z - self._z[right - 1]) / (self._z[right] - self._z[right - 1]), 0.0, 1.0)
            gram = (1.0 - share) * self._grams[right - 1] + share * self._grams[right]
            normal = normal + np.einsum("b,a,mn->bman", more, more, gram).reshape(n * m, n * m)
        slope = (gradient / self._size[:, None] * self._unit).reshape(n * m, c)
        return float(np.sum(size * np.sum(slope * np.linalg.solve(normal, slope), axis=0)))

    def surface(self, weights: np.ndarray | None = None) -> PolynomialSurface:
        """As `curve`, for two parameters: polynomials of the total degree that predicts best, at most 3."""
        weights = np.ones(len(self.p)) if weights is None else np.asarray(weights, dtype=float)
        known = int(np.count_nonzero(weights))
        degrees = [n for n in range(1, _LARGEST_IN_TWO + 1) if (n + 1) * (n + 2) // 2 < known]
        fitted = [(degree, *self._fitted(weights, degree)) for degree in degrees]
        degree, values, _ = min(fitted, key=lambda entry: entry[2])
        values = values / self._size[:, None] * self._unit
        return PolynomialSurface(self.p.min(axis=0), self.p.max(axis=0), degree, values)

    def _fitted(self, weights: np.ndarray, degree: int) -> tuple[np.ndarray, float]:
        """Coefficients of one degree, and their squared error at left-out values of p."""
        basis = _design(self._z, degree)
        width = basis.shape[1]
        _, m, c = self._fits.shape
        n = width * m
        weighted = weights[:, None, None] * self._grams
        products = basis[:, :, None] * basis[:, None, :]
        normal = np.einsum("kba,kmn->bman", products, weighted, optimize=True).reshape(n, n)
        moments = np.einsum("kb,kmc->bmc", basis, weighted @ self._fits).reshape(n, c)
        inverse = np.linalg.inv(normal)
        values = (inverse @ moments).reshape(width, m, c)
        residual = np.einsum("kb,bmc->kmc", basis, values) - self._fits
        if np.count_nonzero(weights) > width:
            # Leaving out value k changes its residual r to (1 - H_k)^-1 r, H_k its own share in the fit.
            blocks = inverse.reshape(width, m, width, m)
            projected = np.einsum("kba,bman->kmn", products, blocks, optimize=True) @ weighted
            residual = np.linalg.solve(np.eye(m) - projected, residual)
        error = np.einsum("kmc,kmn,knc->", residual, weighted, residual, optimize=True)
        return values, float(error)
