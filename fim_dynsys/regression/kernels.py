"""Compiled loops over samples: dictionary fields integrated with their sensitivities, and condensed.

Every function here is a loop that numpy cannot batch, because each sample needs the one before. They take and
return plain arrays, whose shapes their callers check. Compiled code is kept on disk by numba; arrays are
filled by loops, because a slice assignment takes a second or two to compile.
"""

import numba
import numpy as np

_LANES = 64  # points taken together: the compiler makes vectors of loops over them
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
def _argument(x, lane, kind, coordinate, inner, second, partner):
    """``u`` of a term at one point."""
    u = inner * x[coordinate, lane]
    if not _has_shape(kind):
        u += second * (x[partner, lane] if partner >= 0 else 1.0)
    return u


@_compiled
def _in_use(row, terms):
    """The terms that occur in ``row``, and the table's rows that they and their derivatives are made of."""
    parent, lowered, index = terms[0], terms[2], terms[3]
    occurs, needed = np.zeros(len(index), np.bool_), np.zeros(len(parent), np.bool_)
    used, rows = np.empty(len(index), np.intp), np.empty(len(parent), np.intp)
    n_used = n_rows = 0
    for k in range(len(row)):
        occurs[row[k]] = True
    for i in range(len(index)):
        if occurs[i]:
            used[n_used] = i
            n_used += 1
            needed[index[i]] = True
            for j in range(lowered.shape[1]):
                needed[lowered[index[i], j]] = True
    for i in range(len(parent) - 1, 0, -1):
        if needed[i]:
            needed[parent[i]] = True
    for i in range(1, len(parent)):
        if needed[i]:
            rows[n_rows] = i
            n_rows += 1
    return used[:n_used], rows[:n_rows]


@_inlined
def _fill_table(x, lanes, parent, factor, rows, table):
    for r in range(lanes):
        table[0, r] = 1.0
    for w in range(len(rows)):
        i = rows[w]
        lower, by = parent[i], factor[i]
        for r in range(lanes):
            table[i, r] = table[lower, r] * x[by, r]


@_inlined
def _values(x, lanes, terms, used, rows, table, out):
    """Values (m, lanes) of the terms ``used`` at the points ``x`` (d, lanes)."""
    parent, factor, _, index, _, kind, coordinate, inner, second, partner = terms
    _fill_table(x, lanes, parent, factor, rows, table)
    for u in range(len(used)):
        i = used[u]
        monomial = index[i]
        for r in range(lanes):
            out[i, r] = table[monomial, r]
        if kind[i]:
            for r in range(lanes):
                u = _argument(x, r, kind[i], coordinate[i], inner[i], second[i], partner[i])
                out[i, r] *= _function(kind[i], u, second[i])[0]


@_inlined
def _tangent_values(x, lanes, terms, used, rows, table, out, gradient):
    """Values (m, lanes) of terms at points (d, lanes), and gradients (m, d, lanes) of functions among them.

    Gradients of monomials are read off the table.
    """
    parent, factor, lowered, index, exponents, kind, coordinate, inner, second, partner = terms
    _fill_table(x, lanes, parent, factor, rows, table)
    for u in range(len(used)):
        i = used[u]
        row = index[i]
        for r in range(lanes):
            out[i, r] = table[row, r]
        if kind[i]:
            for j in range(len(x)):
                power, below = exponents[i, j], lowered[row, j]
                for r in range(lanes):
                    gradient[i, j, r] = power * table[below, r]
            for r in range(lanes):
                u = _argument(x, r, kind[i], coordinate[i], inner[i], second[i], partner[i])
                g, slope, _ = _function(kind[i], u, second[i])
                for j in range(len(x)):
                    gradient[i, j, r] *= g
                gradient[i, coordinate[i], r] += table[row, r] * inner[i] * slope
                if partner[i] >= 0 and not _has_shape(kind[i]):
                    gradient[i, partner[i], r] += table[row, r] * second[i] * slope
                out[i, r] *= g


