"""Contexts with known answers for whatever chooses among candidate fields: systems, windows, noise.

Systems are drawn from the operator's priors and from a prior of function terms (trigonometric, saturating,
exponential) that no polynomial fits exactly, integrated by the compiled Runge-Kutta loop, and kept if three
trajectories stay bounded and move.
"""

from dataclasses import dataclass

import numpy as np
import torch

from fim_dynsys.regression.fields import DictionaryField
from fim_dynsys.regression.rollout import rollout
from fim_dynsys.regression.terms import Dictionary, Kind
from training.prior import MAX_DEGREE, PRIORS

BOUND = 100.0
N_TRAJECTORIES = 3
N_LABELS = 200
_STEP = 0.02
_LEAST_MOTION = 1e-2  # standard deviation of each trajectory, relative to the size of the states
_FUNCTIONS = (Kind.SIN, Kind.COS, Kind.EXP, Kind.HILL, Kind.HILL2, Kind.TANH)


@dataclass(frozen=True)
class KnownContext:
    """Noisy samples of one trajectory of a known system.

    Attributes
    ----------
    prior : str
        What the system was drawn from.
    field : DictionaryField
        The truth.
    t, x : arrays (n,), (n, d)
        What is observed.
    label_t : array (200,)
        Times of ``paths``.
    paths : array (3, 200, d)
        Clean trajectories; the first is the observed one.
    """

    prior: str
    field: DictionaryField
    t: np.ndarray
    x: np.ndarray
    label_t: np.ndarray
    paths: np.ndarray


def draw(prior, dim, rng):
    """One context of a system of `prior` ("paper", "sparse" or "functions"), reproducible from `rng`."""
    while True:
        dictionary, coefficients, starts = _system(prior, dim, rng)
        span = 10.0 * np.exp(rng.uniform(np.log(0.25), 0.0))
        fine = np.linspace(0.0, span, N_LABELS)
        times = np.tile(fine, (N_TRAJECTORIES, 1))
        paths = rollout(dictionary, coefficients[None], starts[None], times, _STEP, BOUND)[0]
        if np.isfinite(paths).all() and _moves(paths):
            t, clean = _sampled(dictionary, coefficients, starts[0], span, rng)
            if not np.isfinite(clean).all():  # near a pole, where the steps decide
                continue
            t, x = _corrupted(t, clean, rng)
            return KnownContext(prior, DictionaryField(dictionary, coefficients), t, x, fine, paths)


def _moves(paths):
    size = np.sqrt(np.mean(paths**2, axis=(0, 1)))
    return bool((np.std(paths, axis=1) > _LEAST_MOTION * size).any(axis=1).all())


def _system(prior, dim, rng):
    """Dictionary, coefficients (m, d) and initial states (3, d)."""
    starts = rng.normal(size=(N_TRAJECTORIES, dim))
    if prior in PRIORS:
        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        values = PRIORS[prior]().sample(1, dim, generator)[0].double().numpy()
        return Dictionary.polynomial(dim, MAX_DEGREE), values, starts
    if prior != "functions":
        raise ValueError(f"draw: expected a prior among {sorted(PRIORS)} and 'functions', got {prior!r}.")
    dictionary, values = _functions(dim, rng)
    return dictionary, values, np.abs(starts) if rng.random() < 0.5 else starts


def _functions(dim, rng):
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


def _sampled(dictionary, coefficients, start, span, rng):
    n = int(rng.choice([200, 512, round(np.exp(rng.uniform(np.log(50), np.log(512))))], p=[0.45, 0.25, 0.3]))
    t = np.linspace(0.0, span, n)
    return t, rollout(dictionary, coefficients[None], start[None, None], t[None], _STEP, 2 * BOUND)[0, 0]


def _corrupted(t, clean, rng):
    """Multiplicative (sometimes additive) noise, and samples left out."""
    sigma = 0.0 if rng.random() < 0.25 else rng.uniform(0.0, 0.08)
    size = np.sqrt(np.mean(clean**2, axis=0)) if rng.random() < 0.25 else np.abs(clean)
    x = clean + sigma * size * rng.normal(size=clean.shape)
    share = 0.0 if rng.random() < 0.5 else rng.uniform(0.0, 0.7)
    kept = rng.random(len(t)) >= share
    if kept.sum() < 20:
        kept[:] = True
    return t[kept] - t[kept][0], x[kept]
