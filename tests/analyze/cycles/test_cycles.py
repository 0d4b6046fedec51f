"""Periodic orbits: known periods and multipliers, unstable and stiff ones, families."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from fim_dynsys import CallableField, Region, Trajectories, systems
from fim_dynsys.analyze import basins, fixed_points
from fim_dynsys.analyze.cycles import shooting
from fim_dynsys.analyze.cycles.charts import charts
from fim_dynsys.analyze.cycles.periodic import CycleKind, CycleStatus, SeedEnd, limit_cycles
from fim_dynsys.analyze.cycles.planar import contradictions, enclosed, search_rays
from fim_dynsys.analyze.cycles.search import Search, passes
from fim_dynsys.analyze.cycles.shooting import Floquet, correct_orbit, floquet, refined
from fim_dynsys.analyze.multipliers import product_eigenvalues
from fim_dynsys.analyze.tangent import CountedField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.simulation.solution import integrate


def orbit_near(field, x0, period, nodes=16):
    """Correct what the field does in one guessed period after a transient."""
    x = integrate([field], np.array([x0], dtype=float), np.array([0.0, 50.0])).x_stop
    guess = integrate([field], x, np.linspace(0, period, nodes + 1), rtol=1e-6).x[0, :-1]
    return correct_orbit(field, guess, period)


# ---------------------------------------------------------------------- one orbit


@pytest.mark.parametrize("nodes", [4, 16])
def test_hopf_normal_form_is_corrected_to_its_closed_form(nodes):
    system = systems.get("hopf")
    orbit = orbit_near(system.field(), [0.5, 0.0], 3.3, nodes)
    assert orbit.converged and orbit.residual < 1e-12
    assert orbit.period == pytest.approx(np.pi, abs=1e-9)
    assert np.hypot(*orbit.nodes.T) == pytest.approx(np.full(nodes, np.sqrt(0.5)), abs=1e-10)
    multipliers = np.sort(np.linalg.eigvals(orbit.monodromy).real)
    assert multipliers == pytest.approx([np.exp(-np.pi), 1.0], abs=1e-8)


@pytest.mark.parametrize(("mu", "period"), [(5.0, 11.6122306677), (10.0, 19.0783695669)])
def test_relaxation_oscillations(mu, period):
    """The multiplier of Van der Pol's cycle falls to 1e-136: far below what one monodromy matrix holds."""
    field = systems.get("van_der_pol").with_parameters(mu=mu).field()
    orbit = refined(field, orbit_near(field, [2.0, 0.0], 0.999 * period))
    assert orbit.period == pytest.approx(period, abs=1e-9)
    known = floquet(field, orbit)
    assert known.trivial_error < 1e-9
    assert known.liouville_error < 1e-6 * abs(known.log_moduli.sum())
    assert known.log_moduli[1] < -80


def test_no_step_stretches_the_period_without_bounds(monkeypatch):
    """Near a stable node the Newton step of the period may be 1e7: such a shot would take hours."""
    shot, periods = shooting.shoot, []

    def recorded(field, nodes, period, *rest):
        periods.append(period)
        return shot(field, nodes, period, *rest)

    monkeypatch.setattr(shooting, "shoot", recorded)
    monkeypatch.setattr(shooting, "_newton_step", lambda shot, normal, period, length: (0.0, 1e7))
    field = systems.get("hopf").field()
    orbit = correct_orbit(field, [[0.7, 0.0], [-0.7, 0.0]], 3.1)
    assert not orbit.converged
    assert max(periods) <= 4 * 3.1


def test_eigenvalues_of_a_product_keep_their_relative_accuracy():
    """Against the exact product, built from one eigenbasis: real, tiny, and a complex pair."""
    rng = np.random.default_rng(0)
    basis = rng.standard_normal((4, 4))
    angle = np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
    core = np.zeros((4, 4))
    core[0, 0], core[1:3, 1:3], core[3, 3] = 2.0, 0.5 * angle, -1e-3
    factor = basis @ core @ np.linalg.inv(basis)
    values, logs = product_eigenvalues(np.array([factor] * 20))
    expected = np.array([2.0**20, 0.5**20 * np.exp(14j), 0.5**20 * np.exp(-14j), 1e-60])
    order, known = np.argsort(-logs, kind="stable"), np.argsort(-np.abs(expected), kind="stable")
    assert logs[order] == pytest.approx(np.log(np.abs(expected[known])), rel=1e-8)
    assert np.sort_complex(values[order][1:3] * 2**20) == pytest.approx(
        np.sort_complex(expected[1:3] * 2**20)
    )
    assert values[order][[0, 3]] == pytest.approx(expected[[0, 3]], rel=1e-8)


