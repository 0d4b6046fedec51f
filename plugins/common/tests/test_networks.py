"""Networks: torch and numpy agree, and the field keeps its contract."""

import numpy as np
import pytest
import torch

from fim_dynsys.regions import Region
from fim_dynsys.testing import check_field
from fim_dynsys_common.data import Units
from fim_dynsys_common.network_paths import Layers, network_paths
from fim_dynsys_common.networks import NetworkField, Networks
from fim_dynsys_common.rollout import rk4
from fim_dynsys_common.training import generator

UNITS = Units(np.array([3.0, -100.0]), np.array([0.5, 40.0]), 7.0)


def drawn(count, hidden=(6, 5)):
    networks = Networks(count, 2, hidden, generator(0))
    with torch.no_grad():
        for parameter in networks.parameters():
            parameter += 0.5 * torch.randn(parameter.shape, generator=generator(1), dtype=torch.float64)
    return networks


@pytest.mark.parametrize("hidden", [(7,), (6, 5)])
def test_numpy_and_torch_agree(hidden):
    networks = drawn(3, hidden)
    z = np.random.default_rng(0).standard_normal((4, 2))
    there = networks(torch.tensor(z).expand(3, -1, -1)).detach().numpy()
    np.testing.assert_allclose(networks.copy([0, 1, 2]).rates(z), there, rtol=1e-12)
    np.testing.assert_allclose(networks.copy([1]).rates(z), there[1:2], rtol=1e-12)


@pytest.mark.parametrize("count", [1, 4])
def test_the_field_keeps_its_contract(count):
    region = Region([2.0, -180.0], [4.0, -20.0])
    field = NetworkField(drawn(count).copy(range(count)), UNITS, region=region)
    check_field(field)
    x = region.sobol(8)
    again = NetworkField.from_arrays(field.to_arrays(), region=region)
    np.testing.assert_array_equal(again(x), field(x))
    if count == 1:
        assert field.scale(x) is None and field.draws(2) is None
    else:
        members = field.draws(count)
        np.testing.assert_allclose(members.mean_field()(x), field(x), rtol=1e-12)
        np.testing.assert_allclose(np.std([f(x) for f in members], axis=0, ddof=1), field.scale(x), rtol=1e-9)
        assert len(field.draws(9)) == 9


def test_damaged_arrays_are_refused():
    arrays = NetworkField(drawn(2).copy([0, 1]), UNITS).to_arrays()
    with pytest.raises(ValueError, match=r"expected finite numbers of shape \(2, 2, 7\)"):
        NetworkField.from_arrays(arrays | {"b_0": np.zeros((2, 7))})


def test_equal_starts_only_where_asked_for():
    first, second = Networks(2, 2, (3,), generator(0), alike=True).weights[0].detach()
    assert torch.equal(first, second)
    first, second = Networks(2, 2, (3,), generator(0)).weights[0].detach()
    assert not torch.equal(first, second)


@pytest.mark.parametrize("activation", ["tanh", "softplus"])
def test_compiled_paths_and_gradients_are_those_of_torch(activation):
    source, n = generator(2), 5

    def leaf(*shape):
        return torch.randn(shape, generator=source, dtype=torch.float64).requires_grad_()

    layers = Layers(leaf(2, 3, 7), leaf(2, 7), leaf(2, 7, 3), leaf(2, 3), leaf(2, 3, 3))
    start, h = leaf(2, 4, 3), torch.tensor([0.05, 0.1, 0.0, 0.07], dtype=torch.float64)
    unit = {"tanh": torch.tanh, "softplus": torch.nn.functional.softplus}[activation]

    def rate(x):
        hidden = unit(torch.baddbmm(layers.hidden_bias[:, None], x, layers.first))
        return torch.baddbmm(layers.bias[:, None], hidden, layers.last) + x @ layers.linear

    known = rk4(rate, start, h[:, None] * torch.arange(n), torch.inf)
    expected = known, rate(known.flatten(1, 2)).unflatten(1, known.shape[1:3])
    ours = network_paths(layers, start, h, n - 1, activation)
    weights = [torch.randn(known.shape, generator=source, dtype=torch.float64) for _ in ours]
    gradients = []
    for parts in (ours, expected):
        total = sum((part * weight).sum() for part, weight in zip(parts, weights, strict=True))
        gradients.append(torch.autograd.grad(total, [*layers, start]))
    for one, other in zip((*ours, *gradients[0]), (*expected, *gradients[1]), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)  # torch's softplus is linear beyond 20


def test_compiled_paths_are_held_within_bounds():
    zeros = torch.zeros(1, 2, 2, dtype=torch.float64)
    growing = (9.0 * torch.eye(2, dtype=torch.float64)[None]).requires_grad_()
    layers = Layers(zeros, zeros[:, 0], zeros, zeros[:, 0], growing)
    start = torch.ones(1, 1, 2, dtype=torch.float64)
    path, _ = network_paths(layers, start, torch.ones(1, dtype=torch.float64), 4, bound=50.0)
    assert (path[0, 0, 1:] == 50.0).all()
    path[0, 0, -1].sum().backward()
    assert (growing.grad == 0.0).all()
