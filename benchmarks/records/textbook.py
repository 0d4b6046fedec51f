"""Ten textbook systems without noise: one record each, of few and many samples, integrated well and badly."""

from dataclasses import dataclass

import numpy as np

from benchmarks.records.kinds import AHEAD
from fim_dynsys.fields.symbolic import SymbolicField
from fim_dynsys.simulation.solution import simulate

NUMBERS = (100, 400, 2000, 10_000)
"""Samples of a record."""
TOLERANCES = (1e-12, 1e-8, 1e-6)
"""Relative errors that the integration of a record may make in a step."""

_TRUE_RTOL = 1e-11  # of paths that fits are judged by
_ATOL = 1e-2  # of the relative tolerance: states are of order 1 to 100
_OTHER = (0.7, 1.3, 0.8)  # factors of the first state, of another path
_POINTS = 301

TEXTBOOK: dict[str, tuple[tuple[str, ...], tuple[float, ...], float]] = {
    "Lotka and Volterra": (("1.1*x - 0.4*x*y", "0.1*x*y - 0.4*y"), (10.0, 5.0), 25.0),
    "van der Pol": (("y", "2*(1 - x**2)*y - x"), (1.0, 1.5), 20.0),
    "Duffing": (("y", "x - x**3 - 0.2*y"), (0.3, 1.0), 25.0),
    "FitzHugh and Nagumo": (("x - x**3/3 - y + 0.5", "0.08*(x + 0.7 - 0.8*y)"), (-1.0, 1.0), 100.0),
    "pendulum": (("y", "-0.2*y - sin(x)"), (2.5, 0.5), 25.0),
    "Michaelis and Menten": (("0.3 - 1.2*x/(0.5 + x) + 0.2*y", "1.2*x/(0.5 + x) - 0.6*y"), (4.0, 0.5), 20.0),
    "Rosenzweig and MacArthur": (
        ("x*(1 - x/3) - 1.5*x*y/(0.8 + x)", "0.9*x*y/(0.8 + x) - 0.4*y"),
        (1.5, 0.4),
        60.0,
    ),
    "toggle switch": (("2.5/(1 + y**2) - x", "2.2/(1 + x**2) - y"), (0.4, 2.5), 12.0),
    "Brusselator": (("1 - 4*x + x**2*y", "3*x - x**2*y"), (1.2, 3.1), 25.0),
    "Lorenz": (("10*(y - x)", "x*(28 - z) - y", "x*y - 8*z/3"), (1.0, 1.0, 20.0), 15.0),
}
"""Right-hand sides, initial state and length of record."""


@dataclass(frozen=True)
class Integrated:
    """A record: which system, how many samples, and the relative tolerance of their integration."""

    system: str
    n: int
    rtol: float

    def true(self) -> SymbolicField:
        """The true field."""
        rates, start, _ = TEXTBOOK[self.system]
        return SymbolicField(list(rates), {}, state_names=["x", "y", "z"][: len(start)])

    def observed(self) -> tuple[np.ndarray, np.ndarray]:
        """Times (n,) and states (n, d)."""
        _, start, end = TEXTBOOK[self.system]
        t = np.linspace(0.0, end, self.n)
        return t, simulate(self.true(), start, t, rtol=self.rtol, atol=_ATOL * self.rtol).x[0]

    def unseen(self) -> tuple[np.ndarray, np.ndarray]:
        """Times (m,) and true states (m, d) from another start, for as long as these can be predicted."""
        _, start, end = TEXTBOOK[self.system]
        t = np.linspace(0.0, AHEAD if self.system == "Lorenz" else end, _POINTS)
        other = np.array(start) * _OTHER[: len(start)]
        return t, simulate(self.true(), other, t, rtol=_TRUE_RTOL, atol=1e-13).x[0]
