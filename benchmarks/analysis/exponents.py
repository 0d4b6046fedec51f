"""Lyapunov exponents by the default call, against published ones."""

import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.parts import Figure, Part
from fim_dynsys import Region, systems
from fim_dynsys.analyze import lyapunov
from fim_dynsys.simulation.solution import integrate
from fim_dynsys.systems import System

FACTS = Path(__file__).with_name("chaotic.toml")
PUBLISHED_TO_MEET = 10
RELATIVE = 0.1  # a published exponent counts as met within this share of it, or
ERRORS = 3  # within so many of our stated errors
LORENZ_TOLERANCE = 0.003
# The second route: pairs of neighbouring trajectories, without tangent vectors.
PAIRS, DISTANCE, WARM_UP, ROUNDS = 100, 1e-6, 60, 300
ROUND = 0.3  # duration of a round, divided by the published exponent


def facts() -> dict[str, dict[str, Any]]:
    """Return the published systems by name."""
    return {entry["name"]: entry for entry in tomllib.loads(FACTS.read_text(encoding="utf-8"))["system"]}


def chaotic_system(entry: dict[str, Any]) -> System:
    """Return one of them as a system."""
    start = np.array(entry["initial_state"])
    return System(
        name=entry["name"],
        expressions=tuple(entry["equations"]),
        parameters=entry["parameters"],
        region=Region.from_pairs(entry["region"], names=entry["states"]),
        initial_states=np.array([start, start]),
        t_end=100.0,
        source=entry["origin"],
        polynomial=False,
        split="oracle",
    )


def tasks() -> dict[str, tuple]:
    """One task per system."""
    return {name: (name,) for name in facts()}


def measure(name: str) -> dict[str, Any]:
    """Return the largest exponent of the default call beside the published one, and what it cost."""
    entry = facts()[name]
    system = chaotic_system(entry)
    start = time.process_time()
    found = lyapunov(system.field(), system.initial_states[0])
    seconds = time.process_time() - start
    pairs, pairs_error = pair_estimate(system, ROUND / entry["exponent"])
    off = abs(found.exponents[0] - entry["exponent"])
    return {
        "exponent": float(found.exponents[0]),
        "error": float(found.error[0]),
        "published": entry["exponent"],
        "relative": float(off / entry["exponent"]),
        "errors": float(off / found.error[0]),
        "pairs": pairs,
        "pairs_error": pairs_error,
        "second": float(found.exponents[1]),
        "second_error": float(found.error[1]),
        "last": float(found.exponents[-1]),
        "last_error": float(found.error[-1]),
        "sum_error": abs(found.sum_error),
        "duration": found.duration,
        "points": found.effort.points,
        "seconds": seconds,
    }


def pair_estimate(system: System, unit: float) -> tuple[float, float]:
    """Return the largest exponent from the parting of neighbours that are drawn together again and again.

    Parameters
    ----------
    system : System
        With a start in `initial_states`.
    unit : float
        Duration of one round.

    Returns
    -------
    exponent, error : float
        Mean over pairs and half width of its 95 % confidence interval.
    """
    field = system.field()
    length = field.scales.length
    rng = np.random.default_rng(0)
    transient = np.array([0.0, 100 * unit])
    x = system.initial_states[:1] + DISTANCE * length * rng.standard_normal((PAIRS, system.dim))
    x = integrate([field], x, transient, rtol=1e-6).x_stop
    apart = rng.standard_normal(x.shape)
    growth = []
    for _ in range(WARM_UP + ROUNDS):
        apart *= DISTANCE / np.linalg.norm(apart, axis=1, keepdims=True)
        both = np.concatenate([x, x + apart * length])
        x, y = np.split(integrate([field], both, np.array([0.0, unit]), rtol=1e-10).x_stop, 2)
        apart = (y - x) / length
        growth.append(np.log(np.linalg.norm(apart, axis=1) / DISTANCE))
    each = np.mean(growth[WARM_UP:], axis=0) / unit
    return float(each.mean()), float(1.96 * each.std() / np.sqrt(PAIRS))


def figures(rows: Sequence[dict[str, Any]]) -> list[Figure]:
    """Agreement over all systems, and Lorenz's figures."""
    agree = [row["relative"] <= RELATIVE or row["errors"] <= ERRORS for row in rows]
    apart = ", ".join(
        f"{row['task']}: {row['exponent']:.4f}, pairs {row['pairs']:.4f}, published {row['published']}"
        for row, met in zip(rows, agree, strict=True)
        if not met
    )
    n = len(rows)
    routes = [
        abs(row["exponent"] - row["pairs"]) <= max(row["error"] + row["pairs_error"], 0.01 * row["exponent"])
        for row in rows
    ]
    zero = [abs(row["second"]) <= ERRORS * row["second_error"] for row in rows]
    out = [
        Figure("published exponents met", sum(agree), "", f">= {PUBLISHED_TO_MEET}", n, apart),
        Figure("pairs of trajectories agree", float(np.mean(routes)), "", ">= 1", n, "errors added, or 1 %"),
        Figure("second exponent 0 within 3 errors", float(np.mean(zero)), "", ">= 1", n),
        Figure("sum less mean divergence, largest", max(row["sum_error"] for row in rows), "", "<= 0.001", n),
        Figure("slowest default call", max(row["seconds"] for row in rows), "s", "", n),
    ]
    for row in rows:
        if row["task"] == "lorenz":
            out += _lorenz_figures(row)
    return out


def _lorenz_figures(row: dict[str, Any]) -> list[Figure]:
    third = float(systems.get("lorenz").truth("lyapunov")[2])
    off = abs(row["exponent"] - row["published"])
    note = f"{row['exponent']:.5f} +- {row['error']:.5f}"
    return [
        Figure("lorenz: largest exponent off by", off, "", f"<= {LORENZ_TOLERANCE}", 1, note),
        Figure("lorenz: off by, in stated errors", row["errors"], "", "<= 1"),
        Figure("lorenz: stated error", row["error"], "", f"<= {LORENZ_TOLERANCE}", 1, "95 % half width"),
        Figure("lorenz: third exponent off by", abs(row["last"] - third), "", f"<= {LORENZ_TOLERANCE}"),
        Figure("lorenz: default call", row["seconds"], "s", "< 20"),
    ]


PART = Part("exponents", "1", tasks, measure, figures)
