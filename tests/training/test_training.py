"""The loop of pretraining: schedule, resuming, kills, exports, precision, processes, few dependencies."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from multiprocessing.context import ForkServerContext
from pathlib import Path
from types import SimpleNamespace

import joined
import numpy as np
import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounter

from benchmarks.interruption.__main__ import interrupted, same
from fim_dynsys.models.fim_ode.networks import build_network, read_tensors
from fim_dynsys.models.fim_ode.published import PublishedConfig, PublishedNetwork
from training import describe
from training import pretrain as pretraining
from training.checkpoint import export, exported, load_checkpoint, new_state, save_checkpoint
from training.learner import LEARNERS, LossWeights, Trainee, compile_blocks, published_network
from training.objective import TRIVIAL_LOSS, draw_queries, field_loss, relative_error
from training.preset import Preset, Stage, learning_rate, observer, read_preset
from training.pretrain import UNTIMED_STEPS, loss_weights, pretrain, train_step
from training.processes import Processes
from training.systems.corruption import Observation, WideObservation
from training.systems.generation import cached
from training.update import Recorded, Update

ROOT = Path(__file__).resolve().parents[2]
SMALL = {"width": 32, "heads": 4, "feedforward": 64, "decoder_layers": 2, "uncertainty_layers": 1}
QUIET = {"dropout": 0.0, **SMALL}
POOLS = [["paper", 1, 60], ["paper", 2, 40]]
ONE = [["paper", 1, 60]]
FEW_TIMED = 5  # steps, where their time is measured


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ours(**changes) -> Preset:
    """The preset `ci` without three-dimensional systems, which take longest to make."""
    return read_preset("ci", {"pools": POOLS, **changes})


def published(**changes) -> Preset:
    """A seconds-long run of a small published network."""
    values = {"architecture": "published", "network": SMALL, "pools": ONE, "place_weights": [1.0, 0.0, 1.0]}
    return read_preset("ci", {**values, "learning_rate": 1e-3, **changes})


# --- objective ---


def test_zero_field_has_the_trivial_loss_and_the_truth_none() -> None:
    truth = torch.randn(5, 3, 7, 2, generator=seeded(6))
    weights = torch.tensor([1.0, 1.0, 0.5])
    assert float(field_loss(relative_error(torch.zeros_like(truth), truth), weights)) == pytest.approx(
        TRIVIAL_LOSS
    )
    assert float(field_loss(relative_error(truth, truth), weights)) == 0.0


def test_published_loss_is_the_paper_s(tmp_path: Path) -> None:
    """Mean of e^-u err + u over on-path and box queries, err in normalised units, written out again."""
    preset = published(network=QUIET)
    systems = cached(tmp_path, "stiff", 2, 6, seed=1)
    context = Observation().observe(systems.states, 0.05, seeded(1))
    queries = draw_queries(systems, context, 10, seeded(2))
    state = new_state(preset)
    loss, _, uncertainty = LEARNERS["published"].loss(
        state.network, context, queries, LossWeights(torch.tensor([1.0, 0.0, 1.0]).double(), 0.0)
    )
    t = context.t.double()
    total, estimates = [], []
    for b in range(6):
        x = context.x[b].double()
        std = x.flatten(0, 1).std(0, correction=0).clamp(min=1e-6)
        rate = 0.01 / torch.exp(torch.log(t[b].diff(dim=-1)).mean())
        for place in range(3):
            points, truth = queries.points[b, place][None], queries.field[b, place][None]
            f, u = state.network(context.t[b : b + 1], context.x[b : b + 1], context.mask[b : b + 1], points)
            error = ((f - truth) / (std * rate)).abs().mean(-1)
            estimates.append(u.mean())
            if place != 1:
                total.append((torch.exp(-u) * error + u).mean())
    assert loss.item() == pytest.approx(torch.stack(total).mean().item(), rel=1e-4)  # float32 network
    assert uncertainty.item() == pytest.approx(torch.stack(estimates).mean().item(), rel=1e-4)


def test_the_log_has_the_uncertainty_where_there_is_a_head(tmp_path: Path) -> None:
    for layers, logged in ((1, True), (0, False)):
        preset = published(network={**QUIET, "uncertainty_layers": layers}, steps=4, log_every=2)
        folder = tmp_path / str(layers)
        pretrain(preset, folder)
        rows = np.genfromtxt(folder / "log.csv", delimiter=",", names=True)
        assert ("validation_uncertainty" in rows.dtype.names) == logged
        assert np.any(rows["uncertainty"] != 0) == logged
        curves = {line.get_label() for line in describe.run_figure(folder).axes[0].lines}
        assert ({"train, uncertainty", "validation, uncertainty"} <= curves) == logged


def test_layers_are_compiled_once_for_all_dimensions_and_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = CompileCounter()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=compiled))
    plain, network = (new_state(published(network=QUIET)).network for _ in range(2))
    compile_blocks(network, "default")
    for n, dim in ((7, 1), (9, 2), (12, 3), (15, 2)):
        t = torch.arange(n, dtype=torch.float32).expand(2, 1, n)
        x = torch.randn(2, 1, n, dim, generator=seeded(n))
        seen = torch.ones(2, 1, n, dtype=torch.bool)
        answers = [each(t, x, seen, x[:, 0, :5].double()) for each in (network, plain)]
        for own, expected in zip(*answers, strict=True):
            torch.testing.assert_close(own, expected, rtol=1e-5, atol=1e-6)
    assert 2 <= compiled.frame_count < 10  # not the forty of five layers and five summaries at four shapes


def test_first_weights_tell_the_direction_of_motion(tmp_path: Path) -> None:
    """Run through backwards the same states have the opposite field; torch's weights hardly see it."""
    systems = cached(tmp_path, "paper", 1, 40, seed=0)[torch.arange(20)]
    context = Observation().observe(systems.states, 0.05, seeded(1))
    points = systems.states[:, 0, :20].double()

    def seen(build: Callable[[PublishedConfig], PublishedNetwork]) -> float:
        torch.manual_seed(0)
        network = build(PublishedConfig(**{**QUIET, "uncertainty_layers": 0}))
        with torch.no_grad():
            ways = [network.encode(context.t, x, context.mask) for x in (context.x, context.x.flip(2))]
            unit = ways[0].normalisation.std * ways[0].normalisation.rate[:, None]
            there, back = (network.decode(way, points) / unit[:, None, :1] for way in ways)
        return float((there - back).abs().mean() / there.abs().mean())

    assert seen(published_network) > 0.03 > 0.015 > seen(PublishedNetwork)


