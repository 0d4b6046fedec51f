"""Vector fields given by sympy expressions.

Longer than five hundred lines: it is one class in all that a field answers, with the expressions it is
compiled from.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fim_dynsys.errors import check_named
from fim_dynsys.fields.base import StackedRates, VectorField
from fim_dynsys.fields.dictionary import aligned_latex, coefficient_table, latex_names
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.equation_text import (
    Style,
    check_precision,
    check_style,
    coefficient_rows,
    equation_text,
    refuse_errors,
    shown,
)
from fim_dynsys.fields.expressions import (
    check_expression,
    compiled,
    expanded_size,
    is_derivable,
    parse,
    slope,
    warn_of_both_ways,
)
from fim_dynsys.fields.family import FieldFamily
from fim_dynsys.fields.notation import LatexNotation, TextNotation
from fim_dynsys.fields.plane import FieldPlane
from fim_dynsys.fields.units import Units
from fim_dynsys.fields.written_expressions import ExpressionWriter

if TYPE_CHECKING:
    from sympy import Expr, Symbol


_MOST_TERMS = 1000  # of a sum that is multiplied out
_STEP = 1e-6  # of difference quotients by a parameter, relative


class SymbolicField(VectorField):
    """A field whose components are expressions in the states, with exact derivatives of any order.

    Derivatives that would be too large to write down are differenced, as those of any field.

    Parameters
    ----------
    expressions : sequence of str or sympy.Expr, or dict of these by state
        One right-hand side per state; the keys of a dict name the states. Text may hold what
        `fim_dynsys.fields.expressions.parse` allows; it is never evaluated. Names are those of the states, or
        x0, x1, ... by position; all others are parameters.
    parameters : dict of str to float, optional
        Values of the parameters.
    covariance : array (q, q), optional
        Of the parameters, in the order of their sorted names, where they were fitted.
    **kwargs
        Passed to `VectorField` (context, state_names, region, scales, fit_info).

    Raises
    ------
    ValueError
        For expressions that cannot be read, parameters without a finite value, values without a parameter, or
        a covariance of another shape.

    Examples
    --------
    >>> pendulum = SymbolicField(["x1", "-g * sin(x0)"], {"g": 9.81})
    >>> pendulum.equations()
    ['x1', '-9.81 sin(x0)']
    """

    # Parameters that are passed to the compiled functions, which then serve for all of their values.
    _varying: tuple[str, ...] = ()

    def __init__(
        self,
        expressions: "str | Sequence[str | Expr] | Mapping[str, str | Expr]",
        parameters: Mapping[str, float] | None = None,
        covariance: ArrayLike | None = None,
        **kwargs: Any,
    ):
        if not np.iterable(expressions):
            raise ValueError(
                f"SymbolicField: expected a list of right-hand sides, one a state, got {expressions!r}."
            )
        if isinstance(expressions, Mapping):
            if not {"state_names", "context", "frame"} & {k for k, v in kwargs.items() if v is not None}:
                kwargs["state_names"] = list(expressions)
            super().__init__(len(expressions), **kwargs)
            if set(expressions) != set(self.state_names):
                raise ValueError(
                    f"SymbolicField: expected expressions of the states {', '.join(self.state_names)}, got "
                    f"those of {', '.join(map(str, expressions))}."
                )
            expressions = [expressions[name] for name in self.state_names]
        else:
            expressions = [expressions] if isinstance(expressions, str) else list(expressions)
            super().__init__(len(expressions), **kwargs)
        self._symbols, self._expressions = read_expressions(expressions, self.state_names)
        self._parameters = check_named("SymbolicField", "parameters", parameters)
        needed = parameter_names(self._expressions, self._symbols)
        missing = [repr(name) for name in needed if name not in self._parameters]
        idle = [repr(name) for name in self._parameters if name not in needed]
        if missing or idle:
            said = [f"no value of {', '.join(missing)}"] if missing else []
            said += [f"{', '.join(idle)} too, which no expression names"] if idle else []
            raise ValueError(
                f"SymbolicField: expected finite values of the parameters {needed}, got "
                f"{' and '.join(said)}; states are {', '.join(self.state_names)}."
            )
        self._covariance = None if covariance is None else np.array(covariance, dtype=float)
        if self._covariance is not None and self._covariance.shape != (len(needed), len(needed)):
            raise ValueError(
                f"SymbolicField: expected a covariance of the parameters {needed} of shape "
                f"{(len(needed), len(needed))}, got {self._covariance.shape}."
            )

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The field as plain arrays, without what every field carries; see `fim_dynsys.saved`."""
        names = sorted(self._parameters)
        known = {} if self._covariance is None else {"covariance": self._covariance}
        return known | {
            "expressions": np.array([str(e) for e in self._expressions]),
            "parameter_names": np.array(names, dtype=str),
            "parameter_values": np.array([self._parameters[name] for name in names]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], **description: Any) -> Self:
        """The field that `to_arrays` took apart, with keyword arguments of `VectorField`."""
        values = zip(arrays["parameter_names"], arrays["parameter_values"], strict=True)
        expressions = [str(text) for text in arrays["expressions"]]
        parameters = {str(name): float(value) for name, value in values}
        return cls(expressions, parameters, arrays.get("covariance"), **description)

    @property
    def expressions(self) -> "tuple[Expr, ...]":
        """The right-hand sides as sympy expressions, parameters as symbols (tuple)."""
        return self._expressions

    @property
    def parameters(self) -> dict[str, float]:
        """Values of the parameters by name (a copy)."""
        return dict(self._parameters)

    @property
    def symbols(self) -> "tuple[Symbol, ...]":
        """The states as sympy symbols (tuple)."""
        return self._symbols

    def with_parameters(self, **changes: float) -> "SymbolicField":
        """The field at other values of some parameters.

        Raises
        ------
        ValueError
            If a name is not a parameter, or a value is not finite.
        """
        return type(self)(
            self._expressions, self._parameters | changes, frame=self.frame, fit_info=self.fit_info
        )

    def family(self, parameter: str) -> FieldFamily:
        """The fields at all values of one parameter, with exact derivatives by it.

        Parameters
        ----------
        parameter : str
            Name of the parameter; the others keep their values.

        Returns
        -------
        FieldFamily

        Raises
        ------
        ValueError
            If the field has no parameter of that name.

        Examples
        --------
        >>> SymbolicField(["mu - x0**2"], {"mu": 1.0}).family("mu")([3.0], 2.0)
        array([-7.])
        """
        return _SymbolicFamily(self, parameter)

    def plane(self, parameters: Sequence[str]) -> FieldPlane:
        """The fields at all values of two parameters, for `bifurcation_curves`.

        Their expressions are compiled once for all values.

        Parameters
        ----------
        parameters : pair of str
            Names of the two; the others keep their values.

        Returns
        -------
        FieldPlane

        Raises
        ------
        ValueError
            If the names are not two different ones, or the field has no parameter of such a name.

        Examples
        --------
        >>> cusp = SymbolicField(["h + r * x0 - x0**3"], {"h": 0.0, "r": 0.0}).plane(["h", "r"])
        >>> cusp.at(0.0, 1.0)([0.5])
        array([0.375])
        """
        names = tuple(parameters)
        field = _without_context(self, names, "plane")
        return FieldPlane(lambda p, q: field._varied(dict(zip(names, (p, q), strict=True))), names)

    def _varied(self, values: Mapping[str, float]) -> "SymbolicField":
        """The field at other values of some parameters; what is compiled for it serves for all of them."""
        member = copy(self)
        kept = {"_evaluated"} if self._varying == tuple(values) else set()
        for name in set(vars(member)) - kept:
            if isinstance(getattr(type(member), name, None), cached_property):
                del member.__dict__[name]
        member._parameters = check_named("SymbolicField", "parameters", self._parameters | dict(values))
        member._covariance, member._varying = None, tuple(values)
        member._frame = self.frame.around(member._rhs)
        return member

    @cached_property
    def _numeric(self) -> "tuple[Expr, ...]":
        """The right-hand sides with numbers for the parameters."""
        return self._with_numbers(())

    def _with_numbers(self, but: Iterable[str]) -> "tuple[Expr, ...]":
        """The right-hand sides with numbers for all but some parameters."""
        import sympy

        values = {
            sympy.Symbol(name, real=True): sympy.Float(v)
            for name, v in self._parameters.items()
            if name not in but
        }
        return tuple(expression.xreplace(values) for expression in self._expressions)

    @cached_property
    def _evaluated(self) -> "tuple[Expr, ...]":
        return self._with_numbers(self._varying)

    def _evaluate(
        self, expressions: "tuple[Expr, ...]", x: np.ndarray, *directions: np.ndarray
    ) -> np.ndarray:
        import sympy

        columns = [*x.T, *(column for v in directions for column in v.T)]
        symbols = (*self._symbols, *(s for k in range(len(directions)) for s in _direction(k, self.dim)))
        varying = (sympy.Symbol(name, real=True) for name in self._varying)
        numbers = (self._parameters[name] for name in self._varying)
        return compiled(expressions, (*symbols, *varying))(*columns, *numbers)

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        return self._evaluate(self._evaluated, x).T if len(x) else np.zeros_like(x)

    def _jac(self, x: np.ndarray) -> np.ndarray:
        entries = _jacobian_entries(self._evaluated, self._symbols)
        if entries is None:
            return super()._jac(x)
        if not len(x):
            return np.zeros((0, self.dim, self.dim))
        return self._evaluate(entries, x).T.reshape(len(x), self.dim, self.dim)

    def _directional(self, x: np.ndarray, directions: Sequence[np.ndarray]) -> np.ndarray:
        derivatives = _derivatives_along(self._evaluated, self._symbols, len(directions))
        if derivatives is None:
            return super()._directional(x, directions)
        return self._evaluate(derivatives, x, *directions).T if len(x) else np.zeros_like(x)

    @classmethod
    def stack(cls, fields: Sequence[Self]) -> StackedRates:
        """As `VectorField.stack`; fields that differ in their parameters only are evaluated at once."""
        fields = tuple(fields)
        first = fields[0]
        names = sorted(first._parameters)
        if any(f._expressions != first._expressions or sorted(f._parameters) != names for f in fields):
            return super().stack(fields)
        values = np.array([[f._parameters[name] for name in names] for f in fields], dtype=float)
        return _Stacked(first._expressions, first._symbols, names, values)

    # ------------------------------------------------------------------ equations

    @cached_property
    def _rows_of_terms(self) -> "tuple[list[Expr], np.ndarray]":
        """Terms of the sums and coefficients (m, d)."""
        import sympy

        rows: dict[Expr, np.ndarray] = {}
        for i, expression in enumerate(self._numeric):
            short = expanded_size(expression) <= _MOST_TERMS
            for part in sympy.Add.make_args(sympy.expand(expression) if short else expression):
                factor, rest = part.as_coeff_Mul()
                rows.setdefault(rest, np.zeros(self.dim))[i] += float(factor)
        ordered = sorted(rows, key=sympy.default_sort_key)
        return ordered, np.array([rows[term] for term in ordered]).reshape(-1, self.dim)

    @cached_property
    def _terms(self) -> tuple[list[str], np.ndarray]:
        """Terms of the sums (texts) and coefficients (m, d)."""
        import sympy

        terms, coefficients = self._rows_of_terms
        shown = dict(zip(self._symbols, map(sympy.Symbol, self.state_names), strict=True))
        return [str(_rounded(term.xreplace(shown), 6)) for term in terms], coefficients

    @property
    def parameter_errors(self) -> dict[str, float] | None:
        """Standard errors of the parameters by name; None where they were given, not fitted."""
        if self._covariance is None:
            return None
        errors = np.sqrt(np.maximum(np.diagonal(self._covariance), 0.0)).tolist()
        return dict(zip(sorted(self._parameters), errors, strict=True))

    @property
    def _has_errors(self) -> bool:
        """Whether equations can be given with standard errors of their parameters."""
        return self._covariance is not None

    @cached_property
    def standard_errors(self) -> np.ndarray | None:
        """Standard errors (m, d) of the coefficients, by how these depend on the parameters.

        None where the parameters were given, not fitted, or where other values give other terms.
        """
        import sympy

        if self._covariance is None or self.parameter_errors is None:
            return None
        number = sympy.Dummy()

        def shapes(terms: "Iterable[Expr]") -> "list[Expr]":
            return [term.xreplace(dict.fromkeys(term.atoms(sympy.Float), number)) for term in terms]

        terms, coefficients = self._rows_of_terms
        slopes = np.zeros((len(self._parameters), *coefficients.shape))
        for slope_by, (name, error) in zip(slopes, self.parameter_errors.items(), strict=True):
            at = self._parameters[name]
            step = _STEP * (abs(at) or error or 1.0)
            ends = [self.with_parameters(**{name: at + h})._rows_of_terms for h in (step, -step)]
            if any(shapes(moved) != shapes(terms) for moved, _ in ends):
                return None
            slope_by[:] = (ends[0][1] - ends[1][1]) / (2.0 * step)
        variance = np.einsum("qmd,qr,rmd->md", slopes, self._covariance, slopes)
        return np.sqrt(np.maximum(variance, 0.0))

    @property
    def coefficients(self) -> np.ndarray:
        """Numerical factors (m, d) of the terms named by `get_feature_names`."""
        return self._terms[1]

    def get_feature_names(self) -> list[str]:
        """The terms of the expanded right-hand sides, without their numerical factors."""
        return list(self._terms[0])

    def equations(self, precision: int = 3, errors: bool = False, style: Style = "plain") -> list[str]:
        """Right-hand sides as text, with numbers for the parameters.

        Parameters
        ----------
        precision : int
            Significant digits of the numbers.
        errors : bool
            Whether to give each parameter with its standard error; in pysindy's style each coefficient.
        style : {"plain", "pysindy"}
            As the expressions were given, or multiplied out as a sum of terms, as pysindy writes it.

        Returns
        -------
        list of str

        Raises
        ------
        ValueError
            If errors are asked for and not known, or there is no such style.
        """
        check_style(type(self).__name__, style)
        check_precision(precision)
        if style == "plain":
            off = self.parameter_errors
            if errors and off is None:
                refuse_errors(type(self).__name__)
            values = {name: (value, (off or {}).get(name, 0.0)) for name, value in self._parameters.items()}
            writer = ExpressionWriter(TextNotation(self.state_names, precision), self._symbols, values)
            return [str(writer.written(side)) for side in (self._expressions if errors else self._numeric)]
        names, coefficients = self._terms
        given = self.standard_errors if errors else None
        if errors and given is None:
            refuse_errors(type(self).__name__)
        return [
            equation_text(column, names, precision, None if given is None else given[:, i])
            for i, column in enumerate(coefficients.T)
        ]

    def _shown_equations(self, errors: bool = True) -> list[str]:
        """Equations for display, a line for each state; see `VectorField._shown_equations`."""
        known = errors and self._has_errors
        return shown(self.state_names, self.equations(errors=known))

    def _coefficient_rows(self) -> list[tuple[str, str, float]]:
        """State, term and coefficient of each term whose coefficient is not zero."""
        return coefficient_rows(self.state_names, self.get_feature_names(), self.coefficients)

    def to_dataframe(self) -> pd.DataFrame:
        """The coefficients as a table; see `DictionaryField.to_dataframe`. Inner units are not given."""
        return self._table_in({} if self.context is None else self.context.units)

    def _table_in(self, units: Mapping[str, str]) -> pd.DataFrame:
        """As `to_dataframe`, in given units of states and time; see `Trajectories.units`."""
        names, coefficients = self._terms
        errors = self.standard_errors
        errors = np.full(coefficients.shape, np.nan) if errors is None else errors
        read = Units.of(units, self.state_names)
        of_each = read.of_factors(self._rows_of_terms[0], self._symbols) if units else None
        return coefficient_table(self.state_names, names, coefficients, errors, of_each)

    @property
    def complexity(self) -> int:
        """Number of operations, functions, states and numbers in the right-hand sides."""
        import sympy

        return sum(1 for f in self._expressions for _ in sympy.preorder_traversal(f))

    def sympy(self, symbols: "Sequence[Symbol] | None" = None) -> "list[Expr]":
        """Right-hand sides with numbers for the parameters.

        Parameters
        ----------
        symbols : sequence of sympy.Symbol, optional
            Replace the states; default `symbols`.

        Returns
        -------
        list of sympy.Expr
        """
        if symbols is None:
            return list(self._numeric)
        return [f.xreplace(dict(zip(self._symbols, symbols, strict=True))) for f in self._numeric]

    def latex(self, precision: int = 3) -> str:
        """Right-hand sides as one aligned LaTeX block, with numbers of `precision` significant digits."""
        return aligned_latex(latex_names(self.state_names), self._latex_sides(precision))

    def _latex_sides(self, precision: int) -> list[str]:
        """Each right-hand side as LaTeX."""
        check_precision(precision)
        writer = ExpressionWriter(LatexNotation(latex_names(self.state_names), precision), self._symbols)
        return [writer.written(side) for side in self._numeric]

    def _repr_latex_(self) -> str:
        return f"$${self.latex()}$$"


