"""Vector fields: what every model infers and every analysis reads."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from scipy.spatial import cKDTree

from fim_dynsys.regions import Region

_EPS = np.finfo(float).eps
_SMALLEST_WHITENED_VARIANCE = 1e-2
_SMOOTHING_WINDOWS = (5, 9, 17, 33)


@dataclass(frozen=True)
class Scales:
    """Characteristic sizes of a field, to which tolerances are relative.

    Attributes
    ----------
    length : ndarray (d,)
        Standard deviation of each observed state; never zero.
    speed : ndarray (d,)
        Root mean square of each state's rate of change along the smoothed observations; never zero.
    time : float
        ``1 / rms(speed / length)``, at most the longest observed time span.
    """

    length: np.ndarray
    speed: np.ndarray
    time: float


@dataclass(frozen=True)
class FitInfo:
    """What inference learned beside the field itself.

    Attributes
    ----------
    initial_states : ndarray (K, d) or None
        Estimated state at the first time of each observed trajectory.
    noise_level : ndarray (d,) or None
        Estimated standard deviation of the observation noise per state.
    report : dict
        Free notes of the model: candidates tried, scores, settings chosen.
    """

    initial_states: np.ndarray | None = None
    noise_level: np.ndarray | None = None
    report: dict = field(default_factory=dict)


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

    Raises
    ------
    ValueError
        If a given part has another dimension than ``dim``.
    """

    def __init__(self, dim, *, context=None, state_names=None, region=None, scales=None, fit_info=None):
        who = type(self).__name__
        self._dim = int(dim)
        if self._dim < 1:
            raise ValueError(f"{who}: expected dim >= 1, got {dim}.")
        for part, its_dim in (
            ("context", context.dim if context is not None else self._dim),
            ("region", region.dim if region is not None else self._dim),
            ("state_names", len(state_names) if state_names is not None else self._dim),
            ("scales", len(scales.length) if scales is not None else self._dim),
        ):
            if its_dim != self._dim:
                raise ValueError(f"{who}: expected {part} of dimension {self._dim}, got {its_dim}.")
        self._context = context
        self._state_names = None if state_names is None else tuple(str(name) for name in state_names)
        self._region = region
        self._scales = scales
        self._fit_info = FitInfo() if fit_info is None else fit_info
        self._length = None
        self._path = None
        self._nearness = None

    # ---------------------------------------------------------------- what a field is

    @property
    def dim(self):
        """Number of states d."""
        return self._dim

    @property
    def context(self):
        """The observations behind the field (Trajectories), or None."""
        return self._context

    @property
    def state_names(self):
        """Names of the states, a tuple of d strings."""
        if self._state_names is not None:
            return self._state_names
        if self._context is not None:
            return tuple(self._context.state_names)
        return tuple(f"x{i}" for i in range(self._dim))

    @property
    def region(self):
        """Box (Region) in which the field is meant to be used: as given, else the data's box, else None."""
        if self._region is None and self._context is not None:
            self._region = self._context.box()
        return self._region

    @property
    def fit_info(self):
        """Notes of the inference (FitInfo)."""
        return self._fit_info

    @property
    def scales(self):
        """Length, speed and time scale (Scales).

        From the context where there is one; else length from the region as the standard deviation of a
        uniform distribution and speed as the field's root mean square there; else all 1.
        """
        if self._scales is None:
            self._scales = self._compute_scales()
        return self._scales

    @property
    def length_scale(self):
        """The length part of `scales`, (d,), at a fraction of its cost; None where nothing is known."""
        if self._scales is not None:
            return self._scales.length
        if self._length is None:
            if self._context is not None:
                self._length = _frozen(_spread(np.asarray(self._context.x).reshape(-1, self._dim)))
            elif self._region is not None:
                self._length = _frozen(self._region.size / np.sqrt(12.0))
        return self._length

    def __repr__(self):
        return f"{type(self).__name__}(dim={self._dim}, states={', '.join(self.state_names)})"

    # ---------------------------------------------------------------- evaluation

    def __call__(self, x):
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
        """
        x, rows = self._rows(x)
        return np.asarray(self._rhs(rows), dtype=float).reshape(x.shape)

    def jacobian(self, x):
        """Jacobian J[..., i, j] = d f_i / d x_j at points ``(..., d)``, shape ``(..., d, d)``."""
        x, rows = self._rows(x)
        return np.asarray(self._jac(rows), dtype=float).reshape(*x.shape, self._dim)

    def directional(self, x, *directions):
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
        total = 0.0
        for choice in product(*parts):
            weight = np.prod([w for w, _ in choice])
            real = [np.asarray(v, dtype=float) for _, v in choice]
            total = total + weight * self._directional(rows, real)
        return total.reshape(x.shape)

    def scale(self, x):
        """One calibrated standard deviation of f at points, ``(..., d)``; None where a model has none."""
        self._rows(x)
        return None

    def support(self, x):
        """How well the data back the field at points: ``exp(-max(0, r - 1))`` in (0, 1].

        r is the whitened distance to the nearest smoothed observation divided by the 95 % quantile of the
        whitened distances between successive smoothed observations. *Supported* means at least 0.5. A field
        without data is supported everywhere.

        Parameters
        ----------
        x : array_like (..., d)
            Points.

        Returns
        -------
        ndarray (...)
            Support; NaN for non-finite points.
        """
        x, rows = self._rows(x)
        return self._support(rows).reshape(x.shape[:-1])

    def ivp(self, t, x):
        """Right-hand side with the signature of `scipy.integrate.solve_ivp`: x is ``(d,)`` or ``(d, k)``."""
        x = np.asarray(x)
        return self(x) if x.ndim < 2 else self(x.T).T

    @classmethod
    def stack(cls, fields):
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
    def _rhs(self, x):
        """f at rows ``(n, d)`` of float64, as ``(n, d)`` of float64; rows must not influence each other."""

    def _jac(self, x):
        """Jacobian at rows, here by fourth-order central differences: error O(h^4), about 1e-11 relative.

        The step is the fifth root of machine epsilon times the length scale, which balances the truncation
        error h^4 against the rounding error eps/h.
        """
        n, d = x.shape
        h = _EPS**0.2 * self._step_scale(x)
        steps = np.zeros((4, d, n, d))
        for k, multiple in enumerate((1.0, -1.0, 2.0, -2.0)):
            steps[k, np.arange(d), :, np.arange(d)] = multiple * h.T
        f = np.asarray(self._rhs((x + steps).reshape(-1, d)), dtype=float).reshape(4, d, n, d)
        columns = (8.0 * (f[0] - f[1]) - (f[2] - f[3])) / (12.0 * h.T[:, :, None])
        return np.moveaxis(columns, 0, 2)

    def _directional(self, x, directions):
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
        coarse, fine = (self._mixed_difference(x, first, units, step) for step in (h, h / 2))
        return (4.0 * fine - coarse) / 3.0 * np.prod(sizes, axis=0)

    def _mixed_difference(self, x, first, units, h):
        """Central difference over all units of Df(x)[first]; second order in h."""
        signs = np.array(list(product((1.0, -1.0), repeat=len(units))))
        points = x + h * np.einsum("sk,knd->snd", signs, np.array(units))
        jac = np.asarray(self._jac(points.reshape(-1, self._dim)), dtype=float)
        along = np.einsum("snij,nj->sni", jac.reshape(len(signs), *x.shape, self._dim), first)
        return np.einsum("s,sni->ni", signs.prod(axis=1), along) / (2.0 * h) ** len(units)

    def _step_scale(self, x):
        """Length per row and state that finite-difference steps are relative to, ``(n, d)``."""
        if self.length_scale is None:
            return np.maximum(1.0, np.abs(x))
        return np.maximum(self.length_scale, 1e-3 * np.abs(x))

    def _support(self, x):
        """Support at rows ``(n, d)``, shape (n,)."""
        if self._context is None:
            return np.ones(len(x))
        if self._nearness is None:
            self._nearness = _Nearness(self._smoothed()[0], self.length_scale)
        return self._nearness(x)

    # ---------------------------------------------------------------- internals

    def _rows(self, x):
        x = np.asarray(x)
        if x.dtype != np.float64:
            if x.dtype.kind not in "biuf":
                raise ValueError(
                    f"{type(self).__name__} is a field on R^{self._dim}: expected real numbers, "
                    f"got dtype {x.dtype}."
                )
            x = x.astype(float)
        if x.ndim == 0 or x.shape[-1] != self._dim:
            raise ValueError(
                f"{type(self).__name__} is a field on R^{self._dim}: expected points of shape "
                f"(..., {self._dim}), got {x.shape}."
            )
        return x, (x if x.ndim == 2 else x.reshape(-1, self._dim))

    def _smoothed(self):
        if self._path is None:
            self._path = _smoothed_path(self._context)
        return self._path

    def _compute_scales(self):
        length = self.length_scale
        if length is None:
            return Scales(_frozen(np.ones(self._dim)), _frozen(np.ones(self._dim)), 1.0)
        if self._context is None:
            rates, span = self._rhs(self._region.sobol(64)), np.inf
        else:
            _, rates, span = self._smoothed()
        rates = rates[np.isfinite(rates).all(axis=1)]
        speed = np.sqrt(np.mean(rates**2, axis=0)) if len(rates) else np.zeros(self._dim)
        relative = np.sqrt(np.mean((speed / length) ** 2))
        time = min(1.0 / relative if relative > 0 else np.inf, span)
        time = time if np.isfinite(time) and time > 0 else 1.0
        speed = np.where(speed > 1e-12 * length / time, speed, length / time)
        return Scales(_frozen(length), _frozen(speed), float(time))


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


class AffineField(VectorField):
    """The field of x = shift + scale * z and t = time_unit * tau, where dz/dtau = inner(z).

    Hence f(x) = scale * inner((x - shift) / scale) / time_unit. What is not given (region, scales, support,
    fit information) is carried over from the inner field in the outer units.

    Parameters
    ----------
    inner : VectorField
        The field in normalised units.
    scale : float or array_like (d,)
        Size of one inner unit of state in outer units; finite and not zero.
    shift : float or array_like (d,)
        Where the inner origin lies.
    time_unit : float
        Duration of one inner unit of time in outer units; positive.
    **kwargs
        As for `VectorField`, in outer units.

    Raises
    ------
    ValueError
        For a scale that is zero or not finite, or a time unit that is not positive.
    """

    def __init__(self, inner, scale, shift=0.0, time_unit=1.0, **kwargs):
        if kwargs.get("state_names") is None and kwargs.get("context") is None:
            kwargs["state_names"] = inner.state_names
        super().__init__(inner.dim, **kwargs)
        self._inner = inner
        self._has_own_box = self._context is not None or self._region is not None
        self._outer_context = None
        self._factor = _frozen(np.broadcast_to(np.asarray(scale, dtype=float), (inner.dim,)).copy())
        self._shift = _frozen(np.broadcast_to(np.asarray(shift, dtype=float), (inner.dim,)).copy())
        self._time_unit = float(time_unit)
        if not (np.isfinite(self._factor).all() and self._factor.all() and np.isfinite(self._shift).all()):
            raise ValueError(
                f"AffineField: expected a finite shift and a finite non-zero scale, got {shift}, {scale}."
            )
        if not 0 < self._time_unit < np.inf:
            raise ValueError(f"AffineField: expected a positive finite time_unit, got {time_unit}.")
        if kwargs.get("fit_info") is None:
            self._fit_info = self._outer_fit_info(inner.fit_info)

    @property
    def inner(self):
        """The field in normalised units."""
        return self._inner

    @property
    def context(self):
        """The observations in outer units: those given, else the inner field's."""
        if self._context is None and self._outer_context is None and self._inner.context is not None:
            self._outer_context = self._to_outer(self._inner.context)
        return self._outer_context if self._context is None else self._context

    @property
    def region(self):
        """Box in outer units: the one given, the context's, else the inner field's."""
        if not self._has_own_box and self._region is None and self._inner.region is not None:
            ends = self._shift + self._factor * np.array([self._inner.region.low, self._inner.region.high])
            self._region = Region(ends.min(axis=0), ends.max(axis=0), names=self.state_names)
        return super().region

    @property
    def length_scale(self):
        """Length scale in outer units, (d,), or None where nothing is known."""
        if self._scales is None and self._length is None and not self._has_own_box:
            inner = self._inner.length_scale
            self._length = None if inner is None else _frozen(np.abs(self._factor) * inner)
        return super().length_scale

    def scale(self, x):
        """One calibrated standard deviation in outer units, ``(..., d)``; None as for the inner field."""
        x, _ = self._rows(x)
        inner = self._inner.scale(self._to_inner(x))
        return None if inner is None else np.abs(self._factor) / self._time_unit * inner

    @classmethod
    def stack(cls, fields):
        """As `VectorField.stack`; vectorised where the inner kind's is."""
        fields = tuple(fields)
        kinds = {type(f._inner) for f in fields}
        if len(kinds) != 1:
            return super().stack(fields)
        return _AffineRows(fields, kinds.pop().stack([f._inner for f in fields]))

    def _rhs(self, x):
        return self._inner._rhs(self._to_inner(x)) * (self._factor / self._time_unit)

    def _jac(self, x):
        change = self._factor[:, None] / (self._factor * self._time_unit)
        return self._inner._jac(self._to_inner(x)) * change

    def _directional(self, x, directions):
        inner = self._inner._directional(self._to_inner(x), [v / self._factor for v in directions])
        return inner * (self._factor / self._time_unit)

    def _support(self, x):
        return self._inner._support(self._to_inner(x)) if self._context is None else super()._support(x)

    def _to_inner(self, x):
        return (x - self._shift) / self._factor

    def _compute_scales(self):
        if self._has_own_box:
            return super()._compute_scales()
        inner, size = self._inner.scales, np.abs(self._factor)
        speed = inner.speed * size / self._time_unit
        return Scales(_frozen(inner.length * size), _frozen(speed), inner.time * self._time_unit)

    def _to_outer(self, context):
        arrays = context.arrays()
        return type(context).from_arrays(
            [self._shift + self._factor * x for _, x in arrays],
            [self._time_unit * t for t, _ in arrays],
            state_names=self.state_names,
            coords=context.coords,
        )

    def _outer_fit_info(self, info):
        start, noise = info.initial_states, info.noise_level
        return FitInfo(
            None if start is None else self._shift + self._factor * np.asarray(start),
            None if noise is None else np.abs(self._factor) * np.asarray(noise),
            info.report,
        )


