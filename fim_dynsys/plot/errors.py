"""What models get wrong on observations that they have not seen."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

from fim_dynsys.plot import style
from fim_dynsys.plot.canvas import Drawing, add_legend, given_axes, new_axes

_FEW_DECADES = 2.5  # three labels in each of more would be crowded
_KINDS = (("path_error", "paths"), ("slope_error", "slopes"))


def comparison(table: xr.Dataset, ax: Axes | None = None) -> Drawing:
    """Errors of models on what they have not seen: a mark for each fold, a bar at their median.

    Paths that ended early have no finite error; they are counted at the right edge, and a median among them
    is not drawn.

    Parameters
    ----------
    table : Dataset
        As `fim_dynsys.compare` gives it.
    ax : Axes, optional
        Default a new figure.

    Returns
    -------
    Drawing
        Artists named ``paths``, ``slopes``, ``medians`` and ``failed``.

    Raises
    ------
    ValueError
        If the dataset is no such table.

    See Also
    --------
    fim_dynsys.compare : The table.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> t = np.linspace(0, 5, 50)
    >>> data = fim_dynsys.Trajectories.from_arrays(3.0 * np.exp(-0.5 * t), t)
    >>> from fim_dynsys import plot
    >>> models = [fim_dynsys.load("sindy"), fim_dynsys.load("sindy-strong")]
    >>> table = fim_dynsys.compare(models, data, folds=2)
    >>> drawing = plot.comparison(table)
    >>> [label.get_text() for label in drawing.ax.get_yticklabels()]
    ['sindy', 'sindy-strong']
    >>> drawing.close()
    """
    if not isinstance(table, xr.Dataset):
        raise ValueError(f"comparison: expected a table of fim_dynsys.compare, got {type(table).__name__}.")
    missing = [name for name, _ in _KINDS if name not in table]
    if missing:
        raise ValueError(
            f"comparison: expected a table of fim_dynsys.compare, got one without {', '.join(missing)}."
        )
    new_figure = ax is None
    (ax,) = given_axes(new_axes() if ax is None else ax, 1, "comparison")
    names = [str(name) for name in table["model"].values]
    artists: dict[str, list] = {"paths": [], "slopes": [], "medians": [], "failed": []}
    for number, (variable, kind) in enumerate(_KINDS):
        look = style.SERIES[number]
        for row, values in enumerate(table[variable].transpose("model", "fold").values):
            height = row + (number - 0.5) * 0.3
            finite = values[np.isfinite(values)]
            marks = ax.plot(
                finite,
                np.full(len(finite), height),
                look["marker"],
                color=look["color"],
                markerfacecolor="none",
                label=None if row else kind,
            )
            artists[kind] += marks
            if np.isfinite(np.median(values)):
                middle = [float(np.median(values))]
                artists["medians"] += ax.plot(middle, [height], "|", color=style.BLACK, markersize=14)
            if len(finite) < len(values):
                artists["failed"].append(
                    ax.annotate(
                        f"{len(values) - len(finite)} of {len(values)} failed",
                        (0.99, height),
                        xycoords=("axes fraction", "data"),
                        ha="right",
                        va="center",
                        fontsize="small",
                        color=look["color"],
                    )
                )
    ax.set_xscale("log")
    _sparse_ticks(ax)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel("error in standard deviations, held-out observations")
    if new_figure:
        add_legend([ax])
    return Drawing((ax,), {name: tuple(found) for name, found in artists.items()})


def _sparse_ticks(ax: Axes) -> None:
    """Decades alone, or 1, 2 and 5 of each where they are few: labels of minor ticks run into each other."""
    low, high = np.log10(ax.get_xlim())
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high - low < _FEW_DECADES else (1.0,)))
    ax.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    ax.xaxis.set_minor_formatter(NullFormatter())
