"""Errors of the observations that are known beforehand."""

import numpy as np
import pandas as pd
import pytest

import fim_dynsys
from fim_dynsys import simulate
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.models.sindy_strong import StrongSINDy
from fim_dynsys.regression.observed import observe

pytestmark = pytest.mark.filterwarnings("ignore::fim_dynsys.errors.FitWarning")
T = np.linspace(0.0, 8.0, 100)
RATES = np.array([[-0.1, 1.0], [-1.0, -0.1]])


def spiral(seed=0, n=2):
    """Samples of which some are far worse than others, and what their errors are."""
    rng = np.random.default_rng(seed)
    field = CallableField(lambda x: x @ RATES.T, 2)
    x = simulate(field, [[1.0, 0.0], [-0.4, 0.9]][:n], T).x
    sigma = np.where(rng.random(size=x.shape) < 0.3, 0.3, 0.01)
    return list(x + sigma * rng.normal(size=x.shape)), list(sigma)


def linear(x, sigma=None, **options):
    model = fim_dynsys.load("sindy-strong", degree=1, **options)
    return model.fit(x, [T] * len(x), sigma=sigma)


def test_bad_samples_count_less_when_that_is_known():
    worse = []
    for seed in range(3):
        x, sigma = spiral(seed)
        plain, told = (
            np.abs(linear(x, given).coefficients()[:, 1:] - RATES).max() for given in (None, sigma)
        )
        worse.append(plain / told)
    assert np.median(worse) > 2.0, worse


def test_the_report_says_what_was_assumed():
    x, sigma = spiral()
    assert linear(x).field_.fit_info.report["noise"] == "estimated"
    told = linear(x, sigma).field_.fit_info
    assert told.report["noise"] == "given"
    weights = 1.0 / np.concatenate(sigma) ** 2
    np.testing.assert_allclose(told.noise_level, 1.0 / np.sqrt(weights.mean(axis=0)))


def test_one_error_for_all_for_each_state_and_for_each_sample_are_the_same():
    x, _ = spiral()
    shapes = [0.02, [0.02, 0.02], {"x0": 0.02, "x1": 0.02}, [np.full(own.shape, 0.02) for own in x]]
    first, *others = (linear(x, sigma).coefficients() for sigma in shapes)
    for other in others:
        np.testing.assert_array_equal(other, first)


def test_errors_as_columns_and_as_a_variable():
    t = np.linspace(0.0, 8.0, 60)
    sigma = np.where(np.arange(len(t)) % 3 == 0, 0.1, 0.01)[:, None] * np.ones((1, 2))
    y = np.exp(-0.1 * t)[:, None] * np.stack([np.cos(t), -np.sin(t)], axis=1)
    y += sigma * np.random.default_rng(0).normal(size=y.shape)
    frame = pd.DataFrame({"t": t, "x": y[:, 0], "v": y[:, 1], "dx": sigma[:, 0], "dv": sigma[:, 1]})
    load = fim_dynsys.load
    one = load("sindy-strong", degree=1).fit(y, t, sigma=sigma, feature_names=["x", "v"])
    two = load("sindy-strong", degree=1).fit(frame, sigma={"v": "dv", "x": "dx"})
    np.testing.assert_array_equal(two.coefficients(), one.coefficients())
    data = fim_dynsys.Trajectories.from_arrays(y, t, state_names=["x", "v"]).dataset
    data = data.assign(errors=(("trajectory", "sample", "state"), sigma[None]))
    three = load("sindy-strong", degree=1).fit(data, sigma="errors")
    np.testing.assert_array_equal(three.coefficients(), one.coefficients())
    with pytest.raises(ValueError, match="column"):
        load("sindy-strong").fit(frame, sigma={"x": "dx"})


def test_errors_belong_to_their_samples_in_any_order():
    x, sigma = spiral()
    x[0][7, 1] = np.nan
    sigma[0][7, 1] = np.nan
    one = linear(x, sigma)
    two = linear(x[::-1], sigma[::-1])
    three = linear([own[:, ::-1] for own in x], [own[:, ::-1] for own in sigma])
    np.testing.assert_array_equal(two.coefficients(), one.coefficients())
    np.testing.assert_array_equal(three.field_([[0.3, 0.4]])[0, ::-1], one.field_([[0.4, 0.3]])[0])


