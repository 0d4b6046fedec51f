"""The catalogue of systems: truths, trajectories, and that the development split is new to ODEBench."""

import pickle
import tomllib
from functools import cache
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp

from fim_dynsys import systems

ROOT = Path(__file__).resolve().parents[1]
EVERY = (*systems.development(), *systems.oracle())
WITH_EQUILIBRIA = [s for s in systems.oracle() if "equilibria" in s.truths]


def name_of(system):
    return system.name


def integrate(system, x0, t_end, rtol=1e-9, **options):
    field = system.field()
    atol = rtol * 1e-2 * system.region.size
    solution = solve_ivp(
        field.ivp,
        (0, t_end),
        x0,
        method="LSODA",
        rtol=rtol,
        atol=atol,
        jac=lambda t, x: field.jacobian(x),
        **options,
    )
    assert solution.success, solution.message
    return solution


# --- The structure of a right-hand side: what is left of it when every constant is forgotten ---------------


def structure(expressions, states):
    """Return one set of terms per expression, unchanged by any change of units and of nonzero constants.

    A term is a monomial of the polynomial part, or a proper fraction as its two sets of monomials. Constant
    terms are left out. States count by their position in `states`, functions by their argument's structure.
    """
    return tuple(_terms(_normal_form(e, states), states) for e in expressions)


def _normal_form(expression, states):
    """Constants become generic rationals, functions are written in exp, sin, cos and log of single terms."""
    e = sp.nsimplify(expression, rational=True)
    constants = sorted(e.free_symbols - set(states), key=str)
    e = e.subs({c: sp.Rational(sp.prime(11 + i), sp.prime(40 + i)) for i, c in enumerate(constants)})
    e = e.replace(sp.tanh, lambda a: 1 - 2 / (sp.exp(2 * a) + 1))
    e = e.replace(sp.cosh, lambda a: (sp.exp(a) + sp.exp(-a)) / 2).replace(
        sp.cot, lambda a: sp.cos(a) / sp.sin(a)
    )
    e = sp.expand_log(sp.expand_trig(sp.expand(e)), force=True)
    even = e.replace(
        lambda p: p.is_Pow and p.base.func == sp.cos and p.exp.is_Integer and p.exp > 1,
        lambda p: (1 - sp.sin(p.base.args[0]) ** 2) ** (p.exp // 2) * sp.cos(p.base.args[0]) ** (p.exp % 2),
    )
    return sp.expand(even)


def _terms(e, states):
    labels = {}
    numerator, denominator = sp.fraction(sp.together(_rational(e, states, labels)))
    generators = (*states, *labels)
    names = (*range(len(states)), *labels.values())
    _, p, q = sp.Poly(numerator, *generators).cancel(sp.Poly(denominator, *generators))
    (quotient,), rest = sp.reduced(p, [q], order="grevlex")
    terms = _monomials(quotient, names) - {frozenset()}
    return terms | {(_monomials(rest, names), _monomials(q, names))} if rest else terms


def _monomials(polynomial, names):
    """Return each monomial as a set of (name, power); powers of an exponential are its rescaled argument."""
    return frozenset(
        frozenset(
            (n, 1 if str(n).startswith("('exp'") else k) for n, k in zip(names, powers, strict=True) if k
        )
        for powers, coefficient in polynomial.terms()
        if coefficient
    )


def _rational(e, states, labels):
    """Replace what is not rational in the states by new symbols, entered in `labels` with their structure."""
    if not e.free_symbols:
        return e if e.is_Rational else sp.nsimplify(e.evalf(12), rational=True)
    if e.is_Symbol:
        return e
    if e.is_Add or e.is_Mul:
        return e.func(*(_rational(a, states, labels) for a in e.args))
    if e.is_Pow and e.exp.is_Integer:
        return _rational(e.base, states, labels) ** e.exp
    power = e.is_Pow and e.func != sp.exp
    kind, argument = ("power", e.base) if power else (e.func.__name__, e.args[0])
    symbol = sp.Symbol(sp.srepr(e))
    labels[symbol] = (kind, _terms(sp.expand(argument), states))
    return symbol


@cache
def structure_of(system):
    states, expressions = system.sympy()
    return structure(expressions, states)


@cache
def odebench():
    """Return (name, states, expressions) for each system of ODEBench."""
    text = (ROOT / "benchmarks/odebench/systems.toml").read_text(encoding="utf-8")
    found = []
    for entry in tomllib.loads(text)["system"]:
        states = sp.symbols(f"x:{entry['dim']}", real=True)
        symbols = {str(s): s for s in states} | {c: sp.Symbol(c, real=True) for c in entry["constants"]}
        found.append((entry["name"], states, [sp.sympify(e, locals=symbols) for e in entry["equations"]]))
    return found


@cache
def odebench_structures():
    """Return (name, structure) for each system of ODEBench under every order of its states."""
    return [
        (name, structure([expressions[i] for i in order], [states[i] for i in order]))
        for name, states, expressions in odebench()
        for order in permutations(range(len(states)))
    ]


def equal_systems(terms):
    return {name for name, form in odebench_structures() if form == terms}


def containing_systems(terms):
    """Names of the systems that would equal this one if some of their constants were zero."""
    return {
        name
        for name, form in odebench_structures()
        if len(form) == len(terms) and all(mine <= theirs for mine, theirs in zip(terms, form, strict=True))
    }


@pytest.mark.parametrize("entry", odebench(), ids=lambda entry: entry[0])
def test_the_rule_finds_every_odebench_system_in_other_units(entry):
    name, states, expressions = entry
    d = len(states)
    order = np.random.default_rng(d).permutation(d)
    sizes = [sp.Rational(7, 3), sp.Rational(2, 5), sp.Rational(9, 4)]
    rescaled = {s: sizes[i] * s for i, s in enumerate(states)}
    changed = [
        sp.Rational(5, 7) * e.subs(rescaled, simultaneous=True) / sizes[i] for i, e in enumerate(expressions)
    ]
    assert name in equal_systems(structure([changed[i] for i in order], [states[i] for i in order]))


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        ("a*tanh(b*y + c)", "RC circuit, nonlinear (sigmoid) resistor"),
        ("a*y*(b - log(y))", "Gompertz tumour growth"),
        ("a*y - b/(c + y) - d*y**2 + e", "logistic growth with saturating harvest, dimensional"),
        ("a*sin(2*y) + b*sin(y)", "overdamped bead on rotating hoop"),
        ("y; a*(y - y**3/3) - x", "van der Pol, Lienard form"),  # Rayleigh's oscillator
        ("x*(a - x - y); b - z*y; x*y - c*z", None),
        ("a*x - x*y; c*y - y**2 + x*y*z - y*x; z*(x - 1)", None),
    ],
)
def test_the_rule_sees_through_identities(expressions, expected):
    states = sp.symbols("x y z", real=True)
    parts = expressions.split(";")
    used = states[:3] if len(parts) == 3 else states[:2] if len(parts) == 2 else states[1:2]
    terms = structure([sp.sympify(p, locals={str(s): s for s in states}) for p in parts], used)
    found = equal_systems(terms)
    assert expected in found if expected else not found


