"""Evidence of given models: which of several equations the data support."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from fim_dynsys.comparison.quadrature import NoPeakError, Peak, laplace, quadrature
from fim_dynsys.comparison.results import ModelComparison, ModelEvidence
from fim_dynsys.errors import SamplingWarning, check_whole, warn
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.expressions import parse
from fim_dynsys.fields.symbolic import DrivenExpressions, SymbolicField
from fim_dynsys.regions import default_names
from fim_dynsys.regression.criteria import Noise
from fim_dynsys.regression.expression_fits import ExpressionFit, ExpressionProblem, fit_expressions
from fim_dynsys.regression.given import Expressions, Given
from fim_dynsys.regression.hidden import HiddenFit
from fim_dynsys.regression.observed import Observations, complete_inputs, complete_records, observe
from fim_dynsys.threads import on_one_thread
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.ordering import with_clock, with_coordinates

if TYPE_CHECKING:
    from sympy import Expr

METHODS = ("nested", "laplace", "linear")
_NOISE_FACTOR = 10.0  # the noise level may be so many times larger or smaller than its estimate
_START_SPREAD = 3.0  # standard deviations of the noise, of the prior of initial states
_LEAST_NOISE = 1e-4  # of a state's root mean square
_MISSED = 10.0  # nats by which a fit's posterior density exceeds all samples where their peak is another
_TIME = "t"  # in expressions
_SPREADS = (0.5, 2.0)  # of all priors of parameters, to see how much the evidence depends on them


@on_one_thread
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
    observed: Sequence[str] | None = None,
) -> ModelComparison:
    """Compare parametric models by their evidence on observed trajectories.

    The likelihood integrates each model from free initial states; the noise is normal, its level known or
    integrated out. Models are given as right-hand sides with free parameters, or as fields or fitted models
    whose coefficients become free. With `observed` they may have hidden states, each its own:
    where these start is integrated out like the parameters. Inputs that the trajectories carry act on all;
    ``t`` in expressions is the time.

    Parameters
    ----------
    models : dict of str to model, or list of models
        Each a list of expressions or a dict of them by state, a `SymbolicField`, a field that is a finite
        sum of terms, or a fitted model with such a field.
    trajectories : Trajectories
        Observations; incomplete points are left out.
    priors : dict of str to prior, optional
        Of parameters by name, for all models that have them: ``("normal", mean, sd)``, ``("uniform", low,
        high)`` or ``("loguniform", low, high)``; ``"s(0)"`` is where state s starts in each trajectory.
        Default: `default_priors` in `fim_dynsys.comparison.priors`, which the scales of the data suggest;
        a hidden state starts normally about its fitted first value, its spread the root mean square of its
        fitted path.
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
    observed : list of str, optional
        What the columns of the trajectories are, each a state or an expression in states, inputs and
        parameters of every model. Default: all states.

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

    See Also
    --------
    compare : By prediction instead.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> t = np.linspace(0, 5, 50)
    >>> data = fim_dynsys.Trajectories.from_arrays(3.0 * np.exp(-0.5 * t), t)
    >>> noisy = fim_dynsys.add_noise(data, 0.02, rng=0)
    >>> models = {"exponential": ["-k*x0"], "constant": ["-k"]}
    >>> priors = {"k": ("uniform", 0.0, 2.0)}
    >>> result = fim_dynsys.evidence(models, noisy, priors, method="laplace", progress=False)
    >>> result.models[0].name
    'exponential'
    """
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"evidence: expected method among {METHODS}, got {method!r}.")
    check_whole("evidence", 0, seed=seed)
    check_whole("evidence", 2, live_points=live_points)
    pairs = _pairs(models)
    trajectories, inputs = _with_time(pairs, trajectories, observed)
    complete, observations, priors, level = _prepared(trajectories, priors, noise)
    candidates = _candidates(pairs, trajectories, inputs, observed)
    known = sorted({name for candidate in candidates for name in candidate.given.names})
    starts = {f"{state}(0)" for candidate in candidates for state in candidate.given.states}
    unknown = sorted(set(priors) - set(known) - starts)
    if unknown:
        raise ValueError(
            f"evidence: expected priors of parameters among {known}, got {unknown}; those of starts are "
            f"named {', '.join(sorted(starts))}."
        )
    found = []
    for k, candidate in enumerate(candidates):
        question = _Question(candidate, complete, observations, priors, level)
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
    expressions: Expressions,
    trajectories: Trajectories,
    priors: GivenPriors | None = None,
    noise: ArrayLike | None = None,
    nodes: int = 5,
    observed: Sequence[str] | None = None,
) -> tuple[float, float]:
    """Log evidence of one model by Laplace's approximation and by quadrature, to hold `evidence` against.

    Parameters
    ----------
    expressions : list of str, or dict by state
        Right-hand sides.
    trajectories, priors, noise
        As for `evidence`.
    nodes : int
        Of the quadrature in each direction; its cost is a power of the number of parameters and starts.
    observed : list of str, optional
        As for `evidence`.

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
    pairs = [("model", expressions)]
    trajectories, inputs = _with_time(pairs, trajectories, observed)
    complete, observations, priors, level = _prepared(trajectories, priors, noise)
    (candidate,) = _candidates(pairs, trajectories, inputs, observed)
    question = _Question(candidate, complete, observations, priors, level)
    peak = question.peak
    return float(peak.log_evidence), quadrature(question.likelihood, question.prior, peak, nodes)


