"""Forecasts: what was observed, how it goes on, and what was held out to compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from fim_dynsys.plot import style
from fim_dynsys.plot.canvas import AxesLike, Drawing, add_legend, given_axes, new_axes, whole_ticks, with_unit
from fim_dynsys.plot.series import Observed, read_series
from fim_dynsys.plot.space import States, chosen_states
from fim_dynsys.trajectories.container import Trajectories

_FAINT, _DENSE = 0.18, 0.4  # opacity of the widest and of the narrowest band


def forecast(
    forecasts: xr.Dataset,
    data: Observed | None = None,
    held_out: Observed | None = None,
    *,
    t: ArrayLike | Sequence[ArrayLike] | None = None,
    ax: AxesLike | None = None,
    states: States | None = None,
    trajectory: int = 0,
) -> Drawing:
    """A forecast against time: observations, the median of what follows, bands, and what was held out.

    Parameters
    ----------
    forecasts : Dataset
        As ``model.forecast(trajectories, horizon)`` gives it; of several origins, choose one by
        ``.isel(origin=0)``.
    data : Trajectories, array (n, d) or list of such arrays, optional
        What was observed before.
    held_out : Trajectories, array (m, d) or list of such arrays, optional
        What was observed later and not used.
    t : float, array (n,) or list of arrays, optional
        Times of ``data`` where that is an array; of ``held_out``, where it is one, the forecast's own.
    ax : Axes or sequence of Axes, optional
        One for each state shown; default a new figure.
    states : sequence of int or str, optional
        States to show, by number or name; default all.
    trajectory : int
        Which of several trajectories.

    Returns
    -------
    Drawing
        Artists named ``data``, ``held out``, ``median``, ``bands`` and ``origin``.

    Raises
    ------
    ValueError
        If this is no forecast, there is no such trajectory, or states and axes do not fit.

    See Also
    --------
    time_series : Simulations and ensembles.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> from fim_dynsys import plot
    >>> t = np.linspace(0, 5, 50)
    >>> x = 3.0 * np.exp(-0.5 * t) + 0.01 * np.random.default_rng(0).standard_normal(50)
    >>> model = fim_dynsys.load("sindy-strong").fit(x[:30], t[:30])
    >>> ahead = model.forecast(model.context_, t[30:] - t[29], n_draws=5)
    >>> drawing = plot.forecast(ahead, model.context_, x[30:])
    >>> sorted(drawing.artists)
    ['bands', 'data', 'held out', 'median', 'origin']
    """
    caller = "forecast"
    if not isinstance(forecasts, xr.Dataset) or not {"median", "low", "high", "t"} <= set(forecasts):
        raise ValueError(
            f"{caller}: expected the Dataset of model.forecast(trajectories, horizon), got "
            f"{type(forecasts).__name__}."
        )
    if "origin" in forecasts.dims:
        raise ValueError(
            f"{caller}: expected a forecast from one origin, got {forecasts.sizes['origin']}; choose one by "
            ".isel(origin=0)."
        )
    count = forecasts.sizes["trajectory"]
    if not -count <= trajectory < count:
        raise ValueError(f"{caller}: expected a trajectory below {count}, got {trajectory}.")
    one = forecasts.isel(trajectory=trajectory)
    names = [str(name) for name in one["state"].values]
    later = one["t"].values
    seen = _chosen(caller, read_series(caller, data, t, names), trajectory, len(names))
    missed = _chosen(caller, _read_later(caller, held_out, later, names), trajectory, len(names))
    units = seen.units if seen is not None else {}
    shown = tuple(range(len(names))) if states is None else chosen_states(states, names, caller, len(names))
    new_figure = ax is None
    axes = given_axes(
        new_axes(len(shown), size=(8.0, 2.2), sharex=True) if ax is None else ax, len(shown), caller
    )
    artists: dict[str, list[Artist]] = {"bands": [], "median": [], "data": [], "held out": [], "origin": []}
    for panel, state in zip(axes, shown, strict=True):
        _draw_bands(panel, one.isel(state=state), artists)
        for kind, part, look in (
            ("data", seen, {"marker": "o", "color": style.BLACK}),
            ("held out", missed, {"marker": "s", "color": style.OBSERVED[1]}),
        ):
            if part is not None:
                (times, x), label = part.arrays()[0], "observed" if kind == "data" else "held out"
                marks: style.Look = {"linestyle": "", "markersize": 3.5, "fillstyle": "none", **look}
                artists[kind] += panel.plot(times, x[:, state], **marks, zorder=style.DATA, label=label)
        if seen is not None:
            line: style.Look = {"color": style.GREY, "linewidth": 0.8, "linestyle": ":"}
            last = float(seen.arrays()[0][0].max())
            artists["origin"].append(panel.axvline(last, **line, label="last observation"))
        panel.set_ylabel(with_unit(names[state], units))
    axes[-1].set_xlabel(with_unit("t", units))
    whole_ticks(axes[-1], later if seen is None else seen.t)
    if new_figure:
        add_legend(axes)
    return Drawing(axes, {name: tuple(found) for name, found in artists.items() if found})


def _draw_bands(ax: Axes, one: xr.Dataset, artists: dict[str, list[Artist]]) -> None:
    times, shares = one["t"].values, np.atleast_1d(one["band"].values)
    for place, band in enumerate(np.argsort(-shares)):
        alpha = _FAINT + (_DENSE - _FAINT) * place / max(len(shares) - 1, 1)
        ends = (np.atleast_2d(one[name].transpose("band", "ahead").values)[band] for name in ("low", "high"))
        look: style.Look = {"color": style.BLUE, "alpha": alpha, "linewidth": 0.0, "zorder": style.FLOW}
        artists["bands"].append(ax.fill_between(times, *ends, **look, label=f"{shares[band]:.0%} band"))
    line: style.Look = {"color": style.BLUE, "linewidth": 1.6, "zorder": style.CURVES, "label": "median"}
    artists["median"] += ax.plot(times, one["median"].values, **line)


def _read_later(caller: str, held_out: Any, later: np.ndarray, names: Sequence[str]) -> Trajectories | None:
    """What was held out; arrays have the times of the forecast."""
    if held_out is None or isinstance(held_out, Trajectories):
        return held_out
    several = isinstance(held_out, list | tuple) and bool(np.ndim(held_out[0]))
    sizes = [len(part) for part in held_out] if several else [len(held_out)]
    if set(sizes) != {len(later)}:
        raise ValueError(
            f"{caller}: expected held-out rows at the {len(later)} times of the forecast, got {sizes}; pass "
            "Trajectories, which have their own times."
        )
    return read_series(caller, held_out, later, names)


def _chosen(caller: str, given: Trajectories | None, number: int, dim: int) -> Trajectories | None:
    """One of several trajectories; the only one where there is one."""
    if given is None:
        return None
    if given.dim != dim:
        raise ValueError(f"{caller}: expected observations of {dim} states, got {given.dim}.")
    return given[[0 if len(given) == 1 else number]]
