"""Records with columns in another order, or of something else than the states, beside fitted models."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from fim_dynsys import SymbolicField, Trajectories, load, simulate, to_c
from fim_dynsys.errors import SimulationWarning
from fim_dynsys.trajectories.ordering import in_order

SIR = {"s": "-b*s*i", "i": "b*s*i-g*i"}
TIMES = np.linspace(0.0, 20.0, 41)
DOSES = [(2.1, "x", 3.0), (5.3, "x", 2.0)]


@pytest.fixture(scope="module")
def epidemic():
    path = simulate(SymbolicField(SIR, {"b": 0.001, "g": 0.3}), [990.0, 10.0], TIMES).x[0]
    return path + 3.0 * np.random.default_rng(0).normal(size=path.shape)


def records(x, names):
    return Trajectories.from_arrays(x, TIMES[: len(x)], state_names=names)


@pytest.mark.parametrize(
    ("model", "options"), [("equations", {"expressions": SIR, "n_starts": 3}), ("sindy-strong", {})]
)
def test_columns_are_found_by_name(epidemic, model, options):
    fitted = load(model, **options).fit(records(epidemic, ["s", "i"]))
    right, turned = records(epidemic[:15], ["s", "i"]), records(epidemic[:15, ::-1], ["i", "s"])
    for metric in (None, "path"):
        assert fitted.score(turned, metric=metric) == fitted.score(right, metric=metric)
    ahead = [fitted.forecast(data, 5.0, progress=False)["median"] for data in (right, turned)]
    assert ahead[0].identical(ahead[1]) and list(ahead[1]["state"].values) == ["s", "i"]


def test_columns_without_the_names_of_states_go_by_position(epidemic):
    fitted = load("sindy-strong").fit(records(epidemic, ["s", "i"]))
    assert fitted.score(epidemic, TIMES) == fitted.score(records(epidemic, ["s", "i"]))
    with pytest.raises(ValueError, match="expected states s, i, got i, q; give these alone"):
        fitted.score(records(epidemic, ["i", "q"]))


def test_inputs_are_found_by_name():
    u = np.column_stack([np.arange(4.0), np.ones(4)])
    data = Trajectories.from_arrays(np.ones(4), 0.1, u=u, input_names=["pump", "heater"])
    turned = in_order("here", data, ["x0"], ["heater", "pump"])
    assert turned.input_names == ("heater", "pump")
    np.testing.assert_array_equal(turned.input_arrays()[0], u[:, ::-1])


def test_arrays_have_the_columns_that_were_observed(epidemic):
    fitted = load("equations", expressions=SIR, n_starts=5).fit(epidemic[:, ::-1], TIMES, observed=["i", "s"])
    given = fitted.score(epidemic[:, ::-1], TIMES, metric="path")
    assert given == fitted.score(records(epidemic, ["s", "i"]), metric="path") > 0.99


def test_observables_are_no_states(epidemic):
    fitted = load("equations", expressions={"x": "-k*x"}, n_starts=3).fit(
        2.0 * np.exp(-0.3 * TIMES) + 1.0, TIMES, observed=["c*x+1"], feature_names=["x"]
    )
    seen = Trajectories.from_arrays(2.0 * np.exp(-0.3 * TIMES) + 1.0, TIMES)
    with pytest.raises(ValueError, match="expected records of the states x, got those of c"):
        fitted.forecast(seen, 1.0)


def test_hidden_states_do_not_hide_the_noise_of_others(epidemic):
    fitted = load("equations", expressions=SIR, n_starts=5).fit(epidemic[:, 1], TIMES, observed=["i"])
    context = fitted.field_.context
    own, measured = (fitted.forecast(context, 3.0, observed=both, progress=False) for both in (False, True))
    width = [(d["high"] - d["low"]).sel(band=0.9).isel(trajectory=0, ahead=-1) for d in (own, measured)]
    assert width[1].sel(state="i") > 7.0 > width[0].sel(state="i")  # 2 * 1.64 * 3
    assert width[1].sel(state="s") == width[0].sel(state="s")


@pytest.fixture(scope="module")
def dosed():
    x = np.exp(-0.5 * TIMES)
    for time, _, amount in DOSES:
        x = x + np.where(time < TIMES, amount * np.exp(-0.5 * (TIMES - time)), 0.0)
    return load("equations", expressions={"x": "-k*x"}, doses=DOSES, n_starts=3).fit(
        x, TIMES, feature_names=["x"]
    )


def test_the_own_record_is_scored_with_its_doses(dosed):
    assert dosed.score(dosed.context_, metric="path") == dosed.field_.fit_info.path_r2 > 0.999


def test_doses_that_are_not_repeated_are_said(dosed):
    with pytest.warns(SimulationWarning, match="score: doses and events .* at 2.1, 5.3"):
        dosed.score(dosed.context_, metric="path", horizon=5.0)
    with pytest.warns(SimulationWarning, match="forecast: doses and events .* at 5.3"):
        dosed.forecast(dosed.context_, 3.0, origins=[4.0], progress=False)


def test_equations_that_hold_the_time_are_scored_without_inputs():
    field = SymbolicField(["-0.5*x+0.7*sin(1.3*c)", "1"], state_names=["x", "c"])
    x = simulate(field, [1.0, 0.0], TIMES).x[0, :, 0]
    fitted = load("equations", expressions={"x": "-k*x+a*sin(1.3*t)"}, n_starts=3)
    fitted.fit(x, TIMES, feature_names=["x"])
    assert "0.7*sin(1.3*t)" in to_c(fitted.field_).replace("p[0]", "0.7")
    for options in ({"metric": "path"}, {"metric": "path", "horizon": 3.0}, {}):
        assert fitted.score(x, TIMES, **options) > 0.99


@pytest.mark.parametrize(
    ("model", "options"), [("equations", {"expressions": SIR, "n_starts": 3}), ("sindy-strong", {})]
)
def test_labels_of_points_decide(epidemic, model, options):
    fitted = load(model, **options).fit(records(epidemic, ["s", "i"]))
    right = fitted.predict(epidemic)
    turned = pd.DataFrame(epidemic[:, ::-1], columns=["i", "s"])
    np.testing.assert_array_equal(fitted.predict(turned), right)
    labelled = xr.DataArray(epidemic[:, ::-1], dims=("time", "state"), coords={"state": ["i", "s"]})
    found = fitted.predict(labelled)
    np.testing.assert_array_equal(found.sel(state=["s", "i"]).values, right)
    start = pd.Series({"i": 10.0, "s": 990.0})
    path = fitted.simulate(start, TIMES)
    np.testing.assert_array_equal(path, fitted.simulate([990.0, 10.0], TIMES))
    np.testing.assert_array_equal(fitted.predict(pd.DataFrame(epidemic)), right)  # numbers are positions


def test_labels_of_errors_and_rates_decide(epidemic):
    data, slopes = records(epidemic, ["s", "i"]), np.gradient(epidemic, TIMES, axis=0)
    turned = pd.DataFrame(slopes[:, ::-1], columns=["i", "s"])
    fits = [load("sindy-strong").fit(data, x_dot=given) for given in (slopes, turned)]
    assert fits[0].equations() == fits[1].equations()
    errors = pd.Series({"i": 3.0, "s": 6.0})
    fits = [load("sindy-strong").fit(data, sigma=given) for given in (errors.to_dict(), errors)]
    assert fits[0].equations() == fits[1].equations()


def test_labels_of_inputs_decide():
    u = np.column_stack([np.sin(TIMES), np.cos(2.0 * TIMES)])
    x = np.exp(-0.5 * TIMES)
    data = Trajectories.from_arrays(x, TIMES, u=u, input_names=["pump", "heater"])
    fitted = load("equations", expressions=["-k*x0 + a*pump + b*heater"], n_starts=2).fit(data)
    turned = pd.DataFrame(u[:, ::-1], columns=["heater", "pump"])
    np.testing.assert_array_equal(fitted.predict(x[:, None], turned), fitted.predict(x[:, None], u))
