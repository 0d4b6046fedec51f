"""Error bars of fixed points: do stated intervals of positions and eigenvalues hold the true field's?"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

from benchmarks import report
from benchmarks.calibration.bands import FittedRow
from benchmarks.calibration.records import about, records
from benchmarks.development import problems as development
from benchmarks.harness.rows import Row
from benchmarks.harness.run import Outcome, attempt
from benchmarks.harness.trials import Problem, Trial, observe
from fim_dynsys.analyze import FixedPoints, Kind, PointStatus, fixed_points
from fim_dynsys.analyze.matching import assigned
from fim_dynsys.analyze.results import SUPPORTED, WIDENED
from fim_dynsys.fields.base import VectorField

SETTINGS = ((0.03, 0.0),)
LEVEL = 0.9
MEMBERS = 64  # where the field has no posterior of its own: of the model's ensemble
# A true zero further from all that were found, as a share of the region's size, has not been found.
_FARTHEST = 0.25
_NOT_FOUND = "missed"
QUANTITIES = ("position", "eigenvalue")


def evaluate(
    row: FittedRow, problem: Problem, trial: Trial, truth: Callable[[Problem], VectorField]
) -> dict[str, Any]:
    """The true field's fixed points in the box of the data, and what was found and stated of each.

    Returns
    -------
    dict
        ``status``, ``message``, CPU ``seconds``, and ``points``: for each true one a dict of what `_compared`
        returns.
    """
    tried = attempt(_points, row, problem, trial, truth)
    points = [] if tried.value is None else tried.value
    return {"status": tried.status, "message": tried.message, "points": points, "seconds": tried.seconds}


def _points(
    row: FittedRow, problem: Problem, trial: Trial, truth: Callable[[Problem], VectorField]
) -> list[dict[str, Any]]:
    context = observe(problem, trial)
    model = row.fit(context)
    region = context.box().widened(WIDENED)
    own = model.field_.draws(1) is not None
    found = fixed_points(model, region, **({} if own else {"n_draws": model.ensemble(MEMBERS)}))
    true = fixed_points(truth(problem), region)
    keep = [i for i, s in enumerate(true.status) if s in (PointStatus.ISOLATED, PointStatus.ON_EDGE)]
    candidates = np.flatnonzero(found.is_root)
    pairs = dict(assigned(true.x[keep] / region.size, found.x[candidates] / region.size, _FARTHEST))
    return [
        _compared(true, k, found, candidates[pairs[i]]) if i in pairs else {"kind": str(true.kind[k])}
        for i, k in enumerate(keep)
    ]


def _compared(true: FixedPoints, k: int, found: FixedPoints, i: int) -> dict[str, Any]:
    """One true point against the one found: rows of truth, estimate and half width, and the kinds.

    Real and imaginary parts of eigenvalues count alike; an imaginary part that is zero in truth and in the
    estimate says nothing and is left out.
    """
    positions, eigenvalues = found.margins(LEVEL)
    estimate = found.eigenvalues[i]
    order = linear_sum_assignment(np.abs(estimate[:, None] - true.eigenvalues[k]))[1]
    values = (true.eigenvalues[k][order], estimate, eigenvalues[i])
    parts = np.hstack([[part(value) for value in values] for part in (np.real, np.imag)])
    assert found.draws is not None and found.existence is not None  # `_points` gives some
    return {
        "kind": str(true.kind[k]),
        "stated": str(found.kind[i]),
        "shares": {str(kind): share for kind, share in found.draws.kind_shares[i].items()},
        "existence": float(found.existence[i]),
        "support": float(found.support[i]),
        "position": [true.x[k].tolist(), found.x[i].tolist(), positions[i].tolist()],
        "eigenvalue": parts[:, (parts[:2] != 0).any(axis=0)].tolist(),
    }


def run(
    rows: Sequence[Row],
    seeds: Sequence[int],
    limit: int | None,
    folder: Path,
    workers: int = 1,
    fresh: bool = False,
    progress: bool = False,
) -> pd.DataFrame:
    """Return one record per trial, row and true fixed point; outcomes that `folder` holds are known."""
    how = (folder, workers, fresh, progress)
    problems, truth = development.problems()[:limit], development.true_field
    return pd.DataFrame(
        records(evaluate, problems, SETTINGS, seeds, rows, "points", about, _lines, *how, truth)
    )


def _lines(outcome: Outcome) -> list[dict[str, Any]]:
    return [_scored(point) for point in outcome["points"]]


def _scored(point: dict[str, Any]) -> dict[str, Any]:
    """How much of each interval's share of a true point was held, and what was said of its kind."""
    line = {"kind": point["kind"], "stated": point.get("stated", _NOT_FOUND)}
    if "stated" not in point:
        return line
    line |= {name: point[name] for name in ("existence", "support")}
    for quantity in QUANTITIES:
        truth, estimate, half = np.array(point[quantity])
        error = np.abs(truth - estimate)
        line[f"{quantity}_n"] = len(error)
        line[f"{quantity}_held"] = int((error <= half).sum())
        line[f"{quantity}_ratio"] = float(np.max(error / np.maximum(half, np.finfo(float).tiny)))
    shares = sorted(point["shares"].items(), key=lambda item: -item[1])
    enough = int(np.searchsorted(np.cumsum([share for _, share in shares]), LEVEL - 1e-9)) + 1
    line["kind_set"] = enough
    line["kind_held"] = point["kind"] in [kind for kind, _ in shares[:enough]]
    line["share_of_true_kind"] = point["shares"].get(point["kind"], 0.0)
    return line


