"""What an observer sees: counts, order, windows, noise and gaps as stated; nothing breaks an operator."""

from dataclasses import replace

import pytest
import torch

from fim_dynsys.models.fim_ode.amortised import AmortisedNetwork
from fim_dynsys.models.fim_ode.configuration import AmortisedConfig
from fim_dynsys.models.fim_ode.published import PublishedConfig, PublishedNetwork
from training.preset import read_preset
from training.systems.corruption import Observation, WideObservation

N = 600


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ramp(b: int, d: int = 2) -> torch.Tensor:
    """Trajectories that tell when they were sampled: 100 times their own number, plus time."""
    time = torch.arange(N).float()
    return (100.0 * N * torch.arange(4).view(1, 4, 1, 1) + time.view(1, 1, N, 1)).expand(b, 4, N, d)


def wide(**changes) -> WideObservation:
    """Everything the same and without noise, but for what a test is about."""
    plain = {
        "slots": (100,),
        "trajectory_counts": (1,),
        "clean_share": 1.0,
        "irregular_share": 0.0,
        "clustered_share": 0.0,
        "window_share": 0.0,
        "missing_share": 0.0,
    }
    return WideObservation(**{**plain, **changes})


def test_the_paper_s_observation_keeps_an_exact_count_in_order_under_multiplicative_noise() -> None:
    states = torch.ones(400, 3, 200, 2) * torch.tensor([1.0, 100.0])
    context = Observation(clean_share=0.0, trajectory_counts=(2,)).observe(states, 0.1, seeded(5))
    assert context.x.shape[:2] == (400, 2) and 100 <= context.x.shape[2] <= 200
    assert (context.t.diff(dim=-1) > 0).all()
    relative = (context.x / torch.tensor([1.0, 100.0]) - 1).std((1, 2))  # sigma ~ U(0, 0.06) per context
    assert float(relative.mean()) == pytest.approx(0.03, abs=0.003)
    assert float(relative.max()) < 0.07
    clean = Observation(clean_share=1.0).observe(states, 0.1, seeded(5))
    assert torch.equal(clean.x[..., 0], torch.ones_like(clean.x[..., 0]))


@pytest.mark.parametrize("seed", range(6))
def test_samples_are_in_order_where_they_were_taken_and_padding_comes_last(seed: int) -> None:
    everything = WideObservation(clean_share=1.0, missing_share=0.5)
    states = ramp(64)
    context = everything.observe(states, 1.0, seeded(seed))
    mask = context.mask
    assert not (mask[..., 1:] & ~mask[..., :-1]).any()
    steps = context.t.diff(dim=-1)[mask[..., 1:]]
    assert bool((steps >= 1).all())
    number = torch.arange(64)[:, None]
    expected = states[number, context.chosen, 0, 0][..., None] + context.t
    assert torch.equal(context.x[..., 0][mask], expected[mask])
    used = mask.any(-1)
    assert bool(used[:, 0].all())
    assert bool((context.mask.sum(-1)[used] >= everything.fewest).all())


def test_counts_of_samples_and_trajectories_are_spread_as_stated() -> None:
    context = wide(trajectory_counts=(4,)).observe(ramp(800), 1.0, seeded(1))
    used = context.mask.any(-1).sum(1)
    assert torch.bincount(used, minlength=5)[1:].tolist() == pytest.approx([200] * 4, abs=45)
    count = context.mask.sum(-1)[context.mask.any(-1)]
    assert (int(count.min()), int(count.max())) == (50, 100)
    assert float(count.double().mean()) == pytest.approx(75, abs=1)
    rows = set(map(tuple, context.chosen[used == 4].tolist()))
    assert len(rows) == 24  # every order of four trajectories
    lone = context.chosen[used == 1]
    assert torch.equal(lone, lone[:, :1].expand(-1, 4))


def test_even_times_are_even_and_uneven_ones_are_not() -> None:
    def unevenness(**changes: float) -> torch.Tensor:
        context = wide(**changes).observe(ramp(300), 1.0, seeded(2))
        gaps = context.t.diff(dim=-1)
        valid = context.mask[..., 1:]
        mean = (gaps * valid).sum(-1) / valid.sum(-1)
        return (((gaps - mean[..., None]) * valid).square().sum(-1) / valid.sum(-1)).sqrt() / mean

    assert float(unevenness().max()) < 0.1  # rounded to the grid of the states
    irregular = float(unevenness(irregular_share=1.0).mean())
    assert irregular == pytest.approx((1 - 75 / N) ** 0.5, abs=0.1)  # gaps of a random subset are geometric
    assert float(unevenness(clustered_share=1.0).mean()) > 1.5 * irregular


