"""``python -m benchmarks.fixed_points``: fixed points of inferred fields against the true ones."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks import cli, report
from benchmarks.fixed_points import learned, paper
from benchmarks.harness.rows import Row

MODELS = ("fim-ode", "sindy-strong")
SETTINGS = ("learned", "paper")
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
OUT = Path("benchmarks/fixed_points/out")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the settings, print their tables and write them to DIR."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fixed_points", description=__doc__)
    cli.add_row_options(parser, MODELS, OUT)
    add = parser.add_argument
    add("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS), help="default: both")
    add("--seeds", nargs="+", type=int, default=[0, 1, 2], metavar="S", help="noise draws; default: 0 1 2")
    add("--limit", type=int, metavar="N", help="first N systems of the setting learned")
    options = parser.parse_args(arguments)
    rows = cli.rows_or_exit(parser, {}, options.models, options.weights)
    options.out.mkdir(parents=True, exist_ok=True)
    if "learned" in options.settings:
        write_learned(rows, options)
    if "paper" in options.settings:
        write_paper(rows, options.out)
    return 0


def write_learned(rows: Sequence[Row], options: argparse.Namespace) -> None:
    """Run the setting ``learned``; write ``trials.csv``, ``points.csv`` and ``summary.csv``."""
    chosen = learned.known_regions()[: None if options.limit is None else 2 * options.limit]
    records = learned.run(
        rows, chosen, options.seeds, options.out, options.workers, options.fresh, progress=True
    )
    trials, points = learned.trial_table(records), learned.point_table(records)
    summary = learned.summarise(trials, points, report.source_commit(Path(__file__).parent))
    for name, table in (("trials", trials), ("points", points), ("summary", summary)):
        _save(table, options.out / f"{name}.csv")
    systems = ", ".join(dict.fromkeys(known.problem.system for known in chosen))
    print(f"Fields inferred from one trajectory; ODEBench systems {systems}, both contexts\n")
    print(_text(summary, PRINTED), end="\n\n")


def write_paper(rows: Sequence[Row], out: Path) -> None:
    """Run the setting ``paper``; write ``paper.csv`` and ``paper.png``."""
    fields = paper.fields(rows)
    found = paper.search(fields)
    table = paper.table(found, fields)
    _save(table, out / "paper.csv")
    paper.draw(fields, found, out / "paper.png")
    print(f"Zeros in {paper.BOX}, context of {paper.POINTS} points with noise {paper.SIGMA}\n")
    print(_text(table, paper.COLUMNS))
    print(f"\nPrinted rows: {paper.published()['citation']}")


def _save(table: pd.DataFrame, path: Path) -> None:
    table.to_csv(path, index=False, float_format="%.6g", lineterminator="\n")


def _text(table: pd.DataFrame, columns: Sequence[str]) -> str:
    rows = [[_cell(value) for value in row] for row in table[list(columns)].itertuples(index=False)]
    return report.align([list(columns), *rows])


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.3g}"
    return str(value)


if __name__ == "__main__":
    sys.exit(main())
