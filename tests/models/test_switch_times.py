"""Times at which given equations switch, as unknown numbers."""

import numpy as np
import pytest
import sympy
from scipy.integrate import solve_ivp

import fim_dynsys
from fim_dynsys.estimation.switches import timing

pytestmark = pytest.mark.filterwarnings("default::fim_dynsys.errors.FitWarning")
DAYS = np.arange(50.0)
LOCKDOWN = {
    "s": "-(b1 if t < T else b2)*s*i/1000",
    "i": "(b1 if t < T else b2)*s*i/1000 - g*i",
}


def epidemic(seed):
    """Contacts fall to a quarter on day 18; 2 % noise."""

    def rates(t, x):
        infections = (0.6 if t < 18.0 else 0.15) * x[0] * x[1] / 1e3
        return [-infections, infections - 0.2 * x[1]]

    x = solve_ivp(rates, (0, 49), [995.0, 5.0], t_eval=DAYS, rtol=1e-9, atol=1e-9, max_step=0.05).y.T
    return x + 0.02 * x.std(axis=0) * np.random.default_rng(seed).normal(size=x.shape)


def test_the_day_is_found_from_the_infected_alone():
    bounds = {"T": (0, 49), "b1": (0, 2), "b2": (0, 2), "g": (0, 1)}
    model = fim_dynsys.load("equations", expressions=LOCKDOWN, bounds=bounds, initial={"s": 995})
    model.fit(epidemic(0)[:, 1:], DAYS, observed=["i"])
    found = model.field_.parameters
    assert found["T"] == pytest.approx(18.0, abs=0.6) and found["b2"] == pytest.approx(0.15, abs=0.05)


@pytest.mark.parametrize("seed", [0, pytest.param(2, marks=pytest.mark.slow)])  # 2 s
def test_the_day_is_found_from_both_without_bounds(seed):
    """Pieces of the record have one rate each, whatever the time of the switch."""
    model = fim_dynsys.load("equations", expressions=LOCKDOWN)
    model.fit(epidemic(seed), DAYS, feature_names=["s", "i"])
    found = model.field_.parameters
    assert found["T"] == pytest.approx(18.0, abs=0.3) and found["g"] == pytest.approx(0.2, rel=0.03)


def test_parameters_that_say_when_are_told_from_others():
    t, on, shift, x, half = (sympy.Symbol(name, real=True) for name in ("t", "on", "shift", "x", "half"))
    switching = [
        sympy.Piecewise((1, t < on), (0, True)) + sympy.Abs(2 * t + shift - 3),
        sympy.Piecewise((1, x < half), (0, True)) + sympy.sign(t - 4),
    ]
    assert timing(switching, {}) == {"on": (0.0, 1.0), "shift": (3.0, -2.0)}
    assert timing(switching, {"on": 2.0}) == {"shift": (3.0, -2.0)}


def test_records_at_a_single_time_have_no_gap_for_a_switch():
    """Each of many runs was measured once, at the same time."""
    starts = np.linspace(1.0, 9.0, 30)
    runs = [[[value * np.exp(-0.6)]] for value in starts]
    model = fim_dynsys.load(
        "equations", expressions={"x": "-(k if t < T else 0.3)*x"}, initial={"x": "begin"}, t0=0.0
    )
    data = fim_dynsys.Trajectories.from_arrays(
        runs, [[2.0]] * len(runs), ["x"], coords={"begin": starts.tolist()}
    )
    model.fit(data)
    assert model.field_.parameters.keys() == {"k", "T"}


@pytest.mark.parametrize("first", [0.0, "A0"])
@pytest.mark.parametrize(
    "pulse",
    ["100 if t > T0 and t < T else 0", "0 if t < T0 else 100 if t < T else 0", "100 if 1 < t < T else 0"],
)
def test_a_pulse_from_rest_is_found_however_it_is_written(pulse, first):
    """At rest a state has no size that errors are relative to; choices stand within choices."""

    def dosed(t):
        return 100 / 0.35 * (np.exp(-0.35 * np.maximum(t - 3.3, 0)) - np.exp(-0.35 * np.maximum(t - 1.0, 0)))

    t = np.linspace(0.0, 8.0, 33)
    x = dosed(t) + 0.5 * np.random.default_rng(0).standard_normal(33)
    bounds = {"T": (1.5, 8), "T0": (0.1, 1.5), "k": (0, None)}
    named = {name: own for name, own in bounds.items() if name in pulse.split() or name == "k"}
    model = fim_dynsys.load(
        "equations", expressions={"A": f"({pulse}) - k*A"}, initial={"A": first}, bounds=named
    )
    found = model.fit(x, t, feature_names=["A"]).parameters_
    assert found["T"] == pytest.approx(3.3, abs=0.02) and found["k"] == pytest.approx(0.35, abs=0.005)
    assert found.get("T0", 1.0) == pytest.approx(1.0, abs=0.01)