# ---------------------------------------------------------------------- the search


def rings(x):
    """r' = r (1 - r^2) (4 - r^2), angle' = 2: a stable circle inside an unstable one."""
    square = np.sum(x**2, axis=1, keepdims=True)
    return x * (1 - square) * (4 - square) + 2 * np.stack([-x[:, 1], x[:, 0]], axis=1)


def test_nested_cycles_in_closed_form():
    """Slopes of the radial part: -6 at r = 1, 24 at r = 2; one turn takes pi."""
    cycles = limit_cycles(CallableField(rings, 2), [(-3, 3), (-3, 3)])
    assert cycles.kind.tolist() == [CycleKind.STABLE, CycleKind.UNSTABLE]
    assert cycles.stable.tolist() == [True, False]
    assert cycles.period == pytest.approx([np.pi, np.pi], abs=1e-9)
    assert np.linalg.norm(cycles.x, axis=1) == pytest.approx([1, 2], abs=1e-9)
    assert cycles.multipliers[:, 1].real == pytest.approx(np.exp([-6 * np.pi, 24 * np.pi]), rel=1e-7)
    assert cycles.log_moduli[:, 1] == pytest.approx([-6 * np.pi, 24 * np.pi], abs=1e-7)
    assert (cycles.trivial_error < 1e-9).all() and (cycles.liouville_error < 1e-7).all()
    assert (cycles.residual < 1e-10).all()
    for orbit, radius in zip(cycles.orbits, (1, 2), strict=True):
        assert np.linalg.norm(orbit, axis=1) == pytest.approx(np.full(513, radius), abs=1e-9)


@pytest.mark.parametrize("name", ["van_der_pol", "brusselator", "hopf", "fitzhugh_nagumo"])
def test_catalogue(name):
    system = systems.get(name)
    cycles = limit_cycles(system.field())
    assert len(cycles) == 1 and cycles.stable[0]
    assert cycles.period[0] == pytest.approx(
        float(system.truth("period")), abs=1e-9 + system.truths["period"].error
    )
    if "cycle_multiplier" in system.truths:
        error = system.truths["cycle_multiplier"].error
        assert cycles.multipliers[0, 1] == pytest.approx(system.truth("cycle_multiplier"), abs=1e-9 + error)
    assert cycles.liouville_error[0] < 1e-8 and not cycles.effort.exhausted


def test_stiff_cycle_is_found_though_its_region_suggests_faster_motion():
    field = systems.get("van_der_pol").with_parameters(mu=10.0).field()
    cycles = limit_cycles(field, [(-3, 3), (-16, 16)], n_seeds=8)
    assert cycles.period == pytest.approx([19.0783695669], abs=1e-9)
    assert np.isfinite(cycles.log_moduli).all() and cycles.log_moduli[0, 1] < -300
    assert cycles.liouville_error[0] < 1e-9 * 300 * 1e3


def test_families_of_closed_orbits_are_not_limit_cycles():
    """Pendulum: the period follows from the amplitude A as 4 K(sin^2(A / 2)), all multipliers are 1."""
    from scipy.special import ellipk

    cycles = limit_cycles(systems.get("pendulum").field())
    assert set(cycles.kind) == {CycleKind.CENTRE} and not cycles.stable.any()
    assert cycles.multipliers == pytest.approx(np.ones((len(cycles), 2)), abs=1e-8)
    energy = cycles.x[:, 1] ** 2 / 2 - np.cos(cycles.x[:, 0])
    assert cycles.period == pytest.approx(4 * ellipk((1 + energy) / 2), abs=1e-8)
    assert "families" in str(cycles)


