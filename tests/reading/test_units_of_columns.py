"""Units of times and states, in headers and given."""

import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from forms import written

from fim_dynsys import Trajectories
from fim_dynsys.errors import ReadingWarning

K = np.arange(48.0)
X = np.cos(K / 5)


def hourly(form: str) -> list[str]:
    return list(pd.date_range("2024-03-01", periods=len(K), freq="h").strftime(form))


@pytest.mark.parametrize(
    ("unit", "length"), [("h", 1), ("hours", 1), ("min", 1 / 60), ("d", 24), ("s", 1 / 3600)]
)
def test_times_of_dates_are_converted_to_the_unit_that_is_given(unit, length, tmp_path):
    for header, *columns in (
        ("Date,x", hourly("%Y-%m-%d %H:%M")),
        ("Date,Time,x", hourly("%Y-%m-%d"), hourly("%H:%M:%S")),
        ("year,month,day,hour,x", *(hourly(part) for part in ("%Y", "%m", "%d", "%H"))),
        ("Time (min),x", [f"{k:.0f}:00:00" for k in K]),
        ("Time (hh:mm),x", [f"{k:02.0f}:00" for k in K]),
        ("timestamp (ms),x", [f"{1_700_000_000_000 + 3_600_000 * k:.0f}" for k in K]),
        ("timestamp,x", [f"{1_700_000_000 + 3600 * k:.0f}" for k in K]),
    ):
        data = Trajectories.from_file(written(tmp_path, header, *columns, X), units={"t": unit})
        np.testing.assert_allclose(data.arrays()[0][0], K / length)
        assert data.units["t"] == unit


def test_units_of_time_that_cannot_be_converted_are_refused_or_said(tmp_path):
    path = written(tmp_path, "Date,x", hourly("%Y-%m-%d %H:%M"), X)
    with pytest.raises(ValueError, match=r"expected a unit of time as units= of t.*got 'generation'"):
        Trajectories.from_file(path, units={"t": "generation"})
    path = written(tmp_path, "Time (s),x", K, X)
    with pytest.warns(ReadingWarning, match="times in s called h, and not converted"):
        data = Trajectories.from_file(path, units={"t": "h"})
    np.testing.assert_allclose(data.arrays()[0][0], K)


@pytest.mark.parametrize(
    ("header", "states", "units"),
    [
        ("t,log10(OD),ln(N)", ("log10(OD)", "ln(N)"), {}),
        ("t,Temp (in),Temp (out)", ("Temp (in)", "Temp (out)"), {}),
        ("t,Conc [A],Conc [B]", ("Conc [A]", "Conc [B]"), {}),
        ("t,Temp (°C),Temp (raw)", ("Temp", "Temp (raw)"), {"Temp": "°C"}),
        ("t,x (m),y (in)", ("x", "y"), {"x": "m", "y": "in"}),
        ("t,Signal (V),log (V)", ("Signal", "log"), {"Signal": "V", "log": "V"}),
    ],
)
def test_functions_and_labels_in_brackets_are_no_units(header, states, units, tmp_path):
    data = Trajectories.from_file(written(tmp_path, header, K, X, np.sin(K)))
    assert data.state_names == states and data.units == units


def test_values_in_two_units_below_each_other_are_refused(tmp_path):
    units = ["mM"] * 24 + ["uM"] * 24
    path = written(tmp_path, "time,analyte,value,unit", K, ["glucose"] * 48, X, units)
    with pytest.raises(
        ValueError, match="expected values in one unit, got 'mM', 'uM' in column 'unit'; convert"
    ):
        Trajectories.from_file(path)
    both = [np.repeat(K, 2), ["a", "b"] * 48, np.repeat(X, 2)]
    with pytest.raises(ValueError, match="expected values in one unit"):
        Trajectories.from_file(
            written(tmp_path, "time,analyte,value,unit", *both, np.repeat(units, 2).tolist())
        )
    path = written(tmp_path, "time,analyte,value,unit", *both, ["mM", "g/l"] * 48)
    with pytest.warns(ReadingWarning, match="'analyte' spread over columns"):
        assert Trajectories.from_file(path).units == {"a": "mM", "b": "g/l"}
    machines = ["one"] * 24 + ["two"] * 24
    data = Trajectories.from_file(written(tmp_path, "time,unit,value", np.tile(K[:24], 2), machines, X))
    assert len(data) == 2


