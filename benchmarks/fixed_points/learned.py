"""Fixed points of fields inferred from one trajectory, against the true ones in one region per context."""

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

from benchmarks.harness.rows import Row, View
from benchmarks.harness.run import Job, attempt, cached_outcomes
from benchmarks.harness.trials import Problem, Trial, data_digest, observe
from benchmarks.odebench.facts import problems
from benchmarks.odebench.reference_rows import true_field
from fim_dynsys.analyze import FixedPoints, IndexCheck, Kind, PointStatus, fixed_points
from fim_dynsys.regions import Region

VERSION = "2"
SYSTEMS = 10
NOISE = (0.0, 0.05)
WIDENED = 0.1
# A fixed point stands for a true one if it is this near, in units of the region's size.
NEAR = 0.1
SUPPORTED = 0.5
_TRUTH_SEEDS = 512


@dataclass(frozen=True, eq=False)
class KnownRegion:
    """What is true in the region of one context.

    Attributes
    ----------
    problem : Problem
        The ODEBench system.
    ic : int
        Initial condition of the context, 1 or 2.
    region : Region
        Box of the clean trajectory, widened by 10 % on each side: the same for all models and noise draws.
    truth : FixedPoints
        Of the true field in that region.
    """

    problem: Problem
    ic: int
    region: Region
    truth: FixedPoints


@functools.cache
def known_regions() -> tuple[KnownRegion, ...]:
    """Return both contexts of ten planar systems.

    They are the first ten by id whose true fixed points, in the regions of both contexts, are all isolated,
    none of them degenerate, at least one, and complete by the index check. This reads the true equations.
    """
    chosen: list[KnownRegion] = []
    for problem in (p for p in problems() if p.dim == 2):
        both = [_known(problem, ic) for ic in (1, 2)]
        if all(_is_clear(known.truth) for known in both):
            chosen += both
        if len(chosen) == 2 * SYSTEMS:
            break
    return tuple(chosen)


def _known(problem: Problem, ic: int) -> KnownRegion:
    path = problem.references[ic - 1]
    region = Region(path.min(axis=0), path.max(axis=0)).widened(WIDENED)
    truth = fixed_points(true_field(problem), region, n_seeds=_TRUTH_SEEDS, slow=0.0)
    return KnownRegion(problem, ic, region, truth)


def _is_clear(truth: FixedPoints) -> bool:
    isolated = all(status is not PointStatus.NOT_ISOLATED for status in truth.status)
    regular = all(kind is not Kind.DEGENERATE for kind in truth.kind)
    return len(truth) > 0 and isolated and regular and truth.index_check is IndexCheck.BALANCED


# ---------------------------------------------------------------------- one trial


def evaluate(row: Row, known: KnownRegion, trial: Trial) -> dict[str, Any]:
    """Infer from the noisy context, search the region, and match what is found with the truth.

    An exception of the model is an outcome like another: nothing is found, and the status is its class.
    """
    view = View.of(row, observe(known.problem, trial), known.problem, trial)
    inferred = attempt(row.infer, view)
    searched = inferred.then(fixed_points, known.region)
    found = searched.value
    return {
        "status": searched.status,
        "message": searched.message,
        "infer_seconds": inferred.seconds if inferred.succeeded else None,
        "search_seconds": searched.seconds if searched.succeeded else None,
        "index_check": "" if found is None else str(found.index_check),
        "slow": 0 if found is None else int((~found.is_root).sum()),
        "points": matched(known, found),
    }


def matched(known: KnownRegion, found: FixedPoints | None) -> list[dict[str, Any]]:
    """Pair true with found zeros at least total distance; one dict per pair, and per zero without partner."""
    chosen = np.flatnonzero(found.is_root) if found is not None else np.empty(0, dtype=int)
    x = found.x[chosen] if found is not None else np.empty((0, known.region.dim))
    distance = np.linalg.norm((known.truth.x[:, None] - x) / known.region.size, axis=2)
    # What is too far costs the same however far it is, so that near pairs are never given up for it.
    pairs = zip(*linear_sum_assignment(np.minimum(distance, NEAR * (1 + 1e-9))), strict=True)
    partner = {int(i): int(j) for i, j in pairs if distance[i, j] <= NEAR}
    lines = []
    for i, kind in enumerate(known.truth.kind):
        line = {"true": known.truth.x[i].tolist(), "true_kind": str(kind)}
        if i in partner:
            line |= {
                "error": round(float(distance[i, partner[i]]), 12),
                **_described(found, chosen[partner[i]]),
            }
        lines.append(line)
    extra = [j for j in range(len(x)) if j not in partner.values()]
    return lines + [_described(found, chosen[j]) for j in extra]


def _described(found: FixedPoints, j: int) -> dict[str, Any]:
    return {
        "found": found.x[j].tolist(),
        "found_kind": str(found.kind[j]),
        "support": float(found.support[j]),
        "residual": float(found.residual[j]),
    }


# ---------------------------------------------------------------------- the run


