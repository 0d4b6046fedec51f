"""The dictionary as data: monomials, optionally times a function of one coordinate."""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fim_dynsys.fields.functions import SHAPED, Kind, derivative, function_name, sympy_form


def _lowered(row, j):
    """The monomial ``row`` divided by coordinate ``j``."""
    return tuple(e - (k == j) for k, e in enumerate(row))


ARRAYS = ("exponents", "kind", "coordinate", "inner", "second", "partner")
"""Names of the arrays that make a `Dictionary`, in the order of its arguments."""


class MonomialTable:
    """Every monomial that divides a given one, built by one multiplication each.

    Rows are sorted by total degree; row 0 is the constant. The table is closed under division, so that
    derivatives of its monomials are multiples of its rows.

    Parameters
    ----------
    exponents : array (m, d) of int
        Monomials that the table must contain.
    """

    def __init__(self, exponents):
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
        self._levels = self._build_levels(rows, position)
        self.lowered = np.zeros((len(rows), dim), dtype=np.intp)
        for i, row in enumerate(rows):
            for j in range(dim):
                if row[j]:
                    self.lowered[i, j] = position[_lowered(row, j)]

    def __len__(self):
        return len(self.exponents)

    def _build_levels(self, rows, position):
        levels = []
        for degree in range(1, sum(rows[-1]) + 1):
            members = [i for i, row in enumerate(rows) if sum(row) == degree]
            factor = [max(j for j in range(self.dim) if rows[i][j]) for i in members]
            parent = [position[_lowered(rows[i], j)] for i, j in zip(members, factor, strict=True)]
            levels.append(
                (slice(members[0], members[-1] + 1), np.array(parent, np.intp), np.array(factor, np.intp))
            )
        return levels

    def columns(self, x):
        """Values of all rows at ``x`` (d, n): array (rows, n)."""
        table = np.empty((len(self.exponents), x.shape[1]))
        table[0] = 1.0
        for degree, (rows, parent, factor) in enumerate(self._levels):
            if degree == 0:
                table[rows] = x.take(factor, axis=0)
            else:
                np.multiply(table.take(parent, axis=0), x.take(factor, axis=0), out=table[rows])
        return table


