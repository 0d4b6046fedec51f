"""Bifurcation diagrams: branches solid where stable and dashed where not, bifurcations labelled."""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fim_dynsys.analyze.bifurcation.measured import DataBifurcations, MeasuredBifurcation
from fim_dynsys.analyze.bifurcation.two_parameters import BifurcationCurves
from fim_dynsys.analyze.tracing.branches import (
    Bifurcation,
    BifurcationKind,
    Branch,
    BranchKind,
    Continuation,
)
from fim_dynsys.plot import style
from fim_dynsys.plot.canvas import Drawing, add_legend, given_axes, new_axes, with_unit
from fim_dynsys.plot.labels import place_label
from fim_dynsys.plot.space import chosen_states
from fim_dynsys.plot.style import Look

_CIRCLES = 15  # along a branch of cycles
_EVENTS = {
    "LP": "fold",
    "HB": "Hopf",
    "BP": "branch point",
    "NM": "near miss",
    "DB": "degenerate",
    "O2": "circle of equilibria",
    "CP": "cusp",
    "BT": "Bogdanov-Takens",
    "GH": "generalised Hopf",
    "LPC": "fold of cycles",
    "PD": "period doubling",
    "NS": "torus",
}
# Marks that differ from those of cycles (circles) and of what was found in data (squares, upright triangles).
_MARKS = {
    BifurcationKind.HOPF: "*",
    BifurcationKind.BRANCH_POINT: "P",
    BifurcationKind.CYCLE_FOLD: "<",
    BifurcationKind.PERIOD_DOUBLING: ">",
    BifurcationKind.NEIMARK_SACKER: "p",
    BifurcationKind.NEAR_MISS: "x",
}
_OTHER_MARK = "D"  # folds, and what is degenerate
_SIZES = {"*": 11.0, "D": 5.5}  # points, for marks that look smaller or larger than their 8
_CURVES: dict[BifurcationKind, Look] = {
    BifurcationKind.FOLD: {"color": style.BLACK, "label": "folds"},
    BifurcationKind.CYCLE_FOLD: {"color": style.VERMILLION, "label": "folds of cycles", "linestyle": "-."},
    BifurcationKind.PERIOD_DOUBLING: {"color": style.GREEN, "label": "period doublings", "linestyle": ":"},
    BifurcationKind.NEIMARK_SACKER: {"color": style.PURPLE, "label": "tori", "linestyle": (0, (6, 1, 1, 1))},
    BifurcationKind.HOMOCLINIC: {"color": style.GREY, "label": "homoclinic orbits", "linestyle": (0, (8, 2))},
}


def bifurcation_diagram(
    result: Continuation | DataBifurcations, ax: Axes | None = None, *, state: int | str = 0
) -> Drawing:
    """One state over the parameter: solid where stable, dashed where not, grey where unsupported.

    Cycles are drawn by their smallest and largest value, with filled circles where stable and open ones
    where not. Labels are the customary ones: LP fold, HB Hopf, BP branch point, PD period doubling, LPC
    fold of cycles, NS Neimark-Sacker, NM near miss, CP, BT, GH and DB degenerate ones. Marks differ: stars
    for Hopf points, triangles for folds of cycles and period doublings, see the legend. For diagrams of data
    there are besides:
    what was found at each measured value (squares and, for cycles, triangles, filled where stable), ticks
    at these values, and the interval of each bifurcation with the share of members that have it.

    Parameters
    ----------
    result : Continuation or DataBifurcations
        Of `fim_dynsys.analyze.continuation` or `fim_dynsys.analyze.bifurcations_from_data`.
    ax : Axes, optional
        Default a new figure.
    state : int or str
        The state to show, by number or name.

    Returns
    -------
    Drawing
        Artists named ``equilibria``, ``cycles``, ``bifurcations`` and ``labels``; for data ``found``,
        ``values`` and ``intervals``.

    See Also
    --------
    fim_dynsys.analyze.continuation : The branches.

    Examples
    --------
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze, plot
    >>> family = fim_dynsys.SymbolicField(["mu - x0**2"], {"mu": 1.0}).family("mu")
    >>> drawing = plot.bifurcation_diagram(analyze.continuation(family, [1.0], (-1.0, 1.0), p0=1.0))
    >>> drawing.ax.get_xlabel()
    'mu'
    >>> drawing.close()
    """
    caller = "bifurcation_diagram"
    (state,) = chosen_states([state], result.state_names, caller, 1)
    new_figure = ax is None
    (ax,) = given_axes(new_axes() if ax is None else ax, 1, caller)
    measured = result if isinstance(result, DataBifurcations) else None
    curves = result.continuation if isinstance(result, DataBifurcations) else result
    artists: dict[str, list] = {"equilibria": [], "cycles": []}
    for branch in curves.branches:
        artists[branch.kind.value] += _branch(ax, branch, state)
    if measured is not None:
        artists |= {"found": _tracks(ax, measured, state), "values": _ticks(ax, measured)}
    ax.set_xlim(*curves.p_range)
    ax.set(xlabel=with_unit(result.parameter, result.units))
    ax.set_ylabel(with_unit(result.state_names[state], result.units))
    drawn = [*artists["equilibria"], *artists["cycles"]]
    lines = np.concatenate([np.empty((0, 2)), *(_densified(part.get_xydata()) for part in drawn)])
    if measured is not None:
        artists["intervals"] = _intervals(ax, measured, state)
    artists |= _events(ax, _all_events(result), state, lines)
    if new_figure:
        add_legend([ax])
    return Drawing((ax,), {name: tuple(found) for name, found in artists.items() if found})


