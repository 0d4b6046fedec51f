"""Density of weights, states at the starts of segments, and noise, given the samples."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fim_dynsys.regression.criteria import noise_model
from fim_dynsys_common.data import Batch
from fim_dynsys_common.network_paths import pull_back, solve
from fim_dynsys_common.networks import Weights
from fim_dynsys_common.rollout import DenseRk4
from fim_dynsys_common.shooting import Segments

MAX_STEP = 0.4  # of Runge-Kutta, in units of time of the data
_BOUND = 1e3  # standard deviations that a path is held within
_START_STD = 3.0  # prior of the first states, in standard deviations of the data
_NOISE_SPREAD = 0.5  # prior of the logarithm of the noise, about its estimate
_LEAST_NOISE = 0.02  # standard deviations: what the network leaves of clean data
_FIRST_OUTPUT = 0.1  # output weights start this many prior standard deviations from zero


@dataclass(frozen=True)
class Parts:
    """Parameters of C chains, each in the units that the density takes them in."""

    weights: tuple[Tensor, Tensor]  # (C, d, h), (C, h, d)
    biases: tuple[Tensor, Tensor]  # (C, 1, h), (C, 1, d)
    linear: Tensor  # (C, d, d)
    starts: Tensor  # (C, S, d)
    noise: Tensor  # (C, 1, 1, d)


class Posterior:
    """The log density of a vector of parameters, up to a constant and with the sign of an energy.

    With z the segments' starts, w the weights and sigma the noise, it is the sum of squares of

    - the samples' residuals over sigma, with its normalising logarithm,
    - the jumps between segments over `continuity`,
    - the weights over their prior standard deviations, and the first states over three,

    halved. All weights are standard normal a priori but those of the output, whose variance is 1 over the
    width; a vector holds them divided by it.

    Parameters
    ----------
    batch : Batch
        Complete samples.
    width : int
        Units of the hidden layer.
    segment : int or None
        Intervals in a segment.
    continuity : float
        Standard deviation of a jump between segments, in standard deviations of the data.
    """

    def __init__(self, batch: Batch, width: int, segment: int | None, continuity: float):
        d = batch.dim
        self.segments = segments = Segments.of(batch, segment)
        grid = DenseRk4(segments.times, MAX_STEP)
        self._h, self._steps, self._at_samples = grid.h[:, 0].numpy(), grid.steps, grid.weights.numpy()
        self._linked, self._first = segments.linked.numpy(), segments.is_first.numpy()
        self._continuity = continuity
        shapes = [(d, width), (width, d), (1, width), (1, d), (d, d), (len(segments), d), (1, 1, d)]
        sizes = [math.prod(shape) for shape in shapes]
        self._shapes, self._sizes = shapes, sizes
        self._output = width**-0.5
        self.n_weights = sum(sizes[:5])
        self._observed, self._own = segments.gather(batch.x).numpy(), segments.own[..., None].numpy()
        self._batch = batch
        states, slopes = batch.smooth()
        inside = torch.tensor(np.arange(batch.t.shape[1]) < np.array(batch.n_obs)[:, None])
        self.states = states[inside]
        self._slopes, self._starts = slopes[inside], segments.starts(states)
        pairs = [(batch.t[k, :n].numpy(), batch.x[k, :n].numpy()) for k, n in enumerate(batch.n_obs)]
        level = torch.as_tensor(np.maximum(noise_model(pairs).level, _LEAST_NOISE))
        self._expected_noise = level.log()

    def parts(self, theta: Tensor) -> Parts:
        """The vectors (C, P) taken apart."""
        pieces = theta.split(self._sizes, dim=1)
        first, last, hidden, out, linear, starts, noise = (
            piece.unflatten(1, shape) for piece, shape in zip(pieces, self._shapes, strict=True)
        )
        scale = (self._expected_noise + _NOISE_SPREAD * noise).exp()
        return Parts((first, self._output * last), (hidden, out), linear, starts, scale)

    def energy(self, theta: Tensor) -> Tensor:
        """Negative log density (C,) of vectors (C, P); differentiable once."""
        return _Energy.apply(theta, self)

    def energy_and_gradient(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Negative log density (C,) of vectors (C, P), and its gradient (C, P)."""
        first, last, hidden, out, linear, starts, noise = self._pieces(theta)
        parts = (first, hidden[:, 0], self._output * last, out[:, 0], linear)
        layers = tuple(np.ascontiguousarray(part) for part in parts)
        path, rates = solve(layers, True, np.ascontiguousarray(starts), self._h[None], self._steps, _BOUND)
        paths = self._at_samples @ np.concatenate([path, rates], axis=2)
        scale = np.exp(self._expected_noise.numpy() + _NOISE_SPREAD * noise)
        residuals = np.where(self._own, (paths - self._observed) / scale, 0.0)
        jumps = (starts[:, self._linked + 1] - paths[:, self._linked, -1]) / self._continuity
        begun = starts[:, self._first] / _START_STD
        plain = np.concatenate([theta[:, : self.n_weights], noise[:, 0, 0]], axis=1)
        terms = (residuals, jumps, begun, plain)
        squares = np.sum([np.square(part).reshape(len(theta), -1).sum(axis=1) for part in terms], axis=0)
        energy = 0.5 * squares + (self._own * np.log(scale)).sum(axis=(1, 2, 3))

        of_paths = residuals / scale
        of_paths[:, self._linked, -1] -= jumps / self._continuity
        above = self._at_samples.transpose(0, 2, 1) @ of_paths
        gradient = np.zeros_like(theta)
        *of_layers, of_starts, of_noise = self._pieces(gradient)
        sums = tuple(np.zeros_like(part) for part in layers)
        above_path, above_rates = (np.ascontiguousarray(part) for part in np.split(above, 2, axis=2))
        of_starts += pull_back(
            layers, True, path, rates, self._h[None], _BOUND, above_path, above_rates, sums
        )
        of_starts[:, self._linked + 1] += jumps / self._continuity
        of_starts[:, self._first] += begun / _START_STD
        of_noise += _NOISE_SPREAD * (self._own - np.square(residuals)).sum(axis=(1, 2), keepdims=True) + noise
        for place, of, factor in zip((0, 2, 1, 3, 4), sums, (1.0, 1.0, self._output, 1.0, 1.0), strict=True):
            of_layers[place] += factor * of.reshape(of_layers[place].shape)
        gradient[:, : self.n_weights] += theta[:, : self.n_weights]
        return energy, gradient

    def _pieces(self, theta: np.ndarray) -> list[np.ndarray]:
        """Views of vectors (C, P) as what they hold."""
        ends = np.cumsum(self._sizes)[:-1]
        pieces = np.split(theta, ends, axis=1)
        return [piece.reshape(-1, *shape) for piece, shape in zip(pieces, self._shapes, strict=True)]

    def first_guess(self, chains: int, source: torch.Generator) -> Tensor:
        """Vectors (C, P): random hidden layers, linear regression of the slopes, smoothed starts."""
        dtype = self._starts.dtype
        columns = torch.cat([self.states, torch.ones_like(self.states[:, :1])], dim=1)
        solution = torch.linalg.pinv(columns) @ self._slopes
        drawn = [torch.randn(chains, size, generator=source, dtype=dtype) for size in self._sizes[:3]]
        known = [solution[-1:], solution[:-1], self._starts, torch.zeros(self._sizes[-1], dtype=dtype)]
        fixed = [part.reshape(1, -1).expand(chains, -1) for part in known]
        return torch.cat([drawn[0], _FIRST_OUTPUT * drawn[1], drawn[2], *fixed], dim=1)

    def weights(self, theta: Tensor) -> Weights:
        """Networks of vectors (C, P)."""
        parts = self.parts(theta)
        biases = [bias[:, 0].numpy() for bias in parts.biases]
        return Weights([weight.numpy() for weight in parts.weights], biases, parts.linear.numpy())


class _Energy(torch.autograd.Function):
    """The energy of tensors, its gradient found with it."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, posterior: Posterior) -> Tensor:
        energy, gradient = posterior.energy_and_gradient(theta.detach().numpy())
        ctx.gradient = torch.from_numpy(gradient)
        return torch.from_numpy(energy)

    @staticmethod
    def backward(ctx: Any, *above: Tensor) -> tuple[Tensor | None, ...]:
        return above[0][:, None] * ctx.gradient, None
