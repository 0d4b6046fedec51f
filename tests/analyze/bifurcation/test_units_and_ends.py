"""Continuation in small units, and of what happens exactly at the start or at an end of the range."""

import numpy as np
import pytest

from fim_dynsys import FieldFamily, FieldPlane, SymbolicField
from fim_dynsys.analyze.bifurcation.arclength import continuation
from fim_dynsys.analyze.bifurcation.curves import bifurcation_curves
from fim_dynsys.analyze.cycles.periodic import limit_cycles
from fim_dynsys.analyze.tracing.curve import BranchEnd
from fim_dynsys.analyze.tracing.equations import Equations

PITCHFORK = (["r*x - x**3"], ["x"])
TRANSCRITICAL = (["r*x - x**2"], ["x"])
HOPF = (["r*x - y - x*(x**2 + y**2)", "x + r*y - y*(x**2 + y**2)"], ["x", "y"])
LORENZ = (["10*(y - x)", "x*(r - z) - y", "x*y - 8/3*z"], ["x", "y", "z"])


def family(equations, names):
    return SymbolicField(equations, {"r": 0.0}, state_names=names).family("r")


def kinds(result):
    # Minima of |Re lambda|, which tell cusps and what is degenerate, are located to 1e-9 at best.
    return sorted((b.kind.value, round(b.p, 7)) for branch in result.branches for b in branch.bifurcations)


# ---------------------------------------------------------------------- units


@pytest.mark.parametrize("size", [1.0, 1e-2, 1e-3, 1e-6])
@pytest.mark.parametrize("start", [-1.2, 0.0])
def test_folds_are_found_in_any_units_of_the_state(size, start):
    """0 = r + x - x^3, both in units of `size`: folds at r = +-2 / sqrt(27), on one branch through both."""
    cubic = family([f"r + x - x**3/{size**2!r}"], ["x"])
    p0 = (-2 if start else 0) * size
    result = continuation(cubic, [start * size], (-2 * size, 2 * size), p0=p0)
    (branch,) = result.branches
    assert [b.kind.value for b in branch.bifurcations] == ["LP", "LP"]
    assert np.sort([b.p / size for b in branch.bifurcations]) == pytest.approx(
        np.array([-2, 2]) / np.sqrt(27), rel=1e-9
    )
    assert np.abs(np.diff(branch.x[:, 0])).max() < 0.2 * size  # no jump from fold to fold


@pytest.mark.parametrize("size", [1.0, 1e-3])
def test_cycles_are_followed_in_any_units_of_the_state(size):
    """The radius of the cycle is size * sqrt(r), up to what the inhomogeneity of a twentieth moves."""
    s = repr(size**2)
    hopf = family(
        [f"r*x - y - x*(x**2 + y**2)/{s} + {size / 20!r}", f"x + r*y - y*(x**2 + y**2)/{s}"], ["x", "y"]
    )
    (cycles,) = continuation(hopf, [0, size / 20], (-1, 1)).cycles
    assert cycles.p[-1] == 1
    assert np.linalg.norm(cycles.orbits[-1], axis=1).mean() / size == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("size", [1.0, 1e-2, 1e-3])
def test_curves_of_folds_are_found_in_any_units_of_the_state(size):
    """p + q x - x^3 / size^2: folds at p = +-2 q / 3 sqrt(q / 3) size, a cusp at 0."""
    cubic = SymbolicField([f"p + q*x - x**3/{size**2!r}"], {"p": 0.0, "q": 1.0}, state_names=["x"])
    found = bifurcation_curves(
        cubic.plane(["p", "q"]), [-1.2 * size], (-2 * size, 2 * size), (-1, 2), p0=-2 * size, q0=1.0
    )
    (curve,) = found.curves
    exact = 2 / 3 * curve.q * np.sqrt(np.abs(curve.q) / 3) * size
    assert np.abs(np.abs(curve.p) - exact).max() < 1e-8 * size
    assert [point.kind.value for point in found.points] == ["CP"]


@pytest.mark.parametrize("start", [0.0, 1e-12])
def test_a_start_at_zero_up_to_rounding_sets_no_unit(start):
    result = continuation(family(*PITCHFORK), [start], (-1, 1))
    assert kinds(result) == [("BP", 0.0)] and len(result.branches) == 2


def test_lengths_are_those_of_the_states_only_where_nothing_else_tells():
    cubic = family(["r - x"], ["x"])
    small, rounding = np.array([[1e-3], [-2e-3]]), np.array([[1e-12]])
    fitted = Equations(cubic, (-1, 1), None).fitted(small)
    assert fitted.length == pytest.approx(2e-3)
    assert fitted.room_in_region(np.zeros(1)) == pytest.approx(1e6 / 2e-3)  # branches go as far as before
    assert Equations(cubic, (-1, 1), None).fitted(rounding) is None
    assert Equations(cubic, (-1, 1), None).fitted(small + 0.5) is None


