"""Zeros at the edge of a field's domain, and fields with jumps and poles, against closed forms."""

import numpy as np
import pytest

from fim_dynsys import CallableField, analyze
from fim_dynsys.analyze.equilibria.balance import UNDEFINED
from fim_dynsys.analyze.jumps import described, discontinuities_within
from fim_dynsys.regions import Region

ISOLATED, EDGE, JUMP = (
    analyze.PointStatus.ISOLATED,
    analyze.PointStatus.DOMAIN_EDGE,
    analyze.PointStatus.ON_JUMP,
)


def line(f, low, high):
    return analyze.fixed_points(CallableField(f, 1), [(low, high)])


@pytest.mark.parametrize(
    ("f", "box", "zeros", "first"),
    [
        (lambda s: np.sqrt(s) * (1 - s), (0, 2), [0, 1], np.inf),
        (lambda s: -np.sqrt(s), (0, 2), [0], -np.inf),
        (lambda s: s**0.3 * (1 - s), (0, 2), [0, 1], np.inf),
        (lambda s: -s * np.log(s / 2), (0, 3), [0, 2], np.inf),  # Gompertz: no value at 0, a limit
        (lambda s: np.sqrt(s - 1) * (2 - s), (0.5, 3), [1, 2], np.inf),
        (lambda s: np.sqrt(2 - s) * (s - 1), (0.5, 3), [1, 2], 1.0),
        (lambda s: s**1.5 * (1 - s), (0, 2), [0, 1], 0.0),
        (lambda s: -s + s**1.5, (0, 2), [0, 1], -1.0),
        (lambda s: np.log(s), (0, 2), [1], 1.0),  # the edge at 0 is no zero
    ],
)
def test_zeros_at_the_edge_of_the_domain_of_a_line(f, box, zeros, first):
    found = line(f, *box)
    np.testing.assert_allclose(found.x.ravel(), zeros, atol=1e-9)
    np.testing.assert_allclose(found.eigenvalues[0].real, [first], atol=1e-4)
    assert found.index_check == "not_run" and found.balance.reason == UNDEFINED


def test_extinction_and_exclusion_in_the_plane():
    """Competition with fractional powers: both, either or neither species, as solved by hand."""

    def compete(x):
        a, b = x.T
        return np.stack([np.sqrt(a) * (1 - a - 0.5 * b), np.sqrt(b) * (1 - b - 0.5 * a)], axis=1)

    found = analyze.fixed_points(CallableField(compete, 2), [(0, 2)] * 2)
    np.testing.assert_allclose(found.x, [[0, 0], [0, 1], [2 / 3, 2 / 3], [1, 0]], atol=1e-9)
    assert [s is EDGE for s in found.status] == [True, True, False, True]
    assert [str(kind) for kind in found.kind] == ["unstable node", "saddle", "stable node", "saddle"]
    assert np.isnan(found.index[[0, 1, 3]]).all() and UNDEFINED in str(found)


def test_a_hill_predator():
    """Holling type III with exponent 1.5: prey dies out with the predator, and the field beyond is NaN."""

    def hunted(x):
        n, p = x.T
        eaten = n**1.5 / (1 + n**1.5)
        return np.stack([n * (1 - n) - eaten * p, p * (eaten - 0.3)], axis=1)

    found = analyze.fixed_points(CallableField(hunted, 2), [(0, 2)] * 2)
    n = (0.3 / 0.7) ** (2 / 3)
    expected = [[0, 0], [n, n * (1 - n) / 0.3], [1, 0]]
    np.testing.assert_allclose(found.x, expected, atol=1e-9)
    np.testing.assert_allclose(found.eigenvalues[0].real, [1, -0.3], atol=1e-3)


def test_an_oblique_edge():
    def f(x):
        return np.stack([np.sqrt(1 - x[:, 0] - x[:, 1]), x[:, 0] - x[:, 1]], axis=1)

    found = analyze.fixed_points(CallableField(f, 2), [(0, 2)] * 2)
    np.testing.assert_allclose(found.x, [[0.5, 0.5]], atol=1e-9)
    assert found.status[0] is EDGE


def test_edges_of_edges_in_space():
    def f(x):
        a, b, c = x.T
        return np.stack([np.sqrt(a) * (1 - a - b - c), np.sqrt(b) * (2 - b), np.sqrt(c) * (0.5 - c)], axis=1)

    found = analyze.fixed_points(CallableField(f, 3), [(0, 3)] * 3)
    # each of b and c is 0 or not, and a is 0, or 1 - b - c where that is positive
    expected = [[a, b, c] for b in (0, 2) for c in (0, 0.5) for a in {0.0, max(0.0, 1.0 - b - c)}]
    np.testing.assert_allclose(found.x, sorted(expected), atol=1e-8)


