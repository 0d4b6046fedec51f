"""Bifurcation diagrams of synthetic data: whether stated intervals hold the truth, and how wide they are."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks.parts import Figure, Part
from fim_dynsys import Trajectories, add_noise, concatenate, load, simulate
from fim_dynsys.analyze import bifurcations_from_data
from fim_dynsys.fields.callable import CallableField

MODELS = ("fim-ode", "sindy-strong")
SETS = 20
NOISE = 0.03  # multiplicative
VALUES = 15
LEVEL = 0.9


@dataclass(frozen=True)
class Observed:
    """A family with one bifurcation, and how it is measured.

    Attributes
    ----------
    fn : callable
        ``fn(x (n, d), p)``.
    p_range : (float, float)
        The `VALUES` values are evenly spaced over it.
    starts : tuple
        Initial state of each trajectory per value, to which normal deviates of 0.1 are added.
    t_end, n : float, int
        Time and number of samples.
    kind : str
        Label of the bifurcation.
    truth : float
        Where it is.
    """

    fn: Callable
    p_range: tuple
    starts: tuple
    t_end: float
    n: int
    kind: str
    truth: float


def _brusselator(s: np.ndarray, b: float) -> np.ndarray:
    x, y = s.T
    return np.stack([1 + x**2 * y - (b + 1) * x, b * x - x**2 * y], axis=1)


def _switch(x: np.ndarray, p: float) -> np.ndarray:
    """Two states and a threshold; the lower state vanishes in a saddle-node."""
    return p + x - x**3


CASES = {
    "Brusselator": Observed(_brusselator, (1.2, 2.8), ((0.5, 1.5), (2.0, 3.0)), 20.0, 100, "HB", 2.0),
    "Brusselator, one trajectory": Observed(_brusselator, (1.2, 2.8), ((2.0, 3.0),), 20.0, 100, "HB", 2.0),
    "switch": Observed(_switch, (-0.2, 1.0), ((-1.6,), (1.6,)), 8.0, 60, "LP", 2 / 3 / np.sqrt(3)),
    "switch, one trajectory": Observed(_switch, (-0.2, 1.0), ((-1.6,),), 8.0, 60, "LP", 2 / 3 / np.sqrt(3)),
}


def tasks() -> dict[str, tuple]:
    """Return one task per family, model and data set."""
    return {
        f"{case}, {model}, set {seed}": (case, model, seed)
        for seed in range(SETS)
        for model in MODELS
        for case in CASES
    }


def observed(name: str, seed: int) -> Trajectories:
    """Return one noisy data set with the parameter as coordinate ``mu``."""
    case = CASES[name]
    rng = np.random.default_rng([seed, list(CASES).index(name)])
    t = np.linspace(0.0, case.t_end, case.n)
    parts = []
    for p in np.linspace(*case.p_range, VALUES):
        starts = np.array(case.starts) + 0.1 * rng.standard_normal(np.shape(case.starts))
        field = CallableField(lambda x, p=p: case.fn(x, p), starts.shape[1])
        run = simulate(field, starts, t)
        parts.append(Trajectories.from_arrays(list(run.x), t, coords={"mu": [p] * len(starts)}))
    return add_noise(concatenate(parts), NOISE, rng)


def measure(name: str, model: str, seed: int) -> dict[str, Any]:
    """Return the best supported bifurcation of the right kind, and whether its interval holds the truth."""
    case = CASES[name]
    width = case.p_range[1] - case.p_range[0]
    return {"case": name} | answer(observed(name, seed), model, seed, case.kind, case.truth, width)


def answer(
    data: Trajectories, model: str, seed: int, kind: str, truth: float, width: float
) -> dict[str, Any]:
    """Return what a model says of a bifurcation of this kind at `truth`, in a range of this width."""
    chosen = _loaded(model)
    start = time.process_time()
    result = bifurcations_from_data(chosen, data, cycles=False, level=LEVEL)
    seconds = time.process_time() - start
    same = [b for b in result.bifurcations if b.kind == kind]
    outcome = {"model": model, "version": chosen.version, "seed": seed, "seconds": seconds}
    outcome |= {"bifurcations": len(result.bifurcations), "truth": truth, "fits": int(result.fits)}
    if not same or same[0].interval is None:
        return {**outcome, "covered": 0, "width": float("inf")}
    low, high = same[0].interval
    return {
        **outcome,
        "p": same[0].p,
        "low": low,
        "high": high,
        "share": same[0].share,
        "support": same[0].support,
        "covered": int(low <= truth <= high),
        "width": (high - low) / width,
    }


@cache
def _loaded(model: str) -> Any:
    return load(model)


def figures(rows: Sequence[dict[str, Any]]) -> list[Figure]:
    """Coverage, median width and error by family and model; where nothing is found, nothing is covered."""
    out = []
    for case in CASES:
        for model in MODELS:
            some = [row for row in rows if (row["case"], row["model"]) == (case, model)]
            if not some:
                continue
            n, which, note = len(some), f"{case}, {model}", f"stated as {100 * LEVEL:g} %"
            errors = [abs(row["p"] - row["truth"]) for row in some if "p" in row]
            out += [
                Figure(f"{which}: truth in the interval", _mean(some, "covered"), "", ">= 0.8", n, note),
                Figure(f"{which}: median width by range", _median(some, "width"), "", "<= 0.15", n),
                Figure(f"{which}: median error of p", float(np.median(errors or [np.inf])), "", "", n),
                Figure(f"{which}: median seconds", _median(some, "seconds"), "s", "", n),
            ]
    return out


def _mean(rows: Sequence[dict[str, Any]], name: str) -> float:
    return float(np.mean([row[name] for row in rows]))


def _median(rows: Sequence[dict[str, Any]], name: str) -> float:
    return float(np.median([row[name] for row in rows]))


PART = Part("diagrams", "1", tasks, measure, figures)
