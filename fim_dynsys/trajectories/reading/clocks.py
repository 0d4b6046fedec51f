"""Which column is the time, and where a new trajectory begins."""

import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from fim_dynsys.trajectories.reading.units import split_name

_NEAR = 0.1  # of the first run's span: as close to its start another run has to begin
_EVEN = 0.02  # of a step: as far another may differ from it, rounding aside
_SHORTEST = 3  # samples of a run
# Of samples at equal times. A step to the next tick is one of its own if it is longer than 1.5 mean steps
# inside a tick, and than nine of ten of these. Samples follow each other if half of the change from tick to
# tick at least is found inside ticks, which shows from four times the squares of noise on; or if neighbours
# differ by less than half of what places of two ticks do.
_OWN_STEP, _LONG_ONES, _EQUAL_PARTS, _NO_CHANCE, _NEAR_EACH_OTHER = 1.5, 0.9, 0.5, 4.0, 0.5
_FEW_OF_A_TICK = 4  # so many samples in each of all ticks are repeated measurements, unless a column tells
_LEVELS = 8  # different values: switches and settings change with ticks as well as between
_PAUSE = 1.5  # usual ticks, beyond which a logger paused

_TIME = re.compile(
    r"t|tt|times?|stamp|zeit|temps|tiempo|tempo|tid|czas|aika|dates?|datum|fecha|timestamps?|date ?time|utc|"
    r"epoch|unix ?time|x value|.*\b(time|zeit|timestamp|temps|tiempo|tempo|elapsed)\b.*|时间|時間|время",
    re.IGNORECASE,
)
_UNITS = {
    "s": r"s|sec|secs|seconds?|sekunden?|segundos?|secondes?|x-axis",
    "ms": r"ms|msec|milliseconds?|millis",
    "us": r"[uµμ]s|usec|microseconds?|micros",
    "ns": r"ns|nsecs?|nanos|nanoseconds?",
    "min": r"min|mins|minutes?|minuten?|minutos?",
    "h": r"h|hr|hrs|hours?|stunden?|heures?|horas?",
    "d": r"d|days?|tage?|jours?|dias?|doy|day of year",
    "week": r"weeks?|wochen?",
    "month": r"months?|monate?",
    "year": r"years?|yrs?|yr|jahre?|ans?|annees?|año|season",
    "generation": r"generations?",
}
IN_SECONDS = {
    **{"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0},
    **{"week": 604_800.0, "month": 2_629_800.0, "year": 31_557_600.0},
}
"""Units of time by the names that `unit_of_name` gives them; months and years on average."""
_IN_UNITS = {unit: re.compile(pattern, re.IGNORECASE) for unit, pattern in _UNITS.items()}
_TEMPERATURES = re.compile(
    r"[°º] ?[cfk]?|[ckf]|deg(rees?)?[ .]?[cfk]?|(degrees? )?(celsius|kelvin|fahrenheit)", re.IGNORECASE
)
_LETTERS = ("T", "TT")  # of a time, or of a temperature
_AGES = re.compile(r"age|alter|âge|edad", re.IGNORECASE)
_COUNTERS = re.compile(
    r"(frames?|samples?|steps?|index|idx|scans?|cycles?|records?|points?|obs|observation|no|nr|num|number|"
    r"row ?names?|"
    r"rows?|lines?|#|n|i|k|id|seq|sequence|x|iter|iteration|tick|entry|unnamed: ?\d+|packets?|rec|cyc|laps?|"
    r"data ?points?|)( ?(no|nr|number|num|index|idx|id|#))?\.?",
    re.IGNORECASE,
)
_OTHERS = re.compile("NO|(?i:obs|observation)")  # nitric oxide, observed values
_PLAIN = re.compile("steps?|num(ber)?|points?|index|sequence", re.IGNORECASE)  # inputs and states as well
_ROUND = (1, 2, 5)  # and tens of these: steps of a program, not of a motor
_MAY_BE_COUNTED = re.compile(".*s", re.IGNORECASE)  # samples, packets, laps may be states
_NUMBERED = re.compile(r".+ ?(index|idx|no|nr|number|num|id|#)\.?", re.IGNORECASE)
_PIECES, _WRAPPED = 3, 16  # pieces that are counted, numbers after which a count starts again; at least
_SOME, _LONG = 5, 20  # rows in which equal steps count them, and steps with gaps do
_TIME_OF_STEP = re.compile("(step|lap|cycle|test|loop) ?time", re.IGNORECASE)
_MOSTLY = 0.9  # share of equal steps of a count with gaps, where samples were lost
_STEPS = re.compile(
    r"ts|dt|h|step|delta ?[tx]|δt|time ?step|t ?(inc|increment|interval|step)|x ?(inc|incr|increment)|"
    r"(sampling|sample) ?(interval|period|time|step)|interval|increment",
    re.IGNORECASE,
)
_RATES = re.compile(
    r"fs|rate|(sampling|sample|data|frame|camera) ?(rate|frequency|freq)|sr|fps|samples per second",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z])(?=(?:Time|Zeit|Elapsed)(?![a-z])|Timestamp)")  # sensorTimestamp, TestTime


