"""From the trials of all models to one summary, the printed tables and the figure."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import report
from benchmarks.harness.trials import TASKS
from benchmarks.oscillators import __main__ as oscillators
from benchmarks.oscillators.tasks import FIXED_SEED

OSCILLATIONS = ("VDP T1", "VDP T2", "FHN")
PRINTED = {
    "odeformer": "ODEFormer",
    "fim-ode": "FIM-ODE, zero-shot, averaged",
    "bayesian-neural-ode": "BNeuralODE",
    "neural-ode": "NeuralODE",
    "npode": "npODE",
    "gpode": "GPODE",
    "ode2vae": "ODE2VAE",
    "latent-sde": "LatentSDE",
    "gp-dnf": "GP-DNF",
}
"""Under which name ``oscillators/published.toml`` has what the literature prints of a model."""
OWN = ("fim-ode", "auto", "sindy-strong", "symbolic")
_NO_MODEL = "constant"


@cache
def published() -> dict[str, dict[str, float]]:
    """Return the published mean squared errors by model and task."""
    with oscillators.PUBLISHED.open("rb") as file:
        content = tomllib.load(file)
    rows = {row["method"]: dict(zip(content["tasks"], row["mse"], strict=True)) for row in content["row"]}
    return {model: rows[name] for model, name in PRINTED.items()}


def summarise(trials: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return one line per model and task: of an oscillator its errors, of a cell of ODEBench its successes.

    ``value`` is the median mean squared error of the fresh draws, or the percentage of trials with R2 above
    0.9; ``low`` and ``high`` the quartiles of the former, ``shared`` the error on the draw that the
    literature shares, ``published`` what it prints. A failure has an infinite error and is no success.
    """
    lines: list[dict[str, Any]] = []
    if "oscillators" in trials:
        for (model, version, task), part in trials["oscillators"].groupby(
            ["model", "version", "task"], sort=False
        ):
            lines.append(_oscillator(part) | {"model": model, "version": version, "task": task})
            lines[-1]["published"] = published().get(model.partition(":")[0], {}).get(task, math.nan)
    if "odebench" in trials:
        cells = ["model", "version", "sigma", "rho"]
        for (model, version, sigma, rho), part in trials["odebench"].groupby(cells, sort=False):
            for task in TASKS:
                line = {"model": model, "version": version, "task": f"{task} ({sigma:g}, {rho:g})"}
                value = 100.0 * float((part[f"r2_{task}"] > report.THRESHOLDS[0]).mean())
                failures = int((part[f"status_{task}"] != "SUCCESS").sum())
                seconds = float(part["infer_seconds"].median())
                lines.append(
                    line | {"value": value, "n": len(part), "failures": failures, "infer_seconds": seconds}
                )
    columns = ["model", "version", "task", "value", "low", "high", "shared", "published"]
    return pd.DataFrame(lines, columns=[*columns, "n", "failures", "infer_seconds"])


def _oscillator(part: pd.DataFrame) -> dict[str, Any]:
    fresh = np.sort(part.loc[part["seed"] != FIXED_SEED, "mse"].to_numpy())
    shared = part.loc[part["seed"] == FIXED_SEED, "mse"]
    names = {"low": 0.25, "value": 0.5, "high": 0.75}
    return {name: oscillators.quantile(fresh, q) for name, q in names.items()} | {
        "shared": float(shared.iloc[0]) if len(shared) else math.nan,
        "n": len(fresh),
        "failures": int(np.isinf(part["mse"]).sum()),
        "infer_seconds": float(part["infer_seconds"].median()),
    }


# --------------------------------------------------------------------------------------------- printing


def cells_of(summary: pd.DataFrame) -> list[str]:
    """Return the cells of ODEBench in a summary, such as ``"(0.05, 0.5)"``."""
    found = summary["task"].str.extract(rf"^(?:{'|'.join(TASKS)}) (\(.*\))$")[0]
    return list(dict.fromkeys(found.dropna()))


def oscillator_lines(summary: pd.DataFrame) -> list[list[str]]:
    """Return the table of mean squared errors as lines of cells, a line per model, best first."""
    own = summary[summary["task"].isin(OSCILLATIONS)]
    errors = (*OSCILLATIONS, "published", "of published", "shared draw")
    lines = [["model", *errors, "draws", "failures", "CPU s a fit"]]
    for model in _ranked(own, best="smallest"):
        part = own[own["model"] == model].set_index("task").reindex(OSCILLATIONS)
        printed = part["published"]
        with np.errstate(invalid="ignore"):
            ratios = part["value"] / printed
        lines.append(
            [
                model,
                *(f"{row.value:.3g} [{row.low:.2g}, {row.high:.2g}]" for row in part.itertuples()),
                "" if printed.isna().all() else ", ".join(f"{value:g}" for value in printed),
                "" if printed.isna().all() else ", ".join(f"{value:.2g}" for value in ratios),
                "" if model == _NO_MODEL else ", ".join(f"{value:.2g}" for value in part["shared"]),
                f"{part['n'].min():g}",
                f"{part['failures'].sum():g}",
                "" if model == _NO_MODEL else f"{part['infer_seconds'].median():.2g}",
            ]
        )
    return lines


