"""ODEBench: facts, true equations, published figures and the truth rows."""

import math

import numpy as np
import pytest

from benchmarks import report
from benchmarks.harness import rows
from benchmarks.harness.rows import ModelRow, TruthRow, View
from benchmarks.harness.run import Integrator, evaluate, run
from benchmarks.harness.trials import TASKS, Trial, list_trials, observe
from benchmarks.odebench import __main__ as command
from benchmarks.odebench import equations, facts
from benchmarks.odebench.reference_rows import TruthFitRow, clean_states, noise_weights, true_field
from benchmarks.oracle import OracleRow
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.models.base import VectorFieldModel

PROBLEMS = facts.problems()
BY_ID = {problem.system: problem for problem in PROBLEMS}


def test_61_systems_in_order_with_both_labels():
    assert [problem.system for problem in PROBLEMS] == [str(i) for i in range(1, 62)]
    assert [sum(p.dim == dim for p in PROBLEMS) for dim in (1, 2, 3)] == [23, 28, 10]
    strict = [sum(p.dim == dim and p.split_strict == "ID" for p in PROBLEMS) for dim in (1, 2, 3)]
    paper = [sum(p.dim == dim and p.split_paper == "ID" for p in PROBLEMS) for dim in (1, 2, 3)]
    assert (strict, paper) == ([10, 16, 8], [11, 15, 9])
    assert [p.system for p in PROBLEMS if p.split_strict != p.split_paper] == ["16", "32", "60"]


def test_references_start_at_the_initial_states():
    for problem in PROBLEMS:
        assert problem.references.shape == (2, 512, problem.dim)
        assert np.allclose(problem.references[:, 0], problem.initial_states, rtol=1e-6, atol=1e-7)
        assert (problem.t[0], problem.t[-1]) == (0.0, 10.0)


def test_strict_label_is_the_degree_of_the_equations():
    import sympy

    for problem in PROBLEMS:
        entry = facts.system_facts()[problem.system]
        x = sympy.symbols(f"x0:{problem.dim}", real=True)
        polynomials = [sympy.together(equations.parse(text)) for text in entry["equations"]]
        cubic = all(p.is_polynomial(*x) and sympy.Poly(p, *x).total_degree() <= 3 for p in polynomials)
        assert problem.split_strict == ("ID" if cubic else "OOD")


def test_derivatives_of_the_references_match_the_equations():
    """Central differences of the stored solutions where they are smooth enough for them."""
    for problem in PROBLEMS[:54]:
        system = equations.true_system(problem.system)
        for x in problem.references:
            step = problem.t[1]
            slope = (x[:-4] - 8 * x[1:-3] + 8 * x[3:-1] - x[4:]) / (12 * step)
            truth = system.rhs(x[2:-2], system.constants)
            assert np.median(np.abs(slope - truth)) < 2e-3 * np.abs(truth).max() + 1e-6, problem.system


@pytest.mark.parametrize("system", ["10", "13", "35", "42", "44", "47", "53", "60"])
def test_jacobians_match_central_differences(system):
    true, problem = equations.true_system(system), BY_ID[system]
    x, p, h = problem.references[0, 5:100:30], true.constants, 1e-6
    for axis in range(problem.dim):
        e = h * np.eye(problem.dim)[axis]
        numeric = (true.rhs(x + e, p) - true.rhs(x - e, p)) / (2 * h)
        assert np.allclose(true.jac_x(x, p)[:, :, axis], numeric, rtol=1e-5, atol=1e-6)
    for axis in range(len(p)):
        e = h * max(1.0, abs(p[axis])) * np.eye(len(p))[axis]
        numeric = (true.rhs(x, p + e) - true.rhs(x, p - e)) / (2 * e[axis])
        assert np.allclose(true.jac_p(x, p)[:, :, axis], numeric, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "x0.real", "open(x0)", "y0 + 1", "sin(x0, x1)", "[x0]", "'x0'", "x0 if 1 else 2"],
)
def test_anything_but_arithmetic_is_refused(text):
    with pytest.raises(ValueError, match="Equation: expected numbers"):
        equations.parse(text)


def test_true_terms_are_those_of_the_polynomial_systems():
    known = {problem.system: equations.true_terms(problem.system) for problem in PROBLEMS}
    assert {s for s, terms in known.items() if terms is None} == {
        problem.system for problem in PROBLEMS if problem.split_strict == "OOD"
    }
    assert known["8"] == [["x0", "x0^2", "x0^3"]]
    assert known["31"] == [["x0 x1"], ["x0 x1", "x1"]]
    assert known["57"] == [["x1", "x2"], ["x0", "x1"], ["1", "x0 x2", "x2"]]


# ----------------------------------------------------------------------------------------- truth rows


def test_truth_passes_121_of_122(tmp_path):
    trials = list_trials(PROBLEMS, [(0.0, 0.0)], ["paper"], [0])
    records = run(PROBLEMS, [TruthRow(true_field)], trials, tmp_path)
    failed = {(r["system"], r["ic"]) for r in records if not r["r2_reconstruction"] > 0.9}
    assert len(records) == 122
    assert failed == {("55", 2)}
    swapped = {(r["system"], r["ic"]) for r in records if not r["r2_generalisation"] > 0.9}
    assert swapped == {("55", 1)}


