"""Latent models: data in windows, networks whose restarts train as one batch, fit, forecast and saving."""

import abc
import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn

from fim_dynsys.deadline import Deadline
from fim_dynsys.errors import FitWarning, warn
from fim_dynsys.models.base import ModelKind, TrajectoryModel
from fim_dynsys.models.inputs import Observations, Times, as_trajectories, real_array
from fim_dynsys.saved import SavedModel
from fim_dynsys.simulation.problem import Status
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys_common.data import Batch, Units
from fim_dynsys_common.heldout import held_out_blocks
from fim_dynsys_common.rollout import rk4
from fim_dynsys_common.settings import check_counts
from fim_dynsys_common.training import Trained, generator, train

_BOUND = 1e3  # latent coordinates, of order one on the data; a forecast that leaves it has failed
_MAX_STEP = 0.3  # of the integration, in the time in which the data move by one scale
_FORECAST_STEPS = 100_000
_SCORED_WINDOWS = 256


# ---------------------------------------------------------------------- data


@dataclass(frozen=True, eq=False)
class Grid:
    """Equal steps from 0 over B rows of times, and where the times lie between them.

    Solutions are found at the steps, as many as their length asks for, and interpolated at the times.

    Attributes
    ----------
    times : Tensor (1, F)
        Of the steps, for `rollout.rk4`.
    cell, place : Tensor (B, L)
        Step before each time, and the share of the way to the next.
    """

    times: Tensor
    cell: Tensor
    place: Tensor

    @classmethod
    def of(cls, times: Tensor) -> Self:
        """For times (B, L) from 0."""
        end = float(times.max()) or 1.0
        count = int(np.ceil(end / _MAX_STEP))
        cell = (times * (count / end)).floor().clamp(max=count - 1).long()
        steps = torch.linspace(0.0, end, count + 1, dtype=times.dtype)
        return cls(steps[None], cell, times * (count / end) - cell)

    def rows(self, chosen: Tensor) -> "Grid":
        """Only these rows."""
        return Grid(self.times, self.cell[chosen], self.place[chosen])

    def curve(self, path: Tensor, slopes: Tensor) -> Tensor:
        """States (R, B, L, m) on the cubics of Hermite through a path (R, B, F, m) with its slopes."""
        h, s = float(self.times[0, 1]), self.place[..., None]
        (left, right), (rise, fall) = self._ends(path), self._ends(slopes)
        bend = s * (1.0 - s)
        straight = left + s * (right - left)
        return straight + bend * ((1.0 - s) * (h * rise - right + left) - s * (h * fall - right + left))

    def line(self, values: Tensor) -> Tensor:
        """Values (R, B, L, ...) on straight lines between those at the steps (R, B, F, ...)."""
        left, right = self._ends(values)
        return left + self.place.view(*self.place.shape, *[1] * (values.ndim - 3)) * (right - left)

    def _ends(self, values: Tensor) -> tuple[Tensor, Tensor]:
        row = torch.arange(len(self.cell))[:, None]
        return values[:, row, self.cell], values[:, row, self.cell + 1]


@dataclass(frozen=True, eq=False)
class Windows:
    """S pieces of trajectories, of up to W intervals each, that start at samples of their own.

    Attributes
    ----------
    x : Tensor (S, W + 1, d)
        Observations.
    used : Tensor of bool (S, W + 1)
        Which of them count; the others are held out, or padding.
    grid : Grid
        Of their times, each window's from 0.
    """

    x: Tensor
    used: Tensor
    grid: Grid

    @classmethod
    def of(cls, batch: Batch, intervals: int, starts: Tensor, used: Tensor) -> Self:
        """Windows from the samples `starts` (K, L) that others follow; samples `used` (K, L) count."""
        n_obs = torch.tensor(batch.n_obs)
        first = starts & (torch.arange(batch.x.shape[1]) < n_obs[:, None] - 1)
        which, begin = first.nonzero(as_tuple=True)
        samples = begin[:, None] + torch.arange(min(intervals, max(batch.n_obs) - 1) + 1)
        last = n_obs[which, None] - 1
        inside = samples <= last
        samples = torch.minimum(samples, last)
        times = batch.t[which[:, None], samples]
        own = used[which[:, None], samples] & inside
        return cls(batch.x[which[:, None], samples], own, Grid.of(times - times[:, :1]))

    def __len__(self) -> int:
        return len(self.x)

    def rows(self, chosen: Tensor) -> "Windows":
        """Only these windows."""
        return Windows(self.x[chosen], self.used[chosen], self.grid.rows(chosen))

    def drawn(self, n: int, source: torch.Generator) -> "Windows":
        """At most `n` of them, at random."""
        return self if n >= len(self) else self.rows(torch.randperm(len(self), generator=source)[:n])


