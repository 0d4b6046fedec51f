"""How fields show themselves in a notebook: facts, equations, and a small picture of the flow."""

from collections.abc import Callable, Mapping, Sequence
from html import escape

import numpy as np

from fim_dynsys.fields.frame import FitInfo, Frame
from fim_dynsys.trajectories.container import Trajectories

_ARROWS = 13  # along each side of a picture
_SIDE = 168  # pixels
_MARGIN = 4  # pixels round the picture
_POINTS = 300  # of one trajectory at most
_BAR = np.array([-0.5, 0.5])  # an arrow from its tail to its head


def facts(frame: Frame, info: FitInfo) -> dict[str, str]:
    """What a field was inferred from and how well it fits, as rows of a table.

    Parameters
    ----------
    frame : Frame
        The field's.
    info : FitInfo
        The field's.

    Returns
    -------
    dict of str to str
    """
    rows = {"states": ", ".join(frame.state_names)}
    if frame.context is not None:
        rows["trajectories"] = str(len(frame.context))
        rows["observations"] = str(int(frame.context.n_obs.sum()))
    if info.path_r2 is not None:
        rows["fit"] = info.summary()
    if info.problems:
        rows["problems"] = "; ".join(info.problems)
    for name, value in info.report.items():
        if isinstance(value, str | bool | int):
            rows[name] = str(value)
        elif isinstance(value, float):
            rows[name] = f"{value:.5g}"
    return rows


def html_block(
    title: str, rows: Mapping[str, str], equations: Sequence[str] = (), picture: str = "", fit: str = ""
) -> str:
    """Equations, fit quality, a picture and a table as HTML; everything but the picture is escaped.

    Parameters
    ----------
    title : str
        Of the table.
    rows : mapping of str to str
        The table; folded where there are equations.
    equations : sequence of str
        A line for each.
    picture : str
        SVG, see `flow_picture`.
    fit : str
        How well the equations fit.

    Returns
    -------
    str
    """
    cells = "".join(
        f"<tr><th style='text-align:left'>{escape(key)}</th><td>{escape(value)}</td></tr>"
        for key, value in rows.items()
    )
    lines = f"<pre style='white-space:pre-wrap'>{escape(chr(10).join(equations))}</pre>" if equations else ""
    quality = f"<p>{escape(fit)}</p>" if fit else ""
    summary = f"<summary>{escape(title)}</summary>"
    folded = f"<details{'' if equations else ' open'}>{summary}<table>{cells}</table></details>"
    return f"{lines}{quality}{picture}{folded}"


def flow_picture(rates: Callable[[np.ndarray], np.ndarray], frame: Frame) -> str:
    """A small SVG: directions of the flow in the plane of the first two states, and the data.

    Other states are at the middle of the box. One state is drawn as its rate against it.

    Parameters
    ----------
    rates : callable
        Of points (n, d).
    frame : Frame
        Of the field.

    Returns
    -------
    str
        Empty where the field has no box, or no finite values in it.
    """
    box = frame.region
    if box is None or not np.isfinite(box.size).all() or not (box.size > 0).all():
        return ""
    middle = box.low / 2 + box.high / 2
    if frame.dim == 1:
        x = np.linspace(box.low, box.high, 60)
        f = rates(x)
        low, high = np.append(box.low, np.nanmin(f)), np.append(box.high, np.nanmax(f))
        if not (np.isfinite(f).all() and high[1] > low[1]):
            return ""
        return _svg([_line(_pixels(np.hstack([x, f]), low, high), 1.4)])
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, _ARROWS + 2)[1:-1]] * 2, indexing="ij"), axis=-1).reshape(
        -1, 2
    )
    points = np.tile(middle, (len(grid), 1))
    points[:, :2] = box.low[:2] + grid * box.size[:2]
    f = rates(points)[:, :2] / box.size[:2]
    length = np.linalg.norm(f, axis=1)
    moving = np.isfinite(length) & (length > 0)
    steps = f[moving] / length[moving, None] * box.size[:2] / (_ARROWS + 1)
    ends = points[moving, None, :2] + _BAR[:, None] * steps[:, None]
    parts = [_line(_pixels(bar, box.low[:2], box.high[:2]), 0.7, 0.55) for bar in ends]
    parts += [_dot(_pixels(bar[1], box.low[:2], box.high[:2])) for bar in ends]
    parts += [_line(_pixels(path, box.low[:2], box.high[:2]), 1.2) for path in _paths(frame.context)]
    return _svg(parts) if moving.any() else ""


def _paths(context: Trajectories | None) -> list[np.ndarray]:
    """The first two states (n, 2) of each trajectory where both were seen, thinned."""
    if context is None:
        return []
    paths = []
    for _, x in context.arrays():
        seen = x[np.isfinite(x[:, :2]).all(axis=1), :2]
        paths.append(seen[:: -(-len(seen) // _POINTS) or 1])
    return [path for path in paths if len(path) > 1]


def _pixels(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    share = (x - low) / (high - low)
    return _MARGIN + (_SIDE - 2 * _MARGIN) * np.stack([share[..., 0], 1 - share[..., 1]], axis=-1)


def _line(points: np.ndarray, width: float, opacity: float = 1.0) -> str:
    text = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    return (
        f'<polyline points="{text}" fill="none" stroke="currentColor" stroke-width="{width}" '
        f'opacity="{opacity}"/>'
    )


def _dot(point: np.ndarray) -> str:
    return f'<circle cx="{point[0]:.1f}" cy="{point[1]:.1f}" r="1.1" fill="currentColor" opacity="0.55"/>'


def _svg(parts: Sequence[str]) -> str:
    return (
        f'<svg width="{_SIDE}" height="{_SIDE}" viewBox="0 0 {_SIDE} {_SIDE}" role="img" '
        f'aria-label="flow and data">{"".join(parts)}</svg>'
    )
