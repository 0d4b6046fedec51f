"""FieldFamily: vector fields with one parameter, given by a function or interpolated between fields."""

import abc

import numpy as np
from scipy.interpolate import make_interp_spline

from fim_dynsys.field import CallableField, Scales, VectorField
from fim_dynsys.regions import Region
from fim_dynsys.regression.fields import DictionaryField
from fim_dynsys.regression.terms import union

_EPS = np.finfo(float).eps


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
    """

    smooth = True

    def __init__(self, dim, parameter, *, state_names=None, region=None, scales=None):
        self.dim = int(dim)
        self.parameter = str(parameter)
        names = tuple(f"x{i}" for i in range(self.dim)) if state_names is None else state_names
        self.state_names = tuple(str(name) for name in names)
        self.region = region
        self.scales = scales
        self._latest = (None, None)

    # ---------------------------------------------------------------- constructors

    @staticmethod
    def from_callable(fn, dim, parameter="p", *, jac=None, dp=None, parameter_scale=1.0, **kwargs):
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
            central differences, with steps relative to the region's size where there is one.
        dp : callable, optional
            ``dp(x (n, d), p) -> (n, d)``, the derivative by p; without it, fourth-order central differences
            with steps relative to `parameter_scale`.
        parameter_scale : float
            Size of a typical change of p.
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
    def from_fields(p, fields, interpolate="spline", parameter="p"):
        """Family of fields that are known at some parameter values.

        Parameters
        ----------
        p : array_like (K,)
            Different parameter values, in any order.
        fields : sequence of K VectorField
            The field at each value, all of one dimension.
        interpolate : {"spline", None}
            ``"spline"``: field values between are those of the cubic spline in p (of lower degree for fewer
            than four fields) through the values at x; where all fields are dictionaries, so is each field
            between, with interpolated coefficients. It goes through every field exactly, so noise of the
            fields becomes wiggles in p. ``None``: fields exist at the given values only, and the family is
            not smooth.
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
        if interpolate != "spline":
            raise ValueError(f"from_fields: expected interpolate='spline' or None, got {interpolate!r}.")
        if len(p) < 2:
            raise ValueError("from_fields: expected at least two fields to interpolate between, got one.")
        degree = min(3, len(p) - 1)
        if all(isinstance(field, DictionaryField) for field in fields):
            dictionary, coefficients = _merged(fields)
            curve = make_interp_spline(p, coefficients, k=degree)
            return DictionaryFamily(p, fields, parameter, dictionary, curve)
        weights = make_interp_spline(p, np.eye(len(p)), k=degree)
        return _WeightedFamily(p, fields, parameter, weights)

    # ---------------------------------------------------------------- evaluation

    def __call__(self, x, p):
        """Rate of change (..., d) at points (..., d) for the parameter value p."""
        return self.at(p)(x)

    def jacobian(self, x, p):
        """Jacobian (..., d, d) by the states at points (..., d) for the parameter value p."""
        return self.at(p).jacobian(x)

    def dp(self, x, p):
        """Derivative (..., d) by the parameter at points (..., d) for the parameter value p."""
        x, p = np.asarray(x, dtype=float), _number(p)
        return self._dp(x.reshape(-1, self.dim), p).reshape(x.shape)

    def support(self, x, p):
        """Support (...) by data at points (..., d) for the parameter value p; see `VectorField.support`."""
        return self.at(p).support(x)

    def at(self, p) -> VectorField:
        """The field of one parameter value."""
        p = _number(p)
        known, field = self._latest
        if known != p:
            field = self._at(p)
            self._latest = (p, field)
        return field

    def __repr__(self):
        kind = "smooth" if self.smooth else "discrete"
        return f"FieldFamily(dim={self.dim}, parameter={self.parameter!r}, {kind})"

    @abc.abstractmethod
    def _at(self, p) -> VectorField:
        """The field of the number p."""

    @abc.abstractmethod
    def _dp(self, x, p) -> np.ndarray:
        """Derivative by p at rows (n, d)."""


class _CallableFamily(FieldFamily):
    """A family given by a function of points and a number."""

    def __init__(self, fn, dim, parameter, jac, dp, parameter_scale, **kwargs):
        if not callable(fn) or not all(part is None or callable(part) for part in (jac, dp)):
            raise TypeError(f"from_callable: expected functions fn, jac and dp, got {fn!r}, {jac!r}, {dp!r}.")
        if not 0 < parameter_scale < np.inf:
            raise ValueError(f"from_callable: expected a positive parameter_scale, got {parameter_scale}.")
        super().__init__(dim, parameter, **kwargs)
        self._fn, self._jac_fn, self._dp_fn = fn, jac, dp
        self._parameter_scale = float(parameter_scale)

    def _at(self, p):
        return CallableField(
            lambda x: self._fn(x, p),
            self.dim,
            None if self._jac_fn is None else lambda x: self._jac_fn(x, p),
            state_names=self.state_names,
            region=self.region,
            scales=self.scales,
        )

    def _dp(self, x, p):
        if self._dp_fn is not None:
            return np.asarray(self._dp_fn(x, p), dtype=float)
        # The fifth root balances the truncation error h^4 against the rounding error eps / h.
        h = _EPS**0.2 * max(self._parameter_scale, 1e-3 * abs(p))
        f = [self._at(p + k * h)(x) for k in (1, -1, 2, -2)]
        return (8.0 * (f[0] - f[1]) - (f[2] - f[3])) / (12.0 * h)