def summarise(trials: pd.DataFrame, commit: str = "") -> pd.DataFrame:
    """Return coverages by model, for systems that cubic polynomials express, the others, and all."""
    lines = []
    trials = trials.assign(backed=trials["support"] >= SUPPORTED)
    groups = {
        "all": trials,
        "expressible": trials[trials["expressible"]],
        "not expressible": trials[~trials["expressible"]],
        "expressible, data nearby": trials[trials["expressible"] & trials["backed"]],
        "not expressible, data nearby": trials[~trials["expressible"] & trials["backed"]],
    }
    for group, part in groups.items():
        for (model, version), own in part.groupby(["model", "version"], sort=False):
            found = own[own["stated"] != _NOT_FOUND]
            line: dict[str, Any] = {"model": model, "version": version, "group": group}
            line |= {"contexts": len(own.drop_duplicates(["system", "ic", "seed"])), "points": len(own)}
            line["found"] = len(found)
            for quantity in QUANTITIES:
                line[quantity] = found[f"{quantity}_held"].sum() / found[f"{quantity}_n"].sum()
            line["kind"] = found["kind_held"].mean()
            decided = found[found["stated"] != str(Kind.INDETERMINATE)]
            line["decided"] = len(decided) / max(1, len(found))
            line["decided_right"] = (decided["stated"] == decided["kind"]).mean()
            lines.append({**line, "commit": commit})
    return pd.DataFrame(lines)


def format_table(summary: pd.DataFrame) -> str:
    """Return the printed report."""
    head = ["systems", "model", "contexts", "points", "found", "position", "eigenvalues", "kind", "decided"]
    rows = [[*head, "of these right"]]
    for _, line in summary.iterrows():
        counts = [str(line[name]) for name in ("contexts", "points", "found")]
        shares = [f"{100 * line[name]:.1f}" for name in (*QUANTITIES, "kind", "decided", "decided_right")]
        rows.append([line["group"], line["model"], *counts, *shares])
    return (
        "Fixed points of the development split, noise 0.03: percent of the true values that 90 % intervals "
        "hold\n" + report.align(rows) + "\n\n"
        "Expressible: polynomials of total degree <= 3. Data nearby: support at least 0.5 there. "
        "Kind: the fewest kinds with 90 % of the draws hold the true one. Decided: not indeterminate."
    )
