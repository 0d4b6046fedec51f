"""Denominators of right-hand sides that are quotients, by regressions linear in both parts."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.terms import Dictionary, union
from fim_dynsys.search.exact.selection import RANK, Terms, at_the_knee, columns_of, fewest
from fim_dynsys.search.functions.families import INNER, SECOND, Bundle, Function, hill
from fim_dynsys.search.functions.regressions import Integrals
from fim_dynsys.search.origins import named

PLAIN = {1: 3}
"""Degree of monomials beside a function and as its factors, by number of states; or 2."""

_ORDERS = (2, 3, 4, 6, 8, 10)  # of Hill's functions
_MOST_SUBSETS = 2500  # that are tried of one size


@dataclass(frozen=True)
class _Form:
    """Denominators ``m_0(x) + sum_k b_k m_k(x)`` of one kind, and the functions they are written with.

    Attributes
    ----------
    first : Dictionary
        ``m_0``: the constant, or a state.
    monomials : Dictionary
        The ``m_k``.
    bundle : callable
        From the ``b_k`` to functions; None where these are none of the kind.
    """

    first: Dictionary
    monomials: Dictionary
    bundle: Callable[[np.ndarray], Bundle | None]


@dataclass(frozen=True, eq=False)
class Denominator:
    """A denominator with its numbers, and how much it leaves.

    Attributes
    ----------
    criterion : float
        BIC of the regression.
    knee : float
        See `at_the_knee`.
    terms : Terms
        Functions with this denominator.
    """

    criterion: float
    knee: float
    terms: Terms


@dataclass(frozen=True)
class Denominators:
    """Regressions of ``P x' = Q`` for denominators ``P`` of one kind, linear in both.

    The integral of a monomial times ``x'`` is one over ``x`` and needs no slopes.

    Source: K. Kaheman, J. N. Kutz and S. L. Brunton, SINDy-PI, Proc. R. Soc. A 476 (2020) 20200279.
    """

    _form: _Form
    _degrees: np.ndarray
    _targets: list[np.ndarray]
    _above: list[np.ndarray]
    _below: list[np.ndarray]

    @classmethod
    def all(cls, regressions: Integrals, plain: Terms) -> "list[Denominators]":
        """Of every kind, about the terms that ``Q / P`` is added to and made of."""
        return [cls._of(regressions, form, plain) for form in _forms(len(regressions.targets))]

    @classmethod
    def _of(cls, regressions: Integrals, form: _Form, plain: Terms) -> "Denominators":
        multiplied = [plain.times(powers) for powers in (form.first + form.monomials).exponents]
        numerators = union([plain.terms, *multiplied])[0]
        above, below = columns_of(regressions, numerators), regressions.against(form.first + form.monomials)
        targets = [columns[:, 0] for columns in below] if form.first.exponents.any() else regressions.targets
        return cls(
            form, numerators.exponents.sum(axis=1), targets, above, [columns[:, 1:] for columns in below]
        )

    def about(self, regressions: Integrals, plain: Terms) -> "Denominators":
        """The same kind about other terms."""
        return self._of(regressions, self._form, plain)

    def read(self, state: int) -> "list[Denominator]":
        """With the numbers that leave least, and with those beside few terms; none where there are poles."""
        columns = np.column_stack([self._above[state], -self._below[state]])
        count, size = self._below[state].shape[1], np.linalg.norm(columns, axis=0)
        if not (np.isfinite(columns).all() and (size > 0.0).all()):
            return []
        target = self._targets[state]
        held = np.arange(len(size) - count, len(size))
        degrees = np.append(self._degrees, np.zeros(count, dtype=np.int64))
        fits = fewest(columns / size, target, held, degrees, _MOST_SUBSETS)
        by_size = [
            (criterion, at_the_knee(criterion, len(target), len(active)), active)
            for criterion, active in fits
        ]
        chosen = {len(fit[2]): fit for fit in (min(by_size, key=itemgetter(k)) for k in (0, 1))}
        found = []
        for criterion, knee, active in chosen.values():
            values = np.linalg.lstsq(columns[:, active] / size[active], target, rcond=RANK)[0]
            bundle = self._form.bundle(values[-count:] / size[held])
            if bundle is not None:
                found.append(Denominator(criterion, knee, Terms.of_bundle(bundle, len(self._targets))))
        return found


def _forms(dim: int) -> Iterator[_Form]:
    """Denominators of one state, and of two."""
    unit, degree = np.eye(dim, dtype=np.int64), PLAIN.get(dim, 2)
    one = Dictionary.polynomial(dim, 0)
    for c in range(dim):
        for order in (1, *_ORDERS):
            yield _Form(one, Dictionary(order * unit[[c]]), _single(c, order, degree))
        yield _Form(one, Dictionary(np.stack([unit[c], 2 * unit[c]])), _quadratic(c, degree))
    for c, e in itertools.combinations(range(dim), 2):
        yield _Form(one, Dictionary(unit[[c, e]]), _linear_in_two(c, e, degree))
        yield _Form(Dictionary(unit[[c]]), Dictionary(unit[[e]]), _ratio(c, e, degree))


def _single(c: int, order: int, degree: int) -> Callable[[np.ndarray], Bundle | None]:
    def bundle(b: np.ndarray) -> Bundle | None:
        if order > 1 and not b[0] > 0.0:
            return None
        return hill(c, order, float(b[0]) if order == 1 else float(b[0] ** (1.0 / order)), degree)

    return bundle


def _quadratic(c: int, degree: int) -> Callable[[np.ndarray], Bundle | None]:
    def bundle(b: np.ndarray) -> Bundle | None:
        if b[0] == 0.0:
            return None
        function = Function(Kind.QUADRATIC_RECIPROCAL, c, float(b[0]), float(b[1] / b[0] ** 2))
        return Bundle(f"quotient {named(c)}", (function,), ((0, INNER, 0), (0, SECOND, 1)), degree)

    return bundle


def _linear_in_two(c: int, e: int, degree: int) -> Callable[[np.ndarray], Bundle | None]:
    def bundle(b: np.ndarray) -> Bundle:
        function = Function(Kind.RECIPROCAL, c, float(b[0]), float(b[1]), e)
        return Bundle(
            f"quotient {named(c)}, {named(e)}", (function,), ((0, INNER, 0), (0, SECOND, 1)), degree
        )

    return bundle


def _ratio(c: int, e: int, degree: int) -> Callable[[np.ndarray], Bundle | None]:
    def bundle(b: np.ndarray) -> Bundle:
        function = Function(Kind.INVERSE, c, 1.0, float(b[0]), e)
        return Bundle(f"ratio {named(c)}, {named(e)}", (function,), ((0, SECOND, 0),), degree)

    return bundle
