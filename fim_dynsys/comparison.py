"""Which of several models the data support: evidence, posterior probabilities, draws."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from fim_dynsys.field import EnsembleField, FitInfo
from fim_dynsys.regression.candidates import observe
from fim_dynsys.regression.expression_fits import ExpressionProblem, fit_expressions
from fim_dynsys.regression.fields import DictionaryField
from fim_dynsys.regression.likelihoods import NoiseLevel, TrajectoryLikelihood
from fim_dynsys.regression.nested import Peak, Posterior, laplace, quadrature, sample_nested
from fim_dynsys.regression.priors import JointPrior, Prior, PriorKind, default_priors
from fim_dynsys.regression.symbolic import SymbolicField, read_expressions
from fim_dynsys.trajectories import Trajectories

_NOISE_FACTOR = 10.0  # the noise level may be so many times larger or smaller than its estimate
_START_SPREAD = 3.0  # standard deviations of the noise, of the prior of initial states
_LEAST_NOISE = 1e-4  # of a state's root mean square
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
        """Standard error of the log evidence; 0 where it comes from Laplace's approximation."""
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
            Groups ``posterior`` (dims chain, draw), ``sample_stats`` (``lp``: log likelihood) and
            ``observed_data``; ``logz``, ``logzerr`` and ``ncall`` are attributes.
        """
        draws, names = self.posterior.draws, self.context.state_names
        q = len(self.parameters)
        variables = {name: (("chain", "draw"), draws[None, :, k]) for k, name in enumerate(self.parameters)}
        starts = draws[:, q:].reshape(1, len(draws), -1, len(names))
        variables["initial_state"] = (("chain", "draw", "piece", "state"), starts)
        coords = {"chain": [0], "draw": np.arange(len(draws)), "state": list(names)}
        stats = {"lp": (("chain", "draw"), self.posterior.log_likelihood[None])}
        attrs = {
            "model": self.name,
            "equations": "; ".join(self.expressions),
            "logz": self.log_evidence,
            "logzerr": self.error,
            "ncall": self.posterior.calls,
        }
        short = {name: coords[name] for name in ("chain", "draw")}
        groups = {
            "/": xr.Dataset(attrs=attrs),
            "posterior": xr.Dataset(variables, coords, attrs),
            "sample_stats": xr.Dataset(stats, short),
            "observed_data": self.context.dataset[["x"]],
        }
        return xr.DataTree.from_dict(groups)


@dataclass(frozen=True)
class ModelComparison:
    """Models ranked by evidence.

    Attributes
    ----------
    models : tuple of ModelEvidence
        Best first.
    method : str
        How the evidence was found.
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
        """Standard errors (m,) of the probabilities that those of the evidences leave."""
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
    method : {"nested", "laplace"}
        Nested sampling, or the normal approximation about the best fit: a screen that takes milliseconds.
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

    Raises
    ------
    ValueError
        For models that cannot be read, priors of no parameter, or an unknown method.
    """
    if method not in ("nested", "laplace"):
        raise ValueError(f"evidence: expected method 'nested' or 'laplace', got {method!r}.")
    observations, priors, level = _prepared(trajectories, priors, noise)
    named = _named(models, trajectories.state_names)
    known = {name for _, _, problem, _ in named for name in problem.names}
    unknown = sorted(set(priors) - known)
    if unknown:
        raise ValueError(f"evidence: expected priors of parameters among {sorted(known)}, got {unknown}.")
    options = {"method": method, "live_points": live_points, "resume": resume, "progress": progress}
    found = [
        _model_evidence(model, trajectories, observations, priors, level, seed + k, options)
        for k, model in enumerate(named)
    ]
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
    """
    observations, priors, level = _prepared(trajectories, priors, noise)
    (model,) = _named({"model": expressions}, trajectories.state_names)
    likelihood, prior, theta, *_ = _question(model, observations, priors, level)
    peak = Peak.near(likelihood, prior, theta)
    q = len(theta)
    laplace_value = peak.log_height + 0.5 * q * np.log(2.0 * np.pi) + np.linalg.slogdet(peak.axes)[1]
    return float(laplace_value), quadrature(likelihood, prior, peak, nodes)


