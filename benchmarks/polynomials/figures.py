"""Successes by threshold and dimension as heat maps, and what more points and trajectories give."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GROUPS = ("dim=1", "dim=2", "dim=3")


def draw(summary: pd.DataFrame, path: Path) -> None:
    """Draw the first model's heat maps (threshold by dimension), and the grid where it was run."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    model = summary["model"].iloc[0]
    own = summary[summary["model"] == model]
    grid, study = own[own["part"] == "grid"], own[own["part"] != "grid"]
    study = study[study["sigma"] == study["sigma"].min()]
    figure = Figure(figsize=(13, 6.5), layout="constrained")
    FigureCanvasAgg(figure)
    noise = study["sigma"].max()
    seen = f"noise {noise:g}" if noise > 0 else "clean contexts"
    figure.suptitle(f"{model}: random polynomials, {seen}")
    axes = figure.subplots(2, 4)
    for row, task in zip(axes, ("reconstruction", "generalisation"), strict=True):
        for axis, degree in zip(row[:2], (3, 6), strict=True):
            part = study[(study["degree"] == degree) & (study["task"] == task)]
            _heat_map(axis, part, f"{task}, degree <= {degree}")
        part = grid[(grid["task"] == task) & (grid["group"] == "all")]
        _curves(row[2], part, "percent_r2_0.9", f"{task}, R2 > 0.9 (%)")
    box = grid[(grid["task"] == "reconstruction") & (grid["group"] == "all")]
    _curves(axes[0, 3], box, "rmse_median", "field: median RMSE")
    _curves(axes[1, 3], box, "cosine_median", "field: median cosine")
    figure.savefig(path, dpi=110)


def _heat_map(axis: "Axes", part: pd.DataFrame, title: str) -> None:
    columns = [name for name in part.columns if name.startswith("percent_r2_")]
    part = part.set_index("group").reindex(GROUPS)
    values = part[columns].to_numpy(dtype=float)
    axis.imshow(values, vmin=0, vmax=100, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        if np.isfinite(value):
            axis.text(j, i, f"{value:.0f}", ha="center", va="center", color="w" if value < 60 else "k")
    axis.set(title=title, xlabel="R2 >")
    axis.set_xticks(range(len(columns)), [name.removeprefix("percent_r2_") for name in columns])
    axis.set_yticks(range(len(GROUPS)), ["1-D", "2-D", "3-D"])


def _curves(axis: "Axes", part: pd.DataFrame, column: str, title: str) -> None:
    for k, own in part.groupby("trajectories"):
        axis.plot(own["points"], own[column], "o-", label=f"{k} trajectories")
    axis.set(title=title, xlabel="points")
    if len(part):
        axis.legend()
