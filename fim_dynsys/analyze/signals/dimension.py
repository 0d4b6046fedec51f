"""correlation_dimension: how the number of neighbours grows with their distance."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from fim_dynsys.analyze.results import Table, Variables
from fim_dynsys.analyze.signals.embedding import (
    FEW_FALSE,
    autocorrelation,
    embedded,
    false_neighbours,
    first_minimum,
    most_coordinates,
    mutual_information,
)
from fim_dynsys.analyze.signals.records import OfRecords, records_of
from fim_dynsys.errors import check_whole
from fim_dynsys.threads import on_one_thread
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.wording import counted

FEWEST_TURNS = 100
"""Decorrelation times of a record below which long-time averages are those of a few passes."""

_RADII = 49  # evenly in the logarithm, from the nearest pairs to the size of the set
_LARGEST = 0.4  # of the root mean square distance from the mean
_FEWEST_PAIRS = 500  # at the smallest radius of the fit: 5 % of noise in its logarithm
_MOST_SHARE = 0.01  # of the pairs at its largest: beyond, the size of the attractor shows
_LARGEST_SHARE = 0.2  # of the pairs, where there are few samples
_SPAN = 2.0  # logarithm of the ratio of its radii, at least
_COARSE = 4.0  # logarithm of the ratio of the radii looked at where the slope changes too much on that range
_SHORTEST_SPAN = 1.5  # logarithm of the ratio of the radii fitted there
_UNEVEN = 0.3  # error, by the dimension, from which there is no slope to speak of
_PARTS = 6  # of the fitted range, over which the slope is compared
_ENOUGH_PAIRS = 10_000  # more of them make no radius count more
_MOST_POINTS = 40_000  # the number of pairs grows with the square
_MOST_LAGS, _MOST_COORDINATES = 500, 8  # of the embedding of a single state, as in `delay_embedding`


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CorrelationDimension(OfRecords):
    """Correlation sum of samples and its slope; made by `correlation_dimension`.

    Attributes
    ----------
    dimension : float
        Slope of log C over log r on the range of the fit; NaN where too few pairs are near each other, or the
        slope changes by more than 30 % on every range.
    error : float
        Largest difference from it of the slopes of six parts of the range: what a bend or noise leave.
    radii, sums : ndarray (k,)
        Distances, in standard deviations of the states, and the shares of pairs that are closer.
    fitted : ndarray (k,) of bool
        Whether a radius belongs to the range of the fit.
    n_points : int
        Samples behind it.
    theiler : int
        Pairs of at most so many samples apart do not count.
    turns : float
        Length of the record in its own unit of time, that in which its states decorrelate to 1 / e.
    by_halves : ndarray (2,)
        The same slope of the first and of the second half of the samples; NaN where they have too few pairs.
    dim, delay : int or None
        Of the delay embedding of a single state: coordinates, and samples between them; None where several
        states were given, which are taken as they are.
    """

    drawn_by = "fim_dynsys.plot.measures:correlation_sum"

    dimension: float
    error: float
    radii: np.ndarray
    sums: np.ndarray
    fitted: np.ndarray
    n_points: int
    theiler: int
    turns: float
    by_halves: np.ndarray
    dim: int | None = None
    delay: int | None = None

    @property
    def settled(self) -> bool:
        """Whether the record is long on its own time scale, and its halves have the same dimension."""
        change = float(np.abs(self.by_halves - self.dimension).max())
        return self.turns >= FEWEST_TURNS and change <= max(2.0 * self.error, _UNEVEN * self.dimension)

    def _headline(self) -> str:
        whole = f"Correlation dimension of {counted(self.n_points, 'sample')}"
        if self.dim is None or self.delay is None:
            return whole
        name, dim = self.state_names[0], counted(self.dim, "coordinate")
        return f"{whole} of {name}, embedded in {dim} {counted(self.delay, 'sample')} apart"

    def _notes(self) -> list[str]:
        length = f"The record is {self.turns:.3g} of its decorrelation times long"
        if np.isfinite(self.dimension):
            halves = " and ".join(f"{value:.3g}" for value in self.by_halves)
            compared = f"{length}; its halves have {halves}."
            if self.settled:
                return [*super()._notes(), compared]
            return [*super()._notes(), f"Not settled, expected a longer record. {compared}"]
        return [
            *super()._notes(),
            f"{length}.",
            "No dimension: on no range of radii is the slope the same. Expected a longer record that comes "
            "back near itself, or radii above its noise.",
        ]

    def _rows(self) -> Table:
        ends = self.radii[self.fitted][[0, -1]] if self.fitted.any() else np.full(2, np.nan)
        return ["dimension", "+-", "radii", "Theiler"], [[self.dimension, self.error, ends, self.theiler]]

    def _variables(self) -> Variables:
        return {
            "radius": (("radius_",), self.radii),
            "correlation_sum": (("radius_",), self.sums),
            "fitted": (("radius_",), self.fitted),
            "dimension": ((), np.array(self.dimension)),
            "error": ((), np.array(self.error)),
            "turns": ((), np.array(self.turns)),
            "by_halves": (("half",), self.by_halves),
        }


@on_one_thread
def correlation_dimension(
    data: Trajectories | ArrayLike,
    *,
    theiler: int | None = None,
    radii: tuple[float, float] | None = None,
    max_points: int = _MOST_POINTS,
    resample: bool | float = False,
) -> CorrelationDimension:
    """Correlation dimension of an attractor by the method of Grassberger and Procaccia.

    Pairs close in time are left out (Theiler's window), trajectories count together. The slope is taken
    where at least 500 pairs and at most 1 % of all are closer than the radius. Where it changes by more than
    30 % there, it is taken on the range of larger radii on which it changes least. With noise, give `radii`
    above it, or expect the dimension of the noise.

    Parameters
    ----------
    data : Trajectories or array_like (n,) or (n, d)
        Evenly sampled states, or the vectors of a `delay_embedding`. A single state is embedded first, as
        `delay_embedding` does: by itself it has the dimension of a line, whatever the attractor.
    theiler : int, optional
        Samples; default the time in which the states decorrelate to 1 / e, ten times.
    radii : (float, float), optional
        Range of the fit, in standard deviations of the states.
    max_points : int
        Of more samples every k-th is taken.
    resample : bool or float
        Whether to interpolate irregular times and missing values, or at which interval.

    Returns
    -------
    CorrelationDimension

    Raises
    ------
    ValueError
        For times that are not even, fewer than 50 samples, or a single state that is too short to be
        embedded.

    References
    ----------
    P. Grassberger, I. Procaccia, Measuring the strangeness of strange attractors, Physica D 9 (1983) 189.
    J. Theiler, Spurious dimension from correlation algorithms applied to limited time-series data,
    Phys. Rev. A 34 (1986) 2427.

    See Also
    --------
    measures : All of them at once.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze
    >>> t = np.linspace(0, 300, 3000)
    >>> torus = np.stack([np.cos(t), np.sin(t), np.cos(np.pi * t)], axis=1)
    >>> found = analyze.correlation_dimension(fim_dynsys.Trajectories.from_arrays(torus, t))
    >>> bool(abs(found.dimension - 2.0) < 0.5)
    True
    """
    check_whole("correlation_dimension", 1, max_points=max_points)
    check_whole("correlation_dimension", 0, theiler=0 if theiler is None else theiler)
    records = records_of(data, "correlation_dimension", resample)
    records.check_moving(range(len(records.names)), "correlation_dimension")
    n = sum(map(len, records.x))
    if n < 50:
        raise ValueError(f"correlation_dimension: expected at least 50 samples, got {n}.")
    unit = records.pooled.std(axis=0)
    runs = [x / np.where(unit > 0, unit, 1.0) for x in records.x]
    scale = decorrelation(runs)
    theiler = 10 * scale if theiler is None else int(theiler)
    unfolding = None
    if len(records.names) == 1:
        runs, unfolding = _unfolded(runs)
    every = -(-n // max_points)
    runs, window = [x[::every] for x in runs], -(-theiler // every)
    grid, sums, pairs = correlation_sum(runs, window, radii)
    fitted = _range(grid, sums, pairs) if radii is None else sums > 0
    dimension, error = _slope(grid, sums, pairs, fitted)
    if radii is None and not error <= _UNEVEN * dimension:
        grid, sums, pairs = correlation_sum(runs, window, (grid[-1] * np.exp(-_COARSE), grid[-1]))
        fitted, dimension, error = _most_even(grid, sums, pairs)
        if not error <= _UNEVEN * dimension:
            dimension = error = np.nan
    return CorrelationDimension(
        dimension=dimension,
        error=error,
        radii=grid,
        sums=sums,
        fitted=fitted,
        n_points=sum(map(len, runs)),
        theiler=theiler,
        turns=n / scale,
        by_halves=_by_halves(runs, window, grid, fitted),
        dim=None if unfolding is None else unfolding[0],
        delay=None if unfolding is None else unfolding[1],
        state_names=records.names,
        units=records.units,
    )


def _by_halves(runs: Sequence[np.ndarray], window: int, grid: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    """Slopes (2,) of both halves of the samples on the radii of the fit."""
    if fitted.sum() < 2 * _PARTS:
        return np.full(2, np.nan)
    ends = grid[fitted][0], grid[fitted][-1]
    if len(runs) > 1:
        halves = [runs[: len(runs) // 2], runs[len(runs) // 2 :]]
    else:
        halves = [[part] for part in np.array_split(runs[0], 2)]
    slopes = []
    for half in halves:
        if sum(map(len, half)) <= 2 * window:
            return np.full(2, np.nan)
        radii, sums, pairs = correlation_sum(half, window, ends)
        slopes.append(_slope(radii, sums, pairs, sums > 0)[0])
    return np.array(slopes)


def _unfolded(runs: Sequence[np.ndarray]) -> tuple[list[np.ndarray], tuple[int, int]]:
    """Delay vectors of runs (n, 1), with their number of coordinates and their delay.

    Raises
    ------
    ValueError
        Where the runs are too short for it.
    """
    series = [x[:, 0] for x in runs]
    shortest = min(map(len, series))
    delay = first_minimum(mutual_information(series, max(2, min(_MOST_LAGS, shortest // 5))), series)
    largest = most_coordinates(series, delay, _MOST_COORDINATES, "correlation_dimension")
    few = np.flatnonzero(false_neighbours(series, delay, largest) <= FEW_FALSE)
    dim = max(2, int(few[0]) + 1) if len(few) else largest
    return [embedded(x, delay, dim) for x in series], (dim, delay)


def _range(grid: np.ndarray, sums: np.ndarray, pairs: float) -> np.ndarray:
    """Radii at which neither few pairs nor the size of the attractor show."""
    fitted = (sums * pairs >= _FEWEST_PAIRS) & (sums <= _MOST_SHARE)
    if fitted.any() and np.ptp(np.log(grid[fitted])) >= _SPAN:
        return fitted
    # a longer range rather than none, where there are few samples
    first = np.argmax(sums * pairs >= _FEWEST_PAIRS / 10)
    return (grid >= grid[first]) & (grid <= grid[first] * np.exp(_SPAN)) & (sums < _LARGEST_SHARE)


def _slope(grid: np.ndarray, sums: np.ndarray, pairs: float, fitted: np.ndarray) -> tuple[float, float]:
    """Slope on a range of radii, and the largest difference from it of six parts; NaN without pairs."""
    fitted = fitted & (sums > 0)
    if fitted.sum() < 2 * _PARTS:
        return np.nan, np.nan
    x, y = np.log(grid[fitted]), np.log(sums[fitted])
    weight = np.sqrt(np.minimum(sums[fitted] * pairs, _ENOUGH_PAIRS))
    dimension = float(np.polyfit(x, y, 1, w=weight)[0])
    parts = zip(*(np.array_split(values, _PARTS) for values in (x, y, weight)), strict=True)
    slopes = [np.polyfit(a, b, 1, w=w)[0] for a, b, w in parts]
    return dimension, float(np.abs(np.array(slopes) - dimension).max())


def _most_even(grid: np.ndarray, sums: np.ndarray, pairs: float) -> tuple[np.ndarray, float, float]:
    """The range on which the slope changes least, by itself; its slope and error."""
    best = np.zeros(len(grid), dtype=bool), np.nan, np.nan
    enough = (sums * pairs >= _FEWEST_PAIRS / 10) & (sums < _LARGEST_SHARE)
    for first in np.flatnonzero(enough):
        fitted = enough & (grid >= grid[first]) & (grid <= grid[first] * np.exp(_SHORTEST_SPAN))
        if np.ptp(np.log(grid[fitted])) < 0.9 * _SHORTEST_SPAN:
            break
        dimension, error = _slope(grid, sums, pairs, fitted)
        if dimension > 0 and not error / dimension >= best[2] / best[1]:
            best = fitted, dimension, error
    return best


def decorrelation(runs: Sequence[np.ndarray]) -> int:
    """Samples after which the autocorrelation of every state is below 1 / e, at least one."""
    longest = 1
    for i in range(runs[0].shape[1]):
        below = np.flatnonzero(autocorrelation([x[:, i] for x in runs]) < 1.0 / np.e)
        longest = max(longest, int(below[0]) if len(below) else 1)
    return longest


def correlation_sum(
    runs: Sequence[np.ndarray], window: int, ends: tuple[float, float] | None = None
) -> tuple[np.ndarray, np.ndarray, float]:
    """Radii, shares of pairs closer than each, and the number of pairs, those within `window` left out."""
    points = np.concatenate(runs)
    n = len(points)
    tree = cKDTree(points)
    radii = np.geomspace(*(_ends(points, tree) if ends is None else ends), _RADII)
    near = (tree.count_neighbors(tree, radii) - n) / 2.0
    close = np.zeros(_RADII)
    pairs = n * (n - 1) / 2.0
    for x in runs:
        for lag in range(1, min(window, len(x) - 1) + 1):
            distance = np.linalg.norm(x[lag:] - x[:-lag], axis=1)
            close += np.searchsorted(np.sort(distance), radii, side="right")
            pairs -= len(distance)
    return radii, (near - close) / pairs, pairs


def _ends(points: np.ndarray, tree: cKDTree) -> tuple[float, float]:
    """From below the distance of nearest neighbours to a share of the attractor's size."""
    largest = _LARGEST * float(np.linalg.norm(points.std(axis=0)))
    nearest = tree.query(points[:: max(1, len(points) // 500)], k=2)[0][:, -1]
    known = nearest[nearest > 0]
    smallest = float(np.quantile(known, 0.02)) / 4.0 if len(known) else largest
    return float(np.clip(smallest, 1e-9 * largest, largest / 10.0)), largest
