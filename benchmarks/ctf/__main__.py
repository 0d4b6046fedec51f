"""``python -m benchmarks.ctf``: Lorenz records of the Common Task Framework for Science.

Models are fitted to each record as it is. Forecasts go on from a state that the field is fitted to over the
last samples; reconstructions are the smoothed observations. 100 is perfect, -100 the least. Records are made
here by the same protocol; ``--data FILE.npz`` takes the public ones.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fim_dynsys
from benchmarks import report, study
from benchmarks.ctf.records import (
    STEP,
    TASKS,
    WITHOUT_SHARED_FILES,
    Task,
    made,
    read,
    score,
    tasks_of,
    trains,
)
from benchmarks.harness.rows import ModelRow, Row
from benchmarks.harness.run import Job, attempt, cached_outcomes, joined
from benchmarks.harness.trials import array_digest
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.forecasting import forecast_bands
from fim_dynsys.trajectories.container import Trajectories

MODELS = ("fim-ode", "auto", "sindy-strong", "sindy")
LORENZ = ({"x0", "x1"}, {"x0", "x1", "x0 x2"}, {"x2", "x0 x1"})
"""Terms of the three equations."""


@dataclass(frozen=True)
class Record:
    """One record to learn from; `source` is "made" or the name of a file."""

    train: str
    source: str
    seed: int


def evaluate(row: Row, record: Record, held: dict[str, np.ndarray]) -> dict[str, Any]:
    """Fit one record and score all tasks that it is for; an exception is an outcome like another."""
    assert isinstance(row, ModelRow)
    states = held[record.train].astype(float)
    seen = Trajectories.from_arrays(states, STEP * np.arange(len(states)))
    fitted = attempt(row.fit, seen)
    scored = fitted.then(_scores, seen, held, tasks_of(record.train))
    structure = fitted.then(_has_the_terms)
    outcome = {"seconds": fitted.seconds, "status": scored.status, "message": scored.message}
    failed = {task.name: -100.0 for task in tasks_of(record.train)}
    return outcome | {"exact": bool(structure.value), "scores": scored.value or failed}


def _scores(
    model: VectorFieldModel, seen: Trajectories, held: dict[str, np.ndarray], tasks: Sequence[Task]
) -> dict[str, float]:
    field = model.field_
    found, ahead = {}, None
    for task in tasks:
        true = held[task.test].astype(float)
        if task.score == "reconstruction":
            smoothed = field.frame.smoothed
            predicted = np.full_like(true, np.nan) if smoothed is None else smoothed.states[0]
        else:
            ahead = _ahead(field, seen, len(true)) if ahead is None else ahead
            predicted = ahead
        found[task.name] = score(task.score, true, predicted)
    return found


def _ahead(field: VectorField, context: Trajectories, n: int) -> np.ndarray:
    """States (n, d) that follow the last sample, by the field alone."""
    bands = forecast_bands(
        "benchmarks.ctf", field, EnsembleField([field]), context, [STEP], (0.5,), False, seed=0
    )
    first = np.array(bands["median"])[0, 0]
    return fim_dynsys.simulate(field, first, STEP * np.arange(n), max_steps=1_000_000).x[0]


def _has_the_terms(model: VectorFieldModel) -> bool:
    terms = model.field_.terms()
    return terms is not None and [set(own) for own in terms] == list(LORENZ)


def run(rows: Sequence[Row], options: study.Options) -> list[pd.DataFrame]:
    """Every row on every record; a line for each row and task."""
    public = None if options.data is None else read(options.data)
    jobs = []
    for seed in options.seeds if public is None else [0]:
        for train in trains():
            if public is None:
                part = made(train, seed)
            else:
                part = {name: public[name] for name in (train, *(t.test for t in tasks_of(train)))}
            record = Record(train, "made" if public is None else options.data.name, seed)
            jobs.append(Job(record, array_digest(*part.values()), (record, part)))
    found = cached_outcomes(
        evaluate, rows, jobs, options.out, "ctf", options.workers, options.fresh, progress=True
    )
    lines = []
    for line in joined(rows, jobs, found):
        scores = line.pop("scores")
        lines += [line | {"task": name, "score": value} for name, value in scores.items()]
    return [pd.DataFrame(lines).drop(columns="message")]


def summarise(trials: pd.DataFrame, commit: str = "") -> pd.DataFrame:
    """A line for each source and model: the mean of all tasks, and of those with test files of their own."""
    lines = []
    for (source, model, version), part in trials.groupby(["source", "model", "version"], sort=False):
        of_own = part[part["task"].isin(WITHOUT_SHARED_FILES)]
        noisy = part[part["train"].isin(("X2train", "X3train"))].drop_duplicates(["train", "seed"])
        lines.append(
            {
                "source": source,
                "model": model,
                "version": version,
                **{task.name: part.loc[part["task"] == task.name, "score"].mean() for task in TASKS},
                "mean": part.groupby("task")["score"].mean().mean(),
                "mean_without_shared": of_own.groupby("task")["score"].mean().mean(),
                "exact_noisy": int(noisy["exact"].sum()),
                "n_noisy": len(noisy),
                "failures": int((part["status"] != "SUCCESS").sum()),
                "seconds": part.drop_duplicates(["train", "seed"])["seconds"].max(),
                "commit": commit,
            }
        )
    return pd.DataFrame(lines)


def text(summary: pd.DataFrame, trials: pd.DataFrame) -> str:
    """The printed report of `summarise`."""
    lines = [["records", "model", *(task.name for task in TASKS), "mean", "without E7-E10", "terms", "CPU-s"]]
    for _, own in summary.iterrows():
        cells = [f"{own[task.name]:.0f}" for task in TASKS]
        means = [f"{own['mean']:.1f}", f"{own['mean_without_shared']:.1f}"]
        exact = f"{own['exact_noisy']} of {own['n_noisy']}"
        lines.append([own["source"], own["model"], *cells, *means, exact, f"{own['seconds']:.1f}"])
    title = (
        "Scores, 100 is perfect; terms: noisy records of 10,000 samples with the seven terms of Lorenz's "
        "equations; CPU-s: of the longest fit. In the public files E7 to E10 are scored by E6's file"
    )
    return f"{title}\n{report.align(lines)}"


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, metavar="FILE", help="the public records, in one .npz")


STUDY = study.Study(
    "ctf",
    __doc__,
    MODELS,
    {
        "ctf": study.Part(
            run,
            text,
            summarise,
            tables=("trials",),
            report="ctf",
            by=("source", "model"),
            order=("source", "model"),
            digits=(4, 4),
        )
    },
    seeds=(0,),
    full_seeds=(0, 1, 2),
    full="three sets of records",
    options=_options,
)
main = partial(study.main, STUDY)

if __name__ == "__main__":
    sys.exit(main())
