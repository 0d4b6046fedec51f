"""Fit the posterior that the fields of a weights file carry: python -m training.calibrate --run NAME.

Contexts of known systems are drawn (`training.contexts`, seeds of their own), fields inferred as at inference
with and without the search, and compared with the truth at points on the observed path, on other paths and in
the box of all. A small network then learns how much the data weigh and how far each term may be off, so that
90 % of the errors lie within 1.645 deviations and the interval score is small. The result becomes part of the
weights file, whose fields stay as they are. Run it last: it calibrates whatever the file's operator, selector
and the present code infer. Shards of contexts are kept in runs/NAME, by the version of the weights; an
interrupted command goes on.
"""

import argparse
import json
import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import relu
from tqdm.auto import tqdm

import fim_dynsys
from fim_dynsys.models.fim_ode.calibration import N_CONTEXT, N_TOKEN, describe
from fim_dynsys.models.fim_ode.own import DEFAULT_WEIGHTS, FIMODE
from fim_dynsys.models.fim_ode.weights import CALIBRATION, shipped, write_part
from fim_dynsys.trajectories import Trajectories
from training.bands import PLACES, QUANTILES, band_scores, draw_points, typical_rate
from training.contexts import draw

SEED = 800_000
SHARD = 50
N_POINTS = 24  # of each place
PRIORS = {"paper": 0.4, "sparse": 0.35, "functions": 0.25}
DIMS = (1, 2, 3)  # those that the operator is trained in; in more states the factor of the last one holds
HELD_OUT = 5  # one context of so many is left for the report
SCORE_WEIGHT = 0.5
_LOG_BOUND = 12.0


# --- contexts ---


def make_shard(path: Path, number: int, dim: int, models: list[FIMODE]) -> None:
    """Draw contexts of one dimension, describe their fits and note the errors; written aside and renamed."""
    rng = np.random.default_rng([SEED, number])
    rows: dict[str, list[np.ndarray]] = {}
    for _ in tqdm(range(SHARD), desc=path.stem, disable=None, leave=False):
        context = draw(str(rng.choice(list(PRIORS), p=list(PRIORS.values()))), dim, rng)
        observed = Trajectories.from_arrays(context.x, context.t)
        points = draw_points(context.paths, N_POINTS, rng)
        for model in models:
            ((field, evidence),) = model.infer_with_evidence([observed])
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
    aside = path.with_suffix(".aside.npz")
    np.savez(aside, **{name: np.stack(values) for name, values in rows.items()})
    aside.rename(path)


def read_shards(paths: list[Path]) -> dict[str, Tensor]:
    """Descriptions and errors of all contexts of some shards of one dimension."""
    parts = []
    for path in paths:
        with np.load(path, allow_pickle=False) as stored:
            parts.append({name: torch.from_numpy(stored[name]) for name in stored.files})
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _chosen(data: dict[str, Tensor], n_models: int, held_out: bool) -> dict[str, Tensor]:
    """The contexts that are held out, or the others; the rows of one context follow each other."""
    number = torch.arange(len(data["errors"])) // n_models
    return {name: values[(number % HELD_OUT == 0) == held_out] for name, values in data.items()}


# --- the network ---


class Reader(nn.Module):
    """The network of `fim_dynsys.models.fim_ode.calibration.Calibration`, batched in torch for training."""

    def __init__(self, width: int = 16):
        super().__init__()
        self.data_1, self.data_2 = nn.Linear(N_CONTEXT, width), nn.Linear(width, 1)
        self.term_1 = nn.Linear(N_CONTEXT + N_TOKEN, width)
        self.term_2, self.term_3 = nn.Linear(width, width), nn.Linear(width, 1)
        for name, size in (("context", N_CONTEXT), ("token", N_TOKEN)):
            self.register_buffer(f"{name}_centre", torch.zeros(size))
            self.register_buffer(f"{name}_spread", torch.ones(size))

    def standardise_by(self, parts: list[dict[str, Tensor]]) -> None:
        """Take centre and spread of the inputs from data."""
        for name, key in (("context", "context"), ("token", "tokens")):
            rows = torch.cat([part[key].flatten(0, -2) for part in parts])
            getattr(self, f"{name}_centre").copy_(rows.mean(0))
            getattr(self, f"{name}_spread").copy_(rows.std(0).clamp(min=1e-3))

    def forward(self, data: dict[str, Tensor]) -> Tensor:
        """Deviations (B, P, d) at the points of B contexts, in units of their rates."""
        context = (data["context"] - self.context_centre) / self.context_spread
        tokens = (data["tokens"] - self.token_centre) / self.token_spread
        weight = self.data_2(self.data_1(context).tanh())[..., 0] - 2.0
        repeated = context[:, :, None].expand(-1, -1, tokens.shape[2], -1)
        hidden = self.term_2(self.term_1(torch.cat([repeated, tokens], -1)).tanh()).tanh()
        deviation = self.term_3(hidden)[..., 0] - 1.0
        w = torch.exp(deviation.clamp(-_LOG_BOUND, _LOG_BOUND))
        v = torch.exp(2.0 * weight.clamp(-_LOG_BOUND, _LOG_BOUND))[..., None, None]
        eye = torch.eye(w.shape[-1], dtype=w.dtype)
        lower = torch.linalg.cholesky(w[..., :, None] * data["information"] * w[..., None, :] * v + eye)
        columns = (data["columns"][:, None] * w[:, :, None]).transpose(-1, -2)
        return torch.linalg.solve_triangular(lower, columns, upper=False).norm(dim=-2).transpose(1, 2)

    def arrays(self, factor: list[float]) -> dict[str, np.ndarray]:
        """What `Calibration` reads."""
        named = {name.replace(".", "_"): value.numpy() for name, value in self.state_dict().items()}
        return named | {"factor": np.array(factor)}


