"""MDBench's measures of a found field."""

import math
from collections.abc import Iterable

import numpy as np
import sympy


def nmse(true: np.ndarray, found: np.ndarray) -> float:
    """Return the squared error relative to the squared truth, infinite where something is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        value = float(np.sum((true - found) ** 2) / (np.sum(true**2) + 1e-10))
    return value if math.isfinite(value) else math.inf


def complexity(expressions: Iterable[sympy.Expr]) -> int:
    """Return the number of nodes in the expression trees."""
    return sum(1 for f in expressions for _ in sympy.preorder_traversal(f))


def fitness(error: float, nodes: int) -> float:
    """Return what settings are chosen by: large where error and expressions are small."""
    return 1.0 / (1.0 + error) + math.exp(-nodes / 200.0)
