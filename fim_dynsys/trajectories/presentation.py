"""How trajectories show themselves: as text, and as a table in a notebook."""

from collections.abc import Mapping
from html import escape
from typing import NamedTuple

import numpy as np

from fim_dynsys.wording import counted


class Presentation(NamedTuple):
    """Facts printed of trajectories.

    Attributes
    ----------
    t : ndarray (K, L)
        Times, NaN in padding.
    x : ndarray (K, L, d)
        Values, NaN where missing and in padding.
    n_obs : ndarray (K,) of int
        Samples per trajectory.
    state_names : tuple of str
        Names of the states.
    input_names : tuple of str
        Names of the measured inputs.
    units : mapping
        Units by name.
    coords : tuple of str
        Names of the values per trajectory.
    read : str
        How their file was read; empty where they come from no file.
    """

    t: np.ndarray
    x: np.ndarray
    n_obs: np.ndarray
    state_names: tuple[str, ...]
    input_names: tuple[str, ...]
    units: Mapping[str, str]
    coords: tuple[str, ...]
    read: str = ""

    def text(self) -> str:
        """A headline, and a line for each state."""
        rows = [f"{name}{f' [{unit}]' if unit else ''}: {span}" for name, unit, span in self._state_rows()]
        rows += [f"inputs: {', '.join(self.input_names)}"] if self.input_names else []
        rows += [f"per trajectory: {', '.join(self.coords)}"] if self.coords else []
        rows += [self.read] if self.read else []
        return "\n  ".join([f"Trajectories: {self._headline()}", *rows])

    def html(self) -> str:
        """The same as a table, with a curve of each state of the first trajectory."""
        cells = [
            f"<tr><td>{escape(name)}</td><td>{escape(unit)}</td><td>{escape(span)}</td>"
            f"<td>{_sparkline(self.t[0], self.x[0, :, i])}</td></tr>"
            for i, (name, unit, span) in enumerate(self._state_rows())
        ]
        inputs = f"<p>Inputs: {escape(', '.join(self.input_names))}</p>" if self.input_names else ""
        coords = f"<p>Per trajectory: {escape(', '.join(self.coords))}</p>" if self.coords else ""
        coords += f"<p>{escape(self.read)}</p>" if self.read else ""
        return (
            f"<p><b>Trajectories</b>: {escape(self._headline())}</p><table><tr><th>state</th><th>unit</th>"
            f"<th>range</th><th>trajectory 0</th></tr>{''.join(cells)}</table>{inputs}{coords}"
        )

    def _headline(self) -> str:
        low, high = int(self.n_obs.min()), int(self.n_obs.max())
        samples = counted(low, "sample") if low == high else f"{low:,} to {high:,} samples"
        each = " each" if len(self.n_obs) > 1 else ""
        dim = len(self.state_names)
        n_missing = int(self.n_obs.sum()) * dim - int(np.count_nonzero(~np.isnan(self.x)))
        unit = self.units.get("t")
        return (
            f"{counted(len(self.n_obs), 'trajectory', 'trajectories')}, {samples}{each}, dimension {dim}, "
            f"t from {np.nanmin(self.t):g} to {np.nanmax(self.t):g}{f' {unit}' if unit else ''}"
            + (f", {counted(n_missing, 'value')} missing" if n_missing else "")
        )

    def _state_rows(self) -> list[tuple[str, str, str]]:
        """Name, unit and range of each state."""
        rows = []
        for i, name in enumerate(self.state_names):
            seen = self.x[:, :, i][~np.isnan(self.x[:, :, i])]
            span = f"{seen.min():.4g} to {seen.max():.4g}" if seen.size else "never observed"
            rows.append((name, self.units.get(name, ""), span))
        return rows


def _sparkline(t: np.ndarray, x: np.ndarray) -> str:
    """Small SVG curve of at most 200 of the values observed."""
    width, height = 160, 32  # pixels
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