@dataclass(frozen=True)
class _Candidate:
    """A model as read, and where the fit of its parameters starts."""

    name: str
    given: Given
    start: dict[str, float] | None

    @property
    def problem(self) -> ExpressionProblem:
        return self.given.rates

    @property
    def plain(self) -> bool:
        """Whether all states were observed and there are no inputs."""
        return self.given.full and not self.given.inputs


@dataclass(frozen=True)
class _Question:
    """A candidate, the data, priors as given and the noise level: what is asked for evidence."""

    candidate: _Candidate
    complete: Trajectories
    observations: Observations
    given: dict[str, Prior]
    level: NoiseLevel

    @cached_property
    def fit(self) -> ExpressionFit:
        """Best fit of the trajectories where all states were observed."""
        c = self.candidate
        return fit_expressions(c.given.expressions, c.given.state_symbols, self.observations, c.start)

    @cached_property
    def hidden_fit(self) -> HiddenFit:
        """Best fit of the trajectories where there are hidden states or inputs."""
        c = self.candidate
        with np.errstate(all="ignore"):  # what overflows is judged by what comes of it
            return c.given.fit("evidence", self.complete, self.observations, Noise.ESTIMATED, c.start)

    @cached_property
    def best(self) -> np.ndarray:
        """Parameters and starts (q + P d,) of the best fit."""
        if self.candidate.plain:
            parameters, starts = self.fit.parameters, self.fit.starts * self.observations.scale
        else:
            parameters = self.hidden_fit.parameters
            starts = np.stack([path[0] for path in self.hidden_fit.paths])
        values = [parameters[name] for name in self.candidate.problem.names]
        return np.concatenate([values, starts.ravel()])

    @property
    def points(self) -> np.ndarray | None:
        """Fitted states, and inputs, at the samples (N, d + m); None where no fit is needed for them."""
        if self.candidate.plain:
            return None
        inputs = np.concatenate(self.observations.inputs) * self.observations.input_scale
        return np.concatenate([np.concatenate(self.hidden_fit.paths), inputs], axis=1)

    @cached_property
    def priors(self) -> dict[str, Prior]:
        """Of the parameters by name: those given, else those that the data's scales suggest."""
        problem = self.candidate.problem
        missing = [name for name in problem.names if name not in self.given]
        if not missing:
            return {name: self.given[name] for name in problem.names}
        # defaults of what enters linearly do not depend on the fit, which takes most of the time
        alone = self.candidate.plain and problem.linear.all()
        values = np.zeros(len(problem.names)) if alone else self.best[: len(problem.names)]
        priors = self.given | default_priors(problem, values, self.observations, missing, self.points)
        return {name: priors[name] for name in problem.names}

    @cached_property
    def starts(self) -> tuple[Prior, ...]:
        """Priors of the initial states of all pieces."""
        return tuple(prior for piece in range(len(self.observations.samples)) for prior in self._begun(piece))

    def _begun(self, piece: int) -> Iterator[Prior]:
        observations, given = self.observations, self.candidate.given
        spread = (
            np.maximum(_START_SPREAD * observations.noise.level, 10.0 * _LEAST_NOISE) * observations.scale
        )
        seen = observations.start[piece] * observations.scale
        for i, state in enumerate(given.states):
            (columns,) = np.nonzero(given.direct == i)
            if f"{state}(0)" in self.given:
                yield self.given[f"{state}(0)"]
            elif len(columns):
                yield Prior(PriorKind.NORMAL, float(seen[columns[0]]), float(spread[columns[0]]))
            else:
                paths = self.hidden_fit.paths
                size = float(np.sqrt(np.mean(np.concatenate(paths)[:, i] ** 2)))
                yield Prior(PriorKind.NORMAL, float(paths[piece][0, i]), size or 1.0)

    @property
    def prior(self) -> JointPrior:
        return JointPrior((*self.priors.values(), *self.starts))

    def widened(self, factor: float) -> JointPrior:
        """The prior with other spreads of all that is not read off the observations."""
        given = self.candidate.given
        seen = np.isin(np.arange(len(given.states)), given.direct)
        starts = (
            prior if seen[k % len(seen)] else prior.widened(factor) for k, prior in enumerate(self.starts)
        )
        return JointPrior((*(p.widened(factor) for p in self.priors.values()), *starts))

    @cached_property
    def likelihood(self) -> TrajectoryLikelihood:
        given = self.candidate.given
        texts = [str(expression) for expression in given.expressions]
        names, seen, size = given.names, None, None
        if not self.candidate.plain:
            seen = [str(expression) for expression in given.seen]
            size = float(np.abs(np.concatenate(self.hidden_fit.paths)).max())
        return TrajectoryLikelihood(texts, names, self.observations, self.level, seen, size)

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
        return laplace(self.likelihood, self.peak, seed=seed)

    @cached_property
    def peak(self) -> Peak:
        """The highest point of the posterior near the best fit."""
        try:
            return Peak.near(self.likelihood, self.prior, self.best)
        except NoPeakError as error:
            given = self.candidate.given
            pieces = range(len(self.observations.samples))
            starts = [f"{s}(0)" + (f"[{k}]" if len(pieces) > 1 else "") for k in pieces for s in given.states]
            places = zip([*given.names, *starts], error.place, strict=True)
            raise ValueError(
                f"evidence of {self.candidate.name}: expected a peak of the posterior near the best fit, got "
                f"none near {', '.join(f'{name} = {value:.4g}' for name, value in places)}: some direction "
                "has no curvature, or the prior ends there; give other priors, or sample it "
                "(method='nested')."
            ) from error

    def linear(self, seed: int) -> Posterior:
        """Posterior by the closed form."""
        if not self.candidate.plain:
            raise ValueError(
                "evidence: expected all states observed and no inputs for method 'linear', got hidden states "
                f"or inputs in {self.candidate.name}; use method='laplace'."
            )
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
        regression = IntegralRegression.of(problem, self.observations, self.level)
        return regression.posterior(centre, spread, self.level, seed)

    def answered(self, posterior: Posterior, context: Trajectories) -> ModelEvidence:
        """The model's evidence, with priors of other spreads too."""
        narrow, wide = (posterior.log_evidence_under(self.prior, self.widened(factor)) for factor in _SPREADS)
        given, own = self.candidate.given, context
        if not given.full:
            own = given.states_of(self.hidden_fit.paths, self.complete, self.observations)
        return ModelEvidence(
            self.candidate.name,
            tuple(str(expression) for expression in given.expressions),
            tuple(self.candidate.problem.names),
            posterior,
            self.priors,
            self.starts,
            narrow,
            wide,
            own,
            context,
        )


