"""Paths of programs with sensitivities: error-controlled steps, explicit ones until these turn out stiff.

Sensitivities are the exact derivatives of the computed path: the variational equations are solved by the same
steps, with the Jacobians at the stages. The error of the states alone controls the steps.
"""

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled
from fim_dynsys.regression.kernels.explicit import explicit_slopes, explicit_step, norm, scales
from fim_dynsys.regression.kernels.implicit import ITERATIONS, implicit_slopes, implicit_step
from fim_dynsys.regression.kernels.programs import evaluate, linearise, load

DONE, NOT_FINITE, TOO_MANY, TOO_SMALL = range(4)
_STIFF = 3.0  # product of step and largest rate, about the edge of the explicit pair's stability region
_OFTEN, _SELDOM = 15, 6  # steps at the edge before the method changes, and off it before they are forgotten
_LEAST_STEP = 1e-15  # of the time
_LOOKS = 8  # times in the rest of a gap at which rates are looked at, before a step is called too small
_FAR_MORE = 1e6  # times its size that a state gains in a gap: it was at rest
_NO_TIME = 2e-15  # of the time: stops so close to each other enclose a switch


@compiled
def _first_step(x: np.ndarray, f0: np.ndarray, scale: np.ndarray, gap: float, left: float) -> float:
    """A step over which an explicit Euler step changes the state by a hundredth, in tolerated errors."""
    size, speed = 0.0, 0.0
    for i in range(len(x)):
        if x[i] != 0.0:
            size += (x[i] / scale[i]) ** 2
            speed += (f0[i] / scale[i]) ** 2
    h = 0.01 * np.sqrt(size / speed) if size > 0.0 and speed > 0.0 else 1e-4 * gap
    return min(h, 0.1 * left)


@compiled
def _expect_gains(
    machine: tuple,
    t: float,
    end: float,
    x: np.ndarray,
    curve: np.ndarray,
    began: float,
    rates: np.ndarray,
    largest: np.ndarray,
) -> bool:
    """Raise the largest values (d,) to what rates until the end of a gap promise; whether that is far more.

    A state at rest has no size: errors relative to it are none, and no step across a jump of its rate from
    zero is short enough.
    """
    raised = False
    for look in range(1, _LOOKS + 1):
        ahead = t + (end - t) * look / _LOOKS
        load(machine, ahead, x, curve, ahead - began)
        if not evaluate(machine, rates):
            return False
        for i in range(len(x)):
            gain = abs(rates[i]) * (end - t)
            if gain > _FAR_MORE * largest[i]:
                raised = True
            largest[i] = max(largest[i], gain)
    return raised


