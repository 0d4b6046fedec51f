"""Patch-token attention: what a plain transformer makes of a context, for the scaling study.

Eight successive samples make a token; tokens of all trajectories attend to one another, and every query
attends to them. Nothing of regression is built in. The answer is decoded point by point.

Limits: up to `max_dim` coordinates; the cost of a query grows with the number of samples, that of encoding
with its square. Invariant to the order of trajectories, to padding, to the other members of a batch, to
shifts and units of states and time; not to the order of coordinates.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fim_dynsys.models.fim_ode.normalisation import Normalisation, moments

NORM_EPS = 1e-6
_LAG_SHARE = 25  # the speed that sets the unit of time is measured over a 25th of a trajectory's samples


@dataclass(frozen=True)
class PatchConfig:
    """Sizes of a `PatchNetwork`; the defaults make 1.5 million parameters.

    Attributes
    ----------
    max_dim : int
        Largest dimension of the states; smaller ones are padded with zeros.
    patch : int
        Samples to a token; neighbouring tokens share one.
    width, heads, feedforward : int
        Width of tokens, a multiple of the number of heads; hidden width of each block.
    encoder_layers, decoder_layers : int
    """

    max_dim: int = 3
    patch: int = 8
    width: int = 128
    heads: int = 4
    feedforward: int = 512
    encoder_layers: int = 4
    decoder_layers: int = 3

    def __post_init__(self):
        if self.width % self.heads:
            raise ValueError(
                f"PatchConfig: expected a width divisible by the number of heads, got width {self.width} "
                f"with {self.heads} heads; change one of them."
            )


class Encoding(NamedTuple):
    """Encoded contexts: tokens (B, J, width), mask (B, J) of real tokens, and the units they are in."""

    tokens: Tensor
    mask: Tensor
    normalisation: Normalisation


class Memory(NamedTuple):
    """What queries of a layer attend to: keys and values (..., H, J, C), and 0 or -inf for each (..., J)."""

    keys: Tensor
    values: Tensor
    absent: Tensor


class RMSNorm(nn.Module):
    """Root-mean-square norm from elementary operations, whose derivatives of any order are exact."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, h: Tensor) -> Tensor:
        return h * torch.rsqrt(h.square().mean(-1, keepdim=True) + NORM_EPS) * self.weight


