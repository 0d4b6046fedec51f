"""Imports point down, heavy packages stay where they belong, and public names load lazily."""

import ast
import graphlib
import importlib
import json
import pkgutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import fim_dynsys

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "fim_dynsys"

# From the bottom up; a file may import from its own layer and those before it, without cycles.
LAYERS = (
    ("errors", "writing", "regions", "deadline", "entry_points", "importing", "threads", "wording"),
    ("trajectories",),
    ("corruption", "reduction", "fields"),
    ("simulation", "metrics"),
    ("regression",),
    ("search", "comparison", "estimation"),
    ("systems", "distillation"),
    ("analyze",),
    ("plot", "explorer"),
    ("delta", "saved"),
    ("models",),
    ("registry", "testing", "report", "many"),
    ("commands",),
    ("__main__",),
)
# The one import that points up, deferred to the call: a result draws itself.
UPWARDS = {"fim_dynsys.analyze.results": "fim_dynsys.plot"}
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
# Where a heavy package may be imported at all, inside functions or not.
HOMES = {
    "torch": ("fim_dynsys.models.fim_ode.",),
    "safetensors": ("fim_dynsys.models.fim_ode.", "fim_dynsys.commands.", "fim_dynsys.delta"),
    "pyoperon": (),
    "dynesty": ("fim_dynsys.comparison.nested",),
    "pysindy": ("fim_dynsys.models.sindy", "fim_dynsys.models.pysindy_objects"),
    "sklearn": ("fim_dynsys.models.base", "fim_dynsys.models.", "fim_dynsys.testing"),
    "matplotlib": ("fim_dynsys.plot.", "fim_dynsys.analyze.results"),  # the latter names a type
    "benchmarks": (),
    "training": (),
    "plugins": (),
}


def _modules(folder: Path, prefix: str) -> dict[str, Path]:
    files = sorted(folder.rglob("*.py"))
    names = {path: ".".join((prefix, *path.relative_to(folder).with_suffix("").parts)) for path in files}
    return {name.removesuffix(".__init__"): path for path, name in names.items()}


MODULES = _modules(PACKAGE, "fim_dynsys")
KNOWN = MODULES | _modules(ROOT / "training", "training")


@cache
def _imports(path: Path) -> frozenset[str]:
    """All modules that a file imports, in functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: expected absolute imports, got a relative one"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in KNOWN else node.module)
    return frozenset(found)


def _own(module: str) -> set[str]:
    imported = {name for name in _imports(MODULES[module]) if name.split(".")[0] == "fim_dynsys"}
    return imported - {UPWARDS.get(module)}


def _rank(module: str) -> int:
    return RANK[module.split(".")[1]]


def test_every_file_has_a_layer():
    tops = {name.split(".")[1] for name in MODULES if "." in name}
    assert tops - set(RANK) == set()
    assert set(RANK) - tops == set()


# What says the version of the package, which stands in the package itself.
SAYS_VERSION = {"fim_dynsys", "fim_dynsys.__main__", "fim_dynsys.commands.installation"}


@pytest.mark.parametrize("module", sorted(set(MODULES) - SAYS_VERSION))
def test_imports_point_down(module):
    wrong = {name for name in _own(module) if name == "fim_dynsys" or _rank(name) > _rank(module)}
    assert not wrong, f"{module} imports {sorted(wrong)} from above"


def test_no_cycles():
    graph = {name: _own(name) - {name} for name in MODULES}
    order = list(graphlib.TopologicalSorter(graph).static_order())
    assert set(MODULES) <= set(order)


def _siblings(importer: str, imported: str) -> tuple[str, str] | None:
    """The two folders of one folder that hold two modules; None where one is above or beside the other."""
    a, b = importer.split("."), imported.split(".")
    k = next(k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    return (".".join(a[: k + 1]), ".".join(b[: k + 1])) if len(a) > k + 1 and len(b) > k + 1 else None


def test_no_folder_imports_one_that_imports_it():
    """Sub-packages too: what two folders of one folder both need stands in a third below them."""
    graph: dict[str, set[str]] = {}
    for module in MODULES:
        if MODULES[module].name != "__init__.py":
            for imported in _own(module) & set(MODULES) - {module}:
                if imported.startswith(module + ".") or module.startswith(imported + "."):
                    continue
                pair = _siblings(module, imported)
                if pair is not None:
                    graph.setdefault(pair[0], set()).add(pair[1])
    assert "fim_dynsys.analyze.cycles" in graph["fim_dynsys.analyze.bands"]
    list(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError, which names the folders


@pytest.mark.parametrize("package", sorted(HOMES))
def test_heavy_packages_stay_at_home(package):
    strays = {
        name
        for name, path in MODULES.items()
        if package in {imported.split(".")[0] for imported in _imports(path)}
        and not any(name.startswith(home) for home in HOMES[package])
    }
    assert not strays, f"{package} is imported by {sorted(strays)}"


@pytest.mark.parametrize(
    "module", sorted(name for name, path in MODULES.items() if path.name == "__init__.py")
)
def test_packages_import_nothing(module):
    assert _imports(MODULES[module]) <= {"importlib", "typing", "fim_dynsys.importing"}


# What analysis may use: fields, whatever model they come from.
ANALYSIS_MAY = {
    "analyze",
    "deadline",
    "errors",
    "fields",
    "metrics",
    "regions",
    "simulation",
    "threads",
    "trajectories",
    "wording",
}


@pytest.mark.parametrize("module", sorted(name for name in MODULES if name.startswith("fim_dynsys.analyze")))
def test_analysis_knows_fields_only(module):
    used = _own(module)
    assert {name.split(".")[1] for name in used} <= ANALYSIS_MAY


# What the training loop may use, so that it runs where nothing else is installed.
TRAINING = (
    "checkpoint",
    "learner",
    "objective",
    "preset",
    "pretrain",
    "processes",
    "source",
    "systems/chaos",
    "systems/corruption",
    "systems/families",
    "systems/fields",
    "systems/generation",
    "systems/polynomials",
    "systems/priors",
)
TRAINING_MAY = (
    "fim_dynsys.errors",
    "fim_dynsys.fields.terms",
    "fim_dynsys.models.fim_ode.",
    "fim_dynsys.writing",
)


@pytest.mark.parametrize("name", TRAINING)
def test_training_stands_on_its_own(name):
    for imported in _imports(ROOT / "training" / f"{name}.py"):
        top = imported.split(".")[0]
        assert top in {*sys.stdlib_module_names, "torch", "numpy", "safetensors", "training", "fim_dynsys"}, (
            imported
        )
        assert top != "fim_dynsys" or imported.startswith(TRAINING_MAY), imported


# ---------------------------------------------------------------------- laziness

FRESH = """
import json, sys, time

