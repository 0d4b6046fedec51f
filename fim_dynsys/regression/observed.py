"""Observations prepared for regression: smoothed, weighted by their noise, with a unit of time.

Longer than five hundred lines: it is one value, each property of which all fits read.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from fim_dynsys.regression.criteria import (
    VARIANCE_FLOOR,
    NoiseModel,
    in_proportion,
    looks_noise_free,
    noise_model,
    precise,
)
from fim_dynsys.regression.dimensionless import dimensionless
from fim_dynsys.regression.gaps import smoothed_between
from fim_dynsys.regression.inputs import Curves, Inputs, jumps, kinks
from fim_dynsys.regression.inputs import curves as interpolated
from fim_dynsys.regression.smoothing import TIME_AWARE, Smoother, smallest_gap
from fim_dynsys.regression.thinning import MANY, stretches, thin
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.holding import Hold

SPLINE = TIME_AWARE[-1]
"""Smoother whose states trajectory fits start from."""

STEP_LIMIT = 0.15
"""Longest Runge-Kutta step in units of the time in which the state travels one standard deviation."""

STEPS_PER_GAP = 64
"""Trajectories are cut where the next sample is farther away than this number of longest steps.

That is about one and a half turns of an oscillator: neither smoothing nor integration bridges more. It bounds
the steps of one integration by 64 times the number of samples.
"""

_UNEVEN = 10.0  # ratio of weights in a state, of errors that differ by more than three times
STEP_ERROR = 3e-4
"""Standard deviations of a state by which a Runge-Kutta step may err before shorter ones are taken.

Of the true fields of textbook systems this leaves paths within .3 %; few steps of `STEP_LIMIT` err by more.
"""

LEAST_COUNT = 0.5
"""Least count that is expected: below, a count of 0 and one of 1 were too different."""

_FAST, _FAR = 2.5, 0.5  # times the mean speed, and standard deviations from a sample to the next: a transient
_NOISY = 4.0  # noise levels of a difference that are no motion
_MISSED, _LEAST_MISSED = (
    5.0,
    5e-3,
)  # noise levels, and standard deviations, by which smoothing misses a sample
_OF_NOISE = ("level", "share", "rms")
_MAX_MONOMIALS = 84  # of degree 3 in up to six states, of degree 2 in up to eleven


@dataclass(frozen=True)
class Cut:
    """What windows are cut from.

    Attributes
    ----------
    whole : Observations
        Before the cut.
    bounds : tuple of (int, int, int)
        Of each window: its piece of the whole, first sample, and the one behind its last.
    """

    whole: "Observations"
    bounds: tuple[tuple[int, int, int], ...]

    def of(self, pieces: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The windows of what is given (n, ...) for each piece."""
        return [pieces[k][a:b] for k, a, b in self.bounds]


