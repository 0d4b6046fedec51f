"""Inputs as users give them, and paths of fields that are driven by them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.errors import IgnoredInputWarning, SimulationWarning, check_positive, real_array, warn
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.regression.inputs import Curves, at, curves
from fim_dynsys.simulation.pairs import pair
from fim_dynsys.simulation.problem import Status
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.holding import Hold
from fim_dynsys.trajectories.ordering import with_coordinates

InputFunction = Callable[[float], ArrayLike]
_RTOL, _ATOL = 1e-8, 1e-10  # of a step; as tight as a comparison of simulated paths needs
_PARTS = 256  # of a record: no step is longer where inputs are a function of time
_STEPS_BETWEEN = 400  # explicit ones from one sample to the next, before an implicit method goes on
_SCIPY = ("LSODA", "RK23", "RK45", "DOP853", "Radau", "BDF")


def input_rows(caller: str, field: VectorField, u: object, n: int) -> np.ndarray | None:
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
            warn(f"{caller}: no effect of u; the model was fitted without inputs.", IgnoredInputWarning)
        return None
    if u is None:
        raise TypeError(
            f"{caller}: expected inputs u ({', '.join(field.input_names)}), which the model was fitted "
            "with, got none."
        )
    rows = real_array(u, caller, "u")
    rows = rows.reshape(n, -1) if rows.ndim < 2 and rows.size == n * len(field.input_names) else rows
    if rows.shape != (n, len(field.input_names)):
        raise ValueError(
            f"{caller}: expected inputs u of shape ({n}, {len(field.input_names)}), a row for each state, "
            f"got {rows.shape}."
        )
    return rows


def with_known_inputs(caller: str, field: VectorField, trajectories: Trajectories) -> Trajectories:
    """Records with those inputs of a field that they have as coordinates, of one value in each record."""
    own, needed = trajectories.input_names, getattr(field, "input_names", ())
    if not set(own) < set(needed):
        return trajectories
    known = set(trajectories.coords) - set(own)
    return with_coordinates(caller, trajectories, [name for name in needed if name in known])


def check_constant(caller: str, field: DrivenField, trajectories: Trajectories) -> None:
    """Raise ValueError where an input changes along a trajectory, so that nobody knows how it goes on."""
    if missing := [name for name in field.input_names if name not in trajectories.input_names]:
        raise ValueError(
            f"{caller}: expected records with all inputs, constant along each trajectory, got none of "
            f"{', '.join(missing)}; use simulate with times and u."
        )
    changing = np.zeros(len(field.input_names), dtype=bool)
    for u in trajectories.input_arrays():
        changing |= np.nanmax(u, axis=0) > np.nanmin(u, axis=0)
    if changing.any():
        names = ", ".join(np.array(field.input_names)[changing])
        raise ValueError(
            f"{caller}: expected inputs that are constant along each trajectory and stay so, got {names}, "
            "which changes; use simulate with u."
        )


def input_function(
    caller: str,
    field: DrivenField,
    t: np.ndarray,
    u: object,
    interpolator: Callable[..., InputFunction] | None,
    interpolator_kws: Mapping[str, Any] | None,
) -> Callable[[float], np.ndarray]:
    """Inputs (m,) as a function of time, from such a function or from values at times t (n,).

    Values that are held or go along lines in the data of the field do so here. Others are interpolated by
    cubics, as pysindy does; linearly where there are fewer than four.
    """
    given: InputFunction
    if callable(u):
        given = u
    else:
        rows = input_rows(caller, field, u, len(t))
        assert rows is not None  # of a driven field
        if interpolator is not None:
            if not callable(interpolator):
                raise TypeError(f"{caller}: expected an interpolator as a function, got {interpolator!r}.")
            given = interpolator(t, rows, **(interpolator_kws or {}))
            if not callable(given):
                raise TypeError(f"{caller}: expected an interpolator that makes a function, got {given!r}.")
        else:
            given = _interpolated(caller, field, t, rows)

    def values(time: float) -> np.ndarray:
        return real_array(given(time), caller, "u(t)").reshape(-1)

    if values(float(t[0])).shape != (len(field.input_names),):
        raise ValueError(
            f"{caller}: expected u(t) with {len(field.input_names)} values ({', '.join(field.input_names)}), "
            f"got {values(float(t[0])).shape}."
        )
    return values


def as_in_data(field: VectorField, t: np.ndarray, u: np.ndarray) -> Curves:
    """Inputs (n, m) between increasing times (n,), as the data of a field have them."""
    return curves(t, u, Hold.AUTO if field.context is None else field.context.hold)


def _interpolated(caller: str, field: DrivenField, t: np.ndarray, rows: np.ndarray) -> InputFunction:
    """Values (n, m) at times (n,) as the data of the field have them between, smooth ones by cubics."""
    if not (np.isfinite(rows).all() and np.isfinite(t).all() and len(np.unique(t)) == len(t)):
        raise ValueError(f"{caller}: expected finite inputs u at finite, different times, got others.")
    if len(t) == 1:
        return lambda time: rows[0]
    order = np.argsort(t)
    start = t[order]
    found = as_in_data(field, start, rows[order])
    if any(kind != Hold.SMOOTH for kind in found.hold):

        def value(time: float) -> np.ndarray:
            k = int(np.clip(np.searchsorted(start, time, side="right") - 1, 0, len(start) - 2))
            share = np.clip((time - start[k]) / (start[k + 1] - start[k]), 0.0, 1.0)
            return at(found.cubics[k : k + 1], share)[0]

        return value
    from scipy.interpolate import interp1d  # deferred, as all of scipy here: a second to import

    return interp1d(t, rows, axis=0, kind="cubic" if len(t) > 3 else "linear", fill_value="extrapolate")


def needs_scipy(integrator_kws: Mapping[str, Any] | None) -> bool:
    """Whether methods or events are asked for that `fim_dynsys.simulate` has not."""
    asked = dict(integrator_kws or {})
    return asked.get("method") in ("BDF", "RK23") or "events" in asked


def scipy_path(
    caller: str,
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
    check_positive(caller, rtol=options["rtol"])
    atol = real_array(options["atol"], caller, "atol")
    if atol.shape not in ((), x0.shape) or not ((atol >= 0) & np.isfinite(atol)).all():
        raise ValueError(f"{caller}: expected a finite atol >= 0, one number or {len(x0)}, got {atol}.")
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
                raise ValueError(f"{caller}: expected method {', '.join(_SCIPY)}, got {options['method']!r}.")
            solution = solve_ivp(rates, (t[0], t[-1]), x0, t_eval=t, **options)
            reached, message = solution.y.shape[1], solution.message
            path[:reached] = solution.y.T
    if reached < len(t):
        warn(
            f"{caller}: the path ends at {t[max(reached - 1, 0)]:.4g} of {t[-1]:.4g}, later rows are NaN: "
            f"{message}",
            SimulationWarning,
        )
    return path


def driven_stretches(
    field: DrivenField,
    starts: Sequence[np.ndarray],
    times: Sequence[np.ndarray],
    between: Sequence[np.ndarray],
    tolerance: tuple[float, np.ndarray, np.ndarray],
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Paths at the samples of several stretches at once; steps end at the samples, where inputs may jump.

    Steps are those of the pair 8(5,3), each stretch with its own; one that takes too many of them from one
    sample to the next goes on with scipy's Radau.

    Parameters
    ----------
    field : DrivenField
        Of any kind.
    starts, times : sequences of arrays (d,), (n,)
        First states, and times of the samples.
    between : sequence of arrays (n - 1, 4, m)
        Inputs between the samples: cubics of the fraction of each interval.
    tolerance : tuple
        Relative and absolute (d,) errors of a step, and bounds (d,) of the states.

    Returns
    -------
    paths : list of arrays (n, d)
        nan behind an early end.
    status : array (S,)
        By `Status`.
    reached : array (S,)
        Last times, from the first of each stretch.
    """
    paths = [np.full((len(t), field.dim), np.nan) for t in times]
    for path, start in zip(paths, starts, strict=True):
        path[0] = start
    lanes = _Lanes(field, np.array(starts, dtype=float), tolerance)
    reached = np.zeros(len(times))
    for k in range(max(map(len, times)) - 1):
        rows = np.array([i for i, t in enumerate(times) if k + 1 < len(t) and not lanes.status[i]], dtype=int)
        if not len(rows):
            break
        gaps = np.array([times[i][k + 1] - times[i][k] for i in rows])
        cubics = np.stack([between[i][k] for i in rows])
        done = lanes.advance(rows, gaps, partial(_between, cubics))
        for i, part in zip(rows, done, strict=True):
            reached[i] = times[i][k] - times[i][0] + part
            if not lanes.status[i]:
                paths[i][k + 1] = lanes.x[i]
    return paths, lanes.status, reached


