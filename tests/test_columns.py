"""The operator's columns of functions: the same numbers as the dictionary's, whatever the units."""

from pathlib import Path

import numpy as np
import pytest
import torch

import fim_dynsys
from fim_dynsys.models.fim_ode import compiled
from fim_dynsys.models.fim_ode.amortised import AmortisedConfig, AmortisedNetwork
from fim_dynsys.models.fim_ode.columns import SHAPES, ColumnTable, terms
from fim_dynsys.models.fim_ode.weights import save_weights

FUNCTIONS = tuple((name, inner) for name, inner in zip(SHAPES, (1.0, 1.3, 0.7, 1.2, 0.9), strict=True))
PRODUCTS = (("saturation", 1.0), ("sine", 0.8))
SMALL = {"context_width": 24, "token_width": 16, "n_updates": 2}


@pytest.fixture(scope="module")
def network() -> AmortisedNetwork:
    torch.manual_seed(0)
    net = AmortisedNetwork(AmortisedConfig(**SMALL, functions=FUNCTIONS, products=PRODUCTS))
    with torch.no_grad():  # the heads start at zero; random ones make every choice matter
        for p in net.parameters():
            p.add_(0.05 * torch.randn_like(p))
    return net.eval()


@pytest.fixture(scope="module")
def weights(network: AmortisedNetwork, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "columns.safetensors"
    return save_weights(path, network, "amortised", network.config, network.config.max_dim)


def pendulum() -> tuple[np.ndarray, np.ndarray]:
    """Times and noisy states of a damped oscillation."""
    t = np.linspace(0, 8, 120)
    x = np.exp(-0.1 * t)[:, None] * np.stack([np.cos(t), -np.sin(t)], -1)
    return t, x + 0.01 * np.random.default_rng(0).standard_normal(x.shape)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_columns_and_their_rates_equal_the_dictionary(dim: int) -> None:
    x, v = np.random.default_rng(1).standard_normal((2, 7, dim))
    dictionary, table = terms(dim, 3, FUNCTIONS, PRODUCTS), ColumnTable(dim, 3, FUNCTIONS, PRODUCTS)
    columns, rates = table.with_rates(torch.tensor(x), torch.tensor(v))
    np.testing.assert_allclose(table(torch.tensor(x)), dictionary.evaluate(x), rtol=1e-12)
    np.testing.assert_allclose(columns, dictionary.evaluate(x), rtol=1e-12)
    expected = np.einsum("nmd,nd->nm", dictionary.gradient(x), v)
    np.testing.assert_allclose(rates, expected, rtol=1e-10, atol=1e-12)


def test_every_column_has_one_type_and_one_coordinate_inside() -> None:
    table = ColumnTable(3, 3, FUNCTIONS, PRODUCTS)
    assert len(table.exponents) == 20 + 3 * len(FUNCTIONS) + 6 * len(PRODUCTS)
    assert (table.types[20:].sum(1) == 1).all() and (table.inside[20:].sum(1) == 1).all()
    assert not table.types[:20].any() and not table.inside[:20].any()
    assert (table.involved[20:].sum(1) == torch.tensor([1] * 15 + [2] * 12)).all()


def test_unknown_function_is_refused() -> None:
    with pytest.raises(ValueError, match="functions among"):
        ColumnTable(2, 3, (("bessel", 1.0),))


def test_regression_equals_its_compiled_twin(network: AmortisedNetwork) -> None:
    generator = torch.Generator().manual_seed(4)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    mask = torch.arange(60)[None, None] < torch.tensor([[60, 31]])[..., None]
    time, seen = normal(1, 2, 60).abs().cumsum(-1) * mask, mask.flatten(1)[..., None]
    raw, path, velocity = (normal(1, 120, 2) * seen for _ in range(3))
    rows = normal(1, 120, 2).abs() * seen
    expected = network.regression(time, mask, raw, path, velocity, rows)
    twin = compiled.regression(network.config)(time, mask, raw, path, velocity, rows)
    for part, reference in zip(twin, expected, strict=True):
        torch.testing.assert_close(part, reference, rtol=1e-8, atol=1e-8 * float(reference.abs().max()))


def test_field_is_what_the_network_decodes_and_knows_its_derivatives(weights: Path) -> None:
    t, x = pendulum()
    model = fim_dynsys.load("fim-ode", weights=weights, refine=False)
    field = model.fit(x, t).field_
    network, points = model.operator.network, np.array([[0.3, -0.2], [0.5, 0.4]])
    mask = torch.ones(1, 1, len(t), dtype=torch.bool)
    encoding = network.encode(torch.tensor(t)[None, None], torch.tensor(x)[None, None], mask)
    decoded = network.decode(encoding, torch.tensor(points)[None])[0]
    # single precision in the network, and other units on the way into it
    np.testing.assert_allclose(field(points), decoded, rtol=1e-5, atol=1e-6)
    step = 1e-6
    numerical = [(field(points + step * e) - field(points - step * e)) / (2 * step) for e in np.eye(2)]
    np.testing.assert_allclose(field.jacobian(points), np.stack(numerical, -1), atol=1e-8)
    assert "sin(" in field.equations(6)[0] and "inhibition(" in field.equations(6)[0]


def test_units_do_not_matter(weights: Path) -> None:
    t, x = pendulum()
    points, scale, rate = np.array([[0.3, -0.2], [0.5, 0.4]]), np.array([128.0, 2.0**-6]), 64.0
    model = fim_dynsys.load("fim-ode", weights=weights, refine=False)
    field = model.fit(x, t).field_(points)
    moved = model.fit(x * scale, t * rate + 3.0).field_(points * scale)
    np.testing.assert_allclose(moved * rate / scale, field, rtol=1e-8)


def test_search_and_opinions_want_monomials(weights: Path) -> None:
    t, x = pendulum()
    model = fim_dynsys.load("fim-ode", weights=weights)
    with pytest.raises(ValueError, match="refine=False"):
        model.fit(x, t)
