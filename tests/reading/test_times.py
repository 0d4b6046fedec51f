"""Which column is the time, where names alone do not say it."""

import numpy as np
import pytest
from forms import written

from fim_dynsys import Trajectories
from fim_dynsys.errors import ReadingWarning

K = np.arange(60.0)
WARMING = 20 + 10 * np.log1p(K)


@pytest.mark.parametrize(
    "header",
    ["seconds,T", "hours,T (°C)", "min,T", "day,T", "Year,T", "s,T", "age,T", "Zeit,T", "T (s),T [K]"],
)
@pytest.mark.parametrize("temperature", [WARMING, 20 + 0.5 * K, 20 + np.sin(K)])
def test_a_temperature_is_not_the_time(header, temperature, tmp_path):
    data = Trajectories.from_file(written(tmp_path, header, K, temperature))
    (t, x), *more = data.arrays()
    assert not more and data.state_names[0].startswith("T")
    np.testing.assert_array_equal(t, K)
    np.testing.assert_allclose(x[:, 0], temperature, rtol=1e-5)


@pytest.mark.parametrize("header", ["x,t (°C)", "x,T [N m]", "x,T (K)"])
def test_a_column_in_another_unit_than_of_time_is_not_the_time(header, tmp_path):
    with pytest.warns(ReadingWarning, match="time: row numbers"):
        data = Trajectories.from_file(written(tmp_path, header, np.sin(K), WARMING))
    assert len(data.state_names) == 2


def test_t_alone_is_the_time_and_questioned_where_it_may_be_a_temperature(tmp_path):
    data = Trajectories.from_file(written(tmp_path, "T,S,x", 0.1 * K, np.log1p(K), np.sin(K)))
    np.testing.assert_allclose(data.arrays()[0][0], 0.1 * K)
    assert data.state_names == ("S", "x")
    with pytest.warns(ReadingWarning, match="'T', unless it is a temperature"):
        Trajectories.from_file(written(tmp_path, "T,x", WARMING, np.sin(K)))
    with pytest.raises(ValueError, match=r"times that increase in column 'T'.*step="):
        Trajectories.from_file(written(tmp_path, "T,x", 20 + np.sin(K), np.cos(K)))


def test_a_temperature_does_not_hide_where_trajectories_begin(tmp_path):
    label = ["a"] * 30 + ["b"] * 30
    data = Trajectories.from_file(
        written(tmp_path, "T,batch,hours,x", 20 + np.sin(K), label, K % 30, np.cos(K))
    )
    assert len(data) == 2 and data.state_names == ("T", "x")


def dated(folder, dates, **options):
    path = written(folder, "Date,x", [str(date) for date in dates], np.cos(np.arange(len(dates))))
    return Trajectories.from_file(path, **options).arrays()[0][0] / 86_400


def test_years_of_two_digits_stand_first_where_their_days_are_even(tmp_path):
    days = [f"21-02-{k:02d}" for k in range(1, 29)]
    hourly = [f"{day} {hour:02d}:00" for day in days for hour in range(24)]
    with pytest.warns(ReadingWarning, match="dates with the year first"):
        np.testing.assert_allclose(dated(tmp_path, hourly), np.arange(28 * 24) / 24)
    with pytest.warns(ReadingWarning, match="2 trajectories"):
        np.testing.assert_allclose(dated(tmp_path, 2 * days), np.arange(28))
    assert dated(tmp_path, days, dayfirst=True)[-1] == 9861


@pytest.mark.parametrize("mark", "-/.")
def test_years_of_two_digits_stand_last_where_their_days_are_even(mark, tmp_path):
    days = [f"{k:02d}{mark}02{mark}21" for k in range(1, 29)]
    np.testing.assert_allclose(dated(tmp_path, days), np.arange(28))
    uneven = [days[k] for k in (0, 2, 3, 9, 11, 20)]
    np.testing.assert_allclose(dated(tmp_path, uneven), [0, 2, 3, 9, 11, 20])
    months = [f"02{mark}{k:02d}{mark}21" for k in range(1, 29)]
    if mark != ".":
        np.testing.assert_allclose(dated(tmp_path, months), np.arange(28))


def test_days_that_go_on_in_the_next_year_say_where_the_year_stands(tmp_path):
    days = ["21-12-30", "21-12-31", "22-01-01", "22-01-02"]
    np.testing.assert_allclose(dated(tmp_path, days), np.arange(4))
    np.testing.assert_allclose(dated(tmp_path, ["99-12-30", "99-12-31", "00-01-01"]), np.arange(3))
    np.testing.assert_allclose(dated(tmp_path, [f"21-2-{k}" for k in range(1, 29)]), np.arange(28))


