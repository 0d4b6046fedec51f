"""Right-hand sides as text: read into sympy without evaluating it, and compiled to numpy functions."""

import ast
import keyword
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from fim_dynsys.errors import DataWarning, warn

if TYPE_CHECKING:
    from sympy import Expr, Symbol
    from sympy.logic.boolalg import Boolean

_LONGEST = 10_000  # characters of one expression
_DEEPEST = 100  # levels of brackets and operators
_HIGHEST = 100.0  # exponent; sympy multiplies powers out
_LARGEST = 20_000  # parts of a derivative, which take sympy and numpy some seconds
FUNCTIONS = (
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "exp",
    "log",
    "sqrt",
    "abs",
    "sign",
)
"""Functions of one argument that an expression may call."""

_SEVERAL = ("min", "max", "Piecewise")
_WRITTEN = {"Abs": "abs", "Min": "min", "Max": "max", "ln": "log"}  # as sympy and textbooks write them
_BASES = {"log10": 10, "log2": 2}  # of logarithms, which are read as quotients of natural ones

_OPERATORS = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}
_COMPARISONS: dict[type, str] = {ast.Lt: "Lt", ast.LtE: "Le", ast.Gt: "Gt", ast.GtE: "Ge"}


def parse(text: str, symbols: "Mapping[str, Expr] | None" = None, caller: str = "parse") -> "Expr":
    """An expression as sympy, built node by node; the text is never evaluated.

    Allowed are numbers, names, ``+ - * / **`` (or ``^``), brackets and the functions sin, cos, tan, asin,
    acos, atan, sinh, cosh, tanh, exp, log (or ln), log10, log2, sqrt, abs and sign; min and max of several
    arguments; and choices by ``<``, ``<=``, ``>``, ``>=``, and, or, not: ``a if x > 0 else b``, or
    ``Piecewise((a, x > 0), (b, True))``. Numbers as exponents may be 100 at most, also those of powers of
    powers. Names are real symbols; ``pi`` is the number unless ``symbols`` has it.

    Parameters
    ----------
    text : str
        The expression.
    symbols : dict of str to sympy.Expr, optional
        What names stand for; other names become symbols of their own.
    caller : str
        Named in errors.

    Returns
    -------
    sympy.Expr

    Raises
    ------
    ValueError
        Naming what is not allowed: a number that is not finite or not real, a division by zero, a high power.
    """
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST:
        raise ValueError(
            f"{caller}: expected an expression as text of at most {_LONGEST} characters, got "
            f"{str(text)[:60]!r}."
        )
    try:
        tree = ast.parse(text.strip().replace("^", "**"), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        words = sorted({word for word in re.findall(r"[A-Za-z_]+", text) if keyword.iskeyword(word)})
        hint = f"; {words[0]!r} is a word of Python, so give it another name" if words else ""
        hint += _odd_names(text, symbols or ())
        if re.search(r"(?<![<>=!])=(?!=)", text):
            hint += "; write the right-hand side alone, by its state, as {'c': '-k*c'}"
        elif re.search(r"[\w)]\s+[\w(]|\d[^\W\d_]", text) and not words:
            hint += "; products need *, as in 2*k*c"
        said = "" if hint else f" ({error})"
        raise ValueError(f"{caller}: expected an expression, got {text[:60]!r}{said}{hint}.") from error
    return _Builder(text, dict(symbols or {}), caller).build(tree.body, 0)


def names_in(text: str) -> set[str]:
    """Names in an expression that `parse` takes, without those of functions."""
    nodes = list(ast.walk(ast.parse(text.strip().replace("^", "**"), mode="eval")))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    return {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in called}


def _odd_names(text: str, names: Iterable[str]) -> str:
    """What to do about names in a text that no expression can hold."""
    odd = [repr(name) for name in names if name in text and not name.isidentifier()]
    return (
        f"; {', '.join(odd)} cannot stand in expressions: write x0 for the first state, and so on"
        if odd
        else ""
    )


def warn_of_both_ways(caller: str, used: Set[str], names: Sequence[str]) -> None:
    """Say that x0 is the first of the named states, where a parameter may be meant.

    Warns
    -----
    DataWarning
        Where expressions hold names and places.
    """
    places = {  # a name that no expression can hold leaves the place alone
        f"x{k}": name
        for k, name in enumerate(names)
        if f"x{k}" in used and f"x{k}" not in names and name.isidentifier()
    }
    if places and set(names) & used:
        listed = ", ".join(f"{place} as {name}" for place, name in places.items())
        warn(
            f"{caller}: took {listed}, by place beside names; write the names, or rename the parameters.",
            DataWarning,
        )


class _Builder:
    def __init__(self, text: str, symbols: "dict[str, Expr]", caller: str):
        import sympy

        self.text, self.symbols, self.caller = text, symbols, caller
        self.functions = {name: getattr(sympy, name) for name in FUNCTIONS if name != "abs"}
        self.functions["abs"] = sympy.Abs
        self.sympy = sympy
        # Python reads the micro sign as the Greek letter; names stay as they were written
        words = re.findall(r"[^\W\d]\w*", text)
        self.written = {unicodedata.normalize("NFKC", word): word for word in words}

    def refuse(self, what: str) -> NoReturn:
        raise ValueError(
            f"{self.caller}: expected numbers, names, + - * / ** and {', '.join((*FUNCTIONS, *_SEVERAL))} in "
            f"{self.text[:60]!r}, got {what}{_odd_names(self.text, self.symbols)}."
        )

    def build(self, node: ast.expr, depth: int) -> "Expr":
        if depth > _DEEPEST:
            self.refuse(f"more than {_DEEPEST} levels")
        if isinstance(node, ast.Constant):
            return self.number(node.value)
        if isinstance(node, ast.Name):
            return self.name(node.id)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
            operand = self.build(node.operand, depth + 1)
            return -operand if isinstance(node.op, ast.USub) else operand
        if isinstance(node, ast.BinOp):
            return self.operation(node, depth)
        if isinstance(node, ast.Call):
            return self.call(node, depth)
        if isinstance(node, ast.IfExp):
            return self.choice([(node.body, node.test)], node.orelse, depth)
        return self.refuse(type(node).__name__)

    def number(self, value: object) -> "Expr":
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            self.refuse(f"the constant {value!r}")
        return self.sympy.Integer(value) if isinstance(value, int) else self.sympy.Float(value)

    def name(self, name: str) -> "Expr":
        name = self.written.get(name, name)
        if name in self.symbols:
            return self.symbols[name]
        return self.sympy.pi if name == "pi" else self.sympy.Symbol(name, real=True)

    def operation(self, node: ast.BinOp, depth: int) -> "Expr":
        left, right = self.build(node.left, depth + 1), self.build(node.right, depth + 1)
        if isinstance(node.op, ast.Pow):
            result = self.power(left, right)
        elif type(node.op) in _OPERATORS:
            result = _OPERATORS[type(node.op)](left, right)
        else:
            self.refuse(f"the operator {type(node.op).__name__}")
        return self.finite(result)

    def power(self, base: "Expr", exponent: "Expr") -> "Expr":
        # numbers are raised in floating point: towers of exact powers would not end
        if base.is_number and exponent.is_number and not (exponent.is_Integer and abs(exponent) <= 8):
            try:
                return self.sympy.Float(float(base) ** float(exponent))
            except (OverflowError, ZeroDivisionError, TypeError):
                self.refuse(f"the power {base} ** {exponent}")
        return base**exponent

    def finite(self, value: "Expr") -> "Expr":
        if value.is_number and not (value.is_finite and value.is_real and abs(value) < 1e300):
            self.refuse("a number that is not finite")
        what = _refused_part(value)
        if what is not None:
            self.refuse(what)
        return value

    def call(self, node: ast.Call, depth: int) -> "Expr":
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        name = _WRITTEN.get(name, name)
        if name == "Piecewise" and not node.keywords:
            return self.piecewise(node, depth)
        if name in _BASES and len(node.args) == 1 and not node.keywords:
            natural = self.sympy.log(self.build(node.args[0], depth + 1))
            return self.finite(natural / self.sympy.log(_BASES[name]))
        several = name in ("min", "max") and len(node.args) > 1
        function = getattr(self.sympy, name.title()) if several else self.functions.get(name)
        if function is None or (len(node.args) != 1 and not several) or node.keywords:
            self.refuse(f"the call {ast.unparse(node)[:40]}")
        return self.finite(function(*(self.build(argument, depth + 1) for argument in node.args)))

    def piecewise(self, node: ast.Call, depth: int) -> "Expr":
        pairs = [
            (own.elts[0], own.elts[1])
            for own in node.args
            if isinstance(own, ast.Tuple) and len(own.elts) == 2
        ]
        last = pairs[-1][1] if pairs else None
        if len(pairs) < len(node.args) or not (isinstance(last, ast.Constant) and last.value is True):
            self.refuse(
                f"{ast.unparse(node)[:40]}, expected as Piecewise((value, condition), ..., (value, True))"
            )
        return self.choice(pairs[:-1], pairs[-1][0], depth)

    def choice(self, pairs: list[tuple[ast.expr, ast.expr]], otherwise: ast.expr, depth: int) -> "Expr":
        built = [(self.build(value, depth + 1), self.condition(test, depth + 1)) for value, test in pairs]
        return self.sympy.Piecewise(*built, (self.build(otherwise, depth + 1), True))

    def condition(self, node: ast.expr, depth: int) -> "Boolean":
        if depth > _DEEPEST:
            self.refuse(f"more than {_DEEPEST} levels")
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return self.sympy.true if node.value else self.sympy.false
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert):
            return self.sympy.Not(self.condition(node.operand, depth + 1))
        if isinstance(node, ast.BoolOp):
            join = self.sympy.And if isinstance(node.op, ast.And) else self.sympy.Or
            return join(*(self.condition(part, depth + 1) for part in node.values))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
            join = self.sympy.And if isinstance(node.op, ast.BitAnd) else self.sympy.Or
            return join(self.condition(node.left, depth + 1), self.condition(node.right, depth + 1))
        if isinstance(node, ast.Compare) and all(type(own) in _COMPARISONS for own in node.ops):
            parts = [self.build(part, depth + 1) for part in (node.left, *node.comparators)]
            compared = zip(node.ops, pairwise(parts), strict=True)
            return self.sympy.And(
                *(getattr(self.sympy, _COMPARISONS[type(own)])(a, b) for own, (a, b) in compared)
            )
        return self.refuse(f"the condition {ast.unparse(node)[:40]}, expected one of <, <=, > and >=")


