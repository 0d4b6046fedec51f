"""Textbook problems of parameter estimation with known truth, and their data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from fim_dynsys.fields.expressions import parse

CALLS = 20_000
"""Of the rates in one path: hopeless parameters are to fail soon, as they do in our integration."""


class _OutOfCalls(Exception):
    pass


@dataclass
class Work:
    """Calls of the rates that a search may make.

    Attributes
    ----------
    left : int
        Calls.
    """

    left: int


@dataclass(frozen=True)
class Problem:
    """Equations, the truth, and how they are measured.

    Attributes
    ----------
    name : str
        Its name.
    expressions : dict
        Right-hand sides by state.
    truth : dict
        Parameters, all of them positive.
    first : dict
        First states, numbers or expressions in the parameters.
    observed : tuple of str
        What is measured.
    times : array (n,)
        When.
    begin : float
        When the states are the first ones.
    inputs : dict of str to callable
        Functions of time, which jump at multiples of ``period`` alone.
    period : float
        See there; 0 for smooth inputs.
    """

    name: str
    expressions: Mapping[str, str]
    truth: Mapping[str, float]
    first: Mapping[str, float | str]
    observed: tuple[str, ...]
    times: np.ndarray
    begin: float = 0.0
    inputs: Mapping[str, Callable[[float], float]] = field(default_factory=dict)
    period: float = 0.0

    @cached_property
    def _functions(self) -> tuple[Callable, Callable, Callable]:
        """Right-hand sides, measurements and first states as functions."""
        import sympy

        names = ["t", *self.expressions, *self.inputs, *self.truth]
        symbols = [sympy.Symbol(name, real=True) for name in names]
        made = [
            sympy.lambdify(symbols, [parse(str(text)) for text in texts], modules="numpy")
            for texts in (self.expressions.values(), self.observed, self.first.values())
        ]
        return made[0], made[1], made[2]

    def path(
        self,
        parameters: Mapping[str, float],
        rtol: float = 1e-8,
        method: str = "LSODA",
        work: Work | None = None,
    ) -> np.ndarray:
        """What is expected of the measurements (n, m), by scipy; NaN where it fails or calls too often."""
        work = Work(CALLS) if work is None else work
        least = max(work.left - CALLS, 0)
        rates, seen, first = self._functions
        p = [parameters[name] for name in self.truth]
        d, k = len(self.expressions), len(self.inputs)
        x = np.array(first(0.0, *np.zeros(d + k), *p), dtype=float)

        def f(t: float, state: np.ndarray) -> list[float]:
            work.left -= 1
            if work.left < least:
                raise _OutOfCalls
            return rates(t, *state, *(u(t) for u in self.inputs.values()), *p)

        last = float(self.times[-1])
        ends = [self.begin, *self._jumps(last), last]
        states = np.full((len(self.times), d), np.nan)
        states[self.times == self.begin] = x
        nothing = np.full((len(self.times), len(self.observed)), np.nan)
        for a, b in pairwise(ends):
            own = (self.times > a) & (self.times <= b)
            middle = b - 1e-9 * (b - a)  # inputs up to the jump, not at it

            def inner(t: float, state: np.ndarray, end: float = middle) -> list[float]:
                return f(min(t, end), state)

            at = np.append(self.times[own], b)
            try:
                found = solve_ivp(
                    inner, (a, b), x, t_eval=np.unique(at), method=method, rtol=rtol, atol=rtol * 1e-6
                )
            except _OutOfCalls:
                return nothing
            if not found.success:
                return nothing
            states[own] = found.y.T[: own.sum()]
            x = found.y[:, -1]
        values = seen(self.times, *states.T, *np.zeros((k, 1)), *p)
        return np.stack([np.broadcast_to(v, self.times.shape) for v in values], axis=1)

    def _jumps(self, last: float) -> list[float]:
        if not self.period:
            return []
        return [float(v) for v in np.arange(self.period, last, self.period)]

    def data(self, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Noisy measurements (n, m), and the standard deviations (m,) of their errors."""
        clean = self.path(self.truth, 1e-10, "Radau" if self.name == "Robertson" else "LSODA")
        sigma = noise * clean.std(axis=0)
        return clean + sigma * np.random.default_rng(seed).standard_normal(clean.shape), sigma

    def options(self) -> dict[str, Any]:
        """What is told to the model "equations" beside the expressions."""
        return {
            "bounds": {name: (0.0, None) for name in self.truth},
            "initial": dict(self.first),
            "t0": self.begin,
            "observed": list(self.observed),
        }


def _square(t: float) -> float:
    return 1.0 if np.floor(t / 5.0) % 2 == 0 else -1.0


def _heating(t: float) -> float:
    return 2.0 if np.floor(t / 6.0) % 2 == 0 else 0.0