class EnsembleField(Sequence):
    """A weighted sequence of fields of one dimension: bootstrap members or posterior draws.

    It is not itself a field, since what holds on average need not hold for any member; `mean_field` makes
    the average explicit.

    Parameters
    ----------
    fields : sequence of VectorField
        At least one member.
    weights : array_like (m,), optional
        Non-negative weights, normalised to sum 1; default equal.

    Raises
    ------
    ValueError
        For no members, members of differing dimension, or weights that do not fit.
    """

    def __init__(self, fields, weights=None):
        self._fields = tuple(fields)
        if not self._fields:
            raise ValueError("EnsembleField: expected at least one field, got none.")
        dims = sorted({member.dim for member in self._fields})
        if len(dims) > 1:
            raise ValueError(f"EnsembleField: expected fields of one dimension, got {dims}.")
        m = len(self._fields)
        weights = np.full(m, 1.0 / m) if weights is None else np.array(weights, dtype=float)
        if (
            weights.shape != (m,)
            or not np.isfinite(weights).all()
            or (weights < 0).any()
            or weights.sum() <= 0
        ):
            raise ValueError(f"EnsembleField: expected {m} weights >= 0 with a positive sum, got {weights}.")
        self._weights = _frozen(weights / weights.sum())

    @property
    def weights(self):
        """Normalised weights, (m,)."""
        return self._weights

    @property
    def dim(self):
        """Number of states."""
        return self._fields[0].dim

    @property
    def state_names(self):
        """Names of the states of the first member."""
        return self._fields[0].state_names

    def __len__(self):
        return len(self._fields)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return EnsembleField(self._fields[index], self._weights[index])
        return self._fields[index]

    def __repr__(self):
        return f"EnsembleField({len(self)} x {self._fields[0]!r})"

    def mean_field(self):
        """The weighted average of the members as one field (VectorField) with the first member's context."""
        return _MeanField(self)


