"""Multiple shooting: one periodic orbit corrected by Newton's method, and its Floquet multipliers."""

from dataclasses import dataclass, replace

import numpy as np

from fim_dynsys.analyze.multipliers import product_eigenvalues
from fim_dynsys.analyze.tangent import carry
from fim_dynsys.fields.base import VectorField
from fim_dynsys.simulation.solution import integrate

RTOL = 1e-11
"""Relative tolerance of every integration behind a corrected orbit."""
CLOSED = 1e-8
"""Largest defect of an accepted orbit, relative to the length scale."""
_CLOSED_AS_KNOWN = 0.1 * RTOL  # the defect that no further step can better for sure
_STAGNATION = 0.5  # a closed orbit whose defect is not halved has reached what the integration leaves
# Iterations after which the defect of one that does not close yet is halved at least: damped steps that
# win a percent each lead nowhere.
_PATIENCE = 4
_HALVINGS = 6  # a step of a 64th that does not help points nowhere
_ROUGH_RTOL = 1e-7  # of the first pass, and of trials from a larger defect than the next
_RESTING = 1e-3  # share of the largest extent that is the length of a state which hardly moves along an orbit
_ROUGH = 1e-2  # length scales: a Newton step from there leaves 1e-4
# Steps of a segment: in the first pass, and by those of the pass before. A trial that needs more runs into
# a pole or a stiff corner; finer tolerances take three times the steps.
_MOST_STEPS, _MORE_STEPS, _FEW_STEPS = 10_000, 5, 20
_STRETCH = 4.0  # a step that changes the period more than this is none: near a fixed point it knows no bounds
_FLATTEST = 1e-5  # a transition known to 1e-11 still has its smallest singular value to six digits
_MOST_NODES = 512  # in the plane the shooting matrix is then 1,025 squared
_SMALLEST_SINGULAR = 1e-9  # below it, relative, an orbit has a neighbour that is closed too


@dataclass(frozen=True, eq=False)
class Shot:
    """One pass along the segments of an approximate periodic orbit.

    Attributes
    ----------
    defect : ndarray (m, d)
        End of each segment less the next node, in units of the state.
    transition : ndarray (m, d, d)
        Derivative of the end of each segment by its start, with both in units of the length scale.
    velocity : ndarray (m, d)
        Field at the end of each segment.
    divergence : float
        Integral of the field's divergence along all segments.
    failed : bool
        Whether a segment could not be integrated.
    n_steps : int
        Steps of the segment that took most.
    """

    defect: np.ndarray
    transition: np.ndarray
    velocity: np.ndarray
    divergence: float
    failed: bool
    n_steps: int = 0


@dataclass(frozen=True, eq=False)
class Orbit:
    """A periodic orbit as a chain of nodes at equal intervals of time.

    Attributes
    ----------
    x : ndarray (d,)
        The first node.
    period : float
        Period, positive.
    nodes : ndarray (m, d)
        States at times 0, period / m, ..., period (m - 1) / m.
    residual : float
        Largest defect between segments, relative to the length scale.
    converged : bool
        Whether the residual is at most `CLOSED`.
    step : float
        Largest change that one more iteration would make to a node, relative to the length scale.
    iterations : int
        Newton iterations.
    shot : Shot
        The last pass, linearised about these nodes.
    length : ndarray (d,)
        The length scale.
    """

    x: np.ndarray
    period: float
    nodes: np.ndarray
    residual: float
    converged: bool
    step: float
    iterations: int
    shot: Shot
    length: np.ndarray

    @property
    def monodromy(self) -> np.ndarray:
        """Derivative of the return of `x` by `x`, ``(d, d)``, in units of the state."""
        product = np.eye(len(self.x))
        for transition in self.shot.transition:
            product = transition @ product
        return product * (self.length[:, None] / self.length)


def shoot(
    field: VectorField,
    nodes: np.ndarray,
    period: float,
    length: np.ndarray,
    rtol: float = RTOL,
    max_steps: int = _MOST_STEPS,
) -> Shot:
    """Carry every node of a closed chain for its share of the period.

    Parameters
    ----------
    field : VectorField
        The field.
    nodes : ndarray (m, d)
        States at equal intervals of time.
    period : float
        Time once round.
    length : ndarray (d,)
        Unit of each state.
    rtol : float
        Relative tolerance of the integration.
    max_steps : int
        Steps that a segment may take.

    Returns
    -------
    Shot
    """
    m, d = nodes.shape
    start = np.broadcast_to(np.eye(d), (m, d, d))
    end = carry(field, nodes, start, period / m, length, rtol, max_steps)
    return Shot(
        end.x - np.roll(nodes, -1, axis=0),
        end.vectors,
        field(end.x),
        float(end.divergence.sum()),
        bool(end.failed.any() or not np.isfinite(end.vectors).all()),
        end.n_steps,
    )


