"""Poincare sections: crossings in closed form, return maps, and what ends a trajectory."""

import numpy as np
import pytest

from fim_dynsys import CallableField, Trajectories, systems
from fim_dynsys.analyze.cycles.sections import poincare
from fim_dynsys.simulation.problem import Status


def test_crossings_of_a_rotation_in_closed_form():
    """x = cos(w t) rises through 0 at (3 pi / 2 + 2 pi k) / w, where v = w."""
    system = systems.get("harmonic_oscillator")
    w = system.parameters["w"]
    section = poincare(system.field(), [1.0, 0.0], ("x", 0.0), n=5)
    assert section.times == pytest.approx((1.5 + 2 * np.arange(5)) * np.pi / w, abs=1e-7)
    assert section.points == pytest.approx(np.tile([0.0, w], (5, 1)), abs=1e-7)
    assert (section.residual < 1e-12).all()
    assert section.status.tolist() == [Status.EVENT]
    both = poincare(system.field(), [1.0, 0.0], ("x", 0.0), n=10, direction=0)
    assert both.times == pytest.approx((0.5 + np.arange(10)) * np.pi / w, abs=1e-7)
    falling = poincare(system.field(), [1.0, 0.0], ("x", 0.0), n=5, direction=-1)
    assert falling.points[:, 1] == pytest.approx(np.full(5, -w), abs=1e-7)


def test_small_units_of_a_field_without_lengths_change_no_crossing():
    unit = 1e-9

    def van_der_pol(s):
        return np.stack([s[:, 1], (1 - (s[:, 0] / unit) ** 2) * s[:, 1] - s[:, 0]], axis=1)

    section = poincare(CallableField(van_der_pol, 2), [2 * unit, 0.0], (0, 0.0), n=8)
    assert section.times[-1] - section.times[-2] == pytest.approx(6.663287, rel=1e-6)


def test_tilted_plane_and_several_trajectories():
    """r' = r (1/2 - r^2), angle' = 2: the logarithmic form of r is solved exactly."""
    system = systems.get("hopf")
    starts = np.array([[0.1, 0.0], [1.2, 0.0]])
    section = poincare(system.field(), starts, ([1.0, -1.0], 0.0), n=3, direction=-1)
    assert section.trajectory.tolist() == [0, 0, 0, 1, 1, 1]
    t = (np.pi / 4 + 2 * np.pi * np.arange(3)) / 2
    assert section.times == pytest.approx(np.tile(t, 2), abs=1e-7)
    for start, radius in zip(starts[:, 0], np.linalg.norm(section.points, axis=1).reshape(2, 3), strict=True):
        exact = np.sqrt(0.5 / (1 + (0.5 / start**2 - 1) * np.exp(-t)))
        assert radius == pytest.approx(exact, abs=1e-7)


def test_return_map_of_lorenz_on_its_classical_section():
    """Successive maxima of z (z' = 0): Lorenz's cusp map, everywhere steeper than 1."""
    field = systems.get("lorenz").field()
    section = poincare(field, [1.0, 1.0, 1.0], ("z", 27.0), n=50, direction=-1, transient=10.0)
    assert len(section) == 50 and section.points[:, 2] == pytest.approx(np.full(50, 27.0), abs=1e-10)
    assert (np.diff(section.times) > 0.4).all() and section.times[0] > 10
    pairs = section.returns("x")
    assert pairs.shape == (49, 2) and (pairs[1:, 0] == pairs[:-1, 1]).all()
    # A section is a surface of one sheet here: nearby points return near to each other.
    order = np.argsort(np.abs(pairs[:, 0]))
    assert np.corrcoef(np.abs(pairs[order, 1])[:-1], np.abs(pairs[order, 1])[1:])[0, 1] > 0.8


def test_what_ends_a_trajectory():
    decays = CallableField(lambda x: -x, 2)
    section = poincare(decays, [1.0, 1.0], (0, -1.0), t_max=5.0)
    assert len(section) == 0 and section.status.tolist() == [Status.SUCCESS]
    grows = CallableField(lambda x: x**2, 1)
    section = poincare(grows, [[1.0], [-1.0]], (0, 2.0), t_max=5.0)
    assert section.times == pytest.approx([0.5], abs=1e-8) and section.trajectory.tolist() == [0]
    assert section.status[1] is Status.SUCCESS and section.status[0] not in (Status.SUCCESS, Status.EVENT)
    lost = poincare(grows, [1.0], (0, 2.0), transient=5.0)
    assert len(lost) == 0 and lost.status[0] not in (Status.SUCCESS, Status.EVENT)
    cut = poincare(systems.get("lorenz").field(), [1.0, 1.0, 1.0], ("z", 27.0), n=50, budget=2_000)
    assert cut.effort.exhausted and cut.status.tolist() == [Status.MAX_STEPS] and len(cut) < 50


def test_support_of_crossings():
    t = np.linspace(0, 3, 60)
    known = Trajectories.from_arrays(np.stack([np.cos(t), -np.sin(t)], axis=1), t)
    field = CallableField(lambda x: np.stack([x[:, 1], -x[:, 0]], axis=1), 2, context=known)
    section = poincare(field, [1.0, 0.0], (0, 0.0), n=2, direction=0)
    assert section.support[0] > 0.9 and section.support[1] < 1e-3


def test_result():
    section = poincare(systems.get("harmonic_oscillator").field(), [[1.0, 0.0], [2.0, 0.0]], ("x", 0.0), n=3)
    assert "6 crossings of 1 x = 0 by 2 trajectories" in str(section)
    stored = section.to_xarray()
    assert (
        stored["points"].dims == ("crossing", "state") and stored["status"].values.tolist() == ["event"] * 2
    )


@pytest.mark.parametrize(
    ("plane", "options", "message"),
    [
        (("y", 0.0), {}, "state among"),
        ((2, 0.0), {}, "state among"),
        (([0.0, 0.0], 0.0), {}, "normal"),
        (([1.0, 0.0, 0.0], 0.0), {}, "normal"),
        (3.0, {}, "plane"),
        (("x", np.nan), {}, "offset"),
        (("x", 0.0), {"n": 0}, "n as a whole number of at least 1"),
        (("x", 0.0), {"direction": 2}, "direction"),
        (("x", 0.0), {"t_max": -1.0}, "t_max"),
    ],
)
def test_refusals(plane, options, message):
    with pytest.raises(ValueError, match=message):
        poincare(systems.get("harmonic_oscillator").field(), [1.0, 0.0], plane, **options)
