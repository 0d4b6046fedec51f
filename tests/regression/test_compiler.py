"""Compiled code is kept where that is possible, and never mistaken for other code."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fim_dynsys

SIMPLE = """
import warnings
import numpy as np
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from fim_dynsys.regression.kernels.splines import group_starts
    first = group_starts(np.linspace(0.0, 1.0, 5), 0.3)
print(first.tolist())
print([str(w.message) for w in caught if "fim-dynsys" in str(w.message)])
"""
EXPECTED = "[0, 2, 4]"
PACKAGE = Path(fim_dynsys.__file__).parent


def environment(**changes):
    given = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    return given | {"PYTHONPATH": os.pathsep.join([str(PACKAGE.parent), *sys.path])} | changes


def start(code, folder):
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment(NUMBA_CACHE_DIR=str(folder)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process):
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    return out.splitlines()


@pytest.fixture(scope="module")
def cold(tmp_path_factory):
    """What two processes say that start together with nothing compiled, and the folder they leave."""
    folder = tmp_path_factory.mktemp("cold")
    both = [start(SIMPLE, folder) for _ in range(2)]
    return [answer(process) for process in both], folder


@pytest.fixture
def warm(cold, tmp_path):
    """A folder of its own with the code compiled."""
    return shutil.copytree(cold[1], tmp_path / "warm")


def test_processes_together_on_a_cold_cache(cold):
    said, folder = cold
    assert said == [[EXPECTED, "[]"]] * 2
    (kept,) = [path for path in folder.rglob("*") if path.is_file()]
    assert kept.suffix == ".nbc"


def test_damaged_code_is_compiled_anew(warm):
    (kept,) = warm.rglob("*.nbc")
    whole = kept.read_bytes()
    kept.write_bytes(whole[: len(whole) // 2])
    assert answer(start(SIMPLE, warm)) == [EXPECTED, "[]"]
    assert len(kept.read_bytes()) == len(whole)


def test_code_of_other_sources_is_not_taken_and_goes(warm):
    """An index would name the old file until the new one is written: here its name says what it holds."""
    (one,) = warm.rglob("*.nbc")
    stale = one.with_name(one.name.rpartition("-")[0] + "-0000000000000000.nbc")
    one.rename(stale)
    assert answer(start(SIMPLE, warm)) == [EXPECTED, "[]"]
    assert one.exists() and not stale.exists()


@pytest.mark.parametrize("temporary, said", [(True, "goes to"), (False, "compiles anew")])
def test_nothing_can_be_written(tmp_path, temporary, said):
    """Files stand where folders would have to be made, which stops even a superuser; one warning."""
    site = tmp_path / "site"
    shutil.copytree(PACKAGE, site / "fim_dynsys", ignore=shutil.ignore_patterns("__pycache__", "weights"))
    (site / "fim_dynsys" / "regression" / "kernels" / "__pycache__").touch()
    home, free = tmp_path / "home", tmp_path / "free"
    home.touch()
    free.mkdir()
    if not temporary:
        (free / f"fim-dynsys-{os.getuid()}").touch()
    given = environment(HOME=str(home), TMPDIR=str(free))
    given["PYTHONPATH"] = os.pathsep.join([str(site), *sys.path[1:]])
    process = subprocess.Popen(
        [sys.executable, "-c", SIMPLE],
        env=given,
        cwd=site,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    values, warned = answer(process)
    assert values == EXPECTED
    assert said in warned and warned.count("NUMBA_CACHE_DIR") == 1
    if temporary:
        (folder,) = free.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700 and len(list(folder.rglob("*.nbc"))) == 1
