"""Which rows, or which columns, are one trajectory."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from fim_dynsys.trajectories.reading import clocks, dates
from fim_dynsys.trajectories.reading.columns import is_text, numbers_of
from fim_dynsys.trajectories.reading.options import Notes, Options, quoted, refusal
from fim_dynsys.trajectories.reading.text import Table
from fim_dynsys.trajectories.reading.timing import Times
from fim_dynsys.trajectories.reading.units import split_name
from fim_dynsys.wording import counted

_GROUPS = re.compile(
    r"(trajector(y|ies)|traj|trials?|runs?|experiments?|exp|subjects?|patients?|animals?|individuals?|ids?|replicates?|rep|"
    r"replica|series|batch|tracks?|particles?|specimens?|sessions?|episodes?|groups?|conditions?|treatments?|well|"
    r"sites?|stations?|culture|strain|versuch|messung|durchgang|measurement|case|dataset|seed|participants?|probe|"
    r"simulation|segment|block|unit|device|sensor ?id)( ?(no|nr|number|num|id|index|name|#))?\.?",
    re.IGNORECASE,
)
_SUFFIX = re.compile(r"^(?P<base>.*[^\W\d_].*?)(?:[ _.-]?)(?P<number>\d+|[A-Z])$")
_CALLED = r"(?:run|trial|test|experiment|exp|versuch|messung|replicate|rep|series|latest)"
_EACH = r"(?:mouse|rat|dog|fish|worm|plant|colony|subject|patient|animal|participant|individual|replica)"
_RUN = (  # `Run 1: x`, `x Run #1` and `trial 1`, which name trials and nothing else
    re.compile(rf"^{_CALLED}[ _#.-]*(?P<number>\d+|[A-Z])\s*[:. _-]\s*(?P<base>[^\W\d].*)$", re.IGNORECASE),
    re.compile(rf"^(?P<base>.+?)[ ,;:_(-]+{_CALLED}[ _#.-]*(?P<number>\d+)\)?$", re.IGNORECASE),
    re.compile(rf"^(?:{_CALLED}|{_EACH})[ _#.-]*(?P<number>\d+|[A-Z])$", re.IGNORECASE),
)
_VALUE = "value"  # name of what each trial measures, where the file does not say it
_SPARE = 3  # rows of each trajectory, at least on average, for a column to tell trajectories apart


def group_columns(table: Table, options: Options, given: Sequence[str]) -> list[str]:
    """Columns whose values tell trajectories apart."""
    if options.trajectory is not None:
        return options.columns("trajectory")
    frame = table.frame
    if options.trials == "none":
        return []
    found = []
    for name in frame:
        column = frame[name]
        if name in given or name == options.time or column.isna().any() or dates.looks_dated(column):
            continue
        called = _GROUPS.fullmatch(_words(name)) is not None
        if not called and not is_text(column):
            continue
        values, different = numbers_of(column), column.nunique()
        if different * _SPARE > len(frame):
            continue
        whole = is_text(column) or bool(np.all(values == np.floor(values)))
        if (called and whole) or (is_text(column) and different > 1 and _restarts_with(table, name, options)):
            found.append(name)
    labels = [c for c in frame if c not in found and c not in given and _is_label(frame[c])]
    if found and labels and not _grow_within(table, found) and _grow_within(table, [*found, *labels]):
        found += labels
    return found


def _is_label(column: pd.Series) -> bool:
    return is_text(column) and not dates.looks_dated(column) and column.notna().all() and column.nunique() > 1


def _grow_within(table: Table, columns: Sequence[str]) -> bool:
    """Whether a column that is called time grows within each group of rows that columns tell apart."""
    groups = codes(table.frame, columns)
    if groups is None or (groups.max() + 1) * _SPARE > len(groups):
        return False
    for column in clocks.time_columns(table.frame, table.units):
        values = numbers_of(table.frame[column])
        if np.isfinite(values).all():
            return all((np.diff(values[groups == k]) > 0).all() for k in range(groups.max() + 1))
    return False


def _words(name: str) -> str:
    return re.sub(r"[_\s]+", " ", name)


def _restarts_with(table: Table, name: str, options: Options) -> bool:
    """Whether a column of labels is needed for the times to grow."""
    codes_of_column = pd.factorize(table.frame[name])[0]
    for column in clocks.time_columns(table.frame.columns.drop(name), table.units):
        values = numbers_of(table.frame[column])
        if dates.looks_dated(table.frame[column]):
            values = dates.as_seconds(column, table.frame[column], options, Notes())
        if not np.isfinite(values).all() or (np.diff(values) > 0).all():
            continue
        if all((np.diff(values[codes_of_column == code]) > 0).all() for code in np.unique(codes_of_column)):
            return True
    return False


def codes(frame: pd.DataFrame, columns: Sequence[str]) -> np.ndarray | None:
    """A number for each row that says which trajectory it belongs to, in order of appearance."""
    if not columns:
        return None
    for name in columns:
        if frame[name].isna().any():
            row = int(np.argmax(frame[name].isna().to_numpy()))
            raise refusal(
                f"a label in every row of column {name!r}",
                f"none in row {row + 1}",
                "fill it or drop the row",
            )
    keys = (
        frame[columns[0]]
        if len(columns) == 1
        else pd.Series(list(map(tuple, frame[list(columns)].to_numpy())))
    )
    return pd.factorize(keys, sort=False)[0]


def runs_of(
    times: Times, groups: np.ndarray | None, telling: Sequence[str], options: Options, notes: Notes
) -> tuple[np.ndarray | None, list[np.ndarray]]:
    """Rows that are kept (None for all), and the rows of each trajectory among these."""
    t = times.values
    missing = ~np.isfinite(t)
    if missing.any() and options.bad_rows != "drop":
        raise refusal(
            "a time in every row",
            f"none in row {int(np.argmax(missing)) + 1}",
            'fill it, or give bad_rows="drop"',
        )
    rows = np.flatnonzero(~missing)
    if missing.any():
        notes.decide(f"dropped {counted(int(missing.sum()), 'row')} without a time")
        t = t[rows]
        groups = None if groups is None else groups[rows]
    pieces = (
        [np.arange(len(t))]
        if groups is None
        else [np.flatnonzero(groups == k) for k in range(groups.max() + 1)]
    )
    runs: list[np.ndarray] = []
    for piece in pieces:
        falls = np.flatnonzero(np.diff(t[piece]) < 0)
        clock = clocks.clock_of(t[piece]) if len(falls) else None
        if len(falls) and (clock is None or options.trials == "none"):
            k = int(falls[0])
            raise refusal(
                f"times that increase, or start again near {t[piece][0]:g}",
                f"{t[piece][k + 1]:g} after {t[piece][k]:g} in row {rows[piece[k + 1]] + 1}",
                "give trajectory= where a column tells trajectories apart, or time= or step=",
            )
        runs += [piece] if clock is None else np.split(piece, clock.starts[1:])
    if len(runs) > len(pieces):
        notes.decide(f'{len(runs)} trajectories, because the time starts again (trajectory=, trials="none")')
    elif len(runs) > 1 and any(_GROUPS.fullmatch(_words(name)) is None for name in telling):
        notes.decide(f"{len(runs)} trajectories by {quoted(telling)} (trajectory=)")
    elif len(runs) > 1:
        notes.say(f"{len(runs)} trajectories")
    return (rows if missing.any() else None), [run for run in runs if len(run)]


def stacked_trials(table: Table, options: Options, notes: Notes) -> tuple[Table, Options]:
    """The columns of each trial below each other."""
    frame = table.frame
    twice = {name for c in frame if f"{c}.1" in frame for name in frame if re.sub(r"\.\d+$", "", name) == c}
    suffixed = {c for c in frame if _SUFFIX.match(c) and not clocks.is_time_name(c)}
    names = options.columns("states") or [c for c in frame if c in twice | suffixed and c != options.time]
    trials = suffix_trials(names)
    if not trials:
        raise refusal('names like x_1, v_1, x_2, v_2 with trials="suffix"', quoted(frame.columns))
    bases = [m["base"] for name in list(trials.values())[-1] if (m := _SUFFIX.match(name))]
    bases = [_VALUE if base == "trial" else base for base in bases]
    notes.say(f"{len(trials)} trials of {', '.join(bases)}")
    return _below(table, trials, bases, options)


def named_runs(table: Table, options: Options, notes: Notes) -> tuple[Table, Options]:
    """The columns of each run below each other, where names say the run: ``Run 1: x, Run 2: x``."""
    given = (options.time, options.trajectory, options.states, options.inputs, options.coords)
    if options.trials != "restart" or any(value is not None for value in given):
        return table, options
    for pattern in _RUN:
        found = {c: match for c in table.frame if (match := pattern.match(c))}
        by_run: dict[str, list[str]] = {}
        for column, match in found.items():
            by_run.setdefault(match["number"], []).append(column)
        bases = [[found[c].groupdict().get("base", _VALUE) for c in columns] for columns in by_run.values()]
        shared = [c for c in table.frame if c not in found and not dates.looks_dated(table.frame[c])]
        if len(bases) < 2 or any(base != bases[0] for base in bases) or len(set(bases[0])) < len(bases[0]):
            continue
        if len(shared) > 1:  # the time, if it is common to all
            continue
        names = [split_name(base) for base in bases[0]]
        table = replace(table, units={n: unit for n, unit in names if unit} | table.units)
        notes.decide(f'{len(by_run)} trials of {", ".join(n for n, _ in names)} by names (trials="none")')
        dated = [c for c in table.frame if c not in found and c not in shared]
        table = replace(table, frame=table.frame.drop(columns=dated))
        return _below(table, by_run, [n for n, _ in names], options)
    return table, options


def are_of_one_name(trials: Mapping[str, Sequence[str]]) -> bool:
    """Whether the columns bear the same names in every trial: ``x, x.1, x.2``."""
    first = trials.get("0", ())
    return bool(first) and all(
        list(names) == [f"{name}.{number}" for name in first]
        for number, names in trials.items()
        if number != "0"
    )


def may_be_trials(trials: Mapping[str, Sequence[str]]) -> bool:
    """Whether three states or more of one word and a number may be trials; x1, x2, x3 are not."""
    name = next(iter(trials.values()))[0]
    match = _SUFFIX.match(name)
    return len(trials) > 2 and match is not None and not re.fullmatch(r"[a-z][ _]?", match["base"])


def _below(
    table: Table, trials: Mapping[str, Sequence[str]], bases: Sequence[str], options: Options
) -> tuple[Table, Options]:
    frame, names = table.frame, {name for columns in trials.values() for name in columns}
    shared = [c for c in frame if c not in names]
    parts = []
    for label, columns in trials.items():
        part = frame[[*shared, *columns]].rename(columns=dict(zip(columns, bases, strict=True)))
        parts.append(part[part[bases].notna().any(axis=1)].assign(trial=label))
    units = table.units | {
        base: table.units[c]
        for base, c in zip(bases, trials[next(iter(trials))], strict=True)
        if c in table.units
    }
    stacked = replace(table, frame=pd.concat(parts, ignore_index=True), units=units)
    return stacked, Options(**{**vars(options), "trials": "restart", "trajectory": "trial", "states": None})


def suffix_trials(states: Sequence[str]) -> dict[str, list[str]]:
    """States by their common suffix, ``{"1": ["x_1", "v_1"], ...}``; empty where these differ in number.

    Columns of one name, which pandas and this reader call ``x, x.1, x.2``, begin with the suffix "0".
    """
    found: dict[str, list[str]] = {}
    bases: dict[str, list[str]] = {}
    for name in states:
        match = _SUFFIX.match(name)
        if f"{name}.1" in states:
            base, number = name, "0"
        elif match is not None:
            base, number = match["base"], match["number"]
        else:
            return {}
        found.setdefault(number, []).append(name)
        bases.setdefault(number, []).append(base)
    alike = len({tuple(names) for names in bases.values()}) == 1
    return found if len(found) > 1 and alike else {}
