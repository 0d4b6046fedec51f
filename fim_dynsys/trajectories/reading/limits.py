"""Columns that are the lower and the upper limit of an interval round another one."""

import re

import numpy as np
import pandas as pd

from fim_dynsys.trajectories.reading.columns import is_numeric, numbers_of

_LIMITS = re.compile(  # of an interval that states no quantity, or one by its level as `y_l95`
    r"(?P<base>.*?)[ _.-]*(?P<level>\d\d(\.\d+)? ?%?)?[ _.-]*(?P<ci>ci|cri|hdi|pi|conf(idence)?)?[ _.-]*"
    r"((?P<low>lower|lwr|lcl|lcb|lo|low|l(?=\d\d))|upper|upr|ucl|ucb|hi|high|u(?=\d\d))"
    r"(?P<rest>[ _.-]*(bound|limit|ci|\d\d ?%?)?(\.\d+)?)",
    re.IGNORECASE,
)
_SURE = re.compile(
    r"%|(?<![a-z])(ci|cri|hdi|conf|confidence)(?![a-z])|bound|limit|lwr|upr|[lu]c[lb]", re.IGNORECASE
)
_QUANTILE = re.compile(
    r"(?P<base>.*?)[ _.-]*(?P<mark>q|p|quantile|percentile)?[ _.-]*(?P<level>\d+(\.\d+)?)"
    r"(?P<percent>[ _.]?%)?",
    re.IGNORECASE,
)
# Of q2.5 and q97.5, q0.05 and q0.95, q025 and q975; p1 and p99, p_100 and p_900 are places of a profile.
_LEVELS = {(low, 100 - low) for low in (2.5, 5.0, 10.0, 25.0)} | {(25.0, 975.0)}
_LEVELS |= {(low, 1 - low) for low in (0.025, 0.05, 0.1, 0.25)}
_MEDIANS = (0.5, 50.0, 500.0)  # levels of the median: as shares, in per cent, and without the point of 50.0
_PAIRS = 2  # intervals round one column, at most, as of 50 % and 95 %; more are a profile
_FOLLOWS = 0.9  # correlation of a column with the middle of limits that do not say what they are
_OFF_MIDDLE = 0.2  # of the width of an interval, by which such a column may vary beside the middle

_Pair = tuple[str, str, str]
"""Two columns, and the name of the one inside in small letters; empty where they name none."""


def limits_of(frame: pd.DataFrame) -> dict[str, str]:
    """Columns that are limits of intervals, and the column inside of each."""
    names = [str(c) for c in frame.columns]
    pairs = [*_by_words(names), *_by_levels(names)]
    limits = {name for one, other, _ in pairs for name in (one, other)}
    inside: dict[str, list[_Pair]] = {}
    for pair in pairs:
        base = _base_of(pair, [c for c in names if c not in limits], frame)
        if base is not None:
            inside.setdefault(base, []).append(pair)
    kept = {base: around for base, around in inside.items() if len(around) <= _PAIRS}
    return {name: base for base, around in kept.items() for pair in around for name in pair[:2]}


def _by_words(names: list[str]) -> list[_Pair]:
    """Pairs that are called lower and upper, or the like."""
    found: dict[tuple[str, ...], dict[bool, str]] = {}
    for name in names:
        match = _LIMITS.fullmatch(name)
        # The lowest and the highest price of a day are no limits of an interval.
        if match is None or name.lower() in ("lo", "hi", "low", "high"):
            continue
        key = tuple((match[part] or "").lower() for part in ("base", "level", "ci", "rest"))
        found.setdefault(key, {})[bool(match["low"])] = name
    return [(ends[True], ends[False], key[0]) for key, ends in found.items() if len(ends) == 2]


def _by_levels(names: list[str]) -> list[_Pair]:
    """Pairs of quantiles, where all columns that are called so belong to pairs or are medians."""
    found: dict[tuple[str, ...], dict[float, str]] = {}
    for name in names:
        match = _QUANTILE.fullmatch(name)
        if match is not None and (match["mark"] or match["percent"]):
            key = (match["base"].lower(), (match["mark"] or "").lower(), match["percent"] or "")
            found.setdefault(key, {})[float(match["level"])] = name
    pairs: list[_Pair] = []
    for (base, _, percent), columns in found.items():
        levels = sorted(set(columns) - set(_MEDIANS))
        ends = [(low, high) for low, high in zip(levels, levels[::-1], strict=True) if low < high]
        known = all(round(low + high, 9) == 100.0 if percent else _is_known(low, high) for low, high in ends)
        if ends and 2 * len(ends) == len(levels) and known:
            pairs += [(columns[low], columns[high], base) for low, high in ends]
    return pairs


def _is_known(low: float, high: float) -> bool:
    return any(abs(low - one) + abs(high - other) < 1e-9 for one, other in _LEVELS)


def _base_of(pair: _Pair, others: list[str], frame: pd.DataFrame) -> str | None:
    """The column between two limits in each row: the one that they name, or the nearest one before them."""
    one, other, called = pair
    if not (is_numeric(frame[one]) and is_numeric(frame[other])):
        return None
    places = {c: k for k, c in enumerate(frame.columns)}
    begin, end = sorted((places[one], places[other]))
    before, after = [c for c in others if places[c] < begin][::-1], [c for c in others if places[c] > begin]
    sure = bool(_SURE.search(one) and _SURE.search(other))
    nearest = {*before[:1], *after[:1], *[c for c in others if places[c] > end][:1]}
    columns = [c for c in (*before, *after) if (c.lower() == called if called else sure or c in nearest)]
    first, second = numbers_of(frame[one]), numbers_of(frame[other])
    known = np.isfinite(first) & np.isfinite(second)
    if not known.any():
        return None
    low, high = (first, second) if first[known].mean() < second[known].mean() else (second, first)
    for column in columns:
        if not is_numeric(frame[column]):
            continue
        values = numbers_of(frame[column])
        within = ((low <= values) & (values <= high))[known].all() and bool((high > low)[known].any())
        if within and (called or sure or _in_the_middle(values[known], low[known], high[known])):
            return column
    return None


def _in_the_middle(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> bool:
    """Whether values follow the middle of two limits, as no pump between two levels of a tank does."""
    middle = (low + high) / 2
    if np.ptp(values) == 0 or np.ptp(middle) == 0:
        return False
    follows = np.corrcoef(values, middle)[0, 1] > _FOLLOWS
    return bool(follows and np.std(values - middle) <= _OFF_MIDDLE * np.median(high - low))
