"""Training of a variational field by the evidence bound of whole paths or of a segment for each interval."""

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from fim_dynsys.deadline import Deadline
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.regression.thinning import thinned
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys_common.data import Batch, Units
from fim_dynsys_common.kernels import cluster_centres
from fim_dynsys_common.paths import paths
from fim_dynsys_common.posterior import PosteriorModel
from fim_dynsys_common.shooting import Segments
from fim_dynsys_common.training import Trained, generator, train
from fim_dynsys_gpode.process import InducingPosterior, Process, gaussian_divergence

MAX_STEP = 0.25
"""Longest Runge-Kutta step, in units of time."""


METHODS = ("shooting", "full")
_POSITIVE = (
    "n_inducing", "length_scale", "variance", "constraint", "n_samples", "iterations", "learning_rate"
)  # fmt: skip
_SLOPE_NOISE = 0.3  # of the smoothed slopes that the first field is fitted to, in scales by unit of time
_LOOSE = 0.1  # constraint between segments that training starts from
_TIGHTENING = 0.5  # share of the training after which the constraint is as tight as it gets
_START_DEVIATION = 0.1
_LEAST_NOISE, _SPARE_NOISE = 0.05, 1.5
_EVERY = 50  # steps between copies of what is trained


@dataclass(frozen=True)
class Settings:
    """How a field is trained.

    Attributes
    ----------
    shooting : bool
        Whether every interval between samples starts anew; else paths are solved whole.
    constraint : float
        Standard deviation, in those of the states, by which a path may jump between segments in the end.
    n_samples : int
        Draws of the starts for each function drawn.
    iterations : int
    learning_rate : float
    """

    shooting: bool
    constraint: float
    n_samples: int
    iterations: int
    learning_rate: float

    @classmethod
    def of(cls, model: VectorFieldModel) -> Self:
        """Those among a model's parameters.

        Raises
        ------
        ValueError
            An unknown method, or a setting that is not positive.
        """
        given, caller = model.get_params(deep=False), model.name
        if given["method"] not in METHODS:
            raise ValueError(f"{caller}: expected a method among {METHODS}, got {given['method']!r}.")
        for name in _POSITIVE:
            if not given[name] > 0:
                raise ValueError(f"{caller}: expected a positive {name}, got {given[name]!r}.")
        own = {field.name: given[field.name] for field in fields(cls) if field.name in given}
        return cls(shooting=given["method"] == METHODS[0], **own)


def begun(
    trajectories: Trajectories, caller: str, n_inducing: int, length_scale: float, variance: float, seed: int
) -> tuple[Batch, Process, Tensor]:
    """Complete samples, a process whose inducing points lie among them, and whitened vectors (d, m).

    The field of these vectors has the slopes of the smoothed samples.
    """
    batch = Batch.of(thinned(trajectories.drop_incomplete(caller)))
    states, slopes = (part[batch.seen.all(dim=-1)] for part in batch.smooth())
    centres = torch.tensor(cluster_centres(states.numpy(), n_inducing, seed))
    process = Process(centres, length_scale, variance)
    return batch, process, process.matched(states, slopes, _SLOPE_NOISE)


class Starts(nn.Module):
    """Gaussian starts of the segments, of full covariance each."""

    def __init__(self, means: Tensor):
        super().__init__()
        self.means = nn.Parameter(means.clone())
        self.log_diagonal = nn.Parameter(torch.full_like(means, math.log(_START_DEVIATION)))
        self.below = nn.Parameter(means.new_zeros(*means.shape, means.shape[1]))

    @property
    def roots(self) -> Tensor:
        """Lower R (S, d, d) of the covariances ``R R^T``."""
        return torch.tril(self.below, -1) + torch.diag_embed(self.log_diagonal.exp())

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        """Starts (n, S, d)."""
        noise = torch.randn(n, *self.means.shape, generator=generator, dtype=self.means.dtype)
        return self.means + torch.einsum("sij,nsj->nsi", self.roots, noise)


class Bound(nn.Module):
    """The negative evidence bound of one observation, estimated by one function.

    Parameters
    ----------
    batch : Batch
        Complete samples.
    process, posterior
        The field.
    layers : callable, optional
        Gives the layers (l, 3, d), as of `fim_dynsys_common.paths.Terms`, that the field is sent through.
    settings : Settings
    """

    def __init__(
        self,
        batch: Batch,
        process: Process,
        posterior: InducingPosterior,
        settings: Settings,
        layers: Callable[[], Tensor] | None = None,
    ):
        super().__init__()
        self.process, self.posterior, self.layers = process, posterior, layers
        self.settings = settings
        smooth, _ = batch.smooth()
        self._units = batch.units
        self._segments = segments = Segments.of(batch, 1 if settings.shooting else None)
        self._x = segments.gather(batch.x)
        columns = torch.arange(segments.samples.shape[1])
        lengths = segments.own.sum(dim=1)
        lengths[segments.linked] += 1
        self._lengths = lengths
        used = columns < lengths[:, None]
        used[~segments.is_first, 0] = False  # it is the end of the segment before
        self._used = used[..., None]
        self._n = int(used.sum())
        self.starts = Starts(segments.starts(smooth))
        seen = batch.seen.all(dim=-1)
        rough = (batch.x - smooth)[seen].square().mean(dim=0).sqrt()
        self.log_noise = nn.Parameter(torch.log(_SPARE_NOISE * rough + _LEAST_NOISE))

    def forward(self, constraint: float, generator: torch.Generator) -> Tensor:
        """The bound with this standard deviation of the jumps."""
        segments, starts = self._segments, self.starts
        vectors, divergence = self.posterior.draw(generator)
        terms = self.process.draw(vectors, generator)
        if self.layers is not None:
            terms = terms._replace(layers=self.layers())
        n = self.settings.n_samples
        drawn = starts.draw(n, generator)
        found = paths(
            terms, drawn.flatten(0, 1), segments.times.repeat(n, 1), self._lengths.repeat(n), MAX_STEP
        ).unflatten(0, (n, -1))
        squares = torch.where(self._used, found - self._x, 0.0).square().sum(dim=(1, 2)).mean(dim=0)
        misfit = 0.5 * (squares * torch.exp(-2.0 * self.log_noise)).sum() + self._n * self.log_noise.sum()
        first = segments.is_first
        misfit = misfit + gaussian_divergence(
            starts.means[first], starts.roots[first], starts.log_diagonal[first]
        )
        jumps = segments.jumps(found, drawn).square().sum(dim=(1, 2)).mean()
        linked = 0.5 * jumps / constraint**2 - starts.log_diagonal[~first].sum()
        return (misfit + linked + divergence) / (self._n * self._x.shape[-1])

    def fit_info(self, found: Trained, context: Trajectories) -> FitInfo:
        """Starts, noise, and how training went."""
        units = self._units
        starts = units.outer(array(self.starts.means[self._segments.is_first]))
        begun = all(np.isfinite(x[0]).all() for _, x in context.arrays())
        return FitInfo(
            initial_states=starts if begun and len(starts) == len(context) else None,
            noise_level=units.scale * np.exp(array(self.log_noise)),
            report={"steps": found.steps, "ended": found.ended},
        )


