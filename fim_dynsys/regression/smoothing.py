"""States and slopes at the observation times from noisy, irregular samples."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline

from fim_dynsys.regression.kernels.splines import spline_fit
from fim_dynsys.regression.kernels.windows import neighbour_distances, window_fits

BANK_WIDTHS = (0.8, 1.6, 3.0, 6.0, 12.0, 24.0)
"""Standard deviations of the bank's Gaussian windows, in mean gaps."""

_RIDGE = 1e-9
_CUTOFF = 9.0  # standard deviations; exp(-0.5 * 9^2) = 3e-18 of the weight is left out
_SMALLEST_WINDOW = np.finfo(float).tiny ** 0.5  # where a single sample leaves none
_GCV_PROBES, _GCV_PENALTIES = 16, 24
_COINCIDENT = 1e-4  # of the bandwidth of a spline: samples nearer than that are averaged
_MANY, _KNOTS_PER_WIDTH = 1000, 16  # local fits to more samples are interpolated between knots


def smoothing_bank(t, x, widths=BANK_WIDTHS):
    """Local cubic fits with Gaussian windows of several widths, and the raw samples.

    At time ``s`` a cubic in ``u = (t - s) / h`` is fitted with weights ``exp(-u^2 / 2)`` and a ridge of
    ``1e-9`` times the mean diagonal of the normal matrix, ``h`` being the larger of ``width`` mean gaps and
    half the distance to the fifth nearest observation (one at ``s`` itself counts as the first). State and
    slope are ``c_0`` and ``c_1 / h``.

    Parameters
    ----------
    t : array (n,)
        Increasing times, n >= 1.
    x : array (n, d)
        Complete samples.
    widths : sequence of W floats
        In mean gaps ``(t[-1] - t[0]) / (n - 1)``.

    Returns
    -------
    states, slopes : arrays (W + 1, n, d)
        The last level is the raw samples with the slopes of the narrowest window.
    """
    t, x = _checked(t, x, "smoothing_bank", fewest=1)
    states, slopes = local_cubic(t, x, t, widths)
    narrowest = int(np.argmin(widths))
    return np.concatenate([states, x[None]]), np.concatenate([slopes, slopes[narrowest : narrowest + 1]])


def local_cubic(t, x, eval_times, widths):
    """The fits of `smoothing_bank` at any times.

    Parameters
    ----------
    t : array (n,)
        Increasing times.
    x : array (n, d)
        Complete samples.
    eval_times : array (k,)
        Where states and slopes are wanted, increasing.
    widths : sequence of W floats
        Window widths in mean gaps.

    Returns
    -------
    states, slopes : arrays (W, k, d)
    """
    t, x = _checked(t, x, "local_cubic", fewest=1)
    s = np.ascontiguousarray(eval_times, dtype=np.float64)
    if (np.diff(s) < 0).any():
        raise ValueError("local_cubic: expected increasing eval_times, got others; sort them.")
    mean_gap = (t[-1] - t[0]) / max(len(t) - 1, 1)
    h = np.maximum(mean_gap * np.asarray(widths)[:, None], 0.5 * neighbour_distances(t, s, 5))
    return window_fits(t, x, s, np.maximum(h, _SMALLEST_WINDOW), _CUTOFF, _RIDGE)


def finite_differences(t, x, weights=None):
    """Raw samples and their second-order differences on the uneven grid (numpy.gradient)."""
    t, x = _checked(t, x, "finite_differences")
    return x, np.gradient(x, t, axis=0, edge_order=2 if len(t) > 2 else 1)


def smallest_gap(t):
    """Smallest gap in the stencil of `finite_differences` at each of the times ``t`` (n,), n >= 2."""
    gaps = np.diff(t)
    if len(gaps) == 1:
        return np.repeat(gaps, 2)
    pairs = np.minimum(gaps[:-1], gaps[1:])
    return np.concatenate([pairs[:1], pairs, pairs[-1:]])


