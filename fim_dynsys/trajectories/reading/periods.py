"""Months, quarters and weeks, as cells of a table write them."""

import re

import numpy as np
import pandas as pd

_MONTHS = (  # their names in English, German, French, Spanish and Italian, whole or cut short
    "jan(?:uary|uar|vier)?|ene(?:ro)?|gen(?:naio)?|jänner",
    "feb(?:ruary|ruar|rero|braio)?|f[ée]v(?:rier)?",
    "mar(?:ch|s|zo)?|märz?|mrz",
    "apr(?:il|ile)?|avr(?:il)?|abr(?:il)?",
    "may|mai|mayo|mag(?:gio)?",
    "june?|juni|juin|junio|giu(?:gno)?",
    "july?|juli|juil(?:let)?|julio|lug(?:lio)?",
    "aug(?:ust)?|ao[ûu]t?|ago(?:sto)?",
    "sept?(?:ember|embre|iembre)?|set(?:tembre)?",
    "oct(?:ober|obre|ubre)?|okt(?:ober)?|ott(?:obre)?",
    "nov(?:ember|embre|iembre)?",
    "dec(?:ember)?|dez(?:ember)?|d[ée]c(?:embre)?|dic(?:iembre|embre)?",
)
_MONTH = [re.compile(rf"(?:{names})\.?", re.IGNORECASE) for names in _MONTHS]
_WORD = rf"(?:{'|'.join(_MONTHS)})\.?"
_YEAR = r"(?P<year>(?:1[5-9]|20|21)\d\d)"
_FORMS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"{_YEAR}[ /-]?Q(?P<quarter>[1-4])",
        rf"Q(?P<quarter>[1-4])[ /-]?{_YEAR}",
        rf"{_YEAR}[ -]?W(?P<week>[0-5]?\d)",
        rf"{_YEAR}M(?P<month>[01]?\d)",
        rf"(?P<month>[01]?\d)[/-]{_YEAR}",
        rf"(?P<word>{_WORD})[ ,./'-]*{_YEAR}",
        rf"{_YEAR}[ ,./-]*(?P<word>{_WORD})",
        rf"(?P<word>{_WORD})['-](?P<short>\d\d)",
    )
)
_DAY = re.compile(rf"(?P<day>\d{{1,2}})\.? ?(?P<word>{_WORD})(?P<rest>,? \d{{4}}.*)", re.IGNORECASE)
_CENTURY = 69  # years of two digits from here on are of the last century, as in POSIX


def with_century(year: pd.Series) -> pd.Series:
    """Years of two digits as whole ones, as POSIX reads them."""
    return year + np.where(year >= _CENTURY, 1900, 2000)


def month_of(word: str) -> int | None:
    """Number of a month by its name in one of five languages, whole or cut short; None for another word.

    >>> month_of("Mai"), month_of("décembre"), month_of("trial")
    (5, 12, None)
    """
    return next((k for k, names in enumerate(_MONTH, start=1) if names.fullmatch(word.strip())), None)


def is_period(cell: str) -> bool:
    """Whether a cell is a month, quarter or week of a year, or a date with a month by name."""
    return any(form.fullmatch(cell) for form in _FORMS) or _DAY.fullmatch(cell) is not None


def as_stamps(text: pd.Series) -> pd.Series | None:
    """The first days of months, quarters or weeks, all written alike; None for other text."""
    filled = text.dropna()
    for form in _FORMS:
        if not all(map(form.fullmatch, filled)):
            continue
        parts = text.str.extract(form)
        year = pd.to_numeric(parts["year"] if "year" in parts else parts["short"]).astype("Int64")
        if "short" in parts:
            year = with_century(year)
        if "week" in parts:
            weeks = year.astype("string") + "-" + parts["week"].astype("string").str.zfill(2) + "-1"
            return pd.to_datetime(weeks, format="%G-%V-%u")
        month = parts["word"].map(month_of, na_action="ignore") if "word" in parts else None
        if month is None:
            quarter = "quarter" in parts
            month = pd.to_numeric(parts["quarter" if quarter else "month"])
            month = 3 * month - 2 if quarter else month
        return pd.to_datetime(year.astype("string") + "-" + month.astype("Int64").astype("string") + "-1")
    return None


def with_months_in_english(text: pd.Series) -> pd.Series:
    """Dates like ``3. Mai 2024`` with months as pandas reads them."""
    names = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

    def write(found: re.Match) -> str:
        return f"{found['day']} {names[(month_of(found['word']) or 1) - 1]}{found['rest'].replace(',', '')}"

    return text.str.replace(_DAY, write, regex=True)
