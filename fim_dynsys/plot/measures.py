"""Records and attractors: delay embeddings, recurrence plots, correlation sums, and how models compare."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from fim_dynsys.analyze.signals.compared import Measures
from fim_dynsys.analyze.signals.dimension import CorrelationDimension
from fim_dynsys.analyze.signals.embedding import Embedding
from fim_dynsys.analyze.signals.recurrence import Recurrence
from fim_dynsys.plot import style
from fim_dynsys.plot.canvas import AxesLike, Drawing, given_axes, new_axes, with_unit
from fim_dynsys.plot.style import Look


def embedding(result: Embedding, ax: AxesLike | None = None) -> Drawing:
    """Mutual information over the delay, false neighbours over the dimension, and the first two coordinates.

    Parameters
    ----------
    result : Embedding
        Of `fim_dynsys.analyze.delay_embedding`.
    ax : sequence of three Axes, optional
        Default a new figure.

    Returns
    -------
    Drawing
        Artists named ``information``, ``delay``, ``false neighbours``, ``dimension`` and ``vectors``.
    """
    left, middle, right = given_axes(new_axes(1, 3, size=(3.6, 3.2)) if ax is None else ax, 3, "embedding")
    lags = result.step * np.arange(len(result.mutual_information))
    information = left.plot(lags, result.mutual_information, color=style.BLUE)
    chosen: Look = {"color": style.VERMILLION, "linestyle": "--", "linewidth": 1.2}
    delay = left.axvline(result.delay * result.step, **chosen)
    left.set(xlabel=with_unit("delay", result.units), ylabel="mutual information [bits]")
    dims = np.arange(1, len(result.false_neighbours) + 1)
    false = middle.plot(dims, 100.0 * result.false_neighbours, "o-", color=style.BLUE, markersize=4)
    dimension = middle.axvline(result.dim, **chosen)
    middle.xaxis.set_major_locator(MaxNLocator(integer=True))
    middle.set(xlabel="coordinates", ylabel="false neighbours [%]")
    pairs = result.vectors[:, :2] if result.vectors.shape[1] > 1 else np.repeat(result.vectors, 2, axis=1)
    vectors = right.plot(*pairs.T, color=style.BLACK, linewidth=0.3)
    name = with_unit(result.state, result.units)
    right.set(xlabel=f"{name} at t", ylabel=f"{name} a delay later", box_aspect=1.0)
    parts = {"information": information, "delay": [delay], "false neighbours": false}
    parts |= {"dimension": [dimension], "vectors": vectors}
    return Drawing((left, middle, right), {key: tuple(found) for key, found in parts.items()})


def recurrence_plot(result: Recurrence, ax: Axes | None = None) -> Drawing:
    """Times at which states recur, dark; parallel stretches show as diagonals, lasting states as blocks.

    Parameters
    ----------
    result : Recurrence
        Of `fim_dynsys.analyze.recurrence`.
    ax : Axes, optional
        Default a new figure.

    Returns
    -------
    Drawing
        Artists named ``recurrences``.
    """
    (ax,) = given_axes(new_axes(size=(4.8, 4.6)) if ax is None else ax, 1, "recurrence_plot")
    ends = (0.0, float(result.t[-1]))
    look: Look = {"cmap": "binary", "origin": "lower", "interpolation": "nearest", "aspect": "equal"}
    image = ax.imshow(result.matrix, extent=(*ends, *ends), **look)
    time = with_unit("t", result.units)
    ax.set(xlabel=time, ylabel=time)
    ax.set_title(f"DET {result.determinism:.2f}, LAM {result.laminarity:.2f}", fontsize="small")
    return Drawing((ax,), {"recurrences": (image,)})


def correlation_sum(result: CorrelationDimension, ax: AxesLike | None = None) -> Drawing:
    """Correlation sum over the radius and its local slope, with the range of the fit and the dimension.

    Parameters
    ----------
    result : CorrelationDimension
        Of `fim_dynsys.analyze.correlation_dimension`.
    ax : sequence of two Axes, optional
        Default a new figure.

    Returns
    -------
    Drawing
        Artists named ``sums``, ``slopes``, ``range`` and ``dimension``.
    """
    panels = new_axes(2, size=(6.0, 2.6), sharex=True) if ax is None else ax
    above, below = given_axes(panels, 2, "correlation_sum")
    known = result.sums > 0
    r, c = result.radii[known], result.sums[known]
    sums = above.plot(r, c, ".-", color=style.BLUE)
    slopes = below.plot(
        np.sqrt(r[1:] * r[:-1]), np.diff(np.log(c)) / np.diff(np.log(r)), ".-", color=style.BLUE
    )
    artists: dict[str, list] = {"sums": sums, "slopes": slopes}
    if result.fitted.any():
        low, high = result.radii[result.fitted][[0, -1]]
        span: Look = {"color": style.TINT, "linewidth": 0.0, "zorder": style.FLOW}
        artists["range"] = [panel.axvspan(low, high, **span) for panel in (above, below)]
        value = f"{result.dimension:.3f} ± {result.error:.2g}"
        artists["dimension"] = [below.axhline(result.dimension, color=style.VERMILLION, linestyle="--")]
        below.set_title(f"dimension {value}", loc="right", fontsize="small")
        below.set_ylim(0.0, 2.0 * max(result.dimension, 0.5))
    above.set(xscale="log", yscale="log", ylabel="pairs closer than r")
    below.set(xscale="log", xlabel="r [standard deviations]", ylabel="slope")
    return Drawing((above, below), {name: tuple(found) for name, found in artists.items()})


def compared(result: Measures, ax: AxesLike | None = None) -> Drawing:
    """Attractors and recurrence plots of the data and of each simulation, side by side.

    Parameters
    ----------
    result : Measures
        Of `fim_dynsys.analyze.measures`.
    ax : sequence of 2 n Axes, optional
        The upper row first; default a new figure.

    Returns
    -------
    Drawing
        Artists named ``attractors`` and ``recurrences``.
    """
    n = len(result.sources)
    axes = given_axes(new_axes(2, n, size=(3.2, 2.9)) if ax is None else ax, 2 * n, "measures")
    artists: dict[str, list] = {"attractors": [], "recurrences": []}
    pair = (0, min(1, len(result.state_names) - 1))
    for above, below, source, records, plot in zip(
        axes[:n], axes[n:], result.sources, result.records, result.recurrences, strict=True
    ):
        above.set_title(source, fontsize="medium")
        if records is None or plot is None:
            for panel in (above, below):
                panel.text(0.5, 0.5, "simulation failed", ha="center", transform=panel.transAxes)
            continue
        for x in records.x:
            across = x[:, pair[1]] if pair[1] else np.append(x[1:, 0], np.nan)
            artists["attractors"] += above.plot(x[:, 0], across, color=style.BLACK, linewidth=0.3)
        names = [with_unit(result.state_names[i], result.units) for i in pair]
        above.set(xlabel=names[0], ylabel=names[1] if pair[1] else f"{names[0]}, next")
        artists["recurrences"] += recurrence_plot(plot, below).artists["recurrences"]
    return Drawing(axes, {name: tuple(found) for name, found in artists.items()})