@pytest.mark.parametrize("system", systems.development(), ids=name_of)
def test_development_systems_are_new_to_odebench(system):
    terms = structure_of(system)
    assert equal_systems(terms) == set()
    assert containing_systems(terms) == set()


def test_no_structure_occurs_twice():
    chosen = [structure_of(system) for system in systems.development()]
    assert len(set(chosen)) == len(chosen)
    assert not {structure_of(system) for system in systems.oracle()} & set(chosen)


# --- The catalogue ------------------------------------------------------------------------------------------


def test_sizes_of_the_splits():
    chosen = systems.development()
    assert len(chosen) >= 40
    assert sum(not s.polynomial for s in chosen) >= len(chosen) / 2
    assert {d: sum(s.dim == d for s in chosen) >= 12 for d in (1, 2, 3)} == {1: True, 2: True, 3: True}
    assert len({s.name for s in EVERY}) == len(EVERY)
    assert not {s.name for s in chosen} & {s.name for s in systems.oracle()}
    text = (ROOT / "fim_dynsys/systems.toml").read_text(encoding="utf-8")
    assert len(tomllib.loads(text)["system"]) == len(EVERY)


@pytest.mark.parametrize("system", EVERY, ids=name_of)
def test_entries_are_whole(system):
    states, expressions = system.sympy()
    used = set().union(*(e.free_symbols for e in expressions))
    assert {str(s) for s in used} <= set(system.states) | set(system.parameters)
    assert set(system.parameters) <= {str(s) for s in used}
    assert all(e.is_polynomial(*states) for e in expressions) == system.polynomial
    assert system.initial_states.shape == (2, system.dim)
    assert system.source
    assert bool(system.truths) == (system.split == "oracle")
    assert systems.get(system.name) is system


