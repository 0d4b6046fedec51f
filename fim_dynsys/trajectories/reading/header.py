"""The head of a text table: where its rows begin, what its columns are called, in which units."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fim_dynsys.trajectories.reading.clocks import is_time_name, is_unit_name, step_of_name
from fim_dynsys.trajectories.reading.contents import looks_like
from fim_dynsys.trajectories.reading.lines import (
    BLANKS,
    Line,
    content_lines,
    find_separator,
    splitter,
    without_tail,
)
from fim_dynsys.trajectories.reading.numbers import bare_number, is_date, is_missing, is_number, marks
from fim_dynsys.trajectories.reading.options import Notes, Options, quoted, refusal
from fim_dynsys.trajectories.reading.units import is_unit, split_name

_LINES = 400  # of the head that are looked at
_NAME = re.compile(r"[^\W\d_]|[(\[#°$]|$")  # how a name begins
_ROWS_AHEAD = 5  # rows that have to follow the first one of the table
_TYPES = re.compile(
    r"(float|int|uint)(8|16|32|64)?|double|integer|string|str|numeric|number|real|bool(ean)?|date(time)?|"
    r"single|text|char",
    re.IGNORECASE,
)
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
NUMBERED = ""  # name of a column of row numbers, which R writes without one


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


def read_head(name: str, text: str, options: Options, notes: Notes) -> Head:
    """Find out how the table is written.

    Parameters
    ----------
    name : str
        Of the file, for errors.
    text : str
        Its beginning, whole lines.
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
    thousands = options.thousands or thousands
    names, units, clock = _names(name, lines, comments, first, separator, width, rows, kinds, options, notes)
    if decimal != "." or thousands:
        notes.say(
            f"decimal {'comma' if decimal == ',' else 'point'}"
            + (f", thousands {thousands!r}" if thousands else "")
        )
    step = _stated_step([line.text for line in [*lines[:first], *comments]])
    return Head(lines[first].number, separator, decimal, thousands, width, names, units, clock, step)


