"""Records in which single states were not observed at some times: all that was observed is used."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fim_dynsys.fields.inference import Noise
from fim_dynsys.regression.criteria import Known
from fim_dynsys.regression.input_rows import followed
from fim_dynsys.regression.inputs import kinks
from fim_dynsys.regression.smoothing import TIME_AWARE, Smoother
from fim_dynsys.trajectories.container import Trajectories

FEWEST = 5
"""Samples of a state in a trajectory: fewer are not smoothed."""

_LOSS = 0.1  # of the observed values: so few are dropped with the samples that they belong to
_BRIDGED = 6.0  # usual gaps of a state: what lies in longer ones is not estimated from its neighbours
_BEYOND = 1.0 + 1e-9  # usual gaps from a state's value: so near ones are on a line through it


@dataclass(frozen=True)
class Completed:
    """Samples with a value of every state, and what is known of these.

    Attributes
    ----------
    trajectories : Trajectories
        Values that were not observed are on a smoothing spline through those of the same state.
    errors : list of arrays (n, d), Noise or None
        Of the samples: inf for values that were not observed, nan where errors are not known; None where all
        were observed and no errors are known.
    """

    trajectories: Trajectories
    errors: Known | None


def has_gaps(trajectories: Trajectories) -> bool:
    """Whether dropping the samples that lack a state would lose more than a tenth of what was observed."""
    seen = np.concatenate([np.isfinite(x) for _, x in trajectories.arrays()])
    return int(seen[~seen.all(axis=1)].sum()) > _LOSS * int(seen.sum())


def is_incomplete(trajectories: Trajectories) -> bool:
    """Whether `completed` may do more than to drop samples: states have gaps, or inputs are known alone.

    Or an input jumps to a sample that lacks a state, without which it would switch at the next one.
    """
    return bool(lone_inputs(trajectories)) or has_gaps(trajectories) or _switches_in_gaps(trajectories)


def _switches_in_gaps(trajectories: Trajectories) -> bool:
    for (t, x), u in zip(trajectories.arrays(), trajectories.input_arrays(), strict=True):
        lacking = np.isnan(x).any(axis=1)
        if len(t) < 2 or not u.size or not lacking.any():
            continue
        if (lacking & kinks(t, u, trajectories.hold)).any():
            return True
    return False


def lone_rows(trajectories: Trajectories) -> list[np.ndarray]:
    """Rows (n,) at which inputs are known and no state is; none in trajectories without any state."""
    rows = [np.isnan(x).all(axis=1) for _, x in trajectories.arrays()]
    return [empty & bool(trajectories.input_names) & ~empty.all() for empty in rows]


def with_lone_rows(
    record: tuple[np.ndarray, np.ndarray, np.ndarray], t: np.ndarray, u: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, states and inputs of a record, in order, with rows (r,) of inputs alone at other times."""
    times, states, inputs = record
    every = np.concatenate([times, t])
    order = np.argsort(every)
    empty = np.full((len(t), states.shape[1]), np.nan)
    return every[order], np.concatenate([states, empty])[order], np.concatenate([inputs, u])[order]


def lone_inputs(trajectories: Trajectories) -> int:
    """The number of rows at which inputs are known and no state is."""
    return sum(int(rows.sum()) for rows in lone_rows(trajectories))


def completed(caller: str | None, trajectories: Trajectories, sigma: Known | None = None) -> Completed:
    """A record as searches take it: values of every state at every time that is kept.

    Where dropping the samples that lack a state would lose more than a tenth of what was observed, as where
    states were sampled at different times, the missing values are estimated from the same state's neighbours,
    and so they are where inputs alone are known and say more than those at the samples, or an input jumps to
    a sample that lacks a state.
    Smoothers and trajectory fits do not count these; they only stand in products of states in regressions.
    Samples are dropped within gaps of a state of more than six times its usual ones, and farther than one of
    these before its first and behind its last value.

    Parameters
    ----------
    caller : str or None
        Named in messages; None where what was dropped has been said before.
    trajectories : Trajectories
        As given.
    sigma : list of arrays (n, d), Noise or None
        Known errors of the observations.

    Returns
    -------
    Completed

    Raises
    ------
    ValueError
        Where no sample is left.

    Warns
    -----
    DataWarning
        With the number of samples that were dropped, if any was.
    """
    if trajectories.input_names and not isinstance(sigma, Noise):
        trajectories, sigma = _without_idle_rows(trajectories, sigma)
    pairs = trajectories.arrays()
    seen = [np.isfinite(x) for _, x in pairs]
    if all(mask.all() for mask in seen):
        return Completed(trajectories, sigma)
    filled = trajectories
    if is_incomplete(trajectories) and not isinstance(sigma, Noise):
        usual = _usual_gaps(pairs, seen)
        each = zip(pairs, seen, lone_rows(trajectories), strict=True)
        values = [_filled(t, x, mask, usual, alone) for (t, x), mask, alone in each]
        filled = trajectories.with_x(values)
    kept = [np.isfinite(x).all(axis=1) for _, x in filled.arrays()]
    complete = _with_every_state(filled, kept) if caller is None else filled.drop_incomplete(caller)
    if sigma is None and all(mask[rows].all() for mask, rows in zip(seen, kept, strict=True)):
        return Completed(complete, None)
    if isinstance(sigma, Noise):
        return Completed(complete, sigma)
    given = [np.full(mask.shape, np.nan) for mask in seen] if sigma is None else sigma
    errors = [
        np.where(mask, error, np.inf)[rows]
        for mask, error, rows in zip(seen, given, kept, strict=True)
        if rows.any()
    ]
    return Completed(complete, errors)


