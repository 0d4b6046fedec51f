"""Fields that vary on lengths far shorter than the region: half-saturations, pulses, thresholds."""

import numpy as np
import pytest

from fim_dynsys import CallableField, SymbolicField
from fim_dynsys.analyze import basins, fixed_points
from fim_dynsys.analyze.equilibria.kinds import Kind
from fim_dynsys.analyze.settled import Settled


def planar(x, y):
    return CallableField(lambda s: np.stack([x(*s.T), y(*s.T)], axis=1), 2)


@pytest.mark.parametrize("end", [5.0, 10.0])
@pytest.mark.parametrize("half", [1e-2, 1e-3, 1e-4])
def test_eigenvalues_beside_a_pole_outside_the_region(half, end):
    """Of 0.4 - x / (K + x) at x = 2 K / 3: -K / (K + x)^2."""
    found = fixed_points(CallableField(lambda x: 0.4 - x / (half + x), 1), [(0.0, end)])
    assert found.x.ravel() == pytest.approx([2.0 * half / 3.0])
    assert found.eigenvalues.real.ravel() == pytest.approx([-0.36 / half], rel=1e-6)
    assert found.index_check == "balanced"


@pytest.mark.parametrize("half", [1e-3, 2e-4, 1e-4])
def test_a_predator_with_a_small_half_saturation(half):
    """Against the formula of the Jacobian; with usual steps a stable focus."""
    field = planar(
        lambda x, y: x * (1 - x) - 0.5 * x * y / (half + x), lambda x, y: y * (x / (half + x) - 0.6)
    )
    found = fixed_points(field, [(0.0, 1.0), (0.0, 2.0)])
    x = 1.5 * half
    y = 2.0 * (1 - x) * (half + x)
    slope = half / (half + x) ** 2
    exact = np.linalg.eigvals([[1 - 2 * x - 0.5 * y * slope, -0.5 * x / (half + x)], [y * slope, 0.0]])
    i = int(np.argmin(np.abs(found.x - [x, y]).max(axis=1)))
    assert found.x[i] == pytest.approx([x, y])
    assert found.eigenvalues[i] == pytest.approx(exact[np.argsort(-exact.imag)], rel=1e-6)
    assert found.index_check == "balanced"


@pytest.mark.parametrize("half", [0.2, 0.005, 0.002, 0.001])
def test_the_operating_point_of_a_chemostat(half):
    """Its boundary must not be moved past the pole at s = -K."""
    field = planar(
        lambda s, x: 0.3 * (10 - s) - s / (half + s) * x, lambda s, x: 0.5 * s / (half + s) * x - 0.3 * x
    )
    text = SymbolicField(
        [f"0.3*(10 - s) - s/({half} + s)*x", f"0.5*s/({half} + s)*x - 0.3*x"], state_names=["s", "x"]
    )
    for given in (field, text):
        found = fixed_points(given, [(0.0, 11.0), (0.0, 6.0)])
        assert found.x == pytest.approx(np.array([[1.5 * half, 5.0 - 0.75 * half], [10.0, 0.0]]))
        assert found.index_check == "balanced"


def test_differences_that_do_not_settle_leave_the_kind_open():
    """x sin(log |x|) has no derivative at 0: differences turn with the step, and have both signs."""
    field = CallableField(lambda x: x * np.sin(3.0 * np.log(np.abs(x) + 1e-300)) + 0.1 * x, 1)
    settled = Settled.of(field, np.zeros((1, 1)), np.ones(1))
    assert not settled.settled.any()


def test_exact_jacobians_and_smooth_fields_need_no_shorter_steps():
    x = np.array([[0.3, -1.2]])
    vdp = planar(lambda x, v: v, lambda x, v: (1 - x**2) * v - x)
    settled = Settled.of(vdp, x, np.ones(2))
    assert settled.settled.all() and not settled.refined.any()
    assert settled.jac == pytest.approx(vdp.jacobian(x), abs=0.0)


def test_confirmed_derivatives_cost_little():
    """At most a tenth more evaluations than before: 10,768 of the Duffing oscillator."""
    counted = [0]

    def rates(s):
        counted[0] += len(s)
        return np.stack([s[:, 1], s[:, 0] - s[:, 0] ** 3 - 0.3 * s[:, 1]], axis=1)

    found = fixed_points(CallableField(rates, 2), [(-2.0, 2.0)] * 2)
    assert len(found) == 3 and counted[0] < 1.1 * 10_768
    assert Kind.INDETERMINATE not in found.kind


def test_a_basin_round_a_point_beside_a_pole():
    """Its ellipsoid is that of the confirmed Jacobian; with the usual one it was a foreign error."""
    field = CallableField(lambda x: 0.4 - x / (1e-3 + x), 1)
    found = basins(field, [(0.0, 10.0)], resolution=4, n_sample=8)
    assert np.ravel(found.attractors[0].points) == pytest.approx([2e-3 / 3.0], abs=1e-8)


def test_fields_that_vanish_over_most_of_the_region():
    """Their median says nothing of their speed, and smooth slopes are no jumps."""
    growth = fixed_points(CallableField(lambda x: x * np.exp(-x), 1), [(-1.0, 100.0)])
    assert growth.eigenvalues.ravel() == pytest.approx([1.0]) and growth.index_check == "balanced"
    turning = planar(lambda x, y: -y * np.exp(-(x**2) - y**2), lambda x, y: x * np.exp(-(x**2) - y**2))
    found = fixed_points(turning, [(-10.0, 10.0)] * 2)
    assert found.x == pytest.approx(np.zeros((1, 2)), abs=1e-9)
    assert found.eigenvalues == pytest.approx(np.array([[1j, -1j]])) and found.index_check == "balanced"


def test_fields_that_are_huge_in_a_corner_keep_their_zeros():
    found = fixed_points(CallableField(lambda x: x * (1 - x) * np.exp(x), 1), [(-1.0, 100.0)])
    assert found.x.ravel() == pytest.approx([0.0, 1.0], abs=1e-9)
    assert found.eigenvalues.real.ravel() == pytest.approx([1.0, -np.e])


def dead(x):
    return np.minimum(-(x - 1.0), 0.0) + np.maximum(-x - 1.0, 0.0)


@pytest.mark.parametrize(
    "field",
    [
        CallableField(dead, 1),
        CallableField(lambda x: dead(x / 1.03), 1),
        CallableField(lambda x: np.maximum(x - 0.7, 0.0), 1),
        planar(lambda x, y: dead(x), lambda x, y: x - y),
        planar(lambda x, y: x - np.clip(x, -1, 1), lambda x, y: -y),
    ],
)
def test_a_dead_zone_is_a_continuum(field):
    found = fixed_points(field, [(-3.0, 3.0)] * field.dim)
    assert len(found) and all(status == "not isolated" for status in found.status)
    assert not any(kind.stable for kind in found.kind)


@pytest.mark.parametrize(
    "field",
    [
        CallableField(lambda x: -x - 0.5 * np.abs(x), 1),
        planar(lambda x, y: y - np.abs(x), lambda x, y: -x - 0.4 * y - 0.2 * np.abs(y)),
    ],
)
def test_a_zero_at_a_kink_is_isolated(field):
    found = fixed_points(field, [(-3.0, 3.0)] * field.dim)
    assert [str(status) for status in found.status] == ["isolated"] and found.index_check == "balanced"
