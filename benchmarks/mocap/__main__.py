"""``python -m benchmarks.mocap --data DIR``: motion capture, predicted from the first frame on."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import cli, report
from benchmarks.harness.rows import ModelRow, Row, View
from benchmarks.harness.run import Integrator, Job, attempt, cached_outcomes
from benchmarks.mocap import figures
from benchmarks.mocap.tasks import SPLITS, STEP, TARGETS, Capture, captures, published
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.callable import CallableField

MODELS = ("fim-ode@3", "fim-ode@5", "linear@5", "auto@5")
FULL_MODELS = (
    *("fim-ode@3", "fim-ode+finetune@3", "sindy-strong@3", "auto@3"),
    *("fim-ode@5", "fim-ode+finetune@5", "sindy-strong@5", "linear@5", "auto@5"),
    "auto@8",
)
HELD, MEAN = "hold-first-frame", "training-mean"
_FLOORS = (3, 5, 8)
_GRID = 13  # points along each side of a plane that is drawn


@dataclass(frozen=True)
class LinearRow:
    """The linear field of least squares on differences of the samples."""

    name: str = "linear"
    version: str = "1"
    sees_truth: bool = False

    def infer(self, view: View) -> VectorField:
        """Return ``b + A x``."""
        pieces = view.context.arrays()
        slopes = np.concatenate([np.gradient(x, t, axis=0) for t, x in pieces])
        states = np.concatenate([x for _, x in pieces])
        columns = np.column_stack([np.ones(len(states)), states])
        constant, *matrix = np.linalg.lstsq(columns, slopes, rcond=None)[0]
        return CallableField(lambda x: constant + x @ np.array(matrix), view.context.dim)


@dataclass(frozen=True)
class Key:
    """What an outcome belongs to."""

    task: str
    components: int
    split: str


def evaluate(row: Row, capture: Capture, components: int, integrator: Integrator) -> dict[str, Any]:
    """Infer from the training sequences, follow the field from the first scored frames, compare."""
    inferred = attempt(row.infer, View.of(row, capture.context(components), capture, None))
    predicted = inferred.then(integrator.predict, capture.starts(components), capture.times, 10.0)
    errors, status, drawn = dict.fromkeys(TARGETS, float("inf")), predicted.status, None
    if predicted.value is not None:
        states, signs = predicted.value
        status = next((sign.name for sign in signs if sign.name != "SUCCESS"), "SUCCESS")
        if np.isfinite(states).all():
            errors = {name: _error(capture, name, capture.frames(states)) for name in TARGETS}
        drawn = np.round(np.nan_to_num(states[:, ::2, :3], nan=1e3), 3).tolist()
    planes = inferred.then(_planes, components).value
    return {
        "infer_seconds": inferred.seconds if inferred.succeeded else float("nan"),
        "simulate_seconds": predicted.seconds,
        "status": status,
        "message": predicted.message,
        "errors": errors,
        "chosen": str(inferred.then(_chosen).value or ""),
        "path": drawn,
        "planes": planes,
    }


def _error(capture: Capture, target: str, frames: np.ndarray) -> float:
    with np.errstate(over="ignore"):
        return float(np.mean((frames - capture.target(target)) ** 2))


def _chosen(field: VectorField) -> str:
    return str(field.fit_info.report.get("chosen", ""))


def _planes(field: VectorField, components: int) -> list:
    """The field in three planes through the mean (3, n, n, 2), where streamlines are drawn."""
    side = np.linspace(-figures.REACH, figures.REACH, _GRID)
    found = []
    for i, j in figures.PLANES:
        points = np.zeros((_GRID, _GRID, components))
        points[..., i], points[..., j] = np.meshgrid(side, side)
        found.append(np.round(np.nan_to_num(field(points)[..., [i, j]]), 3).tolist())
    return found


def run(
    tasks: Sequence[Capture],
    rows: Sequence[tuple[Row, int]],
    folder: Path,
    split: str = SPLITS[0],
    workers: int = 1,
    fresh: bool = False,
    progress: bool = False,
) -> tuple[pd.DataFrame, dict[tuple[str, str], dict[str, Any]]]:
    """Return one record per task, row and target, and the outcomes that figures need, by row and task.

    Outcomes that `folder` holds are not computed again.
    """
    integrator = Integrator()
    records, outcomes = _references(tasks), {}
    for components in dict.fromkeys(k for _, k in rows):
        own = [row for row, k in rows if k == components]
        jobs = [
            Job(Key(task.name, components, split), task.digest(), (task, components, integrator))
            for task in tasks
        ]
        found = cached_outcomes(evaluate, own, jobs, folder, str(integrator), workers, fresh, progress)
        for task, of_rows in zip(tasks, found, strict=True):
            for row, outcome in zip(own, of_rows, strict=True):
                name = f"{row.name}@{components}"
                outcomes[name, task.name] = outcome
                for target in TARGETS:
                    records.append(_record(task, target, components, name, row, outcome))
    return pd.DataFrame(records), outcomes


COLUMNS = ("status", "chosen", "infer_seconds", "simulate_seconds", "message")


def _record(
    task: Capture, target: str, components: int, name: str, row: Row, outcome: dict[str, Any]
) -> dict[str, Any]:
    return {
        "task": task.name,
        "target": target,
        "components": components,
        "row": name,
        "model": row.model if isinstance(row, ModelRow) else "",
        "version": row.version if isinstance(row, ModelRow) else "",
        "seed": dict(row.params).get("seed", 0) if isinstance(row, ModelRow) else 0,
        "mse": outcome["errors"][target],
        "floor": task.floor(target, components),
        **{column: outcome[column] for column in COLUMNS},
    }


def _references(tasks: Sequence[Capture]) -> list[dict[str, Any]]:
    """Rows that infer nothing, and what no prediction in a few components can go below."""
    found = []
    for task in tasks:
        for target in TARGETS:
            shape = task.scored.shape
            frames = {
                HELD: np.broadcast_to(task.scored[:, :1], shape),
                MEAN: np.broadcast_to(task.mean, shape),
            }
            values = {name: (0, _error(task, target, part)) for name, part in frames.items()}
            values |= {f"floor@{k}": (k, task.floor(target, k)) for k in _FLOORS}
            for name, (components, mse) in values.items():
                line = {"task": task.name, "target": target, "components": components, "row": name}
                blank = {
                    "model": "",
                    "version": "",
                    "seed": 0,
                    "status": "SUCCESS",
                    "chosen": "",
                    "message": "",
                }
                found.append(line | {"mse": mse, "floor": 0.0} | blank)
    return found


def lines_of(trials: pd.DataFrame, target: str, split: str = SPLITS[0]) -> list[list[str]]:
    """Return the cells of one target's table, published figures below ours."""
    theirs, names = published(), list(dict.fromkeys(trials["task"]))
    own = trials[trials["target"] == target]
    lines = [["row", "version", *names]]
    for (row, version), part in own.groupby(["row", "version"], sort=False):
        values = dict(zip(part["task"], part["mse"], strict=True))
        lines.append([row, version, *(f"{values[name]:.2f}" for name in names)])
    for line in theirs["row"] if split == SPLITS[0] else ():
        values = dict(zip(theirs["columns"], line["mse"], strict=True))
        if line["target"] == target:
            lines.append([line["method"], "published", *(f"{values[name]:.2f}" for name in names)])
        elif target == TARGETS[0]:
            floors = own[own["row"] == "floor@5"].set_index("task")["mse"]
            cells = (f"{values[name] + floors[name]:.2f}" for name in names)
            lines.append([line["method"], "published, moved to raw", *cells])
    return lines