def _without_idle_rows(
    trajectories: Trajectories, sigma: Sequence[np.ndarray] | None
) -> tuple[Trajectories, Sequence[np.ndarray] | None]:
    """Trajectories and errors without the rows of inputs alone that nothing depends on, see `followed`."""
    kept, hold = followed(trajectories)
    if all(rows.all() for rows in kept):
        return trajectories, sigma
    fewer = trajectories.select_samples([np.flatnonzero(rows) for rows in kept]).with_hold(hold)
    if sigma is None:
        return fewer, None
    return fewer, [error[rows] for error, rows in zip(sigma, kept, strict=True)]


def _with_every_state(trajectories: Trajectories, kept: Sequence[np.ndarray]) -> Trajectories:
    used = [k for k, rows in enumerate(kept) if rows.any()]
    if not used:
        raise ValueError("expected samples of all states that are near each other in time, got none.")
    return trajectories[used].select_samples([np.flatnonzero(kept[k]) for k in used])


def errors_of_pairs(whole: Completed) -> Known | None:
    """The errors of trajectories of two and more samples, which searches see."""
    if whole.errors is None or isinstance(whole.errors, Noise):
        return whole.errors
    return [error for error in whole.errors if len(error) >= 2]


def _usual_gaps(pairs: Sequence[tuple[np.ndarray, np.ndarray]], seen: Sequence[np.ndarray]) -> list[float]:
    """Median time between two values of each state."""
    usual = []
    for j in range(seen[0].shape[1]):
        gaps = np.concatenate([np.diff(t[mask[:, j]]) for (t, _), mask in zip(pairs, seen, strict=True)])
        usual.append(float(np.median(gaps)) if len(gaps) else 0.0)
    return usual


def _filled(
    t: np.ndarray, x: np.ndarray, seen: np.ndarray, usual: Sequence[float], alone: np.ndarray
) -> np.ndarray:
    """Values (n, d) with those that were not observed estimated, where they are between near ones.

    Rows (n,) of inputs alone are kept in any case, in long gaps on lines, as no fit counts their states.
    """
    near = seen.copy()
    for j, rows_seen in enumerate(seen.T):
        at = t[rows_seen]
        if len(at) < FEWEST:
            continue
        behind = np.searchsorted(at, t)  # number of the next value
        before, after = at[np.maximum(behind - 1, 0)], at[np.minimum(behind, len(at) - 1)]
        between = (behind > 0) & (behind < len(at)) & (after - before <= _BRIDGED * usual[j])
        beside = np.minimum(np.abs(t - before), np.abs(t - after)) <= _BEYOND * usual[j]
        near[~rows_seen & (between | beside), j] = True
    zero = np.where(seen, x, 0.0)
    # In units in which powers of gaps are numbers; a power of two changes no digit.
    unit = 2.0 ** np.frexp(t[-1] - t[0])[1]
    states, _ = smoothed_between(TIME_AWARE[-1], (t - t[0]) / unit, zero, seen, float((t[-1] - t[0]) / unit))
    filled = np.where(seen, x, np.where(near, states, np.nan))
    for column, rows_seen in zip(filled.T, seen.T, strict=True):
        missing = alone & np.isnan(column)
        if rows_seen.any():
            column[missing] = np.interp(t[missing], t[rows_seen], column[rows_seen])
    return filled


def smoothed_between(
    smoother: Smoother, t: np.ndarray, z: np.ndarray, known: np.ndarray, span: float
) -> tuple[np.ndarray, np.ndarray]:
    """States and slopes (n, d) at all times, each state smoothed by its own known samples.

    Between these it is the cubic through their smoothed states and slopes, before the first and behind the
    last a line. A state with fewer than `FEWEST` known samples is smoothed by all values.

    Parameters
    ----------
    smoother : Smoother
        Sees the known samples of one state at a time.
    t, z : arrays (n,), (n, d)
        Times and values.
    known : bool array (n, d)
        Which values the smoother sees.
    span : float
        See `Smoother`.
    """
    from scipy.interpolate import CubicHermiteSpline  # deferred: few records have gaps

    if known.all():
        return smoother(t, z, span=span)
    states, slopes = np.empty_like(z), np.empty_like(z)
    for j, rows_seen in enumerate(known.T):
        rows = np.flatnonzero(rows_seen) if rows_seen.sum() >= FEWEST else np.arange(len(t))
        at = t[rows]
        (values,), (rates,) = (
            part.T for part in smoother(at - at[0], np.ascontiguousarray(z[rows, j : j + 1]), span=span)
        )
        if len(at) < 2:
            states[:, j], slopes[:, j] = z[:, j], 0.0
            continue
        curve = CubicHermiteSpline(at, values, rates)
        inside = np.clip(t, at[0], at[-1])
        slopes[:, j] = curve(inside, 1)
        states[:, j] = curve(inside) + slopes[:, j] * (t - inside)
        states[rows, j], slopes[rows, j] = values, rates
    return states, slopes
