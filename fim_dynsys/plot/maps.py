"""Maps over a plane of states: two fields side by side and their difference, uncertainty, support."""

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.contour import ContourSet

from fim_dynsys.analyze.results import FieldLike, RegionLike, resolve_region, state_labels, unwrap
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.plot import flow, style
from fim_dynsys.plot.canvas import AxesLike, Drawing, given_axes, label_axes, new_axes
from fim_dynsys.plot.flow import Grid
from fim_dynsys.plot.objects import observations
from fim_dynsys.plot.style import Look
from fim_dynsys.regions import Region

# Edges of the colours: a spread relative to the field's size.
_LEVELS = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0])
_PALETTE = "cividis"  # lightness grows evenly, in grey too


def compare_fields(
    field: FieldLike, reference: FieldLike, *, region: RegionLike | None = None, ax: AxesLike | None = None
) -> Drawing:
    """Two planar fields side by side, and how far apart they are.

    The third panel shows |f - g| relative to the root mean square of the reference's |g| in the region,
    each state's rate measured in its own root mean square, on a logarithmic scale from 1 % to 100 %.

    Parameters
    ----------
    field, reference : VectorField or fitted model
        The field f to judge, and the one g to hold it against.
    region : Region, dict or pairs, optional
        Default the box of the data of ``field``, widened by 10 % on each side.
    ax : sequence of three Axes, optional
        Default a new figure.

    Returns
    -------
    Drawing
        Artists named ``streamlines``, ``arrows``, ``unsupported``, ``difference``.

    Raises
    ------
    ValueError
        For fields that are not planar or differ in dimension.

    See Also
    --------
    uncertainty_map : Spread of one field.

    Examples
    --------
    >>> import fim_dynsys
    >>> from fim_dynsys import plot
    >>> box = fim_dynsys.Region([-3, -3], [3, 3])
    >>> vdp = fim_dynsys.SymbolicField(["x1", "mu*(1 - x0**2)*x1 - x0"], {"mu": 1.0}, region=box)
    >>> drawing = plot.compare_fields(vdp.with_parameters(mu=1.2), vdp, region=box)
    >>> len(drawing.axes)
    3
    >>> drawing.close()
    """
    caller = "compare_fields"
    field, reference = unwrap(field, caller), unwrap(reference, caller)
    _check_planar(field, caller)
    _check_planar(reference, caller)
    region = resolve_region(field, region, caller)
    axes = given_axes(new_axes(1, 3, size=(4.2, 3.8)) if ax is None else ax, 3, caller)
    artists: dict[str, list] = {"streamlines": [], "arrows": [], "unsupported": []}
    for panel, one, title in zip(axes, (field, reference), ("field", "reference"), strict=False):
        parts = flow.stream(panel, one, region, (0, 1), caller)
        artists["streamlines"].append(parts.lines)
        artists["arrows"].append(parts.arrows)
        artists["unsupported"] += flow.veil(panel, *flow.projected_support(one, region, (0, 1)))
        panel.set_title(title)
    grid, points = flow.plane(region, (0, 1))
    size = np.sqrt(np.nanmean(reference(points) ** 2, axis=(0, 1)))
    if not (size > 0).all():
        raise ValueError(f"{caller}: expected a reference that moves every state, got rms rates {size}.")
    distance = np.linalg.norm((field(points) - reference(points)) / size, axis=-1) / np.sqrt(2.0)
    artists["difference"] = [_levels(axes[2], grid, distance, "difference, relative")]
    axes[2].set_title("difference")
    support = flow.projected_support(field, region, (0, 1))
    artists["unsupported"] += flow.veil(axes[2], *support, tint=False)
    return _finished(axes, artists, region, field)


