"""Periodic orbits of stiff fields: an implicit integrator finds them, collocation makes them exact."""

import warnings
from collections.abc import Callable

import numpy as np

from fim_dynsys.analyze.cycles.returns import hermite, newton_steps
from fim_dynsys.analyze.cycles.shooting import Floquet, Orbit, Shot
from fim_dynsys.analyze.multipliers import product_eigenvalues
from fim_dynsys.analyze.tracing.closed import closed_orbit
from fim_dynsys.analyze.tracing.equations import Equations
from fim_dynsys.deadline import out_of_time
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.family import FieldFamily
from fim_dynsys.fields.frame import Scales

Inside = Callable[[np.ndarray], np.ndarray]

_LOOKS = (1000, 2000, 4000, 8000)  # steps after which a return is looked for
_RTOL = 1e-8  # linear pieces between its steps are then a guess good enough on a stiff orbit
_CLOSEST = 1e-2  # relative gap of a return that is worth a correction
_LONGEST = 1e12  # time scales
_NEAR_REST = 1e-2  # Newton step to an equilibrium, in length scales
_AT_REST = 1e-6  # extent of the latest steps, in length scales, of a trajectory that has come to rest
_NOTHING_LEFT = -30.0  # logarithm of a multiplier: 1e-13, which rounding hides beside others
_STIFF = 3.0  # product of step and fastest rate: stability, not accuracy, holds an explicit step there
_DAMPED = 0.5  # real part of that rate, by its modulus, at least


def stiff_states(field: VectorField, x: np.ndarray, step: float) -> np.ndarray:
    """At which states explicit steps are held down by stability though no equilibrium is near.

    Parameters
    ----------
    field : VectorField
        The field.
    x : ndarray (n, d)
        States on trajectories.
    step : float
        Mean step that they took.

    Returns
    -------
    ndarray (n,) of bool
    """
    known, to_rest, jac = newton_steps(field, x)
    values = np.linalg.eigvals(jac)
    fastest = np.take_along_axis(values, np.abs(values).argmax(axis=1)[:, None], axis=1)[:, 0]
    held = (np.abs(fastest) * step > _STIFF) & (fastest.real < -_DAMPED * np.abs(fastest))
    return known & held & (to_rest > _NEAR_REST)


def stiff_orbit(
    field: VectorField, x: np.ndarray, inside: Inside, scales: Scales, n_samples: int
) -> tuple[Orbit, np.ndarray] | None:
    """The stable cycle that a state leads to, if it does.

    Parameters
    ----------
    field : VectorField
        The field, with Jacobian.
    x : ndarray (d,)
        Where to start.
    inside : callable
        Of states, where a trajectory may be; one that is elsewhere is given up.
    scales : Scales
        Units of state and time.
    n_samples : int
        Equal intervals of time at whose ends the orbit is sampled.

    Returns
    -------
    (Orbit, ndarray (n_samples + 1, d)) or None
        The orbit, its nodes at the mesh of the collocation, and samples.
    """
    found = _return(field, x, inside, scales)
    return None if found is None else _closed(field, *found, scales, n_samples)


def closed_guess(
    field: VectorField, period: float, samples: np.ndarray, scales: Scales, n_samples: int
) -> tuple[Orbit, np.ndarray] | None:
    """An orbit that is known roughly, by collocation on a mesh adapted to it.

    Parameters
    ----------
    field : VectorField
        The field, with Jacobian.
    period : float
        Guess of the period.
    samples : ndarray (k, d)
        States at equal intervals of time once round, the last close to the first.
    scales : Scales
        Units of state and time.
    n_samples : int
        Equal intervals of time at whose ends the orbit is sampled.

    Returns
    -------
    (Orbit, ndarray (n_samples + 1, d)) or None
        None where Newton's method does not converge.
    """
    return _closed(field, np.linspace(0.0, period, len(samples)), samples, scales, n_samples)


