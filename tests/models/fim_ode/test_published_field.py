"""The published network as a model and a field: cached summaries, derivatives, invariances, keeping."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import torch
from published_networks import OURS, SMALL, authors_folder, random_network, saved, without_kinks
from sklearn.base import clone
from torch.utils.flop_counter import FlopCounterMode

import fim_dynsys
from fim_dynsys.errors import DataWarning, WeightsWarning
from fim_dynsys.fields.base import VectorField
from fim_dynsys.models.fim_ode import operators
from fim_dynsys.models.fim_ode.decoded import PublishedFIMODE, fim_ode_published
from fim_dynsys.models.fim_ode.field import DecodedField, Decoder, make_fields
from fim_dynsys.models.fim_ode.published import PublishedConfig, PublishedNetwork
from fim_dynsys.models.fim_ode.weights import shipped
from fim_dynsys.testing import check_field, check_model
from fim_dynsys.trajectories.container import Trajectories

MAPS = ("softmax-gnot", "softmax")


@pytest.fixture(scope="module", params=[*MAPS, "ours"])
def network(request):
    return random_network(**SMALL, **OURS) if request.param == "ours" else random_network(request.param)


@pytest.fixture(scope="module")
def weights(network, tmp_path_factory):
    return saved(network, tmp_path_factory.mktemp("weights"))


@pytest.fixture(scope="module")
def gnot_weights(tmp_path_factory):
    return saved(random_network(), tmp_path_factory.mktemp("weights"))


def observations(seed=0, k=3, d=2, length=30):
    """Ragged, irregular random walks with units of their own per state."""
    rng = np.random.default_rng(seed)
    lengths = [length - 3 * i for i in range(k)]
    t = [np.cumsum(rng.uniform(0.05, 0.2, n)) for n in lengths]
    x = [np.cumsum(rng.normal(size=(n, d)), 0) * [2.0, 30.0, 0.1][:d] + [0.0, 7.0, 1.0][:d] for n in lengths]
    return x, t


def context(**options):
    return Trajectories.from_arrays(*observations(**options))


def queries(context, n=40, seed=1):
    return context.box().widened(0.1).uniform(n, np.random.default_rng(seed))


def close(a, b, tolerance):
    assert np.abs(a - b).max() <= tolerance * np.abs(b).max()


# --- decoding ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_cached_equals_uncached(network, weights, dim):
    """Through summaries and plain tensor functions, or through the modules and all tokens."""
    c = context(d=dim)
    x = queries(c)
    field = PublishedFIMODE(weights=weights, precision="float64").infer(c)
    t, states, mask = (torch.tensor(a)[None] for a in c.padded())
    double = copy.deepcopy(network).double()
    with torch.no_grad():
        encoding = double.encode(t, states, mask.all(-1))
        expected = double.decode(encoding, torch.tensor(x)[None])[0].numpy()
    close(field(x), expected, 1e-10)
    close(PublishedFIMODE(weights=weights).infer(c)(x), expected, 1e-5)


def test_contract(weights):
    c = context(k=2)
    field = PublishedFIMODE(weights=weights).infer(c)
    check_field(field, _away_from_kinks(field, queries(c, 200))[:16])
    assert field.scale(c.box().centre) is None
    assert field.context is c


def _kink_distance(field, x):
    """Distance of points to the nearest kink of the query embedding's ReLU, in normalised units."""
    weight, bias = (part.numpy() for part in field._decoder._embedding[0])
    z = np.zeros((len(x), weight.shape[1]))
    z[:, : field.dim] = (x - field._mean.numpy()) / field._std.numpy()
    return np.abs((z @ weight.T + bias) / np.linalg.norm(weight, axis=1)).min(1)


def _away_from_kinks(field, x, distance=0.01):
    return x[_kink_distance(field, x) > distance]


def test_jacobian_against_differences(weights):
    c = context(d=3)
    field = PublishedFIMODE(weights=weights).infer(c)
    x = _away_from_kinks(field, queries(c, 200), 1e-3)
    step = 1e-5 * c.box().size  # central differences: h^2 and eps/h are both near 1e-10
    columns = [
        (field(x + step * unit) - field(x - step * unit)) / (2 * step[j]) for j, unit in enumerate(np.eye(3))
    ]
    jacobian = field.jacobian(x)
    size = np.abs(jacobian).max(0)
    assert len(x) > 50
    assert (np.abs(np.stack(columns, -1) - jacobian) < 1e-7 * size).all()


