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


def merged(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of all tables; of a model that several have, those of the last."""
    kept: dict[str, pd.DataFrame] = {}
    for frame in frames:
        kept |= dict(iter(frame.groupby("model", sort=False)))
    return pd.concat(kept.values(), ignore_index=True)


def read(folder: Path, part: str) -> list[pd.DataFrame]:
    """Return the table of one part that a folder holds, in a list that is empty where it holds none."""
    path = folder / f"{part}.csv"
    return [pd.read_csv(path, dtype={"version": str, "system": str})] if path.exists() else []


def write(out: Path) -> None:
    """Write the tables and the figure of the trials in a folder and print the report."""
    trials = {part: frame for part in PARTS for frame in read(out, part)}
    summary = tables.summarise(trials)
    summary.to_csv(out / "summary.csv", index=False, float_format="%.6g", lineterminator="\n")
    text = tables.format_tables(summary, trials)
    (out / "report.txt").write_text(text + "\n")
    tables.draw(summary, out / "comparators.png")
    print(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark from the command line and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.comparators", description=__doc__)
    add = parser.add_argument
    add("--models", nargs="+", metavar="NAME", help="default: every installed model, and constant")
    add("--only", nargs="+", choices=PARTS, default=list(PARTS), help="default: both parts")
    add("--draws", type=int, default=DRAWS, metavar="N", help=f"fresh noise draws; default: {DRAWS}")
    add("--full", action="store_true", help="all of ODEBench's systems instead of every third")
    add("--workers", type=int, default=2, metavar="N", help="processes, one thread each; default: 2")
    add("--out", type=Path, default=OUT, metavar="DIR", help=f"output folder; default: {OUT}")
    add("--fresh", action="store_true", help="discard these rows' stored outcomes instead of resuming")
    add(
        "--render",
        nargs="*",
        type=Path,
        metavar="DIR",
        help="run nothing: report on the trials of these folders together (default: of --out)",
    )
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.render is None:
        rows = (
            cli.rows_or_exit(parser, {}, options.models, None)
            if options.models is not None
            else installed_rows()
        )
        found = {part: [*read(options.out, part), RUN[part](rows, options)] for part in options.only}
    else:
        found = {part: [f for folder in options.render for f in read(folder, part)] for part in PARTS}
    for part, frames in found.items():
        if frames:
            table = merged(frames)
            table.to_csv(options.out / f"{part}.csv", index=False, float_format="%.9g", lineterminator="\n")
    write(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
