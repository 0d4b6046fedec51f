"""Near returns of simulated trajectories to themselves: guesses of periodic orbits."""

from enum import Enum, auto
from typing import NamedTuple

import numpy as np

from fim_dynsys.analyze.cycles.charts import Chart
from fim_dynsys.fields.base import VectorField
from fim_dynsys.simulation.problem import Status
from fim_dynsys.simulation.solution import integrate

_SAMPLES_PER_UNIT = 10  # of the time scale: some sixty a turn, cubics between them find crossings to 1e-6
_MOST_SAMPLES = 4000  # a tenth of a MB per trajectory, and still some sixty of the longest paths' loops
_HALVINGS, _SECANTS = 8, 4  # of a step that holds a crossing: it is then known better than the path
_SCOUT_RTOL = 1e-6  # a guess for Newton's method needs no more
SMALLEST = 1e-4
"""Size of the smallest loops, in length scales: lesser ones are those of a focus not yet at rest."""
ESCAPE = 100.0
"""Multiples of the length scale; what goes further out is outside any box of interest too."""


class FlightEnd(Enum):
    """How one window of a trajectory ended."""

    GOING = auto()
    REST = auto()
    LEFT = auto()
    SINGULAR = auto()
    SLIDING = auto()
    OUT_OF_STEPS = auto()
    OUT_OF_TIME = auto()


_ENDS = {
    Status.SUCCESS: FlightEnd.GOING,
    Status.EVENT: FlightEnd.LEFT,
    Status.LEFT_BOUNDS: FlightEnd.LEFT,
    Status.NON_FINITE: FlightEnd.SINGULAR,
    Status.STEP_TOO_SMALL: FlightEnd.SINGULAR,
    Status.MAX_STEPS: FlightEnd.OUT_OF_STEPS,
    Status.OUT_OF_TIME: FlightEnd.OUT_OF_TIME,
}


class Flight(NamedTuple):
    """Trajectories over one window of time, those that stayed in the box and still move."""

    rows: np.ndarray  # (k,), which of the starts
    x: np.ndarray  # (k, m, d)
    velocity: np.ndarray  # (k, m, d), along the direction of travel
    step: float  # time between samples, positive
    ends: list[FlightEnd]  # of all starts
    stride: float  # mean step of the integrator
    stopped: np.ndarray  # (n, d), where those that did not leave were last

    def path_length(self, i: int, length: np.ndarray) -> float:
        """Length of the path of trajectory i, as a multiple of its largest extent along a state."""
        speed = np.linalg.norm(self.velocity[i] / length, axis=1)
        return float(speed.sum() * self.step / (np.ptp(self.x[i], axis=0) / length).max())


class Return(NamedTuple):
    """A trajectory's latest near return to where it ended."""

    x: np.ndarray  # (d,), where it crossed the section through its end
    period: float
    gap: float  # distance from the end, relative to the size of the loop
    size: float  # largest distance from the end during the loop, in length scales


def fly(chart: Chart, x: np.ndarray, direction: int, window: float, max_steps: int) -> Flight:
    """Integrate for one window of time, forwards (direction 1) or backwards (-1).

    Parameters
    ----------
    chart : Chart
        The field and its coordinates; a trajectory that leaves its box is given up.
    x : ndarray (n, d)
        Starts, in these coordinates.
    direction : {1, -1}
        Direction of time.
    window : float
        Duration, positive.
    max_steps : int
        Steps a trajectory may take.

    Returns
    -------
    Flight
    """
    field = chart.field
    n_samples = min(_MOST_SAMPLES, int(np.ceil(_SAMPLES_PER_UNIT * window / field.scales.time)))
    t = direction * np.linspace(0.0, window, n_samples + 1)
    solution = integrate(
        [field],
        x,
        t,
        rtol=_SCOUT_RTOL,
        escape=chart.escape,
        max_steps=max_steps,
        until=lambda z: chart.ends(z, direction),
    )
    ends = np.array([_ENDS[Status(int(status))] for status in solution.status], dtype=object)
    stopped = np.flatnonzero(solution.status == Status.EVENT)
    ends[stopped[chart.inside(solution.x_stop[stopped])]] = FlightEnd.SLIDING
    rows = np.flatnonzero(solution.status == Status.SUCCESS)
    velocity = direction * field(solution.x[rows])
    moving = np.linalg.norm(velocity[:, -1] / field.scales.speed, axis=1) > 10 * _SCOUT_RTOL
    # Slow by the field's mean speed is at rest only where an equilibrium is near; small cycles are slow too.
    slow = np.flatnonzero(~moving)
    if len(slow):
        known, steps, _ = newton_steps(field, solution.x[rows[slow], -1])
        moving[slow] = known & (steps > SMALLEST)
    ends[rows[~moving]] = FlightEnd.REST
    return Flight(
        rows[moving],
        solution.x[rows[moving]],
        velocity[moving],
        window / n_samples,
        list(ends),
        float(np.abs(solution.t_stop).sum() / max(1, solution.n_steps.sum())),
        solution.x_stop[np.isin(solution.status, (Status.SUCCESS, Status.MAX_STEPS))],
    )


