"""A sparse variational Gaussian-process field while it is trained: parameters, draws and divergence."""

import math
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from fim_dynsys_common.kernels import JITTER
from fim_dynsys_common.paths import Terms
from fim_dynsys_gpode.field import N_FEATURES


class InducingPosterior(Protocol):
    """A distribution of whitened inducing vectors (d, m) whose prior is standard normal."""

    def draw(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Vectors, and the divergence from the prior, exact or estimated from these vectors."""

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """What is trained."""


class GaussianPosterior(nn.Module):
    """Gaussian inducing vectors, of full covariance for each coordinate of the field.

    Parameters
    ----------
    means : Tensor (d, m)
        Where training starts.
    deviation : float
        Standard deviation there.
    """

    def __init__(self, means: Tensor, deviation: float = math.sqrt(1e-3)):
        super().__init__()
        self.means = nn.Parameter(means.clone())
        d, m = means.shape
        self.log_diagonal = nn.Parameter(torch.full((d, m), math.log(deviation), dtype=means.dtype))
        self.below = nn.Parameter(torch.zeros((d, m, m), dtype=means.dtype))

    @property
    def roots(self) -> Tensor:
        """Lower R (d, m, m) of the covariances ``R R^T``."""
        return torch.tril(self.below, -1) + torch.diag_embed(self.log_diagonal.exp())

    def draw(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Vectors (d, m), and the exact divergence."""
        roots = self.roots
        noise = torch.randn(self.means.shape, generator=generator, dtype=self.means.dtype)
        vectors = self.means + torch.einsum("jmk,jk->jm", roots, noise)
        return vectors, gaussian_divergence(self.means, roots, self.log_diagonal)


def gaussian_divergence(means: Tensor, roots: Tensor, log_diagonal: Tensor) -> Tensor:
    """Kullback-Leibler divergence of N(means, R R^T) from the standard normal, summed over all."""
    return 0.5 * (means.square().sum() + roots.square().sum() - means.numel()) - log_diagonal.sum()


class Process(nn.Module):
    """Gaussian-process fields of squared-exponential kernels at inducing points.

    Parameters
    ----------
    centres : Tensor (m, d)
        Inducing points.
    length_scale, variance : float
        Of every coordinate of the field, where training starts.
    """

    def __init__(self, centres: Tensor, length_scale: float, variance: float):
        super().__init__()
        d = centres.shape[1]
        self.centres = nn.Parameter(centres.clone())
        self.log_lengths = nn.Parameter(torch.full((d, d), math.log(length_scale), dtype=centres.dtype))
        self.log_signal = nn.Parameter(torch.full((d,), 0.5 * math.log(variance), dtype=centres.dtype))

    def factors(self) -> Tensor:
        """Lower factors (d, m, m) of the kernel matrices of unit variance."""
        scaled = self.centres / self.log_lengths.exp()[:, None, :]
        squares = (scaled[:, :, None, :] - scaled[:, None, :, :]).square().sum(dim=-1)
        gram = torch.exp(-0.5 * squares)
        return torch.linalg.cholesky(gram + JITTER * torch.eye(gram.shape[-1], dtype=gram.dtype))

    def matched(self, states: Tensor, slopes: Tensor, noise: float) -> Tensor:
        """Whitened vectors (d, m) whose field has these slopes (n, d), to the noise given."""
        with torch.no_grad():
            scaled = states / self.log_lengths.exp()[:, None, :]
            centres = self.centres / self.log_lengths.exp()[:, None, :]
            kernels = torch.exp(-0.5 * torch.cdist(centres, scaled).square())
            columns = torch.linalg.solve_triangular(self.factors(), kernels, upper=False)
            columns = columns * self.log_signal.exp()[:, None, None]
            normal = columns @ columns.mT + noise**2 * torch.eye(len(self.centres), dtype=states.dtype)
            return torch.linalg.solve(normal, columns @ slopes.T[..., None])[..., 0]

    def draw(self, vectors: Tensor, generator: torch.Generator) -> Terms:
        """A function drawn given whitened inducing vectors (d, m), by decoupled sampling.

        Cosines stand for the prior, kernels correct them at the inducing points.
        """
        m, d = self.centres.shape
        options: dict[str, Any] = {"generator": generator, "dtype": vectors.dtype}
        inverse = torch.exp(-self.log_lengths)
        signal = self.log_signal.exp()[:, None]
        frequencies = torch.randn(d, d, N_FEATURES, **options) * inverse[..., None]
        phases = (2.0 * math.pi) * torch.rand(d, N_FEATURES, **options)
        amplitudes = math.sqrt(2.0 / N_FEATURES) * torch.randn(d, N_FEATURES, **options)
        factors = self.factors()
        angles = torch.baddbmm(phases[:, None], self.centres.expand(d, m, d), frequencies)
        prior = angles.cos() @ amplitudes[..., None]
        rest = vectors[..., None] - torch.linalg.solve_triangular(factors, prior, upper=False)
        weights = torch.linalg.solve_triangular(factors.mT, rest, upper=True)[..., 0]
        return Terms(
            centres=self.centres,
            precision=inverse.square(),
            weights=(signal * weights).T,
            frequencies=frequencies,
            phases=phases,
            amplitudes=signal * amplitudes,
            layers=vectors.new_zeros(0, 3, d),
        )
