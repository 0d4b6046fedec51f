"""npODE: the contract, what it must recover, limits of time and input, keeping."""

import time

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys.errors import DataWarning
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.testing import check_model
from fim_dynsys_npode.model import NPODE


def oscillator(n=60, end=6.0, start=(1.0, 0.0), seed=None, noise=0.0):
    t = np.linspace(0.0, end, n)
    if seed is not None:
        t = np.sort(np.random.default_rng(seed).uniform(0.0, end, n))
    (a, b), c, s = start, np.cos(2 * t), np.sin(2 * t)
    x = np.stack([a * c + b * s, b * c - a * s], axis=1)
    return x + noise * np.random.default_rng(0).standard_normal(x.shape), t


def van_der_pol(seed):
    t = np.linspace(0.0, 14.0, 100)
    path = simulate(
        fim_dynsys.CallableField(
            lambda x: np.stack([x[:, 1], 0.5 * (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]], axis=1), 2
        ),
        [-1.5, 2.5],
        t,
    ).x[0]
    noise = np.sqrt(0.05) * np.random.default_rng(seed).standard_normal((50, 2))
    return path[:50] + noise, t[:50], path[50:], t[50:]


def test_contract():
    check_model(lambda: NPODE(max_iterations=30), cheap=True)


def test_contract_with_length_and_size_given():
    check_model(lambda: NPODE(length_scale=1.4, n_inducing=4, max_iterations=15))


def test_recovers_an_oscillator():
    model = NPODE().fit(*oscillator())
    assert model.field_.fit_info.path_r2 > 0.99
    points = np.array([[0.9, 0.2], [-0.3, 0.95]])  # near the circle that was seen
    np.testing.assert_allclose(model.predict(points), 2 * points[:, ::-1] * [1, -1], atol=0.1)


def test_beats_holding_the_first_state():
    x, t, future, later = van_der_pol(seed=0)
    model = NPODE(max_iterations=100).fit(x, t)
    path = model.simulate([-1.5, 2.5], np.concatenate([[0.0], later]))[1:]
    assert np.mean((path - future) ** 2) < np.mean((np.array([-1.5, 2.5]) - future) ** 2)


def test_several_ragged_and_irregular_trajectories():
    parts = [oscillator(25, 3.0, seed=1), oscillator(40, 4.0, (0.0, 0.7), seed=2), oscillator(1)]
    gaps = parts[1][0].copy()
    gaps[7:9, 0] = np.nan
    with pytest.warns(DataWarning):
        model = NPODE().fit([parts[0][0], gaps, parts[2][0]], [t for _, t in parts], feature_names=["u", "v"])
    assert model.feature_names == ["u", "v"]
    assert model.field_.fit_info.path_r2 > 0.99


def test_a_long_gap_and_a_long_record():
    (x, t), (later, _) = oscillator(160, 40.0), oscillator(30, 3.0)
    model = NPODE(length_scale=1.4, n_inducing=5, max_iterations=1500).fit(
        np.concatenate([x, later]), np.concatenate([t, 1e4 + np.linspace(0.0, 3.0, 30)])
    )
    np.testing.assert_allclose(model.predict([[1.0, 0.0]]), [[0.0, -2.0]], atol=0.1)


def test_more_states_than_a_grid_holds():
    t = np.linspace(0.0, 6.0, 60)
    rates = np.array([0.5, 1.0, 1.5, 2.0])
    x = np.cos(rates * t[:, None] + np.arange(4))
    model = NPODE(length_scale=2.0, n_inducing=30).fit(x, t)
    assert model.field_.fit_info.path_r2 > 0.95


def test_units_do_not_matter():
    x, t = oscillator(noise=0.02)
    model = NPODE(length_scale=1.4, n_inducing=5, max_iterations=10)
    field, other = model.infer(_data(x, t)), model.infer(_data(x * [1e3, 1e-2], 60.0 * t + 5.0))
    expected = field(x)
    np.testing.assert_allclose(other(x * [1e3, 1e-2]) * 60.0 / [1e3, 1e-2], expected, atol=1e-3)


def _data(x, t):
    return fim_dynsys.Trajectories.from_arrays(x, t)


def test_ends_in_time():
    x, t = oscillator(200, 40.0, noise=0.1)
    begun = time.perf_counter()
    model = NPODE(max_seconds=1.0).fit(x, t)
    assert time.perf_counter() - begun < 10.0  # with what fit compares, on a loaded machine
    assert np.isfinite(model.predict(x)).all()


def test_kept_without_fitting_again(tmp_path):
    model = NPODE(length_scale=1.4, n_inducing=4, max_iterations=10).fit(*oscillator())
    model.save(tmp_path / "kept")
    again = fim_dynsys.load_fitted(tmp_path / "kept")
    x = np.random.default_rng(0).standard_normal((5, 2))
    assert np.array_equal(again.predict(x), model.predict(x))
    assert again.field_.fit_info.report == model.field_.fit_info.report


@pytest.mark.parametrize(
    ("params", "named"), [({"length_scale": -1.0}, "length_scale"), ({"n_inducing": 1}, "n_inducing")]
)
def test_bad_settings(params, named):
    with pytest.raises(ValueError, match=f"npode: expected .*{named}"):
        NPODE(**params).fit(*oscillator())


def test_nothing_to_choose_by():
    with pytest.raises(ValueError, match="2 samples"):
        NPODE().fit([np.ones((1, 1)) * k for k in range(9)], [np.zeros(1)] * 9)
