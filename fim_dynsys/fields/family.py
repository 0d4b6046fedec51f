"""FieldFamily: vector fields with one parameter, given by a function or interpolated between fields."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.bases import Basis
from fim_dynsys.fields.callable import CallableField, check_arguments
from fim_dynsys.fields.frame import Scales
from fim_dynsys.fields.pooling import PolynomialCurve, PooledRegression
from fim_dynsys.fields.presentation import html_block
from fim_dynsys.regions import Region

_EPS = np.finfo(float).eps

Rates = Callable[[np.ndarray, float], ArrayLike]
"""A function of points (n, d) and one value of the parameter."""


Curve = Callable[..., np.ndarray]
"""``curve(p)``, coefficients (M, c), and ``curve(p, 1)``, their derivatives."""


class FieldFamily(abc.ABC):
    """Fields dx/dt = f(x, p) with one parameter p; see `from_callable` and `from_fields`.

    Attributes
    ----------
    dim : int
        Number of states d.
    parameter : str
        Name of the parameter.
    smooth : bool
        Whether f may be evaluated between known parameter values and is twice differentiable in p; what
        continuation needs.
    state_names : tuple of str
    region : Region or None
        Box in which the fields are meant to be used.
    scales : Scales or None
        Length, speed and time scale shared by the fields; None where nothing is known.
    knows_dp : bool
        Whether `dp` is exact, or differenced with steps of a known scale of the parameter.
    """

    smooth = True
    knows_dp = True

    def __init__(
        self,
        dim: int,
        parameter: str,
        *,
        state_names: Sequence[str] | None = None,
        region: Region | None = None,
        scales: Scales | None = None,
    ):
        self.dim = int(dim)
        self.parameter = str(parameter)
        names = tuple(f"x{i}" for i in range(self.dim)) if state_names is None else state_names
        self.state_names = tuple(str(name) for name in names)
        self.region = None if region is None else region.of_states(self.state_names, type(self).__name__)
        self.scales = scales
        self._latest: tuple[float, VectorField] | None = None

    # ---------------------------------------------------------------- constructors

    @staticmethod
    def from_callable(
        fn: Rates,
        dim: int,
        parameter: str = "p",
        *,
        jac: Rates | None = None,
        dp: Rates | None = None,
        parameter_scale: float | None = None,
        **kwargs: Any,
    ) -> FieldFamily:
        """Family of a function.

        Parameters
        ----------
        fn : callable
            ``fn(x (n, d), p) -> (n, d)``, the rate of change at n points for one number p.
        dim : int
            Number of states d.
        parameter : str
            Name of the parameter.
        jac : callable, optional
            ``jac(x (n, d), p) -> (n, d, d)`` with ``[:, i, j] = d f_i / d x_j``; without it, fourth-order
            central differences, with steps relative to the region's size, or else to the lengths on which an
            analysis finds the family to bend.
        dp : callable, optional
            ``dp(x (n, d), p) -> (n, d)``, the derivative by p; without it, fourth-order central differences
            with steps relative to `parameter_scale`.
        parameter_scale : float, optional
            Size of a typical change of p; default 1, or a share of the range in which an analysis looks.
        **kwargs
            ``state_names`` and ``scales`` as for `VectorField`; ``region``, a Region or what makes one.

        Returns
        -------
        FieldFamily

        Examples
        --------
        >>> import numpy as np
        >>> family = FieldFamily.from_callable(lambda x, mu: mu - x**2, 1, "mu")
        >>> family([3.0], 1.0)
        array([-8.])
        """
        if kwargs.get("region") is not None:
            kwargs["region"] = Region(kwargs["region"])
        return _CallableFamily(fn, dim, parameter, jac, dp, parameter_scale, **kwargs)

    @staticmethod
    def from_fields(
        p: ArrayLike, fields: Iterable[VectorField], interpolate: str | None = "spline", parameter: str = "p"
    ) -> FieldFamily:
        """Family of fields that are known at some parameter values.

        Parameters
        ----------
        p : array_like (K,)
            Different parameter values, in any order.
        fields : sequence of K VectorField
            The field at each value, all of one dimension.
        interpolate : {"spline", "polynomial", None}
            ``"spline"``: field values between are those of the cubic spline in p (of lower degree for fewer
            than four fields) through the values at x. It goes through every field exactly, so noise of the
            fields becomes wiggles in p. ``"polynomial"``, for fields inferred from noisy data: polynomials
            in p fitted to all fields, each counted where its own data lie, of the degree (at most 4) that
            predicts left-out fields best. Either way, where all fields are dictionaries, so is each field
            between. ``None``: fields exist at the given values only, and the family is not smooth.
        parameter : str
            Name of the parameter.

        Returns
        -------
        FieldFamily

        Raises
        ------
        ValueError
            If values repeat, numbers do not fit, or the interpolation is unknown.
        """
        p, fields = _checked_members(p, fields)
        if interpolate is None:
            return _DiscreteFamily(p, fields, parameter)
        if interpolate not in ("spline", "polynomial"):
            raise ValueError(
                f"from_fields: expected interpolate='spline', 'polynomial' or None, got {interpolate!r}."
            )
        if len(p) < 2:
            raise ValueError("from_fields: expected at least two fields to interpolate between, got one.")
        basis = Basis.of(fields)
        if interpolate == "polynomial":
            return PooledFamily(p, fields, parameter, basis, basis.regression(p))
        from scipy.interpolate import make_interp_spline  # deferred, as most fields have no parameter

        curve = make_interp_spline(p, basis.coefficients, k=min(3, len(p) - 1))
        return _CurveFamily(p, fields, parameter, basis, curve)

    # ---------------------------------------------------------------- evaluation

    def __call__(self, x: ArrayLike, p: float) -> np.ndarray:
        """Rate of change (..., d) at points (..., d) for the parameter value p."""
        return self.at(p)(x)

    def jacobian(self, x: ArrayLike, p: float) -> np.ndarray:
        """Jacobian (..., d, d) by the states at points (..., d) for the parameter value p."""
        return self.at(p).jacobian(x)

    def dp(self, x: ArrayLike, p: float) -> np.ndarray:
        """Derivative (..., d) by the parameter at points (..., d) for the parameter value p."""
        x, p = np.asarray(x, dtype=float), _number(p)
        return self._dp(x.reshape(-1, self.dim), p).reshape(x.shape)

    def support(self, x: ArrayLike, p: float) -> np.ndarray:
        """Support (...) by data at points (..., d) for the parameter value p; see `VectorField.support`."""
        return self.at(p).support(x)

    def at(self, p: float) -> VectorField:
        """The field of one parameter value."""
        p = _number(p)
        if self._latest is None or self._latest[0] != p:
            self._latest = (p, self._at(p))
        return self._latest[1]

    def __repr__(self) -> str:
        kind = "smooth" if self.smooth else "discrete"
        return f"FieldFamily(dim={self.dim}, parameter={self.parameter!r}, {kind})"

    def _repr_html_(self) -> str:
        rows = {"states": ", ".join(self.state_names), "parameter": self.parameter}
        rows |= {"values": "any" if self.smooth else "measured ones only"}
        if self.region is not None:
            rows["region"] = str(self.region)
        return html_block("FieldFamily", rows)

    @abc.abstractmethod
    def _at(self, p: float) -> VectorField:
        """The field of the number p."""

    @abc.abstractmethod
    def _dp(self, x: np.ndarray, p: float) -> np.ndarray:
        """Derivative by p at rows (n, d)."""


def differenced(rates: Callable[[float], np.ndarray], p: float, scale: float = 1.0) -> np.ndarray:
    """Derivative by p of rates (n, d), by fourth-order central differences.

    Parameters
    ----------
    rates : callable
        ``rates(p) -> (n, d)``.
    p : float
        Where.
    scale : float
        Change of p that matters.

    Returns
    -------
    ndarray (n, d)
    """
    # The fifth root balances the truncation error h^4 against the rounding error eps / h.
    h = _EPS**0.2 * max(scale, 1e-3 * abs(p))
    with np.errstate(all="ignore"):  # as for fields
        f = [rates(p + k * h) for k in (1, -1, 2, -2)]
        return (8.0 * (f[0] - f[1]) - (f[2] - f[3])) / (12.0 * h)


class _CallableFamily(FieldFamily):
    """A family given by a function of points and a number."""

    def __init__(
        self,
        fn: Rates,
        dim: int,
        parameter: str,
        jac: Rates | None,
        dp: Rates | None,
        parameter_scale: float | None,
        **kwargs: Any,
    ):
        if not callable(fn) or not all(part is None or callable(part) for part in (jac, dp)):
            raise TypeError(f"from_callable: expected functions fn, jac and dp, got {fn!r}, {jac!r}, {dp!r}.")
        for part in (fn, jac, dp):
            if part is not None:
                check_arguments("from_callable", part, ("x", "p"))
        if parameter_scale is not None and not 0 < parameter_scale < np.inf:
            raise ValueError(f"from_callable: expected a positive parameter_scale, got {parameter_scale}.")
        super().__init__(dim, parameter, **kwargs)
        self._fn, self._jac_fn, self._dp_fn = fn, jac, dp
        self._parameter_scale = 1.0 if parameter_scale is None else float(parameter_scale)
        self.knows_dp = dp is not None or parameter_scale is not None

    def _at(self, p: float) -> VectorField:
        jac = self._jac_fn
        return CallableField(
            lambda x: self._fn(x, p),
            self.dim,
            None if jac is None else lambda x: jac(x, p),
            state_names=self.state_names,
            region=self.region,
            scales=self.scales,
        )

    def _dp(self, x: np.ndarray, p: float) -> np.ndarray:
        if self._dp_fn is not None:
            return np.asarray(self._dp_fn(x, p), dtype=float)
        return differenced(lambda p: np.asarray(self._fn(x, p), dtype=float), p, self._parameter_scale)


class _MeasuredFamily(FieldFamily):
    """What families of known fields have in common.

    Attributes
    ----------
    p : ndarray (K,)
        Increasing parameter values.
    fields : tuple of K VectorField
        The field at each.
    """

    def __init__(self, p: np.ndarray, fields: tuple[VectorField, ...], parameter: str):
        boxes = [field.region for field in fields if field.region is not None]
        region = reduce(Region.union, boxes) if boxes else None
        super().__init__(
            fields[0].dim,
            parameter,
            state_names=fields[0].state_names,
            region=region,
            scales=common_scales(fields),
        )
        self.p = p
        self.fields = fields

    def support(self, x: ArrayLike, p: float) -> np.ndarray:
        """Support at points: the larger that the fields of the measured values on both sides of p give."""
        right = int(np.clip(np.searchsorted(self.p, p), 0, len(self.p) - 1))
        left = max(right - 1, 0) if self.p[right] != p else right
        return np.maximum(self.fields[left].support(x), self.fields[right].support(x))

    def _options(self) -> dict[str, Any]:
        return {"state_names": self.state_names, "region": self.region, "scales": self.scales}


class _DiscreteFamily(_MeasuredFamily):
    """Fields at some parameter values, and nothing between."""

    smooth = False

    def _at(self, p: float) -> VectorField:
        index = np.flatnonzero(self.p == p)
        if not len(index):
            raise ValueError(
                f"FieldFamily: expected a measured value of {self.parameter}, one of {self.p.tolist()}, got "
                f"{p}; pass interpolate='spline' to from_fields for the values between."
            )
        return self.fields[index[0]]

    def _dp(self, x: np.ndarray, p: float) -> np.ndarray:
        raise ValueError(
            f"FieldFamily: expected a smooth family for the derivative by {self.parameter}, got one without "
            "interpolation; pass interpolate='spline' to from_fields."
        )


class _CurveFamily(_MeasuredFamily):
    """Sums of terms with coefficients that are a curve in p: ``curve(p)`` and ``curve(p, 1)``, (M, c)."""

    def __init__(
        self, p: np.ndarray, fields: tuple[VectorField, ...], parameter: str, basis: Basis, curve: Curve
    ):
        super().__init__(p, fields, parameter)
        self._basis = basis
        self.curve = curve

    def _at(self, p: float) -> VectorField:
        return self._basis.member(self.curve(p), partial(self.support, p=p), **self._options())

    def _dp(self, x: np.ndarray, p: float) -> np.ndarray:
        return self._basis.sum("_rhs", self.curve(p, 1), x)


class PooledFamily(_CurveFamily):
    """A family whose coefficients are polynomials in p, fitted to all fields; see `from_fields`."""

    curve: PolynomialCurve

    def __init__(
        self,
        p: np.ndarray,
        fields: tuple[VectorField, ...],
        parameter: str,
        basis: Basis,
        regression: PooledRegression,
        weights: np.ndarray | None = None,
    ):
        super().__init__(p, fields, parameter, basis, regression.curve(weights))
        self._regression = regression

    @property
    def degree(self) -> int:
        """Degree of the polynomials in p."""
        return self.curve.degree

    def varied(self, values: np.ndarray) -> FieldFamily:
        """The same with other values (degree + 1, M, c) of the polynomials' coefficients."""
        curve = PolynomialCurve(self.curve.low, self.curve.high, values)
        return _CurveFamily(self.p, self.fields, self.parameter, self._basis, curve)

    def variance(self, gradient: np.ndarray, at: float | None = None) -> float:
        """Variance of a number with this gradient by ``curve.values``, see `PooledRegression.variance`."""
        return self._regression.variance(gradient, at)

    def bootstrap(self, n: int, seed: int = 0) -> list[PooledFamily]:
        """Families fitted to resampled parameter values, the degree chosen each time.

        Parameters
        ----------
        n : int
            How many.
        seed : int
            Of the resampling.

        Returns
        -------
        list of PooledFamily
            Each from K values drawn with replacement, at least three of them different.

        Raises
        ------
        ValueError
            For fewer than four parameter values.

        References
        ----------
        B. Efron, R. J. Tibshirani, An Introduction to the Bootstrap, Chapman and Hall 1993, section 9.5
        (bootstrapping pairs).
        """
        count = len(self.p)
        if count < 4:
            raise ValueError(
                f"bootstrap: expected at least 4 values of {self.parameter}, got {count}; measure at more."
            )
        rng = np.random.default_rng(seed)
        members: list[PooledFamily] = []
        while len(members) < n:
            weights = np.bincount(rng.integers(count, size=count), minlength=count)
            if np.count_nonzero(weights) > 2:
                members.append(
                    PooledFamily(self.p, self.fields, self.parameter, self._basis, self._regression, weights)
                )
        return members


