"""f(x, p) = 0 in units in which lengths, the parameter range and time are of order one."""

from copy import copy

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.analyze.lengths import SizedFamily, family_lengths, sized
from fim_dynsys.analyze.results import SUPPORTED
from fim_dynsys.analyze.tracing.curve import BranchEnd
from fim_dynsys.fields.family import FieldFamily
from fim_dynsys.regions import Region

ROOT = 1e-9
"""Largest scaled field at what is called an equilibrium to start from."""

_NEWTON_STEPS = 60  # a double root, halved in distance a step, is then at rounding
_ROUNDING = 1e-12  # of the range of the parameter
_ESCAPE = 1e6  # multiple of the unit of length beyond which a branch without a region is given up
_ALIKE = 1e4  # ratio of lengths up to which states share one; beyond, determinants are of rounding
_LOOKED_AT = (0.1, 0.5, 0.9)  # of the range: where its lengths are taken from; ends are often special
_SMALL = 0.1  # of the assumed length: states that stay below it set the length themselves


class Equations:
    """f(x, p) = 0 in units of the branch: lengths, the parameter range, and a time scale.

    Attributes
    ----------
    centre, length : ndarray (d,)
        x = centre + length * scaled x.
    assumed : bool
        Whether the lengths come from the starts alone.
    reach : ndarray (d,)
        The lengths before branches were found to need smaller ones.
    unit : ndarray (d,)
        Lengths on which the family varies, see `family_lengths`.
    differentiable : FieldFamily
        The family, with steps of differences that suit these lengths and the range.
    width, first : float
        p = first + width * scaled p.
    time : float
        What one unit of scaled time is.
    points : int
        At how many points the family has been evaluated.
    supported_only : bool
        Whether branches end where the family is unsupported.
    """

    def __init__(
        self,
        family: FieldFamily,
        p_range: tuple[float, float],
        region: Region | None,
        starts: ArrayLike | None = None,
    ) -> None:
        self.family, self.region = family, region
        self.low, self.high = min(p_range), max(p_range)
        self.first, self.width = p_range[0], p_range[1] - p_range[0]
        self.centre = np.zeros(family.dim) if region is None else region.centre
        near = np.atleast_2d(self.centre if starts is None else np.asarray(starts, dtype=float))
        values = [self.low + share * (self.high - self.low) for share in _LOOKED_AT]
        self.unit = family_lengths(family, values, near, region)
        self.differentiable = SizedFamily(family, lambda field: sized(field, self.unit), self.width)
        self.assumed = region is None and family.scales is None
        if region is not None:
            self.length = region.size / 2.0
        elif family.scales is not None:
            self.length = family.scales.length
        elif self.unit.max() > _ALIKE * self.unit.min():
            self.length, self.assumed = np.maximum(self.unit, np.abs(near).max(axis=0)), False
        else:
            # Where a field bends beside a start says how far branches go only if the start stays at rest.
            least = 0.0 if all(not family(near, p).any() for p in values) else 1.0
            self.length = np.full(family.dim, max(least, self.unit.max(), np.abs(near).max()))
        self.reach = self.length
        self.time = 1.0 if family.scales is None else family.scales.time
        self.supported_only = False
        self.points = 0

    def fitted(self, states: np.ndarray) -> "Equations | None":
        """The same in the length of states (n, d), where one was assumed and all stay far below it."""
        size = float(np.abs(states).max())
        # Below `ROOT`, states are rounding.
        if not (self.assumed and ROOT < (size / self.length).max() < _SMALL):
            return None
        return self.resized(size)

    def resized(self, length: float) -> "Equations":
        """The same in another length."""
        other = copy(self)
        other.length = np.full_like(self.length, length)
        return other

    def unscaled(self, x: np.ndarray, p: float) -> tuple[np.ndarray, float]:
        """States (..., d) and parameter value of scaled ones."""
        value = self.first + self.width * float(p)
        # Located edges of the range may lie a rounding error outside.
        value = min(max(value, self.low), self.high) if self.room_in_range(value) > -_ROUNDING else value
        return self.centre + self.length * x, value

    def scaled(self, x: np.ndarray, p: float) -> np.ndarray:
        """Scaled unknowns (d + 1,) of a state and a parameter value."""
        return np.append((x - self.centre) / self.length, (p - self.first) / self.width)

    def values(self, u: np.ndarray) -> np.ndarray:
        """Scaled field (d,) at scaled unknowns (d + 1,)."""
        return self.field(u[None, :-1], u[-1])[0]

    def jacobian(self, u: np.ndarray) -> np.ndarray:
        """Scaled Jacobian (d, d) by the states."""
        x, p = self.unscaled(u[:-1], u[-1])
        self.points += 1
        return self.differentiable.jacobian(x, p) * (self.time * self.length / self.length[:, None])

    def matrix(self, u: np.ndarray) -> np.ndarray:
        """Scaled Jacobian with the derivative by p as last column, (d, d + 1)."""
        x, p = self.unscaled(u[:-1], u[-1])
        self.points += 1
        by_p = self.differentiable.dp(x, p) * (self.time * self.width / self.length)
        return np.column_stack([self.jacobian(u), by_p])

    def batch(self, x: np.ndarray, p: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Scaled field (n, d), Jacobian (n, d, d) and derivative by p (n, d) at scaled rows and one p."""
        x, p = self.unscaled(x, p)
        self.points += 3 * len(x)
        rate = self.time / self.length
        return (
            self.family(x, p) * rate,
            self.differentiable.jacobian(x, p) * (rate[:, None] * self.length),
            self.differentiable.dp(x, p) * (rate * self.width),
        )

    def field(self, x: np.ndarray, p: float) -> np.ndarray:
        """Scaled field (n, d) at scaled rows and one p."""
        x, p = self.unscaled(x, p)
        self.points += len(x)
        return self.family(x, p) * (self.time / self.length)

    def room_in_range(self, p: float) -> float:
        """Distance of p from the nearer end of its range, as a share of it; negative outside."""
        return min(p - self.low, self.high - p) / (self.high - self.low)

    def room_in_region(self, x: np.ndarray) -> float:
        """Distance of scaled states (..., d) from the nearest edge of the region; negative outside."""
        if self.region is None:
            return float((_ESCAPE * self.reach / self.length - np.abs(x)).min())
        return float(1.0 - np.abs(x).max())

    def room_in_support(self, x: np.ndarray, p: float) -> dict[BranchEnd, float]:
        """By how much scaled states (..., d) are supported at least, where branches end for want of it."""
        if not self.supported_only:
            return {}
        states, p = self.unscaled(x, p)
        return {BranchEnd.SUPPORT: self.support(states, p) - SUPPORTED}

    def find_root(self, x: np.ndarray, p: float) -> tuple[np.ndarray, float]:
        """Scaled unknowns near x for one parameter value, by damped Newton steps, and |f| there.

        Infinite where the field has no finite derivatives: no branch can be followed from there.
        """
        u = self.scaled(x, p)
        f = self.values(u)
        for _ in range(_NEWTON_STEPS):
            jac = self.jacobian(u)
            if not (np.isfinite(f).all() and np.isfinite(jac).all()):
                return u, np.inf
            step = np.append(-np.linalg.lstsq(jac, f, rcond=None)[0], 0.0)
            share, size = 1.0, np.linalg.norm(f)
            f = self.values(u + step)
            while share > 1e-6 and not np.linalg.norm(f) <= (1.0 - share / 4.0) * size:
                share /= 2.0
                f = self.values(u + share * step)
            u = u + share * step
            if np.abs(share * step).max() < 1e-12 * max(1.0, np.abs(u).max()):
                break
        return u, float(np.abs(f).max()) if np.isfinite(self.matrix(u)).all() else np.inf

    def root(self, x: np.ndarray, p: float) -> np.ndarray:
        """Scaled equilibrium near x for one parameter value.

        Raises
        ------
        ValueError
            If none is found, or outside the region only.
        """
        u, residual = self.find_root(x, p)
        if not residual < ROOT:
            raise ValueError(
                f"continuation: expected x0 near an equilibrium at {self.family.parameter} = {p:g}, found "
                f"none from {np.asarray(x).tolist()} (|f| is left at {residual:.2g} of its scale); "
                "pass p0 and a guess at it, for example from fixed_points(family.at(p0))."
            )
        if self.room_in_region(u[:-1]) < 0:
            raise ValueError(
                f"continuation: expected x0 near an equilibrium inside {self.region}, got one at "
                f"{self.unscaled(u[:-1], p)[0].tolist()}; pass a larger region or another x0."
            )
        return u

    def support(self, x: np.ndarray, p: float) -> float:
        """Least support of states (..., d)."""
        return float(np.min(self.family.support(x, p)))