class _Stacked:
    """Rows of fields with equal expressions, the parameters of each row passed as columns."""

    def __init__(
        self,
        expressions: "tuple[Expr, ...]",
        symbols: "tuple[Symbol, ...]",
        names: list[str],
        values: np.ndarray,
    ):
        self._expressions, self._symbols, self._names = expressions, symbols, names
        self._values = values

    def __call__(self, x: np.ndarray, which: np.ndarray) -> np.ndarray:
        import sympy

        symbols = (*self._symbols, *(sympy.Symbol(name, real=True) for name in self._names))
        if not len(x):
            return np.zeros_like(x)
        return compiled(self._expressions, symbols)(*x.T, *self._values[which].T).T


def _direction(k: int, dim: int) -> "tuple[Symbol, ...]":
    import sympy

    return tuple(sympy.Symbol(f"direction {k} {i}", real=True) for i in range(dim))


@lru_cache(maxsize=256)
def _jacobian_entries(
    expressions: "tuple[Expr, ...]", symbols: "tuple[Symbol, ...]"
) -> "tuple[Expr, ...] | None":
    """Derivatives of each expression by each state; None where they are too large."""
    if not all(map(is_derivable, expressions)):
        return None
    return tuple(slope(f, s) for f in expressions for s in symbols)


@lru_cache(maxsize=256)
def _derivatives_along(
    expressions: "tuple[Expr, ...]", symbols: "tuple[Symbol, ...]", order: int
) -> "tuple[Expr, ...] | None":
    """Derivatives along as many directions as the order says; None where they are too large."""
    for k in range(order):
        if not all(map(is_derivable, expressions)):
            return None
        along = _direction(k, len(symbols))
        expressions = tuple(
            sum(v * slope(f, s) for v, s in zip(along, symbols, strict=True)) for f in expressions
        )
    return expressions


