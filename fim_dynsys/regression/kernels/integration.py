"""Compiled integration of dictionary fields."""

import numpy as np

from fim_dynsys.regression.kernels.compiler import compiled
from fim_dynsys.regression.kernels.terms import (
    LANES,
    advance_stage,
    fill_inputs,
    right_hand_sides,
    term_values,
    terms_in_use,
)


@compiled
def integrate(
    terms: tuple[np.ndarray, ...],
    coefficients: np.ndarray,
    x0: np.ndarray,
    t: np.ndarray,
    counts: np.ndarray,
    bound: float,
    inputs: np.ndarray,
) -> np.ndarray:
    """Paths (K, T, n, d) of fields (K, m, d) from starts (K, T, d) at times (T, n), ``counts`` steps each.

    Terms may depend on inputs, coordinates behind the states: cubics (T, n - 1, 4, m) of the fraction of
    each interval.
    """
    n_fields, m, d = coefficients.shape
    n_trajectories, n = t.shape
    out = np.full((n_fields, n_trajectories, n, d), np.nan)
    table, values = np.empty((len(terms[0]), LANES)), np.empty((m, LANES))
    driven = inputs.shape[3] > 0
    begun, width, curves = np.empty(LANES), np.empty(LANES), np.empty((LANES, 4, inputs.shape[3]))
    x, z, k, total = (
        np.empty((d, LANES)),
        np.empty((d + inputs.shape[3], LANES)),
        np.empty((d, LANES)),
        np.empty((d, LANES)),
    )
    row, column, p = np.empty(m * d, np.intp), np.empty(m * d, np.intp), np.zeros((m * d, LANES))
    h, inside = np.empty(LANES), np.empty(LANES, np.bool_)
    for first in range(0, n_fields, LANES):
        lanes, active = min(LANES, n_fields - first), 0
        for j in range(d):
            for i in range(m):
                anywhere = False
                for r in range(lanes):
                    p[active, r] = coefficients[first + r, i, j]
                    anywhere = anywhere or p[active, r] != 0.0
                if anywhere:
                    row[active], column[active] = i, j
                    active += 1
        used, rows = terms_in_use(row[:active], terms)
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
                if driven:
                    for r in range(lanes):
                        curves[r] = inputs[trajectory, sample]
                        width[r] = 1.0 / count
                for step in range(count if h[0] > 0.0 else 0):
                    for i in range(d):
                        for r in range(lanes):
                            z[i, r] = x[i, r]
                    if driven:
                        for r in range(lanes):
                            begun[r] = step * width[r]
                    for stage in range(4):
                        if driven:
                            fill_inputs(stage, lanes, curves, begun, width, z)
                        term_values(z, lanes, terms, used, rows, table, values)
                        right_hand_sides(values, lanes, row[:active], column[:active], p, k)
                        advance_stage(stage, lanes, x, h, k, total, z)
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
