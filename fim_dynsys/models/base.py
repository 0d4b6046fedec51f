"""Models: what every inference method is to its users, pysindy's call surface included."""

import abc
import enum
import html
import warnings
from pathlib import Path

import numpy as np
import xarray as xr
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from fim_dynsys.distillation import Distillation, distill
from fim_dynsys.errors import DataWarning, DistillationWarning, IgnoredInputWarning
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.models.inputs import as_trajectories, is_point, real_array
from fim_dynsys.models.members import bootstrap_context, check_members
from fim_dynsys.saved import SavedModel, dictionary_field_arrays, dictionary_field_from_arrays
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.trajectories import Trajectories

# scipy's names as pysindy's scripts pass them, and ours
_METHODS = {"LSODA": "lsoda", "RK45": "rk45", "DOP853": "dop853", "RADAU": "radau"}


class ModelKind(enum.Enum):
    """What a fitted model is, seen from the space of the observations."""

    FIELD = "vector field"
    LATENT = "latent dynamics"
    MAP = "discrete map"


class TrajectoryModel(abc.ABC):
    """Anything that learns from trajectories and forecasts.

    A comparator without a vector field in the space of the observations (a latent model, a map)
    stops here; analysis of fields refuses it by name.
    """

    name: str = "unnamed"
    version: str = "1"
    kind: ModelKind = ModelKind.FIELD

    @abc.abstractmethod
    def fit(self, x, t=None):
        """Learn from observations `x` at times `t`; returns the model itself."""

    @abc.abstractmethod
    def forecast(self, x0, t) -> Trajectories:
        """Continue from the states `x0` (d,) or (n, d) to the times `t` (m,) or (n, m)."""


