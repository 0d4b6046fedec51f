"""Trials of problems by rows, and one record of each interval that they state."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.development import problems as development
from benchmarks.harness.rows import Row
from benchmarks.harness.run import Job, Outcome, cached_outcomes
from benchmarks.harness.trials import Problem, Trial, data_digest, list_trials
from fim_dynsys import systems


def about(problem: Problem, trial: Trial) -> dict[str, Any]:
    """Return the columns of a trial of a development system."""
    columns = {"system": trial.system, "ic": trial.ic, "seed": trial.seed, "dim": problem.dim}
    return columns | {"expressible": development.is_cubic(systems.get(trial.system))}


def records(
    evaluate: Callable[..., Outcome],
    problems: Sequence[Problem],
    settings: Sequence[tuple[float, float]],
    seeds: Sequence[int],
    rows: Sequence[Row],
    label: str,
    about: Callable[[Problem, Trial], dict[str, Any]],
    lines: Callable[[Outcome], Iterable[dict[str, Any]]],
    folder: Path,
    workers: int,
    fresh: bool,
    progress: bool,
    *arguments: Any,
) -> list[dict[str, Any]]:
    """Evaluate rows on trials that `folder` does not hold yet; return one record for each line of an outcome.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(row, problem, trial, *arguments)`` gives the outcome.
    problems, settings, seeds : sequences
        The trials, see `list_trials`; every sample is given.
    rows : sequence of Row
        What is evaluated.
    label : str
        What else determines an outcome.
    about : callable
        ``about(problem, trial)`` gives the first columns.
    lines : callable
        ``lines(outcome)`` gives the last columns of each record.
    folder, workers, fresh, progress
        As for `cached_outcomes`.
    *arguments
        Further ones of `evaluate`.

    Returns
    -------
    list of dict
        In the order of trials, rows and lines.
    """
    by_name = {problem.system: problem for problem in problems}
    jobs = [
        Job(trial, data_digest(by_name[trial.system]), (by_name[trial.system], trial, *arguments))
        for trial in list_trials(problems, settings, ("paper",), seeds)
    ]
    outcomes = cached_outcomes(evaluate, rows, jobs, folder, label, workers, fresh, progress)
    return [
        about(by_name[job.key.system], job.key)
        | {"model": row.name, "version": row.version, "status": outcome["status"]}
        | line
        for job, of_rows in zip(jobs, outcomes, strict=True)
        for row, outcome in zip(rows, of_rows, strict=True)
        for line in lines(outcome)
    ]
