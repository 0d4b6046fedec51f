"""Labelled candidates of many contexts at once, on any device: the batched search beside known systems.

`labelled` joins the tensors of `fim_dynsys.models.fim_ode.batched` with labels, twins of those of
`training.selection`. Contexts come from `training.contexts`, drawn one by one on the host, or from
`training.generation` and `training.corruption`, drawn together on the device (`draw_many`). What the search
leaves out, and where it was run, is said in `pool.py` there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from fim_dynsys.models.fim_ode.amortised import AmortisedNetwork
from fim_dynsys.models.fim_ode.batched.candidates import Candidates
from fim_dynsys.models.fim_ode.batched.observations import Scaled, scaled
from fim_dynsys.models.fim_ode.batched.pool import (
    Opinion,
    hypotheses,
    regressed_smoothers,
    scaled_opinion,
)
from fim_dynsys.models.fim_ode.batched.pruning import Effort
from fim_dynsys.models.fim_ode.batched.rollout import rollouts, step_grid
from fim_dynsys.models.fim_ode.batched.selection import features, shortlist
from fim_dynsys.models.fim_ode.columns import MonomialTable
from training.contexts import N_TRAJECTORIES, KnownContext
from training.corruption import Observation, on_host
from training.generation import Integration, generate

THRESHOLD = 0.9
"""R2 above which a trajectory is followed."""

WORST = 1e3
"""Relative error of a field, beyond which it makes no difference."""

POINTS = 100
"""Points along each path of a label where fields are compared."""

STEP = 0.1
"""Longest Runge-Kutta step of a label, in the data's unit of time."""

GENERATED = {"paper": "paper", "sparse": "sparse", "functions": "nonpolynomial", "chaotic": "chaotic"}
"""Names in `priors.toml` that stand for the priors of `training.selection` where the device draws."""

_BOUND = 1e6
_SMALLEST = 1e-15
_INTEGRATION = Integration(512, torch.float64)
_OBSERVATION = Observation(noise_high=0.08, clean_share=0.25, additive_share=0.25, drop_high=0.7)
_SHORTEST_WINDOW = 0.25
_LABELS = 100  # times of a label where the device draws


class Observed(NamedTuple):
    """B contexts of one dimension, padding at the end."""

    t: Tensor  # (B, N)
    x: Tensor  # (B, N, d)
    mask: Tensor  # (B, N)


class Truth(NamedTuple):
    """What is known of B systems."""

    t: Tensor  # (B, T) from 0
    paths: Tensor  # (B, K, T, d) clean trajectories, the first is the observed one
    points: Tensor  # (B, 2, P, d) states along the first path, and along the others
    rates: Tensor  # (B, 2, P, d) the true field there


class Labelled(NamedTuple):
    """Candidates of B contexts as shards hold them, padded."""

    features: Tensor  # (B, C, F)
    labels: Tensor  # (B, C, 4)
    present: Tensor  # (B, C) bool
    whole: Tensor  # (B,) bool, false where the search does not apply: see `Scaled`


@dataclass(frozen=True)
class Searched:
    """What the search found in B contexts."""

    contexts: Scaled
    opinion: Opinion
    candidates: Candidates
    features: Tensor


@torch.no_grad()
def searched(network: AmortisedNetwork, observed: Observed, effort: Effort) -> Searched:
    """Shortlists of candidates and their features, as `fim-ode` makes them at inference.

    Parameters
    ----------
    network : AmortisedNetwork
        The operator, of monomials only, where the contexts are.
    observed : Observed
        Contexts.
    effort : Effort
        How the work is done.
    """
    config, table = network.config, network.tables[observed.x.shape[-1] - 1]
    if config.functions or config.products:
        raise ValueError(
            "searched: expected an operator of monomials only, which a search can refine, got columns of "
            f"{[name for name, _ in (*config.functions, *config.products)]}; give other weights."
        )
    contexts = scaled(*observed)
    t = torch.where(observed.mask, observed.t - observed.t[:, :1], 0.0).double()
    said = network.infer_coefficients(t[:, None], observed.x.double()[:, None], observed.mask[:, None])
    solves, variances = said.solves.clone(), said.variances.clone()  # of use outside inference mode
    opinion = scaled_opinion(contexts, table.monomials, solves, variances)
    found = hypotheses(table.monomials, contexts, regressed_smoothers(contexts), opinion, effort)
    short = shortlist(found)
    return Searched(contexts, opinion, short, features(table.monomials, contexts, short, opinion))


def labelled(network: AmortisedNetwork, observed: Observed, truth: Truth, effort: Effort) -> Labelled:
    """Features and labels of the candidates of B contexts, see `searched`."""
    found = searched(network, observed, effort)
    table = network.tables[observed.x.shape[-1] - 1].monomials
    values = labels(table, found.contexts, truth, found.candidates.coefficients)
    return Labelled(found.features, values, found.candidates.present, found.contexts.whole)


@torch.no_grad()
def labels(table: MonomialTable, contexts: Scaled, truth: Truth, coefficients: Tensor) -> Tensor:
    """Reconstruction, mean generalisation and errors of the field along both (B, C, 4).

    Takes candidates (B, C, m, d) in scaled units.
    """
    success = _followed(table, contexts, truth, coefficients)
    columns = [success[..., 0], success[..., 1:].mean(2)]
    for along in range(2):
        points, rates = truth.points[:, along], truth.rates[:, along]
        rates = rates * (contexts.time_unit[:, None] / contexts.scale)[:, None]
        said = table(points / contexts.scale[:, None])[:, None] @ coefficients
        gap = (said - rates[:, None]).abs().mean((2, 3)) / (rates.abs().mean((1, 2)) + 1e-9)[:, None]
        columns.append(torch.where(gap.isfinite(), gap, WORST).clamp(max=WORST))
    return torch.stack(columns, -1)


