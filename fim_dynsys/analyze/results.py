"""What every result of an analysis has in common: a table, a picture, a dataset, and the effort behind it.

A little above five hundred lines: the base of results, and what all analyses ask of their arguments.
"""

import abc
import contextlib
import enum
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from fim_dynsys.analyze.conserved import conserved_sums
from fim_dynsys.errors import check_flags, real_array
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.forced import ForcedField
from fim_dynsys.fields.frame import Scales
from fim_dynsys.regions import Region, unknown_states
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.wording import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from tqdm import tqdm

    from fim_dynsys.plot import Drawing

PATIENCE = 2.0
"""Seconds without a bar, of what is often done sooner."""

_MOST_ROWS = 100  # of a table as text; `to_dataframe` has all

WIDENED = 0.1
"""How much a default region exceeds the data's box on each side, as a share of its size."""

RegionLike = Region | Mapping[str, tuple[float, float]] | Sequence[tuple[float, float]]
"""What users may pass as a box."""
StateLike = ArrayLike | Mapping[str, float]
"""What users may pass as a state: numbers in order, or some by name."""
Table = tuple[list[str], list[list]]
"""Column names and rows of cells."""
Variables = dict[str, tuple[tuple[str, ...], np.ndarray]]
"""Dimension names and values of what a dataset holds."""

SUPPORTED = 0.5
"""Support from which a point counts as supported, see `VectorField.support`."""

_DATA = (np.ndarray, list, tuple, pd.DataFrame, pd.Series, xr.Dataset, xr.DataArray, Trajectories)
_SCALE_POINTS = 64  # a root mean square of so many is good to 10 %, and scales need no more
_LARGEST_SPEED = 1e3  # times the median


class FittedModel(Protocol):
    """A model that has been fitted and holds the field it inferred."""

    field_: VectorField


FieldLike = VectorField | FittedModel
"""What users may pass as a field."""