@_inlined
def _slope(values, lanes, row, column, p, out):
    """Right-hand sides (d, lanes) of coefficients ``p`` (k, lanes); a zero is no term, whatever its value."""
    for i in range(len(out)):
        for r in range(lanes):
            out[i, r] = 0.0
    k = 0
    while k < len(row):
        own = out[column[k]]
        if k + 1 < len(row) and column[k] == column[k + 1]:  # two at a time: less traffic
            one, two = values[row[k]], values[row[k + 1]]
            for r in range(lanes):
                first = p[k, r] * one[r] if p[k, r] != 0.0 else 0.0
                own[r] = own[r] + first + (p[k + 1, r] * two[r] if p[k + 1, r] != 0.0 else 0.0)
            k += 2
        else:
            for r in range(lanes):
                own[r] += p[k, r] * values[row[k], r] if p[k, r] != 0.0 else 0.0
            k += 1


@_inlined
def _next_stage(stage, lanes, x, h, k, total, z):
    """Add a slope ``k`` of the classical Runge-Kutta method to ``total``; where the next one is taken."""
    weight = 1.0 if stage == 0 or stage == 3 else 2.0
    reach = 1.0 if stage == 2 else 0.5
    for i in range(len(x)):
        for r in range(lanes):
            total[i, r] = (total[i, r] if stage else 0.0) + weight * k[i, r]
            z[i, r] = x[i, r] + reach * h[r] * k[i, r]


@_compiled
def rollouts(terms, coefficients, x0, t, counts, bound):
    """Paths (K, T, n, d) of fields (K, m, d) from starts (K, T, d) at times (T, n), ``counts`` steps each."""
    n_fields, m, d = coefficients.shape
    n_trajectories, n = t.shape
    out = np.full((n_fields, n_trajectories, n, d), np.nan)
    table, values = np.empty((len(terms[0]), _LANES)), np.empty((m, _LANES))
    x, z, k, total = (
        np.empty((d, _LANES)),
        np.empty((d, _LANES)),
        np.empty((d, _LANES)),
        np.empty((d, _LANES)),
    )
    row, column, p = np.empty(m * d, np.intp), np.empty(m * d, np.intp), np.zeros((m * d, _LANES))
    h, inside = np.empty(_LANES), np.empty(_LANES, np.bool_)
    for first in range(0, n_fields, _LANES):
        lanes, active = min(_LANES, n_fields - first), 0
        for j in range(d):
            for i in range(m):
                anywhere = False
                for r in range(lanes):
                    p[active, r] = coefficients[first + r, i, j]
                    anywhere = anywhere or p[active, r] != 0.0
                if anywhere:
                    row[active], column[active] = i, j
                    active += 1
        used, rows = _in_use(row[:active], terms)
        for r in range(lanes):
            inside[r] = r < lanes
        for trajectory in range(n_trajectories):
            for i in range(d):
                for r in range(lanes):
                    x[i, r] = x0[first + r, trajectory, i] if inside[r] else 0.0
                    if inside[r]:
                        out[first + r, trajectory, 0, i] = x[i, r]
            left = lanes
            for sample in range(n - 1):
                count = counts[trajectory, sample]
                for r in range(lanes):
                    h[r] = (t[trajectory, sample + 1] - t[trajectory, sample]) / count
                for _ in range(count if h[0] > 0.0 else 0):
                    for i in range(d):
                        for r in range(lanes):
                            z[i, r] = x[i, r]
                    for stage in range(4):
                        _values(z, lanes, terms, used, rows, table, values)
                        _slope(values, lanes, row[:active], column[:active], p, k)
                        _next_stage(stage, lanes, x, h, k, total, z)
                    for i in range(d):
                        for r in range(lanes):
                            x[i, r] += h[r] / 6.0 * total[i, r]
                left = 0
                for r in range(lanes):
                    for i in range(d):
                        inside[r] = inside[r] and abs(x[i, r]) <= bound
                    if inside[r]:
                        left += 1
                        for i in range(d):
                            out[first + r, trajectory, sample + 1, i] = x[i, r]
                if not left:
                    break
            if not left:
                break
    return out


