"""The FIM-ODE paper's three examples: fixed points beside its printed rows, and the portraits."""

import functools
import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from benchmarks.harness.rows import Row, View
from benchmarks.harness.run import Integrator
from benchmarks.harness.trials import Problem
from benchmarks.odebench.facts import problems
from benchmarks.odebench.reference_rows import true_field
from fim_dynsys import corruption
from fim_dynsys.analyze import FixedPoints, fixed_points
from fim_dynsys.fields.base import VectorField
from fim_dynsys.regions import Region
from fim_dynsys.trajectories.container import Trajectories

SYSTEMS = {"28": "pendulum", "42": "CDIMA reaction", "26": "Lotka-Volterra competition"}
SIGMA, POINTS, SEED, IC = 0.03, 256, 0, 1
BOX = Region([-6.0, -6.0], [6.0, 6.0])
COLUMNS = ("system", "model", "x", "y", "class", "max_re_lambda", "residual", "support")
Fields = dict[str, dict[str, VectorField]]
Found = dict[str, dict[str, FixedPoints]]
PUBLISHED = Path(__file__).with_name("published.toml")


@functools.cache
def published() -> dict:
    """Return the printed rows, ``true`` and ``inferred``, and where they are printed."""
    with PUBLISHED.open("rb") as file:
        return tomllib.load(file)


def problem_of(system: str) -> Problem:
    """Return the ODEBench system with this id."""
    return next(problem for problem in problems() if problem.system == system)


def context(problem: Problem) -> Trajectories:
    """Return the noisy observations: 256 of 512 points, evenly thinned, noise of the generator 0."""
    index = np.floor(np.linspace(0, len(problem.t) - 1, POINTS)).astype(int)
    clean = Trajectories.from_arrays(problem.references[IC - 1][index], problem.t[index])
    return corruption.add_noise(clean, SIGMA, np.random.default_rng(SEED))


def fields(rows: Sequence[Row]) -> Fields:
    """Return by system the true field and each row's inferred one."""
    out = {}
    for system in SYSTEMS:
        problem = problem_of(system)
        observed = context(problem)
        out[system] = {"true": true_field(problem)} | {row.name: row.infer(View(observed)) for row in rows}
    return out


def table(found: Found, by_system: Fields) -> pd.DataFrame:
    """Return one line per zero: ours, then those printed in the paper. The residual is |f|, as there."""
    lines = []
    for system in SYSTEMS:
        for model, result in found[system].items():
            field = by_system[system][model]
            for i in np.flatnonzero(result.is_root):
                x, kind = result.x[i].round(12) + 0.0, str(result.kind[i])
                support = float("nan") if model == "true" else result.support[i]
                size = float(np.linalg.norm(field(result.x[i])))
                lines.append((system, model, *x, kind, result.eigenvalues[i, 0].real, size, support))
        for row in (*published()["true"], *published()["inferred"]):
            if row[0] == system:
                lines.append((system, row[1], *row[2], *row[3:], float("nan")))
    return pd.DataFrame(lines, columns=COLUMNS)


def search(by_system: Fields) -> Found:
    """Return the fixed points of each field in the box that the paper searches."""
    return {
        system: {model: fixed_points(field, BOX) for model, field in own.items()}
        for system, own in by_system.items()
    }


def draw(by_system: Fields, found: Found, path: Path) -> None:
    """Draw the portraits: a row for each system, the true field first, on one box each."""
    from matplotlib.figure import Figure

    from fim_dynsys.plot import phase_portrait

    models = list(next(iter(by_system.values())))
    figure = Figure(figsize=(4.2 * len(models), 3.9 * len(SYSTEMS) + 0.4), layout="constrained")
    panels = figure.subplots(len(SYSTEMS), len(models), squeeze=False)
    for row, (system, title) in zip(panels, SYSTEMS.items(), strict=True):
        problem = problem_of(system)
        shown = np.concatenate([*problem.references, found[system]["true"].x])
        region = Region(shown.min(axis=0), shown.max(axis=0)).widened(0.1)
        for ax, (model, field) in zip(row, by_system[system].items(), strict=True):
            phase_portrait(field, found[system][model], region=region, ax=ax, data=False)
            _trajectories(ax, problem, field, model)
            ax.set_title(f"{title}: {model}", fontsize=10)
    entries = {}
    for ax in panels.ravel():
        entries |= dict(zip(*ax.get_legend_handles_labels()[::-1], strict=True))
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=5, fontsize=8)
    figure.savefig(path, dpi=80)


def _trajectories(ax: Axes, problem: Problem, field: VectorField, model: str) -> None:
    """The observations, and solutions from both initial states in the true and in the inferred field."""
    observed = context(problem)
    ax.plot(*np.asarray(observed.x)[0].T, "x", color="0.35", markersize=2.5, zorder=2.5, label="observed")
    states, _ = Integrator().solve(field, problem.starts, problem.t, problem.size)
    for number, style in enumerate(("-", "--")):
        name = f"from initial state {number + 1}"
        true, inferred = problem.references[number].T, states[number].T
        ax.plot(*true, style, color="tab:green", lw=1.6, zorder=2.6, label=f"true, {name}")
        if model != "true":
            ax.plot(*inferred, style, color="tab:orange", lw=1.2, zorder=2.7, label=f"inferred, {name}")
