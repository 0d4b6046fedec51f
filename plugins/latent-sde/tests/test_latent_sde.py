"""Latent SDE: contract, what it must learn, and its moments against samples of the same SDE."""

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
from fim_dynsys_latent_sde.covariances import covariances
from fim_dynsys_latent_sde.model import MomentNetwork

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
    return fim_dynsys.load("latent-sde", steps=200, window=16, restarts=2).fit(x, t)


def test_contract():
    check_trajectory_model(lambda: fim_dynsys.load("latent-sde", **QUICK))


def test_follows_a_harmonic_oscillator(fitted):
    (x,), (t,) = _circles(45)
    assert r2_score(x, fitted.forecast(x[0], t).x[0]) > 0.99


def test_draws_scatter_about_the_forecast(fitted):
    (x,), (t,) = _circles(30)
    draws = fitted.sample(x[:2], t, n=30, seed=1)
    assert draws.shape == (30, 2, 30, 2)
    assert np.array_equal(draws, fitted.sample(x[:2], t, n=30, seed=1))
    apart = draws.mean(axis=0) - fitted.forecast(x[:2], t).x
    assert np.sqrt(np.mean(apart**2)) < 0.2 and (draws.std(axis=0) > 0.0).all()


def test_saved_and_restored(fitted, tmp_path):
    fitted.save(tmp_path)
    again = fim_dynsys.load_fitted(tmp_path)
    x, t = np.array([1.0, 0.0]), np.linspace(0.0, 5.0, 20)
    assert np.array_equal(again.forecast(x, t).x, fitted.forecast(x, t).x)
    assert again.report_ == fitted.report_
    other = fim_dynsys.load("latent-sde", hidden=7)
    with pytest.raises(ValueError, match=r"latent-sde: expected saved arrays"):
        fim_dynsys.load_fitted(tmp_path, factory=lambda **params: other)


def test_better_than_holding_the_first_state():
    task = tasks()[0]
    model = fim_dynsys.load("latent-sde", steps=120, window=16, restarts=2).fit(task.context(1000))
    path = model.forecast(task.start, np.concatenate([[0.0], task.target_t])).x[0, 1:]
    assert np.mean((path - task.target_x) ** 2) < np.mean((task.start - task.target_x) ** 2)


def test_time_is_kept():
    (x,), (t,) = _circles(60)
    begun = time.perf_counter()
    model = fim_dynsys.load("latent-sde", steps=100_000, max_seconds=2.0).fit(x, t)
    assert time.perf_counter() - begun < 12.0
    assert model.report_["ended"] == "out of time"


@pytest.mark.parametrize(
    ("x", "t", "words"),
    [
        (np.zeros((5, 2)), np.arange(5.0), "at least 10 complete samples"),
        ([np.zeros((3, 2))] * 5, [np.arange(3.0)] * 5, "4 of them in one trajectory"),
    ],
)
def test_too_few_samples(x, t, words):
    with pytest.raises(ValueError, match=f"latent-sde: expected .*{words}"):
        fim_dynsys.load("latent-sde").fit(x, t)


def test_divergence_is_an_error():
    (x,), (t,) = _circles(30)
    with pytest.raises(FitError, match="latent-sde: expected a fit with a finite error"):
        fim_dynsys.load("latent-sde", **QUICK | {"learning_rate": 1e200}).fit(x, t)


def test_forecasts_run_forward_only(fitted):
    with pytest.raises(ValueError, match="times that increase strictly"):
        fitted.forecast(np.zeros(2), [1.0, 0.5])


def _network():
    """A damped rotation with noise, near linear: its moments are almost those of a Gaussian process."""
    network = MomentNetwork(2, 2, 0, 16, 1, generator(3))
    with torch.no_grad():
        network.drift.weights[1].mul_(8.0)
        network.diffusion_bias.fill_(-3.0)
    return network


def _assert_moments(network, start, end, paths):
    """Of the latent state at `end` from a start (1, 1, d), against those of sampled states (n, m)."""
    grid = Grid.of(torch.linspace(0.0, end, 7, dtype=torch.float64)[None])
    with torch.no_grad():
        mean, covariance = network.moments(start, grid)
    assert torch.allclose(mean[0, 0, -1], paths.mean(dim=0), atol=0.03)
    assert torch.allclose(covariance[0, 0, -1], torch.cov(paths.T), atol=0.01, rtol=0.1)


def test_moments_are_those_of_sampled_paths():
    network, start = _network(), torch.tensor([[[0.8, -0.3]]], dtype=torch.float64)
    grid = Grid.of(torch.tensor([[0.0, 1.5]], dtype=torch.float64).expand(4000, -1))
    with torch.no_grad():
        paths = network.draw(start.expand(-1, 4000, -1), grid, generator(0))[0, :, -1]
    _assert_moments(network, start, 1.5, paths)


def test_moments_are_those_of_torchsde():
    torchsde = pytest.importorskip("torchsde")
    network, start = _network(), torch.tensor([[[0.8, -0.3]]], dtype=torch.float64)

    class Sde(torch.nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def f(self, t, z):
            return network.rate(z[None])[0]

        def g(self, t, z):
            return network.variance_rate(z[None])[0].sqrt()

    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        mean, spread = network.encoded(start)
        begin = mean[0] + torch.exp(0.5 * spread[0]) * torch.randn(4000, 2, dtype=torch.float64)
        times = torch.tensor([0.0, 1.5], dtype=torch.float64)
        paths = torchsde.sdeint(Sde(), begin, times, dt=0.05, method="euler")[-1]
    _assert_moments(network, start, 1.5, paths)


def test_compiled_covariances_and_gradients_are_those_of_torch():
    source = generator(4)

    def drawn(*shape):
        return torch.randn(shape, generator=source, dtype=torch.float64)

    root, noise = drawn(2, 3, 2, 2), drawn(2, 3, 4, 2, 2)
    leaves = [part.requires_grad_() for part in (root @ root.mT, drawn(2, 3, 4, 2, 2), noise @ noise.mT)]
    first, flow, added = leaves
    known = [first]
    for k in range(4):
        known.append(flow[:, :, k].mT @ known[-1] @ flow[:, :, k] + added[:, :, k])
    expected, ours = torch.stack(known, dim=2), covariances(*leaves)
    torch.testing.assert_close(ours, expected)
    weight = drawn(*ours.shape)
    gradients = [torch.autograd.grad((part * weight).sum(), leaves) for part in (ours, expected)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)
