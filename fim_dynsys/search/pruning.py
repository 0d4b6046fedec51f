"""Candidates refined on the trajectories and pruned of terms that the data do not ask for."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from fim_dynsys.regression.kernels.integration import finer_counts
from fim_dynsys.regression.kernels.sensitivities import interval_maps
from fim_dynsys.regression.observed import STEPS_PER_GAP, Observations
from fim_dynsys.regression.refinement import TrajectoryFit, fit_trajectory, path_response
from fim_dynsys.regression.sparse import backward_elimination, solve_supports
from fim_dynsys.search.candidates import Candidate, judge, score
from fim_dynsys.search.origins import Stage
from fim_dynsys.search.restrictions import Restriction

_ATTEMPTS = 8  # refits, each without the terms that BIC would rather not have, or half as many
ITERATIONS = 8
"""Largest number of steps of a stage of a fit."""

MAX_TERMS = 30
"""Structures with more coefficients are not fitted in up to three states, see `most_terms`."""

_FEW_STATES, _TERMS_PER_STATE = 3, 25  # regressions of more states have many terms before they are pruned

_MOST_STEPS = 24  # times the steps that the pace of the data asks for: what a fit may take

_CANCELLED = 1e-10  # of an information's diagonal: above what eliminating the starts leaves to rounding


def compiled_maps(candidate: Candidate, inputs: np.ndarray, every: bool = False) -> Callable:
    """The `interval_maps` of `fit_trajectory`, whose parameters are those of a candidate.

    ``inputs`` (N, 4, m) are those of the intervals, see `fim_dynsys.regression.inputs`. Of all coefficients,
    or all free numbers of a restriction, where ``every`` is true.
    """
    row, column, values, derivative = _linear(candidate, every)

    def maps(
        p: np.ndarray, nodes: np.ndarray, steps: np.ndarray, counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        terms = candidate.packed(p)
        ends, slopes = interval_maps(
            terms, row, column, values(p), candidate.free, nodes, steps, counts, inputs
        )
        return ends, slopes if derivative is None else _combined(slopes, nodes.shape[1], derivative)

    return maps


def compiled_counts(candidate: Candidate, observations: Observations) -> Callable:
    """The ``finer`` of `fit_trajectory` for the parameters of a candidate."""
    row, column, values, _ = _linear(candidate)
    curves, allowed = observations.interval_curves, observations.allowed

    def finer(p: np.ndarray, nodes: np.ndarray, lengths: np.ndarray, counts: np.ndarray) -> np.ndarray:
        terms = candidate.packed(p)
        found = finer_counts(
            terms, row, column, values(p), nodes, lengths, counts, curves, allowed, STEPS_PER_GAP
        )
        return affordable(found, counts)

    return finer


def _linear(
    candidate: Candidate, every: bool = False
) -> tuple[np.ndarray, np.ndarray, Callable[[np.ndarray], np.ndarray], np.ndarray | None]:
    """Rows and columns (k,) of the coefficients that may differ from zero, and these by the parameters.

    And their derivative (k, a) by the free numbers of a restriction; None where they are the parameters.
    """
    restriction, coefficients = candidate.restriction, candidate.coefficients
    if restriction is None:
        support = np.ones(coefficients.shape, dtype=bool) if every else candidate.support
        row, column = map(np.ascontiguousarray, np.nonzero(support))
        return row, column, lambda p: p[: len(row)], None
    active = restriction.active(coefficients) | every
    fixed = restriction.coefficients(np.where(active, 0.0, restriction.numbers(coefficients)))
    derivative = restriction.basis[:, active]
    support = derivative.any(axis=1).reshape(fixed.shape) | (fixed != 0.0)
    support[0, 0] = True  # kernels want a coefficient
    row, column = map(np.ascontiguousarray, np.nonzero(support))
    given, derivative = fixed[support], derivative[support.ravel()]
    return row, column, lambda p: given + derivative @ p[: derivative.shape[1]], derivative


def affordable(counts: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Counts (N,) of steps, halved until all are at most `_MOST_STEPS` times the least."""
    most = _MOST_STEPS * least.sum()
    while counts.sum() > most:
        counts = np.maximum(counts // 2, least)
    return counts


def refine(
    observations: Observations,
    candidate: Candidate,
    paths: Sequence[np.ndarray],
    segments: Sequence[int] = (5, 1),
    max_iterations: int = ITERATIONS,
) -> tuple[Candidate, TrajectoryFit]:
    """Fit a candidate's coefficients, numbers and starts to the trajectories, its terms kept.

    Numbers that leave their bounds are held there, and the rest fitted again.

    Parameters
    ----------
    observations : Observations
        Data.
    candidate : Candidate
        Where to start.
    paths : list of arrays (n, d)
        States to linearise about first.
    segments : sequence of int
        Stages of free starts, see `fit_trajectory`.
    max_iterations : int
        Largest number of steps in each.

    Returns
    -------
    candidate : Candidate
        Scored on the nodes of the fit, which an integration in one piece need not follow: see `judge`.
    fit : TrajectoryFit
        Weighted by the inverse noise variance that the candidate's own residuals suggest.
    """
    at = candidate.within_bounds
    while True:
        fit, known = fit_samples(
            observations,
            candidate,
            at.parameters,
            compiled_maps(at, observations.interval_curves),
            paths,
            segments,
            max_iterations=max_iterations,
            finer=compiled_counts(at, observations),
        )
        fitted, restriction = at.with_parameters(fit.parameters, **known), candidate.restriction
        found = fitted.coefficients
        if restriction is None or restriction.within(found) or not np.isfinite(found).all():
            return score(observations, fitted, known["variance"]), fit
        at, paths, segments = fitted.within_bounds, fit.paths, segments[-1:]


def _combined(slopes: np.ndarray, dim: int, derivative: np.ndarray) -> np.ndarray:
    """Derivatives (N, d, d + k + i) by start, coefficients and inner numbers: by the active instead."""
    last = dim + len(derivative)
    parts = slopes[..., :dim], slopes[..., dim:last] @ derivative, slopes[..., last:]
    return np.concatenate(parts, axis=-1)


def fit_samples(
    observations: Observations,
    candidate: Candidate,
    parameters: np.ndarray,
    maps: Callable,
    paths: Sequence[np.ndarray],
    segments: Sequence[int] = (5, 1),
    prior_precision: np.ndarray | None = None,
    max_iterations: int = ITERATIONS,
    finer: Callable | None = None,
) -> tuple[TrajectoryFit, dict]:
    """Trajectory fit of a candidate's parameters and starts, and what it says of the candidate.

    Parameters
    ----------
    observations, candidate, paths, segments, max_iterations
        See `refine`.
    parameters : array (q,)
        Where to start.
    maps, finer : callables
        The ``interval_maps`` and ``finer`` of `fit_trajectory`.
    prior_precision : array (q,) or (q, q), optional
        Of the parameters about where they start.

    Returns
    -------
    fit : TrajectoryFit
    known : dict
        Attributes of the candidate: ``start``, ``refined`` and ``variance``.
    """
    assumed = assumed_variance(observations, candidate)
    fit = fit_trajectory(
        None,
        None,
        None,
        parameters,
        observations.start,
        observations.samples,
        observations.weights_over(assumed),
        segments,
        prior_precision=prior_precision,
        start_precision=observations.start_precision,
        paths=paths,
        max_step=observations.interval_limits,
        max_iterations=max_iterations,
        check=False,
        interval_maps=maps,
        finer=finer,
    )
    padded = np.zeros_like(observations.z)
    for k, nodes in enumerate(fit.paths):
        padded[k, : len(nodes)] = nodes
    variance = observations.residual_variance(padded)
    # gaps that the iterations left open count as misfit
    on_nodes = float(observations.counts @ (variance / assumed))
    variance = variance * max(fit.misfit / max(on_nodes, 1e-300), 1.0)
    return fit, {
        "start": fit.initial_states,
        "refined": True,
        "variance": variance,
    }


def response(
    observations: Observations, candidate: Candidate, variance: np.ndarray, paths: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray, float]:
    """How the misfit of a candidate's paths depends on all coefficients, or all free numbers.

    See `path_response`.

    Parameters
    ----------
    observations, candidate
        See `refine`; without fitted numbers inside functions.
    variance : array (d,)
        To weigh coordinates by.
    paths : list of arrays (n, d)
        Of the candidate.
    """
    restriction, coefficients, parameters = (
        candidate.restriction,
        candidate.coefficients,
        candidate.parameters,
    )
    finer = compiled_counts(candidate, observations)
    return path_response(
        compiled_maps(candidate, observations.interval_curves, every=True),
        coefficients.ravel() if restriction is None else restriction.numbers(coefficients),
        paths,
        observations.samples,
        observations.weights_over(variance),
        observations.start,
        observations.start_precision,
        observations.interval_limits,
        lambda _, *intervals: finer(parameters, *intervals),
    )


def assumed_variance(observations: Observations, candidate: Candidate) -> np.ndarray:
    """Residual variances to weigh coordinates by: the candidate's own, between noise level and signal."""
    signal = observations.signal_variance
    low = observations.noise_variance
    given = low if candidate.variance is None else candidate.variance
    return np.clip(np.where(np.isfinite(given), given, signal), low, np.maximum(0.3 * signal, low))


def most_terms(dim: int) -> int:
    """Coefficients that a structure may have: `MAX_TERMS`, or 25 for each of more than three states."""
    return MAX_TERMS if dim <= _FEW_STATES else _TERMS_PER_STATE * dim


def pruned(
    observations: Observations,
    candidate: Candidate,
    paths: Sequence[np.ndarray],
    segments: Sequence[int] = (5, 1),
) -> tuple[list[Candidate], Candidate, TrajectoryFit]:
    """Refine, drop the terms whose Wald statistics do not pay their share of the BIC, and repeat.

    Parameters
    ----------
    observations, candidate, paths, segments
        See `refine`.

    Returns
    -------
    candidates : list of Candidate
        All structures fitted, each refined and scored on the nodes of its fit.
    best : Candidate
        The best of them.
    fit : TrajectoryFit
        Its fit.
    """
    best, fit = refine(observations, candidate, paths, segments)
    candidates = [best]
    if not np.isfinite(best.score):
        return candidates, best, fit
    share, drop = 1.0, _droppable(observations, best, fit)
    for _ in range(_ATTEMPTS):
        count = max(int(share * len(drop)), min(len(drop), 1))
        if not count:
            break
        smaller = _without(best, fit, drop[:count])
        trial, trial_fit = refine(observations, smaller, fit.paths, segments[-1:])
        candidates.append(trial)
        if trial.score < best.score:
            best, fit, share = trial, trial_fit, 1.0
            drop = _droppable(observations, best, fit)
        elif count == 1:
            break
        else:
            share *= 0.5
    return candidates, best, fit


def _droppable(observations: Observations, candidate: Candidate, fit: TrajectoryFit) -> np.ndarray:
    """Parameters, cheapest first, that cost more BIC than they explain in the linearised fit."""
    if len(fit.parameters) < 2 or not np.isfinite(fit.information).all():
        return np.zeros(0, dtype=np.intp)
    # the weights may overrate the noise by now: one common factor is enough for the comparison
    factor = observations.n_values / max(fit.misfit, 1e-300)
    information = _information(fit) * min(max(factor, 1e-6), 1.0)
    if candidate.restriction is not None:
        return _droppable_numbers(observations, candidate, candidate.restriction, information, fit.parameters)
    order, costs = backward_elimination(information, information @ fit.parameters)
    gain = np.cumsum(math.log(max(observations.n_values, 2)) - costs)[:-1]
    return order[: int(np.argmax(gain)) + 1] if gain.max(initial=0.0) > 0.0 else order[:0]


def _droppable_numbers(
    observations: Observations,
    candidate: Candidate,
    restriction: Restriction,
    information: np.ndarray,
    parameters: np.ndarray,
) -> np.ndarray:
    """As `_droppable`, of free numbers that are not required and may be zero."""
    may = ~restriction.required & (restriction.low <= 0.0) & (restriction.high >= 0.0)
    may = may[restriction.active(candidate.coefficients)]
    loose, tight = np.flatnonzero(may), np.flatnonzero(~may)
    if not len(loose):
        return loose
    inside = information[np.ix_(loose, loose)]
    if len(tight):
        across = information[np.ix_(loose, tight)]
        inside = inside - across @ np.linalg.solve(information[np.ix_(tight, tight)], across.T)
    order, costs = backward_elimination(inside, inside @ parameters[loose])
    gain = np.cumsum(math.log(max(observations.n_values, 2)) - costs)
    return loose[order[: int(np.argmax(gain)) + 1]] if gain.max(initial=0.0) > 0.0 else loose[:0]


def _information(fit: TrajectoryFit) -> np.ndarray:
    return fit.information + _CANCELLED * np.diag(np.diagonal(fit.information))


def _without(candidate: Candidate, fit: TrajectoryFit, dropped: np.ndarray) -> Candidate:
    """The candidate without some parameters, the others where the linearised fit then has its minimum."""
    kept = np.ones(len(fit.parameters), dtype=bool)
    kept[dropped] = False
    information = _information(fit)
    values = solve_supports(information, information @ fit.parameters, kept)
    restriction = candidate.restriction
    if restriction is None:
        coefficients = np.zeros_like(candidate.coefficients)
        coefficients[candidate.support] = values
    else:
        numbers = restriction.numbers(candidate.coefficients)
        numbers[restriction.active(candidate.coefficients)] = values
        coefficients = restriction.clipped(restriction.coefficients(numbers))
    return replace(candidate, coefficients=coefficients, origin=candidate.origin.then(Stage.PRUNING))


def improve(
    observations: Observations,
    ranked: list[Candidate],
    count: int,
    max_terms: int = MAX_TERMS,
    done: Callable[[], object] | None = None,
) -> list[Candidate]:
    """Refine and prune the best distinct structures and judge everything fitted by integration.

    Parameters
    ----------
    observations : Observations
        Data.
    ranked : list of Candidate
        Scored, best first.
    count : int
        Number of structures to start from.
    max_terms : int
        Structures with more coefficients are left as they are.
    done : callable, optional
        Called after each structure.

    Returns
    -------
    list of Candidate
        ``ranked`` and what was fitted, best first.
    """
    candidates = []
    # Smoothers miss the kinks that jumps of inputs make in states, and terms of high degree mimic these.
    first = [c for c in ranked if _is_linear(c)][:1] if observations.n_inputs else []
    for candidate in distinct_structures(first + ranked, count + len(first), max_terms):
        candidates += pruned(observations, candidate, observations.path)[0]
        if done is not None:
            done()
    finite = [c for c in candidates if c.is_finite]
    return sorted(ranked + judge(observations, finite), key=lambda c: c.score)


def _is_linear(candidate: Candidate) -> bool:
    """Whether the terms in use have degree 1 at most, and one has."""
    used = candidate.dictionary.exponents[candidate.support.any(axis=1)]
    return bool(used.sum(axis=1).max(initial=0) == 1)


def distinct_structures(ranked: list[Candidate], count: int, max_terms: int) -> Iterator[Candidate]:
    """The first so many candidates of different supports that have a score, some terms and not too many."""
    seen: set[bytes] = set()
    for candidate in ranked:
        if len(seen) == count:
            return
        structure, terms = candidate.support.tobytes(), candidate.n_parameters - len(candidate.labels)
        if structure not in seen and 0 < terms <= max_terms and np.isfinite(candidate.score):
            seen.add(structure)
            yield candidate