@pytest.mark.parametrize("dim", [1, 2])
def test_first_weights_weigh_places_by_their_nearness(dim: int) -> None:
    """What a query meets depends on the motion of states beside it more than on that of states far off."""
    config = PublishedConfig(**{**QUIET, "width": 64, "heads": 2, "encoder_layers": 0})
    x = torch.zeros(1, 80, 3)
    x[..., :dim] = torch.linspace(-2, 2, 80)[None, :, None]
    beside, moves = x[..., :1] < 0, torch.randn(1, 80, 64, generator=seeded(3))
    moves[..., 16:32] = 0.0  # of the width's quarters the state's

    def ratio(build: Callable[[PublishedConfig], PublishedNetwork]) -> float:
        torch.manual_seed(0)
        network = build(config)
        attention = network.decoder[0].attention
        tokens = torch.nn.functional.pad(network.embedding.x(x), (16, 32))
        query, whole = network.query_embedding(x[:, :20]), torch.ones(1, 80, dtype=torch.bool)

        def met(moved: Tensor) -> Tensor:
            return attention(query, attention.summarise(tokens + 0.01 * moved, whole))

        still = met(0 * moves)
        return float((met(moves * beside) - still).norm() / (met(moves * ~beside) - still).norm())

    with torch.no_grad():
        assert ratio(published_network) > 3 > 1.5 > ratio(PublishedNetwork)


