"""``python -m benchmarks.oscillators``: mean squared errors on the shared noise draw and on fresh ones."""

import argparse
import sys
import tomllib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import report, study
from benchmarks.harness.rows import FineTunedRow, Inferred, Row, TruthRow, View
from benchmarks.harness.run import Integrator, Job, attempt, cached_outcomes
from benchmarks.harness.trials import Trial
from benchmarks.oscillators import contexts, figures
from benchmarks.oscillators.reference_rows import SplineRow, TruthFitRow
from benchmarks.oscillators.starts import START_NAMES, start_of
from benchmarks.oscillators.tasks import FIRST_FRESH_SEED, FIXED_SEED, Oscillation, joined, tasks
from fim_dynsys import metrics
from fim_dynsys.fields.base import VectorField

FRESH_DRAWS, FULL_DRAWS = 20, 100
MODELS = ("fim-ode", "auto", "sindy-strong", "spline", "truth-fit", "truth", "constant")
FULL_MODELS = (*MODELS[:2], "fim-ode+finetune", *MODELS[2:])
PUBLISHED = Path(__file__).with_name("published.toml")


def true_field(task: Oscillation) -> VectorField:
    """Return the true field of a task."""
    return task.field


OWN_ROWS: dict[str, Callable[[], Row]] = {
    "truth": lambda: TruthRow(true_field),
    "truth-fit": TruthFitRow,
    "spline": SplineRow,
}


def evaluate(
    row: Row, task: Oscillation, seed: int, integrator: Integrator, starts: Sequence[str] = START_NAMES[:1]
) -> dict[str, Any]:
    """Infer from one noise draw, integrate from each of the starts and score at the targets.

    What is fine-tuned sees one trajectory, a gap in it where samples are hidden, as in the paper. An
    exception of the model is an outcome like another: its error is infinite and its status the exception's
    class.
    """
    times = np.concatenate([[0.0], task.target_t])
    size = np.abs(task.x).max()
    seen = joined(task) if isinstance(row, FineTunedRow) else task
    inferred = attempt(_infer, row, View.of(row, seen.context(seed), task, seed))
    outcome: dict[str, Any] = {"infer_seconds": inferred.seconds if inferred.succeeded else float("nan")}

    def predict(found: tuple[Inferred, dict[str, float]]) -> list[tuple[np.ndarray, str]]:
        at = np.stack([start_of(name, found[0], task, seed) for name in starts])
        states, signs = integrator.predict(found[0], at, times, size)
        return [(path[1:], sign.name) for path, sign in zip(states, signs, strict=True)]

    predicted = inferred.then(predict)
    lost = [(np.full_like(task.target_x, np.nan), predicted.status)] * len(starts)
    for name, (path, status) in zip(starts, predicted.value or lost, strict=True):
        outcome[MSE[name]] = metrics.mse(task.target_x, path)
        if name == START_NAMES[0]:
            outcome |= {"simulate_seconds": predicted.seconds, "message": predicted.message, "status": status}
            noisy = None if task.hidden is None else task.observations(seed)[task.hidden]
            outcome["mse_noisy"] = float("nan") if noisy is None else metrics.mse(noisy, path)
    return outcome | (inferred.value[1] if inferred.value else {})


def _infer(row: Row, view: View) -> tuple[Inferred, dict[str, float]]:
    """What a row infers, and what fine-tuning took where it is a row of it."""
    if not isinstance(row, FineTunedRow):
        return row.infer(view), {}
    fitted = row.fit(view.context)
    history = fitted.history_
    best = history[history["best"]].iloc[-1]
    steps, seconds = float(history["step"].max()), float(history["seconds"].max())
    took = {"best_step": float(best["step"]), "best_seconds": float(best["seconds"])}
    return fitted.field_, took | {"step_seconds": seconds / steps if steps else float("nan")}


