"""A catalogue of textbook systems: a development split to choose by, an oracle split with known truths."""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from fim_dynsys.fields.callable import CallableField
from fim_dynsys.regions import Region

if TYPE_CHECKING:
    from sympy import Expr, Symbol

Rates = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Truth:
    """A known property of a system.

    Attributes
    ----------
    value : number, str or nested list of them
        Strings are formulas (sympy syntax) in the system's parameters; numbers hold at the catalogue's
        parameters only.
    source : str
        Where it is known from.
    error : float
        Largest absolute error that the stated digits leave; 0 for a formula.
    """

    value: list | str | float
    source: str
    error: float = 0.0

    @property
    def is_formula(self) -> bool:
        """Whether it holds at any parameters."""
        leaf = self.value
        while isinstance(leaf, list):
            leaf = leaf[0]
        return isinstance(leaf, str)


@dataclass(frozen=True, eq=False)
class System:
    """One autonomous system dx/dt = f(x) of the catalogue.

    Attributes
    ----------
    name : str
        Key of `get`.
    expressions : tuple of str
        The right-hand side in sympy syntax, one expression per state, in the names of the states
        (``region.names``) and of the parameters. Everything else follows from it.
    parameters : dict of str to float
        Values of the parameters.
    region : Region
        The box worth looking at; both trajectories stay inside.
    initial_states : ndarray (2, d)
        Two starts.
    t_end : float
        Time that shows the motion from both starts, in the system's own unit.
    source : str
        Textbook or paper.
    polynomial : bool
        Whether every expression is a polynomial in the states.
    split : str
        ``"development"`` or ``"oracle"``.
    truths : dict of str to Truth
        What is known; see `truth`. Empty in the development split.
    """

    name: str
    expressions: tuple[str, ...]
    parameters: Mapping[str, float]
    region: Region
    initial_states: np.ndarray
    t_end: float
    source: str
    polynomial: bool
    split: str
    truths: Mapping[str, Truth] = field(default_factory=dict)

    @property
    def dim(self) -> int:
        """Number of states d."""
        return len(self.expressions)

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the states."""
        return self.region.names

    def rhs(self, x: np.ndarray) -> np.ndarray:
        """Return f at points (n, d), shape (n, d); NaN or infinity where f is not defined."""
        f, _ = _compiled(self.expressions, self.states, tuple(self.parameters.items()))
        return f(x)

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return the exact Jacobian at points (n, d), shape (n, d, d), ``[:, i, j] = d f_i / d x_j``."""
        _, jacobian = _compiled(self.expressions, self.states, tuple(self.parameters.items()))
        return jacobian(x)

    def field(self) -> CallableField:
        """Return the system as a vector field with exact Jacobian and this region."""
        return CallableField(
            self.rhs, self.dim, jac=self.jacobian, state_names=self.states, region=self.region
        )

    def sympy(self) -> tuple[tuple, tuple]:
        """Return the states as sympy symbols and the expressions, parameters left as symbols."""
        symbols = _symbols((*self.states, *self.parameters))
        return tuple(symbols[name] for name in self.states), _parsed(self.expressions, symbols)

    def with_parameters(self, **changes: float) -> "System":
        """Return the system at other parameter values; of its truths the formulas remain.

        Raises
        ------
        ValueError
            If a name is not a parameter of the system.
        """
        unknown = sorted(set(changes) - set(self.parameters))
        if unknown:
            raise ValueError(
                f"{self.name}: expected parameters among {sorted(self.parameters)}, got {unknown}; "
                "see System.parameters"
            )
        truths = {name: truth for name, truth in self.truths.items() if truth.is_formula}
        return replace(self, parameters={**self.parameters, **changes}, truths=truths)

    def truth(self, name: str) -> np.ndarray:
        """Return a known property at the system's parameters as an array.

        ``equilibria`` has shape (n, d) and ``eigenvalues`` too, a row per equilibrium in the same order;
        ``lyapunov`` has shape (d,), a single number shape (). Complex where a value is.

        Raises
        ------
        ValueError
            If nothing of that name is known.
        """
        if name not in self.truths:
            raise ValueError(f"{self.name}: expected one of the truths {sorted(self.truths)}, got {name!r}")
        return _evaluated(self.truths[name].value, self.parameters)


