"""Bayesian neural ODE: the contract, a linear oscillator, Van der Pol, the sampler, and a limit of time."""

import time

import numpy as np
import pytest
import torch

import fim_dynsys
from benchmarks.oscillators.tasks import tasks
from fim_dynsys.deadline import Deadline
from fim_dynsys.errors import FitError
from fim_dynsys.testing import check_model
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys_bayesian_neural_ode.posterior import Posterior
from fim_dynsys_bayesian_neural_ode.sampling import convergence, sample
from fim_dynsys_common.data import Batch
from fim_dynsys_common.training import generator, private_rng


def quick(**settings):
    cheap = {"width": 6, "warmup": 8, "draws": 4, "tree_depth": 2, "map_steps": 100, "progress": False}
    return fim_dynsys.load("bayesian-neural-ode", **(cheap | settings))


def oscillator(t):
    return np.stack([np.cos(2.0 * t), -np.sin(2.0 * t)], axis=1)


def test_contract():
    check_model(quick)


def test_a_linear_oscillator_in_ragged_pieces(tmp_path):
    rng = np.random.default_rng(0)
    times = [np.sort(rng.uniform(0.0, 4.0, 40)), 100.0 + np.linspace(0.0, 2.0, 15)]
    before = torch.random.get_rng_state()
    model = quick().fit([oscillator(t) for t in times], times)
    assert torch.equal(torch.random.get_rng_state(), before)
    info = model.field_.fit_info
    assert info.path_r2 > 0.99 and not info.problems
    assert {"rhat", "rhat_median", "ess", "ess_median", "divergences"} <= info.report.keys()
    x = model.field_.region.sobol(8)
    members = model.ensemble(8)
    assert all(np.isfinite(member(x)).all() for member in members)
    np.testing.assert_allclose(members.mean_field()(x), model.field_(x), rtol=1e-9)
    assert (model.field_.scale(x) > 0).all()
    model.save(tmp_path / "kept")
    again = fim_dynsys.load_fitted(tmp_path / "kept")
    np.testing.assert_array_equal(again.field_(x), model.field_(x))
    np.testing.assert_array_equal(again.ensemble(3)[2](x), model.ensemble(3)[2](x))


def test_van_der_pol_is_forecast_better_than_by_its_start():
    task = tasks()[0]
    model = quick(width=10, warmup=10, map_steps=200).fit(task.context(1000))
    path = model.simulate(task.start, np.concatenate([[0.0], task.target_t]))[1:]
    constant = np.mean((task.target_x - task.start) ** 2)
    assert np.mean((task.target_x - path) ** 2) < 0.25 * constant


def test_the_energy_is_that_of_the_model():
    """Against the sum of squares written out, for a field that is linear."""
    t = np.linspace(0.0, 1.0, 8)
    batch = Batch.of(Trajectories.from_arrays(oscillator(t), t))
    posterior = Posterior(batch, width=3, segment=4, continuity=0.1)
    theta = posterior.first_guess(1, generator(0))
    size = posterior.n_weights
    shift = 0.01 * torch.randn(theta.shape, generator=generator(1), dtype=theta.dtype)
    moved = posterior.energy(theta + shift) - posterior.energy(theta)
    eps = 1e-5 * shift
    slope = (posterior.energy(theta + eps) - posterior.energy(theta - eps)) / 2e-5
    leaf = theta.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(posterior.energy(leaf).sum(), leaf)
    torch.testing.assert_close((gradient * shift).sum(dim=1), slope, rtol=1e-5, atol=1e-6)
    still = theta.clone()
    still[:, :size] = 0.0  # no motion: paths stay at their starts
    parts = posterior.parts(still)
    paths = parts.starts[0][:, None].expand(-1, 5, -1)
    own, noise = posterior.segments.own, parts.noise[0, 0, 0]
    residuals = (paths - posterior.segments.gather(batch.x))[own] / noise
    jumps = (parts.starts[0, 1] - parts.starts[0, 0]) / 0.1
    expected = 0.5 * (residuals**2).sum() + 8 * noise.log().sum() + 0.5 * (jumps**2).sum()
    expected = expected + 0.5 * (parts.starts[0, 0] ** 2).sum() / 9.0
    torch.testing.assert_close(posterior.energy(still)[0], expected)
    assert torch.isfinite(moved).all()


def test_convergence_tells_chains_that_agree_from_those_that_do_not():
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((2, 400, 3, 2))
    good = convergence(draws)
    assert good["rhat"] < 1.05 and good["ess"] > 400
    assert convergence(draws + np.array([0.0, 5.0])[:, None, None, None])["rhat_median"] > 2.0


class After(Deadline):
    """Passes at the n-th question."""

    def __init__(self, n):
        self.left = n

    def remaining(self):
        self.left -= 1
        return float(self.left)


def test_chains_end_in_time_with_the_draws_they_have():
    t = np.linspace(0.0, 3.0, 20)
    posterior = Posterior(Batch.of(Trajectories.from_arrays(oscillator(t), t)), 3, 5, 0.1)
    first = posterior.first_guess(2, generator(0))
    settings = {"warmup": 2, "draws": 10_000, "tree_depth": 1, "progress": False}
    with private_rng(0):
        found = sample("toy", posterior, first, deadline=After(150), **settings)
        with pytest.raises(FitError, match=r"toy: expected time for 2 steps .* got 0 draws"):
            sample("toy", posterior, first, deadline=After(10), **settings)
    chains, draws, _ = found.theta.shape
    assert chains == 2 and 4 <= draws < 75 and found.ended == "out of time"


def test_a_limit_of_time_is_kept():
    t = np.linspace(0.0, 3.0, 20)
    quick().fit(oscillator(t), t)  # what is loaded once does not count
    began = time.perf_counter()
    with pytest.raises(FitError, match="bayesian-neural-ode: expected time for 100000 steps of warm-up"):
        quick(warmup=100_000, max_seconds=0.5).fit(oscillator(t), t)
    assert time.perf_counter() - began < 15.0  # half a second and a gradient, on a busy machine


def test_bad_settings_and_data_are_refused():
    t = np.linspace(0.0, 3.0, 20)
    with pytest.raises(ValueError, match="expected width to be a positive integer, got 0"):
        quick(width=0).fit(oscillator(t), t)
    with pytest.raises(ValueError, match=r"at least 4 draws and a positive continuity, got 2 and 0\.02"):
        quick(draws=2).fit(oscillator(t), t)
    with pytest.raises(ValueError, match="at least 8 observed points, got 5"):
        quick().fit(oscillator(t[:5]), t[:5])
