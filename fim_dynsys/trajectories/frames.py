"""Long tables: into plain arrays and out again."""

import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fim_dynsys.trajectories.holding import Hold
from fim_dynsys.trajectories.observations import with_free_names
from fim_dynsys.trajectories.parts import ROLES_KEY, TIME_NAMES, Parts, seconds


def join_frame(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]],
    state_names: Sequence[str],
    coords: Mapping[str, np.ndarray],
    units: Mapping[str, str],
    inputs: Mapping[str, np.ndarray],
    hold: str,
) -> pd.DataFrame:
    """Long table of ``(t, x)`` pairs; ``frame.attrs`` says what its columns are and how inputs are held.

    Raises
    ------
    ValueError
        If two columns would bear one name, or two trajectories one label.
    """
    labels = coords.get("trajectory", np.arange(len(pairs)))
    numbered = len(pairs) > 1 or "trajectory" in coords
    extra = [name for name in coords if name != "trajectory"]
    columns = [*(["trajectory"] if numbered else []), "t", *state_names, *inputs, *extra]
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise ValueError(
            f"to_dataframe: expected different names for time, states and coordinates, got {twice} twice; "
            "rename the state or the coordinate"
        )
    if len(set(labels.tolist())) < len(pairs):
        raise ValueError(
            f"to_dataframe: expected a different label for each trajectory, got {labels.tolist()}; "
            "relabel them or drop the labels by with_coords(trajectory=None)"
        )
    owner = np.repeat(np.arange(len(pairs)), [len(t) for t, _ in pairs])
    x = np.concatenate([values for _, values in pairs])
    data = {"t": np.concatenate([t for t, _ in pairs])}
    data |= {name: x[:, i] for i, name in enumerate(state_names)}
    data |= inputs
    data |= {name: coords[name][owner] for name in extra}
    data |= {"trajectory": labels[owner]} if numbered else {}
    frame = pd.DataFrame(data, columns=columns)
    frame.attrs[ROLES_KEY] = {
        "time": "t",
        "trajectory": "trajectory" if numbered else None,
        "states": list(state_names),
        "inputs": list(inputs),
        "coords": extra,
        "units": dict(units),
        **({} if hold == Hold.AUTO.value else {"hold": hold}),
    }
    return frame


def split_frame(
    frame: Any,
    time: str | None,
    trajectory: str | None,
    states: Sequence[str] | None,
    coords: Sequence[str] | None,
    inputs: Sequence[str] | None,
) -> Parts:
    """Arrays and names from a long table; see ``Trajectories.from_dataframe``."""
    if not isinstance(frame, pd.DataFrame):
        kind = f"{type(frame).__module__.split('.')[0]}.{type(frame).__name__}".removeprefix("builtins.")
        remedy = (
            "give frame.to_pandas()"
            if hasattr(frame, "to_pandas") and "DataFrame" in kind
            else ("use from_arrays for arrays, from_dataset for xarray")
        )
        raise ValueError(f"Trajectories.from_dataframe: expected a pandas DataFrame, got {kind}; {remedy}")
    frame = _with_index_as_columns(frame, time)
    known = _known_roles(frame)
    time = time or known.get("time") or _pick(frame)
    trajectory = trajectory or known.get("trajectory") or ("trajectory" if "trajectory" in frame else None)
    coords = _names(known.get("coords", []) if coords is None else coords)
    inputs = _names(known.get("inputs", []) if inputs is None else inputs)
    taken = {time, trajectory, *coords, *inputs}
    rest = known.get("states") or [name for name in frame.columns if name not in taken]
    states = rest if states is None else _names(states)
    _check_columns(frame, [time, *([trajectory] if trajectory else []), *states, *inputs, *coords])
    if frame.empty or not states:
        raise ValueError(
            f"Trajectories.from_dataframe: expected rows and at least one state column, got "
            f"{len(frame)} rows and columns {list(frame.columns)}"
        )
    times, units = _times_of(frame, time, known.get("units", {}))
    values = np.stack([_numbers(frame, name) for name in states], axis=1)
    measured = np.stack([_numbers(frame, name) for name in inputs], axis=1) if inputs else values
    groups, labels = _groups(frame, trajectory)
    per_trajectory = {name: _constants(frame, name, groups) for name in coords}
    if labels is not None and trajectory is not None:
        per_trajectory[trajectory] = labels
    free = with_free_names(per_trajectory, map(str, frame.columns))
    return Parts(
        x=[values[rows] for rows in groups],
        t=[times[rows] for rows in groups],
        state_names=_texts(states, "x"),
        coords={free[name]: values_of for name, values_of in per_trajectory.items()},
        units=units,
        u=[measured[rows] for rows in groups] if inputs else None,
        input_names=_texts(inputs, "u") or None,
        attrs={"hold": known["hold"]} if inputs and "hold" in known else {},
    )


