"""Numbers that are times: digits of dates and clocks, day numbers, seconds since 1970."""

import re

import numpy as np
import pandas as pd

from fim_dynsys.trajectories.reading.clocks import IN_SECONDS, clock_of, unit_of_name
from fim_dynsys.trajectories.reading.options import Notes, quoted, refusal
from fim_dynsys.trajectories.reading.summer_time import check_skipped_hour
from fim_dynsys.wording import counted

_DAY = IN_SECONDS["d"]
_DATED = re.compile("dat(?!a[ _]time)|fecha|stamp|da?y|doy|tag|jour|yy|дата|日", re.IGNORECASE)
_ERAS = re.compile("epoch|unix", re.IGNORECASE)  # columns that say since when they count
_FORMS = (  # the first and the last date, the form, and whether only a column called date is read so
    (1900_01, 2100_12, "%Y%m", False),
    (1_01_01, 99_12_31, "%y%m%d", True),
    (1900_001, 2100_366, "%Y%j", True),
    (1900_01_01, 2100_12_31, "%Y%m%d", False),
    (1900_01_01_00, 2100_12_31_23, "%Y%m%d%H", False),
    (1900_01_01_00_00, 2100_12_31_23_59, "%Y%m%d%H%M", False),
    (1900_01_01_00_00_00, 2100_12_31_23_59_59, "%Y%m%d%H%M%S", False),
)
_DIGITS = {"%Y": 4, "%y": 2, "%m": 2, "%d": 2, "%H": 2, "%M": 2, "%S": 2, "%j": 3}
_CALLED_TIME = re.compile("time|uhrzeit|hora|heure|clock", re.IGNORECASE)
_YEARS = (1900, 2100)  # which dates may hold, as in `_FORMS`
_MIDNIGHT = 2400  # the largest number of hours and minutes; larger ones hold seconds too
_FEW = 6  # numbers, fewer of which are even by chance as hours and minutes
_MINUTES = 2  # that begin: clocks which pause show so many jumps from 59 to 100, at least
_ELAPSED = 10_000  # smaller numbers may be elapsed times, where they have fractions or stay within an hour
_HOUR = 100  # from one o'clock on, as no record counts its time from its start
_MATLAB = (693_962.0, 767_011.0)  # days since the year 0: 1900 to 2100
_EXCEL = (18_264.0, 73_051.0)  # days since 1900: 1950 to 2100
_EXCEL_NAMES = re.compile("dat(?!a[ _]time)", re.IGNORECASE)  # columns that hold such days
_LAST = 4.2e9  # seconds from 1970 to 2103
_RECENT = 946_684_800.0  # seconds from 1970 to 2000: since then, most records with such stamps were made
_SPARSE = 1000.0  # seconds between samples: as far apart they are on the minute, or ticks of a counter
_MINUTE = 60.0  # seconds
_NO_RECORD = 3.2e10  # seconds, a thousand years: no time of a record, and stamps in a finer unit
# Numbers of this size are seconds, milliseconds, ... since 1970: from the year 1973 on.
_UNIX = (
    *((1e8, _LAST, 1.0, "s"), (1e11, 1e3 * _LAST, 1e-3, "ms")),
    *((1e14, 1e6 * _LAST, 1e-6, "us"), (1e17, 1e9 * _LAST, 1e-9, "ns")),
)
# Tenths of microseconds since 1601 and since the year 1, from 1980 to 2100; as nanoseconds since 1970 these
# would be times in 1974 and 1990.
_WINDOWS = ((1.19e17, 1.58e17, "1601 (Windows)"), (6.24e17, 6.63e17, "the year 1 (.NET)"))


def are_digits(time_format: str) -> bool:
    """Whether a format of `strptime` has no marks between its parts, as ``%Y%m%d``."""
    return re.fullmatch("(%[YymdHMSj])+", time_format) is not None


def as_text(values: pd.Series, time_format: str) -> pd.Series:
    """Whole numbers with the zeros in front that a format of `strptime` without marks asks for.

    Raises
    ------
    ValueError
        Where others are among them.
    """
    if not np.all(values.dropna() % 1 == 0):
        raise refusal(
            f"whole numbers, whose digits are {time_format}", f"{values.dropna().iloc[0]:g} among them"
        )
    width = sum(_DIGITS.get(part, 0) for part in re.findall("%.", time_format))
    return values.astype("Int64").astype("string").str.zfill(width)


