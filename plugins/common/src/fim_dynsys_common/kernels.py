"""Squared-exponential kernels: where inducing points lie, and fields that are sums of kernels and waves."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cholesky

from fim_dynsys.fields.base import VectorField

JITTER = 1e-5
"""Added to the diagonal of kernel matrices of unit variance."""


def squared_exponential(x: np.ndarray, y: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """``exp(-|(x - y) / length|^2 / 2)`` of points (n, d) and (m, d) for lengths (d,), shape (n, m)."""
    origin = y.mean(axis=0) if len(y) else np.zeros(len(lengths))
    a, b = (x - origin) / lengths, (y - origin) / lengths
    squares = np.sum(a**2, axis=1)[:, None] + np.sum(b**2, axis=1) - 2.0 * (a @ b.T)
    return np.exp(-0.5 * np.maximum(squares, 0.0))


def cholesky_factor(centres: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Lower factor (m, m) of the kernel matrix of centres (m, d), with `JITTER`."""
    gram = squared_exponential(centres, centres, lengths)
    return cholesky(gram + JITTER * np.eye(len(centres)), lower=True)


def grid_points(states: np.ndarray, per_dimension: int) -> np.ndarray:
    """A grid (per_dimension**d, d) on the bounding box of states (n, d)."""
    axes = [np.linspace(a, b, per_dimension) for a, b in zip(states.min(0), states.max(0), strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, states.shape[1])


def cluster_centres(states: np.ndarray, n: int, seed: int) -> np.ndarray:
    """At most `n` centres (m, d) of states by k-means; the distinct states where these are no more."""
    from sklearn.cluster import KMeans  # costs 0.3 s to import

    distinct = np.unique(states, axis=0)
    if len(distinct) <= n:
        return distinct
    return KMeans(n, n_init=1, random_state=seed).fit(states).cluster_centers_


def check_arrays(
    caller: str, arrays: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """ValueError unless every array is finite and of the shape given."""
    for name, array in arrays.items():
        if array.shape != shapes[name] or not np.isfinite(array).all():
            raise ValueError(
                f"{caller}: expected finite {name} of shape {shapes[name]}, got {array.shape} with "
                f"{int((~np.isfinite(array)).sum())} values that are not finite."
            )


class KernelField(VectorField):
    """A weighted sum of squared-exponential kernels and, in draws of Gaussian processes, of cosines.

    ``f_j(x) = sum_m W_mj exp(-|(x - z_m) / l_j|^2 / 2) + sum_k a_jk cos(w_jk . x + b_jk)``

    Parameters
    ----------
    centres : array (m, d)
        z.
    lengths : array (d,) or (d, d)
        l, common to all coordinates of the field, or a row for each.
    weights : array (m, d)
        W.
    frequencies, phases, amplitudes : arrays (d, k, d), (d, k), (d, k), optional
        w, b and a; none are the default.
    **kwargs
        As for `VectorField`.

    Raises
    ------
    ValueError
        Where shapes do not fit or lengths are not positive.
    """

    def __init__(
        self,
        centres: ArrayLike,
        lengths: ArrayLike,
        weights: ArrayLike,
        frequencies: ArrayLike | None = None,
        phases: ArrayLike | None = None,
        amplitudes: ArrayLike | None = None,
        **kwargs: Any,
    ):
        self._centres, self._lengths, self._weights = (
            np.array(a, dtype=float) for a in (centres, lengths, weights)
        )
        if self._weights.ndim != 2 or self._weights.shape != self._centres.shape:
            raise ValueError(
                f"KernelField: expected centres and weights of one shape (m, d), got "
                f"{self._centres.shape} and {self._weights.shape}."
            )
        d = self._weights.shape[1]
        if self._lengths.shape not in ((d,), (d, d)) or not (self._lengths > 0).all():
            raise ValueError(
                f"KernelField: expected positive lengths of shape {(d,)} or {(d, d)}, got {self._lengths}."
            )
        waves = (frequencies, phases, amplitudes)
        if frequencies is None:
            waves = (np.zeros((d, 0, d)), np.zeros((d, 0)), np.zeros((d, 0)))
        self._frequencies, self._phases, self._amplitudes = (np.array(a, dtype=float) for a in waves)
        if (
            self._frequencies.shape != (*self._phases.shape, d)
            or self._phases.shape != self._amplitudes.shape
        ):
            raise ValueError(
                f"KernelField: expected frequencies ({d}, k, {d}), phases and amplitudes ({d}, k), got "
                f"{self._frequencies.shape}, {self._phases.shape} and {self._amplitudes.shape}."
            )
        super().__init__(d, **kwargs)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Its six arrays."""
        names = ("centres", "lengths", "weights", "frequencies", "phases", "amplitudes")
        return {name: getattr(self, f"_{name}") for name in names}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], **description: Any) -> Self:
        """The field that `to_arrays` took apart, with keyword arguments of `VectorField`."""
        names = ("centres", "lengths", "weights", "frequencies", "phases", "amplitudes")
        return cls(*(arrays[name] for name in names), **description)

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        if self._lengths.ndim == 1:
            out = squared_exponential(x, self._centres, self._lengths) @ self._weights
        else:
            columns = zip(self._lengths, self._weights.T, strict=True)
            out = np.stack([squared_exponential(x, self._centres, s) @ w for s, w in columns], axis=1)
        if self._phases.size:
            for j, (w, b, a) in enumerate(self._waves()):
                out[:, j] += np.cos(x @ w.T + b) @ a
        return out

    def _jac(self, x: np.ndarray) -> np.ndarray:
        out = np.empty((len(x), self.dim, self.dim))
        values = squared_exponential(x, self._centres, self._lengths) if self._lengths.ndim == 1 else None
        origin = self._centres.mean(axis=0)
        offsets = self._centres - origin
        for j, lengths in enumerate(np.broadcast_to(self._lengths, (self.dim, self.dim))):
            kernels = squared_exponential(x, self._centres, lengths) if values is None else values
            weighted = kernels * self._weights[:, j]
            out[:, j] = (weighted @ offsets - weighted.sum(axis=1)[:, None] * (x - origin)) / lengths**2
        if self._phases.size:
            for j, (w, b, a) in enumerate(self._waves()):
                out[:, j] -= (np.sin(x @ w.T + b) * a) @ w
        return out

    def _waves(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        return list(zip(self._frequencies, self._phases, self._amplitudes, strict=True))
