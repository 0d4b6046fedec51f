"""ODEFormer: candidates of a pretrained transformer, the one that follows the trajectories best."""

import math
import os
import time
from typing import Any

import numpy as np
import sympy

from fim_dynsys.analyze.results import progress_bar
from fim_dynsys.errors import FitError
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.symbolic import SymbolicField
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.simulation.problem import Status
from fim_dynsys.simulation.solution import integrate
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys_odeformer.generation import OutOfTime, candidates
from fim_dynsys_odeformer.weights import network

_MOST_TRAJECTORIES = 4  # that candidates are generated for, the longest
_STEPS = 2000  # of a candidate's path; more is not followed
_ACCURACY = 1e-5  # of its integration, relative to the standard deviation of each state


class ODEFormer(VectorFieldModel):
    """A transformer that reads a trajectory and writes its equations, with its authors' weights.

    Expressions are sampled for each of up to four trajectories. All are integrated from the first samples of
    all trajectories, and the one of the smallest squared error, relative to the variance of each state, is
    the answer.

    Parameters
    ----------
    weights : path
        The authors' file ``odeformer.pt``.
    trust : bool
        Consent to open it: it is a pickle, which runs whatever code it holds.
    sha256 : str, optional
        What the file must hash to.
    beam_size : int
        Expressions sampled for a trajectory.
    beam_temperature : float
        Of the sampling.
    seed : int
        Of the sampling.
    max_seconds : float, optional
        Wall-clock time after which the candidates of the trajectories read so far must do; None for no limit.
    progress : bool, optional
        Whether to show a progress bar; default on a terminal.

    References
    ----------
    S. d'Ascoli, S. Becker, A. Mathis, P. Schwaller, N. Kilbertus, ODEFormer: symbolic regression of dynamical
    systems with transformers, ICLR 2024, sections 3 and 4.
    """

    name = "odeformer"
    version = "1"
    min_observations = 5

    def __init__(
        self,
        weights: str | os.PathLike,
        trust: bool = False,
        sha256: str | None = None,
        beam_size: int = 50,
        beam_temperature: float = 0.1,
        seed: int = 0,
        max_seconds: float | None = None,
        progress: bool | None = None,
    ) -> None:
        self.weights = weights
        self.trust = trust
        self.sha256 = sha256
        self.beam_size = beam_size
        self.beam_temperature = beam_temperature
        self.seed = seed
        self.max_seconds = max_seconds
        self.progress = progress

    @property
    def max_dim(self) -> int | None:
        """Six, as many as the published network knows."""
        return 6

    def infer(self, trajectories: Trajectories) -> VectorField:
        """Sample candidates, and keep the one that follows all trajectories best."""
        end = math.inf if self.max_seconds is None else time.perf_counter() + self.max_seconds
        reader = network(self.weights, self.sha256, self.trust)
        known = reader.env.params.max_dimension
        if trajectories.dim > known:
            raise ValueError(
                f"{self._caller}: expected at most the {known} states of the weights, got {trajectories.dim}."
            )
        samples = [(t, x) for t, x in trajectories.drop_incomplete(self._caller).arrays() if len(t) >= 2]
        if not samples:
            raise ValueError(
                f"{self._caller}: expected a trajectory of two complete samples at least, got none; give "
                "longer ones."
            )
        longest = sorted(samples, key=lambda pair: -len(pair[0]))[:_MOST_TRAJECTORIES]
        found: dict[str, tuple[sympy.Expr, ...]] = {}
        with progress_bar(self.progress, len(longest), self._caller, "trajectories") as bar:
            for t, x in longest:
                try:
                    sampled = candidates(
                        reader,
                        t,
                        x,
                        beam_size=self.beam_size,
                        beam_temperature=self.beam_temperature,
                        seed=self.seed,
                        end=end,
                    )
                except OutOfTime:
                    break
                found |= {str(expressions): expressions for expressions in sampled}
                bar.update()
        best, error, usable = self._best(list(found.values()), samples, trajectories)
        if best is None:
            raise FitError(
                f"{self._caller}: expected an expression that follows the trajectories, got {len(found)} "
                f"that do not (max_seconds {self.max_seconds}); allow more time, sample more (beam_size) or "
                "warmer (beam_temperature), or rescale states that start near 0."
            )
        report = {"candidates": len(found), "usable": usable, "error": error}
        return SymbolicField(best, context=trajectories, fit_info=FitInfo(report=report))

    def _best(
        self,
        found: list[tuple[sympy.Expr, ...]],
        samples: list[tuple[np.ndarray, np.ndarray]],
        trajectories: Trajectories,
    ) -> tuple[tuple[sympy.Expr, ...] | None, float, int]:
        """The candidate of the smallest relative squared error, that error, and how many are finite."""
        unit = np.concatenate([x for _, x in samples]).std(axis=0)
        unit = np.where(unit > 0, unit, 1.0)
        starts = np.stack([x[0] for _, x in samples])
        times = np.full((len(samples), max(len(t) for t, _ in samples)), np.nan)
        for row, (t, _) in zip(times, samples, strict=True):
            row[: len(t)] = t
        best, smallest, usable = None, math.inf, 0
        for expressions in found:
            field = SymbolicField(expressions, state_names=trajectories.state_names)
            solution = integrate(
                [field], starts, times, rtol=_ACCURACY, atol=_ACCURACY * unit, max_steps=_STEPS
            )
            if not (solution.status == Status.SUCCESS).all():
                continue
            apart = np.concatenate(
                [(path[: len(t)] - x) / unit for path, (t, x) in zip(solution.x, samples, strict=True)]
            )
            error = float(np.mean(apart**2))
            usable += math.isfinite(error)
            if error < smallest:
                best, smallest = expressions, error
        return best, smallest, usable

    def _symbolic_field(self) -> Any:
        return self._fitted_field()


def odeformer(weights: str | os.PathLike | None = None, **settings: Any) -> ODEFormer:
    """`ODEFormer` with the authors' weights.

    Parameters
    ----------
    weights : path
        The authors' file.
    settings
        Parameters of `ODEFormer`.

    Raises
    ------
    FileNotFoundError
        Without weights.
    """
    if weights is None:
        raise FileNotFoundError(
            "odeformer: expected weights=, the path of the authors' odeformer.pt "
            "(github.com/sdascoli/odeformer says where it is), got none."
        )
    return ODEFormer(weights, **settings)
