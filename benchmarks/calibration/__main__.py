"""``python -m benchmarks.calibration``: do bands of paths, fields, points, cycles and forecasts hold?"""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import cli, report, study
from benchmarks.calibration import cycles, forecasts, points
from benchmarks.calibration.bands import CAP, PERCENTS, evaluate
from benchmarks.development import problems as development
from benchmarks.harness.rows import Row
from benchmarks.harness.run import Integrator, Job, cached_outcomes
from benchmarks.harness.trials import Problem, Trial, data_digest, list_trials
from benchmarks.odebench import facts, reference_rows
from fim_dynsys.fields.base import VectorField
from fim_dynsys.metrics import coverage, interval_score

MODELS = ("auto", "fim-ode")
SETTINGS = tuple((sigma, 0.0) for sigma in (0.0, 0.01, 0.03, 0.05, 0.1))
DEVELOPMENT, ODEBENCH = "development", "odebench"
KINDS = ("raw", "recalibrated")


def sources(limit: int | None) -> dict[str, tuple[list[Problem], Callable[[Problem], VectorField]]]:
    """Return the systems of both splits, and what knows their true fields."""
    return {
        DEVELOPMENT: (cli.limited(development.problems(), limit), development.true_field),
        ODEBENCH: (cli.limited(facts.problems(), limit), reference_rows.true_field),
    }


def run(
    rows: Sequence[Row],
    seeds: Sequence[int],
    limit: int | None,
    folder: Path,
    workers: int = 1,
    fresh: bool = False,
    progress: bool = False,
) -> pd.DataFrame:
    """Return one record per source, trial, row and quantity; outcomes that `folder` holds are known."""
    integrator, records = Integrator(), []
    for source, (problems, truth) in sources(limit).items():
        by_name = {problem.system: problem for problem in problems}
        digests = {problem.system: data_digest(problem) for problem in problems}
        jobs = [
            Job(t, digests[t.system], (by_name[t.system], t, truth, integrator))
            for t in list_trials(problems, SETTINGS, ("paper",), seeds)
        ]
        outcomes = cached_outcomes(
            evaluate, rows, jobs, folder, f"bands, {integrator}", workers, fresh=fresh, progress=progress
        )
        for job, of_rows in zip(jobs, outcomes, strict=True):
            for row, outcome in zip(rows, of_rows, strict=True):
                records += _records(source, job.key, by_name[job.key.system].dim, row, outcome)
    return pd.DataFrame(records)


def _records(source: str, trial: Trial, dim: int, row: Row, outcome: dict[str, Any]) -> list[dict[str, Any]]:
    about = {"source": source, "system": trial.system, "ic": trial.ic, "dim": dim, "sigma": trial.sigma}
    about |= {"seed": trial.seed, "model": row.name, "version": row.version}
    about |= {name: outcome[name] for name in ("status", "failed", "seconds", "message")}
    bands = {name: value for name, value in outcome.items() if isinstance(value, dict)}
    return [
        {**about, "quantity": name, **{part: np.array(values) for part, values in band.items()}}
        for name, band in bands.items()
    ]


# ------------------------------------------------------------------------------------------ recalibration


def factors(trials: pd.DataFrame) -> dict[tuple[str, str, int], float]:
    """Return by which half widths are multiplied so that they cover their share of the development split.

    By model, quantity and nominal percentage; all noise levels and dimensions count alike. Infinite where too
    many bands have no width for any factor to do it.
    """
    found = {}
    for (model, quantity), part in trials[trials["source"] == DEVELOPMENT].groupby(["model", "quantity"]):
        errors = np.concatenate(list(part["error"]))
        for percent in PERCENTS:
            half = np.concatenate(list(part[f"half{percent}"]))
            ratio = np.divide(errors, half, out=np.full_like(errors, np.inf), where=half > 0)
            found[model, quantity, percent] = float(np.quantile(ratio, percent / 100, method="higher"))
    return found


def score(trials: pd.DataFrame) -> pd.DataFrame:
    """Return per record the coverage and mean interval score of both bands, raw and recalibrated."""
    widen = factors(trials)
    lines = []
    for record in trials.to_dict("records"):
        error = record.pop("error")
        line = {name: value for name, value in record.items() if not name.startswith("half")}
        for percent in PERCENTS:
            for kind in KINDS:
                factor = widen[record["model"], record["quantity"], percent] if kind == KINDS[1] else 1.0
                half = _widened(record[f"half{percent}"], factor)
                line[f"cover{percent}_{kind}"] = coverage(error, -half, half)
                line[f"score{percent}_{kind}"] = interval_score(error, -half, half, 1 - percent / 100)
        lines.append(line)
    return pd.DataFrame(lines)