@dataclass(frozen=True)
class Effort:
    """What a search spent, against what it was allowed to.

    Attributes
    ----------
    seeds : int
        Starting points tried.
    iterations : int
        Iterations of the method that refines them, summed over the rounds of the search.
    points : int
        Points at which the field or its Jacobian was evaluated.
    budget : int
        Largest number of such points.
    exhausted : bool
        Whether the search stopped for want of budget or time, so that it may have missed something.
    """

    seeds: int
    iterations: int
    points: int
    budget: int
    exhausted: bool

    def __str__(self) -> str:
        stopped = ", exhausted" if self.exhausted else ""
        seeds, rounds = counted(self.seeds, "seed"), counted(self.iterations, "iteration")
        return f"{seeds}, {rounds}, {self.points:,} of {self.budget:,} field points{stopped}"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Result(abc.ABC):
    """Base of every result, itself a frozen dataclass; so is each kind (``eq=False, repr=False``).

    A kind writes `_rows` and `_variables`, and `_headline` and `_notes` where it has more to say. What all
    have is given by keyword, all but the effort by ``**labels(field, region)``.

    Attributes
    ----------
    drawn_by : str or callable, of the class
        What `plot` calls, ``f(result, ax, **kwargs)``: a method, or ``"module:function"`` where importing it
        would load matplotlib. None for a kind that has no picture.
    state_names : tuple of str
        Names of the d states.
    units : dict
        Units by state name, for those that have one.
    effort : Effort
        What the search spent.
    conserved : tuple of str
        Linear sums of the states that the field conserves; ``S + I + R = 1`` where the analysis was done on
        the level set of that total.
    fit_problems : tuple of str
        What the fit of the field warned of; empty for one that fits its data or was given.
    """

    drawn_by: ClassVar[str | Callable[..., object] | None] = None

    state_names: tuple[str, ...]
    units: Mapping[str, str]
    effort: Effort
    conserved: tuple[str, ...] = ()
    fit_problems: tuple[str, ...] = ()

    # ---------------------------------------------------------------- hooks

    @abc.abstractmethod
    def _rows(self) -> tuple[list[str], list[list]]:
        """Column names, and one list of cells (numbers, arrays, enums, text) for each row of the table."""

    @abc.abstractmethod
    def _variables(self) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Dimension names and values of what `to_xarray` holds, complex and Enum arrays included."""

    def _headline(self) -> str:
        """What the table shows, in one line."""
        return type(self).__name__

    def _notes(self) -> list[str]:
        """Lines below the table."""
        return [str(self.effort)]

    # ---------------------------------------------------------------- display

    def __str__(self) -> str:
        columns, rows = self._rows()
        table = aligned([columns, *([cell(value) for value in row] for row in rows[:_MOST_ROWS])])
        return "\n".join([self._headline(), *(table if rows else []), *self._all_notes(len(rows))])

    def _all_notes(self, n_rows: int) -> list[str]:
        """Lines below the table: rows that are not shown, what kinds have to say, sums, warnings."""
        hidden = [f"... and {n_rows - _MOST_ROWS:,} more, see to_dataframe()"] if n_rows > _MOST_ROWS else []
        conserved = [f"conserved: {', '.join(self.conserved)}"] if self.conserved else []
        warned = (
            [f"the fit of this field warned: {'; '.join(self.fit_problems)}"] if self.fit_problems else []
        )
        return [*hidden, *self._notes(), *conserved, *warned]

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        columns, rows = self._rows()
        head = "".join(f"<th>{escape(name)}</th>" for name in columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell(value))}</td>' for value in row)}</tr>"
            for row in rows[:_MOST_ROWS]
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self._all_notes(len(rows)))
        return f"<p><b>{escape(self._headline())}</b></p><table><tr>{head}</tr>{body}</table>{notes}"

    def plot(self, ax: "Axes | None" = None, **kwargs: Any) -> "Drawing":
        """Draw the result on matplotlib axes (new ones where `ax` is None); see `fim_dynsys.plot`.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw.
        **kwargs
            Options of the plot.

        Returns
        -------
        Drawing
            The axes, their figure and the artists.
        """
        from fim_dynsys.plot import draw  # the one way up: results must work where nothing is drawn

        return draw(self, ax, **kwargs)

    # ---------------------------------------------------------------- conversion

    def to_dataframe(self) -> pd.DataFrame:
        """The table that is printed, with the numbers themselves.

        Errors have columns of their own, ``x error``. A column of several numbers becomes one for each,
        ``name 0``, ``name 1``, ... or, where these are real and one for each state, ``name x`` by the names
        of the states; kinds and statuses become text.

        Returns
        -------
        DataFrame
            A row for each thing found.
        """
        columns, rows = self._rows()
        return frame_of(columns, rows, self.state_names)

    def to_xarray(self) -> xr.Dataset:
        """Convert to an xarray Dataset that netCDF can hold.

        Complex variables get a last dimension ``part`` (real, imag), statuses and kinds become text. The
        effort, and the units of the states as JSON, are attributes.

        Returns
        -------
        xarray.Dataset
        """
        variables = {name: _storable(*given) for name, given in self._variables().items()}
        dims = {dim for names, _ in variables.values() for dim in names}
        coords = {"state": list(self.state_names), "part": ["real", "imag"]}
        attrs: dict[str, int | str] = {
            f"effort_{name}": int(value) for name, value in vars(self.effort).items()
        }
        if self.units:
            attrs["units"] = json.dumps(dict(self.units))
        if self.fit_problems:
            attrs["fit_problems"] = "; ".join(self.fit_problems)
        if self.conserved:
            attrs["conserved"] = ", ".join(self.conserved)
        attrs["result"] = type(self).__name__
        return xr.Dataset(variables, {dim: coords[dim] for dim in coords if dim in dims}, attrs)


def _storable(dims: tuple[str, ...], values: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    if np.iscomplexobj(values):
        return (*dims, "part"), np.stack([values.real, values.imag], axis=-1)
    if values.dtype == object:
        text = np.array([cell(value) for value in values.ravel()], dtype=np.str_)
        return dims, text.reshape(values.shape)
    return dims, values


# ---------------------------------------------------------------------- text


@dataclass(frozen=True, eq=False)
class Measured:
    """A cell with a standard error: numbers, or arrays of them; the error is None where it is not known."""

    value: Any
    error: Any

    def __str__(self) -> str:
        if self.error is None:
            return cell(self.value)
        pairs = zip(np.ravel(self.value), np.ravel(self.error), strict=True)
        # one error for a complex number: the larger of those of its parts
        return ", ".join(f"{v:.4g} ± {max(e.real, e.imag):.2g}" for v, e in pairs)


def apart(
    columns: Sequence[str], rows: Sequence[Sequence], always: bool = False
) -> tuple[list[str], list[list]]:
    """The table with errors in columns of their own, behind those of the numbers.

    Parameters
    ----------
    columns : sequence of str
        Names.
    rows : sequence of sequence
        Cells.
    always : bool
        Whether errors have a column where none is known, too.
    """
    names: list[str] = []
    found: list[list] = [[] for _ in rows]
    for k, name in enumerate(columns):
        cells = [row[k] for row in rows]
        measured = [own if isinstance(own, Measured) else Measured(own, None) for own in cells]
        shown = any(own.error is not None for own in measured)
        shown |= always and any(isinstance(own, Measured) for own in cells)
        names += [name, f"{name} error"] if shown else [name]
        for row, own in zip(found, measured, strict=True):
            row += [own.value, own.error] if shown else [own.value]
    return names, found


def cell(value: object) -> str:
    """One value as the text of a table cell: five digits, ``a+bi``, ``(a, b)``, an Enum's text."""
    if isinstance(value, Measured):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.value if isinstance(value.value, str) else value.name.lower().replace("_", " ")
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, np.ndarray | tuple | list):
        return f"({', '.join(cell(part) for part in value)})"
    if isinstance(value, complex | np.complexfloating):
        return f"{value.real:.5g}{value.imag:+.5g}i" if value.imag else f"{value.real:.5g}"
    return str(int(value)) if isinstance(value, int | np.integer) else f"{value:.5g}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table with columns of even width, two blanks apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = ([text.ljust(width) for text, width in zip(row, widths, strict=True)] for row in rows)
    return ["  ".join(row).rstrip() for row in padded]