def common_scales(fields: Sequence[VectorField]) -> Scales | None:
    """Root mean square of the fields' scales; None where a field knows none."""
    if any(field.frame.length is None for field in fields):
        return None
    scales = [field.scales for field in fields]
    length, speed = (
        np.sqrt(np.mean([getattr(s, name) ** 2 for s in scales], axis=0)) for name in ("length", "speed")
    )
    return Scales(length, speed, float(np.sqrt(np.mean([s.time**2 for s in scales]))))


def _checked_members(
    p: ArrayLike, fields: Iterable[VectorField]
) -> tuple[np.ndarray, tuple[VectorField, ...]]:
    p, fields = np.asarray(p, dtype=float), list(fields)
    if p.ndim != 1 or len(p) != len(fields) or not len(p):
        raise ValueError(
            f"from_fields: expected one parameter value per field, got shape {p.shape} and {len(fields)}."
        )
    wrong = [type(field).__name__ for field in fields if not isinstance(field, VectorField)]
    if wrong:
        raise TypeError(f"from_fields: expected VectorFields, got {wrong[0]}; pass a fitted model's field_.")
    if not np.isfinite(p).all() or len(np.unique(p)) < len(p):
        raise ValueError(f"from_fields: expected different finite parameter values, got {p.tolist()}.")
    dims = sorted({field.dim for field in fields})
    if len(dims) > 1:
        raise ValueError(f"from_fields: expected fields of one dimension, got {dims}.")
    order = np.argsort(p)
    return p[order], tuple(fields[i] for i in order)


def _number(p: float) -> float:
    value = np.asarray(p)
    if value.ndim or value.dtype.kind not in "iuf" or not np.isfinite(value):
        raise ValueError(f"FieldFamily: expected one finite number as parameter, got {p!r}.")
    return float(value)
