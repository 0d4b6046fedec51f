"""``python -m benchmarks.structure``: exact structures of polynomial systems, and where they are lost."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks import cli, report, study
from benchmarks.harness.rows import Inferred, Row, View
from benchmarks.harness.run import Job, attempt, cached_outcomes, joined
from benchmarks.structure import figures
from benchmarks.structure.contexts import (
    CURVES,
    Case,
    cells,
    digest,
    found_coefficients,
    observe,
    polynomial_systems,
    true_coefficients,
)
from fim_dynsys.fields.base import VectorField

MODELS = ("fim-ode", "auto", "sindy-strong", "sindy")
SPLITS = ("all", "development", "oracle")


def evaluate(row: Row, case: Case) -> dict[str, Any]:
    """Infer from one context and compare its terms with the truth.

    An exception of the model is an outcome like another: no exact structure and its class as the status.
    """
    inferred = attempt(row.infer, View.of(row, observe(case), case, case))
    compared = inferred.then(_compared, case)
    return {
        "infer_seconds": inferred.seconds if inferred.succeeded else float("nan"),
        "status": compared.status,
        "message": compared.message,
        **(compared.value or {"exact": False, "missing": None, "wrong": None, "coefficient_error": None}),
    }


def _compared(field: Inferred, case: Case) -> dict[str, Any]:
    true = true_coefficients(case.system)
    found = field.terms() if isinstance(field, VectorField) else None
    if found is None:
        raise TypeError(f"{type(field).__name__}: expected a field with terms; leave this model out.")
    pairs = [(set(own), set(names)) for own, names in zip(true, found, strict=True)]
    missing = sum(len(own - names) for own, names in pairs)
    wrong = sum(len(names - own) for own, names in pairs)
    exact = not missing and not wrong
    error = _largest_error(field, true) if exact and isinstance(field, VectorField) else None
    return {"exact": exact, "missing": missing, "wrong": wrong, "coefficient_error": error}


def _largest_error(field: VectorField, true: list[dict[str, float]]) -> float:
    """Largest relative error of a coefficient."""
    pairs = zip(true, found_coefficients(field), strict=True)
    return max(abs(found[name] / value - 1.0) for own, found in pairs for name, value in own.items())


def run(
    rows: Sequence[Row],
    seeds: Sequence[int],
    folder: Path,
    workers: int = 1,
    fresh: bool = False,
    progress: bool = False,
    limit: int | None = None,
) -> pd.DataFrame:
    """Return one record per row and context; outcomes that `folder` holds are not computed again."""
    jobs, split = [], {}
    for system in cli.limited(polynomial_systems(), limit):
        split[system.name] = {"split": system.split, "dim": system.dim}
        for sigma, points, trajectories in cells():
            for seed in seeds if sigma else seeds[:1]:
                case = Case(system.name, sigma, points, trajectories, seed)
                jobs.append(Job(case, digest(case), (case,)))
    outcomes = cached_outcomes(evaluate, rows, jobs, folder, "terms", workers, fresh, progress)
    return pd.DataFrame(joined(rows, jobs, outcomes, lambda job: split[job.key.system])).drop(
        columns="message"
    )


CELL = ["sigma", "points", "trajectories", "model", "version"]


def summarise(trials: pd.DataFrame, commit: str = "") -> pd.DataFrame:
    """Return one line per cell, model and split; errors of coefficients are of exact structures alone."""
    lines = []
    for split in SPLITS:
        own = trials if split == "all" else trials[trials["split"] == split]
        for key, part in own.groupby(CELL, sort=False):
            line: dict[str, Any] = dict(zip(CELL, key, strict=True)) | {"split": split, "n": len(part)}
            line |= {"percent_exact": 100.0 * part["exact"].astype(bool).mean()}
            line |= {f"{what}_mean": part[what].astype(float).mean() for what in ("missing", "wrong")}
            line |= {"coefficient_error_median": part["coefficient_error"].astype(float).median()}
            line |= {"failures": int((part["status"] != "SUCCESS").sum())}
            line |= {"infer_seconds_median": part["infer_seconds"].median()}
            lines.append(
                line | {"seeds": " ".join(map(str, sorted(part["seed"].unique()))), "commit": commit}
            )
    return pd.DataFrame(lines)


def lines_of(summary: pd.DataFrame, curve: str, split: str) -> list[list[str]]:
    """Return one curve of one split as lines of cells: a line per model, a column per cell."""
    by = summary[summary["split"] == split].set_index(CELL[:4]).sort_index()
    known = [cell for cell in CURVES[curve] if cell in by.index.droplevel("model")]
    place = list(CURVES).index(curve)
    lines = [[curve, *(f"{cell[place]:g}" for cell in known)]]
    for model in summary["model"].unique():
        cells_ = [by.loc[(*cell, model)] if (*cell, model) in by.index else None for cell in known]
        lines.append([model, *("" if cell is None else _text(cell) for cell in cells_)])
    return lines


def _text(cell: pd.Series) -> str:
    return f"{cell['percent_exact']:.1f} ({cell['coefficient_error_median']:.0e})"


def format_tables(summary: pd.DataFrame) -> str:
    """Return the printed report."""
    parts = [
        "Percent with exactly the true terms (median of the largest relative error of a coefficient there)"
    ]
    for curve in CURVES:
        for split in (s for s in SPLITS if s in set(summary["split"])):
            n = summary.loc[summary["split"] == split, "n"].max()
            title = f"Against {curve}, {split}, {n} contexts a cell"
            parts.append(f"{title}\n{report.align(lines_of(summary, curve, split))}")
    return "\n\n".join(parts)


STUDY = study.Study(
    "structure",
    __doc__,
    MODELS,
    {
        "trials": study.Part(
            run=lambda rows, options: [
                run(
                    rows,
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
    seeds=(0,),
    full_seeds=(0, 1, 2),
    limit="N systems only, evenly spread over the list",
    full="three noise seeds",
)
main = partial(study.main, STUDY)

if __name__ == "__main__":
    sys.exit(main())
