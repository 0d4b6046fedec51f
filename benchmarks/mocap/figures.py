"""What was predicted of the short sequences, in the planes of the first three components."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.mocap.tasks import Capture

PLANES = ((0, 1), (0, 2), (1, 2))
REACH = 3.0  # standard deviations
_SHOWN = 2  # sequences
_COLOURS = ("tab:green", "tab:olive")


def draw(captures: Mapping[str, Capture], outcomes: Mapping[tuple[str, str], Any], folder: Path) -> None:
    """Write ``planes.png``, the last model on the short tasks, and ``finetuned.png``, before and after.

    A figure whose outcomes are not there is not drawn.
    """
    models = list(dict.fromkeys(model for model, _ in outcomes))
    short = [name for name in captures if name.endswith("short")]
    if models and (shown := [(models[-1], name) for name in short if (models[-1], name) in outcomes]):
        _figure(captures, outcomes, shown, folder / "planes.png")
    for model in models:
        before = model.replace("+finetune", "")
        pair = [(before, "35 short"), (model, "35 short")]
        if model != before and all(key in outcomes for key in pair):
            _figure(captures, outcomes, pair, folder / "finetuned.png")
            break


def _figure(
    captures: Mapping[str, Capture],
    outcomes: Mapping[tuple[str, str], Any],
    keys: Sequence[tuple[str, str]],
    path: Path,
) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.0 * len(keys)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(keys), len(PLANES), squeeze=False)
    side = np.linspace(-REACH, REACH, 0 if not keys else _side(outcomes[keys[0]]))
    for row, key in zip(axes, keys, strict=True):
        outcome, observed = outcomes[key], captures[key[1]].scores(captures[key[1]].scored, 3)
        for number, (axis, (i, j)) in enumerate(zip(row, PLANES, strict=True)):
            if outcome["planes"] is not None:
                u, v = np.moveaxis(np.array(outcome["planes"][number]), -1, 0)
                axis.streamplot(side, side, u, v, color="0.8", linewidth=0.6, arrowsize=0.6, density=0.9)
            for k, colour in zip(range(min(_SHOWN, len(observed))), _COLOURS, strict=False):
                axis.plot(*observed[k, ::6, [i, j]], "x", color=colour, markersize=3)
                if outcome["path"] is not None:
                    states = np.array(outcome["path"])[k]
                    axis.plot(states[:, i], states[:, j], color=colour, linewidth=1.2)
            axis.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH))
            axis.set_xlabel(f"component {i + 1}")
            axis.set_ylabel(f"component {j + 1}")
        row[1].set_title(f"{key[1]}: {key[0]} (crosses: recorded)", fontsize="medium")
    figure.savefig(path, dpi=110)


def _side(outcome: Any) -> int:
    return len(outcome["planes"][0]) if outcome["planes"] is not None else 2
