"""The command `fit`: from a file to equations, their errors, how well they fit and how far they predict."""

import argparse
import contextlib
import hashlib
import inspect
import io
import json as as_json
import re
import sys
import tomllib
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fim_dynsys.commands import installation, reading
from fim_dynsys.errors import DataWarning, FimDynsysWarning, warn
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.estimated import EstimatedModel
from fim_dynsys.models.parameters import separate
from fim_dynsys.registry import load
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.writing import replace_file

HEADER = "model.json"  # what model.save writes last
RECORD = "fit.json"  # how a fitted model came about, beside what model.save writes
MODEL = "model sha256"  # key of the record: of the model.json that it is about
_FORECAST = "forecast.csv"
_TABLES = ("start", "bounds", "fixed", "initial", "noise")  # of a file of equations, beside [equations]
_MODEL = "auto"
_HELD_OUT = 0.2  # share of each trajectory that the forecast is judged by
_FEWEST = 6  # samples of a trajectory of which a part can be held out
_ROWS = 240  # of forecast.csv
_SHOWN = 6  # of these on the screen
_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "week": 604_800.0}  # in seconds
_BAND = 0.9  # probability of the band that is printed and written


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `fit`."""
    reading.add_arguments(parser)
    model = parser.add_argument_group("model")
    model.add_argument("--model", metavar="NAME", help="name that `fim-dynsys available` lists; default auto")
    model.add_argument(
        "--order", type=int, choices=(1, 2), default=1, help="2 for positions without velocities"
    )
    model.add_argument("--nonnegative", nargs="+", metavar="STATE", help="states that cannot become negative")
    model.add_argument(
        "--log", nargs="+", metavar="STATE", help="positive states over decades, with relative errors"
    )
    model.add_argument(
        "--conserved", nargs="+", metavar="EXPRESSION", help='conserved quantities, as "s + i + r"'
    )
    model.add_argument(
        "--equations",
        type=Path,
        metavar="FILE",
        help="TOML file with given equations, whose parameters are fitted",
    )
    results = parser.add_argument_group("results")
    results.add_argument(
        "--out", type=Path, metavar="FOLDER", help="folder for the fitted model; default none is written"
    )
    results.add_argument("--report", type=Path, metavar="FILE", help="HTML page about the fit")
    results.add_argument(
        "--forecast",
        type=_length,
        metavar="TIME",
        help="length of a forecast after the last sample, in the unit of the time, or as 10min, 3h, 30d",
    )
    results.add_argument(
        "--held-out",
        type=float,
        default=_HELD_OUT,
        metavar="SHARE",
        help="last part of each trajectory by which a second fit is judged; default 0.2, 0 for none",
    )
    results.add_argument("--json", action="store_true", help="machine-readable output")


def fit(
    data: str,
    model: str | None,
    order: int,
    nonnegative: list[str] | None,
    log: list[str] | None,
    conserved: list[str] | None,
    equations: Path | None,
    out: Path | None,
    report: Path | None,
    forecast: tuple[float, str] | None,
    held_out: float,
    json: bool,
    quiet: bool,
    command: str,
    **options: Any,
) -> int:
    """Fit a model to a file: equations with errors, fit quality, a held-out forecast score.

    Examples: fim-dynsys fit data.csv --out fitted
    fim-dynsys fit tank.csv --step 4 --inputs u --out fitted --report page.html
    fim-dynsys fit pendulum.xlsx --time "t [s]" --order 2 --forecast 10
    """
    if not 0.0 <= held_out < 1.0:
        raise ValueError(f"expected --held-out from 0 to below 1, got {held_out:g}")
    if forecast is not None and not (np.isfinite(forecast[0]) and forecast[0] > 0):
        raise ValueError(f"expected --forecast as a positive time, got {forecast[0]:g}")
    for option, path in (("--out", out), ("--report", report)):
        if path is not None:
            reading.check_target(option, path, is_folder=option == "--out")
    made = _model(model, equations, order, nonnegative, conserved)
    trajectories = reading.read(data, reading.taken(options))
    if forecast is not None and trajectories.input_names:
        raise ValueError(
            "expected a model without inputs for --forecast, because later inputs are not known; "
            "use simulate in Python"
        )
    horizon = None if forecast is None else _horizon(*forecast, trajectories)
    account = reading.in_options(reading.account(trajectories, data))
    if equations is not None:
        trajectories, said = _of_equations(trajectories, given_equations(equations)["expressions"], equations)
        account += said
    if not quiet and not json:
        print(account, file=sys.stderr)
    how: dict[str, Any] = ({"order": order} if order != 1 else {}) | ({"log": log} if log else {})
    fitted = made.fit(trajectories, **how)
    facts: dict[str, Any] = {
        "read": [line.strip() for line in account.splitlines()],
        "model": f"{fitted.name} {fitted.version}",
    }
    facts |= {"equations": _equations(fitted), "fit": _quality(fitted)}
    if isinstance(fitted, EstimatedModel):
        facts["parameters"] = _parameters(fitted)
    else:
        facts["coefficients"] = _coefficients(fitted)
    if not json:
        written = io.StringIO()
        with contextlib.redirect_stdout(written):
            fitted.print(errors=True)
        print(reading.in_options(written.getvalue()), end="")
    if out is not None:
        folder = save(fitted, data, out, command, account)
        facts["folder"] = str(folder)
        if not quiet and not json:
            print(f"saved in {folder}", file=sys.stderr)
    if report is not None:
        from fim_dynsys.report import write_report  # loads matplotlib

        write_report(
            fitted,
            report,
            provenance=_record(fitted, data, command, account) | {"packages": installation.versions()},
        )
        if not quiet and not json:
            print(f"{report} written", file=sys.stderr)
    # What may fail comes after what is kept.
    facts["held out"] = _judged(made, trajectories, how, held_out)
    if not json:
        print(_held_out_line(facts["held out"]))
    if horizon is not None:
        facts["forecast"] = _ahead(fitted, horizon, out, json)
    if json:
        print(as_json.dumps(facts, indent=2))
    return 0


def _length(text: str) -> tuple[float, str]:
    """``10`` or ``10min`` as a number and a unit."""
    found = re.fullmatch(r"\s*(\S*?)\s*([a-z]*)\s*", text)
    try:
        return float(found[1] if found else text), found[2] if found else ""
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a time, as 10 or 10min, got {text!r}") from None


def _horizon(length: float, unit: str, data: Trajectories) -> float:
    """The length of a forecast in the unit of the data; one within a step of the record is warned of."""
    of_data = data.units.get("t", "")
    if unit and unit != of_data:
        if of_data not in _UNITS:
            of_data = of_data or "not known; --units t=s gives it"
            raise ValueError(
                f"expected --forecast without a unit, got {unit}; that of the times is {of_data}"
            )
        if unit not in _UNITS:
            raise ValueError(f"expected --forecast in a unit among {', '.join(_UNITS)}, got {unit}")
        length *= _UNITS[unit] / _UNITS[of_data]
    step = float(np.median(np.concatenate([np.diff(t) for t, _ in data.arrays()])))
    if length < step:
        warn(
            f"--forecast ends within one step of the record: {length:g} of {step:g} {of_data}".rstrip(),
            DataWarning,
        )
    return length


def _model(
    name: str | None,
    equations: Path | None,
    order: int,
    nonnegative: list[str] | None,
    conserved: list[str] | None,
) -> VectorFieldModel:
    """The model that is asked for, with prior knowledge."""
    if equations is not None:
        given = {
            "--model": name,
            "--order": order != 1,
            "--nonnegative": nonnegative,
            "--conserved": conserved,
        }
        both = [option for option, value in given.items() if value]
        if both:
            raise ValueError(
                f"expected --equations without {', '.join(both)}, which {'is' if len(both) == 1 else 'are'} "
                "for unknown equations"
            )
        return load("equations", **given_equations(equations))
    name = _MODEL if name is None else name
    if not (nonnegative or conserved):
        return load(name)
    if "knowledge" not in inspect.signature(type(load(name))).parameters:
        raise ValueError(
            "expected --model auto, fim-ode, sindy-strong or symbolic with --nonnegative and --conserved, "
            f"got {name}"
        )
    return load(name, knowledge=Knowledge(nonnegative=nonnegative or [], conserved=conserved or []))


def given_equations(path: Path) -> dict[str, Any]:
    """Arguments of a model with given equations, from a TOML file.

    The file has a table ``[equations]`` of right-hand sides by state, and may have tables ``[start]``,
    ``[bounds]``, ``[fixed]``, ``[initial]`` and ``[noise]``: what the model takes under these names.

    Raises
    ------
    ValueError
        If the file is no such file.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"expected a TOML file of equations, got {path}: {error}") from error
    unknown = sorted(set(content) - {"equations", *_TABLES})
    sides = content.get("equations")
    if unknown or not isinstance(sides, dict) or not all(isinstance(side, str) for side in sides.values()):
        raise ValueError(
            f'expected {path} to hold a table [equations] with lines like x = "a*x - b*x*y", and tables '
            f"among {', '.join(_TABLES)}, got {', '.join(unknown) or 'no such table'}"
        )
    return {"expressions": sides} | {name: content[name] for name in _TABLES if name in content}


