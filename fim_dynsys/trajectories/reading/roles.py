"""What each column of a table is: time, trajectory, state, input, a value per trajectory, or nothing."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from fim_dynsys.trajectories.parts import Parts
from fim_dynsys.trajectories.reading import clocks, dates
from fim_dynsys.trajectories.reading.columns import is_numeric, is_text, numbers_of
from fim_dynsys.trajectories.reading.composed import with_months_as_numbers
from fim_dynsys.trajectories.reading.limits import limits_of
from fim_dynsys.trajectories.reading.numbers import begins_with_number, in_disguise, is_number
from fim_dynsys.trajectories.reading.options import Notes, Options, quoted, refusal
from fim_dynsys.trajectories.reading.samples import thinned, without_repeats
from fim_dynsys.trajectories.reading.text import Table, stands_beside
from fim_dynsys.trajectories.reading.timing import Times, find_times
from fim_dynsys.trajectories.reading.trials import (
    are_of_one_name,
    codes,
    group_columns,
    may_be_trials,
    named_runs,
    runs_of,
    stacked_trials,
    suffix_trials,
)
from fim_dynsys.trajectories.reading.units import is_unit

_VARIABLES = re.compile(
    r"variables?|names?|signals?|channels?|quantit(y|ies)|keys?|measurements?|species|observables?( ?id)?|"
    r"param(eter)?s?|attributes?|states?|metrics?|items?|series|fields?|sensors?|types?|kinds?|compounds?|"
    r"analytes?|components?|compartments?|indicators?|tags?|features?",
    re.IGNORECASE,
)
_FEW = 5  # cells that say nothing of a column of text
_ERRORS = re.compile(  # of the uncertainty of another column, which the rest of the name is
    r"(?P<base>.+?)[ _.]*(err(or)?s?|sds?|std|stdev|std[ _.]?dev|std[ _.]?err|stderr|se|sem|sigma|unc|"
    r"uncertainty|ci[ _.]?(low|high|lower|upper)|lower|upper|±)|"
    r"(err(or)?|sd|std|se|sem|sigma|unc|uncertainty|u|[δ±](?=.))([ _.(]+|(?<=[δ±]))(?P<of>.+?)\)?",
    re.IGNORECASE,
)
_BOUNDS = re.compile(
    r"(?P<base>.+?)[ _.-]*(ci|\d\d ?%?)?[ _.-]*((?P<low>lower|low|lo|lwr|lcl)|upper|high|hi|upr|ucl)",
    re.IGNORECASE,
)
_DELTA = re.compile("δ", re.IGNORECASE)  # of an error, or of a change, a difference or a ratio of isotopes
_SMALL = 0.1  # of the range of a column, that an error called Δ is at most
_MEANS = ("mean", "avg", "average", "median")
_MEAN = re.compile("|".join(_MEANS), re.IGNORECASE)
_ERRORS_ALONE = re.compile(
    r"(err(or)?s?|sds?|std|stdev|(std|standard|st)[ _.]*(deviation|dev|error|err)|stderr|se|sem|sigma|"
    r"[±\u03c3]|\+/-|unc(ertaint(y|ies))?)\.?( bars?)?(\.\d+)?",
    re.IGNORECASE,
)
# No stresses and densities of the sea (sigma), errors of a controller, complexes and selenium (SE).
_SURE_ERRORS = re.compile(r"sds?|st|sem|unc|[±]|\+/-|err(or)?s?[ _.]*bars?", re.IGNORECASE)
_SET = re.compile(
    r"(?P<base>.+?)[ _.-]?(?P<set>est(im(ation)?)?|ident(ification)?|train(ing)?|test|val(id(ation)?)?)",
    re.IGNORECASE,
)
_FLAGS = re.compile(
    r"(.*[ _.])?(flags?|quality|qc|qa|valid(ity)?|mask|outliers?|error[ _]code)([ _.].*)?", re.IGNORECASE
)
_MARKS = 5  # different values of a flag, at most
_EXACTLY, _SAME_RATE = 0.05, 0.02  # of a step, and of the time: as far second clocks may be off
_PIECE = 3  # rows, at least on average, after which a clock starts again
_COUNTED = 20  # rows, that a column counts which is no state for that
_CYCLES = ((1, 12), (0, 23), (1, 24), (0, 59))  # first and last month, hour (twice) and minute
_UNITS = re.compile(r"units?|uom|einheit", re.IGNORECASE)
_MOSTLY = 0.9  # share of an index without a name that is whole and grows: a damaged cell makes it no state
_VALUES = re.compile(
    r"values?|val|measurements?|readings?|y|dv|amounts?|data|results?|observations?|wert|conc(entration)?s?|"
    r"magnitudes?|levels?",
    re.IGNORECASE,
)
_KINDS_OF_ROWS = ("EVID", "MDV", "CMT", "RATE", "ADDL", "II")
"""Columns of NONMEM and its relatives that say what a row is, beside AMT, the amount of a dose."""


def assign(table: Table, options: Options, notes: Notes) -> Parts:
    """Arrays and names of a table.

    Parameters
    ----------
    table : Table
        Its columns.
    options : Options
        What is known of them.
    notes : Notes
        Is added to.

    Raises
    ------
    ValueError
        Where a role cannot be decided, or a column that is named is not there.
    """
    options = _resolved(table, options)
    table = _without_empty(table, options, notes)
    table = _pivoted(table, options, notes)
    if options.time is None and options.states is None:
        table = with_months_as_numbers(table, notes)
    if options.trials == "suffix":
        table, options = stacked_trials(table, options, notes)
    else:
        table, options = named_runs(table, options, notes)
    if table.frame.empty:
        raise refusal("rows of numbers", f"none, and columns {quoted(table.frame.columns)}")
    given = [*options.columns("states"), *options.columns("inputs"), *options.columns("coords")]
    telling = group_columns(table, options, given)
    groups = codes(table.frame, telling)
    times = find_times(table, groups, [*telling, *given], options, notes)
    if options.time is None and times.columns:
        _say_time(table, times, notes)
    times = _in_given_unit(table, times, options, notes)
    rows, runs = runs_of(times, groups, telling, options, notes)
    frame = table.frame.iloc[rows] if rows is not None else table.frame
    t = times.values if rows is None else times.values[rows]
    states, inputs, coords = _rest(table, frame, t, runs, times, telling, options, notes)
    trials = suffix_trials(states) if options.trials == "restart" and len(runs) == 1 else {}
    if trials and table.has_names and not table.arrays:
        listed = ", ".join(" ".join(names) for names in trials.values())
        if are_of_one_name(trials):
            notes.decide(f'columns of one name as states, no trials: {listed} (trials="suffix")')
        elif min(map(len, trials.values())) > 1 or may_be_trials(trials):
            notes.say(f'states, unless these are trials: {listed} (trials="suffix")')
    x = _stacked(frame, states)
    u = _stacked(frame, inputs) if inputs else None
    t, x, u, runs = without_repeats(t, x, u, runs, options, notes)
    runs = thinned(runs, options, notes)
    units = {name: unit for name, unit in table.units.items() if name in (*states, *inputs, *coords)}
    if times.unit:
        units["t"] = times.unit
    names, units = _renamed(states, units, table.has_names, notes)
    for name, unit in options.units.items() if isinstance(options.units, Mapping) else ():
        if name != "t" and _spelled(units.get(name, unit)) != _spelled(unit):
            notes.decide(f"{name!r} in {units[name]} called {unit}, and not converted (units=)")
    per_trajectory = {name: values for name, values in coords.items() if len(runs) == len(values)}
    return Parts(
        x=[x[rows] for rows in runs],
        t=[t[rows] for rows in runs],
        state_names=names,
        coords=per_trajectory,
        units=options.with_units(units),
        u=None if u is None else [u[rows] for rows in runs],
        input_names=tuple(inputs) or None,
    )


# ---------------------------------------------------------------------- columns that are named


def _resolved(table: Table, options: Options) -> Options:
    """Options with the names of columns as they are here, where the file's own names or places were given."""
    changed: dict[str, object] = {}
    for role in ("time", "trajectory", "states", "inputs", "coords"):
        given = options.columns(role)
        found = [c for name in given for c in table.arrays.get(name) or [_column(table, role, name)]]
        if found:
            changed[role] = found[0] if role == "time" else found
    twice = [n for role in changed for n in np.atleast_1d(np.asarray(changed[role], dtype=object)).tolist()]
    if len(set(twice)) < len(twice):
        raise refusal(
            "one role for each column", f"two for {quoted(sorted({n for n in twice if twice.count(n) > 1}))}"
        )
    return Options(**{**vars(options), **changed})


