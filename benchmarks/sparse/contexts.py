"""What little is seen of a development system: few points, short pieces, uneven and incomplete samples."""

import hashlib
from collections.abc import Callable
from dataclasses import astuple, dataclass

import numpy as np

from benchmarks.development.problems import true_field
from benchmarks.harness.trials import Problem
from fim_dynsys import corruption, simulate
from fim_dynsys.trajectories.container import Trajectories

MISSING = 0.2  # probability of each coordinate
PERTURBED = 0.1  # relative deviation of the starts of pieces from states of the first reference
PIECE_POINTS = (5, 12)
PIECE_SPAN = (0.1, 0.3)  # of the system's


@dataclass(frozen=True)
class Sparse:
    """One context: of a system, how it is sampled, how many points or pieces, and its noise."""

    system: str
    kind: str
    amount: int
    sigma: float
    seed: int

    def generator(self) -> np.random.Generator:
        """Return the generator of everything random about this context, the same for every model."""
        digest = hashlib.sha256("|".join(str(value) for value in astuple(self)).encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def observe(problem: Problem, key: Sparse) -> Trajectories:
    """Return the noisy context that a key names."""
    generator = key.generator()
    clean = KINDS[key.kind](problem, key.amount, generator)
    return corruption.add_noise(clean, key.sigma, generator)


def _path(problem: Problem, t: np.ndarray) -> Trajectories:
    """The trajectory from the first start, at times of which the first is the system's first."""
    return simulate(true_field(problem), problem.starts[0], t, rtol=1e-9)


def _regular(problem: Problem, n: int, generator: np.random.Generator) -> Trajectories:
    return _path(problem, np.linspace(0.0, problem.t[-1], n))


def _irregular(problem: Problem, n: int, generator: np.random.Generator) -> Trajectories:
    later = np.sort(generator.uniform(0.0, problem.t[-1], n - 1))
    return _path(problem, np.concatenate([[0.0], later]))


def _incomplete(problem: Problem, seen: np.ndarray) -> Trajectories:
    """Evenly spaced samples of which only those coordinates are known that a mask (n, d) says."""
    t = np.linspace(0.0, problem.t[-1], len(seen))
    ((t, x),) = _path(problem, t).arrays()
    return Trajectories.from_arrays([np.where(seen, x, np.nan)], [t])


def _several_rates(problem: Problem, n: int, generator: np.random.Generator) -> Trajectories:
    """Coordinate i is known at every (i + 1)th sample."""
    return _incomplete(problem, np.arange(n)[:, None] % np.arange(1, problem.dim + 1) == 0)


def _missing(problem: Problem, n: int, generator: np.random.Generator) -> Trajectories:
    return _incomplete(problem, generator.random((n, problem.dim)) >= MISSING)


def _pieces(problem: Problem, n: int, generator: np.random.Generator) -> Trajectories:
    """Short trajectories near the first reference, each with a length and a rate of its own."""
    found: list[tuple[np.ndarray, np.ndarray]] = []
    while len(found) < n:
        near = problem.references[0, generator.integers(len(problem.t))]
        start = near * (1 + PERTURBED * generator.standard_normal(problem.dim))
        points = generator.integers(*PIECE_POINTS, endpoint=True)
        t = np.linspace(0.0, generator.uniform(*PIECE_SPAN) * problem.t[-1], points)
        x = simulate(true_field(problem), start, t, rtol=1e-9).x[0]
        if np.isfinite(x).all():  # a few perturbed starts lie where a system has no solution
            found.append((t, np.asarray(x)))
    return Trajectories.from_arrays([x for _, x in found], [t for t, _ in found])


KINDS: dict[str, Callable[[Problem, int, np.random.Generator], Trajectories]] = {
    "points": _regular,
    "irregular": _irregular,
    "several rates": _several_rates,
    "missing coordinates": _missing,
    "pieces": _pieces,
}
AMOUNTS: dict[str, tuple[int, ...]] = {
    "points": (8, 12, 20, 30, 50),
    "irregular": (12, 20, 50),
    "several rates": (50,),
    "missing coordinates": (20, 50),
    "pieces": (1, 2, 4, 8, 16),
}
