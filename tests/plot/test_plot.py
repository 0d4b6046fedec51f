"""Pictures: what is drawn where, in which style, on which axes; nothing global changes."""

import dataclasses
import pkgutil
import warnings

import matplotlib
import numpy as np
import pytest
import xarray as xr
from matplotlib import colors
from matplotlib.figure import Figure

import fim_dynsys
from fim_dynsys import CallableField, FieldPlane, Region, Trajectories, analyze, plot, systems
from fim_dynsys.analyze.cycles.periodic import CycleKind
from fim_dynsys.analyze.equilibria.kinds import Kind
from fim_dynsys.analyze.results import Result
from fim_dynsys.analyze.tracing.branches import BifurcationKind
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.family import FieldFamily
from fim_dynsys.plot import flow, style
from fim_dynsys.plot.maps import _spread
from fim_dynsys.plot.objects import paths


@pytest.fixture(autouse=True)
def agg():
    """No window; every figure a test leaves open is closed after it."""
    backend = matplotlib.get_backend()
    matplotlib.use("Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")
    matplotlib.use(backend)


class Half(CallableField):
    """The field x' = -x, y' = -2 y, which data back where x > 0 only."""

    def __init__(self):
        box = Region({"x": (-1, 1), "y": (-1, 1)})
        super().__init__(lambda x: x * [-1.0, -2.0], 2, region=box, state_names=box.names)

    def _support(self, x):
        return np.where(x[:, 0] > 0, 1.0, 0.1)


def axes(n=1):
    """Axes of a figure that pyplot knows nothing of."""
    figure = Figure(figsize=(4 * n, 3))
    return figure.subplots(1, n) if n > 1 else figure.subplots()


def system_field(name):
    return systems.get(name).field()


@pytest.fixture(scope="module")
def competition():
    return analyze.fixed_points(system_field("competition"))


@pytest.fixture(scope="module")
def cycle():
    return analyze.limit_cycles(system_field("van_der_pol"), n_seeds=8)


@pytest.fixture(scope="module")
def observed():
    t = np.linspace(0.0, 4.0, 60)
    x = [a * np.stack([np.cos(t), -np.sin(t)], axis=-1) for a in (1.0, 0.5)]
    return Trajectories.from_arrays(x, t, state_names=("x", "v"), units={"x": "m", "t": "s"})


@pytest.fixture(scope="module")
def rotation(observed):
    return CallableField(lambda x: x @ [[0.0, -1.0], [1.0, 0.0]], 2, context=observed)


# ---------------------------------------------------------------------- what every plot keeps to


def test_every_result_has_a_drawing():
    kinds = [getattr(analyze, name) for name in analyze.__all__]
    kinds = [k for k in kinds if isinstance(k, type) and issubclass(k, Result) and k is not Result]
    assert len(kinds) == 25
    for kind in kinds:
        assert callable(pkgutil.resolve_name(kind.drawn_by))


def test_nothing_global_changes(competition, rotation):
    import matplotlib.pyplot as plt

    settings, figures = dict(matplotlib.rcParams), plt.get_fignums()
    ax = axes()
    drawings = [
        plot.phase_portrait(rotation, ax=ax),
        competition.plot(ax),
        plot.spectrum(competition, axes()),
        plot.support_map(rotation, ax=axes()),
    ]
    assert plt.get_fignums() == figures
    assert all(drawing.ax.get_legend() is None for drawing in drawings)
    own = competition.plot()
    assert plt.get_fignums() == [*figures, own.figure.number]
    assert dict(matplotlib.rcParams) == settings
    own.close()
    assert plt.get_fignums() == figures


def test_own_figures_have_labels_and_a_legend_beside_the_axes(competition):
    drawing = competition.plot()
    (legend,) = drawing.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["stable node", "unstable node", "saddle"]
    drawing.figure.draw_without_rendering()
    assert legend.get_window_extent().x0 > drawing.ax.get_window_extent().x1
    assert (drawing.ax.get_xlabel(), drawing.ax.get_ylabel()) == ("x", "y")
    assert drawing.png(dpi=40).startswith(b"\x89PNG")
    assert repr(drawing) == "Drawing(1 axes: 3 fixed points)"


def test_what_cannot_be_drawn_is_refused(competition):
    with pytest.raises(TypeError, match=r"draw: expected Trajectories or a result .*drawn_by.*, got int"):
        plot.draw(3)
    with pytest.raises(ValueError, match="fixed_points: expected 1 axes, got 2"):
        competition.plot(axes(2))
    with pytest.raises(ValueError, match=r"among \['x', 'y'\], got \['z'\]"):
        competition.plot(states=["z"])
    with pytest.raises(ValueError, match=r"different states .* got \['x', 'x'\]"):
        competition.plot(states=["x", "x"])
    with pytest.raises(ValueError, match="expected three states on these axes"):
        competition.plot(Figure().add_subplot(projection="3d"))


# ---------------------------------------------------------------------- fixed points


def test_fixed_points_lie_where_they_were_found(competition):
    drawing = competition.plot(axes())
    drawn = np.concatenate([mark.get_xydata() for mark in drawing.artists["fixed points"]])
    assert sorted(map(tuple, drawn)) == sorted(map(tuple, competition.x))
    by_label = {mark.get_label(): mark for mark in drawing.artists["fixed points"]}
    assert by_label["saddle"].get_xydata().tolist() == pytest.approx(np.array([[1.0, 1.0]]), abs=1e-9)
    swapped = competition.plot(axes(), states=("y", "x"))
    drawn = np.concatenate([mark.get_xydata() for mark in swapped.artists["fixed points"]])
    assert sorted(map(tuple, drawn[:, ::-1])) == sorted(map(tuple, competition.x))


def _look(mark):
    """What is left of a mark in grey: shape, filling, lightness of both halves, size."""
    light = [round(np.dot(colors.to_rgb(c), (0.3, 0.6, 0.1)), 2) for c in (mark.get_markerfacecolor(),)]
    return (str(mark.get_marker()), mark.get_fillstyle(), *light, mark.get_markersize())


def test_kinds_differ_without_colour(competition):
    looks = set()
    for kind in Kind:
        one = _only(competition, kind)
        looks.add(tuple(_look(mark) for mark in one.plot(axes()).artists["fixed points"]))
    assert len(looks) == len(Kind)


def _only(points, kind, support=1.0):
    kinds = np.array([kind], dtype=object)
    return dataclasses.replace(points, x=points.x[:1], kind=kinds, support=np.array([support]))