def _about(field: SymbolicField) -> dict[str, Any]:
    """What fields of other parameters share with a field."""
    return {
        "state_names": field.state_names,
        "region": field.region,
        "scales": None if field.frame.length is None else field.scales,
    }


def _without_context(field: SymbolicField, names: Iterable[str], method: str) -> SymbolicField:
    """The field of which some parameters are to be varied; its scales are those of data, if there are any."""
    for name in names:
        if name not in field.parameters:
            raise ValueError(
                f"SymbolicField.{method}: expected one of the parameters {sorted(field.parameters)}, got "
                f"{name!r}; write a number as a parameter to vary it."
            )
    if field.context is not None:
        return field
    return SymbolicField(field.expressions, field.parameters, fit_info=field.fit_info, **_about(field))


class _SymbolicFamily(FieldFamily):
    """The fields of expressions at all values of one parameter."""

    def __init__(self, field: SymbolicField, parameter: str):
        plain = _without_context(field, (parameter,), "family")
        self._field = plain._varied({parameter: plain.parameters[parameter]})
        about = _about(field)
        super().__init__(field.dim, parameter, **about)

    def _at(self, p: float) -> SymbolicField:
        _ = self._field._evaluated  # made once, and shared by all members
        return self._field._varied({self.parameter: p})

    def _dp(self, x: np.ndarray, p: float) -> np.ndarray:
        import sympy

        member = self._at(p)
        by = sympy.Symbol(self.parameter, real=True)
        return member._evaluate(tuple(slope(f, by) for f in member._evaluated), x).T


