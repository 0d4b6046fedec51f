"""What the comparators share, against exact solutions."""

import numpy as np
import pytest
import torch

from fim_dynsys.deadline import Deadline
from fim_dynsys.errors import FitError
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys_common.data import Batch, Units
from fim_dynsys_common.heldout import held_out_blocks
from fim_dynsys_common.rollout import DenseRk4, adaptive, rk4
from fim_dynsys_common.shooting import Segments
from fim_dynsys_common.training import generator, private_rng, train

TURN = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)


def rotation(x):
    """Rate of a rotation with unit speed; the state goes in rows."""
    return x @ TURN.T


def on_circle(t, phase=0.0):
    return np.stack([np.cos(t + phase), np.sin(t + phase)], axis=-1)


@pytest.fixture
def ragged():
    """Two rotations on irregular times, of 30 and 17 samples."""
    rng = np.random.default_rng(0)
    times = [np.cumsum(rng.uniform(0.05, 0.3, n)) for n in (30, 17)]
    return Trajectories.from_arrays([on_circle(t, k) for k, t in enumerate(times)], times)


def dense(rate, start, times, max_step=0.05):
    return DenseRk4(times, max_step)(rate, start)


@pytest.mark.parametrize("solve", [lambda *a: rk4(*a, max_step=0.05), dense, adaptive])
def test_each_row_has_times_of_its_own(solve):
    t = torch.tensor([[0.0, 0.1, 1.7, 2.0], [0.0, 0.5, 0.5, 0.5]], dtype=torch.float64)
    start = torch.tensor(on_circle(np.zeros(2)))
    path = solve(rotation, start, t)
    np.testing.assert_allclose(path.numpy(), on_circle(t.numpy()), atol=1e-6)


@pytest.mark.parametrize("solve", [rk4, dense])
def test_runge_kutta_is_of_fourth_order(solve):
    t, start = torch.tensor([[0.0, 0.95, 2.0]], dtype=torch.float64), torch.tensor([[1.0, 0.0]]).double()
    exact = torch.tensor(on_circle(t.numpy()))
    errors = [(solve(rotation, start, t, h) - exact).norm(dim=2)[0] for h in (0.2, 0.1)]
    ratios = errors[0][1:] / errors[1][1:]
    assert (ratios > 13.0).all() and (ratios < 19.0).all()  # 2^4


def test_a_field_that_blows_up_gives_finite_numbers():
    t, start = torch.tensor([[0.0, 5.0]]), torch.ones(1, 1)
    assert torch.isfinite(rk4(lambda x: x**3, start, t, 0.1)).all()


def test_gradients_reach_the_start():
    start = torch.tensor([[1.0, 0.0]], dtype=torch.float64, requires_grad=True)
    rk4(rotation, start, torch.tensor([[0.0, 1.0]]).double(), 0.02)[0, 1, 0].backward()
    np.testing.assert_allclose(start.grad.numpy(), [[np.cos(1.0), -np.sin(1.0)]], atol=1e-8)


def test_units_do_not_matter(ragged):
    scale, shift = np.array([1e3, 1e-2]), np.array([5.0, 7.0])
    pairs = ragged.arrays()
    other = Trajectories.from_arrays([x * scale + shift for _, x in pairs], [60.0 * t for t, _ in pairs])
    a, b = Batch.of(ragged), Batch.of(other)
    np.testing.assert_allclose(a.x, b.x, atol=1e-9)
    np.testing.assert_allclose(a.t, b.t, rtol=1e-9)
    x = pairs[0][1]
    np.testing.assert_allclose(a.units.outer(a.units.inner(x)), x)


def test_smoothed_paths_are_those_of_the_rotation(ragged):
    batch = Batch.of(ragged)
    states, slopes = batch.smooth()
    assert not slopes[1, 17:].any() and (states[1, 17:] == states[1, 16]).all()
    rates = batch.units.outer_rates(slopes[0].numpy())
    turned = batch.units.outer(states[0].numpy()) @ TURN.numpy().T
    np.testing.assert_allclose(rates[2:-2], turned[2:-2], atol=0.02)


@pytest.mark.parametrize("intervals", [None, 1, 5, 100])
def test_segments_hold_each_sample_once_and_a_solution_has_no_jumps(ragged, intervals):
    units = Units(np.zeros(2), np.ones(2), 1.0)
    batch = Batch.of(ragged, units)
    segments = Segments.of(batch, intervals)
    held = {
        (int(k), int(i))
        for k, row, own in zip(segments.trajectory, segments.samples, segments.own, strict=True)
        for i in row[own]
    }
    assert held == {(k, i) for k, n in enumerate(batch.n_obs) for i in range(n)}
    assert int(segments.own.sum()) == len(held) and int(segments.is_first.sum()) == 2
    starts = segments.starts(batch.x)
    paths = rk4(rotation, starts, segments.times, 0.05)
    assert float((paths - segments.gather(batch.x))[segments.own].abs().max()) < 1e-6
    jumps = segments.jumps(paths, starts)
    assert len(jumps) == len(segments) - 2
    assert not len(jumps) or float(jumps.abs().max()) < 1e-6


def test_held_out_blocks_are_contiguous_and_disjoint():
    masks = held_out_blocks([50, 21], folds=4)
    assert masks.shape == (4, 2, 50) and int(masks.sum(dim=0).max()) == 1
    assert not masks[:, :, 0].any() and not masks[:, 1, 21:].any()
    assert masks.sum(dim=0)[0, 10:].all()  # all but the first block of the first trajectory
    for mask in masks.flatten(0, 1).int():
        assert int(mask.diff().abs().sum()) + int(mask[-1]) == 2  # one rise, one fall or the end
    assert held_out_blocks([2, 3, 1], folds=2).sum(dim=(1, 2)).tolist() == [1, 1]
    with pytest.raises(ValueError, match="at least 2 samples"):
        held_out_blocks([1, 1])


def test_training_keeps_the_best_and_stops():
    errors = iter([3.0, 2.0, 1.0, 2.0, 2.5, 0.0])
    seen = []
    best = train(
        "toy", lambda i: seen.append(i) or 1.0, lambda: next(errors), lambda: len(seen), steps=60, every=10,
        patience=20, progress=False,
    )  # fmt: skip
    assert (best.state, best.score, best.step, best.steps, best.ended) == (30, 1.0, 30, 50, "no improvement")


def test_training_ends_in_time_with_something():
    parts = (lambda i: 1.0, lambda: 5.0, lambda: "state")
    late = train("toy", *parts, steps=100, deadline=Deadline("toy", 1e-9), progress=False)
    assert (late.state, late.steps, late.ended) == ("state", 1, "out of time")


def test_a_diverged_fit_is_an_error():
    with pytest.raises(FitError, match=r"toy: expected a fit .*diverged"):
        train("toy", lambda i: float("nan"), lambda: 1.0, lambda: 0, steps=10, progress=False)


def test_the_global_source_stays_as_it_is():
    before = torch.random.get_rng_state()
    with private_rng(3):
        first = torch.randn(2)
    generator(3)
    assert torch.equal(torch.random.get_rng_state(), before)
    with private_rng(3):
        assert torch.equal(torch.randn(2), first)