def two_parameter(result: BifurcationCurves, ax: Axes | None = None) -> Drawing:
    """Curves of bifurcations over two parameters: of equilibria in black and blue, of cycles in colours.

    Curves of Hopf points are solid where supercritical. Points of codimension two carry their customary
    labels: CP cusp, BT Bogdanov-Takens, GH generalised Hopf, ZH zero-Hopf, HH double Hopf, CPC cycle cusp,
    LPPD fold and doubling of cycles, R1 to R4 resonances.

    Parameters
    ----------
    result : BifurcationCurves
        Of `fim_dynsys.analyze.bifurcation_curves`.
    ax : Axes, optional
        Default a new figure.

    Returns
    -------
    Drawing
        Artists named ``folds``, ``hopf points``, ``cycles``, ``points`` and ``labels``.

    See Also
    --------
    fim_dynsys.analyze.bifurcation_curves : The curves.

    Examples
    --------
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze, plot
    >>> cusp = fim_dynsys.SymbolicField(["h + r*x0 - x0**3"], {"h": 0.0, "r": 1.0})
    >>> found = analyze.bifurcation_curves(
    ...     cusp.plane(["h", "r"]), [1.0], (-1.0, 1.0), (-1.0, 2.0), p0=0.0, q0=1.0
    ... )
    >>> drawing = plot.two_parameter(found)
    >>> drawing.ax.get_xlabel(), drawing.ax.get_ylabel()
    ('h', 'r')
    >>> drawing.close()
    """
    new_figure = ax is None
    (ax,) = given_axes(new_axes() if ax is None else ax, 1, "two_parameter")
    artists: dict[str, list] = {"folds": [], "hopf points": [], "cycles": [], "points": [], "labels": []}
    for curve in result.curves:
        at = np.column_stack([curve.p, curve.q])
        if curve.lyapunov_coefficient is not None:
            artists["hopf points"] += _hopf_points(ax, at, curve.lyapunov_coefficient)
            continue
        group = "folds" if curve.period is None else "cycles"
        artists[group] += ax.plot(*at.T, linewidth=1.6, zorder=style.CURVES, **_CURVES[curve.kind])
    ax.set(xlim=result.p_range, ylim=result.q_range)
    ax.set(xlabel=result.parameters[0], ylabel=result.parameters[1])
    drawn = [part for name in ("folds", "hopf points", "cycles") for part in artists[name]]
    curves = np.concatenate([np.empty((0, 2)), *(_densified(part.get_xydata()) for part in drawn)])
    taken: list[np.ndarray] = []
    for point in result.points:
        mark: Look = {"marker": "D", "markersize": 5, "linestyle": "", "color": style.BLACK}
        artists["points"] += ax.plot(point.p, point.q, **mark, zorder=style.POINTS)
        artists["labels"].append(place_label(ax, point.kind.value, (point.p, point.q), curves, taken))
    if new_figure:
        add_legend([ax])
    return Drawing((ax,), {name: tuple(found) for name, found in artists.items() if found})


def _hopf_points(ax: Axes, at: np.ndarray, coefficient: np.ndarray) -> list:
    """A curve of Hopf points, solid where supercritical."""
    artists: list[Artist] = []
    softly = (coefficient < 0)[1:]
    change = np.flatnonzero(softly[1:] != softly[:-1]) + 1
    for first, last in zip([0, *change], [*change, len(softly)], strict=True):
        soft = bool(softly[first])
        name = f"Hopf points, {'super' if soft else 'sub'}critical"
        look: Look = {"color": style.BLUE, "linewidth": 1.6, "zorder": style.CURVES, "label": name}
        look |= {"linestyle": style.SOLID if soft else style.DASHED}
        artists += ax.plot(*at[first : last + 1].T, **look)
    return artists


def _all_events(result: Continuation | DataBifurcations) -> list:
    """Bifurcations to mark: those of data in place of the same kinds of their continuation."""
    if not isinstance(result, DataBifurcations):
        return list(result.bifurcations)
    kinds = {event.kind for event in result.bifurcations}
    return [*result.bifurcations, *(e for e in result.continuation.bifurcations if e.kind not in kinds)]


