"""Smoothing splines of noisy, irregular samples."""

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.regression.kernels.splines import group_starts, spline_fit

_GCV_PROBES, _GCV_PENALTIES = 16, 24  # random vectors that estimate a trace; bandwidths tried
_COINCIDENT = 1e-4  # of the bandwidth of a spline: samples nearer than that are averaged
_FINEST = 4000.0  # mean gaps in a bandwidth: of more, the penalty's share of 16 times its fourth power
# leaves no digit for the rest of the matrix, so knots are a 4000th of the bandwidth apart


def checked(t: ArrayLike, x: ArrayLike, caller: str, fewest: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Increasing times (n,) and complete samples (n, d) as arrays, or a ValueError naming ``caller``."""
    t, x = np.ascontiguousarray(t, dtype=np.float64), np.ascontiguousarray(x, dtype=np.float64)
    if t.ndim != 1 or len(t) < fewest or x.ndim != 2 or len(x) != len(t):
        raise ValueError(
            f"{caller}: expected t of shape (n,) with n >= {fewest} and x of shape (n, d), got {t.shape} and "
            f"{x.shape}."
        )
    gaps = np.diff(t)
    if not (gaps > 0).all():
        k = int(np.argmin(gaps > 0))
        raise ValueError(
            f"{caller}: expected increasing times, got {t[k]:.17g} and then {t[k + 1]:.17g} (position "
            f"{k + 1}); sort the samples and merge those of equal times."
        )
    if not np.isfinite(x).all():
        raise ValueError(
            f"{caller}: expected complete samples, got {int(np.sum(~np.isfinite(x).all(axis=1)))} with a "
            "value that is not finite; drop them first."
        )
    return t, x


def constant_velocity(
    t: np.ndarray, x: np.ndarray, bandwidth: float, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Smoother of a state whose velocity is a Wiener process, with diffuse start.

    Its posterior mean is the cubic smoothing spline of penalty ``lambda`` = noise variance / process rate
    (Wahba 1978, J. R. Stat. Soc. B 40, 364), which is how it is computed: banded, without a recursion.

    Parameters
    ----------
    t : array (n,)
        Increasing times.
    x : array (n, d)
        Samples.
    bandwidth : float
        Width of the equivalent kernel in units of time; ``lambda = bandwidth^4 / mean gap``
        (Silverman 1984, Ann. Statist. 12, 898).
    weights : array (n, d), optional
        Inverse relative noise variances.

    Returns
    -------
    states, slopes : arrays (n, d)
    """
    t, x = checked(t, x, "constant_velocity")
    penalty = bandwidth**4 * (len(t) - 1) / _span(t)
    states, slopes = np.empty_like(x), np.empty_like(x)
    for i in range(x.shape[1]):
        system = _SplineSystem(t, np.ones(len(t)) if weights is None else weights[:, i], bandwidth)
        fit, second = system.solve(x[:, i : i + 1], penalty)
        states[:, i] = system.at_samples(fit)[:, 0]
        slopes[:, i] = system.at_samples(system.slopes(fit, second))[:, 0]
    return states, slopes


def gcv_spline(
    t: np.ndarray, x: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Cubic smoothing spline, penalty by generalised cross-validation (Craven & Wahba 1979).

    The penalties tried are those of equivalent kernels from half a mean gap to a third of the span; the
    trace of the smoother is estimated from 16 fixed sign vectors (Girard 1989, Numer. Math. 56, 1).

    Parameters
    ----------
    t : array (n,)
        Increasing times.
    x : array (n, d)
        Samples.
    weights : array (n, d), optional
        Inverse relative noise variances.

    Returns
    -------
    states, slopes : arrays (n, d)
    """
    t, x = checked(t, x, "gcv_spline")
    n, gap = len(t), _span(t) / (len(t) - 1)
    probes = np.random.default_rng(0).choice([-1.0, 1.0], size=(n, _GCV_PROBES))
    bandwidths = np.geomspace(0.5 * gap, _span(t) / 3.0, _GCV_PENALTIES)
    states, slopes = np.empty_like(x), np.empty_like(x)
    for i in range(x.shape[1]):
        w = np.ones(n) if weights is None else weights[:, i]
        system = _SplineSystem(t, w, bandwidths[-1])
        # probes of the symmetrised smoother W^1/2 S W^-1/2
        y = np.column_stack([x[:, i], probes / np.sqrt(w)[:, None]])
        best = np.inf
        for bandwidth in bandwidths:
            if system.group is not None or bandwidth > _FINEST * gap:
                system = _SplineSystem(t, w, bandwidth)
            knots, second = system.solve(y, bandwidth**4 / gap)
            fit = system.at_samples(knots)
            trace = np.mean(np.sum(probes * np.sqrt(w)[:, None] * fit[:, 1:], axis=0))
            score = np.sum(w * (x[:, i] - fit[:, 0]) ** 2) / max(1.0 - trace / n, 1e-6) ** 2
            if score < best:
                best, states[:, i] = score, fit[:, 0]
                slopes[:, i] = system.at_samples(system.slopes(knots[:, :1], second[:, :1]))[:, 0]
    return states, slopes


def _span(t: np.ndarray) -> float:
    return t[-1] - t[0]


def _groups(t: np.ndarray, shortest: float) -> np.ndarray | None:
    """First samples of groups that start at least ``shortest`` apart; None where each sample is a group."""
    return None if (np.diff(t) >= shortest).all() else group_starts(t, shortest)


class _SplineSystem:
    """Natural cubic smoothing spline by banded solves (Reinsch 1967; Green & Silverman 1994, sect. 2.3).

    Samples much nearer to each other than the bandwidth share a knot: their equations would be singular to
    rounding.
    """

    def __init__(self, t: np.ndarray, weights: np.ndarray, bandwidth: float) -> None:
        self.group, self.sample_weights = None, weights
        dense = bandwidth > _FINEST * _span(t) / (len(t) - 1)
        nearest = bandwidth / _FINEST if dense else _COINCIDENT * bandwidth
        self.first = _groups(t, min(nearest, _span(t) / 1000.0))
        if self.first is not None:
            self.group = np.repeat(np.arange(len(self.first)), np.diff(self.first, append=len(t)))
            t, weights = t[self.first], np.add.reduceat(weights, self.first)
        self.gaps = h = np.diff(t)
        self.inverse_weights = 1.0 / weights
        self.upper, self.lower = 1.0 / h[:-1], 1.0 / h[1:]
        self.middle = -(self.upper + self.lower)
        n = len(t) - 2
        self.curvature = np.zeros((3, n))
        self.curvature[2] = (h[:-1] + h[1:]) / 3.0
        self.curvature[1, 1:] = h[1:-1] / 6.0
        v, (a, b, c) = self.inverse_weights, (self.upper, self.middle, self.lower)
        self.roughness = np.zeros((3, n))
        self.roughness[2] = a * a * v[:-2] + b * b * v[1:-1] + c * c * v[2:]
        self.roughness[1, 1:] = b[:-1] * a[1:] * v[1:-2] + c[:-1] * b[1:] * v[2:-1]
        self.roughness[0, 2:] = c[:-2] * a[2:] * v[2:-2]

    def solve(self, y: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
        """Values and second derivatives at the knots (m, k) of the splines of the columns of ``y`` (n, k)."""
        if self.first is not None:
            sums = np.add.reduceat(self.sample_weights[:, None] * y, self.first)
            y = self.inverse_weights[:, None] * sums
        if len(y) < 3:
            return y, np.zeros_like(y)
        differences = (self.upper, self.middle, self.lower)
        y = np.ascontiguousarray(y)
        return spline_fit(differences, self.curvature, self.roughness, self.inverse_weights, y, penalty)

    def at_samples(self, values: np.ndarray) -> np.ndarray:
        """Values at the knots (m, k) for each sample (n, k)."""
        return values if self.group is None else values[self.group]

    def slopes(self, values: np.ndarray, second: np.ndarray) -> np.ndarray:
        """First derivatives at the knots."""
        h = self.gaps[:, None]
        chord = np.diff(values, axis=0) / h
        left = chord - h * (2.0 * second[:-1] + second[1:]) / 6.0
        end = chord[-1] + h[-1] * (second[-2] + 2.0 * second[-1]) / 6.0
        return np.vstack([left, end])
