"""ODE2VAE: contract, what it must learn, and the density that it tracks along its paths."""

import pytest
import torch

from benchmarks.oscillators.tasks import tasks
from fim_dynsys_common.latent import Grid
from fim_dynsys_common.latent_testing import LatentContract
from fim_dynsys_common.training import generator
from fim_dynsys_ode2vae.model import SecondOrderNetwork


class TestODE2VAE(LatentContract):
    name, task = "ode2vae", tasks()[0]


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
