"""The xarray layout of trajectories: built from arrays, and checked."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import xarray as xr

from fim_dynsys.trajectories import observations

DIMS = {"x": ("trajectory", "sample", "state"), "t": ("trajectory", "sample"), "n_obs": ("trajectory",)}
"""The variables that must be there and what they run along."""
INPUT_DIMS = ("trajectory", "sample", "input")
"""What measured inputs ``u`` run along; all other variables are extras."""


def as_dataset(
    x: np.ndarray,
    t: np.ndarray,
    n_obs: np.ndarray,
    state_names: tuple[str, ...],
    coords: Mapping[str, Any] | None,
    units: Mapping[str, str] | Sequence[str] | None,
    attrs: Mapping[str, Any],
    extras: Mapping[str, xr.Variable] | None = None,
    u: np.ndarray | None = None,
    input_names: tuple[str, ...] = (),
) -> xr.Dataset:
    """The checked layout from its parts, which are not copied.

    Raises
    ------
    ValueError
        If coordinates or units do not fit.
    """
    per_trajectory = observations.checked_coords(coords, n_obs.size)
    known_units = observations.checked_units(units, state_names, [*input_names, *per_trajectory])
    arrays = {"x": x, "t": t, "n_obs": n_obs}
    data = {name: xr.Variable(DIMS[name], read_only(array)) for name, array in arrays.items()}
    if u is not None:
        data["u"] = xr.Variable(INPUT_DIMS, read_only(u))
    data.update(extras or {})
    if "t" in known_units:
        data["t"].attrs["units"] = known_units["t"]  # where xarray looks for it when it labels an axis
    labels = _labels(state_names, input_names)
    if per_trajectory:
        extra = {name: xr.Variable("trajectory", read_only(a)) for name, a in per_trajectory.items()}
        labels = xr.Coordinates({**labels.variables, **extra}, indexes=dict(labels.xindexes))
    kept = {name: value for name, value in attrs.items() if name != "units"}
    kept |= {"units": json.dumps(known_units, ensure_ascii=False)} if known_units else {}
    dataset = xr.Dataset(data, coords=labels, attrs=kept)
    return dataset.set_xindex("trajectory") if "trajectory" in per_trajectory else dataset


@lru_cache(maxsize=256)
def _labels(state_names: tuple[str, ...], input_names: tuple[str, ...]) -> xr.Coordinates:
    """The index of states and inputs; building it anew is two thirds of the time a Dataset takes."""
    names = {"state": state_names} | ({"input": input_names} if input_names else {})
    return xr.Coordinates({key: (key, np.array(value, dtype=object)) for key, value in names.items()})


def read_only(array: np.ndarray) -> np.ndarray:
    """A view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def check_layout(dataset: Any) -> None:
    """Raise a ValueError where a dataset is laid out otherwise."""
    if not isinstance(dataset, xr.Dataset):
        raise ValueError(
            f"Trajectories: expected an xarray Dataset, got {type(dataset).__name__}; "
            "use Trajectories.from_arrays for arrays and lists"
        )
    for name, dims in DIMS.items():
        found = dataset.variables[name].dims if name in dataset.variables else None
        if found != dims:
            raise ValueError(
                f"Trajectories: expected variable {name!r} over {dims}, got {found}; "
                "use Trajectories.from_dataset for other layouts"
            )
        dtype = np.int64 if name == "n_obs" else np.float64
        if dataset.variables[name].dtype != dtype:
            raise ValueError(
                f"Trajectories: expected {np.dtype(dtype)} in {name!r}, got {dataset.variables[name].dtype}; "
                "use Trajectories.from_dataset to convert"
            )
    if "u" in dataset.variables:
        u = dataset.variables["u"]
        if u.dims != INPUT_DIMS or u.dtype != np.float64 or "input" not in dataset.coords:
            raise ValueError(
                f"Trajectories: expected inputs u in float64 over {INPUT_DIMS} and their names as coordinate "
                f"'input', got {u.dtype} over {u.dims}; use Trajectories.from_dataset to convert"
            )
    others = [dataset.variables[name].dims for name in dataset.coords if name not in ("state", "input")]
    if "state" not in dataset.coords or any(dims != ("trajectory",) for dims in others):
        raise ValueError(
            "Trajectories: expected a coordinate 'state' with the names and all others over 'trajectory', "
            f"got {list(dataset.coords)}; use Trajectories.from_dataset for other layouts"
        )
