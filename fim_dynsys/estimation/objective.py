"""Likelihood of measurements given the parameters, with its gradient and its expected curvature."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fim_dynsys.estimation.experiments import TABLES, Experiments, Path, bounds_of
from fim_dynsys.estimation.parameters import ParameterSpace
from fim_dynsys.regression.kernels import likelihood

LEAST_SHARE = 1e-7
"""Of an observable's size: what is left of noise-free samples is not less."""

_AT_LEAST = 1e-3  # of the least scale, above which something is left


class Errors(enum.Enum):
    """How measurements scatter about what is expected of them."""

    NORMAL = "normal"
    LOG_NORMAL = "lognormal"
    LAPLACE = "laplace"
    LOG_LAPLACE = "log-laplace"
    POISSON = "poisson"

    @property
    def of_logarithm(self) -> bool:
        """Whether the logarithms of the measurements scatter."""
        return self in (Errors.LOG_NORMAL, Errors.LOG_LAPLACE)

    @property
    def is_laplace(self) -> bool:
        """Whether the scale is the mean of the absolute residuals, not their root mean square."""
        return self in (Errors.LAPLACE, Errors.LOG_LAPLACE)

    @property
    def law(self) -> int:
        """The density, as the kernels call it."""
        if self is Errors.POISSON:
            return likelihood.POISSON
        return likelihood.LAPLACE if self.is_laplace else likelihood.NORMAL


