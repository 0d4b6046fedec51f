"""Labels beside points, where they cover least."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Annotation
from numpy.typing import ArrayLike

from fim_dynsys.plot import style
from fim_dynsys.plot.canvas import pair, root_figure
from fim_dynsys.plot.style import Look

_LETTER = 8.5  # size of labels in points
_RADII = (4.0, 10.0, 18.0)  # distances of labels from their points
_FREE = 7.0  # points between a label and anything else, where there is room
_CORNERS = ((0, 0), (-1, -1), (-1, 1), (1, -1), (1, 1))  # centre and corners of a label, in half sizes


def place_label(
    ax: Axes, text: str, at: ArrayLike, curves: np.ndarray, taken: list, **look: Any
) -> Annotation:
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
        Corners and middles of the labels so far, in points; those of the new one are added.
    **look
        Of the text.

    Returns
    -------
    Annotation
    """
    scale = 72.0 / root_figure(ax).dpi
    pixels = ax.transData.transform(np.concatenate([np.atleast_2d(at), curves])) * scale
    pixels = pixels[np.isfinite(pixels).all(axis=1)]
    centre, others = pixels[0], np.concatenate([pixels, np.reshape(taken, (-1, 2))])
    frame = np.reshape(ax.get_window_extent().extents, (2, 2)) * scale
    half = np.array([0.3 * len(text), 0.5]) * _LETTER
    angles = np.deg2rad(np.arange(45, 405, 45))
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    best, best_gap = np.zeros(2), -np.inf
    for radius in _RADII:
        for offset in directions * (half + radius):
            place = centre + offset
            gap = np.linalg.norm(np.maximum(np.abs(others - place) - half, 0.0), axis=1).min()
            edge = np.minimum(place - half - frame[0], frame[1] - place - half).min()
            gap = min(gap, _FREE) if edge > 2.0 else edge - _FREE
            if gap > best_gap + 1.0:  # a place farther off must be worth it
                best, best_gap = offset, gap
    taken.extend(centre + best + half * np.array(corner) for corner in _CORNERS)
    whole: Look = {"ha": "center", "va": "center", "fontsize": _LETTER, "zorder": style.TEXT} | look
    return ax.annotate(text, pair(at), pair(best), textcoords="offset points", **whole)
