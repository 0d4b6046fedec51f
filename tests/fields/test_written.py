"""Equations as people write them: text, LaTeX and sympy say the same as the field."""

import re

import numpy as np
import pytest
import sympy

from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.expressions import compiled, parse
from fim_dynsys.fields.functions import SHAPED, Kind
from fim_dynsys.fields.notation import plain_sum, short_number
from fim_dynsys.fields.posterior import FittedField
from fim_dynsys.fields.symbolic import SymbolicField
from fim_dynsys.fields.terms import Dictionary

RNG = np.random.default_rng(8)
X = RNG.uniform(0.3, 2.0, size=(30, 2))
KINDS = [kind for kind in Kind if kind != Kind.MONOMIAL]


def read(text, names=("x", "y")):
    """Values at X of a plain equation, read as its reader does: a space between factors is a product."""
    text = re.sub(r"\|([^|]*)\|", r"abs(\1)", text)
    text = re.sub(r"(?<=[\w)]) (?=[\w(])", "*", text)
    return compiled((parse(text),), sympy.symbols(names, real=True))(*X.T)[0]


def term(kind, inner=0.6667, second=0.0, monomial=(0, 1), partner=-1, shift=0.0):
    """The monomials 1, x and y, and a monomial times one function of x."""
    own = Dictionary([monomial], [int(kind)], [0], [inner], [second], [partner], [shift])
    return Dictionary.polynomial(2, 1) + own


@pytest.mark.parametrize("inner", [0.7, -1.0, 1.0])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_text_and_sympy_say_what_the_field_is(kind, inner):
    if kind in (Kind.POWER, Kind.LOG) and inner < 0.0:
        inner = 0.4
    cases = [{"second": s} for s in ((2.0, 0.5) if kind in SHAPED else (0.0, 3.3))]
    cases += [{"second": 0.2, "partner": 1, "shift": 2.6}] * (kind not in SHAPED)
    for given in cases:
        dictionary = term(kind, inner, **given)
        field = DictionaryField(dictionary, [[0, 0.5], [-1, 0], [0, 1], [2.5, -0.8]], state_names=["x", "y"])
        symbols = sympy.symbols("x y", real=True)
        for text, exact, values in zip(field.equations(9), field.sympy(symbols), field(X).T, strict=True):
            np.testing.assert_allclose(read(text), values, rtol=1e-7, atol=1e-7, err_msg=text)
            numeric = compiled((exact,), symbols)(*X.T)[0]
            np.testing.assert_allclose(numeric, values, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "given", "text"),
    [
        (Kind.HILL, {"inner": 1 / 1.5, "monomial": (0, 1)}, "-x + 0.8 x y / (1.5 + x)"),
        (Kind.HILL2, {"inner": 0.5, "monomial": (0, 0)}, "-x + 0.8 x^2 / (4 + x^2)"),
        (Kind.RECIPROCAL, {"inner": 2.0}, "-x + 0.8 y / (1 + 2 x)"),
        (Kind.INVERSE, {"inner": -1.0, "monomial": (0, 2)}, "-x - 0.8 y^2 / x"),
        (Kind.INHIBITION, {"second": 3.0, "monomial": (0, 0)}, "-x + 0.8 / (1 + |0.667 x|^3)"),
        (Kind.SATURATION, {"second": 4.0, "inner": 0.5, "monomial": (0, 0)}, "-x + 0.8 x^4 / (2^4 + x^4)"),
        (Kind.POWER, {"second": -0.5, "inner": 1.0, "monomial": (0, 0)}, "-x + 0.8 / x^0.5"),
        (Kind.GAUSSIAN, {"inner": 2.0, "monomial": (1, 0)}, "-x + 0.8 x exp(-4 x^2)"),
        (Kind.ARRHENIUS, {"inner": 0.5, "monomial": (0, 0)}, "-x + 0.8 exp(-2 / x)"),
        (Kind.SIN, {"inner": 2.0, "second": -0.5, "monomial": (0, 0)}, "-x + 0.8 sin(2 x - 0.5)"),
        (
            Kind.EXP,
            {"inner": -1.0, "second": 1.0, "partner": 1, "monomial": (0, 0)},
            "-x + 0.8 exp(-x + y)",
        ),
    ],
)
def test_functions_look_as_in_a_textbook(kind, given, text):
    field = DictionaryField(term(kind, **given), [[0, 0], [-1, 0], [0, 0], [0.8, 0]], state_names=["x", "y"])
    assert field.equations() == [text, "0"]


def test_terms_over_one_denominator_share_it():
    two = term(Kind.HILL, 0.5) + term(Kind.HILL, 0.5, monomial=(0, 0)).subset(slice(3, 4))
    coefficients = np.array([[0, 0], [-1, 0], [0, 0], [0.8, 0], [-0.3, 0]])
    field = DictionaryField(two, coefficients, state_names=["x", "y"])
    assert field.equations()[0] == "-x + (0.8 x y - 0.3 x) / (2 + x)"
    assert field.latex().splitlines()[1] == r"\dot{x} &= -x + \frac{0.8 x y - 0.3 x}{2 + x} \\"


