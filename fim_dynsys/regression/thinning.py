"""Long records as means of neighbouring samples: what a search over hundreds of thousands works with."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from fim_dynsys.trajectories.container import Trajectories

MANY = 20_000
"""Samples in all up to which nothing is changed, and to which more are thinned."""

_RESOLVED = 1e-3  # standard deviations of a state: how far the mean of samples may be off their path
_LEAST = 10  # means in a trajectory
_STRETCH = 1000  # samples kept together where only every so many can be kept

Samples = Sequence[tuple[np.ndarray, np.ndarray]]


def thin(samples: Samples) -> tuple[list[tuple[np.ndarray, np.ndarray]], list[tuple[int, int]]]:
    """Means of neighbouring samples where there are more than `MANY`; otherwise the samples themselves.

    Neighbours are averaged in groups of the largest size that is needed, halved until the means of all states
    are off their path by less than 0.1 % of the state's standard deviation (an oscillator keeps about forty
    in a turn); a trajectory keeps ten at least. Groups end at gaps longer than themselves. A mean stands at
    the mean of its times, the first of a trajectory is the value of a line through its group at the
    trajectory's first time. The noise's variance falls by the size of the groups, so hardly anything is lost.
    Where still more than `MANY` are left, because the motion is fast or the trajectories are short, evenly
    spaced stretches of at most a thousand samples are kept, the start of the first trajectory among them.

    Time and memory are linear in the number of samples: about six numbers for each state of each.

    Parameters
    ----------
    samples : list of (t (n,), x (n, d))
        Complete samples at increasing times, two or more in each.

    Returns
    -------
    samples : list of (t (n,), x (n, d))
    origin : list of (int, int)
        Trajectory and first sample of each.
    """
    whole = [(k, 0) for k in range(len(samples))]
    total = sum(len(t) for t, _ in samples)
    if total <= MANY:
        return list(samples), whole
    stacked = np.concatenate([x for _, x in samples])
    allowed = (24.0 * _RESOLVED) ** 2 * np.var(stacked, axis=0)
    size = -(-total // MANY)
    while size > 1 and (_squared_bend(samples, size) > allowed).any():
        size //= 2
    means = [_means(t, x, min(size, len(t) // _LEAST)) for t, x in samples]
    return stretches(means, MANY)


def thinned(trajectories: Trajectories) -> Trajectories:
    """Complete trajectories, where they have more than `MANY` samples those of `thin`."""
    arrays = [(t, x) for t, x in trajectories.arrays() if len(t) >= 2]
    if sum(len(t) for t, _ in arrays) <= MANY:
        return trajectories
    samples, _ = thin(arrays)
    return Trajectories.from_arrays(
        [x for _, x in samples], [t for t, _ in samples], state_names=list(trajectories.state_names)
    )


def stretches(
    samples: Samples, most: int
) -> tuple[list[tuple[np.ndarray, np.ndarray]], list[tuple[int, int]]]:
    """Evenly spaced stretches of at most a thousand samples, about ``most`` in all; all of fewer samples.

    Parameters
    ----------
    samples : list of (t (n,), x (n, d))
        Two or more in each.
    most : int
        Number of samples wanted.

    Returns
    -------
    samples : list of (t (n,), x (n, d))
    origin : list of (int, int)
        Trajectory and first sample of each.
    """
    every = -(-sum(len(t) for t, _ in samples) // most)
    if every <= 1:
        return list(samples), [(k, 0) for k in range(len(samples))]
    cut = [
        (k, a, b)
        for k, (t, _) in enumerate(samples)
        for a, b in pairwise(np.linspace(0, len(t), -(-len(t) // _STRETCH) + 1).astype(int).tolist())
    ]
    kept = cut[::every]
    return [(samples[k][0][a:b], samples[k][1][a:b]) for k, a, b in kept], [(k, a) for k, a, _ in kept]


def _group_starts(t: np.ndarray, size: int) -> np.ndarray:
    """First samples of groups of ``size`` at most, which end at gaps longer than they are."""
    gaps = np.diff(t)
    begins = np.concatenate([[True], gaps > size * np.median(gaps)])
    place = np.arange(len(t))
    within = place - np.maximum.accumulate(np.where(begins, place, 0))
    return np.flatnonzero(within % size == 0)


def _means(t: np.ndarray, x: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    if size <= 1:
        return t, x
    first = _group_starts(t, size)
    count = np.diff(first, append=len(t))
    times = np.add.reduceat(t - t[0], first) / count
    states = np.add.reduceat(x, first, axis=0) / count[:, None]
    elapsed = t[: count[0]] - t[0] - times[0]
    if count[0] > 1:
        states[0] -= times[0] * (elapsed @ x[: count[0]]) / (elapsed @ elapsed)
    times[0] = 0.0
    return t[0] + times, states


def _squared_bend(samples: Samples, size: int) -> np.ndarray:
    """Mean square (d,) of the second differences of means of ``size`` samples, without what noise adds.

    Samples are taken alternately into two means: the product of their differences is free of noise but for
    an error of the mean, of which two standard deviations are taken off.
    """
    total, squares, number = np.zeros(samples[0][1].shape[1]), 0.0, 0
    for t, x in samples:
        count = len(t) // size
        if count < 3:
            continue
        groups = x[: count * size].reshape(count, size, -1)
        even, odd = groups[:, ::2].mean(axis=1), groups[:, 1::2].mean(axis=1)
        unbroken = t[size - 1 : count * size : size] - t[: count * size : size]
        usual = 2.0 * np.median(unbroken)
        kept = (unbroken[:-2] < usual) & (unbroken[1:-1] < usual) & (unbroken[2:] < usual)
        product = np.diff(even, 2, axis=0) * np.diff(odd, 2, axis=0)
        total += product[kept].sum(axis=0)
        squares += np.sum(product[kept] ** 2, axis=0)
        number += int(kept.sum())
    error = np.sqrt(2.0 * squares)  # neighbouring differences share samples: twice the variance of a sum
    return (total - 2.0 * error) / max(number, 1)


def evenly(n: int, most: int) -> np.ndarray:
    """Places of all of n things, or of `most` evenly chosen ones with the first and the last.

    >>> evenly(9, 3).tolist()
    [0, 4, 8]
    """
    return np.round(np.linspace(0, n - 1, min(n, most))).astype(int)