def _check_comma(name: str, lines: Sequence[Line], separator: str) -> None:
    """Refuse pairs of whole numbers that may as well be one number with a decimal comma."""
    later = [line.text.strip() for line in lines[len(lines) // 2 :]]
    pairs = [found for text in later if (found := _PAIR.fullmatch(text))]
    if separator == "," and len(pairs) > 0.9 * len(later):
        digits = [found[2] for found in pairs]
        leading = sum(cell.startswith("0") and len(cell) > 1 for cell in digits)
        if leading or (min(map(len, digits)) > 2 and len(set(map(len, digits))) == 1):
            raise refusal(
                "numbers that can be read in one way only",
                f"lines like {pairs[0][0]!r} in {name!r}, one number or two",
                'give decimal="," or separator=","',
            )


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


# ---------------------------------------------------------------------- names


def _names(
    name: str,
    lines: Sequence[Line],
    comments: Sequence[Line],
    first: int,
    separator: str,
    width: int,
    rows: Sequence[list[str]],
    kinds: Sequence[str],
    options: Options,
    notes: Notes,
) -> tuple[list[str] | None, list[str], tuple[float, float] | None]:
    """Names of the columns, their units and an oscilloscope's clock."""
    above = [
        (line, _fitted(line.text, row, separator, width, kinds))
        for line, row in zip(lines, rows[:first], strict=False)
    ]
    if above:
        _check_no_row(name, *above[-1], kinds, rows[first])
    fitting = _last_run(above)
    skipped = first - len(fitting)
    if not fitting:
        _check_width(name, above, separator, width)
        from_comment = _commented(comments, lines[first].number, separator, width, kinds)
        if from_comment:
            notes.say("names from a comment line")
            fitting = from_comment
    if skipped > 0:
        notes.say(f"skipped {skipped} line{'s' * (skipped > 1)} before the table")
    if options.names is not None:
        given = options.columns("names")
        if len(given) != width:
            raise refusal(f"names= of {width} columns", f"{len(given)} for {name!r}")
        return given, [], None
    if not fitting:
        return None, [], None
    if len(fitting) > 1 and fitting[-1][0] and not any(fitting[-1][1:]):
        # What pandas writes for columns of two levels: the last line names the index alone.
        index = fitting.pop()[0]
        fitting[-1] = [index, *fitting[-1][1:]]
    if len(fitting) > 1 and all(_TYPES.fullmatch(cell) for cell in fitting[-1] if cell):
        notes.say("skipped a line of types below the names")
        fitting.pop()
    last = fitting[-1]
    if last[0] == NUMBERED and above and len(rows[first - 1]) == width - 1:
        _check_row_numbers(name, rows[first:], last)
    if len(fitting) > 1:
        clock = _oscilloscope(fitting[-2], last)
        if clock:
            return fitting[-2], [cell if is_unit(cell) else "" for cell in last], clock
        filled = [cell for cell in last if cell]
        if filled and all(is_unit(cell) or is_missing(cell) for cell in filled) and _are_names(fitting[-2]):
            notes.say("units from the line below the names")
            return fitting[-2], last, None
        above_last = [cell for cell in fitting[-2] if cell]
        if above_last and all(is_unit(cell) for cell in above_last) and not any(map(is_unit, filled[1:])):
            notes.say("units from the line above the names")
            return last, fitting[-2], None
        if len(set(filled)) < len(filled) and sum(map(bool, fitting[-2])) > 1:
            joined = [
                "_".join(dict.fromkeys(part for part in parts if part))
                for parts in zip(_spread(fitting[-2], last), last, strict=True)
            ]
            notes.decide("names joined from two lines (names=)")
            return joined, [], None
    return last, [], None


def _spread(cells: Sequence[str], below: Sequence[str]) -> list[str]:
    """A line of names of groups, each over all the columns of its group, as merged cells leave them."""
    spread, current = [], ""
    for cell, lower in zip(cells, below, strict=True):
        current = cell or (current if lower else "")
        spread.append(current)
    return spread


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


def _are_names(cells: Sequence[str]) -> bool:
    return not all(map(is_number, filter(None, cells)))


def _last_run(above: Sequence[tuple[Line, list[str] | None]]) -> list[list[str]]:
    """Lines just above the rows that have a cell for each column."""
    found: list[list[str]] = []
    for _, cells in reversed(above):
        if cells is None:
            break
        found.insert(0, cells)
    return found


def _fitted(text: str, row: list[str], separator: str, width: int, kinds: Sequence[str]) -> list[str] | None:
    """A line above the rows as one cell for each column, or None where it cannot be that."""
    if len(row) == width:
        return row
    bare = without_tail(row)
    if len(bare) == width:
        return bare
    if len(bare) == width - 1 and kinds[-1] == "empty":
        return [*bare, ""]
    # A comment column that no row fills, and row numbers that no name stands above.
    extra = without_tail(row)[width:]
    if extra and all(cell.lower() in ("comment", "comments", "") for cell in extra):
        return row[:width]
    for other in (r"\s{2,}|\t", r",", r";", r"\t", r"\s+"):
        cells = [cell.strip().strip("\"'") for cell in re.split(other, text.strip())]
        if len(cells) == width and all(_NAME.match(cell) for cell in cells):
            return cells
        if len(cells) == width - 1 and kinds[-1] == "empty" and all(_NAME.match(cell) for cell in cells):
            return [*cells, ""]
    if separator == BLANKS:
        joined = _with_units_joined(row)
        if len(joined) == width:
            return joined
    if len(bare) == width - 1 and len(bare) > 1:
        return [NUMBERED, *bare] if len(row) == width - 1 else [*bare, ""]
    return None


def _with_units_joined(cells: Sequence[str]) -> list[str]:
    """Names in which blanks stand before a unit: ``Time (s)`` is one."""
    joined: list[str] = []
    for cell in cells:
        if joined and (re.match(r"^[(\[{]", cell) or re.search(r"[(\[{][^)\]}]*$", joined[-1])):
            joined[-1] += " " + cell
        else:
            joined.append(cell)
    return joined


def _check_no_row(
    name: str, line: Line, cells: list[str] | None, kinds: Sequence[str], below: Sequence[str]
) -> None:
    """A damaged row must not be taken for a header."""
    if cells is None:
        return
    places = [k for k, kind in enumerate(kinds) if kind in ("number", "date") and cells[k]]
    fine = [k for k in places if is_number(cells[k]) or is_date(cells[k])]
    # Whole numbers above others are those of channels.
    channels = all(cells[k].isdigit() for k in fine) and not all(below[k].isdigit() for k in fine)
    # Wavelengths and the like stand beside a name of the time, and grow.
    sizes = [float(cells[k]) for k in fine if is_number(cells[k]) and cells[k].replace(".", "").isdigit()]
    channels |= is_time_name(cells[0]) and len(sizes) == len(fine) and sizes == sorted(set(sizes))
    if len(places) > 1 and 2 * len(fine) > len(places) and not channels:
        raise refusal(
            "names or numbers in each line",
            f"both in line {line.number + 1} of {name!r}: {line.text.strip()[:80]!r}",
            "mend or delete that line, or give missing= for what stands for a missing value, or names=",
        )


def _check_row_numbers(name: str, rows: Sequence[list[str]], names: Sequence[str]) -> None:
    """One name too few is right where the first column numbers the rows, as R writes it."""
    labels = [row[0] for row in rows]
    counted = [str(k + int(labels[0])) for k in range(len(labels))] if labels[0].isdigit() else []
    if labels != counted:
        raise refusal(
            f"{len(names)} names above rows of {len(names)} cells",
            f"{len(names) - 1} in {name!r}: {', '.join(names[1:])}",
            "give separator=, decimal= or names=",
        )


def _check_width(
    name: str, above: Sequence[tuple[Line, list[str] | None]], separator: str, width: int
) -> None:
    """A header of another number of cells leaves open which name belongs to which column."""
    if not above:
        return
    line, _ = above[-1]
    row = [cell for cell in splitter(separator)(line.text) if cell]
    if len(row) > 1 and 2 * sum(is_number(cell) or is_date(cell) for cell in row) > len(row):
        raise refusal(
            f"{width} cells in each row",
            f"others in line {line.number + 1} of {name!r}: {line.text.strip()[:80]!r}",
            "mend or delete that line, or give separator= or decimal=",
        )
    cells = re.split(r"[,;\t|]", line.text.strip().strip(",;\t|"))
    short = all(len(cell.split()) <= 4 and cell.strip() for cell in cells)
    if len(cells) > 1 and short and width > 1 and not any(is_number(cell.strip()) for cell in cells):
        raise refusal(
            f"{width} names above rows of {width} cells",
            f"{len(cells)} in line {line.number + 1} of {name!r}: {line.text.strip()[:80]!r}",
            "give separator=, decimal= or names=",
        )


def _commented(
    comments: Sequence[Line], first: int, separator: str, width: int, kinds: Sequence[str]
) -> list[list[str]]:
    """Names, and units or not, from the last comment lines before the rows."""
    found: list[list[str]] = []
    split = splitter(separator)
    for line in reversed([line for line in comments if line.number < first][-2:]):
        text = line.text
        cells = _fitted(text, split(text), separator, width, kinds)
        if cells is None or any(is_number(cell) for cell in cells) or any(len(c.split()) > 3 for c in cells):
            break
        if width == 1 and len(text.split()) > 1:
            break
        # Words of a sentence are no names; where names stand between blanks, one of them is that of the time.
        if not all(cells) or (separator == BLANKS and not found and not any(map(_is_of_time, cells))):
            break
        found.insert(0, cells)
    if len(found) == 2:
        units = sum(is_unit(cell) or is_missing(cell) for cell in found[1])
        # Two lines of names are units and names where most of the last are units.
        return found if units == width else _with_units(found) if 2 * units > width else found[1:]
    return found


def _with_units(found: list[list[str]]) -> list[list[str]]:
    return [found[0], [cell if is_unit(cell) else "" for cell in found[1]]]


def _is_of_time(cell: str) -> bool:
    return is_time_name(cell) or is_unit_name(cell)


def _oscilloscope(names: Sequence[str], below: Sequence[str]) -> tuple[float, float] | None:
    """Start and step of a record whose first column counts samples, from columns that hold them alone."""
    places = {name.lower(): k for k, name in enumerate(names)}
    if "start" not in places or "increment" not in places:
        return None
    start, step = below[places["start"]], below[places["increment"]]
    return (float(start), float(step)) if is_number(start) and is_number(step) else None


def named(names: Sequence[str], units: Sequence[str]) -> list[tuple[str, str]]:
    """Name and unit of each column, where splitting off units leaves names different."""
    pairs = [split_name(name) for name in names]
    counts = Counter(name for name, _ in pairs)
    pairs = [
        (name, "") if counts[bare] > 1 and unit else (bare, unit)
        for (bare, unit), name in zip(pairs, names, strict=True)
    ]
    return [(name, unit or (units[k] if k < len(units) else "")) for k, (name, unit) in enumerate(pairs)]
