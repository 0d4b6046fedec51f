"""Weighted fields of one kind."""

from collections.abc import Iterable, Sequence
from typing import overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.presentation import html_block
from fim_dynsys.fields.support import frozen


class EnsembleField(Sequence[VectorField]):
    """A weighted sequence of fields of one dimension: bootstrap members or posterior draws.

    It is not itself a field, since what holds on average need not hold for any member; `mean_field` makes
    the average explicit.

    Parameters
    ----------
    fields : sequence of VectorField
        At least one member.
    weights : array_like (m,), optional
        Non-negative weights, normalised to sum 1; default equal.
    left_out : int
        Draws that are not among the members, since their paths left all bounds from the data.

    Raises
    ------
    ValueError
        For no members, members of differing dimension, or weights that do not fit.
    """

    def __init__(self, fields: Iterable[VectorField], weights: ArrayLike | None = None, left_out: int = 0):
        self._fields = tuple(fields)
        if not self._fields:
            raise ValueError("EnsembleField: expected at least one field, got none.")
        dims = sorted({member.dim for member in self._fields})
        if len(dims) > 1:
            raise ValueError(f"EnsembleField: expected fields of one dimension, got {dims}.")
        m = len(self._fields)
        shares = np.full(m, 1.0 / m) if weights is None else np.array(weights, dtype=float)
        if shares.shape != (m,) or not np.isfinite(shares).all() or (shares < 0).any() or shares.sum() <= 0:
            raise ValueError(f"EnsembleField: expected {m} weights >= 0 with a positive sum, got {shares}.")
        self._weights = frozen(shares / shares.sum())
        self.left_out = left_out

    @property
    def weights(self) -> np.ndarray:
        """Normalised weights, (m,)."""
        return self._weights

    @property
    def dim(self) -> int:
        """Number of states."""
        return self._fields[0].dim

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the states of the first member."""
        return self._fields[0].state_names

    def __len__(self) -> int:
        return len(self._fields)

    @overload
    def __getitem__(self, index: int) -> VectorField: ...

    @overload
    def __getitem__(self, index: slice) -> "EnsembleField": ...

    def __getitem__(self, index: int | slice) -> "VectorField | EnsembleField":
        if isinstance(index, slice):
            return EnsembleField(self._fields[index], self._weights[index])
        return self._fields[index]

    def __repr__(self) -> str:
        return f"EnsembleField({len(self)} x {self._fields[0]!r})"

    def _repr_html_(self) -> str:
        rows = {"members": str(len(self)), "fields": type(self._fields[0]).__name__}
        rows |= {"states": ", ".join(self.state_names)}
        table = self.to_dataframe()
        return html_block("EnsembleField", rows) + table.to_html(index=False, float_format="{:.3g}".format)

    def to_dataframe(self) -> pd.DataFrame:
        """How often each term occurs among the members, and its coefficient where it does.

        Returns
        -------
        DataFrame
            Columns ``state``, ``term``, ``share`` (weight of the members with that term), ``mean``,
            ``standard_deviation``, ``low`` and ``high`` (weighted, over these members; the ends hold 90 %),
            most frequent first. Empty where the members are no sums of terms.
        """
        found: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for member, weight in zip(self._fields, self._weights.tolist(), strict=True):
            for state, term, coefficient in member._coefficient_rows():
                found.setdefault((state, term), []).append((coefficient, weight))
        place = {name: i for i, name in enumerate(self.state_names)}
        summaries = {key: _summary(np.array(values)) for key, values in found.items()}
        ordered = sorted(summaries, key=lambda key: (place[key[0]], -summaries[key][0]))
        columns = ["state", "term", "share", "mean", "standard_deviation", "low", "high"]
        return pd.DataFrame([[*key, *summaries[key]] for key in ordered], columns=columns)

    def mean_field(self) -> VectorField:
        """The weighted average of the members as one field (VectorField) with the first member's context."""
        return _MeanField(self)


def _summary(values: np.ndarray) -> list[float]:
    """Weight, mean, standard deviation and the 5 and 95 % quantiles of rows (value, weight)."""
    value, weight = values[np.argsort(values[:, 0])].T
    share = weight / weight.sum()
    mean = float(share @ value)
    below = np.cumsum(share) - share / 2
    ends = np.interp([0.05, 0.95], below, value)
    return [float(weight.sum()), mean, float(np.sqrt(share @ (value - mean) ** 2)), *map(float, ends)]


class _MeanField(VectorField):
    """Weighted average of the members of an ensemble."""

    def __init__(self, ensemble: EnsembleField):
        first = ensemble[0]
        super().__init__(first.dim, frame=first.frame)
        self._ensemble = ensemble

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        return self._average(member._rhs(x) for member in self._ensemble)

    def _jac(self, x: np.ndarray) -> np.ndarray:
        return self._average(member._jac(x) for member in self._ensemble)

    def _directional(self, x: np.ndarray, directions: Sequence[np.ndarray]) -> np.ndarray:
        return self._average(member._directional(x, directions) for member in self._ensemble)

    def _average(self, values: Iterable[np.ndarray]) -> np.ndarray:
        weighted = (w * v for w, v in zip(self._ensemble.weights, values, strict=True))
        return sum(weighted, start=np.zeros(()))
