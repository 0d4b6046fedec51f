"""The flow behind a portrait: streamlines, short paths in projections, and what the data do not back."""

from collections.abc import Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.streamplot import StreamplotSet
from scipy.spatial import cKDTree

from fim_dynsys.fields.base import VectorField
from fim_dynsys.plot import style
from fim_dynsys.plot.style import Look
from fim_dynsys.regions import Region
from fim_dynsys.simulation.solution import integrate

UNSUPPORTED = "unsupported by data"

Grid = Sequence[np.ndarray]
"""Evenly spaced values along x and along y."""

_GRID = 41  # points along a side
_FINE = 101  # the edge of the support has detail of the size of the spacing of the data
_BEHIND = 8  # observations tried for each point of a projection
_PATHS, _PATH_POINTS = 96, 24  # drawn; on each


def plane(region: Region, states: tuple[int, ...], n: int = _GRID) -> tuple[list[np.ndarray], np.ndarray]:
    """Evenly spaced axes along two states, and the points ``(n, n, 2)``: rows along y, columns along x."""
    axes = [np.linspace(region.low[i], region.high[i], n) for i in states]
    return axes, np.stack(np.meshgrid(*axes), axis=-1)


def planar_points(
    region: Region, states: tuple[int, ...], n: int = _GRID
) -> tuple[list[np.ndarray], np.ndarray]:
    """As `plane` for a planar box, the points in the order of the field's states whichever runs along x."""
    axes, points = plane(region, states, n)
    return axes, points[..., list(np.argsort(states))]


def stream(
    ax: Axes, field: VectorField, region: Region, states: tuple[int, ...], caller: str
) -> StreamplotSet:
    """Streamlines of a planar field, thicker where the flow is faster (on a logarithmic scale).

    Points where the field is not finite are left out.

    Raises
    ------
    ValueError
        If the field is finite nowhere on the grid.
    """
    axes, points = planar_points(region, states)
    velocity = field(points)[..., list(states)]
    finite = np.isfinite(velocity).all(axis=-1)
    if not finite.any():
        raise ValueError(
            f"{caller}: expected a field that is finite somewhere in {region}, got none; move it."
        )
    speed = np.linalg.norm(velocity / region.size[list(states)], axis=-1)
    u, v = (np.ma.masked_where(~finite, velocity[..., i]) for i in range(2))
    look: Look = style.STREAM | {"linewidth": _widths(np.where(finite, speed, 0.0))}
    return ax.streamplot(axes[0], axes[1], u, v, **look, density=1.1, arrowsize=0.8)


def _widths(speed: np.ndarray, thin: float = 0.4, thick: float = 1.5) -> np.ndarray:
    """Line widths from the speed in box sizes per time; three decades span the whole range."""
    top = speed.max()
    decades = np.log10(np.clip(speed / (top if top > 0 else 1.0), 1e-3, 1.0))
    return thin + (thick - thin) * (1.0 + decades / 3.0)


def paths(ax: Axes, field: VectorField, region: Region, states: tuple[int, ...]) -> Artist:
    """Short paths through a box of more than two states, seen along the others: they thicken onwards.

    The slope of a projected flow is not a function of the projected point, so that there are no
    streamlines. Each path lasts the field's time scale at most, and ends where it leaves the box.
    """
    times = np.linspace(0.0, field.scales.time, _PATH_POINTS)
    x = integrate([field], region.sobol(_PATHS), times).x
    inside = np.logical_and.accumulate(region.contains(x), axis=1)
    x = np.where(inside[..., None], x, np.nan)[..., list(states)]
    pieces = np.stack([x[:, :-1], x[:, 1:]], axis=2)
    widths = np.broadcast_to(np.linspace(0.2, 1.6, _PATH_POINTS - 1), pieces.shape[:2])
    seen = np.isfinite(pieces).all(axis=(2, 3))
    if len(states) == 3:
        from mpl_toolkits.mplot3d.art3d import Line3DCollection as Collection
    else:
        from matplotlib.collections import LineCollection as Collection
    look: Look = style.STREAM | {"color": style.PALE, "linewidth": widths[seen]}
    lines = Collection(pieces[seen], **look, capstyle="round")
    return ax.add_collection(lines)


def veil(ax: Axes, grid: Grid, support: np.ndarray, tint: bool = True) -> list:
    """Hatched, with an edge, and paler where `tint`: where support is below one half.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    grid, support
        Of `projected_support`.
    tint : bool
        False where colours underneath have a meaning.

    Returns
    -------
    list of Artist
        Empty where all is supported.
    """
    if (support >= style.SUPPORTED).all():
        return []
    below = [-1.0, style.SUPPORTED]
    at: Look = {"zorder": style.VEIL}
    face = style.TINT if tint else "none"
    pale = [ax.contourf(*grid, support, levels=below, colors=face, alpha=0.7, **at)] if tint else []
    hatch = ax.contourf(*grid, support, levels=below, colors="none", hatches=["//"], **at)
    hatch.set(edgecolor=style.HATCH, linewidth=0.0)
    edge = ax.contour(*grid, support, levels=below[1:], colors=style.GREY, linewidths=0.8, **at)
    # Legends know no contours: an empty patch of the same look stands in for the area.
    (sample,) = ax.fill([], [], facecolor=face, edgecolor=style.HATCH, hatch="//", linewidth=0.0)
    sample.set_label(UNSUPPORTED)
    return [hatch, edge, sample, *pale]


def projected_support(
    field: VectorField, region: Region, states: tuple[int, ...]
) -> tuple[list[np.ndarray], np.ndarray]:
    """Support on a grid over two states, the largest over the others: axes, and values ``(n, n)``.

    Over hidden states it is largest near observations, so that those close by in the projection are tried.
    """
    if field.dim == 2:
        axes, points = planar_points(region, states, _FINE)
        return axes, field.support(points)
    axes, points = plane(region, states, _FINE)
    if field.context is None:
        return axes, field.support(np.broadcast_to(region.centre, (*points.shape[:2], field.dim)))
    observed = np.concatenate([x for _, x in field.context.arrays()])
    observed = observed[np.isfinite(observed).all(axis=1)]
    size = region.size[list(states)]
    tree = cKDTree(observed[:, list(states)] / size)
    _, nearest = tree.query(points / size, k=min(_BEHIND, len(observed)))
    behind = observed[nearest.reshape(*points.shape[:2], -1)]
    behind[..., list(states)] = points[..., None, :]
    return axes, field.support(behind).max(axis=-1)
