"""The two flows: planar layers of the inducing vectors, monotone layers of each coordinate of the field."""

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from fim_dynsys_gpode.process import GaussianPosterior

_IDENTITY = math.log(math.e - 1.0)  # where softplus is 1
_FIRST_DIRECTIONS = 0.01  # standard deviation of the weights that planar layers start from


class PlanarPosterior(nn.Module):
    """Gaussian inducing vectors sent through planar layers, of their own for each coordinate of the field.

    Parameters
    ----------
    means : Tensor (d, m)
        Of the Gaussian, where training starts; the layers then hardly do anything.
    n_layers : int
        Planar layers.
    generator : torch.Generator
        Of the layers' first directions.

    References
    ----------
    D. Rezende and S. Mohamed, Variational inference with normalizing flows, ICML 2015, eq. 10-12 and
    appendix A.1.
    """

    def __init__(self, means: Tensor, n_layers: int, generator: torch.Generator):
        super().__init__()
        self.base = GaussianPosterior(means)
        shape = (2, n_layers, *means.shape)
        first = torch.randn(shape, generator=generator, dtype=means.dtype)
        self.directions = nn.Parameter(_FIRST_DIRECTIONS * first)
        self.offsets = nn.Parameter(means.new_zeros(n_layers, means.shape[0], 1))

    def layers(self) -> Tensor:
        """u, w and b (repeated over m) of the layers, (3, n_layers, d, m), u such that each is invertible."""
        u, w = self.directions
        inner = (u * w).sum(dim=-1, keepdim=True)
        u = u + (softplus(inner) - 1.0 - inner) * w / (w.square().sum(dim=-1, keepdim=True) + 1e-12)
        return torch.stack([u, w, self.offsets.expand_as(u)])

    def draw(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Vectors (d, m), and the divergence from the standard normal estimated from them.

        The entropy of the Gaussian is exact; what its noise weighs does not enter the estimate.
        """
        vectors, _ = self.base.draw(generator)
        entropy = self.base.log_diagonal.sum() + 0.5 * vectors.numel()
        for u, w, b in self.layers().unbind(dim=1):
            bend = torch.tanh((w * vectors).sum(dim=-1, keepdim=True) + b[:, :1])
            vectors = vectors + u * bend
            stretch = 1.0 + (u * w).sum(dim=-1, keepdim=True) * (1.0 - bend.square())
            entropy = entropy + stretch.log().sum()
        return vectors, 0.5 * vectors.square().sum() - entropy


class OutputFlow(nn.Module):
    """Monotone layers ``g + u tanh(v g + c)`` of each coordinate, the identity where training starts.

    Parameters
    ----------
    n_layers, dim : int
        Layers, and coordinates of the field.
    """

    def __init__(self, n_layers: int, dim: int):
        super().__init__()
        self.bend = nn.Parameter(torch.full((n_layers, dim), _IDENTITY, dtype=torch.float64))
        self.log_slope = nn.Parameter(torch.zeros(n_layers, dim, dtype=torch.float64))
        places = torch.linspace(-1.0, 1.0, n_layers + 2, dtype=torch.float64)[1:-1]
        self.offset = nn.Parameter(places[:, None].repeat(1, dim))

    def forward(self) -> Tensor:
        """u, v and c as layers (n_layers, 3, dim), with u v > -1."""
        slope = self.log_slope.exp()
        return torch.stack([(softplus(self.bend) - 1.0) / slope, slope, self.offset], dim=1)


def planar(vectors: np.ndarray, layers: np.ndarray) -> np.ndarray:
    """Vectors (..., d, m) through planar layers (3, l, d, m), as `PlanarPosterior` has them."""
    for u, w, b in zip(*layers, strict=True):
        vectors = vectors + u * np.tanh(np.sum(w * vectors, axis=-1, keepdims=True) + b[..., :1])
    return vectors


def bent(values: np.ndarray, layers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values (n, d) through monotone layers (l, 3, d), and the slopes (n, d) of that map."""
    slopes = np.ones_like(values)
    for u, v, c in layers:
        bend = np.tanh(v * values + c)
        values, slopes = values + u * bend, slopes * (1.0 + u * v * (1.0 - bend**2))
    return values, slopes
