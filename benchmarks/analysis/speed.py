"""Speed of searches for fixed points beside a loop of scipy's, and of curves over two parameters."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import root

from benchmarks.analysis.reference import rates_of, systems
from benchmarks.parts import Figure, Part, best_seconds
from fim_dynsys import CallableField, FieldPlane
from fim_dynsys.analyze import bifurcation_curves, fixed_points

_REPEATS = 3
_SAME = 1e-6  # distance of equal roots
_CURVES = ("bazykin", "lorenz-84")

# Rates for scipy's loop are written for one state, as one writes them for it.
POINTS: dict[str, tuple[Callable, Callable, list]] = {
    "competition": (
        lambda s: np.stack(
            [s[:, 0] * (3 - s[:, 0] - 2 * s[:, 1]), s[:, 1] * (2 - s[:, 0] - s[:, 1])], axis=1
        ),
        lambda s: [s[0] * (3 - s[0] - 2 * s[1]), s[1] * (2 - s[0] - s[1])],
        [(-1, 4), (-1, 4)],
    ),
    "toggle": (
        lambda s: np.stack([4 / (1 + s[:, 1] ** 2) - s[:, 0], 4 / (1 + s[:, 0] ** 2) - s[:, 1]], axis=1),
        lambda s: [4 / (1 + s[1] ** 2) - s[0], 4 / (1 + s[0] ** 2) - s[1]],
        [(0, 5), (0, 5)],
    ),
    "lorenz": (
        lambda s: np.stack(
            [
                10 * (s[:, 1] - s[:, 0]),
                s[:, 0] * (28 - s[:, 2]) - s[:, 1],
                s[:, 0] * s[:, 1] - 8 / 3 * s[:, 2],
            ],
            axis=1,
        ),
        lambda s: [10 * (s[1] - s[0]), s[0] * (28 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]],
        [(-20, 20), (-25, 25), (-5, 50)],
    ),
}


def tasks() -> dict[str, tuple]:
    """Searches for fixed points, and curves of equilibria and of cycles."""
    return {
        **{f"points: {name}": ("points", name) for name in POINTS},
        **{f"curves: {name}": ("curves", name) for name in _CURVES},
        "curves: bautin-two, cycles": ("curves", "bautin-two", True),
    }


def measure(kind: str, name: str, cycles: bool = False) -> dict[str, Any]:
    """Return the seconds of one task and what they are compared with."""
    return _points(name) if kind == "points" else _curves(name, cycles)


def _points(name: str) -> dict[str, Any]:
    batch, single, region = POINTS[name]
    field = CallableField(batch, len(region))
    found = fixed_points(field, region)
    starts = found.region.sobol(found.effort.seeds)

    def loop(function: Callable) -> list[np.ndarray]:
        kept: list[np.ndarray] = []
        for start in starts:
            outcome = root(function, start)
            if outcome.success and not any(np.abs(outcome.x - x).max() < _SAME for x in kept):
                kept.append(outcome.x)
        return kept

    row = {"found": int(found.is_root.sum()), "found_by_loop": len(loop(single)), "seeds": len(starts)}
    row["seconds"] = best_seconds(lambda: fixed_points(field, region), _REPEATS)
    row["seconds_loop"] = best_seconds(lambda: loop(single), _REPEATS)
    return row | {"seconds_loop_field": best_seconds(lambda: loop(field), _REPEATS)}


def _curves(name: str, cycles: bool) -> dict[str, Any]:
    entry = systems()[name]
    low, high, q0 = entry["second"]
    plane = FieldPlane.from_callable(rates_of(entry), len(entry["rates"]))

    def run() -> Any:
        return bifurcation_curves(
            plane, entry["start"], entry["range"], (low, high), q0=q0, cycles=cycles, max_points=200
        )

    return {"points": sum(map(len, run().curves)), "seconds": best_seconds(run, 1), "of_cycles": int(cycles)}


def figures(rows: Sequence[dict[str, Any]]) -> list[Figure]:
    """Ratios to the loop, and seconds of 200 points."""
    points = [row for row in rows if "seconds_loop" in row]
    out = []
    for name, what in (("seconds_loop_field", "of the field"), ("seconds_loop", "of plain numbers")):
        if points:
            least = min(points, key=lambda row: row[name] / row["seconds"])
            note = f"{least['task']}; scipy.optimize.root from as many starts, index check ours alone"
            quantity = f"fixed points: loop {what} / search, least"
            ratio = least[name] / least["seconds"]
            out.append(Figure(quantity, ratio, "x", ">= 30", len(points), note))
    for cycles, what, goal in ((0, "equilibria", "<= 5"), (1, "equilibria and cycles", "")):
        some = [row for row in rows if row.get("of_cycles") == cycles]
        if some:
            slowest = max(some, key=lambda row: row["seconds"] / row["points"])
            seconds = 200.0 * slowest["seconds"] / slowest["points"]
            name = f"curves of {what}: 200 points, slowest"
            out.append(Figure(name, seconds, "s", goal, len(some), slowest["task"]))
    return out


PART = Part("speed", "1", tasks, measure, figures)
