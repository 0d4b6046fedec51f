"""Long records keep what they say of the path and of the noise."""

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys.models import equations_parts
from fim_dynsys.regression import thinning
from fim_dynsys.regression.observed import observe
from fim_dynsys.regression.splines import gcv_spline
from fim_dynsys.regression.thinning import MANY, thin


def oscillation(n, turns=3.0, noise=0.05, seed=0):
    rng = np.random.default_rng(seed)
    t = np.linspace(1.0, 11.0, n)
    angle = 2.0 * np.pi * turns * (t - 1.0) / 10.0
    x = np.stack([np.cos(angle), -np.sin(angle)], axis=1)
    return t, x + noise * rng.standard_normal(x.shape)


def test_up_to_the_limit_samples_stay_as_they_are():
    samples = [oscillation(MANY - 100), oscillation(100)]
    kept, origin = thin(samples)
    assert all(
        a is b for own, given in zip(kept, samples, strict=True) for a, b in zip(own, given, strict=True)
    )
    assert origin == [(0, 0), (1, 0)]


def test_a_smooth_record_becomes_means_on_its_path():
    t, x = oscillation(400_000, noise=0.2)
    ((times, states),), origin = thin([(t, x)])
    assert len(times) == MANY and origin == [(0, 0)]
    assert times[0] == t[0]
    angle = 2.0 * np.pi * 3.0 * (times - 1.0) / 10.0
    error = states - np.stack([np.cos(angle), -np.sin(angle)], axis=1)
    # means of 20 samples; the line at the first has about twice the deviation
    np.testing.assert_allclose(error.std(axis=0), 0.2 / np.sqrt(20), rtol=0.03)
    assert np.abs(error[0]).max() < 8 * 0.2 / np.sqrt(20)


def test_fast_motion_is_not_averaged_away():
    """2,000 turns of 200 samples: forty or more of each turn stay, in stretches that lie in the record."""
    t, x = oscillation(400_000, turns=2000, noise=0.0)
    kept, origin = thin([(t, x)])
    assert sum(len(times) for times, _ in kept) <= 1.1 * MANY
    gaps = np.concatenate([np.diff(times) for times, _ in kept])
    assert np.median(gaps) <= 10.0 / 2000 / 40
    np.testing.assert_allclose(np.concatenate([np.hypot(*z.T) for _, z in kept]), 1.0, atol=3e-3)
    assert origin[0] == (0, 0) and len(origin) > 10


def test_short_trajectories_are_kept_whole_or_not_at_all():
    samples = [oscillation(10, seed=k) for k in range(10_000)]
    kept, origin = thin(samples)
    assert len(kept) == 2000
    assert all(
        a == 0 and np.array_equal(z, samples[k][1]) for (k, a), (_, z) in zip(origin, kept, strict=True)
    )


def test_gaps_are_not_averaged_over():
    t, x = oscillation(100_000, noise=0.0)
    inside = (t < 4.0) | (t > 8.0)
    ((times, _),), _ = thin([(t[inside], x[inside])])
    assert not ((times > 4.001) & (times < 7.999)).any()


def test_the_noise_reported_is_that_of_a_sample():
    observations = observe([oscillation(100_000)])
    np.testing.assert_allclose(observations.noise_level, 0.05, rtol=0.03)
    np.testing.assert_allclose(observations.noise.level * observations.scale, 0.05 / np.sqrt(5), rtol=0.03)


@pytest.mark.parametrize("n", [20_000, 100_000])
def test_splines_of_dense_samples(n):
    """A bandwidth of thousands of gaps: the penalty would leave no digit for the rest of the matrix."""
    t, x = oscillation(n)
    states, slopes = gcv_spline(t, x[:, :1])
    angle = 2.0 * np.pi * 3.0 * (t - 1.0) / 10.0
    assert np.sqrt(np.mean((states[:, 0] - np.cos(angle)) ** 2)) < 0.05 * 20 / np.sqrt(n)
    assert np.sqrt(np.mean((slopes[:, 0] + 0.6 * np.pi * np.sin(angle)) ** 2)) < 0.05


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sindy-strong", {"degree": 1, "refined": 1}),
        pytest.param("fim-ode", {}, marks=pytest.mark.slow),
        pytest.param("auto", {"effort": "fast"}, marks=pytest.mark.slow),
    ],
)
def test_a_hundred_thousand_samples_are_fitted(name, options):
    check_rotation(fim_dynsys.load(name, **options).fit(*oscillation(100_000)[::-1]))


def test_five_times_as_many_samples_as_the_limit_are_fitted(monkeypatch):
    """As a hundred thousand are, at a lower limit."""
    limit = MANY // 5
    for module in (thinning, equations_parts):
        monkeypatch.setattr(module, "MANY", limit)
    check_rotation(fim_dynsys.load("fim-ode").fit(*oscillation(5 * limit)[::-1]))


def check_rotation(model):
    rate = 0.6 * np.pi
    points = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    np.testing.assert_allclose(
        model.field_(points), rate * np.stack([points[:, 1], -points[:, 0]], axis=1), atol=5e-3
    )
