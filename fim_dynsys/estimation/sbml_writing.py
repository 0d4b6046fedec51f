"""Equations of a field as a model in SBML."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.errors import FitWarning, real_array, warn
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import safe_names
from fim_dynsys.fields.exports import equations_of
from fim_dynsys.writing import replace_file

if TYPE_CHECKING:
    from sympy import Expr

_INSTALL = "run `pip install '.[petab]'` in a clone of the repository"
_LEVEL, _VERSION = 3, 2  # of SBML: the newest
_TAKEN = {"time", "avogadro", "pi", "exponentiale", "true", "false", "infinity", "inf", "nan", "notanumber"}
"""Names that formulas have for something else."""


def to_sbml(field: VectorField, path: str | os.PathLike, x0: ArrayLike | None = None) -> Path:
    """Write the equations of a field as a model in SBML, level 3 version 2.

    States are parameters that change by rate rules. Time in SBML begins at 0: in equations that hold ``t`` it
    counts from the first sample.

    Parameters
    ----------
    field : VectorField
        A field with equations, such as ``model.field_``.
    path : path
        The file.
    x0 : array (d,), optional
        States at the first sample; default those that were fitted, of the first trajectory.

    Returns
    -------
    Path

    Warns
    -----
    FitWarning
        Doses and events of the fit are not written.

    Raises
    ------
    ImportError
        Where python-libsbml is not installed.
    TypeError
        For a field without equations.
    ValueError
        For fields with inputs, and where no first states are known.

    See Also
    --------
    from_sbml : reads it again.

    References
    ----------
    M. Hucka et al., The Systems Biology Markup Language (SBML): language specification for level 3 version 2
    core, J. Integr. Bioinform. 15 (2018) 20170081.
    """
    try:
        import libsbml
    except ImportError as error:
        raise ImportError(f"to_sbml: expected python-libsbml, which is not installed; {_INSTALL}") from error
    import sympy

    own = equations_of("to_sbml", field)
    if own.inputs:
        raise ValueError(
            f"to_sbml: expected a field without inputs, got {', '.join(own.inputs)}; field.at_input(u) holds "
            "them."
        )
    changes = field.fit_info.report.get("changes", []) if field.fit_info is not None else []
    if changes:
        warn(
            f"to_sbml: doses and events of the fit are not written, at {', '.join(f'{t:g}' for t in changes)}"
            "; add events to the model.",
            FitWarning,
        )
    start = _first(field, x0)
    ids = [
        name if name.lower() not in _TAKEN else f"{name}_"
        for name in safe_names([*own.states, *own.parameters])
    ]
    symbols = [sympy.Symbol(name, real=True) for name in ids]
    d = len(own.states)
    context = field.context
    begin = 0.0 if context is None else float(context.t[0, 0])
    time = sympy.Symbol("time", real=True)
    clock = [time + begin if begin else time] * own.clock
    expressions = own.renamed([*symbols[:d], *clock], symbols[d:])
    document = libsbml.SBMLDocument(_LEVEL, _VERSION)
    model = document.createModel()
    model.setId("fim_dynsys")
    values = [*start.tolist(), *own.parameters.values()]
    for k, (identifier, name, value) in enumerate(
        zip(ids, [*own.states, *own.parameters], values, strict=True)
    ):
        parameter = model.createParameter()
        parameter.setId(identifier)
        parameter.setName(name)
        parameter.setValue(float(value))
        parameter.setConstant(k >= d)
    for identifier, expression in zip(ids, expressions, strict=False):
        text = _formula(expression)
        node = libsbml.parseL3Formula(text)
        if node is None:
            raise ValueError(f"to_sbml: expected a formula of SBML, got {text[:60]!r}.")
        rule = model.createRateRule()
        rule.setVariable(identifier)
        rule.setMath(node)
    path = Path(path)
    replace_file(path, libsbml.writeSBMLToString(document).encode())
    return path


def _first(field: VectorField, x0: ArrayLike | None) -> np.ndarray:
    """First states (d,)."""
    if x0 is None:
        known = None if field.fit_info is None else field.fit_info.initial_states
        if known is None:
            raise ValueError("to_sbml: expected first states x0 of a field that was not fitted, got none.")
        return np.asarray(known, dtype=float)[0]
    given = np.atleast_1d(real_array(x0, "to_sbml", "x0"))
    if given.shape != (field.dim,):
        raise ValueError(f"to_sbml: expected x0 of shape ({field.dim},), got {given.shape}.")
    return given


def _formula(expression: "Expr") -> str:
    """A formula in the syntax of libsbml, numbers in full."""
    from sympy.printing.str import StrPrinter

    class Printer(StrPrinter):
        def _print_Float(self, expr: Any) -> str:
            return repr(float(expr))

        def _print_Function(self, expr: Any) -> str:
            name = {"log": "ln", "Abs": "abs", "Min": "min", "Max": "max"}.get(expr.func.__name__)
            arguments = ", ".join(self._print(own) for own in expr.args)
            if expr.func.__name__ == "sign":
                return f"piecewise(1, {arguments} > 0, -1, {arguments} < 0, 0)"
            return f"{name or expr.func.__name__}({arguments})"

        _print_Abs = _print_Min = _print_Max = _print_sign = _print_log = _print_Function

        def _print_Piecewise(self, expr: Any) -> str:
            pairs = [f"{self._print(value)}, {self._print(when)}" for value, when in expr.args[:-1]]
            return f"piecewise({', '.join([*pairs, self._print(expr.args[-1][0])])})"

        def _print_And(self, expr: Any) -> str:
            return " && ".join(f"({self._print(own)})" for own in expr.args)

        def _print_Or(self, expr: Any) -> str:
            return " || ".join(f"({self._print(own)})" for own in expr.args)

    return Printer({"order": None}).doprint(expression).replace("**", "^")
