"""Spectra and maps: eigenvalues, Floquet multipliers, Lyapunov exponents as they converge, returns."""

import numpy as np
from matplotlib.axes import Axes

from fim_dynsys.analyze.cycles.periodic import LimitCycles
from fim_dynsys.analyze.cycles.sections import PoincareSection
from fim_dynsys.analyze.equilibria.result import FixedPoints
from fim_dynsys.analyze.exponents import LyapunovSpectrum
from fim_dynsys.analyze.results import cell, check_result
from fim_dynsys.plot import style
from fim_dynsys.plot.canvas import AxesLike, Drawing, add_legend, given_axes, new_axes, root_figure, with_unit
from fim_dynsys.plot.space import chosen_states
from fim_dynsys.plot.style import Look

# Modulus of a multiplier from which the plane is logarithmic outside the unit circle.
_FARTHEST = 4.0


def spectrum(result: FixedPoints | LimitCycles, ax: Axes | None = None) -> Drawing:
    """Eigenvalues of fixed points with the line Re = 0, or Floquet multipliers with the unit circle.

    Marks are filled where the eigenvalue (or multiplier) is stable and open where it is not; there is one
    shape for each point or orbit; the multiplier along the flow, always 1, is a cross. Where one exceeds 4,
    the axes are linear up to 1 and logarithmic beyond.

    Parameters
    ----------
    result : FixedPoints or LimitCycles
        What to show.
    ax : Axes, optional
        Default a new figure.

    Returns
    -------
    Drawing
        Artists named ``values`` and ``border``, with ``errors`` where eigenvalues have some, and ``trivial``
        for cycles.

    Raises
    ------
    TypeError
        For anything else.

    See Also
    --------
    fim_dynsys.analyze.fixed_points : Eigenvalues.
    fim_dynsys.analyze.limit_cycles : Multipliers.

    Examples
    --------
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze, plot
    >>> box = fim_dynsys.Region([-3, -3], [3, 3])
    >>> vdp = fim_dynsys.SymbolicField(["x1", "mu*(1 - x0**2)*x1 - x0"], {"mu": 1.0}, region=box)
    >>> drawing = plot.spectrum(analyze.fixed_points(vdp))
    >>> len(drawing.axes)
    1
    >>> drawing.close()
    """
    if not isinstance(result, FixedPoints | LimitCycles):
        raise TypeError(f"spectrum: expected FixedPoints or LimitCycles, got {type(result).__name__}.")
    new_figure = ax is None
    (ax,) = given_axes(new_axes() if ax is None else ax, 1, "spectrum")
    artists = _eigenvalues(ax, result) if isinstance(result, FixedPoints) else _multipliers(ax, result)
    ax.axhline(0.0, color=style.PALE, linewidth=0.6, zorder=style.FLOW)
    if new_figure:
        add_legend([ax])
        figure = root_figure(ax)
        if (engine := figure.get_layout_engine()) is not None:
            engine.execute(figure)  # a square box takes more rounds than a drawing gives
    return Drawing((ax,), {name: tuple(found) for name, found in artists.items() if len(found)})


def _eigenvalues(ax: Axes, result: FixedPoints) -> dict:
    values, errors = [], []
    negligible = 1e-9 * result.region.size
    for k, (x, kind, eigenvalues) in enumerate(zip(result.x, result.kind, result.eigenvalues, strict=True)):
        label = f"{kind.value} {cell(np.where(np.abs(x) > negligible, x, 0.0))}"
        values += _marks(ax, k, eigenvalues, eigenvalues.real < 0, label)
        if result.eigenvalue_errors is not None:
            sd = np.where(np.isfinite(result.eigenvalue_errors[k]), result.eigenvalue_errors[k], np.nan)
            bars: Look = {
                "xerr": sd.real,
                "yerr": sd.imag,
                "fmt": "none",
                "ecolor": style.GREY,
                "elinewidth": 1.0,
            }
            errors.append(ax.errorbar(eigenvalues.real, eigenvalues.imag, **bars, zorder=style.DATA))
    border = ax.axvline(0.0, color=style.BLACK, linewidth=1.0, zorder=style.FLOW)
    ax.set(xlabel=r"Re $\lambda$", ylabel=r"Im $\lambda$")
    ax.margins(0.12)
    return {"values": values, "errors": errors, "border": (border,)}


def _multipliers(ax: Axes, result: LimitCycles) -> dict:
    angle = np.linspace(0.0, 2.0 * np.pi, 361)
    border = ax.plot(np.cos(angle), np.sin(angle), color=style.BLACK, linewidth=1.0, zorder=style.FLOW)
    trivial, values, largest = [], [], 1.0
    for k, (period, kind, mu) in enumerate(zip(result.period, result.kind, result.multipliers, strict=True)):
        trivial += ax.plot(mu[0].real, mu[0].imag, "+", color=style.BLACK, markersize=9, zorder=style.TEXT)
        label = f"cycle {k}, {kind.value}, T = {period:.4g}"
        values += _marks(ax, k, mu[1:], np.abs(mu[1:]) < 1.0, label)
        largest = max(largest, np.abs(mu).max())
    if largest > _FARTHEST:
        ax.set(xscale="symlog", yscale="symlog")  # linear up to 1: the circle stays one
        decades = 10.0 ** np.arange(0, np.ceil(np.log10(largest)) + 1, max(1, np.log10(largest) // 3))
        ax.set(xticks=[*-decades, *decades], yticks=[*-decades, *decades])
    reach = 1.2 * largest if largest <= _FARTHEST else 3.0 * largest
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), box_aspect=1.0)
    ax.set(xlabel=r"Re $\mu$", ylabel=r"Im $\mu$")
    return {"values": values, "trivial": trivial, "border": border}


