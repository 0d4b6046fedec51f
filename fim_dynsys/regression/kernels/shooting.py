"""Compiled linear algebra of multiple shooting: condensing, elimination of starts, Gauss-Newton steps."""

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled, inlined


@inlined
def _chain(tangents: np.ndarray, gaps: np.ndarray, node: int, z: np.ndarray) -> None:
    """Sensitivities of a node from those of the node before it.

    The terms of a sum are added in turn, three to a loop.
    """
    d, size = tangents.shape[1:]
    for i in range(d):
        for c in range(d, size):
            z[node, i, c] = tangents[node - 1, i, c]
        z[node, i, size] = gaps[node - 1, i]
        for j in range(0, d, 3):
            first = tangents[node - 1, i, j]
            if j + 2 < d:
                second, third = tangents[node - 1, i, j + 1], tangents[node - 1, i, j + 2]
                for c in range(size + 1):
                    z[node, i, c] = (
                        z[node, i, c]
                        + first * z[node - 1, j, c]
                        + second * z[node - 1, j + 1, c]
                        + third * z[node - 1, j + 2, c]
                    )
            elif j + 1 < d:
                second = tangents[node - 1, i, j + 1]
                for c in range(size + 1):
                    z[node, i, c] = z[node, i, c] + first * z[node - 1, j, c] + second * z[node - 1, j + 1, c]
            else:
                for c in range(size + 1):
                    z[node, i, c] += first * z[node - 1, j, c]


@inlined
def _add_squares(rows: np.ndarray, own: np.ndarray, weights: np.ndarray, out: np.ndarray) -> None:
    """Add the weighted squares of rows, one after the other, to the lower triangle of ``out``.

    Four rows to a loop, which makes two lines of the sum: loops so short cost more than what is in them.
    """
    size, whole = len(out), len(own) - len(own) % 4
    for k in range(0, whole, 4):
        r0, r1, r2, r3 = own[k], own[k + 1], own[k + 2], own[k + 3]
        for a in range(0, size, 2):
            w0, w1 = weights[k] * rows[r0, a], weights[k + 1] * rows[r1, a]
            w2, w3 = weights[k + 2] * rows[r2, a], weights[k + 3] * rows[r3, a]
            if a + 1 < size:
                v0, v1 = weights[k] * rows[r0, a + 1], weights[k + 1] * rows[r1, a + 1]
                v2, v3 = weights[k + 2] * rows[r2, a + 1], weights[k + 3] * rows[r3, a + 1]
                for b in range(a + 2):
                    x0, x1, x2, x3 = rows[r0, b], rows[r1, b], rows[r2, b], rows[r3, b]
                    out[a, b] = out[a, b] + w0 * x0 + w1 * x1 + w2 * x2 + w3 * x3
                    out[a + 1, b] = out[a + 1, b] + v0 * x0 + v1 * x1 + v2 * x2 + v3 * x3
            else:
                for b in range(a + 1):
                    out[a, b] = (
                        out[a, b] + w0 * rows[r0, b] + w1 * rows[r1, b] + w2 * rows[r2, b] + w3 * rows[r3, b]
                    )
    for k in range(whole, len(own)):
        for a in range(size):
            weighted = weights[k] * rows[own[k], a]
            for b in range(a + 1):
                out[a, b] += weighted * rows[own[k], b]


@compiled
def condense(
    tangents: np.ndarray, gaps: np.ndarray, residuals: np.ndarray, weights: np.ndarray, bounds: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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
    rows, own = z.reshape(n * d, size + 1), np.empty(n * d, np.intp)
    inverse = np.empty(n * d)
    for segment in range(len(bounds) - 1):
        seen = 0
        for node in range(bounds[segment], bounds[segment + 1]):
            if node == bounds[segment]:
                for i in range(d):
                    z[node, i, i] = 1.0
            else:
                _chain(tangents, gaps, node, z)
            for i in range(d):
                weight = weights[node, i]
                if weight > 0.0:
                    own[seen], inverse[seen] = node * d + i, weight
                    seen += 1
                    target = residuals[node, i] - z[node, i, size]
                    for a in range(size):
                        weighted = weight * z[node, i, a]
                        if weighted != 0.0:
                            moment[segment, a] += weighted * target
        _add_squares(rows, own[:seen], inverse, normal[segment])
        for a in range(size):
            for b in range(a):
                normal[segment, b, a] = normal[segment, a, b]
    return z, normal, moment


@compiled
def linearised(
    maps: tuple[np.ndarray, np.ndarray],
    nodes: np.ndarray,
    values: np.ndarray,
    weights: np.ndarray,
    segments: tuple[np.ndarray, np.ndarray, np.ndarray],
    pulls: tuple[np.ndarray, np.ndarray],
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
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
    for value in normal.flat:
        if not np.isfinite(value):
            merit = np.inf
    return merit, sensitivities, normal, moment


@compiled
def _solve_spd(matrix: np.ndarray, right: np.ndarray) -> None:
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


@compiled
def eliminate_starts(
    normal: np.ndarray, moment: np.ndarray, d: int, damping: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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


@compiled
def damped_step(
    total: np.ndarray,
    right: np.ndarray,
    solved: np.ndarray,
    size: np.ndarray,
    damping: float,
    sensitivities: np.ndarray,
    bounds: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
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


@compiled
def gauss_newton_step(
    normal: np.ndarray,
    moment: np.ndarray,
    sensitivities: np.ndarray,
    bounds: np.ndarray,
    prior: np.ndarray,
    pull: np.ndarray,
    damping: float,
) -> tuple[np.ndarray, np.ndarray]:
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
