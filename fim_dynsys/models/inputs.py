"""What users pass to a model, read as trajectories.

A little above five hundred lines: one place for all forms in which users pass data, and their errors.
"""

import numbers
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, TypeAlias, overload

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from fim_dynsys.errors import DataWarning, IgnoredInputWarning, real_array, warn
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.models.input_functions import evaluated, with_function
from fim_dynsys.models.switching import early_switches
from fim_dynsys.models.unseen_switches import Intervals
from fim_dynsys.regression.criteria import Known, Noise, precise
from fim_dynsys.regression.inputs import curves
from fim_dynsys.trajectories.container import Trajectories, concatenate
from fim_dynsys.trajectories.holding import Hold
from fim_dynsys.trajectories.ordering import by_labels

Observations: TypeAlias = (
    Trajectories | xr.Dataset | xr.DataArray | pd.DataFrame | ArrayLike | Sequence[ArrayLike]
)
Times: TypeAlias = ArrayLike | Sequence[ArrayLike] | None

Errors: TypeAlias = ArrayLike | Sequence[ArrayLike] | Mapping[str, ArrayLike] | xr.DataArray

# The square of the former and the inverse of the latter are floating-point numbers.
_LARGEST, _SMALLEST = 1e150, 1e-250
_CLOSE = 0.5  # of given slopes: coarse samples give too small ones, not half
_UNKNOWN = 100.0  # typical errors: what is known worse counts as not observed


def as_trajectories(
    x: Observations,
    t: Times = None,
    feature_names: Sequence[Any] | np.ndarray | None = None,
    u: ArrayLike | Sequence[ArrayLike] | Callable[[float], ArrayLike] | None = None,
    switches: bool = True,
    integrated: bool = False,
) -> Trajectories:
    """Observations in any accepted form as Trajectories.

    Parameters
    ----------
    x : Trajectories, Dataset, DataFrame, DataArray, array or list of arrays
        Observations.
    t : optional
        Times, where `x` does not carry them.
    feature_names : list of str, optional
        Names of the states, replacing those that `x` carries; where there are inputs, of these too or not.
    u : array, list of arrays or function, optional
        Inputs, a row for each sample, where `x` does not carry them; a function of time is evaluated there.
    switches : bool
        Whether rows without states are added where such a function jumps between samples.
    integrated : bool
        Whether such a function is integrated itself, so that nothing depends on how it is interpolated.

    Returns
    -------
    Trajectories

    Raises
    ------
    ValueError
        Where times or inputs are missing or given twice, or the data are malformed.
    TypeError
        Where the inputs are no arrays.
    """
    if isinstance(u, str | bytes | Mapping | Set):
        raise TypeError(
            f"fit: expected inputs u as an array, a list of arrays or a function, got {type(u).__name__}."
        )
    if callable(u):
        at_samples = [evaluated(u, times) for times, _ in as_trajectories(x, t).arrays()]
        data = as_trajectories(x, t, feature_names, at_samples)  # refuses inputs that are not finite
        return with_function(data, u, switches, integrated)
    if feature_names is not None and (
        isinstance(feature_names, str | bytes | Mapping | Set) or not np.iterable(feature_names)
    ):
        what = "the text " if isinstance(feature_names, str) else ""
        raise ValueError(f"fit: expected a list of feature_names, got {what}{feature_names!r}.")
    if isinstance(x, list | tuple) and any(isinstance(part, Trajectories) for part in x):
        x = concatenate(x)
    if isinstance(x, pd.DataFrame) and t is not None and "time" in x:
        raise ValueError(
            "fit: expected times in the column time or as t, got both; leave out t, or drop the column."
        )
    if isinstance(x, Trajectories | xr.Dataset) or (t is None and isinstance(x, xr.DataArray | pd.DataFrame)):
        if t is not None:
            raise ValueError(
                f"fit: expected t=None with {type(x).__name__}, which has its times, got {type(t).__name__}."
            )
        data = labelled(x)
        if u is not None and data.input_names:
            raise ValueError(
                f"fit: expected u=None with {type(x).__name__}, which has its inputs "
                f"{list(data.input_names)}."
            )
        if u is not None:
            pairs = data.arrays()
            data = Trajectories.from_arrays(
                [values for _, values in pairs],
                [times for times, _ in pairs],
                data.state_names,
                data.coords,
                data.units,
                u,
            )
        return renamed(data, feature_names)
    if isinstance(x, str | Path):
        raise ValueError(
            f"fit: expected observations x, got the text {str(x)!r}; a file is read by "
            "Trajectories.from_file(path)."
        )
    if t is None:
        raise ValueError(
            f"fit: expected times t with x of type {type(x).__name__}, got None; pass a step, array or list. "
            "Tables with times become trajectories by Trajectories.from_dataframe(frame)."
        )
    if feature_names is None or u is None:
        names = None if feature_names is None else [str(name) for name in feature_names]
        return Trajectories.from_arrays(x, t, state_names=names, u=u)
    return renamed(Trajectories.from_arrays(x, t, u=u), feature_names)


