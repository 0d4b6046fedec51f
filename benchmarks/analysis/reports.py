"""Analyses that people reported to go wrong, each with the right value and how it is known."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.parts import Figure, Part
from fim_dynsys import CallableField, FieldFamily, Trajectories, simulate
from fim_dynsys.analyze import (
    BifurcationKind,
    PointStatus,
    basins,
    continuation,
    correlation_dimension,
    fixed_points,
    limit_cycles,
    lyapunov,
    nullclines,
)

MISSING = np.nan


@dataclass(frozen=True)
class Report:
    """One report.

    Attributes
    ----------
    measure : callable
        Gives the value; NaN where there is none.
    right : float
        The right value.
    tolerance : float
        By how much the value may miss it.
    known : str
        How the right value is known.
    """

    measure: Callable[[], float]
    right: float
    tolerance: float
    known: str


def _plane(rates: Callable) -> CallableField:
    return CallableField(lambda x: np.stack(rates(*x.T), axis=1), 2)


def _family(rates: Callable, dim: int) -> FieldFamily:
    return FieldFamily.from_callable(lambda x, p: np.stack(rates(*x.T, p), axis=1), dim)


def _only_period(rates: Callable, box: list) -> float:
    """The period of the only cycle; NaN where there are none or several."""
    found = limit_cycles(_plane(rates), box)
    return float(found.period[0]) if len(found) == 1 else MISSING


def _hunters(
    growth: float, capacity: float, hunting: float, half: float, gain: float, loss: float
) -> Callable:
    """Predators with a saturating appetite."""

    def rates(n, p):
        eaten = n * p / (n + half)
        return growth * n * (1 - n / capacity) - hunting * eaten, gain * eaten - loss * p

    return rates


def _oregonator(u, v):
    return (u * (1 - u) - v * (u - 0.002) / (u + 0.002)) / 0.01, u - v


def _close_cycles() -> float:
    """Cycles found of radius 1 and 1.002, or 2 where the result says that it may be incomplete."""

    def rates(x, y):
        r = np.hypot(x, y)
        growth = (1 - r) * (1.002 - r)
        return x * growth - y, y * growth + x

    found = limit_cycles(_plane(rates), [(-1.5, 1.5)] * 2)
    return 2.0 if len(found) == 2 or "complete" in str(found) else float(len(found))


def _sirs(s, i, r, beta):
    return 0.2 * r - beta * s * i, beta * s * i - i, i - 0.2 * r


def _epidemic(beta: float) -> CallableField:
    rates = lambda x: np.stack(_sirs(*x.T, beta), axis=1)  # noqa: E731
    return CallableField(rates, 3, state_names=["S", "I", "R"])


def _threshold() -> float:
    found = continuation(_family(_sirs, 3), [1.0, 0, 0], (0.5, 4.0))
    return float(found.bifurcations[0].p) if len(found.bifurcations) == 1 else MISSING


def _critical_total() -> float:
    found = continuation(_epidemic(2.0), [0.1, 0, 0], (0.1, 3.0), over="S+I+R")
    return float(found.bifurcations[0].p) if len(found.bifurcations) == 1 else MISSING


def _endemic() -> float:
    found = fixed_points(_epidemic(2.0), [(-0.1, 1.1)] * 3, level={"S+I+R": 1})
    named = any("S + I + R" in text for text in found.conserved)
    return float(found.x[:, 1].max()) if named and len(found) == 2 else MISSING


def _isolated_of_a_continuum() -> float:
    def enzyme(x):
        s, e, c, _ = x.T
        return np.stack([0.5 * c - s * e, 1.5 * c - s * e, s * e - 1.5 * c, c], axis=1)

    found = fixed_points(CallableField(enzyme, 4), [(-0.2, 2)] * 4)
    return float(sum(status is PointStatus.ISOLATED for status in found.status))


def _zeros_on_an_edge() -> float:
    found = fixed_points(CallableField(lambda s: np.sqrt(s) * (1 - s), 1), [(0, 2)])
    balanced = found.index_check == "balanced"
    return (
        MISSING
        if balanced
        else float(np.abs(found.x.ravel() - [0.0, 1.0]).max())
        if len(found) == 2
        else MISSING
    )


def _pole_is_named() -> float:
    return float(
        "pole where x0 = 0.25" in str(fixed_points(CallableField(lambda x: 1 / (x - 0.25) - 1, 1), [(-2, 2)]))
    )


def _unknown_state() -> float:
    try:
        fixed_points(_plane(lambda x, v: (v, -x)), {"x1": (-1, 2), "zz": (-5, 6)})
    except ValueError:
        return 1.0
    return 0.0


def _seconds_of_sliding() -> float:
    field = CallableField(lambda x: np.stack([np.where(x[:, 0] > 0, -1.0, 1.0), -x[:, 1]], axis=1), 2)
    began = time.monotonic()
    basins(field, [(-2, 2)] * 2, resolution=12, n_sample=32, max_seconds=5)
    return time.monotonic() - began


def _two_lines() -> float:
    field = _plane(lambda x, y: ((x - 0.1) * (x - 0.105), y))
    found = nullclines(field, [(-2, 2)] * 2)
    return float(len(found.branches[0])) if found.resolved else 2.0


def _second_exponent() -> float:
    field = _plane(lambda x, v: (v, -x - 0.5 * v + np.sign(v)))
    found = lyapunov(field, [1.0, 0.0], n_pieces=64, budget=5_000_000)
    return float(found.exponents[1] + found.exponents[0])


def _folds_of_centres() -> float:
    found = continuation(_family(lambda x, v, p: (v, x - x**3 + p * v), 2), [1.0, 0.0], (-0.5, 0.5))
    return float(sum(event.kind is BifurcationKind.CYCLE_FOLD for event in found.bifurcations))


def _kinked_hopf() -> float:
    found = continuation(_family(lambda x, v, p: (v, -x + p * v - np.abs(v) * v), 2), [0.0, 0.0], (-1, 1))
    hopf = [event.p for event in found.bifurcations if event.kind is BifurcationKind.HOPF]
    return float(hopf[0]) if len(hopf) == 1 else MISSING


def _largest_form() -> float:
    def neuron(x, y, z, i):
        return y - x**3 + 3 * x**2 - z + i, 1 - 5 * x**2 - y, 0.01 * (4 * (x + 1.6) - z)

    found = continuation(_family(neuron, 3), [-1.3, -7.5, 1.0], (1.0, 4.0), budget=2_000_000)
    forms = [abs(event.normal_form) for event in found.bifurcations if event.normal_form is not None]
    return float(max(forms, default=0.0) > 1e8)


def _centres_listed() -> float:
    found = limit_cycles(_plane(lambda q, p: (p, -np.sin(q))), [(-3.5, 3.5), (-3, 3)])
    return float(max(0, len(found) - 5))


def _dimension_of_one_state() -> float:
    def lorenz(x):
        a, b, c = x.T
        return np.stack([10 * (b - a), a * (28 - c) - b, a * b - 8 / 3 * c], axis=1)

    path = simulate(CallableField(lorenz, 3), [[1.0, 1.0, 20.0]], 0.05 * np.arange(12_000)).x[0]
    alone = Trajectories.from_arrays(path[1000:, :1], 0.05)
    return float(correlation_dimension(alone).dimension)


REPORTS: dict[str, Report] = {
    "one cycle, not two nested": Report(
        lambda: _only_period(_hunters(0.8, 15, 2.5, 1, 1.25, 0.4), [(0, 18)] * 2),
        83.58266,
        1e-2,
        "logarithms of the states, DOP853 at 1e-12",
    ),
    "cycle in a box below zero": Report(
        lambda: _only_period(_hunters(1.0, 10, 0.8, 1.5, 0.5, 0.3), [(-0.9, 10.3), (-0.4, 7.8)]),
        38.689,
        1e-2,
        "DOP853 at 1e-12",
    ),
    "cycle in a still wider box": Report(
        lambda: _only_period(_hunters(1.0, 10, 0.8, 1.5, 0.5, 0.3), [(-1, 12)] * 2),
        38.689,
        1e-2,
        "DOP853 at 1e-12",
    ),
    "cycle down to 1e-15": Report(
        lambda: _only_period(_hunters(1.0, 8, 1.0, 1.0, 1.0, 0.2), [(0, 9)] * 2),
        66.20285,
        1e-2,
        "logarithms of the states, LSODA",
    ),
    "planar Oregonator": Report(
        lambda: _only_period(_oregonator, [(0.001, 1), (0.001, 0.5)]), 4.15276453, 4e-5, "Radau at 1e-10"
    ),
    "two close cycles": Report(_close_cycles, 2, 0, "radii 1 and 1.002 by construction"),
    "epidemic threshold on a level": Report(_threshold, 1, 1e-6, "beta S = 1 at S = 1"),
    "critical population": Report(_critical_total, 0.5, 1e-6, "beta S = 1 at beta = 2"),
    "endemic state on a level": Report(_endemic, 1 / 12, 1e-9, "S = 1 / 2, R = 5 I"),
    "isolated points of a continuum": Report(_isolated_of_a_continuum, 0, 0, "zeros C = 0, S E = 0"),
    "zeros at the edge of the domain": Report(_zeros_on_an_edge, 0, 1e-6, "0 and 1"),
    "a pole is named": Report(_pole_is_named, 1, 0, "x = 1 / 4"),
    "unknown state in a region": Report(_unknown_state, 1, 0, "the field has no state zz"),
    "basins of a sliding field, seconds": Report(_seconds_of_sliding, 5, 10, "asked for 5 s"),
    "two nullclines within a cell": Report(_two_lines, 2, 0, "x = 0.1 and 0.105"),
    "exponents across a jump": Report(_second_exponent, -0.25, 5e-3, "exact half turns between the jumps"),
    "folds in a family of centres": Report(_folds_of_centres, 0, 0, "all cycles exist at p = 0"),
    "Hopf point at a kink": Report(_kinked_hopf, 0, 1e-6, "the linear part"),
    "normal forms beyond 1e8": Report(
        _largest_form, 0, 0, "coefficients are of order one in units of the cycle"
    ),
    "centres listed beyond five": Report(_centres_listed, 0, 0, "as documented"),
    "dimension of one state of a chaotic record": Report(
        _dimension_of_one_state, 2.05, 0.15, "Grassberger and Procaccia 1983"
    ),
}


def tasks() -> dict[str, tuple]:
    """One task for each report."""
    return {name: (name,) for name in REPORTS}


def measure(name: str) -> dict[str, Any]:
    """Return a report's value, the right one and whether they agree."""
    report = REPORTS[name]
    start = time.process_time()
    value = report.measure()
    return {
        "value": float(value),
        "right": float(report.right),
        "tolerance": float(report.tolerance),
        "agrees": bool(abs(value - report.right) <= report.tolerance),
        "seconds": time.process_time() - start,
        "known": report.known,
    }


def figures(rows: Sequence[dict[str, Any]]) -> list[Figure]:
    """How many reports come out right, and the slowest."""
    wrong = [row["task"] for row in rows if not row["agrees"]]
    n = len(rows)
    slowest = max(rows, key=lambda row: row["seconds"])
    return [
        Figure("public reports with the right value", n - len(wrong), "", f"== {n}", n, "; ".join(wrong)),
        Figure("slowest report", slowest["seconds"], "s", "", n, slowest["task"]),
    ]


PART = Part("reports", "1", tasks, measure, figures)
