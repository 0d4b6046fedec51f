"""What editors and type checkers see: every public name with its type, and nothing else."""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fim_dynsys
from fim_dynsys import analyze, plot, testing
from fim_dynsys.models.base import VectorFieldModel
from tests import stubs

ROOT = Path(__file__).resolve().parents[1]
EXTRA = "install the test tools: pip install -e .[test] -c constraints.txt"
SCREEN = 1000  # characters of a signature, a dozen lines
# What README leaves out: models by names known only when the script runs, and from a folder.
MORE = """
for name in ("fim-ode", "auto"):
    other = fim_dynsys.load(name).fit(np.zeros((9, 2)), np.arange(9.0))
    print(other.field_.state_names, other.equations(style="plain"))
restored = fim_dynsys.load_fitted("folder")
basins = analyze.basins(restored)
basins.plot().figure.savefig("basins.png")
number: float = restored.score(np.zeros((9, 2)), np.arange(9.0))
"""


@pytest.mark.parametrize("package", stubs.PACKAGES)
def test_stubs_have_the_public_names(package):
    found = stubs.path_of(package).read_text(encoding="utf-8")
    assert found == stubs.text_of(package), "run `python -m tests.stubs`"


@pytest.mark.parametrize("module", [analyze, plot, testing], ids=lambda module: module.__name__)
def test_dir_lists_public_names_only(module):
    assert dir(module) == sorted(module.__all__)


def test_dir_of_the_package_has_its_modules_too():
    modules = set(dir(fim_dynsys)) - set(fim_dynsys.__all__)
    assert {"analyze", "plot", "errors"} <= modules and "importlib" not in modules
    assert all(inspect.ismodule(getattr(fim_dynsys, name)) for name in modules)


def _callables():
    for module in (fim_dynsys, analyze, plot):
        yield from ((name, getattr(module, name)) for name in module.__all__)
    yield from inspect.getmembers(VectorFieldModel, inspect.isfunction)


def test_signatures_fit_on_a_screen():
    public = [(name, value) for name, value in _callables() if not name.startswith("_") and callable(value)]
    sizes = {name: len(str(inspect.signature(value))) for name, value in public if value is not plot.Drawing}
    assert len(sizes) > 90
    assert {name: size for name, size in sizes.items() if size > SCREEN} == {}


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """README's code, a user's script, and what it leaves out."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    path = tmp_path_factory.mktemp("script") / "script.py"
    head = "import numpy as np\n\nimport fim_dynsys\nfrom fim_dynsys import analyze, plot\n\n"
    path.write_text("".join([head, *blocks, MORE]), encoding="utf-8")
    return path


def _run(*command, **options):
    return subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, **options)


@pytest.mark.lint
def test_mypy_finds_no_error_in_a_users_script(script):
    """With the settings and the cache of `make lint`, which has just read the package."""
    wrong = script.with_name("wrong.py")
    wrong.write_text("import fim_dynsys\n\nfim_dynsys.load('auto').fitt([1.0])\n", encoding="utf-8")
    options = ("--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache"))
    run = _run("mypy", *options, str(script), str(wrong), cwd=ROOT)
    found = [line for line in run.stdout.splitlines() if ": error:" in line]
    assert len(found) == 1 and wrong.name in found[0] and '"Auto" has no attribute "fitt"' in found[0]


@pytest.mark.lint
def test_pyright_finds_no_error_in_a_users_script(script):
    """By basedpyright, pyright with its engine in the wheel: pyright's own downloads it from npm."""
    pytest.importorskip("basedpyright", reason=EXTRA)
    wrong = script.with_name("unknown.py")
    wrong.write_text("from fim_dynsys import analyze\n\nanalyze.fixed_point\n", encoding="utf-8")
    settings = {"include": [script.name, wrong.name], "typeCheckingMode": "standard", "pythonVersion": "3.11"}
    settings["extraPaths"] = [str(ROOT)]
    project = script.with_name("pyrightconfig.json")
    project.write_text(json.dumps(settings), encoding="utf-8")
    run = _run("basedpyright", "-p", str(project), "--pythonpath", sys.executable, "--outputjson")
    found = [(Path(d["file"]).name, d["message"]) for d in json.loads(run.stdout)["generalDiagnostics"]]
    assert [message for name, message in found if name == script.name] == []
    assert any(
        '"fixed_point" is not a known attribute' in message for name, message in found if name == wrong.name
    )


@pytest.mark.parametrize(
    ("typed", "some"),
    [
        ("model.", {"fit", "print", "forecast", "field_", "ensemble"}),
        ("fim_dynsys.", {"load", "simulate", "Trajectories", "analyze", "plot"}),
        ("analyze.", {"fixed_points", "limit_cycles", "FixedPoints"}),
        ("plot.", {"phase_portrait", "time_series"}),
        ("analyze.fixed_points(model).", {"x", "eigenvalues", "plot"}),
    ],
)
def test_jedi_completes(typed, some):
    jedi = pytest.importorskip("jedi", reason=EXTRA)
    lines = [
        "import fim_dynsys",
        "from fim_dynsys import analyze, plot",
        'model = fim_dynsys.load("fim-ode").fit([1.0, 2.0, 3.0])',
        typed,
    ]
    project = jedi.Project(ROOT, smart_sys_path=False, added_sys_path=[str(ROOT)])
    found = {c.name for c in jedi.Script("\n".join(lines), project=project).complete(4, len(typed))}
    assert some <= found and len([name for name in found if not name.startswith("_")]) >= 20