@dataclass(frozen=True)
class Observable:
    """How one observable is measured.

    Attributes
    ----------
    name : str
        Its name.
    errors : Errors
        Their distribution.
    at : int
        Where among the values of the program its expectation is.
    scale_at : int
        Where the scale of the errors is; -1 where it is given for each sample or to be estimated.
    log_unit : float
        Unit of logarithms of which ``scale_at`` or given errors are: ln 10 for decadic ones.
    group : str
        Observables of one group share an estimated scale; default each has its own.
    least, most : float
        Bounds of an estimated scale.
    is_share : bool
        Whether the scale of the errors is a share of the expectation.
    """

    name: str
    errors: Errors = Errors.NORMAL
    at: int = 0
    scale_at: int = -1
    log_unit: float = 1.0
    group: str = ""
    least: float = 0.0
    most: float = np.inf
    is_share: bool = False


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The objective at some coordinates.

    Attributes
    ----------
    value : float
        Minus the log-likelihood and the log-prior; infinite where a path fails.
    gradient, curvature : arrays (n,), (n, n)
        Of the value; the curvature is the expected one.
    scales : array (k,)
        Standard deviations of the observables' errors where these are estimated, else NaN.
    misfit : float
        Mean squared residual in units of the errors that are not estimated; 0 where all are.
    """

    value: float
    gradient: np.ndarray
    curvature: np.ndarray
    scales: np.ndarray
    misfit: float = 0.0


class Objective:
    """Minus the log-likelihood of all experiments, and the log-prior.

    Scales of errors that are neither given nor expressions are those that make the likelihood largest.

    Parameters
    ----------
    together : Experiments
        All.
    observables : sequence of Observable
        By their numbers.
    space : ParameterSpace
        Estimated numbers.
    """

    def __init__(
        self, together: Experiments, observables: Sequence[Observable], space: ParameterSpace
    ) -> None:
        self.together, self.observables, self.space = together, tuple(observables), space
        experiments = self.experiments = together.experiments
        self.kinds = np.concatenate([e.kinds for e in experiments])
        self.measured = np.concatenate([e.values for e in experiments])
        self.errors = np.concatenate([e.errors for e in experiments])
        self.at = np.array([o.at for o in observables])
        scale_at = np.array([o.scale_at for o in observables])
        law = np.array([o.errors.law for o in observables])
        of_log = np.array([o.errors.of_logarithm for o in observables], dtype=bool)
        unit = np.array([o.log_unit for o in observables])
        self.counts, logs = (law == likelihood.POISSON)[self.kinds], of_log[self.kinds]
        self.estimated = (scale_at[self.kinds] < 0) & np.isnan(self.errors) & ~self.counts
        names = [o.group or f"{k}" for k, o in enumerate(observables)]
        group = np.array([names.index(name) for name in names])
        count = len(self.observables)
        size = np.array([_size(self.measured[self.kinds == k]) for k in range(count)])
        self.least = LEAST_SHARE * np.where(of_log, 1.0, size)
        with np.errstate(all="ignore"):
            logarithms = np.log(self.measured)
            levels = np.where(logs, logarithms / unit[self.kinds], self.measured)
            # what the likelihood has of the measurements alone
            constants = np.where(logs, logarithms + np.log(unit[self.kinds]), 0.0)
        constants += _log_factorial(np.where(self.counts, self.measured, 0.0))
        self._absolute = bool((law == likelihood.LAPLACE).any())
        self.evaluations = 0
        self._arguments = (
            space.arrays,
            together.programs,
            TABLES,
            together.runs,
            (
                np.concatenate([e.rows for e in experiments]),
                self.kinds,
                levels,
                self.measured,
                self.errors,
                constants,
                bounds_of([e.rows for e in experiments]),
                np.concatenate(together.columns),
                bounds_of(together.columns),
                self.at,
                scale_at,
                law,
                of_log,
                unit,
                group,
                np.array([o.least for o in observables]),
                np.array([o.most for o in observables]),
                self.least,
                np.bincount(group[self.kinds][self.estimated], minlength=count),
            ),
        )

    @property
    def n(self) -> int:
        """Number of measurements."""
        return len(self.measured)

    def is_exact(self, evaluation: Evaluation) -> bool:
        """Whether nothing is left of any measurement, as of noise-free ones: no scale can be less."""
        if not self.n or not self.estimated.all():
            return False
        kinds = np.unique(self.kinds)
        return bool(np.all(evaluation.scales[kinds] <= (1.0 + _AT_LEAST) * self.least[kinds]))

    def paths(self, theta: np.ndarray, rtol: float, sensitivities: bool = True) -> list[Path] | None:
        """Paths of all experiments; None as soon as one fails."""
        natural = self.space.natural(theta)
        found = []
        for e in range(len(self.experiments)):
            path = self.together.path(e, natural, rtol, sensitivities)
            if not path.complete:
                return None
            found.append(path)
        return found

    def values(self, thetas: np.ndarray, rtol: float) -> np.ndarray:
        """The values (s,) alone at several coordinates (s, n)."""
        found = np.empty(len(thetas))
        self.evaluations += len(thetas)
        likelihood.values_of(np.ascontiguousarray(thetas), *self._arguments, rtol, found)
        return found

    def __call__(self, theta: np.ndarray, rtol: float) -> Evaluation:
        """Value, gradient and curvature at coordinates (n,), integrated to a relative tolerance."""
        held = np.zeros(len(theta), dtype=bool)
        return self._searched(theta, rtol, 0, held, 0.0, 1.0, bounding=False)[1]

    def searched(
        self,
        theta: np.ndarray,
        rtol: float,
        max_iterations: int,
        held: np.ndarray,
        decrement: float,
        damping: float,
    ) -> tuple[np.ndarray, Evaluation, int, int]:
        """Where a search from coordinates (n,) ends, the objective there, how it ended, and its iterations.

        See `fim_dynsys.estimation.descent.descend`.
        """
        found, evaluation, ended, iterations = self._searched(
            theta, rtol, max_iterations, held, decrement, damping, bounding=self._absolute
        )
        if self._absolute and ended != likelihood.FAILED:  # errors rest on the expected curvature
            evaluation = self(found, rtol)
        return found, evaluation, ended, iterations

    def _searched(
        self,
        theta: np.ndarray,
        rtol: float,
        max_iterations: int,
        held: np.ndarray,
        decrement: float,
        damping: float,
        bounding: bool,
    ) -> tuple[np.ndarray, Evaluation, int, int]:
        """As `searched`, by the curvature that `likelihood.judge` takes where it is ``bounding``."""
        n = len(theta)
        theta = np.array(theta, dtype=float)
        # value, misfit, damping and its growth, iterations, evaluations
        state = np.array([np.inf, 0.0, damping, 2.0, 0.0, 0.0])
        size, gradient, curvature = np.zeros(n), np.zeros(n), np.zeros((n, n))
        scales = np.full(len(self.observables), np.nan)
        ended = likelihood.UNFINISHED
        while ended == likelihood.UNFINISHED:  # so that a signal is heard
            ended = likelihood.search(
                theta,
                held,
                *self._arguments,
                rtol,
                max_iterations,
                decrement,
                bounding,
                state,
                size,
                gradient,
                curvature,
                scales,
            )
        self.evaluations += int(state[5])
        evaluation = Evaluation(float(state[0]), gradient, curvature, scales, float(state[1]))
        return theta, evaluation, ended, int(state[4])


def _size(values: np.ndarray) -> float:
    """Root mean square of measurements, 1 where there are none or all are zero."""
    size = float(np.sqrt(np.mean(values**2))) if len(values) else 0.0
    return size if size > 0 else 1.0


def _log_factorial(values: np.ndarray) -> np.ndarray:
    from scipy.special import gammaln

    return gammaln(values + 1.0)
