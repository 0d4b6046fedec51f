"""A field in other coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.fields.base import StackedRates, VectorField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.frame import FitInfo, Frame, Given, Scales
from fim_dynsys.fields.support import frozen
from fim_dynsys.regions import Region
from fim_dynsys.trajectories.container import Trajectories


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
    context, state_names, region, scales, fit_info
        As for `VectorField`, in outer units.

    Raises
    ------
    ValueError
        For a scale that is zero or not finite, or a time unit that is not positive.
    """

    def __init__(
        self,
        inner: VectorField,
        scale: ArrayLike,
        shift: ArrayLike = 0.0,
        time_unit: float = 1.0,
        *,
        context: Trajectories | None = None,
        state_names: Sequence[str] | None = None,
        region: Region | None = None,
        scales: Scales | None = None,
        fit_info: FitInfo | None = None,
    ):
        units = _Units.checked(inner.dim, scale, shift, time_unit)
        if state_names is None and context is None:
            state_names = inner.state_names
        given = Given.checked(type(self).__name__, inner.dim, context, state_names, region, scales)
        info = units.outer_info(inner.fit_info) if fit_info is None else fit_info
        frame = _AffineFrame(inner.dim, given, None, inner.frame, units)
        super().__init__(inner.dim, frame=frame, fit_info=info)
        self._inner, self._units = inner, units

    @property
    def inner(self) -> VectorField:
        """The field in normalised units."""
        return self._inner

    def scale(self, x: ArrayLike) -> np.ndarray | None:
        """One calibrated standard deviation in outer units, ``(..., d)``; None as for the inner field."""
        points, _ = self._rows(x)
        inner = self._inner.scale(self._units.inner(points))
        return None if inner is None else np.abs(self._units.factor) / self._units.time * inner

    def draws(self, n: int, seed: int = 0) -> EnsembleField | None:
        """Draws of the inner field in outer units; None as for the inner field."""
        inner = self._inner.draws(n, seed)
        if inner is None:
            return None
        units, given = self._units, self._frame.given._asdict()
        outer = [AffineField(f, units.factor, units.shift, units.time, **given) for f in inner]
        return EnsembleField(outer)  # as draws are, of equal weight

    @classmethod
    def stack(cls, fields: Sequence[Self]) -> StackedRates:
        """As `VectorField.stack`; vectorised where the inner kind's is."""
        kinds = {type(f._inner) for f in fields}
        if len(kinds) != 1:
            return super().stack(fields)
        return _AffineRows([f._units for f in fields], kinds.pop().stack([f._inner for f in fields]))

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        return self._inner._rhs(self._units.inner(x)) * self._units.rate

    def _jac(self, x: np.ndarray) -> np.ndarray:
        change = self._units.factor[:, None] / (self._units.factor * self._units.time)
        return self._inner._jac(self._units.inner(x)) * change

    def _directional(self, x: np.ndarray, directions: Sequence[np.ndarray]) -> np.ndarray:
        inner = self._inner._directional(self._units.inner(x), [v / self._units.factor for v in directions])
        return inner * self._units.rate

    def _support(self, x: np.ndarray) -> np.ndarray:
        # the inner field may know better than its frame, as the members of a family do
        if self._frame.given.context is None:
            return self._inner._support(self._units.inner(x))
        return super()._support(x)


@dataclass(frozen=True, eq=False)
class _Units:
    """The inner units of state (d,) and time, and the inner origin (d,), in outer units."""

    factor: np.ndarray
    shift: np.ndarray
    time: float

    @classmethod
    def checked(cls, dim: int, scale: ArrayLike, shift: ArrayLike, time_unit: float) -> Self:
        factor, origin = (
            frozen(np.broadcast_to(np.asarray(v, dtype=float), (dim,)).copy()) for v in (scale, shift)
        )
        if not (np.isfinite(factor).all() and factor.all() and np.isfinite(origin).all()):
            raise ValueError(
                f"AffineField: expected a finite shift and a finite non-zero scale, got {shift!r}, {scale!r}."
            )
        if not 0 < float(time_unit) < np.inf:
            raise ValueError(f"AffineField: expected a positive finite time_unit, got {time_unit}.")
        return cls(factor, origin, float(time_unit))

    @property
    def rate(self) -> np.ndarray:
        """The inner unit of a rate of change, (d,)."""
        return self.factor / self.time

    def inner(self, x: np.ndarray) -> np.ndarray:
        """States in inner units."""
        return (x - self.shift) / self.factor

    def outer(self, z: np.ndarray) -> np.ndarray:
        """States in outer units."""
        return self.shift + self.factor * z

    def outer_info(self, info: FitInfo) -> FitInfo:
        """Notes of an inference in outer units."""
        start, noise = info.initial_states, info.noise_level
        return FitInfo(
            None if start is None else self.outer(np.asarray(start)),
            None if noise is None else np.abs(self.factor) * np.asarray(noise),
            info.report,
            inference=info.inference,
        )


@dataclass(frozen=True, eq=False)
class _AffineFrame(Frame):
    """A frame in other units; what is not given in outer units is that of the inner frame."""

    inner: Frame
    units: _Units

    @cached_property
    def context(self) -> Trajectories | None:
        context = self.inner.context
        if self.given.context is not None or context is None:
            return self.given.context
        arrays = context.arrays()
        return type(context).from_arrays(
            [self.units.outer(x) for _, x in arrays],
            [self.units.time * t for t, _ in arrays],
            state_names=self.state_names,
            coords=context.coords,
        )

    @cached_property
    def region(self) -> Region | None:
        if self.given.has_box or self.inner.region is None:
            return super().region
        ends = self.units.outer(np.array([self.inner.region.low, self.inner.region.high]))
        return Region(ends.min(axis=0), ends.max(axis=0), names=self.state_names)

    @cached_property
    def length(self) -> np.ndarray | None:
        if self.given.scales is not None or self.given.has_box or self.inner.length is None:
            return super().length
        return frozen(np.abs(self.units.factor) * self.inner.length)

    @cached_property
    def scales(self) -> Scales:
        if self.given.scales is not None or self.given.has_box:
            return super().scales
        inner, size = self.inner.scales, np.abs(self.units.factor)
        speed = inner.speed * size / self.units.time
        return Scales(frozen(inner.length * size), frozen(speed), inner.time * self.units.time)


class _AffineRows:
    """Rows of many affine fields through one stacked function of their inner fields."""

    def __init__(self, units: list[_Units], inner: StackedRates):
        self._inner = inner
        self._factor = np.array([u.factor for u in units])
        self._shift = np.array([u.shift for u in units])
        self._rate = np.array([u.rate for u in units])

    def __call__(self, x: np.ndarray, which: np.ndarray) -> np.ndarray:
        return self._inner((x - self._shift[which]) / self._factor[which], which) * self._rate[which]