def _tracks(ax: Axes, result: DataBifurcations, state: int) -> list:
    """What was found at the measured values themselves."""
    artists = []
    for track in result.tracks:
        cycles = track.kind is BranchKind.CYCLES
        ends = (("v", track.low), ("^", track.high)) if cycles else (("s", track.x),)
        for stable, backed in product((True, False), repeat=2):
            rows = ((track.n_unstable == 0) == stable) & ((track.support >= style.SUPPORTED) == backed)
            color = (style.BLUE if cycles else style.BLACK) if backed else style.GREY
            look: Look = {"linestyle": "", "markersize": 5, "color": color, "zorder": style.DATA}
            look |= {"markerfacecolor": color if stable else "white", "label": f"{track.kind.value} found"}
            for marker, values in ends if rows.any() else ():
                artists += ax.plot(track.p[rows], values[rows, state], marker=marker, **look)
    return artists


def _ticks(ax: Axes, result: DataBifurcations) -> list:
    look: Look = {"linestyle": "", "marker": "|", "markersize": 9, "color": style.VERMILLION}
    place: Look = {"transform": ax.get_xaxis_transform(), "zorder": style.DATA, "label": "measured values"}
    return ax.plot(result.values, np.full(len(result.values), 0.02), **look, **place)


def _intervals(ax: Axes, result: DataBifurcations, state: int) -> list:
    artists = []
    for event in result.bifurcations:
        if event.interval is not None:
            low, high = event.interval  # p itself need not lie in the middle, nor even inside
            look: Look = {"fmt": "none", "ecolor": style.VERMILLION, "elinewidth": 2.5, "capsize": 5}
            look |= {"zorder": style.TEXT, "label": f"{result.level:.0%} interval"}
            at = (0.5 * (low + high), event.x[state])
            bar = ax.errorbar(*at, xerr=0.5 * (high - low), **look)
            artists.append(bar)
    return artists


def _branch(ax: Axes, branch: Branch, state: int) -> list:
    cycles = branch.kind is BranchKind.CYCLES
    low, high = branch.low[:, state], branch.high[:, state]
    artists = []
    for rows, stable, backed in _stretches(branch):
        look: Look = {"linestyle": style.SOLID if stable else style.DASHED, "zorder": style.CURVES}
        look |= {"color": (style.BLUE if cycles else style.BLACK) if backed else style.GREY}
        look |= {"linewidth": (1.2 if cycles else 2.0) * (1.0 if backed else 0.6)}
        if cycles:
            look |= {"marker": "o", "markersize": 4.0 if backed else 2.5}
            look |= {"markevery": max(1, len(branch) // _CIRCLES)}
            look |= {"markerfacecolor": look["color"] if stable else "white"}
        what = "cycles, extremes" if cycles else "equilibria"
        label = f"{'stable' if stable else 'unstable'} {what}{'' if backed else ', unsupported'}"
        for values in (low, high) if cycles else (low,):
            artists += ax.plot(branch.p[rows], values[rows], **look, label=label)
    return artists


def _stretches(branch: Branch) -> Iterator[tuple[slice, bool, bool]]:
    """Rows of each stretch of a branch with one stability and one support, neighbours sharing a point.

    A piece between two points has the stability of the second: a bifurcation counts with the point before.
    """
    stable = branch.n_unstable[1:] == 0
    backed = np.minimum(branch.support[1:], branch.support[:-1]) >= style.SUPPORTED
    change = np.flatnonzero((stable[1:] != stable[:-1]) | (backed[1:] != backed[:-1])) + 1
    for first, last in zip([0, *change], [*change, len(stable)], strict=True):
        if last > first:
            yield slice(first, last + 1), bool(stable[first]), bool(backed[first])


def _densified(path: np.ndarray) -> np.ndarray:
    """A polyline with 16 points on each of its pieces, for labels to keep clear of."""
    share = np.linspace(0.0, 1.0, 16)[:, None, None]
    return ((1.0 - share) * path[:-1] + share * path[1:]).reshape(-1, 2)


def _events(ax: Axes, events: Sequence[Bifurcation], state: int, curves: np.ndarray) -> dict:
    """Marks and labels of the bifurcations, each label where it covers least."""
    marks: list[Artist] = []
    texts: list[Artist] = []
    taken: list[np.ndarray] = []
    for event in events:
        at = (event.p, event.x[state])
        mark = _MARKS.get(event.kind, _OTHER_MARK)
        look: Look = {"marker": mark, "markersize": _SIZES.get(mark, 8.0), "linestyle": ""}
        look |= {"color": style.BLACK if event.support >= style.SUPPORTED else style.GREY}
        look |= {"label": f"{event.kind.value} {_EVENTS.get(event.kind.value, '')}".strip()}
        marks += ax.plot(*at, **look, zorder=style.POINTS)
        share = f" {event.share:.0%}" if isinstance(event, MeasuredBifurcation) else ""
        texts.append(place_label(ax, f"{event.kind.value}{share}", at, curves, taken))
    return {"bifurcations": marks, "labels": texts}
