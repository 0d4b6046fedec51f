"""Operon: contract, what it must recover, and the steps between an expression and a fitted field."""

import time
from dataclasses import replace

import numpy as np
import pytest
import sympy

import fim_dynsys
from benchmarks.oscillators.tasks import tasks
from fim_dynsys.errors import FitError
from fim_dynsys.models import auto
from fim_dynsys.regression.observed import observe
from fim_dynsys.search.proposers import proposers
from fim_dynsys.testing import check_model
from fim_dynsys_operon.engine import GENETIC, front
from fim_dynsys_operon.proposer import proposer
from fim_dynsys_operon.sums import RightHandSide, matched, split, structure
from fim_dynsys_operon.terms import with_parameters

SMALL = {"population_size": 100, "generations": 8, "functions": "", "candidates": 2}
X, Y = sympy.symbols("x0 x1", real=True)


def _oscillator(n=80, span=6.0):
    t = np.linspace(0.0, span, n)
    return np.stack([np.cos(2 * t), -np.sin(2 * t)], axis=1), t


def test_contract():
    check_model(lambda: fim_dynsys.load("operon", **SMALL), cheap=True)


def test_recovers_a_harmonic_oscillator(tmp_path):
    x, t = _oscillator()
    model = fim_dynsys.load("operon", **SMALL).fit(x, t)
    assert model.field_.fit_info.path_r2 > 0.999
    assert model.field_.terms() is None or model.complexity < 10
    assert np.allclose(model.predict(np.eye(2)), [[0.0, -2.0], [2.0, 0.0]], atol=0.05)
    model.save(tmp_path)
    assert np.allclose(fim_dynsys.load_fitted(tmp_path).predict(x), model.predict(x), rtol=1e-12)


def test_functions_are_found():
    t = np.linspace(0.0, 6.0, 100)
    x = 2.0 * np.arctan(np.exp(0.9 * (t - 3.0)))  # x' = 0.9 sin(x)
    model = fim_dynsys.load("operon", **SMALL | {"functions": "sin", "generations": 15}).fit(x, t)
    assert model.field_.fit_info.path_r2 > 0.9999
    states = np.linspace(0.2, 2.9, 20)[:, None]
    assert np.allclose(model.predict(states), 0.9 * np.sin(states), atol=0.02)


def test_beats_holding_the_first_state():
    task = tasks()[0]
    settings = SMALL | {"population_size": 300, "generations": 20}
    model = fim_dynsys.load("operon", **settings).fit(task.context(121))
    path = model.simulate(task.start, np.concatenate([[0.0], task.target_t]))[1:]
    held = np.mean((task.start - task.target_x) ** 2)
    assert np.mean((path - task.target_x) ** 2) < 0.25 * held


def test_ragged_trajectories_names_and_ensemble():
    x, t = _oscillator()
    context = fim_dynsys.Trajectories.from_arrays([x, x[:40], x[50:75]], [t, t[:40], t[50:75]], ["c", "c0"])
    model = fim_dynsys.load("operon", **SMALL).fit(context)
    assert model.field_.state_names == ("c", "c0")
    assert not set(model.field_.parameters) & {"c", "c0"}
    assert model.field_.fit_info.path_r2 > 0.99
    for member in model.ensemble(2):
        assert [str(e) for e in member.expressions] == [str(e) for e in model.field_.expressions]
        assert np.allclose(member(x), model.field_(x), atol=0.1)


def test_ends_in_time():
    x, t = tasks()[0].context(121).arrays()[0][::-1]
    fim_dynsys.load("operon", **SMALL).fit(x, t)  # what is compiled and imported on the way does not count
    model = fim_dynsys.load("operon", generations=100_000, max_seconds=8.0)
    start = time.perf_counter()
    model.fit(x, t)
    assert time.perf_counter() - start < 1.5 * 8.0


def test_too_little_time_is_a_failed_fit():
    with pytest.raises(FitError, match=r"got them for 0 within 0\.5 s"):
        fim_dynsys.load("operon", max_seconds=0.5).fit(*_oscillator())


# ---------------------------------------------------------------------- the steps


def test_a_front_holds_the_true_expression():
    rng = np.random.default_rng(0)
    states = rng.uniform(-2, 2, (100, 2))
    slopes = 0.5 * states[:, 1] * (1 - states[:, 0] ** 2) - states[:, 0]
    settings = {"max_length": 20, "population_size": 200, "generations": 20, "seed": 0, "max_seconds": None}
    found = front(states, slopes, (X, Y), "add,sub,mul", **settings)
    errors = [
        np.max(np.abs(np.broadcast_to(sympy.lambdify((X, Y), e)(*states.T), 100) - slopes)) for e in found
    ]
    assert min(errors) < 1e-6


