"""``python -m benchmarks.records``: records of many kinds, and how far fits may be trusted.

``--only kinds``: largest error of the rates along the true path, relative to the largest rate.
``--only trust``: how often fits of each level of `FitInfo.trust`, and paths of each level of `trust_along`,
are wrong for another initial state, on the development systems and on the records.
``--only published``: share of unseen paths that are followed (R2 > .9), on twenty published systems in
realistic units of which nothing was chosen; three records of 60 irregular samples each.
``--only textbook``: how often fits to records without noise are exact, of ten textbook systems, of few and
many samples, integrated with several tolerances; and how many others nothing warns of.
"""

import hashlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import cli, report, study
from benchmarks.development.problems import problems
from benchmarks.harness.rows import ModelRow, Row
from benchmarks.harness.run import Job, attempt, cached_outcomes, joined
from benchmarks.harness.trials import Problem
from benchmarks.records.kinds import KINDS, SYSTEMS, Record, error, observe, true_field, unseen
from benchmarks.records.published import PUBLISHED, RECORDS, Published
from benchmarks.records.textbook import NUMBERS, TEXTBOOK, TOLERANCES, Integrated
from fim_dynsys.fields.inference import Trust
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.judging import judged

MODELS = ("fim-ode", "sindy-strong", "sindy")
SIGMAS = (0.0, 0.03)
PUBLISHED_SIGMAS = (0.0, 0.03, 0.1)
_APART = 1000  # seeds of one draw from those of the next, more than there are systems
CONTEXTS = ((0.0, 50), (0.03, 60), (0.05, 24), (0.1, 60))
"""Noise in standard deviations of the states and number of samples, where trust is measured."""

WRONG, GOOD = 0.5, 0.9  # R2 of the path from the other initial state, below and above
EXACT_PATH, EXACT_RATES = 0.9999, 1e-3
"""R2 of the path from another initial state, and largest error of rates along it over the largest."""


# ---------------------------------------------------------------------- kinds of records


def evaluate(row: Row, record: Record) -> dict[str, Any]:
    """Fit one record; an exception of the model is an outcome like another."""
    seen, true = observe(record), true_field(record.system)
    assert isinstance(row, ModelRow)
    fitted = attempt(partial(row.fit, **seen.given))
    found = fitted.then(lambda model: error(model.field_(seen.states), true(seen.states)))
    return {
        "seconds": fitted.seconds,
        "status": found.status,
        "message": found.message,
        "error": float("nan") if found.value is None else found.value,
    }


def _trials(
    evaluated: Callable[..., dict[str, Any]],
    rows: Sequence[Row],
    jobs: Sequence[Job],
    what: str,
    options: study.Options,
) -> list[pd.DataFrame]:
    """The table of a part: every row on every job; what the folder holds is not computed again."""
    found = cached_outcomes(
        evaluated, rows, jobs, options.out, what, options.workers, options.fresh, progress=True
    )
    return [pd.DataFrame(joined(rows, jobs, found)).drop(columns="message")]


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
    return _trials(evaluate, rows, jobs, "kinds", options)


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
    """One noisy context: from one initial state of a development system, or a record of a kind."""

    system: str
    kind: str
    sigma: float
    n: int
    draw: int


@dataclass(frozen=True)
class Asked:
    """What a model is given, and the path from another initial state.

    Attributes
    ----------
    given : dict
        Arguments of ``fit``.
    t, states : arrays (n,), (n, d)
        Times and true states.
    """

    given: dict[str, Any]
    t: np.ndarray
    states: np.ndarray

    @classmethod
    def of_development(cls, problem: Problem, ic: int, place: int, sigma: float, n: int) -> "Asked":
        """A number of noisy samples from one initial state; asked for is the path from the other."""
        rows = np.linspace(0, len(problem.t) - 1, n).astype(int)
        own, other = problem.references[ic], problem.references[1 - ic]
        rng = np.random.default_rng([place, ic, n, int(1000 * sigma)])
        x = own[rows] + sigma * own.std(axis=0) * rng.standard_normal((n, problem.dim))
        return cls({"x": x, "t": problem.t[rows]}, problem.t, other)

    @classmethod
    def of_record(cls, record: Record) -> "Asked":
        """A record of a kind."""
        return cls(observe(record).given, *unseen(record.system))


