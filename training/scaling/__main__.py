"""Accuracy against compute: python -m training.scaling [--study NAME] [--designs NAME ...] [--list].

Every design of designs.toml is trained for each number of CPU-minutes and scored on held-out systems of the
priors and on the development split; `--study priors` trains one design on the mixtures of priors.toml
instead, and writes into a folder of its own. Trainings resume, rows that exist are not made again, and each
row is written as soon as it is there: accuracy.csv per source, dimension and setting; curves.csv the losses
on the way; extrapolation.csv the power law through the end points, where a design has at least two.
"""

import argparse
import csv
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import fim_dynsys
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.fim_ode.weights import SELECTOR, read_part, shipped, weights_version, write_part
from training.evaluate import KnownSystem, development_systems, evaluate, held_out_systems, summarise
from training.preset import read_preset
from training.pretrain import pretrain
from training.systems.priors import exists

FOLDER = Path(__file__).parent
STUDIES = ("designs", "priors")
HELD_OUT_PRIORS = ("paper", "sparse")
N_HELD_OUT = 60  # systems per prior and dimension
POOL = {1: 3000, 2: 6000, 3: 6000}  # systems of each dimension where a design names its priors
AHEAD = (180.0, 720.0)  # minutes to extrapolate to
SCORES = (
    "source",
    "dim",
    "sigma",
    "rho",
    "trials",
    "reconstruction",
    "generalisation",
    "error own",
    "error other",
)
CURVE = ("step", "presentations", "seconds", "loss", "plain", "validation loss", "validation plain")


@dataclass(frozen=True)
class Run:
    """One training: a design, its preset, minutes of one core, and the ways its weights are used.

    Where `priors` names shares of the systems to learn from, they replace the preset's; `observation`, a
    name in `training.systems.corruption.OBSERVERS`, what is seen of them.
    """

    design: str
    preset: str
    minutes: float
    seed: int
    uses: dict[str, dict]
    priors: dict[str, float] = field(default_factory=dict)
    observation: str = ""

    @property
    def changes(self) -> dict:
        """What replaces values of the preset."""
        changes = {"minutes": self.minutes, "steps": 0, "clock": "cpu", "seed": self.seed}
        if self.priors:
            changes["pools"] = [
                [prior, dim, round(share * n)] for dim, n in POOL.items() for prior, share in self._of(dim)
            ]
        if self.observation:
            changes["observation"] = {"like": self.observation}
        return changes

    def _of(self, dim: int) -> list[tuple[str, float]]:
        kept = {name: share for name, share in self.priors.items() if exists(name, dim)}
        return [(name, share / sum(kept.values())) for name, share in kept.items()]

    @property
    def name(self) -> str:
        """Folder of the training, and how rows name it."""
        return f"scaling-{self.design.replace(' ', '')}-{self.minutes:g}min-{self.seed}"


def planned(
    designs: Sequence[str], minutes: Sequence[float], seeds: Sequence[int], study: str = STUDIES[0]
) -> list[Run]:
    """Runs of some designs of a study (none given: all), shortest first; `minutes` replace the designs'."""
    listed = tomllib.loads((FOLDER / f"{study}.toml").read_text())
    unknown = set(designs) - set(listed)
    if unknown:
        raise ValueError(f"scaling: expected designs among {sorted(listed)}, got {sorted(unknown)}.")
    runs = [
        Run(
            name,
            listed[name]["preset"],
            float(length),
            seed,
            listed[name]["uses"],
            listed[name].get("priors", {}),
            listed[name].get("observation", ""),
        )
        for name in designs or listed
        for length in minutes or listed[name]["minutes"]
        for seed in seeds
    ]
    return sorted(runs, key=lambda run: run.minutes)


def trained(run: Run, folder: Path) -> Path:
    """Weights of a run; what there is of it is not made again."""
    weights = folder / run.name / "weights.safetensors"
    pretrain(read_preset(run.preset, run.changes), folder / run.name)
    return weights


def model_for(weights: Path, options: dict) -> VectorFieldModel:
    """The model of some weights; one that refines gets the shipped choice among candidates."""
    if options.get("refine"):
        chooser = read_part(shipped("fim-ode"), SELECTOR)
        weights = write_part(weights, weights.with_name("refined.safetensors"), SELECTOR, chooser, {})
    return fim_dynsys.load("fim-ode", weights=str(weights), **options)


