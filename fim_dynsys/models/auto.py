"""The portfolio: candidates from the operator, sparse regression and local search, chosen on the data."""

from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Self

import numpy as np

from fim_dynsys.analyze.alternatives import NOT_DETERMINED, Alternative, Alternatives, terms_by_state
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.ensemble import EnsembleField
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
from fim_dynsys.search.exact.identification import Identification
from fim_dynsys.search.front import front
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
_MET = 12  # candidates that are fitted to the digits of clean data, too
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
    laws : int
        Structures with functions that are tried on clean data.
    """

    structures: int
    windowed: int
    subsets: int
    grown: int
    shaken: int
    functions: FunctionEffort
    laws: int


EFFORTS = {"fast": Effort(4, 8, 0, 1, 0, QUICK, 5), "full": Effort(6, 16, 4, 3, 20, FULL, 16)}


class Auto(VectorFieldModel):
    """The best field that the data support, from one call.

    Polynomial candidates come from the pretrained operator's opinion of the samples and of random subsets of
    them, from sparse regression with nine smoothers, and from adding terms to the best, by what the residuals
    ask for and at random; all are fitted to the trajectories and pruned. Fields with functions
    (trigonometric, saturating, exponential, powers) are grown from the best polynomial. A selector trained
    on known systems chooses among all of them; beyond five states, where the operator has no opinion, the
    smallest BIC wins. `field_.fit_info.report` says what chose, and the origins, scores and weights of the
    first few.

    Samples with less than about 1 % of noise are fitted to their digits instead: terms are read off what
    happens from each sample to the next, and the simplest law that leaves no more than rounding, the errors
    of integration or noise is the answer. `alternatives_` lists what else the samples allow.

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
        return f"5-{_operator().version}-{weights_version(shipped(SELECTOR_FILE))}"

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
        return [*self._fields(self.portfolio(trajectories), trajectories, None)]

    def portfolio(self, trajectories: Trajectories) -> Portfolio:
        """The candidates before the choice, with what is known of each; `fit` keeps them as `portfolio_`.

        Raises
        ------
        ValueError
            As `infer`.
        """
        effort = self._effort
        samples = complete_samples(trajectories, self._who, self.min_observations)
        search = Search.polynomial(samples)
        clean = Identification(search, samples)
        clean.run(effort.laws)
        if clean.settled:
            return Portfolio.of_laws(search, clean.laws)
        polynomials, opinion = _polynomials(search, effort, np.random.default_rng(self.seed))
        grown = []
        if search.dictionary.dim <= _FUNCTIONS_UP_TO:
            grown = grow_functions(search, polynomials[0], effort.functions)
        found = Portfolio.of(search, opinion, polynomials, grown)
        if clean.laws:
            clean.meet(found.members[:_MET])
        return Portfolio.of_laws(search, clean.laws) if clean.laws else found

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
        found = self._found()
        drawn = found.draws(found.log_weights(_selector()), n, np.random.default_rng(seed))
        return EnsembleField([m.field(found.search.observations, self.context_, {}) for m in drawn])

    @property
    def alternatives_(self) -> Alternatives:
        """Structures on the front of complexity against misfit, simplest first.

        Also forms that follow the samples as well as the preferred one and are hardly longer. `select` makes
        one of them the answer. A model that was read from a file repeats the search first.
        """
        found = self._found()
        weights = normalised(found.log_weights(_selector()))
        preferred = int(np.argmax(weights))
        rows = front(found, preferred)
        fields = [self._field(found, row.place, self.context_, {}, float(weights[row.place])) for row in rows]
        own = next(terms_by_state(f) for f, row in zip(fields, rows, strict=True) if row.place == preferred)
        signal = np.maximum(found.search.observations.signal_variance, 1e-300)
        out = []
        for row, field in zip(rows, fields, strict=True):
            candidate, terms = row.item.candidate, terms_by_state(field)
            out.append(
                Alternative(
                    field,
                    tuple(field.equations(4)),
                    len(row.item.parameters),
                    float(candidate.score),
                    float(weights[row.place]),
                    float(np.mean(1.0 - candidate.variance / signal)),
                    row.misses,
                    row.place == preferred,
                    tuple(sorted(terms - own)),
                    tuple(sorted(own - terms)),
                    NOT_DETERMINED if row.tied else "",
                )
            )
        return Alternatives(out, found.judge)

    def select(self, k: int) -> Self:
        """Make one of `alternatives_` the answer.

        Parameters
        ----------
        k : int
            Its row.

        Returns
        -------
        Auto
            This model.

        Raises
        ------
        IndexError
            If there are fewer.
        """
        rows = self.alternatives_
        if not 0 <= k < len(rows):
            raise IndexError(f"{self._who}: expected a row of alternatives_ below {len(rows)}, got {k}.")
        self.field_ = rows[k].field
        self.field_.fit_info.report["chosen by"] = "select"
        return self

    def alternatives(self) -> list[VectorFieldModel]:
        """The pretrained operator, alone and with its own search."""
        return [FIMODE(), FIMODE(refine=False)]

    def restore(self, saved: SavedModel) -> Self:
        """As of every model; the portfolio is not kept in a folder."""
        super().restore(saved)
        self.portfolio_ = None
        return self

    def _found(self) -> Portfolio:
        self._fitted_field()
        if self.portfolio_ is None:
            self.portfolio_ = self.portfolio(self.context_)
        return self.portfolio_

    def _fields(self, found: Portfolio, trajectories: Trajectories, count: int | None) -> list[FittedField]:
        """Fields of the ``count`` members preferred."""
        weights = normalised(found.log_weights(_selector()))
        order = np.argsort(-weights, kind="stable")
        polynomials = [m.score for m in found.members if not m.n_functions]
        functions = [m.score for m in found.members if m.n_functions]
        report = {
            "budget": self.budget,
            "candidates": len(found.members),
            "chosen by": found.judge,
            "best BIC of a polynomial": min(polynomials, default=np.inf),
            "best BIC with functions": min(functions, default=np.inf),
            "preferred": [
                [found.members[k].candidate.origin, float(found.members[k].score), float(weights[k])]
                for k in order[:_REPORTED]
            ],
        }
        return [self._field(found, int(k), trajectories, report, float(weights[k])) for k in order[:count]]

    @staticmethod
    def _field(
        found: Portfolio, k: int, trajectories: Trajectories, report: dict, weight: float
    ) -> FittedField:
        member = found.members[k]
        own = member.candidate if found.laws else _without_traces(found.search.observations, member)
        said = report | {"chosen": own.origin, "BIC": own.score, "weight": weight}
        terms = member.on(found.search.observations)
        errors = partial(standard_errors, free=member.free) if own.refined else None
        return FittedField.of(own.field(terms, trajectories, said), errors)

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
