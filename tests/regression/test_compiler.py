"""Compiled code is kept where that is possible, and never mistaken for other code."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys.regression.kernels.compiler import compiled, inlined

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


def test_damaged_code_is_compiled_again(warm):
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


def test_nothing_can_be_written(tmp_path):
    """Files stand where folders would have to be made, which stops even a superuser; one warning."""
    site = tmp_path / "site"
    shutil.copytree(PACKAGE, site / "fim_dynsys", ignore=shutil.ignore_patterns("__pycache__", "weights"))
    (site / "fim_dynsys" / "regression" / "kernels" / "__pycache__").touch()
    home = tmp_path / "home"
    home.touch()
    given = environment(HOME=str(home))
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
    assert "each process compiles again" in warned and warned.count("NUMBA_CACHE_DIR") == 1


SLOW = """
from fim_dynsys.regression.kernels import compiler, machine_code
machine_code._PATIENCE = {patience}

@compiler.compiled
def part(x):
    return x + 1.0

@compiler.compiled
def first(x):
    return part(x)

@compiler.compiled
def second(x):
    return 2.0 * x

print(first(1.0), second(1.0), second(1))
"""


@pytest.mark.parametrize(
    "patience, given, lines",
    [(0.0, {}, 1), (0.0, {"CI": "true"}, 0), (0.0, {"TQDM_DISABLE": "1"}, 0), (1e9, {}, 0)],
)
def test_compiling_for_long_is_said_once(tmp_path, patience, given, lines):
    file = tmp_path / "slow.py"
    file.write_text(SLOW.format(patience=patience))
    quiet = {name: "" for name in ("CI", "TQDM_DISABLE")}
    for said in (lines, 0)[: 1 + lines]:  # the second time the code is there
        run = subprocess.run(
            [sys.executable, str(file)],
            env=environment(**{"NUMBA_CACHE_DIR": str(tmp_path / "cache")} | quiet | given),
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout.split() == ["2.0", "2.0", "2.0"]
        assert run.stderr.count("fim-dynsys: compiling code that runs here for the first time") == said
        assert len(run.stderr.splitlines()) == said


USED_BOTH_WAYS = """
import signal
import numpy as np
from numba import njit
from fim_dynsys.regression.kernels.compiler import _dispatcher
from fim_dynsys.regression.kernels.terms import has_shape
from fim_dynsys.regression.kernels.windows import _first_not_below, neighbour_distances

t = np.arange(5.0)
distances = neighbour_distances(t, np.array([2.25]), 1)  # which calls the other

@njit
def foreign(t):
    return _first_not_below(t, 0.5) + np.zeros(2).sum()

print(distances[0], _first_not_below(t, 1.5), has_shape(8), foreign(t))

class Stop(Exception):
    pass

def stop(*_):
    raise Stop

@_dispatcher
def long(n):
    total = np.zeros(2)
    for i in range(n):
        total[i % 2] += np.sqrt(i)
    return total, total

long(1)
signal.signal(signal.SIGALRM, stop)
for _ in range(20):
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-3)
        while True:
            long(3_000_000)
    except Stop:
        pass
print("stopped")
"""


def test_kernels_are_called_from_everywhere_and_raise_what_a_handler_of_signals_raises(tmp_path):
    """From Python, from each other and from a user's compiled code, all in one process."""
    assert answer(start(USED_BOTH_WAYS, tmp_path)) == ["0.25 2 True 1.0", "stopped"]


RECORDS = """
import warnings
import numpy as np
import fim_dynsys
from fim_dynsys.regression.kernels import integration, sensitivities, shooting, subsets

warnings.simplefilter("ignore")
t = np.linspace(0.0, 6.0, 50)
turning = np.exp(-0.05 * t)[:, None] * np.column_stack([np.cos(t), -np.sin(t)])
noisy = turning + 0.02 * np.random.default_rng(0).standard_normal(turning.shape)
frozen = noisy.copy()
frozen.flags.writeable = False
chain = np.concatenate([noisy, noisy[::-1], noisy**2, noisy[:, :1] ** 3], axis=1)
for name in ("fim-ode", "sindy-strong", "auto"):
    model = fim_dynsys.load(name)
    for x in (noisy, np.asfortranarray(noisy), frozen, noisy[:, ::-1], turning):
        model.fit(x, t)
    for x in (noisy, np.asfortranarray(noisy), turning):
        model.fit([x, 1.5 * x[10:]], [t, t[10:]])
model.fit(chain, t)
kernels = [integration.integrate, sensitivities.interval_maps, shooting.linearised, subsets.search_subset]
print({kernel.__name__: len(kernel.signatures) for kernel in (*kernels, subsets.improve_subset)})
"""


def test_records_of_any_layout_run_the_same_machine_code():
    """In Fortran's order as of pandas, read-only, noise-free, several: another type is compiled anew."""
    run = subprocess.run([sys.executable, "-c", RECORDS], capture_output=True, text=True, check=True)
    counts = ast.literal_eval(run.stdout.splitlines()[-1])
    assert set(counts.values()) == {1}, counts


def test_parts_without_counted_references_return_no_arrays():
    @inlined
    def row(rows, k):
        return rows[k], k

    @compiled
    def total(rows):
        return row(rows, 1)[0].sum()

    with pytest.raises(TypeError, match="row returns an array"):
        total(np.ones((2, 3)))
