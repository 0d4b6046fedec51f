"""The context-size study: the shared draw with 2, 8 or 49 more trajectories, near its start or anywhere."""

import hashlib
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import report
from benchmarks.harness.rows import Row, View
from benchmarks.harness.run import Integrator, Job, attempt, cached_outcomes
from benchmarks.oscillators.tasks import FIXED_SEED, Oscillation, solution, tasks
from fim_dynsys import metrics
from fim_dynsys.trajectories.container import Trajectories

SIZES = (3, 9, 50)
MODES = ("perturbed", "random")
REPEATS, FULL_REPEATS = 5, 100
VARIANCE = 0.1  # of perturbed starts
HALF_WIDTHS = {"VDP T1": 3.0, "VDP T2": 3.0, "FHN": 2.0}  # of the boxes of random starts
QUANTILES = {"median": 0.5, "q05": 0.05, "q95": 0.95}
PUBLISHED = Path(__file__).with_name("published.toml")


@dataclass(frozen=True)
class Enlarged:
    """One context: how many trajectories, where the further ones start, and which draw of them."""

    task: str
    mode: str
    trajectories: int
    repeat: int

    def generator(self) -> np.random.Generator:
        """Return the generator of the further starts and of their noise."""
        digest = hashlib.sha256("|".join(str(value) for value in astuple(self)).encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def context(task: Oscillation, key: Enlarged) -> Trajectories:
    """Return the shared draw and further noisy trajectories at the same times.

    Of FitzHugh-Nagumo each is cut where its noisy states are in the hidden quadrant; pieces of a single
    sample are left out.
    """
    generator, width = key.generator(), HALF_WIDTHS[task.name]
    pieces = [(t, x) for t, x in task.context(FIXED_SEED).arrays()]
    for _ in range(key.trajectories - 1):
        if key.mode == MODES[0]:
            start = task.start + np.sqrt(VARIANCE) * generator.standard_normal(2)
        else:
            start = generator.uniform(-width, width, 2)
        noise = generator.standard_normal(task.x.shape)
        x = solution(task.field, start, task.t) + np.sqrt(task.variance) * noise
        seen = np.ones(len(x), dtype=bool) if task.hidden is None else ~((x[:, 0] > 0) & (x[:, 1] < 0))
        runs = np.split(np.arange(len(x)), np.flatnonzero(np.diff(seen)) + 1)
        pieces += [(task.t[run], x[run]) for run in runs if seen[run[0]] and len(run) > 1]
    return Trajectories.from_arrays([x for _, x in pieces], [t for t, _ in pieces])


def evaluate(row: Row, task: Oscillation, key: Enlarged, integrator: Integrator) -> dict[str, Any]:
    """Infer from one context, integrate from the clean start and score at the task's clean targets."""
    inferred = attempt(row.infer, View.of(row, context(task, key), task, key))
    times = np.concatenate([[0.0], task.target_t])
    predicted = inferred.then(integrator.predict, task.start[None], times, np.abs(task.x).max())
    states, (sign,) = predicted.value or (np.full((1, *task.target_x.shape), np.nan), (None,))
    return {
        "mse": metrics.mse(task.target_x, states[0, -len(task.target_t) :]),
        "status": predicted.status if sign is None else sign.name,
        "infer_seconds": inferred.seconds if inferred.succeeded else float("nan"),
        "message": predicted.message,
    }


def run(
    rows: Sequence[Row],
    repeats: int,
    folder: Path,
    workers: int = 1,
    fresh: bool = False,
    progress: bool = False,
    sizes: Sequence[int] = SIZES,
) -> pd.DataFrame:
    """Return one record per row and context; outcomes that `folder` holds are not computed again."""
    integrator = Integrator()
    jobs = [
        Job(key := Enlarged(task.name, mode, size, k), task.digest(), (task, key, integrator))
        for task, mode, size, k in product(tasks(), MODES, sizes, range(repeats))
    ]
    outcomes = cached_outcomes(
        evaluate, rows, jobs, folder, f"contexts, {integrator}", workers, fresh, progress
    )
    return pd.DataFrame(
        [
            {**asdict(job.key), "model": row.name, "version": row.version, **outcome}
            for job, of_rows in zip(jobs, outcomes, strict=True)
            for row, outcome in zip(rows, of_rows, strict=True)
        ]
    )


def summarise(trials: pd.DataFrame, commit: str = "") -> pd.DataFrame:
    """Return mean, standard deviation and quantiles of the errors of each cell; failures are infinite."""
    lines = []
    for key, part in trials.groupby(["task", "mode", "trajectories", "model", "version"], sort=False):
        errors = part["mse"]
        line: dict[str, Any] = dict(
            zip(("task", "mode", "trajectories", "model", "version"), key, strict=True)
        )
        with np.errstate(invalid="ignore"):
            line |= {"mean": errors.mean(), "std": errors.std(ddof=0)}
        line |= {name: float(np.quantile(errors, q, method="nearest")) for name, q in QUANTILES.items()}
        line |= {"repeats": len(part), "failures": int(np.isinf(errors).sum())}
        lines.append(line | {"infer_seconds_median": part["infer_seconds"].median(), "commit": commit})
    return pd.DataFrame(lines)


def lines_of(summary: pd.DataFrame) -> list[list[str]]:
    """Return the table as lines of cells, the published numbers beside ours."""
    with PUBLISHED.open("rb") as file:
        theirs = {tuple(row["cell"]): row["values"] for row in tomllib.load(file)["context"]}
    names = ("mean", "std", *QUANTILES)
    lines = [["task", "starts", "k", "model", "repeats", *(f"{name}, paper's" for name in names)]]
    for _, line in summary.iterrows():
        cell = line["task"], line["mode"], line["trajectories"]
        pairs = [f"{line[name]:.2g}, {value:.2g}" for name, value in zip(names, theirs[cell], strict=True)]
        lines.append([*map(str, cell), line["model"], str(line["repeats"]), *pairs])
    return lines


def format_table(summary: pd.DataFrame) -> str:
    """Return the printed table."""
    with PUBLISHED.open("rb") as file:
        content = tomllib.load(file)
    title = "MSE from the clean start: the shared draw and k - 1 further noisy trajectories"
    source = f"{content['citation']}; {content['contexts']}"
    return f"{title}\n{report.align(lines_of(summary))}\n\nPublished: {source}."
