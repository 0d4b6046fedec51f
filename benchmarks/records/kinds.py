"""Records of kinds that people have: gaps, rates, long and chaotic, dense and noise-free, short."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.fields.symbolic import SymbolicField
from fim_dynsys.simulation.solution import simulate

KINDS = ("in turns", "slow state", "two fifths missing", "long gap", "rates", "dense", "short", "long")
"""Of records; see `observe`."""

AHEAD = 2.0
"""Time for which the chaotic system can be predicted from a start that is 1e-4 off."""

SYSTEMS: dict[str, tuple[tuple[str, ...], tuple[float, ...], float]] = {
    "predator_prey": (("1.1*x - 0.4*x*y", "0.1*x*y - 0.4*y"), (10.0, 5.0), 20.0),
    "fitzhugh_nagumo": (("x - x**3/3 - y + 0.5", "0.08*(x + 0.7 - 0.8*y)"), (-1.0, 1.0), 100.0),
    "saturating_growth": (("1 - 1.5*x*y/(0.5 + x)", "0.75*x*y/(0.5 + x) - 0.3*y"), (2.0, 0.5), 20.0),
    "lorenz": (("10*(y - x)", "x*(28 - z) - y", "x*y - 8*z/3"), (1.0, 1.0, 20.0), 15.0),
}
"""Right-hand sides, initial state and length of record."""

_SAMPLES = 301
_RTOL = 1e-10
_TWO_FIFTHS, _EVERY, _SHORT, _DENSE, _LONG = 0.4, 5, 12, 3001, 10.0


@dataclass(frozen=True)
class Record:
    """Which record: a system, a kind, noise in standard deviations of the states, and its draw."""

    system: str
    kind: str
    sigma: float
    seed: int


@dataclass(frozen=True)
class Observed:
    """A record as a model is given it, and the states that it may be judged at.

    Attributes
    ----------
    x, t : arrays (n, d), (n,)
        Observations, NaN where there are none, and times.
    x_dot : array (n, d) or None
        Measured rates.
    states : array (m, d)
        On the true path.
    """

    x: np.ndarray
    t: np.ndarray
    x_dot: np.ndarray | None
    states: np.ndarray

    @property
    def given(self) -> dict[str, Any]:
        """What ``fit`` takes."""
        return {"x": self.x, "t": self.t} | ({} if self.x_dot is None else {"x_dot": self.x_dot})


def true_field(system: str) -> SymbolicField:
    """The true field of a system."""
    rates, start, _ = SYSTEMS[system]
    return SymbolicField(list(rates), {}, state_names=["x", "y", "z"][: len(start)])


def observe(record: Record) -> Observed:
    """The record of a kind.

    "in turns": each state at every other time; "slow state": the last at every fifth; "two fifths missing":
    so many values at random; "long gap": the last state is not seen for a third of the record; "rates": one
    sample in ten, and the rates of change with the same relative noise; "dense": ten times as many samples;
    "short": twelve; "long": a record ten times as long.
    """
    field, (_, start, end) = true_field(record.system), SYSTEMS[record.system]
    n = {"dense": _DENSE, "short": _SHORT, "long": int(_LONG * (_SAMPLES - 1)) + 1}.get(record.kind, _SAMPLES)
    t = np.linspace(0.0, end * (_LONG if record.kind == "long" else 1.0), n)
    if record.kind == "rates":
        t = t[::10]
    states = simulate(field, start, t, rtol=_RTOL, atol=1e-12).x[0]
    rng = np.random.default_rng(record.seed)
    x = _noisy(states, record.sigma, rng)
    if record.kind == "in turns":
        x[::2, 0] = x[1::2, 1:] = np.nan
    elif record.kind == "slow state":
        x[np.arange(n) % _EVERY > 0, -1] = np.nan
    elif record.kind == "two fifths missing":
        x[rng.random(x.shape) < _TWO_FIFTHS] = np.nan
    elif record.kind == "long gap":
        x[n // 3 : 2 * n // 3, -1] = np.nan
    rates = _noisy(field(states), record.sigma, rng) if record.kind == "rates" else None
    return Observed(x, t, rates, states)


def unseen(system: str) -> tuple[np.ndarray, np.ndarray]:
    """Times (n,) and true states (n, d) from another start, for as long as these can be predicted."""
    _, start, end = SYSTEMS[system]
    begin = np.array(start) * np.array([0.7, 1.3, 0.8])[: len(start)]
    t = np.linspace(0.0, AHEAD if system == "lorenz" else end, _SAMPLES)
    return t, simulate(true_field(system), begin, t, rtol=_RTOL, atol=1e-12).x[0]


def error(rates: ArrayLike, true: np.ndarray) -> float:
    """Largest error of rates (m, d), relative to the largest true one of all."""
    return float(np.abs(np.asarray(rates) - true).max() / np.abs(true).max())


def _noisy(values: np.ndarray, sigma: float, rng: np.random.Generator) -> np.ndarray:
    return values + sigma * values.std(axis=0) * rng.standard_normal(values.shape)
