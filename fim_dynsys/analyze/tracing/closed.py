"""One cycle at one parameter value, corrected by collocation on meshes adapted to it."""

from dataclasses import dataclass

import numpy as np

from fim_dynsys.analyze.tracing.collocation import MOST_INTERVALS, UNEVEN, Cycles
from fim_dynsys.analyze.tracing.curve import Linear, Point
from fim_dynsys.analyze.tracing.equations import Equations

_CORRECTIONS = 25  # Newton steps from a guess on one mesh
_ADAPTIONS = 12  # of the mesh to one orbit
_FINEST = 960  # intervals that one stiff orbit may take
_CLOSELY = 1e-9  # relative change of the period from mesh to mesh at which an orbit is as good as it gets
_COARSELY = 1e-6  # for a cycle that a branch begins with
_DEFECT = 1e-9  # of the equation between collocation points, at which one stiff orbit is fine enough


@dataclass(frozen=True)
class ClosedOrbit:
    """A periodic orbit by collocation.

    Attributes
    ----------
    period : float
        Period.
    mesh : ndarray (N + 1,)
        Ends of the intervals as shares of the period.
    nodes : ndarray (N, d)
        States at their left ends.
    transfers : ndarray (N, d, d)
        Derivatives of the states at right ends by those at left ends, both in units of the length scale.
    divergence : float
        Integral of the field's divergence over a period.
    residual : float
        Largest defect of the differential equation between collocation points, by the largest rate.
    samples : ndarray (n + 1, d)
        States at equal times once round.
    """

    period: float
    mesh: np.ndarray
    nodes: np.ndarray
    transfers: np.ndarray
    divergence: float
    residual: float
    samples: np.ndarray


def closed_orbit(
    equations: Equations, times: np.ndarray, states: np.ndarray, p: float, n_samples: int = 512
) -> ClosedOrbit | None:
    """Correct a guess of a cycle at one parameter value on meshes adapted to it, however stiff it is.

    Parameters
    ----------
    equations : Equations
        The family and its units.
    times : ndarray (k,)
        Rising, over one period; the steps of an implicit integrator show where the orbit is steep.
    states : ndarray (k, d)
        States there, the last close to the first.
    p : float
        Parameter value.
    n_samples : int
        Number of equal intervals of time at whose ends states are given back.

    Returns
    -------
    ClosedOrbit or None
        None where Newton's method does not converge.
    """
    outcome = settled(equations, times, states, p, _CLOSELY, _FINEST, _DEFECT)
    if outcome is None:
        return None
    problem, u, linear = outcome
    where = float(u[-1])
    pieces = problem.pieces(u)
    samples = problem.at(np.linspace(0.0, 1.0, n_samples + 1), problem.mesh, pieces)
    return ClosedOrbit(
        period=float(np.exp(u[-2]) * equations.time),
        mesh=problem.mesh,
        nodes=equations.unscaled(pieces[:, 0], where)[0],
        transfers=linear.info.transfers,
        divergence=linear.info.divergence,
        residual=problem.defect(u),
        samples=equations.unscaled(samples, where)[0],
    )


def settled(
    equations: Equations,
    times: np.ndarray,
    states: np.ndarray,
    p: float,
    closely: float = _COARSELY,
    finest: int = MOST_INTERVALS,
    defect: float = np.inf,
) -> tuple[Cycles, np.ndarray, Linear] | None:
    """A corrected cycle at one parameter value on a mesh adapted to it.

    Parameters
    ----------
    equations, times, states, p
        As for `closed_orbit`.
    closely : float
        Relative change of the period from mesh to mesh at which the orbit is known well enough.
    finest : int
        Intervals that it may take.
    defect : float
        Largest defect between collocation points that ends the search before the finest mesh.

    Returns
    -------
    (Cycles, ndarray, Linear) or None
        The problem on its mesh, the unknowns, and the equations linearised there; None where Newton's method
        does not converge.
    """
    period = times[-1] - times[0]
    phase = (times - times[0]) / period
    index = np.linspace(0.0, len(phase) - 1.0, min(finest, 4 * MOST_INTERVALS) + 1)
    problem = Cycles(equations, np.interp(index, np.arange(len(phase)), phase))
    nodes = problem.nodes()
    scaled = (states - equations.centre) / equations.length
    guess = np.column_stack([np.interp(nodes, phase, column) for column in scaled.T])
    where = equations.scaled(states[0], p)[-1]
    u = np.concatenate([guess.ravel(), [np.log(period / equations.time), where]])
    row = np.append(np.zeros(len(u) - 1), 1.0)
    before = np.inf
    for _ in range(_ADAPTIONS):
        problem.refer_to(u)
        for _ in range(_CORRECTIONS):
            delta = problem.linearise(u, row).newton(0.0)
            size = np.sqrt(problem.product(delta, delta))
            if not np.isfinite(size):
                return None
            u = u + delta * min(1.0, 0.5 / size)
            if size < 1e-10 * max(1.0, np.sqrt(problem.product(u, u))):
                break
        else:
            return None
        stands = abs(u[-2] - before) < closely and (problem.defect(u) < defect or len(problem.mesh) > finest)
        before = u[-2]
        linear = problem.linearise(u, row)
        if stands:
            break
        share = problem.density(u) * np.diff(problem.mesh)
        finer = len(share) < finest and share.max() < UNEVEN * share.mean()
        point = problem.moved(Point(u, row, {}, None), share, len(share) * (2 if finer else 1))
        u, row = point.u, np.append(np.zeros(len(point.u) - 1), 1.0)
    else:
        linear = problem.linearise(u, row)
    return problem, u, linear
