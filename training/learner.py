"""How each operator is trained: from a context and queries to a loss and to errors that can be compared."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fim_dynsys.models.fim_ode.amortised import AmortisedNetwork
from fim_dynsys.models.fim_ode.configuration import AmortisedConfig
from fim_dynsys.models.fim_ode.published import Block, LinearAttention, PublishedConfig, PublishedNetwork
from training.objective import Queries, field_loss, relative_error
from training.systems.corruption import Context

# Sizes of a transition in the network's units, by what its tokens hold; a state has size 1.
_SIZES = {
    "changes": {"dt": 0.01, "dx": 0.05, "dx2": 0.0025},
    "rates": {"dt": 1.0, "dx": 1.0, "dx2": 1.0},
}
_CELLS = (0.5, 0.15)  # sizes of first cells, in standard deviations of the states; heads take turns
_SPREAD = 1.2  # of their centres
_REST = 0.1  # of torch's weights for what keys and queries read beside the state


class LossWeights(NamedTuple):
    """How much the places (3,), in float64, and an operator's earlier answers count in its loss."""

    places: Tensor
    early: float


class Outcome(NamedTuple):
    """Of a batch: the loss, relative errors (B, 3) of the answer, mean of the uncertainty head's output.

    The last is None without such a head.
    """

    loss: Tensor
    errors: Tensor
    uncertainty: Tensor | None = None


Loss = Callable[[nn.Module, Context, Queries, LossWeights], Outcome]


@dataclass(frozen=True)
class Learner:
    """An architecture as the loop sees it.

    Attributes
    ----------
    config : type
        Configuration; the same name is the architecture's in weights files.
    network : callable
        Returns a fresh network of a configuration.
    loss : callable
        (network, context, queries, weights) to an `Outcome`.
    dense : bool
        Nothing but layers: may run in bfloat16 and be compiled.
    """

    config: type
    network: Callable[..., nn.Module]
    loss: Loss
    dense: bool


def _flat(queries: Queries) -> Tensor:
    b, places, n, d = queries.points.shape
    return queries.points.reshape(b, places * n, d)


def regression_loss(
    network: AmortisedNetwork, context: Context, queries: Queries, weights: LossWeights
) -> Outcome:
    """Relative error of the last solve and, lightly, of the ones before."""
    encoding = network.encode(context.t, context.x, context.mask)
    unit = (encoding.scale / encoding.time_unit[:, None])[:, None, None]
    errors = []
    for solve in range(len(encoding.coefficients)):
        prediction = network.decode(encoding, _flat(queries), solve).view(queries.points.shape)
        errors.append(relative_error(prediction / unit, queries.field / unit))
    losses = torch.stack([field_loss(e, weights.places) for e in errors])
    return Outcome(losses[-1] + weights.early * losses[:-1].mean(), errors[-1])


def published_network(config: PublishedConfig) -> PublishedNetwork:
    """A published network whose first weights compare places and tell transitions apart.

    With torch's, a token hardly depends on the change of state in it, and a query weighs all tokens alike:
    training stays at a field of zeros. Here every attention begins as one between cells of the state space:
    a channel of keys and of queries is the same quadratic bump about a random centre, so that the softmax
    over channels is the share of a place in each cell, and what a query meets is what tokens of its cells
    hold. States enter tokens and queries by the same linear map. Sizes of all features are one.
    """
    network = PublishedNetwork(config)
    quarter = config.width // 4
    states = slice(quarter, 2 * quarter)
    with torch.no_grad():
        for name, size in _SIZES[config.steps].items():
            getattr(network.embedding, name).weight.div_(size)
        linear = network.embedding.x.weight.normal_()
        network.embedding.x.bias.zero_()
        _embed_alike(network.query_embedding, linear, states)
        back = torch.linalg.pinv(linear)
        for module in network.modules():
            if isinstance(module, LinearAttention):
                _compare_places(module, back, states)
    return network