def _refused_part(value: "Expr") -> str | None:
    """What may not be in an expression, looking at it and the parts it was just made of."""
    import sympy

    for part in (value, *(value.args if value.is_Mul or value.is_Pow else ())):
        if part in (sympy.zoo, sympy.nan, sympy.oo, -sympy.oo):
            return "a division by zero"
        if part == sympy.I:
            return "a number that is not real"
        if part.is_Pow and part.exp.is_number and abs(part.exp) > _HIGHEST:
            return f"the exponent {part.exp}, which is above {_HIGHEST:g}"
    return None


def check_expression(expression: "Expr") -> None:
    """Hold a sympy expression to what `parse` can build.

    Raises
    ------
    ValueError
        Naming a part that cannot be evaluated.
    """
    import sympy
    from sympy.functions.elementary.piecewise import ExprCondPair
    from sympy.logic.boolalg import BooleanAtom

    allowed = {getattr(sympy, name) for name in FUNCTIONS if name not in ("abs", "sqrt")}
    allowed |= {sympy.Abs, sympy.Add, sympy.Mul, sympy.Pow, sympy.Symbol, sympy.Dummy}
    allowed |= {sympy.Min, sympy.Max, sympy.Piecewise}
    for node in sympy.preorder_traversal(expression):
        if isinstance(
            node, ExprCondPair | sympy.StrictLessThan | sympy.LessThan | sympy.And | sympy.Or | sympy.Not
        ):
            continue  # a choice and its conditions
        if isinstance(node, sympy.StrictGreaterThan | sympy.GreaterThan | BooleanAtom):
            continue
        number = node.is_number and node.is_real and node.is_finite and not node.args
        what = None if number or node.func in allowed else f"{node} of type {type(node).__name__}"
        what = what or _refused_part(node)
        if what is not None:
            names = ", ".join((*FUNCTIONS, *_SEVERAL))
            raise ValueError(f"SymbolicField: expected sums, products, powers and {names}, got {what}.")


