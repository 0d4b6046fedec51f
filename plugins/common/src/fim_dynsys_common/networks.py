"""Multilayer perceptrons as vector fields: many trained at once in torch, evaluated in numpy."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys_common.data import Units


class Networks(nn.Module):
    """M networks of one shape: tanh layers, plus a linear part from the input to the output.

    The linear part leaves only what is not linear to the layers, so that weights held small make the field
    linear and not slow.

    Parameters
    ----------
    count : int
        M.
    dim : int
        Number of states d.
    hidden : sequence of int
        Widths of the hidden layers.
    source : torch.Generator
        Weights are normal with variance 1 over the number of inputs, those of the last layer a tenth as
        large; biases and the linear part start at zero.
    dtype : torch.dtype
    alike : bool
        Whether all networks start from the same weights.
    """

    def __init__(
        self,
        count: int,
        dim: int,
        hidden: Sequence[int],
        source: torch.Generator,
        dtype: torch.dtype = torch.float64,
        alike: bool = False,
    ):
        super().__init__()
        sizes = (dim, *hidden, dim)
        weights, biases = [], []
        for layer, (inputs, outputs) in enumerate(pairwise(sizes)):
            size = (0.1 if layer == len(hidden) else 1.0) / math.sqrt(inputs)
            drawn = torch.randn(1 if alike else count, inputs, outputs, generator=source, dtype=torch.float64)
            weights.append(nn.Parameter((size * drawn).expand(count, -1, -1).to(dtype).clone()))
            biases.append(nn.Parameter(torch.zeros(count, 1, outputs, dtype=dtype)))
        self.weights, self.biases = nn.ParameterList(weights), nn.ParameterList(biases)
        self.linear = nn.Parameter(torch.zeros(count, dim, dim, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Rates (M, B, d) at states (M, B, d), in normalised units."""
        return evaluate(list(self.weights), list(self.biases), self.linear, x)

    def squares(self) -> Tensor:
        """Sum of squared weights of each network (M,), biases and linear part left out."""
        return torch.stack([(w**2).sum(dim=(1, 2)) for w in self.weights]).sum(dim=0)

    def copy(self, chosen: Sequence[int]) -> "Weights":
        """The weights of some of the networks, detached."""
        parts = ([p.detach()[chosen].double().numpy().copy() for p in group] for group in self._groups())
        weights, biases, (linear,) = parts
        return Weights(weights, [b[:, 0] for b in biases], linear)

    def _groups(self) -> Iterator[Sequence[Tensor]]:
        yield list(self.weights)
        yield list(self.biases)
        yield [self.linear]


def evaluate(weights: Sequence[Tensor], biases: Sequence[Tensor], linear: Tensor, x: Tensor) -> Tensor:
    """Networks with weights (M, a, b), biases (M, 1, b) and linear parts (M, d, d) at states (M, B, d)."""
    hidden = x
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        hidden = torch.tanh(torch.baddbmm(bias, hidden, weight))
    return torch.baddbmm(torch.baddbmm(biases[-1], hidden, weights[-1]), x, linear)


class Weights:
    """Weights of M networks as arrays: one (M, a, b) and one (M, b) a layer, and linear parts (M, d, d)."""

    def __init__(self, weights: Sequence[np.ndarray], biases: Sequence[np.ndarray], linear: np.ndarray):
        self.weights, self.biases, self.linear = list(weights), list(biases), linear

    def __len__(self) -> int:
        return len(self.linear)

    def __getitem__(self, chosen: Any) -> Self:
        """Some of the networks, by a slice or positions."""
        return type(self)(
            [w[chosen] for w in self.weights], [b[chosen] for b in self.biases], self.linear[chosen]
        )

    def rates(self, z: np.ndarray) -> np.ndarray:
        """Rates (M, n, d) at states (n, d), in normalised units."""
        hidden = z
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = np.tanh(hidden @ weight + bias[:, None])
        return hidden @ self.weights[-1] + self.biases[-1][:, None] + z @ self.linear

    def jacobian(self, z: np.ndarray) -> np.ndarray:
        """Derivatives (M, n, d, d) of rate i by state j at [..., i, j]."""
        hidden, inner = z, np.eye(z.shape[1])[:, None]  # inner is (d, n, width) for each network
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = np.tanh(hidden @ weight + bias[:, None])
            inner = inner @ weight[:, None] * (1.0 - hidden**2)[:, None]
        by_state = inner @ self.weights[-1][:, None] + self.linear[:, :, None]
        return np.moveaxis(by_state, 1, -1)


