"""What known equations say of units, of samples at the times of doses, and of upper bounds."""

import warnings

import numpy as np
import pytest
import sympy

from fim_dynsys import Trajectories, load
from fim_dynsys.errors import DataWarning
from fim_dynsys.estimation.dimensions import disagreements
from fim_dynsys.fields.expressions import parse


def said(equations, units):
    names = {n: sympy.Symbol(n, real=True) for n in ("x", "v", "s", "c", "k", "g", "b", "K", "t")}
    return disagreements([parse(e, names) for e in equations.values()], list(equations), units)


@pytest.mark.parametrize(
    ("equations", "units"),
    [
        ({"x": "v", "v": "-k*x - g*v"}, {"x": "m", "v": "m/s", "t": "s"}),
        ({"s": "-b*s/(K + s)"}, {"s": "mg/L", "t": "h"}),
        ({"s": "-b*s/(K + s) + c/t"}, {"s": "mg/L", "c": "g/m^3", "t": "h"}),
        ({"x": "-k*x + x*v"}, {"x": "individuals", "v": "1/day", "t": "day"}),
        ({"x": "0.5*v"}, {"x": "m", "v": "km/h", "t": "s"}),  # the number may have a unit
        ({"x": "v"}, {"x": "m", "v": "arbitrary (a.u.)", "t": "s"}),
        ({"x": "exp(-k*t)*g"}, {"x": "m", "t": "s"}),
    ],
)
def test_units_that_agree_are_not_mentioned(equations, units):
    assert said(equations, units) == ()


@pytest.mark.parametrize(
    ("equations", "units"),
    [
        ({"x": "v"}, {"x": "m", "v": "km/h", "t": "s"}),
        ({"s": "-b*s/(K + s) + c"}, {"s": "mg/L", "c": "mg/L", "t": "h"}),
        ({"x": "-k*x + x*v"}, {"x": "individuals", "v": "1/h", "t": "day"}),
        ({"x": "k*exp(x)"}, {"x": "m", "t": "s"}),
        ({"x": "k*(x + v)"}, {"x": "m", "v": "m/s", "t": "s"}),
    ],
)
def test_units_that_no_parameters_make_agree_are_named(equations, units):
    (text,) = said(equations, units)
    assert "do not agree" in text and "t in " in text


def test_a_fit_warns_of_units():
    t = np.linspace(0.0, 5.0, 21)
    x = np.stack([np.exp(-t), -np.exp(-t)], axis=1)
    data = Trajectories.from_arrays(x, t, state_names=["x", "v"], units={"x": "m", "v": "km/h", "t": "s"})
    model = load("equations", expressions={"x": "v", "v": "-k*v"})
    with pytest.warns(DataWarning, match="units of dx/dt = v do not agree"):
        model.fit(data)


def test_samples_at_the_time_of_a_dose_are_said_to_be_taken_before_it():
    t = np.linspace(0.5, 9.5, 19)
    c = 5.0 * np.exp(-0.3 * t) + np.where(t > 6.0, 5.0 * np.exp(-0.3 * (t - 6.0)), 0.0)
    doses = {"doses": [(0.0, "c", 5.0), (6.0, "c", 5.0)], "initial": {"c": 0.0}, "t0": 0.0}
    model = load("equations", expressions={"c": "-k*c"}, **doses)
    with pytest.warns(DataWarning, match="events, 6, count as taken before"):
        model.fit(c, t, feature_names=["c"])
    assert model.parameters_["k"] == pytest.approx(0.3, rel=1e-6)
    later = np.where(t == 6.0, 6.0001, t)
    after = np.where(t == 6.0, c + 5.0, c)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(after, later, feature_names=["c"])
    assert model.parameters_["k"] == pytest.approx(0.3, rel=1e-3)


def test_a_parameter_at_its_upper_bound_is_named():
    t = np.linspace(0.0, 5.0, 30)
    y = 3.0 * np.exp(-1.2 * t) + 0.3 * np.random.default_rng(15).standard_normal(30)
    model = load("equations", expressions={"x": "-k*x"}, bounds={"k": (0, 0.5)})
    with pytest.warns(DataWarning, match="at their bounds: k = 0.5"):
        model.fit(y, t, feature_names=["x"])


@pytest.mark.parametrize(
    ("rate", "units"),
    [("-k*S + b*u", {"S": "1/h", "u": "mM/(h l)"}), ("-k*S + b*t", {"S": "1/h", "time": "mM/h^2"})],
)
def test_a_table_of_fitted_equations_has_names_and_units_of_states_inputs_and_time(rate, units):
    t = np.linspace(0.0, 6.0, 31)
    u = (t > 2.0).astype(float)
    x = np.exp(-t) + 0.1 * t
    data = Trajectories.from_arrays(
        x, t, state_names=["S"], u=u, input_names=["u"], units={"S": "mM", "u": "l", "t": "h"}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is not fitted well, or an input without effect
        table = load("equations", expressions={"S": rate}, n_starts=2).fit(data).field_.to_dataframe()
    assert dict(zip(table["term"], table["unit"], strict=True)) == units
