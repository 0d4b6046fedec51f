"""Success against time: one point per model."""

from pathlib import Path

import pandas as pd

from benchmarks.report import REFERENCES, THRESHOLDS, tasks_of


def success_time(trials: pd.DataFrame) -> pd.DataFrame:
    """Return per protocol, task and model the percentage of success and the median CPU-seconds of inference.

    Percentages are means over the settings that all models of a protocol were given, which count alike; the
    median is over their trials.
    """
    rows = []
    models = trials[~trials["model"].isin(REFERENCES)]
    cell = ["protocol", "sigma", "rho"]
    given = models.groupby(cell)["model"].transform("nunique")
    models = models[given == models.groupby("protocol")["model"].transform("nunique")]
    for (protocol, model), part in models.groupby(["protocol", "model"], sort=False):
        about = {"protocol": protocol, "model": model, "version": part["version"].iloc[0]}
        seconds = part["infer_seconds"].median()
        for task in tasks_of(trials):
            success = 100.0 * (part[f"r2_{task}"] > THRESHOLDS[0])
            percent = success.groupby([part["sigma"], part["rho"]]).mean()
            rows.append(
                about
                | {"task": task, "infer_seconds_median": seconds, "percent_r2_090": percent.mean()}
                | {"n_settings": len(percent), "n_trials": len(part)}
            )
    names = ["infer_seconds_median", "percent_r2_090", "n_settings", "n_trials"]
    return pd.DataFrame(rows, columns=["protocol", "model", "version", "task", *names])


def draw_time(curve: pd.DataFrame, path: Path, title: str) -> None:
    """Draw success against seconds, a panel per protocol and task; lines join variants of one model."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    protocols, tasks = list(curve["protocol"].unique()), list(curve["task"].unique())
    families = curve["model"].str.partition(":")[0]
    figure = Figure(figsize=(10, 0.8 + 3.4 * len(protocols)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(protocols), len(tasks), squeeze=False, sharex=True, sharey=True)
    for row, protocol in zip(axes, protocols, strict=True):
        for axis, task in zip(row, tasks, strict=True):
            own = curve[(curve["protocol"] == protocol) & (curve["task"] == task)]
            for number, family in enumerate(families.unique()):
                points = own[families[own.index] == family].sort_values("infer_seconds_median")
                x, y = points["infer_seconds_median"], points["percent_r2_090"]
                axis.plot(x, y, color=f"C{number}", zorder=1)
                for marker, (name, *at) in zip(
                    "osDv^", zip(points["model"], x, y, strict=True), strict=False
                ):
                    axis.plot(*at, marker, color=f"C{number}", label=name)
            axis.set_title(f"{task}, protocol {protocol}", fontsize=10)
            axis.set_xscale("log")
            axis.margins(x=0.1)
            axis.set_ylim(-3, 103)
            axis.grid(alpha=0.3)
            axis.spines[["top", "right"]].set_visible(False)
        row[0].legend(loc="lower right", fontsize=8)
        row[0].set_ylabel("% of trials with R² > 0.9")
    for axis in axes[-1]:
        axis.set_xlabel("median CPU-seconds of inference per data set")
    figure.suptitle(title, fontsize=11)
    figure.savefig(path, dpi=140)
