"""Dates, times of day and time stamps, as seconds."""

import re

import numpy as np
import pandas as pd

from fim_dynsys.trajectories.reading.columns import is_numeric
from fim_dynsys.trajectories.reading.digits import are_digits, past_midnight
from fim_dynsys.trajectories.reading.numbers import is_date
from fim_dynsys.trajectories.reading.options import Notes, Options, quoted, refusal
from fim_dynsys.trajectories.reading.periods import as_stamps, with_century, with_months_in_english
from fim_dynsys.trajectories.reading.summer_time import check_skipped_hour, check_summer_time
from fim_dynsys.trajectories.reading.units import clock_format

_CLOCK = re.compile(r"\d{1,3}:\d{2}:\d{2}(?:[.,]\d+)?")
_DAYS = re.compile(r"-?\d+ days?(?: \d{2}:\d{2}:\d{2}(?:\.\d+)?)?")  # as pandas writes durations
_STOPWATCH = re.compile(r"\d+:\d{2}[.,]\d+")
_HALF_DAYS = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?(?:\.\d+)? ?[AaPp]\.?[Mm]\.?")
_HOURS_MINUTES = re.compile(r"(\d{1,3}):(\d{2})")
_PARTS = {"%H:%M": (3600.0, 60.0), "%M:%S": (60.0, 1.0)}  # in seconds
_OF_DATES = re.compile("%[-#]?[YyGmdjbBcxDFUVW]")  # parts of a format of `strptime`
_END_OF_DAY = re.compile(r"([ T])24:(00(?::00(?:[.,]0+)?)?)$")
_NUMERIC = re.compile(r"^(\d{1,2})([/.-])(\d{1,2})\2(\d{1,4})")


def looks_dated(column: pd.Series) -> bool:
    """Whether a column holds dates, times of day or durations."""
    if column.dtype.kind in "mM" or isinstance(column.dtype, pd.DatetimeTZDtype):
        return True
    if is_numeric(column):
        return False
    filled = column.dropna().astype(str).str.strip()
    return bool(len(filled)) and bool(filled.head(50).map(is_date).mean() > 0.9)


def fits_format(column: pd.Series, time_format: str) -> bool:
    """Whether all cells are written in a format of `strptime`."""
    if is_numeric(column):
        return False
    read = pd.to_datetime(column.astype("string").str.strip(), format=time_format, errors="coerce")
    return bool(read.notna().any() and read.notna().eq(column.notna()).all())


def format_of_header(unit: str, column: pd.Series) -> str | None:
    """The format that a header states behind the name of a column, as ``Time (mm:ss)``, if cells need it."""
    form = clock_format(unit)
    if form is None or is_numeric(column):
        return form if form is not None and are_digits(form) else None
    return form if form in _PARTS or (_OF_DATES.search(form) and fits_format(column, form)) else None


def is_time_of_day(column: pd.Series) -> bool:
    """Whether a column of text holds times without dates."""
    if is_numeric(column) or column.dtype.kind in "mM":
        return False
    filled = column.dropna().astype(str).str.strip().head(50)
    patterns = (_CLOCK, _HALF_DAYS, _HOURS_MINUTES)
    return bool(len(filled)) and all(any(p.fullmatch(cell) for p in patterns) for cell in filled)


def as_seconds(label: str, column: pd.Series, options: Options, notes: Notes) -> np.ndarray:
    """Dates as seconds since the first, durations and times of day in seconds; NaN where missing.

    Raises
    ------
    ValueError
        Where the dates can be read in two ways, or in none.
    """
    if column.dtype.kind == "m":
        return column.to_numpy() / np.timedelta64(1, "s")
    if column.dtype.kind != "M" and not isinstance(column.dtype, pd.DatetimeTZDtype):
        text = column.astype("string").str.strip(" '")
        durations = _durations(label, text, options, notes)
        if durations is not None:
            return durations
        begun = text.str.replace(_END_OF_DAY, r"\g<1>00:\g<2>", regex=True)
        late = begun.ne(text).fillna(False).to_numpy(dtype=float)
        column = _stamps(label, begun, options, notes)
        column = column + pd.to_timedelta(late, unit="D") if late.any() else column
        if options.time_format is not None and not _OF_DATES.search(options.time_format):
            return past_midnight((column - column.dt.normalize()).to_numpy() / np.timedelta64(1, "s"), notes)
    local = getattr(column.dt, "tz", None) is None
    if not local:
        column = column.dt.tz_convert(None)
    stamps = column.to_numpy()
    check_summer_time(label, stamps)
    if local:
        check_skipped_hour(label, stamps, notes)
    notes.say(f"time in seconds since {str(stamps[~np.isnat(stamps)].min())[:23]}")
    return (stamps - stamps[~np.isnat(stamps)].min()) / np.timedelta64(1, "s")