@pytest.mark.parametrize("system", EVERY, ids=name_of)
def test_trajectories_move_and_stay_inside(system):
    t = np.linspace(0, system.t_end, 200)
    for x0 in system.initial_states:
        x = integrate(system, x0, system.t_end, rtol=1e-7, t_eval=t).y.T
        assert system.region.contains(x).all()
        spread = x.std(axis=0) / system.region.size
        assert spread.min() > 0.01 and spread.max() > 0.02
    assert np.linalg.norm((system.initial_states[1] - system.initial_states[0]) / system.region.size) > 0.05


@pytest.mark.parametrize("system", EVERY, ids=name_of)
def test_jacobian_against_differences(system):
    region = system.region
    x = region.low + region.size * np.random.default_rng(0).uniform(0.1, 0.9, (20, system.dim))
    field = system.field()
    exact = field.jacobian(x)
    h = 1e-5 * region.size
    columns = [(field(x + e) - field(x - e)) / (2 * e[j]) for j, e in enumerate(np.diag(h))]
    # Central differences, in units of the box: truncation about h**2, rounding about 1e-16 / h.
    error = np.abs(exact - np.stack(columns, axis=-1)) * region.size
    assert np.all(error <= 1e-6 * np.abs(exact * region.size).max())


def test_right_hand_side_by_hand():
    x = np.array([[1.0, 2.0, 3.0], [-4.0, 0.5, 10.0]])
    lorenz = systems.get("lorenz")
    expected = [[10 * (b - a), a * (28 - c) - b, a * b - 8 / 3 * c] for a, b, c in x]
    np.testing.assert_allclose(lorenz.rhs(x), expected, rtol=1e-14)
    reactor = systems.get("stirred_tank_reactor")
    rate = 0.135 * (1 - 0.3) * np.exp(2 / (1 + 2 / 20))
    np.testing.assert_allclose(
        reactor.rhs(np.array([[0.3, 2.0]])), [[-0.3 + rate, -2 + 11 * rate - 3]], rtol=1e-14
    )


def test_outside_its_domain_a_field_is_not_a_number():
    assert np.isnan(systems.get("conical_tank").rhs(np.array([[-1.0]]))).all()


def test_fields_travel_between_processes():
    field = systems.get("morris_lecar").field()
    x = field.region.centre[None]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(field))(x), field(x))
    assert field.state_names == ("V", "w")


def test_parameters_can_be_changed():
    lorenz = systems.get("lorenz").with_parameters(rho=10.0)
    np.testing.assert_allclose(lorenz.truth("equilibria")[2], [np.sqrt(24), np.sqrt(24), 9.0], rtol=1e-14)
    np.testing.assert_allclose(lorenz.rhs(lorenz.truth("equilibria")), 0, atol=1e-12)
    assert "lyapunov" not in lorenz.truths
    assert systems.get("lorenz").parameters["rho"] == 28.0


def test_messages():
    with pytest.raises(ValueError, match=r"systems.get: expected one of .*'lorenz'.*, got 'lorentz'"):
        systems.get("lorentz")
    with pytest.raises(ValueError, match=r"lorenz: expected parameters among .*'rho'.*, got \['r'\]"):
        systems.get("lorenz").with_parameters(r=1.0)
    with pytest.raises(ValueError, match=r"lorenz: expected one of the truths .*'lyapunov'.*, got 'period'"):
        systems.get("lorenz").truth("period")


# --- Truths -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", WITH_EQUILIBRIA, ids=name_of)
def test_equilibria_are_zeros(system):
    x = system.truth("equilibria")
    assert x.shape[1] == system.dim and not np.iscomplexobj(x)
    np.testing.assert_allclose(system.rhs(x), 0, atol=1e-12)


@pytest.mark.parametrize("system", [s for s in WITH_EQUILIBRIA if "eigenvalues" in s.truths], ids=name_of)
def test_eigenvalues_of_the_jacobian(system):
    found = np.linalg.eigvals(system.jacobian(system.truth("equilibria")))
    expected = system.truth("eigenvalues").astype(complex)
    assert found.shape == expected.shape
    np.testing.assert_allclose(
        np.sort_complex(found.round(12)), np.sort_complex(expected.round(12)), atol=1e-10
    )


def cycle(system, x0, level, settle):
    """Return period and point of the cycle approached from x0, by upward crossings of a level of state 0."""

    def crossing(t, x):
        return x[0] - level

    crossing.direction = 1
    options = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-12}
    field = system.field()
    start = solve_ivp(field.ivp, (0, settle), x0, **options).y[:, -1]
    found = solve_ivp(field.ivp, (0, settle), start, events=crossing, **options)
    times, points = found.t_events[0], found.y_events[0]
    return times[-1] - times[-2], points[-1]


