"""Sympy expressions as people write them, in the notations of dictionary fields."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fim_dynsys.fields.notation import LatexNotation, Signed, TextNotation, is_one

if TYPE_CHECKING:
    from sympy import Expr, Symbol


class ExpressionWriter:
    """Writes expressions of states and of parameters that have values.

    Parameters
    ----------
    notation : TextNotation or LatexNotation
        How they are written.
    states : sequence of sympy.Symbol
        In the order of the notation's names.
    values : dict of str to (float, float), optional
        Value and standard error of each parameter that expressions still name.
    """

    def __init__(
        self,
        notation: TextNotation | LatexNotation,
        states: "Sequence[Symbol]",
        values: Mapping[str, tuple[float, float]] | None = None,
    ):
        self._notation = notation
        self._place = {state: k for k, state in enumerate(states)}
        self._values = dict(values or {})

    def written(self, expression: "Expr") -> Any:
        """The whole expression."""
        if expression.is_Add:
            terms = sorted(expression.args, key=self._order)
            return self._notation.total([self._signed(term) for term in terms])
        return self._notation.total([self._signed(expression)])

    def _order(self, term: "Expr") -> tuple[Any, ...]:
        """Monomials by degree and state, then everything else, as dictionaries have them."""
        import sympy

        powers = [0] * len(self._place)
        for base, exponent in term.as_powers_dict().items():
            if base in self._place and exponent.is_Integer and exponent > 0:
                powers[self._place[base]] += int(exponent)
            elif base.free_symbols & set(self._place):
                return (1, 0, (), sympy.default_sort_key(term))
        return (0, sum(powers), tuple(-power for power in powers), sympy.default_sort_key(term))

    def _signed(self, expression: "Expr") -> Signed:
        """A sign, and what is left as a product over a product."""
        number, rest = expression.as_coeff_Mul()
        negative = number < 0
        above: list[Any] = []
        below: list[Any] = []
        top, bottom = abs(number).as_numer_denom() if number.is_Rational else (abs(number), 1)
        for part, side in ((top, above), (bottom, below)):
            if part != 1:
                side.append(self._notation.number(float(part)))
        for factor in rest.as_ordered_factors() if rest.is_Mul else [rest]:
            if factor == 1:
                continue
            value, error = self._values.get(str(factor), (0.0, 0.0)) if factor.is_Symbol else (0.0, 0.0)
            if factor.is_Symbol and factor not in self._place:
                negative ^= value < 0.0
                above.append(self._notation.number(abs(value), error))
                continue
            base, exponent = factor.as_base_exp()
            if factor.is_Pow and exponent.is_number and exponent < 0:
                below.append(self._power(base, -exponent))
            else:
                above.append(self._atom(factor))
        top = self._product(above)
        return bool(negative), self._notation.fraction(top, self._product(below)) if below else top

    def _product(self, factors: list[Any]) -> Any:
        kept = [factor for factor in factors if not is_one(factor)]
        return self._notation.product(kept or [self._notation.number(1.0)])

    def _atom(self, expression: "Expr") -> Any:
        """A part that is not a product."""
        if expression in self._place:
            return self._notation.name(self._place[expression])
        if expression.is_number:
            return self._notation.number(abs(float(expression)))
        if expression.is_Pow:
            return self._power(*expression.as_base_exp())
        if expression.is_Piecewise:
            return self._choice(expression)
        if expression.is_Function:
            arguments = [self.written(own) for own in sorted(expression.args, key=self._order)]
            return self._notation.call(type(expression).__name__.lower(), *arguments)
        return self.written(expression)

    def _choice(self, expression: "Expr") -> Any:
        """Values by conditions, of which the last always holds."""
        pairs = [(self.written(value), self._condition(condition)) for value, condition in expression.args]
        return self._notation.choice(pairs[:-1], pairs[-1][0])

    def _condition(self, condition: Any) -> str:
        name = type(condition).__name__
        if name in ("And", "Or"):
            return self._notation.joined(name.lower(), [self._condition(part) for part in condition.args])
        if name == "Not":
            return f"not ({self._condition(condition.args[0])})"
        if condition.is_Relational:
            return self._notation.compare(condition.rel_op, *(self.written(own) for own in condition.args))
        return str(condition)

    def _power(self, base: "Expr", exponent: "Expr") -> Any:
        written = self.written(base)
        if exponent.is_Rational and 2 * exponent == 1:
            return self._notation.call("sqrt", written)
        return written if exponent == 1 else self._notation.power(written, self.written(exponent))
