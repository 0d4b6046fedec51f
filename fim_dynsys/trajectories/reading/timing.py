"""The times of a table: found among its columns, put together from several, or counted."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fim_dynsys.trajectories.reading import clocks, dates
from fim_dynsys.trajectories.reading.options import Notes, Options, quoted, refusal
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
    1e-3: re.compile(r"(.*[ ._])?(ms|msecs?|millis|milliseconds?)", re.IGNORECASE),
    1e-6: re.compile(r"(.*[ ._])?(us|usecs?|micros|microseconds?)", re.IGNORECASE),
    1e-9: re.compile(r"(.*[ ._])?(ns|nsecs?|nanos|nanosecs?|nanoseconds?)", re.IGNORECASE),
}
_CENTURY = 100  # a year below it leaves out its century
_ALIKE = 0.05  # by which two clocks may differ in rate
_CLOCK = 8  # rows in which a column can be seen to be a clock
_WHOLE = re.compile(r"(.*[ ._])?(s|secs?|seconds?)", re.IGNORECASE)
_IN_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0, "h": 3600.0, "d": 86_400.0}


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


def find_times(
    table: Table, groups: np.ndarray | None, kept: Sequence[str], options: Options, notes: Notes
) -> Times:
    """The times of a table.

    Parameters
    ----------
    table : Table
        All columns.
    groups : ndarray (n,) of int, or None
        Which trajectory a row belongs to, where columns say so.
    kept : sequence of str
        Columns that are something else.
    options : Options
        What is known.
    notes : Notes
        Is added to.

    Raises
    ------
    ValueError
        Where more than one column may hold the times.
    """
    frame = table.frame.drop(columns=[*kept])
    if options.time is not None:
        return _given(table, options.time, options, notes)
    if options.step is not None:
        notes.say(f"time: rows {options.step:g} apart")
        return Times(options.step * np.arange(len(frame)), "", ())
    if table.clock is not None:
        start, step = table.clock
        counting = tuple(str(c) for c in frame.columns[:1] if clocks.counts_rows(_plain(frame, c)))
        notes.say(f"time: from {start:g} in steps of {step:g}, by the header")
        return Times(start + step * np.arange(len(frame)), "s", counting)
    composed = _composed(frame, options, notes)
    if composed is not None:
        return composed
    by_name = [c for c in frame if clocks.is_time_name(c) or dates.looks_dated(frame[c])]
    found = _among(table, frame, by_name, groups, options, notes)
    if found is None:
        by_unit = [c for c in frame if clocks.is_unit_name(c) and _numeric(frame, c)]
        found = _among(table, frame, by_unit, groups, options, notes, strict=False)
    if found is None:
        _refuse_fallen(frame, groups)
        found = _stepped(frame, notes)
    if found is None and table.step is not None:
        numbered = [c for c in frame if clocks.is_counter_name(c) and _counts(_plain(frame, c), groups)]
        notes.decide(f"time: rows {table.step:g} apart, by a line above the table (step=)")
        return Times(table.step * _places(len(frame), groups), "s", tuple(numbered[:1]))
    if found is None:
        found = _by_shape(table, frame, groups, options, notes)
    if found is None:
        notes.decide("time: row numbers, for no column is one (step= gives the time between rows)")
        return Times(np.arange(float(len(frame))), "", ())
    return found


def _places(n: int, groups: np.ndarray | None) -> np.ndarray:
    """Number of each row within its trajectory."""
    return (
        np.arange(float(n))
        if groups is None
        else pd.Series(groups).groupby(groups).cumcount().to_numpy(float)
    )


def _refuse_fallen(frame: pd.DataFrame, groups: np.ndarray | None) -> None:
    """Refuse a column that goes on as a clock does but runs backwards, or falls back now and then."""
    for place, column in enumerate(frame):
        values = _plain(frame, column)
        if groups is not None or len(values) < _CLOCK or not np.isfinite(values).all():
            continue
        steps = np.diff(values)
        backwards = place == 0 and clocks.clock_of(-values) is not None and _evenly(-steps)
        wraps = bool(clocks.unit_of_name(column)) and 0 < (steps < 0).sum() <= len(steps) / 10
        if backwards or (wraps and _evenly(steps[steps > 0])):
            k = int(np.argmax(steps < 0))
            raise refusal(
                f"times that grow in column {column!r}",
                f"{values[k + 1]:g} after {values[k]:g} in row {k + 2}",
                f"put the rows in order, or give step= if {column!r} is no time, states= if it is a state",
            )


def _evenly(steps: np.ndarray) -> bool:
    usual = float(np.median(steps))
    return usual > 0 and bool(np.abs(steps - usual).max() <= 1e-6 * usual)


def _plain(frame: pd.DataFrame, column: str) -> np.ndarray:
    """A column as numbers; NaN throughout where it holds none."""
    if not _numeric(frame, column):
        return np.full(len(frame), np.nan)
    return frame[column].to_numpy(dtype=np.float64, na_value=np.nan)


def _numeric(frame: pd.DataFrame, column: str) -> bool:
    return bool(pd.api.types.is_numeric_dtype(frame[column].dtype)) and frame[column].dtype != bool


def _values(table: Table, column: str, options: Options, notes: Notes) -> tuple[np.ndarray, str]:
    """Times of a column, and their unit."""
    values = table.frame[column]
    if dates.looks_dated(values) or (options.time_format is not None and not _numeric(table.frame, column)):
        return dates.as_seconds(column, values, options, notes), "s"
    if not _numeric(table.frame, column):
        raise refusal(
            f"numbers or dates in the time column {column!r}",
            f"{str(values.iloc[0])!r} among them",
            "give time_format=",
        )
    unit = table.units.get(column) or clocks.unit_of_name(column)
    if values.isna().sum() == 0 and clocks.is_time_name(column):
        counted = dates.unix_seconds(column, values.to_numpy(), notes)
        if counted is not None:
            return counted, "s"
    return values.to_numpy(dtype=np.float64, na_value=np.nan), unit


def _given(table: Table, column: str, options: Options, notes: Notes) -> Times:
    values, unit = _values(table, column, options, notes)
    return Times(values, unit, (column,))


def _grows(values: np.ndarray, groups: np.ndarray | None) -> clocks.Clock | None:
    """The clock that values are, within groups where there are any."""
    if groups is None:
        return clocks.clock_of(values)
    whole = None
    for group in np.unique(groups):
        times = values[groups == group]
        if len(times) == 1 and np.isfinite(times).all():
            continue
        clock = clocks.clock_of(times)
        if clock is None:
            return None
        whole = clock if whole is None or clock.repeats or not clock.even else whole
    return whole


def _among(
    table: Table,
    frame: pd.DataFrame,
    columns: Sequence[str],
    groups: np.ndarray | None,
    options: Options,
    notes: Notes,
    strict: bool = True,
) -> Times | None:
    """The times among columns that are called so."""
    silent = Notes()
    read: dict[str, tuple[np.ndarray, str]] = {}
    for column in columns:
        if _numeric(frame, column) or dates.looks_dated(frame[column]):
            read[column] = _values(table, column, options, silent)
    fit = {
        column: clock for column, (values, _) in read.items() if (clock := _grows(values, groups)) is not None
    }
    if not fit:
        if strict and read:
            column = next(iter(read))
            _refuse_order(column, read[column][0], groups, list(read))
        return None
    # Of several clocks, one that does not repeat itself; then one that is called time plainly.
    exact = {column: clock for column, clock in fit.items() if not clock.repeats} or fit
    plain = (
        [c for c in exact if c.lower() in ("t", "time")]
        or [c for c in exact if _numeric(frame, c)]
        or list(exact)
    )
    chosen = plain[0]
    others = [column for column in exact if column != chosen]
    if not all(_same_clock(read[chosen], read[other]) for other in others):
        raise refusal("one column of times", f"{quoted(exact)}", "name it by time=")
    values, unit = _values(table, chosen, options, notes)
    rest = [*others, *(c for c in fit if c not in exact)]
    if rest:
        notes.say(f"dropped: {', '.join(rest)} (a second clock)")
    return Times(values, unit, (chosen, *rest))


def _same_clock(one: tuple[np.ndarray, str], other: tuple[np.ndarray, str]) -> bool:
    """Whether two columns of times are the same but for unit and origin."""
    (a, a_unit), (b, b_unit) = one, other
    if {a_unit, b_unit} <= set(_IN_SECONDS) and np.ptp(b) > 0:
        ratio = np.ptp(a) * _IN_SECONDS[a_unit] / (np.ptp(b) * _IN_SECONDS[b_unit])
        if abs(ratio - 1) > _ALIKE + 2 / len(a):
            return False
    if not (np.isfinite(a).all() and np.isfinite(b).all()) or np.ptp(b) == 0:
        return False
    line = np.polyval(np.polyfit(a - a[0], b - b[0], 1), a - a[0])
    return bool(np.abs(line - (b - b[0])).max() <= 0.01 * np.ptp(b) / max(len(b), 1) + 0.005 * np.ptp(b))


def _refuse_order(
    column: str, values: np.ndarray, groups: np.ndarray | None, candidates: Sequence[str]
) -> None:
    """Say where a column that is called time does not grow."""
    missing = np.flatnonzero(~np.isfinite(values))
    if len(missing):
        raise refusal(
            f"a time in every row of column {column!r}",
            f"none in row {missing[0] + 1}",
            'fill it, or give bad_rows="drop"',
        )
    falls = np.flatnonzero(np.diff(values) < 0)
    if groups is None and len(falls):
        k = int(falls[0])
        raise refusal(
            f"times that grow in column {column!r}, or start again near {values[0]:g}",
            f"{values[k + 1]:g} after {values[k]:g} in row {k + 2}",
            f"give trajectory= where a column tells trajectories apart, time= for another of "
            f"{quoted(candidates)}, "
            "or step= where times are to be counted",
        )
    raise refusal(
        f"times that grow in column {column!r}",
        "others" + (" within a trajectory" if groups is not None else ""),
        "give time=, trajectory= or step=",
    )


def _composed(frame: pd.DataFrame, options: Options, notes: Notes) -> Times | None:
    """Times from a column of dates and one of times of day, or from years, months, days, hours, ... ."""
    days = [c for c in frame if dates.looks_dated(frame[c]) and not dates.is_time_of_day(frame[c])]
    hours = [c for c in frame if dates.is_time_of_day(frame[c])]
    if len(days) == 1 and len(hours) == 1 and not pd.api.types.is_numeric_dtype(frame[days[0]].dtype):
        day, hour = days[0], hours[0]
        if frame[day].astype(str).str.contains(":").any():
            return None
        joined = frame[day].astype(str).str.strip() + " " + frame[hour].astype(str).str.strip()
        notes.say(f"time: {day!r} and {hour!r} together")
        return Times(dates.as_seconds(day, joined, options, notes), "s", (day, hour))
    split = _split_seconds(frame)
    if split is not None:
        whole, fraction, scale = split
        seconds, unit = _values_of(frame[whole]), frame[fraction].to_numpy(float) * scale
        notes.say(f"time: {quoted([whole, fraction])} together")
        return Times(seconds - seconds[0] + unit, "s", (whole, fraction))
    places = {
        part: column
        for part, names in _PART_NAMES.items()
        for column in frame
        if column.lower() in names and _numeric(frame, column)
    }
    if {"MM", "mm"} <= set(frame.columns):  # months and minutes
        places |= {"month": "MM", "minute": "mm"}
    if "year" in places and _plain(frame, places["year"]).max() < _CENTURY:
        del places["year"]
    if len(days) == 1 and {"hour"} <= set(places) and frame[days[0]].duplicated().any():
        start = dates.as_seconds(days[0], frame[days[0]], options, notes)
        parts = [part for part in _SECONDS if part in places]
        notes.say(f"time: {quoted([days[0], *(places[p] for p in parts)])} together")
        seconds = start + sum(_SECONDS[p] * frame[places[p]].to_numpy(float) for p in parts)
        return Times(np.asarray(seconds), "s", (days[0], *(places[p] for p in parts)))
    chain = [part for part in _PARTS if part in places]
    of_year = next((c for c in frame if c.lower() in _OF_YEAR and _numeric(frame, c)), None)
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


def _values_of(column: pd.Series) -> np.ndarray:
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _split_seconds(frame: pd.DataFrame) -> tuple[str, str, float] | None:
    """Columns of whole seconds and of the rest of each, as robots and loggers keep them."""
    wholes = [c for c in frame if _WHOLE.fullmatch(c) and _numeric(frame, c) and frame[c].notna().all()]
    for whole in wholes:
        seconds = _values_of(frame[whole])
        for scale, pattern in _FRACTIONS.items():
            for fraction in (c for c in frame if pattern.fullmatch(c) and _numeric(frame, c)):
                rest = _values_of(frame[fraction]) * scale
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
    seconds = seconds + 86_400.0 * _values_of(frame[of_year])
    finer = [part for part in _SECONDS if part in places]
    for part in finer:
        seconds = seconds + _SECONDS[part] * _values_of(frame[places[part]])
    columns = (places["year"], of_year, *(places[part] for part in finer))
    notes.say(f"time: {quoted(columns)} together, in seconds since the first")
    return Times(seconds - seconds[0], "s", columns)


def _are_parts(frame: pd.DataFrame, places: dict[str, str], chain: Sequence[str]) -> bool:
    """Whether the smaller units start again where the larger ones go on."""
    limits = {"month": (1, 12), "day": (1, 31), "hour": (0, 24), "minute": (0, 60), "second": (0, 60)}
    for part in chain[1:]:
        low, high = limits[part]
        values = frame[places[part]].to_numpy(float)
        if not (np.isfinite(values).all() and values.min() >= low and values.max() <= high):
            return False
    return bool(np.all(np.diff(frame[places[chain[0]]].to_numpy(float)) >= 0))


def _stepped(frame: pd.DataFrame, notes: Notes) -> Times | None:
    """Times from a column that holds a step or a rate once, and nothing below."""
    for column in frame:
        if not _numeric(frame, column):
            continue
        values = frame[column].to_numpy(dtype=float, na_value=np.nan)
        seen = values[np.isfinite(values)]
        if len(seen) != 1 and not (len(seen) and np.ptp(seen) == 0):
            continue
        step = clocks.step_of_name(column, float(seen[0]))
        if step is not None:
            notes.decide(f"time: rows {step:g} apart, by column {column!r} (step=)")
            return Times(step * np.arange(len(frame)), "s", (column,))
    return None


def _by_shape(
    table: Table, frame: pd.DataFrame, groups: np.ndarray | None, options: Options, notes: Notes
) -> Times | None:
    """The only column that grows evenly; else one that counts rows."""
    numbers = {c: frame[c].to_numpy(dtype=float, na_value=np.nan) for c in frame if _numeric(frame, c)}
    grown = {
        c: clock
        for c, values in numbers.items()
        if (clock := _grows(values, groups)) is not None and not clock.repeats
    }
    counting = [c for c in grown if _counts(numbers[c], groups)]
    even = [c for c in grown if grown[c].even and c not in counting]
    if len(even) > 1 and all(np.array_equal(numbers[c], numbers[even[0]]) for c in even):
        notes.decide(f"dropped: {', '.join(even[1:])} (the same as {even[0]})")
        chosen = even[0]
        return Times(numbers[chosen], table.units.get(chosen, ""), tuple(even))
    if len(even) == 1 and len(frame) > 3:
        chosen = even[0]
        unit = table.units.get(chosen, "")
        if unit and not clocks.unit_of_name(unit) and not clocks.is_counter_name(unit):
            raise refusal(
                "a column of times",
                f"none but {chosen!r} in {unit}, which grows evenly",
                f'give time="{chosen}" if states are to be followed along it, step= if rows follow in time',
            )
        if table.has_names:
            notes.decide(f"time: {chosen!r}, the only column that grows evenly (time=)")
        else:
            notes.say(f"time: {chosen}, which grows evenly")
        return Times(numbers[chosen], table.units.get(chosen, ""), (chosen,))
    if len(even) > 1:
        raise refusal(
            "one column of times",
            f"several that grow evenly: {quoted(even)}",
            "name it by time=, or give step=",
        )
    called = [c for c in counting if clocks.is_counter_name(c)]
    if called or (counting and len(numbers) > 1):
        chosen = (called or counting)[0]
        unit = "" if chosen.startswith("column ") else chosen
        notes.decide(f"time: {chosen!r}, which counts rows (step= gives the time between them)")
        return Times(
            numbers[chosen],
            unit if clocks.is_counter_name(chosen) and unit.lower() in ("frame", "sample", "cycle") else "",
            (chosen,),
        )
    uneven = [c for c in grown if not grown[c].even]
    if uneven and uneven[0] == str(frame.columns[0]) and len(numbers) > 1:
        raise refusal(
            "a column that is called time, or grows evenly",
            f"columns {quoted(table.frame.columns)}, of which {quoted(uneven)} grows unevenly",
            f'give time="{uneven[0]}" if that is the time, or step= if none is',
        )
    return None


def _counts(values: np.ndarray, groups: np.ndarray | None) -> bool:
    if groups is None:
        clock = clocks.clock_of(values)
        starts = np.empty(0, dtype=int) if clock is None else clock.starts[1:]
        return all(clocks.counts_rows(part) for part in np.split(values, starts))
    return all(clocks.counts_rows(values[groups == group]) for group in np.unique(groups))
