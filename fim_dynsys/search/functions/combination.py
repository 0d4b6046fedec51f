"""Candidate fields with functions beyond monomials, grown from a polynomial one."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.terms import Dictionary, union
from fim_dynsys.regression.observed import Observations
from fim_dynsys.search.candidates import Candidate, judge
from fim_dynsys.search.functions.exploration import Exploration, Selection
from fim_dynsys.search.functions.families import INNER, SECOND, Bundle, families
from fim_dynsys.search.functions.reduction import reduced
from fim_dynsys.search.functions.regressions import Integrals, Surrogate, bent, follow, smooth
from fim_dynsys.search.problem import Search, distinguishable
from fim_dynsys.search.pruning import assumed_variance, refine
from fim_dynsys.search.restrictions import Restriction

_MONOMIALS = 15  # of the largest degree up to 4 with so few terms
_SEGMENTS = 5  # pieces of a path over which rates are integrated
_CLOSE = 1.5  # times the noise variance: a path that is nearer the data is better than a smoothed one
_HARDLY_NOISY = 0.01  # of the signal: samples are nearer the path than smoothing is where inputs jump
_OF_A_SWITCH = 2  # values of an input
_PARTNERS = 10  # of each family that is combined with others
_REPEATS = 2  # times terms are selected again about the path of the fit before
_NEAR = 3.0  # standard errors within which a number may be a round one
_LOOSE = 4.0  # tolerance on noisy data
_COARSEST = 100.0  # signal to noise of the coarsest tolerance: residuals of a tenth of the signal


@dataclass(frozen=True)
class FunctionEffort:
    """Amounts of search.

    Attributes
    ----------
    settled : int
        Families for each tolerance whose numbers are fitted in the regression.
    fitted : int
        Structures that are fitted to the trajectories.
    pairs : int
        Families for each tolerance that are combined with others, and combinations whose numbers are fitted.
    repeated : int
        Fitted structures whose terms are selected again about their own paths.
    """

    settled: int
    fitted: int
    pairs: int
    repeated: int

    @property
    def stages(self) -> int:
        """Of the search: numbers, fits, repeated choices."""
        return 1 + self.fitted + self.repeated


FULL, QUICK = FunctionEffort(16, 20, 4, 4), FunctionEffort(5, 5, 0, 1)


def grow_functions(
    search: Search,
    candidate: Candidate,
    effort: FunctionEffort = FULL,
    done: Callable[[], object] | None = None,
) -> list[Candidate]:
    """Fields with textbook functions that explain the trajectories about as well as a given one, or better.

    The trajectories are regressed on integrals of forcings along the path of the given candidate. Each family
    of functions, and each pair of good ones, is tried together with monomials: terms chosen by exchanges,
    numbers inside the functions by Gauss-Newton, at several tolerances (SINDy-PI's idea of comparing
    right-hand sides that hold different functions). The best structures are fitted to the trajectories, and
    the terms of the best fits are chosen once more in the response to forcings about their own paths.

    Parameters
    ----------
    search : Search
        Data and terms.
    candidate : Candidate
        Scored; the better it follows the data, the better the search.
    effort : FunctionEffort
        `FULL` or `QUICK`.
    done : callable, optional
        Called after each of at most ``effort.stages`` stages.

    Returns
    -------
    list of Candidate
        Judged by integration, best first.

    References
    ----------
    K. Kaheman, J. N. Kutz, S. L. Brunton, SINDy-PI: a robust algorithm for parallel implicit sparse
    identification of nonlinear dynamics, Proc. R. Soc. A 476 (2020) 20200279, sect. 3.
    """
    observations = search.observations
    tried = _of_many_values(families(observations.angle, observations.n_inputs), observations)
    tolerances = _tolerances(observations)
    exploration = _explore_along(search, candidate, len(tried))
    ranked = exploration.ranked(tried, tolerances)
    chosen = [s for best in ranked for s in best[: effort.settled]]
    for best in exploration.ranked(_pairs(ranked, effort.pairs), tolerances):
        chosen += best[: effort.pairs]
    found = exploration.settled(chosen, tolerances[0])
    done = done or (lambda: None)
    done()
    fits: list[tuple[Candidate, Bundle]] = []
    seen: set[bytes] = set()
    for selection in sorted(found, key=lambda s: s.criterion):
        if len(fits) == effort.fitted:
            break
        model = exploration.model(selection)
        if len(model.dictionary) and model.structure not in seen:  # facts may leave no term
            seen.add(model.structure)
            fitted, _ = refine(observations, model, observations.path)
            fits.append((fitted, selection.bundle))
            done()
    candidates = [fitted for fitted, _ in fits]
    for fitted, bundle in sorted(fits, key=lambda item: item[0].score)[: effort.repeated]:
        candidates += _repeated(search, fitted, bundle, len(tried), tolerances, seen)
        done()
    for model in sorted(candidates, key=lambda m: m.score)[: effort.repeated]:
        candidates += _rounded(observations, model)
    finite = [m for m in candidates if np.isfinite(m.parameters).all() and np.isfinite(m.score)]
    return judge(observations, [reduced(m) for m in finite])


def _of_many_values(tried: list[list[Bundle]], observations: Observations) -> list[list[Bundle]]:
    """The families without those of a switch: any function of two values is a straight line."""
    values = np.concatenate(observations.inputs)
    switches = {
        observations.dim + k for k, column in enumerate(values.T) if len(np.unique(column)) <= _OF_A_SWITCH
    }
    return [
        starts
        for starts in tried
        if not any(f.coordinate in switches or f.partner in switches for f in starts[0].functions)
    ]


def _tolerances(observations: Observations) -> tuple[float, ...]:
    """Factors of the noise variance: 1, and up to residuals of a tenth of the signal on noise-free data."""
    coarsest = float(np.mean(observations.signal_variance / observations.noise_variance)) / _COARSEST
    return (1.0, math.sqrt(coarsest), coarsest) if coarsest > _LOOSE**2 else (1.0, _LOOSE)


def _explore_along(search: Search, candidate: Candidate, families: int) -> Exploration:
    """Regressions on integrals along the candidate's path, or along the smoothed data far from it."""
    observations = search.observations
    variance = candidate.variance
    close = variance is not None and (variance < _CLOSE * observations.noise_variance).all()
    level = np.sqrt(observations.noise_variance / observations.signal_variance)
    if observations.n_inputs and (level < _HARDLY_NOISY).all():
        pieces = bent(observations, candidate)
    else:
        pieces = follow(observations, candidate) if close else None
    integrals = Integrals(
        observations,
        smooth(observations) if pieces is None else pieces,
        observations.noise_variance,
        _SEGMENTS,
    )
    terms, known = _monomials_of(search, search)
    return Exploration(integrals, terms, candidate, families, known)


