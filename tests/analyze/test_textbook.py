"""Textbook inputs whose right values are known by another route: closed forms, roots, linear algebra."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import expm
from scipy.optimize import brentq

from fim_dynsys import CallableField, analyze
from fim_dynsys.analyze import CycleKind

RELAXED = 6.66328686  # period of van der Pol's oscillator at mu = 1


def field(rates, names=None):
    dim = rates.__code__.co_argcount
    return CallableField(lambda x: np.stack(rates(*x.T), axis=1), dim, state_names=names)


def roots(f, low, high, n=4000):
    places = np.linspace(low, high, n)
    return [brentq(f, a, b, xtol=1e-13) for a, b in pairwise(places) if f(a) * f(b) < 0]


def hill(x):
    return x**1.5 / (0.3 + x**1.5)


# ---------------------------------------------------------------------- fixed points on levels and at edges

DIMER = brentq(lambda a: a + 2 * a**2 + 2 * a**2 / (a**2 + 0.5) - 4, 0, 4)
SWITCH = brentq(lambda w: (1 - w) / (1.1 - w) - 0.8 * w / (0.1 + w), 0, 1)
LEVELS = {
    "SIS": (
        lambda s, i: (-0.4 * s * i + 0.3 * i, 0.4 * s * i - 0.3 * i),
        "S I",
        {"S+I": 2.0},
        [[0.75, 1.25], [2, 0]],
    ),
    "dimerisation": (lambda a, b: (-2 * a * a + 2 * b, a * a - b), "A B", {"A+2*B": 3.0}, [[1, 1]]),
    "difference": (
        lambda x, y: (0.1 - x * y, 0.1 - x * y),
        "x y",
        {"x-y": 1.0},
        [[(1 + np.sqrt(1.4)) / 2, (np.sqrt(1.4) - 1) / 2]],
    ),
    "enzyme, irreversible": (
        lambda s, e, c, p: (-s * e + 0.5 * c, -s * e + 1.5 * c, s * e - 1.5 * c, c),
        "S E C P",
        {"E+C": 1.0, "S+C+P": 1.0},
        [[0, 1, 0, 1]],
    ),
    "zero-order switch": (
        lambda w, p: (-w / (0.1 + w) + 0.8 * p / (0.1 + p), w / (0.1 + w) - 0.8 * p / (0.1 + p)),
        "W P",
        {"W+P": 1.0},
        [[1 - SWITCH, SWITCH]],
    ),
    "dimer that binds": (
        lambda a, d, b, c: (
            -2 * a * a + 2 * d,
            a * a - d - d * b + 0.5 * c,
            0.5 * c - d * b,
            d * b - 0.5 * c,
        ),
        "A D B C",
        {"A+2*D+2*C": 4.0, "B+C": 1.0},
        [[DIMER, DIMER**2, 0.5 / (DIMER**2 + 0.5), DIMER**2 / (DIMER**2 + 0.5)]],
    ),
}


@pytest.mark.parametrize("name", LEVELS)
def test_fixed_points_on_a_level_set(name):
    rates, names, level, expected = LEVELS[name]
    found = analyze.fixed_points(field(rates, names.split()), [(-0.1, 4.1)] * len(names.split()), level=level)
    x = found.x[found.is_root]
    assert x[np.argsort(x[:, 0])] == pytest.approx(np.array(expected), abs=1e-7)
    assert all(total.replace("*", "").replace(" ", "") in str(found).replace(" ", "") for total in level)


EDGES = {
    "Gompertz": (lambda x: (-0.5 * x * np.log(x / 2),), [(0, 3)], [[0], [2]]),
    "x log x": (
        lambda x: (-x * np.log(x) - 0.2,),
        [(0, 2)],
        [[r] for r in roots(lambda x: -x * np.log(x) - 0.2, 1e-3, 1)],
    ),
    "Hill, exponent 2.5": (
        lambda x: (x**2.5 / (1 + x**2.5) - 0.4 * x,),
        [(0, 4)],
        [[0], *([r] for r in roots(lambda x: x**1.5 - 0.4 * (1 + x**2.5), 1e-3, 4))],
    ),
    "two tanks": (lambda a, b: (1 - np.sqrt(a), np.sqrt(a) - 0.5 * np.sqrt(b)), [(0, 6)] * 2, [[1, 4]]),
    "chemostat": (
        lambda x, s: (
            x * (np.sqrt(s) / (1 + np.sqrt(s)) - 0.5),
            0.5 * (2 - s) - x * np.sqrt(s) / (1 + np.sqrt(s)),
        ),
        [(0, 3)] * 2,
        [[0, 2], [1, 1]],
    ),
    "predator, exponent 1.5": (
        lambda x, y: (x * (1 - x) - y * hill(x), y * (0.8 * hill(x) - 0.4)),
        [(0, 1.3), (0, 2)],
        [[0, 0], [0.3 ** (2 / 3), 2 * (1 - 0.3 ** (2 / 3)) * 0.3 ** (2 / 3)], [1, 0]],
    ),
}


@pytest.mark.parametrize("name", EDGES)
def test_extinction_and_other_zeros_at_edges(name):
    rates, box, expected = EDGES[name]
    found = analyze.fixed_points(field(rates), box)
    assert found.x[np.argsort(found.x[:, 0])] == pytest.approx(np.array(expected), abs=1e-6)


@pytest.mark.parametrize("push", [0.0, 0.3])
def test_equilibria_of_sliding_are_put_down_to_the_jump(push):
    """Also where the two sides are constants, on which Newton's method uses the budget up."""
    found = analyze.fixed_points(field(lambda x, y: (push - np.sign(x), -y)), [(-2, 2)] * 2, budget=20_000)
    assert "x0' jumps where x0 = 0" in str(found)


