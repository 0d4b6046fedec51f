"""The operator's dictionary as tensors: monomials, and functions of one coordinate.

Every column has a twin in `fim_dynsys.regression.terms`; `terms` gives that dictionary.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from fim_dynsys.regression.functions import Kind
from fim_dynsys.regression.terms import Dictionary


class Shape(NamedTuple):
    """A column ``x^power g(inner x)``: g by its kind and as `value`, its derivative as `slope`."""

    kind: Kind
    power: int
    second: float
    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]


SHAPES = {
    "sine": Shape(Kind.SIN, 0, 0.0, torch.sin, torch.cos),
    "cosine": Shape(Kind.COS, 0, 0.0, torch.cos, lambda u: -torch.sin(u)),
    "tanh": Shape(Kind.TANH, 0, 0.0, torch.tanh, lambda u: 1 - torch.tanh(u) ** 2),
    # x / (1 + |u|)
    "saturation": Shape(
        Kind.INHIBITION, 1, 1.0, lambda u: 1 / (1 + u.abs()), lambda u: -u.sign() / (1 + u.abs()) ** 2
    ),
    # 1 / (1 + u^2)
    "inverse": Shape(Kind.INHIBITION, 0, 2.0, lambda u: 1 / (1 + u * u), lambda u: -2 * u / (1 + u * u) ** 2),
}
"""Names in `AmortisedConfig`; none outgrows a straight line, for fields are asked far off the path too."""

Named = tuple[tuple[str, float], ...]


@cache
def terms(dim: int, degree: int, functions: Named = (), products: Named = ()) -> Dictionary:
    """Dictionary of the columns for states in units of their root mean square; monomials come first."""
    found = Dictionary.polynomial(dim, degree)
    for named, others in ((functions, (None,)), (products, range(1, dim))):
        for name, inner in named:
            shape = SHAPES[name]
            for coordinate in range(dim):
                for other in others:
                    powers = shape.power * np.eye(dim, dtype=int)[[coordinate]]
                    if other is not None:
                        powers[0, (coordinate + other) % dim] += 1
                    found += Dictionary(powers, [shape.kind], [coordinate], [inner], [shape.second])
    return found


def factored_monomials(exponents: Tensor) -> list[tuple[int, int, int]]:
    """Every monomial above the constant as a lower one times a coordinate: (monomial, lower, coordinate)."""
    rows = {tuple(row): k for k, row in enumerate(exponents.tolist())}
    factors = []
    for row, k in rows.items():
        if sum(row):
            j = next(i for i, e in enumerate(row) if e > 0)
            factors.append((k, rows[(*row[:j], row[j] - 1, *row[j + 1 :])], j))
    return factors


def _runs(factored: list[tuple[int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Monomials that are lower ones times a coordinate, row by row: (first, last + 1, lower, coordinate)."""
    runs: list[tuple[int, int, int, int]] = []
    for k, lower, j in factored:
        if runs:
            first, last, start, coordinate = runs[-1]
            if (k, lower, j) == (last, start + last - first, coordinate) and lower < first:
                runs[-1] = (first, k + 1, start, coordinate)
                continue
        runs.append((k, k + 1, lower, j))
    return runs


