"""Training, generation and contexts on a device other than the CPU (see `second_device`)."""

import csv
from concurrent.futures import Future
from copy import deepcopy
from functools import partial

import numpy as np
import pytest
import torch
from second_device import DEVICE, host, second_device

import fim_dynsys
from fim_dynsys.models.fim_ode.weights import MANY, read_parameters, shipped, write_part
from training import pretrain as pretraining
from training import source
from training.checkpoint import load_checkpoint, new_state, save_checkpoint
from training.preset import read_preset
from training.pretrain import _update, pretrain, train_step, validate
from training.processes import Processes
from training.systems import generation
from training.systems.generation import Integration, generate, generate_fixed

THERE, HERE = Processes(0, 1, DEVICE), Processes(0, 1, torch.device("cpu"))
SMALL = {"batch": 4, "queries": 6, "device": "cpu", "compile": ""}
FEW_LAYERS = {"width": 32, "heads": 4, "feedforward": 64, "encoder_layers": 1, "decoder_layers": 2}
PUBLISHED = SMALL | {"network": FEW_LAYERS | {"uncertainty_layers": 1}}
PRESETS = {
    "amortised": ("ci", SMALL),
    "published": ("published-small", PUBLISHED),
    "published, bfloat16, wide": ("gpu-25min", PUBLISHED),
}
FAMILIES = ("paper", "sparse", "trigonometric", "rational", "oscillator", "gradient", "smooth", "stiff")


# ---------------------------------------------------------------------- the device


def test_tensors_of_two_devices_are_refused():
    with second_device():
        there = torch.ones(2, device=DEVICE)
        with pytest.raises(RuntimeError, match="same device, got \\(2,\\) on second:0, \\(2,\\) on cpu"):
            there + torch.ones(2)
        with pytest.raises(RuntimeError, match="generator of the same device, got one of cpu"):
            torch.rand(2, device=DEVICE, generator=torch.Generator())
        with pytest.raises(RuntimeError, match="generator of the same device, got one of second"):
            torch.rand(2, generator=torch.Generator(DEVICE))
        with pytest.raises(RuntimeError, match=r"numpy\(\) is not supported"):
            there.numpy()
        assert (there + torch.tensor(1.0)).cpu().tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="used outside"):
        there + 1


def test_waits_of_the_host_are_told_with_their_places():
    with second_device() as waits:
        values = torch.rand(5, device=DEVICE)
        order = (2.0 * values).argsort()
        assert order.device == DEVICE and values[order].shape == (5,) and waits == []
        float(values[0])  # the first
        values[values > 0.5]  # the second
        values.cpu()  # the third
        torch.tensor([1.0], device=DEVICE)  # the fourth
        values[[0, 1]]  # the fifth
    assert [wait[-9:] for wait in waits] == ["the first", "he second", "the third", "he fourth", "the fifth"]


def test_gradients_and_autocast_are_those_of_the_cpu():
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(3, 2), torch.rand(4, 3)
    layer(x).sum().backward()
    with second_device():
        moved = deepcopy(layer).to(DEVICE)
        moved.zero_grad()
        there = x.to(DEVICE)
        moved(there).sum().backward()
        with torch.autocast(DEVICE.type, torch.bfloat16):
            types = [v.dtype for v in (moved(there), moved(there).sum(), moved(there).exp(), there.double())]
    assert torch.equal(host(moved.weight.grad), layer.weight.grad)
    assert types == [torch.bfloat16, torch.float32, torch.float32, torch.float64]


# ---------------------------------------------------------------------- generation


@pytest.fixture
def coarse(monkeypatch):
    """One step of integration per sample."""
    schemes = {name: (advance, 1.0) for name, (advance, _) in generation.SCHEMES.items()}
    monkeypatch.setattr(generation, "SCHEMES", schemes)


def tensors_of(systems):
    ridge = systems.fields.ridge
    return [systems.states, systems.coefficients, *(ridge.tensors().values() if ridge else ())]


@pytest.mark.parametrize("prior", FAMILIES)
def test_systems_are_made_on_the_device_without_a_wait(prior, coarse):
    make = partial(generate_fixed, prior, 2, 4, 24, 1, settings=Integration(12))
    with second_device() as waits:
        make(device=DEVICE)
        waits.clear()  # constants are there from now on
        systems, found = make(device=DEVICE)
        assert waits == []
    expected, count = make(device=HERE.device)
    assert host(found) == count
    for own, other in zip(tensors_of(systems), tensors_of(expected), strict=True):
        torch.testing.assert_close(host(own), other, rtol=0, atol=0)


def test_rejection_as_it_goes_works_on_the_device(coarse):
    with second_device():
        systems = generate("rational", 1, 4, 3, Integration(12), DEVICE)
    expected = generate("rational", 1, 4, 3, Integration(12))
    torch.testing.assert_close(host(systems.states), expected.states, rtol=0, atol=0)


class AtOnce:
    """An executor that works in the thread that asks: the second device is made usable for one thread."""

    def __init__(self, *args, **kwargs):
        pass

    def submit(self, work, *args):
        done = Future()
        done.set_result(work(*args))
        return done


def test_blocks_are_streamed_on_the_device(coarse, monkeypatch):
    monkeypatch.setattr(source, "ThreadPoolExecutor", AtOnce)
    changes = {"pools": [["sparse", 1, 6], ["paper", 2, 4]], "refresh": 3, "samples": 12}
    preset = read_preset("ci", SMALL | changes)
    with second_device():
        stream = source.Stream(preset, DEVICE, fixed=True)
        blocks = [stream.at(step, 6) for step in (0, 2, 3)]
    assert blocks[0] is blocks[1] and blocks[2] is not blocks[0]
    assert {dim: len(own) for dim, own in blocks[2].items()} == {1: 6, 2: 4}
    assert all(own.states.device == DEVICE for own in blocks[2].values())


