"""Which systems a model misses, and why, as far as the trials tell."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd

from benchmarks.harness.trials import TASKS, Problem
from benchmarks.report import REFERENCES, THRESHOLDS, align, tasks_of

REASONS = {
    "undetermined": "truth-fit (the true form fitted to the same data) misses it: chaos or too little data",
    "hardly moves": "the context's spread about its mean is below sigma (at least 0.01) times its size",
    "not polynomial": "a true right-hand side is no polynomial of total degree <= 3",
    "wrong terms": "the model's terms are not exactly the true monomials",
    "constants": "the terms are the true monomials: their coefficients are not good enough",
    "starts outside": "the test starts outside the box of the context's clean trajectory",
    "no solution": "the inferred field could not be integrated to the end",
}
"""What may explain a missed trial. The first that holds is its reason, "unknown" where none does."""
_CELL = ["protocol", "sigma", "rho"]
_TRIAL = [*_CELL, "seed", "system", "ic"]
_SMALLEST_SPREAD = 0.01
OTHER_START = "generalisation"
"""The one task that does not start where the context does."""


def missed_trials(trials: pd.DataFrame, problems: Sequence[Problem]) -> pd.DataFrame:
    """Return a row for each trial and task that a model misses (R2 <= 0.9) with the `REASONS` that hold."""
    by_name = {problem.system: problem for problem in problems}

    @cache
    def facts(system: str, ic: int) -> tuple[float, bool]:
        problem = by_name[system]
        seen = problem.references[ic - 1]
        spread = np.sqrt(np.mean((seen - seen.mean(axis=0)) ** 2) / np.mean(seen**2))
        start = problem.starts[-ic]
        return float(spread), bool(((start < seen.min(axis=0)) | (start > seen.max(axis=0))).any())

    parts = []
    for task in tasks_of(trials):
        missed = trials[~(trials[f"r2_{task}"] > THRESHOLDS[0])]
        known = [facts(system, ic) for system, ic in zip(missed["system"], missed["ic"], strict=True)]
        spread, outside = np.array(known, dtype=float).reshape(-1, 2).T
        undetermined = pd.MultiIndex.from_frame(missed.loc[missed["model"] == "truth-fit", _TRIAL])
        holds = {
            "undetermined": pd.MultiIndex.from_frame(missed[_TRIAL]).isin(undetermined),
            "hardly moves": spread < np.maximum(missed["sigma"], _SMALLEST_SPREAD),
            "starts outside": (outside == 1) & (task == OTHER_START),
            "not polynomial": missed["split_strict"] == "OOD",
            "wrong terms": missed["structure"] == 0,
            "constants": missed["structure"] == 1,
            "no solution": missed[f"status_{task}"] != "SUCCESS",
        }
        table = np.column_stack([np.asarray(holds[name], dtype=bool) for name in REASONS])
        first = np.array([*REASONS, "unknown"])[
            np.where(table.any(axis=1), table.argmax(axis=1), len(REASONS))
        ]
        about = missed[[*_TRIAL, "dim", "split_strict", "model"]].assign(task=task, r2=missed[f"r2_{task}"])
        parts.append(about.assign(reason=first, **dict(zip(REASONS, table.T, strict=True))))
    found = pd.concat(parts, ignore_index=True)
    return found[~found["model"].isin([name for name in REFERENCES if name != "oracle"])]


def missed_systems(missed: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row per cell, model, task and system: trials missed, their commonest reason, counts of all."""
    sizes = trials.groupby([*_CELL, "model", "system"]).size()
    rows = []
    keys = [*_CELL, "model", "task", "system", "dim", "split_strict"]
    for key, part in missed.groupby(keys, sort=False):
        about = dict(zip(keys, key, strict=True))
        about |= {"trials": sizes[tuple(about[name] for name in sizes.index.names)], "missed": len(part)}
        about |= {"r2_median": part["r2"].median(), "reason": part["reason"].value_counts().index[0]}
        rows.append(about | {name: int(part[name].sum()) for name in REASONS})
    return pd.DataFrame(rows, columns=[*keys, "trials", "missed", "r2_median", "reason", *REASONS])


def format_misses(missed: pd.DataFrame, tasks: Sequence[str] = TASKS) -> str:
    """Return tables of missed trials by model and reason with their systems, and what the reasons mean."""
    parts = []
    for protocol, part in missed.groupby("protocol", sort=False):
        cells = list(dict.fromkeys(zip(part["sigma"], part["rho"], strict=True)))
        lines = [["model", "reason", *(f"({sigma:g}, {rho:g})" for sigma, rho in cells), "systems"]]
        for model, own in part.groupby("model", sort=False):
            for reason in (*REASONS, "unknown"):
                rows = own[own["reason"] == reason]
                counts = rows.groupby(["sigma", "rho", "task"])["starts outside"].agg(["size", "sum"])
                counts = counts.reindex([(*cell, task) for cell in cells for task in tasks], fill_value=0)
                texts = [
                    f"{n} ({outside})" if task == OTHER_START else f"{n}"
                    for (*_, task), n, outside in counts.itertuples()
                ]
                cell_texts = [" / ".join(texts[i : i + len(tasks)]) for i in range(0, len(texts), len(tasks))]
                systems = " ".join(sorted(rows["system"].unique(), key=lambda name: (len(name), name)))
                lines.append([model, reason, *cell_texts, systems])
        lines = [line for line in lines if line[-1]]
        names = [f"{task} (of these start outside)" if task == OTHER_START else task for task in tasks]
        title = f"Trials missed, {' / '.join(names)}, by first reason"
        parts.append(f"{title}, protocol {protocol}\n" + align(lines))
    if parts:
        parts.append("\n".join(f"{name}: {meaning}" for name, meaning in REASONS.items()))
    return "\n\n".join(parts)
