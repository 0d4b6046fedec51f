"""What models of given equations answer once their parameters are estimated."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from fim_dynsys.errors import (
    FitWarning,
    IgnoredInputWarning,
    SimulationWarning,
    check_whole,
    real_array,
    warn,
)
from fim_dynsys.estimation.curves import function_curve, sampled_curve
from fim_dynsys.estimation.description import Description
from fim_dynsys.estimation.experiments import InputCurve
from fim_dynsys.estimation.fits import Fit, fit_problem, resumed, with_zeros
from fim_dynsys.estimation.happenings import dose_lists, event_lists
from fim_dynsys.estimation.identifiability import Identifiability, identifiability
from fim_dynsys.estimation.integration import path_of
from fim_dynsys.estimation.profiles import LEVELS, Profile, checked_levels, profile
from fim_dynsys.estimation.programs import TIME
from fim_dynsys.estimation.sampling import draw_parameters
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.equation_text import measured_text, number_text
from fim_dynsys.fields.symbolic import DrivenExpressions, SymbolicField
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.members import check_members
from fim_dynsys.regions import default_names
from fim_dynsys.threads import on_one_thread
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.holding import Hold
from fim_dynsys.trajectories.ordering import by_labels

_FEWEST_DIFFERENCES = 3  # samples between doses and events, of which derivatives are taken
_MOST_STARTS = 8  # first states that `print` lists: of more it says how many


class EstimatedModel(VectorFieldModel):
    """A model whose field has estimated parameters: their likelihood and what follows from it.

    Attributes
    ----------
    n_starts, seed : int
        Searches at most, and the seed of their starts.
    doses, events
        Sudden changes, as `fim_dynsys.models.equations.EquationsModel` takes them.
    """

    n_starts: int
    seed: int
    doses: Any
    events: Any
    _sigma: Any
    _fit: Fit | None = None
    _remedy = "bounds such as (0, None), start values, more n_starts or other equations"
    _draws_of_forecasts = 100  # 90 % bands of 20 draws held 80 %, of 100 draws 85 % (logistic, 60 samples)

    def _described(
        self,
        trajectories: Trajectories,
        states: Sequence[str],
        columns: Sequence[str],
        errors: Any,
        curves: Sequence[InputCurve] | None,
        hold: Any,
    ) -> Description:
        """The problem that equations and data make."""
        raise NotImplementedError

    @property
    def parameters_(self) -> dict[str, float]:
        """Everything that was estimated, first states too, by name."""
        return dict(self._fitted_field().fit_info.report["estimates"])

    @property
    def parameter_errors_(self) -> dict[str, float]:
        """Standard errors of `parameters_`."""
        return dict(self._fitted_field().fit_info.report["errors"])

    def _further_lines(self, precision: int, errors: bool) -> list[str]:
        """The estimates that no equation shows: of events, doses and observables, and first states."""
        shown, known = getattr(self.field_, "parameters", {}), self.parameter_errors_
        hidden = {name: value for name, value in self.parameters_.items() if name not in shown}
        starts = [name for name in hidden if not name.isidentifier()]
        listed = [name for name in hidden if name.isidentifier() or len(starts) <= _MOST_STARTS]
        others = [
            f"{name} = {measured_text(hidden[name], known[name], precision)}"
            if errors and np.isfinite(known[name])
            else f"{name} = {number_text(hidden[name], precision).strip()}"
            for name in listed
        ]
        if len(listed) < len(hidden):
            others.append(f"{len(starts)} first states, in parameters_")
        return [f"(also estimated: {', '.join(others)})"] if others else []

    @property
    def fit_(self) -> Fit:
        """All searches; of a model that was read from a folder, one from where it ended."""
        report = self._fitted_field().fit_info.report
        if self._fit is None:
            curves = (
                [InputCurve(*map(np.array, curve)) for curve in report["curves"]]
                if "curves" in report
                else None
            )
            described = self._described(
                self.context_,
                report["states"],
                report["observed"],
                self._sigma,
                curves,
                report["hold"] or None,
            )
            zeros = [name for name, value in report["estimates"].items() if value == 0.0]
            problem = with_zeros(described.problem, zeros)
            if report["pieces"] == len(problem.runs) and len(report["estimates"]) == len(problem.space):
                start = problem.space.coordinates(
                    np.array([report["estimates"][n] for n in problem.space.names])
                )
                fit: Fit | None = resumed(problem, start)
            else:
                fit = fit_problem(problem, described.shown, self.n_starts, self.seed)
            assert fit is not None  # it was fitted before
            self._fit = fit
        return self._fit

    @property
    def sees_otherwise(self) -> bool:
        """Whether paths of the equations alone are not what was observed."""
        report = self._fitted_field().fit_info.report
        other = list(report["observed"]) != list(report["states"])
        return other or bool(self._change_times()) or "clock" in report

    def fitted_columns(self) -> Trajectories:
        """What the fit says that the observed columns are at the samples: with doses, events and inputs.

        Returns
        -------
        Trajectories
            Of the names of the columns; NaN where a sample has no part in the fit.
        """
        fit, columns = self.fit_, self._fitted_field().fit_info.report["observed"]
        pairs = self.context_.arrays()
        values = [np.full((len(t), len(columns)), np.nan) for t, _ in pairs]
        k, runs = -1, fit.problem.runs
        for i, (run, path) in enumerate(zip(runs, fit.paths, strict=True)):
            k += i == 0 or run.inputs is not runs[i - 1].inputs  # which the pieces of one record share
            at = np.searchsorted(pairs[k][0], run.times)
            values[k][at] = path.values[:, : len(columns)]
        return Trajectories.from_arrays(values, [t for t, _ in pairs], state_names=columns)

    def profile(self, name: str, levels: float | Sequence[float] = LEVELS) -> Profile:
        """The likelihood profile of one estimated number, all others fitted again at each of its values.

        Parameters
        ----------
        name : str
            One of `parameters_`.
        levels : float or sequence of float
            Of the intervals, between 0 and 1.

        Returns
        -------
        Profile
            With ``intervals``, open where the data set no end; `fim_dynsys.plot.profiles` draws it.

        Raises
        ------
        ValueError
            For a name that was not estimated.

        Warns
        -----
        FitWarning
            The profile found a better minimum than the fit.
        """
        found = profile(self.fit_, name, checked_levels(f"{self._caller}.profile", levels))
        if found.lower:
            warn(
                f"{self._caller}.profile: a minimum better by {found.lower:.2g} log-likelihood units than "
                "the fit; fit again with more n_starts.",
                FitWarning,
            )
        return found

    def profiles(
        self, names: Sequence[str] | None = None, levels: float | Sequence[float] = LEVELS
    ) -> dict[str, Profile]:
        """Likelihood profiles of several numbers, by name.

        Parameters
        ----------
        names : sequence of str, optional
            Default all parameters; first states are profiled where they are named.
        levels : float or sequence of float
            Of the intervals, between 0 and 1.
        """
        chosen = [p.name for p in self.fit_.problem.parameters] if names is None else list(names)
        return {name: self.profile(name, levels) for name in chosen}

    def identifiability(self) -> Identifiability:
        """Which estimated numbers the measurements determine, and which combinations have no effect.

        Returns
        -------
        Identifiability
        """
        return identifiability(self.fit_)

    def interval(
        self,
        quantity: Callable[[VectorField], ArrayLike],
        levels: float | Sequence[float] = LEVELS,
        n: int = 200,
        seed: int = 0,
    ) -> xr.Dataset:
        """Intervals of whatever follows from the equations: a rate, a fixed point, a period, a bifurcation.

        Parameters
        ----------
        quantity : callable
            ``quantity(field) -> number or array``, of one shape; NaN, or a ValueError, where there is none.
        levels : float or sequence of float
            Of the intervals, between 0 and 1.
        n : int
            Draws of the parameters from their likelihood and prior.
        seed : int
            Equal seeds give equal draws.

        Returns
        -------
        Dataset
            ``best`` at the fit, ``median``, ``low`` and ``high`` (level, ...), and ``exists``, the share of
            the draws that have the quantity.
        """
        field = self._fitted_field()
        check_whole(f"{self._caller}.interval", 2, n=n)
        levels = checked_levels(f"{self._caller}.interval", levels)
        if not callable(quantity):
            raise TypeError(
                f"{self._caller}.interval: expected a function of the field, such as "
                f"lambda field: field.parameters['k'], got {quantity!r}."
            )
        best = np.asarray(quantity(field), dtype=float)
        values = np.full((n, *best.shape), np.nan)
        for number, member in enumerate(self.ensemble(n, seed)):
            try:
                values[number] = np.asarray(quantity(member), dtype=float)
            except ValueError:  # such as no bifurcation, or an analysis that refuses
                continue
        there = np.isfinite(values).reshape(n, -1).all(axis=1)
        dims = [f"axis_{k}" for k in range(best.ndim)]
        tails = [0.5 - 0.5 * v for v in levels]
        shown = values[there] if there.any() else np.full((1, *best.shape), np.nan)
        return xr.Dataset(
            {
                "best": (dims, best),
                "median": (dims, np.median(shown, axis=0)),
                "low": (["level", *dims], np.quantile(shown, tails, axis=0)),
                "high": (["level", *dims], np.quantile(shown, [1.0 - v for v in tails], axis=0)),
                "exists": ((), float(np.mean(there))),
            },
            coords={"level": list(levels)},
        )

    def simulate(
        self,
        x0: ArrayLike,
        t: ArrayLike,
        u: ArrayLike | Callable[[float], ArrayLike] | None = None,
        integrator: str = "solve_ivp",
        interpolator: Callable[..., Callable] | None = None,
        integrator_kws: dict[str, Any] | None = None,
        interpolator_kws: dict[str, Any] | None = None,
    ) -> np.ndarray:
        """Integrate the equations from one state; see `FittedModel.simulate`.

        Parameters
        ----------
        x0 : array (d,)
            Initial state at t[0].
        t : array (m,)
            Increasing times; others are integrated as those of every field.
        u : callable or array (m, k), optional
            Inputs as a function of time, or at the times t.
        integrator, interpolator, integrator_kws, interpolator_kws
            Those of `FittedModel.simulate`, which is asked where one of them is given.

        Returns
        -------
        array (m, d)
            NaN from where the path cannot be continued, with a SimulationWarning.

        Warns
        -----
        SimulationWarning
            The path ends early, or doses or events of the fit lie within its times: they are not repeated.
        """
        field, caller = self._fitted_field(), f"{self._caller}.simulate"
        times = real_array(t, caller, "t")
        x0 = by_labels(caller, "states", x0, field.state_names)
        u = by_labels(caller, "inputs", u, getattr(field, "input_names", ()))
        self._warn_of_path(caller, x0, times)
        asked = (interpolator, integrator_kws, interpolator_kws) != (None, None, None)
        if asked or integrator != "solve_ivp" or times.ndim != 1 or not (np.diff(times) > 0).all():
            return super().simulate(x0, t, u, integrator, interpolator, integrator_kws, interpolator_kws)
        report = field.fit_info.report
        return simulated(caller, field, x0, times, u, report.get("hold"), report.get("clock"))

    def _records(self, caller: str, trajectories: Trajectories) -> Trajectories:
        """Records of all states, in the order of the equations; of arrays, columns are what was observed.

        That of the fit has its hidden states.
        """
        field = self._fitted_field()
        report = field.fit_info.report
        states, columns = tuple(report["states"]), tuple(report["observed"])
        as_fitted = trajectories.state_names in (columns, default_names(len(columns)))
        if not set(columns) <= set(states) and not set(trajectories.state_names) <= set(states):
            raise ValueError(
                f"{caller}: expected records of the states {', '.join(states)}, got those of "
                f"{', '.join(columns if as_fitted else trajectories.state_names)}; fit_info says how well "
                "what was observed is described."
            )
        if as_fitted:
            trajectories = trajectories.with_x(trajectories.x, columns)
            whole = field.context
            if len(columns) < len(states) and whole is not None and trajectories.equals(self.context_):
                return whole
        return super()._records(caller, trajectories)

    def _path_score(self, trajectories: Trajectories, horizon: float | None, progress: bool | None) -> float:
        whole = self._fitted_field().fit_info.path_r2
        if horizon is None and self._change_times() and self._is_own(trajectories) and whole is not None:
            return whole  # of paths with doses and events
        spans = [(t[0], t[-1]) for t, _ in trajectories.arrays()]
        self._warn_of_changes(f"{self._caller}.score", spans)
        return super()._path_score(trajectories, horizon, progress)

    def _is_own(self, trajectories: Trajectories) -> bool:
        """Whether records are those of the fit, whatever their inputs are called and how these are held."""
        mine = (trajectories.arrays(), trajectories.input_arrays())
        for known in (self.context_, self._fitted_field().context):
            if known is None or len(known) != len(trajectories):
                continue
            times = zip(mine[0], known.arrays(), strict=True)
            inputs = zip(mine[1], known.input_arrays(), strict=True)
            if all(np.array_equal(a, b) and np.array_equal(x, y, equal_nan=True) for (a, x), (b, y) in times):
                return all(np.array_equal(u, v, equal_nan=True) for u, v in inputs)
        return False

    def _differences(self, x: np.ndarray, t: np.ndarray) -> np.ndarray:
        bounds = [0, *np.unique(np.searchsorted(t, self._change_times(), side="right")), len(t)]
        found = np.full(np.shape(x), np.nan)
        for first, last in pairwise(bounds):
            if last - first >= _FEWEST_DIFFERENCES:
                found[first:last] = super()._differences(x[first:last], t[first:last])
        return found

    def _warn_of_path(
        self, caller: str, x0: ArrayLike | Trajectories, t: ArrayLike, origins: ArrayLike | None = None
    ) -> None:
        times = real_array(t, caller, "t").ravel()
        if not times.size:
            return
        spans = [(times.min(), times.max())]
        if isinstance(x0, Trajectories):
            ends = [t[-1] for t, _ in x0.arrays()] if origins is None else np.ravel(origins)
            spans = [(end, end + times.max()) for end in ends]
        self._warn_of_changes(caller, spans)

    def _warn_of_changes(self, caller: str, spans: Sequence[tuple[float, float]]) -> None:
        """Warn of doses and events within the times of paths, which follow the equations alone."""
        reached = sorted({at for at in self._change_times() for low, high in spans if low <= at < high})
        if reached:
            warn(
                f"{caller}: doses and events of the fit are not repeated, but lie within these times, at "
                f"{', '.join(f'{at:g}' for at in reached)}; go from one to the next and change "
                "the state there.",
                SimulationWarning,
            )

    def _change_times(self) -> list[float]:
        """Times of the doses and events of all trajectories."""
        n = len(self.context_)
        entries = [*dose_lists(self._caller, self.doses, n), *event_lists(self._caller, self.events, n)]
        return [time for entry in entries for time, _, _ in entry]

    @on_one_thread
    def ensemble(self, n: int = 20, seed: int = 0, progress: bool | None = None) -> EnsembleField:
        """Draws of the field from the likelihood and priors of its parameters, within the bounds.

        Parameters
        ----------
        n : int
            Number of draws.
        seed : int
            Equal seeds give equal draws.
        progress : bool, optional
            Without effect: draws take seconds at most.

        Returns
        -------
        EnsembleField

        References
        ----------
        `fim_dynsys.estimation.sampling.draw_parameters`.
        """
        field = self._fitted_field()
        check_members(self._caller, n, seed)
        assert isinstance(field, SymbolicField | DrivenExpressions)
        with np.errstate(all="ignore"):
            draws = draw_parameters(self.fit_, n, seed)
        place = {name: k for k, name in enumerate(self.fit_.space.names)}
        changed = [name for name in field.parameters if name in place]
        return EnsembleField(
            [field.with_parameters(**{name: float(row[place[name]]) for name in changed}) for row in draws]
        )

    def _symbolic_field(self) -> Any:
        return self._fitted_field()


def simulated(
    caller: str,
    field: VectorField,
    x0: ArrayLike,
    t: np.ndarray,
    u: ArrayLike | Callable[[float], ArrayLike] | None,
    hold: Any,
    clock: str | None,
) -> np.ndarray:
    """Path (m, d) of fitted equations; NaN from where it cannot be continued.

    Warns
    -----
    SimulationWarning
        Where that is before the last time.
    """
    assert isinstance(field, SymbolicField | DrivenExpressions)
    start = np.atleast_1d(real_array(x0, caller, "x0"))
    if start.shape != (field.dim,):
        raise ValueError(
            f"{caller}: expected x0 of shape ({field.dim},), got {start.shape}; forecast(x0, t) takes "
            "several initial states."
        )
    inputs = [name for name in getattr(field, "input_names", ()) if name != clock]
    if inputs and u is None:
        raise TypeError(
            f"{caller}: expected inputs u ({', '.join(inputs)}), which the model was fitted with, got none."
        )
    if not inputs and u is not None:
        warn(f"{caller}: no effect of u; the model was fitted without inputs.", IgnoredInputWarning)
    curve = InputCurve.none()
    if inputs and callable(u):
        curve = function_curve(
            lambda s: real_array([u(float(v)) for v in s], caller, "u(t)").reshape(len(s), -1),
            t[0],
            t[-1],
        )
    elif inputs:
        rows = real_array(u, caller, "u").reshape(len(t), -1)
        words = hold if isinstance(hold, Mapping) else dict.fromkeys(inputs, hold)
        curve, _ = sampled_curve(t, rows, [Hold.of(caller, words.get(name) or Hold.AUTO) for name in inputs])
    if inputs and curve.cubics.shape[2] != len(inputs):
        raise ValueError(
            f"{caller}: expected {len(inputs)} inputs ({', '.join(inputs)}), got {curve.cubics.shape[2]}."
        )
    every = [*field.state_names, *getattr(field, "input_names", ())]
    named = {symbol(f"x{k}"): symbol(TIME if name == clock else name) for k, name in enumerate(every)}
    equations = [e.xreplace(named) for e in field.expressions]
    with np.errstate(all="ignore"):
        path = path_of(equations, field.state_names, inputs, field.parameters, start, t, curve)
    reached = int(np.isfinite(path).all(axis=1).sum())
    if reached < len(t):
        warn(
            f"{caller}: the path ends at {t[max(reached - 1, 0)]:.4g} of {t[-1]:.4g}, later rows are NaN: it "
            "leaves all bounds, or its steps become too small.",
            SimulationWarning,
        )
    return path


def symbol(name: str) -> Any:
    """The symbol of a name in equations."""
    import sympy

    return sympy.Symbol(name, real=True)
