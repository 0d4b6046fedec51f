"""Which of several models the data support: evidence, posterior probabilities, draws."""

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xarray as xr

from fim_dynsys.errors import SamplingWarning
from fim_dynsys.field import EnsembleField, FitInfo
from fim_dynsys.regression.candidates import Observations, observe
from fim_dynsys.regression.expression_fits import ExpressionProblem, fit_expressions
from fim_dynsys.regression.fields import DictionaryField
from fim_dynsys.regression.likelihoods import NoiseLevel, TrajectoryLikelihood
from fim_dynsys.regression.lines import IntegralRegression
from fim_dynsys.regression.marginals import Posterior
from fim_dynsys.regression.nested import sample_nested
from fim_dynsys.regression.peaks import Peak, laplace, quadrature
from fim_dynsys.regression.priors import JointPrior, Prior, PriorKind, default_priors
from fim_dynsys.regression.symbolic import SymbolicField, read_expressions
from fim_dynsys.trajectories import Trajectories

METHODS = ("nested", "laplace", "linear")
_NOISE_FACTOR = 10.0  # the noise level may be so many times larger or smaller than its estimate
_START_SPREAD = 3.0  # standard deviations of the noise, of the prior of initial states
_LEAST_NOISE = 1e-4  # of a state's root mean square
_MISSED = 10.0  # nats by which a fit's posterior density exceeds all samples where their peak is another
_SPREADS = (0.5, 2.0)  # of all priors of parameters, to see how much the evidence depends on them


@dataclass(frozen=True)
class ModelEvidence:
    """Evidence and posterior of one model.

    Attributes
    ----------
    name : str
        Of the model.
    expressions : tuple of str
        Right-hand sides in x0, x1, ... and the parameters.
    parameters : tuple of str
        Names; initial states follow in the draws as ``start[k, i]``.
    posterior : Posterior
        Log evidence, its error and draws.
    priors : dict of str to Prior
        Of the parameters.
    start_priors : tuple of Prior
        Of the initial states, in the order of the draws.
    narrow, wide : float
        Log evidence with priors of half and of twice the spread.
    context : Trajectories
        The observations.
    """

    name: str
    expressions: tuple
    parameters: tuple
    posterior: Posterior
    priors: dict
    start_priors: tuple
    narrow: float
    wide: float
    context: Trajectories

    @property
    def log_evidence(self):
        """Natural logarithm of the evidence."""
        return self.posterior.log_evidence

    @property
    def error(self):
        """Standard error of the log evidence; nan where the method does not know it."""
        return self.posterior.error

    @property
    def mean(self):
        """Posterior means of the parameters by name."""
        return dict(zip(self.parameters, map(float, self.posterior.draws.mean(axis=0)), strict=False))

    def fields(self, n, seed=0):
        """Fields with parameters drawn from the posterior.

        Parameters
        ----------
        n : int
            Number of fields.
        seed : int
            Of the choice among the draws.

        Returns
        -------
        list of SymbolicField
        """
        chosen = np.random.default_rng(seed).integers(len(self.posterior.draws), size=n)
        return [
            SymbolicField(
                self.expressions,
                dict(zip(self.parameters, draw, strict=False)),
                context=self.context,
                fit_info=FitInfo(report={"drawn from": self.name}),
            )
            for draw in self.posterior.draws[chosen]
        ]

    def to_xarray(self):
        """The posterior as a DataTree in ArviZ's layout.

        Returns
        -------
        xarray.DataTree
            Groups ``posterior`` (equally weighted; dims chain, draw), ``sample_stats`` (``logl``: log
            likelihood of the draws), ``weighted`` (all points with ``logl`` and ``logwt``, the logarithms of
            weights that sum to 1; dim sample) and ``observed_data``. Attributes: ``logz``, ``logzerr`` (nan
            where unknown), ``ncall``, ``information`` (nats).
        """
        found, names = self.posterior, self.context.state_names
        coords = {"chain": [0], "draw": np.arange(len(found.draws))}
        stats = {"logl": (("chain", "draw"), found.log_likelihood[found.chosen][None])}
        weighted = {"logl": ("sample", found.log_likelihood), "logwt": ("sample", found.log_weights)}
        attrs = {
            "model": self.name,
            "equations": "; ".join(self.expressions),
            "logz": self.log_evidence,
            "logzerr": self.error,
            "ncall": found.calls,
            "information": found.information,
        }
        groups = {
            "/": xr.Dataset(attrs=attrs),
            "posterior": xr.Dataset(
                self._variables(found.draws[None], ("chain", "draw")), {**coords, "state": list(names)}, attrs
            ),
            "sample_stats": xr.Dataset(stats, coords),
            "weighted": xr.Dataset(
                self._variables(found.points, ("sample",)) | weighted, {"state": list(names)}
            ),
            "observed_data": self.context.dataset[["x"]],
        }
        return xr.DataTree.from_dict(groups)

    def _variables(self, points, dims):
        """Parameters by name and initial states of points (..., q + P d)."""
        q, d = len(self.parameters), self.context.dim
        starts = points[..., q:].reshape(*points.shape[:-1], -1, d)
        named = {name: (dims, points[..., k]) for k, name in enumerate(self.parameters)}
        return named | {"initial_state": ((*dims, "piece", "state"), starts)}