def test_directional_derivatives(weights):
    c = context()
    field = PublishedFIMODE(weights=weights).infer(c)
    x = _away_from_kinks(field, queries(c, 200), 1e-2)[:20]
    rng = np.random.default_rng(3)
    u, v, w = (rng.normal(size=x.shape) * c.box().size for _ in range(3))
    close(field.directional(x, u), np.einsum("nij,nj->ni", field.jacobian(x), u), 1e-12)
    close(field.directional(x, u, v), field.directional(x, v, u), 1e-10)
    close(field.directional(x, 2 * u, v, w), 2 * field.directional(x, w, v, u), 1e-10)
    h = 1e-5
    for directions in ((u,), (u, v), (u, v, v)):
        forth, back = (field.directional(x + s * h * w, *directions) for s in (1, -1))
        close(field.directional(x, *directions, w), (forth - back) / (2 * h), 1e-6)
    complex_ = field.directional(x, u + 1j * v, w)
    close(complex_.imag, field.directional(x, v, w), 1e-12)


def test_any_number_of_points_in_any_mode(weights):
    c = context()
    field = PublishedFIMODE(weights=weights).infer(c)
    x = queries(c, 600)  # more than one chunk, of each kind
    some = [0, 128, 255, 256, 599]
    close(field(x)[some], np.stack([field(x[i]) for i in some]), 1e-12)
    jacobian = field.jacobian(x)
    close(jacobian[some], np.stack([field.jacobian(x[i]) for i in some]), 1e-12)
    assert field.jacobian(x[:0]).shape == (0, 2, 2)
    for mode in (torch.inference_mode, torch.no_grad):
        with mode():
            again = PublishedFIMODE(weights=weights).infer(c)
            close(again.jacobian(x[:3]), jacobian[:3], 1e-12)
            close(again.directional(x[:3], x[:3]), field.directional(x[:3], x[:3]), 1e-12)
        close(again.jacobian(x[:3]), jacobian[:3], 1e-12)
    assert np.isnan(field(np.array([[np.nan, 1.0], [np.inf, 1.0]]))).all()


def test_float32_is_a_named_choice(weights):
    c = context()
    field = PublishedFIMODE(weights=weights).infer(c)
    x = queries(c)
    low = field.to("float32")
    assert (field.precision, low.precision) == ("float64", "float32")
    assert low(x).dtype == np.float64
    assert 1e-9 < np.abs(low(x) - field(x)).max() / np.abs(field(x)).max() < 1e-5
    assert low.context is c
    assert low.fit_info.report == field.fit_info.report
    with pytest.raises(ValueError, match=r"expected precision 'float32' or 'float64', got 'half'"):
        field.to("half")


def test_pickling_needs_no_weights_file(network, tmp_path):
    file = saved(network, tmp_path)
    c = context()
    field = PublishedFIMODE(weights=file).infer(c)
    content = pickle.dumps(field)
    assert len(content) < file.stat().st_size  # float32, as the weights came, though decoding is in float64
    file.unlink()
    again = pickle.loads(content)
    x = queries(c)
    np.testing.assert_array_equal(again(x), field(x))
    np.testing.assert_array_equal(again.jacobian(x), field.jacobian(x))
    assert again.context.equals(c)
    assert again.precision == "float64"


def test_stacked_fields(weights):
    model = PublishedFIMODE(weights=weights)
    contexts = [context(seed=s, k=1 + s % 3) for s in range(5)]
    fields = model.infer_many(contexts)
    x = queries(contexts[0], 300)
    which = np.random.default_rng(0).integers(5, size=300)
    expected = np.stack([fields[w](row) for w, row in zip(which, x, strict=True)])
    close(DecodedField.stack(fields)(x, which), expected, 1e-12)
    mixed = [fields[0], fields[1].to("float32")]  # of two decoders: row by row
    close(
        DecodedField.stack(mixed)(x, which % 2), np.where(which[:, None] % 2, mixed[1](x), mixed[0](x)), 1e-12
    )


