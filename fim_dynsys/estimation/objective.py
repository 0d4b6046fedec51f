"""Likelihood of measurements given the parameters, with its gradient and its expected curvature."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fim_dynsys.estimation.experiments import Experiment, Path, follow_experiment
from fim_dynsys.estimation.parameters import ParameterSpace
from fim_dynsys.estimation.programs import Program

LEAST_SHARE = 1e-7
"""Of an observable's size: what is left of noise-free samples is not less."""

_LEAST_COUNT = 1e-10  # expected counts, of which a logarithm is taken
_ROOT_2PI = 0.5 * float(np.log(2.0 * np.pi))


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
        """Whether the density falls exponentially."""
        return self in (Errors.LAPLACE, Errors.LOG_LAPLACE)


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
    """

    name: str
    errors: Errors = Errors.NORMAL
    at: int = 0
    scale_at: int = -1
    log_unit: float = 1.0
    group: str = ""
    least: float = 0.0
    most: float = np.inf


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
    paths : tuple of Path
        Of the experiments.
    misfit : float
        Mean squared residual in units of the errors that are not estimated; 0 where all are.
    """

    value: float
    gradient: np.ndarray
    curvature: np.ndarray
    scales: np.ndarray
    paths: tuple[Path, ...]
    misfit: float = 0.0