def evaluate_trust(row: Row, asked: Asked) -> dict[str, Any]:
    """Fit one context; what the fit says of itself, and the R2 of the path from the other initial state."""
    assert isinstance(row, ModelRow)
    fitted = attempt(partial(row.fit, **asked.given))
    scored = fitted.then(_unseen, asked.states, asked.t)
    outcome = {"seconds": fitted.seconds, "status": scored.status, "message": scored.message}
    unknown = {"held_out_r2": float("nan"), "trust": "", "trust_along": "", "elsewhere": float("nan")}
    return outcome | (scored.value or unknown)


def _unseen(model: VectorFieldModel, states: np.ndarray, t: np.ndarray) -> dict[str, Any]:
    r2 = _path_r2(model, states, t)
    info = model.field_.fit_info
    apart, along = info.inference.elsewhere, model.trust_along(states[0], t)
    return {
        "held_out_r2": max(r2, -1e6),
        "trust": "" if info.trust is None else info.trust.value,
        "trust_along": "" if along is None else along.value,
        "elsewhere": float("nan") if apart is None else apart,
        "problems": len(info.problems),
    }


def _path_r2(model: VectorFieldModel, states: np.ndarray, t: np.ndarray) -> float:
    """Mean R2 of the states along a path from its first state; minus infinity where the path ends early."""
    path = judged(model.field_, [states[0]], [t]).paths[0]
    spread = np.maximum(np.sum((states - states.mean(axis=0)) ** 2, axis=0), 1e-300)
    ended = not np.isfinite(path).all()
    return -np.inf if ended else float(np.mean(1.0 - np.sum((path - states) ** 2, axis=0) / spread))


def contexts(limit: int | None = None) -> list[tuple[Context, Asked]]:
    """Four contexts of each development system, then one record of each system and kind with 3 % noise.

    Levels of trust were chosen on draw 0. Draw 1 has the other initial states and other noise.
    """
    found = []
    for draw in (0, 1):
        for place, problem in enumerate(cli.limited(problems(), limit)):
            for number, (sigma, n) in enumerate(CONTEXTS):
                seed, start = place + _APART * draw, (place + number + draw) % 2
                asked = Asked.of_development(problem, start, seed, sigma, n)
                found.append((Context(problem.system, "development", sigma, n, draw), asked))
        for system, kind in product(cli.limited(list(SYSTEMS), limit), KINDS):
            asked = Asked.of_record(Record(system, kind, SIGMAS[-1], draw))
            found.append((Context(system, kind, SIGMAS[-1], len(asked.given["t"]), draw), asked))
    return found


def run_trust(rows: Sequence[Row], options: study.Options) -> list[pd.DataFrame]:
    """Every row on every context."""
    jobs = []
    for context, asked in contexts(options.limit):
        arrays = (*asked.given.values(), asked.t, asked.states)
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()
        jobs.append(Job(context, digest[:16], (asked,)))
    return _trials(evaluate_trust, rows, jobs, "trust 3", options)


def summarise_trust(trials: pd.DataFrame, commit: str = "") -> pd.DataFrame:
    """A line for each model, draw, measure and level: how many fits have it, how many are wrong, and good.

    Measures are ``trust`` of the fit and ``trust_along`` the path that is asked for.
    """
    lines = []
    for (model, version, draw), own in trials.groupby(["model", "version", "draw"], sort=False):
        wrong, good = own["held_out_r2"] < WRONG, own["held_out_r2"] > GOOD
        for of, level in product(("trust", "trust_along"), (*(t.value for t in Trust), "")):
            part = own[of].fillna("") == level
            if part.any():
                lines.append(
                    {
                        "model": model,
                        "version": version,
                        "draw": draw,
                        "of": of,
                        "level": level or "not known",
                        "n": int(part.sum()),
                        "percent_wrong": 100.0 * float(wrong[part].mean()),
                        "percent_good": 100.0 * float(good[part].mean()),
                        "of_wrong": 100.0 * float((wrong & part).sum() / max(wrong.sum(), 1)),
                        "of_good": 100.0 * float((good & part).sum() / max(good.sum(), 1)),
                        "failures": int((own["status"][part] != "SUCCESS").sum()),
                        "commit": commit,
                    }
                )
    return pd.DataFrame(lines)