@dataclass(frozen=True)
class ModelComparison:
    """Models ranked by evidence.

    Attributes
    ----------
    models : tuple of ModelEvidence
        Best first.
    method : str
        How the evidence was found.

    Raises
    ------
    KeyError
        By ``comparison[name]``, if no model has that name.
    """

    models: tuple
    method: str

    def __getitem__(self, name):
        for model in self.models:
            if model.name == name:
                return model
        raise KeyError(f"ModelComparison: expected one of {[m.name for m in self.models]}, got {name!r}.")

    @property
    def probability(self):
        """Posterior probabilities of the models, all equally likely beforehand (m,)."""
        return _softmax(np.array([model.log_evidence for model in self.models]))

    @property
    def probability_error(self):
        """Standard errors (m,) of the probabilities that those of the evidences leave; nan where unknown."""
        values = np.array([model.log_evidence for model in self.models])
        errors = np.array([model.error for model in self.models])
        draws = values + errors * np.random.default_rng(0).standard_normal((2000, len(values)))
        return _softmax(draws).std(axis=0)

    def _rows(self):
        head = ("model", "parameters", "log evidence", "error", "narrow", "wide", "probability", "error")
        pairs = zip(self.models, self.probability, self.probability_error, strict=True)
        return head, [
            (
                m.name,
                str(len(m.parameters)),
                f"{m.log_evidence:.2f}",
                f"{m.error:.2f}",
                f"{m.narrow:.2f}",
                f"{m.wide:.2f}",
                f"{p:.3g}",
                f"{e:.2g}",
            )
            for m, p, e in pairs
        ]

    def __repr__(self):
        head, rows = self._rows()
        widths = [max(len(row[k]) for row in [head, *rows]) for k in range(len(head))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in [head, *rows]
        ]
        return "\n".join([f"evidence by {self.method}", *lines])

    def _repr_html_(self):
        import html

        head, rows = self._rows()
        cells = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in [head, *rows]]
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"

    def to_xarray(self):
        """Evidences and probabilities as a Dataset over ``model``."""
        columns = {
            "log_evidence": [m.log_evidence for m in self.models],
            "log_evidence_error": [m.error for m in self.models],
            "log_evidence_narrow": [m.narrow for m in self.models],
            "log_evidence_wide": [m.wide for m in self.models],
            "probability": self.probability,
            "probability_error": self.probability_error,
        }
        data = {name: ("model", np.array(values, dtype=float)) for name, values in columns.items()}
        return xr.Dataset(data, {"model": [m.name for m in self.models]}, {"method": self.method})

    def ensemble(self, n=20, seed=0):
        """Fields drawn from the posterior over models and parameters.

        Parameters
        ----------
        n : int
            Number of fields.
        seed : int
            Of the draws.

        Returns
        -------
        EnsembleField
        """
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(n, self.probability)
        fields = []
        for k, (model, count) in enumerate(zip(self.models, counts, strict=True)):
            fields += model.fields(int(count), seed=[seed, k]) if count else []
        return EnsembleField(fields)