def correct_orbit(
    field: VectorField,
    nodes: np.ndarray,
    period: float,
    length: np.ndarray | None = None,
    max_iterations: int = 20,
) -> Orbit:
    """Correct an approximate periodic orbit by Newton's method on multiple shooting.

    Unknown are all nodes and the period; the first node stays in the hyperplane through its first guess
    normal to the flow. Where the orbit is one of a family, the correction of least norm is taken, so that
    the nearest member is found.

    Parameters
    ----------
    field : VectorField
        The field.
    nodes : ndarray (m, d)
        Guess at equal intervals of time. One node is single shooting; with more of them, stiff and strongly
        unstable orbits are no harder than others.
    period : float
        Guess of the period, positive.
    length : ndarray (d,), optional
        Unit of each state, to which tolerances are relative; default the field's length scale.
    max_iterations : int
        Largest number of iterations.

    Returns
    -------
    Orbit
        The last of the iterates, each closer than the one before; check `converged`.

    References
    ----------
    R. Seydel: Practical Bifurcation and Stability Analysis, 3rd ed., Springer 2010, sections 7.1 to 7.5.
    """
    length = field.scales.length if length is None else length
    nodes, period = np.array(nodes, dtype=float), float(period)
    normal = field(nodes[0]) / length
    normal /= np.linalg.norm(normal)
    shot = shoot(field, nodes, period, length, _ROUGH_RTOL)
    residuals, iterations, is_rough = [_worst(shot, length)], 0, True
    while np.isfinite(residuals[-1]) and iterations < max_iterations:
        iterations += 1
        rough_trial = residuals[-1] > _ROUGH
        better = _damped_step(
            field, nodes, period, shot, normal, length, _ROUGH_RTOL if rough_trial else RTOL
        )
        if better is None:
            break
        is_rough = rough_trial
        nodes, period, shot = better
        residuals.append(_worst(shot, length))
        back = 1 if residuals[-1] <= CLOSED else _PATIENCE
        if iterations >= back and residuals[-1] >= _STAGNATION * residuals[-1 - back]:
            break
        if residuals[-1] <= _CLOSED_AS_KNOWN and not is_rough:
            break
    residual = residuals[-1]
    if is_rough and residual <= CLOSED:
        shot = shoot(field, nodes, period, length)
        residual = _worst(shot, length)
    step = np.inf
    if residual <= CLOSED:
        step = float(np.abs(_newton_step(shot, normal, period, length)[0] / length).max())
    return Orbit(nodes[0], period, nodes, residual, residual <= CLOSED, step, iterations, shot, length)


def _worst(shot: Shot, length: np.ndarray) -> float:
    return np.inf if shot.failed else float(np.abs(shot.defect / length).max())


def _damped_step(
    field: VectorField,
    nodes: np.ndarray,
    period: float,
    shot: Shot,
    normal: np.ndarray,
    length: np.ndarray,
    rtol: float,
) -> tuple[np.ndarray, float, Shot] | None:
    """The full Newton step or the longest of its halves that leaves a smaller defect; None if none does."""
    step, change = _newton_step(shot, normal, period, length)
    worst = _worst(shot, length)
    most = _MORE_STEPS * shot.n_steps + _FEW_STEPS
    for _ in range(1 if worst <= CLOSED else _HALVINGS):
        trial, time = nodes + step, period + change
        if np.isfinite(trial).all() and period / _STRETCH < time < period * _STRETCH:
            better = shoot(field, trial, time, length, rtol, most)
            if _worst(better, length) < worst:
                return trial, time, better
        step, change = step / 2, change / 2
    return None


def refined(field: VectorField, orbit: Orbit) -> Orbit:
    """The same orbit on so many nodes that no segment contracts beyond what its transition can tell.

    Parameters
    ----------
    field : VectorField
        The field.
    orbit : Orbit
        From `correct_orbit`.

    Returns
    -------
    Orbit
    """
    while len(orbit.nodes) < _MOST_NODES and orbit.converged and _flattest(orbit.shot) < _FLATTEST:
        nodes = trace_orbit(field, orbit, 2 * len(orbit.nodes))[:-1]
        finer = correct_orbit(field, nodes, orbit.period, orbit.length, max_iterations=3)
        orbit = replace(finer, iterations=orbit.iterations + finer.iterations)
    return orbit


def _flattest(shot: Shot) -> float:
    return np.linalg.svd(shot.transition, compute_uv=False).min()


