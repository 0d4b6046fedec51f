"""Records that stages of a search are left out on: the development systems, and other kinds of records."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.integrate import solve_ivp

from benchmarks.development.problems import RTOL, solution
from benchmarks.inputs.systems import SYSTEMS as DRIVEN
from benchmarks.inputs.systems import Driven
from fim_dynsys import metrics, systems
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.models.judging import driven
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.trajectories.container import Trajectories

SIGMA = 0.03
"""Standard deviation of the noise, over that of each state."""

KINDS = ("development", "few samples", "noise-free", "long", "chaotic", "stiff", "inputs")
_SAMPLES, _FEW = 200, 25
_EVERY = 3  # of the development systems: those that few samples and noise-free samples are taken of
_LONG, _LENGTH = 1000, 5.0  # samples, and times as long as the catalogue has it
_LONG_OF = "two_cycle_lienard", "duffing_van_der_pol", "rosenzweig_macarthur", "goodwin_oscillator"
_LEAST_MISS, _LARGEST_MISS = 1e-8, 10.0  # shares of the variance between which misses are told apart


@dataclass(frozen=True)
class Seen:
    """One context: which record, and the seed of its noise."""

    kind: str
    name: str
    seed: int


@dataclass(frozen=True, eq=False)
class Record:
    """What is observed, and what a field of it is to predict.

    Attributes
    ----------
    kind, name : str
        For the tables.
    t, x : arrays (n,), (n, d)
        Noise-free samples.
    asked_t, asked : arrays (k,), (k, d)
        A path from another start, which the field is to follow.
    sigma : float
        Of the noise.
    """

    kind: str
    name: str
    t: np.ndarray
    x: np.ndarray
    asked_t: np.ndarray
    asked: np.ndarray
    sigma: float = SIGMA

    def context(self, seed: int) -> Trajectories:
        """The samples with noise of a seed."""
        digest = hashlib.sha256(f"{self.kind}|{self.name}|{seed}".encode()).digest()
        rng = np.random.default_rng(int.from_bytes(digest[:8], "big"))
        noise = self.sigma * self.x.std(axis=0) * rng.standard_normal(self.x.shape)
        return Trajectories.from_arrays(self.x + noise, self.t)

    def r2(self, field: VectorField) -> float:
        """R2 of the field's path; nan where it ends early."""
        size = float(np.abs(self.asked).max())
        for method in ("dop853", "lsoda"):  # the second for stiff fields
            found = simulate(
                field, self.asked[0], self.asked_t, rtol=1e-8, atol=1e-8 * size, method=method, max_steps=3000
            ).x[0]
            if np.isfinite(found).all():
                return metrics.r2_score(self.asked, np.asarray(found))
        return float("nan")

    def digest(self) -> str:
        """Of the data; a cache answers for the same data only."""
        parts = (self.t, self.x, self.asked_t, self.asked)
        return hashlib.sha256(b"".join(np.round(part, 9).tobytes() for part in parts)).hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class DrivenRecord:
    """A system with inputs of the benchmark of those: two records, predicted under a new input."""

    system: Driven
    kind: str = "inputs"

    @property
    def name(self) -> str:
        """The system's."""
        return self.system.name

    def context(self, seed: int) -> Trajectories:
        """Two records with noise of a seed."""
        return self.system.context(SIGMA, seed)

    def r2(self, field: DrivenField) -> float:
        """R2 of the path under the new input; nan where it leaves all bounds."""
        own = self.system
        path, _ = driven(field, own.paths[-1][0], own.times[-1], own.inputs[-1])
        return metrics.r2_score(own.paths[-1], path)

    def digest(self) -> str:
        """Of the data."""
        return self.system.digest()


def miss(r2: float) -> float:
    """Logarithm to base 10 of the share of variance that a path misses; a path that ends misses the most."""
    share = 1.0 - r2 if np.isfinite(r2) else _LARGEST_MISS
    return float(np.log10(np.clip(share, _LEAST_MISS, _LARGEST_MISS)))