def test_a_cycle_on_which_two_cycles_meet_is_degenerate():
    def field(x):
        square = np.sum(x**2, axis=1, keepdims=True)
        return x * (1 - square) ** 2 + np.stack([-x[:, 1], x[:, 0]], axis=1)

    cycles = limit_cycles(CallableField(field, 2), [(-2, 2), (-2, 2)], n_seeds=4)
    assert cycles.kind.tolist() == [CycleKind.DEGENERATE]
    assert np.linalg.norm(cycles.x, axis=1) == pytest.approx([1], abs=1e-4)


@pytest.mark.parametrize("name", ["damped_oscillator", "competition", "double_well"])
def test_no_cycles_where_there_are_none(name):
    assert len(limit_cycles(systems.get(name).field(), n_seeds=32)) == 0


def test_period_doubling_of_roessler():
    """Period two at c = 3.5: the doubled orbit is stable, the single one a saddle with multiplier < -1."""
    field = systems.get("roessler").with_parameters(c=3.5).field()
    cycles = limit_cycles(field)
    assert cycles.stable.tolist() == [True, False]
    single, double = cycles.multipliers[1, 1].real, cycles.multipliers[0, 1].real
    assert single < -1 and abs(double) < 1
    assert cycles.period[0] / cycles.period[1] == pytest.approx(2, abs=0.05)


def test_shortest_orbit_of_lorenz():
    """Period and place of the orbit AB: Viswanath, Nonlinearity 16 (2003) 1035, section 4."""
    field = systems.get("lorenz").field()
    start = np.array([[-13.764, -19.579, 27.0]])
    guess = integrate([field], start, np.linspace(0, 1.56, 17), rtol=1e-6).x[0, :-1]
    orbit = correct_orbit(field, guess, 1.56)
    assert orbit.period == pytest.approx(1.558652210716, abs=1e-10)
    known = floquet(field, orbit)
    assert known.multipliers[1] > 1 > known.multipliers[2] > 0
    assert known.liouville_error < 1e-9


def test_what_is_said_of_an_orbit():
    """Data round a quarter of the circle support the other three quarters not; a box may cut the orbit."""
    field = systems.get("hopf").field()
    angle = np.linspace(0, np.pi / 2, 40)
    arc = np.sqrt(0.5) * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    known = CallableField(field, 2, context=Trajectories.from_arrays(arc, angle / 2))
    cycles = limit_cycles(known, [(-1, 1), (-1, 1)], n_seeds=8)
    assert cycles.support[0] < 1e-6 and cycles.status[0] is CycleStatus.UNSUPPORTED
    cut = limit_cycles(field, [(0, 1), (-1, 1)], n_seeds=8)
    assert cut.status[0] is CycleStatus.LEAVES_REGION
    assert limit_cycles(field, [(-1, 1), (-1, 1)], n_seeds=8).status[0] is CycleStatus.SUPPORTED
    assert len(limit_cycles(field, [(2, 3), (2, 3)], n_seeds=8)) == 0


def test_result():
    cycles = limit_cycles(systems.get("hopf").field(), Region([(-1, 1), (-1, 1)]), n_seeds=8)
    assert "stable" in str(cycles) and "3.1416" in cycles._repr_html_()
    stored = cycles.to_xarray()
    assert stored["orbits"].shape == (1, 513, 2) and stored["multipliers"].dims == ("cycle", "mode", "part")
    empty = limit_cycles(systems.get("logistic").field())
    assert len(empty) == 0 and empty.multipliers.shape == (0, 1) and len(empty.to_xarray()["period"]) == 0


def test_budget_ends_the_search_and_says_so():
    cycles = limit_cycles(systems.get("lorenz").field(), n_seeds=16, budget=20_000)
    assert cycles.effort.exhausted and cycles.effort.points < 100_000


def test_fields_that_blow_up_do_not_hang():
    field = CallableField(lambda x: x**3, 2)
    assert len(limit_cycles(field, [(-2, 2), (-2, 2)], n_seeds=16)) == 0
    nowhere = CallableField(lambda x: np.full_like(x, np.nan), 2)
    assert len(limit_cycles(nowhere, [(-2, 2), (-2, 2)], n_seeds=16)) == 0


