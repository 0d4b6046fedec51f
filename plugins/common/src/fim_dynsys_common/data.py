"""Observed trajectories as one padded batch of tensors in normalised units."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from fim_dynsys.fields.frame import Scales
from fim_dynsys.fields.support import smoothed, spread
from fim_dynsys.regression.smoothing import finite_differences
from fim_dynsys.regression.splines import gcv_spline
from fim_dynsys.trajectories.container import Trajectories

_FEWEST_FOR_SPLINE = 6


@dataclass(frozen=True, eq=False)
class Units:
    """Normalised units: ``z = (x - shift) / scale``, and times counted in ``time``.

    Attributes
    ----------
    shift, scale : ndarray (d,)
        Mean and standard deviation of the observations; a constant coordinate has a positive scale too.
    time : float
        Time in which the smoothed path moves by about one scale.
    """

    shift: np.ndarray
    scale: np.ndarray
    time: float

    @classmethod
    def of(cls, trajectories: Trajectories) -> Self:
        """Those of the observations."""
        values = np.concatenate([x for _, x in trajectories.arrays()])
        scale, path = spread(values), smoothed(trajectories)
        return cls(np.nanmean(values, axis=0), scale, Scales.of_rates(scale, path.slopes, path.span).time)

    def inner(self, x: np.ndarray) -> np.ndarray:
        """States (..., d) in normalised units."""
        return (x - self.shift) / self.scale

    def outer(self, z: np.ndarray) -> np.ndarray:
        """States (..., d) in the user's units."""
        return self.shift + self.scale * z

    def outer_rates(self, dz: np.ndarray) -> np.ndarray:
        """Rates of change (..., d) in the user's units."""
        return dz * (self.scale / self.time)


@dataclass(frozen=True, eq=False)
class Batch:
    """K trajectories of up to L samples in normalised units.

    Attributes
    ----------
    t : Tensor (K, L)
        Times, each trajectory's from 0; the last one repeats in its padding.
    x : Tensor (K, L, d)
        States, zero where not observed.
    seen : Tensor of bool (K, L, d)
        Where a coordinate was observed.
    n_obs : tuple of int
        Samples of each trajectory.
    units : Units
    """

    t: Tensor
    x: Tensor
    seen: Tensor
    n_obs: tuple[int, ...]
    units: Units

    @classmethod
    def of(
        cls, trajectories: Trajectories, units: Units | None = None, dtype: torch.dtype = torch.float64
    ) -> Self:
        """The trajectories in `units`, by default their own."""
        units = Units.of(trajectories) if units is None else units
        t, x, seen = trajectories.padded()
        z = np.where(seen, units.inner(x), 0.0)
        return cls(
            t=torch.tensor((t - t[:, :1]) / units.time, dtype=dtype),
            x=torch.tensor(z, dtype=dtype),
            seen=torch.tensor(seen),
            n_obs=tuple(int(n) for n in trajectories.n_obs),
            units=units,
        )

    @property
    def dim(self) -> int:
        """Number of states."""
        return self.x.shape[-1]

    @property
    def mean_gap(self) -> float:
        """Mean time between samples, over all trajectories."""
        gaps = sum(self.n_obs) - len(self.n_obs)
        return float(self.t[:, -1].sum()) / max(gaps, 1)

    def smooth(self, without: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """States and slopes (K, L, d) of cubic smoothing splines, chosen by generalised cross-validation.

        For complete samples only (`Trajectories.drop_incomplete`); finite differences where fewer than six
        are left. In the padding the last state repeats and slopes are zero.

        Parameters
        ----------
        without : Tensor of bool (K, L), optional
            Samples to leave out; their states and slopes are interpolated linearly.
        """
        states, slopes = torch.zeros_like(self.x), torch.zeros_like(self.x)
        for k, n in enumerate(self.n_obs):
            t, x = self.t[k, :n].double().numpy(), self.x[k, :n].double().numpy()
            kept = np.ones(n, dtype=bool) if without is None else ~without[k, :n].numpy()
            path, rates = _smooth(t[kept], x[kept])
            for j in range(self.dim):
                states[k, :n, j] = torch.as_tensor(np.interp(t, t[kept], path[:, j]))
                slopes[k, :n, j] = torch.as_tensor(np.interp(t, t[kept], rates[:, j]))
            states[k, n:] = states[k, n - 1]
        return states, slopes


def _smooth(t: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if len(t) >= _FEWEST_FOR_SPLINE:
        return gcv_spline(t, x)
    return finite_differences(t, x) if len(t) > 1 else (x, np.zeros_like(x))