@pytest.mark.parametrize(
    ("kind", "marker", "fillstyle", "face"),
    [
        (Kind.STABLE_NODE, "o", "full", "black"),
        (Kind.STABLE_FOCUS, "s", "full", "black"),
        (Kind.UNSTABLE_NODE, "o", "full", "white"),
        (Kind.UNSTABLE_FOCUS, "s", "full", "white"),
        (Kind.SADDLE, "o", "left", "black"),
        (Kind.SADDLE_FOCUS, "s", "left", "black"),
    ],
)
def test_filled_open_half_filled(competition, kind, marker, fillstyle, face):
    (mark,) = _only(competition, kind).plot(axes()).artists["fixed points"]
    assert (mark.get_marker(), mark.get_fillstyle()) == (marker, fillstyle)
    assert colors.same_color(mark.get_markerfacecolor(), face)
    (loose,) = _only(competition, kind, support=0.49).plot(axes()).artists["fixed points"]
    assert colors.same_color(loose.get_markeredgecolor(), style.GREY)
    assert loose.get_label() == f"{kind.value} (unsupported)"


def test_points_outside_the_axes_are_clipped_and_those_on_the_frame_whole(competition):
    ax = axes()
    ax.set(xlim=(0.0, 2.0), ylim=(0.0, 2.0))
    marks = competition.plot(ax).artists["fixed points"]
    whole = np.concatenate([m.get_xydata() for m in marks if not m.get_clip_on()])
    clipped = np.concatenate([m.get_xydata() for m in marks if m.get_clip_on()])
    assert sorted(np.round(whole, 9).tolist()) == [[0, 0], [0, 2], [1, 1]]
    assert np.round(clipped, 9).tolist() == [[3, 0]]


# ---------------------------------------------------------------------- portraits


def test_streamlines_follow_the_field(rotation):
    drawing = plot.phase_portrait(rotation, region=[(-1, 1), (-1, 1)], ax=axes(), data=False)
    (lines,) = drawing.artists["streamlines"]
    pieces = np.array(lines.get_segments())
    step, middle = pieces[:, 1] - pieces[:, 0], pieces.mean(axis=1)
    velocity = rotation(middle)
    across = np.abs(step[:, 0] * velocity[:, 1] - step[:, 1] * velocity[:, 0])
    along = np.vecdot(step, velocity)
    assert along.min() >= 0.0
    assert across.sum() / along.sum() < 0.01
    assert drawing.ax.get_xlim() == (-1.0, 1.0)
    faster = np.linalg.norm(velocity, axis=1)
    assert np.corrcoef(lines.get_linewidths(), faster)[0, 1] > 0.8


def test_streamlines_avoid_what_is_not_finite():
    field = CallableField(lambda x: np.where(x[:, :1] > 0.1, x, np.nan), 2, region=Region([(-1, 1), (-1, 1)]))
    (lines,) = plot.phase_portrait(field, ax=axes()).artists["streamlines"]
    assert np.array(lines.get_segments())[..., 0].min() > 0.1 - 2 / 40
    nowhere = CallableField(lambda x: np.full_like(x, np.nan), 2, region=Region([(-1, 1), (-1, 1)]))
    with pytest.raises(ValueError, match="phase_portrait: expected a field that is finite somewhere"):
        plot.phase_portrait(nowhere, ax=axes())


def _area(contours):
    """Area enclosed by filled contours."""
    total = 0.0
    for path in contours.get_paths():
        for x, y in (polygon.T for polygon in path.to_polygons()):
            total += 0.5 * np.sum(x[:-1] * y[1:] - x[1:] * y[:-1])
    return abs(total)


def test_what_data_do_not_back_is_hatched():
    drawing = plot.phase_portrait(Half(), ax=axes())
    hatch = drawing.artists["unsupported"][0]
    assert hatch.hatches == ["//"]
    assert _area(hatch) == pytest.approx(2.0, abs=0.03)  # half of 2 x 2, up to a cell of the grid
    assert np.concatenate([p.vertices for p in hatch.get_paths()])[:, 0].max() < 2 / 100
    assert "unsupported by data" in drawing.ax.get_legend_handles_labels()[1]
    everywhere = plot.phase_portrait(system_field("van_der_pol"), ax=axes())
    assert "unsupported" not in everywhere.artists


def test_portrait_of_swapped_states(rotation, observed):
    drawing = plot.phase_portrait(rotation, ax=axes(), states=("v", "x"))
    assert (drawing.ax.get_xlabel(), drawing.ax.get_ylabel()) == ("v", "x [m]")
    first = drawing.artists["data"][0].get_xydata()
    assert np.array_equal(first, observed.x[0][:, ::-1])
    pieces = np.array(drawing.artists["streamlines"][0].get_segments())
    middle, step = pieces.mean(axis=1), pieces[:, 1] - pieces[:, 0]
    turning = middle[:, 0] * step[:, 1] - middle[:, 1] * step[:, 0]
    assert turning.min() >= -1e-12  # clockwise, seen in a mirror
    assert turning.sum() > 0


def test_portrait_of_a_model_on_its_data(observed):
    model = fim_dynsys.load("sindy").fit(observed)
    drawing = plot.phase_portrait(model, ax=axes())
    assert drawing.ax.get_xlim() == pytest.approx((-1.2, 1.2), abs=0.02)
    assert sum(len(dots.get_xdata()) for dots in drawing.artists["data"]) == 120
    simulated = fim_dynsys.simulate(model.field_, [1.0, 0.0], np.linspace(0.0, 1.0, 9))
    line = plot.phase_portrait(model, simulated, ax=axes()).artists["simulated"][0]
    assert (line.get_linestyle(), len(line.get_xdata())) == ("-", 9)


def test_portrait_of_one_state():
    field = CallableField(lambda x: x * (1.0 - x**2), 1, region=Region([(-2, 2)]), state_names=("u",))
    drawing = plot.phase_portrait(field, analyze.fixed_points(field), ax=axes())
    (curve,) = drawing.artists["curve"]
    x, f = curve.get_data()
    assert np.abs(f - x * (1.0 - x**2)).max() == 0.0
    for arrows in drawing.artists["arrows"]:
        there = field(arrows.get_xdata()[:, None])[:, 0]
        assert ((there > 0) == (arrows.get_marker() == ">")).all()
    marks = {
        mark.get_label(): mark.get_xydata().round(9).tolist() for mark in drawing.artists["fixed points"]
    }
    assert marks == {"stable node": [[-1, 0], [1, 0]], "unstable node": [[0, 0]]}
    assert drawing.ax.get_ylabel() == "du/dt"


