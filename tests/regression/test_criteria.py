"""Noise level and law from data, and information criteria."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from fim_dynsys.regression.criteria import (
    VARIANCE_FLOOR,
    NoiseModel,
    bic,
    looks_noise_free,
    noise_model,
    pseudo_residuals,
)


def signal(t):
    return np.stack([np.sin(t), 10.0 * np.cos(0.7 * t)], axis=1)


@pytest.mark.parametrize("sigma", [0.0, 1e-4, 3e-3, 0.05, 0.2])
@pytest.mark.parametrize("n", [40, 400])
def test_clean_samples_are_told_from_noisy_ones(sigma, n):
    t = np.linspace(0.0, 20.0, n)  # 40 samples are few: cubics miss as much as noise of several percent
    x = signal(t)
    noisy = x + sigma * np.random.default_rng(0).normal(size=x.shape) * x.std(axis=0)
    assert looks_noise_free([(t, noisy)]) == (sigma < 0.01)
    assert not looks_noise_free([(t[:17], x[:17])])


@pytest.mark.parametrize(("additive", "seed"), [(True, 0), (True, 1), (False, 0), (False, 1)])
def test_level_and_law_of_the_noise(additive, seed):
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, 20, size=600))
    x = signal(t)
    rms = np.sqrt(np.mean(x**2, axis=0))
    noise = 0.05 * rng.normal(size=x.shape) * (rms if additive else x)
    noise = noise_model([(t[:250], (x + noise)[:250]), (t[250:], (x + noise)[250:])])
    # 600 pseudo-residuals, correlated over five samples: a standard error of about 6 %
    np.testing.assert_allclose(noise.level, 0.05 * rms, rtol=0.15)
    assert (noise.share > 0.4).all() if additive else (noise.share < 0.05).all()


def few_samples(seed):
    """Every second of 240 samples, at random, of two waves with 11 and 9 of all 240 a period."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.choice(np.linspace(0, 60, 240), 120, replace=False))
    x = np.stack([np.sin(2.2 * t), 10.0 * np.cos(2.9 * t)], axis=1)
    rms = np.sqrt(np.mean(x**2, axis=0))
    return t, x + 0.05 * rms * rng.normal(size=x.shape), rms


@pytest.mark.parametrize("seed", range(6))
def test_noise_of_few_samples_is_told_from_the_error_of_interpolation(seed):
    t, x, rms = few_samples(seed)
    level = noise_model([(t, x)]).level / (0.05 * rms)
    residuals, _ = pseudo_residuals(t, x)
    assert (np.sqrt(np.mean(residuals**2, axis=0)) > 2.5 * level * 0.05 * rms).all()
    assert 0.6 < level[0] < 1.4 and 1.2 < level[1] < 3.0  # the faster wave has a gap too many in each period


def test_even_sampling_does_not_tell_noise_from_the_error_of_interpolation():
    t = np.linspace(0, 60, 120)
    x = np.stack([np.sin(2.2 * t), 10.0 * np.cos(2.9 * t)], axis=1)
    residuals, errors = pseudo_residuals(t, x)
    np.testing.assert_allclose(errors, errors[0], rtol=1e-9)
    noise = noise_model([(t, x)])
    np.testing.assert_allclose(noise.level[0], np.sqrt(np.mean(residuals[:, 0] ** 2)), rtol=0.3)


def test_jumps_of_a_relaxation_oscillation_are_no_noise():
    """Lienard's: with its jumps, the noise of the fast state was four times as large."""
    t = np.linspace(0.0, 80.0, 200)
    found = solve_ivp(
        lambda _, s: [20 * (s[1] - s[0] ** 3 / 3 + s[0]), -s[0] / 20], (0, 80), [2.0, 0.0], "LSODA", t
    )
    x, spread = found.y.T, found.y.std(axis=1)
    for seed in range(4):
        errors = 0.03 * spread * np.random.default_rng(seed).standard_normal(x.shape)
        level = noise_model([(t, x + errors)]).level
        np.testing.assert_allclose(level, 0.03 * spread, rtol=0.25)  # 3 times the standard error


