"""Spreadsheets, and tables whose columns have types."""

import datetime as dt
import io
from typing import Any

import pandas as pd

from fim_dynsys.trajectories.reading.names import named
from fim_dynsys.trajectories.reading.options import Notes, Options, quoted, refusal
from fim_dynsys.trajectories.reading.text import Table

_DAY_ZERO, _A_MONTH = dt.datetime(1899, 12, 31), dt.timedelta(days=60)  # of a spreadsheet's clock
_INSTALL = 'pip install ".[files]" in a clone of the repository'


def sheet_as_text(name: str, content: bytes, options: Options, notes: Notes) -> bytes:
    """A sheet of an Excel file as comma-separated text, which is read as any other.

    Raises
    ------
    ValueError
        Where it cannot be read, or several sheets hold a table.
    ImportError
        Where openpyxl is not installed.
    """
    sheets = _loaded(
        name,
        "excel",
        lambda: pd.read_excel(io.BytesIO(content), sheet_name=None, header=None, engine="openpyxl"),
    )
    filled = {key: sheet for key, sheet in sheets.items() if not sheet.empty and sheet.notna().any(axis=None)}
    if options.sheet is not None:
        if options.sheet not in sheets:
            raise refusal(f"sheet= among {quoted(sheets)}", repr(options.sheet))
        sheet = sheets[options.sheet]
    elif len(filled) == 1:
        sheet = next(iter(filled.values()))
    elif len(tables := [sheet for sheet in filled.values() if _holds_numbers(sheet)]) == 1:
        sheet = tables[0]
        notes.decide("the only sheet with rows of numbers (sheet=)")
    else:
        raise refusal(
            "one sheet with a table", f"{len(filled)} in {name!r}: {quoted(filled)}", "choose one by sheet="
        )
    if len(sheets) > 1:
        notes.say(f"sheet {next(key for key, table in sheets.items() if table is sheet)!r}")
    return (
        sheet.apply(_with_durations)
        .to_csv(header=False, index=False, lineterminator="\n", date_format="%Y-%m-%dT%H:%M:%S.%f")
        .encode()
    )


def _with_durations(column: pd.Series) -> pd.Series:
    """A column with durations as hours, minutes and seconds, of which there may be more than a day.

    A cell of ``h:mm:ss`` is a time of day where it is below a day, and a date in January 1900 where not.
    """
    if not any(isinstance(cell, dt.timedelta | dt.time) for cell in column):
        return column

    def written(cell: Any) -> Any:
        if isinstance(cell, dt.datetime) and cell - _DAY_ZERO < _A_MONTH:
            cell = cell - _DAY_ZERO
        if isinstance(cell, dt.time):
            cell = dt.datetime.combine(_DAY_ZERO, cell) - _DAY_ZERO
        if not isinstance(cell, dt.timedelta) or pd.isna(cell):
            return cell
        sign = "-" if cell < dt.timedelta(0) else ""
        seconds, rest = divmod(round(abs(cell) / dt.timedelta(microseconds=1)), 1_000_000)
        fraction = f".{rest:06d}" if rest else ""
        return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"

    return column.map(written)


def _holds_numbers(sheet: pd.DataFrame) -> bool:
    """Whether two rows or more hold numbers, or dates."""
    held = sheet.map(lambda cell: pd.notna(cell) and not isinstance(cell, str))
    return int(held.any(axis=1).sum()) > 1


def read_typed(name: str, content: bytes, kind: str, notes: Notes) -> Table:
    """A Parquet or Feather file.

    Raises
    ------
    ValueError
        Where it cannot be read.
    ImportError
        Where pyarrow is not installed.
    """
    read = pd.read_parquet if kind == "parquet" else pd.read_feather
    frame = _loaded(name, kind, lambda: read(io.BytesIO(content)))
    if any(level is not None for level in frame.index.names) or frame.index.dtype.kind in "fmM":
        frame = frame.reset_index(names="t" if frame.index.name is None else frame.index.name)
    pairs = named([str(column) for column in frame.columns], [])
    written = {label: str(column) for (label, _), column in zip(pairs, frame.columns, strict=True)}
    frame.columns = pd.Index([label for label, _ in pairs])
    if not frame.columns.is_unique:
        raise refusal("columns of different names", f"{quoted(frame.columns)} in {name!r}")
    return Table(
        frame.astype({c: float for c in frame if frame[c].dtype == bool}),
        {n: unit for n, unit in pairs if unit},
        written,
    )


def _loaded(name: str, kind: str, load: Any) -> Any:
    try:
        return load()
    except ImportError as error:
        raise ImportError(
            f"Trajectories.from_file: expected the package that reads {kind} files for {name!r}, got none; "
            f"install it by {_INSTALL}"
        ) from error
    except Exception as error:  # of a damaged file the readers raise whatever they run into
        raise refusal(f"a file of kind {kind}", f"{name!r}: {' '.join(str(error).split())[:200]}") from error
