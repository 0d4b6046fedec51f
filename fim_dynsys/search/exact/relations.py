"""What holds along the paths of a model, so that multiples of it may be added to any right-hand side."""

from collections.abc import Sequence

import numpy as np

from fim_dynsys.fields.notation import plain_sum
from fim_dynsys.fields.terms import Dictionary

_HIGHEST = 3  # degree, as of the polynomials that models are sought among
_NONE = 1e-8  # of the largest singular value, with columns of unit size
_LONGEST = 5  # terms, the constant included: longer ones tell a reader nothing
_TRACE = 1e-5  # of the largest term


def relations(path: np.ndarray, state_names: Sequence[str]) -> list[str]:
    """Polynomial equations between the states that hold at all points of a path, of the lowest degree.

    A quantity that is conserved makes terms proportional along an orbit: on the circle of a harmonic
    oscillator no samples tell ``x0`` from ``x0^3 + x0 x1^2``.

    Parameters
    ----------
    path : array (n, d)
        Of a model, without noise.
    state_names : sequence of str
        Of its columns.

    Returns
    -------
    list of str
        Such as ``"x0^2 + x1^2 = 4"``; their degree where one is too long to be read.
    """
    largest = np.abs(path).max(axis=0)
    largest = np.where(largest > 0.0, largest, 1.0)
    size = largest * np.sqrt(np.mean((path / largest) ** 2, axis=0))  # squares may underflow
    size = np.where(size > 0.0, size, 1.0)
    for degree in range(1, _HIGHEST + 1):
        dictionary = Dictionary.polynomial(path.shape[1], degree)
        columns = dictionary.evaluate(path / size)
        if len(columns) < 2 * len(dictionary):
            return []
        norms = np.sqrt(np.mean(columns**2, axis=0))
        if not (np.isfinite(norms) & (norms > 0.0)).all():
            return []
        _, values, axes = np.linalg.svd(columns / norms, full_matrices=False)
        found = _reduced(axes[values <= _NONE * values[0]])
        if len(found):
            shows = np.abs(found) >= _TRACE * np.abs(found).max(axis=1, keepdims=True)
            units = norms * np.prod(size**dictionary.exponents, axis=1)
            if not (np.isfinite(units) & (units > 0.0)).all():
                return []
            found = np.where(shows, found, 0.0)
            if np.count_nonzero(found, axis=1).max() > _LONGEST:
                return [f"a polynomial equation of degree {degree} holds between the states"]
            return [_text(row, dictionary, state_names) for row in found / units]
    return []


def _reduced(rows: np.ndarray) -> np.ndarray:
    """Combinations of rows (k, m) each of which has a last column that no other has."""
    rows = rows.copy()
    first = 0
    for column in range(rows.shape[1] - 1, -1, -1):
        if first == len(rows):
            break
        pivot = first + int(np.argmax(np.abs(rows[first:, column])))
        if np.abs(rows[pivot, column]) < _TRACE:
            continue
        rows[[first, pivot]] = rows[[pivot, first]]
        rows[first] /= rows[first, column]
        others = np.arange(len(rows)) != first
        rows[others] -= rows[others, column, None] * rows[first]
        first += 1
    return rows


def _text(row: np.ndarray, dictionary: Dictionary, state_names: Sequence[str]) -> str:
    row = row / row[np.flatnonzero(row)[-1]]
    constant = dictionary.exponents.sum(axis=1) == 0
    terms = plain_sum(np.where(constant, 0.0, row), dictionary.names(state_names))
    return f"{terms} = {-float(row[constant].sum()) + 0.0:.3g}"
