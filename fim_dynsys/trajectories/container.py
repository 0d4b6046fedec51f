"""Trajectories: what was observed, as one validated, frozen xarray Dataset.

A little above five hundred lines: it is one class, and half of it says what its methods take and raise.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fim_dynsys.errors import ReadingWarning, earlier_name, warn
from fim_dynsys.regions import Region
from fim_dynsys.trajectories import datasets, files, frames, observations
from fim_dynsys.trajectories.holding import Hold
from fim_dynsys.trajectories.labels import in_one_order
from fim_dynsys.trajectories.layout import DIMS, as_dataset, check_layout, read_only
from fim_dynsys.trajectories.parts import READ, Parts
from fim_dynsys.trajectories.presentation import Presentation

_WITHOUT_CODES = (
    "write NaN where {code} stands for a missing value, or give Trajectories.from_dataset what "
    "xarray.load_dataset reads if it does not"
)


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
        states do. Measured inputs are ``u(trajectory, sample, input)``, finite at every sample, with their
        names in the coordinate ``input``. The dataset is held, not copied: do not write into it.

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
    _x: np.ndarray = field(init=False)
    _t: np.ndarray = field(init=False)
    _n_obs: np.ndarray = field(init=False)
    _coords: dict[str, np.ndarray] = field(init=False)
    _names: tuple[str, ...] = field(init=False)
    _u: np.ndarray | None = field(init=False)
    _input_names: tuple[str, ...] = field(init=False)
    _extras: dict[str, xr.Variable] = field(init=False)

    def __post_init__(self) -> None:
        check_layout(self.dataset)
        variables = self.dataset.variables
        x, t, n_obs = (read_only(variables[name].values) for name in DIMS)
        coords = {
            str(name): read_only(variables[name].values)
            for name in self.dataset.coords
            if name not in ("state", "input")
        }
        observations.check_values(x, t, n_obs, may_decrease="status" in coords)
        names = tuple(str(name) for name in variables["state"].values)
        u, inputs = None, tuple[str, ...]()
        if "u" in variables:
            u = read_only(variables["u"].values)
            observations.check_inputs(u, n_obs)
            inputs = observations.checked_input_names(variables["input"].values, u.shape[2], names)
        extras = {str(name): variables[name] for name in self.dataset.data_vars if name not in {*DIMS, "u"}}
        cached = {"x": x, "t": t, "n_obs": n_obs, "coords": coords, "names": names, "extras": extras}
        cached |= {"u": u, "input_names": inputs}
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
        u: Any = None,
        input_names: Sequence[str] | None = None,
    ) -> "Trajectories":
        """Trajectories from arrays or lists of arrays.

        Parameters
        ----------
        x : array_like or list of array_like
            One trajectory of shape (n, d) or (n,), or a list of them; lengths may differ. NaN and masked
            entries are missing observations. Tables in a list may have their columns in different orders.
        t : array_like, list of array_like, or float
            Times (n,) shared by all trajectories, one array for each, or one positive step ``dt`` for
            ``t = dt * arange(n)``.
        state_names : sequence of str, optional
            One per coordinate, none of them ``t``. If left out: names of the columns of `x`, or ``x0, x1,
            ...``.
        coords : mapping, optional
            Values per trajectory, ``{"mu": [...]}``; numbers or strings.
        units : mapping or sequence of str, optional
            ``{"prey": "1/km^2", "t": "d"}`` by state, input, coordinate or ``t``; a sequence is one per
            state.
        u : array_like or list of array_like, optional
            Measured inputs at the times of the samples, (n, m) or (n,) for each trajectory.
        input_names : sequence of str, optional
            One per input. If left out: names of the columns of `u`, or ``u0, u1, ...``.

        Raises
        ------
        ValueError
            If the input is not real numbers, shapes or lengths do not fit, or a time or a value is not
            allowed (see the class).

        Examples
        --------
        >>> import numpy as np
        >>> from fim_dynsys import Trajectories
        >>> runs = [np.array([1.0, 0.5, 0.2]), np.array([2.0, 1.1])]
        >>> data = Trajectories.from_arrays(runs, 1.0, ["n"])
        >>> data.n_obs.tolist(), data.state_names
        ([3, 2], ('n',))
        """
        return cls._of(Parts(x, t, state_names, coords, units, u=u, input_names=input_names))

    @classmethod
    def _of(cls, parts: Parts) -> "Trajectories":
        states, own_names = in_one_order(parts.x, "states")
        xs = observations.as_trajectory_arrays(states)
        lengths = [len(values) for values in xs]
        ts = observations.as_time_arrays(parts.t, lengths)
        given = own_names if parts.state_names is None else parts.state_names
        names = observations.checked_state_names(given, xs[0].shape[1])
        x, t, n_obs = observations.pack(xs, ts)
        u, inputs = None, tuple[str, ...]()
        if parts.u is not None:
            values, own_names = in_one_order(parts.u, "inputs")
            us = observations.as_input_arrays(values, lengths)
            given = own_names if parts.input_names is None else parts.input_names
            inputs = observations.checked_input_names(given, us[0].shape[1], names)
            u = observations.padded_inputs(us, n_obs, x.shape[1])
        kept = (parts.coords, parts.units, parts.attrs, parts.extras)
        return cls(as_dataset(x, t, n_obs, names, *kept, u, inputs))

    @classmethod
    def from_dataframe(
        cls,
        frame: Any,
        time: str | None = None,
        trajectory: str | None = None,
        states: Sequence[str] | None = None,
        coords: Sequence[str] | None = None,
        units: Mapping[str, str] | None = None,
        inputs: Sequence[str] | None = None,
    ) -> "Trajectories":
        """Trajectories from a long pandas DataFrame: one row per sample.

        Parameters
        ----------
        frame : pandas.DataFrame
            Rows of one trajectory stand in the order of time.
        time : str, optional
            Column (or index level) of times. If left out: ``t`` or ``time``, else the only column of dates or
            durations, else an index of dates, durations or floats. Dates count in seconds from the earliest,
            durations in seconds.
        trajectory : str, optional
            Column that tells trajectories apart; ``trajectory`` if left out and there is such a column. Its
            labels become a coordinate: ``sample_`` for ``sample``, ``state``, ``x`` and other names of axes.
        states : sequence of str, optional
            Columns of the state; all that remain if left out.
        coords : sequence of str, optional
            Columns that are constant within each trajectory, kept as coordinates.
        units : mapping, optional
            As in :meth:`from_arrays`.
        inputs : sequence of str, optional
            Columns of measured inputs.

        Raises
        ------
        ValueError
            If a column is missing or not numeric, a coordinate varies within a trajectory, or the
            values break a rule of the class.

        Examples
        --------
        >>> import pandas as pd
        >>> from fim_dynsys import Trajectories
        >>> frame = pd.DataFrame({"day": [0, 1, 0, 1], "run": [1, 1, 2, 2], "n": [1.0, 0.5, 2.0, 1.1]})
        >>> data = Trajectories.from_dataframe(frame, time="day", trajectory="run")
        >>> len(data), data.state_names
        (2, ('n',))
        """
        parts = frames.split_frame(frame, time, trajectory, states, coords, inputs)
        return cls._of(parts if units is None else replace(parts, units=units))

    @classmethod
    def from_dataset(cls, dataset: xr.Dataset | xr.DataArray) -> "Trajectories":
        """Trajectories from an xarray object; the values are copied.

        Accepted are the layout of this class (``n_obs`` may be left out), a DataArray over a time
        dimension and optionally one of states and ``trajectory``, and a Dataset of one variable per
        state over the time dimension (``time``, ``t`` or ``sample``) and optionally ``trajectory``, which may
        be called ``trial``, ``run``, ``subject`` or ``replicate`` where it has no labels without numbers.
        Further variables of the first layout are kept unless they run along ``sample``. Dates count in
        seconds from the earliest, durations in seconds.

        Raises
        ------
        ValueError
            If none of these layouts fits, or the values break a rule of the class.

        Examples
        --------
        >>> import xarray as xr
        >>> from fim_dynsys import Trajectories
        >>> table = xr.Dataset({"n": ("time", [1.0, 0.5])}, coords={"time": [0.0, 1.0]})
        >>> Trajectories.from_dataset(table).x.shape  # trajectories, samples, states
        (1, 2, 1)
        """
        return cls._of(datasets.split_dataset(dataset))

    @classmethod
    def from_file(cls, path: str | Path, **options: Any) -> "Trajectories":
        """Trajectories from a file as instruments and people write it.

        Text tables of any separator, with decimal commas, comment lines, lines before the header, units,
        dates and missing values; Excel, MATLAB, numpy, HDF5, Parquet, Feather and netCDF; compressed or not.
        An ambiguous file is read where one reading is plain, and refused where two are possible:
        the error names the argument to give. ``print(data)`` says what was done.

        Parameters
        ----------
        path : str or Path
            The file; its suffix says which kind it is. ``-`` reads text from standard input.
        **options
            ``time, trajectory, states, inputs, coords, units``
                Columns by role, as in :meth:`from_dataframe`. Names as in the file, with or without units.
                ``units`` stand beside those of the file; that of ``t`` converts dates.
            ``step``
                Time between rows, where no column holds times.
            ``every``
                Keep every so many samples.
            ``trials``
                ``"restart"`` (default): where the time starts again, a trajectory begins. ``"suffix"``:
                columns ``x_1, v_1, x_2, v_2`` are two trials. ``"none"``: one trajectory.
            ``repeated``
                What equal times are: ``"spread"``, ticks of a rounded clock, samples evenly spaced inside;
                or ``"trials"``, repeated measurements. Default: the first where values follow each other,
                else an error.
            ``missing``
                Texts or numbers that stand for missing values, as ``-999``.
            ``bad_rows``
                ``"error"`` (default) or ``"drop"``, for rows that are cut off or hold text.
            ``separator, decimal, thousands, comment, encoding, names``
                How a text table is written, and names of its columns. Default: found out.
            ``dayfirst, time_format``
                How dates are written, the latter as in `datetime.datetime.strptime`.
            ``sheet``
                Sheet of an Excel file.
            ``format``
                Kind of file where the suffix does not say it: ``"text"``, ``"excel"``, ``"matlab"``,
                ``"numpy"``, ``"hdf5"``, ``"parquet"``, ``"feather"``, ``"netcdf"``.

        Raises
        ------
        OSError
            If the file cannot be opened.
        ValueError
            If it is damaged, cut off, refers to other files, can be read in several ways, or its contents
            break a rule of the class.
        ImportError
            If the package that reads such files is not installed.

        Warns
        -----
        ReadingWarning
            Something was decided that the file does not say; the message says all that was done.

        See Also
        --------
        Trajectories.from_dataframe : tables that are in memory
        Trajectories.to_file : writes CSV or netCDF, which come back exactly

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> path = Path(tempfile.mkdtemp()) / "pendulum.csv"
        >>> _ = path.write_text("Time (s);angle (rad)\\n0,0;1,00\\n0,1;0,98\\n0,2;0,92\\n0,3;0,83\\n")
        >>> data = Trajectories.from_file(path)
        >>> data.state_names, data.units
        (('angle',), {'angle': 'rad', 't': 's'})
        """
        # deferred: arrays and tables in memory need no reader of files
        from fim_dynsys.trajectories.reading import reader
        from fim_dynsys.trajectories.reading.options import Options
        from fim_dynsys.trajectories.reading.suspects import check_codes

        checked = Options.of(options)
        if str(path) != reader.STANDARD_INPUT:
            kind = reader.kind_of(path, checked)
            if kind == "netcdf":
                others = sorted(set(options) - {"units"})
                if others:
                    raise ValueError(
                        f"Trajectories.from_file: expected no arguments but units with netCDF files, got "
                        f"{others} with {Path(path).name}; leave them out"
                    )
                dataset = files.read_netcdf(path)
                data = cls.from_dataset(dataset)
                if "n_obs" not in dataset:  # files of others
                    columns = np.concatenate([x for _, x in data.arrays()]).T
                    check_codes(Path(path).name, zip(data.state_names, columns, strict=True), _WITHOUT_CODES)
                return data._with_given_units(checked.units)
            if kind == "text" and files.is_ours(path):
                return cls._from_own(path, options)
        return cls._of(reader.read(path, options))

    @classmethod
    def _from_own(cls, path: str | Path, columns: Mapping[str, Any]) -> "Trajectories":
        """Trajectories from a table that :meth:`to_file` wrote, which says itself how it is read."""
        roles = ("time", "trajectory", "states", "coords", "units", "inputs")
        every = columns.get("every", 1)
        others = sorted(set(columns) - {*roles, "every"})
        if others:
            raise ValueError(
                f"Trajectories.from_file: expected arguments among {', '.join(roles)}, every with a file of "
                f"this package, got {others}; leave them out"
            )
        given = {name: value for name, value in columns.items() if name not in ("every", "units")}
        data = cls.from_dataframe(files.read_csv(path), **given)._with_given_units(columns.get("units"))
        return data if every == 1 else data.select_samples([np.arange(0, n, every) for n in data.n_obs])

    def _with_given_units(self, units: Mapping[str, str] | None) -> "Trajectories":
        """The same with these units beside those of its file, or in their place."""
        if units is None:
            return self
        # deferred, as in from_file
        from fim_dynsys.trajectories.reading import clocks

        merged = self.with_units({**self.units, **units} if isinstance(units, Mapping) else units)
        stated, given = self.units.get("t", ""), merged.units.get("t", "")
        if not stated or len({clocks.unit_of_name(unit) or unit for unit in (stated, given)}) == 1:
            return merged
        said = clocks.said_unit(stated, given)
        warn(f"Trajectories.from_file: {said}", ReadingWarning)
        earlier = self.dataset.attrs.get(READ, f"read {int(self.n_obs.sum())} samples")
        return merged._replace(attrs={**merged.dataset.attrs, READ: f"{earlier}; {said}"})

    # What is in it

    @property
    def dim(self) -> int:
        """Number of state coordinates d."""
        return self._x.shape[2]

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
    def input_names(self) -> tuple[str, ...]:
        """Names of the measured inputs; empty where there are none."""
        return self._input_names

    @property
    def u(self) -> np.ndarray | None:
        """Measured inputs, shape (K, L, m): NaN in padding; None where there are none."""
        return self._u

    def input_arrays(self) -> list[np.ndarray]:
        """Inputs (n, m) of each trajectory, a copy without padding; m = 0 where there are none.

        Examples
        --------
        >>> from fim_dynsys import Trajectories
        >>> data = Trajectories.from_arrays([1.0, 0.5, 0.2], 1.0, u=[0.0, 1.0, 1.0], input_names=["dose"])
        >>> data.input_arrays()[0].T.tolist()
        [[0.0, 1.0, 1.0]]
        """
        if self._u is None:
            return [np.empty((n, 0)) for n in self._n_obs]
        return [self._u[k, :n].copy() for k, n in enumerate(self._n_obs)]

    @property
    def hold(self) -> Hold:
        """What the inputs do between their samples."""
        return Hold(self.dataset.attrs.get("hold", Hold.AUTO.value))

    def with_hold(self, hold: Hold | str) -> "Trajectories":
        """The same where the inputs are known to do this between their samples, see `Hold`.

        Parameters
        ----------
        hold : Hold or {"previous", "linear", "smooth", "pieces", "auto"}
            Of all inputs.

        Raises
        ------
        ValueError
            Where it is none of these.

        Examples
        --------
        >>> from fim_dynsys import Trajectories
        >>> data = Trajectories.from_arrays([1.0, 0.5, 0.2], 1.0, u=[0.0, 1.0, 1.0])
        >>> data.with_hold("previous").hold.value
        'previous'
        """
        chosen = Hold.of("Trajectories.with_hold", hold)
        if chosen == self.hold:
            return self
        return self._replace(attrs={**self.dataset.attrs, "hold": chosen.value})

    def without_inputs(self) -> "Trajectories":
        """The states alone.

        Examples
        --------
        >>> from fim_dynsys import Trajectories
        >>> Trajectories.from_arrays([1.0, 0.5, 0.2], 1.0, u=[0.0, 1.0, 1.0]).without_inputs().input_names
        ()
        """
        kept = {name: unit for name, unit in self.units.items() if name not in self._input_names}
        return self._replace(u=None, input_names=(), units=kept)

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

        Examples
        --------
        >>> import numpy as np
        >>> from fim_dynsys import Trajectories
        >>> runs = [np.array([1.0, 0.5, 0.2]), np.array([2.0, 1.1])]
        >>> t, x, mask = Trajectories.from_arrays(runs, 1.0).padded()
        >>> mask[1, :, 0].tolist()
        [True, True, False]
        """
        mask = ~np.isnan(self._x)
        last = self._t[np.arange(len(self)), self._n_obs - 1]
        t = np.where(np.isnan(self._t), last[:, None], self._t)
        return t, np.where(mask, self._x, 0.0), mask

    def arrays(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """``[(t (n,), x (n, d)), ...]``: a copy for each trajectory, without padding.

        Examples
        --------
        >>> import numpy as np
        >>> from fim_dynsys import Trajectories
        >>> runs = [np.array([1.0, 0.5, 0.2]), np.array([2.0, 1.1])]
        >>> for t, x in Trajectories.from_arrays(runs, 1.0).arrays():
        ...     print(t, x.shape)
        [0. 1. 2.] (3, 1)
        [0. 1.] (2, 1)
        """
        return [(self._t[k, :n].copy(), self._x[k, :n].copy()) for k, n in enumerate(self._n_obs)]

    def box(self) -> Region:
        """Smallest box round all observations.

        A coordinate that never changes gets the width of a thousandth of its value (0.001 if it is 0).

        Raises
        ------
        ValueError
            If a coordinate was never observed.

        Examples
        --------
        >>> from fim_dynsys import Trajectories
        >>> box = Trajectories.from_arrays([1.0, 0.5, 0.2], 1.0).box()
        >>> box.low.tolist(), box.high.tolist()
        ([0.2], [1.0])
        """
        return Region(*observations.extent(self._x, self._names), self._names)

    # New ones from old ones

    def __len__(self) -> int:
        return len(self._x)

    n_trajectories = earlier_name("n_trajectories", "len(trajectories)", len)

    def __iter__(self) -> Iterator["Trajectories"]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, index: int | slice | Sequence[int] | np.ndarray) -> "Trajectories":
        chosen = observations.positions(index, len(self))
        n_obs = self._n_obs[chosen]
        longest = int(n_obs.max())
        coords = {name: values[chosen] for name, values in self._coords.items()}
        extras = {
            name: variable.isel(trajectory=chosen, missing_dims="ignore")
            for name, variable in self._extras.items()
            if "sample" not in variable.dims
        }
        x, t = self._x[chosen, :longest], self._t[chosen, :longest]
        u = None if self._u is None else self._u[chosen, :longest]
        return self._replace(x=x, t=t, n_obs=n_obs, coords=coords, extras=extras, u=u)

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

        Examples
        --------
        >>> from fim_dynsys import Trajectories
        >>> data = Trajectories.from_arrays([1.0, 0.5, 0.2], 1.0)
        >>> data.with_x(2.0 * data.x).x.ravel().tolist()
        [2.0, 1.0, 0.4]
        """
        values = observations.padded_values(x, self._n_obs, self._x.shape[1])
        if state_names is None and values.shape[2] != self.dim:
            raise ValueError(
                f"Trajectories.with_x: expected {self.dim} coordinates, got {values.shape[2]}; "
                "pass state_names for the new ones"
            )
        names = observations.checked_state_names(state_names or self._names, values.shape[2])
        return self._replace(x=values, state_names=names, units=self._units_for(names))

    def with_coords(self, **coords: Any) -> "Trajectories":
        """The same with these coordinates per trajectory set, or taken away where the value is None.

        Examples
        --------
        >>> import numpy as np
        >>> from fim_dynsys import Trajectories
        >>> runs = [np.array([1.0, 0.5, 0.2]), np.array([2.0, 1.1])]
        >>> data = Trajectories.from_arrays(runs, 1.0).with_coords(mu=[0.1, 0.2])
        >>> data.coords["mu"].tolist()
        [0.1, 0.2]
        """
        merged = {**self._coords, **coords}
        kept = {name: values for name, values in merged.items() if values is not None}
        gone = set(merged) - set(kept)
        units = {name: unit for name, unit in self.units.items() if name not in gone}
        return self._replace(coords=kept, units=units)

    def with_units(self, units: Mapping[str, str] | Sequence[str]) -> "Trajectories":
        """The same with these units instead; forms as in :meth:`from_arrays`.

        Examples
        --------
        >>> from fim_dynsys import Trajectories
        >>> Trajectories.from_arrays([1.0, 0.5, 0.2], 1.0, ["n"]).with_units({"n": "1/l", "t": "d"}).units
        {'n': '1/l', 't': 'd'}
        """
        return self._replace(units=units)

    def select_states(self, names: Sequence[str]) -> "Trajectories":
        """Only these states, in this order.

        Examples
        --------
        >>> from fim_dynsys import Trajectories
        >>> data = Trajectories.from_arrays([[1.0, 0.0], [0.9, -0.1]], 0.1, ["x", "v"])
        >>> data.select_states(["v"]).state_names
        ('v',)
        """
        names = (names,) if isinstance(names, str) else tuple(names)
        unknown = [name for name in names if name not in self._names]
        if unknown or not names:
            raise ValueError(
                f"Trajectories.select_states: expected names among {list(self._names)}, "
                f"got {unknown or 'none'}"
            )
        columns = [self._names.index(name) for name in names]
        return self._replace(x=self._x[:, :, columns], state_names=names, units=self._units_for(names))

    def drop_incomplete(self, caller: str) -> "Trajectories":
        """Only the samples in which every coordinate was observed.

        Parameters
        ----------
        caller : str
            Name of the model that needs complete samples, for the messages.

        Warns
        -----
        DataWarning
            Once, with the number of samples dropped, if any was.

        Raises
        ------
        ValueError
            If no sample is complete.

        Examples
        --------
        >>> from fim_dynsys import Trajectories
        >>> data = Trajectories.from_arrays([[1.0, 0.0], [0.9, float("nan")], [0.7, -0.2]], 0.1)
        >>> data.drop_incomplete("example").n_obs.tolist()
        [2]
        """
        rows = observations.complete_rows(self._x, self._n_obs, caller)
        if rows is None:
            return self
        used = [k for k, chosen in enumerate(rows) if chosen.size]
        return self[used].select_samples([rows[k] for k in used])

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

        Examples
        --------
        >>> from fim_dynsys import Trajectories
        >>> data = Trajectories.from_arrays([1.0, 0.7, 0.5, 0.3], 1.0)
        >>> data.select_samples([[0, 2]]).t.tolist()
        [[0.0, 2.0]]
        """
        rows = observations.checked_rows(rows, self._n_obs)
        x, t, n_obs = observations.pack(
            [values[chosen] for values, chosen in zip(self._x, rows, strict=True)],
            [times[chosen] for times, chosen in zip(self._t, rows, strict=True)],
        )
        u = None
        if self._u is not None:
            chosen = [values[kept] for values, kept in zip(self._u, rows, strict=True)]
            u = observations.padded_inputs(chosen, n_obs, x.shape[1])
        return self._replace(x=x, t=t, n_obs=n_obs, u=u)

    def _units_for(self, names: Sequence[str]) -> dict[str, str]:
        kept = {"t", *names, *self._input_names, *self._coords}
        return {name: unit for name, unit in self.units.items() if name in kept}

    def _replace(self, **changes: Any) -> "Trajectories":
        parts: dict[str, Any] = {
            "x": self._x,
            "t": self._t,
            "n_obs": self._n_obs,
            "state_names": self._names,
            "coords": self._coords,
            "units": self.units,
            "attrs": self.dataset.attrs,
            "extras": {} if "x" in changes else self._extras,
            "u": self._u,
            "input_names": self._input_names,
        }
        return type(self)(as_dataset(**{**parts, **changes}))

    # Out

    def to_dataframe(self) -> Any:
        """Long pandas DataFrame: a row per sample, columns ``trajectory`` (if several), ``t``, states and
        coordinates; :meth:`from_dataframe` restores all of it from ``frame.attrs``.

        Raises
        ------
        ValueError
            If two columns would bear one name.

        Examples
        --------
        >>> from fim_dynsys import Trajectories
        >>> Trajectories.from_arrays([1.0, 0.5], 1.0, ["n"]).to_dataframe().columns.tolist()
        ['t', 'n']
        """
        inputs = dict(zip(self._input_names, np.concatenate(self.input_arrays()).T, strict=True))
        return frames.join_frame(
            self.arrays(), self._names, self._coords, self.units, inputs, self.hold.value
        )

    def to_file(self, path: str | Path) -> None:
        """Write CSV (long format) or netCDF 4, by the suffix ``.csv`` or ``.nc``.

        Raises
        ------
        ValueError
            For another suffix, or a CSV file in which two columns would bear one name.
        OSError
            Where the disk is full or the file may not be written; an old file is then untouched.

        Examples
        --------
        >>> import tempfile
        >>> from fim_dynsys import Trajectories
        >>> data = Trajectories.from_arrays([1.0, 0.5], 1.0, ["n"], units={"n": "1/l"})
        >>> path = tempfile.mkdtemp() + "/decay.nc"
        >>> data.to_file(path)
        >>> Trajectories.from_file(path).equals(data)
        True
        """
        if files.file_format(path) == "csv":
            files.write_csv(self.to_dataframe(), path)
        else:
            files.write_netcdf(self.dataset, path)

    def __reduce__(self) -> tuple:
        # The dataset alone: pickled as attributes, the arrays would travel twice and come back writable.
        return type(self), (self.dataset,)

    def equals(self, other: "Trajectories") -> bool:
        """Whether values (NaN equal to NaN), times, names, coordinates, units and hold agree.

        Examples
        --------
        >>> from fim_dynsys import Trajectories
        >>> data = Trajectories.from_arrays([1.0, float("nan")], 1.0)
        >>> data.equals(data.with_x(data.x)), data.equals(data.with_x(2.0 * data.x))
        (True, False)
        """
        return (
            self._names == other._names
            and self._input_names == other._input_names
            and self.units == other.units
            and self.hold == other.hold
            and set(self._coords) == set(other._coords)
            and np.array_equal(self._n_obs, other._n_obs)
            and np.array_equal(self._x, other._x, equal_nan=True)
            and np.array_equal(self._t, other._t, equal_nan=True)
            and (self._u is None or np.array_equal(self._u, np.asarray(other._u), equal_nan=True))
            and all(observations.same(values, other._coords[name]) for name, values in self._coords.items())
        )

    def __repr__(self) -> str:
        return self._presentation().text()

    def _repr_html_(self) -> str:
        return self._presentation().html()

    def _presentation(self) -> Presentation:
        return Presentation(
            self._t,
            self._x,
            self._n_obs,
            self._names,
            self._input_names,
            self.units,
            tuple(self._coords),
            str(self.dataset.attrs.get(READ, "")),
        )


