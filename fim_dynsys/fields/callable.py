"""A field given by a function."""

import inspect
from collections.abc import Callable
from types import FunctionType
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

    Raises
    ------
    TypeError
        For what is no function, or one that needs other arguments than the points, as ``f(t, x)`` does.
    ValueError
        On evaluation, where a function does not return an answer for each of the points, as one written for
        a single point does.
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
        check_arguments("CallableField", fn, ("x",))
        if jac is not None:
            check_arguments("CallableField", jac, ("x",))
        self._fn = fn
        self._jac_fn = jac
        self._takes_rows = self.dim == 1

    @property
    def has_jacobian(self) -> bool:
        """Whether a function for the Jacobian was given; else it is differenced."""
        return self._jac_fn is not None

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        f = self._called(self._fn, x, x.shape, "fn")
        if len(x) == self.dim and not self._takes_rows:
            # d points may pass for the d coordinates of one point; one point may not
            self._called(self._fn, x[:1], (1, self.dim), "fn")
            self._takes_rows = True
        return f

    def _jac(self, x: np.ndarray) -> np.ndarray:
        if self._jac_fn is None:
            return super()._jac(x)
        return self._called(self._jac_fn, x, (*x.shape, self.dim), "jac")

    @staticmethod
    def _called(
        fn: Callable[[np.ndarray], ArrayLike], x: np.ndarray, shape: tuple[int, ...], name: str
    ) -> np.ndarray:
        """What a function returns at points, of a shape that tells them apart."""
        try:
            values = fn(x)
            if type(values) is np.ndarray and values.shape == shape and values.dtype.kind != "c":
                return values  # first, as it is asked hundreds of thousands of times in an analysis
            if np.iscomplexobj(values):
                raise ValueError(
                    f"CallableField: expected {name} to return real numbers, got complex ones; make real and "
                    "imaginary parts states of their own."
                )
            checked = np.asarray(values, dtype=float)
        except (IndexError, ValueError) as error:
            if isinstance(error, IndexError) or "unpack" in str(error) or "inhomogeneous" in str(error):
                raise ValueError(_of_points(name, x, shape, f"an error: {error}")) from error
            raise
        if checked.shape != shape:
            raise ValueError(_of_points(name, x, shape, f"{checked.shape}"))
        return checked


def _of_points(name: str, x: np.ndarray, shape: tuple[int, ...], got: str) -> str:
    return (
        f"CallableField: expected {name} to return shape {shape}, got {got}, for points of shape {x.shape}; "
        "write x[:, 0] for a coordinate of all points (x[0] is the first point) and join coordinates by "
        "np.stack([...], axis=1)."
    )


def _takes(fn: FunctionType, n: int) -> bool:
    """Whether a plain function can be called with n arguments by position."""
    code = fn.__code__
    needed = code.co_argcount - len(fn.__defaults__ or ())
    return needed <= n <= code.co_argcount or (needed <= n and bool(code.co_flags & inspect.CO_VARARGS))


def check_arguments(caller: str, fn: Callable[..., object], names: tuple[str, ...]) -> None:
    """Raise a TypeError where a function needs other arguments than these, by number."""
    if isinstance(fn, FunctionType) and not vars(fn) and _takes(fn, len(names)):
        return  # as signatures say, at a tenth of their time: families make a field for each value
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):  # compiled functions need not have a signature
        return
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [p for p in parameters if p.kind in places]
    needed = [p.name for p in positional if p.default is inspect.Parameter.empty]
    many = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
    if len(needed) > len(names) or (len(positional) < len(names) and not many):
        raise TypeError(
            f"{caller}: expected a function of ({', '.join(names)}), got one of ({', '.join(needed)}); for "
            "f(t, x) of one point, in which t does not matter, pass "
            "lambda x: np.stack([f(0.0, row) for row in x])."
        )