def frame_of(
    columns: Sequence[str], rows: Sequence[Sequence], state_names: Sequence[str] = ()
) -> pd.DataFrame:
    """A DataFrame of a table's cells; see `Result.to_dataframe`."""
    found: dict[str, list] = {}
    columns, rows = apart(columns, rows)
    for k, name in enumerate(columns):
        cells = [row[k] for row in rows]
        if not any(isinstance(value, np.ndarray | tuple | list) for value in cells):
            parts = {name: [_plain(value) for value in cells]}
        else:
            wide = list(map(_several, cells))
            width = max(map(len, wide))
            as_table = width == len(state_names) > 1 and not any(map(np.iscomplexobj, cells))
            ends = state_names if as_table else range(width)
            wide = [[*values, *[np.nan] * (width - len(values))] for values in wide]
            parts = {f"{name} {end}": [_plain(row[i]) for row in wide] for i, end in enumerate(ends)}
        for label, values in parts.items():
            while label in found:  # a state may bear the name of a column
                label += "_"
            found[label] = values
    return pd.DataFrame(found)


def _several(value: object) -> list:
    return list(value) if isinstance(value, np.ndarray | tuple | list) else [value]


def _plain(value: object) -> object:
    """A cell as pandas takes it: a number, text, or None where there is none."""
    if isinstance(value, enum.Enum):
        return cell(value)
    if isinstance(value, np.generic):
        return value.item()
    return None if isinstance(value, str) and not value else value


# ---------------------------------------------------------------------- progress


def progress_bar(
    progress: bool | None, total: int | None, what: str, unit: str, delay: float = 0.0
) -> "tqdm":
    """A bar with the time left, gone when the work is done.

    Parameters
    ----------
    progress : bool or None
        Whether to show it; None for on a terminal only.
    total : int or None
        Units of work in all.
    what, unit : str
        Its name, and that of a unit.
    delay : float
        Seconds before it is shown.

    Returns
    -------
    tqdm
    """
    from tqdm import tqdm

    if progress is not None:
        check_flags(what, progress=progress)
    disable = None if progress is None else not progress
    return tqdm(
        total=total,
        desc=what,
        unit=f" {unit}",
        disable=disable,
        leave=False,
        unit_scale=True,
        delay=delay,
    )


@contextlib.contextmanager
def share_bar(progress: bool | None, what: str) -> Iterator[Callable[[float], None]]:
    """What a simulation tells the share that is done: a bar in percent, shown after two seconds.

    Parameters
    ----------
    progress : bool or None
        As for `progress_bar`.
    what : str
        Its name.
    """
    with progress_bar(progress, 100, what, "%", PATIENCE) as bar:

        def report_share(share: float) -> None:
            bar.update(int(100 * share) - bar.n)

        yield report_share


# ---------------------------------------------------------------------- what analyses are given


