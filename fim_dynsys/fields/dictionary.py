"""Vector fields that are a finite sum of dictionary terms."""

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fim_dynsys.fields.base import StackedRates, VectorField
from fim_dynsys.fields.equation_text import (
    Style,
    check_precision,
    check_style,
    coefficient_rows,
    equation_text,
    refuse_errors,
    shown,
)
from fim_dynsys.fields.notation import LatexNotation, SympyNotation, TextNotation
from fim_dynsys.fields.terms import ARRAYS, Dictionary, union
from fim_dynsys.fields.units import Units
from fim_dynsys.fields.written import Fraction, right_hand_side, written

if TYPE_CHECKING:
    from sympy import Expr, Symbol


# A term that adds less than this share of the largest one is a rounding error of the fit, and not printed.
_ROUNDING = 1e-10
_POINTS = 256  # at which terms are compared


class DictionaryField(VectorField):
    """A field ``f_i(x) = sum_m coefficients[m, i] * term_m(x)`` with exact derivatives and equations.

    Parameters
    ----------
    dictionary : Dictionary
        The terms.
    coefficients : array (m, d)
        In units of the state per unit of time and per unit of the term.
    **kwargs
        Passed to `VectorField` (context, state_names, region, scales, fit_info).

    Raises
    ------
    ValueError
        If the coefficients are not finite or have another shape.

    Examples
    --------
    >>> import numpy as np
    >>> from fim_dynsys.fields.terms import Dictionary
    >>> rotation = DictionaryField(Dictionary.polynomial(2, 1), np.array([[0, 0], [0, -1], [1, 0.0]]))
    >>> rotation.equations()
    ['x1', '-x0']
    """

    def __init__(self, dictionary: Dictionary, coefficients: ArrayLike, **kwargs: Any):
        coefficients = np.array(coefficients, dtype=np.float64)
        if coefficients.shape != (len(dictionary), dictionary.dim):
            raise ValueError(
                f"DictionaryField: expected coefficients of shape {(len(dictionary), dictionary.dim)} "
                f"(terms, states), got {coefficients.shape}."
            )
        if not np.isfinite(coefficients).all():
            raise ValueError("DictionaryField: expected finite coefficients, got NaN or infinity.")
        super().__init__(dictionary.dim, **kwargs)
        coefficients.setflags(write=False)
        self.dictionary = dictionary
        self.coefficients = coefficients
        active = np.flatnonzero(coefficients.any(axis=1))
        self._active = dictionary if len(active) == len(dictionary) else dictionary.subset(active)
        self._values = coefficients[active]

    @cached_property
    def _jacobian_values(self) -> np.ndarray | None:
        return _jacobian_coefficients(self._active, self._values)

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        return self._active.columns(x.T).T @ self._values

    def _jac(self, x: np.ndarray) -> np.ndarray:
        n, d = x.shape
        if self._jacobian_values is None:
            return np.einsum("nmj,mi->nij", self._active.gradient(x), self._values)
        return (self._active.table.columns(x.T).T @ self._jacobian_values).reshape(n, d, d)

    def _directional(self, x: np.ndarray, directions: Sequence[np.ndarray]) -> np.ndarray:
        return self._active.directional(x, *directions) @ self._values

    @classmethod
    def stack(cls, fields: Sequence[Self]) -> StackedRates:
        """One function ``(x (n, d), which (n,)) -> (n, d)`` that evaluates ``fields[which[i]]`` at ``x[i]``.

        The terms of all fields are merged and evaluated once for all points; what is not defined at a point
        matters to the fields that have it alone.
        """
        fields = list(fields)
        first = fields[0].dictionary
        if all(f.dictionary == first for f in fields):
            terms, coefficients = first, np.stack([f.coefficients for f in fields])
        else:
            terms, index = union([f.dictionary for f in fields])
            coefficients = np.zeros((len(fields), len(terms), terms.dim))
            for k, field in enumerate(fields):
                np.add.at(coefficients[k], index[k], field.coefficients)
        active = np.flatnonzero(coefficients.any(axis=(0, 2)))
        terms, coefficients = terms.subset(active), np.ascontiguousarray(coefficients[:, active])

        def evaluate(x: np.ndarray, which: np.ndarray) -> np.ndarray:
            values = terms.columns(x.T).T
            finite = np.isfinite(values)
            wrong = np.flatnonzero(~finite.all(axis=1))
            if not len(wrong):
                return np.matmul(values[:, None, :], coefficients[which])[:, 0]
            # a function that only other fields have may be undefined here: a zero is no term
            out = np.matmul(np.where(finite, values, 0.0)[:, None, :], coefficients[which])[:, 0]
            used = (~finite[wrong])[:, :, None] & (coefficients[which[wrong]] != 0)
            out[wrong] = np.where(used.any(axis=1), np.nan, out[wrong])
            return out

        return evaluate

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The field as plain arrays, without what every field carries; see `fim_dynsys.saved`."""
        arrays = {name: getattr(self.dictionary, name) for name in ARRAYS}
        return {**arrays, "coefficients": self.coefficients}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], **description: Any) -> Self:
        """The field that `to_arrays` took apart, with keyword arguments of `VectorField`."""
        terms = Dictionary(**{name: arrays[name] for name in ARRAYS if name in arrays})
        return cls(terms, arrays["coefficients"], **description)

    def terms(self) -> list[list[str]]:
        """Names of the terms with a coefficient in each right-hand side, sorted, of states x0, x1, ..."""
        names = np.array(self.dictionary.names())
        return [sorted(set(names[column != 0].tolist())) for column in self.coefficients.T]

    @property
    def complexity(self) -> int:
        """Number of coefficients that `equations` prints: rounding errors of a fit are no terms."""
        return int(np.count_nonzero(self._beyond_rounding()))

    def get_feature_names(self) -> list[str]:
        """Names of the terms, zero or not, in pysindy's style."""
        return self.dictionary.names(self.state_names)

    @property
    def _inner_errors(self) -> np.ndarray | None:
        """Standard errors (m, 2) of the numbers inside functions; None where they are not known."""
        return None

    def equations(self, precision: int = 3, errors: bool = False, style: Style = "plain") -> list[str]:
        """Right-hand sides as text.

        Left out are terms that are rounding errors: below 1e-10 of the largest one at the observations, or in
        the region.

        Parameters
        ----------
        precision : int
            Significant digits of the numbers.
        errors : bool
            Whether to give each coefficient, and each fitted number inside a function, with its standard
            error, as in ``(1.00 ± 0.02) x0``; the errors then decide the digits. Numbers that were not fitted
            have none.
        style : {"plain", "pysindy"}
            ``0.8 x0 x1 / (1.5 + x0) - x1``, or pysindy's ``0.80 x1 hill(0.667 x0) + -1.00 x1``.

        Returns
        -------
        list of str

        Raises
        ------
        ValueError
            If errors are asked for and not known, or there is no such style.
        """
        given = self.standard_errors if errors else None
        if errors and given is None:
            refuse_errors(type(self).__name__)
        check_style(type(self).__name__, style)
        check_precision(precision)
        if style == "plain":
            notation = TextNotation(self.state_names, precision)
            return [str(written(side, notation)) for side in self._right_hand_sides(given)]
        names = self.dictionary.names(self.state_names, self._inner_errors if errors else None)
        return [
            equation_text(column, names, precision, None if given is None else given[:, i])
            for i, column in enumerate(self._beyond_rounding().T)
        ]

    def _right_hand_sides(self, errors: np.ndarray | None = None) -> list[list[Fraction]]:
        """What is printed of each right-hand side."""
        inner = None if errors is None else self._inner_errors
        return [
            right_hand_side(self.dictionary, column, None if errors is None else errors[:, i], inner)
            for i, column in enumerate(self._beyond_rounding().T)
        ]

    def _beyond_rounding(self) -> np.ndarray:
        """The coefficients (m, d), zero where a term is a rounding error; all where nothing is known of x."""
        if self.context is not None:
            x = self.context.x.reshape(-1, self.dim)
            x = x[np.isfinite(x).all(axis=1)]
            x = x[:: -(-len(x) // _POINTS) or 1]
        else:
            x = np.empty((0, self.dim)) if self.region is None else self.region.sobol(_POINTS)
        if not len(x):
            return self.coefficients
        with np.errstate(all="ignore"):
            columns = np.nan_to_num(np.abs(self.dictionary.evaluate(x)), posinf=0.0)
        size = columns.max(axis=0)[:, None] * np.abs(self.coefficients)
        return np.where(size > _ROUNDING * size.max(axis=0, initial=0.0), self.coefficients, 0.0)

    def _shown_equations(self, errors: bool = True) -> list[str]:
        """Equations for display, a line for each state; see `VectorField._shown_equations`."""
        known = errors and self._has_errors
        return shown(self.state_names, self.equations(errors=known))

    def _coefficient_rows(self) -> list[tuple[str, str, float]]:
        """State, term and coefficient of each term whose coefficient is not zero."""
        return coefficient_rows(self.state_names, self.get_feature_names(), self.coefficients)

    def to_dataframe(self) -> pd.DataFrame:
        """The coefficients that are not zero as a table.

        Returns
        -------
        DataFrame
            Columns ``state``, ``term``, ``coefficient``, ``standard_error``, which is NaN where errors are
            not known, ``unit`` of the coefficient and ``inner_unit`` of the factor of the state in the
            term's function, which are empty for pure numbers and where the context has no such units.
        """
        return self._table_in({} if self.context is None else self.context.units)

    def _table_in(self, units: Mapping[str, str]) -> pd.DataFrame:
        """As `to_dataframe`, in given units of states and time; see `Trajectories.units`."""
        given = self.standard_errors
        errors = np.full(self.coefficients.shape, np.nan) if given is None else given
        terms = self.get_feature_names()
        if not units:
            return coefficient_table(self.state_names, terms, self.coefficients, errors)
        read = Units.of(units, self.state_names)
        of_each, inside = read.of_coefficients(self.dictionary), read.of_numbers_inside(self.dictionary)
        return coefficient_table(self.state_names, terms, self.coefficients, errors, of_each, inside)

    def sympy(self, symbols: "Sequence[Symbol] | None" = None) -> "list[Expr]":
        """Right-hand sides as sympy expressions, written as `equations` writes them.

        Parameters
        ----------
        symbols : sequence of sympy.Symbol, optional
            One per state; the default are real symbols of `safe_names` of the states.

        Returns
        -------
        list of sympy.Expr
        """
        import sympy

        if symbols is None:
            symbols = [sympy.Symbol(name, real=True) for name in safe_names(self.state_names)]
        notation = SympyNotation(symbols)
        return [written(right_hand_side(self.dictionary, column), notation) for column in self.coefficients.T]

    def latex(self, precision: int = 3) -> str:
        """Right-hand sides as one aligned LaTeX block.

        Parameters
        ----------
        precision : int
            Significant digits of the numbers.

        Returns
        -------
        str
        """
        return aligned_latex(latex_names(self.state_names), self._latex_sides(precision))

    def _latex_sides(self, precision: int) -> list[str]:
        """Each right-hand side as LaTeX."""
        check_precision(precision)
        notation = LatexNotation(latex_names(self.state_names), precision)
        return [written(side, notation) for side in self._right_hand_sides()]

    def _repr_latex_(self) -> str:
        return f"$${self.latex()}$$"


def latex_names(state_names: Iterable[str]) -> list[str]:
    """Names of states as LaTeX: Greek letters and indices are seen as such."""
    import sympy

    return [sympy.latex(sympy.Symbol(name)) for name in _distinct_words(state_names, frozenset())]


def aligned_latex(names: Sequence[str], right_sides: Sequence[str]) -> str:
    """Equations of states, both as LaTeX, as one aligned block."""
    lines = [rf"\dot{{{name}}} &= {text}" for name, text in zip(names, right_sides, strict=True)]
    return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"


def coefficient_table(
    state_names: Sequence[str],
    terms: Sequence[str],
    coefficients: np.ndarray,
    errors: np.ndarray,
    units: list[list[str]] | None = None,
    inner_units: list[str] | None = None,
) -> pd.DataFrame:
    """Coefficients (m, d) that are not zero, their errors and units, a row for each."""
    state, term = np.nonzero(coefficients.T)
    return pd.DataFrame(
        {
            "state": np.array(state_names, dtype=object)[state],
            "term": np.array(terms, dtype=object)[term],
            "coefficient": coefficients[term, state],
            "standard_error": errors[term, state],
            "unit": [units[m][i] if units else "" for i, m in zip(state, term, strict=True)],
            "inner_unit": [inner_units[m] if inner_units else "" for m in term],
        }
    )


_RESERVED = frozenset(
    ["S", "N", "Q", "E", "I", "O", "C", "beta", "gamma", "zeta", "pi", "oo", *keyword.kwlist]
)


def safe_names(names: Iterable[str]) -> list[str]:
    """Distinct identifiers that neither Python nor sympy's parser reads as something else.

    Parameters
    ----------
    names : sequence of str
        Names of states, any text.

    Returns
    -------
    list of str
    """
    return _distinct_words(names, _RESERVED)


def _distinct_words(names: Iterable[str], reserved: frozenset[str]) -> list[str]:
    """Names of letters, digits and underscores, none of which is reserved."""
    words: list[str] = []
    for name in names:
        text = re.sub(r"\W+", "_", str(name)).strip("_") or "x"
        text = f"x{text}" if text[0].isdigit() else text
        while text in reserved or text in words:
            text += "_"
        words.append(text)
    return words


def _jacobian_coefficients(dictionary: Dictionary, coefficients: np.ndarray) -> np.ndarray | None:
    """Coefficients (rows, d * d) of the Jacobian in the dictionary's monomial table; None with functions."""
    if not dictionary.is_polynomial or not len(dictionary):
        return None
    table, d = dictionary.table, dictionary.dim
    out = np.zeros((len(table), d, d))
    for row, powers, values in zip(table.index, dictionary.exponents, coefficients, strict=True):
        for j in np.flatnonzero(powers):
            out[table.lowered[row, j], :, j] += powers[j] * values
    return out.reshape(len(table), d * d)
