"""Coefficients as polynomials in a parameter, pooled over fits by how well each one's data determine them."""

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre

_LARGEST_DEGREE = 4
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


class PooledRegression:
    """Least squares of fits C_k at parameter values p_k on polynomials in p.

    Minimised is ``sum_k w_k |C(p_k) - C_k|^2`` in the norm of the k-th Gram matrix, that is the squared
    difference between the two fields summed over the k-th fit's own data: what its data do not determine is
    left to the others.

    Parameters
    ----------
    p : ndarray (K,)
        Parameter values.
    grams : ndarray (K, M, M)
        Inner products of the M terms over the data of each fit.
    fits : ndarray (K, M, c)
        Coefficients of each fit, c to a term; the c columns are fitted independently of each other.
    unit : ndarray (c,)
        Size of the columns' values, by which they count when the degree is chosen.
    """

    def __init__(self, p: np.ndarray, grams: np.ndarray, fits: np.ndarray, unit: np.ndarray):
        size = np.sqrt(np.einsum("kmm->m", grams) / len(p))
        self._size = np.where(size > 0, size, 1.0)
        self._grams = grams / np.outer(self._size, self._size)
        ridge = _RIDGE * np.einsum("kmm->", self._grams) / self._grams.shape[0] / self._grams.shape[1]
        self._grams = self._grams + ridge * np.eye(self._grams.shape[1])
        self._fits = fits * self._size[:, None] / unit
        self._unit = unit
        self.p = p
        self._z = 2.0 * (p - p.min()) / np.ptp(p) - 1.0

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

    def _fitted(self, weights: np.ndarray, degree: int) -> tuple[np.ndarray, float]:
        """Coefficients of one degree, and their squared error at left-out values of p."""
        basis = legendre.legvander(self._z, degree)
        _, m, c = self._fits.shape
        n = (degree + 1) * m
        weighted = weights[:, None, None] * self._grams
        products = basis[:, :, None] * basis[:, None, :]
        normal = np.einsum("kba,kmn->bman", products, weighted, optimize=True).reshape(n, n)
        moments = np.einsum("kb,kmc->bmc", basis, weighted @ self._fits).reshape(n, c)
        inverse = np.linalg.inv(normal)
        values = (inverse @ moments).reshape(degree + 1, m, c)
        residual = np.einsum("kb,bmc->kmc", basis, values) - self._fits
        if np.count_nonzero(weights) > degree + 1:
            # Leaving out value k changes its residual r to (1 - H_k)^-1 r, H_k its own share in the fit.
            blocks = inverse.reshape(degree + 1, m, degree + 1, m)
            own = np.einsum("kba,bman->kmn", products, blocks, optimize=True) @ weighted
            residual = np.linalg.solve(np.eye(m) - own, residual)
        error = np.einsum("kmc,kmn,knc->", residual, weighted, residual, optimize=True)
        return values, float(error)
