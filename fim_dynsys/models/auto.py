"""The portfolio: candidates from the operator, sparse regression and local search, chosen on the data."""

from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Self

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.local import LocalField
from fim_dynsys.fields.posterior import FittedField
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.fim_ode.own import FIMODE
from fim_dynsys.models.fim_ode.weights import read_selector, shipped, weights_version
from fim_dynsys.models.members import check_members
from fim_dynsys.regression.criteria import VARIANCE_FLOOR
from fim_dynsys.regression.observed import Observations, complete_samples
from fim_dynsys.regression.smoothing import TIME_AWARE
from fim_dynsys.saved import SavedModel
from fim_dynsys.search.candidates import Candidate, judge
from fim_dynsys.search.functions.combination import FULL, QUICK, FunctionEffort, grow_functions
from fim_dynsys.search.functions.fits import FunctionCandidate
from fim_dynsys.search.growth import grow, shake
from fim_dynsys.search.horizon import follows, gather_windowed
from fim_dynsys.search.pool import Opinion, distinct, fit_opinion, gather
from fim_dynsys.search.portfolio import Portfolio, normalised
from fim_dynsys.search.problem import Search
from fim_dynsys.search.selector import Selector
from fim_dynsys.search.standard_errors import standard_errors
from fim_dynsys.trajectories.container import Trajectories

_SHARE = 0.6  # of the samples in each subset that the operator is asked about
_REPORTED = 5
_TRACE = 1e-4  # of the largest rate along the samples
_FUNCTIONS_UP_TO = 4  # states: beyond, only monomials are searched
SELECTOR_FILE = "auto-selector"
"""Of the learned choice, among the shipped weights."""


@dataclass(frozen=True)
class Effort:
    """Amounts of search, counted in work: results do not depend on the machine's load.

    Attributes
    ----------
    structures : int
        Regressed structures that are fitted.
    windowed : int
        Structures fitted over short windows, where the best of the others leaves more than noise.
    subsets : int
        Random subsets of the samples that the operator is asked about besides all of them.
    grown : int
        Candidates from which monomials are added.
    shaken : int
        Random structures tried round the best.
    functions : FunctionEffort
        Of the search for functions.
    """

    structures: int
    windowed: int
    subsets: int
    grown: int
    shaken: int
    functions: FunctionEffort


EFFORTS = {"fast": Effort(4, 8, 0, 1, 0, QUICK), "full": Effort(6, 16, 4, 3, 20, FULL)}


class Auto(VectorFieldModel):
    """The best field that the data support, from one call.

    Polynomial candidates come from the pretrained operator's opinion of the samples and of random subsets of
    them, from sparse regression with nine smoothers, and from adding terms to the best, by what the residuals
    ask for and at random; all are fitted to the trajectories and pruned. Fields with functions
    (trigonometric, saturating, exponential, powers) are grown from the best polynomial. A selector trained
    on known systems chooses among all of them; beyond five states, where the operator has no opinion, the
    smallest BIC wins. Where none explains three or more trajectories, fields that leave all bounds from
    their samples come last, and one without an equation (`fim_dynsys.fields.local.LocalField`) is preferred
    if it predicts trajectories that it has not seen clearly better than the best of the others follows those
    it was fitted to. `field_.fit_info.report` says what chose, and the origins, scores and weights of the
    first few.

    Parameters
    ----------
    budget : {"full", "fast"}
        Amount of search; fast takes less than half of the time.
    seed : int
        Of the random parts of the search.
    """

    name = "auto"
    min_observations = 5
    portfolio_: Portfolio | None

    def __init__(self, budget: str = "full", seed: int = 0) -> None:
        self.budget = budget
        self.seed = seed

    @property
    def version(self) -> str:
        """An integer, raised when the search changes, and the versions of the two weights files."""
        return f"4-{_operator().version}-{weights_version(shipped(SELECTOR_FILE))}"

    def infer(self, trajectories: Trajectories) -> VectorField:
        """Search on all trajectories together; those with a single complete sample say nothing.

        Raises
        ------
        ValueError
            If there are fewer than five complete samples, or the budget is unknown.
        """
        return self._fields(self.portfolio(trajectories), trajectories, 1)[0]

    def _infer_to_keep(self, trajectories: Trajectories) -> VectorField:
        found = self.portfolio(trajectories)
        field = self._fields(found, trajectories, 1)[0]
        self.portfolio_ = found
        return field

    def candidates(self, trajectories: Trajectories) -> list[VectorField]:
        """Fields of the whole portfolio, the preferred one first: it is what `infer` returns.

        Raises
        ------
        ValueError
            As `infer`.
        """
        return self._fields(self.portfolio(trajectories), trajectories, None)

    def portfolio(self, trajectories: Trajectories) -> Portfolio:
        """The candidates before the choice, with what is known of each; `fit` keeps them as `portfolio_`.

        Raises
        ------
        ValueError
            As `infer`.
        """
        effort = self._effort
        search = Search.polynomial(complete_samples(trajectories, self._who, self.min_observations))
        polynomials, opinion = _polynomials(search, effort, np.random.default_rng(self.seed))
        grown = []
        if search.dictionary.dim <= _FUNCTIONS_UP_TO:
            grown = grow_functions(search, polynomials[0], effort.functions)
        return Portfolio.of(search, opinion, polynomials, grown)

    def ensemble(self, n: int = 20, seed: int = 0) -> EnsembleField:
        """Candidates drawn by the selector's weights, each with parameters drawn from its posterior.

        A model that was read from a file repeats the search first.

        Parameters
        ----------
        n : int
            Number of members.
        seed : int
            Equal seeds give equal members.

        Returns
        -------
        EnsembleField
        """
        self._fitted_field()
        check_members(self._who, n)
        if self.portfolio_ is None:
            self.portfolio_ = self.portfolio(self.context_)
        found = self.portfolio_
        if isinstance(self.field_, LocalField) and found.local is not None:
            return EnsembleField(found.local.draws(n, self.context_, np.random.default_rng(seed)))
        drawn = found.draws(found.log_weights(_selector()), n, np.random.default_rng(seed))
        return EnsembleField([m.field(found.search.observations, self.context_, {}) for m in drawn])

    def alternatives(self) -> list[VectorFieldModel]:
        """The pretrained operator, alone and with its own search."""
        return [FIMODE(), FIMODE(refine=False)]

    def restore(self, saved: SavedModel) -> Self:
        """As of every model; the portfolio is not kept in a folder."""
        super().restore(saved)
        self.portfolio_ = None
        return self

    def _fields(self, found: Portfolio, trajectories: Trajectories, count: int | None) -> list[VectorField]:
        """Fields of the ``count`` members preferred."""
        weights = normalised(found.log_weights(_selector()))
        order = found.preferred(weights)
        polynomials = [m.score for m in found.members if not m.n_functions]
        functions = [m.score for m in found.members if m.n_functions]
        report = {
            "budget": self.budget,
            "candidates": len(found.members),
            "chosen by": "BIC" if found.opinion is None else "selector",
            "best BIC of a polynomial": min(polynomials, default=np.inf),
            "best BIC with functions": min(functions, default=np.inf),
            "preferred": [
                [found.members[k].candidate.origin, float(found.members[k].score), float(weights[k])]
                for k in order[:_REPORTED]
            ],
        }
        fields: list[VectorField] = []
        if found.local is not None and found.prefers_local(order[0]):
            said = report | {"chosen by": "held-out trajectories", "chosen": "locally linear"}
            fields.append(
                found.local.field(trajectories, said | {"held_out": float(found.local.errors.mean())})
            )
        for k in order[: None if count is None else count - len(fields)]:
            own = _without_traces(found.search.observations, found.members[k])
            said = report | {"chosen": own.origin, "BIC": own.score, "weight": float(weights[k])}
            terms = found.members[k].on(found.search.observations)
            errors = partial(standard_errors, free=found.members[k].free) if own.refined else None
            fields.append(FittedField.of(own.field(terms, trajectories, said), errors))
        return fields

    @property
    def _effort(self) -> Effort:
        if self.budget not in EFFORTS:
            raise ValueError(f"Auto: expected a budget among {sorted(EFFORTS)}, got {self.budget!r}.")
        return EFFORTS[self.budget]


