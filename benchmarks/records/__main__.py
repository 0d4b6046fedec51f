"""``python -m benchmarks.records``: records of many kinds, and how far fits may be trusted.

``--only kinds``: largest error of the rates along the true path, relative to the largest rate.
``--only trust``: how often fits of each level of `FitInfo.trust` are wrong for the other initial state of
the development systems.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import fim_dynsys
from benchmarks import cli, report, study
from benchmarks.development.problems import problems
from benchmarks.harness.rows import ModelRow, Row
from benchmarks.harness.run import Job, attempt, cached_outcomes, joined
from benchmarks.harness.trials import Problem, data_digest
from benchmarks.records.kinds import KINDS, SYSTEMS, Record, error, observe, true_field
from fim_dynsys.fields.inference import Trust
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.judging import judged

MODELS = ("fim-ode", "sindy-strong", "sindy")
SIGMAS = (0.0, 0.03)
CONTEXTS = ((0.0, 50), (0.03, 60), (0.05, 24), (0.1, 60))
"""Noise in standard deviations of the states and number of samples, where trust is measured."""

WRONG, GOOD = 0.5, 0.9  # R2 of the path from the other initial state, below and above


# ---------------------------------------------------------------------- kinds of records


def _fitted(row: Row, **given: Any) -> VectorFieldModel:
    assert isinstance(row, ModelRow)
    model = fim_dynsys.load(row.model, **dict(row.params))
    assert isinstance(model, VectorFieldModel)
    return model.fit(**given)


def evaluate(row: Row, record: Record) -> dict[str, Any]:
    """Fit one record; an exception of the model is an outcome like another."""
    seen, true = observe(record), true_field(record.system)
    fitted = attempt(lambda: _fitted(row, **seen.given))
    found = fitted.then(lambda model: error(model.field_(seen.states), true(seen.states)))
    return {
        "seconds": fitted.seconds,
        "status": found.status,
        "message": found.message,
        "error": float("nan") if found.value is None else found.value,
    }


def run_kinds(rows: Sequence[Row], options: study.Options) -> list[pd.DataFrame]:
    """Every row on every record."""
    records = [
        Record(system, kind, sigma, seed)
        for system in cli.limited(list(SYSTEMS), options.limit)
        for kind in KINDS
        for sigma in SIGMAS
        for seed in options.seeds[: 1 if not sigma else None]
    ]
    jobs = [Job(record, "1", (record,)) for record in records]
    found = cached_outcomes(
        evaluate, rows, jobs, options.out, "kinds", options.workers, options.fresh, progress=True
    )
    return [pd.DataFrame(joined(rows, jobs, found)).drop(columns="message")]


def summarise_kinds(trials: pd.DataFrame, commit: str = "") -> pd.DataFrame:
    """A line for each model, kind and noise: the median error over the systems, and failures."""
    lines = []
    for key, part in trials.groupby(["kind", "sigma", "model", "version"], sort=False):
        line: dict[str, Any] = dict(zip(("kind", "sigma", "model", "version"), key, strict=True))
        line |= {"n": len(part), "failures": int((part["status"] != "SUCCESS").sum())}
        line |= {"error_median": part["error"].median(), "error_largest": part["error"].max()}
        lines.append(line | {"seconds_median": part["seconds"].median(), "commit": commit})
    return pd.DataFrame(lines)


def text_of_kinds(summary: pd.DataFrame, trials: pd.DataFrame) -> str:
    """The printed report of `summarise_kinds`."""
    models = list(dict.fromkeys(summary["model"]))
    lines = [["kind", "noise", *models]]
    for (kind, sigma), part in summary.groupby(["kind", "sigma"], sort=False):
        by = part.set_index("model")
        cells = [_cell(by.loc[m]) if m in by.index else "" for m in models]
        lines.append([str(kind), f"{100 * sigma:g} %", *cells])
    title = "Largest error of rates along the true path, over the largest rate: median of systems (failures)"
    return f"{title}\n{report.align(lines)}"


def _cell(line: pd.Series) -> str:
    return f"{line['error_median']:.2g} ({int(line['failures'])} of {int(line['n'])})"


# ---------------------------------------------------------------------- trust


@dataclass(frozen=True)
class Context:
    """One noisy context of a development system: it observes one initial state, the other is predicted."""

    system: str
    ic: int
    sigma: float
    n: int


def evaluate_trust(row: Row, problem: Problem, context: Context) -> dict[str, Any]:
    """Fit one context; what the fit says of itself, and the R2 of the path from the other initial state."""
    rows = np.linspace(0, len(problem.t) - 1, context.n).astype(int)
    own, other = problem.references[context.ic], problem.references[1 - context.ic]
    place = [p.system for p in problems()].index(problem.system)
    rng = np.random.default_rng([place, context.ic, context.n, int(1000 * context.sigma)])
    x = own[rows] + context.sigma * own.std(axis=0) * rng.standard_normal((context.n, problem.dim))
    fitted = attempt(lambda: _fitted(row, x=x, t=problem.t[rows]))
    scored = fitted.then(_unseen, other, problem.t)
    outcome = {"seconds": fitted.seconds, "status": scored.status, "message": scored.message}
    return outcome | (scored.value or {"held_out_r2": float("nan"), "trust": "", "elsewhere": float("nan")})


def _unseen(model: VectorFieldModel, states: np.ndarray, t: np.ndarray) -> dict[str, Any]:
    path = judged(model.field_, [states[0]], [t]).paths[0]
    spread = np.maximum(np.sum((states - states.mean(axis=0)) ** 2, axis=0), 1e-300)
    ended = not np.isfinite(path).all()
    r2 = -np.inf if ended else float(np.mean(1.0 - np.sum((path - states) ** 2, axis=0) / spread))
    info = model.field_.fit_info
    apart = info.inference.elsewhere
    return {
        "held_out_r2": max(r2, -1e6),
        "trust": "" if info.trust is None else info.trust.value,
        "elsewhere": float("nan") if apart is None else apart,
        "problems": len(info.problems),
    }


def run_trust(rows: Sequence[Row], options: study.Options) -> list[pd.DataFrame]:
    """Every row on every context."""
    jobs = []
    for place, problem in enumerate(cli.limited(problems(), options.limit)):
        for number, (sigma, n) in enumerate(CONTEXTS):
            context = Context(problem.system, (place + number) % 2, sigma, n)
            jobs.append(Job(context, data_digest(problem), (problem, context)))
    found = cached_outcomes(
        evaluate_trust, rows, jobs, options.out, "trust", options.workers, options.fresh, progress=True
    )
    return [pd.DataFrame(joined(rows, jobs, found)).drop(columns="message")]


def summarise_trust(trials: pd.DataFrame, commit: str = "") -> pd.DataFrame:
    """A line for each model and level: how many fits have it, how many of these are wrong, and good."""
    lines = []
    for (model, version), own in trials.groupby(["model", "version"], sort=False):
        wrong = own["held_out_r2"] < WRONG
        for level in (*(t.value for t in Trust), ""):
            part = own[own["trust"].fillna("") == level]
            if not len(part):
                continue
            lines.append(
                {
                    "model": model,
                    "version": version,
                    "trust": level or "not known",
                    "n": len(part),
                    "percent_wrong": 100.0 * float((part["held_out_r2"] < WRONG).mean()),
                    "percent_good": 100.0 * float((part["held_out_r2"] > GOOD).mean()),
                    "of_wrong": 100.0 * float(wrong[part.index].sum() / max(wrong.sum(), 1)),
                    "of_others": 100.0 * float((~wrong[part.index]).sum() / max((~wrong).sum(), 1)),
                    "failures": int((part["status"] != "SUCCESS").sum()),
                    "commit": commit,
                }
            )
    return pd.DataFrame(lines)


def text_of_trust(summary: pd.DataFrame, trials: pd.DataFrame) -> str:
    """The printed report of `summarise_trust`."""
    lines = [["model", "trust", "fits", "wrong", "good", "of all wrong fits", "of all others"]]
    for _, own in summary.iterrows():
        shares = (f"{own[name]:.0f} %" for name in ("percent_wrong", "percent_good", "of_wrong", "of_others"))
        lines.append([str(own["model"]), str(own["trust"]), str(own["n"]), *shares])
    title = (
        f"Fits by their trust: wrong, R2 < {WRONG} of the path from the other initial state; good, > {GOOD}"
    )
    return f"{title}\n{report.align(lines)}"


STUDY = study.Study(
    "records",
    __doc__,
    MODELS,
    {
        "kinds": study.Part(
            run_kinds,
            text_of_kinds,
            summarise_kinds,
            tables=("kinds",),
            summary="kinds_summary",
            report="kinds",
        ),
        "trust": study.Part(
            run_trust,
            text_of_trust,
            summarise_trust,
            tables=("trust",),
            summary="trust_summary",
            report="trust",
        ),
    },
    seeds=(0,),
    full_seeds=(0, 1, 2),
    limit="N systems only",
    full="three noise seeds",
)
main = partial(study.main, STUDY)

if __name__ == "__main__":
    sys.exit(main())
