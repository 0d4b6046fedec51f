"""Expressions: reading without evaluating, exact derivatives, fitted parameters, the symbolic model."""

import pickle

import numpy as np
import pytest
import sympy

import fim_dynsys
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.expressions import compiled, parse, slope
from fim_dynsys.fields.symbolic import SymbolicField, read_expressions
from fim_dynsys.models.equations import EquationsModel
from fim_dynsys.models.symbolic import EFFORTS, SymbolicModel
from fim_dynsys.regression.expression_fits import ExpressionProblem, fit_expressions
from fim_dynsys.regression.observed import observe
from fim_dynsys.search.functions.combination import FunctionEffort
from fim_dynsys.search.stages import Effort
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.testing import check_field, check_model

RNG = np.random.default_rng(6)
HOLLING = ["r*x0*(1 - x0/K) - a*x0*x1/(1 + h*x0)", "e*a*x0*x1/(1 + h*x0) - m*x1"]
HOLLING_VALUES = {"r": 1.0, "K": 3.0, "a": 2.0, "h": 0.8, "e": 0.6, "m": 0.4}


def data(field, x0, t_end, n, sigma, seed=0):
    """Times and noisy states of one solution."""
    t = np.linspace(0.0, t_end, n)
    x = simulate(field, x0, t, rtol=1e-9).x[0]
    return t, x + sigma * x.std(axis=0) * np.random.default_rng(seed).normal(size=x.shape)


# ---------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("text", "at", "value"),
    [
        ("a*x0 - b*x0*x1", {"a": 2.0, "x0": 3.0, "b": 0.5, "x1": 4.0}, 0.0),
        ("x0^2/(K^2 + x0^2)", {"x0": 2.0, "K": 4.0}, 0.2),
        ("-sin(pi/2)*2**0.5", {}, -np.sqrt(2.0)),
        ("+abs(x) - sign(x) + 1e-3", {"x": -2.0}, 3.001),
        ("tanh(x)**2 + 1/cosh(x)**2", {"x": 0.7}, 1.0),
        ("exp(log(x)) + sqrt(x)", {"x": 4.0}, 6.0),
        ("S*I*beta + E + N", {"S": 1.0, "I": 2.0, "beta": 3.0, "E": 4.0, "N": 5.0}, 15.0),
    ],
)
def test_text_is_read_as_it_is_meant(text, at, value):
    expression = parse(text)
    assert {s.name for s in expression.free_symbols} == set(at)
    assert float(expression.subs({sympy.Symbol(k, real=True): v for k, v in at.items()})) == pytest.approx(
        value
    )


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "x.real",
        "().__class__",
        "f(x)",
        "sin(x, y)",
        "sin(x=1)",
        "lambda: 1",
        "[x]",
        "x if y else z",
        "x < 1",
        "x and y",
        "x // 2",
        "x % 2",
        "1j",
        "True",
        "'x'",
        "x := 1",
        "x; y",
        "",
        "   ",
        "x0 x1",
        "1/0",
        "log(0)",
        "sqrt(-1)",
        "exp(1000)",
        "9**9**9**9",
        "x0/0",
        "a/(b-b)",
        "x0*(1/(x0-x0))",
        "sqrt(-x0**2)",
        "(x0+1)**100000",
        "((x0+1)**100)**100",
        "(x0+1)**60*(x0+1)**60",
        "x0**1e308",
        "10**400",
        "((x",
        "(" * 150 + "x" + ")" * 150 + "+" + "-" * 150 + "x",
        "x" + "+x" * 6000,
        7,
        None,
    ],
)
def test_nothing_else_is_read(text):
    with pytest.raises(ValueError, match="parse: expected"):
        parse(text)


def test_what_cannot_be_multiplied_out_or_derived_is_left_as_it_is():
    product = "*".join(f"(x0 + {k} * sin({k} * x1))" for k in range(1, 60))
    field = SymbolicField([f"1e-90 * {product}", "x0"])
    assert field.complexity < 1000 and len(field.get_feature_names()) == 2
    points = np.array([[20.0, 0.5], [30.0, -0.3]])
    differenced = super(SymbolicField, field)._jac(points)
    np.testing.assert_array_equal(field.jacobian(points), differenced)
    assert np.isfinite(field.directional(points, [1.0, 0.0], [0.0, 1.0])).all()


def test_sympy_expressions_are_held_to_the_same_list():
    x = sympy.Symbol("x")
    for expression in (
        sympy.gamma(x),
        sympy.Function("f")(x),
        sympy.Piecewise((x, sympy.Eq(x, 1)), (0, True)),
        x + sympy.I,
    ):
        with pytest.raises(ValueError, match="SymbolicField: expected sums"):
            SymbolicField([expression], state_names=["x"])
    assert SymbolicField([sympy.exp(-x)], state_names=["x"])(np.array([0.5]))[0] == pytest.approx(
        np.exp(-0.5)
    )


