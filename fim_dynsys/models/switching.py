"""Inputs that switch between samples: paths then bend before the sample that shows the new value."""

from collections.abc import Sequence

import numpy as np

from fim_dynsys.regression.inputs import kinks
from fim_dynsys.trajectories.holding import Hold

_BESIDE, _DEGREE = 5, 2  # samples on each side of a switch, and the polynomials through them
_EARLY = 0.1  # of a gap: as much as the curvature of a path may look like
_SURE = 4.0  # standard errors


def early_switches(
    samples: Sequence[tuple[np.ndarray, np.ndarray]], inputs: Sequence[np.ndarray], hold: Hold
) -> float | None:
    """How long before the samples that show it held inputs switch, in the mean.

    Parabolas through the samples before and after a switch meet where it happens. Of all switches and states
    it is the weighted mean.

    Parameters
    ----------
    samples : list of pairs (n,), (n, d)
        Times and states, which may be NaN.
    inputs : list of arrays (n, m)
        At these times.
    hold : Hold
        Of the inputs.

    Returns
    -------
    float or None
        As a share of a gap; None where inputs switch at samples, or where too little is known.
    """
    jumps, bends, spreads, misses = [], [], [], []
    for (t, x), u in zip(samples, inputs, strict=True):
        for j in np.flatnonzero(kinks(t, u, hold)):
            sides = np.arange(j - _BESIDE, j), np.arange(j, j + _BESIDE)
            if sides[0][0] < 0 or sides[1][-1] >= len(t) or any((u[s] != u[s[-1]]).any() for s in sides):
                continue
            powers = [((t[s] - t[j]) / (t[j] - t[j - 1]))[:, None] ** np.arange(_DEGREE + 1) for s in sides]
            inverse = [np.linalg.pinv(one) for one in powers]
            before, after = (own @ x[s] for own, s in zip(inverse, sides, strict=True))
            jumps.append(after[0] - before[0])
            bends.append(after[1] - before[1])
            spreads.append([sum(float(np.sum(own[0] ** 2)) for own in inverse)])
            for s, one, fit in zip(sides, powers, (before, after), strict=True):
                misses.append(np.sum((x[s] - one @ fit) ** 2, axis=0) / (_BESIDE - _DEGREE - 1))
    if not jumps:
        return None
    jump, bend = np.array(jumps), np.array(bends)
    seen = np.isfinite(jump) & np.isfinite(bend)
    missed = np.where(np.isfinite(misses), misses, 0.0)
    noise = missed.sum(axis=0) / np.maximum(np.isfinite(misses).sum(axis=0), 1)
    weight = seen / (np.array(spreads) * np.maximum(noise, 1e-300))
    information = float(np.sum(weight * np.where(seen, bend, 0.0) ** 2))
    if not 0.0 < information < np.inf:
        return None
    early = float(np.sum(weight * np.where(seen, bend * jump, 0.0))) / information
    return early if early > max(_EARLY, _SURE / np.sqrt(information)) else None