def _of_equations(data: Trajectories, sides: dict[str, str], path: Path) -> tuple[Trajectories, str]:
    """The columns that equations have as states, and a line of the account about others."""
    others = [name for name in data.state_names if name not in sides]
    used = [
        name
        for name in others
        if any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", side) for side in sides.values())
    ]
    if used:
        raise ValueError(
            f"expected an equation in {path} for each column that it uses, got none for {', '.join(used)}; "
            f"give --inputs {' '.join(used)} if that drives the system"
        )
    kept = [name for name in data.state_names if name in sides]
    if not kept:
        raise ValueError(
            f"expected columns called as the states of {path}, {', '.join(sides)}, got "
            f"{', '.join(data.state_names)}; rename the states there"
        )
    if not others:
        return data, ""
    return data.select_states(kept), f"\n  left out, without an equation: {', '.join(others)}"


# ---------------------------------------------------------------------- what came of it


def _context(fitted: VectorFieldModel) -> Trajectories:
    """What a forecast goes on from: with hidden states as they were fitted."""
    whole = fitted.field_.context
    return fitted.context_ if fitted.context_.dim == fitted.field_.dim or whole is None else whole


def _equations(fitted: VectorFieldModel) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FimDynsysWarning)  # given when they were printed
        return [
            f"{name}' = {side}" for name, side in zip(fitted.feature_names, fitted.equations(), strict=True)
        ]


