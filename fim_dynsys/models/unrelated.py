"""Records that no autonomous flow explains: samples, or steps between them, that are unrelated."""

from collections.abc import Sequence

import numpy as np

from fim_dynsys.regression.criteria import autocorrelation

_FEWEST, _FEWEST_PAIRS, _FEWEST_STEPS = 12, 20, 30  # samples below which nothing is said of each kind
_UNRELATED = 0.5  # half the mean squared step over the variance: 1 where samples are independent, 0 if smooth
_DEVIATIONS = 2.0  # of that ratio, 1/sqrt(n) for independent samples, that it may be below 1
_DETERMINED = (
    0.25  # the same for steps between the followers of neighbours: 0 where one sample fixes the next
)
_AT_REST = 10.0  # standard deviations of the mean from zero: a state at rest, measured with errors
_STILL = 1e-9  # of its size: a state that varies less does not move
_BEYOND_CHANCE = 3.3  # standard deviations of a correlation: one of a thousand of unrelated steps has more
_LAGS = 5  # at which steps are compared
_CHANCE = 20.5  # 99.9 % quantile of chi-squared with as many degrees of freedom


def unrelated_samples(samples: Sequence[np.ndarray]) -> str | None:
    """Why samples next to each other cannot be of one path; None where they may be.

    To be asked where a field explains nothing: samples that are far apart for the motion between them are
    unrelated, too, and some fields follow these.

    Parameters
    ----------
    samples : list of arrays (n, d)
        Of each trajectory, in the order of time.

    Returns
    -------
    str or None
        None for a state whose mean is ten or more standard deviations, too: that is a state at rest with
        measurement errors, unless each sample determines the next.

    References
    ----------
    J. von Neumann, Distribution of the ratio of the mean square successive difference to the variance, Annals
    of Mathematical Statistics 12 (1941), 367.
    """
    every = np.concatenate(samples)
    spread = every.std(axis=0)
    moves = spread > _STILL * np.abs(every).max(axis=0)
    n = len(every)
    if n < _FEWEST or not moves.any():
        return None
    scaled = [x[:, moves] / spread[moves] for x in samples]
    ratio = _half_squares(np.concatenate([np.diff(x, axis=0) for x in scaled]))
    if not (ratio > max(_UNRELATED, 1.0 - _DEVIATIONS / np.sqrt(n))).all():
        return None
    said = "samples next to each other are unrelated: their differences are as large as the spread of all"
    if n >= _FEWEST_PAIRS and (_left_of_the_next(scaled) < _DETERMINED).all():
        return f"{said}, yet each determines the next (a map, or a record sampled too seldom?)"
    if (np.abs(every.mean(axis=0))[moves] > _AT_REST * spread[moves]).any():
        return None
    return f"{said} (noise alone, a noisy map, or a record sampled too seldom?)"


def unrelated_steps(samples: Sequence[np.ndarray]) -> str | None:
    """Why a record looks like a random walk; None where its steps are related.

    Steps along a path are related to the next ones, and so are those of measurement errors, of which each
    enters two steps; steps of noise that acts on the state itself are not.

    Parameters
    ----------
    samples : list of arrays (n, d)
        Of each trajectory, in the order of time.

    References
    ----------
    G. E. P. Box and D. A. Pierce, Distribution of residual autocorrelations in autoregressive-integrated
    moving average time series models, Journal of the American Statistical Association 65 (1970), 1509.
    """
    longest = max(samples, key=len)
    steps = np.diff(longest, axis=0)
    spread = longest.std(axis=0)
    if len(steps) < _FEWEST_STEPS or not (spread > 0).all():
        return None
    near = _half_squares(steps / spread) < _UNRELATED
    even = np.abs(autocorrelation(steps)) < _BEYOND_CHANCE / np.sqrt(len(steps))
    steps = steps - steps.mean(axis=0)
    total = np.sum(steps**2, axis=0)
    at_lags = [np.sum(steps[k:] * steps[:-k], axis=0) / total for k in range(1, _LAGS + 1)]
    unlike = len(steps) * np.sum(np.square(at_lags), axis=0) < _CHANCE
    if not (near & even & unlike).all():
        return None
    return (
        "steps from sample to sample are unrelated, as in a random walk (noise that moves the state itself?)"
    )


def _half_squares(steps: np.ndarray) -> np.ndarray:
    return 0.5 * np.mean(steps**2, axis=0)


def _left_of_the_next(scaled: Sequence[np.ndarray]) -> np.ndarray:
    """Half the mean squared difference (d,) of samples that follow on nearest neighbours."""
    from scipy.spatial import cKDTree  # deferred: a second to import

    now, following = (np.concatenate([x[rows] for x in scaled]) for rows in (slice(-1), slice(1, None)))
    nearest = cKDTree(now).query(now, k=2)[1][:, 1]
    return _half_squares(following - following[nearest])
