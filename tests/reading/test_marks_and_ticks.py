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


@pytest.mark.parametrize("size", [1, 300])  # thousands, millions
def test_points_mark_thousands_beside_decimal_commas(size, tmp_path):
    marked = [f"{size * x:,}".replace(",", ".") for x in X]
    path = lines(tmp_path, "t;x;v", comma(K / 10), marked, comma(np.sin(K)))
    np.testing.assert_array_equal(Trajectories.from_file(path).arrays()[0][1][:, 0], size * X)


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
def test_a_rounded_clock_is_none_of_repeated_measurements(rate, tmp_path):
    t = np.arange(400) / 20 + 0.3
    x = np.sin(rate * t) + 0.02 * np.random.default_rng(0).standard_normal(400)
    with pytest.warns(ReadingWarning, match="a rounded clock"):
        data = Trajectories.from_file(written(tmp_path, "t,x", np.floor(t), x))
    np.testing.assert_allclose(np.diff(data.arrays()[0][0]), 0.05, rtol=0.3)


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
