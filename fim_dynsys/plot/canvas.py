"""Axes and artists: where plots draw, what they hand back, and the legend beside it."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.mathtext import MathTextParser
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

AxesLike = Axes | Sequence[Axes] | np.ndarray
"""One of the axes, or several."""


@dataclass(frozen=True, eq=False, repr=False)
class Drawing:
    """What a plot drew.

    Attributes
    ----------
    axes : tuple of matplotlib Axes
        The panels, in reading order.
    artists : dict of str to tuple of Artist
        By what they show, such as ``"streamlines"`` or ``"fixed points"``.
    """

    axes: tuple[Axes, ...]
    artists: Mapping[str, tuple]

    @property
    def ax(self) -> Axes:
        """The first of the axes."""
        return self.axes[0]

    @property
    def figure(self) -> Figure:
        """The figure that the axes belong to."""
        return root_figure(self.ax)

    def png(self, dpi: int = 100) -> bytes:
        """The figure as the bytes of a PNG file."""
        for text in self.figure.findobj(Text):
            _as_it_stands(text)
        stream = io.BytesIO()
        self.figure.savefig(stream, format="png", dpi=dpi)
        return stream.getvalue()

    def close(self) -> None:
        """Take the figure off pyplot's list of open ones, where it is on it."""
        import matplotlib.pyplot as plt

        plt.close(self.figure)

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(artists)} {name}" for name, artists in self.artists.items())
        return f"Drawing({len(self.axes)} axes: {counts})"


def _as_it_stands(text: Text) -> None:
    """Show the dollar signs of a text that is no mathematics, such as the name of a state ``$\\frac{$``."""
    try:
        if "$" in text.get_text():
            MathTextParser("path").parse(text.get_text())
    except ValueError:
        text.set_parse_math(False)


def root_figure(ax: Axes) -> Figure:
    """The whole figure that axes belong to."""
    figure = ax.get_figure(root=True)
    if figure is None:
        raise ValueError("plot: expected axes of a figure, got axes that were removed from theirs.")
    return figure


def pair(point: ArrayLike) -> tuple[float, float]:
    """A point of the plane as matplotlib takes it."""
    x, y = np.asarray(point, dtype=float)
    return float(x), float(y)


def merged(drawings: Sequence[Drawing]) -> Drawing:
    """Several drawings as one, each panel and each kind of artist once."""
    artists: dict[str, tuple] = {}
    for drawing in drawings:
        for name, found in drawing.artists.items():
            artists[name] = (*artists.get(name, ()), *found)
    return Drawing(tuple(dict.fromkeys(ax for drawing in drawings for ax in drawing.axes)), artists)


def new_axes(
    rows: int = 1,
    columns: int = 1,
    *,
    size: tuple[float, float] = (7.0, 4.4),
    three_d: bool = False,
    **kwargs: Any,
) -> tuple:
    """Axes of a new figure, in reading order.

    Parameters
    ----------
    rows, columns : int
        Number of panels.
    size : (float, float)
        Of one panel, in inches.
    three_d : bool
        Whether the panels are three-dimensional.
    **kwargs
        As for `matplotlib.pyplot.subplots`.

    Returns
    -------
    tuple of Axes
    """
    import matplotlib.pyplot as plt  # chooses a backend, which given axes do not need

    figsize = (size[0] * columns, size[1] * rows)
    kind = {"projection": "3d"} if three_d else {}
    _, axes = plt.subplots(
        rows, columns, figsize=figsize, layout="constrained", squeeze=False, subplot_kw=kind, **kwargs
    )
    return tuple(axes.ravel())


def given_axes(ax: AxesLike, n: int, caller: str) -> tuple[Axes, ...]:
    """The n panels that the user passed as one Axes, a list or an array of them.

    Raises
    ------
    ValueError
        For another number of them.
    """
    axes = tuple(np.asarray(ax, dtype=object).ravel())
    if len(axes) != n or not all(isinstance(one, Axes) for one in axes):
        got = f"{len(axes)}" if len(axes) != n else repr(ax)
        raise ValueError(
            f"{caller}: expected {n} axes, got {got}; pass as many, or ax=None for a new figure."
        )
    return axes


def is_three_d(ax: Axes) -> bool:
    """Whether axes are three-dimensional."""
    return getattr(ax, "name", "") == "3d"


def add_legend(axes: Sequence) -> Legend | None:
    """A legend of all labelled artists on the axes of one figure, each label once, to the right of them all.

    Parameters
    ----------
    axes : sequence of Axes
        Of a figure with constrained layout, which makes room for it.

    Returns
    -------
    Legend or None
        None where nothing is labelled.
    """
    found = [pair for ax in axes for pair in zip(*ax.get_legend_handles_labels(), strict=True)]
    first = {label: handle for handle, label in reversed(found)}
    labels = list(dict.fromkeys(label for _, label in found))
    if not labels:
        return None
    figure = root_figure(axes[0])
    handles = [first[label] for label in labels]
    return figure.legend(handles, labels, loc="outside right upper", fontsize="small", handlelength=2.8)


def label_axes(ax: Axes, names: Sequence[str], units: Mapping[str, str]) -> None:
    """Names with units on the two or three axes."""
    for name, which in zip(names, "xyz", strict=False):
        ax.set(**{f"{which}label": with_unit(name, units)})


def whole_ticks(ax: Axes, times: np.ndarray) -> None:
    """Whole numbers on the axis of times that are whole themselves, such as years."""
    seen = times[np.isfinite(times)]
    if seen.size and np.all(seen == np.round(seen)):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))


def with_unit(name: str, units: Mapping[str, str]) -> str:
    """``name``, or ``name [unit]``."""
    return f"{name} [{units[name]}]" if units.get(name) else name
