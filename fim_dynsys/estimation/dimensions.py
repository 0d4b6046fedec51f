"""Whether the units of states, inputs and time agree in given equations, whatever those of parameters are."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fim_dynsys.estimation.programs import TIME
from fim_dynsys.estimation.sizes import Balance
from fim_dynsys.fields.units import base_exponents, read_unit

if TYPE_CHECKING:
    from sympy import Expr

_AGREE = 1e-6  # of an exponent, or of a decadic logarithm


class _Exponents(Balance):
    """Equations for the exponents of one base unit; numbers as summands may have any unit."""

    def size(self, expression: "Expr") -> tuple[np.ndarray, float]:
        """The exponent of an expression: unknown ones (n,) and a number."""
        if expression.is_number:
            return self.level(0.0)
        if expression.is_Pow and not expression.exp.is_number:
            for part in expression.args:
                self.equate(self.size(part), self.level(0.0))
            return self.level(0.0)
        return super().size(expression)


def disagreements(
    equations: "Sequence[Expr]", states: Sequence[str], units: Mapping[str, str]
) -> tuple[str, ...]:
    """States whose equations no units of the parameters make agree, as text.

    Units that cannot be read, or are not given, count as unknown. Equations with a decimal number are left
    out: it may have a unit.

    Parameters
    ----------
    equations : sequence of sympy.Expr
        Right-hand sides in ``t`` and names.
    states : sequence of str
        Their names.
    units : mapping
        Units as text by name of states, inputs and ``t``.
    """
    import sympy

    read = {name: read_unit(unit) for name, unit in units.items() if unit}
    known = {name: base_exponents(unit) for name, unit in read.items() if unit is not None}
    if TIME not in known:
        return ()
    found = []
    for state, equation in zip(states, equations, strict=True):
        if state not in known or equation.atoms(sympy.Float):
            continue
        own = {s.name for s in equation.free_symbols}
        free = sorted(own - set(known))
        for base in sorted({base for exponents in known.values() for base in exponents}):
            exponents = {name: powers.get(base, 0.0) for name, powers in known.items()}
            balance = _Exponents({name: 10.0**power for name, power in exponents.items()}, free)
            rate = balance.level(exponents[state] - exponents[TIME])
            for term in equation.args if equation.is_Add else (equation,):
                if not term.is_number:
                    balance.equate(balance.size(term), rate)
            rows, targets = (
                np.reshape(balance.rows, (len(balance.targets), len(free))),
                np.array(balance.targets),
            )
            best = np.linalg.lstsq(rows, targets, rcond=None)[0] if rows.size else np.zeros(len(free))
            if np.abs(rows @ best - targets).max(initial=0.0) > _AGREE:
                shown = ", ".join(
                    f"{name} in {units[name]}" for name in sorted(own & set(known) | {state, TIME})
                )
                found.append(f"the units of d{state}/d{TIME} = {equation} do not agree: {shown}")
                break
    return tuple(found)
