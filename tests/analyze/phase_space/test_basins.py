"""Basins with exactly known boundaries, cycles and chaos as attractors, special labels, shares."""

import numpy as np
import pytest

from fim_dynsys import CallableField, Region, SymbolicField, Trajectories, systems
from fim_dynsys.analyze.phase_space.basin import BasinLabel, basins
from fim_dynsys.analyze.phase_space.capture import AttractorKind, Tube, recurrent_sets
from fim_dynsys.analyze.phase_space.weak import weak_sink
from fim_dynsys.simulation.solution import integrate


def bent(x):
    """u' = u - u^3, v' = -v in x = u + v^2, y = v: sinks (-1, 0) and (1, 0), boundary x = y^2."""
    u = x[:, 0] - x[:, 1] ** 2
    return np.stack([u - u**3 - 2 * x[:, 1] ** 2, -x[:, 1]], axis=1)


def rings(x):
    """r' = r (1 - r^2) (4 - r^2), angle' = 2: what starts inside r = 2 ends on the unit circle."""
    square = np.sum(x**2, axis=1, keepdims=True)
    return x * (1 - square) * (4 - square) + 2 * np.stack([-x[:, 1], x[:, 0]], axis=1)


def test_boundary_in_closed_form():
    found = basins(CallableField(bent, 2), [(-2, 2), (-1, 1)], resolution=60)
    positions = np.array([attractor.points[0] for attractor in found.attractors])
    right = int(np.argmax(positions[:, 0]))
    assert positions[[1 - right, right]] == pytest.approx(np.array([[-1, 0], [1, 0]]), abs=1e-9)
    x, y = np.meshgrid(*found.axes, indexing="ij")
    assert (found.labels == np.where(x > y**2, right, 1 - right)).all()
    # The share of x > y^2 in the box is (4 - 2/3) / 8.
    assert abs(found.fractions[right] - 5 / 12) < 2 * found.errors[right]
    assert found.errors[right] == pytest.approx(np.sqrt(5 / 12 * 7 / 12 / 1024), rel=0.05)
    assert found.fractions.sum() == pytest.approx(1)


def test_cycle_and_what_escapes():
    found = basins(CallableField(rings, 2), [(-3, 3), (-3, 3)], resolution=40)
    assert [attractor.kind for attractor in found.attractors] == [AttractorKind.CYCLE]
    inside = np.hypot(*np.meshgrid(*found.axes, indexing="ij")) < 2
    assert (found.labels == np.where(inside, 0, BasinLabel.LEFT_REGION)).all()
    assert abs(found.fractions[0] - np.pi * 4 / 36) < 2 * found.errors[0]
    assert found.fractions[BasinLabel.LEFT_REGION] == pytest.approx(1 - found.fractions[0])


def test_on_the_line():
    """x' = x - x^3: the sign decides, and 0 itself goes nowhere."""
    field = CallableField(lambda x: x - x**3, 1)
    found = basins(field, [(-2, 2)], resolution=41, n_sample=64)
    ends = [attractor.points[0, 0] for attractor in found.attractors]
    assert found.labels.shape == (41,) and found.labels[20] == BasinLabel.UNDECIDED
    reached = np.array([ends[label] for label in np.delete(found.labels, 20)])
    assert reached == pytest.approx(np.sign(np.delete(found.axes[0], 20)), abs=1e-9)


def test_section_of_a_system_in_space():
    """The third state decides here; the image at fixed third state has one colour."""
    field = CallableField(lambda x: np.stack([-x[:, 0], -x[:, 1], x[:, 2] - x[:, 2] ** 3], axis=1), 3)
    region = [(-1, 1), (-1, 1), (-2, 2)]
    up = basins(field, region, resolution=5, n_sample=64, at=[0, 0, 0.5])
    assert len(set(up.labels.ravel())) == 1
    assert up.attractors[up.labels[0, 0]].points[0] == pytest.approx([0, 0, 1], abs=1e-9)
    side = basins(field, region, resolution=6, n_sample=64, coordinates=("x0", 2))
    assert (side.labels[:, :3] != side.labels[:, 3:]).all() and side.coordinates == (0, 2)
    assert np.abs(side.fractions[:2] - 0.5).max() < 0.1


