"""Cells of a text table: which are numbers, dates or missing, and columns of text as numbers."""

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pandas as pd

from fim_dynsys.trajectories.reading.periods import is_period
from fim_dynsys.trajectories.reading.units import is_unit

# What people and programs write for a value that is missing, besides what pandas knows.
MISSING_TEXTS = (
    *(
        "",
        "-",
        "--",
        "---",
        "----",
        ".",
        "..",
        "...",
        "?",
        "*",
        "**",
        "na",
        "n.a.",
        "N.A.",
        "N.A",
        "nd",
        "ND",
        "n.d.",
    ),
    *(
        "NAN",
        "NaN",
        "nan",
        "NaN.",
        "NA",
        "N/A",
        "n/a",
        "NULL",
        "null",
        "None",
        "none",
        "<NA>",
        "#N/A",
        "#NA",
        "NAV",
    ),
    *("#N/A N/A", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN", "-NaN", "-nan", "+nan", "missing", "Missing"),
    *(
        "#DIV/0!",
        "#VALUE!",
        "#REF!",
        "#NUM!",
        "#NAME?",
        "#NULL!",
        "NaT",
        "\u2013",
        "\u2014",
        "MISSING",
        "nil",
        "\\N",
    ),
)
_MISSING = frozenset(MISSING_TEXTS)
_MINUS = "\u2212"  # of typesetters
_EXPONENT = r"(?:[eEdD][+-]?\d+)?"
_POINT = re.compile(rf"[+-]?(?:\d+\.?\d*|\.\d+){_EXPONENT}")
_COMMA = re.compile(rf"[+-]?(?:\d*,\d+){_EXPONENT}")
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
_THOUSANDS = {
    ",": re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?"),
    ".": re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+(?:,\d+)?"),
    "'": re.compile(r"[+-]?\d{1,3}(?:['\u2019]\d{3})+(?:[.,]\d+)?"),
    " ": re.compile(r"[+-]?\d{1,3}(?:[ \u00a0\u2009\u202f]\d{3})+(?:[.,]\d+)?"),
}
_DATE = re.compile(
    r"(?=.*\d)(?:\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}[^;|\t]*"
    r"|\d{1,3}:\d{2}(?::\d{2})?(?:[.,]\d+)?(?: ?[AaPp]\.?[Mm]\.?)?"
    r"|-?\d+ days?(?: \d{2}:\d{2}:\d{2}(?:\.\d+)?)?|\d{1,2}[- ][A-Za-z]{3,9}\.?,?[- ]\d{2,4}.*"
    r"|[A-Za-z]{3,9} \d{1,2},? \d{4}.*|\d{4}-\d{2}|[A-Za-z]{3} [A-Za-z]{3} +\d{1,2} .*\d{4}"
    r"|(?:19|20)\d{6}T\d{4,6}.*|[A-Za-z]{3,9}, \d{1,2} [A-Za-z]{3,9} \d{4}.*)"
)
_WITH_UNIT = re.compile(r"^([+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s.,+-].*)$")
_BEGINNING = re.compile(r"[^\w]*\d")


def is_missing(cell: str) -> bool:
    """Whether a cell stands for a missing value."""
    return cell in _MISSING


@lru_cache(maxsize=4096)
def is_number(cell: str) -> bool:
    """Whether a cell is a number, with a decimal point or comma."""
    cell = cell.replace(_MINUS, "-")
    if _POINT.fullmatch(cell) or _COMMA.fullmatch(cell) or _INFINITE.fullmatch(cell):
        return True
    return any(pattern.fullmatch(cell) for pattern in _THOUSANDS.values()) or bare_number(cell) != cell


def bare_number(cell: str) -> str:
    """A number without the unit that stands behind it; any other cell as it is."""
    found = _WITH_UNIT.match(cell)
    return found[1] if found and is_unit(found[2]) else cell


def begins_with_number(cell: str) -> bool:
    """Whether a cell begins with a number, as $1.50, (0.5), <0.1 and 1.2±0.1 do."""
    return _BEGINNING.match(cell) is not None


def in_disguise(cell: str) -> bool:
    """Whether a cell begins with a number and is none."""
    return begins_with_number(cell) and not is_number(cell.strip())


def is_date(cell: str) -> bool:
    """Whether a cell looks like a date or a time of day."""
    cell = cell.strip("'")
    return _DATE.fullmatch(cell) is not None or is_period(cell)


def marks(cells: Sequence[str]) -> tuple[str, str | None, bool]:
    """Decimal mark and mark of thousands of some numbers, and whether that is a guess.

    ``1,234`` may be either: it is one of thousands where other cells have decimal points, or several
    such marks; a decimal comma where other cells have another number of digits behind it.
    """
    commas = [cell for cell in cells if "," in cell]
    points = [cell for cell in cells if "." in cell]
    spaced = next(
        (mark for mark in ("'", " ") if any(_THOUSANDS[mark].fullmatch(cell) for cell in cells)), None
    )
    if not commas:
        several = [cell for cell in points if cell.count(".") > 1]
        return (",", ".", False) if several else (".", spaced, False)
    both = [cell for cell in commas if "." in cell]
    if both:
        last_is_comma = [cell.rindex(",") > cell.rindex(".") for cell in both]
        return (",", ".", False) if all(last_is_comma) else (".", ",", False)
    grouped = [_THOUSANDS[","].fullmatch(cell) is not None for cell in commas]
    if any(cell.count(",") > 1 for cell in commas) or (points and all(grouped)):
        return ".", ",", False
    if any(cell.count(".") > 1 for cell in points):
        return ",", ".", False
    # Decimal commas leave cells without a mark only where these are whole; leading zeros are no thousands.
    whole = [cell for cell in cells if "," not in cell and is_number(cell)]
    leading = any(re.match(r"[+-]?0\d*,", cell) for cell in commas)
    return ",", spaced, all(grouped) and not leading and bool(whole)


def as_numbers(cells: pd.Series, decimal: str = ".") -> tuple[np.ndarray, np.ndarray, str]:
    """A column of text as numbers: values, which cells are none, and the unit that all of them bear."""
    text = cells.astype("string").str.strip().str.lstrip("'")  # of spreadsheets, before numbers as text
    missing = (text.isna() | text.isin(MISSING_TEXTS)).to_numpy(dtype=bool)
    plain = text.str.replace(_MINUS, "-", regex=False).str.replace(
        r"(?<=\d)[dD](?=[+-]?\d+$)", "e", regex=True
    )
    # Thin and other blanks between thousands; pandas takes one mark only.
    plain = plain.str.replace(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))", "", regex=True)
    plain = plain if decimal == "." else plain.str.replace(decimal, ".", regex=False)
    values = pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = np.isnan(values) & ~missing
    unit = ""
    if wrong.any() and wrong.sum() == (~missing).sum():
        parts = plain[~missing].str.extract(_WITH_UNIT)
        if parts[1].notna().all() and parts[1].nunique() == 1 and is_unit(str(parts[1].iloc[0])):
            values = np.full(len(text), np.nan)
            values[~missing] = parts[0].astype(float)
            unit, wrong = str(parts[1].iloc[0]).strip(), np.zeros(len(text), dtype=bool)
    return values, wrong, unit
