"""The head of a text table: where its rows begin, what its columns are called, in which units."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import pandas as pd

from fim_dynsys.trajectories.reading.clocks import (
    clock_of,
    counts_rows,
    is_time_name,
    is_unit_name,
    step_of_name,
)
from fim_dynsys.trajectories.reading.contents import looks_like
from fim_dynsys.trajectories.reading.lines import (
    BLANKS,
    Line,
    content_lines,
    find_separator,
    splitter,
    without_tail,
)
from fim_dynsys.trajectories.reading.names import find_names
from fim_dynsys.trajectories.reading.numbers import (
    as_numbers,
    bare_number,
    is_date,
    is_missing,
    is_number,
    marks,
)
from fim_dynsys.trajectories.reading.options import Notes, Options, quoted, refusal
from fim_dynsys.trajectories.reading.units import is_only_unit
from fim_dynsys.wording import counted

_LINES = 400  # of the head that are looked at
_ROWS_AHEAD = 5  # rows that have to follow the first one of the table
_SHARE = 0.5  # of the rows below: fewer rows above a table are parameters, and no table of their own
_JUMP = 3.0  # largest steps of a single column that its number above is away from it
_STATED = re.compile(  # a name and a number behind it, as `tInc = 0.1` or `Delta_X 0.1`
    r"([^\W\d][\w ]*?)\s*[:=,;\s]\s*([+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?)"
    r"\s*([A-Za-zµ]*)(?![\w.]|\s*/)"
)
_SCALES = {  # of seconds and hertz; a step of any other unit is not read
    **{"": 1.0, "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0, "ms": 1e-3, "msec": 1e-3},
    **{"us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "hz": 1.0, "khz": 1e3, "mhz": 1e6},
}
_PAIR = re.compile(r"([+-]?\d+),(\d+)")
_THOUSAND = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")


@dataclass(frozen=True)
class Head:
    """How to read a text table.

    Attributes
    ----------
    first : int
        Number of the line of the first row, from 0.
    separator, decimal : str
        What is between cells, and before decimals.
    thousands : str or None
        What is between thousands.
    width : int
        Number of cells in a row.
    names : list of str or None
        As they stand in the file; None without a header.
    units : list of str
        From a row of units; empty without one.
    clock : tuple of float or None
        Start and step, where an oscilloscope wrote them into its header.
    step : float or None
        Time between rows, where a line above the table states it.
    dates : tuple of int
        Places of columns of dates, whose marks are none of numbers.
    """

    first: int
    separator: str
    decimal: str
    thousands: str | None
    width: int
    names: list[str] | None
    units: list[str] = field(default_factory=list)
    clock: tuple[float, float] | None = None
    step: float | None = None
    dates: tuple[int, ...] = ()


def read_head(name: str, text: str, n_lines: int, options: Options, notes: Notes) -> Head:
    """Find out how the table is written.

    Parameters
    ----------
    name : str
        Of the file, for errors.
    text : str
        Its beginning, whole lines.
    n_lines : int
        Lines of all of it.
    options : Options
        What is known of it.
    notes : Notes
        Is added to.

    Raises
    ------
    ValueError
        Where there is no row of numbers, or two readings are as good as each other.
    """
    lines, comments = content_lines(text, options.comment, _LINES)
    if not lines:
        held = "comments only" if comments else "blank lines only" if text else "nothing"
        raise refusal("a table of numbers", f"{name!r}, which holds {held}")
    separator = _separator(lines, options)
    if options.separator is None and options.decimal is None:
        _check_comma(name, lines, separator)
    split = splitter(separator)
    rows = [split(line.text) for line in lines]
    width, kinds = _columns(rows)
    first = _first_row(rows, width, kinds)
    if first is None:
        raise _without_rows(name, text, lines, rows)
    _check_one_table(name, lines, rows, first, n_lines, options, notes)
    numbers = [bare_number(cell) for row in rows[first:] for cell in row[:width] if cell and is_number(cell)]
    decimal, thousands, guessed = marks(numbers)
    if options.decimal is not None:
        decimal, thousands = options.decimal, options.thousands
    elif guessed and options.thousands is None:
        example = next(cell for cell in numbers if "," in cell)
        raise refusal(
            "numbers that can be read in one way only",
            f"cells like {example!r} in {name!r}",
            'give decimal="," or thousands=","',
        )
    elif decimal == "." and thousands is None:
        _check_thousands(name, rows[first:], width)
    elif decimal == "," and thousands is None and options.thousands is None:
        _check_points(name, numbers)
    thousands = options.thousands or thousands
    names, units, clock = find_names(
        name, lines, comments, first, separator, width, rows, kinds, options, notes
    )
    if names is None and options.names is None and _numbers_columns(name, rows[first:], decimal):
        notes.decide("skipped a line that numbers the columns (names=)")
        first += 1
    if decimal != "." or thousands:
        notes.say(
            f"decimal {'comma' if decimal == ',' else 'point'}"
            + (f", thousands {thousands!r}" if thousands else "")
        )
    step = _stated_step([line.text for line in [*lines[:first], *comments]])
    dates = tuple(place for place, kind in enumerate(kinds) if kind == "date")
    return Head(lines[first].number, separator, decimal, thousands, width, names, units, clock, step, dates)


def _check_comma(name: str, lines: Sequence[Line], separator: str) -> None:
    """Refuse pairs of whole numbers that may as well be one number with a decimal comma."""
    later = [line.text.strip() for line in lines[len(lines) // 2 :]]
    pairs = [found for text in later if (found := _PAIR.fullmatch(text))]
    if separator == "," and len(pairs) > 0.9 * len(later):
        digits = [found[2] for found in pairs]
        leading = sum(cell.startswith("0") and len(cell) > 1 for cell in digits)
        alike = min(map(len, digits)) > 2 and len(set(map(len, digits))) == 1
        if leading or (alike and not _names_two(lines)):
            raise refusal(
                "numbers that can be read in one way only",
                f"lines like {pairs[0][0]!r} in {name!r}, one number or two",
                'give decimal="," or separator=","',
            )


def _names_two(lines: Sequence[Line]) -> bool:
    """Whether two names stand above pairs of numbers, and no name with a unit, as ``Force, N``."""
    first = next(k for k, line in enumerate(lines) if _PAIR.fullmatch(line.text.strip()))
    names = splitter(",")(lines[first - 1].text) if first else []
    # A sentence has a blank behind its comma, and so would the numbers below two names.
    if ", " in lines[first - 1].text:
        return False
    if len(names) != 2 or not all(names) or any(map(is_number, names)):
        return False
    return is_time_name(names[0]) or is_unit_name(names[0]) or not is_only_unit(names[1])


def _without_rows(name: str, text: str, lines: Sequence[Line], rows: Sequence[list[str]]) -> ValueError:
    """The error about a file in which no lines follow each other that are rows of numbers."""
    what, remedy = looks_like(text.encode())
    if what not in ("text", ""):
        return refusal("a text table", f"{name!r}, which holds {what}", remedy)
    if len(lines) == 1 and len(rows[0]) > 1 and not any(map(is_number, rows[0])):
        return refusal(
            "rows of numbers below the header", f"{name!r} with none, and columns {quoted(rows[0])}"
        )
    return refusal(
        "rows of numbers",
        f"{name!r}, which begins {lines[0].text.strip()[:60]!r}",
        "name what is between columns by separator=",
    )


def _separator(lines: Sequence[Line], options: Options) -> str:
    if options.separator is None:
        return find_separator(lines, options.decimal)
    named = {
        "tab": "\t",
        "\\t": "\t",
        "comma": ",",
        "semicolon": ";",
        " ": BLANKS,
        "blank": BLANKS,
        "blanks": BLANKS,
    }
    return named.get(options.separator, options.separator)


def _columns(rows: Sequence[list[str]]) -> tuple[int, list[str]]:
    """How many cells most of the later rows have, and what each column of these holds."""
    later = rows[len(rows) // 2 :]
    width = Counter(map(len, later)).most_common(1)[0][0]
    body = [row for row in later if len(row) == width]
    kinds = []
    for column in zip(*body, strict=True):
        filled = [cell for cell in column if not is_missing(cell)]
        share = sum(map(is_number, filled)) / max(len(filled), 1)
        dated = sum(map(is_date, filled)) / max(len(filled), 1)
        kinds.append(
            "empty" if not filled else "date" if dated > share else "number" if share >= 0.5 else "text"
        )
    return width, kinds


def _is_row(row: Sequence[str], width: int, kinds: Sequence[str]) -> bool:
    """Whether a line holds numbers and dates where the table does."""
    if len(row) != width:
        return False
    fits: dict[str, Callable[[str], bool]] = {"number": is_number, "date": is_date}
    judged = [(cell, fits[kind]) for cell, kind in zip(row, kinds, strict=True) if kind in fits]
    return any(test(cell) for cell, test in judged) and all(
        is_missing(cell) or test(cell) for cell, test in judged
    )


def _first_row(rows: Sequence[list[str]], width: int, kinds: Sequence[str]) -> int | None:
    """The first row that others follow; a preamble may hold a line that looks like one."""
    if not {"number", "date"} & set(kinds):
        return None
    fit = [_is_row(row, width, kinds) for row in rows]
    for k, fits in enumerate(fit):
        ahead = fit[k : k + _ROWS_AHEAD]
        if fits and 2 * sum(ahead) > len(ahead):
            return k
    return None


def _check_one_table(
    name: str,
    lines: Sequence[Line],
    rows: Sequence[list[str]],
    first: int,
    n_lines: int,
    options: Options,
    notes: Notes,
) -> None:
    """Refuse, or say, that rows of numbers stand above the first row: a table of another width.

    It is one if it is long enough, and its columns have names or its first one grows.
    """
    widths = [_width_of_numbers(row) for row in rows[:first]]
    runs = [(width, list(run)) for width, run in groupby(range(first), widths.__getitem__) if width]
    width, run = max(runs, key=lambda found: len(found[1]), default=(0, []))
    if len(run) < _ROWS_AHEAD:
        return
    where = f"lines {lines[run[0]].number + 1} to {lines[run[-1]].number + 1}"
    above = rows[run[0] - 1] if run[0] else []
    named = width > 1 and len(without_tail(list(above))) == width and not any(map(is_number, above))
    is_table = named or _grows([rows[k][0] for k in run])
    if options.bad_rows == "error" and is_table and len(run) >= _SHARE * (n_lines - lines[first].number):
        raise refusal(
            "one table",
            f"two in {name!r}: rows of {counted(width, 'number')} in {where}, and others below",
            'save each in a file of its own, mend rows that are cut off, or give bad_rows="drop" to read the '
            "lower rows",
        )
    notes.decide(f"left out {len(run)} rows of {counted(width, 'number')} in {where}, above the table")


def _grows(cells: Sequence[str]) -> bool:
    """Whether numbers grow from line to line; dates are taken to."""
    if any(map(is_date, cells)):
        return True
    numbers = pd.to_numeric(pd.Series([bare_number(c).replace(",", ".") for c in cells]), errors="coerce")
    return bool((np.diff(numbers) > 0).all())


def _width_of_numbers(row: Sequence[str]) -> int:
    """How many cells a line of numbers and dates has; 0 for any other line."""
    cells = without_tail(list(row))
    known = any(map(is_number, cells)) and all(
        is_number(cell) or is_date(cell) or is_missing(cell) for cell in cells
    )
    return len(cells) if known else 0


def _numbers_columns(name: str, rows: Sequence[list[str]], decimal: str) -> bool:
    """Whether the first row is 0, 1, 2, ... for columns without names, as pandas writes it above them.

    Raises
    ------
    ValueError
        Where it may as well be the first sample.
    """
    indexed = rows[0][0] == ""  # above the row numbers
    cells = rows[0][indexed:]
    if len(rows) <= _ROWS_AHEAD or not cells or not all(map(is_number, cells)):
        return False
    numbers = as_numbers(pd.Series(cells), decimal)[0]
    if numbers[0] not in (0.0, 1.0) or not counts_rows(numbers):
        return False
    times = as_numbers(pd.Series([row[0] for row in rows if row]), decimal)[0]
    whole, below = clock_of(times), clock_of(times[1:])
    if indexed or (below is not None and not below.repeats and (whole is None or whole.repeats)):
        return True
    if whole is not None and not whole.repeats and (whole.even or (below is not None and below.even)):
        return not whole.even  # where it is, the first column goes on from there, as the time does
    steps = np.abs(np.diff(times))
    if len(rows[0]) == 1 and not steps[0] > _JUMP * np.nanmax(steps[1:]):
        return False
    others = [cell for row in rows[1:] for cell in row if is_number(cell)]
    if all(cell.isdigit() for cell in cells) and not any(cell.lstrip("+-").isdigit() for cell in others):
        raise refusal(
            "names or samples in the first row",
            f"{', '.join(cells)} in {name!r}, which may number the columns",
            "delete that row if it does, give names= if it is a sample",
        )
    return False


def _stated_step(lines: Sequence[str]) -> float | None:
    """The time between rows that lines above a table state, as ``Sample Interval,0.1``, if they agree."""
    found = set()
    for text in lines:
        for key, value, unit in _STATED.findall(text.replace("\t", " ").replace('"', "")):
            scale = _SCALES.get(unit.lower(), 0.0)
            step = step_of_name(key.strip(), scale * float(value.replace(",", "."))) if len(key) > 1 else None
            if step is not None:
                found.add(step)
    return found.pop() if len(found) == 1 else None


def _check_points(name: str, numbers: Sequence[str]) -> None:
    """Refuse ``1.234`` beside decimal commas, with three digits behind each point: thousands, or decimals."""
    points = [cell for cell in numbers if "." in cell and "," not in cell]
    if points and all(map(_THOUSAND.fullmatch, points)):
        raise refusal(
            "numbers that can be read in one way only",
            f"cells like {points[0]!r} beside decimal commas in {name!r}",
            'give decimal="," thousands="." if the points mark thousands, decimal="," if not',
        )


def _check_thousands(name: str, rows: Sequence[list[str]], width: int) -> None:
    """Refuse columns of whole numbers below a thousand and of ``1.234`` above: marks of thousands."""
    for place in range(width):
        cells = [row[place] for row in rows if len(row) == width and row[place] and is_number(row[place])]
        marked = [cell for cell in cells if "." in cell]
        whole = [cell for cell in cells if cell.lstrip("+-").isdigit()]
        if (
            min(len(marked), sum(len(cell.lstrip("+-")) == 3 for cell in whole)) > 1
            and len(marked) + len(whole) == len(cells)
            and all(_THOUSAND.fullmatch(cell) for cell in marked)
        ):
            raise refusal(
                "numbers that can be read in one way only",
                f"cells like {marked[0]!r} among {whole[0]!r} in column {place + 1} of {name!r}",
                'give decimal="," thousands="." if the points mark thousands, decimal="." if not',
            )
