"""The drawing of a result, whatever its kind."""

import pkgutil
from typing import Any

from matplotlib.axes import Axes

from fim_dynsys.analyze.results import Result
from fim_dynsys.plot.canvas import Drawing
from fim_dynsys.plot.objects import paths
from fim_dynsys.trajectories.container import Trajectories


def draw(result: Result | Trajectories, ax: Axes | None = None, **kwargs: Any) -> Drawing:
    """Draw a result of `fim_dynsys.analyze`, or trajectories in state space.

    Parameters
    ----------
    result : Result or Trajectories
        What to draw, by the function that its class names as ``drawn_by``; ``result.plot(ax, **kwargs)`` is
        the same.
    ax : Axes, optional
        Where; default a new figure. New axes get labels and a legend, on given ones the artists carry
        labels for ``ax.legend()``.
    **kwargs
        ``states=`` for what lies in state space: the states along the axes, by number or name. Others are
        named with the function that draws the kind.

    Returns
    -------
    Drawing

    Raises
    ------
    TypeError
        For anything that has no drawing.

    See Also
    --------
    phase_portrait : Several results in one picture.

    Examples
    --------
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze, plot
    >>> box = fim_dynsys.Region([-3, -3], [3, 3])
    >>> vdp = fim_dynsys.SymbolicField(["x1", "mu*(1 - x0**2)*x1 - x0"], {"mu": 1.0}, region=box)
    >>> drawing = plot.draw(analyze.fixed_points(vdp))
    >>> drawing.ax.get_xlabel()
    'x0'
    >>> drawing.close()
    """
    if isinstance(result, Trajectories):
        return paths(result, ax, **kwargs)
    drawn_by = getattr(type(result), "drawn_by", None)
    if drawn_by is None:
        raise TypeError(
            "draw: expected Trajectories or a result whose class names what draws it as drawn_by, got "
            f"{type(result).__name__}."
        )
    function = pkgutil.resolve_name(drawn_by) if isinstance(drawn_by, str) else drawn_by
    return function(result, ax, **kwargs)