def unwrap(field: object, caller: str) -> VectorField:
    """The vector field behind an argument: itself, or the ``field_`` of a fitted model.

    Of a field that is forced periodically, the autonomous one whose further states are sines and cosines.

    Parameters
    ----------
    field : VectorField or fitted model
        What the user passed.
    caller : str
        Name of the function that was called, for the error.

    Returns
    -------
    VectorField

    Raises
    ------
    TypeError
        For anything without a vector field in the space of the observations.
    ValueError
        For a model that is not fitted.
    """
    if isinstance(field, VectorField):
        return field.autonomous() if isinstance(field, ForcedField) else field
    name = getattr(field, "name", None) or type(field).__name__
    if isinstance(field, EnsembleField):
        raise TypeError(
            f"{caller}: expected one vector field, got an ensemble of {len(field)}; use "
            f"analyze.ensemble({caller}, fields, region), or pass a member or fields.mean_field()."
        )
    kind = getattr(field, "kind", None)
    if kind is not None and getattr(kind, "name", "") != "FIELD":
        raise TypeError(
            f"{caller}: expected a vector field in the space of the observations, got {name!r}, whose kind "
            f"is {getattr(kind, 'value', kind)!r}; its forecasts can be compared, its dynamics not analysed."
        )
    inner = getattr(field, "field_", None)
    if isinstance(inner, VectorField):
        return inner.autonomous() if isinstance(inner, ForcedField) else inner
    if hasattr(field, "infer"):
        raise ValueError(
            f"{caller}: expected a fitted model, got {name!r} without a field; call fit(x, t) first."
        )
    if isinstance(field, _DATA):
        raise TypeError(
            f"{caller}: expected a VectorField or a fitted model, got data ({type(field).__name__}); fit a "
            "model to it first, as load('sindy-strong').fit(x, t). A record of a single state unfolds by "
            "delay_embedding, whose vectors are the states to fit."
        )
    theirs = type(field).__module__.partition(".")[0] == "pysindy"
    hint = (
        "; load('sindy', feature_library=..., optimizer=...).fit(x, t) is a model of its kind"
        if theirs
        else ""
    )
    raise TypeError(f"{caller}: expected a VectorField or a fitted model, got {type(field).__name__}{hint}.")


def check_no_inputs(caller: str, field: VectorField) -> None:
    """A TypeError that names the caller for a field with inputs."""
    if isinstance(field, DrivenField):
        raise TypeError(
            f"{caller}: expected a field without inputs, got one with {', '.join(field.input_names)}; "
            "hold them by field.at_input(u)."
        )


def check_result(caller: str, name: str, value: object, kinds: tuple[type, ...], maker: str) -> None:
    """A TypeError that names the caller where an argument is no result of the kinds that it takes."""
    if not isinstance(value, kinds):
        taken = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(
            f"{caller}: expected {name} as {taken}, which {maker} returns, got {type(value).__name__}."
        )