@lru_cache(maxsize=512)
def compiled(expressions: "tuple[Expr, ...]", symbols: "tuple[Symbol, ...]") -> Callable[..., np.ndarray]:
    """A numpy function of columns that returns the values of the expressions.

    Parameters
    ----------
    expressions : tuple of sympy.Expr
        What to evaluate.
    symbols : tuple of sympy.Symbol
        Arguments, in order.

    Returns
    -------
    callable
        ``f(*columns) -> array (len(expressions), n)`` for arguments (n,) or numbers, at least one of them an
        array; NaN or infinite outside the domain.
    """
    import sympy

    # names of one's own: a symbol may bear any text
    arguments = [sympy.Symbol(f"a{i}") for i in range(len(symbols))]
    renamed = [e.xreplace(dict(zip(symbols, arguments, strict=True))) for e in expressions]
    function = sympy.lambdify(arguments, renamed, modules="numpy", cse=True)
    chooses = any(e.has(sympy.Piecewise, sympy.Heaviside) for e in renamed)  # by conditions of one length

    def evaluate(*columns: np.ndarray) -> np.ndarray:
        n = max(np.size(column) for column in columns)
        if chooses:
            columns = tuple(np.broadcast_to(column, (n,)) for column in columns)
        out = np.empty((len(renamed), n))
        with np.errstate(all="ignore"):
            for i, value in enumerate(function(*columns)):
                out[i] = value
        return out

    return evaluate


