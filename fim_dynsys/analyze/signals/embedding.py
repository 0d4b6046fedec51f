"""delay_embedding: how far apart, and how many, delayed copies of a state unfold its attractor."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from fim_dynsys.analyze.results import Table, Variables
from fim_dynsys.analyze.signals.records import OfRecords, records_of
from fim_dynsys.errors import check_whole
from fim_dynsys.threads import on_one_thread
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.wording import counted

_FALSE_RATIO, _FALSE_SIZE = 15.0, 2.0  # R_tol and A_tol of Kennel, Brown and Abarbanel
FEW_FALSE = 0.02
"""Share of false neighbours at which an attractor counts as unfolded."""

_MOST_POINTS = 5000  # delay vectors whose neighbours are sought
_LONGEST = 0.2  # of the shortest record, for the delay
_MOST_LAGS = 500  # samples at which the mutual information is computed
_RISE = 0.01  # less is the noise of the estimate
_ALIKE = 0.7  # autocorrelation above which two coordinates lie within 45 degrees of one line
_NEIGHBOURS = 2  # the nearest alone may always be the same place one period before


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Embedding(OfRecords):
    """Delay embedding of one state; made by `delay_embedding`.

    Attributes
    ----------
    state : str
        The state.
    step : float
        Interval of time between samples.
    mutual_information : ndarray (n_lags,)
        In bits, of samples 0, 1, 2, ... apart.
    false_neighbours : ndarray (max_dim,)
        Share of the two nearest neighbours in 1, 2, ... dimensions that one more moves apart.
    delay : int
        Samples from one coordinate to the next: the first minimum of the mutual information from where the
        autocorrelation is below 0.7, or 1 if it is so from one sample to the next; where the information
        falls below 1 / e of its value at 0, if it has no minimum.
    dim : int
        Coordinates: the fewest with at most 2 % false neighbours, or as many as were tried.
    vectors : ndarray (n, dim)
        The embedded samples, all trajectories one after the other.
    """

    drawn_by = "fim_dynsys.plot.measures:embedding"

    state: str
    step: float
    mutual_information: np.ndarray
    false_neighbours: np.ndarray
    delay: int
    dim: int
    vectors: np.ndarray

    def _headline(self) -> str:
        return (
            f"Delay embedding of {self.state}: {counted(self.dim, 'coordinate')}, "
            f"{counted(self.delay, 'sample')} ({self.delay * self.step:.4g} of time) apart"
        )

    def _notes(self) -> list[str]:
        if (self.false_neighbours <= FEW_FALSE).any():
            return super()._notes()
        return [
            *super()._notes(),
            "Neighbours stay false in as many coordinates as were tried: noise, or a record that never comes "
            "back near itself.",
        ]

    def _rows(self) -> Table:
        return ["coordinates", "false neighbours"], [
            [k + 1, f"{share:.1%}"] for k, share in enumerate(self.false_neighbours)
        ]

    def _variables(self) -> Variables:
        return {
            "mutual_information": (("lag",), self.mutual_information),
            "false_neighbours": (("dim",), self.false_neighbours),
            "delay": ((), np.array(self.delay)),
            "vectors": (("sample", "coordinate"), self.vectors),
        }


@on_one_thread
def delay_embedding(
    data: Trajectories | ArrayLike,
    state: int | str = 0,
    *,
    max_dim: int = 8,
    delay: int | None = None,
    resample: bool | float = False,
) -> Embedding:
    """Choose the delay by mutual information and the dimension by false nearest neighbours.

    Parameters
    ----------
    data : Trajectories or array_like (n,) or (n, d)
        Evenly sampled; several trajectories count together.
    state : int or str
        The state to embed.
    max_dim : int
        Largest number of coordinates that is tried; fewer where the records are shorter than so many delays.
    delay : int, optional
        In samples; default by mutual information.
    resample : bool or float
        Whether to interpolate irregular times and missing values, or at which interval.

    Returns
    -------
    Embedding

    Raises
    ------
    ValueError
        For times that are not even, a state that is not there, or records too short for two delays.

    References
    ----------
    A. M. Fraser, H. L. Swinney, Independent coordinates for strange attractors from mutual information,
    Phys. Rev. A 33 (1986) 1134.
    M. B. Kennel, R. Brown, H. D. I. Abarbanel, Determining embedding dimension for phase-space
    reconstruction using a geometrical construction, Phys. Rev. A 45 (1992) 3403.

    See Also
    --------
    measures : Of records, several at once.

    Examples
    --------
    >>> import fim_dynsys
    >>> t = np.arange(2000) * 0.05
    >>> vdp = fim_dynsys.SymbolicField(["x1", "(1 - x0**2)*x1 - x0"])
    >>> delay_embedding(fim_dynsys.simulate(vdp, [2.0, 0.0], t)).dim
    2
    """
    check_whole("delay_embedding", 1, max_dim=max_dim, delay=1 if delay is None else delay)
    records = records_of(data, "delay_embedding", resample)
    names, number = records.names, records.number(state, "delay_embedding")
    records.check_moving([number], "delay_embedding")
    series = records.state(number)
    shortest = min(map(len, series))
    information = mutual_information(series, min(_MOST_LAGS, max(2, int(_LONGEST * shortest))))
    delay = first_minimum(information, series) if delay is None else delay
    max_dim = most_coordinates(series, delay, max_dim, "delay_embedding")
    false = false_neighbours(series, delay, max_dim)
    few = np.flatnonzero(false <= FEW_FALSE)
    dim = int(few[0]) + 1 if len(few) else max_dim
    vectors = np.concatenate([embedded(x, delay, dim) for x in series])
    return Embedding(
        state=names[number],
        step=records.step,
        mutual_information=information,
        false_neighbours=false,
        delay=delay,
        dim=dim,
        vectors=vectors,
        state_names=names,
        units=records.units,
    )


def most_coordinates(series: Sequence[np.ndarray], delay: int, max_dim: int, caller: str) -> int:
    """The largest number of coordinates up to `max_dim` that the shortest record has room for.

    Raises
    ------
    ValueError
        Where it has room for fewer than two and one to test them.
    """
    shortest = min(map(len, series))
    room = (shortest - 2) // max(1, delay)
    if delay < 1 or room < min(2, max_dim):
        raise ValueError(
            f"{caller}: expected trajectories longer than two delays of {delay} samples, got {shortest}; "
            "pass longer ones, or a smaller delay to delay_embedding."
        )
    return min(max_dim, room)


def embedded(x: np.ndarray, delay: int, dim: int) -> np.ndarray:
    """Rows ``(x[i], x[i + delay], ..., x[i + (dim - 1) delay])`` of a series (n,)."""
    n = len(x) - (dim - 1) * delay
    return np.stack([x[k * delay : k * delay + n] for k in range(dim)], axis=1)


def mutual_information(series: Sequence[np.ndarray], n_lags: int) -> np.ndarray:
    """Mutual information in bits of samples 0 to ``n_lags - 1`` apart, from ranks in equally filled cells."""
    values = np.concatenate(series)
    bins = int(np.clip(np.sqrt(len(values) / 20.0), 4, 64))
    edges = np.quantile(values, np.linspace(0.0, 1.0, bins + 1)[1:-1])
    cells = [np.searchsorted(edges, x, side="right") for x in series]
    found = np.zeros(n_lags)
    for lag in range(n_lags):
        pairs = np.concatenate([c[: len(c) - lag] * bins + c[lag:] for c in cells])
        joint = np.bincount(pairs, minlength=bins * bins).reshape(bins, bins) / len(pairs)
        apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
        known = joint > 0
        found[lag] = np.sum(joint[known] * np.log2(joint[known] / apart[known]))
    return found


def first_minimum(information: np.ndarray, series: Sequence[np.ndarray]) -> int:
    """The lag of the first minimum from which mutual information rises again by 1 % of that at lag 0.

    Lags at which samples still lie near a line are passed over: there a periodic record has minima by the
    cells of the estimate alone. Where that is none, as for maps, it is 1: later samples only fold more.
    Without a minimum, the lag from where information is below 1 / e of that at lag 0.
    """
    apart = np.flatnonzero(autocorrelation(series)[: len(information)] < _ALIKE)
    first = int(apart[0]) if len(apart) else 0
    if first == 1:
        return 1
    later = information[first:]
    rise = np.flatnonzero(later > np.minimum.accumulate(later) + _RISE * information[0])
    if len(rise):
        return max(1, first + int(np.argmin(later[: rise[0]])))
    below = np.flatnonzero(later < information[0] / np.e)
    return max(1, first + int(below[0])) if len(below) else len(information) - 1


def autocorrelation(series: Sequence[np.ndarray]) -> np.ndarray:
    """Autocorrelation of one state at lags 0, 1, 2, ... samples, all trajectories together."""
    mean = np.concatenate(series).mean()
    total = np.zeros(max(map(len, series)))
    for x in series:
        spectrum = np.abs(np.fft.rfft(x - mean, 2 * len(x))) ** 2
        total[: len(x)] += np.fft.irfft(spectrum, 2 * len(x))[: len(x)]
    return total / total[0] if total[0] > 0 else np.ones_like(total)


def false_neighbours(series: Sequence[np.ndarray], delay: int, max_dim: int) -> np.ndarray:
    """Share of the two nearest neighbours in 1 to `max_dim` coordinates that are false.

    A neighbour is false where the next coordinate parts the two by more than 15 times their distance, or to
    a distance of more than two standard deviations of the series. Neighbours less than a delay apart in time
    do not count.
    """
    size = np.concatenate(series).std()
    shares = np.zeros(max_dim)
    for dim in range(1, max_dim + 1):
        parts = [embedded(x, delay, dim + 1) for x in series]
        vectors = np.concatenate(parts)
        run = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        place = np.concatenate([np.arange(len(part)) for part in parts])
        asked = np.arange(0, len(vectors), max(1, len(vectors) // _MOST_POINTS))
        distance, index = _neighbours(vectors[:, :-1], asked, run, place, delay)
        near = np.isfinite(distance)
        apart = np.abs(vectors[asked, -1][:, None] - vectors[index, -1])
        scale = np.maximum(distance, 1e-12 * size)
        false = (apart > _FALSE_RATIO * scale) | (np.hypot(distance, apart) > _FALSE_SIZE * size)
        # what comes from rounding alone is no distance
        false &= apart > 1e-9 * size
        shares[dim - 1] = false[near].mean() if near.any() else 0.0
    return shares


def _neighbours(
    x: np.ndarray, asked: np.ndarray, run: np.ndarray, place: np.ndarray, apart: int
) -> tuple[np.ndarray, np.ndarray]:
    """Distances to, and rows of, the nearest neighbours not close in time, (n, 2); infinite without one."""
    tree = cKDTree(x)
    k = min(2 * apart + 2 + _NEIGHBOURS, len(x))
    distance, index = tree.query(x[asked], k=k)
    same = (run[index] == run[asked][:, None]) & (np.abs(place[index] - place[asked][:, None]) <= apart)
    distance = np.where(same, np.inf, distance)
    best = np.argsort(distance, axis=1, kind="stable")[:, :_NEIGHBOURS]
    return np.take_along_axis(distance, best, axis=1), np.take_along_axis(index, best, axis=1)
