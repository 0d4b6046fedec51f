"""What every benchmark of inferred fields shares: trials, observations, scores, the cache and the workers."""

import contextlib
import functools
import hashlib
import json
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

import fim_dynsys
from fim_dynsys import corruption, metrics
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.simulation.problem import Status
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.trajectories import Trajectories

SETTINGS = ((0.0, 0.0), (0.03, 0.0), (0.05, 0.0), (0.0, 0.5), (0.03, 0.5), (0.05, 0.5))
PROTOCOLS = ("paper", "full")
PAPER_POINTS = 200
TASKS = ("reconstruction", "generalisation")
TRIAL_COLUMNS = (
    "system",
    "ic",
    "dim",
    "split_paper",
    "split_strict",
    "sigma",
    "rho",
    "seed",
    "protocol",
    "model",
    "version",
    "r2_reconstruction",
    "r2_generalisation",
    "mse_reconstruction",
    "mse_generalisation",
    "status_reconstruction",
    "status_generalisation",
    "structure",
    "infer_seconds",
    "simulate_seconds",
)


# ---------------------------------------------------------------------------------------------- the task


@dataclass(frozen=True, eq=False)
class Problem:
    """One system of a benchmark: what is observed and compared with, without its equations.

    Attributes
    ----------
    system : str
        Name or number, unique in the benchmark.
    dim : int
        Number of states d.
    split_paper, split_strict : str
        "ID" or "OOD" by the published label and by the rule "polynomial of total degree <= 3"; an empty
        ``split_paper`` where nothing was published.
    t : ndarray (n,)
        Times of the references.
    initial_states : ndarray (2, d)
        Clean states at ``t[0]``.
    references : ndarray (2, n, d)
        Clean solutions from the two initial states.
    """

    system: str
    dim: int
    split_paper: str
    split_strict: str
    t: np.ndarray
    initial_states: np.ndarray
    references: np.ndarray


@dataclass(frozen=True)
class Trial:
    """One context and its corruption: observe initial condition `ic` (1 or 2), predict both."""

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
        for ic in (1, 2)
    ]


def sample_index(n: int, protocol: str) -> np.ndarray:
    """Return which of a reference's n points a protocol uses.

    ``paper`` keeps ``floor(linspace(0, n - 1, 200))``, as the FIM-ODE evaluation does; ``full`` keeps all.
    """
    if protocol == "full" or (protocol == "paper" and n <= PAPER_POINTS):
        return np.arange(n)
    if protocol == "paper":
        return np.floor(np.linspace(0, n - 1, PAPER_POINTS)).astype(int)
    raise ValueError(f"Protocol: expected one of {PROTOCOLS}, got {protocol!r}.")


def clean_context(problem: Problem, trial: Trial) -> Trajectories:
    """Return the trial's trajectory on its protocol's grid before corruption."""
    index = sample_index(len(problem.t), trial.protocol)
    return Trajectories.from_arrays(problem.references[trial.ic - 1][index], problem.t[index])


def observe(problem: Problem, trial: Trial) -> Trajectories:
    """Return the corrupted context: multiplicative noise first, then exact-count random dropping."""
    generator = trial.generator()
    noisy = corruption.add_noise(clean_context(problem, trial), trial.sigma, generator)
    return corruption.drop(noisy, trial.rho, generator)


# ---------------------------------------------------------------------------------------------- the rows


@functools.lru_cache(maxsize=8)
def _load(name: str, params: tuple[tuple[str, Any], ...]):
    return fim_dynsys.load(name, **dict(params))


@dataclass(frozen=True)
class ModelRow:
    """A registered model. It is given the corrupted context and nothing else."""

    name: str
    model: str
    version: str
    params: tuple[tuple[str, Any], ...] = ()
    sees_truth: ClassVar[bool] = False

    @classmethod
    def resolve(cls, spec: str, **params: Any) -> "ModelRow":
        """Load the model once, so that a missing one stops the run and its version is known.

        Parameters
        ----------
        spec : str
            A registry name, or ``NAME:key=value,key=value`` with Python literals as values.
        **params
            Further parameters, not shown in the row's name.
        """
        model, _, options = spec.partition(":")
        given = dict(_option(item) for item in options.split(",") if item)
        items = tuple(sorted({**given, **params}.items()))
        return cls(name=spec, model=model, version=str(_load(model, items).version), params=items)

    def infer(self, context: Trajectories) -> VectorField:
        """Return the model's field for one context."""
        return _load(self.model, self.params).infer(context)

    def fit(self, context: Trajectories):
        """Return the model itself, fitted to one context."""
        return _load(self.model, self.params).fit(context)

    def candidates(self, context: Trajectories) -> list[VectorField]:
        """Return the fields that the model chooses among, its own choice first."""
        return _load(self.model, self.params).candidates(context)