def _outside(t: float) -> float:
    return 5.0 + 4.0 * np.sin(2.0 * np.pi * t / 24.0)


def _road(t: float) -> float:
    return 0.05 if np.floor(t / 0.5) % 2 == 1 else 0.0


PROBLEMS = (
    Problem(
        "one compartment, oral",
        {"g": "-ka*g", "c": "ka*g/V - ke*c"},
        {"ka": 1.5, "ke": 0.08, "V": 0.5},
        {"g": 4.0, "c": 0.0},
        ("c",),
        np.array([0.25, 0.5, 1, 2, 3, 5, 7, 9, 12, 18, 24.0]),
    ),
    Problem(
        "two compartments",
        {"c": "-(k10+k12)*c + k21*p", "p": "k12*c - k21*p"},
        {"k10": 0.3, "k12": 0.6, "k21": 0.25, "V": 2.0},
        {"c": "20/V", "p": 0.0},
        ("c",),
        np.array([0.1, 0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24.0]),
    ),
    Problem(
        "Michaelis-Menten",
        {"s": "-V*s/(K+s)"},
        {"V": 1.2, "K": 2.5},
        {"s": 10.0},
        ("s",),
        np.linspace(0.5, 18.0, 20),
    ),
    Problem(
        "enzyme mechanism",
        {"s": "-kf*e*s + kr*c", "e": "-kf*e*s + (kr+kc)*c", "c": "kf*e*s - (kr+kc)*c", "p": "kc*c"},
        {"kf": 2.0, "kr": 1.0, "kc": 0.8},
        {"s": 5.0, "e": 1.0, "c": 0.0, "p": 0.0},
        ("s", "p"),
        np.linspace(0.2, 12.0, 25),
    ),
    Problem(
        "epidemic, reported in part",
        {"s": "-b*s*i/1000", "i": "b*s*i/1000 - g*i"},
        {"b": 0.5, "g": 0.15, "rho": 0.3},
        {"s": 995.0, "i": 5.0},
        ("rho*i",),
        np.linspace(2.0, 60.0, 30),
    ),
    Problem(
        "chemostat",
        {"x": "m*s/(K+s)*x - 0.3*x", "s": "0.3*(10-s) - m*s/(K+s)*x/Y"},
        {"m": 0.7, "K": 1.5, "Y": 0.5},
        {"x": 0.2, "s": 8.0},
        ("x", "s"),
        np.linspace(0.5, 25.0, 30),
    ),
    Problem(
        "Robertson",
        {"a": "-k1*a + k3*b*c", "b": "k1*a - k2*b**2 - k3*b*c", "c": "k2*b**2"},
        {"k1": 0.04, "k2": 3e7, "k3": 1e4},
        {"a": 1.0, "b": 0.0, "c": 0.0},
        ("a", "10000*b", "c"),
        np.logspace(-4, 4, 30),
    ),
    Problem(
        "FitzHugh-Nagumo",
        {"v": "c*(v - v**3/3 + r)", "r": "-(v - a + b*r)/c"},
        {"a": 0.2, "b": 0.2, "c": 3.0},
        {"v": -1.0, "r": 1.0},
        ("v", "r"),
        np.linspace(0.5, 20.0, 40),
    ),
    Problem(
        "Goodwin",
        {"x": "a/(1+z**10) - d*x", "y": "b*x - d*y", "z": "c*y - d*z"},
        {"a": 2.0, "b": 1.0, "c": 1.2, "d": 0.5},
        {"x": 0.5, "y": 0.5, "z": 0.5},
        ("x", "y", "z"),
        np.linspace(0.5, 30.0, 40),
    ),
    Problem(
        "motor with friction",
        {"w": "k*u - b*w - F*sign(w)"},
        {"k": 2.0, "b": 0.5, "F": 0.8},
        {"w": 0.1},
        ("w",),
        np.linspace(0.25, 30.0, 120),
        inputs={"u": _square},
        period=5.0,
    ),
    Problem(
        "room",
        {"T": "(A-T)/(R*C) + q/C"},
        {"R": 3.0, "C": 4.0},
        {"T": 15.0},
        ("T",),
        np.linspace(1.0, 72.0, 72),
        inputs={"A": _outside, "q": _heating},
        period=6.0,
    ),
    Problem(
        "quarter car",
        {"d": "a-b", "a": "(-k*d-c*(a-b))/300", "e": "b", "b": "(k*d+c*(a-b)-kt*(e-u))/40"},
        {"k": 20000.0, "c": 1500.0, "kt": 180000.0},
        {"d": 0.0, "a": 0.0, "e": 0.0, "b": 0.0},
        ("100*d", "a"),
        np.linspace(0.02, 2.5, 125),
        inputs={"u": _road},
        period=0.5,
    ),
)
