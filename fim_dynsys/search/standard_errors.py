"""How far the numbers of a field may be off, by the trajectory fit that gave them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.terms import NUMBERS, Dictionary, union
from fim_dynsys.regression.criteria import Noise
from fim_dynsys.regression.gaps import completed, errors_of_pairs
from fim_dynsys.regression.observed import Observations, complete_inputs, observe
from fim_dynsys.regression.precise import Precise, resolution
from fim_dynsys.regression.refinement import parameter_roots
from fim_dynsys.regression.windows import in_windows
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.exact.constrained import constrained
from fim_dynsys.search.exact.models import fitted, from_sample_to_sample
from fim_dynsys.search.horizon import window_count
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.search.origins import Origin, Stage
from fim_dynsys.search.problem import Search, distinguishable
from fim_dynsys.search.pruning import refine
from fim_dynsys.trajectories.container import Trajectories

_CONFIRMED = 3.0  # errors: numbers that a fit moves further are not those of a fit
_VAGUE = 0.1  # share of a number that its error is, from which on windows of the record are asked, too
_STEP = 1e-6  # of difference quotients by numbers that are of order 1 in the units of a search


def standard_errors(
    field: DictionaryField | DrivenField,
    free: Iterable[Sequence[int]] = (),
    knowledge: Knowledge | None = None,
    degree: int = 0,
    positions: Sequence[str] | None = None,
    sigma: Sequence[np.ndarray] | Noise | None = None,
    window: float | None = None,
) -> np.ndarray | None:
    """Standard errors of a fitted field's numbers, its terms being given.

    By the trajectory fit linearised about the numbers: in one piece or, where that moves them, as over long
    chaotic records, with a free start in every short window.

    Parameters
    ----------
    field : DictionaryField or DrivenField
        With a context.
    free : list of (term, slot, number)
        The fitted numbers inside functions, see `Candidate`.
    knowledge : Knowledge, optional
        What the field was searched with: numbers that it gives have no errors, and those that it ties
        together share theirs.
    degree : int
        Of the monomials that knowledge is about.
    positions : sequence of str, optional
        The states that were observed, where not all were.
    sigma : list of arrays (n, d) or Noise, optional
        Errors of the observations that were given.
    window : float, optional
        Length of the windows that candidates were compared over, in time.

    Returns
    -------
    array (m, d + 2), with inputs (m, d + k + 2), or None
        As `FittedField` takes them; None where no fit confirms the numbers.
    """
    observations, candidate, used = _in_units_of_the_search(
        field, free, knowledge, degree, positions, sigma, window
    )
    root = _root(candidate, observations)
    if root is None:
        return None
    with np.errstate(all="ignore"):  # units may be such that squares are no numbers
        errors = np.linalg.norm(
            np.einsum("qr,rmk->qmk", root, _slopes(candidate, observations, used)), axis=0
        )
    return errors if np.isfinite(errors).all() else None


def exact_roots(
    field: DictionaryField,
    free: Iterable[Sequence[int]] = (),
    knowledge: Knowledge | None = None,
    degree: int = 0,
) -> np.ndarray | None:
    """Deviations of the numbers of a model of noise-free data, its terms being given.

    By the fit to numerical precision, linearised about the numbers, see `ExactModel.calibrated_fit`.

    Parameters
    ----------
    field : DictionaryField
        With a context.
    free : list of (term, slot, number)
        The fitted numbers inside functions, see `Candidate`.
    knowledge, degree
        See `standard_errors`.

    Returns
    -------
    array (q, m, d + 2) or None
        As `LawField` takes them; None where no fit confirms the numbers.
    """
    assert field.context is not None
    observations, candidate, used = _in_units_of_the_search(field, free, knowledge, degree, tied=True)
    samples = [(t[seen], x[seen]) for t, x, seen in _complete(field.context)]
    precise = Precise.of(observations, resolution(samples))
    model = fitted(precise, replace(candidate, restriction=None))
    if model is None:
        return None
    model = from_sample_to_sample(precise, model)
    if candidate.restriction is not None:
        model = constrained(model, candidate.restriction)
        if model is None or not len(model.item.parameters):
            return None
    root = parameter_roots(model.calibrated_fit, observations.n_values)
    with np.errstate(all="ignore"):
        roots = np.einsum("qr,rmk->qmk", root, _slopes(candidate, observations, used))
    return roots if np.isfinite(roots).all() else None


def exact_errors(
    field: DictionaryField,
    free: Iterable[Sequence[int]] = (),
    knowledge: Knowledge | None = None,
    degree: int = 0,
) -> np.ndarray | None:
    """Standard errors of the numbers of an exact model, as `FittedField` takes them; see `exact_roots`."""
    roots = exact_roots(field, free, knowledge, degree)
    return None if roots is None else np.linalg.norm(roots, axis=0)


def _complete(context: Trajectories) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Times (n,), states (n, d) and which samples (n,) are complete, of each trajectory."""
    return [(t, x, np.isfinite(x).all(axis=1)) for t, x in context.arrays()]


