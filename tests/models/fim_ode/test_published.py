"""The published network: reference outputs, sizes, attention by its formula, units, invariances."""

import numpy as np
import pytest
import torch
from published_networks import DATA, SMALL, authors_names, random_network

from fim_dynsys.models.fim_ode.checkpoint import translated
from fim_dynsys.models.fim_ode.normalisation import normalise
from fim_dynsys.models.fim_ode.published import (
    LinearAttention,
    PublishedConfig,
    PublishedNetwork,
    TransitionEmbedding,
    at_distance,
)

MAPS = ("softmax-gnot", "softmax")
SMALL_RATES = PublishedConfig(width=16, heads=2, clock="speed", steps="rates")


def context(seed=0, b=2, k=3, length=12, d=2, dtype=torch.float64):
    """Random walks at irregular times, with gaps, trajectories of unequal length, and both ends missing."""
    rng = np.random.default_rng(seed)
    t = np.cumsum(rng.uniform(0.02, 0.3, (b, k, length)), -1)
    x = np.cumsum(rng.normal(size=(b, k, length, d)), -2) * [3.0, 0.2, 40.0][:d] + [5.0, -1.0, 0.0][:d]
    mask = rng.uniform(size=(b, k, length)) > 0.3
    mask[:, 0, 0] = mask[:, 0, -1] = False
    mask[:, 1:2, length // 2 :] = False
    mask[:, :, 2:4] = True
    queries = rng.normal(size=(b, 5, d)) * 2
    t, x, queries = (torch.tensor(a, dtype=dtype) for a in (t, x, queries))
    return t, x, torch.tensor(mask), queries


@torch.no_grad()
def field(network, t, x, mask, queries):
    return network.decode(network.encode(t, x, mask), queries)


def close(a, b, tolerance):
    assert (a - b).abs().max() <= tolerance * b.abs().max()


# --- against the reference ---------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", MAPS)
@pytest.mark.parametrize("dim", [1, 2, 3])
# The reference was computed in float32; its own rounding is about 2e-7 in the field (values up to 0.5) and
# 1.4e-6 in the logarithm (values up to 10).
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 2e-6)])
def test_equals_reference_outputs(attention, dim, dtype, tolerance):
    with np.load(DATA / f"parity_{attention}.npz") as file:
        weights = {key[2:]: torch.from_numpy(file[key]) for key in file.files if key.startswith("w:")}
        case = {
            key.partition(":")[2]: torch.from_numpy(file[key])[None]
            for key in file.files
            if key.startswith(f"d{dim}:")
        }
    network = PublishedNetwork(PublishedConfig(attention=attention, **SMALL))
    network.load_state_dict(translated(weights))
    network.eval().to(dtype)
    with torch.no_grad():
        f, log_scale = network(case["times"], case["states"], case["mask"], case["queries"])
    assert (f - case["field"]).abs().max() < tolerance
    assert (log_scale - case["log_scale"]).abs().max() < tolerance


def test_number_of_parameters():
    network = PublishedNetwork()

    def count(*parts):
        return sum(p.numel() for n, p in network.named_parameters() if n.startswith(parts))

    assert count("") == 12_968_068
    assert count("embedding.", "encoder.", "query_embedding.", "decoder.", "field_head.") == 8_097_667
    assert count("embedding.") == 896
    assert count("encoder.") == 1_579_520
    assert count("query_embedding.") == 66_816
    assert count("decoder.") == 6_318_080
    assert count("field_head.") == 132_355
    assert count("uncertainty.") == 4_738_560
    assert count("uncertainty_head.") == 131_841
    assert not list(network.buffers())
    assert set(authors_names(network.config).values()) == set(network.state_dict())


