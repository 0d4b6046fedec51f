"""The portfolio: candidates from the operator, sparse regression and local search, chosen on the data.

A little above five hundred lines: one model, from its question to its answer, read together.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, Self

import numpy as np

from fim_dynsys.analyze.alternatives import (
    NOT_DETERMINED,
    Alternative,
    Alternatives,
    cautions,
    terms_by_state,
)
from fim_dynsys.analyze.results import PATIENCE, progress_bar
from fim_dynsys.errors import check_whole
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.inference import Inference, Judge
from fim_dynsys.fields.local import LocalField
from fim_dynsys.fields.posterior import FittedField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.exact_fields import exact_answer
from fim_dynsys.models.fim_ode.own import FIMODE, MIN_OBSERVATIONS, n_used
from fim_dynsys.models.members import bounded_members, check_members
from fim_dynsys.models.ordering import CanonicalOrder
from fim_dynsys.models.outliers import samples_of, with_outliers_of
from fim_dynsys.models.question import Question
from fim_dynsys.models.searched import SearchedModel, searched
from fim_dynsys.models.trust import N_DRAWS, Rivals, deviation_elsewhere, together
from fim_dynsys.regression.criteria import VARIANCE_FLOOR, Known, Noise, precise
from fim_dynsys.regression.gaps import completed
from fim_dynsys.regression.observed import Observations
from fim_dynsys.saved import SavedModel
from fim_dynsys.search.candidates import Candidate, shares
from fim_dynsys.search.front import FrontMember, front, simpler
from fim_dynsys.search.functions.combination import FULL, QUICK, FunctionEffort
from fim_dynsys.search.initial_estimate import InitialEstimate
from fim_dynsys.search.judges import HeldOut
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.search.portfolio import Portfolio, normalised
from fim_dynsys.search.problem import Search, distinguishable
from fim_dynsys.search.proposers import proposers
from fim_dynsys.search.screening import screened
from fim_dynsys.search.stages import POLYNOMIALS, Effort, Row, functions
from fim_dynsys.search.standard_errors import exact_errors
from fim_dynsys.search.units import (
    REFITTED,
    by_units,
    fitted_with_constraints,
    is_accepted,
    rates_by_units,
    suggestion_note,
)
from fim_dynsys.trajectories.container import Trajectories

_REPORTED = 5  # candidates that the report names
_TRACE = 1e-4  # of the largest rate along the samples
# Divides differences between candidates' BIC where members are drawn. On the development systems 90 % bands
# then hold 95 % of the observed paths at 3 and 10 % of noise, and 4 % of the paths by less than 70 %; at a
# temperature of 1 they hold 81 %, and 23 % of the paths by less.
_TEMPERATURE = 40.0
_SUGGESTED_UP_TO = 6  # states: beyond, terms are screened, without knowledge
STAGES = *POLYNOMIALS, functions
"""What is searched, whatever the effort."""

EFFORTS = {
    "fast": Effort(4, fits=4, rounds=3, functions=QUICK, exact_structures=5, composed=False),
    "full": Effort(6, fits=8, rounds=8, windowed=16, functions=FULL),
    "thorough": Effort(
        12,
        fits=16,
        rounds=16,
        windowed=32,
        functions=FunctionEffort(48, 60, 12, 12),
        exact_structures=64,
        ask_plugins=True,
    ),
}
"""How much, by the name of the effort."""


class Auto(SearchedModel):
    """The best field that the data support, from one call.

    Polynomial candidates come from the pretrained operator's estimate, from sparse regression with nine
    smoothers, and from choosing the terms again about the paths of the best fits; all are fitted to the
    trajectories and pruned. Fields with functions (trigonometric, saturating, exponential, powers) are grown
    from the best polynomial; a state counts as an angle in radians where it has no unit, in degrees where
    that says so, and as none under other units. Where units say that one state may be the rate of change of
    another, noisy samples are searched with that equation too, and it is believed unless the samples are
    against it; the report says so. The smallest BIC wins; functions have a penalty, because there are many to
    choose from. Below twelve samples and beyond six states the operator is not asked. Where none explains
    three or more trajectories, fields that leave all bounds from their samples come last. A field without
    equations (`fim_dynsys.fields.local.LocalField`) is then preferred if it predicts held-out trajectories
    clearly better than the best equations refitted to the same data. `field_.fit_info.report` says what
    chose, and the origins, scores and weights of the first few.

    Samples with noise below about 1 % of a state's standard deviation are fitted to numerical precision
    instead: terms are read off what happens from each sample to the next, functions of reciprocals and
    squares where nothing else explains them, and the simplest model that leaves no more than rounding, the
    errors of integration or noise is the answer. `alternatives_` lists what else the samples allow.

    Samples that neither their neighbours nor the fitted path explain are left out, which the report and
    `print` say; not with inputs, known errors or positions alone.

    Parameters
    ----------
    effort : {"full", "fast", "thorough"}
        Amount of search; fast takes about half of the time, without functions of reciprocals and squares,
        thorough a minute or so. A thorough search also asks installed plugins for right-hand sides: the
        repository's ``plugins/operon`` finds them by genetic programming. The report says what came of it.
    seed : int
        Of what plugins propose, the only part of the search that is random.
    progress : bool, optional
        Whether a search of more than two seconds shows a bar; default on a terminal.
    knowledge : Knowledge, optional
        Prior knowledge of the field; every candidate satisfies it. A field without an equation is then no
        candidate, and units suggest no equations.
    """

    name = "auto"
    portfolio_: Portfolio | None

    def __init__(
        self,
        effort: str = "full",
        seed: int = 0,
        progress: bool | None = None,
        knowledge: Knowledge | None = None,
    ) -> None:
        self.effort = effort
        self.seed = seed
        self.progress = progress
        self.knowledge = knowledge

    @property
    def version(self) -> str:
        """An integer, raised when the search changes, and the version of the operator's weights."""
        return f"25-{_operator().version}"

    @np.errstate(all="ignore")
    def _infer_to_keep(
        self,
        trajectories: Trajectories,
        positions: Sequence[str] | None = None,
        sigma: Known | None = None,
        **given: Any,
    ) -> VectorField:
        field, self.portfolio_, question = self._inferred(trajectories, positions, sigma)
        if isinstance(field, LocalField):
            return field
        field = question.with_deviation(field, self.portfolio_)
        if self.portfolio_.exact_models:  # whose rivals are draws
            return field
        drawn, known = Rivals.alike(question.draws(self.portfolio_, N_DRAWS, 0)), field.fit_info.inference
        apart = deviation_elsewhere(field, drawn, samples_of(field, trajectories))
        return field.with_fit_info(inference=replace(known, elsewhere=together(known.elsewhere, apart)))

    def _with_deviation_elsewhere(self, field: VectorField, context: Trajectories) -> VectorField:
        return field  # `_infer_to_keep` found it, by draws from all members

    def _find_rivals(self) -> Rivals | None:
        if isinstance(self.field_, LocalField | DrivenField):
            return None
        found, question = self._found()
        return question.rivals(found)

    def _inferred(
        self,
        trajectories: Trajectories,
        positions: Sequence[str] | None = None,
        sigma: Known | None = None,
    ) -> tuple[VectorField, Portfolio, Question]:
        """The preferred field, the portfolio it is of, and the question that this answers."""
        portfolios: list[tuple[Portfolio, Question]] = []

        def answer(question: Question) -> VectorField:
            portfolios.append((self._searched(question), question))
            return self._fields(*portfolios[-1], 1)[0]

        field = self._answered(answer, trajectories, positions, sigma)
        seen = samples_of(field, trajectories)
        return next((field, found, question) for found, question in portfolios if question.context is seen)

    def _answer(self, question: Question) -> VectorField:
        return self._fields(self._searched(question), question, 1)[0]

    @np.errstate(all="ignore")
    def candidates(self, trajectories: Trajectories) -> list[VectorField]:
        """Fields of the whole portfolio, the preferred one first: it is what `infer` returns.

        Raises
        ------
        ValueError
            As `infer`.
        """
        field, found, question = self._inferred(trajectories)
        fields = self._fields(found, question, None)
        return [with_outliers_of(candidate, field) for candidate in fields]

    @np.errstate(all="ignore")
    def portfolio(
        self,
        trajectories: Trajectories,
        positions: Sequence[str] | None = None,
        sigma: Known | None = None,
    ) -> Portfolio:
        """The candidates before the choice, with what is known of each.

        States and trajectories keep their order; `fit` keeps those of the `CanonicalOrder` as `portfolio_`.
        ``positions`` and ``sigma`` as for `infer`. Where nothing is known but that units suggest equations,
        it is the portfolio with or without them.

        Raises
        ------
        ValueError
            As `infer`.
        """
        whole = completed(self._caller, trajectories, sigma)
        order = CanonicalOrder.as_given(whole.trajectories)
        question = self._question(whole.trajectories, trajectories, positions, sigma, whole.errors, order)
        return self._searched(question)

    def _degree_of(self, complete: Trajectories) -> int | None:
        """That of the operator, where it can answer, however few the samples."""
        model = _operator()
        few = n_used(complete) < MIN_OBSERVATIONS
        return None if few or complete.input_names or complete.dim > model.max_dim else model.degree

    def _searched(self, question: Question) -> Portfolio:
        found, trajectories = self._portfolio(question), question.order.trajectories
        settled = found.exact_models or found.local is not None or trajectories.dim > _SUGGESTED_UP_TO
        if question.knowledge is not None or settled:
            return found
        suggested = rates_by_units(trajectories)
        if suggested is None:
            return found
        return _by_units(found, self._portfolio(question.knowing(suggested)), suggested)

    def _portfolio(self, question: Question) -> Portfolio:
        row = self._row
        effort = row.effort
        search = question.search
        stages = 2 + len(row.stages) + effort.functions.stages
        if effort.ask_plugins:
            stages += search.dictionary.dim * sum(proposer.steps for proposer in proposers().values())
        free = not search.observations.n_inputs and search.restriction is None
        with progress_bar(self.progress, stages, "auto", "stages", delay=PATIENCE) as bar:
            search, known = screened(search) if free and not question.positions else (search, [])
            bar.update()
            estimate = partial(_initial_estimate, sigma=question.errors)
            return searched(replace(question, search=search), row, estimate, known, self.seed, bar.update)

    @np.errstate(all="ignore")
    def ensemble(self, n: int = 20, seed: int = 0, progress: bool | None = None) -> EnsembleField:
        """Candidates drawn by their BIC, each with parameters drawn from its posterior.

        Of noisy samples the BIC alone would draw hardly any but the best candidate, and bands of the members
        would be too narrow: its differences are divided by a number found on other systems. Draws whose
        paths leave all bounds from the data, where that of the field stays, are replaced and counted in
        ``left_out``. After `select` of another structure than the preferred one, members have that structure.
        A model that was read from a file repeats the search first.

        Parameters
        ----------
        n : int
            Number of members.
        seed : int
            Equal seeds give equal members.
        progress : bool, optional
            Without effect: members take no time, and a search shows its own bar.

        Returns
        -------
        EnsembleField
        """
        self._fitted_field()
        check_members(self._caller, n, seed)
        found, question = self._found()
        order = question.order
        if isinstance(self.field_, LocalField) and found.local is not None:
            local = found.local.draws(n, order.trajectories, np.random.default_rng(seed))
            return EnsembleField([order.field(field, self._seen) for field in local])

        temperature = 1.0 if found.exact_models else _TEMPERATURE
        draw = partial(question.draws, found, temperature=temperature)
        if self.field_.fit_info.inference.selected:
            found, _, rows, preferred = self._front(found)
            own, places = terms_by_state(self.field_), [row.place for row in rows]
            fields = {place: self._field(found, question, place, {}, 0.0) for place in places}
            place = next((k for k in places if terms_by_state(fields[k]) == own), preferred)
            if place != preferred:  # the user knows the structure
                draw = partial(question.draws, found, place=place)
        return bounded_members(draw, n, seed, self.field_, self._seen)

    @property
    def alternatives_(self) -> Alternatives:
        """Structures on the front of complexity against misfit, simplest first.

        Also forms that follow the samples as well as the preferred one and are hardly longer. `select` makes
        one of them the answer. A model that was read from a file repeats the search first.
        """
        found, question = self._found()
        found, weights, rows, preferred = self._front(found)
        fields = [self._field(found, question, row.place, {}, float(weights[row.place])) for row in rows]
        fields = [with_outliers_of(field, self.field_) for field in fields]
        answered = next(
            terms_by_state(f) for f, row in zip(fields, rows, strict=True) if row.place == preferred
        )
        signal = np.maximum(found.search.observations.signal_variance, 1e-300)
        out = []
        for row, field in zip(rows, fields, strict=True):
            candidate, terms = row.item, terms_by_state(field)
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
                    tuple(sorted(terms - answered)),
                    tuple(sorted(answered - terms)),
                    "; ".join([NOT_DETERMINED] * row.tied + cautions(field, self._seen)),
                )
            )
        judge = found.judge.name
        of_bic = judge in (Judge.BIC, Judge.EXTENDED_BIC)
        priced = " with penalties for functions and for paths from smoothed starts" if of_bic else ""
        return Alternatives(out, f"{judge.value}{priced}")

    def _front(self, found: Portfolio) -> tuple[Portfolio, np.ndarray, list[FrontMember], int]:
        """A portfolio with simpler structures, weights, the front, and the answer's place."""
        weights = normalised(found.log_weights)
        preferred = int(found.preferred(weights)[0])
        if not found.exact_models:
            more = self._simpler_than(found, preferred)
            found = replace(found, members=found.members + more)
            weights = np.concatenate([weights, np.zeros(len(more))])
        return found, weights, front(found, preferred), preferred

    def _simpler_than(self, found: Portfolio, preferred: int) -> list[Candidate]:
        """What `simpler` finds, once for each portfolio: it fits for seconds."""
        known: tuple[Portfolio, list[Candidate]] | None = vars(self).get("_simpler")
        if known is None or known[0] is not found:
            with progress_bar(self.progress, None, "alternatives", "structures", PATIENCE) as bar:
                known = found, simpler(found.search, len(found.members[preferred].parameters), bar)
            self._simpler = known
        return known[1]

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
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 0 <= k < len(rows):
            raise IndexError(f"{self._caller}: expected a row of alternatives_ below {len(rows)}, got {k!r}.")
        chosen = rows[k].field
        facts = replace(chosen.fit_info.inference, selected=True)
        self._adopt(chosen.with_fit_info(inference=facts), self.context_)
        return self

    def alternatives(self) -> list[VectorFieldModel]:
        """The pretrained operator, alone and with its own search."""
        return [FIMODE(knowledge=self.knowledge), FIMODE(refine=False, knowledge=self.knowledge)]

    def restore(self, saved: SavedModel) -> Self:
        """As of every model; the portfolio is not kept in a folder."""
        super().restore(saved)
        self.portfolio_ = None
        return self

    @property
    def _seen(self) -> Trajectories:
        return samples_of(self.field_, self.context_)

    def _found(self) -> tuple[Portfolio, Question]:
        self._fitted_field()
        positions = self.field_.fit_info.inference.positions or None
        whole = completed(None, self._seen, self._sigma)
        question = self._question(whole.trajectories, self._seen, positions, self._sigma, whole.errors)
        if self.portfolio_ is None:
            self.portfolio_ = self._searched(question)
        return self.portfolio_, question

    def _fields(self, found: Portfolio, question: Question, count: int | None) -> list[VectorField]:
        """Fields of the ``count`` members preferred."""
        order = question.order
        weights = normalised(found.log_weights)
        preferred = found.preferred(weights)
        polynomials = [m.score for m in found.members if not m.n_functions]
        functions = [m.score for m in found.members if m.n_functions]
        report = {
            "effort": self.effort,
            "candidates": len(found.members),
            **found.notes,
            "best BIC of a polynomial": min(polynomials, default=np.inf),
            "best BIC with functions": min(functions, default=np.inf),
            "preferred": [
                [
                    found.members[k].origin.text(order.coordinates),
                    float(found.members[k].score),
                    float(weights[k]),
                ]
                for k in preferred[:_REPORTED]
            ],
        }
        fields: list[VectorField] = []
        if found.local is not None and found.prefers_local(preferred[0]):
            said = report | {"chosen": "locally linear", "held_out": float(found.local.errors.mean())}
            local = found.local.field(order.trajectories, said, Inference(HeldOut.name))
            fields.append(order.field(local, question.context))
        for k in preferred[: None if count is None else count - len(fields)]:
            fields.append(self._field(found, question, int(k), report, float(weights[k])))
        return fields

    def _field(
        self,
        found: Portfolio,
        question: Question,
        k: int,
        report: dict,
        weight: float,
    ) -> DictionaryField | DrivenField:
        member, search, order = found.members[k], found.search, question.order
        plain = found.exact_models or search.restriction is not None
        shown = member if plain else _without_traces(search.observations, member)
        chosen = shown.origin.text(order.coordinates)
        said = report | {"chosen": chosen, "BIC": shown.score, "weight": weight}
        facts = Inference(found.judge.name, notes=found.remarks)
        if not found.exact_models:
            question = replace(question, knowledge=found.constraints)
            return question.answer(shown, said, facts, search)
        field, known = exact_answer(
            found.exact_models[k], search.observations, question, said, question.facts(facts, search)
        )
        errors = partial(exact_errors, **known)
        return FittedField.of(field, errors if shown.refined else None)

    @property
    def _row(self) -> Row:
        check_whole(self._caller, 0, seed=self.seed)
        if not isinstance(self.effort, str) or self.effort not in EFFORTS:
            raise ValueError(f"auto: expected an effort among {sorted(EFFORTS)}, got {self.effort!r}.")
        return Row(STAGES, EFFORTS[self.effort])


