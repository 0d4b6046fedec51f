"""Models that search: from observations to a question, and from candidates to one portfolio."""

import abc
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.ordering import CanonicalOrder
from fim_dynsys.models.outliers import inferred_robustly
from fim_dynsys.models.question import Question
from fim_dynsys.regression.criteria import Known, equal_errors, looks_noise_free
from fim_dynsys.regression.gaps import completed
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.exact.identification import ExactSearch
from fim_dynsys.search.exact.models import NOISE_FREE, NOISELESS
from fim_dynsys.search.initial_estimate import InitialEstimate
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.search.pool import Pool
from fim_dynsys.search.portfolio import Portfolio
from fim_dynsys.search.problem import Search
from fim_dynsys.search.proposers import NO_PLUGIN, Proposals, Proposer, named, proposers
from fim_dynsys.search.stages import Row
from fim_dynsys.search.units import homogeneous
from fim_dynsys.threads import on_one_thread
from fim_dynsys.trajectories.container import Trajectories

FITTED_EXACTLY = 12
"""Candidates that are fitted to noise-free data to numerical precision, too."""

_DOUBTED = 3  # candidates that are fitted so where the samples look noisy
_CONTRADICTED = 30.0  # times what exact equations miss: searches that are not exact come nearer than that


def _nothing() -> None:
    return None


class Asking:
    """Models that put what was observed as a `Question`."""

    _caller: str
    knowledge: Knowledge | None
    min_observations: int
    _asks: ClassVar[dict[str, Any]] = {}  # arguments of `Question.of` that never change

    def _question(
        self,
        complete: Trajectories,
        context: Trajectories,
        positions: Sequence[str] | None = None,
        sigma: Known | None = None,
        errors: Known | None = None,
        order: CanonicalOrder | None = None,
    ) -> Question:
        """What is asked of complete samples with their errors, and of the context with those given."""
        return Question.of(
            self._caller,
            complete,
            context,
            knowledge=self.knowledge,
            positions=positions,
            sigma=sigma,
            errors=errors,
            degree=self._degree_of(complete),
            least=self.min_observations,
            order=order,
            **self._asks,
        )

    @property
    def _fits_without_still_states(self) -> bool:
        return self.knowledge is None

    def _degree_of(self, complete: Trajectories) -> int | None:
        """Largest total degree of the monomials; None for what so many samples allow."""
        return None


class SearchedModel(Asking, VectorFieldModel):
    """A model that answers a `Question`; a subclass writes `_answer`.

    Observations with inputs, known errors, missing values, prior knowledge or positions alone are part of the
    question, the same for every model.
    """

    min_observations = 5
    takes = frozenset({"inputs", "positions", "sigma", "missing", "rates", "switches"})
    _leaves_outliers_out: ClassVar[bool] = True

    @np.errstate(all="ignore")  # what overflows is judged by what comes of it
    def infer(
        self,
        trajectories: Trajectories,
        positions: Sequence[str] | None = None,
        sigma: Known | None = None,
    ) -> VectorField:
        """Search on all trajectories together; those with a single complete sample say nothing.

        Parameters
        ----------
        trajectories : Trajectories
            The context.
        positions : sequence of str, optional
            States that were observed, the others being their velocities; see `fit` with ``order=2``.
        sigma : list of arrays (n, d), or Noise.POISSON, optional
            Known standard deviations of the observations; or these are counts. Fits, and the choice among
            them, weigh the samples.

        Raises
        ------
        ValueError
            If there are fewer complete samples than the model needs, or one of its parameters is not allowed.
        """
        return self._answered(self._answer, trajectories, positions, sigma)

    def _answered(
        self,
        answer: Callable[[Question], VectorField],
        trajectories: Trajectories,
        positions: Sequence[str] | None = None,
        sigma: Known | None = None,
    ) -> VectorField:
        """The answer to what was observed, without outliers where errors of all samples are alike."""
        whole = completed(self._caller, trajectories, sigma)

        def inferred(
            complete: Trajectories, context: Trajectories, errors: Known | None = None
        ) -> VectorField:
            return answer(self._question(complete, context, positions, sigma, errors))

        plain = positions is None and whole.errors is None and not trajectories.input_names
        field = None
        if plain and self._leaves_outliers_out:
            field = inferred_robustly(inferred, whole.trajectories, trajectories)
        return inferred(whole.trajectories, trajectories, whole.errors) if field is None else field

    @abc.abstractmethod
    def _answer(self, question: Question) -> VectorField:
        """The preferred field."""