def run(
    rows: Sequence[Row],
    seeds: Sequence[int],
    folder: Path,
    workers: int = 1,
    fresh: bool = False,
    progress: bool = False,
    chosen: Sequence[Oscillation] | None = None,
    starts: Sequence[str] = START_NAMES[:1],
) -> pd.DataFrame:
    """Return one record per task, noise seed and row; outcomes that `folder` holds are not computed again.

    The tasks are those of `tasks`, or those `chosen`; predictions start at the clean state, or at each of
    `starts`.
    """
    integrator = Integrator()
    settings = f"{integrator}; {_TUNED_ON}; from {', '.join(starts)}"
    jobs = [
        Job(
            Trial(task.name, 1, float(np.sqrt(task.variance)), 0.0, seed, "oscillators"),
            task.digest(),
            (task, seed, integrator, tuple(starts)),
        )
        for task in (tasks() if chosen is None else chosen)
        for seed in seeds
    ]
    outcomes = cached_outcomes(evaluate, rows, jobs, folder, settings, workers, fresh, progress)
    return pd.DataFrame(
        [
            {
                "task": job.key.system,
                "seed": job.key.seed,
                "model": row.name,
                "version": row.version,
                **{key: outcome[key] for key in (*COLUMNS, *TUNING, *MSE.values()) if key in outcome},
            }
            for job, of_rows in zip(jobs, outcomes, strict=True)
            for row, outcome in zip(rows, of_rows, strict=True)
        ]
    )


_TUNED_ON = "fine-tuned on one trajectory"  # in place of two: outcomes kept from before do not answer
COLUMNS = ("mse", "mse_noisy", "status", "infer_seconds", "simulate_seconds", "message")
TUNING = ("best_step", "step_seconds", "best_seconds")
MSE = dict(zip(START_NAMES, ("mse", "mse_first", "mse_fitted"), strict=True))
TARGETS = {
    "clean": "mse",
    "noisy": "mse_noisy",
    "clean, first observation": "mse_first",
    "clean, fitted": "mse_fitted",
}
"""What is compared, and from another start than the clean one which; with its column."""
QUANTILES = {"lower_quartile": 0.25, "median": 0.5, "upper_quartile": 0.75, "worst": 1.0}


def summarise(trials: pd.DataFrame, commit: str = "") -> pd.DataFrame:
    """Return one line per task, model and kind of target: the shared draw, and quantiles of the fresh ones.

    Failures have an infinite error; quantiles are of the observed values (no interpolation into infinity).
    """
    lines = []
    for (task, model, version), part in trials.groupby(["task", "model", "version"], sort=False):
        fixed, fresh = part[part["seed"] == FIXED_SEED], part[part["seed"] != FIXED_SEED]
        for targets, column in TARGETS.items():
            if column not in part or part[column].isna().all():
                continue
            line = {"task": task, "model": model, "version": version, "targets": targets}
            line["fixed"] = fixed[column].iloc[0] if len(fixed) else float("nan")
            values = np.sort(fresh[column].to_numpy())
            line |= {name: quantile(values, q) for name, q in QUANTILES.items()}
            line |= {"draws": len(values), "failures": int(np.isinf(part[column]).sum())}
            line |= {"infer_seconds_median": part["infer_seconds"].median()}
            line |= {name: part[name].median() for name in TUNING if name in part}
            line |= {"commit": commit}
            lines.append(line)
    return pd.DataFrame(lines)


def quantile(values: np.ndarray, q: float) -> float:
    """Quantile of sorted values: midway between the two in the middle where their number is even."""
    if not len(values):
        return float("nan")
    place = q * (len(values) - 1)
    return float(0.5 * (values[int(np.floor(place))] + values[int(np.ceil(place))]))


def lines_of(summary: pd.DataFrame, targets: str) -> list[list[str]]:
    """Return the table of one kind of target as lines of cells; published rows below ours."""
    own = summary[summary["targets"] == targets]
    names = list(dict.fromkeys(own["task"]))
    lines = [["model", "version", "draws", *names]]
    for (model, version), part in own.groupby(["model", "version"], sort=False):
        cells = [_cell(part[part["task"] == name].iloc[0]) for name in names]
        lines.append([model, version, str(part["draws"].min()), *cells])
    if targets == "clean":
        lines += [[row["method"], "published", "", *_published(row)] for row in _read_published()["row"]]
    return lines


