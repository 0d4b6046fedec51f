"""Files that are read as they stand, beside others that are not."""

import numpy as np
import pytest
from forms import written

from fim_dynsys import Trajectories
from fim_dynsys.errors import ReadingWarning

K = np.arange(60)
X = 5 + np.cos(K / 6)
HOURS = [f"202405{1 + k // 24:02d}{k % 24:02d}" for k in K]


@pytest.mark.parametrize("values", [2.5 + 0.5 * np.cos(K / 6), 1 + 0.5 * np.cos(K / 6), 2 + 0.1 * np.cos(K)])
def test_a_minus_one_among_values_of_order_one_is_a_value(values, tmp_path):
    data = Trajectories.from_file(written(tmp_path, "t,x", K, np.where(K == 20, -1, values)))
    assert data.arrays()[0][1][20, 0] == -1


@pytest.mark.parametrize("name", ["DATE_HR", "Date Hour", "time_h", "date_h", "date week", "date_s"])
def test_dates_in_digits_below_names_that_end_in_a_unit(name, tmp_path):
    with pytest.warns(ReadingWarning, match="dates written as"):
        data = Trajectories.from_file(written(tmp_path, f"{name},x", HOURS, X))
    np.testing.assert_array_equal(data.arrays()[0][0], 3600 * K)
    assert data.units["t"] == "s"


def test_a_label_called_t_leaves_the_unit_of_the_times(tmp_path):
    data = Trajectories.from_file(written(tmp_path, "t,time_h,x", K // 30, K % 30, X), trajectory="t")
    assert data.units == {"t": "h"} and list(data.dataset["t_"].values) == [0, 1]


@pytest.mark.parametrize(
    "corner, rows", [("Month", ["Jan", "Feb", "Mar"]), ("day", ["Mon", "Tue"]), ("Year", ["Spring", "Fall"])]
)
def test_a_corner_above_parts_of_years_is_no_unit(corner, rows, tmp_path):
    path, years = tmp_path / "a.csv", range(1990, 2020)
    lines = [f"{corner}," + ",".join(map(str, years))]
    lines += [f"{row}," + ",".join(f"{5 + np.cos(k + y):.3f}" for y in years) for k, row in enumerate(rows)]
    path.write_text("\n".join(lines) + "\n")
    assert "t" not in Trajectories.from_file(path).units


@pytest.mark.parametrize("header", ["recorded by Smith, John", "Voltage, measured"])
def test_a_sentence_above_decimal_commas_names_no_columns(header, tmp_path):
    path = written(tmp_path, header, range(100, 140), range(200, 240))
    with pytest.raises(ValueError, match="one number or two"):
        Trajectories.from_file(path)


def test_a_first_zero_before_stamps_is_said(tmp_path):
    stamps = [str(1_714_550_400_000 + 500 * k) if k else "0" for k in K]
    with pytest.warns(ReadingWarning, match="begins with 0 before what may be ms since 1970"):
        Trajectories.from_file(written(tmp_path, "timestamp,x", stamps, X))


@pytest.mark.parametrize("width", [30, 40, 50])
def test_a_switch_or_a_staircase_below_a_rounded_clock_keeps_its_samples(width, tmp_path):
    rows = np.arange(200)
    for values in (rows // width, rows // width % 2):
        assert len(Trajectories.from_file(written(tmp_path, "t,x", rows // 10, values)).arrays()[0][0]) == 200


def test_names_of_eras_and_of_world_time_and_spellings_of_units_need_no_words(recwarn, tmp_path):
    stamps = [str(1_714_550_417 + 4_000 * k) for k in K]
    for name in ("epoch", "unix_time"):
        Trajectories.from_file(written(tmp_path, f"{name},x", stamps, X))
    dates = np.datetime64("2024-03-31T00:10") + (10 * K + 60 * (K >= 12)) * np.timedelta64(1, "m")
    Trajectories.from_file(written(tmp_path, "Time UTC,x", [*map(str, dates)], X))
    path = written(tmp_path, "t,x (µM),y (°C)", K, X, -X)
    Trajectories.from_file(path, time="t", units={"x": "uM", "y": "degC"})
    assert not recwarn