def _explore_about(given: Search, model: Candidate, families: int) -> Exploration | None:
    """Regressions linearised about the path of a model; None where it diverges."""
    seen = given.observations
    pieces = follow(seen, model)
    if pieces is None:
        return None
    surrogate = Surrogate(seen, model, assumed_variance(seen, model), pieces)
    terms, known = _monomials_of(given, Search(seen, model.dictionary))
    return Exploration(surrogate, terms, model, families, known)


def _monomials_of(given: Search, about: Search) -> tuple[Dictionary, Restriction | None]:
    """Monomials that stand beside functions of a search's terms, and what is known of their coefficients."""
    if given.restriction is None:
        return monomials(about), None
    terms = monomials(given)
    return terms, given.restriction.extended(given.dictionary, terms)


def monomials(search: Search) -> Dictionary:
    """All monomials of some degree and those that the search's dictionary has besides.

    Of states and inputs, those that the inputs tell apart, see `fim_dynsys.search.problem.told_apart`.
    """
    dictionary = search.dictionary
    dim = dictionary.dim
    degree = max(k for k in (1, 2, 3, 4) if k == 1 or math.comb(dim + k, k) <= _MONOMIALS)
    present = dictionary.subset(dictionary.kind == Kind.MONOMIAL)
    lowest = Dictionary.polynomial(dim, degree)
    if search.observations.n_inputs:
        lowest = lowest.subset(distinguishable(lowest, search.observations))
    return union([lowest, present])[0]


def _pairs(ranked: list[list[Selection]], count: int) -> list[list[Bundle]]:
    """The best few bundles of each tolerance together with others of their group."""
    pairs: dict[tuple[str, str], Bundle] = {}
    for best in ranked:
        for i, first in enumerate(best[:count]):
            partners = [s for s in best[i + 1 :] if s.bundle.group is first.bundle.group]
            for second in partners[:_PARTNERS]:
                pairs.setdefault((first.bundle.name, second.bundle.name), first.bundle + second.bundle)
    return [[bundle] for bundle in pairs.values()]


def _repeated(
    search: Search,
    fitted: Candidate,
    bundle: Bundle,
    families: int,
    tolerances: Sequence[float],
    seen: set[bytes],
) -> list[Candidate]:
    """Fits of the terms selected again about a model's own path, with its own numbers, while they improve."""
    candidates = []
    for _ in range(_REPEATS):
        numbers = bundle.numbers
        numbers[list(fitted.labels)] = fitted.numbers
        exploration = _explore_about(search, fitted, families)
        if exploration is None:
            break
        fits = []
        for selection in exploration.select(bundle.at(numbers), tolerances[:2]):
            selection = exploration.settle(selection, 1)
            model = exploration.model(selection)
            if len(model.dictionary) and model.structure not in seen:
                seen.add(model.structure)
                observations = search.observations
                fits.append((refine(observations, model, observations.path)[0], selection.bundle))
        candidates += [model for model, _ in fits]
        better = min(fits, key=lambda item: item[0].score, default=(fitted, bundle))
        if not better[0].score < fitted.score:
            break
        fitted, bundle = better
    return candidates


def _rounded(observations: Observations, model: Candidate) -> list[Candidate]:
    """Fits with one number given that is round within its error."""
    fitted, fit = refine(observations, model, observations.path, (1,))
    candidates = []
    inverse = np.linalg.pinv(fit.information)
    noise = max(fit.misfit / observations.n_values, 1.0)
    errors = np.sqrt(np.maximum(np.diagonal(inverse), 0.0) * noise)
    first = len(fitted.parameters) - len(fitted.labels)
    for number, value in enumerate(fitted.numbers):
        near = _round_number(observations, fitted, number, value)
        if near is not None and abs(near - value) < max(_NEAR * errors[first + number], 1e-3 * abs(value)):
            given, _ = refine(observations, fitted.fixed(number, near), fit.paths, (1,))
            candidates.append(given)
    return candidates


def _round_number(observations: Observations, model: Candidate, number: int, value: float) -> float | None:
    """The nearest whole frequency of an angle, or exponent that is a multiple of 1/2 or 1/3."""
    term, slot, _ = model.free[np.flatnonzero(model.free[:, 2] == number)[0]]
    kind = model.dictionary.kind[term]
    if slot == INNER and kind in (Kind.SIN, Kind.COS):
        unit = float(observations.angle[model.dictionary.coordinate[term]])
        return None if np.isnan(unit) else max(round(value / unit), 1) * unit
    if slot == SECOND and kind == Kind.POWER:
        halves, thirds = round(2.0 * value) / 2.0, round(3.0 * value) / 3.0
        return min((halves, thirds), key=lambda v: abs(v - value))
    return None