def _coefficients(fitted: VectorFieldModel) -> list[dict[str, Any]]:
    """State, term, coefficient and standard error, null where it is not known, of each term."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FimDynsysWarning)  # given when the equations were printed
        table = fitted._symbolic_field().to_dataframe()
    columns = ["state", "term", "coefficient", "standard_error"]
    return [
        {
            name: (value if np.isfinite(value) else None) if isinstance(value, float) else value
            for name, value in row.items()
        }
        for row in table[columns].to_dict("records")
    ]


def _quality(fitted: VectorFieldModel) -> dict[str, Any]:
    info = fitted.field_.fit_info
    return {
        "path_r2": info.path_r2,
        "window_r2": info.window_r2,
        "residual_over_noise": info.residual_over_noise,
        "follows": info.follows,
        "follows_for": info.follows_for,
        "trust": None if info.trust is None else info.trust.value,
        "problems": list(info.problems),
    }


def _judged(
    made: VectorFieldModel, data: Trajectories, how: dict[str, Any], share: float
) -> dict[str, Any] | None:
    """Forecast of the last part of each trajectory by a second fit, which has not seen it."""
    n_last = [int(share * n) for n in data.n_obs]
    if share == 0.0 or min(data.n_obs) < _FEWEST or min(n_last) == 0:
        return None
    early = data.select_samples([np.arange(n - last) for n, last in zip(data.n_obs, n_last, strict=True)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FimDynsysWarning)  # those of the fit to all were given
        try:
            copy = separate(made)
            copy.fit(early, **how)
            if isinstance(copy.field_, DrivenField):
                late = data.select_samples(
                    [np.arange(n - last, n) for n, last in zip(data.n_obs, n_last, strict=True)]
                )
                r2 = float(copy.score(late, metric="path"))
                return {"share": share, "r2": r2, "from": "its first sample"}
            return {"share": share} | _compared(copy, data, n_last)
        except ValueError as error:  # such as of hidden states, from which no path can start
            return {"share": share, "failed": " ".join(str(error).split())}


def _compared(model: VectorFieldModel, data: Trajectories, n_last: list[int]) -> dict[str, Any]:
    """Medians and bands of a forecast beside what was measured."""
    spread = np.nanstd(np.concatenate([x for _, x in data.arrays()]), axis=0)
    spread = np.where(spread > 0.0, spread, 1.0)  # a constant column is forecast as it is
    errors, inside, total = [], 0, 0
    for k in range(len(n_last)):
        t, x = data.arrays()[k]
        seen = _context(model)[k]
        end = seen.arrays()[0][0][-1]
        later = t > end
        ahead = model.forecast(seen, t[later] - end, bands=(_BAND,), observed=True, progress=False)
        # Velocities may have been added to positions, and hidden states to those that were measured.
        measured = [model.feature_names.index(name) for name in data.state_names]
        median, truth = ahead["median"].values[0][:, measured], x[later]
        low, high = (ahead[side].values[0, 0][:, measured] for side in ("low", "high"))
        errors.append(((median - truth) / spread).ravel())
        known = np.isfinite(truth)
        inside += int(((low <= truth) & (truth <= high))[known].sum())
        total += int(known.sum())
    missed = np.concatenate(errors)
    missed = missed[
        np.isfinite(
            np.concatenate([x[-last:].ravel() for (_, x), last in zip(data.arrays(), n_last, strict=True)])
        )
    ]
    error = float(np.sqrt(np.mean(missed**2)))
    return {
        "error": error if np.isfinite(error) else None,
        "inside": inside / total if total else None,
        "band": _BAND,
    }


def _held_out_line(facts: dict[str, Any] | None) -> str:
    if facts is None:
        return "(no part was held out)"
    part = f"last {100 * facts['share']:.0f} % held out"
    if "failed" in facts:
        return f"({part}: not judged: {facts['failed']})"
    if "r2" in facts:
        return f"({part}: path R2 {facts['r2']:.3g} from {facts['from']})"
    if facts["error"] is None:
        return f"({part}: the forecast did not get through it)"
    return (
        f"({part}: forecast error {facts['error']:.2g} standard deviations; "
        f"{100 * facts['inside']:.0f} % inside the {100 * facts['band']:.0f} % band)"
    )


def _parameters(fitted: EstimatedModel) -> dict[str, dict[str, float | None]]:
    """Estimated numbers, first states too; no error where there is none."""
    errors = fitted.parameter_errors_
    return {
        name: {"value": value, "standard_error": errors[name] if np.isfinite(errors[name]) else None}
        for name, value in fitted.parameters_.items()
    }


def _ahead(
    fitted: VectorFieldModel, horizon: float, out: Path | None, silent: bool
) -> list[dict[str, float]]:
    """Forecast beyond the last samples; a table on the screen, and a file beside the model."""
    known = _context(fitted)
    ahead = fitted.forecast(known, np.linspace(0.0, horizon, _ROWS + 1)[1:], bands=(_BAND,))
    rows = []
    for k in range(len(known)):
        for j in range(_ROWS):
            row: dict[str, float] = {"trajectory": k, "t": float(ahead["t"].values[k, j])}
            for i, name in enumerate(fitted.feature_names):
                row[name] = float(ahead["median"].values[k, j, i])
                row[f"{name} low"] = float(ahead["low"].values[0, k, j, i])
                row[f"{name} high"] = float(ahead["high"].values[0, k, j, i])
            rows.append(row)
    frame = pd.DataFrame(rows)
    if out is not None:
        out.mkdir(exist_ok=True)
        replace_file(out / _FORECAST, frame.to_csv(index=False, lineterminator="\n"))
    last = np.linspace(0, _ROWS, _SHOWN + 1).round()[1:].astype(int)  # the horizon is among them
    shown = frame[(frame.index % _ROWS + 1).isin(last)]
    if not silent:
        print(
            f"\nforecast, with {100 * _BAND:.0f} % bands"
            + (f", t in {unit}" if (unit := known.units.get("t")) else "")
            + (f" (all in {out / _FORECAST})" if out is not None else "")
        )
        times = {"t": lambda value: f"{value:.6g}"}
        print(shown.to_string(index=False, formatters=times, float_format=lambda value: f"{value:.4g}"))
    return rows


# ---------------------------------------------------------------------- the folder


def save(fitted: VectorFieldModel, data: str, out: Path, command: str, account: str) -> Path:
    """Save a fitted model, and beside it how it came about."""
    folder = fitted.save(out)
    record = _record(fitted, data, command, account)
    record |= {"packages": installation.versions(), MODEL: sha256(folder / HEADER)}
    replace_file(folder / RECORD, as_json.dumps(record, indent=2) + "\n")
    return folder


def _record(fitted: VectorFieldModel, data: str, command: str, account: str) -> dict[str, Any]:
    return {
        "fitted": now(),
        "command": command,
        "data": Path(data).name,
        "how it was read": "; ".join(line.strip() for line in account.splitlines()),
        "model at the fit": f"{fitted.name}, version {fitted.version}",
        "data sha256": sha256(Path(data)) if data != "-" else None,
    }


def sha256(path: Path) -> str:
    """Digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def now() -> str:
    """Time of day and date, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
