"""Models: what every inference method is to its users, pysindy's call surface included.

Longer than five hundred lines: it is the contract of a model, and half of it says what its methods take and
raise.
"""

from __future__ import annotations

import abc
import enum
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fim_dynsys.analyze.results import PATIENCE, progress_bar
from fim_dynsys.deadline import Deadline
from fim_dynsys.delta import Delta, arrays_digest
from fim_dynsys.distillation import Distillation
from fim_dynsys.errors import (
    DataWarning,
    FitWarning,
    IgnoredInputWarning,
    known_arguments,
    warn,
    warn_of_rename,
)
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.forced import ForcedField, omegas_of
from fim_dynsys.fields.frame import OPEN, FitInfo
from fim_dynsys.fields.inference import Inference, Judge, Noise, Trust
from fim_dynsys.fields.residual import ResidualField
from fim_dynsys.models.computed_columns import computed_columns
from fim_dynsys.models.constraints_applied import contradictions
from fim_dynsys.models.driving import InputFunction
from fim_dynsys.models.finetuning.residual import Tuned, refitted, tune_residual
from fim_dynsys.models.fit_quality import compared
from fim_dynsys.models.fitted import FittedModel
from fim_dynsys.models.forcing import forced
from fim_dynsys.models.inputs import (
    Errors,
    Observations,
    Times,
    as_trajectories,
    check_magnitudes,
    check_step,
    derivative_list,
    error_list,
    held,
    kept_errors,
    read_errors,
    with_error_columns,
    without_unknown,
)
from fim_dynsys.models.members import bootstrap_context, bootstrap_weighed, bounded_members, check_members
from fim_dynsys.models.outliers import samples_of, suspects, wrapped_angles
from fim_dynsys.models.rates import (
    check_rates,
    confirmed_by_rates,
    in_other_units,
    informed_by_rates,
    of_rates_alone,
)
from fim_dynsys.models.related_inputs import related_inputs
from fim_dynsys.models.relative import checked_names, over_decades, relative_errors
from fim_dynsys.models.scarcity import noting_few_samples, noting_gaps, scarcity
from fim_dynsys.models.second_order import with_velocities
from fim_dynsys.models.trust import Rivals, deviation_by_errors, deviation_elsewhere, together
from fim_dynsys.models.unseen_switches import Intervals, stretches
from fim_dynsys.regression.criteria import Known
from fim_dynsys.saved import (
    FIELD_CLASSES,
    KeptField,
    SavedModel,
    field_arrays,
    field_from_arrays,
    with_residual,
)
from fim_dynsys.threads import on_one_thread
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.holding import Hold
from fim_dynsys.trajectories.reading.suspects import codes_in
from fim_dynsys.wording import counted, plain

if TYPE_CHECKING:
    from tqdm import tqdm


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
    kind: ModelKind

    @property
    def version(self) -> str:
        """Changes whenever the output does."""
        return "1"

    @abc.abstractmethod
    def fit(self, x: Observations, t: Times = None) -> Self:
        """Learn from observations `x` at times `t`; returns the model itself."""

    @abc.abstractmethod
    def forecast(self, x0: ArrayLike, t: ArrayLike) -> Trajectories:
        """Continue from the states `x0` (d,) or (n, d) to the times `t` (m,) or (n, m)."""


_WITHOUT_NOISE = 0.5  # noise levels left, below which the level is that of curvature: noise leaves about 1
_NAMED = 5  # outliers whose times are named
_TOO_SMALL = 2.0  # times given errors that residuals are, from which standard errors are too small by half
_EARLIER = {
    "uses_inputs": "inputs",
    "uses_x_dot": "x_dot",
    "weighs_x_dot": "rates",
    "uses_sigma": "sigma",
    "uses_order": "positions",
    "accepts_missing": "missing",
}
"""Attributes of classes that said what one of `VectorFieldModel.takes` says."""


