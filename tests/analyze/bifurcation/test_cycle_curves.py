"""Curves of bifurcations of cycles over two parameters against closed forms."""

import numpy as np
import pytest

from fim_dynsys.analyze.bifurcation.arclength import continuation
from fim_dynsys.analyze.bifurcation.curves import bifurcation_curves
from fim_dynsys.analyze.cycles.periodic import limit_cycles
from fim_dynsys.analyze.tracing.branches import BifurcationKind
from fim_dynsys.analyze.tracing.curve import BranchEnd
from fim_dynsys.fields.plane import FieldPlane


def columns(*rates):
    return np.stack(np.broadcast_arrays(*rates), axis=1)


def only(found, kind):
    (curve,) = (curve for curve in found.curves if curve.kind is kind)
    return curve


def test_folds_of_cycles_begin_at_a_generalised_hopf_point():
    """r' = r (p + q r^2 - r^4): folds at p = -q^2 / 4, q > 0. The first diagram, at q = -0.5, has none."""

    def bautin(s, p, q):
        x, y = s.T
        r2 = x**2 + y**2
        g = p + q * r2 - r2**2
        return columns(g * x - y, g * y + x)

    plane = FieldPlane.from_callable(bautin, 2)
    found = bifurcation_curves(plane, [0.0, 0.0], (-1, 1), (-1, 1), q0=-0.5, cycles=True)
    folds = only(found, BifurcationKind.CYCLE_FOLD)
    assert np.abs(folds.p + folds.q**2 / 4).max() < 1e-8
    assert folds.q.max() == pytest.approx(1) and folds.q.min() < 0.01
    assert set(folds.ends) == {BranchEnd.HOPF, BranchEnd.P_RANGE}
    assert np.linalg.norm(folds.x, axis=1) ** 2 == pytest.approx(folds.q / 2, abs=1e-6)
    assert {str(curve.kind) for curve in found.curves} == set(found.to_xarray().curve_kind.values)


def test_cusp_of_cycles():
    """r' = r (p + q w - w^3), w = r^2 - 1: folds at 27 p^2 = 4 q^3."""

    def cusp(s, p, q):
        x, y = s.T
        w = x**2 + y**2 - 1
        g = p + q * w - w**3
        return columns(g * x - y, g * y + x)

    plane = FieldPlane.from_callable(cusp, 2)
    found = bifurcation_curves(plane, [0.0, 0.0], (-1.5, 1), (-0.5, 1), q0=0.5, cycles=True)
    folds = only(found, BifurcationKind.CYCLE_FOLD)
    assert np.abs(27 * folds.p**2 - 4 * folds.q**3).max() < 1e-6
    (point,) = folds.points
    assert point.kind is BifurcationKind.CYCLE_CUSP and point.period == pytest.approx(2 * np.pi)
    assert [point.p, point.q] == pytest.approx([0, 0], abs=1e-8)
    assert "CPC" in str(found)


def test_tori_and_their_resonances():
    """r' = r (p - z), z' = r^2 - z + q z^2 / 2, angle' = 3: p q = 1, 2 pi / (3 sqrt q) a period."""

    def torus(s, p, q):
        a, b, z = s.T
        return columns((p - z) * a - 3 * b, (p - z) * b + 3 * a, a**2 + b**2 - z + q * z**2 / 2)

    plane = FieldPlane.from_callable(torus, 3)
    found = bifurcation_curves(plane, [0.0, 0.0, 0.0], (-0.5, 1.9), (0.6, 2), q0=1.2, cycles=True)
    tori = only(found, BifurcationKind.NEIMARK_SACKER)
    assert np.abs(tori.p * tori.q - 1).max() < 1e-8
    angle = 2 * np.pi / 3 / np.sqrt(tori.q)
    assert tori.eigenvalues.real.min(axis=1) == pytest.approx(np.cos(angle), abs=1e-6)
    places = {str(point.kind): (point.p, point.q) for point in tori.points}
    assert places["R3"] == pytest.approx((1, 1), abs=1e-6)
    assert places["R4"] == pytest.approx((9 / 16, 16 / 9), abs=1e-6)


def test_period_doublings_from_a_cycle_that_was_found():
    """Directions u, v across the circle turn by half a round: u' = (p - q^2) u, v' = (q/2 - 0.3) v."""

    def twist(s, p, q):
        x, y, z = s.T
        r = np.hypot(x, y)
        c, d, w = x / r, y / r, r - 1
        mean, half = (p - q**2 + 0.5 * q - 0.3) / 2, (p - q**2 - 0.5 * q + 0.3) / 2
        drop = w**2 + z**2
        dw = mean * w + half * (c * w + d * z) - z / 2 - drop * w
        dz = mean * z + half * (d * w - c * z) + w / 2 - drop * z
        return columns(dw * c - d * r, dw * d + c * r, dz)

    plane = FieldPlane.from_callable(twist, 3)
    cycle = limit_cycles(plane.at(-0.2, 0.3), [(-1.5, 1.5), (-1.5, 1.5), (-0.5, 0.5)], n_seeds=2)
    assert len(cycle) == 1
    found = bifurcation_curves(plane, cycle, (-0.3, 0.9), (-0.5, 0.9), p0=-0.2, q0=0.3, cycles=True)
    doublings = only(found, BifurcationKind.PERIOD_DOUBLING)
    assert np.abs(doublings.p - doublings.q**2).max() < 1e-4  # near R2 two multipliers are at -1
    away = np.abs(doublings.q - 0.6) > 0.1
    assert np.abs(doublings.p - doublings.q**2)[away].max() < 1e-7
    (point,) = doublings.points
    assert point.kind is BifurcationKind.RESONANCE_2
    assert [point.p, point.q] == pytest.approx([0.36, 0.6], abs=1e-4)


def test_homoclinic_orbits_begin_at_a_bogdanov_takens_point():
    """x' = y, y' = p + q y + x^2 + x y: p = -(49 / 25) q^2 to leading order (Kuznetsov 2004, section 8.4)."""

    def takens(s, p, q):
        x, y = s.T
        return columns(y, p + q * y + x**2 + x * y)

    plane = FieldPlane.from_callable(takens, 2)
    found = bifurcation_curves(plane, [-1.0, 0.0], (-1, 1), (-1.5, 1.5), q0=-0.5, cycles=True)
    orbits = only(found, BifurcationKind.HOMOCLINIC)
    rising = np.argsort(orbits.q)
    ratio = np.interp([0.1, 0.2, 0.4], orbits.q[rising], (orbits.p / orbits.q**2)[rising])
    assert (np.abs(ratio + 49 / 25) < [0.03, 0.06, 0.12]).all() and (np.diff(ratio) > 0).all()
    # The same orbits from cycles of growing period at one q, within the bound that the curve states.
    cycles = continuation(plane.family(0.5), [-np.sqrt(0.25), 0.0], (-0.25, -0.6)).cycles[0]
    limit = cycles.limits[1]
    number = int(np.argmin(np.abs(orbits.q - 0.5)))
    shift = (orbits.q[number] - 0.5) * np.gradient(orbits.p, orbits.q)[number]
    curved = 2 * (orbits.q[number] - 0.5) ** 2
    assert abs(orbits.p[number] - shift - limit.p) < 2 * orbits.error[number] + limit.error + curved
    assert orbits.error[number] < 1e-6 and (np.ptp(orbits.period) / orbits.period[0]) < 1e-8