def stiff_pump(mu):
    def rates(s):
        x, y = s.T
        return np.column_stack([y, mu * (1 - x**2) * y - x])

    def jacobian(s):
        x, y = s.T
        rows = [[np.zeros_like(x), np.ones_like(x)], [-2 * mu * x * y - 1, mu * (1 - x**2)]]
        return np.moveaxis(np.array(rows), 2, 0)

    return CallableField(rates, 2, jacobian)


@pytest.mark.parametrize(("mu", "period"), [(100, 162.83707108), (1000, 1614.4011255)])
def test_relaxation_oscillations_of_stiff_fields(mu, period):
    """Periods by LSODA at a tolerance of 1e-12."""
    found = limit_cycles(stiff_pump(mu), [(-3, 3), (-2 * mu, 2 * mu)], n_seeds=8)
    assert found.stable.tolist() == [True]
    assert found.period[0] == pytest.approx(period, rel=1e-8)
    assert found.residual[0] < 1e-7 and found.trivial_error[0] < 1e-6
    assert found.log_moduli[0, 1] < -1e3  # the multiplier itself underflows


def test_stiff_paths_backwards_in_time_leave_the_budget_to_what_attracts():
    """Van der Pol in Lienard's plane: period by Radau. Backwards all of the budget goes into stiff paths."""
    field = CallableField(
        lambda x: np.stack([100.0 * (x[:, 1] - x[:, 0] ** 3 / 3 + x[:, 0]), -x[:, 0] / 100.0], axis=1), 2
    )
    found = limit_cycles(field, [(-3, 3), (-1, 1)], n_seeds=16, budget=600_000)
    assert found.period == pytest.approx([162.83707108], rel=1e-7) and found.stable.all()
    assert found.effort.exhausted


def test_repelling_cycles_in_space_are_found_backwards():
    """The circle r = 1, z = 0 repels from all sides inside r = 2, with multipliers exp(2 pi) and exp(pi)."""

    def rates(s):
        a, b, z = s.T
        rate = (a**2 + b**2 - 1) / 2 * (1 - (a**2 + b**2) / 9)
        return np.column_stack([rate * a - b, rate * b + a, z / 2 - z**3])

    cycles = limit_cycles(CallableField(rates, 3), [(-2, 2), (-2, 2), (-1, 1)], n_seeds=8)
    (repelling,) = np.flatnonzero(cycles.kind == CycleKind.UNSTABLE)
    assert np.linalg.norm(cycles.orbits[repelling], axis=1) == pytest.approx(1, abs=1e-6)
    growth = [np.pi, 2 * np.pi * 8 / 9]
    assert sorted(cycles.log_moduli[repelling, 1:]) == pytest.approx(growth, abs=1e-6)


@pytest.mark.slow
def test_more_saddle_cycles_of_a_chaotic_attractor():
    """Lorenz: orbits of two to six loops, among them those of Viswanath (2003), table 1."""
    cycles = limit_cycles(systems.get("lorenz").field(), n_saddles=20, budget=20_000_000)
    assert (cycles.kind == CycleKind.SADDLE).sum() >= 20 and not cycles.stable.any()
    for period in (1.5586522107, 2.3059072639, 3.0235837034, 3.0842767758):
        assert np.abs(cycles.period - period).min() < 1e-8


# ---------------------------------------------------------------------- the whole plane


def plane(rates):
    return CallableField(lambda s: np.stack(rates(*s.T), axis=1), 2)


def two_species(n, p):
    """Rosenzweig and MacArthur's predators and prey far beyond the Hopf point."""
    return 0.8 * n * (1 - n / 15) - 2.5 * n * p / (n + 1), 1.25 * n * p / (n + 1) - 0.4 * p


