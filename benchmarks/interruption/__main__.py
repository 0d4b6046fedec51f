"""``python -m benchmarks.interruption``: does a run that is killed (SIGKILL) at random moments end the same?

A short run is made twice in processes of their own: once whole, once killed several times at random moments
and started again. Compared are the curve (every column of log.csv but the time) and what comes out (weights,
of a fine-tuned network what changed of them, of `fim-ode` the field), byte by byte. Runs are of pretraining,
and of fine-tuning both on noisy samples of van der Pol's oscillator.
"""

import argparse
import csv
import multiprocessing
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.interruption.runs import CHECKPOINT, LOG, WEIGHTS, finetuned
from benchmarks.report import align, source_commit
from training.preset import read_preset
from training.pretrain import pretrain

Run = Callable[[Path], object]
"""Leaves a checkpoint, a log and weights in a folder, or goes on from the checkpoint there."""

_STEPS = 60  # of fine-tuning a network


@dataclass(frozen=True)
class Kill:
    """One process: seconds from its first checkpoint to its end, and what the next one goes on from."""

    number: int
    seconds: float
    checkpoint_found: bool
    rows_logged: int
    killed: bool


def _started(run: Run, folder: Path, wait: bool = True) -> multiprocessing.Process:
    """A process that runs, once it has written a checkpoint."""
    before = _written(folder / CHECKPOINT)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["training.pretrain"])
    process = context.Process(target=run, args=(folder,))
    process.start()
    while wait and process.is_alive() and _written(folder / CHECKPOINT) == before:
        process.join(0.01)
    return process


def whole(run: Run, folder: Path) -> float:
    """Run to the end; seconds that it took from its first checkpoint on."""
    process = _started(run, folder)
    began = time.monotonic()
    process.join()
    if process.exitcode:
        raise RuntimeError(
            f"interruption: expected the run to end by itself, got exit code {process.exitcode}."
        )
    return time.monotonic() - began


def interrupted(run: Run, folder: Path, moments: Sequence[float]) -> list[Kill]:
    """Kill a process some seconds after it has written a checkpoint, again and again; then let one end.

    The first is killed after those seconds wherever it stands.
    """
    kills, checkpoint = [], folder / CHECKPOINT
    for number, moment in enumerate(moments):
        process = _started(run, folder, wait=number > 0)
        process.join(moment)
        process.kill()
        process.join()
        log = folder / LOG
        rows = len(log.read_text().splitlines()) - 1 if log.exists() else 0
        killed = process.exitcode == -signal.SIGKILL
        kills.append(Kill(number, round(moment, 3), checkpoint.exists(), rows, killed))
    whole(run, folder)
    return kills


def _written(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


def curve(folder: Path) -> list[dict[str, str]]:
    """Rows of log.csv without the time."""
    with (folder / LOG).open(newline="") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


def same(first: Path, second: Path) -> dict[str, bool]:
    """Whether two runs left the same curve and the same weights."""
    weights = [(folder / WEIGHTS).read_bytes() for folder in (first, second)]
    return {"same curve": curve(first) == curve(second), "same weights": weights[0] == weights[1]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the table, write ``DIR/trials.csv`` and ``DIR/summary.csv``; 1 if the runs differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.interruption", description=__doc__)
    parser.add_argument("--kills", type=int, default=10, help="default: 10")
    parser.add_argument("--preset", default="ci", help="what is trained; default: ci")
    parser.add_argument("--steps", type=int, default=150, help="length of the run; default: 150")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/interruption/out"), metavar="DIR")
    options = parser.parse_args(arguments)
    preset = replace(read_preset(options.preset), steps=options.steps, checkpoint_minutes=0.002)
    runs: dict[str, Run] = {
        f"pretraining, {options.preset}, {options.steps} steps": partial(pretrain, preset),
        f"fine-tuning fim-ode-neural, {_STEPS} steps": partial(
            finetuned, "fim-ode-neural", {"steps": _STEPS}
        ),
        "fine-tuning fim-ode": partial(finetuned, "fim-ode", {}),
    }
    trials: list[dict[str, object]] = []
    lines: list[dict[str, object]] = []
    for name, run in runs.items():
        with tempfile.TemporaryDirectory() as scratch:
            left_alone, killed = Path(scratch) / "whole", Path(scratch) / "killed"
            whole(run, left_alone)  # makes the pools of pretraining
            seconds = whole(run, Path(scratch) / "timed")
            draw = random.Random(options.seed)
            # so that the kills are spread over the run
            moments = [draw.uniform(0.0, 1.5 / options.kills) * seconds for _ in range(options.kills)]
            kills = interrupted(run, killed, moments)
            verdict = same(left_alone, killed)
        trials += [{"run": name, **asdict(kill)} for kill in kills]
        count = sum(kill.killed for kill in kills)
        commit = source_commit(Path(__file__).parent)
        lines.append({"run": name, "kills": count, "seed": options.seed, **verdict, "commit": commit})
    options.out.mkdir(parents=True, exist_ok=True)
    for table, found in (("trials", trials), ("summary", lines)):
        with (options.out / f"{table}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(found[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(found)
    print(align([list(lines[0]), *([str(value) for value in line.values()] for line in lines)]))
    return 0 if all(line[key] for line in lines for key in verdict) else 1


if __name__ == "__main__":
    sys.exit(main())
