"""Twenty driven textbook systems, and the kinds of inputs under which they are observed and predicted."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.integrate import solve_ivp

from fim_dynsys.trajectories.container import Trajectories

SAMPLES, RECORDS = 30, 2
KINDS = ("ramps", "steps", "pulses", "square waves", "sampled and held")
"""Of inputs; see `Driven`."""

_SPAN = 12.0  # paces in one record
_FUTURE, _ASKED = 15.0, 150  # paces that are predicted, and samples in them
_WAVES = 4
_RAMP = 0.8  # paces from one level to the next
_HELD = 60  # samples where inputs jump
_ON, _PERIOD, _EVERY = 3, (10, 16), 3  # samples: of a pulse, of a square wave's period, of a held value
_PULSES = 4


@dataclass(frozen=True)
class Driven:
    """One system: rates ``f(x, u)`` of states and inputs, and where it is observed.

    Attributes
    ----------
    name, source : str
        The system, and a textbook or paper that has it.
    rates : callable
        ``rates(x, u)`` gives the d rates of one state.
    starts : tuple of (float, ...)
        First states of the two records and of the prediction.
    levels : tuple of (float, float)
        Range of each input.
    pace : float
        A typical time of the system: records last twelve of them, what is predicted fifteen.
    kind : str
        Of the inputs of the records. "ramps": waves in one, levels with ramps between them in the other, 30
        samples. All others jump from sample to sample and are held in between, 60 samples: "steps" to levels
        that hold for ten samples in the mean, four "pulses" of three samples in each record, "square waves"
        of ten and of sixteen samples, and waves that are "sampled and held" for three samples.
    """

    name: str
    source: str
    rates: Callable[[np.ndarray, np.ndarray], list]
    starts: tuple[tuple[float, ...], ...]
    levels: tuple[tuple[float, float], ...]
    pace: float = 1.0
    kind: str = KINDS[0]

    @property
    def dim(self) -> int:
        """Number of states."""
        return len(self.starts[0])

    @cached_property
    def times(self) -> list[np.ndarray]:
        """Times (n,) of the samples of the two records, and those at which the prediction is asked for."""
        seen = np.linspace(0.0, _SPAN * self.pace, SAMPLES if self.kind == KINDS[0] else _HELD)
        return [seen] * RECORDS + [np.linspace(0.0, _FUTURE * self.pace, _ASKED)]

    @cached_property
    def paths(self) -> list[np.ndarray]:
        """Clean paths (n, d) there."""
        return [self._path(start, k) for k, start in enumerate(self.starts)]

    @cached_property
    def inputs(self) -> list[np.ndarray]:
        """Inputs (n, m) there; the last are new."""
        return [np.stack([self._input(k, time) for time in t]) for k, t in enumerate(self.times)]

    def context(self, sigma: float, seed: int) -> Trajectories:
        """Two records with additive noise of ``sigma`` standard deviations of each state, and inputs."""
        clean = np.stack(self.paths[:RECORDS])
        spread = clean.reshape(-1, self.dim).std(axis=0)
        noise = sigma * spread * self._generator(f"noise {seed}").standard_normal(clean.shape)
        return Trajectories.from_arrays(list(clean + noise), self.times[:RECORDS], u=self.inputs[:RECORDS])

    def digest(self) -> str:
        """A digest of the data; a cache answers for the same data only."""
        arrays = (*self.times, *self.paths, *self.inputs)
        return hashlib.sha256(b"".join(np.round(a, 9).tobytes() for a in arrays)).hexdigest()[:16]

    def _path(self, start: tuple[float, ...], record: int) -> np.ndarray:
        if self.kind != KINDS[0] and record < RECORDS:
            return self._held_path(start, record)
        solution = solve_ivp(
            lambda t, x: self.rates(x, self._input(record, t)),
            (0.0, self.times[record][-1]),
            start,
            t_eval=self.times[record],
            method="LSODA",
            rtol=1e-9,
            atol=1e-10,
            max_step=0.1 * self.pace,
        )
        return solution.y.T

    def _held_path(self, start: tuple[float, ...], record: int) -> np.ndarray:
        """The path under an input that is held from each sample to the next, from jump to jump."""
        t, u = self.times[record], self.inputs[record]
        path = np.array([start], dtype=float)
        jumps = np.flatnonzero((np.diff(u, axis=0) != 0.0).any(axis=1)) + 1
        for first, last in pairwise([0, *jumps, len(t) - 1]):
            if first < last:
                solution = solve_ivp(
                    lambda _, x, own=u[first]: self.rates(x, own),
                    (t[first], t[last]),
                    path[-1],
                    t_eval=t[first + 1 : last + 1],
                    method="LSODA",
                    rtol=1e-9,
                    atol=1e-10,
                )
                path = np.concatenate([path, solution.y.T])
        return path

    def _input(self, record: int, t: float) -> np.ndarray:
        """In records of their kind, for ramps waves, then levels; in what is predicted a chirp on levels."""
        own = self._signals[record]
        values = [low + (high - low) * own[j](t) for j, (low, high) in enumerate(self.levels)]
        return np.array(values)

    @cached_property
    def _signals(self) -> list[list[Callable[[float], float]]]:
        held, made = _HELD_KINDS.get(self.kind), []
        for record, kind in enumerate((_waves, _steps, _chirp)):
            asked = held is None or record == RECORDS
            rng = self._generator(f"input {record}" if asked else f"{self.kind} {record}")
            made.append(
                [kind(rng, self.pace) if asked else self._held(held, rng, record) for _ in self.levels]
            )
        return made

    def _held(self, kind: Callable, rng: np.random.Generator, record: int) -> Callable[[float], float]:
        """An input that is held from sample to sample, as a function of time."""
        t, values = self.times[record], kind(rng, record)
        return lambda time: float(values[np.searchsorted(t, time, side="right") - 1])

    def _generator(self, purpose: str) -> np.random.Generator:
        digest = hashlib.sha256(f"{self.name}|{purpose}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def _waves(rng: np.random.Generator, pace: float) -> Callable[[float], float]:
    """Sines of four frequencies about the system's own, in the unit interval."""
    rates = rng.uniform(0.2, 1.2, _WAVES) / pace
    phases = rng.uniform(0.0, 2.0 * np.pi, _WAVES)
    return lambda t: float(0.5 + 0.5 * np.mean(np.sin(rates * t + phases)) / 0.8)