def evidence(
    models,
    trajectories,
    priors=None,
    noise=None,
    method="nested",
    live_points=250,
    seed=0,
    resume=False,
    progress=None,
):
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
        `fim_dynsys.regression.priors`, which the scales of the data suggest.
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
        Whether an interrupted run goes on where it was, see `fim_dynsys.regression.nested.sample_nested`.
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
    `sample_nested`, `laplace` and `log_evidence_of_line` in `fim_dynsys.regression`.
    """
    if method not in METHODS:
        raise ValueError(f"evidence: expected method among {METHODS}, got {method!r}.")
    candidates = _candidates(models, trajectories.state_names)
    observations, priors, level = _prepared(trajectories, priors, noise)
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


def quadrature_check(expressions, trajectories, priors=None, noise=None, nodes=5):
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
    As for `laplace` and `quadrature` in `fim_dynsys.regression.peaks`.
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
    symbols: tuple
    expressions: tuple
    start: dict | None

    @cached_property
    def problem(self):
        return ExpressionProblem(self.expressions, self.symbols)


@dataclass(frozen=True)
class _Question:
    """A candidate, the data, priors as given and the noise level: what is asked for evidence."""

    candidate: _Candidate
    observations: Observations
    given: dict
    level: NoiseLevel

    @cached_property
    def fit(self):
        """Best fit of the trajectories."""
        c = self.candidate
        return fit_expressions(c.expressions, c.symbols, self.observations, c.start)

    @property
    def best(self):
        """Parameters and starts (q + P d,) of the best fit."""
        values = [self.fit.parameters[name] for name in self.candidate.problem.names]
        return np.concatenate([values, (self.fit.starts * self.observations.scale).ravel()])

    @cached_property
    def priors(self):
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
    def starts(self):
        """Priors of the initial states of all pieces."""
        observations = self.observations
        spread = np.maximum(_START_SPREAD * observations.law.level, 10.0 * _LEAST_NOISE) * observations.scale
        return tuple(
            Prior(PriorKind.NORMAL, float(value), float(width))
            for start in observations.start * observations.scale
            for value, width in zip(start, spread, strict=True)
        )

    @property
    def prior(self):
        return JointPrior((*self.priors.values(), *self.starts))

    @cached_property
    def likelihood(self):
        texts = [str(expression) for expression in self.candidate.expressions]
        return TrajectoryLikelihood(texts, self.candidate.problem.names, self.observations, self.level)

    def warn_of_a_missed_peak(self, posterior):
        """Hold the highest point that was sampled against the best fit."""
        if not np.isfinite(self.prior.log_density(self.best)):
            return
        fitted = self.likelihood(self.best) + self.prior.log_density(self.best)
        sampled = np.max(posterior.log_likelihood + self.prior.log_density(posterior.points))
        if fitted > sampled + _MISSED:
            warnings.warn(
                f"evidence of {self.candidate.name}: a fit of the trajectories lies {fitted - sampled:.0f} "
                "nats above all that nested sampling found, so that its evidence is too low; take narrower "
                "priors or more live_points, or method='laplace'.",
                SamplingWarning,
                stacklevel=3,
            )

    def laplace(self, seed):
        """Posterior by Laplace's approximation."""
        try:
            return laplace(self.likelihood, self.prior, self.best, seed=seed)
        except ValueError as error:
            raise ValueError(f"evidence: of {self.candidate.name}: {error}") from error

    def linear(self, seed):
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

    def answered(self, posterior, context):
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


def _prepared(trajectories, priors, noise):
    """Observations, priors as given, and the noise level."""
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


def _noise_level(observations, noise):
    if noise is not None:
        known = np.broadcast_to(np.asarray(noise, dtype=float), (observations.dim,))
        if not (np.isfinite(known).all() and (known > 0).all()):
            raise ValueError(
                f"evidence: expected positive noise levels in the units of the states, got {noise}."
            )
        return NoiseLevel(known, known)
    guess = np.maximum(observations.law.level, _LEAST_NOISE) * observations.scale
    return NoiseLevel(guess / _NOISE_FACTOR, guess * _NOISE_FACTOR)


def _candidates(models, state_names):
    """The models as read, each of a name of its own."""
    pairs = list(models.items()) if isinstance(models, dict) else [(None, model) for model in models]
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


def _read(model, state_names):
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


def _freed(field):
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


def _softmax(values):
    shifted = np.exp(values - values.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)
