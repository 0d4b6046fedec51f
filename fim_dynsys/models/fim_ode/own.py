"""Our operator as a model: weights and observations in, polynomial fields out.

A little above five hundred lines: one model, with inputs and without, on one context and in batches.
"""

import os
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fim_dynsys.errors import check_flags
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.inference import Inference, Judge
from fim_dynsys.fields.posterior import LawField, PosteriorField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.constraints_applied import honoured
from fim_dynsys.models.exact_fields import exact_field
from fim_dynsys.models.fim_ode.batching import PretrainedModel
from fim_dynsys.models.fim_ode.calibration import Evidence
from fim_dynsys.models.fim_ode.card import read_card
from fim_dynsys.models.fim_ode.operators import OwnOperator, own_operator
from fim_dynsys.models.fim_ode.weights import shipped
from fim_dynsys.models.forecast_levels import Levels
from fim_dynsys.models.members import bounded_members, check_members
from fim_dynsys.models.ordering import CanonicalOrder
from fim_dynsys.models.outliers import inferred_robustly, samples_of
from fim_dynsys.models.question import Question
from fim_dynsys.models.searched import Asking, SearchedModel, searched
from fim_dynsys.models.second_order import knowledge_with_positions
from fim_dynsys.models.trust import Rivals
from fim_dynsys.regression.criteria import Known, Noise, precise
from fim_dynsys.regression.dimensionless import dimensionless, still
from fim_dynsys.regression.gaps import completed, is_incomplete
from fim_dynsys.regression.smoothing import TIME_AWARE
from fim_dynsys.regression.thinning import thinned
from fim_dynsys.search.initial_estimate import InitialEstimate
from fim_dynsys.search.judges import Bic
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.search.portfolio import Portfolio
from fim_dynsys.search.problem import Search, distinguishable
from fim_dynsys.search.stages import POLYNOMIALS, Effort, Row
from fim_dynsys.trajectories.container import Trajectories

DEFAULT_WEIGHTS = "fim-ode"
_SEARCH = 20  # raised when the search changes

MIN_OBSERVATIONS = 12
"""Samples below which `auto` does without the operator; nor are those of large errors kept from it there."""

_FEWEST_SEARCHED = SearchedModel.min_observations  # below, the operator's own field stands

# One of each kind; all nine find hardly more, for twice the time.
_SMOOTHERS = [TIME_AWARE[k] for k in (3, 6, 8)]
# The choice has the price of the extended BIC with gamma = 1/2: on the development systems, with 3 and 10 %
# of noise, its answers follow other paths about as often as those of a trained selector did (43.9 and 44.8 %
# of 212), those of the BIC in 41.5 %.
_EFFORT = Effort(smoothers=_SMOOTHERS, composed=False, simpler=False, local=False)
ROW = Row(POLYNOMIALS, _EFFORT, Bic(gamma=0.5))
"""What is searched about the operator's estimate."""

# Of the candidates' weights where members are drawn: all but the hopeless are drawn alike. On 54 contexts of
# the development systems with noise, bands of 90 % then hold 90 % of the observed paths; at a temperature of
# 1 they hold 69 and 81 % (3 and 10 % of noise).
_TEMPERATURE = 120.0


