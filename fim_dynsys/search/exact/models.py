"""Models: structures fitted to noise-free samples to numerical precision, and the choice among them.

A model is a `Candidate` with what its fit leaves. Right-hand sides of one state (`StateEquation`) are what
candidates are put together from; they have no fit.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.terms import Dictionary, union
from fim_dynsys.regression.criteria import autocorrelation
from fim_dynsys.regression.precise import COARSE, FINE, RESOLVED, Field, GapFit, Precise
from fim_dynsys.regression.refinement import TrajectoryFit
from fim_dynsys.search.candidates import Candidate, shares
from fim_dynsys.search.functions.families import INNER, SECOND, SHIFT

NOISE_FREE = 0.01
"""Of the signal: models that miss more are no models of noise-free data."""

TRACE = 1e-4
"""Of a coordinate's largest rate: terms that never show more are believed only where a model is exact."""

NOISELESS = 1e-4
"""Of the signal: what misses less misses no noise."""

KNEE_OF_SIMULATIONS = 2.5
"""As much a parameter more must lower the residuals of models that miss no noise."""

TINY = 1e-6
"""Of the signal: what misses less leaves hardly anything to explain."""

_EXACT = 3.0  # times the floor: nothing is left to explain
_SIMULATED = 1e-3  # of the signal: simulations err by so much
_COARSELY = 1e-4  # of the signal: fits that leave more need no better integration
_OF_ONE_PIECE = 0.7  # autocorrelation at the first lag
_KNEE = 1.5  # factor by which a parameter more must lower the residuals
_SMOOTH = 0.95  # largest autocorrelation that is believed
_OF_A_FUNCTION = 8.0  # in BIC: many are tried
_OF_A_DEGREE = 1.0  # what one orbit does not tell apart
_OF_ITS_TERMS = 2.0  # 1 - x and x may be equal to the data, not to a reader
_HARDLY = 0.2  # of its mean, by which a function varies; of one part of a sum, the other
_DROPPED, _TRIED = 12, 2  # terms dropped in turn; cheapest ones tried each time
_COMPLEMENTS = {Kind.INHIBITION: Kind.SATURATION, Kind.RECIPROCAL: Kind.HILL}
_COMPLEMENTS |= {complement: kind for kind, complement in _COMPLEMENTS.items()}  # which sum to 1
_SAME = 1e-3  # of a coefficient: what another differs by that is the same one
_FEW_VALUES = 50  # samples times coordinates, below which what was fitted to them counts
_SUPPORTED = 0.5  # of the samples, that a model which is not exact must leave