class Objective:
    """Minus the log-likelihood of all experiments, and the log-prior.

    Scales of errors that are neither given nor expressions are those that make the likelihood largest.

    Parameters
    ----------
    rates, seen : Program
        Right-hand sides; expectations of the observables, and scales of their errors.
    observables : sequence of Observable
        By their numbers.
    experiments : sequence of Experiment
        All.
    space : ParameterSpace
        Estimated numbers.
    """

    def __init__(
        self,
        rates: Program,
        seen: Program,
        observables: Sequence[Observable],
        experiments: Sequence[Experiment],
        space: ParameterSpace,
    ) -> None:
        self.rates, self.seen = rates, seen
        self.observables, self.experiments, self.space = tuple(observables), tuple(experiments), space
        self.kinds = np.concatenate([e.kinds for e in experiments])
        self.measured = np.concatenate([e.values for e in experiments])
        self.errors = np.concatenate([e.errors for e in experiments])
        count = len(self.observables)
        self.at = np.array([o.at for o in observables])
        self.scale_at = np.array([o.scale_at for o in observables])
        self.logs = np.array([o.errors.of_logarithm for o in observables], dtype=bool)[self.kinds]
        self.laplace = np.array([o.errors.is_laplace for o in observables], dtype=bool)[self.kinds]
        self.poisson = np.array([o.errors is Errors.POISSON for o in observables], dtype=bool)[self.kinds]
        self.unit = np.array([o.log_unit for o in observables])[self.kinds]
        self.by_formula = self.scale_at[self.kinds] >= 0
        self.estimated = ~self.by_formula & np.isnan(self.errors) & ~self.poisson
        names = [o.group or f"{k}" for k, o in enumerate(observables)]
        self.group_of = np.array([names.index(name) for name in names])
        self.groups = self.group_of[self.kinds]
        self.numbers = np.bincount(self.groups[self.estimated], minlength=count)
        self.scale_low = np.array([o.least for o in observables])
        self.scale_high = np.array([o.most for o in observables])
        size = np.array([_size(self.measured[self.kinds == k]) for k in range(count)])
        logs = np.array([o.errors.of_logarithm for o in observables], dtype=bool)
        self.least = LEAST_SHARE * np.where(logs, 1.0, size)
        with np.errstate(all="ignore"):
            logarithms = np.log(self.measured)
        self.levels = np.where(self.logs, logarithms / self.unit, self.measured)
        # what the likelihood has of the measurements alone
        self.constants = np.where(self.logs, logarithms + np.log(self.unit), 0.0)
        self.factorials = _log_factorial(np.where(self.poisson, self.measured, 0.0))
        self.evaluations = 0

    @property
    def n(self) -> int:
        """Number of measurements."""
        return len(self.measured)

    def paths(self, theta: np.ndarray, rtol: float, sensitivities: bool = True) -> list[Path] | None:
        """Paths of all experiments; None as soon as one fails."""
        natural = self.space.natural(theta)
        found = []
        for experiment in self.experiments:
            path = follow_experiment(self.rates, self.seen, experiment, natural, rtol, sensitivities)
            if not path.complete:
                return None
            found.append(path)
        return found

    def value(self, theta: np.ndarray, rtol: float) -> float:
        """The value alone."""
        return self._evaluate(theta, rtol, False).value

    def __call__(self, theta: np.ndarray, rtol: float) -> Evaluation:
        """Value, gradient and curvature at coordinates (n,), integrated to a relative tolerance."""
        return self._evaluate(theta, rtol, True)

    def _failed(self) -> Evaluation:
        n = len(self.space)
        scales = np.full(len(self.observables), np.nan)
        return Evaluation(np.inf, np.zeros(n), np.zeros((n, n)), scales, ())

    def _evaluate(self, theta: np.ndarray, rtol: float, wanted: bool) -> Evaluation:
        self.evaluations += 1
        with np.errstate(all="ignore"):
            paths = self.paths(theta, rtol, wanted)
            if paths is None:
                return self._failed()
            return self._judged(theta, paths, wanted)

    def _judged(self, theta: np.ndarray, paths: Sequence[Path], wanted: bool) -> Evaluation:
        mean = np.concatenate(
            [p.values[e.rows, self.at[e.kinds]] for e, p in zip(self.experiments, paths, strict=True)]
        )
        scale = self.errors.copy()
        if self.by_formula.any():
            formula = np.concatenate(
                [
                    p.values[e.rows, self.scale_at[e.kinds]]
                    for e, p in zip(self.experiments, paths, strict=True)
                ]
            )
            scale = np.where(self.by_formula, formula, scale)
        logs, laplace, poisson = self.logs.any(), self.laplace.any(), self.poisson.any()
        off = (np.where(self.logs, np.log(mean) / self.unit, mean) if logs else mean) - self.levels
        scales = np.full(len(self.observables), np.nan)
        if self.estimated.any():
            own = self.estimated & ~self.laplace
            squares = np.bincount(self.groups[own], off[own] ** 2, minlength=len(scales))
            sizes = np.bincount(
                self.groups[self.estimated & self.laplace],
                np.abs(off[self.estimated & self.laplace]),
                minlength=len(scales),
            )
            counts = np.maximum(self.numbers, 1)
            scales = np.where(
                self.numbers > 0, np.sqrt(squares / counts + self.least**2) + sizes / counts, np.nan
            )
            scales = np.clip(scales, self.scale_low, self.scale_high)[self.group_of]
            scale = np.where(self.estimated, scales[self.kinds], scale)
        ratio = off / scale
        # an estimated scale has a part that nothing explains, with which the objective is at its least in it
        rest = np.where(self.estimated, (self.least[self.kinds] / scale) ** 2, 0.0)
        terms = 0.5 * (ratio**2 + rest) + np.log(scale) + _ROOT_2PI
        squares = ratio**2
        if laplace:
            terms = np.where(self.laplace, np.abs(ratio) + np.log(2.0 * scale), terms)
        counts_at = np.maximum(mean, _LEAST_COUNT)
        if poisson:
            own_terms = counts_at - self.measured * np.log(counts_at) + self.factorials
            terms = np.where(self.poisson, own_terms, terms)
            squares = np.where(self.poisson, (mean - self.measured) ** 2 / counts_at, squares)
        if logs:
            terms = terms + self.constants
        prior, gradient, curvature = self.space.prior(theta)
        total = float(np.sum(terms)) + prior
        if not np.isfinite(total) or (scale[~self.poisson] <= 0).any():
            return self._failed()
        curvature = np.diag(curvature)
        known = ~self.estimated
        misfit = float(np.mean(squares[known])) if known.any() else 0.0
        if wanted:
            # the expected curvature of a Laplace density is that of a normal one of the same scale
            weight, pull = 1.0 / scale, ratio
            if logs:
                weight = np.where(self.logs, 1.0 / (mean * self.unit * scale), weight)
            if laplace:
                pull = np.where(self.laplace, np.sign(ratio), pull)
            if poisson:
                root = np.sqrt(counts_at)
                weight = np.where(self.poisson, 1.0 / root, weight)
                pull = np.where(self.poisson, (mean - self.measured) / root, pull)
            self._accumulate(theta, paths, gradient, curvature, weight, pull, scale, ratio)
            if not (np.isfinite(gradient).all() and np.isfinite(curvature).all()):
                return self._failed()
        return Evaluation(total, gradient, curvature, scales, tuple(paths), misfit)

    def _accumulate(
        self,
        theta: np.ndarray,
        paths: Sequence[Path],
        gradient: np.ndarray,
        curvature: np.ndarray,
        weight: np.ndarray,
        pull: np.ndarray,
        scale: np.ndarray,
        ratio: np.ndarray,
    ) -> None:
        """Add each experiment's part to the gradient and the curvature."""
        slope, first = self.space.slope(theta), 0
        for e, p in zip(self.experiments, paths, strict=True):
            rows = slice(first, first + len(e.rows))
            own = slope[p.columns]
            design = p.tangent[e.rows, self.at[e.kinds]] * (own * weight[rows, None])
            block = design.T @ design
            gradient[p.columns] += design.T @ pull[rows]
            formula = self.by_formula[rows]
            if formula.any():
                at = self.scale_at[e.kinds[formula]]
                spread = p.tangent[e.rows[formula], at] * (own / scale[rows][formula, None])
                off, laplace = ratio[rows][formula], self.laplace[rows][formula]
                gradient[p.columns] += spread.T @ np.where(laplace, 1.0 - np.abs(off), 1.0 - off**2)
                block += spread.T @ (spread * np.where(laplace, 1.0, 2.0)[:, None])
            curvature[np.ix_(p.columns, p.columns)] += block
            first += len(e.rows)


def _size(values: np.ndarray) -> float:
    """Root mean square of measurements, 1 where there are none or all are zero."""
    size = float(np.sqrt(np.mean(values**2))) if len(values) else 0.0
    return size if size > 0 else 1.0


def _log_factorial(values: np.ndarray) -> np.ndarray:
    from scipy.special import gammaln

    return gammaln(values + 1.0)
