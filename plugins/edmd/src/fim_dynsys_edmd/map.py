"""EDMD as published: the Koopman operator over one time step, iterated as a map of the states."""

import os
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import CubicHermiteSpline, CubicSpline
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.models.base import ModelKind, TrajectoryModel
from fim_dynsys.models.inputs import Observations, Times, as_trajectories, real_array
from fim_dynsys.regression.observed import complete_samples, largest_degree, observe
from fim_dynsys.saved import SavedModel
from fim_dynsys.simulation.problem import Status
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys_edmd.generator import estimated
from fim_dynsys_edmd.model import RIDGES, check_parameters

_BOUND = 1e3  # root mean squares of a state: a forecast that leaves it has failed
_MOST_STEPS = 1_000_000


class EDMDMap(BaseEstimator, TrajectoryModel):
    """The Koopman operator over one time step on monomials, by regression; a discrete map of the states.

    The smoothed observations are taken at steps of the median gap between samples. How the monomials change
    over a step is regressed on the monomials; the change of the coordinates is the map.

    Parameters
    ----------
    degree : int, optional
        As of `EDMD`.
    ridge : float, optional
        As of `EDMD`.

    References
    ----------
    M. O. Williams, I. G. Kevrekidis, C. W. Rowley, A data-driven approximation of the Koopman operator,
    J. Nonlinear Sci. 25 (2015) 1307, section 2.2.
    """

    name = "edmd-map"
    version = "1"
    kind = ModelKind.MAP
    min_observations = 5

    def __init__(self, degree: int | None = None, ridge: float | None = None) -> None:
        self.degree = degree
        self.ridge = ridge

    def fit(self, x: Observations, t: Times = None) -> Self:
        """Learn the map from observations; raises ValueError where they are malformed or too few."""
        check_parameters("EDMDMap", self.degree, self.ridge)
        context = as_trajectories(x, t)
        observations = observe(complete_samples(context, "EDMDMap", self.min_observations))
        lag = float(np.median(np.concatenate([np.diff(times) for times, _ in observations.samples])))
        now, following = [], []
        for (times, _), (states, slopes) in zip(observations.samples, observations.splines, strict=True):
            steps = np.arange(times[0], times[-1] + 1e-9 * lag, lag)
            path = CubicHermiteSpline(times, states, slopes)(steps)
            now.append(path[:-1])
            following.append(path[1:])
        z, after = np.concatenate(now), np.concatenate(following)
        dictionary, matrix, degree, ridge = estimated(
            z,
            after - z,
            np.ones(len(z)),
            range(1, largest_degree(*z.T.shape) + 1) if self.degree is None else (self.degree,),
            RIDGES if self.ridge is None else (self.ridge,),
            lambda monomials: (monomials.evaluate(z), monomials.evaluate(after) - monomials.evaluate(z)),
        )
        self.dictionary_, self.scale_, self.lag_ = (
            dictionary,
            observations.scale,
            lag * observations.time_unit,
        )
        self.koopman_ = np.eye(len(dictionary)) + matrix
        self.context_ = context
        self.report_ = {"degree": degree, "ridge": ridge}
        return self

    @property
    def eigenvalues(self) -> np.ndarray:
        """Factors (m,) of the eigenfunctions over one step, complex, the largest first."""
        self._check_fitted()
        values = np.linalg.eigvals(self.koopman_)
        return values[np.argsort(-np.abs(values), kind="stable")]

    def _check_fitted(self) -> None:
        if "koopman_" not in vars(self):
            raise NotFittedError(
                "EDMDMap: expected a fitted model, got an unfitted one; call fit(x, t) first."
            )

    def forecast(self, x0: ArrayLike, t: ArrayLike) -> Trajectories:
        """The map iterated from the states `x0`, between its steps a cubic spline.

        Parameters
        ----------
        x0 : array (d,) or (n, d)
            States at the first times.
        t : array (m,) or (n, m)
            Increasing times.

        Returns
        -------
        Trajectories
            With `status` and `t_stop`; NaN from where a state leaves all bounds.
        """
        self._check_fitted()
        starts, times = self._asked(x0, t)
        since = (times - times[:, :1]) / self.lag_
        path = self._iterated(starts / self.scale_, int(np.ceil(since.max())) + 3)
        states = np.empty((*times.shape, starts.shape[1]))
        for k, steps in enumerate(since):
            sound = np.isfinite(path[:, k]).all(axis=1)
            end = len(sound) if sound.all() else int(np.argmin(sound))
            states[k] = np.nan
            if end >= 2:
                within = steps <= end - 1
                states[k, within] = CubicSpline(np.arange(end), path[:end, k])(steps[within]) * self.scale_
            states[k, 0] = starts[k]
        reached = np.isfinite(states).all(axis=2).sum(axis=1)
        status = np.where(reached == times.shape[1], Status.SUCCESS, Status.LEFT_BOUNDS)
        return Trajectories.from_arrays(
            list(states),
            list(times),
            state_names=self.context_.state_names,
            coords={
                "status": status.astype(np.int8),
                "t_stop": times[np.arange(len(times)), np.maximum(reached - 1, 0)],
            },
            units=self.context_.units,
        )

    def _iterated(self, z: np.ndarray, steps: int) -> np.ndarray:
        """States (steps + 1, n, d) from z (n, d), NaN from where they leave the bounds."""
        path = np.full((steps + 1, *z.shape), np.nan)
        path[0], d = z, z.shape[1]
        with np.errstate(over="ignore", invalid="ignore"):
            for k in range(steps):
                z = self.dictionary_.evaluate(z) @ self.koopman_[:, 1 : 1 + d]
                z = np.where((np.abs(z) < _BOUND).all(axis=1, keepdims=True), z, np.nan)
                path[k + 1] = z
                if np.isnan(z).all():
                    break
        return path

    def _asked(self, x0: ArrayLike, t: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        caller, dim = "EDMDMap.forecast", self.context_.dim
        starts, times = np.atleast_2d(real_array(x0, caller, "x0")), real_array(t, caller, "t")
        if starts.ndim != 2 or starts.shape[1] != dim or not len(starts):
            raise ValueError(f"{caller}: expected x0 of shape ({dim},) or (n, {dim}), got {np.shape(x0)}.")
        if times.ndim not in (1, 2) or not times.shape[-1] or (times.ndim == 2 and len(times) != len(starts)):
            raise ValueError(f"{caller}: expected times (m,) or ({len(starts)}, m), got shape {times.shape}.")
        if not (np.isfinite(starts).all() and np.isfinite(times).all()):
            raise ValueError(f"{caller}: expected finite states and times, got others; leave them out.")
        times = np.broadcast_to(times, (len(starts), times.shape[-1]))
        if not (np.diff(times, axis=1) > 0).all():
            raise ValueError(f"{caller}: expected times that increase strictly, got others; sort them.")
        if np.ptp(times, axis=1).max() > _MOST_STEPS * self.lag_:
            raise ValueError(
                f"{caller}: expected a horizon of at most {_MOST_STEPS * self.lag_:.3g}, got "
                f"{np.ptp(times, axis=1).max():.3g}; forecast in parts."
            )
        return starts, times

    # ------------------------------------------------------------------ keeping

    def save(self, folder: str | os.PathLike) -> Path:
        """Write the fitted model to `folder`, to be restored by `fim_dynsys.load_fitted(folder)`."""
        self._check_fitted()
        return SavedModel(
            model=self.name,
            version=self.version,
            params=self.get_params(deep=False),
            context=self.context_,
            content="EDMDMap",
            arrays={
                "exponents": self.dictionary_.exponents,
                "koopman": self.koopman_,
                "scale": self.scale_,
                "lag": np.array(self.lag_),
            },
            field_context=None,
            report=self.report_,
        ).write(folder)

    def restore(self, saved: SavedModel) -> Self:
        """Become fitted again from what a folder holds; ValueError where it holds something else."""
        arrays, d = saved.arrays, saved.context.dim
        m = len(arrays.get("exponents", ()))
        shapes = {"exponents": (m, d), "koopman": (m, m), "scale": (d,), "lag": ()}
        found = {name: value.shape for name, value in arrays.items()}
        if found != shapes:
            raise ValueError(f"EDMDMap: expected saved arrays {shapes}, got {found}; save the model again.")
        self.dictionary_ = Dictionary(arrays["exponents"])
        self.koopman_, self.scale_, self.lag_ = arrays["koopman"], arrays["scale"], float(arrays["lag"])
        self.context_, self.report_ = saved.context, dict(saved.report)
        return self