def tricube_cubic(t, x, half_width, weights=None):
    """Local cubic fits with tricube windows (Cleveland 1979).

    Parameters
    ----------
    t : array (n,)
        Increasing times.
    x : array (n, d)
        Samples.
    half_width : float
        Half width of the window in units of time; widened where it would hold fewer than six samples.
    weights : array (n, d), optional
        Inverse relative noise variances.

    Returns
    -------
    states, slopes : arrays (n, d)
        Of more than 1000 samples, those nearer to each other than 1/16 of the half width are interpolated by
        cubic splines.
    """
    t, x = _checked(t, x, "tricube_cubic")
    knots = _knots(t, half_width / _KNOTS_PER_WIDTH) if len(t) > _MANY else slice(None)
    h = np.maximum(half_width, 1.01 * neighbour_distances(t, t[knots], 6))
    states, slopes = _windowed_cubic(
        t, x, t[knots], h, h, lambda u: np.clip(1.0 - np.abs(u) ** 3, 0.0, None) ** 3, weights
    )
    if len(states) == len(t):
        return states, slopes
    both = CubicSpline(t[knots], np.stack([states, slopes], axis=1))(t)
    return both[:, 0], both[:, 1]


def constant_velocity(t, x, bandwidth, weights=None):
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
    t, x = _checked(t, x, "constant_velocity")
    penalty = bandwidth**4 * (len(t) - 1) / _span(t)
    states, slopes = np.empty_like(x), np.empty_like(x)
    for i in range(x.shape[1]):
        system = _SplineSystem(t, np.ones(len(t)) if weights is None else weights[:, i], bandwidth)
        fit, second = system.solve(x[:, i : i + 1], penalty)
        states[:, i] = system.at_samples(fit)[:, 0]
        slopes[:, i] = system.at_samples(system.slopes(fit, second))[:, 0]
    return states, slopes


def gcv_spline(t, x, weights=None):
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
    t, x = _checked(t, x, "gcv_spline")
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
            if system.group is not None:
                system = _SplineSystem(t, w, bandwidth)
            knots, second = system.solve(y, bandwidth**4 / gap)
            fit = system.at_samples(knots)
            trace = np.mean(np.sum(probes * np.sqrt(w)[:, None] * fit[:, 1:], axis=0))
            score = np.sum(w * (x[:, i] - fit[:, 0]) ** 2) / max(1.0 - trace / n, 1e-6) ** 2
            if score < best:
                best, states[:, i] = score, fit[:, 0]
                slopes[:, i] = system.at_samples(system.slopes(knots[:, :1], second[:, :1]))[:, 0]
    return states, slopes


@dataclass(frozen=True)
class Smoother:
    """A named smoother whose width may depend on sampling and span.

    Attributes
    ----------
    name : str
        For reports, and to choose it again.
    smooth : callable
        ``(t (n,), x (n, d), weights (n, d) or None, span) -> states, slopes``.
    """

    name: str
    smooth: Callable

    def __call__(self, t, x, weights=None, span=None):
        """States and slopes (n, d) of one trajectory; short ones (n < 6) get finite differences.

        Parameters
        ----------
        t : array (n,)
            Increasing times.
        x : array (n, d)
            Samples.
        weights : array (n, d), optional
            Inverse relative noise variances.
        span : float, optional
            The time span that widths refer to; default the trajectory's own.

        Returns
        -------
        states, slopes : arrays (n, d)
        """
        if self.differentiates(t):
            return finite_differences(t, x)
        return self.smooth(t, x, weights, _span(t) if span is None else span)

    def differentiates(self, t):
        """Whether samples at ``t`` get finite differences."""
        return len(t) < 6 or self.smooth is _differences


def _span(t):
    return t[-1] - t[0]


def _differences(t, x, weights, span):
    return finite_differences(t, x)


def _cubic_of_samples(t, x, weights, span):
    return tricube_cubic(t, x, 5.5 * _span(t) / (len(t) - 1), weights)


def _spline(t, x, weights, span):
    return gcv_spline(t, x, weights)


def _cubic_of_span(fraction):
    return Smoother(
        f"local cubic, {100 * fraction:g} % of the span",
        lambda t, x, weights, span: tricube_cubic(t, x, fraction * span, weights),
    )


def _velocity_of_span(fraction):
    return Smoother(
        f"constant velocity, {100 * fraction:g} % of the span",
        lambda t, x, weights, span: constant_velocity(t, x, fraction * span, weights),
    )


TIME_AWARE = (
    Smoother("finite differences", _differences),
    Smoother("local cubic, 5.5 samples", _cubic_of_samples),
    _cubic_of_span(0.02),
    _cubic_of_span(0.05),
    _cubic_of_span(0.1),
    _velocity_of_span(0.004),
    _velocity_of_span(0.01),
    _velocity_of_span(0.03),
    Smoother("smoothing spline by cross-validation", _spline),
)
"""Smoothers that look at the time stamps, from none to strong."""


