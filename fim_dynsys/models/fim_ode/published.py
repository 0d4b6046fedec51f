"""The network of the FIM-ODE paper: trajectories in, vector field and training weight out."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fim_dynsys.models.fim_ode.normalisation import CLOCKS, Normalisation, Transitions, normalise
from fim_dynsys.models.fim_ode.ranges import check_sizes, is_number

ATTENTION_MAPS = ("softmax-gnot", "softmax")
STEP_FEATURES = ("changes", "rates")
FAR = ("level", "growing")
REACH = 3.0  # standard deviations of the samples beyond which growing predictions grow
LARGEST_RATE = 30.0  # in mean speeds; larger ones, of noise in short steps, are limited smoothly
STABILISER = 1e-8  # as in the published code
NORM_EPS = 1e-5  # as in the published code
_RANGES = {
    "width": (4, 4096),
    "heads": (1, 4096),
    "feedforward": (1, 65536),
    "encoder_layers": (0, 64),
    "decoder_layers": (0, 64),
    "uncertainty_layers": (0, 64),
    "max_dim": (1, 64),
}


@dataclass(frozen=True)
class PublishedConfig:
    """Sizes of the network; the defaults are the published model's (12,968,068 parameters).

    Attributes
    ----------
    width : int
        Width of tokens and of query representations; divisible by 4 and by `heads`.
    heads : int
    feedforward : int
        Hidden width of the feed-forward part of each block.
    encoder_layers, decoder_layers : int
    uncertainty_layers : int
        0 for the field predictor alone, without uncertainty head.
    max_dim : int
        Largest dimension of the states; smaller ones are padded with zeros.
    attention : {"softmax-gnot", "softmax"}
        Feature map of the linear attention. ``"softmax-gnot"`` takes the softmax of queries and of keys over
        the channels of a head and divides by the sum of keys. ``"softmax"`` (legacy) takes that of keys over
        the *tokens* and divides by the square root of the head's width. Both fit the same weights.
    clock : {"step", "speed"}
        What normalised time is measured by, see `normalise`; ``"step"`` as published. With ``"speed"`` fields
        are of size one whatever the sampling.
    steps : {"changes", "rates"}
        What a token holds of a transition beside its duration: its first state, the change and its square
        (published); or the state half-way, the rate of change and the logarithm of one plus its square,
        durations in mean ones. Rates need ``clock="speed"``, which makes them of size one.
    far : {"level", "growing"}
        How large predictions are far from the samples: what the last layer gives (published), or that times
        sqrt(1 + (r / 3)^2) at a distance of r standard deviations from their mean.
    dropout : float
    """

    width: int = 256
    heads: int = 8
    feedforward: int = 1024
    encoder_layers: int = 2
    decoder_layers: int = 8
    uncertainty_layers: int = 6
    max_dim: int = 3
    attention: str = "softmax-gnot"
    clock: str = "step"
    steps: str = "changes"
    far: str = "level"
    dropout: float = 0.1

    def __post_init__(self) -> None:
        if self.attention not in ATTENTION_MAPS:
            raise ValueError(
                f"PublishedConfig: expected attention to be one of {ATTENTION_MAPS}, got {self.attention!r}; "
                "name the map the weights were trained with."
            )
        if self.clock not in CLOCKS:
            raise ValueError(f"PublishedConfig: expected clock to be one of {CLOCKS}, got {self.clock!r}.")
        if self.steps not in STEP_FEATURES:
            raise ValueError(
                f"PublishedConfig: expected steps to be one of {STEP_FEATURES}, got {self.steps!r}."
            )
        if self.steps == "rates" and self.clock != "speed":
            raise ValueError(
                f"PublishedConfig: expected clock 'speed' with steps 'rates', got {self.clock!r}; by steps, "
                "rates have no common size."
            )
        if self.far not in FAR:
            raise ValueError(f"PublishedConfig: expected far to be one of {FAR}, got {self.far!r}.")
        check_sizes(self, _RANGES)
        if not is_number(self.dropout) or not 0.0 <= self.dropout < 1.0:
            raise ValueError(
                f"PublishedConfig: expected dropout as a number from 0 to below 1, got {self.dropout!r}."
            )
        if self.width % 4 or self.width % self.heads:
            raise ValueError(
                f"PublishedConfig: expected a width divisible by 4 and by the number of heads, got width "
                f"{self.width} with {self.heads} heads; change one of them."
            )


class Summary(NamedTuple):
    """All that a query needs to know of the tokens it attends to.

    Attributes
    ----------
    matrix : Tensor (..., H, C, C)
        Sum over tokens of key times value, per head.
    weight : Tensor (..., H, C) or None
        Sum over tokens of the keys; None for the legacy map, which does not divide by it.
    """

    matrix: Tensor
    weight: Tensor | None

    def each(self, change: Callable[[Tensor], Tensor]) -> "Summary":
        """The summary with its parts changed alike."""
        return Summary(change(self.matrix), None if self.weight is None else change(self.weight))


class Encoding(NamedTuple):
    """Encoded contexts: tokens (B, J, width), mask (B, J) of real tokens, and the units they are in."""

    tokens: Tensor
    mask: Tensor
    normalisation: Normalisation


def summarise(keys: Tensor, values: Tensor, mask: Tensor, heads: int, attention: str) -> Summary:
    """Collapse keys and values (B, J, width) of the tokens where `mask` (B, J) is True, per head."""
    keys, values = _split(keys, heads), _split(values, heads)
    missing = ~mask[:, None, :, None]
    values = values.masked_fill(missing, 0.0)
    if attention == "softmax":
        keys = keys.masked_fill(missing, torch.finfo(keys.dtype).min).softmax(-2)
        scale = math.sqrt(keys.shape[-1]) + STABILISER
        return Summary(keys.transpose(-1, -2) @ values / scale, None)
    keys = keys.softmax(-1).masked_fill(missing, 0.0)
    return Summary(keys.transpose(-1, -2) @ values, keys.sum(-2))


def _split(x: Tensor, heads: int) -> Tensor:
    """(B, N, width) to (B, H, N, C)."""
    return x.unflatten(-1, (heads, -1)).transpose(-2, -3)


class LinearAttention(nn.Module):
    """Attention whose cost is linear in the tokens: queries meet a summary, never the tokens themselves."""

    def __init__(self, config: PublishedConfig):
        super().__init__()
        self.heads, self.map = config.heads, config.attention
        self.query = nn.Linear(config.width, config.width)
        self.key = nn.Linear(config.width, config.width)
        self.value = nn.Linear(config.width, config.width)
        self.out = nn.Linear(config.width, config.width)

    def summarise(self, tokens: Tensor, mask: Tensor) -> Summary:
        return summarise(self.key(tokens), self.value(tokens), mask, self.heads, self.map)

    def forward(self, h: Tensor, summary: Summary) -> Tensor:
        queries = _split(self.query(h), self.heads).softmax(-1)
        mixed = queries @ summary.matrix
        if summary.weight is not None:
            mixed = mixed / (queries @ summary.weight[..., None] + STABILISER)
        return self.out(mixed.transpose(-2, -3).flatten(-2))


class Block(nn.Module):
    """Attention to a summary, then a feed-forward layer, each with a residual and a norm after it."""

    def __init__(self, config: PublishedConfig):
        super().__init__()
        self.attention = LinearAttention(config)
        self.norm1 = nn.LayerNorm(config.width, NORM_EPS)
        self.expand = nn.Linear(config.width, config.feedforward)
        self.contract = nn.Linear(config.feedforward, config.width)
        self.norm2 = nn.LayerNorm(config.width, NORM_EPS)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, h: Tensor, summary: Summary) -> Tensor:
        h = self.norm1(h + self.dropout(self.attention(h, summary)))
        hidden = self.dropout(F.gelu(self.expand(h)))
        return self.norm2(h + self.dropout(self.contract(hidden)))


class TransitionEmbedding(nn.Module):
    """One token per transition: step, state, change and squared change, a quarter of the width each.

    With rates, what they become is said at `PublishedConfig.steps`.
    """

    def __init__(self, config: PublishedConfig):
        super().__init__()
        self.features = _rates if config.steps == "rates" else _changes
        self.dt = nn.Linear(1, config.width // 4)
        self.x = nn.Linear(config.max_dim, config.width // 4)
        self.dx = nn.Linear(config.max_dim, config.width // 4)
        self.dx2 = nn.Linear(config.max_dim, config.width // 4)

    def forward(self, transitions: Transitions) -> Tensor:
        dtype = self.dt.weight.dtype
        layers = (self.dt, self.x, self.dx, self.dx2)
        features = self.features(transitions)
        parts = [layer(part.to(dtype)) for layer, part in zip(layers, features, strict=True)]
        return torch.cat(parts, -1) * transitions.mask[..., None]


def _changes(transitions: Transitions) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Duration, first state, change and squared change, as published."""
    return transitions.dt, transitions.x, transitions.dx, transitions.dx.square()


