"""``python -m benchmarks.interruption``: does a run that is killed (SIGKILL) at random moments end the same?

A short run is made twice in processes of their own: once whole, once killed several times at random moments
and started again. Compared are the curve (every column of log.csv but the time) and the exported weights,
byte by byte.
"""

import argparse
import csv
import multiprocessing
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.report import align, source_commit
from training.preset import Preset, read_preset
from training.pretrain import pretrain


@dataclass(frozen=True)
class Kill:
    """One process: seconds from its first checkpoint to its end, and what the next one goes on from."""

    number: int
    seconds: float
    checkpoint_found: bool
    rows_logged: int
    killed: bool


def _spawn(preset: Preset, folder: Path) -> multiprocessing.Process:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["training.pretrain"])
    process = context.Process(target=pretrain, args=(preset, folder))
    process.start()
    return process


def whole(preset: Preset, folder: Path) -> float:
    """Run to the end; seconds it took."""
    began = time.monotonic()
    process = _spawn(preset, folder)
    process.join()
    if process.exitcode:
        raise RuntimeError(
            f"interruption: expected the run to end by itself, got exit code {process.exitcode}."
        )
    return time.monotonic() - began


def interrupted(preset: Preset, folder: Path, moments: Sequence[float]) -> list[Kill]:
    """Kill a process some seconds after it has written a checkpoint, again and again; then let one end.

    The first is killed after those seconds wherever it stands.
    """
    kills, checkpoint = [], folder / "checkpoint.safetensors"
    for number, moment in enumerate(moments):
        before = _written(checkpoint)
        process = _spawn(preset, folder)
        while number and process.is_alive() and _written(checkpoint) == before:
            process.join(0.01)
        process.join(moment)
        process.kill()
        process.join()
        log = folder / "log.csv"
        rows = len(log.read_text().splitlines()) - 1 if log.exists() else 0
        killed = process.exitcode == -signal.SIGKILL
        kills.append(Kill(number, round(moment, 3), checkpoint.exists(), rows, killed))
    whole(preset, folder)
    return kills


def _written(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


def curve(folder: Path) -> list[dict[str, str]]:
    """Rows of log.csv without the time."""
    with (folder / "log.csv").open(newline="") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


def same(first: Path, second: Path) -> dict[str, bool]:
    """Whether two runs left the same curve and the same weights."""
    weights = [(folder / "weights.safetensors").read_bytes() for folder in (first, second)]
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
    with tempfile.TemporaryDirectory() as scratch:
        left_alone, killed = Path(scratch) / "whole", Path(scratch) / "killed"
        whole(preset, left_alone)  # makes the pools
        seconds = whole(preset, Path(scratch) / "timed")
        draw = random.Random(options.seed)
        # so that the kills are spread over the run
        moments = [draw.uniform(0.0, 1.5 / options.kills) * seconds for _ in range(options.kills)]
        kills = interrupted(preset, killed, moments)
        verdict = same(left_alone, killed)
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "trials.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(asdict(kills[0])), lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(asdict, kills))
    summary = {
        "preset": options.preset,
        "steps": options.steps,
        "kills": sum(kill.killed for kill in kills),
        "seed": options.seed,
        **verdict,
        "commit": source_commit(Path(__file__).parent),
    }
    with (options.out / "summary.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(summary), lineterminator="\n")
        writer.writeheader()
        writer.writerow(summary)
    print(align([list(summary), [str(value) for value in summary.values()]]))
    return 0 if all(verdict.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
