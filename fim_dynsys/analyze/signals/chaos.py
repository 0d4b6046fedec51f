"""zero_one_test and permutation_entropy: two numbers that tell chaos from order without an embedding."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.analyze.signals.embedding import embedded, first_minimum, mutual_information
from fim_dynsys.analyze.signals.records import records_of
from fim_dynsys.errors import check_flags, check_whole
from fim_dynsys.threads import on_one_thread
from fim_dynsys.trajectories.container import Trajectories

_MOST = 5000  # samples: the time grows with the square
FEWEST_APART = 300
"""Samples of the 0-1 test: of two incommensurate sines with 100 it calls 75 % chaotic, with 300 none."""
_LAGS = 500  # samples at which the mutual information is computed


@on_one_thread
def zero_one_test(
    data: Trajectories | ArrayLike,
    state: int | str = 0,
    *,
    every: int | None = None,
    n_frequencies: int = 100,
    seed: int = 0,
    resample: bool | float = False,
) -> float:
    """0-1 test for chaos: near 0 for regular motion, near 1 for chaos.

    The growth of the mean square displacement of a series that drives two translation variables is
    correlated with time, for many frequencies; the median is returned. Densely sampled flows look regular to
    it, so that only every k-th sample is taken.

    Parameters
    ----------
    data : Trajectories or array_like (n,) or (n, d)
        Evenly sampled; of several trajectories the mean, by their lengths.
    state : int or str
        Number or name of the state.
    every : int, optional
        Take every k-th sample; default the delay of `delay_embedding` for Trajectories, 1 for an array.
    n_frequencies : int
        Frequencies, drawn between pi / 5 and 4 pi / 5.
    seed : int
        Of the frequencies.
    resample : bool or float
        Whether to interpolate irregular times and missing values, or at which interval.

    Returns
    -------
    float
        NaN where no trajectory has 300 such samples: with fewer, regular motion passes for chaos.

    Raises
    ------
    ValueError
        For times that are not even.

    References
    ----------
    G. A. Gottwald, I. Melbourne, On the implementation of the 0-1 test for chaos, SIAM J. Appl. Dyn. Syst. 8
    (2009) 129, sections 2 and 3 (modified mean square displacement, correlation method).

    See Also
    --------
    lyapunov : For fields.

    Examples
    --------
    >>> x = np.empty(2000)
    >>> x[0] = 0.3
    >>> for k in range(1999):
    ...     x[k + 1] = 4 * x[k] * (1 - x[k])
    >>> zero_one_test(x) > 0.95, zero_one_test(np.sin(np.arange(2000))) < 0.05
    (True, True)
    """
    check_whole("zero_one_test", 1, every=1 if every is None else every, n_frequencies=n_frequencies)
    check_whole("zero_one_test", 0, seed=seed)
    records = records_of(data, "zero_one_test", resample)
    number = records.number(state, "zero_one_test")
    records.check_moving([number], "zero_one_test")
    series = records.state(number)
    if every is None:
        every = delay_of(series) if isinstance(data, Trajectories) else 1
    return zero_one(series, every, n_frequencies, seed)


def delay_of(series: Sequence[np.ndarray]) -> int:
    """Samples from one coordinate of a delay embedding to the next."""
    n_lags = min(_LAGS, max(2, min(map(len, series)) // 5))
    return first_minimum(mutual_information(series, n_lags), series)


def zero_one(series: Sequence[np.ndarray], every: int, n_frequencies: int = 100, seed: int = 0) -> float:
    """The test on series of one state; see `zero_one_test`."""
    frequencies = np.random.default_rng(seed).uniform(np.pi / 5, 4 * np.pi / 5, n_frequencies)
    parts = [x[::every][:_MOST] for x in series]
    parts = [x for x in parts if len(x) >= FEWEST_APART and np.ptp(x) > 0]
    if not parts:
        return float("nan")
    found = [np.median(_growth(x, frequencies)) for x in parts]
    return float(np.average(found, weights=[len(x) for x in parts]))


def _growth(x: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Correlation of the modified mean square displacement with time, for each frequency.

    The modification takes away the oscillation that the mean of the series causes. In records of finite
    length some of it stays, and exceeds the growth where the mean is large: the series is taken without it.
    """
    n, x = len(x), x - x.mean()
    lags = np.arange(1, n // 10 + 1)
    path = np.cumsum(x * np.exp(1j * np.outer(frequencies, np.arange(1, n + 1))), axis=1)
    kept = n - lags[-1]
    displacement = np.stack(
        [np.mean(np.abs(path[:, lag : kept + lag] - path[:, :kept]) ** 2, axis=1) for lag in lags], axis=1
    )
    off = lags - lags.mean()
    away = displacement - displacement.mean(axis=1, keepdims=True)
    size = np.sqrt(np.sum(away**2, axis=1) * np.sum(off**2))
    return away @ off / np.where(size > 0, size, 1.0)


@on_one_thread
def permutation_entropy(
    data: Trajectories | ArrayLike,
    state: int | str = 0,
    *,
    order: int = 5,
    delay: int = 1,
    normalised: bool = True,
    resample: bool | float = False,
) -> float:
    """Entropy of the orders in which successive samples rise and fall: 1 for white noise, small for a drift.

    Parameters
    ----------
    data : Trajectories or array_like (n,) or (n, d)
        Evenly sampled; several trajectories count together.
    state : int or str
        Number or name of the state.
    order : int
        Samples of a pattern, from 2 to 8.
    delay : int
        Samples from one of them to the next.
    normalised : bool
        Whether to divide by the entropy of equally frequent patterns; else in nats.
    resample : bool or float
        Whether to interpolate irregular times and missing values, or at which interval.

    Returns
    -------
    float
        NaN where no trajectory is longer than a pattern.

    Raises
    ------
    ValueError
        For times that are not even, or another order or delay.

    References
    ----------
    C. Bandt, B. Pompe, Permutation entropy: a natural complexity measure for time series, Phys. Rev. Lett.
    88 (2002) 174102.

    See Also
    --------
    measures : Of records, several at once.

    Examples
    --------
    >>> entropy = permutation_entropy([4, 7, 9, 10, 6, 11, 3], order=2, normalised=False)
    >>> float(round(entropy / np.log(2), 3))
    0.918
    """
    check_whole("permutation_entropy", 2, order=order)
    check_whole("permutation_entropy", 1, delay=delay)
    check_flags("permutation_entropy", normalised=normalised)
    if not 2 <= order <= 8 or delay < 1:
        raise ValueError(
            f"permutation_entropy: expected an order from 2 to 8 and a delay from 1 on, got {order}, {delay}."
        )
    records = records_of(data, "permutation_entropy", resample)
    found = patterns_entropy(records.state(records.number(state, "permutation_entropy")), order, delay)
    return found / math.log(math.factorial(order)) if normalised else found


def patterns_entropy(series: Sequence[np.ndarray], order: int, delay: int) -> float:
    """Entropy of ordinal patterns in nats; NaN without any."""
    windows = [embedded(x, delay, order) for x in series if len(x) > (order - 1) * delay]
    if not windows:
        return float("nan")
    ranks = np.argsort(np.concatenate(windows), axis=1, kind="stable")
    counts = np.unique(ranks @ order ** np.arange(order), return_counts=True)[1]
    share = counts / counts.sum()
    return float(-np.sum(share * np.log(share)))
