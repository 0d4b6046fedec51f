"""Manifolds of saddles against closed forms, energies, basin boundaries and symmetries."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from fim_dynsys import CallableField, Trajectories, systems
from fim_dynsys.analyze.equilibria.points import fixed_points
from fim_dynsys.analyze.phase_space.invariant import ManifoldEnd, manifolds


@pytest.mark.parametrize("power", [2, 3])
def test_manifolds_in_closed_form(power):
    """x' = x, y' = -y + x^p: stable along x = 0, unstable along y = x^p / (p + 1)."""
    field = CallableField(lambda x: np.stack([x[:, 0], x[:, 0] ** power - x[:, 1]], axis=1), 2)
    found = manifolds(field, [(-1, 1), (-1, 1)])
    assert [branch.stable for branch in found.branches] == [True, True, False, False]
    for branch in found.branches:
        x, y = branch.path.T
        exact = x if branch.stable else y - x**power / (power + 1)
        assert np.abs(exact).max() < 1e-9
        assert branch.eigenvalue == pytest.approx(-1 if branch.stable else 1, abs=1e-10)
        assert branch.end is ManifoldEnd.REGION and branch.residual < 1e-5


@pytest.mark.parametrize("unit", [1e-4, 1.0])
def test_launches_are_as_accurate_in_any_unit(unit):
    """x' = x, y' = -y + tanh(x)^2, in units: the unstable manifold bends by its second derivative at 0."""
    field = CallableField(lambda s: np.stack([s[:, 0], -s[:, 1] + unit * np.tanh(s[:, 0] / unit) ** 2], 1), 2)
    found = manifolds(field, [(-1.5 * unit, 1.5 * unit)] * 2)
    assert max(branch.residual for branch in found.branches) < 1e-5


def test_points_are_evenly_spaced():
    field = systems.get("toggle_switch").field()
    length = field.scales.length
    for branch in manifolds(field, spacing=0.02).branches:
        steps = np.linalg.norm(np.diff(branch.path, axis=0) / length, axis=1)
        # Close to equilibria, at either end, a branch is followed more slowly.
        assert steps[4:-8] == pytest.approx(np.full(len(steps) - 12, 0.02), rel=2e-3)


@pytest.mark.parametrize("width", [1.8, 2.5, 3.6])
def test_any_size_of_region_has_a_spacing(width):
    """Two hundred points a diagonal divide twenty diagonals evenly, but for rounding at these sizes."""
    field = CallableField(lambda x: x * [1.0, -1.0], 2)
    diagonal = float(np.linalg.norm([2 * width, 2.0]))
    found = manifolds(field, [(-width, width), (-1, 1)], spacing=diagonal / 200, longest=20 * diagonal)
    assert [branch.end for branch in found.branches] == [ManifoldEnd.REGION] * 4


def test_connections_of_the_pendulum_keep_their_energy():
    found = manifolds(systems.get("pendulum").field())
    assert len(found) == 8
    for branch in found.branches:
        angle, speed = branch.path.T
        assert speed**2 / 2 - np.cos(angle) == pytest.approx(np.ones(len(angle)), abs=1e-7)
    inner = [branch for branch in found.branches if branch.end is ManifoldEnd.FIXED_POINT]
    assert len(inner) == 4 and all(branch.limit not in (-1, branch.origin) for branch in inner)


def test_separatrix_of_competing_species_divides_their_fates():
    """On either side of the saddle's stable manifold, by an independent integrator, another species wins."""
    field = systems.get("competition").field()
    found = manifolds(field)
    assert len(found.separatrices) == 2
    path = np.concatenate([branch.path[10:-2:15] for branch in found.separatrices])
    path = path[field.region.contains(path) & (path > 0.05).all(axis=1)]
    assert len(path) > 8
    for x in path:
        ends = [
            solve_ivp(field.ivp, (0, 120), x + shift, method="LSODA", rtol=1e-9, atol=1e-12).y[:, -1]
            for shift in ([1e-4, 0.0], [-1e-4, 0.0])
        ]
        assert ends[0] == pytest.approx([3, 0], abs=1e-3) and ends[1] == pytest.approx([0, 2], abs=1e-3)


def test_ends():
    """The unstable branches of the damped double well reach its sinks; a cycle is approached for ever."""
    found = manifolds(systems.get("double_well").field())
    sinks = [branch.limit for branch in found.branches if not branch.stable]
    assert np.sort(found.fixed_points.x[sinks, 0]) == pytest.approx([-1, 1], abs=1e-8)
    # Van der Pol-Duffing: the unstable manifold of the saddle winds onto a stable cycle.
    field = CallableField(
        lambda x: np.stack([x[:, 1], x[:, 0] - x[:, 0] ** 3 + 0.3 * x[:, 1] * (1 - x[:, 0] ** 2)], axis=1), 2
    )
    winding = manifolds(field, [(-2.5, 2.5), (-2.5, 2.5)], longest=30.0)
    unstable = [branch for branch in winding.branches if not branch.stable]
    assert {branch.end for branch in unstable} == {ManifoldEnd.LENGTH}


def test_curves_in_space():
    """Lorenz: the symmetry (x, y) -> (-x, -y) maps branches onto each other; surfaces are left out."""
    field = systems.get("lorenz").with_parameters(rho=10.0).field()
    found = manifolds(field)
    assert found.skipped == 1 and "left out" in str(found)
    first, second = (branch for branch in found.branches if not branch.stable)
    assert first.end is ManifoldEnd.FIXED_POINT and first.limit != second.limit
    n = min(len(first.path), len(second.path)) - 2
    assert first.path[:n] * [-1, -1, 1] == pytest.approx(second.path[:n], abs=1e-6)
    expected = (-11 + np.sqrt(81 + 400)) / 2
    assert first.eigenvalue == pytest.approx(expected, abs=1e-9)


def test_support_budget_and_reuse():
    t = np.linspace(0, 1.5, 50)
    known = Trajectories.from_arrays(np.stack([np.exp(t - 1.5), np.zeros(50)], axis=1), t)
    field = CallableField(lambda x: x * [1.0, -1.0], 2, context=known)
    region = [(-1, 1), (-1, 1)]
    found = manifolds(field, region)
    right = next(b for b in found.branches if not b.stable and b.path[-1, 0] > 0)
    inside = (right.path[:, 0] > 0.25) & (right.path[:, 0] < 1)
    assert right.support[inside].min() > 0.9 and right.support[-1] < 0.01
    again = manifolds(field, region, found=fixed_points(field, region), budget=100)
    assert again.effort.exhausted and again.branches[0].end is ManifoldEnd.FAILED


def test_result():
    found = manifolds(systems.get("toggle_switch").field())
    assert "separ" not in str(found) and str(found).count("unstable") == 2
    stored = found.to_xarray()
    n = stored["n_points"].values
    assert stored["path"].shape == (4, n.max(), 2)
    assert np.isfinite(stored["path"].values[0, : n[0]]).all()
    assert stored["end"].values[0] == "left region"
    assert len(manifolds(systems.get("damped_oscillator").field())) == 0


def test_refusals():
    with pytest.raises(ValueError, match="spacing"):
        manifolds(systems.get("toggle_switch").field(), spacing=-1.0)
