"""Lines of a text table: which are comments or preamble, and how a line splits into cells."""

import csv
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fim_dynsys.trajectories.reading.numbers import is_date, is_missing, is_number

COMMENTS = ("#", "%", "//", "!", "@")
BLANKS = r"\s+"
"""Separator of columns that any number of blanks keep apart."""
_SEPARATORS = (",", ";", "\t", "|", BLANKS)
_RULE = re.compile(r"^[\s|+:=_-]*[-=_]{3}[\s|+:=_-]*$")  # a line drawn under a header
_SOME = 60  # lines that show how all are split
_ENOUGH = 0.9  # share of the lines that a separator has to split alike


@dataclass(frozen=True)
class Line:
    """A line that is neither blank nor a comment, with its number in the file from 0."""

    number: int
    text: str


def content_lines(head: str, comment: str | None, most: int | None = None) -> tuple[list[Line], list[Line]]:
    """Lines with content, so many at most, and comments without their marks."""
    lines: list[Line] = []
    comments: list[Line] = []
    starts = (comment,) if comment is not None else COMMENTS
    for number, text in enumerate(head.split("\n")):
        if len(lines) == most:
            break
        bare = text.strip()
        if not bare or (_RULE.match(text) and not any(map(is_number, bare.split()))):
            continue
        mark = next((mark for mark in starts if bare.lstrip('"').startswith(mark)), None)
        # `#N/A` begins a row of missing values, `# of cells` or `#,x,v` a header.
        if mark == "#" and (
            bare.startswith(("#N", "#D", "#V", "#R")) and is_missing(re.split(r"[,;\t ]", bare)[0])
        ):
            mark = None
        if mark == "#" and re.match(r'"?#"?[,;\t]', bare) and not comments:
            mark = None
        if mark is None:
            lines.append(Line(number, text))
        elif mark != "@":  # settings of a plot
            comments.append(Line(number, bare.lstrip('"')[len(mark) :].lstrip(mark[0]).strip().rstrip('"')))
    return lines, comments


def splitter(separator: str) -> Callable[[str], list[str]]:
    """What splits a line into cells without blanks and quotes round them."""
    delimiter = " " if separator == BLANKS else separator

    def split(text: str) -> list[str]:
        if separator == BLANKS:
            text = re.sub(r"\s+", " ", text.strip())
        if len(delimiter) > 1:
            return [cell.strip().strip("\"'") for cell in text.split(delimiter)]
        try:
            cells = next(csv.reader([text], delimiter=delimiter, skipinitialspace=True), [])
        except csv.Error:
            cells = text.split(delimiter)
        return [" ".join(cell.split()).strip("'\u00a0") for cell in cells]

    return split


def without_tail(cells: list[str]) -> list[str]:
    """Cells without the empty ones at their end."""
    n = len(cells)
    while n and not cells[n - 1]:
        n -= 1
    return cells[:n]


def find_separator(lines: Sequence[Line], decimal: str | None = None) -> str:
    """The separator that splits the later lines most alike into the most cells that are numbers or dates.

    `csv.Sniffer` guesses by frequencies of characters: it refuses aligned columns, and takes the commas of a
    preamble or of decimal numbers for separators. Here what the cells are decides.
    """
    body = [line.text for line in lines[len(lines) // 2 :][:_SOME]]
    best, found = (-1.0, -1.0), _SEPARATORS[decimal == ","]
    for separator in _SEPARATORS:
        if separator == decimal:
            continue
        split = splitter(separator)
        rows = [split(text) for text in body]
        counts = Counter(len(row) for row in rows)
        common, times = counts.most_common(1)[0] if counts else (0, 0)
        alike = times / max(len(rows), 1)
        cells = [cell for row in rows if len(row) == common for cell in row]
        known = [is_missing(cell) or is_number(cell) or is_date(cell) for cell in cells]
        share = sum(known) / max(len(known), 1)
        filled = [cell for cell in cells if cell and is_number(cell)]
        if alike < _ENOUGH and len(rows) > 2:
            share *= alike / 2
        # Text columns are no numbers whatever the separator, so that shares are compared in tenths.
        score = (round(10 * share), min(common, 1 + len(filled) / max(len(rows), 1)))
        if (common > 1 or separator == _SEPARATORS[decimal == ","]) and score > best:
            best, found = score, separator
    return found
