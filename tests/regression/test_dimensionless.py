"""Samples without units: one writing, whatever units and origin of time they come in."""

import numpy as np
import pytest

from fim_dynsys.regression.dimensionless import dimensionless, still


def noisy(n, seed, regular=True):
    rng = np.random.default_rng(seed)
    t = np.linspace(0.0, 7.3, n) if regular else np.sort(rng.uniform(0.0, 7.3, n))
    return t, np.stack([3.0 + np.cos(t), 0.01 * np.sin(t)], 1) + 0.001 * rng.normal(size=(n, 2))


def assert_same(one, other):
    for (t, x), (s, y) in zip(one.samples, other.samples, strict=True):
        assert t.tobytes() == s.tobytes() and x.tobytes() == y.tobytes()


@pytest.mark.parametrize("regular", [True, False])
def test_units_and_the_origin_of_time_leave_no_trace(regular):
    given = [noisy(60, 0, regular), noisy(35, 1, regular)]
    plain = dimensionless(given)
    assert_same(plain, dimensionless([(t / 1e3, x * [1e3, 1e-2]) for t, x in given]))
    assert_same(plain, dimensionless([(t + 8.0, x) for t, x in given]))


def test_what_is_written_is_the_data_to_eleven_digits():
    given = [noisy(60, 0, False), noisy(35, 1, False)]
    samples, unit, span = dimensionless(given)
    assert span == max(t[-1] - t[0] for t, _ in given)
    for (t, x), (s, z) in zip(given, samples, strict=True):
        assert np.abs(s * span - (t - t[0])).max() < 1e-11 * span
        assert np.abs(z * unit - x).max() < 1e-11 * np.ptp(x)
        assert (np.diff(s) > 0).all()


def test_times_of_a_step_with_samples_left_out_are_multiples_of_it():
    t = 5.0 + 0.1 * np.delete(np.arange(50), [3, 4, 20])
    ((s, _),) = dimensionless([(t, np.zeros((47, 1)))]).samples
    assert s.tobytes() == (np.delete(np.arange(50.0), [3, 4, 20]) / 49.0).tobytes()


def test_times_closer_than_the_grid_stay_apart():
    t = np.array([0.0, 1e-13, 0.5, 1.0])
    ((s, _),) = dimensionless([(t, np.zeros((4, 1)))]).samples
    assert np.array_equal(s, t)


def test_states_at_rest_and_single_samples():
    x = np.array([[2.0, 0.0, 1.0], [2.0, 0.0, 3.0]])
    samples, unit, span = dimensionless([(np.array([0.0, 2.0]), x), (np.array([7.0]), x[:1])])
    assert np.array_equal(samples[0][1] * unit, x) and span == 2.0
    assert np.array_equal(samples[1][0], [0.0])
    assert np.array_equal(still(samples), [True, True, False])


def test_a_large_offset_costs_the_variation_no_digits():
    t = np.linspace(0.0, 1.0, 30)
    x = (1e8 + np.sin(t))[:, None]
    samples, unit, _ = dimensionless([(t, x)])
    assert np.abs(samples[0][1] * unit - x).max() < 1e-7  # the digits of a double at 1e8