@dataclass(frozen=True, eq=False)
class Dictionary:
    """Terms ``x^exponents * g_kind(inner * x[coordinate])``, one column each.

    Attributes
    ----------
    exponents : array (m, d) of int
        Exponents of the monomial, not negative.
    kind : array (m,) of int8
        Values of `Kind`.
    coordinate : array (m,) of int
        Coordinate that enters ``g``; 0 where the kind is ``MONOMIAL``.
    inner : array (m,)
        Factor inside ``g``; 1 where the kind is ``MONOMIAL``.
    second : array (m,)
        Exponent, factor of a second coordinate, or shift; see `Kind`.
    partner : array (m,) of int
        Second coordinate inside ``g``, -1 where there is none.
    """

    exponents: np.ndarray
    kind: np.ndarray | None = None
    coordinate: np.ndarray | None = None
    inner: np.ndarray | None = None
    second: np.ndarray | None = None
    partner: np.ndarray | None = None

    def __post_init__(self):
        exponents = np.array(self.exponents, dtype=np.int64)
        if exponents.ndim != 2 or exponents.shape[1] < 1 or (exponents < 0).any():
            raise ValueError(
                "Dictionary: expected exponents of shape (terms, dim) that are not negative, "
                f"got shape {exponents.shape}; pass one row of non-negative integers per term."
            )
        m = len(exponents)
        values = {
            "kind": np.array(np.zeros(m) if self.kind is None else self.kind, dtype=np.int8),
            "coordinate": np.array(np.zeros(m) if self.coordinate is None else self.coordinate, np.int64),
            "inner": np.array(np.ones(m) if self.inner is None else self.inner, dtype=np.float64),
            "second": np.array(np.zeros(m) if self.second is None else self.second, dtype=np.float64),
            "partner": np.array(np.full(m, -1) if self.partner is None else self.partner, dtype=np.int64),
        }
        for name, value in values.items():
            if value.shape != (m,):
                raise ValueError(f"Dictionary: expected {name} of shape ({m},), got {value.shape}.")
        if m and not set(values["kind"].tolist()) <= {int(k) for k in Kind}:
            raise ValueError(f"Dictionary: expected kinds among {[int(k) for k in Kind]}.")
        for name, least in (("coordinate", 0), ("partner", -1)):
            if not set(values[name].tolist()) <= set(range(least, exponents.shape[1])):
                raise ValueError(f"Dictionary: expected {name}s below {exponents.shape[1]}.")
        values["exponents"] = exponents
        for name, value in values.items():
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    @classmethod
    def polynomial(cls, dim, degree, include_bias=True):
        """All monomials of total degree at most ``degree``, in the order of pysindy's ``PolynomialLibrary``.

        Parameters
        ----------
        dim : int
            Number of coordinates.
        degree : int
            Largest total degree.
        include_bias : bool
            Whether the constant is the first term.
        """
        rows = []
        for order in range(0 if include_bias else 1, degree + 1):
            for combination in itertools.combinations_with_replacement(range(dim), order):
                rows.append(np.bincount(combination, minlength=dim) if order else np.zeros(dim, int))
        return cls(np.array(rows, dtype=np.int64).reshape(len(rows), dim))

    @classmethod
    def functions(cls, dim, kind, inner=1.0, exponents=None, second=0.0):
        """One term of ``kind`` per coordinate, all with the same ``inner``, monomial and ``second``."""
        powers = np.zeros((dim, dim), int) if exponents is None else np.tile(exponents, (dim, 1))
        numbers = (np.full(dim, float(value)) for value in (inner, second))
        return cls(powers, np.full(dim, int(kind)), np.arange(dim), *numbers)

    @property
    def dim(self):
        """Number of coordinates."""
        return self.exponents.shape[1]

    def __len__(self):
        return len(self.exponents)

    def _key(self):
        return (self.exponents.shape, *(getattr(self, name).tobytes() for name in ARRAYS))

    def __eq__(self, other):
        return self._key() == other._key() if isinstance(other, Dictionary) else NotImplemented

    def __hash__(self):
        return hash(self._key())

    def __add__(self, other):
        """Terms of both, in order (duplicates stay)."""
        if other.dim != self.dim:
            raise ValueError(f"Dictionary: expected another one of dimension {self.dim}, got {other.dim}.")
        return Dictionary(*(np.concatenate([getattr(self, n), getattr(other, n)]) for n in ARRAYS))

    def subset(self, index):
        """Terms chosen by an index array, a slice or a boolean mask."""
        return Dictionary(*(getattr(self, name)[index] for name in ARRAYS))

    @cached_property
    def is_polynomial(self):
        """Whether every term is a monomial."""
        return not self.kind.any()

    @property
    def degree(self):
        """Largest total degree of the monomial parts."""
        return int(self.exponents.sum(1).max(initial=0))

    @cached_property
    def table(self):
        """`MonomialTable` of the monomial parts."""
        return MonomialTable(self.exponents)

    @cached_property
    def packed(self):
        """Plain arrays for `fim_dynsys.regression.kernels.terms`.

        Parent and factor of each row of the monomial table and where its quotients by each coordinate are;
        then, for each term, its row of the table, exponents, kind, coordinate, inner, second and partner.
        """
        table = self.table
        parent, factor = np.zeros((2, len(table)), dtype=np.intp)
        for rows, parents, factors in table._levels:
            parent[rows], factor[rows] = parents, factors
        return (
            parent,
            factor,
            table.lowered,
            table.index,
            self.exponents,
            self.kind,
            self.coordinate,
            self.inner,
            self.second,
            self.partner,
        )

    @cached_property
    def _shaped(self):
        return np.isin(self.kind, [int(kind) for kind in SHAPED])

    @cached_property
    def _inside(self):
        """Weights (m, d) and shifts (m,) of the functions' arguments."""
        rows = np.arange(len(self))
        weights = np.zeros(self.exponents.shape)
        weights[rows, self.coordinate] = self.inner
        paired = (self.partner >= 0) & ~self._shaped
        np.add.at(weights, (rows[paired], self.partner[paired]), self.second[paired])
        return weights, np.where(paired | self._shaped, 0.0, self.second)

    def _argument(self, rows, x):
        weights, shift = self._inside
        return weights[rows] @ x + shift[rows, None]

    def _g(self, kind, rows, u, order):
        """``order``-th derivative of the functions of terms ``rows`` at ``u`` (terms, n)."""
        return derivative(kind, u, order, self.second[rows, None])

    @cached_property
    def _special(self):
        """Index arrays of the terms of each kind that is not a monomial."""
        return [(Kind(k), np.flatnonzero(self.kind == k)) for k in np.unique(self.kind) if k]

    def _points(self, x):
        x = np.asarray(x, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != self.dim:
            raise ValueError(f"Dictionary: expected points of shape (n, {self.dim}), got {x.shape}.")
        return x

    def columns(self, x):
        """Values at ``x`` (d, n), no validation: array (m, n)."""
        table = self.table.columns(x)
        values = table if self.table.is_identity else table.take(self.table.index, axis=0)
        for kind, rows in self._special:
            values[rows] *= self._g(kind, rows, self._argument(rows, x), 0)
        return values

    def evaluate(self, x):
        """Values of the terms.

        Parameters
        ----------
        x : array (n, d)
            Points.

        Returns
        -------
        array (n, m)
        """
        return self.columns(self._points(x).T).T

    def gradient(self, x):
        """Gradients of the terms.

        Parameters
        ----------
        x : array (n, d)
            Points.

        Returns
        -------
        array (n, m, d)
            ``[k, i, j]`` is the derivative of term ``i`` along coordinate ``j`` at point ``k``.
        """
        x = self._points(x).T
        table = self.table.columns(x)
        rows = self.table.index
        gradient = table[self.table.lowered[rows]] * self.exponents[:, :, None]
        for kind, special in self._special:
            u, weights = self._argument(special, x), self._inside[0][special]
            gradient[special] *= self._g(kind, special, u, 0)[:, None]
            slope = table[rows[special]] * self._g(kind, special, u, 1)
            gradient[special] += weights[:, :, None] * slope[:, None]
        return np.moveaxis(gradient, 2, 0)

    def directional(self, x, *directions):
        """Exact derivatives of the terms along any number of directions.

        The point is perturbed by ``e_1 v_1 + ... + e_k v_k`` with numbers of square zero; the coefficient of
        ``e_1 ... e_k`` is the derivative (truncated Taylor arithmetic, Griewank & Walther 2008, ch. 13).

        Parameters
        ----------
        x : array (n, d)
            Points.
        *directions : arrays (n, d)
            One direction per point and order.

        Returns
        -------
        array (n, m)
        """
        x = self._points(x).T
        vectors = [np.broadcast_to(np.asarray(v, float), x.T.shape).T for v in directions]
        size = 1 << len(vectors)
        coordinates = np.zeros((size, *x.shape))
        coordinates[0] = x
        for bit, vector in enumerate(vectors):
            coordinates[1 << bit] = vector
        jets = self._table_jets(coordinates)[:, self.table.index]
        weights, shift = self._inside
        for kind, rows in self._special:
            u = weights[rows] @ coordinates
            u[0] += shift[rows, None]
            jets[:, rows] = _jet_product(jets[:, rows], self._jet_function(kind, rows, u))
        return jets[-1].T

    def _jet_function(self, kind, rows, u):
        """``g(u)`` of a number with square-zero parts: the Taylor series ends by itself."""
        order = len(u).bit_length() - 1
        rest = u.copy()
        rest[0] = 0.0
        power = np.zeros_like(u)
        power[0] = 1.0
        out = np.zeros_like(u)
        for n in range(order + 1):
            out += self._g(kind, rows, u[0], n) / math.factorial(n) * power
            power = _jet_product(power, rest)
        return out

    def _table_jets(self, coordinates):
        table = self.table
        jets = np.zeros((len(coordinates), len(table), coordinates.shape[2]))
        jets[0, 0] = 1.0
        for rows, parent, factor in table._levels:
            jets[:, rows] = _jet_product(jets[:, parent], coordinates[:, factor])
        return jets

    def names(self, state_names=None):
        """Names in pysindy's style: ``1``, ``x0``, ``x0 x1``, ``x0^2``, ``x0 sin(2 x1)``."""
        states = tuple(f"x{i}" for i in range(self.dim)) if state_names is None else tuple(state_names)
        if len(states) != self.dim:
            raise ValueError(f"Dictionary: expected {self.dim} state names, got {len(states)}.")
        names = []
        for powers, kind, *inside in self._rows():
            parts = [s if e == 1 else f"{s}^{e}" for s, e in zip(states, powers, strict=True) if e]
            if kind != Kind.MONOMIAL:
                parts.append(_function_name(kind, states, *inside))
            names.append(" ".join(parts) or "1")
        return names

    def sympy(self, symbols):
        """Terms as sympy expressions of ``symbols``, built structurally (no text is parsed)."""
        import sympy

        terms = []
        for powers, kind, coordinate, inner, second, partner in self._rows():
            term = math.prod((s**e for s, e in zip(symbols, powers, strict=True)), start=sympy.Integer(1))
            if kind != Kind.MONOMIAL:
                u, shape = _number(inner) * symbols[coordinate], _number(second)
                if kind not in SHAPED:
                    u = u + shape * (symbols[partner] if partner >= 0 else 1)
                term = term * sympy_form(kind, u, shape)
            terms.append(term)
        return terms

    def _rows(self):
        for i in range(len(self)):
            yield (
                [int(e) for e in self.exponents[i]],
                Kind(int(self.kind[i])),
                int(self.coordinate[i]),
                float(self.inner[i]),
                float(self.second[i]),
                int(self.partner[i]),
            )

    def rescaled(self, coefficients, scale, time_unit=1.0):
        """The same field in other units of state and time.

        With ``x = scale * z`` and ``t = time_unit * tau``, a field ``dz/dtau`` given by this dictionary
        becomes ``dx/dt``: no shift enters, so sparsity survives.

        Parameters
        ----------
        coefficients : array (..., m, d)
            Coefficients of ``dz/dtau``.
        scale : array (d,)
            Units of the states, positive.
        time_unit : float
            Unit of time, positive.

        Returns
        -------
        dictionary : Dictionary
            Equal to this one except for inner factors.
        coefficients : array (..., m, d)
            Coefficients of ``dx/dt``.
        """
        scale = np.broadcast_to(np.asarray(scale, float), (self.dim,))
        coefficients = np.asarray(coefficients, dtype=np.float64)
        with np.errstate(all="ignore"):  # the factor of an unused term may overflow
            powers = np.prod(scale**self.exponents, axis=1)
            rescaled = coefficients * (scale / time_unit) / powers[:, None]
            if self.is_polynomial:
                return self, np.where(coefficients == 0.0, 0.0, rescaled)
            inner = np.where(self.kind == 0, self.inner, self.inner / scale[self.coordinate])
            second = np.where(self.partner < 0, self.second, self.second / scale[self.partner])
            # a factor inside a power is one outside
            outside = np.where(self.kind == Kind.POWER, inner, 1.0)
            rescaled = rescaled * (outside**self.second)[:, None]
            inner = inner / outside
        dictionary = Dictionary(self.exponents, self.kind, self.coordinate, inner, second, self.partner)
        return dictionary, np.where(coefficients == 0.0, 0.0, rescaled)


def union(dictionaries):
    """The distinct terms of several dictionaries, and where each one's terms are in it.

    Returns
    -------
    dictionary : Dictionary
    index : list of arrays (m_k,)
        Term ``i`` of dictionary ``k`` is term ``index[k][i]`` of the union.
    """
    position, terms, index = {}, [], []
    for dictionary in dictionaries:
        rows = []
        for row in dictionary._rows():
            key = (tuple(row[0]), *row[1:])
            if key not in position:
                position[key] = len(terms)
                terms.append(row)
            rows.append(position[key])
        index.append(np.array(rows, dtype=np.intp))
    dim = dictionaries[0].dim
    exponents = np.array([t[0] for t in terms], dtype=np.int64).reshape(len(terms), dim)
    return Dictionary(exponents, *([t[k] for t in terms] for k in range(1, 6))), index


def _number(value):
    import sympy

    return sympy.Integer(int(value)) if value == int(value) else sympy.Float(value)


def _function_name(kind, states, coordinate, inner, second, partner):
    u = _product_name(inner, states[coordinate])
    if kind not in SHAPED and partner >= 0:
        u += f" + {_product_name(second, states[partner])}"
    elif kind not in SHAPED and second:
        u += f" + {second:.6g}"
    return function_name(kind, u, second)


def _product_name(factor, name):
    return name if factor == 1.0 else f"{factor:.6g} {name}"


def _jet_product(a, b):
    """Product of numbers with square-zero parts; axis 0 runs over subsets of the parts as bit masks."""
    out = np.zeros(np.broadcast_shapes(a.shape, b.shape))
    for whole in range(len(a)):
        part = whole
        while True:
            out[whole] += a[part] * b[whole ^ part]
            if part == 0:
                break
            part = (part - 1) & whole
    return out
