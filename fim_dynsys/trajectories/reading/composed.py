"""Times that several columns hold together, as dates and times of day, years and months."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from fim_dynsys.trajectories.reading import dates
from fim_dynsys.trajectories.reading.columns import is_numeric, is_text, numbers_of
from fim_dynsys.trajectories.reading.options import Notes, Options, quoted
from fim_dynsys.trajectories.reading.periods import month_of
from fim_dynsys.trajectories.reading.text import Table

_PARTS = ("year", "month", "day", "hour", "minute", "second")
_PART_NAMES = {
    "year": ("year", "yr", "yyyy", "yy", "jahr"),
    "month": ("month", "mon", "mo", "mm", "monat"),
    "day": ("day", "dd", "dy", "tag", "dom"),
    "hour": ("hour", "hours", "hr", "hh", "h", "stunde"),
    "minute": ("minute", "minutes", "min", "mn"),
    "second": ("second", "seconds", "sec", "s", "ss"),
}
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


def composed(frame: pd.DataFrame, options: Options, notes: Notes) -> Times | None:
    """Times from a column of dates and one of times of day, or from years, months, days, hours, ... ."""
    days = [c for c in frame if dates.looks_dated(frame[c]) and not dates.is_time_of_day(frame[c])]
    hours = [c for c in frame if dates.is_time_of_day(frame[c])]
    if len(days) == 1 and len(hours) == 1 and not pd.api.types.is_numeric_dtype(frame[days[0]].dtype):
        day, hour = days[0], hours[0]
        if frame[day].astype(str).str.contains(":").any():
            return None
        joined = frame[day].astype(str).str.strip() + " " + frame[hour].astype(str).str.strip()
        notes.say(f"time: {day!r} and {hour!r} together")
        together = Times(dates.as_seconds(day, joined, options, notes), "s", (day, hour))
        return with_fractions(together, frame, notes)
    split = _split_seconds(frame)
    if split is not None:
        whole, fraction, scale = split
        seconds, unit = numbers_of(frame[whole]), frame[fraction].to_numpy(float) * scale
        notes.say(f"time: {quoted([whole, fraction])} together")
        return Times(seconds - seconds[0] + unit, "s", (whole, fraction))
    places = {
        part: column
        for part, names in _PART_NAMES.items()
        for column in frame
        if column.lower() in names and is_numeric(frame[column])
    }
    if {"MM", "mm"} <= set(frame.columns):  # months and minutes
        places |= {"month": "MM", "minute": "mm"}
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
    chain = [part for part in _PARTS if part in places]
    of_year = next((c for c in frame if c.lower() in _OF_YEAR and is_numeric(frame[c])), None)
    if of_year is not None and "year" in places and not {"month", "day"} & set(places):
        return _by_day_of_year(frame, places, of_year, notes)
    if chain and "month" not in places and chain[0] == "year":
        chain = []  # hours of an unknown day
    if {"month", "hour"} <= set(chain) and "day" not in chain:
        chain = []
    if len(chain) < 2 or frame[places[chain[0]]].is_unique or not _are_parts(frame, places, chain):
        return None
    notes.say(f"time: {quoted(places[p] for p in chain)} together")
    columns = tuple(places[p] for p in chain)
    if chain[:2] == ["year", "month"]:
        numbers = {
            part: frame[places[part]].astype(int) if part != "second" else frame[places[part]]
            for part in chain
        }
        stamps = pd.to_datetime(pd.DataFrame({"day": 1} | numbers, index=frame.index))
        return Times(dates.as_seconds(columns[0], stamps, options, notes), "s", columns)
    if all(part in _SECONDS for part in chain):
        return Times(
            np.asarray(sum(_SECONDS[p] * frame[places[p]].to_numpy(float) for p in chain)), "s", columns
        )
    return None


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


def _by_day_of_year(frame: pd.DataFrame, places: dict[str, str], of_year: str, notes: Notes) -> Times:
    """Times from years, days of the year and what is finer."""
    years = pd.to_datetime(frame[places["year"]].astype(int).astype(str), format="%Y")
    seconds = ((years - years.iloc[0]) / pd.Timedelta(1, "s")).to_numpy(float)
    seconds = seconds + 86_400.0 * numbers_of(frame[of_year])
    finer = [part for part in _SECONDS if part in places]
    for part in finer:
        seconds = seconds + _SECONDS[part] * numbers_of(frame[places[part]])
    columns = (places["year"], of_year, *(places[part] for part in finer))
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
    seconds = ((first - first.iloc[0]) / pd.Timedelta(1, "s")).to_numpy(float) + 7 * 86_400.0 * weeks
    if not (np.diff(seconds) > 0).all():
        return None
    notes.say(f"time: {quoted([year, week])} together, in seconds since the first")
    return Times(seconds - seconds[0], "s", (year, week))


def _are_parts(frame: pd.DataFrame, places: dict[str, str], chain: Sequence[str]) -> bool:
    """Whether the smaller units start again where the larger ones go on."""
    limits = {"month": (1, 12), "day": (1, 31), "hour": (0, 24), "minute": (0, 60), "second": (0, 60)}
    for part in chain[1:]:
        low, high = limits[part]
        values = frame[places[part]].to_numpy(float)
        if not (np.isfinite(values).all() and values.min() >= low and values.max() <= high):
            return False
    return bool(np.all(np.diff(frame[places[chain[0]]].to_numpy(float)) >= 0))


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
