"""Text tables that are wrapped in quotes, broken over lines or stand on their side, as others are written."""

import re

from fim_dynsys.trajectories.reading.clocks import is_time_name, is_unit_name, may_be_temperature
from fim_dynsys.trajectories.reading.lines import content_lines, find_separator, splitter, without_tail
from fim_dynsys.trajectories.reading.numbers import is_date, is_missing, is_number
from fim_dynsys.trajectories.reading.options import Notes, Options, refusal

_HEAD = 1 << 18  # bytes in which the layout of a table shows
_HEADERS = 40  # lines of a header, at most
_BROKEN = 1 << 13  # bytes in which cells of the header may hold line breaks
_COLUMNS = 8  # labels of a series, at most
_TIMES = 5  # times in a header, at least
_SUBJECTS = re.compile(  # a column of numbers called so names rows, each of which is a series
    r"(id|subject|patient|animal|mouse|rat|individual|participant|gene|replicate)s?"
    r"([ _]?(id|no|nr|number|#))?",
    re.IGNORECASE,
)
_BARE_SUBJECTS = re.compile(  # below bare numbers, which may be those of columns
    _SUBJECTS.pattern.replace("|individual|participant|gene|replicate", ""), re.IGNORECASE
)
_LABELLED = re.compile(  # t15, day 3, 30 min: times in a header of subjects
    r"(?P<label>(t|time|day|d|week|w|month|hour|h|min)[ _=]*)?(?P<time>\d+(\.\d+)?)"
    r"(?P<unit> ?(s|sec|min|h|hours?|d|days?|w|weeks?))?",
    re.IGNORECASE,
)
_PARTS_OF_YEARS = re.compile(  # months, weekdays, seasons and quarters
    r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?|q[1-4]|"
    r"spring|summer|autumn|fall|winter",
    re.IGNORECASE,
)
_WORD = 2  # letters of what labels a time; d10 and h2 are sizes and heights as well
_FEW_ROWS = 12  # of numbered subjects; more are samples
_VARIABLES = 64  # rows of a table that may stand on its side


def straightened(content: bytes, options: Options, notes: Notes) -> bytes:
    """Text with a line for each row, cells without wrapping, and a column for each variable."""
    content = content.replace("\u200b".encode(), b"")  # blanks of no width, out of web pages
    return _turned(_unbroken(_unwrapped(content, notes)), options, notes)


def _turned(content: bytes, options: Options, notes: Notes) -> bytes:
    """A table whose rows are variables and whose columns are times, turned; any other as it is."""
    if options.names is not None:
        return content
    wide = _of_times_in_a_row(content, options, notes)
    if wide is not None or content.count(b"\n") > _VARIABLES:
        return wide or content
    lines, _ = content_lines(content.decode("utf-8"), options.comment)
    if len(lines) < 2:
        return content
    split = splitter(find_separator(lines) if options.separator is None else options.separator)
    rows = [without_tail(split(line.text)) for line in lines]
    labels = [row[0] for row in rows if row]
    if len(rows[0]) <= max(len(rows), 3) or len(set(map(len, rows))) > 1 or len(set(labels)) < len(rows):
        return content
    if any(is_number(label) or is_date(label) for label in labels) or not all(
        is_number(cell) or is_missing(cell) for row in rows for cell in row[1:]
    ):
        return content
    notes.decide("rows are variables, columns are times: turned")
    return "".join("\t".join(column) + "\n" for column in zip(*rows, strict=True)).encode()


