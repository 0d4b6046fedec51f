"""Pretrain an operator: python -m training.pretrain PRESET [--run NAME] [--minutes M] [--set key=value ...].

A flat script: read a preset, make or read the pool of systems, loop, checkpoint, export. A run lives in
runs/NAME and resumes by itself; every batch is seeded by the run's seed and its step, so a resumed run
equals an uninterrupted one.
"""

import argparse
import csv
import json
import math
import time
import tomllib
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from fim_dynsys.models.fim_ode.amortised import AmortisedConfig, AmortisedNetwork
from fim_dynsys.models.fim_ode.weights import read_weights, save_weights
from training.corruption import Observation, observe
from training.generation import SAMPLING_STEP, Systems, cached
from training.objective import PLACES, TRIVIAL_LOSS, draw_queries, field_loss, relative_error

RUNS = Path("runs")
PRESETS = Path(__file__).parent / "presets"
TIMED_STEPS = 20


@dataclass(frozen=True)
class Preset:
    """Everything that determines a run; read from training/presets/NAME.toml, unknown keys raise."""

    network: AmortisedConfig = field(default_factory=AmortisedConfig)
    observation: Observation = field(default_factory=Observation)
    pools: tuple[tuple[str, int, int], ...] = (("paper", 1, 64), ("paper", 2, 64), ("paper", 3, 64))
    dim_shares: tuple[float, ...] = (0.2, 0.35, 0.45)
    batch: int = 48
    queries: int = 64
    place_weights: tuple[float, float, float] = (1.0, 1.0, 0.5)
    early_weight: float = 0.15
    steps: int = 0
    minutes: float = 0.0
    learning_rate: float = 2e-3
    final_learning_rate: float = 1e-5
    warmup: float = 0.03
    weight_decay: float = 1e-4
    clip: float = 1.0
    ema: float = 0.998
    seed: int = 0
    initial: str = ""  # weights file to start from; parts of the network it lacks start fresh
    validation: int = 64
    log_every: int = 50
    checkpoint_minutes: float = 3.0
    threads: int = 1


def read_preset(name: str, changes: dict | None = None) -> Preset:
    """Preset by name or path, with single keys replaced; unknown keys raise ValueError."""
    path = Path(name) if name.endswith(".toml") else PRESETS / f"{name}.toml"
    if not path.exists():
        known = sorted(p.stem for p in PRESETS.glob("*.toml"))
        raise ValueError(f"pretrain: no preset {name!r} at {path}; known presets: {', '.join(known)}")
    values = {**tomllib.loads(path.read_text()), **(changes or {})}
    unknown = set(values) - {f.name for f in fields(Preset)}
    if unknown:
        raise ValueError(f"pretrain: preset {path} has unknown keys {sorted(unknown)}")
    nested = {"network": AmortisedConfig.from_dict, "observation": lambda v: Observation(**_tuples(v))}
    built = {k: nested[k](v) if k in nested else v for k, v in values.items()}
    return Preset(**_tuples(built))


def _tuples(values: dict) -> dict:
    def deep(v: object) -> object:
        return tuple(deep(item) for item in v) if isinstance(v, list) else v

    return {k: deep(v) for k, v in values.items()}


def learning_rate(preset: Preset, step: int, total: int) -> float:
    """Linear warm-up, then a cosine to the final rate, as a function of the step alone."""
    warm = max(int(preset.warmup * total), 1)
    if step < warm:
        return preset.learning_rate * (step + 1) / warm
    progress = (step - warm) / max(total - warm, 1)
    low = preset.final_learning_rate
    return low + (preset.learning_rate - low) * 0.5 * (1 + math.cos(math.pi * progress))


def pools_by_dim(preset: Preset, folder: Path, seed_offset: int = 0) -> dict[int, Systems]:
    """Systems per dimension, the pools of one dimension joined."""
    joined: dict[int, list[Systems]] = {}
    for number, (prior, dim, n) in enumerate(preset.pools):
        start = time.monotonic()
        seed = 1000 * (preset.seed + seed_offset) + number
        systems = cached(folder, prior, dim, n, seed)
        print(f"pool {prior} {dim}-D: {len(systems)} systems in {time.monotonic() - start:.0f} s", flush=True)
        joined.setdefault(dim, []).append(_moving(systems))
    return {
        dim: Systems(torch.cat([p.coefficients for p in parts]), torch.cat([p.states for p in parts]))
        for dim, parts in joined.items()
    }


def _moving(systems: Systems) -> Systems:
    """Without the systems of which any trajectory hardly moves (standard deviation under 1e-3)."""
    kept = (systems.states.std(2).amax(-1) > 1e-3).all(1)
    return Systems(systems.coefficients[kept], systems.states[kept])


def batch_error(network: AmortisedNetwork, preset: Preset, pool: dict[int, Systems], seed: int) -> Tensor:
    """Relative errors (solves, B, 3) of one seeded batch."""
    generator = torch.Generator().manual_seed(seed)
    dims = sorted(pool)
    shares = torch.tensor([preset.dim_shares[d - 1] for d in dims])
    systems = pool[dims[int(torch.multinomial(shares, 1, generator=generator))]]
    index = torch.randint(len(systems), (preset.batch,), generator=generator)
    return systems_error(network, preset, systems, index, generator)


