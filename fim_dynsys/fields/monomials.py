"""Tables of monomials: each is one that comes before it times a coordinate."""

import itertools

import numpy as np


def _lowered(row: tuple[int, ...], j: int) -> tuple[int, ...]:
    """The monomial ``row`` divided by coordinate ``j``."""
    return tuple(e - (k == j) for k, e in enumerate(row))


class MonomialTable:
    """Every monomial that divides a given one, built by one multiplication each.

    Rows are sorted by total degree; row 0 is the constant. The table is closed under division, so that
    derivatives of its monomials are multiples of its rows.

    Parameters
    ----------
    exponents : array (m, d) of int
        Monomials that the table must contain.
    """

    def __init__(self, exponents: np.ndarray):
        dim = exponents.shape[1]
        wanted = [tuple(int(e) for e in row) for row in exponents]
        closed = {(0,) * dim}
        for row in wanted:
            closed.update(itertools.product(*(range(e + 1) for e in row)))
        given = {row: i for i, row in reversed(list(enumerate(wanted)))}
        rows = sorted(closed, key=lambda e: (sum(e), given.get(e, len(wanted)), [-v for v in e]))
        position = {row: i for i, row in enumerate(rows)}
        self.dim = dim
        self.exponents = np.array(rows, dtype=np.int64).reshape(len(rows), dim)
        self.index = np.array([position[row] for row in wanted], dtype=np.intp)
        self.is_identity = np.array_equal(self.index, np.arange(len(rows)))
        self.levels = self._build_levels(rows, position)
        self.parent, self.factor = np.zeros((2, len(rows)), dtype=np.intp)
        for members, parents, factors in self.levels:
            self.parent[members], self.factor[members] = parents, factors
        self.lowered = np.zeros((len(rows), dim), dtype=np.intp)
        for i, row in enumerate(rows):
            for j in range(dim):
                if row[j]:
                    self.lowered[i, j] = position[_lowered(row, j)]

    def __len__(self) -> int:
        return len(self.exponents)

    def _build_levels(
        self, rows: list[tuple[int, ...]], position: dict[tuple[int, ...], int]
    ) -> list[tuple[slice, np.ndarray, np.ndarray]]:
        levels = []
        for degree in range(1, sum(rows[-1]) + 1):
            members = [i for i, row in enumerate(rows) if sum(row) == degree]
            factor = [max(j for j in range(self.dim) if rows[i][j]) for i in members]
            parent = [position[_lowered(rows[i], j)] for i, j in zip(members, factor, strict=True)]
            levels.append(
                (slice(members[0], members[-1] + 1), np.array(parent, np.intp), np.array(factor, np.intp))
            )
        return levels

    def columns(self, x: np.ndarray) -> np.ndarray:
        """Values of all rows at ``x`` (d, n): array (rows, n)."""
        table = np.empty((len(self.exponents), x.shape[1]))
        table[0] = 1.0
        for degree, (rows, parent, factor) in enumerate(self.levels):
            if degree == 0:
                table[rows] = x.take(factor, axis=0)
            else:
                np.multiply(table.take(parent, axis=0), x.take(factor, axis=0), out=table[rows])
        return table
