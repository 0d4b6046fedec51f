"""The amortised operator: twins of the regression room, invariances, and what it must recover."""

import copy

import numpy as np
import pytest
import torch

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.models.fim_ode.amortised import AmortisedNetwork
from fim_dynsys.models.fim_ode.bank import smoothing_bank
from fim_dynsys.models.fim_ode.configuration import AmortisedConfig
from fim_dynsys.models.fim_ode.inference import AmortisedInference, Estimate
from fim_dynsys.models.fim_ode.monomials import MonomialTable
from fim_dynsys.models.fim_ode.ridge import ridge_solve
from fim_dynsys.regression import smoothing
from fim_dynsys.regression.forms import normal_forms


@pytest.fixture(scope="module")
def network() -> AmortisedNetwork:
    torch.manual_seed(0)
    net = AmortisedNetwork(AmortisedConfig(context_width=24, token_width=16, n_updates=2)).double()
    with torch.no_grad():  # the heads start at zero; random ones make every choice matter
        for p in net.parameters():
            p.add_(0.05 * torch.randn_like(p))
    return net.eval()


def spiral(n: int, seed: int, k: int = 1, irregular: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    """Damped linear oscillations from k starts, slightly noisy: times (k, n) and states (k, n, 2)."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, 8, (k, n)), 1) if irregular else np.tile(np.linspace(0, 8, n), (k, 1))
    phase = rng.uniform(0, 6, (k, 1))
    x = np.exp(-0.1 * t)[..., None] * np.stack([np.cos(t + phase), -np.sin(t + phase)], -1)
    return torch.tensor(t), torch.tensor(x + 0.01 * rng.standard_normal(x.shape))


def coefficients(network: AmortisedNetwork, t: torch.Tensor, x: torch.Tensor, mask=None) -> torch.Tensor:
    """Coefficients of one context (K, L) or of a batch (B, K, L)."""
    if t.ndim == 2:
        t, x = t[None], x[None]
        mask = None if mask is None else mask[None]
    mask = torch.ones(t.shape, dtype=torch.bool) if mask is None else mask
    return network.infer_coefficients(t, x, mask)[0]


def assert_close(a: torch.Tensor, b: torch.Tensor, tolerance: float = 1e-10) -> None:
    a, b = a.detach(), b.detach()
    assert float((a - b).abs().max() / b.abs().max()) < tolerance


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_monomials_and_their_rates_equal_the_dictionary(dim: int) -> None:
    rng = np.random.default_rng(1)
    x, v = rng.standard_normal((2, 7, dim))
    dictionary, table = Dictionary.polynomial(dim, 3), MonomialTable(dim, 3)
    columns, rates = table.with_rates(torch.tensor(x), torch.tensor(v))
    np.testing.assert_allclose(table(torch.tensor(x)), dictionary.evaluate(x), rtol=1e-13)
    np.testing.assert_allclose(columns, dictionary.evaluate(x), rtol=1e-13)
    np.testing.assert_allclose(rates, np.einsum("nmd,nd->nm", dictionary.gradient(x), v), rtol=1e-12)


@pytest.mark.parametrize("irregular", [False, True])
@pytest.mark.parametrize("n", [150, 4, 1])
def test_smoothing_bank_equals_its_compiled_twin(n: int, irregular: bool) -> None:
    t, x = spiral(150, seed=2, irregular=irregular)
    t, x = t[:, :n], x[:, :n]
    widths = (0.8, 1.6, 3.0, 6.0, 12.0, 24.0)
    states, slopes = smoothing_bank(t, x, torch.ones(1, n, dtype=torch.bool), widths)
    reference_states, reference_slopes = smoothing.smoothing_bank(t[0].numpy(), x[0].numpy(), widths=widths)
    np.testing.assert_allclose(states[0], reference_states, atol=1e-8)
    np.testing.assert_allclose(slopes[0], reference_slopes, atol=1e-8)


def test_smoothing_bank_takes_two_samples() -> None:
    t, x = spiral(150, seed=2)
    t, x = t[:, :2], x[:, :2]
    _, slopes = smoothing_bank(t, x, torch.ones(1, 2, dtype=torch.bool), (0.8, 1.6))
    _, reference = smoothing.smoothing_bank(t[0].numpy(), x[0].numpy(), widths=(0.8, 1.6))
    # the ridge of 1e-9 decides between the cubics through two samples: rounding is amplified by as much
    np.testing.assert_allclose(slopes[0], reference, rtol=1e-4, atol=1e-4)


def test_regression_equals_its_compiled_twin(network: AmortisedNetwork) -> None:
    """Two ragged trajectories, one of them shorter than its segments are many."""
    generator = torch.Generator().manual_seed(4)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    counts = [40, 3]
    mask = torch.arange(40)[None, None] < torch.tensor([counts])[..., None]
    time, seen = normal(1, 2, 40).abs().cumsum(-1) * mask, mask.flatten(1)
    raw, path, velocity = (normal(1, 80, 2) * seen[..., None] for _ in range(3))
    rows = normal(1, 80, 2).abs() * seen[..., None]
    power, grams, moments = network.regression(time, mask, raw, path, velocity, rows)
    parts = [part[seen].numpy() for part in (time.flatten(1), raw, path, velocity, rows)]
    twin = normal_forms(Dictionary.polynomial(2, 3), *parts, counts, network.config.n_segments)
    for part, reference in zip(twin, (power[0], grams[0], moments[0, ..., 0]), strict=True):
        assert_close(torch.tensor(part) / reference.abs().max(), reference / reference.abs().max(), 1e-10)


def in_numpy(network: AmortisedNetwork, contexts: list[list[tuple]]) -> list[Estimate]:
    parameters = {name: value.numpy() for name, value in network.state_dict().items()}
    return AmortisedInference(network.config, parameters).estimates(contexts)


@pytest.mark.parametrize(
    "config", [AmortisedConfig(), AmortisedConfig(4, 2, (0.8, 2.0, 4.0, 9.0), 3, 2, 24, 16)]
)
def test_parameters_have_the_shapes_of_the_configuration(config: AmortisedConfig) -> None:
    state = AmortisedNetwork(config).state_dict()
    assert {name: tuple(value.shape) for name, value in state.items()} == config.shapes()


@pytest.mark.parametrize("lengths", [(60,), (60, 41), (200, 1, 30)])
def test_inference_in_numpy_equals_the_trained_network(
    network: AmortisedNetwork, lengths: tuple[int, ...]
) -> None:
    single = copy.deepcopy(network).float()
    t, x = spiral(max(lengths), seed=6, k=len(lengths))
    t = t - t[:, :1]
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    samples = [(t[k, :n].numpy(), x[k, :n].numpy()) for k, n in enumerate(lengths)]
    expected = single.infer_coefficients(t[None], x[None], mask[None])
    (found,) = in_numpy(single, [samples])
    for part, reference in zip(found, expected, strict=True):
        # float32 layers, whose sums are taken in another order; the bank's twins differ by 1e-8
        assert_close(torch.tensor(part), reference[0], 1e-5)


def test_inference_in_numpy_takes_each_context_alone(network: AmortisedNetwork) -> None:
    contexts = []
    for n, k in ((50, 1), (80, 3)):
        t, x = spiral(n, seed=n, k=k)
        t = t - t[:, :1]
        contexts.append(list(zip(t.numpy(), x.numpy(), strict=True)))
    for together, samples in zip(in_numpy(network, contexts), contexts, strict=True):
        for part, reference in zip(together, in_numpy(network, [samples])[0], strict=True):
            np.testing.assert_array_equal(part, reference)


def test_smoothing_bank_reproduces_cubics() -> None:
    t = torch.linspace(0, 1, 60, dtype=torch.float64)[None]
    x = torch.stack([t**3 - t, 2 * t**2], -1)
    states, slopes = smoothing_bank(t, x, torch.ones(1, 60, dtype=torch.bool), (1.6, 6.0))
    exact = torch.stack([3 * t**2 - 1, 4 * t], -1)
    # the ridge of 1e-9 in the local fits leaves an error of that relative size
    torch.testing.assert_close(states[:, 1], x, atol=1e-7, rtol=0)
    torch.testing.assert_close(slopes[:, 1], exact, atol=1e-5, rtol=0)


def test_order_of_trajectories_does_not_matter(network: AmortisedNetwork) -> None:
    t, x = spiral(50, seed=3, k=3)
    order = torch.tensor([2, 0, 1])
    assert_close(coefficients(network, t[order], x[order]), coefficients(network, t, x))


@pytest.mark.parametrize("value", [0.0, 1e200])  # the square of the second is no number
def test_padding_does_not_matter(network: AmortisedNetwork, value: float) -> None:
    t, x = spiral(50, seed=4, k=2)
    pad = 23
    mask = torch.ones(2, 50 + pad, dtype=torch.bool)
    mask[:, 50:] = False
    longer_t = torch.cat([t, t[:, -1:].expand(-1, pad)], 1)
    longer_x = torch.cat([x, torch.full((2, pad, 2), value, dtype=x.dtype)], 1)
    assert_close(coefficients(network, longer_t, longer_x, mask), coefficients(network, t, x))


def test_other_members_of_a_batch_do_not_matter(network: AmortisedNetwork) -> None:
    contexts = [spiral(60, seed=s) for s in (5, 6, 7)]
    together = coefficients(
        network,
        torch.stack([c[0] for c in contexts]),
        torch.stack([c[1] * 10**s for s, c in enumerate(contexts)]),
    )
    for s, (t, x) in enumerate(contexts):
        assert_close(together[s], coefficients(network, t, x * 10**s)[0])


def test_units_and_origin_of_time_do_not_matter(network: AmortisedNetwork) -> None:
    t, x = spiral(80, seed=8)
    scale, rate = torch.tensor([250.0, 0.004], dtype=torch.float64), 37.0
    base = coefficients(network, t, x)[0]
    exponents = network.tables[1].exponents.double()
    expected = base * scale / rate / torch.exp(exponents @ scale.log())[:, None]
    moved = coefficients(network, rate * t + 11.0, x * scale)[0]
    # compare as contributions: each coefficient in the units of its own term
    unit = scale / rate / torch.exp(exponents @ scale.log())[:, None]
    assert_close(moved / unit, expected / unit, 1e-10)


def test_order_of_coordinates_only_renames(network: AmortisedNetwork) -> None:
    t, x = spiral(80, seed=9)
    points = torch.randn(1, 5, 2, dtype=torch.float64)
    mask = torch.ones(1, *t.shape, dtype=torch.bool)
    field = network.decode(network.encode(t[None], x[None], mask), points)
    swapped = network.decode(network.encode(t[None], x[None].flip(-1), mask), points.flip(-1))
    assert_close(swapped.flip(-1), field)


def test_query_batch_does_not_matter(network: AmortisedNetwork) -> None:
    t, x = spiral(80, seed=10)
    encoding = network.encode(t[None], x[None], torch.ones(1, *t.shape, dtype=torch.bool))
    points = torch.randn(1, 9, 2, dtype=torch.float64)
    alone = torch.cat([network.decode(encoding, points[:, i : i + 1]) for i in range(9)], 1)
    assert_close(alone, network.decode(encoding, points), 1e-13)


def test_solve_equals_the_regression_it_stands_for(network: AmortisedNetwork) -> None:
    """With one form, one level and a flat precision the solve is numpy's ridge regression."""
    rng = np.random.default_rng(11)
    left, right = rng.standard_normal((40, 6)), rng.standard_normal(40)
    precision = np.exp(rng.standard_normal(6))
    expected = np.linalg.solve(left.T @ left + np.diag(precision), left.T @ right)
    gram, moment = torch.tensor(left.T @ left)[None, None], torch.tensor(left.T @ right)[None, None, :, None]
    solution, variance = ridge_solve(gram, moment, torch.tensor(np.log(precision))[None, None])
    np.testing.assert_allclose(solution[0, 0], expected, rtol=1e-10)
    covariance = np.linalg.inv(left.T @ left + np.diag(precision))
    np.testing.assert_allclose(variance[0, 0], np.diag(covariance), rtol=1e-10)


def test_any_noise_floor_leaves_weights(network: AmortisedNetwork) -> None:
    """The network may say anything of contexts unlike those it was trained on."""
    t, x = spiral(60, seed=3)
    head, place = network.context.head.bias, 2 * network.context.n_levels
    before = head[place].item()
    with torch.no_grad():
        head[place] = 1e4
        even = coefficients(network, t, x)
        head[place] = 30.0
        same = coefficients(network, t, x)
        head[place] = before
    assert even.isfinite().all()
    assert_close(even, same)


@pytest.mark.parametrize("dim", [4, 6])
def test_dimensions_beyond_those_of_training_are_taken(network: AmortisedNetwork, dim: int) -> None:
    """Oscillators side by side, in more states than the configuration names, and in another order."""
    pairs = [spiral(120, seed=s, irregular=False) for s in range(dim // 2)]
    t, x = pairs[0][0], torch.cat([pair[1] for pair in pairs], -1)
    found = coefficients(network, t, x)[0, -1]
    assert found.shape == (len(Dictionary.polynomial(dim, 3)), dim)
    order = list(range(dim - 1, -1, -1))
    turned = coefficients(network, t, x[..., order])[0, -1]
    points = torch.randn(20, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    table = MonomialTable(dim, 3)
    assert_close(table(points[:, order]) @ turned, (table(points) @ found)[:, order], 1e-8)
