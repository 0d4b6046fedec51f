"""Evidence of given models: which of several equations the data support."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.comparison.closed_forms import IntegralRegression
from fim_dynsys.comparison.likelihoods import NoiseLevel, TrajectoryLikelihood
from fim_dynsys.comparison.nested import sample_nested
from fim_dynsys.comparison.posteriors import Posterior
from fim_dynsys.comparison.priors import GivenPriors, JointPrior, Prior, PriorKind, default_priors
from fim_dynsys.comparison.quadrature import Peak, laplace, quadrature
from fim_dynsys.comparison.results import ModelComparison, ModelEvidence
from fim_dynsys.errors import SamplingWarning, check_whole, warn
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.symbolic import SymbolicField, read_expressions
from fim_dynsys.regression.expression_fits import ExpressionFit, ExpressionProblem, fit_expressions
from fim_dynsys.regression.observed import Observations, observe
from fim_dynsys.trajectories.container import Trajectories

if TYPE_CHECKING:
    from sympy import Expr, Symbol

METHODS = ("nested", "laplace", "linear")
_NOISE_FACTOR = 10.0  # the noise level may be so many times larger or smaller than its estimate
_START_SPREAD = 3.0  # standard deviations of the noise, of the prior of initial states
_LEAST_NOISE = 1e-4  # of a state's root mean square
_MISSED = 10.0  # nats by which a fit's posterior density exceeds all samples where their peak is another
_SPREADS = (0.5, 2.0)  # of all priors of parameters, to see how much the evidence depends on them


def evidence(
    models: Mapping[str, Any] | Iterable[Any],
    trajectories: Trajectories,
    priors: GivenPriors | None = None,
    noise: ArrayLike | None = None,
    method: str = "nested",
    live_points: int = 250,
    seed: int = 0,
    resume: bool = False,
    progress: bool | None = None,
) -> ModelComparison:
    """Compare parametric models by their evidence on observed trajectories.

    The likelihood integrates each model from free initial states; the noise is normal, its level known or
    integrated out. Models are given as right-hand sides with free parameters, or as fields or fitted models
    whose coefficients become free.

    Parameters
    ----------
    models : dict of str to model, or list of models
        Each a list of expressions, a `SymbolicField`, a field that is a finite sum of terms, or a fitted
        model with such a field.
    trajectories : Trajectories
        Observations; incomplete points are left out.
    priors : dict of str to prior, optional
        Of parameters by name, for all models that have them: ``("normal", mean, sd)``, ``("uniform", low,
        high)`` or ``("loguniform", low, high)``. Default: `default_priors` in
        `fim_dynsys.comparison.priors`, which the scales of the data suggest.
    noise : float or array (d,), optional
        Known standard deviation of the noise; default: integrated over a factor of ten to either side of an
        estimate.
    method : {"nested", "laplace", "linear"}
        Nested sampling; or the normal approximation about the best fit of the trajectories; or, for
        right-hand sides linear in their parameters with normal priors, the closed form of a regression on
        integrals along the smoothed data: a screen that takes milliseconds and integrates nothing.
    live_points : int
        Of nested sampling; errors fall as the root.
    seed : int
        Of the sampling.
    resume : bool
        Whether an interrupted run goes on where it was, see `fim_dynsys.comparison.nested.sample_nested`.
    progress : bool, optional
        Whether a progress bar is shown; default on a terminal.

    Returns
    -------
    ModelComparison
        Best first.

    Warns
    -----
    SamplingWarning
        Where a fit of the trajectories lies far above all that nested sampling found.

    Raises
    ------
    ValueError
        For models that cannot be read, priors of no parameter, an unknown method, or a model or prior that
        the method cannot treat.

    References
    ----------
    D. J. C. MacKay, Information Theory, Inference, and Learning Algorithms (2003), ch. 28. Of the methods:
    `sample_nested`, `laplace` and `log_evidence_of_line` in `fim_dynsys.comparison`.
    """
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"evidence: expected method among {METHODS}, got {method!r}.")
    check_whole("evidence", 0, seed=seed)
    check_whole("evidence", 2, live_points=live_points)
    observations, priors, level = _prepared(trajectories, priors, noise)
    candidates = _candidates(models, trajectories.state_names)
    known = {name for candidate in candidates for name in candidate.problem.names}
    unknown = sorted(set(priors) - known)
    if unknown:
        raise ValueError(f"evidence: expected priors of parameters among {sorted(known)}, got {unknown}.")
    found = []
    for k, candidate in enumerate(candidates):
        question = _Question(candidate, observations, priors, level)
        if method == "linear":
            posterior = question.linear(seed + k)
        elif method == "laplace":
            posterior = question.laplace(seed + k)
        else:
            posterior = sample_nested(
                question.likelihood, question.prior, live_points, seed + k, resume, progress, candidate.name
            )
            question.warn_of_a_missed_peak(posterior)
        found.append(question.answered(posterior, trajectories))
    return ModelComparison(tuple(sorted(found, key=lambda m: -m.log_evidence)), method)


def quadrature_check(
    expressions: Sequence[str],
    trajectories: Trajectories,
    priors: GivenPriors | None = None,
    noise: ArrayLike | None = None,
    nodes: int = 5,
) -> tuple[float, float]:
    """Log evidence of one model by Laplace's approximation and by quadrature, to hold `evidence` against.

    Parameters
    ----------
    expressions : list of str
        Right-hand sides.
    trajectories, priors, noise
        As for `evidence`.
    nodes : int
        Of the quadrature in each direction; its cost is a power of the number of parameters and starts.

    Returns
    -------
    laplace, quadrature : float

    Raises
    ------
    ValueError
        As `evidence`, and where the posterior has no peak near the best fit of the trajectories.

    References
    ----------
    As for `laplace` and `quadrature` in `fim_dynsys.comparison.quadrature`.
    """
    observations, priors, level = _prepared(trajectories, priors, noise)
    (candidate,) = _candidates({"model": expressions}, trajectories.state_names)
    question = _Question(candidate, observations, priors, level)
    peak = Peak.near(question.likelihood, question.prior, question.best)
    return float(peak.log_evidence), quadrature(question.likelihood, question.prior, peak, nodes)


@dataclass(frozen=True)
class _Candidate:
    """A model as read: its states' symbols, right-hand sides, and where the fit of its parameters starts."""

    name: str
    symbols: tuple["Symbol", ...]
    expressions: tuple["Expr", ...]
    start: dict[str, float] | None

    @cached_property
    def problem(self) -> ExpressionProblem:
        return ExpressionProblem(self.expressions, self.symbols)