def _words(label: str) -> str:
    return " ".join(re.sub(r"[_\s]+", " ", split_name(label)[0]).split())


def is_time_name(label: str, unit: str = "") -> bool:
    """Whether a column is called time, or date; the last part of ``header.stamp`` and ``Run 1: Time`` is.

    A column in a unit of temperature is none, nor is ``T`` in any but a unit of time: a torque, a tension.
    """
    label = re.sub(r"\.\d+$", "", label)  # of a second column of that name
    words, unit = _words(label), unit or split_name(label)[1]
    if _TEMPERATURES.fullmatch(unit) or (words in _LETTERS and unit and not unit_of_name(unit)):
        return False
    if not _TIME.fullmatch(words) and re.search(r"[.:]", words):
        words = re.split(r"[.:]", words)[-1].strip()
    return _TIME.fullmatch(words) is not None or (
        _TIME.fullmatch(words.rsplit(" ", 1)[0]) is not None and (words.rsplit(" ", 1)[-1] in _UNITS)
    )


def is_time_in_one_word(label: str, unit: str = "") -> bool:
    """Whether a column may be a second clock, as ``sensorTimestamp``; ``leadTime`` may be a state as well."""
    return _CAMEL.search(label) is not None and is_time_name(_CAMEL.sub(" ", label), unit)


def may_be_temperature(label: str, unit: str = "") -> bool:
    """Whether a column is called ``T`` or ``TT`` without a unit: a temperature, or the only time."""
    return _words(label) in _LETTERS and not (unit or split_name(label)[1])


def time_columns(columns: Iterable[str], units: Mapping[str, str]) -> list[str]:
    """Columns that are called time or by a unit of it; ``T`` stands last, for it may be a temperature."""
    called = [c for c in columns if is_time_name(c, units.get(c, "")) or is_unit_name(c)]
    return sorted(called, key=lambda c: may_be_temperature(c, units.get(c, "")))


def unit_of_name(label: str) -> str:
    """The unit of time that a column is called by, as ``Year``, or ends in, as ``time_ms``; or empty."""
    words = _words(label)
    for unit, pattern in _IN_UNITS.items():
        if pattern.fullmatch(words):
            return unit
    last = words.rsplit(" ", 1)[-1] if " " in words and " of " not in words else split_name(label)[1]
    return next((unit for unit, pattern in _IN_UNITS.items() if last and pattern.fullmatch(last)), "")


def is_time_of_step(label: str) -> bool:
    """Whether a column is called the time of a step, a lap, a cycle, ..., which start again and again."""
    return _TIME_OF_STEP.fullmatch(_words(_CAMEL.sub(" ", label))) is not None


def said_unit(stated: str, given: str) -> str:
    """What is said where times keep their numbers and are called by another unit than their file states."""
    return f"times in {stated} called {given}, and not converted (units=)"


def is_unit_name(label: str) -> bool:
    """Whether a column is called by a unit of time, or age."""
    return _AGES.fullmatch(_words(label)) is not None or any(
        pattern.fullmatch(_words(label)) for pattern in _IN_UNITS.values()
    )


def is_counter_name(label: str) -> bool:
    """Whether a column is called as those are that count rows; a column without a name is."""
    return label.startswith("column ") or _COUNTERS.fullmatch(_words(label)) is not None


def step_of_name(label: str, value: float) -> float | None:
    """The time step that a column or a variable of one value holds, by its name."""
    if value > 0 and _STEPS.fullmatch(_words(label)):
        return value
    return 1.0 / value if value > 0 and _RATES.fullmatch(_words(label)) else None


def counts_rows(values: np.ndarray) -> bool:
    """Whether values are 0, 1, 2, ... or go on so from another whole number."""
    first = values[0] if len(values) else np.nan
    return bool(
        np.isfinite(first) and first == int(first) and np.array_equal(values, first + np.arange(len(values)))
    )


