"""``python -m benchmarks.fixed_points``: fixed points of inferred fields against the true ones."""

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd

from benchmarks import report, study
from benchmarks.fixed_points import learned, paper
from benchmarks.harness.rows import Row

MODELS = ("fim-ode", "sindy-strong")
PRINTED = (
    "sigma",
    "model",
    "true_kind",
    "true",
    "precision",
    "precision_supported",
    "recall",
    "kind_right",
    "kind_open",
    "error_median",
    "error_q90",
    "search_seconds_max",
)


def run_learned(rows: Sequence[Row], options: study.Options) -> list[pd.DataFrame]:
    """Return trials and points of fields that are inferred from one trajectory."""
    chosen = learned.known_regions()[: None if options.limit is None else 2 * options.limit]
    records = learned.run(
        rows, chosen, options.seeds, options.out, options.workers, options.fresh, progress=True
    )
    return [learned.trial_table(records), learned.point_table(records)]


def format_learned(summary: pd.DataFrame, trials: pd.DataFrame, _: pd.DataFrame) -> str:
    """Return the printed report."""
    systems = ", ".join(dict.fromkeys(trials["system"]))
    title = f"Fields inferred from one trajectory; ODEBench systems {systems}, both contexts"
    return f"{title}\n\n{_text(summary, PRINTED)}"


def run_paper(rows: Sequence[Row], options: study.Options) -> list[pd.DataFrame]:
    """Return the zeros of the paper's three examples and draw their portraits."""
    fields = paper.fields(rows)
    found = paper.search(fields)
    paper.draw(fields, found, options.out / "paper.png")
    return [paper.table(found, fields)]


def format_paper(table: pd.DataFrame) -> str:
    """Return the printed report."""
    return (
        f"Zeros in {paper.BOX}, context of {paper.POINTS} points with noise {paper.SIGMA}\n\n"
        f"{_text(table, paper.COLUMNS)}\n\nPrinted rows: {paper.published()['citation']}"
    )


def _text(table: pd.DataFrame, columns: Sequence[str]) -> str:
    rows = [[_cell(value) for value in row] for row in table[list(columns)].itertuples(index=False)]
    return report.align([list(columns), *rows])


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.3g}"
    return str(value)


STUDY = study.Study(
    "fixed_points",
    __doc__,
    MODELS,
    {
        "learned": study.Part(
            run_learned,
            format_learned,
            learned.summarise,
            tables=("trials", "points"),
            order=("sigma", "model"),
        ),
        "paper": study.Part(
            run_paper,
            format_paper,
            tables=("paper",),
            report="paper",
            by=("system", "model"),
            order=("system", "model"),
        ),
    },
    seeds=(0, 1, 2),
    limit="first N systems of the part learned",
)
main = partial(study.main, STUDY)

if __name__ == "__main__":
    sys.exit(main())
