"""Sparse polynomial candidates from smoothed data, each judged by integrating it."""

import math
from dataclasses import dataclass, replace

import numpy as np

from fim_dynsys.regression.criteria import NoiseLaw, bic, noise_law
from fim_dynsys.regression.rollout import rollout
from fim_dynsys.regression.smoothing import TIME_AWARE, gcv_spline
from fim_dynsys.regression.sparse import backward_path, normal_equations, solve_supports, stlsq
from fim_dynsys.regression.terms import Dictionary

STLSQ_SETTINGS = ((0.01, False), (0.03, False), (0.1, False), (0.1, True), (0.5, True))
"""Threshold, and whether it refers to columns and targets of unit root mean square."""

BACKWARD_TOLERANCES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""Largest rise of the residual sum of squares by one drop, relative to the sum of squares of the slopes."""

REST = "no motion"
"""Origin of the candidate without terms, which every search includes."""

STEP_LIMIT = 0.15
"""Longest Runge-Kutta step in units of the time in which the state travels one standard deviation."""


@dataclass(frozen=True)
class Observations:
    """Complete samples in units of their size and pace, as the search sees them.

    Attributes
    ----------
    samples : list of (t (n,), z (n, d))
        Scaled times and states; each trajectory starts at time 0.
    scale : array (d,)
        Root mean square of each state, ``x = scale * z``.
    time_unit : float
        Time in which the state travels one standard deviation.
    law : NoiseLaw
        Of the scaled states.
    t, z, weights : arrays (T, n), (T, n, d), (T, n, d)
        Padded: times repeat the last, weights are zero.
    start : array (T, d)
        Smoothed first states.
    """

    samples: list
    scale: np.ndarray
    time_unit: float
    law: NoiseLaw
    t: np.ndarray
    z: np.ndarray
    weights: np.ndarray
    start: np.ndarray

    @property
    def start_variance(self):
        """Variance (d,) of ``start``: half the noise's, and that of 0.3 % of the signal."""
        return 0.5 * self.law.level**2 + (3e-3) ** 2 * self.signal_variance

    @property
    def dim(self):
        """Number of coordinates."""
        return self.z.shape[2]

    @property
    def n(self):
        """Number of samples."""
        return sum(len(t) for t, _ in self.samples)

    @property
    def span(self):
        """Longest observed time, scaled."""
        return max(t[-1] for t, _ in self.samples)

    def smoothed(self, smoother):
        """Pairs of states and slopes (n, d), one per trajectory."""
        return [smoother(t, z, span=self.span) for t, z in self.samples]

    @property
    def signal_variance(self):
        """Weighted variance (d,) of the states about their mean."""
        total = self.weights.sum(axis=(0, 1))
        mean = (self.weights * self.z).sum(axis=(0, 1)) / total
        return (self.weights * (self.z - mean) ** 2).sum(axis=(0, 1)) / self.n

    def residual_variance(self, path):
        """Weighted mean squared residual (..., d) of paths (..., T, n, d)."""
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.where(self.weights > 0, self.weights * (path - self.z) ** 2, 0.0)
            return squares.sum(axis=(-3, -2)) / self.n


def observe(samples):
    """Scale samples and estimate their noise.

    Parameters
    ----------
    samples : list of (t (n,), x (n, d))
        Complete samples; trajectories with a single sample are left out.

    Returns
    -------
    Observations
    """
    samples = [(t, x) for t, x in samples if len(t) >= 2]
    stacked = np.concatenate([x for _, x in samples])
    size = np.abs(stacked).max(axis=0)
    size = np.where(size > 0, size, 1.0)
    scale = size * np.sqrt(np.mean((stacked / size) ** 2, axis=0))
    scale = np.where(scale > 0, scale, 1.0)
    longest = max(t[-1] - t[0] for t, _ in samples)
    samples = [((t - t[0]) / longest, x / scale) for t, x in samples]
    law = noise_law(samples)
    smooth = [gcv_spline(t, z) if len(t) >= 6 else (z, np.gradient(z, t, axis=0)) for t, z in samples]
    time_unit = _time_unit([z for z, _ in smooth], [v for _, v in smooth], samples)
    samples = [(t / time_unit, z) for t, z in samples]
    length = max(len(t) for t, _ in samples)
    d = stacked.shape[1]
    t_all = np.stack([np.concatenate([t, np.full(length - len(t), t[-1])]) for t, _ in samples])
    z_all, weights = np.zeros((2, len(samples), length, d))
    for k, ((_, z), (states, _)) in enumerate(zip(samples, smooth, strict=True)):
        z_all[k, : len(z)] = z
        weights[k, : len(z)] = law.weights(states)
    start = np.stack([states[0] for states, _ in smooth])
    return Observations(samples, scale, time_unit * longest, law, t_all, z_all, weights, start)


def _time_unit(states, slopes, samples):
    spread = np.mean(np.var(np.concatenate(states), axis=0))
    speed = np.mean(np.concatenate(slopes) ** 2)
    longest = max(t[-1] for t, _ in samples)
    return math.sqrt(spread / speed) if speed > 0 and spread > 0 else longest


@dataclass(frozen=True)
class Candidate:
    """One candidate in scaled units and where it came from.

    Attributes
    ----------
    coefficients : array (m, d)
        Of the search's dictionary.
    start : array (T, d)
        Initial states.
    origin : str
        Degree and sparse fit, in words.
    smoother : str
        Name of the smoother.
    score : float
        BIC on the noisy samples.
    variance : array (d,) or None
        Weighted residual variances of the integrated candidate.
    refined : bool
        Whether the coefficients were fitted to the trajectories.
    """

    coefficients: np.ndarray
    start: np.ndarray
    origin: str
    smoother: str
    score: float = math.inf
    variance: np.ndarray | None = None
    refined: bool = False

    @property
    def support(self):
        """Which coefficients are not zero (m, d)."""
        return self.coefficients != 0