def test_a_cycle_near_a_heteroclinic_loop_is_found_once():
    """Predators fall to 1e-9: the period is that of DOP853 at 1e-12 in logarithms of both states."""
    cycles = limit_cycles(plane(two_species), [(0, 18), (0, 18)], n_seeds=16)
    assert cycles.period == pytest.approx([83.58266], abs=1e-4)
    assert cycles.kind.tolist() == [CycleKind.STABLE]
    assert cycles.liouville_error[0] < 1e-6 * abs(cycles.log_moduli[0, 1])
    assert cycles.orbits[0].min() < 1e-6 and (cycles.orbits[0] > 0).all()


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_paths_that_end_at_a_pole_do_not_end_the_search(low):
    """Below zero lies a pole at x = -1.5: what becomes of each path is counted, and the others go on."""

    def rates(x, y):
        return x * (1 - x / 10) - 0.8 * x * y / (1.5 + x), -0.3 * y + 0.5 * x * y / (1.5 + x)

    cycles = limit_cycles(plane(rates), [(low, 12), (low, 12)], n_seeds=32)
    assert cycles.period == pytest.approx([38.68946], abs=1e-4)
    assert sum(cycles.seed_ends.values()) == 64 and not cycles.effort.exhausted
    singular = cycles.seed_ends.get(SeedEnd.SINGULAR, 0) + cycles.seed_ends.get(SeedEnd.OUT_OF_STEPS, 0)
    assert (singular > 0) == (low < 0)
    assert "no claim of completeness" in str(cycles)


def close_pair(x, y):
    """Radial rate (1 - r)(1.002 - r): the cycle r = 1 attracts, r = 1.002 repels."""
    r = np.hypot(x, y)
    g = (1 - r) * (1.002 - r)
    return x * g - y, y * g + x


def test_three_cycles_whose_return_map_hardly_moves_between_them():
    """Radii 1, 1.01 and 1.02: a turn moves 2e-6 at most, about the error of the return map."""

    def rhs(x):
        radius = np.hypot(*x.T)
        growth = (1.0 - radius) * (1.01 - radius) * (1.02 - radius)
        return np.stack([x[:, 0] * growth - x[:, 1], x[:, 1] * growth + x[:, 0]], axis=1)

    found = limit_cycles(CallableField(rhs, 2), [(-1.5, 1.5)] * 2, n_seeds=8)
    radii = sorted(float(np.hypot(*x)) for x in found.x)
    assert radii == pytest.approx([1.0, 1.01, 1.02], abs=1e-5)
    assert sorted(found.kind) == [CycleKind.STABLE, CycleKind.STABLE, CycleKind.UNSTABLE]


def test_two_cycles_close_to_each_other():
    cycles = limit_cycles(plane(close_pair), [(-1.5, 1.5)] * 2, n_seeds=8)
    assert cycles.kind.tolist() == [CycleKind.STABLE, CycleKind.UNSTABLE]
    assert np.linalg.norm(cycles.x, axis=1) == pytest.approx([1.0, 1.002], abs=1e-6)
    assert cycles.log_moduli[:, 1] / (2 * np.pi) == pytest.approx([-0.002, 0.002 * 1.002], rel=1e-3)


def test_a_small_cycle_that_is_slow_for_the_field():
    """Radius 1e-3 in a box of 1, where the field is 1e8 times as fast as on the cycle."""

    def rhs(x):
        growth = 1e5 * (1e-6 - np.sum(x**2, axis=1, keepdims=True))
        return x * growth + x[:, ::-1] * [-1.0, 1.0]

    found = limit_cycles(CallableField(rhs, 2), [(-1, 1)] * 2, n_seeds=8)
    assert np.hypot(*found.x.T) == pytest.approx([1e-3], rel=1e-6)
    assert found.period == pytest.approx([2 * np.pi], rel=1e-9)
    assert found.log_moduli[0, 1] == pytest.approx(-0.4 * np.pi, rel=1e-6)


def test_of_a_family_at_most_five_members_are_listed():
    pendulum = plane(lambda q, p: (p, -np.sin(q)))
    cycles = limit_cycles(pendulum, Region([(-3.5, 3.5), (-3, 3)]))
    assert len(cycles) == 5 and set(cycles.kind) == {CycleKind.CENTRE}


