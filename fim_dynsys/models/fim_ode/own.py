"""Our operator as a model: weights and observations in, polynomial fields out.

A little above five hundred lines: one model, with inputs and without, on one context and in batches.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
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
from fim_dynsys.models.constraints_applied import honoured, with_errors
from fim_dynsys.models.fim_ode.batching import PretrainedModel
from fim_dynsys.models.fim_ode.calibration import Evidence
from fim_dynsys.models.fim_ode.card import read_card
from fim_dynsys.models.fim_ode.choice import MIN_OBSERVATIONS, ROW, Shortlist, consider
from fim_dynsys.models.fim_ode.operators import OwnOperator, own_operator
from fim_dynsys.models.fim_ode.weights import shipped
from fim_dynsys.models.forecast_levels import Levels
from fim_dynsys.models.inputs import assumed
from fim_dynsys.models.law_notes import law_field
from fim_dynsys.models.members import check_members
from fim_dynsys.models.ordering import CanonicalOrder
from fim_dynsys.models.outliers import inferred_robustly, samples_of
from fim_dynsys.models.second_order import knowledge_with_positions
from fim_dynsys.models.trust import Rivals, deviation, points_elsewhere, preferred
from fim_dynsys.regression.criteria import Known, Noise, precise
from fim_dynsys.regression.dimensionless import dimensionless, still
from fim_dynsys.regression.gaps import completed, errors_of_pairs, has_gaps
from fim_dynsys.regression.thinning import thinned
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.functions.fits import FunctionCandidate
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.search.selector import Selector
from fim_dynsys.search.stages import Row
from fim_dynsys.trajectories.container import Trajectories

DEFAULT_WEIGHTS = "fim-ode"
_SEARCH = 14  # raised when the search changes


class FIMODE(PretrainedModel):
    """Our pretrained operator, which reads the vector field off the observations in one pass.

    What is inferred is a polynomial field in closed form, with a posterior where the weights hold one. The
    operator's initial estimate also starts a short search: structures that it and a few sparse regressions
    suggest are fitted to the trajectories themselves, and a small network, trained like the operator on known
    systems, chooses among all of them; `field_.fit_info.report` says which one won. Samples with hardly any
    noise are fitted to numerical precision instead, functions tried where no polynomial explains them;
    samples that neither their neighbours nor the fitted path explain are left out. Below twelve samples there
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
    uses_inputs = uses_order = uses_sigma = accepts_missing = weighs_x_dot = True

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

    @property
    def _selector(self) -> Selector | None:
        """What chooses among the candidates; None for the BIC."""
        return self.operator.selector if self._row.judge is Judge.SELECTOR else None

    @property
    def _unsearched(self) -> Inference:
        """The facts of an inference where the operator answers alone."""
        if not self.refine:
            return Inference()
        few = f"{Judge.OPERATOR.value}: fewer than {MIN_OBSERVATIONS} samples"
        return Inference(Judge.OPERATOR).noting(few)

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
            States that were observed, the others being their velocities; see `fit` with ``order=2``. The best
            BIC chooses then.

        Raises
        ------
        ValueError
            As `infer_many`; with ``sigma`` or ``positions`` where there is no search, or there are too few
            samples for one.
        """
        if sigma is None and positions is None and not has_gaps(trajectories):
            return super().infer_many([trajectories])[0]
        check_flags(self._caller, refine=self.refine)
        whole = completed(self._caller, trajectories, sigma)
        complete, errors = whole.trajectories, errors_of_pairs(whole)
        self._check_limits(complete, self.max_dim)
        complete = complete[np.flatnonzero(complete.n_obs >= 2)]
        few = int(complete.n_obs.sum()) < MIN_OBSERVATIONS
        if (sigma is not None or positions is not None) and (few or not self.refine):
            what = "sigma" if positions is None else "order=2"
            raise ValueError(
                f"{self._caller}: expected a search with {what}, which the operator alone does not look at, "
                f"got refine={self.refine} and {int(complete.n_obs.sum())} samples; give "
                f"refine=True and at least {MIN_OBSERVATIONS}."
            )
        if trajectories.input_names or positions is not None:
            return self._by_criterion(complete, trajectories, errors, sigma, positions)
        return self._with_evidence([complete], [trajectories], errors, sigma)[0][0]

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
        apart = {k: self.infer(own) for k, own in enumerate(contexts) if has_gaps(own)}
        together = iter(super().infer_many([own for k, own in enumerate(contexts) if k not in apart]))
        return [apart[k] if k in apart else next(together) for k in range(len(contexts))]

    def infer_batch(
        self, complete: Sequence[Trajectories], contexts: Sequence[Trajectories]
    ) -> Sequence[DictionaryField | DrivenField]:
        """Fields of contexts of one dimension, with a posterior where the weights hold one.

        With inputs there is none: the operator sees them as further states, what it says of their rates is
        left out, and the best BIC chooses.
        """
        check_flags(self._caller, refine=self.refine)
        if contexts[0].input_names:
            return [self._by_criterion(*pair) for pair in zip(complete, contexts, strict=True)]
        pairs = zip(complete, contexts, strict=True)
        robust = [inferred_robustly(self._alone, *pair) if self.refine else None for pair in pairs]
        plain = [k for k, field in enumerate(robust) if field is None]
        fields = iter(self._together([complete[k] for k in plain], [contexts[k] for k in plain]))
        return [next(fields) if field is None else field for field in robust]

    def _alone(self, complete: Trajectories, context: Trajectories) -> DictionaryField:
        return self._together([complete], [context])[0]

    def _together(
        self, complete: Sequence[Trajectories], contexts: Sequence[Trajectories]
    ) -> list[DictionaryField]:
        if not complete:
            return []
        known, calibration = self._with_evidence(complete, contexts), self.operator.calibration
        if calibration is None or self.knowledge is not None:
            return [field for field, _ in known]
        return [
            f if e is None else PosteriorField.of(f, partial(calibration.roots, evidence=e)) for f, e in known
        ]

    def _by_criterion(
        self,
        complete: Trajectories,
        context: Trajectories,
        errors: Known | None = None,
        sigma: Known | None = None,
        positions: Sequence[str] | None = None,
    ) -> DictionaryField | DrivenField:
        """The field of one context with inputs, or of positions alone: the best by BIC.

        ``errors`` are those of the complete samples, ``sigma`` those that were given.
        """
        known = knowledge_with_positions(Knowledge.of(self.knowledge), positions)
        order = CanonicalOrder.of(complete)
        errors = order.errors(errors)
        seen, states = order.trajectories, slice(complete.dim)
        shown = _precise(seen, errors)
        driven = bool(seen.input_names)
        inputs = shown.input_arrays() if driven else [x[:, :0] for _, x in shown.arrays()]
        pairs = zip(shown.arrays(), inputs, strict=True)
        joined = [(t, np.concatenate([x, u], axis=1)) for (t, x), u in pairs]
        whole = Trajectories.from_arrays([x for _, x in joined], [t for t, _ in joined])
        (answer,) = _answers(self.operator, [whole])
        report: dict[str, Any] = {"operator": self.name, "weights": self.operator.version}
        solves, variances = answer.solves[..., states], answer.variances[:, states]
        found = None
        if self.refine:
            found = consider(
                seen,
                answer.dictionary,
                solves,
                variances,
                known,
                known=errors,
                row=self._row,
                positions=positions,
            )
        if found is not None:
            best, choice, facts = found.choose(None)
            assert isinstance(best, Candidate)  # there are no exact models with inputs or of positions
            facts = replace(_with_errors_of(sigma, facts), positions=tuple(positions or ()))
            field = best.field(found.search, seen, report | choice, facts)
            assert isinstance(field, DictionaryField | DrivenField)
            if not driven:
                own = order.field(field, context)
                degree = answer.dictionary.degree
                return with_errors(own, best.refined, knowledge=known, degree=degree, positions=positions)
            return honoured(order.field(field, context), known, answer.dictionary.degree)
        best_solve = solves[-1]
        if known is not None:
            allowed = known.restriction(answer.dictionary, seen.state_names, seen.input_names)
            best_solve = allowed.nearest(best_solve, 1.0 / np.maximum(variances, 1e-300))
        still = np.zeros((len(answer.dictionary), len(seen.input_names)))
        coefficients = np.concatenate([best_solve, still], axis=1)
        info = FitInfo(report=report, inference=self._unsearched)
        return order.field(DrivenField.of(answer.dictionary, coefficients, seen, info), context)

    def infer_with_evidence(
        self, contexts: Sequence[Trajectories]
    ) -> list[tuple[DictionaryField, Evidence | None]]:
        """Fields without their posterior, and what it is read off; see `training.calibration`.

        Parameters
        ----------
        contexts : sequence of Trajectories
            Of any number, length and dimension.

        Returns
        -------
        list of (DictionaryField, Evidence or None)
            None beside exact models, which have their posterior from their fit.

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
        errors: Known | None = None,
        sigma: Known | None = None,
    ) -> list[tuple[DictionaryField, Evidence | None]]:
        """As `infer_with_evidence`; ``errors`` of the complete samples of a single context.

        ``sigma`` are those of all its samples as they were given.
        """
        operator = self.operator
        pairs: list[tuple[DictionaryField, Evidence | None]] = []
        orders = [CanonicalOrder.of(samples) for samples in complete]
        errors = orders[0].errors(errors)
        said = _answers(operator, [_precise(order.trajectories, errors) for order in orders])
        knowledge = Knowledge.of(self.knowledge)
        for answer, order, context in zip(said, orders, contexts, strict=True):
            answer = answer.constrained(knowledge, order.trajectories.state_names)
            report: dict[str, Any] = {"operator": self.name, "weights": operator.version}
            found = None
            if self.refine:
                found = consider(
                    order.trajectories,
                    answer.dictionary,
                    answer.solves,
                    answer.variances,
                    knowledge,
                    known=errors,
                    row=self._row,
                )
            if found is None:
                info = FitInfo(report=report, inference=self._unsearched)
                field: DictionaryField | DrivenField = DictionaryField(
                    answer.dictionary, answer.solves[-1], fit_info=info
                )
                others = answer.solves
            else:
                best, choice, facts = found.choose(self._selector)
                facts = _with_errors_of(sigma, facts)
                if isinstance(best, FunctionCandidate):
                    law, seen = found.laws[0], found.search.observations
                    pairs.append((law_field(law, seen, order, context, report | choice, facts), None))
                    continue
                inferred = best.field(found.search, order.trajectories, report | choice, facts)
                assert isinstance(inferred, DictionaryField)
                if errors is not None or found.in_windows:
                    own, degree = order.field(inferred, context), answer.dictionary.degree
                    constrained = with_errors(
                        own,
                        best.refined,
                        knowledge=knowledge,
                        degree=degree,
                        sigma=sigma,
                        window=facts.window,
                    )
                    assert isinstance(constrained, DictionaryField)
                    pairs.append((_with_deviation(constrained, order, inferred.dictionary, found), None))
                    continue
                field = inferred
                others = found.coefficients if found.candidates else answer.solves
            assert isinstance(field, DictionaryField)  # of contexts without inputs
            given = honoured(order.field(field, context), knowledge, answer.dictionary.degree)
            assert isinstance(given, DictionaryField)
            if found is not None and found.candidates:
                given = _with_deviation(given, order, field.dictionary, found)
            evidence = Evidence.of(
                given,
                order.coefficients(field.dictionary, others),
                order.coefficients(answer.dictionary, answer.solves),
                order.coefficients(answer.dictionary, answer.variances),
                order.information(answer.dictionary, answer.information),
                searched=found is not None,
            )
            pairs.append((given, evidence))
        return pairs

    def opinions(self, contexts: Sequence[Trajectories]) -> list[tuple[np.ndarray, np.ndarray]]:
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

        Where a search chose the field, its candidates are drawn by the selector's weights, each with
        coefficients from the posterior of its own fit: bands of paths, since members follow the samples. (The
        search is repeated, which takes some hundredths of a second.) The operator's own field, and exact
        models, have draws from their posterior, as `field_.draws`.

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
        if (members := self._candidates(field, n, seed)) is not None:
            return members
        drawn = field.draws(n, seed)
        return super().ensemble(n, seed, progress) if drawn is None else EnsembleField(drawn)

    def _refit_members(self, field: VectorField, contexts: Iterable[Trajectories]) -> list[VectorField]:
        positions = field.fit_info.inference.positions
        if not positions:
            return super()._refit_members(field, contexts)
        return [self.infer(context, positions=positions) for context in contexts]

    def _candidates(self, field: VectorField, n: int, seed: int) -> EnsembleField | None:
        """Draws from the candidates that a field was chosen among, by a selector or over windows."""
        selector, facts = self._selector, field.fit_info.inference
        learned = isinstance(field, PosteriorField) and facts.judge is Judge.SELECTOR
        windows = facts.window is not None and self._sigma is None and self.knowledge is None
        if not (learned or windows) or selector is None or isinstance(field, DrivenField):
            return None
        seen = samples_of(field, self.context_)
        order, found = self._considered(seen)
        if found is None or found.laws:
            return None
        drawn = found.draws(selector, n, np.random.default_rng(seed))
        fields = [m.field(found.search.observations, order.trajectories, {}) for m in drawn]
        return EnsembleField([order.field(own, seen) for own in fields])

    def _find_rivals(self) -> Rivals | None:
        field = self.field_
        if not self.refine or isinstance(field, LawField | DrivenField) or self._sigma is not None:
            return None
        if field.fit_info.inference.positions:
            return None
        seen = samples_of(field, self.context_)
        order, found = self._considered(seen)
        if found is None or found.laws:
            return None
        members = [FunctionCandidate(c, found.search.dictionary) for c in found.candidates]

        def made(k: int) -> VectorField:
            return order.field(members[k].field(found.search.observations, order.trajectories, {}), seen)

        return Rivals.of(-0.5 * np.array([c.score for c in found.candidates]), made)

    def _considered(self, seen: Trajectories) -> tuple[CanonicalOrder, Shortlist | None]:
        """What was searched in a context, once more."""
        order = CanonicalOrder.of(self._complete([seen])[0])
        (answer,) = _answers(self.operator, [order.trajectories])
        knowledge = Knowledge.of(self.knowledge)
        answer = answer.constrained(knowledge, order.trajectories.state_names)
        return order, consider(
            order.trajectories, answer.dictionary, answer.solves, answer.variances, knowledge, row=self._row
        )

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