@on_one_thread
def searched(
    question: Question,
    row: Row,
    estimate: Callable[[Search], InitialEstimate | None],
    besides: Sequence[Candidate] = (),
    seed: int = 0,
    done: Callable[[], object] = _nothing,
) -> Portfolio:
    """All that a row finds: exact models of noise-free samples alone, or candidates of noisy ones.

    Parameters
    ----------
    question : Question
        What is asked.
    row : Row
        What is searched.
    estimate : callable
        What an operator says of the coefficients of a search; it is only asked where none is exact.
    besides : sequence of Candidate
        Judged before; they join where candidates are compared.
    seed : int
        Of what plugins propose.
    done : callable
        Called as the work goes on.
    """
    search, effort = question.search, row.effort
    exact = ExactSearch(search, question.samples, composed=effort.composed)
    sought = effort.exact_structures if question.is_plain else None
    if sought is not None and (effort.simpler or looks_noise_free(question.samples)):
        exact.run(sought, effort.simpler)
    done()
    asked: list[_Asked] = []
    notes: dict[str, str] = {}
    if effort.ask_plugins:
        asked, notes = _ask(search, exact, equal_errors(question.errors), seed, done)
    if not (exact.settled and exact.preferred_allowed):
        noise_free = bool(exact.allowed)
        pool = Pool(search, estimate=estimate(search), besides=list(besides), whole=noise_free)
        pool = row.search(pool, done)
        grown = homogeneous(pool.search.observations, pool.functions, question.order.trajectories)
        if not noise_free:
            grown = _with_proposals(pool, asked, grown)
        local = effort.local and not noise_free
        found = Portfolio.of(pool, grown, notes, question.knowledge, local, row.judge)
        if exact.models:
            exact.fit(found.members[:FITTED_EXACTLY])
        elif sought is not None:
            # Slopes of fast transients look noisy where the samples are not: paths that miss little tell.
            exact.fit(c for c in found.members[:_DOUBTED] if _hardly_misses(c))
        if not (noise_free or exact.settled):
            return replace(found, remarks=contradicted(exact, found.members))
    return Portfolio.of_exact(exact.search, exact.answers, notes)


def contradicted(exact: ExactSearch, found: Sequence[Candidate]) -> tuple[str, ...]:
    """A remark where equations without the constraints miss far less: the samples contradict these."""
    without = next(iter(exact.models), None)
    if exact.search.restriction is None or without is None or found[0].variance is None:
        return ()
    observations = exact.search.observations
    missed = float(np.sqrt(np.mean(found[0].variance / np.maximum(observations.signal_variance, 1e-300))))
    if not missed > max(_CONTRADICTED * without.misses, NOISELESS):
        return ()
    return (
        f"the samples contradict the constraints: equations without them miss {without.misses:.1g} of the "
        f"signal, with them {missed:.1g}",
    )


def _hardly_misses(candidate: Candidate) -> bool:
    """Whether a path misses so little of each state that the samples may be free of noise."""
    return candidate.variance is not None and bool(np.all(candidate.variance < NOISE_FREE**2))


_Asked = tuple[str, Proposer, Proposals]
"""A plugin by its name in messages, and what it proposed."""


def _ask(
    search: Search, exact: ExactSearch, equal: bool, seed: int, done: Callable[[], object]
) -> tuple[list[_Asked], dict[str, str]]:
    """What plugins propose, tried as exact models where errors are equal, and what a report says of each."""
    asked: list[_Asked] = []
    notes = {}
    for plugin, proposer in proposers().items():
        with named(plugin):
            refusal = proposer.refusal(search)
            if refusal or exact.found:
                found = "not run: a short model fits the samples to numerical precision"
                notes[proposer.name] = f"not asked: {refusal}" if refusal else found
                continue
            proposals = proposer.propose(search.observations, exact.is_free_of_noise, seed, done)
        asked.append((plugin, proposer, proposals))
        notes[proposer.name] = proposals.note
        if equal and exact.is_nearly_noise_free:
            exact.fit_state_equations(proposals.sides, proposer.name)
    return asked, notes or {"proposals": NO_PLUGIN}


def _with_proposals(pool: Pool, asked: Sequence[_Asked], grown: list[Candidate]) -> list[Candidate]:
    """Candidates with functions and proposals of plugins, best first."""
    for plugin, proposer, proposals in asked:
        best = min([pool.candidates[0], *grown[:1]], key=lambda m: m.score)
        with named(plugin):
            fits = proposer.fitted(pool.search.observations, proposals, best)
        grown = sorted(grown + fits, key=lambda m: m.score)
    return grown
