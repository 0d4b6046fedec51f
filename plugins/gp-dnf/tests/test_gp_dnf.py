"""GP-DNF: the contract, the flows, what it must recover, limits of time and input, keeping."""

import time

import numpy as np
import pytest
import torch

import fim_dynsys
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.testing import check_field, check_model
from fim_dynsys_common.training import generator
from fim_dynsys_gp_dnf.flows import OutputFlow, PlanarPosterior, bent, planar
from fim_dynsys_gp_dnf.model import GPDNF


def oscillator(n=60, end=6.0, start=(1.0, 0.0), seed=None):
    t = np.linspace(0.0, end, n)
    if seed is not None:
        t = np.sort(np.random.default_rng(seed).uniform(0.0, end, n))
    (a, b), c, s = start, np.cos(2 * t), np.sin(2 * t)
    return np.stack([a * c + b * s, b * c - a * s], axis=1), t


def quick(**params):
    return GPDNF(**({"iterations": 30, "n_samples": 1} | params))


def test_contract():
    check_model(quick, cheap=True)


def test_contract_of_the_field():
    field = quick(method="full").fit(*oscillator(30)).field_
    check_field(field)
    check_field(field.draws(1)[0])


def test_recovers_an_oscillator():
    x, t = oscillator()
    model = GPDNF(n_samples=1).fit(x, t)
    assert model.field_.fit_info.path_r2 > 0.99
    np.testing.assert_allclose(model.predict(x), 2 * x[:, ::-1] * [1, -1], atol=0.2)


def test_beats_holding_the_first_state():
    def rates(x):
        return np.stack([x[:, 1], 0.5 * (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]], axis=1)

    t, start = np.linspace(0.0, 14.0, 100), np.array([-1.5, 2.5])
    clean = simulate(fim_dynsys.CallableField(rates, 2), start, t).x[0]
    noise = np.sqrt(0.05) * np.random.default_rng(0).standard_normal((50, 2))
    model = GPDNF(n_samples=1).fit(clean[:50] + noise, t[:50])
    path = model.simulate(start, np.concatenate([[0.0], t[50:]]))[1:]
    assert np.mean((path - clean[50:]) ** 2) < np.mean((start - clean[50:]) ** 2)


def test_several_ragged_and_irregular_trajectories():
    parts = [oscillator(25, 3.0, seed=1), oscillator(40, 4.0, (0.0, 0.7), seed=2), oscillator(1)]
    model = quick(iterations=300).fit([x for x, _ in parts], [t for _, t in parts], feature_names=["u", "v"])
    assert model.feature_names == ["u", "v"]
    assert model.field_.fit_info.path_r2 > 0.95


def shaken(module, scale):
    source = generator(5)
    with torch.no_grad():
        for part in module.parameters():
            part += scale * torch.randn(part.shape, generator=source, dtype=part.dtype)
    return module


def test_planar_layers_are_invertible_and_their_density_is_known():
    posterior = shaken(PlanarPosterior(torch.zeros(2, 3, dtype=torch.float64), 4, generator(0)), 1.0)
    layers = posterior.layers().detach().numpy()
    assert (np.sum(layers[0] * layers[1], axis=-1) > -1.0).all()
    source, again = generator(1), generator(1)
    vectors, divergence = posterior.draw(source)
    first = posterior.base.draw(again)[0].detach()
    np.testing.assert_allclose(vectors.detach(), planar(first.numpy(), layers), rtol=1e-12)
    change = torch.autograd.functional.jacobian(
        lambda v: _torch_planar(v, posterior.layers().detach()), first
    ).reshape(6, 6)
    entropy = posterior.base.log_diagonal.sum() + 3.0 + torch.linalg.slogdet(change)[1]
    torch.testing.assert_close(divergence, 0.5 * vectors.square().sum() - entropy)


def _torch_planar(vectors, layers):
    for u, w, b in layers.unbind(dim=1):
        vectors = vectors + u * torch.tanh((w * vectors).sum(dim=-1, keepdim=True) + b[:, :1])
    return vectors


def test_output_layers_are_monotone_and_start_as_the_identity():
    values = np.linspace(-4.0, 4.0, 101)[:, None] * [1.0, 1.0]
    flow = OutputFlow(3, 2)
    np.testing.assert_allclose(bent(values, flow().detach().numpy())[0], values, atol=1e-12)
    layers = shaken(flow, 2.0)().detach().numpy()
    sent, slopes = bent(values, layers)
    assert (slopes > 0).all()
    np.testing.assert_allclose(
        np.gradient(sent[:, 0], values[:, 0])[1:-1], slopes[1:-1, 0], rtol=0.1, atol=0.05
    )


def test_ends_in_time():
    x, t = oscillator()
    begun = time.perf_counter()
    model = GPDNF(iterations=10**6, max_seconds=2.0).fit(x, t)
    assert time.perf_counter() - begun < 12.0  # with what fit compares, on a loaded machine
    assert np.isfinite(model.predict(x)).all()


def test_kept_with_its_posterior(tmp_path):
    model = quick().fit(*oscillator())
    model.save(tmp_path / "kept")
    again = fim_dynsys.load_fitted(tmp_path / "kept")
    x = np.random.default_rng(0).standard_normal((5, 2))
    assert np.array_equal(again.predict(x), model.predict(x))
    assert np.array_equal(again.ensemble(2)[1](x), model.ensemble(2)[1](x))


@pytest.mark.parametrize(
    ("params", "named"), [({"n_planar_layers": -1}, "numbers of layers"), ({"variance": 0.0}, "variance")]
)
def test_bad_settings(params, named):
    with pytest.raises(ValueError, match=f"gp-dnf: expected .*{named}"):
        GPDNF(**params).fit(*oscillator())
