"""Patch-token attention: what it is invariant to, its field, its file, and that it can be trained."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import fim_dynsys
from fim_dynsys.models.fim_ode.patches import PatchConfig, PatchDecoder, PatchNetwork
from fim_dynsys.models.fim_ode.weights import save_weights
from fim_dynsys.testing import check_field, check_model
from fim_dynsys.trajectories import Trajectories
from training.preset import read_preset
from training.pretrain import pretrain

SMALL = PatchConfig(width=32, heads=4, feedforward=64, encoder_layers=2, decoder_layers=2)


@pytest.fixture(scope="module")
def network() -> PatchNetwork:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = PatchNetwork(SMALL).eval().double()
        torch.nn.init.normal_(network.reader.head.weight, std=0.3)  # it starts as a field of zeros
        return network


@pytest.fixture(scope="module")
def weights(network: PatchNetwork, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "patches.safetensors"
    return save_weights(path, network, "patches", SMALL, SMALL.max_dim, dtype=torch.float32)


def batch(lengths: tuple[int, ...] = (40, 23, 12), d: int = 2) -> tuple[torch.Tensor, ...]:
    """One context of ragged, irregular trajectories: times, states, mask."""
    rng = np.random.default_rng(0)
    t = np.zeros((1, len(lengths), max(lengths)))
    x, mask = np.zeros((*t.shape, d)), np.zeros(t.shape, dtype=bool)
    for k, n in enumerate(lengths):
        t[0, k, :n] = np.cumsum(rng.uniform(0.05, 0.2, n))
        x[0, k, :n] = np.cumsum(rng.normal(size=(n, d)), 0)
        mask[0, k, :n] = True
    return tuple(map(torch.from_numpy, (t, x, mask)))


def answer(network: PatchNetwork, t, x, mask, points=None) -> torch.Tensor:
    points = torch.linspace(-2, 2, 10).double().view(1, 5, 2) if points is None else points
    with torch.no_grad():
        return network.decode(network.encode(t, x, mask), points)


def test_it_has_one_and_a_half_million_parameters() -> None:
    assert sum(p.numel() for p in PatchNetwork().parameters()) == 1_497_603


def test_neither_padding_nor_order_nor_company_matters(network: PatchNetwork) -> None:
    t, x, mask = batch()
    plain = answer(network, t, x, mask)
    order = [2, 0, 1]
    torch.testing.assert_close(answer(network, t[:, order], x[:, order], mask[:, order]), plain)
    wide = [torch.nn.functional.pad(part, (0, 19)) for part in (t, mask)]
    filled = torch.cat([x, torch.full((1, 3, 19, 2), torch.nan)], 2)
    torch.testing.assert_close(answer(network, wide[0], filled, wide[1]), plain)
    other = batch((40, 9, 31))
    both = [torch.cat(pair) for pair in zip((t, x, mask), other, strict=True)]
    points = torch.linspace(-2, 2, 10).double().view(1, 5, 2)
    torch.testing.assert_close(answer(network, *both, points.expand(2, -1, -1))[:1], plain)


def test_units_and_origins_cancel(network: PatchNetwork) -> None:
    t, x, mask = batch()
    points = torch.linspace(-2, 2, 10).double().view(1, 5, 2)
    unit, shift = torch.tensor([30.0, 0.2]).double(), torch.tensor([5.0, -3.0]).double()
    scaled = answer(network, 7 * t + 100, x * unit + shift, mask, points * unit + shift)
    torch.testing.assert_close(scaled, answer(network, t, x, mask, points) * unit / 7, rtol=1e-9, atol=1e-9)


def test_unused_coordinates_change_nothing_and_more_are_refused(network: PatchNetwork) -> None:
    t, x, mask = batch()
    flat = torch.cat([x, torch.zeros_like(x[..., :1])], -1)
    points = torch.linspace(-2, 2, 10).double().view(1, 5, 2)
    extended = torch.cat([points, torch.zeros(1, 5, 1).double()], -1)
    torch.testing.assert_close(
        answer(network, t, flat, mask, extended)[..., :2], answer(network, t, x, mask, points)
    )
    with pytest.raises(ValueError, match="dimension at most 3, got 4"):
        network.encode(t, torch.cat([x, x], -1), mask)
    with pytest.raises(ValueError, match="width 32 with 5 heads"):
        replace(SMALL, heads=5)


def test_every_step_of_a_trajectory_is_seen(network: PatchNetwork) -> None:
    """Patches share a sample, so that no step falls between two of them."""
    t, x, mask = batch((33,))
    points = torch.zeros(1, 1, 2).double()
    x = x.requires_grad_()
    network.decode(network.encode(t, x, mask), points).sum().backward()
    assert bool((x.grad.abs().sum(-1) > 0).all())
    encoding = network.encode(t, x, mask)
    assert encoding.mask.shape == (1, 5)  # 32 steps, seven to a patch


def test_the_decoder_is_the_network_s(network: PatchNetwork) -> None:
    t, x, mask = batch()
    encoding = network.encode(t, x, mask)
    decoder = PatchDecoder(network.float(), torch.float64)
    network.double()
    points = torch.randn(6, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    memories = decoder.summarise(encoding.tokens, encoding.mask)
    z = encoding.normalisation.states(torch.nn.functional.pad(points[None], (0, 1)))[0]
    alone = decoder(z, tuple(type(m)(*(part[0] for part in m)) for m in memories))
    rows = decoder(z, tuple(type(m)(*(part[0].expand(6, *part[0].shape) for part in m)) for m in memories))
    torch.testing.assert_close(alone, rows)
    unit = encoding.normalisation.std[0] * encoding.normalisation.rate[0]
    expected = network.decode(encoding, points[None])[0]
    torch.testing.assert_close((alone * unit)[:, :2], expected, rtol=1e-6, atol=1e-6)  # once through float32
    assert decoder.to(torch.float32).dtype == torch.float32 and decoder.dtype == torch.float64


def test_it_is_a_model_like_any_other(weights: Path) -> None:
    check_model(lambda: fim_dynsys.load("fim-ode", weights=str(weights)))


def test_its_field_keeps_the_contract(weights: Path) -> None:
    t, x, _ = batch((40, 40))
    model = fim_dynsys.load("fim-ode", weights=str(weights))
    field = model.infer(Trajectories.from_arrays(list(x[0].numpy()), list(t[0].numpy())))
    check_field(field)
    assert field.fit_info.report["operator"] == "fim-ode"


def test_it_is_trained_exported_and_loaded(tmp_path: Path) -> None:
    sizes = {"width": 32, "heads": 4, "feedforward": 64, "encoder_layers": 1, "decoder_layers": 1}
    changes = {
        "architecture": "patches",
        "network": sizes,
        "pools": [["conservative", 2, 30]],
        "place_weights": [1.0, 0.0, 0.0],
        "batch": 16,
        "steps": 40,
        "learning_rate": 3e-3,
        "clip": 5.0,
        "ema": 0.8,
        "log_every": 20,
    }
    pretrain(read_preset("ci", changes), tmp_path / "run")
    rows = np.genfromtxt(tmp_path / "run" / "log.csv", delimiter=",", names=True)
    assert rows["validation_loss"][-1] < 0.85 * np.log(11)  # the loss of a field of zeros
    model = fim_dynsys.load("fim-ode", weights=str(tmp_path / "run" / "weights.safetensors"))
    t = np.linspace(0, 6, 80)
    circle = np.stack([np.cos(t), np.sin(t)], 1)
    turned = np.stack([-np.sin(t), np.cos(t)], 1)
    f = model.fit(circle, t).predict(circle)
    assert (f * turned).sum() / np.linalg.norm(f) / np.linalg.norm(turned) > 0.5  # it turns the right way
