"""Natural sizes of parameters, by balancing the sizes of terms."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sympy import Expr

_WEAK = 1e-2  # weight of size 1, where nothing else is known
_EXPONENT = 2.0  # natural size of what is an exponent
_WIDEST = 30.0  # decades that a size may be from 1


class Balance:
    """Linear equations for the decadic logarithms of unknown sizes.

    Parameters
    ----------
    known : mapping
        Sizes.
    unknown : sequence of str
        Names of the others.
    """

    def __init__(self, known: Mapping[str, float], unknown: Sequence[str]) -> None:
        self.known, self.place = known, {name: k for k, name in enumerate(unknown)}
        self.rows: list[np.ndarray] = []
        self.targets: list[float] = []
        self.n = len(unknown)

    def equate(self, a: tuple[np.ndarray, float], b: tuple[np.ndarray, float]) -> None:
        self.rows.append(a[0] - b[0])
        self.targets.append(b[1] - a[1])

    def level(self, value: float) -> tuple[np.ndarray, float]:
        return np.zeros(self.n), value

    def mean(self, sizes: list[tuple[np.ndarray, float]]) -> tuple[np.ndarray, float]:
        return np.mean([s[0] for s in sizes], axis=0), float(np.mean([s[1] for s in sizes]))

    def size(self, expression: "Expr") -> tuple[np.ndarray, float]:
        """Logarithm of an expression's size: unknown ones (n,) and a number."""
        name = type(expression).__name__
        if expression.is_Symbol:
            if expression.name in self.place:
                row = np.zeros(self.n)
                row[self.place[expression.name]] = 1.0
                return row, 0.0
            return self.level(float(np.log10(self.known.get(expression.name, 1.0))))
        if expression.is_number:
            value = abs(float(expression))
            return self.level(float(np.log10(value)) if 0.0 < value < np.inf else 0.0)
        if expression.is_Mul:
            parts = [self.size(part) for part in expression.args]
            return np.sum([p[0] for p in parts], axis=0), float(sum(p[1] for p in parts))
        if expression.is_Pow:
            row, value = self.size(expression.base)
            exponent = expression.exp
            if not exponent.is_number:
                self.equate(self.size(exponent), self.level(float(np.log10(_EXPONENT))))
            factor = float(exponent) if exponent.is_number else _EXPONENT
            return factor * row, factor * value
        if expression.is_Add or name in ("Min", "Max"):
            parts = [self.size(part) for part in expression.args if not part.is_number]
            for other in parts[1:]:
                self.equate(other, parts[0])
            return self.mean(parts)
        if name == "Abs":
            return self.size(expression.args[0])
        if name == "Piecewise":
            return self.mean([self.size(value) for value, _ in expression.args])
        for argument in expression.args:  # a function of what has no unit
            self.equate(self.size(argument), self.level(0.0))
        return self.level(0.0)


def natural_sizes(
    equalities: "Sequence[tuple[Expr, float]]", known: Mapping[str, float], unknown: Sequence[str]
) -> dict[str, float]:
    """Sizes of unknown symbols by those of expressions, positive.

    Parameters
    ----------
    equalities : sequence of (expression, size)
        Expressions, each term of which is about so large.
    known : mapping
        Sizes of the other symbols.
    unknown : sequence of str
        Names of the unknown ones.
    """
    balance = Balance(known, unknown)
    for expression, size in equalities:
        for term in expression.args if expression.is_Add else (expression,):
            if not term.is_number:
                balance.equate(balance.size(term), balance.level(float(np.log10(size))))
    if not unknown:
        return {}
    rows = np.concatenate([np.reshape(balance.rows, (-1, len(unknown))), _WEAK * np.eye(len(unknown))])
    targets = np.concatenate([balance.targets, np.zeros(len(unknown))])
    found = np.linalg.lstsq(rows, targets, rcond=None)[0]
    return dict(zip(unknown, (10.0 ** np.clip(found, -_WIDEST, _WIDEST)).tolist(), strict=True))


def size_of(expression: "Expr", known: Mapping[str, float]) -> float:
    """The size of an expression by those of its symbols, positive."""
    return float(10.0 ** Balance(known, ()).size(expression)[1])


def positive_names(expressions: "Sequence[Expr]", nonnegative: Sequence[str]) -> set[str]:
    """Symbols that can only be positive by where they stand.

    Those are divisors, arguments of logarithms and bases of broken or unknown powers, by themselves or as
    factors; and summands of such where everything else in the sum is one of ``nonnegative``.
    """
    import sympy

    found: set[str] = set()

    def mark(expression: "Expr") -> None:
        if expression.is_Symbol:
            found.add(expression.name)
        elif expression.is_Mul or expression.is_Pow:
            for part in expression.args if expression.is_Mul else expression.args[:1]:
                mark(part)
        elif expression.is_Add:
            bare = [part for part in expression.args if part.is_Symbol or part.is_Pow]
            if len(bare) == len(expression.args) and expression.free_symbols & allowed:
                for part in bare:
                    mark(part)

    allowed = {s for e in expressions for s in e.free_symbols if s.name in nonnegative}
    for expression in expressions:
        for node in sympy.preorder_traversal(expression):
            if node.is_Pow and not (node.exp.is_number and node.exp.is_Integer and node.exp > 0):
                mark(node.base)
            elif isinstance(node, sympy.log):
                mark(node.args[0])
    return found