def test_a_field_predictor_alone_minimises_the_relative_error(tmp_path: Path) -> None:
    preset = published(network={**QUIET, "uncertainty_layers": 0})
    systems = cached(tmp_path, "paper", 1, 20, seed=1)[torch.arange(6)]
    context = Observation().observe(systems.states, 0.05, seeded(1))
    queries = draw_queries(systems, context, 10, seeded(2))
    state, weights = new_state(preset), LossWeights(torch.tensor([1.0, 0.0, 1.0]).double(), 0.0)
    loss, error, _ = LEARNERS["published"].loss(state.network, context, queries, weights)
    points = queries.points.flatten(1, 2)
    f = state.network.decode(state.network.encode(context.t, context.x, context.mask), points)
    truth = queries.field
    expected = (f.view(truth.shape) - truth).abs().sum((-2, -1)) / truth.abs().sum((-2, -1))
    torch.testing.assert_close(error, expected.detach(), rtol=1e-3, atol=1e-6)
    assert loss.item() == pytest.approx(torch.log1p(10 * expected[:, [0, 2]]).mean().item(), rel=1e-4)
    state.total = 10
    (only,) = export(tmp_path / "w.safetensors", state, preset)
    network, header = build_network(only)
    assert network.config == preset.network and "head" not in header["extra"]


# --- schedule and presets ---


def test_schedule_warms_up_and_ends_at_its_final_rate() -> None:
    preset = read_preset("ci")
    rates = [learning_rate(preset, step, 1000) for step in range(1001)]
    assert max(rates) == pytest.approx(preset.learning_rate)
    assert rates[0] == pytest.approx(preset.learning_rate / 30)
    assert rates[-1] == pytest.approx(preset.final_learning_rate)
    again = [learning_rate(preset, step, 1000, restart=500) for step in range(500, 1001)]
    assert again[0] == pytest.approx(rates[500] / 30)
    assert again[30:] == pytest.approx(rates[530:])


def test_unknown_keys_presets_and_values_are_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown keys \['learning_rat'\]"):
        read_preset("ci", {"learning_rat": 1.0})
    with pytest.raises(ValueError, match=r"\[network\] .* unknown keys \['depth'\]"):
        read_preset("ci", {"network": {"depth": 2}})
    with pytest.raises(ValueError, match=r"known presets: .*ci"):
        read_preset("no-such-preset")
    with pytest.raises(ValueError, match=r"architecture to be one of .*'published'.* got 'transformer'"):
        read_preset("ci", {"architecture": "transformer"})
    with pytest.raises(ValueError, match="float32 without compilation for 'amortised'"):
        read_preset("ci", {"precision": "bfloat16"})


def test_stages_change_what_is_seen() -> None:
    stages = [{"after": 0.25, "noise_high": 0.01}, {"after": 0.5, "like": "wide", "fewest": 7}]
    preset = ours(stages=stages)
    assert preset.stages == (
        Stage(0.25, Observation(noise_high=0.01)),
        Stage(0.5, WideObservation(fewest=7)),
    )
    first, second, third = preset.observation, *(stage.observation for stage in preset.stages)
    assert [observer(preset, step, 8) for step in range(8)] == [first] * 2 + [second] * 2 + [third] * 4
    for wrong in (stages[::-1], [{"after": 0.0}], [{"after": 1.0}]):
        with pytest.raises(ValueError, match=r"expected stages after growing shares .* between 0 and 1"):
            ours(stages=wrong)
    with pytest.raises(ValueError, match=r"expected after in every table of stages .* got \['noise_high'\]"):
        ours(stages=[{"noise_high": 0.01}])
    with pytest.raises(ValueError, match=r"unknown keys \['noise'\]"):
        ours(stages=[{"after": 0.5, "noise": 0.01}])


@pytest.mark.parametrize("path", sorted((ROOT / "training" / "presets").glob("*.toml")), ids=lambda p: p.stem)
def test_every_preset_can_be_read(path: Path) -> None:
    preset = read_preset(path.stem)
    assert preset.steps or preset.minutes or preset.within


# --- the loop ---


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    pretrain(ours(), folder)
    return folder


def test_loss_falls_below_the_trivial_predictor(uninterrupted: Path) -> None:
    rows = np.genfromtxt(uninterrupted / "log.csv", delimiter=",", names=True)
    assert rows["validation_loss"][-1] < 0.75 * TRIVIAL_LOSS
    assert rows["validation_loss"][-1] < rows["validation_loss"][0]
    assert np.isfinite(rows["gradient"]).all()


