"""Fine-tuning of networks: the folded decoder, rollouts, what moves, deltas, files to go on from."""

import numpy as np
import pytest
import torch
from published_networks import OURS, SMALL, random_network, saved

import fim_dynsys
from fim_dynsys.delta import Delta
from fim_dynsys.errors import FimDynsysWarning, TuningWarning
from fim_dynsys.models.fim_ode.batching import power_units
from fim_dynsys.models.fim_ode.decoded import PublishedFIMODE
from fim_dynsys.models.fim_ode.finetuning import training
from fim_dynsys.models.fim_ode.finetuning.decoding import MOVES, FoldedDecoder, effective
from fim_dynsys.models.fim_ode.finetuning.training import NetworkTuning, Problem
from fim_dynsys.trajectories.container import Trajectories

MAPS = ("softmax-gnot", "softmax")
QUICK = {"steps": 10, "learning_rate": 3e-3, "max_seconds": None}


def circles(k=2, n=16, d=2):
    rng = np.random.default_rng(0)
    t = np.cumsum(rng.uniform(0.1, 0.3, (k, n)), axis=1)
    phase = t + np.arange(k)[:, None]
    x = np.stack([np.cos(phase), 10 * np.sin(phase), phase * 0.1][:d], axis=-1)
    return Trajectories.from_arrays(list(x + 0.02 * rng.normal(size=x.shape)), list(t))


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return saved(random_network(**(SMALL | {"decoder_layers": 1})), tmp_path_factory.mktemp("weights"))


@pytest.fixture(scope="module")
def model(weights):
    return PublishedFIMODE(weights=weights)


@pytest.fixture(scope="module")
def tuned(model):
    return model.finetune(circles(), moves="low-rank", **QUICK)


