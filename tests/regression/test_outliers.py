"""Outliers beside their neighbours and about a path."""

from functools import cache

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fim_dynsys
from fim_dynsys.corruption import add_noise
from fim_dynsys.regression.outliers import beyond, without_outliers
from fim_dynsys.trajectories.container import Trajectories

T = np.linspace(0.0, 20.0, 200)
SMOOTH = Trajectories.from_arrays(np.stack([2.0 + np.sin(T), np.cos(1.3 * T)], axis=1), T)


def spoilt(trajectories, samples, by):
    (x,) = (np.array(x) for _, x in trajectories.arrays())
    x[samples, 0] += by
    return trajectories.with_x([x])


def times_of(trajectories):
    return trajectories.arrays()[0][0]


@pytest.mark.parametrize("sigma", [0.0, 1e-3, 0.02, 0.1])
@pytest.mark.parametrize("kind", ["additive", "multiplicative"])
def test_noise_alone_leaves_the_same_object(sigma, kind):
    for seed in range(5):
        noisy = add_noise(SMOOTH, sigma, seed, kind) if sigma else SMOOTH
        assert without_outliers(noisy) is noisy


@pytest.mark.parametrize("sigma", [0.0, 0.02])
def test_isolated_errors_are_left_out_and_nothing_else(sigma):
    samples = [20, 61, 62, 110, 150]
    noisy = add_noise(SMOOTH, sigma, 0, "additive") if sigma else SMOOTH
    kept = times_of(without_outliers(spoilt(noisy, samples, [0.5, 0.6, -0.6, -0.4, 0.5])))
    lost = np.setdiff1d(np.arange(200), np.searchsorted(T, kept))
    assert set(lost) <= set(samples) and {20, 110, 150} <= set(lost)


def test_a_fast_motion_is_none():
    spikes = np.exp(-(((T % 5.0) - 2.5) ** 2) / 0.02)
    fast = Trajectories.from_arrays(np.stack([spikes, np.tanh(20.0 * np.sin(T))], axis=1), T)
    assert without_outliers(fast) is fast


def lienard(_, z):
    return [10.0 * (z[0] - z[0] ** 3 / 3.0 - z[1]), z[0] / 10.0]


def hindmarsh_rose(_, s):
    fast = s[1] - s[0] ** 3 + 3.0 * s[0] ** 2 - s[2] + 3.0
    return [fast, 1.0 - 5.0 * s[0] ** 2 - s[1], 0.006 * (4.0 * (s[0] + 1.6) - s[2])]


def goldbeter(_, s):
    out, back = (
        s[0] ** 2 / (1.0 + s[0] ** 2),
        s[1] ** 2 / (4.0 + s[1] ** 2) * s[0] ** 4 / (0.9**4 + s[0] ** 4),
    )
    return [3.19 - 65.0 * out + 500.0 * back + s[1] - 10.0 * s[0], 65.0 * out - 500.0 * back - s[1]]


@cache
def recorded(rates, start, end, n):
    t = np.linspace(0.0, end, n)
    x = solve_ivp(rates, (0.0, end), start, "LSODA", t, rtol=1e-9, atol=1e-11).y.T
    return Trajectories.from_arrays(x, t)


FAST = [(lienard, (2.0, 0.0), 120.0, 300), (hindmarsh_rose, (-1.0, 0.0, 2.8), 300.0, 400)]
FAST += [(goldbeter, (0.5, 1.0), 8.0, n) for n in (100, 200)]


@pytest.mark.parametrize("system", FAST)
def test_a_transient_that_few_samples_see_is_none(system):
    """Its peak is one sample; the other state has jumped beside it."""
    noise_free = recorded(*system)
    assert without_outliers(noise_free) is noise_free


def test_errors_are_found_beside_transients():
    noise_free = recorded(*FAST[0])
    kept = times_of(without_outliers(spoilt(noise_free, [50, 120, 200], [1.0, -1.5, 0.8])))
    assert np.flatnonzero(~np.isin(times_of(noise_free), kept)).tolist() == [50, 120, 200]


def test_few_and_frequent_samples_are_kept():
    few = Trajectories.from_arrays(np.append(np.zeros(9), 1.0)[:, None], np.arange(10.0))
    assert without_outliers(few) is few
    every_fourth = spoilt(SMOOTH, np.arange(2, 198, 4), 0.5)
    assert without_outliers(every_fourth) is every_fourth


def test_about_a_path_all_are_found_but_the_first():
    (_, path), rng = SMOOTH.arrays()[0], np.random.default_rng(0)
    x = path + 0.02 * rng.standard_normal(path.shape)
    x[[0, 1, 61, 62, 199], 0] += 0.3
    (far,) = beyond([x], [path], [np.zeros(len(x), dtype=bool)])
    assert np.flatnonzero(far).tolist() == [1, 61, 62, 199]


def test_a_path_that_misses_fast_motions_tells_of_suspects_alone():
    (_, path), suspected = SMOOTH.arrays()[0], np.zeros(200, dtype=bool)
    x = path.copy()
    x[60:66, 0] += [0.3, 0.8, 1.5, 1.0, 0.5, 0.2]
    x[:, 1] += 0.02 * np.sin(0.3 * np.arange(200))
    x[120, 0] += 2.0
    suspected[[40, 120]] = True
    (far,) = beyond([x], [path], [suspected])
    assert np.flatnonzero(far).tolist() == [120]


def test_a_path_that_explains_little_tells_nothing():
    (_, path) = SMOOTH.arrays()[0]
    assert beyond([path], [path[::-1]], [np.zeros(len(path), dtype=bool)]) is None
    assert beyond([path], [np.full_like(path, np.nan)], [np.zeros(len(path), dtype=bool)]) is None


def test_several_trajectories_and_names_are_kept():
    two = Trajectories.from_arrays(
        [x for _, x in SMOOTH.arrays() * 2], [T, T], state_names=["prey", "hunter"]
    )
    x = [np.array(own) for _, own in two.arrays()]
    x[1][100, 1] += 0.9
    kept = fim_dynsys.without_outliers(two.with_x(x))
    assert kept.n_obs.tolist() == [200, 199] and kept.state_names == ("prey", "hunter")
