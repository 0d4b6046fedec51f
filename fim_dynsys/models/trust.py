"""How far the members of a fit agree where there are no data: what a fit knows of itself elsewhere."""

from collections.abc import Sequence

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.models.judging import judged
from fim_dynsys.regions import Region
from fim_dynsys.trajectories.container import Trajectories

N_MEMBERS = 8
"""Members that are compared."""

_STARTS = 8  # in the box of the data, spread evenly
_TIMES = 60  # of each path
_LEAST = -1.0  # R2 that a path counts with at least: one that explodes is no worse than one that is wrong


def agreement_elsewhere(
    field: VectorField, members: Sequence[VectorField], context: Trajectories
) -> float | None:
    """Mean R2 of the members' paths against those of the field, from starts spread over the box of the data.

    As well as the members predict the field's paths, the field may be expected to predict true ones, where
    it is itself a draw like the members.

    Parameters
    ----------
    field : VectorField
        Inferred.
    members : sequence of VectorField
        Draws of what it may be, or resampled fits.
    context : Trajectories
        What it was inferred from; paths are as long as the longest record.

    Returns
    -------
    float or None
        1 where they all agree, at least -1; None with inputs, or where the field's own paths end early.
    """
    if isinstance(field, DrivenField) or not members:
        return None
    starts = list(Region(context.box()).sobol(_STARTS))
    t = np.linspace(0.0, max(float(own[-1] - own[0]) for own, _ in context.arrays()), _TIMES)
    with np.errstate(all="ignore"):
        paths = judged(field, starts, [t] * _STARTS).paths
        whole = [k for k, path in enumerate(paths) if np.isfinite(path).all()]
        if not whole:
            return None
        scores = [
            _explained(path, paths[k])
            for member in members
            for k, path in zip(
                whole, judged(member, [starts[k] for k in whole], [t] * len(whole)).paths, strict=True
            )
        ]
    return float(np.mean(scores))


def _explained(path: np.ndarray, reference: np.ndarray) -> float:
    """R2 of a path (n, d), the mean over states that vary; `_LEAST` at least, also of one that ends early."""
    spread = np.sum((reference - reference.mean(axis=0)) ** 2, axis=0)
    varies = spread > 0.0
    if not np.isfinite(path).all() or not varies.any():
        return _LEAST if varies.any() else 1.0
    apart = np.sum((path - reference) ** 2, axis=0)[varies] / spread[varies]
    return float(max(np.mean(1.0 - apart), _LEAST))
