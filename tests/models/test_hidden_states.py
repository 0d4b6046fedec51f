"""Given equations whose states were not all observed, with inputs, and of counts."""

import numpy as np
import pytest
import xarray as xr
from scipy.integrate import solve_ivp
from scipy.optimize import minimize

import fim_dynsys
from fim_dynsys.errors import DataWarning

pytestmark = pytest.mark.filterwarnings("error::fim_dynsys.errors.FitWarning")
DAYS = np.linspace(0.0, 60.0, 61)
SIR = {"s": "-b*s*i", "i": "b*s*i - g*i", "r": "g*i"}


def sir(b=5e-4, g=0.15):
    def rates(t, x):
        return [-b * x[0] * x[1], b * x[0] * x[1] - g * x[1], g * x[1]]

    return solve_ivp(rates, (0, 60), [990.0, 10.0, 0.0], t_eval=DAYS, rtol=1e-9, atol=1e-9).y.T


def push(t):
    return np.sin(0.7 * t) + 0.5 * np.sin(0.31 * t)


def oscillator(n=120, noise=0.03):
    t = np.linspace(0.0, 30.0, n)
    x = solve_ivp(
        lambda s, x: [x[1], -x[0] - 0.3 * x[1] - 0.2 * x[0] ** 3 + 1.5 * push(s)],
        (0, 30),
        [1.0, 0.0],
        t_eval=t,
        rtol=1e-9,
    ).y.T
    return t, x, x + noise * x.std(axis=0) * np.random.default_rng(0).normal(size=x.shape)


OSCILLATOR = ["v", "-k*x - c*v - e*x**3 + h*F"]
TRUTH = {"k": 1.0, "c": 0.3, "e": 0.2, "h": 1.5}


def close(model, truth, errors=4.0):
    for name, value in truth.items():
        found, error = model.field_.parameters[name], model.field_.parameter_errors[name]
        assert abs(found - value) < errors * error, (name, found, error)


def test_an_epidemic_of_which_the_infected_alone_were_counted(tmp_path):
    x = sir()
    y = x[:, 1:2] + 0.02 * x[:, 1].std() * np.random.default_rng(0).normal(size=(61, 1))
    with pytest.warns(DataWarning, match=r"r\(0\)"):
        model = fim_dynsys.load("symbolic", expressions=SIR).fit(y, DAYS, observed=["i"])
    close(model, {"b": 5e-4, "g": 0.15})
    assert max(e / model.field_.parameters[n] for n, e in model.field_.parameter_errors.items()) < 0.03
    assert model.feature_names == ["s", "i", "r"]
    assert model.field_.fit_info.inference.undetermined == ("r(0)",)
    assert model.field_.fit_info.path_r2 > 0.999
    np.testing.assert_allclose(model.field_.context.x[0, :, 0], x[:, 0], rtol=0.05)
    np.testing.assert_allclose(model.simulate([990.0, 10.0, 0.0], DAYS), x, atol=30.0)
    again = fim_dynsys.load_fitted(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.field_(x), model.field_(x))
    assert again.field_.fit_info.summary() == model.field_.fit_info.summary()
    assert again.equations(errors=True) == model.equations(errors=True)
    assert len(model.ensemble(2)) == 2


def test_the_record_of_the_fit_goes_on_with_its_hidden_states():
    x = sir()
    y = x[:, 1:2] + 0.02 * x[:, 1].std() * np.random.default_rng(0).normal(size=(61, 1))
    with pytest.warns(DataWarning, match=r"r\(0\)"):
        model = fim_dynsys.load("equations", expressions=SIR).fit(y, DAYS, observed=["i"])
    ahead = model.forecast(model.context_, [1.0, 5.0], n_draws=4)
    assert list(ahead["state"].values) == ["s", "i", "r"]
    xr.testing.assert_identical(ahead, model.forecast(model.field_.context, [1.0, 5.0], n_draws=4))
    other = fim_dynsys.Trajectories.from_arrays(y[:30], DAYS[:30], ["i"])
    with pytest.raises(ValueError, match="record of the fit with its hidden states is model"):
        model.forecast(other, [1.0])


def test_what_only_a_product_is_known_of_is_named():
    x = sir()
    y = x[:, 1:2] + 0.02 * x[:, 1].std() * np.random.default_rng(0).normal(size=(61, 1))
    expressions = {"s": "-b*s*i/N", "i": "b*s*i/N - g*i"}
    with pytest.warns(DataWarning, match="do not determine N, b"):
        model = fim_dynsys.load("symbolic", expressions=expressions).fit(y, DAYS, observed=["i"])
    close(model, {"g": 0.15})
    ratio = model.field_.parameters["b"] / model.field_.parameters["N"]
    assert ratio == pytest.approx(5e-4, rel=0.06)


