"""Chains of the no-U-turn sampler from maxima of the density, side by side."""

import contextlib
import math
from dataclasses import dataclass

import numpy as np
import pyro
import torch
from pyro.infer.mcmc import NUTS
from pyro.ops.stats import effective_sample_size, split_gelman_rubin
from torch import Tensor

from fim_dynsys.analyze.results import progress_bar
from fim_dynsys.deadline import Deadline
from fim_dynsys.errors import FitError
from fim_dynsys_bayesian_neural_ode.posterior import Posterior
from fim_dynsys_common.training import train

_RATE, _EVERY = 2e-2, 50  # of the ascent to the maxima
FEWEST_DRAWS = 4
"""Draws of a chain of which R-hat can be had."""


@dataclass(frozen=True)
class Draws:
    """Draws of C chains.

    Attributes
    ----------
    theta : Tensor (C, N, P)
        Vectors of parameters.
    divergences : int
        Transitions after warm-up whose energy was not kept.
    ended : str
        "all draws" or "out of time".
    """

    theta: Tensor
    divergences: int
    ended: str


def maxima(
    caller: str, posterior: Posterior, first: Tensor, steps: int, deadline: Deadline, progress: bool | None
) -> Tensor:
    """Vectors (C, P) near maxima of the density, by Adam from `first`, all at once.

    Raises
    ------
    FitError
        Where the energy is not finite.
    """
    theta = first.clone().requires_grad_()
    optimiser = torch.optim.Adam([theta])

    def step(i: int) -> float:
        optimiser.param_groups[0]["lr"] = _RATE * (0.01 + 0.99 * math.cos(0.5 * math.pi * i / steps) ** 2)
        energy = posterior.energy(theta).sum()
        optimiser.zero_grad()
        energy.backward()
        optimiser.step()
        return energy.item()

    @torch.no_grad()
    def score() -> float:
        return float(posterior.energy(theta).sum())

    return train(
        caller,
        step,
        score,
        lambda: theta.detach().clone(),
        steps=steps,
        every=_EVERY,
        deadline=deadline,
        progress=progress,
    ).state


class _OutOfTime(Exception):
    """Raised by the energy, so that not even a transition outlasts the deadline."""


def sample(
    caller: str,
    posterior: Posterior,
    starts: Tensor,
    warmup: int,
    draws: int,
    tree_depth: int,
    deadline: Deadline,
    progress: bool | None,
) -> Draws:
    """A chain from each of the vectors `starts` (C, P); torch's global source gives the random numbers.

    Raises
    ------
    FitError
        Where time is out before each chain has a few draws.
    """

    def energy(parameters: dict[str, Tensor]) -> Tensor:
        if deadline.passed():
            raise _OutOfTime
        return posterior.energy(parameters["theta"][None])[0]

    kernels = [NUTS(potential_fn=energy, max_tree_depth=tree_depth) for _ in starts]
    states = [{"theta": start} for start in starts]
    kept: list[list[Tensor]] = []
    # pyro's checks would turn a divergent transition, which it handles, into an exception
    with (
        pyro.validation_enabled(False),
        progress_bar(progress, warmup + draws, caller, "draws") as bar,
        contextlib.suppress(_OutOfTime),
    ):
        for kernel, state in zip(kernels, states, strict=True):
            kernel.initial_params = state
            kernel.setup(warmup)
        for i in range(warmup + draws):
            states = [kernel.sample(state) for kernel, state in zip(kernels, states, strict=True)]
            if i >= warmup:
                kept.append([state["theta"].detach() for state in states])
            bar.update()
    if len(kept) < FEWEST_DRAWS:
        raise FitError(
            f"{caller}: expected time for {warmup} steps of warm-up and at least {FEWEST_DRAWS} draws of "
            f"{len(starts)} chains, got {len(kept)} draws; raise max_seconds, or lower warmup or width."
        )
    theta = torch.stack([torch.stack(chain) for chain in zip(*kept, strict=True)])
    divergences = sum(len(kernel.diagnostics()["divergences"]) for kernel in kernels)
    return Draws(theta, divergences, "all draws" if len(kept) == draws else "out of time")


def convergence(rates: np.ndarray) -> dict[str, float]:
    """How well chains agree on the field, and how many independent draws they are worth.

    Parameters
    ----------
    rates : array (C, N, n, d)
        The field of each draw at n states, N at least `FEWEST_DRAWS`.

    Returns
    -------
    dict
        Split R-hat, the largest and the median; effective sample size, the smallest and the median.

    References
    ----------
    A. Gelman et al., Bayesian Data Analysis, 3rd edition (2013), sections 11.4 and 11.5.
    """
    chains = torch.as_tensor(rates).flatten(2)
    rhat, size = split_gelman_rubin(chains).numpy(), effective_sample_size(chains).numpy()
    return {
        "rhat": float(np.max(rhat)),
        "rhat_median": float(np.median(rhat)),
        "ess": float(np.min(size)),
        "ess_median": float(np.median(size)),
    }
