"""Columns of records as a field wants them: its states and inputs in order, the time where it is an input."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.labels import columns_at, labels_of


def in_order(
    caller: str, trajectories: Trajectories, states: Sequence[str], inputs: Sequence[str] = ()
) -> Trajectories:
    """The same records with states and inputs in this order.

    Names decide where they are those of the field. Others, such as x0, x1, ... of arrays, say nothing: then
    columns go by position.

    Parameters
    ----------
    caller : str
        Named in errors.
    trajectories : Trajectories
        Records of all states, or of some.
    states, inputs : sequence of str
        Names in the order of the field.

    Returns
    -------
    Trajectories

    Raises
    ------
    ValueError
        Where some names are those of the field, and others are not.
    """
    found = trajectories
    if _differ(caller, "states", trajectories.state_names, states):
        found = found.select_states([name for name in states if name in trajectories.state_names])
    if _differ(caller, "inputs", trajectories.input_names, inputs):
        own = tuple(name for name in inputs if name in trajectories.input_names)
        assert found.u is not None  # it has names
        columns = [trajectories.input_names.index(name) for name in own]
        found = found._replace(u=found.u[:, :, columns], input_names=own)
    return found


def by_labels(caller: str, kind: str, values: Any, names: Sequence[str]) -> Any:
    """Values whose columns have labels, in the order of the names; others as they are.

    Parameters
    ----------
    caller, kind : str
        Who has them, and what they are of (states, inputs), for errors.
    values : DataFrame, Series, DataArray or anything else
        A Series has a value for each name; of a DataArray the last dimension is that of the columns.
    names : sequence of str
        Of the field.

    Raises
    ------
    ValueError
        Where some labels are among the names, and others are not.
    """
    labels = labels_of(values)
    if labels is None:
        return values
    own = [label if isinstance(label, str) else "" for label in labels]  # numbers are positions
    if not _differ(caller, kind, own, names):
        return values
    return columns_at(values, [own.index(name) for name in names if name in own])


def with_coordinates(caller: str, trajectories: Trajectories, names: Sequence[str]) -> Trajectories:
    """The same records with coordinates of these names as their last inputs, of one value in each record."""
    check_coordinates(caller, trajectories, names)
    if not names:
        return trajectories
    coords = trajectories.coords
    constant = np.stack([coords.pop(name).astype(float) for name in names], axis=1)
    padding = np.arange(trajectories.t.shape[1]) >= trajectories.n_obs[:, None]
    held = np.where(padding[:, :, None], np.nan, constant[:, None])
    u = held if trajectories.u is None else np.concatenate([trajectories.u, held], axis=2)
    return trajectories._replace(u=u, input_names=(*trajectories.input_names, *names), coords=coords)


def check_coordinates(caller: str, trajectories: Trajectories, names: Sequence[str]) -> None:
    """Hold coordinates that equations name to numbers.

    Raises
    ------
    ValueError
        Where one is no finite number in each trajectory.
    """
    for name in names:
        values = trajectories.coords[name]
        if values.dtype.kind not in "iufb" or not np.isfinite(values.astype(float)).all():
            raise ValueError(
                f"{caller}: expected a finite number for each trajectory in the coordinate {name!r}, which "
                f"the equations name, got {values.tolist()}; give the numbers, or rename the coordinate."
            )


def with_clock(trajectories: Trajectories, clock: str) -> Trajectories:
    """The same records with the time as their last input, of this name; unchanged where they have it."""
    if clock in trajectories.input_names:
        return trajectories
    pairs = trajectories.arrays()
    inputs = [np.column_stack([u, t]) for u, (t, _) in zip(trajectories.input_arrays(), pairs, strict=True)]
    return Trajectories.from_arrays(
        [x for _, x in pairs],
        [t for t, _ in pairs],
        state_names=trajectories.state_names,
        coords=trajectories.coords,
        units=trajectories.units,
        u=inputs,
        input_names=[*trajectories.input_names, clock],
    )


def _differ(caller: str, kind: str, own: Sequence[str], expected: Sequence[str]) -> bool:
    """Whether columns with the names of a field are in another order."""
    places = [list(expected).index(name) for name in own if name in expected]
    if places and len(places) < len(own):
        raise ValueError(
            f"{caller}: expected {kind} {', '.join(expected)}, got {', '.join(own)}; give these alone, under "
            "these names."
        )
    return places != sorted(places)
