"""Candidates refined on the trajectories and stripped of terms that the data do not ask for."""

import math
import time
from dataclasses import replace

import numpy as np

from fim_dynsys.regression.criteria import VARIANCE_FLOOR, bic
from fim_dynsys.regression.refinement import fit_trajectory
from fim_dynsys.regression.sparse import backward_elimination

_ROUNDS = 4


def sparse_problem(dictionary, support):
    """Right-hand side and derivatives of a dictionary field as functions of its non-zero coefficients.

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
    rows = np.flatnonzero(support.any(axis=1))
    terms = dictionary.subset(rows)
    term, coordinate = np.nonzero(support[rows])
    shape = (len(rows), dictionary.dim)

    def matrix(p):
        c = np.zeros(shape)
        c[term, coordinate] = p
        return c

    def rhs(x, p):
        return terms.columns(x.T).T @ matrix(p)

    def jac_x(x, p):
        return np.swapaxes(terms.gradient(x), 1, 2) @ matrix(p) if False else _jacobian(terms, x, matrix(p))

    def jac_p(x, p):
        out = np.zeros((len(x), shape[1], len(term)))
        out[:, coordinate, np.arange(len(term))] = terms.columns(x.T).T[:, term]
        return out

    return rhs, jac_x, jac_p


def _jacobian(terms, x, coefficients):
    return np.einsum("nmj,mi->nij", terms.gradient(x), coefficients, optimize=True)


def refine(observations, dictionary, candidate, paths=None, segments=(5, 1), time_limit=None):
    """Fit a candidate's coefficients and starts to the trajectories, its terms kept.

    Parameters
    ----------
    observations : Observations
        Data.
    dictionary : Dictionary
        Terms.
    candidate : Candidate
        Where to start.
    paths : list of arrays (n, d), optional
        States to linearise about first.
    segments : sequence of int
        Stages of free starts, see `fit_trajectory`.
    time_limit : float, optional
        CPU seconds.

    Returns
    -------
    candidate : Candidate
        Scored.
    fit : TrajectoryFit
        Weighted by the inverse noise variance that the candidate's own residuals suggest.
    """
    problem = sparse_problem(dictionary, candidate.support)
    weights = [w[: len(t)] for w, (t, _) in zip(observations.weights, observations.samples, strict=True)]
    variance = _variance(observations, candidate)
    fit = fit_trajectory(
        *problem,
        candidate.coefficients[candidate.support],
        candidate.start,
        observations.samples,
        [w / variance for w in weights],
        segments,
        time_limit=time_limit,
        paths=paths,
        max_step=0.15,
        max_iterations=6,
    )
    coefficients = np.zeros_like(candidate.coefficients)
    coefficients[candidate.support] = fit.parameters
    path = np.zeros_like(observations.z)
    for k, states in enumerate(fit.paths):
        path[k, : len(states)] = states
    variance = observations.residual_variance(path[None])[0]
    score = bic(
        variance,
        observations.n,
        np.count_nonzero(coefficients),
        observations.signal_variance,
        len(observations.samples),
    )
    refined = replace(
        candidate,
        coefficients=coefficients,
        start=fit.initial_states,
        score=float(score),
        variance=variance,
        refined=True,
    )
    return refined, fit


def _variance(observations, candidate):
    """Residual variances to weigh coordinates by: the candidate's own, within sensible bounds."""
    signal = observations.signal_variance
    low = np.maximum(VARIANCE_FLOOR * signal, observations.law.level**2)
    given = candidate.variance if candidate.variance is not None else low
    given = np.where(np.isfinite(given), given, signal)
    return np.clip(given, np.maximum(low, 1e-300), np.maximum(0.3 * signal, low) + 1e-300)


def refine_and_prune(observations, dictionary, candidate, paths, time_limit):
    """Refine, drop the terms whose Wald statistics do not pay their share of the BIC, and repeat.

    Parameters
    ----------
    observations, dictionary, candidate, paths
        See `refine`.
    time_limit : float
        CPU seconds.

    Returns
    -------
    list of Candidate
        All structures met, each refined and scored.
    """
    deadline = time.process_time() + time_limit
    best, fit = refine(observations, dictionary, candidate, paths, time_limit=time_limit)
    met = [best]
    if not np.isfinite(best.score):
        return met
    for _ in range(_ROUNDS):
        remaining = deadline - time.process_time()
        smaller = _without_cheap_terms(observations, best, fit)
        if smaller is None or remaining <= 0:
            break
        trial, trial_fit = refine(observations, dictionary, smaller, fit.paths, (1,), remaining)
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
    rescale = _variance(observations, candidate)
    # the fit's weights may be stale by one refinement: one factor is enough for the comparison
    factor = observations.n * observations.dim / max(fit.misfit, 1e-300)
    information = fit.information * min(max(factor, 1e-6), 1e6)
    values = candidate.coefficients[support]
    order, costs = backward_elimination(information, information @ values)
    gain = np.cumsum(math.log(max(observations.n * observations.dim, 2)) - costs)
    if gain.max(initial=0.0) <= 0.0 or not np.isfinite(rescale).all():
        return None
    dropped = order[: int(np.argmax(gain)) + 1]
    term, coordinate = np.nonzero(support)
    coefficients = candidate.coefficients.copy()
    coefficients[term[dropped], coordinate[dropped]] = 0.0
    if not (coefficients != 0).any():
        return None
    return replace(candidate, coefficients=coefficients, origin=f"{candidate.origin}, pruned")
