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
_SMALL = 0.01  # of its range: smaller jumps are not looked for
_CALLS = 32  # of a function, which the time of a jump takes: a bracket is halved to a billionth
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


def with_function(
    data: Trajectories, u: InputFunction, switches: bool, integrated: bool = False
) -> Trajectories:
    """Trajectories with inputs as functions of time have them at the samples, and what comes closest between.

    Parameters
    ----------
    data : Trajectories
        With inputs at the samples.
    u : callable
        Inputs (m,) at a time.
    switches : bool
        Whether rows may be added where inputs jump between samples, which have NaN for all states.
    integrated : bool
        Whether the function itself is integrated, so that nothing is said of what comes close.

    Warns
    -----
    DataWarning
        Where nothing comes close, as where inputs turn often between samples, or jump there and no row may be
        added.
    """
    spread = np.maximum(np.concatenate(data.input_arrays()).std(axis=0), 1e-300)
    kinds: tuple[Hold, ...] = (Hold.SMOOTH, Hold.PREVIOUS, Hold.LINEAR, Hold.PIECES)
    missed, constant = _compared(data, u, kinds, spread)
    affordable = _POINTS * int(data.n_obs.sum()) <= _MOST_CALLS
    if switches and affordable:
        switching = _with_switches(data, u) if constant > _CONSTANT else None
        if switching is not None:
            return switching
        jumping = _with_jumps(data, u)
        if jumping is not None:
            data, kinds = jumping, (Hold.PIECES,)
            missed, _ = _compared(data, u, kinds, spread)
    best = int(np.argmin(missed))
    if missed[best] > _CLOSE_TO and not integrated:
        instead = ", or add times with NaN for the states, at which u is evaluated too" if switches else ""
        warn(
            "fit: the inputs u(t) jump or turn between the samples, and no curve through their values there "
            f"follows them; sample more often{instead}.",
            DataWarning,
        )
    return data.with_hold(kinds[best])


def _compared(
    data: Trajectories, u: InputFunction, kinds: Sequence[Hold], spread: np.ndarray
) -> tuple[np.ndarray, float]:
    """By how much each kind of curve is off between the samples, and the share of gaps of constant inputs."""
    squares, total, constant, gaps = np.zeros(len(kinds)), 0.0, 0, 0
    for (t, _), own in zip(data.arrays(), data.input_arrays(), strict=True):
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
    return np.sqrt(squares / max(total, 1.0)), constant / max(gaps, 1)


def _with_jumps(data: Trajectories, u: InputFunction) -> Trajectories | None:
    """The same with rows just before and at each jump of inputs that vary otherwise; None without jumps."""
    every, jumping, calls = [], False, _MOST_CALLS - _POINTS * int(data.n_obs.sum())
    for (t, x), u_at in zip(data.arrays(), data.input_arrays(), strict=True):
        added = []
        found = _jumps(t, u, calls // (_CALLS * len(data)))
        for time in found:
            k = int(np.argmin(np.abs(t - time)))
            gaps = np.diff(t)[max(k - 1, 0) : k + 1]
            near = _AT_SAMPLE * float(gaps.min())
            if abs(t[k] - time) < near:  # at a sample, which then is the first behind the jump
                u_at[k] = evaluated(u, np.array([t[k] + 2.0 * near]))[0]
                added += [t[k] - 2.0 * near] if k else []
            else:
                added += [time - near, time]
        jumping |= bool(found)
        inputs = evaluated(u, np.array(added)) if added else np.empty((0, u_at.shape[1]))
        every.append(with_lone_rows((t, x, u_at), np.array(added), inputs))
    return _rebuilt(data, every) if jumping else None


def _jumps(t: np.ndarray, u: InputFunction, most: int) -> list[float]:
    """First times behind jumps of inputs, where these vary otherwise; the largest of so many candidates."""
    width, grid, values = _on_grid(t, u)
    range_ = np.ptp(np.where(np.isfinite(values), values, values[0]), axis=0)
    values = values / np.where(range_ > 0.0, range_, 1.0)
    bends = np.abs(np.diff(values, n=2, axis=0))
    sudden = np.nan_to_num(np.minimum(bends[:-1], bends[1:]).max(axis=1))  # of each but the outer parts
    candidates = np.flatnonzero(sudden > _SMALL) + 1
    found = []
    for i in sorted(candidates[np.argsort(-sudden[candidates - 1])][:most]):
        before, behind = grid[i : i + 2]
        first, last = values[i : i + 2]
        # of a smooth function the change becomes small with the bracket
        while behind - before > _BRACKET * width[i // _POINTS] and np.abs(last - first).max() > _SMALL:
            middle = 0.5 * (before + behind)
            if not before < middle < behind:
                break
            between = evaluated(u, np.array([middle]))[0] / np.where(range_ > 0.0, range_, 1.0)
            if np.abs(between - first).max() < np.abs(last - between).max():
                before, first = middle, between
            else:
                behind, last = middle, between
        if np.abs(last - first).max() > _SMALL:
            found.append(float(behind))
    return found


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
    return _rebuilt(data, every).with_hold(Hold.PREVIOUS)


def _rebuilt(
    data: Trajectories, records: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]
) -> Trajectories:
    """The same trajectories with other times, states and inputs."""
    times, states, rows = (list(part) for part in zip(*records, strict=True))
    return Trajectories.from_arrays(
        states,
        times,
        state_names=data.state_names,
        coords=data.coords,
        u=rows,
        input_names=data.input_names,
        units=data.units,
    )


def _on_grid(t: np.ndarray, u: InputFunction) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gaps (n - 1,), times at equal parts of each, and inputs there."""
    width = np.diff(t)
    grid = np.append((t[:-1, None] + width[:, None] * (np.arange(_POINTS) / _POINTS)).ravel(), t[-1])
    return width, grid, evaluated(u, grid)


def _switches(t: np.ndarray, u: InputFunction) -> Sequence[tuple[float, np.ndarray]] | None:
    """Times at which inputs switch and their values from there on; None where they change otherwise."""
    width, grid, values = _on_grid(t, u)
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