# ---------------------------------------------------------------------- networks

Activation = Callable[[Tensor], Tensor]


class Perceptrons(nn.Module):
    """R multilayer perceptrons of one shape, side by side.

    Parameters
    ----------
    replicas : int
        R.
    sizes : sequence of int
        Widths of the layers, input and output included.
    activation : callable
        Between layers.
    source : torch.Generator
        For the initial weights: Glorot's, uniform (biases zero).
    last : float
        Factor on the initial weights of the last layer.
    """

    def __init__(
        self,
        replicas: int,
        sizes: Sequence[int],
        activation: Activation,
        source: torch.Generator,
        last: float = 1.0,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for i, (a, b) in enumerate(itertools.pairwise(sizes)):
            span = (6.0 / (a + b)) ** 0.5 * (last if i == len(sizes) - 2 else 1.0)
            draw = torch.rand(replicas, a, b, dtype=torch.float64, generator=source)
            self.weights.append(nn.Parameter(span * (2.0 * draw - 1.0)))
            self.biases.append(nn.Parameter(torch.zeros(replicas, 1, b, dtype=torch.float64)))

    def forward(self, x: Tensor) -> Tensor:
        """Outputs (R, ..., b) for inputs (R, ..., a)."""
        return perceptron(x, list(self.weights), list(self.biases), self.activation)


def perceptron(
    x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor], activation: Activation
) -> Tensor:
    """Outputs (R, ..., b) of R perceptrons with weights (R, a, b) and biases (R, 1, b)."""
    h = x.flatten(1, -2)
    for i, (w, b) in enumerate(zip(weights, biases, strict=True)):
        h = torch.baddbmm(b, h if i == 0 else activation(h), w)
    return h.unflatten(1, x.shape[1:-1])


def transformed(x: Tensor, matrices: Tensor) -> Tensor:
    """Products (R, ..., b) of rows x (R, ..., a) and matrices (R, a, b)."""
    return (x.flatten(1, -2) @ matrices).unflatten(1, x.shape[1:-1])


class LatentNetwork(nn.Module, abc.ABC):
    """Encoder, latent dynamics and decoder; every parameter is (R, ...), one slice for each restart."""

    @abc.abstractmethod
    def encode(self, x: Tensor) -> Tensor:
        """Mean latent states (R, B, m) for observations (R, B, d)."""

    @abc.abstractmethod
    def rate(self, z: Tensor) -> Tensor:
        """Rate of change (R, B, m) of the mean latent state."""

    @abc.abstractmethod
    def decode(self, z: Tensor) -> Tensor:
        """Observations (R, ..., d) for latent states (R, ..., m)."""

    @abc.abstractmethod
    def loss(self, windows: Windows, step: int, source: torch.Generator) -> Tensor:
        """What training minimises, (R,)."""

    @abc.abstractmethod
    def draw(self, x: Tensor, grid: Grid, source: torch.Generator) -> Tensor:
        """Random latent paths (R, B, L, m) from observations (R, B, d)."""

    def means(self, x: Tensor, grid: Grid) -> Tensor:
        """Mean latent paths (R, B, L, m) from observations (R, B, d)."""
        path = rk4(self.rate, self.encode(x), grid.times, torch.inf, _BOUND)
        return grid.curve(path, self.rate(path))


# ---------------------------------------------------------------------- the model


