"""Accuracy against compute: python -m training.scaling [--study NAME] [--designs NAME ...] [--list].

Every design of designs.toml is trained for each number of CPU-minutes and scored on held-out systems of the
priors and on the development split; `--study priors` trains one design on the mixtures of priors.toml
instead, `--study sizes` for equal steps on sets of 10,000 to 200,000 systems; these write into folders of
their own. Trainings resume, rows that exist are not made again, and each
row is written as soon as it is there: accuracy.csv per source, dimension and setting; curves.csv the losses
on the way; extrapolation.csv the power law through the end points, where a design has at least two.
"""

import argparse
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import fim_dynsys
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.fim_ode.weights import read_header, weights_version
from training.evaluate import KnownSystem, development_systems, evaluate, held_out_systems, summarise
from training.preset import read_preset
from training.pretrain import pretrain
from training.scaling.tables import end_points, extrapolation, read_rows, short, write_rows
from training.systems.priors import exists

FOLDER = Path(__file__).parent
STUDIES = ("designs", "priors", "sizes")
HELD_OUT_PRIORS = ("paper", "sparse")
N_HELD_OUT = 60  # systems per prior and dimension
POOL = {1: 3000, 2: 6000, 3: 6000}  # systems of each dimension where a design names its priors
PAPER_SHARES = {1: 80 / 600, 2: 210 / 600, 3: 310 / 600}  # dimensions in the paper's pretraining set
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
    name in `training.systems.corruption.OBSERVERS`, what is seen of them; `systems`, how many there are of
    the paper's prior in the paper's shares of dimensions. `steps` above 0 count instead of minutes.
    """

    design: str
    preset: str
    minutes: float
    seed: int
    uses: dict[str, dict]
    priors: dict[str, float] = field(default_factory=dict)
    observation: str = ""
    systems: int = 0
    steps: int = 0

    @property
    def changes(self) -> dict:
        """What replaces values of the preset."""
        changes = {"minutes": self.minutes, "steps": self.steps, "clock": "cpu", "seed": self.seed}
        if self.systems:
            changes["pools"] = [
                ["paper", dim, round(share * self.systems)] for dim, share in PAPER_SHARES.items()
            ]
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
        length = f"{self.steps}steps" if self.steps else f"{self.minutes:g}min"
        return f"scaling-{self.design.replace(' ', '')}-{length}-{self.seed}"


def planned(
    designs: Sequence[str], minutes: Sequence[float], seeds: Sequence[int], study: str = STUDIES[0]
) -> list[Run]:
    """Runs of some designs of a study (none given: all), shortest first; `minutes` replace the designs'.

    Designs that count steps stand in their order, with 0 minutes.
    """
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
            listed[name].get("systems", 0),
            0 if minutes else listed[name].get("steps", 0),
        )
        for name in designs or listed
        for length in minutes or listed[name].get("minutes", [0.0])
        for seed in seeds
    ]
    return sorted(runs, key=lambda run: run.minutes)


def trained(run: Run, folder: Path) -> Path:
    """Weights of a run; what there is of it is not made again."""
    weights = folder / run.name / "weights.safetensors"
    pretrain(read_preset(run.preset, run.changes), folder / run.name)
    return weights


def model_for(weights: Path, options: dict) -> VectorFieldModel:
    """The model of some weights."""
    published = (read_header(weights) or {}).get("architecture") == "published"
    return fim_dynsys.load("fim-ode-published" if published else "fim-ode", weights=str(weights), **options)


def score(run: Run, weights: Path, use: str, known: list[KnownSystem]) -> list[dict]:
    """Rows of one way to use the weights of a run."""
    log = read_rows(weights.with_name("log.csv"))[-1]
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
    return [about | {key: short(line[key]) for key in SCORES} for line in lines]


def curve(run: Run, weights: Path) -> list[dict]:
    """Losses of a run on the way, with its name."""
    about = {"design": run.design, "minutes": f"{run.minutes:g}", "seed": run.seed}
    return [about | {key: row[key] for key in CURVE} for row in read_rows(weights.with_name("log.csv"))]


def _known_systems(n: int, dims: Sequence[int], pools: Path) -> Iterator[KnownSystem]:
    yield from (system for system in development_systems() if system.truth.dim in dims)
    for prior in HELD_OUT_PRIORS:
        for dim in dims:
            yield from held_out_systems(prior, dim, n, pools)


def study(runs: list[Run], folder: Path, out: Path, n: int, dims: Sequence[int]) -> None:
    """Train and score whatever is missing, a row at a time."""
    out.mkdir(parents=True, exist_ok=True)
    known: list[KnownSystem] = []
    accuracy, curves = out / "accuracy.csv", out / "curves.csv"
    for run in runs:
        own = run.design, f"{run.minutes:g}", str(run.seed)
        done = {row["use"] for row in read_rows(accuracy) if _run_of(row) == own}
        missing = [use for use in run.uses if use not in done]
        if not missing:
            print(f"{run.name}: there already", flush=True)
            continue
        weights = trained(run, folder)
        known = known or list(_known_systems(n, dims, folder / "pools"))
        write_rows(curves, [row for row in read_rows(curves) if _run_of(row) != own] + curve(run, weights))
        for use in missing:
            write_rows(accuracy, read_rows(accuracy) + score(run, weights, use, known))
            report(out)


def _run_of(row: dict[str, str]) -> tuple[str, str, str]:
    return row["design"], row["minutes"], row["seed"]


def report(out: Path) -> None:
    """Print the end points, write the extrapolation."""
    points = end_points(read_rows(out / "accuracy.csv"))
    for (design, use), of_design in points.items():
        for minutes, (error, generalised) in of_design.items():
            about = f"{design:16s} {use:10s} {minutes:6g} min"
            print(f"{about}  error {error:.3f}  generalisation {generalised:.1f} %")
    rows = extrapolation(points)
    if rows:
        write_rows(out / "extrapolation.csv", rows)


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
