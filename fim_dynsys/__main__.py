"""Command line: what is installed (info), which models there are (available), whether they work (doctor)."""

import argparse
import hashlib
import importlib
import json
import os
import platform
import sys
import time
import traceback
from importlib import metadata
from pathlib import Path

import fim_dynsys
from fim_dynsys.registry import available, load

_DEPENDENCIES = (
    "torch",
    "numpy",
    "scipy",
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
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def main(arguments=None) -> int:
    """Run one command; returns the exit code, 0 where all is well.

    Parameters
    ----------
    arguments : list of str, optional
        Default: those of the process.
    """
    parser = argparse.ArgumentParser(prog="python -m fim_dynsys", description=fim_dynsys.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, run in (("info", info), ("available", models), ("doctor", doctor)):
        command = commands.add_parser(name, help=run.__doc__.splitlines()[0], description=run.__doc__)
        command.add_argument("--json", action="store_true", help="machine-readable output")
        command.set_defaults(run=run)
    options = parser.parse_args(arguments)
    return options.run(options.json)


# ---------------------------------------------------------------------- info


def info(as_json: bool) -> int:
    """Versions, weights with their hashes, and threads."""
    facts = {
        "fim-dynsys": fim_dynsys.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _DEPENDENCIES},
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
    folder = Path(__file__).parent / "models" / "fim_ode" / "weights"
    return sorted(folder.glob("*.safetensors"))


def _version(distribution) -> str | None:
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


def _print_nested(facts, indent=""):
    for key, value in facts.items():
        if isinstance(value, dict):
            print(f"{indent}{key}:")
            _print_nested(value, indent + "  ")
        else:
            print(f"{indent}{key}: {'-' if value is None else value}")


# ---------------------------------------------------------------------- available


def models(as_json: bool) -> int:
    """Models that can be loaded, built in and from plugins."""
    table = available()
    if as_json:
        rows = [
            {
                "name": entry.name,
                "distribution": entry.distribution,
                "summary": entry.spec.summary if entry.spec else None,
                "max_dim": entry.spec.max_dim if entry.spec else None,
                "problem": entry.problem or None,
            }
            for entry in table
        ]
        print(json.dumps(rows, indent=2))
    else:
        print(table)
    return 0


# ---------------------------------------------------------------------- doctor


def doctor(as_json: bool) -> int:
    """Check imports, weights, plugins and a tiny fit of each model; exit code 1 if anything fails."""
    checks = [(f"import {name}", lambda name=name: _check_import(name)) for name in _DEPENDENCIES]
    checks += [(f"weights {path.name}", lambda path=path: _check_weights(path)) for path in weights_files()]
    for entry in available():
        if entry.spec is None:
            checks.append((f"plugin {entry.name}", lambda entry=entry: _fail(entry.problem)))
        else:
            checks.append((f"model {entry.name}", lambda entry=entry: _check_fit(entry.name)))
    results = [_run_check(name, check) for name, check in checks]
    if as_json:
        print(json.dumps(results, indent=2))
    else:
        for result in results:
            mark = "ok  " if result["ok"] else "FAIL"
            print(f"{mark}  {result['check']:<30} {result['seconds']:6.2f} s  {result['detail']}")
    return 0 if all(result["ok"] for result in results) else 1


def _run_check(name, check) -> dict:
    start = time.perf_counter()
    try:
        ok, detail = True, check()
    except Exception as error:  # a diagnosis reports whatever goes wrong and goes on
        ok, detail = False, "".join(traceback.format_exception_only(error)).strip()
    return {"check": name, "ok": ok, "seconds": round(time.perf_counter() - start, 3), "detail": detail}


def _fail(problem):
    raise RuntimeError(problem)


def _check_import(distribution) -> str:
    importlib.import_module(_IMPORT_NAMES.get(distribution, distribution))
    return _version(distribution) or "no version"


def _check_weights(path: Path) -> str:
    from safetensors.numpy import load_file

    tensors = load_file(path)
    facts = _weights_facts(path)
    return f"{len(tensors)} tensors, {facts['bytes']} bytes, sha256 {facts['sha256'][:16]}"


def _check_fit(name) -> str:
    """Fit a decay, of which the field is -x / 2."""
    import numpy as np

    t = np.linspace(0.0, 4.0, 60)
    try:
        model = load(name)
    except FileNotFoundError as error:
        return f"needs weights: {error}"
    model.fit(2.0 * np.exp(-0.5 * t)[:, None], t)
    value = float(model.predict(np.array([[1.0]]))[0, 0])
    return f"dx/dt at 1 of a decay: {value:.3f} (exact -0.5)"


if __name__ == "__main__":
    sys.exit(main())