def _closed(
    field: VectorField, times: np.ndarray, states: np.ndarray, scales: Scales, n_samples: int
) -> tuple[Orbit, np.ndarray] | None:
    family = FieldFamily.from_callable(
        lambda x, p: field(x),
        field.dim,
        jac=lambda x, p: field.jacobian(x),
        dp=lambda x, p: np.zeros_like(x),
        scales=scales,
    )
    closed = closed_orbit(Equations(family, (0.0, 1.0), None), times, states, 0.0, n_samples)
    if closed is None:
        return None
    shot = Shot(np.zeros_like(closed.nodes), closed.transfers, field(closed.nodes), closed.divergence, False)
    orbit = Orbit(
        closed.nodes[0], closed.period, closed.nodes, closed.residual, True, 0.0, 0, shot, scales.length
    )
    return orbit, closed.samples


def stiff_multipliers(orbit: Orbit) -> Floquet:
    """Floquet multipliers; the smallest by the divergence, in the plane and where nothing is left of it.

    Implicit steps damp a fast direction, but not as fast as the flow does. Where the divergence gives the
    smallest, it checks nothing: closure and the trivial multiplier do.

    The trivial one is an eigenvalue of the transfers' product. The field at the nodes does not tell it:
    across a slow manifold it is a thousand times the error of a node and more.

    Parameters
    ----------
    orbit : Orbit
        From `stiff_orbit`.

    Returns
    -------
    Floquet
    """
    values, logs = product_eigenvalues(orbit.shot.transition)
    trivial = int(np.argmin(np.abs(values - 1.0)))
    order = np.concatenate([[trivial], np.delete(np.arange(len(values)), trivial)])
    values, logs = values[order], logs[order]
    divergence = orbit.shot.divergence
    if len(values) == 2:
        values[1], logs[1] = np.exp(divergence), divergence
    else:
        last = int(np.argmin(logs))
        rest = divergence - np.delete(logs, last).sum()
        if max(logs[last], rest) < _NOTHING_LEFT:
            values[last], logs[last] = np.exp(rest), rest
    return Floquet(values, logs, float(abs(values[0] - 1.0)), float(abs(logs.sum() - divergence)))


def _return(
    field: VectorField, x: np.ndarray, inside: Inside, scales: Scales
) -> tuple[np.ndarray, np.ndarray] | None:
    """Times and states of one loop of a trajectory that has come back to its end."""
    from scipy.integrate import LSODA  # deferred, as most fields are not stiff

    length = scales.length
    solver = LSODA(
        lambda t, y: field(y * length) / length,
        0.0,
        x / length,
        _LONGEST * scales.time,
        rtol=_RTOL,
        atol=1e-3 * _RTOL,
        jac=lambda t, y: field.jacobian(y * length) * (length / length[:, None]),
    )
    times, states = [0.0], [x / length]
    for looks in _LOOKS:
        while len(times) < looks:
            if out_of_time():
                return None
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # LSODA words its failures; the status says it
                solver.step()
            if solver.status != "running" or not inside(solver.y * length):
                return None
            times.append(solver.t)
            states.append(solver.y.copy())
        if np.ptp(states[-looks // 4 :], axis=0).max() < _AT_REST:
            return None
        loop = _loop(np.array(times), np.array(states), field, length)
        if loop is not None:
            return loop
    return None


def _loop(
    t: np.ndarray, y: np.ndarray, field: VectorField, length: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """The last loop of a path from near its end back to it, in units of the state."""
    velocity = field(y * length) / length
    normal = velocity[-1] / np.linalg.norm(velocity[-1])
    height = (y - y[-1]) @ normal
    away = np.linalg.norm(y - y[-1], axis=1)
    size = np.maximum.accumulate(away[::-1])[::-1]
    for i in np.flatnonzero((height[:-2] < 0) & (height[1:-1] >= 0))[::-1]:
        step = t[i + 1] - t[i]
        theta = -height[i] / (height[i + 1] - height[i])
        place = hermite(np.array([[theta]]), y[i], y[i + 1], step * velocity[i], step * velocity[i + 1])[0]
        if size[i] > 0 and np.linalg.norm(place - y[-1]) < _CLOSEST * size[i]:
            times = np.concatenate([[t[i] + theta * step], t[i + 1 :]])
            return times, np.concatenate([[place], y[i + 1 :]]) * length
    return None