def array(values: Tensor) -> np.ndarray:
    """A copy outside of torch."""
    return values.detach().numpy().copy()


def fitted(
    caller: str, bound: Bound, seed: int, deadline: Deadline, progress: bool | None
) -> Trained[dict[str, Tensor]]:
    """Minimise the bound by Adam, the constraint tightened, then the steps shortened; the last state is kept.

    Returns
    -------
    Trained
        Its state is `bound`'s, to be loaded.

    Raises
    ------
    FitError
        Where training diverges at once.
    """
    settings, source = bound.settings, generator(seed)
    optimiser = torch.optim.Adam(bound.parameters(), lr=settings.learning_rate, fused=True)
    taken, available = 0, deadline.remaining()

    def step(i: int) -> float:
        nonlocal taken
        done, used = i / settings.iterations, available - deadline.remaining()
        if (
            i and used * (settings.iterations / i) > available
        ):  # it would not end in time; never without a limit
            done = used / available
        tight = min(done / _TIGHTENING, 1.0)
        constraint = max(_LOOSE, settings.constraint) ** (1.0 - tight) * settings.constraint**tight
        rate = settings.learning_rate * min(1.0, 2.0 * (1.0 - done) + 0.02)
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.zero_grad()
        loss = bound(constraint, source)
        loss.backward()
        optimiser.step()
        taken = i
        return float(loss.detach())

    return train(
        caller,
        step,
        score=lambda: -float(taken),
        snapshot=lambda: {name: value.clone() for name, value in bound.state_dict().items()},
        steps=settings.iterations,
        every=_EVERY,
        deadline=deadline,
        progress=progress,
    )


@dataclass(eq=False, repr=False)  # which writes __init__; what it prints is scikit-learn's
class VariationalModel(PosteriorModel):
    """A model whose field is found by variational inference; how its posterior is written, a subclass says.

    Parameters
    ----------
    method : {"shooting", "full"}
        Whether every interval between samples is solved from a start of its own, inferred too; else the paths
        are solved whole, from their first states.
    n_inducing : int
        Inducing points; where they lie is trained.
    length_scale, variance : float
        Of the squared-exponential kernels, where training starts; in standard deviations of the states, and
        of rates of one such deviation in the time in which the state travels it.
    constraint : float
        Standard deviation, in those of the states, by which a path may jump between segments in the end.
    n_samples : int
        Draws of the starts for each function drawn.
    iterations, learning_rate
        Of Adam.
    seed : int
        Of all that is drawn.
    max_seconds : float or None
        Wall-clock limit of a fit; the schedule follows the clock where it would not end in time.
    progress : bool or None
        Whether a bar is shown; None on a terminal.
    """

    method: str = "shooting"
    n_inducing: int = 16
    length_scale: float = 1.3
    variance: float = 0.5
    constraint: float = 1e-2
    n_samples: int = 1
    iterations: int = 5000
    learning_rate: float = 0.005
    seed: int = 0
    max_seconds: float | None = 600.0
    progress: bool | None = None

    min_observations = 5

    @abc.abstractmethod
    def _posterior(self, vectors: Tensor) -> tuple[InducingPosterior, Callable[[], Tensor] | None]:
        """Posterior of whitened inducing vectors (d, m); layers that the field is sent through, if any."""

    @abc.abstractmethod
    def _field(self, bound: Bound, units: Units, **description: Any) -> VectorField:
        """The field of what was trained."""

    def infer(self, trajectories: Trajectories) -> VectorField:
        """Train on all trajectories together.

        Raises
        ------
        ValueError
            An unknown method, or a setting that is not positive.
        FitError
            Where training diverges at once.
        """
        settings = Settings.of(self)
        deadline = Deadline(self._caller, self.max_seconds)
        batch, process, vectors = begun(
            trajectories, self._caller, self.n_inducing, self.length_scale, self.variance, self.seed
        )
        posterior, layers = self._posterior(vectors)
        bound = Bound(batch, process, posterior, settings, layers)
        found = fitted(self._caller, bound, self.seed, deadline, self.progress)
        bound.load_state_dict(found.state)
        fit_info = bound.fit_info(found, trajectories)
        return self._field(bound, batch.units, context=trajectories, fit_info=fit_info)