def newton_steps(field: VectorField, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Newton steps from states ``(n, d)`` to an equilibrium, in lengths, and Jacobians in units of them.

    Parameters
    ----------
    field : VectorField
        The field.
    x : ndarray (n, d)
        States.

    Returns
    -------
    known : ndarray (n,) of bool
        Where the field and its Jacobian are finite.
    steps : ndarray (n,)
        Lengths of the shortest steps that solve the linearised equations.
    jac : ndarray (n, d, d)
        Jacobians; the identity where they are not finite.
    """
    length = field.scales.length
    jac = field.jacobian(x) * (length / length[:, None])
    f = field(x) / length
    known = np.isfinite(jac).all(axis=(1, 2)) & np.isfinite(f).all(axis=1)
    jac = np.where(known[:, None, None], jac, np.eye(x.shape[1]))
    return known, np.linalg.norm(np.linalg.pinv(jac) @ f[:, :, None], axis=(1, 2)), jac


def near_return(
    x: np.ndarray, velocity: np.ndarray, step: float, length: np.ndarray, closest: float
) -> Return | None:
    """The latest return of one trajectory to its end, or None.

    A return crosses the hyperplane through the end normal to the flow in the flow's direction, at most
    `closest` times the size of the loop away from the end.

    Parameters
    ----------
    x, velocity : ndarray (m, d)
        Samples of one trajectory and its rate of change along them.
    step : float
        Time between samples.
    length : ndarray (d,)
        Unit of each state.
    closest : float
        Largest relative gap.

    Returns
    -------
    Return or None
    """
    scaled, speed = x / length, velocity / length
    end = scaled[-1]
    away = np.linalg.norm(scaled - end, axis=1)
    normal = speed[-1] / np.linalg.norm(speed[-1])
    height, slope = (scaled - end) @ normal, speed @ normal * step
    before = np.flatnonzero((height[:-2] < 0) & (height[1:-1] >= 0))
    if not len(before):
        return None
    theta = _hermite_root(height[before], height[before + 1], slope[before], slope[before + 1])
    ends = (scaled[before], scaled[before + 1], step * speed[before], step * speed[before + 1])
    crossing = hermite(theta[:, None], *ends)
    size = np.maximum.accumulate(away[::-1])[::-1][before]
    gap = np.linalg.norm(crossing - end, axis=1) / size
    near = np.flatnonzero(gap <= closest)
    if not len(near):
        return None
    i = near[-1]
    period = (len(x) - 1 - before[i] - theta[i]) * step
    return Return(crossing[i] * length, float(period), float(gap[i]), float(size[i]))


def hermite(theta: np.ndarray, x0: np.ndarray, x1: np.ndarray, v0: np.ndarray, v1: np.ndarray) -> np.ndarray:
    """Cubic through values x0, x1 with slopes v0, v1 per unit of theta, at theta in [0, 1]."""
    rest = 1.0 - theta
    return rest**2 * ((1 + 2 * theta) * x0 + theta * v0) + theta**2 * ((1 + 2 * rest) * x1 - rest * v1)


def _hermite_root(h0: np.ndarray, h1: np.ndarray, s0: np.ndarray, s1: np.ndarray) -> np.ndarray:
    """Where the cubics rise through zero, by bisection and secants within its bracket: h0 < 0 <= h1."""
    low, high = np.zeros(len(h0)), np.ones(len(h0))
    below, above = h0, h1
    for number in range(_HALVINGS + _SECANTS):
        share = 0.5 if number < _HALVINGS else below / (below - above)
        middle = low + share * (high - low)
        value = hermite(middle, h0, h1, s0, s1)
        left = value < 0
        low, high = np.where(left, middle, low), np.where(left, high, middle)
        below, above = np.where(left, value, below), np.where(left, above, value)
    return np.where(-below < above, low, high)
