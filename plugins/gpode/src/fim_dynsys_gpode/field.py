"""The posterior of a sparse Gaussian-process field."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys_common.kernels import JITTER, KernelField, check_arrays, cholesky_factor, squared_exponential

N_FEATURES = 256


class Prior:
    """Independent Gaussian processes of squared-exponential kernels at inducing points.

    Parameters
    ----------
    centres : array (m, d)
        Inducing points, common to all coordinates of the field.
    lengths : array (d, d)
        Length scales, a row for each coordinate of the field.
    signal : array (d,)
        Standard deviations of the field.
    """

    def __init__(self, centres: ArrayLike, lengths: ArrayLike, signal: ArrayLike):
        self.centres, self.lengths, self.signal = (
            np.array(a, dtype=float) for a in (centres, lengths, signal)
        )
        self._factors = [cholesky_factor(self.centres, row) for row in self.lengths]

    def kernel_weights(self, vectors: np.ndarray) -> np.ndarray:
        """Weights (m, d) of the kernels that interpolate whitened inducing vectors (d, m)."""
        return np.stack([self._back(j, v) for j, v in enumerate(vectors)], axis=1)

    def conditional(self, x: np.ndarray, roots: np.ndarray) -> np.ndarray:
        """Standard deviations (n, d) where the whitened vectors have covariances ``R R^T``, R (d, m, m)."""
        out = np.empty((len(x), len(self.signal)))
        for j, (lengths, factor) in enumerate(zip(self.lengths, self._factors, strict=True)):
            a = solve_triangular(factor, squared_exponential(x, self.centres, lengths).T, lower=True)
            variance = 1.0 + JITTER - np.sum(a**2, axis=0) + np.sum((roots[j].T @ a) ** 2, axis=0)
            out[:, j] = self.signal[j] * np.sqrt(np.maximum(variance, JITTER))
        return out

    def draw(self, vectors: np.ndarray, rng: np.random.Generator, **description: Any) -> KernelField:
        """A whole function given whitened inducing vectors (d, m), by decoupled sampling.

        References
        ----------
        J. T. Wilson et al., Efficiently sampling functions from Gaussian process posteriors, ICML 2020,
        eq. 13.
        """
        d, size = len(self.signal), N_FEATURES
        frequencies = rng.standard_normal((d, size, d)) / self.lengths[:, None, :]
        phases = rng.uniform(0.0, 2.0 * np.pi, (d, size))
        amplitudes = self.signal[:, None] * np.sqrt(2.0 / size) * rng.standard_normal((d, size))
        weights = np.empty_like(self.centres)
        for j, factor in enumerate(self._factors):
            waves = np.cos(self.centres @ frequencies[j].T + phases[j]) @ amplitudes[j] / self.signal[j]
            weights[:, j] = self._back(j, vectors[j] - solve_triangular(factor, waves, lower=True))
        return KernelField(
            self.centres, self.lengths, weights, frequencies, phases, amplitudes, **description
        )

    def _back(self, j: int, vector: np.ndarray) -> np.ndarray:
        return self.signal[j] * solve_triangular(self._factors[j], vector, lower=True, trans=1)


class GaussianProcessField(VectorField):
    """The posterior mean of a sparse Gaussian-process field, with its spread and draws of whole functions.

    Parameters
    ----------
    centres, lengths, signal : arrays (m, d), (d, d), (d,)
        As of `Prior`.
    means, roots : arrays (d, m), (d, m, m)
        Of the whitened inducing vectors: mean, and R of the covariance ``R R^T``.
    **kwargs
        As for `VectorField`.

    Raises
    ------
    ValueError
        Where shapes do not fit or an array is not finite.
    """

    def __init__(
        self,
        centres: ArrayLike,
        lengths: ArrayLike,
        signal: ArrayLike,
        means: ArrayLike,
        roots: ArrayLike,
        **kwargs: Any,
    ):
        arrays = {"centres": centres, "lengths": lengths, "signal": signal, "means": means, "roots": roots}
        self._arrays = {name: np.array(array, dtype=float) for name, array in arrays.items()}
        m, d = self._arrays["centres"].shape
        shapes = {"centres": (m, d), "lengths": (d, d), "signal": (d,), "means": (d, m), "roots": (d, m, m)}
        check_arrays("GaussianProcessField", self._arrays, shapes)
        self._prior = Prior(*(self._arrays[name] for name in ("centres", "lengths", "signal")))
        weights = self._prior.kernel_weights(self._arrays["means"])
        self._mean = KernelField(centres, lengths, weights)
        super().__init__(d, **kwargs)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Its five arrays."""
        return dict(self._arrays)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], **description: Any) -> Self:
        """The field that `to_arrays` took apart, with keyword arguments of `VectorField`."""
        names = ("centres", "lengths", "signal", "means", "roots")
        return cls(*(arrays[name] for name in names), **description)

    def scale(self, x: ArrayLike) -> np.ndarray:
        """One posterior standard deviation of f at points ``(..., d)``."""
        points, rows = self._rows(x)
        return self._prior.conditional(rows, self._arrays["roots"]).reshape(points.shape)

    def draws(self, n: int, seed: int = 0) -> EnsembleField:
        """Whole functions drawn from the posterior (EnsembleField of `KernelField`)."""
        rng = np.random.default_rng(seed)
        means, roots = self._arrays["means"], self._arrays["roots"]
        members = []
        for _ in range(n):
            vectors = means + np.einsum("jmk,jk->jm", roots, rng.standard_normal(means.shape))
            members.append(self._prior.draw(vectors, rng, frame=self.frame))
        return EnsembleField(members)

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        return self._mean._rhs(x)

    def _jac(self, x: np.ndarray) -> np.ndarray:
        return self._mean._jac(x)