UNITS = "CFU/mL bpm NTU mmol/L mmHg hPa mm/hr Nm3/h Nl/min sL/min mgO2/L gCOD/L mgC/L kgDM/ha kWh/d"
UNITS += " kgf/cm2 events/s molecules/s umolm-2s-1"


@pytest.mark.parametrize("unit", ["kg/(m^2 s)", *UNITS.split()])
def test_units_stand_in_a_row_below_the_names(unit, tmp_path):
    path = written(tmp_path, f"t,Glucose,v\ns,{unit},m/s", K, X, np.sin(K))
    data = Trajectories.from_file(path)
    assert data.state_names == ("Glucose", "v")
    assert data.units == {"t": "s", "Glucose": unit, "v": "m/s"}


@pytest.mark.parametrize(
    ("row", "unit"),
    [
        ("h,gadgets,%", "gadgets"),
        ("[h],[gadgets],[%]", "gadgets"),
        ("(h),(gadgets),(%)", "gadgets"),
        ("h,widgets/ha,%", "widgets/ha"),
        ("h,widgets/d,foo/d", "widgets/d"),
    ],
)
def test_units_that_are_not_known_stand_below_a_unit_of_time_or_in_brackets(row, unit, tmp_path):
    path = written(tmp_path, f"Time,Stock,Share\n{row}", K, X, np.sin(K))
    with pytest.warns(ReadingWarning, match="units from the line below the names, known ones or not"):
        data = Trajectories.from_file(path)
    assert data.state_names == ("Stock", "Share")
    assert (data.units["t"], data.units["Stock"]) == ("h", unit)


@pytest.mark.parametrize(
    ("header", "states"),
    [
        ("min,events,m/s", ("events", "m")),
        ("h,Ah,V/A", ("Ah", "V")),
        ("year,load/NL,load/BE", ("load/NL", "load/BE")),
    ],
)
def test_words_that_may_be_units_are_names_where_no_other_line_has_any(header, states, tmp_path):
    assert Trajectories.from_file(written(tmp_path, header, K, X, np.sin(K))).state_names == states


def test_names_above_other_names_are_not_lost_in_silence(tmp_path):
    path = written(tmp_path, "Time,Left,Right\nsec,x/m,v/rad", K, X, np.sin(K))
    with pytest.warns(ReadingWarning, match=r"not from Time, Left, Right above it \(names=\)"):
        assert Trajectories.from_file(path).state_names == ("x", "v")


@pytest.mark.parametrize(
    ("upper", "lower", "states"),
    [
        ("Time,Tank,Tank", "h,pH,DO", ("pH", "DO")),
        ("Time,A,", "h,OD,RFU", ("OD", "RFU")),
        ("Zeit,Kanal 1,Kanal 2", "s,Druck,Temperatur", ("Druck", "Temperatur")),
        ("Time,Left,Right", "min,CO2 (ppm),O2 (%)", ("CO2", "O2")),
        ("Time,Left,Right", "sec,Temp_C,Temp_F", ("Temp_C", "Temp_F")),
        ("Time,Left,Right", "Seconds,CO2,O2", ("CO2", "O2")),
        ("Time,North,South\nh,lake,pond", "h,mg/L,g/L", ("lake", "pond")),
    ],
)
def test_names_below_groups_are_no_units(upper, lower, states, tmp_path):
    path = written(tmp_path, f"{upper}\n{lower}", K, X, np.sin(K))
    assert Trajectories.from_file(path).state_names == states