@pytest.mark.parametrize("unit", [1e-20, 1e20])
def test_units_cost_nothing(unit):
    def scaled(x):
        return unit * np.stack(
            [x[:, 1] / unit, (1 - (x[:, 0] / unit) ** 2) * x[:, 1] / unit - x[:, 0] / unit], 1
        )

    cycles = limit_cycles(CallableField(scaled, 2), [(-3 * unit, 3 * unit), (-4 * unit, 4 * unit)], n_seeds=8)
    assert cycles.period == pytest.approx([6.6632868593], abs=1e-8)
    assert cycles.effort.points < 200_000


def test_a_cycle_missing_between_two_is_looked_for_until_it_is_found():
    """Cycles r = 1 and r = 3 attract, r = 2 repels; without it the other two contradict each other."""

    def rates(x, y):
        r = np.hypot(x, y)
        g = (1 - r) * (2 - r) * (3 - r) / 4
        return x * g - y, y * g + x

    region = Region([(-4, 4), (-4, 4)])
    counted = CountedField(plane(rates), region)
    search = Search(charts(counted, region, 1.0)[0], counted, 10**7, 0.1, 8)
    search_rays(search)
    by_radius = {round(float(np.hypot(*cycle.orbit.x)), 6): cycle for cycle in search.found}
    assert sorted(by_radius) == [1.0, 2.0, 3.0]
    search.found = [by_radius[1.0], by_radius[3.0]]
    assert contradictions(search) == []
    assert sorted(round(float(np.hypot(*cycle.orbit.x)), 6) for cycle in search.found) == [1.0, 2.0, 3.0]
    unit = np.exp(2j * np.pi * np.linspace(0, 1, 65))
    loop = np.stack([unit.real, unit.imag], axis=1)
    assert enclosed(loop, np.array([[0.0, 0.0], [0.9, 0.1], [1.1, 0.0], [-3.0, 0.2]])).tolist() == [
        True,
        True,
        False,
        False,
    ]


def test_multipliers_that_contradict_the_divergence_are_no_cycle():
    good = Floquet(np.array([1.0, 0.1]), np.array([0.0, np.log(0.1)]), 1e-9, 1e-9)
    assert passes(good)
    assert not passes(replace(good, trivial_error=1.0))
    assert not passes(replace(good, liouville_error=13.0))


def test_a_cycle_in_the_face_where_a_third_species_is_absent():
    """Logarithms never reach the face z = 0, the states themselves do."""

    def rates(s):
        x, y, z = s.T
        return np.stack(
            [x * (1 - x / 10) - 0.8 * x * y / (1.5 + x), -0.3 * y + 0.5 * x * y / (1.5 + x), -z], axis=1
        )

    cycles = limit_cycles(CallableField(rates, 3), [(0, 11), (0, 8), (0, 1)], n_seeds=4)
    assert cycles.period[0] == pytest.approx(38.68946, abs=1e-4) and cycles.stable[0]
    assert np.abs(cycles.orbits[0][:, 2]).max() < 1e-9


def test_a_cycle_of_data_points_to_its_bands_and_repeats_what_the_fit_warned_of():
    circle = np.linspace(0, 2 * np.pi, 15)
    data = Trajectories.from_arrays(
        np.sqrt(0.5) * np.stack([np.cos(circle), np.sin(circle)], axis=1), circle / 2
    )
    given = systems.get("hopf").field()
    assert "cycle_bands" not in str(limit_cycles(given, [(-1, 1), (-1, 1)], n_seeds=4))
    fitted = CallableField(given, 2, context=data).with_fit_info(
        FitInfo(problems=("its path leaves the data",))
    )
    cycles = limit_cycles(fitted, [(-1, 1), (-1, 1)], n_seeds=4)
    assert "cycle_bands(model) gives intervals" in str(cycles)
    for result in (cycles, fixed_points(fitted), basins(fitted, resolution=4, n_sample=4)):
        assert str(result).splitlines()[-1] == "the fit of this field warned: its path leaves the data"
        assert result.to_xarray().attrs["fit_problems"] == "its path leaves the data"