def loaded():
    return sorted({name.split(".")[0] for name in sys.modules})

start = time.process_time()
import fim_dynsys
said = {"seconds": time.process_time() - start, "import": loaded()}
import fim_dynsys.fields.terms
said["terms"] = loaded()
fim_dynsys.available()
said["available"] = loaded()
said["systems"] = len(fim_dynsys.systems.development())
said["catalogue"] = loaded()
fim_dynsys.load("sindy")
fim_dynsys.distill
for name in fim_dynsys.analyze.__all__:
    getattr(fim_dynsys.analyze, name)
said["analyses"] = loaded()
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def fresh():
    """Packages that one new interpreter has loaded after steps of growing needs, and seconds of the first."""
    run = subprocess.run([sys.executable, "-c", FRESH], cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def test_importing_the_package_is_cheap(fresh):
    heavy = {"torch", "pysindy", "matplotlib", "xarray", "scipy", "numpy", "sklearn", "pandas", "sympy"}
    assert heavy & set(fresh["import"]) == set()
    assert fresh["seconds"] < 0.3


def test_terms_need_numpy_only(fresh):
    """The training loop builds dictionaries where neither scipy nor xarray is installed."""
    assert "numpy" in fresh["terms"]
    assert {"scipy", "xarray", "pandas", "sympy", "torch", "sklearn"} & set(fresh["terms"]) == set()


def test_listing_models_imports_none(fresh):
    heavy = {"torch", "pysindy", "matplotlib", "xarray", "scipy", "sklearn"}
    assert heavy & set(fresh["available"]) == set()


def test_the_catalogue_opens_without_sympy(fresh):
    assert fresh["systems"] == len(fim_dynsys.systems.development())
    assert "sympy" not in fresh["catalogue"]


def test_analysis_of_fields_needs_no_torch(fresh):
    assert "scipy" in fresh["analyses"]
    assert {"torch", "matplotlib"} & set(fresh["analyses"]) == set()


def test_no_submodule_hides_a_public_name():
    """Importing a submodule sets an attribute of the package, which must not replace a function."""
    for name in MODULES:
        if not name.endswith("__main__"):
            importlib.import_module(name)
    kinds = {name: type(getattr(fim_dynsys, name)).__name__ for name in fim_dynsys.__all__}
    assert "module" not in kinds.values()
    files = {module.name for module in pkgutil.iter_modules(fim_dynsys.__path__)}
    assert files & set(fim_dynsys.__all__) == set()


def test_public_names_are_those_of_their_modules():
    for name in fim_dynsys.__all__:
        value = getattr(fim_dynsys, name)
        if name != "__version__":
            assert getattr(importlib.import_module(value.__module__), name) is value
        assert name in dir(fim_dynsys)
    assert fim_dynsys.systems is importlib.import_module("fim_dynsys.systems")
    with pytest.raises(AttributeError, match="no attribute 'simulation_of'"):
        _ = fim_dynsys.simulation_of


def test_version_is_the_project_s():
    assert f'version = "{fim_dynsys.__version__}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
