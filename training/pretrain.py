"""Pretrain an operator: python -m training.pretrain PRESET [--run NAME] [--minutes M] [--set key=value ...].

The loop, read top to bottom: read a preset, make or read the systems, step, log, checkpoint, export. A run
lives in runs/NAME and resumes by itself; every batch is seeded by the run's seed and its step, so a run that
was killed and resumed equals an uninterrupted one. Under torchrun all processes share every batch.
"""

import argparse
import csv
import itertools
import json
import math
import time
import tomllib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from training.checkpoint import (
    State,
    export,
    exported,
    load_checkpoint,
    new_state,
    save_checkpoint,
    undone,
)
from training.learner import LEARNERS, LossWeights, Trainee, compile_blocks
from training.objective import PLACES, TRIVIAL_LOSS, Queries, draw_queries, field_loss
from training.preset import Preset, learning_rate, observer, read_preset
from training.processes import Processes, join, leave
from training.source import Pools, Source, held_out, open_source
from training.systems.corruption import Context, Observer, on_host
from training.systems.generation import Systems
from training.update import Recorded, Update

RUNS = Path("runs")
TIMED_STEPS = 20
MARGIN = 0.97  # share of the time left that steps are planned for; the rest: their scatter, the export
UNTIMED_STEPS = 3  # before those, for each dimension: compilers and caches have their first time
RECORDING_STEPS = 40  # likewise where steps are recorded: each shape of a batch has to be met a few times
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.monotonic, "cpu": time.process_time}


# --- one step ---


def draw_batch(
    preset: Preset,
    observation: Observer,
    pools: Pools,
    seed: int,
    device: torch.device,
    share: slice = slice(None),
) -> tuple[Context, Queries]:
    """The seeded batch of a step, or a share of its rows: what is observed, and queries with the truth."""
    generator = torch.Generator(device).manual_seed(seed)
    dims = sorted(pools)
    shares = torch.tensor([preset.dim_shares[d - 1] for d in dims])
    systems = pools[dims[int(torch.multinomial(shares, 1, generator=on_host(generator)))]]
    index = torch.randint(len(systems), (preset.batch,), generator=generator, device=device)
    return _observed(observation, systems[index], preset.queries, generator, share)


def _observed(
    observation: Observer, systems: Systems, n: int, generator: torch.Generator, share: slice = slice(None)
) -> tuple[Context, Queries]:
    context = observation.observe(systems.states, systems.step, generator)
    queries = draw_queries(systems, context, n, generator)
    return Context(*(part[share] for part in context)), Queries(*(part[share] for part in queries))


def loss_weights(preset: Preset, device: torch.device | str = "cpu") -> LossWeights:
    """How the loss weighs places and earlier answers."""
    places = torch.tensor(preset.place_weights, dtype=torch.float64, device=device)
    return LossWeights(places, preset.early_weight)


def train_step(state: State, update: Update, preset: Preset, pools: Pools, processes: Processes) -> Tensor:
    """One optimiser step; loss, gradient norm, mean log error at the three places, uncertainty."""
    seed = preset.seed * 1_000_003 + state.step
    torch.manual_seed(seed + 7 * processes.rank)  # of dropout
    seen = observer(preset, state.step, state.total)
    batch = draw_batch(preset, seen, pools, seed, processes.device, processes.share(preset.batch))
    rate = learning_rate(preset, state.step, state.total, state.restart)
    decay = min(preset.ema, (1 + state.step) / (10 + state.step))
    result = update(batch, rate, 1 - decay)
    state.step += 1
    return result


@torch.no_grad()
def validate(network: nn.Module, preset: Preset, pools: Pools, device: torch.device) -> dict[str, float]:
    """Loss, median relative errors and uncertainty on held-out systems, always the same contexts.

    Those of a later stage are marked by its number.
    """
    learner, weights = LEARNERS[preset.architecture], loss_weights(preset, device)
    result, losses, plain, uncertain = {}, [], [], []
    observers = [preset.observation, *(stage.observation for stage in preset.stages)]
    for (number, observation), (dim, systems) in itertools.product(
        enumerate(observers), sorted(pools.items())
    ):
        generator = torch.Generator().manual_seed(77 + dim)  # on the CPU: the same contexts on every device
        parts = []
        for chunk in torch.arange(len(systems)).split(preset.batch):
            context, queries = _observed(observation, systems[chunk], preset.queries, generator)
            context = Context(*(part.to(device) for part in context))
            queries = Queries(*(part.to(device) for part in queries))
            outcome = learner.loss(network, context, queries, weights)
            parts.append(outcome.errors)
            uncertain += [] if outcome.uncertainty is None else [float(outcome.uncertainty)]
        error = torch.cat(parts)
        where = f"{dim}-D" + (f" stage {number}" if number else "")
        losses.append(float(field_loss(error, weights.places)))
        plain.append(float(torch.log1p(10 * error).mean()))
        result[f"loss {where}"] = losses[-1]
        for place, median in zip(PLACES, error.median(0).values.tolist(), strict=True):
            result[f"{place} {where}"] = median
    result |= {"loss": sum(losses) / len(losses), "plain": sum(plain) / len(plain)}
    return result | ({"uncertainty": sum(uncertain) / len(uncertain)} if uncertain else {})


