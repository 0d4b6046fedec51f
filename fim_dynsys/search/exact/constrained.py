"""Exact models with prior knowledge: which satisfy it, and their numbers with it."""

from dataclasses import replace

import numpy as np
from scipy.linalg import block_diag

from fim_dynsys.search.exact.models import TINY, ExactModel
from fim_dynsys.search.problem import Search
from fim_dynsys.search.restrictions import Restriction

_ADDED = 3.0  # times the mean square that a model misses: knowledge that adds more contradicts the samples
_SINGULAR = 1e-13  # of the largest eigenvalue: directions of which the samples say nothing


def satisfying(model: ExactModel, search: Search) -> ExactModel | None:
    """A model with numbers that satisfy the restriction of a search; None where that allows no such model.

    Parameters
    ----------
    model : ExactModel
        Fitted without the restriction.
    search : Search
        Of the same observations; without a restriction, the model is returned as it is.
    """
    if search.restriction is None:
        return model
    _, rows, known, coefficients = search.restricted(model.item.dictionary, model.item.coefficients)
    tied = known.tied(coefficients != 0.0)
    if tied is None or not known.numbers(coefficients)[known.required].all():
        return None
    found = constrained(model, tied.subset(rows))
    if found is None:
        return None
    coefficients[rows] = found.item.coefficients
    return found if known.within(coefficients) else None


def constrained(model: ExactModel, known: Restriction) -> ExactModel | None:
    """A model with the numbers nearest to its own that satisfy a restriction of its own terms.

    Distances are measured by the information of its fit, as by generalised least squares, so that what is
    known of some numbers makes the others more precise.

    Parameters
    ----------
    model : ExactModel
        Fitted without the restriction.
    known : Restriction
        Of the coefficients of the model's terms, see `Restriction.tied`.

    Returns
    -------
    ExactModel or None
        Its parameters are the free numbers of the restriction. None where the terms are others, or the
        numbers are so far off that the samples contradict them.
    """
    item, support = model.item, model.item.support
    basis = known.basis.reshape(*support.shape, -1)
    numbers = known.numbers(item.coefficients)
    moving = numbers != 0.0
    moved = (basis[:, :, moving] != 0.0).any(axis=2) | (known.offset != 0.0)
    if (moved != support).any():
        return None
    inner, outer = len(item.labels), basis[support][:, moving]
    slopes = block_diag(outer, np.eye(inner))
    free = np.full(inner, np.inf)
    low, high = np.append(known.low[moving], -free), np.append(known.high[moving], free)
    given = np.append(known.offset[support], np.zeros(inner))
    start = np.append(numbers[moving], item.numbers)
    left = item.parameters - given - slopes @ start
    fitted = _within(low - start, high - start, slopes, model.calibrated_fit.information, left) + start
    numbers[moving] = fitted[: outer.shape[1]]
    coefficients = known.coefficients(numbers)
    new = replace(item, coefficients=coefficients, restriction=known)
    new = new.with_parameters(
        np.append(new.parameters[: len(new.parameters) - inner], fitted[outer.shape[1] :])
    )
    active = np.append(known.active(coefficients)[moving], np.ones(inner, dtype=bool))
    slopes = slopes[:, active]
    change = np.append(coefficients[support], new.numbers) - item.parameters
    added = float(change @ model.fit.information @ change) / model.residuals.size
    if not added <= max(_ADDED * model.misses**2, TINY**2):
        return None
    of_functions = support.size + np.arange(inner)
    places = np.append(known.place[moving], of_functions)[active]
    at = np.searchsorted(np.append(np.flatnonzero(support), of_functions), places)
    fit, gaps = model.fit, model.gaps
    return replace(
        model,
        item=new,
        misses=float(np.sqrt(model.misses**2 + added)),
        fit=replace(fit, parameters=fit.parameters[at], information=slopes.T @ fit.information @ slopes),
        gaps=gaps and replace(gaps, parameters=new.parameters, slopes=gaps.slopes @ slopes),
    )


def _within(
    low: np.ndarray, high: np.ndarray, slopes: np.ndarray, information: np.ndarray, left: np.ndarray
) -> np.ndarray:
    """Generalised least squares (q,) of what is left, within bounds: numbers beyond theirs are held there.

    Directions without information stay where they are.
    """
    found, free = np.zeros(len(low)), np.ones(len(low), dtype=bool)
    for _ in range(len(low)):
        part = slopes[:, free]
        normal = part.T @ information @ part
        size = np.sqrt(np.maximum(np.diagonal(normal), 1e-300))
        scaled = np.linalg.pinv(normal / size[:, None] / size, rcond=_SINGULAR, hermitian=True)
        rest = left - slopes[:, ~free] @ found[~free]
        found[free] = (scaled @ (part.T @ information @ rest / size)) / size
        beyond = (found < low) | (found > high)
        if not beyond.any():
            break
        found, free = np.clip(found, low, high), free & ~beyond
    return np.clip(found, low, high)
