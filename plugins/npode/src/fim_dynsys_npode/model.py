"""npODE: a kernel field through inducing vectors, the most probable one given the observed paths."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from fim_dynsys.analyze.results import progress_bar
from fim_dynsys.deadline import Deadline
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.regression.thinning import thinned
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys_common.data import Batch
from fim_dynsys_common.heldout import held_out_blocks
from fim_dynsys_common.kernels import (
    KernelField,
    cholesky_factor,
    cluster_centres,
    grid_points,
    squared_exponential,
)
from fim_dynsys_common.paths import Terms, pull_back, solve

# In standard deviations of the states; the authors' 2 is in units in which a grid's box is about 4 wide.
_LENGTH_SCALES = (1.0, 1.4, 2.0)
_GRIDS = {1: (6, 10), 2: (5, 8), 3: (4, 5)}  # inducing points a dimension, 6 in the source
_CLUSTERS = (50, 100)  # inducing points beyond three dimensions, where a grid is too large
_FOLDS = 3
_CHOOSING = 40  # iterations of a fit that a choice is made by
_STARTS = (0.3, 0.65, 1.0, 1.35)  # of the first field, as multiples
_MAX_STEP = 0.15  # units of time
_LONGEST = 20.0  # units of time that one piece is followed for
_LONGEST_GAP = 10.0
_LOG_NOISE = (math.log(1e-3), math.log(3.0))  # standard deviations of the states


class NPODE(VectorFieldModel):
    """Nonparametric ODE model: the field interpolates inducing vectors at inducing points by a kernel.

    Inducing vectors, the starts of the pieces and the noise are those of the largest posterior probability
    given the observed paths. Away from the inducing points the field falls to zero.

    Parameters
    ----------
    length_scale : float, optional
        Of the squared-exponential kernel, in standard deviations of each state; default: chosen on held-out
        blocks.
    n_inducing : int, optional
        Inducing points: a dimension (W of the source) where there are up to three states, in all beyond;
        default: chosen on held-out blocks.
    max_iterations : int
        Of the final quasi-Newton search.
    seed : int
        Of k-means, which places the inducing points beyond three states.
    max_seconds : float, optional
        Wall-clock limit of a fit.
    progress : bool, optional
        Whether a bar is shown; default on a terminal.

    References
    ----------
    M. Heinonen et al., Learning unknown ODE models with Gaussian processes, ICML 2018, eq. 5-10.
    """

    name = "npode"
    version = "1"
    min_observations = 8
    field_classes = (KernelField,)

    def __init__(
        self,
        length_scale: float | None = None,
        n_inducing: int | None = None,
        max_iterations: int = 200,
        seed: int = 0,
        max_seconds: float | None = 120.0,
        progress: bool | None = None,
    ) -> None:
        self.length_scale = length_scale
        self.n_inducing = n_inducing
        self.max_iterations = max_iterations
        self.seed = seed
        self.max_seconds = max_seconds
        self.progress = progress

    def infer(self, trajectories: Trajectories) -> VectorField:
        """Choose length scale and inducing points, then fit all trajectories together.

        Raises
        ------
        ValueError
            A length scale that is not positive, fewer than two inducing points, or, where these are to be
            chosen, no trajectory of two samples.
        """
        lengths, sizes = self._candidates(trajectories.dim)
        deadline = Deadline(self._caller, self.max_seconds)
        data = thinned(trajectories.drop_incomplete(self._caller))
        batch = Batch.of(data)
        pieces = _Pieces.of(batch)
        choices = list(itertools.product(sizes, lengths))
        scores: dict[tuple[int, float], list[float]] = {}
        if len(choices) > 1:
            folds = held_out_blocks(batch.n_obs, _FOLDS).numpy()
            with progress_bar(self.progress, len(choices) * len(folds), self._caller, "fits") as bar:
                for size, length in choices:
                    basis = self._basis(pieces, size, length)
                    errors = []
                    for held_out in folds:
                        if deadline.remaining() < 0.5 * (self.max_seconds or math.inf) and scores:
                            break
                        part = pieces.without(held_out)
                        found = _fitted(basis, part, _CHOOSING, deadline)
                        errors.append(part.error_where_left_out(found.path, pieces))
                        bar.update()
                    if len(errors) == len(folds):
                        scores[size, length] = errors
        size, length = _smoothest(scores) if scores else choices[len(choices) // 2]
        basis = self._basis(pieces, size, length)
        found = _fitted(basis, pieces, self.max_iterations, deadline)
        return self._field(basis, found, pieces, trajectories, size, length, scores)

    def _refit_member(self, field: VectorField, context: Trajectories) -> VectorField:
        report = field.fit_info.report
        chosen = {"length_scale": report["length scale"], "n_inducing": report["inducing points"]}
        return type(self)(**(self.get_params(deep=False) | chosen)).infer(context)

    def _candidates(self, dim: int) -> tuple[tuple[float, ...], tuple[int, ...]]:
        if self.length_scale is not None and not self.length_scale > 0:
            raise ValueError(f"{self._caller}: expected a positive length_scale, got {self.length_scale!r}.")
        if self.n_inducing is not None and self.n_inducing < 2:
            raise ValueError(f"{self._caller}: expected n_inducing of 2 or more, got {self.n_inducing!r}.")
        lengths = _LENGTH_SCALES if self.length_scale is None else (float(self.length_scale),)
        sizes = _GRIDS.get(dim, _CLUSTERS) if self.n_inducing is None else (int(self.n_inducing),)
        return lengths, sizes

    def _basis(self, pieces: "_Pieces", size: int, length: float) -> "_Basis":
        states = pieces.smooth[pieces.seen]
        grid = states.shape[1] in _GRIDS
        centres = grid_points(states, size) if grid else cluster_centres(states, size, self.seed)
        return _Basis(centres, length)

    def _field(
        self,
        basis: "_Basis",
        found: "_Found",
        pieces: "_Pieces",
        context: Trajectories,
        size: int,
        length: float,
        scores: dict[tuple[int, float], list[float]],
    ) -> KernelField:
        units = pieces.batch.units
        report = {
            "length scale": length,
            "inducing points": size,
            "held-out errors": scores.get((size, length)),
            "log posterior": -found.loss,
            "iterations": found.iterations,
            "ended": found.ended,
        }
        complete = [k for k, (_, x) in enumerate(context.arrays()) if np.isfinite(x[0]).all()]
        starts = units.outer(found.start[pieces.is_first])
        info = FitInfo(
            initial_states=starts if len(complete) == len(context) == len(starts) else None,
            noise_level=units.scale * found.noise,
            report=report,
        )
        return KernelField(
            units.outer(basis.centres),
            units.scale * length,
            units.outer_rates(basis.weights(found.vectors)),
            context=context,
            fit_info=info,
        )


def _smoothest(scores: dict[tuple[int, float], list[float]]) -> tuple[int, float]:
    """The longest length scale whose held-out error is within one standard error of the least."""
    means = {choice: float(np.mean(errors)) for choice, errors in scores.items()}
    best = min(means, key=means.__getitem__)
    errors = scores[best]
    allowed = means[best] + (np.std(errors, ddof=1) / math.sqrt(len(errors)) if len(errors) > 1 else 0.0)
    return max((c for c in means if means[c] <= allowed), key=lambda choice: (choice[1], -means[choice]))


@dataclass(frozen=True, eq=False)
class _Basis:
    """Kernels at inducing points (m, d) and the whitening of their vectors: ``U = L V`` with V ~ N(0, 1)."""

    centres: np.ndarray
    length: float

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.full(self.centres.shape[1], self.length)

    @cached_property
    def factor(self) -> np.ndarray:
        return cholesky_factor(self.centres, self.lengths)

    def weights(self, vectors: np.ndarray) -> np.ndarray:
        """Of the kernels, from whitened vectors; linear, and so is `whitened`, its transpose."""
        return np.ascontiguousarray(solve_triangular(self.factor, vectors, lower=True, trans=1))

    def whitened(self, gradient: np.ndarray) -> np.ndarray:
        return solve_triangular(self.factor, gradient, lower=True)

    def matched(self, states: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Whitened vectors whose field has these slopes, to .3 of their root mean square."""
        columns = self.whitened(squared_exponential(states, self.centres, self.lengths).T)
        noise = 0.1 * float(np.mean(slopes**2)) or 1.0
        return np.linalg.solve(columns @ columns.T + noise * np.eye(len(columns)), columns @ slopes)


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Trajectories cut where they are long, arrays (P, n, ...) in normalised units.

    A piece starts at the sample that the one before ends with, or after a gap.
    """

    batch: Batch
    trajectory: np.ndarray
    samples: np.ndarray
    n_obs: np.ndarray
    is_first: np.ndarray
    seen: np.ndarray
    used: np.ndarray
    t: np.ndarray
    x: np.ndarray
    smooth: np.ndarray
    slopes: np.ndarray

    @classmethod
    def of(cls, batch: Batch) -> "_Pieces":
        t_all, x_all = batch.t.numpy(), batch.x.numpy()
        states, slopes = (part.numpy() for part in batch.smooth())
        bounds = [(k, a, b) for k, n in enumerate(batch.n_obs) for a, b in _cuts(t_all[k, :n])]
        trajectory, first, last = np.array(bounds).T
        columns = first[:, None] + np.arange((last - first).max() + 1)
        samples, seen = np.minimum(columns, last[:, None]), columns <= last[:, None]
        which = trajectory[:, None], samples
        return cls(
            batch, trajectory, samples, last - first + 1, first == 0, seen, seen, t_all[which], x_all[which],
            states[which], slopes[which],
        )  # fmt: skip

    def without(self, held_out: np.ndarray) -> "_Pieces":
        """Not using the samples (K, L) held out."""
        return replace(self, used=self.seen & ~held_out[self.trajectory[:, None], self.samples])

    def error_where_left_out(self, path: np.ndarray, whole: "_Pieces") -> float:
        """Mean squared error at the samples that `whole` uses and this does not."""
        out = whole.used & ~self.used
        return float(np.mean((path[out] - self.x[out]) ** 2))


def _cuts(t: np.ndarray) -> Iterator[tuple[int, int]]:
    """First and last sample of each piece of a trajectory."""
    start = 0
    for i in range(1, len(t)):
        if t[i] - t[i - 1] > _LONGEST_GAP:
            yield start, i - 1
            start = i
        elif t[i] - t[start] > _LONGEST:
            yield start, i
            start = i
    if start < len(t) - 1 or start == 0 or t[start] - t[start - 1] > _LONGEST_GAP:
        yield start, len(t) - 1


class _Found(NamedTuple):
    """Whitened vectors (m, d), starts (P, d), noise (d,), the paths they give, and how the search went."""

    vectors: np.ndarray
    start: np.ndarray
    noise: np.ndarray
    path: np.ndarray
    loss: float
    iterations: int
    ended: str


def _fitted(basis: _Basis, pieces: _Pieces, iterations: int, deadline: Deadline) -> _Found:
    """The largest posterior probability found from slopes of the smoothed path, by L-BFGS."""
    m, d = basis.centres.shape
    used = pieces.used.astype(float)[..., None]
    counts = np.full(d, used.sum())
    precision = 1.0 / basis.lengths**2
    sizes = np.cumsum([m * d, len(pieces.t) * d])
    times = pieces.t, pieces.n_obs, _MAX_STEP

    def solved(p: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        vectors, start, log_noise = np.split(p, sizes)
        vectors, start = vectors.reshape(m, d), start.reshape(-1, d)
        relevance = used * np.exp(-2.0 * log_noise)
        terms = tuple(Terms.of_kernels(basis.centres, precision, basis.weights(vectors)))
        path, states = solve(terms, start, *times)
        apart = relevance * (path - pieces.x)
        of_terms = tuple(np.zeros_like(part) for part in terms)
        of_start = pull_back(terms, states, *times, apart, of_terms)
        squares = np.sum(apart * (path - pieces.x), axis=(0, 1))
        loss = 0.5 * squares.sum() + counts @ log_noise + 0.5 * np.sum(vectors**2)
        of_weights = Terms(*of_terms).weights
        gradient = [basis.whitened(of_weights) + vectors, of_start, counts - squares]
        return float(loss), np.concatenate([part.ravel() for part in gradient]), path

    def until_deadline(intermediate_result: object) -> None:
        if deadline.passed():
            raise StopIteration

    rows = pieces.used
    vectors = basis.matched(pieces.smooth[rows], pieces.slopes[rows])
    start = pieces.smooth[:, 0]
    rough = np.sqrt(np.mean((pieces.x - pieces.smooth)[rows] ** 2, axis=0))
    noise = np.clip(np.log(np.maximum(2.0 * rough, 0.05)), *_LOG_NOISE)
    firsts = [np.concatenate([(s * vectors).ravel(), start.ravel(), noise]) for s in _STARTS]
    first = min(firsts, key=lambda p: solved(p)[0])
    free = [(None, None)] * (len(first) - d)
    result = minimize(
        lambda p: solved(p)[:2],
        first,
        jac=True,
        method="L-BFGS-B",
        bounds=[*free, *[_LOG_NOISE] * d],
        callback=until_deadline,
        options={"maxiter": iterations, "maxfun": 2 * iterations, "maxcor": 20},
    )
    loss, _, path = solved(result.x)
    best, start, log_noise = np.split(result.x, sizes)
    ended = "out of time" if deadline.passed() else str(result.message)
    return _Found(
        best.reshape(m, d), start.reshape(-1, d), np.exp(log_noise), path, loss, int(result.nit), ended
    )
