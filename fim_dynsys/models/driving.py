"""Inputs as users give them, and paths of fields that are driven by them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.errors import IgnoredInputWarning, SimulationWarning, check_positive, real_array, warn
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.regression.inputs import at, curves

InputFunction = Callable[[float], ArrayLike]
_RTOL, _ATOL = 1e-8, 1e-10
_SCIPY = ("LSODA", "RK23", "RK45", "DOP853", "Radau", "BDF")


def input_rows(who: str, field: VectorField, u: object, n: int) -> np.ndarray | None:
    """Inputs (n, m) that a field needs at n states, or None where it needs none.

    Raises
    ------
    TypeError
        Where the field is driven and no inputs are given.
    ValueError
        Where they are not (n, m).

    Warns
    -----
    IgnoredInputWarning
        Where they are given and the field is not driven.
    """
    if not isinstance(field, DrivenField):
        if u is not None:
            warn(f"{who}: no effect of u; the model was fitted without inputs.", IgnoredInputWarning)
        return None
    if u is None:
        raise TypeError(
            f"{who}: expected inputs u ({', '.join(field.input_names)}), which the model was fitted "
            "with, got none."
        )
    rows = real_array(u, who, "u")
    rows = rows.reshape(n, -1) if rows.ndim < 2 and rows.size == n * len(field.input_names) else rows
    if rows.shape != (n, len(field.input_names)):
        raise ValueError(
            f"{who}: expected inputs u of shape ({n}, {len(field.input_names)}), a row for each state, got "
            f"{rows.shape}."
        )
    return rows


def input_function(
    who: str,
    field: DrivenField,
    t: np.ndarray,
    u: object,
    interpolator: Callable[..., InputFunction] | None,
    interpolator_kws: Mapping[str, Any] | None,
) -> Callable[[float], np.ndarray]:
    """Inputs (m,) as a function of time, from such a function or from values at times t (n,).

    Values are interpolated by cubics, as pysindy does; linearly where there are fewer than four.
    """
    given: InputFunction
    if callable(u):
        given = u
    else:
        rows = input_rows(who, field, u, len(t))
        assert rows is not None  # of a driven field
        if interpolator is not None:
            if not callable(interpolator):
                raise TypeError(f"{who}: expected an interpolator as a function, got {interpolator!r}.")
            given = interpolator(t, rows, **(interpolator_kws or {}))
            if not callable(given):
                raise TypeError(f"{who}: expected an interpolator that makes a function, got {given!r}.")
        else:
            given = _interpolated(who, t, rows)

    def values(time: float) -> np.ndarray:
        return real_array(given(time), who, "u(t)").reshape(-1)

    if values(float(t[0])).shape != (len(field.input_names),):
        raise ValueError(
            f"{who}: expected u(t) with {len(field.input_names)} values ({', '.join(field.input_names)}), "
            f"got {values(float(t[0])).shape}."
        )
    return values


def _interpolated(who: str, t: np.ndarray, rows: np.ndarray) -> InputFunction:
    """Cubics through values (n, m) at times (n,), lines where there are few, a constant if there is one."""
    if not (np.isfinite(rows).all() and np.isfinite(t).all() and len(np.unique(t)) == len(t)):
        raise ValueError(f"{who}: expected finite inputs u at finite, different times, got others.")
    if len(t) == 1:
        return lambda time: rows[0]
    from scipy.interpolate import interp1d  # deferred, as all of scipy here: a second to import

    return interp1d(t, rows, axis=0, kind="cubic" if len(t) > 3 else "linear", fill_value="extrapolate")


def needs_scipy(integrator_kws: Mapping[str, Any] | None) -> bool:
    """Whether methods or events are asked for that `fim_dynsys.simulate` has not."""
    asked = dict(integrator_kws or {})
    return asked.get("method") in ("BDF", "RK23") or "events" in asked


def scipy_path(
    who: str,
    field: VectorField,
    x0: np.ndarray,
    t: np.ndarray,
    u: Callable[[float], np.ndarray] | None,
    integrator: str,
    integrator_kws: Mapping[str, Any] | None,
) -> np.ndarray:
    """The path (n, d) by scipy's integrators; NaN from where it could not go on, or an event ended it.

    Warns
    -----
    SimulationWarning
        Where it ends before the last time.
    """
    from scipy.integrate import odeint, solve_ivp

    def rates(time: float, x: np.ndarray) -> np.ndarray:
        return field(x[None])[0] if u is None else field(x[None], u(time))[0]  # type: ignore[call-arg]

    options = {"rtol": _RTOL, "atol": _ATOL} | dict(integrator_kws or {})
    check_positive(who, rtol=options["rtol"])
    atol = real_array(options["atol"], who, "atol")
    if atol.shape not in ((), x0.shape) or not ((atol >= 0) & np.isfinite(atol)).all():
        raise ValueError(f"{who}: expected a finite atol >= 0, one number or {len(x0)}, got {atol}.")
    path = np.full((len(t), len(x0)), np.nan)
    with np.errstate(all="ignore"):
        if integrator == "odeint":
            options.pop("method", None)
            found, info = odeint(rates, x0, t, tfirst=True, full_output=True, **options)
            reached, message = len(t), str(info["message"])
            if message != "Integration successful.":
                reached = int(np.argmax(~np.isfinite(found).all(axis=1))) or 1
            path[:reached] = found[:reached]
        else:
            options.setdefault("method", "LSODA")
            if options["method"] not in _SCIPY:
                raise ValueError(f"{who}: expected method {', '.join(_SCIPY)}, got {options['method']!r}.")
            solution = solve_ivp(rates, (t[0], t[-1]), x0, t_eval=t, **options)
            reached, message = solution.y.shape[1], solution.message
            path[:reached] = solution.y.T
    if reached < len(t):
        warn(
            f"{who}: the path ends at {t[max(reached - 1, 0)]:.4g} of {t[-1]:.4g}, later rows are NaN: "
            f"{message}",
            SimulationWarning,
        )
    return path


def driven_stretches(
    field: DrivenField,
    starts: Sequence[np.ndarray],
    times: Sequence[np.ndarray],
    inputs: Sequence[np.ndarray],
    longest_step: float,
) -> list[np.ndarray]:
    """Paths (n, d) at the samples of several stretches at once, inputs as `curves` has them in between.

    Classical Runge-Kutta steps of fourth order, as many a gap as the longest step allows, four at most.
    """
    length = max(map(len, times))
    t = np.stack([np.pad(row, (0, length - len(row)), mode="edge") for row in times])
    between = np.zeros((len(times), length - 1, 4, inputs[0].shape[1]))
    for row, time, own in zip(between, times, inputs, strict=True):
        if len(time) > 1:
            row[: len(time) - 1] = curves(time, own).cubics
    paths = np.empty((len(times), length, field.dim))
    paths[:, 0] = np.stack(starts)
    x = paths[:, 0]
    with np.errstate(all="ignore"):
        for k in range(length - 1):
            gap = (t[:, k + 1] - t[:, k])[:, None]
            steps = min(max(int(np.ceil(gap.max() / longest_step)), 1), 4)
            h = gap / steps
            for step in range(steps):
                first, middle, last = (at(between[:, k], (step + part) / steps) for part in (0.0, 0.5, 1.0))
                k1 = field(x, first)
                k2 = field(x + 0.5 * h * k1, middle)
                k3 = field(x + 0.5 * h * k2, middle)
                k4 = field(x + h * k3, last)
                x = x + h / 6.0 * (k1 + 2.0 * (k2 + k3) + k4)
                x = np.where(np.abs(x) < 1e150, x, np.nan)
            paths[:, k + 1] = x
    return [path[: len(row)] for path, row in zip(paths, times, strict=True)]
