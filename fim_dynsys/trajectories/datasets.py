"""xarray objects, into plain arrays."""

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from fim_dynsys.errors import ReadingWarning, warn
from fim_dynsys.trajectories.layout import INPUT_DIMS
from fim_dynsys.trajectories.parts import TIME_NAMES, Parts, seconds

_TIME_DIMS = ("sample", "time", "t")
_BESIDE_STATES = {"t", "time", "u", "n_obs"}
_GROUPS = re.compile(  # dimensions along which trajectories stand, and no states
    r"(trial|run|subject|replicate)s?([ _]?(id|no|nr|number|index))?|trajectories",
    re.IGNORECASE,
)


def split_dataset(data: Any) -> Parts:
    """Arrays and names from an xarray object; see ``Trajectories.from_dataset``."""
    if isinstance(data, xr.DataArray | xr.Dataset):
        data = _with_named_trajectories(data)
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
        times = times.copy(data=seconds(times.values)).assign_attrs(units="s")
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


def _with_named_trajectories(data: Any) -> Any:
    """With the one dimension of the states beside time that is called trial, run, ... as ``trajectory``.

    Labels that are not numbered, as hare and lynx, are names of states.
    """
    arrays = {"": data} if isinstance(data, xr.DataArray) else data.data_vars
    axes = [set(array.dims) for name, array in arrays.items() if name not in _BESIDE_STATES]
    timed = [dims for dims in axes if dims & set(_TIME_DIMS)]
    found = [name for name in set.intersection(*timed) if _GROUPS.fullmatch(str(name))] if timed else []
    if len(found) != 1 or "trajectory" in {*data.dims, *arrays}:
        return data
    labels = data[found[0]].values
    if labels.dtype.kind in "OSU" and not all(re.search(r"\d", str(label)) for label in labels):
        return data
    if "trajectory" not in data.coords:
        return data.rename({found[0]: "trajectory"})
    along = data["trajectory"].dims == (found[0],)
    return data.swap_dims({found[0]: "trajectory"}) if along else data


def _with_trajectories(data: xr.Dataset) -> xr.Dataset:
    """With a dimension that several variables have beside that of time, as of stations, as ``trajectory``.

    A variable ``x`` of its own may have its states there.
    """
    beside = {
        name: set(variable.dims) - set(_TIME_DIMS)
        for name, variable in data.data_vars.items()
        if name not in _BESIDE_STATES and set(variable.dims) & set(_TIME_DIMS)
    }
    found = set().union(*beside.values())
    alone = len(beside) < 2 or "n_obs" in data.variables or "trajectory" in data.dims
    if alone or len(found) != 1 or any(axes != found for axes in beside.values()):
        return data
    return data.rename({found.pop(): "trajectory"})


def _without_flags(data: xr.Dataset) -> xr.Dataset:
    """Without variables that say which samples are good; these are said to be left out."""
    from fim_dynsys.trajectories.reading.roles import is_flag  # deferred, as all of reading

    flags = [
        name
        for name, variable in data.data_vars.items()
        if "flag_meanings" in variable.attrs
        or (variable.dtype.kind in "iufb" and is_flag(str(name), variable.values.astype(float).ravel()))
    ]
    if not flags or len(flags) == len(data.data_vars):
        return data
    listed = ", ".join(map(str, flags))
    warn(
        f"Trajectories.from_dataset: left out: {listed}, which mark samples as good or bad; write NaN where "
        "samples are bad.",
        ReadingWarning,
    )
    return data.drop_vars(flags)


def _main_array(data: xr.Dataset) -> tuple[xr.DataArray, np.ndarray | None, dict, dict]:
    """The array of states, the lengths if given, units of the variables it was stacked from, and the rest."""
    data = _without_flags(_with_trajectories(data))
    along = set(data["x"].dims) - {"trajectory", *_TIME_DIMS} if "x" in data.data_vars else set()
    if along or ("x" in data.data_vars and "n_obs" in data.variables):
        array = data["x"].assign_coords(t=data["t"]) if "t" in data.data_vars else data["x"]
        n_obs = data["n_obs"].values if "n_obs" in data.variables else None
        others = {str(k): v.variable for k, v in data.data_vars.items() if k not in ("x", "t", "u", "n_obs")}
        return array, n_obs, {}, {k: v.copy() for k, v in others.items() if "sample" not in v.dims}
    data = data.set_coords("t") if "t" in data.data_vars else data
    dims = {name: set(variable.dims) - {"trajectory"} for name, variable in data.data_vars.items()}
    constants = [name for name, axes in dims.items() if not axes]
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
    for name in (*TIME_NAMES, time_dim):
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
    found = {name: str(item.attrs["units"]) for name, item in sources.items() if "units" in item.attrs}
    return found | ({"t": found["t"].split(" since ")[0]} if "t" in found else {})  # minutes since 2000-01-01