def test_jumps_and_poles_are_named():
    box = Region([(-2, 2)] * 2)
    unit = np.ones(2)

    def named(f):
        found = discontinuities_within(f, box, unit)
        return described(found, ["x", "v"], box.size) if found else ""

    assert named(lambda x: np.stack([x[:, 1], -x[:, 0] + np.sign(x[:, 1])], 1)) == "v' jumps where v = 0"
    assert named(lambda x: np.stack([1 / (x[:, 0] - 0.3), x[:, 1]], 1)) == "x' has a pole where x = 0.3"
    assert named(lambda x: np.stack([np.where(x.sum(1) > 0.5, 1.0, -1.0), x[:, 1]], 1)).startswith(
        "x' jumps near"
    )
    assert named(lambda x: np.stack([x[:, 0] ** 3, np.tanh(1e4 * x[:, 1])], 1)) == ""  # steep, but smooth
    assert named(lambda x: np.abs(x)) == ""  # a kink is no jump


def test_fixed_points_name_what_breaks_the_index_check():
    pole = analyze.fixed_points(CallableField(lambda x: 1 / (x - 0.25) - 1, 1), [(-2, 2)])
    np.testing.assert_allclose(pole.x, [[1.25]], atol=1e-12)
    assert pole.index_check == "mismatch" and "x0' has a pole where x0 = 0.25" in str(pole)
    relay = analyze.fixed_points(CallableField(lambda x: 0.3 - np.sign(x), 1), [(-2, 2)])
    assert len(relay) == 0 and "x0' jumps where x0 = 0" in str(relay)
    rubbing = CallableField(lambda x: np.stack([x[:, 1], -x[:, 0] - 0.5 * x[:, 1] + np.sign(x[:, 1])], 1), 2)
    found = analyze.fixed_points(rubbing, [(-2, 2)] * 2)
    assert all(status is JUMP for status in found.status) and np.isnan(found.eigenvalues).all()
    assert "x1' jumps where x1 = 0" in str(found)


def test_multipliers_of_a_cycle_across_a_jump():
    """x'' = -x - c x' + sign x': by exact half turns the multiplier is exp(-c T / 2), T = 2 pi / w."""
    c = 0.5
    period = 2 * np.pi / np.sqrt(1 - c**2 / 4)
    field = CallableField(lambda s: np.stack([s[:, 1], -s[:, 0] - c * s[:, 1] + np.sign(s[:, 1])], axis=1), 2)
    found = analyze.limit_cycles(field, [(-4, 4)] * 2, n_seeds=8, budget=600_000)
    np.testing.assert_allclose(found.period, [period], rtol=1e-6)
    np.testing.assert_allclose(found.multipliers[0].real, [1, np.exp(-c * period / 2)], atol=1e-3)
    assert found.stable.tolist() == [True] and "x1' jumps" in str(found)


@pytest.mark.parametrize(
    ("f", "box", "zeros"),
    [
        (lambda x: np.cbrt(x) * (1 - x), (-1, 2), [0, 1]),
        (lambda x: -np.sign(x) * np.abs(x) ** 0.2 * (x - 0.5) * (x + 0.7), (-1, 1), [-0.7, 0, 0.5]),
        (lambda x: -np.sign(x - 0.3), (-1, 1), []),
        (lambda x: 1 / x, (-1, 1), []),
    ],
)
def test_changes_of_sign_on_the_line(f, box, zeros):
    """Newton's method does not reach vertical tangents; jumps and poles change the sign without a zero."""
    found = analyze.fixed_points(CallableField(f, 1), [box])
    assert np.sort(found.x.ravel()) == pytest.approx(zeros, abs=1e-9)


def herd(x):
    """Prey that defends itself as a herd: rates go like the root of its number, which is never negative."""
    with np.errstate(invalid="ignore"):
        root = np.sqrt(x[:, 0])
    return np.stack([x[:, 0] * (1 - x[:, 0]) - root * x[:, 1], x[:, 1] * (0.5 * root - 0.3)], axis=1)


@pytest.mark.parametrize("size", [1.2, 2.0])
def test_points_without_derivatives_leave_the_others_found(size):
    field, box = CallableField(herd, 2), [(0, size), (0, size)]
    traced = analyze.manifolds(field, box)
    known = traced.fixed_points
    assert traced.rough >= 1 and "no derivatives" in str(traced) and len(traced) == 4
    (inner,) = np.flatnonzero((known.x > 0.1).all(axis=1))
    np.testing.assert_allclose(known.x[inner], [0.36, 0.384], atol=1e-9)
    with np.errstate(invalid="ignore"):
        found = analyze.basins(field, box, resolution=4, n_sample=16)
    assert len(found.attractors) == 1
    assert found.fractions[-3] == 0.0 or "undefined" in str(found)  # extinct in a finite time
