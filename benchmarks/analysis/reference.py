"""Published systems: bifurcations and periods against what sources and closed forms say of them.

Beside them, random smooth families in the plane: every bifurcation reported must satisfy its own conditions.
"""

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.parts import Figure, Part, best_seconds
from fim_dynsys import CallableField, FieldFamily, FieldPlane
from fim_dynsys.analyze import LimitKind, bifurcation_curves, continuation, limit_cycles

_NAMES = ("x", "y", "z", "w")
_FAMILIES = 200
_BY_TASK = 20  # families of one task
_VANISHES = 1e-6  # what is to vanish at a bifurcation, by the largest eigenvalue


def systems() -> dict[str, dict[str, Any]]:
    """Return the systems of ``reference.toml`` by name."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text())


def rates_of(entry: dict[str, Any]) -> Callable[..., np.ndarray]:
    """Return ``f(x (n, d), p, q)`` of an entry's expressions."""
    states = ", ".join(_NAMES[: len(entry["rates"])])
    lines = [f"f[:, {k}] = {text}" for k, text in enumerate(entry["rates"])]
    body = [f"{states}, = s.T", "f = np.empty_like(s)", *lines, "return f"]
    text = "\n    ".join(["def rates(s, p=0.0, q=0.0):", *body])
    known = {name: getattr(np, name) for name in ("sin", "cos", "tanh", "cosh", "exp", "sqrt")} | {"np": np}
    exec(compile(text, "reference.toml", "exec"), known)
    rates: Callable[..., np.ndarray] = known["rates"]
    return rates


def tasks() -> dict[str, tuple]:
    """One task per system, and random families in groups."""
    groups = range(_FAMILIES // _BY_TASK)
    return {name: (name,) for name in systems()} | {f"random families {k}": (f"{k}",) for k in groups}


def measure(name: str) -> dict[str, Any]:
    """Return how many quantities of a system are within their error, and the largest share of it taken."""
    if name.isdigit():
        return false_events(int(name))
    entry = systems()[name]
    found, run = _found(entry)
    shares, left = [], list(found)
    for what, value, error in entry["quantities"]:
        same = [pair for pair in left if pair[0] == what]
        nearest = min(same, key=lambda pair: abs(pair[1] - value), default=None)
        if nearest is not None and what != "HB period":
            left.remove(nearest)
        shares.append(np.inf if nearest is None else abs(nearest[1] - value) / error)
    row = {"quantities": len(shares), "within": int(np.sum(np.array(shares) <= 1.0))}
    return row | {"share": float(max(shares)), "seconds": best_seconds(run, 1), "source": entry["source"]}


def _found(entry: dict[str, Any]) -> tuple[list[tuple[str, float]], Callable]:
    """Quantities by name, and what is to be timed."""
    rates, dim = rates_of(entry), len(entry["rates"])
    if "range" not in entry:
        field = CallableField(lambda x: rates(x), dim)

        def search() -> Any:
            return limit_cycles(field, entry["region"])

        return [("cycle", float(period)) for period in search().period], search
    options: dict[str, Any] = {"region": entry.get("region")}
    if "second" in entry:
        low, high, q0 = entry["second"]
        plane = FieldPlane.from_callable(rates, dim)

        def curves() -> Any:
            return bifurcation_curves(plane, entry["start"], entry["range"], (low, high), q0=q0)

        points = curves().points
        pairs = [(f"{point.kind.value} {name}", getattr(point, name)) for point in points for name in "pq"]
        family = plane.family(q0)
    else:
        family, pairs = FieldFamily.from_callable(lambda x, p: rates(x, p), dim), []

    options |= {"cycles": entry.get("cycles", False), "doublings": entry.get("doublings", 0)}

    def run() -> Any:
        start, p0 = entry["start"], entry["range"][0]
        if "found_at" in entry:  # a stable cycle there, not an equilibrium
            p0 = entry["found_at"]
            start = limit_cycles(family.at(p0), start, n_seeds=8)
        return continuation(family, start, entry["range"], p0=p0, progress=False, **options)

    found = run()
    limits = [limit for branch in found.cycles for limit in branch.limits if limit is not None]
    pairs += [("SNIC" if limit.kind is LimitKind.SNIC else "HOM", limit.p) for limit in limits]
    for event in found.bifurcations:
        pairs.append((event.kind.value, event.p))
        if event.kind == "HB":
            pairs.append(("HB period", event.period))
    return pairs, curves if "second" in entry else run


def false_events(group: int) -> dict[str, Any]:
    """Return how many bifurcations of random families there are, and how many are none."""
    events = false = 0
    for number in range(group * _BY_TASK, (group + 1) * _BY_TASK):
        family, start = random_family(number)
        for event in continuation(family, start, (-1, 1), [(-4, 4)] * 2, cycles=False).bifurcations:
            if event.kind in ("NM", "DB"):
                continue
            events += 1
            false += not _holds(event, family)
    return {"events": events, "false": false}


def random_family(number: int) -> tuple[FieldFamily, np.ndarray]:
    """Return a cubic of two states with three waves and an equilibrium at p = -1, by its number."""
    rng = np.random.default_rng(number)
    linear, by_p, quadratic = rng.normal(size=(2, 2)), rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    waves, heights, phases = rng.normal(size=(3, 2)), rng.normal(size=(3, 2)), rng.normal(size=3)

    def raw(x: np.ndarray, p: float) -> np.ndarray:
        pairs = np.stack([x[:, 0] ** 2, x[:, 0] * x[:, 1], x[:, 1] ** 2], axis=1)
        bent = np.sin(x @ waves.T + phases + p) @ heights
        push = by_p @ np.array([p, p**2, 1.0]) + p * x @ by_p[:, :2].T
        return x @ linear.T + 0.5 * pairs @ quadratic.T + bent + push - 0.3 * x**3

    start = rng.normal(size=2)
    shift = raw(start[None], -1.0)
    return FieldFamily.from_callable(lambda x, p: raw(x, p) - shift, 2), start


def _holds(event: Any, family: FieldFamily) -> bool:
    """Whether an event satisfies its conditions, by eigenvalues computed anew."""
    values = np.linalg.eigvals(family.jacobian(event.x, event.p))
    size = np.abs(values).max()
    still = np.abs(family(event.x, event.p)).max() < _VANISHES
    if event.kind in ("HB", "GH"):
        return bool(still and np.abs(values.real).max() < _VANISHES * size and np.abs(values.imag).min() > 0)
    return bool(still and np.abs(values).min() < _VANISHES * max(size, 1.0))


def figures(rows: Sequence[dict[str, Any]]) -> list[Figure]:
    """Systems and quantities, those within their errors, false events."""
    known = [row for row in rows if "quantities" in row]
    random = [row for row in rows if "events" in row]
    out = []
    if known:
        n, within = (sum(row[name] for row in known) for name in ("quantities", "within"))
        slowest = max(known, key=lambda row: row["seconds"])
        out += [
            Figure("published systems", len(known), "", ">= 25", len(known)),
            Figure("quantities", n, "", ">= 60", len(known)),
            Figure("quantities beyond their stated error", n - within, "", "<= 0", n),
            Figure("slowest system", slowest["seconds"], "s", "", len(known), slowest["task"]),
        ]
    if random:
        events, false = (sum(row[name] for row in random) for name in ("events", "false"))
        out.append(
            Figure("false events on random families", false, "", "<= 0", events, f"{_FAMILIES} families")
        )
    return out


PART = Part("reference", "1", tasks, measure, figures)