def test_unsupported_stretches_and_spread_of_one_state():
    class Uncertain(CallableField):
        def scale(self, x):
            return np.full(np.shape(x), 0.25)

        def _support(self, x):
            return np.where(x[:, 0] < 1.0, 1.0, 0.0)

    drawing = plot.phase_portrait(Uncertain(lambda x: -x, 1, region=Region([(0, 2)])), ax=axes())
    (span,) = drawing.artists["unsupported"]
    assert span.get_hatch() == "//"
    assert span.get_paths()[0].vertices[:, 0].min() == pytest.approx(1.0, abs=2 / 400)
    (band,) = drawing.artists["band"]
    heights = band.get_paths()[0].vertices
    assert np.ptp(heights[np.abs(heights[:, 0] - 1.0) < 1e-9][:, 1]) == pytest.approx(0.5)


def test_portrait_of_three_states_shows_each_pair():
    field = system_field("lorenz")
    points = analyze.fixed_points(field)
    drawing = plot.phase_portrait(field, points, ax=axes(3))
    pairs = [(ax.get_xlabel(), ax.get_ylabel()) for ax in drawing.axes]
    assert pairs == [("x", "y"), ("x", "z"), ("y", "z")]
    for ax, columns in zip(drawing.axes, ((0, 1), (0, 2), (1, 2)), strict=True):
        marks = [m.get_xydata() for m in drawing.artists["fixed points"] if m.axes is ax]
        assert sorted(map(tuple, np.concatenate(marks))) == sorted(map(tuple, points.x[:, columns]))
    ends = np.concatenate(
        [np.array(part.get_segments()).reshape(-1, 2) for part in drawing.artists["paths"][:1]]
    )
    assert np.abs(ends[:, 0]).max() <= 25.0
    one = plot.phase_portrait(field, ax=axes(), states=("z", "x"))
    assert (one.ax.get_xlabel(), one.ax.get_xlim()) == ("z", (-1.0, 55.0))
    space = Figure().add_subplot(projection="3d")
    assert plot.phase_portrait(field, points, ax=space).ax.get_zlabel() == "z"
    with pytest.raises(ValueError, match="expected at least two states"):
        plot.phase_portrait(field, ax=axes(), states=["x"])


def test_projected_support_is_the_largest_behind():
    t = np.linspace(0.0, 2 * np.pi, 200)
    ring = Trajectories.from_arrays(np.stack([np.cos(t), np.sin(t), 0.5 * t], axis=-1), t)
    field = CallableField(lambda x: -x, 3, context=ring)
    region = ring.box().widened(0.5)
    (x, y), support = flow.projected_support(field, region, (0, 1))
    # Behind each point of the grid, a hundred heights.
    heights = np.linspace(region.low[2], region.high[2], 400)
    for i, j in ((50, 75), (50, 88), (20, 20), (75, 50)):
        column = np.stack([np.full(400, x[j]), np.full(400, y[i]), heights], axis=-1)
        assert support[i, j] == pytest.approx(field.support(column).max(), abs=0.05)


# ---------------------------------------------------------------------- cycles and manifolds


def test_nullclines_are_drawn_branch_by_branch():
    field = system_field("competition")
    found = analyze.nullclines(field)
    drawing = found.plot(axes())
    lines = drawing.artists["nullclines"]
    assert [line.get_label() for line in lines] == ["dx/dt = 0"] * 2 + ["dy/dt = 0"] * 2
    for line in lines:
        state = "xy".index(line.get_label()[1])
        points = line.get_xydata()
        assert np.abs(field(points)[:, state]).max() < 1e-6
        assert np.linalg.norm(np.diff(points, axis=0), axis=1).max() < 0.5  # nothing joins two branches
    styles = [line.get_linestyle() for line in lines]
    assert styles[0] == styles[1] != styles[2] == styles[3]
    halves = [[np.where(np.arange(len(s)) < 9, 0.0, s) for s in supports] for supports in found.support]
    thin = dataclasses.replace(found, support=halves).plot(axes()).artists["nullclines"]
    assert [line.get_linewidth() for line in thin] == [2.0, 2.0, 1.0, 1.0] * 2


def test_nullclines_belong_to_their_plane():
    found = analyze.nullclines(system_field("lorenz"), states=("x", "y"), at=[0.0, 0.0, 27.0])
    assert found.plot(axes()).artists["nullclines"][0].get_label() == "dx/dt = 0"
    with pytest.raises(ValueError, match=r"of their plane, got .*z"):
        found.plot(axes(), states=("x", "z"))


def test_cycles_are_closed_and_dashed_where_unstable(cycle):
    drawing = cycle.plot(axes())
    (line,) = drawing.artists["cycles"]
    assert np.abs(line.get_xydata()[0] - line.get_xydata()[-1]).max() < 1e-9
    assert line.get_xdata().max() == pytest.approx(
        2.0086, abs=1e-3
    )  # amplitude of Van der Pol's cycle, mu = 1
    assert (line.get_linestyle(), line.get_label()) == ("-", "stable cycle, T = 6.663")
    repelling = dataclasses.replace(
        cycle, kind=np.array([CycleKind.UNSTABLE], dtype=object), support=np.array([0.2])
    )
    (line,) = repelling.plot(axes()).artists["cycles"]
    assert line.is_dashed()
    assert colors.same_color(line.get_color(), style.GREY)
    assert line.get_label() == "unstable cycle, T = 6.663 (unsupported)"


def test_many_cycles_share_a_label(cycle):
    n = 5
    many = dataclasses.replace(
        cycle,
        orbits=cycle.orbits * n,
        period=np.arange(1.0, n + 1),
        kind=np.array([CycleKind.SADDLE] * n, dtype=object),
        support=np.ones(n),
    )
    labels = {line.get_label() for line in many.plot(axes()).artists["cycles"]}
    assert labels == {"5 saddle cycles, T = 1 to 5"}


def test_manifolds_solid_and_dashed_with_arrows_along_the_flow():
    field = system_field("toggle_switch")
    found = analyze.manifolds(field)
    drawing = found.plot(axes())
    lines, arrows = drawing.artists["manifolds"], drawing.artists["manifold arrows"]
    assert len(lines) == len(found.branches) == len(arrows) == 4
    for branch, line, arrow in zip(found.branches, lines, arrows, strict=True):
        assert line.is_dashed() is not branch.stable
        direction = np.subtract(arrow.xy, arrow.xyann)
        assert np.dot(direction, field(np.array(arrow.xy))) > 0


