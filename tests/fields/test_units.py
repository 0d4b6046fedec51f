"""Units as text, and what the numbers of equations are measured in."""

import numpy as np
import pytest

from fim_dynsys import Trajectories
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.symbolic import SymbolicField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.fields.units import Units, pure_number, read_unit, unit_text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("m/s^2", "m/s^2"),
        ("m s-2", "m/s^2"),
        ("m·s⁻²", "m/s^2"),
        ("m**0.5 / s", "m^0.5/s"),
        ("1/(mM s)", "1/(mM s)"),
        ("µm", "um"),
        ("1000 individuals", "1000 individuals"),
        ("ppm CO2", "CO2 ppm"),
        ("dimensionless", ""),
    ],
)
def test_units_are_read_as_they_are_written(text, written):
    assert unit_text(read_unit(text)) == written


@pytest.mark.parametrize("text", ["", "arbitrary (a.u.)", "m + s", "sin(m)", "lambda", "$"])
def test_what_is_no_product_of_powers_is_not_read(text):
    assert read_unit(text) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("cm/m", 0.01),
        ("min/s", 60.0),
        ("J/(N m)", 1.0),
        ("A s/C", 1.0),
        ("mM L/mol", 1e-3),
        ("deg", np.pi / 180),
        ("rad", 1.0),
        ("%", 0.01),
        ("kHz s", 1e3),
        ("eV/J", 1.602176634e-19),
        ("hares/lynxes", None),
        ("m/s", None),
        ("hares", None),
    ],
)
def test_units_of_one_dimension_differ_by_a_number(text, number):
    found = pure_number(read_unit(text))
    assert found is None if number is None else found == pytest.approx(number, rel=1e-12)


def test_rates_of_a_state_are_seen_by_their_units():
    given = {"x": "m", "v": "cm/s", "theta": "deg", "omega": "rad/s", "q": "C", "i": "mA", "t": "s"}
    units = Units.of(given, list(given)[:-1])
    found = [units.rates(i) for i in range(6)]
    assert found[1] == found[3] == found[5] == {}
    assert found[0] == {1: pytest.approx(0.01)} and found[4] == {5: pytest.approx(1e-3)}
    assert found[2] == {3: pytest.approx(180 / np.pi)}
    assert [units.has_dimension(i) for i in range(3)] == [True, True, False]
    without_time = Units.of({"a": "1", "b": "1", "t": "1"}, ["a", "b"])
    assert without_time.rates(0) == {}  # every number would be pure


def test_coefficients_and_numbers_inside_functions_have_units():
    terms = Dictionary([[0, 1], [1, 1], [0, 0], [1, 0], [0, 0]], [0, 0, Kind.HILL, Kind.LOG, Kind.POWER],
                       [0, 0, 0, 0, 0], [1, 1, 0.4, 1, 1], [0, 0, 0, 0, -2])  # fmt: skip
    coefficients = np.array([[0.01, -1.0], [0.0, 2.0], [3.0, 0.0], [4.0, 0.0], [0.0, 5.0]])
    t = np.linspace(0.0, 1.0, 5)
    context = Trajectories.from_arrays(
        np.ones((5, 2)), t, state_names=["x", "v"], units={"x": "m", "v": "cm/s", "t": "s"}
    )
    table = DictionaryField(terms, coefficients, context=context).to_dataframe()
    assert table["unit"].tolist() == ["m/cm", "m/s", "1/s", "1/s", "1/(m s)", "cm m^2/s^2"]
    assert table["inner_unit"].tolist() == ["", "1/m", "", "", "", ""]
    bare = DictionaryField(terms, coefficients, context=context.with_units({"x": "m", "t": "s"}))
    assert bare.to_dataframe()["unit"].tolist() == ["", "m/s", "1/s", "", "", ""]


def test_inputs_have_units_too():
    context = Trajectories.from_arrays(
        np.ones((5, 1)),
        np.linspace(0.0, 1.0, 5),
        state_names=["v"],
        u=np.ones((5, 1)),
        input_names=["F"],
        units={"v": "m/s", "F": "N", "t": "s"},
    )
    values = np.array([[-0.1, 0.0], [2.0, 0.0]])
    field = DrivenField.of(Dictionary([[1, 0], [0, 1]]), values, context, FitInfo())
    assert field.to_dataframe()["unit"].tolist() == ["1/s", "m/(N s^2)"]


def test_terms_of_expressions_have_units_too():
    names, given = ["x", "t2"], {"x": "mM", "t2": "h", "t": "h"}
    context = Trajectories.from_arrays(np.ones((5, 2)), 0.1, state_names=names, units=given)
    texts = {
        "-k*x": "1/h",
        "V*x/(K + x)": "mM/h",  # K has the unit of x
        "V*x/(1 + K*x)": "",  # that of K is not known
        "V*exp(-k*x)": "mM/h",
        "k*x**2*t2": "1/(h^2 mM)",
        "k*sqrt(x)": "mM^0.5/h",
        "k*max(x, K)": "1/h",
        "k*(x if t2 > 2 else 3)": "",
    }
    for text, unit in texts.items():
        values = {name: 0.5 for name in "kVK" if name in text}
        table = SymbolicField([text, "0"], values, context=context).to_dataframe()
        assert table["unit"].tolist() == [unit], text
