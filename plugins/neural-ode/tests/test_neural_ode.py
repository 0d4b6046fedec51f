"""Neural ODE: the contract, a linear oscillator, Van der Pol, and a limit of time."""

import time

import numpy as np
import pytest
import torch

import fim_dynsys
from benchmarks.oscillators.tasks import tasks
from fim_dynsys.errors import FitError
from fim_dynsys.testing import check_model


def quick(**settings):
    return fim_dynsys.load(
        "neural-ode",
        **({"width": 8, "steps": 25, "weight_decay": 1e-3, "folds": 2, "progress": False} | settings),
    )


def oscillator(t):
    return np.stack([np.cos(2.0 * t), -np.sin(2.0 * t)], axis=1)


def test_contract():
    check_model(quick)


def test_a_linear_oscillator_in_ragged_pieces(tmp_path):
    rng = np.random.default_rng(0)
    times = [np.sort(rng.uniform(0.0, 4.0, 40)), 100.0 + np.linspace(0.0, 2.0, 15)]
    model = quick(width=16, steps=50).fit([oscillator(t) for t in times], times)
    info = model.field_.fit_info
    assert info.path_r2 > 0.99 and not info.problems
    np.testing.assert_allclose(info.initial_states, [oscillator(t[:1])[0] for t in times], atol=0.05)
    model.save(tmp_path / "kept")
    again = fim_dynsys.load_fitted(tmp_path / "kept")
    x = model.field_.region.sobol(8)
    np.testing.assert_array_equal(again.field_(x), model.field_(x))
    np.testing.assert_array_equal(again.field_.jacobian(x), model.field_.jacobian(x))


@pytest.mark.parametrize("segment", [5, None])
def test_van_der_pol_is_forecast_better_than_by_its_start(segment):
    task = tasks()[0]
    model = quick(width=16, steps=30, segment=segment).fit(task.context(1000))
    times = np.concatenate([[0.0], task.target_t])
    path = model.simulate(task.start, times)[1:]
    constant = np.mean((task.target_x - task.start) ** 2)
    assert np.mean((task.target_x - path) ** 2) < 0.25 * constant


def test_fits_are_repeatable_and_leave_the_global_source():
    t = np.linspace(0.0, 3.0, 20)
    before = torch.random.get_rng_state()
    first, second = (quick().fit(oscillator(t), t).predict(oscillator(t)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_limit_of_time_is_kept():
    t = np.linspace(0.0, 6.0, 60)
    quick(steps=1).fit(oscillator(t), t)  # what is loaded once does not count
    began = time.perf_counter()
    field = quick(steps=100_000, max_seconds=0.5).fit(oscillator(t), t).field_
    assert time.perf_counter() - began < 30.0  # a step and a comparison with the data on a busy machine
    assert field.fit_info.report["ended"] == "out of time"


def test_bad_settings_and_data_are_refused():
    t = np.linspace(0.0, 3.0, 20)
    with pytest.raises(ValueError, match="expected width to be a positive integer, got 0"):
        quick(width=0).fit(oscillator(t), t)
    with pytest.raises(ValueError, match="at least 8 observed points, got 5"):
        quick().fit(oscillator(t[:5]), t[:5])
    with pytest.raises(FitError, match="neural-ode: expected a fit with a finite error"):
        quick(learning_rate=1e30).fit(oscillator(t), t)