class DrivenExpressions(DrivenField):
    """Expressions in states and inputs; see `SymbolicField`, whose arguments these are.

    Parameters
    ----------
    expressions : sequence of str or sympy.Expr
        One right-hand side per state, in the names of states and inputs, or x0, x1, ... by position.
    parameters : dict of str to float
        Values of the parameters.
    covariance : array (q, q), optional
        Of the parameters, in the order of their sorted names.
    input_names : sequence of str
        Names of the inputs.
    **kwargs
        Passed to `VectorField`; ``context``, ``frame`` or ``state_names`` are needed.
    """

    def __init__(
        self,
        expressions: "Sequence[str | Expr]",
        parameters: Mapping[str, float],
        covariance: ArrayLike | None = None,
        *,
        input_names: Sequence[str],
        **kwargs: Any,
    ) -> None:
        names = kwargs.get("state_names")
        if names is None:
            names = (kwargs.get("frame") or kwargs["context"]).state_names
        names = [*names, *input_names]
        still = ["0"] * len(input_names)
        extended = SymbolicField([*expressions, *still], parameters, covariance, state_names=names)
        super().__init__(extended, input_names, **kwargs)
        self._own = extended

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The field as plain arrays; see `fim_dynsys.saved`."""
        arrays = self._own.to_arrays()
        return arrays | {
            "expressions": arrays["expressions"][: self.dim],
            "input_names": np.array(self.input_names, dtype=str),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], **description: Any) -> Self:
        """The field that `to_arrays` took apart, with keyword arguments of `VectorField`."""
        values = zip(arrays["parameter_names"], arrays["parameter_values"], strict=True)
        return cls(
            [str(text) for text in arrays["expressions"]],
            {str(name): float(value) for name, value in values},
            arrays.get("covariance"),
            input_names=[str(name) for name in arrays["input_names"]],
            **description,
        )

    @property
    def expressions(self) -> "tuple[Expr, ...]":
        """The right-hand sides as sympy expressions, inputs as states behind the others (tuple)."""
        return self._own.expressions[: self.dim]

    @property
    def parameters(self) -> dict[str, float]:
        """Values of the parameters by name (a copy)."""
        return self._own.parameters

    @property
    def parameter_errors(self) -> dict[str, float] | None:
        """Standard errors of the parameters by name; None where they were given, not fitted."""
        return self._own.parameter_errors

    def with_parameters(self, **changes: float) -> "DrivenExpressions":
        """The field at other values of some parameters; see `SymbolicField.with_parameters`."""
        return type(self)(
            self.expressions,
            self.parameters | changes,
            input_names=self.input_names,
            frame=self.frame,
            fit_info=self.fit_info,
        )

    def at_input(self, u: ArrayLike | Mapping[str, float]) -> SymbolicField:
        """The autonomous field under constant inputs, which are parameters of it; see `DrivenField`."""
        import sympy

        values = dict(zip(self.input_names, self._values(u).tolist(), strict=True))
        if set(values) & set(self.parameters):
            raise ValueError(
                f"DrivenField.at_input: expected inputs of other names than the parameters "
                f"{sorted(self.parameters)}, got {list(self.input_names)}."
            )
        named = {
            symbol: sympy.Symbol(name, real=True)
            for symbol, name in zip(self._own.symbols[self.dim :], self.input_names, strict=True)
        }
        held = [expression.xreplace(named) for expression in self.expressions]
        used = parameter_names(held, self._own.symbols)
        parameters = {name: value for name, value in (self.parameters | values).items() if name in used}
        return SymbolicField(held, parameters, frame=self.frame, fit_info=self.fit_info)


def read_expressions(
    expressions: "Iterable[str | Expr]", state_names: Sequence[str]
) -> "tuple[tuple[Symbol, ...], tuple[Expr, ...]]":
    """Symbols of the states, and the expressions in them.

    Parameters
    ----------
    expressions : sequence of str or sympy.Expr
        Right-hand sides in the names of the states, or in x0, x1, ... by position.
    state_names : sequence of str
        Names of the states, any text.

    Returns
    -------
    symbols, expressions : tuples
    """
    import sympy

    symbols = tuple(sympy.Symbol(f"x{i}", real=True) for i in range(len(state_names)))
    known = {str(s): s for s in symbols} | {str(n): s for n, s in zip(state_names, symbols, strict=True)}
    read, used = [], set[str]()
    for expression in expressions:
        if isinstance(expression, str):
            read.append(parse(expression, known))
            used |= set(re.findall(r"[^\W\d]\w*", expression))
            continue
        if not isinstance(expression, sympy.Expr):
            raise ValueError(
                "SymbolicField: expected right-hand sides as text or sympy expressions, got "
                f"{type(expression).__name__}."
            )
        given = {s: known.get(s.name, sympy.Symbol(s.name, real=True)) for s in expression.free_symbols}
        expression = expression.xreplace(given)
        check_expression(expression)
        read.append(expression)
    warn_of_both_ways("SymbolicField", used, [str(name) for name in state_names])
    return symbols, tuple(read)


def parameter_names(expressions: "Iterable[Expr]", symbols: "Iterable[Symbol]") -> list[str]:
    """Sorted names of the symbols in expressions other than the states."""
    free = set().union(*(expression.free_symbols for expression in expressions)) - set(symbols)
    return sorted(symbol.name for symbol in free)


def _rounded(expression: "Expr", digits: int) -> "Expr":
    """A copy with floating-point numbers of a few significant digits."""
    import sympy

    return expression.xreplace({v: sympy.Float(v, digits) for v in expression.atoms(sympy.Float)})
