"""States and slopes at the observation times from noisy, irregular samples."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fim_dynsys.regression.kernels.windows import neighbour_distances, window_fits
from fim_dynsys.regression.splines import checked, constant_velocity, gcv_spline

BANK_WIDTHS = (0.8, 1.6, 3.0, 6.0, 12.0, 24.0)
"""Standard deviations of the bank's Gaussian windows, in mean gaps."""

_RIDGE = 1e-9  # of the mean diagonal: keeps windows of few samples solvable
_CUTOFF = 9.0  # standard deviations; exp(-0.5 * 9^2) = 3e-18 of the weight is left out
_SMALLEST_WINDOW = np.finfo(float).tiny ** 0.5  # where a single sample leaves none
_MANY, _KNOTS_PER_WIDTH = 1000, 16  # local fits to more samples are interpolated between knots


def smoothing_bank(
    t: np.ndarray, x: np.ndarray, widths: Sequence[float] = BANK_WIDTHS
) -> tuple[np.ndarray, np.ndarray]:
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
    t, x = checked(t, x, "smoothing_bank", fewest=1)
    states, slopes = local_cubic(t, x, t, widths)
    narrowest = int(np.argmin(widths))
    return np.concatenate([states, x[None]]), np.concatenate([slopes, slopes[narrowest : narrowest + 1]])


def local_cubic(
    t: np.ndarray, x: np.ndarray, eval_times: np.ndarray, widths: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
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
    t, x = checked(t, x, "local_cubic", fewest=1)
    s = np.ascontiguousarray(eval_times, dtype=np.float64)
    if (np.diff(s) < 0).any():
        raise ValueError("local_cubic: expected increasing eval_times, got others; sort them.")
    mean_gap = (t[-1] - t[0]) / max(len(t) - 1, 1)
    h = np.maximum(mean_gap * np.asarray(widths)[:, None], 0.5 * neighbour_distances(t, s, 5))
    return window_fits(t, x, s, np.maximum(h, _SMALLEST_WINDOW), _CUTOFF, _RIDGE)


def finite_differences(
    t: np.ndarray, x: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Raw samples and their second-order differences on the uneven grid (numpy.gradient)."""
    t, x = checked(t, x, "finite_differences")
    return x, np.gradient(x, t, axis=0, edge_order=2 if len(t) > 2 else 1)


def smallest_gap(t: np.ndarray) -> np.ndarray:
    """Smallest gap in the stencil of `finite_differences` at each of the times ``t`` (n,), n >= 2."""
    gaps = np.diff(t)
    if len(gaps) == 1:
        return np.repeat(gaps, 2)
    pairs = np.minimum(gaps[:-1], gaps[1:])
    return np.concatenate([pairs[:1], pairs, pairs[-1:]])


def tricube_cubic(
    t: np.ndarray, x: np.ndarray, half_width: float, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
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
    t, x = checked(t, x, "tricube_cubic")
    knots = _knots(t, half_width / _KNOTS_PER_WIDTH) if len(t) > _MANY else slice(None)
    h = np.maximum(half_width, 1.01 * neighbour_distances(t, t[knots], 6))
    states, slopes = _windowed_cubic(
        t, x, t[knots], h, h, lambda u: np.clip(1.0 - np.abs(u) ** 3, 0.0, None) ** 3, weights
    )
    if len(states) == len(t):
        return states, slopes
    from scipy.interpolate import CubicSpline  # deferred: only long records need it

    both = CubicSpline(t[knots], np.stack([states, slopes], axis=1))(t)
    return both[:, 0], both[:, 1]


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

    def __call__(
        self, t: np.ndarray, x: np.ndarray, weights: np.ndarray | None = None, span: float | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
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
        return self.smooth(t, x, weights, t[-1] - t[0] if span is None else span)

    def differentiates(self, t: np.ndarray) -> bool:
        """Whether samples at ``t`` get finite differences."""
        return len(t) < 6 or self.smooth is _differences


def _differences(
    t: np.ndarray, x: np.ndarray, weights: np.ndarray | None, span: float
) -> tuple[np.ndarray, np.ndarray]:
    return finite_differences(t, x)


def _cubic_of_samples(
    t: np.ndarray, x: np.ndarray, weights: np.ndarray | None, span: float
) -> tuple[np.ndarray, np.ndarray]:
    return tricube_cubic(t, x, 5.5 * (t[-1] - t[0]) / (len(t) - 1), weights)


def _spline(
    t: np.ndarray, x: np.ndarray, weights: np.ndarray | None, span: float
) -> tuple[np.ndarray, np.ndarray]:
    return gcv_spline(t, x, weights)


def _cubic_of_span(fraction: float) -> Smoother:
    return Smoother(
        f"local cubic, {100 * fraction:g} % of the span",
        lambda t, x, weights, span: tricube_cubic(t, x, fraction * span, weights),
    )


def _velocity_of_span(fraction: float) -> Smoother:
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


def _knots(t: np.ndarray, cell: float) -> np.ndarray:
    """Indices of the first and last sample in each occupied cell of time."""
    cells = np.floor((t - t[0]) / cell)
    new = np.diff(cells) > 0
    return np.flatnonzero(np.concatenate([[True], new]) | np.concatenate([new, [True]]))


def _windowed_cubic(
    t: np.ndarray,
    x: np.ndarray,
    s: np.ndarray,
    h: np.ndarray,
    reach: np.ndarray,
    kernel: Callable[[np.ndarray], np.ndarray],
    weights: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
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


def _ridge_cubic(powers: np.ndarray, w: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Coefficients (k, 4, d) of the cubics: ``powers`` (k, 4, L), weights (k, L), values (k, L, d)."""
    weighted = powers * w[:, None, :]
    normal = weighted @ powers.transpose(0, 2, 1)
    ridge = _RIDGE * np.trace(normal, axis1=1, axis2=2) / 4.0
    normal[:, range(4), range(4)] += ridge[:, None]
    return np.linalg.solve(normal, weighted @ y)
