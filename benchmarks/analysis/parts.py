"""What a part of the analysis benchmark consists of: named tasks, and figures made of their outcomes."""

import operator
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_COMPARE = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "==": operator.eq}


@dataclass(frozen=True)
class Figure:
    """One figure of the summary.

    Attributes
    ----------
    quantity : str
        What was measured.
    value : float
        In `unit`.
    unit : str
        ``"s"`` for CPU seconds, ``"x"`` for ratios, empty for counts and shares.
    goal : str
        What is aimed at, such as ``"<= 0.002"``; empty where the figure is for information.
    n : int
        Number of cases behind it.
    note : str
        Conditions, exceptions.
    """

    quantity: str
    value: float
    unit: str = ""
    goal: str = ""
    n: int = 1
    note: str = ""

    @property
    def reached(self) -> str:
        """``"yes"`` or ``"no"``; empty without a goal."""
        if not self.goal:
            return ""
        sign, bound = self.goal.split()
        return "yes" if _COMPARE[sign](self.value, float(bound)) else "no"


@dataclass(frozen=True)
class PartTask:
    """Names one task of a part in the cache."""

    part: str
    task: str


@dataclass(frozen=True)
class Part:
    """One part of the benchmark, the constant ``PART`` of its file.

    Attributes
    ----------
    name : str
        As given to ``--only``.
    version : str
        Raise it by hand when outcomes change; outcomes of other versions are measured anew.
    tasks : callable
        ``tasks()`` gives, by task name, the arguments of `measure`. Cheap: all of them are listed each time.
    measure : callable
        ``measure(*arguments)`` gives a flat dict of numbers and text, the task's row in ``<part>.csv``. It
        must be importable by its name, and an exception it raises stops the run.
    figures : callable
        ``figures(rows)`` gives the figures; each row is a measured dict with ``task`` added.
    """

    name: str
    version: str
    tasks: Callable[[], dict[str, tuple]]
    measure: Callable[..., dict[str, Any]]
    figures: Callable[[Sequence[dict[str, Any]]], list[Figure]]


def best_seconds(function: Callable[[], object], repeats: int = 3) -> float:
    """Return the CPU seconds of the quickest of some calls: load of the machine only ever adds."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)
    return min(seconds)