@dataclass(frozen=True)
class ConstantRow:
    """The zero field: the prediction is the start."""

    name: str = "constant"
    version: str = "1"
    sees_truth: ClassVar[bool] = False

    def infer(self, context: Trajectories) -> VectorField:
        """Return f = 0."""
        return CallableField(np.zeros_like, context.dim)


def _option(item: str) -> tuple[str, Any]:
    import ast

    key, separator, value = item.partition("=")
    if not separator:
        raise ValueError(f"Model options: expected key=value, got {item!r}; write NAME:key=value,key=value.")
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value


# ---------------------------------------------------------------------------------------------- one trial


@dataclass(frozen=True)
class Integrator:
    """The one way in which every row's field is integrated.

    An explicit pair of order 8; a trajectory on which it runs out of steps or of step size (a stiff field)
    is tried once more with LSODA at the same tolerances. The absolute tolerance is ``rtol`` times the largest
    |x| of the system's references, so it does not depend on the model. What still fails counts as a failure.
    No true field of ODEBench or of the development split takes more than 480 steps.
    """

    rtol: float = 1e-8
    max_steps: int = 3_000
    method: str = "dop853"
    stiff_method: str = "lsoda"
    stiff_signs: ClassVar[tuple[Status, ...]] = (Status.MAX_STEPS, Status.STEP_TOO_SMALL)

    def __str__(self) -> str:
        return (
            f"{self.method} rtol {self.rtol:g} atol {self.rtol:g}*max|x| max_steps {self.max_steps}; "
            f"{self.stiff_method} after MAX_STEPS or STEP_TOO_SMALL"
        )

    def solve(self, vector_field: VectorField, x0: np.ndarray, t: np.ndarray, size: float):
        """Return states ``(m, n, d)`` (NaN after a failure) and statuses, from `x0` ``(m, d)`` at `t`."""
        options = {"rtol": self.rtol, "atol": self.rtol * size, "max_steps": self.max_steps}
        result = simulate(vector_field, x0, t, method=self.method, **options)
        x, status = np.array(result.x), [Status(int(value)) for value in result.status]
        for row in (i for i, value in enumerate(status) if value in self.stiff_signs):
            again = simulate(vector_field, x0[row], t, method=self.stiff_method, **options)
            x[row], status[row] = again.x[0], Status(int(again.status[0]))
        return x, status


def evaluate(row, problem: Problem, trial: Trial, integrator: Integrator) -> dict[str, Any]:
    """Infer from the trial's context, integrate from both clean initial states, score against the references.

    An exception of the model, in inference or while its field is evaluated, is an outcome like another: the
    trial fails and its status is the exception's class.

    Returns
    -------
    dict
        The outcome columns of a trial, ``terms`` (see `VectorField.terms`) and ``message``; R2 is NaN and MSE
        infinite where the prediction is not finite.
    """
    context = observe(problem, trial)
    outcome: dict[str, Any] = {"infer_seconds": float("nan"), "simulate_seconds": float("nan"), "message": ""}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        start = time.process_time()
        try:
            inferred = row.infer(context, problem, trial) if row.sees_truth else row.infer(context)
            outcome["infer_seconds"] = time.process_time() - start
            outcome["terms"] = inferred.terms()
            start = time.process_time()
            outcome |= score(inferred, problem, trial, integrator)
        except Exception as error:
            for task in TASKS:
                outcome |= _failed(task, type(error).__name__)
            outcome["message"] = str(error)[:500]
        outcome["simulate_seconds"] = time.process_time() - start
    return outcome


