"""pysindy at the best of MDBench's grid of settings."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
import pysindy
import sympy

from benchmarks.harness.rows import View
from benchmarks.mdbench.scores import complexity, fitness, nmse
from fim_dynsys.fields.symbolic import SymbolicField

THRESHOLDS = np.logspace(-7, 0, 16)
RIDGES = (1e-5, 1e-4)
DEGREES = (1, 2, 3, 4)
ITERATIONS = 200
HELD_OUT = 0.2


@dataclass(frozen=True)
class SindyGridRow:
    """Sequential thresholding of second-order differences; the last fifth of the samples chooses.

    Powers of single states up to degree 1 to 4, with their sines and cosines or without, and a constant;
    no ensembles. The setting with the largest `fitness` is fitted to all samples.
    """

    name: str = "sindy, best of its grid"
    version: str = "1"
    sees_truth: ClassVar[bool] = False

    def infer(self, view: View) -> SymbolicField:
        """Return the field of the best setting."""
        ((t, x),) = view.context.arrays()
        symbols = [sympy.Symbol(f"x{i}", real=True) for i in range(x.shape[1])]
        slopes = np.asarray(pysindy.FiniteDifference(order=2)(x, t))
        first = len(x) - round(HELD_OUT * len(x))
        tried = []
        for terms in libraries(symbols):
            columns = np.column_stack([_column(term, symbols, x) for term in terms])
            for threshold, ridge in product(THRESHOLDS, RIDGES):
                found = thresholded(columns[:first], slopes[:first], threshold, ridge)
                off = nmse(slopes[first:], columns[first:] @ found)
                value = fitness(off, complexity(_sums(terms, found)))
                tried.append((value, terms, columns, threshold, ridge))
        _, terms, columns, threshold, ridge = max(tried, key=lambda each: each[0])
        return SymbolicField(_sums(terms, thresholded(columns, slopes, threshold, ridge)))


def libraries(symbols: list[sympy.Symbol]) -> Iterator[list[sympy.Expr]]:
    """Yield the terms of each library."""
    for degree, periodic in product(DEGREES, (False, True)):
        powers = [s**k for k in range(1, degree + 1) for s in symbols]
        waves = [wave(s) for wave in (sympy.sin, sympy.cos) for s in symbols] if periodic else []
        yield [sympy.Integer(1), *powers, *waves]


def thresholded(columns: np.ndarray, slopes: np.ndarray, threshold: float, ridge: float) -> np.ndarray:
    """Return pysindy's coefficients (m, d) of columns (n, m)."""
    optimizer = pysindy.STLSQ(threshold=threshold, alpha=ridge, max_iter=ITERATIONS)
    return np.asarray(optimizer.fit(columns, slopes).coef_).T


def _column(term: sympy.Expr, symbols: list[sympy.Symbol], x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(sympy.lambdify(symbols, term, "numpy")(*x.T), len(x))


def _sums(terms: list[sympy.Expr], coefficients: np.ndarray) -> list[sympy.Expr]:
    return [
        sympy.Add(*(sympy.Float(float(c)) * term for c, term in zip(column, terms, strict=True) if c))
        for column in coefficients.T
    ]