def _with_deviation(
    field: DictionaryField, order: CanonicalOrder, terms: Dictionary, found: Shortlist
) -> DictionaryField:
    """The field with how far the other candidates, whose coefficients are of ``terms``, differ elsewhere."""
    assert field.context is not None
    places, weights = preferred(-0.5 * np.array([c.score for c in found.candidates]))
    x = points_elsewhere(field.context)
    rivals = field.dictionary.evaluate(x) @ order.coefficients(terms, found.coefficients[places])
    known = replace(field.fit_info.inference, elsewhere=deviation(field(x), rivals, weights))
    return field.with_inference(known)


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

    def constrained(self, knowledge: Knowledge | None, state_names: Sequence[str]) -> "_Answer":
        """The nearest that satisfies what is known."""
        if knowledge is None:
            return self
        known = knowledge.restriction(self.dictionary, state_names)
        # what the data say, and what the operator expects besides: it alone where they say nothing
        precision = self.information.copy()
        terms = np.arange(len(self.dictionary))
        precision[:, terms, terms] += 1.0 / np.maximum(self.variances.T, 1e-300)
        return self._replace(solves=np.stack([known.nearest(solve, precision) for solve in self.solves]))


def _with_errors_of(sigma: Known | None, inference: Inference) -> Inference:
    """The facts of an inference with what is assumed of known errors."""
    return inference if sigma is None else replace(inference, noise=assumed(sigma))


