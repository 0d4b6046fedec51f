"""What fields between measured ones are sums of: the terms of dictionaries, or the measured fields."""

import abc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.pooling import PooledRegression
from fim_dynsys.fields.terms import Dictionary, union

_POINTS_PER_FIELD = 64  # at which fields without closed form are compared

Support = Callable[[np.ndarray], np.ndarray]
"""Support (n,) at rows (n, d)."""


class Basis(abc.ABC):
    """The terms that fields between measured values are sums of.

    Attributes
    ----------
    coefficients : ndarray (K, M, c)
        Those of the K measured fields.
    """

    coefficients: np.ndarray

    @staticmethod
    def of(fields: tuple[VectorField, ...]) -> "Basis":
        """The merged dictionary where all fields are dictionaries, else the fields themselves."""
        known = tuple(field for field in fields if isinstance(field, DictionaryField))
        return _Terms(known) if len(known) == len(fields) else _Weights(fields)

    @abc.abstractmethod
    def sum(self, method: str, coefficients: np.ndarray, *arguments: Any) -> np.ndarray:
        """Apply a method of fields (``_rhs``, ``_jac``, ``_directional``) to the sum of terms."""

    @abc.abstractmethod
    def member(self, coefficients: np.ndarray, support: Support, **options: Any) -> VectorField:
        """The field of these coefficients, with a support of its own."""

    @abc.abstractmethod
    def regression(self, p: np.ndarray) -> PooledRegression:
        """The regression of the measured fields on polynomials in p."""


class _Terms(Basis):
    """Terms of dictionaries, each once, with the coefficients (K, M, d) of the measured fields."""

    def __init__(self, fields: tuple[DictionaryField, ...]):
        self.fields = fields
        self.dictionary, index = union([field.dictionary for field in fields])
        shape = (len(fields), len(self.dictionary), fields[0].dim)
        self.coefficients = np.zeros(shape)
        for row, field, places in zip(self.coefficients, fields, index, strict=True):
            np.add.at(row, places, field.coefficients)

    def sum(self, method: str, coefficients: np.ndarray, *arguments: Any) -> np.ndarray:
        return getattr(DictionaryField(self.dictionary, coefficients), method)(*arguments)

    def member(self, coefficients: np.ndarray, support: Support, **options: Any) -> VectorField:
        return _DictionaryMember(self.dictionary, coefficients, support, **options)

    def regression(self, p: np.ndarray) -> PooledRegression:
        with np.errstate(all="ignore"):
            columns = [_defined(self.dictionary.columns(_data_of(field).T)) for field in self.fields]
        grams = np.array([values @ values.T for values in columns])
        # Least squares of each state on its own: only the choice of the degree weighs them by their speed.
        return PooledRegression(p, grams, self.coefficients, _speed(self.fields))


class _Weights(Basis):
    """The measured fields themselves, with unit coefficients (K, K, 1)."""

    def __init__(self, fields: tuple[VectorField, ...]):
        self.fields = fields
        self.coefficients = np.eye(len(fields))[:, :, None]

    def sum(self, method: str, coefficients: np.ndarray, *arguments: Any) -> np.ndarray:
        values = (getattr(field, method)(*arguments) for field in self.fields)
        return sum(w * value for w, value in zip(coefficients[:, 0], values, strict=True))

    def member(self, coefficients: np.ndarray, support: Support, **options: Any) -> VectorField:
        return _WeightedMember(self, coefficients, support, **options)

    def regression(self, p: np.ndarray) -> PooledRegression:
        speed = _speed(self.fields)
        grams = []
        for here in self.fields:
            x = _data_of(here)
            x = x[:: -(-len(x) // _POINTS_PER_FIELD)]
            with np.errstate(all="ignore"):
                values = _defined(np.stack([(field._rhs(x) / speed).ravel() for field in self.fields]))
            grams.append(values @ values.T)
        return PooledRegression(p, np.array(grams), self.coefficients, np.ones(1))


class _DictionaryMember(DictionaryField):
    """A field between, of a family of dictionaries."""

    def __init__(self, dictionary: Dictionary, coefficients: np.ndarray, support: Support, **options: Any):
        super().__init__(dictionary, coefficients, **options)
        self._own_support = support

    def _support(self, x: np.ndarray) -> np.ndarray:
        return self._own_support(x)


class _WeightedMember(VectorField):
    """A field between, a sum of the measured ones."""

    def __init__(self, basis: "_Weights", weights: np.ndarray, support: Support, **options: Any):
        super().__init__(basis.fields[0].dim, **options)
        self._basis, self._weights, self._own_support = basis, weights, support

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        return self._basis.sum("_rhs", self._weights, x)

    def _jac(self, x: np.ndarray) -> np.ndarray:
        return self._basis.sum("_jac", self._weights, x)

    def _directional(self, x: np.ndarray, directions: Sequence[np.ndarray]) -> np.ndarray:
        return self._basis.sum("_directional", self._weights, x, directions)

    def _support(self, x: np.ndarray) -> np.ndarray:
        return self._own_support(x)


def _data_of(field: VectorField) -> np.ndarray:
    """States (n, d) that tell where a field was determined: its smoothed data, else points of its region."""
    if field.frame.smoothed is not None:
        return np.concatenate(field.frame.smoothed.states)
    if field.region is not None:
        return field.region.sobol(_POINTS_PER_FIELD)
    raise ValueError(
        "from_fields: expected fields with data or a region, so that polynomials can be fitted where they "
        "hold, got one without; give it a region, or pass interpolate='spline'."
    )


def _defined(values: np.ndarray) -> np.ndarray:
    """The columns of values (M, n) at which all are finite: a logarithm may not be one at another's data."""
    return values[:, np.isfinite(values).all(axis=0)]


def _speed(fields: Sequence[VectorField]) -> np.ndarray:
    return np.sqrt(np.mean([field.scales.speed**2 for field in fields], axis=0))