def _column(table: Table, role: str, name: str) -> str:
    if name in table.frame.columns:
        return name
    for match in (
        [column for column, written in table.written.items() if written == name],
        [column for column in table.frame.columns if column.lower() == name.lower()],
    ):
        if len(match) == 1:
            return match[0]
    raise refusal(f"{role}= among the columns {quoted(table.frame.columns)}", repr(name))


def _without_empty(table: Table, options: Options, notes: Notes) -> Table:
    """The table without columns and rows that hold nothing."""
    frame = table.frame
    filled = frame.notna()
    columns = [c for c in frame if filled[c].any()]
    gone = [c for c in frame if c not in columns and not c.startswith("column ")]
    if gone:
        notes.say(f"dropped: {', '.join(gone)} (empty)")
    rows = filled[columns].any(axis=1) if columns else filled.any(axis=1)
    if not rows.all():
        notes.say(f"dropped {int((~rows).sum())} empty rows")
    if len(columns) < frame.shape[1] or not rows.all():
        frame = frame.loc[rows, columns].reset_index(drop=True)
    return replace(table, frame=frame)


def _pivoted(table: Table, options: Options, notes: Notes) -> Table:
    """A table of one row for each value of each variable as one with a column for each variable."""
    frame = table.frame
    if options.states is not None or options.trajectory is not None:
        return table
    texts = [c for c in frame if is_text(frame[c]) and not dates.looks_dated(frame[c])]
    keys = [c for c in texts if _VARIABLES.fullmatch(_words(c)) and frame[c].notna().all()]
    values = [c for c in frame if _VALUES.fullmatch(_words(c)) and is_numeric(frame[c])]
    if values:
        _check_units(frame, texts, keys)
    if len(keys) != 1 or len(values) != 1 or frame[keys[0]].nunique() < 2:
        return table
    key, value = keys[0], values[0]
    index = [c for c in frame if c not in (key, value) and not clocks.counts_rows(numbers_of(frame[c]))]
    # What is the same for all rows of a variable says more of the variable, and not when it was measured.
    about = [
        c for c in index if frame[c].nunique() > 1 and frame.groupby(key)[c].nunique(dropna=False).max() == 1
    ]
    index = [c for c in index if c not in about]
    units = dict(table.units)
    for column in (c for c in about if _UNITS.fullmatch(_words(c))):
        units |= {str(k): str(unit) for k, unit in frame.groupby(key)[column].first().items()}
    if not index or frame.duplicated([*index, key]).any():
        raise refusal(
            f"one value of each {key} at each time",
            f"several, or columns that vary otherwise: {quoted(index)}",
            "bring each variable into a column of its own",
        )
    wide = frame.pivot(index=index, columns=key, values=value).reset_index()
    wide.columns = [str(c) for c in wide.columns]
    notes.decide(f"{key!r} spread over columns {', '.join(map(str, frame[key].unique()))}")
    return Table(wide, units, {}, True, None)


