"""A script of pysindy's everyday calls runs with every model, unchanged but for one line."""

import re
import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys.errors import DistillationWarning, FimDynsysWarning

SCRIPT = Path(__file__).resolve().parents[1] / "docs" / "examples" / "everyday_pysindy.py"
LINE = "make_model = pysindy.SINDy\n"
NAMES = ["x", "v"]


def _run(replacement, tmp_path, **injected):
    text = SCRIPT.read_text(encoding="utf-8")
    assert text.count(LINE) == 1
    path = tmp_path / "script.py"
    path.write_text(text.replace(LINE, replacement), encoding="utf-8")
    return runpy.run_path(str(path), init_globals=injected)


def _check_shapes(result):
    """What the script gets, whichever model it runs with."""
    assert result["names"] == NAMES
    assert len(result["equations"]) == 2
    assert result["coefficients"].shape == (2, len(result["library"]))
    assert result["complexity"] == sum(len(re.split(r" [+-] ", text)) for text in result["equations"])
    assert np.asarray(result["prediction"]).shape == result["x"].shape
    assert result["simulation"].shape == result["loose"].shape == result["x_test"].shape
    assert [np.shape(part) for part in result["several_predictions"]] == [(160, 2)] * 3
    assert [np.shape(part) for part in result["ragged_predictions"]] == [(160, 2), (100, 2), (60, 2)]


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return _run(LINE, tmp_path_factory.mktemp("pysindy"))


def test_the_script_is_pysindy_s(reference):
    _check_shapes(reference)
    assert reference["library"] == ["1", "x", "v", "x^2", "x v", "v^2"]


def test_stock_sindy_answers_the_same(reference, tmp_path, capsys):
    result = _run('import fim_dynsys; make_model = lambda: fim_dynsys.load("sindy")\n', tmp_path)
    _check_shapes(result)
    for name in ("names", "library", "complexity"):
        assert result[name] == reference[name]
    for name in ("score", "test_score", "derived_score", "several_score", "ragged_score"):
        assert result[name] == pytest.approx(reference[name], abs=1e-12)
    assert result["coefficients"] == pytest.approx(reference["coefficients"], abs=1e-12)
    assert result["prediction"] == pytest.approx(np.asarray(reference["prediction"]), abs=1e-12)
    # pysindy integrates with tolerances of 1e-12, simulate with 1e-7 and 1e-6
    assert result["simulation"] == pytest.approx(reference["simulation"], abs=1e-5)
    assert result["loose"] == pytest.approx(reference["loose"], abs=1e-4)
    # pysindy prints decimals, we significant digits: the terms are the same
    terms = [
        [[part.split()[1:] for part in text.split(" + ")] for text in r["equations"]]
        for r in (result, reference)
    ]
    assert terms[0] == terms[1]
    lines = capsys.readouterr().out.splitlines()
    printed = [line for line in lines if " = " in line]  # the others say how well the equations fit
    assert all(line.startswith("(path ") for line in lines if line not in printed and "'" not in line)
    assert printed[0] == "(x)' = " + result["equations"][0]
    assert printed[4].startswith("dx/dt = ")


@pytest.mark.parametrize("name", ["sindy-strong", "fim-ode"])
def test_our_models_find_the_oscillator(name, tmp_path):
    result = _run(f'import fim_dynsys; make_model = lambda: fim_dynsys.load("{name}")\n', tmp_path)
    _check_shapes(result)
    assert result["score"] > 0.99
    assert result["several_score"] > 0.99
    assert result["ragged_score"] > 0.98
    assert np.abs(result["simulation"] - result["x_test"]).max() < 0.2


def test_the_published_network_answers_every_call(random_published_weights, tmp_path):
    """With random weights the answers mean nothing, but each call gives what a script expects."""
    with warnings.catch_warnings(), pytest.warns(DistillationWarning, match="relative residual"):
        warnings.simplefilter("ignore", FimDynsysWarning)
        warnings.simplefilter("always", DistillationWarning)
        result = _run(
            "make_model = published\n",
            tmp_path,
            published=lambda: fim_dynsys.load("fim-ode-published", weights=random_published_weights),
        )
    _check_shapes(result)
    assert result["score"] <= 1.0
