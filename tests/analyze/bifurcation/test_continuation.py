"""Continuation against closed forms: folds, Hopf and branch points, cycles and what happens to them."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from fim_dynsys import Trajectories, systems
from fim_dynsys.analyze.bifurcation.arclength import continuation
from fim_dynsys.analyze.bifurcation.normal_forms import (
    first_lyapunov_coefficient,
    on_continuum,
    solve_branch_point,
    solve_fold,
    solve_hopf,
)
from fim_dynsys.analyze.cycles.periodic import limit_cycles
from fim_dynsys.analyze.tracing.branches import BifurcationKind, BranchKind, LimitKind
from fim_dynsys.analyze.tracing.curve import BranchEnd
from fim_dynsys.analyze.tracing.equations import Equations
from fim_dynsys.analyze.tracing.return_map import ReturnMap, doubling_coefficient
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.family import FieldFamily
from fim_dynsys.fields.symbolic import SymbolicField
from fim_dynsys.fields.terms import Dictionary

FOLD, HOPF = BifurcationKind.FOLD, BifurcationKind.HOPF


def fitzhugh_nagumo(x, j):
    v, w = x.T
    return np.column_stack([v - v**3 / 3 - w + j, 0.08 * (v + 0.7 - 0.8 * w)])


def lorenz(s, rho):
    x, y, z = s.T
    return np.column_stack([10 * (y - x), x * (rho - z) - y, x * y - 8 / 3 * z])


def roessler(s, a):
    x, y, z = s.T
    return np.column_stack([-y - z, x + a * y, 0.2 + z * (x - 5.7)])


def planar(rate, w=1):
    """r' = r rate(r^2, p), theta' = w."""

    def f(x, p):
        a, b = x.T
        g = rate(a**2 + b**2, p)
        return np.column_stack([g * a - w * b, g * b + w * a])

    return FieldFamily.from_callable(f, 2, "mu")


def found(result, *kinds):
    return sorted((b for b in result.bifurcations if b.kind in kinds), key=lambda b: b.p)


# ---------------------------------------------------------------------- folds


@pytest.mark.parametrize(
    "family",
    [
        FieldFamily.from_callable(lambda x, p: p + x**2, 1, "r"),
        SymbolicField(["r + x0**2"], {"r": 0.0}).family("r"),
    ],
    ids=["function", "expressions"],
)
def test_saddle_node(family):
    result = continuation(family, [-1.4], (-2, 1))
    (fold,) = result.bifurcations
    assert fold.kind is FOLD and fold.p == pytest.approx(0, abs=1e-10) and fold.residual < 1e-12
    (branch,) = result.branches
    assert np.abs(branch.p + branch.x[:, 0] ** 2).max() < 1e-12
    assert branch.ends == (BranchEnd.P_RANGE, BranchEnd.P_RANGE) and branch.p[[0, -1]].tolist() == [-2, -2]
    upper = branch.x[:, 0] > 1e-9
    assert (branch.n_unstable[upper] == 1).all() and (branch.n_unstable[~upper] == 0).all()
    assert branch.eigenvalues[:, 0].real == pytest.approx(2 * branch.x[:, 0], abs=1e-9)


def test_folds_of_the_cusp():
    for r in (0.05, 1.0, 3.0):
        truth = 2 * r / 3 * np.sqrt(r / 3)
        family = FieldFamily.from_callable(lambda x, h, r=r: h + r * x - x**3, 1, "h")
        folds = found(continuation(family, [-2], (-8, 8)), FOLD)
        assert [b.p for b in folds] == pytest.approx([-truth, truth], abs=1e-8)


def test_pitchforks_in_any_coordinates_are_branch_points_and_nothing_else():
    """A toggle switch, turned, stretched and moved: what rounding makes of its singular point is no event."""
    rng = np.random.default_rng(0)
    for _ in range(12):
        size, origin = np.exp(rng.normal(size=2)), rng.normal(size=2)
        turn = np.linalg.qr(rng.normal(size=(2, 2)))[0]

        def switch(x, a, size=size, origin=origin, turn=turn):
            u, v = (((x - origin) @ turn.T) / size).T
            return (np.column_stack([a / (1 + v**2) - u, a / (1 + u**2) - v]) * size) @ turn

        start = ([0.5, 0.5] * size) @ turn + origin
        result = continuation(FieldFamily.from_callable(switch, 2, "a"), start, (0.6, 4))
        (event,) = result.bifurcations
        assert event.kind is BifurcationKind.BRANCH_POINT and event.p == pytest.approx(2, abs=1e-8)
        assert len(result.branches) == 2


def test_pitchfork_and_transcritical_branches_are_switched_to():
    pitchfork = continuation(FieldFamily.from_callable(lambda x, r: r * x - x**3, 1, "r"), [0], (-1, 1))
    assert [b.kind for b in pitchfork.bifurcations] == [BifurcationKind.BRANCH_POINT]
    assert pitchfork.bifurcations[0].p == pytest.approx(0, abs=1e-10)
    first, second = pitchfork.branches
    assert np.abs(first.x).max() < 1e-12
    assert np.abs(second.p - second.x[:, 0] ** 2).max() < 1e-12
    assert second.x[[0, -1], 0] == pytest.approx([-1, 1]) or second.x[[0, -1], 0] == pytest.approx([1, -1])
    assert (second.n_unstable[np.abs(second.x[:, 0]) > 1e-6] == 0).all()
    crossing = continuation(FieldFamily.from_callable(lambda x, r: r * x - x**2, 1, "r"), [0], (-1, 1))
    assert len(crossing.branches) == 2 and crossing.bifurcations[0].p == pytest.approx(0, abs=1e-10)
    assert np.abs(crossing.branches[1].x[:, 0] - crossing.branches[1].p).max() < 1e-12


@pytest.mark.parametrize("h", [1e-3, 1e-6])
def test_broken_pitchfork_is_a_near_miss_and_a_fold(h):
    """x' = h + r x - x^3 has no branch point; on x > 0 the eigenvalue -2 x^2 - h / x has a maximum."""
    family = FieldFamily.from_callable(lambda x, r: h + r * x - x**3, 1, "r")
    (branch,) = continuation(family, [0], (-1, 1)).branches
    assert (branch.n_unstable == 0).all() and branch.x[-1, 0] > 0.9
    (miss,) = branch.bifurcations
    x = (h / 4) ** (1 / 3)
    assert miss.kind is BifurcationKind.NEAR_MISS
    assert miss.residual == pytest.approx(2 * x**2 + h / x, rel=1e-6)
    assert miss.x[0] == pytest.approx(x, rel=1e-2)
    other = continuation(family, [-1], (1, -1))
    assert [b.p for b in found(other, FOLD)] == pytest.approx([3 * (h / 2) ** (2 / 3)], abs=1e-8)


