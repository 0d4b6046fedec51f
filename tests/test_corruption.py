"""Noise, dropping, truncation: exact counts, the stated law, reproducible by seed."""

import numpy as np
import pytest

from fim_dynsys.corruption import add_noise, add_outliers, drop, truncate
from fim_dynsys.trajectories.container import Trajectories

T = np.linspace(0, 10, 401)
DATA = Trajectories.from_arrays(
    [np.column_stack([2 + np.sin(T), -100 * np.exp(-T)]), np.ones((201, 2))],
    [T, T[:201]],
    state_names=["a", "b"],
    coords={"mu": [1, 2]},
    units={"a": "m"},
)


def relative_noise(noisy):
    return np.concatenate([(n / x - 1) for (_, n), (_, x) in zip(noisy.arrays(), DATA.arrays(), strict=True)])


def test_multiplicative_noise_is_relative_normal_and_independent():
    eps = relative_noise(add_noise(DATA, 0.05, rng=0)) / 0.05
    n = eps.size
    assert abs(eps.mean()) < 4 / np.sqrt(n)
    assert abs(eps.var() - 1) < 4 * np.sqrt(2 / n)
    assert abs(np.mean(eps**4) - 3) < 4 * np.sqrt(96 / n)  # kurtosis of the normal law
    assert abs(np.mean(eps[:, 0] * eps[:, 1])) < 4 / np.sqrt(n / 2)
    assert abs(np.mean(eps[1:, 0] * eps[:-1, 0])) < 4 / np.sqrt(n / 2)


def test_additive_noise_has_one_level_per_state():
    noisy = add_noise(DATA, [0.1, 10], rng=1, kind="additive")
    eps = np.concatenate([n - x for (_, n), (_, x) in zip(noisy.arrays(), DATA.arrays(), strict=True)])
    np.testing.assert_allclose(eps.std(axis=0), [0.1, 10], rtol=4 / np.sqrt(2 * len(eps)))


def test_outliers_have_one_size_either_sign_and_their_share():
    off = relative_noise(add_outliers(DATA, 0.1, [0.2, 0.5], rng=0))
    hit = ~np.isclose(off, 0.0)
    np.testing.assert_allclose(np.abs(off[:, 0][hit[:, 0]]), 0.2)
    np.testing.assert_allclose(np.abs(off[:, 1][hit[:, 1]]), 0.5)
    assert abs(hit.mean() - 0.1) < 4 * np.sqrt(0.09 / hit.size)
    assert abs(np.sign(off[hit]).mean()) < 4 / np.sqrt(hit.sum())


def test_the_same_random_numbers_scale_with_sigma():
    small, large = (relative_noise(add_noise(DATA, sigma, rng=7)) for sigma in (0.01, 0.1))
    np.testing.assert_allclose(10 * small, large, rtol=0, atol=1e-13)  # rounding of 1 + sigma eps
    assert add_noise(DATA, 0.0, rng=7).equals(DATA)


@pytest.mark.parametrize("corrupt", [lambda d, r: add_noise(d, 0.1, r), lambda d, r: drop(d, 0.5, r)])
def test_seeds_repeat_and_generators_move_on(corrupt):
    assert corrupt(DATA, 3).equals(corrupt(DATA, 3))
    assert corrupt(DATA, 3).equals(corrupt(DATA, np.random.default_rng(3)))
    rng = np.random.default_rng(3)
    assert not corrupt(DATA, rng).equals(corrupt(DATA, rng))


def test_noise_leaves_the_rest_alone():
    x = DATA.x.copy()
    x[0, 3, 1] = np.nan
    noisy = add_noise(DATA.with_x(x), 0.1, rng=0)
    np.testing.assert_array_equal(np.isnan(noisy.x), np.isnan(x))
    np.testing.assert_array_equal(noisy.t, DATA.t)
    assert noisy.units == DATA.units and noisy.coords["mu"].tolist() == [1, 2]
    assert not DATA.equals(noisy)


@pytest.mark.parametrize(
    ("n", "rho"), [(200, 0.5), (10, 0.9), (10, 0.7), (7, 0.3), (1, 0), (201, 0.5), (3, 0.6)]
)
def test_drop_keeps_exactly_the_stated_number(n, rho):
    data = Trajectories.from_arrays(np.arange(n), np.arange(n))
    kept = drop(data, rho, rng=0)
    exact = (1000 - round(1000 * rho)) * n // 1000  # floor((1 - rho) n) in integers
    assert kept.n_obs.tolist() == [exact]
    np.testing.assert_array_equal(kept.x[0, :, 0], kept.t[0])


def test_drop_gives_every_sample_the_same_chance():
    data = Trajectories.from_arrays(np.arange(10), np.arange(10))
    rng = np.random.default_rng(0)
    counts = np.bincount(
        np.concatenate([drop(data, 0.5, rng).t[0].astype(int) for _ in range(400)]), minlength=10
    )
    assert (np.abs(counts - 200) < 4 * np.sqrt(400 * 0.25)).all()


def test_truncate_includes_the_end():
    short = truncate(DATA, T[100])
    assert short.n_obs.tolist() == [101, 101]
    np.testing.assert_array_equal(short.t[0], T[:101])
    np.testing.assert_array_equal(short.x[0], DATA.x[0, :101])
    assert truncate(DATA, T[300]).n_obs.tolist() == [301, 201]
    assert truncate(DATA, np.inf).equals(DATA)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda: add_noise(DATA, -0.1, 0), "add_noise: expected finite sigma >= 0, got -0.1"),
        (lambda: add_outliers(DATA, 1.5, 0.1, 0), r"add_outliers: expected a share in \[0, 1\], got 1.5"),
        (lambda: add_outliers(DATA, 0.1, -1.0, 0), "add_outliers: expected finite size >= 0, got -1.0"),
        (lambda: add_noise(DATA, np.nan, 0), "add_noise: expected finite sigma"),
        (
            lambda: add_noise(DATA, [1, 2, 3], 0),
            r"add_noise: expected sigma to be a number or 2 of them, got \[1",
        ),
        (lambda: add_noise(DATA, "5%", 0), "add_noise: expected sigma to be a number"),
        (lambda: add_noise(DATA, 0.1, 0, kind="pink"), "add_noise: expected kind .* got 'pink'"),
        (lambda: drop(DATA, 1.0, 0), r"drop: expected a fraction rho in \[0, 1\), got 1.0"),
        (lambda: drop(DATA, -0.1, 0), "drop: expected a fraction"),
        (lambda: drop(DATA, np.nan, 0), "drop: expected a fraction"),
        (lambda: drop(DATA, 0.999, 0), "drop: expected samples to remain, got none of 401 in trajectory 0"),
        (lambda: truncate(DATA, -1), "truncate: expected samples up to t_max = -1, got times from 0 on"),
        (lambda: truncate(DATA, np.nan), "truncate: expected samples up to t_max = nan"),
    ],
)
def test_bad_requests_are_refused(spoil, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        spoil()
