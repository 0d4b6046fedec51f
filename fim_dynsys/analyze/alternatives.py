"""What else the samples allow: structures on the front of complexity against misfit, as a table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from fim_dynsys.analyze.results import aligned, cell
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.terms import Dictionary

NOT_DETERMINED = "not told from the preferred one by these data"
"""Note of a form that follows the samples as well."""


@dataclass(frozen=True, eq=False)
class Alternative:
    """One structure, fitted to the samples.

    Attributes
    ----------
    field : DictionaryField or DrivenField
        In the units of the data.
    equations : tuple of str
        Of the field.
    parameters : int
        Coefficients and fitted numbers inside functions.
    bic : float
        By which structures were compared; lower is better.
    weight : float
        With which the model prefers it, among all that it considered.
    r2 : float
        Share of the samples' variance that its path explains, mean over the states.
    misses : float
        Root mean square of what it leaves, in standard deviations of the states.
    is_preferred : bool
        Whether it is the model's answer.
    more, fewer : tuple of str
        Terms that it has and the preferred one has not, and the other way round.
    note : str
        What a reader should know, else empty.
    """

    field: VectorField
    equations: tuple[str, ...]
    parameters: int
    bic: float
    weight: float
    r2: float
    misses: float
    is_preferred: bool
    more: tuple[str, ...]
    fewer: tuple[str, ...]
    note: str


class Alternatives(Sequence[Alternative]):
    """Rows of a table, simplest first; each is an `Alternative`."""

    def __init__(self, rows: Sequence[Alternative], weights: str) -> None:
        self._rows, self._weights = tuple(rows), weights

    @overload
    def __getitem__(self, k: int) -> Alternative: ...
    @overload
    def __getitem__(self, k: slice) -> "Alternatives": ...
    def __getitem__(self, k: int | slice) -> "Alternative | Alternatives":
        return Alternatives(self._rows[k], self._weights) if isinstance(k, slice) else self._rows[k]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Alternative]:
        return iter(self._rows)

    @property
    def preferred(self) -> int:
        """Which one is the model's answer."""
        return next(k for k, row in enumerate(self._rows) if row.is_preferred)

    def __str__(self) -> str:
        head = ["", "parameters", "misses", "R2", "BIC", "weight", "beside the preferred one", ""]
        table = [head]
        for k, row in enumerate(self._rows):
            beside = "preferred" if row.is_preferred else _difference(row)
            numbers = [cell(float(f"{v:.3g}")) for v in (row.misses, row.r2)]
            table.append(
                [
                    str(k),
                    str(row.parameters),
                    *numbers,
                    f"{row.bic:.1f}",
                    cell(float(f"{row.weight:.2g}")),
                    beside,
                    row.note,
                ]
            )
        return "\n".join([f"Alternatives (weights: {self._weights})", *aligned(table)])

    __repr__ = __str__


def _difference(row: Alternative) -> str:
    return ", ".join([f"+ {term}" for term in row.more] + [f"- {term}" for term in row.fewer])


def terms_by_state(field: VectorField) -> set[str]:
    """Terms of each state's right-hand side, as ``"x0: x1^2"``; factors inside functions are left out."""
    own = field.extended if isinstance(field, DrivenField) else field
    assert isinstance(own, DictionaryField)
    d = own.dictionary
    bare = Dictionary(d.exponents, d.kind, d.coordinate, np.ones(len(d)), d.second, d.partner)
    names = bare.names(own.state_names)
    return {f"{own.state_names[i]}: {names[k]}" for k, i in np.argwhere(own.coefficients != 0.0)}
