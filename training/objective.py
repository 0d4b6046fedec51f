"""What pretraining minimises: the relative error of the inferred field on and off the observed path."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from training.systems.corruption import Context
from training.systems.generation import Systems

STEEPNESS = 10.0  # log(1 + 10 r): linear for errors below 10 %, logarithmic beyond, so no system dominates
TRIVIAL_LOSS = float(torch.log1p(torch.tensor(STEEPNESS)))  # a field of zeros has relative error 1 everywhere
PLACES = ("own path", "other paths", "box")


class Queries(NamedTuple):
    """Points (B, 3, Q, d) on the observed paths, on other paths and in the box, and the true field there."""

    points: Tensor
    field: Tensor


def draw_queries(systems: Systems, context: Context, n: int, generator: torch.Generator) -> Queries:
    """n clean points of each place for every system of a batch, with the true field."""
    states = systems.states
    b, n_trajectories, n_samples, d = states.shape
    where: dict[str, Any] = {"generator": generator, "device": generator.device}
    rows = torch.arange(b, device=generator.device)[:, None]

    def on(trajectory: Tensor) -> Tensor:
        return states[rows, trajectory, torch.randint(n_samples, (b, n), **where)]

    k = context.chosen.shape[1]
    own = on(context.chosen.gather(1, torch.randint(k, (b, n), **where)))
    others = on(torch.randint(n_trajectories, (b, n), **where))
    low, high = systems.box()
    inside = low[:, None] + (high - low)[:, None] * torch.rand(b, n, d, **where)
    points = torch.stack([own, others, inside], 1).double()
    return Queries(points, systems.fields(points))


def relative_error(prediction: Tensor, truth: Tensor) -> Tensor:
    """L1 error over L1 size of the field per system and place: (B, 3, Q, d) twice to (B, 3)."""
    size = truth.abs().sum((-2, -1))
    return (prediction - truth).abs().sum((-2, -1)) / (size + 1e-9 * size.amax(1, keepdim=True) + 1e-12)


def field_loss(error: Tensor, place_weights: Tensor) -> Tensor:
    """Weighted mean of log(1 + 10 r) over places and systems; (B, 3) to a scalar."""
    return (torch.log1p(STEEPNESS * error) * place_weights).sum(-1).mean() / place_weights.sum()
