"""``python -m benchmarks.estimation``: known equations fitted to textbook problems, beside scipy.

Each problem is drawn with noise of 1, 5 and 20 % of the standard deviation of what is measured, which all
fits know. Ours gets no start. scipy's ``least_squares`` over ``solve_ivp`` begins *near* the truth, by random
factors of about 1.6; and *far* from it, anywhere within factors of 32, which is as far as our own starts are
from natural sizes, up to five times, until it reaches the better optimum of both. Each search of scipy may
call the rates 300,000 times. Figures: how much worse than the best each objective is, shares of our searches
that end in the best minimum and of 90 % profile intervals that hold the truth, and CPU seconds. Outcomes are
kept one by one: an interrupted run goes on.
"""

import argparse
import contextlib
import hashlib
import itertools
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import least_squares
from threadpoolctl import threadpool_limits

import fim_dynsys
from benchmarks.estimation import petab_folders
from benchmarks.estimation.problems import PROBLEMS, Problem, Work
from benchmarks.harness.cache import RowCache
from benchmarks.report import align, save, source_commit
from fim_dynsys.errors import FimDynsysWarning
from fim_dynsys.models.equations import EquationsModel

NOISES = (0.01, 0.05, 0.2)
_FAILED = 1e6  # residual of a path that scipy cannot follow
_NEAR = 0.5  # standard deviation of the logarithm of scipy's near starts over the truth
_FAR = 1.5  # decades about the truth, of the far ones
_CALLS = 300_000  # of the rates, in one search of scipy
_RESTARTS = 5  # far starts at most
_POOR = 10.0  # log-likelihood units: a poor minimum
_EQUAL = 0.1  # the same: an equal optimum


@dataclass(frozen=True)
class Draw:
    """One draw of a problem.

    Attributes
    ----------
    problem : str
        Its name.
    noise : float
        Of the standard deviation of what is measured.
    seed : int
        Of the errors and of scipy's starts.
    """

    problem: str
    noise: float
    seed: int


def trial(problem: Problem, noise: float, seed: int, y: np.ndarray, sigma: np.ndarray) -> dict[str, Any]:
    """All fits of one draw."""
    u: Callable[[float], np.ndarray] | None = None
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
            return {"failed": str(error)[:80]}
    row: dict[str, Any] = {"failed": "", "seconds": time.process_time() - began}
    row["said"] = any(issubclass(w.category, FimDynsysWarning) for w in said)
    row["share"] = model.fit_.converged_share
    space = model.fit_.space
    row["outside"] = bool((model.fit_.natural < space.natural_low).any())
    row["outside"] |= bool((model.fit_.natural > space.natural_high).any())
    path = problem.path(model.parameters_)
    ours = 0.5 * float(np.sum(((path - y) / sigma) ** 2))
    if np.isnan(ours):  # scipy takes too many steps at a sign: by our own path
        ours = 0.5 * model.fit_.descent.evaluation.misfit * y.size
    rng = np.random.default_rng(seed + 1000)
    truth = np.log(list(problem.truth.values()))
    near, row["near_seconds"] = _searched(problem, y, sigma, truth + _NEAR * rng.standard_normal(len(truth)))
    best, spent, restarts, far = min(ours, near), 0.0, 0, np.inf
    while restarts < _RESTARTS and far > best + _EQUAL:
        start = truth + np.log(10.0) * _FAR * rng.uniform(-1.0, 1.0, len(truth))
        cost, seconds = _searched(problem, y, sigma, start)
        far, spent, restarts = min(far, cost), spent + seconds, restarts + 1
        best = min(best, far)
    row |= {"far_seconds": spent, "far_starts": restarts}
    row |= {"behind": ours - best, "near_behind": near - best, "far_behind": far - best}
    held = []
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, value in problem.truth.items():
            low, high = model.profile(name, (0.9,)).intervals[0.9]
            held.append(low <= value <= high)
    row["profile_seconds"] = time.process_time() - began
    return row | {"held": sum(held), "intervals": len(held)}


