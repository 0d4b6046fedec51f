"""Compiled normal equations of three forms of one regression, see `fim_dynsys.regression.forms`."""

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled

_SMALLEST_POWER = 1e-12  # root mean square, scaled, that columns are divided by: a column of zeros stays one


@compiled
def _columns(
    path: np.ndarray,
    velocity: np.ndarray,
    parent: np.ndarray,
    factor: np.ndarray,
    functions: np.ndarray,
    function_rates: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns (n, m) and their rates along the path over their root mean square, which comes third.

    Monomials by their parents and factors, then ``functions`` (n, p) with their rates as they are given.
    """
    n, count = len(path), len(parent)
    m = count + functions.shape[1]
    columns, rates, power = np.ones((n, m)), np.zeros((n, m)), np.zeros(m)
    for i in range(n):
        for k in range(1, count):
            low, j = parent[k], factor[k]
            columns[i, k] = columns[i, low] * path[i, j]
            rates[i, k] = rates[i, low] * path[i, j] + columns[i, low] * velocity[i, j]
        for k in range(count, m):
            columns[i, k], rates[i, k] = functions[i, k - count], function_rates[i, k - count]
        for k in range(m):
            power[k] += columns[i, k] ** 2
    for k in range(m):
        power[k] = max(np.sqrt(power[k] / n), _SMALLEST_POWER)
    for i in range(n):
        for k in range(m):
            columns[i, k] /= power[k]
            rates[i, k] /= power[k]
    return columns, rates, power


@compiled
def _integrals(t: np.ndarray, columns: np.ndarray, rates: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Integrals (n, m) of the columns from the start of each trajectory, which are ``first`` (K + 1,)."""
    n, m = columns.shape
    out = np.zeros((n, m))
    for trajectory in range(len(first) - 1):
        for i in range(first[trajectory] + 1, first[trajectory + 1]):
            step = t[i] - t[i - 1]
            for k in range(m):
                piece = 0.5 * step * (columns[i - 1, k] + columns[i, k])
                piece += step * step / 12.0 * (rates[i - 1, k] - rates[i, k])
                out[i, k] = out[i - 1, k] + piece
    return out


@compiled
def _equations(
    left: np.ndarray,
    right: np.ndarray,
    weight: np.ndarray,
    bounds: np.ndarray,
    scaled: np.ndarray,
    gram: np.ndarray,
    moment: np.ndarray,
) -> float:
    """Weighted normal equations of ``left @ c = right`` less its mean between ``bounds``; the total squares.

    Without bounds nothing is subtracted. ``scaled`` (n, m) is room to work in.
    """
    n, m = left.shape
    total, mean = 0.0, np.zeros(m)
    target = np.empty(n)
    pieces = max(len(bounds) - 1, 1)
    for piece in range(pieces):
        start, stop = (bounds[piece], bounds[piece + 1]) if len(bounds) else (0, n)
        level = 0.0
        for k in range(m):
            mean[k] = 0.0
        if len(bounds):
            mass = 1e-30
            for i in range(start, stop):
                mass += weight[i]
                level += weight[i] * right[i]
                for k in range(m):
                    mean[k] += weight[i] * left[i, k]
            level /= mass
            for k in range(m):
                mean[k] /= mass
        for i in range(start, stop):
            root = np.sqrt(weight[i])
            target[i] = root * (right[i] - level)
            total += target[i] ** 2
            for k in range(m):
                scaled[i, k] = root * (left[i, k] - mean[k])
    product, loads = scaled.T @ scaled, scaled.T @ target
    for k in range(m):  # slice assignments would take seconds to compile
        moment[k] = loads[k]
        for j in range(m):
            gram[k, j] = product[k, j]
    return total


@compiled
def normal_equations_of_forms(
    first: np.ndarray,
    bounds: np.ndarray,
    parent: np.ndarray,
    factor: np.ndarray,
    t: np.ndarray,
    x: np.ndarray,
    path: np.ndarray,
    velocity: np.ndarray,
    weights: np.ndarray,
    functions: np.ndarray,
    function_rates: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Columns\' sizes, and normal matrices, moments and squares of the targets by coordinate and form."""
    n, d = x.shape
    columns, rates, power = _columns(path, velocity, parent, factor, functions, function_rates)
    m = len(power)
    integrals = _integrals(t, columns, rates, first)
    grams, moments, totals = np.empty((d, 3, m, m)), np.empty((d, 3, m)), np.empty((d, 3))
    scaled, none = np.empty((n, m)), np.empty(0, np.intp)
    for i in range(d):
        weight, slope, state = weights[:, i], velocity[:, i], x[:, i]
        totals[i, 0] = _equations(columns, slope, weight, none, scaled, grams[i, 0], moments[i, 0])
        totals[i, 1] = _equations(integrals, state, weight, first, scaled, grams[i, 1], moments[i, 1])
        totals[i, 2] = _equations(integrals, state, weight, bounds, scaled, grams[i, 2], moments[i, 2])
    return power, grams, moments, totals
