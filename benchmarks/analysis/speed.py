"""Speed of searches for fixed points beside loops of scipy's, and of curves over two parameters."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import root

from benchmarks.analysis.reference import rates_of, systems
from benchmarks.development import problems as development
from benchmarks.harness.trials import list_trials, observe
from benchmarks.parts import Figure, Part, best_seconds
from fim_dynsys import CallableField, FieldPlane, load
from fim_dynsys.analyze import bifurcation_curves, fixed_points
from fim_dynsys.analyze.results import WIDENED

_REPEATS = 3
_SAME = 1e-6  # distance of equal roots
_CURVES = ("bazykin", "lorenz-84")
_DRAWS = 64
_MODEL = "fim-ode"
_SETTINGS = ((0.03, 0.0),)

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
    """Searches for fixed points, alone and with their errors, and curves of equilibria and of cycles."""
    inferred = [problem.system for problem in development.problems() if problem.dim in (2, 3)]
    return {
        **{f"points: {name}": ("points", name) for name in POINTS},
        **{f"draws: {name}": ("draws", name) for name in inferred},
        **{f"curves: {name}": ("curves", name) for name in _CURVES},
        "curves: bautin-two, cycles": ("curves", "bautin-two", True),
    }


def measure(kind: str, name: str, cycles: bool = False) -> dict[str, Any]:
    """Return the seconds of one task and what they are compared with."""
    return {"points": _points, "draws": _draws}[kind](name) if kind != "curves" else _curves(name, cycles)


def _loop(function: Callable, starts: np.ndarray) -> list[np.ndarray]:
    """Different roots that scipy finds from some starts."""
    kept: list[np.ndarray] = []
    for start in starts:
        outcome = root(function, start)
        if outcome.success and not any(np.abs(outcome.x - x).max() < _SAME for x in kept):
            kept.append(outcome.x)
    return kept


def _points(name: str) -> dict[str, Any]:
    """One field's fixed points; scipy is given as many starts, and makes no check that none was missed."""
    batch, single, region = POINTS[name]
    field = CallableField(batch, len(region))
    found = fixed_points(field, region)
    starts = found.region.sobol(found.effort.seeds)
    row = {
        "found": int(found.is_root.sum()),
        "found_by_loop": len(_loop(single, starts)),
        "seeds": len(starts),
    }
    row["seconds"] = best_seconds(lambda: fixed_points(field, region), _REPEATS)
    row["seconds_loop"] = best_seconds(lambda: _loop(single, starts), _REPEATS)
    return row | {"seconds_loop_field": best_seconds(lambda: _loop(field, starts), _REPEATS)}


def _draws(name: str) -> dict[str, Any]:
    """An inferred field's fixed points with their errors, from as many drawn fields.

    Beside it scipy searches the field and each draw: from as many starts as the search had, and, which
    finds what the search found alone, each draw from the points of the field.
    """
    problem = next(problem for problem in development.problems() if problem.system == name)
    trial = list_trials([problem], _SETTINGS, ("paper",), (0,))[0]
    context = observe(problem, trial)
    model = load(_MODEL)
    field, region = model.infer(context), context.box().widened(WIDENED)
    found = fixed_points(field, region, n_draws=_DRAWS)
    starts, known = region.sobol(found.effort.seeds), found.x[found.is_root]
    fields = [field, *(field.draws(_DRAWS, 0) or ())]

    def followed() -> None:
        _loop(field, starts)
        for drawn in fields[1:]:
            _loop(drawn, known)

    row = {
        "model": _MODEL,
        "version": model.version,
        "found": len(known),
        "seeds": len(starts),
        "fields": len(fields),
    }
    row["seconds"] = best_seconds(lambda: fixed_points(field, region, n_draws=_DRAWS), _REPEATS)
    row["seconds_searched"] = best_seconds(lambda: [_loop(each, starts) for each in fields], 1)
    return row | {"seconds_followed": best_seconds(followed, _REPEATS)}


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
    """Ratios to the loops, and seconds of 200 points."""
    points = [row for row in rows if "seconds_loop" in row]
    out = []
    for name, what in (("seconds_loop_field", "of the field"), ("seconds_loop", "of plain numbers")):
        if points:
            least = min(points, key=lambda row: row[name] / row["seconds"])
            note = f"{least['task']}; scipy.optimize.root from as many starts, index check ours alone"
            quantity = f"fixed points: loop {what} / search, least"
            ratio = least[name] / least["seconds"]
            out.append(Figure(quantity, ratio, "x", ">= 30", len(points), note))
    drawn = [row for row in rows if "seconds_followed" in row]
    for name, what, goal in (
        ("seconds_searched", "searching field and draws", ">= 30"),
        ("seconds_followed", "searching the field, following into draws", ""),
    ):
        ratios = [row[name] / row["seconds"] for row in drawn]
        if ratios:
            note = f"{_MODEL}, planar and spatial development systems, noise 0.03, {_DRAWS} draws"
            quantity = f"fixed points with errors: loop {what} / call"
            out.append(Figure(f"{quantity}, least", min(ratios), "x", goal, len(drawn), note))
            out.append(Figure(f"{quantity}, median", float(np.median(ratios)), "x", "", len(drawn)))
    for cycles, what, goal in ((0, "equilibria", "<= 5"), (1, "equilibria and cycles", "")):
        some = [row for row in rows if row.get("of_cycles") == cycles]
        if some:
            slowest = max(some, key=lambda row: row["seconds"] / row["points"])
            seconds = 200.0 * slowest["seconds"] / slowest["points"]
            name = f"curves of {what}: 200 points, slowest"
            out.append(Figure(name, seconds, "s", goal, len(some), slowest["task"]))
    return out


PART = Part("speed", "2", tasks, measure, figures)