def _durations(label: str, text: pd.Series, options: Options, notes: Notes) -> np.ndarray | None:
    """Times without dates in seconds, or None."""
    filled = text.dropna()
    if options.time_format in _PARTS and all(map(_HOURS_MINUTES.fullmatch, filled)):
        first, second = _PARTS[options.time_format]
        parts = text.str.extract(_HOURS_MINUTES).astype(float)
        return past_midnight(first * parts[0].to_numpy() + second * parts[1].to_numpy(), notes)
    if options.time_format is not None:
        return None
    if all(map(_CLOCK.fullmatch, filled)):
        return past_midnight(
            pd.to_timedelta(text.str.replace(",", ".")).to_numpy() / np.timedelta64(1, "s"), notes
        )
    if all(map(_DAYS.fullmatch, filled)):
        return pd.to_timedelta(text).to_numpy() / np.timedelta64(1, "s")
    if all(map(_STOPWATCH.fullmatch, filled)):
        notes.decide(f"{label!r} read as minutes and seconds")
        return pd.to_timedelta("0:" + text.str.replace(",", ".")).to_numpy() / np.timedelta64(1, "s")
    if all(map(_HALF_DAYS.fullmatch, filled)):
        stamps = pd.to_datetime("2000-01-01 " + text, format="mixed")
        return past_midnight((stamps - pd.Timestamp("2000-01-01")).to_numpy() / np.timedelta64(1, "s"), notes)
    if all(map(_HOURS_MINUTES.fullmatch, filled)):
        raise refusal(
            f"times that can be read in one way in column {label!r}",
            f"{filled.iloc[0]!r}, hours and minutes or minutes and seconds",
            'give time_format="%H:%M" or time_format="%M:%S"',
        )
    return None


def _stamps(label: str, text: pd.Series, options: Options, notes: Notes) -> pd.Series:
    """Dates in text as time stamps."""
    failed = refusal(
        f"dates in column {label!r}",
        f"{text.dropna().iloc[0]!r} among them",
        'give time_format="%d.%m.%Y %H:%M:%S" or what fits',
    )
    try:
        if options.time_format is not None:
            return pd.to_datetime(text, format=options.time_format)
        periods = as_stamps(text)
        if periods is not None:
            return periods
        text = with_months_in_english(_without_zone(label, text))
        text = text.str.replace(r"(:\d\d:\d\d):(\d{1,6})$", r"\1.\2", regex=True)
        text = text.str.replace(r"^[A-Za-z]{3,9}, ", "", regex=True)  # the day of the week
        filled = text.dropna()
        numeric = filled.str.extract(_NUMERIC)
        if numeric.notna().all(axis=None):
            return _by_order_of_days(label, text, numeric, options, notes)
        text = text.str.replace(r"(?<=\d),(?=\d+$)", ".", regex=True).str.replace(
            r"^(\d{4})[/.](\d\d?)[/.]", r"\1-\2-", regex=True
        )
        try:
            return pd.to_datetime(
                text, format="ISO8601", utc=bool(filled.str.contains(r"[+-]\d\d:?\d\d$").any())
            )
        except ValueError:
            return pd.to_datetime(text, format="mixed")
    except (ValueError, OverflowError, TypeError) as error:
        if str(error).startswith("Trajectories"):
            raise
        raise failed from error