def _checked(t, x, who, fewest=2):
    t, x = np.ascontiguousarray(t, dtype=np.float64), np.ascontiguousarray(x, dtype=np.float64)
    if t.ndim != 1 or len(t) < fewest or x.ndim != 2 or len(x) != len(t):
        raise ValueError(
            f"{who}: expected t of shape (n,) with n >= {fewest} and x of shape (n, d), got {t.shape} and "
            f"{x.shape}."
        )
    gaps = np.diff(t)
    if not (gaps > 0).all():
        k = int(np.argmin(gaps > 0))
        raise ValueError(
            f"{who}: expected increasing times, got {t[k]:.17g} and then {t[k + 1]:.17g} (position {k + 1}); "
            "sort the samples and merge those of equal times."
        )
    if not np.isfinite(x).all():
        raise ValueError(
            f"{who}: expected complete samples, got {int(np.sum(~np.isfinite(x).all(axis=1)))} with a value "
            "that is not finite; drop them first."
        )
    return t, x


def _groups(t, shortest):
    """First samples of groups that start at least ``shortest`` apart; None where each sample is a group."""
    if (np.diff(t) >= shortest).all():
        return None
    first = [0]
    while (following := int(np.searchsorted(t, t[first[-1]] + shortest))) < len(t):
        first.append(max(following, first[-1] + 1))
    return np.array(first)


def _knots(t, cell):
    """Indices of the first and last sample in each occupied cell of time."""
    cells = np.floor((t - t[0]) / cell)
    new = np.diff(cells) > 0
    return np.flatnonzero(np.concatenate([[True], new]) | np.concatenate([new, [True]]))


def _windowed_cubic(t, x, s, h, reach, kernel, weights=None):
    """Weighted cubic fits at times ``s``; only samples within ``reach`` enter."""
    first = np.searchsorted(t, s - reach, side="left")
    last = np.searchsorted(t, s + reach, side="right")
    index = first[:, None] + np.arange(int((last - first).max()))
    inside = index < last[:, None]
    index = np.minimum(index, len(t) - 1)
    u = (t[index] - s[:, None]) / h[:, None]
    w = np.where(inside, kernel(u), 0.0)
    powers = u[:, None, :] ** np.arange(4)[:, None]
    if weights is None:
        c = _ridge_cubic(powers, w, x[index])
    else:
        columns = [
            _ridge_cubic(powers, w * weights[index, i], x[index, i][:, :, None]) for i in range(x.shape[1])
        ]
        c = np.concatenate(columns, axis=2)
    return c[:, 0], c[:, 1] / h[:, None]


def _ridge_cubic(powers, w, y):
    """Coefficients (k, 4, d) of the cubics: ``powers`` (k, 4, L), weights (k, L), values (k, L, d)."""
    weighted = powers * w[:, None, :]
    normal = weighted @ powers.transpose(0, 2, 1)
    ridge = _RIDGE * np.trace(normal, axis1=1, axis2=2) / 4.0
    normal[:, range(4), range(4)] += ridge[:, None]
    return np.linalg.solve(normal, weighted @ y)


class _SplineSystem:
    """Natural cubic smoothing spline by banded solves (Reinsch 1967; Green & Silverman 1994, sect. 2.3).

    Samples much nearer to each other than the bandwidth share a knot: their equations would be singular to
    rounding.
    """

    def __init__(self, t, weights, bandwidth):
        self.group, self.sample_weights = None, weights
        self.first = _groups(t, min(_COINCIDENT * bandwidth, _span(t) / 1000.0))
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

    def solve(self, y, penalty):
        """Values and second derivatives at the knots (m, k) of the splines of the columns of ``y`` (n, k)."""
        if self.first is not None:
            sums = np.add.reduceat(self.sample_weights[:, None] * y, self.first)
            y = self.inverse_weights[:, None] * sums
        if len(y) < 3:
            return y, np.zeros_like(y)
        differences = (self.upper, self.middle, self.lower)
        y = np.ascontiguousarray(y)
        return spline_fit(differences, self.curvature, self.roughness, self.inverse_weights, y, penalty)

    def at_samples(self, values):
        """Values at the knots (m, k) for each sample (n, k)."""
        return values if self.group is None else values[self.group]

    def slopes(self, values, second):
        """First derivatives at the knots."""
        h = self.gaps[:, None]
        chord = np.diff(values, axis=0) / h
        left = chord - h * (2.0 * second[:-1] + second[1:]) / 6.0
        end = chord[-1] + h[-1] * (second[-2] + 2.0 * second[-1]) / 6.0
        return np.vstack([left, end])