@dataclass(frozen=True)
class _Question:
    """A candidate, the data, priors as given and the noise level: what is asked for evidence."""

    candidate: _Candidate
    observations: Observations
    given: dict[str, Prior]
    level: NoiseLevel

    @cached_property
    def fit(self) -> ExpressionFit:
        """Best fit of the trajectories."""
        c = self.candidate
        return fit_expressions(c.expressions, c.symbols, self.observations, c.start)

    @property
    def best(self) -> np.ndarray:
        """Parameters and starts (q + P d,) of the best fit."""
        values = [self.fit.parameters[name] for name in self.candidate.problem.names]
        return np.concatenate([values, (self.fit.starts * self.observations.scale).ravel()])

    @cached_property
    def priors(self) -> dict[str, Prior]:
        """Of the parameters by name: those given, else those that the data's scales suggest."""
        problem = self.candidate.problem
        missing = [name for name in problem.names if name not in self.given]
        if not missing:
            return {name: self.given[name] for name in problem.names}
        # defaults of what enters linearly do not depend on the fit, which takes most of the time
        values = np.zeros(len(problem.names)) if problem.linear.all() else self.best[: len(problem.names)]
        own = self.given | default_priors(problem, values, self.observations, missing)
        return {name: own[name] for name in problem.names}

    @cached_property
    def starts(self) -> tuple[Prior, ...]:
        """Priors of the initial states of all pieces."""
        observations = self.observations
        spread = np.maximum(_START_SPREAD * observations.law.level, 10.0 * _LEAST_NOISE) * observations.scale
        return tuple(
            Prior(PriorKind.NORMAL, float(value), float(width))
            for start in observations.start * observations.scale
            for value, width in zip(start, spread, strict=True)
        )

    @property
    def prior(self) -> JointPrior:
        return JointPrior((*self.priors.values(), *self.starts))

    @cached_property
    def likelihood(self) -> TrajectoryLikelihood:
        texts = [str(expression) for expression in self.candidate.expressions]
        return TrajectoryLikelihood(texts, self.candidate.problem.names, self.observations, self.level)

    def warn_of_a_missed_peak(self, posterior: Posterior) -> None:
        """Hold the highest point that was sampled against the best fit."""
        if not np.isfinite(self.prior.log_density(self.best)):
            return
        fitted = self.likelihood(self.best) + self.prior.log_density(self.best)
        sampled = np.max(posterior.log_likelihood + self.prior.log_density(posterior.points))
        if fitted > sampled + _MISSED:
            warn(
                f"evidence of {self.candidate.name}: a fit of the trajectories lies {fitted - sampled:.0f} "
                "nats above all that nested sampling found, so that its evidence is too low; take narrower "
                "priors or more live_points, or method='laplace'.",
                SamplingWarning,
            )

    def laplace(self, seed: int) -> Posterior:
        """Posterior by Laplace's approximation."""
        try:
            return laplace(self.likelihood, self.prior, self.best, seed=seed)
        except ValueError as error:
            raise ValueError(f"evidence: of {self.candidate.name}: {error}") from error

    def linear(self, seed: int) -> Posterior:
        """Posterior by the closed form."""
        problem, priors = self.candidate.problem, self.prior.priors
        curved = [name for name, linear in zip(problem.names, problem.linear, strict=True) if not linear]
        if curved:
            raise ValueError(
                "evidence: expected right-hand sides jointly linear in their parameters for method 'linear', "
                f"got {self.candidate.name} with {', '.join(curved)}; write it as a sum of coefficients "
                "times terms or use method='laplace'."
            )
        other = [name for name, prior in self.priors.items() if prior.kind is not PriorKind.NORMAL]
        if other:
            raise ValueError(
                "evidence: expected normal priors for method 'linear', got "
                f"{', '.join(f'{self.priors[name].kind.value} for {name}' for name in other)}; give normal "
                "ones or use method='laplace'."
            )
        centre, spread = np.array([[prior.first, prior.second] for prior in priors]).T
        return IntegralRegression.of(problem, self.observations).posterior(centre, spread, self.level, seed)

    def answered(self, posterior: Posterior, context: Trajectories) -> ModelEvidence:
        """The model's evidence, with priors of other spreads too."""
        narrow, wide = (
            posterior.log_evidence_under(
                self.prior, JointPrior((*(p.widened(factor) for p in self.priors.values()), *self.starts))
            )
            for factor in _SPREADS
        )
        return ModelEvidence(
            self.candidate.name,
            tuple(str(expression) for expression in self.candidate.expressions),
            tuple(self.candidate.problem.names),
            posterior,
            self.priors,
            self.starts,
            narrow,
            wide,
            context,
        )