def _without_zone(label: str, text: pd.Series) -> pd.Series:
    """Dates without the name of their zone, which must be one: CET and CEST are an hour apart."""
    zones = text.dropna().str.extract(r"\s([A-Z]{2,5})$")[0]
    if zones.isna().any() or zones.isin(["AM", "PM"]).any():
        return text
    if zones.nunique() > 1:
        raise refusal(
            f"one time zone in column {label!r}",
            f"{quoted(zones.unique()[:4])}",
            "write times as numbers, or with offsets as +02:00",
        )
    return text.str.replace(r"\s[A-Z]{2,5}$", "", regex=True)


def _by_order_of_days(
    label: str, text: pd.Series, numeric: pd.DataFrame, options: Options, notes: Notes
) -> pd.Series:
    """``1/2/2024``: the first or the second of February, by what the dates themselves admit."""
    first, second = numeric[0].astype(int), numeric[2].astype(int)
    dayfirst = options.dayfirst
    if dayfirst is None and _is_year_first(label, numeric, notes):
        year = with_century(first).astype(str)
        iso = year + "-" + numeric[2].str.zfill(2) + "-" + numeric[3].str.zfill(2)
        return pd.to_datetime(
            iso + text.dropna().str.replace(_NUMERIC, "", regex=True), format="mixed"
        ).reindex(text.index)
    if dayfirst is None and (numeric[1] == ".").all():
        dayfirst = True
    if dayfirst is None and (first.max() > 12) != (second.max() > 12):
        dayfirst = bool(first.max() > 12)
    if dayfirst is None and (first.nunique() > 1 or second.nunique() > 1):
        growing = [
            bool(pd.to_datetime(text, format="mixed", dayfirst=d).is_monotonic_increasing)
            for d in (True, False)
        ]
        if growing[0] == growing[1]:
            raise refusal(
                f"dates that can be read in one way in column {label!r}",
                f"{text.dropna().iloc[0]!r}, day or month first",
                "give dayfirst=True or dayfirst=False",
            )
        dayfirst = growing[0]
    if dayfirst is None:  # one day: whichever it is, the seconds are the same
        return pd.to_datetime(text, format="mixed", dayfirst=True)
    notes.say(f"dates with the {'day' if dayfirst else 'month'} first")
    return pd.to_datetime(text, format="mixed", dayfirst=dayfirst)


def _is_year_first(label: str, numeric: pd.DataFrame, notes: Notes) -> bool:
    """Whether dates like ``21-02-03`` begin with the year: no other order grows, or none as evenly.

    Dots stand in dates that begin with the day, and slashes where those can be read so.

    Raises
    ------
    ValueError
        Where dates with dashes grow in either order: a day of each year may be days of one month.
    """
    if numeric[0].str.len().min() < 2 or numeric[3].str.len().max() > 2 or (numeric[1] == ".").any():
        return False
    first, second, third = (numeric[k].astype(int) for k in (0, 2, 3))
    orders = {"year": (first, second, third), "day": (third, second, first), "month": (third, first, second)}
    if numeric[3].str.len().min() < 2:  # no year is written so
        orders = {"year": orders["year"]}
    found = {}
    for order, (year, month, day) in orders.items():
        parts = pd.DataFrame({"year": with_century(year), "month": month, "day": day})
        stamps = pd.to_datetime(parts, errors="coerce")
        steps = np.diff(np.unique(stamps)) / np.timedelta64(1, "D")  # trajectories may start again
        if stamps.notna().all() and len(steps):
            found[order] = (not stamps.is_monotonic_increasing, bool(np.ptp(steps) > 0), float(steps.sum()))
    if not found or min(found, key=lambda order: found[order]) != "year":
        return False
    grows = [order for order, (falls, *_) in found.items() if falls == found["year"][0]]
    if len(grows) > 1 and (numeric[1] == "/").any():
        return False
    if len(grows) > 1 and first.nunique() == 1 and not numeric.duplicated().any():
        raise refusal(
            f"dates that can be read in one way in column {label!r}",
            f"{numeric.iloc[-1][[0, 2, 3]].str.cat(sep='-')}, a day of each year or of one month",
            'give dayfirst=True, or time_format="%y-%m-%d" or what fits',
        )
    (notes.decide if len(grows) > 1 else notes.say)("dates with the year first (dayfirst=, time_format=)")
    return True
