"""recurrence: when a record comes back near where it was, and what lines these returns form."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.analyze.results import Table, Variables
from fim_dynsys.analyze.signals.records import OfRecords, records_of
from fim_dynsys.errors import check_number, check_whole
from fim_dynsys.threads import on_one_thread
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.wording import counted

_MOST = 2000  # samples of a plot: 4 million cells
_RATE = 0.05  # share of pairs that count as near: usual is 1 to 10 %


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Recurrence(OfRecords):
    """Recurrence plot of one trajectory; made by `recurrence`.

    Attributes
    ----------
    t : ndarray (n,)
        Times of the samples, from the first on.
    matrix : ndarray (n, n) of bool
        Whether samples i and j are closer than the radius.
    radius : float
        In standard deviations of the states.
    rate : float
        Share of the pairs that recur, without those of a sample with itself.
    determinism : float
        Share of the recurrences on diagonal lines of at least two: stretches that run parallel.
    laminarity : float
        Share on vertical lines of at least two: states that last.
    diagonal, trapping : float
        Mean length of those lines in units of time.
    longest : float
        Longest diagonal line besides the main one, in units of time.
    """

    drawn_by = "fim_dynsys.plot.measures:recurrence_plot"

    t: np.ndarray
    matrix: np.ndarray
    radius: float
    rate: float
    determinism: float
    laminarity: float
    diagonal: float
    trapping: float
    longest: float

    def _headline(self) -> str:
        return f"Recurrences of {counted(len(self.t), 'sample')} within {self.radius:.3g} standard deviations"

    def _rows(self) -> Table:
        columns = ["rate", "determinism", "laminarity", "mean diagonal", "trapping time", "longest diagonal"]
        values = [self.rate, self.determinism, self.laminarity, self.diagonal, self.trapping, self.longest]
        return columns, [values]

    def _variables(self) -> Variables:
        columns, (values,) = self._rows()
        numbers = {
            name.replace(" ", "_"): ((), np.array(value)) for name, value in zip(columns, values, strict=True)
        }
        return {"t": (("sample",), self.t), "matrix": (("sample", "other"), self.matrix), **numbers}


@on_one_thread
def recurrence(
    data: Trajectories | ArrayLike,
    trajectory: int = 0,
    *,
    radius: float | None = None,
    rate: float = _RATE,
    scale: ArrayLike | None = None,
    resample: bool | float = False,
) -> Recurrence:
    """Recurrence plot of a trajectory with its determinism and laminarity.

    States are in units of their standard deviations. Of more than 2,000 samples every k-th is taken.

    Parameters
    ----------
    data : Trajectories or array_like (n,) or (n, d)
        Evenly sampled.
    trajectory : int
        Which of several trajectories.
    radius : float, optional
        Distance, in standard deviations, up to which samples recur; default so that the share `rate` does.
    rate : float
        That share.
    scale : array_like (d,), optional
        Units in place of the standard deviations, to compare with another record.
    resample : bool or float
        Whether to interpolate irregular times and missing values, or at which interval.

    Returns
    -------
    Recurrence

    Raises
    ------
    ValueError
        For times that are not even, a trajectory that is not there, or a radius or rate that is none.

    References
    ----------
    N. Marwan, M. C. Romano, M. Thiel, J. Kurths, Recurrence plots for the analysis of complex systems,
    Physics Reports 438 (2007) 237, equations 44, 46, 50 and 52.

    See Also
    --------
    measures : All of them at once.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze
    >>> t = np.linspace(0, 60, 600)
    >>> circle = fim_dynsys.Trajectories.from_arrays(np.stack([np.cos(t), np.sin(t)], axis=1), t)
    >>> round(float(analyze.recurrence(circle).determinism), 1)
    1.0
    """
    check_whole("recurrence", 0, trajectory=trajectory)
    check_number("recurrence", "rate", rate, 0.0, 1.0)
    records = records_of(data, "recurrence", resample)
    if not 0 <= trajectory < len(records.x):
        raise ValueError(f"recurrence: expected a trajectory below {len(records.x)}, got {trajectory}.")
    if not 0 < rate < 1 or (radius is not None and radius <= 0):
        raise ValueError(
            f"recurrence: expected a rate in (0, 1) and a positive radius, got {rate}, {radius}."
        )
    x = records.x[trajectory]
    every = -(-len(x) // _MOST)
    x, step = x[::every], records.step * every
    unit = x.std(axis=0) if scale is None else np.asarray(scale, dtype=float)
    x = x / np.where(unit > 0, unit, 1.0)
    square = np.sum(x**2, axis=1)
    distance = np.sqrt(np.maximum(square[:, None] + square - 2.0 * x @ x.T, 0.0))
    upper = np.triu_indices(len(x), 1)
    radius = float(np.quantile(distance[upper], rate)) if radius is None else radius
    matrix = distance <= radius
    np.fill_diagonal(matrix, True)
    diagonals, verticals = diagonal_lines(matrix), vertical_lines(matrix)
    return Recurrence(
        t=step * np.arange(len(x)),
        matrix=matrix,
        radius=radius,
        rate=float(matrix[upper].mean()),
        determinism=_share(diagonals),
        laminarity=_share(verticals),
        diagonal=step * _mean_length(diagonals),
        trapping=step * _mean_length(verticals),
        longest=float(abs(step) * diagonals.max(initial=0)),
        state_names=records.names,
        units=records.units,
    )


def diagonal_lines(matrix: np.ndarray) -> np.ndarray:
    """Lengths of all diagonal runs above the main diagonal."""
    n = len(matrix)
    # Sheared, diagonals become columns: cell (i, i + k) goes to row i of column k.
    padded = np.zeros((n, 2 * n), dtype=bool)
    padded[:, :n] = matrix
    sheared = padded.ravel()[: n * (2 * n + 1) - n].copy()
    sheared = np.concatenate([sheared, np.zeros(n * (2 * n + 1) - len(sheared), dtype=bool)])
    columns = sheared.reshape(n, 2 * n + 1)[:, 1:n]
    return _runs(columns.T)


def vertical_lines(matrix: np.ndarray) -> np.ndarray:
    """Lengths of all vertical runs, the main diagonal's cells included."""
    return _runs(matrix.T)


def _runs(rows: np.ndarray) -> np.ndarray:
    """Lengths of the runs of True in each row."""
    padded = np.zeros((rows.shape[0], rows.shape[1] + 2), dtype=np.int8)
    padded[:, 1:-1] = rows
    change = np.diff(padded, axis=1)
    begins, ends = np.nonzero(change == 1)[1], np.nonzero(change == -1)[1]
    return ends - begins


def _share(lengths: np.ndarray) -> float:
    """Share of the cells that lie on lines of at least two; NaN where nothing recurs."""
    return float(lengths[lengths >= 2].sum() / lengths.sum()) if len(lengths) else np.nan


def _mean_length(lengths: np.ndarray) -> float:
    lines = lengths[lengths >= 2]
    return float(lines.mean()) if len(lines) else np.nan
