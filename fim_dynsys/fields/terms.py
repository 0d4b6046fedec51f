"""The dictionary as data: monomials, optionally times a function of one coordinate.

A little above five hundred lines: it is one class, the dictionary, as data and as functions.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.fields.equation_text import measured_text
from fim_dynsys.fields.functions import SHAPED, Kind, derivative, function_name, sympy_form
from fim_dynsys.fields.monomials import MonomialTable

if TYPE_CHECKING:
    from sympy import Expr, Symbol


ARRAYS = ("exponents", "kind", "coordinate", "inner", "second", "partner", "shift")
"""Names of the arrays that make a `Dictionary`, in the order of its arguments."""

NUMBERS = ("inner", "second", "shift")
"""Names of those that hold numbers inside functions; their places here are called slots."""

Term = tuple[list[int], Kind, int, float, float, int, float]
"""The entries of one term in these arrays."""

_IS_SHAPED = np.array([kind in SHAPED for kind in sorted(Kind)])


@lru_cache(maxsize=1024)
def _table_of(shape: tuple[int, ...], exponents: bytes) -> MonomialTable:
    """The table of some exponents, which most dictionaries of a search share with others."""
    return MonomialTable(np.frombuffer(exponents, dtype=np.int64).reshape(shape))


@dataclass(frozen=True, eq=False, init=False)
class Dictionary:
    """Terms ``x^exponents * g_kind(u)``, one column each; `Kind` says what ``u`` is.

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
    shift : array (m,)
        What is added inside ``g`` of two coordinates, 0 elsewhere.
    """

    exponents: np.ndarray
    kind: np.ndarray
    coordinate: np.ndarray
    inner: np.ndarray
    second: np.ndarray
    partner: np.ndarray
    shift: np.ndarray

    def __init__(
        self,
        exponents: ArrayLike,
        kind: ArrayLike | None = None,
        coordinate: ArrayLike | None = None,
        inner: ArrayLike | None = None,
        second: ArrayLike | None = None,
        partner: ArrayLike | None = None,
        shift: ArrayLike | None = None,
    ):
        powers = np.array(exponents, dtype=np.int64)
        if powers.ndim != 2 or powers.shape[1] < 1 or (powers < 0).any():
            raise ValueError(
                "Dictionary: expected exponents of shape (terms, dim) that are not negative, "
                f"got shape {powers.shape}; pass one row of non-negative integers per term."
            )
        m = len(powers)
        values: dict[str, np.ndarray] = {
            "kind": np.array(np.zeros(m) if kind is None else kind, dtype=np.int8),
            "coordinate": np.array(np.zeros(m) if coordinate is None else coordinate, np.int64),
            "inner": np.array(np.ones(m) if inner is None else inner, dtype=np.float64),
            "second": np.array(np.zeros(m) if second is None else second, dtype=np.float64),
            "partner": np.array(np.full(m, -1) if partner is None else partner, dtype=np.int64),
            "shift": np.array(np.zeros(m) if shift is None else shift, dtype=np.float64),
        }
        for name, value in values.items():
            if value.shape != (m,):
                raise ValueError(f"Dictionary: expected {name} of shape ({m},), got {value.shape}.")
        if m and not set(values["kind"].tolist()) <= {int(k) for k in Kind}:
            raise ValueError(f"Dictionary: expected kinds among {[int(k) for k in Kind]}.")
        for name, least in (("coordinate", 0), ("partner", -1)):
            if not set(values[name].tolist()) <= set(range(least, powers.shape[1])):
                raise ValueError(f"Dictionary: expected {name}s below {powers.shape[1]}.")
        if values["shift"][values["partner"] < 0].any():
            raise ValueError("Dictionary: expected shifts of 0 where there is no partner; pass it as second.")
        self._hold(powers, *values.values())

    def _hold(self, *arrays: np.ndarray) -> None:
        """Keep arrays, in the order of `ARRAYS`; nobody writes to them from then on."""
        for name, array in zip(ARRAYS, arrays, strict=True):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @classmethod
    def _known(cls, *arrays: np.ndarray) -> Self:
        """As the constructor, of arrays made from those of dictionaries."""
        made = object.__new__(cls)
        made._hold(*arrays)
        return made

    @classmethod
    @cache
    def polynomial(cls, dim: int, degree: int, include_bias: bool = True) -> Self:
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
    def functions(
        cls, dim: int, kind: Kind, inner: float = 1.0, exponents: ArrayLike | None = None, second: float = 0.0
    ) -> Self:
        """One term of ``kind`` per coordinate, all with the same ``inner``, monomial and ``second``."""
        powers = np.zeros((dim, dim), int) if exponents is None else np.tile(exponents, (dim, 1))
        numbers = (np.full(dim, float(value)) for value in (inner, second))
        return cls(powers, np.full(dim, int(kind)), np.arange(dim), *numbers)

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.exponents.shape[1]

    def __len__(self) -> int:
        return len(self.exponents)

    @cached_property
    def states(self) -> np.ndarray:
        """Which coordinates enter each term: bool array (m, d)."""
        found = self.exponents > 0
        rows = np.flatnonzero(self.kind != Kind.MONOMIAL)
        found[rows, self.coordinate[rows]] = True
        paired = np.flatnonzero(self.partner >= 0)
        found[paired, self.partner[paired]] = True
        return found

    def _key(self) -> tuple[object, ...]:
        return (self.exponents.shape, *(getattr(self, name).tobytes() for name in ARRAYS))

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Dictionary) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __add__(self, other: "Dictionary") -> "Dictionary":
        """Terms of both, in order (duplicates stay)."""
        if other.dim != self.dim:
            raise ValueError(f"Dictionary: expected another one of dimension {self.dim}, got {other.dim}.")
        return Dictionary._known(*(np.concatenate([getattr(self, n), getattr(other, n)]) for n in ARRAYS))

    def times(self, functions: "Dictionary") -> "Dictionary":
        """Products of these monomials and other terms, by monomial and term."""
        exponents = (self.exponents[:, None] + functions.exponents).reshape(-1, self.dim)
        inside = (np.concatenate((getattr(functions, name),) * len(self)) for name in ARRAYS[1:])
        return Dictionary._known(exponents, *inside)

    def subset(self, index: np.ndarray | slice) -> "Dictionary":
        """Terms chosen by an index array, a slice or a boolean mask."""
        return Dictionary._known(*(getattr(self, name)[index].copy() for name in ARRAYS))

    @property
    def numbers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The numbers (m,) inside functions, in the order of `NUMBERS`."""
        return self.inner, self.second, self.shift

    def with_numbers(self, inner: ArrayLike, second: ArrayLike, shift: ArrayLike) -> "Dictionary":
        """The same terms with other numbers (m,) inside their functions."""
        a, b, c = (np.array(part, dtype=np.float64) for part in (inner, second, shift))
        made = Dictionary._known(self.exponents, self.kind, self.coordinate, a, b, self.partner, c)
        # not found anew: what does not depend on the numbers
        vars(made).update(table=self.table, _special=self._special, _shaped=self._shaped)
        return made

    def function(self, row: int) -> tuple[float, ...]:
        """What is the same for terms with the same function, of one term."""
        return tuple(getattr(self, name)[row].item() for name in ARRAYS[1:])

    @cached_property
    def is_polynomial(self) -> bool:
        """Whether every term is a monomial."""
        return not self.kind.any()

    @property
    def degree(self) -> int:
        """Largest total degree of the monomial parts."""
        return int(self.exponents.sum(1).max(initial=0))

    @cached_property
    def table(self) -> MonomialTable:
        """`MonomialTable` of the monomial parts."""
        return _table_of(self.exponents.shape, self.exponents.tobytes())

    @cached_property
    def packed(self) -> tuple[np.ndarray, ...]:
        """Plain arrays for `fim_dynsys.regression.kernels.terms`.

        Parent and factor of each row of the monomial table and where its quotients by each coordinate are;
        then, for each term, its row of the table, exponents, kind, coordinate, partner and `numbers`.
        """
        table = self.table
        return (
            table.parent,
            table.factor,
            table.lowered,
            table.index,
            self.exponents,
            self.kind,
            self.coordinate,
            self.partner,
            *self.numbers,
        )

    @cached_property
    def _shaped(self) -> np.ndarray:
        return _IS_SHAPED[self.kind]

    @cached_property
    def _inside(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights (m, d) and shifts (m,) of the functions' arguments."""
        rows = np.arange(len(self))
        weights = np.zeros(self.exponents.shape)
        weights[rows, self.coordinate] = self.inner
        paired = (self.partner >= 0) & ~self._shaped
        np.add.at(weights, (rows[paired], self.partner[paired]), self.second[paired])
        return weights, np.where(paired, self.shift, np.where(self._shaped, 0.0, self.second))

    def _g(self, kind: Kind, rows: np.ndarray, u: np.ndarray, order: int) -> np.ndarray:
        """``order``-th derivative of the functions of terms ``rows`` at ``u`` (terms, n)."""
        return derivative(kind, u, order, self.second[rows, None])

    @cached_property
    def _special(self) -> list[tuple[Kind, np.ndarray]]:
        """Index arrays of the terms of each kind that is not a monomial."""
        return [(Kind(k), np.flatnonzero(self.kind == k)) for k in np.unique(self.kind) if k]

    @cached_property
    def _arguments(self) -> list[tuple[Kind, np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Kinds and rows of `_special`, with weights, shifts and second numbers of these rows."""
        weights, shift = self._inside
        return [
            (kind, rows, weights[rows], shift[rows, None], self.second[rows, None])
            for kind, rows in self._special
        ]

    def _points(self, x: ArrayLike) -> np.ndarray:
        x = np.asarray(x, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != self.dim:
            raise ValueError(f"Dictionary: expected points of shape (n, {self.dim}), got {x.shape}.")
        return x

    def columns(self, x: np.ndarray) -> np.ndarray:
        """Values at ``x`` (d, n), no validation: array (m, n)."""
        table = self.table.columns(x)
        values = table if self.table.is_identity else table.take(self.table.index, axis=0)
        for kind, rows, weights, shift, second in self._arguments:
            values[rows] *= derivative(kind, weights @ x + shift, 0, second)
        return values

    def evaluate(self, x: ArrayLike) -> np.ndarray:
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

    def gradient(self, x: ArrayLike) -> np.ndarray:
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
        for kind, special, weights, shift, second in self._arguments:
            u = weights @ x + shift
            gradient[special] *= derivative(kind, u, 0, second)[:, None]
            slope = table[rows[special]] * derivative(kind, u, 1, second)
            gradient[special] += weights[:, :, None] * slope[:, None]
        return np.moveaxis(gradient, 2, 0)

    def directional(self, x: ArrayLike, *directions: ArrayLike) -> np.ndarray:
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

    def _jet_function(self, kind: Kind, rows: np.ndarray, u: np.ndarray) -> np.ndarray:
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

    def _table_jets(self, coordinates: np.ndarray) -> np.ndarray:
        table = self.table
        jets = np.zeros((len(coordinates), len(table), coordinates.shape[2]))
        jets[0, 0] = 1.0
        for rows, parent, factor in table.levels:
            jets[:, rows] = _jet_product(jets[:, parent], coordinates[:, factor])
        return jets

    def names(self, state_names: Sequence[str] | None = None, errors: np.ndarray | None = None) -> list[str]:
        """Names in pysindy's style: ``1``, ``x0``, ``x0 x1``, ``x0^2``, ``x0 sin(2 x1)``.

        Parameters
        ----------
        state_names : sequence of str, optional
            Default x0, x1, ...
        errors : array (m, 3), optional
            Standard errors of `numbers`, named too where they are not zero:
            ``sin((2.00 ± 0.01) x1)``.

        Returns
        -------
        list of str
        """
        states = tuple(f"x{i}" for i in range(self.dim)) if state_names is None else tuple(state_names)
        if len(states) != self.dim:
            raise ValueError(f"Dictionary: expected {self.dim} state names, got {len(states)}.")
        errors = np.zeros((len(self), len(NUMBERS))) if errors is None else errors
        names = []
        for row, off in zip(self._rows(), errors, strict=True):
            powers, kind, coordinate, inner, second, partner, shift = row
            parts = [s if e == 1 else f"{s}^{e}" for s, e in zip(states, powers, strict=True) if e]
            if kind != Kind.MONOMIAL:
                numbers = [_number_name(*pair) for pair in zip((inner, second, shift), off, strict=True)]
                parts.append(_function_name(kind, states, coordinate, partner, numbers))
            names.append(" ".join(parts) or "1")
        return names

    def sympy(self, symbols: "Sequence[Symbol]") -> "list[Expr]":
        """Terms as sympy expressions of ``symbols``, built structurally (no text is parsed)."""
        import sympy

        terms = []
        for powers, kind, coordinate, inner, second, partner, shift in self._rows():
            term = math.prod((s**e for s, e in zip(symbols, powers, strict=True)), start=sympy.Integer(1))
            if kind != Kind.MONOMIAL:
                u, shape = _number(inner) * symbols[coordinate], _number(second)
                if kind not in SHAPED:
                    u = u + (shape * symbols[partner] + _number(shift) if partner >= 0 else shape)
                term = term * sympy_form(kind, u, shape)
            terms.append(term)
        return terms

    def row(self, i: int) -> Term:
        """The entries of one term."""
        return (
            [int(e) for e in self.exponents[i]],
            Kind(int(self.kind[i])),
            int(self.coordinate[i]),
            float(self.inner[i]),
            float(self.second[i]),
            int(self.partner[i]),
            float(self.shift[i]),
        )

    def _rows(self) -> Iterator[Term]:
        return map(self.row, range(len(self)))

    def rescaled(
        self, coefficients: ArrayLike, scale: ArrayLike, time_unit: float = 1.0
    ) -> "tuple[Dictionary, np.ndarray]":
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
            # a factor inside a power, an inverse or an absolute value is one outside
            unit = np.abs(inner)
            outside = np.select(
                [self.kind == Kind.POWER, self.kind == Kind.INVERSE, self.kind == Kind.ABSOLUTE],
                [inner**self.second, 1.0 / unit, unit],
                1.0,
            )
            rescaled = rescaled * outside[:, None]
            inner = np.where(self.kind == Kind.POWER, 1.0, inner)
            within = np.select([self.kind == Kind.INVERSE, self.kind == Kind.ABSOLUTE], [unit, inner], 1.0)
            numbers = (value / within for value in (inner, second, self.shift))
        dictionary = self.with_numbers(*numbers)
        return dictionary, np.where(coefficients == 0.0, 0.0, rescaled)


def reordered(
    dictionary: Dictionary, states: np.ndarray, dim: int | None = None
) -> tuple[Dictionary, np.ndarray]:
    """The same terms of states in another order, sorted as `Dictionary.polynomial` sorts them.

    Parameters
    ----------
    dictionary : Dictionary
        Terms of the states as they are.
    states : array (d,) of int
        Their new places.
    dim : int, optional
        Number of states there; default as many as there are.

    Returns
    -------
    dictionary : Dictionary
        Monomials before others; those first that were first where only the function differs.
    rows : array (m,) of int
        Which of the given terms each one is.
    """
    shape = (len(dictionary), dictionary.dim if dim is None else dim)
    exponents = np.zeros(shape, dictionary.exponents.dtype)
    exponents[:, states] = dictionary.exponents
    rows = np.lexsort((*-exponents.T[::-1], exponents.sum(axis=1), dictionary.kind > 0))
    coordinate = np.where(dictionary.kind > 0, states[dictionary.coordinate], 0)
    partner = np.where(dictionary.partner < 0, -1, states[dictionary.partner])
    inner, second, shift = dictionary.numbers
    parts = (exponents, dictionary.kind, coordinate, inner, second, partner, shift)
    return Dictionary(*(part[rows] for part in parts)), rows


def union(dictionaries: "Sequence[Dictionary]") -> "tuple[Dictionary, list[np.ndarray]]":
    """The distinct terms of several dictionaries, and where each one's terms are in it.

    Returns
    -------
    dictionary : Dictionary
    index : list of arrays (m_k,)
        Term ``i`` of dictionary ``k`` is term ``index[k][i]`` of the union.
    """
    position: dict[tuple, int] = {}
    terms: list[Term] = []
    index = []
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
    return Dictionary(exponents, *([t[k] for t in terms] for k in range(1, len(ARRAYS)))), index


def _number(value: float) -> "Expr":
    import sympy

    return sympy.Integer(int(value)) if value == int(value) else sympy.Float(value)


def _function_name(
    kind: Kind,
    states: Sequence[str],
    coordinate: int,
    partner: int,
    numbers: Sequence[str],
) -> str:
    inner, second, shift = numbers
    u = _product_name(inner, states[coordinate])
    if kind not in SHAPED and partner >= 0:
        u += f" + {_product_name(second, states[partner])}"
    added = shift if partner >= 0 else second
    if kind not in SHAPED and added != "0":
        u += f" + {added}"
    return function_name(kind, u, second)


def _number_name(value: float, error: float) -> str:
    return f"({measured_text(value, error)})" if error else f"{value + 0.0:.6g}"


def _product_name(factor: str, name: str) -> str:
    return name if factor == "1" else f"{factor} {name}"


def _jet_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
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
