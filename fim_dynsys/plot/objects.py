"""What lies in state space: fixed points, nullclines, cycles, manifolds, sections and observations."""

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fim_dynsys.analyze.cycles.periodic import CycleKind, LimitCycles
from fim_dynsys.analyze.cycles.sections import PoincareSection
from fim_dynsys.analyze.equilibria.kinds import Kind
from fim_dynsys.analyze.equilibria.result import FixedPoints
from fim_dynsys.analyze.phase_space.invariant import Manifolds
from fim_dynsys.analyze.phase_space.nullcline import Nullclines
from fim_dynsys.plot import style
from fim_dynsys.plot.canvas import Drawing, pair
from fim_dynsys.plot.space import Space, States
from fim_dynsys.plot.style import Look
from fim_dynsys.trajectories.container import Trajectories

NOT_BACKED = " (unsupported)"
_RUG = 0.03  # height of ticks, as a share of the axes
_NAMED = 3  # cycles of one kind, after which they share a label
_CYCLES: dict[CycleKind, Look] = {
    CycleKind.STABLE: {"linestyle": style.SOLID, "linewidth": 2.4},
    CycleKind.UNSTABLE: {"linestyle": style.DASHED, "linewidth": 2.4},
    CycleKind.SADDLE: {"linestyle": style.DASHED, "linewidth": 1.0},
    CycleKind.CENTRE: {"linestyle": style.SOLID, "linewidth": 1.0},
    CycleKind.DEGENERATE: {"linestyle": ":", "linewidth": 2.4},
}


def fixed_points(result: FixedPoints, ax: Axes | None = None, *, states: States | None = None) -> Drawing:
    """Fixed points: filled where stable, open where unstable, half-filled saddles.

    Squares where the flow turns round them, circles where it does not, a ring with a dot for centres, a
    question mark where the kind is open, small diamonds for slow points. Grey where unsupported.
    """
    space = Space.opened(ax, states, result.state_names, result.units, "fixed_points")
    space.show(result.region)
    backed = np.asarray(result.support) >= style.SUPPORTED
    artists = []
    for kind, firm in sorted(
        {(Kind(k), bool(b)) for k, b in zip(result.kind, backed, strict=True)}, key=_order
    ):
        chosen = (result.kind == kind) & (backed == firm)
        artists += marks(space, result.x[chosen], kind, firm)
    return space.drawing({"fixed points": artists})


def _order(look: tuple[Kind, bool]) -> tuple[int, bool]:
    kind, firm = look
    return list(Kind).index(kind), not firm


def marks(space: Space, points: np.ndarray, kind: Kind, firm: bool) -> list:
    """Marks of fixed points of one kind, the first of them labelled; whole even at the edge of the axes."""
    looks = style.fixed_point(kind.name, style.BLACK if firm else style.GREY)
    # A mark on the frame is drawn whole; one beyond it must not appear at all. Layouts cannot measure artists
    # that are not clipped on three-dimensional axes.
    inside = space.inside(points) & (len(space.states) < 3)
    artists = []
    for chosen, clip in ((inside, False), (~inside, True)):
        if chosen.any():
            where = space.coordinates(points[chosen])
            common: Look = {"linestyle": "", "zorder": style.POINTS, "clip_on": clip}
            artists += [space.ax.plot(*where, **look, **common)[0] for look in looks]
    artists[0].set_label(f"{kind.value}{NOT_BACKED if not firm else ''}")
    return artists


def nullclines(result: Nullclines, ax: Axes | None = None, *, states: States | None = None) -> Drawing:
    """Nullclines: a colour and dash pattern for each state, a line per branch, thin where unsupported."""
    states = result.states if states is None else states
    space = Space.opened(ax, states, result.state_names, result.units, "nullclines")
    if {result.state_names[i] for i in space.states} != set(result.states):
        raise ValueError(
            f"nullclines: expected the states {list(result.states)} of their plane, got "
            f"{[result.state_names[i] for i in space.states]}; find those of another plane by states="
        )
    space.show(result.region)
    artists = []
    parts = zip(result.state_names, result.branches, result.support, strict=True)
    for i, (name, branches, supports) in enumerate(parts):
        look: Look = style.NULLCLINE[i % len(style.NULLCLINE)] | {"zorder": style.NULLCLINES}
        pieces = [p for pair in zip(branches, supports, strict=True) for p in _by_support(*pair)]
        for firm, stretch in sorted(pieces, key=lambda piece: not piece[0]):  # a legend shows the first
            width: Look = {"linewidth": 2.0 if firm else 1.0, "label": f"d{name}/dt = 0"}
            artists += space.ax.plot(*space.coordinates(stretch), **look | width)
    return space.drawing({"nullclines": artists})


def limit_cycles(result: LimitCycles, ax: Axes | None = None, *, states: States | None = None) -> Drawing:
    """Periodic orbits: stable ones solid, others dashed, an arrow along each; grey if partly unsupported.

    Thin are orbits of saddle type, which may be many, and those of families round a centre.
    """
    space = Space.opened(ax, states, result.state_names, result.units, "limit_cycles")
    space.show(result.region)
    artists, arrows = [], []
    backed = np.asarray(result.support) >= style.SUPPORTED
    for k, orbit in enumerate(result.orbits):
        kind = CycleKind(result.kind[k])
        color = style.PURPLE if backed[k] else style.GREY
        alike = (result.kind == kind) & (backed == backed[k])
        name = f"{_cycle_name(kind, result.period[k], result.period[alike])}{'' if backed[k] else NOT_BACKED}"
        look: Look = {"color": color, "zorder": style.CURVES} | _CYCLES[kind]
        artists += space.ax.plot(*space.coordinates(orbit), **look, label=name)
        arrows += arrow(space, orbit, color)
    return space.drawing({"cycles": artists, "cycle arrows": arrows})