def _prepared(
    trajectories: Trajectories, priors: GivenPriors | None, noise: ArrayLike | None
) -> tuple[Trajectories, Observations, dict[str, Prior], NoiseLevel]:
    """Complete trajectories, the same scaled, priors as given, and the noise level."""
    if not isinstance(priors, Mapping | None):
        raise ValueError(f"evidence: expected priors as a dict by names of parameters, got {priors!r}.")
    complete = complete_records(trajectories, "evidence")
    if not len(complete):
        raise ValueError(
            "evidence: expected trajectories with two or more complete samples, got none; interpolate or "
            "add samples in which every state is observed."
        )
    observations = observe(complete.arrays(), inputs=complete_inputs(complete, "evidence"))
    given = {name: Prior.of(value) for name, value in (priors or {}).items()}
    return complete, observations, given, _noise_level(observations, noise)


def _with_time(
    pairs: Sequence[tuple[str | None, Any]], trajectories: Trajectories, observed: Sequence[str] | None
) -> tuple[Trajectories, tuple[str, ...]]:
    """The trajectories, and what expressions call their inputs.

    Coordinates that expressions name are inputs of one known value in each trajectory. Where an expression
    holds ``t``, and nothing else is called so, the last input is the time. Parameters of fields are what the
    fields say that they are.
    """
    import sympy

    if not isinstance(trajectories, Trajectories):
        raise TypeError(f"evidence: expected Trajectories, got {type(trajectories).__name__}.")
    parts = [[model] if isinstance(model, str) else model for _, model in pairs]
    given = [part for part in parts if isinstance(part, Mapping | Sequence)]
    inputs = trajectories.input_names
    taken = {*inputs, *trajectories.state_names}
    taken |= {name for part in given if isinstance(part, Mapping) for name in part}
    texts = [text for part in given for text in (part.values() if isinstance(part, Mapping) else part)]
    texts += [] if observed is None or isinstance(observed, str) else observed
    named = {name: sympy.Symbol(name, real=True) for name in taken}
    read = (parse(text, named) if isinstance(text, str) else text for text in texts)
    held = {symbol.name for e in read if isinstance(e, sympy.Expr) for symbol in e.free_symbols}
    places = {*default_names(trajectories.dim + len(inputs))}
    constant = [name for name in trajectories.coords if name in held - taken - places]
    trajectories = with_coordinates("evidence", trajectories, constant)
    inputs = trajectories.input_names
    if _TIME not in held - taken:
        return trajectories, inputs
    clock = "time"  # data have no input called t
    while clock in held | taken:
        clock += "_"
    return with_clock(trajectories, clock), (*inputs, _TIME)


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
    guess = np.maximum(observations.noise.level, _LEAST_NOISE) * observations.scale
    return NoiseLevel(guess / _NOISE_FACTOR, guess * _NOISE_FACTOR)