def test_second_levels_of_pandas_may_be_states_that_are_units(tmp_path):
    """Runs of voltages and powers."""
    columns = pd.MultiIndex.from_product([("run1", "run2"), ("V", "W")])
    values = np.stack([X, np.sin(K), X, np.sin(K)], 1)
    pd.DataFrame(values, index=pd.Index(K, name="t"), columns=columns).to_csv(tmp_path / "a.csv")
    with pytest.warns(ReadingWarning):
        data = Trajectories.from_file(tmp_path / "a.csv")
    assert len(data) == 2 and data.state_names == ("V", "W")


def test_descriptions_below_units_are_skipped(tmp_path):
    path = written(tmp_path, "Time,Temp,Flow\n(s),(degC),(L/min)\n,Reactor 1,Pump", K, X, np.sin(K))
    with pytest.warns(ReadingWarning, match="skipped a line below the units"):
        data = Trajectories.from_file(path)
    assert data.state_names == ("Temp", "Flow") and data.units == {"t": "s", "Temp": "degC", "Flow": "L/min"}


def test_two_levels_of_pandas_may_be_names_and_units(tmp_path):
    columns = pd.MultiIndex.from_tuples([("pos", "m"), ("vel", "m/s")])
    frame = pd.DataFrame(np.stack([X, np.sin(K)], 1), index=pd.Index(K, name="t"), columns=columns)
    frame.to_csv(tmp_path / "a.csv")
    data = Trajectories.from_file(tmp_path / "a.csv")
    assert data.state_names == ("pos", "vel") and data.units == {"pos": "m", "vel": "m/s"}


def test_units_stand_behind_a_slash(tmp_path):
    data = Trajectories.from_file(written(tmp_path, "t / s,v / (m/s),w / m s-1", K, X, np.sin(K)))
    assert data.state_names == ("v", "w") and data.units == {"t": "s", "v": "m/s", "w": "m s-1"}


@pytest.mark.parametrize(
    "label, unit", [("Time (min)", "min"), ("time [h]", "h"), ("t/s", "s"), ("Year", "year")]
)
def test_a_table_on_its_side_keeps_the_unit_of_its_times(label, unit, tmp_path):
    path = tmp_path / "a.csv"
    times, values = range(0, 450, 15), 20 + np.cos(np.arange(30) / 5)
    path.write_text(
        f"{label};{';'.join(map(str, times))}\nA (mM);{';'.join(f'{value:.4f}' for value in values)}\n"
    )
    with pytest.warns(ReadingWarning, match="turned"):
        data = Trajectories.from_file(path)
    assert data.units == {"t": unit, "A": "mM"} and data.arrays()[0][0][-1] == times[-1]


def test_a_given_unit_of_a_state_that_is_another_than_stated_is_said(tmp_path):
    k = np.arange(30)
    path = written(tmp_path, "t,x (mm),[A]/mM,<I>/mA", k, np.cos(k / 5), np.sin(k / 5), np.cos(k / 7))
    data = Trajectories.from_file(path, states=["x", "[A]", "<I>"], time="t", units={"[A]": "mM"})
    assert {data.units[name] for name in ("[A]", "<I>")} == {"mM", "mA"}
    with pytest.warns(ReadingWarning, match="'x' in mm called m, and not converted"):
        Trajectories.from_file(path, time="t", units={"x": "m"})


def test_dates_of_hdf5_have_the_unit_that_they_are_counted_in(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["time"], file["x"] = np.arange(30), np.cos(np.arange(30))
        file["time"].attrs["units"] = "minutes since 2024-05-14"
    assert Trajectories.from_file(tmp_path / "a.h5").units["t"] == "minutes"
    data = xr.Dataset({"x": ("time", np.cos(np.arange(30)))}, {"time": np.arange(30.0)})
    data["time"].attrs["units"] = "minutes since 2024-05-14"
    assert Trajectories.from_dataset(data).units["t"] == "minutes"
