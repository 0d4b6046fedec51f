"""A field given by a function."""

import numpy as np

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

    def __init__(self, fn, dim, jac=None, **kwargs):
        super().__init__(dim, **kwargs)
        if not callable(fn) or not (jac is None or callable(jac)):
            raise TypeError(f"CallableField: expected functions fn and jac, got {fn!r} and {jac!r}.")
        self._fn = fn
        self._jac_fn = jac

    @property
    def has_jacobian(self):
        """Whether a function for the Jacobian was given; else it is differenced."""
        return self._jac_fn is not None

    def _rhs(self, x):
        f = self._fn(x)
        if type(f) is not np.ndarray or f.shape != x.shape:
            f = self._checked(f, x.shape, "fn")
        return f

    def _jac(self, x):
        if self._jac_fn is None:
            return super()._jac(x)
        return self._checked(self._jac_fn(x), (*x.shape, self._dim), "jac")

    @staticmethod
    def _checked(values, shape, name):
        values = np.asarray(values, dtype=float)
        if values.shape != shape:
            raise ValueError(f"CallableField: expected {name} to return shape {shape}, got {values.shape}.")
        return values