def held(caller: str, trajectories: Trajectories, field: DrivenField) -> list[str]:
    """What is said of inputs that are not smooth between their samples, from the field of the trajectories.

    Warns
    -----
    DataWarning
        Where neighbours tell nothing of a sample, so that an input may be held as well as smooth, and where
        held inputs switch between samples.
    """
    found = [
        curves(t, u, trajectories.hold)
        for (t, _), u in zip(trajectories.arrays(), trajectories.input_arrays(), strict=True)
        if len(t) > 1
    ]
    said = []
    for i, name in enumerate(trajectories.input_names):
        kinds = {curve.hold[i] for curve in found}
        if Hold.PREVIOUS in kinds:
            said.append(f"{name} keeps its value between samples")
        elif Hold.PIECES in kinds:
            said.append(f"{name} jumps at samples and is smooth between jumps")
        elif Hold.LINEAR in kinds:
            said.append(f"{name} goes along lines between samples")
    unsure = [
        name for i, name in enumerate(trajectories.input_names) if not all(curve.sure[i] for curve in found)
    ]
    if unsure:
        warn(
            f"{caller}.fit: {', '.join(unsure)} may jump between samples as well as follow a curve, which "
            "was taken; say which with hold='previous', 'linear', 'smooth' or 'pieces', or sample it more "
            "often.",
            DataWarning,
        )
    positions = field.fit_info.inference.positions
    # velocities are smoothed, and bend before a switch; other columns than states may jump with the input
    states = [name for name in trajectories.state_names if name in (positions or field.state_names)]
    seen = trajectories.select_states(states).arrays() if states else []
    early = early_switches(seen, trajectories.input_arrays(), trajectories.hold) if states else None
    columns = (field.state_names, field.input_names)
    observed = columns == (trajectories.state_names, trajectories.input_names)
    known = Intervals.of(field, trajectories) if early is None and observed and not positions else None
    by_field = known is not None and (known.meet_within() or known.are_early())
    if early is not None or by_field:
        bend = "" if early is None else f" {early:.1g} of a gap"
        warn(
            f"{caller}.fit: an input switches between samples: states bend{bend} before the "
            "sample that shows it. Terms that are not in the equations may make up for that; add a row with "
            "the inputs and NaN for the states at each switch, or sample more often.",
            DataWarning,
        )
    return said


def labelled(data: Trajectories | xr.Dataset | xr.DataArray | pd.DataFrame) -> Trajectories:
    """What carries its own times and names, as Trajectories."""
    if isinstance(data, xr.Dataset | xr.DataArray):
        return Trajectories.from_dataset(data)
    if isinstance(data, pd.DataFrame):
        return Trajectories.from_dataframe(data)
    return data


def renamed(trajectories: Trajectories, feature_names: Sequence[Any] | np.ndarray | None) -> Trajectories:
    """The same trajectories under other names of the states, if any are given."""
    if feature_names is None:
        return trajectories
    names = [str(name) for name in feature_names]
    known = (*trajectories.state_names, *trajectories.input_names)
    if len(names) == trajectories.dim:
        names += trajectories.input_names
    if len(names) != len(known):
        inputs = f", or {len(known)} with those of the inputs" if trajectories.input_names else ""
        raise ValueError(
            f"fit: expected {trajectories.dim} feature_names{inputs}, got {len(names)}: {names}."
        )
    renamed = dict(zip(known, names, strict=True))
    pairs = trajectories.arrays()
    return Trajectories.from_arrays(
        [x for _, x in pairs],
        [t for t, _ in pairs],
        state_names=names[: trajectories.dim],
        coords=trajectories.coords,
        u=trajectories.input_arrays() if trajectories.input_names else None,
        input_names=names[trajectories.dim :] or None,
        units={renamed.get(name, name): unit for name, unit in trajectories.units.items()},
    ).with_hold(trajectories.hold)