def text_of_trust(summary: pd.DataFrame, trials: pd.DataFrame) -> str:
    """The printed report of `summarise_trust`."""
    lines = [["model", "draw", "of", "level", "fits", "wrong", "good", "of all wrong fits", "of all good"]]
    names = {"trust": "fit", "trust_along": "path"}
    for _, own in summary.iterrows():
        shares = (f"{own[name]:.0f} %" for name in ("percent_wrong", "percent_good", "of_wrong", "of_good"))
        lines.append(
            [str(own["model"]), str(own["draw"]), names[own["of"]], str(own["level"]), str(own["n"]), *shares]
        )
    title = (
        f"Trust in fits, and in the path from another state: wrong, R2 < {WRONG} of it; good, > {GOOD}. "
        "Levels were chosen on draw 0; draw 1 has the other initial states and other noise"
    )
    return f"{title}\n{report.align(lines)}"


# ---------------------------------------------------------------------- published systems


@dataclass(frozen=True)
class Draw:
    """Records of a published system: its name, noise in standard deviations of the states, and its draw."""

    system: str
    sigma: float
    seed: int


def evaluate_published(row: Row, system: Published, draw: Draw) -> dict[str, Any]:
    """Fit the records of a system; the R2 of each unseen path."""
    assert isinstance(row, ModelRow)
    fitted = attempt(partial(row.fit, **system.given(draw.sigma, draw.seed)))
    scored = fitted.then(_of_unseen_paths, system)
    outcome = {"seconds": fitted.seconds, "status": scored.status, "message": scored.message}
    unknown = {"followed": 0.0, "least_r2": float("nan"), "warned": False, "trust": "", "equations": ""}
    return outcome | (scored.value or unknown)


def _of_unseen_paths(model: VectorFieldModel, system: Published) -> dict[str, Any]:
    times, states = (of[RECORDS:] for of in system.paths)
    found = [max(_path_r2(model, x, t), -1e6) for x, t in zip(states, times, strict=True)]
    info = model.field_.fit_info
    return {
        "followed": float(np.mean([r2 > GOOD for r2 in found])),
        "least_r2": min(found),
        "warned": bool(info.problems),
        "trust": "" if info.trust is None else info.trust.value,
        "equations": "; ".join(model.equations(precision=3)),
    }


def run_published(rows: Sequence[Row], options: study.Options) -> list[pd.DataFrame]:
    """Every row on every system."""
    draws = [
        (system, Draw(system.name, sigma, seed))
        for system in cli.limited(list(PUBLISHED), options.limit)
        for sigma in PUBLISHED_SIGMAS
        for seed in options.seeds[: 1 if not sigma else None]
    ]
    jobs = [Job(draw, "1", (system, draw)) for system, draw in draws]
    return _trials(evaluate_published, rows, jobs, "published", options)


def summarise_published(trials: pd.DataFrame, commit: str = "") -> pd.DataFrame:
    """A line for each model and noise: the share of paths that are followed, and its error over systems."""
    lines = []
    for key, part in trials.groupby(["sigma", "model", "version"], sort=False):
        of_systems = 100.0 * part.groupby("system")["followed"].mean()
        line: dict[str, Any] = dict(zip(("sigma", "model", "version"), key, strict=True))
        line |= {"n": len(part), "failures": int((part["status"] != "SUCCESS").sum())}
        line |= {"percent_followed": of_systems.mean()}
        line |= {"standard_error": of_systems.std(ddof=1) / np.sqrt(len(of_systems))}
        wrong = part["followed"] < 1.0
        marked = part["warned"].astype(bool) | (part["trust"] == Trust.LOW.value)
        line |= {"wrong": int(wrong.sum()), "wrong_marked": int((wrong & marked).sum())}
        line |= {"good_marked": int((~wrong & marked).sum())}
        lines.append(line | {"seconds_median": part["seconds"].median(), "commit": commit})
    return pd.DataFrame(lines)


