"""FieldPlane: vector fields with two parameters."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.callable import CallableField, check_arguments
from fim_dynsys.fields.family import FieldFamily

_KEPT = 16  # fields of the latest values: a Newton step takes differences about one


class FieldPlane:
    """Fields dx/dt = f(x, p, q) with two parameters.

    Parameters
    ----------
    at : callable
        ``at(p, q) -> VectorField``, smooth in both.
    parameters : pair of str
        Their names.

    Raises
    ------
    TypeError
        If `at` is no function of two numbers.
    ValueError
        If the names are not two different ones.

    Examples
    --------
    >>> cusp = FieldPlane.from_callable(lambda x, h, r: h + r * x - x**3, 1, ("h", "r"))
    >>> cusp.at(0.0, 1.0)([0.5])
    array([0.375])
    """

    def __init__(self, at: Callable[[float, float], VectorField], parameters: Sequence[str] = ("p", "q")):
        if not callable(at):
            raise TypeError(f"FieldPlane: expected a function of two parameters, got {at!r}.")
        check_arguments("FieldPlane", at, ("p", "q"))
        names = tuple(str(name) for name in parameters)
        if len(set(names)) != 2 or len(names) != 2:
            raise ValueError(f"FieldPlane: expected two different names of parameters, got {names}.")
        self.parameters = (names[0], names[1])
        self._at = lru_cache(maxsize=_KEPT)(at)

    @staticmethod
    def from_callable(
        fn: Callable[[np.ndarray, float, float], ArrayLike],
        dim: int,
        parameters: Sequence[str] = ("p", "q"),
        *,
        jac: Callable[[np.ndarray, float, float], ArrayLike] | None = None,
        **kwargs: Any,
    ) -> "FieldPlane":
        """Plane of a function.

        Parameters
        ----------
        fn : callable
            ``fn(x (n, d), p, q) -> (n, d)``, the rate of change at n points for two numbers.
        dim : int
            Number of states d.
        parameters : pair of str
            Names of the two.
        jac : callable, optional
            ``jac(x (n, d), p, q) -> (n, d, d)``; without it, fourth-order central differences.
        **kwargs
            As for `VectorField`.

        Returns
        -------
        FieldPlane
        """
        for part in (fn, jac):
            if part is not None:
                check_arguments("from_callable", part, ("x", "p", "q"))

        def at(p: float, q: float) -> VectorField:
            by_states = None if jac is None else lambda x: jac(x, p, q)
            return CallableField(lambda x: fn(x, p, q), dim, by_states, **kwargs)

        return FieldPlane(at, parameters)

    def at(self, p: float, q: float) -> VectorField:
        """The field of one pair of values."""
        return self._at(float(p), float(q))

    def family(self, q: float) -> FieldFamily:
        """The fields of one value of the second parameter, over the first."""
        field = self.at(0.0, q)
        return FieldFamily.from_callable(
            lambda x, p: self.at(p, q)(x),
            field.dim,
            self.parameters[0],
            jac=lambda x, p: self.at(p, q).jacobian(x),
            state_names=field.state_names,
            region=field.region,
            scales=None if field.length_scale is None else field.scales,
        )

    def __repr__(self) -> str:
        return f"FieldPlane(parameters={self.parameters})"
