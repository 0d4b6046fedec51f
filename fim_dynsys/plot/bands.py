"""Uncertainty of cycles, branches, manifolds, basins and curves; tipping, and where to measure."""

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fim_dynsys.analyze.bands import basins, branches, cycles, experiments, manifolds, plane
from fim_dynsys.analyze.bands import tipping as tips
from fim_dynsys.analyze.tracing.branches import BifurcationKind, BranchKind
from fim_dynsys.plot import style
from fim_dynsys.plot.basin import basin_image
from fim_dynsys.plot.canvas import (
    AxesLike,
    Drawing,
    add_legend,
    given_axes,
    merged,
    new_axes,
    root_figure,
    with_unit,
)
from fim_dynsys.plot.diagrams import bifurcation_diagram, two_parameter
from fim_dynsys.plot.objects import limit_cycles
from fim_dynsys.plot.objects import manifolds as draw_manifolds
from fim_dynsys.plot.space import Space, States, chosen_states
from fim_dynsys.plot.style import Look

_MOST_ORBITS = 40  # drawn: more hide each other
_BAND: Look = {"linewidth": 0.0, "alpha": 0.35, "zorder": style.FLOW}


def cycle_bands(
    result: cycles.CycleBands, ax: Axes | None = None, *, states: States | None = None
) -> Drawing:
    """Limit cycles with those of the drawn fields as thin lines.

    Parameters
    ----------
    result : CycleBands
        Of `fim_dynsys.analyze.cycle_bands`.
    ax : Axes, optional
        Default a new figure.
    states : sequence of int or str, optional
        States along the axes.

    Returns
    -------
    Drawing
        Artists named ``drawn``, and those of the cycles.
    """
    space = Space.opened(ax, states, result.state_names, result.units, "cycle_bands")
    drawn: list[Artist] = []
    for orbits in result.orbits:
        known = orbits[np.isfinite(orbits[:, 0, 0])][:_MOST_ORBITS]
        look: Look = {"color": style.SKY, "linewidth": 0.6, "alpha": 0.6, "zorder": style.FLOW}
        for orbit in known:
            drawn += space.ax.plot(*space.coordinates(orbit), **look, label="cycles of draws")
    cycles_drawn = limit_cycles(result.cycles, space.ax, states=space.states)
    return space.drawing({"drawn": drawn, **cycles_drawn.artists})


def branch_bands(result: branches.BranchBands, ax: Axes | None = None, *, state: int | str = 0) -> Drawing:
    """A bifurcation diagram of data with bands round its branches.

    Parameters
    ----------
    result : BranchBands
        Of `fim_dynsys.analyze.branch_bands`.
    ax : Axes, optional
        Default a new figure.
    state : int or str
        The state to show, by number or name.

    Returns
    -------
    Drawing
        Artists named ``bands``, and those of the diagram.
    """
    (number,) = chosen_states([state], result.state_names, "branch_bands", 1)
    new_figure = ax is None
    (panel,) = given_axes(new_axes() if ax is None else ax, 1, "branch_bands")
    areas: list[Artist] = []
    for band in result.bands:
        color = style.SKY if band.kind is BranchKind.CYCLES else style.GREY
        look = _BAND | {"color": color, "label": f"{result.level:.0%} band, {band.kind.value}"}
        ends = [(band.high[:, number], band.high_half[:, number])]
        if band.kind is BranchKind.CYCLES:
            ends.append((band.low[:, number], band.low_half[:, number]))
        for middle, half in ends:
            areas.append(_area(panel, band.p, middle, half, look))
    drawn = bifurcation_diagram(result.diagram, panel, state=number)
    if new_figure:
        add_legend([panel])
    return merged([Drawing((panel,), {"bands": tuple(areas)}), drawn])


def _area(ax: Axes, p: np.ndarray, middle: np.ndarray, half: np.ndarray, look: Look) -> Artist:
    """A band that follows a branch round its folds: above and below it, in order along it."""
    known = np.isfinite(half)
    p, middle, half = p[known], middle[known], half[known]
    x, y = np.concatenate([p, p[::-1]]), np.concatenate([middle + half, (middle - half)[::-1]])
    return ax.fill(x, y, **look)[0]


