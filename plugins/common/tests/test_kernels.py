"""Kernel fields and their compiled paths, against automatic differentiation and against each other."""

import numpy as np
import torch

from fim_dynsys.testing import check_field
from fim_dynsys_common.kernels import KernelField, cluster_centres, grid_points, squared_exponential
from fim_dynsys_common.paths import Terms, paths, solve
from fim_dynsys_common.rollout import rk4


def random_terms(d=2, m=5, waves=7, layers=2, shared=False):
    source = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, dtype=torch.float64, generator=source)

    return Terms(
        normal(m, d),
        normal(1 if shared else d, d).exp(),
        normal(m, d),
        normal(d, d, waves),
        4.0 * normal(d, waves),
        normal(d, waves),
        0.3 * normal(layers, 3, d),
    )


def rate(terms, x):
    d = x.shape[-1]
    gaps = x.reshape(-1, 1, 1, d) - terms.centres
    kernels = torch.exp(-0.5 * (terms.precision[:, None] * gaps.square()).sum(dim=-1)).expand(-1, d, -1)
    waves = torch.cos(torch.einsum("ni,jik->njk", x.reshape(-1, d), terms.frequencies) + terms.phases)
    g = torch.einsum("njm,mj->nj", kernels, terms.weights) + (waves * terms.amplitudes).sum(dim=-1)
    for u, v, c in terms.layers:
        g = g + u * torch.tanh(v * g + c)
    return g.reshape(x.shape)


def check_against_autograd(terms):
    source = torch.Generator().manual_seed(1)
    start = torch.randn(3, 2, dtype=torch.float64, generator=source)
    times = torch.rand(3, 4, dtype=torch.float64, generator=source).cumsum(dim=1)
    n_obs, seen = torch.tensor([4, 2, 1]), torch.zeros(3, 4, 1, dtype=torch.float64)
    for k, n in enumerate(n_obs):
        seen[k, :n] = 1.0
    weights = torch.randn(3, 4, 2, dtype=torch.float64, generator=source) * seen
    leaves = [part.requires_grad_() for part in (*terms, start)]
    ours = paths(terms, start, times, n_obs, 0.2)
    gradients = torch.autograd.grad((ours * weights).sum(), leaves)
    rows = [rk4(lambda x: rate(terms, x), start[k : k + 1], times[k : k + 1], 0.2)[0] for k in range(3)]
    reference = torch.stack(rows)
    expected = torch.autograd.grad((reference * weights).sum(), leaves, materialize_grads=True)
    torch.testing.assert_close(ours, reference * seen, atol=1e-9, rtol=0.0)
    for name, got, wanted in zip((*Terms._fields, "start"), gradients, expected, strict=True):
        torch.testing.assert_close(got, wanted, atol=1e-8, rtol=1e-8, msg=lambda m, name=name: f"{name}: {m}")


def test_paths_of_kernels_waves_and_layers():
    check_against_autograd(random_terms())


def test_paths_of_common_kernels_alone():
    check_against_autograd(random_terms(waves=0, layers=0, shared=True))


def test_paths_are_those_of_the_field():
    terms = [part.numpy() for part in random_terms(layers=0)]
    centres, precision, weights, frequencies, phases, amplitudes, _ = terms
    lengths = precision**-0.5
    field = KernelField(centres, lengths, weights, frequencies.transpose(0, 2, 1), phases, amplitudes)
    start, step = np.array([[0.2, -0.4]]), 1e-6
    path, _ = solve(tuple(terms), start, np.array([[0.0, step]]), np.array([2]), step)
    np.testing.assert_allclose((path[0, 1] - path[0, 0]) / step, field(start)[0], atol=1e-4)


def test_fields_hold_their_contract():
    rng = np.random.default_rng(0)
    centres, weights = rng.standard_normal((2, 6, 3))
    check_field(KernelField(centres, [0.7, 1.0, 2.0], weights))
    waves = rng.standard_normal((3, 8, 3)), rng.standard_normal((3, 8)), rng.standard_normal((3, 8))
    field = KernelField(centres, np.exp(0.3 * rng.standard_normal((3, 3))), weights, *waves)
    check_field(field)
    again = KernelField.from_arrays(field.to_arrays())
    assert np.array_equal(again(centres), field(centres))


def test_kernels_far_from_the_origin():
    x = 1e6 + np.array([[0.0, 0.0], [1.0, 2.0]])
    expected = [[1.0, np.exp(-2.5)], [np.exp(-2.5), 1.0]]
    np.testing.assert_allclose(squared_exponential(x, x, np.ones(2)), expected, rtol=1e-12)


def test_inducing_points():
    states = np.random.default_rng(0).uniform(-1.0, 3.0, (50, 2))
    grid = grid_points(states, 4)
    assert grid.shape == (16, 2)
    np.testing.assert_array_equal(grid.min(axis=0), states.min(axis=0))
    np.testing.assert_array_equal(grid.max(axis=0), states.max(axis=0))
    centres = cluster_centres(states, 8, seed=0)
    assert centres.shape == (8, 2)
    assert np.array_equal(centres, cluster_centres(states, 8, seed=0))
    assert len(cluster_centres(np.repeat(states[:3], 4, axis=0), 8, seed=0)) == 3
