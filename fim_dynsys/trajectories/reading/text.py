"""Text tables, whatever instrument or person wrote them, as a table of columns."""

import io
import re
import warnings
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from fim_dynsys.trajectories.reading.columns import is_numeric
from fim_dynsys.trajectories.reading.header import Head, read_head
from fim_dynsys.trajectories.reading.lines import (
    BLANKS,
    COMMENTS,
    content_lines,
    find_separator,
    splitter,
    without_tail,
)
from fim_dynsys.trajectories.reading.names import named
from fim_dynsys.trajectories.reading.numbers import MISSING_TEXTS, as_numbers, is_date, is_missing, is_number
from fim_dynsys.trajectories.reading.options import Notes, Options, refusal
from fim_dynsys.trajectories.reading.units import bare_unit

_HEAD = 1 << 18  # bytes in which the layout of a table shows
_BROKEN = 1 << 13  # bytes in which cells of the header may hold line breaks
_HEADERS = 40  # lines of a header, at most
_BLOCK = 5  # rows of a block between blank lines, at least on average
_COLUMNS = 8  # labels of a series, at most
_TIMES = 5  # times in a header, at least
_VARIABLES = 64  # rows of a table that may stand on its side
_FAR = 5.0  # ranges of all other values that a code for missing ones is away from them
_CHOSEN = 8  # different values of a quantity that is set, at most
_APART = 20.0  # ranges of all others that a first row is away which is no sample
_ENOUGH = 8  # rows in which one shows to be unlike the others
_CODES = frozenset(
    float(code)
    for code in [
        "-9",
        "-99",
        "-999",
        "-9999",
        "-99999",
        "-99.9",
        "-99.99",
        "-999.9",
        "-999.99",
        "-9999.9",
        "-999.25",
        "999",
        "9999",
        "99999",
        "999.9",
        "9999.9",
        "1e30",
        "-1e30",
        "9.9e37",
        "9.91e37",
        "9.969209968386869e36",
        "1e20",
        "1e10",
        "-1e10",
    ]
)


@dataclass(frozen=True)
class Table:
    """Columns of a file.

    Attributes
    ----------
    frame : DataFrame
        Columns of numbers, dates and text.
    units : dict
        By column.
    written : dict
        What the file calls each column, where a unit was split off.
    has_names : bool
        Whether the file has names for them.
    clock : tuple of float or None
        Start and step of evenly spaced times that no column holds.
    step : float or None
        Time between rows that the file states, used where no column is the time.
    """

    frame: pd.DataFrame
    units: dict[str, str] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    has_names: bool = True
    clock: tuple[float, float] | None = None
    step: float | None = None