@_inlined
def _forcing(x, lanes, terms, row, column, parameters, free, table, out):
    """Derivatives (d, numbers, lanes) of the right-hand side by the numbers inside functions.

    Each row of ``free`` names a term, 0 for its inner factor or 1 for its second number, and which of these
    parameters it is; terms may share one.
    """
    for i in range(out.shape[0]):
        for f in range(out.shape[1]):
            for r in range(lanes):
                out[i, f, r] = 0.0
    for f in range(len(free)):
        i = free[f, 0]
        kind, at, partner = terms[5][i], terms[6][i], terms[9][i]
        for r in range(lanes):
            u = _argument(x, r, kind, at, terms[7][i], terms[8][i], partner)
            _, slope_of_g, by_shape = _function(kind, u, terms[8][i])
            if free[f, 1] == 0:
                by_number = slope_of_g * x[at, r]
            elif _has_shape(kind):
                by_number = by_shape
            else:
                by_number = slope_of_g * (x[partner, r] if partner >= 0 else 1.0)
            by_number *= table[terms[3][i], r]
            for k in range(len(row)):
                if row[k] == i:
                    out[column[k], free[f, 2], r] += parameters[k] * by_number


@_inlined
def _slope_and_jacobian(lanes, terms, row, column, parameters, values, table, gradient, slope, jacobian):
    """Right-hand sides (d, lanes) of one field at all points, and Jacobians (d, d, lanes)."""
    lowered, index, exponents, kind = terms[2], terms[3], terms[4], terms[5]
    for i in range(len(slope)):
        for r in range(lanes):
            slope[i, r] = 0.0
        for j in range(len(slope)):
            for r in range(lanes):
                jacobian[i, j, r] = 0.0
    for a in range(len(row)):
        term, at, coefficient = row[a], column[a], parameters[a]
        if coefficient != 0.0:  # a zero is no term, whatever its value
            for r in range(lanes):
                slope[at, r] += coefficient * values[term, r]
        for j in range(len(slope)):
            if kind[term]:
                for r in range(lanes):
                    jacobian[at, j, r] += coefficient * gradient[term, j, r]
            elif exponents[term, j]:
                power, below = exponents[term, j], lowered[index[term], j]
                for r in range(lanes):
                    jacobian[at, j, r] += coefficient * (power * table[below, r])


@_inlined
def _add_product(lanes, left, right, out):
    """Add the matrix products ``left @ right`` (d, q, lanes) of all lanes to ``out``.

    The terms of a sum are added in turn, three to a loop: less traffic. Entries are named by their indices:
    a view of a row costs as much as the row's loop.
    """
    d = len(right)
    for i in range(len(out)):
        for j in range(out.shape[1]):
            for c in range(0, d, 3):
                if c + 2 < d:
                    for r in range(lanes):
                        out[i, j, r] = (
                            out[i, j, r]
                            + left[i, c, r] * right[c, j, r]
                            + left[i, c + 1, r] * right[c + 1, j, r]
                            + left[i, c + 2, r] * right[c + 2, j, r]
                        )
                elif c + 1 < d:
                    for r in range(lanes):
                        out[i, j, r] = (
                            out[i, j, r]
                            + left[i, c, r] * right[c, j, r]
                            + left[i, c + 1, r] * right[c + 1, j, r]
                        )
                else:
                    for r in range(lanes):
                        out[i, j, r] += left[i, c, r] * right[c, j, r]


