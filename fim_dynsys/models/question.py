"""What a search is asked, and how a candidate becomes its answer: the same for every searched model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.inference import Inference
from fim_dynsys.models.constraints_applied import with_errors
from fim_dynsys.models.inputs import assumed
from fim_dynsys.models.ordering import CanonicalOrder
from fim_dynsys.models.second_order import knowledge_with_positions
from fim_dynsys.models.trust import (
    N_DRAWS,
    Rivals,
    deviation,
    deviation_by_constants,
    inputs_elsewhere,
    points_elsewhere,
    together,
)
from fim_dynsys.regression.criteria import Known, equal_errors
from fim_dynsys.regression.observed import complete_inputs, complete_samples
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.functions.families import radians_per_unit
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.search.pool import over_windows
from fim_dynsys.search.portfolio import Portfolio
from fim_dynsys.search.problem import Search
from fim_dynsys.trajectories.container import Trajectories

_Field = TypeVar("_Field", bound=VectorField)


@dataclass(frozen=True)
class Question:
    """Observations in an order and units that they determine, terms, and prior knowledge.

    Attributes
    ----------
    search : Search
        Observations without units, monomials of states and inputs, and their constraints.
    samples : list of (t (n,), x (n, d))
        In the units of the data, in the canonical order.
    order : CanonicalOrder
        Of states and trajectories.
    context : Trajectories
        The observations as given, which the field is to keep.
    knowledge : Knowledge or None
        What every candidate satisfies.
    positions : tuple of str
        States that were observed where the others are their velocities; empty for all.
    sigma : Known or None
        Errors of the observations as given.
    errors : Known or None
        The same of the samples.
    """

    search: Search
    samples: list[tuple[np.ndarray, np.ndarray]]
    order: CanonicalOrder
    context: Trajectories
    knowledge: Knowledge | None = None
    positions: tuple[str, ...] = ()
    sigma: Known | None = None
    errors: Known | None = None

    @classmethod
    def of(
        cls,
        caller: str,
        complete: Trajectories,
        context: Trajectories | None = None,
        *,
        knowledge: Knowledge | None = None,
        positions: Sequence[str] | None = None,
        sigma: Known | None = None,
        errors: Known | None = None,
        degree: int | None = None,
        angles: bool = True,
        least: int = 5,
        order: CanonicalOrder | None = None,
    ) -> Self:
        """The question that observations ask.

        Parameters
        ----------
        caller : str
            Named in errors.
        complete : Trajectories
            Complete samples, of inputs too where there are any.
        context : Trajectories, optional
            As given; default the complete samples.
        knowledge, positions, sigma
            As a model takes them.
        errors : list of arrays (n, d), Noise or None
            Of the complete samples, see `completed`.
        degree : int, optional
            Largest total degree of the monomials; default what so many samples allow.
        angles : bool
            Whether states without a unit count as angles in radians.
        least : int
            Number of samples below which nothing is asked.
        order : CanonicalOrder, optional
            Of the complete samples; default the canonical one.

        Raises
        ------
        ValueError
            For fewer samples, and for knowledge that does not fit the terms.
        """
        if order is None:
            order = CanonicalOrder.of(complete, changing=knowledge is None and positions is None)
        context = complete if context is None else context
        seen, names = order.trajectories, order.trajectories.state_names
        samples = complete_samples(seen, caller, least)
        inputs = complete_inputs(seen, caller)
        known = knowledge_with_positions(Knowledge.of(knowledge), positions)
        errors = order.errors(errors)
        search = Search.polynomial(samples, degree, radians_per_unit(seen) if angles else None, inputs)
        search = search.knowing(known, names, seen.input_names).observing(positions, names).measured(errors)
        return cls(search, samples, order, context, known, tuple(positions or ()), sigma, errors)

    @property
    def is_plain(self) -> bool:
        """Whether exact equations may be read off: no inputs, all states observed, errors all alike."""
        plain = not self.search.observations.n_inputs and not self.positions
        return plain and equal_errors(self.errors)

    def knowing(self, knowledge: Knowledge) -> Self:
        """The same question where something is known; nothing was before."""
        seen = self.order.trajectories
        search = self.search.knowing(knowledge, seen.state_names, seen.input_names)
        return replace(self, search=search, knowledge=knowledge)

    def facts(self, inference: Inference, search: Search) -> Inference:
        """The facts of an inference with what was asked: errors, positions alone, still states, windows."""
        given = {} if self.knowledge is None else dict(self.knowledge.known)
        names = self.context.state_names
        rates = tuple(name for name, text in given.items() if str(text).strip() in names)
        known = replace(inference, positions=self.positions, rates=() if self.positions else rates)
        if left := self.order.left_out(self.context.state_names):
            known = known.noting(f"left out of all equations, as they never change: {', '.join(left)}")
        if self.sigma is not None:
            known = replace(known, noise=assumed(self.sigma))
        return over_windows(search.observations, known)

    def answer(
        self,
        candidate: Candidate,
        report: dict[str, Any],
        inference: Inference,
        search: Search | None = None,
    ) -> DictionaryField | DrivenField:
        """A candidate as a field in the units and order of the data, with its standard errors.

        Parameters
        ----------
        candidate : Candidate
            Of the search.
        report : dict
            For ``field.fit_info``.
        inference : Inference
            Who chose, and what else is to be noted.
        search : Search, optional
            What the candidate was compared over; default the question's.
        """
        search = self.search if search is None else search
        known = self.facts(inference, search)
        found = candidate.field(search.observations, self.order.trajectories, report, known)
        return with_errors(
            self.order.field(found, self.context),
            candidate.refined,
            free=self.order.free(candidate.dictionary, candidate.free),
            knowledge=self.knowledge,
            degree=search.dictionary.degree,
            positions=self.positions or None,
            sigma=self.sigma,
            window=known.window,
        )

    def rivals(self, found: Portfolio) -> Rivals:
        """The most preferred members; draws from exact equations, which are as far off as mimics are.

        Exact equations of more terms that come closer to the samples count as much as all draws.
        """
        observations, order = found.search.observations, self.order

        def made(item: Candidate) -> VectorField:
            return order.field(item.field(observations, order.trajectories, {}), self.context)

        if found.exact_models:
            drawn, closer = self.draws(found, N_DRAWS, 0), [made(item) for item in found.closer]
            shares = [np.full(len(part), 1.0 / len(part)) for part in (drawn, closer) if part]
            return Rivals([*drawn, *closer], np.concatenate(shares) / len(shares))
        return Rivals.of(found.log_weights, lambda k: made(found.members[k]))

    def with_deviation(self, field: _Field, found: Portfolio) -> _Field:
        """A field with how far its rivals differ elsewhere, at states that do not depend on their order."""
        rivals = self.rivals(found)
        seen = self.order.trajectories
        at = self.order.whole(points_elsewhere(seen)), *inputs_elsewhere(seen)
        with np.errstate(all="ignore"):
            rates = np.stack([rival(*at) for rival in rivals.fields])
            apart = deviation(field(*at), rates, rivals.weights, self.context)
        apart = together(apart, deviation_by_constants(field, self.context))
        return field.with_fit_info(inference=replace(field.fit_info.inference, elsewhere=apart))

    def draws(
        self, found: Portfolio, n: int, seed: int, temperature: float = 1.0, place: int | None = None
    ) -> list[VectorField]:
        """Fields of candidates that `Portfolio.draws` draws, in the units and order of the data.

        ``temperature`` divides the logarithms of their weights; with ``place`` all are of that member.
        """
        weights = found.log_weights / temperature
        if place is not None:
            weights = np.where(np.arange(len(found.members)) == place, 0.0, -np.inf)
        drawn = found.draws(weights, n, np.random.default_rng(seed))
        observations, order = found.search.observations, self.order
        return [order.field(m.field(observations, order.trajectories, {}), self.context) for m in drawn]