def _by_units(free: Portfolio, constrained: Portfolio, suggested: Knowledge) -> Portfolio:
    """A portfolio without or with equations that units suggest, by the smallest BIC of each."""
    chosen = [free.members[k] for k in free.preferred(free.log_weights)[:REFITTED]]
    structures = {member.structure for member in constrained.members}
    more = [
        item
        for item in fitted_with_constraints(constrained.search, chosen)
        if item.structure not in structures
    ]
    constrained = replace(constrained, members=sorted(constrained.members + more, key=lambda m: m.score))
    scores = constrained.members[0].score, free.members[0].score
    said = by_units(suggested, *scores)
    if not is_accepted(suggested, *scores):
        return replace(free, notes=free.notes | said)
    return replace(constrained, notes=constrained.notes | said, remarks=(suggestion_note(suggested),))


@cache
def _operator() -> FIMODE:
    return FIMODE(refine=False)


def _without_traces(observations: Observations, candidate: Candidate) -> Candidate:
    """A candidate; where it follows the samples exactly, without terms that hardly show."""
    least = VARIANCE_FLOOR * observations.signal_variance
    if candidate.variance is None or not (candidate.variance <= least).all():
        return candidate
    values = candidate.dictionary.evaluate(observations.with_inputs(np.concatenate(observations.path)))
    shows = shares(values, candidate.coefficients) >= _TRACE
    return replace(candidate, coefficients=np.where(shows, candidate.coefficients, 0.0))


