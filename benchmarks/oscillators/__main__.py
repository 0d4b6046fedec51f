"""``python -m benchmarks.oscillators``: mean squared errors on the shared noise draw and on fresh ones."""

import argparse
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import cli, report
from benchmarks.harness.rows import Row, TruthRow, View
from benchmarks.harness.run import Integrator, Job, attempt, cached_outcomes
from benchmarks.harness.trials import Trial
from benchmarks.oscillators.tasks import FIRST_FRESH_SEED, FIXED_SEED, Oscillation, tasks
from fim_dynsys import metrics
from fim_dynsys.fields.base import VectorField

FRESH_DRAWS = 20
MODELS = ("fim-ode", "sindy-strong", "truth", "constant")
PUBLISHED = Path(__file__).with_name("published.toml")


def true_field(task: Oscillation) -> VectorField:
    """Return the true field of a task."""
    return task.field


def evaluate(row: Row, task: Oscillation, seed: int, integrator: Integrator) -> dict[str, Any]:
    """Infer from one noise draw, integrate from the clean start and score at the targets.

    An exception of the model is an outcome like another: its error is infinite and its status the
    exception's class.
    """
    times = np.concatenate([[0.0], task.target_t])
    size = np.abs(task.x).max()
    inferred = attempt(row.infer, View.of(row, task.context(seed), task, seed))
    predicted = inferred.then(integrator.predict, task.start[None], times, size)
    path, status = np.full_like(task.target_x, np.nan), predicted.status
    if predicted.value is not None:
        states, (sign,) = predicted.value
        path, status = states[0, 1:], sign.name
    return {
        "infer_seconds": inferred.seconds if inferred.succeeded else float("nan"),
        "simulate_seconds": predicted.seconds,
        "status": status,
        "message": predicted.message,
        "mse": metrics.mse(task.target_x, path),
        "mse_noisy": float("nan")
        if task.hidden is None
        else metrics.mse(task.observations(seed)[task.hidden], path),
    }


def run(
    rows: Sequence[Row],
    seeds: Sequence[int],
    folder: Path,
    workers: int = 1,
    fresh: bool = False,
    progress: bool = False,
    chosen: Sequence[Oscillation] | None = None,
) -> pd.DataFrame:
    """Return one record per task, noise seed and row; outcomes that `folder` holds are not computed again.

    The tasks are those of `tasks`, or those `chosen`.
    """
    integrator = Integrator()
    jobs = [
        Job(
            Trial(task.name, 1, float(np.sqrt(task.variance)), 0.0, seed, "oscillators"),
            task.digest(),
            (task, seed, integrator),
        )
        for task in (tasks() if chosen is None else chosen)
        for seed in seeds
    ]
    outcomes = cached_outcomes(evaluate, rows, jobs, folder, str(integrator), workers, fresh, progress)
    return pd.DataFrame(
        [
            {
                "task": job.key.system,
                "seed": job.key.seed,
                "model": row.name,
                "version": row.version,
                **{key: outcome[key] for key in COLUMNS},
            }
            for job, of_rows in zip(jobs, outcomes, strict=True)
            for row, outcome in zip(rows, of_rows, strict=True)
        ]
    )


COLUMNS = ("mse", "mse_noisy", "status", "infer_seconds", "simulate_seconds", "message")
QUANTILES = {"lower_quartile": 0.25, "median": 0.5, "upper_quartile": 0.75, "worst": 1.0}


def summarise(trials: pd.DataFrame, commit: str = "") -> pd.DataFrame:
    """Return one line per task, model and kind of target: the shared draw, and quantiles of the fresh ones.

    Failures have an infinite error; quantiles are of the observed values (no interpolation into infinity).
    """
    lines = []
    for (task, model, version), part in trials.groupby(["task", "model", "version"], sort=False):
        fixed, fresh = part[part["seed"] == FIXED_SEED], part[part["seed"] != FIXED_SEED]
        for targets, column in (("clean", "mse"), ("noisy", "mse_noisy")):
            if part[column].isna().all():
                continue
            line = {"task": task, "model": model, "version": version, "targets": targets}
            line["fixed"] = fixed[column].iloc[0] if len(fixed) else float("nan")
            values = np.sort(fresh[column].to_numpy())
            line |= {name: quantile(values, q) for name, q in QUANTILES.items()}
            line |= {"draws": len(values), "failures": int(np.isinf(part[column]).sum())}
            line |= {"infer_seconds_median": part["infer_seconds"].median(), "commit": commit}
            lines.append(line)
    return pd.DataFrame(lines)