def get(name: str) -> System:
    """Return the system of that name.

    Raises
    ------
    ValueError
        If there is none.
    """
    if name not in _catalogue():
        raise ValueError(f"systems.get: expected one of {sorted(_catalogue())}, got {name!r}")
    return _catalogue()[name]


def development() -> tuple[System, ...]:
    """Return the systems that settings may be chosen by.

    None has a right-hand side of ODEBench's, up to the names and units of states and time and to the
    constants, and none comes from the dysts collection of chaotic flows.
    """
    return tuple(system for system in _catalogue().values() if system.split == "development")


def oracle() -> tuple[System, ...]:
    """Return the systems with known truths, for tests and documentation; nothing is chosen by them."""
    return tuple(system for system in _catalogue().values() if system.split == "oracle")


def _symbols(names: Iterable[str]) -> "dict[str, Symbol]":
    import sympy

    return {name: sympy.Symbol(name, real=True) for name in names}


def _parsed(expressions: Iterable[str], symbols: "dict[str, Symbol]") -> "tuple[Expr, ...]":
    import sympy

    return tuple(sympy.sympify(text, locals=symbols) for text in expressions)


@lru_cache(maxsize=512)
def _compiled(
    expressions: tuple[str, ...], states: tuple[str, ...], parameters: tuple[tuple[str, float], ...]
) -> tuple[Rates, Rates]:
    """Return numpy functions for f and its Jacobian, generated from the expressions."""
    import sympy

    symbols = _symbols((*states, *dict(parameters)))
    values = {symbols[name]: sympy.sympify(value) for name, value in parameters}
    x = [symbols[name] for name in states]
    f = sympy.Matrix([e.subs(values) for e in _parsed(expressions, symbols)])
    d = len(states)
    return _vectorised(x, list(f), (d,)), _vectorised(x, list(f.jacobian(x)), (d, d))


def _vectorised(symbols: "list[Symbol]", expressions: "list[Expr]", shape: tuple[int, ...]) -> Rates:
    import sympy

    function = sympy.lambdify(symbols, expressions, modules="numpy", cse=True)

    def evaluate(x: np.ndarray) -> np.ndarray:
        x = np.asarray(x, dtype=float)
        with np.errstate(all="ignore"):  # outside its domain the field is NaN or infinite
            entries = function(*x.T)
        out = np.empty((len(x), len(entries)))
        for i, entry in enumerate(entries):
            out[:, i] = entry
        return out.reshape(len(x), *shape)

    return evaluate


def _evaluated(value: Any, parameters: Mapping[str, float]) -> np.ndarray:
    import sympy

    if isinstance(value, list):
        return np.array([_evaluated(entry, parameters) for entry in value])
    if not isinstance(value, str):
        return np.array(value)
    symbols = _symbols(parameters)
    numbers = {symbols[name]: sympy.Float(number, 40) for name, number in parameters.items()}
    z = complex(sympy.sympify(value, locals=symbols).subs(numbers).evalf(30))
    return np.array(z if z.imag else z.real)


@cache
def _catalogue() -> dict[str, System]:
    """Return the systems by name, in the order of the file beside this module."""
    text = resources.files("fim_dynsys").joinpath("systems.toml").read_text(encoding="utf-8")
    return {entry["name"]: _system(**entry) for entry in tomllib.loads(text)["system"]}


def _system(
    *,
    states: list[str],
    equations: list[str],
    region: list[tuple[float, float]],
    initial_states: list[list[float]],
    t_end: float,
    truths: dict[str, dict[str, Any]] | None = None,
    **entry: Any,
) -> System:
    return System(
        expressions=tuple(equations),
        region=Region.from_pairs(region, names=states),
        initial_states=np.array(initial_states, dtype=float),
        t_end=float(t_end),
        truths={name: Truth(**truth) for name, truth in (truths or {}).items()},
        **entry,
    )