class _MeanField(VectorField):
    """Weighted average of the members of an ensemble."""

    def __init__(self, ensemble):
        first = ensemble[0]
        own = {"region": first._region, "scales": first._scales}
        super().__init__(first.dim, context=first.context, state_names=first.state_names, **own)
        self._ensemble = ensemble

    def _rhs(self, x):
        return self._average(member._rhs(x) for member in self._ensemble)

    def _jac(self, x):
        return self._average(member._jac(x) for member in self._ensemble)

    def _directional(self, x, directions):
        return self._average(member._directional(x, directions) for member in self._ensemble)

    def _average(self, values):
        return sum(w * v for w, v in zip(self._ensemble.weights, values, strict=True))


class _GroupedRows:
    """Evaluates row i by field which[i], one call per field present."""

    def __init__(self, fields):
        self._fields = fields

    def __call__(self, x, which):
        if len(which) and (which == which[0]).all():
            return self._fields[which[0]]._rhs(x)
        out = np.empty_like(x)
        for member in np.unique(which):
            rows = which == member
            out[rows] = self._fields[member]._rhs(x[rows])
        return out


class _AffineRows:
    """Rows of many affine fields through one stacked function of their inner fields."""

    def __init__(self, fields, inner):
        self._inner = inner
        self._factor = np.array([f._factor for f in fields])
        self._shift = np.array([f._shift for f in fields])
        self._rate = np.array([f._factor / f._time_unit for f in fields])

    def __call__(self, x, which):
        return self._inner((x - self._shift[which]) / self._factor[which], which) * self._rate[which]


