"""What an observer sees of clean trajectories: noise, dropped samples, several trajectories, as tensors."""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor


class Context(NamedTuple):
    """Observed batch: times (B, K, L), states (B, K, L, d), mask (B, K, L), trajectories used (B, K).

    Observed samples come first and in order; the rest is padding.
    """

    t: Tensor
    x: Tensor
    mask: Tensor
    chosen: Tensor


class Observer(Protocol):
    """Settings that know how to observe."""

    def observe(self, states: Tensor, step: float, generator: torch.Generator) -> Context:
        """Corrupt clean states (B, T, N, d) of T trajectories sampled every `step`."""


def on_host(generator: torch.Generator) -> torch.Generator:
    """The generator itself on the CPU; else one there with its seed, whose numbers need not be waited for."""
    if generator.device.type == "cpu":
        return generator
    return torch.Generator().manual_seed(generator.initial_seed())


def _uniform(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=generator, device=generator.device)


def _normal_like(values: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(values.shape, generator=generator, device=generator.device)


def _along_samples(values: Tensor, index: Tensor) -> Tensor:
    """Rows (B, K, L) of samples of (B, K, N, d)."""
    return values.gather(2, index[..., None].expand(*index.shape, values.shape[-1]))


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

    def observe(self, states: Tensor, step: float, generator: torch.Generator) -> Context:
        """Corrupt clean states (B, T, N, d) of T trajectories sampled every `step`."""
        b, n_trajectories, n, d = states.shape
        host = on_host(generator)
        pick = int(torch.randint(len(self.trajectory_counts), (1,), generator=host))
        k = self.trajectory_counts[pick]
        chosen = _uniform(generator, b, n_trajectories).argsort(-1)[:, :k]
        clean = states.gather(1, chosen[..., None, None].expand(-1, -1, n, d))
        length = n
        if float(_uniform(host, 1)) < self.window_share:
            length = int(n * (0.25 + 0.75 * float(_uniform(host, 1))))
        sigma = self.noise_high * _uniform(generator, b, 1, 1, 1)
        sigma = sigma * (_uniform(generator, b, 1, 1, 1) >= self.clean_share)
        spread = clean.std((1, 2), correction=0, keepdim=True)
        additive = _uniform(generator, b, 1, 1, 1) < self.additive_share
        unit = torch.where(additive, spread.expand_as(clean), clean)
        noisy = clean + sigma * unit * _normal_like(clean, generator)
        kept = max(int((1 - self.drop_high * float(_uniform(host, 1))) * length), 12)
        index = _uniform(generator, b, k, length).argsort(-1)[..., :kept].sort(-1).values
        x = _along_samples(noisy[:, :, :length], index)
        return Context(step * index.to(x.dtype), x, torch.ones_like(index, dtype=torch.bool), chosen)


@dataclass(frozen=True)
class WideObservation:
    """Anything a user may bring: few or many samples, uneven times, windows, gaps, missing coordinates.

    Every share is a probability per context. Shapes are drawn once a batch from few possibilities, so that a
    compiled network meets few of them; everything else is drawn per context or per trajectory.

    Attributes
    ----------
    slots : tuple of int
        Room for samples, drawn once a batch; a trajectory has between half of that and all of it.
    fewest : int
        Least number of samples of a trajectory.
    trajectory_counts : tuple of int
        Room for trajectories, drawn once a batch; a context has between one and all of them.
    noise_high, clean_share, additive_share, both_share
        Relative noise, uniform up to the first: of the state, of the spread of its coordinate, or of both.
    irregular_share, clustered_share
        Random sample times, or ones that gather round a few moments; the rest are evenly spaced.
    window_share, window_low
        Contexts of which only parts of the motion are seen, and the shortest part.
    missing_share, missing_high
        Contexts that lack single coordinates, and the largest probability of one. Such samples are dropped,
        as operators do at inference.
    """

    slots: tuple[int, ...] = (20, 50, 100, 200, 600)
    fewest: int = 10
    trajectory_counts: tuple[int, ...] = (1, 1, 1, 2, 4)
    noise_high: float = 0.15
    clean_share: float = 0.2
    additive_share: float = 0.3
    both_share: float = 0.2
    irregular_share: float = 0.35
    clustered_share: float = 0.15
    window_share: float = 0.4
    window_low: float = 0.15
    missing_share: float = 0.15
    missing_high: float = 0.3

    def observe(self, states: Tensor, step: float, generator: torch.Generator) -> Context:
        """Corrupt clean states (B, T, N, d) of T trajectories sampled every `step`."""
        b, n_trajectories, n, d = states.shape
        host = on_host(generator)
        k, room = (
            choices[int(torch.randint(len(choices), (1,), generator=host))]
            for choices in (self.trajectory_counts, self.slots)
        )
        room = min(room, n)
        used = 1 + (_uniform(generator, b, 1) * k).long()
        order = _uniform(generator, b, n_trajectories).argsort(-1)
        place = torch.arange(k, device=states.device)
        chosen = order.gather(1, place % used)  # places not used repeat those that are
        clean = states.gather(1, chosen[..., None, None].expand(-1, -1, n, d))
        first, last = self._windows(b, k, n, generator)
        least = max(room // 2, self.fewest)
        count = least + (_uniform(generator, b, k) * (room - least + 1)).long()
        count = torch.minimum(count, last - first + 1) * (place < used)
        index = self._times(first, last, count, n, room, generator)
        seen = torch.arange(room, device=states.device) < count[..., None]
        x = _along_samples(self._noisy(clean, generator), index)
        seen = self._complete(seen, d, generator)
        packed = (~seen).to(torch.uint8).argsort(dim=-1, stable=True)
        t = step * index.to(x.dtype)
        return Context(t.gather(2, packed), _along_samples(x, packed), seen.gather(2, packed), chosen)

    def _windows(self, b: int, k: int, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """First and last sample (B, K) of what is seen of each trajectory."""
        part = self.window_low + (1 - self.window_low) * _uniform(generator, b, k)
        part = torch.where(_uniform(generator, b, 1) < self.window_share, part, 1.0)
        length = (part * n).long().clamp(min=min(self.fewest, n))
        first = (_uniform(generator, b, k) * (n - length + 1)).long()
        return first, first + length - 1

    def _times(
        self, first: Tensor, last: Tensor, count: Tensor, n: int, room: int, generator: torch.Generator
    ) -> Tensor:
        """Ordered indices (B, K, room) of each trajectory's samples; those beyond `count` mean nothing."""
        b, k = first.shape
        slot = torch.arange(room, device=first.device)
        even = first[..., None] + slot * (last - first)[..., None] // (count[..., None] - 1).clamp(min=1)
        place = torch.arange(n, device=first.device)
        centre = first[..., None] + _uniform(generator, b, k, 3) * (last - first)[..., None]
        width = (0.03 + 0.1 * _uniform(generator, b, k, 3)) * (last - first)[..., None] + 1
        distance = (place[:, None] - centre[..., None, :]) / width[..., None, :]
        density = torch.exp(-0.5 * distance**2).sum(-1)
        kind = _uniform(generator, b, 1, 1)
        clustered = kind < self.clustered_share
        score = torch.where(clustered, torch.log(density + 1e-3), 0.0)
        # the largest of independent Gumbel numbers plus log weights are a sample without replacement
        score = score - torch.log(-torch.log(_uniform(generator, b, k, n).clamp(1e-7, 1 - 1e-7)))
        inside = (place >= first[..., None]) & (place <= last[..., None])
        rank = score.masked_fill(~inside, -math.inf).argsort(-1, descending=True).argsort(-1)
        taken = rank < count[..., None]
        uneven = (~taken).to(torch.uint8).argsort(dim=-1, stable=True)[..., :room]
        return torch.where(kind < self.clustered_share + self.irregular_share, uneven, even.clamp(max=n - 1))

    def _noisy(self, clean: Tensor, generator: torch.Generator) -> Tensor:
        b = len(clean)
        sigma = self.noise_high * _uniform(generator, b, 1, 1, 1)
        sigma = sigma * (_uniform(generator, b, 1, 1, 1) >= self.clean_share)
        kind = _uniform(generator, b, 1, 1, 1)
        additive = kind < self.additive_share + self.both_share
        relative = (kind >= self.additive_share).to(clean.dtype)
        spread = clean.std((1, 2), correction=0, keepdim=True) * additive
        noise = relative * clean * _normal_like(clean, generator) + spread * _normal_like(clean, generator)
        return clean + sigma * noise

    def _complete(self, seen: Tensor, d: int, generator: torch.Generator) -> Tensor:
        """Without the samples that lack a coordinate, where enough others are left."""
        b, k, room = seen.shape
        chance = self.missing_high * _uniform(generator, b, 1, 1, 1)
        chance = chance * (_uniform(generator, b, 1, 1, 1) < self.missing_share)
        whole = seen & (_uniform(generator, b, k, room, d) >= chance).all(-1)
        return torch.where(whole.sum(-1, keepdim=True) >= self.fewest, whole, seen)


OBSERVERS = {"paper": Observation, "wide": WideObservation}
