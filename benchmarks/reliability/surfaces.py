"""Hostile arguments to all that is called besides a plain fit: results or our own refusals come out."""

import contextlib
import os
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.parts import Figure, Part
from benchmarks.reliability.children import answers
from benchmarks.reliability.fuzz import BAD, SECONDS, counted, note, printed
from benchmarks.reliability.judging import judge, plain
from benchmarks.reliability.questions import FITTED, REFUSALS, SURFACES, fitted

WRONG = (*BAD, "unexplained", "inside")
COUNTS = ("inputs", "answered", "refused", *WRONG)
# Inputs of each surface: many where an answer costs little.
INPUTS = {
    "inputs": 400,
    "forcing": 100,
    "knowledge": 200,
    "sigma and order": 250,
    "parameters": 100,
    "expressions": 300,
    "compare": 60,
    "fit_many": 150,
    "forecast": 80,
    "simulate": 250,
    "score": 250,
    "alternatives": 100,
    "finetune": 100,
    "explore": 50,
    "continuation": 250,
    "analyses": 250,
    "evidence": 60,
    "figures": 100,
    "command line": 250,
}


def tasks() -> dict[str, tuple]:
    """Return one task for each surface."""
    return {name: (name, 0, inputs) for name, inputs in INPUTS.items()}


def measure(surface: str, seed: int, inputs: int) -> dict[str, Any]:
    """Return counts over the questions of one seed, and the first bad one of each kind in words."""
    items = [(surface, seed, number) for number in range(inputs)]
    return {"surface": surface, **counted(seed, answers(ask_one, items, SECONDS, prepare), COUNTS, WRONG)}


def prepare() -> None:
    """Fit once, so that the time of compiling is no input's, and say nothing of it."""
    os.environ["TQDM_DISABLE"] = "1"
    for name in FITTED:
        fitted(name)


def ask_one(item: tuple[str, int, int]) -> dict[str, str]:
    """Return what came of one question, by the names of `COUNTS`."""
    surface, seed, number = item
    about, call = SURFACES[surface](np.random.default_rng([71, seed, number]))
    outcome: dict[str, str] = {}
    with printed() as said, tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        verdict = judge(call, REFUSALS)
    note(outcome, "", verdict)
    if said:
        outcome.setdefault("leaked", plain(f"printed: {said[0]}"))
    outcome = {name: plain(f"{text} [{about}]") for name, text in outcome.items()}
    ended = {} if verdict.foreign else {"refused" if verdict.refusal else "answered": ""}
    return outcome | ended


def figures(rows: Sequence[dict[str, Any]]) -> list[Figure]:
    """Return counts of all that must not happen, and of what each surface was asked."""
    total = {name: sum(row[name] for row in rows) for name in COUNTS}

    def example(name: str) -> str:
        return next((f"{row['surface']} {row[f'first {name}']}" for row in rows if row[f"first {name}"]), "")

    n = total["inputs"]
    said = {
        "foreign": "foreign errors",
        "leaked": "leaked warnings",
        "nonsense": "answers that are none",
        "hung": f"inputs over {SECONDS:g} s",
        "died": "deaths of the process",
        "unexplained": "refusals that do not say what was expected",
        "inside": "warnings that point into the package",
    }
    share = f"{total['answered']} answered, {total['refused']} refused"
    return [
        Figure("inputs", n, goal=">= 3000", n=len(rows), note=share),
        *(Figure(text, total[name], goal="== 0", n=n, note=example(name)) for name, text in said.items()),
        *(Figure(f"inputs of {row['surface']}", row["inputs"]) for row in rows),
    ]


PART = Part("surfaces", "1", tasks, measure, figures)