def _followed(table: MonomialTable, contexts: Scaled, truth: Truth, coefficients: Tensor) -> Tensor:
    """Whether each candidate follows each path (B, C, K), as numbers."""
    b, c = coefficients.shape[:2]
    k = truth.paths.shape[1]
    starts = (truth.paths[:, :, 0] / contexts.scale[:, None]).repeat(1, c, 1)
    times = truth.t / contexts.time_unit[:, None]
    grid = step_grid(times, torch.ones_like(times, dtype=torch.bool), STEP)
    paths = rollouts(table, coefficients.repeat_interleave(k, 1), starts, grid, _BOUND)
    paths = paths.view(b, c, k, *paths.shape[2:]) * contexts.scale[:, None, None, None]
    expected = truth.paths[:, None]
    residual = ((expected - paths) ** 2).sum(3)
    total = ((expected - expected.mean(3, keepdim=True)) ** 2).sum(3)
    moving = (total > _SMALLEST).any(-1)
    score = 1.0 - residual.sum(-1) / torch.where(moving, total.sum(-1), 1.0)
    still = (1.0 - residual / (total + _SMALLEST)).mean(-1)
    score = torch.where(moving, score, still)  # nan, which follows nothing, where a path was given up
    return (score > THRESHOLD).to(coefficients.dtype)


def _spread(points: Tensor) -> Tensor:
    """At most twice `POINTS` of the points (..., n, d), evenly."""
    return points[..., :: max(points.shape[-2] // POINTS, 1), :]


def _apart(paths: Tensor) -> Tensor:
    """Points along the first and along the other paths (B, 2, P, d) of paths (B, K, T, d)."""
    return torch.stack([_spread(paths[:, 0]), _spread(paths[:, 1:].flatten(1, 2))], 1)


# --- contexts drawn on the host ---


def from_contexts(contexts: Sequence[KnownContext], device: torch.device) -> tuple[Observed, Truth]:
    """Contexts of one dimension and what is known of them as tensors on a device."""
    length = max(len(c.t) for c in contexts)
    mask = np.arange(length) < np.array([len(c.t) for c in contexts])[:, None]
    t, x = np.zeros(mask.shape), np.zeros((*mask.shape, contexts[0].x.shape[1]))
    t[mask] = np.concatenate([c.t for c in contexts])
    x[mask] = np.concatenate([c.x for c in contexts])
    paths = torch.tensor(np.stack([c.paths for c in contexts]))
    points = _apart(paths)
    shape = points.shape[1:]
    rates = [
        c.field(own.reshape(-1, shape[-1])).reshape(shape)
        for c, own in zip(contexts, points.numpy(), strict=True)
    ]
    times = torch.tensor(np.stack([c.label_t for c in contexts]))
    truth = Truth(times, paths, points, torch.tensor(np.stack(rates)))
    observed = Observed(*map(torch.tensor, (t, x, mask)))
    return Observed(*(part.to(device) for part in observed)), Truth(*(part.to(device) for part in truth))


# --- contexts drawn on the device ---


def draw_many(prior: str, dim: int, n: int, seed: int, device: torch.device) -> tuple[Observed, Truth]:
    """n contexts of systems of a prior of `priors.toml`, the same for the same arguments.

    Systems are integrated in float64 on 512 samples. The window, a quarter of them or more from the start,
    and the share of samples left out are drawn once, noise for each context.
    """
    systems = generate(prior, dim, n, seed, _INTEGRATION, device)
    generator = torch.Generator(device).manual_seed(seed + 1)
    states = systems.states.double()
    samples = states.shape[2]
    share = float(torch.empty(1).uniform_(_SHORTEST_WINDOW, 1.0, generator=on_host(generator)))
    length = int(share * samples)
    seen = _OBSERVATION.observe(states[:, :, :length], systems.step, generator)
    observed = Observed(seen.t[:, 0] - seen.t[:, 0, :1], seen.x[:, 0], seen.mask[:, 0])
    others = seen.chosen + torch.arange(N_TRAJECTORIES, device=device)  # the observed one and those behind it
    index = (others % states.shape[1])[..., None, None].expand(-1, -1, samples, dim)
    place = torch.linspace(0, length - 1, _LABELS, device=device).round().long()
    paths = states.gather(1, index)[:, :, place]
    points = _apart(paths)
    return observed, Truth(
        (systems.step * place).double().expand(n, -1), paths, points, systems.fields(points)
    )


def padded_together(parts: Sequence[tuple[Observed, Truth]]) -> tuple[Observed, Truth]:
    """Contexts of several draws of one dimension, padded to the longest."""
    length = max(observed.t.shape[1] for observed, _ in parts)
    seen = []
    for (t, x, mask), _ in parts:
        more = length - t.shape[1]
        seen.append((pad(t, (0, more)), pad(x, (0, 0, 0, more)), pad(mask, (0, more))))
    known = [truth for _, truth in parts]
    return Observed(*map(torch.cat, zip(*seen, strict=True))), Truth(
        *map(torch.cat, zip(*known, strict=True))
    )
