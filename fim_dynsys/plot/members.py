"""What an ensemble agrees on: each object in every member, where it lies on average, and how surely."""

from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse
from scipy.special import chdtri

from fim_dynsys.analyze.equilibria.kinds import Kind
from fim_dynsys.analyze.members import Group, MemberResults
from fim_dynsys.plot import style
from fim_dynsys.plot.canvas import Drawing, pair
from fim_dynsys.plot.labels import place_label
from fim_dynsys.plot.objects import marks
from fim_dynsys.plot.space import Space, States
from fim_dynsys.plot.style import Look

_LEVEL = 0.9  # probability of the ellipses


def member_objects(result: MemberResults, ax: Axes | None = None, *, states: States | None = None) -> Drawing:
    """Objects of an ensemble: dots for members, or thin orbits; a mark and a 90 % ellipse for each group.

    Beside each stands the probability that it exists; the mark is that of the most probable kind. The
    ellipse holds the position in the states shown, if it is normally distributed. Grey where
    the field is unsupported on average.

    Parameters
    ----------
    result : MemberResults
        Of `fim_dynsys.analyze.ensemble` with fixed points or cycles.
    ax : Axes, optional
        Default a new figure.
    states : sequence of int or str, optional
        States along the axes.

    Returns
    -------
    Drawing
        Artists named ``members``, ``ellipses``, ``fixed points`` or ``orbits``, and ``probabilities``.

    Raises
    ------
    ValueError
        If the results hold no such objects.
    """
    if not result.groups:
        kinds = sorted({type(one).__name__ for one in result.results})
        raise ValueError(
            f"ensemble: expected objects in the members' results to draw, got none in {', '.join(kinds)}; "
            "see .results for the members' own."
        )
    space = Space.opened(ax, states, result.state_names, result.units, "ensemble")
    space.show(result.results[0].region)
    orbits = _orbits(space, result)
    artists = {"orbits": orbits, "members": [], "ellipses": [], "fixed points": []}
    for group in result.groups if not orbits else ():
        artists["members"] += _dots(space, group)
        artists["fixed points"] += _mark(space, group)
        artists["ellipses"] += _ellipse(space, group)
    artists["probabilities"] = _probabilities(space, result)
    return space.drawing(artists)


def _ink(group: Group) -> str:
    return style.BLACK if group.support >= style.SUPPORTED else style.GREY


def _orbits(space: Space, result: MemberResults) -> list:
    look: Look = {"color": style.PURPLE, "linewidth": 0.8, "alpha": 0.5, "zorder": style.CURVES}
    orbits = [orbit for one in result.results for orbit in getattr(one, "orbits", [])]
    label = "cycles of the members"
    return [space.ax.plot(*space.coordinates(orbit), **look, label=label)[0] for orbit in orbits]


def _dots(space: Space, group: Group) -> list:
    look: Look = {"linestyle": "", "marker": ".", "markersize": 4, "color": style.SKY, "zorder": style.CURVES}
    return space.ax.plot(*space.coordinates(group.x), **look, label="members")


def _mark(space: Space, group: Group) -> list:
    """The most probable kind, the paler the less sure it is that the object exists."""
    kind = Kind(next(iter(group.kinds)))
    drawn = marks(space, group.mean[None], kind, group.support >= style.SUPPORTED)
    for mark in drawn:
        mark.set(markersize=0.7 * mark.get_markersize(), alpha=0.3 + 0.7 * group.existence)
    return drawn


def _ellipse(space: Space, group: Group) -> list:
    if len(space.states) == 3:
        return []
    states = list(space.states)
    variances, axes = np.linalg.eigh(group.covariance[np.ix_(states, states)])
    half = np.sqrt(chdtri(len(states), 1.0 - _LEVEL) * np.maximum(variances, 0.0))
    label = f"{_LEVEL:.0%} of members"
    if len(states) == 1:
        ends = group.mean[states] + half * [-1.0, 1.0]
        look: Look = {"color": _ink(group), "linewidth": 3.0, "alpha": 0.5, "zorder": style.CURVES}
        return space.ax.plot(ends, [0.0, 0.0], **look, label=label)
    angle = np.degrees(np.arctan2(axes[1, 1], axes[0, 1]))
    edge: Look = {"fill": False, "edgecolor": _ink(group), "linewidth": 1.2, "zorder": style.CURVES}
    size: Look = {"width": 2.0 * half[1], "height": 2.0 * half[0], "angle": angle}
    return [space.ax.add_patch(Ellipse(pair(group.mean[states]), **size, **edge, label=label))]


def _probabilities(space: Space, result: MemberResults) -> list:
    texts: list[Artist] = []
    taken: list[np.ndarray] = []
    places = [_place(group, result) for group in result.groups]
    others = np.stack(space.coordinates(np.array(places)), axis=-1)
    for group, at in zip(result.groups, others, strict=True):
        text = f"{group.existence:.0%}"
        if len(space.states) == 3:
            solid: Any = space.ax  # whose texts have a third coordinate
            texts.append(solid.text(*at, f"   {text}", fontsize="small", zorder=style.TEXT))
        else:
            texts.append(place_label(space.ax, text, at, others, taken, color=_ink(group)))
    return texts


def _place(group: Group, result: MemberResults) -> np.ndarray:
    """Where the label of an object belongs: a fixed point itself, the first point of a member's orbit."""
    first = result.results[group.member[0]]
    if not hasattr(first, "orbits"):
        return group.mean
    middles = np.array([(orbit.min(axis=0) + orbit.max(axis=0)) / 2.0 for orbit in first.orbits])
    return first.orbits[np.argmin(np.linalg.norm(middles - group.x[0], axis=1))][0]