def test_interrupted_and_resumed_equals_uninterrupted(uninterrupted: Path) -> None:
    """Stopped between two log rows, with a checkpoint older than the log's last row beside it."""
    folder = uninterrupted.parent / "parts"
    preset = ours(checkpoint_minutes=0.0)
    pretrain(preset, folder, stop_after=13)
    kept = (folder / "checkpoint.safetensors").read_bytes()
    pretrain(preset, folder, stop_after=5)
    (folder / "checkpoint.safetensors").write_bytes(kept)
    state = pretrain(preset, folder)
    assert state.step == 30
    assert same(folder, uninterrupted) == {"same curve": True, "same weights": True}


def test_killed_twice_ends_the_same(uninterrupted: Path, forks: ForkServerContext) -> None:
    """SIGKILL; ten of them: python -m benchmarks.interruption."""
    folder = uninterrupted.parent / "killed"
    preset = ours(checkpoint_minutes=0.0)
    kills = interrupted(partial(pretrain, preset), folder, [0.0, 0.1])
    assert [kill.killed for kill in kills] == [True, True]
    assert kills[1].checkpoint_found
    assert same(folder, uninterrupted) == {"same curve": True, "same weights": True}


def test_exported_weights_build_the_network(uninterrupted: Path) -> None:
    network, header = build_network(uninterrupted / "weights.safetensors")
    assert header["architecture"] == "amortised" and header["max_dim"] == 3
    assert (header["extra"]["steps"], header["extra"]["presentations"]) == (30, 240)
    t = torch.linspace(0, 4, 60, dtype=torch.float64)[None, None]
    x = torch.exp(-0.7 * t)[..., None]
    points = torch.linspace(0.1, 1.0, 9, dtype=torch.float64)[None, :, None]
    encoding = network.double().encode(t, x, torch.ones_like(t, dtype=torch.bool))
    assert network.decode(encoding, points)[0, :, 0].tolist() == pytest.approx(
        (-0.7 * points[0, :, 0]).tolist(), abs=0.1
    )


def test_a_run_starts_from_exported_weights(uninterrupted: Path) -> None:
    weights = uninterrupted / "weights.safetensors"
    state = new_state(ours(initial=str(weights)))
    stored = read_tensors(weights)
    for network in (state.network, state.average):
        for name, value in network.state_dict().items():
            torch.testing.assert_close(value, stored[name].float(), rtol=0, atol=0)


@pytest.fixture
def few_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretraining, "TIMED_STEPS", FEW_TIMED)


def test_minutes_become_steps_once(few_timed: None, tmp_path: Path) -> None:
    preset = replace(published(steps=0), minutes=1.0, pools=(("paper", 1, 20),), validation=4)
    first = pretrain(preset, tmp_path / "run", stop_after=1)
    assert first.total > 60  # a step takes milliseconds
    again = pretrain(replace(preset, minutes=50.0), tmp_path / "run", stop_after=1)
    assert (again.step, again.total) == (2, first.total)


@pytest.mark.parametrize("small", [ours, published])
def test_timed_steps_leave_no_trace(small, few_timed: None, tmp_path: Path) -> None:
    shape = {"pools": (("paper", 1, 20), ("paper", 2, 20)), "validation": 4, "log_every": 3}
    sized = pretrain(replace(small(steps=0), minutes=1e-6, **shape), tmp_path / "sized", stop_after=5)
    assert sized.total == FEW_TIMED
    plain = pretrain(replace(small(steps=FEW_TIMED), **shape), tmp_path / "plain", stop_after=5)
    for own, other in zip(sized.network.parameters(), plain.network.parameters(), strict=True):
        assert torch.equal(own, other)
    for own, other in zip(sized.average.parameters(), plain.average.parameters(), strict=True):
        assert torch.equal(own, other)