def _of_times_in_a_row(content: bytes, options: Options, notes: Notes) -> bytes | None:
    """A table with a row for each series below a header of labels and years or dates, turned."""
    lines, _ = content_lines(content[:_HEAD].decode("utf-8", "replace"), options.comment, _VARIABLES + 1)
    if len(lines) < 2:
        return None
    split = splitter(find_separator(lines) if options.separator is None else options.separator)
    header = without_tail(split(lines[0].text))
    bare, unit = _bare_times(header[1:])
    of_subjects = bool(bare) and _SUBJECTS.fullmatch(header[0]) is not None
    labels = next((k for k, cell in enumerate(header) if is_number(cell) or is_date(cell)), len(header))
    labels, times = (1, bare) if of_subjects else (labels, header[labels:])
    numbers = [float(cell) for cell in times if cell.replace(".", "", 1).isdigit()]
    growing = len(numbers) == len(times) and numbers == sorted(set(numbers))
    rows = [split(line.text)[: len(header)] for line in lines[1:]]
    named = all(row[:labels] and not all(map(is_number, row[:labels])) for row in rows)
    different = len({row[0] for row in rows if row}) == len(rows)
    named &= different or not of_subjects or times == header[1:]
    numbered = of_subjects and different and len(rows) <= _FEW_ROWS and _label_times(header, numbers)
    if (
        not 0 < labels < _COLUMNS
        or len(times) < _TIMES
        or not (growing or all(map(is_date, times)))
        or not (named or numbered)
    ):
        return None
    if len(lines) > _VARIABLES or len(content) > _HEAD:
        raise refusal(
            "a column for each variable",
            f"rows of them below the times {times[0]}, {times[1]}, ...",
            "pick the rows to be followed and write them as columns",
        )
    place = next((k for k in range(labels) if len({row[k] for row in rows}) == len(rows)), None)
    called = [row[place] if place is not None else " ".join(filter(None, row[:labels])) for row in rows]
    called = called if named else [f"{header[0]} {label}" for label in called]
    notes.decide("rows are series, columns are times: turned")
    # Cycles are numbered above a row of times.
    says_unit = labels == 1 and (is_time_name(header[0]) or is_unit_name(header[0]))
    says_unit &= not may_be_temperature(header[0])
    says_unit &= not all(map(_PARTS_OF_YEARS.fullmatch, called))  # the corner names the rows
    first = header[0] if says_unit or (any(map(is_time_name, called)) and header[0]) else "time"
    first += unit if of_subjects else ""
    columns = [[first, *times], *([name, *row[labels:]] for name, row in zip(called, rows, strict=True))]
    height = max(map(len, columns))
    padded = [column + [""] * (height - len(column)) for column in columns]
    return "".join("\t".join(row) + "\n" for row in zip(*padded, strict=True)).encode()


def _label_times(header: list[str], numbers: list[float]) -> bool:
    """Whether a header above numbered rows has times: called so, or from zero on beside subjects."""
    labels = "".join(re.findall("[a-zA-Z]+|=", header[1]))
    if len(labels) >= _WORD:
        return True
    from_zero = numbers[0] == 0 and numbers[-1] > len(numbers)  # and no 0, 1, 2, ... of columns
    return labels in ("", "t") and from_zero and _BARE_SUBJECTS.fullmatch(header[0]) is not None


def _bare_times(cells: list[str]) -> tuple[list[str], str]:
    """Numbers of cells like ``t15`` or ``30 min`` that are labelled alike, and their unit; or none."""
    found = [match for cell in cells if (match := _LABELLED.fullmatch(cell.strip()))]
    alike = len(found) == len(cells) and len({(match["label"], match["unit"]) for match in found}) == 1
    if not alike:
        return [], ""
    unit = (found[0]["unit"] or found[0]["label"] or "").strip(" _=")
    return [match["time"] for match in found], f" ({unit})" if unit.lower() not in ("", "t", "time") else ""


def _unwrapped(content: bytes, notes: Notes) -> bytes:
    """Cells out of what spreadsheets put round them: quotes round a whole line, ``="1.5"`` for text."""
    first = content[:_BROKEN].split(b"\n")[:_HEADERS]
    filled = [line for line in first if line.strip()]
    whole = [line for line in filled if re.fullmatch(rb'"[^"]*[,;\t][^"]*"\s*', line)]
    if len(filled) > 1 and len(whole) == len(filled) and (len({b";" in line for line in filled}) == 1):
        notes.say("quotes round whole lines left out")
        return content.replace(b'"', b"")
    if content[:_BROKEN].count(b'="') > len(filled):
        content = content.replace(b'="', b'"')
    return content


def _unbroken(content: bytes) -> bytes:
    """A head whose quoted cells hold line breaks, with blanks instead; any other as it is."""
    head, rows = content[:_BROKEN], content[_BROKEN:]
    if b'"' not in head:
        return content
    lines = head.split(b"\n")
    for _ in range(len(lines)):
        # A line of an odd number of quotes ends inside a cell, if one of the next lines closes it.
        k = next((k for k, line in enumerate(lines[:_HEADERS]) if line.count(b'"') % 2), None)
        if k is None or not any(line.count(b'"') % 2 for line in lines[k + 1 : k + _HEADERS]):
            break
        lines[k : k + 2] = [lines[k].rstrip(b" ") + b" " + lines[k + 1]]
    return b"\n".join(lines) + rows