def test_clean_data_have_next_to_no_noise():
    t = np.linspace(0, 20, 600)
    assert (noise_model([(t, signal(t))]).level < 1e-4 * np.array([1.0, 10.0])).all()


def test_pseudo_residuals_vanish_on_cubics_and_have_unit_variance_on_noise():
    rng = np.random.default_rng(2)
    t = np.sort(rng.uniform(0, 10, size=4000))
    np.testing.assert_allclose(pseudo_residuals(t[:60], t[:60, None] ** 3)[0], 0.0, atol=1e-8)
    residuals, _ = pseudo_residuals(t, rng.normal(size=(4000, 1)))
    assert np.var(residuals) == pytest.approx(1.0, abs=0.08)


def test_quartics_leave_pseudo_residuals_of_the_stated_error():
    t = np.sort(np.random.default_rng(4).uniform(0, 10, size=40))
    residuals, errors = pseudo_residuals(t, t[:, None] ** 4)
    np.testing.assert_allclose(residuals[:, 0], errors, rtol=1e-6, atol=1e-9)


def test_law_scales_with_the_state():
    rng = np.random.default_rng(3)
    t = np.linspace(0, 20, 300)
    x = signal(t) * (1 + 0.05 * rng.normal(size=(300, 2)))
    noise, scaled = noise_model([(t, x)]), noise_model([(60 * t, 1e3 * x)])
    np.testing.assert_allclose(scaled.level, 1e3 * noise.level, rtol=1e-10)
    np.testing.assert_array_equal(scaled.share, noise.share)
    np.testing.assert_allclose(scaled.weights(1e3 * x), noise.weights(x), rtol=1e-9)


def test_relative_variance_is_one_at_the_root_mean_square():
    noise = NoiseModel(np.array([2.0]), np.array([0.1]), np.array([5.0]))
    assert noise.relative_variance(np.array([5.0])) == pytest.approx(1.0)
    assert noise.relative_variance(np.array([0.0])) == pytest.approx(0.1)


def test_bic_by_hand_and_its_floor():
    value = bic([0.5, 2.0], 100, 7, [1.0, 4.0], n_starts=2)
    penalty = (7 + 4) * math.log(200) * 200 / (200 - 11 - 1)  # of 200 values and 11 numbers
    assert value == pytest.approx(100 * (math.log(0.5) + math.log(2.0)) + penalty)
    floored = bic([0.0, 2.0], 100, 7, [1.0, 4.0], n_starts=2)
    assert floored == pytest.approx(100 * (math.log(VARIANCE_FLOOR) + math.log(2.0)) + penalty)
    assert bic([0.5], 12, 10, [1.0]) == np.inf  # as many numbers as values explain anything
    assert bic([[np.nan, 1.0]], 100, 1, [1.0, 1.0])[0] == np.inf


def test_few_samples():
    with pytest.raises(ValueError, match="pseudo_residuals: expected at least 5 samples, got 4"):
        pseudo_residuals(np.arange(4.0), np.ones((4, 1)))
    noise = noise_model([(np.arange(4.0), np.ones((4, 2)))])
    np.testing.assert_array_equal(noise.level, 0.0)


def test_what_an_input_bends_is_no_noise():
    """Slopes that jump at known samples look like noise, and are none."""
    t = np.arange(60.0)
    jumps = np.zeros(60)
    jumps[[9, 21, 32, 46]] = 1.0, -2.0, 2.0, -1.0
    x = np.cumsum(np.cumsum(jumps))[:, None] + np.sin(0.05 * t)[:, None]
    bends = np.roll(jumps != 0.0, -1)  # a slope is that to the next sample
    taken = noise_model([(t, x)]).level
    assert noise_model([(t, x)], [bends]).level < 1e-3 * taken
    assert noise_model([(t, x)], [np.ones(60, dtype=bool)]).level == taken
