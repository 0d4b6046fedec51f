"""ODE2VAE: contract, what it must learn, and the density that it tracks along its paths."""

import time

import numpy as np
import pytest
import torch

import fim_dynsys
from benchmarks.oscillators.tasks import tasks
from fim_dynsys.errors import FitError
from fim_dynsys.metrics import r2_score
from fim_dynsys.testing import check_trajectory_model
from fim_dynsys_common.latent import Grid
from fim_dynsys_common.training import generator
from fim_dynsys_ode2vae.model import SecondOrderNetwork

QUICK = {"steps": 40, "window": 8, "restarts": 1}


def _circles(*lengths):
    """Noise-free harmonic oscillations of period 2 pi, each from another start."""
    times = [np.linspace(0.0, 0.16 * n, n) for n in lengths]
    phases = [t + 0.7 * k for k, t in enumerate(times)]
    return [np.stack([np.cos(p), -np.sin(p)], axis=1) for p in phases], times


@pytest.fixture(scope="module")
def fitted():
    """On two ragged trajectories of an oscillator, one with a gap."""
    x, t = _circles(45, 25)
    x[1][10:12] = np.nan
    return fim_dynsys.load("ode2vae", steps=200, window=16, restarts=2).fit(x, t)


def test_contract():
    check_trajectory_model(lambda: fim_dynsys.load("ode2vae", **QUICK))


def test_follows_a_harmonic_oscillator(fitted):
    (x,), (t,) = _circles(45)
    assert r2_score(x, fitted.forecast(x[0], t).x[0]) > 0.99


def test_draws_scatter_about_the_forecast(fitted):
    (x,), (t,) = _circles(20)
    draws = fitted.sample(x[:2], t, n=20, seed=1)
    assert draws.shape == (20, 2, 20, 2)
    assert np.array_equal(draws, fitted.sample(x[:2], t, n=20, seed=1))
    apart = draws.mean(axis=0) - fitted.forecast(x[:2], t).x
    assert np.sqrt(np.mean(apart**2)) < 0.2 and (draws.std(axis=0) > 0.0).all()


def test_saved_and_restored(fitted, tmp_path):
    fitted.save(tmp_path)
    again = fim_dynsys.load_fitted(tmp_path)
    x, t = np.array([1.0, 0.0]), np.linspace(0.0, 5.0, 20)
    assert np.array_equal(again.forecast(x, t).x, fitted.forecast(x, t).x)
    assert again.report_ == fitted.report_


def test_better_than_holding_the_first_state():
    task = tasks()[0]
    model = fim_dynsys.load("ode2vae", steps=120, window=16, restarts=2).fit(task.context(1000))
    path = model.forecast(task.start, np.concatenate([[0.0], task.target_t])).x[0, 1:]
    assert np.mean((path - task.target_x) ** 2) < np.mean((task.start - task.target_x) ** 2)


def test_time_is_kept():
    (x,), (t,) = _circles(60)
    begun = time.perf_counter()
    model = fim_dynsys.load("ode2vae", steps=100_000, max_seconds=2.0).fit(x, t)
    assert time.perf_counter() - begun < 12.0
    assert model.report_["ended"] == "out of time"


def test_too_few_samples():
    with pytest.raises(ValueError, match="ode2vae: expected at least 10 complete samples"):
        fim_dynsys.load("ode2vae").fit(np.zeros((5, 2)), np.arange(5.0))


def test_divergence_is_an_error():
    (x,), (t,) = _circles(30)
    with pytest.raises(FitError, match="ode2vae: expected a fit with a finite error"):
        fim_dynsys.load("ode2vae", **QUICK | {"learning_rate": 1e200}).fit(x, t)


def test_density_along_a_path_is_that_of_the_flow():
    """log q(z(t)) = log q(z(0)) - log |det dz(t)/dz(0)|; the determinant by automatic differentiation."""
    network = SecondOrderNetwork(2, 2, 12, 1.0, 1, generator(5))
    weights, biases = network.drawn(generator(6))
    grid = Grid.of(torch.linspace(0.0, 1.2, 5, dtype=torch.float64)[None])
    start = torch.tensor([0.4, -0.2, 0.3, 0.5], dtype=torch.float64)

    def end(z):
        return network.path(z[None, None], grid, weights, biases)[0][0, 0, -1]

    with torch.no_grad():
        path, _ = network.path(start[None, None], grid, weights, biases)
        trace = network.divergence(path, weights, biases)[0, 0]
    flow = torch.autograd.functional.jacobian(end, start)
    step = grid.times[0, 1]
    spent = step * (trace.sum() - 0.5 * (trace[0] + trace[-1]))
    assert spent.item() == pytest.approx(torch.linalg.slogdet(flow)[1].item(), abs=2e-3)
    assert abs(spent.item()) > 0.02


def test_weights_at_their_prior_cost_nothing():
    network = SecondOrderNetwork(2, 2, 12, 1.0, 3, generator(0))
    with torch.no_grad():
        for parameter in (*network.acceleration.parameters(), *network.log_weights):
            parameter.zero_()
    assert torch.allclose(network.weight_divergence(), torch.zeros(3, dtype=torch.float64))
