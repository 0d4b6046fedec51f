"""The benchmark of knowledge: its facts are true, and rows that are given them honour them."""

import numpy as np
import pytest
import sympy

from benchmarks import cli
from benchmarks.harness.rows import ModelRow, View
from benchmarks.harness.trials import Trial, observe
from benchmarks.knowledge.__main__ import BENCHMARK, problems
from benchmarks.knowledge.facts import fact_of, known
from benchmarks.knowledge.rows import ConstrainedRow
from fim_dynsys import systems
from fim_dynsys.fields.terms import Dictionary

FACTS = {s.name: fact_of(s) for s in systems.development() if fact_of(s) is not None}


def test_facts_are_of_three_kinds():
    kinds = [kind for kind, _ in FACTS.values()]
    assert {kind: kinds.count(kind) for kind in kinds} == {"equation": 10, "column": 8, "conserved": 1}
    assert [p.system for p in problems()] == list(FACTS)


@pytest.mark.parametrize("name", FACTS)
def test_a_fact_is_true_of_its_system_and_of_its_trajectories(name):
    system, names = systems.get(name), [f"x{i}" for i in range(systems.get(name).dim)]
    fact = known(name, names)
    x = system.region.uniform(30, np.random.default_rng(0))
    rates, slopes = system.rhs(x), system.jacobian(x)
    symbols = sympy.symbols(names)
    for state, text in fact.known.items():
        right = sympy.lambdify(symbols, sympy.sympify(text))(*x.T)
        np.testing.assert_allclose(rates[:, names.index(state)], right)
    for state, (other,) in fact.forbid.items():
        assert not slopes[:, names.index(state), names.index(other)].any()
    for quantity in fact.conserved:
        gradient = sympy.lambdify(symbols, [sympy.diff(quantity, s) for s in symbols])(*x.T)
        assert np.abs(np.sum(rates.T * gradient, axis=0)).max() < 1e-12 * np.abs(rates).max()
    assert len(fact.restriction(Dictionary.polynomial(system.dim, 3), names).place) > 0


def test_a_constrained_row_honours_the_fact():
    (problem,) = [p for p in problems() if p.system == "duffing_van_der_pol"]
    trial = Trial(problem.system, 1, 0.05, 0.0, 0, "paper")
    row = ConstrainedRow(ModelRow.resolve("sindy-strong:refined=0"))
    field = row.infer(View.of(row, observe(problem, trial), problem, trial))
    x = np.random.default_rng(0).normal(size=(10, 2))
    np.testing.assert_array_equal(field(x)[:, 0], x[:, 1])
    assert row.name == "sindy-strong:refined=0, constrained" and row.version == row.model.version


def test_every_row_of_the_default_run_exists():
    rows = cli.build_rows(
        BENCHMARK.truth_rows, ["sindy-strong-constrained", "fim-ode-constrained", "truth"], None
    )
    assert [row.name for row in rows] == ["sindy-strong, constrained", "fim-ode, constrained", "truth"]