def text_of_published(summary: pd.DataFrame, trials: pd.DataFrame) -> str:
    """The printed report of `summarise_published`."""
    models = list(dict.fromkeys(summary["model"]))
    lines = [["noise", *models]]
    for sigma, part in summary.groupby("sigma", sort=False):
        by = part.set_index("model")
        cells = [
            f"{by.loc[m, 'percent_followed']:.0f} ± {by.loc[m, 'standard_error']:.0f}"
            if m in by.index
            else ""
            for m in models
        ]
        lines.append([f"{100 * sigma:g} %", *cells])
    title = f"Unseen paths of {len(PUBLISHED)} published systems with R2 > {GOOD}, percent"
    return f"{title}\n{report.align(lines)}"


# ---------------------------------------------------------------------- textbook systems


def evaluate_textbook(row: Row, record: Integrated) -> dict[str, Any]:
    """Fit one record; whether the field is the true one, and what the fit says of itself."""
    assert isinstance(row, ModelRow)
    t, x = record.observed()
    fitted = attempt(partial(row.fit, x=x, t=t))
    scored = fitted.then(_against_truth, record)
    outcome = {"seconds": fitted.seconds, "status": scored.status, "message": scored.message}
    unknown = {"r2": float("nan"), "error": float("nan"), "warned": False, "trust": "", "equations": ""}
    return outcome | (scored.value or unknown)


def _against_truth(model: VectorFieldModel, record: Integrated) -> dict[str, Any]:
    t, states = record.unseen()
    info = model.field_.fit_info
    return {
        "r2": max(_path_r2(model, states, t), -1e6),
        "error": error(model.field_(states), record.true()(states)),
        "warned": bool(info.problems),
        "trust": "" if info.trust is None else info.trust.value,
        "equations": "; ".join(model.equations(precision=4)),
    }


def run_textbook(rows: Sequence[Row], options: study.Options) -> list[pd.DataFrame]:
    """Every row on every record."""
    records = [
        Integrated(*drawn)
        for drawn in product(cli.limited(list(TEXTBOOK), options.limit), NUMBERS, TOLERANCES)
    ]
    jobs = [Job(record, "1", (record,)) for record in records]
    return _trials(evaluate_textbook, rows, jobs, "textbook 2", options)


def summarise_textbook(trials: pd.DataFrame, commit: str = "") -> pd.DataFrame:
    """A line for each model, number of samples and tolerance: exact fits, and others without a warning."""
    lines = []
    for key, part in trials.groupby(["model", "version", "n", "rtol"], sort=False):
        exact = (part["r2"] > EXACT_PATH) & (part["error"] < EXACT_RATES)
        marked = part["warned"].astype(bool) | (part["trust"] == Trust.LOW.value)
        line: dict[str, Any] = dict(zip(("model", "version", "n", "rtol"), key, strict=True))
        line |= {"records": len(part), "failures": int((part["status"] != "SUCCESS").sum())}
        line |= {"exact": int(exact.sum()), "exact_marked": int((exact & marked).sum())}
        line |= {"silent": ", ".join(part["system"][~exact & ~marked])}
        seconds = {"seconds_median": part["seconds"].median(), "seconds_largest": part["seconds"].max()}
        lines.append(line | seconds | {"commit": commit})
    return pd.DataFrame(lines)


def text_of_textbook(summary: pd.DataFrame, trials: pd.DataFrame) -> str:
    """The printed report of `summarise_textbook`."""
    lines = [
        ["model", "samples", "tolerance", "exact", "of these marked", "neither exact nor marked", "CPU-s"]
    ]
    for _, own in summary.iterrows():
        exact = f"{own['exact']} of {own['records']}"
        seconds = f"{own['seconds_median']:.2g} ({own['seconds_largest']:.2g})"
        lines.append(
            [
                *(str(own["model"]), str(own["n"]), f"{own['rtol']:g}"),
                *(exact, str(own["exact_marked"]), str(own["silent"] or "none"), seconds),
            ]
        )
    title = (
        f"Ten textbook systems without noise: exact where R2 > {EXACT_PATH} of the path from another start, "
        f"and rates along it err by less than {EXACT_RATES:g}; CPU-s: median (largest)"
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
        "published": study.Part(
            run_published,
            text_of_published,
            summarise_published,
            tables=("published",),
            summary="published_summary",
            report="published",
        ),
        "textbook": study.Part(
            run_textbook,
            text_of_textbook,
            summarise_textbook,
            tables=("textbook",),
            summary="textbook_summary",
            report="textbook",
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