def _rates(transitions: Transitions) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Duration in mean ones, state half-way, rate of change and the logarithm of one plus its square."""
    dt, tiny = transitions.dt, torch.finfo(transitions.dt.dtype).tiny
    count = transitions.mask.sum(-1).clamp(min=1)
    mean = (dt.sum((-2, -1)) / count).clamp(min=tiny)
    rate = torch.where(dt > 0, transitions.dx / dt.clamp(min=tiny), 0.0)
    rate = LARGEST_RATE * torch.tanh(rate / LARGEST_RATE)
    return dt / mean[:, None, None], transitions.x + transitions.dx / 2, rate, rate.square().log1p()


class PublishedNetwork(nn.Module):
    """Encoder, field decoder and uncertainty head of FIM-ODE.

    The network computes in the type of its weights (float32 as published, float64 after ``.double()``);
    contexts are normalised in float64 whatever that type is. Queries do not see one another.

    Parameters
    ----------
    config : PublishedConfig

    References
    ----------
    Mauel, Hinz, Seifner, Berghaus, Sanchez: Foundation Inference Models for Ordinary Differential Equations
    (arXiv 2602.08733), section 4 and the appendix on the model. The query embedding has two layers, the
    output layers are 256 wide, and the last point of a trajectory counts towards the statistics: so in the
    authors' code, and other than in the text.
    """

    def __init__(self, config: PublishedConfig | None = None):
        super().__init__()
        config = PublishedConfig() if config is None else config
        self.config = config
        self.embedding = TransitionEmbedding(config)
        self.encoder = _blocks(config, config.encoder_layers)
        self.query_embedding = nn.Sequential(
            nn.Linear(config.max_dim, config.width), nn.ReLU(), nn.Linear(config.width, config.width)
        )
        self.decoder = _blocks(config, config.decoder_layers)
        self.field_head = _head(config, config.max_dim)
        if config.uncertainty_layers:
            self.uncertainty = _blocks(config, config.uncertainty_layers)
            self.uncertainty_head = _head(config, 1)

    def encode(self, t: Tensor, x: Tensor, mask: Tensor) -> Encoding:
        """Encode contexts.

        Parameters
        ----------
        t : Tensor (B, K, L)
            Times of K trajectories with L slots each; any K, any spacing.
        x : Tensor (B, K, L, D)
            States, ``D <= max_dim``.
        mask : Tensor (B, K, L), bool
            True where a point was observed; the rest is padding or missing and is never read.

        Returns
        -------
        Encoding
        """
        normalisation, transitions = normalise(t, self._padded(x), mask, self.config.clock)
        h = self.embedding(transitions)
        for block in self.encoder:
            assert isinstance(block, Block)
            h = block(h, block.attention.summarise(h, transitions.mask))
        tokens = h * transitions.mask[..., None]
        return Encoding(tokens, transitions.mask, normalisation)

    def embed_queries(self, encoding: Encoding, queries: Tensor) -> Tensor:
        """Representation (B, Q, width) of query states (B, Q, D) before they meet the context."""
        z = encoding.normalisation.states(self._padded(queries).double())
        return self.query_embedding(z.to(encoding.tokens.dtype))

    def decode(self, encoding: Encoding, queries: Tensor) -> Tensor:
        """Field (B, Q, D) at `queries` (B, Q, D), in the units of the data."""
        h = self._attend(self.decoder, encoding, self.embed_queries(encoding, queries))
        z = encoding.normalisation.states(self._padded(queries).double())
        f = encoding.normalisation.field(at_distance(self.field_head(h), z, self.config))
        return f[..., : queries.shape[-1]]

    def log_scale(self, encoding: Encoding, queries: Tensor) -> Tensor:
        """Logarithm (B, Q) of the loss scale the uncertainty head learned; not a calibrated deviation.

        Its gradient does not reach the encoder or the query embedding.
        """
        if not self.config.uncertainty_layers:
            raise ValueError(
                "PublishedNetwork.log_scale: expected a network with uncertainty_layers above 0, got a field "
                "predictor alone; load the file of the uncertainty head too."
            )
        detached = encoding._replace(tokens=encoding.tokens.detach())
        h = self.embed_queries(encoding, queries).detach()
        return self.uncertainty_head(self._attend(self.uncertainty, detached, h))[..., 0]

    def forward(self, t: Tensor, x: Tensor, mask: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Field (B, Q, D) and logarithm of the loss scale (B, Q) at `queries` (B, Q, D)."""
        encoding = self.encode(t, x, mask)
        return self.decode(encoding, queries), self.log_scale(encoding, queries)

    @staticmethod
    def _attend(blocks: nn.ModuleList, encoding: Encoding, h: Tensor) -> Tensor:
        for block in blocks:
            assert isinstance(block, Block)
            h = block(h, block.attention.summarise(encoding.tokens, encoding.mask))
        return h

    def _padded(self, x: Tensor) -> Tensor:
        missing = self.config.max_dim - x.shape[-1]
        if missing < 0:
            raise ValueError(
                f"PublishedNetwork: expected states of dimension at most {self.config.max_dim}, got "
                f"{x.shape[-1]}; reduce them first, for example with PCAReduction."
            )
        return F.pad(x, (0, missing))


def at_distance(f: Tensor, z: Tensor, config: PublishedConfig) -> Tensor:
    """What the last layer gives at normalised states `z`, as `PublishedConfig.far` says."""
    return f if config.far == "level" else f * torch.sqrt(1 + (z / REACH).square().sum(-1, keepdim=True))


def _blocks(config: PublishedConfig, count: int) -> nn.ModuleList:
    return nn.ModuleList(Block(config) for _ in range(count))


def _head(config: PublishedConfig, outputs: int) -> nn.Sequential:
    """Two hidden layers of the network's width; Kaiming-normal weights and zero biases."""
    layers: list[nn.Module] = []
    for _ in range(2):
        layers += [nn.Linear(config.width, config.width), nn.GELU(), nn.Dropout(config.dropout)]
    layers.append(nn.Linear(config.width, outputs))
    for layer in layers:
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="leaky_relu")
            nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)
