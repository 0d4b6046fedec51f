"""Everything that determines a run, read from TOML, and the learning rate that follows from it."""

import math
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from fim_dynsys.models.fim_ode.configuration import AmortisedConfig
from fim_dynsys.models.fim_ode.published import PublishedConfig
from training.learner import LEARNERS
from training.systems.corruption import OBSERVERS, Observation, Observer
from training.systems.generation import N_SAMPLES

PRESETS = Path(__file__).parent / "presets"
CHOICES = {
    "architecture": tuple(LEARNERS),
    "generation": ("float32", "float64"),
    "precision": ("float32", "bfloat16"),
    "clock": ("wall", "cpu"),
    "compile": ("", "default", "reduce-overhead", "max-autotune"),
}


@dataclass(frozen=True)
class Stage:
    """What is seen of systems after that share of the steps."""

    after: float
    observation: Observer


@dataclass(frozen=True)
class Preset:
    """One run; read from training/presets/NAME.toml, unknown keys and values raise.

    Attributes
    ----------
    architecture, network
        A name in `training.learner.LEARNERS` and that operator's configuration.
    observation
        What is seen of a system: a table of `training.systems.corruption`, "paper" unless its key `like` says
        "wide".
    stages : tuple of Stage
        A curriculum: what is seen later on instead, each a table with `after`, a share of the steps, beside
        an observation's keys. Validation is under each of them.
    pools : tuple of (prior, dimension, number)
        Systems to train on. Kept in files and used throughout, unless `refresh` is set.
    refresh : int
        Steps after which all systems are replaced by fresh ones, made while training goes on.
    makers : int
        Processes that make all systems before training, on its device, where `refresh` is 0; they are not
        kept in files. 0: this process makes them.
    samples, generation
        States of each trajectory to observe from, and the type in which they are integrated.
    dim_shares
        Share of batches of each dimension.
    batch, queries
        Systems a step, over all processes; points a place.
    place_weights, early_weight
        Weight of the loss on own path, other paths and box, and of an operator's earlier answers.
    steps, minutes, within, clock
        Length of the run: steps; minutes of wall or CPU time of the steps; or minutes of wall time within
        which the whole command ends, systems and compilation included. Times become steps once, after timing
        some.
    learning_rate, final_learning_rate, warmup, weight_decay, clip, ema
        Cosine from the first rate to the final one after a linear warm-up over that share of the steps;
        norm at which gradients are clipped; decay of the averaged weights.
    initial
        Weights file to start from; parts of the network it lacks start fresh.
    validation, log_every, checkpoint_minutes
        Held-out systems per pool; steps between log rows; wall time between checkpoints.
    device, precision, compile, record, threads
        Where and how to compute; bfloat16 and compilation (a mode of `torch.compile`; "reduce-overhead"
        records CUDA graphs of layers) are for operators without solves. `record` replays whole steps as CUDA
        graphs.
    """

    architecture: str = "amortised"
    network: AmortisedConfig | PublishedConfig = field(default_factory=AmortisedConfig)
    observation: Observer = field(default_factory=Observation)
    stages: tuple[Stage, ...] = ()
    pools: tuple[tuple[str, int, int], ...] = (("paper", 1, 64), ("paper", 2, 64), ("paper", 3, 64))
    refresh: int = 0
    makers: int = 0
    samples: int = N_SAMPLES
    generation: str = "float32"
    dim_shares: tuple[float, ...] = (0.2, 0.35, 0.45)
    batch: int = 48
    queries: int = 64
    place_weights: tuple[float, float, float] = (1.0, 1.0, 0.5)
    early_weight: float = 0.15
    steps: int = 0
    minutes: float = 0.0
    within: float = 0.0
    clock: str = "wall"
    learning_rate: float = 2e-3
    final_learning_rate: float = 1e-5
    warmup: float = 0.03
    weight_decay: float = 1e-4
    clip: float = 1.0
    ema: float = 0.998
    seed: int = 0
    initial: str = ""
    validation: int = 64
    log_every: int = 50
    checkpoint_minutes: float = 3.0
    device: str = "cpu"
    precision: str = "float32"
    compile: str = ""
    record: bool = False
    threads: int = 1

    def __post_init__(self) -> None:
        for key, known in CHOICES.items():
            if getattr(self, key) not in known:
                raise ValueError(
                    f"pretrain: expected {key} to be one of {known}, got {getattr(self, key)!r}; correct the "
                    "preset."
                )
        shares = [stage.after for stage in self.stages]
        if shares != sorted(set(shares)) or not all(0 < share < 1 for share in shares):
            raise ValueError(
                f"pretrain: expected stages after growing shares of the steps between 0 and 1, got {shares}."
            )
        if self.record and not self.device.startswith("cuda"):
            raise ValueError(
                f"pretrain: expected record only where device is cuda, got {self.device!r}; CUDA "
                "graphs need it."
            )
        if self.minutes and self.within:
            raise ValueError(
                f"pretrain: expected minutes or within, got both ({self.minutes}, {self.within}); the first "
                "is the time of the steps, the second of the whole command."
            )
        if self.makers and self.refresh:
            raise ValueError(
                f"pretrain: expected makers or refresh, got both ({self.makers}, {self.refresh}): "
                "processes make all systems before training, or blocks are made while it goes on."
            )
        if not LEARNERS[self.architecture].dense and (self.compile or self.precision != "float32"):
            raise ValueError(
                f"pretrain: expected float32 without compilation for {self.architecture!r}, whose solves "
                f"need it, got precision {self.precision!r} and compile {self.compile!r}; leave both out."
            )


