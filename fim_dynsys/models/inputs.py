"""What users pass to a model, read as trajectories."""

import numbers

import numpy as np
import pandas as pd
import xarray as xr

from fim_dynsys.trajectories import Trajectories


def as_trajectories(x, t=None, feature_names=None) -> Trajectories:
    """Observations in any accepted form as Trajectories.

    Parameters
    ----------
    x : Trajectories, Dataset, DataFrame, DataArray, array or list of arrays
        Observations.
    t : optional
        Times, where `x` does not carry them.
    feature_names : list of str, optional
        Names of the states, replacing those that `x` carries.

    Returns
    -------
    Trajectories

    Raises
    ------
    ValueError
        Where times are missing or given twice, or the data are malformed.
    """
    if isinstance(x, xr.DataArray) and t is not None:
        feature_names = _column_names(x) if feature_names is None else feature_names
        x = x.values
    if isinstance(x, pd.DataFrame) and t is not None:
        feature_names = list(x.columns) if feature_names is None else feature_names
        x = x.to_numpy()
    if isinstance(x, Trajectories | xr.Dataset | xr.DataArray | pd.DataFrame):
        if t is not None:
            raise ValueError(
                f"fit: expected t=None with {type(x).__name__}, which has its times, got {type(t).__name__}."
            )
        return renamed(labelled(x), feature_names)
    if t is None:
        raise ValueError(
            f"fit: expected times t with x of type {type(x).__name__}, got None; pass a step, array or list."
        )
    names = None if feature_names is None else [str(name) for name in feature_names]
    return Trajectories.from_arrays(x, t, state_names=names)


def labelled(data) -> Trajectories:
    if isinstance(data, xr.Dataset | xr.DataArray):
        return Trajectories.from_dataset(data)
    if isinstance(data, pd.DataFrame):
        return Trajectories.from_dataframe(data)
    return data


def _column_names(x: xr.DataArray):
    """Labels of the last dimension of a DataArray over (time, state), if it has any."""
    return x.coords[x.dims[1]].values if x.ndim == 2 and x.dims[1] in x.coords else None


def renamed(trajectories, feature_names) -> Trajectories:
    if feature_names is None:
        return trajectories
    names = [str(name) for name in feature_names]
    if len(names) != trajectories.dim:
        raise ValueError(f"fit: expected {trajectories.dim} feature_names, got {len(names)}: {names}.")
    renamed = dict(zip(trajectories.state_names, names, strict=True))
    pairs = trajectories.arrays()
    return Trajectories.from_arrays(
        [x for _, x in pairs],
        [t for t, _ in pairs],
        state_names=names,
        coords=trajectories.coords,
        units={renamed.get(name, name): unit for name, unit in trajectories.units.items()},
    )


def real_array(value, who, what) -> np.ndarray:
    """A float64 array, or a ValueError for what is not one of real numbers."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"{who}: expected {what} as one array of real numbers, got a ragged nesting."
        ) from error
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{who}: expected {what} of real numbers, got dtype {array.dtype}.")
    return array.astype(np.float64)


def is_point(x) -> bool:
    """Whether a list or tuple is one state, written as plain numbers."""
    return len(x) > 0 and all(isinstance(value, numbers.Real) for value in x)