def trials(chosen: Sequence[KnownRegion], seeds: Sequence[int]) -> list[tuple[KnownRegion, Trial]]:
    """Return the trials; without noise there is one draw only."""
    return [
        (known, Trial(known.problem.system, known.ic, sigma, 0.0, seed, "paper"))
        for sigma in NOISE
        for seed in (seeds if sigma else seeds[:1])
        for known in chosen
    ]


def run(
    rows: Sequence[Row],
    chosen: Sequence[KnownRegion],
    seeds: Sequence[int],
    folder: Path,
    workers: int = 1,
    fresh: bool = False,
    progress: bool = False,
) -> list[dict[str, Any]]:
    """Return one record per trial and row; outcomes that `folder` holds are not computed again."""
    planned = trials(chosen, seeds)
    jobs = [Job(trial, _digest(known), (known, trial)) for known, trial in planned]
    settings = f"fixed points {VERSION}, near {NEAR}"
    outcomes = cached_outcomes(evaluate, rows, jobs, folder, settings, workers, fresh, progress)
    return [
        {name: getattr(trial, name) for name in LABELS[:4]}
        | {"model": row.name, "version": row.version}
        | outcome
        for (_, trial), of_rows in zip(planned, outcomes, strict=True)
        for row, outcome in zip(rows, of_rows, strict=True)
    ]


def _digest(known: KnownRegion) -> str:
    box = np.concatenate([known.region.low, known.region.high, known.truth.x.ravel().round(9)])
    return data_digest(known.problem) + hashlib.sha256(box.tobytes()).hexdigest()[:8]


LABELS = ("system", "ic", "sigma", "seed", "model", "version")


def trial_table(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return one line per trial: counts of true, found and matched zeros, and how good the matches are."""
    lines = []
    for record in records:
        points = record["points"]
        both = [p for p in points if "error" in p]
        found = [p for p in points if "found" in p]
        errors = [p["error"] for p in both]
        lines.append(
            {name: record[name] for name in LABELS}
            | {
                "true": sum("true" in p for p in points),
                "found": len(found),
                "matched": len(both),
                "found_supported": sum(p["support"] >= SUPPORTED for p in found),
                "matched_supported": sum(p["support"] >= SUPPORTED for p in both),
                "kind_right": sum(p["true_kind"] == p["found_kind"] for p in both),
                "kind_open": sum(p["found_kind"] == str(Kind.INDETERMINATE) for p in both),
                "error_median": float(np.median(errors)) if errors else float("nan"),
                "slow": record["slow"],
                "index_check": record["index_check"],
                "status": record["status"],
                "infer_seconds": record["infer_seconds"],
                "search_seconds": record["search_seconds"],
                "message": record["message"],
            }
        )
    return pd.DataFrame(lines)


def point_table(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return one line per true or found zero; what has no partner has empty cells."""
    described = ("true_kind", "found_kind", "error", "support", "residual")
    lines = []
    for record in records:
        for point in record["points"]:
            line = {name: record[name] for name in LABELS}
            for name in ("true", "found"):
                line |= {f"{name}_{i}": value for i, value in enumerate(point.get(name, []))}
            lines.append(line | {name: point.get(name) for name in described})
    return pd.DataFrame(lines)


def summarise(table: pd.DataFrame, points: pd.DataFrame, commit: str = "") -> pd.DataFrame:
    """Return one line per noise level and model, and one for each true kind; zeros of all trials pooled."""
    lines = []
    for (sigma, model, version), part in table.groupby(["sigma", "model", "version"], sort=False):
        own = points[(points["sigma"] == sigma) & (points["model"] == model) & (points["version"] == version)]
        total = part[["true", "found", "matched", "found_supported", "matched_supported"]].sum()
        label = {"sigma": sigma, "model": model, "version": version, "commit": commit}
        whole = {
            "true_kind": "all",
            "trials": len(part),
            "precision": _share(total["matched"], total["found"]),
            "precision_supported": _share(total["matched_supported"], total["found_supported"]),
            "failures": int((part["status"] != "SUCCESS").sum()),
            "mismatches": int((part["index_check"] == str(IndexCheck.MISMATCH)).sum()),
            "search_seconds_max": part["search_seconds"].max(),
        }
        lines.append(label | whole | _of_points(own))
        for kind, of_kind in own[own["true_kind"].notna()].groupby("true_kind"):
            lines.append(label | {"true_kind": kind, "trials": len(part)} | _of_points(of_kind))
    return pd.DataFrame(lines)


def _of_points(points: pd.DataFrame) -> dict[str, Any]:
    true = points[points["true_kind"].notna()]
    both = true[true["error"].notna()]
    return {
        "true": len(true),
        "recall": _share(len(both), len(true)),
        "kind_right": _share(int((both["true_kind"] == both["found_kind"]).sum()), len(both)),
        "kind_open": _share(int((both["found_kind"] == str(Kind.INDETERMINATE)).sum()), len(both)),
        "error_median": both["error"].median(),
        "error_q90": both["error"].quantile(0.9),
    }


def _share(part: int, whole: int) -> float:
    return float(part / whole) if whole else float("nan")
