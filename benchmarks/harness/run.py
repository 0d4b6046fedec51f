"""Every row on every trial: attempts, integration, scores, the workers."""

import itertools
import os
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from benchmarks.harness.cache import RowCache
from benchmarks.harness.rows import Inferred, Row, View
from benchmarks.harness.trials import TASKS, Problem, Target, Trial, data_digest, grid, observe, target
from fim_dynsys import metrics
from fim_dynsys.analyze.results import progress_bar
from fim_dynsys.fields.base import VectorField
from fim_dynsys.many import calls
from fim_dynsys.simulation.problem import Status
from fim_dynsys.simulation.solution import simulate

Outcome = dict[str, Any]
"""What JSON can hold of one trial of one row."""
Prediction = tuple[np.ndarray, list[Status]]
"""States (m, n, d) from m starts and how each integration ended."""
T = TypeVar("T")


def trial_columns(tasks: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of ``trials.csv`` in a benchmark with these tasks."""
    about = ("system", "ic", "dim", "split_paper", "split_strict", "sigma", "rho", "seed", "protocol")
    scores = (f"{score}_{task}" for score in ("r2", "mse", "status") for task in tasks)
    return (*about, "model", "version", *scores, "structure", "infer_seconds", "simulate_seconds")


TRIAL_COLUMNS = trial_columns(TASKS)


# ---------------------------------------------------------------------------------------------- one trial


@dataclass(frozen=True)
class Attempt(Generic[T]):
    """What became of one step of a trial, see `attempt`.

    Attributes
    ----------
    value : object or None
        What the step returned; None after a failure.
    seconds : float
        CPU seconds spent, by a failure too; NaN for a step that was never begun.
    status : str
        "SUCCESS", or the class of the exception.
    message : str
        Of the exception, its first 500 characters.
    """

    value: T | None
    seconds: float
    status: str = "SUCCESS"
    message: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether the step came to its end."""
        return self.status == "SUCCESS"

    def then(self, step: Callable[..., Any], *arguments: Any) -> "Attempt[Any]":
        """Attempt ``step(value, *arguments)``; after a failure, that stands and the step is not begun."""
        if not self.succeeded:
            return replace(self, seconds=float("nan"))
        return attempt(step, self.value, *arguments)


def attempt(step: Callable[..., T], *arguments: Any) -> Attempt[T]:
    """Return what becomes of ``step(*arguments)``, with its CPU seconds and without its warnings.

    An exception of a model is an outcome like another: the step has failed, and its status is the class.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        start = time.process_time()
        try:
            value = step(*arguments)
        except Exception as error:  # whatever a model raises, the other trials go on
            return Attempt(None, time.process_time() - start, type(error).__name__, str(error)[:500])
        return Attempt(value, time.process_time() - start)


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

    def solve(self, vector_field: VectorField, x0: np.ndarray, t: np.ndarray, size: float) -> Prediction:
        """Return states ``(m, n, d)`` (NaN after a failure) and statuses, from `x0` ``(m, d)`` at `t`."""
        return self.solve_each([vector_field] * len(x0), x0, t, np.full(len(x0), size))

    def solve_each(
        self, fields: Sequence[VectorField], x0: np.ndarray, t: np.ndarray, sizes: np.ndarray
    ) -> Prediction:
        """Return the same of m fields of one kind, side by side; times ``(n,)`` or ``(m, n)``."""
        atol = self.rtol * np.broadcast_to(sizes[:, None], x0.shape)
        one = len(set(map(id, fields))) == 1
        options: dict[str, Any] = {"rtol": self.rtol, "max_steps": self.max_steps}
        result = simulate(fields[0] if one else fields, x0, t, atol=atol, method=self.method, **options)
        x, status = np.array(result.x), [Status(int(value)) for value in result.status]
        for row in (i for i, value in enumerate(status) if value in self.stiff_signs):
            own = t if t.ndim == 1 else t[row]
            again = simulate(fields[row], x0[row], own, atol=atol[row], method=self.stiff_method, **options)
            x[row], status[row] = again.x[0], Status(int(again.status[0]))
        return x, status

    def predict(self, inferred: Inferred, x0: np.ndarray, t: np.ndarray, size: float) -> Prediction:
        """Return what `solve` does, of a field or of a model's own forecast (NON_FINITE where that is)."""
        if isinstance(inferred, VectorField):
            return self.solve(inferred, x0, t, size)
        x = np.array(inferred.forecast(x0, t).x)
        if x.shape != (len(x0), len(t), x0.shape[1]):
            raise ValueError(
                f"{type(inferred).__name__}.forecast: expected states {(len(x0), len(t), x0.shape[1])}, got "
                f"{x.shape}; one state for each start and time."
            )
        finite = np.isfinite(x).all(axis=(1, 2))
        return x, [Status.SUCCESS if whole else Status.NON_FINITE for whole in finite]


def evaluate(
    row: Row, problem: Problem, trial: Trial, integrator: Integrator, tasks: Sequence[str] = TASKS
) -> Outcome:
    """Infer from the trial's context, predict what the tasks ask, score against the references.

    An exception of the model, in inference or while its field is evaluated, is an outcome like another: the
    trial fails and its status is the exception's class.

    Returns
    -------
    dict
        The outcome columns of a trial, ``terms`` (see `VectorField.terms`) and ``message``; R2 is NaN and MSE
        infinite where the prediction is not finite.

    Raises
    ------
    ValueError
        If the problem has no reference for a task.
    """
    targets = {task: target(problem, trial, task) for task in tasks}
    inferred = attempt(row.infer, View.of(row, observe(problem, trial), problem, trial))
    return _outcome(inferred, inferred.then(_score, problem, trial, integrator, targets), tasks)


def _outcome(
    inferred: Attempt[Inferred], scored: Attempt[dict[str, float | str]], tasks: Sequence[str]
) -> Outcome:
    outcome: Outcome = {
        "infer_seconds": inferred.seconds if inferred.succeeded else float("nan"),
        "simulate_seconds": scored.seconds,
        "message": scored.message,
        "terms": inferred.then(_terms).value,
    }
    for task in tasks:
        outcome |= _failed(task, scored.status)
    return outcome | (scored.value or {})


def evaluate_together(row: Row, cases: Sequence[tuple[Any, ...]]) -> list[Outcome]:
    """Return what `evaluate` does of several trials of one dimension, whose fields are asked side by side.

    Each trajectory keeps a step size of its own, so outcomes are the same up to rounding. CPU seconds of
    integration are shared out evenly. Where an exception of one stops all, each is evaluated by itself.
    """
    inferred = [attempt(row.infer, View.of(row, observe(*case[:2]), *case[:2])) for case in cases]
    solved = attempt(_solved, cases, [each.value for each in inferred])
    if not solved.succeeded:
        return [evaluate(row, *case) for case in cases]
    outcomes = []
    for (problem, trial, _, tasks), field, prediction in zip(cases, inferred, solved.value, strict=True):
        targets = {task: target(problem, trial, task) for task in tasks}
        scores = _compared(prediction, problem, trial, targets)
        outcomes.append(_outcome(field, Attempt(scores, solved.seconds / len(cases)), tasks))
    return outcomes


def _solved(cases: Sequence[tuple[Any, ...]], fields: Sequence[VectorField]) -> list[Prediction]:
    """Predictions of fields of one dimension, as (problem, trial, integrator, tasks) of each ask for."""
    starts = [[target(problem, trial, task).start for task in tasks] for problem, trial, _, tasks in cases]
    times = [problem.t[grid(problem, trial.protocol)[0]] for problem, trial, *_ in cases]
    of = np.repeat(np.arange(len(cases)), list(map(len, starts)))
    states, status = cases[0][2].solve_each(
        [fields[k] for k in of],
        np.concatenate(starts),
        np.array(times)[of],
        np.array([problem.size for problem, *_ in cases])[of],
    )
    ends = np.searchsorted(of, np.arange(len(cases) + 1))
    return [(states[a:b], status[a:b]) for a, b in itertools.pairwise(ends)]


def score(
    inferred: Inferred, problem: Problem, trial: Trial, integrator: Integrator, tasks: Sequence[str] = TASKS
) -> dict[str, float | str]:
    """Predict from the clean starts that the tasks name; return R2, MSE and status of each."""
    return _score(
        inferred, problem, trial, integrator, {task: target(problem, trial, task) for task in tasks}
    )


def _score(
    inferred: Inferred, problem: Problem, trial: Trial, integrator: Integrator, targets: dict[str, Target]
) -> dict[str, float | str]:
    index, _ = grid(problem, trial.protocol)
    starts = np.array([each.start for each in targets.values()])
    prediction = integrator.predict(inferred, starts, problem.t[index], problem.size)
    return _compared(prediction, problem, trial, targets)


def _compared(
    predicted: Prediction, problem: Problem, trial: Trial, targets: dict[str, Target]
) -> dict[str, float | str]:
    index, _ = grid(problem, trial.protocol)
    states, status = predicted
    result: dict[str, float | str] = {}
    for (task, each), prediction, sign in zip(targets.items(), states, status, strict=True):
        # a failure after the last point that a task asks for is none of its business
        own = sign if each.part.stop == len(index) else Status.SUCCESS
        finite = np.isfinite(prediction[each.part]).all()
        result |= _scores(task, each.states, prediction[each.part], (own if finite else sign).name)
    return result


def _terms(inferred: Inferred) -> list[list[str]] | None:
    return inferred.terms() if isinstance(inferred, VectorField) else None


def _failed(task: str, status: str) -> dict[str, float | str]:
    return {f"r2_{task}": float("nan"), f"mse_{task}": float("inf"), f"status_{task}": status}


def _scores(task: str, reference: np.ndarray, prediction: np.ndarray, status: str) -> dict[str, float | str]:
    if not np.isfinite(prediction).all():
        return _failed(task, status)
    with np.errstate(over="ignore", invalid="ignore"):
        r2 = float(metrics.r2_score(reference, prediction))
        mse = float(np.mean((reference - prediction) ** 2))
    return {f"r2_{task}": r2, f"mse_{task}": mse, f"status_{task}": status}


# ---------------------------------------------------------------------------------------------- the run


class Named(Protocol):
    """What outcomes are kept of: a `Row`, or whatever else a benchmark measures."""

    @property
    def name(self) -> str:
        """Unique in a run."""

    @property
    def version(self) -> str:
        """Changes whenever the outcomes do."""


Together = Callable[[Any, Sequence[tuple[Any, ...]]], list[Outcome]]


class Job(NamedTuple):
    """One thing to run on every row.

    Attributes
    ----------
    key : frozen dataclass
        Names the job in the cache: a `Trial`, or a benchmark's own class with fields that JSON can hold.
    data : str
        Digest of the data; the cache answers for the same data only.
    arguments : tuple
        For the function that evaluates the job.
    kind : object
        Jobs of one kind may be evaluated together.
    """

    key: Any
    data: str
    arguments: tuple[Any, ...]
    kind: Any = None


def _limit_threads() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() != 1:
        torch.set_num_threads(1)


def _work(number: int, function: Callable[..., T], arguments: tuple[Any, ...]) -> tuple[int, T]:
    _limit_threads()
    return number, function(*arguments)


def _outcomes_of(
    function: Callable[..., Outcome], together: Together | None, row: Named, cases: Sequence[tuple[Any, ...]]
) -> list[Outcome]:
    if together is not None and len(cases) > 1:
        return together(row, cases)
    return [function(row, *case) for case in cases]


def _outcomes(tasks: Sequence[tuple[Any, ...]], workers: int) -> Iterator[tuple[int, list[Outcome]]]:
    """Yield outcomes as they are ready; each worker computes on one thread."""
    from threadpoolctl import threadpool_limits

    numbered = ((number, _outcomes_of, task) for number, task in enumerate(tasks))
    if workers == 1 or len(tasks) <= 1:
        with threadpool_limits(1):
            yield from calls(_work, numbered, 1)
    else:
        yield from calls(_work, numbered, workers)


def _batches(missing: Sequence[tuple[int, Job]], sizes: Sequence[int]) -> list[list[tuple[int, Job]]]:
    """Jobs of one kind and one row each, at most so many as its size, by when the first of them comes."""
    batches: list[list[tuple[int, Job]]] = []
    filling: dict[tuple[int, Any], list[tuple[int, Job]]] = {}
    for number, job in missing:
        if len(filling.get((number, job.kind), ())) % sizes[number] == 0:
            filling[number, job.kind] = []
            batches.append(filling[number, job.kind])
        filling[number, job.kind].append((number, job))
    return batches


def cached_outcomes(
    function: Callable[..., Outcome],
    rows: Sequence[Named],
    jobs: Sequence[Job],
    folder: str | os.PathLike[str],
    settings: str,
    workers: int = 1,
    fresh: bool = False,
    progress: bool = False,
    needed: Collection[str] = (),
    together: Together | None = None,
) -> list[list[Outcome]]:
    """Evaluate every row on every job that the cache in `folder` does not hold yet.

    Parameters
    ----------
    function : callable
        ``function(row, *job.arguments)`` gives a dict that JSON can hold; must be importable by workers.
    rows : sequence
        Objects with ``name`` and ``version``; see `Row`.
    jobs : sequence of Job
        What to run.
    folder : path
        Output folder; outcomes are kept under ``folder/cache`` as soon as they are known.
    settings : str
        Whatever else determines an outcome, such as the integrator.
    workers, fresh, progress
        As for `run`.
    needed : collection of str
        What an outcome must hold; a stored one without it is damaged, and measured again.
    together : callable, optional
        ``together(row, [arguments of a job, ...])`` gives the outcomes of several jobs at once, for rows
        whose attribute ``together`` says of how many.

    Returns
    -------
    list of list of dict
        ``[job][row]``, in the order given.
    """
    caches = [RowCache.open(Path(folder) / "cache", _about(row, settings), fresh, needed) for row in rows]
    for cache in caches:
        if cache.skipped:
            print(
                f"{cache.path}: {cache.skipped} damaged lines skipped; what they held is measured again",
                file=sys.stderr,
            )
    missing = [
        (number, job)
        for job in jobs
        for number, cache in enumerate(caches)
        if (job.key, job.data) not in cache
    ]
    np.random.default_rng(0).shuffle(
        missing
    )  # large systems come last in the list: the time left would mislead
    batches = _batches(missing, [getattr(row, "together", 1) if together else 1 for row in rows])
    tasks = [
        (function, together, rows[batch[0][0]], [job.arguments for _, job in batch]) for batch in batches
    ]
    total = len(jobs) * len(rows)
    if progress and len(missing) < total:
        print(
            f"{total - len(missing)} of {total} outcomes are known from {caches[0].path.parent}",
            file=sys.stderr,
        )
    with progress_bar(progress, len(missing), "trials", "trials") as bar:
        bar.mininterval = 0.2 if sys.stderr.isatty() else 20.0
        for position, outcomes in _outcomes(tasks, workers):
            for (number, job), outcome in zip(batches[position], outcomes, strict=True):
                caches[number].add(job.key, job.data, outcome)
                bar.update()
    return [[cache.get(job.key, job.data) for cache in caches] for job in jobs]


def run(
    problems: Sequence[Problem],
    rows: Sequence[Row],
    trials: Sequence[Trial],
    folder: str | os.PathLike[str],
    integrator: Integrator | None = None,
    workers: int = 1,
    fresh: bool = False,
    progress: bool = False,
    tasks: Sequence[str] = TASKS,
) -> list[dict[str, Any]]:
    """Evaluate every row on every trial that the cache in `folder` does not hold yet.

    Parameters
    ----------
    problems : sequence of Problem
        The systems that the trials name.
    rows : sequence of Row
        What is compared.
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
    tasks : sequence of str
        What is predicted and scored, see `target`.

    Returns
    -------
    list of dict
        One record per row and trial, in the order of `trials` and `rows`, with the `trial_columns`,
        ``terms`` (None where the cache predates it) and ``message``. The column ``structure`` is left empty:
        it takes the true terms.

    Raises
    ------
    ValueError
        If a problem has no reference for a task.
    """
    integrator = integrator or Integrator()
    by_name = {problem.system: problem for problem in problems}
    data = {problem.system: data_digest(problem) for problem in problems}
    jobs = [
        Job(t, data[t.system], (by_name[t.system], t, integrator, tuple(tasks)), by_name[t.system].dim)
        for t in trials
    ]
    settings = str(integrator) if tuple(tasks) == TASKS else f"{integrator}; {', '.join(tasks)}"
    outcomes = cached_outcomes(
        evaluate,
        rows,
        jobs,
        folder,
        settings,
        workers,
        fresh,
        progress,
        _outcome_columns(tasks),
        evaluate_together,
    )
    return [
        _record(row, by_name[trial.system], trial, outcome, tasks)
        for trial, of_rows in zip(trials, outcomes, strict=True)
        for row, outcome in zip(rows, of_rows, strict=True)
    ]


def joined(
    rows: Sequence[Named],
    jobs: Sequence[Job],
    outcomes: Sequence[Sequence[Outcome]],
    about: Callable[[Job], dict[str, Any]] = lambda job: {},
) -> list[dict[str, Any]]:
    """Return one record per row and job: the job's key, what there is to say about it, the row, its outcome.

    Parameters
    ----------
    rows, jobs : sequences
        As given to `cached_outcomes`, which returned the outcomes.
    outcomes : list of list of dict
        ``[job][row]``.
    about : callable, optional
        Further columns of a job, behind those of its key.
    """
    return [
        {**asdict(job.key), **about(job), "model": row.name, "version": row.version, **outcome}
        for job, of_rows in zip(jobs, outcomes, strict=True)
        for row, outcome in zip(rows, of_rows, strict=True)
    ]


def _outcome_columns(tasks: Sequence[str]) -> tuple[str, ...]:
    """What `evaluate` gives and a record needs; ``terms`` are missing from what was kept before they were."""
    scores = (name for task in tasks for name in _failed(task, ""))
    return (*scores, "infer_seconds", "simulate_seconds", "message")


def _about(row: Named, settings: str) -> dict[str, Any]:
    return {
        "name": row.name,
        "version": row.version,
        "params": getattr(row, "params", ()),
        "integrator": settings,
    }


def _record(
    row: Row, problem: Problem, trial: Trial, outcome: Outcome, tasks: Sequence[str] = TASKS
) -> dict[str, Any]:
    labels = {"dim": problem.dim, "split_paper": problem.split_paper, "split_strict": problem.split_strict}
    blank = {"terms": None, "structure": ""}
    values = {**blank, **asdict(trial), **labels, "model": row.name, "version": row.version, **outcome}
    return {name: values[name] for name in (*trial_columns(tasks), "terms", "message")}
