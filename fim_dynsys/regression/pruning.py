"""Candidates refined on the trajectories and stripped of terms that the data do not ask for."""

import math
from dataclasses import replace

import numpy as np

from fim_dynsys.regression.candidates import STEP_LIMIT, judge, score
from fim_dynsys.regression.criteria import VARIANCE_FLOOR
from fim_dynsys.regression.refinement import fit_trajectory
from fim_dynsys.regression.smoothing import TIME_AWARE
from fim_dynsys.regression.sparse import backward_elimination

_ROUNDS = 4
_ITERATIONS = 6


def sparse_problem(dictionary, support):
    """Right-hand side and derivatives of a polynomial field as functions of its non-zero coefficients.

    Parameters
    ----------
    dictionary : Dictionary
        Polynomial terms.
    support : bool array (m, d)
        Coefficients that are parameters, in the order of ``numpy.nonzero``.

    Returns
    -------
    rhs, jac_x, jac_p : callables
        As `fit_trajectory` takes them.
    """
    if not dictionary.is_polynomial:
        raise ValueError("sparse_problem: expected monomials only, got other kinds of terms.")
    d = dictionary.dim
    terms = dictionary.subset(np.flatnonzero(support.any(axis=1)))
    term, coordinate = np.nonzero(support[support.any(axis=1)])
    table, parameter = terms.table, np.arange(len(term))
    rows = table.index[term]
    by_coefficient = np.zeros((len(table), d * d, len(term)))
    for j in range(d):
        power = table.exponents[rows, j]
        by_coefficient[table.lowered[rows, j], coordinate * d + j, parameter] += power

    def rhs(x, p):
        c = np.zeros((len(table), d))
        c[rows, coordinate] = p
        return table.columns(x.T).T @ c

    def jac_x(x, p):
        return (table.columns(x.T).T @ (by_coefficient @ p)).reshape(len(x), d, d)

    def jac_p(x, p):
        out = np.zeros((len(x), d, len(term)))
        out[:, coordinate, parameter] = table.columns(x.T)[rows].T
        return out

    return rhs, jac_x, jac_p


def refine(observations, dictionary, candidate, paths, segments=(5, 1)):
    """Fit a candidate's coefficients and starts to the trajectories, its terms kept.

    Parameters
    ----------
    observations : Observations
        Data.
    dictionary : Dictionary
        Terms.
    candidate : Candidate
        Where to start.
    paths : list of arrays (n, d)
        States to linearise about first.
    segments : sequence of int
        Stages of free starts, see `fit_trajectory`.

    Returns
    -------
    candidate : Candidate
        Scored on the nodes of the fit, which an integration in one piece need not follow: see `judge`.
    fit : TrajectoryFit
        Weighted by the inverse noise variance that the candidate's own residuals suggest.
    """
    support = candidate.support
    variance = _variance(observations, candidate)
    fit = fit_trajectory(
        *sparse_problem(dictionary, support),
        candidate.coefficients[support],
        observations.start,
        observations.samples,
        [
            w[: len(t)] / variance
            for w, (t, _) in zip(observations.weights, observations.samples, strict=True)
        ],
        segments,
        start_precision=1.0 / observations.start_variance,
        paths=paths,
        max_step=STEP_LIMIT,
        max_iterations=_ITERATIONS,
        check=False,
    )
    coefficients = np.zeros_like(candidate.coefficients)
    coefficients[support] = fit.parameters
    padded = np.zeros_like(observations.z)
    for k, nodes in enumerate(fit.paths):
        padded[k, : len(nodes)] = nodes
    refined = replace(candidate, coefficients=coefficients, start=fit.initial_states, refined=True)
    return score(observations, refined, observations.residual_variance(padded)), fit


def _variance(observations, candidate):
    """Residual variances to weigh coordinates by: the candidate's own, between noise level and signal."""
    signal = observations.signal_variance
    low = np.maximum(np.maximum(VARIANCE_FLOOR * signal, observations.law.level**2), 1e-300)
    given = low if candidate.variance is None else candidate.variance
    return np.clip(np.where(np.isfinite(given), given, signal), low, np.maximum(0.3 * signal, low))


def refine_and_prune(observations, dictionary, candidate, paths):
    """Refine, drop the terms whose Wald statistics do not pay their share of the BIC, and repeat.

    Parameters
    ----------
    observations, dictionary, candidate, paths
        See `refine`.

    Returns
    -------
    list of Candidate
        All structures met, each refined and scored on the nodes of its fit.
    """
    best, fit = refine(observations, dictionary, candidate, paths)
    met = [best]
    for _ in range(_ROUNDS):
        smaller = _without_cheap_terms(observations, best, fit) if np.isfinite(best.score) else None
        if smaller is None:
            break
        trial, trial_fit = refine(observations, dictionary, smaller, fit.paths, (1,))
        met.append(trial)
        if not trial.score < best.score:
            break
        best, fit = trial, trial_fit
    return met


def _without_cheap_terms(observations, candidate, fit):
    """The candidate without the terms that cost more BIC than they explain; None if there are none."""
    support = candidate.support
    if not support.any() or not np.isfinite(fit.information).all():
        return None
    # weights may be stale by one refinement: one common factor is enough for the comparison
    factor = observations.n * observations.dim / max(fit.misfit, 1e-300)
    information = fit.information * min(max(factor, 1e-6), 1.0)
    values = candidate.coefficients[support]
    order, costs = backward_elimination(information, information @ values)
    gain = np.cumsum(math.log(max(observations.n * observations.dim, 2)) - costs)
    if gain.max(initial=0.0) <= 0.0:
        return None
    dropped = order[: int(np.argmax(gain)) + 1]
    term, coordinate = np.nonzero(support)
    coefficients = candidate.coefficients.copy()
    coefficients[term[dropped], coordinate[dropped]] = 0.0
    if not (coefficients != 0).any():
        return None
    return replace(candidate, coefficients=coefficients, origin=f"{candidate.origin}, pruned")


def improve(observations, dictionary, ranked, count, max_terms=30):
    """Refine and prune the best distinct structures and judge everything met by integration.

    Parameters
    ----------
    observations : Observations
        Data.
    dictionary : Dictionary
        Terms.
    ranked : list of Candidate
        Scored, best first.
    count : int
        Number of structures to start from.
    max_terms : int
        Structures with more coefficients are left as they are.

    Returns
    -------
    list of Candidate
        ``ranked`` and what was met, best first.
    """
    paths = [states for states, _ in observations.smoothed(TIME_AWARE[-1])]
    met, seen = [], set()
    for candidate in ranked:
        structure = candidate.support.tobytes()
        terms = np.count_nonzero(candidate.support)
        if structure in seen or not 0 < terms <= max_terms or not np.isfinite(candidate.score):
            continue
        if len(seen) == count:
            break
        seen.add(structure)
        met += refine_and_prune(observations, dictionary, candidate, paths)
    finite = [c for c in met if np.isfinite(c.coefficients).all() and np.isfinite(c.start).all()]
    return sorted(ranked + judge(observations, dictionary, finite), key=lambda c: c.score)
