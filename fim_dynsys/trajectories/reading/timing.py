"""The times of a table: found among its columns, put together from several, or counted."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from fim_dynsys.trajectories.reading import clocks, dates, digits, second_clocks
from fim_dynsys.trajectories.reading.columns import is_numeric, numbers_of
from fim_dynsys.trajectories.reading.composed import Times, composed, with_fractions
from fim_dynsys.trajectories.reading.options import Notes, Options, quoted, refusal
from fim_dynsys.trajectories.reading.text import Table

_RUN = 5  # rows, at least on average, after which a counter starts again
_MOST = 0.5  # share of rows with a time, at least, where others may be dropped
_CLOCK = 8  # rows in which a column can be seen to be a clock


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
    found = _found(table, frame, groups, options, notes)
    if found.columns and options.states is None:
        _refuse_second_clocks(table, frame, found, options)
    return found


def _found(
    table: Table, frame: pd.DataFrame, groups: np.ndarray | None, options: Options, notes: Notes
) -> Times:
    """The times of a table that are given, put together, called so, or grow evenly; else places of rows."""
    if options.time is not None:
        return _given(table, options.time, options, notes)
    if options.step is not None:
        notes.say(f"time: rows {options.step:g} apart")
        return Times(options.step * _places(len(frame), groups), "", ())
    if table.clock is not None:
        start, step = table.clock
        counting = tuple(str(c) for c in frame.columns[:1] if clocks.counts_rows(numbers_of(frame[c])))
        if not any(note.startswith("time: ") for note in notes.done):
            notes.say(f"time: from {start:g} in steps of {step:g}, by the header")
        return Times(start + step * _places(len(frame), groups), "s", counting)
    together = composed(frame, table.units, groups, options, notes)
    if together is not None:
        return together
    dated = [c for c in frame if dates.looks_dated(frame[c])]
    if options.time_format is not None:
        dated = [c for c in frame if dates.fits_format(frame[c], options.time_format)] or dated
    called = [c for c in frame if clocks.is_time_name(c, table.units.get(c, ""))]
    hot = [c for c in called if clocks.may_be_temperature(c, table.units.get(c, "")) and c not in dated]
    by_name = [c for c in frame if (c in called or c in dated) and c not in hot]
    found = _among(table, frame, by_name, groups, options, notes)
    timed = [c for c, unit in table.units.items() if clocks.unit_of_name(unit) and c in frame]
    by_unit = [c for c in frame if (clocks.is_unit_name(c) or c in timed) and is_numeric(frame[c])]
    # A substrate is called S as often as a temperature T: such letters are the last to be units.
    letters = [c for c in by_unit if len(c) == 1 and c.isupper() and c not in timed]
    for columns in ([c for c in by_unit if c not in letters], hot, letters):
        if found is None:
            found = _among(table, frame, columns, groups, options, notes, strict=False)
    if found is not None and found.columns[0] in hot:
        clock = clocks.clock_within(found.values, groups)
        if found.values[0] != 0 and not (clock is not None and clock.even):
            notes.decide(f"time: {found.columns[0]!r}, unless it is a temperature (time=, step=)")
    if found is None:
        _refuse_fallen(frame, groups)
        found = _stepped(frame, notes)
    if found is None and table.step is not None:
        numbered = [c for c in frame if clocks.is_counter_name(c) and _counts(numbers_of(frame[c]), groups)]
        notes.decide(f"time: rows {table.step:g} apart, by a line above the table (step=)")
        return Times(table.step * _places(len(frame), groups), "s", tuple(numbered[:1]))
    if found is None:
        found = _by_shape(table, frame, groups, options, notes)
    if found is None and hot and is_numeric(frame[hot[0]]):
        _refuse_order(hot[0], numbers_of(frame[hot[0]]), groups, hot, options)
    if found is not None and found.unit == "s":
        found = with_fractions(found, frame, notes)
    if found is None:
        notes.decide("time: row numbers, because no column holds times (step= gives the time between rows)")
        return Times(_places(len(frame), groups), "", ())
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
        values = numbers_of(frame[column])
        if groups is not None or len(values) < _CLOCK or not np.isfinite(values).all():
            continue
        steps = np.diff(values)
        backwards = place == 0 and clocks.clock_of(-values) is not None and _evenly(-steps)
        wraps = bool(clocks.unit_of_name(column)) and 0 < (steps < 0).sum() <= len(steps) / 10
        if backwards or (wraps and _evenly(steps[steps > 0])):
            k = int(np.argmax(steps < 0))
            raise refusal(
                f"times that increase in column {column!r}",
                f"{values[k + 1]:g} after {values[k]:g} in row {k + 2}",
                f"put the rows in order, or give step= if {column!r} is no time, states= if it is a state",
            )


def _evenly(steps: np.ndarray) -> bool:
    usual = float(np.median(steps))
    return usual > 0 and bool(np.abs(steps - usual).max() <= 1e-6 * usual)


def _values(table: Table, column: str, options: Options, notes: Notes) -> tuple[np.ndarray, str]:
    """Times of a column, and their unit."""
    values = table.frame[column]
    if options.time_format is None:
        form = dates.format_of_header(table.units.get(column, ""), values)
        options = replace(options, time_format=form)
    if dates.looks_dated(values) or (options.time_format is not None and not is_numeric(table.frame[column])):
        return dates.as_seconds(column, values, options, notes), "s"
    if options.time_format is not None and is_numeric(values) and digits.are_digits(options.time_format):
        text = digits.as_text(values, options.time_format)
        return dates.as_seconds(column, text, options, notes), "s"
    if not is_numeric(table.frame[column]):
        raise refusal(
            f"numbers or dates in the time column {column!r}",
            f"{str(values.iloc[0])!r} among them",
            "give time_format=",
        )
    unit = table.units.get(column) or clocks.unit_of_name(column)
    called = clocks.is_time_name(column) or unit in ("d", "month", "year")
    if called or column == options.time:
        said, filled = Notes(), values.notna().to_numpy()
        stated, given = table.units.get(column, ""), options.unit_of_time
        counted = digits.as_seconds(column, values[filled].to_numpy(), stated, given, said)
        if counted is not None:
            notes.add(said if called else Notes(said.done, said.done))
            seconds = np.full(len(values), np.nan)
            seconds[filled] = counted
            return seconds, "s"
        notes.add(said)
    return values.to_numpy(dtype=np.float64, na_value=np.nan), unit


def _given(table: Table, column: str, options: Options, notes: Notes) -> Times:
    values, unit = _values(table, column, options, notes)
    return Times(values, unit, (column,))


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
    failed: list[ValueError] = []
    for column in columns:
        if is_numeric(frame[column]) or dates.looks_dated(frame[column]) or options.time_format is not None:
            try:
                read[column] = _values(table, column, options, silent)
            except ValueError as error:  # another column may be the time
                failed.append(error)
    if failed and not read:
        raise failed[0]
    fit = {
        column: clock
        for column, (values, _) in read.items()
        if (clock := _clock_of_known(values, groups, options)) is not None
    }
    if not fit:
        if strict and read:
            column = next(iter(read))
            _refuse_order(column, read[column][0], groups, list(read), options)
        return None
    # Of several clocks, one that does not repeat itself; then one that is called time plainly.
    exact = {column: clock for column, clock in fit.items() if not clock.repeats} or fit
    plain = (
        [c for c in exact if c.lower() in ("t", "time")]
        or [c for c in exact if is_numeric(frame[c])]
        or list(exact)
    )
    chosen = plain[0]
    # What begins again where the time goes on is a state: hours of sleep beside days.
    fit = {column: clock for column, clock in fit.items() if len(clock.starts) <= len(fit[chosen].starts)}
    others = [column for column in exact if column != chosen and column in fit]
    for other in (c for c in fit if c != chosen):
        own_sensor = second_clocks.has_own_sensor(frame.columns, chosen, other)
        if _is_day(frame[chosen]) and _is_day(frame[other]):  # of the same samples: sold, settled
            continue
        same = _say_the_same(table, chosen, other, read, own_sensor, options)
        if not same and (own_sensor or other in exact):
            raise second_clocks.refuse_second([chosen, other])
    values, unit = _values(table, chosen, options, notes)
    rest = [*others, *(c for c in fit if c not in exact)]
    if rest:
        notes.say(f"dropped: {', '.join(rest)} (a second clock)")
    return Times(values, unit, (chosen, *rest))


def _clock_of_known(values: np.ndarray, groups: np.ndarray | None, options: Options) -> clocks.Clock | None:
    """The clock that values are, without the rows that will be dropped."""
    rows = np.isfinite(values)
    if options.bad_rows != "drop" or rows.mean() < _MOST:
        return clocks.clock_within(values, groups)
    return clocks.clock_within(values[rows], None if groups is None else groups[rows])


def _is_day(column: pd.Series) -> bool:
    """Whether a column holds dates without times of day."""
    return dates.looks_dated(column) and not column.astype(str).str.contains(":").any()


def _say_the_same(
    table: Table,
    first: str,
    second: str,
    read: Mapping[str, tuple[np.ndarray, str]],
    own_sensor: bool,
    options: Options,
) -> bool:
    """Whether two columns hold the same times but for units and, of one sensor, the origin."""
    if not second_clocks.go_alike(read[first], read[second], own_sensor):
        return False
    one, other = table.frame[first], table.frame[second]
    if not own_sensor or dates.looks_dated(one) != dates.looks_dated(other):
        return True
    if not dates.looks_dated(one):
        return second_clocks.start_together(numbers_of(one), numbers_of(other))
    try:
        both = dates.as_seconds(first, pd.concat([one, other], ignore_index=True), options, Notes())
    except ValueError:  # written in two ways
        return True
    return second_clocks.start_together(both[: len(one)], both[len(one) :])


def _refuse_second_clocks(table: Table, frame: pd.DataFrame, found: Times, options: Options) -> None:
    """Refuse a table in which another sensor has times that are not those of the first."""
    first, silent = found.columns[0], Notes()
    for column in frame.columns.difference(found.columns, sort=False):
        unit = table.units.get(column, "")
        if not clocks.is_time_name(column, unit) or clocks.may_be_temperature(column, unit):
            continue
        try:
            read = {first: (found.values, found.unit), column: _values(table, column, options, silent)}
        except ValueError:  # no times
            continue
        rows = np.isfinite(found.values) & np.isfinite(read[column][0])
        grows = clocks.clock_of(read[column][0][rows]) is not None
        own_sensor = second_clocks.has_own_sensor(table.frame.columns, first, column)
        own_sensor &= not _is_day(frame[column])  # a date beside samples is a fact about them
        if grows and own_sensor and not _say_the_same(table, first, column, read, own_sensor, options):
            raise second_clocks.refuse_second([first, column])


def _refuse_order(
    column: str,
    values: np.ndarray,
    groups: np.ndarray | None,
    candidates: Sequence[str],
    options: Options,
) -> None:
    """Say where a column that is called time does not grow."""
    missing = np.flatnonzero(~np.isfinite(values))
    if len(missing) and options.bad_rows != "drop":
        raise refusal(
            f"a time in every row of column {column!r}",
            f"none in row {missing[0] + 1}",
            'fill it, or give bad_rows="drop"',
        )
    rows = np.flatnonzero(np.isfinite(values))
    values = values[rows]
    falls = np.flatnonzero(np.diff(values) < 0)
    if groups is None and len(falls) == len(values) - 1:
        raise refusal(
            f"times that increase in column {column!r}",
            "the last first",
            "write the rows in the order of time",
        )
    if groups is None and len(falls):
        k = int(falls[0])
        raise refusal(
            f"times that increase in column {column!r}, or start again near {values[0]:g}",
            f"{values[k + 1]:g} after {values[k]:g} in row {rows[k + 1] + 1}",
            f"give trajectory= where a column tells trajectories apart, time= for another of "
            f"{quoted(candidates)}, "
            "or step= where times are to be counted",
        )
    raise refusal(
        f"times that increase in column {column!r}",
        "others" + (" within a trajectory" if groups is not None else ""),
        "give time=, trajectory= or step=",
    )


def _stepped(frame: pd.DataFrame, notes: Notes) -> Times | None:
    """Times from a column that holds a step or a rate once, and nothing below."""
    for column in frame:
        if not is_numeric(frame[column]):
            continue
        values = numbers_of(frame[column])
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
    """The only column of dates in digits; else the one that grows evenly; else one that counts rows."""
    numbers = {c: numbers_of(frame[c]) for c in frame if is_numeric(frame[c])}
    grown = {
        c: clock
        for c, values in numbers.items()
        if (clock := clocks.clock_within(values, groups)) is not None and not clock.repeats
    }
    stamped = [c for c in grown if c not in table.units and digits.are_dates(numbers[c])]
    if len(stamped) == 1:
        seconds = digits.as_seconds(stamped[0], numbers[stamped[0]], "", options.unit_of_time, notes)
        if seconds is not None:
            return Times(seconds, "s", (stamped[0],))
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
    for c in counting:
        if groups is None and len(grown[c].starts) * _RUN > len(frame):
            raise refusal(
                "a column of times",
                f"{c!r}, which starts again {len(grown[c].starts)} times in {len(frame)} rows",
                "name it by time=, and labels of trajectories by trajectory=",
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
