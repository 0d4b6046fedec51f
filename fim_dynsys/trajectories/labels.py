"""Labels that tables and labelled arrays have on their columns."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import xarray as xr


def labels_of(values: Any) -> list[Any] | None:
    """Labels of the columns of a DataFrame, the entries of a Series or the last dimension of a DataArray.

    None for all others.
    """
    if isinstance(values, pd.DataFrame):
        return list(values.columns)
    if isinstance(values, pd.Series):
        return list(values.index)
    if isinstance(values, xr.DataArray) and values.ndim and values.dims[-1] in values.coords:
        return list(pd.Index(values.coords[values.dims[-1]].values))
    return None


def columns_at(values: pd.DataFrame | pd.Series | xr.DataArray, places: Sequence[int]) -> Any:
    """What has labels, with the columns at these places alone."""
    if isinstance(values, pd.DataFrame):
        return values.iloc[:, list(places)]
    if isinstance(values, pd.Series):
        return values.iloc[list(places)]
    return values.isel({values.dims[-1]: list(places)})


def names_of_columns(values: Any) -> list[str] | None:
    """Names of the columns of (n, d) values; None where they have none, or numbers, which are positions."""
    if isinstance(values, pd.Series) or getattr(values, "ndim", 0) != 2:
        return None
    labels = labels_of(values)
    return labels if labels and all(isinstance(label, str) for label in labels) else None


def in_one_order(values: Any, what: str) -> tuple[Any, list[str] | None]:
    """Values of one trajectory or a list of several, in the order of the first, and names of the columns.

    Parameters
    ----------
    values : array_like or list of array_like
        Tables and labelled arrays have names of their columns, others none.
    what : str
        They are, for errors.

    Returns
    -------
    values : as given
    names : list of str, or None

    Raises
    ------
    ValueError
        Where tables of several trajectories have different columns.
    """
    if not isinstance(values, list | tuple) or not values:
        return values, names_of_columns(values)
    names = names_of_columns(values[0])
    if names is None:
        return values, None
    found = []
    for k, entry in enumerate(values):
        own = names_of_columns(entry)
        if own is not None and sorted(own) != sorted(names):
            raise ValueError(
                f"Trajectories: expected the columns {', '.join(names)} in {what} of all trajectories, as in "
                f"trajectory 0, got {', '.join(own)} in trajectory {k}; select the same in each"
            )
        found.append(entry if own is None else columns_at(entry, [own.index(name) for name in names]))
    return found, names