def on_a_belt(friction, speed, damping=0.0):
    """A block on a moving belt, held by a spring: friction by the speed of slipping, towards the belt."""

    def rates(s):
        slip = speed - s[:, 1]
        force = np.sign(slip) * friction(np.abs(slip))
        return np.stack([s[:, 1], -s[:, 0] - damping * s[:, 1] + force], axis=1)

    return CallableField(rates, 2, state_names=["x", "v"])


def stick_slip_period(friction, speed, damping):
    """Slipping by an equation of one side alone until the block has the belt's speed; then it sticks."""
    leaves = friction(0.0) - damping * speed

    def slips(t, s):
        return [s[1], -s[0] - damping * s[1] + friction(speed - s[1])]

    def caught(t, s):
        return s[1] - speed

    caught.terminal, caught.direction = True, 1
    path = solve_ivp(slips, (0, 100), [leaves, speed], "DOP853", events=caught, rtol=1e-13, atol=1e-14)
    return path.t[-1] + (leaves - path.y[0, -1]) / speed


@pytest.mark.parametrize(
    ("friction", "speed", "damping"),
    [
        (lambda u: 1.0 / (1.0 + 3.0 * u), 0.2, 0.0),
        (lambda u: 0.5 + 0.5 * np.exp(-u / 0.2), 0.2, 0.05),  # Stribeck's curve
        (lambda u: 1.0 - 0.3 * u, 0.5, 0.0),
    ],
)
def test_stick_slip(friction, speed, damping):
    found = limit_cycles(on_a_belt(friction, speed, damping), [(-2, 3), (-2, 2)])
    assert found.sliding[0] and found.kind[0] is CycleKind.STABLE
    assert found.period[0] == pytest.approx(stick_slip_period(friction, speed, damping), rel=1e-9)
    assert found.multipliers[0].tolist() == [1.0, 0.0] and found.residual[0] < 1e-9
    assert "1 cycle with sliding along v = " in str(found)
    at_speed = np.abs(found.orbits[0][:, 1] - speed) < 1e-9
    share = (
        (found.orbits[0][at_speed, 0].max() - found.orbits[0][at_speed, 0].min()) / speed / found.period[0]
    )
    assert at_speed.mean() == pytest.approx(share, abs=0.01)  # it sticks for as long as the belt takes


def test_equal_static_and_kinetic_friction_has_a_family_alone():
    """Without weakening the block ends in the family of circles that just touch the belt's speed."""
    found = limit_cycles(on_a_belt(np.ones_like, 0.2), [(-2, 3), (-2, 2)])
    assert not found.sliding.any() and set(found.kind) == {CycleKind.CENTRE}
    np.testing.assert_allclose(found.period, 2 * np.pi, rtol=1e-9)


def test_sliding_that_is_not_followed_is_said():
    """Friction in three states, and a jump across a slanted line: none found, and why."""

    def in_space(s):
        plane = on_a_belt(lambda u: 1.0 / (1.0 + 3.0 * u), 0.2)(s[:, :2])
        return np.column_stack([plane, s[:, 0] - s[:, 2]])

    found = limit_cycles(CallableField(in_space, 3), [(-2, 3), (-2, 2), (-2, 2)])
    assert len(found) == 0 and found.seed_ends[SeedEnd.SLIDING] > 0
    assert "x1 = 0.2: cycles that do so are found in the plane alone" in str(found)


def test_a_cycle_outside_the_region_is_corrected_once():
    """Paths backwards in time all lead to a circle of radius 2 that passes by the region."""

    def rates(s):
        r2 = (s**2).sum(axis=1, keepdims=True)
        return s * (r2 - 4.0) * (1.0 - r2 / 100.0) + np.stack([-s[:, 1], s[:, 0]], axis=1)

    found = limit_cycles(CallableField(rates, 2), [(-1.3, 1.3)] * 2)
    assert len(found) == 0 and found.seed_ends[SeedEnd.CYCLE] > 50
    assert found.effort.iterations < 20


def test_a_cycle_whose_first_sample_lies_on_a_line_crosses_it():
    """Van der Pol's cycle is listed from v = 0, where the ray from the focus meets it."""
    found = limit_cycles(systems.get("van_der_pol").field(), [(-3, 3)] * 2)
    assert len(found) == 1 and found.effort.iterations <= 5