class _Nearness:
    """Support from the whitened distance to a cloud of smoothed observations."""

    def __init__(self, paths, length):
        points = np.concatenate(paths)
        self._centre = points.mean(axis=0)
        standard = (points - self._centre) / length
        variance, axes = np.linalg.eigh(standard.T @ standard / len(points))
        # A direction in which the data hardly vary is stretched at most tenfold: it may hold noise alone.
        self._whiten = axes / np.sqrt(np.maximum(variance, _SMALLEST_WHITENED_VARIANCE)) / length[:, None]
        self._tree = cKDTree((points - self._centre) @ self._whiten)
        steps = [np.linalg.norm(np.diff(path @ self._whiten, axis=0), axis=1) for path in paths]
        steps = np.concatenate(steps)
        if not len(steps) and len(points) > 1:
            steps = self._tree.query(self._tree.data, k=2)[0][:, 1]
        spacing = np.quantile(steps, 0.95) if len(steps) else 0.0
        # Points that all coincide leave no spacing to measure by: a hundredth of the length scale serves.
        self._spacing = spacing if spacing > 1e-12 else 1e-2

    def __call__(self, x):
        out = np.full(len(x), np.nan)
        finite = np.isfinite(x).all(axis=1)
        distance, _ = self._tree.query((x[finite] - self._centre) @ self._whiten)
        out[finite] = np.exp(-np.maximum(0.0, distance / self._spacing - 1.0))
        return out


