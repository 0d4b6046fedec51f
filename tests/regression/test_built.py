"""Machine code that the package brings: taken where it runs, and compiled anew everywhere else."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fim_dynsys
from fim_dynsys.commands import building
from fim_dynsys.commands.building import environment, pack
from fim_dynsys.regression.kernels import machine_code

RUN = """
{change}
import numpy as np
from fim_dynsys.regression.kernels import machine_code
from fim_dynsys.regression.kernels.splines import group_starts
print((group_starts(np.linspace(0.0, 1.0, 5), 0.3).tolist(), dict(machine_code.origins)))
"""
MASKED = "from fim_dynsys.regression.kernels import machine_code as m; m.host_features = lambda: {'avx2'}"
HERE = sys.platform == "linux" and machine_code.host_features().issuperset(machine_code.FEATURES)
pytestmark = pytest.mark.skipif(not HERE, reason="machine code is made for Linux on x86-64-v3 alone")


def run(site, cache, change="", **variables):
    """The answer of a kernel, and where its machine code came from."""
    given = {"PYTHONPATH": os.pathsep.join([str(site), *sys.path[1:]]), "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", RUN.format(change=change)]
    finished = subprocess.run(
        command, env=os.environ | given | variables, cwd=site, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0 and finished.stderr == "", finished.stderr
    return ast.literal_eval(finished.stdout)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A copy of the package with machine code of one function."""
    site, made = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("made")
    package = Path(fim_dynsys.__file__).parent
    shutil.copytree(
        package, site / "fim_dynsys", ignore=shutil.ignore_patterns("__pycache__", "weights", "built")
    )
    assert run(site, made, **environment(made)) == ([0, 2, 4], {"compiled": 1})
    built = site / machine_code.BUILT.relative_to(package.parent)
    built.mkdir()
    (code,) = made.rglob("*.nbc")
    pack(code, built)
    assert (built / code.name).stat().st_size < code.stat().st_size
    assert f".py3{sys.version_info.minor}" in code.name
    return site


def test_code_of_the_package_is_loaded(site, tmp_path):
    assert run(site, tmp_path) == ([0, 2, 4], {"built": 1})
    assert not list(tmp_path.rglob("*.nbc"))


@pytest.mark.parametrize(
    "change, variables",
    [
        ("import numba; numba.__version__ = '0.0.1'", {}),
        ("", {"NUMBA_CPU_NAME": "generic"}),
        ("", {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": "+avx2,+fma,-bmi2"}),
        (MASKED, {}),
    ],
    ids=["another numba", "another processor", "masked features", "a processor without them"],
)
def test_any_mismatch_is_compiled_in_silence(site, tmp_path, change, variables):
    assert run(site, tmp_path, change, **variables) == ([0, 2, 4], {"compiled": 1})


def test_other_sources_and_damaged_code_are_compiled(site, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(site, other)
    (code,) = other.rglob("built/*.nbc")
    whole = code.read_bytes()
    code.write_bytes(whole[: len(whole) // 2])
    assert run(other, tmp_path / "a") == ([0, 2, 4], {"compiled": 1})
    code.write_bytes(whole)
    with (other / "fim_dynsys/regression/kernels/splines.py").open("a") as source:
        source.write("# changed\n")
    assert run(other, tmp_path / "b") == ([0, 2, 4], {"compiled": 1})


def test_code_of_the_same_sources_is_kept_and_the_rest_added(tmp_path, monkeypatch):
    """What is there is loaded while the rest is compiled, so that it must stay; of other sources it goes."""
    built, stamp = tmp_path / "built", tmp_path / "built" / "sources.txt"
    built.mkdir()
    (built / "older.nbc").touch()
    stamp.write_text("of other sources\nauto\n", encoding="utf-8")
    seen = []

    class Compiling:
        """A process that ends at once."""

        returncode = 0

        def __init__(self, words, **_):
            self.args = words
            seen.append(words[3:])

        def wait(self):
            return self.returncode

    monkeypatch.setattr(machine_code, "BUILT", built)
    monkeypatch.setattr(building.subprocess, "Popen", Compiling)
    assert building.main(["auto"]) == 0
    assert [path.name for path in built.iterdir()] == ["sources.txt"]
    (built / "auto.nbc").touch()
    assert building.main(["auto", "equations"]) == building.main(["auto"]) == 0
    both = ("compile", "compile-backwards")
    assert seen == [[share, name] for name in ("auto", "equations") for share in both]
    assert (built / "auto.nbc").exists()
    assert stamp.read_text(encoding="utf-8").splitlines()[1:] == ["auto", "equations"]