class VectorFieldModel(FittedModel, TrajectoryModel):
    """A model that infers a vector field: scikit-learn estimator with the call surface of pysindy.SINDy.

    A subclass writes `infer(trajectories) -> VectorField`, a pure function of its parameters and the
    trajectories, and states its limits in class attributes:

    name, version : str
        Registry name, and a version that changes whenever the output does.
    min_observations : int
        Fewest observed points (all trajectories together) it can work with.
    max_dim : int or None
        Largest dimension of the state, None for no limit.
    takes : frozenset of str
        What `fit` may be given beside samples and times: "inputs" `u`, its field then being a `DrivenField`;
        "x_dot", where ``infer(trajectories, x_dot=[...])`` makes use of given derivatives, one array (n_i, d)
        for each trajectory; "rates", where `fit` weighs these against the trajectories after an inference
        without them, as searches for equations have it (other models never see them: a warning says that
        they had no effect); "sigma", where ``infer(trajectories, sigma=[...])`` makes use of known errors,
        one array (n_i, d) for each trajectory; "positions", where second-order equations are inferred from
        these alone: ``infer(trajectories, positions=[...])`` then receives the observed states, the others
        being velocities; "missing", where single missing coordinates are used: otherwise only complete
        points are counted; "switches", where gaps between samples are left out in which inputs switch.
    scale_equivariance : float or None
        Relative accuracy to which the units of states and time do not matter, where that is promised.
    field_classes : tuple of type
        Classes of its fields, beyond the package's own, that a saved model holds as arrays; see
        `fim_dynsys.saved.KeptField`. Fields of other classes are inferred again from the context.

    Where several contexts can be encoded at once, it overrides `infer_many`; where a bootstrap member
    costs less than a fresh inference, `_refit_member`. After `fit`, `field_` is the inferred field,
    `context_` the trajectories it was inferred from.
    """

    min_observations: int = 4
    takes: frozenset[str] = frozenset()
    scale_equivariance: float | None = None
    field_classes: tuple[type[KeptField], ...] = ()
    kind = ModelKind.FIELD
    history_: pd.DataFrame
    _sigma: Known | None = None  # of the context, as given to `fit`
    _remedy = "more or better samples, another model or other states"  # where a field does not fit

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        for old, new in _EARLIER.items():
            if old in vars(cls):
                warn_of_rename(cls.__name__, old, f'"{new}" in takes', 4)  # the metaclass is between
                cls.takes = cls.takes | {new} if vars(cls)[old] else cls.takes - {new}

    @property
    def max_dim(self) -> int | None:
        """Largest dimension of the state, None for no limit."""
        return None

    # ------------------------------------------------------------------ to be written by models

    @abc.abstractmethod
    def infer(self, trajectories: Trajectories) -> VectorField:
        """Infer the field behind `trajectories`, leaving the model itself as it is."""

    @property
    def _fits_without_still_states(self) -> bool:
        """Whether states that never change take no part in the equations of others."""
        return False

    def infer_many(self, contexts: Sequence[Trajectories]) -> list[VectorField]:
        """Infer one field for each element of `contexts`, a list of Trajectories."""
        return [self.infer(context) for context in contexts]

    def _infer_to_keep(self, trajectories: Trajectories, **given: Any) -> VectorField:
        """What `fit` calls: `infer`, unless the fitted model keeps more of it than the field."""
        return self.infer(trajectories, **given)

    def _refit_member(self, field: VectorField, context: Trajectories) -> VectorField:
        """Infer one bootstrap member; `field` is the fit on all the data, whose choices may be kept."""
        return self.infer(context)

    def _refit_weighed(self, field: VectorField, context: Trajectories, sigma: Known | None) -> VectorField:
        """`_refit_member` where the errors of the observations are known."""
        given: dict[str, Any] = {"sigma": sigma}
        return self.infer(context, **given)

    def _refit_members(self, field: VectorField, contexts: Iterable[Trajectories]) -> list[VectorField]:
        """Infer all bootstrap members; one that infers in batches returns ``infer_many(list(contexts))``."""
        return [self._refit_member(field, context) for context in contexts]

    def differentiate(self, x: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Derivatives (n, d) of samples `x` (n, d) at times `t` (n,), against which `score` compares.

        Second-order differences, centred inside and one-sided at the ends, as pysindy's default
        FiniteDifference; rows with missing values, and their neighbours, come out NaN.
        """
        return np.gradient(x, t, axis=0, edge_order=2)

    # ------------------------------------------------------------------ fitting

    @known_arguments
    @on_one_thread
    def fit(
        self,
        x: Observations,
        t: Times = None,
        x_dot: ArrayLike | Sequence[ArrayLike] | None = None,
        u: ArrayLike | Sequence[ArrayLike] | InputFunction | None = None,
        feature_names: Sequence[str] | None = None,
        *,
        forcing: Mapping[str, Any] | None = None,
        time: bool = False,
        order: int = 1,
        sigma: Errors | None = None,
        log: Sequence[str] | None = None,
        observed: Sequence[str] | None = None,
        hold: Hold | str = Hold.AUTO,
    ) -> Self:
        """Infer the vector field from observations.

        Parameters
        ----------
        x : array (n, d) or (n,), list of such arrays, Trajectories, Dataset, DataFrame or DataArray
            Observations. A list holds one array for each trajectory, of equal or unequal length.
        t : float, array (n,) or list of arrays
            Time step, times, or times of each trajectory. Left out where `x` carries its times.
        x_dot : array or list of arrays, optional
            Measured derivatives, of the shapes of `x`; NaN where there are none. Terms and coefficients are
            those that the trajectories and the rates support together, each by their errors, which are
            estimated. At single states, which are no trajectories, the rates decide alone. ``sindy``
            regresses them in place of its own.
        u : array (n, m) or (n,), list of such arrays, or function, optional
            Inputs at the samples, or ``u(t)`` (m,) which is evaluated there; for models that take "inputs".
        feature_names : list of str, optional
            Names of the states, and of the inputs or not; default those `x` carries, else x0, x1, ...
        forcing : mapping, optional
            ``{"omega": 2.0}``, or several in a list: angular frequencies whose sine and cosine in t are
            inputs; the field is then a `fim_dynsys.fields.forced.ForcedField`, and ``simulate`` needs no u.
        time : bool
            Whether one such frequency is searched for, as `fim_dynsys.models.forcing.find_omega` does.
        order : int
            2 where `x` are positions whose velocities were not observed: the field is that of x'' = f(x, x'),
            its states the positions and then the velocities, x0_dot and so on. These are fitted with their
            starts; ``context_`` holds the slopes of smoothing splines.
        sigma : float, array (d,), dict by state, array or list of arrays of the shapes of `x`, or "poisson"
            Standard deviations of the observations where they are known: of all, of each state or of each
            sample; for a DataFrame also its columns by state, for a Dataset the name of a variable.
            Samples with infinite ones count as not observed, as do those that exceed a hundred times the
            typical one of their state and a fifth of the sample's distance from the state's median.
            ``"poisson"``: the observations are counts, whose variance is what is expected of them. Default:
            estimated from the data. ``field_.fit_info.report["noise"]`` says which.
        log : list of str, optional
            States with positive samples over decades, whose errors are relative ones: they are smoothed in
            their logarithms, and samples count by their relative errors, which are estimated, as far down as
            a thousandth of a state's root mean square. The equations are those of the states themselves.
        observed : list of str, optional
            For models with given equations of which not all states were observed: what the columns of `x`
            are, each a state or an expression in states, inputs and parameters. `feature_names` are then
            those of the states of the equations, and of the inputs or not.
        hold : {"auto", "previous", "linear", "smooth", "pieces"}
            What inputs do between their samples: keep their value and jump at the next sample, go there along
            a line, follow a smooth curve, or smooth curves from one jump to the next. "auto" tells that from
            the samples of each input, and where u is a function from its values in between; ``print`` says
            what was taken.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Where the data are malformed, too few or of too high a dimension, inputs are given that the
            model does not use, the order is not one that it infers, or it has no use for sigma.
            An earlier fit then stays as it was.

        Warns
        -----
        FitWarning
            The field does not describe the data; `field_.fit_info` says by how much. Or trust in it is low,
            or few samples decide: others may describe them as well.
        DataWarning
            Residuals are far beyond the errors in sigma; samples that may be outliers were counted; values
            span decades with relative errors, which `log` takes; a column is constant, or was computed from
            others; an input is constant, or a linear function of the states; x_dot has another unit.

        Examples
        --------
        >>> import numpy as np
        >>> import fim_dynsys
        >>> t = np.linspace(0.0, 4.0, 41)
        >>> model = fim_dynsys.load("sindy-strong").fit(np.exp(-0.5 * t), t, feature_names=["n"])
        >>> model.equations()
        ['-0.5 n']
        """
        given: dict[str, Any] = {}
        x, sigma = with_error_columns(x, sigma)
        if observed is not None:
            given["observed"], feature_names = self._observed(observed, feature_names)
        at_switches = "missing" in self.takes and sigma is None and x_dot is None
        trajectories = as_trajectories(x, t, feature_names, u, switches=at_switches)
        if Hold.of(f"{self._caller}.fit", hold) != Hold.AUTO:
            trajectories = trajectories.with_hold(hold)
            if not trajectories.input_names:
                warn(f"{self._caller}.fit: no effect of hold; there are no inputs u.", IgnoredInputWarning)
        if forcing is not None or time:
            trajectories = forced(self._caller, trajectories, forcing, time)
        slopes = None if x_dot is None else derivative_list(self._caller, x_dot, trajectories)
        if slopes is not None:
            check_rates(f"{self._caller}.fit", trajectories.state_names, slopes)
        if slopes is not None and "x_dot" in self.takes:
            given["x_dot"] = slopes
        if sigma is not None:
            if "sigma" not in self.takes:
                raise ValueError(
                    f"{self._caller}.fit: expected no sigma, got one; 'fim-ode', 'sindy-strong', 'auto' and "
                    "'symbolic' take it."
                )
            errors = error_list(f"{self._caller}.fit", sigma, trajectories)
            trajectories, given["sigma"] = without_unknown(trajectories, errors)
        relative: dict[str, float] = {}
        if log is not None:
            given["sigma"], relative = self._relative(log, trajectories, sigma, order)
        if order != 1:
            trajectories = self._second_order(trajectories, order, given)
        self.check_context(trajectories)
        self._warn_of_knowledge(trajectories)
        rates, in_conflict = None if "x_dot" in given else slopes, None
        if rates is not None:
            check_step(self._caller, t, rates, trajectories)
            in_conflict = in_other_units(trajectories, rates)
        with np.errstate(all="ignore"):  # what overflows is judged by what comes of it
            field = self._inferred_with(trajectories, rates, given)
            if "switches" in self.takes and at_switches and not given and isinstance(field, DrivenField):
                field, trajectories = self._between_switches(field, trajectories)
            if isinstance(field, DrivenField) and not omegas_of(field.input_names):
                field = field.with_fit_info(
                    inference=field.fit_info.inference.noting(*held(self._caller, trajectories, field))
                )
            if relative:
                levels = ", ".join(f"{name} {100.0 * level:.2g} %" for name, level in relative.items())
                facts = field.fit_info.inference.noting(f"relative errors, estimated: {levels}")
                facts = replace(facts, noise=Noise.ESTIMATED, relative=tuple(relative.items()))
                field = field.with_fit_info(inference=facts)
            self._sigma = given.get("sigma")
            self._adopt(field, trajectories)
            if rates is not None and in_conflict is None:
                self.field_ = self.field_.with_fit_info(confirmed_by_rates(self.field_, trajectories, rates))
        if in_conflict is not None:
            warn(f"{self._caller}.fit: {in_conflict}; give x_dot per unit of t.", DataWarning)
            problems = (in_conflict, *self.field_.fit_info.problems)
            self.field_ = self.field_.with_fit_info(problems=problems)
        self._warn_of_problems("fit")
        self._warn_of_outliers(trajectories)
        self._warn_of_wrapped_angles(trajectories)
        self._warn_of_computed_columns(trajectories)
        self._warn_of_related_inputs(trajectories)
        if "sigma" in self.takes and not given and self.field_.fit_info.to_precision is None:
            self._warn_of_decades(trajectories)
        return self

    def _warn_of_outliers(self, trajectories: Trajectories) -> None:
        info = self._fitted_field().fit_info
        if info.inference.outliers or not (info.problems or info.inference.beyond_noise):
            return
        codes = [
            f"{name} is {code:g} in {counted(rows, 'sample')}"
            for name, values in zip(trajectories.state_names, np.moveaxis(trajectories.x, 2, 0), strict=True)
            for code, rows in codes_in(values.ravel()).items()
        ]
        times = suspects(trajectories)
        if codes:
            warn(
                f"{self._caller}.fit: {'; '.join(codes)}, far from all others. Write NaN there if that "
                "stands for a missing value, and fit again.",
                DataWarning,
            )
        elif len(times):
            shown = ", ".join(f"{t:g}" for t in times[:_NAMED]) + ", ..." * (len(times) > _NAMED)
            warn(
                f"{self._caller}.fit: outliers? The fit counts {counted(len(times), 'sample')} far from the "
                f"neighbours, at t = {shown}. Write NaN for the states there if so, and fit again.",
                DataWarning,
            )

    def _warn_of_wrapped_angles(self, trajectories: Trajectories) -> None:
        if angles := wrapped_angles(trajectories):
            periods = {name: "" if turn < 7.0 else f", period={turn:g}" for name, turn in angles.items()}
            calls = ", ".join(f"np.unwrap({name}{period})" for name, period in periods.items())
            warn(
                f"{self._caller}.fit: {', '.join(angles)}: jumps by a full turn, as of angles that are kept "
                f"within one. Fits need paths without jumps: pass {calls} of each trajectory.",
                DataWarning,
            )

    def _warn_of_computed_columns(self, trajectories: Trajectories) -> None:
        info = self._fitted_field().fit_info
        left = info.residual_over_noise
        noise_free = info.to_precision is not None or (left is not None and left < _WITHOUT_NOISE)
        if info.noise_level is None or noise_free:
            return  # samples of a conserved sum are as exact then
        if sums := computed_columns(trajectories, info.noise_level):
            written = "; ".join(f"{name} = {text}" for name, text in sums.items())
            warn(
                f"{self._caller}.fit: {written} more exactly than noise allows: computed, not measured. "
                f"Leave out {' and '.join(sums)}: equations with and without are equal on these data, and "
                "standard errors come out too small.",
                DataWarning,
            )

    def _warn_of_related_inputs(self, trajectories: Trajectories) -> None:
        if not trajectories.input_names or omegas_of(trajectories.input_names):
            return
        level = self._fitted_field().fit_info.noise_level
        if level is None or len(level) != trajectories.dim:
            level = np.zeros(trajectories.dim)  # then exact relations alone are found
        for name, (text, others) in related_inputs(trajectories, np.asarray(level)).items():
            warn(
                f"{self._caller}.fit: {name} = {text} along the data: the effects of {name} and of "
                f"{', '.join(others)} cannot be distinguished, and other equations fit as well. Vary {name} "
                "independently, and faster where states follow it at once.",
                DataWarning,
            )

    def _warn_of_decades(self, trajectories: Trajectories) -> None:
        if names := over_decades(trajectories):
            warn(
                f"{self._caller}.fit: values of {', '.join(names)} span decades, with errors in proportion; "
                f"log={names} counts small values as much as large ones.",
                DataWarning,
            )

    def _between_switches(
        self, field: DrivenField, trajectories: Trajectories
    ) -> tuple[VectorField, Trajectories]:
        """The field without gaps in which inputs switch, where this one shows them, and its data."""
        parts = stretches(trajectories)
        if parts is None:
            return field, trajectories
        seen = Intervals.of(field, trajectories)
        shown = seen is not None and seen.meet_within()
        if not shown and field.fit_info.inference.judge is Judge.EXACT:
            return field, trajectories
        # a field of noisy samples may make up for switches by terms that are not there
        other = copy(self)
        again = other._inferred_with(parts, None, {})
        assert isinstance(again, DrivenField)  # as the first
        seen = Intervals.of(again, trajectories)
        if seen is None or not ((shown and seen.meet_within()) or seen.are_early()):
            return field, trajectories
        vars(self).update(vars(other))  # what the model keeps of a search
        fact = f"inputs switch between samples: {len(parts) - len(trajectories)} such gaps are left out"
        return again.with_fit_info(inference=again.fit_info.inference.noting(fact)), parts

    def _inferred_with(
        self, trajectories: Trajectories, rates: Sequence[np.ndarray] | None, given: dict[str, Any]
    ) -> VectorField:
        """The field of trajectories, and of measured rates (n, d) where they are given.

        Warns
        -----
        IgnoredInputWarning
            Where the rates have no effect.
        """
        if rates is not None and "rates" in self.takes and (trajectories.n_obs == 1).all():
            return of_rates_alone(trajectories, rates)
        field = self._infer_to_keep(trajectories, **given)
        if rates is None:
            return field
        informed = None
        if (
            "rates" in self.takes
            and isinstance(field, DictionaryField)
            and self.get_params(deep=False).get("knowledge") is None
        ):
            compared_first = field.with_fit_info(self._compared(field, trajectories))
            informed = informed_by_rates(compared_first, trajectories, rates, given.get("sigma"))
        if informed is None:
            warn(
                f"{self._caller}.fit: x_dot has no effect; rates are used by searches for equations of "
                "states alone, without knowledge, where a fit to both converges.",
                IgnoredInputWarning,
            )
            return field
        return informed

    def _relative(
        self, log: Sequence[str], trajectories: Trajectories, sigma: Errors | None, order: int
    ) -> tuple[list[np.ndarray], dict[str, float]]:
        """What `relative_errors` gives."""
        caller = f"{self._caller}.fit"
        if "sigma" not in self.takes:
            raise ValueError(
                f"{caller}: expected no log, got {log!r}; 'fim-ode', 'sindy-strong', 'auto', 'symbolic' and "
                "'equations' take it."
            )
        if sigma is not None or order != 1:
            raise ValueError(
                f"{caller}: expected log without {'sigma' if sigma is not None else 'order=2'}, got both; "
                + ("errors are either given or relative." if sigma is not None else "velocities have signs.")
            )
        return relative_errors(caller, checked_names(caller, log, trajectories), trajectories)

    def _observed(self, observed: Sequence[str], names: Sequence[str] | None) -> tuple[Any, list[str]]:
        """What `infer` is given about states observed in part, and names of what was, and of inputs."""
        raise ValueError(
            f"{self._caller}.fit: expected all states observed, got observed={list(observed)!r}; states that "
            "were not need equations: load('symbolic', expressions=...)."
        )

    def _second_order(self, positions: Trajectories, order: int, given: dict[str, Any]) -> Trajectories:
        if order != 2 or "positions" not in self.takes:
            others = "1; 'fim-ode', 'sindy-strong', 'symbolic' and 'auto' take 2"
            orders = "1 or 2" if "positions" in self.takes else others
            raise ValueError(f"{self._caller}.fit: expected order {orders}, got {order!r}.")
        if given:
            raise ValueError(
                f"{self._caller}.fit: expected neither x_dot, sigma nor observed with order=2, got "
                f"{', '.join(given)}."
            )
        given["positions"] = positions.state_names
        return with_velocities(f"{self._caller}.fit", positions)

    def finetune(
        self,
        x: Observations,
        t: Times = None,
        *,
        method: str = "multiple-shooting",
        moves: str = "auto",
        max_seconds: float | None = 60.0,
        seed: int = 0,
        progress: bool | None = None,
        checkpoint: str | os.PathLike | None = None,
        **options: Any,
    ) -> Self:
        """A new fitted model whose field is this one's and what it misses of the data.

        The field stays the mean; what its terms cannot express is learnt beside it as a sum of Gaussians near
        the data, zero elsewhere, by shooting through the observations. Whether that is kept is decided by
        blocks of the observations that neither part has seen. Nothing here is random.

        Parameters
        ----------
        x, t
            As for `fit`. A model that is fitted to them is not fitted again.
        method : {"multiple-shooting", "single-shooting"}
            Start again in windows of about two turns, or only at the first samples.
        moves : {"auto", "residual"}
            What is learnt; models whose fields a network decodes offer more.
        max_seconds : float or None
            Wall-clock time after which the best so far is taken; None for no limit.
        seed : int
            Of what is random; see above.
        progress : bool, optional
            Whether a bar with the loss is shown; default on a terminal.
        checkpoint : path-like, optional
            File that a run which was killed goes on from, to the same result.
        options
            None here.

        Returns
        -------
        VectorFieldModel
            Of the same class, fitted; this one stays as it is. ``field_.fit_info.report["fine-tuning"]`` says
            what was chosen and by how much, ``history_`` is a DataFrame of everything that was scored, with
            ``step``, ``loss``, ``held_out``, ``seconds`` and ``best``.

        Raises
        ------
        ValueError
            Where the data are malformed or too few to hold any out, an argument is not one of those above, or
            the checkpoint belongs to another run; or with inputs, knowledge, or positions alone, which a
            residual would not respect.

        Warns
        -----
        TuningWarning
            Nothing predicts the held-out blocks better than the untuned field, which is returned.
        FitWarning
            As `fit`.

        References
        ----------
        C. Rackauckas et al., Universal differential equations for scientific machine learning, arXiv
        2001.04385, section 2; H. G. Bock, Recent advances in parameter identification techniques for ODE
        (1983), section 3 (multiple shooting).

        Examples
        --------
        >>> import numpy as np
        >>> import fim_dynsys
        >>> t = np.linspace(0.0, 4.0, 41)
        >>> model = fim_dynsys.load("sindy-strong").fit(np.exp(-0.5 * t), t)
        >>> tuned = model.finetune(np.exp(-0.5 * t), t, max_seconds=5.0, progress=False)
        >>> "held_out" in tuned.history_
        True
        """
        if moves not in ("auto", "residual") or options:
            raise ValueError(
                f"{self._caller}.finetune: expected moves 'auto' or 'residual' without other options, got "
                f"{moves!r} and {', '.join(sorted(options)) or 'none'}."
            )
        deadline = Deadline("finetune", max_seconds)
        trajectories = as_trajectories(x, t, None)
        self._check_tunable(trajectories)
        self.check_context(trajectories)
        known = self.__sklearn_is_fitted__() and self.context_.equals(trajectories)
        with np.errstate(all="ignore"):
            base = self.field_ if known else self.infer(trajectories)
            base = base.base if isinstance(base, ResidualField) else base
            found = tune_residual(
                f"{self.name} {self.version} {sorted(self.get_params(deep=False).items())}",
                self.infer_many,
                base,
                trajectories,
                method=method,
                deadline=deadline,
                progress=progress,
                checkpoint=checkpoint,
            )
        return self._tuned(found, trajectories)

    def _check_tunable(self, trajectories: Trajectories) -> None:
        """Raise ValueError where a residual beside the field would not respect what was asked for."""
        fitted = self.field_ if self.__sklearn_is_fitted__() else None
        beside = {
            "inputs": bool(trajectories.input_names) or isinstance(fitted, DrivenField),
            "order=2": fitted is not None and bool(fitted.fit_info.inference.positions),
            "knowledge": self.get_params(deep=False).get("knowledge") is not None,
            "observed=": fitted is not None and fitted.dim != trajectories.dim,
            "sigma=": self._sigma is not None,
        }
        given = [name for name, is_given in beside.items() if is_given]
        if given:
            raise ValueError(
                f"{self._caller}.finetune: expected a field of the states alone, about which nothing is "
                f"known, got {' and '.join(given)}; a residual would not respect that."
            )

    def _tuned(self, found: Tuned, trajectories: Trajectories) -> Self:
        """A copy that has the field that fine-tuning found."""
        model = copy(self)
        model._adopt(found.field, trajectories)
        model.history_ = found.history
        model._warn_of_problems("finetune")
        return model

    def _warn_of_problems(self, method: str) -> None:
        info, given = self.field_.fit_info, self._given_errors()
        # windows of a search that cross fast transients leave more than errors, which whole paths do not
        by_windows = not (info.problems or info.inference.given)
        left = info.inference.beyond_noise if by_windows else info.residual_over_noise
        if given and left is not None and left > _TOO_SMALL:
            said = "these are larger, or the equations miss something"
            remedy = "; pass larger errors, or none to have them estimated"
            if self.field_.fit_info.inference.relative:
                said, remedy = (
                    "the equations miss something, or errors of neighbouring samples go together",
                    "",
                )
            warn(
                f"{self._caller}.{method}: residuals are {left:.2g} times the errors that {given}: {said}. "
                f"Standard errors and bands are too narrow by as much{remedy}.",
                DataWarning,
            )
        if self.field_.fit_info.problems:
            warn(
                f"{self._caller}.{method}: the field does not describe the data: "
                f"{'; '.join(self.field_.fit_info.problems)}. See field_.fit_info; {self._remedy} may help.",
                FitWarning,
            )
            return
        beyond = self.field_.fit_info.inference.beyond_noise
        if beyond is not None and self._sigma is None:  # else residuals are in units of these errors
            driven = isinstance(self.field_, DrivenField)
            lacking = "inputs between their samples" if driven else "a drive in time"
            warn(
                f"{self._caller}.{method}: the field leaves {beyond:.2g} times the noise of the samples, all "
                f"along: it lacks something, such as a term, a state or {lacking}. Standard errors and "
                "bands are too narrow by as much; another model, other states or inputs may help.",
                FitWarning,
            )
        if self.field_.fit_info.trust is Trust.LOW:
            times = plain(self.field_.fit_info.inference.elsewhere or np.inf)
            warn(
                f"{self._caller}.{method}: the data do not determine the field beyond them: equations that "
                f"fit about as well differ there by {times} times the spread of the rates: trust "
                "is low; check a path with trust_along(), ensemble() shows others.",
                FitWarning,
            )
        if (few := scarcity(self.field_.fit_info)) is not None:
            warn(
                f"{self._caller}.{method}: {few}; other equations may fit as well, see ensemble().",
                FitWarning,
            )

    def _given_errors(self) -> str:
        """What gives the errors of the samples, as text; empty where residuals are not in units of these.

        Of counts these are residuals over one level of noise for all, which says little of small ones.
        """
        if self._sigma is None or self._sigma is Noise.POISSON:
            return ""
        relative = self.field_.fit_info.inference.relative
        if not relative:
            return "sigma gives"
        levels = ", ".join(f"{100.0 * level:.2g} % of {name}" for name, level in relative)
        return f"log estimates from neighbouring samples, {levels}"

    def _warn_of_knowledge(self, trajectories: Trajectories) -> None:
        against = contradictions(getattr(self, "knowledge", None), trajectories)
        if against:
            warn(
                f"{self._caller}.fit: the data contradict what is to be conserved: {'; '.join(against)}. "
                "The fit keeps to it; leave it out if it does not hold.",
                DataWarning,
            )

    def check_context(self, trajectories: Trajectories) -> None:
        """Hold the trajectories against the model's limits.

        Raises
        ------
        ValueError
            Too many states, fewer observed points than `min_observations`, or numbers too large or too small
            for arithmetic.

        Warns
        -----
        DataWarning
            For coordinates that are constant over all observations.
        """
        inputs = len(trajectories.input_names) if "inputs" in self.takes else 0
        if self.max_dim is not None and trajectories.dim + inputs > self.max_dim:
            both = " and inputs together" if inputs else ""
            got = f"{trajectories.dim} and {inputs}" if inputs else f"{trajectories.dim}"
            raise ValueError(
                f"{self._caller}: expected at most {self.max_dim} states{both}, got {got}; reduce them "
                f"first: fim_dynsys.reduction.PCAReduction.fit(trajectories, n_components={self.max_dim})."
            )
        seen = np.concatenate([np.isfinite(x) for _, x in trajectories.arrays()])
        never = [name for k, name in enumerate(trajectories.state_names) if not seen[:, k].any()]
        if never:
            raise ValueError(
                f"{self._caller}: expected observations of every state, got none of {', '.join(never)}; "
                "leave out the columns that hold nothing but missing values."
            )
        observed = int(seen.sum(axis=0).min() if "missing" in self.takes else seen.all(axis=1).sum())
        if observed < self.min_observations:
            apart = "missing" not in self.takes and len(seen) >= self.min_observations
            raise ValueError(
                f"{self._caller}: expected at least {self.min_observations} observed points, got {observed}"
                + (
                    f" among {len(seen)} of which most lack a state; 'fim-ode', 'auto', 'sindy-strong', "
                    "'symbolic' and 'equations' take states that were observed at different times."
                    if apart
                    else "; give more samples or trajectories."
                )
            )
        if trajectories.input_names and "inputs" not in self.takes:
            raise ValueError(
                f"{self._caller}: expected no inputs u, got {', '.join(trajectories.input_names)}; its "
                "fields are autonomous. 'auto', 'fim-ode', 'sindy-strong', 'symbolic' and 'sindy' take "
                "inputs; trajectories.without_inputs() leaves them out."
            )
        check_magnitudes(self._caller, trajectories)
        values = np.concatenate([x for _, x in trajectories.arrays()])
        constant = np.nanmax(values, axis=0) == np.nanmin(values, axis=0)
        if constant.any():
            names = ", ".join(np.asarray(trajectories.state_names, dtype=object)[constant])
            spoilt = not (constant.all() or self._fits_without_still_states)
            remedy = " Leave it out: it may spoil the equations of others." if spoilt else ""
            warn(
                f"{self._caller}: constant over all observations: {names}; nothing can be learnt about how "
                f"the field depends on it.{remedy}",
                DataWarning,
            )

    def _adopt(self, field: VectorField, trajectories: Trajectories) -> None:
        field = ForcedField.recognised(field) if isinstance(field, DrivenField) else field
        field = self._with_deviation_elsewhere(field, trajectories)
        self.field_ = field.with_fit_info(self._compared(field, trajectories))
        self.context_ = trajectories
        self.feature_names = list(trajectories.state_names)
        self.n_features_in_ = trajectories.dim
        self._distilled: Distillation | None = None
        self._rivals: Rivals | None = None

    def _with_deviation_elsewhere(self, field: VectorField, context: Trajectories) -> VectorField:
        """The field with how far its draws, too, differ from it beyond the data.

        Other candidates alone say too little: one may be preferred by far whose numbers nothing determines.
        Where there are no draws, standard errors stand for them.
        """
        known = field.fit_info.inference
        if isinstance(field, ResidualField):
            return field
        drawn, apart, seen = Rivals.drawn(field), known.elsewhere, samples_of(field, context)
        if drawn is not None:
            apart = together(apart, deviation_elsewhere(field, drawn, seen))
        elif apart is not None:
            within = deviation_by_errors(field, seen)
            if within is not None or apart <= OPEN:
                apart = None if within is None else together(apart, within)
        return field.with_fit_info(inference=replace(known, elsewhere=apart))

    def _compared(self, field: VectorField, trajectories: Trajectories) -> FitInfo:
        """The field's `fit_info` with how well it fits what was observed, but for outliers."""
        kept = samples_of(field, trajectories)
        info = compared(field, kept, self._sigma)
        if "missing" in self.takes:
            info = noting_gaps(info, kept)
        return noting_few_samples(field, info, kept, self._sigma is not None)

    # ------------------------------------------------------------------ members and keeping

    @on_one_thread
    def ensemble(self, n: int = 20, seed: int = 0, progress: bool | None = None) -> EnsembleField:
        """Fields inferred from `n` bootstrap resamples of the context.

        Trajectories are resampled with replacement. Where there are fewer than eight, each is replaced by
        blocks of consecutive observations at random positions, each block a trajectory of its own (moving
        blocks), as many observations in all as it had. Members whose paths leave all bounds from the
        data, where that of the field stays, are replaced and counted in ``left_out``.

        Parameters
        ----------
        n : int
            Number of members.
        seed : int
            Seed of the resampling; equal seeds give equal members.
        progress : bool, optional
            Whether a bar with the time left is shown after two seconds; default on a terminal.

        Returns
        -------
        EnsembleField

        References
        ----------
        H. R. Künsch, The jackknife and the bootstrap for general stationary observations,
        Annals of Statistics 17 (1989), section 2 (moving blocks).

        Examples
        --------
        >>> import numpy as np
        >>> import fim_dynsys
        >>> t = np.linspace(0.0, 4.0, 41)
        >>> model = fim_dynsys.load("sindy-strong").fit(np.exp(-0.5 * t), t)
        >>> members = model.ensemble(5, progress=False)
        >>> len(members)
        5
        """
        field = self._fitted_field()
        check_members(self._caller, n, seed)
        seen = samples_of(field, self.context_)

        def draw(n: int, seed: int) -> list[VectorField]:
            return self._resampled(field, n, np.random.default_rng(seed), progress)

        return bounded_members(draw, n, seed, field, seen)

    def _resampled(
        self, field: VectorField, n: int, rng: np.random.Generator, progress: bool | None
    ) -> list[VectorField]:
        if self._sigma is not None:
            return self._weighed_ensemble(field, n, rng, progress)
        seen = samples_of(field, self.context_)
        contexts = [bootstrap_context(seen, rng, self.min_observations) for _ in range(n)]
        with np.errstate(all="ignore"), progress_bar(progress, n, "ensemble", "members", PATIENCE) as bar:
            if not isinstance(field, ResidualField):
                return list(self._refit_members(field, _followed(contexts, bar)))
            bases = self._refit_members(field.base, _followed(contexts, bar))
            return [refitted(field, base, c) for base, c in zip(bases, contexts, strict=True)]

    def _weighed_ensemble(
        self, field: VectorField, n: int, rng: np.random.Generator, progress: bool | None
    ) -> list[VectorField]:
        """Bootstrap members where the errors of the samples are known: each sample keeps its own."""
        members: list[VectorField] = []
        with np.errstate(all="ignore"), progress_bar(progress, n, "ensemble", "members", PATIENCE) as bar:
            for _ in range(n):
                context, sigma = bootstrap_weighed(self.context_, self._sigma, rng, self.min_observations)
                members.append(self._refit_weighed(field, context, sigma))
                bar.update()
        return members

    def save(self, folder: str | os.PathLike) -> Path:
        """Write the fitted model to `folder`, to be restored by `fim_dynsys.load_fitted(folder)`.

        Written are the context (netCDF), name, version and parameters (model.json) and, where the field's
        class can be kept (`field_classes`), its arrays (npz); what fine-tuning learnt or changed goes into a
        file of its own (safetensors). Weights are not copied. A folder that holds a fitted model holds it,
        whole, until the new one is: a save that is interrupted loses nothing.

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
        OSError
            Where the folder cannot be written to, or the disk is full.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np
        >>> import fim_dynsys
        >>> t = np.linspace(0.0, 4.0, 41)
        >>> model = fim_dynsys.load("sindy-strong").fit(np.exp(-0.5 * t), t)
        >>> folder = model.save(tempfile.mkdtemp() + "/decay")
        >>> fim_dynsys.load_fitted(folder).equations() == model.equations()
        True
        """
        return self._to_save().write(folder)

    def _to_save(self) -> SavedModel:
        """What `save` writes."""
        field = self._fitted_field()
        base = field.base if isinstance(field, ResidualField) else field
        kept = type(base) in self._kept_classes()
        arrays = field_arrays(base) if kept else {}
        residual = None
        if isinstance(field, ResidualField):
            residual = Delta.of(self._base_of(arrays), "residual", field.to_arrays())
        return SavedModel(
            model=self.name,
            version=str(self.version),
            params=self.get_params(deep=False),
            context=self.context_,
            content=type(base).__name__ if kept else None,
            arrays=arrays,
            field_context=None if field.context in (None, self.context_) else field.context,
            report=field.fit_info.report | kept_errors(self._sigma),
            residual=residual,
        )

    def _base_of(self, arrays: Mapping[str, np.ndarray]) -> str:
        """What a residual's delta calls the field beside it: inferred again, it is the model's."""
        return arrays_digest(arrays) if arrays else str(self.version)

    def restore(self, saved: SavedModel) -> Self:
        """Become fitted again from what a folder holds; `fim_dynsys.load_fitted` calls it.

        Parameters
        ----------
        saved : SavedModel
            What `SavedModel.read` gave.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Where the folder holds a field of a class that is not among `field_classes`.
        """
        context = saved.context if saved.field_context is None else saved.field_context
        sigma = read_errors(self._caller, saved.report.pop("sigma", None), saved.context)
        if saved.content is None:
            field = self.infer(saved.context, **({} if sigma is None else {"sigma": sigma}))
            if "fine-tuning" in saved.report:
                about = {"fine-tuning": saved.report["fine-tuning"]}
                field = field.with_fit_info(report={**field.fit_info.report, **about})
            # what `fit` said beyond the inference, such as of inputs between samples
            kept, own = Inference.of_entries(saved.report), field.fit_info.inference
            facts = replace(own, notes=kept.notes or own.notes, noise=kept.noise or own.noise)
            field = field.with_fit_info(inference=facts)
        else:
            kinds = {kind.__name__: kind for kind in self._kept_classes()}
            if saved.content not in kinds:
                raise ValueError(
                    f"{self._caller}: expected a saved field of class {', '.join(sorted(kinds))}, got "
                    f"{saved.content!r}; name the class in the model's field_classes."
                )
            field = field_from_arrays(kinds[saved.content], saved.arrays, context, saved.report)
        if saved.residual is not None:
            field = with_residual(field, saved.residual, self._base_of(saved.arrays))
        self._sigma = sigma
        apart = field.fit_info.inference.elsewhere
        self._adopt(field, saved.context)
        if apart is not None:  # found by the fit, draws included
            facts = self.field_.fit_info.inference
            self.field_ = self.field_.with_fit_info(inference=replace(facts, elsewhere=apart))
        return self

    @classmethod
    def _kept_classes(cls) -> tuple[type[KeptField], ...]:
        return (*FIELD_CLASSES, *cls.field_classes)


def _followed(contexts: Iterable[Trajectories], bar: tqdm) -> Iterator[Trajectories]:
    """The same, and the bar is updated when each is done with."""
    for context in contexts:
        yield context
        bar.update()
