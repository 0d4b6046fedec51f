"""``python -m benchmarks.real``: held-out ends of real records, against persistence and the textbook's law.

``--only files``: thirteen published tables as files of many forms, each from its file to a forecast of its
last part by one command; ``--data FOLDER`` adds files of one's own.
"""

import hashlib
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from benchmarks import report, study
from benchmarks.harness.rows import Row, View
from benchmarks.harness.run import Job, attempt, cached_outcomes
from benchmarks.real import files
from fim_dynsys.fields.base import VectorField
from fim_dynsys.models.equations import EquationsModel
from fim_dynsys.simulation.solution import integrate
from fim_dynsys.trajectories.container import Trajectories

MODELS = ("fim-ode", "auto", "sindy-strong", "sindy", "symbolic", "truth-fit", "constant")
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


@dataclass(frozen=True)
class Record:
    """What an outcome belongs to."""

    data: str


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
        return EquationsModel(list(view.problem.law)).infer(view.context)


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
    return found.value._shown_equations() or ["no finite sum of terms"]


def summarise(trials: pd.DataFrame, commit: str = "") -> pd.DataFrame:
    """Return one line per record, model and task: the median error over the beginnings, and failures."""
    lines = []
    for key, part in trials.groupby(["data", "task", "model", "version"], sort=False):
        line = dict(zip(("data", "task", "model", "version"), key, strict=True))
        failures = int(part["error"].isna().sum())
        median = float(part["error"].fillna(np.inf).median())
        lines.append(line | {"error": median, "failures": failures, "n": len(part), "commit": commit})
    return pd.DataFrame(lines)


def format_tables(summary: pd.DataFrame, _: pd.DataFrame, written: pd.DataFrame) -> str:
    """Return the printed report."""
    parts = ["Median error in standard deviations, over beginnings of each record (failures of how many)"]
    for name, own in summary.groupby("data", sort=False):
        lines = [[str(name), *TASKS]]
        for model in dict.fromkeys(own["model"]):
            mine = own[own["model"] == model].set_index("task")
            cells = [f"{mine.error[k]:.2f} ({mine.failures[k]} of {mine.n[k]})" for k in TASKS]
            lines.append([model, *cells])
        parts.append(report.align(lines))
    for name, own in written.groupby("data", sort=False):
        lines = [f"{model}: {found}" for model, found in zip(own["model"], own["equations"], strict=True)]
        parts.append("\n".join([f"Equations of {name}", *lines]))
    return "\n\n".join(parts)


def measure(row: Row, table: Table) -> dict[str, Any]:
    """Return what there is to know of a row and a record."""
    return {"trials": evaluate(row, table), "equations": "; ".join(equations(row, table))}


def run(
    rows: Sequence[Row], folder: Path, workers: int = 1, fresh: bool = False, progress: bool = False
) -> list[pd.DataFrame]:
    """Return one record per row, data and beginning, and what equations come out of each row and data.

    Outcomes that `folder` holds are not computed again.
    """
    jobs = [Job(Record(table.name), _digest(table), (table,)) for table in tables()]
    outcomes = cached_outcomes(measure, rows, jobs, folder, "real", workers, fresh, progress)
    trials, written = [], []
    for job, of_rows in zip(jobs, outcomes, strict=True):
        for row, outcome in zip(rows, of_rows, strict=True):
            trials += outcome["trials"]
            about = {"data": job.key.data, "model": row.name, "version": row.version}
            written.append(about | {"equations": outcome["equations"]})
    return [pd.DataFrame(trials), pd.DataFrame(written)]


def _digest(table: Table) -> str:
    known = (table.data.t.tobytes(), table.data.x.tobytes(), repr((table.first, table.scored)).encode())
    return hashlib.sha256(b"".join(known)).hexdigest()[:16]


STUDY = study.Study(
    "real",
    __doc__,
    MODELS,
    {
        "trials": study.Part(
            run=lambda rows, options: run(rows, options.out, options.workers, options.fresh, progress=True),
            text=format_tables,
            summarise=lambda trials, _, commit: summarise(trials, commit),
            tables=("trials", "equations"),
            order=("data", "model"),
        ),
        "files": study.Part(
            run=lambda rows, options: files.run(
                rows, options.data, options.out, options.workers, options.fresh
            ),
            text=files.format_table,
            tables=("files",),
            report="files",
            by=("data", "model"),
            order=("data", "model"),
        ),
    },
    {"truth-fit": LawRow},
    options=lambda parser: parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="further files for `--only files`"
    ),
)
main = partial(study.main, STUDY)

if __name__ == "__main__":
    sys.exit(main())
