"""Fields that are another field and what it misses, as a sum of Gaussians near the data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fim_dynsys.fields.base import VectorField


@dataclass(frozen=True, eq=False)
class RadialBasis:
    """Gaussians ``exp(-|(x - centre) / widths|^2 / 2)``.

    Attributes
    ----------
    centres : ndarray (m, d)
    widths : ndarray (d,)
        Of all of them, one per state; positive.
    """

    centres: np.ndarray
    widths: np.ndarray

    def __len__(self) -> int:
        return len(self.centres)

    def values(self, x: np.ndarray) -> np.ndarray:
        """Values (n, m) at points (n, d)."""
        away = (x[:, None] - self.centres) / self.widths
        return np.exp(-0.5 * np.einsum("nmd,nmd->nm", away, away))

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """Derivatives (n, m, d) by the state at points (n, d)."""
        return -self.values(x)[:, :, None] * (x[:, None] - self.centres) / self.widths**2


class ResidualField(VectorField):
    """A field ``base(x) + sum_m coefficients[m] * gaussian_m(x)``: the base where data are far away.

    Parameters
    ----------
    base : VectorField
        The mean.
    basis : RadialBasis
        Gaussians near the data.
    coefficients : array (m, d)
        In the units of the field.
    **kwargs
        Passed to `VectorField`.

    Raises
    ------
    ValueError
        If shapes do not fit together or numbers are not finite, or a width is not positive.
    """

    def __init__(
        self, base: VectorField, basis: RadialBasis, coefficients: np.ndarray, **kwargs: Any
    ) -> None:
        shape = len(basis), base.dim
        if basis.centres.shape != shape or basis.widths.shape != (base.dim,) or coefficients.shape != shape:
            raise ValueError(
                f"ResidualField: expected centres and coefficients (m, {base.dim}) and widths ({base.dim},), "
                f"got {basis.centres.shape}, {coefficients.shape} and {basis.widths.shape}."
            )
        parts = (basis.centres, basis.widths, coefficients)
        if not all(np.isfinite(part).all() for part in parts) or not (basis.widths > 0).all():
            raise ValueError("ResidualField: expected finite numbers and positive widths, got others.")
        super().__init__(base.dim, **kwargs)
        self.base, self.basis = base, basis
        self.coefficients = np.array(coefficients, dtype=np.float64)
        self.coefficients.setflags(write=False)

    def residual(self, x: np.ndarray) -> np.ndarray:
        """What is added to the base at points (n, d), shape (n, d)."""
        return self.basis.values(x) @ self.coefficients

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        return self.base._rhs(x) + self.residual(x)

    def _jac(self, x: np.ndarray) -> np.ndarray:
        added = np.einsum("nmj,mi->nij", self.basis.gradients(x), self.coefficients)
        return self.base._jac(x) + added

    def to_arrays(self) -> dict[str, np.ndarray]:
        """What is added, as plain arrays."""
        return {
            "centres": self.basis.centres,
            "widths": self.basis.widths,
            "coefficients": self.coefficients,
        }

    @classmethod
    def beside(cls, base: VectorField, arrays: Mapping[str, np.ndarray]) -> Self:
        """A field with the residual that `to_arrays` took apart."""
        basis = RadialBasis(arrays["centres"], arrays["widths"])
        return cls(base, basis, arrays["coefficients"], frame=base.frame, fit_info=base.fit_info)
