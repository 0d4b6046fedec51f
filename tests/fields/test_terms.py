"""The dictionary of terms: pysindy's order, exact derivatives, units."""

import numpy as np
import pysindy
import pytest
import sympy

from fim_dynsys.fields.terms import Dictionary, Kind, union

RNG = np.random.default_rng(0)
MIXED = (
    Dictionary.polynomial(2, 3)
    + Dictionary.functions(2, Kind.SIN, 1.7)
    + Dictionary.functions(2, Kind.COS, 0.6, [0, 1])
    + Dictionary.functions(2, Kind.EXP, -0.4)
    + Dictionary.functions(2, Kind.HILL, 0.8, [1, 0])
    + Dictionary.functions(2, Kind.HILL2, 1.3)
    + Dictionary.functions(2, Kind.TANH, 0.9)
    + Dictionary.functions(2, Kind.LOG, 2.0, [1, 1])
    + Dictionary.functions(2, Kind.POWER, 1.0, [1, 0], 0.7)
    + Dictionary.functions(2, Kind.POWER, 0.5, second=-2.0)
    + Dictionary.functions(2, Kind.SATURATION, 0.8, [0, 1], 3.0)
    + Dictionary.functions(2, Kind.INHIBITION, 1.1, second=2.5)
    + Dictionary.functions(2, Kind.QUADRATIC_RECIPROCAL, 0.6, [1, 0], 0.3)
    + Dictionary.functions(2, Kind.RECIPROCAL, 0.5)
    + Dictionary.functions(2, Kind.SQUARED_RECIPROCAL, 0.5, [0, 2])
    + Dictionary.functions(2, Kind.ABSOLUTE, -0.7, [1, 0])
    + Dictionary.functions(2, Kind.INVERSE, 1.4, [0, 1])
    + Dictionary([[1, 0]], [Kind.INVERSE], [0], [1.0], [0.6], [1])
    + Dictionary.functions(2, Kind.GAUSSIAN, 0.8, [1, 0], -0.3)
    + Dictionary([[0, 0], [1, 0]], [Kind.SIN, Kind.TANH], [0, 1], [1.0, 2.0], [-1.0, 0.3], [1, -1])
    + Dictionary([[0, 1]] * 2, [Kind.TANH, Kind.INVERSE], [0, 0], [1.1, 0.9], [-0.8, 0.4], [1, 1], [0.2, 0.7])
)
POINTS = RNG.uniform(0.3, 1.8, size=(7, 2))


@pytest.mark.parametrize(("dim", "degree"), [(1, 4), (2, 3), (3, 3), (5, 2)])
def test_polynomial_equals_pysindy(dim, degree):
    x = RNG.normal(size=(20, dim))
    library = pysindy.PolynomialLibrary(degree=degree).fit(x)
    dictionary = Dictionary.polynomial(dim, degree)
    assert dictionary.names() == library.get_feature_names()
    np.testing.assert_allclose(dictionary.evaluate(x), np.asarray(library.transform(x)), rtol=1e-13)


def test_values_and_gradients_equal_sympy():
    symbols = sympy.symbols("a b", positive=True)
    terms = MIXED.sympy(symbols)
    values, gradients = MIXED.evaluate(POINTS), MIXED.gradient(POINTS)
    for m, term in enumerate(terms):
        exact = [float(term.subs(dict(zip(symbols, p, strict=True)))) for p in POINTS[:3]]
        np.testing.assert_allclose(values[:3, m], exact, rtol=1e-12, atol=1e-14)
        for j, symbol in enumerate(symbols):
            slope = sympy.diff(term, symbol)
            exact = [float(slope.subs(dict(zip(symbols, p, strict=True)))) for p in POINTS[:3]]
            np.testing.assert_allclose(gradients[:3, m, j], exact, rtol=1e-12, atol=1e-13)


def test_third_directional_derivative_equals_sympy():
    symbols = sympy.symbols("a b", positive=True)
    directions = RNG.normal(size=(3, 2))
    values = MIXED.directional(POINTS[:1], *(v[None] for v in directions))[0]
    for m, term in enumerate(MIXED.sympy(symbols)):
        for v in directions:
            term = sum(float(c) * sympy.diff(term, s) for c, s in zip(v, symbols, strict=True))
        exact = float(sympy.sympify(term).subs(dict(zip(symbols, POINTS[0], strict=True))))
        assert values[m] == pytest.approx(exact, rel=1e-10, abs=1e-11)


def test_directional_derivative_is_symmetric_and_first_order_is_the_gradient():
    u, v, w = RNG.normal(size=(3, 7, 2))
    np.testing.assert_allclose(
        MIXED.directional(POINTS, u, v, w), MIXED.directional(POINTS, w, u, v), rtol=1e-11, atol=1e-12
    )
    expected = np.einsum("nmj,nj->nm", MIXED.gradient(POINTS), u)
    np.testing.assert_allclose(MIXED.directional(POINTS, u), expected, rtol=1e-12, atol=1e-13)