def counts_on(label: str, values: np.ndarray) -> bool:
    """Whether whole numbers of a column that is called a counter go on evenly, whatever the step.

    Words that may be those of inputs and states, as ``step``, count from their start in round steps only. By
    another name, some numbers may be lost and a long count may start over and over; a ``step index`` and the
    like may count pieces of several rows each.
    """
    words = _words(label)
    if label.startswith("column ") or re.fullmatch("[a-zA-Z]", words) or len(values) < _SOME:
        return False
    if _OTHERS.fullmatch(words) or not np.isfinite(values).all() or (values != np.floor(values)).any():
        return False
    steps = np.diff(values)
    usual = np.median(steps)
    even = usual > 0 and bool((steps == usual).all())
    if _PLAIN.fullmatch(words):
        return even and usual / 10.0 ** np.floor(np.log10(usual)) in _ROUND and values[0] in (0, usual)
    if even or _MAY_BE_COUNTED.fullmatch(words) or len(values) < _LONG:
        return even
    numbered = _NUMBERED.fullmatch(words) is not None
    if (steps >= 0).all():
        lost = usual > 0 and (steps % usual == 0).all() and (steps == usual).mean() >= _MOSTLY
        return bool(lost or (numbered and steps.max() == 1 and _are_alike(steps)))
    wraps = np.array_equal(np.unique(steps), [values.min() - values.max(), 1.0])
    return wraps and (numbered or np.ptp(values) + 1 >= _WRAPPED)


def _are_alike(steps: np.ndarray) -> bool:
    """Whether pieces between steps are about as long as each other, but for the last one."""
    lengths = np.diff(np.concatenate([[-1], np.flatnonzero(steps)]))
    return len(lengths) >= _PIECES - 1 and bool(lengths.max() <= 2 * lengths.min())


@dataclass(frozen=True)
class Clock:
    """What a column of times says.

    Attributes
    ----------
    starts : ndarray of int
        Rows at which runs begin, the first row among them.
    even : bool
        Whether steps are equal within each run.
    repeats : bool
        Whether some times are the same as those before.
    """

    starts: np.ndarray
    even: bool
    repeats: bool


def clock_of(times: np.ndarray) -> Clock | None:
    """Runs of a column that grows, and may start again near where it began; None for any other."""
    if len(times) < 2 or not np.isfinite(times).all():
        return None
    steps = np.diff(times)
    falls = np.flatnonzero(steps < 0)
    starts = np.concatenate([[0], falls + 1])
    ends = np.concatenate([falls, [len(times) - 1]])
    first_span = times[ends[0]] - times[0]
    if first_span <= 0:
        return None
    if len(falls):
        near = np.abs(times[starts] - times[0]) <= _NEAR * first_span
        if not near.all() or (ends - starts + 1).min() < _SHORTEST:
            return None
    within = np.delete(steps, falls)
    usual = float(np.median(within))
    # Times were rounded when they were written: to about the last digit of what is there.
    rounding = 2 * 10.0 ** np.floor(np.log10(max(np.abs(times).max(), 1e-300)) - 14) + resolution(times)
    even = usual > 0 and bool(np.abs(within - usual).max() <= _EVEN * usual + rounding)
    return Clock(starts, even, bool((within == 0).any()))


def clock_within(values: np.ndarray, groups: np.ndarray | None) -> Clock | None:
    """The clock that values are, within groups where there are any."""
    if groups is None:
        return clock_of(values)
    whole = None
    for group in np.unique(groups):
        times = values[groups == group]
        if len(times) == 1 and np.isfinite(times).all():
            continue
        clock = clock_of(times)
        if clock is None:
            return None
        whole = clock if whole is None or clock.repeats or not clock.even else whole
    return whole