def _smoothed_path(context):
    """Smoothed observations per trajectory, their rates of change ``(N, d)`` and the longest time span."""
    paths, rates, span = [], [], 0.0
    for t, x in context.arrays():
        columns = [_smooth_coordinate(t, column) for column in x.T]
        values, slopes = (np.stack(part, axis=1) for part in zip(*columns, strict=True))
        inside = np.isfinite(values).all(axis=1)
        if inside.any():
            paths.append(values[inside])
            rates.append(slopes[inside])
            span = max(span, t[-1] - t[0])
    if not paths:
        observed = np.asarray(context.x).reshape(-1, context.dim)
        return [np.nanmean(observed, axis=0)[None]], np.zeros((1, context.dim)), span
    return paths, np.concatenate(rates), span


def _smooth_coordinate(t, y):
    """Value and slope of one coordinate at all its times; NaN outside its first and last observation.

    Local quadratics in time (Cleveland 1979, J. Am. Stat. Assoc. 74:829) with the window of 5, 9, 17 or 33
    observations whose leave-one-out error is least; below five observations, straight lines between them.
    """
    seen = np.isfinite(y)
    t_seen, y_seen = t[seen], y[seen]
    if len(y_seen) < _SMOOTHING_WINDOWS[0]:
        return _straight_lines(t, t_seen, y_seen)
    scores = []
    for window in (w for w in _SMOOTHING_WINDOWS if w <= len(y_seen)):
        value, _, leverage = _local_quadratic(t_seen, y_seen, t_seen, window, own=True)
        scores.append((np.mean(((y_seen - value) / np.maximum(1.0 - leverage, 1e-6)) ** 2), window))
    value, slope, _ = _local_quadratic(t_seen, y_seen, t, min(scores)[1])
    outside = (t < t_seen[0]) | (t > t_seen[-1])
    return np.where(outside, np.nan, value), np.where(outside, np.nan, slope)