class Attention(nn.Module):
    """Softmax attention by plain products: on CPUs its backward pass is faster than the fused kernel's."""

    def __init__(self, config: PatchConfig):
        super().__init__()
        self.heads = config.heads
        self.query = nn.Linear(config.width, config.width, bias=False)
        self.key = nn.Linear(config.width, config.width, bias=False)
        self.value = nn.Linear(config.width, config.width, bias=False)
        self.out = nn.Linear(config.width, config.width, bias=False)

    def remember(self, tokens: Tensor, mask: Tensor) -> Memory:
        """Keys and values of tokens (B, J, width), of which those where `mask` (B, J) is True count."""
        absent = torch.zeros_like(mask, dtype=tokens.dtype).masked_fill(~mask, -torch.inf)
        return Memory(self._split(self.key(tokens)), self._split(self.value(tokens)), absent)

    def forward(self, h: Tensor, memory: Memory) -> Tensor:
        queries = self._split(self.query(h)) / math.sqrt(h.shape[-1] // self.heads)
        weights = queries @ memory.keys.transpose(-1, -2) + memory.absent[..., None, None, :]
        mixed = weights.softmax(-1).to(memory.values.dtype) @ memory.values
        return self.out(mixed.transpose(-2, -3).flatten(-2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(-2, -3)


class Block(nn.Module):
    """Attention, then a feed-forward layer, each with a norm before it and a residual."""

    def __init__(self, config: PatchConfig):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(config.width), RMSNorm(config.width)
        self.attention = Attention(config)
        self.expand = nn.Linear(config.width, config.feedforward)
        self.contract = nn.Linear(config.feedforward, config.width)

    def forward(self, h: Tensor, memory: Memory) -> Tensor:
        h = h + self.attention(self.norm1(h), memory)
        return h + self.contract(F.gelu(self.expand(self.norm2(h))))


class Reader(nn.Module):
    """The part of the network that answers queries; a layer's memory depends on the context alone."""

    def __init__(self, config: PatchConfig):
        super().__init__()
        self.config = config
        self.embedding = nn.Sequential(
            nn.Linear(config.max_dim, config.width), nn.GELU(), nn.Linear(config.width, config.width)
        )
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.decoder_layers))
        self.norm = RMSNorm(config.width)
        self.head = nn.Linear(config.width, config.max_dim)
        nn.init.zeros_(self.head.weight)  # training starts from a field of zeros, not from a wrong one
        nn.init.zeros_(self.head.bias)

    def remember(self, tokens: Tensor, mask: Tensor) -> tuple[Memory, ...]:
        """Memory of every layer."""
        return tuple(block.attention.remember(tokens, mask) for block in self.blocks)

    def forward(self, z: Tensor, memories: tuple[Memory, ...]) -> Tensor:
        """Normalised field (..., Q, max_dim) at normalised states (..., Q, max_dim)."""
        h = self.embedding(z)
        for block, memory in zip(self.blocks, memories, strict=True):
            h = block(h, memory)
        return self.head(self.norm(h))


class PatchNetwork(nn.Module):
    """The operator; see the module's docstring. `encode` reads contexts, `decode` answers queries.

    Parameters
    ----------
    config : PatchConfig
    """

    def __init__(self, config: PatchConfig | None = None):
        super().__init__()
        config = PatchConfig() if config is None else config
        self.config = config
        states, steps = config.patch, config.patch - 1
        features = config.max_dim * (states + steps) + 2 * states
        self.embedding = nn.Sequential(
            nn.Linear(features, config.feedforward), nn.GELU(), nn.Linear(config.feedforward, config.width)
        )
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.encoder_layers))
        self.norm = RMSNorm(config.width)
        self.reader = Reader(config)

    def encode(self, t: Tensor, x: Tensor, mask: Tensor) -> Encoding:
        """Encode contexts.

        Parameters
        ----------
        t : Tensor (B, K, L)
            Times of K trajectories with L slots each, sorted; any spacing.
        x : Tensor (B, K, L, D)
            States, ``D <= max_dim``.
        mask : Tensor (B, K, L), bool
            True where a point was observed, the first slots of each trajectory; the rest is never read.
        """
        t = torch.where(mask, t.double(), 0.0)
        x = torch.where(mask[..., None], self._padded(x).double(), 0.0)
        normalisation = _units(t, x, mask)
        features, real = self._patches(t, x, mask, normalisation)
        h = self.embedding(features.to(self.norm.weight.dtype))
        for block in self.blocks:
            h = block(h, block.attention.remember(block.norm1(h), real))
        return Encoding(self.norm(h), real, normalisation)

    def decode(self, encoding: Encoding, queries: Tensor) -> Tensor:
        """Field (B, Q, D) at `queries` (B, Q, D), in the units of the data."""
        z = encoding.normalisation.states(self._padded(queries).double()).to(encoding.tokens.dtype)
        g = self.reader(z, self.reader.remember(encoding.tokens, encoding.mask))
        return encoding.normalisation.field(g)[..., : queries.shape[-1]]

    def _patches(
        self, t: Tensor, x: Tensor, mask: Tensor, normalisation: Normalisation
    ) -> tuple[Tensor, Tensor]:
        """Features (B, J, F) of runs of samples, and which of them (B, J) hold a step."""
        size = self.config.patch
        length = t.shape[-1]
        count = max(-(-(length - 1) // (size - 1)), 1)
        missing = count * (size - 1) + 1 - length

        def runs(values: Tensor, axis: int) -> Tensor:
            return values.unfold(axis, size, size - 1)

        time = runs(F.pad(t * normalisation.rate[:, None, None], (0, missing)), 2)
        z = runs(F.pad(normalisation.states(x), (0, 0, 0, missing)), 2).transpose(-1, -2)
        seen = runs(F.pad(mask, (0, missing)), 2)
        both = seen[..., 1:] & seen[..., :-1]
        step = torch.where(both, time.diff(dim=-1), 1.0)
        slopes = torch.where(both[..., None], z.diff(dim=-2) / step[..., None].clamp(min=1e-12), 0.0)
        z = torch.where(seen[..., None], z, 0.0)
        since = torch.where(seen, time - time[..., :1], 0.0)
        parts = (z.flatten(-2), slopes.asinh().flatten(-2), torch.log1p(since), seen.to(z.dtype))
        return torch.cat(parts, -1).flatten(1, 2), both.any(-1).flatten(1)

    def _padded(self, x: Tensor) -> Tensor:
        missing = self.config.max_dim - x.shape[-1]
        if missing < 0:
            raise ValueError(
                f"PatchNetwork: expected states of dimension at most {self.config.max_dim}, got "
                f"{x.shape[-1]}; reduce them first, for example with PCAReduction."
            )
        return F.pad(x, (0, missing))


class PatchDecoder:
    """The network's reader, frozen, in one type on one device; what a `DecodedField` decodes with.

    Parameters
    ----------
    network : PatchNetwork
        Copied; later training of it leaves this decoder as it is.
    dtype : torch.dtype
        Type of the copy.
    """

    def __init__(self, network: PatchNetwork, dtype: torch.dtype = torch.float64):
        self.config = network.config
        self._reader = _copied(network.reader, dtype, None)

    @property
    def dtype(self) -> torch.dtype:
        """Type the decoder computes in."""
        return self._reader.head.weight.dtype

    @property
    def device(self) -> torch.device:
        """Device the decoder computes on."""
        return self._reader.head.weight.device

    def to(
        self, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> "PatchDecoder":
        """The same decoder in another type or on another device."""
        moved = object.__new__(PatchDecoder)
        moved.config, moved._reader = self.config, _copied(self._reader, dtype, device)
        return moved

    @torch.no_grad()
    def summarise(self, tokens: Tensor, mask: Tensor) -> tuple[Memory, ...]:
        """Memory of a batch of encoded contexts (B, J, width), mask (B, J), for each layer."""
        return self._reader.remember(tokens.to(self.dtype), mask)

    def __call__(self, z: Tensor, summaries: tuple[Memory, ...]) -> Tensor:
        """Normalised field (n, max_dim) at normalised states `z` (n, max_dim).

        The memories are one context's, or one for each row.
        """
        if summaries[0].absent.ndim == 1:
            return self._reader(z, summaries)
        return self._reader(z[:, None], summaries)[:, 0]


def _copied(reader: Reader, dtype: torch.dtype | None, device: torch.device | str | None) -> Reader:
    copy = Reader(reader.config)
    copy.load_state_dict(reader.state_dict())
    old = reader.head.weight
    return copy.to(device=device or old.device, dtype=dtype or old.dtype).requires_grad_(False)


def _units(t: Tensor, x: Tensor, mask: Tensor) -> Normalisation:
    """Mean and standard deviation of the states, and as unit of time that of travelling one deviation.

    The speed is that of steps over many samples, where noise counts little.
    """
    mean, std = moments(x, mask)
    lag = (mask.sum(-1) // _LAG_SHARE).clamp(min=1)  # (B, K)
    place = torch.arange(t.shape[-1], device=t.device) + lag[..., None]
    later = place.clamp(max=t.shape[-1] - 1)
    valid = mask & (place < t.shape[-1]) & mask.gather(-1, later)
    dt = torch.where(valid, t.gather(-1, later) - t, 1.0)
    dx = (x.gather(2, later[..., None].expand_as(x)) - x) / std[:, None, None]
    speed = torch.where(valid[..., None], dx / dt[..., None], 0.0).square().sum((1, 2))
    # coordinates that do not move, padding among them, say nothing of the pace
    moving = speed > 0
    mean_square = speed.sum(-1) / (valid.sum((1, 2)) * moving.sum(-1)).clamp(min=1)
    return Normalisation(mean, std, torch.where(mean_square > 0, mean_square.sqrt(), 1.0))