def test_steps_are_short_in_the_parameter_where_states_are_large():
    """Folds 1/20 of the range apart, at a state a thousand times larger than they are."""
    hill = family(["5000 + 25*r - x + 30*tanh(x - 5000)"], ["x"])
    result = continuation(hill, [4920.0], (-4, 4), p0=-2)
    assert [kind for kind, _ in kinds(result)] == ["LP", "LP"]


# ---------------------------------------------------------------------- units of fields that know no length


def predator_and_prey(unit, prey=1.0):
    """Of Rosenzweig and MacArthur: a Hopf point at K = 3, its coefficient times unit^2 is -sqrt(3)/8."""

    def rates(s, K):
        x, y = s.T / unit / [[1.0], [prey]]
        eaten = 2 * x * y / (1 + x)
        return unit * np.stack([x * (1 - x / K) - eaten, prey * (eaten - y)], axis=1)

    return FieldFamily.from_callable(rates, 2, "K")


@pytest.mark.parametrize("unit", [1e-9, 1e-3, 1e-2, 1e6])
@pytest.mark.parametrize("boxed", [False, True])
@pytest.mark.parametrize("exact", [False, True])
def test_a_hopf_point_is_the_same_in_any_unit(unit, boxed, exact):
    box = [(-0.1 * unit, 8 * unit)] * 2 if boxed else None
    prey = predator_and_prey(unit)
    if exact:
        texts = [f"x*(1 - x/({unit!r}*K)) - 2*x*y/({unit!r} + x)", f"y*(2*x/({unit!r} + x) - 1)"]
        prey = SymbolicField(texts, {"K": 2.0}, state_names=["x", "y"]).family("K")
    found = continuation(prey, [unit, unit / 2], (1.2, 6), box, p0=2.0, cycles=False)
    (hopf,) = found.bifurcations
    assert hopf.kind.value == "HB" and hopf.p == pytest.approx(3, abs=1e-8)
    assert hopf.lyapunov_coefficient * unit**2 == pytest.approx(-np.sqrt(3) / 8, rel=1e-5)


@pytest.mark.parametrize("prey", [1e-9, 1e-3, 1e3])
def test_states_may_have_units_of_their_own(prey):
    family = predator_and_prey(1e6, prey)
    (hopf,) = continuation(family, [1e6, 5e5 * prey], (1.2, 6), p0=2.0, cycles=False).bifurcations
    assert hopf.kind.value == "HB" and hopf.p == pytest.approx(3, abs=1e-8)
    # Of an eigenvector (1, -i prey / sqrt(3)) of length 1.
    square = (1 + prey**2 / 3) / (1 + 1 / 3)
    assert hopf.lyapunov_coefficient * 1e12 * square == pytest.approx(-np.sqrt(3) / 8, rel=1e-5)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_cycles_found_in_another_unit_are_followed(unit):
    prey = predator_and_prey(unit)
    box = [(-0.05 * unit, 8 * unit)] * 2
    (branch,) = continuation(prey, limit_cycles(prey.at(4.0), box, n_seeds=8), (2, 4.5), box, p0=4.0).cycles
    assert branch.p.min() == pytest.approx(3, abs=1e-5) and branch.p.max() == 4.5
    assert branch.period[branch.p.argmax()] == pytest.approx(14.2287784, rel=1e-7)


@pytest.mark.parametrize("unit", [1e-9, 1e4, 1e9])
@pytest.mark.parametrize("exact", [False, True])
def test_states_at_zero_are_as_large_as_where_the_field_bends(unit, exact):
    """A pitchfork, and van der Pol's Hopf point, whose coefficient times unit^2 is -1/4, from the origin."""
    if exact:
        fork = family([f"r*x - x**3/{unit**2!r}"], ["x"])
        clock = family(["y", f"-x + r*y - (x/{unit!r})**2*y"], ["x", "y"])
    else:
        fork = FieldFamily.from_callable(lambda s, r: r * s - s**3 / unit**2, 1)
        clock = FieldFamily.from_callable(
            lambda s, r: np.stack([s[:, 1], -s[:, 0] + (r - (s[:, 0] / unit) ** 2) * s[:, 1]], 1), 2
        )
    found = continuation(fork, [0.0], (-1, 1))
    assert kinds(found) == [("BP", 0.0)]
    arms = found.branches[1]
    assert arms.ends == (BranchEnd.P_RANGE, BranchEnd.P_RANGE)
    assert np.sort(arms.x[[0, -1], 0]) / unit == pytest.approx([-1, 1])
    (hopf,) = continuation(clock, [0.0, 0.0], (-1, 1), cycles=False).bifurcations
    assert hopf.kind.value == "HB" and hopf.lyapunov_coefficient * unit**2 == pytest.approx(-0.25)