def _steps(rng: np.random.Generator, pace: float) -> Callable[[float], float]:
    """Levels that hold for one to three paces, with ramps between them."""
    times = np.cumsum(rng.uniform(1.0, 3.0, 20)) * pace
    levels = rng.uniform(0.0, 1.0, 21)
    knots = np.concatenate([[0.0], np.repeat(times, 2)])
    knots[2::2] += _RAMP * pace
    return lambda t: float(np.interp(t, knots, np.repeat(levels, 2)[:-1]))


def _chirp(rng: np.random.Generator, pace: float) -> Callable[[float], float]:
    """A sine whose frequency rises fivefold, on levels that hold for three to five paces."""
    times = np.cumsum(rng.uniform(3.0, 5.0, 6)) * pace
    levels = rng.uniform(0.3, 0.7, 7)
    knots = np.concatenate([[0.0], np.repeat(times, 2)])
    knots[2::2] += _RAMP * pace
    phase = rng.uniform(0.0, 2.0 * np.pi)

    def value(t: float) -> float:
        s = t / pace
        return float(
            np.interp(t, knots, np.repeat(levels, 2)[:-1]) + 0.3 * np.sin((0.4 + 0.05 * s) * s + phase)
        )

    return value


def _stepped(rng: np.random.Generator, record: int) -> np.ndarray:
    """Levels that hold for five to fifteen samples."""
    changes = np.cumsum(rng.integers(5, 16, _HELD))
    return rng.uniform(0.0, 1.0, _HELD + 1)[np.searchsorted(changes, np.arange(_HELD), side="right")]


def _pulses(rng: np.random.Generator, record: int) -> np.ndarray:
    """Pulses of full height, one in each part of the record."""
    values, part = np.zeros(_HELD), _HELD // _PULSES
    for begins in part * np.arange(_PULSES) + rng.integers(1, part - _ON, _PULSES):
        values[begins : begins + _ON] = 1.0
    return values