def test_manifolds_are_grey_where_not_backed():
    found = analyze.manifolds(system_field("toggle_switch"))
    branch = dataclasses.replace(
        found.branches[0], support=np.linspace(1.0, 0.0, len(found.branches[0].path))
    )
    firm, loose = dataclasses.replace(found, branches=(branch,)).plot(axes()).artists["manifolds"]
    assert colors.same_color(loose.get_color(), style.GREY)
    assert np.isfinite(firm.get_xdata()).sum() == pytest.approx(len(branch.path) / 2, abs=1)
    last = np.flatnonzero(np.isfinite(firm.get_xdata()))[-1]
    assert firm.get_xydata()[last].tolist() == loose.get_xydata()[last].tolist()  # no gap between both


def test_sections_and_returns():
    field = CallableField(lambda x: x @ [[0.0, -1.0], [1.0, 0.0]], 2, region=Region([(-2, 2), (-2, 2)]))
    section = analyze.poincare(field, [[1.0, 0.0], [0.5, 0.0]], (1, 0.0), n=4)
    (dots,) = section.plot(axes()).artists["section"]
    assert np.abs(np.abs(dots.get_xdata()).reshape(2, 4) - [[1.0], [0.5]]).max() < 1e-6
    drawing = plot.return_map(section, ax=axes())
    pairs = drawing.artists["returns"][0].get_xydata()
    assert pairs.shape == (6, 2)
    assert np.abs(pairs[:, 0] - pairs[:, 1]).max() < 1e-6


# ---------------------------------------------------------------------- diagrams and spectra


@pytest.fixture(scope="module")
def hopf():
    def rhs(x, mu):
        r = (x**2).sum(axis=1, keepdims=True)
        return mu * x + np.stack([-x[:, 1], x[:, 0]], axis=-1) - r * x

    family = FieldFamily.from_callable(rhs, 2, "mu", region=[(-2, 2), (-2, 2)])
    return analyze.continuation(family, [0.0, 0.0], (-0.5, 0.5))


def test_bifurcation_diagram(hopf):
    drawing = hopf.plot(axes())
    stable, unstable = drawing.artists["equilibria"]
    assert (stable.get_linestyle(), unstable.is_dashed()) == ("-", True)
    assert stable.get_xdata().max() == unstable.get_xdata().min() == pytest.approx(0.0, abs=1e-9)
    low, high = drawing.artists["cycles"]
    for line, sign in ((low, -1.0), (high, 1.0)):
        assert np.abs(line.get_ydata() - sign * np.sqrt(line.get_xdata().clip(0.0))).max() < 1e-2
        assert colors.same_color(line.get_markerfacecolor(), style.BLUE)  # filled: stable
    (label,), (mark,) = drawing.artists["labels"], drawing.artists["bifurcations"]
    assert (label.get_text(), label.xy[0]) == ("HB", pytest.approx(0.0, abs=1e-8))
    assert mark.get_xdata()[0] == label.xy[0]
    assert (drawing.ax.get_xlabel(), drawing.ax.get_xlim()) == ("mu", (-0.5, 0.5))
    assert hopf.plot(axes(), state="x1").ax.get_ylabel() == "x1"


def test_bifurcations_have_marks_of_their_own(hopf):
    kinds = [BifurcationKind.HOPF, BifurcationKind.CYCLE_FOLD, BifurcationKind.PERIOD_DOUBLING]
    kinds += [BifurcationKind.BRANCH_POINT, BifurcationKind.FOLD, BifurcationKind.NEIMARK_SACKER]
    (event,) = hopf.bifurcations
    events = tuple(dataclasses.replace(event, kind=kind) for kind in kinds)
    branch = dataclasses.replace(hopf.equilibria[0], bifurcations=events)
    drawing = dataclasses.replace(hopf, branches=(branch,)).plot()
    marks = drawing.artists["bifurcations"]
    assert len({mark.get_marker() for mark in marks}) == len(marks) == len(kinds)
    named = set(drawing.ax.get_legend_handles_labels()[1])
    assert {"HB Hopf", "LPC fold of cycles", "PD period doubling", "BP branch point"} <= named


def test_what_data_do_not_back_is_grey_in_diagrams(hopf):
    branch = hopf.equilibria[0]
    loose = dataclasses.replace(branch, support=np.where(branch.p < 0.25, 1.0, 0.0))
    drawing = dataclasses.replace(hopf, branches=(loose,)).plot(axes())
    looks = [(line.is_dashed(), line.get_color()) for line in drawing.artists["equilibria"]]
    assert looks == [(False, style.BLACK), (True, style.BLACK), (True, style.GREY)]


def test_labels_keep_clear_of_each_other_and_of_curves():
    family = FieldFamily.from_callable(lambda x, h: h + x - x**3, 1, "h", region=[(-2, 2)])
    drawing = analyze.continuation(family, [-1.5], (-1.0, 1.0)).plot()
    drawing.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in drawing.artists["labels"]]
    assert len(boxes) == 2
    for box in boxes:
        curves = np.concatenate([line.get_xydata() for line in drawing.artists["equilibria"]])
        assert not box.count_contains(drawing.ax.transData.transform(curves))


@pytest.fixture(scope="module")
def measured():
    """x' = h - x^2 observed at eight values of h: a fold at 0."""
    t, values = np.linspace(0.0, 1.0, 30), np.linspace(-0.2, 1.2, 8)
    paths = []
    for h in values:
        field = CallableField(lambda x, h=h: h - x**2, 1)
        paths += list(fim_dynsys.simulate(field, [[1.5], [-0.6]], t).x)
    rng = np.random.default_rng(0)
    noisy = [x + 1e-3 * rng.standard_normal(x.shape) for x in paths]
    data = Trajectories.from_arrays(noisy, t, state_names=["x"], coords={"h": np.repeat(values, 2)})
    return analyze.bifurcations_from_data(fim_dynsys.load("sindy"), data, "h", n_draws=10)


