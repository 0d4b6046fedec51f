"""One true fact of each development system that has one of three kinds, read off its equations."""

from collections.abc import Sequence

import sympy

from fim_dynsys import systems
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.systems import System

CONSERVED = {"dual_spin_gyrostat": "A*a**2 + B*b**2 + C*c**2"}
"""Quantities in states and parameters that are conserved in all of state space: the energy of a rotor."""


def fact_of(system: System) -> tuple[str, Knowledge] | None:
    """Kind and fact, in the system's own names, or None.

    An equation that is another state up to its sign; else a conserved quantity; else the first state that
    the first possible equation does not depend on. Systems of one state have none.
    """
    names = system.states
    symbols, expressions = system.sympy()
    if system.dim == 1:
        return None
    for name, expression in zip(names, expressions, strict=True):
        if expression in symbols or -expression in symbols:
            return "equation", Knowledge(known={name: str(expression)})
    if system.name in CONSERVED:
        quantity = sympy.sympify(CONSERVED[system.name], locals={str(s): s for s in symbols})
        numbers = {s: system.parameters[str(s)] for s in quantity.free_symbols - set(symbols)}
        return "conserved", Knowledge(conserved=[str(quantity.subs(numbers))])
    for name, expression in zip(names, expressions, strict=True):
        for other, symbol in zip(names, symbols, strict=True):
            if other != name and symbol not in expression.free_symbols:
                return "column", Knowledge(forbid={name: [other]})
    return None


def known(name: str, state_names: Sequence[str]) -> Knowledge:
    """The fact of a system of that name in the names that the data have."""
    system = systems.get(name)
    found = fact_of(system)
    assert found is not None
    renamed = dict(zip(system.states, state_names, strict=True))
    symbols = {own: sympy.Symbol(new) for own, new in renamed.items()}

    def text(given: str) -> str:
        return str(sympy.sympify(given, locals=symbols))

    _, fact = found
    return Knowledge(
        known={renamed[state]: text(right) for state, right in fact.known.items()},
        forbid={renamed[state]: [text(term) for term in terms] for state, terms in fact.forbid.items()},
        conserved=[text(quantity) for quantity in fact.conserved],
    )
