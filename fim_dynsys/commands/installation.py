"""Commands about the installation: what there is, and whether it works."""

import argparse
import hashlib
import importlib
import json
import os
import platform
import time
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import fim_dynsys
from fim_dynsys.errors import FitWarning, MissingPackageError
from fim_dynsys.registry import available, load
from fim_dynsys.regression.kernels import machine_code

_DEPENDENCIES = (
    "torch",
    "numpy",
    "scipy",
    "numba",
    "sympy",
    "pysindy",
    "dynesty",
    "xarray",
    "h5netcdf",
    "matplotlib",
    "safetensors",
    "joblib",
    "tqdm",
    "pandas",
    "scikit-learn",
)
_IMPORT_NAMES = {"scikit-learn": "sklearn"}
_PARAMETERS = {"equations": {"expressions": {"x0": "-k*x0"}}}  # of models that cannot be made without any
_OPTIONAL = ("torch",)
COMPILED = ("fim-ode", "sindy-strong", "symbolic", "auto", "equations")
"""Models whose loops numba compiles."""
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def add_arguments(parser: argparse.ArgumentParser, command: str) -> None:
    """Options of `info`, `available` and `doctor`."""
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    if command == "doctor":
        parser.add_argument("--compile", action="store_true", help="compile ahead what fits need")


def versions() -> dict[str, str | None]:
    """Versions of this package and of what it rests on; None where one is not installed."""
    return {"fim-dynsys": fim_dynsys.__version__, **{name: version_of(name) for name in _DEPENDENCIES}}


def info(as_json: bool) -> int:
    """Versions, weights with their hashes, and threads.

    Example: fim-dynsys info --json
    """
    facts = {
        "fim-dynsys": fim_dynsys.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: version_of(name) for name in _DEPENDENCIES},
        "weights": {path.name: _weights_facts(path) for path in weights_files()},
        "threads": {"cpus": os.cpu_count()} | {name: os.environ.get(name) for name in _THREAD_VARIABLES},
    }
    if as_json:
        print(json.dumps(facts, indent=2))
    else:
        _print_nested(facts)
    return 0


def weights_files() -> list[Path]:
    """Weights that ship with the package, sorted by name."""
    folder = Path(fim_dynsys.__file__).parent / "models" / "fim_ode" / "weights"
    return sorted(folder.glob("*.safetensors"))


