"""Thousands of fits in one process: what it occupies does not grow."""

import gc
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.parts import Figure, Part
from benchmarks.reliability.children import Ending, answers
from benchmarks.reliability.subjects import make, spiral

FITS = {"fim-ode": 620, "sindy": 750, "sindy-strong": 600, "auto": 30}
CONTEXTS = 20  # different ones, in turn
WARM_UP = CONTEXTS
SECONDS = 3600.0


def tasks() -> dict[str, tuple]:
    """Return one task for each model."""
    return {model: (model, fits) for model, fits in FITS.items()}


def measure(model: str, fits: int, warm_up: int = WARM_UP) -> dict[str, Any]:
    """Return the growth of the resident memory, in MB, of a process of its own after a warm-up."""
    (answer,) = answers(_grow, [(model, fits, warm_up)], SECONDS)
    if isinstance(answer, Ending):
        return {"model": model, "fits": 0, "megabytes": float("inf"), "seconds": 0.0, "ending": answer.reason}
    megabytes, seconds = answer
    return {"model": model, "fits": fits, "megabytes": megabytes, "seconds": seconds, "ending": ""}


def _grow(item: tuple[str, int, int]) -> tuple[float, float]:
    name, fits, warm_up = item
    contexts = [spiral(number, 40 + 2 * number) for number in range(CONTEXTS)]

    def fit(number: int) -> None:
        make(name).fit(contexts[number % CONTEXTS])

    start = time.process_time()
    return growth(fit, fits, warm_up), time.process_time() - start


def growth(call: Callable[[int], object], calls: int, warm_up: int) -> float:
    """Return by how many MB the process has grown over calls with 0, 1, ..., after those of the warm-up."""
    for number in range(warm_up):
        call(number)
    gc.collect()
    before = _resident()
    for number in range(calls):
        call(number)
    gc.collect()
    return (_resident() - before) / 1e6


def _resident() -> int:
    """Bytes of this process in memory, as Linux counts them."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def figures(rows: Sequence[dict[str, Any]]) -> list[Figure]:
    """Return the fits and the growth of all models together, and of each."""
    fits = sum(row["fits"] for row in rows)
    grown = sum(max(row["megabytes"], 0.0) for row in rows)
    return [
        Figure("fits", fits, goal=">= 2000", n=len(rows)),
        Figure("growth, all models together", grown, "MB", "< 20", fits),
        *(Figure(f"growth: {row['model']}", row["megabytes"], "MB", n=row["fits"]) for row in rows),
    ]


PART = Part("memory", "1", tasks, measure, figures)