@compiled
def follow(
    machine: tuple,
    tables: tuple,
    column: np.ndarray,
    x: np.ndarray,
    s: np.ndarray,
    stops: np.ndarray,
    record: np.ndarray,
    piece: np.ndarray,
    curves: np.ndarray,
    curve_starts: np.ndarray,
    first_event: np.ndarray,
    event_state: np.ndarray,
    event_share: np.ndarray,
    event_share_slope: np.ndarray,
    event_value: np.ndarray,
    event_slope: np.ndarray,
    rtol: float,
    atol: np.ndarray,
    max_steps: int,
    states: np.ndarray,
    slopes: np.ndarray,
    counts: np.ndarray,
) -> int:
    """Follow one experiment; returns how it ended: `DONE`, `NOT_FINITE`, `TOO_MANY` or `TOO_SMALL`.

    Parameters
    ----------
    machine, tables
        See `load`; the tables of the explicit and the implicit method.
    column : int array (q,)
        Sensitivity that each parameter has, -1 where none is wanted.
    x, s : arrays (d,), (d, n)
        First state and its sensitivities; overwritten.
    stops, record, piece : arrays (N,)
        Increasing times that steps end at; the row of ``states`` that each is kept in, or -1; the piece of
        the inputs' curves that begins there.
    curves, curve_starts : arrays (P, 4, m), (P,)
        Cubics of the inputs in the time since each piece's start.
    first_event, event_state, event_share, event_share_slope, event_value, event_slope
        Events ``first_event[j]:first_event[j + 1]`` happen at stop j, after it is kept: of a state a share
        (E,) remains, to which a value (E,) is added; both with derivatives (E, n).
    rtol, atol : float, array (d,)
        Tolerances; see `scales`.
    max_steps : int
        Of one path, rejected ones too.
    states, slopes, counts
        Output: (K, d), (K, d, n); and numbers of explicit, implicit and rejected steps (3,).
    """
    d, n = s.shape
    k, stages, own, moved = np.empty((7, d)), np.empty((7, d)), np.zeros((6, d, n)), np.empty((d, n))
    y, error, scale, f0 = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    z, jac, rates = np.empty((3 * d, 1)), np.zeros((d, d)), np.empty(d)
    largest = np.abs(x)
    stiff, edge, off, used = False, 0, 0, 0
    fresh, fresh_jac = False, False  # whether f0 and jac are those of the present state
    h, t = 0.0, stops[0]
    no_time = _NO_TIME * max(abs(stops[0]), abs(stops[-1]))
    for j in range(len(stops)):
        end, p = stops[j], piece[max(j - 1, 0)]
        curve, began = curves[p], curve_starts[p]
        expected = False
        if end - t <= no_time:  # around a switch, whose sides are both left out
            t, fresh, h = end, False, 0.0
        while t < end:
            if not fresh:
                load(machine, t, x, curve, t - began)
                if not evaluate(machine, f0):
                    return NOT_FINITE
                fresh, fresh_jac = True, False
            if h == 0.0:
                scales(x, x, largest, rtol, atol, scale)
                h = _first_step(x, f0, scale, end - t, stops[-1] - t)
            used += 1
            if used > max_steps:
                return TOO_MANY
            left, step, last = end - t, h, False
            if step >= 0.99 * left:
                step, last = left, True
            elif step > 0.5 * left:
                step = 0.5 * left
            if step < _LEAST_STEP * max(abs(t), abs(end)) and not last:
                if expected or not _expect_gains(machine, t, end, x, curve, began, rates, largest):
                    return TOO_SMALL
                expected, fresh, h = True, False, 0.0
                continue
            if not stiff:
                k[0] = f0
                if not explicit_step(machine, tables[0], t, step, x, curve, t - began, k, stages, error):
                    counts[2] += 1
                    h = 0.1 * step
                    continue
                scales(x, stages[6], largest, rtol, atol, scale)
                size = norm(error, scale)
                factor = min(max(0.9 * max(size, 1e-10) ** -0.2, 0.2), 5.0)
            else:
                if not fresh_jac:
                    load(machine, t, x, curve, t - began)
                    linearise(machine, rates, jac)
                    fresh_jac = True
                size, used_here = implicit_step(
                    machine, tables[1], t, step, x, f0, jac, curve, t - began, largest, rtol, atol, z, y
                )
                safety = 0.9 * (2.0 * ITERATIONS + 1.0) / (2.0 * ITERATIONS + used_here)
                factor = min(max(safety * max(size, 1e-10) ** -0.25, 0.2), 8.0)
            if not size <= 1.0:
                counts[2] += 1
                h = step * (min(factor, 0.9) if np.isfinite(size) else 0.25)
                continue
            if not stiff:
                counts[0] += 1
                scales(x, stages[6], largest, 1.0, atol, scale)
                rise, gap = 0.0, 0.0
                for i in range(d):
                    rise += ((k[6, i] - k[5, i]) / scale[i]) ** 2
                    gap += ((stages[6, i] - stages[5, i]) / scale[i]) ** 2
                if step * step * rise > _STIFF * _STIFF * gap and gap > 0.0:
                    edge, off = edge + 1, 0
                    stiff = edge >= _OFTEN
                else:
                    off += 1
                    edge = 0 if off >= _SELDOM else edge
                if n:
                    explicit_slopes(
                        machine,
                        tables[0],
                        t,
                        step,
                        stages,
                        curve,
                        t - began,
                        column,
                        s,
                        own,
                        moved,
                        jac,
                        rates,
                    )
                fresh_jac = False
                for i in range(d):
                    x[i], f0[i] = stages[6, i], k[6, i]
            else:
                counts[1] += 1
                if not implicit_slopes(
                    machine, tables[1], t, step, x, z, curve, t - began, column, s, f0, jac
                ):
                    return NOT_FINITE
                for i in range(d):
                    x[i] = y[i]
            for i in range(d):
                largest[i] = max(largest[i], abs(x[i]))
            t = end if last else t + step
            h = step * factor if not last or factor < 1.0 else max(h, step * factor)
        if record[j] >= 0:
            states[record[j]] = x
            slopes[record[j]] = s
        for e in range(first_event[j], first_event[j + 1]):
            i = event_state[e]
            s[i] = event_share[e] * s[i] + event_share_slope[e] * x[i] + event_slope[e]
            x[i] = event_share[e] * x[i] + event_value[e]
            largest[i] = max(largest[i], abs(x[i]))
            fresh, h = False, 0.0
        if j and piece[j] != piece[j - 1]:
            fresh = False
    return DONE
