"""Windows of trajectories, their grids, and networks side by side."""

import numpy as np
import pytest
import torch

from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys_common.data import Batch
from fim_dynsys_common.latent import Grid, Perceptrons, Windows, _clip_each
from fim_dynsys_common.training import generator


def _batch():
    t = [np.sort(np.random.default_rng(k).uniform(0.0, 6.0, n)) for k, n in enumerate((20, 12))]
    return Batch.of(Trajectories.from_arrays([np.stack([np.cos(v), np.sin(v)], axis=1) for v in t], t))


def test_curves_and_lines_between_steps():
    times = torch.tensor([[0.0, 0.31, 1.7, 2.9], [0.0, 1.0, 1.0, 1.0]], dtype=torch.float64)
    grid = Grid.of(times)
    steps = grid.times[0]
    assert steps[-1] == 2.9 and steps.diff().max() <= 0.3
    wave = torch.stack([torch.sin(steps), torch.cos(steps)], dim=-1).expand(3, 2, -1, -1)
    slope = torch.stack([torch.cos(steps), -torch.sin(steps)], dim=-1).expand(3, 2, -1, -1)
    exact = torch.stack([torch.sin(times), torch.cos(times)], dim=-1)
    assert torch.allclose(grid.curve(wave, slope), exact.expand(3, -1, -1, -1), atol=3e-5)
    assert torch.allclose(grid.line(wave), exact.expand(3, -1, -1, -1), atol=2e-2)
    assert torch.equal(grid.rows(torch.tensor([1])).line(wave[:, :1]), grid.line(wave)[:, 1:])


def test_a_single_time_is_a_grid_too():
    grid = Grid.of(torch.zeros(2, 1, dtype=torch.float64))
    assert torch.equal(grid.cell, torch.zeros(2, 1, dtype=torch.long)) and not grid.place.any()


def test_windows_hold_their_samples_and_count_no_others():
    batch = _batch()
    used = batch.seen.all(dim=-1)
    used[0, 7:9] = False
    windows = Windows.of(batch, 5, used, used)
    assert len(windows) == 17 + 11 and windows.x.shape == (28, 6, 2)
    at = windows.grid.times[0][windows.grid.cell] + windows.grid.place * windows.grid.times[0, 1]
    starts = [i for i in range(19) if i not in (7, 8)]
    for row, i in enumerate(starts):
        n = min(6, 20 - i)
        assert torch.equal(windows.x[row, :n], batch.x[0, i : i + n])
        assert torch.allclose(at[row, :n], batch.t[0, i : i + n] - batch.t[0, i])
        assert torch.equal(windows.used[row, :n], used[0, i : i + n]) and not windows.used[row, n:].any()


def test_networks_side_by_side_do_not_influence_each_other():
    nets = Perceptrons(3, (2, 5, 4), torch.tanh, generator(0))
    x = torch.randn(3, 7, 6, 2, dtype=torch.float64, generator=generator(1))
    (w1, w2), (b1, b2) = nets.weights, nets.biases
    assert torch.allclose(nets(x)[1], torch.tanh(x[1] @ w1[1] + b1[1]) @ w2[1] + b2[1])
    nets(x).square().sum(dim=(1, 2, 3)).mul(torch.tensor([1.0, 1e9, torch.nan])).sum().backward()
    alone = [p.grad[0].clone() for p in nets.parameters()]
    size = torch.stack([g.square().sum() for g in alone]).sum().sqrt()
    _clip_each(list(nets.parameters()))
    for p, g in zip(nets.parameters(), alone, strict=True):
        assert torch.allclose(p.grad[0], g * min(1.0, 10.0 / size.item()))
        assert not p.grad[2].any()
    clipped = torch.stack([p.grad[1].square().sum() for p in nets.parameters()]).sum().sqrt()
    assert clipped.item() == pytest.approx(10.0)