def test_chaotic_attractor_is_recognised_by_recurrence():
    """Beyond the homoclinic explosion, everything in Lorenz's box ends on one chaotic set."""
    found = basins(systems.get("lorenz").field(), resolution=6, n_sample=32)
    assert [attractor.kind for attractor in found.attractors] == [AttractorKind.RECURRENT]
    assert found.fractions[0] > 0.8 and np.mean(found.labels == 0) > 0.8
    points = found.attractors[0].points
    assert points[:, 2].min() > 0 and points[:, 2].max() < 50 and np.ptp(points[:, 0]) > 30


def magnetic(s):
    """A pendulum above three magnets at the corners of a triangle."""
    angle = 2 * np.pi * np.arange(3) / 3
    x, y, u, v = s.T
    ax, ay = -0.5 * x - 0.2 * u, -0.5 * y - 0.2 * v
    for mx, my in zip(np.cos(angle), np.sin(angle), strict=True):
        dx, dy = mx - x, my - y
        cube = (dx * dx + dy * dy + 0.04) ** 1.5
        ax, ay = ax + dx / cube, ay + dy / cube
    return np.stack([u, v, ax, ay], axis=1)


def test_basins_of_a_magnetic_pendulum_are_mirrored():
    """Reflection at y = 0 exchanges two of the magnets; all three attract equal shares of the box."""
    field = CallableField(magnetic, 4, state_names=["x", "y", "u", "v"])
    region = {name: (-2, 2) for name in "xyuv"}
    found = basins(field, region, resolution=12, coordinates=("x", "y"), at=[0, 0, 0, 0], n_sample=64)
    assert len(found.attractors) == 3 and (found.labels >= 0).all()
    ends = np.array([attractor.points[0, :2] for attractor in found.attractors])
    mirror = np.array([np.argmin(np.linalg.norm(ends - [x, -y], axis=1)) for x, y in ends])
    # Boundaries are finer than any grid: of states on them rounding decides.
    assert (found.labels[:, ::-1] == mirror[found.labels]).mean() > 0.95
    assert np.abs(found.fractions[:3] - 1 / 3).max() < 3 * found.errors[:3].max()


@pytest.mark.slow
@pytest.mark.parametrize("n_sample", [64, 128])
def test_slow_foci_beside_a_strange_attractor(n_sample):
    """Lorenz at r = 24.4: the foci attract at a rate of 0.01. Shares are those of direct integration."""

    def lorenz(s):
        x, y, z = s.T
        return np.stack([10 * (y - x), x * (24.4 - z) - y, x * y - 8 / 3 * z], axis=1)

    field, region = CallableField(lorenz, 3), Region([(-20, 20), (-25, 25), (0, 45)])
    found = basins(field, region, resolution=2, n_sample=n_sample)
    foci = np.array([attractor.kind is AttractorKind.FIXED_POINT for attractor in found.attractors])
    assert foci.sum() == 2 and len(foci) == 3
    late = integrate([field], region.sobol(n_sample, 0), [0.0, *np.linspace(995.0, 1000.0, 51)]).x[:, 1:]
    place = np.sqrt(8 / 3 * 23.4)
    away = np.abs(np.abs(late) - [place, place, 23.4]).max(axis=(1, 2))
    assert abs(found.fractions[:3][foci].sum() - np.mean(away < 1.5)) < 3 * np.sqrt(0.25 / n_sample)


def stuart_landau(growth):
    """r' = growth r (1 - r^2), angle' = 1: all but 0 ends on the unit circle, at a rate of 2 growth."""
    return SymbolicField(
        ["m*x*(1 - x**2 - y**2) - y", "m*y*(1 - x**2 - y**2) + x"], {"m": growth}, state_names=["x", "y"]
    )


