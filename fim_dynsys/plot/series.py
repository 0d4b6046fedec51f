"""Time series: observations, simulations and the bands of ensembles, one panel for each state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from fim_dynsys.analyze.results import FieldLike, unwrap
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.plot import flow, style
from fim_dynsys.plot.canvas import (
    AxesLike,
    Drawing,
    add_legend,
    given_axes,
    new_axes,
    whole_ticks,
    with_unit,
)
from fim_dynsys.plot.objects import with_neighbours
from fim_dynsys.plot.space import States, chosen_states
from fim_dynsys.plot.style import Look
from fim_dynsys.simulation.problem import FAILURES, Status
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.trajectories.container import Trajectories, concatenate

Observed = Trajectories | ArrayLike | Sequence[ArrayLike]
"""Trajectories, or one array or several of states at times that are given beside them."""

_BANDS = ((0.05, 0.95, 0.18), (0.25, 0.75, 0.3))  # lower and upper quantile, and how opaque
_ENOUGH = 0.9  # share of members that must have a value for a band to be drawn


def time_series(
    data: Observed | None = None,
    simulated: Observed | None = None,
    ensemble: Trajectories | EnsembleField | None = None,
    *,
    t: ArrayLike | Sequence[ArrayLike] | None = None,
    ax: AxesLike | None = None,
    states: States | None = None,
    field: FieldLike | None = None,
) -> Drawing:
    """States against time: observations as marks, simulations as lines, ensembles as bands.

    A simulation that failed ends in a cross with its status. Bands hold the middle 50 % and 90 % of the
    members and end where fewer than 90 % of the members still have a value; the line in them is the median.

    Parameters
    ----------
    data : Trajectories, array (n, d) or list of such arrays, optional
        Observations; arrays need `t`.
    simulated : Trajectories, array (m, d) or list of such arrays, optional
        Of `fim_dynsys.simulate`, or what ``model.simulate`` returns; the k-th is drawn in the colour of the
        k-th of ``data``, with a line style of its own. Arrays need `t`, unless they have as many rows as the
        data.
    ensemble : Trajectories or EnsembleField, optional
        Of `fim_dynsys.simulate` with an EnsembleField: trajectories with a coordinate ``member``. An
        EnsembleField itself, as ``model.ensemble(20)``, is simulated from the first complete samples of
        ``data`` over their times.
    t : float, array (n,) or list of arrays, optional
        Times of arrays, or the step between them.
    ax : Axes or sequence of Axes, optional
        One for each state shown; default a new figure.
    states : sequence of int or str, optional
        States to show, by number or name; default all.
    field : VectorField or fitted model, optional
        Its support is below 0.5 where lines of ``simulated`` are drawn dotted and thin.

    Returns
    -------
    Drawing
        Artists named ``data``, ``simulated``, ``unsupported``, ``stopped``, ``median`` and ``bands``.

    Raises
    ------
    ValueError
        If nothing is given, times are missing, or states and axes do not fit.

    See Also
    --------
    forecast : The bands of ``model.forecast``.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> from fim_dynsys import plot
    >>> t = np.linspace(0, 5, 50)
    >>> model = fim_dynsys.load("sindy-strong").fit(3.0 * np.exp(-0.5 * t), t)
    >>> drawing = plot.time_series(model.context_, model.simulate([3.0], t), t=t)
    >>> sorted(drawing.artists)
    ['data', 'simulated']
    """
    caller = "time_series"
    names = field_names(data, simulated, ensemble)
    data = read_series(caller, data, t, names)
    simulated = read_series(caller, simulated, t, names, data)
    if isinstance(ensemble, EnsembleField):
        ensemble = _simulated_members(caller, ensemble, data)
    given = [one for one in (data, simulated, ensemble) if one is not None]
    if not given or not (ensemble is None or isinstance(ensemble, Trajectories)):
        raise ValueError(
            f"{caller}: expected data, simulated or ensemble, got "
            f"{'none' if ensemble is None else type(ensemble).__name__}; Trajectories or arrays with t= will "
            "do, and an EnsembleField as ensemble."
        )
    names, units = given[0].state_names, given[0].units
    if any(one.dim != len(names) for one in given):
        raise ValueError(f"{caller}: expected one number of states, got {[one.dim for one in given]}.")
    shown = tuple(range(len(names))) if states is None else chosen_states(states, names, caller, len(names))
    new_figure = ax is None
    axes = given_axes(
        new_axes(len(shown), size=(8.0, 2.2), sharex=True) if ax is None else ax, len(shown), caller
    )
    artists: dict[str, list[Artist]] = {}
    for panel, state in zip(axes, shown, strict=True):
        for part, draw_part in ((ensemble, _bands), (simulated, _lines), (data, _marks)):
            if part is not None:
                for name, found in draw_part(panel, part, state, *([field] if part is simulated else [])):
                    artists.setdefault(name, []).append(found)
        panel.set_ylabel(with_unit(names[state], units))
    axes[-1].set_xlabel(with_unit("t", units))
    whole_ticks(axes[-1], given[0].t)
    if new_figure:
        add_legend(axes)
    return Drawing(axes, {name: tuple(found) for name, found in artists.items()})


def field_names(*given: Any) -> Sequence[str] | None:
    """Names of the states, from the first argument that has them."""
    return next((one.state_names for one in given if hasattr(one, "state_names")), None)


def read_series(
    caller: str,
    given: Observed | None,
    t: Any,
    names: Sequence[str] | None,
    like: Trajectories | None = None,
) -> Trajectories | None:
    """Trajectories, or arrays at times `t`, by default at those of trajectories with as many samples."""
    if given is None or isinstance(given, Trajectories):
        return given
    if isinstance(given, EnsembleField) or not np.iterable(given):
        raise ValueError(f"{caller}: expected Trajectories or arrays, got {type(given).__name__}.")
    parts: list[Any] = list(given) if isinstance(given, list | tuple) else [given]
    if not all(np.ndim(part) for part in parts):
        parts = [given]
    try:
        arrays = [np.asarray(part, dtype=float) for part in parts]
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{caller}: expected Trajectories or arrays of numbers, got {type(given).__name__} ({error})."
        ) from error
    arrays = [part[:, None] if part.ndim == 1 else part for part in arrays]
    if t is None and like is not None and [len(part) for part in arrays] == like.n_obs.tolist():
        times: Any = [times_of_one for times_of_one, _ in like.arrays()]
    elif t is None:
        raise ValueError(
            f"{caller}: expected times with arrays of {[len(part) for part in arrays]} rows, got none; pass "
            "t="
        )
    elif np.ndim(t) == 0:
        times = [float(np.asarray(t)) * np.arange(len(part)) for part in arrays]
    else:
        several = isinstance(t, list | tuple) and bool(np.ndim(np.asarray(t[0])))
        times = list(t) if isinstance(t, list | tuple) and several else [t] * len(arrays)
    known = names if names is not None and len(names) == arrays[0].shape[1] else None
    return Trajectories.from_arrays(arrays, times, known)


def _simulated_members(caller: str, ensemble: EnsembleField, data: Trajectories | None) -> Trajectories:
    """Members of an ensemble from the first complete samples of the data, over their times."""
    if data is None:
        raise ValueError(
            f"{caller}: expected data with an EnsembleField, whose members start at the first samples; pass "
            "data= or simulate the ensemble."
        )
    pairs = [(t, x, np.isfinite(x).all(axis=1)) for t, x in data.arrays()]
    if not all(seen.any() for _, _, seen in pairs):
        raise ValueError(f"{caller}: expected a complete sample in each trajectory, got one without.")
    from_first = [t[np.argmax(seen) :] for t, _, seen in pairs]
    starts = np.array([x[np.argmax(seen)] for _, x, seen in pairs])
    runs = [simulate(ensemble, start, t) for start, t in zip(starts, from_first, strict=True)]
    members = [run[[k]] for k in range(len(ensemble)) for run in runs]
    return concatenate(members)


def _look(k: int, *keys: str) -> Look:
    """Of the k-th trajectory."""
    look = style.SERIES[k % len(style.SERIES)]
    return {key: look[key] for key in keys}


def _suffix(k: int, n: int) -> str:
    return f" {k}" if n > 1 else ""


def _marks(ax: Axes, data: Trajectories, state: int) -> Iterator[tuple[str, Artist]]:
    for k, (t, x) in enumerate(data.arrays()):
        look: Look = _look(k, "marker") | {"linestyle": "", "markersize": 3.5, "fillstyle": "none"}
        look["color"] = style.OBSERVED[k % len(style.OBSERVED)]
        label = f"observed{_suffix(k, len(data))}"
        yield "data", ax.plot(t, x[:, state], **look, zorder=style.DATA, label=label)[0]


def _lines(
    ax: Axes, simulated: Trajectories, state: int, field: FieldLike | None
) -> Iterator[tuple[str, Artist]]:
    for k, (t, x) in enumerate(simulated.arrays()):
        look = _look(k, "color", "linestyle")
        label = f"simulated{_suffix(k, len(simulated))}"
        backed = np.ones(len(t), dtype=bool)
        if field is not None:
            support = unwrap(field, "time_series").support(x)
            backed = ~(support < style.SUPPORTED)
            if not backed.all():
                loose = np.where(with_neighbours(~backed), x[:, state], np.nan)
                thin = _look(k, "color") | {"linestyle": ":", "linewidth": 1.0, "zorder": style.CURVES}
                yield "unsupported", ax.plot(t, loose, **thin, label=flow.UNSUPPORTED)[0]
        firm = np.where(backed, x[:, state], np.nan)
        yield "simulated", ax.plot(t, firm, **look, linewidth=1.6, zorder=style.CURVES, label=label)[0]
        if "status" in simulated.coords and simulated.status[k] in FAILURES:
            yield "stopped", _stop(ax, t, x[:, state], Status(simulated.status[k]))


def _stop(ax: Axes, t: np.ndarray, x: np.ndarray, status: Status) -> Artist:
    last = np.flatnonzero(np.isfinite(x))[-1]
    look: Look = {"color": style.BLACK, "marker": "x", "markersize": 7, "linestyle": ""}
    label = f"stopped: {status.name.lower().replace('_', ' ')}"
    return ax.plot(t[last], x[last], **look, zorder=style.POINTS, label=label)[0]


def _bands(ax: Axes, ensemble: Trajectories, state: int) -> Iterator[tuple[str, Artist]]:
    if "member" not in ensemble.coords:
        raise ValueError(
            f"time_series: expected trajectories with a coordinate 'member' as ensemble, got "
            f"{sorted(ensemble.coords)}; simulate an EnsembleField"
        )
    n = len(ensemble) // len(np.unique(ensemble.coords["member"]))
    for k in range(n):
        t, x = ensemble.t[k], ensemble.x[k::n, :, state]
        enough = np.isfinite(x).mean(axis=0) >= _ENOUGH
        t, x = t[enough], x[:, enough]
        color = _look(k, "color")
        for low, high, alpha in _BANDS:
            ends = np.nanquantile(x, (low, high), axis=0)
            label = f"{high - low:.0%} of members{_suffix(k, n)}"
            look: Look = color | {"alpha": alpha, "linewidth": 0.0, "zorder": style.FLOW}
            yield "bands", ax.fill_between(t, *ends, **look, label=label)
        look = _look(k, "color", "linestyle") | {"linewidth": 1.2, "zorder": style.CURVES}
        yield "median", ax.plot(t, np.nanmedian(x, axis=0), **look, label=f"median{_suffix(k, n)}")[0]
