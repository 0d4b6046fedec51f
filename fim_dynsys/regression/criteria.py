"""Level and distribution of the noise of observations, and criteria that weigh fit against complexity."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.fields.inference import Noise

ADDITIVE_SHARES = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Shares of constant variance among which `noise_model` chooses."""

INTERPOLATION_SHARES = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Mean squared interpolation errors, in noise variances, among which `noise_model` chooses."""

UNEVEN = 2.0
"""Ratio of squared interpolation errors from which `noise_model` tells them from noise."""

_NOISE_FREE = 0.02
"""Of a coordinate's standard deviation: noise beyond it is no small one, see `looks_noise_free`."""

_MOTION = 2.5
"""Times as much missed by cubics through every other sample: 1 for noise."""

NORMAL = 1.4826
"""Standard deviations in the median of absolute normal deviations."""

VARIANCE_FLOOR = 1e-5
"""Floor of residual variances in `bic`, as a fraction of the signal's variance."""

_FAST, _FAR, _NOISY = 2.5, 0.5, 4.0
"""Times the usual speed, standard deviations and noise levels from a sample to the next: a transient."""
_ROUNDS = 4  # of the usual speed: spikes have most of its mean square
_SMOOTH = 0.2  # of the samples, at least: where more are beside kinks, too few would say what the noise is
_CALM = 0.5  # of the samples, at least: where more are in transients, these are the motion


Known = Sequence[np.ndarray] | Noise
"""Errors (n, d) of the samples of each trajectory as they are known, or that these are counts.

Of values that were not observed they are inf, where they are not known nan.
"""

_PRECISE = 5.0  # typical errors
_DECADE = 10.0  # largest by smallest value from which logarithms are smoother than values
_IN_PROPORTION = 0.3  # of the spread of the logarithms of the values: that of errors in proportion to these
_RELATIVE = 0.2  # of a value's distance from the median: a larger error tells little of it


