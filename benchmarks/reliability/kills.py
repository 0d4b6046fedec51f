"""Processes killed (SIGKILL) at random moments while they save: the old or the new content is there."""

import tempfile
from collections.abc import Sequence
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.parts import Figure, Part
from benchmarks.reliability.children import started
from benchmarks.reliability.judging import plain
from benchmarks.reliability.writers import WRITERS, Writer, content

KILLS = 25  # a task
SEEDS = 2
LONGEST = 0.25  # seconds from the first save to the kill
WARM = ["benchmarks.reliability.writers", "fim_dynsys.models.sindy_strong", "pysindy", "training.checkpoint"]


def tasks() -> dict[str, tuple]:
    """Return one task for each writer and seed."""
    return {f"{name} {seed}": (name, seed) for seed in range(SEEDS) for name in WRITERS}


def measure(name: str, seed: int, kills: int = KILLS) -> dict[str, Any]:
    """Kill a process that saves the two contents in turn, again and again over the same path."""
    return {"writer": name, **kill(WRITERS[name], seed, kills, name)}


def kill(writer: Writer, seed: int, kills: int, name: str | None = None) -> dict[str, Any]:
    """Return how many kills left something whole, and the first failure in words.

    Parameters
    ----------
    writer : Writer
        What saves; importable by its name in `WRITERS`, or picklable.
    seed : int
        Of the moments.
    kills : int
        How many.
    name : str, optional
        In `WRITERS`.
    """
    rng = np.random.default_rng([41, seed])
    context = started("forkserver")
    context.set_forkserver_preload(WARM)
    whole, unfinished, first = 0, 0, ""
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(kills):
            folder = Path(scratch) / str(number)
            folder.mkdir()
            path = folder / writer.name
            writer.write(content(writer, 0), path)
            before = set(_files(folder))
            saving = context.Event()
            process = context.Process(target=_save_forever, args=(name or writer, path, saving))
            process.start()
            if not saving.wait(120.0):
                raise RuntimeError(f"kills: expected the child to save to {path.name}, got none in 120 s.")
            process.join(float(rng.uniform(0.0, LONGEST)))
            process.kill()
            process.join()
            unfinished += len(set(_files(folder)) - before) > 0
            try:
                writer.whole(path)
            except Exception as error:  # whatever a damaged file raises, it is lost
                first = first or plain(f"{seed}.{number} {type(error).__name__}: {error}")
            else:
                whole += 1
    return {"kills": kills, "whole": whole, "unfinished": unfinished, "first": first}


def _files(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]


def _save_forever(writer: str | Writer, path: Path, saving: Event) -> None:
    writer = WRITERS[writer] if isinstance(writer, str) else writer
    contents = [content(writer, number) for number in (1, 0)]
    saving.set()
    while True:
        for each in contents:
            writer.write(each, path)


def figures(rows: Sequence[dict[str, Any]]) -> list[Figure]:
    """Return the kills, and by writer those that left nothing whole."""
    kills = sum(row["kills"] for row in rows)
    unfinished = sum(row["unfinished"] for row in rows)
    note = f"{unfinished} left something unfinished beside the file"
    result = [Figure("kills while saving", kills, goal=">= 200", n=len(rows), note=note)]
    for name in WRITERS:
        own = [row for row in rows if row["writer"] == name]
        if own:
            n = sum(row["kills"] for row in own)
            lost = n - sum(row["whole"] for row in own)
            first = next((row["first"] for row in own if row["first"]), "")
            result.append(Figure(f"{name}: neither old nor new whole", lost, goal="== 0", n=n, note=first))
    return result


PART = Part("kills", "1", tasks, measure, figures)