@dataclass(frozen=True)
class Observations:
    """Complete samples in units of their size and pace, as the search sees them.

    Attributes
    ----------
    samples : list of (t (n,), z (n, d))
        Scaled times and states of each piece, from time 0. Pieces are the trajectories, unless they have gaps
        of more than `STEPS_PER_GAP` steps; a sample alone between two such gaps is left out.
    origin : tuple of (int, int)
        Trajectory and first sample of each piece.
    scale : array (d,)
        Root mean square of each state, ``x = scale * z``.
    angle : array (d + m,)
        The same in radians; nan for states that are no angles, and for inputs.
    time_unit : float
        Time in which the state travels one standard deviation.
    noise : NoiseModel
        Of the scaled states; where samples were averaged, of their means.
    noise_level : array (d,)
        Standard deviation of the noise of one given sample, unscaled.
    t, z, weights : arrays (P, n), (P, n, d), (P, n, d)
        Padded: times repeat the last, weights are zero.
    first : array (T, d)
        First samples of the trajectories.
    splines : list of (states (n, d), slopes (n, d))
        Each piece smoothed by `SPLINE`.
    inputs : list of arrays (n, m)
        Scaled inputs at the samples of each piece; m = 0 where there are none.
    curves : list of arrays (n - 1, 4, m)
        The inputs between the samples, see `fim_dynsys.regression.inputs`.
    input_scale : array (m,)
        Root mean square of each input.
    input_error : float
        By how much the inputs may be off between the samples, the largest in units of its size.
    seen : bool array (d,) or None
        States that were observed; the others are estimates that only starts and regressions see, and their
        weights are zero. None where all were.
    known : list of bool arrays (n, d) or None
        Which values smoothers see: those that were observed, with errors that are not far larger than most;
        None where they see all.
    logs : bool array (d,) or None
        States whose logarithms are smoothed, since their errors are in proportion to them; None for none.
    cut : Cut or None
        Where the pieces are windows, each with a free start, see `fim_dynsys.regression.windows`.
    """

    samples: list
    origin: tuple
    scale: np.ndarray
    angle: np.ndarray
    time_unit: float
    noise: NoiseModel
    noise_level: np.ndarray
    t: np.ndarray
    z: np.ndarray
    weights: np.ndarray
    first: np.ndarray
    splines: list
    inputs: list
    curves: list
    input_scale: np.ndarray
    input_error: float
    seen: np.ndarray | None = None
    known: list | None = None
    logs: np.ndarray | None = None
    cut: Cut | None = None

    def unseen(self, states: np.ndarray) -> "Observations":
        """The same where some states (d,) were not observed but estimated."""
        if not states.any():
            return self
        return replace(self, weights=np.where(states, 0.0, self.weights), seen=~states)

    def only(self, pieces: np.ndarray) -> "Observations":
        """Some of the pieces, by their numbers (p,), in the same units."""

        def kept(rows: Sequence) -> list:
            return [rows[k] for k in pieces]

        return replace(
            self,
            samples=kept(self.samples),
            origin=tuple(kept(self.origin)),
            t=self.t[pieces],
            z=self.z[pieces],
            weights=self.weights[pieces],
            splines=kept(self.splines),
            inputs=kept(self.inputs),
            curves=kept(self.curves),
            known=None if self.known is None else kept(self.known),
            cut=None if self.cut is None else Cut(self.cut.whole, tuple(kept(self.cut.bounds))),
        )

    def measured(self, errors: Sequence[np.ndarray]) -> "Observations":
        """The same with known errors in place of what was estimated.

        Smoothers, which weigh samples alike, see none whose errors are more than five times the typical one.

        Parameters
        ----------
        errors : list of arrays (n, d)
            Standard deviations of the samples that were observed, in the units of the data; inf where a value
            was not observed, nan where its error is not known, which is then estimated.

        Raises
        ------
        ValueError
            Where samples were averaged.
        """
        if sum(map(len, errors)) > MANY:
            raise ValueError(f"observe: expected at most {MANY} samples with known errors, got more.")
        given = [
            errors[trajectory][sample : sample + len(t)]
            for (trajectory, sample), (t, _) in zip(self.origin, self.samples, strict=True)
        ]
        seen = [~np.isinf(rows) for rows in given]
        values = [z * self.scale for _, z in self.samples]
        well = [near & rows for near, rows in zip(precise(given, values), seen, strict=True)]
        if any(np.isnan(rows).any() for rows in given):
            return self._observed(seen)
        weighed, whole = self._weighed(given), [np.concatenate(part) for part in (given, values)]
        logs = np.array([in_proportion(e, x) for e, x in zip(*(part.T for part in whole), strict=True)])
        if logs.any():
            return replace(weighed, logs=logs)._seen_by_smoothers(well)
        return weighed if all(rows.all() for rows in well) else weighed._seen_by_smoothers(well)

    def _observed(self, seen: Sequence[np.ndarray]) -> "Observations":
        """The same where some values (n, d) of each piece were not observed; the noise is estimated."""
        weighted = self._seen_by_smoothers(seen)
        jumping = [jumps(cubics) for cubics in self.curves]
        parts_of_noise = []
        for j in range(self.dim):
            of_state = [known[:, j] for known in seen]
            pairs = zip(self.samples, of_state, strict=True)
            alone = [(t[r], z[r, j : j + 1]) for (t, z), r in pairs if r.any()]
            noise = noise_model(
                alone, [_beside(*rows) for rows in zip(jumping, of_state, strict=True) if rows[1].any()]
            )
            # what cubics miss of the motion is no noise that grows with the state
            parts_of_noise.append(replace(noise, share=np.ones(1)) if looks_noise_free(alone) else noise)
        level, share, rms = (
            np.concatenate([getattr(noise, name) for noise in parts_of_noise]) for name in _OF_NOISE
        )
        noise = NoiseModel(level, share, rms)
        weights = np.zeros_like(self.weights)
        for row, states, rows in zip(weights, weighted.path, seen, strict=True):
            row[: len(states)] = np.where(rows, noise.weights(states), 0.0)
        return replace(weighted, noise=noise, weights=weights, noise_level=level * self.scale)

    def _seen_by_smoothers(self, known: Sequence[np.ndarray]) -> "Observations":
        weighted = replace(self, known=list(known))
        return replace(weighted, splines=weighted._smoothed_by_state(SPLINE))

    def counted(self) -> "Observations":
        """The same where the observations are Poisson counts: the variance of each is what is expected of it.

        That is taken from the smoothed states, and is `LEAST_COUNT` at least.

        Raises
        ------
        ValueError
            Where samples were averaged.
        """
        if self.n > MANY:
            raise ValueError(f"observe: expected at most {MANY} counts, got more.")
        known = self._weighed([np.sqrt(np.maximum(states * self.scale, LEAST_COUNT)) for states in self.path])
        return replace(
            known, noise=replace(known.noise, share=np.zeros(self.dim))
        )  # it grows with the states

    def _weighed(self, errors: Sequence[np.ndarray]) -> "Observations":
        """The same with standard deviations (n, d) of the samples of each piece, in the units of the data."""
        precision = np.zeros_like(self.weights)
        for row, error in zip(precision, errors, strict=True):
            row[: len(error)] = (self.scale / error) ** 2
        level = 1.0 / np.sqrt(precision.sum(axis=(0, 1)) / _counts(precision, self.n))
        noise = NoiseModel(level, np.ones(self.dim), self.noise.rms)
        return replace(self, noise=noise, weights=precision * level**2, noise_level=level * self.scale)

    @cached_property
    def path(self) -> list[np.ndarray]:
        """Smoothed states (n, d) of each piece."""
        return [states for states, _ in self.splines]

    @cached_property
    def start(self) -> np.ndarray:
        """Smoothed first states (P, d) of the pieces."""
        return np.stack([states[0] for states in self.path])

    @cached_property
    def start_variance(self) -> np.ndarray:
        """Variance (d,) of ``start``: half the noise's, and that of 0.3 % of the signal.

        That of the signal for states that were not observed.
        """
        known = 0.5 * self.noise.level**2 + (3e-3) ** 2 * self.signal_variance
        return known if self.seen is None else np.where(self.seen, known, self.signal_variance)

    @cached_property
    def weighs_unevenly(self) -> np.ndarray:
        """Whether given errors of a state (d,) differ from sample to sample by more than three times.

        Not of counts: near 0 little is known of their starts without smoothing.
        """
        seen = self.weights > 0.0
        most = np.max(self.weights, axis=(0, 1))
        least = np.min(np.where(seen, self.weights, np.inf), axis=(0, 1))
        return (self.noise.share == 1.0) & (most > _UNEVEN * least)  # else the share grows with the state

    @cached_property
    def start_precision(self) -> np.ndarray:
        """Precision (P, d) of ``start``; 0 where a window begins inside a record.

        What a smoother makes of the samples there is no knowledge beside them, and little where the first
        value was not observed, or where samples differ in what they weigh, as smoothers do not.
        """
        unseen = 1.0 / np.maximum(self.signal_variance, 1e-300)
        known = np.where(self.weights[:, 0] > 0.0, 1.0 / self.start_variance, unseen)
        known = np.where(self.weighs_unevenly, np.minimum(known, unseen), known)
        if self.cut is not None:
            known[[a > 0 for _, a, _ in self.cut.bounds]] = 0.0
        return known

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.z.shape[2]

    @property
    def n_inputs(self) -> int:
        """Number of inputs m."""
        return len(self.input_scale)

    @property
    def extended_scale(self) -> np.ndarray:
        """Root mean square (d + m,) of states and inputs."""
        return np.concatenate([self.scale, self.input_scale])

    def with_inputs(self, states: np.ndarray) -> np.ndarray:
        """States (N, d) at all samples with the inputs there (N, d + m)."""
        if not self.n_inputs:
            return states
        return np.concatenate([states, np.concatenate(self.inputs)], axis=1)

    @cached_property
    def padded_curves(self) -> np.ndarray | None:
        """The curves of all pieces (P, n - 1, 4, m), what is padded zero; None without inputs."""
        return padded_curves(self.curves) if self.n_inputs else None

    @cached_property
    def allowed(self) -> np.ndarray:
        """Error (d,) that one step of an integration may have, see `STEP_ERROR`."""
        return STEP_ERROR * np.sqrt(np.maximum(self.signal_variance, 1e-300))

    @cached_property
    def limits(self) -> list[np.ndarray]:
        """Longest Runge-Kutta step (n - 1,) in each interval of each piece, see `transient_limits`."""
        spread = np.sqrt(np.maximum(self.signal_variance, 1e-300))
        level = self.noise.level / spread
        return [transient_limits(t, z / spread, level) for t, z in self.samples]

    @cached_property
    def padded_limits(self) -> np.ndarray:
        """The same (P, n - 1), `STEP_LIMIT` in what is padded."""
        longest = self.t.shape[1] - 1
        return np.stack(
            [np.pad(limits, (0, longest - len(limits)), constant_values=STEP_LIMIT) for limits in self.limits]
        )

    @cached_property
    def interval_limits(self) -> np.ndarray:
        """The same of all pieces behind one another (N - 1,), `STEP_LIMIT` between pieces."""
        rows = [part for limits in self.limits for part in (limits, [STEP_LIMIT])]
        return np.concatenate(rows[:-1])

    @cached_property
    def interval_curves(self) -> np.ndarray:
        """The curves of all pieces behind one another (N - 1, 4, m), zero between pieces."""
        apart = np.zeros((1, 4, self.n_inputs))
        rows = [part for curve in self.curves for part in (curve, apart)]
        return np.concatenate(rows[:-1])

    @cached_property
    def n(self) -> int:
        """Number of samples."""
        return sum(len(t) for t, _ in self.samples)

    @cached_property
    def counts(self) -> np.ndarray:
        """Number (d,) of observed values of each state; that of samples for states that were not observed."""
        return _counts(self.weights, self.n)

    @property
    def n_values(self) -> int:
        """Number of observed values of all states."""
        return int(self.counts.sum())

    @property
    def span(self) -> float:
        """Longest observed time, scaled."""
        return max(t[-1] for t, _ in self.samples)

    def smoothed(self, smoother: Smoother) -> list[tuple[np.ndarray, np.ndarray]]:
        """Pairs of states and slopes (n, d), one per piece."""
        if smoother is SPLINE:
            return self.splines
        if self.cut is not None:
            states, slopes = zip(*self.cut.whole.smoothed(smoother), strict=True)
            return list(zip(self.cut.of(states), self.cut.of(slopes), strict=True))
        if self.known is not None:
            return self._smoothed_by_state(smoother)
        return [smoother(t, z, span=self.span) for t, z in self.samples]

    def _smoothed_by_state(self, smoother: Smoother) -> list[tuple[np.ndarray, np.ndarray]]:
        """Pairs of states and slopes (n, d), each state smoothed by its own known samples."""
        assert self.known is not None
        logs = np.zeros(self.dim, dtype=bool) if self.logs is None else self.logs
        found = []
        for (t, z), rows in zip(self.samples, self.known, strict=True):
            own = np.where(logs, np.log(np.where(logs, z, 1.0)), z)
            states, slopes = smoothed_between(smoother, t, own, rows, self.span)
            back = np.where(logs, np.exp(np.where(logs, states, 0.0)), states)
            found.append((back, np.where(logs, back, 1.0) * slopes))
        return found

    def row_weights(self, smoother: Smoother) -> np.ndarray:
        """Weights (N,) of the smoothed slopes of all samples in a regression.

        Differences weigh less where gaps are smaller than usual and the state travels less than its noise in
        them; other smoothers look at enough samples to weigh 1.
        """
        if self.cut is not None:
            lengths = np.cumsum([len(t) for t, _ in self.cut.whole.samples])
            of_pieces = np.split(self.cut.whole.row_weights(smoother), lengths[:-1])
            return np.concatenate(self.cut.of(of_pieces))
        times = [t for t, _ in self.samples]
        noise = float(np.mean(_noise_variance(self.noise, self.signal_variance)))
        known = _precision(times, noise / self._speed**2)
        differences = np.concatenate([np.full(len(t), smoother.differentiates(t)) for t in times])
        return np.where(differences, known, 1.0)

    def initial_states(self, starts: np.ndarray) -> np.ndarray:
        """First states (T, d) of the trajectories where the pieces start at ``starts`` (P, d)."""
        states = self.first.copy()
        for (trajectory, sample), start in zip(self.origin, starts, strict=True):
            if sample == 0:
                states[trajectory] = start
        return states

    def weights_over(self, variance: float | np.ndarray) -> list[np.ndarray]:
        """Weights (n, d) of the samples of each piece, divided by variances (d,) or a number."""
        return [w[: len(t)] / variance for w, (t, _) in zip(self.weights, self.samples, strict=True)]

    @cached_property
    def noise_variance(self) -> np.ndarray:
        """Variance (d,) of the noise, or of what counts as none; positive."""
        known = _noise_variance(self.noise, self.signal_variance)
        return np.maximum(known + self.unknown_variance if self.n_inputs else known, 1e-300)

    @cached_property
    def unknown_variance(self) -> np.ndarray:
        """Variance (d,) that no field explains: what errors of the inputs between samples may add."""
        return self.input_error**2 * self.signal_variance

    @property
    def _speed(self) -> float:
        """Root mean square of the scaled speed: one standard deviation per unit of time."""
        return float(np.sqrt(np.mean(np.var(np.concatenate([z for _, z in self.samples]), axis=0)))) or 1.0

    @cached_property
    def signal_variance(self) -> np.ndarray:
        """Weighted variance (d,) of the states about their mean."""
        weights = self.weights
        if self.seen is not None:
            weights = np.where(self.seen, weights, weights.any(axis=2, keepdims=True))
        total = weights.sum(axis=(0, 1))
        mean = (weights * self.z).sum(axis=(0, 1)) / total
        return (weights * (self.z - mean) ** 2).sum(axis=(0, 1)) / self.counts

    def residual_variance(self, path: np.ndarray) -> np.ndarray:
        """Weighted mean squared residual (..., d) of paths (..., T, n, d).

        That of the noise for states that were not observed, so that they tell no two paths apart.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.where(self.weights > 0, self.weights * (path - self.z) ** 2, 0.0)
            variance = squares.sum(axis=(-3, -2)) / self.counts
        if self.seen is None:
            return variance
        fails = ~np.isfinite(variance[..., self.seen]).all(axis=-1, keepdims=True)
        return np.where(self.seen, variance, np.where(fails, np.inf, self.noise_variance))


def transient_limits(t: np.ndarray, z: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Longest Runge-Kutta step (n - 1,) in each interval, in units of the pace of all samples.

    `STEP_LIMIT`; less in and beside intervals in which the state moves far faster than it does on average,
    as in the jumps of a relaxation oscillation: there it is a step for each `STEP_LIMIT` standard deviations.

    Parameters
    ----------
    t : array (n,)
        Times, in units of the pace.
    z : array (n, d)
        States in standard deviations.
    level : array (d,)
        Noise in these.
    """
    gaps = np.diff(t)
    moved = np.max(np.maximum(np.abs(np.diff(z, axis=0)) - _NOISY * level, 0.0), axis=1)
    beside = np.maximum(moved, np.maximum(np.append(0.0, moved[:-1]), np.append(moved[1:], 0.0)))
    fast = (beside > _FAST * gaps) & (beside > _FAR)
    counts = np.clip(np.ceil(beside / STEP_LIMIT), 1.0, STEPS_PER_GAP)
    return np.where(fast, np.minimum(gaps / counts, STEP_LIMIT), STEP_LIMIT)


