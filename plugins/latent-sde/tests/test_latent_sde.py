"""Latent SDE: contract, what it must learn, and its moments against samples of the same SDE."""

import pytest
import torch

from benchmarks.oscillators.tasks import tasks
from fim_dynsys_common.latent import Grid
from fim_dynsys_common.latent_testing import LatentContract
from fim_dynsys_common.training import generator
from fim_dynsys_latent_sde.covariances import covariances
from fim_dynsys_latent_sde.model import MomentNetwork


class TestLatentSDE(LatentContract):
    name, task = "latent-sde", tasks()[0]


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