def score(
    vector_field: VectorField, problem: Problem, trial: Trial, integrator: Integrator
) -> dict[str, float | str]:
    """Integrate from both clean initial states; return R2, MSE and status of either task."""
    own = trial.ic - 1
    order = [own, 1 - own]
    index = sample_index(len(problem.t), trial.protocol)
    size = float(np.abs(problem.references).max())
    states, status = integrator.solve(vector_field, problem.initial_states[order], problem.t[index], size)
    result = {}
    for task, reference, prediction, sign in zip(
        TASKS, problem.references[order][:, index], states, status, strict=True
    ):
        result |= _scores(task, reference, prediction, sign.name)
    return result


def _failed(task: str, status: str) -> dict[str, Any]:
    return {f"r2_{task}": float("nan"), f"mse_{task}": float("inf"), f"status_{task}": status}


def _scores(task: str, reference: np.ndarray, prediction: np.ndarray, status: str) -> dict[str, Any]:
    if not np.isfinite(prediction).all():
        return _failed(task, status)
    with np.errstate(over="ignore", invalid="ignore"):
        r2 = float(metrics.r2_score(reference, prediction))
        mse = float(np.mean((reference - prediction) ** 2))
    return {f"r2_{task}": r2, f"mse_{task}": mse, f"status_{task}": status}


# ---------------------------------------------------------------------------------------------- the cache


@dataclass
class RowCache:
    """Outcomes of one row, one JSON line each, appended as they come; a torn last line is ignored."""

    path: Path
    outcomes: dict[tuple[Trial, str], dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, key: dict[str, Any], fresh: bool = False) -> "RowCache":
        """Open the file that belongs to `key` (row, version, parameters, integrator) under `folder`."""
        text = json.dumps(key, sort_keys=True, default=str)
        stem = re.sub(r"[^A-Za-z0-9.-]+", "_", str(key["name"]))[:60]
        path = folder / f"{stem}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        if fresh:
            path.unlink(missing_ok=True)
        cache = cls(path)
        if path.exists():
            cache._read()
        else:
            cache._write(text)
        return cache

    def _read(self) -> None:
        content = self.path.read_bytes()
        if not content.endswith(b"\n"):
            with self.path.open("ab") as file:
                file.write(b"\n")
        for line in content.splitlines()[1:]:
            with contextlib.suppress(json.JSONDecodeError, TypeError, KeyError):
                record = json.loads(line)
                self.outcomes[Trial(**record["trial"]), record["data"]] = record["outcome"]

    def _write(self, text: str) -> None:
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, (text + "\n").encode())
        finally:
            os.close(handle)

    def add(self, trial: Trial, data: str, outcome: dict[str, Any]) -> None:
        """Keep the outcome of a trial on a system whose data have this digest, on disk first."""
        self._write(json.dumps({"trial": asdict(trial), "data": data, "outcome": outcome}))
        self.outcomes[trial, data] = outcome


# ---------------------------------------------------------------------------------------------- the run


def _limit_threads() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() != 1:
        torch.set_num_threads(1)


class Job(NamedTuple):
    """One trial to run: `arguments` go to the function that evaluates it, `data` is a digest of its data."""

    trial: Trial
    data: str
    arguments: tuple


def _work(number: int, function: Callable[..., dict[str, Any]], arguments: tuple):
    _limit_threads()
    return number, function(*arguments)