def _square(rng: np.random.Generator, record: int) -> np.ndarray:
    """On and off in turns, from a phase by chance."""
    period = _PERIOD[record]
    return np.where((np.arange(_HELD) + rng.integers(period)) % period < period // 2, 1.0, 0.0)


def _sampled(rng: np.random.Generator, record: int) -> np.ndarray:
    """Waves, sampled at every third sample and held."""
    wave = _waves(rng, 1.0)
    return np.array([wave(_SPAN * (k - k % _EVERY) / (_HELD - 1)) for k in range(_HELD)])


_HELD_KINDS = dict(zip(KINDS[1:], (_stepped, _pulses, _square, _sampled), strict=True))


def _sir(x: np.ndarray, u: np.ndarray) -> list:
    return [0.1 * (1.0 - x[0]) - u[0] * x[0] * x[1], u[0] * x[0] * x[1] - 0.6 * x[1]]


def _reactor(x: np.ndarray, u: np.ndarray) -> list:
    rate = 0.15 * (1.0 - x[0]) * np.exp(x[1])
    return [-x[0] + rate, -1.3 * x[1] + 4.0 * rate + 0.3 * u[0]]


SYSTEMS = (
    Driven(
        "duffing",
        "J. Guckenheimer, P. Holmes, Nonlinear Oscillations (1983), sect. 2.2",
        lambda x, u: [x[1], x[0] - x[0] ** 3 - 0.25 * x[1] + u[0]],
        ((0.5, 0.0), (-1.0, 0.2), (0.8, -0.3)),
        ((-0.7, 0.7),),
        1.5,
    ),
    Driven(
        "van der pol",
        "S. H. Strogatz, Nonlinear Dynamics and Chaos (1994), sect. 7.5",
        lambda x, u: [x[1], 1.0 * (1.0 - x[0] ** 2) * x[1] - x[0] + u[0]],
        ((1.0, 0.0), (-1.0, 1.0), (0.3, -1.0)),
        ((-1.0, 1.0),),
        1.5,
    ),
    Driven(
        "spring and damper",
        "K. Ogata, Modern Control Engineering (2010), ch. 3",
        lambda x, u: [x[1], -2.0 * x[0] - 0.5 * x[1] + u[0]],
        ((0.5, 0.0), (-0.5, 0.5), (0.0, -0.5)),
        ((-1.0, 1.0),),
    ),
    Driven(
        "parametric oscillator",
        "A. H. Nayfeh, D. T. Mook, Nonlinear Oscillations (1979), ch. 5",
        lambda x, u: [x[1], -(1.5 + u[0]) * x[0] - 0.15 * x[1] - 0.2 * x[0] ** 3],
        ((1.0, 0.0), (-0.8, 0.6), (0.7, 0.7)),
        ((-0.8, 0.8),),
    ),
    Driven(
        "pendulum with torque",
        "H. K. Khalil, Nonlinear Systems (2002), sect. 1.2",
        lambda x, u: [x[1], -2.0 * np.sin(x[0]) - 0.4 * x[1] + u[0]],
        ((0.5, 0.0), (-1.5, 0.5), (1.0, -0.5)),
        ((-1.5, 1.5),),
    ),
    Driven(
        "DC motor",
        "K. Ogata, Modern Control Engineering (2010), ch. 3",
        lambda x, u: [-1.0 * x[0] + 1.5 * x[1], -0.8 * x[0] - 2.0 * x[1] + 2.0 * u[0]],
        ((0.0, 0.0), (1.0, 0.5), (0.5, -0.2)),
        ((-1.0, 2.0),),
    ),
    Driven(
        "cruise control",
        "K. J. Astrom, R. M. Murray, Feedback Systems (2008), sect. 3.1",
        lambda x, u: [-0.1 - 0.3 * x[0] ** 2 + u[0]],
        ((1.0,), (2.0,), (0.5,)),
        ((0.3, 2.0),),
    ),
    Driven(
        "heated body with radiation",
        "F. P. Incropera, D. P. DeWitt, Heat and Mass Transfer (2002), ch. 5",
        lambda x, u: [-0.5 * (x[0] - 1.0) - 0.2 * (x[0] ** 4 - 1.0) + u[0]],
        ((1.0,), (1.5,), (1.2,)),
        ((0.0, 2.0),),
    ),
    Driven(
        "mixed tank",
        "D. E. Seborg, T. F. Edgar, D. A. Mellichamp, Process Dynamics and Control (2004), ch. 2",
        lambda x, u: [u[0] * (3.0 - x[0]) + u[1] * (0.5 - x[0]) - 0.1 * (x[0] - 1.0)],
        ((1.0,), (2.0,), (1.5,)),
        ((0.1, 0.8), (0.1, 0.8)),
        2.0,
    ),
    Driven(
        "tank cascade",
        "D. E. Seborg, T. F. Edgar, D. A. Mellichamp, Process Dynamics and Control (2004), ch. 4",
        lambda x, u: [
            u[0] - 0.8 * np.sqrt(max(x[0], 0.0)),
            0.8 * np.sqrt(max(x[0], 0.0)) - 0.9 * np.sqrt(max(x[1], 0.0)),
        ],
        ((1.0, 0.8), (0.5, 1.5), (1.5, 0.5)),
        ((0.4, 1.4),),
        2.0,
    ),
    Driven(
        "cooled reactor",
        "A. Uppal, W. H. Ray, A. B. Poore, Chem. Eng. Sci. 29 (1974) 967",
        _reactor,
        ((0.2, 0.5), (0.4, 1.0), (0.3, 0.2)),
        ((-1.5, 1.5),),
    ),
    Driven(
        "chemostat with feed",
        "H. L. Smith, P. Waltman, The Theory of the Chemostat (1995), ch. 1",
        lambda x, u: [
            x[0] * (1.2 * x[1] / (0.5 + x[1]) - u[0]),
            u[0] * (2.0 - x[1]) - 1.2 * x[1] / (0.5 + x[1]) * x[0],
        ],
        ((0.5, 1.0), (1.5, 0.5), (0.8, 1.5)),
        ((0.2, 0.9),),
        2.0,
    ),
    Driven(
        "oral dosing",
        "M. Gibaldi, D. Perrier, Pharmacokinetics (1982), ch. 1",
        lambda x, u: [u[0] - 1.2 * x[0], 1.2 * x[0] - 0.4 * x[1]],
        ((0.0, 0.0), (1.0, 0.5), (0.5, 2.0)),
        ((0.0, 2.0),),
        1.5,
    ),
    Driven(
        "saturable elimination",
        "M. Gibaldi, D. Perrier, Pharmacokinetics (1982), ch. 7",
        lambda x, u: [
            u[0] - 1.5 * x[0] / (0.6 + x[0]) - 0.5 * x[0] + 0.3 * x[1],
            0.5 * x[0] - 0.3 * x[1],
        ],
        ((0.2, 0.1), (2.0, 0.5), (1.0, 1.5)),
        ((0.0, 2.0),),
        1.5,
    ),
    Driven(
        "glucose and insulin",
        "R. N. Bergman et al., Am. J. Physiol. 236 (1979) E667, model VI",
        lambda x, u: [-(0.3 + x[1]) * x[0] + 0.6, -0.8 * x[1] + 0.7 * u[0]],
        ((2.0, 0.1), (1.0, 0.8), (1.5, 0.3)),
        ((0.0, 1.5),),
        1.5,
    ),
    Driven(
        "predator, prey and harvest",
        "J. D. Murray, Mathematical Biology I (2002), ch. 1 and 3",
        lambda x, u: [x[0] * (1.5 - 0.2 * x[0] - x[1] - u[0]), x[1] * (x[0] - 1.0)],
        ((1.0, 1.0), (2.0, 0.5), (1.5, 1.2)),
        ((0.0, 0.7),),
        1.5,
    ),
    Driven(
        "epidemic with contacts",
        "M. J. Keeling, P. Rohani, Modeling Infectious Diseases (2008), ch. 2 and 5",
        _sir,
        ((0.8, 0.1), (0.5, 0.2), (0.7, 0.05)),
        ((1.0, 3.5),),
        2.0,
    ),
    Driven(
        "nerve with current",
        "R. FitzHugh, Biophys. J. 1 (1961) 445, eq. 1-2",
        lambda x, u: [x[0] - x[0] ** 3 / 3.0 - x[1] + u[0], 0.15 * (x[0] + 0.7 - 0.8 * x[1])],
        ((-1.0, 0.0), (1.0, 0.5), (0.0, -0.3)),
        ((-0.2, 1.0),),
        3.0,
    ),
    Driven(
        "boost converter",
        "R. W. Erickson, D. Maksimovic, Fundamentals of Power Electronics (2001), ch. 7",
        lambda x, u: [1.0 - (1.0 - u[0]) * x[1] - 0.1 * x[0], (1.0 - u[0]) * x[0] - 0.6 * x[1]],
        ((1.0, 1.0), (0.5, 2.0), (2.0, 1.5)),
        ((0.1, 0.6),),
        1.5,
    ),
    Driven(
        "rigid body with torques",
        "H. Goldstein, Classical Mechanics (1980), ch. 5",
        lambda x, u: [
            -0.6 * x[1] * x[2] - 0.2 * x[0] + u[0],
            0.8 * x[0] * x[2] - 0.2 * x[1] + u[1],
            -0.3 * x[0] * x[1] - 0.2 * x[2],
        ],
        ((1.0, 0.2, 0.8), (-0.5, 1.0, 0.5), (0.4, -0.8, 1.0)),
        ((-0.8, 0.8), (-0.8, 0.8)),
        1.5,
    ),
)