def test_models_see_the_context_alone(monkeypatch):
    """With the equations out of reach, a model's trial runs and the truth's does not."""

    def unreachable(*arguments):
        raise AssertionError("equations were read")

    class Spy(VectorFieldModel):
        version = "1"

        def infer(self, *arguments):
            (context,) = arguments
            assert context.n_obs[0] == 100
            return CallableField(np.zeros_like, context.dim)

    monkeypatch.setattr(facts, "system_facts", unreachable)
    monkeypatch.setattr(equations, "system_facts", unreachable)
    monkeypatch.setattr(rows, "_load", lambda name, params: Spy())
    trial = Trial("27", 1, 0.05, 0.5, 0, "paper")
    row = ModelRow.resolve("spy")
    assert evaluate(row, BY_ID["27"], trial, Integrator())["status_reconstruction"] == "SUCCESS"
    equations.true_system.cache_clear()
    assert (
        evaluate(TruthRow(true_field), BY_ID["27"], trial, Integrator())["status_reconstruction"]
        == "AssertionError"
    )


def test_oracle_takes_the_best_candidate_by_the_true_score(monkeypatch):
    problem, trial = BY_ID["24"], Trial("24", 1, 0.05, 0.5, 0, "paper")

    class Chooser:
        """Its own choice stands still; the others turn at the true rate, too slowly, and explode."""

        version = "7"

        def candidates(self, context):
            rate = equations.true_system("24").constants[0]
            turns = [lambda x, c=c: np.stack([x[:, 1], -c * x[:, 0]], axis=1) for c in (0.9 * rate, rate)]
            return [CallableField(f, 2) for f in (np.zeros_like, turns[0], turns[1], lambda x: x**3)]

    monkeypatch.setattr(rows, "_load", lambda name, params: Chooser())
    row = OracleRow(ModelRow.resolve("chooser"))
    outcome = evaluate(row, problem, trial, Integrator())
    assert (row.name, row.version, outcome["message"]) == ("oracle", "7", "")
    assert min(outcome["r2_reconstruction"], outcome["r2_generalisation"]) > 0.999999


def test_noise_weights_follow_the_noise_law():
    trial = Trial("24", 1, 0.05, 0.5, 0, "paper")
    context = observe(BY_ID["24"], trial)
    clean = clean_states(context, BY_ID["24"], trial)
    residual = (context.x[0] - clean) * np.sqrt(noise_weights(clean, trial.sigma))
    assert residual.shape == (100, 2)
    # 200 whitened residuals of standard deviation 0.05: their own has a standard error of 2.5e-3
    assert np.std(residual) == pytest.approx(0.05, abs=8e-3)


def test_truth_fit_recovers_the_constants_of_clean_data():
    problem = BY_ID["27"]
    trial = Trial("27", 1, 0.0, 0.5, 0, "paper")
    row = TruthFitRow()
    field = row.infer(View.of(row, observe(problem, trial), problem, trial))
    system = equations.true_system("27")
    x = problem.references[1, ::40]
    assert np.allclose(field(x), system.rhs(x, system.constants), rtol=1e-3, atol=1e-3)


def test_truth_fit_is_better_than_chance_under_noise():
    problem, trial = BY_ID["24"], Trial("24", 1, 0.05, 0.5, 0, "paper")
    outcome = evaluate(TruthFitRow(), problem, trial, Integrator())
    assert outcome["r2_reconstruction"] > 0.999
    assert outcome["r2_generalisation"] > 0.999
    assert outcome["infer_seconds"] < 2.5


# --------------------------------------------------------------------------------- published figures


def test_published_counts_are_consistent():
    """The paper's split by dimension and label adds up to its main table, in trials of 122."""
    published = command.BENCHMARK.published()
    sizes = {(1, "ID"): 22, (1, "OOD"): 24, (2, "ID"): 30, (2, "OOD"): 26, (3, "ID"): 18, (3, "OOD"): 2}
    counts = {
        task: [
            sum(
                round(n * published.percent("FIM-ODE (paper)", task, *cell, f"dim={dim} paper={split}") / 100)
                for (dim, split), n in sizes.items()
            )
            for cell in published.settings
        ]
        for task in TASKS
    }
    assert counts == {
        "reconstruction": [103, 98, 92, 101, 91, 88],
        "generalisation": [36, 40, 36, 33, 33, 35],
    }
    for task, row in counts.items():
        main = [published.percent("FIM-ODE (paper)", task, *cell) for cell in published.settings]
        assert main == [pytest.approx(100 * count / 122, abs=0.051) for count in row]


def test_unpublished_figures_are_nan():
    published = command.BENCHMARK.published()
    assert math.isnan(published.percent("FIM-ODE (paper)", "reconstruction", 0.05, 0.0, threshold=0.8))
    assert math.isnan(published.percent("FIM-ODE (paper)", "reconstruction", 0.1, 0.0))
    assert isinstance(published, report.Published)
