"""Second-order latent ODEs with Bayesian neural networks: ODE2VAE.

References
----------
C. Yildiz, M. Heinonen and H. Lähdesmäki, ODE2VAE: deep generative second order ODEs with Bayesian neural
networks, NeurIPS 2019.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fim_dynsys_common.latent import (
    Grid,
    LatentModel,
    LatentNetwork,
    Perceptrons,
    Windows,
    perceptron,
    transformed,
)
from fim_dynsys_common.rollout import rk4

_FIRST_LOG_DEVIATION = -3.0  # of the encoders
_FIRST_LOG_WEIGHT = -4.6  # log standard deviation of the weights: a variance of 1e-4, as published
_LOG_ROOT = 0.5 * math.log(2.0 * math.pi)


@dataclass(eq=False, repr=False)
class ODE2VAE(LatentModel):
    """Latent positions s and velocities v, ds = v dt, dv = f(s, v) dt with random weights of f; s is decoded.

    Parameters
    ----------
    q : int, optional
        Latent positions; default as many as there are states, at most 10.
    gamma : float
        Weight of the divergence of the latent path from what the encoders say of each sample.
    hidden, steps, learning_rate, batch_size, window, restarts, seed, max_seconds, progress
        As of `fim_dynsys_common.latent.LatentModel`.
    """

    q: int | None = None
    gamma: float = 1.0

    name = "ode2vae"
    version = "1"

    def _network(self, dim: int, replicas: int, source: torch.Generator) -> "SecondOrderNetwork":
        q = min(dim, 10) if self.q is None else self.q
        return SecondOrderNetwork(dim, q, self.hidden, self.gamma, replicas, source)


class SecondOrderNetwork(LatentNetwork):
    """Encoders of position and velocity, Bayesian acceleration, decoder, noise level; R of each.

    A latent state is (position, velocity), m = 2 q.
    """

    def __init__(
        self, dim: int, q: int, hidden: int, gamma: float, replicas: int, source: torch.Generator
    ) -> None:
        super().__init__()
        self.q, self.gamma = q, gamma
        shape = (dim, hidden, hidden, 2 * q)
        self.position = Perceptrons(replicas, shape, torch.tanh, source, 0.1)
        self.velocity = Perceptrons(replicas, shape, torch.tanh, source)
        self.decoder = Perceptrons(replicas, (q, hidden, hidden, dim), torch.tanh, source, 0.1)
        self.acceleration = Perceptrons(replicas, (2 * q, hidden, hidden, q), torch.tanh, source)
        self.log_weights = nn.ParameterList(
            torch.full_like(w, _FIRST_LOG_WEIGHT)
            for w in (*self.acceleration.weights, *self.acceleration.biases)
        )
        self.log_noise = nn.Parameter(torch.full((replicas, 1, 1, dim), -1.0, dtype=torch.float64))
        eye = torch.eye(dim, q, dtype=torch.float64)
        self.encoder_skip = nn.Parameter(eye.repeat(replicas, 1, 1))
        self.decoder_skip = nn.Parameter(eye.T.repeat(replicas, 1, 1))

    def encoded(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Means and log standard deviations (R, ..., m) of the latent states behind x (R, ..., d)."""
        place, place_spread = self.position(x).split(self.q, dim=-1)
        speed, speed_spread = self.velocity(x).split(self.q, dim=-1)
        mean = torch.cat([transformed(x, self.encoder_skip) + place, speed], dim=-1)
        spread = torch.cat([place_spread, speed_spread], dim=-1)
        return mean, (_FIRST_LOG_DEVIATION + spread).clamp(-6.0, 3.0)

    def encode(self, x: Tensor) -> Tensor:
        return self.encoded(x)[0]

    def rate(self, z: Tensor) -> Tensor:
        return torch.cat([z[..., self.q :], self.acceleration(z)], dim=-1)

    def decode(self, z: Tensor) -> Tensor:
        s = z[..., : self.q]
        return transformed(s, self.decoder_skip) + self.decoder(s)

    def drawn(self, source: torch.Generator) -> tuple[list[Tensor], list[Tensor]]:
        """Weights and biases of the acceleration, drawn from their posterior."""
        means = (*self.acceleration.weights, *self.acceleration.biases)
        values = [
            mean + torch.exp(spread) * torch.randn(mean.shape, dtype=mean.dtype, generator=source)
            for mean, spread in zip(means, self.log_weights, strict=True)
        ]
        return values[: len(values) // 2], values[len(values) // 2 :]

    def weight_divergence(self) -> Tensor:
        """Of the posterior of the weights from N(0, I), (R,)."""
        means = (*self.acceleration.weights, *self.acceleration.biases)
        parts = [
            0.5 * (mean.square() + torch.exp(2.0 * spread) - 1.0 - 2.0 * spread).flatten(1).sum(dim=1)
            for mean, spread in zip(means, self.log_weights, strict=True)
        ]
        return torch.stack(parts).sum(dim=0)

    def path(
        self, z: Tensor, grid: Grid, weights: list[Tensor], biases: list[Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Latent paths (R, B, F, m) from z (R, B, m) under one draw of the weights, and their slopes."""

        def rate(z: Tensor) -> Tensor:
            return torch.cat([z[..., self.q :], perceptron(z, weights, biases, torch.tanh)], dim=-1)

        path = rk4(rate, z, grid.times, torch.inf)
        return path, rate(path)

    def divergence(self, z: Tensor, weights: list[Tensor], biases: list[Tensor]) -> Tensor:
        """Trace of df/dv (R, ...) at latent states (R, ..., m)."""
        flat = z.flatten(1, -2)
        first = torch.tanh(torch.baddbmm(biases[0], flat, weights[0]))
        second = torch.tanh(torch.baddbmm(biases[1], first, weights[1]))
        tangents = (1.0 - first.square())[:, :, None] * weights[0][:, None, self.q :]
        tangents = (tangents @ weights[1][:, None]) * (1.0 - second.square())[:, :, None]
        return (tangents * weights[2].mT[:, None]).sum(dim=(-1, -2)).unflatten(1, z.shape[1:-1])

    def loss(self, windows: Windows, step: int, source: torch.Generator) -> Tensor:
        """Negative evidence lower bound with the penalty of the encoders, per sample."""
        x = windows.x.expand(len(self.log_noise), -1, -1, -1)
        means, spreads = self.encoded(x)
        noise = torch.randn(means[:, :, 0].shape, dtype=x.dtype, generator=source)
        start = means[:, :, 0] + torch.exp(spreads[:, :, 0]) * noise
        weights, biases = self.drawn(source)
        path, slopes = self.path(start, windows.grid, weights, biases)
        # the density along the path, by the instantaneous change of variables
        traces = self.divergence(path, weights, biases)
        spent = torch.cumsum(0.5 * windows.grid.times.diff() * (traces[:, :, 1:] + traces[:, :, :-1]), dim=2)
        spent = windows.grid.line(nn.functional.pad(spent, (1, 0)))
        density = _log_normal(noise, spreads[:, :, 0]).sum(dim=-1)[:, :, None] - spent
        z = windows.grid.curve(path, slopes)
        misfit = -_log_normal((x - self.decode(z)) * torch.exp(-self.log_noise), self.log_noise).sum(dim=-1)
        prior = density - _log_normal(z, torch.zeros_like(z)).sum(dim=-1)
        encoders = density - _log_normal((z - means) * torch.exp(-spreads), spreads).sum(dim=-1)
        # a path has one random start: its divergences count once, not at each of its samples
        share = 1.0 / windows.used.sum(dim=1, keepdim=True)
        paths = ((misfit + share * (prior + self.gamma * encoders)) * windows.used).sum(dim=(1, 2))
        beta = self.q / sum(w[0].numel() for w in self.log_weights)
        return (paths + windows.used.shape[0] * beta * self.weight_divergence()) / windows.used.sum()

    def draw(self, x: Tensor, grid: Grid, source: torch.Generator) -> Tensor:
        """Paths under one draw of the weights, from draws of their starts."""
        mean, spread = self.encoded(x)
        noise = torch.randn(mean.shape, dtype=x.dtype, generator=source)
        return grid.curve(*self.path(mean + torch.exp(spread) * noise, grid, *self.drawn(source)))


def _log_normal(standardised: Tensor, log_deviation: Tensor) -> Tensor:
    return -0.5 * standardised.square() - log_deviation - _LOG_ROOT
