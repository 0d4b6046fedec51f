"""What measures are taken of: samples at equal intervals of time, one array for each trajectory."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.analyze.results import Effort, Result
from fim_dynsys.errors import check_positive, real_array
from fim_dynsys.trajectories.container import Trajectories

_EVEN = 1e-3  # of the interval: what rounding of written times leaves


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class OfRecords(Result):
    """Base of results that evaluate no field, and so have no effort to state."""

    effort: Effort = field(default_factory=lambda: Effort(0, 0, 0, 0, False))

    def _notes(self) -> list[str]:
        return []


@dataclass(frozen=True, eq=False)
class Records:
    """Evenly sampled trajectories.

    Attributes
    ----------
    x : tuple of ndarray (n_k, d)
        States.
    step : float
        Interval of time between samples.
    names : tuple of str
        Of the states.
    units : dict
        By state name.
    """

    x: tuple[np.ndarray, ...]
    step: float
    names: tuple[str, ...]
    units: dict[str, str]

    @property
    def pooled(self) -> np.ndarray:
        """All samples, (n, d)."""
        return np.concatenate(self.x)

    def trajectories(self) -> Trajectories:
        """The same as trajectories that begin at time 0."""
        step = abs(self.step)
        times = [step * np.arange(len(x)) for x in self.x]
        return Trajectories.from_arrays(list(self.x), times, state_names=self.names)

    def number(self, state: int | str, caller: str) -> int:
        """Number of a state given by number or name; a ValueError names the caller where it is neither."""
        number = self.names.index(state) if state in self.names else state
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            number = -1
        if not 0 <= number < len(self.names):
            raise ValueError(
                f"{caller}: expected a state among {list(self.names)} or its number, got {state!r}; times "
                "belong into Trajectories.from_arrays(x, t)."
            )
        return int(number)

    def check_moving(self, states: Sequence[int], caller: str) -> None:
        """Raise a ValueError that names the caller where none of these states (by number) ever changes."""
        pooled = self.pooled[:, states]
        if (pooled == pooled[0]).all():
            names = ", ".join(self.names[i] for i in states)
            raise ValueError(f"{caller}: expected states that change, got constant {names}; choose others.")

    def state(self, i: int) -> tuple[np.ndarray, ...]:
        """One state of each trajectory."""
        return tuple(x[:, i] for x in self.x)


def records_of(data: Trajectories | ArrayLike, caller: str, resample: float | bool = False) -> Records:
    """Samples at equal intervals, or an error that says where they are not.

    Parameters
    ----------
    data : Trajectories or array_like (n,), (n, d)
        Observed or simulated; an array is one trajectory at times 0, 1, 2, ...
    caller : str
        The caller, for errors.
    resample : bool or float
        Whether to interpolate linearly at equal intervals: at the median one, or at this one. Missing values
        are interpolated over as well.

    Returns
    -------
    Records

    Raises
    ------
    ValueError
        For gaps, missing values or irregular times without `resample`, trajectories that differ in their
        interval, and values that are not finite.
    """
    if not isinstance(data, Trajectories):
        x = real_array(data, caller, "data")
        if x.ndim not in (1, 2) or len(x) < 2:
            raise ValueError(
                f"{caller}: expected Trajectories or an array (n,) or (n, d), got shape {x.shape}."
            )
        data = Trajectories.from_arrays(x.reshape(len(x), -1), np.arange(len(x), dtype=float))
    runs = [(t, x) for t, x in data.arrays() if len(t) > 1]
    if not runs:
        raise ValueError(f"{caller}: expected trajectories of at least two samples, got none.")
    steps = np.concatenate([np.diff(t) for t, _ in runs])
    step = float(np.median(steps))
    if not isinstance(resample, bool):
        check_positive(caller, resample=resample)
        step = float(resample)
    if resample is not False:
        return Records(
            tuple(_interpolated(t, x, step, caller) for t, x in runs), step, data.state_names, data.units
        )
    for k, (t, x) in enumerate(runs):
        missing = np.flatnonzero(~np.isfinite(x).all(axis=1))
        uneven = np.flatnonzero(np.abs(np.diff(t) - step) > _EVEN * abs(step))
        if len(missing) or len(uneven):
            what = (
                f"a missing value at t = {t[missing[0]]:g}"
                if len(missing)
                else f"an interval of {t[uneven[0] + 1] - t[uneven[0]]:g} after t = {t[uneven[0]]:g}"
            )
            raise ValueError(
                f"{caller}: expected samples at equal intervals of {step:g}, got {what} of trajectory {k}; "
                "pass resample=True to interpolate, or split the trajectory there."
            )
    return Records(tuple(np.array(x) for _, x in runs), step, data.state_names, data.units)


def _interpolated(t: np.ndarray, x: np.ndarray, step: float, caller: str) -> np.ndarray:
    even = t[0] + step * np.arange(int(np.floor((t[-1] - t[0]) / step * (1 + 1e-12))) + 1)
    columns = []
    for column in x.T:
        known = np.isfinite(column)
        if known.sum() < 2:
            raise ValueError(
                f"{caller}: expected at least two values of each state to interpolate, got fewer."
            )
        order = slice(None) if step > 0 else slice(None, None, -1)
        columns.append(np.interp(even, t[known][order], column[known][order]))
    return np.stack(columns, axis=1)
