"""Inputs that switch between samples: paths then bend before the sample that shows the new value."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fim_dynsys.regression.inputs import kinks
from fim_dynsys.regression.thinning import evenly
from fim_dynsys.trajectories.holding import Hold

_BESIDE, _DEGREE = 5, 2  # samples on each side of a switch, and the polynomials through them
_EARLY = 0.1  # of a gap: as much as the curvature of a path may look like
_SURE = 3.0  # standard errors: 6 of 441 records that switch at samples pass it, of 451 others 266
_PASSED = 5.5  # variance of jumps by noise, in that of samples: of two such parabolas at the switch
_MEDIAN_SQUARE = 0.455  # of a standard normal number
_FEWEST = 5  # samples without a switch beside them, which show what bends otherwise
_MOST = 400  # of either, which take some 20 ms
_CALM, _WEIGHT = 0.5, 1.5  # of the usual variance, below which it is chance, and its power that weighs
_LEAST = 1e-150  # of squares: smaller ones leave no finite weight


def early_switches(
    samples: Sequence[tuple[np.ndarray, np.ndarray]], inputs: Sequence[np.ndarray], hold: Hold
) -> float | None:
    """How long before the samples that show it held inputs switch, in the mean.

    Parabolas through the samples before and after a switch meet where it happens. Of all switches and states
    it is the weighted mean. Noise, and paths that bend faster than parabolas, do the same at other samples,
    where the mean product of jump and bend is subtracted.

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
    places: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for k, ((t, _), u) in enumerate(zip(samples, inputs, strict=True)):
        switching = kinks(t, u, hold)
        if len(t) < 2 * _BESIDE:
            continue
        beside = np.convolve(switching, np.ones(2 * _BESIDE - 1), "same") - switching
        inner = np.arange(_BESIDE, len(t) - _BESIDE + 1)
        for rows, kind in zip(places, (True, False), strict=True):
            rows += [(k, j) for j in inner[(beside[inner] == 0) & (switching[inner] == kind)]]
    chosen: list[list[tuple[int, int]]] = [[own[i] for i in evenly(len(own), _MOST)] for own in places]
    switches, others = ([_meeting(*samples[k], j) for k, j in part] for part in chosen)
    if not switches or len(others) < _FEWEST:
        return None
    usual = np.median(np.nan_to_num([other.missed for other in others]), axis=0)
    (mixed, steep), (mixed_elsewhere, steep_elsewhere) = (
        _products(part, usual) for part in (switches, others)
    )
    information = steep.mean() - steep_elsewhere.mean()
    if not 0.0 < information < np.inf:
        return None
    early = (mixed.mean() - mixed_elsewhere.mean()) / information
    # Few switches may agree by chance: no less than jumps where nothing switches let expect.
    variance = max(np.var(mixed - early * steep), _by_other_jumps(switches, others, usual)) / len(mixed)
    # neighbours share samples, so that of the others every fifth counts
    variance += np.var(mixed_elsewhere - early * steep_elsewhere) * _BESIDE / len(mixed_elsewhere)
    return float(early) if early > max(_EARLY, _SURE * np.sqrt(variance) / information) else None


class _Meeting(NamedTuple):
    """How parabolas through the samples before and after one of them meet there."""

    jump: np.ndarray  # (d,) of the states, from the first to the second
    bend: np.ndarray  # (d,) of their slopes, in gaps
    missed: np.ndarray  # (d,) mean square by which samples miss the parabolas


def _meeting(t: np.ndarray, x: np.ndarray, j: int) -> _Meeting:
    sides = np.arange(j - _BESIDE, j), np.arange(j, j + _BESIDE)
    powers = [((t[s] - t[j]) / (t[j] - t[j - 1]))[:, None] ** np.arange(_DEGREE + 1) for s in sides]
    before, after = (np.linalg.pinv(one) @ x[s] for one, s in zip(powers, sides, strict=True))
    off = [x[s] - one @ fit for s, one, fit in zip(sides, powers, (before, after), strict=True)]
    missed = sum(np.sum(part**2, axis=0) for part in off) / (2.0 * (_BESIDE - _DEGREE - 1))
    return _Meeting(after[0] - before[0], after[1] - before[1], missed)


def _products(meetings: Sequence[_Meeting], usual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted products (k,) of jumps and bends, and squares of bends, summed over the states."""
    jump, bend, missed = (np.array(part) for part in zip(*meetings, strict=True))
    seen = np.isfinite(jump) & np.isfinite(bend)
    jump, bend, missed = (np.where(seen, part, 0.0) for part in (jump, bend, missed))
    weight = seen * _weights(missed, usual)
    return np.sum(weight * bend * jump, axis=1), np.sum(weight * bend**2, axis=1)


def _weights(missed: np.ndarray, usual: np.ndarray) -> np.ndarray:
    return np.maximum(np.maximum(missed, _CALM * usual), _LEAST) ** -_WEIGHT


def _by_other_jumps(switches: Sequence[_Meeting], others: Sequence[_Meeting], usual: np.ndarray) -> float:
    """Variance of products at switches if states jump there as elsewhere, by noise alone."""
    chance = np.nanmedian([other.jump**2 for other in others], axis=0) / _MEDIAN_SQUARE
    chance = np.minimum(chance, _PASSED * usual)  # paths that bend fast jump by more than noise
    bends = np.array([switch.bend for switch in switches])
    weights = _weights(np.array([switch.missed for switch in switches]), usual)
    return float(np.nansum((weights * bends) ** 2 * chance, axis=1).mean())