@_inlined
def _step_derivatives(h, sixth, lanes, jacobians, scaled, by_slope, whole):
    """Derivatives of one Runge-Kutta step by the slopes of its stages (4, d, d, lanes) and by its start.

    They are gathered from the last stage back: ``by_slope[s]`` is what the end owes to that stage's
    slope, the stages that follow included.
    """
    d = len(whole)
    for i in range(d):
        for j in range(d):
            for r in range(lanes):
                whole[i, j, r] = 1.0 if i == j else 0.0
    for stage in range(3, -1, -1):
        weight = 1.0 if stage == 0 or stage == 3 else 2.0
        reach = 1.0 if stage == 2 else 0.5
        for i in range(d):
            for j in range(d):
                for r in range(lanes):
                    by_slope[stage, i, j, r] = weight * sixth[r] if i == j else 0.0
                if stage < 3:
                    for r in range(lanes):
                        scaled[i, j, r] = reach * h[r] * by_slope[stage + 1, i, j, r]
        if stage < 3:
            _add_product(lanes, scaled, jacobians[stage + 1], by_slope[stage])
        _add_product(lanes, by_slope[stage], jacobians[stage], whole)


@_inlined
def _carry(lanes, whole, before, by_slope, values, forcing, row, column, after):
    """Derivatives (d, d + q, lanes) of the state after a step, from those before it."""
    d, size = len(whole), len(row)
    for i in range(d):
        for c in range(after.shape[1]):
            for r in range(lanes):
                after[i, c, r] = 0.0
    _add_product(lanes, whole, before, after)
    for i in range(d):
        for a in range(size):
            term, at = row[a], column[a]
            for r in range(lanes):
                after[i, d + a, r] += (
                    by_slope[0, i, at, r] * values[0, term, r]
                    + by_slope[1, i, at, r] * values[1, term, r]
                    + by_slope[2, i, at, r] * values[2, term, r]
                    + by_slope[3, i, at, r] * values[3, term, r]
                )
        for c in range(forcing.shape[2]):
            for stage in range(4):
                for j in range(d):
                    for r in range(lanes):
                        after[i, d + size + c, r] += by_slope[stage, i, j, r] * forcing[stage, j, c, r]


@_compiled
def interval_maps(terms, row, column, parameters, free, nodes, steps, counts):
    """Ends of all intervals (N, d) and their derivatives (N, d, d + q) by start and parameters.

    The parameters are the coefficients ``parameters`` of terms ``row`` in coordinates ``column``, and then
    the numbers inside functions that ``free`` names, see `_forcing`.
    """
    n, d = len(nodes) - 1, nodes.shape[1]
    size, inner = len(row), free[:, 2].max() + 1 if len(free) else 0
    ends, tangents = np.empty((n, d)), np.empty((n, d, d + size + inner))
    m = len(terms[3])
    used, rows = _in_use(row, terms)
    table, values, gradient = (
        np.empty((len(terms[0]), _LANES)),
        np.empty((4, m, _LANES)),
        np.empty((m, d, _LANES)),
    )
    x, z, k, total = (
        np.empty((d, _LANES)),
        np.empty((d, _LANES)),
        np.empty((d, _LANES)),
        np.empty((d, _LANES)),
    )
    jacobians, by_slope = np.empty((4, d, d, _LANES)), np.empty((4, d, d, _LANES))
    forcing, whole = np.empty((4, d, inner, _LANES)), np.empty((d, d, _LANES))
    scaled, carried = np.empty((d, d, _LANES)), np.empty((2, d, d + size + inner, _LANES))
    h, sixth = np.empty(_LANES), np.empty(_LANES)
    for first in range(0, n, _LANES):
        lanes, most = min(_LANES, n - first), 1
        for r in range(lanes):
            interval = first + r
            most = max(most, counts[interval])
            for i in range(d):
                x[i, r] = nodes[interval, i]
        for i in range(d):
            for c in range(d + size + inner):
                for r in range(lanes):
                    carried[0, i, c, r] = 1.0 if i == c else 0.0
        for step in range(most):
            for r in range(lanes):
                interval = first + r
                h[r] = steps[interval] if step < counts[interval] else 0.0
                sixth[r] = h[r] / 6.0
            for i in range(d):
                for r in range(lanes):
                    z[i, r] = x[i, r]
            for stage in range(4):
                own, jacobian = values[stage], jacobians[stage]
                _tangent_values(z, lanes, terms, used, rows, table, own, gradient)
                if inner:
                    _forcing(z, lanes, terms, row, column, parameters, free, table, forcing[stage])
                _slope_and_jacobian(lanes, terms, row, column, parameters, own, table, gradient, k, jacobian)
                _next_stage(stage, lanes, x, h, k, total, z)
            for i in range(d):
                for r in range(lanes):
                    x[i, r] += sixth[r] * total[i, r]
            _step_derivatives(h, sixth, lanes, jacobians, scaled, by_slope, whole)
            before, after = carried[step % 2], carried[(step + 1) % 2]
            _carry(lanes, whole, before, by_slope, values, forcing, row, column, after)
        for r in range(lanes):
            for i in range(d):
                ends[first + r, i] = x[i, r]
                for c in range(d + size + inner):
                    tangents[first + r, i, c] = carried[most % 2, i, c, r]
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
            if node == bounds[segment]:
                for i in range(d):
                    z[node, i, i] = 1.0
            else:
                for i in range(d):
                    for c in range(d, size):
                        z[node, i, c] = tangents[node - 1, i, c]
                    z[node, i, size] = gaps[node - 1, i]
                    for j in range(d):
                        factor = tangents[node - 1, i, j]
                        for c in range(size + 1):
                            z[node, i, c] += factor * z[node - 1, j, c]
            for i in range(d):
                weight = weights[node, i]
                if weight > 0.0:
                    target = residuals[node, i] - z[node, i, size]
                    for a in range(size):
                        weighted = weight * z[node, i, a]
                        if weighted != 0.0:
                            moment[segment, a] += weighted * target
                            for b in range(a + 1):
                                normal[segment, a, b] += weighted * z[node, i, b]
        for a in range(size):
            for b in range(a):
                normal[segment, b, a] = normal[segment, a, b]
    return z, normal, moment


