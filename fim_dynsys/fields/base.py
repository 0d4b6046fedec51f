"""The abstract vector field: what every model infers and every analysis reads."""

import abc
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.errors import earlier_name, real_array
from fim_dynsys.fields.frame import FitInfo, Frame, Given, Scales
from fim_dynsys.fields.presentation import facts, flow_picture, html_block
from fim_dynsys.fields.support import support_of_posterior
from fim_dynsys.regions import Region
from fim_dynsys.trajectories.container import Trajectories

_EPS = np.finfo(float).eps
DIFFERENCE = float(_EPS**0.2)
"""Usual step of a differenced Jacobian, relative to the length scale."""
_MULTIPLES = np.array([[1.0], [-1.0], [2.0], [-2.0]])  # of that step, of fourth-order differences
_NAMED = 6  # states that an error names

StackedRates = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""``f(x (n, d), which (n,) int) -> (n, d)``: row i is field number ``which[i]`` at ``x[i]``."""


class VectorField(abc.ABC):
    """An immutable autonomous field dx/dt = f(x) on points of shape ``(..., d)``.

    Subclasses write ``_rhs((n, d)) -> (n, d)`` in float64 and, where they can, ``_jac((n, d)) -> (n, d, d)``
    and ``_directional((n, d), list of (n, d)) -> (n, d)``.

    Parameters
    ----------
    dim : int
        Number of states d.
    context : Trajectories, optional
        The observations the field was inferred from; gives support, region and scales.
    state_names : sequence of str, optional
        Names of the states; default the context's, else x0, x1, ...
    region : Region, optional
        Box in which the field is meant to be used; default the context's bounding box.
    scales : Scales, optional
        Overrides the scales computed from the context.
    fit_info : FitInfo, optional
        Notes of the inference.
    frame : Frame, optional
        That of another field of the same data, in place of context, state_names, region and scales.

    Raises
    ------
    ValueError
        If a given part has another dimension than ``dim``, or a frame comes with other parts.
    """

    _accuracy = 0.0  # relative: what paths by which a fit is judged need not be more exact than

    def __init__(
        self,
        dim: int,
        *,
        context: Trajectories | None = None,
        state_names: Sequence[str] | None = None,
        region: Region | None = None,
        scales: Scales | None = None,
        fit_info: FitInfo | None = None,
        frame: Frame | None = None,
    ):
        caller, given = type(self).__name__, (context, state_names, region, scales)
        if int(dim) < 1:
            raise ValueError(f"{caller}: expected dim >= 1, got {dim}.")
        if frame is None:
            frame = Frame(int(dim), Given.checked(caller, int(dim), *given), None)
        elif frame.dim != dim or any(part is not None for part in given):
            raise ValueError(
                f"{caller}: expected a frame of dimension {dim} in place of context, state_names, region and "
                f"scales, got one of dimension {frame.dim} and {sum(part is not None for part in given)} of "
                "these."
            )
        self._frame = frame.around(self._rhs)
        self._fit_info = FitInfo() if fit_info is None else fit_info

    # ---------------------------------------------------------------- what a field is

    @property
    def dim(self) -> int:
        """Number of states d."""
        return self._frame.dim

    @property
    def frame(self) -> Frame:
        """What surrounds the formula (Frame); another field of the same data may share it."""
        return self._frame

    @property
    def context(self) -> Trajectories | None:
        """The observations behind the field (Trajectories), or None."""
        return self._frame.context

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the states, a tuple of d strings."""
        return self._frame.state_names

    @property
    def region(self) -> Region | None:
        """Box (Region) in which the field is meant to be used: as given, else the data's box, else None."""
        return self._frame.region

    @property
    def fit_info(self) -> FitInfo:
        """Notes of the inference (FitInfo)."""
        return self._fit_info

    def with_fit_info(self, fit_info: FitInfo | None = None, **changed: Any) -> Self:
        """The same field with other notes of its inference, or some of these changed."""
        other = copy(self)
        other._fit_info = replace(self._fit_info if fit_info is None else fit_info, **changed)
        return other

    @property
    def scales(self) -> Scales:
        """Length, speed and time scale (Scales).

        From the context where there is one; else length from the region as the standard deviation of a
        uniform distribution and speed as the field's root mean square there; else all 1.
        """
        with np.errstate(all="ignore"):
            return self._frame.scales

    length_scale = earlier_name("length_scale", "frame.length")
    smoothed = earlier_name("smoothed", "frame.smoothed")
    has_errors = earlier_name("has_errors", "standard_errors", lambda field: field._has_errors)
    shown_equations = earlier_name("shown_equations", "equations", lambda field: field._shown_equations)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dim={self.dim}, states={', '.join(self.state_names)})"

    def _repr_html_(self) -> str:
        rows = facts(self._frame, self._fit_info)
        fit = rows.pop("fit", "")
        return html_block(type(self).__name__, rows, self._shown_equations(), self._picture(), fit)

    def _shown_equations(self, errors: bool = True) -> list[str]:
        """Equations for display, a line for each state; none where the field is no sum of terms.

        Parameters
        ----------
        errors : bool
            Whether to give coefficients with their standard errors where these are known.
        """
        return []

    def _coefficient_rows(self) -> list[tuple[str, str, float]]:
        """State, term and coefficient of each term; none where the field is no sum of terms."""
        return []

    def _picture(self) -> str:
        """SVG of the flow and the data; empty where there is no box to draw."""
        return flow_picture(self, self._frame)

    # ---------------------------------------------------------------- evaluation

    def __call__(self, x: ArrayLike) -> np.ndarray:
        """Rate of change at points.

        Parameters
        ----------
        x : array_like (..., d)
            Points in state space.

        Returns
        -------
        ndarray (..., d)
            dx/dt in float64.

        Raises
        ------
        ValueError
            If the last axis has not length d, or the points are not real numbers.

        Examples
        --------
        >>> from fim_dynsys import SymbolicField
        >>> SymbolicField({"x": "v", "v": "-x"})([[1.0, 0.0], [0.5, 2.0]]).tolist()
        [[0.0, -1.0], [2.0, -0.5]]
        """
        x, rows = self._rows(x)
        with np.errstate(all="ignore"):  # what overflows is infinite, and comes out as that
            return np.asarray(self._rhs(rows), dtype=float).reshape(x.shape)

    def jacobian(self, x: ArrayLike) -> np.ndarray:
        """Jacobian J[..., i, j] = d f_i / d x_j at points ``(..., d)``, shape ``(..., d, d)``.

        Examples
        --------
        >>> from fim_dynsys import SymbolicField
        >>> SymbolicField({"x": "v", "v": "-x"}).jacobian([1.0, 0.0]).tolist()
        [[0.0, 1.0], [-1.0, 0.0]]
        """
        x, rows = self._rows(x)
        with np.errstate(all="ignore"):
            return np.asarray(self._jac(rows), dtype=float).reshape(*x.shape, self.dim)

    def directional(self, x: ArrayLike, *directions: ArrayLike) -> np.ndarray:
        """k-th directional derivative D^k f(x)[v1, ..., vk], linear and symmetric in the directions.

        Parameters
        ----------
        x : array_like (..., d)
            Points.
        *directions : array_like, each broadcastable to x
            One direction per order of differentiation; may be complex (as in normal forms), in which case
            the result is the multilinear extension.

        Returns
        -------
        ndarray (..., d)
            Real, or complex if a direction is.

        Raises
        ------
        ValueError
            If no direction is given or a shape does not fit.

        Examples
        --------
        >>> from fim_dynsys import SymbolicField
        >>> SymbolicField({"x": "x^3"}).directional([2.0], [1.0], [1.0]).tolist()  # 6 x
        [12.0]
        """
        if not directions:
            raise ValueError(f"{type(self).__name__}.directional: expected at least one direction, got none.")
        x, rows = self._rows(x)
        parts = []
        for direction in map(np.asarray, directions):
            try:
                v = np.broadcast_to(direction, x.shape).reshape(rows.shape)
            except ValueError:
                raise ValueError(
                    f"{type(self).__name__}.directional: expected directions that broadcast to {x.shape}, "
                    f"got {direction.shape}."
                ) from None
            parts.append([(1.0, v.real), (1j, v.imag)] if np.iscomplexobj(v) else [(1.0, v)])
        choices = list(product(*parts))
        real = [
            np.concatenate([np.asarray(c[k][1], dtype=float) for c in choices]) for k in range(len(parts))
        ]
        with np.errstate(all="ignore"):
            values = self._directional(np.tile(rows, (len(choices), 1)), real).reshape(-1, *x.shape)
            return sum(np.prod([w for w, _ in c]) * value for c, value in zip(choices, values, strict=True))

    def scale(self, x: ArrayLike) -> np.ndarray | None:
        """One calibrated standard deviation of f at points, ``(..., d)``; None where a model has none.

        Examples
        --------
        >>> from fim_dynsys import SymbolicField
        >>> SymbolicField({"x": "-x"}).scale([1.0]) is None
        True
        """
        self._rows(x)
        return None

    def draws(self, n: int, seed: int = 0) -> "Sequence[VectorField] | None":
        """n whole fields drawn from the posterior, of equal weight; None where a field has none.

        Examples
        --------
        >>> from fim_dynsys import SymbolicField
        >>> SymbolicField({"x": "-x"}).draws(3) is None
        True
        """
        return None

    @property
    def standard_errors(self) -> np.ndarray | None:
        """Standard errors of the coefficients, in their shape; None where they are not known."""
        return None

    @property
    def _has_errors(self) -> bool:
        """Whether equations can be given with standard errors."""
        return self.standard_errors is not None

    def terms(self) -> list[list[str]] | None:
        """Names of the terms in each right-hand side, sorted; None where the field is no sum of terms.

        Examples
        --------
        >>> import numpy as np
        >>> import fim_dynsys
        >>> t = np.linspace(0.0, 4.0, 41)
        >>> fim_dynsys.load("sindy-strong").fit(np.exp(-0.5 * t), t).field_.terms()
        [['x0']]
        """
        return None

    def support(self, x: ArrayLike) -> np.ndarray:
        """Support of the field at points, in (0, 1]: high where data lie near, or determine the field.

        The first part is ``exp(-max(0, r - 1))``, r the whitened distance to the nearest smoothed observation
        divided by the 95 % quantile of the whitened distances between successive smoothed observations. Where
        the field has a posterior (`scale`), the second is ``exp(-max(0, u - 1))``, u the largest standard
        deviation in units of a tenth of the field's speed plus the distance from the data's box in units of a
        tenth of the length scale; the larger part counts. *Supported* means at least 0.5. It says what the
        data tell of the field, not whether the model is right. A field without data is supported everywhere.

        Parameters
        ----------
        x : array_like (..., d)
            Points.

        Returns
        -------
        ndarray (...)
            Support; NaN for non-finite points.

        Examples
        --------
        >>> from fim_dynsys import SymbolicField
        >>> SymbolicField({"x": "-x"}).support([[0.0], [100.0]]).tolist()  # without data
        [1.0, 1.0]
        """
        x, rows = self._rows(x)
        with np.errstate(all="ignore"):
            return self._support(rows).reshape(x.shape[:-1])

    def ivp(self, t: float, x: ArrayLike) -> np.ndarray:
        """Right-hand side with the signature of `scipy.integrate.solve_ivp`: x is ``(d,)`` or ``(d, k)``.

        Examples
        --------
        >>> from scipy.integrate import solve_ivp
        >>> from fim_dynsys import SymbolicField
        >>> path = solve_ivp(SymbolicField({"x": "-x"}).ivp, (0.0, 1.0), [1.0], rtol=1e-8)
        >>> round(float(path.y[0, -1]), 4)  # 1 / e
        0.3679
        """
        x = np.asarray(x)
        return self(x) if x.ndim < 2 else self(x.T).T

    @classmethod
    def stack(cls, fields: Sequence[Self]) -> StackedRates:
        """One function for many fields of this kind.

        Parameters
        ----------
        fields : sequence of VectorField
            Fields of this class and of one dimension.

        Returns
        -------
        callable
            ``f(x (n, d), which (n,) int) -> (n, d)`` whose row i is ``fields[which[i]]`` at ``x[i]``. This
            base version groups rows by field; kinds with a common formula override it.
        """
        return _GroupedRows(tuple(fields))

    # ---------------------------------------------------------------- hooks

    @abc.abstractmethod
    def _rhs(self, x: np.ndarray) -> np.ndarray:
        """f at rows ``(n, d)`` of float64, as ``(n, d)`` of float64; rows must not influence each other."""

    def _jac(self, x: np.ndarray) -> np.ndarray:
        """Jacobian at rows, here by fourth-order central differences: error O(h^4), about 1e-11 relative.

        The step is the fifth root of machine epsilon times the length scale, which balances the truncation
        error h^4 against the rounding error eps/h.
        """
        return self._differenced(x, DIFFERENCE)

    def _differenced(self, x: np.ndarray, step: float) -> np.ndarray:
        """Jacobian at rows by fourth-order central differences, with a step relative to the length scale."""
        n, d = x.shape
        h = step * self._step_scale(x)
        steps, states = np.zeros((4, d, n, d)), np.arange(d)
        steps[:, states, :, states] = _MULTIPLES * h.T[:, None]
        f = np.asarray(self._rhs((x + steps).reshape(-1, d)), dtype=float).reshape(4, d, n, d)
        columns = (8.0 * (f[0] - f[1]) - (f[2] - f[3])) / (12.0 * h.T[:, :, None])
        return columns.transpose(1, 2, 0)

    def _directional(self, x: np.ndarray, directions: Sequence[np.ndarray]) -> np.ndarray:
        """D^k f at rows for real directions, here by nested central differences.

        One order is taken from `_jac`; the others by central differences, extrapolated once, hence error
        O(h^4) with h = (480 eps)^(1/(k + 3)) of the length scale, where 480 comes from the extrapolated
        remainder h^4 / 480. Relative errors are about 1e-13 for k = 2 and 1e-11 for k = 3 when `_jac` is
        exact, else 1e-10 and 1e-8.
        """
        first, others = directions[0], directions[1:]
        if not others:
            return np.einsum("nij,nj->ni", self._jac(x), first)
        scale = self._step_scale(x)
        sizes = [np.linalg.norm(v / scale, axis=1, keepdims=True) for v in others]
        units = [v / np.where(s > 0, s, 1.0) for v, s in zip(others, sizes, strict=True)]
        m = len(others)
        h = (480.0 * _EPS) ** (1.0 / (m + 4))
        coarse, fine = self._mixed_differences(x, first, units, (h, h / 2))
        return (4.0 * fine - coarse) / 3.0 * np.prod(sizes, axis=0)

    def _mixed_differences(
        self, x: np.ndarray, first: np.ndarray, units: list[np.ndarray], steps: tuple[float, ...]
    ) -> list[np.ndarray]:
        """Central differences over all units of Df(x)[first], for each step h; second order in h."""
        signs = np.array(list(product((1.0, -1.0), repeat=len(units))))
        ways = np.einsum("sk,knd->snd", signs, np.array(units))
        points = np.concatenate([x + h * ways for h in steps])
        jac = np.asarray(self._jac(points.reshape(-1, self.dim)), dtype=float)
        jac = jac.reshape(len(steps), len(signs), *x.shape, self.dim)
        out = []
        for h, matrix in zip(steps, jac, strict=True):
            along = np.einsum("snij,nj->sni", matrix, first)
            out.append(np.einsum("s,sni->ni", signs.prod(axis=1), along) / (2.0 * h) ** len(units))
        return out

    def _step_scale(self, x: np.ndarray) -> np.ndarray:
        """Length per row and state that finite-difference steps are relative to, ``(n, d)``."""
        if self.frame.length is None:
            return np.maximum(1.0, np.abs(x))
        return np.maximum(self.frame.length, 1e-3 * np.abs(x))

    def _support(self, x: np.ndarray) -> np.ndarray:
        """Support at rows ``(n, d)``, shape (n,)."""
        support = self._frame.support(x)
        far = support < 1.0
        scale = self.scale(x[far]) if self.context is not None and far.any() else None
        if self.context is not None and scale is not None:
            box, sizes = self.context.box(), self.scales
            outside = x[far] - np.clip(x[far], box.low, box.high)
            known = support_of_posterior(scale, sizes.speed, outside, sizes.length)
            support[far] = np.maximum(support[far], known)
        return support

    # ---------------------------------------------------------------- internals

    def _in_errors(self) -> str:
        """The field in errors: its class says nothing to callers of a model."""
        shown = ", ".join(self.state_names[:_NAMED]) + (", ..." if self.dim > _NAMED else "")
        return f"field of the state{'s' if self.dim > 1 else ''} {shown}"

    def _rows(self, points: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Checked points (..., d) in float64, and the same as rows (n, d)."""
        if isinstance(points, np.ndarray) and points.dtype == np.float64:
            x = np.asarray(points)
        else:
            x = real_array(points, self._in_errors(), "points")
        if x.ndim == 0 or x.shape[-1] != self.dim:
            raise ValueError(
                f"{self._in_errors()}: expected points of shape (..., {self.dim}), a value for each state, "
                f"got {x.shape}."
            )
        return x, np.ascontiguousarray(x.reshape(-1, self.dim))  # sums depend on how arrays lie in memory


class _GroupedRows:
    """Evaluates row i by field which[i], one call per field present."""

    def __init__(self, fields: tuple[VectorField, ...]):
        self._fields = fields

    def __call__(self, x: np.ndarray, which: np.ndarray) -> np.ndarray:
        if len(which) and (which == which[0]).all():
            return self._fields[which[0]]._rhs(x)
        out = np.empty_like(x)
        for member in np.unique(which):
            rows = which == member
            out[rows] = self._fields[member]._rhs(x[rows])
        return out