@pytest.mark.parametrize("attention", MAPS)
def test_attention_equals_its_formula(attention):
    """Token by token: weights of every pair first, values after, in plain numpy."""
    torch.manual_seed(1)
    config = PublishedConfig(attention=attention, **SMALL)
    layer = LinearAttention(config).double()
    h, tokens = torch.randn(1, 4, 32).double(), torch.randn(1, 6, 32).double()
    mask = torch.tensor([[True, False, True, True, False, True]])
    with torch.no_grad():
        got = layer(h, layer.summarise(tokens, mask))[0].numpy()
        q, k, v = (f(a)[0].numpy() for f, a in ((layer.query, h), (layer.key, tokens), (layer.value, tokens)))
    k, v, mixed = k[mask[0]], v[mask[0]], np.zeros((4, 32))

    def softmax(a, axis):
        e = np.exp(a)
        return e / e.sum(axis, keepdims=True)

    for head in range(4):
        part = slice(8 * head, 8 * head + 8)
        keys = softmax(k[:, part], 0 if attention == "softmax" else 1)
        weights = softmax(q[:, part], 1) @ keys.T
        total = np.sqrt(8) if attention == "softmax" else weights.sum(1, keepdims=True)
        mixed[:, part] = weights @ v[:, part] / (total + 1e-8)
    expected = mixed @ layer.out.weight.detach().numpy().T + layer.out.bias.detach().numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)


# --- units and transitions ---------------------------------------------------------------------------------


def test_units_and_transitions_by_hand():
    nan = float("nan")
    t = torch.tensor([[[0.0, 1.0, nan, 4.0], [2.0, nan, 2.5, nan]]])
    x = torch.tensor([[[1.0, 3.0, nan, 5.0], [7.0, nan, 9.0, nan]]])[..., None]
    units, transitions = normalise(t, x, ~t.isnan())
    # all five points count, the last ones of their trajectories too; population standard deviation
    assert units.mean.item() == pytest.approx(5.0)
    assert units.std.item() == pytest.approx(np.sqrt((16 + 4 + 0 + 4 + 16) / 5))
    # steps 1, 3 and 0.5 have the geometric mean 1.5^(1/3)
    rate = 0.01 / 1.5 ** (1 / 3)
    assert units.rate.item() == pytest.approx(rate)
    assert transitions.mask.tolist() == [[True, True, False, True, False, False]]
    kept = transitions.mask[0]
    np.testing.assert_allclose(transitions.dt[0, kept, 0], rate * np.array([1.0, 3.0, 0.5]))
    np.testing.assert_allclose(transitions.x[0, kept, 0] * units.std.item() + 5, [1.0, 3.0, 7.0])
    np.testing.assert_allclose(transitions.dx[0, kept, 0] * units.std.item(), [2.0, 2.0, 2.0])
    for part in (transitions.dt, transitions.x, transitions.dx):
        assert not part[0, ~kept].any()


def test_regular_steps_become_one_hundredth():
    t = torch.arange(20.0).double()[None, None] * 7.3 + 1e5
    _, transitions = normalise(t, torch.randn(1, 1, 20, 2), torch.ones(1, 1, 20, dtype=torch.bool))
    np.testing.assert_allclose(transitions.dt[..., 0], 0.01, rtol=1e-6)


def test_constant_state_has_a_standard_deviation_of_one_millionth():
    units, transitions = normalise(
        torch.arange(5.0)[None, None], torch.full((1, 1, 5, 1), 3.0), torch.ones(1, 1, 5, dtype=torch.bool)
    )
    assert units.std.item() == 1e-6
    assert not transitions.dx.any()


@pytest.mark.parametrize("every", [1, 5])
def test_time_by_speed_makes_fields_of_size_one_whatever_the_sampling(every):
    t = torch.arange(0.0, 20.0, 0.02).double()[None, None, ::every]
    x = torch.stack([5 + 3 * torch.sin(40 * t), 1e3 * torch.cos(40 * t), 0 * t], -1)  # the last is at rest
    units, transitions = normalise(t / 1e3, x, torch.ones_like(t, dtype=torch.bool), clock="speed")
    moving = transitions.dx[0, :, :2].abs().sum() / transitions.dt.sum() / 2
    assert moving.item() == pytest.approx(1.0)
    slopes = x[..., :2].diff(dim=2).abs().mean((0, 1, 2)) / (t / 1e3).diff().mean()
    in_units = slopes / (units.std[0, :2] * units.rate[0])
    np.testing.assert_allclose(in_units, 1.0, rtol=0.02)
    still, _ = normalise(t, torch.ones_like(x), torch.ones_like(t, dtype=torch.bool), clock="speed")
    assert still.rate.item() == pytest.approx(0.01 / (0.02 * every))


