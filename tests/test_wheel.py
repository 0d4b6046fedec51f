"""The wheel and the source distribution: the package and its weights only; works away from the checkout."""

import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# What pip calls, without its processes.
BUILD = """
import sys
from setuptools import build_meta

folder = sys.argv[1]  # which setuptools changes
build_meta.build_wheel(folder)
build_meta.build_sdist(folder)
"""

# One process for all that needs no torch: its parts are told apart by the lines of dashes.
OUTSIDE = """
import runpy
import sys
from pathlib import Path

import numpy as np

import fim_dynsys
from fim_dynsys import analyze

assert Path(fim_dynsys.__file__).is_relative_to(Path({site!r})), fim_dynsys.__file__
t = np.linspace(0.0, 6.0, 120)
x = np.stack([np.cos(2.0 * t), -2.0 * np.sin(2.0 * t)], axis=-1)
model = fim_dynsys.load("fim-ode", refine=False).fit(x, t)  # the search would compile for a minute, anew here
later = np.linspace(0.0, 9.0, 50)
path = fim_dynsys.simulate(model.field_, x[0], later)
exact = np.stack([np.cos(2.0 * later), -2.0 * np.sin(2.0 * later)], axis=-1)
assert model.card().startswith(f"# Model card: fim-ode {{model.operator.version}}")
print("error", np.abs(path.x[0] - exact).max())
print("----")

sys.argv[1:] = ["available"]
try:
    runpy.run_module("fim_dynsys", run_name="__main__")  # as python -m does
except SystemExit as end:
    assert not end.code, end
else:
    raise AssertionError("expected an exit status")
print("----")

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch" or name.startswith("torch."):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

assert "torch" not in sys.modules
sys.meta_path.insert(0, NoTorch())
for name in ("fim-ode", "sindy"):
    options = {{"refine": False}} if name == "fim-ode" else {{}}
    data = x + 1e-9 * np.random.default_rng(0).standard_normal(x.shape)
    model = fim_dynsys.load(name, **options).fit(data, t)
    assert len(analyze.fixed_points(model, [(-1, 1), (-2, 2)])) == 1, name
cases = ("fim-ode-published", {{}}), ("fim-ode-neural", {{}}), ("fim-ode", {{"device": "cuda"}})
for name, options in cases:
    try:
        fim_dynsys.load(name, **options)
    except fim_dynsys.errors.MissingPackageError as error:
        assert name in str(error) and 'pip install ".[torch]"' in str(error), error
    else:
        raise AssertionError(name)
assert "torch" not in sys.modules
print("without torch")
"""


def _not_source(folder, names):
    """Names under `folder` that a fresh clone would not have: hidden, built, run outputs, environments."""
    built = {"build", "dist", "runs", "__pycache__"}
    return [
        name
        for name in names
        if name.startswith(".")
        or name in built
        or name.endswith(".egg-info")
        or (Path(folder) / name / "pyvenv.cfg").exists()
    ]