def _with_index_as_columns(frame: pd.DataFrame, time: str | None) -> pd.DataFrame:
    """The table with its index as columns where that means something: where it has names, or holds times."""
    index = frame.index
    if any(name is not None for name in index.names):
        return frame.reset_index()
    holds_times = not isinstance(index, pd.MultiIndex) and index.dtype.kind in "fmM"
    if holds_times and not {time, *TIME_NAMES} & set(frame.columns):
        return frame.reset_index(names=time or "t")
    return frame


def _known_roles(frame: pd.DataFrame) -> dict[str, Any]:
    """What ``join_frame`` wrote down about the columns, where they are all still there."""
    roles = frame.attrs.get(ROLES_KEY, {})
    lists = [name for key in ("states", "inputs", "coords") for name in roles.get(key, [])]
    columns = [roles.get("time"), roles.get("trajectory"), *lists]
    return roles if all(name is None or name in frame for name in columns) else {}


def _names(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _texts(names: Sequence[Any], letter: str) -> tuple[str, ...]:
    """Names as texts; columns that are numbered have none and get a letter, since 0 is no name of a state."""
    return tuple(f"{letter}{name}" if isinstance(name, numbers.Integral) else str(name) for name in names)


def _pick(frame: pd.DataFrame) -> str:
    """The column of times: t or time, else the only one of dates or durations."""
    named = [name for name in TIME_NAMES if name in frame]
    dated = [name for name in frame.columns if _is_dated(frame.dtypes[name])] if not named else []
    if len(named) + len(dated) == 1:
        return (named + dated)[0]
    raise ValueError(
        f"Trajectories.from_dataframe: expected a time column named {' or '.join(TIME_NAMES)}, got columns "
        f"{list(frame.columns)}; name it by time="
    )


def _check_columns(frame: pd.DataFrame, names: Sequence[str]) -> None:
    columns = list(frame.columns)
    wrong = [name for name in names if columns.count(name) != 1]
    if wrong:
        raise ValueError(
            f"Trajectories.from_dataframe: expected each of the columns {wrong} once, got columns {columns}"
        )
    twice = sorted({str(name) for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"Trajectories.from_dataframe: expected one role per column, got two for {twice}")


def _numbers(frame: pd.DataFrame, name: str) -> np.ndarray:
    column = frame[name]
    # Real numbers, pandas' nullable ones too; booleans, categories, dates and text are refused.
    if not pd.api.types.is_any_real_numeric_dtype(column.dtype):
        raise ValueError(
            f"Trajectories.from_dataframe: expected real numbers in column {name!r}, got dtype "
            f"{column.dtype}; convert it, or name the states by states= and others by coords="
        )
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _is_dated(dtype: Any) -> bool:
    return getattr(dtype, "kind", "") in "mM"


def _times_of(frame: pd.DataFrame, name: str, units: Mapping[str, str]) -> tuple[np.ndarray, dict[str, str]]:
    """Times as numbers, and units by name; dates become seconds since the first."""
    column = frame[name]
    if not _is_dated(column.dtype):
        return _numbers(frame, name), dict(units)
    if getattr(column.dt, "tz", None) is not None:
        column = column.dt.tz_convert(None)
    missing = np.flatnonzero(column.isna())
    if len(missing):
        raise ValueError(
            f"Trajectories.from_dataframe: expected a time in every row of column {name!r}, got none in row "
            f"{missing[0]}; fill it or drop the row"
        )
    return seconds(column.to_numpy()), {**units, "t": "s"}


def _groups(frame: pd.DataFrame, trajectory: str | None) -> tuple[list[np.ndarray], np.ndarray | None]:
    """Rows of each trajectory in order of appearance, and labels unless these just count from 0."""
    if trajectory is None:
        return [np.arange(len(frame))], None
    codes, labels = pd.factorize(frame[trajectory], sort=False)
    if (codes < 0).any():
        raise ValueError(
            f"Trajectories.from_dataframe: expected a label in every row of column {trajectory!r}, got none "
            f"in row {int(np.argmax(codes < 0))}; fill it or drop the row"
        )
    order = np.argsort(codes, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    labels = np.asarray(labels)
    counting = labels.dtype.kind in "iu" and np.array_equal(labels, np.arange(labels.size))
    return groups, None if counting and trajectory == "trajectory" else labels


def _constants(frame: pd.DataFrame, name: str, groups: Sequence[np.ndarray]) -> np.ndarray:
    column = frame[name]
    codes = pd.factorize(column)[0]
    for k, rows in enumerate(groups):
        if (codes[rows] != codes[rows[0]]).any():
            raise ValueError(
                f"Trajectories.from_dataframe: expected one value of coordinate {name!r} per trajectory, got "
                f"several in trajectory {k}; name it in inputs, or leave it out"
            )
    return column.to_numpy()[[rows[0] for rows in groups]]
