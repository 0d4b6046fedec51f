"""Fields of laws of clean data, and what reports say of them and of a choice that needs a reason."""

from functools import partial
from typing import Any

import numpy as np

from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.posterior import LawField
from fim_dynsys.models.ordering import Ordered
from fim_dynsys.regression.observed import Observations
from fim_dynsys.search.exact.laws import Law
from fim_dynsys.search.exact.relations import relations
from fim_dynsys.search.standard_errors import law_roots
from fim_dynsys.trajectories.container import Trajectories


def law_notes(law: Law, observations: Observations, order: Ordered) -> dict[str, Any]:
    """For the report of a field: which equations hold along the samples, whose multiples they leave open.

    Empty where there are none.
    """
    path = np.concatenate(law.fit.paths) * observations.scale
    seen = np.empty_like(path)
    seen[:, order.states] = path
    names = np.empty(path.shape[1], dtype=object)
    names[order.states] = order.trajectories.state_names
    found = relations(seen, list(names))
    if not found:
        return {}
    note = f"not determined by these data: multiples of what holds along them, {' and '.join(found)}"
    return {"not determined": found, "note": note}


def law_field(
    law: Law, observations: Observations, order: Ordered, context: Trajectories, report: dict[str, Any]
) -> LawField:
    """The field of a law in the units of its context, with the posterior of the fit and a report."""
    item = law.item
    said = report | law_notes(law, observations, order)
    field = order.field(item.field(observations, order.trajectories, said), context)
    assert isinstance(field, DictionaryField)  # laws are of samples without inputs
    return LawField.of(field, partial(law_roots, free=order.free(item.dictionary, item.free)))


def preference_note(origin: str, behind: float) -> str:
    """Why a selector's choice is no mistake though a structure has a clearly smaller BIC."""
    return (
        f"preferred to {origin}, whose BIC is {behind:.0f} smaller, because on known systems answers like it "
        "went on better"
    )


def noted(report: dict[str, Any], said: str) -> dict[str, Any]:
    """The report with another note behind those that it has."""
    return report | {"note": f"{report['note']}; {said}" if "note" in report else said}
