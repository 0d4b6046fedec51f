"""How far the numbers of a field may be off, by the trajectory fit that gave them."""

from collections.abc import Iterable, Sequence

import numpy as np

from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.terms import Dictionary, union
from fim_dynsys.regression.criteria import Noise
from fim_dynsys.regression.observed import Observations, complete_inputs, observe
from fim_dynsys.regression.refinement import parameter_covariance
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.functions.fits import FunctionCandidate
from fim_dynsys.search.horizon import window_count
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.search.problem import Search, told_apart

_CONFIRMED = 3.0  # errors: numbers that a fit moves further are not those of a fit
_STEP = 1e-6  # of difference quotients by numbers that are of order 1 in the units of a search


def standard_errors(
    field: DictionaryField | DrivenField,
    free: Iterable[Sequence[int]] = (),
    knowledge: Knowledge | None = None,
    degree: int = 0,
    positions: Sequence[str] | None = None,
    sigma: Sequence[np.ndarray] | Noise | None = None,
) -> np.ndarray | None:
    """Standard errors of a fitted field's numbers, its terms being given.

    By the trajectory fit linearised about the numbers: in one piece or, where that moves them, as over long
    chaotic records, with a free start in every short window.

    Parameters
    ----------
    field : DictionaryField or DrivenField
        With a context.
    free : list of (term, slot, number)
        The fitted numbers inside functions, see `FunctionCandidate`.
    knowledge : Knowledge, optional
        What the field was searched with: numbers that it gives have no errors, and those that it ties
        together share theirs.
    degree : int
        Of the monomials that knowledge is about.
    positions : sequence of str, optional
        The states that were observed, where not all were.
    sigma : list of arrays (n, d) or Noise, optional
        Errors of the observations that were given.

    Returns
    -------
    array (m, d + 2), with inputs (m, d + k + 2), or None
        As `FittedField` takes them; None where no fit confirms the numbers.
    """
    assert field.context is not None
    context, terms = field.context, field.extended if isinstance(field, DrivenField) else field
    assert isinstance(terms, DictionaryField)
    pairs = [(t, x, np.isfinite(x).all(axis=1)) for t, x in context.arrays()]
    inputs = complete_inputs(context, type(field).__name__)
    samples = [(t[seen], x[seen]) for t, x, seen in pairs]
    search = Search(observe([own for own in samples if len(own[0]) >= 2], inputs=inputs), terms.dictionary)
    if sigma is not None and not isinstance(sigma, Noise):
        sigma = [own[seen] for own, (_, _, seen) in zip(sigma, pairs, strict=True) if seen.sum() >= 2]
    observations = search.observing(positions, context.state_names).measured(sigma).observations
    d, scale, unit = field.dim, observations.extended_scale, observations.time_unit
    own_terms, coefficients = terms.dictionary.rescaled(terms.coefficients, 1.0 / scale, 1.0 / unit)
    coefficients, known = coefficients[:, :d], None
    if knowledge is not None:
        monomials = Dictionary.polynomial(len(scale), degree)
        if observations.n_inputs:
            monomials = monomials.subset(told_apart(monomials, observations))
        every, (_, rows) = union([monomials, own_terms])
        searched = Search(observations, monomials).knowing(
            knowledge, context.state_names, context.input_names
        )
        assert searched.restriction is not None
        known = searched.restriction.extended(monomials, every).subset(rows)
    start = Candidate(coefficients, observations.start, "", "", restriction=known)
    own = FunctionCandidate.of(start, own_terms, free)
    covariance = _covariance(own, observations)
    if covariance is None:
        return None
    used = np.flatnonzero(coefficients.any(axis=1) if known is None else known.rows_of(coefficients))

    def in_units_of_the_data(parameters: np.ndarray) -> np.ndarray:
        moved = own.with_parameters(parameters)
        still = np.zeros((len(used), observations.n_inputs))
        given = np.concatenate([moved.candidate.coefficients, still], axis=1)
        found, values = moved.dictionary.rescaled(given, scale, unit)
        return np.column_stack([values, found.inner, found.second])

    at = own.parameters
    steps = np.diag(_STEP * np.maximum(1.0, np.abs(at)))
    errors = np.zeros((len(terms.dictionary), len(scale) + 2))
    with np.errstate(all="ignore"):  # units may be such that squares are no numbers
        slopes = [
            (in_units_of_the_data(at + h) - in_units_of_the_data(at - h)) / (2.0 * h.max()) for h in steps
        ]
        variance = np.einsum("qmk,qr,rmk->mk", slopes, covariance, slopes)
        errors[used] = np.sqrt(np.maximum(variance, 0.0))
    return errors if np.isfinite(errors).all() else None


def _covariance(own: FunctionCandidate, observations: Observations) -> np.ndarray | None:
    if not len(own.parameters):
        return None
    for segments in ((5, 1), (window_count(observations),)):
        fitted, fit = own.fitted(observations, observations.path, segments)
        if np.isfinite(fit.misfit) and np.isfinite(fitted.parameters).all():
            covariance = parameter_covariance(fit, observations.n * observations.dim)
            moved = fitted.parameters - own.parameters
            if (moved**2 <= _CONFIRMED**2 * np.diagonal(covariance)).all():
                return covariance
    return None
