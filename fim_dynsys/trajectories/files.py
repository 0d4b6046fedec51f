"""Tables, xarray objects and files: into plain arrays and out again.

A little above five hundred lines: reading and writing of a format stand together and stay inverse.
"""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import xarray as xr

from fim_dynsys.trajectories.layout import INPUT_DIMS
from fim_dynsys.writing import replace_file

_SUFFIXES = {".csv": "csv", ".nc": "netcdf", ".nc4": "netcdf", ".netcdf": "netcdf"}
_CSV_MARK = "# fim-dynsys "
_ATTRS_KEY = "fim_dynsys"
_TIME_NAMES = ("t", "time")
_TIME_DIMS = ("sample", "time", "t")
# Deflate packs a byte into no less than a thousandth; what declares more than ten times that holds no data.
_LARGEST_RATIO = 10_000


@dataclass(frozen=True)
class Parts:
    """Contents of a table or a dataset: one (n, d) array and one (n,) array of times per trajectory."""

    x: Any
    t: Any
    state_names: Sequence[str] | None
    coords: Mapping[str, Any] | None = None
    units: Mapping[str, str] | Sequence[str] | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    extras: Mapping[str, xr.Variable] = field(default_factory=dict)
    u: Any = None
    input_names: Sequence[str] | None = None


# Long tables


