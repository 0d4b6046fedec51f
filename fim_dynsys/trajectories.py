"""Trajectories: what was observed, as one validated, frozen xarray Dataset."""

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fim_dynsys import files, observations
from fim_dynsys.errors import DataWarning
from fim_dynsys.regions import Region

_DIMS = {"x": ("trajectory", "sample", "state"), "t": ("trajectory", "sample"), "n_obs": ("trajectory",)}


@dataclass(frozen=True, eq=False, repr=False)
class Trajectories:
    """Observed or simulated trajectories of one system; ragged and irregular in time.

    Build one with :meth:`from_arrays`, :meth:`from_dataframe`, :meth:`from_dataset` or
    :meth:`from_file`. A NaN in ``x`` at an observed time is a missing observation, of a whole sample or
    of one coordinate. Times increase strictly; simulated trajectories (those with a ``status``) may
    also run backwards. All arrays handed out as properties are read-only views.

    Parameters
    ----------
    dataset : xarray.Dataset
        ``x(trajectory, sample, state)`` and ``t(trajectory, sample)`` in float64, NaN beyond the
        ``n_obs(trajectory)`` samples of each trajectory; state names in the coordinate ``state``; further
        coordinates along ``trajectory`` (a parameter value, a condition); units as JSON in
        ``attrs["units"]``. Other variables (events of a simulation) stay as long as values, samples and
        states do. It is held, not copied: do not write into it.

    Raises
    ------
    ValueError
        If the dataset breaks one of the rules above; the message names the trajectory and the sample.

    Examples
    --------
    >>> t = np.linspace(0, 1, 50)
    >>> data = Trajectories.from_arrays(np.exp(-t), t, state_names=["decay"], units={"t": "s"})
    >>> len(data), data.dim, data.units
    (1, 1, {'t': 's'})
    """

    dataset: xr.Dataset

    def __post_init__(self):
        _check_layout(self.dataset)
        variables = self.dataset.variables
        x, t, n_obs = (_read_only(variables[name].values) for name in _DIMS)
        coords = {
            str(name): _read_only(variables[name].values) for name in self.dataset.coords if name != "state"
        }
        observations.check_values(x, t, n_obs, may_decrease="status" in coords)
        names = tuple(str(name) for name in variables["state"].values)
        extras = {str(name): variables[name] for name in self.dataset.data_vars if name not in _DIMS}
        cached = {"x": x, "t": t, "n_obs": n_obs, "coords": coords, "names": names, "extras": extras}
        for name, value in cached.items():
            object.__setattr__(self, f"_{name}", value)

    # Constructors

    @classmethod
    def from_arrays(
        cls,
        x: Any,
        t: Any,
        state_names: Sequence[str] | None = None,
        coords: Mapping[str, Any] | None = None,
        units: Mapping[str, str] | Sequence[str] | None = None,
    ) -> "Trajectories":
        """Trajectories from arrays or lists of arrays.

        Parameters
        ----------
        x : array_like or list of array_like
            One trajectory of shape (n, d) or (n,), or a list of them; lengths may differ. NaN and masked
            entries are missing observations.
        t : array_like, list of array_like, or float
            Times (n,) shared by all trajectories, one array for each, or one positive step ``dt`` for
            ``t = dt * arange(n)``.
        state_names : sequence of str, optional
            One per coordinate; ``x0, x1, ...`` if left out.
        coords : mapping, optional
            Values per trajectory, ``{"mu": [...]}``; numbers or strings.
        units : mapping or sequence of str, optional
            ``{"prey": "1/km^2", "t": "d"}`` by state, coordinate or ``t``; a sequence is one per state.

        Raises
        ------
        ValueError
            If the input is not real numbers, shapes or lengths do not fit, or a time or a value is not
            allowed (see the class).
        """
        xs = observations.as_trajectory_arrays(x)
        ts = observations.as_time_arrays(t, [len(values) for values in xs])
        names = observations.checked_state_names(state_names, xs[0].shape[1])
        return _build(cls, *observations.pack(xs, ts), names, coords, units, {})

    @classmethod
    def from_dataframe(
        cls,
        frame: Any,
        time: str | None = None,
        trajectory: str | None = None,
        states: Sequence[str] | None = None,
        coords: Sequence[str] | None = None,
        units: Mapping[str, str] | None = None,
    ) -> "Trajectories":
        """Trajectories from a long pandas DataFrame: one row per sample.

        Parameters
        ----------
        frame : pandas.DataFrame
            Rows of one trajectory stand in the order of time.
        time : str, optional
            Column (or index level) of times; ``t`` or ``time`` if left out.
        trajectory : str, optional
            Column that tells trajectories apart; ``trajectory`` if left out and there is such a column.
        states : sequence of str, optional
            Columns of the state; all that remain if left out.
        coords : sequence of str, optional
            Columns that are constant within each trajectory, kept as coordinates.
        units : mapping, optional
            As in :meth:`from_arrays`.

        Raises
        ------
        ValueError
            If a column is missing or not numeric, a coordinate varies within a trajectory, or the
            values break a rule of the class.
        """
        parts = files.split_frame(frame, time, trajectory, states, coords)
        units = parts.units if units is None else units
        return cls.from_arrays(parts.x, parts.t, parts.state_names, parts.coords, units)

    @classmethod
    def from_dataset(cls, dataset: xr.Dataset | xr.DataArray) -> "Trajectories":
        """Trajectories from an xarray object; the values are copied.

        Accepted are the layout of this class (``n_obs`` may be left out), a DataArray over a time
        dimension and optionally one of states and ``trajectory``, and a Dataset of one variable per
        state over the time dimension (``time``, ``t`` or ``sample``) and optionally ``trajectory``. Further
        variables of the first layout are kept unless they run along ``sample``.

        Raises
        ------
        ValueError
            If none of these layouts fits, or the values break a rule of the class.
        """
        parts = files.split_dataset(dataset)
        xs = observations.as_trajectory_arrays(parts.x)
        ts = observations.as_time_arrays(parts.t, [len(values) for values in xs])
        names = observations.checked_state_names(parts.state_names, xs[0].shape[1])
        packed = observations.pack(xs, ts)
        return _build(cls, *packed, names, parts.coords, parts.units, parts.attrs, parts.extras)

    @classmethod
    def from_file(cls, path: str | Path, **columns: Any) -> "Trajectories":
        """Trajectories from a CSV (long format) or netCDF file, told apart by the suffix.

        Parameters
        ----------
        path : str or Path
            ``*.csv``, or ``*.nc`` (netCDF 4).
        **columns
            For CSV: the arguments ``time, trajectory, states, coords, units`` of :meth:`from_dataframe`.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If the suffix is another, the file is damaged, or its contents break a rule of the class.
        """
        if files.file_format(path) == "csv":
            return cls.from_dataframe(files.read_csv(path), **columns)
        if columns:
            raise ValueError(
                f"Trajectories.from_file: expected column names with CSV files only, got {sorted(columns)} "
                f"with {Path(path).name}; leave them out"
            )
        return cls.from_dataset(files.read_netcdf(path))

    # What is in it

    @property
    def dim(self) -> int:
        """Number of state coordinates d."""
        return self._x.shape[2]

    @property
    def n_trajectories(self) -> int:
        """Number of trajectories K."""
        return self._x.shape[0]

    @property
    def n_obs(self) -> np.ndarray:
        """Samples per trajectory, shape (K,), int64."""
        return self._n_obs

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the state coordinates."""
        return self._names

    @property
    def units(self) -> dict[str, str]:
        """Units by state name, coordinate name or ``"t"``; only those that were given."""
        return json.loads(self.dataset.attrs.get("units", "{}"))

    @property
    def coords(self) -> dict[str, np.ndarray]:
        """Values per trajectory by name, each of shape (K,)."""
        return dict(self._coords)

    @property
    def x(self) -> np.ndarray:
        """Values, shape (K, L, d): NaN where missing and in padding."""
        return self._x

    @property
    def t(self) -> np.ndarray:
        """Times, shape (K, L): NaN in padding."""
        return self._t

    @property
    def status(self) -> np.ndarray:
        """How each simulation ended, shape (K,): values of ``fim_dynsys.simulation.problem.Status``."""
        return self._simulated("status")

    @property
    def t_stop(self) -> np.ndarray:
        """Last time each simulation reached, shape (K,)."""
        return self._simulated("t_stop")

    def _simulated(self, name: str) -> np.ndarray:
        if name not in self._coords:
            raise AttributeError(
                f"Trajectories: {name!r} exists for simulated trajectories only; these were observed "
                f"(coordinates: {sorted(self._coords)})"
            )
        return self._coords[name]

    def padded(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Finite arrays ``(t, x, mask)`` for batched models.

        Returns
        -------
        t : ndarray, shape (K, L)
            The last time of a trajectory repeats in its padding.
        x : ndarray, shape (K, L, d)
            Zero where ``mask`` is False.
        mask : ndarray of bool, shape (K, L, d)
            True where a coordinate was observed.
        """
        mask = ~np.isnan(self._x)
        last = self._t[np.arange(len(self)), self._n_obs - 1]
        t = np.where(np.isnan(self._t), last[:, None], self._t)
        return t, np.where(mask, self._x, 0.0), mask

    def arrays(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """``[(t (n,), x (n, d)), ...]``: a copy for each trajectory, without padding."""
        return [(self._t[k, :n].copy(), self._x[k, :n].copy()) for k, n in enumerate(self._n_obs)]

    def box(self) -> Region:
        """Smallest box round all observations.

        A coordinate that never changes gets the width of a thousandth of its value (0.001 if it is 0).

        Raises
        ------
        ValueError
            If a coordinate was never observed.
        """
        low, high = (extreme.reduce(self._x, axis=(0, 1)) for extreme in (np.fmin, np.fmax))  # skip NaN
        for i in np.flatnonzero(np.isnan(low)):
            raise ValueError(
                f"Trajectories.box: expected observations of every state, got none of {self._names[i]!r}; "
                "select the observed ones with select_states"
            )
        # Relative to the value, so that the box scales with the data; 1e-280 keeps it above underflow.
        half = 5e-4 * np.where(low == 0, 1.0, np.maximum(np.abs(low), 1e-280))
        constant = low == high
        return Region(np.where(constant, low - half, low), np.where(constant, high + half, high), self._names)

    # New ones from old ones

    def __len__(self) -> int:
        return self.n_trajectories

    def __iter__(self) -> Iterator["Trajectories"]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, index: int | slice | Sequence[int] | np.ndarray) -> "Trajectories":
        chosen = _positions(index, len(self))
        n_obs = self._n_obs[chosen]
        longest = int(n_obs.max())
        coords = {name: values[chosen] for name, values in self._coords.items()}
        extras = {
            name: variable.isel(trajectory=chosen, missing_dims="ignore")
            for name, variable in self._extras.items()
            if "sample" not in variable.dims
        }
        x, t = self._x[chosen, :longest], self._t[chosen, :longest]
        return self._replace(x=x, t=t, n_obs=n_obs, coords=coords, extras=extras)

    def with_x(self, x: Any, state_names: Sequence[str] | None = None) -> "Trajectories":
        """The same times, coordinates and units with other values.

        Parameters
        ----------
        x : array_like or list of array_like
            Padded (K, L, d) like :attr:`x` (padding is ignored), or one array per trajectory as in
            :meth:`from_arrays`.
        state_names : sequence of str, optional
            Names of new coordinates; needed where d changes. Units of states that are no longer there
            are dropped.

        Raises
        ------
        ValueError
            If the shape does not fit.
        """
        values = _padded_values(x, self._n_obs, self._x.shape[1])
        if state_names is None and values.shape[2] != self.dim:
            raise ValueError(
                f"Trajectories.with_x: expected {self.dim} coordinates, got {values.shape[2]}; "
                "pass state_names for the new ones"
            )
        names = observations.checked_state_names(state_names or self._names, values.shape[2])
        return self._replace(x=values, state_names=names, units=self._units_for(names))

    def with_coords(self, **coords: Any) -> "Trajectories":
        """The same with these coordinates per trajectory set, or taken away where the value is None."""
        merged = {**self._coords, **coords}
        kept = {name: values for name, values in merged.items() if values is not None}
        gone = set(merged) - set(kept)
        units = {name: unit for name, unit in self.units.items() if name not in gone}
        return self._replace(coords=kept, units=units)

    def with_units(self, units: Mapping[str, str] | Sequence[str]) -> "Trajectories":
        """The same with these units instead; forms as in :meth:`from_arrays`."""
        return self._replace(units=units)

    def select_states(self, names: Sequence[str]) -> "Trajectories":
        """Only these states, in this order."""
        names = (names,) if isinstance(names, str) else tuple(names)
        unknown = [name for name in names if name not in self._names]
        if unknown or not names:
            raise ValueError(
                f"Trajectories.select_states: expected names among {list(self._names)}, "
                f"got {unknown or 'none'}"
            )
        columns = [self._names.index(name) for name in names]
        return self._replace(x=self._x[:, :, columns], state_names=names, units=self._units_for(names))

    def drop_incomplete(self, who: str) -> "Trajectories":
        """Only the samples in which every coordinate was observed.

        Parameters
        ----------
        who : str
            Name of the model that needs complete samples, for the messages.

        Warns
        -----
        DataWarning
            Once, with the number of samples dropped, if any was.

        Raises
        ------
        ValueError
            If no sample is complete.
        """
        inside = np.arange(self._x.shape[1]) < self._n_obs[:, None]
        keep = inside & ~np.isnan(self._x).any(axis=2)
        n_dropped = int(inside.sum() - keep.sum())
        if n_dropped == 0:
            return self
        used = np.flatnonzero(keep.any(axis=1))
        if used.size == 0:
            raise ValueError(
                f"{who}: expected samples with every coordinate observed, got none among "
                f"{int(inside.sum())}; give complete samples or use a model that takes partial ones"
            )
        n_lost = len(self) - used.size
        lost = f", with them {n_lost} whole trajectories" if n_lost else ""
        warnings.warn(
            f"{who} needs complete samples: dropped {n_dropped} of {int(inside.sum())} with a missing "
            f"coordinate{lost}",
            DataWarning,
            stacklevel=3,
        )
        return self[used].select_samples([np.flatnonzero(keep[k]) for k in used])

    def in_time_order(self) -> "Trajectories":
        """The same with times increasing: turns trajectories that were simulated backwards."""
        order = [
            np.arange(n) if n == 1 or t[1] > t[0] else np.arange(n)[::-1]
            for t, n in zip(self._t, self._n_obs, strict=True)
        ]
        turned = any(n > 1 and rows[0] > 0 for rows, n in zip(order, self._n_obs, strict=True))
        return self.select_samples(order) if turned else self

    def select_samples(self, rows: Sequence[np.ndarray]) -> "Trajectories":
        """Only these samples.

        Parameters
        ----------
        rows : sequence of array_like of int
            For each trajectory the positions of its samples to keep.

        Raises
        ------
        ValueError
            If there is not one array of positions per trajectory, or one is empty or out of range.
        """
        rows = [np.asarray(chosen) for chosen in rows]
        if len(rows) != len(self):
            raise ValueError(
                f"Trajectories.select_samples: expected {len(self)} arrays of positions, got {len(rows)}"
            )
        for k, (chosen, n) in enumerate(zip(rows, self._n_obs, strict=True)):
            valid = chosen.dtype.kind in "iu" and chosen.ndim == 1 and chosen.size > 0
            if not valid or chosen.min() < 0 or chosen.max() >= n:
                raise ValueError(
                    f"Trajectories.select_samples: expected positions from 0 to {n - 1} for trajectory {k}, "
                    f"got {chosen.tolist()}"
                )
        x, t, n_obs = observations.pack(
            [values[chosen] for values, chosen in zip(self._x, rows, strict=True)],
            [times[chosen] for times, chosen in zip(self._t, rows, strict=True)],
        )
        return self._replace(x=x, t=t, n_obs=n_obs)

    def _units_for(self, names: Sequence[str]) -> dict[str, str]:
        kept = {"t", *names, *self._coords}
        return {name: unit for name, unit in self.units.items() if name in kept}

    def _replace(self, **changes: Any) -> "Trajectories":
        parts = {
            "x": self._x,
            "t": self._t,
            "n_obs": self._n_obs,
            "state_names": self._names,
            "coords": self._coords,
            "units": self.units,
            "attrs": self.dataset.attrs,
            "extras": {} if "x" in changes else self._extras,
        }
        return _build(type(self), **{**parts, **changes})

    # Out

    def to_dataframe(self) -> Any:
        """Long pandas DataFrame: a row per sample, columns ``trajectory`` (if several), ``t``, states and
        coordinates; :meth:`from_dataframe` restores all of it from ``frame.attrs``.

        Raises
        ------
        ValueError
            If two columns would bear one name.
        """
        return files.join_frame(self.arrays(), self._names, self._coords, self.units)

    def to_file(self, path: str | Path) -> None:
        """Write CSV (long format) or netCDF 4, by the suffix ``.csv`` or ``.nc``."""
        if files.file_format(path) == "csv":
            files.write_csv(self.to_dataframe(), path)
        else:
            files.write_netcdf(self.dataset, path)

    def __reduce__(self) -> tuple:
        # The dataset alone: pickled as attributes, the arrays would travel twice and come back writable.
        return type(self), (self.dataset,)

    def equals(self, other: "Trajectories") -> bool:
        """Whether values (NaN equal to NaN), times, names, coordinates and units agree."""
        return (
            self._names == other._names
            and self.units == other.units
            and set(self._coords) == set(other._coords)
            and np.array_equal(self._n_obs, other._n_obs)
            and np.array_equal(self._x, other._x, equal_nan=True)
            and np.array_equal(self._t, other._t, equal_nan=True)
            and all(_same(values, other._coords[name]) for name, values in self._coords.items())
        )

    def __repr__(self) -> str:
        rows = [f"{name}{f' [{unit}]' if unit else ''}: {span}" for name, unit, span in self._state_rows()]
        rows += [f"per trajectory: {', '.join(self._coords)}"] if self._coords else []
        return "\n  ".join([f"Trajectories: {self._headline()}", *rows])

    def _repr_html_(self) -> str:
        cells = [
            f"<tr><td>{escape(name)}</td><td>{escape(unit)}</td><td>{escape(span)}</td>"
            f"<td>{_sparkline(self._t[0], self._x[0, :, i])}</td></tr>"
            for i, (name, unit, span) in enumerate(self._state_rows())
        ]
        coords = f"<p>Per trajectory: {escape(', '.join(self._coords))}</p>" if self._coords else ""
        return (
            f"<p><b>Trajectories</b>: {escape(self._headline())}</p><table><tr><th>state</th><th>unit</th>"
            f"<th>range</th><th>trajectory 0</th></tr>{''.join(cells)}</table>{coords}"
        )

    def _headline(self) -> str:
        low, high = int(self._n_obs.min()), int(self._n_obs.max())
        samples = str(low) if low == high else f"{low} to {high}"
        n_missing = int(self._n_obs.sum()) * self.dim - int(np.count_nonzero(~np.isnan(self._x)))
        unit = self.units.get("t")
        return (
            f"{len(self)} of {samples} samples, dimension {self.dim}, "
            f"t from {np.nanmin(self._t):g} to {np.nanmax(self._t):g}{f' {unit}' if unit else ''}"
            + (f", {n_missing} values missing" if n_missing else "")
        )

    def _state_rows(self) -> list[tuple[str, str, str]]:
        """Name, unit and range of each state."""
        rows = []
        for i, name in enumerate(self._names):
            seen = self._x[:, :, i][~np.isnan(self._x[:, :, i])]
            span = f"{seen.min():.4g} to {seen.max():.4g}" if seen.size else "never observed"
            rows.append((name, self.units.get(name, ""), span))
        return rows


