"""What fields, ensembles and models show of themselves."""

import numpy as np
import pytest
import sympy

import fim_dynsys
from fim_dynsys import CallableField, EnsembleField, FieldFamily, Region, SymbolicField, Trajectories
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.symbolic import DrivenExpressions
from fim_dynsys.fields.terms import Dictionary

BOX = Region([-1, -1], [1, 1])
NAMES = ["<b>", "y"]


def spring(stiffness=1.0, damping=0.0):
    rows = [[0, 0], [0, -stiffness], [1, -damping]]
    return DictionaryField(Dictionary.polynomial(2, 1), np.array(rows, float), region=BOX, state_names=NAMES)


@pytest.fixture(scope="module")
def model():
    t = np.linspace(0.0, 6.0, 60)
    x = np.stack([np.cos(t), -np.sin(t)], axis=-1)
    return fim_dynsys.load("sindy").fit(Trajectories.from_arrays(x, t, state_names=NAMES))


def test_a_field_shows_equations_and_flow_and_escapes_names():
    page = spring()._repr_html_()
    assert "<b>" not in page and "(&lt;b&gt;)&#x27; = y" in page
    assert (
        page.count("<svg") == 1 and page.count("<polyline") == 169 - 1
    )  # the flow stands still in one place


def test_a_field_without_equations_or_box_shows_what_is_known():
    bare = CallableField(lambda x: -x, 2)
    assert "<svg" not in bare._repr_html_() and "<pre>" not in bare._repr_html_()
    line = CallableField(lambda x: -x, 1, region=Region([-1], [1]))
    assert line._repr_html_().count("<polyline") == 1
    undefined = CallableField(lambda x: x * np.nan, 2, region=BOX)
    assert "<svg" not in undefined._repr_html_()


def test_a_symbolic_field_lists_its_terms():
    field = SymbolicField(["x1", "-a*sin(x0)"], {"a": 2.0})
    assert field._coefficient_rows() == [("x0", "x1", 1.0), ("x1", "sin(x0)", -2.0)]
    assert field._shown_equations() == ["x0' = x1", "x1' = -2 sin(x0)"]


def test_members_of_an_ensemble_are_counted_by_their_terms():
    found = EnsembleField([spring(1.0), spring(3.0, 0.5)], weights=[3, 1])
    table = found.to_dataframe()
    assert table["term"].tolist() == ["y", "<b>", "y"] and table["share"].tolist() == [1.0, 1.0, 0.25]
    stiffness = table.iloc[1]
    assert stiffness["mean"] == pytest.approx(-1.5) and stiffness["standard_deviation"] == pytest.approx(
        0.75**0.5
    )
    assert -3 <= stiffness["low"] <= stiffness["mean"] <= stiffness["high"] <= -1
    assert "&lt;b&gt;" in found._repr_html_()
    assert EnsembleField([CallableField(lambda x: -x, 2)]).to_dataframe().empty


def test_a_family_names_its_parameter():
    family = FieldFamily.from_callable(lambda x, p: p * x, 1, "a<b")
    assert "a&lt;b" in family._repr_html_()


def test_a_fitted_model_tells_what_it_found(model):
    lines = repr(model).splitlines()
    assert [line.split(" = ")[0] for line in lines[:2]] == ["(<b>)'", "(y)'"]
    assert lines[2].startswith("path R2") and lines[3].startswith("SINDy(")
    assert lines[-1].endswith(", fitted to 60 samples of <b>, y")
    page = model._repr_html_()
    parts = [page.index(part) for part in ("(&lt;b&gt;)&#x27; = ", "<p>path R2", "<details><summary>")]
    assert parts == sorted(parts) and parts[0] < 60  # equations, fit quality, and the rest folded
    assert "<b>" not in page and "<svg" in page and "STLSQ" in page and "path R2" in page


def test_a_model_that_is_not_fitted_is_its_call():
    model = fim_dynsys.load("auto")
    assert repr(model) == "Auto()" and "<svg" not in model._repr_html_()


def test_a_distillation_shows_its_residual():
    found = fim_dynsys.distill(spring())
    assert "relative residual" in found._repr_html_() and len(found.to_dataframe()) == 2


def test_a_field_with_inputs_is_written_as_latex_and_as_sympy():
    sums = DictionaryField(
        Dictionary(np.array([[1, 0], [0, 1]])), [[-0.5, 0.0], [2.0, 0.0]], state_names=["x", "u"]
    )
    driven = DrivenField(sums, ["u"], state_names=["x"])
    written = DrivenExpressions(["-k*x + 2*u"], {"k": 0.5}, input_names=["u"], state_names=["x"])
    for field in (driven, written):
        x, u = sympy.symbols("x u", real=True)
        assert field.latex() == "\\begin{aligned}\n\\dot{x} &= -0.5 x + 2 u\n\\end{aligned}"
        assert field._repr_latex_() == f"$${field.latex()}$$"
        assert sympy.simplify(field.sympy([x, u])[0] - (2 * u - x / 2)) == 0 and len(field.sympy()) == 1


@pytest.mark.parametrize("name", ["N", "S", "E", "I", "beta"])
def test_names_that_sympy_has_too_stay_as_they_are(name):
    written = SymbolicField([f"r*{name}*(1 - {name}/K)"], {"r": 0.5, "K": 5.0}, state_names=[name])
    assert written.to_dataframe()["term"].tolist() == [name, f"{name}**2"]
    sums = DictionaryField(Dictionary.polynomial(1, 1), [[0.0], [-1.0]], state_names=[name])
    letter = f"\\{name}" if len(name) > 1 else name
    for field in (written, sums):
        assert f"\\dot{{{letter}}} &= " in field.latex() and f"{letter}_" not in field.latex()


@pytest.mark.parametrize("name", ["glucose (mM)", "x.1", "2x"])
def test_a_name_that_no_expression_can_hold_is_said_to_be_written_by_place(name):
    with pytest.raises(ValueError, match=r"cannot stand in expressions: write x0"):
        SymbolicField({name: f"-k*{name}"}, {"k": 1.0})
    assert SymbolicField({name: "-k*x0"}, {"k": 1.0}).to_dataframe()["term"].tolist() == [name]


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"a": 1.0, "b": 2.0}, r"parameters \['a'\], got 'b' too, which no expression names; states are x\."),
        ({}, r"parameters \['a'\], got no value of 'a'; states are x\."),
        ({"A": 1.0}, r"got no value of 'a' and 'A' too, which no expression names"),
    ],
)
def test_parameters_that_lack_or_are_too_many_are_named(given, match):
    with pytest.raises(ValueError, match=match):
        SymbolicField(["-a*x"], given, state_names=["x"])


@pytest.mark.parametrize("letter", ["\N{MICRO SIGN}", "\N{GREEK SMALL LETTER MU}"])
def test_names_stay_as_they_were_written(letter):
    growing = SymbolicField([f"{letter}*x"], {letter: 2.0}, state_names=["x"])
    assert growing([3.0]) == 6.0 and list(growing.parameters) == [letter]
    state = SymbolicField({letter: f"-k*{letter}"}, {"k": 2.0})
    assert state([3.0]) == -6.0 and state.equations() == [f"-2 {letter}"]
