"""Error against complexity."""

from pathlib import Path

import pandas as pd

from benchmarks.mdbench.contexts import LEVELS


def draw(summary: pd.DataFrame, path: Path) -> None:
    """Draw the median error at the clean test states against the median complexity, a panel per noise."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    levels = [level for level in LEVELS if level in set(summary["level"])]
    figure = Figure(figsize=(2.9 * len(levels), 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(levels), sharey=True, squeeze=False)[0]
    known = summary[summary["complexity_median"].notna()]
    for axis, level in zip(axes, levels, strict=True):
        for model, own in known[known["level"] == level].groupby("model", sort=False):
            axis.plot(own["complexity_median"], own["nmse_clean_median"], "o", label=model)
        axis.set(yscale="log", xlabel="nodes of the expressions", xlim=(0, None))
        axis.set_title(level if level == "clean" else f"{level} dB")
    axes[0].set_ylabel("median NMSE of the slopes")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=5)
    figure.savefig(path, dpi=110)