def concatenate(trajectories: Sequence[Trajectories]) -> Trajectories:
    """All trajectories of several collections in one.

    Raises
    ------
    ValueError
        If the list is empty, or state names, names of coordinates or units differ.
    """
    items = list(trajectories)
    if not items or not all(isinstance(item, Trajectories) for item in items):
        raise ValueError(f"concatenate: expected a list of Trajectories, got {trajectories!r}")
    first = items[0]
    for k, item in enumerate(items[1:], start=1):
        if set(item.coords) != set(first.coords):
            raise ValueError(
                f"concatenate: expected coordinates {sorted(first.coords)} as in item 0, "
                f"got {sorted(item.coords)} in item {k}; add or drop some using with_coords"
            )
        for what in ("state_names", "units"):
            if getattr(item, what) != getattr(first, what):
                raise ValueError(
                    f"concatenate: expected {what} {getattr(first, what)} as in item 0, "
                    f"got {getattr(item, what)} in item {k}; rename or convert them first"
                )
    pairs = [pair for item in items for pair in zip(item._x, item._t, item._n_obs, strict=True)]
    x, t, n_obs = observations.pack([x[:n] for x, _, n in pairs], [t[:n] for _, t, n in pairs])
    coords = {name: np.concatenate([item.coords[name] for item in items]) for name in first.coords}
    return first._replace(x=x, t=t, n_obs=n_obs, coords=coords)


