"""What is printed is the field, in whatever units."""

import re

import numpy as np
import pytest

from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.equation_text import equation_text, measured_text, number_text
from fim_dynsys.fields.expressions import compiled, parse
from fim_dynsys.fields.posterior import PosteriorField
from fim_dynsys.fields.symbolic import SymbolicField
from fim_dynsys.fields.terms import Dictionary, Kind
from fim_dynsys.regions import Region

RNG = np.random.default_rng(5)
TERM = re.compile(r"\s*(?P<number>-?[\d.]+(?:e[+-]\d+)?) (?P<name>.+)")


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (1.0, 3, " 1.00"),
        (-9.81, 2, "-9.8"),
        (2.5e-9, 3, " 2.50e-09"),
        (28.0, 3, " 28.0"),
        (12345.6, 3, " 12346"),
        (1234567.0, 3, " 1.23e+06"),
        (0.00123456, 3, " 0.00123"),
        (-5e-324, 1, "-5e-324"),
        (1e300, 2, " 1.0e+300"),
        (9.999, 3, " 10.0"),
        (0.0009999, 3, " 0.00100"),
    ],
)
def test_numbers_keep_their_digits(value, digits, text):
    assert number_text(value, digits) == text


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (1.0, 0.02, "1.00 ± 0.02"),
        (-1.2345, 0.0123, "-1.234 ± 0.012"),
        (0.3, 2.0, "0.3 ± 2"),
        (-0.52, 7e21, "-0.5 ± 7e+21"),
        (0.0, 7e21, "0 ± 7e+21"),
        (0.04, 0.13, "0.04 ± 0.13"),
        (2.5e-9, 4e-11, "2.50e-09 ± 0.04e-09"),
        (12345.0, 300.0, "12345 ± 300"),
        (1.0, 0.0097, "1.00 ± 0.01"),
        (1.0, 0.0197, "1.00 ± 0.02"),
        (1.5, 0.0, "1.50 ± 0"),
        (1.5, np.inf, "1.50 ± inf"),
        (3e-6, 9.6e-5, "3e-06 ± 1e-04"),
    ],
)
def test_errors_decide_the_digits(value, error, text):
    assert measured_text(value, error) == text


def _evaluated(text: str, state_names: tuple[str, ...], x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values of a printed right-hand side at points, and the sum of the sizes of its terms."""
    value, size = np.zeros(len(x)), np.zeros(len(x))
    symbols = tuple(parse(name) for name in state_names)
    for part in re.split(r" \+ (?![^(]*\))", text):
        found = TERM.fullmatch(part)
        if found is None:
            assert text == " 0"
            break
        name = re.sub(r"(?<=[\w)]) (?=[\w(])", "*", found["name"])
        term = float(found["number"]) * compiled((parse(name),), symbols)(*x.T)[0]
        value, size = value + term, size + np.abs(term)
    return value, size


UNITS = [
    ((1.0, 1.0), 1.0),
    ((3e-9, 4e-7), 1e5),
    ((1e7, 2e6), 30.0),
    ((70.0, 0.2), 1e-3),
    ((1e-3, 1e12), 1e-15),
]


@pytest.mark.parametrize("precision", [2, 3, 6])
@pytest.mark.parametrize(("scale", "time_unit"), UNITS)
def test_printed_equations_evaluate_to_the_field(scale, time_unit, precision):
    dictionary = Dictionary.polynomial(2, 3) + Dictionary.functions(2, Kind.EXP, -1.0)
    coefficients = RNG.normal(size=(12, 2)) * 10.0 ** RNG.uniform(-2, 2, size=(12, 2))
    coefficients[RNG.random((12, 2)) < 0.4] = 0.0
    field = DictionaryField(*dictionary.rescaled(coefficients, scale, time_unit))
    x = RNG.normal(size=(50, 2)) * scale
    for text, values in zip(field.equations(precision, style="pysindy"), field(x).T, strict=True):
        printed, size = _evaluated(text, field.state_names, x)
        # half a unit of the last digit, and six digits inside functions
        bound = (5.0 * 10.0**-precision + 1e-4) * size
        assert (np.abs(printed - values) <= bound).all()


def test_rounding_errors_of_a_fit_are_not_printed():
    terms = Dictionary.polynomial(1, 2)
    coefficients = np.array([[3e-26], [-1e-3], [2e5]])
    box = Region([0.0], [1e-9])
    assert DictionaryField(terms, coefficients, region=box).equations() == ["-0.001 x0 + 200000 x0^2"]
    assert len(DictionaryField(terms, coefficients).equations(style="pysindy")[0].split(" + ")) == 3
    small = DictionaryField(terms, [[1e-14], [-1e-3], [0.0]], region=box)
    assert small.equations() == ["1e-14 - 0.001 x0"]  # a hundredth of the other


@pytest.mark.parametrize("unit", [1.0, 3e-9, 1e7])
def test_printed_expressions_evaluate_to_the_field(unit):
    rates = {"v": 2.3e-5 * unit, "k": 0.71 * unit, "d": 1.7e-6}
    field = SymbolicField(["v - v*x0*x1/(k*(k + x0))", "d*x0 - 3*d*x1"], rates)
    x = RNG.uniform(0.1, 2.0, size=(40, 2)) * unit
    for text, values in zip(field.equations(style="pysindy"), field(x).T, strict=True):
        printed, size = _evaluated(text, field.state_names, x)
        assert (np.abs(printed - values) <= 5.1e-3 * size).all()


def test_a_precision_has_a_digit():
    with pytest.raises(ValueError, match=r"equations: expected a precision of one digit or more, got 0"):
        equation_text(np.ones(1), ["x0"], 0)


def test_coefficients_with_their_standard_errors():
    roots = np.array([np.diag([0.3, 0.02, 0.4]), np.diag([0.0, 3e-7, 0.1])])
    field = PosteriorField(
        Dictionary.polynomial(2, 1), [[0, 0], [1, -2e-5], [0, 4.3]], roots, state_names=["u", "v"]
    )
    assert field.equations(errors=True) == [
        "(1.00 ± 0.02) u",
        "-(2.00e-05 ± 0.03e-05) u + (4.30 ± 0.10) v",
    ]
    assert field.equations(errors=True, style="pysindy")[1] == "(-2.00e-05 ± 0.03e-05) u + (4.30 ± 0.10) v"
    table = field.to_dataframe()
    columns = ["state", "term", "coefficient", "standard_error"]
    assert table.columns.tolist() == [*columns, "unit", "inner_unit"]
    assert table[columns].values.tolist() == [
        ["u", "u", 1.0, 0.02],
        ["v", "u", -2e-5, 3e-7],
        ["v", "v", 4.3, 0.1],
    ]
    draws = field.draws(4000)
    spread = np.std([member.coefficients for member in draws], axis=0)
    np.testing.assert_allclose(spread, field.standard_errors, rtol=0.05)


def test_fields_without_a_posterior_have_no_errors():
    plain = DictionaryField(Dictionary.polynomial(1, 1), [[0.0], [-1.0]])
    for field in (plain, SymbolicField(["-x0"])):
        with pytest.raises(ValueError, match="expected a field with standard errors for errors=True"):
            field.equations(errors=True)
        table = field.to_dataframe()
        assert table["coefficient"].tolist() == [-1.0] and table["standard_error"].isna().all()