# ---------------------------------------------------------------------- training


@pytest.fixture(scope="module")
def pools():
    return {2: generate("sparse", 2, 8, 5, Integration(64))}


@pytest.mark.parametrize("name", PRESETS)
def test_steps_train_on_the_device(name, pools, tmp_path):
    preset = read_preset(*PRESETS[name])
    state = new_state(preset)
    state.total = 10
    train_step(state, _update(preset, state, HERE), preset, pools, HERE)
    save_checkpoint(tmp_path / "checkpoint.safetensors", state)
    with second_device() as waits:
        moved = new_state(preset, DEVICE)
        load_checkpoint(tmp_path / "checkpoint.safetensors", moved)
        assert moved.step == 1 and {p.device for p in moved.network.parameters()} == {DEVICE}
        found = validate(moved.average, preset, pools, DEVICE)
        systems = {dim: own.to(DEVICE) for dim, own in pools.items()}
        step = _update(preset, moved, THERE)
        before = [host(p).clone() for p in moved.network.parameters()]
        train_step(moved, step, preset, systems, THERE)
        waits.clear()  # constants are there from now on
        left = train_step(moved, step, preset, systems, THERE)
        if name != "amortised":  # which sizes its windows by the data
            assert waits == []
        else:
            assert len(waits) <= 4
    assert host(left).isfinite().all()
    after = [host(p) for p in moved.network.parameters()]
    assert not all(map(torch.equal, after, before))
    expected = validate(state.average, preset, pools, HERE.device)
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", ["amortised", "published"])
def test_runs_are_interrupted_and_resumed_on_the_device(name, coarse, monkeypatch, tmp_path):
    monkeypatch.setattr(pretraining, "join", lambda device: THERE)
    monkeypatch.setattr(source, "ThreadPoolExecutor", AtOnce)
    monkeypatch.setattr(pretraining, "TIMED_STEPS", 2)
    monkeypatch.setattr(pretraining, "UNTIMED_STEPS", 1)
    monkeypatch.setattr(source, "_TRIAL", 200)
    base, changes = PRESETS[name]
    changes = changes | {"pools": [["sparse", 2, 6]], "validation": 4, "samples": 24, "log_every": 3}
    preset = read_preset(base, changes | {"refresh": 2, "steps": 0, "minutes": 1e-6})
    with second_device():
        state = pretrain(preset, tmp_path / "run", stop_after=1)
        assert (state.step, state.total, len(state.window)) == (1, 2, 1)
    preset = read_preset(base, changes | {"refresh": 2, "steps": 5})
    with second_device():
        pretrain(preset, tmp_path / "other", stop_after=2)
        state = pretrain(preset, tmp_path / "other", stop_after=2)
        assert state.step == 4 and len(state.window) == 1
        whole = pretrain(preset, tmp_path / "whole", stop_after=4)
        weights = str(tmp_path / "other" / "weights.safetensors")
        again = pretrain(preset, tmp_path / "again", resume_from=weights)
        assert (again.step, again.restart) == (5, 4)
    assert {p.device for p in again.network.parameters()} == {DEVICE}
    for own, other in zip(state.network.parameters(), whole.network.parameters(), strict=True):
        assert torch.equal(host(own), host(other))
    rows = list(csv.DictReader((tmp_path / "other" / "log.csv").open()))
    assert [row["step"] for row in rows] == ["3"] and float(rows[0]["validation loss"]) > 0


# ---------------------------------------------------------------------- what chooses


@pytest.mark.parametrize("name", ["fim-ode", "fim-ode-published"])
def test_models_infer_and_answer_on_the_device(name, random_published_weights):
    options = {"refine": False} if name == "fim-ode" else {"weights": random_published_weights}
    t = np.linspace(0.0, 6.0, 60)
    x = np.stack([np.cos(t), -np.sin(t)], 1) * np.exp(-0.1 * t)[:, None]
    expected = fim_dynsys.load(name, **options).fit(x, t)
    with second_device():
        moved = fim_dynsys.load(name, **options, device=str(DEVICE)).fit(x, t)
        answer = moved.predict(x)
    np.testing.assert_allclose(answer, expected.predict(x), rtol=1e-4, atol=1e-5)


def test_a_network_for_more_states_is_on_the_device_too(tmp_path):
    own = shipped("fim-ode")
    many = write_part(own, tmp_path / "many.safetensors", MANY, _louder(own), {"many": {"up to": 3}})
    t = np.linspace(0.0, 6.0, 60)
    x = np.stack([np.cos(t), -np.sin(t), np.cos(2 * t), -np.sin(2 * t)], 1) * np.exp(-0.1 * t)[:, None]
    x += 0.05 * np.random.default_rng(0).normal(size=x.shape)
    with second_device():
        moved = fim_dynsys.load("fim-ode", weights=many, refine=False, device=str(DEVICE)).fit(x, t)
        answer = moved.predict(x)
    expected = fim_dynsys.load("fim-ode", weights=many, refine=False).fit(x, t).predict(x)
    other = fim_dynsys.load("fim-ode", refine=False).fit(x, t).predict(x)
    assert np.abs(answer - expected).max() < 0.05 * np.abs(answer - other).max()


def _louder(path):
    return {name: 1.1 * array for name, array in read_parameters("test", path).items()}
