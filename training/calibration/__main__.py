"""Fit the posterior that the fields of a weights file carry: python -m training.calibration --run NAME.

Contexts of known systems are drawn (`training.contexts`, seeds of their own), fields inferred as at
inference with and without the search, and compared with the truth at points on the observed path, on other
paths and in the box of all. A small network then learns how much the data weigh and how far each term may be
off, so that 90 % of the errors lie within 1.645 deviations and the interval score is small. The result
becomes part of the weights file, whose fields stay as they are. Run it last: it calibrates whatever the
file's operator and the present code infer. Shards of contexts are kept in runs/NAME, by the version
of the weights; an interrupted command goes on.
"""

import argparse
import json
import math
from pathlib import Path

import torch

import fim_dynsys
from fim_dynsys.models.fim_ode.own import DEFAULT_WEIGHTS
from fim_dynsys.models.fim_ode.weights import CALIBRATION, shipped, write_part
from training.calibration.reader import fit, last_factor, scores
from training.calibration.shards import SHARD, make_shard, part_of, read_shards

DIMS = (1, 2, 3)  # those that the operator is trained in; in more states the factor of the last one holds


def calibrate(
    weights: Path, out: Path, folder: Path, contexts: int, steps: int
) -> dict[str, dict[str, float]]:
    """Make what shards are missing, fit, write `out` and return the report, by dimension."""
    folder.mkdir(parents=True, exist_ok=True)
    models = [fim_dynsys.load("fim-ode", weights=str(weights), refine=refine) for refine in (True, False)]
    shards: dict[int, list[Path]] = {dim: [] for dim in DIMS}
    for number in range(math.ceil(contexts / SHARD) * len(DIMS)):
        dim = DIMS[number % len(DIMS)]
        shards[dim].append(folder / f"{models[0].version}-{number:05d}.npz")
        if not shards[dim][-1].exists():
            make_shard(shards[dim][-1], number, dim, models)
    data = [read_shards(shards[dim]) for dim in DIMS]
    known, unknown = ([part_of(part, len(models), own) for part in data] for own in (False, True))
    reader = fit(known, steps)
    factor = [last_factor(reader, part) for part in known]
    report = {f"{dim}-D": scores(reader, part, f) for dim, part, f in zip(DIMS, unknown, factor, strict=True)}
    about = {"contexts": sum(len(part["errors"]) for part in known), "steps": steps, "held out": report}
    write_part(weights, out, CALIBRATION, reader.arrays(factor), {"calibration": about})
    return report


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m training.calibration", description=__doc__)
    parser.add_argument("--run", required=True, help="folder in runs/ for shards")
    parser.add_argument("--weights", type=Path, help="weights file (default: shipped)")
    parser.add_argument("--out", type=Path, help="where the calibrated file goes (default: runs/RUN)")
    parser.add_argument("--contexts", type=int, default=1500, help="of each dimension")
    parser.add_argument("--steps", type=int, default=1000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folder = Path("runs") / arguments.run
    weights = arguments.weights or shipped(DEFAULT_WEIGHTS)
    out = arguments.out or folder / "weights.safetensors"
    report = calibrate(weights, out, folder, arguments.contexts, arguments.steps)
    print(json.dumps(report, indent=1))
    print(f"Written: {out}")


if __name__ == "__main__":
    main()
