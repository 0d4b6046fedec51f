"""State space on axes: which state runs along which axis, and points as the coordinates to draw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from fim_dynsys.plot.canvas import Drawing, add_legend, given_axes, is_three_d, label_axes, new_axes
from fim_dynsys.regions import Region

States = int | str | Sequence[int | str]
"""States to show, by number or name."""


@dataclass(frozen=True, eq=False)
class Space:
    """Axes that show one, two or three of the states.

    Attributes
    ----------
    ax : Axes
        Flat or three-dimensional.
    states : tuple of int
        The states along the axes; a single one runs along x, and points lie at height 0.
    names : tuple of str
        Names of all d states.
    units : dict
        Units by state name.
    own : bool
        Whether the axes were made for this drawing, which then labels them and adds a legend.
    """

    ax: Axes
    states: tuple[int, ...]
    names: tuple[str, ...]
    units: Mapping[str, str]
    own: bool

    @classmethod
    def opened(
        cls,
        ax: Axes | None,
        states: States | None,
        names: Sequence[str],
        units: Mapping[str, str],
        caller: str,
    ) -> "Space":
        """Space on the given axes, or on new ones: flat up to two states, three-dimensional from there on.

        Parameters
        ----------
        ax : Axes or None
            Where to draw.
        states : sequence of int or str, or None
            The states to show, by number or name; default as many of the first as the axes take.
        names, units
            Of all states.
        caller : str
            The caller, for errors.

        Raises
        ------
        ValueError
            For a state that is not there, or more or fewer than the axes take.
        """
        own = ax is None
        if ax is None:
            chosen = chosen_states(states, names, caller, default=min(len(names), 3))
            (ax,) = new_axes(three_d=len(chosen) == 3)
        else:
            (ax,) = given_axes(ax, 1, caller)
            chosen = chosen_states(states, names, caller, default=min(len(names), 3 if is_three_d(ax) else 2))
        if (len(chosen) == 3) != is_three_d(ax):
            raise ValueError(
                f"{caller}: expected {'three' if is_three_d(ax) else 'one or two'} states on these axes, got "
                f"{[names[i] for i in chosen]}; choose others by states="
            )
        return cls(ax, chosen, tuple(names), units, own)

    def coordinates(self, points: ArrayLike) -> list[np.ndarray]:
        """What matplotlib takes for points ``(..., d)``: one array ``(...)`` for each axis."""
        points = np.asarray(points, dtype=float)
        columns = [points[..., i] for i in self.states]
        return columns if len(columns) > 1 else [columns[0], np.zeros_like(columns[0])]

    def inside(self, points: np.ndarray) -> np.ndarray:
        """Whether points ``(n, d)`` lie within the present limits of the axes, or on them, shape (n,)."""
        columns = self.coordinates(points)[: len(self.states)]
        limits = [sorted(getattr(self.ax, f"get_{which}lim")()) for which in "xyz"[: len(columns)]]
        slack = [1e-9 * (high - low) for low, high in limits]  # a zero at 0 is found at 1e-17
        within = [
            (low - more <= column) & (column <= high + more)
            for (low, high), more, column in zip(limits, slack, columns, strict=True)
        ]
        return np.all(within, axis=0)

    def show(self, region: Region) -> None:
        """Give axes of our own the limits of a region."""
        for i, which in zip(self.states, "xyz", strict=False):
            if self.own:
                getattr(self.ax, f"set_{which}lim")(region.low[i], region.high[i])

    def drawing(self, artists: Mapping[str, Sequence]) -> Drawing:
        """The finished drawing; axes of our own get labels and a legend."""
        if self.own:
            label_axes(self.ax, [self.names[i] for i in self.states], self.units)
            if len(self.states) == 1:
                self.ax.set_yticks([])
            add_legend([self.ax])
        return Drawing((self.ax,), {name: tuple(found) for name, found in artists.items() if len(found)})


def chosen_states(states: States | None, names: Sequence[str], caller: str, default: int) -> tuple[int, ...]:
    """Numbers of the states that the user named, or the first ones.

    Raises
    ------
    ValueError
        For a state that is not there, one given twice, or not one to three of them.
    """
    if states is None:
        return tuple(range(default))
    states = (
        list(states)
        if isinstance(states, Sequence | np.ndarray) and not isinstance(states, str)
        else [states]
    )
    numbers = [names.index(s) if isinstance(s, str) and s in names else s for s in states]
    wrong = [s for s in numbers if not isinstance(s, int | np.integer) or not 0 <= s < len(names)]
    if wrong or not 1 <= len(set(numbers)) == len(numbers) <= 3:
        raise ValueError(
            f"{caller}: expected one to three different states among {list(names)}, got {states}; "
            "give names or numbers"
        )
    return tuple(int(s) for s in numbers)
