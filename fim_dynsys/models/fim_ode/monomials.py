"""The operator's dictionary as tensors: monomials in the order of `fim_dynsys.fields.terms`."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from fim_dynsys.fields.terms import Dictionary


def factored_monomials(exponents: Tensor) -> list[tuple[int, int, int]]:
    """Every monomial above the constant as a lower one times a coordinate: (monomial, lower, coordinate)."""
    rows = {tuple(row): k for k, row in enumerate(exponents.tolist())}
    factors = []
    for row, k in rows.items():
        if sum(row):
            j = next(i for i, e in enumerate(row) if e > 0)
            factors.append((k, rows[(*row[:j], row[j] - 1, *row[j + 1 :])], j))
    return factors


class MonomialTable(nn.Module):
    """Monomials of a polynomial dictionary as products of a lower monomial and one coordinate."""

    exponents: Tensor  # (m, d)

    def __init__(self, dim: int, degree: int) -> None:
        super().__init__()
        exponents = torch.tensor(Dictionary.polynomial(dim, degree).exponents.tolist(), device="cpu")
        self.orders = range(1, degree + 1)
        self.register_buffer("exponents", exponents, persistent=False)
        total = exponents.sum(1).tolist()
        factored = factored_monomials(exponents)
        for order in self.orders:
            factors = [(low, j) for k, low, j in factored if total[k] == order]
            parents, coordinates = torch.tensor(factors, device="cpu").unbind(1)
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

    def with_rates(self, x: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
        """Monomials and their time derivatives when x moves with velocity `rate`."""
        columns, rates = torch.ones_like(x[..., :1]), torch.zeros_like(x[..., :1])
        for p, c in self._blocks():
            rates = torch.cat([rates, rates[..., p] * x[..., c] + columns[..., p] * rate[..., c]], -1)
            columns = torch.cat([columns, columns[..., p] * x[..., c]], -1)
        return columns, rates