def _searched(problem: Problem, y: np.ndarray, sigma: np.ndarray, start: np.ndarray) -> tuple[float, float]:
    """Where scipy's search from logarithms of the parameters ends, and its CPU seconds."""
    work, began = Work(_CALLS), time.process_time()
    reached = np.inf

    def residuals(log: np.ndarray) -> np.ndarray:
        nonlocal reached
        if not work.left > 0:
            raise StopIteration
        path = problem.path(dict(zip(problem.truth, np.exp(log), strict=True)), 1e-7, work=work)
        found = np.nan_to_num(((path - y) / sigma).ravel(), nan=_FAILED, posinf=_FAILED, neginf=-_FAILED)
        reached = min(reached, 0.5 * float(found @ found))
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(StopIteration):
            least_squares(residuals, start, x_scale="jac", max_nfev=100)
    return reached, time.process_time() - began


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the summary and write ``DIR/trials.csv`` and ``DIR/summary.csv``."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimation", description=__doc__)
    parser.add_argument("--draws", type=int, default=20, help="of each problem and noise; default: 20")
    parser.add_argument("--only", nargs="+", choices=[p.name for p in PROBLEMS], metavar="PROBLEM")
    parser.add_argument("--fresh", action="store_true", help="forget the outcomes of earlier runs")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="fit the PEtab problems in its folders instead"
    )
    parser.add_argument(
        "--write-petab", type=Path, metavar="DIR", help="write the draws as PEtab folders instead"
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/estimation/out"), metavar="DIR")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = [p for p in PROBLEMS if not options.only or p.name in options.only]
    if options.write_petab is not None:
        for problem in [p for p in petab_folders.exported() if p in chosen]:
            for noise, seed in itertools.product(NOISES, range(options.draws)):
                print(petab_folders.write(problem, noise, seed, options.write_petab))
        return 0
    with threadpool_limits(1):
        if options.data is not None:
            return _petab(options.data, options.out)
        table = pd.DataFrame(_trials(chosen, options.draws, options.out, options.fresh))
    commit = source_commit(Path(__file__).parent)
    save(table.assign(commit=commit), options.out / "trials.csv", 4)
    found = summary(table)
    save(found.assign(commit=commit), options.out / "summary.csv", 4)
    print(align([list(found), *(_texts(line) for line in found.itertuples(index=False))]))
    return 0


def _trials(chosen: Sequence[Problem], draws: int, out: Path, fresh: bool) -> list[dict[str, Any]]:
    """A row for each draw: problems take turns, so that a run may be ended at any time."""
    row = {"name": EquationsModel.name, "version": EquationsModel.version}
    cache = RowCache.open(out / "cache", row, fresh)
    warm, rows = False, []
    for seed in range(draws):
        for problem in chosen:
            for noise in NOISES:
                y, sigma = problem.data(noise, seed)
                key, digest = Draw(problem.name, noise, seed), hashlib.sha256(y.tobytes()).hexdigest()
                if (key, digest) not in cache:
                    if not warm:  # what is compiled or imported at the first fit is no part of it
                        trial(PROBLEMS[2], NOISES[0], 999, *PROBLEMS[2].data(NOISES[0], 999))
                        warm = True
                    cache.add(key, digest, trial(problem, noise, seed, y, sigma))
                rows.append({**vars(key), **cache.get(key, digest)})
        print(f"done: draw {seed + 1} of {draws}", file=sys.stderr, flush=True)
    place = {problem.name: k for k, problem in enumerate(chosen)}
    return sorted(rows, key=lambda r: (place[r["problem"]], r["noise"], r["seed"]))


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """A line for each problem and noise, and one for all; failures count as poor minima.

    Standard errors of coverage are over draws: intervals of one draw go together. Ratios of CPU time are of
    fits that end in equal optima.
    """
    lines = []
    groups = [(key, own) for key, own in table.groupby(["problem", "noise"], sort=False)]
    for (name, noise), own in [*groups, (("all", "all"), table)]:
        failed = own["failed"] != ""
        fine = own[~failed]
        poor = ~(fine["behind"] <= _POOR)
        held = 100.0 * fine["held"] / fine["intervals"]
        best = fine[fine["behind"] <= _EQUAL]
        near = best[best["near_behind"] <= _EQUAL]
        lines.append(
            {
                "problem": name,
                "noise": noise,
                "draws": len(own),
                "failed": int(failed.sum()),
                "poor": int(poor.sum() + failed.sum()),
                "poor_unsaid": int((poor & ~fine["said"].astype(bool)).sum()),
                "outside_bounds": int(fine["outside"].sum()),
                "most_behind": fine["behind"].max(),
                "near_poor": int((fine["near_behind"] > _POOR).sum()),
                "far_poor": int((fine["far_behind"] > _POOR).sum()),
                "share": fine["share"].mean(),
                "least_share": fine["share"].min(),
                "held_90": held.mean(),
                "held_90_error": held.std(ddof=1) / np.sqrt(len(held)) if len(held) > 1 else np.nan,
                "cpu_s": fine["seconds"].median(),
                "near_cpu_s": fine["near_seconds"].median(),
                "ratio_near": (near["seconds"] / near["near_seconds"]).median(),
                "far_cpu_s": fine["far_seconds"].median(),
                # where scipy did not reach the optimum, what it has spent so far is less than it needs
                "ratio_far_at_most": (best["seconds"] / best["far_seconds"]).median(),
            }
        )
    return pd.DataFrame(lines)


def _texts(line: Sequence[Any]) -> list[str]:
    return [f"{v:.3g}" if isinstance(v, float) else str(v) for v in line]


def _petab(folder: Path, out: Path) -> int:
    """Objectives of the problems in a folder's folders."""
    rows = []
    for path in sorted(folder.glob("*/*.yaml")):
        began = time.process_time()
        fit = fim_dynsys.equations_from_petab(path).fit()
        row = {"problem": path.parent.name, "objective": round(fit.objective, 3)}
        row |= {"searches": len(fit.fit_.values), "share": fit.fit_.converged_share}
        rows.append(row | {"cpu_s": time.process_time() - began})
        save(pd.DataFrame(rows), out / "petab.csv")
    print(pd.DataFrame(rows).to_string(index=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