@dataclass(frozen=True)
class ExactModel:
    """A structure fitted to numerical precision.

    Attributes
    ----------
    item : Candidate
        Terms and numbers.
    residual_variance : array (d,)
        Residual variance, at least the floor.
    floor : array (d,)
        Variance of what is no misfit: rounding of the samples, and what the integration errs by.
    residuals : array (n, d)
        Of the samples, in standard deviations of the coordinates.
    misses : float
        Root mean square of what is left, in standard deviations of the coordinates.
    fit : TrajectoryFit
        Weighted by the inverse variance of the signal.
    gaps : GapFit, optional
        From each sample to the next, where the item's numbers are fitted so.
    signal : array (d,), optional
        Variance of the samples; default 1.
    """

    item: Candidate
    residual_variance: np.ndarray
    floor: np.ndarray
    residuals: np.ndarray
    misses: float
    fit: TrajectoryFit
    gaps: GapFit | None = None
    signal: np.ndarray | None = None

    @property
    def parameters(self) -> int:
        """Number of coefficients and of fitted numbers."""
        return len(self.item.parameters)

    @property
    def freedom(self) -> float:
        """Samples of each coordinate beyond the numbers and starts that were fitted to them."""
        n, d = self.residuals.shape
        return n - len(self.item.start) - self.parameters / d

    @property
    def counted(self) -> float:
        """Samples of each coordinate in the likelihood: the free ones where there are few, else all.

        Of many samples the free ones are hardly fewer, and what the restricted likelihood adds for them, the
        determinant of the information, is left out here.
        """
        n, d = self.residuals.shape
        return max(self.freedom, 0.0) if n * d < _FEW_VALUES else float(n)

    @cached_property
    def log_spread(self) -> np.ndarray:
        """Logarithm (d,) of the residual variance over that of the signal, what was fitted accounted for."""
        n = len(self.residuals)
        signal = self.signal if self.signal is not None else np.ones_like(self.residual_variance)
        return np.log(self.residual_variance / signal * n / max(self.counted, 1e-9))

    @property
    def score(self) -> float:
        """Extended BIC by the restricted likelihood, each sample counted once."""
        n, d = self.residuals.shape
        return float(self.counted * np.sum(self.log_spread)) + self.parameters * _price(n, d)

    @cached_property
    def price(self) -> float:
        """What its parameters, functions and terms cost in BIC."""
        return (
            self.parameters * _price(*self.residuals.shape)
            + self.item.n_functions * _OF_A_FUNCTION
            + _reading(self.item.dictionary) * _OF_ITS_TERMS
            + _degrees(self.item) * _OF_A_DEGREE
        )

    @cached_property
    def shares(self) -> np.ndarray:
        """Largest size (m, d) of each term at the samples, over that of the rate of the coordinate."""
        values = self.item.dictionary.evaluate(np.concatenate(self.fit.paths))
        return shares(values, self.item.coefficients)

    @cached_property
    def least_share(self) -> float:
        """The share of the term that shows least."""
        return float(self.shares[self.item.coefficients != 0.0].min(initial=np.inf))

    @cached_property
    def is_exact(self) -> bool:
        """Whether nothing is left to explain."""
        return self.misses < TINY and bool((self.residual_variance <= _EXACT**2 * self.floor).all())

    @property
    def calibrated_fit(self) -> TrajectoryFit:
        """The fit, weighted by the inverse variance of what is left.

        Where the misfit of a model is not noise it is smooth, so that fewer samples are worth what as many
        independent ones would be. Numbers fitted from each sample to the next are, besides, no better known
        than by how far they are from those fitted to paths.
        """
        if self.gaps is None:
            excess = self.misses**2 * dependence(self.residuals)
            return replace(
                self.fit, misfit=self.fit.misfit / excess, information=self.fit.information / excess
            )
        information, apart = self.gaps.information, self.gaps.parameters - self.fit.parameters
        excess = max(dependence(self.gaps.standardised), float(apart @ information @ apart) / len(apart))
        return replace(
            self.fit, parameters=self.gaps.parameters, misfit=0.0, information=information / excess
        )

    @cached_property
    def is_plain(self) -> bool:
        """Whether all terms show, or nothing is left."""
        return self.is_exact or self.least_share > TRACE


def _price(n: int, d: int) -> float:
    """Of a parameter in the extended BIC (Chen and Chen 2008): chosen among all monomials up to cubes."""
    return math.log(max(n * d, 2)) + 2.0 * math.log(math.comb(d + 3, 3))


def packed_field(item: Candidate, support: np.ndarray | None = None) -> Field:
    """An item's arrays by its parameters; of all coefficients of another ``support`` where it is given."""
    support = item.support if support is None else support
    row, column = map(np.ascontiguousarray, np.nonzero(support))

    def packed(p: np.ndarray) -> tuple:
        return item.packed(p), row, column, np.ascontiguousarray(p[: len(row)]), item.free

    return packed


def fitted(precise: Precise, item: Candidate) -> ExactModel | None:
    """A structure's parameters and starts fitted to numerical precision; None where that diverges."""
    field, p, nodes = packed_field(item), item.parameters, None
    for tolerance in (COARSE, FINE):
        with np.errstate(all="ignore"):
            fit, error = precise.fit(field, p, precise.steps(field, p, tolerance), nodes)
        if not (np.isfinite(fit.misfit) and np.isfinite(fit.parameters).all()):
            return None
        p, nodes = fit.parameters, np.concatenate(fit.paths)
        variance = precise.residual_variances(fit)
        if float(np.mean(variance / precise.signal)) > _COARSELY**2:
            break
    floor = precise.resolution**2 + error**2 + RESOLVED**2 * precise.signal
    residual_variance = np.maximum(variance, floor)
    new = item.with_parameters(p, start=fit.initial_states, refined=True, variance=variance)
    residuals = precise.data.residuals(np.concatenate(fit.paths)) / np.sqrt(precise.signal)
    misses = float(np.sqrt(np.mean(residual_variance / precise.signal)))
    return ExactModel(new, residual_variance, floor, residuals, misses, fit, signal=precise.signal)