def _pairs(models: Mapping[str, Any] | Iterable[Any]) -> list[tuple[str | None, Any]]:
    """The models with their names, None where they have none."""
    if isinstance(models, str) or not isinstance(models, Iterable):
        raise ValueError(f"evidence: expected models as a dict or a list, got {models!r}.")
    pairs: list[tuple[str | None, Any]] = [(None, model) for model in models]
    if isinstance(models, Mapping):
        pairs = list(models.items())
    if not pairs:
        raise ValueError("evidence: expected at least one model, got none.")
    return pairs


def _candidates(
    pairs: Sequence[tuple[str | None, Any]],
    trajectories: Trajectories,
    inputs: Sequence[str],
    observed: Sequence[str] | None,
) -> list[_Candidate]:
    """The models as read, each of a name of its own."""
    columns = trajectories.state_names if observed is None else observed
    if isinstance(columns, str) or len(set(columns)) != trajectories.dim:
        raise ValueError(
            f"evidence: expected observed as a list of {trajectories.dim} different states or expressions, "
            f"one for each column of the data, got {observed!r}."
        )
    found = []
    for k, (name, model) in enumerate(pairs):
        states = trajectories.state_names if observed is None else None
        given, start, own = _read(model, states, inputs, columns, name, k)
        found.append(_Candidate(str(name or own or f"model {k}"), given, start))
    names = [candidate.name for candidate in found]
    if len(set(names)) < len(names):
        raise ValueError(f"evidence: expected different names, got {names}; give models as a dict.")
    return found


def _read(
    model: Any,
    states: Sequence[str] | None,
    inputs: Sequence[str],
    observed: Sequence[str],
    name: str | None,
    k: int,
) -> tuple[Given, dict[str, float] | None, str | None]:
    """A model with states of given names (None: its own), starts of its parameters, a name of its own."""
    field = getattr(model, "field_", model)
    label = getattr(model, "name", None) if field is not model else None
    start: dict[str, float] | None = None
    texts: Any = None
    if isinstance(field, SymbolicField | DrivenExpressions):
        found, names, start = field.expressions, field.state_names, field.parameters
    elif isinstance(field, DictionaryField | DrivenField):
        found, start = _freed(field)
        names = field.state_names
    else:
        texts = [field] if isinstance(field, str) else field
        if not isinstance(texts, Iterable):
            raise ValueError(
                "evidence: expected expressions, a SymbolicField, or a field or fitted model that is a "
                f"finite sum of terms, got {type(model).__name__}; distill it first (fim_dynsys.distill)."
            )
        texts = texts if isinstance(texts, Mapping) else list(texts)
        names = tuple(texts) if isinstance(texts, Mapping) else tuple(f"x{i}" for i in range(len(texts)))
    states = names if states is None else states
    if len(names) != len(states):
        raise ValueError(
            f"evidence: expected {len(states)} right-hand sides, one per state, got {len(names)} in model "
            f"{name or k}."
        )
    caller = f"evidence of model {name or k}"
    if texts is not None:
        return Given.of(caller, texts, states, inputs, observed), start, label
    return Given(tuple(states), tuple(inputs), found, tuple(observed)).checked(caller), start, label


def _freed(field: DictionaryField | DrivenField) -> "tuple[tuple[Expr, ...], dict[str, float]]":
    """The field in x0, x1, ... with a free parameter for each coefficient, and their values."""
    import sympy

    whole = field.extended if isinstance(field, DrivenField) else field
    assert isinstance(whole, DictionaryField)  # expressions are read before
    symbols = tuple(sympy.Symbol(f"x{i}", real=True) for i in range(whole.dim))
    terms = whole.dictionary.sympy(symbols)
    start, expressions = {}, []
    for i, column in enumerate(whole.coefficients.T[: field.dim]):
        parts = []
        for m in np.flatnonzero(column):
            name = f"c{i}_{m}"
            start[name] = float(column[m])
            parts.append(sympy.Symbol(name, real=True) * terms[m])
        expressions.append(sympy.Add(*parts))
    return tuple(expressions), start
