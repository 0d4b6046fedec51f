"""How far the numbers of a field may be off, by the trajectory fit that gave them."""

from collections.abc import Iterable, Sequence

import numpy as np

from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.regression.observed import Observations, observe
from fim_dynsys.regression.precise import Precise, resolution
from fim_dynsys.regression.refinement import parameter_covariance
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.exact.laws import fitted, worth
from fim_dynsys.search.functions.fits import FunctionCandidate
from fim_dynsys.search.horizon import window_count

_CONFIRMED = 3.0  # errors: numbers that a fit moves further are not those of a fit
_STEP = 1e-6  # of difference quotients by numbers that are of order 1 in the units of a search


def standard_errors(field: DictionaryField, free: Iterable[Sequence[int]] = ()) -> np.ndarray | None:
    """Standard errors of a fitted field's numbers, its terms being given.

    By the trajectory fit linearised about the numbers: in one piece or, where that moves them, as over long
    chaotic records, with a free start in every short window.

    Parameters
    ----------
    field : DictionaryField
        With a context.
    free : list of (term, slot, number)
        The fitted numbers inside functions, see `FunctionCandidate`.

    Returns
    -------
    array (m, d + 2) or None
        As `FittedField` takes them; None where no fit confirms the numbers.
    """
    observations, own = _in_units_of_the_search(field, _samples(field), free)
    covariance = _covariance(own, observations)
    if covariance is None:
        return None
    with np.errstate(all="ignore"):  # units may be such that squares are no numbers
        slopes = _slopes(field, own, observations)
        errors = np.sqrt(np.maximum(np.einsum("qmk,qr,rmk->mk", slopes, covariance, slopes), 0.0))
    return errors if np.isfinite(errors).all() else None


def law_roots(field: DictionaryField, free: Iterable[Sequence[int]] = ()) -> np.ndarray | None:
    """Deviations of the numbers of a law of clean data, its terms being given.

    By the fit to the digits, linearised about the numbers. What a law misses is of one piece where it is not
    noise, so that fewer samples are worth what as many independent ones would be.

    Parameters
    ----------
    field : DictionaryField
        With a context.
    free : list of (term, slot, number)
        The fitted numbers inside functions, see `FunctionCandidate`.

    Returns
    -------
    array (q, m, d + 2) or None
        As `LawField` takes them; None where no fit confirms the numbers.
    """
    samples = _samples(field)
    observations, own = _in_units_of_the_search(field, samples, free)
    law = fitted(Precise.of(observations, resolution(samples)), own)
    if law is None:
        return None
    covariance = parameter_covariance(law.calibrated_fit, observations.n * observations.dim)
    covariance = covariance * float(np.max(observations.n / worth(law.residuals)))
    values, axes = np.linalg.eigh(covariance)
    with np.errstate(all="ignore"):
        root = np.sqrt(np.maximum(values, 0.0))[:, None] * axes.T
        roots = np.einsum("qr,rmk->qmk", root, _slopes(field, own, observations))
    return roots if np.isfinite(roots).all() else None


def law_errors(field: DictionaryField, free: Iterable[Sequence[int]] = ()) -> np.ndarray | None:
    """Standard errors of the numbers of a law of clean data, as `FittedField` takes them; see `law_roots`."""
    roots = law_roots(field, free)
    return None if roots is None else np.sqrt(np.sum(roots**2, axis=0))


def _samples(field: DictionaryField) -> list[tuple[np.ndarray, np.ndarray]]:
    """Complete samples of a field's context."""
    assert field.context is not None
    pairs = [(t, x, np.isfinite(x).all(axis=1)) for t, x in field.context.arrays()]
    return [(t[seen], x[seen]) for t, x, seen in pairs]


def _in_units_of_the_search(
    field: DictionaryField, samples: list[tuple[np.ndarray, np.ndarray]], free: Iterable[Sequence[int]]
) -> tuple[Observations, FunctionCandidate]:
    observations = observe(samples)
    scale, unit = observations.scale, observations.time_unit
    terms, coefficients = field.dictionary.rescaled(field.coefficients, 1.0 / scale, 1.0 / unit)
    return observations, FunctionCandidate.of(
        Candidate(coefficients, observations.start, "", ""), terms, free
    )


def _slopes(field: DictionaryField, own: FunctionCandidate, observations: Observations) -> np.ndarray:
    """Derivatives (q, m, d + 2) of a field's numbers by the parameters of a search."""
    scale, unit = observations.scale, observations.time_unit

    def in_units_of_the_data(parameters: np.ndarray) -> np.ndarray:
        moved = own.with_parameters(parameters)
        own_terms, values = moved.dictionary.rescaled(moved.candidate.coefficients, scale, unit)
        return np.column_stack([values, own_terms.inner, own_terms.second])

    at = own.parameters
    steps = np.diag(_STEP * np.maximum(1.0, np.abs(at)))
    slopes = np.zeros((len(at), len(field.dictionary), field.dim + 2))
    used = field.coefficients.any(axis=1)
    for own_slopes, h in zip(slopes, steps, strict=True):
        own_slopes[used] = (in_units_of_the_data(at + h) - in_units_of_the_data(at - h)) / (2.0 * h.max())
    return slopes


def _covariance(own: FunctionCandidate, observations: Observations) -> np.ndarray | None:
    if not own.candidate.support.any():
        return None
    for segments in ((5, 1), (window_count(observations),)):
        fitted, fit = own.fitted(observations, observations.path, segments)
        if np.isfinite(fit.misfit) and np.isfinite(fitted.parameters).all():
            covariance = parameter_covariance(fit, observations.n * observations.dim)
            moved = fitted.parameters - own.parameters
            if (moved**2 <= _CONFIRMED**2 * np.diagonal(covariance)).all():
                return covariance
    return None
