"""The development split of the catalogue as benchmark problems, with near-exact references."""

import functools

import numpy as np
from scipy.integrate import solve_ivp

from benchmarks.harness.trials import Problem
from fim_dynsys import systems
from fim_dynsys.fields.base import VectorField
from fim_dynsys.systems import System

POINTS = 512
RTOL = 1e-11


@functools.cache
def problems() -> tuple[Problem, ...]:
    """Return the development systems, each solved from both initial states at 512 times on [0, t_end]."""
    return tuple(_problem(system) for system in systems.development())


def _problem(system: System) -> Problem:
    t = np.linspace(0.0, system.t_end, POINTS)
    starts = np.asarray(system.initial_states, dtype=np.float64)
    return Problem(
        system=system.name,
        split_strict="ID" if is_cubic(system) else "OOD",
        t=t,
        initial_states=starts,
        references=np.stack([solution(system, start, t) for start in starts]),
    )


def is_cubic(system: System) -> bool:
    """Whether every right-hand side is a polynomial of total degree <= 3 in the states."""
    import sympy

    states, expressions = system.sympy()
    if not all(expression.is_polynomial(*states) for expression in expressions):
        return False
    return all(sympy.Poly(expression, *states).total_degree() <= 3 for expression in expressions)


def solution(system: System, start: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return the solution ``(n, d)`` from `start` at `t` by LSODA at rtol 1e-11.

    Raises
    ------
    ValueError
        If the system cannot be solved up to ``t[-1]``; its catalogue entry is then wrong.
    """
    size = max(1e-3, float(np.abs(start).max()))
    result = solve_ivp(
        lambda _, x: system.rhs(x[None])[0],
        (t[0], t[-1]),
        start,
        method="LSODA",
        t_eval=t,
        rtol=RTOL,
        atol=RTOL * size,
        jac=lambda _, x: system.jacobian(x[None])[0],
    )
    if not result.success or not np.isfinite(result.y).all():
        raise ValueError(
            f"{system.name}: expected a solution up to t = {t[-1]:g}, got {result.message!r}; correct it."
        )
    return result.y.T


def true_field(problem: Problem) -> VectorField:
    """Return the true field of one of the development systems."""
    return systems.get(problem.system).field()