def warn_of_other_units(caller: str, trajectories: Trajectories, context: Trajectories | None) -> None:
    """Say which columns are in other units than those that a model was fitted to.

    Warns
    -----
    DataWarning
        Where both have a unit, and it is another text.
    """
    fitted = {} if context is None else context.units
    other = [name for name, unit in trajectories.units.items() if fitted.get(name, unit) != unit]
    if other:
        pairs = ", ".join(f"{name} in {fitted[name]}, got {trajectories.units[name]}" for name in other)
        warn(f"{caller}: expected {pairs}; convert the records to the units of the fit.", DataWarning)


def check_magnitudes(caller: str, trajectories: Trajectories) -> None:
    """Raise a ValueError where states, times or rates of change are too large or too small for arithmetic."""
    pairs = trajectories.arrays()
    with np.errstate(all="ignore"):
        found = {
            "states": [np.abs(x) for _, x in pairs],
            "times from the first": [t - t[0] for t, _ in pairs],
            "samples per unit of time": [1.0 / np.diff(t) for t, _ in pairs],
            "rates of change": [np.abs(np.diff(x, axis=0)) / np.diff(t)[:, None] for t, x in pairs],
        }
    for what, values in found.items():
        largest = max(float(np.max(v, initial=0.0, where=~np.isnan(v))) for v in values)
        if largest > _LARGEST:
            raise ValueError(
                f"{caller}: expected {what} of at most {_LARGEST:g}, whose squares are floating-point "
                f"numbers, got {largest:g}; change the units."
            )
    for name, x in zip(trajectories.state_names, np.moveaxis(trajectories.x, 2, 0), strict=True):
        seen = x[np.isfinite(x)]
        width = float(np.ptp(seen)) if len(seen) else 0.0
        if 0.0 < width < _SMALLEST:
            raise ValueError(
                f"{caller}: expected states that vary by {_SMALLEST:g} at least or not at all, got {width:g} "
                f"of {name!r}, too little for its inverse; change the units."
            )


def is_point(x: Sequence) -> bool:
    """Whether a list or tuple is one state, written as plain numbers."""
    return len(x) > 0 and all(isinstance(value, numbers.Real) for value in x)


def derivative_list(
    caller: str, x_dot: ArrayLike | Sequence[ArrayLike], trajectories: Trajectories
) -> list[np.ndarray]:
    """Given derivatives as one float array for each trajectory, of the shape of its observations."""
    given = list(x_dot) if isinstance(x_dot, list | tuple) else [x_dot]
    wanted = [x.shape for _, x in trajectories.arrays()]
    given = [by_labels(f"{caller}.fit", "rates of", v, trajectories.state_names) for v in given]
    arrays = [real_array(v, f"{caller}.fit", "x_dot") for v in given]
    arrays = [v[:, None] if v.ndim == 1 else v for v in arrays]
    got = [v.shape for v in arrays]
    if got != wanted:
        raise ValueError(f"{caller}.fit: expected x_dot of shapes {wanted}, got {got}; give one for each x.")
    return arrays


def assumed(sigma: Sequence[np.ndarray] | Noise | None) -> Noise:
    """What is assumed of the errors of observations, from the arguments of a model."""
    if isinstance(sigma, Noise):
        return sigma
    return Noise.ESTIMATED if sigma is None else Noise.GIVEN


@overload
def complete_errors(sigma: Sequence[np.ndarray], trajectories: Trajectories) -> list[np.ndarray]: ...


@overload
def complete_errors(sigma: Known | None, trajectories: Trajectories) -> Known | None: ...


def complete_errors(sigma: Known | None, trajectories: Trajectories) -> Known | None:
    """The errors (n, d) of the complete samples of trajectories with two or more."""
    if sigma is None or isinstance(sigma, Noise):
        return sigma
    rows = [np.isfinite(x).all(axis=1) for _, x in trajectories.arrays()]
    return [errors[seen] for errors, seen in zip(sigma, rows, strict=True) if seen.sum() >= 2]


