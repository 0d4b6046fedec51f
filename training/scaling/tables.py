"""Tables of the scaling study: read, written, and what comes of them: end points and power laws."""

import csv
from collections.abc import Iterable
from pathlib import Path

import numpy as np

AHEAD = (180.0, 720.0)  # minutes to extrapolate to


def end_points(rows: Iterable[dict]) -> dict[tuple[str, str], dict[float, tuple[float, float]]]:
    """Mean relative error off the path, and generalisation, per (design, use) and minutes.

    The error is the geometric mean of the medians of all sources and settings, all dimensions taken together
    in each; seeds are averaged in the same way.
    """
    found: dict[tuple[str, str], dict[float, list[tuple[float, float]]]] = {}
    for row in rows:
        if row["dim"] == "all":
            of_design = found.setdefault((row["design"], row["use"]), {})
            values = float(row["error other"]), float(row["generalisation"])
            of_design.setdefault(float(row["minutes"]), []).append(values)
    return {
        key: {
            minutes: (float(np.exp(np.mean(np.log([e for e, _ in v])))), float(np.mean([g for _, g in v])))
            for minutes, v in sorted(points.items())
        }
        for key, points in found.items()
    }


def extrapolation(points: dict[tuple[str, str], dict[float, tuple[float, float]]]) -> list[dict]:
    """Power law error = a minutes^-b through the end points of each design, and where it leads."""
    rows = []
    for (design, use), of_design in points.items():
        if len(of_design) < 2:
            continue
        minutes, errors = np.log(list(of_design)), np.log([error for error, _ in of_design.values()])
        slope, level = np.polyfit(minutes, errors, 1)
        residual = float(np.abs(errors - level - slope * minutes).max())
        row = {"design": design, "use": use, "points": len(of_design), "exponent": -slope, "misfit": residual}
        row |= {f"error at {m:g} min": float(np.exp(level + slope * np.log(m))) for m in AHEAD}
        rows.append({key: short(value) for key, value in row.items()})
    return rows


def short(value: object) -> object:
    """Numbers with four digits, all else as it is."""
    return f"{value:.4g}" if isinstance(value, float) else value


def read_rows(path: Path) -> list[dict[str, str]]:
    """Rows of a table; none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_rows(path: Path, rows: list[dict]) -> None:
    """Write rows aside and rename."""
    aside = path.with_suffix(".tmp")
    with aside.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    aside.rename(path)
