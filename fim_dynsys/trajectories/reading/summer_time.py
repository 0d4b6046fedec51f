"""Dates of clocks that are put forward and back by an hour twice a year."""

import re

import numpy as np
import pandas as pd

from fim_dynsys.trajectories.reading.options import Notes, refusal

_HOUR = 3600.0  # seconds
_WORLD = re.compile("utc|gmt|zulu", re.IGNORECASE)  # clocks that are never put forward
_LEAST = 8  # samples in which a step shows to be the usual one
_REGULAR = 0.9  # share of steps, at least, that are the usual one
_ALIKE = 0.02  # of a step, by which a usual one may differ
_SEARCHED = 3  # gaps of an hour, at most: a logger that pauses is none that skips one in a year
# Where clocks are put forward: the month, which Sunday of it (-1 for the last one), and the hours of the
# change, by the rules of 2007 and later.
_CHANGES = (
    (3, -1, (0, 1, 2, 3)),  # Europe
    (3, 1, (0, 2)),  # North America, the second one
    (10, 0, (2,)),  # Australia
    (9, -1, (2,)),  # New Zealand
    (9, 0, (0,)),  # Chile
)


def check_summer_time(label: str, stamps: np.ndarray) -> None:
    """Refuse dates that fall back by an hour at the usual step, as clocks do when summer time ends."""
    steps = np.diff(stamps) / np.timedelta64(1, "s")
    known = steps[np.isfinite(steps)]
    if len(known) < 2 or not (known < 0).any():
        return
    usual, falls = float(np.median(known)), np.flatnonzero(steps < 0)
    if len(falls) <= 2 and np.all(np.abs(steps[falls] + _HOUR - usual) <= 0.5 * usual):
        raise refusal(
            f"dates that grow in column {label!r}",
            f"an hour back in row {falls[0] + 2}, as when summer time ends",
            "write the offset from UTC behind each, as +02:00, or give step=",
        )


def check_skipped_hour(label: str, stamps: np.ndarray, notes: Notes) -> None:
    """Say that evenly spaced local dates (n,) skip one hour in the night in which summer time begins."""
    steps = np.diff(stamps) / np.timedelta64(1, "s")
    if len(steps) < _LEAST or _WORLD.search(label):
        return
    usual = float(np.median(steps))
    near = _ALIKE * usual
    if not usual > 0 or (np.abs(steps - usual) <= near).mean() < _REGULAR:
        return
    skips = np.flatnonzero(np.abs(steps - usual - _HOUR) <= near)
    for k in skips if len(skips) <= _SEARCHED else ():
        last, after = pd.Timestamp(stamps[k]), pd.Timestamp(stamps[k]) + pd.Timedelta(usual + near, "s")
        if any(last < change <= after for change in _forward(after.year)):
            notes.decide(
                f"an hour skipped in column {label!r} in row {k + 2}, as when summer time begins; if so, "
                "later times are an hour late (write the offset from UTC behind each, as +02:00)"
            )


def _forward(year: int) -> list[pd.Timestamp]:
    """When clocks may be put forward in a year."""
    moments = []
    for month, place, hours in _CHANGES:
        first = pd.Timestamp(year=year, month=month, day=1)
        days = pd.date_range(first, first + pd.offsets.MonthEnd(0))
        sunday = days[days.day_of_week == 6][place]
        moments += [sunday + pd.Timedelta(hour, "h") for hour in hours]
    return moments
