"""``python -m benchmarks.sparse``: what is inferred from little, on the development systems."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks import cli, report, study
from benchmarks.development.problems import problems, true_field
from benchmarks.harness.rows import Row, TruthRow, View
from benchmarks.harness.run import Integrator, Job, attempt, cached_outcomes, joined, score
from benchmarks.harness.trials import TASKS, Problem, Trial, data_digest
from benchmarks.oscillators.reference_rows import SplineRow
from benchmarks.sparse import figures
from benchmarks.sparse.contexts import AMOUNTS, Sparse, observe

MODELS = ("fim-ode", "sindy-strong", "sindy", "spline")
FULL_MODELS = ("fim-ode", "auto", "symbolic", *MODELS[1:])
SIGMAS, FULL_SIGMAS = (0.03,), (0.0, 0.03, 0.05)
THRESHOLD = report.THRESHOLDS[0]


def evaluate(row: Row, problem: Problem, key: Sparse, integrator: Integrator) -> dict[str, Any]:
    """Infer from one context; predict the two reference trajectories from their clean starts.

    An exception of the model is an outcome like another: no R2 and its class as the status.
    """
    trial = Trial(key.system, 1, key.sigma, 0.0, key.seed, "full")
    inferred = attempt(row.infer, View.of(row, observe(problem, key), problem, key))
    scored = inferred.then(score, problem, trial, integrator)
    failed = {f"{what}_{task}": value for task in TASKS for what, value in _failure(scored.status)}
    return {
        "infer_seconds": inferred.seconds if inferred.succeeded else float("nan"),
        "message": scored.message,
        **(scored.value or failed),
    }


def _failure(status: str) -> tuple[tuple[str, float | str], ...]:
    return ("r2", float("nan")), ("mse", float("inf")), ("status", status)


def run(
    rows: Sequence[Row],
    sigmas: Sequence[float],
    seeds: Sequence[int],
    folder: Path,
    workers: int = 1,
    fresh: bool = False,
    progress: bool = False,
    limit: int | None = None,
) -> pd.DataFrame:
    """Return one record per row and context; outcomes that `folder` holds are not computed again."""
    integrator = Integrator()
    jobs = []
    for problem in cli.limited(problems(), limit):
        digest = data_digest(problem)
        for kind, amounts in AMOUNTS.items():
            for amount in amounts:
                for sigma in sigmas:
                    for seed in seeds:
                        key = Sparse(problem.system, kind, amount, sigma, seed)
                        jobs.append(Job(key, digest, (problem, key, integrator)))
    outcomes = cached_outcomes(evaluate, rows, jobs, folder, str(integrator), workers, fresh, progress)
    return pd.DataFrame(joined(rows, jobs, outcomes, lambda job: {"dim": job.arguments[0].dim}))


CELL = ["kind", "amount", "sigma", "model", "version"]


def summarise(trials: pd.DataFrame, commit: str = "") -> pd.DataFrame:
    """Return one line per cell, model and task: the percentage of contexts with R2 above 0.9."""
    lines = []
    for key, part in trials.groupby(CELL, sort=False):
        for task in TASKS:
            line: dict[str, Any] = dict(zip(CELL, key, strict=True)) | {"task": task}
            line |= {"percent_r2_090": 100.0 * float((part[f"r2_{task}"] > THRESHOLD).mean())}
            line |= {"n": len(part), "failures": int((part[f"status_{task}"] != "SUCCESS").sum())}
            line |= {"infer_seconds_median": part["infer_seconds"].median()}
            lines.append(
                line | {"seeds": " ".join(map(str, sorted(part["seed"].unique()))), "commit": commit}
            )
    return pd.DataFrame(lines)


def lines_of(summary: pd.DataFrame, sigma: float) -> list[list[str]]:
    """Return the table of one noise level as lines of cells: a line per context, a column per model."""
    own = summary[summary["sigma"] == sigma]
    models = list(dict.fromkeys(own["model"]))
    by = own.set_index(["kind", "amount", "model", "task"])["percent_r2_090"]
    lines = [["sampled", "points or pieces", *models]]
    for kind, amount in dict.fromkeys(zip(own["kind"], own["amount"], strict=True)):
        cells = [" / ".join(f"{by[kind, amount, model, task]:.1f}" for task in TASKS) for model in models]
        lines.append([kind, str(amount), *cells])
    return lines


def format_tables(summary: pd.DataFrame) -> str:
    """Return the printed report."""
    n = summary["n"].max()
    return "\n\n".join(
        f"Noise {sigma:g}, {n} contexts a cell: percent with R2 > {THRESHOLD:g}, {' / '.join(TASKS)}\n"
        + report.align(lines_of(summary, sigma))
        for sigma in dict.fromkeys(summary["sigma"])
    )


STUDY = study.Study(
    "sparse",
    __doc__,
    MODELS,
    {
        "trials": study.Part(
            run=lambda rows, options: [
                run(
                    rows,
                    FULL_SIGMAS if options.full else SIGMAS,
                    options.seeds,
                    options.out,
                    options.workers,
                    options.fresh,
                    progress=True,
                    limit=options.limit,
                )
            ],
            text=lambda summary, _: format_tables(summary),
            summarise=summarise,
            draw=figures.draw,
        )
    },
    {"truth": lambda: TruthRow(true_field), "spline": SplineRow},
    full_models=FULL_MODELS,
    seeds=(0,),
    full_seeds=(0, 1, 2),
    limit="N systems only, evenly spread over the list",
    full="three noise levels and seeds, all models",
)
main = partial(study.main, STUDY)

if __name__ == "__main__":
    sys.exit(main())
