"""A field given by a function."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.fields.base import VectorField


class CallableField(VectorField):
    """A field given by a function.

    Parameters
    ----------
    fn : callable
        ``fn((n, d)) -> (n, d)``, the rate of change at n points at once.
    dim : int
        Number of states d.
    jac : callable, optional
        ``jac((n, d)) -> (n, d, d)`` with ``[:, i, j] = d f_i / d x_j``; without it, central differences.
    **kwargs
        As for `VectorField`.
    """

    def __init__(
        self,
        fn: Callable[[np.ndarray], ArrayLike],
        dim: int,
        jac: Callable[[np.ndarray], ArrayLike] | None = None,
        **kwargs: Any,
    ):
        super().__init__(dim, **kwargs)
        if not callable(fn) or not (jac is None or callable(jac)):
            raise TypeError(f"CallableField: expected functions fn and jac, got {fn!r} and {jac!r}.")
        self._fn = fn
        self._jac_fn = jac

    @property
    def has_jacobian(self) -> bool:
        """Whether a function for the Jacobian was given; else it is differenced."""
        return self._jac_fn is not None

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        f = self._fn(x)
        if type(f) is np.ndarray and f.shape == x.shape:
            return f
        return self._checked(f, x.shape, "fn")

    def _jac(self, x: np.ndarray) -> np.ndarray:
        if self._jac_fn is None:
            return super()._jac(x)
        return self._checked(self._jac_fn(x), (*x.shape, self.dim), "jac")

    @staticmethod
    def _checked(values: ArrayLike, shape: tuple[int, ...], name: str) -> np.ndarray:
        checked = np.asarray(values, dtype=float)
        if checked.shape != shape:
            raise ValueError(f"CallableField: expected {name} to return shape {shape}, got {checked.shape}.")
        return checked
