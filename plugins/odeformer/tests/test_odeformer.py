"""ODEFormer: the whole way through networks, random or knowing one system by heart; files refused."""

import hashlib
import pickle
import time

import numpy as np
import pytest
import sympy
import torch

import fim_dynsys
from fim_dynsys.errors import FitError
from fim_dynsys.testing import check_model
from fim_dynsys_odeformer.generation import candidates, in_units, read

pytest.importorskip("odeformer", reason="pip install --no-deps odeformer==0.1.7")

from tiny import OSCILLATOR, tiny_network

X, Y = sympy.symbols("x0 x1", real=True)
FEW = {"beam_size": 4, "trust": True}


def _oscillator(n=80, span=6.0):
    t = np.linspace(0.0, span, n)
    return np.stack([np.cos(t) + np.sin(t), np.cos(t) - np.sin(t)], axis=1), t


def _kept(network, path):
    torch.save(network, path)
    return str(path)


@pytest.fixture(scope="module")
def knowing(tmp_path_factory):
    return _kept(tiny_network(knows=OSCILLATOR), tmp_path_factory.mktemp("weights") / "knowing.pt")


@pytest.fixture(scope="module")
def ignorant(tmp_path_factory):
    return _kept(tiny_network(), tmp_path_factory.mktemp("weights") / "ignorant.pt")


def test_contract(knowing):
    check_model(lambda: fim_dynsys.load("odeformer", weights=knowing, **FEW), cheap=True)


def test_recovers_what_the_network_knows(knowing, tmp_path):
    x, t = _oscillator()
    model = fim_dynsys.load("odeformer", weights=knowing, **FEW).fit(x, t)
    assert model.field_.fit_info.path_r2 > 0.999
    assert np.allclose(model.predict(np.eye(2)), [[0.0, -1.0], [1.0, 0.0]], atol=1e-3)
    assert model.field_.fit_info.report["candidates"] == 1
    model.save(tmp_path)
    assert np.array_equal(fim_dynsys.load_fitted(tmp_path).predict(x), model.predict(x))


def test_ragged_trajectories_and_names(knowing):
    x, t = _oscillator()
    context = fim_dynsys.Trajectories.from_arrays([x[:30], x], [t[:30], t], ["u", "v"])
    model = fim_dynsys.load("odeformer", weights=knowing, **FEW).fit(context)
    assert model.field_.state_names == ("u", "v")
    assert model.field_.fit_info.path_r2 > 0.99  # the better of the candidates of two trajectories


def test_a_random_network_fails_and_leaves_no_trace(ignorant):
    """Random samples run to the largest length, where the repaired masking is needed."""
    x, t = _oscillator()
    before, mask = torch.random.get_rng_state(), torch.Tensor.byte
    with pytest.raises(FitError, match="got 0 that do not"):
        fim_dynsys.load("odeformer", weights=ignorant, **FEW).fit(x, t)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.Tensor.byte is mask


def test_samples_depend_on_the_seed_alone():
    network, (x, t) = tiny_network(), _oscillator(20)
    written = []
    network.env.idx_to_infix = lambda words, **_: written.append(tuple(words))
    for seed in (0, 0, 1):
        options = {"beam_size": 3, "beam_temperature": 1.0, "seed": seed, "end": np.inf}
        assert candidates(network, t, x, **options) == []
    first, again, other = written[1:4], written[5:8], written[9:12]  # one greedy sample each before
    assert first == again
    assert first != other


def test_ends_in_time(tmp_path):
    weights = _kept(tiny_network(largest=100_000), tmp_path / "endless.pt")
    x, t = _oscillator()
    start = time.perf_counter()
    with pytest.raises(FitError, match=r"max_seconds 2\.0"):
        fim_dynsys.load("odeformer", weights=weights, max_seconds=2.0, **FEW).fit(x, t)
    assert time.perf_counter() - start < 4.0


# ---------------------------------------------------------------------- files


def test_weights_are_asked_for():
    with pytest.raises(FileNotFoundError, match=r"weights=, the path of the authors' odeformer\.pt"):
        fim_dynsys.load("odeformer")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.pt"):
        fim_dynsys.load("odeformer", weights=str(tmp_path / "none.pt")).fit(*_oscillator())


class _Told:
    """Tells when it is unpickled."""

    told: tuple = ()

    def __reduce__(self):
        return _tell, ()


def _tell():
    _Told.told += ("unpickled",)
    return _Told()


def test_nothing_is_unpickled_without_consent(tmp_path):
    path = tmp_path / "other.pt"
    path.write_bytes(pickle.dumps(_Told()))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(ValueError, match=f"trust=True for .*{digest}"):
        fim_dynsys.load("odeformer", weights=str(path)).fit(*_oscillator())
    with pytest.raises(ValueError, match=f"expected .* with sha256 {'0' * 64}, got {digest}"):
        fim_dynsys.load("odeformer", weights=str(path), trust=True, sha256="0" * 64).fit(*_oscillator())
    assert _Told.told == ()


def test_another_pickle_is_refused(tmp_path):
    weights = _kept({"weights": 3}, tmp_path / "dict.pt")
    with pytest.raises(ValueError, match=r"expected a ModelWrapper .* got dict"):
        fim_dynsys.load("odeformer", weights=weights, trust=True).fit(*_oscillator())


def test_more_states_than_the_weights_know(knowing):
    x, t = _oscillator()
    with pytest.raises(ValueError, match="at most the 2 states of the weights, got 3"):
        fim_dynsys.load("odeformer", weights=knowing, trust=True).fit(np.column_stack([x, x[:, 0] + t]), t)


# ---------------------------------------------------------------------- expressions


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("add,x_0,mul,-2.0,x_1,|,sin,x_0", (X - 2 * Y, sympy.sin(X))),
        ("inv,add,1.0,pow2,x_0,|,id,x_1", (1 / (X**2 + 1), Y)),
        ("div,x_0,mul,x_1,x_1,|,sub,x_0,sub,x_1,x_0", (X / Y**2, 2 * X - Y)),
        ("x_0", None),  # one side for two states
        ("x_0,|,x_2", None),
        ("x_0,|,t", None),
        ("x_0,|,add,x_1", None),
        ("x_0,|,inv,sub,x_0,x_0", None),
        ("x_0,|,CONSTANT", None),
    ],
)
def test_prefix_notation(prefix, expected):
    found = read(prefix, 2)
    assert found is expected if expected is None else tuple(map(sympy.nsimplify, found)) == expected


def test_units_are_undone():
    """x' = x y / 4, y' = -y, read as x / 2 and y / 10 by a clock three times as fast."""
    scale, pace = np.array([2.0, 10.0]), 3.0
    normalised = (10.0 / 4.0 / pace * X * Y, -1 / pace * Y)
    first, second = in_units(normalised, scale, pace)
    assert sympy.simplify(first - X * Y / 4).evalf(chop=True) == 0
    assert sympy.simplify(second + Y).evalf(chop=True) == 0
