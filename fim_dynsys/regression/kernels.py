"""Compiled loops over samples: dictionary fields integrated with their sensitivities, and condensed.

Every function here is a loop that numpy cannot batch, because each sample needs the one before. They take and
return plain arrays, whose shapes their callers check. Compiled code is kept on disk by numba; arrays are
filled by loops, because a slice assignment takes a second or two to compile.
"""

import numba
import numpy as np

_compiled = numba.njit(cache=True, nogil=True, error_model="numpy")
_inlined = numba.njit(inline="always", error_model="numpy")


@_compiled
def _function(kind, u, shape):
    """``g(u)``, ``g'(u)`` and its derivative by the shape, of a `fim_dynsys.regression.functions.Kind`."""
    if kind == 1:
        return np.sin(u), np.cos(u), 0.0
    if kind == 2:
        return np.cos(u), -np.sin(u), 0.0
    if kind == 3:
        value = np.exp(u)
        return value, value, 0.0
    if kind == 4:
        below = 1.0 / (1.0 + u)
        return u * below, below * below, 0.0
    if kind == 5:
        below = 1.0 / (1.0 + u * u)
        return u * u * below, 2.0 * u * below * below, 0.0
    if kind == 6:
        value = np.tanh(u)
        return value, 1.0 - value * value, 0.0
    if kind == 7:
        return (np.log(u) if u >= 0.0 else np.nan), 1.0 / u, 0.0
    if kind == 8:
        value = u**shape
        by_shape = value * np.log(u) if u > 0.0 else (0.0 if u == 0.0 else np.nan)
        return value, (shape * u ** (shape - 1.0) if shape != 0.0 else 0.0), by_shape
    if kind == 9 or kind == 10:
        size = abs(u)
        power = size**shape
        below = 1.0 / (1.0 + power)
        curve = power * below * below if power < 1e150 else 0.0
        slope = shape * curve / u if u != 0.0 else (1.0 if shape == 1.0 else 0.0)
        by_shape = curve * np.log(size) if size > 0.0 else 0.0
        if kind == 9:
            return 1.0 - below, slope, by_shape
        return below, -slope, -by_shape
    if kind == 11:
        below = 1.0 / (1.0 + u + shape * u * u)
        return below, -(1.0 + 2.0 * shape * u) * below * below, -u * u * below * below
    if kind == 12:
        below = 1.0 / (1.0 + u)
        return below, -below * below, 0.0
    if kind == 13:
        below = 1.0 / (1.0 + u)
        return below * below, -2.0 * below * below * below, 0.0
    return 1.0, 0.0, 0.0


@_inlined
def _has_shape(kind):
    return kind >= 8 and kind <= 11


@_inlined
def _argument(x, kind, coordinate, inner, second, partner):
    """``u`` of a term at one point."""
    u = inner * x[coordinate]
    if not _has_shape(kind):
        u += second * (x[partner] if partner >= 0 else 1.0)
    return u


@_inlined
def _fill_table(x, parent, factor, table):
    table[0] = 1.0
    for i in range(1, len(parent)):
        table[i] = table[parent[i]] * x[factor[i]]


@_inlined
def _values(x, terms, used, table, out):
    """Values of the terms ``used`` at one point."""
    parent, factor, _, index, _, kind, coordinate, inner, second, partner = terms
    _fill_table(x, parent, factor, table)
    for u in range(len(used)):
        i = used[u]
        value = table[index[i]]
        if kind[i]:
            u = _argument(x, kind[i], coordinate[i], inner[i], second[i], partner[i])
            value *= _function(kind[i], u, second[i])[0]
        out[i] = value