def test_lorenz_from_one_coordinate():
    t = np.arange(0.0, 8.0, 0.05)
    x = solve_ivp(
        lambda s, x: [10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]],
        (0, 8),
        [1.0, 1.0, 20.0],
        t_eval=t,
        rtol=1e-9,
    ).y.T
    y = x[:, :1] + 0.02 * x[:, 0].std() * np.random.default_rng(1).normal(size=(len(t), 1))
    expressions = ["a*(y-x)", "x*(r-z)-y", "x*y-b*z"]
    model = fim_dynsys.load("equations", expressions=expressions, n_starts=4)
    model.fit(y, t, observed=["x"], feature_names=["x", "y", "z"])
    close(model, {"a": 10.0, "r": 28.0, "b": 8 / 3})
    np.testing.assert_allclose(model.field_.context.x[0], x, atol=2.0)


def test_inputs_of_given_equations():
    t, x, y = oscillator()
    model = fim_dynsys.load("symbolic", expressions=OSCILLATOR)
    model.fit(y, t, u=push(t), feature_names=["x", "v", "F"])
    close(model, TRUTH)
    np.testing.assert_allclose(model.simulate([1.0, 0.0], t, u=push), x, atol=0.05)
    held = model.field_.at_input({"F": 0.5})
    np.testing.assert_allclose(held([[0.3, -0.2]]), model.predict([[0.3, -0.2]], u=[[0.5]]))
    assert held.parameters["F"] == 0.5
    assert "±" in "".join(model.equations(errors=True))


def test_an_input_and_a_state_that_was_not_observed(tmp_path):
    t, x, y = oscillator()
    model = fim_dynsys.load("symbolic", expressions=OSCILLATOR)
    model.fit(y[:, :1], t, u=push(t), observed=["x"], feature_names=["x", "v", "F"])
    close(model, TRUTH)
    np.testing.assert_allclose(model.field_.context.x[0], x, atol=0.15)
    again = fim_dynsys.load_fitted(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict(x, u=push(t)), model.predict(x, u=push(t)))
    assert model.ensemble(1)[0].parameters != model.field_.parameters


def test_a_combination_of_states_over_several_trajectories():
    x = sir()
    rng = np.random.default_rng(0)
    total = x[:, :1] + x[:, 1:2]
    parts = [total + 3.0 * rng.normal(size=total.shape) for _ in range(2)]
    expressions = {"s": "-b*s*i", "i": "b*s*i - g*i"}
    start = {"s": 900.0, "i": 50.0, "b": 1e-3, "g": 0.1}
    model = fim_dynsys.load("symbolic", expressions=expressions, start=start)
    model.fit(parts, [DAYS] * 2, observed=["s + i"])
    close(model, {"b": 5e-4, "g": 0.15})


def decay():
    t = np.linspace(0.0, 10.0, 40)
    return t, np.random.default_rng(2).poisson(30.0 * np.exp(-0.5 * t))[:, None].astype(float)


def test_counts_are_fitted_by_their_likelihood():
    t, y = decay()

    def loss(p):
        mean = p[0] * np.exp(-p[1] * t)
        return float(np.sum(mean - y[:, 0] * np.log(mean)))

    best = minimize(loss, [30.0, 0.5], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10}).x
    model = fim_dynsys.load("symbolic", expressions={"n": "-k*n"})
    field = model.fit(y, t, sigma="poisson", feature_names=["n"]).field_
    assert field.parameters["k"] == pytest.approx(best[1], abs=0.02 * field.parameter_errors["k"])
    assert model.field_.fit_info.report["noise"] == "Poisson"
    assert "Poisson" in model.field_.fit_info.summary()


def test_counts_in_a_search():
    t, y = decay()
    model = fim_dynsys.load("sindy-strong", degree=1).fit(y, t, sigma="poisson")
    assert model.field_.fit_info.report["noise"] == "Poisson"
    assert model.field_([[10.0]])[0, 0] == pytest.approx(-5.0, abs=1.0)
    with pytest.raises(ValueError, match="counts"):
        model.fit(y + 0.5, t, sigma="poisson")


def test_what_cannot_be_asked_for():
    t, _, y = oscillator(30)
    with pytest.raises(ValueError, match="need equations"):
        fim_dynsys.load("sindy-strong").fit(y, t, observed=["x", "v"])
    with pytest.raises(ValueError, match="need equations"):
        fim_dynsys.load("symbolic").fit(y, t, observed=["x", "v"])
    model = fim_dynsys.load("symbolic", expressions={"x": "v", "v": "-x"})
    with pytest.raises(ValueError, match="expressions of the states"):
        model.fit(y[:, :1], t)  # as many columns as states are these in their order
    with pytest.raises(ValueError, match="list of different"):
        model.fit(y, t, observed=["x", "x"])
    with pytest.raises(ValueError, match="starts of parameters or states"):
        fim_dynsys.load("symbolic", expressions={"x": "v", "v": "-k*x"}, start={"q": 1.0}).fit(
            y[:, :1], t, observed=["x"]
        )
