"""Errors of the observations that are known beforehand."""

import numpy as np
import pandas as pd
import pytest

import fim_dynsys
from fim_dynsys import simulate
from fim_dynsys.fields.callable import CallableField
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
    np.testing.assert_allclose(known.law.level * known.scale, known.noise_level)


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


def test_a_model_without_use_for_errors_says_so():
    x, sigma = spiral()
    with pytest.raises(ValueError, match="take it"):
        fim_dynsys.load("fim-ode").fit(x, [T] * 2, sigma=sigma)
    with pytest.raises(ValueError, match="sigma"):
        fim_dynsys.load("sindy-strong").fit(x, [T] * 2, sigma=sigma, order=2)