def test_slow_cycle_is_the_one_attractor():
    """Paths that wind onto a known cycle for long visit the same cells again, and end on it all the same."""
    found = basins(stuart_landau(2e-3), [(-2, 2), (-2, 2)], resolution=2, n_sample=8)
    assert [attractor.kind for attractor in found.attractors] == [AttractorKind.CYCLE]
    assert (found.labels == 0).all() and found.fractions[0] == 1
    assert found.slowest_return == pytest.approx(250, rel=1e-6)


def test_on_the_way_to_a_slow_cycle_is_undecided():
    found = basins(stuart_landau(1e-3), [(-2, 2), (-2, 2)], resolution=2, n_sample=16, t_max=200.0)
    assert [attractor.kind for attractor in found.attractors] == [AttractorKind.CYCLE]
    assert found.fractions[BasinLabel.UNDECIDED] > 0.5
    assert "disturbances decay by e in up to 500; a longer t_max" in str(found)


def test_slow_cycle_of_predator_and_prey():
    """Rosenzweig and MacArthur just beyond the Hopf point, where the cycle's multiplier is 0.92."""
    field = SymbolicField(
        ["x*(1 - x/2.1) - x*y/(1 + x)", "0.5*x*y/(1 + x) - 0.175*y"], state_names=["x", "y"]
    )
    found = basins(field, {"x": (0, 3), "y": (0, 3)}, resolution=4, n_sample=16)
    assert [attractor.kind for attractor in found.attractors] == [AttractorKind.CYCLE]
    # The axes lead to saddles.
    assert found.fractions[0] == 1 and (found.labels[1:, 1:] == 0).all()


def test_what_winds_onto_a_cycle():
    """Distances that fall at the cycle's rate do; those that stay, fall far slower or rise do not."""
    t = np.linspace(0, 300, 3001)
    circle = np.stack([np.cos(t), np.sin(t)], axis=1)
    tube = Tube(circle[:63], np.empty((0, 2)), np.ones(2))
    for rate, winds in ((1e-2, True), (3e-4, False), (0.0, False), (-1e-3, False)):
        path = (1 + 0.5 * np.exp(-rate * t))[:, None] * circle
        assert tube.winds_in(path, 1e-2 * 300) == winds


def lorenz_at(r):
    """The Lorenz field. Its chaos is transient from r = 13.93 to 24.06, and attracts beyond."""
    return CallableField(
        lambda s: np.stack(
            [
                10 * (s[:, 1] - s[:, 0]),
                s[:, 0] * (r - s[:, 2]) - s[:, 1],
                s[:, 0] * s[:, 1] - 8 / 3 * s[:, 2],
            ],
            axis=1,
        ),
        3,
    )


def test_transient_chaos_is_no_attractor():
    """Lorenz at r = 22: chaos lasts for a mean time of a hundred, and then everything ends on the foci."""
    region = [(-20, 20), (-27, 27), (1, 48)]
    found = basins(lorenz_at(22.0), region, resolution=2, n_sample=32, t_max=1000.0)
    assert [attractor.kind for attractor in found.attractors] == [AttractorKind.FIXED_POINT] * 2
    assert found.fractions[:2].sum() == 1 and found.fractions[:2].min() > 0.2
    assert found.transient == 1 and found.followed == 0 and "proved transient" in str(found)


def test_chaos_that_nothing_left_may_be_transient_later():
    """Lorenz at r = 24.5: the strange attractor stays one beside the foci, with the time it was watched."""
    region = [(-20, 20), (-27, 27), (1, 48)]
    found = basins(lorenz_at(24.5), region, resolution=2, n_sample=16, t_max=160.0)
    kinds = [attractor.kind for attractor in found.attractors]
    assert kinds == [*[AttractorKind.FIXED_POINT] * 2, AttractorKind.RECURRENT]
    assert found.transient == 0 and 160 <= found.followed < 170
    assert "may be transient beyond the time followed, 16" in str(found)


