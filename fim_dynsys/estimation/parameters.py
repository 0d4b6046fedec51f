"""Estimated parameters: scales, bounds and priors."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


class Scale(enum.Enum):
    """How a parameter is searched."""

    LINEAR = "linear"
    LOG = "log"


@dataclass(frozen=True)
class Prior:
    """A normal distribution of a parameter, or of its logarithm.

    Attributes
    ----------
    mean, deviation : float
        Of the parameter, or of its natural logarithm.
    of_logarithm : bool
        Which.
    """

    mean: float
    deviation: float
    of_logarithm: bool = False


@dataclass(frozen=True)
class Parameter:
    """One estimated number.

    Attributes
    ----------
    name : str
        Its name.
    low, high : float
        Bounds, infinite where there are none.
    scale : Scale
        How it is searched.
    size : float
        Its natural size, positive: where the search begins.
    prior : Prior or None
        What is known of it.
    start : float or None
        Where one search begins, if that is known.
    otherwise : Parameter or None
        The same without a start that the user named, which may be far off: fits that fail try it, too.
    """

    name: str
    low: float = -np.inf
    high: float = np.inf
    scale: Scale = Scale.LINEAR
    size: float = 1.0
    prior: Prior | None = None
    start: float | None = None
    otherwise: "Parameter | None" = None


class ParameterSpace:
    """All estimated numbers, in the coordinates in which they are searched.

    Coordinates are natural logarithms, or values in units of the natural size.

    Parameters
    ----------
    parameters : sequence of Parameter
        In order.
    """

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self.parameters = tuple(parameters)
        self.names = [p.name for p in parameters]
        self.log = np.array([p.scale is Scale.LOG for p in parameters], dtype=bool)
        self.size = np.array([p.size for p in parameters], dtype=float)
        low = np.array([p.low for p in parameters], dtype=float)
        high = np.array([p.high for p in parameters], dtype=float)
        self.natural_low, self.natural_high = low, high
        self.low, self.high = self.coordinates(low), self.coordinates(high)
        with_prior = [k for k, p in enumerate(parameters) if p.prior is not None]
        self._prior_at = np.array(with_prior, dtype=int)
        priors = [parameters[k].prior for k in with_prior]
        self._prior_mean = np.array([p.mean for p in priors if p is not None])
        self._prior_deviation = np.array([p.deviation for p in priors if p is not None])
        self._prior_log = np.array([p.of_logarithm for p in priors if p is not None], dtype=bool)

    def __len__(self) -> int:
        return len(self.parameters)

    @property
    def n_priors(self) -> int:
        """How many numbers have one."""
        return len(self._prior_at)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """What the kernels take: scales, sizes, priors and bounds."""
        priors = (self._prior_at, self._prior_mean, self._prior_deviation, self._prior_log)
        return (self.log, self.size, *priors, self.low, self.high)

    def coordinates(self, natural: np.ndarray) -> np.ndarray:
        """Coordinates of values; minus infinity for the logarithm of what is not positive."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(natural > 0, np.log(np.maximum(natural, 0.0)), -np.inf)
            return np.where(self.log, logs, natural / self.size)

    def natural(self, theta: np.ndarray) -> np.ndarray:
        """Values at coordinates."""
        return np.where(self.log, np.exp(np.where(self.log, theta, 0.0)), theta * self.size)

    def slope(self, theta: np.ndarray) -> np.ndarray:
        """Derivatives of the values by the coordinates."""
        return np.where(self.log, self.natural(theta), self.size)

    def inside(self, theta: np.ndarray) -> np.ndarray:
        """The nearest coordinates within the bounds."""
        return np.clip(theta, self.low, self.high)

    def prior(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Minus the logarithm of the prior density, its gradient, and the diagonal of its curvature.

        That of the parameter, or of its logarithm, up to a constant.
        """
        gradient, curvature = np.zeros(len(self)), np.zeros(len(self))
        if not len(self._prior_at):
            return 0.0, gradient, curvature
        value, slope = self.natural(theta)[self._prior_at], self.slope(theta)[self._prior_at]
        with np.errstate(divide="ignore", invalid="ignore"):
            at = np.where(self._prior_log, np.log(value), value)
            slope = np.where(self._prior_log, slope / value, slope)
        off = (at - self._prior_mean) / self._prior_deviation
        gradient[self._prior_at] = off * slope / self._prior_deviation
        curvature[self._prior_at] = (slope / self._prior_deviation) ** 2
        total = 0.5 * float(off @ off)
        return (total if np.isfinite(total) else np.inf), gradient, curvature
