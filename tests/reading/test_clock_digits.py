"""Dates and times of day whose digits stand in numbers, and parts of them in several columns."""

from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from forms import written

from fim_dynsys import Trajectories
from fim_dynsys.errors import ReadingWarning

START = datetime(2023, 12, 30, 22)
HOURS = [START + timedelta(hours=k) for k in range(80)]
DAYS = [START.replace(hour=0) + timedelta(days=k) for k in range(80)]
MONTHS = [date.to_pydatetime() for date in pd.date_range("2000-01-01", periods=80, freq="MS")]
SPRING = [datetime(2024, 5, 13) + timedelta(minutes=30 * k) for k in range(0, 160, 2)]
SECONDS = [datetime(2024, 1, 20, 11, 58) + timedelta(seconds=k) for k in range(80)]  # within one hour
FIFTHS = [datetime(2024, 1, 20, 11, 58) + timedelta(milliseconds=1700 * k) for k in range(80)]
PAUSES = [stamp for k, stamp in enumerate(FIFTHS) if k % 7 and k % 11]
SEVENTHS = [datetime(2024, 1, 20, 8) + timedelta(minutes=7 * k) for k in range(80)]
MIDNIGHTS = [datetime(2024, 1, 20, 8) + timedelta(minutes=37 * k) for k in range(80)]
SCHEDULE = np.r_[0:60:10, 100:3001:50]
TIMES_OF_DAY = (0, 6, 7, 8, 9, 10, 12, 18)
DIARY = [datetime(2024, 1, 20 + k // 8, TIMES_OF_DAY[k % 8]) for k in range(80)]
OTHER_DAYS = [datetime(2024, 1, 1 + 3 * (k // 8), TIMES_OF_DAY[k % 8]) for k in range(80)]

DIGITS = {
    "hours of dates": ("timestamp", HOURS, "%Y%m%d%H"),
    "minutes of dates": ("timestamp", SEVENTHS, "%Y%m%d%H%M"),
    "months": ("date", MONTHS, "%Y%m"),
    "months in time": ("time", MONTHS, "%Y%m"),
    "months in Month": ("Month", MONTHS, "%Y%m"),
    "months behind a point": ("time", MONTHS, "%Y.%m"),
    "short dates": ("date", DAYS, "%y%m%d"),
    "days of years": ("date", DAYS, "%Y%j"),
    "days in Day": ("Day", DAYS, "%Y%m%d"),
    "hours and minutes": ("time", SEVENTHS, "%H%M"),
    "hours, minutes and seconds": ("time", SEVENTHS, "%H%M%S"),
    "seconds within an hour": ("UTC time", SECONDS, "%H%M%S"),
    "fractions of seconds": ("utc", FIFTHS, "%H%M%S.%f"),
    "fractions of seconds with pauses": ("time", PAUSES, "%H%M%S.%f"),
    "date and time with fractions": ("date,time", FIFTHS, "%Y%m%d,%H%M%S.%f"),
    "hours and minutes past midnight": ("time", MIDNIGHTS, "%H%M"),
    "date and time": ("date,time", DIARY, "%Y%m%d,%H%M"),
    "date and time with seconds": ("date,time", DIARY, "%Y%m%d,%H%M%S"),
    "date and written time": ("date,time", DIARY, "%Y%m%d,%H:%M:%S"),
    "written date and time": ("Date,Time", DIARY, "%Y-%m-%d,%H%M"),
    "date and hour": ("date,hour", DIARY, "%Y%m%d,%H"),
    "date, hour and minute": ("date,hour,minute", DIARY, "%Y%m%d,%H,%M"),
    "written date and digits of the hour": ("Date,Hour", DIARY, "%Y-%m-%d,%H%M"),
    "short date and time": ("date,time", DIARY, "%y%m%d,%H%M"),
}
PARTS = {
    "day and hour": ("day,hour", DIARY, "%d,%H"),
    "day, hour and minute": ("day,hour,minute", OTHER_DAYS, "%j,%H,%M"),
    "h, m and s": ("h,m,s", SEVENTHS, "%H,%M,%S"),
    "hour, minute past midnight": ("hour,minute", MIDNIGHTS, "%H,%M"),
    "month, day and hour": ("month,day,hour", DIARY, "%m,%d,%H"),
    "day and time": ("day,time", OTHER_DAYS, "%j,%H:%M:%S"),
    "day and digits of time": ("day,time", OTHER_DAYS, "%j,%H%M"),
    "date in parts and time": ("year,month,day,time", HOURS, "%Y,%m,%d,%H:%M:%S"),
    "day of the year and digits of time": ("Year,DOY,HHMM", HOURS, "%Y,%j,%H%M"),
    "day of any year and digits of time": ("DOY,Hour_Min", SPRING, "%j,%H%M"),
    "day of the year and time": ("Year,DOY,Time", HOURS, "%Y,%j,%H:%M"),
    "day of any year and time": ("DOY,Time", SPRING, "%j,%H:%M"),
    "day of the year called day": ("YEAR,DAY,HOUR", SPRING, "%Y,%j,%H"),
    "day of any year and hour": ("Julian Day,Hour", SPRING, "%j,%H"),
    "week and day": ("week,day", DAYS[2:], "%W,%u"),
}


def since_the_first(stamps) -> list[float]:
    return [(stamp - stamps[0]).total_seconds() for stamp in stamps]


def table(folder, header, stamps, form):
    return written(
        folder, header + ",x", [stamp.strftime(form) for stamp in stamps], np.cos(np.arange(len(stamps)))
    )


@pytest.mark.parametrize("name", DIGITS)
def test_digits_are_read_as_dates_and_times_and_said(name, tmp_path):
    header, stamps, form = DIGITS[name]
    with pytest.warns(ReadingWarning, match="in one number|digits of"):
        data = Trajectories.from_file(table(tmp_path, header, stamps, form))
    t = data.arrays()[0][0]
    np.testing.assert_allclose(t - t[0], since_the_first(stamps), atol=1e-3)
    assert data.state_names == ("x",) and data.units["t"] == "s" and len(data) == 1


@pytest.mark.filterwarnings("ignore::fim_dynsys.errors.ReadingWarning")
@pytest.mark.parametrize("name", PARTS)
def test_parts_of_dates_are_put_together(name, tmp_path):
    header, stamps, form = PARTS[name]
    data = Trajectories.from_file(table(tmp_path, header, stamps, form))
    t = data.arrays()[0][0]
    np.testing.assert_allclose(t - t[0], since_the_first(stamps))
    assert data.state_names == ("x",) and data.units["t"] == "s" and len(data) == 1


DAYS_ON = 1 + 3 * np.arange(240)
YEARS_ON = 2021 + DAYS_ON // 365
DAY = np.arange(60)
BLOOM = 95 + DAY % 7
ORDINARY = {  # header, columns, first and last times and states
    "days that run on": ("year,day,x", (YEARS_ON, DAYS_ON), (1, 718), ("x",)),
    "days from zero": ("year,day,x", (0 * DAYS_ON + 2021, DAYS_ON / 2), (0.5, 359), ("x",)),
    "more days than a common year has": ("year,day,x", (2021 + 0 * DAY, 307 + DAY), (307, 366), ("x",)),
    "a half year that runs on": ("year,day,x", (2021 + (DAYS_ON > 400), DAYS_ON / 2), (0.5, 359), ("x",)),
    "the day of an event": ("year,day,x", (1950 + DAY, BLOOM), (1950, 2009), ("day", "x")),
    "events alone": ("year,day", (1950 + DAY, BLOOM), (1950, 2009), ("day",)),
    "lowest heart rates": ("day,hr_min,hr_max", (1 + DAY, 110 + BLOOM % 9), (1, 60), None),
    "heart rates alone": ("day,hr_min,x", (1 + DAY, 110 + BLOOM % 9), (1, 60), None),
    "an hour twice": (
        "day,hour,minute,decimal_hour,x",
        (1 + DAY // 24, DAY % 24, 7 * DAY % 60, 0.5 + DAY % 24),
        None,
        ("decimal_hour", "x"),
    ),
}


@pytest.mark.filterwarnings("ignore::fim_dynsys.errors.ReadingWarning")
@pytest.mark.parametrize("name", ORDINARY)
def test_columns_that_are_no_parts_of_dates(name, tmp_path):
    header, columns, ends, states = ORDINARY[name]
    values = [*columns, np.cos(0.3 * np.arange(len(columns[0])))][: header.count(",") + 1]
    data = Trajectories.from_file(written(tmp_path, header, *values))
    assert data.state_names == (states or tuple(header.split(",")[1:])) and len(data) == 1
    assert ends is None or tuple(data.t[0][[0, -1]]) == ends


@pytest.mark.filterwarnings("ignore::fim_dynsys.errors.ReadingWarning")
@pytest.mark.parametrize(
    ("header", "form", "late"),
    [
        ("time", "%d.%m.%Y %H:%M", " 24:00"),
        ("date,time", "%Y-%m-%d,%H:%M", ",24:00"),
        ("date,HHMM", "%Y-%m-%d,%H%M", ",2400"),
        ("Year,DOY,HHMM", "%Y,%j,%H%M", ",2400"),
        ("DOY,Time", "%j,%H:%M:%S", ",24:00:00"),
    ],
)
def test_24_hours_are_the_end_of_a_day(header, form, late, tmp_path):
    stamps, rest = SPRING[1:], form.replace(",", " ").split()[-1]
    ends = [(stamp - timedelta(days=1)).strftime(form.removesuffix(rest)[:-1]) + late for stamp in stamps]
    cells = [end if s.hour == 0 else s.strftime(form) for s, end in zip(stamps, ends, strict=True)]
    t = Trajectories.from_file(written(tmp_path, header + ",x", cells, np.cos(np.arange(79)))).t[0]
    np.testing.assert_allclose(t - t[0], since_the_first(stamps))


def test_parts_of_dates_go_on_within_groups(tmp_path):
    label = ["a"] * 80 + ["b"] * 80
    cells = [[stamp.strftime(form) for stamp in 2 * DIARY] for form in ("%d", "%H")]
    data = Trajectories.from_file(
        written(tmp_path, "batch,day,hour,x", label, *cells, np.cos(np.arange(160)))
    )
    assert len(data) == 2
    for t, _ in data.arrays():
        np.testing.assert_allclose(t - t[0], since_the_first(DIARY))


@pytest.mark.parametrize(
    ("header", "times"),
    [
        ("time", np.arange(80)),
        ("time", 10 * np.arange(80)),
        ("time", 100 * np.arange(80)),
        ("t", np.array([0, 5, 10, 15, 20, 30, 45, 120, 240, 420, 630])),
        ("time (s)", np.array([630, 700, 730, 800, 830, 900, 930])),
        ("time", 200_000 + 5 * np.arange(80)),
        ("time", 200_000 + np.cumsum(1 + np.arange(80) % 7)),
        ("time", 3000 + 0.5 * np.arange(80) ** 2),
        ("time", SCHEDULE),
        ("t", np.r_[SCHEDULE[:6], 100 + 50 * np.arange(110)]),
        ("time", np.delete(50 * np.arange(70), 21)),
        ("time", (100 * np.arange(30)[:, None] + 10 * np.arange(6)).ravel()),
        ("time", 50 * np.arange(70) + np.arange(70) % 3 + 0.25),
        ("time_s", 20_000 + SCHEDULE),
        ("time_ms", 20_000 + SCHEDULE),
        ("t_min", 20_000 + SCHEDULE),
        ("date", 1 + np.arange(80)),
        ("Year", 1900 + np.arange(80) / 12),
        ("time", 1_700_000_000 + 60 * np.arange(80)),
    ],
)
def test_plain_numbers_are_no_digits_of_a_clock(header, times, tmp_path):
    data = Trajectories.from_file(
        written(tmp_path, header + ",x", [str(t) for t in times], np.cos(np.arange(len(times))))
    )
    t = data.arrays()[0][0]
    np.testing.assert_allclose(t - t[0], times - times[0])


def test_digits_that_can_be_read_in_two_ways_ask_for_their_form(tmp_path):
    path = written(tmp_path, "date,x", [f"2012{k:02d}" for k in range(1, 13)], np.arange(12) % 5)
    with pytest.raises(ValueError, match=r"%Y%m or %y%m%d; give time_format="):
        Trajectories.from_file(path)
    days = Trajectories.from_file(path, time_format="%y%m%d").arrays()[0][0]
    months = Trajectories.from_file(path, time_format="%Y%m").arrays()[0][0]
    np.testing.assert_allclose([days[-1], months[-1]], [11 * 86_400, 335 * 86_400])
    path = written(tmp_path, "time,x", ["905", "911", "930", "1002", "1110"], np.arange(5) % 3)
    with pytest.warns(ReadingWarning, match=r"plain numbers, no hours and minutes \(time_format=\"%H%M\"\)"):
        assert Trajectories.from_file(path).arrays()[0][0][-1] == 1110
    assert Trajectories.from_file(path, time_format="%H%M").arrays()[0][0][-1] == 40_200


@pytest.mark.parametrize(
    ("header", "form", "stamps"),
    [
        ("Time (mm:ss)", "%M:%S", [datetime(2024, 1, 1) + timedelta(seconds=k) for k in range(80)]),
        ("Time (hh:mm)", "%H:%M", [datetime(2024, 1, 1) + timedelta(minutes=k) for k in range(80)]),
        ("Time [HH:MM]", "%H:%M", MIDNIGHTS),
        ("time (HHMM)", "%H%M", MIDNIGHTS),
        ("Time (min)", "%H:%M:%S", SEVENTHS),
        ("date (YYYYMM)", "%Y%m", MONTHS[:12]),
        ("date (yymmdd)", "%y%m%d", DAYS[2:14]),
        ("Date (dd/mm/yyyy)", "%d/%m/%Y", DAYS[2:14]),
        ("Date (mm/dd/yyyy)", "%m/%d/%Y", DAYS[2:14]),
        ("Date (dd/mm/yyyy),Time (hh:mm)", "%d/%m/%Y,%H:%M", HOURS[2:26]),
    ],
)
@pytest.mark.filterwarnings("ignore::fim_dynsys.errors.ReadingWarning")
def test_a_header_says_how_times_are_written(header, form, stamps, tmp_path):
    data = Trajectories.from_file(table(tmp_path, header, stamps, form))
    t = data.arrays()[0][0]
    np.testing.assert_allclose(t - t[0], since_the_first(stamps))
    assert data.units == {"t": "s"} and "units:" not in data.dataset.attrs["read"].replace(header, "")


@pytest.mark.parametrize("unit", ["mm/h", "mm", "mm/d", "m/s", "h"])
def test_units_of_rain_are_no_clocks(unit, tmp_path):
    data = Trajectories.from_file(written(tmp_path, f"t,x ({unit})", np.arange(30.0), np.cos(np.arange(30))))
    assert data.units == {"x": unit}


@pytest.mark.filterwarnings("ignore::fim_dynsys.errors.ReadingWarning")
@pytest.mark.parametrize("header", ["Year", "time", "date"])
def test_years_of_several_countries_are_no_hours(header, tmp_path):
    years, country = np.repeat(np.arange(2000, 2021), 2), ["a", "b"] * 21
    path = written(tmp_path, f"{header},country,x", years, country, np.cos(np.arange(42)))
    for t, _ in Trajectories.from_file(path, trajectory="country").arrays():
        np.testing.assert_array_equal(t, np.arange(2000, 2021))


def test_a_day_that_is_not_in_its_month_is_refused(tmp_path):
    days = np.arange(1, 31)
    path = written(tmp_path, "year,month,day,x", 2023 + 0 * days, 2 + 0 * days, days, np.cos(days))
    with pytest.raises(
        ValueError, match="dates in columns 'year', 'month', 'day', got 2023, 2, 29 in row 29"
    ):
        Trajectories.from_file(path)


def test_times_that_something_took_stay_states_beside_dates(tmp_path):
    took = (105, 112, 130, 145, 201, 118) * 5
    days = [f"2024-01-{k:02d}" for k in range(1, 31)]
    data = Trajectories.from_file(written(tmp_path, "Date,travel time", days, [str(k) for k in took]))
    assert data.state_names == ("travel time",)


@pytest.mark.parametrize(
    "header, first, step, unit",
    [
        ("Time (ns)", 0, 10**7, "ns"),
        ("time_us", 2 * 10**8, 10**7, "us"),
        ("Timestamp [ms]", 10**8, 10**5, "ms"),
        ("t [ps]", 10**9, 500, "ps"),
        ("Time (yr)", 10**8, 10**7, "yr"),
        ("t [us]", 101_000_000, 500, "us"),
        ("Time (min)", 10**8, 4 * 10**6, "min"),
        ("Time (ms)", 700_000, 0.5, "ms"),  # as day numbers of MATLAB are
        ("time_s", 700_000.25, 1, "s"),
        ("data time (s)", 20_000.25, 5, "s"),  # as those of Excel
        ("time_ms", 200_010, 100, "ms"),  # as years and months
        ("time_us", 20_000_110, 10_000, "us"),  # as dates
        ("time_ns", 130_000_000_000_000_000, 10**6, "ns"),  # as ticks of Windows
    ],
)
def test_times_stay_in_the_unit_that_is_stated(header, first, step, unit, recwarn, tmp_path):
    t = first + step * np.arange(60)
    data = Trajectories.from_file(written(tmp_path, header + ",x", [*map(str, t)], np.cos(np.arange(60))))
    np.testing.assert_array_equal(data.arrays()[0][0], t)
    assert data.units["t"] == unit and not recwarn


def test_a_unit_that_is_given_is_none_to_convert_into(tmp_path):
    for first in (0, 134_567_890):
        t = first + 4_000 * np.arange(60) * (1 if first else 2_500)
        path = written(tmp_path, "t,x", [*map(str, t)], np.cos(np.arange(60)))
        data = Trajectories.from_file(path, units={"t": "us"})
        np.testing.assert_array_equal(data.arrays()[0][0], t)
        assert data.units["t"] == "us"


def test_ticks_since_a_start_are_no_seconds_since_1970(tmp_path):
    ticks = 134_567_890 + 4_000 * np.arange(60)
    with pytest.warns(ReadingWarning, match="'timestamp' as plain numbers, no time stamps in s since 1970"):
        data = Trajectories.from_file(
            written(tmp_path, "timestamp,x", [*map(str, ticks)], np.cos(np.arange(60)))
        )
    assert "t" not in data.units
    with pytest.warns(ReadingWarning, match="since 1970, unless it counts otherwise"):
        Trajectories.from_file(
            written(tmp_path, "timestamp,x", [*map(str, ticks + 10**9)], np.cos(np.arange(60)))
        )


def test_stamps_in_another_unit_than_stated_are_said(tmp_path):
    stamps = 1_714_550_400_000 + 500 * np.arange(60)
    with pytest.warns(ReadingWarning, match="in s, as stated, though its numbers may be ms since 1970"):
        Trajectories.from_file(written(tmp_path, "Time (s),x", [*map(str, stamps)], np.cos(np.arange(60))))


@pytest.mark.parametrize("form", ["%Y%m%d", "%Y%m%d%H", "%Y%m%d%H%M"])
def test_digits_of_dates_in_a_column_that_is_given(form, tmp_path):
    stamps = {"%Y%m%d": DAYS, "%Y%m%d%H": HOURS, "%Y%m%d%H%M": SEVENTHS}[form]
    numbers = [stamp.strftime(form) for stamp in stamps]
    path = written(tmp_path, "MESS_DATUM,TT", numbers, 20 + np.cos(np.arange(80)))
    with pytest.warns(ReadingWarning, match="dates written as"):
        data = Trajectories.from_file(path, time="MESS_DATUM")
    expected = [(stamp - stamps[0]).total_seconds() for stamp in stamps]
    np.testing.assert_array_equal(data.arrays()[0][0], expected)
    data = Trajectories.from_file(path, time_format=form, time="MESS_DATUM")  # beside TT, no whole numbers
    np.testing.assert_array_equal(data.arrays()[0][0], expected)


@pytest.mark.parametrize("header", ["YYYYMMDD,TT", "obs_date,x", "created_at,x", "ds,x", "x,valid"])
def test_the_only_dates_in_digits_are_the_times_by_any_name(header, tmp_path):
    columns = [[stamp.strftime("%Y%m%d%H") for stamp in HOURS], 20 + np.cos(np.arange(80))]
    columns = columns if header != "x,valid" else columns[::-1]
    with pytest.warns(ReadingWarning, match="dates written as"):
        data = Trajectories.from_file(written(tmp_path, header, *columns))
    np.testing.assert_array_equal(data.arrays()[0][0], 3600 * np.arange(80))
    assert data.state_names == (header.replace(",valid", "").split(",")[-1],)
