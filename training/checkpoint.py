"""What changes during a run: made, kept so that nothing is lost, restored, exported."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from fim_dynsys.models.fim_ode.networks import read_tensors, save_weights
from fim_dynsys.models.fim_ode.weights import header_of_ours
from fim_dynsys.writing import replace_file
from training.learner import LEARNERS
from training.preset import Preset

WINDOW = 6  # what a step leaves: loss, gradient norm, mean log error at the three places, uncertainty
HEAD = ("uncertainty", "uncertainty_head")


@dataclass
class State:
    """A run between two steps.

    Attributes
    ----------
    network, average : nn.Module
        The weights and their running average, which is what gets exported.
    optimiser : Optimizer
        Of all parameters of `network`.
    step, total : int
        Steps taken, and steps of the whole run (0 while unknown).
    restart : int
        Step at which the optimiser started from nothing.
    seconds : float
        Time trained, over all commands.
    window : list of Tensor (WINDOW,)
        One for each step since the last log row.
    """

    network: nn.Module
    average: nn.Module
    optimiser: torch.optim.Optimizer
    step: int = 0
    total: int = 0
    restart: int = 0
    seconds: float = 0.0
    window: list[Tensor] = field(default_factory=list)


def new_state(preset: Preset, device: torch.device | str = "cpu") -> State:
    """Fresh network, its average and the optimiser, from the preset's seed."""
    torch.manual_seed(preset.seed)
    build = LEARNERS[preset.architecture].network
    network, average = build(preset.network), build(preset.network)
    if preset.initial:
        _, tensors = exported(preset.initial)
        fresh = network.load_state_dict(tensors, strict=False).missing_keys
        print(f"started from {preset.initial}; fresh: {', '.join(fresh) or 'nothing'}", flush=True)
    average.load_state_dict(network.state_dict())
    network, average = network.to(device), average.to(device).eval().requires_grad_(False)
    return State(network, average, _adamw(preset, network, torch.device(device)))


def _adamw(preset: Preset, network: nn.Module, device: torch.device) -> torch.optim.Optimizer:
    """AdamW; only matrices decay. On a GPU one kernel for all, which a recorded step can replay."""
    groups = [
        {"params": [p for p in network.parameters() if p.ndim > 1], "weight_decay": preset.weight_decay},
        {"params": [p for p in network.parameters() if p.ndim <= 1], "weight_decay": 0.0},
    ]
    betas = (0.9, 0.98)
    if device.type != "cuda":
        return torch.optim.AdamW(groups, lr=preset.learning_rate, betas=betas)
    rate = torch.tensor(preset.learning_rate, device=device)
    return torch.optim.AdamW(groups, lr=rate, betas=betas, fused=True, capturable=True)


@contextmanager
def undone(state: State) -> Iterator[None]:
    """Take back every step that a fresh run makes inside, in place: recorded steps hold on to its tensors."""
    networks = (state.network, state.average)
    before = [value.clone() for network in networks for value in network.state_dict().values()]
    yield
    after = [value for network in networks for value in network.state_dict().values()]
    for value, was in zip(after, before, strict=True):
        value.copy_(was)
    for kept in state.optimiser.state.values():
        for value in kept.values():
            value.zero_()
    state.step = state.total = 0


# --- checkpoints ---


def save_checkpoint(path: Path, state: State) -> None:
    """Write everything needed to go on; an interruption or a full disk (OSError) loses nothing."""
    tensors = {f"network.{k}": v for k, v in state.network.state_dict().items()}
    tensors |= {f"average.{k}": v for k, v in state.average.state_dict().items()}
    for name, parameter in state.network.named_parameters():
        for key, value in state.optimiser.state[parameter].items():
            tensors[f"optimiser.{key}.{name}"] = value
    if state.window:
        tensors["window"] = torch.stack(state.window)
    numbers = {key: getattr(state, key) for key in ("step", "total", "restart", "seconds")}
    content = {k: v.detach().contiguous() for k, v in tensors.items()}
    replace_file(path, save(content, {key: repr(value) for key, value in numbers.items()}))


def load_checkpoint(path: Path, state: State) -> None:
    """Restore what `save_checkpoint` wrote into a state of the same preset."""
    with safe_open(path, framework="pt") as file:
        tensors = {k: file.get_tensor(k) for k in file.keys()}  # noqa: SIM118
        numbers = {key: json.loads(value) for key, value in file.metadata().items()}
    for key, value in numbers.items():
        setattr(state, key, value)

    def part(prefix: str) -> dict[str, Tensor]:
        return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

    state.network.load_state_dict(part("network."))
    state.average.load_state_dict(part("average."))
    kept: dict[str, dict[str, Tensor]] = {}
    for rest, value in part("optimiser.").items():
        key, _, name = rest.partition(".")
        kept.setdefault(name, {})[key] = value
    for name, parameter in state.network.named_parameters():
        # a step counter stays on the host, where AdamW reads it, unless its kernel does
        stays = () if state.optimiser.defaults["capturable"] else ("step",)
        state.optimiser.state[parameter].update(
            {k: v if k in stays else v.to(parameter.device) for k, v in kept.get(name, {}).items()}
        )
    device = next(state.network.parameters()).device
    state.window = list(tensors["window"].to(device)) if "window" in tensors else []


# --- weights for others ---


def export(path: Path, state: State, preset: Preset, **extra: object) -> list[Path]:
    """Write the averaged weights as float16 with a header that names the architecture and the run.

    The published network goes into two files, so that each stays under 16 MiB: the field predictor, a
    network of its own without uncertainty head, and the head beside it.
    """
    header = {
        "steps": state.step,
        "total": state.total,
        "presentations": state.step * preset.batch,
        "pools": preset.pools,
        **extra,
    }
    network, config = state.average, preset.network
    if preset.architecture == "published" and config.uncertainty_layers:
        head = path.with_name(f"{path.stem}-uncertainty{path.suffix}")
        parts = nn.ModuleDict({name: getattr(network, name) for name in HEAD})
        save_weights(head, parts, "published", config, config.max_dim, header)
        header["head"], config = head.name, replace(config, uncertainty_layers=0)
        predictor = LEARNERS["published"].network(config)
        predictor.load_state_dict(_without_head(network.state_dict()))
        return [save_weights(path, predictor, "published", config, config.max_dim, header), head]
    return [save_weights(path, network, preset.architecture, config, config.max_dim, header)]


def _without_head(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if name.partition(".")[0] not in HEAD}


def exported(path: Path | str) -> tuple[dict, dict[str, Tensor]]:
    """Header and tensors of an exported network, with the uncertainty head where its file is there."""
    header, tensors = header_of_ours(path), read_tensors(path)
    head = Path(path).parent / header["extra"].get("head", "")  # the folder itself where there is none
    return header, tensors | (read_tensors(head) if head.is_file() else {})