def _prepared(
    trajectories: Trajectories, priors: GivenPriors | None, noise: ArrayLike | None
) -> tuple[Observations, dict[str, Prior], NoiseLevel]:
    """Observations, priors as given, and the noise level."""
    if not isinstance(trajectories, Trajectories):
        raise TypeError(f"evidence: expected Trajectories, got {type(trajectories).__name__}.")
    if not isinstance(priors, Mapping | None):
        raise ValueError(f"evidence: expected priors as a dict by names of parameters, got {priors!r}.")
    complete = trajectories.drop_incomplete("evidence")
    samples = [(t, x) for t, x in complete.arrays() if len(t) >= 2]
    if not samples:
        raise ValueError(
            "evidence: expected trajectories with two or more complete samples, got none; interpolate or "
            "add samples in which every state is observed."
        )
    observations = observe(samples)
    given = {name: Prior.of(value) for name, value in (priors or {}).items()}
    return observations, given, _noise_level(observations, noise)


def _noise_level(observations: Observations, noise: ArrayLike | None) -> NoiseLevel:
    if noise is not None:
        try:
            known = np.broadcast_to(np.asarray(noise, dtype=float), (observations.dim,))
        except (TypeError, ValueError):
            known = np.full(observations.dim, np.nan)
        if not (np.isfinite(known).all() and (known > 0).all()):
            raise ValueError(
                f"evidence: expected a positive noise level in the units of the states, or one for each of "
                f"{observations.dim}, got {noise!r}."
            )
        return NoiseLevel(known, known)
    guess = np.maximum(observations.law.level, _LEAST_NOISE) * observations.scale
    return NoiseLevel(guess / _NOISE_FACTOR, guess * _NOISE_FACTOR)