def driven_path(
    field: DrivenField,
    start: np.ndarray,
    t: np.ndarray,
    u: Callable[[float], np.ndarray],
    tolerance: tuple[float, np.ndarray, np.ndarray],
) -> tuple[np.ndarray, Status, float]:
    """The path (n, d) at increasing times under inputs that are a function of time, its end and last time.

    As `driven_stretches`; no step is longer than a 256th of the record, so that no pulse is missed that is
    as long.
    """
    lanes = _Lanes(field, np.array(start, dtype=float)[None], tolerance, (t[-1] - t[0]) / _PARTS)
    path, reached = np.full((len(t), field.dim), np.nan), float(t[0])
    path[0] = start
    for k in range(len(t) - 1):
        gap = t[k + 1] - t[k]

        def inputs(_: np.ndarray, part: np.ndarray, first: float = t[k], gap: float = gap) -> np.ndarray:
            return np.stack([u(first + float(s) * gap) for s in np.atleast_1d(part)])

        reached = float(t[k] + lanes.advance(np.zeros(1, dtype=int), np.array([gap]), inputs)[0])
        if lanes.status[0]:
            break
        path[k + 1] = lanes.x[0]
    return path, Status(int(lanes.status[0])), reached


def _between(cubics: np.ndarray, rows: np.ndarray, part: np.ndarray) -> np.ndarray:
    return at(cubics[rows], part)


