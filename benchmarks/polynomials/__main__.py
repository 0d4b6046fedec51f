"""``python -m benchmarks.polynomials``: random polynomials up to degree 3 and 6, from one short context."""

import argparse
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import report, study
from benchmarks.harness.rows import Inferred, Row, TruthRow, View
from benchmarks.harness.run import Integrator, Job, attempt, cached_outcomes
from benchmarks.harness.trials import TASKS
from benchmarks.polynomials import figures
from benchmarks.polynomials.systems import PRIORS, SEED, Draw, Polynomial, counts, draw_systems, polynomials
from fim_dynsys import metrics
from fim_dynsys.fields.base import VectorField

MODELS = ("fim-ode", "sindy-strong", "sindy-strong:degree=6", "sindy")
SIGMAS = {"noisy": 0.03, "clean": 0.0}
POINTS, TRAJECTORIES = (50, 100, 200, 250), (1, 9, 12)
SYSTEMS, FULL = 400, 4_000
GRID_SYSTEMS, GRID_FULL = 20, 400
THRESHOLDS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
PARTS = (*SIGMAS, "grid")
PUBLISHED = Path(__file__).with_name("published.toml")


def true_field(system: Polynomial) -> VectorField:
    """Return the true field of a system."""
    return system.field


def evaluate(row: Row, system: Polynomial, draw: Draw, integrator: Integrator) -> dict[str, Any]:
    """Infer from one context, predict its trajectories and the new one, and compare fields in the box.

    An exception of the model is an outcome like another: no R2 and its class as the status.
    """
    inferred = attempt(row.infer, View.of(row, system.context(draw), system, draw))
    scored = inferred.then(_scores, system, draw, integrator)
    failed = {"r2": [float("nan")] * (draw.trajectories + 1), "rmse": float("nan"), "cosine": float("nan")}
    return {
        "infer_seconds": inferred.seconds if inferred.succeeded else float("nan"),
        "status": scored.status,
        "message": scored.message,
        **(scored.value or failed),
    }


def _scores(inferred: Inferred, system: Polynomial, draw: Draw, integrator: Integrator) -> dict[str, Any]:
    wanted = [*range(draw.trajectories), -1]
    truth = system.states[wanted]
    paths, _ = integrator.predict(inferred, truth[:, 0], system.t, float(np.abs(system.states).max()))
    scores: dict[str, Any] = {"r2": [metrics.r2_score(x, y) for x, y in zip(truth, paths, strict=True)]}
    if isinstance(inferred, VectorField):
        points = system.box_points(draw)
        off = inferred(points) - system.field(points)
        scores["rmse"] = float(np.sqrt(np.mean(np.sum(off**2, axis=1))))
        scores["cosine"] = 1.0 - metrics.field_error(inferred, system.field, points, "cosine")
    else:
        scores |= {"rmse": float("nan"), "cosine": float("nan")}
    return scores


def cells(part: str) -> Iterator[tuple[int, int, int, float]]:
    """Yield degree, points, trajectories and noise of the contexts of a part."""
    if part in SIGMAS:
        yield from ((degree, 200, 1, SIGMAS[part]) for degree in PRIORS)
    else:
        yield from ((3, n, k, 0.0) for n, k in product(POINTS, TRAJECTORIES))


def jobs(part: str, n: int, folder: Path, integrator: Integrator, seed: int = SEED) -> list[Job]:
    """Return every context of a part, n systems of each degree."""
    drawn: dict[tuple[int, int, int], list[Polynomial]] = {}
    found = []
    for degree, points, trajectories, sigma in cells(part):
        for dim, count in (item for item in counts(n).items() if item[1]):
            place = degree, dim, points
            if place not in drawn:
                own = seed + 100_000 * degree + 10_000 * dim
                systems = draw_systems(PRIORS[degree], dim, count, own, folder / "systems")
                drawn[place] = list(polynomials(systems, points))
            for number, system in enumerate(drawn[place]):
                draw = Draw(degree, dim, number, points, trajectories, sigma)
                found.append(Job(draw, system.digest(), (system, draw, integrator)))
    return found


def run(
    rows: Sequence[Row],
    part: str,
    n: int,
    folder: Path,
    workers: int = 1,
    fresh: bool = False,
    progress: bool = False,
    seed: int = SEED,
) -> pd.DataFrame:
    """Return one record per row, context and trajectory; outcomes in `folder` are not computed again."""
    integrator = Integrator()
    listed = jobs(part, n, folder, integrator, seed)
    outcomes = cached_outcomes(evaluate, rows, listed, folder, str(integrator), workers, fresh, progress)
    records = []
    for job, of_rows in zip(listed, outcomes, strict=True):
        for row, outcome in zip(rows, of_rows, strict=True):
            about = {"part": part, **asdict(job.key), "model": row.name, "version": row.version}
            about |= {name: outcome[name] for name in FIELD}
            records += [
                {**about, "task": TASKS[k == job.key.trajectories], "trajectory": k, "r2": r2}
                for k, r2 in enumerate(outcome["r2"])
            ]
    return pd.DataFrame(records)


FIELD = ("rmse", "cosine", "infer_seconds", "status")
CELL = ["part", "degree", "sigma", "points", "trajectories", "model", "version"]