def _straight_lines(t, t_seen, y_seen):
    if len(y_seen) < 2:
        value = np.full(len(t), np.nan)
        value[np.isin(t, t_seen)] = y_seen
        return value, np.zeros(len(t))
    value = np.interp(t, t_seen, y_seen, left=np.nan, right=np.nan)
    segment = np.clip(np.searchsorted(t_seen, t, side="right") - 1, 0, len(t_seen) - 2)
    slope = (np.diff(y_seen) / np.diff(t_seen))[segment]
    return value, np.where(np.isfinite(value), slope, np.nan)


def _local_quadratic(t_seen, y_seen, t, window, own=False):
    """Value, slope and leverage at times t of tricube-weighted quadratics through `window` observations.

    Leverage is the weight of the observation at t itself, for t = t_seen (``own``); else None.
    """
    n = len(t_seen)
    first = np.clip(np.searchsorted(t_seen, t) - window // 2, 0, n - window)
    index = first[:, None] + np.arange(window)
    u = t_seen[index] - t[:, None]
    reach = np.abs(u).max(axis=1, keepdims=True) * (1.0 + 1.0 / window)
    u = u / reach
    weight = (1.0 - np.abs(u) ** 3) ** 3
    basis = np.stack([np.ones_like(u), u, u**2], axis=2)
    weighted = basis * weight[:, :, None]
    normal = np.einsum("nwa,nwb->nab", weighted, basis)
    # Nearly coincident times leave curvature undetermined; a tiny ridge on it then gives a straight line.
    normal[:, 2, 2] += 1e-10 * window
    operator = np.linalg.solve(normal, weighted.transpose(0, 2, 1))
    coefficients = np.einsum("naw,nw->na", operator, y_seen[index])
    leverage = operator[np.arange(len(t)), 0, np.arange(len(t)) - first] if own else None
    return coefficients[:, 0], coefficients[:, 1] / reach[:, 0], leverage


def _spread(x):
    """Standard deviation per column over finite entries; a constant column gets a positive stand-in."""
    seen = np.isfinite(x)
    count = np.maximum(seen.sum(axis=0), 1)
    mean = np.where(seen, x, 0.0).sum(axis=0) / count
    sd = np.sqrt((np.where(seen, x - mean, 0.0) ** 2).sum(axis=0) / count)
    varies = sd > 1e-12 * np.abs(mean)
    other = sd[varies].mean() if varies.any() else 1.0
    return np.where(varies, sd, np.where(mean != 0, np.abs(mean), other))


def _frozen(array):
    array = np.asarray(array, dtype=float)
    array.setflags(write=False)
    return array
