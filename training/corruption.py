"""What an observer sees of clean trajectories: noise, dropped samples, several trajectories, as tensors."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True)
class Observation:
    """How contexts are observed; every share is a probability per context, ranges are uniform.

    The number of kept samples and of trajectories is drawn once a batch, so that batches need no padding;
    noise levels are drawn per context, noise before dropping, as in the FIM-ODE paper (data generation).
    """

    noise_high: float = 0.06
    clean_share: float = 0.2
    additive_share: float = 0.0
    drop_high: float = 0.5
    window_share: float = 0.0
    trajectory_counts: tuple[int, ...] = (1,)


class Context(NamedTuple):
    """Observed batch: times (B, K, L), states (B, K, L, d), mask (B, K, L), trajectories used (B, K)."""

    t: Tensor
    x: Tensor
    mask: Tensor
    chosen: Tensor


def on_host(generator: torch.Generator) -> torch.Generator:
    """The generator itself on the CPU; else one there with its seed, whose numbers need not be waited for."""
    if generator.device.type == "cpu":
        return generator
    return torch.Generator().manual_seed(generator.initial_seed())


def _uniform(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=generator, device=generator.device)


def observe(states: Tensor, step: float, settings: Observation, generator: torch.Generator) -> Context:
    """Corrupt clean states (B, T, N, d) of T trajectories sampled every `step`."""
    b, n_trajectories, n, d = states.shape
    host = on_host(generator)
    pick = int(torch.randint(len(settings.trajectory_counts), (1,), generator=host))
    k = settings.trajectory_counts[pick]
    chosen = _uniform(generator, b, n_trajectories).argsort(-1)[:, :k]
    clean = states.gather(1, chosen[..., None, None].expand(-1, -1, n, d))
    length = n
    if float(_uniform(host, 1)) < settings.window_share:
        length = int(n * (0.25 + 0.75 * float(_uniform(host, 1))))
    sigma = settings.noise_high * _uniform(generator, b, 1, 1, 1)
    sigma = sigma * (_uniform(generator, b, 1, 1, 1) >= settings.clean_share)
    spread = clean.std((1, 2), correction=0, keepdim=True)
    additive = _uniform(generator, b, 1, 1, 1) < settings.additive_share
    unit = torch.where(additive, spread.expand_as(clean), clean)
    noisy = clean + sigma * unit * torch.randn(clean.shape, generator=generator, device=generator.device)
    kept = max(int((1 - settings.drop_high * float(_uniform(host, 1))) * length), 12)
    index = _uniform(generator, b, k, length).argsort(-1)[..., :kept].sort(-1).values
    x = noisy[:, :, :length].gather(2, index[..., None].expand(-1, -1, -1, d))
    return Context(step * index.to(x.dtype), x, torch.ones_like(index, dtype=torch.bool), chosen)