@pytest.mark.parametrize(
    ("day", "length"), [("01-01", 6939), ("31-12", 6940), ("30-06", 6940), ("21-02", 6939)]
)
def test_the_same_day_of_many_years_may_be_many_days(day, length, tmp_path):
    days = [f"{day}-{k:02d}" for k in range(1, 21)]
    with pytest.raises(
        ValueError, match="a day of each year or of one month; give dayfirst=True, or time_format="
    ):
        dated(tmp_path, days)
    assert dated(tmp_path, days, dayfirst=True)[-1] == length
    assert dated(tmp_path, days, time_format="%y-%m-%d")[-1] == 19


@pytest.mark.parametrize("day", ["30.06", "31.12", "15/05"])
def test_days_stand_first_before_dots_and_slashes(day, tmp_path):
    mark = day[2]
    assert dated(tmp_path, [f"{day}{mark}{k}" for k in range(10, 24)])[-1] == pytest.approx(
        13 * 365.25, abs=1
    )
    months = [f"15{mark}{k:02d}{mark}20" for k in range(1, 13)]  # of a leap year
    assert dated(tmp_path, months)[2] == 60


def test_a_sunset_each_day_is_no_time_of_the_samples(tmp_path):
    days = [f"2024-01-{1 + k:02d}" for k in range(28)]
    clock = [f"{16 + k // 20}:{(30 + 2 * k) % 60:02d}:00" for k in range(28)]
    with pytest.warns(ReadingWarning):
        data = Trajectories.from_file(written(tmp_path, "Date,Sunset,Temp", days, clock, WARMING[:28]))
    np.testing.assert_array_equal(data.arrays()[0][0], 86_400.0 * np.arange(28))
    together = Trajectories.from_file(written(tmp_path, "Date,Time,Temp", days, clock, WARMING[:28]))
    assert together.arrays()[0][0][1] != 86_400.0


@pytest.mark.parametrize("first", [133_600_000_000_000_000, 638_512_345_678_900_000])
def test_ticks_of_windows_are_no_nanoseconds_since_1970(first, tmp_path):
    ticks = [str(first + 1_000_000 * k) for k in range(40)]
    with pytest.warns(ReadingWarning, match="read as tenths of microseconds since"):
        data = Trajectories.from_file(written(tmp_path, "time,x", ticks, WARMING[:40]))
    np.testing.assert_allclose(data.arrays()[0][0], 0.1 * np.arange(40))


def test_nanoseconds_since_a_sensor_began_are_no_milliseconds_since_1970(tmp_path):
    ticks = [str(5_000_000_000_000 + 10_000_000 * k) for k in range(40)]
    data = Trajectories.from_file(written(tmp_path, "time_ns,x", ticks, WARMING[:40]))
    assert data.units["t"] == "ns" and data.arrays()[0][0][1] - data.arrays()[0][0][0] == 1e7


@pytest.mark.parametrize(
    "change", ["2024-03-31 02:00", "2024-03-31 01:00", "2024-03-10 02:00", "2024-10-06 02:00"]
)
@pytest.mark.parametrize("minutes", [10, 60])
def test_an_hour_skipped_when_summer_time_begins_is_said(change, minutes, tmp_path):
    dates = np.datetime64(change) + np.arange(-30, 30) * np.timedelta64(minutes, "m")
    local = dates + np.timedelta64(60, "m") * (np.arange(60) >= 30)
    with pytest.warns(ReadingWarning, match="an hour skipped in column 'Date' in row 31"):
        dated(tmp_path, local)


def test_other_gaps_are_no_summer_time(recwarn, tmp_path):
    rows = np.arange(60)
    for start, minutes, gap in (
        ("2024-03-31 00:00", 10, 120),  # two hours
        ("2024-03-31 03:00", 10, 60),  # by day
        ("2024-03-24 00:10", 10, 60),  # a week before
        ("2024-07-07 00:10", 10, 60),
    ):
        dates = np.datetime64(start) + (rows * minutes + gap * (rows >= 12)) * np.timedelta64(1, "m")
        dated(tmp_path, dates)
        dated(tmp_path, [f"{date}+00:00" for date in dates])
    dated(tmp_path, np.datetime64("2024-03-31") + rows * np.timedelta64(10, "m"))
    assert not recwarn
