"""The draws on which a model did best and as usual, as trajectories."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from benchmarks.harness.rows import Row, View
from benchmarks.harness.run import Integrator, attempt
from benchmarks.oscillators.tasks import FIXED_SEED, Oscillation, tasks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TIMES = 400


def draw(row: Row, trials: pd.DataFrame, path: Path) -> None:
    """Draw a row's best and its median fresh draw of each task, from the clean start."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 6.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 3)
    for column, task in zip(axes.T, tasks(), strict=True):
        own = trials[
            (trials["task"] == task.name) & (trials["model"] == row.name) & (trials["seed"] != FIXED_SEED)
        ].sort_values("mse")
        if own.empty:
            continue
        for axis, place, which in zip(column, (0, (len(own) - 1) // 2), ("best", "median"), strict=True):
            seed, error = int(own["seed"].iloc[place]), own["mse"].iloc[place]
            _panel(axis, row, task, seed)
            axis.set(title=f"{task.name}, {which} of {len(own)}: MSE {error:.2g}", xlabel="t")
    axes[0, 0].legend()
    figure.suptitle(f"{row.name}: fresh noise draws")
    figure.savefig(path, dpi=110)


def _panel(axis: "Axes", row: Row, task: Oscillation, seed: int) -> None:
    t = np.linspace(0.0, max(task.target_t[-1], task.t[-1]), _TIMES)
    size = np.abs(task.x).max()
    integrator = Integrator()
    true, _ = integrator.solve(task.field, task.start[None], t, size)
    inferred = attempt(row.infer, View.of(row, task.context(seed), task, seed))
    predicted = inferred.then(integrator.predict, task.start[None], t, size)
    for number, piece in enumerate(task.pieces):
        for i, color in enumerate(("C0", "C1")):
            seen = task.observations(seed)[piece, i]
            axis.plot(task.t[piece], seen, ".", color=color, label=None if number else f"x{i} observed")
    axis.plot(t, true[0], "k-", lw=1, label=["truth", None])
    if predicted.value is not None:
        axis.plot(t, predicted.value[0][0], "r--", label=["inferred", None])
