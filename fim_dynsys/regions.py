"""Region: a named box in state space, with the point sets that searches start from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

_KEPT_POINTS = 4096  # at most, of sequences that are kept for the next search


@dataclass(init=False, frozen=True, eq=False, repr=False)
class Region:
    """An axis-aligned box with named coordinates.

    Parameters
    ----------
    low, high : array_like, shape (d,)
        Lower and upper corner, in the units of the state. ``Region({"x": (0, 1)})`` and
        ``Region([(0, 1), (-2, 2)])`` work too, with ``high`` left out.
    names : sequence of str, optional
        One name per coordinate; ``x0, x1, ...`` if left out.

    Raises
    ------
    ValueError
        If a bound is not a finite number, the corners differ in length, ``low < high`` fails in a
        coordinate, or the names do not fit.

    Examples
    --------
    >>> box = Region({"prey": (0, 10), "predator": (0, 4)})
    >>> box.dim, box.centre.tolist()
    (2, [5.0, 2.0])
    """

    low: np.ndarray
    high: np.ndarray
    names: tuple[str, ...]

    def __init__(self, low: Any, high: ArrayLike | None = None, names: Any = None):
        if high is None:
            low, high, names = _split_bounds(low, names)
        low, high = _corner(low, "low"), _corner(high, "high")
        if low.shape != high.shape:
            raise ValueError(
                f"Region: expected low and high of one length, got {low.size} and {high.size}; "
                "give one bound of each kind per coordinate"
            )
        names = default_names(low.size) if names is None else names
        names = _checked_names(names, low.size)
        for i in np.flatnonzero(~(low < high)):
            raise ValueError(
                f"Region: expected low < high, got {low[i]:g} and {high[i]:g} for {names[i]!r}; "
                "swap the bounds or widen the box"
            )
        with np.errstate(over="ignore"):
            narrow = np.flatnonzero(high - low < np.finfo(float).tiny)
        for i in narrow:
            raise ValueError(
                f"Region: expected bounds apart by an ordinary floating-point number, got {low[i]:g} and "
                f"{high[i]:g} for {names[i]!r}; change the units"
            )
        for name, value in (("low", low), ("high", high)):
            value.flags.writeable = False
            object.__setattr__(self, name, value)
        object.__setattr__(self, "names", names)

    @classmethod
    def from_pairs(cls, pairs: Sequence[tuple[float, float]], names: Sequence[str] | None = None) -> "Region":
        """Box from one ``(low, high)`` pair per coordinate."""
        return cls(pairs, None, names)

    @property
    def dim(self) -> int:
        """Number of coordinates d."""
        return self.low.size

    @property
    def is_named(self) -> bool:
        """Whether the names are others than x0, x1, ..."""
        return self.names != default_names(self.dim)

    @property
    def size(self) -> np.ndarray:
        """Edge lengths, shape (d,)."""
        return self.high - self.low

    @property
    def centre(self) -> np.ndarray:
        """Midpoint, shape (d,)."""
        return self.low / 2 + self.high / 2

    @property
    def pairs(self) -> dict[str, tuple[float, float]]:
        """The bounds by name; ``Region(region.pairs) == region``."""
        bounds = zip(self.low.tolist(), self.high.tolist(), strict=True)
        return dict(zip(self.names, bounds, strict=True))

    def of_states(self, state_names: Sequence[str], caller: str = "Region") -> "Region":
        """The box with its coordinates in the order of these states.

        Parameters
        ----------
        state_names : sequence of str
            Names of the states, d of them.
        caller : str
            Name of the caller, for the error.

        Returns
        -------
        Region
            By name; by position where the box has the names x0, x1, ... of boxes without names.

        Raises
        ------
        ValueError
            If the box is of another dimension or names something else.
        """
        names = tuple(state_names)
        if self.dim != len(names):
            raise ValueError(
                f"{caller}: expected a region with bounds of each of the states {', '.join(names)}, got "
                f"{self.dim} of {len(names)}: {self}."
            )
        if set(self.names) == set(names):
            order = [self.names.index(name) for name in names]
            return Region(self.low[order], self.high[order], names)
        if self.is_named:
            raise unknown_states(self, names, caller)
        return Region(self.low, self.high, names)

    def contains(self, x: np.ndarray) -> np.ndarray:
        """Whether points ``(..., d)`` lie in the closed box; shape ``(...)``. NaN lies outside."""
        x = np.asarray(x, dtype=np.float64)
        if x.ndim == 0 or x.shape[-1] != self.dim:
            raise ValueError(
                f"Region is a box in R^{self.dim}: expected points of shape (..., {self.dim}), got {x.shape}"
            )
        return np.all((x >= self.low) & (x <= self.high), axis=-1)

    def widened(self, fraction: float) -> "Region":
        """The box grown on every side by ``fraction`` of its size (shrunk where negative)."""
        margin = fraction * self.size
        return Region(self.low - margin, self.high + margin, self.names)

    def union(self, other: "Region") -> "Region":
        """Smallest box that holds both; names are taken from ``self``."""
        if other.dim != self.dim:
            raise ValueError(f"Region.union: expected a box in R^{self.dim}, got one in R^{other.dim}")
        return Region(np.minimum(self.low, other.low), np.maximum(self.high, other.high), self.names)

    def grid(self, n: int) -> np.ndarray:
        """Regular grid with ``n`` points a side, corners included; shape (n**d, d), last axis fastest."""
        n = _count(n, "grid", minimum=2)
        axes = [np.linspace(low, high, n) for low, high in zip(self.low, self.high, strict=True)]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, self.dim)

    def sobol(self, n: int, seed: int | np.random.Generator = 0) -> np.ndarray:
        """``n`` points of a scrambled Sobol sequence, shape (n, d)."""
        n = _count(n, "sobol")
        known = isinstance(seed, int) and n <= _KEPT_POINTS
        return self._from_unit((_known_sobol if known else _unit_sobol)(n, self.dim, seed))

    def uniform(self, n: int, rng: int | np.random.Generator) -> np.ndarray:
        """``n`` independent uniform points, shape (n, d)."""
        unit = np.random.default_rng(rng).random((_count(n, "uniform"), self.dim))
        return self._from_unit(unit)

    def boundary(self, n: int) -> np.ndarray:
        """``n`` points on the faces.

        In the plane they run counter-clockwise from the lower left corner at equal steps (measured in
        edge lengths), so that winding numbers can be taken along them. On the line they are the two
        ends, whatever ``n`` is. From three dimensions on they are spread evenly over all faces.
        """
        n = _count(n, "boundary")
        if self.dim == 1:
            return np.array([self.low, self.high])
        if self.dim == 2:
            return self._from_unit(_unit_square_perimeter(n))
        return self._from_unit(_unit_cube_faces(n, self.dim))

    def _from_unit(self, unit: np.ndarray) -> np.ndarray:
        # Convex combination: exact on both faces and free of overflow, unlike low + size * unit.
        return self.low * (1 - unit) + self.high * unit

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Region):
            return NotImplemented
        return (
            self.names == other.names
            and np.array_equal(self.low, other.low)
            and np.array_equal(self.high, other.high)
        )

    def __hash__(self) -> int:
        return hash((self.names, self.low.tobytes(), self.high.tobytes()))

    def __iter__(self) -> Iterator[tuple[float, float]]:
        return iter(self.pairs.values())

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name!r}: ({low:g}, {high:g})" for name, (low, high) in self.pairs.items())
        return f"Region({{{bounds}}})"


def unknown_states(box: Region, state_names: Sequence[str], caller: str) -> ValueError:
    """The error about a box that names what is no state."""
    unknown = [name for name in box.names if name not in state_names]
    return ValueError(
        f"{caller}: expected a region of the states {', '.join(state_names)}, got one of "
        f"{', '.join(unknown)}; name states or leave the names out."
    )


def default_names(dim: int) -> tuple[str, ...]:
    """Names of states that have none."""
    return tuple(f"x{i}" for i in range(dim))


def _split_bounds(bounds: Any, names: Any) -> tuple[Any, Any, Any]:
    """Corners and names from a Region, a dict of pairs, or a sequence of pairs."""
    if isinstance(bounds, Region):
        return bounds.low, bounds.high, bounds.names if names is None else names
    if isinstance(bounds, Mapping):
        names = tuple(bounds) if names is None else names
        bounds = list(bounds.values())
    try:
        pairs = np.asarray(bounds)
    except ValueError:
        pairs = None
    if pairs is None or pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.shape[0] == 0:
        raise ValueError(
            f"Region: expected one (low, high) pair per coordinate, got {bounds!r}; "
            "write Region(low, high), Region([(low, high), ...]) or Region({'name': (low, high), ...})"
        )
    return pairs[:, 0], pairs[:, 1], names


def _corner(value: Any, which: str) -> np.ndarray:
    array = np.atleast_1d(np.asarray(value))
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iuf":
        raise ValueError(f"Region: expected real numbers of shape (d,) for {which}, got {value!r}")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"Region: expected finite bounds, got {which} = {array.tolist()}; name finite ones")
    return array


def _checked_names(names: Any, dim: int) -> tuple[str, ...]:
    names = (names,) if isinstance(names, str) else tuple(names)
    if len(names) != dim or len(set(names)) != dim or not all(isinstance(name, str) for name in names):
        raise ValueError(f"Region: expected {dim} different names (str), got {names!r}")
    return tuple(str(name) for name in names)


def _count(n: int, caller: str, minimum: int = 1) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < minimum:
        raise ValueError(f"Region.{caller}: expected an integer n >= {minimum}, got {n!r}")
    return int(n)


def _unit_sobol(n: int, dim: int, seed: int | np.random.Generator) -> np.ndarray:
    from scipy.stats import qmc  # scipy.stats takes half a second to import; most regions never need it

    sampler = qmc.Sobol(dim, scramble=True, seed=np.random.default_rng(seed))
    return sampler.random_base2((n - 1).bit_length())[:n]


_known_sobol = lru_cache(maxsize=32)(_unit_sobol)  # scrambling takes longer than many a search


def _unit_square_perimeter(n: int) -> np.ndarray:
    s = 4 * np.arange(n) / n
    side, along = np.divmod(s, 1)
    zero, one = np.zeros(n), np.ones(n)
    x = np.choose(side.astype(int), [along, one, 1 - along, zero])
    y = np.choose(side.astype(int), [zero, along, one, 1 - along])
    return np.stack([x, y], axis=-1)


def _unit_cube_faces(n: int, dim: int) -> np.ndarray:
    # A sequence of its own for each face: every k-th point of one Sobol sequence is not spread evenly.
    faces = []
    for face, rows in enumerate(np.array_split(np.arange(n), 2 * dim)):
        if rows.size:
            faces.append(np.insert(_unit_sobol(rows.size, dim - 1, face), face // 2, face % 2, axis=1))
    return np.concatenate(faces)
