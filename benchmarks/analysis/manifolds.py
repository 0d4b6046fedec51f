"""Manifolds of saddles: against closed forms and energies, and separatrices against where solutions end."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from benchmarks.parts import Figure, Part, best_seconds
from fim_dynsys import CallableField, systems
from fim_dynsys.analyze import manifolds
from fim_dynsys.fields.base import VectorField

BOX = [(-1, 1), (-1, 1)]
SEPARATRICES = ("competition", "toggle_switch", "double_well")
OFFSETS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)  # in length scales
POINTS = 12


def tasks() -> dict[str, tuple]:
    """Closed forms of two powers, the pendulum's connections, and bistable systems."""
    return {
        **{f"y = x^{p}/{p + 1}": ("power", p) for p in (2, 3, 4)},
        "pendulum": ("pendulum",),
        **{f"separatrix: {name}": ("separatrix", name) for name in SEPARATRICES},
    }


def measure(kind: str, *arguments: Any) -> dict[str, Any]:
    """Return error, size and CPU seconds of one task."""
    return {
        "kind": kind,
        **{"power": power, "pendulum": pendulum, "separatrix": separatrix}[kind](*arguments),
    }


def power(p: int) -> dict[str, Any]:
    """x' = x, y' = -y + x^p: unstable manifold y = x^p / (p + 1), stable manifold x = 0."""
    field = CallableField(lambda x: np.stack([x[:, 0], x[:, 0] ** p - x[:, 1]], axis=1), 2)
    found = manifolds(field, BOX)
    error = max(
        float(np.abs(x if branch.stable else y - x**p / (p + 1)).max())
        for branch in found.branches
        for x, y in (branch.path.T,)
    )
    return {"error": error, "branches": len(found), "seconds": best_seconds(lambda: manifolds(field, BOX))}


def pendulum() -> dict[str, Any]:
    """The saddles' connections have the saddles' energy."""
    field = systems.get("pendulum").field()
    found = manifolds(field)
    off = [np.abs(b.path[:, 1] ** 2 / 2 - np.cos(b.path[:, 0]) - 1).max() for b in found.branches]
    return {
        "error": float(max(off)),
        "branches": len(found),
        "seconds": best_seconds(lambda: manifolds(field)),
    }


def separatrix(name: str) -> dict[str, Any]:
    """Least distance on both sides of the separatrix at which solutions by LSODA end in different sinks."""
    field = systems.get(name).field()
    found = manifolds(field)
    sinks = found.fixed_points.x[found.fixed_points.eigenvalues.real.max(axis=1) < 0]
    worst = 0.0
    for branch in found.separatrices:
        inside = np.flatnonzero(field.region.contains(branch.path[:-1]))[5:]
        for i in inside[:: max(1, len(inside) // POINTS)]:
            worst = max(worst, _resolution(field, branch.path[i], branch.path[i + 1], sinks))
    return {
        "error": worst,
        "branches": len(found),
        "seconds": best_seconds(lambda: manifolds(field)),
    }


def _resolution(field: VectorField, x: np.ndarray, onwards: np.ndarray, sinks: np.ndarray) -> float:
    length = field.scales.length
    along = (onwards - x) / length
    across = np.array([-along[1], along[0]]) / np.linalg.norm(along) * length
    told = np.inf
    for offset in OFFSETS:
        ends = [_sink(field, x + sign * offset * across, sinks) for sign in (1, -1)]
        if ends[0] == ends[1]:
            break
        told = offset
    return told


def _sink(field: VectorField, x: np.ndarray, sinks: np.ndarray) -> int:
    options = {"method": "LSODA", "rtol": 1e-11, "atol": 1e-13}
    end = solve_ivp(field.ivp, (0, 600 * field.scales.time), x, **options).y[:, -1]
    return int(np.argmin(np.linalg.norm((sinks - end) / field.scales.length, axis=1)))


def figures(rows: Sequence[dict[str, Any]]) -> list[Figure]:
    """Errors by kind of truth, and seconds."""
    out = []
    for kind, text, goal in (
        ("power", "closed forms, largest error", "<= 1e-08"),
        ("pendulum", "pendulum, largest error of the energy", "<= 1e-07"),
        ("separatrix", "separatrices, distance at which sides are distinguished", "<= 1e-06"),
    ):
        own = [row for row in rows if row["kind"] == kind]
        if own:
            out.append(Figure(text, max(row["error"] for row in own), "", goal, len(own)))
    out.append(Figure("slowest call", max(row["seconds"] for row in rows), "s", "", len(rows)))
    return out


PART = Part("manifolds", "1", tasks, measure, figures)
