"""A drawing of three states that turns under the mouse: one canvas with its script, without links."""

import json
from collections.abc import Sequence
from html import escape

import numpy as np

from fim_dynsys.analyze.cycles.periodic import CycleKind, LimitCycles
from fim_dynsys.analyze.equilibria.result import FixedPoints
from fim_dynsys.analyze.phase_space.invariant import Manifolds
from fim_dynsys.analyze.results import Result
from fim_dynsys.fields.base import VectorField
from fim_dynsys.regions import Region
from fim_dynsys.simulation.solution import integrate
from fim_dynsys.trajectories.container import Trajectories

_PATHS, _POINTS, _LONGEST = 24, 400, 1500  # simulated paths; points of each; of any line
_MOST_STEPS = 5_000  # of a path that is drawn
_TIMES = 10.0  # of the field's unit of time, for paths of a field without data
_DIGITS = 4  # decimals of a drawn place, in units of the box
_PALE, _BLACK, _PURPLE = "#9a9a9a", "#000000", "#8e3b80"
_GREEN, _BLUE, _RED = "#009e73", "#0072b2", "#d55e00"

_SCRIPT = """
(() => {
const scene = JSON.parse(document.currentScript.previousElementSibling.textContent);
const figure = document.currentScript.parentElement, canvas = figure.querySelector("canvas");
const c = canvas.getContext("2d");
let yaw = -0.9, pitch = 0.45, zoom = 1, held = null;
const corner = (k) => [k & 1, (k >> 1) & 1, (k >> 2) & 1].map((b) => 2 * b - 1);
function project([x, y, z]) {
  const [s, t, u, v] = [Math.sin(yaw), Math.cos(yaw), Math.sin(pitch), Math.cos(pitch)];
  const across = t * x - s * y, deep = s * x + t * y;
  const size = 0.27 * zoom * Math.min(canvas.width, canvas.height);
  return [canvas.width / 2 + size * across, canvas.height / 2 - size * (v * z - u * deep), v * deep + u * z];
}
function line(points, color, width, dash) {
  c.strokeStyle = color; c.lineWidth = width * (window.devicePixelRatio || 1);
  c.setLineDash(dash); c.beginPath();
  let open = false;
  for (const point of points) {
    if (point === null) { open = false; continue; }
    const [x, y] = project(point);
    if (open) c.lineTo(x, y); else c.moveTo(x, y);
    open = true;
  }
  c.stroke(); c.setLineDash([]);
}
function draw() {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * ratio; canvas.height = canvas.clientHeight * ratio;
  c.fillStyle = "#fff"; c.fillRect(0, 0, canvas.width, canvas.height);
  c.font = `${12 * ratio}px sans-serif`;
  for (let k = 0; k < 8; k++)
    for (const b of [1, 2, 4]) if (!(k & b)) line([corner(k), corner(k | b)], "#cccccc", 0.8, []);
  c.fillStyle = "#333";
  scene.names.forEach((name, i) => {
    const ends = [-1, 1].map((end) => { const at = [-1.12, -1.12, -1.12]; at[i] = end; return project(at); });
    const middle = [-1.25, -1.25, -1.25]; middle[i] = 0;
    ends.forEach(([x, y], k) => c.fillText(scene.ends[i][k], x, y));
    const [x, y] = project(middle);
    c.fillText(name, x, y);
  });
  for (const part of scene.parts) if (part.line) line(part.line, part.color, part.width, part.dash);
  for (const part of scene.parts)
    for (const point of part.points || []) {
      const [x, y] = project(point);
      c.beginPath(); c.arc(x, y, part.width * ratio, 0, 7);
      c.strokeStyle = part.color; c.lineWidth = 1.5 * ratio;
      c.fillStyle = part.filled ? part.color : "#fff"; c.fill(); c.stroke();
    }
}
function turn(across, up) {
  yaw += across; pitch = Math.max(-1.57, Math.min(1.57, pitch + up)); draw();
}
canvas.addEventListener("pointerdown", (event) => {
  held = [event.clientX, event.clientY]; canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", (event) => {
  if (!held) return;
  turn((event.clientX - held[0]) / 150, (event.clientY - held[1]) / 150);
  held = [event.clientX, event.clientY];
});
canvas.addEventListener("pointerup", () => { held = null; });
canvas.addEventListener("wheel", (event) => {
  event.preventDefault(); zoom *= Math.exp(-event.deltaY / 800); draw();
}, { passive: false });
const keys = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] };
canvas.addEventListener("keydown", (event) => {
  if (keys[event.key]) { event.preventDefault(); turn(...keys[event.key]); }
});
window.addEventListener("resize", draw);
draw();
})();
"""


