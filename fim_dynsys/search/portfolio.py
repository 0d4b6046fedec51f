"""Candidates with and without functions side by side: what tells them apart, and draws from them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from fim_dynsys.fields.posterior import law_deviates
from fim_dynsys.fields.terms import Dictionary, union
from fim_dynsys.regression.observed import STEP_LIMIT
from fim_dynsys.regression.refinement import TrajectoryFit
from fim_dynsys.regression.rollout import rollout
from fim_dynsys.search.candidates import Candidate, residual_variances
from fim_dynsys.search.exact.models import ExactModel
from fim_dynsys.search.horizon import explains
from fim_dynsys.search.judges import BIC, Exact, ExtendedBic, HeldOut, Judge, totals
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.search.local import FEWEST, LocalFit, fit_local, trajectories_of
from fim_dynsys.search.pool import Pool, shortlist
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import refine

_WITH_FUNCTIONS = 12  # candidates with functions that are members
_CLOSER, _FEW_MORE = 0.5, 2  # of what the preferred exact model misses; times its parameters
_EXACT = 24  # exact equations that are members
_TAILS = 0.9, 2.0  # width and degrees of freedom of draws from exact models, which are of several besides
_PER_STRUCTURE = 2  # candidates of one structure that are members
_STARTS = 64  # observed states, evenly chosen, from which paths are followed
_SPANS = 6.0  # of the longest record
_PARTS = 65  # times in these: what is taken again in shorter steps begins at the last of them
_CONTRADICTING = 2.0  # times the residual variance of a fit: hundreds of log-likelihood units, of 300 samples
_NEARER, _NEARER_AT_MOST = 0.6, 20  # of the way from the fit, how often: to 4e-5 of a standard error
_ESCAPE = 1e3  # in root mean squares of the data


@dataclass(frozen=True)
class Portfolio:
    """Candidates of one data set over dictionaries of their own, best BIC first.

    Attributes
    ----------
    search : Search
        Data and monomials, those of an initial estimate.
    members : list of Candidate
        What is chosen from.
    local : LocalFit or None
        A field of no equation, where several trajectories are there to choose it by and none of the members
        explains them.
    exact_models : list of ExactModel
        Of noise-free data, the preferred one first: where there are any, they are the members.
    notes : dict
        What a report says of the search.
    remarks : tuple of str
        What a reader should know of it.
    constraints : Knowledge or None
        What the search was given to satisfy.
    judge : Judge
        What decides among the members.
    """

    search: Search
    members: list[Candidate]
    local: LocalFit | None = None
    exact_models: list[ExactModel] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    constraints: Knowledge | None = None
    judge: Judge = BIC

    @classmethod
    def of(
        cls,
        pool: Pool,
        grown: list[Candidate],
        notes: dict[str, str] | None = None,
        constraints: Knowledge | None = None,
        local: bool = True,
        judge: Judge = BIC,
    ) -> "Portfolio":
        """The shortlist of a pool's polynomials, and the best few structures with functions.

        With inputs, and where the best leaves clearly more than noise of the windows that were compared, the
        extended BIC decides.

        Parameters
        ----------
        pool : Pool
            What was searched.
        grown : list of Candidate
            Scored, best first.
        notes, constraints, judge
            See `Portfolio`.
        local : bool
            Whether a field of no equation may be one of them.
        """
        kept: list[Candidate] = []
        structures: dict[bytes, int] = {}
        for item in grown:
            seen = structures[item.structure] = structures.get(item.structure, 0) + 1
            if seen <= _PER_STRUCTURE and np.isfinite(item.score):
                kept.append(item)
        search, observations = pool.search, pool.search.observations
        members = shortlist(pool.candidates) + kept[:_WITH_FUNCTIONS]
        members = sorted(members, key=lambda m: m.score)
        local = local and search.restriction is None and not observations.n_inputs
        local = local and len(set(trajectories_of(observations))) >= FEWEST
        unexplained = local and not any(explains(observations, m) for m in members)
        beside = fit_local(observations) if unexplained else None
        judge = ExtendedBic() if observations.n_inputs or pool.lacking else judge
        return cls(search, members, beside, notes=notes or {}, constraints=constraints, judge=judge)

    @classmethod
    def of_exact(
        cls, search: Search, exact_models: list[ExactModel], notes: dict[str, str] | None = None
    ) -> "Portfolio":
        """Exact models alone, the preferred one first; others only without terms that hardly show."""
        plain = [model for model in exact_models[1:] if model.is_plain]
        kept = [*exact_models[:1], *plain][:_EXACT]
        return cls(
            search, [model.item for model in kept], exact_models=kept, notes=notes or {}, judge=Exact()
        )

    @property
    def closer(self) -> list[Candidate]:
        """Exact models of a few more terms that miss less than half of what the preferred one misses.

        Of a model that is right but for the integration errors of its samples there are none such; where
        there are, it is one approximation among others.
        """
        if not self.exact_models or self.exact_models[0].is_exact:
            return []
        best = self.exact_models[0]
        return [
            model.item
            for model in self.exact_models[1:]
            if model.misses < _CLOSER * best.misses and model.parameters <= _FEW_MORE * best.parameters
        ]

    @cached_property
    def _common(self) -> tuple[Dictionary, np.ndarray, list[np.ndarray]]:
        """Terms of all members, and where those of the dictionary and of each member are."""
        terms, (monomials, *rows) = union([self.search.dictionary, *(m.dictionary for m in self.members)])
        return terms, monomials, rows

    @property
    def terms(self) -> Dictionary:
        """Dictionary of all terms of all members."""
        return self._common[0]

    @cached_property
    def coefficients(self) -> np.ndarray:
        """Of the members for all `terms` (C, m, d), in scaled units."""
        out = np.zeros((len(self.members), len(self.terms), self.search.observations.dim))
        for values, rows, member in zip(out, self._common[2], self.members, strict=True):
            values[rows] = member.coefficients
        return out

    @property
    def log_weights(self) -> np.ndarray:
        """How much each member is preferred (C,): minus half of its score and the judge's price."""
        return -0.5 * totals(self.judge, self.search, self.members)

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
        """Numbers of the members (C,), best first.

        Where none explains the samples, those that stay within bounds come first.
        """
        order = np.argsort(-log_weights, kind="stable")
        return order if self.local is None else order[np.argsort(~self.stays[order], kind="stable")]

    def prefers_local(self, number: int) -> bool:
        """Whether the field without an equation is preferred to one of the members: see `HeldOut`."""
        if self.local is None or not self.stays[number]:
            return self.local is not None
        return bool(np.isinf(HeldOut(self.local).prices(self.search, [self.members[number]])[0]))

    def draws(self, log_weights: np.ndarray, n: int, rng: np.random.Generator) -> list[Candidate]:
        """Members drawn by their weights, with parameters drawn from their posterior.

        Each posterior is the normal approximation about the member's own trajectory fit, of exact models
        with the tails of `law_deviates`; a member that is no such fit, or whose fit diverges, stands for
        itself.

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
        list of Candidate
        """
        drawn = []
        for k, number in enumerate(rng.multinomial(n, normalised(log_weights)).tolist()):
            if number:
                drawn += self._drawn(k, number, rng)
        return drawn

    def _drawn(self, k: int, n: int, rng: np.random.Generator) -> list[Candidate]:
        member = self.members[k]
        if self.exact_models:
            deviates = law_deviates(rng, n, len(member.parameters), *_TAILS)
            return member.drawn(self.search.observations, self.exact_models[k].calibrated_fit, deviates)
        if member.refined and member.support.any():
            start = member.in_use()
            fitted, fit = refine(self.search.observations, start, self._paths(start), (1,))
            if np.isfinite(fit.misfit) and np.isfinite(fitted.parameters).all():
                # a number may have come to its bound in the fit, and is then no parameter
                start = start if len(start.parameters) == len(fit.parameters) else fitted
                deviates = rng.standard_normal((n, len(start.parameters)))
                if start.labels:
                    return self._drawn_near(replace(start, start=fitted.start), fitted, fit, deviates)
                return start.drawn(self.search.observations, fit, deviates)
        return [member] * n

    def _drawn_near(
        self, start: Candidate, fitted: Candidate, fit: TrajectoryFit, deviates: np.ndarray
    ) -> list[Candidate]:
        """Draws of a member with numbers in functions, nearer to the fit where they contradict the samples.

        The normal approximation knows nothing of a number without effect to first order, such as a in
        cos(a x) near 0, nor of the steepness of a Hill function.
        """
        seen = self.search.observations
        drawn = start.drawn(seen, fit, deviates)
        most = _CONTRADICTING * residual_variances(seen, [fitted])[0]
        if not np.isfinite(most).all():
            return drawn
        far = ~(residual_variances(seen, drawn) <= most).all(axis=1)
        for _ in range(_NEARER_AT_MOST):
            if not far.any():
                return drawn
            deviates = np.where(far[:, None], _NEARER * deviates, deviates)
            drawn = start.drawn(seen, fit, deviates)
            far = ~(residual_variances(seen, drawn) <= most).all(axis=1)
        return [fitted if is_far else own for own, is_far in zip(drawn, far, strict=True)]

    def _paths(self, member: Candidate) -> Sequence[np.ndarray]:
        """States (n, d) of each piece that a member's fit starts from.

        In windows those of the member itself: smoothed states are far from what it predicts there.
        """
        seen = self.search.observations
        if seen.cut is None:
            return seen.path
        paths = member.paths(seen)
        return paths if np.isfinite(np.concatenate(paths)).all() else seen.path


def normalised(log_weights: np.ndarray) -> np.ndarray:
    """Weights (C,) that sum to 1."""
    weights = np.exp(log_weights - np.max(log_weights))
    return weights / weights.sum()