class FIMODE(Asking, PretrainedModel):
    """Our pretrained operator, which reads the vector field off the observations in one pass.

    What is inferred is a polynomial field in closed form, with a posterior where the weights hold one. The
    operator's initial estimate also starts a short search: structures that it and a few sparse regressions
    suggest are fitted to the trajectories themselves, and the smallest extended BIC wins, as
    `field_.fit_info.report` says. Samples with hardly any
    noise are fitted to numerical precision instead, functions tried where no polynomial explains them;
    samples that neither their neighbours nor the fitted path explain are left out. Below five samples there
    is no search, which the report and `print` say. Contexts may hold any number of trajectories, ragged and
    irregularly sampled; states observed at different times among them. Results do not depend
    on the order of trajectories, nor on units or the origin of time.

    Weights are read when first needed. A process keeps the last few, keyed by their hash, and models share
    them; a saved or pickled model holds the path only.

    Parameters
    ----------
    weights : path-like, optional
        A weights file, such as one exported by ``python -m training.pretrain``. Default: the weights that are
        part of the package.
    device : str
        Where contexts are encoded, as torch names it.
    refine : bool
        Whether to search round the operator's initial estimate; False gives its own field, ten times faster.
    knowledge : Knowledge, optional
        Prior knowledge of the field. The operator's coefficients are moved to the nearest that
        satisfy it, by how sure it is of each; so does every candidate of the search. Fields have no
        posterior then.
    """

    name = "fim-ode"
    takes = frozenset({"inputs", "positions", "sigma", "missing", "rates", "switches"})

    def __init__(
        self,
        weights: str | os.PathLike | None = None,
        device: str = "cpu",
        refine: bool = True,
        knowledge: Knowledge | None = None,
    ) -> None:
        self.weights = weights
        self.device = device
        self.refine = refine
        self.knowledge = knowledge

    @property
    def operator(self) -> OwnOperator:
        """The network, read at first use."""
        path = str(shipped(DEFAULT_WEIGHTS)) if self.weights is None else os.fspath(self.weights)
        return own_operator(path, str(self.device))

    @property
    def version(self) -> str:
        """First 8 hexadecimal digits of the weights' sha256; with the search, an integer of its own first."""
        return f"{_SEARCH}-{self.operator.version}" if self.refine else self.operator.version

    @property
    def max_dim(self) -> int:
        """Largest dimension of the states that the weights take."""
        return self.operator.max_dim

    @property
    def degree(self) -> int:
        """Largest total degree of the operator's monomials."""
        return self.operator.network.config.degree

    @property
    def _row(self) -> Row:
        """What is searched about the operator's estimate."""
        return ROW

    def _searches(self, complete: Trajectories) -> bool:
        """Whether candidates are searched, of which there must be enough samples."""
        return self.refine and n_used(complete) >= _FEWEST_SEARCHED

    @np.errstate(all="ignore")  # what overflows is judged by what comes of it
    def infer(
        self,
        trajectories: Trajectories,
        sigma: Known | None = None,
        positions: Sequence[str] | None = None,
    ) -> VectorField:
        """Infer the field behind trajectories; see `infer_many`.

        Parameters
        ----------
        trajectories : Trajectories
            The context.
        sigma : list of arrays (n, d), or Noise.POISSON, optional
            Known standard deviations of the observations; or these are counts. The operator, which cannot
            weigh samples, then sees those whose errors are at most five times the typical one; the fits to
            the trajectories, and the choice among them, weigh all. Standard errors are those of the fit.
        positions : sequence of str, optional
            States that were observed, the others being their velocities; see `fit` with ``order=2``.

        Raises
        ------
        ValueError
            As `infer_many`; with ``sigma`` or ``positions`` where there is no search, or there are too few
            samples for one.
        """
        if sigma is None and positions is None and not is_incomplete(trajectories):
            return super().infer_many([trajectories])[0]
        check_flags(self._caller, refine=self.refine)
        whole = completed(self._caller, trajectories, sigma)
        complete = whole.trajectories
        self._check_limits(complete, self.max_dim)
        if (sigma is not None or positions is not None) and not self._searches(complete):
            what = "sigma" if positions is None else "order=2"
            raise ValueError(
                f"{self._caller}: expected a search with {what}, which the operator alone does not look at, "
                f"got refine={self.refine} and {int(complete.n_obs.sum())} samples; give "
                f"refine=True and at least {_FEWEST_SEARCHED}."
            )
        return self._with_evidence([complete], [trajectories], sigma, whole.errors, positions)[0][0]

    def infer_many(self, contexts: Sequence[Trajectories]) -> list[VectorField]:
        """Infer one field per context, several to a pass through the network, those with gaps one by one.

        Parameters
        ----------
        contexts : sequence of Trajectories
            Of any number, length and dimension.

        Returns
        -------
        list of VectorField

        Raises
        ------
        ValueError
            If a context has too few observations or too many states.
        """
        contexts = list(contexts)
        apart = {k: self.infer(context) for k, context in enumerate(contexts) if is_incomplete(context)}
        together = iter(super().infer_many([context for k, context in enumerate(contexts) if k not in apart]))
        return [apart[k] if k in apart else next(together) for k in range(len(contexts))]

    def infer_batch(
        self, complete: Sequence[Trajectories], contexts: Sequence[Trajectories]
    ) -> Sequence[DictionaryField | DrivenField]:
        """Fields of contexts of one dimension, with a posterior where the weights hold one.

        With inputs there is none: the operator sees them as further states, what it says of their rates is
        left out, and the best BIC chooses.
        """
        check_flags(self._caller, refine=self.refine)
        if contexts[0].input_names or not self.refine:
            return self._together(complete, contexts)
        pairs = zip(complete, contexts, strict=True)
        robust = [inferred_robustly(self._alone, *pair) for pair in pairs]
        plain = [k for k, field in enumerate(robust) if field is None]
        fields = iter(self._together([complete[k] for k in plain], [contexts[k] for k in plain]))
        return [next(fields) if field is None else field for field in robust]

    def _alone(self, complete: Trajectories, context: Trajectories) -> DictionaryField | DrivenField:
        return self._together([complete], [context])[0]

    def _together(
        self, complete: Sequence[Trajectories], contexts: Sequence[Trajectories]
    ) -> list[DictionaryField | DrivenField]:
        """Fields of contexts, with the posterior that their evidence gives."""
        if not complete:
            return []
        calibration = self.operator.calibration
        return [
            field
            if evidence is None or calibration is None or isinstance(field, DrivenField)
            else PosteriorField.of(field, partial(calibration.roots, evidence=evidence))
            for field, evidence in self._with_evidence(complete, contexts)
        ]

    def infer_with_evidence(
        self, contexts: Sequence[Trajectories]
    ) -> list[tuple[DictionaryField | DrivenField, Evidence | None]]:
        """Fields without their posterior, and what it is read off; see `training.calibration`.

        Parameters
        ----------
        contexts : sequence of Trajectories
            Of any number, length and dimension.

        Returns
        -------
        list of (DictionaryField, Evidence or None)
            None where there is no such posterior: beside exact models, which have one of their fit, and
            beside fits over windows, with inputs, known errors or knowledge, which have standard errors.

        Raises
        ------
        ValueError
            As `infer_many`.
        """
        return self._in_batches(self._with_evidence, contexts)

    def _with_evidence(
        self,
        complete: Sequence[Trajectories],
        contexts: Sequence[Trajectories],
        sigma: Known | None = None,
        errors: Known | None = None,
        positions: Sequence[str] | None = None,
    ) -> list[tuple[DictionaryField | DrivenField, Evidence | None]]:
        """As `infer_with_evidence`; ``errors`` of the complete samples of a single context.

        ``sigma`` are those of all its samples as they were given.
        """
        pairs = list(zip(complete, contexts, strict=True))
        questions = [
            self._question(*pair, positions, sigma, errors) if self._searches(pair[0]) else None
            for pair in pairs
        ]
        known = knowledge_with_positions(Knowledge.of(self.knowledge), positions)
        orders = [
            CanonicalOrder.of(samples, changing=known is None) if question is None else question.order
            for (samples, _), question in zip(pairs, questions, strict=True)
        ]
        answers = self._asked(orders, orders[0].errors(errors), known)
        return [
            self._unsearched(answer, order, context, known)
            if question is None
            else self._chosen(answer, question, self._portfolio(answer, question))
            for answer, question, order, context in zip(answers, questions, orders, contexts, strict=True)
        ]

    def _degree_of(self, complete: Trajectories) -> int | None:
        return self.degree

    def _asked(
        self, orders: Sequence[CanonicalOrder], errors: Known | None, known: Knowledge | None
    ) -> list["_Answer"]:
        """What the operator says of contexts: the nearest that prior knowledge allows."""
        seen = [order.trajectories for order in orders]
        said: dict[int, _Answer] = {}
        for dim in sorted({trajectories.dim for trajectories in seen}):
            alike = [k for k, trajectories in enumerate(seen) if trajectories.dim == dim]
            answers = _answers(self.operator, [_precise(seen[k], errors) for k in alike])
            said |= dict(zip(alike, answers, strict=True))
        return [said[k].constrained(known, trajectories) for k, trajectories in enumerate(seen)]

    def _portfolio(self, answer: "_Answer", question: Question) -> Portfolio:
        """The candidates that are searched about the operator's answer."""

        def estimate(search: Search) -> InitialEstimate:
            rows = (
                slice(None)
                if not search.observations.n_inputs
                else distinguishable(answer.dictionary, search.observations)
            )
            return InitialEstimate.scaled(search, answer.solves[:, rows], answer.variances[rows])

        return searched(question, self._row, estimate)

    def _chosen(
        self, answer: "_Answer", question: Question, found: Portfolio
    ) -> tuple[DictionaryField | DrivenField, Evidence | None]:
        """The preferred field, and what its posterior is read off."""
        best = found.members[int(found.preferred(found.log_weights)[0])]
        report = self._report | {
            "chosen": best.origin.text(question.order.coordinates),
            "candidates": len(found.members),
        }
        facts, seen = Inference(found.judge.name, notes=found.remarks), found.search.observations
        if found.exact_models:
            report["misses"] = found.exact_models[0].misses
            facts = question.facts(facts, found.search)
            exact = exact_field(found.exact_models[0], seen, question, report, facts)
            return question.with_deviation(exact, found) if found.closer else exact, None
        field = question.with_deviation(question.answer(best, report, facts, found.search), found)
        plain = question.is_plain and question.knowledge is None
        if not plain or question.errors is not None or seen.cut is not None:
            return field, None
        others = np.stack([member.coefficients for member in found.members])
        _, others = found.search.dictionary.rescaled(others, seen.scale, seen.time_unit)
        return field, answer.evidence(field, question.order, others, searched=True)

    def _unsearched(
        self, answer: "_Answer", order: CanonicalOrder, context: Trajectories, known: Knowledge | None
    ) -> tuple[DictionaryField | DrivenField, Evidence | None]:
        """The operator's own field, and what its posterior is read off."""
        facts, seen = Inference(), order.trajectories
        if self.refine:
            few = f"{Judge.OPERATOR.value}: fewer than {_FEWEST_SEARCHED} samples"
            facts = Inference(Judge.OPERATOR).noting(few)
        info, terms, best = (
            FitInfo(report=self._report, inference=facts),
            answer.dictionary,
            answer.solves[-1],
        )
        if seen.input_names:
            still = np.zeros((len(terms), len(seen.input_names)))
            driven = DrivenField.of(terms, np.concatenate([best, still], axis=1), seen, info)
            return honoured(order.field(driven, context), known, terms.degree), None
        field = order.field(DictionaryField(terms, best, fit_info=info), context)
        if known is not None:
            return honoured(field, known, terms.degree), None
        return field, answer.evidence(field, order, answer.solves, searched=False)

    @property
    def _report(self) -> dict[str, Any]:
        return {"operator": self.name, "weights": self.operator.version}

    def initial_estimates(self, contexts: Sequence[Trajectories]) -> list[tuple[np.ndarray, np.ndarray]]:
        """What the operator says of the coefficients of some contexts of one dimension.

        Parameters
        ----------
        contexts : sequence of Trajectories
            Samples with a missing coordinate are dropped.

        Returns
        -------
        list of (solves (S, m, d), variances (m, d))
            Successive estimates for the terms of ``Dictionary.polynomial(d, degree)``, and posterior
            variances of the last, in the units of the data.

        Raises
        ------
        ValueError
            As `infer_many`.
        """
        said = _answers(self.operator, self._complete(contexts))
        return [(answer.solves, answer.variances) for answer in said]

    @np.errstate(all="ignore")  # what overflows is judged by what comes of it
    def ensemble(self, n: int = 20, seed: int = 0, progress: bool | None = None) -> EnsembleField:
        """Fields drawn from what is known of the coefficients; where nothing is, a context bootstrap.

        Where a search chose the field, its candidates are drawn by their extended BIC, each with coefficients
        from the posterior of its own fit: bands of paths, since members follow the samples. (The search is
        repeated, which takes some hundredths of a second.) The operator's own field, and exact models, have
        draws from their posterior, as `field_.draws`.

        Parameters
        ----------
        n : int
            Number of members.
        seed : int
            Equal seeds give equal members.
        progress : bool, optional
            As of every model; draws take no time.

        Returns
        -------
        EnsembleField
        """
        field = self._fitted_field()
        check_members(self._caller, n, seed)
        if (again := self._again(field)) is not None:
            found, question = again
            draw = partial(question.draws, found, temperature=_TEMPERATURE)
            return bounded_members(draw, n, seed, field, question.context)
        drawn = field.draws(n, seed)
        return super().ensemble(n, seed, progress) if drawn is None else EnsembleField(drawn)

    def _find_rivals(self) -> Rivals | None:
        again = None if isinstance(self.field_, DrivenField) else self._again(self.field_)
        return None if again is None else again[1].rivals(again[0])

    @np.errstate(all="ignore")
    def _again(self, field: VectorField) -> tuple[Portfolio, Question] | None:
        """The candidates that a field was chosen among, once more; None where it was not."""
        facts = field.fit_info.inference
        if facts.judge not in (Judge.BIC, Judge.EXTENDED_BIC):
            return None
        seen = samples_of(field, self.context_)
        whole = completed(None, seen, self._sigma)
        positions = facts.positions or None
        question = self._question(whole.trajectories, seen, positions, self._sigma, whole.errors)
        (answer,) = self._asked([question.order], question.errors, question.knowledge)
        return self._portfolio(answer, question), question

    def _forecast_levels(self, field: VectorField) -> Levels | None:
        drawn = isinstance(field, PosteriorField | LawField)  # else members are fits to resamples
        return super()._forecast_levels(field) if drawn else None

    def alternatives(self) -> list[VectorFieldModel]:
        """The operator's own fields beside those of the search, or the other way round, and other functions.

        What no polynomial says biases both alike, at every value of a parameter; a search among textbook
        functions has other biases.
        """
        from fim_dynsys.models.symbolic import SymbolicModel  # deferred: a fit starts faster without

        return [
            FIMODE(self.weights, self.device, not self.refine, self.knowledge),
            SymbolicModel(knowledge=self.knowledge, progress=False),
        ]

    def card(self) -> str:
        """Model card of the weights, in Markdown: what they are, how they were made, what was measured.

        Raises
        ------
        ValueError
            For weights that the package's card does not describe.
        """
        return read_card(self.name, self.operator.version)


