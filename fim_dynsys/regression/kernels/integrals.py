"""Compiled integrals of terms along given paths."""

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled
from fim_dynsys.regression.kernels.terms import LANES, term_values, terms_in_use


@compiled
def integrals(
    terms: tuple[np.ndarray, ...], path: np.ndarray, steps: np.ndarray, observed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Integrals (n, m) of terms from the start of a path to its samples, by Simpson's rule.

    Parameters
    ----------
    terms : tuple of arrays
        `Dictionary.packed`.
    path : array (d, 2 F + 1)
        States, and inputs behind them, at the ends and middles of steps.
    steps : array (F,)
        Lengths of the steps.
    observed : int array (n,)
        Which ends of steps are samples, the first one 0.

    Returns
    -------
    integrals : array (n, m)
    largest : array (m,)
        Largest sizes of the terms on the path; infinite where one is no number.
    """
    d, m = len(path), len(terms[3])
    in_use = terms_in_use(np.arange(m), terms)
    table, functions = np.empty((len(terms[0]), LANES)), np.empty((1, m, LANES))
    x, values = np.empty((d, LANES)), np.empty((m, LANES))
    out, total, largest = np.zeros((len(observed), m)), np.zeros(m), np.zeros(m)
    sample = 1
    together = (LANES - 1) // 2  # steps whose ends and middles are evaluated together
    for first in range(0, len(steps), together):
        count = min(together, len(steps) - first)
        for i in range(d):
            for r in range(2 * count + 1):
                x[i, r] = path[i, 2 * first + r]
        term_values(x, 2 * count + 1, terms, in_use, table, functions, values)
        for i in range(m):
            for r in range(2 * count + 1):
                if not abs(values[i, r]) <= largest[i]:
                    largest[i] = abs(values[i, r]) if values[i, r] == values[i, r] else np.inf
        for k in range(count):
            sixth = steps[first + k] / 6.0
            for i in range(m):
                total[i] += (values[i, 2 * k] + 4.0 * values[i, 2 * k + 1] + values[i, 2 * k + 2]) * sixth
            if sample < len(observed) and first + k + 1 == observed[sample]:
                out[sample] = total
                sample += 1
    return out, largest


@compiled
def without_starts(
    values: np.ndarray, root: np.ndarray, heads: np.ndarray, squares: np.ndarray
) -> np.ndarray:
    """Weighted values (n, m), in each segment less what a free start explains.

    Parameters
    ----------
    values : array (n, m)
        Columns of a regression.
    root : array (n,)
        Roots of the weights.
    heads : int array (s,)
        First sample of each segment.
    squares : array (s,)
        Sums of the weights of each.
    """
    n, m = values.shape
    out, mean = np.empty((n, m)), np.empty(m)
    for s in range(len(heads)):
        end = heads[s + 1] if s + 1 < len(heads) else n
        for i in range(m):
            mean[i] = 0.0
        for k in range(heads[s], end):
            for i in range(m):
                out[k, i] = values[k, i] * root[k]
                mean[i] += out[k, i] * root[k]
        for i in range(m):
            mean[i] /= squares[s]
        for k in range(heads[s], end):
            for i in range(m):
                out[k, i] -= root[k] * mean[i]
    return out
