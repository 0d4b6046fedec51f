"""``python -m benchmarks.nonlinear --data FILE.csv``: the cascaded tanks of nonlinearbenchmark.org.

A pump fills an upper tank, which drains into a lower one, whose level is measured every 4 s; both tanks can
overflow. Models see the input and the level of the estimation record, and simulate the validation record
from a start that the first `SEEN` samples of it determine. The score is the root mean square error of the
level in volts. FILE has the columns uEst, uVal, yEst and yVal. Nothing is chosen by the validation record.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

import fim_dynsys
from benchmarks import report, study
from benchmarks.harness.rows import ModelRow, Row
from benchmarks.harness.run import Job, attempt, cached_outcomes, joined
from benchmarks.harness.trials import array_digest
from fim_dynsys.models.base import VectorFieldModel

STEP = 4.0  # seconds between samples
SEEN = 40  # samples of the validation record from which its start is found
MODELS = ("fim-ode", "auto", "sindy-strong", "equations")
TANKS = {
    "upper": "-k1*sqrt(max(upper, 0)) + k4*(u0 - o) - k2*max(0, upper - h)",
    "x0": "k1*sqrt(max(upper, 0)) - k3*sqrt(max(x0 - s, 0)) + k5*max(0, upper - h) - k6*max(0, x0 - g)",
}
"""Torricelli's law in both tanks, which lose what is above a level; part of that falls into the lower one.

The pump begins to deliver at a voltage, and the sensor has one where the tank is empty: of the forms without
and with these, this one has the smallest BIC of the estimation record by far (30; 84 within narrower bounds,
602 with the pump's alone, 179 with the sensor's alone, 726 with neither).
"""
BOUNDS = dict.fromkeys(("k1", "k3", "k4", "k5"), (1e-3, 1.0)) | dict.fromkeys(("k2", "k6"), (1e-3, 10.0))
BOUNDS |= dict.fromkeys("gh", (4.0, 11.0)) | {"o": (-1.0, 3.0), "s": (-5.0, 3.0)}
"""Rates in 1/s (volts and square roots of them); rims in volts, in the upper part of what is measured."""
COLUMNS = ("uEst", "yEst", "uVal", "yVal")


@dataclass(frozen=True)
class Record:
    """The two records of one file."""

    source: str


def read(path: Path) -> np.ndarray:
    """Inputs and levels (n, 4) in the order of `COLUMNS`."""
    table = pd.read_csv(path)
    if missing := [name for name in COLUMNS if name not in table]:
        raise ValueError(f"{path}: expected columns {', '.join(COLUMNS)}, got none of {missing}.")
    return table[list(COLUMNS)].dropna().to_numpy(dtype=float)


def evaluate(row: Row, record: Record, values: np.ndarray) -> dict[str, Any]:
    """Fit the estimation record, simulate the validation record; an exception is an outcome like another."""
    assert isinstance(row, ModelRow)
    fitted = attempt(_fitted, row, values[:, :1], values[:, 1:2])
    scored = fitted.then(_errors, values)
    outcome = {"seconds": fitted.seconds, "status": scored.status, "message": scored.message}
    return outcome | (scored.value or {"rmse": np.inf, "trust": ""})


def _fitted(row: ModelRow, u: np.ndarray, y: np.ndarray) -> VectorFieldModel:
    t = STEP * np.arange(len(y))
    if row.model != "equations":
        return row.fit(y, t, u=u, order=2)
    known = {"expressions": TANKS, "bounds": BOUNDS, "initial": {"upper": (0.1, 12.0)}}
    model: Any = fim_dynsys.load(row.model, **dict(row.params), **known)
    return model.fit(y, t, u=u, observed=["x0"], hold="previous")


def _errors(model: VectorFieldModel, values: np.ndarray) -> dict[str, Any]:
    u, y, t = values[:, 2:3], values[:, 3], STEP * np.arange(len(values))
    level = list(model.field_.state_names).index("x0")
    rate = float(np.polyfit(t[:SEEN], y[:SEEN], 1)[0])

    def path(start: np.ndarray, n: int) -> np.ndarray:
        return np.asarray(model.simulate(start, t[:n], u=u[:n]))[..., level].ravel()

    def off(start: np.ndarray) -> np.ndarray:
        left = path(start, SEEN) - y[:SEEN]
        return np.where(np.isfinite(left), left, 1e3)

    guess = np.full(2, y[0])
    guess[1 - level] = rate if level == 0 else y[0]
    start = least_squares(off, guess, x_scale=np.maximum(np.abs(guess), 1e-3), max_nfev=50).x
    rmse = float(np.sqrt(np.mean((path(start, len(t)) - y) ** 2)))
    trust = model.field_.fit_info.trust
    return {"rmse": rmse if np.isfinite(rmse) else np.inf, "trust": "" if trust is None else trust.value}


def run(rows: Sequence[Row], options: study.Options) -> list[pd.DataFrame]:
    """Every row on the file."""
    values = read(options.data)
    job = Job(Record(options.data.name), array_digest(values), (Record(options.data.name), values))
    found = cached_outcomes(
        evaluate, rows, [job], options.out, "tanks", options.workers, options.fresh, progress=True
    )
    return [pd.DataFrame(joined(rows, [job], found)).drop(columns="message")]


def text(trials: pd.DataFrame) -> str:
    """The printed report."""
    lines = [["model", "RMSE, V", "trust", "CPU-s"]]
    lines += [[t.model, f"{t.rmse:.3f}", t.trust, f"{t.seconds:.1f}"] for t in trials.itertuples()]
    title = (
        "Cascaded tanks: error of the level of the validation record, in volts. Published (same records): "
    )
    title += "linear model .75, Gaussian process .45, grey box .18"
    return f"{title}\n{report.align(lines)}"


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, metavar="FILE", required=True, help="the table of records")


STUDY = study.Study("nonlinear", __doc__, MODELS, {"tanks": study.Part(run, text)}, options=_options)
main = partial(study.main, STUDY)

if __name__ == "__main__":
    sys.exit(main())
