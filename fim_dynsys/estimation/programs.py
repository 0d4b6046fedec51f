"""Expressions and their derivatives as programs; see `fim_dynsys.regression.kernels.programs`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from fim_dynsys.regression.kernels import programs as op

if TYPE_CHECKING:
    from sympy import Expr

_UNARY = {
    "exp": op.EXP,
    "log": op.LOG,
    "sin": op.SIN,
    "cos": op.COS,
    "tan": op.TAN,
    "asin": op.ASIN,
    "acos": op.ACOS,
    "atan": op.ATAN,
    "sinh": op.SINH,
    "cosh": op.COSH,
    "tanh": op.TANH,
    "Abs": op.ABS,
    "sign": op.SIGN,
}
_MOST_PRODUCTS = 16  # of a whole power, which is multiplied out
TIME = "t"


@dataclass(frozen=True, eq=False)
class Program:
    """Values of expressions and their derivatives by states and parameters.

    Attributes
    ----------
    n_states, n_inputs, n_parameters : int
        Numbers of arguments, which are time, states, inputs and parameters.
    code : int32 array (n, 4)
        Rows.
    n_values : int
        Rows that the values need; the derivatives need all.
    registers : array
        A template: zeros, and constants behind the arguments.
    base : int
        Register of the first row's value.
    values_at : int array (k,)
        Registers of the values.
    by_state, by_parameter : int arrays (e, 3)
        Value, argument and register of each derivative that is not identically zero.
    """

    n_states: int
    n_inputs: int
    n_parameters: int
    code: np.ndarray
    n_values: int
    registers: np.ndarray
    base: int
    values_at: np.ndarray
    by_state: np.ndarray
    by_parameter: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """What the kernels need to know of the layout."""
        return np.array(
            [self.n_states, self.n_inputs, self.n_parameters, self.n_values, len(self.code), self.base]
        )


class Graph:
    """Nodes of expressions, each kept once, and their derivatives.

    Parameters
    ----------
    arguments : sequence of str
        Names of the first nodes.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        self.nodes: list[tuple] = []
        self.known: dict[tuple, int] = {}
        self.depends: list[int] = []  # bits of the arguments that each node depends on
        self.arguments = {name: self._node(("argument", k), 1 << k) for k, name in enumerate(arguments)}
        self.slopes: dict[tuple[int, int], int] = {}
        self.zero, self.one = self.number(0.0), self.number(1.0)

    def _node(self, key: tuple, depends: int) -> int:
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = len(self.nodes)
            self.nodes.append(key)
            self.depends.append(depends)
        return found

    def number(self, value: float) -> int:
        """A constant."""
        return self._node(("number", float(value)), 0)

    def value(self, node: int) -> float | None:
        """The number that a node is; None where it is none."""
        key = self.nodes[node]
        return key[1] if key[0] == "number" else None

    def make(self, code: int, *operands: int) -> int:
        """An operation on nodes, numbers folded."""
        depends = 0
        for operand in operands:
            depends |= self.depends[operand]
        if code in (op.ADD, op.MUL, op.MIN, op.MAX) and operands[0] > operands[1]:
            operands = (operands[1], operands[0])
        node = self._node((code, *operands), depends)
        if not depends:
            values = [self.value(operand) for operand in operands]
            return self.number(_folded(code, values))  # type: ignore[arg-type]
        return node

    def add(self, a: int, b: int) -> int:
        """Sum."""
        if a == self.zero or b == self.zero:
            return b if a == self.zero else a
        return self.make(op.ADD, a, b)

    def subtract(self, a: int, b: int) -> int:
        """Difference."""
        if b == self.zero:
            return a
        return self.zero if a == b else self.make(op.SUB, a, b)

    def multiply(self, a: int, b: int) -> int:
        """Product."""
        if self.zero in (a, b):
            return self.zero
        if a == self.one or b == self.one:
            return b if a == self.one else a
        return self.make(op.MUL, a, b)

    def divide(self, a: int, b: int) -> int:
        """Quotient."""
        if a == self.zero:
            return self.zero
        return a if b == self.one else self.make(op.DIV, a, b)

    def power(self, a: int, b: int) -> int:
        """Power; whole numbers as products."""
        exponent = self.value(b)
        if exponent is None:
            return self.make(op.POW, a, b)
        if exponent == 0.5:
            return self.make(op.SQRT, a)
        if exponent == -0.5:
            return self.divide(self.one, self.make(op.SQRT, a))
        if exponent != round(exponent) or abs(exponent) > _MOST_PRODUCTS:
            return self.make(op.POW, a, b)
        result, factor, left = self.one, a, abs(int(exponent))
        while left:
            if left & 1:
                result = self.multiply(result, factor)
            left >>= 1
            if left:
                factor = self.multiply(factor, factor)
        return result if exponent >= 0 else self.divide(self.one, result)

    # ------------------------------------------------------------------ from sympy

    def read(self, expression: "Expr", names: Mapping[str, int] | None = None) -> int:
        """The node of a sympy expression.

        Raises
        ------
        ValueError
            For a name that is no argument, or a function that no program has.
        """
        name = type(expression).__name__
        if expression.is_Symbol:
            found = (names or self.arguments).get(expression.name)
            if found is None:
                raise ValueError(
                    f"equations: expected names among {', '.join(self.arguments)}, got {expression.name!r}."
                )
            return found
        if expression.is_number and not expression.args:
            return self.number(float(expression))
        if expression.is_Add:
            return self._sum(
                [
                    self.read(part, names)
                    if not part.could_extract_minus_sign()
                    else -1 - self.read(-part, names)
                    for part in expression.args
                ]
            )
        if expression.is_Mul:
            above, below = self.one, self.one
            for part in expression.args:
                if part.is_Pow and part.exp.is_number and part.exp.is_negative:
                    base = self.read(part.base, names)
                    below = self.multiply(below, self.power(base, self.number(-float(part.exp))))
                else:
                    above = self.multiply(above, self.read(part, names))
            return self.divide(above, below)
        if expression.is_Pow:
            base = self.read(expression.base, names)
            if expression.exp.is_number and expression.exp.is_negative:
                return self.divide(self.one, self.power(base, self.number(-float(expression.exp))))
            return self.power(base, self.read(expression.exp, names))
        if name in ("Min", "Max"):
            code = op.MIN if name == "Min" else op.MAX
            parts = [self.read(part, names) for part in expression.args]
            result = parts[0]
            for part in parts[1:]:
                result = self.make(code, result, part)
            return result
        if name == "Heaviside":
            return self.make(op.SELECT, self.read(expression.args[0], names), self.one, self.zero)
        if name == "Piecewise":
            return self._branches(expression, names)
        if name in _UNARY:
            return self.make(_UNARY[name], self.read(expression.args[0], names))
        raise ValueError(f"equations: expected functions that can be integrated, got {expression}.")

    def _sum(self, parts: list[int]) -> int:
        """Sum of nodes; one less than the negative of a node is subtracted."""
        plus = [part for part in parts if part >= 0]
        result = self.zero
        for part in plus:
            result = self.add(result, part)
        for part in parts:
            if part < 0:
                result = self.subtract(result, -1 - part)
        return result

    def _branches(self, expression: "Expr", names: Mapping[str, int] | None) -> int:
        result = self.number(math.nan)
        for value, condition in reversed(expression.args):
            if condition == True:  # noqa: E712 - a sympy truth value
                result = self.read(value, names)
            else:
                result = self.make(
                    op.SELECT, self.condition(condition, names), self.read(value, names), result
                )
        return result

    def condition(self, condition: "Expr", names: Mapping[str, int] | None = None) -> int:
        """A node that is not negative where a condition holds."""
        kind = type(condition).__name__
        if kind in ("GreaterThan", "StrictGreaterThan", "LessThan", "StrictLessThan"):
            left, right = (self.read(part, names) for part in condition.args)
            greater = kind in ("GreaterThan", "StrictGreaterThan")
            return self.subtract(left, right) if greater else self.subtract(right, left)
        if kind in ("And", "Or"):
            parts = [self.condition(part, names) for part in condition.args]
            result = parts[0]
            for part in parts[1:]:
                result = self.make(op.MIN if kind == "And" else op.MAX, result, part)
            return result
        if kind == "Not":
            return self.subtract(self.zero, self.condition(condition.args[0], names))
        if kind in ("BooleanTrue", "BooleanFalse"):
            return self.number(1.0 if kind == "BooleanTrue" else -1.0)
        raise ValueError(f"equations: expected conditions of <, >, <=, >=, got {condition}.")

    # ------------------------------------------------------------------ derivatives

    def slope(self, node: int, argument: int) -> int:
        """The derivative of a node by an argument; that of a sign is 0."""
        if not self.depends[node] >> argument & 1:
            return self.zero
        found = self.slopes.get((node, argument))
        if found is None:
            found = self.slopes[node, argument] = self._slope(node, argument)
        return found

    def _slope(self, node: int, argument: int) -> int:
        code, *operands = self.nodes[node]
        if code == "argument":
            return self.one if operands[0] == argument else self.zero
        inner = [self.slope(operand, argument) for operand in operands]
        a, b = operands[0], operands[1] if len(operands) > 1 else self.zero
        multiply, divide = self.multiply, self.divide
        if code == op.ADD:
            return self.add(*inner)
        if code == op.SUB:
            return self.subtract(*inner)
        if code == op.MUL:
            return self.add(multiply(inner[0], b), multiply(a, inner[1]))
        if code == op.DIV:
            return divide(self.subtract(inner[0], multiply(node, inner[1])), b)
        if code == op.POW:
            by_base = multiply(b, self.power(a, self.subtract(b, self.one)))
            by_exponent = self.make(op.POWLOG, a, b) if inner[1] != self.zero else self.zero
            return self.add(multiply(inner[0], by_base), multiply(inner[1], by_exponent))
        if code == op.POWLOG:
            by_base = self.add(
                multiply(b, self.make(op.POWLOG, a, self.subtract(b, self.one))),
                self.power(a, self.subtract(b, self.one)),
            )
            log = self.make(op.LOG, a)
            return self.add(multiply(inner[0], by_base), multiply(inner[1], multiply(node, log)))
        if code == op.SELECT:
            if inner[1] == inner[2]:
                return inner[1]
            return self.make(op.SELECT, a, inner[1], inner[2])
        if code in (op.MIN, op.MAX):
            first = self.subtract(b, a) if code == op.MIN else self.subtract(a, b)
            return self.make(op.SELECT, first, *inner)
        return multiply(inner[0], self._outer(code, node, a))

    def _outer(self, code: int, node: int, a: int) -> int:
        """The derivative of a function of one argument."""
        one, multiply, divide, subtract = self.one, self.multiply, self.divide, self.subtract
        square = multiply(a, a)
        if code == op.EXP:
            return node
        if code == op.LOG:
            return divide(one, a)
        if code == op.SQRT:
            return divide(self.number(0.5), node)
        if code == op.SIN:
            return self.make(op.COS, a)
        if code == op.COS:
            return subtract(self.zero, self.make(op.SIN, a))
        if code == op.TAN:
            return self.add(one, multiply(node, node))
        if code in (op.ASIN, op.ACOS):
            root = divide(one, self.make(op.SQRT, subtract(one, square)))
            return root if code == op.ASIN else subtract(self.zero, root)
        if code == op.ATAN:
            return divide(one, self.add(one, square))
        if code in (op.SINH, op.COSH):
            return self.make(op.COSH if code == op.SINH else op.SINH, a)
        if code == op.TANH:
            return subtract(one, multiply(node, node))
        return self.make(op.SIGN, a) if code == op.ABS else self.zero

    # ------------------------------------------------------------------ the program

    def program(self, outputs: Sequence[int], n_states: int, n_inputs: int) -> Program:
        """Values and derivatives of nodes; arguments are time, states, inputs and then parameters."""
        count = len(self.arguments)
        n_parameters = count - 1 - n_states - n_inputs
        states = range(1, 1 + n_states)
        parameters = range(1 + n_states + n_inputs, count)
        by_state = [(k, i - 1, self.slope(f, i)) for k, f in enumerate(outputs) for i in states]
        by_parameter = [
            (k, i - parameters.start, self.slope(f, i)) for k, f in enumerate(outputs) for i in parameters
        ]
        by_state = [entry for entry in by_state if entry[2] != self.zero]
        by_parameter = [entry for entry in by_parameter if entry[2] != self.zero]
        place: dict[int, int] = {k: k for k in range(count)}
        rows: list[int] = []
        numbers: list[int] = []

        def need(node: int) -> None:
            stack = [node]
            while stack:
                top = stack[-1]
                key = self.nodes[top]
                if top in place or key[0] == "number":
                    if key[0] == "number" and top not in place:
                        place[top] = -1
                        numbers.append(top)
                    stack.pop()
                    continue
                missing = [operand for operand in key[1:] if operand not in place]
                if missing:
                    stack.extend(missing)
                    continue
                place[top] = -1
                rows.append(top)
                stack.pop()

        for f in outputs:
            need(f)
        n_values = len(rows)
        for _, _, node in (*by_state, *by_parameter):
            need(node)
        base = count + len(numbers)
        for k, node in enumerate(numbers):
            place[node] = count + k
        for k, node in enumerate(rows):
            place[node] = base + k
        code = np.zeros((len(rows), 4), dtype=np.int32)
        for row, node in zip(code, rows, strict=True):
            kind, *operands = self.nodes[node]
            row[0] = kind
            row[1 : 1 + len(operands)] = [place[operand] for operand in operands]
        registers = np.zeros(base + len(rows))
        registers[count:base] = [self.nodes[node][1] for node in numbers]

        def entries(found: list[tuple[int, int, int]]) -> np.ndarray:
            return np.array([(k, i, place[node]) for k, i, node in found], dtype=np.int64).reshape(-1, 3)

        return Program(
            n_states,
            n_inputs,
            n_parameters,
            code,
            n_values,
            registers,
            base,
            np.array([place[f] for f in outputs], dtype=np.int64),
            entries(by_state),
            entries(by_parameter),
        )


def _folded(code: int, values: Sequence[float]) -> float:
    """The value of an operation on numbers."""
    rows = np.array([[code, *range(len(values)), *([0] * (3 - len(values)))]], dtype=np.int32)
    registers = np.array([*values, 0.0])
    with np.errstate(all="ignore"):
        op.run(rows, 0, 1, len(values), registers)
    return float(registers[-1])


@lru_cache(maxsize=64)
def program(
    expressions: "tuple[Expr, ...]",
    states: tuple[str, ...],
    inputs: tuple[str, ...],
    parameters: tuple[str, ...],
) -> Program:
    """The program of sympy expressions in ``t``, and the names of states, inputs and parameters."""
    graph = Graph((TIME, *states, *inputs, *parameters))
    return graph.program([graph.read(e) for e in expressions], len(states), len(inputs))
