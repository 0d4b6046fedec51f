"""Success against the number of points and of pieces."""

from pathlib import Path

import pandas as pd

from benchmarks.harness.trials import TASKS


def draw(summary: pd.DataFrame, path: Path) -> None:
    """Draw, for every noise level, success against points and against pieces; a row per task."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    sigmas = list(dict.fromkeys(summary["sigma"]))
    kinds = ("points", "irregular", "pieces")
    figure = Figure(figsize=(4.2 * len(kinds), 3.2 * len(TASKS) * len(sigmas)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(sigmas) * len(TASKS), len(kinds), sharey=True, squeeze=False)
    for row, (sigma, task) in zip(axes, ((s, t) for s in sigmas for t in TASKS), strict=True):
        for axis, kind in zip(row, kinds, strict=True):
            part = summary[
                (summary["sigma"] == sigma) & (summary["task"] == task) & (summary["kind"] == kind)
            ]
            for model, own in part.groupby("model", sort=False):
                axis.plot(own["amount"], own["percent_r2_090"], "o-", label=model)
            what = "short pieces" if kind == "pieces" else f"points ({kind})" if kind != "points" else kind
            axis.set(xscale="log", xlabel=what, title=f"{task}, noise {sigma:g}")
            axis.set_xticks(part["amount"].unique(), [str(n) for n in part["amount"].unique()])
            axis.minorticks_off()
        row[0].set_ylabel("R2 > 0.9 (%)")
    axes[0, 0].legend()
    figure.savefig(path, dpi=110)