def loss(reader: Reader, data: dict[str, Tensor]) -> Tensor:
    """How far the 90 % quantile of the errors is from its place, plus the log of the interval score.

    Both count each context and point alike, however large its errors.
    """
    deviation, error = reader(data) + 1e-7, data["errors"].abs()
    z = QUANTILES[90]
    ratio = torch.log(error + 1e-7) - torch.log(z * deviation)
    quantile = torch.maximum(0.9 * ratio, -0.1 * ratio).mean()
    score = 2 * z * deviation + 20 * relu(error - z * deviation)
    return quantile + SCORE_WEIGHT * torch.log1p(score / data["typical"][:, None]).mean()


def fit(
    parts: list[dict[str, Tensor]], steps: int, seed: int = 0, batch: int = 64, rate: float = 1e-2
) -> Reader:
    """A reader trained on contexts of several dimensions, as many of each in every step."""
    torch.manual_seed(seed)
    reader = Reader().double()
    reader.standardise_by(parts)
    optimiser = torch.optim.AdamW(reader.parameters(), lr=rate, weight_decay=1e-3)
    for step in tqdm(range(steps), desc="steps", disable=None, leave=False):
        for group in optimiser.param_groups:
            group["lr"] = rate * (1 - step / steps)
        total = torch.zeros(())
        for part in parts:
            index = torch.randint(len(part["errors"]), (batch,))
            total = total + loss(reader, {name: values[index] for name, values in part.items()})
        optimiser.zero_grad()
        total.backward()
        nn.utils.clip_grad_norm_(reader.parameters(), 1.0, error_if_nonfinite=True)
        optimiser.step()
    return reader


@torch.no_grad()
def last_factor(reader: Reader, data: dict[str, Tensor]) -> float:
    """By which deviations are multiplied so that 90 % of the errors lie within their band."""
    ratio = data["errors"].abs() / (reader(data) + 1e-12)
    return float(torch.quantile(ratio.flatten(), 0.9)) / QUANTILES[90]


@torch.no_grad()
def scores(reader: Reader, data: dict[str, Tensor], factor: float) -> dict[str, float]:
    """`band_scores` in typical rates, and the coverage in each place."""
    typical = data["typical"][:, None]
    errors, deviations = data["errors"] / typical, factor * reader(data) / typical
    result = band_scores(errors.numpy(), deviations.numpy())
    for k, place in enumerate(PLACES):
        rows = slice(k * N_POINTS, (k + 1) * N_POINTS)
        inside = errors[:, rows].abs() <= QUANTILES[90] * deviations[:, rows]
        result[f"cover 90, {place}"] = 100 * float(inside.double().mean())
    return result


# --- the command ---


def calibrate(
    weights: Path, out: Path, folder: Path, contexts: int, steps: int
) -> dict[str, dict[str, float]]:
    """Make what shards are missing, fit, write `out` and return the report, by dimension."""
    folder.mkdir(parents=True, exist_ok=True)
    models = [fim_dynsys.load("fim-ode", weights=str(weights), refine=refine) for refine in (True, False)]
    shards = {dim: [] for dim in DIMS}
    for number in range(math.ceil(contexts / SHARD) * len(DIMS)):
        dim = DIMS[number % len(DIMS)]
        shards[dim].append(folder / f"{models[0].version}-{number:05d}.npz")
        if not shards[dim][-1].exists():
            make_shard(shards[dim][-1], number, dim, models)
    data = [read_shards(shards[dim]) for dim in DIMS]
    known, unknown = ([_chosen(part, len(models), own) for part in data] for own in (False, True))
    reader = fit(known, steps)
    factor = [last_factor(reader, part) for part in known]
    report = {f"{dim}-D": scores(reader, part, f) for dim, part, f in zip(DIMS, unknown, factor, strict=True)}
    about = {"contexts": sum(len(part["errors"]) for part in known), "steps": steps, "held out": report}
    write_part(weights, out, CALIBRATION, reader.arrays(factor), {"calibration": about})
    return report


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m training.calibrate", description=__doc__)
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
