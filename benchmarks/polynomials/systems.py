"""Random polynomial systems: coefficients, reference paths on any grid, and what is observed of them."""

import hashlib
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from fim_dynsys import corruption
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.trajectories.container import Trajectories
from training.systems.generation import Integration, Systems, load_systems, save_systems
from training.systems.priors import single

PRIORS = {3: "paper", 6: "sextic"}
SHARES = {1: 80, 2: 210, 3: 310}
"""Of the dimensions, as in the paper's pretraining set."""
SEED = 20_000_000
"""No pool that anything was trained or chosen on has a seed near it."""
SEEN, NEW = 12, 1
"""Trajectories that a context may hold, and further ones."""
SPAN = 9.95
BOX_POINTS = 10_000
_DRAWN = {"paper": (1_000, 2_000, 4_000), "sextic": (1_000, 4_000, 24_000)}  # at once, of each dimension
_FIRST = 2  # trajectories, by which most systems are rejected
_EXACT = Integration(dtype=torch.float64)
_SCHEME = "dormand-prince"


@dataclass(frozen=True)
class Draw:
    """One context: a system, how densely, of how many trajectories and with how much noise it is seen."""

    degree: int
    dim: int
    number: int
    points: int
    trajectories: int
    sigma: float

    def generator(self, purpose: str) -> np.random.Generator:
        """Return a generator of its own for each purpose."""
        text = "|".join(str(value) for value in (*astuple(self), purpose))
        return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))


@dataclass(frozen=True, eq=False)
class Polynomial:
    """One system on one grid.

    Attributes
    ----------
    coefficients : ndarray (m, d)
        Of all monomials up to the degree.
    degree : int
    t : ndarray (n,)
    states : ndarray (13, n, d)
        Clean paths, the last from a start that no context has.
    """

    coefficients: np.ndarray
    degree: int
    t: np.ndarray
    states: np.ndarray

    @cached_property
    def field(self) -> DictionaryField:
        """The true field."""
        return DictionaryField(Dictionary.polynomial(self.states.shape[-1], self.degree), self.coefficients)

    def context(self, draw: Draw) -> Trajectories:
        """Return what a model sees: the first trajectories, with multiplicative noise."""
        clean = Trajectories.from_arrays(list(self.states[: draw.trajectories]), [self.t] * draw.trajectories)
        return corruption.add_noise(clean, draw.sigma, draw.generator("noise"))

    def box_points(self, draw: Draw) -> np.ndarray:
        """Return points (10000, d) of the box round the first nine paths, widened by 10 % on each side."""
        low, high = self.states[:9].min(axis=(0, 1)), self.states[:9].max(axis=(0, 1))
        margin = 0.1 * (high - low)
        generator = replace(draw, points=0, trajectories=0, sigma=0.0).generator("box")
        return generator.uniform(low - margin, high + margin, (BOX_POINTS, len(low)))

    def digest(self) -> str:
        """Return a digest of the data; a cache answers for the same data only."""
        arrays = (self.coefficients, self.t, self.states)
        return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()[:16]


def counts(n: int) -> dict[int, int]:
    """Return how many of n systems each dimension has."""
    first = {dim: n * share // sum(SHARES.values()) for dim, share in SHARES.items()}
    return {**first, 3: n - first[1] - first[2]}


def draw_systems(prior: str, dim: int, n: int, seed: int, folder: Path) -> Systems:
    """Return n systems of a prior, from `folder` where it has them.

    Kept is a system of which all 13 trajectories from normal starts stay within 100 and are accurate. The
    first n of more are the same systems.
    """
    path = folder / f"{prior}-{dim}d-{seed}-{n}.safetensors"
    if path.exists():
        return load_systems(path)
    parts, found, batch = [], 0, 0
    while found < n:
        parts.append(_accepted(prior, dim, seed + batch))
        found, batch = found + len(parts[-1]), batch + 1
    systems = Systems.join(parts)[:n]
    folder.mkdir(parents=True, exist_ok=True)
    save_systems(path, systems)
    return systems


def _accepted(prior: str, dim: int, seed: int) -> Systems:
    generator = torch.Generator().manual_seed(seed)
    sampler, many = single(prior), _DRAWN[prior][dim - 1]
    fields = sampler.fields(many, dim, generator)
    starts = sampler.starts(many, SEEN + NEW, dim, generator)
    _, kept = _EXACT.run(fields, starts[:, :_FIRST], _SCHEME, compact=True)
    fields, starts = fields[kept], starts[kept]
    states, kept = _EXACT.run(fields, starts, _SCHEME, compact=True)
    return Systems(fields[kept], states)


def polynomials(systems: Systems, points: int) -> Iterator[Polynomial]:
    """Yield the systems with their paths at so many times, evenly over the span."""
    starts = systems.states[:, :, 0]
    states, _ = replace(_EXACT, samples=points).run(systems.fields, starts, _SCHEME, compact=False)
    t, degree = np.linspace(0.0, SPAN, points), systems.fields.degree
    for coefficients, paths in zip(
        systems.coefficients.double().numpy(), states.double().numpy(), strict=True
    ):
        yield Polynomial(coefficients, degree, t, paths)
