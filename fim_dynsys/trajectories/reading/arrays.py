"""Arrays by name, as MATLAB, numpy and HDF5 keep them, as columns or as trajectories."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from fim_dynsys.trajectories.parts import Parts, seconds
from fim_dynsys.trajectories.reading import clocks
from fim_dynsys.trajectories.reading.array_files import TRIAL, load_arrays
from fim_dynsys.trajectories.reading.options import Notes, Options, quoted, refusal
from fim_dynsys.trajectories.reading.text import Table
from fim_dynsys.trajectories.reading.units import split_name

_LARGEST = 1 << 33  # bytes that one array may take; more is a damaged header
_SET = re.compile(r"(?:^|.*[ _./-]|^[xyut])(train|training|test|val|valid|validation)(?:$|[ _./-].*)", re.I)


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
        arrays, units = load_arrays(content, kind)
    except Exception as error:  # of a damaged file the readers raise whatever they run into
        said = " ".join(str(error).split())[:200]
        raise refusal(f"a file of {kind} arrays", f"{name!r}: {said or type(error).__name__}") from error
    return _together(name, arrays, units, options, notes)


def _together(
    name: str,
    arrays: Mapping[str, np.ndarray],
    by_array: Mapping[str, str],
    options: Options,
    notes: Notes,
) -> Table | Parts:
    """Arrays of one length as columns; the one of times decides which length that is."""
    trial = arrays.get(TRIAL)
    numeric = {key: _as_numbers(name, key, np.asarray(v), notes) for key, v in arrays.items()}
    texts = {key: np.ravel(v) for key, v in arrays.items() if numeric[key] is None and key != TRIAL}
    known = {key: v for key, v in numeric.items() if v is not None and v.size and key != TRIAL}
    scalars = {key: float(values.flat[0]) for key, values in known.items() if values.size == 1}
    others = {key: _squeezed(values) for key, values in known.items() if values.size > 1}
    if not others:
        raise refusal("arrays of numbers", f"{name!r} with {quoted(arrays) or 'none'}")
    others = _chosen(name, others, options)
    times = [key for key in others if _is_time(key) and others[key].ndim == 1]
    time = options.time if options.time in others else (times[0] if len(times) == 1 else None)
    if len({len(others[key]) for key in times}) > 1 and time is None:
        shapes = ", ".join(f"{key} {others[key].shape}" for key in times)
        raise refusal("arrays of one length", f"times {shapes} in {name!r}", "choose by time= and states=")
    labels, said = _labels(others, texts)
    left_out = [key for key in texts if key != said]
    if said:
        notes.say(f"names from {said!r}")
    if left_out:
        notes.say(f"left out, text: {', '.join(left_out)}")
    deep = [key for key, values in others.items() if values.ndim == 3]
    if deep:
        return _trials(name, others, time, scalars, labels, options, notes)
    if list(others) == [""]:
        others = {"": _tall(others[""], notes)}
    n = _length(name, others, time)
    parts: dict[str, list[str]] = {}
    columns: dict[str, np.ndarray] = {}
    for key, values in others.items():
        if n not in values.shape:
            notes.decide(f"left out: {key} of shape {values.shape}")
            continue
        if values.shape == (n, n):
            raise refusal(
                "samples along one side", f"{key} of shape {values.shape} in {name!r}", "write it as a table"
            )
        bare = "" if key == "" or (trial is not None and len(others) == 1) else key
        made = _columns(bare, values if values.shape[0] == n else values.T, labels.get(key))
        parts[key] = list(made)
        columns |= made
    if list(columns) == [time]:
        raise refusal("states beside the times", f"{quoted(arrays)} in {name!r}", "choose by states=")
    has_names = not all(column.startswith("column ") for column in columns)
    if trial is not None:
        columns[TRIAL] = trial
        if trial.dtype.kind == "U":
            notes.decide(f"trajectories by the groups {', '.join(dict.fromkeys(trial))}")
    clock = None if time is not None or any(map(_is_time, columns)) else _clock(scalars, notes)
    ignored = [key for key in scalars if clock is None or clocks.step_of_name(key, scalars[key]) is None]
    if ignored:
        notes.say(f"left out, single numbers: {', '.join(ignored)}")
    pairs = {key: split_name(key) if has_names else (key, "") for key in columns}
    frame = pd.DataFrame({pairs[key][0]: values for key, values in columns.items()})
    units = {label: unit for label, unit in pairs.values() if unit}
    units |= {pairs[column][0]: by_array[key] for key in parts if key in by_array for column in parts[key]}
    units |= {key: "s" for key in parts if np.asarray(arrays[key]).dtype.kind in "mM"}
    return Table(frame, units, {}, has_names, clock, arrays=parts)


def _as_numbers(name: str, key: str, values: np.ndarray, notes: Notes) -> np.ndarray | None:
    """Numbers of an array, those of dates in seconds; None for text."""
    if values.dtype.kind in "mM":
        since = f" since {str(np.nanmin(values))[:23]}" if values.dtype.kind == "M" else ""
        notes.say(f"{key!r} in seconds{since}")
        return seconds(values)
    if values.dtype.kind == "c":
        raise refusal("real numbers", f"complex ones in {key!r} of {name!r}", "save real and imaginary parts")
    return values if values.dtype.kind in "iufb" else None


def _chosen(name: str, others: dict[str, np.ndarray], options: Options) -> dict[str, np.ndarray]:
    """The arrays that were asked for; all where none was, unless they are several sets of samples."""
    given = {*options.columns("states"), *options.columns("inputs"), *options.columns("coords")}

    def asked_for(key: str) -> bool:
        return bool(given & {key, *_columns(key, np.atleast_2d(others[key]), None)}) or key == options.time

    if options.states is not None:
        found = {k: v for k, v in others.items() if asked_for(k) or (_is_time(k) and not options.time)}
        return found or others
    sets: dict[str, list[str]] = {}
    for key in others:
        match = _SET.fullmatch(key)
        sets.setdefault(match[1].lower() if match else "", []).append(key)
    if options.time in others:
        chosen = next(keys for keys in sets.values() if options.time in keys)
        return {k: v for k, v in others.items() if asked_for(k) or (k in chosen and not _is_time(k))}
    if len(sets) > 1 and not given:
        listed = " beside ".join(", ".join(keys) for keys in sets.values())
        raise refusal("one set of samples", f"{listed} in {name!r}", "choose by time= and states=")
    return others


def _labels(
    others: Mapping[str, np.ndarray], texts: Mapping[str, np.ndarray]
) -> tuple[dict[str, list[str]], str]:
    """Names of the columns of an array, where one array of text has as many; and what that is called."""
    wide = {key: values for key, values in others.items() if values.ndim > 1}
    fits = [
        (key, text)
        for key, values in wide.items()
        for text, cells in texts.items()
        if len(cells) == min(values.shape[-2:]) and len(set(cells.tolist())) == len(cells)
    ]
    if len({(key, tuple(texts[text].tolist())) for key, text in fits}) != 1:
        return {}, ""
    key, text = fits[0]
    return {key: [str(cell).strip() for cell in texts[text]]}, text


def _length(name: str, others: Mapping[str, np.ndarray], time: str | None) -> int:
    if time is not None:
        return len(others[time])
    lengths = {values.shape[0] if values.ndim == 1 else max(values.shape) for values in others.values()}
    if len(lengths) > 1:
        shapes = ", ".join(f"{key} {values.shape}" for key, values in others.items())
        raise refusal("arrays of one length", f"{shapes} in {name!r}", "choose by time= and states=")
    return lengths.pop()


def _is_time(key: str) -> bool:
    return clocks.is_time_name(key.rsplit("/", 1)[-1])


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


def _columns(key: str, values: np.ndarray, labels: list[str] | None) -> dict[str, np.ndarray]:
    if values.ndim == 1:
        return {key or "column 1": values}
    names = labels or [f"{key}{k}" if key else f"column {k + 1}" for k in range(values.shape[1])]
    return {name: values[:, k] for k, name in enumerate(names)}


def _clock(scalars: Mapping[str, float], notes: Notes) -> tuple[float, float] | None:
    steps = {
        key: step for key, value in scalars.items() if (step := clocks.step_of_name(key, value)) is not None
    }
    if len(steps) != 1:
        return None
    key, step = next(iter(steps.items()))
    notes.decide(f"time: samples {step:g} apart, by {key!r} (step=)")
    return 0.0, step


# ---------------------------------------------------------------------- trajectories along an axis


def _trials(
    name: str,
    arrays: Mapping[str, np.ndarray],
    time: str | None,
    scalars: Mapping[str, float],
    labels: Mapping[str, list[str]],
    options: Options,
    notes: Notes,
) -> Parts:
    """An array over trajectories, samples and states, as numpy users keep several trajectories."""
    named = [key for key in arrays if key in options.columns("inputs")]
    deep = [key for key, values in arrays.items() if values.ndim == 3 and key not in named]
    if len(deep) != 1:
        raise refusal(
            "one array of three axes",
            f"{quoted(deep) or 'none'} in {name!r}",
            "choose by states= and inputs=",
        )
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
    elif time is None and (options.step is not None or _clock(scalars, Notes()) is not None):
        clock = _clock(scalars, notes) if options.step is None else None
        t = clock[1] if clock else options.step
    else:
        length = None if time is None else len(arrays[time])
        raise refusal(
            "times along the middle one of three axes (trajectory, sample, state)",
            f"{key or 'an array'} of shape {x.shape} and times "
            f"{f'of length {length}' if time else 'of none'} in {name!r}",
            "give step=" if time is None else "bring the axis of samples into the middle, by numpy.moveaxis",
        )
    notes.say(f"{len(x)} trajectories of {x.shape[1]} samples in {key}")
    key = key or "x"
    names = labels.get(key) or ([f"{key}{k}" for k in range(x.shape[2])] if x.shape[2] > 1 else [key])
    u, inputs = _inputs_of(name, arrays, named, x.shape[:2], notes)
    coords = {k: arrays[k] for k in options.columns("coords") if k in arrays}
    used = {key, *named, *coords, *two, *([time] if time else [])}
    left_out = [k for k in arrays if k and k not in used]
    if left_out:
        notes.decide(f"left out: {', '.join(left_out)} (inputs=, coords=)")
    times = t * options.every if np.ndim(t) == 0 else _every(t, options.every)
    return Parts(
        x=[run[:: options.every] for run in x],
        t=times,
        state_names=names,
        coords=coords or None,
        units=options.units,
        u=None if u is None else [run[:: options.every] for run in u],
        input_names=inputs,
    )


def _inputs_of(
    name: str, arrays: Mapping[str, np.ndarray], named: list[str], shape: tuple[int, ...], notes: Notes
) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
    """Inputs of several trajectories (N, n, m), and their names."""
    parts, inputs = [], []
    for key in named:
        values = np.asarray(arrays[key], dtype=np.float64)
        if values.shape[:2] != shape:
            raise refusal(
                f"inputs of shape {shape}, trajectories and samples",
                f"{key} of shape {values.shape} in {name!r}",
            )
        parts.append(values.reshape(*shape, -1))
        m = parts[-1].shape[2]
        inputs += [f"{key}{k}" for k in range(m)] if m > 1 else [key]
    return (np.concatenate(parts, axis=2), tuple(inputs)) if parts else (None, None)


def _every(t: Any, every: int) -> Any:
    return [run[::every] for run in t] if isinstance(t, list) else t[::every]
