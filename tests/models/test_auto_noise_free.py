"""What every newcomer tries first: simulated textbook systems come back as they were written."""

import re
from functools import cache

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fim_dynsys
from fim_dynsys import CallableField, simulate
from fim_dynsys.fields.inference import Judge

SYSTEMS = {
    "pendulum": (lambda x, y: (y, -np.sin(x)), [2.0, 0.0], 20.0, ["1 x1", "-1 sin(x0)"]),
    "Lotka-Volterra": (
        lambda x, y: (1.1 * x - 0.4 * x * y, 0.1 * x * y - 0.4 * y),
        [10.0, 5.0],
        30.0,
        ["1.1 x0 + -0.4 x0 x1", "-0.4 x1 +  0.1 x0 x1"],
    ),
    "SIR": (
        lambda s, i, r: (-0.5 * s * i, 0.5 * s * i - 0.1 * i, 0.1 * i),
        [0.99, 0.01, 0.0],
        60.0,
        ["-0.5 x0 x1", "-0.1 x1 +  0.5 x0 x1", "0.1 x1"],
    ),
    "Lorenz, 0.01": (
        lambda x, y, z: (10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z),
        [-8.0, 7.0, 27.0],
        1.99,
        ["-10 x0 +  10 x1", "28 x0 + -1 x1 + -1 x0 x2", "-2.6667 x2 +  1 x0 x1"],
    ),
    "Lorenz, 0.05": (
        lambda x, y, z: (10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z),
        [-8.0, 7.0, 27.0],
        9.95,
        ["-10 x0 +  10 x1", "28 x0 + -1 x1 + -1 x0 x2", "-2.6667 x2 +  1 x0 x1"],
    ),
    "Roessler": (
        lambda x, y, z: (-y - z, x + 0.2 * y, 0.2 + z * (x - 5.7)),
        [1.0, 1.0, 0.0],
        40.0,
        ["-1 x1 + -1 x2", "1 x0 +  0.2 x1", "0.2 1 + -5.7 x2 +  1 x0 x2"],
    ),
    "van der Pol": (
        lambda x, y: (y, (1.0 - x**2) * y - x),
        [0.5, 0.0],
        20.0,
        ["1 x1", "-1 x0 +  1 x1 + -1 x0^2 x1"],
    ),
    "FitzHugh-Nagumo": (
        lambda v, w: (v - v**3 / 3.0 - w + 0.5, 0.08 * (v + 0.7 - 0.8 * w)),
        [-1.0, 1.0],
        100.0,
        ["0.5 1 +  1 x0 + -1 x1 + -0.33333 x0^3", "0.056 1 +  0.08 x0 + -0.064 x1"],
    ),
    "logistic growth": (lambda x: (0.8 * x * (1.0 - 0.5 * x),), [0.05], 12.0, ["0.8 x0 + -0.4 x0^2"]),
    "damped oscillator": (
        lambda x, y: (y, -x - 0.2 * y),
        [1.0, 0.0],
        25.0,
        ["1 x1", "-1 x0 + -0.2 x1"],
    ),
    "oscillator": (lambda x, y: (y, -2.0 * x), [1.0, 0.0], 15.0, ["1 x1", "-2 x0"]),
    "Duffing": (
        lambda x, y: (y, x - x**3 - 0.2 * y),
        [1.5, 0.0],
        25.0,
        ["1 x1", "1 x0 + -0.2 x1 + -1 x0^3"],
    ),
}
RATIONAL = {
    "Michaelis-Menten": (lambda s: (-s / (0.5 + s),), [3.0], 8.0, 2),
    "chemostat": (
        lambda x, s: (x * (0.8 * s / (0.5 + s) - 0.3), 0.3 * (2.0 - s) - 0.8 * x * s / (0.5 + s)),
        [0.1, 1.5],
        30.0,
        6,
    ),
}


def shortened(equation):
    """An equation without zeros at the end of its numbers."""
    return re.sub(r"(\d\.\d*?)0+(?= )", r"\1", equation).replace(". ", " ").strip()