def _in_units_of_the_search(
    field: DictionaryField | DrivenField,
    free: Iterable[Sequence[int]],
    knowledge: Knowledge | None = None,
    degree: int = 0,
    positions: Sequence[str] | None = None,
    sigma: Sequence[np.ndarray] | Noise | None = None,
    window: float | None = None,
    tied: bool = False,
) -> tuple[Observations, Candidate, np.ndarray]:
    """Observations of a field's context, the field as a candidate, and which terms (m,) that has.

    With ``tied`` coefficients that are zero stay zero, whatever is known of their sums with others.
    """
    assert field.context is not None
    context, terms = field.context, field.extended if isinstance(field, DrivenField) else field
    assert isinstance(terms, DictionaryField)
    whole = completed(None, context, sigma)
    inputs = complete_inputs(whole.trajectories, type(field).__name__)
    samples = [pair for pair in whole.trajectories.arrays() if len(pair[0]) >= 2]
    search = Search(observe(samples, inputs=inputs), terms.dictionary)
    search = search.observing(positions, context.state_names)
    observations = search.measured(errors_of_pairs(whole)).observations
    if window is not None:
        observations = in_windows(observations, window / observations.time_unit)
    scale, unit = observations.extended_scale, observations.time_unit
    own_terms, coefficients = terms.dictionary.rescaled(terms.coefficients, 1.0 / scale, 1.0 / unit)
    known = None
    if knowledge is not None:
        monomials = Dictionary.polynomial(len(scale), degree)
        if observations.n_inputs:
            monomials = monomials.subset(distinguishable(monomials, observations))
        every, (_, rows) = union([monomials, own_terms])
        names = context.state_names, context.input_names
        searched = Search(observations, monomials).knowing(knowledge, *names)
        assert searched.restriction is not None
        known = searched.restriction.extended(monomials, every)
        if tied:
            support = np.zeros((len(every), field.dim), dtype=bool)
            support[rows] = coefficients[:, : field.dim] != 0.0
            known = known.tied(support)
            assert known is not None  # the field satisfies it
        known = known.subset(rows)
    coefficients = coefficients[:, : field.dim]
    used = (coefficients != 0.0).any(axis=1) if known is None else known.rows_of(coefficients)
    start = Candidate(coefficients, observations.start, own_terms, Origin(Stage.GIVEN), restriction=known)
    return observations, start.in_use(free), used


def _slopes(candidate: Candidate, observations: Observations, used: np.ndarray) -> np.ndarray:
    """Derivatives (q, m, d + k + 3) of a field's numbers by the parameters of a search, with k inputs."""
    scale, unit = observations.extended_scale, observations.time_unit

    def in_units_of_the_data(parameters: np.ndarray) -> np.ndarray:
        moved = candidate.with_parameters(parameters)
        still = np.zeros((np.count_nonzero(used), observations.n_inputs))
        given = np.concatenate([moved.coefficients, still], axis=1)
        found, values = moved.dictionary.rescaled(given, scale, unit)
        return np.column_stack([values, *found.numbers])

    at = candidate.parameters
    steps = np.diag(_STEP * np.maximum(1.0, np.abs(at)))
    slopes = np.zeros((len(at), len(used), len(scale) + len(NUMBERS)))
    for own_slopes, h in zip(slopes, steps, strict=True):
        own_slopes[used] = (in_units_of_the_data(at + h) - in_units_of_the_data(at - h)) / (2.0 * h.max())
    return slopes


def _root(candidate: Candidate, observations: Observations) -> np.ndarray | None:
    """Root (q, q) of the covariance of the numbers of a search, see `parameter_roots`."""
    if not len(candidate.parameters):
        return None
    root = _confirmed(candidate, observations, (5, 1))
    if root is not None and _relative(root, candidate) <= _VAGUE:
        return root
    in_windows = _confirmed(candidate, observations, (window_count(observations),))
    if root is None or in_windows is None:
        return root if in_windows is None else in_windows
    # Whole records say more than windows of them, unless chaos leaves nothing of it but rounding.
    return in_windows if _relative(in_windows, candidate) < 0.5 * _relative(root, candidate) else root


def _confirmed(candidate: Candidate, observations: Observations, segments: tuple) -> np.ndarray | None:
    """The root of a fit in so many pieces; None where that moves the numbers beyond their errors."""
    found, fit = refine(observations, candidate, observations.path, segments)
    same = len(found.parameters) == len(candidate.parameters)  # else one of them became zero at its bound
    if not (same and np.isfinite(fit.misfit) and np.isfinite(found.parameters).all()):
        return None
    root = parameter_roots(fit, observations.n_values)
    moved = np.abs(found.parameters - candidate.parameters)
    return root if (moved <= _CONFIRMED * np.linalg.norm(root, axis=0)).all() else None


def _relative(root: np.ndarray, candidate: Candidate) -> float:
    """The median error, as a share of its number."""
    errors = np.linalg.norm(root, axis=0)
    return float(np.median(errors / np.maximum(np.abs(candidate.parameters), errors * 1e-3)))