@pytest.mark.parametrize("every", [1, 7])
def test_tokens_of_rates_hold_the_field_half_way_whatever_the_sampling(every):
    t = torch.linspace(0.0, 9.0, 127, dtype=torch.float64)[None, None, ::every]
    x = torch.stack([3 + 2 * t, 1e3 - 40 * t], -1)
    units, transitions = normalise(t, x, torch.ones_like(t, dtype=torch.bool), clock="speed")
    dt, state, rate, size = TransitionEmbedding(SMALL_RATES).features(transitions)
    field = torch.tensor([2.0, -40.0], dtype=torch.float64) / (units.std * units.rate[:, None])
    limited = 30 * torch.tanh(field / 30)
    torch.testing.assert_close(rate, limited[:, None].expand_as(rate), rtol=1e-9, atol=0)
    torch.testing.assert_close(size, torch.log(1 + rate**2))
    torch.testing.assert_close(dt, torch.ones_like(dt))
    half = ((x[..., 1:, :] + x[..., :-1, :]) / 2).flatten(1, 2)
    torch.testing.assert_close(state, units.states(half))


def test_no_step_and_padding_leave_rates_finite():
    t, x = torch.zeros(1, 1, 5), torch.zeros(1, 1, 5, 3)
    for mask in (torch.ones(1, 1, 5, dtype=torch.bool), torch.zeros(1, 1, 5, dtype=torch.bool)):
        _, transitions = normalise(t, x, mask, clock="speed")
        assert TransitionEmbedding(SMALL_RATES)(transitions).isfinite().all()


def test_growing_predictions_grow_with_the_distance_and_leave_the_data_s_as_they_are():
    f, z = torch.ones(3, 2), torch.tensor([[0.0, 0.0], [3.0, 0.0], [-40.0, 30.0]])
    assert at_distance(f, z, PublishedConfig()) is f
    grown = at_distance(f, z, PublishedConfig(far="growing"))
    torch.testing.assert_close(
        grown, torch.tensor([1.0, 2**0.5, (1 + 50**2 / 9) ** 0.5])[:, None].expand(3, 2)
    )


# --- what must not matter ----------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", MAPS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
class TestInvariance:
    """In float64 up to rounding; in float32 the network itself rounds."""

    @pytest.fixture
    def network(self, attention, dtype):
        return random_network(attention).to(dtype)

    def test_order_of_trajectories(self, network, tolerance):
        t, x, mask, queries = context()
        order = [2, 0, 1]
        shuffled = field(network, t[:, order], x[:, order], mask[:, order], queries)
        close(shuffled, field(network, t, x, mask, queries), tolerance)

    def test_padding_and_batch(self, network, tolerance):
        t, x, mask, queries = context()
        together = field(network, t, x, mask, queries)
        t, x, mask = t[:1, :, :], x[:1], mask[:1]
        t = torch.nn.functional.pad(t, (0, 4, 0, 2), value=-7.0)
        x = torch.nn.functional.pad(x, (0, 0, 0, 4, 0, 2), value=1e3)
        mask = torch.nn.functional.pad(mask, (0, 4, 0, 2))
        close(field(network, t, x, mask, queries[:1]), together[:1], tolerance)

    def test_batch_of_queries(self, network, tolerance):
        t, x, mask, queries = context()
        encoding = network.encode(t, x, mask)
        with torch.no_grad():
            together = network.decode(encoding, queries)
            alone = torch.cat([network.decode(encoding, queries[:, i : i + 1]) for i in range(5)], 1)
        close(alone, together, tolerance)

    def test_units_and_origins(self, network, tolerance):
        t, x, mask, queries = context()
        size, origin, hour = torch.tensor([1e4, 3e-3]).double(), torch.tensor([2.0, -50.0]).double(), 3600.0
        f = field(network, t, x, mask, queries)
        g = field(network, t * hour + 1e4, x * size + origin, mask, queries * size + origin)
        close(g * hour / size, f, max(tolerance, 1e-9))  # adding origins loses digits before the network

    def test_a_context_given_twice(self, network, tolerance):
        """Both maps average over tokens, so that copies change nothing but the place of the 1e-8."""
        t, x, mask, queries = context()
        twice = (torch.cat([a, a], 1) for a in (t, x, mask))
        close(field(network, *twice, queries), field(network, t, x, mask, queries), max(tolerance, 1e-7))