def test_closed_branch():
    loop = FieldFamily.from_callable(lambda x, p: 0.25 - p**2 - (x - 3) ** 2, 1, "p")
    result = continuation(loop, [3.5], (-1, 1), p0=0.0)
    (branch,) = result.branches
    assert branch.ends == (BranchEnd.CLOSED, BranchEnd.CLOSED)
    assert branch.p[0] == branch.p[-1] and branch.x[0] == branch.x[-1]
    assert [b.p for b in found(result, FOLD)] == pytest.approx([-0.5, 0.5], abs=1e-10)


def test_region_ends_a_branch_on_its_edge():
    family = FieldFamily.from_callable(lambda x, p: p - x, 1, "p")
    (branch,) = continuation(family, [0], (0, 10), region=[(-1, 2.5)]).branches
    assert branch.ends == (BranchEnd.P_RANGE, BranchEnd.REGION)
    assert branch.p[-1] == pytest.approx(2.5, abs=1e-10)


def test_units_do_not_matter():
    """A cusp in states of size 1e-3 at 300 and a parameter of size 1e-6."""
    region = [(300 - 2e-3, 300 + 2e-3)]

    def f(x, p):
        z = (x - 300) * 1e3
        return 1e-3 * (p * 1e6 + z - z**3)

    family = FieldFamily.from_callable(f, 1, "p", region=region, parameter_scale=1e-6)
    result = continuation(family, [300 - 1.3e-3], (-1e-6, 1e-6))
    truth = 2 / 3 / np.sqrt(3) * 1e-6
    assert [b.p for b in found(result, FOLD)] == pytest.approx([-truth, truth], rel=1e-8)


# ---------------------------------------------------------------------- Hopf points


def test_hopf_points_of_fitzhugh_nagumo():
    truth = systems.get("fitzhugh_nagumo").truth("J_hopf")
    result = continuation(
        FieldFamily.from_callable(fitzhugh_nagumo, 2, "J"), [-1.2, -0.6], (0, 2), cycles=False
    )
    hopf = found(result, HOPF)
    assert [b.p for b in hopf] == pytest.approx(truth, abs=1e-8)
    assert all(b.lyapunov_coefficient > 0 for b in hopf)  # subcritical at e = 0.08, hence canards
    assert max(abs(b.eigenvalues.real).max() for b in hopf) < 1e-8