def test_constants_and_undefined_values_are_evaluated():
    x, y = sympy.symbols("x y", real=True)
    f = compiled((sympy.Integer(3), x + y, sympy.log(x)), (x, y))
    values = f(np.array([1.0, -1.0]), 2.0)
    np.testing.assert_allclose(values[:2], [[3.0, 3.0], [3.0, 1.0]])
    assert values[2, 0] == 0.0
    assert np.isnan(values[2, 1])


def test_slope_of_a_sign_is_zero():
    x = sympy.Symbol("x", real=True)
    assert slope(slope(sympy.Abs(x), x), x) == 0


# ---------------------------------------------------------------------- the field


def test_field_keeps_the_contract_and_equals_its_formula():
    field = SymbolicField(HOLLING, HOLLING_VALUES)
    check_field(field)
    x, y = RNG.uniform(0.2, 2.0, size=(2, 6))
    eaten = 2.0 * x * y / (1 + 0.8 * x)
    expected = np.stack([x * (1 - x / 3.0) - eaten, 0.6 * eaten - 0.4 * y], axis=1)
    np.testing.assert_allclose(field(np.stack([x, y], axis=1)), expected, rtol=1e-13)


def test_third_derivatives_are_exact():
    field = SymbolicField(["sin(x0)*exp(x1)", "x0**3*x1"])
    point, (u, v, w) = np.array([0.3, 0.2]), RNG.normal(size=(3, 2))
    x, y = sympy.symbols("x y")
    expected = []
    for f in (sympy.sin(x) * sympy.exp(y), x**3 * y):
        for d in (u, v, w):
            f = float(d[0]) * sympy.diff(f, x) + float(d[1]) * sympy.diff(f, y)
        expected.append(float(f.subs({x: 0.3, y: 0.2})))
    np.testing.assert_allclose(field.directional(point, u, v, w), expected, rtol=1e-10)


def test_kinks_have_one_sided_slopes():
    field = SymbolicField(["-abs(x0)*x0"])
    np.testing.assert_allclose(field.jacobian(np.array([[-2.0], [3.0]]))[:, 0, 0], [-4.0, -6.0])
    check_field(field, points=np.linspace(0.5, 2.0, 16)[:, None])


def test_states_have_names_of_their_own_and_positions():
    field = SymbolicField(["beta*S*I", "-x1"], {"beta": 2.0}, state_names=["S", "I"])
    assert field(np.array([3.0, 4.0])).tolist() == [24.0, -4.0]
    assert field.equations(precision=2) == ["2 S I", "-I"]
    odd = SymbolicField(["x1", "-x0"], state_names=["my var", "2"])
    assert r"\dot{x_{2}}" in odd.latex()


def test_equations_coefficients_and_complexity_fit_each_other():
    field = SymbolicField(HOLLING, HOLLING_VALUES)
    names, coefficients = field.get_feature_names(), field.coefficients
    assert coefficients.shape == (len(names), 2)
    expected = {
        "x0": [1.0, 0.0],
        "x0**2": [-1 / 3, 0.0],
        "x1": [0.0, -0.4],
        "x0*x1/(0.8*x0 + 1)": [-2.0, 1.2],
    }
    for name, row in zip(names, coefficients, strict=True):
        np.testing.assert_allclose(row, expected.pop(name), rtol=1e-12)
    assert not expected
    assert SymbolicField(["x0"]).complexity < SymbolicField(["x0 + x0**2"]).complexity < field.complexity


def test_fields_stack_by_their_parameters():
    fields = [SymbolicField(["-k*x0"], {"k": k}) for k in (1.0, 2.0, 3.0)]
    x, which = RNG.normal(size=(7, 1)), RNG.integers(3, size=7)
    np.testing.assert_allclose(SymbolicField.stack(fields)(x, which), -x * (which[:, None] + 1.0))
    mixed = [*fields, SymbolicField(["x0**2"])]
    np.testing.assert_allclose(SymbolicField.stack(mixed)(x, np.full(7, 3)), x**2)


def test_pickling_keeps_no_compiled_code():
    field = SymbolicField(HOLLING, HOLLING_VALUES)
    x = RNG.uniform(0.2, 2.0, size=(4, 2))
    before = field.jacobian(x)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(field)).jacobian(x), before)


@pytest.mark.parametrize(
    ("expressions", "parameters"),
    [(["a*x0"], None), (["x0"], {"b": 1.0}), (["a*x0"], {"a": np.nan}), (["x0"], {"x0": 1.0})],
)
def test_parameters_and_values_must_match(expressions, parameters):
    with pytest.raises(ValueError, match=r"SymbolicField: expected (finite values of the )?parameters"):
        SymbolicField(expressions, parameters)


