"""How far what a fit may be as well differs from it beyond the data: what a fit knows of itself elsewhere."""

from collections.abc import Sequence

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.regions import Region
from fim_dynsys.trajectories.container import Trajectories

N_MEMBERS = 12
"""Draws that are compared: their mean square deviation is known within a third."""

_GROWN = 3.0  # times the box of the data: starts that users ask for lie as far out
_POINTS = 64  # in it; uniform, since an even sequence would take half a second to import


def deviation_elsewhere(
    field: VectorField, members: Sequence[VectorField], context: Trajectories
) -> float | None:
    """Root mean square deviation of the members' rates from the field's, in a box three times the data's.

    Parameters
    ----------
    field : VectorField
        Inferred.
    members : sequence of VectorField
        Draws of what it may be as well.
    context : Trajectories
        What it was inferred from.

    Returns
    -------
    float or None
        In standard deviations of the field's rates there, of the state where it is largest; None with inputs
        and where rates are not finite.
    """
    if isinstance(field, DrivenField) or not members:
        return None
    box = context.box()
    centre, half = (box.low + box.high) / 2.0, (box.high - box.low) / 2.0
    x = Region(centre - _GROWN * half, centre + _GROWN * half, box.names).uniform(_POINTS, 0)
    with np.errstate(all="ignore"):
        rates = field(x)
        spread = rates.var(axis=0)
        apart = np.mean([np.mean((member(x) - rates) ** 2, axis=0) for member in members], axis=0)
        largest = float(np.sqrt(np.max(apart / np.where(spread > 0.0, spread, 1.0))))
    return largest if np.isfinite(largest) else None