def _check_units(frame: pd.DataFrame, texts: Sequence[str], keys: Sequence[str]) -> None:
    """Refuse a column of units that are not the same for all values of a variable."""
    for column in (c for c in texts if _UNITS.fullmatch(_words(c))):
        units = frame[column].dropna().astype(str)
        of_each = frame.groupby(keys)[column].nunique() if keys else frame[[column]].nunique()
        if of_each.max() > 1 and all(map(is_unit, units.unique())) and (keys or not _starts_again(frame)):
            raise refusal(
                "values in one unit",
                f"{quoted(units.unique())} in column {column!r}",
                f"convert them, or give trajectory={column!r} if that is no unit",
            )


def _starts_again(frame: pd.DataFrame) -> bool:
    """Whether a column of times falls, as where each of several machines, called T or V, begins."""
    times = [c for c in frame if clocks.is_time_name(c) and is_numeric(frame[c])]
    return any(bool((np.diff(numbers_of(frame[c])) < 0).any()) for c in times)


def _words(name: str) -> str:
    return " ".join(name.replace("_", " ").split())


def _rest(
    table: Table,
    frame: pd.DataFrame,
    t: np.ndarray,
    runs: Sequence[np.ndarray],
    times: Times,
    telling: Sequence[str],
    options: Options,
    notes: Notes,
) -> tuple[list[str], list[str], dict[str, np.ndarray]]:
    """States, inputs and values per trajectory among the columns that are left."""
    firsts = [run[0] for run in runs]
    inputs, named = options.columns("inputs"), options.columns("coords")
    coords = {name: frame[name].to_numpy()[firsts] for name in (*telling, *named)}
    for name in named:
        codes_of_column = pd.factorize(frame[name])[0]
        if any((codes_of_column[run] != codes_of_column[run[0]]).any() for run in runs):
            raise refusal(f"one value of {name!r} in each trajectory", "several", "leave it out of coords=")
    taken = {*times.columns, *telling, *inputs, *named}
    if options.states is not None:
        return options.columns("states"), inputs, _worth_keeping(coords, frame, runs)
    remaining = [c for c in frame if c not in taken]
    _check_sets(remaining)
    _check_doses(remaining)
    dropped: dict[str, str] = {}
    states: list[str] = []
    constant: list[str] = []
    timed = bool(times.columns) or options.step is not None
    units = {c: table.units.get(c, "") for c in remaining}
    counters = [c for c in remaining if _is_counter(frame, c, t, runs, timed and not units[c])]
    clocked = [c for c in remaining if times.columns and not clocks.may_be_temperature(c, units[c])]
    limits = limits_of(frame[remaining])
    for name in remaining:
        if is_text(frame[name]) or dates.looks_dated(frame[name]):
            _check_label(name, frame[name])
            dropped[name] = "text"
        elif name in counters and len(counters) < len(remaining):
            rows = name.startswith("column ") or _counts_rows(numbers_of(frame[name]), runs, 1)
            dropped[name] = "row numbers" if rows else "a counter"
        elif name in clocked and _is_second_clock(name, units[name], numbers_of(frame[name]), t, runs):
            dropped[name] = "a second clock"
        elif name in clocked and _is_restarting(name, units[name], numbers_of(frame[name]), times, t, runs):
            dropped[name] = "a clock that starts again"
        elif _is_cyclic(numbers_of(frame[name])):
            dropped[name] = "numbers of months or hours"
        elif _is_beside(numbers_of(frame[name])):
            dropped[name] = "filled in the first rows only"
        elif name in limits and _is_constant(numbers_of(frame[name]), runs):
            constant.append(name)
        elif (base := limits.get(name) or _error_of(name, frame[remaining])) is not None:
            dropped[name] = f"uncertainty of {base}"
        elif is_flag(name, numbers_of(frame[name])) and len(remaining) > 1:
            dropped[name] = "a flag"
        elif name not in counters and len(remaining) > 1 and _counts_rows(numbers_of(frame[name]), runs):
            dropped[name] = "row numbers"
        elif _is_constant(numbers_of(frame[name]), runs):
            constant.append(name)
        else:
            states.append(name)
            if (
                _ERRORS_ALONE.fullmatch(name)
                and (base := _measured_before(name, frame[remaining])) is not None
            ):
                notes.decide(f"{name!r} is a state, unless it is the error of {base!r} (states=, sigma=)")
    if not states:
        states, constant = constant, []
    for name in constant:
        values = numbers_of(frame[name])
        coords[name] = np.array([values[run][np.isfinite(values[run])][0] for run in runs])
    if constant:
        notes.decide(f"constant in each trajectory, hence no states: {', '.join(constant)} (states=)")
    shown = [
        f"{'row index' if n.startswith('column ') and why == 'row numbers' else n} ({why})"
        for n, why in dropped.items()
    ]
    if dropped:
        notes.decide(f"dropped: {', '.join(shown)} (states=)")
    if not states:
        raise refusal(
            "at least one column of states", f"columns {quoted(frame.columns)}", "name them by states="
        )
    return states, inputs, _worth_keeping(coords, frame, runs)


