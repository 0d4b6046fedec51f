"""Arrays by name, as MATLAB, numpy and HDF5 keep them, as columns or as trajectories."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import h5py
import numpy as np
import pandas as pd

from fim_dynsys.trajectories.files import check_self_contained
from fim_dynsys.trajectories.parts import Parts
from fim_dynsys.trajectories.reading import clocks
from fim_dynsys.trajectories.reading.options import Notes, Options, quoted, refusal
from fim_dynsys.trajectories.reading.text import Table
from fim_dynsys.trajectories.reading.units import split_name

TRIAL = "trial"  # column of the number of the trajectory, of cells, structures and groups
_LARGEST = 1 << 33  # bytes that one array may take; more is a damaged header


def read_arrays(name: str, content: bytes, kind: str, options: Options, notes: Notes) -> Table | Parts:
    """Read ``.mat``, ``.npy``, ``.npz`` or HDF5.

    Parameters
    ----------
    name : str
        Of the file, for errors.
    content : bytes
        All of it.
    kind : str
        "matlab", "numpy" or "hdf5".
    options : Options
        What is known of it.
    notes : Notes
        Is added to.

    Raises
    ------
    ValueError
        Where it cannot be read, or its arrays do not belong together.
    """
    try:
        if kind == "numpy":
            arrays = _numpy(content)
        elif content.startswith(b"\x89HDF") or content[512:516] == b"\x89HDF":
            arrays = _hdf5(content)
        elif kind == "hdf5":
            raise ValueError("it does not begin as such a file does")
        else:
            arrays = _matlab(content)
    except Exception as error:  # of a damaged file the readers raise whatever they run into
        said = " ".join(str(error).split())[:200]
        raise refusal(f"a file of {kind} arrays", f"{name!r}: {said or type(error).__name__}") from error
    return _together(name, arrays, options, notes)


def _numpy(content: bytes) -> dict[str, np.ndarray]:
    loaded = np.load(io.BytesIO(content), allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        if loaded.dtype.names:
            return {field: loaded[field] for field in loaded.dtype.names}
        return {"": loaded}
    with loaded:
        return {key: loaded[key] for key in loaded.files}


def _matlab(content: bytes) -> dict[str, np.ndarray]:
    import scipy.io  # when used: it takes a fifth of a second

    loaded = scipy.io.loadmat(io.BytesIO(content), squeeze_me=False, struct_as_record=False)
    found: dict[str, np.ndarray] = {}
    for key, value in loaded.items():
        if not key.startswith("__"):
            _add(found, key, value)
    return found


def _add(found: dict[str, np.ndarray], key: str, value: Any) -> None:
    """An array, or the fields of a structure, under their own names where these are not taken.

    Cells and arrays of structures are trajectories, which are joined with their number.
    """
    if isinstance(value, np.ndarray) and value.dtype == object and value.size == 1:
        value = value.flat[0]
    if isinstance(value, np.ndarray) and value.dtype == object and value.size > 1:
        parts: list[dict[str, np.ndarray]] = []
        for item in value.flat:
            kept: dict[str, np.ndarray] = {}
            _add(kept, key, item)
            parts.append({name: array for name, array in kept.items() if array.dtype.kind in "iufb"})
        found |= _numbered(parts)
        return
    fields = getattr(value, "_fieldnames", None)
    if fields is not None:
        for field in fields:
            _add(found, field if field not in found else f"{key}.{field}", getattr(value, field))
    elif isinstance(value, np.ndarray):
        found[key] = value


def _numbered(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Arrays of several trajectories below each other, with the number of each row's trajectory.

    Raises
    ------
    ValueError
        If they hold different names, or arrays that do not go together.
    """
    if not parts or not parts[0] or any(set(part) != set(parts[0]) for part in parts):
        raise ValueError("its cells, structures or groups hold different names")
    joined: dict[str, list[np.ndarray]] = {}
    numbers = []
    for number, part in enumerate(parts, start=1):
        n = max(max(array.shape) for array in part.values())
        for name, array in part.items():
            if n not in array.shape:
                continue  # settings of the trajectory
            tall = array if array.shape[0] == n else array.T
            joined.setdefault(name, []).append(tall.reshape(n, -1))
        numbers.append(np.full(n, number))
    whole = {name: rows for name, rows in joined.items() if len(rows) == len(parts)}
    if len(
        {rows.shape[1] for runs in whole.values() for rows in runs[1:] if runs[0].shape[1] != rows.shape[1]}
    ):
        raise ValueError("its trajectories have different numbers of columns")
    return {name: np.concatenate(rows) for name, rows in whole.items()} | {TRIAL: np.concatenate(numbers)}