def score(run: Run, weights: Path, use: str, known: list[KnownSystem]) -> list[dict]:
    """Rows of one way to use the weights of a run."""
    log = _read(weights.with_name("log.csv"))[-1]
    about = {
        "design": run.design,
        "use": use,
        "minutes": f"{run.minutes:g}",
        "seed": run.seed,
        "presentations": log["presentations"],
        "seconds": log["seconds"],
        "version": weights_version(weights),
    }
    lines = summarise(evaluate(model_for(weights, run.uses[use]), known))
    return [about | {key: _short(line[key]) for key in SCORES} for line in lines]


def curve(run: Run, weights: Path) -> list[dict]:
    """Losses of a run on the way, with its name."""
    about = {"design": run.design, "minutes": f"{run.minutes:g}", "seed": run.seed}
    return [about | {key: row[key] for key in CURVE} for row in _read(weights.with_name("log.csv"))]


# --- what comes of it ---


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
        rows.append({key: _short(value) for key, value in row.items()})
    return rows


# --- files ---


def _short(value: object) -> object:
    return f"{value:.4g}" if isinstance(value, float) else value


def _read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _write(path: Path, rows: list[dict]) -> None:
    """Write rows aside and rename."""
    aside = path.with_suffix(".tmp")
    with aside.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    aside.rename(path)


def _known_systems(n: int, dims: Sequence[int], pools: Path) -> Iterator[KnownSystem]:
    yield from (system for system in development_systems() if system.truth.dim in dims)
    for prior in HELD_OUT_PRIORS:
        for dim in dims:
            yield from held_out_systems(prior, dim, n, pools)


def study(runs: list[Run], folder: Path, out: Path, n: int, dims: Sequence[int]) -> None:
    """Train and score whatever is missing, a row at a time."""
    out.mkdir(parents=True, exist_ok=True)
    known: list[KnownSystem] = []
    for run in runs:
        done = {(r["design"], r["minutes"], int(r["seed"]), r["use"]) for r in _read(out / "accuracy.csv")}
        missing = [use for use in run.uses if (run.design, f"{run.minutes:g}", run.seed, use) not in done]
        if not missing:
            print(f"{run.name}: there already", flush=True)
            continue
        weights = trained(run, folder)
        known = known or list(_known_systems(n, dims, folder.parent / "pools"))
        others = [
            row
            for row in _read(out / "curves.csv")
            if (row["design"], row["minutes"], int(row["seed"])) != (run.design, f"{run.minutes:g}", run.seed)
        ]
        _write(out / "curves.csv", others + curve(run, weights))
        for use in missing:
            _write(out / "accuracy.csv", _read(out / "accuracy.csv") + score(run, weights, use, known))
            report(out)


def report(out: Path) -> None:
    """Print the end points, write the extrapolation."""
    points = end_points(_read(out / "accuracy.csv"))
    for (design, use), of_design in points.items():
        for minutes, (error, generalised) in of_design.items():
            about = f"{design:16s} {use:10s} {minutes:6g} min"
            print(f"{about}  error {error:.3f}  generalisation {generalised:.1f} %")
    rows = extrapolation(points)
    if rows:
        _write(out / "extrapolation.csv", rows)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m training.scaling", description=__doc__)
    parser.add_argument("--study", choices=STUDIES, default=STUDIES[0], help="what is compared")
    parser.add_argument("--designs", nargs="*", default=[], help="names in the study's file; default: all")
    parser.add_argument("--minutes", type=float, nargs="*", default=[], help="instead of the designs' own")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--n", type=int, default=N_HELD_OUT, help="held-out systems per prior and dimension")
    parser.add_argument("--dims", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where trainings live")
    parser.add_argument("--out", type=Path, help="folder of the tables")
    parser.add_argument("--list", action="store_true", help="print what would be trained, and stop")
    options = parser.parse_args()
    runs = planned(options.designs, options.minutes, options.seeds, options.study)
    if options.list:
        for run in runs:
            print(run.name, ", ".join(run.uses))
        return
    out = options.out or (FOLDER if options.study == STUDIES[0] else FOLDER / options.study)
    study(runs, options.runs, out, options.n, options.dims)


if __name__ == "__main__":
    main()