def held_state(caller: str, at: StateLike | None, default: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """The state (d,) through which a plane is laid: given in order or by names, else the default.

    Raises
    ------
    ValueError
        For other names, or numbers that are not finite or not of one state.
    """
    if isinstance(at, Mapping):
        if unknown := sorted(map(str, set(at) - set(names))):
            raise ValueError(
                f"{caller}: expected at of the states {', '.join(names)}, got {', '.join(unknown)}."
            )
        at = [at.get(name, value) for name, value in zip(names, default, strict=True)]
    held = default if at is None else real_array(at, caller, "at")
    if held.shape != default.shape or not np.isfinite(held).all():
        raise ValueError(f"{caller}: expected at of shape ({len(default)},), finite, got {at}.")
    return held


def resolve_region(field: VectorField, region: RegionLike | None, caller: str) -> Region:
    """The box to work in, with the field's state names.

    Parameters
    ----------
    field : VectorField
        The field under analysis.
    region : Region, dict, sequence of pairs, or None
        As the user passed it. A box that names the field's states may name them in any order. None stands
        for the box of the field's data widened by 10 % on each side, or, for a field without data, the
        region it was given.
    caller : str
        Name of the function that was called, for the error.

    Returns
    -------
    Region

    Raises
    ------
    ValueError
        Where neither the user nor the field gives a region, the dimension is wrong or a name is no state's.
    """
    if region is None:
        return _default_region(field, caller)
    return region_of(field.state_names, region, caller)


def region_of(state_names: Sequence[str], region: RegionLike, caller: str) -> Region:
    """A box as the user passed it, with its coordinates in the order of these states.

    Parameters
    ----------
    state_names : sequence of str
        Names of the states.
    region : Region, dict or sequence of pairs
        The box.
    caller : str
        Name of the function that was called, for the error.

    Raises
    ------
    ValueError
        If the dimension is wrong or a name is no state's.
    """
    box = Region(cast(Any, region))  # takes more than it holds
    if isinstance(region, Mapping) and box.dim == len(state_names) and set(region) != set(state_names):
        raise unknown_states(box, state_names, caller)
    return box.of_states(state_names, caller)


def _default_region(field: VectorField, caller: str) -> Region:
    if field.context is not None:
        box = field.context.box().widened(WIDENED)
    elif field.region is not None:
        box = field.region
    else:
        raise ValueError(
            f"{caller}: expected a region, since the field has neither data nor a region of its own, got "
            "None; pass region=Region(low, high)."
        )
    return Region(box.low, box.high, field.state_names)


def scales_within(field: VectorField, region: Region) -> Scales:
    """The sizes that tolerances are relative to: the field's own scales, as far as they suit the region.

    A field that knows of no data and no region has scales of 1, which say nothing; the region then gives the
    lengths (the standard deviation of a uniform distribution) and the field's root mean square in it the
    speeds. Lengths never exceed those of the region, and speeds not a thousand times the median in it: a
    field that is huge in a corner would otherwise seem to vanish everywhere else.

    Parameters
    ----------
    field : VectorField
        The field under analysis.
    region : Region
        The box in which it is analysed.

    Returns
    -------
    Scales
    """
    return scales_of_both_kinds(field, region)[0]


def scales_of_both_kinds(field: VectorField, region: Region) -> tuple[Scales, Scales]:
    """As `scales_within`, and without bounds by the median, for a pulse that vanishes nearly everywhere."""
    deviation = region.size / np.sqrt(12.0)
    with np.errstate(all="ignore"):
        f = np.abs(field(region.sobol(_SCALE_POINTS)))
        f = f[np.isfinite(f).all(axis=1)]
        known = field.scales if field.frame.length is not None else None
    rms, bound = _speeds(f) if len(f) else (np.zeros(field.dim), np.full(field.dim, np.inf))

    def scales(most: np.ndarray) -> Scales:
        if known is not None and np.isfinite(known.speed).all():
            return Scales(np.minimum(known.length, deviation), np.minimum(known.speed, most), known.time)
        speed = np.minimum(rms, most)
        relative = np.sqrt(np.mean((speed / deviation) ** 2))
        time = 1.0 / relative if 0 < relative < np.inf else 1.0
        return Scales(deviation, np.where(speed > 1e-12 * deviation / time, speed, deviation / time), time)

    return scales(bound), scales(np.full(field.dim, np.inf))


def with_steps(field: VectorField, scales: Scales) -> VectorField:
    """The field, or one that knows its scales where it is differenced with steps of no known size.

    Parameters
    ----------
    field : VectorField
        The field under analysis.
    scales : Scales
        Of the analysis, see `scales_within`.

    Returns
    -------
    VectorField
        Without context or region where it is not the field itself.
    """
    if _knows_steps(field):
        return field
    jac = field.jacobian if has_exact_jacobian(field) else None
    return CallableField(field, field.dim, jac, state_names=field.state_names, scales=scales)


def with_steps_within(field: VectorField, region: Region) -> VectorField:
    """The field with steps by its scales in a region, which are looked for only where it knows none."""
    return field if _knows_steps(field) else with_steps(field, scales_within(field, region))


def _knows_steps(field: VectorField) -> bool:
    """Whether derivatives are exact, or differenced with steps of a known size."""
    exact = has_exact_jacobian(field) and type(field)._directional is not VectorField._directional
    return exact or field.frame.length is not None


def has_exact_jacobian(field: VectorField) -> bool:
    """Whether the field's Jacobian is computed from a formula, not from differences."""
    return type(field)._jac is not VectorField._jac and getattr(field, "has_jacobian", True) is not False


def _speeds(f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Root mean square of |f| (n, d) for each state, and its bound (infinite for zeros alone)."""
    largest = f.max(axis=0)
    rms = largest * np.sqrt(np.mean((f / np.where(largest > 0, largest, 1.0)) ** 2, axis=0))
    medians = [np.median(column[column > 0]) if (column > 0).any() else np.inf for column in f.T]
    most = _LARGEST_SPEED * np.array(medians)
    return rms, most


def labels(field: VectorField, region: Region | None = None) -> dict:
    """What a result of this field carries, as keywords: names, units and sums of the states, and what the fit
    of the field warned of.

    Parameters
    ----------
    field : VectorField
        The field under analysis.
    region : Region, optional
        Where; conserved sums are looked for in it, or in the field's own.

    Returns
    -------
    dict
        ``state_names``, ``units``, ``conserved`` and ``fit_problems``.
    """
    names, units = state_labels(field)
    box = field.region if region is None else region
    conserved = () if box is None else conserved_sums(field, box).names
    problems = tuple(field.fit_info.problems)
    return {"state_names": names, "units": units, "conserved": conserved, "fit_problems": problems}


def state_labels(field: VectorField) -> tuple[tuple[str, ...], dict[str, str]]:
    """Names of a field's states, and their units by name."""
    units = {} if field.context is None else field.context.units
    return tuple(field.state_names), dict(units)
