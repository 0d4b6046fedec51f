"""Bifurcation diagrams: branches solid where stable and dashed where not, bifurcations labelled."""

import numpy as np

from fim_dynsys.analyze.branches import BifurcationKind, Branch, BranchKind, Continuation
from fim_dynsys.plot import style
from fim_dynsys.plot.canvas import Drawing, add_legend, given_axes, new_axes, with_unit
from fim_dynsys.plot.space import chosen_states

_CIRCLES = 15  # along a branch of cycles
_FREE = 12.0  # points between the middle of a label and anything else, where there is room


def bifurcation_diagram(result: Continuation, ax=None, *, state=0) -> Drawing:
    """One state over the parameter: solid where stable, dashed where not, grey where not backed by data.

    Cycles are drawn by their smallest and largest value, with filled circles where stable and open ones
    where not. Labels are the customary ones: LP fold, HB Hopf, BP branch point, PD period doubling, LPC
    fold of cycles, NS Neimark-Sacker, NM near miss, DB degenerate.

    Parameters
    ----------
    result : Continuation
        Of `fim_dynsys.analyze.continuation`.
    ax : Axes, optional
        Default a new figure.
    state : int or str
        The state to show, by number or name.

    Returns
    -------
    Drawing
        Artists named ``equilibria``, ``cycles``, ``bifurcations`` and ``labels``.
    """
    who = "bifurcation_diagram"
    (state,) = chosen_states([state], result.state_names, who, 1)
    own = ax is None
    (ax,) = given_axes(new_axes() if own else ax, 1, who)
    artists = {"equilibria": [], "cycles": []}
    for branch in result.branches:
        artists[branch.kind.value] += _branch(ax, branch, state)
    ax.set_xlim(*result.p_range)
    ax.set(xlabel=with_unit(result.parameter, result.units))
    ax.set_ylabel(with_unit(result.state_names[state], result.units))
    drawn = [*artists["equilibria"], *artists["cycles"]]
    curves = np.concatenate([_densified(part.get_xydata()) for part in drawn])
    artists |= _events(ax, result, state, curves)
    if own:
        add_legend([ax])
    return Drawing((ax,), {name: tuple(found) for name, found in artists.items() if found})


def _branch(ax, branch: Branch, state: int) -> list:
    cycles = branch.kind is BranchKind.CYCLES
    low, high = branch.low[:, state], branch.high[:, state]
    artists = []
    for rows, stable, backed in _stretches(branch):
        look = {"linestyle": style.SOLID if stable else style.DASHED, "zorder": style.CURVES}
        look |= {"color": (style.BLUE if cycles else style.BLACK) if backed else style.GREY}
        look |= {"linewidth": 1.2 if cycles else 2.0}
        if cycles:
            look |= {"marker": "o", "markersize": 4, "markevery": max(1, len(branch) // _CIRCLES)}
            look |= {"markerfacecolor": look["color"] if stable else "white"}
        what = "cycles, extremes" if cycles else "equilibria"
        label = f"{'stable' if stable else 'unstable'} {what}{'' if backed else ', not backed'}"
        for values in (low, high) if cycles else (low,):
            artists += ax.plot(branch.p[rows], values[rows], **look, label=label)
    return artists


def _stretches(branch: Branch):
    """Rows of each stretch of a branch with one stability and one support, neighbours sharing a point.

    A piece between two points has the stability of the second: a bifurcation counts with the point before.
    """
    stable = branch.n_unstable[1:] == 0
    backed = np.minimum(branch.support[1:], branch.support[:-1]) >= style.SUPPORTED
    change = np.flatnonzero((stable[1:] != stable[:-1]) | (backed[1:] != backed[:-1])) + 1
    for first, last in zip([0, *change], [*change, len(stable)], strict=True):
        if last > first:
            yield slice(first, last + 1), bool(stable[first]), bool(backed[first])


def _densified(path, n=16):
    """A polyline with n points on each of its pieces."""
    share = np.linspace(0.0, 1.0, n)[:, None, None]
    return ((1.0 - share) * path[:-1] + share * path[1:]).reshape(-1, 2)


def _events(ax, result: Continuation, state: int, curves) -> dict:
    """Marks and labels of the bifurcations, each label where it covers least."""
    marks, texts, taken = [], [], []
    for branch in result.branches:
        for event in branch.bifurcations:
            at = (event.p, event.x[state])
            near_miss = event.kind is BifurcationKind.NEAR_MISS
            look = {"marker": "x" if near_miss else "D", "markersize": 5, "linestyle": ""}
            look |= {"color": style.BLACK if event.support >= style.SUPPORTED else style.GREY}
            marks += ax.plot(*at, **look, zorder=style.POINTS)
            texts.append(place_label(ax, event.kind.value, at, curves, taken))
    return {"bifurcations": marks, "labels": texts}


def place_label(ax, text: str, at, curves, taken: list):
    """A text beside a point, on the side farthest from curves and from labels already placed.

    Parameters
    ----------
    ax : Axes
        With its final limits.
    text : str
        The label.
    at : (float, float)
        The point.
    curves : ndarray (n, 2)
        Points of the curves to keep clear of, in data coordinates.
    taken : list
        Places of labels so far, in points; the new one is added.
    """
    scale = 72.0 / ax.get_figure(root=True).dpi
    pixels = ax.transData.transform(np.concatenate([np.atleast_2d(at), curves])) * scale
    pixels = pixels[np.isfinite(pixels).all(axis=1)]
    centre, others = pixels[0], np.concatenate([pixels[1:], np.reshape(taken, (-1, 2))])
    frame = ax.get_window_extent().extents.reshape(2, 2) * scale
    angles = np.deg2rad(np.arange(45, 405, 45))
    circle = np.stack([1.2 * np.cos(angles), np.sin(angles)], axis=-1)
    best, best_gap = None, -np.inf
    for offset in np.concatenate([11.0 * circle, 18.0 * circle]):
        place = centre + offset
        gap = np.linalg.norm((others - place) * (0.7, 1.0), axis=1).min(initial=_FREE)
        edge = np.minimum(place - frame[0], frame[1] - place).min()
        gap = min(gap, _FREE) if edge > _FREE / 2 else edge - _FREE
        if gap > best_gap + 1.0:  # a place farther off must be worth it
            best, best_gap = offset, gap
    taken.append(centre + best)
    return ax.annotate(
        text,
        at,
        best,
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize="small",
        zorder=style.TEXT,
    )
