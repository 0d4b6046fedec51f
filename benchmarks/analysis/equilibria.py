"""Fixed points against known ones: textbook systems, random cubics; CPU seconds on inferred fields."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.analysis.cubics import BOX, lines_cubic, random_cubic
from benchmarks.development.problems import problems
from benchmarks.harness.rows import ModelRow, View
from benchmarks.harness.trials import Trial, observe
from benchmarks.parts import Figure, Part, best_seconds
from fim_dynsys import systems
from fim_dynsys.analyze import IndexCheck, fixed_points

# A zero counts as found within this distance; what Newton's method leaves is far below.
SAME = 1e-6
BATCH = 50
BATCHES = {"random": 20, "lines": 4}
MODELS = ("fim-ode", "sindy", "sindy-strong")
NOISE = 0.03
COUNTS = ("fields", "unsolved", "true", "found", "extra", "missed_balanced", "missed_flagged", "not_run")


def tasks() -> dict[str, tuple]:
    """Textbook systems, batches of cubics, and planar development systems by model."""
    known = [system.name for system in systems.oracle() if "equilibria" in system.truths]
    planar = [system.name for system in systems.development() if system.dim == 2]
    return {
        **{f"closed form: {name}": ("closed form", name) for name in known},
        **{
            f"cubics, {kind}: {first} to {first + BATCH - 1}": (kind, first)
            for kind, batches in BATCHES.items()
            for first in range(0, BATCH * batches, BATCH)
        },
        **{f"seconds: {model} on {name}": ("seconds", model, name) for model in MODELS for name in planar},
    }


def measure(kind: str, *arguments: Any) -> dict[str, Any]:
    """Return the counts, errors or seconds of one task."""
    if kind == "closed form":
        return {"kind": kind, **textbook(*arguments)}
    if kind == "seconds":
        return {"kind": kind, **inferred(*arguments)}
    return {"kind": kind, **cubics(kind, *arguments)}


def textbook(name: str) -> dict[str, Any]:
    """Return how many of a system's equilibria in its region the default call finds, and how many else."""
    system = systems.get(name)
    true = system.truth("equilibria").real
    field = system.field()
    result = fixed_points(field)
    counts = compare(result.x, true[system.region.contains(true)], true)
    error = max((np.abs(true - x).max(axis=1).min() for x in result.x), default=0.0)
    seconds = best_seconds(lambda: fixed_points(field))
    return {**counts, "error": float(error), "check": str(result.index_check), "seconds": seconds}


def cubics(kind: str, first: int) -> dict[str, Any]:
    """Return sums over one batch of fields; ``missed_balanced`` and ``missed_flagged`` count fields."""
    total = dict.fromkeys(COUNTS, 0)
    seconds, failing = 0.0, []
    for number in range(first, first + BATCH):
        cubic = random_cubic(number) if kind == "random" else lines_cubic(number)
        total["fields"] += 1
        if cubic is None:
            total["unsolved"] += 1
            continue
        start = time.process_time()
        result = fixed_points(cubic.field(), BOX)
        seconds += time.process_time() - start
        counts = compare(result.x[result.is_root], cubic.zeros[BOX.contains(cubic.zeros)], cubic.zeros)
        missed = counts["found"] < counts["true"]
        balanced = result.index_check is IndexCheck.BALANCED
        counts |= {"missed_balanced": missed and balanced, "missed_flagged": missed and not balanced}
        counts |= {"not_run": result.index_check is IndexCheck.NOT_RUN}
        for name, value in counts.items():
            total[name] += int(value)
        failing += [str(number)] if missed or counts["extra"] else []
    solved = max(1, total["fields"] - total["unsolved"])
    return {**total, "seconds": seconds / solved, "failing": " ".join(failing)}


def compare(x: np.ndarray, true: np.ndarray, anywhere: np.ndarray) -> dict[str, int]:
    """Count true zeros, those found, and points at which there is no true zero even outside the region."""
    found = [len(x) > 0 and np.abs(x - zero).max(axis=1).min() < SAME for zero in true]
    extra = [len(anywhere) == 0 or np.abs(anywhere - point).max(axis=1).min() >= SAME for point in x]
    return {"true": len(true), "found": int(sum(found)), "extra": int(sum(extra))}


def inferred(model: str, name: str) -> dict[str, Any]:
    """Return the CPU seconds of the default call on a field inferred from one noisy trajectory."""
    problem = next(p for p in problems() if p.system == name)
    context = observe(problem, Trial(name, 1, NOISE, 0.0, 0, "paper"))
    row = ModelRow.resolve(model)
    field = row.infer(View(context))
    result = fixed_points(field)
    return {
        "model": model,
        "version": row.version,
        "seconds": best_seconds(lambda: fixed_points(field)),
        "points": result.effort.points,
        "found": len(result),
        "check": str(result.index_check),
    }


def figures(rows: Sequence[dict[str, Any]]) -> list[Figure]:
    """Recall, false zeros, what the index check says of misses, and seconds."""
    out = _textbook_figures([row for row in rows if row["kind"] == "closed form"])
    for kind in BATCHES:
        out += _cubic_figures(f"cubics, {kind}", [row for row in rows if row["kind"] == kind])
    for model in MODELS:
        seconds = [row["seconds"] for row in rows if row["task"].startswith(f"seconds: {model} on ")]
        if seconds:
            n, note = len(seconds), f"planar development systems, noise {NOISE}"
            out += [
                Figure(f"seconds: {model}, slowest call", max(seconds), "s", "< 1", n, note),
                Figure(f"seconds: {model}, median", float(np.median(seconds)), "s", "", n, note),
            ]
    return out


def _textbook_figures(rows: Sequence[dict[str, Any]]) -> list[Figure]:
    if not rows:
        return []
    wrong = [row["task"] for row in rows if row["found"] < row["true"] or row["extra"]]
    n, right = len(rows), 1 - len(wrong) / len(rows)
    return [
        Figure("closed form: all found, none extra", right, "", ">= 1", n, " ".join(wrong)),
        Figure("closed form: largest error", max(row["error"] for row in rows), "", "<= 1e-08", n),
        Figure("closed form: slowest call", max(row["seconds"] for row in rows), "s", "", n),
    ]


def _cubic_figures(which: str, rows: Sequence[dict[str, Any]]) -> list[Figure]:
    if not rows:
        return []
    total = {name: sum(row[name] for row in rows) for name in COUNTS}
    n = total["fields"] - total["unsolved"]
    balanced = total["missed_balanced"] / n
    return [
        Figure(f"{which}: recall of zeros", total["found"] / total["true"], "", ">= 0.995", total["true"]),
        Figure(f"{which}: false zeros", total["extra"], "", "== 0", n),
        Figure(f"{which}: fields with a miss that the check flags", total["missed_flagged"], "", "", n),
        Figure(f"{which}: share of fields with a miss and a balanced check", balanced, "", "<= 0.002", n),
        Figure(f"{which}: fields without a check", total["not_run"], "", "", n),
        Figure(f"{which}: not solved exactly, left out", total["unsolved"], "", "", total["fields"]),
        Figure(f"{which}: mean call", float(np.mean([row["seconds"] for row in rows])), "s", "", n),
    ]


PART = Part("equilibria", "4", tasks, measure, figures)
