"""Every public function and method says what it is for by an example that runs."""

import doctest
import importlib
import inspect

import matplotlib
import pytest

import fim_dynsys
from fim_dynsys import Trajectories, VectorField, analyze, plot, registry, testing
from fim_dynsys.models.base import VectorFieldModel

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
# Methods that who writes a model or a field calls or overrides, not who uses one.
OF_AUTHORS = {
    VectorFieldModel: {
        "check_context",
        "differentiate",
        "infer",
        "infer_many",
        "restore",
    },
    VectorField: {
        "picture",
        "stack",
        "with_fit_info",
    },
    Trajectories: set(),
}
METHODS = {
    f"{owner.__name__}.{name}": inspect.unwrap(getattr(owner, name))
    for owner, of_authors in OF_AUTHORS.items()
    for name in dir(owner)
    if not name.startswith("_") and name not in of_authors and inspect.isroutine(getattr(owner, name))
}
HOMES = sorted(
    {function.__module__ for name, function in PUBLIC.items() if name not in ELSEWHERE}
    | {method.__module__ for method in METHODS.values()}
)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("name", sorted(PUBLIC.keys() - ELSEWHERE))
def test_public_functions_have_an_example_and_relatives(name):
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert [part for part in (">>> ", "See Also\n--------") if part not in text] == []


@pytest.mark.parametrize("name", sorted(METHODS))
def test_methods_have_an_example(name):
    assert ">>> " in (inspect.getdoc(METHODS[name]) or "")


@pytest.mark.filterwarnings("ignore::fim_dynsys.errors.FimDynsysWarning")
@pytest.mark.parametrize("name", HOMES)
def test_examples_run(name, monkeypatch):
    monkeypatch.setattr(registry, "_REGISTERED", {})  # what an example registers is not there for other tests
    results = doctest.testmod(importlib.import_module(name), optionflags=OPTIONS)
    assert results.attempted > 0 and results.failed == 0
