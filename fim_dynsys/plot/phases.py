"""Phases of oscillations: response curves with bands, and the phases that states of a plane lead to."""

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fim_dynsys.analyze.bands.phase_response import PhaseResponse
from fim_dynsys.analyze.bands.resilience import Resilience
from fim_dynsys.analyze.cycles.isochrons import Isochrons
from fim_dynsys.plot import style
from fim_dynsys.plot.canvas import Drawing, add_legend, given_axes, new_axes
from fim_dynsys.plot.space import Space

_COLORS = ("#1f5a96", "#b5542b", "#4c8c4a", "#7a4f96", "#8a8a8a")


def phase_response(result: PhaseResponse, ax: Axes | None = None) -> Drawing:
    """Advance of the phase by a small shift of each state over the phase, with bands where there are draws.

    Parameters
    ----------
    result : PhaseResponse
        Of `fim_dynsys.analyze.phase_response`.
    ax : Axes, optional
        Default a new figure.

    Returns
    -------
    Drawing
        Artists named ``curves`` and ``bands``.
    """
    new_figure = ax is None
    (panel,) = given_axes(new_axes() if ax is None else ax, 1, "phase_response")
    phase = np.append(result.phase, 1.0)
    bands = result.interval()
    curves: list[Artist] = []
    areas: list[Artist] = []
    for i, name in enumerate(result.state_names):
        color = _COLORS[i % len(_COLORS)]
        curve = np.append(result.response[:, i], result.response[0, i])
        curves += panel.plot(phase, curve, color=color, label=name)
        if len(result.drawn):
            low, high = (np.append(bands[:, i, k], bands[0, i, k]) for k in (0, 1))
            areas.append(panel.fill_between(phase, low, high, color=color, alpha=0.25, linewidth=0.0))
    panel.axhline(0.0, color=style.GREY, linewidth=0.6)
    panel.set_xlabel("phase (periods)")
    panel.set_ylabel("advance (periods per unit)")
    if new_figure:
        add_legend([panel])
    return Drawing((panel,), {"curves": tuple(curves), "bands": tuple(areas)})


def isochrons(result: Isochrons, ax: Axes | None = None) -> Drawing:
    """Phases in a plane by a cyclic scale of colours, with the cycle on top.

    Parameters
    ----------
    result : Isochrons
        Of `fim_dynsys.analyze.isochrons`.
    ax : Axes, optional
        Default a new figure.

    Returns
    -------
    Drawing
        Artists named ``phases`` and ``cycle``.
    """
    space = Space.opened(ax, result.coordinates, result.state_names, result.units, "isochrons")
    image = space.ax.pcolormesh(
        *result.axes,
        np.ma.masked_invalid(result.phase.T),
        cmap="twilight",
        vmin=0.0,
        vmax=1.0,
        shading="nearest",
    )
    cycle = space.ax.plot(*space.coordinates(result.orbit), color="black", linewidth=1.2)
    space.ax.figure.colorbar(image, ax=space.ax, label="phase (periods)")
    return space.drawing({"phases": [image], "cycle": cycle})


def resilience(result: Resilience, ax: Axes | None = None) -> Drawing:
    """Share, smallest shock and return time of each attractor along the parameter, one below the other.

    Parameters
    ----------
    result : Resilience
        Of `fim_dynsys.analyze.resilience`.
    ax : sequence of three Axes, optional
        Default a new figure.

    Returns
    -------
    Drawing
        Artists named ``share``, ``shock`` and ``return_time``.
    """
    new_figure = ax is None
    panels = given_axes(new_axes(3, size=(7.0, 7.0)) if ax is None else ax, 3, "resilience")
    artists: dict[str, tuple[Artist, ...]] = {}
    texts = {"share": "share of the region", "shock": "smallest fatal shock", "return_time": "return time"}
    for panel, (name, text) in zip(panels, texts.items(), strict=True):
        drawn: list[Artist] = []
        bands = result.interval(name)
        for k in range(len(result.kinds)):
            here = np.isfinite(result.places[k, :, 0])
            color = _COLORS[k % len(_COLORS)]
            values = getattr(result, name)[k, here]
            label = f"{k}: {result.kinds[k]}"
            drawn += panel.plot(result.values[here], values, "o-", color=color, markersize=3, label=label)
            low, high = bands[k, here].T
            drawn.append(
                panel.fill_between(result.values[here], low, high, color=color, alpha=0.25, linewidth=0)
            )
        panel.set_ylabel(text)
        artists[name] = tuple(drawn)
    panels[-1].set_xlabel(result.parameter)
    if new_figure:
        add_legend(panels)
    return Drawing(tuple(panels), artists)