# --- the loss ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*MAPS, "ours"])
def test_folded_decoder_is_the_network_s(kind, tmp_path):
    """Values, and gradients to every weight of the decoder and to the tokens."""
    network = (random_network(**SMALL, **OURS) if kind == "ours" else random_network(kind)).double()
    t, x, mask = (torch.as_tensor(a)[None] for a in circles().padded())
    z = torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def gradients(folded):
        network.zero_grad()
        encoding = network.encode(t, x, mask.all(-1))
        units = encoding.normalisation
        if folded:
            weights = effective(network, {})
            f = FoldedDecoder(network, weights, encoding.tokens, encoding.mask)(z)
        else:
            points = z * units.std[0, :2] + units.mean[0, :2]
            f = network.decode(encoding, points[None])[0] / (units.std[0, :2] * units.rate[0])
        (f**2).sum().backward()
        return f.detach(), {n: p.grad.clone() for n, p in network.named_parameters() if p.grad is not None}

    (f, own), (expected, reference) = gradients(True), gradients(False)
    torch.testing.assert_close(f, expected, rtol=1e-10, atol=1e-10)
    assert own.keys() == reference.keys()
    assert {name.split(".")[0] for name in own} == {
        "embedding", "encoder", "query_embedding", "decoder", "field_head",
    }  # fmt: skip
    for name, gradient in own.items():
        torch.testing.assert_close(gradient, reference[name], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("method", ["multiple-shooting", "single-shooting"])
def test_rollouts_together_are_rollouts_alone(model, method):
    """The batched loss, and the same start by start through the network's own decoder."""
    data = circles(2, 32)
    problem = Problem(model.operator, data, NetworkTuning(method=method))
    rolls, encoding, network = problem.rollouts, problem._encoding, problem.network
    units = encoding.normalisation
    scale = units.std[0, :2] * units.rate[0]

    def rate(z):
        points = z.double() * units.std[0, :2] + units.mean[0, :2]
        return (network.decode(encoding, points[None])[0] / scale).float()

    alone = torch.cat(
        [
            rolls._replace(gaps=rolls.gaps[i : i + 1]).paths(rate, rolls.starts[i : i + 1])
            for i in range(len(rolls.starts))
        ]
    )
    expected = [float(loss) for loss in rolls.losses(alone)]
    np.testing.assert_allclose([float(loss) for loss in problem.losses()], expected, rtol=1e-4)
    slow = torch.autograd.grad(problem.losses()[0], list(problem.moved.values()))
    problem.half = False
    np.testing.assert_allclose(problem.backward(rolls), expected[0], rtol=1e-4)
    for tensor, gradient in zip(problem.moved.values(), slow, strict=True):
        assert (tensor.grad - gradient).norm() <= 1e-4 * gradient.norm() + 1e-7  # sums in float32
    # in bfloat16 the loss is the same, and the whole gradient to a few percent
    problem.half, whole = True, torch.cat([tensor.grad.flatten() for tensor in problem.moved.values()])
    problem.network.zero_grad()
    np.testing.assert_allclose(problem.backward(rolls), expected[0], rtol=1e-4)
    half = torch.cat([tensor.grad.flatten() for tensor in problem.moved.values()])
    assert (half - whole).norm() <= 0.05 * whole.norm()
    # each start is a sample, each target the sample so many gaps later, and all are learnt from or held out
    shared = (rolls.fitted > 0) ^ (rolls.held_out > 0)
    assert bool((shared == (rolls.gaps > 0)).all())
    if method == "single-shooting":
        assert len(rolls.starts) == len(data)
        assert rolls.gaps.shape[1] == 31
    else:
        assert len(rolls.starts) == 2 * (2 * 32 // 25)


def test_windows_grow_from_smoothed_states(model):
    t = np.linspace(0.0, 6.0, 60)
    clean = np.column_stack([np.cos(t), -np.sin(t)])
    noisy = clean + 0.2 * np.random.default_rng(0).normal(size=clean.shape)
    problem = Problem(model.operator, Trajectories.from_arrays(noisy, t), NetworkTuning())
    widths = [problem.at(step).gaps.shape[1] for step in (0, 30, 60, 90, 300)]
    assert widths == sorted(widths) and widths[0] < 10 and widths[-2:] == [25, 25]
    units, rolls = problem._encoding.normalisation, problem.at(0)
    starts = rolls.starts.numpy() * units.std[0, :2].numpy() + units.mean[0, :2].numpy()
    away = np.linalg.norm(starts[:, None] - clean, axis=-1).min(axis=1)
    off = np.linalg.norm(noisy[:, None] - clean, axis=-1).min(axis=1)
    assert np.mean(away) < 0.7 * np.mean(off)


def test_chosen_on_long_ways_too(model):
    problem = Problem(model.operator, circles(1, 60), NetworkTuning())
    near = float(problem.losses()[1])
    problem.rollouts = problem._far
    assert problem._far.gaps.shape[1] == 59
    far = float(problem.losses()[1])
    fresh = Problem(model.operator, circles(1, 60), NetworkTuning())
    assert fresh.scores()[1] == pytest.approx(0.5 * (near + far), rel=1e-5)


def test_long_gaps_take_more_steps(model):
    (t, x), *_ = circles(1, 40).arrays()
    keep = np.r_[0:15, 25:40]
    problem = Problem(model.operator, Trajectories.from_arrays(x[keep], t[keep]), NetworkTuning())
    assert max(problem.rollouts.counts) >= 4
    assert sorted(problem.rollouts.counts)[0] == 1


def test_what_is_scored_is_what_is_inferred(model, tuned):
    data = circles()
    problem = Problem(tuned.operator, data, NetworkTuning())
    units = problem._encoding.normalisation
    z = problem.rollouts.starts
    with torch.no_grad():
        rates = problem.decoder()(z).double() * units.std[0, :2] * units.rate[0]
    power = power_units(data)
    points = (z.double() * units.std[0, :2] + units.mean[0, :2]).numpy() * power
    np.testing.assert_allclose(tuned.field_(points), rates.numpy() * power, rtol=1e-3, atol=1e-4)


def test_seeds_hold_other_blocks_out(model):
    data = circles(2, 32)
    first, second = (Problem(model.operator, data, NetworkTuning(seed=seed)) for seed in (0, 1))
    assert all(int(problem.context[2].sum()) == 64 for problem in (first, second))
    assert not torch.equal(first.rollouts.held_out, second.rollouts.held_out)


# --- what moves --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moves", MOVES)
def test_what_moves(model, moves):
    before = {name: p.clone() for name, p in model.operator.network.named_parameters()}
    tuned = model.finetune(circles(), moves=moves, **QUICK)
    assert tuned.history_["loss"].iloc[-1] < tuned.history_["loss"].iloc[0]
    assert tuned.history_["held_out"].min() < tuned.history_["held_out"].iloc[0]
    after = dict(tuned.operator.network.named_parameters())
    changed = {name for name, p in after.items() if not torch.equal(p, before[name])}
    allowed = {"all": "embedding encoder query_embedding decoder field_head", "last": "field_head"}
    parts = allowed.get(moves, "query_embedding decoder field_head").split()
    assert {name.split(".")[0] for name in changed} == set(parts)
    if moves == "last":
        assert changed == {"field_head.6.weight", "field_head.6.bias"}
    for name, parameter in model.operator.network.named_parameters():
        assert torch.equal(parameter, before[name]), "the shared network moved"
    assert tuned.delta.moves == moves
    assert tuned.version == f"{model.version}+{tuned.delta.version}"
    report = tuned.field_.fit_info.report["fine-tuning"]
    assert report["best_step"] == tuned.history_.loc[tuned.history_["best"], "step"].item() > 0


def test_a_small_delta(tuned, weights):
    assert len(tuned.delta.content) < 0.4 * weights.stat().st_size


def test_nothing_better_is_the_untuned_network(model):
    with pytest.warns(TuningWarning, match="whose field is returned"):
        tuned = model.finetune(circles(), moves="all", steps=5, learning_rate=1e3, max_seconds=None)
    assert tuned.delta is None
    x = circles().arrays()[0][1]
    np.testing.assert_array_equal(tuned.field_(x), model.infer(circles())(x))


def test_early_stopping(model):
    tuned = model.finetune(circles(), steps=50, learning_rate=0.3, patience=4, every=2, max_seconds=None)
    assert tuned.field_.fit_info.report["fine-tuning"]["ended"] in ("no improvement", "diverged")
    assert tuned.history_["step"].iloc[-1] < 50


# --- keeping -----------------------------------------------------------------------------------------------


def test_saved_and_restored(tuned, tmp_path):
    tuned.save(tmp_path)
    (file,) = tmp_path.glob("delta-*.safetensors")
    assert file.read_bytes() == tuned.delta.content
    restored = fim_dynsys.load_fitted(tmp_path)
    x = circles().arrays()[0][1]
    np.testing.assert_array_equal(restored.field_(x), tuned.field_(x))
    assert restored.version == tuned.version
    direct = fim_dynsys.load("fim-ode-published", weights=tuned.weights, delta=file).fit(circles())
    np.testing.assert_array_equal(direct.field_(x), tuned.field_(x))


def test_other_weights_are_refused(tuned, tmp_path):
    tuned.save(tmp_path / "tuned")
    other = saved(random_network(seed=1, **(SMALL | {"decoder_layers": 1})), tmp_path)

    def factory(**params):
        return PublishedFIMODE(**params | {"weights": other})

    with (
        pytest.warns(FimDynsysWarning, match="was written by version"),
        pytest.raises(ValueError, match=f"expected weights of version {tuned.delta.base}.* got "),
    ):
        fim_dynsys.load_fitted(tmp_path / "tuned", factory=factory)


def test_damaged_deltas(tuned, weights, tmp_path):
    path = tmp_path / "delta.safetensors"
    path.write_bytes(tuned.delta.content[:-8])
    with pytest.raises(ValueError, match="Delta: expected a safetensors file of what fine-tuning changed"):
        Delta.read(path)
    with pytest.raises(ValueError, match="no header 'fim_dynsys_delta'"):
        Delta.read(weights)
    with pytest.raises(FileNotFoundError, match="got none"):
        Delta.read(tmp_path / "nothing")
    strange = Delta.of(tuned.delta.base, "last", {"nothing.weight": np.zeros(2)})
    with pytest.raises(ValueError, match=r"expected names of the network's weights, got nothing\.weight"):
        _ = PublishedFIMODE(weights=weights, delta=strange).version


def test_a_tuned_model_is_not_tuned_again(tuned):
    with pytest.raises(ValueError, match="expected a model without a delta"):
        tuned.finetune(circles())


@pytest.mark.parametrize("moves", ["decoder", "low-rank"])
def test_goes_on_to_the_same_bytes(model, moves, tmp_path, monkeypatch):
    """Killed ten times at random, in a step or just before it is written."""
    options = QUICK | {"moves": moves, "every": 1, "steps": 6}
    whole = model.finetune(circles(), **options)
    rng, path = np.random.default_rng(1), tmp_path / "run.safetensors"
    advance, write = training._Run.advance, training._Run.write

    def kept(run, last):
        run._writing = 0.0  # each state, whatever it takes to write
        write(run, last)

    for _ in range(10):
        left = {"steps": int(rng.integers(1, 3)), "before": rng.random() < 0.5}

        def dying(run, left=left):
            left["steps"] -= 1
            if left["steps"] > 0 or not left["before"]:
                value = advance(run)
            if left["steps"] <= 0:
                raise KeyboardInterrupt
            return value

        monkeypatch.setattr(training._Run, "advance", dying)
        monkeypatch.setattr(training._Run, "write", kept)
        with pytest.raises(KeyboardInterrupt):
            model.finetune(circles(), checkpoint=path, **options)
    monkeypatch.undo()
    assert path.exists()
    resumed = model.finetune(circles(), checkpoint=path, **options)
    assert resumed.delta == whole.delta
    x = circles().arrays()[0][1]
    np.testing.assert_array_equal(resumed.field_(x), whole.field_(x))
    with pytest.raises(ValueError, match="other data, other weights or other settings"):
        model.finetune(circles(1), checkpoint=path, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"moves": "encoder"}, "expected moves among all, decoder, low-rank, last, got 'encoder'"),
        ({"method": "none"}, "expected method"),
        ({"moves": "residual", "steps": 3}, "'residual' without other options, got 'residual' and steps"),
        ({"steps": 0}, "expected steps, every and patience from 1"),
        ({"learning_rate": -1.0}, "a learning_rate above 0"),
    ],
)
def test_arguments_are_checked(model, options, message):
    with pytest.raises(ValueError, match=message):
        model.finetune(circles(), **options)