def test_errors_follow_the_pieces_that_gaps_make():
    rng = np.random.default_rng(3)
    t = np.concatenate([T, T + 500.0])
    x = np.concatenate([own for own in spiral()[0]])
    sigma = rng.uniform(0.01, 0.1, size=x.shape)
    seen = observe([(t, x)])
    known = seen.measured([sigma])
    assert len(known.samples) == 2
    own = np.concatenate(known.weights)
    np.testing.assert_allclose(own * sigma**2, np.broadcast_to((own * sigma**2)[0], own.shape))
    np.testing.assert_allclose(np.concatenate(known.weights).mean(axis=0), 1.0)
    np.testing.assert_allclose(known.noise.level * known.scale, known.noise_level)


def test_units_do_not_matter():
    x, sigma = spiral()
    scale = np.array([1e3, 1e-2])
    one = linear(x, sigma).field_([[0.3, 0.4]])
    other = linear([own * scale for own in x], [own * scale for own in sigma]).field_([[0.3, 0.4] * scale])
    np.testing.assert_allclose(other, one * scale, rtol=1e-6)


def test_given_equations_are_fitted_with_the_errors():
    worse = []
    for seed in range(3):
        x, sigma = spiral(seed)
        model = fim_dynsys.load("symbolic", expressions=["-a*x0 + b*x1", "-b*x0 - a*x1"])
        off = [
            np.abs(model.fit(x, [T] * 2, sigma=s).field_([[1.0, 0.0]]) - RATES[:, 0]).max()
            for s in (None, sigma)
        ]
        worse.append(off[0] / off[1])
    assert np.median(worse) > 2.0, worse


@pytest.mark.parametrize("sigma", [0.0, -1.0, [0.1, 0.1, 0.1], {"y": 0.1}, np.ones((3, 2)), "0.1"])
def test_errors_that_do_not_fit_are_refused(sigma):
    with pytest.raises(ValueError, match="sigma"):
        linear(spiral()[0], sigma)


class Unweighed(StrongSINDy):
    takes = StrongSINDy.takes - {"sigma"}


OPTIONS = {"fim-ode": {}, "auto": {"effort": "fast"}}


def searched(name, x, sigma=None):
    return fim_dynsys.load(name, **OPTIONS[name]).fit(x, [T] * len(x), sigma=sigma)


@pytest.mark.parametrize("name", OPTIONS)
def test_searches_from_the_operator_weigh_samples(name):
    x, sigma = spiral(1)
    points = np.concatenate(simulate(CallableField(lambda x: x @ RATES.T, 2), [[1.0, 0.0]], T).x)
    off = []
    for given in (None, sigma):
        model = searched(name, x, given)
        off.append(np.sqrt(np.mean((model.field_(points) - points @ RATES.T) ** 2)))
    assert off[1] < 0.5 * off[0], off
    assert model.field_.fit_info.report["noise"] == "given"
    assert "errors as given" in model.field_.fit_info.summary()
    assert not model.field_.fit_info.problems  # bad samples are no misfit
    assert model.field_.fit_info.path_r2 > 0.99
    assert "±" in "".join(model.equations(errors=True))


@pytest.mark.parametrize("name", OPTIONS)
def test_errors_as_large_as_estimated_change_little(name):
    x = list(simulate(CallableField(lambda x: x @ RATES.T, 2), [[1.0, 0.0], [-0.4, 0.9]], T).x)
    x = [own + 0.03 * np.random.default_rng(k).normal(size=own.shape) for k, own in enumerate(x)]
    plain, told = searched(name, x), searched(name, x, 0.03)
    np.testing.assert_allclose(told.field_(x[0]), plain.field_(x[0]), atol=0.02)
    np.testing.assert_allclose(told.field_.fit_info.noise_level, 0.03)


def test_clean_samples_of_one_precision_are_still_fitted_to_their_digits():
    x = list(simulate(CallableField(lambda x: x @ RATES.T, 2), [[1.0, 0.0]], T, rtol=1e-10).x)
    found = fim_dynsys.load("fim-ode").fit(x, [T], sigma=1e-6)
    np.testing.assert_allclose(found.field_(np.eye(2)), RATES.T, atol=1e-6)


