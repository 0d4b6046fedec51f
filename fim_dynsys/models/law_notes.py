"""What a report says of a law of clean data, and of a choice that needs a reason."""

from typing import Any

import numpy as np

from fim_dynsys.models.ordering import Ordered
from fim_dynsys.regression.observed import Observations
from fim_dynsys.search.exact.laws import Law
from fim_dynsys.search.exact.relations import relations


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


def preference_note(origin: str, behind: float) -> str:
    """Why a selector's choice is no mistake though a structure has a clearly smaller BIC."""
    return (
        f"preferred to {origin}, whose BIC is {behind:.0f} smaller, because on known systems answers like it "
        "went on better"
    )


def noted(report: dict[str, Any], said: str) -> dict[str, Any]:
    """The report with another note behind those that it has."""
    return report | {"note": f"{report['note']}; {said}" if "note" in report else said}
