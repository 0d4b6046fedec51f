"""Symbolic models: textbook functions found by search."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fim_dynsys.analyze.results import PATIENCE, progress_bar
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.inference import Inference, Judge
from fim_dynsys.fields.posterior import LawField
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.equations import EquationsModel
from fim_dynsys.models.exact_fields import exact_field
from fim_dynsys.models.inputs import assumed
from fim_dynsys.models.members import bounded_members, check_members
from fim_dynsys.models.ordering import CanonicalOrder
from fim_dynsys.models.question import Question
from fim_dynsys.models.searched import FITTED_EXACTLY, SearchedModel, contradicted
from fim_dynsys.regression.gaps import completed
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.exact.identification import ExactSearch
from fim_dynsys.search.functions.combination import FULL, QUICK
from fim_dynsys.search.judges import OfFamilies, totals
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.search.origins import Origin, Stage
from fim_dynsys.search.pool import Pool
from fim_dynsys.search.pruning import refine
from fim_dynsys.search.stages import POLYNOMIALS, Effort, Row, functions
from fim_dynsys.search.units import (
    REFITTED,
    by_units,
    fitted_with_constraints,
    homogeneous,
    is_accepted,
    rates_by_units,
    suggestion_note,
)

EFFORTS = {
    "full": Effort(structures=4, functions=FULL, functions_up_to=math.inf),
    "quick": Effort(
        structures=4, functions=QUICK, functions_up_to=math.inf, exact_structures=5, composed=False
    ),
}
_STAGES = (*POLYNOMIALS, functions)


class _Candidates(NamedTuple):
    """What a search found, best first."""

    question: Question
    items: list[Candidate]
    scores: list[float]
    n_candidates: int


class SymbolicModel(SearchedModel):
    """Equations with textbook functions, found by search.

    The best polynomial field and those with trigonometric, rational, saturating,
    exponential, logarithmic and power functions are fitted to the trajectories and compared by an extended
    Bayesian information criterion, which charges for the choice among so many functions. A state counts as
    an angle in radians where it has no unit, in degrees where that says so, and as none under other units.
    Where units say that one state may be the rate of change of another, the search is made with that equation
    too, unless there is knowledge, and it is believed unless the samples are against it.

    Samples with hardly any noise are fitted to numerical precision, as by `auto`: the simplest model that
    leaves no more than rounding, the errors of integration or noise is the answer, quotients of several
    states and functions of sums among them; not with inputs, errors of their own or positions alone.

    Parameters
    ----------
    effort : {"full", "quick"}
        Amount of search.
    knowledge : Knowledge, optional
        Prior knowledge of the field; every candidate satisfies it.
    progress : bool, optional
        Whether a search of more than two seconds shows a bar; default on a terminal.

    References
    ----------
    K. Kaheman, J. N. Kutz, S. L. Brunton, SINDy-PI, Proc. R. Soc. A 476 (2020) 20200279; J. Chen, Z. Chen,
    Extended Bayesian information criteria, Biometrika 95 (2008) 759.
    """

    name = "symbolic"
    version = "6"
    _leaves_outliers_out = False

    def __init__(
        self,
        effort: str = "full",
        knowledge: Knowledge | None = None,
        progress: bool | None = None,
    ) -> None:
        self.effort = effort
        self.knowledge = knowledge
        self.progress = progress

    @property
    def _effort(self) -> Effort:
        if not isinstance(self.effort, str) or self.effort not in EFFORTS:
            raise ValueError(f"symbolic: expected an effort among {sorted(EFFORTS)}, got {self.effort!r}.")
        return EFFORTS[self.effort]

    # ------------------------------------------------------------------ search

    def _answer(self, question: Question) -> DictionaryField | DrivenField:
        effort = self._effort
        order = question.order
        exact = ExactSearch(question.search, question.samples, composed=effort.composed)
        if question.is_plain:
            exact.run(effort.exact_structures or 0)
        if exact.settled and exact.preferred_allowed:
            return self._exact(question, exact)
        found = self._candidates(question, effort)
        if exact.models and question.knowledge is not None:
            exact.fit(found.items[:FITTED_EXACTLY])
            if exact.settled:
                return self._exact(question, exact)
        notes: dict[str, Any] = {}
        remarks = contradicted(exact, found.items)
        suggested = rates_by_units(order.trajectories) if question.knowledge is None else None
        if suggested is not None:
            constrained = self._candidates(question.knowing(suggested), effort, found.items[:REFITTED])
            scores = constrained.scores[0], found.scores[0]
            notes |= by_units(suggested, *scores)
            if is_accepted(suggested, *scores):
                found = constrained
                remarks += (suggestion_note(suggested),)
                notes["constraints"] = suggested.plain()
        best = found.items[0]
        report = {
            "chosen": best.origin.text(order.coordinates),
            "score": found.scores[0],
            "candidates": found.n_candidates,
            "runners_up": [
                [item.origin.text(order.coordinates), score]
                for item, score in zip(found.items[1:4], found.scores[1:4], strict=True)
            ],
            "free_numbers": order.free(best.dictionary, best.free),
            **notes,
        }
        return found.question.answer(best, report, Inference(noise=assumed(question.sigma), notes=remarks))

    def _exact(self, question: Question, exact: ExactSearch) -> LawField:
        """The exact model of noise-free samples."""
        models, order = exact.answers, question.order
        best = models[0].item
        report = {
            "chosen": best.origin.text(order.coordinates),
            "score": best.score,
            "candidates": len(models),
            "misses": models[0].misses,
            "free_numbers": order.free(best.dictionary, best.free),
        }
        facts = question.facts(Inference(Judge.EXACT, noise=assumed(question.errors)), question.search)
        return exact_field(models[0], question.search.observations, question, report, facts)

    def _candidates(
        self, question: Question, effort: Effort, others: Sequence[Candidate] = ()
    ) -> _Candidates:
        """All candidates, and what was found without the knowledge, fitted with it."""
        search, row = question.search, Row(_STAGES, effort, OfFamilies())
        stages = len(_STAGES) + effort.functions.stages
        with progress_bar(self.progress, stages, "symbolic", "stages", PATIENCE) as bar:
            found = row.search(Pool(search, whole=True), bar.update)
        items = [found.candidates[0].in_use()]
        items += homogeneous(search.observations, found.functions, question.order.trajectories)
        items += fitted_with_constraints(search, others) if others else []
        scores = totals(row.judge, search, items).tolist()
        order = sorted(range(len(items)), key=scores.__getitem__)
        count = len(found.candidates) + len(found.functions)
        return _Candidates(question, [items[k] for k in order], [scores[k] for k in order], count)

    # ------------------------------------------------------------------ uncertainty

    @np.errstate(all="ignore")
    def ensemble(self, n: int = 20, seed: int = 0, progress: bool | None = None) -> EnsembleField:
        """Draws of the field from the posterior of its parameters, the structure being given.

        The posterior is normal, from the linearised trajectory fit. How sure the structure itself is,
        `fim_dynsys.evidence` says.

        Parameters
        ----------
        n : int
            Number of draws.
        seed : int
            Equal seeds give equal draws.
        progress : bool, optional
            Without effect: draws take no time.

        Returns
        -------
        EnsembleField
        """
        field = self._fitted_field()
        check_members(self._caller, n, seed)
        drawn = field.draws(n, seed) if isinstance(field, LawField) else None
        if drawn is not None:
            return EnsembleField(drawn)

        def draw(n: int, seed: int) -> list[VectorField]:
            return self._search_draws(field, n, np.random.default_rng(seed))

        return bounded_members(draw, n, seed, field, self.context_)

    def _search_draws(self, field: VectorField, n: int, rng: np.random.Generator) -> list[VectorField]:
        extended = field.extended if isinstance(field, DrivenField) else field
        assert isinstance(extended, DictionaryField)
        context, report = self.context_, field.fit_info.report
        whole = completed(self._caller, context, self._sigma)
        question = Question.of(
            self._caller,
            whole.trajectories,
            context,
            knowledge=report.get("constraints", self.knowledge),
            positions=field.fit_info.inference.positions or None,
            errors=whole.errors,
            order=CanonicalOrder.as_given(whole.trajectories),
        )
        search = question.search
        observations, known = search.observations, search.restriction
        scale, unit = observations.extended_scale, observations.time_unit
        terms, coefficients = extended.dictionary.rescaled(extended.coefficients, 1.0 / scale, 1.0 / unit)
        coefficients = coefficients[:, : observations.dim]
        free = report["free_numbers"]
        if known is not None:
            terms, rows, known, coefficients = search.restricted(terms, coefficients)
            free = [(int(rows[term]), slot, number) for term, slot, number in free]
        origin = Origin(Stage.GIVEN)
        start = Candidate(coefficients, observations.start, terms, origin, restriction=known).in_use(free)
        model, fit = refine(observations, start, observations.path)
        if not np.isfinite(model.parameters).all() or not math.isfinite(fit.misfit):
            raise ValueError(
                f"{self._caller}.ensemble: expected a trajectory fit that converges, got one that diverges; "
                "the field has no posterior to draw from."
            )
        drawn = model.drawn(observations, fit, rng.standard_normal((n, len(model.parameters))))
        return [member.field(observations, context, {}) for member in drawn]

    # ------------------------------------------------------------------ equations

    def _symbolic_field(self) -> Any:
        return self._fitted_field()


def symbolic(
    expressions: Sequence[str] | Mapping[str, str] | None = None,
    start: Mapping[str, float] | None = None,
    effort: str = "full",
    knowledge: Knowledge | None = None,
    progress: bool | None = None,
) -> VectorFieldModel:
    """A search for equations; with `expressions` the model "equations", which fits their parameters.

    Parameters
    ----------
    expressions, start : optional
        As for `fim_dynsys.models.equations.EquationsModel`, which has more to say of the parameters.
    effort, knowledge, progress
        As for `SymbolicModel`.

    Returns
    -------
    SymbolicModel or EquationsModel
    """
    if expressions is None:
        return SymbolicModel(effort, knowledge, progress)
    return EquationsModel(expressions, start=start, knowledge=knowledge)