def uncertainty_map(
    field: FieldLike | EnsembleField, *, region: RegionLike | None = None, ax: Axes | None = None
) -> Drawing:
    """How uncertain a planar field is: its standard deviation relative to its speed scale.

    Hatched is what the data do not back; for an ensemble, the data of its members on average.

    Parameters
    ----------
    field : VectorField, fitted model or EnsembleField
        Its ``scale``; for an ensemble the spread of the members' velocities.
    region : Region, dict or pairs, optional
        Default the box of the data widened by 10 % on each side.
    ax : Axes, optional
        Default a new figure.

    Returns
    -------
    Drawing
        Artists named ``uncertainty`` and ``unsupported``.

    Raises
    ------
    ValueError
        For a field that is not planar, or states no standard deviation.

    See Also
    --------
    support_map : Where data are near.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> from fim_dynsys import plot
    >>> t = np.linspace(0, 6, 60)
    >>> noise = 0.01 * np.random.default_rng(0).standard_normal((60, 2))
    >>> x = np.stack([np.cos(t), -np.sin(t)], axis=1) + noise
    >>> model = fim_dynsys.load("fim-ode").fit(x, t)
    >>> drawing = plot.uncertainty_map(model, region=fim_dynsys.Region([-2, -2], [2, 2]))
    >>> len(drawing.axes)
    1
    >>> drawing.close()
    """
    caller = "uncertainty_map"
    members = list(field) if isinstance(field, EnsembleField) else [unwrap(field, caller)]
    first = members[0]
    _check_planar(first, caller)
    boxes = [resolve_region(member, region, caller) for member in members]
    region = reduce(Region.union, boxes)
    grid, points = flow.plane(region, (0, 1))
    sd = _spread(field, points) if isinstance(field, EnsembleField) else first.scale(points)
    if sd is None:
        raise ValueError(
            f"{caller}: expected a field with a standard deviation, got {first!r}, which states none; pass "
            "model.ensemble(n), or see support_map."
        )
    axes = given_axes(new_axes(size=(5.6, 4.4)) if ax is None else ax, 1, caller)
    relative = np.linalg.norm(sd / first.scales.speed, axis=-1) / np.sqrt(2.0)
    artists = {"uncertainty": [_levels(axes[0], grid, relative, "standard deviation of f, relative")]}
    supports = [flow.projected_support(member, region, (0, 1)) for member in members]
    mean = np.mean([support for _, support in supports], axis=0)
    artists["unsupported"] = flow.veil(axes[0], supports[0][0], mean, tint=False)
    return _finished(axes, artists, region, first)


def support_map(field: FieldLike, *, region: RegionLike | None = None, ax: Axes | None = None) -> Drawing:
    """The support of a planar field, with the edge at 0.5, and the data.

    Parameters
    ----------
    field : VectorField or fitted model
        The field.
    region : Region, dict or pairs, optional
        Default the box of the data widened by 10 % on each side.
    ax : Axes, optional
        Default a new figure.

    Returns
    -------
    Drawing
        Artists named ``support``, ``unsupported`` and ``data``.

    Raises
    ------
    ValueError
        For a field that is not planar.

    See Also
    --------
    uncertainty_map : Spread instead of distance.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> from fim_dynsys import plot
    >>> t = np.linspace(0, 6, 60)
    >>> model = fim_dynsys.load("sindy-strong").fit(np.stack([np.cos(t), -np.sin(t)], axis=1), t)
    >>> drawing = plot.support_map(model, region=fim_dynsys.Region([-2, -2], [2, 2]))
    >>> len(drawing.axes)
    1
    >>> drawing.close()
    """
    caller = "support_map"
    field = unwrap(field, caller)
    _check_planar(field, caller)
    region = resolve_region(field, region, caller)
    axes = given_axes(new_axes(size=(5.6, 4.4)) if ax is None else ax, 1, caller)
    (ax,) = axes
    grid, support = flow.projected_support(field, region, (0, 1))
    image = ax.contourf(*grid, support, levels=np.linspace(0.0, 1.0, 11), cmap=_PALETTE, zorder=style.FLOW)
    ax.figure.colorbar(image, ax=ax, label="support")
    artists = {"support": [image], "unsupported": flow.veil(ax, grid, support, tint=False)}
    if field.context is not None:
        artists["data"] = [*observations(field.context, ax).artists["data"]]
    return _finished(axes, artists, region, field)


def _check_planar(field: VectorField, caller: str) -> None:
    if field.dim != 2:
        raise ValueError(f"{caller}: expected a field of two states, got {field.dim} ({field!r}).")


def _spread(ensemble: EnsembleField, points: np.ndarray) -> np.ndarray:
    """Weighted standard deviation of the members' velocities at points ``(n, n, 2)``."""
    velocity = np.stack([member(points) for member in ensemble])
    weights = ensemble.weights[:, None, None, None]
    mean = np.sum(weights * velocity, axis=0)
    return np.sqrt(np.sum(weights * (velocity - mean) ** 2, axis=0))


def _levels(ax: Axes, grid: Grid, values: np.ndarray, label: str) -> ContourSet:
    """Filled contours on a logarithmic scale of fixed levels, so that pictures compare."""
    from matplotlib.colors import BoundaryNorm

    norm = BoundaryNorm(_LEVELS, 256, extend="both")
    floor = np.maximum(values, _LEVELS[0] / 10)
    look: Look = {"norm": norm, "cmap": _PALETTE, "zorder": style.FLOW}
    image = ax.contourf(*grid, floor, levels=_LEVELS, extend="both", **look)
    bar = ax.figure.colorbar(image, ax=ax, label=label, ticks=_LEVELS)
    bar.ax.set_yticklabels([f"{level:.0%}" for level in _LEVELS])
    return image


def _finished(
    axes: tuple[Axes, ...], artists: Mapping[str, Sequence[Artist]], region: Region, field: VectorField
) -> Drawing:
    names, units = state_labels(field)
    for panel in axes:
        panel.set(xlim=(region.low[0], region.high[0]), ylim=(region.low[1], region.high[1]))
        label_axes(panel, names, units)
    return Drawing(axes, {name: tuple(found) for name, found in artists.items() if len(found)})
