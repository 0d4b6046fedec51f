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


SHORTEST_SAMPLE = 0.05  # CPU seconds; quicker functions are called several times in a row


def interleaved(functions: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median CPU seconds of one call of each function, over rounds in which each takes its turn.

    Load of the machine and its clock drift then hit all alike. A turn is as many calls in a row as last
    `SHORTEST_SAMPLE` together (as `timeit` does), so that what ran before does not decide what is in the
    caches. A first round is not counted.
    """
    calls = {name: _calls(function) for name, function in functions.items()}
    samples: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            samples[name].append(_turn(function, calls[name]))
    return {name: statistics.median(values) for name, values in samples.items()}


def _calls(function: Callable[[], object]) -> int:
    function()
    return max(1, round(SHORTEST_SAMPLE / max(_turn(function, 1), 1e-6)))


def _turn(function: Callable[[], object], calls: int) -> float:
    start = time.process_time()
    for _ in range(calls):
        function()
    return (time.process_time() - start) / calls
