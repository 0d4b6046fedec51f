"""What else the samples allow: structures on the front of complexity against misfit, as a table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import overload

import numpy as np
import pandas as pd

from fim_dynsys.analyze.results import aligned, cell
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.trajectories.container import Trajectories

NOT_DETERMINED = "these data do not distinguish it from the preferred one"
"""Note of a form that follows the samples as well."""

_NEAR_ZERO = 0.1
"""Smallest sample relative to the largest, below which a positive state has been seen near zero."""
_NOTABLE = 0.05
"""Rate at zero, relative to the root mean square of those at the samples, that is worth a note."""
_FAR = 10.0
"""Ranges of the data beyond which a path has left them."""
_RTOL, _ESCAPE = 1e-6, 1e3  # relative; sizes of the data, beyond which a path has left them


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


def cautions(field: VectorField, trajectories: Trajectories) -> list[str]:
    """Implausible behaviour of a field near its data, in words.

    A state that was positive at all samples and came near zero should stay positive, and not grow from
    zero; and a path that goes on from the last samples for as long as they span should not leave their
    surroundings.

    Parameters
    ----------
    field : VectorField
        Fitted to the trajectories.
    trajectories : Trajectories
        Of d states; samples with a missing state are left out.

    Returns
    -------
    list of str
        Empty where there is nothing to say; of a field with inputs nothing is asked.
    """
    if isinstance(field, DrivenField):
        return []
    said = []
    x = np.concatenate([z[np.isfinite(z).all(axis=1)] for _, z in trajectories.arrays()])
    low, high = x.min(axis=0), x.max(axis=0)
    typical = np.sqrt(np.mean(field(x) ** 2, axis=0))
    for i in np.flatnonzero((low >= 0.0) & (low <= _NEAR_ZERO * high)):
        without = x.copy()
        without[:, i] = 0.0
        rates = field(without)[:, i]
        if rates.max() > _NOTABLE * typical[i]:
            said.append(f"{field.state_names[i]} grows from zero")
        if rates.min() < -_NOTABLE * typical[i]:
            said.append(f"{field.state_names[i]} falls below zero")
    return said + _leaving(field, trajectories, low, high)


def _leaving(field: VectorField, trajectories: Trajectories, low: np.ndarray, high: np.ndarray) -> list[str]:
    """Whether and when a path from the last samples leaves the box (d,), (d,) by far, as a list of one."""
    from fim_dynsys.simulation.solution import integrate

    first = np.inf
    for t, z in trajectories.arrays():
        seen = np.flatnonzero(np.isfinite(z).all(axis=1))
        if not len(seen) or t[-1] <= t[0]:
            continue
        ahead = np.linspace(0.0, t[-1] - t[0], 200)
        path = integrate([field], z[seen[-1:]], ahead[None], rtol=_RTOL, escape=_ESCAPE).x[0]
        away = np.abs(path - 0.5 * (low + high)) > _FAR * np.maximum(high - low, 1e-300)
        departed = np.flatnonzero(away.any(axis=1) | ~np.isfinite(path).all(axis=1))
        if len(departed):
            first = min(first, float(ahead[departed[0]]))
    return [f"leaves the data by far within {first:.2g} after them"] if np.isfinite(first) else []


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

    def to_dataframe(self) -> pd.DataFrame:
        """A row for each, with its equations and the terms that set it apart from the preferred one."""
        names = ("parameters", "misses", "r2", "bic", "weight", "is_preferred", "note")
        return pd.DataFrame(
            [
                {name: getattr(row, name) for name in names}
                | {
                    "more": ", ".join(row.more),
                    "fewer": ", ".join(row.fewer),
                    "equations": "; ".join(row.equations),
                }
                for row in self._rows
            ]
        )

    def _repr_html_(self) -> str:
        title = f"<p><b>Alternatives</b> (weights: {escape(self._weights)})</p>"
        return title + self.to_dataframe().to_html(float_format="{:.3g}".format)

    def __str__(self) -> str:
        head = ["", "parameters", "rms error", "R2", "BIC", "weight", "beside the preferred one", ""]
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
    terms = field.extended if isinstance(field, DrivenField) else field
    assert isinstance(terms, DictionaryField)
    d = terms.dictionary
    bare = d.with_numbers(np.ones(len(d)), d.second, d.shift)
    names = bare.names(terms.state_names)
    return {f"{terms.state_names[i]}: {names[k]}" for k, i in np.argwhere(terms.coefficients != 0.0)}
