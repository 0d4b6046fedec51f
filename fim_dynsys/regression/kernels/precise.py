"""Compiled integration with sensitivities by any explicit Runge-Kutta method, where digits count."""

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled, inlined
from fim_dynsys.regression.kernels.sensitivities import _add_product, _carry, _forcing, _slope_and_jacobian
from fim_dynsys.regression.kernels.terms import (
    LANES,
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
    in_use = terms_in_use(row, terms)
    m = len(terms[3])
    table, gradient = np.empty((len(terms[0]), LANES)), np.empty((m, d, LANES))
    functions = np.empty((3 if sensitive else 1, m, LANES))
    x, z, k = np.empty((d, LANES)), np.empty((d, LANES)), np.empty((stages, d, LANES))
    blocks = stages if sensitive else 1
    all_values, jacobians = np.empty((blocks, m, LANES)), np.empty((blocks, d, d, LANES))
    forcing = np.empty((blocks, d, inner, LANES))
    by_slope, owed = np.empty((blocks, d, d, LANES)), np.empty((blocks, d, d, LANES))
    whole, carried = np.empty((d, d, LANES)), np.empty((2, d, width, LANES))
    h = np.empty(LANES)
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
                    carried[0, i, c, r] = 1.0 if i == c else 0.0
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
                if stage == stages:
                    break
                own = all_values[stage if sensitive else 0]
                if not sensitive:
                    term_values(z, lanes, terms, in_use, table, functions, own)
                    _slopes_of_one_field(own, lanes, row, column, parameters, k[stage])
                    continue
                term_tangents(z, lanes, terms, in_use, table, functions, own, gradient)
                _slope_and_jacobian(
                    lanes, terms, row, column, parameters, own, table, gradient, k[stage], jacobians[stage]
                )
                if inner:
                    _forcing(
                        z,
                        lanes,
                        terms,
                        row,
                        column,
                        parameters,
                        free,
                        table,
                        in_use[2],
                        functions,
                        forcing[stage],
                    )
            if sensitive:
                _owed_to_slopes(h, lanes, method, jacobians, owed, by_slope, whole)
                before, after = carried[step % 2], carried[(step + 1) % 2]
                _carry(lanes, whole, before, by_slope, all_values, forcing, row, column, after)
            for i in range(d):
                for r in range(lanes):
                    x[i, r] = z[i, r]
        for r in range(block):
            interval = order[first + r]
            for i in range(d):
                ends[interval, i] = x[i, r]
                if sensitive:
                    for c in range(width):
                        tangents[interval, i, c] = carried[counts[interval] % 2, i, c, r]
    return ends, tangents


@inlined
def _slopes_of_one_field(
    values: np.ndarray,
    lanes: int,
    row: np.ndarray,
    column: np.ndarray,
    parameters: np.ndarray,
    out: np.ndarray,
) -> None:
    """Right-hand sides (d, lanes) of the same coefficients at all points."""
    for i in range(len(out)):
        for r in range(lanes):
            out[i, r] = 0.0
    for a in range(len(row)):
        term, at, coefficient = row[a], column[a], parameters[a]
        if coefficient != 0.0:  # a zero is no term, whatever its value
            for r in range(lanes):
                out[at, r] += coefficient * values[term, r]


@inlined
def _owed_to_slopes(
    h: np.ndarray,
    lanes: int,
    method: np.ndarray,
    jacobians: np.ndarray,
    owed: np.ndarray,
    by_slope: np.ndarray,
    whole: np.ndarray,
) -> None:
    """Derivatives of one step by the slopes of its stages (s, d, d, lanes) and, ``whole``, by its start.

    They are gathered from the last stage back, as few as states, however many parameters there are:
    ``by_slope[s]`` is what the end owes to that stage's slope, ``owed[s]`` to the state where it is taken.
    """
    d, stages = len(whole), len(by_slope)
    for i in range(d):
        for j in range(d):
            for r in range(lanes):
                whole[i, j, r] = 1.0 if i == j else 0.0
    for stage in range(stages - 1, -1, -1):
        for i in range(d):
            for j in range(d):
                weight = method[stages, stage] if i == j else 0.0
                for r in range(lanes):
                    by_slope[stage, i, j, r] = weight
                for later in range(stage + 1, stages):
                    factor = method[later, stage]
                    if factor != 0.0:
                        for r in range(lanes):
                            by_slope[stage, i, j, r] += factor * owed[later, i, j, r]
                for r in range(lanes):
                    by_slope[stage, i, j, r] *= h[r]
                    owed[stage, i, j, r] = 0.0
        _add_product(lanes, by_slope[stage], jacobians[stage], owed[stage])
        for i in range(d):
            for j in range(d):
                for r in range(lanes):
                    whole[i, j, r] += owed[stage, i, j, r]
