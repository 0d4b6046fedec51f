"""Basins of attraction: an image with the attractors on top, and what it does not say hatched."""

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.patheffects import withStroke

from fim_dynsys.analyze.phase_space.basin import BasinLabel, Basins
from fim_dynsys.analyze.phase_space.capture import AttractorKind
from fim_dynsys.plot import flow, style
from fim_dynsys.plot.canvas import Drawing, pair
from fim_dynsys.plot.flow import Grid
from fim_dynsys.plot.space import Space, States
from fim_dynsys.plot.style import Look

# From light to dark, so that neighbours differ in grey too; numbers distinguish more attractors than colours.
_COLORS = ("#f5e6b8", "#a8d0e6", "#e8a978", "#7fb08a", "#b483b0", "#5b7db1")
_SPECIAL = {
    BasinLabel.LEFT_REGION: ("#ffffff", "..", "leaves the region"),
    BasinLabel.LEFT_SUPPORT: ("#ffffff", "xx", "leaves the supported region"),
    BasinLabel.UNDECIDED: ("#808080", None, "undecided"),
}
_BELOW = 0.5 * style.FLOW  # order of drawing: under the flow


def basin_image(result: Basins, ax: Axes | None = None, *, states: States | None = None) -> Drawing:
    """Which attractor each state leads to, with the attractors and their numbers on top.

    Hatched where the trajectory passes through the unsupported part. The legend gives each basin's
    share of the region.

    Parameters
    ----------
    result : Basins
        Of `fim_dynsys.analyze.basins`.
    ax : Axes, optional
        Default a new figure.
    states : sequence of int or str, optional
        The coordinates of the image, in the order in which they run along x and y.

    Returns
    -------
    Drawing
        Artists named ``basins``, ``special``, ``unsupported``, ``attractors`` and ``numbers``.

    Raises
    ------
    ValueError
        If the states are not the coordinates of the image.
    """
    names = result.state_names
    states = result.coordinates if states is None else states
    space = Space.opened(ax, states, names, result.units, "basins")
    if set(space.states) != set(result.coordinates):
        raise ValueError(
            f"basins: expected the states {[names[i] for i in result.coordinates]} of the image, got "
            f"{[names[i] for i in space.states]}; make one with coordinates="
        )
    grid, labels, support = _oriented(result, space.states)
    artists = {"basins": [_image(space.ax, grid, labels)], "special": _hatches(space.ax, grid, labels)}
    artists["unsupported"] = flow.veil(space.ax, grid, support, tint=False)
    artists |= _attractors(space, result)
    _name(space.ax, result, labels)
    space.ax.set_ylim(grid[1][0], grid[1][-1])
    space.ax.set_xlim(grid[0][0], grid[0][-1])
    return space.drawing(artists)


def _oriented(
    result: Basins, states: tuple[int, ...]
) -> tuple[tuple[np.ndarray, ...], np.ndarray, np.ndarray]:
    """Axes and images with rows along y; a line of states becomes a band between heights -1 and 1."""
    if len(states) == 1:
        height = np.array([-1.0, 1.0])
        return (result.axes[0], height), np.tile(result.labels, (2, 1)), np.tile(result.support, (2, 1))
    if tuple(states) == tuple(result.coordinates):
        return result.axes, result.labels.T, result.support.T
    return result.axes[::-1], result.labels, result.support


def _image(ax: Axes, grid: Grid, labels: np.ndarray) -> Artist:
    n = max(labels.max() + 1, 1)
    special = [_SPECIAL[label][0] for label in sorted(BasinLabel)]
    colors = ListedColormap([*special, *(_COLORS[i % len(_COLORS)] for i in range(n))])
    norm = BoundaryNorm(np.arange(-len(special) - 0.5, n + 0.5), colors.N)
    look: Look = {"cmap": colors, "norm": norm, "shading": "nearest", "rasterized": True, "zorder": _BELOW}
    return ax.pcolormesh(*grid, labels, **look)


def _hatches(ax: Axes, grid: Grid, labels: np.ndarray) -> list:
    found = []
    for label, (_, hatch, _) in _SPECIAL.items():
        if hatch and (labels == label).any():
            look: Look = {"levels": [0.5, 1.5], "colors": "none", "hatches": [hatch], "zorder": _BELOW}
            part = ax.contourf(*grid, (labels == label).astype(float), **look)
            part.set(edgecolor=style.PALE, linewidth=0.0)
            found.append(part)
    return found


def _attractors(space: Space, result: Basins) -> dict:
    marks, numbers = [], []
    for i, attractor in enumerate(result.attractors):
        ink = style.BLACK if attractor.support >= style.SUPPORTED else style.GREY
        look: Look = {"color": ink, "zorder": style.POINTS}  # of a cycle as `limit_cycles` draws it
        if attractor.kind is AttractorKind.FIXED_POINT:
            look |= {"marker": "o", "markersize": 8, "linestyle": ""}
        elif attractor.kind is AttractorKind.CYCLE:
            look |= {"linewidth": 2.4, "color": style.GREY if ink == style.GREY else style.PURPLE}
            look |= {"path_effects": [withStroke(linewidth=4.4, foreground="white")]}
        else:
            look |= {"marker": ".", "markersize": 2, "linestyle": ""}
        marks += space.ax.plot(*space.coordinates(attractor.points), **look)
        at = pair(np.array(space.coordinates(attractor.points[:1]))[:, 0])
        box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": ink}
        place: Look = {"textcoords": "offset points", "fontsize": "small", "bbox": box, "zorder": style.TEXT}
        numbers.append(space.ax.annotate(str(i), at, (9, 9), **place))
    return {"attractors": marks, "numbers": numbers}


def _name(ax: Axes, result: Basins, labels: np.ndarray) -> None:
    """Empty polygons that carry the legend: images have no entries of their own."""
    for label in [*range(len(result.attractors)), *BasinLabel]:
        if label >= 0:
            face, hatch = _COLORS[label % len(_COLORS)], None
            name = f"{label}: {result.attractors[label].kind.value}"
        elif (labels == label).any():
            face, hatch, name = _SPECIAL[label]
        else:
            continue
        share = f"{result.fractions[label]:.1%} ± {result.errors[label]:.1%}"
        look: Look = {"facecolor": face, "hatch": hatch, "edgecolor": style.GREY, "linewidth": 0.5}
        ax.fill([], [], **look, label=f"{name}, {share}")
