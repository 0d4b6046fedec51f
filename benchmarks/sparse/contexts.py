"""What little is seen of a development system: few points, short pieces, uneven and incomplete samples."""

import hashlib
from collections.abc import Callable
from dataclasses import astuple, dataclass

import numpy as np

from benchmarks.development.problems import true_field
from benchmarks.harness.trials import Problem
from fim_dynsys import corruption
from fim_dynsys.simulation.problem import Status
from fim_dynsys.simulation.solution import simulate
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


def _sampled(problem: Problem, index: np.ndarray, seen: np.ndarray | None = None) -> Trajectories:
    """Samples of the first reference by their numbers (n,); only what a mask (n, d) says is known."""
    x = problem.references[0, index]
    return Trajectories.from_arrays([x if seen is None else np.where(seen, x, np.nan)], [problem.t[index]])


def _even(problem: Problem, n: int) -> np.ndarray:
    return np.round(np.linspace(0, len(problem.t) - 1, n)).astype(int)


def _regular(problem: Problem, n: int, generator: np.random.Generator) -> Trajectories:
    return _sampled(problem, _even(problem, n))


def _irregular(problem: Problem, n: int, generator: np.random.Generator) -> Trajectories:
    later = 1 + generator.choice(len(problem.t) - 1, n - 1, replace=False)
    return _sampled(problem, np.concatenate([[0], np.sort(later)]))


def _several_rates(problem: Problem, n: int, generator: np.random.Generator) -> Trajectories:
    """Coordinate i is known at every (i + 1)th sample."""
    seen = np.arange(n)[:, None] % np.arange(1, problem.dim + 1) == 0
    return _sampled(problem, _even(problem, n), seen)


def _missing(problem: Problem, n: int, generator: np.random.Generator) -> Trajectories:
    return _sampled(problem, _even(problem, n), generator.random((n, problem.dim)) >= MISSING)


def _pieces(problem: Problem, n: int, generator: np.random.Generator) -> Trajectories:
    """Short trajectories near the first reference, each with a length and a rate of its own."""
    found: list[tuple[np.ndarray, np.ndarray]] = []
    while len(found) < n:
        near = problem.references[0, generator.integers(len(problem.t), size=n)]
        starts = near * (1 + PERTURBED * generator.standard_normal(near.shape))
        points = generator.integers(*PIECE_POINTS, size=n, endpoint=True)
        spans = generator.uniform(*PIECE_SPAN, size=n) * problem.t[-1]
        times = [np.linspace(0.0, span, count) for span, count in zip(spans, points, strict=True)]
        paths = simulate(true_field(problem), starts, times)
        whole = np.asarray(paths.status) == Status.SUCCESS  # a few starts lie where a system has no solution
        states = [np.asarray(x)[: len(t)] for t, x in zip(times, paths.x, strict=True)]
        found += [(t, x) for t, x, good in zip(times, states, whole, strict=True) if good]
    found = found[:n]
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
    "irregular": (20, 50),
    "several rates": (50,),
    "missing coordinates": (50,),
    "pieces": (2, 4, 8, 16),
}