def test_paths_through_one_lobe_are_not_typical():
    """A path that stays in one of the lobes shares cells with those that visit both."""
    t = np.linspace(0, 210, 7001)
    starts = np.array([[1.0, 2.0, 20.0], [-4.0, 3.0, 25.0], [8.0, 1.0, 30.0]])
    field, region = lorenz_at(28.0), Region([-20, -27, 1], [20, 27, 48])
    paths = integrate([field], starts, t).x[:, 200:]
    lobe = np.resize(paths[0][paths[0, :, 0] > 0], paths[0].shape)
    (found,), _ = recurrent_sets(field, region, np.stack([*paths, lobe]))
    assert found.members.tolist() == [0, 1, 2, 3] and found.typical.tolist() == [True] * 3 + [False]


def test_closed_orbits_attract_nothing():
    found = basins(systems.get("harmonic_oscillator").field(), resolution=5, n_sample=32)
    assert not found.attractors and (found.labels == BasinLabel.UNDECIDED).all()
    assert found.fractions[BasinLabel.UNDECIDED] == 1 and found.errors.min() > 0


def test_a_slow_way_out_is_no_recurrence():
    """x' = x^2 + 1e-4 passes 0 in 314 time units: what was on its way for long leaves all the same."""
    found = basins(CallableField(lambda x: x**2 + 1e-4, 1), [(-1, 1)], resolution=21, n_sample=64)
    assert not found.attractors and (found.labels == BasinLabel.LEFT_REGION).all()


def test_support_is_told_and_can_be_required():
    """Data along y = 0 to the right: only what starts there stays where they back the field."""
    t = np.linspace(0, 3, 80)
    half = Trajectories.from_arrays(np.stack([1 + np.exp(-2 * t), 0.05 * np.exp(-t)], axis=1), t)
    field = CallableField(bent, 2, context=half)
    region = [(-2, 2), (-1, 1)]
    free = basins(field, region, resolution=20, n_sample=64)
    right = int(np.argmax([attractor.points[0, 0] for attractor in free.attractors]))
    assert free.attractors[right].support > 0.5 and free.attractors[1 - right].support < 1e-6
    assert (free.labels >= 0).all() and (free.support[free.labels == 1 - right] < 0.5).all()
    bound = basins(field, region, resolution=20, n_sample=64, stay_supported=True)
    assert set(bound.labels.ravel()) <= {right, BasinLabel.LEFT_SUPPORT}
    assert (bound.labels == BasinLabel.LEFT_SUPPORT).mean() > 0.8
    assert "left support" in str(bound)


def test_budget_and_fields_that_end():
    """What is out of budget is undecided; where the field is not defined, it cannot be followed."""
    cut = basins(systems.get("double_well").field(), resolution=10, n_sample=32, budget=5_000)
    assert cut.effort.exhausted and (cut.labels == BasinLabel.UNDECIDED).any()

    whole = basins(systems.get("double_well").field(), resolution=80, n_sample=32)
    cut = basins(
        systems.get("double_well").field(), resolution=80, n_sample=32, budget=int(0.8 * whole.effort.points)
    )
    known = cut.labels != BasinLabel.UNDECIDED
    assert (cut.labels[known] == whole.labels[known]).all()
    shares = known.reshape(4, 20, 4, 20).mean(axis=(1, 3))  # of each sixteenth of the image
    assert shares.min() > 0.3 and shares.max() < 1

    late = basins(systems.get("double_well").field(), resolution=10, n_sample=32, max_seconds=1e-9)
    assert late.effort.exhausted and "exhausted" in str(late)
    assert (late.labels == BasinLabel.UNDECIDED).all()

    def half(x):
        return np.where(x > -0.5, -x, np.nan)

    found = basins(CallableField(half, 1), [(-1, 1)], resolution=21, n_sample=16)
    assert (found.labels[found.axes[0] < -0.5] == BasinLabel.UNDECIDED).all()
    assert (found.labels[found.axes[0] > -0.5] == 0).all()


