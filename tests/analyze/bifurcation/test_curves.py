"""Curves of folds and Hopf points over two parameters against closed forms and published values."""

import numpy as np
import pytest

from fim_dynsys.analyze.bifurcation.curves import bifurcation_curves
from fim_dynsys.analyze.tracing.branches import BifurcationKind
from fim_dynsys.analyze.tracing.curve import BranchEnd
from fim_dynsys.fields.family import FieldFamily
from fim_dynsys.fields.plane import FieldPlane
from fim_dynsys.fields.symbolic import SymbolicField


def columns(*rates):
    return np.stack(np.broadcast_arrays(*rates), axis=1)


def test_the_cusp_and_its_folds():
    plane = FieldPlane.from_callable(lambda x, h, r: h + r * x - x**3, 1, ("h", "r"))
    found = bifurcation_curves(plane, [-2.0], (-2, 2), (-1, 2), q0=1.5)
    (curve,) = found.curves
    assert np.abs(27 * curve.p**2 - 4 * curve.q**3).max() < 1e-8
    (cusp,) = found.points
    assert cusp.kind is BifurcationKind.CUSP and cusp.coefficients["c"] == pytest.approx(-1, abs=1e-8)
    assert [cusp.p, cusp.q, cusp.x[0]] == pytest.approx([0, 0, 0], abs=1e-7)
    assert found.to_xarray().codimension_two_kind.values.tolist() == ["CP"]


def test_bogdanov_takens_ends_the_hopf_points():
    """x' = y, y' = p + q y + x^2 + x y: folds at p = 0, Hopf points at p = -q^2, q > 0."""
    plane = SymbolicField(["x1", "p + q*x1 + x0**2 + x0*x1"], {"p": 0.0, "q": 0.0}).plane(["p", "q"])
    found = bifurcation_curves(plane, [-1.0, 0.0], (-1, 1), (-1.5, 1.5), q0=0.5)
    hopf = next(c for c in found.curves if c.kind is BifurcationKind.HOPF)
    folds = next(c for c in found.curves if c.kind is BifurcationKind.FOLD)
    assert BranchEnd.DOUBLE_ZERO in hopf.ends and np.abs(hopf.p + hopf.q**2).max() < 1e-8
    assert np.abs(folds.p).max() < 1e-10
    (point,) = found.points
    assert point.kind is BifurcationKind.BOGDANOV_TAKENS
    assert [point.coefficients[name] for name in "ab"] == pytest.approx([1, 1], abs=1e-8)
    assert [point.p, point.q] == pytest.approx([0, 0], abs=1e-8)


def test_generalised_hopf():
    def bautin(s, p, q):
        x, y = s.T
        r2 = x**2 + y**2
        g = p + q * r2 - r2**2
        return columns(g * x - y, g * y + x)

    found = bifurcation_curves(FieldPlane.from_callable(bautin, 2), [0.0, 0.0], (-1, 1), (-1, 1))
    (point,) = found.points
    assert point.kind is BifurcationKind.GENERALIZED_HOPF and abs(point.q) < 1e-7
    (curve,) = found.curves
    assert ((curve.lyapunov_coefficient < 0) == (curve.q < 0))[np.abs(curve.q) > 1e-6].all()


def test_bazykin():
    """Kuznetsov 2004, example 8.3: two double zeros, a cusp, and a generalised Hopf point beside."""

    def bazykin(s, alpha, delta):
        u, v = s.T
        eaten = u * v / (1 + alpha * u)
        return columns(u - eaten - 0.01 * u**2, eaten - v - delta * v**2)

    plane = FieldPlane.from_callable(bazykin, 2, ("alpha", "delta"))
    found = bifurcation_curves(plane, [1.25, 1.1109], (0.1, 1.0), (0.0, 0.5), q0=0.1)
    places = {(point.kind.value, round(point.p, 4), round(point.q, 4)) for point in found.points}
    assert {("BT", 0.4536, 0.1751), ("BT", 0.8607, 0.0061), ("CP", 0.9012, 0.0036)} <= places


def test_a_pole_of_the_lyapunov_coefficient_is_passed():
    """Lorenz-84 (a = 1/4, b = 4): at the zero-Hopf point the coefficient changes sign, by no zero."""

    def lorenz_84(s, f, g):
        x, y, z = s.T
        return columns(-(y**2) - z**2 - x / 4 + f / 4, x * y - 4 * x * z - y + g, 4 * x * y + x * z - z)

    plane = FieldPlane.from_callable(lorenz_84, 3, ("F", "G"))
    start = [0.5647, 0.1316, 0.683]
    found = bifurcation_curves(plane, start, (2.5, 0.5), (0.5, 3.0), q0=1.6, max_points=200)
    (point,) = found.points
    assert point.kind is BifurcationKind.ZERO_HOPF
    assert [point.p, point.q] == pytest.approx([1.684, 1.683], abs=1e-3)
    hopf = next(c for c in found.curves if c.kind is BifurcationKind.HOPF)
    assert hopf.lyapunov_coefficient.min() < 0 < hopf.lyapunov_coefficient.max()
    assert found.effort.iterations < 220  # 100 more where the pole is located like a zero


def test_branch_points_that_are_not_followed_are_named():
    """(p - q) x - x^2 has branches that cross at p = q, and no fold."""
    plane = FieldPlane.from_callable(lambda x, p, q: (p - q) * x - x**2, 1, ("p", "q"))
    found = bifurcation_curves(plane, [0.0], (-1, 1), (-1, 1), [(-2, 2)], q0=0.25)
    assert found.branch_points == pytest.approx([0.25]) and not found.curves
    assert "cross (BP) at p = 0.25 where q = 0.25" in str(found)


def test_what_is_no_plane_is_refused():
    with pytest.raises(TypeError, match="expected a FieldPlane"):
        bifurcation_curves(FieldFamily.from_callable(lambda x, p: p - x**2, 1), [1.0], (0, 1), (0, 1))
    with pytest.raises(ValueError, match="q_range"):
        plane = FieldPlane.from_callable(lambda x, p, q: p - x**2, 1)
        bifurcation_curves(plane, [1.0], (1, -1), (0, 0))
