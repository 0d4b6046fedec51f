"""Priors by name: what an operator is pretrained on. `priors.toml` lists them; mixtures compose others.

`PolynomialPrior` is the distribution of the FIM-ODE paper (appendix on data generation); `SparsePrior`
holds systems that look more like textbooks: few terms per equation, low degrees first. The families beyond
polynomials are in `training.families`.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from training.chaos import ChaoticPrior
from training.families import LinearPrior, OscillatorPrior, PotentialPrior, SmoothPrior, TermsPrior
from training.fields import MAX_DEGREE, Fields, exponents

LISTING = Path(__file__).parent / "priors.toml"


class Prior(Protocol):
    """A distribution over systems; what it draws lives on the generator's device."""

    smallest_dim: int
    integration: str

    def fields(self, n: int, dim: int, generator: torch.Generator) -> Fields:
        """n random fields."""

    def starts(self, n: int, count: int, dim: int, generator: torch.Generator) -> Tensor:
        """Initial states (n, count, dim) to go with them."""


class _Polynomials:
    """A prior over coefficients of polynomials, with starts from a normal distribution."""

    smallest_dim = 1

    def fields(self, n: int, dim: int, generator: torch.Generator) -> Fields:
        return Fields(self.sample(n, dim, generator))

    def starts(self, n: int, count: int, dim: int, generator: torch.Generator) -> Tensor:
        return torch.randn(n, count, dim, generator=generator, device=generator.device)


def _random_subset(count: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Boolean (..., size): a uniformly random subset with `count` (...) members."""
    rank = (
        torch.rand(*count.shape, size, generator=generator, device=generator.device).argsort(-1).argsort(-1)
    )
    return rank < count[..., None]


@dataclass(frozen=True)
class PolynomialPrior(_Polynomials):
    """The paper's prior: random degrees, random monomials of each, normal coefficients, one common scale."""

    scale_high: float = 2.0
    integration: str = "euler"

    def sample(self, n: int, dim: int, generator: torch.Generator) -> Tensor:
        """Coefficients (n, m, dim) of n systems."""
        where = {"generator": generator, "device": generator.device}
        degree = exponents(dim).sum(1)
        n_degrees = torch.randint(1, MAX_DEGREE + 2, (n, dim), **where)
        degrees = _random_subset(n_degrees, MAX_DEGREE + 1, generator)
        kept = []
        for order in range(MAX_DEGREE + 1):
            size = int((degree == order).sum())
            count = torch.randint(1, size + 1, (n, dim), **where)
            kept.append(_random_subset(count, size, generator) & degrees[..., order, None])
        # the dictionary lists monomials by degree
        values = torch.randn(n, dim, len(degree), **where) * torch.cat(kept, -1)
        scale = self.scale_high * torch.rand(n, 1, 1, **where)
        return (values * scale).transpose(1, 2).contiguous()


@dataclass(frozen=True)
class SparsePrior(_Polynomials):
    """One to four terms per equation, each degree half as likely as the one below, log-normal sizes."""

    max_terms: int = 4
    spread: float = 0.7
    integration: str = "euler"

    def sample(self, n: int, dim: int, generator: torch.Generator) -> Tensor:
        """Coefficients (n, m, dim) of n systems."""
        where = {"generator": generator, "device": generator.device}
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


PRIORS = {"paper": PolynomialPrior, "sparse": SparsePrior}


# --- names ---

FAMILIES = {
    "polynomial": PolynomialPrior,
    "sparse": SparsePrior,
    "terms": TermsPrior,
    "oscillator": OscillatorPrior,
    "potential": PotentialPrior,
    "smooth": SmoothPrior,
    "linear": LinearPrior,
    "chaotic": ChaoticPrior,
}


@cache
def _listed() -> dict[str, dict]:
    return tomllib.loads(LISTING.read_text())


def names() -> list[str]:
    """All names in `priors.toml`."""
    return sorted(_listed())


def single(name: str) -> Prior:
    """The prior of a name that is no mixture; ValueError for unknown names, families and keys."""
    values = dict(_entry(name))
    family = values.pop("family", None)
    if family not in FAMILIES:
        raise ValueError(
            f"priors.toml: expected {name!r} to have a family among {sorted(FAMILIES)}, got {family!r}."
        )
    unknown = set(values) - {f.name for f in fields(FAMILIES[family])}
    if unknown:
        raise ValueError(f"priors.toml: {name!r} has unknown keys {sorted(unknown)}.")
    return FAMILIES[family](**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})


def components(name: str, dim: int, n: int) -> list[tuple[str, int]]:
    """What n systems of a name consist of: names that are no mixtures, and how many systems of each.

    Shares of a mixture are rounded by largest remainder, so that the same n always means the same systems.
    A family that does not exist in a dimension leaves its share to the others.
    """
    shares = {part: share for part, share in _shares(name) if single(part).smallest_dim <= dim}
    if not shares:
        raise ValueError(f"priors.toml: {name!r} has no systems of dimension {dim}; choose another prior.")
    exact = {part: n * share / sum(shares.values()) for part, share in shares.items()}
    count = {part: int(value) for part, value in exact.items()}
    by_remainder = sorted(exact, key=lambda part: count[part] - exact[part])
    for part in by_remainder[: n - sum(count.values())]:
        count[part] += 1
    return [(part, number) for part, number in count.items() if number]


def exists(name: str, dim: int) -> bool:
    """Whether a prior, or some part of a mixture, has systems of a dimension."""
    return any(single(part).smallest_dim <= dim for part, _ in _shares(name))


def _entry(name: str) -> dict:
    listed = _listed()
    if name not in listed:
        raise ValueError(f"priors.toml: expected the name of a prior among {names()}, got {name!r}.")
    return listed[name]


def _shares(name: str) -> Iterator[tuple[str, float]]:
    mixture = _entry(name).get("mixture")
    if mixture is None:
        yield name, 1.0
        return
    total = sum(mixture.values())
    for part, share in mixture.items():
        for inner, fraction in _shares(part):
            yield inner, share / total * fraction