@_compiled
def linearised(maps, nodes, values, weights, segments, pulls):
    """Normal equations of a fit about nodes and interval maps, and the merit that its steps have to lower.

    Parameters
    ----------
    maps : tuple of arrays (n - 1, d), (n - 1, d, d + q)
        Ends and their derivatives, from `interval_maps`.
    nodes, values, weights : arrays (n, d)
        States at the observation times; observations, nan where the weight is 0; inverse variances.
    segments : tuple of int array (S + 1,), int array (T,), array (d,)
        First node of each segment, and n; the segment that each trajectory starts with; weights of gaps.
    pulls : tuple of arrays (T, d), (T, d)
        Precisions and means of the priors of the trajectories' starts.

    Returns
    -------
    merit : float
        Weighted squares of residuals and gaps, without what priors add; ``inf`` where the equations are not
        finite.
    sensitivities, normal, moment : arrays
        As from `condense`, with the priors of the starts.
    """
    (ends, tangents), (bounds, heads, typical), (pull, expected) = maps, segments, pulls
    n, d = nodes.shape
    residuals, gaps, merit = np.zeros((n, d)), np.zeros((n - 1, d)), 0.0
    for segment in range(len(bounds) - 1):
        for node in range(bounds[segment], bounds[segment + 1]):
            for i in range(d):
                if weights[node, i] > 0.0:
                    residuals[node, i] = values[node, i] - nodes[node, i]
                    merit += weights[node, i] * residuals[node, i] ** 2
                if node > bounds[segment]:
                    gaps[node - 1, i] = ends[node - 1, i] - nodes[node, i]
                    merit += typical[i] * gaps[node - 1, i] ** 2
    sensitivities, normal, moment = condense(tangents, gaps, residuals, weights, bounds)
    for k in range(len(heads)):
        for i in range(d):
            normal[heads[k], i, i] += pull[k, i]
            moment[heads[k], i] += pull[k, i] * (expected[k, i] - nodes[bounds[heads[k]], i])
    if not np.isfinite(normal).all():
        merit = np.inf
    return merit, sensitivities, normal, moment


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
def gauss_newton_step(normal, moment, sensitivities, bounds, prior, pull, damping):
    """The step of `damped_step` from the equations of `linearised`, starts eliminated.

    ``prior`` (q, q) and ``pull`` (q,) are precisions of the parameters and, times their distances from the
    mean, forces towards it.
    """
    d = sensitivities.shape[1]
    total, right, solved = eliminate_starts(normal, moment, d, damping)
    q = len(right)
    size = np.zeros(q)
    for a in range(q):
        right[a] += pull[a]
        for b in range(q):
            total[a, b] += prior[a, b]
        for s in range(len(normal)):
            size[a] += normal[s, d + a, d + a]
    return damped_step(total, right, solved, size, damping, sensitivities, bounds)