def _missed(
    states: np.ndarray, t: np.ndarray, z: np.ndarray, noise: NoiseModel, spread: np.ndarray
) -> np.ndarray:
    """Which samples (n, d) smoothed states miss by far more than their noise, which may grow with the state.

    Where samples of little noise bound a fast transient, which smoothing draws out, those missed by more than
    the noise.
    """
    missed = np.abs(states - z)
    level = noise.level * np.sqrt(np.maximum(noise.relative_variance(states), 1.0))
    fast = transient_limits(t, z / spread, noise.level / spread) < STEP_LIMIT
    bounds = (np.append(fast, False) | np.append(False, fast))[:, None] & (
        noise.level < _LEAST_MISSED * spread
    )
    return (missed > np.maximum(_MISSED * level, _LEAST_MISSED * spread)) | (bounds & (missed > level))


def _beside(jumping: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Which of the samples that were seen are the last before a jump or the first from it on."""
    at = np.flatnonzero(seen)
    beside = np.zeros(len(seen), dtype=bool)
    for row in np.flatnonzero(jumping):
        behind = np.searchsorted(at, row)
        beside[at[behind : behind + 1]] = True
        beside[at[max(behind - 1, 0) : behind]] |= not seen[row]
    return beside[seen]


def _counts(weights: np.ndarray, n: int) -> np.ndarray:
    """Number (d,) of values with weights (P, n, d); of all n samples where a state has none."""
    seen = np.count_nonzero(weights > 0.0, axis=(0, 1))
    return np.where(seen > 0, seen, n)


def complete_inputs(trajectories: Trajectories, caller: str) -> Inputs | None:
    """Inputs at the samples of `complete_samples`; None where there are none."""
    if not trajectories.input_names:
        return None
    found = [u for u in trajectories.drop_incomplete(caller).input_arrays() if len(u) >= 2]
    return Inputs(found, trajectories.hold)


def complete_records(trajectories: Trajectories, caller: str) -> Trajectories:
    """The trajectories with two or more complete samples, and these alone."""
    complete = trajectories.drop_incomplete(caller)
    return complete[np.flatnonzero(complete.n_obs >= 2)]


def complete_samples(
    trajectories: Trajectories, caller: str, least: float
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Complete samples of the trajectories with two or more: pairs of times (n,) and states (n, d).

    Raises
    ------
    ValueError
        Naming ``caller``, if there are fewer than ``least`` in all.
    """
    samples = [(t, x) for t, x in trajectories.drop_incomplete(caller).arrays() if len(t) >= 2]
    if sum(len(t) for t, _ in samples) < least:
        raise ValueError(
            f"{caller}: expected at least {least} complete samples in trajectories of two or more, got "
            "fewer; give more samples or longer trajectories."
        )
    return samples


def largest_degree(dim: int, n: int) -> int:
    """Largest total degree up to 3 whose monomials are few, and at most half as many as the n samples."""
    for degree in (3, 2):
        terms = math.comb(dim + degree, degree)
        if terms <= _MAX_MONOMIALS and 2 * terms <= n:
            return degree
    return 1


def _largest_error(between: Sequence[Curves]) -> float:
    """Error of interpolated inputs in units of their root mean square, the largest of all."""
    return float(np.sqrt(np.mean([part.error**2 for part in between], axis=0)).max(initial=0.0))


def padded_curves(curves: Sequence[np.ndarray]) -> np.ndarray:
    """Curves (n - 1, 4, m) of several pieces as one array (P, n - 1, 4, m), what is padded zero."""
    longest = max(len(curve) for curve in curves)
    return np.stack([np.pad(curve, ((0, longest - len(curve)), (0, 0), (0, 0))) for curve in curves])


def observe(
    samples: Sequence[tuple[np.ndarray, np.ndarray]],
    radians: np.ndarray | None = None,
    inputs: Inputs | None = None,
) -> Observations:
    """Scale samples, without the last digits of how they were written, and estimate their noise.

    Of more than 20,000 samples, neighbours are averaged and evenly spaced stretches kept, see
    `fim_dynsys.regression.thinning.thin`: time and memory up to here are linear in the samples, and what
    follows costs no more than with 20,000.

    Parameters
    ----------
    samples : list of (t (n,), x (n, d))
        Complete samples; trajectories with a single sample are left out.
    radians : array (d,), optional
        How many radians the unit of each state is, nan where it is none of angles; default 1.
    inputs : Inputs, optional
        At the samples; between them they are interpolated by `fim_dynsys.regression.inputs.curves`.

    Returns
    -------
    Observations
    """
    dim = samples[0][1].shape[1]
    if inputs is not None:
        samples = [
            (t, np.concatenate([x, u], axis=1)) for (t, x), u in zip(samples, inputs.values, strict=True)
        ]
    given, unit, span = dimensionless([(t, x) for t, x in samples if len(t) >= 2])
    samples, origin = thin(given)
    unit, input_unit = unit[:dim], unit[dim:]
    known = [x[:, dim:] for _, x in samples]
    if inputs is not None:
        given, samples = ([(t, np.ascontiguousarray(x[:, :dim])) for t, x in s] for s in (given, samples))
    stacked = np.concatenate([x for _, x in samples])
    size = np.sqrt(np.mean(stacked**2, axis=0))
    size = np.where(size > 0, size, 1.0)
    longest = max(t[-1] - t[0] for t, _ in samples)
    samples = [((t - t[0]) / longest, x / size) for t, x in samples]
    hold = Hold.AUTO if inputs is None else inputs.hold
    driven = [kinks(t, u, hold) for (t, _), u in zip(samples, known, strict=True)] if inputs else None
    noise = noise_model(samples, driven)
    level = noise.level * size
    if sum(len(t) for t, _ in given) > MANY:
        level = noise_model(stretches(given, MANY)[0]).level
    first = np.stack([x[0] for _, x in given]) / size
    samples, smooth, cuts, time_unit = _pieces(samples, noise, [(k, 0) for k in range(len(samples))])
    origin = [(origin[k][0], origin[k][1] + a) for k, a in cuts]
    input_size = np.sqrt(np.mean(np.concatenate(known) ** 2, axis=0))
    input_size = np.where(input_size > 0, input_size, 1.0)
    at_samples = [known[k][a : a + len(t)] / input_size for (k, a), (t, _) in zip(cuts, samples, strict=True)]
    length = max(len(t) for t, _ in samples)
    t_all = np.stack([np.concatenate([t, np.full(length - len(t), t[-1])]) for t, _ in samples])
    z_all, weights = np.zeros((2, len(samples), length, stacked.shape[1]))
    for k, ((_, z), (states, _)) in enumerate(zip(samples, smooth, strict=True)):
        z_all[k, : len(z)] = z
        weights[k, : len(z)] = noise.weights(states)
    between = [interpolated(t, u, hold) for (t, _), u in zip(samples, at_samples, strict=True)]
    return Observations(
        samples,
        tuple(origin),
        size * unit,
        np.pad(
            size * unit * (1.0 if radians is None else radians), (0, len(input_unit)), constant_values=np.nan
        ),
        time_unit * longest * span,
        noise,
        level * unit,
        t_all,
        z_all,
        weights,
        first,
        smooth,
        at_samples,
        [part.cubics for part in between],
        input_size * input_unit,
        _largest_error(between),
    )


def _pieces(
    samples: Sequence[tuple[np.ndarray, np.ndarray]], noise: NoiseModel, origin: list[tuple[int, int]]
) -> tuple[list[tuple[np.ndarray, np.ndarray]], list[tuple[np.ndarray, np.ndarray]], list, float]:
    """Samples cut at gaps that are too long, in units of their pace; their splines; origins; that unit."""
    while True:
        smooth = [SPLINE(t, z) for t, z in samples]
        time_unit = _time_unit(samples, smooth, noise)
        longest_gap = STEPS_PER_GAP * STEP_LIMIT * (1.0 + 1e-9) * time_unit
        cuts = [[0, *(np.flatnonzero(np.diff(t) > longest_gap) + 1).tolist(), len(t)] for t, _ in samples]
        if all(len(bounds) == 2 for bounds in cuts):
            scaled = [(t / time_unit, z) for t, z in samples]
            spread = np.std(np.concatenate([z for _, z in samples]), axis=0)
            spread = np.where(spread > 0, spread, 1.0)
            smooth = [
                (np.where(_missed(states, t, z, noise, spread), z, states), time_unit * v)
                for (states, v), (t, z) in zip(smooth, scaled, strict=True)
            ]
            return scaled, smooth, origin, time_unit
        pieces = [(k, a, b) for k, bounds in enumerate(cuts) for a, b in pairwise(bounds) if b - a >= 2]
        origin = [(origin[k][0], origin[k][1] + a) for k, a, _ in pieces]
        samples = [(samples[k][0][a:b] - samples[k][0][a], samples[k][1][a:b]) for k, a, b in pieces]


def _time_unit(
    samples: Sequence[tuple[np.ndarray, np.ndarray]],
    smooth: Sequence[tuple[np.ndarray, np.ndarray]],
    noise: NoiseModel,
) -> float:
    """Time in which the state travels one standard deviation, by the root mean square of the speed.

    Speeds weigh less where neighbours are so close in time that noise makes the difference. Half the gaps at
    least are short enough to integrate over.
    """
    spread = np.var(np.concatenate([states for states, _ in smooth]), axis=0)
    slopes = np.concatenate([slopes for _, slopes in smooth])
    gaps = np.concatenate([np.diff(t) for t, _ in samples])
    shortest = float(np.median(gaps)) / (STEPS_PER_GAP * STEP_LIMIT)
    typical = float(np.median(np.mean(slopes**2, axis=1)))
    variance = float(np.mean(_noise_variance(noise, spread)))
    known = _precision([t for t, _ in samples], variance / typical if typical > 0 else 0.0)
    speed = float(np.mean((np.sqrt(known)[:, None] * slopes) ** 2) / np.mean(known))
    spread = float(np.mean(spread))
    if not (speed > 0 and spread > 0):
        return max(t[-1] for t, _ in samples)
    return max(math.sqrt(spread / speed), shortest)


def _precision(times: Sequence[np.ndarray], squared_delay: float) -> np.ndarray:
    """Relative precision (N,) of differences, 1 at the median gap and above.

    The error of a slope over the gap ``g`` is ``1 + squared_delay / g^2`` times the variance of the slopes,
    ``squared_delay`` being the squared time in which the state travels its noise.
    """
    gaps = np.concatenate([smallest_gap(t) for t in times])
    usual = np.median(gaps)
    delay = min(math.sqrt(squared_delay) / usual, 1e100)
    return np.minimum((1.0 + delay**2) * (gaps / usual / np.hypot(gaps / usual, delay)) ** 2, 1.0)


def _noise_variance(noise: NoiseModel, signal_variance: np.ndarray) -> np.ndarray:
    """Noise variances (d,), at least those that `bic` does not tell from none."""
    return np.maximum(noise.level**2, VARIANCE_FLOOR * signal_variance)