@cache
def records() -> tuple[Record | DrivenRecord, ...]:
    """All records, kind by kind."""
    return (
        *_development("development", _SAMPLES),
        *_development("few samples", _FEW, every=_EVERY),
        *_development("noise-free", _SAMPLES, every=2 * _EVERY, sigma=0.0),
        *_long(),
        *_chaotic(),
        *_stiff(),
        *(DrivenRecord(system) for system in DRIVEN[::2]),
    )


def _development(kind: str, n: int, every: int = 1, sigma: float = SIGMA) -> Iterator[Record]:
    for system in systems.development()[::every]:
        t = np.linspace(0.0, system.t_end, n)
        seen, asked = (solution(system, np.asarray(start), t) for start in system.initial_states)
        yield Record(kind, system.name, t, seen, t, asked, sigma)


def _long() -> Iterator[Record]:
    for name in _LONG_OF:
        system = systems.get(name)
        t = np.linspace(0.0, _LENGTH * system.t_end, _LONG)
        asked_t = np.linspace(0.0, system.t_end, _SAMPLES)
        seen, asked = (
            solution(system, np.asarray(start), times)
            for start, times in zip(system.initial_states, (t, asked_t), strict=True)
        )
        yield Record("long", name, t, seen, asked_t, asked)


def _solved(rates: Callable, start: Sequence[float], t: np.ndarray) -> np.ndarray:
    found = solve_ivp(
        lambda _, x: rates(*x), (t[0], t[-1]), start, t_eval=t, method="LSODA", rtol=RTOL, atol=RTOL
    )
    return found.y.T


def _orbit(
    kind: str, name: str, rates: Callable, start: Sequence[float], span: tuple[float, float, float], n: int
) -> Record:
    """A record after a transient, and a shorter path that begins some time after its end.

    ``span`` has the times of the transient, the record, and the path.
    """
    before, seen, asked = span
    t = np.linspace(0.0, seen, n)
    begin = _solved(rates, start, np.array([0.0, before]))[-1] if before else np.asarray(start)
    x = _solved(rates, begin, t)
    after = _solved(rates, x[-1], np.array([0.0, 0.37 * seen]))[-1]
    asked_t = np.linspace(0.0, asked, _SAMPLES)
    return Record(kind, name, t, x, asked_t, _solved(rates, after, asked_t))


def _chaotic() -> Iterator[Record]:
    """Chaotic flows, predicted over about two of their Lyapunov times."""

    def genesio_tesi(x: float, y: float, z: float) -> list[float]:
        return [y, z, -x - 1.1 * y - 0.44 * z + x * x]

    def nose_hoover(x: float, y: float, z: float) -> list[float]:
        return [y, -x + y * z, 1.5 - y * y]

    def rikitake(x: float, y: float, z: float) -> list[float]:
        return [-x + z * y, -y + (z - 3.0) * x, 1.0 - x * y]

    for name, rates, start, span in (
        ("Genesio-Tesi", genesio_tesi, (0.1, 0.1, 0.1), (50.0, 150.0, 20.0)),
        ("Nose-Hoover", nose_hoover, (0.0, 3.0, 0.0), (50.0, 120.0, 12.0)),
        ("Rikitake", rikitake, (1.0, 0.5, 2.0), (50.0, 80.0, 8.0)),
    ):
        yield _orbit("chaotic", name, rates, start, span, 800)


def _stiff() -> Iterator[Record]:
    """Relaxation oscillations, whose fast phases last a hundredth of the slow ones."""

    def van_der_pol(x: float, y: float) -> list[float]:
        return [y, 15.0 * (1.0 - x * x) * y - x]

    def slow_fast(x: float, y: float) -> list[float]:
        return [50.0 * (x - x**3 - y), 0.7 * x + 0.1]

    def brusselator(x: float, y: float) -> list[float]:
        return [1.0 + x * x * y - 5.5 * x, 4.5 * x - x * x * y]

    for name, rates, start, span, n in (
        ("van der Pol, mu = 15", van_der_pol, (2.0, 0.0), (30.0, 60.0, 27.0), 400),
        ("slow-fast cubic", slow_fast, (1.0, 0.0), (10.0, 10.0, 4.0), 400),
        ("Brusselator, B = 4.5", brusselator, (1.0, 1.0), (20.0, 30.0, 10.0), 300),
    ):
        yield _orbit("stiff", name, rates, start, span, n)