def test_lorenz():
    system = systems.get("lorenz")
    result = continuation(FieldFamily.from_callable(lorenz, 3, "rho"), [0, 0, 0], (0.5, 30), cycles=False)
    (pitchfork,) = found(result, BifurcationKind.BRANCH_POINT)
    assert pitchfork.p == pytest.approx(1, abs=1e-8)
    hopf = found(result, HOPF)
    assert [b.p for b in hopf] == pytest.approx([float(system.truth("rho_hopf"))] * 2, abs=1e-8)
    assert all(b.lyapunov_coefficient > 0 for b in hopf)  # subcritical
    origin, wings = result.branches
    assert origin.n_unstable[[0, -1]].tolist() == [0, 1]
    assert wings.n_unstable[[0, len(wings) // 2, -1]].tolist() == [2, 0, 2]


def test_first_lyapunov_coefficient_is_that_of_the_amplitude():
    """|z|^2 = -Re(dlambda/dB) (B - B*) / (omega l1) for x = x* + 2 Re(z q) with |q| = 1."""
    for a in (1.0, 1.6):

        def f(x, b, a=a):
            u, v = x.T
            return np.column_stack([a + u**2 * v - (b + 1) * u, b * u - u**2 * v])

        result = continuation(FieldFamily.from_callable(f, 2, "B"), [a, 1.0 / a], (1.0, 2.05 + a**2))
        (hopf,) = found(result, HOPF)
        assert hopf.p == pytest.approx(1 + a**2, abs=1e-8)
        assert hopf.period == pytest.approx(2 * np.pi / a, rel=1e-8)
        assert hopf.lyapunov_coefficient < 0
        q = np.array(
            [1j * a - a**2 - 0.0, 1 + a**2]
        )  # null vector of J - i a, J = [[a^2, a^2], [-1 - a^2, -a^2]]
        q = np.array([a**2, 1j * a - a**2]) / np.linalg.norm([a**2, 1j * a - a**2])
        (cycles,) = result.cycles
        k = np.argmax(cycles.p > hopf.p + 1e-3)
        squared = 0.5 * (cycles.p[k] - hopf.p) / (-a * hopf.lyapunov_coefficient)
        width = 4 * np.sqrt(squared) * np.abs(q)
        assert cycles.high[k] - cycles.low[k] == pytest.approx(width, rel=0.03)


def test_hopf_normal_form_and_its_cycles():
    """r' = r (mu - r^2), theta' = w: l1 = -2 / w, radius sqrt(mu), multiplier exp(-4 pi mu / w)."""
    result = continuation(planar(lambda s, p: p - s, w=2), [0, 0], (-1, 1))
    (hopf,) = found(result, HOPF)
    assert hopf.p == pytest.approx(0, abs=1e-8)
    assert hopf.lyapunov_coefficient == pytest.approx(-1, abs=1e-7)
    (cycles,) = result.cycles
    assert cycles.kind is BranchKind.CYCLES and cycles.ends == (BranchEnd.HOPF, BranchEnd.P_RANGE)
    assert cycles.period == pytest.approx(np.pi, rel=1e-8)
    radius = np.linalg.norm(np.concatenate(cycles.orbits[1:]), axis=1)
    assert radius == pytest.approx(np.sqrt(np.repeat(cycles.p[1:], 121)), abs=1e-7)
    assert cycles.eigenvalues[:, 1].real == pytest.approx(np.exp(-2 * np.pi * cycles.p), abs=1e-6)
    assert (cycles.n_unstable == 0).all() and cycles.p[-1] == pytest.approx(1, abs=1e-12)


def test_neutral_saddles_and_double_zeros_are_told_from_hopf_points():
    saddle = FieldFamily.from_callable(lambda x, p: x * np.array([1.0, p]), 2)
    assert continuation(saddle, [0, 0], (-2, -0.5)).bifurcations == ()
    double = FieldFamily.from_callable(lambda x, p: p * x - x**3, 2)
    kinds = [b.kind for b in continuation(double, [0, 0], (-1, 1)).bifurcations]
    assert kinds == [BifurcationKind.DEGENERATE]


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_symmetry_of_rotation_bears_a_circle_of_equilibria(sign):
    """r' = r (p + sign r^2) in a plane, and a third state that follows: circles of radius sqrt(-sign p)."""

    def rates(x, p):
        square = np.sum(x[:, :2] ** 2, axis=1)
        return np.column_stack([x[:, :2] * (p + sign * square)[:, None], square - x[:, 2]])

    result = continuation(FieldFamily.from_callable(rates, 3), [0, 0, 0], (-1, 1))
    (event,) = result.bifurcations
    assert event.kind is BifurcationKind.CIRCLE and event.p == pytest.approx(0, abs=1e-7)
    assert event.normal_form == pytest.approx(sign, rel=1e-3)
    assert event.criticality == ("supercritical" if sign < 0 else "subcritical")
    circle = result.branches[1]
    assert circle.ends == (BranchEnd.CIRCLE, BranchEnd.P_RANGE) and abs(circle.p[-1]) > 0.95
    assert np.sum(circle.x[:, :2] ** 2, axis=1) == pytest.approx(-sign * circle.p, abs=1e-7)
    assert circle.x[:, 2] == pytest.approx(-sign * circle.p, abs=1e-7)
    assert (circle.n_unstable[1:] == (0 if sign < 0 else 1)).all()
    assert "circle of equilibria" in str(result)


# ---------------------------------------------------------------------- cycles


def test_fold_of_cycles():
    """r' = r (mu + r^2 - r^4): subcritical at 0, cycles fold at mu = -1/4, r^2 = 1/2."""
    result = continuation(planar(lambda s, p: p + s - s**2), [0, 0], (-1, 1))
    (hopf,) = found(result, HOPF)
    assert hopf.lyapunov_coefficient == pytest.approx(2, rel=1e-6)
    (fold,) = found(result, BifurcationKind.CYCLE_FOLD)
    assert fold.p == pytest.approx(-0.25, abs=1e-8)
    assert np.linalg.norm(fold.x) == pytest.approx(np.sqrt(0.5), abs=1e-7)
    (cycles,) = result.cycles
    assert cycles.n_unstable[[5, -1]].tolist() == [1, 0]


def test_torus_bifurcation():
    """r' = r (p - z), z' = r^2 - z + z^2 / 2: the cycle r^2 = p - p^2 / 2 meets a torus at p = 1."""

    def f(x, p):
        a, b, z = x.T
        return np.column_stack([(p - z) * a - 3 * b, (p - z) * b + 3 * a, a**2 + b**2 - z + z**2 / 2])

    result = continuation(FieldFamily.from_callable(f, 3), [0, 0, 0], (-0.5, 1.4))
    (torus,) = found(result, BifurcationKind.NEIMARK_SACKER)
    assert torus.p == pytest.approx(1, abs=1e-8)
    assert torus.period == pytest.approx(2 * np.pi / 3, rel=1e-8)
    assert sorted(np.abs(np.angle(torus.eigenvalues)))[1:] == pytest.approx([2 * np.pi / 3] * 2, rel=1e-5)


def test_period_doubling_of_roessler_agrees_with_shooting():
    family = FieldFamily.from_callable(roessler, 3, "a")
    result = continuation(family, [0, 0, 0], (-0.1, 0.15))
    (doubling,) = found(result, BifurcationKind.PERIOD_DOUBLING)
    field = family.at(doubling.p)

    def variational(t, z):
        m = z[3:].reshape(3, 3)
        return np.concatenate([field(z[:3]), (field.jacobian(z[:3]) @ m).ravel()])

    start = np.concatenate([doubling.x, np.eye(3).ravel()])
    end = solve_ivp(variational, (0, doubling.period), start, method="DOP853", rtol=1e-11, atol=1e-12).y[
        :, -1
    ]
    assert end[:3] == pytest.approx(doubling.x, abs=1e-6)
    multipliers = np.sort(np.linalg.eigvals(end[3:].reshape(3, 3)).real)
    assert multipliers == pytest.approx([-1, 0, 1], abs=1e-5)


def test_cycles_grow_into_a_homoclinic_orbit():
    """Strogatz, Nonlinear Dynamics and Chaos, example 8.4.1: homoclinic at mu = -0.8645."""

    def f(x, mu):
        a, b = x.T
        return np.column_stack([b, mu * b + a - a**2 + a * b])

    (cycles,) = continuation(FieldFamily.from_callable(f, 2, "mu"), [1, 0], (-1.2, -0.5)).cycles
    assert cycles.ends[1] is BranchEnd.PERIOD
    assert cycles.p[-1] == pytest.approx(-0.8645, abs=1e-4)
    assert (np.diff(cycles.period) > 0).all() and cycles.period[-1] > 300
    assert np.linalg.norm(cycles.orbits[-1], axis=1).min() < 1e-6  # the saddle at the origin


def test_rounding_beside_a_homoclinic_orbit_is_not_located():
    """Lorenz: multipliers grow to 1e11, and the sign of a difference of their products is rounding."""
    result = continuation(FieldFamily.from_callable(lorenz, 3, "rho"), [0, 0, 0], (0.5, 30))
    ends = [branch.limits[1].p for branch in result.cycles]
    assert ends == pytest.approx([13.92655741] * 2, abs=1e-8)
    assert not any(branch.bifurcations for branch in result.cycles)
    assert result.effort.points < 600_000  # 420,000; 1,180,000 where it is


def test_predator_prey_with_allee_effect_ends_near_a_heteroclinic_loop():
    """x' = x (x - a)(1 - x) - x y, y' = y (x - d): Hopf at d = (1 + a) / 2; cycles reach two saddles."""

    def f(x, d):
        prey, predator = x.T
        return np.column_stack([prey * (prey - 0.2) * (1 - prey) - prey * predator, predator * (prey - d)])

    result = continuation(FieldFamily.from_callable(f, 2, "d"), [0.7, 0.15], (0.7, 0.4))
    (hopf,) = found(result, HOPF)
    assert hopf.p == pytest.approx(0.6, abs=1e-8) and hopf.lyapunov_coefficient < 0
    (cycles,) = result.cycles
    assert cycles.ends[1] in (BranchEnd.PERIOD, BranchEnd.ACCURACY, BranchEnd.STEP)
    assert cycles.period[-1] > 10 * cycles.period[0]
    assert 0.53 < cycles.p[-1] < 0.545
    assert np.linalg.norm(cycles.orbits[-1] - [1, 0], axis=1).min() < 1e-3


# ---------------------------------------------------------------------- families of fields, results, misuse


def test_family_interpolated_between_fields():
    """FitzHugh-Nagumo is linear in J, so a spline between nine fields has the same Hopf points."""
    dictionary = Dictionary(np.array([[0, 0], [1, 0], [0, 1], [3, 0]]))
    values = np.linspace(0, 2, 9)
    fields = [
        DictionaryField(dictionary, np.array([[j, 0.056], [1, 0.08], [-1, -0.064], [-1 / 3, 0]]))
        for j in values
    ]
    family = FieldFamily.from_fields(values, fields, parameter="J")
    hopf = found(continuation(family, [-1.2, -0.6], (0, 2), cycles=False), HOPF)
    assert [b.p for b in hopf] == pytest.approx(systems.get("fitzhugh_nagumo").truth("J_hopf"), abs=1e-8)


def test_result_prints_and_converts():
    family = FieldFamily.from_callable(lambda x, p: p + x - x**3, 1, "h", state_names=["x"])
    result = continuation(family, [-1.5], (-1, 1))
    assert "LP" in str(result) and "0.3849" in str(result) and "<table>" in result._repr_html_()
    data = result.to_xarray()
    assert data.bifurcation_kind.values.tolist() == ["LP", "LP"]
    assert data.sizes["point"] == len(result.branches[0])
    assert np.array_equal(data.x[:, 0], result.branches[0].x[:, 0])
    assert result.effort.points <= result.effort.budget and not result.effort.exhausted


def test_points_end_a_search():
    result = continuation(FieldFamily.from_callable(lambda x, p: p - x, 1), [0], (0, 1), max_points=5)
    assert result.effort.exhausted and result.branches[0].ends[1] is BranchEnd.POINTS


@pytest.mark.parametrize(("start", "p0"), [([1.7, 1.0], 0.5), ([2.9, 4.5], 1.5)])
def test_kinks_at_which_a_branch_turns_back_are_named(start, p0):
    """Stommel's boxes: two branches meet at p = 0.9 with equal states, and go on to larger p."""

    def rates(s, p):
        x, y = s.T
        return np.stack([3 - x * (1 + abs(x - y)), p - y * (0.3 + abs(x - y))], axis=1)

    family = FieldFamily.from_callable(rates, 2)
    (branch,) = continuation(family, start, (0.1, 2), p0=p0, max_points=200).branches
    (end,) = np.flatnonzero([end is BranchEnd.KINK for end in branch.ends])
    assert branch.p[-end] == pytest.approx(0.9, abs=0.02)


def test_budget_ends_a_search():
    result = continuation(FieldFamily.from_callable(lambda x, p: p - x, 1), [0], (0, 1), budget=10)
    assert result.effort.exhausted and result.branches[0].ends[1] is BranchEnd.BUDGET


def test_misuse_is_named():
    family = FieldFamily.from_callable(lambda x, p: p + x**2, 1, "mu")
    discrete = FieldFamily.from_fields([0, 1], [CallableField(lambda x: -x, 1)] * 2, None, "mu")
    with pytest.raises(ValueError, match="smooth in mu, got one without interpolation"):
        continuation(discrete, [0], (0, 1))
    with pytest.raises(TypeError, match="expected a FieldFamily, got CallableField"):
        continuation(CallableField(lambda x: -x, 1), [0], (0, 1))
    with pytest.raises(ValueError, match="near an equilibrium at mu = 1, found none"):
        continuation(family, [0.3], (1, 2))
    with pytest.raises(ValueError, match="two different numbers"):
        continuation(family, [0], (1, 1))
    with pytest.raises(ValueError, match="finite x0 of shape"):
        continuation(family, [0, 0], (-1, 1))
    with pytest.raises(ValueError, match="p0 inside"):
        continuation(family, [0], (-1, 1), p0=3)
    with pytest.raises(ValueError, match="equilibrium inside"):
        continuation(family, [-1], (-1, 1), region=[(5, 6)])


# ---------------------------------------------------------------------- starts from cycles, doublings


def test_a_branch_through_a_cycle_that_was_found():
    """Van der Pol from mu = 1, both ways; the period at mu = 2 is Zonneveld's."""

    def pump(s, mu):
        x, y = s.T
        return np.column_stack([y, mu * (1 - x**2) * y - x])

    family = FieldFamily.from_callable(pump, 2, "mu")
    found_ = limit_cycles(family.at(1.0), [(-3, 3), (-4, 4)], n_seeds=8)
    result = continuation(family, found_, (0.5, 2.0), p0=1.0)
    (branch,) = result.branches
    assert branch.ends == (BranchEnd.P_RANGE, BranchEnd.P_RANGE) and not result.bifurcations
    assert branch.period[branch.p.argmax()] == pytest.approx(7.62987448, abs=1e-6)
    with pytest.raises(ValueError, match="none near that of period"):
        continuation(FieldFamily.from_callable(lambda x, p: p - x, 2), found_, (0.5, 2.0), p0=1.0)


def test_doublings_are_followed():
    """Roessler with a = b = 0.2: doublings at c = 2.832 and 3.837."""

    def rates(s, c):
        x, y, z = s.T
        return np.column_stack([-y - z, x + 0.2 * y, 0.2 + z * (x - c)])

    family = FieldFamily.from_callable(rates, 3, "c")
    start = limit_cycles(family.at(2.5), [(-6, 6), (-6, 6), (0, 6)], n_seeds=8)
    result = continuation(family, start, (2.4, 4.05), p0=2.5, doublings=2)
    doublings = found(result, BifurcationKind.PERIOD_DOUBLING)
    assert [b.p for b in doublings] == pytest.approx([2.8324, 3.8374], abs=2e-4)
    assert [b.ends[0] for b in result.cycles[1:]] == [BranchEnd.DOUBLING] * 2
    for branch, doubling in zip(result.cycles[1:], doublings, strict=True):
        assert branch.period[0] == pytest.approx(2 * doubling.period, rel=1e-9)
        assert branch.eigenvalues[0] == pytest.approx(doubling.eigenvalues**2, abs=1e-6)
        assert branch.period[1] == pytest.approx(branch.period[0], rel=1e-3)


# ---------------------------------------------------------------------- canards, degenerate points


def canard(e):
    def f(s, j):
        v, w = s.T
        return np.column_stack([v - v**3 / 3 - w + j, e * (v + 0.7 - 0.8 * w)])

    return FieldFamily.from_callable(f, 2, "I")


@pytest.mark.parametrize("e", [0.08, *(pytest.param(e, marks=pytest.mark.slow) for e in (0.02, 0.005))])
def test_cycles_explode_and_both_sides_are_joined(e):
    """(v, w, I) -> (-v, 7/4 - w, 7/4 - I) is a symmetry; one fold of cycles a side, where mu = 1."""
    result = continuation(canard(e), [-1.2, -0.6], (0, 2), budget=10_000_000 if e > 0.01 else 40_000_000)
    (cycles,) = result.cycles
    assert cycles.ends == (BranchEnd.HOPF, BranchEnd.HOPF)
    left, right = sorted(cycles.bifurcations, key=lambda b: b.p)
    assert left.kind is right.kind is BifurcationKind.CYCLE_FOLD
    assert left.p + right.p == pytest.approx(1.75, abs=1e-9)
    assert left.period == pytest.approx(right.period, rel=1e-5)
    assert [b.eigenvalues[1].real for b in (left, right)] == pytest.approx([1, 1], abs=1e-6)
    assert {b.kind for b in result.bifurcations} == {HOPF, BifurcationKind.CYCLE_FOLD}


def kinds(fn, dim, x0):
    found = continuation(FieldFamily.from_callable(fn, dim, "p"), x0, (-1, 1)).bifurcations
    return [(b.kind.value, round(b.p, 8) + 0.0) for b in found]


def test_degenerate_points_are_named():
    def takens(s, p):
        x, y = s.T
        return np.column_stack([y, p + x**2 + x * y])

    def bautin(s, p):
        x, y = s.T
        g = p - (x**2 + y**2) ** 2
        return np.column_stack([g * x - y, g * y + x])

    assert kinds(takens, 2, [-1, 0]) == [("BT", 0.0)]
    assert kinds(bautin, 2, [0, 0]) == [("GH", 0.0)]
    assert kinds(lambda x, p: p - x**3, 1, [-1]) == [("CP", 0.0)]
    assert kinds(lambda x, p: x * (p**2 - x**2), 1, [0]) == [("DB", 0.0)]


def test_a_branch_ends_where_the_field_has_no_finite_derivatives():
    def jac(s, p):
        return np.where(s > 0.5, np.inf, -1.0)[:, :, None]

    family = FieldFamily.from_callable(lambda s, p: p - s, 1, "p", jac=jac)
    result = continuation(family, [0.0], (-1, 1))
    (branch,) = result.branches
    assert branch.ends == (BranchEnd.P_RANGE, BranchEnd.STEP)
    assert branch.p.max() == pytest.approx(0.5, abs=1e-3)
    with pytest.raises(ValueError, match="expected x0 near an equilibrium"):
        continuation(family, [0.8], (-1, 1), p0=0.8)
    equations = Equations(family, (-1, 1), None)
    for solve in (solve_fold, solve_branch_point, lambda *known: solve_hopf(*known, 1j)):
        with pytest.raises(FloatingPointError, match="not finite"):
            solve(equations, equations.scaled(np.array([0.8]), 0.8))


def test_two_folds_within_a_step_are_told_from_a_near_miss():
    truth = 2 / 3 * 1e-4 * np.sqrt(1e-4 / 3)
    family = FieldFamily.from_callable(lambda x, p: p - x**3 + 1e-4 * x, 1, "p")
    found_ = continuation(family, [-1], (-1, 1)).bifurcations
    assert [b.kind for b in found_] == [FOLD, FOLD]
    assert [b.p for b in found_] == pytest.approx([truth, -truth], abs=1e-10)


# ---------------------------------------------------------------------- ends, isolas, what begins on cycles


def test_the_period_of_a_homoclinic_orbit_grows_by_its_saddle():
    """Strogatz, example 8.4.1: mu = -0.8645; the saddle at 0 has the eigenvalues of l^2 - mu l - 1."""

    def f(x, mu):
        a, b = x.T
        return np.column_stack([b, mu * b + a - a**2 + a * b])

    result = continuation(FieldFamily.from_callable(f, 2, "mu"), [1, 0], (-1.2, -0.5))
    born, limit = result.cycles[0].limits
    assert born is None and limit.kind is LimitKind.HOMOCLINIC
    rate = (limit.p + np.sqrt(limit.p**2 + 4)) / 2
    assert limit.expected == pytest.approx(1 / rate, rel=1e-6)
    assert limit.exponent == pytest.approx(1 / rate, rel=0.05) and np.abs(limit.x).max() < 1e-8
    assert abs(limit.p + 0.8645452) < 1e-6 and limit.error < 1e-6
    assert "homoclinic orbit at p* = -0.86454" in str(result)


def test_a_cycle_ends_where_equilibria_meet_on_it():
    """r' = r (1 - r^2), angle' = w - sin(angle): T = 2 pi / sqrt(w^2 - 1)."""

    def f(s, w):
        x, y = s.T
        rate = 1 - x**2 - y**2
        return np.column_stack([x * rate - (w - y) * y, y * rate + (w - y) * x])

    family = FieldFamily.from_callable(f, 2, "w")
    cycle = limit_cycles(family.at(2.0), [(-2, 2), (-2, 2)], n_seeds=2)
    (branch,) = continuation(family, cycle, (2.5, 0.5), p0=2.0).branches
    assert branch.period == pytest.approx(2 * np.pi / np.sqrt(branch.p**2 - 1), rel=1e-6)
    limit = branch.limits[1]
    assert limit.kind is LimitKind.SNIC and limit.exponent == pytest.approx(2, abs=0.05)
    assert abs(limit.p - 1) < 1e-5 < limit.error and limit.x[0] == pytest.approx([0, 1], abs=0.05)


def test_a_loop_of_two_saddles():
    def f(x, d):
        prey, predator = x.T
        return np.column_stack([prey * (prey - 0.2) * (1 - prey) - prey * predator, predator * (prey - d)])

    (cycles,) = continuation(FieldFamily.from_callable(f, 2, "d"), [0.7, 0.15], (0.7, 0.4)).cycles
    limit = cycles.limits[1]
    assert limit.kind is LimitKind.HETEROCLINIC
    assert sorted(limit.x[:, 0]) == pytest.approx([0.2, 1], abs=1e-8)


def test_a_line_of_equilibria_is_said_to_be_one():
    """SIR on S + I + R = 1: every state without infected is an equilibrium, at every rate."""

    def sir(x, rate):
        new = rate * x[:, 0] * x[:, 1]
        return np.column_stack([-new, new - x[:, 1], x[:, 1]])

    found = continuation(FieldFamily.from_callable(sir, 3, "rate"), [1.0, 0, 0], (0.5, 4.0), p0=0.5)
    (branch,) = found.branches
    assert branch.ends == (BranchEnd.CONTINUUM, BranchEnd.CONTINUUM)
    assert "continuum even where x0 + x1 + x2 = 1" in str(found)


@pytest.mark.parametrize("power", [2, 3])
def test_folds_and_pitchforks_are_no_continuum(power):
    family = FieldFamily.from_callable(lambda x, p: p * x ** (power - 2) + x**power, 1, "p")
    equations = Equations(family, (-1.0, 1.0), None)
    assert not on_continuum(equations, equations.scaled(np.zeros(1), 0.0))


def test_an_isola_of_cycles_closes():
    """r' = r (1/16 - p^2 - (r^2 - 1)^2): cycles on a circle in (p, r^2), equilibria without bifurcations."""
    family = planar(lambda s, p: 1 / 16 - p**2 - (s - 1) ** 2)
    cycles = limit_cycles(family.at(0.0), [(-2, 2), (-2, 2)], n_seeds=4)
    branches = continuation(family, cycles, (-1, 1), p0=0.0).branches
    assert len(cycles) == 2
    (branch,) = branches  # the attracting and the repelling cycle lie on one isola
    assert branch.ends == (BranchEnd.CLOSED, BranchEnd.CLOSED) and branch.p[0] == branch.p[-1]
    assert [b.kind for b in branch.bifurcations] == [BifurcationKind.CYCLE_FOLD] * 2
    assert sorted(b.p for b in branch.bifurcations) == pytest.approx([-0.25, 0.25], abs=1e-8)
    radius = np.array([np.linalg.norm(orbit, axis=1).mean() for orbit in branch.orbits])
    assert np.abs(branch.p**2 + (radius**2 - 1) ** 2 - 1 / 16).max() < 1e-7


def test_two_branches_close_to_each_other_are_both_followed():
    """Radii 1 + p and 1.002 + p: the branch of one does not pass through the other."""
    family = planar(lambda s, p: (1 + p - np.sqrt(s)) * (1.002 + p - np.sqrt(s)))
    cycles = limit_cycles(family.at(0.0), [(-1.5, 1.5)] * 2, n_seeds=4)
    branches = continuation(family, cycles, (0, 0.1), p0=0.0).branches
    assert len(branches) == len(cycles) == 2


def test_branches_of_cycles_that_cross_are_switched_to():
    """The circle r = 1 in the plane z = 0, with z' = p z - z^3: circles at z = +-sqrt(p) begin at p = 0."""

    def f(s, p):
        a, b, z = s.T
        rate = 1 - a**2 - b**2
        return np.column_stack([rate * a - b, rate * b + a, p * z - z**3])

    family = FieldFamily.from_callable(f, 3, "p")
    cycle = limit_cycles(family.at(-0.5), [(-2, 2)] * 3, n_seeds=2)
    result = continuation(family, cycle, (-0.6, 0.6), p0=-0.5)
    (point,) = result.bifurcations
    assert point.kind is BifurcationKind.BRANCH_POINT and point.p == pytest.approx(0, abs=1e-8)
    first, second = result.branches
    assert np.abs(first.x[:, 2]).max() < 1e-6
    assert np.abs(second.p - second.x[:, 2] ** 2).max() < 1e-7
    assert second.x[[0, -1], 2] == pytest.approx(second.x[0, 2] * np.array([1, -1]))
    assert (second.n_unstable[second.p > 1e-3] == 0).all()


def test_what_is_born_of_cycles_is_stable_or_not():
    """Tori as Hopf points of (r, z); doublings of w' = -|w|^2 w half turned round: c = 2 pi / radius^2."""
    for cubic in (0.05, -0.1):

        def torus(x, p, cubic=cubic):
            a, b, z = x.T
            height = a**2 + b**2 - z + z**2 / 2 - cubic * z**3
            return np.column_stack([(p - z) * a - 3 * b, (p - z) * b + 3 * a, height])

        result = continuation(FieldFamily.from_callable(torus, 3), [0, 0, 0], (-0.5, 1.4))
        (point,) = found(result, BifurcationKind.NEIMARK_SACKER)

        def section(s, p=point.p, cubic=cubic):
            r, z = s.T
            return np.column_stack([(p - z) * r, r**2 - z + z**2 / 2 - cubic * z**3])

        place = [np.sqrt(point.p - point.p**2 / 2 + cubic * point.p**3), point.p]
        coefficient = first_lyapunov_coefficient(CallableField(section, 2), np.array(place))
        assert np.sign(point.normal_form) == np.sign(coefficient) == -np.sign(cubic)
        assert point.criticality == ("supercritical" if cubic > 0 else "subcritical")

    def twist(s, p):
        x, y, z = s.T
        r = np.hypot(x, y)
        c, d, w = x / r, y / r, r - 1
        mean, half, drop = (p - 0.15) / 2, (p + 0.15) / 2, w**2 + z**2
        dw = mean * w + half * (c * w + d * z) - z / 2 - drop * w
        dz = mean * z + half * (d * w - c * z) + w / 2 - drop * z
        return np.column_stack([dw * c - d * r, dw * d + c * r, dz])

    family = FieldFamily.from_callable(twist, 3)
    cycle = limit_cycles(family.at(-0.1), [(-1.5, 1.5), (-1.5, 1.5), (-0.5, 0.5)], n_seeds=2)
    (doubling,) = found(continuation(family, cycle, (-0.2, 0.3), p0=-0.1), BifurcationKind.PERIOD_DOUBLING)
    assert doubling.p == pytest.approx(0, abs=1e-8)
    assert doubling.normal_form == pytest.approx(2 * np.pi * 2**2, rel=1e-3)  # the circle is 2 wide
    assert doubling.criticality == "supercritical"


@pytest.mark.slow
def test_a_cascade_and_its_ratios():
    """Roessler with a = b = 0.2: five doublings; the ratios tend to Feigenbaum's 4.669."""

    def rates(s, c):
        x, y, z = s.T
        return np.column_stack([-y - z, x + 0.2 * y, 0.2 + z * (x - c)])

    family = FieldFamily.from_callable(rates, 3, "c")
    start = limit_cycles(family.at(2.5), [(-6, 6), (-6, 6), (0, 6)], n_seeds=8)
    result = continuation(family, start, (2.4, 4.3), p0=2.5, doublings=3, max_points=150)
    assert 3.0 < result.feigenbaum_ratios[0] < 4.0 and abs(result.feigenbaum_ratios[1] - 4.669) < 0.3
    assert "ratios of the distances between doublings" in str(result)


def test_branches_may_end_where_data_do():
    """Equilibria x = p with data up to 1: what lies further is not supported."""
    t = np.linspace(0, 4, 60)
    data = Trajectories.from_arrays([np.exp(-t)[:, None], (1 - np.exp(-t))[:, None]], t)
    fields = [CallableField(lambda x, p=p: p - x, 1, context=data) for p in (0.2, 0.6, 2.0)]
    family = FieldFamily.from_fields([0.2, 0.6, 2.0], fields, "spline", "p")
    free = continuation(family, [0.5], (0.5, 2.0), [(-1, 3)])
    bound = continuation(family, [0.5], (0.5, 2.0), [(-1, 3)], stay_supported=True)
    assert free.branches[0].ends[1] is BranchEnd.P_RANGE and free.branches[0].support.min() < 0.1
    assert bound.branches[0].ends[1] is BranchEnd.SUPPORT
    assert bound.branches[0].support.min() == pytest.approx(0.5, abs=1e-6)


def test_no_fold_on_a_vertical_family_of_centres():
    """x'' = x - x^3 + p x': at p = 0 all cycles round (1, 0) exist at once."""
    family = FieldFamily.from_callable(
        lambda s, p: np.stack([s[:, 1], s[:, 0] - s[:, 0] ** 3 + p * s[:, 1]], 1), 2, "p"
    )
    found = continuation(family, [1.0, 0.0], (-0.5, 0.5))
    assert [b.kind for b in found.bifurcations] == [BifurcationKind.GENERALIZED_HOPF]
    assert found.bifurcations[0].criticality == ""
    (cycles,) = found.cycles
    np.testing.assert_allclose(cycles.p, 0.0, atol=1e-8)


def test_hopf_point_of_a_term_without_second_derivatives():
    """x'' = -x + p x' - |x'| x': cycles of amplitude 3 pi p / 8 are born at p = 0."""
    family = FieldFamily.from_callable(
        lambda s, p: np.stack([s[:, 1], -s[:, 0] + p * s[:, 1] - np.abs(s[:, 1]) * s[:, 1]], 1), 2, "p"
    )
    found = continuation(family, [0.0, 0.0], (-0.5, 0.5))
    (hopf,) = found.bifurcations
    assert (hopf.kind, hopf.lyapunov_coefficient, hopf.criticality) == (BifurcationKind.HOPF, None, "")
    assert abs(hopf.p) < 1e-6
    (cycles,) = found.cycles
    small = (cycles.p > 0.01) & (cycles.p < 0.2)
    assert small.any()
    np.testing.assert_allclose(cycles.high[small, 0], 3 * np.pi * cycles.p[small] / 8, rtol=0.02)


def test_normal_forms_that_differences_lose_are_none():
    """A return map that expands by 1e4 beside the critical direction: differences of 0.005 are none."""

    class Mapping(ReturnMap):
        def __init__(self, rate):
            self.rate, self.basis = rate, np.eye(2)

        def __call__(self, y):
            a, b = y.T
            return np.stack([-a + 2.0 * a**3, np.sin(self.rate * b) / 1e-3], axis=1)

    assert doubling_coefficient(Mapping(1e-6)) == pytest.approx(2.0, rel=1e-3)

    class Torn(Mapping):
        def __call__(self, y):
            a, b = y.T
            return np.stack([-np.sin(1e3 * a) / 1e3, b / 2.0], axis=1)

    assert np.isnan(doubling_coefficient(Torn(1.0)))


def test_the_large_cycle_beyond_an_explosion_begins_a_branch():
    """A canard explosion within 1e-10 of the parameter uses the budget up: its end is stated, and what
    limit_cycles finds beyond it is followed, a relaxation cycle whose jumps last 1/500 of its period."""
    stiff = FieldFamily.from_callable(
        lambda s, a: np.column_stack([(s[:, 1] - s[:, 0] ** 3 / 3 + s[:, 0]) / 0.002, a - s[:, 0]]), 2, "a"
    )
    result = continuation(stiff, [1.2, 1.2**3 / 3 - 1.2], (1.2, 0.5), budget=1_500_000)
    small, large = result.cycles
    assert small.ends == (BranchEnd.HOPF, BranchEnd.BUDGET)
    assert f"budget used up at p = {small.p[-1]:.9g}, period {small.period[-1]:.5g}" in str(result)
    assert np.abs(large.p - (small.p[-1] - 0.007)).max() < 1e-3
    # At a node: rounding decides where they fall, and the period grows by 1e-6 within 1e-7 of a.
    a = large.p[-1]

    def rise(s, y):
        return y[0]

    rise.direction = 1
    crossings = solve_ivp(
        lambda s, y: [(y[1] - y[0] ** 3 / 3 + y[0]) / 0.002, a - y[0]],
        (0, 2.1 * large.period[-1]),
        large.orbits[-1][0],
        method="LSODA",
        rtol=1e-9,
        atol=1e-11,
        events=rise,
    ).t_events[0]
    assert large.period[-1] == pytest.approx(crossings[1] - crossings[0], abs=1e-6)


@pytest.mark.parametrize("p_range", [(0.5, 2.0), (0.5, 3.0), (0.9, 1.1)])
def test_centres_along_a_branch_are_no_hopf_bifurcations(p_range):
    """Lotka and Volterra's equilibrium (1, p) has eigenvalues +-i sqrt(p); rounding has both signs."""
    family = FieldFamily.from_callable(
        lambda s, p: np.stack([s[:, 0] * (p - s[:, 1]), s[:, 1] * (s[:, 0] - 1.0)], 1), 2, "p"
    )
    found = continuation(family, [1.0, p_range[0]], p_range)
    assert found.bifurcations == ()


def test_equilibria_at_one_value_of_the_parameter_are_one_continuum():
    """Rock, paper and scissors in equal measure: the diagonal is at rest, and a pair crosses."""

    def rates(s, p):
        x, y, z = s.T
        mean = (1.0 - p) * (x * y + y * z + z * x)
        return np.stack([x * (y - p * z), y * (z - p * x), z * (x - p * y)], 1) - s * mean[:, None]

    found = continuation(FieldFamily.from_callable(rates, 3, "p"), [1 / 3] * 3, (0.5, 1.5))
    assert [b.kind.value for b in found.bifurcations] == ["BP", "DB"]
    assert "Equilibria form a continuum" in str(found)


@pytest.mark.parametrize(
    "rates",
    [
        lambda x, p: np.stack(
            [p * x[:, 0] + x[:, 0] ** 2 - x[:, 1] ** 2, p * x[:, 1] - 2 * x[:, 0] * x[:, 1]], 1
        ),
        lambda x, p: p * x - x**3,
    ],
    ids=["three-fold symmetry", "two pitchforks"],
)
@pytest.mark.parametrize(("p_range", "p0"), [((-1, 1), -0.5), ((-0.5, 0.5), -0.5), ((-3, 5), None)])
def test_a_step_onto_a_double_eigenvalue_is_no_reason_to_miss_it(rates, p_range, p0):
    found = continuation(FieldFamily.from_callable(rates, 2, "p"), [0.0, 0.0], p_range, p0=p0)
    assert [b.kind.value for b in found.bifurcations] == ["DB"]
    assert found.bifurcations[0].p == pytest.approx(0.0, abs=1e-7)


def test_a_step_onto_a_hopf_point_finds_it_once():
    def rates(x, p):
        return (p - np.sum(x**2, 1, keepdims=True)) * x + x[:, ::-1] * [-1, 1]

    found = continuation(FieldFamily.from_callable(rates, 2, "p"), [0.0, 0.0], (-2, 2), p0=-0.1)
    assert [b.kind.value for b in found.bifurcations] == ["HB"]


@pytest.mark.parametrize(("p_range", "p0"), [((-1, 1), -0.5), ((-0.5, 0.5), -0.25), ((-0.93, 1.17), None)])
def test_a_pair_and_a_pitchfork_at_one_place_are_both_said(p_range, p0):
    def rates(s, p):
        x, y, z = s.T
        square = x**2 + y**2
        return np.stack([p * x - y - x * square, p * y + x - y * square, p * z - z**3], 1)

    found = continuation(FieldFamily.from_callable(rates, 3, "p"), [0.0, 0.0, 0.0], p_range, p0=p0)
    assert [b.kind.value for b in found.bifurcations] == ["BP", "DB"]
    assert max(abs(b.p) for b in found.bifurcations) < 1e-9


@pytest.mark.parametrize(
    ("rates", "start", "exact"),
    [
        (lambda x, p: p - x + 2 * np.maximum(x, 0) - 3 * np.maximum(x - 1, 0), -1.0, [0.0, -1.0]),
        (lambda x, p: p - x + 3 * np.maximum(x - 0.3, 0) - 4 * np.maximum(x - 0.7, 0), -1.0, [0.3, -0.5]),
        (lambda x, p: p * x - x * np.abs(x), 0.0, [0.0]),
    ],
)
def test_folds_and_branch_points_at_kinks_are_exact(rates, start, exact):
    found = continuation(FieldFamily.from_callable(rates, 1, "p"), [start], (-2, 2), p0=start or -0.7)
    np.testing.assert_allclose([b.p for b in found.bifurcations], exact, atol=1e-9)