def fim_ode(
    weights: str | os.PathLike | None = None,
    device: str = "cpu",
    refine: bool = True,
    knowledge: Knowledge | None = None,
) -> FIMODE:
    """Our pretrained operator; its weights are part of the package. See `FIMODE`.

    Returns
    -------
    FIMODE
        Not yet fitted; the weights have been read.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file does not hold our operator's weights.
    """
    model = FIMODE(weights, device, refine, knowledge)
    _ = model.operator  # wrong weights are an error now, not at the first fit
    return model


class _Answer(NamedTuple):
    """What our operator says of one context, in the units of the data."""

    solves: np.ndarray  # (S, m, d) coefficients, the last are its best
    variances: np.ndarray  # (m, d) posterior variances of the last
    information: np.ndarray  # (d, m, m) what the data say of them
    dictionary: Dictionary  # the terms

    def constrained(self, knowledge: Knowledge | None, seen: Trajectories) -> "_Answer":
        """The nearest that satisfies what is known."""
        if knowledge is None:
            return self
        known = knowledge.restriction(self.dictionary, seen.state_names, seen.input_names)
        # what the data say, and what the operator expects besides: it alone where they say nothing
        precision = self.information.copy()
        terms = np.arange(len(self.dictionary))
        precision[:, terms, terms] += 1.0 / np.maximum(self.variances.T, 1e-300)
        return self._replace(solves=np.stack([known.nearest(solve, precision) for solve in self.solves]))

    def evidence(
        self, field: DictionaryField | DrivenField, order: CanonicalOrder, others: np.ndarray, searched: bool
    ) -> Evidence:
        """What the posterior of a field of these terms is read off; ``others`` are estimates beside it."""
        assert isinstance(field, DictionaryField)  # of contexts without inputs
        return Evidence.of(
            field,
            order.coefficients(self.dictionary, others),
            order.coefficients(self.dictionary, self.solves),
            order.coefficients(self.dictionary, self.variances),
            order.information(self.dictionary, self.information),
            searched,
        )


