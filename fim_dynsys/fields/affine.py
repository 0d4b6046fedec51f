"""A field in other coordinates."""

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.frame import FitInfo, Scales
from fim_dynsys.fields.support import frozen
from fim_dynsys.regions import Region


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
        self._factor = frozen(np.broadcast_to(np.asarray(scale, dtype=float), (inner.dim,)).copy())
        self._shift = frozen(np.broadcast_to(np.asarray(shift, dtype=float), (inner.dim,)).copy())
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
            self._length = None if inner is None else frozen(np.abs(self._factor) * inner)
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
        return Scales(frozen(inner.length * size), frozen(speed), inner.time * self._time_unit)

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


class _AffineRows:
    """Rows of many affine fields through one stacked function of their inner fields."""

    def __init__(self, fields, inner):
        self._inner = inner
        self._factor = np.array([f._factor for f in fields])
        self._shift = np.array([f._shift for f in fields])
        self._rate = np.array([f._factor / f._time_unit for f in fields])

    def __call__(self, x, which):
        return self._inner((x - self._shift[which]) / self._factor[which], which) * self._rate[which]