def _embed_alike(layers: nn.Sequential, linear: Tensor, states: slice) -> None:
    """Let two layers with a ReLU between map queries as `linear` (width / 4, D) maps states of tokens."""
    first, second = layers[0], layers[2]
    assert isinstance(first, nn.Linear) and isinstance(second, nn.Linear)
    n = len(linear)
    first.weight[: 2 * n] = torch.cat([linear, -linear])
    first.bias[: 2 * n] = 0.0
    second.weight[states] = 0.0
    second.bias[states] = 0.0
    second.weight[states, :n] = torch.eye(n)
    second.weight[states, n : 2 * n] = -torch.eye(n)


def _compare_places(attention: LinearAttention, back: Tensor, states: slice) -> None:
    """Make keys and queries the same Gaussian cells of the states that `back` (D, width / 4) recovers."""
    key, query = attention.key, attention.query
    channels, dim = len(key.weight) // attention.heads, len(back)
    used = torch.arange(dim) <= torch.arange(channels)[:, None] % dim  # some centres in each subspace
    key.weight.mul_(_REST)
    for head in range(attention.heads):
        sharpness = _CELLS[head % len(_CELLS)] ** -2
        own = slice(head * channels, (head + 1) * channels)
        centres = _SPREAD * torch.randn(channels, dim) * used
        key.weight[own, states] = sharpness * centres @ back
        key.bias[own] = -0.5 * sharpness * centres.square().sum(-1)
    query.weight.copy_(key.weight)
    query.bias.copy_(key.bias)


def point_loss(
    network: PublishedNetwork, context: Context, queries: Queries, weights: LossWeights
) -> Outcome:
    """Mean of e^-u |error| + u, the published objective; without uncertainty head, the relative error.

    The error is the L1 distance averaged over coordinates in the network's normalised units, u the output
    of the uncertainty head (FIM-ODE paper, training objective).
    """
    encoding = network.encode(context.t, context.x, context.mask)
    points = _flat(queries)
    normalisation = encoding.normalisation
    unit = (normalisation.std * normalisation.rate[:, None])[:, None, None, : points.shape[-1]]
    prediction = network.decode(encoding, points).view(queries.points.shape) / unit
    truth = queries.field / unit
    if not network.config.uncertainty_layers:
        error = relative_error(prediction.double(), truth)
        return Outcome(field_loss(error, weights.places), error.detach())
    u = network.log_scale(encoding, points).view(queries.points.shape[:-1])
    objective = torch.exp(-u) * (prediction - truth).abs().mean(-1) + u
    loss = (objective.mean(-1) * weights.places).sum(-1).mean() / weights.places.sum()
    return Outcome(loss, relative_error(prediction.detach(), truth), u.detach().mean())


# Architecture name, as in the header of weights files -> how it is trained.
LEARNERS = {
    "amortised": Learner(AmortisedConfig, AmortisedNetwork, regression_loss, dense=False),
    "published": Learner(PublishedConfig, published_network, point_loss, dense=True),
}


def compile_blocks(network: nn.Module, mode: str) -> None:
    """Compile what layers repeat: once for all of them, all dimensions and numbers of samples.

    What was compiled for another network of this process is forgotten: it would count towards the number
    of versions beyond which torch no longer compiles.
    """
    torch.compiler.reset()
    for module in network.modules():
        if isinstance(module, LinearAttention):
            module.summarise = torch.compile(module.summarise, mode=mode)
        if isinstance(module, Block):
            module.compile(mode=mode)


class Trainee(nn.Module):
    """A network with its loss as one module, for processes to share."""

    def __init__(self, learner: Learner, network: nn.Module, weights: LossWeights):
        super().__init__()
        self.network = network
        self._loss = learner.loss
        self._early = weights.early
        self.register_buffer("places", weights.places, persistent=False)

    def forward(self, context: Context, queries: Queries) -> Outcome:
        """Loss, relative errors (B, 3) and uncertainty."""
        return self._loss(self.network, context, queries, LossWeights(self.places, self._early))
