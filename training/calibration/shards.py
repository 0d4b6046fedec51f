"""Fits to contexts with known answers: described, with their errors, and kept in shards of files."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from fim_dynsys.models.fim_ode.calibration import describe
from fim_dynsys.models.fim_ode.own import FIMODE
from fim_dynsys.trajectories.container import Trajectories
from training.calibration.bands import draw_points, typical_rate
from training.contexts import FUNCTIONS, draw, one_of

SEED = 800_000
SHARD = 50
N_POINTS = 24  # of each place
SHARES = {"paper": 0.4, "sparse": 0.35, FUNCTIONS: 0.25}
HELD_OUT_EVERY = 5  # one context of so many is left for the report


def make_shard(path: Path, number: int, dim: int, models: list[FIMODE]) -> None:
    """Draw contexts of one dimension, describe their fits and note the errors; written aside and renamed."""
    rng = np.random.default_rng([SEED, number])
    rows: dict[str, list[np.ndarray]] = {}
    for _ in tqdm(range(SHARD), desc=path.stem, disable=None, leave=False):
        context = draw(one_of(SHARES, rng), dim, rng)
        observed = Trajectories.from_arrays(context.x, context.t)
        points = draw_points(context.paths, N_POINTS, rng)
        inferred = [model.infer_with_evidence([observed])[0] for model in models]
        for field, evidence in inferred:
            if evidence is None:  # of all models or none: whether samples are clean is no question of weights
                continue
            about, truth = describe(field, evidence), context.field(points)
            row = {
                "context": about.context,
                "tokens": about.tokens,
                "information": about.information,
                "columns": field.dictionary.evaluate(points) / about.power,
                "errors": (field(points) - truth) / about.rate,
                "typical": typical_rate(truth, about.rate) / about.rate,
            }
            for name, values in row.items():
                rows.setdefault(name, []).append(values)
    aside = path.with_suffix(".aside.npz")  # so that there is never half of one
    arrays = {name: np.stack(values) for name, values in rows.items()}
    np.savez(aside, allow_pickle=False, **arrays)
    aside.rename(path)


def read_shards(paths: list[Path]) -> dict[str, Tensor]:
    """Descriptions and errors of all contexts of some shards of one dimension."""
    parts = []
    for path in paths:
        with np.load(path, allow_pickle=False) as stored:
            parts.append({name: torch.from_numpy(stored[name]) for name in stored.files})
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def part_of(data: dict[str, Tensor], n_models: int, held_out: bool) -> dict[str, Tensor]:
    """The contexts that are held out, or the others; the rows of one context follow each other."""
    number = torch.arange(len(data["errors"])) // n_models
    return {name: values[(number % HELD_OUT_EVERY == 0) == held_out] for name, values in data.items()}
