"""Benchmarks made of parts: named tasks, figures made of their outcomes, and the command that runs them."""

import argparse
import csv
import importlib
import operator
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.run import Job, cached_outcomes
from benchmarks.report import align, source_commit

SUMMARY_COLUMNS = ("part", "quantity", "value", "unit", "goal", "reached", "n", "note", "machine", "commit")
_COMPARE = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "==": operator.eq}


@dataclass(frozen=True)
class Figure:
    """One figure of the summary.

    Attributes
    ----------
    quantity : str
        What was measured.
    value : float
        In `unit`.
    unit : str
        ``"s"`` for CPU seconds, ``"x"`` for ratios, empty for counts and shares.
    goal : str
        What is aimed at, such as ``"<= 0.002"``; empty where the figure is for information.
    n : int
        Number of cases behind it.
    note : str
        Conditions, exceptions.
    """

    quantity: str
    value: float
    unit: str = ""
    goal: str = ""
    n: int = 1
    note: str = ""

    @property
    def reached(self) -> str:
        """``"yes"`` or ``"no"``; empty without a goal."""
        if not self.goal:
            return ""
        sign, bound = self.goal.split()
        return "yes" if _COMPARE[sign](self.value, float(bound)) else "no"


@dataclass(frozen=True)
class PartTask:
    """Names one task of a part in the cache."""

    part: str
    task: str


@dataclass(frozen=True)
class Part:
    """One part of the benchmark, the constant ``PART`` of its file.

    Attributes
    ----------
    name : str
        As given to ``--only``.
    version : str
        Raise it by hand when outcomes change; outcomes of other versions are measured anew.
    tasks : callable
        ``tasks()`` gives, by task name, the arguments of `measure`. Cheap: all of them are listed each time.
    measure : callable
        ``measure(*arguments)`` gives a flat dict of numbers and text, the task's row in ``<part>.csv``. It
        must be importable by its name, and an exception it raises stops the run.
    figures : callable
        ``figures(rows)`` gives the figures; each row is a measured dict with ``task`` added.
    """

    name: str
    version: str
    tasks: Callable[[], dict[str, tuple]]
    measure: Callable[..., dict[str, Any]]
    figures: Callable[[Sequence[dict[str, Any]]], list[Figure]]


def best_seconds(function: Callable[[], object], repeats: int = 3) -> float:
    """Return the CPU seconds of the quickest of some calls: load of the machine only ever adds."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)
    return min(seconds)


def main(
    name: str, description: str | None, parts: Mapping[str, str], arguments: Sequence[str] | None = None
) -> int:
    """Run parts, print their figures and write ``DIR/<part>.csv`` and ``DIR/summary.csv``.

    Parameters
    ----------
    name : str
        Of the benchmark, a package of ``benchmarks``.
    description : str
        For ``--help``.
    parts : dict of str
        The modules that hold the parts, each as the constant ``PART``, by the parts' names.
    arguments : sequence of str, optional
        Default: those of the process.

    Returns
    -------
    int
        Exit status.
    """
    results = Path("benchmarks") / name / "results"
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=description)
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts), metavar="NAME", help="parts")
    parser.add_argument("--limit", type=int, metavar="N", help="first N tasks of each part")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes; default: 1")
    parser.add_argument("--out", type=Path, default=results, metavar="DIR", help=f"default: {results}")
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs measured")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    for only in options.only:
        part = importlib.import_module(parts[only]).PART
        rows = measure(name, part, options.out, options.limit, options.workers, options.fresh)
        write_rows(rows, options.out / f"{only}.csv")
        figures = part.figures(rows)
        write_summary(list(parts), only, figures, options.out / "summary.csv")
        print(table(only, figures), flush=True)
    return 0


def measure(
    benchmark: str, part: Part, out: Path, limit: int | None, workers: int, fresh: bool
) -> list[dict[str, Any]]:
    """Return one row per task, from the cache in `out` where it holds the task already."""
    tasks = dict(list(part.tasks().items())[:limit])
    jobs = [Job(PartTask(part.name, task), "", (task,)) for task in tasks]
    outcomes = cached_outcomes(
        run_task, [part], jobs, out, benchmark, workers=workers, fresh=fresh, progress=True
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


def write_summary(order: Sequence[str], name: str, figures: Sequence[Figure], path: Path) -> None:
    """Replace the lines of one part in ``summary.csv``, which keeps those of the others, in this order."""
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
        writer.writerows(sorted([*kept, *rows], key=lambda row: order.index(row["part"])))


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