def _outcomes(function, tasks: list[tuple], workers: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield outcomes as they are ready; each worker computes on one thread."""
    import joblib
    from threadpoolctl import threadpool_limits

    if workers == 1 or len(tasks) <= 1:
        with threadpool_limits(1):
            for number, task in enumerate(tasks):
                yield _work(number, function, task)
        return
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        parallel = joblib.Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1)
        yield from parallel(
            joblib.delayed(_work)(number, function, task) for number, task in enumerate(tasks)
        )


def cached_outcomes(
    function: Callable[..., dict[str, Any]],
    rows: Sequence,
    jobs: Sequence[Job],
    folder: str | os.PathLike,
    settings: str,
    workers: int = 1,
    fresh: bool = False,
    progress: bool = False,
) -> list[list[dict[str, Any]]]:
    """Evaluate every row on every job that the cache in `folder` does not hold yet.

    Parameters
    ----------
    function : callable
        ``function(row, *job.arguments)`` gives a dict that JSON can hold; must be importable by workers.
    rows : sequence
        Objects with ``name`` and ``version``; see `ModelRow`.
    jobs : sequence of Job
        What to run.
    folder : path
        Output folder; outcomes are kept under ``folder/cache`` as soon as they are known.
    settings : str
        Whatever else determines an outcome, such as the integrator.
    workers, fresh, progress
        As for `run`.

    Returns
    -------
    list of list of dict
        ``[job][row]``, in the order given.
    """
    from tqdm import tqdm

    caches = [RowCache.open(Path(folder) / "cache", _key(row, settings), fresh) for row in rows]
    missing = [
        (number, job)
        for job in jobs
        for number, cache in enumerate(caches)
        if (job.trial, job.data) not in cache.outcomes
    ]
    np.random.default_rng(0).shuffle(
        missing
    )  # large systems come last in the list: the time left would mislead
    tasks = [(rows[number], *job.arguments) for number, job in missing]
    total = len(jobs) * len(rows)
    if progress and len(tasks) < total:
        print(
            f"{total - len(tasks)} of {total} outcomes are known from {caches[0].path.parent}",
            file=sys.stderr,
        )
    interval = 0.2 if sys.stderr.isatty() else 20.0
    with tqdm(total=len(tasks), disable=not progress, unit="trial", mininterval=interval) as bar:
        for position, outcome in _outcomes(function, tasks, workers):
            number, job = missing[position]
            caches[number].add(job.trial, job.data, outcome)
            bar.update()
    return [[cache.outcomes[job.trial, job.data] for cache in caches] for job in jobs]


def run(
    problems: Sequence[Problem],
    rows: Sequence,
    trials: Sequence[Trial],
    folder: str | os.PathLike,
    integrator: Integrator | None = None,
    workers: int = 1,
    fresh: bool = False,
    progress: bool = False,
) -> list[dict[str, Any]]:
    """Evaluate every row on every trial that the cache in `folder` does not hold yet.

    Parameters
    ----------
    problems : sequence of Problem
        The systems that the trials name.
    rows : sequence
        Objects with ``name``, ``version``, ``sees_truth`` and ``infer``; see `ModelRow`.
    trials : sequence of Trial
        What to run, see `list_trials`.
    folder : path
        Output folder; outcomes are kept under ``folder/cache`` as soon as they are known.
    integrator : Integrator, optional
        The same for every row.
    workers : int
        Processes. The outcomes do not depend on their number (the CPU seconds do).
    fresh : bool
        Discard what the cache holds for these rows first.
    progress : bool
        Show a progress bar with the time left.

    Returns
    -------
    list of dict
        One record per row and trial, in the order of `trials` and `rows`, with the columns `TRIAL_COLUMNS`,
        ``terms`` (None where the cache predates it) and ``message``. The column ``structure`` is left empty:
        it takes the true terms.
    """
    integrator = integrator or Integrator()
    by_name = {problem.system: problem for problem in problems}
    data = {problem.system: data_digest(problem) for problem in problems}
    jobs = [Job(t, data[t.system], (by_name[t.system], t, integrator)) for t in trials]
    outcomes = cached_outcomes(
        evaluate, rows, jobs, folder, str(integrator), workers, fresh=fresh, progress=progress
    )
    return [
        _record(row, by_name[trial.system], trial, outcome)
        for trial, of_rows in zip(trials, outcomes, strict=True)
        for row, outcome in zip(rows, of_rows, strict=True)
    ]


def data_digest(problem: Problem) -> str:
    """Return a digest of one system's data; the cache answers for the same data only."""
    arrays = (problem.t, problem.initial_states, problem.references)
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()[:16]


def _key(row, settings: str) -> dict[str, Any]:
    return {
        "name": row.name,
        "version": row.version,
        "params": getattr(row, "params", ()),
        "integrator": settings,
    }


def _record(row, problem: Problem, trial: Trial, outcome: dict[str, Any]) -> dict[str, Any]:
    labels = {"dim": problem.dim, "split_paper": problem.split_paper, "split_strict": problem.split_strict}
    blank = {"terms": None, "structure": ""}
    values = {**blank, **asdict(trial), **labels, "model": row.name, "version": row.version, **outcome}
    return {name: values[name] for name in (*TRIAL_COLUMNS, "terms", "message")}
