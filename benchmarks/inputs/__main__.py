"""``python -m benchmarks.inputs``: twenty driven systems, predicted under an input that no model has seen.

Each is observed in two records over twelve typical times under two inputs, of 30 samples, or of 60 under
inputs of four kinds that jump, with additive noise; the score is the R2 of the path over fifteen from a third
state under a third input, a chirp. pysindy stands there with the best of twelve settings for each context, by
that score itself.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

import fim_dynsys
from benchmarks import report, study
from benchmarks.harness.rows import Inferred, Row, View
from benchmarks.harness.run import Job, attempt, cached_outcomes, joined
from benchmarks.inputs import figures
from benchmarks.inputs.systems import KINDS, SYSTEMS, Driven
from fim_dynsys import metrics
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.models.judging import driven

BEST = "sindy, best of 12"
MODELS = ("fim-ode", "sindy-strong", "auto", BEST)
SIGMAS = (0.0, 0.02, 0.05)
GOALS = (90.0, 80.0, 65.0), (95.0, 90.0, 85.0)
"""Percent at these, where inputs are ramps and where they jump."""

SUCCESS = 0.9
_SETTINGS = tuple(product((2, 3), (0.02, 0.1, 0.3), ("FiniteDifference", "SmoothedFiniteDifference")))


@dataclass(frozen=True)
class Context:
    """One context: a system, and how it is seen."""

    system: str
    sigma: float
    seed: int
    kind: str = KINDS[0]


@dataclass(frozen=True)
class BestRow:
    """Stock pysindy with inputs at the one of twelve settings whose path is the nearest to the true one.

    Degree 2 and 3, thresholds 0.02, 0.1 and 0.3 of STLSQ, finite differences with smoothing and without.
    """

    name: str = BEST
    sees_truth: ClassVar[bool] = True

    @property
    def version(self) -> str:
        """That of `sindy`, which is pysindy as it comes."""
        return str(fim_dynsys.load("sindy").version)

    def infer(self, view: View) -> Inferred:
        """Return the best of the fields; the last error where there is none."""
        fields, errors = [], []
        for degree, threshold, method in _SETTINGS:
            model = fim_dynsys.load(
                "sindy",
                optimizer={"class": "STLSQ", "threshold": threshold},
                feature_library={"class": "PolynomialLibrary", "degree": degree},
                differentiation_method={"class": method},
            )
            found = attempt(model.infer, view.context)
            if found.value is None:
                errors.append(found.message)
            else:
                fields.append((_score(found.value, view.problem), len(fields), found.value))
        if not fields:
            raise ValueError(f"{self.name}: expected a fit, got {errors[-1]}.")
        return max(fields, key=lambda own: (np.nan_to_num(own[0], nan=-np.inf), -own[1]))[2]


def _score(field: DrivenField, system: Driven) -> float:
    """Return the R2 of the path under the new input; nan where it leaves all bounds."""
    start, u = system.paths[-1][0], system.inputs[-1]
    path, _ = driven(field, start, system.times[-1], u)
    return metrics.r2_score(system.paths[-1], path)


def evaluate(row: Row, system: Driven, context: Context) -> dict[str, Any]:
    """Return a row's score, its CPU seconds and equations; an exception is an outcome like another."""
    view = View.of(row, system.context(context.sigma, context.seed), system, context)
    inferred = attempt(row.infer, view)
    scored = inferred.then(_score, system)
    value = float("nan") if scored.value is None else float(scored.value)
    return {
        "r2": value,
        "infer_seconds": inferred.seconds,
        "status": scored.status,
        "message": scored.message,
        "equations": "; ".join(inferred.value.equations(3)) if inferred.succeeded else "",
    }


def run(
    rows: Sequence[Row],
    folder: Path,
    seeds: Sequence[int] = (0, 1),
    systems: Sequence[Driven] = SYSTEMS,
    workers: int = 1,
    fresh: bool = False,
    progress: bool = False,
) -> pd.DataFrame:
    """Return one record per row and context; clean contexts have one seed."""
    keys = [
        (Context(system.name, sigma, seed, system.kind), system)
        for sigma in SIGMAS
        for seed in (seeds if sigma else seeds[:1])
        for system in systems
    ]
    jobs = [Job(key, system.digest(), (system, key)) for key, system in keys]
    outcomes = cached_outcomes(evaluate, rows, jobs, folder, "inputs 2", workers, fresh, progress)
    return pd.DataFrame(joined(rows, jobs, outcomes)).drop(columns="message")


def summarise(trials: pd.DataFrame, commit: str = "") -> pd.DataFrame:
    """Return one line per kind, noise and model: percent of successes, median R2 and seconds, failures."""
    lines = []
    for (kind, sigma, model, version), own in trials.groupby(
        ["kind", "sigma", "model", "version"], sort=False
    ):
        lines.append(
            {
                "kind": kind,
                "sigma": sigma,
                "model": model,
                "version": version,
                "percent": 100.0 * float((own["r2"] > SUCCESS).mean()),
                "goal": GOALS[kind != KINDS[0]][SIGMAS.index(sigma)],
                "median_r2": float(own["r2"].fillna(-np.inf).median()),
                "median_seconds": float(own["infer_seconds"].median()),
                "failures": int((own["status"] != "SUCCESS").sum()),
                "n": len(own),
                "commit": commit,
            }
        )
    return pd.DataFrame(lines)


def format_tables(summary: pd.DataFrame, trials: pd.DataFrame) -> str:
    """Return the printed report: successes by noise, and what each model missed."""
    lines = [["inputs", "model", *(f"noise {100 * sigma:g} %" for sigma in SIGMAS), "CPU s"]]
    for (kind, model), own in summary.groupby(["kind", "model"], sort=False):
        by = own.set_index("sigma")["percent"]
        cells = [f"{by[sigma]:.1f}" if sigma in by else "" for sigma in SIGMAS]
        lines.append([str(kind), str(model), *cells, f"{own['median_seconds'].median():.2g}"])
    for what, goals in zip((KINDS[0], "that jump"), GOALS, strict=True):
        lines.append([what, "goal", *(f"{goal:g}" for goal in goals), ""])
    missed = trials[~(trials["r2"] > SUCCESS)]
    each = [
        f"{kind}, {model}, noise {sigma:g}: " + ", ".join(own["system"].drop_duplicates())
        for (kind, model, sigma), own in missed.groupby(["kind", "model", "sigma"], sort=False)
    ]
    return "\n".join(
        [
            "Percent of contexts with R2 > 0.9 of the path under a new input",
            report.align(lines),
            "",
            "Missed",
            *each,
        ]
    )


def _systems(limit: int | None) -> list[Driven]:
    """The systems, under inputs of every kind."""
    return [replace(system, kind=kind) for kind in KINDS for system in SYSTEMS[:limit]]


STUDY = study.Study(
    "inputs",
    __doc__,
    MODELS,
    {
        "trials": study.Part(
            run=lambda rows, options: [
                run(
                    rows,
                    options.out,
                    options.seeds,
                    _systems(options.limit),
                    options.workers,
                    options.fresh,
                    progress=True,
                )
            ],
            text=format_tables,
            summarise=summarise,
            draw=figures.draw,
        )
    },
    {BEST: BestRow},
    seeds=(0,),
    limit="first N systems",
)
main = partial(study.main, STUDY)

if __name__ == "__main__":
    sys.exit(main())