class VectorFieldModel(TrajectoryModel, BaseEstimator):
    """A model that infers a vector field: scikit-learn estimator with the call surface of pysindy.SINDy.

    A subclass writes `infer(trajectories) -> VectorField`, a pure function of its parameters and the
    trajectories, and states its limits in class attributes:

    name, version : str
        Registry name, and a version that changes whenever the output does.
    min_observations : int
        Fewest observed points (all trajectories together) it can work with.
    max_dim : int or None
        Largest dimension of the state, None for no limit.
    uses_x_dot : bool
        Whether `infer(trajectories, x_dot=[...])` makes use of given derivatives, one array
        (n_i, d) for each trajectory. Others never see them: the user is told that they had no effect.
    accepts_missing : bool
        Whether single missing coordinates are used; otherwise only complete points are counted.
    scale_equivariance : float or None
        Relative accuracy to which the units of states and time do not matter, where that is promised.

    Where several contexts can be encoded at once, it overrides `infer_many`; where a bootstrap member
    costs less than a fresh inference, `_refit_member`. After `fit`, `field_` is the inferred field,
    `context_` the trajectories it was inferred from.
    """

    min_observations: int = 4
    max_dim: int | None = None
    uses_x_dot: bool = False
    accepts_missing: bool = False
    scale_equivariance: float | None = None
    kind = ModelKind.FIELD

    # ------------------------------------------------------------------ to be written by models

    @abc.abstractmethod
    def infer(self, trajectories: Trajectories) -> VectorField:
        """Infer the field behind `trajectories`, leaving the model itself as it is."""

    def infer_many(self, contexts) -> list[VectorField]:
        """Infer one field for each element of `contexts`, a list of Trajectories."""
        return [self.infer(context) for context in contexts]

    def _infer_to_keep(self, trajectories: Trajectories) -> VectorField:
        """What `fit` calls: `infer`, unless the fitted model keeps more of it than the field."""
        return self.infer(trajectories)

    def _refit_member(self, field: VectorField, context: Trajectories) -> VectorField:
        """Infer one bootstrap member; `field` is the fit on all the data, whose choices may be kept."""
        return self.infer(context)

    def _refit_members(self, field: VectorField, contexts) -> list[VectorField]:
        """Infer all bootstrap members; a model that infers in batches returns `infer_many(contexts)`."""
        return [self._refit_member(field, context) for context in contexts]

    def differentiate(self, x, t) -> np.ndarray:
        """Derivatives (n, d) of samples `x` (n, d) at times `t` (n,), against which `score` compares.

        Second-order differences, centred inside and one-sided at the ends, as pysindy's default
        FiniteDifference; rows with missing values, and their neighbours, come out NaN.
        """
        return np.gradient(x, t, axis=0, edge_order=2)

    # ------------------------------------------------------------------ fitting

    def fit(self, x, t=None, x_dot=None, u=None, feature_names=None):
        """Infer the vector field from observations.

        Parameters
        ----------
        x : array (n, d) or (n,), list of such arrays, Trajectories, Dataset, DataFrame or DataArray
            Observations. A list holds one array for each trajectory, of equal or unequal length.
        t : float, array (n,) or list of arrays
            Time step, times, or times of each trajectory. Left out where `x` carries its times.
        x_dot : array or list of arrays, optional
            Given derivatives, of the shapes of `x`.
        u : None
            Control input is not supported.
        feature_names : list of str, optional
            Names of the states; default those `x` carries, else x0, x1, ...

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Where the data are malformed, too few or of too high a dimension, or `u` is given.
            An earlier fit then stays as it was.
        """
        self._refuse_control(u)
        trajectories = as_trajectories(x, t, feature_names)
        x_dot = None if x_dot is None else self._derivative_list(x_dot, trajectories)
        self.check_context(trajectories)
        if x_dot is not None and not self.uses_x_dot:
            warnings.warn(
                f"{self._who}.fit: x_dot has no effect; this model infers derivatives itself.",
                IgnoredInputWarning,
                stacklevel=2,
            )
        if x_dot is not None and self.uses_x_dot:
            field = self.infer(trajectories, x_dot=x_dot)
        else:
            field = self._infer_to_keep(trajectories)
        self._adopt(field, trajectories)
        return self

    def check_context(self, trajectories: Trajectories) -> None:
        """Hold the trajectories against the model's limits.

        Raises
        ------
        ValueError
            Too many states, or fewer observed points than `min_observations`.

        Warns
        -----
        DataWarning
            For coordinates that are constant over all observations.
        """
        if self.max_dim is not None and trajectories.dim > self.max_dim:
            raise ValueError(
                f"{self._who}: expected at most {self.max_dim} states, got {trajectories.dim}; reduce "
                "them first: "
                f"fim_dynsys.reduction.PCAReduction.fit(trajectories, n_components={self.max_dim})."
            )
        seen = np.concatenate([np.isfinite(x) for _, x in trajectories.arrays()])
        observed = int(seen.sum(axis=0).min() if self.accepts_missing else seen.all(axis=1).sum())
        if observed < self.min_observations:
            raise ValueError(
                f"{self._who}: expected at least {self.min_observations} observed points, got {observed}; "
                "give more samples or trajectories."
            )
        values = np.concatenate([x for _, x in trajectories.arrays()])
        constant = np.nanmax(values, axis=0) == np.nanmin(values, axis=0)
        if constant.any():
            names = ", ".join(np.asarray(trajectories.state_names, dtype=object)[constant])
            warnings.warn(
                f"{self._who}: constant over all observations: {names}; nothing can be learnt about how the "
                "field depends on it.",
                DataWarning,
                stacklevel=3,
            )

    def _adopt(self, field: VectorField, trajectories: Trajectories) -> None:
        self.field_ = field
        self.context_ = trajectories
        self.feature_names = list(trajectories.state_names)
        self.n_features_in_ = trajectories.dim
        self._distilled = None

    def _refuse_control(self, u) -> None:
        if u is not None:
            raise ValueError(
                f"{self._who}: expected no control input u, got {type(u).__name__}; fields are autonomous, "
                "pass the input as a state or leave it out."
            )

    def _derivative_list(self, x_dot, trajectories) -> list[np.ndarray]:
        """Given derivatives as one float array for each trajectory, of the shape of its observations."""
        given = list(x_dot) if isinstance(x_dot, list | tuple) else [x_dot]
        wanted = [x.shape for _, x in trajectories.arrays()]
        arrays = [real_array(v, f"{self._who}.fit", "x_dot") for v in given]
        arrays = [v[:, None] if v.ndim == 1 else v for v in arrays]
        got = [v.shape for v in arrays]
        if got != wanted:
            raise ValueError(
                f"{self._who}.fit: expected x_dot of shapes {wanted}, got {got}; give one for each x."
            )
        return arrays

    @property
    def _who(self) -> str:
        return type(self).__name__

    def __sklearn_is_fitted__(self) -> bool:
        return "field_" in vars(self)

    def _fitted_field(self) -> VectorField:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"{self._who}: expected a fitted model, got an unfitted one; call fit(x, t) first."
            )
        return self.field_

    @property
    def feature_names_(self) -> list[str]:
        """Names of the states, under the name that later pysindy releases use."""
        self._fitted_field()
        return self.feature_names

    # ------------------------------------------------------------------ answers

    def predict(self, x, u=None):
        """Field values at states `x`.

        Parameters
        ----------
        x : array (n, d), (..., d) or (d,); for one state (n,) too; list of arrays; DataArray; DataFrame
            States.
        u : None
            Control input is not supported.

        Returns
        -------
        array of the shape of x, list of arrays for a list, DataArray for a DataArray
            dx/dt, in units of the state by units of time.
        """
        field = self._fitted_field()
        self._refuse_control(u)
        if isinstance(x, list | tuple) and not is_point(x):
            return [self.predict(part) for part in x]
        if isinstance(x, xr.DataArray):
            return x.copy(data=field(real_array(x.values, f"{self._who}.predict", "x"))).rename("x_dot")
        points = real_array(x, f"{self._who}.predict", "x")
        if field.dim == 1 and points.ndim == 1 and points.shape != (1,):
            points = points[:, None]
        return field(points)

    def simulate(
        self,
        x0,
        t,
        u=None,
        integrator="solve_ivp",
        interpolator=None,
        integrator_kws=None,
        interpolator_kws=None,
    ) -> np.ndarray:
        """Integrate the field from one state; the result always has a row for each requested time.

        Parameters
        ----------
        x0 : array (d,)
            Initial state at t[0].
        t : array (m,)
            Times, increasing or (to integrate backwards) decreasing.
        u, interpolator, interpolator_kws : None
            Control input is not supported.
        integrator : str
            "solve_ivp" or "odeint", pysindy's names; both lead to `fim_dynsys.simulate`.
        integrator_kws : dict, optional
            `rtol`, `atol`, `max_step` and `method` (scipy's names LSODA, RK45, DOP853, Radau) are
            honoured, others reported as without effect. Default: those of `fim_dynsys.simulate`.

        Returns
        -------
        array (m, d)
            After a failure the remaining rows are NaN, with a SimulationWarning.
        """
        field = self._fitted_field()
        self._refuse_control(u)
        if np.ndim(t) == 0:
            raise ValueError(
                f"{self._who}.simulate: expected an array of times, got {t!r}; pass the times themselves."
            )
        if integrator not in ("solve_ivp", "odeint"):
            raise ValueError(
                f"{self._who}.simulate: expected integrator 'solve_ivp' or 'odeint', got {integrator!r}."
            )
        start = np.atleast_1d(real_array(x0, f"{self._who}.simulate", "x0"))
        if start.shape != (field.dim,):
            raise ValueError(
                f"{self._who}.simulate: expected x0 of shape ({field.dim},), got {start.shape}; "
                "forecast(x0, t) takes several initial states."
            )
        times = real_array(t, f"{self._who}.simulate", "t")
        result = simulate(field, start, times, **self._integration_options(integrator_kws))
        return result.x[0]

    def _integration_options(self, integrator_kws) -> dict:
        given = dict(integrator_kws or {})
        options = {key: given.pop(key) for key in ("rtol", "atol", "max_step") if given.get(key) is not None}
        method = given.pop("method", None)
        if method is not None:
            if str(method).upper() not in _METHODS:
                raise ValueError(
                    f"{self._who}.simulate: expected method LSODA, RK45, DOP853 or Radau, got {method!r}."
                )
            options["method"] = _METHODS[str(method).upper()]
        if given:
            warnings.warn(
                f"{self._who}.simulate: no effect of integrator_kws {', '.join(sorted(given))}; "
                "rtol, atol, max_step and method are honoured.",
                IgnoredInputWarning,
                stacklevel=3,
            )
        return options

    def forecast(self, x0, t) -> Trajectories:
        """Integrate from `x0` (d,) or (n, d) to times `t` (m,) or (n, m); see `fim_dynsys.simulate`."""
        return simulate(self._fitted_field(), x0, t)

    def score(self, x, t=None, x_dot=None, u=None, metric=None, **metric_kws) -> float:
        """Compare the field with derivatives of the observations, as pysindy does.

        Parameters
        ----------
        x, t, u
            As for `fit`.
        x_dot : array or list of arrays, optional
            Derivatives to compare with; default `differentiate(x, t)`.
        metric : callable, optional
            `metric(x_dot, prediction, **metric_kws)`; default scikit-learn's r2_score, the uniform
            average over states.
        metric_kws
            Passed to the metric.

        Returns
        -------
        float
        """
        field = self._fitted_field()
        self._refuse_control(u)
        trajectories = as_trajectories(x, t, None)
        pairs = trajectories.arrays()
        if x_dot is None:
            truth = [self.differentiate(values, times) for times, values in pairs]
        else:
            truth = self._derivative_list(x_dot, trajectories)
        truth = np.concatenate(truth)
        states = np.concatenate([values for _, values in pairs])
        complete = np.isfinite(truth).all(axis=1) & np.isfinite(states).all(axis=1)
        if metric is None:
            from sklearn.metrics import r2_score as metric  # costs 0.3 s to import
        return float(metric(truth[complete], field(states[complete]), **metric_kws))

    def ensemble(self, n: int = 20, seed: int = 0) -> EnsembleField:
        """Fields inferred from `n` bootstrap resamples of the context.

        Several trajectories are resampled with replacement; a single one is replaced by blocks of
        consecutive observations at random positions, each block a trajectory of its own (moving
        blocks), as many observations in all as there were.

        Parameters
        ----------
        n : int
            Number of members.
        seed : int
            Seed of the resampling; equal seeds give equal members.

        Returns
        -------
        EnsembleField

        References
        ----------
        H. R. Künsch, The jackknife and the bootstrap for general stationary observations,
        Annals of Statistics 17 (1989), section 2 (moving blocks).
        """
        field = self._fitted_field()
        check_members(self._who, n)
        rng = np.random.default_rng(seed)
        contexts = [bootstrap_context(self.context_, rng, self.min_observations) for _ in range(n)]
        return EnsembleField(self._refit_members(field, contexts))

    # ------------------------------------------------------------------ equations

    def _symbolic_field(self) -> DictionaryField:
        """The field itself where it is a finite sum of terms, else its distillation, said aloud."""
        field = self._fitted_field()
        if isinstance(field, DictionaryField):
            return field
        distilled = self._distillation()
        warnings.warn(
            f"{self._who}: the field is no finite sum of terms; equations approximate it with relative "
            f"residual {distilled.residual_supported:.2g} where data support it.",
            DistillationWarning,
            stacklevel=3,
        )
        return distilled.field

    def _distillation(self) -> Distillation:
        if self._distilled is None:
            self._distilled = distill(self.field_)
        return self._distilled

    def equations(self, precision: int = 3) -> list[str]:
        """Right-hand sides in pysindy's notation, one for each state.

        Parameters
        ----------
        precision : int
            Decimals of the coefficients.

        Returns
        -------
        list of str

        Warns
        -----
        DistillationWarning
            Where the field is not itself a finite sum of terms, with the residual.
        """
        return self._symbolic_field().equations(precision)

    def print(self, lhs=None, precision: int = 3, **print_kwargs) -> None:
        """Print the equations; see `equations`.

        Parameters
        ----------
        lhs : list of str, optional
            Left-hand sides; default (x0)', (x1)', ...
        precision : int
            Decimals of the coefficients.
        print_kwargs
            Passed to the built-in print.
        """
        symbolic = self._symbolic_field()
        if lhs is None:
            lhs = [f"({name})'" for name in self.feature_names]
        for left, right in zip(lhs, symbolic.equations(precision), strict=True):
            print(f"{left} = {right}", **print_kwargs)
        if symbolic is not self.field_:
            residual = self._distillation().residual_supported
            print(f"(distilled from the field, relative residual {residual:.2g})", **print_kwargs)

    def coefficients(self) -> np.ndarray:
        """Coefficients (d, n_features) of the terms named by `get_feature_names`; see `equations`."""
        return np.array(self._symbolic_field().coefficients.T)

    def get_feature_names(self) -> list[str]:
        """Names of the terms in pysindy's notation; see `equations`."""
        return list(self._symbolic_field().get_feature_names())

    @property
    def complexity(self) -> int:
        """Number of coefficients that are not zero; see `equations`."""
        return int(np.count_nonzero(self._symbolic_field().coefficients))

    # ------------------------------------------------------------------ keeping

    def save(self, folder) -> Path:
        """Write the fitted model to `folder`, to be restored by `fim_dynsys.load_fitted(folder)`.

        Written are the context (context.nc), name, version and parameters (model.json) and, where
        the field is a finite sum of terms, its arrays (field.npz). Weights are not copied.

        Parameters
        ----------
        folder : path
            Created where it does not exist.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        ValueError
            Where a parameter is an object that JSON cannot hold.
        """
        field = self._fitted_field()
        saved = SavedModel(
            model=self.name,
            version=str(self.version),
            params=self.get_params(deep=False),
            context=self.context_,
            arrays=self._field_arrays(field),
            field_context=None if field.context in (None, self.context_) else field.context,
            report=field.fit_info.report,
        )
        return saved.write(folder)

    def restore(self, saved: SavedModel) -> "VectorFieldModel":
        """Become fitted again from what a folder holds; `fim_dynsys.load_fitted` calls it.

        Parameters
        ----------
        saved : SavedModel
            What `SavedModel.read` gave.

        Returns
        -------
        self
        """
        field = self.infer(saved.context) if saved.arrays is None else self._field_from_arrays(saved)
        self._adopt(field, saved.context)
        return self

    def _field_arrays(self, field) -> dict[str, np.ndarray] | None:
        """Arrays that hold a field of closed form; None where it is inferred again from the context."""
        return dictionary_field_arrays(field) if isinstance(field, DictionaryField) else None

    def _field_from_arrays(self, saved: SavedModel) -> VectorField:
        """The field that `_field_arrays` took apart."""
        context = saved.context if saved.field_context is None else saved.field_context
        return dictionary_field_from_arrays(saved.arrays, context, saved.report)

    # ------------------------------------------------------------------ display

    def _summary(self) -> dict[str, str]:
        """What the notebook shows: parameters, and what was learnt from."""
        rows = {"model": f"{self.name}, version {self.version}"}
        rows |= {key: repr(value) for key, value in self.get_params(deep=False).items()}
        if not self.__sklearn_is_fitted__():
            return rows | {"fitted": "no"}
        context = self.context_
        rows["states"] = ", ".join(context.state_names)
        rows["trajectories"] = str(context.n_trajectories)
        rows["observations"] = str(int(np.sum(context.n_obs)))
        return rows

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(key)}</th><td>{html.escape(value)}</td></tr>"
            for key, value in self._summary().items()
        )
        return f"<table><caption>{html.escape(self._who)}</caption>{cells}</table>"

    def _repr_mimebundle_(self, **kwargs) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}
