"""Fields of exact models of noise-free data, and what reports note on them."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.inference import Inference
from fim_dynsys.fields.posterior import LawField
from fim_dynsys.models.constraints_applied import honoured
from fim_dynsys.models.orbits import noting_one_orbit
from fim_dynsys.models.ordering import CanonicalOrder
from fim_dynsys.models.question import Question
from fim_dynsys.regression.observed import Observations
from fim_dynsys.search.exact.models import ExactModel
from fim_dynsys.search.exact.relations import relations
from fim_dynsys.search.standard_errors import exact_roots


def with_relations(
    inference: Inference, model: ExactModel, observations: Observations, order: CanonicalOrder
) -> Inference:
    """The facts of an inference with the equations that hold along the samples.

    Multiples of these could be added to the right-hand sides: the samples do not determine them.
    """
    path = np.concatenate(model.fit.paths) * observations.scale
    states = np.sort(order.states)
    names = [order.trajectories.state_names[k] for k in np.argsort(order.states)]
    found = relations(order.whole(path)[:, states], names)
    if not found:
        return inference
    multiples = "its multiples" if len(found) == 1 else "their multiples"
    note = f"{' and '.join(found)} along the data, so {multiples} are not determined"
    return replace(inference, undetermined=tuple(found)).noting(note)


def exact_answer(
    model: ExactModel,
    observations: Observations,
    question: Question,
    report: dict[str, Any],
    inference: Inference,
) -> tuple[DictionaryField, dict[str, Any]]:
    """The field of an exact model in the units of its context, and what `exact_roots` is to know of it."""
    item, order, degree = model.item, question.order, question.search.dictionary.degree
    known = with_relations(inference, model, observations, order)
    given = order.field(item.field(observations, order.trajectories, report, known), question.context)
    field = noting_one_orbit(honoured(given, question.knowledge, degree), question.context)
    assert isinstance(field, DictionaryField)  # exact models are of samples without inputs
    free = order.free(item.dictionary, item.free)
    return field, {"free": free, "knowledge": question.knowledge, "degree": degree}


def exact_field(
    model: ExactModel,
    observations: Observations,
    question: Question,
    report: dict[str, Any],
    inference: Inference,
) -> LawField:
    """The same with the posterior of the fit."""
    field, known = exact_answer(model, observations, question, report, inference)
    return LawField.of(field, partial(exact_roots, **known))