def test_diagram_of_data(measured):
    drawing = measured.plot(axes())
    (event,) = measured.bifurcations
    (bar,) = drawing.artists["intervals"]
    ((low, high),) = bar[2][0].get_segments()
    assert (low[0], high[0]) == pytest.approx(event.interval)
    assert low[1] == high[1] == event.x[0]
    assert drawing.artists["labels"][0].get_text() == f"LP {event.share:.0%}"
    assert drawing.artists["values"][0].get_xdata().tolist() == measured.values.tolist()
    found = np.concatenate([mark.get_xydata() for mark in drawing.artists["found"]])
    tracked = np.concatenate([np.column_stack([track.p, track.x[:, 0]]) for track in measured.tracks])
    assert sorted(map(tuple, found)) == sorted(map(tuple, tracked))
    for mark in drawing.artists["found"]:  # of x' = h - x^2 the upper branch, fold included, is filled
        stable = colors.same_color(mark.get_markerfacecolor(), mark.get_markeredgecolor())
        assert ((mark.get_ydata() >= 0) == stable).all()


def test_spectrum_of_fixed_points(competition):
    drawing = plot.spectrum(competition, axes())
    drawn = np.concatenate([mark.get_xydata() for mark in drawing.artists["values"]])
    expected = np.stack([competition.eigenvalues.real, competition.eigenvalues.imag], axis=-1).reshape(-1, 2)
    assert sorted(map(tuple, drawn)) == sorted(map(tuple, expected))
    for mark in drawing.artists["values"]:
        stable = mark.get_xdata() < 0
        assert (stable == (not colors.same_color(mark.get_markerfacecolor(), "white"))).all()
    assert drawing.artists["border"][0].get_xdata() == [0.0, 0.0]
    with pytest.raises(TypeError, match="expected FixedPoints or LimitCycles, got int"):
        plot.spectrum(3)


def test_spectrum_of_cycles(cycle):
    drawing = plot.spectrum(cycle, axes())
    (value,), (trivial,) = drawing.artists["values"], drawing.artists["trivial"]
    assert value.get_xdata() == pytest.approx([8.597e-4], abs=1e-7)
    assert trivial.get_xydata() == pytest.approx(np.array([[1.0, 0.0]]), abs=1e-8)
    assert np.hypot(*drawing.artists["border"][0].get_data()) == pytest.approx(np.ones(361))
    repelling = dataclasses.replace(cycle, multipliers=np.array([[1.0, 500.0]], dtype=complex))
    ax = plot.spectrum(repelling, axes()).ax
    assert ax.get_xscale() == "symlog"
    assert ax.get_xlim()[1] > 500.0


def test_lyapunov_exponents_converge_to_the_values():
    field = CallableField(lambda x: x * [-1.0, -2.0], 2, region=Region([(-1, 1), (-1, 1)]))
    spectrum = analyze.lyapunov(field, [0.3, 0.2], n_pieces=4, precision=0.1)
    drawing = spectrum.plot(axes(2))
    for k, line in enumerate(drawing.artists["running"]):
        assert np.array_equal(line.get_ydata(), spectrum.running[:, k])
        assert drawing.artists["values"][k].get_ydata()[0] == spectrum.exponents[k]


# ---------------------------------------------------------------------- time series


def test_series_of_data_and_simulation(observed, rotation):
    simulated = fim_dynsys.simulate(rotation, observed.x[:, 0], np.linspace(0.0, 4.0, 30))
    drawing = plot.time_series(observed, simulated, ax=axes(2))
    assert [ax.get_ylabel() for ax in drawing.axes] == ["x [m]", "v"]
    assert drawing.axes[-1].get_xlabel() == "t [s]"
    marks, lines = drawing.artists["data"], drawing.artists["simulated"]
    assert [len(found) for found in (marks, lines)] == [4, 4]
    assert np.array_equal(marks[1].get_ydata(), observed.x[1, :, 0])
    assert np.array_equal(lines[2].get_ydata(), simulated.x[0, :, 1])
    assert {(m.get_marker(), m.get_linestyle()) for m in marks} == {("o", "None"), ("s", "None")}
    assert len({line.get_linestyle() for line in lines}) == 2
    assert "unsupported" not in drawing.artists
    (one,) = plot.time_series(observed, ax=axes(), states=["v"]).axes
    assert one.get_ylabel() == "v"


def test_lines_are_dotted_where_not_backed():
    simulated = fim_dynsys.simulate(Half(), [[0.5, 1.0], [-0.5, 1.0]], np.linspace(0.0, 1.0, 11))
    drawing = plot.time_series(None, simulated, ax=axes(2), field=Half())
    assert [len(drawing.artists[name]) for name in ("simulated", "unsupported")] == [4, 2]
    assert all(line.get_linestyle() == ":" for line in drawing.artists["unsupported"])
    assert np.isnan(drawing.artists["simulated"][1].get_ydata()).all()