class MonomialTable(nn.Module):
    """Monomials of a polynomial dictionary as products of a lower monomial and one coordinate."""

    def __init__(self, dim: int, degree: int):
        super().__init__()
        exponents = torch.tensor(Dictionary.polynomial(dim, degree).exponents.tolist())
        self.orders = range(1, degree + 1)
        self.register_buffer("exponents", exponents, persistent=False)
        total = exponents.sum(1).tolist()
        factored = factored_monomials(exponents)
        self.runs = _runs(factored)
        for order in self.orders:
            factors = [(low, j) for k, low, j in factored if total[k] == order]
            parents, coordinates = torch.tensor(factors).unbind(1)
            self.register_buffer(f"parents_{order}", parents, persistent=False)
            self.register_buffer(f"coordinates_{order}", coordinates, persistent=False)

    def _blocks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """For each degree from 1: which lower monomials, times which coordinates."""
        for order in self.orders:
            yield getattr(self, f"parents_{order}"), getattr(self, f"coordinates_{order}")

    def forward(self, x: Tensor) -> Tensor:
        """Monomials (..., m) at points (..., d)."""
        columns = torch.ones_like(x[..., :1])
        for parents, coordinates in self._blocks():
            columns = torch.cat([columns, columns[..., parents] * x[..., coordinates]], -1)
        return columns

    def rows(self, x: Tensor) -> Tensor:
        """Monomials (..., m, n) at points (..., d, n), without gradients."""
        rows = x.new_empty(*x.shape[:-2], len(self.exponents), x.shape[-1])
        rows[..., 0, :] = 1.0
        for first, last, lower, j in self.runs:
            below = rows[..., lower : lower + last - first, :]
            torch.mul(below, x[..., j : j + 1, :], out=rows[..., first:last, :])
        return rows

    def with_rates(self, x: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
        """Monomials and their time derivatives when x moves with velocity `rate`."""
        columns, rates = torch.ones_like(x[..., :1]), torch.zeros_like(x[..., :1])
        for p, c in self._blocks():
            rates = torch.cat([rates, rates[..., p] * x[..., c] + columns[..., p] * rate[..., c]], -1)
            columns = torch.cat([columns, columns[..., p] * x[..., c]], -1)
        return columns, rates


class ColumnTable(nn.Module):
    """All columns of the operator's dictionary.

    Attributes
    ----------
    exponents : Tensor (m, d)
        Of the monomial parts.
    involved : Tensor (m, d)
        Exponents, where a coordinate inside a function counts as one factor.
    inside : Tensor (m, d)
        1 where a coordinate is inside a function.
    types : Tensor (m, types) or None
        Which of the functions and products a column is, as ones; None where there are monomials only.
    """

    def __init__(self, dim: int, degree: int, functions: Named = (), products: Named = ()):
        super().__init__()
        unknown = {name for name, _ in (*functions, *products)} - set(SHAPES)
        if unknown:
            raise ValueError(
                f"ColumnTable: expected functions among {sorted(SHAPES)}, got {sorted(unknown)}; correct the "
                "configuration."
            )
        self.monomials = MonomialTable(dim, degree)
        dictionary = terms(dim, degree, functions, products)
        first = len(self.monomials.exponents)
        exponents = torch.tensor(dictionary.exponents.tolist())
        inside = torch.zeros_like(exponents)
        inside[torch.arange(first, len(dictionary)), dictionary.coordinate[first:].tolist()] = 1
        self.register_buffer("exponents", exponents, persistent=False)
        self.register_buffer("inside", inside, persistent=False)
        self.register_buffer("involved", torch.where(inside > 0, 1, exponents), persistent=False)
        self.shapes = [SHAPES[name] for name, _ in (*functions, *products)]
        repeats = [dim] * len(functions) + [dim * (dim - 1)] * len(products)
        types = torch.eye(len(repeats)).repeat_interleave(torch.tensor(repeats, dtype=torch.long), 0)
        types = torch.cat([torch.zeros(first, len(repeats)), types]) if repeats else None
        self.register_buffer("types", types, persistent=False)
        self.repeats = repeats
        rows = self.monomials.exponents.tolist()
        lower = [rows.index(row) for row in exponents[first:].tolist()]
        self.register_buffer("lower", torch.tensor(lower, dtype=torch.long), persistent=False)
        coordinates = torch.tensor(dictionary.coordinate[first:].tolist(), dtype=torch.long)
        self.register_buffer("coordinates", coordinates, persistent=False)
        inner = torch.tensor(dictionary.inner[first:].tolist(), dtype=torch.float64)
        self.register_buffer("inner", inner, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Columns (..., m) at points (..., d)."""
        columns = self.monomials(x)
        if self.types is None:
            return columns
        g = self._functions(self.inner.to(x.dtype) * x[..., self.coordinates], "value")
        return torch.cat([columns, columns[..., self.lower] * g], -1)

    def with_rates(self, x: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
        """Columns and their time derivatives when x moves with velocity `rate`."""
        columns, rates = self.monomials.with_rates(x, rate)
        if self.types is None:
            return columns, rates
        inner = self.inner.to(x.dtype)
        u, v = inner * x[..., self.coordinates], inner * rate[..., self.coordinates]
        g, slope = self._functions(u, "value"), self._functions(u, "slope")
        factor = columns[..., self.lower]
        grown = rates[..., self.lower] * g + factor * slope * v
        return torch.cat([columns, factor * g], -1), torch.cat([rates, grown], -1)

    def _functions(self, u: Tensor, part: str) -> Tensor:
        pieces = zip(self.shapes, u.split(self.repeats, -1), strict=True)
        return torch.cat([getattr(shape, part)(piece) for shape, piece in pieces], -1)