@_inlined
def _values_and_gradients(x, terms, used, table, out, gradient):
    """Values (m,) and gradients (m, d) of the terms ``used`` at one point."""
    parent, factor, lowered, index, exponents, kind, coordinate, inner, second, partner = terms
    _fill_table(x, parent, factor, table)
    for u in range(len(used)):
        i = used[u]
        row = index[i]
        out[i] = table[row]
        for j in range(len(x)):
            power = exponents[i, j]
            gradient[i, j] = power * table[lowered[row, j]] if power else 0.0
        if kind[i]:
            u = _argument(x, kind[i], coordinate[i], inner[i], second[i], partner[i])
            g, slope, _ = _function(kind[i], u, second[i])
            for j in range(len(x)):
                gradient[i, j] *= g
            gradient[i, coordinate[i]] += table[row] * inner[i] * slope
            if partner[i] >= 0 and not _has_shape(kind[i]):
                gradient[i, partner[i]] += table[row] * second[i] * slope
            out[i] *= g


@_inlined
def _slope(x, terms, used, row, column, p, table, values, out):
    _values(x, terms, used, table, values)
    for i in range(len(out)):
        out[i] = 0.0
    for k in range(len(p)):
        out[column[k]] += p[k] * values[row[k]]


@_inlined
def _step(x, h, terms, used, row, column, p, table, values, work):
    """One classical Runge-Kutta step of ``x`` in place."""
    k, total, z = work[0], work[1], work[2]
    for i in range(len(x)):
        z[i] = x[i]
    for stage in range(4):
        _slope(z, terms, used, row, column, p, table, values, k)
        weight = 1.0 if stage == 0 or stage == 3 else 2.0
        reach = h if stage == 2 else 0.5 * h
        for i in range(len(x)):
            total[i] = (total[i] if stage else 0.0) + weight * k[i]
            z[i] = x[i] + reach * k[i]
    for i in range(len(x)):
        x[i] += h / 6.0 * total[i]


@_compiled
def rollouts(terms, coefficients, x0, t, counts, bound):
    """Paths (K, T, n, d) of fields (K, m, d) from starts (K, T, d) at times (T, n), ``counts`` steps each."""
    n_fields, m, d = coefficients.shape
    n_trajectories, n = t.shape
    out = np.full((n_fields, n_trajectories, n, d), np.nan)
    table, values, work = np.empty(len(terms[0])), np.empty(m), np.empty((3, d))
    row, column, p = np.empty(m * d, np.intp), np.empty(m * d, np.intp), np.empty(m * d)
    used, x = np.empty(m, np.intp), np.empty(d)
    for field in range(n_fields):
        active, n_used = 0, 0
        for i in range(m):
            before = active
            for j in range(d):
                if coefficients[field, i, j] != 0.0:
                    row[active], column[active], p[active] = i, j, coefficients[field, i, j]
                    active += 1
            if active > before:
                used[n_used] = i
                n_used += 1
        inside = True
        for trajectory in range(n_trajectories):
            if not inside:
                break
            for i in range(d):
                x[i] = x0[field, trajectory, i]
            for i in range(d):
                out[field, trajectory, 0, i] = x[i]
            for sample in range(n - 1):
                count = counts[trajectory, sample]
                h = (t[trajectory, sample + 1] - t[trajectory, sample]) / count
                if h > 0.0:
                    for _ in range(count):
                        _step(
                            x,
                            h,
                            terms,
                            used[:n_used],
                            row[:active],
                            column[:active],
                            p[:active],
                            table,
                            values,
                            work,
                        )
                for i in range(d):
                    inside = inside and abs(x[i]) <= bound
                if not inside:
                    break
                for i in range(d):
                    out[field, trajectory, sample + 1, i] = x[i]
    return out


