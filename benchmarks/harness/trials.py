"""What is observed and asked for: problems, trials, contexts and targets."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

import numpy as np

from fim_dynsys import corruption
from fim_dynsys.trajectories.container import Trajectories

SETTINGS = ((0.0, 0.0), (0.03, 0.0), (0.05, 0.0), (0.0, 0.5), (0.03, 0.5), (0.05, 0.5))
PROTOCOLS = ("paper", "full")
PAPER_POINTS = 200
TASKS = ("reconstruction", "generalisation")


@dataclass(frozen=True, eq=False)
class Problem:
    """One system of a benchmark: what is observed and compared with, without its equations.

    Attributes
    ----------
    system : str
        Name or number, unique in the benchmark.
    t : ndarray (n,)
        Times of the references.
    references : ndarray (k, n, d)
        Clean solutions, or recorded trajectories, from one or two initial states (k = 1 or 2).
    initial_states : ndarray (k, d), optional
        Clean states at ``t[0]``; default the first of each reference.
    split_paper, split_strict : str
        "ID" or "OOD" by the published label and by the rule "polynomial of total degree <= 3"; empty where
        nothing was published and where the equations are not known.
    n_seen : int, optional
        First points of a reference that a context may hold, the rest being for the task "forecast"; default
        all.
    """

    system: str
    t: np.ndarray
    references: np.ndarray
    initial_states: np.ndarray | None = None
    split_paper: str = ""
    split_strict: str = ""
    n_seen: int | None = None

    @property
    def dim(self) -> int:
        """Number of states d."""
        return self.references.shape[-1]

    @property
    def starts(self) -> np.ndarray:
        """States (k, d) at ``t[0]`` from which predictions start."""
        return self.references[:, 0] if self.initial_states is None else self.initial_states

    @property
    def size(self) -> float:
        """Largest |x| of the references, to which absolute tolerances are relative."""
        return float(np.abs(self.references).max())


@dataclass(frozen=True)
class Trial:
    """One context and its corruption: observe initial condition `ic` (1 or 2), predict what the tasks ask."""

    system: str
    ic: int
    sigma: float
    rho: float
    seed: int
    protocol: str

    def generator(self) -> np.random.Generator:
        """Return the generator of this trial's one noise draw, the same for every model."""
        digest = hashlib.sha256("|".join(str(value) for value in astuple(self)).encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:16], "big"))


@dataclass(frozen=True, eq=False)
class Target:
    """What one task of a trial asks for.

    Attributes
    ----------
    start : ndarray (d,)
        State at the first time of the trial's grid, see `grid`.
    part : slice
        The points of the grid that are compared.
    states : ndarray (m, d)
        Reference states there.
    """

    start: np.ndarray
    part: slice
    states: np.ndarray


def list_trials(
    problems: Sequence[Problem],
    settings: Iterable[tuple[float, float]],
    protocols: Iterable[str],
    seeds: Sequence[int],
) -> list[Trial]:
    """List the trials of a run; the uncorrupted setting draws no noise and takes the first seed only."""
    return [
        Trial(problem.system, ic, float(sigma), float(rho), seed, protocol)
        for protocol in protocols
        for sigma, rho in settings
        for seed in (seeds if sigma or rho else seeds[:1])
        for problem in problems
        for ic in range(1, len(problem.references) + 1)
    ]


def sample_index(n: int, protocol: str) -> np.ndarray:
    """Return which of n points a protocol uses.

    ``paper`` keeps ``floor(linspace(0, n - 1, 200))``, as the FIM-ODE evaluation does; ``full`` keeps all.
    """
    if protocol == "full" or (protocol == "paper" and n <= PAPER_POINTS):
        return np.arange(n)
    if protocol == "paper":
        return np.floor(np.linspace(0, n - 1, PAPER_POINTS)).astype(int)
    raise ValueError(f"Protocol: expected one of {PROTOCOLS}, got {protocol!r}.")


def grid(problem: Problem, protocol: str) -> tuple[np.ndarray, int]:
    """Return which points of a reference a trial uses, and how many of them, the first, a context sees."""
    n = len(problem.t)
    n_seen = n if problem.n_seen is None else problem.n_seen
    seen = sample_index(n_seen, protocol)
    return np.concatenate([seen, np.arange(n_seen, n)]), len(seen)


def target(problem: Problem, trial: Trial, task: str) -> Target:
    """Return what a task asks for.

    ``reconstruction`` is the trajectory of the context, as far as it may be seen; ``forecast`` the rest of
    it, from the same start; ``generalisation`` the trajectory from the other initial state.

    Raises
    ------
    ValueError
        For another task, and for one that the problem has no reference for.
    """
    index, n_seen = grid(problem, trial.protocol)
    own = trial.ic - 1
    which, part = {
        "reconstruction": (own, slice(0, n_seen)),
        "generalisation": (1 - own, slice(0, len(index))),
        "forecast": (own, slice(n_seen, len(index))),
    }.get(task, (own, slice(0, 0)))
    if which >= len(problem.references) or part.start == part.stop:
        raise ValueError(
            f"Task {task!r}: expected reconstruction, generalisation (of two references) or forecast (beyond "
            f"n_seen), got a problem {problem.system!r} with {len(problem.references)} references and "
            f"n_seen {problem.n_seen}; give another task or problem."
        )
    return Target(problem.starts[which], part, problem.references[which][index[part]])


def clean_context(problem: Problem, trial: Trial) -> Trajectories:
    """Return the trial's trajectory on its protocol's grid before corruption."""
    index, n_seen = grid(problem, trial.protocol)
    index = index[:n_seen]
    return Trajectories.from_arrays(problem.references[trial.ic - 1][index], problem.t[index])


def observe(problem: Problem, trial: Trial) -> Trajectories:
    """Return the corrupted context: multiplicative noise first, then exact-count random dropping."""
    generator = trial.generator()
    noisy = corruption.add_noise(clean_context(problem, trial), trial.sigma, generator)
    return corruption.drop(noisy, trial.rho, generator)


def data_digest(problem: Problem) -> str:
    """Return a digest of one system's data; the cache answers for the same data only."""
    arrays = [problem.t, problem.starts, problem.references]
    if problem.n_seen is not None:
        arrays.append(np.array(problem.n_seen))
    return array_digest(*arrays)


def array_digest(*arrays: np.ndarray) -> str:
    """Return a digest of arrays, 16 hexadecimal digits."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()[:16]