def propose(observations, dictionary, degrees=(1, 2, 3), smoothers=TIME_AWARE):
    """Sparse fits of smoothed slopes on the dictionary's terms of each degree.

    Parameters
    ----------
    observations : Observations
        Data.
    dictionary : Dictionary
        Monomials.
    degrees : sequence of int
        Largest total degrees.
    smoothers : sequence of Smoother
        From `fim_dynsys.regression.smoothing`.

    Returns
    -------
    list of Candidate
        Without scores and without duplicates.
    """
    at_rest = np.stack([z.mean(axis=0) for _, z in observations.samples])
    candidates = [
        Candidate(np.zeros((len(dictionary), observations.dim)), at_rest, REST, TIME_AWARE[-1].name)
    ]
    seen = set()
    total_degree = dictionary.exponents.sum(axis=1)
    for smoother in smoothers:
        fits = observations.smoothed(smoother)
        start = np.stack([states[0] for states, _ in fits])
        states, slopes = (np.concatenate(part) for part in zip(*fits, strict=True))
        gram, moment, total = normal_equations(dictionary.evaluate(states), slopes)
        for degree in degrees:
            inside = np.flatnonzero(total_degree <= degree)
            if degree > 1 and len(inside) * 2 > len(states):
                continue
            sub = np.ix_(range(observations.dim), inside, inside)
            for name, fit in _sparse_fits(gram[sub], moment[:, inside], total, len(states)):
                coefficients = np.zeros((len(dictionary), observations.dim))
                coefficients[inside] = fit.T
                key = coefficients.tobytes()
                if key not in seen and np.isfinite(coefficients).all():
                    seen.add(key)
                    candidates.append(
                        Candidate(coefficients, start, f"degree {degree}, {name}", smoother.name)
                    )
    return candidates


def _sparse_fits(gram, moment, total, n):
    """Pairs of a name and coefficients (d, m) for every setting."""
    threshold = np.array([s for s, _ in STLSQ_SETTINGS])[:, None]
    unit = np.array([u for _, u in STLSQ_SETTINGS])[:, None]
    thresholded = stlsq(gram, moment, np.where(unit, threshold * np.sqrt(total), threshold), 0.05, unit)
    backward = np.moveaxis(backward_path(gram, moment, total[:, None] * np.array(BACKWARD_TOLERANCES)), 1, 0)
    names = [f"STLSQ {s}{' normalised' if u else ''}" for s, u in STLSQ_SETTINGS]
    names += [f"backward {tolerance:g}" for tolerance in BACKWARD_TOLERANCES]
    return zip(names, np.concatenate([thresholded, backward]), strict=True)


def score(observations, candidate, variance):
    """The candidate with residual variances (d,) and its BIC."""
    value = bic(
        variance,
        observations.n,
        np.count_nonzero(candidate.coefficients),
        observations.signal_variance,
        len(observations.samples),
    )
    return replace(candidate, score=float(value), variance=variance)


def judge(observations, dictionary, candidates):
    """Integrate every candidate from its own start over the observation times and score it by BIC.

    Parameters
    ----------
    observations : Observations
        Data.
    dictionary : Dictionary
        Terms of the candidates.
    candidates : list of Candidate
        Any scores are replaced.

    Returns
    -------
    list of Candidate
        The same, scored, best first; candidates that diverge score infinity.
    """
    if not candidates:
        return []
    scored = []
    chunk = max(1, int(2e6 / observations.z.size))
    for first in range(0, len(candidates), chunk):
        part = candidates[first : first + chunk]
        coefficients = np.stack([c.coefficients for c in part])
        start = np.stack([c.start for c in part])
        paths = rollout(dictionary, coefficients, start, observations.t, STEP_LIMIT)
        variances = observations.residual_variance(paths)
        scored += [score(observations, c, v) for c, v in zip(part, variances, strict=True)]
    return sorted(scored, key=lambda c: c.score)


def search(samples, max_degree=3):
    """Best sparse polynomial candidates of noisy samples.

    Parameters
    ----------
    samples : list of (t (n,), x (n, d))
        Complete samples.
    max_degree : int
        Largest total degree.

    Returns
    -------
    observations : Observations
    dictionary : Dictionary
    candidates : list of Candidate
        Scored, best first.
    """
    observations = observe(samples)
    dictionary = Dictionary.polynomial(observations.dim, max_degree)
    candidates = propose(observations, dictionary, range(1, max_degree + 1))
    return observations, dictionary, judge(observations, dictionary, candidates)


def refit(observations, dictionary, support, smoother_name):
    """Least squares on given terms, with the slopes of one smoother.

    Parameters
    ----------
    observations : Observations
        Data.
    dictionary : Dictionary
        Terms.
    support : bool array (m, d)
        Which coefficients may be non-zero.
    smoother_name : str
        Name of one of the time-aware smoothers.

    Returns
    -------
    Candidate
        Without a score.
    """
    smoother = next((s for s in TIME_AWARE if s.name == smoother_name), TIME_AWARE[-1])
    fits = observations.smoothed(smoother)
    states, slopes = (np.concatenate(part) for part in zip(*fits, strict=True))
    gram, moment, _ = normal_equations(dictionary.evaluate(states), slopes)
    coefficients = solve_supports(gram, moment, support.T).T
    return Candidate(coefficients, np.stack([s[0] for s, _ in fits]), "refit", smoother.name)
