"""Smoothers: exact on polynomials, invariant, and equal to independent implementations."""

import numpy as np
import pytest
from scipy.interpolate import make_smoothing_spline

from fim_dynsys.regression import smoothing
from fim_dynsys.regression.smoothing import (
    BANK_WIDTHS,
    TIME_AWARE,
    finite_differences,
    local_cubic,
    smoothing_bank,
    tricube_cubic,
)
from fim_dynsys.regression.splines import constant_velocity, gcv_spline

RNG = np.random.default_rng(2)
T = np.sort(RNG.uniform(0, 8, size=90))
X = np.stack([np.sin(T), np.cos(2 * T)], axis=1)
NOISY = X + 0.05 * RNG.normal(size=X.shape)


def bank_by_definition(t, x, s, width):
    """One fit of the bank, written as its definition reads."""
    distances = np.sort(np.abs(t - s))
    h = max(width * (t[-1] - t[0]) / (len(t) - 1), 0.5 * distances[min(4, len(t) - 1)])
    u = (t - s) / h
    powers = u[:, None] ** np.arange(4)
    w = np.exp(-0.5 * u**2)
    normal = powers.T @ (w[:, None] * powers)
    normal += 1e-9 * np.trace(normal) / 4 * np.eye(4)
    c = np.linalg.solve(normal, powers.T @ (w[:, None] * x))
    return c[0], c[1] / h


