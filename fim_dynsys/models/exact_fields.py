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
from fim_dynsys.regression.observed import Observations
from fim_dynsys.search.exact.models import ExactModel
from fim_dynsys.search.exact.relations import relations
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.search.standard_errors import exact_roots
from fim_dynsys.trajectories.container import Trajectories


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


def exact_field(
    model: ExactModel,
    observations: Observations,
    order: CanonicalOrder,
    context: Trajectories,
    report: dict[str, Any],
    inference: Inference,
    knowledge: Knowledge | None = None,
    degree: int = 0,
) -> LawField:
    """The field of an exact model in the units of its context, with the posterior of the fit and a report.

    ``knowledge`` is what it was searched with, of monomials up to ``degree``.
    """
    item = model.item
    known = with_relations(inference, model, observations, order)
    given = order.field(item.field(observations, order.trajectories, report, known), context)
    field = noting_one_orbit(honoured(given, knowledge, degree), context)
    assert isinstance(field, DictionaryField)  # exact models are of samples without inputs
    free = order.free(item.dictionary, item.free)
    return LawField.of(field, partial(exact_roots, free=free, knowledge=knowledge, degree=degree))
