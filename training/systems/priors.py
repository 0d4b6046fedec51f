"""Priors by name: what an operator is pretrained on.

`priors.toml` lists them, each a family with its parameters or a mixture of names; `register` adds others.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from training.systems.chaos import ChaoticPrior
from training.systems.families import LinearPrior, OscillatorPrior, PotentialPrior, SmoothPrior, TermsPrior
from training.systems.fields import Fields
from training.systems.polynomials import PolynomialPrior, SparsePrior

LISTING = Path(__file__).parent / "priors.toml"


class Prior(Protocol):
    """A distribution over systems; what it draws lives on the generator's device.

    A frozen dataclass does best: pools in files are named by its representation.
    """

    @property
    def smallest_dim(self) -> int:
        """Smallest number of states that its systems have."""

    @property
    def integration(self) -> str:
        """A name in `training.systems.generation.SCHEMES`."""

    def fields(self, n: int, dim: int, generator: torch.Generator) -> Fields:
        """n random fields."""

    def starts(self, n: int, count: int, dim: int, generator: torch.Generator) -> Tensor:
        """Initial states (n, count, dim) to go with them."""


# Family, as in `priors.toml` -> its class, whose fields are the parameters.
FAMILIES: dict[str, type] = {
    "polynomial": PolynomialPrior,
    "sparse": SparsePrior,
    "terms": TermsPrior,
    "oscillator": OscillatorPrior,
    "potential": PotentialPrior,
    "smooth": SmoothPrior,
    "linear": LinearPrior,
    "chaotic": ChaoticPrior,
}
_REGISTERED: dict[str, Prior] = {}


@cache
def _listed() -> dict[str, dict]:
    return tomllib.loads(LISTING.read_text())


def names() -> list[str]:
    """All names of priors and mixtures."""
    return sorted({*_listed(), *_REGISTERED})


def register(name: str, prior: Prior) -> None:
    """Add a prior for this process, in place of one that was registered under the name before.

    Raises
    ------
    ValueError
        If `priors.toml` has the name.
    """
    if name in _listed():
        raise ValueError(f"register: expected a name that priors.toml does not list, got {name!r}.")
    _REGISTERED[name] = prior


def single(name: str) -> Prior:
    """The prior of a name that is no mixture; ValueError for unknown names, families and keys."""
    if name in _REGISTERED:
        return _REGISTERED[name]
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
    mixture = None if name in _REGISTERED else _entry(name).get("mixture")
    if mixture is None:
        yield name, 1.0
        return
    total = sum(mixture.values())
    for part, share in mixture.items():
        for inner, fraction in _shares(part):
            yield inner, share / total * fraction