def _cycle_name(kind: CycleKind, period: float, periods: np.ndarray) -> str:
    if len(periods) <= _NAMED:
        return f"{kind.value} cycle, T = {period:.4g}"
    return f"{len(periods)} {kind.value} cycles, T = {periods.min():.4g} to {periods.max():.4g}"


def manifolds(result: Manifolds, ax: Axes | None = None, *, states: States | None = None) -> Drawing:
    """Branches of invariant manifolds: stable ones solid, unstable ones dashed, arrows along the flow.

    Grey where unsupported. On axes of its own the fixed points are drawn too.
    """
    space = Space.opened(ax, states, result.state_names, result.units, "manifolds")
    space.show(result.fixed_points.region)
    artists, arrows = [], []
    for branch in result.branches:
        color = style.GREEN if branch.stable else style.BLUE
        line: Look = {"linestyle": style.SOLID if branch.stable else style.DASHED, "zorder": style.CURVES}
        name = f"{'stable' if branch.stable else 'unstable'} manifold"
        path = branch.path
        if len(space.states) == 3:  # three-dimensional axes do not clip
            path = np.where(result.fixed_points.region.contains(path)[:, None], path, np.nan)
        for firm, stretch in _by_support(path, branch.support):
            look: Look = line | {"color": color if firm else style.GREY, "linewidth": 2.0 if firm else 1.0}
            label = f"{name}{'' if firm else NOT_BACKED}"
            artists += space.ax.plot(*space.coordinates(stretch), **look, label=label)
        arrows += arrow(space, branch.path[::-1] if branch.stable else branch.path, color)
    found: dict[str, Sequence[Artist]] = {"manifolds": artists, "manifold arrows": arrows}
    if space.own:
        found |= fixed_points(result.fixed_points, space.ax, states=space.states).artists
    return space.drawing(found)


def _by_support(path: np.ndarray, support: np.ndarray) -> Iterator[tuple[bool, np.ndarray]]:
    """The path where it is supported, and where it is not, the rest of each NaN."""
    backed = support >= style.SUPPORTED
    loose = with_neighbours(~backed)  # neighbouring stretches share a point
    for firm, rows in ((True, backed), (False, loose)):
        if rows.any():
            yield firm, np.where(rows[:, None], path, np.nan)


def with_neighbours(mask: np.ndarray) -> np.ndarray:
    """The mask widened by one on each side, so that two stretches of a line meet."""
    wide = mask.copy()
    wide[1:] |= mask[:-1]
    wide[:-1] |= mask[1:]
    return wide


def arrow(space: Space, path: np.ndarray, color: str) -> list:
    """An arrow head half way along a path, in its direction; none on three-dimensional axes."""
    path = path[space.inside(path)]
    if len(space.states) != 2 or len(path) < 3:
        return []
    middle = len(path) // 2
    back = max(middle - 1 - len(path) // 100, 0)
    tail, head = (pair(space.coordinates(path[i])) for i in (back, middle))
    shape = "-|>,head_width=0.3,head_length=0.6"
    look: Look = {"arrowstyle": shape, "color": color, "mutation_scale": 18, "shrinkA": 0, "shrinkB": 0}
    return [space.ax.annotate("", head, tail, arrowprops=look, zorder=style.CURVES)]


def section(result: PoincareSection, ax: Axes | None = None, *, states: States | None = None) -> Drawing:
    """Points of a Poincare section, in the states that run most along its plane; grey where unsupported."""
    if ax is None and states is None and len(result.state_names) > 2:
        states = np.sort(np.argsort(np.abs(result.normal), stable=True)[:2]).tolist()
    space = Space.opened(ax, states, result.state_names, result.units, "poincare")
    artists = []
    for firm, rows in ((True, result.support >= style.SUPPORTED), (False, result.support < style.SUPPORTED)):
        if rows.any():
            look: Look = {"linestyle": "", "marker": ".", "markersize": 4, "zorder": style.DATA}
            look |= {"color": style.BLUE if firm else style.GREY}
            where = space.coordinates(result.points[rows])
            artists += space.ax.plot(*where, **look, label=f"crossings{'' if firm else NOT_BACKED}")
    return space.drawing({"section": artists})


def paths(trajectories: Trajectories, ax: Axes | None = None, *, states: States | None = None) -> Drawing:
    """Trajectories in state space: dots where observed, lines where simulated; ticks for a single state."""
    if "status" not in trajectories.coords:
        return observations(trajectories, ax, states=states)
    look: Look = {"color": style.VERMILLION, "linewidth": 1.2, "label": "simulated"}
    return _trajectories(trajectories, ax, states, "simulated", look)


def observations(
    trajectories: Trajectories, ax: Axes | None = None, *, states: States | None = None
) -> Drawing:
    """Trajectories in state space as dots, or as ticks for a single state."""
    look: Look = {"color": style.BLACK, "linestyle": "", "marker": ".", "markersize": 3.5, "label": "data"}
    return _trajectories(trajectories, ax, states, "data", look)


def _trajectories(
    trajectories: Trajectories, ax: Axes | None, states: States | None, name: str, look: Look
) -> Drawing:
    space = Space.opened(ax, states, trajectories.state_names, trajectories.units, name)
    if len(space.states) == 1:
        look = look | {"linestyle": "", "marker": "|", "markersize": 12}
        look |= {"transform": space.ax.get_xaxis_transform()}
    artists = []
    for _, x in trajectories.arrays():
        where = space.coordinates(x) if len(space.states) > 1 else (x[:, 0], np.full(len(x), _RUG))
        artists += space.ax.plot(*where, **look, alpha=0.8, zorder=style.DATA)
    return space.drawing({name: artists})