@pytest.mark.parametrize(
    ("expression", "terms"),
    [
        (2.5 * X * (X - 3.0 * Y) + 0.5, {sympy.Integer(1), X**2, X * Y}),
        (X / (4.0 + 2.0 * Y), {X / (0.5 * Y + 1)}),
        (3.0 * sympy.exp(2.0 * X - 1.0), {sympy.exp(2.0 * X)}),
        (sympy.sin(2.0 * X + 1.0), {sympy.sin(2.0 * X + 1.0)}),
        (sympy.Integer(1) / (X - X), None),
    ],
)
def test_terms_carry_no_factors(expression, terms):
    found = split(expression)
    assert (
        found is None
        if terms is None
        else {sympy.nsimplify(t) for t in found} == {sympy.nsimplify(t) for t in terms}
    )


def test_matching_integrals_keeps_the_true_term():
    x, t = _oscillator(200)
    noisy = x + 0.02 * np.random.default_rng(0).standard_normal(x.shape)
    observations = observe([(t[:120], noisy[:120]), (t[120:], noisy[120:])])
    side = matched((sympy.Integer(1), X, Y, X**2, X * Y), (X, Y), 0, observations)
    assert not {X**2, X * Y} & set(side.terms)
    unit = observations.scale[1] / observations.scale[0] * observations.time_unit
    assert dict(zip(side.terms, side.coefficients, strict=True))[Y] == pytest.approx(2.0 * unit, rel=0.02)


def test_parameters_stand_for_all_numbers():
    sides = [RightHandSide((2.0,), (sympy.sin(3.0 * Y),), 0.0), RightHandSide((), (), 0.0)]
    (first, second), numbers = with_parameters(sides, (X, Y), np.array([10.0, 100.0]), 4.0, "c")
    assert second == 0
    assert not first.atoms(sympy.Float)
    value = first.subs(
        {sympy.Symbol(name, real=True): number for name, number in numbers.items()} | {Y: 50.0}
    )
    assert float(value) == pytest.approx(2.0 * np.sin(3.0 * 0.5) * 10.0 / 4.0)
    assert structure(sides[0]) == structure(RightHandSide((9.0,), (sympy.sin(3.0 * Y),), 1.0))


# ---------------------------------------------------------------------- as proposals to `auto`


def _record():
    """What the fast search alone does not get: a hyperbolic tangent of a sum, and a sine."""

    def rates(x):
        inner = np.tanh(x[:, 0] + 2.0 * x[:, 1] + 0.5)
        return np.stack([x[:, 1] - x[:, 0] * inner, 0.3 * np.sin(2.0 * x[:, 1]) - x[:, 0]], 1)

    field, t = fim_dynsys.CallableField(rates, 2), np.linspace(0.0, 15.0, 150)
    return field, t, fim_dynsys.simulate(field, [1.0, 0.2], t, rtol=1e-11, atol=1e-13).x[0]


@pytest.fixture
def little(monkeypatch):
    """A thorough search with the amounts of the fast one, and one vocabulary."""
    monkeypatch.setitem(auto.EFFORTS, "thorough", replace(auto.EFFORTS["fast"], ask_plugins=True))

    def of(**amounts):
        effort = replace(GENETIC, vocabularies=("add,sub,mul,div,sin,tanh",), **amounts)
        monkeypatch.setattr(proposer, "effort", effort)

    return of


def test_the_plugin_offers_a_proposer():
    ((plugin, offered),) = proposers().items()
    assert (plugin, offered) == ("plugin 'operon' of fim-dynsys-operon", proposer)
    assert offered.steps == len(GENETIC.vocabularies)


def test_a_law_that_only_a_proposal_says(little):
    little(population_size=600, generations=60)
    field, t, x = _record()
    beyond = np.random.default_rng(0).uniform(-4.0, 4.0, (50, 2))
    missed = fim_dynsys.load("auto", effort="fast").fit(x, t)
    assert np.abs(missed.predict(beyond) - field(beyond)).max() > 0.1
    model = fim_dynsys.load("auto", effort="thorough").fit(x, t)
    np.testing.assert_allclose(model.predict(beyond), field(beyond), rtol=1e-6, atol=1e-8)
    report = model.field_.fit_info.report
    assert report["chosen"] == "genetic programming: sin x1, tanh x1"
    assert "right-hand sides found by Operon" in report["genetic programming"]


def test_proposals_for_noisy_samples_stand_beside_the_others(little):
    little(population_size=100, generations=10, kept=2)
    _, t, x = _record()
    noisy = x * (1.0 + 0.03 * np.random.default_rng(0).standard_normal(x.shape))
    data = fim_dynsys.Trajectories.from_arrays(noisy, t)
    found = [fim_dynsys.load("auto", effort="thorough").portfolio(data) for _ in range(2)]
    origins = [[member.origin.text() for member in portfolio.members] for portfolio in found]
    assert origins[0] == origins[1]
    assert any(origin.startswith("genetic programming") for origin in origins[0])


def test_inputs_knowledge_and_many_states_are_not_asked_about(little):
    little(population_size=100, generations=2)
    t = np.linspace(0.0, 8.0, 80)
    model = fim_dynsys.load("auto", effort="thorough")
    model.fit((np.exp(-t) * (1.0 + t))[:, None], t, u=np.exp(-t)[:, None])
    expected = "not asked: only without inputs and knowledge, in up to 4 states"
    assert model.field_.fit_info.report["genetic programming"] == expected
