"""Times at which inputs are known and no state is: those that fits follow."""

from collections.abc import Sequence

import numpy as np

from fim_dynsys.regression.inputs import at, breaks, curves, held_as
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.holding import Hold

_MISSED = 1e-5  # standard deviations of an input by which neighbours may miss a row that is left out
_MOST = 10  # rows for each sample of the states, which bounds the cost of fits
_LEAST = 1000  # rows that are always affordable


def followed(trajectories: Trajectories) -> tuple[list[np.ndarray], Hold]:
    """Which rows of trajectories fits need, and what inputs do between them.

    Rows without any state are left out where the inputs of the others say what is there, and before the first
    and behind the last with a state. Of rows that are too many, those that matter least are left out.

    Parameters
    ----------
    trajectories : Trajectories
        With inputs; rows of inputs alone have NaN for all states.

    Returns
    -------
    list of bool arrays (n,)
        Of each trajectory; all rows of trajectories without any state.
    Hold
        Between all rows, as it may not be recognised from a part of them.
    """
    pairs, inputs = trajectories.arrays(), trajectories.input_arrays()
    kept, kinds = [], set[Hold]()
    for (t, x), u in zip(pairs, inputs, strict=True):
        rows = np.isfinite(x).any(axis=1)
        first, last = np.flatnonzero(rows)[[0, -1]] if rows.any() else (0, len(t) - 1)
        if rows[first : last + 1].all() or len(t) < 2:
            kept.append(rows if rows.any() else ~rows)
            continue
        own = held_as(t, u, trajectories.hold)
        needed = _needed(t, u, rows, own)
        if len(set(own)) > 1 and held_as(t[needed], u[needed], trajectories.hold) != own:
            needed[first : last + 1] = True
        kinds.update(own)
        kept.append(needed)
    return kept, kinds.pop() if len(kinds) == 1 else trajectories.hold


def _needed(t: np.ndarray, u: np.ndarray, states: np.ndarray, kinds: Sequence[Hold]) -> np.ndarray:
    """Rows with states, and between them those that the inputs (n, m) need to be followed."""
    rows = states.copy()
    first, last = np.flatnonzero(states)[[0, -1]]
    inside = np.arange(first, last + 1)
    for values in (u[:, j] for j, kind in enumerate(kinds) if kind == Hold.PIECES):
        sides = np.flatnonzero(breaks(t, values))
        rows[np.concatenate([sides - 1, sides])] = True
    rows[:first] = rows[last + 1 :] = False
    limit = max(_LEAST, _MOST * int(states.sum()))
    spread = np.maximum(np.std(u[inside], axis=0), 1e-300)
    while rows.sum() < limit:
        known = np.flatnonzero(rows)
        behind = np.clip(np.searchsorted(known, inside, side="right"), 1, len(known) - 1)
        begun, ended = known[behind - 1], known[behind]
        part = (t[inside] - t[begun]) / (t[ended] - t[begun])
        missed = np.zeros(len(inside))
        for j, kind in enumerate(kinds):
            cubics = curves(t[known], u[known, j : j + 1], kind).cubics[behind - 1]
            missed = np.maximum(missed, np.abs(at(cubics, part)[:, 0] - u[inside, j]) / spread[j])
        missed[rows[inside]] = 0.0
        worst = np.flatnonzero(missed > _MISSED)
        if not len(worst):
            break
        # of each interval between known rows the worst one, and of intervals the worst while there is room
        order = worst[np.argsort(-missed[worst], kind="stable")]
        _, of_interval = np.unique(behind[order], return_index=True)
        chosen = order[np.sort(of_interval)[: limit - int(rows.sum())]]
        rows[inside[chosen]] = True
    return rows