@pytest.mark.parametrize("width", [1e-9, 1e-3, 1e6])
def test_the_range_is_the_scale_of_its_parameter(width):
    def rates(x, p):
        q = p / width
        return q**2 / (0.1 + q**2) - x + 2.2 * x**4 / (1 + x**4) - 0.3

    found = continuation(FieldFamily.from_callable(rates, 1), [-0.29], (0, 2 * width), p0=0.01 * width)
    (fold,) = found.bifurcations
    assert fold.kind.value == "LP" and fold.p / width == pytest.approx(0.45125664, rel=1e-7)


@pytest.mark.parametrize("unit", [1e-6, 1e-2])
def test_points_of_codimension_two_are_the_same_in_any_unit(unit):
    """Bazykin and Khibnik's generalised Hopf point at (1/8, 1/4)."""

    def rates(s, n, m):
        x, y = s.T / unit
        return unit * np.stack([x**2 * (1 - x) / (n + x) - x * y, -y * (m - x)], axis=1)

    plane = FieldPlane.from_callable(rates, 2)
    start = [0.3 * unit, 0.3 * 0.7 / 0.8 * unit]
    found = bifurcation_curves(plane, start, (0.01, 0.6), (0.05, 0.95), p0=0.5, q0=0.3)
    assert [(point.kind.value, round(point.p, 6), round(point.q, 6)) for point in found.points] == [
        ("GH", 0.125, 0.25)
    ]


@pytest.mark.parametrize("unit", [1e-6, 1e9])
def test_coefficients_on_curves_are_the_same_in_any_unit(unit):
    """y' = p + q x + x^2 - x y: Hopf points at p = 0, q < 0 with coefficients of one sign, -1/4 at q = -1."""

    def rates(s, p, q):
        x, y = s.T / unit
        return unit * np.stack([y, p + q * x + x**2 - x * y], axis=1)

    start = [(1 - np.sqrt(3)) / 2 * unit, 0.0]
    found = bifurcation_curves(FieldPlane.from_callable(rates, 2), start, (-0.5, 0.5), (-2, 2), q0=-1.0)
    (hopf,) = [curve for curve in found.curves if curve.kind.value == "HB"]
    assert [point.kind.value for point in found.points] == ["BT"]
    at = np.abs(hopf.q + 1).argmin()
    assert hopf.lyapunov_coefficient[at] * unit**2 == pytest.approx(-0.25 / (-hopf.q[at]) ** 1.5, rel=0.05)


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_lengths_are_those_on_which_a_family_bends(unit):
    def lengths(family, *start):
        return Equations(family, (-1, 1), None, [start]).unit

    bent = FieldFamily.from_callable(lambda s, p: unit * np.sin(s / unit) + p * s[:, ::-1], 2)
    for start in ([0.0, 0.0], [2 * unit, 0.0], [2 * unit, unit]):
        assert np.abs(np.log10(lengths(bent, *start) / unit)).max() < 1
    straight = FieldFamily.from_callable(lambda s, p: p * s / unit, 1)
    assert lengths(straight, 0.0) == 1.0


# ---------------------------------------------------------------------- starts and ends


@pytest.mark.parametrize(
    ("equations", "p_range", "p0", "expected", "branches"),
    [
        (PITCHFORK, (-1, 1), 0.0, "BP", 2),
        (PITCHFORK, (0, 1), None, "BP", 2),
        (PITCHFORK, (1, 0), None, "BP", 2),
        (PITCHFORK, (-1, 0), None, "BP", 1),
        (PITCHFORK, (0, -1), None, "BP", 1),
        (TRANSCRITICAL, (-1, 1), 0.0, "BP", 2),
        (TRANSCRITICAL, (0, 1), None, "BP", 2),
        (TRANSCRITICAL, (-1, 0), None, "BP", 2),
        ((["r - x**2"], ["x"]), (-1, 1), 0.0, "LP", 1),
        ((["r - x**2"], ["x"]), (0, 1), None, "LP", 1),
        ((["r - x**3"], ["x"]), (-1, 1), 0.0, "CP", 1),
        ((["r - x**3"], ["x"]), (0, 1), None, "CP", 1),
        (HOPF, (-1, 1), 0.0, "HB", 2),
        (HOPF, (0, 1), None, "HB", 2),
        (HOPF, (1, 0), None, "HB", 2),
        ((["x*(r**2 - x**2)"], ["x"]), (-1, 1), 0.0, "DB", 1),
    ],
)
def test_what_happens_at_a_start_or_an_end_is_found(equations, p_range, p0, expected, branches):
    result = continuation(family(*equations), np.zeros(len(equations[1])), p_range, p0=p0)
    assert kinds(result) == [(expected, 0.0)]
    assert len(result.branches) == branches
    low, high = sorted(p_range)
    for branch in result.branches:
        assert low <= branch.p.min() and branch.p.max() <= high
    first = result.branches[0]
    assert first.ends == (BranchEnd.P_RANGE, BranchEnd.P_RANGE)
    if expected in ("BP", "HB"):  # the line of zeros, from end to end exactly
        assert sorted((first.p[0], first.p[-1])) == [low, high]
        assert np.abs(first.x).max() < 1e-9
        # Of the eigenvalues r (and r +- i), those left of the bifurcation are stable.
        away = np.abs(first.p) > 1e-6
        assert ((first.n_unstable[away] > 0) == (first.p[away] > 0)).all()