# ---------------------------------------------------------------------- fitting given expressions


def fitted(expressions, values, x0, t_end, n, sigma, start=None):
    field = SymbolicField(expressions, values)
    observations = observe([data(field, x0, t_end, n, sigma)])
    symbols, read = read_expressions(expressions, field.state_names)
    return fit_expressions(read, symbols, observations, start)


def test_derivatives_by_parameters_are_exact():
    symbols, expressions = read_expressions(HOLLING, ("x0", "x1"))
    problem = ExpressionProblem(expressions, symbols)
    assert problem.names == ["K", "a", "e", "h", "m", "r"]
    assert problem.linear.tolist() == [False, True, False, False, True, True]
    p, x = np.array([HOLLING_VALUES[name] for name in problem.names]), RNG.uniform(0.2, 2.0, size=(5, 2))
    steps = 1e-6 * np.eye(6)
    differences = [(problem.rhs(x, p + s) - problem.rhs(x, p - s)) / 2e-6 for s in steps]
    np.testing.assert_allclose(problem.jac_p(x, p), np.stack(differences, axis=2), atol=1e-8)
    differences = [(problem.rhs(x + s, p) - problem.rhs(x - s, p)) / 2e-6 for s in 1e-6 * np.eye(2)]
    np.testing.assert_allclose(problem.jac_x(x, p), np.stack(differences, axis=2), atol=1e-8)


@pytest.mark.parametrize(
    ("expressions", "values", "x0", "t_end", "n"),
    [
        (["r*x0*(1 - x0/K)"], {"r": 1.2, "K": 5.0}, [0.3], 8.0, 60),
        (HOLLING, HOLLING_VALUES, [1.0, 0.5], 30.0, 150),
        (["x1", "-g*sin(x0) - c*x1"], {"g": 9.81, "c": 0.2}, [2.0, 0.0], 6.0, 120),
        (
            ["a*sin(w*x1) - b*x0", "c*cos(w*x0)"],
            {"a": 1.0, "w": 2.0, "b": 0.3, "c": 0.7},
            [0.1, 0.3],
            20.0,
            150,
        ),
    ],
)
def test_parameters_are_found_within_their_errors(expressions, values, x0, t_end, n):
    fit = fitted(expressions, values, x0, t_end, n, 0.02)
    names = sorted(values)
    errors = np.sqrt(np.diagonal(fit.covariance))
    for k, name in enumerate(names):
        assert abs(fit.parameters[name] - values[name]) < 4 * errors[k]
        assert errors[k] < 0.05 * values[name]


def test_units_of_the_data_do_not_matter():
    reference = fitted(["r*x0*(1 - x0/K)"], {"r": 1.2, "K": 5.0}, [0.3], 8.0, 60, 0.02)
    scaled = fitted(["r*x0*(1 - x0/K)"], {"r": 1.2e-3, "K": 5e4}, [0.3e4], 8e3, 60, 0.02)
    assert scaled.parameters["K"] == pytest.approx(1e4 * reference.parameters["K"], rel=1e-4)
    assert scaled.parameters["r"] == pytest.approx(1e-3 * reference.parameters["r"], rel=1e-4)


def test_a_start_is_used_and_a_wrong_one_refused():
    fit = fitted(["-(a*x0)**p"], {"a": 1.3, "p": 2.0}, [2.0], 3.0, 60, 0.01, {"p": 1.8})
    assert fit.parameters["p"] == pytest.approx(2.0, abs=0.1)
    with pytest.raises(ValueError, match=r"expected starts of parameters among \['a'\], got \['b'\]"):
        fitted(["-a*x0"], {"a": 1.3}, [2.0], 3.0, 60, 0.01, {"b": 1.8})


def test_expressions_that_are_nowhere_finite_are_refused():
    observations = observe([data(SymbolicField(["-x0"]), [-2.0], 3.0, 40, 0.01)])
    symbols, read = read_expressions(["a*log(x0)"], ("x0",))
    with pytest.raises(ValueError, match="finite on the data for some values of a, got none"):
        fit_expressions(read, symbols, observations)


# ---------------------------------------------------------------------- the model


def test_model_keeps_the_contract(monkeypatch):
    """A dozen fits, with the least search that there can be."""
    monkeypatch.setitem(EFFORTS, "quick", Effort(1, functions=FunctionEffort(1, 1, 0, 1)))
    check_model(lambda: SymbolicModel(effort="quick"))


@pytest.fixture(scope="module")
def given():
    """A model fitted to given expressions, and its truth."""
    field = SymbolicField(HOLLING, HOLLING_VALUES)
    runs = [data(field, x0, 20.0, 90, 0.02, seed) for seed, x0 in enumerate(([1.0, 0.5], [2.5, 0.2]))]
    model = fim_dynsys.load("symbolic", expressions=HOLLING)
    model.fit([x for _, x in runs], [t for t, _ in runs], feature_names=["prey", "predator"])
    return model, field


