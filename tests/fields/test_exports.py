"""Equations for other programs: compiled C, and SBML read again, against the field itself."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys.errors import FitWarning
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.symbolic import SymbolicField
from fim_dynsys.fields.terms import Dictionary

TEXTS = {
    "my state": "min(x0, 2*y, k/3) - abs(x0)**1.5*tanh(x0) + 1e-9*exp(-y)",
    "y": "(k**2*log(x0 + 3) if x0 > 0.1 and y <= 2 else -0.1/(1 + y**2)) - sign(y)*k",
}
X = np.array([[0.5, 0.2], [-1.3, 5.0], [4.0, -2.0], [0.05, 0.05]])
FIELD = SymbolicField(TEXTS, {"k": 0.123456789012345678})
TERMS = Dictionary(np.array([[0, 0], [1, 0], [1, 1], [0, 2]]))
NUMBERS = np.array([[0.1, 0.0], [-0.7, 0.0], [1e-5 / 3, 0.0], [2.5, 0.0]])
DRIVEN = DrivenField(DictionaryField(TERMS, NUMBERS, state_names=["x", "u"]), ["u"], state_names=["x"])


def compiled(folder, text, name="rates"):
    (folder / "f.c").write_text(text, encoding="utf-8")
    command = ["cc", "-std=c99", "-Wall", "-Werror", "-shared", "-fPIC", "f.c", "-o", "f.so", "-lm"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    library = ctypes.CDLL(str(folder / "f.so"))

    def rates(x, u=(), p=()):
        out = np.empty(len(x))
        arrays = [np.array(values, dtype=float) for values in (x, u, p)]
        pointers = [a.ctypes.data_as(ctypes.c_void_p) if len(a) else None for a in arrays]
        getattr(library, name)(ctypes.c_double(0.0), *pointers, out.ctypes.data_as(ctypes.c_void_p))
        return out

    return rates


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_c_gives_the_numbers_of_the_field(tmp_path):
    rates = compiled(tmp_path, fim_dynsys.to_c(FIELD))
    found = [rates(x, p=[0.123456789012345678]) for x in X]
    np.testing.assert_allclose(found, FIELD(X), rtol=1e-14)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_c_of_a_sum_of_terms_with_inputs(tmp_path):
    text = fim_dynsys.to_c(DRIVEN, tmp_path / "kept.c", name="slope")
    assert (tmp_path / "kept.c").read_text(encoding="utf-8") == text
    rates = compiled(tmp_path, text, "slope")
    np.testing.assert_allclose(rates([0.7], u=[0.3]), DRIVEN([0.7], [0.3]), rtol=1e-14)


def test_julia_has_every_state_parameter_and_number():
    text = fim_dynsys.to_julia(FIELD)
    assert "function rates!(dx, x, p, t)" in text
    assert "const rates_parameters = [0.12345678901234568]" in text
    assert "x[1] = my state, x[2] = y" in text
    simple = fim_dynsys.to_julia(SymbolicField({"c": "-k*c + 0.25"}, {"k": 0.5}))
    assert "dx[1] = -p[1] .* x[1] + 0.25" in simple


def test_what_has_no_equations_or_no_name_is_refused():
    with pytest.raises(TypeError, match="expected a field with equations"):
        fim_dynsys.to_c("x")
    with pytest.raises(ValueError, match="expected a name of letters"):
        fim_dynsys.to_c(FIELD, name="a b")


def test_sbml_is_read_again_with_the_same_rates(tmp_path):
    pytest.importorskip("libsbml", reason="the extra petab is not installed")
    again = fim_dynsys.from_sbml(fim_dynsys.to_sbml(FIELD, tmp_path / "m.xml", x0=[0.5, 0.2]))
    assert again.parameters["k"] == pytest.approx(FIELD.parameters["k"], rel=1e-14)  # 15 digits are written
    assert [float(again.initial[name]) for name in again.states] == [0.5, 0.2]
    other = SymbolicField(again.expressions, again.parameters)
    np.testing.assert_allclose(other(X), FIELD(X), rtol=1e-13)
    with pytest.raises(ValueError, match="without inputs, got u"):
        fim_dynsys.to_sbml(DRIVEN, tmp_path / "n.xml")


def test_sbml_of_equations_in_time_and_of_a_fit(tmp_path):
    pytest.importorskip("libsbml", reason="the extra petab is not installed")
    t = np.linspace(0.0, 4.0, 17)
    model = fim_dynsys.load("equations", expressions={"c": "-k*t*c"}, n_starts=2)
    model.fit(2.0 * np.exp(-0.1 * t**2), t, feature_names=["c"])
    again = fim_dynsys.from_sbml(fim_dynsys.to_sbml(model.field_, tmp_path / "m.xml"))
    assert str(again.equations[0]) == "-c*k*t"
    assert float(again.initial["c"]) == pytest.approx(2.0, rel=1e-6)
    assert again.parameters["k"] == pytest.approx(0.2, rel=1e-6)


def test_time_in_sbml_counts_from_the_first_sample_and_doses_are_said(tmp_path):
    pytest.importorskip("libsbml", reason="the extra petab is not installed")
    t = np.linspace(5.0, 9.0, 17)
    model = fim_dynsys.load("equations", expressions={"c": "-k*t*c"}, doses=[(6.0, "c", 0.0)], n_starts=2)
    model.fit(2.0 * np.exp(-0.1 * (t**2 - 25.0)), t, feature_names=["c"])
    with pytest.warns(FitWarning, match="to_sbml: doses and events of the fit are not written, at 6"):
        again = fim_dynsys.from_sbml(fim_dynsys.to_sbml(model.field_, tmp_path / "m.xml"))
    symbols = {str(s): s for s in again.equations[0].free_symbols}
    at_start = again.equations[0].subs({symbols["t"]: 0.0, symbols["c"]: 2.0, symbols["k"]: 0.2})
    assert float(at_start) == pytest.approx(-2.0)