def _check_sets(columns: Sequence[str]) -> None:
    """Refuse columns of several sets of samples side by side, as ``uEst, yEst, uVal, yVal``."""
    sets: dict[str, list[tuple[str, str]]] = {}
    for column in columns:
        found = _SET.fullmatch(column)
        if found:
            sets.setdefault(found["set"].lower(), []).append((found["base"].lower(), column))
    groups = list(sets.values())
    bases = [[base for base, _ in group] for group in groups]
    if len(groups) > 1 and bases[0] and all(other == bases[0] for other in bases):
        listed = " beside ".join(", ".join(column for _, column in group) for group in groups)
        raise refusal("one set of samples", listed, "name those of one by states= and inputs=")


def _check_doses(columns: Sequence[str]) -> None:
    """Refuse rows of doses among rows of samples, as programs of pharmacokinetics write them."""
    by_name = {column.upper(): column for column in columns}
    kinds = [by_name[name] for name in _KINDS_OF_ROWS if name in by_name]
    if "AMT" in by_name and kinds:
        raise refusal(
            "rows of samples",
            f"doses between them ({by_name['AMT']!r} beside {quoted(kinds)})",
            'name what was measured, as states=["DV"], and give the doses to load("equations", doses=...)',
        )


def _error_of(name: str, frame: pd.DataFrame) -> str | None:
    """The column that another one states the uncertainty of."""
    if _ERRORS_ALONE.fullmatch(name):
        mean = next((c for c in frame if _MEAN.fullmatch(c)), None)
        if mean is not None or _SURE_ERRORS.match(name) is None:
            return mean
        return _measured_before(name, frame)
    if (base := _bounded_by(name, frame)) is not None:
        return base
    if is_numeric(frame[name]) and np.nanmin(numbers_of(frame[name]), initial=0.0) < 0.0:
        return None  # components of velocities beside positions: x, u_x
    found = _ERRORS.fullmatch(name)
    base = (found["base"] or found["of"]).strip() if found else ""
    bases = {base.lower(), *(f"{base.lower()}{mark}{mean}" for mark in "_ ." for mean in _MEANS)}
    measured = next((c for c in frame if c != name and c.lower() in bases), None)
    if measured is not None and _DELTA.match(name):
        numeric = is_numeric(frame[name]) and is_numeric(frame[measured])
        small = numeric and _is_small(numbers_of(frame[name]), numbers_of(frame[measured]))
        return measured if small else None
    return measured


