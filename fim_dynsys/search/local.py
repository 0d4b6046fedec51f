"""Locally linear fields, chosen by the trajectories that were kept from them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.inference import NOTHING_KNOWN, Inference
from fim_dynsys.fields.local import LocalField
from fim_dynsys.regression.observed import STEP_LIMIT, Observations
from fim_dynsys.regression.rollout import runge_kutta
from fim_dynsys.trajectories.container import Trajectories

Rates = Callable[[np.ndarray], np.ndarray]

FEWEST = 3
"""Trajectories below which none is kept from a fit."""

_FOLDS = 6  # of cross-validation by trajectories, or by pieces of one
_MOST_SAMPLES = 1000  # what a field evaluates is linear in them
_WIDTHS = (0.2, 0.3, 0.45, 0.6)  # standard deviations of the slowest state
_RATES = (1.0, 4.0, 8.0)  # in units of the pace
_RIDGES = (0.01, 0.1)  # squared standard deviations of the slowest state
_FINER = ((1.5, 2.0, 4.0), (1.5**0.5, 2.0**0.5, 2.0))  # factors by which each is changed, then less
_MOVES = 6  # at most, by factors of each size
_GAIN = 0.98  # of the error, that is left by a change that helps
_BOUND = 1e3  # scales of the data: a path beyond is lost
_CLEAR = 2.0  # standard errors


@dataclass(frozen=True)
class Smoothing:
    """How a `LocalField` smooths: in standard deviations and units of pace.

    Attributes
    ----------
    width : float
        Of the slowest state; one that moves faster counts less, by the ratio of their times.
    rate : float
        See `LocalField`.
    ridge : float
        Squared, in the unit of ``width``.
    """

    width: float
    rate: float
    ridge: float

    def beside(self, factors: tuple[float, ...]) -> "list[Smoothing]":
        """Those of which one number is larger or smaller by its factor."""
        numbers = self.width, self.rate, self.ridge
        return [
            Smoothing(*(value * factors[k] ** sign if i == k else value for i, value in enumerate(numbers)))
            for k in range(len(numbers))
            for sign in (-1, 1)
        ]


SMOOTHINGS = tuple(Smoothing(*values) for values in product(_WIDTHS, _RATES, _RIDGES))
"""What is tried first; the best is then changed as long as that helps."""


@dataclass(frozen=True, eq=False)
class LocalFit:
    """A smoothing with what it predicts of trajectories that it was not given.

    Attributes
    ----------
    observations : Observations
    smoothing : Smoothing
    errors : array (P,)
        Of each piece predicted from its first state, see `errors_of`.
    """

    observations: Observations
    smoothing: Smoothing
    errors: np.ndarray

    def field(
        self, trajectories: Trajectories, report: dict, inference: Inference = NOTHING_KNOWN
    ) -> LocalField:
        """The field of all samples, in the units of the trajectories.

        Parameters
        ----------
        trajectories : Trajectories
            Context of the field.
        report, inference
            For ``field.fit_info``.
        """
        return self._field(np.arange(len(self.errors)), trajectories, report, inference)

    def draws(self, n: int, trajectories: Trajectories, rng: np.random.Generator) -> list[LocalField]:
        """Fields of n bootstrap resamples of the pieces, smoothed alike."""
        pieces = len(self.errors)
        return [self._field(np.sort(rng.integers(0, pieces, pieces)), trajectories, {}) for _ in range(n)]

    def _field(
        self,
        pieces: np.ndarray,
        trajectories: Trajectories,
        report: dict,
        inference: Inference = NOTHING_KNOWN,
    ) -> LocalField:
        seen = self.observations
        fitted = _local(seen, self.smoothing, pieces)
        info = FitInfo(noise_level=seen.noise_level, report=report, inference=inference)
        return LocalField(
            fitted.states * seen.scale,
            fitted.slopes * seen.scale / seen.time_unit,
            fitted.lengths * seen.scale,
            fitted.ridge,
            fitted.rate / seen.time_unit,
            context=trajectories,
            fit_info=info,
        )


def fit_local(observations: Observations) -> LocalFit:
    """The smoothing whose fields best predict trajectories from which they were not made.

    Parameters
    ----------
    observations : Observations
        Of three trajectories or more.

    Raises
    ------
    ValueError
        If there are fewer.
    """

    @cache
    def tried(smoothing: Smoothing) -> LocalFit:
        errors = unseen_errors(observations, lambda pieces: _local(observations, smoothing, pieces)._rhs)
        return LocalFit(observations, smoothing, errors)

    def missed(smoothing: Smoothing) -> float:
        return float(tried(smoothing).errors.mean())

    best = min(SMOOTHINGS, key=missed)
    for factors in _FINER:
        for _ in range(_MOVES):
            near = min(best.beside(factors), key=missed)
            if not missed(near) < _GAIN * missed(best):
                break
            best = near
    return tried(best)


def unseen_errors(observations: Observations, fitted: Callable[[np.ndarray], Rates]) -> np.ndarray:
    """Errors (P,) of all pieces by fields that have not seen their trajectories, see `errors_of`.

    Parameters
    ----------
    observations : Observations
        Of three trajectories or more.
    fitted : callable
        Rates of change by a fit to some pieces, given their numbers (p,).

    Raises
    ------
    ValueError
        If there are fewer.
    """
    of = trajectories_of(observations)
    names = np.unique(of)
    if len(names) < FEWEST:
        raise ValueError(
            f"fit_local: expected at least {FEWEST} trajectories, to keep some out, got {len(names)}; "
            "give more."
        )
    count = min(_FOLDS, len(names))
    errors = np.zeros(len(of))
    for fold in range(count):
        held_out = np.isin(of, names[fold::count])
        rates = fitted(np.flatnonzero(~held_out))
        errors[held_out] = errors_of(rates, observations, np.flatnonzero(held_out))
    return errors


def trajectories_of(observations: Observations) -> np.ndarray:
    """Number of the trajectory (P,) to which each piece belongs."""
    return np.array([trajectory for trajectory, _ in observations.origin])


def errors_of(rates: Rates, observations: Observations, pieces: np.ndarray) -> np.ndarray:
    """Mean squared errors (p,) of pieces integrated from their first smoothed states, in variances.

    States weigh by the square of their times: those that move fast are lost first, whatever the field. The
    rates of change are in the units of the observations. The classical Runge-Kutta method takes steps of
    about `STEP_LIMIT`, over several samples where these are close.
    """
    gaps = np.concatenate([np.diff(t) for t, _ in observations.samples])
    stride = max(1, int(STEP_LIMIT / np.median(gaps)))
    t, z = observations.t[pieces, ::stride], observations.z[pieces, ::stride]
    weights = observations.weights[pieces, ::stride]
    x, path = observations.start[pieces], [observations.start[pieces]]
    for gap in np.diff(t, axis=1).T:
        count = max(1, int(np.ceil(gap.max() / STEP_LIMIT - 0.5)))
        h = (gap / count)[:, None]
        for _ in range(count):
            x = np.clip(runge_kutta(rates, x, h), -_BOUND, _BOUND)
        path.append(x)
    squares = (np.stack(path, axis=1) - z) ** 2 / np.maximum(observations.signal_variance, 1e-300)
    errors = np.sum(weights * squares, axis=1) / np.sum(weights, axis=1)
    return np.average(errors, axis=1, weights=_times(observations)[1] ** 2)


def clearly_better(errors: np.ndarray, others: np.ndarray) -> bool:
    """Whether errors (P,) of pieces are smaller than others by two standard errors.

    Errors above the variance count as that: how badly a piece is missed tells nothing.
    """
    gains = np.minimum(others, 1.0) - np.minimum(errors, 1.0)
    return bool(gains.mean() > _CLEAR * gains.std(ddof=1) / np.sqrt(len(gains)))


def _times(observations: Observations) -> tuple[np.ndarray, np.ndarray]:
    """Standard deviation (d,) of each state, and the time in which it travels that, the longest being 1."""
    states, slopes = (np.concatenate(part) for part in zip(*observations.splines, strict=True))
    spread, speed = states.std(axis=0), slopes.std(axis=0)
    moves = (spread > 0) & (speed > 0)
    times = np.where(moves, spread, 1.0) / np.where(moves, speed, 1.0)
    times = np.where(moves, times, times[moves].max(initial=0.0) or 1.0)
    return np.where(moves, spread, 1.0), times / times.max()


def _local(observations: Observations, smoothing: Smoothing, pieces: np.ndarray) -> LocalField:
    """The field of some pieces, in the units of the observations."""
    spread, times = _times(observations)
    lengths = smoothing.width * spread / times
    kept = [observations.splines[k] for k in pieces]
    states, slopes = (np.concatenate(part) for part in zip(*kept, strict=True))
    stride = -(-len(states) // _MOST_SAMPLES)
    ridge = smoothing.ridge / smoothing.width**2
    return LocalField(states[::stride], slopes[::stride], lengths, ridge, smoothing.rate)
