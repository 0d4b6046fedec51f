"""Other packages beside ours on one record, and processes of an installed wheel."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pysindy

import fim_dynsys
from benchmarks.speed.timing import Measurement, interleaved
from fim_dynsys.corruption import add_noise
from fim_dynsys.simulation.solution import simulate

ROOT = Path(__file__).resolve().parents[2]
SAMPLES, END, NOISE, SEED = 200, 12.0, 0.05, 0
STARTS = (1, 10)
RTOL, ATOL = 1e-7, 1e-9  # of both; by default pysindy asks for 1e-12
_FITTED = ("sindy", "sindy-strong", "fim-ode", "auto", "operon")
_SLOW = ("operon",)  # seconds a fit


def _record(noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Samples ``(n, 2)`` of Van der Pol's oscillator and their times ``(n,)``."""
    t = np.linspace(0.0, END, SAMPLES)
    path = simulate(fim_dynsys.systems.get("van_der_pol").field(), [1.0, 1.5], t)
    return add_noise(path, noise, np.random.default_rng(SEED)).x[0], t


def beside_peers(repeats: int) -> list[Measurement]:
    """Fits of pysindy, operon and our models of one noisy record; then paths of one law by pysindy and here.

    operon is measured where its plugin is installed, and is said to be left out elsewhere.
    """
    return [*_fits(repeats), *_paths(repeats)]


def _fits(repeats: int) -> list[Measurement]:
    x, t = _record(NOISE)
    functions: dict[str, Callable[[], object]] = {"pysindy.SINDy()": lambda: pysindy.SINDy().fit(x, t=t)}
    slow: dict[str, Callable[[], object]] = {}
    for name in _FITTED:
        if name not in fim_dynsys.available().names:
            print(f"{name}: left out, its plugin is not installed here", file=sys.stderr)
            continue
        model = fim_dynsys.load(name)
        (slow if name in _SLOW else functions)[name] = lambda model=model: model.fit(x, t)
    rounds = {True: max(1, repeats // 10), False: repeats}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds = interleaved(functions, rounds[False])
        seconds |= interleaved(slow, rounds[True]) if slow else {}
    note = f"Van der Pol, {SAMPLES} samples, noise {NOISE:g}"
    return [
        Measurement(f"peers, {name}, fit", 1e3 * value, "ms", rounds[name in slow], note)
        for name, value in seconds.items()
    ]


def _paths(repeats: int) -> list[Measurement]:
    x, t = _record(0.0)
    theirs = pysindy.SINDy(feature_library=pysindy.PolynomialLibrary(degree=3)).fit(x, t=t)
    ours = fim_dynsys.load("sindy", feature_library=pysindy.PolynomialLibrary(degree=3)).fit(x, t)
    options = {"method": "DOP853", "rtol": RTOL, "atol": ATOL}
    rounds = max(1, repeats // 10)
    found = []
    for count in STARTS:
        starts = np.random.default_rng(SEED).uniform(-2.0, 2.0, (count, 2))
        seconds = interleaved(
            {
                "theirs": lambda starts=starts: [
                    theirs.simulate(start, t, integrator_kws=options) for start in starts
                ],
                "ours": lambda starts=starts: simulate(ours.field_, starts, t, rtol=RTOL, atol=ATOL),
            },
            rounds,
        )
        note = f"the same equations, Van der Pol to t = {END:g}, DOP853, rtol {RTOL:g}, atol {ATOL:g}"
        about = f"{count} start{'s' if count > 1 else ''}"
        values = {
            f"pysindy.SINDy, simulate, {about}": (1e3 * seconds["theirs"], "ms"),
            f"sindy, simulate, {about}": (1e3 * seconds["ours"], "ms"),
            f"simulate, pysindy / ours, {about}": (seconds["theirs"] / seconds["ours"], "x"),
        }
        found += [Measurement(f"peers, {what}", *value, rounds, note) for what, value in values.items()]
    return found


# ---------------------------------------------------------------- processes of an installed wheel

_FIRST_FIT = """
import sys, time, warnings
import numpy as np
import fim_dynsys
from fim_dynsys.regression.kernels.machine_code import origins
assert fim_dynsys.__file__.startswith(sys.argv[2]), fim_dynsys.__file__
warnings.simplefilter("ignore")
t = np.linspace(0.0, 12.0, 120)
x = np.column_stack([np.cos(t), -np.sin(t)]) * np.exp(-0.05 * t)[:, None]
x += 0.02 * np.random.default_rng(0).standard_normal(x.shape)
fim_dynsys.load(sys.argv[1]).fit(x, t)
print(time.process_time(), origins["built"], origins["compiled"])
"""


def processes(repeats: int) -> list[Measurement]:
    """CPU seconds of a Python process from its start to the end of a first noisy fit, of an installed wheel.

    The first process after the installation, with the machine code that the wheel brings and without it; then
    later ones. Dependencies are those of this environment.
    """
    rounds = max(3, repeats // 6)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        site = _installed(Path(folder))
        for name in ("fim-ode", "auto"):
            first, built, compiled = _process(name, site, Path(folder) / f"first {name}")
            later = [_process(name, site, Path(folder) / f"first {name}")[0] for _ in range(rounds)]
            note = f"from a wheel, {built} functions loaded, {compiled} compiled"
            found += [
                Measurement(f"a process, {name}, first after the installation", first, "s", 1, note),
                Measurement(f"a process, {name}, a later one", statistics.median(later), "s", rounds, note),
            ]
        shutil.rmtree(site / "fim_dynsys" / "regression" / "kernels" / "built", ignore_errors=True)
        first, built, compiled = _process("fim-ode", site, Path(folder) / "compiled")
        note = f"{built} functions loaded, {compiled} compiled"
        found.append(
            Measurement("a process, fim-ode, first without machine code of the wheel", first, "s", 1, note)
        )
    return found


def _installed(folder: Path) -> Path:
    """A folder with the wheel of this checkout installed, as pip does it."""
    source, site = folder / "source", folder / "site"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "fim_dynsys", source / "fim_dynsys", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    offline = ["--quiet", "--no-deps", "--no-index"]
    subprocess.run(
        [*pip, "wheel", *offline, "--no-build-isolation", "-w", str(folder), str(source)], check=True
    )
    (wheel,) = folder.glob("*.whl")
    subprocess.run([*pip, "install", *offline, "--target", str(site), str(wheel)], check=True)
    return site


def _process(name: str, site: Path, cache: Path) -> tuple[float, int, int]:
    """CPU seconds of a process, functions loaded from the package and compiled."""
    environment = {**os.environ, "PYTHONPATH": str(site), "NUMBA_CACHE_DIR": str(cache), "CI": "true"}
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    # Where it is set, each process translates the source of every dependency anew: seconds that no user pays.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", _FIRST_FIT, name, str(site)]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env=environment, cwd=site.parent
    )
    seconds, built, compiled = done.stdout.split()
    return float(seconds), int(built), int(compiled)
