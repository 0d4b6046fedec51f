"""Limit cycles by the default call: Van der Pol by mu against another route, closed forms, families."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.integrate import quad, solve_ivp
from scipy.special import ellipk

from benchmarks.parts import Figure, Part, best_seconds
from fim_dynsys import CallableField, systems
from fim_dynsys.analyze import CycleKind, limit_cycles
from fim_dynsys.fields.base import VectorField

MU = (0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 20.0)
CATALOGUE = ("hopf", "brusselator", "fitzhugh_nagumo")
# Period of the shortest orbit of Lorenz's attractor: Viswanath, Nonlinearity 16 (2003) 1035.
LORENZ_SHORTEST = 1.558652210716


def tasks() -> dict[str, tuple]:
    """Van der Pol by mu, closed forms, families, period doubling, a chaotic attractor."""
    return {
        **{f"van_der_pol mu={mu:g}": ("van_der_pol", mu) for mu in MU},
        **{name: ("catalogue", name) for name in CATALOGUE},
        "rings": ("rings",),
        "pendulum": ("pendulum",),
        **{f"roessler c={c:g}": ("roessler", c) for c in (2.5, 3.5)},
        "lorenz": ("lorenz",),
    }


def measure(kind: str, *arguments: Any) -> dict[str, Any]:
    """Return the errors of one task, the checks that need no truth, and the CPU seconds."""
    return {"kind": kind, **_MEASURES[kind](*arguments)}


def van_der_pol(mu: float) -> dict[str, Any]:
    """Period against event location by scipy, multiplier against the integral of the divergence there."""
    field = systems.get("van_der_pol").with_parameters(mu=mu).field()
    found, common = _found(field, [(-3, 3), (-2 - 1.6 * mu, 2 + 1.6 * mu)])
    period, divergence = _reference(field, mu)
    return {
        **common,
        "period": float(found.period[0]),
        "period_error": abs(float(found.period[0]) / period - 1),
        "log_multiplier": float(found.log_moduli[0, 1]),
        "multiplier_error": abs(float(found.log_moduli[0, 1]) - divergence) / max(1.0, abs(divergence)),
    }


def _reference(field: VectorField, mu: float) -> tuple[float, float]:
    """Period and integral of the divergence by scipy's DOP853 and quadrature on its dense output."""

    def turning(t: float, x: np.ndarray) -> float:
        return x[1] if t > 0.1 else -1.0

    turning.terminal, turning.direction = True, -1
    options = {"method": "DOP853", "rtol": 1e-13, "atol": 1e-14}
    x = solve_ivp(field.ivp, (0, 30 + 40 / mu), [2.0, 0.0], **options).y[:, -1]
    x = solve_ivp(field.ivp, (0, 1e3), x, events=turning, **options).y_events[0][0]
    turn = solve_ivp(field.ivp, (0, 1e3), x, events=turning, dense_output=True, **options)
    period = float(turn.t_events[0][0])
    steps = turn.t[turn.t < period]
    pieces = zip(steps, [*steps[1:], period], strict=True)
    divergence = sum(
        quad(lambda t: mu * (1 - turn.sol(t)[0] ** 2), *piece, epsabs=1e-12)[0] for piece in pieces
    )
    return period, float(divergence)


def catalogue(name: str) -> dict[str, Any]:
    """Period and multiplier against the catalogue's truths."""
    system = systems.get(name)
    found, common = _found(system.field(), None)
    out = {**common, "period_error": abs(float(found.period[0]) - float(system.truth("period")))}
    if "cycle_multiplier" in system.truths:
        out["multiplier_error"] = abs(found.multipliers[0, 1] - float(system.truth("cycle_multiplier")))
    return out


def rings() -> dict[str, Any]:
    """Stable cycle r = 1 inside an unstable one r = 2: multipliers exp(-6 pi) and exp(24 pi)."""

    def field(x: np.ndarray) -> np.ndarray:
        square = np.sum(x**2, axis=1, keepdims=True)
        return x * (1 - square) * (4 - square) + 2 * np.stack([-x[:, 1], x[:, 0]], axis=1)

    found, common = _found(CallableField(field, 2), [(-3, 3), (-3, 3)])
    return {
        **common,
        "expected": 2,
        "period_error": float(np.abs(found.period - np.pi).max()),
        "multiplier_error": float(np.abs(found.log_moduli[:, 1] / np.pi - [-6, 24]).max()),
    }