def _hdf5(content: bytes) -> dict[str, np.ndarray]:
    with h5py.File(io.BytesIO(content), "r") as file:
        check_self_contained(file, len(content))
        found: dict[str, np.ndarray] = {}
        # MATLAB writes columns first, so that its arrays stand on their sides; it keeps text as numbers.
        matlab = "MATLAB_class" in {key for item in file.values() for key in item.attrs}

        def visit(path: str, item: Any) -> None:
            if not isinstance(item, h5py.Dataset) or path.startswith("#"):
                return
            if item.attrs.get("MATLAB_class") in (b"char", b"cell") or item.dtype.kind not in "iufbV":
                return
            name = path.rsplit("/", 1)[-1]
            values = item[()]
            if values.dtype.names:
                for field in values.dtype.names:
                    found[field] = values[field]
            else:
                found[path if name in found else name] = values.T if matlab else values

        groups = [item for item in file.values() if isinstance(item, h5py.Group)]
        names = [sorted(group) for group in groups]
        if len(groups) > 1 and len(groups) == len(file) and names[0] and all(n == names[0] for n in names):
            parts = []
            for group in groups:
                found.clear()
                group.visititems(visit)
                parts.append(dict(found))
            return _numbered(parts)
        file.visititems(visit)
        return found


# ---------------------------------------------------------------------- put together


def _together(name: str, arrays: Mapping[str, np.ndarray], options: Options, notes: Notes) -> Table | Parts:
    """Arrays of one length as columns; the one of times decides which length that is."""
    numeric = {
        key: np.asarray(values)
        for key, values in arrays.items()
        if np.asarray(values).dtype.kind in "iufb" and np.size(values)
    }
    scalars = {key: float(values.flat[0]) for key, values in numeric.items() if values.size == 1}
    others = {key: _squeezed(values) for key, values in numeric.items() if values.size > 1}
    if not others:
        raise refusal("arrays of numbers", f"{name!r} with {quoted(arrays) or 'none'}")
    wanted = {*options.columns("states"), *options.columns("inputs"), *options.columns("time")} & set(others)
    if wanted:
        others = {key: values for key, values in others.items() if key in wanted or _is_time(key)}
    times = [key for key in others if _is_time(key) and others[key].ndim == 1]
    time = options.time if options.time in others else (times[0] if len(times) == 1 else None)
    deep = [key for key, values in others.items() if values.ndim == 3]
    if deep:
        return _trials(name, others, deep, time, scalars, options, notes)
    if TRIAL in others and len(others) == 2:  # cells of bare tables
        name, values = next((key, value) for key, value in others.items() if key != TRIAL)
        bare = pd.DataFrame(_columns("", values))
        return Table(bare.assign(**{TRIAL: others[TRIAL]}), has_names=False)
    if list(others) == [""]:
        return Table(pd.DataFrame(_columns("", _tall(others[""], notes))), has_names=False)
    if time is not None:
        n = len(others[time])
    else:
        lengths = {values.shape[0] if values.ndim == 1 else max(values.shape) for values in others.values()}
        if len(lengths) > 1:
            shapes = ", ".join(f"{key} {values.shape}" for key, values in others.items())
            raise refusal("arrays of one length", f"{shapes} in {name!r}", "choose by time= and states=")
        n = lengths.pop()
    columns: dict[str, np.ndarray] = {}
    for key, values in others.items():
        if n not in values.shape:
            notes.decide(f"left out: {key} of shape {values.shape}")
        elif values.ndim == 1:
            columns[key] = values
        elif values.shape == (n, n):
            raise refusal(
                "samples along one side", f"{key} of shape {values.shape} in {name!r}", "write it as a table"
            )
        else:
            columns |= _columns(key, values if values.shape[0] == n else values.T)
    if list(columns) == [time]:
        raise refusal("states beside the times", f"{quoted(arrays)} in {name!r}", "choose by states=")
    clock = None if time is not None else _clock(scalars, notes)
    ignored = [key for key in scalars if clock is None or clocks.step_of_name(key, scalars[key]) is None]
    if ignored:
        notes.say(f"left out, single numbers: {', '.join(ignored)}")
    named = {split_name(key): values for key, values in columns.items()}
    units = {label: unit for label, unit in named if unit}
    return Table(
        pd.DataFrame({label: values for (label, _), values in named.items()}), units, {}, True, clock
    )


