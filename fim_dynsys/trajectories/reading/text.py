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
    splitter,
    without_tail,
)
from fim_dynsys.trajectories.reading.names import named
from fim_dynsys.trajectories.reading.numbers import (
    MISSING_TEXTS,
    as_numbers,
    begins_with_number,
    is_date,
    is_number,
)
from fim_dynsys.trajectories.reading.options import Notes, Options, refusal
from fim_dynsys.trajectories.reading.straightening import straightened
from fim_dynsys.trajectories.reading.suspects import GIVE_MISSING, check_codes, check_first_row
from fim_dynsys.trajectories.reading.units import bare_unit, clock_format
from fim_dynsys.wording import counted

_HEAD = 1 << 18  # bytes in which the layout of a table shows
_BLOCK = 5  # rows of a block between blank lines, at least on average
_BESIDE = 20  # rows beside which facts about a record may stand
_FACTS = 3  # different texts, at least, where facts stand beside more than a fifth of the rows
_SWITCHES = (
    ("true", "false"),
    ("t", "f"),
    ("yes", "no"),
    ("y", "n"),
    ("on", "off"),
    ("open", "closed"),
    ("high", "low"),
    ("ja", "nein"),
    ("ein", "aus"),
    ("an", "aus"),
    ("oui", "non"),
    ("wahr", "falsch"),
    ("active", "inactive"),
    ("enabled", "disabled"),
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
    arrays : dict
        Columns of each array of a file of arrays.
    """

    frame: pd.DataFrame
    units: dict[str, str] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    has_names: bool = True
    clock: tuple[float, float] | None = None
    step: float | None = None
    arrays: dict[str, list[str]] = field(default_factory=dict)


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
    content = straightened(content, options, notes)
    beginning = content[:_HEAD]
    if len(content) > _HEAD:
        beginning = beginning[: beginning.rfind(b"\n") + 1] or beginning
    head = read_head(name, beginning.decode("utf-8", "replace"), content.count(b"\n"), options, notes)
    body = _rows_alone(content, head, options, notes)
    frame = _parsed(name, body, head, options)
    longer = sum(bool(line.strip()) for line in body.split(b"\n")) - len(frame)
    if options.bad_rows == "drop" and longer > 0:
        notes.decide(f"dropped {counted(longer, 'row')} with more cells than the others")
    frame = _whole_rows(name, body, head, frame, options, notes)
    _check_end(content, head, frame, notes)
    columns, suffixed = _converted(name, frame, head, options, notes)
    return _labelled(columns, suffixed, head, notes)


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
                dtype=dict.fromkeys(head.dates, str) if head.thousands else None,
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
                'correct it, or give separator=, decimal= or bad_rows="drop"',
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
        notes.decide(f"dropped {counted(int(short.sum()), 'row')} for want of columns")
        return frame[~short].reset_index(drop=True)
    row = int(np.argmax(short))
    last = " (the last: the file may be cut off)" if row == len(frame) - 1 else ""
    raise refusal(
        f"{head.width} cells in each row",
        f"{counts[row]} in row {row + 1} of {name!r}{last}",
        'correct it, or give bad_rows="drop"',
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
        switch = _switched(column)
        if switch is not None:
            column, on, off = switch
            label = head.names[place] if head.names else f"column {place + 1}"
            notes.decide(f"{label}: {on} and {off} as 1 and 0")
        elif not is_numeric(column) and not stands_beside(column):
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
                        'correct it, give missing= if it stands for a missing value, or bad_rows="drop"',
                    )
                wrong_rows |= wrong
                column = pd.Series(values)
                if unit:
                    suffixed[place] = unit
        if codes and is_numeric(column):
            column = column.where(~column.isin(codes))
        columns[int(place)] = column
    if wrong_rows.any():
        notes.decide(f"dropped {counted(int(wrong_rows.sum()), 'row')} with text where numbers stand")
        columns = {place: column[~wrong_rows].reset_index(drop=True) for place, column in columns.items()}
    if options.missing is None:
        numeric = [
            (head.names[p] if head.names else f"column {p + 1}", c.to_numpy(dtype=float, na_value=np.nan))
            for p, c in columns.items()
            if is_numeric(c)
        ]
        check_codes(name, numeric, GIVE_MISSING)
    if options.names is None:
        check_first_row(name, columns)
    return columns, suffixed


def _switched(column: pd.Series) -> tuple[pd.Series, str, str] | None:
    """A column of two opposite words as 1 and 0, and these words; None for any other."""
    if column.dtype == bool:
        return column.astype(float), "True", "False"
    if is_numeric(column):
        return None
    words = {str(cell): str(cell).strip().lower() for cell in column.dropna().unique()[:3]}
    found = next((pair for pair in _SWITCHES if set(words.values()) == set(pair)), None)
    if found is None:
        return None
    on, off = (next(word for word, lower in words.items() if lower == state) for state in found)
    return column.map(lambda cell: float(str(cell) == on), na_action="ignore").astype(float), on, off


def stands_beside(column: pd.Series) -> bool:
    """Whether text and numbers stand in the first rows only: facts about the record, beside its rows."""
    filled = np.flatnonzero(column.notna())
    if len(column) < _BESIDE or len(filled) < 2:
        return False
    texts = {str(cell).strip() for cell in column.dropna() if not is_number(str(cell).strip())}
    few = filled[-1] < len(column) / 5
    facts = len(texts) >= _FACTS and not any(map(begins_with_number, texts))
    return bool(texts) and (few or (facts and filled[-1] < min(_BESIDE, len(column) / 2)))


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
    said = [
        f"{label} in {unit}"
        for label, unit in units.items()
        if is_numeric(frame[label]) and clock_format(unit) is None
    ]
    if said:  # dates are read in seconds, whatever stands in the header
        notes.say(f"units: {', '.join(said)}")
    return Table(frame, units, written, True, head.clock, head.step)