# Building and checking


def _positions(index: Any, n: int) -> np.ndarray:
    """Positions of the chosen trajectories, shape (m,)."""
    try:
        chosen = np.atleast_1d(np.arange(n)[index])
    except IndexError as error:
        raise IndexError(f"Trajectories: expected indices among {n} trajectories, got {index!r}") from error
    if chosen.ndim != 1 or chosen.size == 0:
        raise IndexError(f"Trajectories: expected an index that selects trajectories, got {index!r}")
    return chosen


def _padded_values(x: Any, n_obs: np.ndarray, longest: int) -> np.ndarray:
    """Values in padded form, from padded or listed ones, for trajectories of the lengths ``n_obs``."""
    if getattr(x, "ndim", 0) == 3:
        values = observations.as_real(x, "x")
        if values.shape[:2] != (n_obs.size, longest) or values.shape[2] == 0:
            raise ValueError(
                f"Trajectories.with_x: expected shape {(n_obs.size, longest, 'd')}, got {values.shape}"
            )
        values[np.arange(longest) >= n_obs[:, None]] = np.nan
        return values
    arrays = observations.as_trajectory_arrays(x)
    lengths = [len(array) for array in arrays]
    if lengths != n_obs.tolist():
        raise ValueError(
            f"Trajectories.with_x: expected trajectories of {n_obs.tolist()} samples, got {lengths}"
        )
    return observations.pack(arrays, [np.zeros(n) for n in lengths])[0]