def test_a_failed_simulation_ends_in_a_cross():
    field = CallableField(lambda x: x**2, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        simulated = fim_dynsys.simulate(field, [1.0], np.linspace(0.0, 2.0, 201))
    (cross,) = plot.time_series(None, simulated, ax=axes()).artists["stopped"]
    assert cross.get_marker() == "x"
    assert cross.get_xdata()[0] == pytest.approx(0.99)
    assert cross.get_label() == "stopped: left bounds"


def test_bands_hold_their_share_of_the_members():
    rates = np.linspace(0.5, 1.5, 21)
    members = EnsembleField([CallableField(lambda x, r=r: r * x, 1) for r in rates])
    t = np.linspace(0.0, 1.0, 5)
    drawing = plot.time_series(None, None, fim_dynsys.simulate(members, [[1.0], [2.0]], t), ax=axes())
    outer, inner = drawing.artists["bands"][:2]
    for band, (low, high) in ((outer, (0.55, 1.45)), (inner, (0.75, 1.25))):
        ends = band.get_paths()[0].vertices
        last = ends[ends[:, 0] == 1.0][:, 1]
        assert (last.min(), last.max()) == pytest.approx((np.exp(low), np.exp(high)), rel=1e-6)
    second = drawing.artists["median"][1]
    assert second.get_ydata() == pytest.approx(2.0 * np.exp(t), rel=1e-6)


def test_bands_end_where_members_are_missing():
    members = EnsembleField([CallableField(lambda x, r=r: r * x**2, 1) for r in np.linspace(0.6, 1.4, 21)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        simulated = fim_dynsys.simulate(members, [1.0], np.linspace(0.0, 1.5, 151))
    (median,) = plot.time_series(None, None, simulated, ax=axes()).artists["median"]
    # 1 - r t = 0: at most 2 of 21 have blown up until the third-fastest does, at t = 1 / 1.32.
    assert median.get_xdata()[-1] == pytest.approx(1 / 1.32, abs=0.01)


def test_series_of_what_a_model_simulates(observed, rotation):
    (t, x), _ = observed.arrays()
    path = rotation(x) * 0.0 + x  # an array (n, d), as model.simulate returns one
    by_data = plot.time_series(observed[[0]], path, ax=axes(2))
    assert np.array_equal(by_data.artists["simulated"][0].get_xdata(), t)
    assert by_data.axes[0].get_ylabel() == "x [m]"
    fine = np.linspace(0.0, 1.0, 7)
    several = plot.time_series(None, [np.ones((7, 2)), np.zeros((7, 2))], t=fine, ax=axes(2))
    assert [len(line.get_xdata()) for line in several.artists["simulated"]] == [7] * 4
    with pytest.raises(ValueError, match=r"expected times with arrays of \[7\] rows, got none; pass t="):
        plot.time_series(observed[[0]], np.ones((7, 2)), ax=axes(2))
    with pytest.raises(ValueError, match="time_series: expected Trajectories or arrays of numbers, got str"):
        plot.time_series("a", ax=axes())


def test_series_of_an_ensemble_start_at_the_first_samples():
    rates = np.linspace(0.5, 1.5, 21)
    members = EnsembleField([CallableField(lambda x, r=r: r * x, 1) for r in rates])
    t = np.linspace(0.0, 1.0, 5)
    data = Trajectories.from_arrays([np.exp(t)[:, None], 2.0 * np.exp(t)[:, None]], [t, t + 3.0])
    drawing = plot.time_series(data, ensemble=members, ax=axes())
    first, second = drawing.artists["median"]
    assert first.get_ydata() == pytest.approx(np.exp(t), rel=1e-6)
    assert second.get_ydata() == pytest.approx(2.0 * np.exp(t), rel=1e-6)
    assert second.get_xdata() == pytest.approx(t + 3.0)
    with pytest.raises(ValueError, match="expected data with an EnsembleField"):
        plot.time_series(ensemble=members, ax=axes())


def test_data_and_model_are_never_in_one_colour(observed, rotation):
    simulated = fim_dynsys.simulate(rotation, observed.x[:, 0], np.linspace(0.0, 4.0, 30))
    drawing = plot.time_series(observed, simulated, ax=axes(2))
    inks = [{line.get_color() for line in drawing.artists[name]} for name in ("data", "simulated")]
    assert not inks[0] & inks[1] and len(inks[1]) == 2


def test_the_data_of_a_portrait_are_not_in_the_colour_of_a_path(observed, rotation):
    simulated = fim_dynsys.simulate(rotation, observed.x[:, 0], np.linspace(0.0, 4.0, 30))
    inks = [
        {line.get_color() for line in paths(one, axes()).artists[name]}
        for one, name in ((observed, "data"), (simulated, "simulated"))
    ]
    assert inks == [{style.BLACK}, {style.VERMILLION}]


def test_years_are_whole_numbers():
    t = np.arange(1900.0, 1921.0)
    drawing = plot.time_series(Trajectories.from_arrays(np.sin(t), t, units={"t": "year"}), ax=axes())
    drawing.figure.draw_without_rendering()
    shown = [label.get_text() for label in drawing.ax.get_xticklabels()]
    assert shown and all(text.isdigit() for text in shown)
    assert drawing.ax.get_xlabel() == "t [year]"


def test_a_forecast_has_data_median_bands_and_what_was_held_out(observed):
    ahead = np.array([0.5, 1.0, 2.0])
    median = np.stack([np.sin(ahead), np.cos(ahead)], axis=1)[None]
    widths = np.array([0.1, 0.3])[:, None, None, None]
    dims = ("trajectory", "ahead", "state")
    table = xr.Dataset(
        {
            "median": (dims, median),
            "low": (("band", *dims), median - widths),
            "high": (("band", *dims), median + widths),
            "t": (("trajectory", "ahead"), (5.0 + ahead)[None]),
        },
        {"state": ["x", "v"], "ahead": ahead, "band": [0.5, 0.9]},
    )
    drawing = plot.forecast(table, observed[[0]], median[0] + 0.05, ax=axes(2))
    counts = {name: len(found) for name, found in drawing.artists.items()}
    assert counts == {"bands": 4, "median": 2, "data": 2, "held out": 2, "origin": 2}
    assert [ax.get_ylabel() for ax in drawing.axes] == ["x [m]", "v"]
    assert drawing.artists["median"][1].get_ydata() == pytest.approx(np.cos(ahead))
    wide, narrow = drawing.artists["bands"][:2]
    assert wide.get_label() == "90% band" and narrow.get_label() == "50% band"
    ends = wide.get_paths()[0].vertices[:, 1]
    assert (ends.min(), ends.max()) == pytest.approx((np.sin(0.5) - 0.3, np.sin(2.0) + 0.3))
    assert drawing.artists["held out"][0].get_xdata() == pytest.approx(5.0 + ahead)
    assert drawing.artists["origin"][0].get_xdata()[0] == observed.t[0, -1]
    with pytest.raises(ValueError, match="held-out rows at the 3 times of the forecast, got"):
        plot.forecast(table, None, np.ones((4, 2)), ax=axes(2))
    with pytest.raises(ValueError, match="expected a forecast from one origin, got 2"):
        plot.forecast(table.expand_dims(origin=2))
    with pytest.raises(ValueError, match="expected a trajectory below 1, got 1"):
        plot.forecast(table, trajectory=1)
    with pytest.raises(ValueError, match=r"expected the Dataset of model\.forecast"):
        plot.forecast(observed)


def test_series_of_nothing_are_refused(observed):
    with pytest.raises(ValueError, match="expected data, simulated or ensemble, got none"):
        plot.time_series()
    with pytest.raises(ValueError, match=r"expected times with arrays of \[1\] rows"):
        plot.time_series([1.0])
    with pytest.raises(ValueError, match="expected trajectories with a coordinate 'member'"):
        plot.time_series(ensemble=observed, ax=axes(2))
    with pytest.raises(ValueError, match="time_series: expected 2 axes, got 1"):
        plot.time_series(observed, ax=axes())


# ---------------------------------------------------------------------- maps


def test_difference_of_fields(rotation):
    faster = CallableField(lambda x: 1.1 * rotation(x), 2, state_names=("x", "v"))
    box = [(-1, 1), (-1, 1)]
    drawing = plot.compare_fields(rotation, faster, region=box, ax=axes(3))
    (image,) = drawing.artists["difference"]
    # 0.1 / 1.1 of |x| / rms(x_i) / sqrt(2), largest in the corners; the rms is that of the 41-point grid.
    corner = 0.1 / 1.1 / np.sqrt(np.mean(np.linspace(-1, 1, 41) ** 2))
    assert image.zmax == pytest.approx(corner, rel=1e-9)
    assert len(drawing.artists["streamlines"]) == 2
    assert [ax.get_title() for ax in drawing.axes] == ["field", "reference", "difference"]
    with pytest.raises(ValueError, match="compare_fields: expected a field of two states, got 3"):
        plot.compare_fields(system_field("lorenz"), system_field("lorenz"))


def test_uncertainty_of_an_ensemble(rotation):
    members = EnsembleField(
        [rotation, CallableField(lambda x: 1.2 * rotation(x), 2, context=rotation.context)]
    )
    points = np.array([[[1.0, 0.0], [0.0, 2.0]]])
    assert _spread(members, points) == pytest.approx(0.1 * np.abs(rotation(points)))
    drawing = plot.uncertainty_map(members, region=[(-1, 1), (-1, 1)], ax=axes())
    (image,) = drawing.artists["uncertainty"]
    speed = rotation.scales.speed
    assert image.zmax == pytest.approx(0.1 * np.sqrt(np.mean(1.0 / speed**2)), rel=1e-9)
    with pytest.raises(ValueError, match="expected a field with a standard deviation, got CallableField"):
        plot.uncertainty_map(rotation)


def test_support_and_its_edge():
    drawing = plot.support_map(Half(), ax=axes())
    hatch, edge, *_ = drawing.artists["unsupported"]
    assert _area(hatch) == pytest.approx(2.0, abs=0.03)
    assert edge.levels.tolist() == [0.5]
    assert len(drawing.artists["unsupported"]) == 3  # no tint over colours that have a meaning


# ---------------------------------------------------------------------- ensembles


def shifted(dx):
    return CallableField(lambda x: [dx, -dx] - x, 2, region=Region([(-1, 1), (-1, 1)]))


def test_ensembles_of_fixed_points():
    members = [shifted(dx) for dx in (-0.1, -0.05, 0.05, 0.1)]
    found = analyze.ensemble(analyze.fixed_points, members)
    drawing = found.plot(axes())
    (dots,), (mark,), (ellipse,) = (drawing.artists[name] for name in ("members", "fixed points", "ellipses"))
    assert sorted(dots.get_xdata()) == pytest.approx([-0.1, -0.05, 0.05, 0.1], abs=1e-12)
    assert mark.get_xydata() == pytest.approx(np.zeros((1, 2)), abs=1e-12)
    # Standard deviation sqrt(0.0125) along (1, -1); chi-squared of two degrees: 90 % within sqrt(-2 log 0.1).
    assert ellipse.width == pytest.approx(2 * np.sqrt(-2 * np.log(0.1)) * np.sqrt(0.0125))
    assert ellipse.height == pytest.approx(0.0, abs=1e-6)
    assert np.tan(np.radians(ellipse.angle)) == pytest.approx(-1.0)
    assert [text.get_text() for text in drawing.artists["probabilities"]] == ["100%"]


def test_rarer_objects_are_paler():
    none = CallableField(lambda x: np.ones_like(x), 2, region=Region([(-1, 1), (-1, 1)]))
    found = analyze.ensemble(analyze.fixed_points, [shifted(0.0), shifted(0.1), none, none])
    drawing = found.plot(axes())
    assert [text.get_text() for text in drawing.artists["probabilities"]] == ["50%"]
    assert [mark.get_alpha() for mark in drawing.artists["fixed points"]] == [pytest.approx(0.65)]


def test_ensembles_of_cycles_and_of_what_has_no_place(cycle):
    field = system_field("van_der_pol")
    found = analyze.ensemble(lambda field, region: cycle, [field, field], field.region)
    drawing = found.plot(axes())
    assert len(drawing.artists["orbits"]) == 2
    assert "ellipses" not in drawing.artists
    (text,) = drawing.artists["probabilities"]
    assert np.linalg.norm(cycle.orbits[0] - np.array(text.xy), axis=1).min() < 1e-9
    nothing = analyze.ensemble(lambda field, region: 3.0, [field], field.region)
    with pytest.raises(
        ValueError, match="expected objects in the members' results to draw, got none in float"
    ):
        nothing.plot(axes())


# ---------------------------------------------------------------------- basins


@pytest.fixture(scope="module")
def wells():
    """x' = x - x^3, y' = -y: the sign of x decides, and far out trajectories are followed all the same."""

    def rhs(x):
        return np.stack([x[:, 0] - x[:, 0] ** 3, -x[:, 1]], axis=-1)

    box = Region({"x": (-2, 2), "y": (-1, 1)})
    field = CallableField(rhs, 2, region=box, state_names=box.names)
    return analyze.basins(field, resolution=20, n_sample=64)


def test_basins(wells):
    drawing = wells.plot(axes())
    (image,) = drawing.artists["basins"]
    x, _ = wells.axes
    left = image.get_array()[0][x < 0]
    assert (image.get_array() == wells.labels.T).all()
    assert len(set(left.tolist())) == 1
    marks = {tuple(mark.get_xydata()[0].round(6)) for mark in drawing.artists["attractors"]}
    assert marks == {(-1.0, 0.0), (1.0, 0.0)}
    assert [number.get_text() for number in drawing.artists["numbers"]] == ["0", "1"]
    labels = drawing.ax.get_legend_handles_labels()[1]
    assert labels == [f"{k}: fixed point, {wells.fractions[k]:.1%} ± {wells.errors[k]:.1%}" for k in range(2)]
    colour = image.cmap(image.norm(wells.labels[[0, -1], 0]))
    assert abs(np.dot(colour[0] - colour[1], (0.3, 0.6, 0.1, 0.0))) > 0.1  # in grey


def test_basins_with_states_swapped_and_special_labels(wells):
    labels = wells.labels.copy()
    labels[:5], labels[5:8] = -1, -2
    support = np.where(wells.axes[1] > 0, 1.0, 0.1) * np.ones_like(wells.support)
    special = dataclasses.replace(wells, labels=labels, support=support)
    drawing = special.plot(axes(), states=("y", "x"))
    assert (drawing.artists["basins"][0].get_array() == labels).all()
    assert [part.hatches for part in drawing.artists["special"]] == [[".."], ["xx"]]
    assert _area(drawing.artists["unsupported"][0]) == pytest.approx(4.0, rel=0.06)
    names = [label.split(",")[0] for label in drawing.ax.get_legend_handles_labels()[1]]
    assert {"leaves the region", "leaves the supported region", "unsupported by data"} <= set(names)
    with pytest.raises(ValueError, match=r"expected the states \['x', 'y'\] of the image, got \['x'\]"):
        wells.plot(axes(), states=["x"])


def test_a_cycle_over_basins_is_drawn_as_the_legend_of_cycles_says():
    field = system_field("stuart_landau")
    over = analyze.basins(field, resolution=12, n_sample=32).plot(axes())
    line = next(mark for mark in over.artists["attractors"] if len(mark.get_xdata()) > 1)
    (cycle,) = analyze.limit_cycles(field).plot(axes()).artists["cycles"]
    looks = [(one.get_color(), one.get_linestyle(), one.get_linewidth()) for one in (line, cycle)]
    assert looks[0] == looks[1]
    assert line.get_path_effects()  # a white edge, for dark basins


def test_basins_on_the_line():
    found = analyze.basins(system_field("saddle_node"), resolution=12, n_sample=32)
    drawing = found.plot(axes())
    assert (drawing.artists["basins"][0].get_array()[0] == found.labels).all()
    assert drawing.ax.get_ylim() == (-1.0, 1.0)


def test_curves_over_two_parameters():
    plane = FieldPlane.from_callable(
        lambda s, p, q: np.stack([s[:, 1], p + q * s[:, 1] + s[:, 0] ** 2 + s[:, 0] * s[:, 1]], axis=1), 2
    )
    curves = analyze.bifurcation_curves(plane, [-1.0, 0.0], (-1, 1), (-1.5, 1.5), q0=0.5)
    drawn = curves.plot()
    (line,) = drawn.artists["hopf points"]
    p, q = line.get_data()
    assert np.abs(p + q**2).max() < 1e-8 and line.get_linestyle() == "--"  # l1 > 0
    assert [text.get_text() for text in drawn.artists["labels"]] == ["BT"]
    drawn.close()


def test_curves_of_cycles_over_two_parameters():
    def bautin(s, p, q):
        square = (s**2).sum(axis=1, keepdims=True)
        return (p + q * square - square**2) * s + s[:, ::-1] * [-1, 1]

    plane = FieldPlane.from_callable(bautin, 2)
    curves = analyze.bifurcation_curves(plane, [0, 0], (-1, 1), (-1, 1), q0=0.5, cycles=True)
    drawn = curves.plot()
    (folds,) = drawn.artists["cycles"]
    p, q = folds.get_data()
    assert np.abs(p + q**2 / 4).max() < 1e-8
    assert folds.get_label() == "folds of cycles"
    assert {part.get_linestyle() for part in drawn.artists["hopf points"]} == {"-", "--"}
    drawn.close()


# ---------------------------------------------------------------------- measures and bands


def test_pictures_of_measures():
    angle = np.arange(0.0, 60.0, 0.1)
    record = Trajectories.from_arrays(np.stack([np.sin(angle), np.cos(angle)], axis=1), angle)
    embedded = analyze.delay_embedding(record)
    drawing = embedded.plot()
    assert len(drawing.axes) == 3
    np.testing.assert_array_equal(drawing.artists["vectors"][0].get_xydata(), embedded.vectors[:, :2])
    (line,) = drawing.artists["delay"]
    assert line.get_xdata()[0] == pytest.approx(embedded.delay * 0.1)
    recurrences = analyze.recurrence(record)
    (image,) = recurrences.plot().artists["recurrences"]
    np.testing.assert_array_equal(image.get_array(), recurrences.matrix)
    dimension = analyze.correlation_dimension(record)
    assert {"sums", "slopes"} <= set(dimension.plot().artists)
    table = analyze.measures(
        record, {"turns": CallableField(lambda x: x[:, ::-1] * [1, -1], 2), "lost": GONE}
    )
    drawing = table.plot()
    assert len(drawing.axes) == 6 and len(drawing.artists["attractors"]) == 2
    assert [ax.get_title() for ax in drawing.axes[:3]] == ["data", "turns", "lost"]


GONE = CallableField(lambda x: 9.0 * x**3, 2)


def test_pictures_of_bands():
    wells = system_field("double_well")
    draws = EnsembleField([wells, wells])
    box = [(-2, 2), (-2, 2)]
    manifolds = analyze.manifold_bands(wells, box, n_draws=draws)
    drawing = manifolds.plot()
    assert len(drawing.artists["bands"]) == len(manifolds.paths)
    labels = [text.get_text() for text in drawing.figure.legends[0].get_texts()]
    assert "90% band, stable manifold" in labels
    basins = analyze.basin_probabilities(wells, box, n_draws=draws, resolution=8, n_sample=16)
    assert (basins.doubt == 0).all()
    assert len(basins.plot().axes) == 2
    turning = CallableField(lambda x: np.stack([x[:, 1], (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]], axis=1), 2)
    cycles = analyze.cycle_bands(turning, [(-3, 3), (-4, 4)], n_draws=EnsembleField([turning, turning]))
    assert len(cycles.plot().artists["drawn"]) == 2


def test_picture_of_tipping():
    family = FieldFamily.from_callable(lambda x, p: p + x - x**3, 1, "p", region=[(-2, 2)])
    result = analyze.tipping(family, [-1.2], 10.0, ramp=(0.0, 0.5), hold=20.0)
    drawing = result.plot()
    np.testing.assert_allclose(drawing.artists["away"][0].get_ydata(), result.away)
    np.testing.assert_allclose(drawing.artists["ramp"][0].get_ydata(), result.ramp)


def test_pictures_of_diagrams_with_bands(measured):
    bands = analyze.branch_bands(measured, n_draws=5)
    assert {"bands", "equilibria", "bifurcations"} <= set(bands.plot().artists)
    following = analyze.next_measurement(measured)
    drawing = following.plot()
    assert drawing.artists["best"][0].get_xdata()[0] == following.best


def test_portrait_of_three_states_on_axes_that_turn():
    field = CallableField(lambda x: -x, 3, region=Region([(-1, 1)] * 3))
    drawing = plot.portrait_3d(field, analyze.fixed_points(field))
    assert drawing.ax.name == "3d" and len(drawing.artists["fixed points"]) == 1
    with pytest.raises(ValueError, match="at least three states"):
        plot.portrait_3d(CallableField(lambda x: -x, 2))