def _widened(half: np.ndarray, factor: float) -> np.ndarray:
    """Half widths times a factor, up to `CAP`; what has no width gets none, though the factor be infinite."""
    return np.minimum(np.multiply(half, factor, out=np.zeros_like(half), where=half > 0), CAP)


def summarise(scored: pd.DataFrame, commit: str = "") -> pd.DataFrame:
    """Return means over the trials of each source, noise level, model and quantity, and by dimension."""
    values = [f"{what}{p}_{kind}" for p in PERCENTS for kind in KINDS for what in ("cover", "score")]
    lines = []
    keys = ["source", "sigma", "model", "version", "quantity"]
    for group, part in [("all", scored), *((f"dim={d}", p) for d, p in scored.groupby("dim"))]:
        for key, cell in part.groupby(keys, sort=False):
            line = {**dict(zip(keys, key, strict=True)), "group": group, "trials": len(cell)}
            line |= {name: float(cell[name].mean()) for name in values}
            line |= {"failed_members": float(cell["failed"].mean())}
            line |= {"failures": int((cell["status"] != "SUCCESS").sum())}
            lines.append({**line, "seconds_median": float(cell["seconds"].median()), "commit": commit})
    return pd.DataFrame(lines)


def format_tables(summary: pd.DataFrame) -> str:
    """Return the printed report: ODEBench, then the development split on which bands were recalibrated."""
    parts = []
    for (source, sigma), part in summary[summary["group"] == "all"].groupby(["source", "sigma"], sort=False):
        lines = [
            ["quantity", "model", "50 %: raw", "recal.", "90 %: raw", "recal.", "score 90: raw", "recal."]
        ]
        for _, line in part.sort_values(["quantity", "model"]).iterrows():
            covers = [f"{100 * line[f'cover{p}_{kind}']:.1f}" for p in PERCENTS for kind in KINDS]
            widths = [f"{line[f'score90_{kind}']:.3g}" for kind in KINDS]
            lines.append([line["quantity"], line["model"], *covers, *widths])
        title = f"{source}, noise {sigma:g}: percent covered, and mean interval score of the 90 % band"
        parts.append(title + "\n" + report.align(lines))
    parts.append(
        "Units: standard deviations of a trajectory, typical rates of a field; errors and widths are cut at "
        f"{CAP:g}. Recalibrated: half widths times one factor per model, quantity and percentage, from the "
        "development split. 'stated': normal bands of the field's own deviation, else members' quantiles."
    )
    return "\n\n".join(parts)


def run_bands(rows: Sequence[Row], options: study.Options) -> list[pd.DataFrame]:
    """Run both splits and recalibrate what was found on one of them."""
    seeds, folder, workers = options.seeds or [0], options.out, options.workers
    return [score(run(rows, seeds, options.limit, folder, workers, options.fresh, progress=True))]


def run_counted(
    part: Any, seeds: Sequence[int], rows: Sequence[Row], options: study.Options
) -> list[pd.DataFrame]:
    """Run a part that counts what single intervals hold."""
    seeds, limit, folder, workers = options.seeds or seeds, options.limit, options.out, options.workers
    return [part.run(rows, seeds, limit, folder, workers, options.fresh, progress=True)]


def run_forecasts(rows: Sequence[Row], options: study.Options) -> list[pd.DataFrame]:
    """Run the forecasts of both splits."""
    known, seeds = sources(options.limit), options.seeds or [0]
    return [forecasts.run(rows, known, seeds, options.out, options.workers, options.fresh, progress=True)]


def _counted(name: str, part: Any, run: Callable[..., Sequence[pd.DataFrame]]) -> study.Part:
    return study.Part(
        run,
        lambda summary, _: part.format_table(summary),
        part.summarise,
        tables=(name,),
        summary=f"{name}_summary",
        report=name,
        digits=(6, 5),
    )


def add_options(commands: argparse.ArgumentParser) -> None:
    """Add what this benchmark alone asks."""
    text = f"noise seeds; default: 0, for points 0 and 1, for cycles 0 to {cycles.SEEDS[-1]}"
    commands.add_argument("--seeds", nargs="+", type=int, metavar="N", help=text)


STUDY = study.Study(
    "calibration",
    __doc__,
    MODELS,
    {
        "bands": study.Part(run_bands, lambda summary, _: format_tables(summary), summarise, digits=(4, 5)),
        "points": _counted("points", points, partial(run_counted, points, (0, 1))),
        "cycles": _counted("cycles", cycles, partial(run_counted, cycles, cycles.SEEDS)),
        "forecasts": _counted("forecasts", forecasts, run_forecasts),
    },
    limit="N systems of each split only",
    options=add_options,
)
main = partial(study.main, STUDY)

if __name__ == "__main__":
    sys.exit(main())
