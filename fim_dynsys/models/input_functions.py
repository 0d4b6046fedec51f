"""Inputs that users give as functions of time, brought to the samples and between them."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.errors import DataWarning, real_array, warn
from fim_dynsys.regression.gaps import with_lone_rows
from fim_dynsys.regression.inputs import at, curves
from fim_dynsys.regression.thinning import evenly
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.holding import Hold

InputFunction = Callable[[float], ArrayLike]

# gaps, and parts of them, in which functions are looked at
_LOOKED_AT, _PARTS = 500, (0.07, 0.31, 0.66, 0.93)
_CLOSE_TO = 0.1  # standard deviations by which an input may be off between samples
_CONSTANT = 0.5  # of the gaps in which a switch keeps its value throughout
_POINTS = 8  # of each gap: a switch stays for longer than from one to the next
_MOST_CALLS = 200_000  # of a function, which take seconds
_BRACKET = 1e-9  # of a gap, to which the time of a switch is known
_AT_SAMPLE = 1e-6  # of a gap: a switch so near a sample is at it


def evaluated(u: InputFunction, t: np.ndarray) -> np.ndarray:
    """Inputs (n, m) at times (n,).

    Raises
    ------
    ValueError
        Where they are not one vector of the same shape at all times.
    """
    rows = [np.atleast_1d(real_array(u(s), "fit", "u(t)")) for s in t]
    shapes = {row.shape for row in rows}
    if len(shapes) != 1 or rows[0].ndim != 1:
        raise ValueError(
            f"fit: expected u(t) of one shape (m,) at all times, got {', '.join(map(str, sorted(shapes)))}."
        )
    return np.stack(rows)


def with_function(data: Trajectories, u: InputFunction, switches: bool) -> Trajectories:
    """Trajectories with inputs as functions of time have them at the samples, and what comes closest between.

    Parameters
    ----------
    data : Trajectories
        With inputs at the samples.
    u : callable
        Inputs (m,) at a time.
    switches : bool
        Whether rows may be added where inputs switch between samples, which have NaN for all states.

    Warns
    -----
    DataWarning
        Where nothing comes close, as where inputs jump between samples that are smooth elsewhere.
    """
    times, rows = [t for t, _ in data.arrays()], data.input_arrays()
    kinds = (Hold.SMOOTH, Hold.PREVIOUS, Hold.LINEAR)
    squares, total, constant, gaps = np.zeros(len(kinds)), 0.0, 0, 0
    spread = np.maximum(np.concatenate(rows).std(axis=0), 1e-300)
    for t, own in zip(times, rows, strict=True):
        few = evenly(len(t) - 1, _LOOKED_AT)
        found = [curves(t, own, kind).cubics[few] for kind in kinds]
        same = np.ones(len(few), dtype=bool)
        for part in _PARTS:
            true = evaluated(u, t[few] + part * (t[few + 1] - t[few]))
            same &= (true == own[few]).all(axis=1)
            true = np.where(np.isfinite(true), true, np.nan)  # a pole between samples is no curve's
            squares += [np.nansum(((at(cubics, part) - true) / spread) ** 2) for cubics in found]
            total += np.isfinite(true).sum()
        constant, gaps = constant + int(same.sum()), gaps + len(few)
    if switches and constant > _CONSTANT * gaps and _POINTS * sum(map(len, times)) <= _MOST_CALLS:
        switching = _with_switches(data, u)
        if switching is not None:
            return switching
    best = int(np.argmin(squares))
    if total and np.sqrt(squares[best] / total) > _CLOSE_TO:
        warn(
            "fit: the inputs u(t) jump or turn between the samples; give times there too, with NaN for the "
            "states.",
            DataWarning,
        )
    return data.with_hold(kinds[best])


def _with_switches(data: Trajectories, u: InputFunction) -> Trajectories | None:
    """The same with a row wherever an input switches; None where inputs do more than to switch."""
    every = []
    for (t, x), u_at in zip(data.arrays(), data.input_arrays(), strict=True):
        found = _switches(t, u)
        if found is None:
            return None
        added, inputs = [], []
        for time, values in found:
            last = int(np.searchsorted(t, time, side="right")) - 1
            gap = t[last + 1] - t[last] if last + 1 < len(t) else np.inf
            if time - t[last] < _AT_SAMPLE * gap:
                u_at[last] = values
            elif t[last + 1] - time > _AT_SAMPLE * gap:
                added.append(time)
                inputs.append(values)
        every.append(with_lone_rows((t, x, u_at), np.array(added), np.reshape(inputs, (-1, u_at.shape[1]))))
    times, states, rows = (list(part) for part in zip(*every, strict=True))
    return Trajectories.from_arrays(
        states,
        times,
        state_names=data.state_names,
        coords=data.coords,
        u=rows,
        input_names=data.input_names,
        units=data.units,
    ).with_hold(Hold.PREVIOUS)


def _switches(t: np.ndarray, u: InputFunction) -> Sequence[tuple[float, np.ndarray]] | None:
    """Times at which inputs switch and their values from there on; None where they change otherwise."""
    width = np.diff(t)
    grid = np.append((t[:-1, None] + width[:, None] * (np.arange(_POINTS) / _POINTS)).ravel(), t[-1])
    values = evaluated(u, grid)
    found = []
    for i in np.flatnonzero((values[1:] != values[:-1]).any(axis=1)):
        before, behind = float(grid[i]), float(grid[i + 1])
        while behind - before > _BRACKET * width[i // _POINTS]:
            middle = 0.5 * (before + behind)
            if not before < middle < behind:
                break
            (between,) = evaluated(u, np.array([middle]))
            if np.array_equal(between, values[i]):
                before = middle
            elif np.array_equal(between, values[i + 1]):
                behind = middle
            else:
                return None
        found.append((behind, values[i + 1]))
    return found
