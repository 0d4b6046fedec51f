"""Error bars of limit cycles: do stated intervals of the period hold the true field's?"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import report
from benchmarks.calibration.bands import FittedRow
from benchmarks.calibration.points import LEVEL, MEMBERS, SETTINGS
from benchmarks.calibration.records import about, records
from benchmarks.development import problems as development
from benchmarks.harness.rows import Row
from benchmarks.harness.run import Outcome, attempt
from benchmarks.harness.trials import Problem, Trial, observe
from fim_dynsys import systems
from fim_dynsys.analyze import LimitCycles, limit_cycles
from fim_dynsys.analyze.bands.cycles import cycle_bands
from fim_dynsys.analyze.matching import assigned, extents
from fim_dynsys.analyze.results import SUPPORTED, WIDENED

SEEDS = tuple(range(10))
_BUDGET = 1_000_000
_APART = 0.01  # of the period
_FARTHEST = 0.25  # share of the region's size by which an orbit's extent may be off
_REACHED = 0.1  # of an orbit's extent: a trajectory that ends so close has shown the cycle


@cache
def true_cycles(name: str) -> LimitCycles:
    """Return the stable cycles of a development system in its region."""
    system = systems.get(name)
    return limit_cycles(system.field(), system.region, budget=_BUDGET)


def problems(limit: int | None) -> list[Problem]:
    """Return the development systems with a stable cycle, and no two of nearly one period."""
    chosen = [p for p in development.problems() if p.dim > 1 and _distinct(true_cycles(p.system))]
    return chosen[:limit]


def _distinct(cycles: LimitCycles) -> bool:
    """Whether there are stable cycles that a period tells apart."""
    periods = np.sort(cycles.period[cycles.stable])
    return len(periods) > 0 and bool((np.diff(periods) > _APART * periods[:-1]).all())


def evaluate(row: FittedRow, problem: Problem, trial: Trial) -> dict[str, Any]:
    """The true field's stable cycles that the trajectory comes to, and what was found and stated of each.

    Returns
    -------
    dict
        ``status``, ``message``, CPU ``seconds``, and ``cycles``: for each true one its ``truth``, and
        where it was found ``estimate``, ``half`` width, ``existence``, ``support`` and ``misfit``.
    """
    tried = attempt(_cycles, row, problem, trial)
    found = [] if tried.value is None else tried.value
    return {"status": tried.status, "message": tried.message, "cycles": found, "seconds": tried.seconds}


def _cycles(row: FittedRow, problem: Problem, trial: Trial) -> list[dict[str, Any]]:
    true = true_cycles(problem.system)
    path = problem.references[trial.ic - 1]
    shown = [k for k in np.flatnonzero(true.stable) if _reached(true.orbits[k], path[-1])]
    if not shown:
        return []
    context = observe(problem, trial)
    model = row.fit(context)
    region = context.box().widened(WIDENED)
    own = model.field_.draws(1) is not None
    draws = {} if own else {"n_draws": model.ensemble(MEMBERS)}
    cycles = limit_cycles(model, region, budget=_BUDGET)
    bands = cycle_bands(model, region, cycles=cycles, level=LEVEL, **draws)
    half = np.ptp(bands.period_interval(), axis=1) / 2.0
    pairs = dict(
        assigned(
            extents([true.orbits[k] for k in shown], region),
            extents(bands.cycles.orbits, region),
            _FARTHEST * np.sqrt(problem.dim),
        )
    )
    return [
        {"truth": float(true.period[k])}
        | (
            {
                "estimate": float(bands.cycles.period[pairs[i]]),
                "half": float(half[pairs[i]]),
                "existence": float(bands.existence[pairs[i]]),
                "support": float(bands.cycles.support[pairs[i]]),
                "misfit": bands.misfit,
            }
            if i in pairs
            else {}
        )
        for i, k in enumerate(shown)
    ]


def _reached(orbit: np.ndarray, x: np.ndarray) -> bool:
    """Whether a state lies near an orbit, in units of its extent."""
    return bool((np.abs(orbit - x) / np.ptp(orbit, axis=0)).max(axis=1).min() < _REACHED)


def run(
    rows: Sequence[Row],
    seeds: Sequence[int],
    limit: int | None,
    folder: Path,
    workers: int = 1,
    fresh: bool = False,
    progress: bool = False,
) -> pd.DataFrame:
    """Return one record per trial, row and true cycle; outcomes that `folder` holds are known."""
    how = (folder, workers, fresh, progress)
    label = "cycles, conditioned draws"
    return pd.DataFrame(records(evaluate, problems(limit), SETTINGS, seeds, rows, label, about, _lines, *how))


def _lines(outcome: Outcome) -> list[dict[str, Any]]:
    return [{"found": "estimate" in cycle} | cycle | _held(cycle) for cycle in outcome["cycles"]]


def _held(cycle: dict[str, Any]) -> dict[str, bool]:
    """Whether the interval holds the true period, of a cycle that was found."""
    known = "estimate" in cycle
    return {"held": abs(cycle["estimate"] - cycle["truth"]) <= cycle["half"]} if known else {}


def summarise(trials: pd.DataFrame, commit: str = "") -> pd.DataFrame:
    """Return coverages by model, for systems that cubic polynomials express, the others, and all."""
    lines = []
    groups: dict[str, pd.DataFrame] = {
        "all": trials,
        "expressible": trials[trials["expressible"]],
        "not expressible": trials[~trials["expressible"]],
        "data nearby": trials[trials["support"] >= SUPPORTED],
    }
    for group, part in groups.items():
        for (model, version), own in part.groupby(["model", "version"], sort=False):
            found = own[own["found"] & np.isfinite(own["half"])]
            error = (found["estimate"] - found["truth"]).abs()
            line = {"model": model, "version": version, "group": group}
            line |= {"contexts": len(own.drop_duplicates(["system", "ic", "seed"])), "cycles": len(own)}
            line |= {"found": len(found), "period": float(found["held"].astype(bool).mean())}
            line |= {"width": float((2.0 * found["half"] / found["truth"]).median())}
            lines.append({**line, "error": float((error / found["truth"]).median()), "commit": commit})
    return pd.DataFrame(lines)


def format_table(summary: pd.DataFrame) -> str:
    """Return the printed report."""
    rows = [["systems", "model", "contexts", "cycles", "found", "held", "median error", "median width"]]
    for _, line in summary.iterrows():
        counts = [str(line[name]) for name in ("contexts", "cycles", "found")]
        shares = [f"{100 * line[name]:.1f}" for name in ("period", "error", "width")]
        rows.append([line["group"], line["model"], *counts, *shares])
    return (
        "Periods of limit cycles of the development split, noise 0.03: percent of the true periods that 90 % "
        "intervals hold\n" + report.align(rows) + "\n\n"
        "Cycles that the clean trajectory comes to. Errors and widths in percent of the period."
    )
