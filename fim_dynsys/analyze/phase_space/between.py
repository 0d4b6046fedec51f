"""A plane through a field, and what happens between the nodes of a grid on it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import maximum_filter, minimum_filter

from fim_dynsys.analyze.equilibria.newton import Meter
from fim_dynsys.analyze.results import StateLike, held_state
from fim_dynsys.fields.base import VectorField
from fim_dynsys.regions import Region

_MOST_SUSPECTS = 300  # cells of one component that are looked into, those nearest to a zero
_FINE, _LEVELS = 5, 7  # nodes along each side of the grid in such a cell, and how often it shrinks fourfold
_BOTH = 0.25  # share of the larger second difference from which both states need finer cells
_ROUNDING = 1e-14  # of the speed, that values less than zero must exceed
# Smallest value found in a cell, by that of its first look, below which a component touches zero there: at
# a square it falls sixteenfold from look to look, at a corner fourfold, at a minimum above zero not at all.
_TOUCHES = 1e-3
_SLACK = 2.0  # on second differences, which vary from cell to cell


@dataclass(frozen=True, eq=False)
class Plane:
    """Two states spanned, the others held."""

    pair: tuple[int, int]
    at: np.ndarray
    low: np.ndarray
    size: np.ndarray

    @classmethod
    def given(
        cls, field: VectorField, region: Region, states: Sequence[int | str] | None, at: StateLike | None
    ) -> "Plane":
        names = field.state_names
        if field.dim == 2 and states is None:
            states = names
        if not isinstance(states, Sequence | None) or isinstance(states, str):
            raise ValueError(f"nullclines: expected states as two names or numbers, got {states!r}.")
        if field.dim < 2 or states is None or len(states) != 2 or (field.dim > 2 and at is None):
            raise ValueError(
                "nullclines: expected a field of two states, or states=(name, name) and at=point that give a "
                f"plane of a larger one, got {field.dim} states, states={states} and at={at!r}."
            )
        pair = [names.index(s) if isinstance(s, str) and s in names else s for s in states]
        first, second = (i if isinstance(i, int) and 0 <= i < field.dim else None for i in pair)
        if first is None or second is None or first == second:
            raise ValueError(f"nullclines: expected two different states among {names}, got {states}.")
        held = held_state("nullclines", at, region.centre, names)
        index = [first, second]
        return cls((first, second), held, region.low[index], region.size[index])

    def embed(self, points: np.ndarray) -> np.ndarray:
        x = np.tile(self.at, (len(points), 1))
        x[:, list(self.pair)] = points
        return x


def finer_axes(
    meter: Meter, plane: Plane, axes: Sequence[np.ndarray], values: np.ndarray, speed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where a grid is too coarse to show all sign changes, and which components vanish without one.

    Between nodes a component deviates from a plane by an eighth of its second differences at most, as far as
    these do not change within a cell. Cells of one sign in which that suffices for a zero are looked into.

    Parameters
    ----------
    meter : Meter
        The field.
    plane : Plane
        The plane.
    axes : pair of ndarray (n0,), (n1,)
        Coordinates of the nodes.
    values : ndarray (n1, n0, d)
        The field there.
    speed : ndarray (d,)
        Sizes of the components.

    Returns
    -------
    needed : ndarray (2,) of bool
        Along which of both states finer cells are needed.
    touching : ndarray (d,) of bool
        Which components touch zero between the nodes.
    """
    needed, touching = np.zeros(2, dtype=bool), np.zeros(values.shape[2], dtype=bool)
    for k in range(values.shape[2]):
        f = values[:, :, k]
        bend = np.stack([_bend(f, 1), _bend(f, 0)])  # along the first state, along the second
        low, high, most = _of_cells(f, np.fmin), _of_cells(f, np.fmax), _of_cells(bend.sum(axis=0), np.fmax)
        touching[k] = _touches_at_nodes(np.where(np.abs(f) <= _ROUNDING * speed[k], 0.0, f))
        least = np.where(low > 0, low, np.where(high < 0, -high, np.inf))  # none where signs change already
        # Next to a line that shows, another sign is that line's own bend.
        shown = ~np.isfinite(least)
        for axis in (0, 1):
            shown = shown | _shifted(shown, axis, 1) | _shifted(shown, axis, -1)
        with np.errstate(invalid="ignore"):
            suspects = np.argwhere(~shown & (least <= _SLACK / 8.0 * most))
        if not len(suspects):
            continue
        shares = least[tuple(suspects.T)] / most[tuple(suspects.T)]
        suspects = suspects[np.argsort(shares, kind="stable")[:_MOST_SUSPECTS]]
        changes, touches = _changes_sign(meter, plane, axes, suspects, k, f, _ROUNDING * speed[k])
        touching[k] |= touches.any()
        along = np.array([_of_cells(values, np.fmax)[tuple(suspects[changes].T)].sum() for values in bend])
        if changes.any():
            needed |= along >= _BOTH * along.max()
    return needed, touching


