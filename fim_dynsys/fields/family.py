"""FieldFamily: vector fields with one parameter, given by a function or interpolated between fields."""

import abc

import numpy as np
from scipy.interpolate import make_interp_spline

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.frame import Scales
from fim_dynsys.fields.pooling import PooledRegression
from fim_dynsys.fields.terms import union
from fim_dynsys.regions import Region

_EPS = np.finfo(float).eps
_POINTS_PER_FIELD = 64  # at which fields without closed form are compared


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
        basis = _Basis.of(fields)
        if interpolate == "polynomial":
            return PooledFamily(p, fields, parameter, basis, basis.regression(p))
        curve = make_interp_spline(p, basis.coefficients, k=min(3, len(p) - 1))
        return _CurveFamily(p, fields, parameter, basis, curve)

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


class _CurveFamily(_MeasuredFamily):
    """Sums of terms with coefficients that are a curve in p: ``curve(p)`` and ``curve(p, 1)``, (M, c)."""

    def __init__(self, p, fields, parameter, basis, curve):
        super().__init__(p, fields, parameter)
        self._basis = basis
        self.curve = curve

    def _at(self, p):
        return self._basis.member(self, p)

    def _dp(self, x, p):
        return self._basis.sum("_rhs", self.curve(p, 1), x)


class PooledFamily(_CurveFamily):
    """A family whose coefficients are polynomials in p, fitted to all fields; see `from_fields`."""

    def __init__(self, p, fields, parameter, basis, regression, weights=None):
        super().__init__(p, fields, parameter, basis, regression.curve(weights))
        self._regression = regression

    @property
    def degree(self) -> int:
        """Degree of the polynomials in p."""
        return self.curve.degree

    def bootstrap(self, n, seed=0):
        """Families fitted to resampled parameter values, the degree chosen anew each time.

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
        members = []
        while len(members) < n:
            weights = np.bincount(rng.integers(count, size=count), minlength=count)
            if np.count_nonzero(weights) > 2:
                members.append(
                    PooledFamily(self.p, self.fields, self.parameter, self._basis, self._regression, weights)
                )
        return members


# ---------------------------------------------------------------------- what fields between are made of


class _Basis(abc.ABC):
    """The terms that fields between measured values are sums of."""

    @staticmethod
    def of(fields):
        """The merged dictionary where all fields are dictionaries, else the fields themselves."""
        known = all(isinstance(field, DictionaryField) for field in fields)
        return _Terms(fields) if known else _Weights(fields)

    @abc.abstractmethod
    def sum(self, method, coefficients, *arguments):
        """Apply a method of fields (``_rhs``, ``_jac``, ``_directional``) to the sum of terms."""

    @abc.abstractmethod
    def member(self, family, p):
        """The field of the number p."""

    @abc.abstractmethod
    def regression(self, p):
        """The regression of the measured fields on polynomials in p."""


class _Terms(_Basis):
    """Terms of dictionaries, each once, with the coefficients (K, M, d) of the measured fields."""

    def __init__(self, fields):
        self.fields = fields
        self.dictionary, index = union([field.dictionary for field in fields])
        shape = (len(fields), len(self.dictionary), fields[0].dim)
        self.coefficients = np.zeros(shape)
        for row, field, places in zip(self.coefficients, fields, index, strict=True):
            np.add.at(row, places, field.coefficients)

    def sum(self, method, coefficients, *arguments):
        return getattr(DictionaryField(self.dictionary, coefficients), method)(*arguments)

    def member(self, family, p):
        return _DictionaryMember(family, self.dictionary, p)

    def regression(self, p):
        columns = [self.dictionary.columns(_data_of(field).T) for field in self.fields]
        grams = np.array([values @ values.T for values in columns])
        # Least squares of each state on its own: only the choice of the degree weighs them by their speed.
        return PooledRegression(p, grams, self.coefficients, _speed(self.fields))


class _Weights(_Basis):
    """The measured fields themselves, with unit coefficients (K, K, 1)."""

    def __init__(self, fields):
        self.fields = fields
        self.coefficients = np.eye(len(fields))[:, :, None]

    def sum(self, method, coefficients, *arguments):
        values = (getattr(field, method)(*arguments) for field in self.fields)
        return sum(w * value for w, value in zip(coefficients[:, 0], values, strict=True))

    def member(self, family, p):
        return _WeightedMember(family, self, p)

    def regression(self, p):
        speed = _speed(self.fields)
        grams = []
        for here in self.fields:
            x = _data_of(here)
            x = x[:: -(-len(x) // _POINTS_PER_FIELD)]
            values = np.stack([(field._rhs(x) / speed).ravel() for field in self.fields])
            grams.append(values @ values.T)
        return PooledRegression(p, np.array(grams), self.coefficients, np.ones(1))


class _DictionaryMember(DictionaryField):
    """A field between, of a family of dictionaries."""

    def __init__(self, family, dictionary, p):
        super().__init__(dictionary, family.curve(p), **family._options())
        self._family, self._p = family, p

    def _support(self, x):
        return self._family.support(x, self._p)


class _WeightedMember(VectorField):
    """A field between, a sum of the measured ones."""

    def __init__(self, family, basis, p):
        super().__init__(family.dim, **family._options())
        self._family, self._basis, self._p = family, basis, p
        self._weights = family.curve(p)

    def _rhs(self, x):
        return self._basis.sum("_rhs", self._weights, x)

    def _jac(self, x):
        return self._basis.sum("_jac", self._weights, x)

    def _directional(self, x, directions):
        return self._basis.sum("_directional", self._weights, x, directions)

    def _support(self, x):
        return self._family.support(x, self._p)


def _data_of(field):
    """States (n, d) that tell where a field was determined: its smoothed data, else points of its region."""
    if field.smoothed is not None:
        return np.concatenate(field.smoothed.states)
    if field.region is not None:
        return field.region.sobol(_POINTS_PER_FIELD)
    raise ValueError(
        "from_fields: expected fields with data or a region, so that polynomials can be fitted where they "
        "hold, got one without; give it a region, or pass interpolate='spline'."
    )


def _speed(fields):
    return np.sqrt(np.mean([field.scales.speed**2 for field in fields], axis=0))


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