def test_unobserved_slots_are_never_read():
    network = random_network().double()
    t, x, mask, queries = context()
    expected = field(network, t, x, mask, queries)
    for rubbish in (float("nan"), float("inf"), -1e30):
        got = field(
            network, t.masked_fill(~mask, rubbish), x.masked_fill(~mask[..., None], rubbish), mask, queries
        )
        assert torch.equal(got, expected)


def test_missing_slots_equal_shorter_trajectories():
    network = random_network().double()
    t, x, mask, queries = context(b=1, k=1)
    kept = mask[0, 0]
    shorter = field(network, t[..., kept], x[..., kept, :], mask[..., kept], queries)
    close(field(network, t, x, mask, queries), shorter, 1e-12)


@pytest.mark.parametrize("k", [1, 9, 20])
def test_any_number_of_trajectories(k):
    network = random_network()
    t, x, mask, queries = context(k=max(k, 2), dtype=torch.float32)
    f, log_scale = network(t[:, :k], x[:, :k], mask[:, :k], queries)
    assert f.shape == (2, 5, 2)
    assert log_scale.shape == (2, 5)
    assert f.isfinite().all()


@pytest.mark.parametrize("attention", MAPS)
def test_float32_agrees_with_float64(attention):
    t, x, mask, queries = context(d=3)
    network = random_network(attention)
    single = field(network, t, x, mask, queries)
    close(single, field(network.double(), t, x, mask, queries), 1e-5)


# --- training ----------------------------------------------------------------------------------------------


def test_uncertainty_head_is_detached():
    network = random_network()
    t, x, mask, queries = context(dtype=torch.float32)
    encoding = network.encode(t, x, mask)
    network.log_scale(encoding, queries).sum().backward()
    for name, parameter in network.named_parameters():
        assert (parameter.grad is not None) == name.startswith("uncertainty"), name
    network.zero_grad()
    network.decode(encoding, queries).sum().backward()
    for name, parameter in network.named_parameters():
        assert (parameter.grad is None) == name.startswith("uncertainty"), name


def test_dropout_only_in_training():
    network = random_network()
    case = context(dtype=torch.float32)
    assert torch.equal(field(network, *case), field(network, *case))
    network.train()
    assert not torch.equal(field(network, *case), field(network, *case))


def test_output_layers_start_kaiming_normal():
    head = PublishedNetwork().field_head
    for index in (0, 3):  # fan-in 256, gain sqrt(2); 65,536 draws give the deviation to 0.3 %
        assert head[index].weight.std().item() == pytest.approx(np.sqrt(2 / 256), rel=0.02)
        assert not head[index].bias.any()


# --- misuse ------------------------------------------------------------------------------------------------


def test_bad_configurations_and_dimensions():
    with pytest.raises(ValueError, match=r"PublishedConfig: expected attention .* got 'elu'"):
        PublishedConfig(attention="elu")
    with pytest.raises(ValueError, match=r"PublishedConfig: expected clock .* got 'sundial'"):
        PublishedConfig(clock="sundial")
    with pytest.raises(ValueError, match=r"PublishedConfig: expected far .* got 'away'"):
        PublishedConfig(far="away")
    with pytest.raises(ValueError, match=r"PublishedConfig: expected steps .* got 'leaps'"):
        PublishedConfig(steps="leaps")
    with pytest.raises(ValueError, match=r"PublishedConfig: expected clock 'speed' with steps 'rates'"):
        PublishedConfig(steps="rates")
    with pytest.raises(ValueError, match=r"PublishedConfig: expected a width divisible .* 250 with 8 heads"):
        PublishedConfig(width=250)
    t, x, mask, _ = context(d=3)
    four = torch.cat([x, x[..., :1]], -1).float()
    with pytest.raises(ValueError, match=r"dimension at most 3, got 4; .*PCAReduction"):
        random_network().encode(t, four, mask)