def _build(
    cls: type[Trajectories],
    x: np.ndarray,
    t: np.ndarray,
    n_obs: np.ndarray,
    state_names: tuple[str, ...],
    coords: Mapping[str, Any] | None,
    units: Mapping[str, str] | Sequence[str] | None,
    attrs: Mapping[str, Any],
    extras: Mapping[str, xr.Variable] | None = None,
) -> Trajectories:
    per_trajectory = observations.checked_coords(coords, n_obs.size)
    units = observations.checked_units(units, state_names, per_trajectory)
    arrays = {"x": x, "t": t, "n_obs": n_obs}
    data = {name: xr.Variable(_DIMS[name], _read_only(array)) for name, array in arrays.items()}
    data |= extras or {}
    if "t" in units:
        data["t"].attrs["units"] = units["t"]  # where xarray looks for it when it labels an axis
    labels = _state_labels(state_names)
    if per_trajectory:
        extra = {name: xr.Variable("trajectory", _read_only(a)) for name, a in per_trajectory.items()}
        labels = xr.Coordinates({**labels.variables, **extra}, indexes=dict(labels.xindexes))
    attrs = {name: value for name, value in attrs.items() if name != "units"}
    attrs |= {"units": json.dumps(units, ensure_ascii=False)} if units else {}
    dataset = xr.Dataset(data, coords=labels, attrs=attrs)
    return cls(dataset.set_xindex("trajectory") if "trajectory" in per_trajectory else dataset)


