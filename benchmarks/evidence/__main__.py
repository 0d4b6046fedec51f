"""``python -m benchmarks.evidence``: does the evidence prefer the model that made the data?"""

import argparse
import csv
import hashlib
import io
import json
import sys
import time
import tomllib
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits
from tqdm import tqdm

import fim_dynsys
from benchmarks import report
from fim_dynsys import SymbolicField, Trajectories, simulate
from fim_dynsys.comparison.closed_forms import log_evidence_of_line
from fim_dynsys.comparison.models import quadrature_check
from fim_dynsys.corruption import add_noise
from fim_dynsys.regression.observed import observe as prepared
from fim_dynsys.writing import replace_file

SIGMA = 0.05
POINTS = 60
LIVE_POINTS = 100
SEEDS = (0, 1, 2)
QUADRATURE_CALLS = 8_000  # nodes per direction are as many as this allows, up to nine
LINE = "falling body"  # not a pair: its evidence has a closed form
Rows = list[dict[str, str]]
COLUMNS = (
    "pair",
    "truth",
    "model",
    "seed",
    "points",
    "sigma",
    "live_points",
    "digest",
    "log_evidence",
    "error",
    "reference",
    "reference_kind",
    "laplace",
    "screen",
    "narrow",
    "wide",
    "calls",
    "cpu_seconds",
)


@dataclass(frozen=True)
class Task:
    """One pair, the model that makes the data, and the noise seed."""

    pair: str
    truth: str
    seed: int

    def key(self, live_points: int) -> tuple[str, ...]:
        """What must be equal for a stored row to answer this task."""
        return (self.pair, self.truth, str(self.seed), str(live_points), digest(self.pair))


def pairs() -> dict[str, dict[str, Any]]:
    """Return the pairs by name."""
    return tomllib.loads((Path(__file__).parent / "pairs.toml").read_text(encoding="utf-8"))