def from_sample_to_sample(precise: Precise, model: ExactModel) -> ExactModel:
    """The model with numbers fitted from each sample to the next, where that makes the samples more probable.

    Noise is in one sample alone, so that numbers are best fitted to whole paths. Integration errors of
    whoever simulated the samples stay in all that follow.

    References
    ----------
    J. A. Hausman, Econometrica 46, 1251 (1978): two estimates that should agree, as a test of their errors.
    """
    if model.is_exact:
        return model
    with np.errstate(all="ignore"):
        gaps = precise.fit_gaps(packed_field(model.item), model.item.parameters)
    log_density = -0.5 * float(
        np.sum(np.log(2.0 * math.pi * math.e * model.residual_variance / precise.signal))
    )
    if gaps is None or not gaps.log_density > log_density:
        return model
    return replace(model, item=model.item.with_parameters(gaps.parameters), gaps=gaps)


def smaller(precise: Precise, model: ExactModel, simulated: bool = False) -> Iterator[ExactModel]:
    """What a model leads to with one term less at a time, for as long as BIC falls.

    Or, where what it misses is the integration error of ``simulated`` samples, for as long as a term lowers
    what is left by less than the knee asks.
    """
    for _ in range(_DROPPED):
        trials = _with_one_less(precise, model)
        better = next(
            (t for t in trials if t.score < model.score or (simulated and _is_before_the_knee(t, model))),
            None,
        )
        if better is None:
            return
        model = better
        yield model


def _is_before_the_knee(less: ExactModel, more: ExactModel) -> bool:
    """Whether the terms that one model has more lower what is left by too little."""
    return _excess(less, KNEE_OF_SIMULATIONS) < _excess(more, KNEE_OF_SIMULATIONS)


def _with_one_less(precise: Precise, model: ExactModel) -> Iterator[ExactModel]:
    """Fits without each of the terms that the linearised fit could give up most cheaply."""
    item, fit = model.item, model.fit
    support, p = item.support, fit.parameters
    count = int(support.sum())
    size = np.sqrt(np.diagonal(fit.information))
    if count < 2 or not (np.isfinite(fit.information).all() and (size > 0.0).all()):
        return
    inverse = np.linalg.pinv(fit.information / size[:, None] / size, rcond=1e-13)
    variance = np.maximum(np.diagonal(inverse), 1e-300)
    for k in np.argsort((p * size) ** 2 / variance)[: _TRIED + len(item.labels)]:
        if k >= count:
            continue
        kept = p - inverse[:, k] / size * (p[k] * size[k] / variance[k])
        kept[k] = 0.0
        trial = fitted(precise, item.with_parameters(kept).in_use())
        if trial is not None:
            yield trial


def without_traces(model: ExactModel) -> Candidate:
    """The model's structure without the terms that hardly show."""
    coefficients = np.where(model.shares > TRACE, model.item.coefficients, 0.0)
    return replace(model.item, coefficients=coefficients).in_use()


def with_constants(model: ExactModel) -> Iterator[Candidate]:
    """The model's structure with a constant in place of one function that hardly varies at the samples."""
    item, d = model.item, model.item.dictionary
    x = np.concatenate(model.fit.paths)
    alone = replace(d, exponents=np.zeros_like(d.exponents))
    functions: dict[tuple, list[int]] = {}
    for row in np.flatnonzero(d.kind).tolist():
        functions.setdefault(d.function(row), []).append(row)
    for rows in functions.values():
        values = alone.subset(np.array(rows[:1])).evaluate(x)
        if not np.ptp(values) < _HARDLY * abs(values.mean()):
            continue
        coefficients, kind = item.coefficients.copy(), d.kind.copy()
        coefficients[rows] *= values.mean()
        for row in rows:
            same = (kind == 0) & (d.exponents == d.exponents[row]).all(axis=1)
            if same.any():
                coefficients[np.flatnonzero(same)[0]] += coefficients[row]
                coefficients[row] = 0.0
            kind[row] = 0
        numbers = (d.coordinate, 0), (d.inner, 1.0), (d.second, 0.0), (d.partner, -1), (d.shift, 0.0)
        terms = Dictionary(d.exponents, kind, *(np.where(kind > 0, number, none) for number, none in numbers))
        free = [row for row in item.labelled if row[0] not in rows]
        yield replace(item, coefficients=coefficients, dictionary=terms).in_use(free)