def pendulum() -> dict[str, Any]:
    """Every orbit one of a family: period by its energy, all multipliers 1."""
    found, common = _found(systems.get("pendulum").field(), None)
    energy = found.x[:, 1] ** 2 / 2 - np.cos(found.x[:, 0])
    return {
        **common,
        "expected": len(found),
        "families": sum(kind is CycleKind.CENTRE for kind in found.kind),
        "period_error": float(np.abs(found.period - 4 * ellipk((1 + energy) / 2)).max()),
        "multiplier_error": float(np.abs(found.multipliers - 1).max()),
    }


def roessler(c: float) -> dict[str, Any]:
    """Before and after the period doubling at c = 2.83: one stable orbit each."""
    found, common = _found(systems.get("roessler").with_parameters(c=c).field(), None)
    return {**common, "stable": int(found.stable.sum()), "period": float(found.period[0])}


def lorenz() -> dict[str, Any]:
    """Some of the orbits of saddle type in a chaotic attractor."""
    found, common = _found(systems.get("lorenz").field(), None)
    off = float(np.abs(found.period - LORENZ_SHORTEST).min()) if len(found) else np.nan
    return {**common, "expected": len(found), "stable": int(found.stable.sum()), "period_error": off}


_MEASURES = {
    "van_der_pol": van_der_pol,
    "catalogue": catalogue,
    "rings": rings,
    "pendulum": pendulum,
    "roessler": roessler,
    "lorenz": lorenz,
}


def _found(field: VectorField, region: Any) -> tuple[Any, dict[str, Any]]:
    """The result of the default call, and what every task reports of it."""
    start = time.process_time()
    found = limit_cycles(field, region)
    seconds = time.process_time() - start
    if seconds < 2:
        seconds = min(seconds, best_seconds(lambda: limit_cycles(field, region), 2))
    empty = len(found) == 0
    return found, {
        "found": len(found),
        "expected": 1,
        "closure": np.nan if empty else float(found.residual.max()),
        "trivial_error": np.nan if empty else float(found.trivial_error.max()),
        "liouville_error": np.nan
        if empty
        else float((found.liouville_error / np.maximum(1, np.abs(found.log_moduli).sum(axis=1))).max()),
        "points": found.effort.points,
        "seconds": seconds,
    }


def figures(rows: Sequence[dict[str, Any]]) -> list[Figure]:
    """Counts, errors by kind of truth, the checks, and seconds."""
    known = [row for row in rows if row["kind"] not in ("lorenz", "roessler")]
    wrong = [row["task"] for row in known if row["found"] != row["expected"]]
    out = []
    if known:
        right = 1 - len(wrong) / len(known)
        out.append(
            Figure(
                "systems with all cycles found, none extra", right, "", ">= 1", len(known), " ".join(wrong)
            )
        )
    for kind, what in (
        ("van_der_pol", "van der Pol, mu 0.1 to 20"),
        ("catalogue", "catalogue"),
        ("rings", "nested stable and unstable"),
        ("pendulum", "pendulum"),
    ):
        own = [row for row in rows if row["kind"] == kind]
        for name, text in (("period_error", "period"), ("multiplier_error", "multiplier")):
            values = [row[name] for row in own if name in row]
            if values:
                # What the catalogue states is itself rounded.
                goal = "<= 1e-05" if kind == "catalogue" else "<= 1e-08"
                out.append(Figure(f"{what}: {text}, largest error", max(values), "", goal, len(values)))
    for row in rows:
        if row["kind"] == "lorenz":
            note = f"{row['found']} orbits of saddle type listed"
            out.append(Figure("lorenz: shortest orbit, period", row["period_error"], "", "<= 1e-08", 1, note))
        if row["kind"] == "roessler":
            out.append(Figure(f"{row['task']}: stable orbits", row["stable"], "", "== 1"))
    for name, text in (
        ("closure", "closure error"),
        ("trivial_error", "|trivial multiplier - 1|"),
        ("liouville_error", "Liouville check, relative"),
    ):
        out.append(Figure(f"{text}, largest", max(row[name] for row in rows), "", "<= 1e-08", len(rows)))
    out.append(Figure("slowest call", max(row["seconds"] for row in rows), "s", "", len(rows)))
    return out


PART = Part("cycles", "1", tasks, measure, figures)
