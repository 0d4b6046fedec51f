"""Right-hand sides as sums of terms: expanded, and thinned by integral matching."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sympy
from scipy.interpolate import CubicSpline

from fim_dynsys.fields.expressions import compiled, expanded_size
from fim_dynsys.regression.criteria import bic
from fim_dynsys.regression.observed import Observations
from fim_dynsys.regression.sparse import backward_elimination, normal_equations, solve_supports

_MOST_TERMS = 16  # of an expanded right-hand side; one of more is left out
_DIGITS = 6  # to which two structures with equal constants are the same


@dataclass(frozen=True)
class RightHandSide:
    """A sum of terms for the rate of change of one state, in the units of the search.

    Attributes
    ----------
    coefficients : tuple of float
        Of the terms.
    terms : tuple of sympy.Expr
        Without numerical factors.
    score : float
        BIC of the state's path as the integral of the sum.
    """

    coefficients: tuple[float, ...]
    terms: tuple[sympy.Expr, ...]
    score: float

    @property
    def expression(self) -> sympy.Expr:
        """The sum."""
        return sympy.Add(*(c * term for c, term in zip(self.coefficients, self.terms, strict=True)))


def split(expression: sympy.Expr) -> tuple[sympy.Expr, ...] | None:
    """The terms of an expanded expression, without numerical factors; None where they are too many."""
    if expanded_size(expression) > _MOST_TERMS**2:
        return None
    expanded = _expanded(_expanded(expression).replace(_is_scaled, _without_scale))
    terms = {term.as_coeff_Mul()[1] for term in sympy.Add.make_args(expanded)}
    finite = not expanded.has(sympy.zoo, sympy.nan, sympy.oo)
    return tuple(sorted(terms, key=sympy.default_sort_key)) if finite and len(terms) <= _MOST_TERMS else None


def _expanded(expression: sympy.Expr) -> sympy.Expr:
    return sympy.expand(expression, power_exp=False, power_base=False, log=False)


def _is_scaled(part: sympy.Expr) -> bool:
    """Whether a part is a constant times another of the same kind: a quotient, or an exponential."""
    if isinstance(part, sympy.exp):
        return part.args[0].as_coeff_Add()[0] != 0
    return part.is_Pow and part.base.is_Add and part.exp.is_negative is True


def _without_scale(part: sympy.Expr) -> sympy.Expr:
    if isinstance(part, sympy.exp):
        constant, rest = part.args[0].as_coeff_Add()
        return sympy.exp(constant) * sympy.exp(rest)
    first = min(part.base.args, key=sympy.default_sort_key).as_coeff_Mul()[0]
    return first**part.exp * sympy.expand(part.base / first) ** part.exp


def matched(
    terms: Sequence[sympy.Expr], symbols: Sequence[sympy.Symbol], state: int, observations: Observations
) -> RightHandSide | None:
    """The terms of which the integral along the smoothed states explains a state best.

    The state is regressed on the integrals of the terms, with a free start in each piece; terms are given up
    one at a time, and the number kept is that of the smallest BIC. None where a term is not finite.

    References
    ----------
    I. Dattner, C. A. J. Klaassen, Optimal rate of direct estimators in systems of ordinary differential
    equations linear in functions of the parameters, Electron. J. Stat. 9 (2015) 1939, section 2.
    """
    parts, pieces, m = [], len(observations.samples), len(terms)
    for k, ((t, z), states) in enumerate(zip(observations.samples, observations.path, strict=True)):
        values = compiled(tuple(terms), tuple(symbols))(*states.T).T
        if not (np.abs(values) < 1e100).all():
            return None
        columns = np.zeros((len(t), m + pieces))
        columns[:, :m] = CubicSpline(t, values).antiderivative()(t)
        columns[:, m + k] = 1.0
        parts.append((columns, z[:, state], observations.weights[k, : len(t), state]))
    columns, target, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
    gram, moment, total = normal_equations(columns, target[:, None], weights[:, None])
    # the starts stay: what they explain is taken out of everything else
    inner, cross = gram[0, :m, :m], gram[0, :m, m:]
    starts = gram[0, m:, m:].diagonal()
    reduced = inner - cross / starts @ cross.T
    reduced_moment = moment[0, :m] - cross / starts @ moment[0, m:]
    rest = total[0] - np.sum(moment[0, m:] ** 2 / starts)
    order, _ = backward_elimination(reduced, reduced_moment)
    best: RightHandSide | None = None
    support = np.ones(m, dtype=bool)
    for dropped in [None, *order]:
        if dropped is not None:
            support[dropped] = False
        c = solve_supports(reduced, reduced_moment, support)
        residual_variance = max(float(rest - 2.0 * c @ reduced_moment + c @ reduced @ c), 0.0) / len(target)
        kept = np.flatnonzero(support).tolist()
        count = len(kept) + sum(len(numbers(terms[j])) for j in kept)
        score = float(
            bic([residual_variance], len(target), count, observations.signal_variance[[state]], pieces)
        )
        if np.isfinite(c).all() and (best is None or score < best.score):
            best = RightHandSide(tuple(c[kept].tolist()), tuple(terms[j] for j in kept), score)
    return best


def numbers(term: sympy.Expr) -> list[sympy.Float]:
    """The numbers inside a term, in one order."""
    return sorted(term.atoms(sympy.Float), key=sympy.default_sort_key)


def structure(side: RightHandSide) -> str:
    """What two right-hand sides that differ in their coefficients only have in common."""
    return str([term.xreplace({v: sympy.Float(v, _DIGITS) for v in numbers(term)}) for term in side.terms])
