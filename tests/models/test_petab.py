"""Estimation problems in PEtab and models in SBML, an optional extra."""

import numpy as np
import pytest

import fim_dynsys

pytest.importorskip("libsbml", reason="the extra petab is not installed")
pytest.importorskip("yaml", reason="the extra petab is not installed")

SBML = """<?xml version="1.0" encoding="UTF-8"?>
<sbml xmlns="http://www.sbml.org/sbml/level3/version2/core" level="3" version="2"><model id="m">
<listOfCompartments><compartment id="V" size="2" constant="true"/></listOfCompartments>
<listOfSpecies>
<species id="A" compartment="V" initialConcentration="0" hasOnlySubstanceUnits="false"
 boundaryCondition="false" constant="false"/>
<species id="B" compartment="V" initialConcentration="0" hasOnlySubstanceUnits="false"
 boundaryCondition="false" constant="false"/>
</listOfSpecies>
<listOfParameters><parameter id="k" value="1" constant="true"/><parameter id="a0" value="3" constant="true"/>
<parameter id="total" constant="false"/></listOfParameters>
<listOfInitialAssignments><initialAssignment symbol="A"><math xmlns="http://www.w3.org/1998/Math/MathML"><ci>a0</ci></math>
</initialAssignment></listOfInitialAssignments>
<listOfRules><assignmentRule variable="total"><math xmlns="http://www.w3.org/1998/Math/MathML"><apply><plus/><ci>A</ci><ci>B</ci>
</apply></math></assignmentRule></listOfRules>
<listOfReactions><reaction id="r" reversible="false">
<listOfReactants><speciesReference species="A" stoichiometry="1" constant="true"/></listOfReactants>
<listOfProducts><speciesReference species="B" stoichiometry="2" constant="true"/></listOfProducts>
<kineticLaw><math xmlns="http://www.w3.org/1998/Math/MathML"><apply><times/><ci>V</ci><ci>k</ci><ci>A</ci></apply></math></kineticLaw>
</reaction></listOfReactions></model></sbml>
"""
T = np.linspace(0.0, 4.0, 9)


@pytest.fixture
def folder(tmp_path):
    """A decay under two conditions, measured on the logarithm, and its doubled product."""
    rng = np.random.default_rng(0)
    rows = ["observableId\tsimulationConditionId\tmeasurement\ttime\tobservableParameters\tnoiseParameters"]
    for condition, start in (("one", 3.0), ("two", 6.0)):
        for t in T:
            a = start * np.exp(-0.7 * t)
            rows.append(f"a\t{condition}\t{a * 10 ** (0.05 * rng.standard_normal())}\t{t}\t\tsd_a")
            rows.append(
                f"b\t{condition}\t{1.5 * 2 * (start - a) + 0.1 * rng.standard_normal()}\t{t}\tscale\t0.1"
            )
    tables = {
        "m.xml": SBML,
        "measurements.tsv": "\n".join(rows),
        "conditions.tsv": "conditionId\ta0\none\t3\ntwo\ta_two",
        "observables.tsv": "observableId\tobservableFormula\tnoiseFormula\tobservableTransformation\n"
        "a\tA\tnoiseParameter1_a\tlog10\nb\tobservableParameter1_b*(total-A)\tnoiseParameter1_b\tlin",
        "parameters.tsv": "parameterId\tparameterScale\tlowerBound\tupperBound\tnominalValue\testimate\n"
        "k\tlog10\t1e-3\t1e3\t0.7\t1\na_two\tlog10\t1e-2\t1e2\t6\t1\n"
        "scale\tlin\t0\t10\t1.5\t1\nsd_a\tlog10\t1e-4\t10\t0.05\t1",
        "problem.yaml": "format_version: 1\nparameter_file: parameters.tsv\nproblems:\n"
        "- {condition_files: [conditions.tsv], measurement_files: [measurements.tsv],\n"
        "   observable_files: [observables.tsv], sbml_files: [m.xml]}",
    }
    for name, text in tables.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_a_model_in_sbml_as_equations(folder):
    model = fim_dynsys.from_sbml(folder / "m.xml")
    assert model.states == ("A", "B")
    assert [str(e) for e in model.equations] == ["-1.0*A*k", "2.0*A*k"]
    assert {k: str(v) for k, v in model.initial.items()} == {"A": "a0", "B": "0"}


def test_a_problem_in_petab(folder):
    problem = fim_dynsys.equations_from_petab(folder / "problem.yaml")
    fit = problem.fit()
    for name, value in {"k": 0.7, "a_two": 6.0, "scale": 1.5, "sd_a": 0.05}.items():
        assert fit.parameters_[name] == pytest.approx(value, rel=0.3 if name == "sd_a" else 0.05)
    # the same likelihood, written out
    p, total = fit.parameters_, 0.0
    for row in problem.problem.runs:
        start = 3.0 if row.overrides["a0"] == 3.0 else p["a_two"]
        a = start * np.exp(-p["k"] * row.times[row.rows])
        b = p["scale"] * 2 * (start - a)
        is_a = row.kinds == 0
        y = row.values
        off = np.where(is_a, (np.log10(y.clip(1e-300)) - np.log10(a)) / p["sd_a"], (y - b) / 0.1)
        size = np.where(is_a, p["sd_a"] * np.log(10.0) * y, 0.1)
        total += np.sum(0.5 * off**2 + np.log(size) + 0.5 * np.log(2 * np.pi))
    assert fit.objective == pytest.approx(total, abs=1e-4)
    low, high = fit.profile("k").intervals[0.95]
    assert low < 0.7 < high


def test_what_is_not_supported_is_named(folder):
    text = (folder / "m.xml").read_text(encoding="utf-8")
    rule = "<algebraicRule><math xmlns='http://www.w3.org/1998/Math/MathML'><ci>k</ci></math></algebraicRule></listOfRules>"
    (folder / "m.xml").write_text(text.replace("</listOfRules>", rule), encoding="utf-8")
    with pytest.raises(ValueError, match="algebraic rules"):
        fim_dynsys.from_sbml(folder / "m.xml")
