"""The front of complexity against misfit."""

from typing import Protocol

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from fim_dynsys.analyze.alternatives import Alternatives
from fim_dynsys.plot import style
from fim_dynsys.plot.canvas import Drawing, add_legend, given_axes, new_axes


class _Considered(Protocol):
    """A fitted model that says what else the samples allow."""

    @property
    def alternatives_(self) -> Alternatives:
        """Its table."""


def front(model: _Considered | Alternatives, ax: Axes | None = None) -> Drawing:
    """What structures leave of the samples against their number of parameters, the preferred one filled.

    Numbers beside the marks are rows of ``model.alternatives_``, as `select` takes them.

    Parameters
    ----------
    model : fitted model or Alternatives
        What to show.
    ax : Axes, optional
        Default a new figure.

    Returns
    -------
    Drawing
        Artists named ``alternatives``, ``preferred`` and ``rows``.

    Raises
    ------
    TypeError
        For anything else.

    See Also
    --------
    fim_dynsys.load : ``"auto"`` has alternatives.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> from fim_dynsys import plot
    >>> t = np.linspace(0, 5, 60)
    >>> model = fim_dynsys.load("auto", effort="fast").fit(3.0 * np.exp(-0.5 * t), t)
    >>> drawing = plot.front(model)
    >>> len(drawing.axes)
    1
    >>> drawing.close()
    """
    rows = model if isinstance(model, Alternatives) else getattr(model, "alternatives_", None)
    if not isinstance(rows, Alternatives):
        raise TypeError(f"front: expected a fitted 'auto' or its alternatives_, got {type(model).__name__}.")
    new_figure = ax is None
    (ax,) = given_axes(new_axes() if ax is None else ax, 1, "front")
    size, misses = [row.parameters for row in rows], [row.misses for row in rows]
    chosen = [k for k, row in enumerate(rows) if row.is_preferred]
    drawn = ax.plot(size, misses, "o", color=style.GREY, markerfacecolor="none", label="alternatives")
    best = ax.plot(
        [size[k] for k in chosen], [misses[k] for k in chosen], "o", color=style.BLACK, label="preferred"
    )
    texts = [
        ax.annotate(str(k), (x, y), xytext=(5, 3), textcoords="offset points", fontsize="small")
        for k, (x, y) in enumerate(zip(size, misses, strict=True))
    ]
    ax.set_yscale("log")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("parameters")
    ax.set_ylabel("misfit in standard deviations of the states")
    if new_figure:
        add_legend([ax])
    return Drawing((ax,), {"alternatives": tuple(drawn), "preferred": tuple(best), "rows": tuple(texts)})