def _prepared(trajectories, priors, noise):
    complete = trajectories.drop_incomplete("evidence")
    samples = [(t, x) for t, x in complete.arrays() if len(t) >= 2]
    if not samples:
        raise ValueError("evidence: expected trajectories with two or more complete samples, got none.")
    observations = observe(samples)
    given = {name: Prior.of(value) for name, value in (priors or {}).items()}
    return observations, given, _noise_level(observations, noise)


def _question(model, observations, priors, level):
    """Likelihood, joint prior, best fit, and priors of parameters and starts."""
    _, (symbols, expressions), problem, start = model
    fit = fit_expressions(expressions, symbols, observations, start, seed=0)
    values = np.array([fit.parameters[p] for p in problem.names])
    missing = [p for p in problem.names if p not in priors]
    own = default_priors(problem, values, observations) if missing else {}
    own = {p: priors.get(p, own.get(p)) for p in problem.names}
    starts = tuple(_start_priors(observations))
    likelihood = TrajectoryLikelihood([str(e) for e in expressions], problem.names, observations, level)
    theta = np.concatenate([values, (fit.starts * observations.scale).ravel()])
    return likelihood, JointPrior((*own.values(), *starts)), theta, own, starts


def _model_evidence(model, context, observations, priors, level, seed, options):
    name, _, problem, _ = model
    likelihood, prior, theta, own, starts = _question(model, observations, priors, level)
    if options["method"] == "laplace":
        posterior = laplace(likelihood, prior, theta, seed=seed)
    else:
        posterior = sample_nested(
            likelihood, prior, options["live_points"], seed, options["resume"], options["progress"], name
        )
    narrow, wide = (
        posterior.log_evidence_under(prior, JointPrior((*(p.widened(f) for p in own.values()), *starts)))
        for f in _SPREADS
    )
    names = tuple(problem.names)
    return ModelEvidence(name, likelihood.expressions, names, posterior, own, starts, narrow, wide, context)


def _noise_level(observations, noise):
    if noise is not None:
        known = np.broadcast_to(np.asarray(noise, dtype=float), (observations.dim,))
        if not (np.isfinite(known).all() and (known > 0).all()):
            raise ValueError(f"evidence: expected a positive noise level, got {noise}.")
        return NoiseLevel(known, known)
    guess = np.maximum(observations.law.level, _LEAST_NOISE) * observations.scale
    return NoiseLevel(guess / _NOISE_FACTOR, guess * _NOISE_FACTOR)


def _start_priors(observations):
    spread = np.maximum(_START_SPREAD * observations.law.level, 10.0 * _LEAST_NOISE) * observations.scale
    states = observations.start * observations.scale
    return [
        Prior(PriorKind.NORMAL, float(value), float(width))
        for start in states
        for value, width in zip(start, spread, strict=True)
    ]


def _named(models, state_names):
    """Name, expressions, problem and starts of each model."""
    pairs = list(models.items()) if isinstance(models, dict) else [(None, model) for model in models]
    if not pairs:
        raise ValueError("evidence: expected at least one model, got none.")
    named = []
    for k, (name, model) in enumerate(pairs):
        read, start, own = _read(model, state_names)
        if len(read[1]) != len(state_names):
            raise ValueError(
                f"evidence: expected {len(state_names)} right-hand sides, one per state, got "
                f"{len(read[1])} in model {name or k}."
            )
        named.append((str(name or own or f"model {k}"), read, ExpressionProblem(read[1], read[0]), start))
    if len({name for name, *_ in named}) < len(named):
        raise ValueError(f"evidence: expected different names, got {[name for name, *_ in named]}.")
    return named


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
