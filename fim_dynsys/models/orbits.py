"""Noise-free records of one closed orbit, which do not determine equations away from it."""

from dataclasses import replace

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.models.judging import judged
from fim_dynsys.trajectories.container import Trajectories

_CLOSED = 1e-4  # standard deviations of the states, by which an orbit may miss its start after a turn
_SAME = 0.02  # the same, by which starts may miss the orbit of the first record: other orbits lie farther
_PASSES = 5  # nearest passes that are followed
_PARTS = 64  # of the time between two samples, over which a path is straight to far less than that
_NOTE = "the samples lie on one closed orbit, away from which they do not determine the equations"


def noting_one_orbit(
    field: DictionaryField | DrivenField, context: Trajectories
) -> DictionaryField | DrivenField:
    """A field with a note where all samples lie on one closed orbit.

    A multiple of whatever vanishes on the orbit could be added to any equation: a Morse or Toda oscillator
    then follows from other equations as well.

    Parameters
    ----------
    field : VectorField
        Which follows the samples.
    context : Trajectories
        The samples.
    """
    known = field.fit_info.inference
    if known.undetermined or not lies_on_one_orbit(field, context):  # a relation says more
        return field
    known = replace(known, undetermined=("equations away from one closed orbit",)).noting(_NOTE)
    return field.with_fit_info(inference=known)


def lies_on_one_orbit(field: VectorField, context: Trajectories) -> bool:
    """Whether the first record comes back to its start, and all others begin on its path."""
    records = [
        (t[seen], x[seen]) for t, x in context.arrays() if (seen := np.isfinite(x).all(axis=1)).sum() > 2
    ]
    if field.dim < 2 or not records:
        return False
    t, x = records[0]
    scale = np.std(np.concatenate([x for _, x in records]), axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    starts = np.stack([x[0] for _, x in records[1:]]) if records[1:] else np.empty((0, field.dim))
    return _comes_back(field, t, x, scale) and all(
        _distance(start / scale, x / scale) < _SAME for start in starts
    )


def _comes_back(field: VectorField, t: np.ndarray, x: np.ndarray, scale: np.ndarray) -> bool:
    """Whether a path passes its start again: where it crosses the plane across its motion there."""
    with np.errstate(all="ignore"):
        across = field(x[0]) / scale**2
    ahead = (x - x[0]) @ across
    passes = np.flatnonzero((ahead[1:-1] < 0.0) & (ahead[2:] >= 0.0)) + 1
    if not (np.isfinite(across).all() and across.any() and len(passes)):
        return False
    off = np.linalg.norm((x[passes] - x[0]) / scale, axis=1)

    nearest = passes[np.argsort(off)][:_PASSES]
    times = [np.linspace(0.0, t[k + 1] - t[k], _PARTS + 1) for k in nearest]
    for path in judged(field, list(x[nearest]), times).paths:
        beyond = (path - x[0]) @ across
        for k in np.flatnonzero((beyond[:-1] < 0.0) & (beyond[1:] >= 0.0)):
            share = beyond[k] / (beyond[k] - beyond[k + 1])
            crossed = path[k] + share * (path[k + 1] - path[k])
            if np.linalg.norm((crossed - x[0]) / scale) < _CLOSED:
                return True
    return False


def _distance(point: np.ndarray, path: np.ndarray) -> float:
    """From a point (d,) to the nearest of the straight lines between samples (n, d)."""
    step = np.diff(path, axis=0)
    squares = np.maximum(np.sum(step**2, axis=1), 1e-300)
    along = np.clip(np.sum((point - path[:-1]) * step, axis=1) / squares, 0.0, 1.0)
    return float(np.min(np.linalg.norm(path[:-1] + along[:, None] * step - point, axis=1)))