def clean(rates, start, end, n=200):
    field = CallableField(lambda x: np.stack(rates(*x.T), 1), len(start))
    t = np.linspace(0.0, end, n)
    return field, t, simulate(field, start, t, rtol=1e-11, atol=1e-13).x[0]


@cache
def recorded(name):
    """The field of a named system and its record."""
    return clean(*(SYSTEMS | RATIONAL)[name][:3])


@cache
def fitted(name, kind):
    """A model of a named system's record, fitted once for all tests that ask it."""
    _, t, x = recorded(name)
    return fim_dynsys.load(kind).fit(x, t)


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_textbook_equations_and_no_other_term(name):
    expected, model = SYSTEMS[name][-1], fitted(name, "auto")
    assert [shortened(equation) for equation in model.equations(5, style="pysindy")] == expected


@pytest.mark.parametrize("name", SYSTEMS)
def test_of_the_operator_s_search_too_with_their_errors(name):
    field, _, x = recorded(name)
    expected, model = SYSTEMS[name][-1], fitted(name, "fim-ode")
    assert [shortened(equation) for equation in model.equations(5, style="pysindy")] == expected
    assert model.field_.fit_info.inference.judge is Judge.EXACT
    assert (model.field_.standard_errors < 1e-6 * np.abs(model.field_.coefficients).max()).all()
    scale = model.field_.scale(x[:1])
    assert (np.abs(model.field_(x[:1]) - field(x[:1])) <= 10.0 * scale + 1e-9 * np.abs(field(x)).max()).all()


@pytest.mark.parametrize("name", RATIONAL)
def test_functions_where_no_polynomial_explains_the_samples(name):
    field, model = recorded(name)[0], fitted(name, "fim-ode")
    beyond = np.random.default_rng(0).uniform(0.0, 10.0, size=(50, field.dim))
    np.testing.assert_allclose(model.predict(beyond), field(beyond), rtol=1e-4, atol=1e-6)
    members = model.ensemble(3, seed=1)
    assert {tuple(map(tuple, member.terms())) for member in members} == {
        tuple(map(tuple, model.field_.terms()))
    }
    np.testing.assert_allclose(members[0](beyond), field(beyond), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "relation"),
    [
        ("oscillator", "2 x0^2 + x1^2 = 2"),
        ("SIR", "x0 + x1 + x2 = 1"),
        ("Duffing", None),
    ],
)
@pytest.mark.parametrize("kind", ["fim-ode", "auto"])
def test_what_one_orbit_cannot_tell_apart_is_said(name, relation, kind, capsys):
    model = fitted(name, kind)
    model.print()
    printed = capsys.readouterr().out
    if relation is None:
        assert "not determined" not in printed
    else:
        assert f"{relation} along the data, so its multiples are not determined" in printed
        assert model.field_.fit_info.report["not determined"] == [relation]


def test_exact_laws_are_printed_with_the_errors_of_their_own_fit(capsys):
    for kind in ("fim-ode", "auto"):
        model = fitted("Lotka-Volterra", kind)
        assert 0.0 < model.field_.standard_errors.max() < 1e-8
        model.print(errors=True)
        assert "(1.1000000" in capsys.readouterr().out


@pytest.mark.parametrize("name", RATIONAL)
def test_rational_laws_hold_where_nothing_was_seen(name):
    field, model, parameters = recorded(name)[0], fitted(name, "auto"), RATIONAL[name][-1]
    law = model.portfolio_.exact_models[0]
    assert law.is_exact and law.parameters == parameters
    beyond = np.random.default_rng(0).uniform(0.0, 10.0, size=(50, field.dim))
    np.testing.assert_allclose(model.predict(beyond), field(beyond), rtol=1e-4, atol=1e-6)