def manifold_bands(
    result: manifolds.ManifoldBands, ax: Axes | None = None, *, states: States | None = None
) -> Drawing:
    """Manifolds of saddles, in the plane with bands; in space only the manifolds.

    Parameters
    ----------
    result : ManifoldBands
        Of `fim_dynsys.analyze.manifold_bands`.
    ax : Axes, optional
        Default a new figure.
    states : sequence of int or str, optional
        States along the axes.

    Returns
    -------
    Drawing
        Artists named ``bands``, and those of the manifolds.
    """
    space = Space.opened(ax, states, result.state_names, result.units, "manifold_bands")
    areas: list[Artist] = []
    if len(result.state_names) == 2:
        for branch, path, half in zip(
            result.manifolds.branches, result.paths, result.half_widths, strict=True
        ):
            color = style.GREEN if branch.stable else style.SKY
            what = "stable" if branch.stable else "unstable"
            look = _BAND | {"color": color, "label": f"{result.level:.0%} band, {what} manifold"}
            if len(path) > 1:
                corners = _tube(path / result.length, half) * result.length
                areas += space.ax.fill(*space.coordinates(corners), **look)
    manifolds_drawn = draw_manifolds(result.manifolds, space.ax, states=space.states)
    space.show(result.manifolds.fixed_points.region)
    return space.drawing({"bands": areas, **manifolds_drawn.artists})


