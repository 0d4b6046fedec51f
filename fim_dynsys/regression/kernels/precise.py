"""Compiled integration with sensitivities by any explicit Runge-Kutta method, where digits count."""

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled
from fim_dynsys.regression.kernels.sensitivities import _add_product, _forcing, _slope_and_jacobian
from fim_dynsys.regression.kernels.terms import (
    LANES,
    right_hand_sides,
    term_tangents,
    term_values,
    terms_in_use,
)


@compiled
def precise_maps(
    terms: tuple[np.ndarray, ...],
    row: np.ndarray,
    column: np.ndarray,
    parameters: np.ndarray,
    free: np.ndarray,
    nodes: np.ndarray,
    steps: np.ndarray,
    counts: np.ndarray,
    method: np.ndarray,
    sensitive: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Ends (N, d) and derivatives (N, d, d + q), as `interval_maps` gives them, by the method (s + 1, s).

    Rows of the method are its stages and, last, its weights. Derivatives are zeros unless asked for.
    """
    n, d, stages = len(nodes) - 1, nodes.shape[1], method.shape[1]
    size, inner = len(row), 0
    for f in range(len(free)):
        inner = max(inner, free[f, 2] + 1)
    width = d + size + inner
    ends, tangents = np.empty((n, d)), np.zeros((n, d, width))
    used, rows = terms_in_use(row, terms)
    m = len(terms[3])
    table, values = np.empty((len(terms[0]), LANES)), np.empty((m, LANES))
    gradient, jacobian = np.empty((m, d, LANES)), np.empty((d, d, LANES))
    x, z, k = np.empty((d, LANES)), np.empty((d, LANES)), np.empty((stages, d, LANES))
    forcing = np.zeros((d, inner, LANES))
    carried, moved = np.empty((d, width, LANES)), np.empty((d, width, LANES))
    slopes = np.empty((stages if sensitive else 1, d, width, LANES))
    h, spread = np.empty(LANES), np.empty((size, LANES))
    for a in range(size):
        for r in range(LANES):
            spread[a, r] = parameters[a]
    order = np.argsort(-counts)  # so that intervals whose steps are done stand last in a block
    for first in range(0, n, LANES):
        lanes = min(LANES, n - first)
        block = lanes
        for r in range(lanes):
            for i in range(d):
                x[i, r] = nodes[order[first + r], i]
        for i in range(d):
            for c in range(width):
                for r in range(lanes):
                    carried[i, c, r] = 1.0 if i == c else 0.0
        for step in range(counts[order[first]]):
            while counts[order[first + lanes - 1]] <= step:
                lanes -= 1
            for r in range(lanes):
                h[r] = steps[order[first + r]]
            for stage in range(stages + 1):
                for i in range(d):
                    for r in range(lanes):
                        z[i, r] = 0.0
                    for j in range(stage):
                        factor = method[stage, j]
                        if factor != 0.0:
                            for r in range(lanes):
                                z[i, r] += factor * k[j, i, r]
                    for r in range(lanes):
                        z[i, r] = x[i, r] + h[r] * z[i, r]
                if sensitive:
                    for i in range(d):
                        for c in range(width):
                            for r in range(lanes):
                                moved[i, c, r] = 0.0
                            for j in range(stage):
                                factor = method[stage, j]
                                if factor != 0.0:
                                    for r in range(lanes):
                                        moved[i, c, r] += factor * slopes[j, i, c, r]
                            for r in range(lanes):
                                moved[i, c, r] = carried[i, c, r] + h[r] * moved[i, c, r]
                if stage == stages:
                    break
                if not sensitive:
                    term_values(z, lanes, terms, used, rows, table, values)
                    right_hand_sides(values, lanes, row, column, spread, k[stage])
                    continue
                term_tangents(z, lanes, terms, used, rows, table, values, gradient)
                _slope_and_jacobian(
                    lanes, terms, row, column, parameters, values, table, gradient, k[stage], jacobian
                )
                if inner:
                    _forcing(z, lanes, terms, row, column, parameters, free, table, forcing)
                own = slopes[stage]
                for i in range(d):
                    for c in range(width):
                        for r in range(lanes):
                            own[i, c, r] = 0.0
                    for c in range(inner):
                        for r in range(lanes):
                            own[i, d + size + c, r] = forcing[i, c, r]
                for a in range(size):
                    for r in range(lanes):
                        own[column[a], d + a, r] = values[row[a], r]
                _add_product(lanes, jacobian, moved, own)
            for i in range(d):
                for r in range(lanes):
                    x[i, r] = z[i, r]
                if sensitive:
                    for c in range(width):
                        for r in range(lanes):
                            carried[i, c, r] = moved[i, c, r]
        for r in range(block):
            interval = order[first + r]
            for i in range(d):
                ends[interval, i] = x[i, r]
                if sensitive:
                    for c in range(width):
                        tangents[interval, i, c] = carried[i, c, r]
    return ends, tangents
