"""Bifurcations from data of systems by which no width was chosen: do stated intervals hold the truth?"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from benchmarks.analysis.diagrams import LEVEL, NOISE, VALUES, answer
from benchmarks.development.problems import is_cubic
from benchmarks.parts import Figure, Part
from fim_dynsys import SymbolicField, Trajectories, add_noise, concatenate, simulate, systems
from fim_dynsys.analyze import continuation, fixed_points

MODELS = ("fim-ode", "auto")
SETS = 2
SAMPLES = 100
FAMILIES = {
    "bautin": ("b1", -0.3, 0.2),
    "bogdanov_takens": ("b1", -0.4, 0.3),
    "butterfly": ("c", 4.6, 6.6),
    "gierer_meinhardt": ("c", 0.6, 1.0),
    "hindmarsh_rose_planar": ("b", 1.2, 2.4),
    "holling_tanner": ("b", 0.1, 0.4),
    "ivlev_grazing": ("c", 0.9, 1.3),
    "oregonator_planar": ("f", 0.4, 0.9),
    "predator_prey_allee": ("m", 0.5, 0.62),
    "rf_squid": ("f", 0.2, 2.0),
    "rosenzweig_macarthur": ("k", 2.2, 3.8),
    "stuart_landau": ("mu", -0.4, 0.6),
    "two_cycle_lienard": ("d", -0.5, 0.5),
}
"""System, one of its parameters, and a range in which equilibria have one fold or Hopf point."""


def tasks() -> dict[str, tuple]:
    """Return one task per family, model and data set, of all models and families for each set."""
    return {
        f"{name}, {model}, set {seed}": (name, model, seed)
        for seed in range(SETS)
        for model in MODELS
        for name in FAMILIES
    }


@cache
def truth(name: str) -> tuple[str, float]:
    """Return kind and place of the one bifurcation in the range, by continuation of the system itself."""
    parameter, *ends = FAMILIES[name]
    system = systems.get(name)
    family = SymbolicField(
        system.expressions, system.parameters, state_names=system.states, region=system.region
    ).family(parameter)
    found = {}
    for p in ends:
        points = fixed_points(family.at(p), system.region, slow=0, n_draws=0)
        for x in points.x[points.is_root]:
            diagram = continuation(family, x, tuple(ends), system.region, p0=p, cycles=False, progress=False)
            known = [b for b in diagram.bifurcations if b.kind in ("LP", "HB")]
            found |= {(str(b.kind), round(b.p, 6)): float(b.p) for b in known}
    if len(found) != 1:
        raise ValueError(f"{name}: expected one fold or Hopf point in {ends}, got {sorted(found)}.")
    ((kind, _), p) = found.popitem()
    return kind, p


def observed(name: str, seed: int) -> Trajectories:
    """Return one noisy data set: both trajectories of the catalogue at each value of the parameter."""
    parameter, low, high = FAMILIES[name]
    system = systems.get(name)
    t = np.linspace(0.0, system.t_end, SAMPLES)
    parts = []
    for p in np.linspace(low, high, VALUES).tolist():
        run = simulate(system.with_parameters(**{parameter: p}).field(), system.initial_states, t)
        parts.append(Trajectories.from_arrays(list(run.x), t, coords={"mu": [p] * len(run)}))
    rng = np.random.default_rng([seed, sorted(FAMILIES).index(name)])
    return add_noise(concatenate(parts), NOISE, rng)


def measure(name: str, model: str, seed: int) -> dict[str, Any]:
    """Return the best supported bifurcation of the right kind, and whether its interval holds the truth."""
    parameter, low, high = FAMILIES[name]
    kind, p = truth(name)
    about = {"family": name, "parameter": parameter, "kind": kind}
    about |= {"expressible": int(is_cubic(systems.get(name)))}
    return about | answer(observed(name, seed), model, seed, kind, p, high - low)


def figures(rows: Sequence[dict[str, Any]]) -> list[Figure]:
    """How many are found, and of these how many are held: all, cubics and others, those said to fit."""
    out = []
    for model in MODELS:
        some = [row for row in rows if row["model"] == model]
        found = [row for row in some if "p" in row]
        if not found:
            continue
        fit = [row for row in found if row["fits"]]
        cubic = [row for row in found if row["expressible"]]
        other = [row for row in found if not row["expressible"]]
        note = f"{len({row['family'] for row in some})} families, stated as {100 * LEVEL:g} %"
        out += [
            Figure(f"{model}: found", len(found) / len(some), "", "", len(some), note),
            Figure(f"{model}: truth in the interval, if found", _held(found), "", ">= 0.85", len(found)),
            Figure(f"{model}: truth in the interval, cubics", _held(cubic), "", "", len(cubic)),
            Figure(f"{model}: truth in the interval, others", _held(other), "", "", len(other)),
            Figure(f"{model}: truth in the interval, if it fits", _held(fit), "", "", len(fit)),
            Figure(f"{model}: median width by range", _median(found, "width"), "", "", len(found)),
            Figure(f"{model}: median seconds", _median(some, "seconds"), "s", "", len(some)),
        ]
    return out


def _held(rows: Sequence[dict[str, Any]]) -> float:
    return float(np.mean([row["covered"] for row in rows])) if rows else float("nan")


def _median(rows: Sequence[dict[str, Any]], name: str) -> float:
    return float(np.median([row[name] for row in rows]))


PART = Part("families", "2", tasks, measure, figures)