def with_complements(model: ExactModel) -> Iterator[Candidate]:
    """The model's structure with Hill's functions for monomials minus these times their complements."""
    item, d = model.item, model.item.dictionary
    for row in np.flatnonzero(np.isin(d.kind, list(_COMPLEMENTS))).tolist():
        plain = np.flatnonzero((d.kind == 0) & (d.exponents == d.exponents[row]).all(axis=1))
        if not len(plain):
            continue
        own, other = item.coefficients[row], item.coefficients[plain[0]]
        cancels = (own != 0.0) & (np.abs(own + other) < _SAME * np.abs(own))
        if cancels.any():
            one = d.subset(np.array([row]))
            complement = replace(one, kind=np.array([_COMPLEMENTS[Kind(d.kind[row])]]))
            coefficients = np.concatenate([item.coefficients, np.where(cancels, -own, 0.0)[None]])
            coefficients[[row, plain[0]]] = np.where(cancels, 0.0, coefficients[[row, plain[0]]])
            own_numbers = [(len(d), slot, k) for term, slot, k in item.labelled if term == row]
            wide = replace(item, coefficients=coefficients, dictionary=d + complement)
            yield wide.in_use([*item.labelled, *own_numbers])


def with_plain_parts(model: ExactModel) -> Iterator[Candidate]:
    """The model's structure with ``m`` for ``m / (1 + b x) + b m x / (1 + b x)``, ``m`` a monomial."""
    item, d = model.item, model.item.dictionary
    of_one = (d.kind == Kind.RECIPROCAL) & (d.partner < 0) & (d.second == 0.0)
    unit = np.eye(d.exponents.shape[1], dtype=int)
    for row in np.flatnonzero(of_one).tolist():
        times_state = of_one & (d.exponents == d.exponents[row] + unit[d.coordinate[row]]).all(axis=1)
        same = [k for k in np.flatnonzero(times_state).tolist() if d.function(k) == d.function(row)]
        if not same:
            continue
        own, other = item.coefficients[row], item.coefficients[same[0]]
        cancels = (own != 0.0) & (np.abs(own * d.inner[row] - other) < _SAME * np.abs(other))
        if cancels.any():
            distinct, (rows, plain) = union([d, Dictionary(d.exponents[[row]])])
            coefficients = np.zeros((len(distinct), len(own)))
            coefficients[rows] = item.coefficients
            coefficients[plain] += np.where(cancels, own, 0.0)
            coefficients[rows[[row, same[0]]]] *= ~cancels
            free = [(int(rows[term]), slot, k) for term, slot, k in item.labelled]
            yield replace(item, coefficients=coefficients, dictionary=distinct).in_use(free)


def with_one_state(model: ExactModel) -> Iterator[Candidate]:
    """The model's structure with functions of one state for sums to which another hardly adds."""
    item, d = model.item, model.item.dictionary
    width = np.ptp(np.concatenate(model.fit.paths), axis=0)
    of_sums = d.partner >= 0
    one, other = np.abs(d.inner) * width[d.coordinate], np.abs(d.second) * width[d.partner]
    first, second = of_sums & (other < _HARDLY * one), of_sums & (one < _HARDLY * other)
    alone = first | second
    if not alone.any():
        return
    terms = Dictionary(
        d.exponents,
        d.kind,
        np.where(second, d.partner, d.coordinate),
        np.where(second, d.second, d.inner),
        np.where(alone, d.shift, d.second),
        np.where(alone, -1, d.partner),
        np.where(alone, 0.0, d.shift),
    )
    # where each number stays, and in which slot
    moved = {INNER: (first, INNER), SECOND: (second, INNER), SHIFT: (alone, SECOND)}
    free = [
        (term, moved[slot][1] if alone[term] else slot, label)
        for term, slot, label in item.labelled
        if not alone[term] or moved[slot][0][term]
    ]
    yield replace(item, dictionary=terms).in_use(free)


def missed_between(precise: Precise, model: ExactModel) -> np.ndarray:
    """What a model misses from each sample to the next, in standard deviations of the coordinates."""
    field, p = packed_field(model.item), model.item.parameters
    return precise.gaps(field, p, precise.steps(field, p))[0]