def quantile(values: np.ndarray, q: float) -> float:
    """Quantile of sorted values: midway between the two in the middle where their number is even."""
    if not len(values):
        return float("nan")
    place = q * (len(values) - 1)
    return float(0.5 * (values[int(np.floor(place))] + values[int(np.ceil(place))]))


def format_tables(summary: pd.DataFrame, trials: pd.DataFrame) -> str:
    """Return the printed report, published figures below ours."""
    with PUBLISHED.open("rb") as file:
        published = tomllib.load(file)
    parts = []
    for targets in ("clean", "noisy"):
        own = summary[summary["targets"] == targets]
        names = list(dict.fromkeys(own["task"]))
        lines = [["model", "version", *names]]
        for (model, version), part in own.groupby(["model", "version"], sort=False):
            lines.append([model, version, *(_cell(part[part["task"] == name].iloc[0]) for name in names)])
        if targets == "clean":
            lines += [[row["method"], "published", *_published(row)] for row in published["row"]]
        n = summary["draws"].max()
        title = f"MSE against {targets} targets: shared draw; median of {n} fresh draws [quartiles]"
        parts.append(title + "\n" + report.align(lines))
    failed = trials[trials["status"] != "SUCCESS"]
    if len(failed):
        lines = [["model", "task", "status", "draws"]]
        for (model, task, status), part in failed.groupby(["model", "task", "status"], sort=False):
            lines.append([model, task, status, str(len(part))])
        parts.append("Failures (their error is infinite)\n" + report.align(lines))
    parts.append(
        f"Published rows: {published['citation']}; theirs of zero-shot FHN are against noisy targets."
    )
    parts.append(f"Integrated from the clean start: {Integrator()}")
    return "\n\n".join(parts)


def _cell(line: pd.Series) -> str:
    return (
        f"{line['fixed']:.3g}; {line['median']:.3g} [{line['lower_quartile']:.2g}, "
        f"{line['upper_quartile']:.2g}]"
    )


def _published(row: dict[str, Any]) -> list[str]:
    deviations = row.get("deviation", [None] * len(row["mse"]))
    return [
        f"{value:g}" + ("" if spread is None else f"±{spread:g}")
        for value, spread in zip(row["mse"], deviations, strict=True)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark from the command line and return the exit status."""
    out = Path("benchmarks/oscillators/out")
    parser = argparse.ArgumentParser(prog="python -m benchmarks.oscillators", description=__doc__)
    add = parser.add_argument
    add("--models", nargs="+", metavar="NAME", default=list(MODELS), help=f"default: {' '.join(MODELS)}")
    add("--weights", metavar="PATH", help="weights file that the row fim-ode loads in place of the shipped")
    add("--limit", type=int, default=FRESH_DRAWS, metavar="N", help="fresh noise draws; default: 20")
    add("--workers", type=int, default=2, metavar="N", help="processes, one thread each; default: 2")
    add("--out", type=Path, default=out, metavar="DIR", help=f"output folder; default: {out}")
    add("--fresh", action="store_true", help="discard these rows' stored outcomes instead of resuming")
    options = parser.parse_args(arguments)
    rows = cli.rows_or_exit(parser, {"truth": lambda: TruthRow(true_field)}, options.models, options.weights)
    seeds = [FIXED_SEED, *range(FIRST_FRESH_SEED, FIRST_FRESH_SEED + options.limit)]
    trials = run(rows, seeds, options.out, options.workers, options.fresh, progress=True)
    summary = summarise(trials, report.source_commit(Path(__file__).parent))
    trials.to_csv(options.out / "trials.csv", index=False, float_format="%.6g", lineterminator="\n")
    summary.to_csv(options.out / "summary.csv", index=False, float_format="%.6g", lineterminator="\n")
    text = format_tables(summary, trials)
    (options.out / "report.txt").write_text(text + "\n")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
