"""Random polynomials, most of them cubics: as the FIM-ODE paper draws them, and with few terms.

`PolynomialPrior` is the distribution of the paper (appendix on data generation); `SparsePrior` holds systems
that look more like textbooks: few terms per equation, low degrees first.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from training.systems.families import Drawn
from training.systems.fields import MAX_DEGREE, Fields, exponents


def _random_subset(count: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Boolean (..., size): a uniformly random subset with `count` (...) members."""
    rank = (
        torch.rand(*count.shape, size, generator=generator, device=generator.device).argsort(-1).argsort(-1)
    )
    return rank < count[..., None]


@dataclass(frozen=True)
class PolynomialPrior(Drawn):
    """The paper's prior: random degrees, random monomials of each, normal coefficients, one common scale."""

    scale_high: float = 2.0
    integration: str = "euler"
    degree: int = MAX_DEGREE

    def fields(self, n: int, dim: int, generator: torch.Generator) -> Fields:
        """n fields."""
        return Fields(self.sample(n, dim, generator))

    def sample(self, n: int, dim: int, generator: torch.Generator) -> Tensor:
        """Coefficients (n, m, dim) of n systems."""
        where: dict[str, Any] = {"generator": generator, "device": generator.device}
        degree = exponents(dim, degree=self.degree).sum(1)
        n_degrees = torch.randint(1, self.degree + 2, (n, dim), **where)
        degrees = _random_subset(n_degrees, self.degree + 1, generator)
        kept = []
        for order in range(self.degree + 1):
            size = int((degree == order).sum())
            count = torch.randint(1, size + 1, (n, dim), **where)
            kept.append(_random_subset(count, size, generator) & degrees[..., order, None])
        # the dictionary lists monomials by degree
        values = torch.randn(n, dim, len(degree), **where) * torch.cat(kept, -1)
        scale = self.scale_high * torch.rand(n, 1, 1, **where)
        return (values * scale).transpose(1, 2).contiguous()


@dataclass(frozen=True)
class SparsePrior(Drawn):
    """One to four terms per equation, each degree half as likely as the one below, log-normal sizes."""

    max_terms: int = 4
    spread: float = 0.7
    integration: str = "euler"

    def fields(self, n: int, dim: int, generator: torch.Generator) -> Fields:
        """n fields."""
        return Fields(self.sample(n, dim, generator))

    def sample(self, n: int, dim: int, generator: torch.Generator) -> Tensor:
        """Coefficients (n, m, dim) of n systems."""
        where: dict[str, Any] = {"generator": generator, "device": generator.device}
        likely = _log_shares(dim, generator.device)
        noise = -torch.log(-torch.log(torch.rand(n, dim, len(likely), **where)))
        rank = (likely + noise).argsort(-1, descending=True).argsort(-1)
        kept = rank < torch.randint(1, self.max_terms + 1, (n, dim, 1), **where)
        size = torch.exp(self.spread * torch.randn(n, dim, len(likely), **where))
        sign = 2.0 * torch.randint(0, 2, (n, dim, len(likely)), **where) - 1
        scale = 0.2 + 1.8 * torch.rand(n, 1, 1, **where)
        return (size * sign * kept * scale).transpose(1, 2).contiguous()


@cache
def _log_shares(dim: int, device: torch.device) -> Tensor:
    """Logarithms (m,) of how likely `SparsePrior` takes each monomial."""
    degree = exponents(dim).sum(1)
    share = torch.tensor([0.5, 1.0, 0.7, 0.4]) / torch.bincount(degree, minlength=MAX_DEGREE + 1)
    return torch.log(share[degree]).to(device)
