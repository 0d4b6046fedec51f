"""Side-by-side timing: interleaved repeats, CPU seconds of this process, medians."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Measurement:
    """One figure of the table.

    Attributes
    ----------
    quantity : str
        What was measured.
    value : float
        In `unit`.
    unit : str
        ``"ms"`` of CPU, ``"x"`` for a ratio of two figures of the same run, or another unit.
    repeats : int
        Number of timings behind the median.
    note : str
        Conditions.
    """

    quantity: str
    value: float
    unit: str
    repeats: int
    note: str = ""


def interleaved(functions: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median CPU seconds of each function over rounds in which each runs once, in turn.

    Load of the machine and its clock drift then hit all alike. A first round is not counted.
    """
    samples: dict[str, list[float]] = {name: [] for name in functions}
    for round_number in range(repeats + 1):
        for name, function in functions.items():
            start = time.process_time()
            function()
            seconds = time.process_time() - start
            if round_number:
                samples[name].append(seconds)
    return {name: statistics.median(values) for name, values in samples.items()}
