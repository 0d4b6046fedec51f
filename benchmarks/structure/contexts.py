"""Polynomial systems of the catalogue, and what is seen of them."""

import functools
import hashlib
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.development.problems import is_cubic, solution
from fim_dynsys import corruption, systems
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.systems import System
from fim_dynsys.trajectories.container import Trajectories

if TYPE_CHECKING:
    from sympy import Poly

NOISE = (0.0, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3)
POINTS = (25, 50, 100, 200, 400, 1000)
TRAJECTORIES = (1, 2, 4)
PERTURBED = 0.1  # relative deviation of further starts from the two of the catalogue
CURVES = {
    "noise": [(sigma, 200, 1) for sigma in NOISE],
    "points": [(0.01, n, 1) for n in POINTS],
    "trajectories": [(0.03, 200, k) for k in TRAJECTORIES],
}


@dataclass(frozen=True)
class Case:
    """One context: of a system, its noise, the points of each trajectory, their number."""

    system: str
    sigma: float
    points: int
    trajectories: int
    seed: int

    def generator(self) -> np.random.Generator:
        """Return the generator of this context's noise, the same for every model."""
        digest = hashlib.sha256("|".join(str(value) for value in astuple(self)).encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def cells() -> list[tuple[float, int, int]]:
    """Return noise, points and trajectories of every cell, once each."""
    return list(dict.fromkeys(cell for curve in CURVES.values() for cell in curve))


def polynomial_systems() -> list[System]:
    """Return the development and oracle systems whose right-hand sides are polynomials of degree <= 3."""
    return [s for s in (*systems.development(), *systems.oracle()) if s.polynomial and is_cubic(s)]


def observe(case: Case) -> Trajectories:
    """Return the noisy context."""
    t, paths = _clean(case.system, case.points, case.trajectories)
    clean = Trajectories.from_arrays(list(paths), [t] * len(paths))
    return corruption.add_noise(clean, case.sigma, case.generator())


def digest(case: Case) -> str:
    """Return a digest of the clean data."""
    t, paths = _clean(case.system, case.points, case.trajectories)
    return hashlib.sha256(t.tobytes() + paths.tobytes()).hexdigest()[:16]


@functools.lru_cache(maxsize=32)
def _clean(name: str, points: int, trajectories: int) -> tuple[np.ndarray, np.ndarray]:
    """Times (n,) and solutions (k, n, d)."""
    system = systems.get(name)
    t = np.linspace(0.0, system.t_end, points)
    starts = _starts(system)
    return t, np.stack([solution(system, next(starts), t) for _ in range(trajectories)])


def _starts(system: System) -> Iterator[np.ndarray]:
    """The two of the catalogue, and then such as lie near them."""
    known = np.asarray(system.initial_states, dtype=np.float64)
    yield from known
    generator = np.random.default_rng(0)
    for number in range(2, max(TRAJECTORIES)):
        near = known[number % 2]
        yield near * (1 + PERTURBED * generator.standard_normal(near.shape))


@functools.cache
def true_coefficients(name: str) -> list[dict[str, float]]:
    """Return the coefficients of the monomials of each right-hand side, by the names that fields use."""
    import sympy

    system = systems.get(name)
    states, expressions = system.sympy()
    values = {s: sympy.Rational(str(system.parameters[s.name])) for s in _parameters(expressions, states)}
    return [_by_name(sympy.Poly(f.subs(values), *states)) for f in expressions]


def found_coefficients(field: VectorField) -> list[dict[str, float]]:
    """Return the same of a field that is a polynomial with expressions."""
    import sympy

    states = [sympy.Symbol(f"x{i}", real=True) for i in range(field.dim)]
    return [_by_name(sympy.Poly(f, *states)) for f in field.sympy(states)]  # type: ignore[attr-defined]


def _parameters(expressions: tuple, states: tuple) -> set:
    return set().union(*(f.free_symbols for f in expressions)) - set(states)


def _by_name(polynomial: "Poly") -> dict[str, float]:
    names = Dictionary(np.array(polynomial.monoms())).names()
    return dict(zip(names, map(float, polynomial.coeffs()), strict=True))
