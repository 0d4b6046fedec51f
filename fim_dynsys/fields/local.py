"""Fields that are regressed about every point by itself, and lead back to the data from afar."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from fim_dynsys.fields.base import VectorField

ARRAYS = ("states", "slopes", "lengths", "ridge", "rate")
_CHUNK = 4_000_000  # weights at a time


class LocalField(VectorField):
    """Locally linear regression of slopes, bounded and drawn to the data.

    Samples weigh ``exp(-|(x - state) / lengths|^2 / 2)``. With their weighted means `s` and `v` of states and
    slopes, ``f(x) = v + B (x - s)``, where the matrix B is a ridge regression of the slopes on the states
    about `x` towards ``-rate`` times the identity. Far from all samples only the nearest weigh, and B is
    that: a path is carried along with them while it approaches them, so that none leaves for good.

    Parameters
    ----------
    states, slopes : array (n, d)
        Smoothed samples.
    lengths : array (d,)
        Within which samples count; positive.
    ridge : float
        Variance, in squared lengths, of the states that weigh as much as the prior; positive.
    rate : float
        Of the approach, per unit of time; positive.
    **kwargs
        Passed to `VectorField`.

    Raises
    ------
    ValueError
        If shapes do not fit together, or numbers are not finite or not positive.

    References
    ----------
    W. S. Cleveland, Robust locally weighted regression and smoothing scatterplots, JASA 74 (1979) 829.
    """

    def __init__(
        self,
        states: np.ndarray,
        slopes: np.ndarray,
        lengths: np.ndarray,
        ridge: float,
        rate: float,
        **kwargs: Any,
    ) -> None:
        states, slopes, lengths = (np.array(part, dtype=np.float64) for part in (states, slopes, lengths))
        if states.ndim != 2 or slopes.shape != states.shape or lengths.shape != states.shape[1:]:
            raise ValueError(
                "LocalField: expected states and slopes (n, d) and lengths (d,), got shapes "
                f"{states.shape}, {slopes.shape} and {lengths.shape}."
            )
        finite = all(np.isfinite(part).all() for part in (states, slopes, lengths, ridge, rate))
        if not (finite and len(states) and (lengths > 0).all() and ridge > 0 and rate > 0):
            raise ValueError(
                "LocalField: expected finite samples, and lengths, ridge and rate above 0, got others."
            )
        super().__init__(states.shape[1], **kwargs)
        self.states, self.slopes, self.lengths = states, slopes, lengths
        self.ridge, self.rate = float(ridge), float(rate)
        self._ridges = self.ridge * np.eye(len(lengths))
        self._centre = states.mean(axis=0)
        self._places = u = (states - self._centre) / lengths
        self._half_squares = 0.5 * np.einsum("nd,nd->n", u, u)
        v = slopes / lengths
        squares = [(a[:, :, None] * u[:, None]).reshape(len(u), -1) for a in (u, v)]
        self._moments = np.concatenate([u, v, *squares], axis=1)

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        rows = max(1, _CHUNK // len(self.states))
        if 0 < len(x) <= rows:
            return self._chunk(x)
        parts = [self._chunk(x[first : first + rows]) for first in range(0, len(x), rows)]
        return np.concatenate(parts) if parts else np.zeros_like(x)

    def _chunk(self, x: np.ndarray) -> np.ndarray:
        n, d = x.shape
        u = (x - self._centre) / self.lengths
        weights = u @ self._places.T - self._half_squares
        weights = np.exp(weights - weights.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        moments = weights @ self._moments
        state, slope = moments[:, :d], moments[:, d : 2 * d]
        squares = moments[:, 2 * d :].reshape(n, 2, d, d)
        spread = squares[:, 0] - state[:, :, None] * state[:, None]
        mixed = squares[:, 1] - slope[:, :, None] * state[:, None]
        away = u - state
        solved = np.linalg.solve(spread + self._ridges, away[:, :, None])
        turned = ((mixed + self.rate * spread) @ solved)[:, :, 0]
        return (slope - self.rate * away + turned) * self.lengths

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The field as plain arrays."""
        return {name: np.array(getattr(self, name)) for name in ARRAYS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], **description: Any) -> Self:
        """The field that `to_arrays` took apart, with keyword arguments of `VectorField`."""
        states, slopes, lengths, ridge, rate = (np.asarray(arrays[name], dtype=float) for name in ARRAYS)
        return cls(states, slopes, lengths, float(ridge), float(rate), **description)
