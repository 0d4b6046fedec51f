"""Compiled integration with sensitivities by any explicit Runge-Kutta method, where digits count."""

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled, inlined
from fim_dynsys.regression.kernels.sensitivities import (
    _add_product,
    _carry,
    slopes_of_one_field,
    stage_tangents,
)
from fim_dynsys.regression.kernels.terms import (
    LANES,
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
    given = row, column, parameters, free
    scratch = np.empty((len(terms[0]), LANES)), np.empty((3, m, LANES)), np.empty((m, d, LANES))
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
                    term_values(z, lanes, terms, in_use, scratch[0], scratch[1], own)
                    slopes_of_one_field(lanes, row, column, parameters, own, k[stage])
                    continue
                stage_tangents(
                    z, lanes, terms, in_use, given, scratch, own, k[stage], jacobians[stage], forcing[stage]
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
