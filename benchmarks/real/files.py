"""Published tables as files of many forms: from each to a forecast of its last part, by one command."""

import argparse
import contextlib
import hashlib
import io
import json
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import report
from benchmarks.harness.rows import Row
from benchmarks.harness.run import Job, cached_outcomes
from fim_dynsys.__main__ import main as command_line
from fim_dynsys.commands import reading

HELD_OUT = 0.2  # last part of each trajectory
PERSISTENCE = "constant"
GIVEN = "truth-fit"
_FILES = (".csv", ".tsv", ".txt", ".dat", ".mat", ".npz", ".npy", ".h5", ".nc")


@dataclass(frozen=True)
class Source:
    """A table of ``files.toml``, or a file that `--data` names.

    Attributes
    ----------
    name, source, kind, known : str
        What it is, where it was published, and what is known of the right answer.
    form : str
        How it is written.
    time : str
        Name of the column of times.
    t : tuple
        Times, or dates.
    states : dict of str to ndarray (n,) or (k, n)
        Values; two axes for several trajectories.
    law : dict of str to str
        The textbook's right-hand sides; empty where it has none in these states.
    options : tuple of str
        Of the command.
    path : Path or None
        The file itself, where it is one.
    """

    name: str
    source: str = ""
    kind: str = ""
    known: str = ""
    form: str = "plain"
    time: str = "t"
    t: tuple[Any, ...] = ()
    states: dict[str, np.ndarray] = field(default_factory=dict)
    law: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    path: Path | None = None


@cache
def sources() -> tuple[Source, ...]:
    """Return the tables of ``files.toml``."""
    given = tomllib.loads(Path(__file__).with_name("files.toml").read_text(encoding="utf-8"))
    return tuple(_source(name, dict(facts)) for name, facts in given.items())


def _source(name: str, facts: dict[str, Any]) -> Source:
    states = {state: np.array(values, dtype=float) for state, values in facts.pop("states").items()}
    t = tuple(facts.pop("t", None) or facts.pop("dates"))
    return Source(name, t=t, states=states, options=tuple(facts.pop("options", ())), **facts)