def systematic(precise: Precise, model: ExactModel) -> bool:
    """Whether the misfit of a model from one sample to the next is smooth, not noise or rounding."""
    missed = missed_between(precise, model).reshape(-1, precise.data.dim)
    above = np.sqrt(np.mean(missed**2, axis=0)) > _EXACT * np.sqrt(model.floor / precise.signal)
    return bool((above & (autocorrelation(missed) > _OF_ONE_PIECE)).any())


def ranked(models: list[ExactModel]) -> list[ExactModel]:
    """Models that miss little, the preferred one first, their candidates scored by `criterion`.

    Terms that hardly show, and none of which makes a model exact, follow the integration errors of whoever
    simulated the samples: models with such terms come last. Those of as many numbers as
    samples are none; those of half as many are none unless nothing is left to explain.
    """
    close = [
        model for model in models if model.misses < NOISE_FREE and model.parameters and _is_supported(model)
    ]
    if not close:
        return []
    scores = criterion(close).tolist()
    ranks = sorted(range(len(close)), key=lambda k: (not close[k].is_plain, scores[k]))
    return [replace(close[k], item=replace(close[k].item, score=scores[k])) for k in ranks]


def _is_supported(model: ExactModel) -> bool:
    """Whether the samples are more than the numbers that were fitted to them."""
    return model.freedom > (0.0 if model.is_exact else _SUPPORTED * len(model.residuals))


def criterion(models: list[ExactModel]) -> np.ndarray:
    """Extended BIC (L,) of models, with the effective sample size of the residuals of the model at the knee.

    Noise is white, and each sample counted once. Integration errors of whoever simulated the samples, and
    what is missing where no model is right, are smooth; with enough terms any model follows them. So the
    residuals are those of a model beyond which one term more lowers them by less than a third, or where they
    are less than noise would be, by three fifths. Where they are less than a thousandth of the signal, as
    simulations err, what is lower still counts as equal. The likelihood is the restricted one: where samples
    are few, numbers that are fitted to them leave little, whatever they are.

    References
    ----------
    H. D. Patterson, R. Thompson, Recovery of inter-block information when block sizes are unequal, Biometrika
    58 (1971) 545 (restricted likelihood).
    """
    plain = [model for model in models if model.is_plain] or models
    n, d = models[0].residuals.shape
    knee = _knee(plain, _KNEE)
    if knee.misses < NOISELESS:
        knee = _knee([model for model in plain if model.misses < NOISELESS], KNEE_OF_SIMULATIONS)
    independent = effective_sample_size(knee.residuals)
    log_least = knee.log_spread if knee.misses < _SIMULATED else np.full(d, -np.inf)
    return np.array(
        [
            np.sum(independent * (model.counted / n) * np.maximum(model.log_spread, log_least)) + model.price
            for model in models
        ]
    )


def _knee(models: list[ExactModel], factor: float) -> ExactModel:
    """The model beyond which a parameter more lowers the residuals by less than a factor."""
    return min(models, key=lambda model: _excess(model, factor))


def _excess(model: ExactModel, factor: float) -> float:
    """Logarithm of the residuals, by which a parameter more counts like their growth by a factor."""
    return 0.5 * float(np.mean(model.log_spread)) + math.log(factor) * model.parameters


def _degrees(item: Candidate) -> int:
    """Sum of the degrees of all terms, a function counted once."""
    degree = item.dictionary.exponents.sum(axis=1) + (item.dictionary.kind > 0)
    return int(degree @ item.support.sum(axis=1))


def _reading(terms: Dictionary) -> int:
    """How many terms have functions, those times their own state counted twice."""
    rows = np.flatnonzero(terms.kind)
    return len(rows) + int(np.count_nonzero(terms.exponents[rows, terms.coordinate[rows]]))


def dependence(residuals: np.ndarray) -> float:
    """How many residuals (n, d) are worth one independent one, where they are worth least."""
    return float(np.max(len(residuals) / effective_sample_size(residuals)))


def effective_sample_size(residuals: np.ndarray) -> np.ndarray:
    """How many independent samples (d,) residuals (n, d) are worth, by their correlation at the first lag."""
    rho = np.clip(autocorrelation(residuals), 0.0, _SMOOTH)
    return len(residuals) * (1.0 - rho) / (1.0 + rho)
