"""Units of times and states, in headers and given."""

import numpy as np
import pandas as pd
import pytest
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