def lengths_of(orbit: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Length scales (d,) of an orbit (k, d): its extents, or a share of the largest where a state rests.

    Parameters
    ----------
    orbit : ndarray (k, d)
        States of the orbit.
    size : ndarray (d,)
        Of a region, which says how the units of the states compare.
    """
    extent = np.ptp(orbit, axis=0)
    return np.maximum(extent, _RESTING * float((extent / size).max()) * size)


def shooting_matrix(shot: Shot, normal: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Derivative of all defects and of the phase condition by all nodes and the period, scaled by length.

    Parameters
    ----------
    shot : Shot
        The pass to linearise.
    normal : ndarray (d,)
        Unit normal of the hyperplane that holds the first node, in units of length.
    length : ndarray (d,)
        Unit of each state.

    Returns
    -------
    ndarray (m d + 1, m d + 1)
        Rows: defects segment by segment, phase; columns: nodes one by one, time per segment.
    """
    m, d, _ = shot.transition.shape
    matrix = np.zeros((m * d + 1, m * d + 1))
    for k in range(m):
        rows, after = slice(k * d, (k + 1) * d), (k + 1) % m
        matrix[rows, k * d : (k + 1) * d] += shot.transition[k]
        matrix[rows, after * d : (after + 1) * d] -= np.eye(d)
        matrix[rows, -1] = shot.velocity[k] / length
    matrix[-1, :d] = normal
    return matrix


def _newton_step(
    shot: Shot, normal: np.ndarray, period: float, length: np.ndarray
) -> tuple[np.ndarray, float]:
    """Changes of the nodes ``(m, d)`` and of the period."""
    m, d = shot.defect.shape
    # Time per segment is measured in whole periods, so that its column is as large as the others.
    matrix = shooting_matrix(shot, normal, length)
    matrix[:, -1] *= period
    right = np.append(-(shot.defect / length).ravel(), 0.0)
    solution = np.linalg.lstsq(matrix, right, rcond=_SMALLEST_SINGULAR)[0]
    return solution[:-1].reshape(m, d) * length, solution[-1] * period * m


# -------------------------------------------------------------------- Floquet multipliers


@dataclass(frozen=True, eq=False)
class Floquet:
    """Floquet multipliers of a periodic orbit.

    Attributes
    ----------
    multipliers : ndarray (d,) complex
        Trivial one first, then by falling modulus; 0 where one is too small for a floating point number.
    log_moduli : ndarray (d,)
        Their logarithms of modulus, finite all the same.
    trivial_error : float
        |mu - 1| of the multiplier that should be 1.
    liouville_error : float
        Difference between the sum of the logarithms and the integral of the divergence over a period.
    """

    multipliers: np.ndarray
    log_moduli: np.ndarray
    trivial_error: float
    liouville_error: float


def floquet(field: VectorField, orbit: Orbit) -> Floquet:
    """Floquet multipliers of a corrected orbit, with two checks.

    At each node the flow's direction is split off, which leaves the multiplier 1; the others are eigenvalues
    of the product of the transversal blocks, found by repeated QR decompositions along the orbit, so that
    the smallest is as accurate, relative to itself, as the largest.

    Parameters
    ----------
    field : VectorField
        The field.
    orbit : Orbit
        From `correct_orbit`.

    Returns
    -------
    Floquet

    References
    ----------
    K. Lust: Improved numerical Floquet multipliers, Int. J. Bifurcation and Chaos 11 (2001) 2389.
    """
    flow = field(orbit.nodes) / orbit.length
    speed = np.linalg.norm(flow, axis=1)
    bases = np.linalg.qr(flow[:, :, None], mode="complete").Q
    bases[:, :, 0] = flow / speed[:, None]
    moved = np.swapaxes(np.roll(bases, -1, axis=0), 1, 2) @ orbit.shot.transition @ bases
    along = np.sum(np.log(np.abs(moved[:, 0, 0])))
    values, logs = product_eigenvalues(moved[:, 1:, 1:])
    order = np.argsort(-logs, kind="stable")
    log_moduli = np.concatenate([[along], logs[order]])
    return Floquet(
        np.concatenate([[np.exp(along)], values[order]]),
        log_moduli,
        float(abs(np.expm1(along))),
        float(abs(log_moduli.sum() - orbit.shot.divergence)),
    )


def trace_orbit(field: VectorField, orbit: Orbit, n: int) -> np.ndarray:
    """States at `n` + 1 equal intervals of time once round, the last one close to the first.

    Every segment is integrated from its own node, so that an unstable orbit is traced as well as another.

    Parameters
    ----------
    field : VectorField
        The field.
    orbit : Orbit
        From `correct_orbit`.
    n : int
        Number of intervals, a multiple of the number of nodes.

    Returns
    -------
    ndarray (n + 1, d)
    """
    m, d = orbit.nodes.shape
    share = np.linspace(0.0, orbit.period / m, n // m + 1)
    x = integrate([field], orbit.nodes, share, rtol=RTOL, atol=RTOL * orbit.length).x
    return np.concatenate([x[:, :-1].reshape(-1, d), x[-1:, -1]])
