"""Sparse polynomial candidates from smoothed data, each judged by integrating it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.inference import NOTHING_KNOWN, Inference
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.criteria import bic
from fim_dynsys.regression.observed import SPLINE, Observations
from fim_dynsys.regression.smoothing import TIME_AWARE, Smoother
from fim_dynsys.regression.sparse import backward_path, normal_equations, solve_supports, stlsq
from fim_dynsys.search.origins import Origin, Stage
from fim_dynsys.search.problem import Search
from fim_dynsys.search.restrictions import Restriction
from fim_dynsys.trajectories.container import Trajectories

STLSQ_SETTINGS = ((0.01, False), (0.03, False), (0.1, False), (0.1, True), (0.5, True))
"""Threshold, and whether it refers to columns and targets of unit root mean square."""

BACKWARD_TOLERANCES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""Largest rise of the residual sum of squares by one drop, relative to the sum of squares of the slopes."""

_SHARED = 0.1
"""Price of a term whose coefficient follows from others, in those of one that is fitted: of fields that fit
alike, the one with fewer terms."""


@dataclass(frozen=True)
class Candidate:
    """One candidate in scaled units and where it came from.

    Attributes
    ----------
    coefficients : array (m, d)
        Of the search's dictionary.
    start : array (P, d)
        Initial states of the pieces.
    origin : Origin
        Which stage made it, and how.
    smoother : str
        Name of the smoother.
    score : float
        BIC on the noisy samples.
    variance : array (d,) or None
        Weighted residual variances of the integrated candidate.
    refined : bool
        Whether the coefficients were fitted to the trajectories.
    inner : int
        Fitted numbers inside functions, which count as parameters.
    restriction : Restriction or None
        What is known of the coefficients beforehand; None where all are free.
    """

    coefficients: np.ndarray
    start: np.ndarray
    origin: Origin
    smoother: str
    score: float = math.inf
    variance: np.ndarray | None = None
    refined: bool = False
    inner: int = 0
    restriction: Restriction | None = None

    @property
    def n_parameters(self) -> int:
        """Fitted numbers: coefficients that are not zero and not decided by others, and inner ones."""
        if self.restriction is None:
            return int(np.count_nonzero(self.coefficients)) + self.inner
        return self.restriction.count(self.coefficients) + self.inner

    @property
    def n_shared(self) -> int:
        """Coefficients beyond one for each fitted number, which known equalities give the others."""
        if self.restriction is None:
            return 0
        given = self.restriction.offset != 0.0
        return max(int(np.count_nonzero(self.support & ~given)) - (self.n_parameters - self.inner), 0)

    @property
    def support(self) -> np.ndarray:
        """Which coefficients are not zero (m, d)."""
        return self.coefficients != 0

    @property
    def is_finite(self) -> bool:
        """Whether the coefficients and the initial states are numbers."""
        return bool(np.isfinite(self.coefficients).all() and np.isfinite(self.start).all())

    def field(
        self,
        search: Search,
        trajectories: Trajectories,
        report: dict,
        inference: Inference = NOTHING_KNOWN,
    ) -> DictionaryField | DrivenField:
        """The candidate as a field in the units of the trajectories it was inferred from.

        Parameters
        ----------
        search : Search
            Data and terms.
        trajectories : Trajectories
            Context of the field.
        report, inference
            For ``field.fit_info``.

        Returns
        -------
        DictionaryField, or DrivenField where there are inputs
        """
        observations = search.observations
        still = np.zeros((len(self.coefficients), observations.n_inputs))
        terms, coefficients = search.dictionary.rescaled(
            np.concatenate([self.coefficients, still], axis=1),
            observations.extended_scale,
            observations.time_unit,
        )
        complete = len(observations.first) == trajectories.n_trajectories
        info = FitInfo(
            initial_states=observations.initial_states(self.start) * observations.scale if complete else None,
            noise_level=observations.noise_level,
            report=report,
            inference=inference,
        )
        if observations.n_inputs:
            return DrivenField.of(terms, coefficients, trajectories, info)
        return DictionaryField(terms, coefficients, context=trajectories, fit_info=info)


