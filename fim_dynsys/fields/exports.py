"""Equations of a field for other programs: C and Julia."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.symbolic import SymbolicField
from fim_dynsys.writing import replace_file

if TYPE_CHECKING:
    from sympy import Expr, Symbol


@dataclass(frozen=True)
class Equations:
    """Right-hand sides of a field as expressions.

    Attributes
    ----------
    states, inputs : tuple of str
        Names.
    parameters : dict
        Values by name; empty where the field has numbers alone.
    expressions : tuple of sympy.Expr
        In ``symbols``, and in symbols of the parameters' names.
    symbols : tuple of sympy.Symbol
        Of states, then inputs, then the time where the expressions hold it.
    clock : bool
        Whether they hold it.
    """

    states: tuple[str, ...]
    inputs: tuple[str, ...]
    parameters: dict[str, float]
    expressions: "tuple[Expr, ...]"
    symbols: "tuple[Symbol, ...]"
    clock: bool = False

    def renamed(self, values: "Sequence[Any]", parameters: "Sequence[Any]") -> "list[Expr]":
        """The expressions with others for `symbols`, and for parameters in their order."""
        import sympy

        own = [sympy.Symbol(name, real=True) for name in self.parameters]
        table = dict(zip([*self.symbols, *own], [*values, *parameters], strict=True))
        return [expression.xreplace(table) for expression in self.expressions]


def equations_of(caller: str, field: VectorField) -> Equations:
    """The right-hand sides of a field as expressions.

    Raises
    ------
    TypeError
        For a field without equations.
    """
    import sympy

    info = getattr(field, "fit_info", None)
    clock = None if info is None else info.report.get("clock")
    names = tuple(getattr(field, "input_names", ()))
    inputs = tuple(name for name in names if name != clock)  # which comes last
    held = len(inputs) < len(names)
    own = field.extended if isinstance(field, DrivenField) else field
    if isinstance(own, SymbolicField):
        expressions = own.expressions[: field.dim]
        return Equations(tuple(field.state_names), inputs, own.parameters, expressions, own.symbols, held)
    write = getattr(own, "sympy", None)
    if not isinstance(field, VectorField) or write is None:
        raise TypeError(
            f"{caller}: expected a field with equations, such as model.field_, got {type(field).__name__}; "
            "fields without equations are first approximated by fim_dynsys.distill."
        )
    symbols = tuple(sympy.Symbol(f"value {k}", real=True) for k in range(field.dim + len(names)))
    return Equations(tuple(field.state_names), inputs, {}, tuple(write(symbols)[: field.dim]), symbols, held)


def to_c(field: VectorField, path: str | os.PathLike | None = None, name: str = "rates") -> str:
    """The right-hand side of a field as a function in C.

    Parameters
    ----------
    field : VectorField
        A field with equations, such as ``model.field_``.
    path : path, optional
        File to write, as well.
    name : str
        Of the function: ``void name(double t, const double *x, const double *u, const double *p, double
        *dxdt)`` with states (d,), inputs (m,), parameters (q,) and the rates (d,) that it writes. Inputs and
        parameters may be NULL where there are none. ``name_parameters`` holds the parameters' values.

    Returns
    -------
    str
        C99, which needs ``math.h``.

    Raises
    ------
    TypeError
        For a field without equations.
    ValueError
        For a name that is none in C.

    See Also
    --------
    to_julia : for DifferentialEquations.jl.

    Examples
    --------
    >>> import fim_dynsys
    >>> decay = fim_dynsys.SymbolicField({"c": "-k*c"}, {"k": 0.5})
    >>> print(to_c(decay).splitlines()[-2].strip())
    dxdt[0] = -p[0]*x[0];
    """
    import sympy

    own = _named("to_c", field, name)
    lines = _heads(own, "//", 0)
    lines += ["#include <math.h>", ""]
    if own.parameters:
        values = ", ".join(repr(float(value)) for value in own.parameters.values())
        lines += [f"const double {name}_parameters[{len(own.parameters)}] = {{{values}}};", ""]
    lines.append(f"void {name}(double t, const double *x, const double *u, const double *p, double *dxdt)")
    lines += ["{", "    (void)t; (void)u; (void)p;"]
    for k, expression in enumerate(_indexed(own, 0)):
        lines.append(f"    dxdt[{k}] = {sympy.ccode(expression, standard='C99')};")
    return _kept("\n".join([*lines, "}"]) + "\n", path)


def to_julia(field: VectorField, path: str | os.PathLike | None = None, name: str = "rates!") -> str:
    """The right-hand side of a field as a function in Julia, as DifferentialEquations.jl takes it.

    Parameters
    ----------
    field : VectorField
        A field with equations, such as ``model.field_``.
    path : path, optional
        File to write, as well.
    name : str
        Of the function: ``name(dx, x, p, t)``; with inputs ``name(dx, x, p, t, u)``, for values ``u`` at the
        time. ``name_parameters``, without ``!``, holds the parameters' values.

    Returns
    -------
    str

    Raises
    ------
    TypeError
        For a field without equations.
    ValueError
        For a name that is none in Julia.

    See Also
    --------
    to_c : the same in C.

    Examples
    --------
    >>> import fim_dynsys
    >>> decay = fim_dynsys.SymbolicField({"c": "-k*c"}, {"k": 0.5})
    >>> print(to_julia(decay).splitlines()[-3].strip())
    dx[1] = -p[1] .* x[1]
    """
    import sympy

    own = _named("to_julia", field, name.removesuffix("!"))
    lines = _heads(own, "#", 1)
    if own.parameters:
        values = ", ".join(repr(float(value)) for value in own.parameters.values())
        lines += [f"const {name.removesuffix('!')}_parameters = [{values}]", ""]
    lines.append(f"function {name}(dx, x, p, t{', u' if own.inputs else ''})")
    for k, expression in enumerate(_indexed(own, 1)):
        lines.append(f"    dx[{k + 1}] = {sympy.julia_code(expression)}")
    return _kept("\n".join([*lines, "    return nothing", "end"]) + "\n", path)


def _named(caller: str, field: VectorField, name: str) -> Equations:
    if not name.isidentifier() or not name.isascii():
        raise ValueError(f"{caller}: expected a name of letters, digits and underscores, got {name!r}.")
    return equations_of(caller, field)


def _heads(own: Equations, comment: str, first: int) -> list[str]:
    """What each place of the arrays is."""
    parts = (("x", own.states), ("u", own.inputs), ("p", tuple(own.parameters)))
    lines = [f"{comment} dx/dt, written by fim-dynsys"]
    for letter, names in parts:
        if names:
            listed = ", ".join(f"{letter}[{k + first}] = {' '.join(n.split())}" for k, n in enumerate(names))
            lines.append(f"{comment} {listed}")
    return lines


def _indexed(own: Equations, first: int) -> "list[Expr]":
    """The expressions in places of arrays."""
    import sympy

    def places(letter: str, count: int) -> "list[Symbol]":
        return [sympy.Symbol(f"{letter}[{k + first}]", real=True) for k in range(count)]

    values = [*places("x", len(own.states)), *places("u", len(own.inputs))]
    values += [sympy.Symbol("t", real=True)] * own.clock
    return own.renamed(values, places("p", len(own.parameters)))


def _kept(text: str, path: str | os.PathLike | None) -> str:
    if path is not None:
        replace_file(Path(path), text.encode())
    return text