def slope(expression: "Expr", symbol: "Symbol") -> "Expr":
    """Derivative of an expression, that of a sign taken as 0.

    Raises
    ------
    ValueError
        If the derivative would be too large; see `is_derivable`.
    """
    import sympy

    if not is_derivable(expression):
        raise ValueError(
            f"slope: expected an expression whose derivative has at most {_LARGEST} parts, got "
            f"{str(expression)[:60]!r}...; write it with fewer factors and levels."
        )
    return sympy.diff(expression, symbol).replace(sympy.DiracDelta, lambda *_: sympy.Integer(0))


def is_derivable(expression: "Expr") -> bool:
    """Whether a derivative, as the rules of sums, products and chains write it down, is not too large."""
    return _sizes(expression)[1] <= _LARGEST


def expanded_size(expression: "Expr") -> int:
    """At most how many terms a sum in an expression has once products and powers are multiplied out."""
    sizes = [expanded_size(part) for part in expression.args]
    if expression.is_Add:
        return sum(sizes)
    if expression.is_Pow and expression.exp.is_Integer:
        power = abs(int(expression.exp))
        return math.comb(sizes[0] + power - 1, power)
    return math.prod(sizes)


def _sizes(expression: "Expr") -> tuple[int, int]:
    """Parts of an expression, and of its derivative."""
    if not expression.args:
        return 1, 0 if expression.is_number else 1
    sizes = [_sizes(part) for part in expression.args]
    size = 1 + sum(size_of_part for size_of_part, _ in sizes)
    if expression.is_Add:
        return size, 1 + sum(derived for _, derived in sizes)
    # each factor is derived once, beside all the others; the rules of powers and chains are alike
    return size, sum(derived + size for _, derived in sizes if derived)