_Inputs = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Inputs (n, m) of some of the stretches under way, at fractions (n,) of their intervals."""


class _Lanes:
    """Stretches under way together, each with its own step."""

    def __init__(
        self,
        field: DrivenField,
        x: np.ndarray,
        tolerance: tuple[float, np.ndarray, np.ndarray],
        longest: float = np.inf,
    ) -> None:
        self.field, self.x, self.longest = field, x, longest
        self.rtol, self.atol, self.bound = tolerance
        self.pair = pair("dop853")
        self.h = np.zeros(len(x))
        self.stiff = np.zeros(len(x), dtype=bool)
        self.status = np.zeros(len(x), dtype=np.int8)

    @np.errstate(all="ignore")
    def advance(self, rows: np.ndarray, gaps: np.ndarray, inputs: _Inputs) -> np.ndarray:
        """Bring stretches to their next samples; how far (len(rows),) each came."""
        done, used = np.zeros(len(rows)), 0
        fresh = self.h[rows] == 0.0
        self.h[rows[fresh]] = gaps[fresh] / 8.0
        active = np.flatnonzero(~self.stiff[rows])
        most = _STEPS_BETWEEN + 2.0 * float(gaps.max()) / self.longest
        while len(active) and used < most:
            used += 1
            rows_under_way, remaining = rows[active], gaps[active] - done[active]
            h = np.minimum(self.h[rows_under_way], self.longest)
            step = np.where(h > remaining * (1.0 - 1e-12), remaining, h)
            begun, width = done[active] / gaps[active], step / gaps[active]
            new, error = self._step(rows_under_way, step, begun, width, partial(inputs, active))
            good = error <= 1.0
            factor = np.where(np.isfinite(error), np.clip(self.pair.step_factor(error), 0.1, 8.0), 0.25)
            grown = step * np.where(good, np.maximum(factor, 0.2), np.minimum(factor, 0.9))
            # a step cut short by a sample says little of the longer ones
            self.h[rows_under_way] = np.where(
                good & (factor >= 1.0), np.maximum(grown, self.h[rows_under_way]), grown
            )
            self.x[rows_under_way[good]] = new[good]
            done[active[good]] = np.where(step == remaining, gaps[active], done[active] + step)[good]
            self.status[rows_under_way[good & (np.abs(new) > self.bound).any(axis=1)]] = Status.LEFT_BOUNDS
            stuck = ~good & (self.h[rows_under_way] < 1e-14 * gaps[active])
            self.status[rows_under_way[stuck]] = np.where(
                np.isfinite(error[stuck]), Status.STEP_TOO_SMALL, Status.NON_FINITE
            )
            active = active[(done[active] < gaps[active]) & (self.status[rows_under_way] == 0)]
        self.stiff[rows[active]] = True
        for i in np.flatnonzero(self.stiff[rows] & (self.status[rows] == 0) & (done < gaps)):
            alone = partial(inputs, np.array([i]))
            done[i] = self._implicit(int(rows[i]), float(done[i]), float(gaps[i]), alone)
        return done

    def _step(
        self,
        rows: np.ndarray,
        step: np.ndarray,
        begun: np.ndarray,
        width: np.ndarray,
        inputs: Callable[[np.ndarray], np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ends (n, d) of one step each, and their errors (n,) in tolerances."""
        x, h, reach = self.x[rows], step[:, None], 0.0
        columns = np.zeros((*x.shape, self.pair.n_stages + 2))
        columns[:, :, 0] = x
        stage = x
        for j, weights in enumerate((*self.pair.stages, self.pair.result)):
            here = inputs(np.minimum(begun + reach * width, 1.0))
            columns[:, :, j + 1] = h * self.field(stage, here)
            stage = np.vecdot(columns[:, :, : len(weights)], weights)
            reach = float(weights[1:].sum())
        scale = self.atol + self.rtol * np.maximum(np.abs(x), np.abs(stage))
        errors = np.vecdot(columns, self.pair.error) / scale
        return stage, self.pair.error_norm(np.vecdot(errors, errors), x.shape[1])

    def _implicit(
        self, row: int, done: float, gap: float, inputs: Callable[[np.ndarray], np.ndarray]
    ) -> float:
        from scipy.integrate import Radau  # deferred, as all of scipy here

        def rates(s: float, x: np.ndarray) -> np.ndarray:
            return self.field(x[None], inputs(np.array([min(s / gap, 1.0)])))[0]

        try:
            longest = min(self.longest, gap)
            solver = Radau(rates, done, self.x[row], gap, longest, rtol=self.rtol, atol=self.atol)
            for _ in range(_STEPS_BETWEEN):
                solver.step()
                if solver.status != "running" or (np.abs(solver.y) > self.bound).any():
                    break
        except ValueError as error:
            if "infs or NaNs" not in str(error):  # what scipy's factorisation says of an overflow
                raise
            self.status[row] = Status.NON_FINITE
            return done
        self.x[row] = solver.y
        if (np.abs(solver.y) > self.bound).any():
            self.status[row] = Status.LEFT_BOUNDS
        elif solver.status != "finished":
            failed = solver.status == "failed"
            self.status[row] = Status.STEP_TOO_SMALL if failed else Status.MAX_STEPS
        return float(solver.t)
