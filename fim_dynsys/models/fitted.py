"""What a fitted model answers, in pysindy's names: values, paths, forecasts, scores, equations.

Longer than five hundred lines: it is one class, and half of it says what its methods take and raise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from fim_dynsys.distillation import Distillation, distill
from fim_dynsys.errors import (
    DistillationWarning,
    FitWarning,
    IgnoredInputWarning,
    SimulationWarning,
    check_flags,
    check_whole,
    real_array,
    renamed,
    warn,
)
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.equation_text import NO_ERRORS, Style, check_style, left_side, shown
from fim_dynsys.fields.forced import ForcedField, with_waves
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.inference import Trust
from fim_dynsys.fields.presentation import facts, html_block
from fim_dynsys.models.driving import (
    InputFunction,
    check_constant,
    input_function,
    input_rows,
    needs_scipy,
    scipy_path,
    with_known_inputs,
)
from fim_dynsys.models.forecast_levels import FORECAST_LEVELS, Levels
from fim_dynsys.models.forecasting import forecast_bands, rolled
from fim_dynsys.models.inputs import (
    Observations,
    Times,
    as_trajectories,
    derivative_list,
    integration_options,
    is_point,
    warn_of_other_units,
)
from fim_dynsys.models.judging import driven
from fim_dynsys.models.outliers import samples_of
from fim_dynsys.models.parameters import Estimator
from fim_dynsys.models.paths import path_score
from fim_dynsys.models.second_order import completed, start_of_positions
from fim_dynsys.models.trust import Rivals, is_contested, share_elsewhere, trust_by
from fim_dynsys.regions import Region
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.threads import on_one_thread
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.ordering import by_labels, in_order, with_clock
from fim_dynsys.wording import value_text

_UNNAMED = "unnamed"
_MOST = 0.5  # of the paths of a forecast: where fewer reach its end, bands say little


def _not_fitted(message: str) -> ValueError:
    from sklearn.exceptions import NotFittedError  # deferred: most of a second to import

    return NotFittedError(message)


class FittedModel(Estimator):
    """A model as it is asked: `field_` is what was inferred, `context_` what it was inferred from."""

    name: str
    field_: VectorField
    context_: Trajectories
    feature_names: list[str]
    _equation_style: Style = "plain"  # unless a call asks for another
    _distilled: Distillation | None
    _rivals: Rivals | None  # found when first asked for
    _draws_of_forecasts = 20  # unless a call asks for another number

    @property
    def _caller(self) -> str:
        """The model as its user calls it: by its registry name, else by its class."""
        name = getattr(self, "name", _UNNAMED)
        return type(self).__name__ if name == _UNNAMED else name

    if TYPE_CHECKING:  # what `VectorFieldModel` adds

        @property
        def version(self) -> str: ...

        def ensemble(self, n: int = 20, seed: int = 0, progress: bool | None = None) -> EnsembleField: ...

        def differentiate(self, x: np.ndarray, t: np.ndarray) -> np.ndarray: ...

    else:  # a checker would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            if name in ("field_", "context_", "feature_names", "history_"):
                raise _not_fitted(
                    f"{self._caller}: expected a fitted model for {name}, got an unfitted one; call fit(x, "
                    "t) first."
                )
            if hasattr(type(self), name):  # a property raised an AttributeError: that one is the answer
                return object.__getattribute__(self, name)
            raise AttributeError(
                f"{self._caller!r} object has no attribute {name!r}{_hint(name, vars(self).get('field_'))}",
                name=name,
                obj=self,
            )

    def __sklearn_is_fitted__(self) -> bool:
        return "field_" in vars(self)

    def _fitted_field(self) -> VectorField:
        if not self.__sklearn_is_fitted__():
            raise _not_fitted(
                f"{self._caller}: expected a fitted model, got an unfitted one; call fit(x, t) first."
            )
        return self.field_

    @property
    def feature_names_(self) -> list[str]:
        """Names of the states, under the name that later pysindy releases use."""
        self._fitted_field()
        return self.feature_names

    # ------------------------------------------------------------------ answers

    def predict(
        self,
        x: ArrayLike | xr.DataArray | pd.DataFrame | Sequence[ArrayLike],
        u: ArrayLike | Sequence[ArrayLike] | None = None,
    ) -> np.ndarray | list | xr.DataArray:
        """Field values at states `x`.

        Parameters
        ----------
        x : array (n, d), (..., d) or (d,); for one state (n,) too; list of arrays; DataArray; DataFrame; \
                Trajectories
            States.
        u : array (n, m) or list of arrays, optional
            Inputs, a row for each state; for models that were fitted with inputs.

        Returns
        -------
        array of the shape of x, list of arrays for a list or Trajectories, DataArray for a DataArray
            dx/dt, in units of the state by units of time.

        Raises
        ------
        TypeError
            Where the model was fitted with inputs and none are given.

        Examples
        --------
        >>> import numpy as np
        >>> import fim_dynsys
        >>> t = np.linspace(0.0, 4.0, 41)
        >>> model = fim_dynsys.load("sindy-strong").fit(np.exp(-0.5 * t), t)
        >>> model.predict(np.array([[1.0], [2.0]])).round(3).tolist()
        [[-0.5], [-1.0]]
        """
        field, caller = self._fitted_field(), f"{self._caller}.predict"
        if isinstance(x, Trajectories):
            records = self._records(caller, x)
            u = records.input_arrays() if isinstance(field, DrivenField) and records.input_names else u
            x = [values for _, values in records.arrays()]
        if isinstance(x, list | tuple) and not is_point(x):
            given = list(u) if isinstance(u, list | tuple) else [u] * len(x)
            if len(given) != len(x):
                raise ValueError(
                    f"{caller}: expected inputs u of {len(x)} trajectories, as many as x has, got "
                    f"{len(given)}; pass a list with one array for each."
                )
            return [self.predict(part, inputs) for part, inputs in zip(x, given, strict=True)]
        names = field.state_names
        x = by_labels(caller, "states", x, names)
        u = by_labels(caller, "inputs", u, getattr(field, "input_names", ()))
        if isinstance(x, xr.DataArray):
            return x.copy(data=self.predict(real_array(x.values, f"{self._caller}.predict", "x"), u)).rename(
                "x_dot"
            )
        points = real_array(x, f"{self._caller}.predict", "x")
        if field.dim == 1 and points.ndim == 1 and points.shape != (1,):
            points = points[:, None]
        if not points.ndim:
            raise ValueError(
                f"{self._caller}.predict: expected states (n, {field.dim}), got the number {x!r}."
            )
        if points.shape[-1] != field.dim:
            raise ValueError(
                f"{self._caller}.predict: expected states of shape ({field.dim},) or (n, {field.dim}), "
                f"columns {', '.join(field.state_names)}, got {points.shape}."
            )
        inputs = input_rows(f"{self._caller}.predict", field, u, points.size // max(points.shape[-1], 1))
        return cast(DrivenField, field)(points, inputs) if inputs is not None else field(points)

    def simulate(
        self,
        x0: ArrayLike,
        t: ArrayLike,
        u: ArrayLike | InputFunction | None = None,
        integrator: str = "solve_ivp",
        interpolator: Callable[..., InputFunction] | None = None,
        integrator_kws: dict[str, Any] | None = None,
        interpolator_kws: dict[str, Any] | None = None,
    ) -> np.ndarray:
        """Integrate the field from one state; the result always has a row for each requested time.

        Parameters
        ----------
        x0 : array (d,)
            Initial state at t[0]. Of a model of positions also the first positions of a record it was fitted
            to.
        t : array (m,)
            Times, increasing or (to integrate backwards) decreasing.
        u : callable or array (n, m), optional
            Inputs as a function of time, or at the times t; for models that were fitted with inputs.
        interpolator, interpolator_kws : callable and dict, optional
            ``interpolator(t, u, **interpolator_kws)`` makes a function of inputs that are given as values;
            default as in the fit, see ``hold`` there.
        integrator : str
            "solve_ivp" or "odeint", pysindy's names; both lead to `fim_dynsys.simulate`, and to scipy's
            integrators where there are inputs and options are given, or events or a method that only scipy
            has are asked for.
        integrator_kws : dict, optional
            `rtol`, `atol`, `max_step` and `method` (scipy's names LSODA, RK45, DOP853, Radau; RK23 and BDF)
            and `events` are honoured, others reported as without effect where scipy is not used. Default:
            those of `fim_dynsys.simulate`; with scipy LSODA, 1e-8 and 1e-10.

        Returns
        -------
        array (m, d)
            After a failure or an event that ends it the remaining rows are NaN, with a SimulationWarning.

        Raises
        ------
        TypeError
            Where the model was fitted with inputs and none are given.

        Warns
        -----
        FitWarning
            Where equations that explain the data about as well lead elsewhere, see `trust_along`.

        Examples
        --------
        >>> import numpy as np
        >>> import fim_dynsys
        >>> t = np.linspace(0.0, 4.0, 41)
        >>> model = fim_dynsys.load("sindy-strong").fit(np.exp(-0.5 * t), t)
        >>> float(model.simulate([2.0], [0.0, 2.0])[-1, 0].round(3))  # 2 / e
        0.736
        """
        field = self._fitted_field()
        caller = f"{self._caller}.simulate"
        times = real_array(t, caller, "t")
        if times.ndim != 1:
            raise ValueError(
                f"{caller}: expected an array of times (m,), got {t!r}; pass the times themselves."
            )
        if not isinstance(integrator, str) or integrator not in ("solve_ivp", "odeint"):
            raise ValueError(f"{caller}: expected integrator 'solve_ivp' or 'odeint', got {integrator!r}.")
        if not isinstance(integrator_kws, dict | None):
            raise ValueError(f"{caller}: expected integrator_kws as a dict, got {integrator_kws!r}.")
        x0 = by_labels(caller, "states", x0, field.state_names)
        u = by_labels(caller, "inputs", u, getattr(field, "input_names", ()))
        start = np.atleast_1d(real_array(x0, caller, "x0"))
        positions = field.fit_info.inference.positions
        if positions and start.shape == (len(positions),):
            start = start_of_positions(caller, field, start)
        if start.shape != (field.dim,):
            raise ValueError(
                f"{self._caller}.simulate: expected x0 of shape ({field.dim},), got {start.shape}; "
                "forecast(x0, t) takes several initial states."
            )
        inputs = None
        if isinstance(field, ForcedField) and u is None:
            u = field.inputs
        if isinstance(field, DrivenField) and u is not None:
            inputs = input_function(caller, field, times, u, interpolator, interpolator_kws)
        else:
            input_rows(caller, field, u, 0)
        if (
            isinstance(field, DrivenField)
            and inputs is not None
            and _usual(times, interpolator, integrator_kws)
        ):
            given = inputs if callable(u) else input_rows(caller, field, u, len(times))
            assert given is not None
            path, ending = driven(field, start, times, given)
            if ending is not None:
                warn(f"{caller}: {ending}; later rows are NaN.", SimulationWarning)
            return path
        if inputs is not None or needs_scipy(integrator_kws):
            return scipy_path(caller, field, start, times, inputs, integrator, integrator_kws)
        result = simulate(field, start, times, **integration_options(self._caller, integrator_kws))
        self._warn_of_rivals(caller, start[None], times)
        return result.x[0]

    @on_one_thread
    def trust_along(self, x0: ArrayLike, t: ArrayLike) -> Trust | None:
        """How far the path from one state may be relied on: whether what fits as well goes the same way.

        Compared are the candidates of the search that explain the data about as well, or draws from the
        posterior where there are none. Low where a third of them, by weight, lead elsewhere (R2 below .5),
        the path ends early or the fit fails; high where hardly any do and the fit has high trust; else
        limited.

        Parameters
        ----------
        x0 : array (d,)
            Initial state at t[0].
        t : array (m,)
            Increasing times.

        Returns
        -------
        Trust or None
            That of the fit (`FitInfo.trust`) where there are neither candidates nor draws.

        Raises
        ------
        ValueError
            For other shapes, times that do not increase, and of models with inputs.

        Examples
        --------
        >>> import numpy as np
        >>> import fim_dynsys
        >>> t = np.linspace(0.0, 4.0, 41)
        >>> model = fim_dynsys.load("fim-ode").fit(np.exp(-0.5 * t), t)
        >>> model.trust_along([2.0], [0.0, 1.0, 2.0]).value
        'high'
        """
        field, caller = self._fitted_field(), f"{self._caller}.trust_along"
        x0 = by_labels(caller, "states", x0, field.state_names)
        start, times = np.atleast_1d(real_array(x0, caller, "x0")), real_array(t, caller, "t")
        if start.shape != (field.dim,):
            raise ValueError(f"{caller}: expected x0 of shape ({field.dim},), got {start.shape}.")
        if times.ndim != 1 or len(times) < 2 or not (np.diff(times) > 0).all():
            raise ValueError(f"{caller}: expected two and more increasing times (m,), got {t!r}.")
        if isinstance(field, DrivenField):
            raise ValueError(
                f"{caller}: expected a field without inputs, got {', '.join(field.input_names)}; "
                "field_.fit_info.trust is that of the fit."
            )
        overall = field.fit_info.trust
        rivals = None if overall is None else self._known_rivals()
        if overall is None or rivals is None or field.fit_info.problems:
            return overall
        return trust_by(float(share_elsewhere(field, rivals, start[None], times - times[0])[0]), overall)

    def _known_rivals(self) -> Rivals | None:
        """What explains the data about as well as the answer; None where that is not known."""
        if self._rivals is None:
            self._rivals = self._find_rivals() or Rivals.drawn(self.field_)
        return self._rivals

    def _find_rivals(self) -> Rivals | None:
        """Candidates of the search, where there was one."""
        return None

    def _warn_of_rivals(self, caller: str, starts: np.ndarray, t: np.ndarray) -> None:
        """FitWarning where what explains the data about as well leads elsewhere."""
        field = self.field_
        # paths of other fields take long
        known = field.fit_info.trust is not None and isinstance(field, DictionaryField)
        if not known or len(t) < 2 or not (np.diff(t) > 0).all() or not np.isfinite(starts).all():
            return
        rivals = self._known_rivals()
        if rivals is None:
            return
        contested = is_contested(share_elsewhere(field, rivals, starts, t - t[0]))
        if contested.any():
            of = "" if len(starts) == 1 else f" of {int(contested.sum())} of {len(starts)}"
            warn(
                f"{caller}: equations that explain the data about as well lead elsewhere from the given "
                f"state{of}; the path has low trust (trust_along), ensemble() shows others.",
                FitWarning,
            )

    @overload
    def forecast(self, x0: ArrayLike, t: ArrayLike) -> Trajectories: ...

    @overload
    def forecast(
        self,
        x0: Trajectories,
        t: ArrayLike,
        bands: Sequence[float] = ...,
        *,
        n_draws: int | None = ...,
        observed: bool = ...,
        origins: ArrayLike | None = ...,
        seed: int = ...,
        progress: bool | None = ...,
    ) -> xr.Dataset: ...

    @renamed(members="n_draws")
    @on_one_thread
    def forecast(
        self,
        x0: ArrayLike | Trajectories,
        t: ArrayLike,
        bands: Sequence[float] = (0.5, 0.9),
        *,
        n_draws: int | None = None,
        observed: bool = False,
        origins: ArrayLike | None = None,
        seed: int = 0,
        progress: bool | None = None,
    ) -> Trajectories | xr.Dataset:
        """Continue from states, or go on with observed trajectories and say how sure that is.

        Parameters
        ----------
        x0 : array (d,) or (n, d), or Trajectories
            Initial states; or what was observed so far, which need not be what the model was fitted to;
            inputs are constant along each trajectory, and go on so.
        t : array (m,) or (n, m), or with Trajectories float or array (m,)
            Times, of which the first is that of x0. With Trajectories how far beyond the last sample of each,
            or increasing times counted from there.
        bands : sequence of float
            Shares of the probability that each band is to hold; with Trajectories.
        n_draws : int, optional
            Of the ensemble whose paths make the bands; default 20, and 100 of given equations, whose draws
            take little time.
        observed : bool
            Whether the bands hold what will be measured, noise included, or the state itself.
        origins : float or array (k,), optional
            Times within the records from which to forecast, each by the samples up to it; default the end.
            The model stays the one that was fitted.
        seed : int
            Equal seeds give equal bands.
        progress : bool, optional
            Whether a bar with the time left is shown after two seconds; default on a terminal.

        Returns
        -------
        Trajectories, or Dataset for Trajectories
            The Dataset has ``median`` (trajectory, ahead, state), ``low`` and ``high`` (band, ...), times
            ``t`` and ``alive``, the share of the paths that got so far; with `origins` all of these along
            ``origin`` first. Where a model's levels are calibrated (`fim-ode`), bands were held by as much of
            known systems as they say; else they are quantiles of the members' paths.

        Raises
        ------
        ValueError
            For invalid bands or times, another number of states, a trajectory without a complete sample up to
            each of the origins, or one along which inputs change.

        Warns
        -----
        FitWarning
            Where bands are asked of a field that does not describe the data, as `fit` said.
        SimulationWarning
            Where fewer than half of the paths reach the last time.

        Examples
        --------
        >>> import numpy as np
        >>> import fim_dynsys
        >>> t = np.linspace(0.0, 4.0, 41)
        >>> model = fim_dynsys.load("sindy-strong").fit(np.exp(-0.5 * t), t)
        >>> ahead = model.forecast(model.context_, [1.0, 2.0], progress=False)
        >>> ahead["median"].sel(state="x0").values.round(3).tolist()  # e^-2.5, e^-3
        [[0.082, 0.05]]
        """
        field = self._fitted_field()
        if isinstance(x0, pd.DataFrame) and {"t", "time"} & set(x0.columns):  # a record, no list of states
            x0 = Trajectories.from_dataframe(x0)
        x0 = by_labels(f"{self._caller}.forecast", "states", x0, field.state_names)
        self._warn_of_path(f"{self._caller}.forecast", x0, t, origins)
        if not isinstance(x0, Trajectories):
            return _from_states(f"{self._caller}.forecast", field, x0, t)
        caller = f"{self._caller}.forecast"
        x0 = self._records(caller, x0)
        if isinstance(field, DrivenField):
            check_constant(caller, field, x0)
        n_draws = self._draws_of_forecasts if n_draws is None else n_draws
        check_whole(caller, 1, n_draws=n_draws)
        check_whole(caller, 0, seed=seed)
        check_flags(caller, observed=observed)
        if field.fit_info.problems:
            warn(
                f"{caller}: bands of a field that does not describe the data: "
                f"{'; '.join(field.fit_info.problems)}.",
                FitWarning,
            )
        drawn = field.draws(n_draws, seed)
        ensemble = self.ensemble(n_draws, seed, progress) if drawn is None else EnsembleField(drawn)
        levels = self._forecast_levels(field)
        known = Knowledge.of(getattr(self, "knowledge", None))
        sigma = getattr(self, "_sigma", None)
        positive = None if known is None else np.isin(field.state_names, known.nonnegative)

        def of(field: VectorField, ensemble: EnsembleField, seen: Trajectories) -> xr.Dataset:
            return forecast_bands(
                caller, field, ensemble, seen, t, bands, observed, seed, levels, progress, positive, sigma
            )

        def ahead(seen: Trajectories) -> xr.Dataset:
            if not isinstance(field, DrivenField):
                return of(field, ensemble, seen)
            parts = []
            for k, (first, *_) in enumerate(seen.input_arrays()):
                members = [cast(DrivenField, member).at_input(first) for member in ensemble]
                own = EnsembleField(members, ensemble.weights, ensemble.left_out)
                parts.append(of(field.at_input(first), own, seen[[k]].without_inputs()))
            return xr.concat(parts, "trajectory")

        found = ahead(x0) if origins is None else rolled(caller, x0, origins, ahead)
        reached = float(found["alive"].min())
        if reached < _MOST:
            warn(
                f"{caller}: {100.0 * reached:.0f} % of the paths reach the last time, the others diverge "
                "before; bands are of those that do, and NaN without any. Forecast for less time.",
                SimulationWarning,
            )
        return found

    def _records(self, caller: str, trajectories: Trajectories) -> Trajectories:
        """Records of all states of the field, in its order.

        Warns
        -----
        IgnoredInputWarning
            They have inputs and the field has none.
        DataWarning
            They are in other units than what the field was fitted to.
        """
        field = self._fitted_field()
        inputs = field.input_names if isinstance(field, DrivenField) else ()
        trajectories = with_known_inputs(caller, field, trajectories)
        if trajectories.input_names and not isinstance(field, DrivenField):
            warn(
                f"{caller}: no effect of inputs {', '.join(trajectories.input_names)}; the model was fitted "
                "without inputs.",
                IgnoredInputWarning,
            )
        warn_of_other_units(caller, trajectories, field.context)
        return completed(caller, field, in_order(caller, trajectories, field.state_names, inputs))

    def _warn_of_path(
        self, caller: str, x0: ArrayLike | Trajectories, t: ArrayLike, origins: ArrayLike | None = None
    ) -> None:
        """Warn of what happened in the data and is not repeated in a path over `t`: here nothing."""

    def _forecast_levels(self, field: VectorField) -> Levels | None:
        """Calibrated levels of forecasts by members of `field`, where they are known for what chose it."""
        judge = field.fit_info.inference.judge
        return None if judge is None else FORECAST_LEVELS.get(self.name, {}).get(judge)

    @on_one_thread
    def score(
        self,
        x: Observations,
        t: Times = None,
        x_dot: ArrayLike | Sequence[ArrayLike] | None = None,
        u: ArrayLike | Sequence[ArrayLike] | None = None,
        metric: Callable[..., float] | str | None = None,
        **metric_kws: Any,
    ) -> float:
        """Compare the field with derivatives of the observations, as pysindy does, or its paths with them.

        Parameters
        ----------
        x, t, u
            As for `fit`; of a model of positions these alone, or all states.
        x_dot : array or list of arrays, optional
            Derivatives to compare with; default `differentiate(x, t)`.
        metric : callable or "path", optional
            `metric(x_dot, prediction, **metric_kws)`; default scikit-learn's r2_score, the uniform
            average over states. ``"path"``: the same of paths that are simulated from the first sample of
            each trajectory, which is what predictions are good for.
        metric_kws
            Passed to the metric. With ``"path"``, ``horizon=`` cuts trajectories into windows of this
            duration, each simulated from its own first sample: chaotic paths are compared so; ``progress=``
            says whether a bar with the time left is shown after two seconds, by default on a terminal.

        Returns
        -------
        float
            Minus infinity where ``metric="path"`` and a path ends before the observations do.

        Raises
        ------
        ValueError
            Where derivatives cannot be taken, the score is not a finite number, or the metric is unknown.

        Examples
        --------
        >>> import numpy as np
        >>> import fim_dynsys
        >>> t = np.linspace(0.0, 4.0, 41)
        >>> model = fim_dynsys.load("sindy-strong").fit(np.exp(-0.5 * t), t)
        >>> round(model.score(np.exp(-0.5 * t), t), 2)
        1.0
        """
        field = self._fitted_field()
        if isinstance(x, Trajectories) and u is None:
            x = with_known_inputs(f"{self._caller}.score", field, x)
        carried = isinstance(x, Trajectories) and bool(x.input_names)
        if isinstance(field, ForcedField) and u is None and not carried:
            x, t, carried = with_waves(as_trajectories(x, t), field.omegas), None, True
        clock = field.fit_info.report.get("clock")
        if clock is not None:
            x, t, u, carried = with_clock(as_trajectories(x, t, None, u), clock), None, None, True
        if not isinstance(field, DrivenField) or (u is None and not carried):
            u = input_rows(f"{self._caller}.score", field, u, 0)
        paths = isinstance(metric, str) and metric == "path"
        if not (metric is None or paths or callable(metric)):
            raise ValueError(
                f"{self._caller}.score: expected a callable, 'path' or no metric, got {metric!r}."
            )
        if metric is None and "horizon" in metric_kws:
            raise ValueError(f"{self._caller}.score: expected metric='path' with horizon=, got no metric.")
        trajectories = self._records(f"{self._caller}.score", as_trajectories(x, t, None, u))
        if trajectories.dim != field.dim:
            raise ValueError(
                f"{self._caller}.score: expected observations of {field.dim} states, got {trajectories.dim}."
            )
        if paths:
            return self._score_of_paths(trajectories, x_dot, **metric_kws)
        pairs = trajectories.arrays()
        if x_dot is None:
            short = [k for k, (times, _) in enumerate(pairs) if len(times) < 3]
            if short:
                raise ValueError(
                    f"{self._caller}.score: expected at least 3 samples in each trajectory to take "
                    f"derivatives of, got fewer in {short}; leave these out or give x_dot."
                )
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                parts = [self._differences(values, times) for times, values in pairs]
        else:
            parts = derivative_list(self._caller, x_dot, trajectories)
        truth = np.concatenate(parts)
        states = np.concatenate([values for _, values in pairs])
        complete = np.isfinite(truth).all(axis=1) & np.isfinite(states).all(axis=1)
        if complete.sum() < 2:
            raise ValueError(
                f"{self._caller}.score: expected two complete samples with finite derivatives at least, got "
                f"{int(complete.sum())}."
            )
        if isinstance(field, DrivenField):
            predicted = field(states[complete], np.concatenate(trajectories.input_arrays())[complete])
        else:
            predicted = field(states[complete])
        if not np.isfinite(predicted).all():
            raise ValueError(
                f"{self._caller}.score: expected samples where the field is finite, got {len(predicted)} "
                f"with {int((~np.isfinite(predicted).all(axis=1)).sum())} where it is not."
            )
        if metric is None:
            from sklearn.metrics import r2_score  # costs 0.3 s to import

            metric = r2_score
        assert callable(metric)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            given = metric(truth[complete], predicted, **metric_kws)
        value = real_array(given, f"{self._caller}.score", "the metric's value")
        if value.size != 1:
            raise ValueError(f"{self._caller}.score: expected a metric of one number, got {value.size}.")
        score = float(value.reshape(()))
        if not np.isfinite(score):
            raise ValueError(
                f"{self._caller}.score: expected rates whose squares are ordinary floating-point numbers, "
                "got a score that is not finite; change the units."
            )
        return score

    def _differences(self, x: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Derivatives (n, d) of a record that `score` compares with; NaN where there are none."""
        return self.differentiate(x, t)

    def _score_of_paths(
        self,
        trajectories: Trajectories,
        x_dot: object,
        horizon: float | None = None,
        progress: bool | None = None,
        **unknown: Any,
    ) -> float:
        if unknown or x_dot is not None:
            given = ", ".join([*unknown, *(["x_dot"] if x_dot is not None else [])])
            raise ValueError(
                f"{self._caller}.score: expected horizon= and progress= alone with metric='path', got "
                f"{given}."
            )
        return self._path_score(trajectories, horizon, progress)

    def _path_score(self, trajectories: Trajectories, horizon: float | None, progress: bool | None) -> float:
        return path_score(f"{self._caller}.score", self._fitted_field(), trajectories, horizon, progress)

    @renamed(members="n_draws")
    def explore(
        self,
        path: str | os.PathLike = "explore.html",
        *,
        region: Region | Mapping | Sequence | None = None,
        n_draws: int = 20,
        folder: str | os.PathLike | None = None,
        inputs: Mapping[str, float] | None = None,
        progress: bool | None = None,
    ) -> Path:
        """Write a page on which a click starts a trajectory; see `fim_dynsys.explorer.page.write_explorer`.

        Parameters
        ----------
        path : path
            The HTML file, which needs no server and no network.
        region : Region, dict or pairs, optional
            What is shown; default the box of the data widened by 10 % on each side.
        n_draws : int
            Members of `ensemble` that are integrated beside the field; 0 for none.
        folder : path, optional
            Where the model is saved, for the Python that the page writes.
        inputs : mapping, optional
            Constant inputs of a driven model, by name; default their means over its data.
        progress : bool, optional
            Whether a bar with the time left is shown after two seconds; default on a terminal.

        Returns
        -------
        Path
            The file.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np
        >>> import fim_dynsys
        >>> t = np.linspace(0.0, 4.0, 41)
        >>> model = fim_dynsys.load("sindy-strong").fit(np.exp(-0.5 * t), t)
        >>> page = model.explore(tempfile.mkdtemp() + "/decay.html", n_draws=0)
        >>> page.name
        'decay.html'
        """
        from fim_dynsys.explorer.page import write_explorer  # loads the analyses, which no fit needs

        self._fitted_field()
        check_whole(f"{self._caller}.explore", 0, n_draws=n_draws)
        ensemble = self.ensemble(n_draws, progress=progress) if n_draws else None
        return write_explorer(
            self,
            path,
            region=region,
            ensemble=ensemble,
            folder=folder,
            inputs=inputs,
            progress=progress,
        )

    # ------------------------------------------------------------------ equations

    def _symbolic_field(self) -> DictionaryField | DrivenField:
        """The field itself where it is a finite sum of terms, else its distillation, said aloud."""
        field = self._fitted_field()
        if isinstance(field, DictionaryField | DrivenField):
            return field
        distilled = self._distillation()
        warn(
            f"{self._caller}: the field is not a finite sum of terms; equations approximate it with relative "
            f"residual {distilled.residual_supported:.2g} where data support it.",
            DistillationWarning,
        )
        return distilled.field

    def _distillation(self) -> Distillation:
        if self._distilled is None:
            self._distilled = distill(self.field_)
        return self._distilled

    def equations(self, precision: int = 3, errors: bool = False, style: Style | None = None) -> list[str]:
        """Right-hand sides as text, one for each state.

        Parameters
        ----------
        precision : int
            Significant digits of the coefficients.
        errors : bool
            Whether to give the coefficients with their standard errors; for fields with a posterior.
        style : {"plain", "pysindy"}, optional
            ``0.8 x0 x1 / (1.5 + x0) - x1``, the default of every model but ``sindy``, or pysindy's
            ``0.800 x1 hill(0.667 x0) + -1.00 x1``.

        Returns
        -------
        list of str

        Raises
        ------
        ValueError
            If errors are asked for and not known, or there is no such style.

        Warns
        -----
        DistillationWarning
            Where the field is not itself a finite sum of terms, with the residual.

        Examples
        --------
        >>> import numpy as np
        >>> import fim_dynsys
        >>> t = np.linspace(0, 5, 100)
        >>> model = fim_dynsys.load("sindy-strong").fit(3.0 * np.exp(-0.5 * t), t)
        >>> model.equations()
        ['-0.5 x0']
        """
        return self._symbolic_field().equations(precision, errors, style or self._equation_style)

    def print(
        self,
        lhs: Sequence[str] | None = None,
        precision: int = 3,
        errors: bool = False,
        style: Style | None = None,
        **print_kwargs: Any,
    ) -> None:
        """Print the equations and how well they fit; see `equations` and `FitInfo`.

        A last line has the estimates of a model of given equations that these do not show.

        Parameters
        ----------
        lhs : list of str, optional
            Left-hand sides; default x0', x1', ..., in pysindy's style (x0)', (x1)', ...
        precision, style
            As for `equations`.
        errors : bool
            As for `equations`; where no errors are known, the equations are printed without, and a line says
            so.
        print_kwargs
            Passed to the built-in print.

        Examples
        --------
        >>> import numpy as np
        >>> import fim_dynsys
        >>> t = np.linspace(0.0, 4.0, 41)
        >>> model = fim_dynsys.load("sindy-strong").fit(np.exp(-0.5 * t), t)
        >>> model.print()
        x0' = -0.5 x0
        (path R2 1, ...)
        >>> model = fim_dynsys.load("equations", expressions=["-k*x0"]).fit(np.exp(-0.5 * t), t)
        >>> model.print()
        x0' = -0.5 x0
        (path R2 1, ...)
        (also estimated: x0(0) = 1.00)
        """
        symbolic = self._symbolic_field()
        style = style or self._equation_style
        check_style(self._caller, style)
        if lhs is None:
            lhs = [left_side(name, style) for name in self.feature_names]
        if isinstance(lhs, str) or len(lhs) != len(self.feature_names):
            raise ValueError(
                f"{self._caller}.print: expected lhs as a list of {len(self.feature_names)} texts, one for "
                f"each equation, got {lhs!r}."
            )
        known = symbolic._has_errors
        for left, right in zip(lhs, symbolic.equations(precision, errors and known, style), strict=True):
            print(f"{left} = {right}", **print_kwargs)
        if errors and not known:
            print(f"(no standard errors are known: {NO_ERRORS})", **print_kwargs)
        if symbolic is not self.field_:
            residual = self._distillation().residual_supported
            print(f"(distilled from the field, relative residual {residual:.2g})", **print_kwargs)
        info = self.field_.fit_info
        print(f"({'; '.join([info.summary(), *info.inference.notes])})", **print_kwargs)
        for line in self._further_lines(precision, errors):
            print(line, **print_kwargs)

    def _further_lines(self, precision: int, errors: bool) -> list[str]:
        """What `print` says last; of given equations, estimates that these do not show."""
        return []

    def coefficients(self) -> np.ndarray:
        """Coefficients (d, n_features) of the terms named by `get_feature_names`; see `equations`.

        Examples
        --------
        >>> import numpy as np
        >>> import fim_dynsys
        >>> t = np.linspace(0.0, 4.0, 41)
        >>> model = fim_dynsys.load("sindy-strong").fit(np.exp(-0.5 * t), t)
        >>> dict(zip(model.get_feature_names(), model.coefficients()[0].round(3).tolist(), strict=True))["x0"]
        -0.5
        """
        return np.array(self._symbolic_field().coefficients.T)

    def get_feature_names(self) -> list[str]:
        """Names of the terms in pysindy's notation; see `equations`.

        Examples
        --------
        >>> import numpy as np
        >>> import fim_dynsys
        >>> t = np.linspace(0.0, 4.0, 41)
        >>> model = fim_dynsys.load("sindy-strong").fit(np.exp(-0.5 * t), t)
        >>> model.get_feature_names()[:2]
        ['1', 'x0']
        """
        return list(self._symbolic_field().get_feature_names())

    @property
    def complexity(self) -> int:
        """Number of coefficients that `equations` prints: rounding errors of a fit are no terms."""
        field = self._symbolic_field()
        if isinstance(field, DictionaryField):
            return field.complexity
        return int(np.count_nonzero(field.coefficients))

    # ------------------------------------------------------------------ display

    def __repr__(self) -> str:
        text = super().__repr__()
        if not self.__sklearn_is_fitted__():
            return text
        field = self.field_
        context = samples_of(field, self.context_)
        fitted = f"fitted to {int(np.sum(context.n_obs))} samples of {', '.join(context.state_names)}"
        return "\n".join([*self._shown_equations(False), field.fit_info.summary(), f"{text}, {fitted}"])

    def _shown_equations(self, errors: bool = True) -> list[str]:
        """Lines of equations; none where the field is no sum of terms, which are not sought for display."""
        field = self.field_
        if self._equation_style == "plain" or not isinstance(field, DictionaryField | DrivenField):
            return field._shown_equations(errors)
        given = field.equations(errors=errors and field._has_errors, style=self._equation_style)
        return shown(field.state_names, given, self._equation_style)

    def _summary(self) -> dict[str, str]:
        """What the notebook shows as a table: parameters, what was learnt from, what was chosen and why."""
        rows = {"model": f"{self.name}, version {self.version}"}
        rows |= {key: value_text(value) for key, value in self.get_params(deep=False).items()}
        if not self.__sklearn_is_fitted__():
            return rows | {"fitted": "no"}
        return rows | facts(self.field_.frame, self.field_.fit_info)

    def _repr_html_(self) -> str:
        if not self.__sklearn_is_fitted__():
            return html_block(self._caller, self._summary())
        field = self.field_
        rows = self._summary()
        fit = rows.pop("fit", "")
        return html_block(self._caller, rows, self._shown_equations(), field._picture(), fit)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


def _hint(name: str, field: VectorField | None) -> str:
    """Where else a public name is that somebody seeks at a model; empty where it is nowhere."""
    if name.startswith("_"):
        return ""
    when = "" if field is not None else "after a fit "
    if hasattr(VectorField if field is None else type(field), name):
        return f"; {when}model.field_.{name} is one"
    if name in FitInfo.__dataclass_fields__ | vars(FitInfo):
        return f"; {when}model.field_.fit_info.{name} is one"
    if name == "card":
        return '; models with weights have one, such as load("fim-ode").card()'
    from fim_dynsys import analyze, plot

    for module in (analyze, plot):
        if name in module.__all__:
            short = module.__name__.rpartition(".")[2]
            return f"; fim_dynsys.{short}.{name}(model) is a function"
    return ""


def _usual(times: np.ndarray, interpolator: object, integrator_kws: dict[str, Any] | None) -> bool:
    """Whether nothing is asked for that scipy's integrators have alone."""
    return interpolator is None and not integrator_kws and bool((np.diff(times) > 0).all())


def _from_states(caller: str, field: VectorField, x0: ArrayLike, t: ArrayLike) -> Trajectories:
    """Paths from states; a field that is forced has its phase from the first time."""
    if np.ndim(t) == 0:
        raise ValueError(
            f"{caller}: expected times (m,) or (n, m) for states x0, of which the first is theirs, got "
            f"{t!r}; to go on with a record, pass Trajectories.from_arrays(x, t)."
        )
    if not isinstance(field, ForcedField):
        if isinstance(field, DrivenField):
            field(np.zeros(field.dim))  # says which inputs it lacks
        starts = np.asarray(x0)
        if starts.ndim not in (1, 2) or starts.shape[-1] != field.dim:
            raise ValueError(
                f"{caller}: expected states x0 of shape ({field.dim},) or (n, {field.dim}), columns "
                f"{', '.join(field.state_names)}, got {starts.shape}."
            )
        return simulate(field, x0, t)
    times, starts = real_array(t, caller, "t"), real_array(x0, caller, "x0")
    shapes = times.ndim and times.size and starts.ndim in (1, 2) and starts.shape[-1] == field.dim
    if not shapes or not np.isfinite(times[..., 0]).all():
        raise ValueError(
            f"{caller}: expected states ({field.dim},) or (n, {field.dim}) and finite times (m,) or (n, m), "
            f"got shapes {starts.shape} and {times.shape}."
        )
    phases = np.broadcast_to(field.inputs(times[..., 0]), (*starts.shape[:-1], len(field.input_names)))
    path = simulate(field.autonomous(), np.concatenate([starts, phases], axis=-1), times)
    return path.select_states(field.state_names)
