"""What each thing looks like: colours safe for colour-blind eyes, marks and dashes that differ in grey."""

from typing import Any

from fim_dynsys.analyze.results import SUPPORTED as SUPPORTED

Look = dict[str, Any]
"""Keywords of matplotlib that say what an artist looks like."""

# Okabe and Ito, Color Universal Design (2008), purple darkened: distinguished by the common forms of colour
# blindness. In grey they are too close to carry a meaning, so that every line style and marker differs too.
BLACK, GREY, PALE, HATCH, TINT = "#000000", "#7f7f7f", "#b0b0b0", "#c4c4c4", "#ebebeb"
BLUE, SKY, GREEN, ORANGE, VERMILLION, PURPLE = (
    "#0072b2",
    "#56b4e9",
    "#009e73",
    "#e69f00",
    "#d55e00",
    "#8e3b80",
)

# Below to above.
FLOW, VEIL, NULLCLINES, DATA, CURVES, POINTS, TEXT = 1.0, 1.3, 2.0, 2.2, 2.6, 4.0, 5.0

STREAM: Look = {"color": "#9a9a9a", "linewidth": 0.8, "zorder": FLOW}
SOLID, DASHED = "-", (0, (4, 2))
NULLCLINE: tuple[Look, ...] = (
    {"color": SKY, "linestyle": "-."},
    {"color": ORANGE, "linestyle": (0, (1, 1))},
    {"color": GREEN, "linestyle": (0, (6, 1, 1, 1, 1, 1))},
)
SERIES: tuple[Look, ...] = tuple(
    {"color": color, "marker": marker, "linestyle": line}
    for color, marker, line in zip(
        (VERMILLION, BLUE, GREEN, PURPLE, ORANGE, SKY),
        ("o", "s", "^", "D", "v", "P"),
        ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (8, 2))),
        strict=True,
    )
)

# Observations are in greys and simulations in colours, so that data and model never share one; the k-th of
# each belong together by their numbers in the legend.
OBSERVED = (BLACK, "#5a5a5a", "#8c8c8c")

# How fixed points look: marker, and what is filled. Squares where the flow turns, circles where it does not.
_FIXED_POINTS = {
    "STABLE_NODE": ("o", "full"),
    "STABLE_FOCUS": ("s", "full"),
    "UNSTABLE_NODE": ("o", "none"),
    "UNSTABLE_FOCUS": ("s", "none"),
    "SADDLE": ("o", "left"),
    "SADDLE_FOCUS": ("s", "left"),
}


def fixed_point(kind: str, ink: str) -> list[Look]:
    """Keywords of `plot` for each of the marks, one upon the other, of a fixed point of this kind."""
    edge: Look = {"markeredgecolor": ink, "markeredgewidth": 1.4}
    ring: Look = {"marker": "o", "markersize": 9, "markerfacecolor": "white"} | edge
    if kind in _FIXED_POINTS:
        marker, filled = _FIXED_POINTS[kind]
        face: Look = {"markerfacecolor": "white" if filled == "none" else ink, "markerfacecoloralt": "white"}
        whole = "left" if filled == "left" else "full"
        return [{"marker": marker, "markersize": 9, "fillstyle": whole} | face | edge]
    if kind == "SADDLE_CENTRE":
        return [ring, {"marker": "+", "markersize": 7, "color": ink}]
    if kind == "CENTRE_LIKE":
        return [ring, {"marker": ".", "markersize": 5, "color": ink}]
    if kind == "SLOW":
        return [ring | {"marker": "d", "markersize": 6, "markerfacecolor": PALE}]
    if kind == "DEGENERATE_UNSTABLE":
        return [ring | {"marker": "X"}]
    if kind == "DEGENERATE":
        return [ring | {"marker": "X", "markerfacecolor": PALE}]
    if kind == "INDETERMINATE":
        return [ring | {"markersize": 12}, {"marker": "$?$", "markersize": 6, "color": ink}]
    raise ValueError(f"fixed_point: expected a known kind, got {kind!r}.")