def _run(*command, **options):
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800, **options)
    assert result.returncode == 0, f"{command} failed:\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, with the source distribution beside it, built from a copy of the sources.

    No stale build folder can leak in; no isolation, as that would need the network.
    """
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "source", ignore=_not_source)
    _run(sys.executable, "-c", BUILD, str(folder), cwd=folder / "source")
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory):
    """A folder with the wheel installed, no dependencies: those come from the running environment."""
    folder = tmp_path_factory.mktemp("site")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    _run(*pip, "--no-deps", "--no-index", "--no-compile", "--target", str(folder), str(wheel))
    return folder


def _outside(site, tmp_path, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"}
    return _run(sys.executable, *arguments, cwd=tmp_path, env=environment)


def test_holds_the_package_and_nothing_else(wheel):
    names = [name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")]
    roots = {name.split("/")[0] for name in names}
    assert sorted(root.split("-")[0] for root in roots) == ["fim_dynsys", "fim_dynsys"]
    assert {root for root in roots if root != "fim_dynsys"} == {wheel.name.split("-py3")[0] + ".dist-info"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_is_small_enough_to_be_uploaded(wheel):
    assert wheel.stat().st_size < 25e6


def _files_of_the_package(source):
    return {
        path.relative_to(source).as_posix()
        for path in (source / "fim_dynsys").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_holds_every_file_of_the_package(wheel):
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("fim_dynsys/")}
    assert packed == _files_of_the_package(wheel.parent / "source")


def test_the_source_distribution_is_the_package_and_what_describes_it(wheel):
    source = wheel.parent / "source"
    (built,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(built) as packed:
        names = {member.name.split("/", 1)[1] for member in packed.getmembers() if member.isfile()}
    own = {name for name in names if name.startswith("fim_dynsys/")}
    assert own == _files_of_the_package(source)
    about = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "pyproject.toml"}
    made = {"MANIFEST.in", "PKG-INFO", "setup.cfg"}
    assert {name for name in names - own if not name.startswith("fim_dynsys.egg-info/")} == about | made


def test_carries_weights(wheel):
    sizes = {
        i.filename: i.file_size
        for i in zipfile.ZipFile(wheel).infolist()
        if i.filename.endswith(".safetensors")
    }
    assert sizes
    assert all(1_000 < size < 2**24 for size in sizes.values()), sizes


@pytest.fixture(scope="module")
def said(site, tmp_path_factory):
    """What a process away from the checkout prints, in three parts."""
    folder = tmp_path_factory.mktemp("outside")
    return _outside(site, folder, "-c", OUTSIDE.format(site=str(site))).split("----\n")


def test_runs_outside_the_checkout(said):
    """A clean harmonic oscillator is in the dictionary: the inferred field must follow it past the data."""
    assert float(said[0].split("error")[1]) < 1e-2


def test_command_line_outside_the_checkout(said):
    for name in ("fim-ode", "fim-ode-published", "fim-ode-neural", "sindy", "sindy-strong"):
        assert name in said[1]


def test_runs_without_torch(said):
    """The models that need torch name the command that installs it; everything else works."""
    assert said[2] == "without torch\n"


MACHINE_CODE = """
import time
import numpy as np
import fim_dynsys
from fim_dynsys.regression.kernels.machine_code import origins

t = np.linspace(0.0, 12.0, 120)
x = np.column_stack([np.cos(t), -np.sin(t)]) * np.exp(-0.05 * t)[:, None]
x += 0.02 * np.random.default_rng(0).standard_normal(x.shape)
start = time.process_time()
fim_dynsys.load("fim-ode").fit(x, t)
print("loaded", origins["built"], "kept", origins["kept"], "compiled", origins["compiled"])
print("first fit", time.process_time() - start, "CPU-s")
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64" or sys.platform != "linux", reason="made on Linux, x86-64")
def test_the_first_fit_of_a_wheel_compiles_nothing(tmp_path):
    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(ROOT, source, ignore=_not_source)
    _run(
        sys.executable,
        "-m",
        "fim_dynsys.commands.building",
        cwd=source,
        env={**os.environ, "PYTHONPATH": "."},
    )
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    _run(
        *pip,
        "wheel",
        "-q",
        "--no-build-isolation",
        "--no-deps",
        "--no-index",
        "-w",
        str(tmp_path),
        str(source),
    )
    (built,) = tmp_path.glob("*.whl")
    code = [i for i in zipfile.ZipFile(built).infolist() if i.filename.endswith(".nbc")]
    assert sum(i.compress_size for i in code) < 1.5e6
    _run(*pip, "install", "-q", "--no-deps", "--no-index", "--target", str(site), str(built))
    empty = {**os.environ, "PYTHONPATH": str(site), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    said = _run(sys.executable, "-c", MACHINE_CODE, cwd=tmp_path, env=empty).split()
    assert int(said[1]) >= 10 and said[2:6] == ["kept", "0", "compiled", "0"]


@pytest.mark.slow
def test_every_public_function_runs_outside_the_checkout(site, tmp_path):
    """By its example, without a warning that is not ours."""
    script = tmp_path / "smoke.py"
    shutil.copy(ROOT / "tests" / "smoke.py", script)
    said = _outside(site, tmp_path, str(script), str(site))
    assert "0 failed, 0 warnings" in said
