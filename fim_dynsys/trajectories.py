"""Trajectories: what was observed, as one validated, frozen xarray Dataset."""

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fim_dynsys import files
from fim_dynsys.errors import DataWarning
from fim_dynsys.regions import Region

_DIMS = {"x": ("trajectory", "sample", "state"), "t": ("trajectory", "sample"), "n_obs": ("trajectory",)}
_RESERVED = frozenset({*_DIMS, "sample", "state"})


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
        ``attrs["units"]``. It is held, not copied: do not write into it.

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
        _check_values(x, t, n_obs, may_decrease="status" in coords)
        names = tuple(str(name) for name in variables["state"].values)
        for name, value in (("_x", x), ("_t", t), ("_n_obs", n_obs), ("_coords", coords), ("_names", names)):
            object.__setattr__(self, name, value)

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
        xs = _as_trajectory_arrays(x)
        ts = _as_time_arrays(t, [len(values) for values in xs])
        packed = _pack(xs, ts)
        return _build(cls, *packed, _state_names(state_names, xs[0].shape[1]), coords, units, {})

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
        state over the time dimension (``time``, ``t`` or ``sample``) and optionally ``trajectory``.

        Raises
        ------
        ValueError
            If none of these layouts fits, or the values break a rule of the class.
        """
        parts = files.split_dataset(dataset)
        xs = _as_trajectory_arrays(parts.x)
        ts = _as_time_arrays(parts.t, [len(values) for values in xs])
        names = _state_names(parts.state_names, xs[0].shape[1])
        return _build(cls, *_pack(xs, ts), names, parts.coords, parts.units, parts.attrs)

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
        """How each simulation ended, shape (K,): values of ``fim_dynsys.simulation.Status``."""
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
        seen = ~np.isnan(self._x)
        for i in np.flatnonzero(~seen.any(axis=(0, 1))):
            raise ValueError(
                f"Trajectories.box: expected observations of every state, got none of {self._names[i]!r}; "
                "select the observed ones with select_states"
            )
        low = np.min(self._x, axis=(0, 1), where=seen, initial=np.inf)
        high = np.max(self._x, axis=(0, 1), where=seen, initial=-np.inf)
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
        return self._replace(
            x=self._x[chosen, :longest], t=self._t[chosen, :longest], n_obs=n_obs, coords=coords
        )

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
        names = self._names if state_names is None else _state_names(state_names, values.shape[2])
        return self._replace(x=values, state_names=names, units=self._units_for(names))

    def with_coords(self, **coords: Any) -> "Trajectories":
        """The same with these coordinates per trajectory set, or taken away where the value is None."""
        merged = {**self._coords, **coords}
        kept = {name: values for name, values in merged.items() if values is not None}
        gone = set(merged) - set(kept)
        units = {name: unit for name, unit in self.units.items() if name not in gone}
        return self._replace(coords=kept, units=units)

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
        return self._gather(used, [np.flatnonzero(keep[k]) for k in used])

    def in_time_order(self) -> "Trajectories":
        """The same with times increasing: turns trajectories that were simulated backwards."""
        order = [
            np.arange(n) if n == 1 or t[1] > t[0] else np.arange(n)[::-1]
            for t, n in zip(self._t, self._n_obs, strict=True)
        ]
        if all(n == 1 or rows[0] == 0 for rows, n in zip(order, self._n_obs, strict=True)):
            return self
        return self._gather(np.arange(len(self)), order)

    def _gather(self, trajectories: np.ndarray, samples: Sequence[np.ndarray]) -> "Trajectories":
        """Chosen samples of chosen trajectories."""
        pairs = list(zip(trajectories, samples, strict=True))
        x, t, n_obs = _pack([self._x[k, rows] for k, rows in pairs], [self._t[k, rows] for k, rows in pairs])
        coords = {name: values[trajectories] for name, values in self._coords.items()}
        return self._replace(x=x, t=t, n_obs=n_obs, coords=coords)

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
        counts = _range_text(self._n_obs)
        first, last = np.nanmin(self._t), np.nanmax(self._t)
        inside = int(self._n_obs.sum()) * self.dim
        missing = inside - int(np.count_nonzero(~np.isnan(self._x)))
        lines = [
            f"Trajectories: {len(self)} of {counts} samples, {self.dim} states, "
            f"t from {first:g} to {last:g}{_bracketed(self.units.get('t'))}"
            + (f", {missing} values missing" if missing else "")
        ]
        lines += [f"  {row}" for row in self._state_rows()]
        lines += [f"  per trajectory: {', '.join(self._coords)}"] if self._coords else []
        return "\n".join(lines)

    def _state_rows(self) -> list[str]:
        rows = []
        for i, name in enumerate(self._names):
            seen = self._x[:, :, i][~np.isnan(self._x[:, :, i])]
            span = f"{seen.min():.4g} to {seen.max():.4g}" if seen.size else "never observed"
            rows.append(f"{name}{_bracketed(self.units.get(name))}: {span}")
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
        for what in ("state_names", "units"):
            if getattr(item, what) != getattr(first, what):
                raise ValueError(
                    f"concatenate: expected {what} {getattr(first, what)} as in item 0, "
                    f"got {getattr(item, what)} in item {k}; rename or convert them first"
                )
        if set(item.coords) != set(first.coords):
            raise ValueError(
                f"concatenate: expected coordinates {sorted(first.coords)} as in item 0, "
                f"got {sorted(item.coords)} in item {k}; add or drop some using with_coords"
            )
    pairs = [pair for item in items for pair in zip(item._x, item._t, item._n_obs, strict=True)]
    x, t, n_obs = _pack([x[:n] for x, _, n in pairs], [t[:n] for _, t, n in pairs])
    coords = {name: np.concatenate([item.coords[name] for item in items]) for name in first.coords}
    return first._replace(x=x, t=t, n_obs=n_obs, coords=coords)


# Reading what users pass


def _real(values: Any, what: str) -> np.ndarray:
    """Float64 array with masked entries as NaN, or a ValueError naming ``what``."""
    try:
        array = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"Trajectories: expected real numbers for {what}, got {type(values).__name__} that numpy cannot "
            f"convert ({error}); pass a list of arrays, one per trajectory"
        ) from error
    if array.dtype.kind not in "iuf":
        raise ValueError(
            f"Trajectories: expected real numbers for {what}, got dtype {array.dtype}; {_advice(array)}"
        )
    with np.errstate(over="ignore"):  # long doubles beyond float64 become inf, refused with their place
        if isinstance(array, np.ma.MaskedArray):
            return array.astype(np.float64).filled(np.nan)
        return np.array(array, dtype=np.float64)


def _advice(array: np.ndarray) -> str:
    if array.dtype.kind == "c":
        return "give real and imaginary part as two states"
    if array.dtype.kind in "mM":
        return "convert to numbers in one unit, as (t - t[0]) / np.timedelta64(1, 's') does"
    if array.dtype.kind == "O":
        return "pass a list of arrays, one per trajectory, or convert with astype(float)"
    return "convert with astype(float)"


def _depth(value: Any) -> int:
    """Number of axes of an array, or of nested lists judged by their first entries."""
    ndim = getattr(value, "ndim", None)
    if isinstance(ndim, int):
        return ndim
    if isinstance(value, list | tuple):
        return 1 + (max(_depth(entry) for entry in value) if value else 0)
    return 0


def _is_list_of_trajectories(x: Any) -> bool:
    if not isinstance(x, list | tuple):
        return False
    entries_are_arrays = any(not isinstance(entry, list | tuple) and _depth(entry) > 0 for entry in x)
    return entries_are_arrays or _depth(x) > 2


def _as_trajectory_arrays(x: Any) -> list[np.ndarray]:
    """One (n, d) array per trajectory."""
    entries = list(x) if _is_list_of_trajectories(x) else [x]
    arrays = [_as_states(entry, f"x of trajectory {k}") for k, entry in enumerate(entries)]
    for k, array in enumerate(arrays):
        if array.shape[1] != arrays[0].shape[1]:
            raise ValueError(
                f"Trajectories: expected {arrays[0].shape[1]} coordinates as in trajectory 0, "
                f"got {array.shape[1]} in trajectory {k}; all trajectories need the same states"
            )
    return arrays


def _as_states(values: Any, what: str) -> np.ndarray:
    array = _real(values, what)
    if array.ndim == 3:
        raise ValueError(
            f"Trajectories: expected shape (n, d) or (n,) for {what}, got {array.shape}; "
            "pass list(x) if the first axis counts trajectories"
        )
    if array.ndim not in (1, 2):
        raise ValueError(f"Trajectories: expected shape (n, d) or (n,) for {what}, got {array.shape}")
    array = array[:, None] if array.ndim == 1 else array
    if array.size == 0:
        raise ValueError(
            f"Trajectories: expected at least one sample of one coordinate for {what}, got shape "
            f"{array.shape}; leave empty trajectories out"
        )
    return array


def _as_time_arrays(t: Any, lengths: Sequence[int]) -> list[np.ndarray]:
    """One (n,) array of times per trajectory."""
    if isinstance(t, list | tuple) and _depth(t) > 1:
        if len(t) != len(lengths):
            raise ValueError(
                f"Trajectories: expected {len(lengths)} arrays of times, one per trajectory, got {len(t)}"
            )
        times = [_real(entry, f"t of trajectory {k}") for k, entry in enumerate(t)]
        shared = False
    else:
        array = _real(t, "t")
        if array.ndim == 0:
            return _regular_times(float(array), lengths)
        times, shared = [array] * len(lengths), True
    for k, (array, n) in enumerate(zip(times, lengths, strict=True)):
        if array.ndim != 1:
            raise ValueError(
                f"Trajectories: expected times of shape (n,) for trajectory {k}, got {array.shape}; "
                "pass list(t) if the first axis counts trajectories, t.ravel() for a column"
            )
        if array.size != n:
            hint = "; pass a list of times, one array per trajectory" if shared and len(lengths) > 1 else ""
            raise ValueError(
                f"Trajectories: expected as many times as samples, got {array.size} times and "
                f"{n} samples in trajectory {k}{hint}"
            )
    return times


def _regular_times(dt: float, lengths: Sequence[int]) -> list[np.ndarray]:
    if not (np.isfinite(dt) and dt > 0):
        raise ValueError(
            f"Trajectories: expected a positive, finite time step, got t = {dt:g}; "
            "a number means t = dt * arange(n), an array gives the times themselves"
        )
    with np.errstate(over="ignore"):  # an overflow becomes inf, refused with its place
        return [dt * np.arange(n) for n in lengths]


def _state_names(names: Any, dim: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"x{i}" for i in range(dim))
    names = (names,) if isinstance(names, str) else tuple(names)
    valid = all(isinstance(name, str) and name for name in names)
    if not valid or len(names) != dim or len(set(names)) != dim:
        raise ValueError(
            f"Trajectories: expected {dim} different state names (str), got {names!r}; one per column"
        )
    return tuple(str(name) for name in names)


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
        values = _real(x, "x")
        if values.shape[:2] != (n_obs.size, longest) or values.shape[2] == 0:
            raise ValueError(
                f"Trajectories.with_x: expected shape {(n_obs.size, longest, 'd')}, got {values.shape}"
            )
        values[np.arange(longest) >= n_obs[:, None]] = np.nan
        return values
    arrays = _as_trajectory_arrays(x)
    lengths = [len(array) for array in arrays]
    if lengths != n_obs.tolist():
        raise ValueError(
            f"Trajectories.with_x: expected trajectories of {n_obs.tolist()} samples, got {lengths}"
        )
    return _pack(arrays, [np.zeros(n) for n in lengths])[0]


# Building and checking


def _pack(xs: Sequence[np.ndarray], ts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Padded ``x (K, L, d)``, ``t (K, L)`` and ``n_obs (K,)``."""
    n_obs = np.array([len(t) for t in ts], dtype=np.int64)
    x = np.full((n_obs.size, n_obs.max(), xs[0].shape[1]), np.nan)
    t = np.full(x.shape[:2], np.nan)
    for k, n in enumerate(n_obs):
        x[k, :n], t[k, :n] = xs[k], ts[k]
    return x, t, n_obs


