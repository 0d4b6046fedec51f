"""Phases round a cycle: their response to small shifts, and the phase of states that come to it."""

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline

from fim_dynsys.analyze.cycles.shooting import Shot
from fim_dynsys.fields.base import VectorField
from fim_dynsys.simulation.problem import Status
from fim_dynsys.simulation.solution import AUTO, integrate

_RTOL = 1e-9  # of a step
_NEAR = 1e-4  # distance from the cycle, by its size, at which its linear neighbourhood holds to 1e-8
_DECAYED = np.log(1e-9)  # what distances from the cycle shrink to while a phase is read
_MOST_PERIODS = 200  # over which the adjoint settles: an orbit that attracts more slowly has no clear phase
_STEPS_OF_A_PERIOD = 1_000  # on average, while states are followed; textbook cycles take some hundred


def adjoint_response(shot: Shot, flow: np.ndarray, length: np.ndarray, period: float) -> np.ndarray:
    """Gradient of the phase at the nodes of a cycle, from the adjoint of its transitions.

    Solves Z_k = transition_k^T Z_{k+1} round the cycle with Z . f = 1 / period, in least squares.

    Parameters
    ----------
    shot : Shot
        A pass along the m segments between the nodes.
    flow : ndarray (m, d)
        Field at the nodes.
    length : ndarray (d,)
        Unit of each state in the transitions.
    period : float
        Once round.

    Returns
    -------
    ndarray (m, d)
        In periods per unit of each state.

    References
    ----------
    G. B. Ermentrout, D. H. Terman: Mathematical Foundations of Neuroscience, Springer 2010, section 8.2.
    """
    m, d, _ = shot.transition.shape
    matrix = np.zeros((m * d + m, m * d))
    for k in range(m):
        rows, after = slice(k * d, (k + 1) * d), (k + 1) % m
        matrix[rows, rows] += np.eye(d)
        matrix[rows, after * d : (after + 1) * d] -= shot.transition[k].T
        matrix[m * d + k, rows] = flow[k] / length * period
    right = np.concatenate([np.zeros(m * d), np.ones(m)])
    solution = np.linalg.lstsq(matrix, right, rcond=None)[0]
    return solution.reshape(m, d) / length


@dataclass(frozen=True, eq=False)
class PhaseMap:
    """Asymptotic phases of states in the basin of a stable cycle.

    Attributes
    ----------
    field : VectorField
        The field.
    orbit : ndarray (k + 1, d)
        The cycle at equal times, the last equal to the first.
    response : ndarray (k + 1, d)
        Gradient of the phase there, in periods per unit of each state.
    length : ndarray (d,)
        Length scale of each state.
    period : float
        Its period.
    slowest : float
        Logarithm of the modulus of its largest multiplier but the trivial one, negative.
    """

    field: VectorField
    orbit: np.ndarray
    response: np.ndarray
    length: np.ndarray
    period: float
    slowest: float

    @property
    def turns(self) -> int:
        """Periods over which states are followed: until they are on the cycle."""
        return int(np.clip(np.ceil(_DECAYED / self.slowest), 2, _MOST_PERIODS))

    def phases(self, x: np.ndarray) -> np.ndarray:
        """Phases in [0, 1) of states (n, d): NaN for those that do not come to the cycle in time.

        States are followed for whole periods, after which they have the phase that they began with, and that
        is read where they are close to the cycle.
        """
        t = np.array([0.0, self.turns * self.period])
        steps = self.turns * _STEPS_OF_A_PERIOD
        solution = integrate([self.field], x, t, rtol=_RTOL, method=AUTO, max_steps=steps)
        phases = np.full(len(x), np.nan)
        arrived = np.flatnonzero(solution.status == Status.SUCCESS)
        phases[arrived] = self._near(solution.x_stop[arrived])
        return phases

    def _near(self, x: np.ndarray) -> np.ndarray:
        """Phases of states close to the cycle, NaN for others."""
        share = np.linspace(0.0, 1.0, len(self.orbit))
        path = CubicSpline(share, np.concatenate([self.orbit[:-1], self.orbit[:1]]), bc_type="periodic")
        gradient = CubicSpline(
            share, np.concatenate([self.response[:-1], self.response[:1]]), bc_type="periodic"
        )
        away = np.linalg.norm((x[:, None] - self.orbit[:-1]) / self.length, axis=2)
        phase = share[away.argmin(axis=1)]
        for _ in range(3):  # the gradient is that of the phase: each pass squares the error
            phase = phase + np.sum(gradient(phase % 1.0) * (x - path(phase % 1.0)), axis=1)
        off = np.linalg.norm((x - path(phase % 1.0)) / self.length, axis=1)
        return np.where(off < _NEAR, phase % 1.0, np.nan)
