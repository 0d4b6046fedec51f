"""Priors over polynomial systems: what an operator is pretrained on.

`PolynomialPrior` is the distribution of the FIM-ODE paper (appendix on data generation); `SparsePrior`
holds systems that look more like textbooks: few terms per equation, low degrees first.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fim_dynsys.regression.terms import Dictionary

MAX_DEGREE = 3


def exponents(dim: int) -> Tensor:
    """Exponents (m, dim) of all monomials up to degree 3, in the order of the operator's dictionary."""
    return torch.tensor(Dictionary.polynomial(dim, MAX_DEGREE).exponents.tolist())


def _random_subset(count: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Boolean (..., size): a uniformly random subset with `count` (...) members."""
    rank = torch.rand(*count.shape, size, generator=generator).argsort(-1).argsort(-1)
    return rank < count[..., None]


@dataclass(frozen=True)
class PolynomialPrior:
    """The paper's prior: random degrees, random monomials of each, normal coefficients, one common scale."""

    scale_high: float = 2.0

    def sample(self, n: int, dim: int, generator: torch.Generator) -> Tensor:
        """Coefficients (n, m, dim) of n systems."""
        degree = exponents(dim).sum(1)
        n_degrees = torch.randint(1, MAX_DEGREE + 2, (n, dim), generator=generator)
        degrees = _random_subset(n_degrees, MAX_DEGREE + 1, generator)
        kept = torch.zeros(n, dim, len(degree), dtype=torch.bool)
        for order in range(MAX_DEGREE + 1):
            columns = torch.nonzero(degree == order).flatten()
            count = torch.randint(1, len(columns) + 1, (n, dim), generator=generator)
            kept[..., columns] = _random_subset(count, len(columns), generator) & degrees[..., order, None]
        values = torch.randn(n, dim, len(degree), generator=generator) * kept
        scale = self.scale_high * torch.rand(n, 1, 1, generator=generator)
        return (values * scale).transpose(1, 2).contiguous()


@dataclass(frozen=True)
class SparsePrior:
    """One to four terms per equation, each degree half as likely as the one below, log-normal sizes."""

    max_terms: int = 4
    spread: float = 0.7

    def sample(self, n: int, dim: int, generator: torch.Generator) -> Tensor:
        """Coefficients (n, m, dim) of n systems."""
        degree = exponents(dim).sum(1)
        per_degree = torch.bincount(degree, minlength=MAX_DEGREE + 1)
        share = torch.tensor([0.5, 1.0, 0.7, 0.4]) / per_degree
        noise = -torch.log(-torch.log(torch.rand(n, dim, len(degree), generator=generator)))
        rank = (torch.log(share[degree]) + noise).argsort(-1, descending=True).argsort(-1)
        kept = rank < torch.randint(1, self.max_terms + 1, (n, dim, 1), generator=generator)
        size = torch.exp(self.spread * torch.randn(n, dim, len(degree), generator=generator))
        sign = 2.0 * torch.randint(0, 2, (n, dim, len(degree)), generator=generator) - 1
        scale = 0.2 + 1.8 * torch.rand(n, 1, 1, generator=generator)
        return (size * sign * kept * scale).transpose(1, 2).contiguous()


PRIORS = {"paper": PolynomialPrior, "sparse": SparsePrior}
