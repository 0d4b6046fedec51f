"""What is known of states, beside known equations: the words of `fim_dynsys.search.knowledge.Knowledge`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fim_dynsys.estimation.known import Known, Reader, is_number, is_pair, pair, tie
from fim_dynsys.search.knowledge import Knowledge

if TYPE_CHECKING:
    from sympy import Expr

_OF_TERMS = ("known", "forbid", "require", "equal", "bounds")
_LOOKED_AT = 5  # random points at which a rate is seen to vanish
_ROUNDING = 1e-9  # of the terms of a rate that vanishes, or of a state's size


def with_facts(
    caller: str, facts: Knowledge | None, expressions: Sequence[object], states: Sequence[str], known: Known
) -> Known:
    """What is known of the numbers, with what facts of the states add to it.

    First values of states that are not negative are bounded; equations are checked for conserved quantities.

    Parameters
    ----------
    caller : str
        Named in errors.
    facts : Knowledge, optional
        Facts of the states.
    expressions : sequence of str or sympy.Expr
        Right-hand sides.
    states : sequence of str
        Their names.
    known : Known
        What is known of the numbers.

    Raises
    ------
    ValueError
        For facts of terms, states that there are not, and quantities that the equations do not conserve.
    """
    if facts is None:
        return known
    terms = [name for name in _OF_TERMS if getattr(facts, name)]
    if terms:
        raise ValueError(
            f"{caller}: expected knowledge of states (nonnegative, conserved) beside expressions, got "
            f"{', '.join(terms)}; write terms into the expressions, and limits into bounds= and fixed=."
        )
    unknown = sorted(set(facts.nonnegative) - set(states))
    if unknown:
        raise ValueError(
            f"{caller}: expected nonnegative states among {', '.join(states)}, got {', '.join(unknown)}."
        )
    read = Reader(caller, states, ())
    tie(read, known.fixed)
    equations = [read(expression) for expression in expressions]
    for quantity in facts.conserved:
        _check_conserved(read, quantity, equations)
    return replace(known, bounds=_nonnegative(caller, facts.nonnegative, known))


def _nonnegative(caller: str, states: Sequence[str], known: Known) -> dict[str, object]:
    """Bounds, with first values of states that are not negative."""
    found: dict[str, object] = dict(known.bounds or {})
    lists = [known.initial] if isinstance(known.initial, Mapping) else list(known.initial or [])
    for state in states:
        given = [own.get(state) for own in lists if isinstance(own, Mapping)]
        if any(value is not None and not is_number(value) and not is_pair(value) for value in given):
            continue  # an expression in parameters
        low, high = pair(caller, state, found.get(state, (None, None)))
        found[state] = (max(low, 0.0), None if high == np.inf else high)
    return found


def _check_conserved(read: Reader, quantity: str, equations: "Sequence[Expr]") -> None:
    import sympy

    own = read(quantity)
    symbols = [read.symbols[name] for name in read.states]
    parts = [own.diff(s) * f for s, f in zip(symbols, equations, strict=True)]
    rate = sympy.Add(*parts)
    names = sorted({s for part in parts for s in part.free_symbols}, key=str)
    rng = np.random.default_rng(0)
    for _ in range(_LOOKED_AT):
        point = {s: sympy.Float(v) for s, v in zip(names, rng.uniform(0.5, 2.0, len(names)), strict=True)}
        terms = [term for part in parts for term in sympy.Add.make_args(part.expand())]
        values = [float(term.xreplace(point).evalf()) for term in terms]
        if not abs(sum(values)) <= _ROUNDING * sum(map(abs, values)):
            raise ValueError(
                f"{read.caller}: expected equations that conserve {quantity}, got ones by which it changes "
                f"at the rate {sympy.factor(rate)}."
            )


def negative_states(facts: Knowledge | None, states: Sequence[str], paths: Sequence[np.ndarray]) -> list[str]:
    """What a reader is to be warned of: fitted paths (K, d) below zero of states that cannot be so."""
    found = []
    for k, state in enumerate(states):
        if facts is None or state not in facts.nonnegative:
            continue
        values = np.concatenate([path[:, k] for path in paths])
        least, size = np.nanmin(values), np.nanmax(np.abs(values))
        if least < -_ROUNDING * size:
            found.append(
                f"the fitted {state} becomes negative, {least:.3g} at least, which is known not to be: these "
                "equations do not keep it from that"
            )
    return found
