"""Fits of known equations: where their searches ended, and profiles of their parameters."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from matplotlib.axes import Axes

from fim_dynsys.estimation.fits import Fit
from fim_dynsys.estimation.profiles import Profile
from fim_dynsys.plot import style
from fim_dynsys.plot.canvas import Drawing, given_axes, new_axes

_HIGHEST = 100.0  # log-likelihood units above the best: searches beyond are drawn at the edge


class _Fitted(Protocol):
    @property
    def fit_(self) -> Fit:
        """All searches."""


def waterfall(model: _Fitted, ax: Axes | None = None) -> Drawing:
    """Objectives in which the searches of a fit ended, the best first: a flat foot is a minimum found often.

    Parameters
    ----------
    model : fitted EquationsModel
        Whose searches are drawn.
    ax : Axes, optional
        Default a new figure.

    Returns
    -------
    Drawing
        Artists named ``searches`` and ``best``.
    """
    fit = model.fit_
    (ax,) = given_axes(new_axes() if ax is None else ax, 1, "waterfall")
    above = np.sort(np.maximum(fit.values - min(fit.values.min(initial=np.inf), fit.descent.value), 0.0))
    numbers = np.arange(1, len(above) + 1)
    look = style.SERIES[0]
    artists = {
        "searches": tuple(
            ax.plot(
                numbers,
                np.minimum(above, _HIGHEST),
                look["marker"],
                color=look["color"],
                markerfacecolor="none",
            )
        ),
        "best": (ax.axhline(0.0, color="0.7", linewidth=0.8, zorder=0),),
    }
    ax.set_yscale("symlog", linthresh=0.1)
    ax.set_xlabel("search, best first")
    ax.set_ylabel("log-likelihood below the best")
    return Drawing((ax,), artists)


def profiles(given: Mapping[str, Profile] | Sequence[Profile], axes: Sequence[Axes] | None = None) -> Drawing:
    """Profiles of parameters, one to each axes, with the rise at which their intervals end.

    Parameters
    ----------
    given : dict or list of Profile
        As `EquationsModel.profiles` gives them.
    axes : sequence of Axes, optional
        One for each; default a new figure.

    Returns
    -------
    Drawing
        Artists named ``profiles``, ``best`` and ``ends``.

    Raises
    ------
    ValueError
        If there is none.
    """
    if not len(given):
        raise ValueError("profiles: expected profiles, got none; give names to EquationsModel.profiles.")
    items = list(given.values()) if isinstance(given, Mapping) else list(given)
    if axes is None:
        import matplotlib.pyplot as plt

        _, grid = plt.subplots(1, len(items), figsize=(2.6 * len(items), 2.4), squeeze=False, sharey=True)
        axes = list(grid[0])
    artists: dict[str, list] = {"profiles": [], "best": [], "ends": []}
    for ax, item in zip(axes, items, strict=True):
        look = style.SERIES[0]
        artists["profiles"] += ax.plot(item.values, item.rises, color=look["color"])
        artists["best"] += ax.plot(item.best, 0.0, look["marker"], color=look["color"])
        for level, limit in item.thresholds.items():
            artists["ends"].append(ax.axhline(limit, color="0.7", linewidth=0.8, zorder=0))
            ax.annotate(f"{100 * level:.0f} %", (1.0, limit), xycoords=("axes fraction", "data"), fontsize=7)
        ax.set_xlabel(item.name)
        ax.set_ylim(-0.2, 1.3 * max(item.thresholds.values()))
    axes[0].set_ylabel("log-likelihood below the best")
    return Drawing(tuple(axes), {name: tuple(drawn) for name, drawn in artists.items()})