@lru_cache(maxsize=256)
def _state_labels(names: tuple[str, ...]) -> xr.Coordinates:
    """The index of states; building it anew is two thirds of the time a Dataset takes."""
    return xr.Coordinates({"state": ("state", np.array(names, dtype=object))})


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def _check_layout(dataset: Any) -> None:
    if not isinstance(dataset, xr.Dataset):
        raise ValueError(
            f"Trajectories: expected an xarray Dataset, got {type(dataset).__name__}; "
            "use Trajectories.from_arrays for arrays and lists"
        )
    for name, dims in _DIMS.items():
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
    others = [dataset.variables[name].dims for name in dataset.coords if name != "state"]
    if "state" not in dataset.coords or any(dims != ("trajectory",) for dims in others):
        raise ValueError(
            "Trajectories: expected a coordinate 'state' with the names and all others over 'trajectory', "
            f"got {list(dataset.coords)}; use Trajectories.from_dataset for other layouts"
        )


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    numeric = a.dtype.kind in "iufb" and b.dtype.kind in "iufb"
    return np.array_equal(a, b, equal_nan=numeric)


def _sparkline(t: np.ndarray, x: np.ndarray, width: int = 160, height: int = 32) -> str:
    """Small SVG curve of at most 200 of the values observed."""
    rows = np.flatnonzero(~np.isnan(x))
    if rows.size < 2:
        return ""
    rows = rows[np.linspace(0, rows.size - 1, min(rows.size, 200)).astype(int)]
    across, up = (_unit_interval(values[rows]) for values in (t, x))
    points = " ".join(f"{a * width:.1f},{(1 - b) * height:.1f}" for a, b in zip(across, up, strict=True))
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 -2 {width} {height + 4}">'
        f'<polyline points="{points}" fill="none" stroke="currentColor"/></svg>'
    )


def _unit_interval(values: np.ndarray) -> np.ndarray:
    # Halved first: the difference of two finite numbers can overflow, that of their halves cannot.
    low, high = values.min() / 2, values.max() / 2
    return (values / 2 - low) / (high - low) if high > low else np.full(values.shape, 0.5)
