"""What equations say in words: names that cancel, other logarithms, texts that are no expressions."""

import numpy as np
import pytest

from fim_dynsys import load
from fim_dynsys.errors import DataWarning
from fim_dynsys.fields.expressions import parse

T = np.linspace(0.0, 6.0, 40)
Y = 2.0 * np.exp(-0.5 * T) + 0.02 * np.random.default_rng(0).standard_normal(40)


def test_a_parameter_that_cancels_is_said_to_have_no_effect():
    with pytest.warns(DataWarning, match="q: no effect"):
        model = load("equations", expressions={"c": "-k*c + 0*q"}, n_starts=3).fit(Y, T, feature_names=["c"])
    assert model.parameters_["k"] == pytest.approx(0.5, rel=0.05)


def test_a_dict_of_expressions_names_the_columns():
    named = load("equations", expressions={"c": "-k*c"}, n_starts=3).fit(Y, T, feature_names=["c"])
    model = load("equations", expressions={"c": "-k*c"}, n_starts=3).fit(Y, T)
    assert list(model.field_.state_names) == ["c"] and model.parameters_ == named.parameters_


@pytest.mark.parametrize(("sigma", "is_said"), [(0.1, True), (0.02, False), (0.025, False)])
def test_errors_that_are_given_too_large_are_said_to_be_so(sigma, is_said):
    model = load("equations", expressions={"c": "-k*c"}, n_starts=3)
    model.fit(Y, T, feature_names=["c"], sigma=sigma)
    assert any("times what the residuals show" in n for n in model.field_.fit_info.report["notes"]) == is_said


@pytest.mark.parametrize("text", ["ln(x)", "log10(x)*log(10)", "log2(x)*log(2)"])
def test_other_logarithms(text):
    assert parse(text).equals(parse("log(x)"))


@pytest.mark.parametrize(
    ("text", "hint"),
    [("dc/dt = -k*c", "right-hand side alone"), ("c' = -k*c", "right-hand side alone"), ("2k c", r"need \*")],
)
def test_texts_that_are_no_expressions_get_hints(text, hint):
    with pytest.raises(ValueError, match=hint):
        parse(text)


def test_a_dose_at_an_unknown_time_gets_a_hint():
    model = load("equations", expressions={"c": "-k*c"}, doses=[("T", "c", 2.0)])
    with pytest.raises(ValueError, match="short infusion"):
        model.fit(Y, T, feature_names=["c"])
