"""Phase response curves and isochrons against closed forms, finite shifts and other routes."""

import numpy as np
import pytest

from fim_dynsys import CallableField, EnsembleField, systems
from fim_dynsys.analyze import isochrons, limit_cycles, phase_response
from fim_dynsys.simulation.solution import integrate

BOX = [(-1.6, 1.6), (-1.6, 1.6)]


def twisted(a, speed=2.0):
    """r' = r (1 - r^2), angle' = speed + a (1 - r^2): the phase is (angle - a log r) / (2 pi)."""

    def rates(x):
        inward = 1.0 - np.sum(x**2, axis=1, keepdims=True)
        return x * inward + (speed + a * inward) * np.stack([-x[:, 1], x[:, 0]], axis=1)

    return CallableField(rates, 2)


@pytest.mark.parametrize("a", [0.0, 1.5, -3.0])
def test_the_curve_of_a_twisted_clock_is_its_closed_form(a):
    curve = phase_response(twisted(a), BOX)
    angle = np.arctan2(curve.orbit[:, 1], curve.orbit[:, 0])
    exact = np.stack([-np.sin(angle) - a * np.cos(angle), np.cos(angle) - a * np.sin(angle)], axis=1) / (
        2 * np.pi
    )
    assert curve.period == pytest.approx(np.pi, abs=1e-9)
    assert curve.response == pytest.approx(exact, abs=1e-6)
    assert curve.residual < 1e-7
    assert len(curve.drawn) == 0 and np.isnan(curve.interval()).all() and np.isnan(curve.existence)


def test_isochrons_of_a_twisted_clock_are_its_closed_form():
    a = 1.5
    cycles = limit_cycles(twisted(a), BOX, n_seeds=8)
    found = isochrons(twisted(a), BOX, cycles=cycles, resolution=12)
    x, y = np.meshgrid(*found.axes, indexing="ij")
    first = np.arctan2(cycles.x[0, 1], cycles.x[0, 0])
    exact = (np.arctan2(y, x) - a * np.log(np.hypot(x, y)) - first) / (2 * np.pi)
    off = (found.phase - exact + 0.5) % 1.0 - 0.5
    assert np.abs(off).max() < 1e-6
    assert set(found.plot().artists) == {"phases", "cycle"}


def test_a_small_shift_advances_the_oscillation_as_the_curve_says():
    """Van der Pol: states shifted by 1e-3 are followed onto the cycle, which the adjoint does not do."""
    field = systems.get("van_der_pol").field()
    box = [(-3, 3), (-4, 4)]
    cycles = limit_cycles(field, box, n_seeds=8)
    curve = phase_response(field, box, cycles=cycles, n_phases=16)
    turns = 6 * curve.period
    for i in range(2):
        kick = 1e-3 * np.eye(2)[i]
        end = [
            integrate([field], curve.orbit + s * kick, np.array([0.0, turns]), rtol=1e-11).x_stop
            for s in (1, -1)
        ]
        # On the cycle the difference along the flow is a shift in time.
        flow = field(curve.orbit)
        moved = np.sum((end[0] - end[1]) * flow, axis=1) / np.sum(flow**2, axis=1) / 2e-3 / curve.period
        assert moved == pytest.approx(curve.response[:, i], abs=2e-5)


def test_bands_over_draws_hold_the_spread_of_their_curves():
    """Clocks of speeds 1.9 to 2.1 twisted by 0 to 1: each curve in closed form."""
    twists = np.linspace(0.0, 1.0, 9)
    members = EnsembleField([twisted(a, 1.9 + 0.2 * a) for a in twists])
    curve = phase_response(twisted(0.5), BOX, n_draws=members)
    assert curve.existence == pytest.approx(1.0)
    assert curve.drawn_period == pytest.approx(2 * np.pi / (1.9 + 0.2 * twists), abs=1e-5)
    sizes = np.linalg.norm(curve.drawn, axis=2)
    assert sizes == pytest.approx(np.tile(np.sqrt(1 + twists[:, None] ** 2) / (2 * np.pi), (1, 64)), abs=1e-4)
    low, high = np.moveaxis(curve.interval(), -1, 0)
    assert ((low <= curve.response) & (curve.response <= high)).all() and (high - low).max() > 0.05
    assert "90 %" in str(curve) and curve.to_xarray()["response_drawn"].shape == (9, 64, 2)
    assert len(curve.plot().artists["bands"]) == 2


def test_what_is_not_there_is_said():
    with pytest.raises(ValueError, match="of 0 found"):
        phase_response(systems.get("damped_oscillator").field(), n_phases=16)
    repelling = CallableField(lambda x: -twisted(0.0)(x), 2)
    with pytest.raises(ValueError, match="stable"):
        isochrons(repelling, BOX)


@pytest.mark.parametrize("height", [0.0, 0.3])
def test_a_state_that_rests_on_the_cycle_has_a_response_too(height):
    """theta' = 2 + z - h, z' = h - z: a shift of z by s ends a phase of s / (2 pi) ahead."""

    def rates(x):
        radial = 1.0 - x[:, 0] ** 2 - x[:, 1] ** 2
        turn = 2.0 + x[:, 2] - height
        x0, x1 = x[:, 0] * radial - x[:, 1] * turn, x[:, 1] * radial + x[:, 0] * turn
        return np.stack([x0, x1, height - x[:, 2]], axis=1)

    field, box = CallableField(rates, 3), [(-1.5, 1.5), (-1.5, 1.5), (-1.0, 1.0)]
    cycles = limit_cycles(field, box)
    curve = phase_response(field, box, cycles=cycles)
    np.testing.assert_allclose(curve.response[:, 2], 1 / (2 * np.pi), rtol=1e-9)
    found = isochrons(field, box, cycles=cycles, resolution=4, coordinates=(0, 1), at=[0, 0, height + 0.5])
    ahead = isochrons(field, box, cycles=cycles, resolution=4, coordinates=(0, 1), at=[0, 0, height])
    np.testing.assert_allclose((found.phase - ahead.phase) % 1.0, 0.5 / (2 * np.pi), atol=1e-6)


@pytest.mark.parametrize("unit", [1e-4, 1e-2])
def test_responses_of_fields_that_know_no_length_are_the_same_in_any_unit(unit):
    """Of Rosenzweig and MacArthur's cycle at K = 4."""

    def rates(s):
        x, y = s.T / unit
        eaten = 2 * x * y / (1 + x)
        return unit * np.stack([x * (1 - x / 4) - eaten, eaten - y], axis=1)

    found = phase_response(CallableField(rates, 2), [(0, 5 * unit)] * 2)
    assert np.abs(found.response).max(axis=0) * unit == pytest.approx([1.505916, 1.421216], rel=1e-5)