def _polynomials(
    search: Search, effort: Effort, rng: np.random.Generator
) -> tuple[list[Candidate], Opinion | None]:
    """Polynomial candidates, best BIC first, and the operator's opinion (None beyond its dimensions)."""
    opinions = _opinions(search, effort.subsets, rng)
    opinion = opinions[0] if opinions else None
    found = gather(search, opinion, effort.structures, windowed=effort.windowed)
    if opinion is None and not follows(search.observations, found[0]):
        return gather_windowed(search, effort.structures, TIME_AWARE), None
    for other in opinions[1:]:
        fitted = fit_opinion(search, other, found)
        found = distinct(found + judge(search, fitted))
    for candidate in _fitted(found)[: effort.grown]:
        found = distinct(found + grow(search, candidate))
    if effort.shaken:
        for candidate in _fitted(found)[:1]:
            found = distinct(found + shake(search, candidate, effort.shaken, rng))
    return found, opinion


@cache
def _operator() -> FIMODE:
    return FIMODE(refine=False)


@cache
def _selector() -> Selector:
    return Selector.from_tensors(read_selector(shipped(SELECTOR_FILE)))


def _without_traces(observations: Observations, member: FunctionCandidate) -> Candidate:
    """The candidate of a member; where it follows the samples exactly, without terms that hardly show."""
    candidate = member.candidate
    least = VARIANCE_FLOOR * observations.signal_variance
    if candidate.variance is None or not (candidate.variance <= least).all():
        return candidate
    values = member.dictionary.evaluate(np.concatenate(observations.path))
    share = np.abs(values).max(axis=0)[:, None] * np.abs(candidate.coefficients)
    shows = share >= _TRACE * np.abs(values @ candidate.coefficients).max(axis=0)
    return replace(candidate, coefficients=np.where(shows, candidate.coefficients, 0.0))


def _opinions(search: Search, subsets: int, rng: np.random.Generator) -> list[Opinion]:
    """The operator's opinions of all samples and of random subsets of them; none beyond its dimensions."""
    observations = search.observations
    model = _operator()
    enough = observations.n >= model.min_observations
    if observations.dim > model.max_dim or search.dictionary.degree != model.degree or not enough:
        return []
    contexts = [observations.samples]
    for _ in range(subsets):
        sizes = [max(int(_SHARE * len(t)), min(len(t), 10)) for t, _ in observations.samples]
        kept = [
            np.sort(rng.permutation(len(t))[:size])
            for (t, _), size in zip(observations.samples, sizes, strict=True)
        ]
        contexts.append([(t[k], z[k]) for (t, z), k in zip(observations.samples, kept, strict=True)])
    trajectories = [Trajectories.from_arrays([z for _, z in c], [t for t, _ in c]) for c in contexts]
    return [Opinion(*said) for said in model.opinions(trajectories)]


def _fitted(candidates: list[Candidate]) -> list[Candidate]:
    return [c for c in candidates if c.refined and np.isfinite(c.score)]
