"""Times that several columns hold together, as dates and times of day, years and months."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from fim_dynsys.trajectories.reading import clocks, dates, digits
from fim_dynsys.trajectories.reading.columns import is_numeric, is_text, numbers_of
from fim_dynsys.trajectories.reading.options import Notes, Options, quoted, refusal
from fim_dynsys.trajectories.reading.periods import month_of
from fim_dynsys.trajectories.reading.text import Table
from fim_dynsys.trajectories.reading.units import clock_format

_PARTS = ("year", "month", "day", "hour", "minute", "second")
_PART_NAMES = {
    "year": ("year", "yr", "yyyy", "yy", "jahr"),
    "month": ("month", "mon", "mo", "mm", "monat"),
    "day": ("day", "dd", "dy", "tag", "dom"),
    "hour": ("hour", "hours", "hr", "hh", "h", "stunde"),
    "minute": ("minute", "minutes", "min", "mn"),
    "second": ("second", "seconds", "sec", "s", "ss"),
}
_DAY = clocks.IN_SECONDS["d"]
_LEAP_YEAR = 2000  # stands for a year that no column holds
_SECONDS = {"hour": 3600.0, "minute": 60.0, "second": 1.0}
_OF_YEAR = ("doy", "day of year", "day_of_year", "dayofyear", "yday", "jday", "julian day", "jd")
_FRACTIONS = {  # of a second, beside a column of whole seconds
    1.0: re.compile(r"(.*[ ._])?frac(tion)?(al)?([ ._]of)?[ ._]?(a[ ._])?(s|secs?|seconds?)?", re.IGNORECASE),
    1e-3: re.compile(r"(.*[ ._])?(ms|msecs?|millis|milliseconds?)", re.IGNORECASE),
    1e-6: re.compile(r"(.*[ ._])?(us|usecs?|micros|microseconds?)", re.IGNORECASE),
    1e-9: re.compile(r"(.*[ ._])?(ns|nsecs?|nanos|nanosecs?|nanoseconds?)", re.IGNORECASE),
}
_WEEK = re.compile(
    r"(iso|epi|mmwr|cdc)?[ _]?(week|kw|kalenderwoche|woche)([ _](no|nr|number))?", re.IGNORECASE
)
_WEEKS = 53  # of a year at most
_LONGEST_MONTH = 31  # days; larger ones may be those of a year
_DECIMAL_HOURS = ("decimal_hour", "decimal hour")  # the hour, where it and its minutes have no column
_HOURS_MINUTES = re.compile(r"h(ou)?r[ _]?m(i?n|inutes?)", re.IGNORECASE)
_HEART_RATES = {f"hr{mark}{of}" for mark in "_ " for of in ("max", "mean", "avg")}
_HEART_RATE = 200  # beats per minute at most; hours and minutes of a day are larger
_TIME_OF_DAY = re.compile(  # a column that may hold hours and minutes in one number
    r"((local|utc|gmt)[ _])?(time|zeit|uhrzeit|t)([ _](of[ _]day|local|utc|gmt))?|h(ou)?rs?|hh?mm(ss)?|"
    rf"{_HOURS_MINUTES.pattern}",
    re.IGNORECASE,
)
_MIDNIGHT = re.compile(r"[T ]00:00(:00(\.0+)?)?$")  # behind dates, as Excel keeps them
_CENTURY = 100  # a year below it leaves out its century
_WHOLE = re.compile(r"(.*[ ._])?(s|secs?|seconds?)", re.IGNORECASE)


@dataclass(frozen=True)
class Times:
    """Times of the rows, and the columns that they come from.

    Attributes
    ----------
    values : ndarray (n,)
        Times; they may start again where a new trajectory begins.
    unit : str
        Empty where it is not known.
    columns : tuple of str
        Whose contents they are.
    """

    values: np.ndarray
    unit: str
    columns: tuple[str, ...]


def composed(
    frame: pd.DataFrame,
    units: Mapping[str, str],
    groups: np.ndarray | None,
    options: Options,
    notes: Notes,
) -> Times | None:
    """Times from a column of dates and one of times of day, or from years, months, days, hours, ... ."""
    days = [c for c in frame if dates.looks_dated(frame[c]) and not dates.is_time_of_day(frame[c])]
    hours = [c for c in frame if dates.is_time_of_day(frame[c])]
    if options.time_format is None:
        frame, days, hours = _with_digits_as_text(frame, units, days, hours, notes)
    if len(days) == 1 and len(hours) == 1:
        day, hour = days[0], hours[0]
        if not _goes_with(hour, frame[day], groups):
            return None
        dated = frame[day].astype(str).str.strip().str.replace(_MIDNIGHT, "", regex=True)
        form = dates.format_of_header(units.get(day, ""), frame[day])
        if form is not None and options.time_format is None:
            dated = pd.to_datetime(dated, format=form).dt.strftime("%Y-%m-%d")
        if dated.str.contains(":").any():
            return None
        joined = dated + " " + frame[hour].astype(str).str.strip()
        notes.say(f"time: {day!r} and {hour!r} together")
        together = Times(dates.as_seconds(day, joined, options, notes), "s", (day, hour))
        return with_fractions(together, frame, notes)
    split = _split_seconds(frame)
    if split is not None:
        whole, fraction, scale = split
        seconds, unit = numbers_of(frame[whole]), frame[fraction].to_numpy(float) * scale
        notes.say(f"time: {quoted([whole, fraction])} together")
        return Times(seconds - seconds[0] + unit, "s", (whole, fraction))
    lower = {column.lower() for column in frame}
    places = {
        part: column
        for part, names in _PART_NAMES.items()
        for column in frame
        if column.lower() in names and is_numeric(frame[column])
    }
    if {"MM", "mm"} <= set(frame.columns):  # months and minutes
        places |= {"month": "MM", "minute": "mm"}
    if "max" in lower and places.get("minute", "").lower() == "min":  # the smallest and the largest value
        del places["minute"]
    if {"hour", "second"} <= set(places) and "minute" not in places and "m" in lower:
        places["minute"] = next(c for c in frame if c.lower() == "m")
    decimal = [c for c in frame if c.lower() in _DECIMAL_HOURS and is_numeric(frame[c])]
    if decimal and not {"hour", "minute"} & set(places):
        places["hour"] = decimal[0]
    if "year" in places and numbers_of(frame[places["year"]]).max() < _CENTURY:
        del places["year"]
    if len(days) == 1 and {"hour"} <= set(places) and frame[days[0]].duplicated().any():
        start = dates.as_seconds(days[0], frame[days[0]], options, notes)
        parts = [part for part in _SECONDS if part in places]
        notes.say(f"time: {quoted([days[0], *(places[p] for p in parts)])} together")
        seconds = start + sum(_SECONDS[p] * frame[places[p]].to_numpy(float) for p in parts)
        return Times(np.asarray(seconds), "s", (days[0], *(places[p] for p in parts)))
    week = next((c for c in frame if _WEEK.fullmatch(c) and is_numeric(frame[c])), None)
    if week is not None and "year" in places and not {"month", "day"} & set(places):
        of_weeks = _by_week(frame, places["year"], week, notes)
        if of_weeks is not None:
            return of_weeks
    if week is not None and "day" in places and not {"year", "month"} & set(places):
        of_days = _by_day_of_week(frame, week, places["day"], groups, notes)
        if of_days is not None:
            return of_days
    clock = hours[0] if len(hours) == 1 and not days else None
    of_year = _day_of_year(frame, places)
    if of_year is not None and "year" in places:
        return _by_day_of_year(frame, places, of_year, clock, groups, notes)
    if of_year is not None and ("hour" in places or clock is not None):
        places["day"] = of_year
    chain = [part for part in _PARTS if part in places]
    if chain and "month" not in places and chain[0] == "year":
        chain = []  # hours of an unknown day
    if {"month", "hour"} <= set(chain) and "day" not in chain:
        chain = []
    if {"hour", "second"} <= set(chain) and "minute" not in chain:
        chain.remove("second")
    if "day" in chain and "hour" not in chain:  # minima and seconds are no parts of a day alone
        chain = chain[: chain.index("day") + 1]
    clock = clock if chain[-1:] == ["day"] else None
    clock = clock if clock is not None and _goes_with(clock, frame[places["day"]], groups) else None
    columns = (*(places[part] for part in chain), *([clock] if clock else []))
    if len(columns) < 2 or not _are_parts(frame, places, chain):
        return None
    said = Notes()
    read = _by_parts(frame, chain, clock, columns, groups, options, said)
    if read is not None and clock is None and not _repeats(frame[columns[0]], groups):
        # hours beside a day in each row may be those of sleep, or of sunshine
        days_alone = clocks.clock_within(numbers_of(frame[columns[0]]), groups)
        with_hours = clocks.clock_within(read.values, groups)
        if with_hours is None or not with_hours.even or (days_alone is not None and days_alone.even):
            return None
    notes.add(said)
    return read


def _goes_with(clock: str, days: pd.Series, groups: np.ndarray | None) -> bool:
    """Whether times of day are those of the samples, and not of a sunset or a sleep each day."""
    named = _TIME_OF_DAY.fullmatch(clock) is not None or clocks.is_time_name(clock)
    return named or _repeats(days, groups)


def _repeats(column: pd.Series, groups: np.ndarray | None) -> bool:
    """Whether a day holds several rows, within groups where there are any."""
    rows = column if groups is None else pd.DataFrame({"value": column.to_numpy(), "group": groups})
    return bool(rows.duplicated().any())


def _by_parts(
    frame: pd.DataFrame,
    chain: Sequence[str],
    clock: str | None,
    columns: tuple[str, ...],
    groups: np.ndarray | None,
    options: Options,
    notes: Notes,
) -> Times | None:
    """Times from columns of the parts of a chain, with a time of day as text behind them or none."""
    seconds = np.zeros(len(frame))
    values = {part: numbers_of(frame[column]) for part, column in zip(chain, columns, strict=False)}
    if clock is not None:
        seconds += _seconds_of_day(frame[clock])
    for part in set(chain) & set(_SECONDS):
        seconds += _SECONDS[part] * values[part]
    said = Notes()
    if "month" in chain:
        known = {part: values[part].astype(int) for part in chain if part not in _SECONDS}
        dated = pd.DataFrame({"year": _LEAP_YEAR, "day": 1} | known, index=frame.index)
        stamps = pd.to_datetime(dated, errors="coerce") + pd.to_timedelta(seconds, unit="s")
        if stamps.isna().any() and "year" in chain:
            row = int(np.argmax(stamps.isna()))
            raise refusal(
                f"dates in columns {quoted(columns)}",
                f"{', '.join(f'{frame[c].iloc[row]:g}' for c in columns[: len(chain)])} in row {row + 1}",
                "correct it, or give time= or step=",
            )
        seconds = dates.as_seconds(columns[0], stamps, options, said)
    elif "day" in chain:
        seconds += _DAY * values["day"]
    elif groups is None:
        seconds = digits.past_midnight(seconds, said)
    steps = np.diff(values[chain[0]])
    within = np.ones(len(steps), dtype=bool) if groups is None else groups[1:] == groups[:-1]
    grow = clocks.clock_within(seconds, groups) is not None or (steps[within] >= 0).all()
    if not grow or not np.isfinite(seconds).all():
        return None
    notes.say(f"time: {quoted(columns)} together")
    notes.add(said)
    if chain[0] == "month":
        notes.decide("months and days of a leap year, because no column is the year")
    return Times(seconds, "s", columns)


def _with_digits_as_text(
    frame: pd.DataFrame, units: Mapping[str, str], days: list[str], hours: list[str], notes: Notes
) -> tuple[pd.DataFrame, list[str], list[str]]:
    """Dates like 20240501 as dates beside times of day, and times of day like 630 as such beside dates."""
    plain = [c for c in frame if is_numeric(frame[c]) and (c not in units or clock_format(units[c]))]
    stamps, clock = {}, {}
    for column in plain:
        values = numbers_of(frame[column])
        dated = digits.stamps_of(column, values) if not days and clocks.is_time_name(column) else None
        seconds = digits.times_of_day(values) if not hours and _TIME_OF_DAY.fullmatch(column) else None
        if dated is not None and (dated == dated.dt.normalize()).all():
            stamps[column] = dated
        elif seconds is not None and not _is_heart_rate(column, values, frame):
            clock[column] = seconds
    numbered = {part: [c for c in plain if c.lower() in _PART_NAMES[part]] for part in ("day", "hour")}
    numbered["day"] += [c for c in plain if c.lower() in _OF_YEAR]
    falls = all((np.diff(seconds) < 0).any() for seconds in clock.values())  # on the next day
    if clock and not any(_repeats(frame[c], None) for c in days or [*stamps] or numbered["day"]):
        clock = {}  # beside a date in each row they count something else
    with_day = len(days or stamps) == 1 or (not days and not stamps and bool(numbered["day"]) and falls)
    with_hour = len(hours or clock) == 1 or (not hours and not clock and bool(numbered["hour"]))
    if not with_day or not with_hour:
        return frame, days, hours
    days, hours = days or list(stamps), hours or list(clock)
    if stamps:
        frame = frame.assign(**{days[0]: stamps[days[0]].dt.strftime("%Y-%m-%d").to_numpy()})
    if clock:
        written = pd.to_datetime(clock[hours[0]], unit="s").strftime("%H:%M:%S.%f")
        frame = frame.assign(**{hours[0]: np.where(clock[hours[0]] == _DAY, "24:00:00", written)})
    if stamps or clock:
        notes.decide(f"digits of {quoted([*stamps, *clock])} read as dates and times of day")
    return frame, days, hours


def _is_heart_rate(column: str, values: np.ndarray, frame: pd.DataFrame) -> bool:
    """Whether ``hr_min`` is the lowest heart rate, and no hours and minutes."""
    beside = any(other.lower() in _HEART_RATES for other in frame)
    return _HOURS_MINUTES.fullmatch(column) is not None and (beside or values.max() < _HEART_RATE)


def with_fractions(times: Times, frame: pd.DataFrame, notes: Notes) -> Times:
    """Times in whole seconds with the fractions that another column holds, if one does."""
    if (np.diff(times.values) > 0).all():
        return times
    for scale, pattern in _FRACTIONS.items():
        for column in (c for c in frame if pattern.fullmatch(c) and is_numeric(frame[c])):
            rest = numbers_of(frame[column]) * scale
            if rest.min() >= 0 and rest.max() < 1 and (np.diff(times.values + rest) > 0).all():
                notes.say(f"time: with the fractions of seconds in {column!r}")
                return replace(times, values=times.values + rest, columns=(*times.columns, column))
    return times


def _split_seconds(frame: pd.DataFrame) -> tuple[str, str, float] | None:
    """Columns of whole seconds and of the rest of each, as robots and loggers keep them."""
    wholes = [c for c in frame if _WHOLE.fullmatch(c) and is_numeric(frame[c]) and frame[c].notna().all()]
    for whole in wholes:
        seconds = numbers_of(frame[whole])
        for scale, pattern in _FRACTIONS.items():
            for fraction in (c for c in frame if pattern.fullmatch(c) and is_numeric(frame[c])):
                rest = numbers_of(frame[fraction]) * scale
                together = seconds + rest
                if (
                    np.all(seconds == np.floor(seconds))
                    and rest.min() >= 0
                    and rest.max() < 1
                    and (np.diff(seconds) == 0).any()
                    and (np.diff(together) > 0).all()
                ):
                    return whole, fraction, scale
    return None


def _seconds_of_day(cells: pd.Series) -> np.ndarray:
    """Seconds of times of day in text, to 24:00 at the end; NaN for other text."""
    text = cells.astype(str).str.strip()
    late = text.str.fullmatch(r"24:00(:00(\.0+)?)?").to_numpy(dtype=float)
    day = "2000-01-01 "  # any
    since = pd.to_datetime(day + text.where(late == 0.0, "00:00"), format="mixed", errors="coerce")
    return ((since - pd.Timestamp(day)) / pd.Timedelta(1, "s")).to_numpy(float) + _DAY * late


def _day_of_year(frame: pd.DataFrame, places: dict[str, str]) -> str | None:
    """The column of days of the year, where no other is that of days; one called ``day`` may hold them."""
    if "month" in places:
        return None
    if "day" in places:
        return places["day"] if "year" in places and _holds_days_of_year(frame, places) else None
    return next((c for c in frame if c.lower() in _OF_YEAR and is_numeric(frame[c])), None)


def _holds_days_of_year(frame: pd.DataFrame, places: dict[str, str]) -> bool:
    """Whether days go beyond a month in years of several rows each, and start again with a year.

    Days since a start go on over years, and one a year is that of an event, as of the first bloom.
    """
    years, days = (numbers_of(frame[places[part]]) for part in ("year", "day"))
    if not (np.isfinite(years).all() and np.isfinite(days).all()) or days.max() <= _LONGEST_MONTH:
        return False
    leap = (years % 4 == 0) & ((years % 100 != 0) | (years % 400 == 0))
    several = np.median(np.unique(years, return_counts=True)[1]) > 1
    again = (np.diff(days)[np.diff(years) > 0] < 0).all()
    left = len(set(frame) - set(places.values())) > 0
    return bool(days.min() >= 1 and (np.floor(days) <= 365 + leap).all() and several and again and left)


def _by_day_of_year(
    frame: pd.DataFrame,
    places: dict[str, str],
    of_year: str,
    clock: str | None,
    groups: np.ndarray | None,
    notes: Notes,
) -> Times:
    """Times from years, days of the year and what is finer, or a time of day as text."""
    years = pd.to_datetime(frame[places["year"]].astype(int).astype(str), format="%Y")
    seconds = ((years - years.iloc[0]) / pd.Timedelta(1, "s")).to_numpy(float)
    seconds = seconds + _DAY * numbers_of(frame[of_year])
    finer = [part for part in _SECONDS if part in places]
    for part in finer:
        seconds = seconds + _SECONDS[part] * numbers_of(frame[places[part]])
    columns = (places["year"], of_year, *(places[part] for part in finer))
    if clock is not None and not finer and _goes_with(clock, frame[of_year], groups):
        of_day = _seconds_of_day(frame[clock])
        if np.isfinite(of_day).all():
            seconds, columns = seconds + of_day, (*columns, clock)
    notes.say(f"time: {quoted(columns)} together, in seconds since the first")
    return Times(seconds - seconds[0], "s", columns)


def _by_week(frame: pd.DataFrame, year: str, week: str, notes: Notes) -> Times | None:
    """Times from years and weeks of the year, if these go on together."""
    years, weeks = numbers_of(frame[year]), numbers_of(frame[week])
    if not (np.isfinite(years + weeks).all() and weeks.min() >= 1 and weeks.max() <= _WEEKS):
        return None
    if (np.diff(years) < 0).any() or len(np.unique(years)) < 2:
        return None
    # Mondays of the ISO calendar; a year that has no week 53 there goes on by seven days.
    first = pd.to_datetime(pd.Series(years.astype(int).astype(str)) + "-1-1", format="%G-%V-%u")
    seconds = ((first - first.iloc[0]) / pd.Timedelta(1, "s")).to_numpy(float) + 7 * _DAY * weeks
    if not (np.diff(seconds) > 0).all():
        return None
    notes.say(f"time: {quoted([year, week])} together, in seconds since the first")
    return Times(seconds - seconds[0], "s", (year, week))


def _by_day_of_week(
    frame: pd.DataFrame, week: str, day: str, groups: np.ndarray | None, notes: Notes
) -> Times | None:
    """Times from weeks and their days, if these go on together."""
    weeks, days = numbers_of(frame[week]), numbers_of(frame[day])
    seconds = _DAY * (7 * weeks + days)
    if not np.isfinite(seconds).all() or np.ptp(days) > 6 or clocks.clock_within(seconds, groups) is None:
        return None
    notes.say(f"time: {quoted([week, day])} together")
    return Times(seconds, "s", (week, day))


def _are_parts(frame: pd.DataFrame, places: Mapping[str, str], chain: Sequence[str]) -> bool:
    """Whether months and days are whole, and each part but the largest stays below its limit."""
    limits = {"month": (1, 12), "day": (1, 31), "hour": (0, 24), "minute": (0, 60), "second": (0, 60)}
    for part in chain:
        values = numbers_of(frame[places[part]])
        if not np.isfinite(values).all() or (part not in _SECONDS and (values != np.floor(values)).any()):
            return False
        low, high = limits.get(part, (-np.inf, np.inf))
        if (part != chain[0] or part == "month") and (values.min() < low or values.max() > high):
            return False
    return True


def with_months_as_numbers(table: Table, notes: Notes) -> Table:
    """A table in which names of months are numbers, and months that are columns are one series of rows."""
    frame = table.frame
    named = [c for c in frame if is_text(frame[c]) and frame[c].nunique() > 1]
    for column in named:
        months = frame[column].map(lambda cell: month_of(str(cell)), na_action="ignore")
        if months.notna().all():
            frame = frame.assign(**{column: months.astype(float)})
            notes.say(f"names of months in {column!r}")
    months = [c for c in frame if month_of(c) is not None and is_numeric(frame[c])]
    years = [c for c in frame if c.lower() in ("year", "yr", "jahr", "année", "año", "anno")]
    if [month_of(c) for c in months] != list(range(1, 13)) or len(years) != 1:
        return replace(table, frame=frame)
    year = numbers_of(frame[years[0]])
    rest = [c for c in frame if c not in (*months, *years)]
    notes.decide(
        f"columns {months[0]} to {months[-1]} are one series, called 'value'"
        + (f"; left out: {', '.join(rest)}" if rest else "")
    )
    series = {
        "year": np.repeat(year, 12),
        "month": np.tile(np.arange(1.0, 13.0), len(year)),
        "value": frame[months].to_numpy(dtype=float).ravel(),
    }
    whole = pd.DataFrame(series)
    last = whole["value"].last_valid_index()  # the last year may not be over
    return Table(whole.iloc[: 1 if last is None else last + 1], step=table.step)