def test_a_command_ends_within_its_time_and_annealed(few_timed: None, monkeypatch, tmp_path: Path) -> None:
    """However long systems took: steps are planned for what is left, validations included."""
    now, prepare, step, check = [0.0], pretraining.held_out, pretraining.train_step, pretraining.validate

    def slow(seconds, call):
        def later(*arguments):
            now[0] += seconds
            return call(*arguments)

        return later

    monkeypatch.setattr(pretraining, "held_out", slow(60.0, prepare))
    monkeypatch.setattr(pretraining, "train_step", slow(4.0, step))
    monkeypatch.setattr(pretraining, "validate", slow(10.0, check))
    monkeypatch.setattr(pretraining, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setitem(pretraining.CLOCKS, "wall", lambda: now[0])
    shape = {"pools": (("paper", 1, 20),), "validation": 4, "log_every": 10}
    state = pretrain(replace(published(steps=0), within=4.0, **shape), tmp_path / "run")
    left = 240 - 60 - 4 * (UNTIMED_STEPS + FEW_TIMED) - 10
    assert state.step == state.total == int((pretraining.MARGIN * left - 10) / (4 + 10 / 10))
    assert now[0] < 240


def test_every_dimension_is_met_before_steps_are_timed(few_timed: None, monkeypatch, tmp_path: Path) -> None:
    """Compilers and caches have their first time there."""
    asked, step = [], pretraining.train_step

    def counted(state, trainee, preset, pools, processes):
        asked.append(sorted(pools))
        return step(state, trainee, preset, pools, processes)

    monkeypatch.setattr(pretraining, "train_step", counted)
    pools = (("paper", 1, 20), ("paper", 2, 20))
    preset = replace(published(steps=0), minutes=0.01, pools=pools, validation=4)
    pretrain(preset, tmp_path / "run", stop_after=1)
    untimed, rest = asked[: 2 * UNTIMED_STEPS], asked[2 * UNTIMED_STEPS :]
    assert untimed == [[1]] * UNTIMED_STEPS + [[2]] * UNTIMED_STEPS
    assert rest == [[1, 2]] * (FEW_TIMED + 1)


def test_pauses_count_from_the_call(monkeypatch, tmp_path: Path) -> None:
    """So that a command keeps within its time, however long it took to start."""
    now, prepare = [0.0], pretraining.held_out

    def slow(*arguments):
        now[0] += 100.0
        return prepare(*arguments)

    monkeypatch.setattr(pretraining, "held_out", slow)
    monkeypatch.setattr(pretraining, "time", SimpleNamespace(monotonic=lambda: now[0]))
    assert pretrain(published(steps=3), tmp_path / "late", pause_after=1.0).step == 0
    assert (tmp_path / "late" / "weights.safetensors").exists()
    assert pretrain(published(steps=3), tmp_path / "early", pause_after=2.0).step == 3


def test_run_that_goes_astray_stops_and_keeps_its_checkpoint(tmp_path: Path) -> None:
    preset = published(checkpoint_minutes=0.0)
    pretrain(preset, tmp_path / "run", stop_after=4)
    with pytest.raises(FloatingPointError, match=r"at step [4-9]"):
        pretrain(replace(preset, learning_rate=1e30), tmp_path / "run")
    state = new_state(preset)
    load_checkpoint(tmp_path / "run" / "checkpoint.safetensors", state)
    assert all(p.isfinite().all() for p in state.network.parameters())


def test_bfloat16_and_dropout_resume_exactly(tmp_path: Path) -> None:
    preset = published(steps=4, precision="bfloat16", log_every=2)
    pretrain(preset, tmp_path / "whole")
    pretrain(preset, tmp_path / "parts", stop_after=3)
    pretrain(preset, tmp_path / "parts")
    assert same(tmp_path / "parts", tmp_path / "whole") == {"same curve": True, "same weights": True}
    state = new_state(preset)
    load_checkpoint(tmp_path / "parts" / "checkpoint.safetensors", state)
    assert {p.dtype for p in state.network.parameters()} == {torch.float32}


def test_stages_resume_and_are_validated_apart(tmp_path: Path) -> None:
    stages = [{"after": 0.5, "noise_high": 0.5, "clean_share": 0.0}]
    preset = published(steps=4, log_every=2, stages=stages, observation={"noise_high": 0.0})
    pretrain(preset, tmp_path / "parts", stop_after=3)
    pretrain(preset, tmp_path / "parts")
    pretrain(preset, tmp_path / "whole")
    assert same(tmp_path / "parts", tmp_path / "whole") == {"same curve": True, "same weights": True}
    last = np.genfromtxt(tmp_path / "whole" / "log.csv", delimiter=",", names=True)[-1]
    first, second = last["validation_loss_1D"], last["validation_loss_1D_stage_1"]
    assert last["validation_loss"] == pytest.approx((first + second) / 2, rel=1e-3)
    assert first != second


def test_gradients_are_clipped_and_the_average_trails(tmp_path: Path) -> None:
    """A step of plain gradient descent moves the weights by the clipped gradient, and no further."""
    preset = published(network=QUIET, clip=1e-3, learning_rate=0.5, warmup=0.0, pools=ONE)
    pool = {1: cached(tmp_path, "paper", 1, 60, seed=0)}
    state = new_state(preset)
    state.total = 10
    state.optimiser = torch.optim.SGD(state.network.parameters(), lr=1.0)
    before = torch.nn.utils.parameters_to_vector(state.network.parameters()).detach()
    trainee = Trainee(LEARNERS["published"], state.network, loss_weights(preset))
    cpu = torch.device("cpu")
    update = Update(state, trainee, preset.clip, cpu, in_bfloat16=False)
    row = train_step(state, update, preset, pool, Processes(0, 1, cpu))
    after = torch.nn.utils.parameters_to_vector(state.network.parameters()).detach()
    assert float(row[1]) > 1e-2  # the norm that was clipped to 1e-3, and scaled by the rate
    assert float((after - before).norm()) == pytest.approx(0.5 * 1e-3, rel=1e-2)
    average = torch.nn.utils.parameters_to_vector(state.average.parameters())
    torch.testing.assert_close(average, before + (after - before) * (1 - 1 / 10), rtol=1e-5, atol=1e-7)


# --- exported weights ---


def test_published_network_is_exported_as_two_files(tmp_path: Path) -> None:
    preset = published()
    state = new_state(preset)
    state.total = 10
    predictor, head = export(tmp_path / "w.safetensors", state, preset)
    network, header = build_network(predictor)
    assert header["extra"]["head"] == head.name
    assert network.config == replace(preset.network, uncertainty_layers=0)
    assert set(read_tensors(head)) == {
        name for name in state.average.state_dict() if name.startswith("uncertainty")
    }
    _, tensors = exported(predictor)
    torch.testing.assert_close(tensors, {k: v.half() for k, v in state.average.state_dict().items()})


def test_the_full_size_stays_under_16_mib_a_file() -> None:
    with torch.device("meta"):  # sizes only
        network = PublishedNetwork(PublishedConfig())
    sizes = {"head": 0, "predictor": 0}
    for name, tensor in network.state_dict().items():
        sizes["head" if name.startswith("uncertainty") else "predictor"] += 2 * tensor.numel()
    assert max(sizes.values()) < 16 * 2**20
    assert sum(sizes.values()) == 2 * 12_968_068


def test_exported_weights_stand_in_for_a_lost_folder(tmp_path: Path) -> None:
    preset = published(steps=12, pools=ONE, log_every=4)
    pretrain(preset, tmp_path / "first", stop_after=6)
    weights = tmp_path / "first" / "weights.safetensors"
    state = pretrain(preset, tmp_path / "second", resume_from=str(weights))
    assert (state.step, state.total, state.restart) == (12, 12, 6)
    rows = np.genfromtxt(tmp_path / "second" / "log.csv", delimiter=",", names=True)
    assert rows["step"].tolist() == [8, 12]


def test_checkpoint_restores_every_number(tmp_path: Path) -> None:
    preset = read_preset("ci")
    state = new_state(preset)
    for p in state.network.parameters():
        p.grad = torch.randn(p.shape, generator=seeded(1))
    state.optimiser.step()
    state.step, state.total, state.restart, state.seconds = 7, 90, 3, 1.25
    state.window = [torch.rand(5, generator=seeded(2)) for _ in range(2)]
    save_checkpoint(tmp_path / "c.safetensors", state)
    again = new_state(replace(preset, seed=9))
    load_checkpoint(tmp_path / "c.safetensors", again)
    assert (again.step, again.total, again.restart, again.seconds) == (7, 90, 3, 1.25)
    assert torch.equal(torch.stack(again.window), torch.stack(state.window))
    for own, other in zip(state.network.parameters(), again.network.parameters(), strict=True):
        assert torch.equal(own, other)
        kept, loaded = state.optimiser.state[own], again.optimiser.state[other]
        assert kept.keys() == loaded.keys() and kept
        assert all(torch.equal(kept[key], loaded[key]) for key in kept)


# --- processes ---


def by_forks(forks: ForkServerContext, folder: Path) -> None:
    port = joined.free_port()
    both = [forks.Process(target=joined.share, args=(folder, rank, 2, port)) for rank in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]


def by_torchrun(forks: ForkServerContext, folder: Path) -> None:
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", joined.__file__]
    result = subprocess.run(
        [sys.executable, *command, str(folder)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert result.returncode == 0, result.stderr[-3000:]


@pytest.mark.parametrize("start", [by_forks, pytest.param(by_torchrun, marks=pytest.mark.slow)])
def test_two_processes_equal_one_with_the_joined_batch(
    start: Callable[[ForkServerContext, Path], None], forks: ForkServerContext, tmp_path: Path
) -> None:
    """With gloo; sums over halves of the batch differ by rounding, not amplified in five steps."""
    run = tmp_path / "runs" / "two"
    start(forks, run)
    first, second = (torch.load(run / f"rank{rank}.pt", weights_only=True) for rank in (0, 1))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    alone = pretrain(joined.preset(), tmp_path / "runs" / "one")
    for own, other in zip(first, alone.network.parameters(), strict=True):
        torch.testing.assert_close(own, other.detach(), rtol=1e-4, atol=1e-5)
    rows = [
        np.genfromtxt(tmp_path / "runs" / name / "log.csv", delimiter=",", names=True)
        for name in ("one", "two")
    ]
    assert rows[0]["loss"] == pytest.approx(rows[1]["loss"], rel=1e-3)
    assert rows[0]["gradient"] == pytest.approx(rows[1]["gradient"], rel=1e-3)


def test_a_batch_that_cannot_be_shared_is_refused() -> None:
    with pytest.raises(ValueError, match="3 processes can share equally, got 8"):
        Processes(0, 3, torch.device("cpu")).share(8)


# --- dependencies ---


def test_pretraining_needs_torch_numpy_and_safetensors_only() -> None:
    """In a process where every other third-party package is blocked."""
    code = """
import sys
others = {"scipy", "xarray", "pandas", "sklearn", "pysindy", "matplotlib", "tqdm", "joblib", "h5netcdf"}
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in others:
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Block())
import training.pretrain
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & others, loaded & others
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=1800)
    assert result.returncode == 0, result.stderr


@pytest.mark.gpu
def test_replayed_steps_are_the_steps_themselves(tmp_path: Path) -> None:
    """Losses and weights after recorded steps equal those of the same steps one by one, to rounding."""
    device = torch.device("cuda")
    preset = published(network=QUIET, pools=ONE, device="cuda", observation={"drop_high": 0.0})
    pool = {1: cached(tmp_path, "paper", 1, 60, seed=0).to(device)}
    rows, weights = [], []
    for record in (False, True):
        state = new_state(preset, device)
        state.total = 12
        trainee = Trainee(LEARNERS["published"], state.network, loss_weights(preset, device))
        update = Update(state, trainee, preset.clip, device, in_bfloat16=False)
        step = Recorded(update) if record else update
        done = [train_step(state, step, preset, pool, Processes(0, 1, device)) for _ in range(12)]
        rows.append(torch.stack(done))
        weights.append(torch.nn.utils.parameters_to_vector(state.average.parameters()))
    torch.testing.assert_close(*rows, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(*weights, rtol=1e-3, atol=1e-5)


def test_presets_that_cannot_be_run_say_why() -> None:
    with pytest.raises(ValueError, match="record only where device is cuda, got 'cpu'"):
        read_preset("ci", {"record": True})
    with pytest.raises(ValueError, match=r"makers or refresh, got both \(2, 4\)"):
        read_preset("ci", {"makers": 2, "refresh": 4})
