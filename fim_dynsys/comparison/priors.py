"""Priors of parameters: densities, quantiles, and how wide they are by default."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from fim_dynsys.regression.expression_fits import ExpressionProblem
from fim_dynsys.regression.observed import Observations

_REACH = 3.0  # a term may well be so many times the typical speed
_DECADE = 10.0  # a number inside a function is known to a factor of this


class PriorKind(Enum):
    """Distribution of one parameter."""

    NORMAL = "normal"
    UNIFORM = "uniform"
    LOG_UNIFORM = "loguniform"


@dataclass(frozen=True)
class Prior:
    """Distribution of one parameter: mean and standard deviation of a normal one, else the two ends.

    Both ends of a log-uniform prior are positive, or both negative.

    Attributes
    ----------
    kind : PriorKind
        Which distribution.
    first, second : float
        Its two numbers.

    Raises
    ------
    ValueError
        For numbers that make no distribution.
    """

    kind: PriorKind
    first: float
    second: float

    def __post_init__(self) -> None:
        a, b = self.first, self.second
        proper = bool(np.isfinite([a, b]).all())
        if self.kind is PriorKind.NORMAL:
            proper = proper and b > 0
        else:
            proper = proper and a < b and (self.kind is PriorKind.UNIFORM or a * b > 0)
        if not proper:
            raise ValueError(
                "Prior: expected normal(mean, sd > 0), uniform(low < high) or loguniform(low < high, of one "
                f"sign), got {self.kind.value}({a}, {b})."
            )

    @classmethod
    def of(cls, given: "Prior | tuple[str, float, float]") -> "Prior":
        """A prior as it is, or one from ``("normal", mean, sd)``, ``("loguniform", low, high)`` and so on."""
        if isinstance(given, Prior):
            return given
        try:
            kind, first, second = given
            return cls(PriorKind(kind), float(first), float(second))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Prior: expected (kind, number, number) with a kind among {[k.value for k in PriorKind]}, "
                f"got {given!r} ({error})."
            ) from error

    def quantile(self, u: float) -> float:
        """Value below which a share ``u`` of the probability lies."""
        a, b = self.first, self.second
        if self.kind is PriorKind.NORMAL:
            return a + b * ndtri(u)
        if self.kind is PriorKind.UNIFORM:
            return a + (b - a) * u
        return a * (b / a) ** u

    def log_density(self, value: ArrayLike) -> np.ndarray:
        """Logarithm of the density at values (...); -inf outside the ends."""
        value, (a, b) = np.asarray(value, dtype=float), (self.first, self.second)
        if self.kind is PriorKind.NORMAL:
            return -0.5 * ((value - a) / b) ** 2 - np.log(b) - 0.5 * np.log(2.0 * np.pi)
        inside = (value >= a) & (value <= b)
        if self.kind is PriorKind.UNIFORM:
            return np.where(inside, -np.log(b - a), -np.inf)
        size = np.abs(np.where(inside, value, 1.0))
        return np.where(inside, -np.log(size) - np.log(abs(np.log(b / a))), -np.inf)

    def widened(self, factor: float) -> "Prior":
        """The prior with ``factor`` times the spread (of the logarithm, where it is log-uniform)."""
        a, b = self.first, self.second
        if self.kind is PriorKind.NORMAL:
            return Prior(self.kind, a, b * factor)
        if self.kind is PriorKind.UNIFORM:
            centre, half = 0.5 * (a + b), 0.5 * (b - a) * factor
            return Prior(self.kind, centre - half, centre + half)
        centre, half = np.sign(a) * np.sqrt(a * b), 0.5 * abs(np.log(b / a)) * factor
        ends = sorted((centre * np.exp(-half), centre * np.exp(half)))
        return Prior(self.kind, *ends)


GivenPriors = Mapping[str, Prior | tuple[str, float, float]]
"""Priors by the names of parameters, as users write them; see `Prior.of`."""


@dataclass(frozen=True)
class JointPrior:
    """Independent priors of all parameters; maps the unit cube to them."""

    priors: tuple[Prior, ...]

    def __call__(self, u: np.ndarray) -> np.ndarray:
        return np.array([prior.quantile(v) for prior, v in zip(self.priors, u, strict=True)])

    def log_density(self, values: ArrayLike) -> np.ndarray:
        """Sum of the log densities at values (..., q)."""
        values = np.asarray(values, dtype=float)
        densities = (prior.log_density(values[..., k]) for k, prior in enumerate(self.priors))
        return sum(densities, start=np.zeros(()))


def default_priors(
    problem: ExpressionProblem,
    parameters: np.ndarray,
    observations: Observations,
    names: Sequence[str],
    points: np.ndarray | None = None,
) -> "dict[str, Prior]":
    """Priors that the data's scales suggest.

    A parameter that enters linearly is normal about 0, its spread such that its term is three times the
    typical speed. The others are log-uniform over a factor of ten to either side of their fitted values.

    Parameters
    ----------
    problem : ExpressionProblem
        The right-hand sides.
    parameters : array (q,)
        Fitted values, in the order of ``problem.names``.
    observations : Observations
        Data.
    names : list of str
        The parameters whose priors are wanted.
    points : array (N, d + m), optional
        Fitted states, and inputs, at the samples, where not all states were observed: typical speeds are
        then those of the right-hand sides there.

    Returns
    -------
    dict of str to Prior

    Raises
    ------
    ValueError
        For a parameter that enters otherwise than linearly and whose fitted value is 0.
    """
    scale, unit = observations.scale, observations.time_unit
    if points is None:
        points = np.concatenate(observations.path) * scale
        slopes = np.concatenate([s for _, s in observations.splines]) * scale / unit
    else:
        slopes = problem.rhs(points, parameters)
        scale = np.sqrt(np.mean(points[:, : problem.dim] ** 2, axis=0))
        scale = np.where(scale > 0, scale, 1.0)
    speed = np.sqrt(np.mean(slopes**2, axis=0))
    speed = np.where(speed > 0, speed, scale / unit)
    columns = np.sqrt(np.mean(problem.jac_p(points, parameters) ** 2, axis=0)) / speed[:, None]
    priors = {}
    for name in names:
        k = problem.names.index(name)
        effect, value = float(columns[:, k].max()), float(parameters[k])
        if problem.linear[k] and effect > 0:
            priors[name] = Prior(PriorKind.NORMAL, 0.0, _REACH / effect)
        elif value:
            ends = sorted((value / _DECADE, value * _DECADE))
            priors[name] = Prior(PriorKind.LOG_UNIFORM, *ends)
        else:
            raise ValueError(
                f"evidence: expected a prior for {name}, whose fitted value is 0 and says nothing of its "
                f"size; give priors={{{name!r}: (kind, number, number)}}."
            )
    return priors