def error_list(caller: str, sigma: Errors, trajectories: Trajectories) -> list[np.ndarray] | Noise:
    """Known standard deviations as one float array for each trajectory, of the shape of its observations.

    Parameters
    ----------
    caller : str
        Named in errors.
    sigma : float, array, list, dict, DataArray or "poisson"
        See `VectorFieldModel.fit`.
    trajectories : Trajectories
        The observations.

    Returns
    -------
    list of arrays (n, d), or Noise.POISSON

    Raises
    ------
    ValueError
        Where they do not fit the observations, or one is not positive; or observations are not counts.
    """
    if isinstance(sigma, str) and sigma == "poisson":
        seen = np.concatenate([x[np.isfinite(x)] for _, x in trajectories.arrays()])
        if (seen < 0).any() or (seen != np.round(seen)).any():
            raise ValueError(
                f"{caller}: expected counts 0, 1, 2, ... with sigma='poisson', got other numbers."
            )
        return Noise.POISSON
    if isinstance(sigma, xr.DataArray) and sigma.ndim == 3:  # padded, as a Dataset has the observations
        order = ("trajectory", "sample", "state")
        if set(sigma.dims) != set(order):
            raise ValueError(f"{caller}: expected sigma over {', '.join(order)}, got one over {sigma.dims}.")
        if "state" in sigma.coords:
            sigma = sigma.sel(state=list(trajectories.state_names))
        values = sigma.transpose(*order).values
        sigma = [errors[:n] for errors, n in zip(values, trajectories.n_obs, strict=True)]
    sigma = by_labels(caller, "sigma of", sigma, trajectories.state_names)
    wanted = [x.shape for _, x in trajectories.arrays()]
    if isinstance(sigma, Mapping):
        if set(sigma) != set(trajectories.state_names):
            raise ValueError(
                f"{caller}: expected sigma of the states {', '.join(trajectories.state_names)}, got that of "
                f"{', '.join(map(str, sigma))}."
            )
        sigma = [sigma[name] for name in trajectories.state_names]
    try:
        whole = real_array(sigma, caller, "sigma")
    except ValueError:
        whole = None  # of trajectories of unequal lengths, or no numbers, which is reported below
    if whole is not None and whole.shape in ((), (trajectories.dim,)):
        errors = [np.broadcast_to(whole, shape) for shape in wanted]
    else:
        given = list(sigma) if isinstance(sigma, list | tuple) else [sigma]
        errors = [real_array(one, caller, "sigma") for one in given]
        errors = [one[:, None] if one.ndim == 1 else one for one in errors]
    if [one.shape for one in errors] != wanted:
        raise ValueError(
            f"{caller}: expected sigma as a number, one for each of {trajectories.dim} states, or of shapes "
            f"{wanted}, got {[one.shape for one in errors]}."
        )
    observed = [np.isfinite(x) for _, x in trajectories.arrays()]
    if not all((one[seen] > 0).all() for one, seen in zip(errors, observed, strict=True)):
        raise ValueError(f"{caller}: expected positive sigma where there are observations, got others.")
    return errors


def without_unknown(trajectories: Trajectories, sigma: Known) -> tuple[Trajectories, Known]:
    """The same with NaN where an error is infinite, or more than a hundred times its state's typical one.

    Errors that are small for their values, as relative ones are, stay. Other samples tell nothing, and would
    spoil scales and smoothers. The errors of what was not observed are the typical ones.

    Raises
    ------
    ValueError
        Where a state has no finite error.
    """
    if isinstance(sigma, Noise):
        return trajectories, sigma
    pairs = trajectories.arrays()
    observed = [np.where(np.isfinite(x), one, np.nan) for (_, x), one in zip(pairs, sigma, strict=True)]
    typical = np.nanmedian(np.concatenate(observed), axis=0)
    if not np.isfinite(typical).all():
        raise ValueError("fit: expected finite sigma of most samples of each state, got infinite ones.")
    near = precise(observed, [x for _, x in pairs])
    unknown = [
        (one > _UNKNOWN * typical) & ~(np.isfinite(one) & known)
        for one, known in zip(observed, near, strict=True)
    ]
    filled = [np.where(np.isnan(one) | far, typical, one) for one, far in zip(observed, unknown, strict=True)]
    if not any(rows.any() for rows in unknown):
        return trajectories, filled
    remaining = Trajectories.from_arrays(
        [np.where(rows, np.nan, x) for (_, x), rows in zip(pairs, unknown, strict=True)],
        [t for t, _ in pairs],
        state_names=trajectories.state_names,
        coords=trajectories.coords,
        units=trajectories.units,
        u=trajectories.input_arrays() if trajectories.input_names else None,
        input_names=trajectories.input_names or None,
    ).with_hold(trajectories.hold)
    return remaining, filled


