"""Draws of estimated parameters: they agree with profiles and standard errors."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fim_dynsys
from fim_dynsys.estimation.sampling import draw_parameters

RATES = ["s*(y-x)", "x*(r-z)-y", "x*y-b*z"]


def orbit(f, x0, t):
    return solve_ivp(f, (t[0], t[-1]), x0, t_eval=t, rtol=1e-9, atol=1e-9, method="LSODA").y.T


def load(expressions, **options):
    return fim_dynsys.load("equations", expressions=expressions, n_starts=3, **options)


@pytest.mark.parametrize("seed", [2, 3])
def test_intervals_do_not_run_away_where_the_likelihood_levels_off(seed):
    """Any small saturation constant fits nearly as well: draws went there, and left the estimate out."""
    t = np.linspace(0.0, 5.0, 25)
    x = orbit(lambda s, y: -2.0 * y / (0.05 + y), [9.5], t)[:, 0]
    y = x + 0.05 * np.random.default_rng(seed).standard_normal(25)
    model = load({"x": "-V*x/(K+x)"}, bounds={"V": (0, None), "K": (0, None)}).fit(y, t, feature_names=["x"])
    best, error = model.parameters_["K"], model.parameter_errors_["K"]
    found = model.interval(lambda field: field.parameters["K"], levels=[0.95], n=400)
    low, high = model.profile("K").intervals[0.95]
    assert float(found["low"][0]) == pytest.approx(max(low, 0.0), abs=0.5 * error)
    assert float(found["high"][0]) == pytest.approx(high, abs=0.5 * error)
    assert float(found["median"]) == pytest.approx(best, abs=0.5 * error)


def lorenz(_, x):
    return [10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]]


@pytest.mark.parametrize("records", [1, 6])
def test_few_draws_are_as_wide_as_the_standard_errors(records):
    """However many first states are estimated too: 18 of six records."""
    rng = np.random.default_rng(0)
    t = np.linspace(0.0, 3.0, 121) if records == 1 else np.linspace(0.0, 1.0, 21)
    begun = [[1.0, 1.0, 20.0]] if records == 1 else 5.0 * rng.standard_normal((records, 3)) + [0.0, 0.0, 20.0]
    x = [orbit(lorenz, x0, t) + 0.5 * rng.standard_normal((len(t), 3)) for x0 in begun]
    model = load(RATES).fit(x, [t] * records, feature_names=["x", "y", "z"])
    members = [*model.ensemble(20), *model.ensemble(20, seed=1)]
    draws = np.array([[field.parameters[name] for name in "srb"] for field in members])
    errors = np.array([model.parameter_errors_[name] for name in "srb"])
    best = np.array([model.parameters_[name] for name in "srb"])
    assert (np.abs(draws.std(axis=0) / errors - 1.0) < 0.4).all()  # of 40: three times the root of 1 / 80
    assert (np.abs(draws.mean(axis=0) - best) < 0.6 * errors).all()
    found = model.interval(lambda field: field.parameters["r"], levels=[0.95], n=20)
    assert float(found["low"][0]) < model.parameters_["r"] < float(found["high"][0])


def test_draws_of_a_line_are_those_of_students_t():
    t = np.linspace(0.0, 4.0, 12)
    y = 1.0 + 0.5 * t + 0.2 * np.random.default_rng(0).standard_normal(12)
    model = load({"x": "a"}).fit(y, t, feature_names=["x"])
    draws = draw_parameters(model.fit_, 500, seed=1)[:, 0]
    off = (draws - model.parameters_["a"]) / model.parameter_errors_["a"]
    assert np.std(off) == pytest.approx(np.sqrt(10.0 / 8.0), rel=0.12)  # ten degrees of freedom
    np.testing.assert_array_equal(draws[:3], draw_parameters(model.fit_, 500, seed=1)[:3, 0])


def test_draws_stay_within_the_bounds_and_fixed_equations_have_equal_ones():
    t = np.linspace(0.0, 5.0, 30)
    y = np.exp(-0.5 * t) + 0.02 * np.random.default_rng(0).standard_normal(30)
    bounded = load({"x": "-k*x"}, bounds={"k": (0.49, 0.51)}).fit(y, t, feature_names=["x"])
    draws = np.array([f.parameters["k"] for f in bounded.ensemble(30)])
    assert (draws >= 0.49).all() and (draws <= 0.51).all() and np.ptp(draws) > 0.01
    known = load({"x": "-k*x"}, fixed={"k": 0.5}, initial={"x": 1.0}).fit(y, t, feature_names=["x"])
    assert len(known.ensemble(3)) == 3