def test_result():
    found = basins(CallableField(bent, 2), [(-2, 2), (-1, 1)], resolution=8, n_sample=32)
    assert "fixed point" in str(found) and "Basins of 2 attractors" in found._repr_html_()
    stored = found.to_xarray()
    assert stored["label"].dims == ("axis0", "axis1") and stored["outcome"].values.tolist() == [
        0,
        1,
        -3,
        -2,
        -1,
    ]
    assert stored["fraction"].values.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resolution": 1}, "resolution"),
        ({"coordinates": (0, 0)}, "coordinates"),
        ({"coordinates": ("x0", "q")}, "coordinates"),
        ({"at": [0.0]}, "at"),
        ({"t_max": 0.0}, "t_max"),
        ({"max_seconds": 0.0}, "max_seconds"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        basins(CallableField(bent, 2), [(-2, 2), (-1, 1)], **options)


@pytest.mark.parametrize(
    "rates, box, reason",
    [
        (["-x0**3"], [(-2, 2)], "1 degenerate fixed point may attract, but more slowly than at any rate"),
        (["x0*log(2/x0) - 0.2*x0"], [(-1, 4)], "the field is undefined at 28 of 140 states"),
        (["x1", "x0 - x0**3"], [(-2, 2)] * 2, "trajectories go round in families of closed orbits"),
        (["-x0*x1", "-x1"], [(-2, 2)] * 2, "fixed points that lie side by side, a continuum"),
    ],
)
def test_undecided_states_have_a_reason(rates, box, reason):
    size = {"resolution": 40 if len(rates) == 1 else 8, "n_sample": 100 if len(rates) == 1 else 32}
    found = basins(SymbolicField(rates), Region(box), **size)
    assert (found.labels == BasinLabel.UNDECIDED).any()
    assert f"Undecided: {reason}" in str(found)
    everywhere = basins(
        SymbolicField(["-x0"] + ["-x1"] * (len(rates) - 1)), Region([(-2, 2)] * len(rates)), **size
    )
    assert "Undecided" not in str(everywhere)


def test_closed_orbits_of_populations_are_no_attractors():
    """Lotka and Volterra's orbits are closed, the long ones along both axes too."""
    field = CallableField(lambda s: np.stack([s[:, 0] * (1 - s[:, 1]), s[:, 1] * (s[:, 0] - 1)], 1), 2)
    image = basins(field, [(0, 3), (0, 3)], resolution=6, n_sample=32)
    assert len(image.attractors) == 0
    assert "trajectories go round in families of closed orbits" in str(image)


def test_undecided_states_say_where_they_rest():
    """A damped pendulum: some come to rest at the next hanging position, outside the region."""
    pendulum = CallableField(lambda s: np.stack([s[:, 1], -np.sin(s[:, 0]) - 0.5 * s[:, 1]], axis=1), 2)
    found = basins(pendulum, [(-4, 4), (-2, 2)], resolution=4, n_sample=16)
    assert found.fractions[-3] > 0 and "came to rest outside the region, as at (" in str(found)


def oscillator(force, scale=1.0):
    """x'' = force(x, v), in some unit of x."""
    return CallableField(lambda s: np.stack([s[:, 1], scale * force(*(s / scale).T)], axis=1), 2)


@pytest.mark.parametrize(
    ("force", "attracts"),
    [
        (lambda x, v: -x - 0.1 * v**3, True),
        (lambda x, v: -np.where(x > 0, 4 * x, x) - 0.3 * np.abs(v) * v, True),
        (lambda x, v: -x + 0.1 * v**3, False),
        (lambda x, v: -x - 0.3 * x**2, False),
        (lambda x, v: -np.where(x > 0, 4 * x, x), False),
    ],
)
def test_foci_that_are_neutral_in_their_linear_part(force, attracts):
    jac = np.array([[0.0, 1.0], [-1.0, 0.0]])
    for scale in (1.0, 1e6):
        sink = weak_sink(oscillator(force, scale), np.zeros(2), jac, scale * np.ones(2), 1.0)
        assert (sink is not None) is attracts


def test_a_neutral_focus_that_attracts_is_an_attractor():
    field = oscillator(lambda x, v: -x - 0.1 * v**3)
    found = basins(field, [(-2, 2), (-2, 2)], resolution=2, n_sample=8)
    assert found.weak == (0,) and found.fractions[0] == 1.0 and found.followed == 0.0
    assert "more slowly than at any rate" in str(found)