@pytest.mark.parametrize("error", [np.inf, 50.0, 0.5])
def test_samples_with_huge_errors_lose_their_weight(error):
    x, _ = spiral()
    sigma = [np.full(own.shape, 0.05) for own in x]
    truth = linear(x, sigma).field_(np.eye(2))
    wrong = [own.copy() for own in x]
    for own, errors in zip(wrong, sigma, strict=True):
        own[::9, 0] += 0.8
        errors[::9, 0] = error
    told, untold = (linear(wrong, given).field_(np.eye(2)) for given in (sigma, None))
    assert np.abs(told - truth).max() < 0.5 * np.abs(untold - truth).max()
    if error > 5.0:  # more than a hundred times the others': as if they were not there
        missing = [own.copy() for own in wrong]
        for own in missing:
            own[::9, 0] = np.nan
        np.testing.assert_array_equal(linear(missing, 0.05).field_(np.eye(2)), told)


def test_members_and_saved_models_keep_the_errors(tmp_path):
    x, sigma = spiral()
    sigma[0][3, 0] = np.inf
    for name in ("sindy-strong", "fim-ode"):
        model = fim_dynsys.load(name).fit(x[:1], T, sigma=sigma[:1])
        assert np.isnan(model.context_.x[0, 3, 0])
        members = model.ensemble(2)
        again = fim_dynsys.load_fitted(model.save(tmp_path / name))
        assert again.field_.fit_info.summary() == model.field_.fit_info.summary()
        for one, other in zip(members, again.ensemble(2), strict=True):
            np.testing.assert_array_equal(one(x[1]), other(x[1]))


def test_counts_in_searches_from_the_operator():
    t = np.linspace(0.0, 10.0, 60)
    y = np.random.default_rng(2).poisson(80.0 * np.exp(-0.5 * t))[:, None].astype(float)
    for name, options in OPTIONS.items():
        model = fim_dynsys.load(name, **options).fit(y, t, sigma="poisson")
        assert model.field_.fit_info.report["noise"] == "Poisson"
        assert model.field_([[40.0]])[0, 0] == pytest.approx(-20.0, rel=0.15)


def test_errors_and_inputs():
    x, sigma = spiral()
    u = [np.sin(T), np.cos(T)]
    for name, options in OPTIONS.items():
        model = fim_dynsys.load(name, **options).fit(x, [T] * 2, u=u, sigma=sigma)
        assert model.field_.fit_info.report["noise"] == "given"
        np.testing.assert_allclose(model.predict([[0.5, 0.2]], u=[[0.0]]), [[0.15, -0.52]], atol=0.15)


def test_a_model_without_use_for_errors_says_so():
    x, sigma = spiral()
    with pytest.raises(ValueError, match="take it"):
        Unweighed().fit(x, [T] * 2, sigma=sigma)
    with pytest.raises(ValueError, match="expected a search with sigma"):
        fim_dynsys.load("fim-ode", refine=False).fit(x, [T] * 2, sigma=sigma)
    with pytest.raises(ValueError, match="finite sigma"):
        linear(x, np.inf)
    with pytest.raises(ValueError, match="sigma="):
        linear(x, sigma).finetune(x, [T] * 2)
    with pytest.raises(ValueError, match="sigma"):
        fim_dynsys.load("sindy-strong").fit(x, [T] * 2, sigma=sigma, order=2)


@pytest.mark.parametrize("uneven", ["relative", "halves"])
def test_errors_that_differ_from_sample_to_sample_do_not_lose_terms(uneven):
    """A smoother, which weighs all alike, misses first states by far more than their errors."""
    field = fim_dynsys.SymbolicField({"x": "1.1*x - 0.4*x*y", "y": "0.1*x*y - 0.4*y"})
    t, rng = np.linspace(0.0, 20.0, 80), np.random.default_rng(3)
    path = fim_dynsys.simulate(field, [10.0, 5.0], t, rtol=1e-9).x[0]
    halves = np.where(t[:, None] < 10.0, 0.01, 0.4) * path.std(axis=0)
    errors = 0.1 * path if uneven == "relative" else halves
    model = fim_dynsys.load("fim-ode").fit(path + errors * rng.standard_normal(path.shape), t, sigma=errors)
    off = np.abs(model.predict(path) - field(path)).max() / np.abs(field(path)).max()
    assert off < 0.06