def turnable(
    field: VectorField,
    results: Sequence[Result] = (),
    *,
    region: Region,
    data: Trajectories | None = None,
    states: tuple[int, int, int] = (0, 1, 2),
) -> str:
    """HTML of a phase portrait of three states that turns when dragged, or by the arrow keys.

    Parameters
    ----------
    field : VectorField
        Of at least three states.
    results : sequence of Result
        Fixed points, limit cycles and manifolds to draw; others are passed over.
    region : Region
        The box to show.
    data : Trajectories, optional
        Observations; paths start from their first complete samples then, else from points of the region.
    states : (int, int, int)
        The states to show.

    Returns
    -------
    str
        A ``figure`` element with its data and script; needs no network.
    """
    axes = list(states)
    view = _View(region, axes)
    for x in _flown(field, region, data):
        view.line(x, "paths", _PALE, 1.0)
    if data is not None:
        for _, x in data.arrays():
            view.dots(x, "data", _RED, 1.5)
    for result in results:
        if isinstance(result, Manifolds):
            for branch in result.branches:
                look = ("stable manifolds", _GREEN) if branch.stable else ("unstable manifolds", _BLUE)
                view.line(branch.path, *look, 1.5)
        elif isinstance(result, LimitCycles):
            for orbit, kind in zip(result.orbits, result.kind, strict=True):
                dashed = kind != CycleKind.STABLE
                view.line(orbit, "cycles, dashed where not stable", _PURPLE, 2.2, dashed)
        elif isinstance(result, FixedPoints):
            for x, kind in zip(result.x, result.kind, strict=True):
                view.dots(x[None], "fixed points, filled where stable", _BLACK, 4.5, kind.stable is True)
    shown = [field.state_names[i] for i in axes]
    scene = {
        "names": shown,
        "ends": [[f"{end[i]:.3g}" for end in (region.low, region.high)] for i in axes],
        "parts": view.parts,
    }
    legend = ", ".join(
        f'<span style="color:{color}">&#9679;</span> {escape(text)}' for text, color in view.legend.items()
    )
    encoded = json.dumps(scene, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    names = escape(", ".join(shown), quote=True)
    style = "width:100%;height:30rem;touch-action:none;cursor:grab"
    return (
        f'<figure><canvas tabindex="0" role="img" style="{style}" aria-label="Phase portrait of {names}; '
        'drag, or use the arrow keys, to turn it"></canvas>'
        f"<figcaption>{legend}. Drag or use the arrow keys to turn, the wheel to zoom.</figcaption>"
        f'<script type="application/json">{encoded}</script><script>{_SCRIPT}</script></figure>'
    )


class _View:
    """What the script draws: lines and dots in a box from -1 to 1."""

    def __init__(self, region: Region, axes: list[int]) -> None:
        self.region, self.axes = region, axes
        self.parts: list[dict[str, object]] = []
        self.legend: dict[str, str] = {}

    def line(self, x: np.ndarray, text: str, color: str, width: float, dashed: bool = False) -> None:
        """States along a line; it is cut where it leaves the box."""
        x = x[np.unique(np.linspace(0, len(x) - 1, _LONGEST).astype(int))]
        dash = [7, 4] if dashed else []
        self._add({"line": self._placed(x), "width": width, "dash": dash}, text, color)

    def dots(self, x: np.ndarray, text: str, color: str, size: float, filled: bool = True) -> None:
        """Single states; those outside the box are left out."""
        points = [point for point in self._placed(x) if point is not None]
        self._add({"points": points, "width": size, "filled": filled}, text, color)

    def _add(self, part: dict[str, object], text: str, color: str) -> None:
        self.parts.append({**part, "color": color})
        self.legend[text] = color

    def _placed(self, x: np.ndarray) -> list[list[float] | None]:
        place = (2.0 * (x - self.region.low) / self.region.size - 1.0)[:, self.axes]
        inside = (np.abs(place) <= 1.0 + 1e-9).all(axis=1)
        return [
            row if there else None for row, there in zip(place.round(_DIGITS).tolist(), inside, strict=True)
        ]


def _flown(field: VectorField, region: Region, data: Trajectories | None) -> np.ndarray:
    """Paths of the field (n, m, d): from the first complete samples, else from points of the region."""
    starts = np.empty((0, field.dim))
    duration = _TIMES * field.scales.time
    if data is not None:
        first = [x[np.isfinite(x).all(axis=1)][:1] for _, x in data.arrays()]
        starts = np.concatenate([starts, *first])[:_PATHS]
        duration = max(float(t[-1] - t[0]) for t, _ in data.arrays() if len(t)) or duration
    if not len(starts):
        starts = region.sobol(_PATHS)
    return integrate([field], starts, np.linspace(0.0, duration, _POINTS), max_steps=_MOST_STEPS).x
