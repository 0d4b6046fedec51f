"""Normal equations of three forms of one regression along a smoothed path, compiled.

The forms are: derivative, ``v = C(x) c``; integral over the whole trajectory with a free start,
``x(t) = x0 + (integral of C) c``; and integral over segments, each with a free start. Integrals take the
trapezoid with the Hermite end correction, of fourth order in the step.
"""

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled

_SMALLEST_POWER = 1e-12
_RIDGE = 1e-7  # of the fit whose residuals are measured, relative to the mean diagonal


@compiled
def _columns(path, velocity, parent, factor, functions, function_rates):
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
def _integrals(t, columns, rates, first):
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
def _equations(left, right, weight, bounds, scaled, gram, moment):
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
def _normal_forms(t, x, path, velocity, weights, functions, function_rates, first, bounds, parent, factor):
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


def normal_forms(dictionary, t, x, path, velocity, weights, counts, segments):
    """Normal equations of the three forms, each over its residual variance.

    Parameters
    ----------
    dictionary : Dictionary
        Monomials, closed under division, and after them any terms with functions.
    t : array (n,)
        Times of all trajectories behind one another.
    x : array (n, d)
        Samples: targets of the integral forms.
    path, velocity : arrays (n, d)
        Smoothed states, along which the columns are evaluated, and slopes: targets of the derivative form.
    weights : array (n, d)
        Of the rows.
    counts : sequence of int
        Samples of each trajectory.
    segments : int
        Free starts of each trajectory in the third form.

    Returns
    -------
    power : array (m,)
        Root mean square of each column on the path: the unit of the coefficients.
    grams, moments : arrays (d, 3, m, m), (d, 3, m)
        Over the residual variance of a lightly regularised fit, floored at 1e-9 of the targets' squares.
    """
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
    starts = [f - (-np.arange(segments) * c // segments) for f, c in zip(first, counts, strict=False)]
    bounds = np.concatenate([*starts, first[-1:]]).astype(np.intp)
    parent, factor = dictionary.packed[:2]
    functions = _functions(dictionary, path, velocity)
    arrays = (np.ascontiguousarray(a, dtype=np.float64) for a in (t, x, path, velocity, weights, *functions))
    power, grams, moments, totals = _normal_forms(*arrays, first, bounds, parent, factor)
    m = len(power)
    ridge = _RIDGE * (np.trace(grams, axis1=2, axis2=3)[..., None, None] / m + 1e-30) * np.eye(m)
    solution = np.linalg.solve(grams + ridge, moments[..., None])[..., 0]
    fitted = (grams @ solution[..., None])[..., 0]
    residual = totals + np.sum(solution * (fitted - 2 * moments), axis=-1)
    freedom = np.maximum(len(x) - len(counts) * np.array([0, 1, segments]) - m, 4.0)
    variance = (np.maximum(residual, 0.0) + 1e-9 * totals + 1e-30) / freedom
    return power, grams / variance[..., None, None], moments / variance[..., None]


def _functions(dictionary, path, velocity):
    """Terms with functions (n, p) along a path, and their rates."""
    if dictionary.is_polynomial:
        none = np.empty((len(path), 0))
        return none, none
    special = dictionary.subset(np.flatnonzero(dictionary.kind))
    return special.evaluate(path), (special.gradient(path) * velocity[:, None]).sum(2)
