"""``python -m benchmarks.analysis``: known equilibria, cycles, exponents, basins and bifurcations."""

import argparse
import csv
import importlib
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.analysis.parts import Figure, Part, PartTask
from benchmarks.harness.run import Job, cached_outcomes
from benchmarks.report import align, source_commit

# A part is the constant PART of its file; add yours here.
PARTS: dict[str, str] = {
    "equilibria": "benchmarks.analysis.equilibria",
    "cycles": "benchmarks.analysis.cycles",
    "exponents": "benchmarks.analysis.exponents",
    "manifolds": "benchmarks.analysis.manifolds",
    "basins": "benchmarks.analysis.basins",
    "continuation": "benchmarks.analysis.continuation",
    "diagrams": "benchmarks.analysis.diagrams",
}
RESULTS = Path("benchmarks/analysis/results")
SUMMARY_COLUMNS = ("part", "quantity", "value", "unit", "goal", "reached", "n", "note", "machine", "commit")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts, print their figures and write ``DIR/<part>.csv`` and ``DIR/summary.csv``."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.analysis", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="NAME", help="parts")
    parser.add_argument("--limit", type=int, metavar="N", help="first N tasks of each part")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes; default: 1")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="DIR", help=f"default: {RESULTS}")
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs measured")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        part = importlib.import_module(PARTS[name]).PART
        rows = measure(part, options.out, options.limit, options.workers, options.fresh)
        write_rows(rows, options.out / f"{name}.csv")
        figures = part.figures(rows)
        write_summary(name, figures, options.out / "summary.csv")
        print(table(name, figures))
    return 0


def measure(part: Part, out: Path, limit: int | None, workers: int, fresh: bool) -> list[dict[str, Any]]:
    """Return one row per task, from the cache in `out` where it holds the task already."""
    tasks = dict(list(part.tasks().items())[:limit])
    jobs = [Job(PartTask(part.name, task), "", (task,)) for task in tasks]
    outcomes = cached_outcomes(
        run_task, [part], jobs, out, "analysis", workers=workers, fresh=fresh, progress=True
    )
    return [{"task": task, **outcome} for task, (outcome,) in zip(tasks, outcomes, strict=True)]


def run_task(part: Part, task: str) -> dict[str, Any]:
    """Measure one task of a part."""
    return part.measure(*part.tasks()[task])


def write_rows(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write one line per task; columns in the order in which they first occur."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _text(value) for name, value in row.items()} for row in rows)


def write_summary(name: str, figures: Sequence[Figure], path: Path) -> None:
    """Replace the lines of one part in ``summary.csv``, which keeps those of the others."""
    kept = []
    if path.exists():
        with path.open(newline="") as file:
            kept = [row for row in csv.DictReader(file) if row["part"] != name]
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    own = {"part": name, "machine": machine, "commit": source_commit(Path(__file__).parent)}
    rows = [
        {**own, **vars(figure), "value": _text(figure.value), "reached": figure.reached} for figure in figures
    ]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, SUMMARY_COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted([*kept, *rows], key=lambda row: list(PARTS).index(row["part"])))


def table(name: str, figures: Sequence[Figure]) -> str:
    """Return the figures of one part as text."""
    lines = [[name, "value", "", "goal", "reached", "n", ""]]
    for figure in figures:
        value = f"{figure.value:.4g}"
        lines.append(
            [figure.quantity, value, figure.unit, figure.goal, figure.reached, str(figure.n), figure.note]
        )
    return align(lines)


def _text(value: Any) -> Any:
    return f"{value:.9g}" if isinstance(value, float) else value


if __name__ == "__main__":
    sys.exit(main())