def systems_error(
    network: AmortisedNetwork, preset: Preset, systems: Systems, index: Tensor, generator: torch.Generator
) -> Tensor:
    """Observe some systems, infer, and compare with the truth: relative errors (solves, B, 3)."""
    context = observe(systems.states[index], SAMPLING_STEP, preset.observation, generator)
    table = network.tables[systems.dim - 1]
    queries = draw_queries(systems, index, context, table, preset.queries, generator)
    encoding = network.encode(context.t, context.x, context.mask)
    b, places, n, d = queries.points.shape
    flat = queries.points.reshape(b, places * n, d)
    unit = (encoding.scale / encoding.time_unit[:, None])[:, None, None]
    errors = []
    for solve in range(len(encoding.coefficients)):
        prediction = network.decode(encoding, flat, solve).view(b, places, n, d)
        errors.append(relative_error(prediction / unit, queries.field / unit))
    return torch.stack(errors)


def training_loss(errors: Tensor, preset: Preset) -> Tensor:
    """Loss of the last solve and, lightly, of the ones before."""
    weights = torch.tensor(preset.place_weights, dtype=errors.dtype)
    losses = torch.stack([field_loss(e, weights) for e in errors])
    return losses[-1] + preset.early_weight * losses[:-1].mean()


@torch.no_grad()
def validate(network: AmortisedNetwork, preset: Preset, pool: dict[int, Systems]) -> dict[str, float]:
    """Loss and median relative errors on held-out systems, always the same contexts."""
    weights = torch.tensor(preset.place_weights)
    result = {}
    for dim, systems in sorted(pool.items()):
        generator = torch.Generator().manual_seed(77 + dim)
        parts = [
            systems_error(network, preset, systems, chunk, generator)[-1]
            for chunk in torch.arange(len(systems)).split(preset.batch)
        ]
        error = torch.cat(parts)
        result[f"loss {dim}-D"] = float(field_loss(error, weights))
        for place, median in zip(PLACES, error.median(0).values.tolist(), strict=True):
            result[f"{place} {dim}-D"] = median
    result["loss"] = sum(v for k, v in result.items() if k.startswith("loss")) / len(pool)
    return result


# --- checkpoints ---


@dataclass
class State:
    """What changes during a run."""

    network: AmortisedNetwork
    average: AmortisedNetwork
    optimiser: torch.optim.AdamW
    step: int = 0
    total: int = 0


def new_state(preset: Preset) -> State:
    """Fresh network, its average and the optimiser, from the preset's seed."""
    torch.manual_seed(preset.seed)
    network, average = AmortisedNetwork(preset.network), AmortisedNetwork(preset.network)
    if preset.initial:
        fresh = network.load_state_dict(read_weights(preset.initial)[1], strict=False).missing_keys
        print(f"started from {preset.initial}; fresh: {', '.join(fresh) or 'nothing'}", flush=True)
    average.load_state_dict(network.state_dict())
    matrices = [p for p in network.parameters() if p.ndim > 1]
    vectors = [p for p in network.parameters() if p.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": preset.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return State(network, average, torch.optim.AdamW(groups, lr=preset.learning_rate, betas=(0.9, 0.98)))


def save_checkpoint(path: Path, state: State) -> None:
    """Write everything needed to go on, aside and renamed, so that an interruption loses nothing."""
    tensors = {f"network.{k}": v for k, v in state.network.state_dict().items()}
    tensors |= {f"average.{k}": v for k, v in state.average.state_dict().items()}
    for name, parameter in state.network.named_parameters():
        for key, value in state.optimiser.state.get(parameter, {}).items():
            tensors[f"optimiser.{key}.{name}"] = value
    aside = path.with_suffix(".tmp")
    save_file(
        {k: v.contiguous() for k, v in tensors.items()},
        aside,
        {"step": str(state.step), "total": str(state.total)},
    )
    aside.rename(path)


def load_checkpoint(path: Path, state: State) -> None:
    """Restore what `save_checkpoint` wrote into a state of the same preset."""
    with safe_open(path, framework="pt") as file:
        tensors = {k: file.get_tensor(k) for k in file.keys()}  # noqa: SIM118
        state.step, state.total = int(file.metadata()["step"]), int(file.metadata()["total"])

    def part(prefix: str) -> dict[str, Tensor]:
        return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

    state.network.load_state_dict(part("network."))
    state.average.load_state_dict(part("average."))
    for name, parameter in state.network.named_parameters():
        keys = ("step", "exp_avg", "exp_avg_sq")
        state.optimiser.state[parameter] = {key: tensors[f"optimiser.{key}.{name}"] for key in keys}


# --- the loop ---


def train_step(state: State, preset: Preset, pool: dict[int, Systems]) -> tuple[float, float, Tensor]:
    """One optimiser step; training loss, gradient norm and mean log error by place of the last solve."""
    errors = batch_error(state.network, preset, pool, seed=preset.seed * 1_000_003 + state.step)
    loss = training_loss(errors, preset)
    state.optimiser.zero_grad(set_to_none=True)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(state.network.parameters(), preset.clip, error_if_nonfinite=True)
    for group in state.optimiser.param_groups:
        group["lr"] = learning_rate(preset, state.step, state.total)
    state.optimiser.step()
    decay = min(preset.ema, (1 + state.step) / (10 + state.step))
    with torch.no_grad():
        for mean, value in zip(state.average.parameters(), state.network.parameters(), strict=True):
            mean.lerp_(value, 1 - decay)
    state.step += 1
    return float(loss.detach()), float(norm), torch.log1p(10 * errors[-1].detach()).mean(0)


def pretrain(preset: Preset, folder: Path, stop_after: int | None = None) -> State:
    """Run or resume until the preset's last step (or `stop_after` steps from now) and export the average."""
    torch.set_num_threads(preset.threads)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "preset.json").write_text(json.dumps(asdict(preset), indent=1))
    pool = pools_by_dim(preset, folder.parent / "pools")
    held_out = pools_by_dim(
        replace(preset, pools=tuple((p, d, preset.validation) for p, d, _ in preset.pools), seed=0),
        folder.parent / "pools",
        seed_offset=500,
    )
    state = new_state(preset)
    checkpoint = folder / "checkpoint.safetensors"
    if checkpoint.exists():
        load_checkpoint(checkpoint, state)
        print(f"resumed at step {state.step} of {state.total}", flush=True)
    if state.total == 0:
        state.total = preset.steps or _steps_for(preset, pool)
    print(
        f"{sum(p.numel() for p in state.network.parameters()):,} parameters, {state.total} steps", flush=True
    )
    began, saved, logged, first = time.monotonic(), time.monotonic(), [], state.step
    while state.step < state.total and (stop_after is None or state.step - first < stop_after):
        logged.append(train_step(state, preset, pool))
        if state.step % preset.log_every == 0 or state.step == state.total:
            _log(folder / "log.csv", state, preset, logged, held_out, time.monotonic() - began, first)
            logged = []
        if time.monotonic() - saved > 60 * preset.checkpoint_minutes:
            save_checkpoint(checkpoint, state)
            saved = time.monotonic()
    save_checkpoint(checkpoint, state)
    export(folder / "weights.safetensors", state, preset)
    return state