@_inlined
def _tangent_slope(x, tangent, terms, used, row, column, p, free, buffers, slope, tangent_slope):
    """Right-hand side and its derivative along the columns of ``tangent`` (d, d + q).

    The parameters after the coefficients ``p`` are numbers inside functions: each row of ``free`` names a
    term, 0 for its inner factor or 1 for its second number, and which of these parameters it is; terms may
    share one.
    """
    table, values, gradient, jacobian = buffers
    d, width = tangent.shape
    _values_and_gradients(x, terms, used, table, values, gradient)
    for i in range(d):
        slope[i] = 0.0
        for j in range(d):
            jacobian[i, j] = 0.0
    for k in range(len(p)):
        slope[column[k]] += p[k] * values[row[k]]
        for j in range(d):
            jacobian[column[k], j] += p[k] * gradient[row[k], j]
    for i in range(d):
        for c in range(width):
            tangent_slope[i, c] = 0.0
        for j in range(d):
            factor = jacobian[i, j]
            if factor != 0.0:
                for c in range(width):
                    tangent_slope[i, c] += factor * tangent[j, c]
    for k in range(len(p)):
        tangent_slope[column[k], d + k] += values[row[k]]
    for f in range(len(free)):
        i = free[f, 0]
        kind, at, partner = terms[5][i], terms[6][i], terms[9][i]
        u = _argument(x, kind, at, terms[7][i], terms[8][i], partner)
        _, slope_of_g, by_shape = _function(kind, u, terms[8][i])
        if free[f, 1] == 0:
            by_number = slope_of_g * x[at]
        elif _has_shape(kind):
            by_number = by_shape
        else:
            by_number = slope_of_g * (x[partner] if partner >= 0 else 1.0)
        by_number *= table[terms[3][i]]
        for k in range(len(p)):
            if row[k] == i:
                tangent_slope[column[k], d + len(p) + free[f, 2]] += p[k] * by_number


@_inlined
def _distinct(row, m):
    """The terms that occur in ``row``, in order; numpy's `unique` would take seconds to compile."""
    count = np.zeros(m, np.intp)
    for k in range(len(row)):
        count[row[k]] += 1
    used, n = np.empty(m, np.intp), 0
    for i in range(m):
        if count[i]:
            used[n] = i
            n += 1
    return used[:n]


@_compiled
def interval_maps(terms, row, column, p, free, nodes, steps, counts):
    """Ends of all intervals (N, d) and their derivatives (N, d, d + q) by start and parameters."""
    n, d = len(nodes) - 1, nodes.shape[1]
    width = d + len(p) + (free[:, 2].max() + 1 if len(free) else 0)
    ends, tangents = np.empty((n, d)), np.zeros((n, d, width))
    m, used = len(terms[3]), _distinct(row, len(terms[3]))
    buffers = (np.empty(len(terms[0])), np.empty(m), np.empty((m, d)), np.empty((d, d)))
    k, total, z = np.empty(d), np.empty(d), np.empty(d)
    dk, dtotal, dz = np.empty((d, width)), np.empty((d, width)), np.empty((d, width))
    for interval in range(n):
        x, dx, h = ends[interval], tangents[interval], steps[interval]
        for i in range(d):
            x[i] = nodes[interval, i]
            dx[i, i] = 1.0
        for _ in range(counts[interval]):
            for i in range(d):
                z[i] = x[i]
                for c in range(width):
                    dz[i, c] = dx[i, c]
            for stage in range(4):
                _tangent_slope(z, dz, terms, used, row, column, p, free, buffers, k, dk)
                weight = 1.0 if stage == 0 or stage == 3 else 2.0
                reach = h if stage == 2 else 0.5 * h
                for i in range(d):
                    total[i] = (total[i] if stage else 0.0) + weight * k[i]
                    z[i] = x[i] + reach * k[i]
                    for c in range(width):
                        dtotal[i, c] = (dtotal[i, c] if stage else 0.0) + weight * dk[i, c]
                        dz[i, c] = dx[i, c] + reach * dk[i, c]
            for i in range(d):
                x[i] += h / 6.0 * total[i]
                for c in range(width):
                    dx[i, c] += h / 6.0 * dtotal[i, c]
    return ends, tangents