def multipliers(system, x0, period):
    d = system.dim

    def variational(t, z):
        x, m = z[:d], z[d:].reshape(d, d)
        return np.r_[system.rhs(x[None])[0], (system.jacobian(x[None])[0] @ m).ravel()]

    z = solve_ivp(
        variational, (0, period), np.r_[x0, np.eye(d).ravel()], method="DOP853", rtol=1e-10, atol=1e-13
    )
    return np.sort(np.linalg.eigvals(z.y[d:, -1].reshape(d, d)).real)


@pytest.mark.parametrize(
    ("name", "level", "settle"), [("van_der_pol", 0.0, 60), ("brusselator", 1.0, 60), ("hopf", 0.0, 40)]
)
def test_period_and_multiplier_of_a_cycle(name, level, settle):
    system = systems.get(name)
    period, point = cycle(system, system.initial_states[1], level, settle)
    assert abs(period - system.truth("period")) <= max(system.truths["period"].error, 1e-8)
    expected = system.truth("cycle_multiplier")
    error = max(system.truths["cycle_multiplier"].error, 1e-8)
    np.testing.assert_allclose(multipliers(system, point, period), [expected, 1.0], atol=error)


def test_period_of_the_relaxation_oscillation():
    system = systems.get("fitzhugh_nagumo")
    period, _ = cycle(system, system.initial_states[0], 0.0, 200)
    assert abs(period - system.truth("period")) <= system.truths["period"].error


def test_radius_of_the_hopf_cycle():
    system = systems.get("hopf")
    _, point = cycle(system, system.initial_states[1], 0.0, 40)
    np.testing.assert_allclose(np.linalg.norm(point), system.truth("cycle_radius"), rtol=1e-9)


@pytest.mark.parametrize("name", ["pendulum", "harmonic_oscillator"])
def test_period_of_a_conservative_system(name):
    system = systems.get(name)
    x0 = system.initial_states[0]
    end = integrate(system, x0, float(system.truth("period")), rtol=1e-11).y[:, -1]
    np.testing.assert_allclose(end, x0, atol=1e-8)


def test_period_of_the_nonuniform_oscillator():
    system = systems.get("nonuniform_oscillator")
    end = integrate(system, [0.3], float(system.truth("period")), rtol=1e-11).y[0, -1]
    np.testing.assert_allclose(end, 0.3 + 2 * np.pi, atol=1e-8)


def eigenvalues_at(system, x):
    return np.sort_complex(np.linalg.eigvals(system.jacobian(np.atleast_2d(x))[0]).astype(complex))


@pytest.mark.parametrize(
    ("name", "parameter"),
    [("saddle_node", "r"), ("transcritical", "r"), ("pitchfork", "r"), ("van_der_pol", "mu")],
)
def test_bifurcations_at_the_origin(name, parameter):
    system = systems.get(name)
    (value,) = [system.truth(key) for key in system.truths if key.startswith(f"{parameter}_")]
    critical = system.with_parameters(**{parameter: float(value)})
    origin = np.zeros((1, system.dim))
    np.testing.assert_allclose(critical.rhs(origin), 0, atol=1e-15)
    np.testing.assert_allclose(eigenvalues_at(critical, origin).real, 0, atol=1e-12)


def test_folds_of_the_cusp():
    system = systems.get("cusp")
    x = np.sqrt(system.parameters["r"] / 3)
    for h, fold in zip(system.truth("h_saddle_node"), (x, -x), strict=True):
        critical = system.with_parameters(h=float(h))
        np.testing.assert_allclose(
            [critical.rhs([[fold]])[0, 0], critical.jacobian([[fold]])[0, 0, 0]], 0, atol=1e-12
        )


def test_fold_of_the_nonuniform_oscillator():
    system = systems.get("nonuniform_oscillator")
    critical = system.with_parameters(a=float(system.truth("a_saddle_node")))
    x = [[np.pi / 2]]
    np.testing.assert_allclose([critical.rhs(x)[0, 0], critical.jacobian(x)[0, 0, 0]], 0, atol=1e-12)


def test_pitchfork_of_the_toggle_switch():
    system = systems.get("toggle_switch")
    critical = system.with_parameters(a=float(system.truth("a_pitchfork")))
    assert np.ptp(critical.truth("equilibria"), axis=0).max() < 1e-7  # the three points meet
    np.testing.assert_allclose(eigenvalues_at(critical, critical.truth("equilibria")[1])[-1], 0, atol=1e-12)


def test_hopf_point_of_the_brusselator():
    critical = systems.get("brusselator").with_parameters(B=float(systems.get("brusselator").truth("B_hopf")))
    w = critical.truth("hopf_frequency")
    np.testing.assert_allclose(
        eigenvalues_at(critical, critical.truth("equilibria")), [-1j * w, 1j * w], atol=1e-12
    )