class _MeasuredFamily(FieldFamily):
    """What families of known fields have in common.

    Attributes
    ----------
    p : ndarray (K,)
        Increasing parameter values.
    fields : tuple of K VectorField
        The field at each.
    """

    def __init__(self, p, fields, parameter):
        boxes = [field.region for field in fields if field.region is not None]
        region = boxes[0] if boxes else None
        for box in boxes[1:]:
            region = region.union(box)
        super().__init__(
            fields[0].dim,
            parameter,
            state_names=fields[0].state_names,
            region=region,
            scales=_common_scales(fields),
        )
        self.p = p
        self.fields = fields

    def support(self, x, p):
        """Support at points: the larger that the fields of the measured values on both sides of p give."""
        right = np.clip(np.searchsorted(self.p, p), 0, len(self.p) - 1)
        left = max(right - 1, 0) if self.p[right] != p else right
        return np.maximum(self.fields[left].support(x), self.fields[right].support(x))

    def _options(self):
        return {"state_names": self.state_names, "region": self.region, "scales": self.scales}


class _DiscreteFamily(_MeasuredFamily):
    """Fields at some parameter values, and nothing between."""

    smooth = False

    def _at(self, p):
        index = np.flatnonzero(self.p == p)
        if not len(index):
            raise ValueError(
                f"FieldFamily: expected a measured value of {self.parameter}, one of {self.p.tolist()}, got "
                f"{p}; pass interpolate='spline' to from_fields for the values between."
            )
        return self.fields[index[0]]

    def _dp(self, x, p):
        raise ValueError(
            f"FieldFamily: expected a smooth family for the derivative by {self.parameter}, got one without "
            "interpolation; pass interpolate='spline' to from_fields."
        )


class _WeightedFamily(_MeasuredFamily):
    """Sums of known fields with weights that are a spline in p, the same at all points."""

    def __init__(self, p, fields, parameter, weights):
        super().__init__(p, fields, parameter)
        self._weights = weights
        self._rates = weights.derivative()

    def _at(self, p):
        return _WeightedField(self, self._weights(p), p)

    def _dp(self, x, p):
        return sum(w * field._rhs(x) for w, field in zip(self._rates(p), self.fields, strict=True))


class _WeightedField(VectorField):
    """One member of a `_WeightedFamily`."""

    def __init__(self, family, weights, p):
        super().__init__(family.dim, **family._options())
        self._family, self._weights, self._p = family, weights, p

    def _sum(self, method, *arguments):
        values = (getattr(field, method)(*arguments) for field in self._family.fields)
        return sum(w * value for w, value in zip(self._weights, values, strict=True))

    def _rhs(self, x):
        return self._sum("_rhs", x)

    def _jac(self, x):
        return self._sum("_jac", x)

    def _directional(self, x, directions):
        return self._sum("_directional", x, directions)

    def _support(self, x):
        return self._family.support(x, self._p)


class DictionaryFamily(_MeasuredFamily):
    """Fields that are sums of the same terms, with coefficients that are a curve in p.

    Parameters
    ----------
    p : ndarray (K,)
        Increasing parameter values.
    fields : sequence of K VectorField
        The measured fields; they give region, scales and support.
    parameter : str
        Name of the parameter.
    dictionary : Dictionary
        M terms.
    curve : callable
        ``curve(p) -> (M, d)``, the coefficients, and ``curve(p, 1)``, their derivative by p (a BSpline).
    """

    def __init__(self, p, fields, parameter, dictionary, curve):
        super().__init__(p, fields, parameter)
        self.dictionary = dictionary
        self.curve = curve

    def _at(self, p):
        return _CurveField(self, p)

    def _dp(self, x, p):
        return self.dictionary.columns(x.T).T @ self.curve(p, 1)


class _CurveField(DictionaryField):
    """One member of a `DictionaryFamily`."""

    def __init__(self, family, p):
        super().__init__(family.dictionary, family.curve(p), **family._options())
        self._family, self._p = family, p

    def _support(self, x):
        return self._family.support(x, self._p)


def _merged(fields):
    """The terms of all fields, each once, and the coefficients (K, M, d) in them."""
    terms, index = union([field.dictionary for field in fields])
    coefficients = np.zeros((len(fields), len(terms), terms.dim))
    for row, field, places in zip(coefficients, fields, index, strict=True):
        np.add.at(row, places, field.coefficients)
    return terms, coefficients


def _common_scales(fields):
    """Root mean square of the fields' scales; None where a field knows none."""
    if any(field.length_scale is None for field in fields):
        return None
    scales = [field.scales for field in fields]
    length, speed = (
        np.sqrt(np.mean([getattr(s, name) ** 2 for s in scales], axis=0)) for name in ("length", "speed")
    )
    return Scales(length, speed, float(np.sqrt(np.mean([s.time**2 for s in scales]))))


def _checked_members(p, fields):
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


def _number(p):
    value = np.asarray(p)
    if value.ndim or value.dtype.kind not in "iuf" or not np.isfinite(value):
        raise ValueError(f"FieldFamily: expected one finite number as parameter, got {p!r}.")
    return float(value)