def read_text(name: str, content: bytes, options: Options, notes: Notes) -> Table:
    """Read a text table.

    Parameters
    ----------
    name : str
        Of the file, for errors.
    content : bytes
        In UTF-8, lines ended by a line feed.
    options : Options
        What is known of it.
    notes : Notes
        Is added to.

    Raises
    ------
    ValueError
        Where it is no table, or cells are not what the rest of their column is.
    """
    content = _turned(_unbroken(content), options, notes)
    beginning = content[:_HEAD]
    if len(content) > _HEAD:
        beginning = beginning[: beginning.rfind(b"\n") + 1] or beginning
    head = read_head(name, beginning.decode("utf-8", "replace"), options, notes)
    body = _rows_alone(content, head, options, notes)
    frame = _parsed(name, body, head, options)
    frame = _whole_rows(name, body, head, frame, options, notes)
    _check_end(content, head, frame, notes)
    columns, suffixed = _converted(name, frame, head, options, notes)
    return _labelled(columns, suffixed, head, notes)


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
    labels = next((k for k, cell in enumerate(header) if is_number(cell) or is_date(cell)), len(header))
    times = header[labels:]
    numbers = [float(cell) for cell in times if cell.replace(".", "", 1).isdigit()]
    growing = len(numbers) == len(times) and numbers == sorted(set(numbers))
    rows = [split(line.text)[: len(header)] for line in lines[1:]]
    named = all(row[:labels] and not all(map(is_number, row[:labels])) for row in rows)
    if (
        not 0 < labels < _COLUMNS
        or len(times) < _TIMES
        or not (growing or all(map(is_date, times)))
        or not named
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
    notes.decide("rows are series, columns are times: turned")
    columns = [["time", *times], *([name, *row[labels:]] for name, row in zip(called, rows, strict=True))]
    height = max(map(len, columns))
    padded = [column + [""] * (height - len(column)) for column in columns]
    return "".join("\t".join(row) + "\n" for row in zip(*padded, strict=True)).encode()


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


def _rows_alone(content: bytes, head: Head, options: Options, notes: Notes) -> bytes:
    """The content from the first row on, without comments and without the header where it is repeated."""
    place = 0
    for _ in range(head.first):
        place = content.index(b"\n", place) + 1
    header = set(content[:place].strip(b"\n").split(b"\n")[-2:]) if head.names is not None else set()
    header = {line for line in header if line.strip() and content.find(b"\n" + line + b"\n", place) >= 0}
    _check_parts(content, place, notes)
    marks = [m.encode() for m in ((options.comment,) if options.comment is not None else COMMENTS)]
    marks = [mark for mark in marks if content.find(mark, place) >= 0]
    if not marks and not header:
        return content[place:]
    kept, dropped, repeated = [], 0, 0
    for line in content[place:].split(b"\n"):
        bare = line.lstrip(b' \t"')
        if line in header:
            repeated += 1
        elif any(bare.startswith(mark) for mark in marks) and not bare.startswith(
            (b"#N", b"#D", b"#V", b"#R")
        ):
            dropped += 1
        else:
            kept.append(line)
    if dropped:
        notes.say(f"skipped {dropped} comment line{'s' * (dropped > 1)} among the rows")
    if repeated:
        notes.decide(f"skipped {repeated} line{'s' * (repeated > 1)} among the rows that repeat the header")
    return b"\n".join(kept)


def _check_parts(content: bytes, place: int, notes: Notes) -> None:
    """Say where blank lines part the rows into a few blocks, which may be trajectories."""
    if content.find(b"\n\n", place) < 0:
        return
    body = content[place:].strip(b"\n")
    blocks = len(re.findall(rb"\n(?:[ \t]*\n)+", body)) + 1
    if 1 < blocks <= (body.count(b"\n") + 1) / _BLOCK:
        notes.decide(f"blank lines part the rows into {blocks} blocks, which are read below each other")


def _parsed(name: str, body: bytes, head: Head, options: Options) -> pd.DataFrame:
    texts, _ = options.missing_values
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            warnings.simplefilter("ignore", pd.errors.DtypeWarning)  # mixed columns are converted below
            return pd.read_csv(
                io.BytesIO(body),
                sep=head.separator,
                header=None,
                names=list(range(head.width)),
                index_col=False,
                decimal=head.decimal,
                thousands=head.thousands,
                na_values=[*MISSING_TEXTS, *texts],
                skipinitialspace=head.separator != BLANKS,
                encoding="utf-8",
                engine="c" if head.separator == BLANKS or len(head.separator) == 1 else "python",
                on_bad_lines="error" if options.bad_rows == "error" else "skip",
            )
    except (
        pd.errors.ParserError,
        pd.errors.ParserWarning,
        ValueError,
        OverflowError,
        RecursionError,
    ) as error:
        found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
        if found:
            raise refusal(
                f"{found[1]} cells in each row",
                f"{found[3]} in row {found[2]} of {name!r}",
                'mend it, or give separator=, decimal= or bad_rows="drop"',
            ) from error
        raise refusal("a table", f"{name!r}: {' '.join(str(error).split())}") from error


def _whole_rows(
    name: str, body: bytes, head: Head, frame: pd.DataFrame, options: Options, notes: Notes
) -> pd.DataFrame:
    """The rows that have all their cells; pandas fills up shorter ones in silence."""
    filled = [column for column in frame if frame[column].notna().any()]
    if not filled or not frame[filled[-1]].isna().any():
        return frame
    split = splitter(head.separator)
    lines = body.decode("utf-8").split("\n")
    counts = np.array([len(split(line)) for line in lines if line.strip()])
    if len(counts) != len(frame):
        return frame  # cells with line breaks in quotes
    short = counts < np.bincount(counts).argmax()
    if not short.any():
        return frame
    if options.bad_rows == "drop":
        notes.decide(f"dropped {int(short.sum())} rows that are too short")
        return frame[~short].reset_index(drop=True)
    row = int(np.argmax(short))
    last = " (the last: the file may be cut off)" if row == len(frame) - 1 else ""
    raise refusal(
        f"{head.width} cells in each row",
        f"{counts[row]} in row {row + 1} of {name!r}{last}",
        'mend it, or give bad_rows="drop"',
    )


def _check_end(content: bytes, head: Head, frame: pd.DataFrame, notes: Notes) -> None:
    """A file that ends within a line may be cut off within a number."""
    if content.endswith(b"\n") or len(frame) < 3:
        return
    split = splitter(head.separator)
    last = [
        without_tail(split(line.decode("utf-8", "replace")))[-1:]
        for line in content[-2000:].split(b"\n")[-3:]
    ]
    decimals = [len(cell[0].partition(head.decimal)[2]) if cell else 0 for cell in last]
    if len(decimals) == 3 and decimals[2] < min(decimals[:2]):
        notes.decide("the last line has no end and fewer digits: the file may be cut off")


def _converted(
    name: str, frame: pd.DataFrame, head: Head, options: Options, notes: Notes
) -> tuple[dict[int, pd.Series], dict[int, str]]:
    """Columns by place, text that means numbers as numbers; and units that stood behind these."""
    columns: dict[int, pd.Series] = {}
    suffixed: dict[int, str] = {}
    wrong_rows = np.zeros(len(frame), dtype=bool)
    _, codes = options.missing_values
    for place in frame:
        column = frame[place]
        if column.dtype == bool:
            notes.decide(f"column {place + 1}: True and False as 1 and 0")
            column = column.astype(float)
        elif not is_numeric(column):
            values, wrong, unit = as_numbers(column, head.decimal)
            kept = np.isfinite(values)
            dated = column.dropna().astype(str).head(50).map(lambda cell: is_date(cell.strip())).mean() > 0.5
            if (wrong.sum() < kept.sum() or not wrong.any()) and not dated:
                if wrong.any() and options.bad_rows == "error":
                    row = int(np.argmax(wrong))
                    label = head.names[place] if head.names else f"column {place + 1}"
                    raise refusal(
                        f"numbers in column {label!r}",
                        f"{str(column.iloc[row])[:40]!r} in row {row + 1} of {name!r}",
                        'mend it, give missing= if it stands for a missing value, or bad_rows="drop"',
                    )
                wrong_rows |= wrong
                column = pd.Series(values)
                if unit:
                    suffixed[place] = unit
        if codes and is_numeric(column):
            column = column.where(~column.isin(codes))
        columns[int(place)] = column
    if wrong_rows.any():
        notes.decide(f"dropped {int(wrong_rows.sum())} rows with text where numbers stand")
        columns = {place: column[~wrong_rows].reset_index(drop=True) for place, column in columns.items()}
    if options.missing is None:
        _check_codes(name, columns, head)
    if options.names is None:
        _check_first(name, columns)
    return columns, suffixed


def _check_codes(name: str, columns: dict[int, pd.Series], head: Head) -> None:
    """Refuse numbers that many programs write for missing values, where they are far from all others."""
    for place, column in columns.items():
        if not is_numeric(column):
            continue
        values = column.to_numpy(dtype=float, na_value=np.nan)
        extremes = {np.nanmin(values), np.nanmax(values)} if np.isfinite(values).any() else set()
        for extreme in extremes & (_CODES | ({0.0} if _drops_out(values) else set())):
            rest = values[np.isfinite(values) & (values != extreme)]
            if rest.size > 2 and np.min(np.abs(rest - extreme)) > _FAR * max(
                np.ptp(rest), 0.1 * np.abs(rest).max()
            ):
                label = head.names[place] if head.names else f"column {place + 1}"
                raise refusal(
                    f"values of one size in column {label!r}",
                    f"{extreme:g} in {int((values == extreme).sum())} rows of {name!r}, far from all others",
                    f"give missing={extreme:g} if it stands for missing values, missing=[] if not",
                )


def _drops_out(values: np.ndarray) -> bool:
    """Whether zeros stand alone between values of a quantity that varies and is never near zero."""
    zero = values == 0
    inside = zero[1:-1] & ~zero[:-2] & ~zero[2:]
    rest = values[~zero & np.isfinite(values)]
    return bool(0 < zero.sum() == inside.sum()) and len(np.unique(rest)) > max(_CHOSEN, 0.1 * len(rest))


def _check_first(name: str, columns: dict[int, pd.Series]) -> None:
    """Refuse a first row of whole numbers far from all others, which is one of counts or of channels."""
    far = {}
    for place, column in columns.items():
        if not is_numeric(column) or not column.notna().any():
            continue
        values = column.to_numpy(dtype=float, na_value=np.nan)
        rest = values[1:][np.isfinite(values[1:])]
        if len(rest) < _ENOUGH or (rest == np.floor(rest)).all():
            continue
        first, spread = values[0], max(np.ptp(rest), 0.1 * np.abs(rest).max())
        far[place] = bool(first == np.floor(first) and np.abs(rest - first).min() > _APART * spread)
    # The first column may be the time, whose first cell is near.
    judged = [is_far for place, is_far in far.items() if place or len(far) == 1]
    if judged and all(judged):
        shown = [f"{columns[place].iloc[0]:g}" for place in far]
        raise refusal(
            "samples in each row",
            f"{', '.join(shown)} in the first row of {name!r}, far from all others",
            "delete that row if it holds counts or names, give names= if it is a sample",
        )


def _labelled(columns: dict[int, pd.Series], suffixed: dict[int, str], head: Head, notes: Notes) -> Table:
    frame = pd.DataFrame(columns)
    if head.names is None:
        labels = [f"column {place + 1}" for place in columns]
        frame.columns = pd.Index(labels)
        units = {labels[k]: unit for k, unit in suffixed.items()}
        return Table(frame, units, {}, False, head.clock, head.step)
    pairs = named(head.names, [bare_unit(unit) for unit in head.units])
    labels, units, written = [], {}, {}
    for place, (label, unit) in enumerate(pairs):
        base = label or f"column {place + 1}"
        label, k = base, 0
        while label in labels:
            k += 1
            label = f"{base}.{k}"
        if k:
            notes.decide(f"second column {base!r} called {label!r}")
        labels.append(label)
        unit = unit or suffixed.get(place, "")
        if unit:
            units[label] = unit
        written[label] = head.names[place]
    frame.columns = pd.Index(labels)
    if units:
        notes.say("units: " + ", ".join(f"{label} in {unit}" for label, unit in units.items()))
    return Table(frame, units, written, True, head.clock, head.step)
