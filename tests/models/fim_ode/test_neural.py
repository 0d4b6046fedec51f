"""The shipped network of the published design: its size, what it follows, fine-tuning, what is refused."""

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys.delta import Delta
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.metrics import r2_score
from fim_dynsys.models.fim_ode.neural import NeuralFIMODE
from fim_dynsys.models.fim_ode.weights import shipped
from fim_dynsys.simulation.solution import simulate

NAME = "fim-ode-neural"


def spiral():
    t = np.linspace(0.0, 8.0, 100)
    return np.exp(-0.15 * t)[:, None] * np.column_stack([np.cos(1.5 * t), -np.sin(1.5 * t)]), t


@pytest.fixture(scope="module")
def model():
    return fim_dynsys.load(NAME)


def noisy_cycle():
    t = np.linspace(0.0, 1.5, 16)  # fits follow the path, evaluation by evaluation

    def van_der_pol(x):
        return np.stack([x[:, 1], 0.5 * (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]], 1)

    x = np.asarray(simulate(CallableField(van_der_pol, 2), [2.0, 0.0], t).x[0])
    return x + 0.05 * np.random.default_rng(0).standard_normal(x.shape), t


@pytest.fixture(scope="module")
def tuned(model):
    options = {"steps": 2, "every": 1, "learning_rate": 2e-5, "max_seconds": None, "progress": False}
    return model.finetune(*noisy_cycle(), **options)


def test_number_of_parameters(model):
    assert round(sum(p.numel() for p in model.operator.network.parameters()) / 1e6, 1) == 8.1
    assert shipped(NAME).stat().st_size < 2**24


def test_it_follows_clean_samples(model):
    """Of one, two and three states: the path, and the field along it to a fifth of its size."""
    x, t = spiral()
    third = np.column_stack([x, np.exp(-0.4 * t)])
    rates = np.array([[-0.15, 1.5, 0], [-1.5, -0.15, 0], [0, 0, -0.4]])
    for states, truth in ((third[:, 2:], rates[2:, 2:]), (x, rates[:2, :2]), (third, rates)):
        field = model.infer(fim_dynsys.Trajectories.from_arrays(states, t))
        error = np.abs(field(states) - states @ truth.T)
        assert np.sqrt((error**2).mean(0)).max() < 0.2 * np.abs(states @ truth.T).max()
        assert r2_score(states, simulate(field, states[0], t, rtol=1e-3).x[0]) > 0.9


def test_a_model_like_the_others(model, tmp_path):
    x, t = (part[:20] for part in spiral())
    fitted = NeuralFIMODE().fit(x, t)
    assert fitted.max_dim == 3 and fitted.field_.scale(x) is None and len(fitted.equations()) == 2
    fitted.save(tmp_path)
    again = fim_dynsys.load_fitted(tmp_path)
    assert (again.name, again.version) == (NAME, model.version)
    np.testing.assert_array_equal(again.predict(x), fitted.predict(x))


def test_fine_tuned_saved_and_restored(tuned, model, tmp_path):
    x, t = noisy_cycle()
    assert isinstance(tuned, NeuralFIMODE) and model.delta is None
    assert tuned.version == f"{model.version}+{tuned.delta.version}"
    tuned.save(tmp_path)
    np.testing.assert_array_equal(fim_dynsys.load_fitted(tmp_path).predict(x), tuned.predict(x))
    (file,) = tmp_path.glob("delta-*.safetensors")
    published = fim_dynsys.load("fim-ode-published", weights=shipped(NAME), delta=file).fit(x, t)
    np.testing.assert_array_equal(published.predict(x), tuned.predict(x))


def test_refusals(tuned):
    with pytest.raises(ValueError, match=rf"{NAME}: expected precision 'float32' or 'float64', got 'half'"):
        fim_dynsys.load(NAME, precision="half")
    with pytest.raises(ValueError, match=rf"{NAME}: expected a torch device that is there .* got 'no-such'"):
        fim_dynsys.load(NAME, device="no-such")
    with pytest.raises(TypeError, match="got weights"):
        fim_dynsys.load(NAME, weights="a file")
    other = Delta.of("0123abcd", "last", tuned.delta.tensors)
    with pytest.raises(
        ValueError, match=rf"Delta: expected weights of version 0123abcd.* got {tuned.delta.base}"
    ):
        fim_dynsys.load(NAME, delta=other)
    with pytest.raises(ValueError, match="expected at most 3 states"):
        fim_dynsys.load(NAME).fit(np.zeros((9, 4)), np.arange(9.0))