@pytest.mark.parametrize(("p_range", "branches"), [((0.5, 2), 2), ((1, 2), 2), ((0.5, 1), 1)])
def test_the_pitchfork_of_lorenz_at_a_start_or_an_end(p_range, branches):
    p0 = 0.5 if p_range[1] == 1 else 1.0
    result = continuation(family(*LORENZ), np.zeros(3), p_range, p0=p0)
    assert kinds(result) == [("BP", 1.0)] and len(result.branches) == branches
    assert (result.branches[0].p[0], result.branches[0].p[-1]) == p_range


def test_ends_where_nothing_happens_are_exact_beside_one_where_something_does():
    result = continuation(family(*PITCHFORK), [[0], [-1], [0.5]], (0, 1), p0=[0, 1, 0.25])
    zero, arms = result.branches
    assert (zero.p[0], zero.p[-1]) == (0, 1)
    assert (arms.p[0], arms.p[-1]) == (1, 1) and sorted(arms.x[[0, -1], 0]) == pytest.approx([-1, 1])


def test_what_happens_just_beyond_an_end_is_not_reported():
    result = continuation(family(*PITCHFORK), [0], (1e-6, 1))
    assert kinds(result) == [] and len(result.branches) == 1


def test_a_closed_branch_from_its_fold_has_it_once():
    result = continuation(family(["1 - r**2 - x**2"], ["x"]), [0], (-2, 2), p0=1.0)
    assert kinds(result) == [("LP", -1.0), ("LP", 1.0)]
    assert result.branches[0].ends == (BranchEnd.CLOSED, BranchEnd.CLOSED)


def test_from_an_arm_of_a_pitchfork_the_line_is_followed():
    result = continuation(family(*PITCHFORK), [1], (-1, 1), p0=1.0)
    arms, zero = result.branches
    assert sorted(arms.x[[0, -1], 0]) == pytest.approx([-1, 1])
    assert np.abs(zero.x).max() < 1e-9 and sorted((zero.p[0], zero.p[-1])) == [-1, 1]


@pytest.mark.parametrize("unit", [1e-9, 1e-6, 1.0, 1e9])
def test_states_in_units_that_differ_by_far(unit):
    """A toggle switch and a predator with its prey, without data or region; BP and HB were lost at 1e-6."""

    def switch(s, p):
        x, y = s[:, 0] / unit, s[:, 1]
        return np.stack([unit * (p / (1 + y**2) - x), p / (1 + x**2) - y], axis=1)

    def hunt(s, k):
        x, y = s[:, 0] / unit, s[:, 1]
        eaten = 2 * x * y / (1 + x)
        return np.stack([unit * (x * (1 - x / k) - eaten), eaten - y], axis=1)

    found = continuation(FieldFamily.from_callable(switch, 2), [0.68232780 * unit, 0.68232780], (1, 4))
    assert kinds(found) == [("BP", 2.0)] and len(found.branches) == 2
    found = continuation(
        FieldFamily.from_callable(hunt, 2, "k"), [unit, 0.25], (1.5, 4), p0=2.0, cycles=False
    )
    assert kinds(found) == [("HB", 3.0)]


@pytest.mark.parametrize("start", [0.0, 1e-10, 1e-8])
def test_a_small_linear_term_at_the_start_is_no_length(start):
    """p = x^2 + 1e-6 x; the branch ended at p = .1, at an edge of a region that was not given."""
    bent = FieldFamily.from_callable(lambda s, p: p - s**2 - 1e-6 * s, 1)
    (branch,) = continuation(bent, [start], (start**2 + 1e-6 * start, 1)).branches
    assert branch.ends == (BranchEnd.P_RANGE, BranchEnd.P_RANGE) and len(branch.p) < 200
    assert np.sort(branch.x[[0, -1], 0]) == pytest.approx([-1, 1], abs=1e-6)