def precise(errors: Sequence[np.ndarray], values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Which samples have errors of at most five times the typical one of their state, or small for these.

    The latter are at most a fifth of the distance of the value from the median: where errors are relative,
    large values have large ones. Among the samples are those whose errors are not known, or that were not
    observed.

    Parameters
    ----------
    errors, values : list of arrays (n, d)
        Of each trajectory.
    """
    every = np.concatenate(errors)
    known = np.isfinite(every)
    if known.all():
        most = _PRECISE * np.median(every, axis=0)
    else:
        columns = zip(every.T, known.T, strict=True)
        most = _PRECISE * np.array(
            [np.median(column[rows]) if rows.any() else np.inf for column, rows in columns]
        )
    middle = np.nanmedian(np.concatenate(values), axis=0)
    return [
        ~np.isfinite(error) | (error <= np.maximum(most, _RELATIVE * np.abs(x - middle)))
        for error, x in zip(errors, values, strict=True)
    ]


def in_proportion(errors: np.ndarray, values: np.ndarray) -> bool:
    """Whether the errors (n,) of a state are in proportion to its values (n,), which are over decades."""
    if not (values > 0.0).all() or values.max() < _DECADE * values.min():
        return False
    with np.errstate(all="ignore"):
        return bool(np.std(np.log(errors / values)) < _IN_PROPORTION * np.std(np.log(values)))


def equal_errors(known: Known | None) -> bool:
    """Whether samples are not known to be of different precision."""
    if known is None or isinstance(known, Noise):
        return known is None
    errors = np.concatenate(known)
    return bool((errors == errors[0]).all())


@dataclass(frozen=True)
class NoiseModel:
    """Noise variance ``level^2 * (share + (1 - share) * (x / rms)^2)`` per coordinate.

    Attributes
    ----------
    level : array (d,)
        Standard deviation where ``|x| = rms``, in units of the state.
    share : array (d,)
        1 for additive noise, towards 0 for multiplicative noise.
    rms : array (d,)
        Root mean square of the observations.
    """

    level: np.ndarray
    share: np.ndarray
    rms: np.ndarray

    def relative_variance(self, x: ArrayLike) -> np.ndarray:
        """Variance at states ``x`` (..., d) divided by ``level^2``."""
        return self.share + (1.0 - self.share) * (np.asarray(x) / self.rms) ** 2

    def weights(self, x: ArrayLike) -> np.ndarray:
        """Inverse relative variances at states ``x`` (..., d)."""
        return 1.0 / self.relative_variance(x)


def pseudo_residuals(t: ArrayLike, x: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Observation minus the cubic through its four neighbours, scaled to the variance of one observation.

    Gasser, Sroka & Jennen-Steinmetz 1986 (Biometrika 73, 625), with a cubic in place of a line.

    Parameters
    ----------
    t : array (n,)
        Increasing times, n >= 5.
    x : array (n, d)
        Observations.

    Returns
    -------
    residuals : array (n - 4, d)
        For samples 2 ... n - 3.
    errors : array (n - 4,)
        What a fourth derivative of 4! adds to each residual: the product of the four gaps, scaled likewise.
    """
    t, x = np.asarray(t, float), np.asarray(x, float)
    if len(t) < 5:
        raise ValueError(f"pseudo_residuals: expected at least 5 samples, got {len(t)}.")
    offsets = np.array([-2, -1, 1, 2])
    centre = np.arange(2, len(t) - 2)
    nodes = t[centre[:, None] + offsets] - t[centre][:, None]
    lagrange = np.ones_like(nodes)
    for i in range(4):
        for j in range(4):
            if i != j:
                lagrange[:, i] *= -nodes[:, j] / (nodes[:, i] - nodes[:, j])
    interpolated = np.einsum("nk,nkd->nd", lagrange, x[centre[:, None] + offsets])
    unit = np.sqrt(1.0 + np.sum(lagrange**2, axis=1))
    return (x[centre] - interpolated) / unit[:, None], np.prod(nodes, axis=1) / unit


def noise_model(
    trajectories: Sequence[tuple[np.ndarray, np.ndarray]], kinks: Sequence[np.ndarray] | None = None
) -> NoiseModel:
    """Level and distribution of the noise from pseudo-residuals, by likelihood.

    A pseudo-residual is noise and the error of the cubic, which is taken for normal with a standard deviation
    in proportion to the product of the four gaps. Where gaps differ, the two are distinguished; otherwise
    noise is overestimated where samples are few for the motion between them. An error is assumed where
    it gains more than the logarithm of the number of residuals in twice the log-likelihood. Residuals beside
    fast transients, such as the jumps of a relaxation oscillation, say nothing of the noise and are left out,
    and so are those across a kink.

    Parameters
    ----------
    trajectories : list of (t (n,), x (n, d))
        Complete samples; ones with fewer than 9 samples say nothing and are left out.
    kinks : list of arrays (n,) of bool, optional
        Samples at which rates jump, since an input does; default: none.

    Returns
    -------
    NoiseModel
        The likeliest of `ADDITIVE_SHARES` and `INTERPOLATION_SHARES`; with level 0 where no trajectory is
        long enough.
    """
    d = trajectories[0][1].shape[1]
    rms = np.sqrt(np.mean(np.concatenate([x for _, x in trajectories]) ** 2, axis=0))
    rms = np.where(rms > 0, rms, 1.0)
    long_enough = [(t, x) for t, x in trajectories if len(t) >= 9]
    if not long_enough:
        return NoiseModel(np.zeros(d), np.ones(d), rms)
    residuals, errors = map(
        np.concatenate, zip(*[pseudo_residuals(t, x) for t, x in long_enough], strict=True)
    )
    # the middle of the five samples stands for the unknown state; their mean square is steadier near zero
    local = np.concatenate([_moving_mean_square(x) for _, x in long_enough])
    shares = np.array(ADDITIVE_SHARES)[:, None, None]
    of_states = shares + (1.0 - shares) * local / rms**2
    squares = (errors**2 / np.mean(errors**2))[:, None]
    uneven = squares.max() >= UNEVEN * squares.min()
    typical = NORMAL * np.median(np.abs(residuals), axis=0)
    calm = ~np.concatenate([_in_transients(t, x, typical) for t, x in long_enough])
    calm |= calm.mean(axis=0) < _CALM
    if kinks is not None:
        across = [k[1:-3] | k[2:-2] | k[3:-1] for k in kinks if len(k) >= 9]
        smooth = calm & ~np.concatenate(across)[:, None]
        calm = np.where(smooth.mean(axis=0) < _SMOOTH, calm, smooth)
    n = calm.sum(axis=0)
    levels, deviances = [], []
    for interpolation in INTERPOLATION_SHARES if uneven else INTERPOLATION_SHARES[:1]:
        relative = of_states + interpolation * squares
        level2 = np.sum(calm * residuals**2 / relative, axis=1) / n
        deviance = n * np.log(np.maximum(level2, 1e-300)) + np.sum(calm * np.log(relative), axis=1)
        # the feet of jumps look like relative noise: it is assumed where it gains enough, too
        deviance[1:] += np.where(n < len(residuals), math.log(len(residuals)), 0.0)
        levels.append(level2)
        deviances.append(deviance + (math.log(len(residuals)) if interpolation else 0.0))
    best = np.argmin(np.concatenate(deviances), axis=0)
    level = np.sqrt(np.concatenate(levels)[best, np.arange(d)])
    return NoiseModel(level, np.array(ADDITIVE_SHARES)[best % len(ADDITIVE_SHARES)], rms)


def _in_transients(t: np.ndarray, x: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Which pseudo-residuals (n - 4, d) are of samples among which a state moves far faster than usual.

    ``level`` (d,) is what noise may add to each of two samples.
    """
    spread = np.maximum(np.std(x, axis=0), 1e-300)
    gaps, moved = np.diff(t)[:, None], np.abs(np.diff(x, axis=0)) / spread
    far = moved > _FAR + _NOISY * level / spread
    fast = np.zeros(moved.shape, dtype=bool)
    for _ in range(_ROUNDS):
        usual = np.sum(~fast * moved**2, axis=0) / np.sum(~fast * gaps**2, axis=0)
        fast = far & (moved > _FAST * np.sqrt(usual) * gaps)
    return np.any([fast[k : len(x) - 4 + k] for k in range(4)], axis=0)


def looks_noise_free(trajectories: Sequence[tuple[np.ndarray, np.ndarray]]) -> bool:
    """Whether the samples may be nearly without noise: what cubics miss is little, or mostly motion.

    Cubics through every other sample miss as much noise as those through all samples, but up to sixteen times
    as much of the motion between them.

    Parameters
    ----------
    trajectories : list of (t (n,), x (n, d))
        Complete samples; ones with fewer than 18 samples say nothing and are left out.

    Returns
    -------
    bool
        False where no trajectory is long enough.
    """
    long_enough = [(t, x) for t, x in trajectories if len(t) >= 18]
    if not long_enough:
        return False
    missed, missed_by_half = (
        np.median(np.abs(np.concatenate([pseudo_residuals(t, x)[0] for t, x in samples])), axis=0)
        for samples in (long_enough, [(t[k::2], x[k::2]) for t, x in long_enough for k in (0, 1)])
    )
    little = NORMAL * missed <= _NOISE_FREE * np.std(np.concatenate([x for _, x in trajectories]), axis=0)
    return bool((little | (missed_by_half > _MOTION * missed)).all())


def _moving_mean_square(x: np.ndarray) -> np.ndarray:
    return np.mean([x[k : len(x) - 4 + k] ** 2 for k in range(5)], axis=0)


def autocorrelation(residuals: np.ndarray) -> np.ndarray:
    """Autocorrelation (d,) of residuals (n, d) at the first lag; 0 for those that are all equal."""
    residuals = residuals - residuals.mean(axis=0)
    return np.sum(residuals[1:] * residuals[:-1], axis=0) / np.maximum(np.sum(residuals**2, axis=0), 1e-300)


def bic(
    residual_variance: ArrayLike,
    n: int | np.ndarray,
    active: int | np.ndarray,
    signal_variance: ArrayLike,
    n_starts: int = 1,
    floor: float = VARIANCE_FLOOR,
) -> np.ndarray:
    """Bayesian information criterion of a trajectory fit, lower is better (Schwarz 1978).

    ``sum_i n_i log(max(variance_i, floor * signal_i)) + k log(N) N / (N - k - 1)`` of N values and
    ``k = active + n_starts * d`` numbers; the floor keeps noise-free data from rewarding digits that the
    integration does not have, the last factor few samples from being interpolated (as in the AIC of
    C. M. Hurvich, C.-L. Tsai, Biometrika 76 (1989) 297).

    Parameters
    ----------
    residual_variance : array (..., d)
        Mean squared (weighted) residual of each coordinate.
    n : int or array (d,)
        Observations of each coordinate.
    active : int or array (...)
        Number of coefficients that are not zero.
    signal_variance : array (d,)
        Variance of each coordinate, with the same weights.
    n_starts : int
        Initial states fitted.
    floor : float
        See above.

    Returns
    -------
    array (...)
        ``inf`` where a residual variance is not finite.
    """
    variance = np.asarray(residual_variance, float)
    d = variance.shape[-1]
    n = np.broadcast_to(n, (d,))
    floored = np.maximum(variance, floor * np.asarray(signal_variance))
    misfit = np.sum(n * np.log(np.maximum(floored, 1e-300)), axis=-1)
    values, numbers = float(n.sum()), np.asarray(active) + n_starts * d
    with np.errstate(divide="ignore"):
        few = np.where(values > numbers + 1.0, values / (values - numbers - 1.0), np.inf)
    penalty = np.where(numbers > 0, numbers * few, 0.0) * math.log(max(values, 2.0))
    return np.where(np.isfinite(variance).all(axis=-1), misfit + penalty, np.inf)
