"""Candidates with and without functions side by side: what tells them apart, and draws from them."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from fim_dynsys.fields.terms import Dictionary, union
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.exact.laws import Law
from fim_dynsys.search.features import N_FEATURES, features
from fim_dynsys.search.functions.combination import extended_score
from fim_dynsys.search.functions.fits import FunctionCandidate
from fim_dynsys.search.pool import Opinion, shortlist
from fim_dynsys.search.problem import Search
from fim_dynsys.search.selector import Selector

N_PORTFOLIO_FEATURES = N_FEATURES + 7
"""Columns of `Portfolio.features`."""

_MARGIN = 8.0
"""BIC by which functions must beat all polynomials where nothing is learned: more of them can be lucky."""
_WITH_FUNCTIONS = 12
_LAWS = 24
_PER_STRUCTURE = 2
_MOST = 30.0  # features are cut here


@dataclass(frozen=True)
class Portfolio:
    """Candidates of one data set over dictionaries of their own, best BIC first.

    Attributes
    ----------
    search : Search
        Data and monomials, the opinion's terms.
    opinion : Opinion or None
        The operator's.
    members : list of FunctionCandidate
        What is chosen from.
    laws : list of Law
        Of clean data, the preferred one first: where there are any, they are the members.
    """

    search: Search
    opinion: Opinion | None
    members: list[FunctionCandidate]
    laws: list[Law] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        search: Search,
        opinion: Opinion | None,
        polynomials: list[Candidate],
        grown: list[FunctionCandidate],
    ) -> "Portfolio":
        """The shortlist of polynomial candidates, and the best few structures with functions.

        Parameters
        ----------
        search, opinion
            See `Portfolio`.
        polynomials : list of Candidate
            Over the search's terms, scored.
        grown : list of FunctionCandidate
            Scored, best first.
        """
        none = np.zeros((0, 3), dtype=np.intp)
        kept: list[FunctionCandidate] = []
        structures: dict[bytes, int] = {}
        for item in grown:
            seen = structures[item.structure] = structures.get(item.structure, 0) + 1
            if seen <= _PER_STRUCTURE and np.isfinite(item.score):
                kept.append(item)
        members = [FunctionCandidate(c, search.dictionary, none) for c in shortlist(polynomials)]
        members = sorted(members + kept[:_WITH_FUNCTIONS], key=lambda m: m.score)
        return cls(search, opinion, members)

    @classmethod
    def of_laws(cls, search: Search, laws: list[Law]) -> "Portfolio":
        """Laws of clean data alone, the preferred one first; with terms that hardly show, it at most."""
        kept = [law for law in laws if law.is_plain][:_LAWS] or laws[:1]
        return cls(search, None, [law.item for law in kept], kept)

    @cached_property
    def _common(self) -> tuple[Dictionary, np.ndarray, list[np.ndarray]]:
        """Terms of all members, and where those of the dictionary and of each member are."""
        terms, (own, *rows) = union([self.search.dictionary, *(m.dictionary for m in self.members)])
        return terms, own, rows

    @property
    def terms(self) -> Dictionary:
        """Dictionary of all terms of all members."""
        return self._common[0]

    @cached_property
    def coefficients(self) -> np.ndarray:
        """Of the members for all `terms` (C, m, d), in scaled units."""
        out = np.zeros((len(self.members), len(self.terms), self.search.observations.dim))
        for values, rows, member in zip(out, self._common[2], self.members, strict=True):
            values[rows] = member.candidate.coefficients
        return out

    def features(self) -> np.ndarray:
        """What a selector sees of each member (C, `N_PORTFOLIO_FEATURES`)."""
        candidates = [
            replace(m.candidate, coefficients=c) for m, c in zip(self.members, self.coefficients, strict=True)
        ]
        seen = features(Search(self.search.observations, self.terms), candidates, self._opinion_on_terms())
        return np.column_stack([seen, self._functions()])

    def _opinion_on_terms(self) -> Opinion | None:
        """The opinion with nothing said of terms beyond its own."""
        if self.opinion is None:
            return None
        own = self._common[1]
        shape = len(self.terms), self.search.observations.dim
        solves, variance = np.zeros((len(self.opinion.solves), *shape)), np.ones(shape)
        solves[:, own], variance[own] = self.opinion.solves, self.opinion.variance
        return Opinion(solves, variance)

    def _functions(self) -> np.ndarray:
        """How each stands beside the others once functions have a price (C, 7)."""
        scores = np.array([m.score for m in self.members])
        extended = np.array([extended_score(self.search.observations, m) for m in self.members])
        count = np.array([m.n_functions for m in self.members])
        polynomial = count == 0
        best = scores[polynomial].min(initial=np.inf)
        gain = scores[~polynomial].min(initial=np.inf) - best
        with np.errstate(invalid="ignore"):
            behind = np.arcsinh(scores - best), np.arcsinh(extended - extended.min())
        values = np.column_stack(
            [
                ~polynomial,
                count,
                [m.candidate.inner for m in self.members],
                *behind,
                np.full(len(scores), np.arcsinh(gain)),
                np.full(len(scores), (~polynomial).sum() / 10.0),
            ]
        )
        return np.clip(np.nan_to_num(values, nan=0.0), -_MOST, _MOST)

    def log_weights(self, selector: Selector | None) -> np.ndarray:
        """How much each member is preferred (C,): a selector's logits.

        Without a selector or an opinion, minus half the BIC, functions at the price of a margin; laws by
        their own criterion.
        """
        if self.laws:
            return -0.5 * np.array([m.score for m in self.members])
        if selector is not None and self.opinion is not None:
            return selector.logits(self.features())
        margin = np.array([_MARGIN * (m.n_functions > 0) for m in self.members])
        return -0.5 * (np.array([m.score for m in self.members]) + margin)

    @property
    def judge(self) -> str:
        """What decides among the members, in words."""
        if self.laws:
            return "fit to the digits"
        return "BIC" if self.opinion is None else "selector"

    def draws(self, log_weights: np.ndarray, n: int, rng: np.random.Generator) -> list[FunctionCandidate]:
        """Members drawn by their weights, with parameters drawn from their posterior.

        Each posterior is the normal approximation about the member's own trajectory fit; a member that is
        no such fit, or whose fit diverges, stands for itself.

        Parameters
        ----------
        log_weights : array (C,)
            Up to a constant.
        n : int
            Number of draws.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        list of FunctionCandidate
        """
        drawn = []
        for k, number in enumerate(rng.multinomial(n, normalised(log_weights)).tolist()):
            if number:
                drawn += self._drawn(k, number, rng)
        return drawn

    def _drawn(self, k: int, n: int, rng: np.random.Generator) -> list[FunctionCandidate]:
        member = self.members[k]
        if self.laws:
            return member.drawn(self.search.observations, self.laws[k].calibrated_fit, n, rng)
        if member.candidate.refined and member.candidate.support.any():
            own = FunctionCandidate.of(member.candidate, member.dictionary, member.labelled)
            fitted, fit = own.fitted(self.search.observations, self.search.observations.path, (1,))
            if np.isfinite(fit.misfit) and np.isfinite(fitted.parameters).all():
                return own.drawn(self.search.observations, fit, n, rng)
        return [member] * n


def normalised(log_weights: np.ndarray) -> np.ndarray:
    """Weights (C,) that sum to 1."""
    weights = np.exp(log_weights - np.max(log_weights))
    return weights / weights.sum()


def without_functions(seen: np.ndarray) -> np.ndarray:
    """Features of a portfolio of polynomials (C, `N_PORTFOLIO_FEATURES`) from what `features` gives alone.

    Further columns, such as the operator's selector sees, are left out.
    """
    seen = seen[:, :N_FEATURES]
    behind = np.minimum(np.arcsinh(np.expm1(seen[:, :1])), _MOST)
    none = np.zeros_like(behind)
    return np.concatenate([seen, none, none, none, behind, behind, none + _MOST, none], axis=1)


def priced(seen: np.ndarray) -> np.ndarray:
    """Minus half the BIC behind the best, functions at the price of the margin, from features (..., C, F)."""
    behind, has_functions = np.expm1(seen[..., 0]), seen[..., N_FEATURES]
    return -0.5 * (behind + _MARGIN * has_functions)