# --- the loop ---


def pretrain(
    preset: Preset,
    folder: Path,
    stop_after: int | None = None,
    pause_after: float = float("inf"),
    resume_from: str = "",
) -> State:
    """Run or resume until the preset's last step and export the averaged weights.

    Parameters
    ----------
    preset : Preset
        What to train and how.
    folder : Path
        Of this run; a checkpoint there is resumed.
    stop_after : int, optional
        Stop after that many steps of this call.
    pause_after : float
        Stop that many minutes after the call, however long preparing and compiling took.
    resume_from : str
        Exported weights of this run to go on from where the folder has no checkpoint: the schedule goes on
        at their step, the optimiser starts afresh with a warm-up.
    """
    called = time.monotonic()
    end = called + 60 * (preset.within or math.inf)
    deadline = min(called + 60 * pause_after, end)
    torch.set_num_threads(preset.threads)
    processes = join(preset.device)
    folder.mkdir(parents=True, exist_ok=True)
    if not processes.leads:
        processes.wait()  # the leader makes the files
    source = open_source(preset, folder.parent / "pools", processes.device)
    validation, fingerprint = held_out(preset, folder.parent / "pools")
    if processes.leads:
        (folder / "preset.json").write_text(json.dumps(asdict(preset), indent=1))
        processes.wait()

    state, checkpoint = new_state(preset, processes.device), folder / "checkpoint.safetensors"
    if checkpoint.exists():
        load_checkpoint(checkpoint, state)
        print(f"resumed at step {state.step} of {state.total}", flush=True)
    elif resume_from:
        _go_on_from(resume_from, state)
    update = _update(preset, state, processes)
    if state.total == 0:
        state.total = processes.from_leader(
            preset.steps or _steps_for(preset, state, update, source, validation, processes, end)
        )
        if processes.leads:
            save_checkpoint(checkpoint, state)
    parameters = sum(p.numel() for p in state.network.parameters())
    print(f"{parameters:,} parameters, {state.total} steps, validation {fingerprint}", flush=True)

    log = Log(folder / "log.csv", state.step)
    clock = CLOCKS[preset.clock]
    began, first, before, saved = clock(), state.step, state.seconds, time.monotonic()
    while state.step < state.total and (stop_after is None or state.step - first < stop_after):
        if deadline < math.inf and processes.from_leader(time.monotonic() > deadline):
            break
        pools = source.at(state.step, state.total)
        state.window.append(train_step(state, update, preset, pools, processes))
        state.seconds = before + clock() - began
        if state.step % preset.log_every == 0 or state.step == state.total:
            row = _row(state, preset, processes)
            if processes.leads:
                held = validate(state.average, preset, validation, processes.device)
                log.add(row | {f"validation {key}": value for key, value in held.items()}, source.report())
            state.window = []
        if processes.leads and time.monotonic() - saved > 60 * preset.checkpoint_minutes:
            _check_finite(state)
            save_checkpoint(checkpoint, state)
            saved = time.monotonic()
    if processes.leads:
        _check_finite(state)
        save_checkpoint(checkpoint, state)
        export(folder / "weights.safetensors", state, preset, validation=fingerprint)
    leave(processes)
    return state


def _update(preset: Preset, state: State, processes: Processes) -> Update:
    if preset.compile:
        compile_blocks(state.network, preset.compile)
    learner = LEARNERS[preset.architecture]
    trainee = processes.wrap(Trainee(learner, state.network, loss_weights(preset, processes.device)))
    update = Update(state, trainee, preset.clip, processes.device, preset.precision == "bfloat16")
    return Recorded(update) if preset.record else update


def _go_on_from(path: str, state: State) -> None:
    """Start from exported weights of the same run, at their step of its schedule."""
    header, tensors = exported(path)
    for network in (state.network, state.average):
        network.load_state_dict(tensors)
    state.step = state.restart = header["extra"]["steps"]
    state.total = header["extra"]["total"]
    print(f"goes on from {path} at step {state.step} of {state.total}", flush=True)