def test_windows_show_parts_of_the_motion() -> None:
    context = wide(window_share=0.5, window_low=0.2).observe(ramp(2000), 1.0, seeded(3))
    last = context.mask.sum(-1) - 1
    span = (context.t.gather(2, last[..., None])[..., 0] - context.t[..., 0])[:, 0] / (N - 1)
    whole = span > 0.999
    assert float(whole.float().mean()) == pytest.approx(0.5, abs=0.04)
    parts = span[~whole]
    assert float(parts.min()) > 0.19 and float(parts.mean()) == pytest.approx(0.6, abs=0.02)
    start = context.t[~whole, 0, 0] / (N * (1 - parts) + 1)
    assert float(start.mean()) == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize(("additive", "both"), [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)])
def test_noise_is_relative_to_the_state_the_spread_or_both(additive: float, both: float) -> None:
    """States of 3 with a spread of 0.5."""
    wave = 3 + 0.5 * torch.sign(torch.sin(0.31 * torch.arange(N)))
    settings = wide(clean_share=0.0, additive_share=additive, both_share=both, noise_high=0.15)
    states = wave[:, None].expand(1500, 2, N, 1)
    context = settings.observe(states, 1.0, seeded(4))
    noise = (context.x[..., 0] - wave[context.t.long()])[context.mask]
    relative, spread = 3**2 + 0.5**2, 0.5**2
    expected = {(0.0, 0.0): relative, (1.0, 0.0): spread, (0.0, 1.0): relative + spread}[additive, both]
    # the level is uniform up to 0.15, so its mean square is a third of that squared
    assert float(noise.square().mean()) == pytest.approx(expected * 0.15**2 / 3, rel=0.06)


def test_missing_coordinates_take_their_samples_along() -> None:
    settings = wide(missing_share=1.0, missing_high=0.3)
    context = settings.observe(ramp(3000, d=3), 1.0, seeded(5))
    # on average a sample stays with the mean of (1 - p)^3 for p uniform up to 0.3
    kept = (1 - 0.7**4) / (4 * 0.3)
    assert float(context.mask.sum() / (3000 * 75)) == pytest.approx(kept, abs=0.01)


@pytest.mark.parametrize("kind", ["ours", "published"])
def test_operators_take_whatever_is_observed(kind: str) -> None:
    """Values and gradients stay finite on few samples, several ragged trajectories, clusters and windows."""
    torch.manual_seed(0)
    if kind == "ours":
        network = AmortisedNetwork(AmortisedConfig(context_width=24, token_width=16, n_updates=1))
    else:
        network = PublishedNetwork(PublishedConfig(32, 4, 64, 1, 1, 1, dropout=0.0))
    t = torch.linspace(0, 10, N)
    amplitude = torch.linspace(0.5, 2.0, 4).view(1, 4, 1)
    states = torch.stack([amplitude * torch.cos(t), amplitude * torch.sin(t)], -1).expand(8, 4, N, 2)
    for seed in range(4):
        settings = WideObservation(slots=(20, 100), missing_share=0.5)
        context = settings.observe(states, 10 / (N - 1), seeded(seed))
        points = torch.randn(8, 5, 2, generator=seeded(9), dtype=torch.float64)
        encoding = network.encode(context.t, context.x, context.mask)
        field = network.decode(encoding, points)
        field.abs().sum().backward()
        assert field.isfinite().all()
        assert all(p.grad.isfinite().all() for p in network.parameters() if p.grad is not None)


def test_other_keys_of_a_table_stay() -> None:
    given, changed = read_preset("ci"), read_preset("ci", {"network": {"n_updates": 3}})
    assert given.network.n_updates == 2
    assert changed.network == replace(given.network, n_updates=3)
    named = read_preset("ci", {"architecture": "amortised", "network": {"n_updates": 3}})
    assert named.network == changed.network


def test_presets_say_which_observation_they_mean() -> None:
    preset = read_preset("ci", {"observation": {"like": "wide", "slots": [20, 50]}})
    assert preset.observation == WideObservation(slots=(20, 50))
    assert isinstance(read_preset("ci").observation, Observation)
    with pytest.raises(ValueError, match=r"like in \[observation\] .* among \['paper', 'wide'\], got 'wild'"):
        read_preset("ci", {"observation": {"like": "wild"}})
    with pytest.raises(ValueError, match=r"unknown keys \['slots'\]"):
        read_preset("ci", {"observation": {"slots": [20]}})
