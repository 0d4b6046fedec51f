"""Sparse polynomial candidates from the slopes of smoothed data."""

from collections.abc import Sequence

import numpy as np

from fim_dynsys.regression.observed import SPLINE
from fim_dynsys.regression.smoothing import TIME_AWARE, Smoother
from fim_dynsys.regression.sparse import backward_path, normal_equations, solve_supports, stlsq
from fim_dynsys.search.candidates import Candidate, no_motion
from fim_dynsys.search.origins import Origin, Stage
from fim_dynsys.search.problem import Search
from fim_dynsys.search.restrictions import Restriction

STLSQ_SETTINGS = ((0.01, False), (0.03, False), (0.1, False), (0.1, True), (0.5, True))
"""Threshold, and whether it refers to columns and targets of unit root mean square."""

BACKWARD_TOLERANCES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""Largest rise of the residual sum of squares by one drop, relative to the sum of squares of the slopes."""


def propose(
    search: Search, degrees: Sequence[int] = (1, 2, 3), smoothers: Sequence[Smoother] = TIME_AWARE
) -> list[Candidate]:
    """Sparse fits of smoothed slopes on the dictionary's terms of each degree.

    Parameters
    ----------
    search : Search
        Data and terms.
    degrees : sequence of int
        Largest total degrees.
    smoothers : sequence of Smoother
        From `fim_dynsys.regression.smoothing`.

    Returns
    -------
    list of Candidate
        Without scores and without duplicates.
    """
    observations, known = search.observations, search.restriction
    candidates, terms = [no_motion(search)], search.dictionary
    smoothed = [observations.smoothed(smoother) for smoother in smoothers]
    problems = [
        _weighted_equations(search, smoother, *_stacked(fits))
        for smoother, fits in zip(smoothers, smoothed, strict=True)
    ]
    gram, moment, total = (np.stack(part) for part in zip(*problems, strict=True))
    total_degree = search.dictionary.exponents.sum(axis=1)
    found: list[tuple[Origin, np.ndarray]] = []
    seen = set()
    for degree in degrees:
        inside = np.flatnonzero(total_degree <= degree)
        if degree > 1 and len(inside) * 2 > observations.n:
            continue
        if known is not None:
            coefficients = _restricted_fits(known, inside, gram, moment, total)
        else:
            fits = _sparse_fits(gram[..., inside[:, None], inside], moment[..., inside], total)
            coefficients = np.zeros((*fits.shape[:2], len(search.dictionary), observations.dim))
            coefficients[:, :, inside] = np.swapaxes(fits, -1, -2)
        origins = [Origin(Stage.REGRESSION, f"degree {degree}, {name}") for name in _SETTINGS]
        found += zip(origins, coefficients, strict=True)
    for number, (smoother, pairs) in enumerate(zip(smoothers, smoothed, strict=True)):
        start = np.stack([states[0] for states, _ in pairs])
        for origin, coefficients in found:
            values = coefficients[number]
            key = values.tobytes()
            if key not in seen and np.isfinite(values).all():
                seen.add(key)
                candidates.append(Candidate(values, start, terms, origin, smoother.name, restriction=known))
    return candidates


def _stacked(fits: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """States and slopes (N, d) of all pieces."""
    states, slopes = zip(*fits, strict=True)
    return np.concatenate(states), np.concatenate(slopes)


def _weighted_equations(
    search: Search, smoother: Smoother, states: np.ndarray, slopes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    root = np.sqrt(search.observations.row_weights(smoother))[:, None]
    columns = search.dictionary.evaluate(search.observations.with_inputs(states))
    return normal_equations(root * columns, root * slopes)


_SETTINGS = [
    *(f"STLSQ {s}{' normalised' if u else ''}" for s, u in STLSQ_SETTINGS),
    *(f"backward {tolerance:g}" for tolerance in BACKWARD_TOLERANCES),
]


def _sparse_fits(gram: np.ndarray, moment: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Coefficients (settings, smoothers, d, m) of each of the settings."""
    threshold = np.array([s for s, _ in STLSQ_SETTINGS])[:, None, None]
    unit = np.array([u for _, u in STLSQ_SETTINGS])[:, None, None]
    thresholded = stlsq(gram, moment, np.where(unit, threshold * np.sqrt(total), threshold), 0.05, unit)
    backward = backward_path(gram, moment, total[..., None] * np.array(BACKWARD_TOLERANCES))
    return np.concatenate([thresholded, np.moveaxis(backward, -2, 0)])


def _restricted_fits(
    known: Restriction, inside: np.ndarray, gram: np.ndarray, moment: np.ndarray, total: np.ndarray
) -> np.ndarray:
    """As `_sparse_fits` of the free numbers of a restriction: coefficients (settings, smoothers, m, d).

    Equations that share numbers are one regression, in which each counts by its own slopes; numbers that move
    terms outside the degree stay zero.
    """
    m, d = known.offset.shape
    outside = np.ones(m, dtype=bool)
    outside[inside] = False
    reaches = np.logical_or.reduce(known.basis.reshape(m, d, -1)[outside] != 0.0, axis=(0, 1))
    smoothers = len(total)
    values = np.zeros((len(_SETTINGS), smoothers, len(known.place)))
    for equations, numbers in known.blocks:
        numbers = numbers[~reaches[numbers]]
        if not len(numbers):
            continue
        part = known.part(equations, numbers)
        mean = total[:, equations].mean(axis=1, keepdims=True)
        weight = mean / np.where(total[:, equations] > 0, total[:, equations], mean)
        part_gram = gram[:, equations] * weight[..., None, None]
        part_moment = moment[:, equations] * weight[..., None]
        left, right = part.equations(part_gram, part_moment)
        offsets = np.einsum("skm,mk->s", 2.0 * part_moment, part.offset)
        offsets -= np.einsum("mk,skml,lk->s", part.offset, part_gram, part.offset)
        rest = np.maximum((weight * total[:, equations]).sum(axis=1) - offsets, 0.0)
        fits = _sparse_fits(left[:, None], right[:, None], rest[:, None])
        values[:, :, numbers] = fits[:, :, 0]
        for k in range(smoothers):
            for fit, out in zip(fits[:, k, 0], values[:, k], strict=True):
                if part.required.any() or (fit < part.low).any() or (fit > part.high).any():
                    out[numbers] = part.solved(left[k], right[k], fit != 0.0)
    return known.coefficients(values)


def refit(search: Search, support: np.ndarray, smoother_name: str) -> Candidate:
    """Least squares on given terms, with the slopes of one smoother.

    Parameters
    ----------
    search : Search
        Data and terms.
    support : bool array (m, d)
        Which coefficients may be non-zero.
    smoother_name : str
        Name of one of the time-aware smoothers.

    Returns
    -------
    Candidate
        Without a score.
    """
    smoother = next((s for s in TIME_AWARE if s.name == smoother_name), SPLINE)
    fits = search.observations.smoothed(smoother)
    gram, moment, _ = _weighted_equations(search, smoother, *_stacked(fits))
    known = search.restriction
    if known is None:
        coefficients = solve_supports(gram, moment, support.T).T
    else:
        left, right = known.equations(gram, moment)
        coefficients = known.coefficients(known.solved(left, right, known.numbers(support)))
    start = np.stack([s[0] for s, _ in fits])
    origin = Origin(Stage.REFIT)
    return Candidate(coefficients, start, search.dictionary, origin, smoother.name, restriction=known)
