"""Fields of dictionary terms: exact derivatives, equations, stacking."""

import pickle

import numpy as np
import pytest
import sympy

from fim_dynsys.fields.dictionary import DictionaryField, safe_names
from fim_dynsys.fields.terms import Dictionary, Kind
from fim_dynsys.simulation.problem import Status
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.trajectories.container import Trajectories

RNG = np.random.default_rng(1)


def lorenz(**kwargs):
    dictionary = Dictionary.polynomial(3, 2)
    index = {name: i for i, name in enumerate(dictionary.names())}
    c = np.zeros((len(dictionary), 3))
    c[index["x0"]] = [-10, 28, 0]
    c[index["x1"]] = [10, -1, 0]
    c[index["x2"], 2] = -8 / 3
    c[index["x0 x2"], 1] = -1
    c[index["x0 x1"], 2] = 1
    return DictionaryField(dictionary, c, **kwargs)


def pendulum():
    dictionary = Dictionary.polynomial(2, 1) + Dictionary.functions(2, Kind.SIN)
    return DictionaryField(dictionary, [[0, 0], [0, 0], [1, -0.2], [0, -9.8], [0, 0]])


def test_values_and_jacobian_of_lorenz():
    x = RNG.normal(size=(5, 3))
    a, b, c = x.T
    np.testing.assert_allclose(
        lorenz()(x), np.stack([10 * (b - a), a * (28 - c) - b, a * b - 8 / 3 * c], axis=1), rtol=1e-13
    )
    jacobian = lorenz().jacobian(x[0])
    expected = [[-10, 10, 0], [28 - c[0], -1, -a[0]], [b[0], a[0], -8 / 3]]
    np.testing.assert_allclose(jacobian, expected, rtol=1e-13)


def test_second_derivative_of_lorenz_is_its_bilinear_part():
    u, v = RNG.normal(size=(2, 3))
    expected = [0, -(u[0] * v[2] + u[2] * v[0]), u[0] * v[1] + u[1] * v[0]]
    np.testing.assert_allclose(lorenz().directional(RNG.normal(size=3), u, v), expected, rtol=1e-12)
    np.testing.assert_allclose(lorenz().directional(np.zeros(3), u, v, u), 0.0)


def test_pendulum_derivatives():
    x, v = np.array([0.4, 1.1]), np.array([1.0, 0.0])
    assert pendulum().jacobian(x)[1, 0] == pytest.approx(-9.8 * np.cos(0.4))
    assert pendulum().directional(x, v, v, v)[1] == pytest.approx(9.8 * np.cos(0.4))


def test_equations_in_both_styles():
    assert lorenz().equations(precision=2) == [
        "-10 x0 + 10 x1",
        "28 x0 - x1 - x0 x2",
        "-2.7 x2 + x0 x1",
    ]
    assert lorenz().equations(precision=2, style="pysindy") == [
        "-10 x0 +  10 x1",
        " 28 x0 + -1.0 x1 + -1.0 x0 x2",
        "-2.7 x2 +  1.0 x0 x1",
    ]
    zero = DictionaryField(Dictionary.polynomial(1, 1), np.zeros((2, 1)))
    assert zero.equations() == ["0"] and zero.equations(style="pysindy") == [" 0"]
    assert zero(np.array([2.0])) == 0.0
    assert lorenz().complexity == 7


def test_sympy_expressions_with_hostile_names():
    field = lorenz(state_names=["lambda", "N (t)", "2nd"])
    symbols = sorted(set().union(*(e.free_symbols for e in field.sympy())), key=str)
    assert {str(s) for s in symbols} == {"lambda_", "N_t", "x2nd"}
    a, b, c = (next(s for s in symbols if str(s) == name) for name in ("lambda_", "N_t", "x2nd"))
    assert sympy.simplify(field.sympy()[1] - (28.0 * a - 1.0 * b - 1.0 * a * c)) == 0
    assert r"\begin{aligned}" in field.latex()
    assert r"&= 28 \lambda - N_{t}" in field.latex()


def test_safe_names_stay_distinct():
    names = safe_names(["a b", "a_b", "S", "", "beta"])
    assert len(set(names)) == 5
    assert all(name.isidentifier() for name in names)


def test_stack_of_equal_and_of_different_dictionaries():
    dictionary = Dictionary.polynomial(2, 3)
    fields = [DictionaryField(dictionary, RNG.normal(size=(10, 2))) for _ in range(3)] + [pendulum()]
    x, which = RNG.normal(size=(11, 2)), RNG.integers(4, size=11)
    expected = np.stack([fields[k](row) for row, k in zip(x, which, strict=True)])
    np.testing.assert_allclose(DictionaryField.stack(fields)(x, which), expected, rtol=1e-12)
    few = DictionaryField.stack(fields[:3])
    np.testing.assert_allclose(few(x, which % 3), [fields[k](r) for r, k in zip(x, which % 3, strict=True)])


def test_a_stacked_field_is_undefined_only_where_it_is_itself():
    monomials, logarithm = Dictionary.polynomial(1, 1), Dictionary.functions(1, Kind.LOG, 1.0)
    decay = DictionaryField(monomials, np.array([[0.0], [-1.0]]))
    other = DictionaryField(monomials + logarithm, np.array([[0.0], [-1.0], [0.5]]))
    x = np.array([[-1.0], [-1.0], [2.0], [2.0]])
    with np.errstate(invalid="ignore"):
        values = DictionaryField.stack([decay, other])(x, np.array([0, 1, 0, 1]))
    np.testing.assert_allclose(values[:, 0], [1.0, np.nan, -2.0, -2.0 + 0.5 * np.log(2.0)])
    paths = simulate([decay, other], np.array([[-1.0], [2.0]]), np.linspace(0.0, 1.0, 5))
    np.testing.assert_array_equal(paths.status, [Status.SUCCESS, Status.SUCCESS])


def test_pickles_and_stays_immutable():
    field = lorenz()
    again = pickle.loads(pickle.dumps(field))
    x = RNG.normal(size=(3, 3))
    np.testing.assert_array_equal(again(x), field(x))
    with pytest.raises(ValueError, match="read-only"):
        field.coefficients[0, 0] = 1.0


def test_bad_coefficients_are_named():
    with pytest.raises(
        ValueError, match=r"DictionaryField: expected coefficients of shape \(3, 2\).*\(2, 3\)"
    ):
        DictionaryField(Dictionary.polynomial(2, 1), np.zeros((2, 3)))
    with pytest.raises(ValueError, match="DictionaryField: expected finite coefficients"):
        DictionaryField(Dictionary.polynomial(2, 1), np.full((3, 2), np.nan))


def test_a_field_without_terms_prints_zeros():
    context = Trajectories.from_arrays(np.arange(6.0).reshape(3, 2), np.arange(3.0))
    empty = DictionaryField(Dictionary(np.zeros((0, 2))), np.zeros((0, 2)), context=context)
    full = DictionaryField(Dictionary.polynomial(2, 1), np.zeros((3, 2)), context=context)
    assert empty.equations() == full.equations()