class NetworkField(VectorField):
    """The mean of M networks as a field in the user's units; M > 1 are draws from a posterior.

    Parameters
    ----------
    weights : Weights
        Of the networks, in normalised units.
    units : Units
    description
        Keyword arguments of `VectorField`.
    """

    def __init__(self, weights: Weights, units: Units, **description: Any):
        super().__init__(weights.linear.shape[-1], **description)
        self._weights, self._units = weights, units

    def __len__(self) -> int:
        return len(self._weights)

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        return self._units.outer_rates(self._weights.rates(self._units.inner(x)).mean(axis=0))

    def _jac(self, x: np.ndarray) -> np.ndarray:
        inner = self._weights.jacobian(self._units.inner(x)).mean(axis=0)
        scale = self._units.scale
        return inner * (scale[:, None] / scale / self._units.time)

    def scale(self, x: ArrayLike) -> np.ndarray | None:
        """Standard deviation of the draws, ``(..., d)``; None for a single network."""
        points, rows = self._rows(x)
        if len(self) == 1:
            return None
        spread = self._weights.rates(self._units.inner(rows)).std(axis=0, ddof=1)
        return self._units.outer_rates(spread).reshape(points.shape)

    def draws(self, n: int, seed: int = 0) -> EnsembleField | None:
        """n of the draws, each as often as any other as far as n allows; None for a single network."""
        if len(self) == 1:
            return None
        rng = np.random.default_rng(seed)
        rounds = [rng.permutation(len(self)) for _ in range(-(-n // len(self)))]
        return EnsembleField(
            NetworkField(self._weights[[k]], self._units, frame=self.frame)
            for k in np.concatenate(rounds)[:n]
        )

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Weights and units; see `fim_dynsys.saved.KeptField`."""
        layers = zip(self._weights.weights, self._weights.biases, strict=True)
        arrays = {
            f"{kind}_{k}": part
            for k, pair in enumerate(layers)
            for kind, part in zip("wb", pair, strict=True)
        }
        units = {"shift": self._units.shift, "unit": self._units.scale, "time": np.array(self._units.time)}
        return arrays | {"linear": self._weights.linear} | units

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], **description: Any) -> Self:
        """The field again.

        Raises
        ------
        ValueError
            Where an array is missing, not finite, or of another shape than its neighbours ask for.
        """
        linear, shift, unit = arrays["linear"], arrays["shift"], arrays["unit"]
        count, dim = len(linear), linear.shape[-1]
        depth = sum(name.startswith("w_") for name in arrays)
        weights, biases = [arrays[f"w_{k}"] for k in range(depth)], [arrays[f"b_{k}"] for k in range(depth)]
        sizes = [dim, *(b.shape[-1] for b in biases[:-1]), dim]
        wanted = [(count, a, b) for a, b in pairwise(sizes)]
        shapes = [*wanted, *((count, b) for _, _, b in wanted), (count, dim, dim), (dim,), (dim,), ()]
        held = [*weights, *biases, linear, shift, unit, arrays["time"]]
        for array, shape in zip(held, shapes, strict=True):
            if array.shape != shape or array.dtype.kind != "f" or not np.isfinite(array).all():
                raise ValueError(
                    f"expected finite numbers of shape {shape}, got {array.dtype} of {array.shape}"
                )
        return cls(Weights(weights, biases, linear), Units(shift, unit, float(arrays["time"])), **description)