def summarise(trials: pd.DataFrame, commit: str = "") -> pd.DataFrame:
    """Return one line per cell, model, task and dimension: successes by threshold, medians of the field."""
    lines = []
    for group, part in [("all", trials), *((f"dim={d}", p) for d, p in trials.groupby("dim"))]:
        for key, cell in part.groupby([*CELL, "task"], sort=False):
            line: dict[str, Any] = dict(zip([*CELL, "task"], key, strict=True)) | {"group": group}
            line |= {f"percent_r2_{t:g}": 100.0 * float((cell["r2"] > t).mean()) for t in THRESHOLDS}
            once = cell[cell["trajectory"] == cell["trajectory"].min()]
            line |= {"n": len(cell), "failures": int((once["status"] != "SUCCESS").sum())}
            line |= {f"{name}_median": float(once[name].median()) for name in FIELD[:3]}
            lines.append(line | {"seed": SEED, "commit": commit})
    return pd.DataFrame(lines)


GROUPS = ("all", "dim=1", "dim=2", "dim=3")


def study_lines(summary: pd.DataFrame, degree: int, sigma: float) -> list[list[str]]:
    """Return the table of one degree and noise level as lines of cells, published rows at its end."""
    study = summary[summary["part"] != "grid"]
    study = study[(study["degree"] == degree) & (study["sigma"] == sigma)]
    lines = [["model", "version", "all", "1-D", "2-D", "3-D", "RMSE", "cosine", "CPU s"]]
    for (model, version), own in study.groupby(["model", "version"], sort=False):
        by = own.set_index(["group", "task"])
        field = by.loc[("all", TASKS[0])]
        lines.append([model, version, *(_pair(by, group) for group in GROUPS if group in set(own["group"]))])
        lines[-1] += [f"{field['rmse_median']:.3g}", f"{field['cosine_median']:.3f}"]
        lines[-1].append(f"{field['infer_seconds_median']:.2g}")
    with PUBLISHED.open("rb") as file:
        published = tomllib.load(file)["row"]
    lines += [
        [row["method"], "published", " / ".join(f"{v:.1f}" for v in row[str(degree)])] for row in published
    ]
    return [line + [""] * (len(lines[0]) - len(line)) for line in lines]


def grid_lines(grid: pd.DataFrame) -> list[list[str]]:
    """Return one model's successes and field by points and trajectories as lines of cells."""
    lines = [["points", *(f"{k} trajectories" if k > 1 else "1 trajectory" for k in TRAJECTORIES)]]
    for n, own in grid[grid["group"] == "all"].groupby("points"):
        by = own.set_index(["trajectories", "task"])
        lines.append([str(n)])
        for k in TRAJECTORIES:
            field = by.loc[(k, TASKS[0])]
            lines[-1].append(f"{_pair(by, k)}; {field['rmse_median']:.3g}, {field['cosine_median']:.3f}")
    return lines


def _pair(cells: pd.DataFrame, place: str | int) -> str:
    return " / ".join(f"{cells.loc[(place, task), 'percent_r2_0.9']:.1f}" for task in TASKS)


def format_tables(summary: pd.DataFrame) -> str:
    """Return the printed report, published figures below ours."""
    parts = []
    study = summary[summary["part"] != "grid"]
    for degree, sigma in study.groupby(["degree", "sigma"]).groups:
        title = (
            f"Degree <= {degree}, noise {sigma:g}: percent of trajectories with R2 > 0.9, {' / '.join(TASKS)}"
        )
        parts.append(f"{title}\n{report.align(study_lines(summary, degree, sigma))}")
    for model, grid in summary[summary["part"] == "grid"].groupby("model", sort=False):
        title = (
            f"{model}, degree <= 3, clean: percent with R2 > 0.9, {' / '.join(TASKS)}; median RMSE, cosine"
        )
        parts.append(f"{title}\n{report.align(grid_lines(grid))}")
    with PUBLISHED.open("rb") as file:
        citation = tomllib.load(file)["citation"]
    parts.append(f"Published rows: {citation}. Integrated by {Integrator()}")
    return "\n\n".join(parts)


def run_parts(rows: Sequence[Row], options: study.Options) -> list[pd.DataFrame]:
    """Run the parts that were asked for."""
    study, grid = (FULL, GRID_FULL) if options.full else (SYSTEMS, GRID_SYSTEMS)
    frames = [
        run(
            rows[:1] if part == "grid" else rows,
            part,
            options.systems or (grid if part == "grid" else study),
            options.out,
            options.workers,
            options.fresh,
            progress=True,
        )
        for part in options.only or (PARTS if options.full else PARTS[:1])
    ]
    return [pd.concat(frames, ignore_index=True)]


def add_options(commands: argparse.ArgumentParser) -> None:
    """Add what this benchmark alone asks."""
    add = commands.add_argument
    text = "default: noisy; clean: laws are sought to the digits, far longer; grid: the first model"
    add("--only", nargs="+", choices=PARTS, help=text)
    add(
        "--systems",
        type=int,
        metavar="N",
        help=f"of each degree; default: {SYSTEMS}, in the grid {GRID_SYSTEMS}",
    )


STUDY = study.Study(
    "polynomials",
    __doc__,
    MODELS,
    {
        "trials": study.Part(
            run=run_parts,
            text=lambda summary, _: format_tables(summary),
            summarise=summarise,
            draw=figures.draw,
            by=("part", "model"),
            order=("part", "model"),
        )
    },
    {"truth": lambda: TruthRow(true_field)},
    full=f"all parts; {FULL} systems of each degree, in the grid {GRID_FULL}",
    options=add_options,
)
main = partial(study.main, STUDY)

if __name__ == "__main__":
    sys.exit(main())