def _is_time(key: str) -> bool:
    return clocks.is_time_name(key)


def _squeezed(values: np.ndarray) -> np.ndarray:
    """Without axes of length one; logical values as numbers."""
    values = np.squeeze(values)
    values = values.astype(float) if values.dtype == bool else values
    if values.ndim > 3 or values.nbytes > _LARGEST:
        raise refusal("arrays of at most three axes", f"one of shape {values.shape}", "write it as a table")
    return values


def _tall(values: np.ndarray, notes: Notes) -> np.ndarray:
    """A bare array with its samples along the first axis, which is the longer one."""
    if values.ndim == 2 and values.shape[0] < values.shape[1]:
        notes.decide(f"array of shape {values.shape} turned: samples along the longer side")
        return values.T
    return values


def _columns(key: str, values: np.ndarray) -> dict[str, np.ndarray]:
    if values.ndim == 1:
        return {key or "column 1": values}
    return {f"{key}{k}" if key else f"column {k + 1}": values[:, k] for k in range(values.shape[1])}


def _clock(scalars: Mapping[str, float], notes: Notes) -> tuple[float, float] | None:
    steps = {
        key: step for key, value in scalars.items() if (step := clocks.step_of_name(key, value)) is not None
    }
    if len(steps) != 1:
        return None
    key, step = next(iter(steps.items()))
    notes.decide(f"time: samples {step:g} apart, by {key!r} (step=)")
    return 0.0, step


def _trials(
    name: str,
    arrays: Mapping[str, np.ndarray],
    deep: list[str],
    time: str | None,
    scalars: Mapping[str, float],
    options: Options,
    notes: Notes,
) -> Parts:
    """An array over trajectories, samples and states, as numpy users keep several trajectories."""
    if len(deep) > 1:
        raise refusal("one array of three axes", f"{quoted(deep)} in {name!r}", "choose by states=")
    key = deep[0]
    x = np.asarray(arrays[key], dtype=np.float64)
    two = [
        k for k, values in arrays.items() if _is_time(k) and values.ndim == 2 and values.shape == x.shape[:2]
    ]
    t: Any
    if time is not None and x.shape[1] == len(arrays[time]) and x.shape.count(len(arrays[time])) == 1:
        t = arrays[time].astype(np.float64)
    elif two:
        t = list(arrays[two[0]].astype(np.float64))
    elif options.step is not None or _clock(scalars, Notes()) is not None:
        clock = _clock(scalars, notes)
        t = options.step if options.step is not None else clock[1] if clock else 1.0
    else:
        raise refusal(
            "times along the middle one of three axes (trajectory, sample, state)",
            f"{key} of shape {x.shape} and times {f'of length {len(arrays[time])}' if time else 'of none'} "
            f"in {name!r}",
            "give step=, or write a table",
        )
    notes.say(f"{len(x)} trajectories of {x.shape[1]} samples in {key}")
    key = key or "x"
    names = tuple(f"{key}{k}" for k in range(x.shape[2])) if x.shape[2] > 1 else (key,)
    kept = [run[:: options.every] for run in x]
    times = t * options.every if np.ndim(t) == 0 else _every(t, options.every)
    return Parts(x=kept, t=times, state_names=names, units=options.units)


def _every(t: Any, every: int) -> Any:
    return [run[::every] for run in t] if isinstance(t, list) else t[::every]