@dataclass(eq=False, repr=False)  # which writes __init__; what it prints is scikit-learn's
class LatentModel(TrajectoryModel, BaseEstimator):
    """What latent comparators share: `fit`, `forecast`, `sample`, saving.

    A subclass writes `_network`. After `fit`, `context_` holds the observations used and `report_` how
    training went.

    Parameters
    ----------
    hidden : int
        Units of each hidden layer.
    steps, learning_rate, batch_size
        Of Adam; the rate decays with the cosine of the steps. A step takes `batch_size` windows.
    window : int
        Largest number of intervals between samples that one window holds.
    restarts : int
        Networks trained side by side, of which the one that forecasts held-out blocks best is kept.
    seed : int
        Of initial weights and draws.
    max_seconds : float or None
        Wall-clock time after which the best so far is taken.
    progress : bool or None
        Whether a bar is shown; None on a terminal.
    """

    hidden: int = 30
    steps: int = 300
    learning_rate: float = 0.01
    batch_size: int = 24
    window: int = 50
    restarts: int = 2
    seed: int = 0
    max_seconds: float | None = 300.0
    progress: bool | None = None

    kind = ModelKind.LATENT
    min_observations = 10

    @abc.abstractmethod
    def _network(self, dim: int, replicas: int, source: torch.Generator) -> LatentNetwork:
        """A new network for `dim` observed coordinates."""

    def fit(self, x: Observations, t: Times = None) -> Self:
        """Learn from observations.

        Parameters
        ----------
        x, t
            As for `fim_dynsys.VectorFieldModel.fit`. Samples with a missing coordinate are left out.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Where the data are malformed or too few, or a setting makes no sense. An earlier fit then stays as
            it was.
        FitError
            Where training diverged, or `max_seconds` passed before anything usable was found.

        Warns
        -----
        FitWarning
            Where forecasts of held-out samples are no better than the mean of the observations.
        """
        deadline = Deadline(self.name, self.max_seconds)
        check_counts(self.name, self, "hidden", "steps", "batch_size", "window", "restarts")
        data = as_trajectories(x, t).drop_incomplete(self.name)
        if data.n_obs.sum() < self.min_observations or data.n_obs.max() < 4:
            raise ValueError(
                f"{self.name}: expected at least {self.min_observations} complete samples, 4 of them in one "
                f"trajectory, got {data.n_obs.tolist()} in the trajectories; give more samples."
            )
        batch = Batch.of(data)
        trained = self._train(batch, deadline)
        if trained.score >= 1.0:
            warn(
                f"{self.name}: held-out samples are forecast no better than by the mean of the observations "
                f"(error {trained.score:.2g} of their variance); more samples or steps may help.",
                FitWarning,
            )
        self.arrays_ = trained.state
        self.context_, self.units_ = data, batch.units
        self.report_ = {
            "held_out_error": trained.score,
            "best_step": trained.step,
            "steps": trained.steps,
            "ended": trained.ended,
        }
        return self

    def _train(self, batch: Batch, deadline: Deadline) -> Trained[dict[str, np.ndarray]]:
        """Train all restarts on windows that grow; keep the one that forecasts held-out blocks best."""
        source = generator(self.seed)
        observed = batch.seen.all(dim=-1)
        held = held_out_blocks(batch.n_obs, folds=6, blocks=2)
        held = held[len(held) // 2] & observed
        used = observed & ~held
        lengths = sorted({max(min(n, self.window), 1) for n in (8, 16, self.window)})
        stages = [Windows.of(batch, length, used, used) for length in lengths]
        scored = Windows.of(batch, self.window, used, held)
        scored = scored.rows(scored.used.any(dim=1)).drawn(_SCORED_WINDOWS, generator(self.seed))
        network = self._network(batch.dim, self.restarts, source)
        optimiser = torch.optim.Adam(network.parameters(), lr=self.learning_rate)
        decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.steps, 0.02 * self.learning_rate)
        at = 0

        def step(i: int) -> float:
            nonlocal at
            at = i * len(stages) // self.steps
            losses = network.loss(stages[at].drawn(self.batch_size, source), i, source)
            optimiser.zero_grad()
            losses.sum().backward()
            _clip_each(list(network.parameters()))
            optimiser.step()
            decay.step()
            finite = losses[torch.isfinite(losses)].detach()
            return float(finite.min()) if len(finite) else np.nan

        def errors() -> Tensor:
            with torch.no_grad():
                paths = network.means(scored.x[:, 0].expand(self.restarts, -1, -1), scored.grid)
                apart = (network.decode(paths) - scored.x).square().mean(dim=-1)
                mean = (apart * scored.used).sum(dim=(1, 2)) / scored.used.sum()
            return torch.nan_to_num(mean, nan=np.inf)

        latest: list[Tensor] = []

        def score() -> float:
            if at < len(stages) - 1 and not deadline.passed():
                return np.inf  # few held-out samples: low by chance early on, at large learning rates
            latest[:] = [errors()]
            return float(latest[0].min())

        def snapshot() -> dict[str, np.ndarray]:
            best = int(latest[0].argmin())
            return {k: v[best : best + 1].numpy().copy() for k, v in network.state_dict().items()}

        return train(
            self.name,
            step,
            score,
            snapshot,
            steps=self.steps,
            deadline=deadline,
            progress=self.progress,
        )

    # ------------------------------------------------------------------ forecasts

    def forecast(self, x0: ArrayLike, t: ArrayLike) -> Trajectories:
        """Decoded mean latent paths from given states.

        Parameters
        ----------
        x0 : array (d,) or (n, d)
            States at the first times. Each is encoded alone; its latent state is the encoder's mean.
        t : array (m,) or (n, m)
            Increasing times. The motion does not depend on time, only on the time since the start.

        Returns
        -------
        Trajectories
            With `status` and `t_stop`. The first state is `x0` as decoded again. From where a latent path
            leaves all bounds, states are NaN and the status LEFT_BOUNDS.
        """
        starts, times = self._asked("forecast", x0, t)
        network, grid = self._restored(), self._grid("forecast", times)
        with torch.no_grad():
            latent = network.means(starts[None], grid)
            states, latent = network.decode(latent)[0], latent[0]
        sound = (latent.abs() < _BOUND).all(dim=-1) & torch.isfinite(states).all(dim=-1)
        return self._answer(times, states.numpy(), sound.numpy())

    def sample(self, x0: ArrayLike, t: ArrayLike, n: int = 20, seed: int = 0) -> np.ndarray:
        """Random forecasts, without observation noise.

        Parameters
        ----------
        x0, t
            As for `forecast`.
        n : int
            Draws from each start.
        seed : int
            Equal seeds give equal draws.

        Returns
        -------
        array (n, n_starts, m, d)
        """
        starts, times = self._asked("sample", x0, t)
        network, grid, source = self._restored(), self._grid("sample", times), generator(seed)
        with torch.no_grad():
            draws = [network.decode(network.draw(starts[None], grid, source)) for _ in range(n)]
        return self.units_.outer(torch.cat(draws).numpy())

    def _asked(self, what: str, x0: ArrayLike, t: ArrayLike) -> tuple[Tensor, np.ndarray]:
        """Starts (n, d) in normalised units and times (n, m), or a ValueError."""
        caller = f"{self.name}.{what}"
        if "arrays_" not in vars(self):
            raise NotFittedError(
                f"{caller}: expected a fitted model, got an unfitted one; call fit(x, t) first."
            )
        starts, times = real_array(x0, caller, "x0"), real_array(t, caller, "t")
        starts = starts[None] if starts.ndim == 1 else starts
        dim = self.context_.dim
        if starts.ndim != 2 or starts.shape[1] != dim or not len(starts):
            raise ValueError(f"{caller}: expected x0 of shape ({dim},) or (n, {dim}), got {np.shape(x0)}.")
        if (
            times.ndim not in (1, 2)
            or times.shape[-1] == 0
            or (times.ndim == 2 and len(times) != len(starts))
        ):
            raise ValueError(f"{caller}: expected times (m,) or ({len(starts)}, m), got shape {times.shape}.")
        if not (np.isfinite(starts).all() and np.isfinite(times).all()):
            raise ValueError(f"{caller}: expected finite states and times, got others; leave them out.")
        times = np.broadcast_to(times, (len(starts), times.shape[-1]))
        if not (np.diff(times, axis=1) > 0).all():
            raise ValueError(f"{caller}: expected times that increase strictly, got others; sort them.")
        return torch.as_tensor(self.units_.inner(starts)), times

    def _grid(self, what: str, times: np.ndarray) -> Grid:
        since = torch.as_tensor((times - times[:, :1]) / self.units_.time)
        longest = _FORECAST_STEPS * _MAX_STEP
        if since.max() > longest:
            raise ValueError(
                f"{self.name}.{what}: expected a horizon of at most {longest * self.units_.time:.3g}, got "
                f"{np.ptp(times, axis=1).max():.3g}; forecast in parts."
            )
        return Grid.of(since)

    def _restored(self) -> LatentNetwork:
        network = self._network(self.context_.dim, 1, generator(0))
        network.load_state_dict({k: torch.as_tensor(v) for k, v in self.arrays_.items()})
        return network

    def _answer(self, times: np.ndarray, states: np.ndarray, sound: np.ndarray) -> Trajectories:
        sound = np.logical_and.accumulate(sound, axis=1)
        reached = np.maximum(sound.sum(axis=1) - 1, 0)
        return Trajectories.from_arrays(
            list(np.where(sound[..., None], self.units_.outer(states), np.nan)),
            list(times),
            state_names=self.context_.state_names,
            coords={
                "status": np.where(sound.all(axis=1), Status.SUCCESS, Status.LEFT_BOUNDS).astype(np.int8),
                "t_stop": times[np.arange(len(times)), reached],
            },
            units=self.context_.units,
        )

    # ------------------------------------------------------------------ keeping

    def save(self, folder: str | os.PathLike) -> Path:
        """Write the fitted model to `folder`, to be restored by `fim_dynsys.load_fitted(folder)`.

        Parameters, observations and weights are written as JSON, netCDF and plain arrays; nothing is pickled.
        """
        if "arrays_" not in vars(self):
            raise NotFittedError(f"{self.name}.save: expected a fitted model, got an unfitted one.")
        units = {
            "units.shift": self.units_.shift,
            "units.scale": self.units_.scale,
            "units.time": self.units_.time,
        }
        arrays = self.arrays_ | {name: np.asarray(value) for name, value in units.items()}
        return SavedModel(
            model=self.name,
            version=self.version,
            params=self.get_params(deep=False),
            context=self.context_,
            content=type(self).__name__,
            arrays=arrays,
            field_context=None,
            report=self.report_,
        ).write(folder)

    def restore(self, saved: SavedModel) -> Self:
        """Become fitted again from what a folder holds; `fim_dynsys.load_fitted` calls it.

        Raises
        ------
        ValueError
            Where the folder holds other arrays than those of this model.
        """
        arrays = dict(saved.arrays)
        wanted = self._network(saved.context.dim, 1, generator(0)).state_dict()
        try:
            units = Units(
                arrays.pop("units.shift"), arrays.pop("units.scale"), float(arrays.pop("units.time"))
            )
        except KeyError as error:
            raise ValueError(
                f"{self.name}: expected saved arrays with {error}, got others; save again."
            ) from error
        found = {name: value.shape for name, value in arrays.items()}
        shapes = {name: tuple(value.shape) for name, value in wanted.items()}
        if found != shapes:
            raise ValueError(
                f"{self.name}: expected saved arrays {shapes}, got {found}; save the model again."
            )
        self.arrays_, self.units_ = arrays, units
        self.context_, self.report_ = saved.context, dict(saved.report)
        return self


def _clip_each(parameters: Sequence[Tensor], limit: float = 10.0) -> None:
    """Scale the gradient of each restart to at most `limit`, and none of one that is not finite."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    squares = torch.stack([g.flatten(1).square().sum(dim=1) for g in gradients]).sum(dim=0)
    factor = torch.where(torch.isfinite(squares), (limit / squares.sqrt()).clamp(max=1.0), 0.0)
    for g in gradients:
        g.nan_to_num_(0.0, 0.0, 0.0).mul_(factor.view(-1, *[1] * (g.ndim - 1)))
