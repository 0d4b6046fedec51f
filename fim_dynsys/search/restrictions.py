"""Coefficients that are not all free: linear equalities, bounds, terms that must be there."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.sparse import solve_supports

ROUNDING = 1e-11
"""Of the largest entry of an equality."""

Beyond = Callable[[np.ndarray, int, int, np.ndarray], "Restriction"]
"""See `Restriction`."""


def in_units(beyond: "Beyond", scale: np.ndarray, unit: float) -> "Beyond":
    """The same for states and inputs in units of their ``scale`` (d + m,), and a unit of time."""

    def scaled(exponents: np.ndarray, kind: int, coordinate: int, admitted: np.ndarray) -> Restriction:
        factor = np.prod(scale**exponents, axis=1)[:, None] * unit / scale[: admitted.shape[1]]
        return beyond(exponents, kind, coordinate, admitted).rescaled(factor)

    return scaled


@dataclass(frozen=True, eq=False)
class Restriction:
    """The coefficients ``offset + basis @ free`` with ``low <= free <= high``.

    Each free number is itself one of the coefficients, so that a sparse vector of free numbers is a sparse
    field.

    Attributes
    ----------
    offset : array (m, d)
        Coefficients where all free numbers are zero.
    basis : array (m d, q)
        How coefficients, row by row, depend on the free numbers.
    place : int array (q,)
        Which coefficient each free number is.
    low, high : array (q,)
        Bounds, infinite where there are none.
    required : bool array (q,)
        Numbers that are fitted in every candidate.
    apart : bool array (d + m, d)
        Which states and inputs (first axis) an equation (second axis) does not depend on, in terms of any
        dictionary.
    beyond : callable or None
        What is known of terms beyond the dictionary that have one function in common: from exponents (k, D)
        of their monomials, the function's kind and coordinate, and which equations (k, d) may have them,
        their own restriction. None: nothing.
    """

    offset: np.ndarray
    basis: np.ndarray
    place: np.ndarray
    low: np.ndarray
    high: np.ndarray
    required: np.ndarray
    apart: np.ndarray
    beyond: "Beyond | None" = None

    @property
    def dim(self) -> int:
        """Number of equations."""
        return self.offset.shape[1]

    @property
    def still(self) -> np.ndarray:
        """The coefficients (m, d) with all free numbers zero, or at the bound nearest to that."""
        return self.coefficients(np.clip(np.zeros(len(self.place)), self.low, self.high))

    def rescaled(self, factor: np.ndarray) -> "Restriction":
        """The same for coefficients times a factor (m, d)."""
        factors = factor.ravel()
        units = factors[self.place]
        return replace(
            self,
            offset=self.offset * factor,
            basis=self.basis * factors[:, None] / units,
            low=self.low * units,
            high=self.high * units,
        )

    def numbers(self, coefficients: np.ndarray) -> np.ndarray:
        """Free numbers (q,) of coefficients (m, d)."""
        return coefficients.ravel()[self.place]

    def coefficients(self, numbers: np.ndarray) -> np.ndarray:
        """Coefficients (..., m, d) by free numbers (..., q)."""
        return self.offset + (numbers @ self.basis.T).reshape(*numbers.shape[:-1], *self.offset.shape)

    def active(self, coefficients: np.ndarray) -> np.ndarray:
        """Free numbers (q,) that a fit moves: required or not zero, and within their bounds."""
        numbers = self.numbers(coefficients)
        return ((numbers != 0.0) | self.required) & (numbers > self.low) & (numbers < self.high)

    def count(self, coefficients: np.ndarray) -> int:
        """How many numbers were fitted."""
        return int(np.count_nonzero(self.active(coefficients)))

    def clipped(self, coefficients: np.ndarray) -> np.ndarray:
        """The coefficients (m, d) with the free numbers within their bounds, the others following."""
        return self.coefficients(np.clip(self.numbers(coefficients), self.low, self.high))

    def within(self, coefficients: np.ndarray) -> bool:
        """Whether no free number is beyond its bounds."""
        numbers = self.numbers(coefficients)
        return bool(((numbers >= self.low) & (numbers <= self.high)).all())

    def nearest(self, coefficients: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """Coefficients (m, d) that satisfy the restriction, nearest to given ones.

        Parameters
        ----------
        coefficients : array (m, d)
            Given.
        precision : array (d, m, m) or (m, d)
            Of each equation's coefficients: distances are measured by it.

        Returns
        -------
        array (m, d)
        """
        gram, moment = self.equations(precision, _moments(precision, coefficients))
        return self.coefficients(self.solved(gram, moment, np.ones(len(self.place), dtype=bool)))

    def equations(self, gram: np.ndarray, moment: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Normal equations (..., q, q), (..., q) of the free numbers from those of all equations.

        Parameters
        ----------
        gram : array (..., d, m, m), or (m, d) where it is diagonal
            Normal matrices of each equation's coefficients.
        moment : array (..., d, m)
            Right-hand sides.
        """
        parts = self.basis.reshape(*self.offset.shape, len(self.place))
        if gram.shape == self.offset.shape:
            gram = np.stack([np.diag(diagonal) for diagonal in gram.T])
        left, right = 0.0, 0.0
        for k, offset in enumerate(self.offset.T):
            block = gram[..., k, :, :]
            left = left + parts[:, k].T @ block @ parts[:, k]
            right = right + (moment[..., k, :] - block @ offset) @ parts[:, k]
        return np.asarray(left), np.asarray(right)

    def solved(self, gram: np.ndarray, moment: np.ndarray, support: np.ndarray) -> np.ndarray:
        """Least squares on a support (q,) with the bounds: numbers beyond theirs are held there.

        Parameters
        ----------
        gram, moment : arrays (q, q), (q,)
            Normal equations of the free numbers.
        support : bool array (q,)
            Which may be other than zero; required ones are added.

        Returns
        -------
        array (q,)
        """
        held = np.zeros(len(moment))
        free = support | self.required
        for _ in range(len(moment) + 1):
            numbers = np.where(free, solve_supports(gram, moment - gram @ held, free), held)
            inside = np.clip(numbers, self.low, self.high)
            beyond = inside != numbers
            if not beyond.any():
                break
            held = np.where(beyond, inside, held)
            free = free & ~beyond
        return np.clip(numbers, self.low, self.high)

    @cached_property
    def blocks(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Equations that share free numbers, and these: lists of indices, equations with none left out."""
        touched = np.logical_or.reduce(self.basis.reshape(*self.offset.shape, len(self.place)) != 0.0)
        together = touched.astype(int) @ touched.T.astype(int) > 0
        for _ in range(self.dim):
            together = together.astype(int) @ together.astype(int) > 0
        found = []
        for k in range(self.dim):
            equations = np.flatnonzero(together[k])
            if len(equations) and equations[0] == k:
                found.append((equations, np.flatnonzero(touched[equations].any(axis=0))))
        return found

    def part(self, equations: np.ndarray, numbers: np.ndarray) -> "Restriction":
        """The restriction of some equations, which depend on some of the numbers alone."""
        m, d = self.offset.shape
        rows = self.basis.reshape(m, d, len(self.place))[:, equations][:, :, numbers].reshape(
            m * len(equations), -1
        )
        term, equation = np.divmod(self.place[numbers], d)
        place = term * len(equations) + np.searchsorted(equations, equation)
        return Restriction(
            self.offset[:, equations],
            rows,
            place,
            self.low[numbers],
            self.high[numbers],
            self.required[numbers],
            self.apart[:, equations],
        )

    def subset(self, rows: np.ndarray) -> "Restriction":
        """The restriction where all coefficients outside some rows (k,) of the dictionary are zero.

        Numbers that move coefficients outside are zero then too.
        """
        m, d = self.offset.shape
        outside = np.ones(m, dtype=bool)
        outside[rows] = False
        basis = self.basis.reshape(m, d, len(self.place))
        kept = ~np.logical_or.reduce(basis[outside] != 0.0, axis=(0, 1))
        row, state = np.divmod(self.place[kept], d)
        place_of = np.zeros(m, dtype=np.intp)
        place_of[rows] = np.arange(len(rows))
        return replace(
            self,
            offset=self.offset[rows],
            basis=basis[rows][:, :, kept].reshape(len(rows) * d, int(kept.sum())),
            place=place_of[row] * d + state,
            low=self.low[kept],
            high=self.high[kept],
            required=self.required[kept],
        )

    def tied(self, support: np.ndarray) -> "Restriction | None":
        """The restriction of fields whose other coefficients than those of a support (m, d) are all zero.

        None where it allows no such field. Numbers that others decide then lose their bounds.
        """
        outside = ~support.ravel()
        rows = np.column_stack([self.basis[outside], -self.offset.ravel()[outside]])
        pivots: list[int] = []
        for k in range(len(rows)):
            row = rows[k]
            row[np.abs(row) <= ROUNDING * np.abs(row).max(initial=0.0)] = 0.0
            column = int(np.argmax(np.abs(row[:-1]))) if len(row) > 1 else 0
            if not row[:-1].any():
                if row[-1] != 0.0:
                    return None
                continue
            rows[k] = row / row[column]
            others = np.arange(len(rows)) != k
            rows[others] -= rows[others, column : column + 1] * rows[k]
            pivots.append(column)
        decided = np.array(pivots, dtype=np.intp)
        kept = np.setdiff1d(np.arange(len(self.place)), decided)
        solved = rows[rows[:, :-1].any(axis=1)]
        given = np.column_stack([self.basis[:, kept], self.offset.ravel()])
        by_others = self.basis[:, decided] @ np.column_stack([-solved[:, kept], solved[:, -1]])
        ends = given + by_others
        ends[np.abs(ends) <= ROUNDING * np.maximum(np.abs(given), np.abs(by_others))] = 0.0
        ends[outside] = 0.0
        basis, offset = ends[:, :-1], ends[:, -1]
        return replace(
            self,
            offset=offset.reshape(self.offset.shape),
            basis=basis,
            place=self.place[kept],
            low=self.low[kept],
            high=self.high[kept],
            required=self.required[kept],
        )

    def rows_of(self, coefficients: np.ndarray) -> np.ndarray:
        """Rows of the dictionary in use: by coefficients, or by numbers that are fitted though zero."""
        fitted = self.basis[:, self.required | (self.numbers(coefficients) != 0.0)] != 0.0
        moved = np.logical_or.reduce(fitted, axis=1).reshape(coefficients.shape)
        return np.logical_or.reduce((coefficients != 0.0) | moved, axis=1)

    def admits(self, terms: Dictionary) -> np.ndarray:
        """Whether terms beyond the dictionary may be in each equation (m, d)."""
        return ~(terms.states.astype(int) @ self.apart.astype(int) > 0) & ~self.apart.all(axis=0)

    def extended(self, given: Dictionary, terms: Dictionary) -> "Restriction":
        """The restriction for a dictionary that has all of its terms and others, which are free.

        Parameters
        ----------
        given : Dictionary
            Monomials that this restriction is about.
        terms : Dictionary
            These, and others. Those with a state that an equation does not depend on are left out there.
            What is conserved holds for the terms of each function by themselves.
        """
        m, d, q = len(terms), self.dim, len(self.place)
        known = {tuple(powers): row for row, powers in enumerate(given.exponents.tolist())}
        rows, others = np.zeros(len(given), dtype=np.intp), []
        for row, (powers, kind) in enumerate(zip(terms.exponents.tolist(), terms.kind, strict=True)):
            if kind == 0 and tuple(powers) in known:
                rows[known.pop(tuple(powers))] = row
            else:
                others.append(row)
        assert not known
        admitted = self.admits(terms)
        if self.beyond is not None:
            return self._with_functions(terms, rows, others, admitted)
        free = [row * d + state for row in others for state in range(d) if admitted[row, state]]
        each = np.zeros((m, d, q + len(free)))
        each[rows, :, :q] = self.basis.reshape(len(given), d, q)
        basis = each.reshape(m * d, -1)
        basis[free, range(q, q + len(free))] = 1.0
        offset = np.zeros((m, d))
        offset[rows] = self.offset
        term, state = np.divmod(self.place, d)
        more = np.full(len(free), np.inf)
        return replace(
            self,
            offset=offset,
            basis=basis,
            place=np.concatenate([rows[term] * d + state, np.array(free, dtype=np.intp)]),
            low=np.concatenate([self.low, -more]),
            high=np.concatenate([self.high, more]),
            required=np.concatenate([self.required, np.zeros(len(free), dtype=bool)]),
        )

    def _with_functions(
        self, terms: Dictionary, monomials: np.ndarray, others: list[int], admitted: np.ndarray
    ) -> "Restriction":
        """As `extended`, the others by their functions."""
        assert self.beyond is not None
        m, d = len(terms), self.dim
        groups: dict[tuple[float, ...], list[int]] = {}
        for row in others:
            groups.setdefault(terms.function(row), []).append(row)
        parts = [(monomials, self)]
        for rows in groups.values():
            at = np.array(rows, dtype=np.intp)
            kind, coordinate = int(terms.kind[rows[0]]), int(terms.coordinate[rows[0]])
            signed = terms.partner[rows[0]] >= 0 or terms.inner[rows[0]] < 0
            coordinate = -1 if signed else coordinate
            parts.append((at, self.beyond(terms.exponents[at], kind, coordinate, admitted[at])))
        offset = np.zeros((m, d))
        basis, place = [], []
        for at, part in parts:
            each = np.zeros((m, d, len(part.place)))
            each[at] = part.basis.reshape(len(at), d, len(part.place))
            offset[at] = part.offset
            term, state = np.divmod(part.place, d)
            basis.append(each.reshape(m * d, -1))
            place.append(at[term] * d + state)
        known = [part for _, part in parts]
        return replace(
            self,
            offset=offset,
            basis=np.concatenate(basis, axis=1),
            place=np.concatenate(place),
            low=np.concatenate([part.low for part in known]),
            high=np.concatenate([part.high for part in known]),
            required=np.concatenate([part.required for part in known]),
        )


def _moments(precision: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    if precision.shape == coefficients.shape:
        return (precision * coefficients).T
    return np.einsum("dij,jd->di", precision, coefficients)