def test_tensor_to_tensor_with_gradients(weights):
    field = PublishedFIMODE(weights=weights).infer(context())
    x = torch.tensor(queries(field.context, 3), requires_grad=True)
    f = field.decode(x)
    np.testing.assert_allclose(f.detach().numpy(), field(x.detach().numpy()), rtol=1e-12)
    (gradient,) = torch.autograd.grad(f[:, 0].sum(), x)
    np.testing.assert_allclose(gradient.numpy(), field.jacobian(x.detach().numpy())[:, 0], rtol=1e-12)


# --- invariances through the model -------------------------------------------------------------------------


@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-10), ("float32", 1e-5)])
class TestInvariance:
    @pytest.fixture
    def model(self, weights, precision):
        return PublishedFIMODE(weights=weights, precision=precision)

    def test_order_of_trajectories(self, model, tolerance):
        c = context()
        x = queries(c)
        close(model.infer(c[[2, 0, 1]])(x), model.infer(c)(x), tolerance)

    def test_padding_and_batch_composition(self, model, tolerance):
        contexts = [
            context(seed=0),
            context(seed=1, k=1, length=50),
            context(seed=2, k=5),
            context(seed=3, d=1),
        ]
        for c, field in zip(contexts, model.infer_many(contexts), strict=True):
            x = queries(c)
            assert field.context is c
            close(field(x), model.infer(c)(x), tolerance)

    def test_batch_of_queries(self, model, tolerance):
        c = context()
        x = queries(c)
        field = model.infer(c)
        close(np.stack([field(row) for row in x]), field(x), tolerance)

    @pytest.mark.parametrize("size", [(1e-9, 1e-12), (1e6, 1e-3), (1e30, 1e-30)])
    def test_units_of_states_and_time(self, model, tolerance, size):
        x, t = observations()
        c = Trajectories.from_arrays(x, t)
        hours = Trajectories.from_arrays([v * size for v in x], [v * 3600.0 for v in t])
        points = queries(c)
        close(model.infer(hours)(points * size) * 3600.0 / size, model.infer(c)(points), tolerance)

    def test_shift_of_time_and_states(self, model, tolerance):
        x, t = observations()
        t = [np.round(v * 2**20) / 2**20 for v in t]  # so that the shift itself does not round
        c = Trajectories.from_arrays(x, t)
        points = queries(c)
        expected = model.infer(c)(points)
        later = Trajectories.from_arrays(x, [v + s for v, s in zip(t, (1e6, -3e5, 17.0), strict=True)])
        close(model.infer(later)(points), expected, tolerance)
        origin = np.array([100.0, -50.0])
        moved = Trajectories.from_arrays([v + origin for v in x], t)
        close(model.infer(moved)(points + origin), expected, tolerance)

    def test_missing_samples_equal_absent_ones(self, model, tolerance):
        x, t = observations()
        gaps = [v.copy() for v in x]
        gaps[0][4, 0] = gaps[0][5, 1] = np.nan
        gaps[2][-1] = np.nan
        kept = [np.isfinite(v).all(1) for v in gaps]
        absent = Trajectories.from_arrays(
            [v[m] for v, m in zip(x, kept, strict=True)], [v[m] for v, m in zip(t, kept, strict=True)]
        )
        with pytest.warns(DataWarning, match="dropped 3 of 81"):
            field = model.infer(Trajectories.from_arrays(gaps, t))
        points = queries(absent)
        close(field(points), model.infer(absent)(points), tolerance)


# --- the model ---------------------------------------------------------------------------------------------


def test_model_contract(tmp_path):
    """The contract compares derivatives with differences over steps that would meet the ReLU's kinks."""
    file = saved(without_kinks(random_network()), tmp_path)
    check_model(lambda: fim_dynsys.load("fim-ode-published", weights=str(file)))


def test_no_network_at_any_time(gnot_weights, no_network):
    model = fim_dynsys.load("fim-ode-published", weights=gnot_weights)
    x, t = observations()
    model.fit(x, t).predict(x[0])
    assert model.simulate(x[0][0], t[0][:3]).shape == (3, 2)