def version_of(distribution: str) -> str | None:
    """The version of a distribution, None where it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _weights_facts(path: Path) -> dict:
    return {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "bytes": path.stat().st_size,
        "header": _weights_header(path),
    }


def _weights_header(path: Path) -> dict:
    """The text that a safetensors file carries about itself."""
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        return json.loads(stream.read(length)).get("__metadata__", {})


def _print_nested(facts: dict[str, Any], indent: str = "") -> None:
    for key, value in facts.items():
        if isinstance(value, dict):
            print(f"{indent}{key}:")
            _print_nested(value, indent + "  ")
        else:
            print(f"{indent}{key}: {'-' if value is None else value}")


def models(as_json: bool) -> int:
    """Models that can be loaded, built in and from plugins, and the plugins that are not installed.

    Example: fim-dynsys available
    """
    table = available()
    if as_json:
        rows: list[dict[str, Any]] = [
            {
                "name": entry.name,
                "distribution": entry.distribution,
                "summary": entry.spec.summary if entry.spec else None,
                "max_dim": entry.spec.max_dim if entry.spec else None,
                "problem": entry.problem or None,
                "install": None,
            }
            for entry in table
        ]
        rows += [
            {
                "name": plugin.name,
                "distribution": plugin.distribution,
                "summary": plugin.summary,
                "max_dim": None,
                "problem": "not installed",
                "install": plugin.install,
            }
            for plugin in table.not_installed
        ]
        print(json.dumps(rows, indent=2))
    else:
        print(table)
    return 0


def doctor(as_json: bool, ahead: bool = False) -> int:
    """Check imports, weights, plugins and a tiny fit of each model; exit code 1 if anything fails.

    With --compile, also one longer fit of each model that has compiled loops: later fits find these loops in
    numba's cache on the disk.

    Example: fim-dynsys doctor --compile
    """
    checks = [(f"import {name}", partial(_check_import, name)) for name in _DEPENDENCIES]
    checks += [(f"weights {path.name}", partial(_check_weights, path)) for path in weights_files()]
    for entry in available():
        if entry.spec is None:
            checks.append((f"plugin {entry.name}", partial(_fail, entry.problem)))
        else:
            checks.append((f"model {entry.name}", partial(_check_fit, entry.name, entry.spec.needs_training)))
    if ahead:
        checks += [(f"compile {name}", partial(compile_ahead, name)) for name in COMPILED]
    results = [_run_check(name, check) for name, check in checks]
    if as_json:
        print(json.dumps(results, indent=2))
    else:
        for result in results:
            mark = "ok  " if result["ok"] else "FAIL"
            print(f"{mark}  {result['check']:<30} {result['seconds']:6.2f} s  {result['detail']}")
    return 0 if all(result["ok"] for result in results) else 1


def _run_check(name: str, check: Callable[[], str]) -> dict[str, Any]:
    start = time.perf_counter()
    try:
        ok, detail = True, check()
    except Exception as error:  # a diagnosis reports whatever goes wrong and goes on
        ok, detail = False, "".join(traceback.format_exception_only(error)).strip()
    return {"check": name, "ok": ok, "seconds": round(time.perf_counter() - start, 3), "detail": detail}


def _fail(problem: str) -> str:
    raise RuntimeError(problem)


def _check_import(distribution: str) -> str:
    if distribution in _OPTIONAL and version_of(distribution) is None:
        return "not installed; optional"
    importlib.import_module(_IMPORT_NAMES.get(distribution, distribution))
    return version_of(distribution) or "no version"


def _check_weights(path: Path) -> str:
    from safetensors.numpy import load_file

    tensors = load_file(path)
    facts = _weights_facts(path)
    return f"{len(tensors)} tensors, {facts['bytes']} bytes, sha256 {facts['sha256'][:16]}"


def compile_ahead(name: str, backwards: bool = False) -> str:
    """Fit records for which candidates of every kind are tried: with noise, with a force, without noise.

    Or in the opposite order, so that two processes share the compiling.
    """
    import numpy as np

    t = np.linspace(0.0, 12.0, 120)
    swinging = np.column_stack([np.cos(t), -np.sin(t)]) * np.exp(-0.05 * t)[:, None]
    noisy = swinging + 0.02 * np.random.default_rng(0).standard_normal(swinging.shape)
    left = np.linspace(2.0, 0.2, 120)  # of a substrate, x' = -x / (0.5 + x)
    pendulum = {"x0": "x1", "x1": "-k*sin(x0) - c*x1"}
    driven = {"x0": "x1", "x1": "-k*sin(x0) - c*x1 + b*u0"}
    records = [
        (pendulum, noisy, t, None),
        (driven, noisy, t, np.cos(0.7 * t)),
        (pendulum, swinging, t, None),
        ({"x0": "-v*x0 / (k + x0)"}, left[:, None], 2.0 - left + 0.5 * np.log(2.0 / left), None),
    ]
    for expressions, x, times, force in reversed(records) if backwards else records:
        given = {"expressions": expressions} if name in _PARAMETERS else {}
        with warnings.catch_warnings():  # of answers that nobody reads: a pendulum does not describe a spiral
            warnings.simplefilter("ignore", FitWarning)
            load(name, **given).fit(x, times, u=force)
    origins = machine_code.origins
    return (
        f"machine code of the package {origins['built']}, kept here {origins['kept']}, compiled "
        f"{origins['compiled']}"
    )


def _check_fit(name: str, trains: bool) -> str:
    """Fit a decay, of which the field is -x / 2, unless the model is one that trains."""
    import numpy as np

    from fim_dynsys.models.base import VectorFieldModel

    t = np.linspace(0.0, 4.0, 60)
    try:
        model = load(name, **_PARAMETERS.get(name, {}))
    except FileNotFoundError as error:
        return f"needs weights: {error}"
    except MissingPackageError as error:
        return f"not usable here: {error}"
    if trains:
        return "loaded; not fitted, because it trains for minutes"
    model.fit(2.0 * np.exp(-0.5 * t)[:, None], t)
    if not isinstance(model, VectorFieldModel):
        value = float(model.forecast(np.array([1.0]), np.array([0.0, 2.0])).x[0, -1, 0])
        return f"after 2 units of a decay: {value:.3f} (exact 0.368)"
    value = float(np.asarray(model.predict(np.array([[1.0]])))[0, 0])
    return f"dx/dt at 1 of a decay: {value:.3f} (exact -0.5)"
