"""``python -m benchmarks.comparators``: every installed model on the same data, beside the published rows."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

import fim_dynsys
from benchmarks import cli, report
from benchmarks.comparators import tables
from benchmarks.harness.rows import ConstantRow, ModelRow, Row
from benchmarks.harness.run import run
from benchmarks.harness.trials import list_trials
from benchmarks.odebench import equations, facts
from benchmarks.oscillators import __main__ as oscillators
from benchmarks.oscillators.tasks import FIRST_FRESH_SEED, FIXED_SEED, joined, tasks

PARTS = ("oscillators", "odebench")
SETTINGS = ((0.0, 0.0), (0.05, 0.0), (0.05, 0.5))
DRAWS = 20
THIN = 3  # of ODEBench, every third system
OUT = Path("benchmarks/comparators/out")


def installed_rows() -> list[Row]:
    """Return a row for each model that `load` makes without parameters, and one that predicts no motion.

    What is left out, such as a model whose weights the user has to bring, is said on stderr.
    """
    rows: list[Row] = []
    for name in fim_dynsys.available().names:
        try:
            rows.append(ModelRow.resolve(name))
        except (ValueError, ImportError, OSError) as error:
            print(f"{name}: left out: {error}", file=sys.stderr)
    return [*rows, ConstantRow()]


def on_oscillators(rows: Sequence[Row], options: argparse.Namespace) -> pd.DataFrame:
    """Return one record per task, draw and row; the first draw is the one that the literature shares.

    FitzHugh-Nagumo is one trajectory with a gap here, for all.
    """
    seeds = [FIXED_SEED, *range(FIRST_FRESH_SEED, FIRST_FRESH_SEED + options.draws)]
    folder = options.out / "oscillators"
    chosen = [joined(task) for task in tasks()]
    return oscillators.run(rows, seeds, folder, options.workers, options.fresh, True, chosen)


def on_odebench(rows: Sequence[Row], options: argparse.Namespace) -> pd.DataFrame:
    """Return one record per trial and row, on every third system or with ``--full`` on all."""
    problems = facts.problems()[:: 1 if options.full else THIN]
    trials = list_trials(problems, SETTINGS, ("paper",), (0,))
    folder = options.out / "odebench"
    records = run(problems, rows, trials, folder, workers=options.workers, fresh=options.fresh, progress=True)
    compared = [report.compare_terms(record, equations.true_terms(record["system"])) for record in records]
    return report.to_frame(compared).drop(columns="message")


RUN = {"oscillators": on_oscillators, "odebench": on_odebench}


def write(out: Path) -> None:
    """Write the tables and the figure of the trials in a folder and print the report."""
    trials = {part: frame for part in PARTS for frame in report.read_tables([out], part)}
    summary = tables.summarise(trials)
    report.save(summary, out / "summary.csv")
    text = tables.format_tables(summary, trials)
    (out / "report.txt").write_text(text + "\n")
    tables.draw(summary, out / "comparators.png")
    print(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark from the command line and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.comparators", description=__doc__)
    cli.add_row_options(parser, ("every installed model", "constant"), OUT)
    add = parser.add_argument
    add("--only", nargs="+", choices=PARTS, default=list(PARTS), help="default: both parts")
    add("--draws", type=int, default=DRAWS, metavar="N", help=f"fresh noise draws; default: {DRAWS}")
    add("--full", action="store_true", help="all of ODEBench's systems instead of every third")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[pd.DataFrame]] = {part: [] for part in PARTS}
    if options.render is None:
        rows = (
            cli.rows_or_exit(parser, {}, options.models, options.weights)
            if options.models is not None
            else installed_rows()
        )
        found |= {part: [RUN[part](rows, options)] for part in options.only}
    for part, frames in found.items():
        if tables_of_part := [*report.read_tables(options.render or [options.out], part), *frames]:
            report.save(report.joined(tables_of_part), options.out / f"{part}.csv", digits=9)
    write(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