def format_tables(trials: pd.DataFrame, split: str) -> str:
    """Return the printed report."""
    theirs, parts = published(), []
    for target in TARGETS:
        title = "raw 50-D frames" if target == TARGETS[0] else "their parts in five components"
        lines = report.align(lines_of(trials, target, split))
        parts.append(f"MSE of {split} sequences against {title} ({target})\n{lines}")
    failed = trials[(trials["status"] != "SUCCESS") & (trials["target"] == TARGETS[0])]
    if len(failed):
        lines = [["row", "task", "status", "mse"]]
        found = failed[["row", "task", "status", "mse"]].to_numpy()
        lines += [[row, task, status, f"{mse:.3g}"] for row, task, status, mse in found]
        parts.append("Paths that were not followed to their end\n" + report.align(lines))
    parts.append(
        f"Published: {theirs['citation']}. Those of FIM-ODE are against pca5; what five components leave of "
        "the frames is added where they are moved to raw, which is exact.\n"
        f"NAME@K: in K components. Step {STEP} between frames. Integrated by {Integrator()}"
    )
    return "\n\n".join(parts)


def rows_or_exit(
    commands: argparse.ArgumentParser, names: Sequence[str], weights: str | None
) -> list[tuple[Row, int]]:
    """Return rows and their numbers of components; what cannot be built ends the command with its usage."""
    found = []
    for name in dict.fromkeys(names):
        model, at, rest = name.partition("@")
        components, colon, options = rest.partition(":")
        if not at or not components.isdigit() or not 1 <= int(components) <= 40:
            commands.error(f"expected NAME@K, in K components of 1 to 40, such as auto@5, got {name!r}")
        (row,) = cli.rows_or_exit(commands, {"linear": LinearRow}, [model + colon + options], weights)
        found.append((row, int(components)))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark from the command line and return the exit status."""
    out = Path("benchmarks/mocap/out")
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mocap", description=__doc__)
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of mocap*.npz")
    parser.add_argument("--split", choices=SPLITS, default=SPLITS[0], help="sequences to predict")
    parser.add_argument("--tasks", nargs="+", metavar="NAME", help="such as '35 short'; default: all six")
    parser.add_argument("--full", action="store_true", help="fine-tuned and 3-component rows too")
    cli.add_row_options(parser, MODELS, out, full_models=FULL_MODELS)
    options = parser.parse_args(arguments)
    folder = options.out if options.split == SPLITS[0] else options.out / options.split
    folder.mkdir(parents=True, exist_ok=True)
    found = [] if options.render is not None else [measured(parser, options, folder)]
    frames = [*report.read_tables(options.render or [folder], "trials"), *found]
    if not frames:
        parser.error(
            f"expected tables of trials in {', '.join(map(str, options.render or [folder]))}, got none"
        )
    trials = report.joined(frames, ("row", "task"), ("task", "target", "row"))
    report.save(trials, folder / "trials.csv")
    text = format_tables(trials, options.split)
    (folder / "report.txt").write_text(text + "\n", encoding="utf-8")
    print(text)
    return 0


def measured(parser: argparse.ArgumentParser, options: argparse.Namespace, folder: Path) -> pd.DataFrame:
    """Run the rows on the tasks that were asked for and draw what they predict."""
    names = options.models or (FULL_MODELS if options.full else MODELS)
    rows = rows_or_exit(parser, names, options.weights)
    if options.data is None:
        parser.error("expected --data, the folder of mocap*.npz, got none")
    try:
        tasks = captures(options.data, options.split)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    known = {task.name: task for task in tasks}
    if unknown := sorted(set(options.tasks or known) - known.keys()):
        parser.error(f"expected tasks among {', '.join(known)}, got {', '.join(unknown)}")
    tasks = [known[name] for name in options.tasks or known]
    trials, outcomes = run(tasks, rows, folder, options.split, options.workers, options.fresh, progress=True)
    figures.draw(known, outcomes, folder)
    return trials.assign(commit=report.source_commit(Path(__file__).parent))


if __name__ == "__main__":
    sys.exit(main())