# ---------------------------------------------------------------------- cycles


def well(level):
    """Cycles on H = level of the double well, H = y^2/2 - x^2/2 + x^4/4."""
    return lambda x, y: (y, x - x**3 - y * (y**2 / 2 - x**2 / 2 + x**4 / 4 - level))


def radial(*radii):
    def rates(x, y):
        r = np.hypot(x, y)
        growth = 0.1 * np.prod([radius - r for radius in radii], axis=0)
        return x * growth - y, y * growth + x

    return rates


def in_a_well():
    """Period on H = -0.1 between a and b: dx / sqrt((x^2 - a^2)(b^2 - x^2) / 2), x = m + h sin."""
    a, b = np.sqrt(1 - np.sqrt(0.6)), np.sqrt(1 + np.sqrt(0.6))
    x = lambda s: (a + b) / 2 + (b - a) / 2 * np.sin(s)  # noqa: E731
    return 2 * quad(lambda s: 1 / np.sqrt((x(s) + a) * (b + x(s)) / 2), -np.pi / 2, np.pi / 2)[0]


def round_both_wells():
    b = 1 + np.sqrt(1.8)
    return 4 * quad(lambda s: 1 / np.sqrt((b * np.sin(s) ** 2 + b - 2) / 2), 0, np.pi / 2)[0]


CYCLES = {
    "nested, five": (radial(1, 2, 3, 4, 5), [(-6, 6)] * 2, [2 * np.pi] * 5),
    "side by side": (well(-0.1), [(-2, 2), (-1.5, 1.5)], [in_a_well()] * 2),
    "round both wells": (well(0.2), [(-2, 2), (-1.5, 1.5)], [round_both_wells()]),
    "far from the origin": (
        lambda x, y: (y + 50, (1 - (x - 100) ** 2) * (y + 50) - (x - 100)),
        [(97, 103), (-53, -47)],
        [RELAXED],
    ),
    "time in units of 1e-20": (
        lambda x, y: (1e-20 * y, 1e-20 * ((1 - x**2) * y - x)),
        [(-3, 3)] * 2,
        [1e20 * RELAXED],
    ),
    "states of 1e-20 and 1e20": (
        lambda x, y: (1e-40 * y, (1 - (1e20 * x) ** 2) * y - 1e40 * x),
        [(-3e-20, 3e-20), (-3e20, 3e20)],
        [RELAXED],
    ),
}


@pytest.mark.parametrize("name", CYCLES)
def test_cycles_with_known_periods(name):
    rates, box, expected = CYCLES[name]
    found = analyze.limit_cycles(field(rates), box, n_seeds=16)
    assert found.period == pytest.approx(expected, rel=1e-6)


def test_relays_by_their_exact_half_turns():
    """Linear between jumps: an oscillator with damping 0.1, and the third-order lag with a relay."""
    omega = np.sqrt(0.99)
    found = analyze.limit_cycles(
        field(lambda x, v: (v, -0.2 * v - x + np.sign(v))), [(-12, 12)] * 2, n_seeds=4
    )
    assert found.period == pytest.approx([2 * np.pi / omega], abs=1e-5)
    assert found.multipliers[0, 1].real == pytest.approx(np.exp(-0.2 * np.pi / omega), abs=1e-4)
    a, b = np.array([[-1.0, 0, 0], [1, -1, 0], [0, 1, -1]]), np.array([-1.0, 0, 0])

    def output(half):
        turn = expm(a * half)
        return np.linalg.solve(np.eye(3) + turn, np.linalg.solve(a, (np.eye(3) - turn) @ b))[2]

    lag = analyze.limit_cycles(
        field(lambda p, q, r: (-p - np.sign(r), p - q, q - r)), [(-1, 1)] * 3, n_seeds=8
    )
    assert lag.period == pytest.approx([2 * brentq(output, 1, 10)], abs=1e-4)
    assert "jumps" in lag.jumps


@pytest.mark.parametrize("total", [2.0, 2.1])
def test_may_leonard(total):
    """A family of closed orbits, of which five are listed at most, and an attracting heteroclinic loop."""
    b = total - 0.8

    def rates(x, y, z):
        return x * (1 - x - 0.8 * y - b * z), y * (1 - b * x - y - 0.8 * z), z * (1 - 0.8 * x - b * y - z)

    found = analyze.limit_cycles(field(rates), [(0, 1.2)] * 3, n_seeds=8)
    assert all(kind is CycleKind.CENTRE for kind in found.kind)
    assert 1 <= len(found) <= 5 if total == 2.0 else not len(found)


def test_centres_on_a_level_set():
    """Rock, paper, scissors on x + y + z = 1: small ones turn in 2 pi sqrt(3), larger ones more slowly."""
    rates = field(lambda x, y, z: (x * (y - z), y * (z - x), z * (x - y)), ["x", "y", "z"])
    found = analyze.limit_cycles(rates, [(0, 1)] * 3, level={"x+y+z": 1.0}, n_seeds=16)
    assert 1 <= len(found) <= 5 and all(kind is CycleKind.CENTRE for kind in found.kind)
    assert (found.period > 2 * np.pi * np.sqrt(3) - 1e-6).all()