def of_folder(folder: Path) -> list[Source]:
    """Return the files of a folder; ``NAME.options`` beside one holds options of the command, one a line."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.suffix in _FILES:
            beside = path.with_suffix(".options")
            options = tuple(beside.read_text(encoding="utf-8").split("\n")) if beside.is_file() else ()
            found.append(Source(path.name, options=tuple(filter(None, options)), path=path))
    return found


def write(table: Source, folder: Path) -> Path:
    """Write a table in its form, and return the file."""
    if table.path is not None:
        return table.path
    columns: dict[str, Any] = {table.time: list(table.t)}
    columns |= {name: values for name, values in table.states.items() if values.ndim == 1}
    if table.form == "trials":
        ((name, values),) = table.states.items()
        k, n = values.shape
        columns = {
            "tree": np.repeat(np.arange(1, k + 1), n),
            table.time: np.tile(np.array(table.t), k),
            name: values.ravel(),
        }
    frame = pd.DataFrame(columns)
    path = folder / f"{table.name}{'.txt' if table.form in ('tabs', 'blanks') else '.csv'}"
    if table.form == "european":
        frame.to_csv(path, sep=";", decimal=",", index=False)
    elif table.form in ("tabs", "blanks"):
        frame.to_csv(path, sep="\t" if table.form == "tabs" else " ", index=False)
    elif table.form == "comments":
        top = f"# {table.name}\n# from a printed table\n"
        path.write_text(top + frame.to_csv(index=False), encoding="utf-8")
    else:
        frame.to_csv(path, index=table.form == "index")
    return path


def evaluate(model: str, version: str, table: Source) -> dict[str, Any]:
    """Run the command on a file and return what it says of the held-out part.

    The error is a root mean square in standard deviations of the record; infinite for a refusal, or a
    forecast that does not get through the part.
    """
    about = {"data": table.name, "model": model, "version": version}
    with tempfile.TemporaryDirectory() as scratch:
        path = write(table, Path(scratch))
        if model == PERSISTENCE:
            return about | {"error": _persistence(path, table), "inside": np.nan, "status": "ok"}
        words = ["fit", str(path), "--json", "--held-out", str(HELD_OUT), *table.options]
        if model == GIVEN:
            given = Path(scratch) / "equations.toml"
            lines = [f"{json.dumps(name)} = {json.dumps(side)}" for name, side in table.law.items()]
            given.write_text("[equations]\n" + "\n".join(lines) + "\n", encoding="utf-8")
            words += ["--equations", str(given)]
        else:
            words += ["--model", model]
        out, said = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
            code = command_line(words)
    if code:
        return about | {"error": np.inf, "inside": np.nan, "status": said.getvalue().strip().splitlines()[-1]}
    facts = json.loads(out.getvalue())["held out"] or {"failed": "too few samples to hold any out"}
    if "failed" in facts:
        return about | {"error": np.inf, "inside": np.nan, "status": facts["failed"]}
    if "r2" in facts:  # with inputs: from the first sample of the part
        return about | {"error": np.sqrt(max(1.0 - facts["r2"], 0.0)), "inside": np.nan, "status": "ok"}
    error = np.inf if facts["error"] is None else facts["error"]
    status = "ok" if np.isfinite(error) else "the forecast does not get through"
    return about | {"error": error, "inside": facts["inside"], "status": status}


def _persistence(path: Path, table: Source) -> float:
    """The error of the last value that was not held out."""
    parser = argparse.ArgumentParser()
    reading.add_arguments(parser)
    known, _ = parser.parse_known_args([str(path), *table.options])
    options = vars(known)
    data = reading.read(options.pop("data"), reading.taken(options))
    pairs = data.arrays()
    spread = np.nanstd(np.concatenate([x for _, x in pairs]), axis=0)
    missed = []
    for _, x in pairs:
        last = int(HELD_OUT * len(x))
        early = pd.DataFrame(x[: len(x) - last]).ffill().to_numpy()[-1]
        missed.append(((x[len(x) - last :] - early) / spread).ravel())
    return float(np.sqrt(np.nanmean(np.concatenate(missed) ** 2)))


@dataclass(frozen=True)
class File:
    """What an outcome belongs to."""

    file: str


def run(
    rows: Sequence[Row], folder: Path | None, out: Path, workers: int = 1, fresh: bool = False
) -> list[pd.DataFrame]:
    """Return a line for each file and row; the textbook's law where there is one.

    Outcomes that `out` holds are not computed again.
    """
    lines: list[dict[str, Any]] = []
    for given in (True, False):
        chosen = [row for row in rows if (row.name == GIVEN) == given]
        tables = [*sources(), *(of_folder(folder) if folder is not None else [])]
        jobs = [Job(File(own.name), _digest(own), (own,)) for own in tables if own.law or not given]
        for of_rows in cached_outcomes(measure, chosen, jobs, out, "files", workers, fresh, progress=True):
            lines += of_rows
    order = [source.name for source in sources()]
    lines.sort(key=lambda line: order.index(line["data"]) if line["data"] in order else len(order))
    return [pd.DataFrame(lines)]


def measure(row: Row, table: Source) -> dict[str, Any]:
    """Return what `evaluate` does of a row."""
    return evaluate(row.name, row.version, table)


def _digest(table: Source) -> str:
    known = [repr((table.t, table.form, table.time, table.law, table.options)).encode()]
    known += [name.encode() + values.tobytes() for name, values in table.states.items()]
    known += [table.path.read_bytes()] if table.path is not None else []
    return hashlib.sha256(b"".join(known)).hexdigest()[:16]


def format_table(trials: pd.DataFrame) -> str:
    """Return the printed report."""
    part = f"{100 * HELD_OUT:.0f} %"
    title = f"Error of a forecast of the last {part} in standard deviations, from the file by one command"
    models = list(dict.fromkeys(trials["model"]))
    lines = [["file", *models]]
    for name, own in trials.groupby("data", sort=False):
        by_model = own.set_index("model")
        cells = [_cell(by_model, model) for model in models]
        lines.append([str(name), *cells])
    read = sum(not str(status).startswith("fim-dynsys") for status in trials["status"])
    failed = int((~np.isfinite(trials["error"])).sum())
    summary = f"{len(trials)} runs, {len(trials) - read} refused, {failed} without a forecast"
    refused = [f"{t.data}, {t.model}: {t.status}" for t in trials.itertuples() if not np.isfinite(t.error)]
    return "\n\n".join([title, report.align(lines), summary, *refused])


def _cell(by_model: pd.DataFrame, model: str) -> str:
    if model not in by_model.index:
        return "-"
    error = float(by_model.loc[model, "error"])
    return f"{error:.2f}" if np.isfinite(error) else "fails"
