"""The Koopman generator restricted to monomials, and estimates from states and their changes."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from fim_dynsys.fields.terms import Dictionary

_FOLDS = 5  # blocks of consecutive samples, each left out once
_EXACT = 0.01  # of the speed: what smoothing leaves of noise-free slopes; no better prediction is asked for


@dataclass(frozen=True, eq=False)
class Generator:
    """The matrix that advances monomials: ``d psi(z)/dt = psi(z) L`` where the span of psi is invariant.

    Attributes
    ----------
    dictionary : Dictionary
        The m monomials psi of ``z = x / scale``: the constant, the d coordinates, products.
    matrix : array (m, m)
        L, its column j the rate of change of monomial j, per `time_unit`.
    scale : array (d,)
        Units of the states.
    time_unit : float
        Unit of time.
    """

    dictionary: Dictionary
    matrix: np.ndarray
    scale: np.ndarray
    time_unit: float

    @property
    def coefficients(self) -> np.ndarray:
        """Coefficients (m, d) of dz/dt: the columns of the coordinates, which are monomials themselves."""
        return self.matrix[:, 1 : 1 + self.dictionary.dim]

    @cached_property
    def _spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = np.linalg.eig(self.matrix)
        order = np.argsort(-values.real, kind="stable")
        return values[order], vectors[:, order]

    @property
    def eigenvalues(self) -> np.ndarray:
        """Rates (m,) of the eigenfunctions, complex, per unit of time; the slowest decaying first."""
        return self._spectrum[0] / self.time_unit

    def eigenfunctions(self, x: np.ndarray) -> np.ndarray:
        """Eigenfunctions (n, m) at states (n, d), in the order of `eigenvalues`."""
        return self.dictionary.evaluate(x / self.scale) @ self._spectrum[1]

    def advance(self, x0: np.ndarray, t: np.ndarray) -> np.ndarray:
        """States (m, d) a time ``t`` (m,) after `x0` (d,), by the linear flow of the monomials."""
        start, d = self.dictionary.evaluate(x0[None] / self.scale)[0], len(x0)
        with np.errstate(over="ignore", invalid="ignore"):
            flows = scipy.linalg.expm(self.matrix * (t / self.time_unit)[:, None, None])
            return (start @ flows)[:, 1 : 1 + d] * self.scale


def lifted(dictionary: Dictionary, states: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Monomials (n, m) and their rates of change (n, m) at states and slopes (n, d)."""
    rates = np.einsum("nmj,nj->nm", dictionary.gradient(states), slopes)
    return dictionary.evaluate(states), rates


def regressed(columns: np.ndarray, rates: np.ndarray, weights: np.ndarray, ridge: float) -> np.ndarray:
    """Columns (m, k) of L by least squares, with a ridge relative to the mean square of each column.

    Parameters
    ----------
    columns, rates : arrays (n, m), (n, k)
        Monomials, and rates of change of any k of them.
    weights : array (n,)
        Of the samples.
    ridge : float
        Not negative; the constant is not charged.
    """
    root = np.sqrt(weights)[:, None]
    size = np.sqrt(np.mean((root * columns) ** 2, axis=0))
    size = np.where(size > 0, size, 1.0)
    charge = np.sqrt(ridge * len(columns)) * np.eye(columns.shape[1])
    charge[0] = 0.0
    design = np.concatenate([root * columns / size, charge])
    target = np.concatenate([root * rates, np.zeros((len(charge), rates.shape[1]))])
    return np.linalg.lstsq(design, target, rcond=1e-12)[0] / size[:, None]


def estimated(
    states: np.ndarray,
    changes: np.ndarray,
    weights: np.ndarray,
    degrees: Sequence[int],
    ridges: Sequence[float],
    lift: Callable[[Dictionary], tuple[np.ndarray, np.ndarray]],
) -> tuple[Dictionary, np.ndarray, int, float]:
    """The monomials and the matrix of the degree and ridge that predict left-out blocks of changes best.

    Where several predict them to 1 % of their size, the lowest degree with the largest ridge.

    Parameters
    ----------
    states, changes : arrays (n, d)
        Slopes or increments at the states. Consecutive samples of a trajectory stand together.
    weights : array (n,)
        Of the samples.
    degrees, ridges : sequences
        What to choose among; one of each is taken as it is.
    lift : callable
        Monomials (n, m) and their changes (n, m) of a dictionary.

    Returns
    -------
    dictionary : Dictionary
    matrix : array (m, m)
    degree : int
    ridge : float
    """
    n, d = states.shape
    choices = sorted(itertools.product(degrees, ridges), key=lambda choice: (choice[0], -choice[1]))
    misfits = np.zeros(len(choices))
    for k, (degree, ridge) in enumerate(choices if len(choices) > 1 else ()):
        columns = Dictionary.polynomial(d, degree).evaluate(states)
        for fold in np.array_split(np.arange(n), min(_FOLDS, n)):
            kept = np.delete(np.arange(n), fold)
            matrix = regressed(columns[kept], changes[kept], weights[kept], ridge)
            misfits[k] += np.sum(weights[fold, None] * (columns[fold] @ matrix - changes[fold]) ** 2)
    exact = _EXACT**2 * np.sum(weights[:, None] * changes**2)
    degree, ridge = choices[int(np.argmax(misfits <= max(misfits.min(), exact)))]
    dictionary = Dictionary.polynomial(d, degree)
    return dictionary, regressed(*lift(dictionary), weights, ridge), degree, ridge
