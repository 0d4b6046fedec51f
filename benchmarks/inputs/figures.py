"""Successes under new inputs by noise level."""

from pathlib import Path

import pandas as pd

from benchmarks.inputs.systems import KINDS


def draw(summary: pd.DataFrame, path: Path) -> None:
    """Draw the percent of contexts with R2 > 0.9, under ramps: bars for each noise level, and the goals."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    summary = summary[summary["kind"] == KINDS[0]]
    models = list(dict.fromkeys(summary["model"]))
    sigmas = sorted(set(summary["sigma"]))
    width = 0.8 / len(models)
    for k, model in enumerate(models):
        own = summary[summary["model"] == model].set_index("sigma")["percent"].reindex(sigmas)
        axis.bar(
            [i + (k - (len(models) - 1) / 2) * width for i in range(len(sigmas))], own, width, label=model
        )
    goals = summary.groupby("sigma")["goal"].first().reindex(sigmas)
    axis.hlines(
        goals, [i - 0.45 for i in range(len(sigmas))], [i + 0.45 for i in range(len(sigmas))], "k", "--"
    )
    axis.set_xticks(range(len(sigmas)), [f"{100 * sigma:g} %" for sigma in sigmas])
    axis.set(xlabel="additive noise", ylabel="R2 > 0.9 under a new input (%)", ylim=(0, 105))
    axis.legend(fontsize="small", ncols=2, loc="lower left")
    figure.savefig(path, dpi=110)
