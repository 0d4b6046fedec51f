"""Known equations: their parameters fitted to trajectories."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.errors import (
    DataWarning,
    FitWarning,
    check_whole,
    known_arguments,
    real_array,
    warn,
)
from fim_dynsys.estimation.aliases import turns_between_samples
from fim_dynsys.estimation.curves import function_curve
from fim_dynsys.estimation.descent import Outcome
from fim_dynsys.estimation.description import Description, describe
from fim_dynsys.estimation.experiments import InputCurve
from fim_dynsys.estimation.facts import negative_states, with_facts
from fim_dynsys.estimation.fits import (
    Fit,
    fit_problem,
    held_at_zero,
    is_better,
    is_slower,
    refined,
    restarted,
    with_switches_moved,
    without_named_starts,
)
from fim_dynsys.estimation.frequencies import frequencies_of, with_frequencies_tried
from fim_dynsys.estimation.happenings import read_begins
from fim_dynsys.estimation.known import Known
from fim_dynsys.estimation.summary import Summary, larger_errors, summarise
from fim_dynsys.estimation.switches import timing
from fim_dynsys.estimation.valleys import with_valley_followed
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.inference import Noise
from fim_dynsys.models.equations_parts import fitted_field, grown, names_of, ordered, with_known_coordinates
from fim_dynsys.models.estimated import EstimatedModel
from fim_dynsys.models.inputs import (
    Errors,
    Observations,
    Times,
    as_trajectories,
    error_list,
    held,
    with_error_columns,
)
from fim_dynsys.models.relative import checked_names
from fim_dynsys.regions import default_names
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.threads import on_one_thread
from fim_dynsys.trajectories.container import Trajectories

_OTHERS = 6  # searches without named starts for a slower solution, of a fit that is no worse for these
_NOTICED = 2.0  # noise levels that are left: other starts are looked for
_AS_NOISE = 1.15  # noise levels that are left: no other minimum can be much better


class EquationsModel(EstimatedModel):
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
        parameters and of the time ``t``: ``{"s": "-b*s*i", "i": "b*s*i - g*i"}``. A parameter with the name
        of a coordinate of the data is known in each trajectory. See `fim_dynsys.fields.expressions.parse` for
        what they may hold.
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
        ``{time: {"state": value}}``: what a state is set to, before doses at the same time; a share of the
        state may be part of it, as in ``{6.0: {"N": "N/4"}}``.
    noise : str, tuple or dict by column, optional
        ``"normal"``, ``"lognormal"``, ``"relative"``, ``"laplace"``, ``"poisson"``; with a scale as
        ``("normal", "a + b*y")``, an expression in states and parameters. Default normal, of one unknown
        standard deviation for each column.
    observed : list of str, optional
        What the columns of the data are, see `fit`.
    hold : str or dict by input, optional
        What sampled inputs do between samples: ``"previous"``, ``"linear"``, ``"smooth"`` or ``"pieces"``.
        Default as recognised, see `fim_dynsys.regression.inputs.curves`.
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
    version = "2"
    min_observations = 2
    takes = frozenset({"missing", "inputs", "sigma"})
    _log: dict[str, Any] | None = None  # noise by column, where `fit` was given logarithms
    _coordinates: tuple[
        str, ...
    ] = ()  # of the data, which the equations name: known constants of each record

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

    @known_arguments
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
        log: Sequence[str] | None = None,
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
            Names of the states, or beside `observed` of the columns, and of the inputs or not; default those
            of the expressions or of `x`.
        sigma : float, array (m,), dict by column, arrays of the shapes of `x`, or "poisson"
            Known standard deviations of the observations, or that they are counts. Samples of infinite ones
            count as not observed.
        log : list of str, optional
            Columns with positive values whose logarithms scatter: ``noise="lognormal"`` of these.
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
            The data do not determine some parameters, or only roughly, or some are at their bounds or run
            away; another minimum fits about as well; residuals are beyond the errors that were given; a
            column was computed from others.
        """
        caller = f"{self._caller}.fit"
        if x_dot is not None or forcing is not None or time or order != 1:
            raise ValueError(
                f"{caller}: expected neither x_dot, forcing, time nor order, got one; write sin(omega*t), or "
                "an equation for each velocity, and fit to the samples with observed=[...]."
            )
        observed = self.observed if observed is None else observed
        x, sigma = with_error_columns(x, sigma)
        states, columns, names = names_of(caller, self.expressions, x, observed, feature_names)
        curve: Callable[[float], ArrayLike] | None = u if callable(u) else None
        trajectories = as_trajectories(x, t, names, u, switches=False, integrated=True)
        if names is None and columns is None and not isinstance(x, Trajectories):
            found = tuple(trajectories.state_names)
            keys = [*map(str, self.expressions)] if isinstance(self.expressions, Mapping) else []
            if len(keys) == len(found) and found == default_names(len(found)) and set(keys) != set(found):
                trajectories = as_trajectories(x, t, keys, u, switches=False, integrated=True)
        if observed is None and feature_names is None and columns is None:
            columns = tuple(trajectories.state_names)
        states = tuple(trajectories.state_names) if states is None else states
        columns = tuple(trajectories.state_names) if columns is None else columns
        errors = None if sigma is None else error_list(caller, sigma, trajectories)
        self.check_context(trajectories)
        self._log = self._lognormal(caller, log, columns, trajectories, sigma)
        trajectories = self._with_known_coordinates(caller, trajectories, states, columns)
        word = self.hold if hold is None else hold
        if isinstance(word, str) and trajectories.input_names:
            trajectories = trajectories.with_hold(word)  # which scores and plots of these data follow too
        curves = None if curve is None else self._function_curves(caller, curve, trajectories)
        with np.errstate(all="ignore"):
            field = self._estimated(trajectories, states, columns, errors, curves, hold)
            if curves is None and isinstance(field, DrivenField) and isinstance(word, str | None):
                notes = held(self._caller, trajectories, field)
                field = field.with_fit_info(inference=field.fit_info.inference.noting(*notes))
        self._sigma = errors
        self._adopt(field, trajectories)
        self._warn_of_problems("fit")
        self._warn_of_wrapped_angles(trajectories)
        self._warn_of_computed_columns(trajectories)
        return self

    @on_one_thread
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
        states, columns, _ = names_of(self._caller, self.expressions, trajectories, self.observed, None)
        names = tuple(trajectories.state_names)
        states, columns = states or names, columns or names
        model = type(self)(**self.get_params(deep=False))
        trajectories = model._with_known_coordinates(self._caller, trajectories, states, columns)
        return model._estimated(trajectories, states, columns, sigma, None, None)

    def _with_known_coordinates(
        self, caller: str, trajectories: Trajectories, states: Sequence[str], columns: Sequence[str]
    ) -> Trajectories:
        """The records with coordinates in the equations as inputs; see `with_known_coordinates`."""
        written = [column for column in columns if column not in states]
        found, self._coordinates = with_known_coordinates(
            caller, trajectories, states, self._known(None), self.expressions, written
        )
        return found

    def _lognormal(
        self,
        caller: str,
        log: Sequence[str] | None,
        columns: Sequence[str],
        trajectories: Trajectories,
        sigma: Errors | None,
    ) -> dict[str, Any] | None:
        """The noise by column where logarithms of some are fitted."""
        if log is None:
            return None
        if sigma is not None:
            raise ValueError(
                f"{caller}: expected log without sigma, got both; errors are either given or relative."
            )
        chosen = dict(zip(trajectories.state_names, columns, strict=True))
        names = [chosen[name] for name in checked_names(caller, log, trajectories)]
        noise = dict(self.noise) if isinstance(self.noise, Mapping) else dict.fromkeys(columns, self.noise)
        both = [name for name in names if noise.get(name) is not None]
        if both:
            raise ValueError(
                f"{caller}: expected either log or noise of {', '.join(both)}, got both; leave one out."
            )
        return noise | dict.fromkeys(names, "lognormal")

    def _function_curves(
        self, caller: str, u: Callable[[float], ArrayLike], trajectories: Trajectories
    ) -> list[InputCurve]:
        """A function of time as cubics over each trajectory."""

        def values(t: np.ndarray) -> np.ndarray:
            return real_array([u(float(s)) for s in t], caller, "u(t)").reshape(len(t), -1)

        def beside(known: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
            return lambda t: np.column_stack([values(t), np.tile(known, (len(t), 1))])

        times = [t for t, _ in trajectories.arrays()]
        begins, _ = read_begins(caller, self.t0, times, self.doses, self.events, self.initial)
        own = len([name for name in trajectories.input_names if name not in self._coordinates])
        return [
            function_curve(beside(rows[0, own:]), begin, float(t[-1]))
            for t, begin, rows in zip(times, begins, trajectories.input_arrays(), strict=True)
        ]

    def _known(self, hold: Any) -> Known:
        """What is known beside the equations."""
        return Known(
            self.bounds,
            self.fixed,
            self.scale,
            self.priors,
            self.start,
            self.initial,
            self.t0,
            self.doses,
            self.events,
            self._log or self.noise,
            self.hold if hold is None else hold,
        )

    def _described(
        self,
        trajectories: Trajectories,
        states: Sequence[str],
        columns: Sequence[str],
        errors: Sequence[np.ndarray] | Noise | None,
        curves: Sequence[InputCurve] | None,
        hold: Any,
    ) -> Description:
        sigma = None if errors is None or isinstance(errors, Noise) else errors
        rates, facts = ordered(self._caller, self.expressions, states), Knowledge.of(self.knowledge)
        known = with_facts(self._caller, facts, rates, states, self._known(hold))
        return describe(
            self._caller,
            rates,
            states,
            columns,
            trajectories,
            known,
            sigma,
            errors is Noise.POISSON,
            curves,
            self._coordinates,
        )

    def _with_times_of_whole_runs(
        self, described: Description, fit: Fit, summary: Summary, tried: Callable[[Fit], Fit]
    ) -> tuple[Fit, Summary]:
        """A fit by pieces, which say little of times, or of whole runs where its paths come nearer."""
        whole = fit_problem(described.problem, None, self.n_starts, self.seed)
        if whole is None:
            return fit, summary
        whole = tried(whole)
        again = summarise(described, whole)
        nearer = again.quality["path_r2"] > summary.quality["path_r2"]
        return (whole, again) if nearer else (fit, summary)

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
        switches = timing(described.equations, problem.fixed)
        frequencies = frequencies_of((*described.equations, *problem.seen), problem.fixed)

        def with_times_tried(fit: Fit) -> Fit:
            return with_frequencies_tried(with_switches_moved(fit, switches), frequencies)

        fit = fit_problem(problem, described.shown, self.n_starts, self.seed)
        if fit is not None and fit.problem is problem:
            fit = with_valley_followed(with_times_tried(fit))
        summary = None if fit is None else summarise(described, fit)
        if described.shown is None and (summary is None or _is_poor(summary)):
            starts = grown(self._caller, problem, trajectories, columns, errors, self.start)
            better = refined(fit, problem, starts)
            if better is not None and better is not fit:
                fit, summary = better, summarise(described, better)
        timed = bool(switches or frequencies)
        if fit is not None and summary is not None and timed and fit.problem is not problem:
            fit, summary = self._with_times_of_whole_runs(described, fit, summary, with_times_tried)
        if summary is not None and _is_doubtful(summary):
            better = restarted(fit, problem, described.shown, self.n_starts, self.seed)
            again = None if better is None else summarise(described, better)
            if again is not None and _rank(again) < _rank(summary):
                fit, summary = better, again
        if fit is None or summary is None:
            names = ", ".join(problem.space.names) or "no parameters"
            logs = [
                name
                for name, o in zip(columns, problem.objective.observables, strict=False)
                if o.errors.of_logarithm
            ]
            positive = f" and give {', '.join(logs)} positive at each sample" if logs else ""
            remedy = " A state that begins at 0 begins before its first sample: give t0=." if logs else ""
            if any(o.scale_at >= 0 for o in problem.observables):
                remedy += " Errors need a scale above 0 at each sample, as noise=('normal', 'a + b*y') has."
            raise ValueError(
                f"{self._caller}: expected equations that can be integrated for some values of {names}"
                f"{positive}, got none; give start={{name: value}} or bounds.{remedy}"
            )
        turns, slower, doubtful = 0.0, None, _is_doubtful(summary)
        if problem.has_named_starts:  # which may have led astray
            turns = turns_between_samples(fit.problem, fit.descent.theta, frequencies)
        if problem.has_named_starts and (turns or doubtful):
            n_starts = self.n_starts if doubtful else min(self.n_starts, _OTHERS)
            other = without_named_starts(problem, described.shown, n_starts, self.seed)
            if other is not None and np.isfinite(other.descent.value):
                if fit.problem is not problem:  # of pieces, whose objective is another one
                    again = summarise(described, other)
                    fit, summary = (other, again) if _rank(again) < _rank(summary) else (fit, summary)
                elif is_better(problem, other.descent, fit.descent):
                    fit, summary = other, summarise(described, other)
                elif is_slower(fit, other):
                    slower = other
        if fit.problem is problem and (at_zero := held_at_zero(fit)) is not fit:
            fit, described = at_zero, replace(described, problem=at_zero.problem)
            summary = summarise(described, fit)
        self._fit = fit
        report = summary.report() | {
            "chosen": "given expressions",
            "states": list(states),
            "observed": list(columns),
            "changes": sorted({float(event.time) for run in problem.runs for event in run.events}),
            "hold": described.holds,
            "lognormal": self._log,
            "coordinates": list(self._coordinates),
            "notes": [
                *described.notes,
                *negative_states(Knowledge.of(self.knowledge), states, summary.states),
            ],
            "doubts": _doubts(described, fit, summary),
        }
        report["notes"] += larger_errors(fit)
        if turns and slower is not None:
            values = zip(slower.space.names, slower.natural, strict=True)
            shown = ", ".join(f"{name} = {value:.3g}" for name, value in values)
            report["notes"].append(
                f"the solution turns back {turns:.1f} times between samples, which cannot show it: a slower "
                f"one fits as well ({shown}); give its values as start if that is meant"
            )
        if curves is not None:
            report["curves"] = [[c.starts.tolist(), c.cubics.tolist()] for c in curves]
        field = fitted_field(described, trajectories, summary, report, errors)
        said = []
        if self._coordinates:
            said.append(f"{', '.join(self._coordinates)} taken as known: coordinates of the trajectories")
        if fit.n_pieces > len(trajectories):
            said.append(f"fitted in {fit.n_pieces} pieces, each from first states of its own")
        return field.with_fit_info(inference=field.fit_info.inference.noting(*said)) if said else field

    def _adopt(self, field: VectorField, trajectories: Trajectories) -> None:
        super()._adopt(field, trajectories)
        self._log = field.fit_info.report.get("lognormal")
        self._coordinates = tuple(field.fit_info.report.get("coordinates", ()))
        self.feature_names = list(field.state_names)
        self.n_features_in_ = field.dim

    def _given_errors(self) -> str:
        counts = self.fit_.problem.objective.counts.any()
        return "Poisson counts have" if counts else super()._given_errors()

    def _compared(self, field: VectorField, trajectories: Trajectories) -> FitInfo:
        quality = dict(field.fit_info.report["quality"])
        return replace(field.fit_info, **quality | {"problems": tuple(quality["problems"])})

    def _warn_of_problems(self, method: str) -> None:
        super()._warn_of_problems(method)
        report = self.field_.fit_info.report
        unknown = self.field_.fit_info.inference.undetermined
        if unknown:  # the cause of searches that do not end, and before these
            warn(
                f"{self._caller}.{method}: the data do not determine {', '.join(unknown)}; other values "
                "would fit as well. Give some of them as numbers, or observe more states.",
                DataWarning,
            )
        for note in report.get("notes", ()):
            warn(f"{self._caller}.{method}: {note}.", DataWarning)
        if report["status"] != "converged":
            warn(
                f"{self._caller}.{method}: the best search ended without convergence ({report['status']}); "
                "other starts, bounds or units may help.",
                FitWarning,
            )
        if report.get("missed") and not self.field_.fit_info.problems:
            warn(
                f"{self._caller}.{method}: the equations miss {', '.join(report['missed'])}, which is more "
                "than noise: residuals follow each other. Standard errors do not count it; change the "
                "equations, or free more parameters.",
                FitWarning,
            )
        for doubt in report.get("doubts", ()):
            warn(f"{self._caller}.{method}: {doubt}.", FitWarning)
        for kind, said in (
            ("rough", "known only roughly: {}; profile() gives intervals."),
            ("at_bounds", "at their bounds: {}."),
            ("run_away", "beyond a million times their natural size: {}; the data may not determine them."),
            ("alternatives", "another minimum fits about as well: {}; bounds choose between them."),
            (
                "uneven",
                "residuals grow with the values of {}: standard errors may be too small. Pass sigma, arrays "
                "of the errors or 'poisson' for counts, or log=[names] where errors are relative.",
            ),
            (
                "unequal",
                "the noise differs between experiments: {}. Standard errors take one for all and are too "
                "small or too large: pass sigma, an array of the errors for each.",
            ),
        ):
            if report.get(kind):
                warn(f"{self._caller}.{method}: {said.format(', '.join(report[kind]))}", DataWarning)


def _is_poor(summary: Summary) -> bool:
    """Whether a fit leaves more than the noise."""
    return _left(summary) > _NOTICED


def _is_doubtful(summary: Summary) -> bool:
    """Whether a fit leaves more than the noise, gets lost along the record or did not converge.

    Pieces of noisy records leave no more than the noise with wrong parameters too.
    """
    stopped = summary.fit.descent.outcome is not Outcome.CONVERGED
    return _is_poor(summary) or stopped or bool(summary.quality["problems"])


def _rank(summary: Summary) -> tuple[bool, float]:
    """What of two fits is the better one: smaller."""
    return _is_doubtful(summary), _left(summary)


def _left(summary: Summary) -> float:
    """What a fit leaves, in noise levels."""
    return float(summary.quality["residual_over_noise"])


def _doubts(described: Description, fit: Fit, summary: Summary) -> list[str]:
    """Why a better minimum may exist, where whole paths were fitted and leave more than the noise."""
    if fit.problem is not described.problem or fit.descent.outcome is not Outcome.CONVERGED:
        return []
    return [] if _left(summary) < _AS_NOISE else list(fit.doubts)
