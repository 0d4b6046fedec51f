"""Weighted fields of one kind."""

from collections.abc import Sequence

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.support import frozen


class EnsembleField(Sequence):
    """A weighted sequence of fields of one dimension: bootstrap members or posterior draws.

    It is not itself a field, since what holds on average need not hold for any member; `mean_field` makes
    the average explicit.

    Parameters
    ----------
    fields : sequence of VectorField
        At least one member.
    weights : array_like (m,), optional
        Non-negative weights, normalised to sum 1; default equal.

    Raises
    ------
    ValueError
        For no members, members of differing dimension, or weights that do not fit.
    """

    def __init__(self, fields, weights=None):
        self._fields = tuple(fields)
        if not self._fields:
            raise ValueError("EnsembleField: expected at least one field, got none.")
        dims = sorted({member.dim for member in self._fields})
        if len(dims) > 1:
            raise ValueError(f"EnsembleField: expected fields of one dimension, got {dims}.")
        m = len(self._fields)
        weights = np.full(m, 1.0 / m) if weights is None else np.array(weights, dtype=float)
        if (
            weights.shape != (m,)
            or not np.isfinite(weights).all()
            or (weights < 0).any()
            or weights.sum() <= 0
        ):
            raise ValueError(f"EnsembleField: expected {m} weights >= 0 with a positive sum, got {weights}.")
        self._weights = frozen(weights / weights.sum())

    @property
    def weights(self):
        """Normalised weights, (m,)."""
        return self._weights

    @property
    def dim(self):
        """Number of states."""
        return self._fields[0].dim

    @property
    def state_names(self):
        """Names of the states of the first member."""
        return self._fields[0].state_names

    def __len__(self):
        return len(self._fields)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return EnsembleField(self._fields[index], self._weights[index])
        return self._fields[index]

    def __repr__(self):
        return f"EnsembleField({len(self)} x {self._fields[0]!r})"

    def mean_field(self):
        """The weighted average of the members as one field (VectorField) with the first member's context."""
        return _MeanField(self)


class _MeanField(VectorField):
    """Weighted average of the members of an ensemble."""

    def __init__(self, ensemble):
        first = ensemble[0]
        own = {"region": first._region, "scales": first._scales}
        super().__init__(first.dim, context=first.context, state_names=first.state_names, **own)
        self._ensemble = ensemble

    def _rhs(self, x):
        return self._average(member._rhs(x) for member in self._ensemble)

    def _jac(self, x):
        return self._average(member._jac(x) for member in self._ensemble)

    def _directional(self, x, directions):
        return self._average(member._directional(x, directions) for member in self._ensemble)

    def _average(self, values):
        return sum(w * v for w, v in zip(self._ensemble.weights, values, strict=True))
