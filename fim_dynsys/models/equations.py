"""Known equations: their parameters fitted to trajectories."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.errors import DataWarning, FitWarning, check_whole, real_array, warn
from fim_dynsys.estimation.curves import function_curve
from fim_dynsys.estimation.description import Description, Known, describe
from fim_dynsys.estimation.experiments import InputCurve
from fim_dynsys.estimation.fits import Fit, fit_problem
from fim_dynsys.estimation.summary import Summary, summarise
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.symbolic import DrivenExpressions, SymbolicField
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.inputs import (
    Errors,
    Observations,
    Times,
    as_trajectories,
    error_list,
    with_error_columns,
)
from fim_dynsys.models.members import check_members
from fim_dynsys.regression.criteria import Noise
from fim_dynsys.regression.roots import covariance_root
from fim_dynsys.saved import SavedModel
from fim_dynsys.trajectories.container import Trajectories

TIME = "t"


class EquationsModel(VectorFieldModel):
    """Parameters of known equations, fitted to trajectories of which not all states need be observed.

    The equations are integrated with error control, by an implicit method where they are stiff, together with
    the exact sensitivities to all parameters and first states. Searches begin at many starts, drawn over the
    bounds or about natural sizes; where all states were measured, short pieces of the trajectories are fitted
    first. The best minimum is polished. What is not sure of it is a warning.

    Parameters
    ----------
    expressions : list of str, or dict by state
        One right-hand side per state, in the names of the states (or x0, x1, ...), of inputs, of free
        parameters and of the time ``t``: ``{"s": "-b*s*i", "i": "b*s*i - g*i"}``. See
        `fim_dynsys.fields.expressions.parse` for what they may hold.
    bounds : dict, optional
        ``{"K": (0, None)}``: of parameters and of first states, in their units.
    fixed : dict, optional
        Known parameters, or what they are in others: ``{"g": 9.81, "k2": "2*k1"}``.
    scale : dict or str, optional
        ``{"k": "log"}`` or ``"linear"``: how parameters are searched. Default by logarithms where they cannot
        be negative, by their bounds or by where they stand in the equations.
    priors : dict, optional
        ``("normal", mean, deviation)`` or ``("lognormal", median, deviation of the logarithm)`` by parameter:
        the fit is then the most probable one.
    start : dict, optional
        Where parameters, and first states, start, if that is known.
    initial : dict or list of dicts, optional
        First states: a number, a pair of bounds, or an expression in parameters, such as ``{"a": "dose"}``.
        Others are estimated. A list has one dict for each trajectory.
    t0 : float or list, optional
        When the states are those of `initial`; default the first sample of each trajectory.
    doses : list, optional
        ``(time, state, amount)``: what is added to a state; amounts may be expressions in parameters. A list
        of such lists has one for each trajectory. A sample at the time of a dose is taken before it.
    events : dict or list of dicts, optional
        ``{time: {"state": value}}``: what a state is set to.
    noise : str, tuple or dict by column, optional
        ``"normal"``, ``"lognormal"``, ``"relative"``, ``"laplace"``, ``"poisson"``; with a scale as
        ``("normal", "a + b*y")``, an expression in states and parameters. Default normal, of one unknown
        standard deviation for each column.
    observed : list of str, optional
        What the columns of the data are, see `fit`.
    hold : str or dict by input, optional
        What sampled inputs do between samples: ``"previous"``, ``"linear"`` or ``"smooth"``. Default
        ``"previous"`` where a column has few levels and rarely changes, else ``"smooth"``.
    n_starts : int
        Searches at most.
    seed : int
        Of their starts.

    Attributes
    ----------
    parameters_ : dict
        Everything that was estimated, first states too.
    parameter_errors_ : dict
        Standard errors of these, by the curvature of the likelihood.
    fit_ : fim_dynsys.estimation.fits.Fit
        All searches.

    References
    ----------
    A. Raue et al., Lessons learned from quantitative dynamical modeling in systems biology, PLoS ONE 8 (2013)
    e74335 (multi-start searches by sensitivities on logarithms); H. G. Bock, Recent advances in parameter
    identification techniques for ODE (1983) (multiple shooting).

    See Also
    --------
    fim_dynsys.models.symbolic.SymbolicModel : where the equations are not known.

    Examples
    --------
    >>> t = np.linspace(0, 10, 21)
    >>> model = EquationsModel({"c": "-k*c"}, initial={"c": 2.0})
    >>> model = model.fit(2 * np.exp(-0.3 * t), t, feature_names=["c"])
    >>> round(model.parameters_["k"], 4)
    0.3
    """

    name = "equations"
    version = "1"
    min_observations = 2
    accepts_missing = True
    uses_inputs = uses_sigma = True
    fit_: Fit

    def __init__(
        self,
        expressions: Sequence[str] | Mapping[str, str] | None = None,
        bounds: Mapping[str, Sequence[float | None]] | None = None,
        fixed: Mapping[str, Any] | None = None,
        scale: Mapping[str, str] | str | None = None,
        priors: Mapping[str, Sequence[Any]] | None = None,
        start: Mapping[str, float] | None = None,
        initial: Any = None,
        t0: Any = None,
        doses: Sequence[Any] | None = None,
        events: Any = None,
        noise: Any = None,
        observed: Sequence[str] | None = None,
        hold: Any = None,
        n_starts: int = 20,
        seed: int = 0,
    ) -> None:
        self.expressions = expressions
        self.bounds = bounds
        self.fixed = fixed
        self.scale = scale
        self.priors = priors
        self.start = start
        self.initial = initial
        self.t0 = t0
        self.doses = doses
        self.events = events
        self.noise = noise
        self.observed = observed
        self.hold = hold
        self.n_starts = n_starts
        self.seed = seed

    # ------------------------------------------------------------------ fitting

    def fit(
        self,
        x: Observations,
        t: Times = None,
        x_dot: None = None,
        u: ArrayLike | Sequence[ArrayLike] | Callable[[float], ArrayLike] | None = None,
        feature_names: Sequence[str] | None = None,
        *,
        sigma: Errors | None = None,
        observed: Sequence[str] | None = None,
        hold: Any = None,
    ) -> Self:
        """Fit the parameters to observations.

        Parameters
        ----------
        x : array (n, m) or (n,), list of such arrays, Trajectories, Dataset, DataFrame or DataArray
            Observations, NaN where a column was not measured.
        t : float, array (n,) or list of arrays
            Time step, times, or times of each trajectory. Left out where `x` carries its times.
        x_dot : None
            Derivatives are not used.
        u : array (n, k) or (n,), list of such arrays, or function, optional
            Inputs at the samples, or ``u(t)``, which is followed between them; jumps are located.
        feature_names : list of str, optional
            Names of the states, and of the inputs or not; default those of the expressions or of `x`.
        sigma : float, array (m,), dict by column, arrays of the shapes of `x`, or "poisson"
            Known standard deviations of the observations, or that they are counts. Samples of infinite ones
            count as not observed.
        observed : list of str, optional
            What the columns of `x` are, each a state or an expression in states, inputs and parameters;
            default the states, or those that the columns are named after.
        hold : str or dict by input, optional
            As the parameter of that name, which it replaces for this fit.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Where the data are malformed, a name is nowhere to be found, or the equations are finite for no
            start.

        Warns
        -----
        FitWarning
            The equations do not describe the data, or the search did not converge.
        DataWarning
            The data do not determine some parameters, or some are at their bounds or run away.
        """
        who = f"{self._who}.fit"
        if x_dot is not None:
            raise ValueError(f"{who}: expected no x_dot, got one; equations are fitted to the samples.")
        observed = self.observed if observed is None else observed
        x, sigma = with_error_columns(x, sigma)
        states, columns, names = self._names(who, x, observed, feature_names)
        curve: Callable[[float], ArrayLike] | None = u if callable(u) else None
        trajectories = as_trajectories(x, t, names, u)
        if observed is None and feature_names is None and columns is None:
            columns = tuple(trajectories.state_names)
        states = tuple(trajectories.state_names) if states is None else states
        columns = tuple(trajectories.state_names) if columns is None else columns
        errors = None if sigma is None else error_list(who, sigma, trajectories)
        self.check_context(trajectories)
        curves = None if curve is None else _function_curves(who, curve, trajectories, self.t0)
        with np.errstate(all="ignore"):
            field = self._estimated(trajectories, states, columns, errors, curves, hold)
        self._sigma = errors
        self._adopt(field, trajectories)
        self._warn_of_problems("fit")
        return self

    def infer(
        self,
        trajectories: Trajectories,
        sigma: Sequence[np.ndarray] | Noise | None = None,
    ) -> VectorField:
        """The field at the fitted parameters.

        Parameters
        ----------
        trajectories : Trajectories
            The data.
        sigma : list of arrays (n, d), or Noise.POISSON, optional
            Known standard deviations of the samples.
        """
        states, columns, _ = self._names(self._who, trajectories, self.observed, None)
        names = tuple(trajectories.state_names)
        model = type(self)(**self.get_params(deep=False))
        return model._estimated(trajectories, states or names, columns or names, sigma, None, None)

    def _names(
        self,
        who: str,
        x: Observations,
        observed: Sequence[str] | None,
        feature_names: Sequence[str] | None,
    ) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None, Sequence[str] | None]:
        """Names of the states and columns, None where the data say them; names of the data's columns."""
        given = self.expressions
        if given is None or isinstance(given, str) or not isinstance(given, Mapping | Sequence) or not given:
            raise ValueError(
                f"{self._who}: expected a list of expressions or a dict by state, got {given!r}."
            )
        d = len(given)
        keys = tuple(map(str, given)) if isinstance(given, Mapping) else None
        own = None if feature_names is None else [str(name) for name in feature_names]
        if observed is None:
            if isinstance(x, Trajectories) and own is None and keys is not None:
                if set(x.state_names) < set(keys):
                    return keys, tuple(x.state_names), None
            if own is not None and keys is not None and not set(own) >= set(keys):
                shown = [name for name in own if name in keys]
                others = own[len(shown) :]
                if shown and shown == own[: len(shown)] and not set(others) & set(keys):
                    return keys, tuple(shown), [*shown, *others]
            return None, None, own
        if isinstance(observed, str) or not observed or len(set(observed)) < len(list(observed)):
            raise ValueError(
                f"{who}: expected observed as a list of different states or expressions, got {observed!r}."
            )
        columns = tuple(map(str, observed))
        states = keys or tuple(f"x{i}" for i in range(d))
        inputs: list[str] = []
        if own is not None:
            states, inputs = tuple(own[:d]), own[d:]
        return states, columns, [*columns, *inputs]

    def _ordered(self, states: Sequence[str]) -> list[str]:
        """The right-hand sides in the order of the states."""
        given = self.expressions
        assert given is not None
        if isinstance(given, Mapping):
            if set(given) != set(states):
                raise ValueError(
                    f"{self._who}: expected expressions of the states {', '.join(states)}, got those of "
                    f"{', '.join(map(str, given))}; with observed=[...] not all need to be in the data."
                )
            return [given[name] for name in states]
        if len(given) != len(states):
            raise ValueError(
                f"{self._who}: expected {len(states)} expressions, one per state ({', '.join(states)}), got "
                f"{len(given)}."
            )
        return list(given)

    def _described(
        self,
        trajectories: Trajectories,
        states: Sequence[str],
        columns: Sequence[str],
        errors: Sequence[np.ndarray] | Noise | None,
        curves: Sequence[InputCurve] | None,
        hold: Any,
    ) -> Description:
        known = Known(
            self.bounds,
            self.fixed,
            self.scale,
            self.priors,
            self.start,
            self.initial,
            self.t0,
            self.doses,
            self.events,
            self.noise,
            self.hold if hold is None else hold,
        )
        sigma = None if errors is None or isinstance(errors, Noise) else errors
        return describe(
            self._who,
            self._ordered(states),
            states,
            columns,
            trajectories,
            known,
            sigma,
            errors is Noise.POISSON,
            curves,
        )

    def _estimated(
        self,
        trajectories: Trajectories,
        states: Sequence[str],
        columns: Sequence[str],
        errors: Sequence[np.ndarray] | Noise | None,
        curves: Sequence[InputCurve] | None,
        hold: Any,
    ) -> VectorField:
        """Fit, and make the field of what was found."""
        check_whole(self._who, 1, n_starts=self.n_starts)
        check_whole(self._who, 0, seed=self.seed)
        described = self._described(trajectories, states, columns, errors, curves, hold)
        fit = fit_problem(described.problem, described.shown, self.n_starts, self.seed)
        if fit is None:
            names = ", ".join(described.problem.space.names) or "no parameters"
            raise ValueError(
                f"{self._who}: expected equations that can be integrated for some values of {names}, got none; "
                "give start={name: value} or bounds."
            )
        self.fit_, self._description = fit, described
        summary = summarise(described, fit)
        report = summary.report() | {
            "chosen": "given expressions",
            "noise": _noise_word(errors),
            "states": list(states),
            "observed": list(columns),
            "hold": described.holds if hold is None else hold,
        }
        if curves is not None:
            report["curves"] = [[c.starts.tolist(), c.cubics.tolist()] for c in curves]
        return self._field(described, trajectories, summary, report)

    def _field(
        self, described: Description, trajectories: Trajectories, summary: Summary, report: dict[str, Any]
    ) -> VectorField:
        """The right-hand sides at the fitted parameters; the time is an input of its own."""
        problem = described.problem
        symbols = {s.name for e in problem.equations for s in e.free_symbols}
        driven = [*problem.inputs, *([TIME] if TIME in symbols and TIME not in problem.inputs else [])]
        names = sorted(symbols - {*problem.states, *driven})
        parameters = {name: summary.parameters[name] for name in names}
        covariance = summary.covariance_of(names)
        full = tuple(described.columns) == tuple(problem.states) and described.shown is not None
        context = trajectories if full and TIME not in driven else _states(problem, trajectories, summary, driven)
        info = FitInfo(
            initial_states=summary.initial_states,
            noise_level=summary.noise_level if full else None,
            report=report,
            **summary.quality,
        )
        if driven:
            return DrivenExpressions(
                problem.equations, parameters, covariance, input_names=driven, context=context, fit_info=info
            )
        return SymbolicField(problem.equations, parameters, covariance, context=context, fit_info=info)

    def _adopt(self, field: VectorField, trajectories: Trajectories) -> None:
        super()._adopt(field, trajectories)
        self.feature_names = list(field.state_names)
        self.n_features_in_ = field.dim

    def _compared(self, field: VectorField, trajectories: Trajectories) -> FitInfo:
        return field.fit_info

    def _warn_of_problems(self, method: str) -> None:
        super()._warn_of_problems(method)
        report = self.field_.fit_info.report
        if report["status"] != "converged":
            warn(
                f"{self._who}.{method}: the best search ended without convergence ({report['status']}); other "
                "starts, bounds or units may help.",
                FitWarning,
            )
        for kind, said in (
            ("undetermined", "the data do not determine {}; other values would fit as well. Give some of them "
             "as numbers, or observe more states."),
            ("at_bounds", "at their bounds: {}."),
            ("run_away", "beyond a million times their natural size: {}; the data may not determine them."),
            ("alternatives", "another minimum fits as well: {}."),
        ):
            if report.get(kind):
                warn(f"{self._who}.{method}: {said.format(', '.join(report[kind]))}", DataWarning)

    # ------------------------------------------------------------------ answers

    @property
    def parameters_(self) -> dict[str, float]:
        """Everything that was estimated, first states too, by name."""
        return dict(self._fitted_field().fit_info.report["estimates"])

    @property
    def parameter_errors_(self) -> dict[str, float]:
        """Standard errors of `parameters_`."""
        return dict(self._fitted_field().fit_info.report["errors"])

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
        """
        field, who = self._fitted_field(), f"{self._who}.simulate"
        times = real_array(t, who, "t")
        asked = (interpolator, integrator_kws, interpolator_kws) != (None, None, None)
        if asked or integrator != "solve_ivp" or times.ndim != 1 or not (np.diff(times) > 0).all():
            return super().simulate(x0, t, u, integrator, interpolator, integrator_kws, interpolator_kws)
        return simulated(who, field, x0, times, u, field.fit_info.report.get("hold"))

    def ensemble(self, n: int = 20, seed: int = 0, progress: bool | None = None) -> EnsembleField:
        """Draws of the field from the normal approximation of the likelihood, within the bounds.

        Parameters
        ----------
        n : int
            Number of draws.
        seed : int
            Equal seeds give equal draws.
        progress : bool, optional
            Without effect: draws take no time.

        Returns
        -------
        EnsembleField
        """
        field = self._fitted_field()
        check_members(self._who, n, seed)
        assert isinstance(field, SymbolicField | DrivenExpressions)
        report = field.fit_info.report
        names = sorted(field.parameters)
        root = covariance_root(np.array(report["covariance"], dtype=float).reshape(len(names), len(names)))
        logs = np.array([name in report["logarithms"] for name in names], dtype=bool)
        mean = np.array([field.parameters[name] for name in names])
        draws = np.random.default_rng(seed).standard_normal((n, len(names))) @ root
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            values = np.where(logs, mean * np.exp(draws / np.where(logs, mean, 1.0)), mean + draws)
        low, high = (np.array([report["limits"].get(name, [None, None])[k] for name in names], dtype=float) for k in (0, 1))
        values = np.fmin(np.fmax(values, low), high)
        return EnsembleField(
            [field.with_parameters(**dict(zip(names, map(float, row), strict=True))) for row in values]
        )

    def _symbolic_field(self) -> Any:
        return self._fitted_field()

    def restore(self, saved: SavedModel) -> Self:
        """Become fitted again from what a folder holds; see `VectorFieldModel.restore`."""
        return super().restore(saved)


def _noise_word(errors: Sequence[np.ndarray] | Noise | None) -> str:
    if isinstance(errors, Noise):
        return errors.value
    return (Noise.ESTIMATED if errors is None else Noise.GIVEN).value
