"""Fields that represent the uncertainty, and intervals of an object from its values in each."""

import numpy as np

from fim_dynsys.errors import check_whole
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.ensemble import EnsembleField

FEWEST = 2
"""Draws that must have an object for its interval."""


def drawn_fields(field: VectorField, draws: int | EnsembleField, seed: int, caller: str) -> EnsembleField:
    """The drawn fields that a user asked for: a number of draws of the field's posterior, or an ensemble.

    Parameters
    ----------
    field : VectorField
        The field under analysis.
    draws : int or EnsembleField
        How many, or the fields themselves.
    seed : int
        Of the draws.
    caller : str
        Name of the function that was called, for errors.

    Returns
    -------
    EnsembleField

    Raises
    ------
    ValueError
        For a field without a posterior, fewer than two draws, or draws of another dimension.
    """
    if not isinstance(draws, EnsembleField):
        check_whole(caller, FEWEST, n_draws=draws)
        fields = field.draws(draws, seed)
        if fields is None:
            raise ValueError(
                f"{caller}: expected a field with a posterior of its own, got {type(field).__name__}; pass "
                "n_draws=model.ensemble(64)."
            )
        draws = fields if isinstance(fields, EnsembleField) else EnsembleField(fields)
    if draws.dim != field.dim:
        raise ValueError(f"{caller}: expected draws of dimension {field.dim}, got {draws.dim}.")
    return draws


def half_width(drawn: np.ndarray, centre: np.ndarray, weights: np.ndarray, level: float) -> np.ndarray:
    """Half width of the interval round the field's own value that holds this share of the drawn ones.

    Parameters
    ----------
    drawn : ndarray (n, m, ...)
        Values in m draws, NaN where a draw has no such object.
    centre : ndarray (n, ...)
        Values of the field itself.
    weights : ndarray (m,)
        Of the draws.
    level : float
        The share.

    Returns
    -------
    ndarray (n, ...)
        NaN where fewer than two draws have the object.
    """
    away = np.abs(drawn - centre[:, None])
    known = np.isfinite(away)
    order = np.argsort(np.where(known, away, np.inf), axis=1)
    shape = (1, -1) + (1,) * (away.ndim - 2)
    weight = np.where(known, weights.reshape(shape), 0.0)
    total = np.cumsum(np.take_along_axis(weight, order, axis=1), axis=1)
    place = np.argmax(total >= level * total[:, -1:], axis=1)[:, None]
    found = np.take_along_axis(away, np.take_along_axis(order, place, axis=1), axis=1)[:, 0]
    return np.where(known.sum(axis=1) >= FEWEST, found, np.nan)