def _bounded_by(name: str, frame: pd.DataFrame) -> str | None:
    """The column that another one is a lower or an upper bound of, by its name and in every row."""
    found = _BOUNDS.fullmatch(name)
    base = next((c for c in frame if found and c != name and c.lower() == found["base"].lower()), None)
    if found is None or base is None or not (is_numeric(frame[name]) and is_numeric(frame[base])):
        return None
    above = numbers_of(frame[base]) - numbers_of(frame[name])
    above = (above if found["low"] else -above)[np.isfinite(above)]
    return base if len(above) and above.min() >= 0.0 and above.max() > 0.0 else None


def _is_small(errors: np.ndarray, values: np.ndarray) -> bool:
    """Whether errors are small beside the range of what they belong to, as no change of it is."""
    return bool(np.nanmax(errors) <= _SMALL * (np.nanmax(values) - np.nanmin(values)))


def _measured_before(name: str, frame: pd.DataFrame) -> str | None:
    """The column before one of errors, as ``x, SD`` or ``x, y, SD, SD``, if these are as small as errors are.

    A deviation that a controller calls ``error`` has both signs.
    """
    columns = [c for c in frame if is_numeric(frame[c])]
    place = first = last = columns.index(name)
    while first > 0 and _ERRORS_ALONE.fullmatch(columns[first - 1]):
        first -= 1
    while last < len(columns) - 1 and _ERRORS_ALONE.fullmatch(columns[last + 1]):
        last += 1
    if first == 0:
        return None
    # As many errors as columns before them belong to these in order; others all to the last one.
    behind = last - first + 1
    before = place - behind if behind <= first else first - 1
    if _ERRORS_ALONE.fullmatch(columns[before]):
        before = first - 1
    errors, values = numbers_of(frame[name]), numbers_of(frame[columns[before]])
    small = np.nanmax(errors) < np.nanmax(np.abs(values))
    return columns[before] if np.nanmin(errors) >= 0 and small else None


def is_flag(name: str, values: np.ndarray) -> bool:
    """Whether a column marks rows as good or bad."""
    seen = np.unique(values[np.isfinite(values)])
    return _FLAGS.fullmatch(name) is not None and len(seen) <= _MARKS and bool(np.all(seen == np.floor(seen)))


def _counts_rows(values: np.ndarray, runs: Sequence[np.ndarray], some: int = _COUNTED) -> bool:
    """Whether a column counts the rows, so many at least; for long, one of any name is a clock."""
    long = max(map(len, runs)) >= some
    return long and (clocks.counts_rows(values) or all(clocks.counts_rows(values[run]) for run in runs))


