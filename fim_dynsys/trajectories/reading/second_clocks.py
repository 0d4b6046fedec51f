"""Whether a second column of times says the same as the first, or when another sensor was read."""

import re
from collections.abc import Sequence

import numpy as np

from fim_dynsys.trajectories.reading import clocks
from fim_dynsys.trajectories.reading.clocks import IN_SECONDS
from fim_dynsys.trajectories.reading.options import refusal

_OF_COMPUTERS = re.compile("cpu|wall|comput|exec|solver", re.IGNORECASE)  # how long a simulation took
_ALIKE = 0.05  # by which two clocks may differ in rate
_OFF = 0.05  # of a step, by which the clock of another sensor may differ
_SAME = 1e-6  # of a step, by which equal differences of two clocks may vary
_PAST = 1e8  # seconds or finer units since another era: no record is as long
_RATES = np.unique([one / other for one in IN_SECONDS.values() for other in IN_SECONDS.values()])


def refuse_second(names: Sequence[str]) -> ValueError:
    """The error about a table with the times of several sensors."""
    listed = ", ".join(map(repr, names))
    return refusal(
        "one column of times",
        f"{listed}, which are not the same times",
        'name those of one sensor by time= and states=, or give trials="suffix" where each is a trial',
    )


def has_own_sensor(columns: Sequence[str], first: str, second: str) -> bool:
    """Whether a second clock stands beside columns of its own, as ``time, x, time, v``, or is called so.

    ``time_x, time_v, x, v`` are called so; ``time, video_time, x`` are two clocks of one sensor.
    """
    if _OF_COMPUTERS.search(second):
        return False
    places = sorted((list(columns).index(first), list(columns).index(second)))
    counters = [c for c in columns if clocks.is_counter_name(c) and not re.fullmatch("[a-z]", c)]
    states = [k for k, c in enumerate(columns) if not clocks.is_time_name(c) and c not in counters]
    between = any(places[0] < k < places[1] for k in states)
    beside = any(k < places[0] or k > places[1] for k in states)
    tail = re.split(r"[ _./:-]", second)[-1]
    called = tail != second and tail in columns and not clocks.is_time_name(tail)
    return (between and beside) or called


def go_alike(one: tuple[np.ndarray, str], other: tuple[np.ndarray, str], own_sensor: bool) -> bool:
    """Whether two columns of times are the same but for unit and origin.

    Where units are not known, any rate will do for two clocks of one sensor.
    """
    (a, a_unit), (b, b_unit) = one, other
    rows = np.isfinite(a) & np.isfinite(b)
    a, b = a[rows], b[rows]
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return False
    rate = np.ptp(a) / np.ptp(b)
    both = {a_unit, b_unit} <= set(IN_SECONDS)
    known = IN_SECONDS[b_unit] / IN_SECONDS[a_unit] if both else _nearest_rate(rate) if own_sensor else rate
    if abs(rate / known - 1) > _ALIKE + 2 / len(a):
        return False
    line = np.polyval(np.polyfit(a - a[0], b - b[0], 1), a - a[0])
    rounded = clocks.resolution(b)
    return bool(np.abs(line - (b - b[0])).max() <= (0.01 / len(b) + 0.005) * np.ptp(b) + rounded)


def start_together(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether times that go alike have one origin, or one counts from the start and one from an era."""
    rows = np.isfinite(a) & np.isfinite(b)
    a, b = a[rows], b[rows]
    starts = sorted((abs(a[0]), abs(b[0])))
    if starts[0] == 0 and starts[1] >= _PAST:
        return True
    later = b * _nearest_rate(np.ptp(a) / np.ptp(b)) - a
    step = np.ptp(a) / (len(a) - 1)
    # Of a clock that was rounded, some times are nearer than others.
    rounded = np.ptp(later) > _SAME * step
    within = _OFF * step + (clocks.resolution(b) * np.ptp(a) / np.ptp(b) if rounded else 0.0)
    return bool(abs(later[0]) <= within)


def _nearest_rate(rate: float) -> float:
    return float(_RATES[np.argmin(np.abs(np.log(_RATES / rate)))])