def shares(values: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Largest size (m, d) of each term, over that of the rate of the coordinate.

    Parameters
    ----------
    values : array (n, m)
        Of the terms at the samples.
    coefficients : array (m, d)
        Of the terms.
    """
    largest = np.abs(values).max(axis=0)[:, None] * np.abs(coefficients)
    return largest / np.maximum(np.abs(values @ coefficients).max(axis=0), 1e-300)


def no_motion(search: Search) -> Candidate:
    """States that stay at their means, as far as what is known allows."""
    seen, known = search.observations, search.restriction
    at_rest = np.stack([z.mean(axis=0) for _, z in seen.samples])
    still = np.zeros((len(search.dictionary), seen.dim)) if known is None else known.still
    return Candidate(still, at_rest, Origin(Stage.NO_MOTION), SPLINE.name, restriction=known)


def propose(
    search: Search, degrees: Sequence[int] = (1, 2, 3), smoothers: Sequence[Smoother] = TIME_AWARE
) -> list[Candidate]:
    """Sparse fits of smoothed slopes on the dictionary's terms of each degree.

    Parameters
    ----------
    search : Search
        Data and terms.
    degrees : sequence of int
        Largest total degrees.
    smoothers : sequence of Smoother
        From `fim_dynsys.regression.smoothing`.

    Returns
    -------
    list of Candidate
        Without scores and without duplicates.
    """
    observations, known = search.observations, search.restriction
    candidates = [no_motion(search)]
    smoothed = [observations.smoothed(smoother) for smoother in smoothers]
    problems = [
        _weighted_equations(search, smoother, *_stacked(fits))
        for smoother, fits in zip(smoothers, smoothed, strict=True)
    ]
    gram, moment, total = (np.stack(part) for part in zip(*problems, strict=True))
    total_degree = search.dictionary.exponents.sum(axis=1)
    found: list[tuple[Origin, np.ndarray]] = []
    seen = set()
    for degree in degrees:
        inside = np.flatnonzero(total_degree <= degree)
        if degree > 1 and len(inside) * 2 > observations.n:
            continue
        if known is not None:
            coefficients = _restricted_fits(known, inside, gram, moment, total)
        else:
            fits = _sparse_fits(gram[..., inside[:, None], inside], moment[..., inside], total)
            coefficients = np.zeros((*fits.shape[:2], len(search.dictionary), observations.dim))
            coefficients[:, :, inside] = np.swapaxes(fits, -1, -2)
        origins = [Origin(Stage.REGRESSION, f"degree {degree}, {name}") for name in _SETTINGS]
        found += zip(origins, coefficients, strict=True)
    for number, (smoother, own) in enumerate(zip(smoothers, smoothed, strict=True)):
        start = np.stack([states[0] for states, _ in own])
        for origin, coefficients in found:
            values = coefficients[number]
            key = values.tobytes()
            if key not in seen and np.isfinite(values).all():
                seen.add(key)
                candidates.append(Candidate(values, start, origin, smoother.name, restriction=known))
    return candidates


def _stacked(fits: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """States and slopes (N, d) of all pieces."""
    states, slopes = zip(*fits, strict=True)
    return np.concatenate(states), np.concatenate(slopes)


def _weighted_equations(
    search: Search, smoother: Smoother, states: np.ndarray, slopes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    root = np.sqrt(search.observations.row_weights(smoother))[:, None]
    columns = search.dictionary.evaluate(search.observations.with_inputs(states))
    return normal_equations(root * columns, root * slopes)


_SETTINGS = [
    *(f"STLSQ {s}{' normalised' if u else ''}" for s, u in STLSQ_SETTINGS),
    *(f"backward {tolerance:g}" for tolerance in BACKWARD_TOLERANCES),
]


def _sparse_fits(gram: np.ndarray, moment: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Coefficients (settings, smoothers, d, m) of each of the settings."""
    threshold = np.array([s for s, _ in STLSQ_SETTINGS])[:, None, None]
    unit = np.array([u for _, u in STLSQ_SETTINGS])[:, None, None]
    thresholded = stlsq(gram, moment, np.where(unit, threshold * np.sqrt(total), threshold), 0.05, unit)
    backward = backward_path(gram, moment, total[..., None] * np.array(BACKWARD_TOLERANCES))
    return np.concatenate([thresholded, np.moveaxis(backward, -2, 0)])


def _restricted_fits(
    known: Restriction, inside: np.ndarray, gram: np.ndarray, moment: np.ndarray, total: np.ndarray
) -> np.ndarray:
    """As `_sparse_fits` of the free numbers of a restriction: coefficients (settings, smoothers, m, d).

    Equations that share numbers are one regression, in which each counts by its own slopes; numbers that move
    terms outside the degree stay zero.
    """
    m, d = known.offset.shape
    outside = np.ones(m, dtype=bool)
    outside[inside] = False
    reaches = np.logical_or.reduce(known.basis.reshape(m, d, -1)[outside] != 0.0, axis=(0, 1))
    smoothers = len(total)
    values = np.zeros((len(_SETTINGS), smoothers, len(known.place)))
    for equations, numbers in known.blocks:
        numbers = numbers[~reaches[numbers]]
        if not len(numbers):
            continue
        own = known.part(equations, numbers)
        mean = total[:, equations].mean(axis=1, keepdims=True)
        weight = mean / np.where(total[:, equations] > 0, total[:, equations], mean)
        part_gram = gram[:, equations] * weight[..., None, None]
        part_moment = moment[:, equations] * weight[..., None]
        left, right = own.equations(part_gram, part_moment)
        offsets = np.einsum("skm,mk->s", 2.0 * part_moment, own.offset)
        offsets -= np.einsum("mk,skml,lk->s", own.offset, part_gram, own.offset)
        rest = np.maximum((weight * total[:, equations]).sum(axis=1) - offsets, 0.0)
        fits = _sparse_fits(left[:, None], right[:, None], rest[:, None])
        values[:, :, numbers] = fits[:, :, 0]
        for k in range(smoothers):
            for fit, out in zip(fits[:, k, 0], values[:, k], strict=True):
                if own.required.any() or (fit < own.low).any() or (fit > own.high).any():
                    out[numbers] = own.solved(left[k], right[k], fit != 0.0)
    return known.coefficients(values)


def score(observations: Observations, candidate: Candidate, variance: np.ndarray) -> Candidate:
    """The candidate with residual variances (d,) and its BIC."""
    return _scored(observations, [candidate], variance[None])[0]


def _scored(
    observations: Observations, candidates: list[Candidate], variances: np.ndarray
) -> list[Candidate]:
    active = [c.n_parameters + _SHARED * c.n_shared for c in candidates]
    signal, starts = observations.signal_variance, len(observations.samples)
    seen = variances + observations.unknown_variance if observations.n_inputs else variances
    values = bic(seen, observations.counts, np.array(active), signal, starts)
    return [
        replace(c, score=float(value), variance=variance)
        for c, value, variance in zip(candidates, values, variances, strict=True)
    ]


def price_of_choice(candidate: Candidate, terms: int) -> float:
    """What extended BIC adds for having chosen a candidate's terms among so many in each right-hand side.

    References
    ----------
    J. Chen, Z. Chen, Extended Bayesian information criteria, Biometrika 95 (2008) 759, with gamma 1/2.
    """
    total = math.lgamma(terms + 1)
    return sum(
        total - math.lgamma(k + 1) - math.lgamma(max(terms - k, 0) + 1)
        for k in np.count_nonzero(candidate.coefficients, axis=0).tolist()
    )


def log_alike(dictionary: Dictionary, dim: int) -> np.ndarray:
    """Logarithm (m, d) of the number of monomials that are of a kind with each, in each right-hand side.

    A kind is those of one degree that hold the state itself, or that do not: of what is linear, or holds the
    state, there is little, of products of others much. Extended BIC with gamma = 1 has twice that as the
    price of having chosen a term among its like.

    References
    ----------
    J. Chen, Z. Chen, Extended Bayesian information criteria, Biometrika 95 (2008) 759, sect. 2.
    """
    degree = dictionary.exponents.sum(axis=1)
    counts = []
    for state in range(dim):
        kind = 2 * degree + (dictionary.exponents[:, state] > 0)
        _, place, alike = np.unique(kind, return_inverse=True, return_counts=True)
        counts.append(alike[place])
    return np.log(np.column_stack(counts))


def judge(search: Search, candidates: list[Candidate]) -> list[Candidate]:
    """Integrate every candidate from its own start over the observation times and score it by BIC.

    Parameters
    ----------
    search : Search
        Data and terms.
    candidates : list of Candidate
        Any scores are replaced.

    Returns
    -------
    list of Candidate
        The same, scored, best first; candidates that diverge score infinity.
    """
    observations = search.observations
    if not candidates:
        return []
    scored = []
    chunk = max(1, int(2e6 / observations.z.size))
    for first in range(0, len(candidates), chunk):
        part = candidates[first : first + chunk]
        coefficients = np.stack([c.coefficients for c in part])
        start = np.stack([c.start for c in part])
        paths = search.paths(coefficients, start)
        scored += _scored(observations, part, observations.residual_variance(paths))
    return sorted(scored, key=lambda c: c.score)


def refit(search: Search, support: np.ndarray, smoother_name: str) -> Candidate:
    """Least squares on given terms, with the slopes of one smoother.

    Parameters
    ----------
    search : Search
        Data and terms.
    support : bool array (m, d)
        Which coefficients may be non-zero.
    smoother_name : str
        Name of one of the time-aware smoothers.

    Returns
    -------
    Candidate
        Without a score.
    """
    smoother = next((s for s in TIME_AWARE if s.name == smoother_name), SPLINE)
    fits = search.observations.smoothed(smoother)
    gram, moment, _ = _weighted_equations(search, smoother, *_stacked(fits))
    known = search.restriction
    if known is None:
        coefficients = solve_supports(gram, moment, support.T).T
    else:
        left, right = known.equations(gram, moment)
        coefficients = known.coefficients(known.solved(left, right, known.numbers(support)))
    start = np.stack([s[0] for s, _ in fits])
    return Candidate(coefficients, start, Origin(Stage.REFIT), smoother.name, restriction=known)