def test_powers_without_their_divisors():
    dictionary = Dictionary([[5, 0, 2], [0, 0, 0], [0, 3, 0]])
    x = RNG.normal(size=(4, 3))
    expected = np.stack([x[:, 0] ** 5 * x[:, 2] ** 2, np.ones(4), x[:, 1] ** 3], axis=1)
    np.testing.assert_allclose(dictionary.evaluate(x), expected, rtol=1e-13)
    np.testing.assert_allclose(dictionary.gradient(x)[:, 0, 2], 2 * x[:, 0] ** 5 * x[:, 2], rtol=1e-13)


def test_rescaling_is_a_change_of_units():
    scale, time_unit = np.array([20.0, 0.05]), 3.0
    coefficients = RNG.normal(size=(len(MIXED), 2))
    dictionary, rescaled = MIXED.rescaled(coefficients, scale, time_unit)
    in_scaled_units = MIXED.evaluate(POINTS) @ coefficients
    np.testing.assert_allclose(
        dictionary.evaluate(POINTS * scale) @ rescaled, in_scaled_units * scale / time_unit, rtol=1e-11
    )


def test_subset_union_and_equality():
    first, second = (
        Dictionary.polynomial(2, 2),
        Dictionary.polynomial(2, 1) + Dictionary.functions(2, Kind.SIN),
    )
    both, (i, j) = union([first, second])
    assert len(both) == 6 + 2
    assert both.subset(i) == first
    assert both.subset(j) == second
    assert hash(both.subset(i)) == hash(first)
    assert first != second


def test_names_of_functions():
    dictionary = Dictionary([[1, 0], [0, 2]], [Kind.SIN, Kind.TANH], [1, 0], [2.0, 1.0])
    assert dictionary.names(["u", "v"]) == ["u sin(2 v)", "v^2 tanh(u)"]
    kinds = [Kind.POWER, Kind.POWER, Kind.SATURATION, Kind.SIN, Kind.TANH]
    inner, second = [1.0, 0.5, 2.0, -1.0, 3.0], [0.5, -2.0, 4.0, 1.0, -0.2]
    dictionary = Dictionary(np.zeros((5, 2)), kinds, [0, 0, 1, 0, 1], inner, second, [-1, -1, -1, 1, -1])
    expected = ["u^0.5", "(0.5 u)^-2", "saturation(2 v, 4)", "sin(-1 u + v)", "tanh(3 v + -0.2)"]
    assert dictionary.names(["u", "v"]) == expected
    shifted = Dictionary([[0, 0]], [Kind.TANH], [0], [2.0], [-1.0], [1], [0.5])
    assert shifted.names(["u", "v"]) == ["tanh(2 u + -1 v + 0.5)"]
    assert shifted.names(["u", "v"], np.array([[0.1, 0.0, 0.02]])) == [
        "tanh((2.00 ± 0.10) u + -1 v + (0.50 ± 0.02))"
    ]


def test_even_functions_of_negative_numbers():
    dictionary = Dictionary.functions(1, Kind.SATURATION, 0.8, second=2.0) + Dictionary.functions(
        1, Kind.HILL2, 0.8
    )
    x = np.linspace(-2.0, 2.0, 9)[:, None]
    v = np.ones_like(x)
    for take in (
        dictionary.evaluate,
        lambda x: dictionary.directional(x, v),
        lambda x: dictionary.directional(x, v, v),
    ):
        np.testing.assert_allclose(take(x)[:, 0], take(x)[:, 1], rtol=1e-12, atol=1e-14)


def test_factors_inside_powers_move_outside():
    dictionary = Dictionary.functions(1, Kind.POWER, 1.0, second=-1.5)
    rescaled, coefficients = dictionary.rescaled(np.array([[2.0]]), np.array([4.0]))
    assert rescaled.inner[0] == 1.0
    assert coefficients[0, 0] == pytest.approx(2.0 * 4.0 * 4.0**1.5)


def test_no_terms():
    empty = Dictionary.polynomial(2, 2).subset([])
    assert empty.evaluate(POINTS).shape == (7, 0)
    assert empty.gradient(POINTS).shape == (7, 0, 2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Dictionary([1, 2]), ["Dictionary", "(terms, dim)", "(2,)"]),
        (lambda: Dictionary([[-1]]), ["Dictionary", "not negative"]),
        (lambda: Dictionary([[1]], [99]), ["Dictionary", "kinds among"]),
        (lambda: Dictionary([[1]], [1], [3]), ["Dictionary", "coordinates below 1"]),
        (lambda: Dictionary([[1]], [1], [0], partner=[1]), ["Dictionary", "partners below 1"]),
        (lambda: Dictionary([[1]], [1], [0], shift=[0.5]), ["Dictionary", "shifts of 0", "no partner"]),
        (lambda: Dictionary([[1]], [0, 0]), ["Dictionary", "kind of shape (1,)", "(2,)"]),
        (lambda: MIXED.evaluate(np.ones((3, 4))), ["Dictionary", "(n, 2)", "(3, 4)"]),
        (lambda: MIXED.names(["a"]), ["Dictionary", "2 state names", "got 1"]),
        (lambda: MIXED + Dictionary.polynomial(1, 1), ["dimension 2", "got 1"]),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError) as raised:
        call()
    assert all(word in str(raised.value) for word in words)