def kept_errors(sigma: Known | None) -> dict[str, Any]:
    """What a saved model holds of the errors that it was given."""
    if sigma is None:
        return {}
    return {"sigma": sigma.value if isinstance(sigma, Noise) else [errors.tolist() for errors in sigma]}


def read_errors(caller: str, kept: Any, trajectories: Trajectories) -> Known | None:
    """The errors that `kept_errors` wrote, of the samples of trajectories.

    Raises
    ------
    ValueError
        Where they are no such errors.
    """
    if kept is None or kept == Noise.POISSON.value:
        return None if kept is None else Noise.POISSON
    return error_list(
        caller, [np.asarray(errors) for errors in kept] if isinstance(kept, list) else kept, trajectories
    )


def with_error_columns(x: Observations, sigma: Errors | None) -> tuple[Observations, Errors | None]:
    """Observations, and errors that are columns of the same data frame or a variable of the same dataset.

    Parameters
    ----------
    x : as for `VectorFieldModel.fit`
        Observations.
    sigma : dict of str to str, or str, or as for `VectorFieldModel.fit`
        Columns of a DataFrame by state, or the name of a variable of a Dataset.

    Returns
    -------
    observations
        Without them.
    sigma
        As `error_list` takes it.

    Raises
    ------
    ValueError
        Where there is no such column.
    """
    if isinstance(x, xr.Dataset) and isinstance(sigma, str) and sigma in x:
        return x.drop_vars(sigma), x[sigma]
    if not isinstance(x, pd.DataFrame) or not isinstance(sigma, Mapping):
        return x, sigma
    columns = [name for name in sigma.values() if isinstance(name, str)]
    if not columns:
        return x, sigma
    missing = [name for name in columns if name not in x]
    if missing or len(columns) < len(sigma):
        raise ValueError(
            f"fit: expected sigma by columns {', '.join(map(str, x.columns))}, or by numbers, got "
            f"{dict(sigma)}."
        )
    remaining = x.drop(columns=columns)
    named = {str(state): x[column] for state, column in sigma.items()}
    found = labelled(remaining)
    wrong = set(found.state_names) - set(named)
    if wrong:
        raise ValueError(f"fit: expected a column of errors for each state, got none for {sorted(wrong)}.")
    both = labelled(remaining.assign(**{name: values for name, values in named.items()}))
    return found, [values for _, values in both.arrays()]


def check_step(caller: str, t: Times, x_dot: Sequence[np.ndarray], trajectories: Trajectories) -> None:
    """Raise a ValueError where a time step does not fit given derivatives.

    A script that has derivatives may leave the step at 1; a model that infers its own would be wrong by it.
    """
    if t is None or not isinstance(t, numbers.Real):
        return
    pairs = [
        (v, np.gradient(x, times, axis=0))
        for v, (times, x) in zip(x_dot, trajectories.arrays(), strict=True)
        if len(x) > 1
    ]
    given, found = (np.concatenate([pair[k].ravel() for pair in pairs] or [np.zeros(0)]) for k in (0, 1))
    rows = np.isfinite(given) & np.isfinite(found)
    squares = float(np.sum(given[rows] ** 2))
    ratio = float(np.sum(given[rows] * found[rows])) / squares if squares > 0 else 1.0
    if not _CLOSE < ratio < 1.0 / _CLOSE:
        raise ValueError(
            f"{caller}.fit: expected the time step of the samples, whose slopes this model infers itself, "
            f"got t={t}, with which they are {ratio:.3g} times x_dot; give the true step."
        )


# scipy's names as pysindy's scripts pass them, and ours
_METHODS = {"LSODA": "lsoda", "RK45": "rk45", "DOP853": "dop853", "RADAU": "radau"}


def integration_options(caller: str, integrator_kws: dict[str, Any] | None) -> dict[str, Any]:
    """Keyword arguments of `fim_dynsys.simulate` from what pysindy's scripts pass to its integrator."""
    given = dict(integrator_kws or {})
    options = {key: given.pop(key) for key in ("rtol", "atol", "max_step") if given.get(key) is not None}
    method = given.pop("method", None)
    if method is not None:
        if str(method).upper() not in _METHODS:
            raise ValueError(
                f"{caller}.simulate: expected method LSODA, RK45, DOP853 or Radau, got {method!r}."
            )
        options["method"] = _METHODS[str(method).upper()]
    if given:
        warn(
            f"{caller}.simulate: no effect of integrator_kws {', '.join(sorted(given))}; "
            "rtol, atol, max_step and method are honoured.",
            IgnoredInputWarning,
        )
    return options
