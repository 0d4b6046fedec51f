"""Every public function says what it is for by an example that runs, and names its relatives."""

import doctest
import importlib
import inspect

import matplotlib
import pytest

import fim_dynsys
from fim_dynsys import analyze, plot, registry, testing

matplotlib.use("Agg")
MODULES = {"fim_dynsys": fim_dynsys, "analyze": analyze, "plot": plot, "testing": testing}
PUBLIC = {
    f"{short}.{name}": getattr(module, name)
    for short, module in MODULES.items()
    for name in module.__all__
    if inspect.isfunction(getattr(module, name))
}
# Drawings of a model with known equations, in tests/models/test_profiles.py, and readers of files that need
# an optional package, in tests/models/test_petab.py and tests/fields/test_exports.py.
ELSEWHERE = {
    "plot.profiles",
    "plot.waterfall",
    "fim_dynsys.from_sbml",
    "fim_dynsys.equations_from_petab",
    "fim_dynsys.to_sbml",
}
HOMES = sorted({function.__module__ for name, function in PUBLIC.items() if name not in ELSEWHERE})
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("name", sorted(PUBLIC.keys() - ELSEWHERE))
def test_public_functions_have_an_example_and_relatives(name):
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert [part for part in (">>> ", "See Also\n--------") if part not in text] == []


@pytest.mark.filterwarnings("ignore::fim_dynsys.errors.FimDynsysWarning")
@pytest.mark.parametrize("name", HOMES)
def test_examples_run(name, monkeypatch):
    monkeypatch.setattr(registry, "_REGISTERED", {})  # what an example registers is not there for other tests
    results = doctest.testmod(importlib.import_module(name), optionflags=OPTIONS)
    assert results.attempted > 0 and results.failed == 0
