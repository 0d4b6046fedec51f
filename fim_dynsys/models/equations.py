"""Known equations: their parameters fitted to trajectories.

Longer than five hundred lines: it is one class, which asks `estimation` and answers by the names of all
models.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from fim_dynsys.errors import (
    DataWarning,
    FitWarning,
    IgnoredInputWarning,
    SimulationWarning,
    check_whole,
    real_array,
    warn,
)
from fim_dynsys.estimation.curves import function_curve, sampled_curve
from fim_dynsys.estimation.descent import Outcome
from fim_dynsys.estimation.description import Description, describe
from fim_dynsys.estimation.experiments import InputCurve
from fim_dynsys.estimation.facts import negative_states, with_facts
from fim_dynsys.estimation.fits import Fit, fit_problem, refined
from fim_dynsys.estimation.happenings import dose_lists, event_lists, read_begins
from fim_dynsys.estimation.identifiability import Identifiability, identifiability
from fim_dynsys.estimation.integration import path_of
from fim_dynsys.estimation.known import Known
from fim_dynsys.estimation.problem import Problem
from fim_dynsys.estimation.profiles import LEVELS, Profile, profile
from fim_dynsys.estimation.programs import TIME
from fim_dynsys.estimation.sampling import draw_parameters
from fim_dynsys.estimation.summary import Summary, summarise
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.inference import Inference, Noise
from fim_dynsys.fields.symbolic import DrivenExpressions, SymbolicField
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.inputs import (
    Errors,
    Observations,
    Times,
    as_trajectories,
    assumed,
    complete_errors,
    error_list,
    with_error_columns,
)
from fim_dynsys.models.members import check_members
from fim_dynsys.regression.given import Given
from fim_dynsys.regression.observed import complete_inputs, complete_samples, observe
from fim_dynsys.regression.thinning import MANY
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.holding import Hold

_NOTICED = 2.0  # noise levels that are left: other starts are looked for
_AS_NOISE = 1.15  # noise levels that are left: no other minimum can be much better


class EquationsModel(VectorFieldModel):
    """Parameters of known equations, fitted to trajectories of which not all states need be observed.

    The equations are integrated with error control, by an implicit method where they are stiff, together with
    the exact sensitivities to all parameters and first states. ``min``, ``max``, ``abs`` and choices such as
    ``a if x > 0 else b`` switch where they say, by step control; steps end at given switching times. Where
    a rate jumps at a state or an estimated threshold, as a sign does, it is fitted as a hyperbolic tangent
    that rises within a ten-thousandth of the size of what is compared. Searches begin at many
    starts, drawn over the bounds or about natural sizes; where all states were measured, short pieces of the
    trajectories are fitted first. The best minimum is polished. What is not sure of it is a warning.

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
        ``("normal", mean, deviation)`` or ``("lognormal", median, deviation of the logarithm)`` by parameter
        or state, of which it is the first value: the fit is then the most probable one.
    start : dict, optional
        Where parameters, and first states, start, if that is known; within their bounds.
    initial : dict or list of dicts, optional
        First states: a number, a pair of bounds, or an expression in parameters, such as ``{"a": "dose"}``.
        Others are estimated. A list has one dict for each trajectory.
    t0 : float or list, optional
        When the states are those of `initial`; default the first sample of each trajectory, or a dose or an
        event before it.
    doses : list, optional
        ``(time, state, amount)``: what is added to a state; amounts may be expressions in parameters. A list
        of such lists has one for each trajectory. A sample at the time of a dose is taken before it, first
        states at that time too. Doses before `t0` are an error, doses that no sample follows a warning.
    events : dict or list of dicts, optional
        ``{time: {"state": value}}``: what a state is set to, before doses at the same time.
    noise : str, tuple or dict by column, optional
        ``"normal"``, ``"lognormal"``, ``"relative"``, ``"laplace"``, ``"poisson"``; with a scale as
        ``("normal", "a + b*y")``, an expression in states and parameters. Default normal, of one unknown
        standard deviation for each column.
    observed : list of str, optional
        What the columns of the data are, see `fit`.
    hold : str or dict by input, optional
        What sampled inputs do between samples: ``"previous"``, ``"linear"`` or ``"smooth"``. Default
        as recognised, see `fim_dynsys.regression.inputs.curves`.
    knowledge : Knowledge, optional
        Facts of the states, as of searches: ``nonnegative`` bounds first states and warns where the fit
        becomes negative, ``conserved`` is checked against the equations.
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
        All searches; `fim_dynsys.plot.waterfall` draws where they ended.

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
    _fit: Fit | None = None

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
        knowledge: Knowledge | None = None,
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
        self.knowledge = knowledge
        self.n_starts = n_starts
        self.seed = seed

    # ------------------------------------------------------------------ fitting

    def fit(
        self,
        x: Observations,
        t: Times = None,
        x_dot: ArrayLike | Sequence[ArrayLike] | None = None,
        u: ArrayLike | Sequence[ArrayLike] | Callable[[float], ArrayLike] | None = None,
        feature_names: Sequence[str] | None = None,
        *,
        forcing: Mapping[str, Any] | None = None,
        time: bool = False,
        order: int = 1,
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
        x_dot, forcing, time, order
            Without use here: equations are fitted to samples, and may hold the time ``t`` and velocities.
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
        caller = f"{self._caller}.fit"
        if x_dot is not None or forcing is not None or time or order != 1:
            raise ValueError(
                f"{caller}: expected neither x_dot, forcing, time nor order, got one; write sin(omega*t), or "
                "an equation for each velocity, and fit to the samples with observed=[...]."
            )
        observed = self.observed if observed is None else observed
        x, sigma = with_error_columns(x, sigma)
        states, columns, names = self._names(caller, x, observed, feature_names)
        curve: Callable[[float], ArrayLike] | None = u if callable(u) else None
        trajectories = as_trajectories(x, t, names, u)
        if observed is None and feature_names is None and columns is None:
            columns = tuple(trajectories.state_names)
        states = tuple(trajectories.state_names) if states is None else states
        columns = tuple(trajectories.state_names) if columns is None else columns
        errors = None if sigma is None else error_list(caller, sigma, trajectories)
        self.check_context(trajectories)
        word = self.hold if hold is None else hold
        if isinstance(word, str) and trajectories.input_names:
            trajectories = trajectories.with_hold(word)  # which scores and plots of these data follow too
        curves = None if curve is None else self._function_curves(caller, curve, trajectories)
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
        states, columns, _ = self._names(self._caller, trajectories, self.observed, None)
        names = tuple(trajectories.state_names)
        model = type(self)(**self.get_params(deep=False))
        return model._estimated(trajectories, states or names, columns or names, sigma, None, None)

    def _names(
        self,
        caller: str,
        x: Observations,
        observed: Sequence[str] | None,
        feature_names: Sequence[str] | None,
    ) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None, Sequence[str] | None]:
        """Names of the states and columns, None where the data say them; names of the data's columns."""
        given = self.expressions
        if given is None or isinstance(given, str) or not isinstance(given, Mapping | Sequence) or not given:
            raise ValueError(
                f"{self._caller}: expected a list of expressions or a dict by state, got {given!r}."
            )
        d = len(given)
        keys = tuple(map(str, given)) if isinstance(given, Mapping) else None
        own = None if feature_names is None else [str(name) for name in feature_names]
        if observed is None:
            if isinstance(x, Trajectories) and own is None and set(x.state_names) < set(keys or ()):
                return keys, tuple(x.state_names), None
            if own is not None and keys is not None and not set(own) >= set(keys):
                shown = [name for name in own if name in keys]
                others = own[len(shown) :]
                if shown and shown == own[: len(shown)] and not set(others) & set(keys):
                    return keys, tuple(shown), [*shown, *others]
            return None, None, own
        if isinstance(observed, str) or not observed or len(set(observed)) < len(list(observed)):
            raise ValueError(
                f"{caller}: expected observed as a list of different states or expressions, got {observed!r}."
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
                    f"{self._caller}: expected expressions of the states {', '.join(states)}, got those of "
                    f"{', '.join(map(str, given))}; with observed=[...] not all need to be in the data."
                )
            return [given[name] for name in states]
        if len(given) != len(states):
            raise ValueError(
                f"{self._caller}: expected {len(states)} expressions, one per state ({', '.join(states)}), "
                f"got {len(given)}."
            )
        return list(given)

    def _function_curves(
        self, caller: str, u: Callable[[float], ArrayLike], trajectories: Trajectories
    ) -> list[InputCurve]:
        """A function of time as cubics over each trajectory."""

        def values(t: np.ndarray) -> np.ndarray:
            return real_array([u(float(s)) for s in t], caller, "u(t)").reshape(len(t), -1)

        times = [t for t, _ in trajectories.arrays()]
        begins, _ = read_begins(caller, self.t0, times, self.doses, self.events, self.initial)
        return [function_curve(values, begin, float(t[-1])) for t, begin in zip(times, begins, strict=True)]

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
        ordered, facts = self._ordered(states), Knowledge.of(self.knowledge)
        known = with_facts(self._caller, facts, ordered, states, known)
        return describe(
            self._caller,
            ordered,
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
        check_whole(self._caller, 1, n_starts=self.n_starts)
        check_whole(self._caller, 0, seed=self.seed)
        described = self._described(trajectories, states, columns, errors, curves, hold)
        problem = described.problem
        fit = fit_problem(problem, described.shown, self.n_starts, self.seed)
        if described.shown is None and _poor(described, fit):
            fit = refined(fit, problem, self._grown(problem, trajectories, columns, errors))
        if fit is None:
            names = ", ".join(problem.space.names) or "no parameters"
            raise ValueError(
                f"{self._caller}: expected equations that can be integrated for some values of {names}, got "
                "none; give start={name: value} or bounds."
            )
        self._fit = fit
        summary = summarise(described, fit)
        report = summary.report() | {
            "chosen": "given expressions",
            "states": list(states),
            "observed": list(columns),
            "hold": described.holds,
            "notes": [
                *described.notes,
                *negative_states(Knowledge.of(self.knowledge), states, summary.states),
            ],
            "doubts": _doubts(described, fit, summary),
        }
        if curves is not None:
            report["curves"] = [[c.starts.tolist(), c.cubics.tolist()] for c in curves]
        return self._field(described, trajectories, summary, report, errors)

    def _grown(
        self,
        problem: Problem,
        trajectories: Trajectories,
        columns: Sequence[str],
        errors: Sequence[np.ndarray] | Noise | None,
    ) -> list[np.ndarray]:
        """Coordinates that growing weights of the dynamics lead to, where hidden states are hard to find.

        None where runs begin before their samples, have events or know their first states, where the
        equations hold the time, or where observables are measured at times of their own.
        """
        symbols = {s.name for e in (*problem.equations, *problem.seen) for s in e.free_symbols}
        plain = all(not run.events and run.begin == run.times[0] for run in problem.runs)
        complete = all(np.isfinite(x).all() for _, x in trajectories.arrays())
        many = int(np.sum(trajectories.n_obs)) > MANY
        if TIME in symbols or not plain or not complete or many or len(problem.seen) > len(columns):
            return []
        if any(len(run.times) < 2 or any(f is not None for f in run.first) for run in problem.runs):
            return []
        names = [*problem.states, *problem.inputs]
        fixed = {_symbol(name): value for name, value in problem.fixed.items()}
        own = {_symbol(name): _symbol(f"x{k}") for k, name in enumerate(names)}
        equations, seen = (
            tuple(e.xreplace(fixed).xreplace(own) for e in part) for part in (problem.equations, problem.seen)
        )
        given = Given(problem.states, problem.inputs, equations, tuple(map(str, seen)))
        observations = observe(
            complete_samples(trajectories, self._caller, 2),
            inputs=complete_inputs(trajectories, self._caller),
        )
        if isinstance(errors, Noise):
            observations = observations.counted()
        elif errors is not None:
            observations = observations.measured(complete_errors(errors, trajectories))
        start = {k: v for k, v in dict(self.start or {}).items() if k in {*given.names, *problem.states}}
        try:
            found = given.fit(self._caller, trajectories, observations, assumed(errors), start)
        except ValueError:  # nowhere finite in steps of one length
            return []
        begun = [path[0] for path in found.paths]
        natural = [found.parameters.get(p.name, p.start or p.size) for p in problem.parameters]
        natural += [float(v) for first in begun for v in first]
        space = problem.space
        return [space.inside(space.coordinates(np.array(natural)))]

    def _field(
        self,
        described: Description,
        trajectories: Trajectories,
        summary: Summary,
        report: dict[str, Any],
        errors: Any,
    ) -> VectorField:
        """The right-hand sides at the fitted parameters; the time is an input of its own."""
        problem = described.problem
        symbols = {s.name for e in described.equations for s in e.free_symbols}
        clock = _clock({*problem.states, *problem.inputs, *problem.names}) if TIME in symbols else None
        driven = [*problem.inputs, *([] if clock is None else [clock])]
        names = sorted(symbols - {*problem.states, *driven, TIME})
        parameters = {name: summary.parameters[name] for name in names}
        covariance = summary.covariance_of(names)
        full = tuple(described.columns) == tuple(problem.states) and described.shown is not None
        observed = full and clock is None
        context = trajectories if observed else _states(problem, trajectories, summary, driven)
        equations = described.equations
        if clock is not None:
            equations = tuple(e.xreplace({_symbol(TIME): _symbol(clock)}) for e in equations)
            report["clock"] = clock
        info = FitInfo(
            initial_states=summary.initial_states,
            noise_level=summary.noise_level if full else None,
            report=report,
            inference=_facts(summary, errors),
            **summary.quality,
        )
        if driven:
            return DrivenExpressions(
                equations, parameters, covariance, input_names=driven, context=context, fit_info=info
            )
        return SymbolicField(equations, parameters, covariance, context=context, fit_info=info)

    def _adopt(self, field: VectorField, trajectories: Trajectories) -> None:
        super()._adopt(field, trajectories)
        self.feature_names = list(field.state_names)
        self.n_features_in_ = field.dim

    def _compared(self, field: VectorField, trajectories: Trajectories) -> FitInfo:
        quality = dict(field.fit_info.report["quality"])
        return replace(field.fit_info, **quality | {"problems": tuple(quality["problems"])})

    def _warn_of_problems(self, method: str) -> None:
        super()._warn_of_problems(method)
        report = self.field_.fit_info.report
        for note in report.get("notes", ()):
            warn(f"{self._caller}.{method}: {note}.", DataWarning)
        if report["status"] != "converged":
            warn(
                f"{self._caller}.{method}: the best search ended without convergence ({report['status']}); "
                "other starts, bounds or units may help.",
                FitWarning,
            )
        for doubt in report.get("doubts", ()):
            warn(f"{self._caller}.{method}: {doubt}.", FitWarning)
        unknown = self.field_.fit_info.inference.undetermined
        if unknown:
            warn(
                f"{self._caller}.{method}: the data do not determine {', '.join(unknown)}; other values "
                "would fit as well. Give some of them as numbers, or observe more states.",
                DataWarning,
            )
        for kind, said in (
            ("at_bounds", "at their bounds: {}."),
            ("run_away", "beyond a million times their natural size: {}; the data may not determine them."),
            ("alternatives", "another minimum fits as well: {}."),
        ):
            if report.get(kind):
                warn(f"{self._caller}.{method}: {said.format(', '.join(report[kind]))}", DataWarning)

    # ------------------------------------------------------------------ answers

    @property
    def parameters_(self) -> dict[str, float]:
        """Everything that was estimated, first states too, by name."""
        return dict(self._fitted_field().fit_info.report["estimates"])

    @property
    def parameter_errors_(self) -> dict[str, float]:
        """Standard errors of `parameters_`."""
        return dict(self._fitted_field().fit_info.report["errors"])

    @property
    def fit_(self) -> Fit:
        """All searches; of a model that was read from a folder, one from where it ended."""
        report = self._fitted_field().fit_info.report
        if self._fit is None:
            curves = (
                [InputCurve(*map(np.array, own)) for own in report["curves"]] if "curves" in report else None
            )
            described = self._described(
                self.context_,
                report["states"],
                report["observed"],
                self._sigma,
                curves,
                report["hold"] or None,
            )
            problem = described.problem
            if report["pieces"] == len(problem.runs) and len(report["estimates"]) == len(problem.space):
                start = problem.space.coordinates(
                    np.array([report["estimates"][n] for n in problem.space.names])
                )
                fit = refined(None, problem, [start])
            else:
                fit = fit_problem(problem, described.shown, self.n_starts, self.seed)
            assert fit is not None  # it was fitted before
            self._fit = fit
        return self._fit

    def profile(self, name: str, levels: Sequence[float] = LEVELS) -> Profile:
        """The likelihood profile of one estimated number, all others fitted again at each of its values.

        Parameters
        ----------
        name : str
            One of `parameters_`.
        levels : sequence of float
            Of the intervals.

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
            The profile met a better minimum than the fit.
        """
        found = profile(self.fit_, name, tuple(levels))
        if found.lower:
            warn(
                f"{self._caller}.profile: a minimum better by {found.lower:.2g} log-likelihood units than "
                "the fit; fit again with more n_starts.",
                FitWarning,
            )
        return found

    def profiles(
        self, names: Sequence[str] | None = None, levels: Sequence[float] = LEVELS
    ) -> dict[str, Profile]:
        """Likelihood profiles of several numbers, by name.

        Parameters
        ----------
        names : sequence of str, optional
            Default all parameters; first states are profiled where they are named.
        levels : sequence of float
            Of the intervals.
        """
        own = [p.name for p in self.fit_.problem.parameters] if names is None else list(names)
        return {name: self.profile(name, levels) for name in own}

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
        levels: Sequence[float] = LEVELS,
        n: int = 200,
        seed: int = 0,
    ) -> xr.Dataset:
        """Intervals of whatever follows from the equations: a rate, a fixed point, a period, a bifurcation.

        Parameters
        ----------
        quantity : callable
            ``quantity(field) -> number or array``, of one shape; NaN, or a ValueError, where there is none.
        levels : sequence of float
            Of the intervals.
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
        self._warn_of_path(caller, x0, times)
        asked = (interpolator, integrator_kws, interpolator_kws) != (None, None, None)
        if asked or integrator != "solve_ivp" or times.ndim != 1 or not (np.diff(times) > 0).all():
            return super().simulate(x0, t, u, integrator, interpolator, integrator_kws, interpolator_kws)
        report = field.fit_info.report
        return simulated(caller, field, x0, times, u, report.get("hold"), report.get("clock"))

    def _warn_of_path(self, caller: str, x0: ArrayLike | Trajectories, t: ArrayLike) -> None:
        """Warn of doses and events within the times of a path, which follows the equations alone."""
        times = real_array(t, caller, "t").ravel()
        spans = [(times.min(), times.max())] if times.size else []
        if isinstance(x0, Trajectories) and spans:
            spans = [(own[-1], own[-1] + times.max()) for own, _ in x0.arrays()]
        met = sorted({at for at in self._change_times() for low, high in spans if low <= at < high})
        if met:
            warn(
                f"{caller}: doses and events of the fit are not repeated, but lie within these times, at "
                f"{', '.join(f'{at:g}' for at in met)}; go from one to the next and change the state there.",
                SimulationWarning,
            )

    def _change_times(self) -> list[float]:
        """Times of the doses and events of all trajectories."""
        n = len(self.context_)
        entries = [*dose_lists(self._caller, self.doses, n), *event_lists(self._caller, self.events, n)]
        return [time for own in entries for time, _, _ in own]

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


def _poor(described: Description, fit: Fit | None) -> bool:
    """Whether a fit leaves more than the noise."""
    return fit is None or summarise(described, fit).quality["residual_over_noise"] > _NOTICED


def _doubts(described: Description, fit: Fit, summary: Summary) -> list[str]:
    """Why a better minimum may exist, where whole paths were fitted and leave more than the noise."""
    if fit.problem is not described.problem or fit.descent.outcome is not Outcome.CONVERGED:
        return []
    return [] if summary.quality["residual_over_noise"] < _AS_NOISE else list(fit.doubts)


def _facts(summary: Summary, errors: Sequence[np.ndarray] | Noise | None) -> Inference:
    """The facts of the fit."""
    noise = errors if isinstance(errors, Noise) else (Noise.ESTIMATED if errors is None else Noise.GIVEN)
    unknown = summary.undetermined
    facts = Inference(noise=noise, undetermined=unknown)
    return facts.noting(f"the data do not determine {', '.join(unknown)}") if unknown else facts


def _symbol(name: str) -> Any:
    import sympy

    return sympy.Symbol(name, real=True)


def _clock(taken: set[str]) -> str:
    """Name of the time as an input of a field: a name of its own, which no other number has."""
    name = "time"
    while name in taken:
        name += "_"
    return name


def _states(problem: Problem, data: Trajectories, summary: Summary, driven: Sequence[str]) -> Trajectories:
    """Fitted states at the samples, with inputs, and the time where it is one."""
    inputs = None
    if driven:
        inputs = [
            np.column_stack([own, t]) if len(driven) > own.shape[1] else own
            for own, (t, _) in zip(data.input_arrays(), data.arrays(), strict=True)
        ]
    units = {name: unit for name, unit in data.units.items() if name in {*problem.states, TIME}}
    return Trajectories.from_arrays(
        summary.states,
        [t for t, _ in data.arrays()],
        state_names=problem.states,
        coords=data.coords,
        units=units,
        u=inputs,
        input_names=driven or None,
    )


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
    named = {_symbol(f"x{k}"): _symbol(TIME if name == clock else name) for k, name in enumerate(every)}
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
