"""``python -m benchmarks.real``: held-out ends of real records, against persistence and the textbook law."""

import argparse
import sys
import tomllib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from benchmarks import cli, report
from benchmarks.harness.rows import Row, View
from benchmarks.harness.run import attempt
from fim_dynsys.fields.base import VectorField
from fim_dynsys.models.symbolic import SymbolicModel
from fim_dynsys.simulation.solution import integrate
from fim_dynsys.trajectories.container import Trajectories

MODELS = ("fim-ode", "auto", "sindy-strong", "sindy", "symbolic", "truth-fit", "constant")
OUT = Path("benchmarks/real/out")
AHEAD = 4  # samples that a record is followed beyond its end
TASKS = {"one step": slice(0, 1), "four steps": slice(0, AHEAD)}


@dataclass(frozen=True)
class Table:
    """One record.

    Attributes
    ----------
    name, source : str
        What it is, and where it was published.
    data : Trajectories
        All of it.
    first : int
        Samples of the shortest beginning that is fitted.
    scored : tuple of str
        States that errors are taken of.
    law : tuple of str
        The textbook's right-hand sides, with free constants.
    """

    name: str
    source: str
    data: Trajectories
    first: int
    scored: tuple[str, ...]
    law: tuple[str, ...]


@cache
def tables() -> tuple[Table, ...]:
    """Return the records of ``tables.toml``."""
    given = tomllib.loads(Path(__file__).with_name("tables.toml").read_text(encoding="utf-8"))
    return tuple(_table(name, facts) for name, facts in given.items())


def _table(name: str, facts: dict[str, Any]) -> Table:
    t = np.array(facts["t"], dtype=float)
    states = {state: np.array(values, dtype=float) for state, values in facts["states"].items()}
    for total, part in facts.get("accumulated", {}).items():
        x = states[part]
        states[total] = np.concatenate([[0.0], np.cumsum((x[1:] + x[:-1]) / 2 * np.diff(t))])
    data = Trajectories.from_arrays(
        np.stack(list(states.values()), axis=-1), t, state_names=list(states), units={"t": facts["time"]}
    )
    return Table(name, facts["source"], data, facts["first"], tuple(facts["scored"]), tuple(facts["law"]))


@dataclass(frozen=True)
class LawRow:
    """The textbook's law with its constants fitted by `symbolic`."""

    name: str = "truth-fit"
    version: str = "1"
    sees_truth: ClassVar[bool] = True

    def infer(self, view: View) -> VectorField:
        """Return the fitted field."""
        return SymbolicModel(list(view.problem.law)).infer(view.context)


def beginning(table: Table, n: int) -> Trajectories:
    """Return the first n samples."""
    ((t, x),) = table.data.arrays()
    return Trajectories.from_arrays(x[:n], t[:n], state_names=table.data.state_names, units=table.data.units)


def evaluate(row: Row, table: Table) -> list[dict[str, Any]]:
    """Fit every beginning of a record and predict the next samples from the last one that was fitted.

    Errors are root mean squares over the scored states, in standard deviations of the whole record. A model
    that fails, or whose path does not get so far, has no error there and counts as a failure.
    """
    ((t, x),) = table.data.arrays()
    kept = [table.data.state_names.index(name) for name in table.scored]
    unit = x.std(axis=0)
    records = []
    for n in range(table.first, len(t)):
        inferred = attempt(row.infer, View.of(row, beginning(table, n), table, None))
        ahead = np.full((min(AHEAD, len(t) - n), x.shape[1]), np.nan)
        if inferred.succeeded:
            times = t[n - 1 : n + AHEAD]
            ahead = integrate([inferred.value], x[n - 1 : n], times, max_steps=20_000).x[0, 1:]
        missed = ((ahead - x[n : n + AHEAD]) / unit)[:, kept]
        for task, span in TASKS.items():
            if span.stop <= len(missed):
                error = float(np.sqrt(np.mean(missed[span] ** 2)))
                about = {"data": table.name, "model": row.name, "version": row.version}
                records.append(about | {"task": task, "fitted": n, "error": error, "status": inferred.status})
    return records


def equations(row: Row, table: Table) -> list[str]:
    """Return what comes out of the whole record; the class of the exception where nothing does."""
    found = attempt(row.infer, View.of(row, table.data, table, None))
    if not found.succeeded:
        return [found.status]
    return found.value.shown_equations() or ["no finite sum of terms"]


def summarise(trials: pd.DataFrame, commit: str = "") -> pd.DataFrame:
    """Return one line per record, model and task: the median error over the beginnings, and failures."""
    lines = []
    for key, part in trials.groupby(["data", "task", "model", "version"], sort=False):
        line = dict(zip(("data", "task", "model", "version"), key, strict=True))
        failures = int(part["error"].isna().sum())
        median = float(part["error"].fillna(np.inf).median())
        lines.append(line | {"error": median, "failures": failures, "n": len(part), "commit": commit})
    return pd.DataFrame(lines)


def format_tables(summary: pd.DataFrame, written: dict[str, dict[str, list[str]]]) -> str:
    """Return the printed report."""
    parts = ["Median error in standard deviations, over beginnings of each record (failures of how many)"]
    for name, own in summary.groupby("data", sort=False):
        lines = [[str(name), *TASKS]]
        for model in dict.fromkeys(own["model"]):
            mine = own[own["model"] == model].set_index("task")
            cells = [f"{mine.error[k]:.2f} ({mine.failures[k]} of {mine.n[k]})" for k in TASKS]
            lines.append([model, *cells])
        parts.append(report.align(lines))
    for name, by_model in written.items():
        lines = [f"{model}: {'; '.join(found)}" for model, found in by_model.items()]
        parts.append("\n".join([f"Equations of {name}", *lines]))
    return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark from the command line and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real", description=__doc__)
    parser.add_argument("--models", nargs="+", metavar="NAME", default=list(MODELS))
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help=f"output folder; default: {OUT}")
    options = parser.parse_args(arguments)
    rows = cli.rows_or_exit(parser, {"truth-fit": LawRow}, options.models, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a fit warns of shows in its errors
        trials = pd.DataFrame([one for table in tables() for row in rows for one in evaluate(row, table)])
        written = {table.name: {row.name: equations(row, table) for row in rows} for table in tables()}
    options.out.mkdir(parents=True, exist_ok=True)
    summary = summarise(trials, report.source_commit(Path(__file__).parent))
    report.write_tables(options.out, trials, summary, format_tables(summary, written))
    return 0


if __name__ == "__main__":
    sys.exit(main())