@_compiled
def condense(tangents, gaps, residuals, weights, bounds):
    """Chain interval maps from each segment's start and form the normal equations of its residuals.

    Parameters
    ----------
    tangents : array (n - 1, d, d + q)
        Derivatives of each interval's end by its start and by the parameters.
    gaps : array (n - 1, d)
        Interval ends minus the nodes there.
    residuals, weights : arrays (n, d)
        Observed minus nodes, and inverse variances.
    bounds : int array (S + 1,)
        First node of each segment, and n.

    Returns
    -------
    sensitivities : array (n, d, d + q + 1)
        Of each node to its segment's start, to the parameters and to the closing of gaps.
    normal : array (S, d + q, d + q)
    moment : array (S, d + q)
    """
    n, d = residuals.shape
    size = tangents.shape[2]
    z = np.zeros((n, d, size + 1))
    normal, moment = np.zeros((len(bounds) - 1, size, size)), np.zeros((len(bounds) - 1, size))
    for segment in range(len(bounds) - 1):
        for node in range(bounds[segment], bounds[segment + 1]):
            here = z[node]
            if node == bounds[segment]:
                for i in range(d):
                    here[i, i] = 1.0
            else:
                before, tangent = z[node - 1], tangents[node - 1]
                for i in range(d):
                    for c in range(d, size):
                        here[i, c] = tangent[i, c]
                    here[i, size] = gaps[node - 1, i]
                    for j in range(d):
                        factor = tangent[i, j]
                        for c in range(size + 1):
                            here[i, c] += factor * before[j, c]
            for i in range(d):
                weight = weights[node, i]
                if weight > 0.0:
                    target = residuals[node, i] - here[i, size]
                    for a in range(size):
                        weighted = weight * here[i, a]
                        if weighted != 0.0:
                            moment[segment, a] += weighted * target
                            for b in range(a + 1):
                                normal[segment, a, b] += weighted * here[i, b]
        for a in range(size):
            for b in range(a):
                normal[segment, b, a] = normal[segment, a, b]
    return z, normal, moment


@_compiled
def _solve_spd(matrix, right):
    """Solve ``matrix @ x = right`` (m, k) in place by Cholesky on a unit diagonal plus 1e-13.

    What that addition does not make positive are directions the data do not determine: they stay at rest.
    """
    m, k = right.shape
    scale = np.empty(m)
    for i in range(m):
        scale[i] = 1.0 / np.sqrt(matrix[i, i]) if matrix[i, i] > 0.0 else 1.0
    lower = np.zeros((m, m))
    for i in range(m):
        for j in range(i + 1):
            value = matrix[i, j] * scale[i] * scale[j] + (1e-13 if i == j else 0.0)
            for c in range(j):
                value -= lower[i, c] * lower[j, c]
            if i == j:
                lower[i, i] = np.sqrt(value) if value > 1e-15 else np.inf
            else:
                lower[i, j] = value / lower[j, j]
    for column in range(k):
        for i in range(m):
            value = right[i, column] * scale[i]
            for c in range(i):
                value -= lower[i, c] * right[c, column]
            right[i, column] = value / lower[i, i]
        for i in range(m - 1, -1, -1):
            value = right[i, column]
            for c in range(i + 1, m):
                value -= lower[c, i] * right[c, column]
            right[i, column] = value / lower[i, i]
        for i in range(m):
            right[i, column] *= scale[i]


