"""Latent SDEs by direct matching of the Fokker-Planck-Kolmogorov equation.

References
----------
A. Solin, E. Tamir and P. Verma, Scalable inference in SDEs by direct matching of the Fokker-Planck-Kolmogorov
equation, NeurIPS 2021.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fim_dynsys_common.latent import Grid, LatentModel, LatentNetwork, Perceptrons, Windows, transformed
from fim_dynsys_common.network_paths import Layers, network_paths
from fim_dynsys_latent_sde.covariances import covariances

_LEAST_LOG_VARIANCE = -6.0  # of the encoder, as published
_FIRST_LOG_VARIANCE = -3.0
_FIRST_DIFFUSION = -7.0  # before the sigmoid
_JITTER = 1e-6
_SUBSTEPS = 6  # of sampled paths, whose scheme is of order one half
_ANNEALING = 0.005  # of the weight of the divergence from the prior, per step, as published


@dataclass(eq=False, repr=False)
class LatentSDE(LatentModel):
    """Latent SDE dz = f(z) dt + L(z) dβ, observed through a decoder; its moments solve an ODE.

    Parameters
    ----------
    latent_dim : int, optional
        Latent coordinates that the decoder sees; default as many as there are states, at most 6.
    context_dim : int
        Further latent coordinates, which it does not see.
    hidden, steps, learning_rate, batch_size, window, restarts, seed, max_seconds, progress
        As of `fim_dynsys_common.latent.LatentModel`.
    """

    latent_dim: int | None = None
    context_dim: int = 0
    steps: int = 1000

    name = "latent-sde"
    version = "2"

    def _network(self, dim: int, replicas: int, source: torch.Generator) -> "MomentNetwork":
        latent = min(dim, 6) if self.latent_dim is None else self.latent_dim
        return MomentNetwork(dim, latent, self.context_dim, self.hidden, replicas, source)


class MomentNetwork(LatentNetwork):
    """Encoder N(m0, P0), drift and diffusion of the latent SDE, decoder, noise level; R of each."""

    def __init__(
        self, dim: int, latent: int, context: int, hidden: int, replicas: int, source: torch.Generator
    ) -> None:
        super().__init__()
        self.seen, self.size = latent, latent + context
        self.encoder = Perceptrons(replicas, (dim, hidden, hidden, 2 * self.size), F.softplus, source, 0.1)
        self.decoder = Perceptrons(replicas, (latent, hidden, hidden, dim), F.softplus, source, 0.1)
        self.drift = Perceptrons(replicas, (self.size, hidden, self.size), F.softplus, source, 0.1)
        self.diffusion = nn.ParameterList(
            0.02 * torch.randn(replicas, 1, self.size, hidden, dtype=torch.float64, generator=source)
            for _ in range(3)
        )
        shape = (replicas, 1, self.size)
        self.diffusion_bias = nn.Parameter(torch.full(shape, _FIRST_DIFFUSION, dtype=torch.float64))
        self.log_noise = nn.Parameter(torch.full((replicas, 1, 1, dim), -1.0, dtype=torch.float64))
        eye = torch.eye(dim, self.size, dtype=torch.float64)
        self.encoder_skip = nn.Parameter(eye.repeat(replicas, 1, 1))
        self.decoder_skip = nn.Parameter(eye[:, :latent].T.repeat(replicas, 1, 1))

    def encoded(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Means and log-variances (R, B, m) of the latent states behind observations (R, B, d)."""
        offset, spread = self.encoder(x).split(self.size, dim=-1)
        return x @ self.encoder_skip + offset, (_FIRST_LOG_VARIANCE + spread).clamp(_LEAST_LOG_VARIANCE, 6.0)

    def encode(self, x: Tensor) -> Tensor:
        return self.encoded(x)[0]

    def rate(self, z: Tensor) -> Tensor:
        return self.drift(z)

    def decode(self, z: Tensor) -> Tensor:
        z = z[..., : self.seen]
        return transformed(z, self.decoder_skip) + self.decoder(z)

    def jacobian(self, z: Tensor) -> Tensor:
        """Of the drift, transposed, (R, N, m, m), at z (R, N, m)."""
        (first, second), (bias, _) = self.drift.weights, self.drift.biases
        slope = torch.sigmoid(torch.baddbmm(bias, z, first))
        by_unit = first.mT[..., None] * second[:, :, None]
        return (slope @ by_unit.flatten(2)).unflatten(2, (self.size, self.size))

    def variance_rate(self, z: Tensor) -> Tensor:
        """Diagonal of L L^T, (R, N, m), at z (R, N, m); each depends on its own coordinate."""
        scale, shift, out = self.diffusion
        return torch.sigmoid(
            (F.softplus(z[..., None] * scale + shift) * out).sum(dim=-1) + self.diffusion_bias
        )

    def moments(self, x: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
        """Means (R, B, L, m) and covariances (R, B, L, m, m) of the latent states after x (R, B, d).

        The mean follows the drift, the covariance its linearisation about the mean,
        dP/dt = F P + P F^T + L L^T. Over each step F is the mean of its values at both ends and L L^T enters
        by the trapezoidal rule: second order, and a covariance whatever the step.
        """
        mean, spread = self.encoded(x)
        (first, last), (hidden_bias, bias) = self.drift.weights, self.drift.biases
        layers = Layers(first, hidden_bias[:, 0], last, bias[:, 0], torch.zeros_like(first @ last))
        h = float(grid.times[0, 1])
        lengths = mean.new_full((mean.shape[1],), h)
        path, slopes = network_paths(layers, mean, lengths, grid.times.shape[1] - 1, "softplus")
        flat = path.flatten(1, 2)
        turned = self.jacobian(flat).unflatten(1, path.shape[1:3])
        grown = self.variance_rate(flat).unflatten(1, path.shape[1:3])
        g = 0.5 * h * (turned[:, :, 1:] + turned[:, :, :-1])
        flow = torch.eye(self.size, dtype=x.dtype) + g @ _exponential_factor(g)
        back = flow.mT
        added = 0.5 * h * (back @ (grown[:, :, :-1, :, None] * flow) + torch.diag_embed(grown[:, :, 1:]))
        found = covariances(torch.diag_embed(spread.exp()), flow, added)
        return grid.curve(path, slopes), grid.line(found)

    def loss(self, windows: Windows, step: int, source: torch.Generator) -> Tensor:
        """Negative evidence lower bound per sample; its divergence from N(0, I) at the start is annealed."""
        x = windows.x.expand(len(self.log_noise), -1, -1, -1)
        path, covariances = self.moments(x[:, :, 0], windows.grid)
        root, _ = torch.linalg.cholesky_ex(covariances + _JITTER * torch.eye(self.size, dtype=x.dtype))
        noise = torch.randn(path.shape, dtype=x.dtype, generator=source)
        z = path + (root @ noise[..., None])[..., 0]
        apart = (x - self.decode(z)) * torch.exp(-self.log_noise)
        misfit = ((0.5 * apart.square() + self.log_noise).sum(dim=-1) * windows.used).sum(dim=(1, 2))
        mean, spread = self.encoded(x[:, :, 0])
        prior = 0.5 * (mean.square() + spread.exp() - 1.0 - spread).sum(dim=(1, 2))
        return (misfit + min(_ANNEALING * step, 1.0) * prior) / windows.used.sum()

    def draw(self, x: Tensor, grid: Grid, source: torch.Generator) -> Tensor:
        """Paths of the SDE itself, by the scheme of Euler and Maruyama, from draws of their starts."""
        mean, spread = self.encoded(x)
        z = mean + torch.exp(0.5 * spread) * torch.randn(mean.shape, dtype=x.dtype, generator=source)
        h = float(grid.times[0, 1]) / _SUBSTEPS
        path = [z]
        for _ in range(grid.times.shape[1] - 1):
            for _ in range(_SUBSTEPS):
                noise = torch.randn(mean.shape, dtype=x.dtype, generator=source)
                z = z + h * self.drift(z) + torch.sqrt(h * self.variance_rate(z)) * noise
            path.append(z)
        return grid.line(torch.stack(path, dim=2))


def _exponential_factor(g: Tensor) -> Tensor:
    """(exp(g) - 1) / g for small matrices, to fourth order."""
    eye = torch.eye(g.shape[-1], dtype=g.dtype)
    return eye + 0.5 * g @ (eye + g @ (eye + 0.25 * g) / 3.0)