def _build(
    cls: type[Trajectories],
    x: np.ndarray,
    t: np.ndarray,
    n_obs: np.ndarray,
    state_names: tuple[str, ...],
    coords: Mapping[str, Any] | None,
    units: Mapping[str, str] | Sequence[str] | None,
    attrs: Mapping[str, Any],
) -> Trajectories:
    variables = {"x": x, "t": t, "n_obs": n_obs}
    data = {name: (_DIMS[name], _read_only(array)) for name, array in variables.items()}
    per_trajectory = _checked_coords(coords, n_obs.size)
    units = _checked_units(units, state_names, per_trajectory)
    labels = {name: ("trajectory", _read_only(values)) for name, values in per_trajectory.items()}
    labels["state"] = ("state", np.array(state_names, dtype=object))
    attrs = {name: value for name, value in attrs.items() if name != "units"}
    attrs |= {"units": json.dumps(units, ensure_ascii=False)} if units else {}
    return cls(xr.Dataset(data, coords=labels, attrs=attrs))


def _checked_coords(coords: Mapping[str, Any] | None, n: int) -> dict[str, np.ndarray]:
    checked = {}
    if not isinstance(coords, Mapping | None):
        raise ValueError(
            f"Trajectories: expected coords as a mapping from name to values, got {type(coords).__name__}"
        )
    for name, values in (coords or {}).items():
        if not isinstance(name, str) or not name or name in _RESERVED:
            raise ValueError(
                f"Trajectories: expected a coordinate name other than {sorted(_RESERVED)}, got {name!r}"
            )
        checked[name] = _coordinate(name, values, n)
    return checked