def _steps_for(
    preset: Preset,
    state: State,
    update: Update | Recorded,
    source: Source,
    validation: Pools,
    processes: Processes,
    end: float,
) -> int:
    """Step count that fills the preset's time, from twenty steps and a validation that are timed and undone.

    The time that generation takes is added in full, though some of it will overlap.
    """
    if max(preset.minutes, preset.within) <= 0:
        raise ValueError(
            "pretrain: the preset needs steps, minutes or within above 0, got none; set one of them"
        )
    clock, making, pools = CLOCKS[preset.clock], source.seconds_per_step(), source.at(0, 1)
    with undone(state):
        state.total = 10 * TIMED_STEPS
        for dim in sorted(pools):
            for _ in range(RECORDING_STEPS if preset.record else UNTIMED_STEPS):
                train_step(state, update, preset, {dim: pools[dim]}, processes).tolist()
        began = clock()
        for _ in range(TIMED_STEPS):
            last = train_step(state, update, preset, pools, processes)
        last.tolist()  # wait for the device
        per_step = (clock() - began) / TIMED_STEPS + making
        began = clock()
        validate(state.average, preset, validation, processes.device)
        per_validation = clock() - began
    left = 60 * preset.minutes or MARGIN * (end - time.monotonic())
    per_step += per_validation / preset.log_every
    return max(int((left - per_validation) / per_step), TIMED_STEPS)


# --- the log ---


class Log:
    """The rows of log.csv up to a step; rewritten whole and renamed, so that no kill leaves half a line."""

    def __init__(self, path: Path, step: int):
        self.path = path
        rows = list(csv.DictReader(path.open(newline=""))) if path.exists() else []
        self.rows = [row for row in rows if int(row["step"]) <= step]

    def add(self, row: dict[str, float], generation: str) -> None:
        """Append a row and print what matters of it."""
        self.rows.append({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()})
        aside = self.path.with_suffix(".tmp")
        with aside.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(row), extrasaction="ignore")
            writer.writeheader()
            writer.writerows(self.rows)
        aside.rename(self.path)
        left = row["seconds"] / row["step"] * (row["total"] - row["step"])
        print(
            f"step {row['step']}/{row['total']} loss {row['loss']:.3f} plain {row['plain']:.3f} (trivial "
            f"{TRIVIAL_LOSS:.2f}) validation {row['validation loss']:.3f} gradient {row['gradient']:.2f} "
            f"{generation}trained on {row['presentations'] / max(row['seconds'], 1e-9):.0f} systems/s, "
            f"{left / 60:.1f} min left",
            flush=True,
        )


def _row(state: State, preset: Preset, processes: Processes) -> dict[str, float]:
    """What training left since the last row, over all processes."""
    _check_finite(state)
    loss, gradient, *places, uncertainty = processes.mean(torch.stack(state.window)).mean(0).tolist()
    row = {
        "step": state.step,
        "total": state.total,
        "presentations": state.step * preset.batch,
        "seconds": round(state.seconds, 1),
        "rate": learning_rate(preset, state.step, state.total, state.restart),
        "loss": loss,
        "plain": sum(places) / len(places),
        "gradient": gradient,
        "uncertainty": uncertainty,
    }
    return row | {f"train {place}": value for place, value in zip(PLACES, places, strict=True)}


def _check_finite(state: State) -> None:
    """FloatingPointError before anything is written of a run whose loss or gradients went astray."""
    for number, (loss, gradient, *_) in enumerate(torch.stack(state.window).tolist() if state.window else ()):
        if not math.isfinite(loss + gradient):
            raise FloatingPointError(
                f"pretrain: expected finite losses and gradients, got loss {loss} and gradient norm "
                f"{gradient} at step {state.step - len(state.window) + number}; lower the learning rate or "
                "look at the prior."
            )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m training.pretrain", description=__doc__)
    parser.add_argument("preset", help="name in training/presets or a TOML file")
    parser.add_argument("--run", help="folder under runs/ (default: the preset's name)")
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--minutes", type=float, help="training time on this machine, instead of the preset's"
    )
    length.add_argument("--steps", type=int, help="number of steps, instead of the preset's")
    parser.add_argument("--pause", type=float, default=float("inf"), help="stop this command after M minutes")
    parser.add_argument("--resume-from", default="", help="exported weights, where the run's folder is gone")
    parser.add_argument("--device", help="cpu or cuda, instead of the preset's")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="replace keys, TOML values")
    arguments = parser.parse_args()
    changes = tomllib.loads("\n".join(arguments.set))
    if arguments.minutes is not None:
        changes |= {"minutes": arguments.minutes, "within": 0.0, "steps": 0}
    if arguments.steps is not None:
        changes |= {"steps": arguments.steps, "within": 0.0}
    if arguments.device is not None:
        changes |= {"device": arguments.device}
    preset = read_preset(arguments.preset, changes)
    run = RUNS / (arguments.run or Path(arguments.preset).stem)
    pretrain(preset, run, pause_after=arguments.pause, resume_from=arguments.resume_from)


if __name__ == "__main__":
    main()