def _steps_for(preset: Preset, pool: dict[int, Systems]) -> int:
    """Step count for the preset's minutes, from twenty timed steps of a throw-away network."""
    if preset.minutes <= 0:
        raise ValueError("pretrain: the preset needs steps or minutes above 0, got neither; set one of them")
    trial = new_state(preset)
    trial.total = 10 * TIMED_STEPS
    began = time.monotonic()
    for _ in range(TIMED_STEPS):
        train_step(trial, preset, pool)
    return max(int(60 * preset.minutes / (time.monotonic() - began) * TIMED_STEPS), TIMED_STEPS)


def _log(
    path: Path, state: State, preset: Preset, logged: list, held_out: dict, elapsed: float, first: int
) -> None:
    losses, norms, places = zip(*logged, strict=True)
    row = {
        "step": state.step,
        "presentations": state.step * preset.batch,
        "seconds": round(elapsed, 1),
        "rate": learning_rate(preset, state.step, state.total),
        "loss": sum(losses) / len(losses),
        "gradient": sum(norms) / len(norms),
    }
    row |= {f"train {p}": float(v) for p, v in zip(PLACES, torch.stack(places).mean(0), strict=True)}
    row |= {f"validation {k}": v for k, v in validate(state.average, preset, held_out).items()}
    fresh = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        if fresh:
            writer.writeheader()
        writer.writerow({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()})
    left = elapsed / max(state.step - first, 1) * (state.total - state.step)
    print(
        f"step {state.step}/{state.total} loss {row['loss']:.3f} (trivial {TRIVIAL_LOSS:.2f}) "
        f"validation {row['validation loss']:.3f} gradient {row['gradient']:.2f} {left / 60:.1f} min left",
        flush=True,
    )


def export(path: Path, state: State, preset: Preset) -> None:
    """Write the averaged weights as float16 with a header that names the architecture and the run."""
    extra = {"steps": state.step, "presentations": state.step * preset.batch, "pools": preset.pools}
    save_weights(path, state.average, "amortised", preset.network, preset.network.max_dim, extra)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m training.pretrain", description=__doc__)
    parser.add_argument("preset", help="name in training/presets or a TOML file")
    parser.add_argument("--run", help="folder under runs/ (default: the preset's name)")
    parser.add_argument(
        "--minutes", type=float, help="training time on this machine, instead of the preset's"
    )
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="replace keys, TOML values")
    arguments = parser.parse_args()
    changes = tomllib.loads("\n".join(arguments.set))
    if arguments.minutes is not None:
        changes |= {"minutes": arguments.minutes, "steps": 0}
    run = arguments.run or Path(arguments.preset).stem
    pretrain(read_preset(arguments.preset, changes), RUNS / run)


if __name__ == "__main__":
    main()
