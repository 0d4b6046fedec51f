"""``python -m benchmarks.ablation``: what each stage of a search gains, and what it costs.

Each model is fitted without one of its stages to records of several kinds with several noise seeds; its
field predicts a path from another start. A stage gains what the predictions lose without it: in paths with
R2 above 0.9, and in decades of the share of variance that is missed. Errors are standard errors over systems,
the seeds of one system counted as one.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import report, study
from benchmarks.ablation.records import KINDS, DrivenRecord, Record, Seen, miss, records
from benchmarks.ablation.rows import LEFT_OUT, AblatedRow
from benchmarks.harness.rows import Row, View
from benchmarks.harness.run import Job, attempt, cached_outcomes, joined

SUCCESS = 0.9
_ROWS = {
    row.name: row for model, parts in LEFT_OUT.items() for row in (AblatedRow(model, own) for own in parts)
}


def evaluate(row: Row, record: Record | DrivenRecord, key: Seen) -> dict[str, Any]:
    """Fit one context and predict; an exception is an outcome like another, and misses everything."""
    found = attempt(row.infer, View.of(row, record.context(key.seed), record, key))
    scored = found.then(record.r2)
    r2 = float("nan") if scored.value is None else float(scored.value)
    return {"r2": r2, "status": scored.status, "infer_seconds": found.seconds, "message": scored.message}


def run(rows: Sequence[Row], options: argparse.Namespace) -> list[pd.DataFrame]:
    """One line for each row and context; what the folder holds is not computed again."""
    jobs = [
        Job(
            Seen(record.kind, record.name, seed),
            record.digest(),
            (record, Seen(record.kind, record.name, seed)),
        )
        for record in records()
        if record.kind in (options.kinds or KINDS)
        for seed in options.seeds
    ]
    outcomes = cached_outcomes(
        evaluate, rows, jobs, options.out, "dop853 or lsoda, rtol 1e-8", options.workers, options.fresh, True
    )
    return [pd.DataFrame(joined(rows, jobs, outcomes, lambda job: {}))]


def _error(values: pd.Series) -> float:
    """Standard error of a mean; nan of a single value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def summarise(trials: pd.DataFrame, commit: str = "") -> pd.DataFrame:
    """One line for each row and kind, and for all kinds together: gains of what the row leaves out."""
    trials = trials.assign(won=100.0 * (trials["r2"] > SUCCESS), miss=trials["r2"].map(miss))
    lines = []
    for model in LEFT_OUT:
        names = [name for name in dict.fromkeys(trials["model"]) if name.partition(" without ")[0] == model]
        for name in names:
            for kind in ("all", *dict.fromkeys(trials["kind"])):
                part = trials if kind == "all" else trials[trials["kind"] == kind]
                index = ["kind", "name", "seed"]
                own, whole = (part[part["model"] == each].set_index(index) for each in (name, model))
                if own.empty:
                    continue
                whole = whole.loc[own.index]
                gains = pd.DataFrame({"won": whole["won"] - own["won"], "miss": own["miss"] - whole["miss"]})
                mean = gains.groupby(["kind", "name"]).mean()
                lines.append(
                    {
                        "model": model,
                        "without": name.partition(" without ")[2],
                        "kind": kind,
                        "n": len(own),
                        "systems": len(mean),
                        "failures": int((own["status"] != "SUCCESS").sum()),
                        "percent_r2_090": own["won"].mean(),
                        "gain_percent": mean["won"].mean(),
                        "se_percent": _error(mean["won"]),
                        "won": int((gains["won"] > 0).sum()),
                        "lost": int((gains["won"] < 0).sum()),
                        "gain_decades": mean["miss"].mean(),
                        "se_decades": _error(mean["miss"]),
                        "seconds": own["infer_seconds"].mean(),
                        "share_of_time": 1.0 - own["infer_seconds"].sum() / whole["infer_seconds"].sum(),
                        "version": own["version"].iloc[0],
                        "seeds": " ".join(map(str, sorted(part["seed"].unique()))),
                        "commit": commit,
                    }
                )
    return pd.DataFrame(lines)


def text(summary: pd.DataFrame, trials: pd.DataFrame) -> str:
    """The printed report: a table for each kind of records."""
    head = ["left out", "R2 > 0.9", "gain, points", "won, lost", "gain, decades", "CPU s", "share of time"]
    tables = []
    for (model, kind), part in summary.groupby(["model", "kind"], sort=False):
        lines = [head]
        for line in part.itertuples():
            gain = [
                f"{line.gain_percent:+.1f} ± {line.se_percent:.1f}",
                f"{line.won}, {line.lost}",
                f"{line.gain_decades:+.3f} ± {line.se_decades:.3f}",
            ]
            whole = not line.without
            lines.append(
                [
                    line.without or "nothing",
                    f"{line.percent_r2_090:.1f}",
                    *([""] * 3 if whole else gain),
                    f"{line.seconds:.2f}",
                    "" if whole else f"{100.0 * line.share_of_time:.0f} %",
                ]
            )
        contexts, systems = part["n"].max(), part["systems"].max()
        tables.append(f"{model}, {kind}: {contexts} contexts of {systems} systems\n" + report.align(lines))
    failures = trials[trials["status"] != "SUCCESS"]
    tables.append(f"Failures of {len(trials)} fits and predictions: {len(failures)}")
    return "\n\n".join(tables)


def _options(commands: argparse.ArgumentParser) -> None:
    commands.add_argument("--kinds", nargs="+", choices=KINDS, help="kinds of records; default: all")


STUDY = study.Study(
    "ablation",
    __doc__,
    tuple(_ROWS),
    {
        "trials": study.Part(
            run=run,
            text=text,
            summarise=summarise,
            by=("model", "kind", "name", "seed"),
            order=("model", "kind", "name", "seed"),
        )
    },
    own_rows={name: (lambda row=row: row) for name, row in _ROWS.items()},
    seeds=(0, 1),
    options=_options,
)

main = partial(study.main, STUDY)

if __name__ == "__main__":
    sys.exit(main())