def _touches_at_nodes(f: np.ndarray) -> bool:
    """Whether a component is zero at nodes of cells whose neighbours, too, have values of one sign."""
    low, high = _of_cells(f, np.fmin), _of_cells(f, np.fmax)
    zero = ((low == 0.0) & (high > 0.0)) | ((high == 0.0) & (low < 0.0))
    crossed = (minimum_filter(low, 3) < 0.0) & (maximum_filter(high, 3) > 0.0)
    return bool((zero & ~crossed).any())


def _shifted(flags: np.ndarray, axis: int, by: int) -> np.ndarray:
    moved = np.roll(flags, by, axis=axis)
    first: list[slice | int] = [slice(None), slice(None)]
    first[axis] = 0 if by > 0 else -1
    moved[tuple(first)] = False
    return moved


def _bend(f: np.ndarray, axis: int) -> np.ndarray:
    """Moduli of second differences along an axis; at its ends those next to them, 0 where not finite."""
    with np.errstate(invalid="ignore"):
        second = np.abs(np.diff(f, n=2, axis=axis))
    second = np.where(np.isfinite(second), second, 0.0)
    ends = [np.take(second, [0], axis=axis), second, np.take(second, [-1], axis=axis)]
    return np.concatenate(ends, axis=axis)


def _of_cells(values: np.ndarray, of: np.ufunc) -> np.ndarray:
    """The smallest or largest value at the corners of each cell."""
    columns = of(values[:, :-1], values[:, 1:])
    found: np.ndarray = of(columns[:-1], columns[1:])
    return found


def _changes_sign(
    meter: Meter,
    plane: Plane,
    axes: Sequence[np.ndarray],
    cells: np.ndarray,
    k: int,
    f: np.ndarray,
    rounding: float,
) -> tuple[np.ndarray, np.ndarray]:
    """In which cells (m, 2) a component takes the other sign or touches zero, where it is least."""
    second, first = cells.T
    sign = np.sign(f[second, first])
    low = np.stack([axes[0][first], axes[1][second]], axis=1)
    size = np.stack([np.diff(axes[0])[first], np.diff(axes[1])[second]], axis=1)
    centre, changes = low + size / 2.0, np.zeros(len(cells), dtype=bool)
    steps = np.linspace(-0.5, 0.5, _FINE)
    pattern = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    first_least = least = np.full(len(cells), np.inf)
    for level in range(_LEVELS):
        if not meter.spares(len(cells) * len(pattern)):
            break
        points = np.clip(centre[:, None] + pattern * size[:, None], low[:, None], None)
        inside = meter.rhs(plane.embed(points.reshape(-1, 2)))[:, k].reshape(len(cells), -1) * sign[:, None]
        changes |= (inside < -rounding).any(axis=1)
        smallest = np.argmin(np.where(np.isfinite(inside), inside, np.inf), axis=1)
        centre, size = points[np.arange(len(cells)), smallest], size / 4.0
        least = inside[np.arange(len(cells)), smallest]
        first_least = least if level == 0 else first_least
    return changes, ~changes & (least <= _TOUCHES * first_least)