FUNCTIONS = {
    **{name: RATIONAL[name][:3] for name in RATIONAL},
    "pendulum": SYSTEMS["pendulum"][:3],
    "toggle switch": (lambda u, v: (2.0 / (1.0 + v**2) - u, 2.0 / (1.0 + u**3) - v), [1.5, 0.2], 8.0),
    "stirred tank": (
        lambda c, T: (1.0 - c - 5.0 * c * np.exp(-3.0 / T), 1.5 - T + 4.0 * c * np.exp(-3.0 / T)),
        [0.9, 1.0],
        8.0,
    ),
    "sine of a square": (lambda x, v: (v, 0.3 - np.sin(x**2) - 0.1 * v), [1.2, 0.0], 15.0),
    "sine of a sum": (lambda a, b: (np.sin(a + 0.5 * b) - 0.3 * a, 0.5 - np.cos(a)), [0.4, 1.0], 12.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_symbolic_reads_laws_with_functions_off_clean_samples(name, tmp_path):
    field, t, x = clean(*FUNCTIONS[name])
    model = fim_dynsys.load("symbolic", progress=False).fit(x, t)
    assert model.field_.fit_info.inference.judge is Judge.EXACT
    np.testing.assert_allclose(model.field_(x), field(x), rtol=1e-6, atol=1e-8)
    drawn = np.stack([member(x[:5]) for member in model.ensemble(5, seed=0)])
    assert 0.0 < drawn.std(axis=0).max() < 1e-6
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(fim_dynsys.load_fitted(tmp_path / "model").predict(x), model.predict(x))


def test_functions_of_functions_are_found():
    """Arrhenius' law in a reaction that heats itself."""
    field, t, x = clean(lambda T: (1.2 - 0.5 * T + 2.0 * np.exp(-2.0 / T),), [0.4], 6.0)
    model = fim_dynsys.load("auto", progress=False).fit(x, t)
    assert model.equations(precision=4) == ["1.2 - 0.5 x0 + 2 exp(-2 / x0)"]
    np.testing.assert_allclose(model.field_(x), field(x), rtol=1e-6)


INACCURATE = {  # and the number of terms, functions among them
    "toggle switch": (lambda x, y: (2.5 / (1.0 + y**2) - x, 2.2 / (1.0 + x**2) - y), [0.4, 2.5], 12.0, 4),
    "enzyme that is far from saturated": (
        lambda s, p: (0.3 - 1.2 * s / (5.0 + s) + 0.2 * p, 1.2 * s / (5.0 + s) - 0.6 * p),
        [1.0, 0.5],
        20.0,
        5,
    ),
    "small enzyme in a chain": (
        lambda x, y, z: (0.1 - 0.2 * x * y, 0.3 * x / (4.0 + x) - 0.2 * y, y - 0.5 * z),
        [0.5, 0.2, 0.1],
        30.0,
        6,
    ),
    "Brusselator": (lambda x, y: (1.0 - 4.0 * x + x**2 * y, 3.0 * x - x**2 * y), [1.2, 3.1], 25.0, 5),
}


@pytest.mark.parametrize(
    ("name", "kind"),  # both search for exact laws in one way: once for each law, and twice for one
    [
        ("toggle switch", "fim-ode"),
        ("enzyme that is far from saturated", "auto"),
        ("small enzyme in a chain", "fim-ode"),
        ("Brusselator", "fim-ode"),
        ("Brusselator", "auto"),
    ],
)
def test_integration_errors_of_samples_are_no_terms(name, kind):
    rates, start, end, terms = INACCURATE[name]
    t = np.linspace(0.0, end, 400)
    x = solve_ivp(lambda t, x: rates(*x), (0.0, end), start, "LSODA", t, rtol=1e-6, atol=1e-8).y.T
    model = fim_dynsys.load(kind).fit(x, t)
    expected = np.stack(rates(*x.T), axis=1)
    np.testing.assert_allclose(model.field_(x), expected, atol=1e-4 * np.abs(expected).max())
    assert np.count_nonzero(model.field_.coefficients) == terms


KINKED = {  # with the number of terms of each
    "oscillator with a stop": (
        lambda x, v: (v, 1.0 - 3.0 * x - 0.2 * v - 2.0 * np.abs(x - 0.5)),
        [2.0, 0.0],
        20.0,
        5,
    ),
    "neuron of three pieces": (  # as of H. P. McKean, Adv. Math. 4 (1970) 209
        lambda v, w: (
            2.175 - 2.0 * v - w - 2.5 * np.abs(v - 0.8) + 1.5 * np.abs(v - 0.15),
            0.1 * v - 0.05 * w,
        ),
        [1.0, 0.0],
        60.0,
        7,
    ),
    "kink across two states": (
        lambda x, y: (y, -x - 0.8 * y + 0.5 * np.abs(x + 2.0 * y)),
        [1.0, 0.5],
        20.0,
        4,
    ),
}


@pytest.mark.parametrize("name", KINKED)
def test_kinks_are_found_wherever_they_are(name):
    rates, start, end, terms = KINKED[name]
    field, t, x = clean(rates, start, end, 600)
    model = fim_dynsys.load("auto", progress=False).fit(x, t)
    assert np.count_nonzero(model.field_.coefficients) == terms
    assert "|" in "".join(model.equations())
    beside = x[::20] + 0.3 * x.std(axis=0)  # where nothing was seen
    np.testing.assert_allclose(model.field_(beside), field(beside), rtol=1e-4, atol=1e-5)


def chua(x, y, z):
    """Chua's circuit (Chua, Komuro, Matsumoto 1986), with alpha 9 and beta 100/7."""
    current = 2.0 / 7.0 * x - 3.0 / 14.0 * (np.abs(x + 1.0) - np.abs(x - 1.0))
    return 9.0 * (y - current), x - y + z, -100.0 / 7.0 * y


@pytest.mark.parametrize(("noise", "end", "n"), [(0.0, 20.0, 500), (0.02, 30.0, 1000)])
def test_both_kinks_of_chuas_circuit_are_found(noise, end, n):
    """Under noise, too: the first equation has both, and its rates are those of the circuit."""
    field = CallableField(lambda x: np.stack(chua(*x.T), 1), 3)
    t = np.linspace(0.0, end, n)
    x = simulate(field, [0.1, 0.1, 0.0], t, rtol=1e-10, atol=1e-12).x[0]
    y = x + noise * x.std(axis=0) * np.random.default_rng(0).normal(size=x.shape)
    model = fim_dynsys.load("auto", progress=False).fit(y, t)
    assert "|x0 + 1|" in model.equations()[0] and "|x0 - 1|" in model.equations()[0]
    rates = field(x)
    assert np.abs(model.field_(x) - rates).mean() < max(1e-4, noise) * np.abs(rates).mean()


@pytest.mark.parametrize("kind", ["fim-ode", "auto"])
def test_chaos_is_fitted_over_windows(kind, tmp_path):
    """Rounding to single precision grows beyond the attractor in twenty units of time; this record has 50."""
    field = CallableField(
        lambda x: np.stack(
            [
                10.0 * (x[:, 1] - x[:, 0]),
                x[:, 0] * (28.0 - x[:, 2]) - x[:, 1],
                x[:, 0] * x[:, 1] - 8.0 / 3.0 * x[:, 2],
            ],
            1,
        ),
        3,
    )
    t = 0.05 * np.arange(1000)
    x = simulate(field, [-8.0, 7.0, 27.0], t, rtol=1e-11, atol=1e-13).x[0].astype(np.float32).astype(float)
    model = fim_dynsys.load(kind).fit(x, t)
    assert model.field_.fit_info.inference.judge is Judge.EXACT
    assert np.count_nonzero(model.field_.coefficients) == 7
    assert np.abs(model.field_(x) - field(x)).max() < 1e-6 * np.abs(field(x)).max()
    assert model.field_.fit_info.initial_states.shape == (1, 3)
    assert kind == "fim-ode" or model.alternatives_
    assert all(np.isfinite(member(x[:2])).all() for member in model.ensemble(3, seed=0))
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(fim_dynsys.load_fitted(tmp_path / "model").predict(x), model.predict(x))