def _check_label(name: str, column: pd.Series) -> None:
    """Refuse to drop text that holds numbers: columns that were not split, clocks, numbers in disguise."""
    facts = stands_beside(column) and not any(map(in_disguise, column.dropna().astype(str)))
    if dates.looks_dated(column) or facts:
        return
    cells = column.dropna().astype(str)
    if len(cells) <= _FEW:
        return
    disguised = cells.map(begins_with_number)
    if disguised.mean() > 0.5 and cells[disguised].nunique() > _FEW:
        others = [cell for cell in cells[disguised].unique() if not is_number(cell.strip())]
        raise refusal(
            f"plain numbers, dates or labels in column {name!r}",
            repr(others[0] if others else cells.iloc[0]),
            "write numbers alone, give missing= for texts that stand for none, time_format= for times, "
            "separator= where it holds several columns, or states= to leave it out",
        )
    if cells.nunique() > _MOSTLY * len(column) and cells.str.contains(r"\d").mean() > _MOSTLY:
        raise refusal(
            f"numbers, dates or labels in column {name!r}",
            f"{cells.iloc[0]!r}, {cells.iloc[1]!r}, ...",
            "give separator= where it holds several columns, time_format= where it holds times, or states=",
        )


def _worth_keeping(
    coords: dict[str, np.ndarray], frame: pd.DataFrame, runs: Sequence[np.ndarray]
) -> dict[str, np.ndarray]:
    """Values per trajectory, without a numbering that says no more than their order."""
    kept = {}
    for name, values in coords.items():
        counting = values.dtype.kind in "iu" and np.array_equal(values, np.arange(len(values)))
        if not (counting and name.lower() == "trajectory"):
            kept[name] = values.astype(object) if values.dtype.kind not in "iufb" else values
    return {
        name: np.asarray([str(v) for v in values]) if values.dtype == object else values
        for name, values in kept.items()
    }


def _is_counter(
    frame: pd.DataFrame, name: str, t: np.ndarray, runs: Sequence[np.ndarray], timed: bool
) -> bool:
    """Whether a column counts the rows by its name and values; in any step, if ``timed``."""
    values = numbers_of(frame[name])
    if not clocks.is_counter_name(name) or (len(name) == 1 and name != "#" and len(t) < _COUNTED):
        return False
    if name == "column 1" and name == frame.columns[0]:
        if 0 < np.isfinite(values).mean() < 0.5:
            raise refusal(
                "a row for each sample",
                f"several, numbered in {int(np.isfinite(values).sum())} of {len(values)} rows only",
                "write the values of each sample side by side",
            )
        # An index without a name: pandas keeps it when rows are taken out.
        seen = [values[run][np.isfinite(values[run])] for run in runs]
        rising = np.concatenate([np.diff(run) >= 0 for run in seen])
        whole = np.concatenate([run == np.floor(run) for run in seen])
        return bool(rising.mean() > _MOSTLY and whole.mean() > _MOSTLY) if len(rising) else False
    on = timed and all(clocks.counts_on(name, values[run]) for run in runs)
    return on or _counts_rows(values, runs, 1)


def _is_second_clock(
    name: str, unit: str, values: np.ndarray, t: np.ndarray, runs: Sequence[np.ndarray]
) -> bool:
    """Whether a column called time goes on as the time does; exactly, if it is called so in one word."""
    if clocks.is_time_name(name, unit):
        return _is_linear(values, t, runs)
    return clocks.is_time_in_one_word(name, unit) and _is_linear(values, t, runs, _EXACTLY)


def _is_restarting(
    name: str, unit: str, values: np.ndarray, times: Times, t: np.ndarray, runs: Sequence[np.ndarray]
) -> bool:
    """Whether the time of a step or a lap goes on as the time does, as fast, and starts again."""
    falls = [np.flatnonzero(np.diff(values[run]) < 0) + 1 for run in runs]
    pieces = [piece for run, starts in zip(runs, falls, strict=True) for piece in np.split(run, starts)]
    long = len(pieces) * _PIECE <= sum(map(len, runs))
    if not clocks.is_time_of_step(name) or len(runs) == len(pieces) or not long:
        return False
    seconds = [clocks.IN_SECONDS.get(clocks.unit_of_name(given), 1.0) for given in (unit, times.unit)]
    ratio = seconds[0] / seconds[1] if unit and times.unit else 1.0
    grown = [sum(np.ptp(of[piece]) for piece in pieces) for of in (values * ratio, t)]
    return _is_linear(values, t, pieces) and abs(grown[0] - grown[1]) <= _SAME_RATE * grown[1]


