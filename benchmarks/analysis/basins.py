"""Basins: images against an exact boundary, images of inferred fields, and their cost against a loop."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from benchmarks.harness.rows import ModelRow, View
from benchmarks.parts import Figure, Part
from fim_dynsys import CallableField, simulate, systems
from fim_dynsys.analyze import BasinLabel, basins
from fim_dynsys.analyze.phase_space.basin import Basins
from fim_dynsys.corruption import add_noise
from fim_dynsys.fields.base import VectorField

RESOLUTION = 200
MODELS = ("fim-ode", "sindy-strong")
IMAGES = ("toggle_switch", "competition", "double_well", "van_der_pol")
TRAJECTORIES = 8
NOISE = 0.01
LOOP = 100  # grid points of the loop, spread evenly
# The loop is given the tolerance of the image, and stops at the first attractor like it.
RTOL = 1e-6
NEAR = 0.05


def tasks() -> dict[str, tuple]:
    """Exact boundaries, and images of inferred and of true fields beside a loop."""
    return {
        "exact: x = y^2": ("bent",),
        "exact: rings": ("rings",),
        **{f"image: {model} on {name}": ("image", model, name) for model in MODELS for name in IMAGES},
        **{f"image: truth on {name}": ("image", "truth", name) for name in (*IMAGES, "lorenz", "pendulum")},
    }


def measure(kind: str, *arguments: Any) -> dict[str, Any]:
    """Return error or agreement, shares and CPU seconds of one task."""
    return {"kind": kind, **{"bent": bent, "rings": rings, "image": image}[kind](*arguments)}


def bent() -> dict[str, Any]:
    """u' = u - u^3, v' = -v in x = u + v^2, y = v: boundary x = y^2."""

    def field(x: np.ndarray) -> np.ndarray:
        u = x[:, 0] - x[:, 1] ** 2
        return np.stack([u - u**3 - 2 * x[:, 1] ** 2, -x[:, 1]], axis=1)

    found, seconds = _timed(CallableField(field, 2), [(-2, 2), (-1, 1)])
    right = int(np.argmax([attractor.points[0, 0] for attractor in found.attractors]))
    x, y = np.meshgrid(*found.axes, indexing="ij")
    wrong = found.labels != np.where(x > y**2, right, 1 - right)
    off = abs(found.fractions[right] - 5 / 12) / found.errors[right]
    return {"wrong": float(wrong.mean()), "share_off": float(off), **_shares(found), "seconds": seconds}


def rings() -> dict[str, Any]:
    """What starts inside r = 2 ends on the circle r = 1, all else escapes."""

    def field(x: np.ndarray) -> np.ndarray:
        square = np.sum(x**2, axis=1, keepdims=True)
        return x * (1 - square) * (4 - square) + 2 * np.stack([-x[:, 1], x[:, 0]], axis=1)

    found, seconds = _timed(CallableField(field, 2), [(-3, 3), (-3, 3)])
    inside = np.hypot(*np.meshgrid(*found.axes, indexing="ij")) < 2
    wrong = found.labels != np.where(inside, 0, BasinLabel.LEFT_REGION)
    off = abs(found.fractions[0] - np.pi / 9) / found.errors[0]
    return {"wrong": float(wrong.mean()), "share_off": float(off), **_shares(found), "seconds": seconds}


def image(model: str, name: str) -> dict[str, Any]:
    """An image of a field inferred from a few trajectories, and the same labels by a loop on a subset."""
    system = systems.get(name)
    field, version = (system.field(), "1") if model == "truth" else inferred(model, name)
    found, seconds = _timed(field, system.region)
    row = {"model": model, "version": version, **_shares(found)}
    row |= {"seconds": seconds, "points": found.effort.points}
    if len(found.axes) == field.dim and found.attractors:
        row |= _loop(field, found, seconds)
    return row


def inferred(model: str, name: str) -> tuple[VectorField, str]:
    """Return a model's field from 8 trajectories of 100 noisy observations each, and the model's version."""
    system = systems.get(name)
    starts = system.region.widened(-0.05).sobol(TRAJECTORIES, seed=1)
    clean = simulate(system.field(), starts, np.linspace(0, system.t_end, 100))
    context = add_noise(clean[np.flatnonzero(clean.status == 0)], NOISE, np.random.default_rng(0))
    row = ModelRow.resolve(model)
    return row.infer(View(context)), row.version


def _timed(field: VectorField, region: Sequence[tuple[float, float]] | None) -> tuple[Basins, float]:
    """The image, and the CPU seconds of the quicker of two calls."""
    seconds = []
    for _ in range(2):
        start = time.process_time()
        found = basins(field, region, resolution=RESOLUTION)
        seconds.append(time.process_time() - start)
    return found, min(seconds)


def _shares(found: Basins) -> dict[str, Any]:
    return {
        "attractors": " ".join(attractor.kind.name.lower() for attractor in found.attractors),
        "left_region": float(found.fractions[BasinLabel.LEFT_REGION]),
        "undecided": float(found.fractions[BasinLabel.UNDECIDED]),
        "supported": float(np.mean(found.support >= 0.5)),
    }


def _loop(field: VectorField, found: Basins, seconds: float) -> dict[str, Any]:
    """CPU seconds of a loop of `solve_ivp` over all grid points, from a subset, and its agreement."""
    length, region = field.scales.length, found.region.widened(0.99)
    known = [attractor.points / length for attractor in found.attractors]

    def distance(t: float, x: np.ndarray) -> float:
        return min(np.linalg.norm(points - x / length, axis=1).min() for points in known) - NEAR

    def outside(t: float, x: np.ndarray) -> float:
        return float(np.minimum(x - region.low, region.high - x).min())

    distance.terminal = outside.terminal = True
    index = np.unique(np.linspace(0, found.labels.size - 1, LOOP).astype(int))
    starts = np.stack(np.meshgrid(*found.axes, indexing="ij"), axis=-1).reshape(-1, field.dim)[index]
    agree = []
    begun = time.process_time()
    for x, label in zip(starts, found.labels.ravel()[index], strict=True):
        end = x if distance(0.0, x) < 0 else _end(field, x, (distance, outside), length)
        near = [np.linalg.norm(points - end / length, axis=1).min() for points in known]
        lost = BasinLabel.UNDECIDED if region.contains(end) else BasinLabel.LEFT_REGION
        agree.append(label == (int(np.argmin(near)) if min(near) < 2 * NEAR else lost))
    loop = (time.process_time() - begun) / len(index) * found.labels.size
    return {"loop_seconds": loop, "ratio": loop / seconds, "agreement": float(np.mean(agree))}


def _end(
    field: VectorField, x: np.ndarray, events: tuple[Callable[[float, np.ndarray], float], ...], length: float
) -> np.ndarray:
    """Where `solve_ivp` leads; an event ends it, as arrival does a trajectory of the image."""
    options = {"method": "DOP853", "rtol": RTOL, "atol": RTOL * length, "events": events}
    return solve_ivp(field.ivp, (0, 500 * field.scales.time), x, **options).y[:, -1]


def figures(rows: Sequence[dict[str, Any]]) -> list[Figure]:
    """Wrong pixels, seconds by model, ratio to the loop and agreement with it."""
    exact = [row for row in rows if row["kind"] != "image"]
    out = []
    if exact:
        n = RESOLUTION**2 * len(exact)
        out.append(
            Figure("exact boundaries: wrong pixels", max(row["wrong"] for row in exact), "", "<= 0.0001", n)
        )
        off = max(row["share_off"] for row in exact)
        out.append(Figure("exact boundaries: share off by, in errors", off, "", "<= 3", len(exact)))
    for model in (*MODELS, "truth"):
        own = [row for row in rows if row["task"].startswith(f"image: {model} on ")]
        if own:
            out.append(
                Figure(f"{model}: slowest image", max(row["seconds"] for row in own), "s", "< 20", len(own))
            )
        looped = [row for row in own if "ratio" in row]
        if looped:
            note = f"{LOOP} grid points of each image by solve_ivp (DOP853, same tolerance)"
            slowest = min(row["ratio"] for row in looped)
            out.append(Figure(f"{model}: loop / image, least", slowest, "x", ">= 50", len(looped), note))
            share = float(np.mean([row["agreement"] for row in looped]))
            out.append(Figure(f"{model}: agreement with the loop", share, "", ">= 0.99", len(looped)))
    return out


PART = Part("basins", "2", tasks, measure, figures)