@_compiled
def eliminate_starts(normal, moment, d, damping):
    """Normal equations of the parameters alone, the segment starts eliminated.

    Parameters
    ----------
    normal, moment : arrays (S, d + q, d + q), (S, d + q)
        From `condense`.
    d : int
        Number of coordinates.
    damping : float
        Added to the starts' diagonals, relative to them.

    Returns
    -------
    total : array (q, q)
    right : array (q,)
    solved : array (S, d, q + 1)
        Starts are ``solved[..., -1] - solved[..., :-1] @ change`` of the parameters.
    """
    count, size = moment.shape
    q = size - d
    total, right = np.zeros((q, q)), np.zeros(q)
    solved = np.empty((count, d, q + 1))
    starts = np.empty((d, d))
    for s in range(count):
        largest = 1e-300
        for i in range(d):
            largest = max(largest, normal[s, i, i])
        for i in range(d):
            for j in range(d):
                starts[i, j] = normal[s, i, j]
            starts[i, i] = normal[s, i, i] * (1.0 + damping) + 1e-12 * largest
            for a in range(q):
                solved[s, i, a] = normal[s, i, d + a]
            solved[s, i, q] = moment[s, i]
        _solve_spd(starts, solved[s])
        for a in range(q):
            right[a] += moment[s, d + a]
            for i in range(d):
                right[a] -= normal[s, d + a, i] * solved[s, i, q]
            for b in range(q):
                total[a, b] += normal[s, d + a, d + b]
                for i in range(d):
                    total[a, b] -= normal[s, d + a, i] * solved[s, i, b]
    return total, right, solved


@_compiled
def damped_step(total, right, solved, size, damping, sensitivities, bounds):
    """Change of the parameters (q,) and of the nodes (n, d) by one damped Gauss-Newton step.

    ``total`` and ``right`` (prior included) and ``solved`` are as `eliminate_starts` gives them; ``damping``
    times ``size`` (q,) is added to the diagonal of ``total``.
    """
    n, d = sensitivities.shape[:2]
    q = len(right)
    change = np.empty((q, 1))
    matrix = total.copy()
    for a in range(q):
        matrix[a, a] += damping * size[a]
        change[a, 0] = right[a]
    _solve_spd(matrix, change)
    nodes = np.empty((n, d))
    start = np.empty(d)
    for s in range(len(bounds) - 1):
        for i in range(d):
            start[i] = solved[s, i, q]
            for a in range(q):
                start[i] -= solved[s, i, a] * change[a, 0]
        for node in range(bounds[s], bounds[s + 1]):
            here = sensitivities[node]
            for i in range(d):
                value = here[i, d + q]
                for j in range(d):
                    value += here[i, j] * start[j]
                for a in range(q):
                    value += here[i, d + a] * change[a, 0]
                nodes[node, i] = value
    return change[:, 0].copy(), nodes


@_compiled
def solve_pentadiagonal(bands, right):
    """Solution (n, k) of a positive definite system of bandwidth two.

    Parameters
    ----------
    bands : array (3, n)
        Second and first superdiagonal, and diagonal, as `scipy.linalg.solveh_banded` takes them.
    right : array (n, k)
        Right-hand sides.

    Raises
    ------
    ValueError
        If the matrix is not positive definite to rounding.
    """
    n, k = right.shape
    diagonal, first, second = np.empty(n), np.zeros(n), np.zeros(n)  # L D L^T, subdiagonals of L
    out = right.copy()
    for i in range(n):
        value = bands[2, i]
        if i > 0:
            off = bands[1, i]
            if i > 1:
                second[i] = bands[0, i] / diagonal[i - 2]
                off -= second[i] * diagonal[i - 2] * first[i - 1]
                value -= second[i] * second[i] * diagonal[i - 2]
            first[i] = off / diagonal[i - 1]
            value -= first[i] * first[i] * diagonal[i - 1]
        if not value > 0.0:
            raise ValueError("solve_pentadiagonal: expected a positive definite matrix.")
        diagonal[i] = value
        for c in range(k):
            if i > 0:
                out[i, c] -= first[i] * out[i - 1, c]
            if i > 1:
                out[i, c] -= second[i] * out[i - 2, c]
    for i in range(n - 1, -1, -1):
        for c in range(k):
            out[i, c] /= diagonal[i]
            if i + 1 < n:
                out[i, c] -= first[i + 1] * out[i + 1, c]
            if i + 2 < n:
                out[i, c] -= second[i + 2] * out[i + 2, c]
    return out