def _coordinate(name: str, values: Any, n: int) -> np.ndarray:
    try:
        array = np.atleast_1d(np.asarray(values))
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"Trajectories: expected {n} values for coordinate {name!r}: {error}") from error
    if array.shape != (n,):
        raise ValueError(
            f"Trajectories: expected {n} values for coordinate {name!r}, one per trajectory, "
            f"got shape {array.shape}"
        )
    if array.dtype.kind in "iufb":
        return array
    if not all(isinstance(value, str) for value in array):
        raise ValueError(
            f"Trajectories: expected numbers or strings for coordinate {name!r}, got dtype {array.dtype}"
        )
    return np.array([str(value) for value in array], dtype=object)


def _checked_units(units: Any, state_names: Sequence[str], coords: Mapping[str, Any]) -> dict[str, str]:
    known = ["t", *state_names, *coords]
    if isinstance(units, list | tuple):
        if len(units) != len(state_names):
            raise ValueError(
                f"Trajectories: expected {len(state_names)} units, one per state, got {len(units)}"
            )
        units = dict(zip(state_names, units, strict=True))
    if not isinstance(units, Mapping | None):
        raise ValueError(f"Trajectories: expected units as a mapping from name to text, got {units!r}")
    for name, unit in (units or {}).items():
        if name not in known or not isinstance(unit, str):
            raise ValueError(
                f"Trajectories: expected units as text for names among {known}, got {name!r}: {unit!r}"
            )
    return dict(units or {})


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
        kind = "iu" if name == "n_obs" else "f"
        if dataset.variables[name].dtype.kind not in kind:
            raise ValueError(
                f"Trajectories: expected {'integers' if kind == 'iu' else 'float64'} in {name!r}, "
                f"got {dataset.variables[name].dtype}; use Trajectories.from_dataset to convert"
            )
    if "state" not in dataset.coords or any(dataset[c].dims != ("trajectory",) for c in _extra(dataset)):
        raise ValueError(
            "Trajectories: expected a coordinate 'state' with the names and all others over 'trajectory', "
            f"got { ({str(c): dataset[c].dims for c in dataset.coords}) }"
        )