@pytest.fixture(scope="module")
def draws(given):
    return given[0].ensemble(200, seed=1)


def test_given_expressions_are_fitted(given):
    model, truth = given
    x = RNG.uniform(0.2, 2.0, size=(20, 2))
    np.testing.assert_allclose(model.predict(x), truth(x), rtol=0.05, atol=0.02)
    assert isinstance(model.field_, SymbolicField)
    assert model.field_.state_names == ("prey", "predator")
    assert len(model.equations()) == 2
    assert model.complexity == np.count_nonzero(model.coefficients())
    assert model.field_.fit_info.initial_states.shape == (2, 2)
    np.testing.assert_allclose(model.field_.fit_info.initial_states[1], [2.5, 0.2], atol=0.05)


def test_given_expressions_survive_saving(given, tmp_path):
    model, _ = given
    again = fim_dynsys.load_fitted(model.save(tmp_path))
    x = RNG.uniform(0.2, 2.0, size=(5, 2))
    np.testing.assert_allclose(again.predict(x), model.predict(x), rtol=1e-12)
    np.testing.assert_allclose(again.ensemble(1, seed=2)[0](x), model.ensemble(1, seed=2)[0](x), rtol=1e-9)


def test_draws_scatter_as_the_posterior_says(given, draws):
    model, truth = given
    names = sorted(HOLLING_VALUES)
    drawn = np.array([[field.parameters[name] for name in names] for field in draws])
    covariance = np.array(model.field_.fit_info.report["covariance"])
    np.testing.assert_allclose(drawn.std(axis=0), np.sqrt(np.diagonal(covariance)), rtol=0.25)
    spread = np.abs(drawn.mean(axis=0) - [truth.parameters[name] for name in names]) / drawn.std(axis=0)
    assert (spread < 4).all()


def test_coefficients_have_the_errors_of_the_parameters_behind_them(given, draws, tmp_path):
    model, _ = given
    field = model.field_
    coefficients = [member.coefficients for member in draws]
    np.testing.assert_allclose(np.std(coefficients, axis=0), field.standard_errors, rtol=0.25)
    assert set(field.parameter_errors) == set(HOLLING_VALUES)
    assert all("±" in text for text in model.equations(errors=True))
    again = fim_dynsys.load_fitted(model.save(tmp_path))
    assert again.equations(errors=True) == model.equations(errors=True)


def test_parameters_that_were_given_have_no_errors():
    field = SymbolicField(HOLLING, HOLLING_VALUES)
    assert field.parameter_errors is None and field.standard_errors is None
    with pytest.raises(
        ValueError, match=r"expected a covariance of the parameters \['k'\] of shape \(1, 1\)"
    ):
        SymbolicField(["-k*x0"], {"k": 1.0}, np.eye(2))
    one = SymbolicField(["-k*x0**2 + x0"], {"k": 2.0}, [[0.01]])
    assert one.equations(errors=True) == ["x0 - (2.00 ± 0.10) x0^2"]


def test_wrong_number_of_expressions_is_named():
    t, x = data(SymbolicField(["-x0"]), [2.0], 3.0, 40, 0.01)
    with pytest.raises(ValueError, match=r"expected 1 expressions, one per state \(x0\), got 2"):
        EquationsModel(["-a*x0", "x0"]).fit(x, t)
    with pytest.raises(ValueError, match="expected an effort among"):
        SymbolicModel(effort="heroic").fit(x, t)


def test_search_returns_its_own_terms_with_draws_and_saves_them(tmp_path):
    truth = SymbolicField(HOLLING, HOLLING_VALUES)
    t, x = data(truth, [1.0, 0.5], 30.0, 150, 0.01)
    model = fim_dynsys.load("symbolic", effort="quick").fit(x, t)
    assert isinstance(model.field_, DictionaryField)
    assert not model.field_.dictionary.is_polynomial
    report = model.field_.fit_info.report
    assert report["candidates"] > 20
    assert [score for _, score in report["runners_up"]] >= [report["score"]]
    again = fim_dynsys.load_fitted(model.save(tmp_path))
    first, second = (m.ensemble(30, seed=3) for m in (model, again))
    values = np.stack([field(x[::30]) for field in first])
    np.testing.assert_allclose(values, np.stack([field(x[::30]) for field in second]), rtol=1e-9)
    # draws lie about the field, near each other where there are data
    assert np.abs(values.mean(axis=0) - model.predict(x[::30])).max() < values.std(axis=0).max()
    assert values.std(axis=0).max() < 0.1 * np.abs(values).max()