def _is_linear(
    values: np.ndarray, t: np.ndarray, runs: Sequence[np.ndarray], within: float | None = None
) -> bool:
    """Whether values go on as the time does; within a part of a usual step, or of the span."""
    since = np.concatenate([values[run] - values[run[0]] for run in runs])
    other = np.concatenate([t[run] - t[run[0]] for run in runs])
    if not np.isfinite(since).all() or not other.any():
        return False
    slope = since @ other / (other @ other)
    limit = 0.01 * np.ptp(since)
    if within is not None:
        limit = within * abs(np.median(np.diff(since))) + clocks.resolution(values)
        limit += slope * clocks.resolution(t)
    return bool(np.abs(since - slope * other).max() <= limit) and slope > 0


def _is_beside(values: np.ndarray) -> bool:
    """Whether values stand in the first rows only, as facts about a record do beside it."""
    seen = np.flatnonzero(np.isfinite(values))
    return len(values) >= 20 and len(seen) > 0 and bool(seen[-1] < len(values) / 5)


def _is_cyclic(values: np.ndarray) -> bool:
    """Whether values count months, hours or minutes over and over, as parts of dates do."""
    if not np.isfinite(values).all() or len(values) < _COUNTED:
        return False
    low, high = values.min(), values.max()
    steps = np.unique(np.diff(values))
    return (low, high) in _CYCLES and np.array_equal(steps, [low - high, 1.0])


def _is_constant(values: np.ndarray, runs: Sequence[np.ndarray]) -> bool:
    seen = [values[run][np.isfinite(values[run])] for run in runs]
    return all(len(run) and np.ptp(run) == 0 for run in seen) and max(map(len, runs)) > 1


# ---------------------------------------------------------------------- samples


def _stacked(frame: pd.DataFrame, names: Sequence[str]) -> np.ndarray:
    for name in names:
        if not is_numeric(frame[name]):
            raise refusal(
                f"numbers in column {name!r}",
                f"{str(frame[name].iloc[0])[:40]!r} among them",
                "leave it out of states=",
            )
    return np.stack([numbers_of(frame[name]) for name in names], axis=1)


def _renamed(
    states: Sequence[str], units: Mapping[str, str], has_names: bool, notes: Notes
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Names of states that are none of columns by place, and not that of the time."""
    names = {name: name for name in states}
    for k, name in enumerate(states):
        if not has_names or name.startswith("column "):
            names[name] = f"x{k}"
    if "t" in names:
        names["t"] = "t_"
        notes.decide("state 't' called 't_', for t is the time")
    return tuple(names[name] for name in states), {
        names.get(name, name): unit for name, unit in units.items()
    }


def _spelled(unit: str) -> str:
    """A unit in letters that all keyboards have: uM for µM, degC for °C."""
    return re.sub("[°º] ?", "deg", re.sub("[\u00b5\u03bc]", "u", unit))


def _in_given_unit(table: Table, times: Times, options: Options, notes: Notes) -> Times:
    """Seconds of dates in the unit that was asked for; a unit that the file states is renamed."""
    given = options.unit_of_time
    unit, stated = clocks.unit_of_name(given), clocks.unit_of_name(times.unit)
    if not given or not stated or unit == stated:
        return times
    numeric = [c for c in times.columns[:1] if is_numeric(table.frame[c])]
    if any(times.unit in (table.units.get(c), clocks.unit_of_name(c)) for c in numeric):
        notes.decide(clocks.said_unit(times.unit, given))
        return times
    if unit not in clocks.IN_SECONDS:
        raise refusal(
            "a unit of time as units= of t, for times that were read in seconds",
            repr(given),
            f"give one of {quoted(clocks.IN_SECONDS)}",
        )
    notes.say(f"times converted from s to {given}")
    return replace(times, values=times.values / clocks.IN_SECONDS[unit])


def _say_time(table: Table, times: Times, notes: Notes) -> None:
    first = times.columns[0]
    written = table.written.get(first) or first
    text = f"time: {written!r}" + (f" in {times.unit}" if times.unit else "")
    if not any(note.startswith("time: ") for note in notes.done):
        notes.say(text)
