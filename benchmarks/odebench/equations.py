"""The true right-hand sides of ODEBench, parsed from text against a whitelist, with exact derivatives."""

import ast
import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.odebench.facts import system_facts
from fim_dynsys.fields.terms import Dictionary

FUNCTIONS = ("sin", "cos", "cot", "exp", "log", "Abs")
_NAME = re.compile(r"[xc]\d+")
_OPERATORS = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
}


@dataclass(frozen=True)
class TrueSystem:
    """A true field with its constants p as free parameters.

    Attributes
    ----------
    constants : ndarray (k,)
        True values.
    rhs, jac_x, jac_p : callable
        ``(x (n, d), p (k,))`` to f ``(n, d)``, df/dx ``(n, d, d)`` and df/dp ``(n, d, k)``.
    """

    constants: np.ndarray
    rhs: Callable[[np.ndarray, np.ndarray], np.ndarray]
    jac_x: Callable[[np.ndarray, np.ndarray], np.ndarray]
    jac_p: Callable[[np.ndarray, np.ndarray], np.ndarray]


def parse(text: str) -> Any:
    """Return the sympy expression of `text`, which may use numbers, x0.., c0.., + - * / ** and `FUNCTIONS`.

    Raises
    ------
    ValueError
        For anything else; the text is never evaluated.
    """
    import sympy

    def build(node: ast.AST) -> Any:
        match node:
            case ast.Expression(body=body):
                return build(body)
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                return sympy.Integer(value) if isinstance(value, int) else sympy.Float(value, 17)
            case ast.Name(id=name) if _NAME.fullmatch(name):
                return sympy.Symbol(name, real=True)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -build(operand)
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
                return _OPERATORS[type(operator)](build(left), build(right))
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
                inner = build(argument)  # numpy has no cotangent
                return 1 / sympy.tan(inner) if name == "cot" else getattr(sympy, name)(inner)
        raise ValueError(
            f"Equation: expected numbers, x0.., c0.., + - * / ** and {', '.join(FUNCTIONS)}, got {text!r}."
        )

    return build(ast.parse(text, mode="eval"))


@functools.cache
def true_system(system: str) -> TrueSystem:
    """Return the true system with this ODEBench id."""
    import sympy

    entry = system_facts()[system]
    x = [sympy.Symbol(f"x{i}", real=True) for i in range(entry["dim"])]
    c = [sympy.Symbol(name, real=True) for name in entry["constants"]]
    f = sympy.Matrix([parse(text) for text in entry["equations"]])
    return TrueSystem(
        constants=np.array(list(entry["constants"].values()), dtype=np.float64),
        rhs=_vectorised(f, x, c, (len(x),)),
        jac_x=_vectorised(f.jacobian(x), x, c, (len(x), len(x))),
        jac_p=_vectorised(f.jacobian(c) if c else sympy.zeros(len(x), 0), x, c, (len(x), len(c))),
    )


@functools.cache
def true_terms(system: str) -> list[list[str]] | None:
    """Return the names of the monomials in each right-hand side, None beyond polynomials of degree <= 3."""
    import sympy

    entry = system_facts()[system]
    if entry["split_strict"] != "ID":
        return None
    x = [sympy.Symbol(f"x{i}", real=True) for i in range(entry["dim"])]
    # exact decimals: terms that cancel do so exactly
    values = {sympy.Symbol(n, real=True): sympy.Rational(str(v)) for n, v in entry["constants"].items()}
    sides = [sympy.Poly(parse(text).subs(values), *x) for text in entry["equations"]]
    return [sorted(Dictionary(np.array(side.monoms())).names()) for side in sides]


def _vectorised(
    matrix: Any, x: list[Any], c: list[Any], shape: tuple[int, ...]
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    import sympy

    compiled = sympy.lambdify([x, c], list(matrix), modules="numpy", cse=True)

    def evaluate(states: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        values = compiled(list(states.T), list(parameters))
        out = np.empty((len(states), len(values)))
        for column, value in enumerate(values):
            out[:, column] = value
        return out.reshape(len(states), *shape)

    return evaluate
