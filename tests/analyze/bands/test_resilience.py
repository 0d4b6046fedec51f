"""How firmly attractors hold: closed forms on the line and in the plane, and along a parameter."""

import numpy as np
import pytest

from fim_dynsys import CallableField, FieldFamily
from fim_dynsys.analyze import resilience
from fim_dynsys.analyze.phase_space.capture import AttractorKind


def wells(x, p):
    return p + x - x**3


def test_two_wells_along_a_tilt_are_their_closed_forms():
    """Zeros of p + x - x^3: the outer ones attract, the middle one is where shocks become fatal."""
    family = FieldFamily.from_callable(wells, 1, "p")
    values = np.array([0.0, 0.2, 0.35, 0.6])  # the left well is lost at 2 / sqrt(27) = 0.385
    held = resilience(
        family,
        values,
        [(-2, 2)],
        unit=[1.0],
        n_draws=[family, FieldFamily.from_callable(lambda x, p: wells(x, p + 0.01), 1, "p")],
    )
    assert [kind for kind in held.kinds] == [AttractorKind.FIXED_POINT] * 2
    left = int(np.nanargmin(held.places[:, 0, 0]))
    for v, p in enumerate(values):
        zeros = np.sort(np.roots([-1, 0, 1, p]).real[np.abs(np.roots([-1, 0, 1, p]).imag) < 1e-9])
        right = held.places[1 - left, v, 0]
        assert right == pytest.approx(zeros[-1], abs=1e-9)
        assert held.return_time[1 - left, v] == pytest.approx(1 / (3 * zeros[-1] ** 2 - 1), rel=1e-9)
        if len(zeros) == 3:
            assert held.shock[left, v] == pytest.approx(zeros[1] - zeros[0], rel=1e-3)
            assert held.shock_vector[left, v, 0] == pytest.approx(zeros[1] - zeros[0], rel=1e-3)
            assert abs(held.share[left, v] - (zeros[1] + 2) / 4) < 3 * held.share_error[left, v]
        else:
            assert np.isnan(held.places[left, v]).all() and held.share[left, v] == 0
    # Both members hold the left well at p = 0.2: intervals reach to the shock of the tilted one.
    low, high = held.interval("shock")[left, 1]
    tilted = np.sort(np.roots([-1, 0, 1, 0.21]).real)
    assert high - low == pytest.approx(2 * abs(held.shock[left, 1] - (tilted[1] - tilted[0])), rel=0.05)
    assert "smallest shock" in str(held) and held.to_xarray()["shock_drawn"].shape == (2, 2, 4)
    drawing = held.plot()
    assert set(drawing.artists) == {"share", "shock", "return_time"}
    named = [text.get_text() for text in drawing.axes[0].figure.legends[0].get_texts()]
    assert named == [f"{k}: {kind}" for k, kind in enumerate(held.kinds)]


def test_the_smallest_shock_in_the_plane_is_the_distance_to_a_curved_boundary():
    """u' = u - u^3, v' = -v in x = u + v^2, y = v: from (1, 0) to the boundary x = y^2 it is sqrt(3) / 2."""

    def bent(x, p):
        u = x[:, 0] - x[:, 1] ** 2
        return np.stack([u - u**3 - 2 * x[:, 1] ** 2, -x[:, 1]], axis=1)

    family = FieldFamily.from_callable(bent, 2, "p")
    held = resilience(family, [0.0], [(-2, 2), (-1.5, 1.5)], unit=[1.0, 1.0], n_sample=64)
    right = int(np.argmax(held.places[:, 0, 0]))
    assert held.shock[right, 0] == pytest.approx(np.sqrt(3) / 2, rel=1e-2)
    assert np.linalg.norm(held.shock_vector[right, 0]) == pytest.approx(held.shock[right, 0])
    assert held.return_time[right, 0] == pytest.approx(1.0, rel=1e-6)


def test_a_cycle_inside_a_repelling_one_is_lost_at_its_distance():
    """r' = r (1 - r^2) (4 - r^2): from r = 1 the shortest way out of r = 2 is 1; multiplier exp(-6 pi)."""

    def rings(x, p):
        square = np.sum(x**2, axis=1, keepdims=True)
        return x * (1 - square) * (4 - square) + 2 * np.stack([-x[:, 1], x[:, 0]], axis=1)

    family = FieldFamily.from_callable(rings, 2, "p")
    held = resilience(family, [0.0], [(-3, 3), (-3, 3)], unit=[2.0, 2.0], n_sample=64, n_directions=16)
    assert held.kinds == (AttractorKind.CYCLE,)
    assert held.shock[0, 0] == pytest.approx(0.5, rel=1e-2)
    assert held.return_time[0, 0] == pytest.approx(1 / 6, rel=1e-6)
    assert abs(held.share[0, 0] - np.pi * 4 / 36) < 3 * held.share_error[0, 0]


def test_the_smallest_shock_of_a_cycle_is_at_the_phase_nearest_to_its_edge():
    """Two cycles of a Lienard field, .8383 apart where they are nearest, .904 at the best of four phases."""

    def field(x, p):
        return np.stack(
            [x[:, 1] + p * x[:, 0] * (0.8 - 4 / 3 * x[:, 0] ** 2 + 0.32 * x[:, 0] ** 4), -x[:, 0]], 1
        )

    family = FieldFamily.from_callable(field, 2, "p")
    held = resilience(family, [1.0], [(-4, 4)] * 2, unit=[1.0, 1.0], n_sample=32, n_directions=16)
    assert held.kinds == (AttractorKind.CYCLE,)
    np.testing.assert_allclose(held.shock, 0.8383, rtol=1e-2)


def test_what_does_not_fit_is_said():
    family = FieldFamily.from_callable(wells, 1, "p")
    with pytest.raises(TypeError, match="FieldFamily"):
        resilience(CallableField(lambda x: -x, 1), [0.0])
    with pytest.raises(ValueError, match="members"):
        resilience(family, [0.0], [(-2, 2)], n_draws=3)
    with pytest.raises(ValueError, match="unit"):
        resilience(family, [0.0], [(-2, 2)], unit=[-1.0])
