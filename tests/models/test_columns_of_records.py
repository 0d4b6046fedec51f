"""Records with columns in another order, or of something else than the states, beside fitted models."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from fim_dynsys import SymbolicField, Trajectories, concatenate, load, simulate, to_c
from fim_dynsys.errors import DataWarning, IgnoredInputWarning, SimulationWarning
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


@pytest.fixture(scope="module")
def heated():
    pump, heater = np.sin(TIMES), np.cos(2.0 * TIMES)
    x = np.exp(-0.5 * TIMES) + 0.1 * np.sin(TIMES)
    return x, pd.DataFrame({"pump": pump, "heater": heater})


def test_inputs_keep_the_names_of_a_table(heated):
    x, u = heated
    fitted = load("equations", expressions=["-k*x0 + a*pump + b*heater"], n_starts=2).fit(x, TIMES, u=u)
    assert fitted.field_.input_names == ("pump", "heater")
    turned = u[["heater", "pump"]]
    right = fitted.score(x, TIMES, u=u.to_numpy())
    assert fitted.score(x, TIMES, u=turned) == fitted.score(x, TIMES, u=u) == right
    np.testing.assert_array_equal(
        fitted.simulate([1.0], TIMES, turned.to_numpy()[:, ::-1]), fitted.simulate([1.0], TIMES, turned)
    )


def test_tables_in_a_list_may_have_other_orders(epidemic):
    table = pd.DataFrame(epidemic, columns=["s", "i"])
    data = Trajectories.from_arrays([table, table[["i", "s"]]], TIMES)
    assert data.state_names == ("s", "i")
    np.testing.assert_array_equal(data.x[0], data.x[1])
    with pytest.raises(ValueError, match=r"columns s, i in states of all trajectories.* got q, s in traj"):
        Trajectories.from_arrays([table, table.rename(columns={"i": "q"})[["q", "s"]]], TIMES)
    named = Trajectories.from_arrays(table, TIMES, state_names=["a", "b"])
    assert named.state_names == ("a", "b")


def test_numbered_columns_are_no_numbers(epidemic):
    data = pd.DataFrame(epidemic)
    assert load("sindy-strong").fit(data, TIMES).feature_names == ["x0", "x1"]
    data["t"] = TIMES
    assert Trajectories.from_dataframe(data).state_names == ("x0", "x1")


def test_tables_of_states_and_of_records_are_told_apart(epidemic):
    fitted = load("sindy-strong").fit(records(epidemic, ["s", "i"]))
    starts = pd.DataFrame({"i": [10.0, 20.0], "s": [990.0, 980.0]})
    right = fitted.forecast(starts[["s", "i"]].to_numpy(), TIMES)
    assert fitted.forecast(starts, TIMES).equals(right)
    assert simulate(fitted, starts, TIMES).equals(right)
    start = pd.Series({"i": 10.0, "s": 990.0})
    assert fitted.trust_along(start, TIMES) == fitted.trust_along([990.0, 10.0], TIMES)
    record = records(epidemic, ["s", "i"])
    ahead = fitted.forecast(record.to_dataframe(), 5.0, progress=False)
    assert ahead.identical(fitted.forecast(record, 5.0, progress=False))
    with pytest.raises(ValueError, match="got a record of 1 trajectories"):
        simulate(fitted, record, TIMES)


def test_records_are_predicted_each(epidemic):
    fitted = load("sindy-strong").fit(records(epidemic, ["s", "i"]))
    found = fitted.predict(records(epidemic[:, ::-1], ["i", "s"]))
    assert len(found) == 1
    np.testing.assert_array_equal(found[0], fitted.predict(epidemic))
    with pytest.raises(ValueError, match="inputs u of 2 trajectories, as many as x has, got 1"):
        fitted.predict([epidemic, epidemic], [TIMES])
    with pytest.raises(ValueError, match="lhs as a list of 2 texts"):
        fitted.print(lhs=["s"])


def test_other_units_are_said(epidemic):
    def measured(**units):
        return Trajectories.from_arrays(epidemic, TIMES, ["s", "i"], units=units)

    fitted = load("sindy-strong").fit(measured(t="d", s="1"))
    with pytest.warns(DataWarning, match="score: expected t in d, got h; convert"):
        fitted.score(measured(t="h"))
    with pytest.warns(DataWarning, match="forecast: expected t in d, got h; convert"):
        fitted.forecast(measured(t="h"), 1.0, progress=False)
    fitted.score(measured(s="1"))  # no unit of time says nothing: no warning


def test_what_has_no_effect_is_said(heated):
    x, u = heated
    with pytest.warns(IgnoredInputWarning, match="no effect of hold"):
        fitted = load("sindy-strong").fit(x, TIMES, hold="previous")
    with pytest.warns(IgnoredInputWarning, match="score: no effect of inputs pump, heater"):
        fitted.score(Trajectories.from_arrays(x, TIMES, u=u))


def test_lists_of_records_are_fitted_together(epidemic):
    record = records(epidemic, ["s", "i"])
    together = load("sindy-strong").fit([record, record])
    assert len(together.context_) == 2 and together.feature_names == ["s", "i"]
    with pytest.raises(ValueError, match="times in the column time or as t, got both"):
        load("sindy-strong").fit(pd.DataFrame({"time": TIMES, "s": epidemic[:, 0]}), TIMES)


@pytest.mark.parametrize("suffix", ["csv", "nc"])
def test_hold_goes_with_the_record(heated, tmp_path, suffix):
    x, u = heated
    data = Trajectories.from_arrays(x, TIMES, u=u).with_hold("previous")
    data.to_file(tmp_path / f"data.{suffix}")
    found = Trajectories.from_file(tmp_path / f"data.{suffix}")
    assert found.hold is data.hold and found.equals(data)
    assert not found.equals(data.with_hold("linear"))
    assert Trajectories.from_dataframe(data.to_dataframe()).hold is data.hold
    with pytest.raises(ValueError, match="hold"):
        concatenate([data, data.with_hold("linear")])
