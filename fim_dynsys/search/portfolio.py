"""Candidates with and without functions side by side: what tells them apart, and draws from them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from fim_dynsys.fields.inference import Judge
from fim_dynsys.fields.posterior import law_deviates
from fim_dynsys.fields.terms import Dictionary, union
from fim_dynsys.regression.observed import STEP_LIMIT
from fim_dynsys.regression.rollout import rollout
from fim_dynsys.search.candidates import Candidate, price_of_choice
from fim_dynsys.search.exact.laws import Law
from fim_dynsys.search.features import N_FEATURES, N_START_FEATURES, features, start_features
from fim_dynsys.search.functions.combination import extended_score
from fim_dynsys.search.functions.fits import FunctionCandidate
from fim_dynsys.search.horizon import explains
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.search.local import (
    FEWEST,
    LocalFit,
    Rates,
    clearly_better,
    fit_local,
    trajectories_of,
    unseen_errors,
)
from fim_dynsys.search.opinion import Opinion
from fim_dynsys.search.pool import including, shortlist
from fim_dynsys.search.problem import Search
from fim_dynsys.search.selector import Selector, unfitted_and_far_behind

N_PORTFOLIO_FEATURES = N_FEATURES + N_START_FEATURES + 7 + 3
"""Columns of `Portfolio.features`."""

_MARGIN = 8.0
"""BIC by which functions must beat all polynomials where nothing is learned: more of them can be lucky."""
_WITH_FUNCTIONS = 12  # candidates with functions that are members
_LAWS = 24  # exact equations that are members
_TAILS = 0.9, 2.0  # width and degrees of freedom of draws from laws, which are of several laws besides
_PER_STRUCTURE = 2  # candidates of one structure that are members
_MOST = 30.0  # features are cut here
_STARTS = 64  # observed states, evenly chosen, from which paths are followed
_SPANS = 6.0  # of the longest record
_PARTS = 65  # times in these: what is taken again in shorter steps begins at the last of them
_ESCAPE = 1e3  # in root mean squares of the data


@dataclass(frozen=True)
class OperatorChoice:
    """What the operator's own search answers, and the selector by which it chose.

    Attributes
    ----------
    answer : Candidate
        Over the search's terms.
    selector : Selector
        Sees `features` and `start_features` of polynomials.
    """

    answer: Candidate
    selector: Selector


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
    local : LocalFit or None
        A field of no equation, where several trajectories are there to choose it by and none of the members
        explains them.
    laws : list of Law
        Of clean data, the preferred one first: where there are any, they are the members.
    notes : dict
        What a report says of the search.
    remarks : tuple of str
        What a reader should know of it.
    operator : OperatorChoice or None
        What the operator's own search chooses, and by what.
    constraints : Knowledge or None
        What the search was given to satisfy.
    lacking : bool
        Whether windows were compared of which the best leaves clearly more than noise, see `Pool`.
    """

    search: Search
    opinion: Opinion | None
    members: list[FunctionCandidate]
    local: LocalFit | None = None
    laws: list[Law] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    operator: OperatorChoice | None = None
    constraints: Knowledge | None = None
    lacking: bool = False

    @classmethod
    def of(
        cls,
        search: Search,
        opinion: Opinion | None,
        polynomials: list[Candidate],
        grown: list[FunctionCandidate],
        notes: dict[str, str] | None = None,
        operator: "OperatorChoice | None" = None,
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
        notes : dict, optional
            See `Portfolio`.
        operator : OperatorChoice, optional
            See `Portfolio`; its answer is always a member.
        """
        kept: list[FunctionCandidate] = []
        structures: dict[bytes, int] = {}
        for item in grown:
            seen = structures[item.structure] = structures.get(item.structure, 0) + 1
            if seen <= _PER_STRUCTURE and np.isfinite(item.score):
                kept.append(item)
        listed = shortlist(polynomials)
        if operator is not None:
            listed = including(listed, operator.answer)
        members = [FunctionCandidate(c, search.dictionary) for c in listed]
        members = sorted(members + kept[:_WITH_FUNCTIONS], key=lambda m: m.score)
        observations = search.observations
        several = len(set(trajectories_of(observations))) >= FEWEST
        free = search.restriction is None and not observations.n_inputs
        unexplained = free and several and not any(explains(observations, m.candidate) for m in members)
        local = fit_local(observations) if unexplained else None
        return cls(search, opinion, members, local, notes=notes or {}, operator=operator)

    @classmethod
    def of_laws(cls, search: Search, laws: list[Law], notes: dict[str, str] | None = None) -> "Portfolio":
        """Laws of clean data alone, the preferred one first; with terms that hardly show, it at most."""
        kept = [law for law in laws if law.is_plain][:_LAWS] or laws[:1]
        return cls(search, None, [law.item for law in kept], laws=kept, notes=notes or {})

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
            replace(m.candidate, coefficients=c, restriction=None)
            for m, c in zip(self.members, self.coefficients, strict=True)
        ]
        search = Search(self.search.observations, self.terms)
        seen = features(search, candidates, self._opinion_on_terms())
        starts = start_features(search, candidates)
        return np.column_stack([seen, starts, self._functions(), self._of_operator()])

    def _of_operator(self) -> np.ndarray:
        """Which is the operator's own answer, and how far behind the best polynomial its selector has each.

        Columns (C, 3): whether it is the answer, whether the selector judges it, and its distance.
        """
        values = np.zeros((len(self.members), 3))
        terms = self.search.dictionary  # knowledge may give polynomials of others
        places = [k for k, member in enumerate(self.members) if member.dictionary is terms]
        if self.operator is None or not places:
            return values
        own = [self.members[k].candidate for k in places]
        seen = [features(self.search, own, self.opinion), start_features(self.search, own)]
        logits = self.operator.selector.logits(np.column_stack(seen))
        values[places, 0] = [c is self.operator.answer for c in own]
        values[places, 1] = 1.0
        values[places, 2] = np.clip(logits - logits.max(), -_MOST, 0.0)
        return values

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

        Without a selector or an opinion, minus half the BIC, functions at the price of a margin, the extended
        BIC with inputs and where something is `lacking`; laws by their own criterion.
        """
        if self.laws:
            return -0.5 * np.array([m.score for m in self.members])
        if selector is not None and self.opinion is not None:
            return selector.logits(self.features())
        margin = np.array([_MARGIN * (m.n_functions > 0) for m in self.members])
        if self.search.observations.n_inputs or self.lacking:
            terms = len(self.search.dictionary)
            margin = margin + np.array([price_of_choice(m.candidate, terms) for m in self.members])
        return -0.5 * (np.array([m.score for m in self.members]) + margin)

    @cached_property
    def stays(self) -> np.ndarray:
        """Whether each member keeps all paths from some of the samples within bounds (C,), for long."""
        seen = self.search.observations
        states = np.concatenate(seen.path)
        starts = states[np.linspace(0, len(states) - 1, min(_STARTS, len(states))).astype(int)]
        t = np.tile(np.linspace(0.0, _SPANS * seen.span, _PARTS), (len(starts), 1))
        x0 = np.tile(starts, (len(self.members), 1, 1))
        paths = rollout(self.terms, self.coefficients, x0, t, STEP_LIMIT, _ESCAPE, allowed=seen.allowed)
        return np.isfinite(paths).all(axis=(1, 2, 3))

    def preferred(self, log_weights: np.ndarray) -> np.ndarray:
        """Numbers of the members (C,), best first; those that are `unfitted_and_far_behind` come last.

        Where none explains the samples, those that stay within bounds come first.
        """
        order = np.argsort(-log_weights, kind="stable")
        order = order[
            np.argsort(unfitted_and_far_behind([m.candidate for m in self.members])[order], kind="stable")
        ]
        return order if self.local is None else order[np.argsort(~self.stays[order], kind="stable")]

    def prefers_local(self, number: int) -> bool:
        """Whether the field without an equation clearly predicts trajectories better than one of the members.

        Both predict those that they have not seen: the member is fitted anew to the others.
        """
        if self.local is None or not self.stays[number]:
            return self.local is not None
        return clearly_better(self.local.errors, self._unseen_errors(number))

    def _unseen_errors(self, number: int) -> np.ndarray:
        """Errors (P,) of the pieces of trajectories that are kept from a member's fit, see `errors_of`."""
        member, seen = self.members[number], self.search.observations
        own = FunctionCandidate.of(member.candidate, member.dictionary, member.labelled)

        def fitted(pieces: np.ndarray) -> Rates:
            others = seen.only(pieces)
            begun = replace(own, candidate=replace(own.candidate, start=own.candidate.start[pieces]))
            fit, _ = begun.fitted(others, others.path, (1,))
            return lambda x: fit.dictionary.evaluate(x) @ fit.candidate.coefficients

        errors = unseen_errors(seen, fitted)
        return np.where(np.isfinite(errors), errors, np.inf)

    @property
    def judge(self) -> Judge:
        """What decides among the members."""
        if self.laws:
            return Judge.EXACT
        if self.search.observations.n_inputs or self.lacking:
            return Judge.EXTENDED_BIC
        return Judge.BIC if self.opinion is None else Judge.SELECTOR

    def draws(self, log_weights: np.ndarray, n: int, rng: np.random.Generator) -> list[FunctionCandidate]:
        """Members drawn by their weights, with parameters drawn from their posterior.

        Each posterior is the normal approximation about the member's own trajectory fit, of laws with the
        tails of `law_deviates`; a member that is no such fit, or whose fit diverges, stands for itself.

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
            deviates = law_deviates(rng, n, len(member.parameters), *_TAILS)
            return member.drawn(self.search.observations, self.laws[k].calibrated_fit, deviates)
        if member.candidate.refined and member.candidate.support.any():
            own = FunctionCandidate.of(member.candidate, member.dictionary, member.labelled)
            fitted, fit = own.fitted(self.search.observations, self._paths(own), (1,))
            if np.isfinite(fit.misfit) and np.isfinite(fitted.parameters).all():
                # a number may have come to its bound in the fit, and is then no parameter
                own = own if len(own.parameters) == len(fit.parameters) else fitted
                deviates = rng.standard_normal((n, len(own.parameters)))
                return own.drawn(self.search.observations, fit, deviates)
        return [member] * n

    def _paths(self, member: FunctionCandidate) -> Sequence[np.ndarray]:
        """States (n, d) of each piece that a member's fit starts from.

        In windows those of the member itself: smoothed states are far from what it predicts there.
        """
        seen = self.search.observations
        if seen.cut is None:
            return seen.path
        candidate = member.candidate
        path = member.on(seen).paths(candidate.coefficients[None], candidate.start[None])[0]
        own = [states[: len(t)] for states, (t, _) in zip(path, seen.samples, strict=True)]
        return own if np.isfinite(path).all() else seen.path


def normalised(log_weights: np.ndarray) -> np.ndarray:
    """Weights (C,) that sum to 1."""
    weights = np.exp(log_weights - np.max(log_weights))
    return weights / weights.sum()


def priced(seen: np.ndarray) -> np.ndarray:
    """Minus half the BIC behind the best, functions at the price of the margin, from features (..., C, F)."""
    behind, has_functions = np.expm1(seen[..., 0]), seen[..., N_FEATURES + N_START_FEATURES]
    return -0.5 * (behind + _MARGIN * has_functions)