@pytest.mark.parametrize("attention", MAPS)
def test_loading_by_name(attention, tmp_path):
    network = random_network(attention)
    folder = authors_folder(network, tmp_path / "checkpoint")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fim_dynsys.load("fim-ode-published", weights=str(folder))
    assert [w.category for w in caught] == [WeightsWarning] * (attention == "softmax")
    x, t = observations()
    own = PublishedFIMODE(weights=saved(network, tmp_path), attention=attention).fit(x, t)
    np.testing.assert_array_equal(model.fit(x, t).predict(x[0]), own.predict(x[0]))
    assert model.name == own.name == "fim-ode-published"
    assert model.field_.fit_info.report["attention"] == attention
    assert model.max_dim == 3
    with pytest.raises(FileNotFoundError, match=r"'config\.json' and 'model\.safetensors'.*got None"):
        fim_dynsys.load("fim-ode-published")
    with pytest.raises(FileNotFoundError, match=r"'config\.json' and 'model\.safetensors'.*absent"):
        fim_dynsys.load("fim-ode-published", weights=tmp_path / "absent")


def test_each_name_says_which_weights_it_takes(gnot_weights, network, tmp_path):
    with pytest.raises(ValueError, match=r'published network; load\("fim-ode-published", weights=.*takes it'):
        fim_dynsys.load("fim-ode", weights=gnot_weights)
    folder = authors_folder(network, tmp_path / "checkpoint")
    with pytest.raises(ValueError, match=r'published network; load\("fim-ode-published", weights=.*takes it'):
        fim_dynsys.load("fim-ode", weights=folder)
    with pytest.raises(ValueError, match=r"'amortised'; load\(\"fim-ode\", weights=.*takes it"):
        fim_dynsys.load("fim-ode-published", weights=shipped("fim-ode"))
    with pytest.raises(TypeError, match="attention"):
        fim_dynsys.load("fim-ode", attention="softmax")
    with pytest.raises(TypeError, match="refine"):
        fim_dynsys.load("fim-ode-published", weights=gnot_weights, refine=False)


def test_saved_models_refer_to_their_weights(gnot_weights, tmp_path):
    x, t = observations()
    model = fim_ode_published(weights=str(gnot_weights), precision="float64").fit(x, t)
    folder = model.save(tmp_path / "fitted")
    assert sum(file.stat().st_size for file in folder.iterdir()) < gnot_weights.stat().st_size / 4
    again = fim_dynsys.load_fitted(folder)
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.predict(x[0]), model.predict(x[0]))
    assert len(pickle.dumps(clone(model))) < 1000


def test_models_share_one_network(gnot_weights, tmp_path, monkeypatch):
    monkeypatch.setattr(operators, "_networks", type(operators._networks)())
    model = PublishedFIMODE(weights=gnot_weights)
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(gnot_weights.read_bytes())
    assert clone(model).operator is model.operator
    assert PublishedFIMODE(weights=copy).operator is model.operator  # the content counts, not the place
    assert PublishedFIMODE(weights=copy, attention="softmax").operator is not model.operator
    assert pickle.loads(pickle.dumps(model)).operator is model.operator
    for seed in range(1, 6):
        folder = tmp_path / str(seed)
        folder.mkdir()
        _ = PublishedFIMODE(weights=saved(random_network(seed=seed), folder)).operator
    assert len(operators._networks) == 4


