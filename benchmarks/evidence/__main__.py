"""``python -m benchmarks.evidence``: does the evidence prefer the model that made the data?"""

import argparse
import csv
import sys
import time
import tomllib
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

import fim_dynsys
from fim_dynsys import SymbolicField, Trajectories, simulate
from fim_dynsys.comparison import quadrature_check
from fim_dynsys.corruption import add_noise

SIGMA = 0.05
POINTS = 60
COLUMNS = (
    "pair",
    "truth",
    "model",
    "seed",
    "points",
    "sigma",
    "live_points",
    "version",
    "log_evidence",
    "error",
    "laplace",
    "quadrature",
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


def pairs():
    """The pairs by name."""
    return tomllib.loads((Path(__file__).parent / "pairs.toml").read_text(encoding="utf-8"))


def observe(pair, truth, seed):
    """Noisy observations of the true model (multiplicative noise)."""
    made = pair["models"][truth]
    field = SymbolicField(made["equations"], made["truth"])
    t = np.linspace(0.0, pair["t_end"], POINTS)
    clean = Trajectories.from_arrays(simulate(field, pair["start"], t, rtol=1e-9).x[0], t)
    return add_noise(clean, SIGMA, np.random.default_rng(seed))


def evaluate(task, live_points):
    """Rows of both models of a task."""
    pair = pairs()[task.pair]
    data = observe(pair, task.truth, task.seed)
    models = {name: model["equations"] for name, model in pair["models"].items()}
    rows = []
    for name, equations in models.items():
        names = {p for p in pair["priors"] if p in pair["models"][name]["truth"]}
        priors = {p: pair["priors"][p] for p in sorted(names)}
        start = time.process_time()
        options = {"live_points": live_points, "seed": task.seed, "progress": False}
        (found,) = fim_dynsys.evidence({name: equations}, data, priors, **options).models
        spent = time.process_time() - start
        laplace, exact = quadrature_check(equations, data, priors)
        rows.append(
            {
                "pair": task.pair,
                "truth": task.truth,
                "model": name,
                "seed": task.seed,
                "points": POINTS,
                "sigma": SIGMA,
                "live_points": live_points,
                "version": fim_dynsys.__version__,
                "log_evidence": f"{found.log_evidence:.4f}",
                "error": f"{found.error:.4f}",
                "laplace": f"{laplace:.4f}",
                "quadrature": f"{exact:.4f}",
                "narrow": f"{found.narrow:.4f}",
                "wide": f"{found.wide:.4f}",
                "calls": found.posterior.calls,
                "cpu_seconds": f"{spent:.2f}",
            }
        )
    return rows


def summarise(rows):
    """One row per pair and truth: how often and by how much the truth is preferred, and the errors."""
    out = []
    for pair, truth in dict.fromkeys((row["pair"], row["truth"]) for row in rows):
        own = [row for row in rows if (row["pair"], row["truth"]) == (pair, truth)]
        seeds = sorted({row["seed"] for row in own}, key=int)
        gaps, errors, misses = [], [], []
        for seed in seeds:
            values = {row["model"]: row for row in own if row["seed"] == seed}
            other = next(row for name, row in values.items() if name != truth)
            gaps.append(float(values[truth]["log_evidence"]) - float(other["log_evidence"]))
            errors.append(float(np.hypot(float(values[truth]["error"]), float(other["error"]))))
            misses += [
                (float(row["log_evidence"]) - float(row["quadrature"])) / float(row["error"])
                for row in values.values()
            ]
        out.append(
            {
                "pair": pair,
                "truth": truth,
                "seeds": len(seeds),
                "preferred": sum(gap > 0 for gap in gaps),
                "smallest_log_odds": f"{min(gaps):.2f}",
                "median_log_odds": f"{np.median(gaps):.2f}",
                "largest_error": f"{max(errors):.2f}",
                "largest_deviation_from_quadrature_in_errors": f"{max(map(abs, misses)):.2f}",
            }
        )
    return out


def read(path):
    """Rows of an earlier run."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(path, rows, columns):
    """Write rows as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main(arguments=None):
    """Run from the command line and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence", description=__doc__)
    add = parser.add_argument
    add("--only", nargs="+", choices=list(pairs()), help="pairs to run; default: all")
    add("--seeds", nargs="+", type=int, default=[0], help="noise seeds; default: 0")
    add("--live", type=int, default=150, help="live points; default: 150")
    add("--limit", type=int, help="first N tasks only")
    add("--out", type=Path, default=Path("benchmarks/evidence/out"), help="output folder")
    add("--fresh", action="store_true", help="discard stored rows instead of resuming")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "trials.csv"
    rows = [] if options.fresh else read(path)
    tasks = [
        Task(name, truth, seed)
        for name in options.only or pairs()
        for truth in pairs()[name]["models"]
        for seed in options.seeds
    ][: options.limit]
    known = {(row["pair"], row["truth"], row["seed"], row["live_points"]) for row in rows}
    missing = [t for t in tasks if (t.pair, t.truth, str(t.seed), str(options.live)) not in known]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for task in tqdm(missing, unit="task", disable=None):
            rows += [{k: str(v) for k, v in row.items()} for row in evaluate(task, options.live)]
            write(path, rows, COLUMNS)
    summary = summarise(rows)
    write(options.out / "summary.csv", summary, list(summary[0]))
    for row in summary:
        print("  ".join(f"{k} {v}" for k, v in row.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
