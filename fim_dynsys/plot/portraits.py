"""Phase portraits: the flow of a field, its data, what the data do not back, and results on top."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fim_dynsys.analyze.results import FieldLike, RegionLike, Result, resolve_region, state_labels, unwrap
from fim_dynsys.fields.base import VectorField
from fim_dynsys.plot import flow, style
from fim_dynsys.plot.canvas import (
    AxesLike,
    Drawing,
    add_legend,
    given_axes,
    is_three_d,
    label_axes,
    merged,
    new_axes,
)
from fim_dynsys.plot.objects import observations
from fim_dynsys.plot.results import draw
from fim_dynsys.plot.space import States, chosen_states
from fim_dynsys.plot.style import Look
from fim_dynsys.regions import Region
from fim_dynsys.trajectories.container import Trajectories

_ARROWS = 17  # along the line of one state
_CURVE = 401  # points of the curve f(x)


def phase_portrait(
    field: FieldLike,
    *results: Result | Trajectories,
    region: RegionLike | None = None,
    ax: AxesLike | None = None,
    states: States | None = None,
    data: bool = True,
) -> Drawing:
    """The flow of a field with results on top.

    One state: the curve f(x), arrows along the axis. Two: streamlines, thicker where the flow is faster.
    More: the three projections on pairs of states (or those of ``states=``), with short paths that thicken
    onwards, since a projected flow has no streamlines. What the data do not back (support below 0.5) is
    hatched. Nothing is searched for: fixed points and the like are drawn where their results are passed.

    Parameters
    ----------
    field : VectorField or fitted model
        Whose flow to draw.
    *results : Result or Trajectories
        What to draw on top: fixed points, nullclines, limit cycles, manifolds, sections, ensembles of them,
        and trajectories (simulated ones as lines, observed ones as dots).
    region : Region, dict or pairs, optional
        The box to show; default the box of the data widened by 10 % on each side.
    ax : Axes or sequence of Axes, optional
        Where to draw, for one or two states one Axes; for more, one for each projection. Default a new
        figure with a legend. On given axes the artists carry labels, for ``ax.legend()``.
    states : sequence of int or str, optional
        States to show, by number or name: two of them, three for the projections on each pair, or three
        on a three-dimensional ``ax``.
    data : bool
        Whether to draw the observations the field was inferred from.

    Returns
    -------
    Drawing
        Artists named ``streamlines`` (or ``paths``, ``curve``, ``arrows``, ``band``), ``unsupported``,
        ``data``, and those of the results.

    Raises
    ------
    ValueError
        If no region is known, states or axes do not fit, or the field is finite nowhere in the region.

    See Also
    --------
    portrait_3d : Of three states.
    fim_dynsys.analyze.fixed_points : One of the results.

    Examples
    --------
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze, plot
    >>> box = fim_dynsys.Region([-3, -3], [3, 3])
    >>> vdp = fim_dynsys.SymbolicField(["x1", "mu*(1 - x0**2)*x1 - x0"], {"mu": 1.0}, region=box)
    >>> drawing = plot.phase_portrait(vdp, analyze.fixed_points(vdp), analyze.limit_cycles(vdp))
    >>> drawing.ax.get_xlabel()
    'x0'
    >>> drawing.close()
    """
    caller = "phase_portrait"
    field = unwrap(field, caller)
    region = resolve_region(field, region, caller)
    views = _views(ax, states, field, caller)
    panels = new_axes(1, len(views), size=(4.2, 4.0) if len(views) > 1 else (7.4, 4.6)) if ax is None else ax
    panels = given_axes(panels, len(views), caller)
    context = field.context if data else None
    drawings = [
        _panel(a, field, region, view, context, results, caller)
        for a, view in zip(panels, views, strict=True)
    ]
    if ax is None:
        add_legend(panels)
    return merged(drawings)


def portrait_3d(
    field: FieldLike,
    *results: Result | Trajectories,
    region: RegionLike | None = None,
    states: States | None = None,
    data: bool = True,
) -> Drawing:
    """A phase portrait of three states on three-dimensional axes of a new figure, with a legend.

    Pages by `write_report` have one that turns.

    Parameters
    ----------
    field, *results, region, data
        As for `phase_portrait`.
    states : sequence of three int or str, optional
        States to show, by number or name; default the first three.

    Returns
    -------
    Drawing
        As of `phase_portrait`.

    Raises
    ------
    ValueError
        For a field of fewer than three states, and as for `phase_portrait`.

    See Also
    --------
    phase_portrait : Of two states.

    Examples
    --------
    >>> import fim_dynsys
    >>> from fim_dynsys import plot
    >>> rates = ["10*(y - x)", "x*(28 - z) - y", "x*y - 8*z/3"]
    >>> lorenz = fim_dynsys.SymbolicField(rates, state_names=["x", "y", "z"])
    >>> box = fim_dynsys.Region([-20, -30, 0], [20, 30, 50])
    >>> path = fim_dynsys.simulate(lorenz, [1.0, 1.0, 20.0], [0.02 * k for k in range(500)])
    >>> drawing = plot.portrait_3d(lorenz, path, region=box)
    >>> len(drawing.axes)
    1
    >>> drawing.close()
    """
    field = unwrap(field, "portrait_3d")
    if field.dim < 3:
        raise ValueError(f"portrait_3d: expected a field of at least three states, got {field.dim}.")
    (ax,) = new_axes(size=(7.4, 5.6), three_d=True)
    drawing = phase_portrait(field, *results, region=region, ax=ax, states=states, data=data)
    add_legend([ax])
    return drawing


def _views(
    ax: AxesLike | None, states: States | None, field: VectorField, caller: str
) -> list[tuple[int, ...]]:
    """The states that each panel shows."""
    chosen = chosen_states(states, field.state_names, caller, default=min(field.dim, 3))
    if len(chosen) < min(field.dim, 2):
        raise ValueError(f"{caller}: expected at least two states, got {states}; a portrait shows pairs.")
    flat = ax is None or not any(is_three_d(a) for a in np.asarray(ax, dtype=object).ravel())
    return list(combinations(chosen, 2)) if len(chosen) == 3 and flat else [chosen]


def _panel(
    ax: Axes,
    field: VectorField,
    region: Region,
    states: tuple[int, ...],
    context: Trajectories | None,
    results: Sequence[Result | Trajectories],
    caller: str,
) -> Drawing:
    artists = (
        _line(ax, field, region, caller) if field.dim == 1 else _space(ax, field, region, states, caller)
    )
    parts = [Drawing((ax,), artists)]
    parts += [] if context is None else [observations(context, ax, states=states)]
    parts += [draw(result, ax, states=states) for result in results]
    names, units = state_labels(field)
    label_axes(ax, [names[i] for i in states], units)
    return merged(parts)


def _space(ax: Axes, field: VectorField, region: Region, states: tuple[int, ...], caller: str) -> dict:
    for i, which in zip(states, "xyz", strict=False):
        getattr(ax, f"set_{which}lim")(region.low[i], region.high[i])
    if field.dim == 2:
        parts = flow.stream(ax, field, region, states, caller)
        artists: dict[str, tuple] = {"streamlines": (parts.lines,), "arrows": (parts.arrows,)}
    else:
        artists = {"paths": (flow.paths(ax, field, region, states),)}
    hidden = [] if len(states) == 3 else flow.veil(ax, *flow.projected_support(field, region, states))
    return artists | ({"unsupported": tuple(hidden)} if hidden else {})


# ---------------------------------------------------------------------- one state


def _line(ax: Axes, field: VectorField, region: Region, caller: str) -> dict:
    x = np.linspace(region.low[0], region.high[0], _CURVE)[:, None]
    f = field(x)[:, 0]
    if not np.isfinite(f).any():
        raise ValueError(
            f"{caller}: expected a field that is finite somewhere in {region}, got none; move it."
        )
    name = field.state_names[0]
    (curve,) = ax.plot(x[:, 0], f, color=style.BLUE, zorder=style.CURVES, label=f"f({name})")
    zero = ax.axhline(0.0, color=style.GREY, linewidth=0.8, zorder=style.FLOW)
    artists = {"curve": (curve,), "zero": (zero,), "arrows": _arrows(ax, field, region)}
    sd = field.scale(x)
    if sd is not None:
        ends = (f - sd[:, 0], f + sd[:, 0])
        band = ax.fill_between(x[:, 0], *ends, color=style.SKY, alpha=0.35, linewidth=0, label="f ± 1 sd")
        artists["band"] = (band,)
    poor = field.support(x) < style.SUPPORTED
    if poor.any():
        artists["unsupported"] = (_hatched_spans(ax, x[:, 0], poor),)
    ax.set_xlim(region.low[0], region.high[0])
    ax.set_ylabel(f"d{name}/dt")
    return artists


def _arrows(ax: Axes, field: VectorField, region: Region) -> tuple[Artist, ...]:
    """Triangles along the axis that point where the flow goes."""
    x = np.linspace(region.low[0], region.high[0], _ARROWS + 2)[1:-1, None]
    f = field(x)[:, 0]
    marks = []
    for marker, here in ((">", f > 0), ("<", f < 0)):
        if here.any():
            look: Look = {"linestyle": "", "color": style.GREY, "markersize": 6, "zorder": style.CURVES}
            marks += ax.plot(x[here, 0], np.zeros(here.sum()), marker=marker, **look)
    return tuple(marks)


def _hatched_spans(ax: Axes, x: np.ndarray, where: np.ndarray) -> Artist:
    return ax.fill_between(
        x,
        0.0,
        1.0,
        where=where,
        transform=ax.get_xaxis_transform(),
        facecolor=style.TINT,
        edgecolor=style.HATCH,
        hatch="//",
        linewidth=0.0,
        zorder=style.FLOW,
        label=flow.UNSUPPORTED,
    )