def odebench_lines(summary: pd.DataFrame) -> list[list[str]]:
    """Return the table of successes on ODEBench as lines of cells, a line per model, best first."""
    cells = cells_of(summary)
    own = summary[~summary["task"].isin(OSCILLATIONS)]
    lines = [["model", *cells, "trials a cell", "failures", "CPU s a fit"]]
    for model in _ranked(own, best="largest"):
        part = own[own["model"] == model].set_index("task")
        pairs = [[f"{task} {cell}" for task in TASKS] for cell in cells]
        lines.append(
            [
                model,
                *(" / ".join(f"{part['value'].get(name, math.nan):.1f}" for name in pair) for pair in pairs),
                f"{part['n'].min():g}",
                f"{part['failures'].sum():g}",
                "" if model == _NO_MODEL else f"{part['infer_seconds'].median():.2g}",
            ]
        )
    return lines


def _ranked(summary: pd.DataFrame, best: str) -> list[str]:
    """Models by their mean rank over tasks."""
    ranks = summary.groupby("task")["value"].rank(ascending=best == "smallest")
    return list(ranks.groupby(summary["model"]).mean().sort_values(kind="stable").index)


def format_tables(summary: pd.DataFrame, trials: Mapping[str, pd.DataFrame]) -> str:
    """Return the printed report."""
    parts = []
    if "oscillators" in trials:
        title = "Oscillators: median MSE of the fresh draws [quartiles], from the clean start"
        parts.append(f"{title}\n{report.align(oscillator_lines(summary))}")
    if "odebench" in trials:
        n = trials["odebench"]["system"].nunique()
        title = f"ODEBench, {n} systems: percent of trials with R2 > 0.9, {' / '.join(TASKS)}"
        parts.append(f"{title}\n{report.align(odebench_lines(summary))}")
    failed = _failures(trials)
    if len(failed) > 1:
        parts.append(f"Failures (they count as such)\n{report.align(failed)}")
    return "\n\n".join(parts)


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """Return lines of cells as a table of Markdown."""
    head, *body = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([head, "|" + " --- |" * len(lines[0]), *body])


def _failures(trials: Mapping[str, pd.DataFrame]) -> list[list[str]]:
    lines = [["model", "where", "status", "trials"]]
    for part, frame in trials.items():
        status = frame["status" if part == "oscillators" else f"status_{TASKS[0]}"]
        where = frame["task"] if part == "oscillators" else "ODEBench, " + TASKS[0]
        failed = pd.DataFrame({"model": frame["model"], "where": where, "status": status})
        failed = failed[status != "SUCCESS"]
        for names, own in failed.groupby(["model", "where", "status"], sort=False):
            lines.append([*names, str(len(own))])
    return lines


# --------------------------------------------------------------------------------------------- the figure


def draw(summary: pd.DataFrame, path: Path) -> None:
    """Draw error and success against the CPU-seconds of a fit, a panel per task; ours are filled."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    models = [name for name in dict.fromkeys(summary["model"]) if name != _NO_MODEL]
    looks = {
        model: {
            "color": f"C{number % 10}",
            "marker": "osDv^P"[number % 6],
            "markerfacecolor": None if model.partition(":")[0] in OWN else "none",
        }
        for number, model in enumerate(models)
    }
    figure = Figure(figsize=(13, 7.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 3, sharex=True)
    for axis, task in zip(axes[0], OSCILLATIONS, strict=True):
        part = summary[summary["task"] == task]
        _points(axis, part, looks)
        still = part.loc[part["model"] == _NO_MODEL, "value"]
        for value in still:
            axis.axhline(value, color="0.6", linestyle=":", label="constant")
        axis.set(title=task, yscale="log")
    axes[0, 0].set_ylabel("median MSE (infinite: not drawn)")
    for axis, task in zip(axes[1], TASKS, strict=False):
        own = summary[summary["task"].str.startswith(task)]
        means = own.groupby(["model", "version"], sort=False)[["value", "infer_seconds"]].mean().reset_index()
        _points(axis, means, looks)
        axis.set(title=f"ODEBench, {task}", ylim=(-3, 103), ylabel="% of trials with R² > 0.9")
    axes[1, 2].set_axis_off()
    handles = {
        label: handle for a in axes.flat for handle, label in zip(*a.get_legend_handles_labels(), strict=True)
    }
    axes[1, 2].legend(handles.values(), handles.keys(), loc="center", ncols=2, frameon=False, fontsize=9)
    for axis in [*axes[0], *axes[1, :2]]:
        axis.set(xscale="log", xlabel="CPU-seconds a fit")
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelbottom=True)
    figure.savefig(path, dpi=130)


def _points(axis: Any, part: pd.DataFrame, looks: Mapping[str, dict[str, Any]]) -> None:
    for row in part.itertuples():
        if row.model in looks and np.isfinite(row.value):
            axis.plot(row.infer_seconds, row.value, linestyle="none", label=row.model, **looks[row.model])