def join_frame(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]],
    state_names: Sequence[str],
    coords: Mapping[str, np.ndarray],
    units: Mapping[str, str],
    inputs: Mapping[str, np.ndarray],
) -> pd.DataFrame:
    """Long table of ``(t, x)`` pairs, with what its columns are in ``frame.attrs``.

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
    frame.attrs[_ATTRS_KEY] = {
        "time": "t",
        "trajectory": "trajectory" if numbered else None,
        "states": list(state_names),
        "inputs": list(inputs),
        "coords": extra,
        "units": dict(units),
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
        raise ValueError(
            f"Trajectories.from_dataframe: expected a pandas DataFrame, got {type(frame).__name__}; "
            "use from_arrays for arrays, from_dataset for xarray"
        )
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
    return Parts(
        x=[values[rows] for rows in groups],
        t=[times[rows] for rows in groups],
        state_names=tuple(str(name) for name in states),
        coords=per_trajectory,
        units=units,
        u=[measured[rows] for rows in groups] if inputs else None,
        input_names=tuple(str(name) for name in inputs) or None,
    )


def _with_index_as_columns(frame: pd.DataFrame, time: str | None) -> pd.DataFrame:
    """The table with its index as columns where that means something: where it has names, or holds times."""
    index = frame.index
    if any(name is not None for name in index.names):
        return frame.reset_index()
    holds_times = not isinstance(index, pd.MultiIndex) and index.dtype.kind in "fmM"
    if holds_times and not {time, *_TIME_NAMES} & set(frame.columns):
        return frame.reset_index(names=time or "t")
    return frame


def _known_roles(frame: pd.DataFrame) -> dict[str, Any]:
    """What ``join_frame`` wrote down about the columns, where they are all still there."""
    roles = frame.attrs.get(_ATTRS_KEY, {})
    lists = [name for key in ("states", "inputs", "coords") for name in roles.get(key, [])]
    columns = [roles.get("time"), roles.get("trajectory"), *lists]
    return roles if all(name is None or name in frame for name in columns) else {}


def _names(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _pick(frame: pd.DataFrame) -> str:
    """The column of times: t or time, else the only one of dates or durations."""
    named = [name for name in _TIME_NAMES if name in frame]
    dated = [name for name in frame.columns if _is_dated(frame.dtypes[name])] if not named else []
    if len(named) + len(dated) == 1:
        return (named + dated)[0]
    raise ValueError(
        f"Trajectories.from_dataframe: expected a time column named {' or '.join(_TIME_NAMES)}, got columns "
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
    return _seconds(column.to_numpy()), {**units, "t": "s"}


def _seconds(times: np.ndarray) -> np.ndarray:
    """Seconds since the first of dates; durations in seconds."""
    if times.dtype.kind == "M":
        times = times - np.nanmin(times)
    return times / np.timedelta64(1, "s")


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


# xarray objects


def split_dataset(data: Any) -> Parts:
    """Arrays and names from an xarray object; see ``Trajectories.from_dataset``."""
    if isinstance(data, xr.DataArray):
        array, n_obs, units, extras = data, None, dict[str, str](), dict[str, xr.Variable]()
    elif isinstance(data, xr.Dataset):
        array, n_obs, units, extras = _main_array(data)
    else:
        raise ValueError(
            f"Trajectories.from_dataset: expected an xarray Dataset or DataArray, got {type(data).__name__}; "
            "use from_arrays for arrays, from_dataframe for tables"
        )
    time_dim, state_dim = _dimensions(array)
    times = _times(array, time_dim)
    if times.dtype.kind in "mM":
        times = times.copy(data=_seconds(times.values)).assign_attrs(units="s")
    if "trajectory" not in array.dims:
        array = array.expand_dims("trajectory")
    if "trajectory" not in times.dims:
        times = times.expand_dims(trajectory=array.sizes["trajectory"])
    if state_dim is None:
        array, state_dim = array.expand_dims(state=[array.name or "x0"]), "state"
    x = array.transpose("trajectory", time_dim, state_dim).values
    t = times.transpose("trajectory", time_dim).values
    lengths = _lengths(t) if n_obs is None else _checked_lengths(n_obs, t.shape)
    names = tuple(str(n) for n in array[state_dim].values) if state_dim in array.coords else None
    u, input_names = _inputs(data, lengths)
    return Parts(
        x=[values[:n] for values, n in zip(x, lengths, strict=True)],
        t=[values[:n] for values, n in zip(t, lengths, strict=True)],
        state_names=names,
        coords=_per_trajectory(array, state_dim),
        units=_units(data, array, times, names or ()) | units,
        attrs={str(k): v for k, v in data.attrs.items() if k != "units"},
        extras=extras,
        u=u,
        input_names=input_names,
    )


def _inputs(data: Any, lengths: Sequence[int]) -> tuple[list[np.ndarray] | None, tuple[str, ...] | None]:
    """Inputs of each trajectory and their names, from a variable u over (trajectory, sample, input)."""
    found = data.variables.get("u") if isinstance(data, xr.Dataset) else None
    if found is None or found.dims != INPUT_DIMS:
        return None, None
    names = tuple(str(name) for name in data["input"].values) if "input" in data.coords else None
    return [values[:n] for values, n in zip(found.values, lengths, strict=True)], names


def _main_array(data: xr.Dataset) -> tuple[xr.DataArray, np.ndarray | None, dict, dict]:
    """The array of states, the lengths if given, units of the variables it was stacked from, and the rest."""
    along = set(data["x"].dims) - {"trajectory", *_TIME_DIMS} if "x" in data.data_vars else set()
    if along or ("x" in data.data_vars and "n_obs" in data.variables):
        array = data["x"].assign_coords(t=data["t"]) if "t" in data.data_vars else data["x"]
        n_obs = data["n_obs"].values if "n_obs" in data.variables else None
        others = {str(k): v.variable for k, v in data.data_vars.items() if k not in ("x", "t", "u", "n_obs")}
        return array, n_obs, {}, {k: v.copy() for k, v in others.items() if "sample" not in v.dims}
    data = data.set_coords("t") if "t" in data.data_vars else data
    dims = {name: set(variable.dims) - {"trajectory"} for name, variable in data.data_vars.items()}
    constants = [name for name, own in dims.items() if not own]
    states = [name for name in data.data_vars if name not in constants]
    if not states or any(len(dims[name]) != 1 or not dims[name] & set(_TIME_DIMS) for name in states):
        found = {str(name): variable.dims for name, variable in data.items()}
        raise ValueError(
            "Trajectories.from_dataset: expected a variable x over (trajectory, sample, state), or one "
            f"variable per state over a dimension time, t or sample; got {found}"
        )
    units = {str(name): data[name].attrs["units"] for name in states if "units" in data[name].attrs}
    return data.set_coords(constants)[states].to_dataarray(dim="state"), None, units, {}


def _dimensions(array: xr.DataArray) -> tuple[str, str | None]:
    time_dim = next((name for name in _TIME_DIMS if name in array.dims), None)
    others = [name for name in array.dims if name not in (time_dim, "trajectory")]
    if time_dim is None or len(others) > 1:
        raise ValueError(
            "Trajectories.from_dataset: expected dimensions time (or t, sample), a state and optionally "
            f"trajectory, got {array.dims}; rename or select them"
        )
    return time_dim, (str(others[0]) if others else None)


def _times(array: xr.DataArray, time_dim: str) -> xr.DataArray:
    for name in (*_TIME_NAMES, time_dim):
        dims = set(array[name].dims) if name in array.coords else set()
        if time_dim in dims and dims <= {time_dim, "trajectory"}:
            return array[name]
    raise ValueError(
        f"Trajectories.from_dataset: expected the times as coordinate t or time over {time_dim!r}, got "
        f"coordinates {[str(name) for name in array.coords]}; assign them by assign_coords(t=...)"
    )


def _lengths(t: np.ndarray) -> list[int]:
    """Samples per trajectory: up to the last time that is a number."""
    if t.dtype.kind != "f" or t.shape[1] == 0:
        return [t.shape[1]] * len(t)
    known = ~np.isnan(t)
    last = t.shape[1] - np.argmax(known[:, ::-1], axis=1)
    return last.tolist()


def _checked_lengths(n_obs: np.ndarray, shape: tuple[int, int]) -> list[int]:
    n_obs = np.atleast_1d(n_obs)
    counts = n_obs.dtype.kind in "iu" and n_obs.shape == shape[:1]
    if not counts or n_obs.min() < 1 or n_obs.max() > shape[1]:
        raise ValueError(
            f"Trajectories.from_dataset: expected n_obs as {shape[0]} integers from 1 to {shape[1]}, got "
            f"{n_obs.tolist()}; leave it out to have it counted"
        )
    return n_obs.tolist()


def _per_trajectory(array: xr.DataArray, state_dim: str) -> dict[str, np.ndarray]:
    n = array.sizes["trajectory"]
    found = {}
    for name, coord in array.coords.items():
        if coord.dims == ("trajectory",):
            found[str(name)] = coord.values
        elif coord.dims == () and name != state_dim:
            found[str(name)] = np.repeat(np.atleast_1d(coord.values), n)
    return found


def _units(data: Any, array: xr.DataArray, times: xr.DataArray, names: Sequence[str]) -> dict[str, str]:
    """Units from our JSON attribute, else from the usual ``units`` attributes of the variables."""
    text = data.attrs.get("units", "") if isinstance(data, xr.Dataset) else ""
    if isinstance(text, str) and text.startswith("{"):
        return json.loads(text)
    sources = {"t": times} | {name: array for name in names}
    sources |= {str(k): c for k, c in array.coords.items() if c.dims == ("trajectory",)}
    return {name: str(item.attrs["units"]) for name, item in sources.items() if "units" in item.attrs}


# Files


def file_format(path: str | Path) -> str:
    """``"csv"`` or ``"netcdf"`` by the suffix, or a ValueError."""
    suffix = Path(path).suffix.lower()
    if suffix not in _SUFFIXES:
        raise ValueError(
            f"Trajectories: expected a file name ending in {', '.join(_SUFFIXES)}, got {Path(path).name!r}"
        )
    return _SUFFIXES[suffix]


def write_csv(frame: pd.DataFrame, path: str | Path) -> None:
    """Write a table of :func:`join_frame` under one comment line, which tells columns and number of rows."""
    roles = dict(frame.attrs[_ATTRS_KEY])
    typed = [*roles["coords"], *([roles["trajectory"]] if roles["trajectory"] else [])]
    roles["kinds"] = {name: frame[name].dtype.kind for name in typed}
    roles["rows"] = len(frame)
    header = _CSV_MARK + json.dumps(roles, ensure_ascii=False) + "\n"
    replace_file(path, header + frame.to_csv(index=False, lineterminator="\n"))


def read_csv(path: str | Path) -> pd.DataFrame:
    """Read a CSV file, ours (exactly, types of coordinates included) or any other with a header row.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not a CSV file with a header row, or one of ours that does not hold all its rows.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as stream:
            first = stream.readline()
            if not first.startswith(_CSV_MARK):
                stream.seek(0)
                return pd.read_csv(stream)
            roles = _checked_roles(json.loads(first[len(_CSV_MARK) :]))
            # As text first: strings like "NA" or "01" stay what they are, and numbers come back exactly.
            text = stream.read()
            frame = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
            rows = roles.pop("rows", None)
            if rows is not None and (rows != len(frame) or not text.endswith("\n")):
                raise ValueError(f"{rows} rows are announced and {len(frame)} found, the file is not whole")
            kinds = (
                dict.fromkeys([roles["time"], *roles["states"], *roles.get("inputs", [])], "f")
                | roles["kinds"]
            )
            frame = pd.DataFrame({name: _typed(frame[name], kind) for name, kind in kinds.items()})
    except (  # pandas' ParserError is a ValueError
        ValueError,
        LookupError,
        TypeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise ValueError(
            f"Trajectories.from_file: expected a CSV file with a header row, got {Path(path).name!r}: {error}"
        ) from error
    frame.attrs[_ATTRS_KEY] = roles
    return frame


def _checked_roles(roles: Any) -> dict[str, Any]:
    """What the first line of a file of ours says, or a ValueError where that cannot be what was written."""
    if not isinstance(roles, dict):
        raise ValueError("its first line does not say what the columns are")
    lists = {name: roles.get(name) for name in ("states", "coords")} | {"inputs": roles.get("inputs", [])}
    maps = {name: roles.get(name) for name in ("units", "kinds")}
    wrong = [name for name, value in lists.items() if not isinstance(value, list) or not _are_text(value)]
    wrong += [
        name for name, value in maps.items() if not isinstance(value, dict) or not _are_text(value.values())
    ]
    if wrong or not isinstance(roles.get("time"), str) or not isinstance(roles.get("trajectory"), str | None):
        raise ValueError(f"its first line is damaged: {', '.join(wrong) or 'time or trajectory'}")
    return roles


def _are_text(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _typed(column: pd.Series, kind: str) -> np.ndarray:
    text = column.to_numpy(dtype=object)
    if kind == "f":
        return np.where(text == "", "nan", text).astype(np.float64)
    if kind == "b":
        return text == "True"
    return text.astype(np.int64) if kind in "iu" else text


def write_netcdf(dataset: xr.Dataset, path: str | Path) -> None:
    """Write a Dataset as netCDF 4; attributes that netCDF cannot hold are written as JSON."""
    replace_file(path, netcdf_content(dataset))


def netcdf_content(dataset: xr.Dataset) -> bytes:
    """What `write_netcdf` writes; made in memory, for on a full disk HDF5 ends the process."""
    attrs = {
        name: value if isinstance(value, str | int | float | np.number | np.ndarray) else json.dumps(value)
        for name, value in dataset.attrs.items()
    }
    return bytes(dataset.assign_attrs(attrs).to_netcdf(engine="h5netcdf"))


def read_netcdf(path: str | Path) -> xr.Dataset:
    """Read a netCDF 4 file into memory; times stay numbers.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no netCDF 4 file, a damaged one, or one that refers to other files.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"Trajectories.from_file: no such file: {path}")
    try:
        with h5py.File(path, "r") as file:
            dict(file.attrs)  # where these cannot be read, h5netcdf complains once more when it is collected
            _check_self_contained(file, Path(path).stat().st_size)
        return xr.load_dataset(path, engine="h5netcdf", decode_times=False)
    except Exception as error:  # of a damaged file the readers raise whatever they run into
        raise ValueError(
            f"Trajectories.from_file: expected a netCDF 4 file, got {Path(path).name!r}: {error}"
        ) from error


def _check_self_contained(file: h5py.File, size: int) -> None:
    """Refuse what would make HDF5 read other files, and arrays larger than the file can hold.

    HDF5 opens the files that links, external storage and virtual datasets name, whatever they are.
    """
    groups, seen = [file], set[int]()
    while groups:
        group = groups.pop()
        for name in group:
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise ValueError(f"{name!r} is a link, which may lead to another file")
            item = group[name]
            address = h5py.h5o.get_info(item.id).addr
            if address in seen:
                continue
            seen.add(address)
            if isinstance(item, h5py.Group):
                groups.append(item)
            elif isinstance(item, h5py.Dataset) and (item.external or item.is_virtual):
                raise ValueError(f"the values of {name!r} are stored in other files")
            elif isinstance(item, h5py.Dataset) and item.nbytes > _LARGEST_RATIO * size:
                raise ValueError(f"{name!r} of shape {item.shape} does not fit into {size} bytes")
