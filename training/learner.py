"""How each operator is trained: from a context and queries to a loss and to errors that can be compared."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fim_dynsys.models.fim_ode.amortised import AmortisedNetwork
from fim_dynsys.models.fim_ode.configuration import AmortisedConfig
from fim_dynsys.models.fim_ode.published import LinearAttention, PublishedConfig, PublishedNetwork
from training.objective import Queries, field_loss, relative_error
from training.systems.corruption import Context

_SIZES = {"dt": 0.01, "dx": 0.05, "dx2": 0.0025}  # of a transition in the network's units; a state has size 1
_SHARPNESS = 16.0  # of first keys and queries: with torch's, each channel of a softmax weighs nearly the same


class LossWeights(NamedTuple):
    """How much the places (3,), in float64, and an operator's earlier answers count in its loss."""

    places: Tensor
    early: float


Loss = Callable[[nn.Module, Context, Queries, LossWeights], tuple[Tensor, Tensor]]


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
        (network, context, queries, weights) to the loss and the relative errors (B, 3) of the answer.
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
) -> tuple[Tensor, Tensor]:
    """Relative error of the last solve and, lightly, of the ones before."""
    encoding = network.encode(context.t, context.x, context.mask)
    unit = (encoding.scale / encoding.time_unit[:, None])[:, None, None]
    errors = []
    for solve in range(len(encoding.coefficients)):
        prediction = network.decode(encoding, _flat(queries), solve).view(queries.points.shape)
        errors.append(relative_error(prediction / unit, queries.field / unit))
    losses = torch.stack([field_loss(e, weights.places) for e in errors])
    return losses[-1] + weights.early * losses[:-1].mean(), errors[-1]


def published_network(config: PublishedConfig) -> PublishedNetwork:
    """A published network whose first weights tell transitions apart.

    With torch's, a token hardly depends on the change of state in it, a twentieth of the state's size, and
    attention is close to a mean over tokens: training stays at a field of zeros.
    """
    network = PublishedNetwork(config)
    with torch.no_grad():
        for name, size in _SIZES.items():
            getattr(network.embedding, name).weight.div_(size)
        for module in network.modules():
            if isinstance(module, LinearAttention):
                module.query.weight.mul_(_SHARPNESS)
                module.key.weight.mul_(_SHARPNESS)
    return network


def point_loss(
    network: PublishedNetwork, context: Context, queries: Queries, weights: LossWeights
) -> tuple[Tensor, Tensor]:
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
        return field_loss(error, weights.places), error.detach()
    u = network.log_scale(encoding, points).view(queries.points.shape[:-1])
    objective = torch.exp(-u) * (prediction - truth).abs().mean(-1) + u
    loss = (objective.mean(-1) * weights.places).sum(-1).mean() / weights.places.sum()
    return loss, relative_error(prediction.detach(), truth)


# Architecture name, as in the header of weights files -> how it is trained.
LEARNERS = {
    "amortised": Learner(AmortisedConfig, AmortisedNetwork, regression_loss, dense=False),
    "published": Learner(PublishedConfig, published_network, point_loss, dense=True),
}


class Trainee(nn.Module):
    """A network with its loss as one module, for processes to share and compilers to see whole."""

    def __init__(self, learner: Learner, network: nn.Module, weights: LossWeights):
        super().__init__()
        self.network = network
        self._loss = learner.loss
        self._early = weights.early
        self.register_buffer("places", weights.places, persistent=False)

    def forward(self, context: Context, queries: Queries) -> tuple[Tensor, Tensor]:
        """Loss and relative errors (B, 3)."""
        return self._loss(self.network, context, queries, LossWeights(self.places, self._early))
