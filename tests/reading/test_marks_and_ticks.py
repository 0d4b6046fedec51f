"""Marks of thousands beside decimal commas, samples of equal times, durations of spreadsheets."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from forms import written

from fim_dynsys import Trajectories
from fim_dynsys.errors import ReadingWarning
from fim_dynsys.trajectories.reading.sheets import _with_durations

K = np.arange(60)
X = np.round(5000 + 1500 * np.cos(K / 5)).astype(int)


def lines(tmp_path, header, *columns):
    path = tmp_path / "a.csv"
    rows = (";".join(map(str, row)) for row in zip(*columns, strict=True))
    path.write_text(f"{header}\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def comma(values):
    return [f"{value:.2f}".replace(".", ",") for value in values]


def test_points_between_thousands_beside_decimal_commas_are_asked_about(tmp_path):
    """They may be decimals of a column that another program wrote, as 1.200 kg."""
    marked = [f"{x:,}".replace(",", ".") for x in X]
    path = lines(tmp_path, "t;x;v", comma(K / 10), marked, comma(np.sin(K)))
    with pytest.raises(
        ValueError, match=rf"one way only, got cells like '{marked[0]}' beside decimal commas"
    ):
        Trajectories.from_file(path)
    for options, unit in (({"thousands": "."}, 1), ({}, 1000)):
        data = Trajectories.from_file(path, decimal=",", **options)
        np.testing.assert_allclose(data.arrays()[0][1][:, 0], X / unit)


def test_points_mark_millions_and_part_dates_at_once(tmp_path):
    dates = [f"{1 + k % 28:02d}.{1 + k // 28:02d}.2024" for k in range(28)]
    marked = [f"{300 * x:,}".replace(",", ".") for x in X[:28]]
    data = Trajectories.from_file(lines(tmp_path, "Datum;x;v", dates, marked, comma(np.sin(K[:28]))))
    np.testing.assert_array_equal(data.arrays()[0][1][:, 0], 300 * X[:28])
    np.testing.assert_array_equal(data.arrays()[0][0], 86400.0 * np.arange(28))


def test_decimal_points_beside_decimal_commas_stay(tmp_path):
    path = lines(tmp_path, "t;x", comma(K / 10), [f"0.{x}" for x in X])
    np.testing.assert_allclose(Trajectories.from_file(path).arrays()[0][1][:, 0], X / 1e4)


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.03])
@pytest.mark.parametrize("trials", [2, 3, 8])
def test_repeated_measurements_are_no_rounded_clock(noise, trials, tmp_path):
    rng, t = np.random.default_rng(0), np.repeat(np.arange(20.0), trials)
    x = 1.0 / (1.0 + 50.0 * np.exp(-0.6 * t)) + noise * rng.standard_normal(len(t))
    with pytest.raises(ValueError, match=r"each time once in a trajectory.*repeated="):
        Trajectories.from_file(written(tmp_path, "t,x", t, x + 1e-6 * rng.random(len(t))))


@pytest.mark.parametrize("rate", [0.5, 2.5, 9.0])  # radians a tick
@pytest.mark.parametrize("beside", ["nothing", "noise", "a switch", "a pause"])
def test_a_rounded_clock_is_none_of_repeated_measurements(rate, beside, tmp_path):
    rng, t = np.random.default_rng(0), np.arange(400) / 20 + 0.3
    t[200:] += 40.0 if beside == "a pause" else 0.0
    others = {"noise": [rng.standard_normal(400)], "a switch": [(np.floor(t) % 3 == 0).astype(float)]}
    x = np.sin(rate * t) + 0.02 * rng.standard_normal(400)
    columns = [x, *others.get(beside, [])]
    with pytest.warns(ReadingWarning, match="a rounded clock"):
        data = Trajectories.from_file(
            written(tmp_path, "t,x,y"[: 1 + 2 * len(columns)], np.floor(t), *columns)
        )
    steps = np.diff(data.arrays()[0][0])
    np.testing.assert_allclose(np.delete(steps, 199), 0.05, rtol=0.5)
    assert steps[199] == pytest.approx(40.05 if beside == "a pause" else 0.05, abs=0.5)


def test_durations_of_spreadsheets_may_be_longer_than_a_day():
    """As openpyxl reads cells of [h]:mm:ss and of h:mm:ss."""
    quarters = [dt.timedelta(minutes=15 * k) for k in range(130)]
    dates = [dt.datetime(1899, 12, 31) + own for own in quarters]
    of_day = [date.time() if date.day == 31 else date for date in dates]
    for cells in (quarters, of_day):
        column = _with_durations(
            pd.Series(["Time", *cells, dt.timedelta(hours=40, microseconds=5)], dtype=object)
        )
        assert column.tolist()[:3] == ["Time", "0:00:00", "0:15:00"]
        assert column.tolist()[-2:] == ["32:15:00", "40:00:00.000005"]
    assert _with_durations(pd.Series([dt.timedelta(seconds=-61)])).tolist() == ["-0:01:01"]


@pytest.mark.parametrize("header", ["year,population", "time,counts", "micros,adc0", "t (ms),pressure (hPa)"])
def test_two_names_above_whole_numbers_are_two_columns(header, tmp_path):
    rows = np.arange(40)
    first, second = 100 + 10 * rows, (512 + 300 * np.cos(rows / 5)).astype(int)
    data = Trajectories.from_file(written(tmp_path, header, first, second))
    np.testing.assert_array_equal(data.arrays()[0][0], first)
    np.testing.assert_array_equal(data.arrays()[0][1][:, 0], second)


@pytest.mark.parametrize("header", ["Pressure", '"Force, N"', "Force, N"])
def test_one_name_above_whole_numbers_leaves_two_readings(header, tmp_path):
    path = written(tmp_path, header, range(100, 140), range(200, 240))
    with pytest.raises(ValueError, match="one number or two"):
        Trajectories.from_file(path)