@pytest.mark.parametrize("n, crowded", [(90, False), (12, False), (4, False), (2, False), (90, True)])
def test_bank_follows_its_definition(n, crowded):
    """Also where the second half of the samples crowds into a short stretch of time."""
    t, x = T[:n].copy(), NOISY[:n]
    t[n // 2 :] = t[n // 2] + (1e-4 if crowded else 1.0) * (t[n // 2 :] - t[n // 2])
    # two samples leave two of four coefficients to the ridge: rounding is amplified by 1e9 and the window
    tolerance = 1e-10 if n > 2 else 1e-6
    states, slopes = smoothing_bank(t, x)
    assert states.shape == slopes.shape == (len(BANK_WIDTHS) + 1, n, 2)
    for level, width in enumerate(BANK_WIDTHS):
        for j in (0, n // 2, n - 1):
            state, slope = bank_by_definition(t, x, t[j], width)
            np.testing.assert_allclose(states[level, j], state, rtol=tolerance, atol=tolerance)
            np.testing.assert_allclose(slopes[level, j], slope, rtol=10 * tolerance, atol=10 * tolerance)
    np.testing.assert_array_equal(states[-1], x)
    np.testing.assert_array_equal(slopes[-1], slopes[0])


def test_a_single_sample_is_its_own_fit():
    states, slopes = smoothing_bank(T[:1], NOISY[:1])
    np.testing.assert_allclose(states, np.broadcast_to(NOISY[:1], states.shape), rtol=1e-9)  # the ridge
    np.testing.assert_array_equal(slopes, 0.0)


def test_local_fits_are_wanted_at_increasing_times():
    with pytest.raises(ValueError, match="expected increasing eval_times"):
        local_cubic(T, NOISY, T[::-1], (1.0,))


def test_bank_reproduces_cubics_anywhere():
    s = np.linspace(0.1, 7.8, 13)
    cubic, slope = (1 - T + 0.3 * T**2 - 0.05 * T**3)[:, None], -1 + 0.6 * s - 0.15 * s**2
    states, slopes = local_cubic(T, cubic, s, (3.0, 24.0))
    # the ridge of 1e-9 leaves about 1e-6
    np.testing.assert_allclose(states[:, :, 0], np.tile(1 - s + 0.3 * s**2 - 0.05 * s**3, (2, 1)), atol=1e-5)
    np.testing.assert_allclose(slopes[:, :, 0], np.tile(slope, (2, 1)), atol=1e-4)


def test_constant_velocity_equals_scipys_spline():
    weights = RNG.uniform(0.5, 2.0, size=X.shape)
    states, slopes = constant_velocity(T, NOISY, 0.3, weights)
    for i in range(2):
        penalty = 0.3**4 * (len(T) - 1) / (T[-1] - T[0])
        spline = make_smoothing_spline(T, NOISY[:, i], w=weights[:, i], lam=penalty)
        np.testing.assert_allclose(states[:, i], spline(T), atol=1e-8)
        np.testing.assert_allclose(slopes[:, i], spline.derivative()(T), atol=1e-6)


def test_cross_validated_spline_is_as_good_as_scipys():
    states, _ = gcv_spline(T, NOISY)
    for i in range(2):
        theirs = make_smoothing_spline(T, NOISY[:, i])(T)
        error, reference = (np.sqrt(np.mean((s - X[:, i]) ** 2)) for s in (states[:, i], theirs))
        assert error < 1.15 * reference


@pytest.mark.parametrize("smoother", TIME_AWARE, ids=lambda s: s.name)
def test_smoothers_are_exact_on_lines_and_invariant(smoother):
    line = np.stack([2 - 3 * T, 0.5 * T], axis=1)
    states, slopes = smoother(T, line)
    np.testing.assert_allclose(states, line, atol=1e-6)
    np.testing.assert_allclose(slopes, np.tile([-3.0, 0.5], (len(T), 1)), atol=1e-5)
    states, slopes = smoother(T, NOISY)
    other_states, other_slopes = smoother(60 * T + 5, 1e3 * NOISY)
    np.testing.assert_allclose(other_states, 1e3 * states, rtol=1e-6, atol=1e-4)
    np.testing.assert_allclose(other_slopes, 1e3 / 60 * slopes, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("smoother", TIME_AWARE, ids=lambda s: s.name)
def test_short_trajectories(smoother, n):
    states, slopes = smoother(T[:n], NOISY[:n])
    assert states.shape == slopes.shape == (n, 2)
    assert np.isfinite(slopes).all()


def test_smoothing_reduces_the_error_of_slopes():
    truth = np.stack([np.cos(T), -2 * np.sin(2 * T)], axis=1)
    raw = np.sqrt(np.mean((finite_differences(T, NOISY)[1] - truth) ** 2))
    for fit in (tricube_cubic(T, NOISY, 0.8), constant_velocity(T, NOISY, 0.2), gcv_spline(T, NOISY)):
        assert np.sqrt(np.mean((fit[1] - truth) ** 2)) < 0.1 * raw


@pytest.mark.parametrize("call", [smoothing_bank, gcv_spline, finite_differences])
def test_bad_input_is_named(call):
    with pytest.raises(
        ValueError, match=rf"{call.__name__}: expected t of shape \(n,\).*got \(3,\) and \(2, 1\)"
    ):
        call(np.arange(3.0), np.ones((2, 1)))
    with pytest.raises(ValueError, match=r"expected increasing times, got 2 and then 1 \(position 2\)"):
        call(np.array([0.0, 2.0, 1.0]), np.ones((3, 1)))
    with pytest.raises(ValueError, match="expected complete samples, got 1 with a value"):
        call(np.arange(3.0), np.array([[1.0], [np.nan], [2.0]]))


def test_many_samples_are_fitted_at_knots(monkeypatch):
    t = np.sort(np.random.default_rng(5).uniform(0, 20, 1500))
    truth = np.stack([np.sin(t), np.cos(2 * t)], axis=1), np.stack([np.cos(t), -2 * np.sin(2 * t)], axis=1)
    x = truth[0] + 0.1 * np.random.default_rng(6).normal(size=(1500, 2))
    at_knots = tricube_cubic(t, x, 1.0)
    monkeypatch.setattr(smoothing, "_MANY", 1500)
    everywhere = tricube_cubic(t, x, 1.0)
    for some, each, true in zip(at_knots, everywhere, truth, strict=True):
        assert 0.0 < np.std(some - each) < 0.01 * np.std(each - true)


@pytest.mark.parametrize("smoother", TIME_AWARE[5:], ids=lambda s: s.name)
def test_splines_of_samples_that_almost_coincide(smoother):
    close = np.sort(np.concatenate([T, T + 1e-9]))
    states, slopes = smoother(close, np.repeat(NOISY, 2, axis=0))
    np.testing.assert_array_equal(states[::2], states[1::2])
    if smoother is not TIME_AWARE[-1]:  # the mean gap, to which the penalty refers, is half
        single, _ = smoother(T, NOISY)
        np.testing.assert_allclose(states[::2], single, atol=0.2 * np.std(NOISY - single))
    assert np.isfinite(slopes).all()


def test_splines_much_wider_than_the_data_are_lines():
    t = 1e-6 * T[:12]
    line = 2.0 + np.outer(T[:12], [1.0, -3.0])
    bent = line + 1e-3 * np.cos(np.arange(12.0))[:, None]
    states, slopes = constant_velocity(t, bent, bandwidth=1.0)
    for column, fitted, slope in zip(bent.T, states.T, slopes.T, strict=True):
        rate, level = np.polyfit(t, column, 1)
        np.testing.assert_allclose(fitted, level + rate * t, atol=1e-6)
        np.testing.assert_allclose(slope, rate, rtol=1e-4)
