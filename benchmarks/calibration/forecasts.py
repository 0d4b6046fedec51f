"""Bands of forecasts: how often do they hold how a trajectory goes on, and how wide are they for it?"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import report
from benchmarks.calibration.bands import CAP, PERCENTS, FittedRow
from benchmarks.calibration.records import records
from benchmarks.harness.rows import Row
from benchmarks.harness.run import Outcome, attempt
from benchmarks.harness.trials import Problem, Trial, clean_context, observe
from fim_dynsys.fields.base import VectorField
from fim_dynsys.metrics import coverage, interval_score

SETTINGS = ((0.03, 0.0), (0.05, 0.0))
SEEN = 2 / 3  # of the samples; the others are forecast
POINTS = 20  # of these at which bands are compared

Sources = dict[str, tuple[list[Problem], Callable[[Problem], VectorField]]]


def evaluate(row: FittedRow, problem: Problem, trial: Trial) -> dict[str, Any]:
    """Bands of a forecast of the last third of a trajectory from the first two, and where the truth was.

    Returns
    -------
    dict
        ``status``, ``message``, CPU ``seconds``; of the truth from the median ``error``, and the ends of both
        bands ``low50``, ``high50``, ``low90`` and ``high90``: lists of numbers in standard deviations of the
        whole trajectory, cut at `CAP`. After an exception errors of `CAP` and bands of no width.
    """
    tried = attempt(_ahead, row, problem, trial)
    found = tried.value
    if found is None:
        lost = [CAP] * POINTS * problem.dim
        found = {"error": lost}
        found |= {f"{side}{p}": [0.0] * len(lost) for p in PERCENTS for side in ("low", "high")}
    return {"status": tried.status, "message": tried.message, "seconds": tried.seconds} | found


def _ahead(row: FittedRow, problem: Problem, trial: Trial) -> dict[str, list[float]]:
    data, clean = observe(problem, trial), clean_context(problem, trial).x[0]
    t, cut = data.t[0], round(SEEN * len(clean))
    seen = type(data).from_arrays(data.x[0, :cut], t[:cut])
    at = np.linspace(cut, len(t) - 1, POINTS).astype(int)
    shares = [p / 100 for p in PERCENTS]
    found = row.fit(seen).forecast(seen, t[at] - t[cut - 1], shares)
    size = clean.std(axis=0)
    size = np.where(size > 0, size, size.mean() or 1.0)
    median = found["median"].values[0]
    parts = {"error": clean[at] - median}
    for k, percent in enumerate(PERCENTS):
        for side in ("low", "high"):
            parts[f"{side}{percent}"] = found[side].values[k, 0] - median
    lost = ~np.isfinite(median)
    return {
        name: np.clip(np.where(lost, CAP if name == "error" else 0.0, part) / size, -CAP, CAP)
        .ravel()
        .tolist()
        for name, part in parts.items()
    }


def run(
    rows: Sequence[Row],
    sources: Sources,
    seeds: Sequence[int],
    folder: Path,
    workers: int = 1,
    fresh: bool = False,
    progress: bool = False,
) -> pd.DataFrame:
    """Return one record per source, trial and row; outcomes that `folder` holds are known."""
    how = (folder, workers, fresh, progress)
    return pd.DataFrame(
        {"source": source} | record
        for source, (problems, _) in sources.items()
        for record in records(evaluate, problems, SETTINGS, seeds, rows, "forecasts", _about, _lines, *how)
    )


def _about(problem: Problem, trial: Trial) -> dict[str, Any]:
    about = {"system": trial.system, "ic": trial.ic, "sigma": trial.sigma}
    return about | {"seed": trial.seed, "dim": problem.dim}


def _lines(outcome: Outcome) -> list[dict[str, Any]]:
    return [{"seconds": outcome["seconds"]} | _scored(outcome)]


def _scored(outcome: dict[str, Any]) -> dict[str, float]:
    """Shares held, mean interval scores and mean widths of both bands of one trial."""
    error, line = np.array(outcome["error"]), {}
    for percent in PERCENTS:
        low, high = (np.array(outcome[f"{side}{percent}"]) for side in ("low", "high"))
        line[f"cover{percent}"] = coverage(error, low, high)
        line[f"score{percent}"] = interval_score(error, low, high, 1 - percent / 100)
        line[f"width{percent}"] = float(np.mean(high - low))
    return line


def summarise(trials: pd.DataFrame, commit: str = "") -> pd.DataFrame:
    """Return means over the trials of each source, noise level and model, all and by dimension."""
    lines = []
    for group, part in [("all", trials), *((f"dim={d}", p) for d, p in trials.groupby("dim"))]:
        for key, cell in part.groupby(["source", "sigma", "model", "version"], sort=False):
            line: dict[str, Any] = dict(zip(("source", "sigma", "model", "version"), key, strict=True))
            line |= {"group": group, "trials": len(cell)}
            for percent in PERCENTS:
                line |= {
                    f"{what}{percent}": float(cell[f"{what}{percent}"].mean()) for what in ("cover", "score")
                }
                line[f"width{percent}"] = float(cell[f"width{percent}"].median())
            line["failures"] = int((cell["status"] != "SUCCESS").sum())
            lines.append({**line, "seconds_median": float(cell["seconds"].median()), "commit": commit})
    return pd.DataFrame(lines)


def format_table(summary: pd.DataFrame) -> str:
    """Return the printed report."""
    head = [
        "systems",
        "noise",
        "states",
        "model",
        "trials",
        "50 %",
        "90 %",
        "width 50",
        "width 90",
        "score 90",
    ]
    rows = [head]
    for _, line in summary.iterrows():
        about = [line["source"], f"{line['sigma']:g}", line["group"].removeprefix("dim="), line["model"]]
        covers = [f"{100 * line[f'cover{percent}']:.1f}" for percent in PERCENTS]
        sizes = [f"{line[name]:.3g}" for name in ("width50", "width90", "score90")]
        rows.append([*about, str(line["trials"]), *covers, *sizes])
    return (
        "The last third of each trajectory, forecast from the first two: percent that bands hold\n"
        + report.align(rows)
        + "\n\nWidths (medians over trials) and mean interval scores in standard deviations of the "
        f"trajectory, cut at {CAP:g}."
    )
