"""Textbook fields with published parameters, and their accurate paths."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import sympy
from scipy.integrate import solve_ivp

from fim_dynsys.fields.terms import Dictionary

SAMPLES = 200
_RTOL, _ATOL = 1e-11, 1e-13  # of the accurate path; the latter of each state's size at the start, at least 1
_TINY = 1e-30  # the absolute tolerance where states become tiny and return


@dataclass(frozen=True)
class System:
    """A field, its parameters, and a start and a time that show how it moves.

    Attributes
    ----------
    name, source : str
        And where the parameters are from.
    expressions : dict of str to str
        Right-hand sides by state.
    parameters : dict of str to float
        Values.
    start : array (d,)
        First state.
    end : float
        Last time, in the source's unit.
    tiny : bool
        Whether states fall by more than ten decades and come back.
    """

    name: str
    source: str
    expressions: Mapping[str, str]
    parameters: Mapping[str, float]
    start: np.ndarray
    end: float
    tiny: bool = False

    @property
    def t(self) -> np.ndarray:
        """Sample times (200,)."""
        return np.linspace(0.0, self.end, SAMPLES)

    @property
    def rates(self) -> list[sympy.Expr]:
        """Right-hand sides with their numbers."""
        names = {name: sympy.Symbol(name) for name in [*self.expressions, *self.parameters]}
        values = {names[name]: value for name, value in self.parameters.items()}
        return [sympy.sympify(text, locals=names).subs(values) for text in self.expressions.values()]

    def terms(self) -> tuple[Dictionary, np.ndarray] | None:
        """Monomials and their coefficients (m, d); None where these are not all of degree 3 or less."""
        states = sympy.symbols(list(self.expressions))
        if not all(rate.is_polynomial(*states) for rate in self.rates):
            return None
        polynomials = [sympy.Poly(sympy.expand(rate), *states) for rate in self.rates]
        degree = max(int(p.total_degree()) for p in polynomials)
        if degree > 3:
            return None
        dictionary = Dictionary.polynomial(len(states), max(degree, 1))
        coefficients = [
            [float(p.coeff_monomial(tuple(powers))) for p in polynomials]
            for powers in dictionary.exponents.tolist()
        ]
        return dictionary, np.array(coefficients)

    def path(self) -> np.ndarray:
        """Accurate states (200, d) at the sample times, by LSODA."""
        states = sympy.symbols(list(self.expressions))
        f = sympy.lambdify(states, self.rates, "math")
        absolute = _TINY if self.tiny else _ATOL * np.maximum(np.abs(self.start), 1.0)
        found = solve_ivp(
            lambda _, x: f(*x), (0.0, self.end), self.start, "LSODA", self.t, rtol=_RTOL, atol=absolute
        )
        if not found.success:
            raise ValueError(f"{self.name}: expected an accurate path, got: {found.message}")
        return found.y.T


@cache
def systems() -> tuple[System, ...]:
    """All of ``systems.toml``."""
    table = tomllib.loads(Path(__file__).with_name("systems.toml").read_text(encoding="utf-8"))
    return tuple(System(**row | {"start": np.array(row["start"])}) for row in table["system"])