def _marks(ax: Axes, k: int, values: np.ndarray, stable: np.ndarray, label: str) -> list:
    look: Look = {key: style.SERIES[k % len(style.SERIES)][key] for key in ("color", "marker")}
    artists = []
    for chosen, face in ((stable, look["color"]), (~stable, "white")):
        if chosen.any():
            mark: Look = {"linestyle": "", "markersize": 7, "markerfacecolor": face, "zorder": style.POINTS}
            artists += ax.plot(values[chosen].real, values[chosen].imag, **look, **mark)
    artists[0].set_label(label)
    return artists


def lyapunov_convergence(result: LyapunovSpectrum, ax: AxesLike | None = None) -> Drawing:
    """Running estimates of the Lyapunov exponents, one panel for each, with final values and 95 % intervals.

    Parameters
    ----------
    result : LyapunovSpectrum
        Of `fim_dynsys.analyze.lyapunov`.
    ax : sequence of d Axes, optional
        Default a new figure.

    Returns
    -------
    Drawing
        Artists named ``running``, ``values`` and ``bands``, one of each for each exponent.

    See Also
    --------
    fim_dynsys.analyze.lyapunov : The exponents.

    Examples
    --------
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze, plot
    >>> box = fim_dynsys.Region([-1, -1], [1, 1])
    >>> decay = fim_dynsys.SymbolicField(["-x0", "-2*x1"], region=box)
    >>> drawing = plot.lyapunov_convergence(analyze.lyapunov(decay, [0.5, 0.5]))
    >>> len(drawing.artists["values"])
    2
    >>> drawing.close()
    """
    check_result("lyapunov_convergence", "result", result, (LyapunovSpectrum,), "lyapunov")
    d = len(result.exponents)
    panels = new_axes(d, size=(7.0, 2.0), sharex=True) if ax is None else ax
    axes = given_axes(panels, d, "lyapunov_convergence")
    artists: dict[str, list] = {"running": [], "values": [], "bands": []}
    for k, panel in enumerate(axes):
        value, error = result.exponents[k], result.error[k]
        artists["running"] += panel.plot(result.times, result.running[:, k], color=style.BLUE)
        artists["values"].append(panel.axhline(value, color=style.BLACK, linestyle="--"))
        span: Look = {"color": style.SKY, "alpha": 0.35, "linewidth": 0.0, "zorder": style.FLOW}
        artists["bands"].append(panel.axhspan(value - error, value + error, **span))
        panel.set_title(f"{value:.4g} ± {error:.2g}", loc="right", fontsize="small")
        panel.set_ylabel(f"exponent {k + 1}")
    axes[-1].set_xlabel(with_unit("t", result.units))
    return Drawing(axes, {name: tuple(found) for name, found in artists.items()})


def return_map(result: PoincareSection, coordinate: int | str = 0, ax: Axes | None = None) -> Drawing:
    """Each crossing of a section against the one before, in one state, with the diagonal.

    Parameters
    ----------
    result : PoincareSection
        Of `fim_dynsys.analyze.poincare`.
    coordinate : int or str
        The state, by number or name.
    ax : Axes, optional
        Default a new figure.

    Returns
    -------
    Drawing
        Artists named ``returns`` and ``diagonal``.

    See Also
    --------
    fim_dynsys.analyze.poincare : The section.

    Examples
    --------
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze, plot
    >>> box = fim_dynsys.Region([-3, -3], [3, 3])
    >>> vdp = fim_dynsys.SymbolicField(["x1", "mu*(1 - x0**2)*x1 - x0"], {"mu": 1.0}, region=box)
    >>> drawing = plot.return_map(analyze.poincare(vdp, [2.0, 0.0], ("x0", 0.0), n=5))
    >>> len(drawing.axes)
    1
    >>> drawing.close()
    """
    check_result("return_map", "result", result, (PoincareSection,), "poincare")
    (ax,) = given_axes(new_axes(size=(4.6, 4.4)) if ax is None else ax, 1, "return_map")
    (state,) = chosen_states([coordinate], result.state_names, "return_map", 1)
    pairs = result.returns(state)
    returns = ax.plot(*pairs.T, ".", color=style.BLUE, markersize=4, zorder=style.DATA)
    diagonal = ax.axline((0.0, 0.0), slope=1.0, color=style.GREY, linewidth=0.8, zorder=style.FLOW)
    name = with_unit(result.state_names[state], result.units)
    ax.set(xlabel=f"{name}, crossing n", ylabel=f"{name}, crossing n + 1", box_aspect=1.0)
    return Drawing((ax,), {"returns": tuple(returns), "diagonal": (diagonal,)})
