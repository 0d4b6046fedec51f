"""Rows and cells of a text table that look like samples and are none."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from fim_dynsys.trajectories.reading.clocks import clock_of
from fim_dynsys.trajectories.reading.columns import is_numeric
from fim_dynsys.trajectories.reading.options import refusal

_FAR = 5.0  # ranges of all other values that a code for missing ones is away from them
_OTHER_SIGN = 1.0  # ranges of all other values, positive ones, that a -1 which stands for none is away
_LARGE = 5.0  # times the size of a -1: nearer to zero, one is a value as often
_OUTSIDE = 0.25  # ranges of all other values that a code which repeats itself is away from them
_REPEATED = 3  # rows with a code, at least, for it to be questioned that near
_CHOSEN = 8  # different values of a quantity that is set, at most
_APART = 20.0  # ranges of all others that a first row is away which is no sample
_ENOUGH = 8  # rows in which one shows to be unlike the others
_NO_QUANTITY = 1e33  # such as 1e34, 9.97e36: more than stars weigh, and what programs write for no value
GIVE_MISSING = "give missing={code} if it stands for missing values, missing=[] if not"
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
        *("32767", "-32768", "65535", "2147483647", "-2147483648"),  # converters at their limits
        *("6999", "-6999", "7999", "-7999"),  # data loggers of Campbell
        *("999.99", "9999.99", "-88", "-888", "-8888", "888", "8888", "88888"),
    ]
)
_REPEATED_CODES = _CODES | {88.0, 99.0, 99.9, 99.99, -9.9, -9.99}
"""Numbers that are values as often, but not where they repeat themselves outside of all others."""

_SMALL_CODES = (0.0, -1.0)  # where they stand alone, and -1 among large positive values only


_WRAPS = {(0.0, 23.0), (1.0, 24.0), (0.0, 59.0), (1.0, 12.0), (1.0, 365.0), (1.0, 366.0)}
_WRAPS |= {(1.0, float(last)) for last in (28, 29, 30, 31)}
"""What hours, minutes, months and days begin with after their last: no first row of counts."""


def check_codes(name: str, columns: Iterable[tuple[str, np.ndarray]], remedy: str) -> None:
    """Refuse numbers that many programs write for missing values, where they are far from all others.

    Parameters
    ----------
    name : str
        Of the file.
    columns : iterable of (str, array (n,))
        Labels and values.
    remedy : str
        What to do about such a number, for which ``{code}`` stands.

    Raises
    ------
    ValueError
        Where there is one.
    """
    for label, values in columns:
        for code, rows in codes_in(values).items():
            raise refusal(
                f"values of one size in column {label!r}",
                f"{code:g} in {rows} rows of {name!r}, far from all others",
                remedy.format(code=f"{code:g}"),
            )


def codes_in(values: np.ndarray) -> dict[float, int]:
    """Numbers in a column (n,) that stand for missing values, and in how many rows each of them is."""
    found = {}
    extremes = {np.nanmin(values), np.nanmax(values)} if np.isfinite(values).any() else set()
    for extreme in (
        e for e in extremes if e in _REPEATED_CODES or e in _SMALL_CODES or abs(e) >= _NO_QUANTITY
    ):
        rest = values[np.isfinite(values) & (values != extreme)]
        if rest.size > 2 and np.min(np.abs(rest - extreme)) > _least_gap(extreme, values, rest):
            found[float(extreme)] = int((values == extreme).sum())
    return found


def _least_gap(extreme: float, values: np.ndarray, rest: np.ndarray) -> float:
    """How far from all others a number has to be to stand for missing values."""
    rows = int((values == extreme).sum())
    if (
        extreme not in _SMALL_CODES
        and _REPEATED <= rows < len(rest)
        and _varies(rest)
        and not _is_a_limit(values == extreme)
    ):
        return _OUTSIDE * float(np.ptp(rest))
    is_known = extreme in _CODES or abs(extreme) >= _NO_QUANTITY
    is_code = _drops_out(values, extreme) if extreme in _SMALL_CODES else is_known
    far = _FAR
    if extreme == -1.0:
        is_code, far = is_code and bool(rest.min() > _LARGE), _OTHER_SIGN
    return far * max(float(np.ptp(rest)), 0.1 * float(np.abs(rest).max())) if is_code else np.inf


def _is_a_limit(at: np.ndarray) -> bool:
    """Whether rows (n,) that hold a number follow each other at an end of the record, as at a limit."""
    places = np.flatnonzero(at)
    return len(places) == places[-1] - places[0] + 1 and (at[0] or at[-1])


def _varies(rest: np.ndarray) -> bool:
    """Whether a quantity is no setting of a few levels."""
    return len(np.unique(rest)) > max(_CHOSEN, 0.1 * len(rest))


def _drops_out(values: np.ndarray, code: float) -> bool:
    """Whether zeros, or other codes, stand alone between values of a quantity that varies."""
    zero = values == code
    inside = zero[1:-1] & ~zero[:-2] & ~zero[2:]
    rest = values[~zero & np.isfinite(values)]
    return bool(0 < zero.sum() == inside.sum()) and _varies(rest)


def check_first_row(name: str, columns: dict[int, pd.Series]) -> None:
    """Refuse a first row of whole numbers far from all others, which is one of counts or of channels."""
    far = {}
    for place, column in columns.items():
        if not is_numeric(column) or not column.notna().any():
            continue
        values = column.to_numpy(dtype=float, na_value=np.nan)
        later = clock_of(values[1:]) if len(values) > _ENOUGH and values[0] > values[1] else None
        wraps = later is not None and (values[1], values[0]) in _WRAPS and values[1:].max() <= values[0]
        if later is not None and later.even and len(later.starts) == 1 and not wraps:
            raise refusal(
                "samples in each row",
                f"{values[0]:g} in the first row of {name!r}, above {values[1]:g}, {values[2]:g}, ...",
                "delete that row if it holds parameters, give names= if it is a sample",
            )
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