def _tube(path: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Outline (2 m, 2) of the points within these distances to the sides of a path (m, 2)."""
    known = np.isfinite(half)
    if known.sum() < 2:
        return np.empty((0, 2))
    path, half = path[known], half[known]
    along = np.gradient(path, axis=0)
    size = np.linalg.norm(along, axis=1, keepdims=True)
    side = np.stack([-along[:, 1], along[:, 0]], axis=1) / np.where(size > 0, size, 1.0)
    return np.concatenate([path + half[:, None] * side, (path - half[:, None] * side)[::-1]])


def basin_probabilities(
    result: basins.BasinProbabilities, ax: AxesLike | None = None, *, states: States | None = None
) -> Drawing:
    """Basins of the field, and the probability that a state does not lead where the field says.

    Parameters
    ----------
    result : BasinProbabilities
        Of `fim_dynsys.analyze.basin_probabilities`.
    ax : sequence of two Axes, optional
        Default a new figure.
    states : sequence of int or str, optional
        The coordinates of the image, in the order in which they run along x and y.

    Returns
    -------
    Drawing
        Artists named ``doubt``, and those of the basins.
    """
    new_figure = ax is None
    left, right = given_axes(new_axes(1, 2, size=(5.0, 4.2)) if ax is None else ax, 2, "basin_probabilities")
    shown = result.basins.coordinates if states is None else states
    space = Space.opened(right, shown, result.state_names, result.units, "basin_probabilities")
    drawn = basin_image(result.basins, left, states=space.states)
    axes, doubt = result.basins.axes, result.doubt
    look: Look = {"cmap": "magma_r", "vmin": 0.0, "vmax": 1.0, "shading": "nearest", "rasterized": True}
    if len(axes) == 1:
        image: Artist = right.plot(axes[0], doubt, color=style.BLACK)[0]
        right.set_ylabel("probability of another end")
    else:
        turned = space.states != result.basins.coordinates
        x, y = axes[::-1] if turned else axes
        image = right.pcolormesh(x, y, doubt if turned else doubt.T, **look)
        root_figure(right).colorbar(image, ax=right, label="probability of another end")
    for panel in (left, right):
        names = [with_unit(result.state_names[i], result.units) for i in space.states]
        panel.set(xlabel=names[0], **({"ylabel": names[1]} if len(names) > 1 else {}))
    if new_figure:
        add_legend([left])
    return merged([drawn, Drawing((right,), {"doubt": (image,)})])


def curves_from_data(result: plane.CurvesFromData, ax: Axes | None = None) -> Drawing:
    """Curves over two parameters with their bands, and the measured pairs as crosses.

    Parameters
    ----------
    result : CurvesFromData
        Of `fim_dynsys.analyze.curves_from_data`.
    ax : Axes, optional
        Default a new figure.

    Returns
    -------
    Drawing
        Artists named ``bands`` and ``values``, and those of the curves.
    """
    new_figure = ax is None
    (panel,) = given_axes(new_axes() if ax is None else ax, 1, "curves_from_data")
    areas: list[Artist] = []
    for curve, rows, axis, half in zip(
        result.curves.curves, result.rows, result.axis, result.half_widths, strict=True
    ):
        color = style.GREY if curve.kind is BifurcationKind.FOLD else style.SKY
        look = _BAND | {"color": color, "label": f"{result.level:.0%} band"}
        middle = np.stack([curve.p[rows], curve.q[rows]], axis=1)
        shift = half[:, None] * np.eye(2)[axis]
        # a piece between two points is drawn where both have a band, so that the outline never crosses
        for k in range(len(rows) - 1):
            corners = np.array(
                [
                    middle[k] - shift[k],
                    middle[k] + shift[k],
                    middle[k + 1] + shift[k + 1],
                    middle[k + 1] - shift[k + 1],
                ]
            )
            if np.isfinite(corners).all() and axis[k] == axis[k + 1]:
                areas += panel.fill(*corners.T, **look)
    mark: Look = {"marker": "+", "linestyle": "", "color": style.VERMILLION, "label": "measured"}
    values = panel.plot(*result.values.T, **mark, zorder=style.DATA)
    drawn = two_parameter(result.curves, panel)
    panel.margins(0.03)
    panel.autoscale()
    if new_figure:
        add_legend([panel])
    return merged([Drawing((panel,), {"bands": tuple(areas), "values": tuple(values)}), drawn])


def tipping(result: tips.Tipping, ax: Axes | None = None) -> Drawing:
    """Share of the paths that are away over time, with the ramp, and the interval at the end.

    Parameters
    ----------
    result : Tipping
        Of `fim_dynsys.analyze.tipping`.
    ax : Axes, optional
        Default a new figure.

    Returns
    -------
    Drawing
        Artists named ``away``, ``interval`` and, where there is one, ``ramp``.
    """
    new_figure = ax is None
    (panel,) = given_axes(new_axes() if ax is None else ax, 1, "tipping")
    away = panel.plot(result.times, result.away, color=style.VERMILLION, label="away")
    low, high = result.interval
    spread: Look = {
        "fmt": "o",
        "color": style.VERMILLION,
        "capsize": 5,
        "label": f"{result.level:.0%} interval",
    }
    ends = [[max(0.0, result.probability - low)], [max(0.0, high - result.probability)]]
    interval = panel.errorbar(result.times[-1:], [result.probability], yerr=ends, **spread)
    artists: dict[str, tuple] = {"away": tuple(away), "interval": (interval,)}
    if np.isfinite(result.ramp).all():
        other = panel.twinx()
        ramp = other.plot(result.times, result.ramp, color=style.GREY, linestyle="--")
        other.set_ylabel("parameter", color=style.GREY)
        artists["ramp"] = tuple(ramp)
    panel.set(xlabel=with_unit("t", result.units), ylabel="share of paths away", ylim=(-0.03, 1.03))
    if new_figure:
        add_legend([panel])
    return Drawing((panel,), artists)


def next_measurement(result: experiments.NextMeasurement, ax: Axes | None = None) -> Drawing:
    """Expected deviation of a bifurcation over the value measured next, against the present one.

    Parameters
    ----------
    result : NextMeasurement
        Of `fim_dynsys.analyze.next_measurement`.
    ax : Axes, optional
        Default a new figure.

    Returns
    -------
    Drawing
        Artists named ``expected``, ``now``, ``best``, ``bifurcation`` and ``values``.
    """
    new_figure = ax is None
    (panel,) = given_axes(new_axes() if ax is None else ax, 1, "next_measurement")
    expected = panel.plot(result.values, result.expected, color=style.BLUE, label="after one more")
    now = panel.axhline(result.deviation, color=style.GREY, linestyle="--", label="now")
    best = panel.plot([result.best], [result.expected.min()], "o", color=style.VERMILLION, label="best")
    place = panel.axvline(
        result.bifurcation.p, color=style.BLACK, linestyle=":", label=str(result.bifurcation.kind)
    )
    look: Look = {"linestyle": "", "marker": "|", "markersize": 9, "color": style.VERMILLION}
    height = np.full(len(result.measured), 0.02)
    across = panel.get_xaxis_transform()
    values = panel.plot(result.measured, height, **look, transform=across, label="measured values")
    panel.set(
        xlabel=with_unit(result.parameter, result.units), ylabel="standard deviation of the bifurcation"
    )
    if new_figure:
        add_legend([panel])
    parts = {"expected": expected, "now": [now], "best": best, "bifurcation": [place], "values": values}
    return Drawing((panel,), {name: tuple(found) for name, found in parts.items()})