def concatenate(trajectories: Sequence[Trajectories]) -> Trajectories:
    """All trajectories of several collections in one.

    Raises
    ------
    ValueError
        If the list is empty, or names of states, inputs or coordinates, units or hold differ.

    See Also
    --------
    Trajectories.from_arrays : Several at once.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> t = np.linspace(0, 5, 50)
    >>> data = fim_dynsys.Trajectories.from_arrays(3.0 * np.exp(-0.5 * t), t)
    >>> len(fim_dynsys.concatenate([data, data]))
    2
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
        for what in ("state_names", "input_names", "units", "hold"):
            if getattr(item, what) != getattr(first, what):
                raise ValueError(
                    f"concatenate: expected {what} {getattr(first, what)} as in item 0, "
                    f"got {getattr(item, what)} in item {k}; rename or convert them first"
                )
    pairs = [pair for item in items for pair in zip(item._x, item._t, item._n_obs, strict=True)]
    x, t, n_obs = observations.pack([x[:n] for x, _, n in pairs], [t[:n] for _, t, n in pairs])
    coords = {name: np.concatenate([item.coords[name] for item in items]) for name in first.coords}
    us = [u for item in items for u in item.input_arrays()]
    u = observations.padded_inputs(us, n_obs, x.shape[1]) if first.input_names else None
    return first._replace(x=x, t=t, n_obs=n_obs, coords=coords, u=u)