def test_bad_input(gnot_weights):
    model = PublishedFIMODE(weights=gnot_weights)
    x, t = observations()
    with pytest.raises(
        ValueError, match=r"fim-ode-published: expected at most 3 states, got 4; .*PCAReduction"
    ):
        model.fit(np.random.default_rng(0).normal(size=(20, 4)), 0.1)
    with pytest.raises(
        ValueError, match=r"fim-ode-published: expected at most 3 states, which .* got 4; .*PCAReduction"
    ):
        model.infer(Trajectories.from_arrays(np.random.default_rng(0).normal(size=(20, 4)), 0.1))
    with pytest.raises(ValueError, match=r"fim-ode-published: expected at least 4 .* got 3"):
        model.infer(Trajectories.from_arrays(x[0][:3], t[0][:3]))
    with pytest.raises(ValueError, match=r"fim-ode-published: .* two of them in one trajectory, got 5 in 5"):
        model.infer(Trajectories.from_arrays([v[None] for v in x[0][:5]], [[0.0]] * 5))
    with pytest.raises(
        ValueError, match=r"fim-ode-published: expected precision 'float32' or 'float64', got 'half'"
    ):
        PublishedFIMODE(weights=gnot_weights, precision="half").fit(x, t)
    with pytest.raises(
        ValueError, match=r"fim-ode-published: expected a torch device that is there .* got 'no-such'"
    ):
        PublishedFIMODE(weights=gnot_weights, device="no-such").fit(x, t)
    with pytest.raises(ValueError, match=r"expected attention to be one of .* got 'elu'"):
        PublishedFIMODE(weights=gnot_weights, attention="elu").fit(x, t)
    assert not hasattr(model, "field_")


def test_a_constant_state_is_warned_about_and_works(gnot_weights):
    x, t = observations(k=1)
    x[0][:, 1] = 3.0
    model = PublishedFIMODE(weights=gnot_weights)
    with pytest.warns(DataWarning, match="constant over all observations: x1"):
        model.fit(x, t)
    f = model.predict(x[0])
    assert np.isfinite(f).all()
    assert np.abs(f[:, 1]).max() < 1e-4 * np.abs(f[:, 0]).max()


# --- cost --------------------------------------------------------------------------------------------------


def test_cost_of_a_query_does_not_grow_with_the_context():
    """Counted in operations, which no busy machine can change; times are `python -m benchmarks.speed`'s."""
    torch.manual_seed(0)
    network = PublishedNetwork(PublishedConfig(decoder_layers=2, uncertainty_layers=1)).eval()
    decoder = Decoder(network, torch.float32)
    point = np.array([[0.3, -0.2]])
    counts = {}
    for k in (1, 9):
        t, states, mask = (torch.tensor(a)[None] for a in context(k=k, length=200).padded())
        with torch.no_grad():
            encoding = network.encode(t, states, mask.all(-1))
        (field,) = make_fields(decoder, encoding, [2], [1.0], [{}])
        counts[k] = _operations(lambda field=field: field(point))

        def uncached(encoding=encoding):
            with torch.no_grad():
                network.decode(encoding, torch.tensor(point)[None])

        counts[k, "uncached"] = _operations(uncached)
    assert counts[1] == counts[9]
    assert counts[1, "uncached"] > 10 * counts[1]
    assert counts[9, "uncached"] > 9 * 0.9 * counts[1, "uncached"] * (200 - 12) / 200


def _operations(call):
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def test_simulation_of_many_fields(gnot_weights):
    """All members in one batch give what each gives alone."""
    model = PublishedFIMODE(weights=gnot_weights)
    fields = model.infer_many([context(seed=s) for s in range(3)])
    starts = np.array([c.arrays()[0][1][0] for c in (f.context for f in fields)])
    t = np.linspace(0, 1, 5)
    together = fim_dynsys.simulate(fields, starts, t)
    assert all(isinstance(field, VectorField) for field in fields)
    for i, field in enumerate(fields):
        alone = fim_dynsys.simulate(field, starts[i], t)
        np.testing.assert_allclose(together.x[i], alone.x[0], rtol=1e-6)


def test_points_may_lie_anyhow_in_memory(gnot_weights):
    model = PublishedFIMODE(weights=gnot_weights)
    one, two = model.infer_many([context(seed=s) for s in range(2)])
    points = queries(one.context)
    assert one(points[:1][::-1]).shape == (1, 2)  # a negative stride that numpy counts as contiguous
    for other in (points[::-1], np.asfortranarray(points)[::-1], np.repeat(points, 2, axis=0)[::-2]):
        np.testing.assert_allclose(one(other), one(points)[::-1], rtol=1e-12)
    which = np.arange(len(points)) % 2
    together = DecodedField.stack([one, two])
    np.testing.assert_allclose(together(points[::-1], which[::-1]), together(points, which)[::-1], rtol=1e-12)
