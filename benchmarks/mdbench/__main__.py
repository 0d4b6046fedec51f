"""``python -m benchmarks.mdbench``: slopes and complexity by the protocol of MDBench (AAAI 2026)."""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import cli, report, study
from benchmarks.harness.rows import Row, TruthRow, View
from benchmarks.harness.run import Job, attempt, cached_outcomes, joined
from benchmarks.mdbench import figures
from benchmarks.mdbench.contexts import LEVELS, SEED, SEEN, Case, Record, records
from benchmarks.mdbench.grid import SindyGridRow
from benchmarks.mdbench.scores import complexity, nmse
from benchmarks.odebench import facts
from benchmarks.odebench.reference_rows import true_field
from fim_dynsys.fields.base import VectorField

MODELS = ("fim-ode", "auto", "sindy-strong", "pysindy-grid", "truth")
STATES = ("observed", "clean")


def truth(record: Record) -> VectorField:
    """Return the true field of a record."""
    return true_field(next(p for p in facts.problems() if p.system == record.system))


ROWS: dict[str, Callable[[], Row]] = {"truth": lambda: TruthRow(truth), "pysindy-grid": SindyGridRow}


def evaluate(row: Row, record: Record, case: Case) -> dict[str, Any]:
    """Infer from the first part of a record and compare slopes on the rest.

    An exception of the model is an outcome like another: infinite errors and its class as the status.
    """
    inferred = attempt(row.infer, View.of(row, record.context(), record, case))
    scored = inferred.then(_scores, record)
    failed = {f"nmse_{states}": np.inf for states in STATES} | {"complexity": None}
    return {
        "infer_seconds": inferred.seconds if inferred.succeeded else float("nan"),
        "status": scored.status,
        "message": scored.message,
        **(scored.value or failed),
    }


def _scores(field: VectorField, record: Record) -> dict[str, Any]:
    slopes = record.slopes[SEEN:]
    errors = {states: nmse(slopes, field(getattr(record, states)[SEEN:])) for states in STATES}
    expressions = getattr(field, "sympy", None)  # the truth and networks are not expressions
    nodes = complexity(expressions()) if expressions else None
    return {f"nmse_{states}": error for states, error in errors.items()} | {"complexity": nodes}


def run(
    rows: Sequence[Row],
    levels: Sequence[str],
    folder: Path,
    workers: int = 1,
    fresh: bool = False,
    progress: bool = False,
    limit: int | None = None,
) -> pd.DataFrame:
    """Return one record per row, system and noise; outcomes that `folder` holds are not computed again."""
    jobs = []
    for level in levels:
        of_level = {record.system: record for record in records(level)}
        for problem in cli.limited(facts.problems(), limit):
            record, case = of_level[problem.system], Case(problem.system, level)
            jobs.append(Job(case, record.digest(), (record, case)))
    outcomes = cached_outcomes(evaluate, rows, jobs, folder, "slopes", workers, fresh, progress)
    return pd.DataFrame(joined(rows, jobs, outcomes, lambda job: {"dim": job.arguments[0].dim})).drop(
        columns="message"
    )


def summarise(trials: pd.DataFrame, commit: str = "") -> pd.DataFrame:
    """Return one line per noise level and model: medians over the systems, failures as infinite errors."""
    lines = []
    for (level, model, version), part in trials.groupby(["level", "model", "version"], sort=False):
        line: dict[str, Any] = {"level": level, "model": model, "version": version, "n": len(part)}
        line |= {f"nmse_{s}_median": part[f"nmse_{s}"].median() for s in STATES}
        line |= {"complexity_median": part["complexity"].astype(float).median()}
        line |= {"failures": int((part["status"] != "SUCCESS").sum())}
        line |= {"infer_seconds_median": part["infer_seconds"].median(), "seed": SEED, "commit": commit}
        lines.append(line)
    return pd.DataFrame(lines)


def lines_of(summary: pd.DataFrame, states: str) -> list[list[str]]:
    """Return the median errors as lines of cells, a column per noise level; complexities and seconds last."""
    levels = [level for level in LEVELS if level in set(summary["level"])]
    titles = [level if level == "clean" else f"{level} dB" for level in levels]
    lines = [["model", *titles, "complexity", "CPU s"]]
    for model, own in summary.groupby("model", sort=False):
        by = own.set_index("level")
        lines.append([str(model), *(f"{by.loc[level, f'nmse_{states}_median']:.2g}" for level in levels)])
        nodes, seconds = own["complexity_median"], own["infer_seconds_median"].median()
        known = nodes.notna().any()
        lines[-1] += [f"{nodes.min():.0f}-{nodes.max():.0f}" if known else "", f"{seconds:.2g}"]
    return lines


def format_tables(summary: pd.DataFrame) -> str:
    """Return the printed report."""
    n = summary["n"].max()
    return "\n\n".join(
        f"Median NMSE of the slopes on the last fifth of {n} records, at its {states} states\n"
        + report.align(lines_of(summary, states))
        for states in STATES
    )


def add_options(commands: argparse.ArgumentParser) -> None:
    """Add what this benchmark alone asks."""
    commands.add_argument(
        "--levels", nargs="+", choices=LEVELS, default=list(LEVELS), help="noise in decibels; default: all"
    )


STUDY = study.Study(
    "mdbench",
    __doc__,
    MODELS,
    {
        "trials": study.Part(
            run=lambda rows, options: [
                run(
                    rows,
                    options.levels,
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
            by=("model", "level"),
        )
    },
    ROWS,
    limit="N systems only, evenly spread over the list",
    options=add_options,
)
main = partial(study.main, STUDY)

if __name__ == "__main__":
    sys.exit(main())
