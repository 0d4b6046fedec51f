"""Contexts with known answers: systems, windows, noise.

Systems are drawn from the operator's priors and from a prior of function terms (trigonometric, saturating,
exponential) that no polynomial fits exactly, and integrated by the compiled Runge-Kutta loop; or from the
other priors of `priors.toml`, and integrated with a controlled error. They are kept if three trajectories
stay bounded and move.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch

from fim_dynsys.errors import SimulationWarning
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.terms import Dictionary, Kind
from fim_dynsys.regression.rollout import rollout
from fim_dynsys.simulation.solution import simulate
from training.systems.fields import MAX_DEGREE
from training.systems.generation import BOUND
from training.systems.priors import single

Key = TypeVar("Key", str, int)

FUNCTIONS = "functions"
"""The prior of this module, of function terms in our own dictionary."""

N_PATHS = 3
N_LABELS = 200
_STEP = 0.02
_MAX_STEPS = 300
_LEAST_MOTION = 1e-2  # standard deviation of each trajectory, relative to the size of the states
_FUNCTIONS = (Kind.SIN, Kind.COS, Kind.EXP, Kind.HILL, Kind.HILL2, Kind.TANH)


@dataclass(frozen=True)
class KnownContext:
    """Noisy samples of one trajectory of a known system.

    Attributes
    ----------
    prior : str
        What the system was drawn from.
    field : VectorField
        The truth.
    t, x : arrays (n,), (n, d)
        What is observed.
    label_t : array (200,)
        Times of ``paths``.
    paths : array (3, 200, d)
        Clean trajectories; the first is the observed one.
    """

    prior: str
    field: VectorField
    t: np.ndarray
    x: np.ndarray
    label_t: np.ndarray
    paths: np.ndarray


def draw(prior: str, dim: int, rng: np.random.Generator) -> KnownContext:
    """One context of a system of `prior`, a single name of `priors.toml` or "functions".

    Reproducible from `rng`. A prior that has no systems of the dimension is a ValueError.
    """
    while True:
        field, starts = _system(prior, dim, rng)
        span = 10.0 * np.exp(rng.uniform(np.log(0.25), 0.0))
        fine = np.linspace(0.0, span, N_LABELS)
        paths = _integrated(field, starts, fine, BOUND)
        if np.isfinite(paths).all() and moves(paths):
            n = rng.choice([200, 512, round(np.exp(rng.uniform(*np.log([20, 1000]))))], p=[0.45, 0.2, 0.35])
            t = np.linspace(0.0, span, int(n))
            (clean,) = _integrated(field, starts[:1], t, 2 * BOUND)
            if not np.isfinite(clean).all():  # near a pole, where the steps decide
                continue
            x, kept = corrupted(clean, rng)
            return KnownContext(prior, field, t[kept] - t[kept][0], x[kept], fine, paths)


def one_of(shares: Mapping[Key, float], rng: np.random.Generator) -> Key:
    """A key, drawn with its share."""
    return list(shares)[int(rng.choice(len(shares), p=list(shares.values())))]


def smallest_dim(prior: str) -> int:
    """Smallest number of states that systems of a prior have."""
    return 1 if prior == FUNCTIONS else single(prior).smallest_dim


def _integrated(field: VectorField, starts: np.ndarray, t: np.ndarray, bound: float) -> np.ndarray:
    """Paths (K, n, d) from starts (K, d); not finite from where they are out of bounds."""
    if isinstance(field, DictionaryField):
        times = np.tile(t, (len(starts), 1))
        return rollout(field.dictionary, field.coefficients[None], starts[None], times, _STEP, bound)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulationWarning)  # such systems are rejected
        return simulate(field, starts, t, rtol=1e-6, escape=bound, max_steps=_MAX_STEPS).x


def moves(paths: np.ndarray) -> bool:
    """Whether some state of each path (K, n, d) does more than scatter round its mean."""
    size = np.sqrt(np.mean(paths**2, axis=(0, 1)))
    return bool((np.std(paths, axis=1) > _LEAST_MOTION * size).any(axis=1).all())


def _system(prior: str, dim: int, rng: np.random.Generator) -> tuple[VectorField, np.ndarray]:
    """A field and initial states (3, d)."""
    if prior == FUNCTIONS:
        starts = rng.normal(size=(N_PATHS, dim))
        return DictionaryField(*_functions(dim, rng)), np.abs(starts) if rng.random() < 0.5 else starts
    known, generator = single(prior), torch.Generator().manual_seed(int(rng.integers(2**62)))
    if dim < smallest_dim(prior):
        raise ValueError(f"draw: expected at least {smallest_dim(prior)} states for {prior!r}, got {dim}.")
    drawn = known.fields(1, dim, generator)
    starts = known.starts(1, N_PATHS, dim, generator)[0].double().numpy()
    if drawn.ridge is None:
        coefficients = drawn.coefficients[0].double().numpy()
        return DictionaryField(Dictionary.polynomial(dim, MAX_DEGREE), coefficients), starts
    return CallableField(lambda x: drawn(torch.tensor(x)[None])[0].numpy(), dim), starts


def _functions(dim: int, rng: np.random.Generator) -> tuple[Dictionary, np.ndarray]:
    """One to three monomials of degree <= 2 and at most two function terms in each equation."""
    monomials = Dictionary.polynomial(dim, 2)
    count = rng.integers(1, 4)
    kinds = rng.choice([int(k) for k in _FUNCTIONS], size=count)
    inner = np.exp(rng.normal(0.3, 0.6, size=count)) * np.where(kinds == Kind.EXP, -1.0, 1.0)
    powers = np.zeros((count, dim), dtype=int)
    lifted = rng.random(count) < 0.4
    powers[lifted, rng.integers(dim, size=lifted.sum())] = 1
    dictionary = monomials + Dictionary(powers, kinds, rng.integers(dim, size=count), inner)
    values = np.zeros((len(dictionary), dim))
    for column in values.T:
        chosen = rng.choice(len(monomials), size=rng.integers(1, 4), replace=False)
        column[chosen] = rng.normal(size=len(chosen))
        added = len(monomials) + rng.choice(count, size=rng.integers(0, min(count, 2) + 1), replace=False)
        column[added] = rng.normal(size=len(added)) * 1.5
    return dictionary, values * rng.uniform(0.3, 2.0)


def corrupted(clean: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Samples (n, d) with multiplicative (sometimes additive) noise, at times none or an integrator's.

    With them which are kept (n,), 20 at least where there are as many.
    """
    kind = rng.choice(["none", "small", "noisy", "strong"], p=[0.12, 0.08, 0.6, 0.2])
    sigma = {
        "none": 0.0,
        "small": np.exp(rng.uniform(*np.log([1e-7, 1e-3]))),
        "noisy": rng.uniform(0.0, 0.08),
        "strong": np.exp(rng.uniform(*np.log([0.08, 0.3]))),
    }[kind]
    size = np.sqrt(np.mean(clean**2, axis=0)) if rng.random() < 0.25 else np.abs(clean)
    x = clean + sigma * size * rng.normal(size=clean.shape)
    share = 0.0 if rng.random() < 0.5 else rng.uniform(0.0, 0.7)
    kept = rng.random(len(x)) >= share
    if kept.sum() < 20:
        kept[:] = True
    return x, kept
