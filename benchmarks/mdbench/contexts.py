"""MDBench's data: short records of ODEBench's systems, clean and noisy, split in time."""

import functools
import hashlib
import math
from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp

from benchmarks.harness.trials import Problem
from benchmarks.odebench import facts
from benchmarks.odebench.reference_rows import true_field
from fim_dynsys.trajectories.container import Trajectories

POINTS, SEEN = 150, 120
LEVELS = ("clean", "40", "30", "20", "10")
SEED = 0


@dataclass(frozen=True)
class Case:
    """One record: a system and its noise, "clean" or the ratio of signal to noise in decibels."""

    system: str
    level: str

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, relative to each sample."""
        return 0.0 if self.level == "clean" else math.sqrt(10.0 ** (-float(self.level) / 10.0))


@dataclass(frozen=True, eq=False)
class Record:
    """What there is to know of one record.

    Attributes
    ----------
    system : str
        ODEBench's number.
    t : ndarray (n,)
        Times, 150 on [0, 10]; the first 120 are for fitting.
    clean, observed, slopes : ndarray (n, d)
        Solution, what is seen of it, and the true field on the solution.
    """

    system: str
    t: np.ndarray
    clean: np.ndarray
    observed: np.ndarray
    slopes: np.ndarray

    @property
    def dim(self) -> int:
        """Number of states d."""
        return self.clean.shape[1]

    def context(self) -> Trajectories:
        """Return the part for fitting."""
        return Trajectories.from_arrays(self.observed[:SEEN], self.t[:SEEN])

    def digest(self) -> str:
        """Return a digest of the data."""
        return hashlib.sha256(self.observed.tobytes() + self.slopes.tobytes()).hexdigest()[:16]


@functools.cache
def records(level: str) -> tuple[Record, ...]:
    """Return the records of all systems at one noise level; one stream of draws runs over them in turn."""
    generator = np.random.default_rng(SEED)
    found = []
    for problem in facts.problems():
        clean, slopes = _solved(problem)
        noise = generator.standard_normal(clean.shape)
        observed = clean * (1.0 + Case(problem.system, level).sigma * noise)
        found.append(Record(problem.system, _times(), clean, observed, slopes))
    return tuple(found)


def _times() -> np.ndarray:
    return np.linspace(0.0, facts.T_END, POINTS)


@functools.cache
def _solved(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Solution from the first initial state at the accuracy of MDBench, and the field on it."""
    field, t = true_field(problem), _times()
    found = solve_ivp(
        field.ivp, (t[0], t[-1]), problem.starts[0], method="LSODA", t_eval=t, rtol=1e-5, atol=1e-7
    )
    if not found.success:
        raise RuntimeError(f"ODEBench {problem.system}: expected a solution, got {found.message!r}.")
    return found.y.T, field(found.y.T)
