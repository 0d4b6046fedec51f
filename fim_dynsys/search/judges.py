"""What decides among the candidates of a search: scores, such as BIC, and prices that are added to them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from fim_dynsys.fields import inference
from fim_dynsys.regression.observed import Observations
from fim_dynsys.search.candidates import Candidate, log_alike, residual_variances
from fim_dynsys.search.functions.families import families
from fim_dynsys.search.local import LocalFit, Rates, clearly_better, unseen_errors
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import refine

_SHARE = 0.02  # of the likelihood of paths from smoothed starts, see `_from_the_samples`; by development rows
_STATES = 3  # up to which the share was chosen, and earns anything
_LEAST = 1e-4  # of the variance of the samples: less noise counts as none
_LOST = 1e3  # times the variance of the samples: what a path misses that diverges
_MARGIN = 8.0
"""BIC by which functions must beat all polynomials where nothing is learned: more of them can be lucky."""


class Judge(Protocol):
    """Prefers the candidate of the least score and price together."""

    @property
    def name(self) -> inference.Judge:
        """What an inference notes."""

    def prices(self, search: Search, candidates: Sequence[Candidate]) -> np.ndarray:
        """What is added to the score of each (C,), in BIC."""


def totals(judge: Judge, search: Search, candidates: Sequence[Candidate]) -> np.ndarray:
    """Scores and prices of candidates together (C,); the least is preferred."""
    return np.array([c.score for c in candidates]) + judge.prices(search, candidates)


@dataclass(frozen=True)
class Bic:
    """Functions at the price of a margin, and terms at that of having chosen them among their like.

    Attributes
    ----------
    gamma : float
        Of the extended BIC, see `log_alike`; 0 for the plain one. Above 0 of polynomials alone.
    """

    gamma: float = 0.0

    @property
    def name(self) -> inference.Judge:
        """The plain or the extended BIC."""
        return inference.Judge.EXTENDED_BIC if self.gamma else inference.Judge.BIC

    def prices(self, search: Search, candidates: Sequence[Candidate]) -> np.ndarray:
        """See `Judge`."""
        prices = _common(search, candidates)
        if not self.gamma:
            return prices
        alike = 2.0 * self.gamma * log_alike(search.dictionary, search.observations.dim)
        return prices + np.array([alike[c.support].sum() for c in candidates])


def _from_the_samples(search: Search, candidates: Sequence[Candidate]) -> np.ndarray:
    """Prices (C,) of candidates whose paths from the smoothed first samples miss the others.

    A path that is fitted to noisy samples has a fitted start. A field that follows the samples from this one
    alone is believed less than one that follows them from others nearby, too. The price is a share of minus
    twice the log-likelihood of the paths from the smoothed starts. States that were not observed start as
    fitted; those of hardly any noise count for nothing, for their fitted starts are certain, nor do those
    whose samples weigh unevenly, since smoothers weigh all alike. In more than three states nothing is asked:
    a chain of seven lost by it.
    """
    seen = search.observations
    noisy = (seen.noise_variance > _LEAST * seen.signal_variance) & (seen.counts > 0)
    noisy &= ~seen.weighs_unevenly
    if not noisy.any() or seen.dim > _STATES:
        return np.zeros(len(candidates))
    observed = True if seen.seen is None else seen.seen
    moved = [replace(c, start=np.where(observed, seen.start, c.start)) for c in candidates]
    missed = np.fmin(residual_variances(seen, moved), _LOST * seen.signal_variance)  # nan is lost, too
    levels = missed / seen.noise_variance
    return _SHARE * np.where(noisy, seen.counts * np.log(np.maximum(levels, 1.0)), 0.0).sum(axis=1)


BIC = Bic()
"""The plain one."""


@dataclass(frozen=True)
class ExtendedBic:
    """Functions at the price of a margin, and terms at that of having chosen so many among all.

    References
    ----------
    J. Chen, Z. Chen, Extended Bayesian information criteria, Biometrika 95 (2008) 759, with gamma 1/2.
    """

    name = inference.Judge.EXTENDED_BIC

    def prices(self, search: Search, candidates: Sequence[Candidate]) -> np.ndarray:
        """See `Judge`."""
        terms = len(search.dictionary)
        chosen = [np.count_nonzero(c.coefficients, axis=0).tolist() for c in candidates]
        choices = np.array([sum(_log_choices(terms, k) for k in counts) for counts in chosen])
        return _common(search, candidates) + choices


@dataclass(frozen=True)
class OfFamilies:
    """Functions at the price of having chosen them among all families (extended BIC)."""

    name = inference.Judge.EXTENDED_BIC

    def prices(self, search: Search, candidates: Sequence[Candidate]) -> np.ndarray:
        """See `Judge`."""
        price = 2.0 * math.log(len(families(search.observations.angle, search.observations.n_inputs)))
        return np.array([price * c.n_functions for c in candidates])


@dataclass(frozen=True)
class Exact:
    """Scores alone, which hold all prices."""

    name = inference.Judge.EXACT

    def prices(self, search: Search, candidates: Sequence[Candidate]) -> np.ndarray:
        """See `Judge`."""
        return np.zeros(len(candidates))


@dataclass(frozen=True)
class HeldOut:
    """No candidate for which a field without an equation predicts trajectories clearly better.

    Both predict those that they have not seen: a candidate is fitted again to the others.
    """

    local: LocalFit
    name = inference.Judge.HELD_OUT

    def prices(self, search: Search, candidates: Sequence[Candidate]) -> np.ndarray:
        """See `Judge`."""
        seen = search.observations
        beaten = [clearly_better(self.local.errors, errors_of_refits(seen, c)) for c in candidates]
        return np.where(beaten, np.inf, 0.0)


def errors_of_refits(seen: Observations, candidate: Candidate) -> np.ndarray:
    """Errors (P,) of the pieces of trajectories that are kept from a candidate's fit, see `errors_of`."""
    kept = candidate.in_use()

    def fitted(pieces: np.ndarray) -> Rates:
        others = seen.only(pieces)
        begun = replace(kept, start=kept.start[pieces])
        fit, _ = refine(others, begun, others.path, (1,))
        return lambda x: fit.dictionary.evaluate(x) @ fit.coefficients

    errors = unseen_errors(seen, fitted)
    return np.where(np.isfinite(errors), errors, np.inf)


def _common(search: Search, candidates: Sequence[Candidate]) -> np.ndarray:
    """What both kinds of BIC ask (C,): a margin of functions, and paths from smoothed starts."""
    margins = np.array([_MARGIN * (c.n_functions > 0) for c in candidates])
    return margins + _from_the_samples(search, candidates)


def _log_choices(terms: int, k: int) -> float:
    """Logarithm of the number of choices of ``k`` terms among so many."""
    return math.lgamma(terms + 1) - math.lgamma(k + 1) - math.lgamma(max(terms - k, 0) + 1)