def _initial_estimate(search: Search, sigma: Known | None) -> InitialEstimate | None:
    """What the operator says of the samples; None beyond its dimensions."""
    observations = search.observations
    model = _operator()
    enough = observations.n >= model.min_observations
    dim = search.dictionary.dim
    if dim > model.max_dim or search.dictionary.degree != model.degree or not enough:
        return None
    samples = observations.samples
    if observations.n_inputs:  # the operator knows states alone
        pairs = zip(samples, observations.inputs, strict=True)
        samples = [(t, np.concatenate([z, u], axis=1)) for (t, z), u in pairs]
    if sigma is not None and not isinstance(sigma, Noise):
        places = zip(observations.origin, samples, strict=True)
        errors = [sigma[k][first : first + len(t)] for (k, first), (t, _) in places]
        values = [z * observations.scale for _, z in observations.samples]
        rows = [known.all(axis=1) for known in precise(errors, values)]
        better = [(t[row], z[row]) for row, (t, z) in zip(rows, samples, strict=True) if row.sum() >= 2]
        samples = better if sum(len(t) for t, _ in better) >= model.min_observations else samples
    seen = Trajectories.from_arrays([z for _, z in samples], [t for t, _ in samples])
    ((solves, spread),) = model.initial_estimates([seen])
    if not observations.n_inputs:
        return InitialEstimate(solves, spread).allowed(search.restriction)
    states = slice(observations.dim)
    terms = distinguishable(Dictionary.polynomial(dim, model.degree), observations)
    return InitialEstimate(solves[:, terms, states], spread[terms, states]).allowed(search.restriction)