def test_hopf_points_of_fitzhugh_nagumo():
    system = systems.get("fitzhugh_nagumo")
    np.testing.assert_allclose(system.truth("J_hopf"), [0.331281, 1.418719], atol=1e-6)
    for value in system.truth("J_hopf"):
        critical = system.with_parameters(J=float(value))
        pair = eigenvalues_at(critical, critical.truth("equilibria"))
        np.testing.assert_allclose(pair.real, 0, atol=1e-12)
        assert pair[1].imag > 0.1


def test_bifurcations_of_lorenz():
    system = systems.get("lorenz")
    assert abs(system.truth("rho_hopf") - 24.7368) < 5e-5
    critical = system.with_parameters(rho=float(system.truth("rho_hopf")))
    pair = eigenvalues_at(critical, critical.truth("equilibria")[2])[1:]
    np.testing.assert_allclose(pair.real, 0, atol=1e-12)
    birth = system.with_parameters(rho=float(system.truth("rho_pitchfork")))
    np.testing.assert_allclose(eigenvalues_at(birth, [0, 0, 0])[-1], 0, atol=1e-12)


def test_homoclinic_orbit_of_lorenz_is_bracketed():
    """The unstable manifold of the origin changes sides as rho passes the homoclinic value."""
    system = systems.get("lorenz")
    side = []
    for shift in (-2, 2):
        rho = float(system.truth("rho_homoclinic")) + shift * system.truths["rho_homoclinic"].error
        near = system.with_parameters(rho=rho)
        values, vectors = np.linalg.eig(near.jacobian(np.zeros((1, 3)))[0])
        unstable = vectors[:, values.real.argmax()].real
        end = integrate(near, 1e-5 * unstable * np.sign(unstable[0]), 60, rtol=1e-11).y[:, -1]
        side.append(np.sign(end[0]))
    assert side == [1.0, -1.0]


def test_eigenvalues_of_lorenz():
    system = systems.get("lorenz")
    origin, lobe = (eigenvalues_at(system, system.truth("equilibria")[i]) for i in (1, 2))
    np.testing.assert_allclose(origin, np.sort(system.truth("origin_eigenvalues")), atol=1e-12)
    np.testing.assert_allclose(
        lobe[2], system.truth("lobe_growth") + 1j * system.truth("lobe_frequency"), atol=2e-7
    )


def lyapunov_spectrum(system, steps, dt, copies=96, settle=1500):
    """Exponents averaged over many orbits: RK4 of the flow and its tangent, QR at every fifth step."""
    rng = np.random.default_rng(0)
    d = system.dim
    x = system.initial_states[0] + rng.normal(0, 0.5, (copies, d))
    q = np.broadcast_to(np.eye(d), (copies, d, d))
    sums = np.zeros(d)

    def derivative(x, q):
        return system.rhs(x), system.jacobian(x) @ q

    for step in range(settle + steps):
        k1 = derivative(x, q)
        k2 = derivative(x + dt / 2 * k1[0], q + dt / 2 * k1[1])
        k3 = derivative(x + dt / 2 * k2[0], q + dt / 2 * k2[1])
        k4 = derivative(x + dt * k3[0], q + dt * k3[1])
        x = x + dt / 6 * (k1[0] + 2 * k2[0] + 2 * k3[0] + k4[0])
        q = q + dt / 6 * (k1[1] + 2 * k2[1] + 2 * k3[1] + k4[1])
        if step % 5 == 4:
            q, r = np.linalg.qr(q)
            if step >= settle:
                sums += np.log(np.abs(np.diagonal(r, axis1=1, axis2=2))).mean(axis=0)
    return sums / (steps * dt)


def test_lyapunov_exponents_of_lorenz():
    system = systems.get("lorenz")
    expected = system.truth("lyapunov")
    np.testing.assert_allclose(
        expected.sum(), system.truth("divergence"), atol=2 * system.truths["lyapunov"].error
    )
    found = lyapunov_spectrum(system, steps=4000, dt=0.01)
    np.testing.assert_allclose(found, expected, atol=0.015)  # 96 orbits of 40 time units


def test_lyapunov_exponents_of_roessler():
    system = systems.get("roessler")
    found = lyapunov_spectrum(system, steps=5000, dt=0.04, copies=256)
    error = np.abs(found - system.truth("lyapunov"))
    assert np.all(error <= [0.004, 0.004, 0.05])  # 256 orbits of 200 time units; the last is set by mean x