def test_a_polynomial_joins_a_fraction_where_that_is_shorter():
    # 2 - 2 x / (3 + x) is 6 / (3 + x); nothing cancels of 2 - x / (3 + x)
    dictionary = term(Kind.HILL, 1 / 3, monomial=(0, 0))
    shorter = DictionaryField(dictionary, [[2, 2], [0, 0], [0, 0], [-2, -1]], state_names=["x", "y"])
    assert shorter.equations() == ["6 / (3 + x)", "2 - x / (3 + x)"]
    both = term(Kind.HILL, 0.5, monomial=(0, 0)) + Dictionary.functions(2, Kind.RECIPROCAL, 0.5).subset([0])
    mixed = DictionaryField(both, [[0, 0], [0, 0], [0, 0], [0.8, 0], [0.1, 0]], state_names=["x", "y"])
    assert mixed.equations()[0] == "(0.2 + 0.8 x) / (2 + x)"


def test_errors_are_in_the_same_form_and_fixed_numbers_have_none():
    dictionary = term(Kind.HILL, 0.5)
    errors = np.zeros((4, 5))
    errors[1, 0], errors[3, 0], errors[3, 2] = 0.02, 0.03, 0.01
    field = FittedField(dictionary, [[0, 0], [-1, 0], [0, 2], [0.8, 0]], errors, state_names=["x", "y"])
    # K = 1 / inner, so its error is that of inner over its square
    assert field.equations(errors=True) == [
        "-(1.00 ± 0.02) x + (0.80 ± 0.03) x y / ((2.00 ± 0.04) + x)",
        "2 y",
    ]


def test_an_undetermined_number_keeps_its_sign_and_first_digit():
    errors = np.full((3, 4), 7e21)
    field = FittedField(Dictionary.polynomial(1, 2), [[0.0], [-0.52], [0.0]], errors)
    assert field.equations(errors=True) == ["-(0.5 ± 7e+21) x0"]


def test_expressions_are_written_as_they_were_given():
    field = SymbolicField(
        ["mu*(1 - x0**2)*x1 - x0 + 1.5", "-k*x0*x1/(h + x0) + sqrt(x1)*exp(-x0/2) - x1**3/3"],
        {"mu": 2.0, "k": 0.7, "h": 1.25},
        np.diag([0.01, 0.0, 4e-4]),
        state_names=["x", "y"],
    )
    assert field.equations() == [
        "1.5 - x + 2 y (1 - x^2)",
        "-y^3 / 3 + sqrt(y) exp(-x / 2) - 0.7 x y / (1.25 + x)",
    ]
    for text, values in zip(field.equations(6), field(X).T, strict=True):
        np.testing.assert_allclose(read(text), values, rtol=1e-5)
    assert field.equations(errors=True)[0] == "1.5 - x + (2.00 ± 0.02) y (1 - x^2)"
    assert field.equations(errors=True)[1].endswith("sqrt(y) exp(-x / 2) - 0.7 x y / ((1.25 ± 0.10) + x)")
    assert r"\frac{0.7 x y}{1.25 + x}" in field.latex()


def test_negative_parameters_keep_their_sign():
    field = SymbolicField(
        ["a*x0 + b*a*sin(c*x0)", "a**2*x1"], {"a": -2.0, "b": 3.0, "c": -1.0}, np.zeros((3, 3))
    )
    for errors in (False, True):
        for text, values in zip(field.equations(errors=errors), field(X).T, strict=True):
            np.testing.assert_allclose(read(text, ("x0", "x1")), values, rtol=1e-9)


def test_names_of_columns_are_terms():
    assert plain_sum(np.array([0.5, 1.0, -1.0, 0.0, -0.3333]), ["1", "x0", "x1", "x0^2", "sin(1 x0)"]) == (
        "0.5 + x0 - x1 - 0.333 sin(1 x0)"
    )
    assert plain_sum(np.array([-1.0]), ["1"]) == "-1" and plain_sum(np.zeros(2), ["1", "x0"]) == "0"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5"), (28.0, "28"), (2.5e-9, "2.5e-09"), (1e300, "1e+300"), (200000.0, "200000")],
)
def test_zeros_at_the_end_are_left_out(value, text):
    assert short_number(value, 3) == text


def test_a_dict_of_expressions_names_its_states():
    field = SymbolicField({"x": "y", "y": "-k*x"}, {"k": 3.0})
    assert field.state_names == ("x", "y")
    np.testing.assert_array_equal(field([[1.0, 2.0]]), [[2.0, -3.0]])
    turned = SymbolicField({"x": "y", "y": "-k*x"}, {"k": 3.0}, state_names=["y", "x"])
    np.testing.assert_array_equal(turned([[2.0, 1.0]]), [[-3.0, 2.0]])
    np.testing.assert_array_equal(field.with_parameters(k=1.0)([[1.0, 2.0]]), [[2.0, -1.0]])
    with pytest.raises(ValueError, match="of the states a, b, got those of x, y"):
        SymbolicField({"x": "y", "y": "-x"}, state_names=["a", "b"])