@_compiled
def eliminate(inverses, estimates):
    """Order in which regressions give up their terms, the cheapest one first, and the costs.

    Parameters
    ----------
    inverses : array (K, m, m)
        Inverse normal matrices of unit diagonal; overwritten.
    estimates : array (K, m)
        Least-squares coefficients; overwritten.

    Returns
    -------
    order : int array (K, m)
    costs : array (K, m)
        Rise of the residual sum of squares at each drop.
    """
    count, m = estimates.shape
    order, costs = np.empty((count, m), np.intp), np.empty((count, m))
    active = np.empty(m, np.bool_)
    for problem in range(count):
        inverse, c = inverses[problem], estimates[problem]
        for i in range(m):
            active[i] = True
        for step in range(m):
            j, least, pivot = -1, np.inf, 1.0
            for i in range(m):
                if active[i]:
                    # with unit diagonal the inverse's is at least one; less is rounding
                    own = max(inverse[i, i], 1.0)
                    rise = c[i] * c[i] / own
                    if rise < least or j < 0:
                        j, least, pivot = i, rise, own
            order[problem, step], costs[problem, step] = j, least
            active[j] = False
            for i in range(m):
                if active[i]:
                    factor = inverse[i, j] / pivot
                    c[i] -= factor * c[j]
                    for k in range(m):
                        inverse[i, k] -= factor * inverse[j, k]
    return order, costs


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


@_compiled
def spline_fit(differences, curvature, roughness, inverse_weights, y, penalty):
    """Values and second derivatives (n, k) of natural smoothing splines at their knots.

    Parameters
    ----------
    differences : tuple of three arrays (n - 2,)
        Weights of a knot's left neighbour, of itself and of its right neighbour in its second difference.
    curvature, roughness : arrays (3, n - 2)
        Bands whose sum, the second times ``penalty``, is the system's matrix; see `solve_pentadiagonal`.
    inverse_weights : array (n,)
        Noise variances.
    y : array (n, k)
        Data, one spline per column.
    penalty : float
        Of the squared second derivatives.

    References
    ----------
    P. J. Green, B. W. Silverman, Nonparametric Regression and Generalized Linear Models (1994), sect. 2.3.3.
    """
    (n, k), (left, middle, right) = y.shape, differences
    load = np.empty((n - 2, k))
    for i in range(n - 2):
        for c in range(k):
            load[i, c] = left[i] * y[i, c] + middle[i] * y[i + 1, c] + right[i] * y[i + 2, c]
    inner = solve_pentadiagonal(curvature + penalty * roughness, load)
    values, second, pull = np.empty((n, k)), np.zeros((n, k)), np.zeros((n, k))
    for i in range(n - 3, -1, -1):
        for c in range(k):
            second[i + 1, c] = inner[i, c]
            pull[i, c] += left[i] * inner[i, c]
            pull[i + 1, c] += middle[i] * inner[i, c]
            pull[i + 2, c] += right[i] * inner[i, c]
    for i in range(n):
        for c in range(k):
            values[i, c] = y[i, c] - penalty * inverse_weights[i] * pull[i, c]
    return values, second