def resolution(times: np.ndarray) -> float:
    """A step of the last decimal that times are written with; 0 where it is finer than any that matters."""
    some = times[:: max(1, len(times) // 200)]
    for digits in range(7):
        if np.allclose(some, np.round(some, digits), rtol=0, atol=1e-9 * max(1.0, float(np.abs(some).max()))):
            return 10.0**-digits if digits else 0.0
    return 0.0


def spread(times: np.ndarray) -> np.ndarray:
    """Times of a rounded clock, evenly spaced inside each tick.

    The samples of the first tick, and of one after a pause, are those before the next tick at the usual step,
    and samples before a pause follow each other at that step.
    """
    ticks, places, counts = np.unique(times, return_index=True, return_counts=True)
    if len(ticks) == 1:
        return times + np.arange(len(times)) / len(times)
    lengths = np.diff(ticks)
    tick = float(np.median(lengths))
    pauses = lengths > _PAUSE * tick
    lengths = np.append(np.where(pauses, tick, lengths), tick)
    usual = float(np.median(lengths / counts))
    before_pause, after_pause = np.append(pauses, True), np.append(True, pauses)
    widths = np.where(before_pause | after_pause, np.minimum(usual, lengths / counts), lengths / counts)
    owner = np.repeat(np.arange(len(ticks)), counts)
    order = np.arange(len(times)) - places[owner]
    late = after_pause & ~before_pause
    begins = np.where(late, ticks + lengths - counts * widths, ticks)
    return begins[owner] + order * widths[owner]


class Order(enum.Enum):
    """How samples of one tick are to each other."""

    IN_TURN = "one after the other"
    REPEATED = "measured several times over"
    UNKNOWN = "nothing tells"


def looks_spread(times: np.ndarray, values: np.ndarray) -> bool:
    """Whether samples of one tick follow each other, and are not measured several times over.

    Each column tells for itself, those of noise alone tell nothing. Where none does, a few samples in each of
    all ticks are repeated measurements, and others follow each other if neighbours differ less than places of
    two ticks.

    Parameters
    ----------
    times : array (n,)
        Not falling, each several times.
    values : array (n, d)
        Of the columns.
    """
    ticks, first, counts = np.unique(times, return_index=True, return_counts=True)
    usual = max(int(np.median(counts)), 2)
    if len(times) <= usual or len(ticks) < 2:
        return False
    told = [_told(column, ticks, first, counts) for column in values.T]
    if Order.REPEATED in told:
        return False
    if Order.IN_TURN in told:
        return True
    if usual <= _FEW_OF_A_TICK and (counts == usual).all():
        return False
    scale = np.array([np.std(column[np.isfinite(column)]) for column in values.T])
    varied = values[:, scale > 0] / scale[scale > 0]
    near, far = (np.abs(varied[k:] - varied[:-k]) for k in (1, usual))
    known = np.isfinite(near), np.isfinite(far)
    return bool(known[0].any() and known[1].any() and near[known[0]].mean() < far[known[1]].mean())


def _told(column: np.ndarray, ticks: np.ndarray, first: np.ndarray, counts: np.ndarray) -> Order:
    """What a column (n,) tells of ticks (m,), which begin at samples ``first`` and hold so many.

    Measurements are repeated where the step from one tick to the next is longer than those inside. They
    follow each other where what changes from tick to tick changes by equal parts inside each, or neighbours
    differ far less than places of two ticks.
    """
    seen = np.isfinite(column)
    if len(np.unique(column[seen])) <= _LEVELS:
        return Order.UNKNOWN
    numbers = np.add.reduceat(seen, first)
    steps, begins = np.abs(np.diff(column)), np.zeros(len(column) - 1, dtype=bool)
    begins[first[1:] - 1] = True
    lengths = np.diff(ticks)
    after_pause = np.zeros_like(begins)
    after_pause[first[1:] - 1] = lengths > _PAUSE * np.median(lengths)
    known = np.isfinite(steps)
    inside, across = steps[known & ~begins], steps[known & begins & ~after_pause]
    if len(inside) < 2 or len(across) < 2 or not (inside.any() or across.any()):
        return Order.UNKNOWN
    beyond = across.mean() - max(_OWN_STEP * inside.mean(), float(np.quantile(inside, _LONG_ONES)))
    if beyond > 2.0 * np.std(across) / np.sqrt(len(across)):
        return Order.REPEATED
    with np.errstate(all="ignore"):  # ticks without a value have none
        means = np.add.reduceat(np.where(seen, column, 0.0), first) / numbers
        last = first + counts - 1
        change = (column[last] - column[first]) / (counts - 1)
        drift = np.gradient(means, ticks) * np.median(lengths) / counts
    both = np.isfinite(change) & np.isfinite(drift)
    usual = max(int(np.median(counts)), 2)
    apart = np.abs(column[usual:] - column[:-usual])
    apart = apart[np.isfinite(apart)]
    smooth = len(apart) > 0 and steps[known].mean() < _NEAR_EACH_OTHER * apart.mean()
    size = float(np.sum(drift[both] ** 2))
    by_chance = both.sum() * np.mean(inside**2) / (4.0 * usual**3)  # of means of noise
    if size > _NO_CHANCE * by_chance:
        share = float(np.sum(change[both] * drift[both])) / size
        error = float(np.std(change[both] - share * drift[both])) / np.sqrt(size)
        onwards = (column[first[1:]] - column[last[:-1]]) * drift[
            :-1
        ]  # measurements in order fall back there
        if share > max(_EQUAL_PARTS, 2.0 * error) and np.sum(onwards[both[:-1] & np.isfinite(onwards)]) > 0.0:
            return Order.IN_TURN
        if share + 2.0 * error < _EQUAL_PARTS and not smooth:
            return Order.REPEATED
    return Order.IN_TURN if smooth else Order.UNKNOWN
