"""The drawing of a result, whatever its kind."""

import importlib

from fim_dynsys.plot.canvas import Drawing

# Kinds of results (and of other things that portraits show) and the functions that draw them.
_DRAWN_BY = {
    "Basins": ("basin", "basin_image"),
    "Continuation": ("diagrams", "bifurcation_diagram"),
    "DataBifurcations": ("diagrams", "bifurcation_diagram"),
    "FixedPoints": ("objects", "fixed_points"),
    "LimitCycles": ("objects", "limit_cycles"),
    "LyapunovSpectrum": ("spectra", "lyapunov_convergence"),
    "Manifolds": ("objects", "manifolds"),
    "MemberResults": ("members", "member_objects"),
    "Nullclines": ("objects", "nullclines"),
    "PoincareSection": ("objects", "section"),
    "Trajectories": ("objects", "paths"),
}


def draw(result, ax=None, **kwargs) -> Drawing:
    """Draw a result of `fim_dynsys.analyze`, or trajectories in state space.

    Parameters
    ----------
    result : Result or Trajectories
        What to draw; ``result.plot(ax, **kwargs)`` is the same.
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
    """
    for kind in type(result).__mro__:
        if kind.__name__ in _DRAWN_BY and kind.__module__.split(".")[0] == "fim_dynsys":
            file, function = _DRAWN_BY[kind.__name__]
            return getattr(importlib.import_module(f"fim_dynsys.plot.{file}"), function)(result, ax, **kwargs)
    raise TypeError(f"draw: expected one of {', '.join(sorted(_DRAWN_BY))}, got {type(result).__name__}.")