def stamps_of(label: str, values: np.ndarray) -> pd.Series | None:
    """Dates whose digits numbers are, as 20240501 or 2024.05 or 202405011230; None for other numbers.

    Raises
    ------
    ValueError
        Where the digits can be read in two ways.
    """
    if not len(values) or not np.isfinite(values).all():
        return None
    months = _with_months_behind_the_point(label, values)
    if months is not None:
        return months
    if not np.all(values == np.floor(values)):
        return None
    read = {}
    for low, high, form, only_dates in _FORMS:
        if low <= values.min() and values.max() <= high and (not only_dates or _DATED.search(label)):
            stamps = pd.to_datetime(as_text(pd.Series(values), form), format=form, errors="coerce")
            if stamps.notna().all():
                read[form] = stamps
    even = {form: stamps for form, stamps in read.items() if _is_even(stamps)}
    read = even if len(even) == 1 else read
    if len(read) > 1:
        raise refusal(
            f"dates that can be read in one way in column {label!r}",
            f"{values[0]:.0f}, which may be {' or '.join(read)}",
            f"give time_format= as one of {quoted(read)}",
        )
    return next(iter(read.values()), None)


def are_dates(values: np.ndarray) -> bool:
    """Whether numbers of any column are dates with a day, in 8 digits or more: few others are all of them."""
    long = len(values) >= _FEW and np.isfinite(values).all() and values.min() >= 1900_01_01
    return long and len(np.unique(values)) >= _FEW and stamps_of("", values) is not None


def _is_even(stamps: pd.Series) -> bool:
    """Whether dates go on day by day, month by month or in other even steps."""
    months = np.unique(np.diff(12 * stamps.dt.year + stamps.dt.month))
    steps = np.unique(np.diff(stamps.to_numpy()))
    return len(steps) == 1 or (len(months) == 1 and months[0] > 0 and stamps.dt.day.nunique() == 1)


def _with_months_behind_the_point(label: str, values: np.ndarray) -> pd.Series | None:
    """Months written as 2000.01 to 2000.12, and no tenths of a year."""
    years = np.floor(values)
    months = np.round(100 * (values - years))
    fits = np.abs(values - years - months / 100).max() < 1e-6 and months.min() >= 1 and months.max() <= 12
    if not fits or years.min() < _YEARS[0] or years.max() > _YEARS[1]:
        return None
    even = len(values) > 2 and len(np.unique(np.diff(12 * years + months))) == 1
    if not even or len(np.unique(months)) == 1 or (np.ptp(years) == 0 and not _DATED.search(label)):
        return None
    return pd.to_datetime(pd.DataFrame({"year": years, "month": months, "day": 1}))


def times_of_day(values: np.ndarray) -> np.ndarray | None:
    """Seconds of numbers that may be hours and minutes, as 630, or with seconds, as 63000.5; or None."""
    if not len(values) or not np.isfinite(values).all() or values.min() < 0 or values.max() < _HOUR:
        return None
    no_seconds = values.max() <= _MIDNIGHT
    if (no_seconds or values.min() < _ELAPSED) and not np.all(values == np.floor(values)):
        return None
    whole = 100 * values if no_seconds else values
    hours, minutes, seconds = whole // 10_000, whole // 100 % 100, whole % 100
    if hours.max() > 24 or minutes.max() > 59 or seconds.max() >= 60:
        return None
    return 3600.0 * hours + 60.0 * minutes + seconds


def past_midnight(seconds: np.ndarray, notes: Notes) -> np.ndarray:
    """Times of day that go on on the next day."""
    falls = np.diff(seconds, prepend=seconds[:1]) < -_DAY / 2
    if falls.any():
        notes.decide(f"time of day passes midnight {counted(int(falls.sum()), 'time')}")
    return seconds + _DAY * np.cumsum(falls)


