"""Exact structures against noise, points and trajectories."""

from pathlib import Path

import pandas as pd

from benchmarks.structure.contexts import CURVES

LABELS = {"noise": "relative noise", "points": "points", "trajectories": "trajectories of 200 points"}


def draw(summary: pd.DataFrame, path: Path) -> None:
    """Draw the share of exact structures over all systems, a panel per curve."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(CURVES), sharey=True)
    own = summary[summary["split"] == "all"].set_index(["sigma", "points", "trajectories", "model"])
    for place, (axis, (curve, cells)) in enumerate(zip(axes, CURVES.items(), strict=True)):
        for model in summary["model"].unique():
            known = [cell for cell in cells if (*cell, model) in own.index]
            values = [own.loc[(*cell, model), "percent_exact"] for cell in known]
            axis.plot([cell[place] for cell in known], values, "o-", label=model)
        axis.set(xlabel=LABELS[curve], title=_fixed(curve))
        if curve == "noise":
            axis.set_xscale("symlog", linthresh=1e-4)
        else:
            axis.set_xscale("log")
            axis.set_xticks([cell[place] for cell in cells], [str(cell[place]) for cell in cells])
            axis.minorticks_off()
    axes[0].set_ylabel("exactly the true terms (%)")
    axes[0].legend()
    figure.savefig(path, dpi=110)


def _fixed(curve: str) -> str:
    sigma, points, trajectories = CURVES[curve][0]
    known = {
        "noise": f"noise {sigma:g}",
        "points": f"{points} points",
        "trajectories": f"{trajectories} trajectory",
    }
    return ", ".join(text for name, text in known.items() if name != curve)