def _read_published() -> dict[str, Any]:
    with PUBLISHED.open("rb") as file:
        return tomllib.load(file)


def format_tables(summary: pd.DataFrame, trials: pd.DataFrame) -> str:
    """Return the printed report, published figures below ours."""
    published, parts = _read_published(), []
    for targets in dict.fromkeys(summary["targets"]):
        compared, _, start = targets.partition(", ")
        title = f"MSE against {compared} targets, from the {start or 'clean'} start: shared draw; "
        title += "median of the fresh draws [quartiles]"
        parts.append(title + "\n" + report.align(lines_of(summary, targets)))
    if TUNING[0] in summary and summary[TUNING[0]].notna().any():
        parts.append("Fine-tuning, medians\n" + report.align(tuning_lines(summary)))
    failed = trials[trials["status"] != "SUCCESS"]
    if len(failed):
        lines = [["model", "task", "status", "draws"]]
        for (model, task, status), part in failed.groupby(["model", "task", "status"], sort=False):
            lines.append([model, task, status, str(len(part))])
        parts.append("Failures (their error is infinite)\n" + report.align(lines))
    parts.append(
        f"Published rows: {published['citation']}; theirs of zero-shot FHN are against noisy targets."
    )
    parts.append(f"Integrated by {Integrator()}")
    return "\n\n".join(parts)


def tuning_lines(summary: pd.DataFrame) -> list[list[str]]:
    """Return what fine-tuning took, as lines of cells; published rows below ours."""
    tuned = summary[(summary["targets"] == "clean") & summary[TUNING[0]].notna()]
    lines = [["model", "task", "best step", "CPU s a step", "CPU s to the best"]]
    for _, line in tuned.iterrows():
        lines.append([line["model"], line["task"], *(f"{line[name]:.3g}" for name in TUNING)])
    return lines + [[row["method"], *cells] for row in _read_published()["tuning"] for cells in row["cells"]]


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


def run_draws(rows: Sequence[Row], options: study.Options) -> list[pd.DataFrame]:
    """Run the shared draw and fresh ones."""
    draws = options.limit if options.limit is not None else FULL_DRAWS if options.full else FRESH_DRAWS
    seeds = [FIXED_SEED, *range(FIRST_FRESH_SEED, FIRST_FRESH_SEED + draws)]
    return [run(rows, seeds, options.out, options.workers, options.fresh, progress=True, starts=START_NAMES)]


def illustrate_draws(rows: Sequence[Row], trials: pd.DataFrame, options: study.Options) -> None:
    """Draw what the first row infers."""
    figures.draw(rows[0], trials, options.out / "oscillators.png")


def run_contexts(rows: Sequence[Row], options: study.Options) -> list[pd.DataFrame]:
    """Run the first row on larger contexts."""
    repeats = options.repeats or (contexts.FULL_REPEATS if options.full else contexts.REPEATS)
    return [contexts.run(rows[:1], repeats, options.out, options.workers, options.fresh, progress=True)]


def add_options(commands: argparse.ArgumentParser) -> None:
    """Add what this benchmark alone asks."""
    commands.add_argument(
        "--repeats", type=int, metavar="N", help=f"of each context size; default: {contexts.REPEATS}"
    )


STUDY = study.Study(
    "oscillators",
    __doc__,
    MODELS,
    {
        "draws": study.Part(run_draws, format_tables, summarise, illustrate=illustrate_draws),
        "contexts": study.Part(
            run_contexts,
            lambda summary, _: contexts.format_table(summary),
            contexts.summarise,
            tables=("contexts_trials",),
            summary="contexts",
            report="contexts",
        ),
    },
    OWN_ROWS,
    full_models=FULL_MODELS,
    limit=f"fresh noise draws; default: {FRESH_DRAWS}",
    full=f"{FULL_DRAWS} draws and repeats; the fine-tuned operator too",
    options=add_options,
)
main = partial(study.main, STUDY)

if __name__ == "__main__":
    sys.exit(main())