def observer(preset: Preset, step: int, total: int) -> Observer:
    """Who observes at a step of so many."""
    begun = [stage.observation for stage in preset.stages if step >= stage.after * total]
    return [preset.observation, *begun][-1]


def read_preset(name: str, changes: dict | None = None) -> Preset:
    """Preset by name or path, with single keys replaced; unknown keys raise ValueError.

    Of a table, too, the keys that are not given stay, unless it is another architecture's or another kind's.
    """
    path = Path(name) if name.endswith(".toml") else PRESETS / f"{name}.toml"
    if not path.exists():
        known = sorted(p.stem for p in PRESETS.glob("*.toml"))
        raise ValueError(f"pretrain: no preset {name!r} at {path}; known presets: {', '.join(known)}")
    given, changes = tomllib.loads(path.read_text()), changes or {}
    values, own = {**given, **changes}, given.get("architecture", Preset.architecture)
    another = {"network": changes.get("architecture", own) != own}
    for key, table in changes.items():
        if isinstance(table, dict) and not another.get(key, "like" in table):
            values[key] = {**given.get(key, {}), **table}
    _check_keys(f"preset {path}", values, Preset)
    architecture = values.get("architecture", Preset.architecture)
    kinds = {"observation": _observer(values, path)}
    if "stages" in values:
        values["stages"] = tuple(_stage(dict(stage), path) for stage in values["stages"])
    if architecture in LEARNERS:
        kinds["network"] = LEARNERS[architecture].config
        values.setdefault("network", {})
    return Preset(**{key: _built(key, value, kinds, path) for key, value in values.items()})


def _stage(values: dict, path: Path) -> Stage:
    if "after" not in values:
        raise ValueError(f"pretrain: expected after in every table of stages of {path}, got {sorted(values)}")
    after = values.pop("after")
    table = {"observation": values}
    kind = _observer(table, path)
    return Stage(after, _built("observation", table["observation"], {"observation": kind}, path))


def _built(key: str, value: Any, tables: dict[str, type], path: Path) -> Any:
    if key not in tables:
        return _tuples(value)
    _check_keys(f"[{key}] of preset {path}", value, tables[key])
    return tables[key](**{name: _tuples(item) for name, item in value.items()})


def _observer(values: dict, path: Path) -> type:
    """The observation that a preset is written for; takes the key that says so out of it."""
    table = dict(values.get("observation", {}))
    like = table.pop("like", "paper")
    if like not in OBSERVERS:
        raise ValueError(
            f"pretrain: expected like in [observation] of {path} among {list(OBSERVERS)}, got {like!r}."
        )
    values["observation"] = table
    return OBSERVERS[like]


def _check_keys(where: str, values: dict, config: type) -> None:
    unknown = set(values) - {f.name for f in fields(config)}
    if unknown:
        raise ValueError(f"pretrain: {where} has unknown keys {sorted(unknown)}")


def _tuples(value: Any) -> Any:
    """TOML's lists as the tuples that frozen configurations hold."""
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def learning_rate(preset: Preset, step: int, total: int, restart: int = 0) -> float:
    """Linear warm-up, then a cosine to the final rate, as a function of the step alone.

    A run that goes on from exported weights warms up once more from the step `restart`, for its optimiser
    has forgotten everything.
    """
    warm = max(int(preset.warmup * total), 1)
    if step < warm:
        return preset.learning_rate * (step + 1) / warm
    progress = (step - warm) / max(total - warm, 1)
    low = preset.final_learning_rate
    rate = low + (preset.learning_rate - low) * 0.5 * (1 + math.cos(math.pi * progress))
    return rate * min((step - restart + 1) / warm, 1.0) if restart else rate