def _extra(dataset: xr.Dataset) -> list:
    return [name for name in dataset.coords if name != "state"]


def _check_values(x: np.ndarray, t: np.ndarray, n_obs: np.ndarray, may_decrease: bool) -> None:
    """Raise a ValueError that names trajectory and sample if a rule on the values is broken."""
    length = x.shape[1]
    if 0 in x.shape or n_obs.min() < 1 or n_obs.max() > length:
        raise ValueError(
            f"Trajectories: expected 1 to {length} samples in each trajectory, got n_obs = {n_obs.tolist()} "
            f"and x of shape {x.shape}"
        )
    inside = np.arange(length) < n_obs[:, None]
    wrong = _first(inside & ~np.isfinite(t))
    if wrong:
        raise ValueError(
            f"Trajectories: expected finite times, got {t[wrong]:g} at sample {wrong[1]} of trajectory "
            f"{wrong[0]}; drop that sample or give its time"
        )
    wrong = _first(np.isinf(x))
    if wrong:
        raise ValueError(
            f"Trajectories: expected finite values, got {x[wrong]:g} in coordinate {wrong[2]} at sample "
            f"{wrong[1]} of trajectory {wrong[0]}; write NaN for a missing observation"
        )
    wrong = _first(~inside & ~(np.isnan(t) & np.isnan(x).all(axis=2)))
    if wrong:
        raise ValueError(
            f"Trajectories: expected NaN beyond the {n_obs[wrong[0]]} samples of trajectory {wrong[0]}, "
            f"got numbers at sample {wrong[1]}; raise n_obs or blank them"
        )
    _check_order(t, inside, may_decrease)


def _check_order(t: np.ndarray, inside: np.ndarray, may_decrease: bool) -> None:
    step = np.where(inside[:, 1:], t[:, 1:] > t[:, :-1], True)
    if may_decrease:
        step = step | np.all(~inside[:, 1:] | (t[:, 1:] < t[:, :-1]), axis=1, keepdims=True)
    wrong = _first(~step)
    if wrong:
        k, i = wrong
        problem = "repeated" if t[k, i] == t[k, i + 1] else "unsorted"
        remedy = "average or drop the repeats" if problem == "repeated" else "sort the samples by time"
        raise ValueError(
            f"Trajectories: expected strictly increasing times, got {problem} ones, {t[k, i]:g} then "
            f"{t[k, i + 1]:g}, at sample {i + 1} of trajectory {k}; {remedy}"
        )


def _first(wrong: np.ndarray) -> tuple[int, ...] | None:
    """Index of the first True, if there is one."""
    if not wrong.any():
        return None
    return tuple(int(i) for i in np.unravel_index(np.argmax(wrong), wrong.shape))


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    numeric = a.dtype.kind in "iufb" and b.dtype.kind in "iufb"
    return np.array_equal(a, b, equal_nan=numeric)


def _range_text(n_obs: np.ndarray) -> str:
    low, high = int(n_obs.min()), int(n_obs.max())
    return str(low) if low == high else f"{low} to {high}"


def _bracketed(unit: str | None) -> str:
    return f" [{unit}]" if unit else ""