def _of_clock(label: str, values: np.ndarray, notes: Notes) -> np.ndarray | None:
    """Seconds of hours and minutes in one number, where these go on evenly and the numbers do not."""
    seconds = times_of_day(values)
    read = None if seconds is None else clock_of(past_midnight(seconds, Notes()))
    plain = clock_of(values)
    if seconds is None or read is None or (plain is not None and plain.even):
        return None
    if values.min() < _ELAPSED and len(np.unique(seconds // 3600)) == 1:  # years are 20 hours and minutes
        return None
    goes_on = read.even or _jumps_to_minutes(values, seconds)
    if len(values) < _FEW or not goes_on:  # uneven ones may be anything: minutes with gaps, years
        if _CALLED_TIME.fullmatch(label) and values.min() >= _HOUR and (values % 10).any():
            form = "%H%M" if values.max() <= _MIDNIGHT else "%H%M%S"
            notes.decide(f'{label!r} as plain numbers, no hours and minutes (time_format="{form}")')
        return None
    notes.decide(f"time: {label!r} read as hours and minutes in one number, in seconds")
    return past_midnight(seconds, notes)


def _jumps_to_minutes(values: np.ndarray, seconds: np.ndarray) -> bool:
    """Whether numbers jump from 59 to 100 where a minute of a clock begins, and its seconds do not."""
    steps = np.diff(seconds)
    begins = np.diff(values) > steps + 1
    whole = values.max() > _MIDNIGHT and begins.sum() >= _MINUTES and not begins.all()
    return whole and bool(steps[begins].max() <= steps[~begins].max())


def as_seconds(label: str, values: np.ndarray, stated: str, given: str, notes: Notes) -> np.ndarray | None:
    """Seconds since the first of numbers that count from 1970 or are digits of a date or a clock; or None.

    Parameters
    ----------
    label : str
        Name of the column, which may end in a unit, as ``time_ms``.
    values : ndarray (n,)
        Of all rows that have one.
    stated : str
        Unit that the file states beside the name; empty where it states none.
    given : str
        Unit that the caller gives; empty where none.
    notes : Notes
        Is added to.
    """
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    if not len(finite):
        return None
    unit = unit_of_name(stated) or stated or unit_of_name(label)
    # A column called day or year may hold dates; one of milliseconds holds none.
    dated = unit in ("", "d", "month", "year") or (IN_SECONDS.get(unit, 1.0) >= 1.0 and are_dates(values))
    if len(finite) == len(values) and not stated and dated:
        stamps = stamps_of(label, values)
        if stamps is not None:
            notes.decide("time: dates written as year, month, ... in one number; in seconds since the first")
            check_skipped_hour(label, stamps.to_numpy(), notes)
            return (stamps - stamps.iloc[0]).to_numpy() / np.timedelta64(1, "s")
        of_clock = None if unit else _of_clock(label, values, notes)
        if of_clock is not None:
            return of_clock
    low, high = float(finite.min()), float(finite.max())
    whole = bool(np.all(finite == np.floor(finite)))
    matlab = not whole and _MATLAB[0] <= low and high <= _MATLAB[1]
    if not unit and (
        matlab or (_EXCEL_NAMES.search(label) and not whole and _EXCEL[0] <= low and high <= _EXCEL[1])
    ):
        by = "MATLAB" if matlab else "Excel"
        notes.decide(f"{label!r} read as day numbers of {by}: time in seconds since the first")
        return (values - finite[0]).astype(np.float64) * _DAY
    for first, last, era in _WINDOWS if not unit else ():
        if first <= low and high < last:
            notes.decide(
                f"time: {label!r} read as tenths of microseconds since {era}, in seconds since the first"
            )
            return (values - finite[0]).astype(np.float64) * 1e-7
    for first, last, scale, name in _UNIX:
        if first <= low and high < last:
            if not _are_stamps(label, finite, scale, name, unit, given, notes):
                return None
            return (values - finite[0]).astype(np.float64) * scale
    if low == finite[0] == 0 and len(finite) > 1 and not (stated or given):
        for first, last, _, name in _UNIX:
            if first <= finite[1:].min() and high < last and unit in ("", name):
                notes.decide(
                    f"{label!r} begins with 0 before what may be {name} since 1970 (delete that row)"
                )
    return None


def _are_stamps(
    label: str, numbers: np.ndarray, scale: float, name: str, unit: str, given: str, notes: Notes
) -> bool:
    """Whether numbers of the size of time stamps are some, and no ticks since a device was switched on.

    Stamps are on the minute, or recent and close together. A unit that is stated or given is not overruled.
    """
    steps = np.diff(numbers) * scale
    steps = steps[steps > 0]
    recent = numbers.min() * scale >= _RECENT
    close = not len(steps) or np.median(steps) < _SPARSE or _ERAS.search(label) is not None
    sure = bool((recent and (close or unit == name)) or np.all(steps % _MINUTE == 0))
    if unit not in ("", name):
        if sure and recent and numbers.min() * IN_SECONDS.get(unit, 0.0) > _NO_RECORD:
            notes.decide(
                f"{label!r} in {unit}, as stated, though its numbers may be {name} since 1970 (units=)"
            )
        return False
    if sure:
        notes.say(f"time: time stamps in {name} since 1970, in seconds since the first")
    elif not unit and not given:
        stamps = f"time stamps in {name} since 1970"
        notes.decide(
            f"time: {label!r} read as {stamps}, unless it counts otherwise (units=)"
            if recent
            else f"{label!r} as plain numbers, no {stamps} (units=)"
        )
    return sure or (recent and not unit and not given)