def _precise(trajectories: Trajectories, errors: Known | None) -> Trajectories:
    """The samples that are known well, where their errors are known and some are."""
    if errors is None or isinstance(errors, Noise):
        return trajectories
    rows = [np.flatnonzero(own.all(axis=1)) for own in precise(errors)]
    kept = [k for k, own in enumerate(rows) if len(own) >= 2]
    if sum(len(rows[k]) for k in kept) < MIN_OBSERVATIONS:
        return trajectories
    return trajectories[kept].select_samples([rows[k] for k in kept])


def _answers(operator: OwnOperator, complete: Sequence[Trajectories]) -> list[_Answer]:
    """What our operator says of contexts of one dimension, which it sees without units.

    Contexts of more than 20,000 samples are thinned as `fim_dynsys.regression.thinning.thin` does.

    Raises
    ------
    ValueError
        Where those are not ordinary floating-point numbers.
    """
    dim = complete[0].dim
    plain = [dimensionless(thinned(context).arrays()) for context in complete]
    dictionary = Dictionary.polynomial(dim, operator.network.config.degree)
    exponents = dictionary.exponents
    said = []
    estimates = operator.network.estimates([samples for samples, _, _ in plain])
    for estimate, (samples, unit, span) in zip(estimates, plain, strict=True):
        solves, variances, information, scale = estimate
        solves[..., still(samples)] = 0.0  # what is there are rounding errors of sums that cancel
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            factor = unit / np.prod(unit**exponents, axis=1, keepdims=True) / span
            own = factor.T
            answer = _Answer(
                solves * factor,
                variances * factor**2,
                information / (own[:, :, None] * own[:, None]),
                dictionary.rescaled(solves[-1], scale * unit)[0],
            )
        if not np.isfinite(answer.solves).all():
            raise ValueError(
                "fim-ode: expected states and times in which the coefficients are ordinary floating-point "
                f"numbers, got states of size {unit} over times of size {span}; change their units."
            )
        said.append(answer)
    return said
