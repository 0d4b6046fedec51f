"""Command line: what is installed, which models there are, whether they work; fit a file, analyse the fit."""

import argparse
import hashlib
import importlib
import json
import os
import platform
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import fim_dynsys
from fim_dynsys.errors import PluginError
from fim_dynsys.registry import available, load, load_fitted
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.writing import replace_file

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
_COMPILED = ("fim-ode", "sindy-strong", "symbolic", "auto")  # models whose loops numba compiles
_HEADER = "model.json"  # what model.save writes last
_RECORD = "fit.json"  # how a fitted model came about, beside what model.save writes
_MODEL = "model sha256"  # key of the record: of the model.json that it is about
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code, 0 where all is well.

    Parameters
    ----------
    arguments : list of str, optional
        Default: those of the process.
    """
    parser = argparse.ArgumentParser(prog="python -m fim_dynsys", description=fim_dynsys.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, run in (("info", info), ("available", models), ("doctor", doctor)):
        command = _command(commands, name, run)
        command.add_argument("--json", action="store_true", help="machine-readable output")
        if name == "doctor":
            command.add_argument("--compile", action="store_true", help="compile ahead what fits need")
    _add_fit(_command(commands, "fit", fit))
    _add_analyze(_command(commands, "analyze", analyze))
    _add_explore(_command(commands, "explore", explore))
    options = vars(parser.parse_args(arguments))
    command, run = options.pop("command"), options.pop("run")
    if command not in ("fit", "analyze", "explore"):
        return run(*options.values())
    try:
        return run(**options, command=shlex.join(_words(arguments)))
    except (OSError, PluginError, TypeError, ValueError) as error:  # what users can mend
        print(f"python -m fim_dynsys {command}: {error}", file=sys.stderr)
        return 2


def _command(commands: Any, name: str, run: Callable[..., int]) -> argparse.ArgumentParser:
    about = run.__doc__ or name
    command = commands.add_parser(name, help=about.splitlines()[0], description=about)
    command.set_defaults(run=run)
    return command


def _words(arguments: Sequence[str] | None) -> list[str]:
    """The command as it was typed."""
    return ["python", "-m", "fim_dynsys", *(sys.argv[1:] if arguments is None else arguments)]


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


def _version(distribution: str) -> str | None:
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


# ---------------------------------------------------------------------- available


def models(as_json: bool) -> int:
    """Models that can be loaded, built in and from plugins, and the plugins that are not installed."""
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


# ---------------------------------------------------------------------- fit


def _add_fit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, help="CSV (one row a sample) or netCDF file")
    parser.add_argument("--model", required=True, help="name that `available` lists")
    parser.add_argument("--out", type=Path, required=True, help="folder for the fitted model")
    parser.add_argument("--time", help="CSV column of times; default t or time")
    parser.add_argument("--trajectory", help="CSV column that tells trajectories apart; default trajectory")
    parser.add_argument("--states", nargs="+", help="CSV columns of the state; default all others")


def fit(
    data: Path,
    model: str,
    out: Path,
    time: str | None,
    trajectory: str | None,
    states: list[str] | None,
    command: str,
) -> int:
    """Fit a model to a file of trajectories and save it."""
    columns = {"time": time, "trajectory": trajectory, "states": states}
    trajectories = Trajectories.from_file(data, **{k: v for k, v in columns.items() if v is not None})
    fitted = load(model).fit(trajectories)
    folder = fitted.save(out)
    record = {
        "fitted": _now(),
        "command": command,
        "data": data.name,
        "model at the fit": f"{fitted.name}, version {fitted.version}",
        "data sha256": _sha256(data),
        "packages": _versions(),
        _MODEL: _sha256(folder / _HEADER),
    }
    replace_file(folder / _RECORD, json.dumps(record, indent=2) + "\n")
    samples = int(trajectories.n_obs.sum())
    print(f"{model} fitted to {samples} samples of {', '.join(trajectories.state_names)}, saved in {folder}")
    fitted.print()
    return 0


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _record(folder: Path) -> dict[str, Any]:
    """How the fitted model in a folder came about, if what is written there is about this very model."""
    try:
        record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        if record.pop(_MODEL) == _sha256(folder / _HEADER):
            return record
    except (OSError, ValueError, RecursionError, AttributeError, TypeError, KeyError):
        pass  # none, or not what `fit` wrote
    return {"fitted": "not recorded"}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _versions() -> dict[str, str | None]:
    return {"fim-dynsys": fim_dynsys.__version__, **{name: _version(name) for name in _DEPENDENCIES}}


# ---------------------------------------------------------------------- analyze


def _add_analyze(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="where `fit` or model.save wrote")
    parser.add_argument("--report", type=Path, required=True, help="HTML file to write")
    parser.add_argument("--explorer", type=Path, help="page that `explore` wrote, for the report to link to")
    _add_region(parser)


def _add_region(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--region",
        nargs="+",
        type=_bounds,
        metavar="STATE=LOW:HIGH",
        help="box to search, one entry a state; default that of the data, 10 %% wider on each side",
    )


def _bounds(text: str) -> tuple[str, tuple[float, float]]:
    """``x=-3:3`` as a name and a pair of numbers."""
    name, _, ends = text.partition("=")
    try:
        low, high = map(float, ends.split(":"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected STATE=LOW:HIGH, got {text!r}") from None
    return name, (low, high)


def analyze(
    folder: Path,
    report: Path,
    explorer: Path | None,
    region: list[tuple[str, tuple[float, float]]] | None,
    command: str,
) -> int:
    """Find fixed points and cycles of a fitted model and write a page about it."""
    from fim_dynsys.report import write_report  # loads matplotlib, which no other command needs

    model = load_fitted(folder)
    fitted = _record(folder)
    before, now = fitted.pop("packages", None), _versions()
    packages: dict[str, Any] = {"packages": now}
    if before not in (None, now):
        packages = {"packages at the fit": before, "packages at the analysis": now}
    provenance = {**fitted, "analysed": _now(), "analysis command": command, **packages}
    box = None if region is None else dict(region)
    write_report(model, report, region=box, provenance=provenance, explorer=explorer)
    print(f"{report} written")
    return 0


# ---------------------------------------------------------------------- explore


def _add_explore(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="where `fit` or model.save wrote")
    parser.add_argument("--out", type=Path, required=True, help="HTML file to write")
    parser.add_argument(
        "--members", type=int, default=20, help="members of an ensemble shown beside the field; default 20"
    )
    _add_region(parser)


def explore(
    folder: Path, out: Path, members: int, region: list[tuple[str, tuple[float, float]]] | None, command: str
) -> int:
    """Write a page of a fitted model on which a click starts a trajectory."""
    model = load_fitted(folder)
    model.explore(out, region=None if region is None else dict(region), members=members, folder=folder)
    print(f"{out} written")
    return 0


# ---------------------------------------------------------------------- doctor


def doctor(as_json: bool, compile_ahead: bool = False) -> int:
    """Check imports, weights, plugins and a tiny fit of each model; exit code 1 if anything fails.

    With --compile, also one longer fit of each model that has compiled loops: later fits find these loops in
    numba's cache on the disk.
    """
    checks = [(f"import {name}", partial(_check_import, name)) for name in _DEPENDENCIES]
    checks += [(f"weights {path.name}", partial(_check_weights, path)) for path in weights_files()]
    for entry in available():
        if entry.spec is None:
            checks.append((f"plugin {entry.name}", partial(_fail, entry.problem)))
        else:
            checks.append((f"model {entry.name}", partial(_check_fit, entry.name, entry.spec.needs_training)))
    if compile_ahead:
        checks += [(f"compile {name}", partial(_check_compilation, name)) for name in _COMPILED]
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
    importlib.import_module(_IMPORT_NAMES.get(distribution, distribution))
    return _version(distribution) or "no version"


def _check_weights(path: Path) -> str:
    from safetensors.numpy import load_file

    tensors = load_file(path)
    facts = _weights_facts(path)
    return f"{len(tensors)} tensors, {facts['bytes']} bytes, sha256 {facts['sha256'][:16]}"


def _check_compilation(name: str) -> str:
    """Fit a pendulum, for which candidates of every kind are tried, with noise and without."""
    import numpy as np

    t = np.linspace(0.0, 12.0, 120)
    x = np.column_stack([np.cos(t), -np.sin(t)]) * np.exp(-0.05 * t)[:, None]
    noise = 0.02 * np.random.default_rng(0).standard_normal(x.shape)
    for observed in (x + noise, x):
        load(name).infer(Trajectories.from_arrays(observed, t))
    return "compiled, or found in the cache"


def _check_fit(name: str, trains: bool) -> str:
    """Fit a decay, of which the field is -x / 2, unless the model is one that trains."""
    import numpy as np

    from fim_dynsys.models.base import VectorFieldModel

    t = np.linspace(0.0, 4.0, 60)
    try:
        model = load(name)
    except FileNotFoundError as error:
        return f"needs weights: {error}"
    if trains:
        return "loaded; not fitted, for it trains for minutes"
    model.fit(2.0 * np.exp(-0.5 * t)[:, None], t)
    if not isinstance(model, VectorFieldModel):
        value = float(model.forecast(np.array([1.0]), np.array([0.0, 2.0])).x[0, -1, 0])
        return f"after 2 units of a decay: {value:.3f} (exact 0.368)"
    value = float(np.asarray(model.predict(np.array([[1.0]])))[0, 0])
    return f"dx/dt at 1 of a decay: {value:.3f} (exact -0.5)"


if __name__ == "__main__":
    sys.exit(main())
