"""``python -m benchmarks.estimation``: known equations fitted to textbook problems, beside scipy.

Each problem is drawn with noise of 1, 5 and 20 % of the standard deviation of what is measured.
Both fits are told of it. Ours gets no start; scipy's ``least_squares`` over ``solve_ivp`` begins
near the truth, by random factors of about 1.6. Figures: how much worse than the better of both
each objective is, shares of searches that end in the best minimum, of 90 % profile intervals
that hold the truth, and CPU seconds.
"""

import argparse
import csv
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import least_squares
from threadpoolctl import threadpool_limits

import fim_dynsys
from benchmarks.estimation.problems import PROBLEMS, Problem
from benchmarks.report import align, source_commit
from fim_dynsys.errors import FimDynsysWarning

NOISES = (0.01, 0.05, 0.2)
_FAILED = 1e6  # residual of a path that scipy cannot follow
_FACTOR = 0.5  # standard deviation of the logarithm of scipy's starts over the truth
_WORSE = 10.0  # log-likelihood units: a poor minimum


def trial(problem: Problem, noise: float, seed: int) -> dict[str, object]:
    """One draw: both fits."""
    y, sigma = problem.data(noise, seed)
    row: dict[str, object] = {"problem": problem.name, "noise": noise, "seed": seed}
    u = None
    if problem.inputs:
        functions = list(problem.inputs.values())
        u = lambda t: np.array([f(t) for f in functions])  # noqa: E731
    names = [*problem.expressions, *problem.inputs]
    model = fim_dynsys.load("equations", expressions=dict(problem.expressions), **problem.options())
    began = time.process_time()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            model.fit(y, problem.times, u=u, feature_names=names, sigma=sigma)
        except ValueError as error:
            return row | {"failed": str(error)[:80]}
    row["seconds"] = time.process_time() - began
    row["said"] = any(issubclass(w.category, FimDynsysWarning) for w in said)
    row["share"] = model.fit_.converged_share
    ours = 0.5 * float(np.sum(((problem.path(model.parameters_) - y) / sigma) ** 2))
    began = time.process_time()
    start = np.log(list(problem.truth.values()))
    start = start + _FACTOR * np.random.default_rng(seed + 1000).standard_normal(len(start))

    def residuals(log: np.ndarray) -> np.ndarray:
        path = problem.path(dict(zip(problem.truth, np.exp(log), strict=True)), 1e-7)
        return np.nan_to_num(((path - y) / sigma).ravel(), nan=_FAILED, posinf=_FAILED, neginf=-_FAILED)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = least_squares(residuals, start, x_scale="jac", max_nfev=100)
    row["scipy seconds"] = time.process_time() - began
    best = min(ours, found.cost)
    row["behind"], row["scipy behind"] = ours - best, float(found.cost - best)
    held = []
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, value in problem.truth.items():
            low, high = model.profile(name, (0.9,)).intervals[0.9]
            held.append(low <= value <= high)
    row["profile seconds"] = time.process_time() - began
    row["held"], row["intervals"] = sum(held), len(held)
    return row


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the table and write ``DIR/estimation.csv`` and ``DIR/summary.csv``."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimation", description=__doc__)
    parser.add_argument("--draws", type=int, default=20, help="of each problem and noise; default: 20")
    parser.add_argument("--only", nargs="+", choices=[p.name for p in PROBLEMS], metavar="PROBLEM")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="fit the PEtab problems in its folders instead"
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/estimation/out"), metavar="DIR")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    with threadpool_limits(1):
        if options.data is not None:
            return _petab(options.data, options.out)
        chosen = [p for p in PROBLEMS if not options.only or p.name in options.only]
        trial(PROBLEMS[2], NOISES[0], 999)  # what is compiled or imported at the first fit is no part of it
        rows = []
        for problem in chosen:
            for noise in NOISES:
                rows += [trial(problem, noise, seed) for seed in range(options.draws)]
            print(f"done: {problem.name}", file=sys.stderr, flush=True)
    table = pd.DataFrame(rows)
    commit = source_commit(Path(__file__).parent)
    table.assign(commit=commit).to_csv(options.out / "estimation.csv", index=False, float_format="%.4g")
    lines = _summary(table)
    with (options.out / "summary.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)
    print(align(lines))
    return 0


def _summary(table: pd.DataFrame) -> list[list[str]]:
    """A line for each problem and noise, and one for all; failures count as poor minima."""
    head = ["problem", "noise", "draws", "failed", "poor", "poor, unsaid", "scipy poor", "share", "held 90 %"]
    lines = [[*head, "CPU s", "scipy CPU s", "ratio"]]
    groups = [(key, own) for key, own in table.groupby(["problem", "noise"], sort=False)]
    for (name, noise), own in [*groups, (("all", "all"), table)]:
        failed = own["failed"].notna() if "failed" in own else pd.Series(False, index=own.index)
        fine = own[~failed]
        poor = fine["behind"] > _WORSE
        lines.append(
            [
                str(name),
                str(noise),
                str(len(own)),
                str(int(failed.sum())),
                str(int(poor.sum() + failed.sum())),
                str(int((poor & ~fine["said"].astype(bool)).sum())),
                str(int((fine["scipy behind"] > _WORSE).sum())),
                f"{fine['share'].mean():.2f}",
                f"{100 * fine['held'].sum() / max(fine['intervals'].sum(), 1):.0f}",
                f"{fine['seconds'].median():.3g}",
                f"{fine['scipy seconds'].median():.3g}",
                f"{(fine['seconds'] / fine['scipy seconds']).median():.3g}",
            ]
        )
    return lines


def _petab(folder: Path, out: Path) -> int:
    """Objectives of the problems in a folder's folders."""
    lines = [["problem", "objective", "searches", "share", "CPU s"]]
    for path in sorted(folder.glob("*/*.yaml")):
        began = time.process_time()
        fit = fim_dynsys.equations_from_petab(path).fit()
        seconds = time.process_time() - began
        share, count = fit.fit_.converged_share, len(fit.fit_.values)
        lines.append([path.parent.name, f"{fit.objective:.3f}", str(count), f"{share:.2f}", f"{seconds:.3g}"])
    with (out / "petab.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)
    print(align(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