def digest(name: str) -> str:
    """Return eight hex digits that change with the definition of a pair and with the protocol."""
    text = json.dumps([pairs().get(name), SIGMA, POINTS, QUADRATURE_CALLS], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def tasks(names: Iterable[str], seeds: Sequence[int]) -> list[Task]:
    """List the tasks: each model of each pair makes the data once per seed."""
    listed = pairs()
    truths = {name: list(listed[name]["models"]) if name in listed else ["gravity"] for name in names}
    return [Task(name, truth, seed) for name, each in truths.items() for truth in each for seed in seeds]


# ------------------------------------------------------------------------------------------- one task


def observe(pair: dict[str, Any], truth: str, seed: int) -> Trajectories:
    """Return noisy observations of the true model: one trajectory, multiplicative noise."""
    made = pair["models"][truth]
    field = SymbolicField(made["equations"], made["truth"])
    t = np.linspace(0.0, pair["t_end"], POINTS)
    clean = Trajectories.from_arrays(simulate(field, pair["start"], t, rtol=1e-9).x[0], t)
    return add_noise(clean, SIGMA, np.random.default_rng(seed))


def evaluate(task: Task, live_points: int) -> list[dict[str, Any]]:
    """Return a row for each model of a task."""
    if task.pair == LINE:
        return [_falling(task, live_points)]
    pair = pairs()[task.pair]
    data = observe(pair, task.truth, task.seed)
    rows = []
    for name, model in pair["models"].items():
        priors = {p: prior for p, prior in pair["priors"].items() if p in model["truth"]}
        q = len(priors) + data.dim
        nodes = min(9, int(QUADRATURE_CALLS ** (1.0 / q) + 1e-9))
        try:
            laplace, reference = quadrature_check(model["equations"], data, priors, nodes=nodes)
            kind = "quadrature"
        except ValueError:  # no peak: the posterior leans against the end of a prior
            laplace, reference, kind = np.nan, np.nan, ""
        rows.append(
            _row(task, name, model["equations"], data, priors, None, live_points)
            | {
                "reference": reference,
                "reference_kind": kind,
                "laplace": laplace,
                "screen": _screen(model["equations"], data),
            }
        )
    return rows


def _row(
    task: Task,
    name: str,
    equations: list[str],
    data: Trajectories,
    priors: dict[str, Any],
    noise: np.ndarray | None,
    live_points: int,
) -> dict[str, Any]:
    start = time.process_time()
    found = fim_dynsys.evidence(
        {name: equations}, data, priors, noise, live_points=live_points, seed=task.seed, progress=False
    )[name]
    return {
        "pair": task.pair,
        "truth": task.truth,
        "model": name,
        "seed": task.seed,
        "points": POINTS,
        "sigma": SIGMA,
        "live_points": live_points,
        "digest": digest(task.pair),
        "log_evidence": found.log_evidence,
        "error": found.error,
        "narrow": found.narrow,
        "wide": found.wide,
        "calls": found.posterior.calls,
        "cpu_seconds": time.process_time() - start,
    }


def _screen(equations: list[str], data: Trajectories) -> float:
    """Closed form with default priors; nan where a parameter enters otherwise than linearly."""
    try:
        (found,) = fim_dynsys.evidence({"model": equations}, data, method="linear").models
    except ValueError:
        return float("nan")
    return found.log_evidence


def _falling(task: Task, live_points: int) -> dict[str, Any]:
    """Return the row of a body in free fall: height and speed are linear in gravity and both starts."""
    t = np.linspace(0.0, 2.0, POINTS)
    height, speed = 1.0 + 9.0 * t - 4.905 * t**2, 9.0 - 9.81 * t
    clean = np.column_stack([height, speed])
    level = SIGMA * np.sqrt(np.mean(clean**2, axis=0))
    noise = np.random.default_rng(task.seed).standard_normal(clean.shape)
    data = Trajectories.from_arrays(clean + level * noise, t)
    name, equations, prior = "gravity", ["x1", "-g"], ("normal", 0.0, 10.0)
    row = _row(task, name, equations, data, {"g": prior}, level, live_points)
    (found,) = fim_dynsys.evidence({name: equations}, data, {"g": prior}, level, method="laplace").models
    priors = [(prior[1], prior[2]), *((p.first, p.second) for p in found.start_priors)]
    centre, spread = np.array(priors).T
    one, zero = np.ones(POINTS), np.zeros(POINTS)
    design = np.concatenate([np.column_stack([-0.5 * t**2, one, t]), np.column_stack([-t, zero, one])])
    target = data.x[0].T.ravel() - design @ centre
    # the samples' weights are those of the likelihood: its noise law need not be exactly additive
    weights = prepared(data.arrays()).weights[0]
    scale = np.repeat(level, POINTS) * weights.T.ravel() ** -0.5
    exact = log_evidence_of_line(design, target, scale, 1.0 / spread**2)
    return row | {
        "reference": exact,
        "reference_kind": "closed form",
        "laplace": found.log_evidence,
        "screen": np.nan,
    }


# ------------------------------------------------------------------------------------------- the summary


def summarise(rows: Rows, commit: str = "") -> list[dict[str, Any]]:
    """Return a line for each data set: log odds of the truth, their error, those of the screen.

    A truth is preferred where its log odds exceed 0, and clearly so where they exceed three errors.
    """
    lines = []
    for (pair, truth, seed), own in _grouped(rows, "pair", "truth", "seed"):
        if len(own) < 2:
            continue
        (true,) = (row for row in own if row["model"] == truth)
        (other,) = (row for row in own if row["model"] != truth)
        odds = _number(true, "log_evidence") - _number(other, "log_evidence")
        error = float(np.hypot(_number(true, "error"), _number(other, "error")))
        lines.append(
            {
                "pair": pair,
                "truth": truth,
                "seed": seed,
                "log_odds": odds,
                "error": error,
                "preferred": int(odds > 0),
                "clearly": int(odds > 3.0 * error),
                "log_odds_narrow": _number(true, "narrow") - _number(other, "narrow"),
                "log_odds_wide": _number(true, "wide") - _number(other, "wide"),
                "log_odds_screen": _number(true, "screen") - _number(other, "screen"),
                "commit": commit,
            }
        )
    return lines


def format_tables(rows: Rows, summary: Sequence[dict[str, Any]]) -> str:
    """Return the printed report."""
    table = [["pair", "true model", "seed", "log odds of the truth", "preferred", "closed-form screen"]]
    for line in summary:
        screen = line["log_odds_screen"]
        table.append(
            [
                line["pair"],
                line["truth"],
                line["seed"],
                f"{line['log_odds']:.2f} +- {line['error']:.2f}",
                ("yes" if line["preferred"] else "no")
                + ", within 3 errors" * (abs(line["log_odds"]) <= 3 * line["error"]),
                f"{screen:.2f}" if np.isfinite(screen) else "",
            ]
        )
    right, clear = (sum(line[key] for line in summary) for key in ("preferred", "clearly"))
    title = "Nested sampling's log evidence against a reference, in its own errors"
    parts = [
        "Log evidence of the true model less that of the other\n" + report.align(table),
        f"The true model is preferred in {right} of {len(summary)}, by more than three errors in {clear}.",
        f"{title}\n{report.align(_deviations(rows))}",
    ]
    (points,), (live,) = ({row[key] for row in rows} for key in ("points", "live_points"))
    cost = sum(_number(row, "cpu_seconds") for row in rows)
    parts.append(
        f"{points} points, noise {SIGMA:g} (its level integrated out), {live} live points; {cost:.0f} CPU "
        "seconds of nested sampling. No reference where no peak is found: most often, the posterior leans "
        "against the end of a prior. The screen takes default priors, and models linear in their parameters."
    )
    return "\n\n".join(parts)


def _deviations(rows: Rows) -> list[list[str]]:
    """Lines of the table of deviations from closed forms and quadratures."""
    head = ["pair", "model", "reference", "data sets", "root mean square", "largest", "largest in nats"]
    table, pooled = [head], []
    for (pair, model), own in _grouped(rows, "pair", "model"):
        referenced = [row for row in own if row["reference_kind"]]
        if not referenced:
            table.append([pair, model, "none", "0", "", "", ""])
            continue
        nats = [_number(row, "log_evidence") - _number(row, "reference") for row in referenced]
        ratios = np.array(nats) / [_number(row, "error") for row in referenced]
        pooled += ratios.tolist()
        kind, largest = referenced[0]["reference_kind"], f"{max(map(abs, nats)):.2f}"
        table.append([pair, model, kind, *_spread(ratios), largest])
    within = np.mean(np.abs(pooled) < 1.0) if pooled else np.nan
    table.append(["all", "", f"{100 * within:.0f} % within 1", *_spread(np.array(pooled)), ""])
    return table


def _spread(ratios: np.ndarray) -> list[str]:
    if not len(ratios):
        return ["0", "", ""]
    return [str(len(ratios)), f"{np.sqrt(np.mean(ratios**2)):.2f}", f"{np.abs(ratios).max():.2f}"]


def _grouped(rows: Rows, *keys: str) -> list[tuple[tuple[str, ...], Rows]]:
    groups: dict[tuple[str, ...], Rows] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return list(groups.items())


def _number(row: dict[str, str], key: str) -> float:
    return float(row[key] or "nan")


# ------------------------------------------------------------------------------------------- the files


def read(path: Path) -> Rows:
    """Return the rows of an earlier run."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
    """Write rows as CSV, all or nothing; what is not a number is left empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _text(value) for key, value in row.items()} for row in rows)
    replace_file(path, text.getvalue())


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}" if np.isfinite(value) else ""
    return str(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark from the command line and return the exit status."""
    out = Path("benchmarks/evidence/out")
    names = [*pairs(), LINE]
    seeds = " ".join(map(str, SEEDS))
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence", description=__doc__)
    add = parser.add_argument
    add("--only", nargs="+", choices=names, default=names, help="pairs to run; default: all")
    add("--seeds", nargs="+", type=int, default=SEEDS, metavar="N", help=f"noise seeds; default: {seeds}")
    add("--live", type=int, default=LIVE_POINTS, metavar="N", help=f"live points; default: {LIVE_POINTS}")
    add("--limit", type=int, metavar="N", help="first N tasks only")
    add("--out", type=Path, default=out, metavar="DIR", help=f"output folder; default: {out}")
    add("--fresh", action="store_true", help="discard stored rows instead of resuming")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "trials.csv"
    stored = [] if options.fresh else read(path)
    wanted = {task.key(options.live): task for task in tasks(options.only, options.seeds)[: options.limit]}
    answered = _grouped(stored, "pair", "truth", "seed", "live_points", "digest")
    found = {key: rows for key, rows in answered if key in wanted}
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for key in tqdm([key for key in wanted if key not in found], unit="task", disable=None):
            rows = evaluate(wanted[key], options.live)
            found[key] = [{k: _text(v) for k, v in row.items()} for row in rows]
            stored += found[key]
            write(path, stored, COLUMNS)
    rows = [row for key in wanted for row in found[key]]
    summary = summarise(rows, report.source_commit(Path(__file__).parent))
    if summary:
        write(options.out / "summary.csv", summary, list(summary[0]))
    text = format_tables(rows, summary)
    (options.out / "report.txt").write_text(text + "\n", encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
