"""Names and units of the columns of a text table, out of the lines above its rows."""

import re
from collections import Counter
from collections.abc import Sequence

from fim_dynsys.trajectories.reading.clocks import is_time_name, is_unit_name
from fim_dynsys.trajectories.reading.lines import BLANKS, Line, splitter, without_tail
from fim_dynsys.trajectories.reading.numbers import is_date, is_missing, is_number
from fim_dynsys.trajectories.reading.options import Notes, Options, refusal
from fim_dynsys.trajectories.reading.units import (
    is_only_unit,
    is_unit,
    labelled,
    split_name,
    without_brackets,
)

_NAME = re.compile(r"[^\W\d_]|[(\[#°$]|$")  # how a name begins
_TYPES = re.compile(
    r"(float|int|uint)(8|16|32|64)?|double|integer|string|str|numeric|number|real|bool(ean)?|date(time)?|"
    r"single|text|char",
    re.IGNORECASE,
)
_BRIEF = 4  # letters of a unit that is not known, as RFU: longer words are names
_SHORT = 2  # letters of a unit that may be a word or a label as well, as in, m and A
_NUMBERED = ""  # name of a column of row numbers, which R writes without one


def find_names(
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
    whole = [without_tail(row) for row in rows[:first]]
    clock = _oscilloscope(whole[-2], whole[-1]) if first > 1 and len(whole[-2]) > width else None
    if clock and options.names is None:
        units = [cell if is_unit(cell) else "" for cell in whole[-1][:width]]
        names = ["" if cell.lower() in ("start", "increment") else cell for cell in whole[-2][:width]]
        return names, units + [""] * (width - len(units)), clock
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
        elif higher := _higher_up(above):
            notes.decide("names from a line that others part from the rows (names=)")
            fitting = [higher]
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
        has_units = len(fitting) > 1 and _names_all(fitting[-2][1:], fitting[-1][1:])
        has_units = has_units and all(map(is_unit, filter(None, fitting[-1][1:])))
        named = len(fitting) - 1 - has_units
        fitting = [[index if k == named else "", *line[1:]] for k, line in enumerate(fitting)]
    if lines[0].text.startswith(('"TOA5"', "TOA5,")) and len(fitting) > 2:  # names, units, kinds of means
        notes.say("names and units of a table of Campbell")
        return fitting[-3], [cell if is_unit(cell) else "" for cell in fitting[-2]], None
    if len(fitting) > 1 and all(_TYPES.fullmatch(cell) for cell in fitting[-1] if cell):
        notes.say("skipped a line of types below the names")
        fitting.pop()
    if len(fitting) > 2 and _describes(*fitting[-3:]):
        notes.decide("skipped a line below the units (names=)")
        fitting.pop()
    last = fitting[-1]
    if last[0] == _NUMBERED and above and len(rows[first - 1]) == width - 1:
        _check_row_numbers(name, rows[first:], last)
    if len(fitting) > 1:
        clock = _oscilloscope(fitting[-2], last)
        if clock:
            return fitting[-2], [cell if is_unit(cell) else "" for cell in last], clock
        filled = [cell for cell in last if cell]
        if filled and all(is_unit(cell) or is_missing(cell) for cell in filled) and _are_names(fitting[-2]):
            said = Notes()
            upper = _joined(fitting[:-1], said)
            if _names_all(upper, last):
                notes.say("units from the line below the names")
                notes.add(said)
                return upper, last, None
        if _are_units(fitting[-2], last):
            notes.decide("units from the line below the names, known ones or not (names=)")
            return fitting[-2], last, None
        above_last = [cell for cell in fitting[-2] if cell]
        if above_last and all(is_unit(cell) for cell in above_last) and not any(map(is_unit, filled[1:])):
            notes.say("units from the line above the names")
            return last, fitting[-2], None
        if len(set(filled)) < len(filled) and sum(map(bool, fitting[-2])) > 1:
            return _joined(fitting, notes), [], None
    if all(map(is_only_unit, last)) and not all(cell.isidentifier() for cell in last):
        notes.say("units from the only line above the rows, names by place")
        return [""] * width, last, None
    if len(fitting) > 1 and _say_times(fitting[-2]):
        notes.decide(f"names from the last of two lines, not from {', '.join(fitting[-2])} above it (names=)")
    return last, [], None


def _say_times(names: Sequence[str]) -> bool:
    """Whether a line names each column, and one of them the time."""
    return (
        all(map(_NAME.match, filter(None, names)))
        and _names_all(names, names)
        and all(names)
        and (any(map(is_time_name, names)))
    )


def _names_all(names: Sequence[str], units: Sequence[str]) -> bool:
    """Whether each column that has a unit has a name of its own above it."""
    named = [name for name, unit in zip(names, units, strict=True) if unit]
    return all(named) and len(set(named)) == len(named)


def _are_units(names: Sequence[str], cells: Sequence[str]) -> bool:
    """Whether cells below names are units, known ones or not.

    They are where all stand in brackets, or one of time stands below a time and others are units or look like
    them: short, or no words. Words that are longer, and cells with a unit of their own, are names.
    """
    filled = [cell for cell in cells if cell]
    if not filled or not all(names) or len(set(names)) < len(names) or any(map(is_number, names)):
        return False
    if all(without_brackets(cell) != cell for cell in filled):
        return True
    of_time = {cell for name, cell in zip(names, cells, strict=True) if is_time_name(name) and is_unit(cell)}
    others = [cell for cell in filled if cell not in of_time]
    brief = any(is_unit_name(cell) and len(cell) <= _BRIEF for cell in map(without_brackets, of_time))
    known = any(map(is_unit, others))
    named = [cell for cell in others if "_" in cell or (split_name(cell)[1] and not _is_ratio(cell, known))]
    if not brief or named:
        return False
    return known or all(len(cell) <= _BRIEF or not cell.isalpha() for cell in others)


def _is_ratio(cell: str, beside_units: bool) -> bool:
    """Whether ``widgets/d`` is a unit: a rate, or one beside other units; ``x/m`` is a name with a unit."""
    found = re.fullmatch(r"[^\s/]{2,}/([^\s/]+)", cell)
    return found is not None and (beside_units or is_unit_name(found[1]))


def _describes(names: Sequence[str], units: Sequence[str], cells: Sequence[str]) -> bool:
    """Whether cells below names and known units are words about the columns."""
    known = all(is_unit(cell) for cell in units if cell) and any(units) and _names_all(names, units)
    words = [cell for cell in cells if cell and not is_unit(cell)]
    return known and all(names) and bool(words) and not any(map(is_time_name, cells))


def _joined(lines: Sequence[list[str]], notes: Notes) -> list[str]:
    """Names out of two lines, or of as many as it takes to make them different."""
    joined, used = lines[-1], 1
    while used < len(lines) and len(set(joined)) < len(joined):
        used += 1
        above = _spread(lines[-used], lines[-1])
        joined = [
            f"{upper}_{lower}" if upper and lower and upper != lower else upper or lower
            for upper, lower in zip(above, joined, strict=True)
        ]
    if used > 1:
        notes.decide(f"names joined from {used if used > 2 else 'two'} lines (names=)")
    return joined


def _spread(cells: Sequence[str], below: Sequence[str]) -> list[str]:
    """A line of names of groups, each over all the columns of its group, as merged cells leave them."""
    spread, current = [], ""
    for cell, lower in zip(cells, below, strict=True):
        current = cell or (current if lower else "")
        spread.append(current)
    return spread


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


def _higher_up(above: Sequence[tuple[Line, list[str] | None]]) -> list[str] | None:
    """Names for each column that stand higher than the line above the rows."""
    for _, cells in reversed(above):
        if cells and len(set(cells)) == len(cells) > 1 and all(map(_NAME.match, cells)) and all(cells):
            return cells
    return None


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
        return [_NUMBERED, *bare] if len(row) == width - 1 else [*bare, ""]
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
    numbers = sum(is_number(cell.strip()) for cell in cells)
    longer = separator != BLANKS and len(cells) > width and 2 * numbers < len(cells)
    if len(cells) > 1 and short and width > 1 and (not numbers or longer):
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
    if not {"start", "increment"} <= set(places) or max(places["start"], places["increment"]) >= len(below):
        return None
    start, step = below[places["start"]], below[places["increment"]]
    return (float(start), float(step)) if is_number(start) and is_number(step) else None


def named(names: Sequence[str], units: Sequence[str]) -> list[tuple[str, str]]:
    """Name and unit of each column, where splitting off units leaves names different."""
    pairs = [split_name(name) for name in names]
    counts = Counter(name for name, _ in pairs)
    # Beside "Temp (out)", "Temp (in)" is no temperature in inches.
    labels = {bare for bare, label in map(labelled, names) if label and not is_unit(label)}
    pairs = [
        (name, "")
        if unit and (counts[bare] > 1 or (bare in labels and len(unit) <= _SHORT and unit.isalpha()))
        else (bare, unit)
        for (bare, unit), name in zip(pairs, names, strict=True)
    ]
    return [(name, unit or (units[k] if k < len(units) else "")) for k, (name, unit) in enumerate(pairs)]