def _candidates(models: Mapping[str, Any] | Iterable[Any], state_names: Sequence[str]) -> list[_Candidate]:
    """The models as read, each of a name of its own."""
    if isinstance(models, str) or not isinstance(models, Iterable):
        raise ValueError(f"evidence: expected models as a dict or a list, got {models!r}.")
    pairs = list(models.items()) if isinstance(models, Mapping) else [(None, model) for model in models]
    if not pairs:
        raise ValueError("evidence: expected at least one model, got none.")
    found = []
    for k, (name, model) in enumerate(pairs):
        (symbols, expressions), start, own = _read(model, state_names)
        if len(expressions) != len(state_names):
            raise ValueError(
                f"evidence: expected {len(state_names)} right-hand sides, one per state, got "
                f"{len(expressions)} in model {name or k}."
            )
        found.append(_Candidate(str(name or own or f"model {k}"), symbols, tuple(expressions), start))
    names = [candidate.name for candidate in found]
    if len(set(names)) < len(names):
        raise ValueError(f"evidence: expected different names, got {names}; give models as a dict.")
    return found


def _read(
    model: Any, state_names: Sequence[str]
) -> tuple[tuple[tuple["Symbol", ...], tuple["Expr", ...]], dict[str, float] | None, str | None]:
    """Symbols and expressions of a model, starts of its parameters, and a name of its own."""
    field = getattr(model, "field_", model)
    own = getattr(model, "name", None) if field is not model else None
    if isinstance(field, SymbolicField):
        return (field.symbols, field.expressions), field.parameters, own
    if isinstance(field, DictionaryField):
        return *_freed(field), own
    if isinstance(field, str):
        field = [field]
    try:
        expressions = list(field)
    except TypeError:
        raise ValueError(
            "evidence: expected expressions, a SymbolicField, or a field or fitted model that is a finite "
            f"sum of terms, got {type(model).__name__}; distill it first (fim_dynsys.distill)."
        ) from None
    return read_expressions(expressions, state_names), None, own


def _freed(field: DictionaryField) -> "tuple[tuple[tuple[Symbol, ...], tuple[Expr, ...]], dict[str, float]]":
    """The field with a free parameter for each coefficient."""
    import sympy

    symbols = tuple(sympy.Symbol(f"x{i}", real=True) for i in range(field.dim))
    terms = field.dictionary.sympy(symbols)
    start, expressions = {}, []
    for i, column in enumerate(field.coefficients.T):
        parts = []
        for m in np.flatnonzero(column):
            name = f"c{i}_{m}"
            start[name] = float(column[m])
            parts.append(sympy.Symbol(name, real=True) * terms[m])
        expressions.append(sympy.Add(*parts))
    return (symbols, tuple(expressions)), start