def n_used(complete: Trajectories) -> int:
    """Samples of trajectories that have two or more."""
    return int(complete.n_obs[complete.n_obs >= 2].sum())


def _precise(trajectories: Trajectories, errors: Known | None) -> Trajectories:
    """The samples that are known well, where their errors are known and some are."""
    if errors is None or isinstance(errors, Noise):
        return trajectories
    values = [x for _, x in trajectories.arrays()]
    rows = [np.flatnonzero(known.all(axis=1)) for known in precise(errors, values)]
    kept = [k for k, row in enumerate(rows) if len(row) >= 2]
    if sum(len(rows[k]) for k in kept) < MIN_OBSERVATIONS:
        return trajectories
    return trajectories[kept].select_samples([rows[k] for k in kept])


def _answers(operator: OwnOperator, complete: Sequence[Trajectories]) -> list[_Answer]:
    """What our operator says of contexts of one dimension, which it sees without units.

    It sees inputs as further states; what it says of their rates is left out.

    Contexts of more than 20,000 samples are thinned as `fim_dynsys.regression.thinning.thin` does.

    Raises
    ------
    ValueError
        Where those are not ordinary floating-point numbers.
    """
    dim = complete[0].dim
    plain = [dimensionless(thinned(_joined(context)).arrays()) for context in complete]
    dictionary = Dictionary.polynomial(dim + len(complete[0].input_names), operator.network.config.degree)
    exponents = dictionary.exponents
    said = []
    estimates = operator.network.estimates([samples for samples, _, _ in plain])
    for estimate, (samples, unit, span) in zip(estimates, plain, strict=True):
        solves, variances, information, scale = estimate
        solves[..., still(samples)] = 0.0  # what is there are rounding errors of sums that cancel
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            factor = unit / np.prod(unit**exponents, axis=1, keepdims=True) / span
            factors = factor.T
            answer = _Answer(
                (solves * factor)[..., :dim],
                (variances * factor**2)[:, :dim],
                (information / (factors[:, :, None] * factors[:, None]))[:dim],
                dictionary.rescaled(solves[-1], scale * unit)[0],
            )
        if not np.isfinite(answer.solves).all():
            raise ValueError(
                "fim-ode: expected states and times in which the coefficients are ordinary floating-point "
                f"numbers, got states of size {unit} over times of size {span}; change their units."
            )
        said.append(answer)
    return said


def _joined(context: Trajectories) -> Trajectories:
    """The context with its inputs as further states."""
    if not context.input_names:
        return context
    pairs = list(zip(context.arrays(), context.input_arrays(), strict=True))
    states = [np.concatenate([x, u], axis=1) for (_, x), u in pairs]
    return Trajectories.from_arrays(states, [t for (t, _), _ in pairs])
